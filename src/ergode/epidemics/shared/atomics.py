"""How threads of a grid work together: atomic updates and barriers on CUDA.

On the CPU one thread takes the place of the grid, and of a warp: updates are plain.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda

_EVERY_LANE = np.uint32(0xFFFFFFFF)


def _add_cpu(array, at, value):
    before = array[at]
    array[at] = before + value
    return before


def _add_cuda(array, at, value):
    return cuda.atomic.add(array, at, value)


def _raise_cpu(array, at, value):
    array[at] = max(array[at], value)


def _raise_cuda(array, at, value):
    cuda.atomic.max(array, at, value)


def _lower_cpu(array, at, value):
    array[at] = min(array[at], value)


def _lower_cuda(array, at, value):
    cuda.atomic.min(array, at, value)


def _exchange_cpu(array, at, value):
    before = array[at]
    array[at] = value
    return before


def _exchange_cuda(array, at, value):
    return cuda.atomic.exch(array, at, value)


def _nothing():
    return np.int32(0)


def _whole_grid_cuda():
    return cuda.cg.this_grid()


def _sync_cpu(grid):
    return grid


def _sync_cuda(grid):
    grid.sync()
    return np.int32(0)


def _fence_cuda():
    cuda.threadfence()
    return np.int32(0)


def _claim_cpu(wanted, waiting, slot, lane):
    return np.int64(_add_cpu(waiting, (np.int64(0), slot), np.int32(wanted)))


def _claim_cuda(wanted, waiting, slot, lane):
    mask = cuda.ballot_sync(_EVERY_LANE, wanted)
    at = np.int32(0)
    if lane == 0 and mask != 0:
        at = cuda.atomic.add(waiting, (np.int64(0), slot), np.int32(cuda.popc(mask)))
    at = cuda.shfl_sync(_EVERY_LANE, at, 0)
    return np.int64(at) + np.int64(cuda.popc(np.uint32(mask & ((1 << lane) - 1))))


add = ByTarget(cpu=_add_cpu, cuda=_add_cuda)
"""``add(array, at, value)`` adds to an element and returns its previous value."""
raise_to = ByTarget(cpu=_raise_cpu, cuda=_raise_cuda)
"""``raise_to(array, at, value)`` makes an element at least as large."""
lower_to = ByTarget(cpu=_lower_cpu, cuda=_lower_cuda)
"""``lower_to(array, at, value)`` makes an element at most as large."""
exchange = ByTarget(cpu=_exchange_cpu, cuda=_exchange_cuda)
"""``exchange(array, at, value)`` sets an element and returns its previous value."""
whole_grid = ByTarget(cpu=_nothing, cuda=_whole_grid_cuda)
"""``whole_grid()`` is the cooperative grid of a kernel."""
sync = ByTarget(cpu=_sync_cpu, cuda=_sync_cuda)
"""``sync(grid)`` waits for all threads of the grid."""
fence = ByTarget(cpu=_nothing, cuda=_fence_cuda)
"""``fence()`` orders writes before it, for other threads, before those after it."""
claim = ByTarget(cpu=_claim_cpu, cuda=_claim_cuda)
"""``claim(wanted, waiting, slot, lane)`` adds the lanes that want a place to ``waiting[0, slot]``.

All lanes of a warp call it together.  Returns the place of each.
"""
