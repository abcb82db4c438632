"""Means and variances over realizations, from sums of whole numbers: exact, in any order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Sums:
    """Sums of amounts and of their squares at every point, time and species.

    Attributes
    ----------
    count : ndarray of int64, shape [point, time]
        Realizations that got there.
    """

    def __init__(self, point_count: int, time_count: int, species_count: int) -> None:
        shape = (point_count, time_count, species_count)
        self.count = np.zeros(shape[:2], np.int64)
        # A sum of squares outgrows 64 bits: its halves are summed apart.
        self._parts = {name: np.zeros(shape, np.int64) for name in _PARTS}

    def add(self, chunk: Mapping[str, np.ndarray], first_point: int) -> None:
        """Take in the sums of a chunk, which begins with the point `first_point`."""
        points = slice(first_point, first_point + chunk["counts"].shape[0])
        self.count[points] += chunk["counts"]
        for name in _PARTS:
            self._parts[name][points] += chunk[name]

    def mean(self) -> np.ndarray:
        """Mean [point, time, species]; NaN where there is no realization."""
        with np.errstate(invalid="ignore"):
            return self._parts["sums"] / self.count[:, :, None]

    def variance(self) -> np.ndarray:
        """Unbiased variance [point, time, species]; NaN for fewer than two realizations."""
        exact = np.vectorize(_variance, otypes=[float])
        count = np.broadcast_to(self.count[:, :, None], self._parts["sums"].shape)
        if not count.size:
            return np.empty(count.shape)
        return np.asarray(exact(count, *(self._parts[name] for name in _PARTS)))


_PARTS = ("sums", "squares_low", "squares_high")


def _variance(count: int, total: int, low: int, high: int) -> float:
    n = int(count)
    if n < 2:
        return float("nan")
    return (n * ((int(high) << 32) + int(low)) - int(total) ** 2) / (n * (n - 1))


GROUP = 1024


class Moments:
    """The same of quantities that are not whole: the same in chunks of any multiple of `GROUP`."""

    def __init__(self, point_count: int, time_count: int, width: int) -> None:
        self.count = np.zeros((point_count, time_count), np.int64)
        self._mean = np.zeros((point_count, time_count, width))
        self._squares = np.zeros((point_count, time_count, width))

    def add(self, point: int, values: np.ndarray, reached: np.ndarray) -> None:
        """Take in values [replicate, time, quantity] of one point, and how many times each has."""
        for start in range(0, len(values), GROUP):
            part = values[start : start + GROUP]
            there = np.arange(part.shape[1]) < reached[start : start + GROUP, None]
            n = there.sum(axis=0)[:, None]
            part = np.where(there[:, :, None], part, 0.0)
            mean = part.sum(axis=0) / np.maximum(n, 1)
            squares = (np.where(there[:, :, None], part - mean, 0.0) ** 2).sum(axis=0)
            before = self.count[point][:, None]
            together = np.maximum(before + n, 1)
            difference = mean - self._mean[point]
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
