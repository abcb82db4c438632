"""Cells of a lattice on a device: chosen by their weights, and divided.

A cell has its place along each axis, and its neighbours. Flags of cells become numbers by counts of
groups; cells that are not there yet are found in a table of keys. The order of cells does not
depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.density.flow import on_cpu, points_kernels, sums
from ergode.density.grid import lattice

_NOTHING = -1e300  # logarithm of a weight below all
_PARTS = 1024  # groups of points, at most, that one thread each goes through
_TOGETHER = 32  # of them that one thread adds up


@lru_cache(maxsize=64)
def kernel_of(body: Callable[..., Any], size: int = 0) -> kernels.Kernel:
    """The kernel of a body, which may be made for a number of variables."""
    return kernels.for_each(body, bindings={lattice.DIMENSION: size} if size else {})


def run(device: Device, body: Callable[..., Any], count: int, *arguments: Any) -> None:
    """Run a kernel for each of some points, or on a CPU what it is in `on_cpu`."""
    if device.is_cuda:
        device.run(kernel_of(body), count, *arguments)
    else:
        getattr(on_cpu, body.__name__)(*arguments)


def run_parts(
    device: Device, body: Callable[..., Any], count: int, *arguments: Any, times: int = 1
) -> None:
    """The same for each group of `count` points, or for `times` as many groups."""
    parts = parts_of(device, count)
    if device.is_cuda:
        device.run(kernel_of(body), times * parts, count, parts, *arguments)
    else:
        getattr(on_cpu, body.__name__)(*arguments)


def parts_of(device: Device, count: int) -> int:
    """Number of groups of points, a power of two."""
    return min(_PARTS, 1 << (count // 16).bit_length()) if device.is_cuda else 1


@dataclass(frozen=True)
class Cells:
    """Cells of a lattice, on a device, with what the host asks of them."""

    device: Device
    index: Any  # [1 + axis, cell]: component and place
    beside: Any  # [axis, 2, cell]: neighbours, or -1
    points: Any  # [variable, 1, cell]: at the first time
    log: Any  # [1, cell]: logarithms of weights there
    sign: Any  # [cell]
    rim: Any  # [cell]: whether it is at the edge

    def __len__(self) -> int:
        return int(self.sign.size)

    @cached_property
    def host_index(self) -> np.ndarray:
        """As `index` of a `Start`."""
        return np.ascontiguousarray(np.asarray(self.device.get(self.index)).T)

    @cached_property
    def host_points(self) -> np.ndarray:
        """As `points` of a `Start`."""
        return np.ascontiguousarray(np.asarray(self.device.get(self.points))[:, 0].T)

    def host(self, name: str) -> np.ndarray:
        """An array on the host."""
        return np.array(self.device.get(getattr(self, name)))

    def only(self, numbers: Any, chosen: Any) -> Cells:
        """The `chosen` cells; `numbers` [cell] are those that they get, or -1."""
        device, count = self.device, chosen.size
        beside = device.empty((*self.beside.shape[:2], count), np.int32)
        rim = device.empty(count, np.int8)
        run(
            device, points_kernels.renumber, count, numbers, chosen, self.beside, beside, rim
        )  # fmt: skip
        index, points, log, sign = (
            columns(device, one, chosen) for one in (self.index, self.points, self.log, self.sign)
        )
        return Cells(device, index, beside, points, log, sign, rim)


def columns(device: Device, source: Any, chosen: Any) -> Any:
    """The columns of an array [..., point] whose numbers are `chosen`, on the device."""
    if not device.is_cuda:
        return source.take(chosen, axis=-1)
    old, new = source.shape[-1], chosen.size
    rows = source.size // old
    out = device.empty((*source.shape[:-1], new), source.dtype)
    run(
        device, points_kernels.choose, rows * new, new, chosen, source.reshape((rows, old)),
        out.reshape((rows, new)),
    )  # fmt: skip
    return out


FEW_SUMS = 1 << 16
"""Numbers that are brought to the host in less time than it takes to add them on a GPU."""


def added_in_order(found: np.ndarray, fewer: int) -> np.ndarray:
    """Sums [..., group] of fewer groups, one after the other, as `sums.gather` adds them."""
    parts = found.reshape(*found.shape[:-1], fewer, -1)
    return np.asarray(np.add.accumulate(parts, axis=-1)[..., -1])


def added(device: Device, found: Any) -> np.ndarray:
    """Sums [...] of an array [..., group]; the device adds most groups, if they are many."""
    if not device.is_cuda:
        return np.asarray(found.sum(axis=-1))
    groups = found.shape[-1]
    rows, fewer = found.size // groups, max(1, groups // _TOGETHER)
    if found.size <= FEW_SUMS:
        return np.asarray(added_in_order(np.asarray(device.get(found)), fewer).sum(axis=-1))
    out = device.empty((*found.shape[:-1], fewer), np.float64)
    device.run(kernel_of(sums.gather), rows * fewer, groups, fewer, flat(found), flat(out))
    return np.asarray(device.get(out)).sum(axis=-1)


def flat(array: Any) -> Any:
    """An array [..., group] as one of rows."""
    groups = array.shape[-1]
    return array if array.ndim == 2 else array.reshape((array.size // groups, groups))


def numbered(device: Device, flags: Any) -> tuple[Any, int]:
    """Numbers of the flags that are set, -1 for others, on the device; and how many are."""
    if not device.is_cuda or flags.size <= _FEW_FLAGS:
        are_set = np.asarray(device.get(flags)) != 0
        numbers = np.cumsum(are_set, dtype=np.int32)
        return device.put(np.where(are_set, numbers - 1, -1)), int(numbers[-1])
    begin, count = _begins(device, flags)
    numbers = device.empty(flags.size, np.int32)
    device.run(
        kernel_of(points_kernels.number_flags), begin.size, flags.size, begin, flags, numbers
    )
    return numbers, count


def places_of(device: Device, flags: Any) -> tuple[Any, int]:
    """Places of the flags that are set, on the device; and how many are."""
    if not device.is_cuda or flags.size <= _FEW_FLAGS:
        places = np.flatnonzero(device.get(flags))
        return device.put(places), places.size
    begin, count = _begins(device, flags)
    places = device.empty(count, np.int64)
    device.run(kernel_of(points_kernels.place_flags), begin.size, flags.size, begin, flags, places)
    return places, count


_FEW_FLAGS = 1 << 15  # that the host numbers in less time than the launches for them take


def _begins(device: Device, flags: Any) -> tuple[Any, int]:
    """The number of the first flag that is set in each group, on a GPU; and how many are set.

    The host adds up the counts of groups, which are few.
    """
    groups = -(-flags.size // points_kernels.GROUP)
    counts = device.empty(groups, np.int32)
    device.run(kernel_of(points_kernels.count_flags), groups, flags.size, flags, counts)
    begin = np.zeros(groups + 1, np.int32)
    np.cumsum(device.get(counts), out=begin[1:])
    return device.put(begin[:-1]), int(begin[-1])


def least_of(device: Device, *asked: tuple[float, Any, Sequence[float]]) -> list[float]:
    """Logarithms of weights, such that those below hold at most each of some shares of the sum.

    Of one or two weights `asked` are their top, logarithms [1, point], and shares. They are the
    largest, but for an eighth: weights are counted in bins below the top, which is at least the
    largest.
    """
    (top, one, _), (other_top, other, _) = asked[0], asked[-1]
    count, bins = one.size, points_kernels.BINS
    out = device.zeros((len(asked), bins, parts_of(device, count)), np.float64)
    run_parts(
        device, points_kernels.bin_weights, count, top, other_top, one, other, out,
        times=len(asked),
    )  # fmt: skip
    least = []
    for (top, _, shares), found in zip(asked, added(device, out), strict=True):
        below = found.sum() - np.cumsum(found)  # what is fainter than each bin
        each = [int(np.argmax(below <= share * found.sum())) for share in shares]
        least += [top - (k + 1) / 8.0 if k < bins - 1 else _NOTHING for k in each]
    return least


class Table:
    """Chosen cells, and those that central ones lack beside them, by their places."""

    def __init__(self, cells: Cells, central: Any, chosen: Any) -> None:
        self.device = device = cells.device
        if not device.is_cuda:
            self.index = on_cpu.with_neighbours(cells.index, cells.beside, central, chosen)
            return
        count = len(cells)
        axes = cells.index.shape[0] - 1
        missing = device.empty(2 * axes * count, np.int8)
        run(
            device, points_kernels.mark_beside, count, count, cells.beside, central, chosen, missing
        )  # fmt: skip
        some, kept = places_of(device, chosen)
        lacking, most = places_of(device, missing)
        room = 1 << int(2 * (kept + most) + 15).bit_length()
        self.keys, self.values = both = device.zeros_together(2 * [((room,), np.int64)])
        more = 0
        if most:
            flags = device.empty(most, np.int8)
            run(device, points_kernels.claim, most, lacking, cells.index, *both)
            run(device, points_kernels.is_claimed, most, lacking, cells.index, *both, flags)
            made, more = numbered(device, flags)
        self.index = device.empty((1 + axes, kept + more), np.int32)
        run(device, points_kernels.take_cell, kept, some, cells.index, self.index, *both)
        if more:
            run(
                device, points_kernels.make_cell, most, kept, lacking, made, cells.index,
                self.index, *both,
            )  # fmt: skip

    def __len__(self) -> int:
        return int(self.index.shape[1])

    def divided(self, along: np.ndarray, origins: np.ndarray, edges: np.ndarray) -> Cells:
        """The cells, each divided into parts `along` each axis; weights are not set yet.

        `origins` [component, axis] are the parts of index zero, and `edges` [component, axis, axis]
        those of the parts.
        """
        device, axes = self.device, len(along)
        each = int(np.prod(along))
        count = len(self) * each
        if not device.is_cuda:
            index, beside, points, sign, rim = on_cpu.divided(self.index, along, origins, edges)
            return Cells(device, index, beside, points, np.empty((1, count)), sign, rim)
        index = device.empty((1 + axes, count), np.int32)
        beside = device.empty((axes, 2, count), np.int32)
        points, log = (
            device.empty((axes, 1, count), np.float64),
            device.empty((1, count), np.float64),
        )
        sign, rim = device.empty(count, np.int8), device.empty(count, np.int8)
        there = device.put_together([along.astype(np.int64), origins, edges])
        run(
            device, points_kernels.divide, count, each, *there, self.index, self.keys, self.values,
            index, beside, points, sign, rim,
        )  # fmt: skip
        return Cells(device, index, beside, points, log, sign, rim)
