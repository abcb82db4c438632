"""Gaussian elimination of a sparse matrix with a known pattern.

The pattern of a network's Jacobian is the same in all steps. So the order of pivots, the fill-in
and the places of entries are computed once, and the factorisation is a loop over tables. Pivots are
not chosen by size: the matrices I / (h gamma) - J are close to diagonally dominant. A step with a
zero pivot is repeated with a smaller h.

Pivots are in minimum-degree order, which keeps fill-in small. For elimination by many threads the
order also prefers pivots that depend on few others (`depth_weight`).

I. S. Duff, A. M. Erisman, J. K. Reid: Direct Methods for Sparse Matrices, 2nd ed. (2017),
chapters 7 (minimum degree) and 10 (symbolic factorisation).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NONNEGATIVE = 0x7FFFFFFFFFFFFFFF
"""Mask that tells the compiler that an index is not negative."""


class Elimination(NamedTuple):
    """Layout of the entries of L, U and the inverse pivots.

    Row k of the permuted matrix has its entries of L, its pivot, then its entries of U, each in
    order of columns.
    """

    order: np.ndarray  # uint32 [size]: which variable is eliminated k-th
    start: np.ndarray  # uint32 [size + 1]: where each row begins
    # uint32 [entry_count]: column of an entry, as the position of its variable in `order`.
    column: np.ndarray
    pivot: np.ndarray  # uint32 [size]: where each row's pivot is
    # uint32 [size]: behind its pivot, from where on the columns of a row are consecutive.
    tail: np.ndarray

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.order.size

    def positions(self) -> dict[tuple[int, int], int]:
        """Index of the entry of each (row variable, column variable)."""
        places = {}
        for k in range(self.size):
            for index in range(self.start[k], self.start[k + 1]):
                places[int(self.order[k]), int(self.order[self.column[index]])] = index
        return places

    def levels(self) -> np.ndarray:
        """Length of the longest chain of eliminations before each pivot."""
        level = np.zeros(self.size, np.int64)
        for k in range(self.size):
            before = self.column[self.start[k] : self.pivot[k]]
            if before.size:
                level[k] = level[before].max() + 1
        return level


def eliminate(pattern: np.ndarray, depth_weight: float = 0.0) -> Elimination:
    """Order the pivots of a matrix with this pattern, and find its fill-in.

    Parameters
    ----------
    pattern : ndarray of bool, shape [size, size]
        Entries that may not be zero; the diagonal is added.
    depth_weight : float
        Additional entries accepted to save one level of dependence.
    """
    size = len(pattern)
    order = _order(pattern | pattern.T, depth_weight)
    filled = pattern[np.ix_(order, order)] | np.eye(size, dtype=bool)
    for k in range(size):
        below = k + 1 + np.flatnonzero(filled[k + 1 :, k])
        filled[np.ix_(below, np.arange(k + 1, size))] |= filled[k, k + 1 :]
    rows = [np.flatnonzero(row) for row in filled]
    start = np.concatenate([[0], np.cumsum([row.size for row in rows])])
    column = np.concatenate([*rows, []])
    pivot = np.array([start[k] + np.searchsorted(rows[k], k) for k in range(size)])
    tail = start[1:].copy()
    for k, row in enumerate(rows):
        right = row[row > k]
        gaps = np.flatnonzero(np.diff(right) != 1)
        tail[k] -= right.size - (gaps[-1] + 1 if gaps.size else 0)
    return Elimination(*(a.astype(np.uint32) for a in (order, start, column, pivot, tail)))


def _order(graph: np.ndarray, depth_weight: float) -> np.ndarray:
    neighbours = [set(np.flatnonzero(row)) - {k} for k, row in enumerate(graph)]
    depth = [0] * len(graph)
    left = set(range(len(graph)))
    order = []
    while left:
        k = min(left, key=lambda i: (len(neighbours[i]) + depth_weight * depth[i], i))
        left.remove(k)
        order.append(k)
        around = neighbours[k]
        for i in around:
            neighbours[i] |= around
            neighbours[i] -= {i, k}
            depth[i] = max(depth[i], depth[k] + 1)
    return np.array(order, np.int64)


# --- device functions ---------------------------------------------------------------------------


def factorize_shifted(plan, matrix, diagonal, row):
    """Factorise `matrix` + diagonal I in place; pivots are replaced by their inverses.

    `row` is scratch for one row. Returns 0 if all pivots and their inverses are finite, else NaN.
    """
    for k in range(plan.order.size):
        matrix[plan.pivot[k]] += diagonal
    doubt = 0.0
    for k in range(plan.order.size):
        begin, middle, end = plan.start[k], plan.pivot[k], plan.start[k + 1]
        for count in range(begin, end):
            index = count & NONNEGATIVE
            row[plan.column[index]] = matrix[index]
        for count in range(begin, middle):
            index = count & NONNEGATIVE
            j = plan.column[index]
            pivot = plan.pivot[j]
            factor = row[j] * matrix[pivot]
            matrix[index] = factor
            stop, tail = np.int64(plan.start[j + 1]), np.int64(plan.tail[j])
            for count_right in range(pivot + 1, tail):
                right = count_right & NONNEGATIVE
                row[plan.column[right]] -= factor * matrix[right]
            if tail < stop:  # without a table of columns it is a loop of vectors
                first = np.int64(plan.column[tail & NONNEGATIVE])
                for right in range(stop - tail):
                    at = (tail + right) & NONNEGATIVE
                    row[(first + right) & NONNEGATIVE] -= factor * matrix[at]
        for count in range(middle, end):
            index = count & NONNEGATIVE
            matrix[index] = row[plan.column[index]]
        value = matrix[middle]
        inverse = 1.0 / value
        matrix[middle] = inverse
        doubt += 0.0 * (value * inverse)
    return doubt


def solve(plan, factors, x, scratch):
    """Replace the right-hand side `x`, in the order of variables, by the solution."""
    size = plan.order.size
    for k in range(size):
        begin, middle = plan.start[k], plan.pivot[k]
        total = x[plan.order[k]] - _dot(plan, factors, scratch, np.int64(begin), np.int64(middle))
        scratch[k] = total
    for back in range(size):
        k = (size - 1 - back) & NONNEGATIVE
        middle, end = plan.pivot[k], plan.start[k + 1]
        total = scratch[k] - _dot(plan, factors, scratch, np.int64(middle) + 1, np.int64(end))
        scratch[k] = total * factors[middle]
        x[plan.order[k]] = scratch[k]


def _dot(plan, factors, scratch, begin, end):
    """Sum of entries times known values; two sums hide the latency of additions."""
    even, odd = 0.0, 0.0
    for count in range(begin, end - 1, 2):
        index = count & NONNEGATIVE
        even += factors[index] * scratch[plan.column[index]]
        odd += factors[index + 1] * scratch[plan.column[index + 1]]
    if (end - begin) % 2 == 1:
        last = (end - 1) & NONNEGATIVE
        even += factors[last] * scratch[plan.column[last]]
    return even + odd
