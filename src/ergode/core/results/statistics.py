"""Means, variances and quantiles over replicates, independent of how replicates are chunked.

Integer sums are exact, in any order and in chunks of any size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_HALF_WORD = 32
_BLOCK = 1 << 20  # integers whose squares are summed at a time


class ExactSums:
    """Sums of integers and of their squares.

    A sum of squares overflows 64 bits, so the low and high halves of squares are summed separately.

    Parameters
    ----------
    shape : tuple of int
        Shape of the sums.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.sums = np.zeros(shape, np.int64)
        self.squares_low = np.zeros(shape, np.int64)
        self.squares_high = np.zeros(shape, np.int64)

    def add(
        self, sums: np.ndarray, squares_low: np.ndarray, squares_high: np.ndarray, at: Any = ...
    ) -> None:
        """Add sums computed elsewhere to the part `at` of these sums."""
        self.sums[at] += sums
        self.squares_low[at] += squares_low
        self.squares_high[at] += squares_high

    def add_values(self, values: np.ndarray, at: Any = ...) -> None:
        """Add integers [replicate, ...] to the part `at` of these sums."""
        rows = max(1, _BLOCK // max(1, values[:1].size))  # squares of all would take much memory
        for first in range(0, len(values), rows):
            wide = values[first : first + rows].astype(np.int64)
            square = wide * wide
            low, high = square & ((1 << _HALF_WORD) - 1), square >> _HALF_WORD
            self.add(wide.sum(axis=0), low.sum(axis=0), high.sum(axis=0), at)

    def mean(self, count: Any) -> np.ndarray:
        """Mean of `count` numbers each; NaN if `count` is zero."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sums / np.asarray(count))

    def variance(self, count: Any) -> np.ndarray:
        """Unbiased variance of `count` numbers each; NaN for fewer than two."""
        counts = np.broadcast_to(count, self.sums.shape)
        if not counts.size:
            return np.empty(counts.shape)
        most = int(counts.max())
        largest = most * max(most, int(self.squares_low.max()))
        if not self.squares_high.any() and largest < 2**53:  # floats hold all of it exactly
            n = counts.astype(np.int64)
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.asarray((n * self.squares_low - self.sums**2) / (n * (n - 1)))
        exact = np.vectorize(_variance, otypes=[float])
        return np.asarray(exact(counts, self.sums, self.squares_low, self.squares_high))


def _variance(count: int, total: int, low: int, high: int) -> float:
    n = int(count)
    if n < 2:
        return float("nan")
    return (n * ((int(high) << _HALF_WORD) + int(low)) - int(total) ** 2) / (n * (n - 1))


class SumsByPoint:
    """Exact sums at every point, time and species, from the sums of a kernel.

    Attributes
    ----------
    count : ndarray of int64, shape [point, time]
        Number of realizations that reached this time.
    """

    def __init__(self, point_count: int, time_count: int, species_count: int) -> None:
        self.count = np.zeros((point_count, time_count), np.int64)
        self._sums = ExactSums((point_count, time_count, species_count))

    def add(self, chunk: Mapping[str, np.ndarray], first_point: int) -> None:
        """Add the sums of a chunk that begins with the point `first_point`."""
        points = slice(first_point, first_point + chunk["counts"].shape[0])
        self.count[points] += chunk["counts"]
        self._sums.add(chunk["sums"], chunk["squares_low"], chunk["squares_high"], points)

    def exact(self) -> dict[str, np.ndarray]:
        """The sums [point, time, species], by name."""
        sums = self._sums
        return {
            "sum": sums.sums, "squares_low": sums.squares_low, "squares_high": sums.squares_high,
        }  # fmt: skip

    def mean(self) -> np.ndarray:
        """Mean [point, time, species]; NaN where there is no realization."""
        return self._sums.mean(self.count[:, :, None])

    def variance(self) -> np.ndarray:
        """Unbiased variance [point, time, species]; NaN for fewer than two realizations."""
        return self._sums.variance(self.count[:, :, None])


class CountStatistics:
    """Running statistics of counts [replicate, time, column], with quantiles.

    For quantiles the counts are stored.  If there are more replicates than possible values, a
    histogram is stored instead.

    Parameters
    ----------
    replicates, time_count, column_count : int
        Largest number of replicates; shape of their counts.
    most : int
        Largest possible count.
    """

    def __init__(self, replicates: int, time_count: int, column_count: int, most: int) -> None:
        shape = (time_count, column_count)
        self.count = 0
        self._shape = shape
        self._sums = ExactSums(shape)
        self._by_value = most + 1 < replicates
        kept = (time_count * column_count, most + 1) if self._by_value else (replicates, *shape)
        self._kept = np.zeros(kept, np.uint32 if self._by_value else np.int32)

    @staticmethod
    def bytes_needed(replicates: int, time_count: int, column_count: int, most: int) -> int:
        """Memory of these statistics [bytes]."""
        return 4 * time_count * column_count * min(replicates, most + 1)

    def add(self, counts: np.ndarray) -> None:
        """Add the counts of more replicates, int32 [replicate, time, column]."""
        self._sums.add_values(counts)
        if self._by_value:
            cells, values = self._kept.shape
            index = counts.astype(np.int64).reshape(-1, cells) + np.arange(cells) * values
            self._kept += (
                np.bincount(index.ravel(), minlength=cells * values)
                .reshape(cells, values)
                .astype(np.uint32)
            )
        else:
            self._kept[self.count : self.count + len(counts)] = counts
        self.count += len(counts)

    def mean(self) -> np.ndarray:
        """Mean [time, column]; NaN without replicates."""
        return self._sums.mean(self.count)

    def variance(self) -> np.ndarray:
        """Unbiased variance [time, column]; NaN for fewer than two replicates."""
        return self._sums.variance(self.count)

    def quantile(self, levels: Sequence[float]) -> np.ndarray:
        """Quantiles [level, time, column], interpolated linearly between order statistics."""
        if self.count == 0:
            return np.full((len(levels), *self._shape), np.nan)
        if not self._by_value:
            return np.quantile(self._kept[: self.count], levels, axis=0)
        running = self._kept.cumsum(axis=1)
        result = np.empty((len(levels), *self._shape))
        for row, level in enumerate(levels):
            position = level * (self.count - 1)
            below = (running <= np.floor(position)).sum(axis=1)
            above = (running <= np.ceil(position)).sum(axis=1)
            between = below + (position - np.floor(position)) * (above - below)
            result[row] = between.reshape(self._shape)
        return result


GROUP = 1024


class Moments:
    """Means and variances of real quantities, by point and time.

    The result does not depend on the chunk size, if it is a multiple of `GROUP` replicates.
    """

    def __init__(self, point_count: int, time_count: int, width: int) -> None:
        self.count = np.zeros((point_count, time_count), np.int64)
        self._mean = np.zeros((point_count, time_count, width))
        self._squares = np.zeros((point_count, time_count, width))

    @classmethod
    def beginning_with(cls, sums: SumsByPoint) -> Moments:
        """Those of integers whose sums are known, to add further values."""
        mean, n = sums.mean(), sums.count[:, :, None]
        found = cls(*mean.shape)
        found.count[:] = sums.count
        found._mean[:] = np.where(n > 0, mean, 0.0)
        found._squares[:] = np.where(n > 1, sums.variance() * (n - 1), 0.0)
        return found

    def add(self, point: int, values: np.ndarray, reached: np.ndarray) -> None:
        """Add values [replicate, time, quantity] of a point; `reached` counts the valid times."""
        for start in range(0, len(values), GROUP):
            part = values[start : start + GROUP]
            there = np.arange(part.shape[1]) < reached[start : start + GROUP, None]
            n = there.sum(axis=0)[:, None]
            # From one of them on: a sum of large numbers is rounded.
            base = part[there.argmax(axis=0), np.arange(part.shape[1])]
            base = np.where(n > 0, base, 0.0)
            part = np.where(there[:, :, None], part - base, 0.0)
            mean = part.sum(axis=0) / np.maximum(n, 1)
            squares = (np.where(there[:, :, None], part - mean, 0.0) ** 2).sum(axis=0)
            before = self.count[point][:, None]
            together = np.maximum(before + n, 1)
            difference = base - self._mean[point] + mean
            self._mean[point] += difference * (n / together)
            self._squares[point] += squares + difference**2 * (before * n / together)
            self.count[point] += n[:, 0]

    def mean(self) -> np.ndarray:
        """Mean [point, time, quantity]."""
        return np.where(self.count[:, :, None] > 0, self._mean, np.nan)

    def variance(self) -> np.ndarray:
        """Unbiased variance [point, time, quantity]."""
        n = self.count[:, :, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(n > 1, self._squares / (n - 1), np.nan)
