"""Freed blocks of a GPU's memory, kept for the next arrays of about the same size.

The driver takes 50 microseconds to allocate or free a block, more than many kernels run.  Kernels
and copies of a device run one after another, so a new array may use a block at once, although
kernels that use its old content may still have to run.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

SHARE = 1 / 16
"""Largest fraction of a device's memory for kept blocks."""
_LEAST = 512  # bytes


def block_size(size: int) -> int:
    """Size of a block for an array of `size` bytes: at most an eighth more, or 512 bytes."""
    step = max(_LEAST, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


class Blocks:
    """Kept blocks of one device.

    Parameters
    ----------
    most : int
        Largest total size of the kept blocks [bytes].
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # Arrays are freed in any thread, at any line: only operations that are atomic are used. But
        # a sum of sizes is only compared with the limit: a lost addition does no harm.
        self._kept: defaultdict[int, deque[Any]] = defaultdict(deque)
        self._given = 0  # at least what is kept: blocks that were taken since are not subtracted

    def take(self, size: int, allocate: Callable[[int], Any]) -> Any:
        """A block of `size` bytes, which is a `block_size`: a kept one, or a new one."""
        try:
            return self._kept[size].pop()
        except IndexError:
            pass
        try:
            return allocate(size)
        except Exception:  # no memory is left, perhaps
            if not self.clear():
                raise
        return allocate(size)

    def give_back(self, size: int, block: Any) -> None:
        """Keep a block of `size` bytes, or free it if there are too many."""
        self._given += size
        if self._given > self._most:
            self._given = self.size + size  # to count all takes longer than to launch a kernel
        if self._given <= self._most:
            self._kept[size].append(block)

    @property
    def size(self) -> int:
        """Total size of the kept blocks [bytes]."""
        return sum(size * len(kept) for size, kept in list(self._kept.items()))

    def clear(self) -> int:
        """Free all kept blocks; return their size [bytes]."""
        freed = self.size
        self._kept.clear()
        return freed


_OF_DEVICES: dict[int, Blocks] = {}


def blocks_of(index: int, memory_bytes: Callable[[], int]) -> Blocks:
    """Kept blocks of a CUDA device."""
    found = _OF_DEVICES.get(index)
    if found is None:
        found = _OF_DEVICES.setdefault(index, Blocks(int(SHARE * memory_bytes())))
    return found


def clear() -> int:
    """Free the kept blocks of all devices; return their size [bytes]."""
    return sum(blocks.clear() for blocks in _OF_DEVICES.values())
