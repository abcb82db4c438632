"""The thread group of a zone: a block of threads on CUDA, one thread on the CPU.

These functions let a method be written once for both. Each thread takes every `thread_count()`-th
item of a loop, from item `thread_rank()` on. A `barrier()` separates writes from reads by other
threads. `total_of` and `largest_of` return the sum, or the largest value, over all threads to every
thread; they contain a barrier. Two reductions without a `barrier()` between them need different
slots, 0 or 1, of their scratch memory.
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
"""Bindings for one thread per zone on CUDA."""
