"""NumPy's work on large arrays, slice by slice on all cores.

A slice is small enough for a core's cache. The pages of a new array are made by several threads,
too: one of them makes 5 GB/s, and a driver that copies into pages that are not there 3 GB/s.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_LARGE = 1 << 23  # bytes; starting threads takes as long as filling this


def in_slices(work: Callable[[slice], None], count: int, size: int, threads: int) -> None:
    """Call `work` for slices of `size` rows of `count`."""
    parts = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    if len(parts) < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        for _ in pool.map(work, parts):
            pass


def full(shape: tuple[int, ...], value: float, dtype: Any, threads: int) -> np.ndarray:
    """An array that is filled with a value."""
    array = np.empty(shape, dtype)
    if array.nbytes < _LARGE:
        array.fill(value)
    else:
        flat = array.reshape(-1)
        in_slices(lambda part: flat[part].fill(value), flat.size, -(-flat.size // threads), threads)
    return array
