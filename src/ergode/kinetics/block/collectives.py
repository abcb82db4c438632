"""Collective operations of the threads of a block.

All threads of a block call each function together. A docstring says where one ends in a barrier.
"""

from __future__ import annotations

from ergode.core.compiler.language import cuda, option, real

ALL = -1  # every lane of a warp


def block_sum(value, scratch, slot):
    """Sum over all threads, for all threads, with one barrier.

    Two reductions without a barrier between them need different slots, 0 or 1.
    """
    for shift in range(5):
        value += cuda.shfl_down_sync(ALL, value, 16 >> shift)
    if cuda.threadIdx.x & 31 == 0:
        scratch[8 * slot + (cuda.threadIdx.x >> 5)] = value
    cuda.syncthreads()
    o = 8 * slot
    left = (scratch[o] + scratch[o + 1]) + (scratch[o + 2] + scratch[o + 3])
    return left + ((scratch[o + 4] + scratch[o + 5]) + (scratch[o + 6] + scratch[o + 7]))


def block_max(value, scratch, slot):
    """Largest value of all threads, as `block_sum`; NaN counts as largest."""
    for shift in range(5):
        other = cuda.shfl_down_sync(ALL, value, 16 >> shift)
        value = value if value >= other or value != value else other
    if cuda.threadIdx.x & 31 == 0:
        scratch[8 * slot + (cuda.threadIdx.x >> 5)] = value
    cuda.syncthreads()
    largest = 0.0
    for warp in range(8):
        other = scratch[8 * slot + warp]
        largest = largest if largest >= other or largest != largest else other
    return largest


def _next_zone(counter, scratch):
    """Next zone of this block, from a queue.

    Clears the scratch memory of reductions. Begins and ends in a barrier.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x < 16:
        scratch[cuda.threadIdx.x] = 0.0
    if cuda.threadIdx.x == 0:
        scratch[16] = real(cuda.atomic.add(counter, 0, 1))
    cuda.syncthreads()
    zone = int(scratch[16])
    cuda.syncthreads()
    return zone


next_zone = option(_next_zone)
"""Next zone of this block, or thread."""
