"""The thread group of a zone: a block of threads on CUDA, one thread on the CPU.

These functions let a method be written once for both. Every thread does every
`thread_count()`-th part of the work, beginning with part `thread_rank()`. All threads pass a
`barrier()` before one reads what another wrote. `total_of` and `largest_of` return the sum, or the
largest value, over all threads to every thread; they contain a barrier. Two reductions without a
`barrier()` between them need different slots, 0 or 1, of their scratch memory.
"""

from __future__ import annotations

from ergode.core.compiler.language import ByTarget, cuda, option
from ergode.kinetics.block.collectives import block_max, block_sum
from ergode.kinetics.tables import NONNEGATIVE


def _first():
    return 0


def _thread():
    return cuda.threadIdx.x & NONNEGATIVE


def _one():
    return 1


def _threads():
    return cuda.blockDim.x


def _go_on():
    pass


def _barrier():
    cuda.syncthreads()


def _own(value, scratch, slot):
    return value


thread_rank = option(ByTarget(cpu=_first, cuda=_thread))
thread_count = option(ByTarget(cpu=_one, cuda=_threads))
barrier = option(ByTarget(cpu=_go_on, cuda=_barrier))
total_of = option(ByTarget(cpu=_own, cuda=block_sum))
largest_of = ByTarget(cpu=_own, cuda=block_max)

ALONE = {thread_rank: _first, thread_count: _one, barrier: _go_on, total_of: _own}
"""Bindings by which a thread on CUDA has a zone for itself."""
