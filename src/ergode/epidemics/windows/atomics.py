"""Updates of array elements: atomic on CUDA, plain on the CPU.

On the CPU, one thread has a replicate and its arrays to itself.
"""

from __future__ import annotations

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


add = ByTarget(cpu=_add_cpu, cuda=_add_cuda)
"""``add(array, at, value)`` adds to an element and returns its previous value."""
raise_to = ByTarget(cpu=_raise_cpu, cuda=_raise_cuda)
"""``raise_to(array, at, value)`` makes an element at least as large."""
lower_to = ByTarget(cpu=_lower_cpu, cuda=_lower_cuda)
"""``lower_to(array, at, value)`` makes an element at most as large."""
