"""Updates that are atomic on CUDA.

On the CPU one thread takes the place of a grid: they are plain.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda


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


def _fence_cuda():
    cuda.threadfence()
    return np.int32(0)


add = ByTarget(cpu=_add_cpu, cuda=_add_cuda)
"""``add(array, at, value)`` adds to an element and returns its previous value."""
raise_to = ByTarget(cpu=_raise_cpu, cuda=_raise_cuda)
"""``raise_to(array, at, value)`` makes an element at least as large."""
lower_to = ByTarget(cpu=_lower_cpu, cuda=_lower_cuda)
"""``lower_to(array, at, value)`` makes an element at most as large."""
exchange = ByTarget(cpu=_exchange_cpu, cuda=_exchange_cuda)
"""``exchange(array, at, value)`` sets an element and returns its previous value."""
fence = ByTarget(cpu=_nothing, cuda=_fence_cuda)
"""``fence()`` orders writes before it, for other threads, before those after it."""
