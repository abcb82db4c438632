"""What the threads that share a zone do together: a block of them on CUDA, one alone on the CPU.

With these words a method is written once. Every thread does every `size()`-th part of the work from
`rank()` on, and all of them `wait()` before one reads what another wrote. `total_of` and
`largest_of` give every thread the sum, or the largest, of what all bring, and wait on the way; two
that follow one another without a `wait()` between need different slots, 0 or 1, of their room.
"""

from __future__ import annotations

from ergode.core.compiler.language import ByTarget, cuda
from ergode.kinetics.block.group import block_max, block_sum
from ergode.kinetics.network.mechanism import NATURAL


def _first():
    return 0


def _thread():
    return cuda.threadIdx.x & NATURAL


def _one():
    return 1


def _threads():
    return cuda.blockDim.x


def _go_on():
    pass


def _barrier():
    cuda.syncthreads()


def _own(value, room, slot):
    return value


ALONE = {"rank": _first, "size": _one, "wait": _go_on, "total_of": _own}
"""Bindings by which a thread on CUDA has a zone for itself."""

rank = ByTarget(cpu=_first, cuda=_thread)
size = ByTarget(cpu=_one, cuda=_threads)
wait = ByTarget(cpu=_go_on, cuda=_barrier)
total_of = ByTarget(cpu=_own, cuda=block_sum)
largest_of = ByTarget(cpu=_own, cuda=block_max)
