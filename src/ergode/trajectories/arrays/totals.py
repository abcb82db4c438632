"""Barriers of a group of threads, and sums over it."""

from __future__ import annotations

from ergode.core.barriers import barrier_cpu
from ergode.core.compiler.language import ByTarget, cuda, option, real


def alone(thread_count, barrier_words):
    pass


barrier = option(barrier_cpu)
"""``barrier(group size, words)`` waits for all threads of the group."""
IN_BLOCK = option(False)  # on CUDA, whether a group has more than one thread
IN_GRID = option(False)  # and more than one block


def _totals_cpu(group, first, second, w):
    return first, second


def _totals_cuda(group, first, second, w):
    if IN_BLOCK:
        first, second = sums_of_block(first, second, w.scratch)
    if IN_GRID:
        if cuda.threadIdx.x == 0:
            w.parts[0, cuda.blockIdx.x] = first
            w.parts[1, cuda.blockIdx.x] = second
        barrier(group.size, w.words)
        first, second = sums_of_parts(0, 1, w)
        barrier(group.size, w.words)
    return first, second


totals = ByTarget(cpu=_totals_cpu, cuda=_totals_cuda)
"""``totals(group, first, second, w)``: two sums over all threads of a group, of one on a CPU."""


def sums_of_parts(one, other, w):
    """Two rows of `w.parts`, each summed over the blocks of a grid by the threads of a block."""
    first, second = real(0.0), real(0.0)
    for block in range(cuda.threadIdx.x, cuda.gridDim.x, cuda.blockDim.x):
        first += w.parts[one, block]
        second += w.parts[other, block]
    return sums_of_block(first, second, w.scratch)


def sums_of_block(first, second, scratch):
    """Two sums over the threads of a block; every thread receives them."""
    for shift in range(5):
        first += cuda.shfl_down_sync(-1, first, 16 >> shift)
        second += cuda.shfl_down_sync(-1, second, 16 >> shift)
    cuda.syncthreads()
    if cuda.threadIdx.x & 31 == 0:
        scratch[0, cuda.threadIdx.x >> 5] = first
        scratch[1, cuda.threadIdx.x >> 5] = second
    cuda.syncthreads()
    first, second = real(0.0), real(0.0)
    for warp in range(cuda.blockDim.x >> 5):
        first += scratch[0, warp]
        second += scratch[1, warp]
    return first, second
