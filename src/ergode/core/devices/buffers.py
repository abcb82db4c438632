"""Arrays that stay on a device: scratch memory of a run, and networks reused across calls."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from ergode.core.devices import Device, blocks

_SHARE = 0.25
"""Largest fraction of a device's memory for kept copies."""
_SMALL = 2**16
"""Largest array that is kept by its content, such as the table of a model [bytes]."""
_SMALL_MOST = 4096
"""Largest number of kept small arrays."""


class Scratch:
    """Named arrays; each has the shape that was last requested.

    Parameters
    ----------
    device : Device
        Where they are.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._held: dict[str, Any] = {}

    def array(self, name: str, shape: int | tuple[int, ...], dtype: Any, zero: bool = False) -> Any:
        """The array of this name, reused if the shape is unchanged; zeroed only if `zero`."""
        held = self._held.get(name)
        if held is None or held.shape != (shape if isinstance(shape, tuple) else (shape,)):
            self._held.pop(name, None)  # free the old one before its successor is allocated
            self._held[name] = held = self._device.empty(shape, dtype)
        if zero:
            self._device.fill_zero(held)
        return held


class _Kept:
    """Copies of host arrays on CUDA devices; the least recently used ones are dropped."""

    def __init__(self) -> None:
        # Key: array and device. Value: finalizer of the array, the copy, its size in bytes.
        self._copies: OrderedDict[tuple[int, str], tuple[Any, Any, int]] = OrderedDict()
        self._small: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = RLock()  # an array may be freed while this thread holds it

    def small(self, array: np.ndarray, device: Device) -> Any:
        """The copy of a small array, shared by all arrays with equal content."""
        key = device.name, array.shape, array.dtype, array.tobytes()
        with self._lock:
            if key in self._small:
                self._small.move_to_end(key)
                return self._small[key]
        copy = device.put(array)
        with self._lock:
            self._small[key] = copy
            if len(self._small) > _SMALL_MOST:
                self._small.popitem(last=False)
        return copy

    def copy(self, array: np.ndarray, device: Device) -> Any:
        key = id(array), device.name
        with self._lock:
            if key in self._copies:
                self._copies.move_to_end(key)
                return self._copies[key][1]
        copy = device.put(array)
        if array.nbytes <= _SHARE * device.memory_bytes:
            # A new array may get the `id` of one that was freed.
            end = weakref.finalize(array, self._forget, key)
            end.atexit = False
            with self._lock:
                self._copies[key] = end, copy, array.nbytes
                self._shrink(device)
        return copy

    def _shrink(self, device: Device) -> None:
        mine = [(key, size) for key, (_, _, size) in list(self._copies.items())
                if key[1] == device.name]  # fmt: skip
        total = sum(size for _, size in mine)
        for key, size in mine:
            if total <= _SHARE * device.memory_bytes:
                return
            total -= size
            self._forget(key)

    def _forget(self, key: tuple[int, str]) -> int:
        """Drop a copy; return its size [bytes]."""
        with self._lock:
            end, _, size = self._copies.pop(key, (None, None, 0))
        if end is not None:
            end.detach()
        return size

    def clear(self) -> int:
        with self._lock:
            freed = sum(copy.nbytes for copy in self._small.values())
            self._small.clear()
            return freed + sum(self._forget(key) for key in list(self._copies))


_KEPT = _Kept()


_Table = TypeVar("_Table", bound=tuple[Any, ...])


def put_kept(device: Device, array: np.ndarray) -> Any:
    """Put an array that no kernel writes to on a device; on a CUDA device copies are kept.

    Small arrays with equal content share a copy.  The copy of a larger array is kept while the
    array lives, but only if the array is read-only: otherwise the copy could become stale.
    """
    if device.is_cuda:
        if array.nbytes <= _SMALL and not array.dtype.hasobject:
            return _KEPT.small(array, device)
        if not array.flags.writeable:
            return _KEPT.copy(array, device)
    return device.put(array)


def put_table(device: Device, table: _Table) -> _Table:
    """Put a (nested) named tuple of arrays and numbers on a device with `put_kept`."""

    def there(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return put_kept(device, value)
        return put_table(device, value) if isinstance(value, tuple) else value

    return type(table)(*map(there, table))


def release() -> int:
    """Free the memory of GPUs that ergode keeps between calls.

    Copies of networks and of other tables take at most a quarter of a device's memory; a copy is
    also freed with its network.  Freed memory that is kept for later arrays takes at most a
    sixteenth.

    Returns
    -------
    int
        Freed memory [bytes].

    Examples
    --------
    >>> import ergode
    >>> ergode.release() >= 0
    True
    """
    return _KEPT.clear() + blocks.clear()
