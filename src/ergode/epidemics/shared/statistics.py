"""Mean, variance and quantiles over replicates, exactly, without keeping what is not needed.

Counts are integers, so their sums are exact and do not depend on the order or the size of the
chunks they come in.  For quantiles the counts themselves are kept, or - where there are more
replicates than nodes - how often each count occurred, whichever is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_HALF_WORD = 32


class Statistics:
    """Running statistics of counts [replicate, time, compartment]."""

    def __init__(self, replicates: int, time_count: int, compartment_count: int, most: int) -> None:
        shape = (time_count, compartment_count)
        self.count = 0
        self._sum = np.zeros(shape, np.int64)
        # A sum of squares outgrows 64 bits: its high and low halves are summed apart.
        self._square_high = np.zeros(shape, np.int64)
        self._square_low = np.zeros(shape, np.int64)
        self._by_value = most + 1 < replicates
        kept = (
            (time_count * compartment_count, most + 1) if self._by_value else (replicates, *shape)
        )
        self._kept = np.zeros(kept, np.uint32 if self._by_value else np.int32)

    @staticmethod
    def bytes_needed(replicates: int, time_count: int, compartment_count: int, most: int) -> int:
        """Memory for such statistics [bytes]."""
        return 4 * time_count * compartment_count * min(replicates, most + 1)

    def add(self, counts: np.ndarray) -> None:
        """Take in the counts of some more replicates, int32 [replicate, time, compartment]."""
        wide = counts.astype(np.int64)
        square = wide * wide
        self._sum += wide.sum(axis=0)
        self._square_high += (square >> _HALF_WORD).sum(axis=0)
        self._square_low += (square & ((1 << _HALF_WORD) - 1)).sum(axis=0)
        if self._by_value:
            cells, values = self._kept.shape
            index = wide.reshape(-1, cells) + np.arange(cells) * values
            self._kept += (
                np.bincount(index.ravel(), minlength=cells * values)
                .reshape(cells, values)
                .astype(np.uint32)
            )
        else:
            self._kept[self.count : self.count + len(counts)] = counts
        self.count += len(counts)

    def mean(self) -> np.ndarray:
        """Mean [time, compartment]; NaN for no replicate."""
        if self.count == 0:
            return np.full(self._sum.shape, np.nan)
        return self._sum / self.count

    def variance(self) -> np.ndarray:
        """Unbiased variance [time, compartment]; NaN for fewer than two replicates."""
        if self.count < 2:
            return np.full(self._sum.shape, np.nan)
        exact = np.vectorize(self._variance_of, otypes=[float])
        return np.asarray(exact(self._sum, self._square_high, self._square_low))

    def _variance_of(self, total: int, high: int, low: int) -> float:
        square = (int(high) << _HALF_WORD) + int(low)
        return (self.count * square - int(total) ** 2) / (self.count * (self.count - 1))

    def quantile(self, levels: Sequence[float]) -> np.ndarray:
        """Quantiles [level, time, compartment], between order statistics linearly."""
        if self.count == 0:
            return np.full((len(levels), *self._sum.shape), np.nan)
        if not self._by_value:
            return np.quantile(self._kept[: self.count], levels, axis=0)
        running = self._kept.cumsum(axis=1)
        result = np.empty((len(levels), *self._sum.shape))
        for row, level in enumerate(levels):
            position = level * (self.count - 1)
            below = (running <= np.floor(position)).sum(axis=1)
            above = (running <= np.ceil(position)).sum(axis=1)
            between = below + (position - np.floor(position)) * (above - below)
            result[row] = between.reshape(self._sum.shape)
        return result
