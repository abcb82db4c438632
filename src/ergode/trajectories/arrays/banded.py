"""Matrices of implicit methods in the workspace of a trajectory: by differences, and factorised.

The unknowns are reordered, and the matrix keeps to a band of `lower` and `upper` diagonals; a full
matrix is a band of n - 1.  In a band, unknowns whose places differ by its width are never read
together, so that one evaluation gives the differences of all of them.  Row interchanges widen the
band to ``lower + upper`` diagonals above the main one.

A row of the slopes holds as many columns of the band as have room, one after the other.

G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th ed. (2013), sections 3.4 and 4.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget
from ergode.core.group import barrier
from ergode.trajectories.arrays.equations import evaluate, unknowns
from ergode.trajectories.arrays.group import END

LOWER, UPPER, PLACES = 0, 1, 2  # in `run.stage_begins`: the band, and the place of every unknown


class Band(NamedTuple):
    """Where the entries of a matrix are."""

    n: Any  # number of unknowns
    lower: Any  # diagonals below the main one
    upper: Any
    width: Any  # numbers of a column
    columns: Any  # int32: columns of a row of slopes
    rows: Any  # rows of slopes
    slides: Any  # 1 where a column keeps its band alone, 0 where it keeps all n rows


def full(n: int) -> np.ndarray:
    """The band of a full matrix: lower and upper diagonals, then the place of every unknown."""
    return np.array([n - 1, n - 1, *range(n)], np.int64)


def band_of(n, places):
    """The band of `n` unknowns from `run.stage_begins`."""
    lower, upper = places[LOWER], places[UPPER]
    width = min(n, 2 * lower + upper + 1)
    columns = n // width
    rows = (n + columns - 1) // columns
    return Band(n, lower, upper, width, np.int32(columns), rows, 1 if width < n else 0)


def rows_of(n: int, places: np.ndarray) -> int:
    """Rows of slopes of a matrix."""
    return int(band_of(n, places).rows)


def _from_cpu(group, first, stop):
    return range(first, stop)


def _from_cuda(group, first, stop):
    return range(first + group.rank, stop, group.size)


portion = ByTarget(cpu=_from_cpu, cuda=_from_cuda)
"""``portion(group, first, stop)``: indices of a thread; on a CPU a group has one thread."""


def _column(band, column):
    """Row of slopes that holds a column, and where the column begins there."""
    row = np.int32(column) // band.columns
    return np.int64(row), np.int64(np.int32(column) - row * band.columns) * band.width


def _shift(band, column):
    """Place of row 0 of a column, from where the column begins."""
    return band.slides * (band.lower + band.upper - column)


def put_jacobian(group, t, y, slope, moved, first, scratch, p, run, w):
    """Set the rows from `first` on to -J at a state `y`, where the derivatives are `slope`.

    `moved` are states to take differences with; then they are overwritten.
    """
    band = band_of(y.size, run.stage_begins)
    n, values, per = band.n, w.stage[1], w.stage[END]
    barrier(group)  # all have read the states of stages
    for row in range(band.rows):
        for i in unknowns(group, n):
            w.k[first + row, i] = 0.0
    for i in unknowns(group, n):
        per[run.stage_begins[PLACES + i]] = 1.0 / (moved[i] - y[i])
    barrier(group)
    colours = min(n, band.lower + band.upper + 1)
    for colour in range(colours):
        for i in unknowns(group, n):
            moves = run.stage_begins[PLACES + i] % colours == colour
            w.stage[0, i] = moved[i] if moves else y[i]
        barrier(group)
        evaluate(group, t, w.stage[0], p, run, scratch)
        for i in unknowns(group, n):
            values[run.stage_begins[PLACES + i]] = slope[i] - scratch[i]
        barrier(group)
        for column in range(colour, n, colours):
            row, start = _column(band, column)
            start += _shift(band, column)
            begin, end = max(0, column - band.upper), min(n, column + band.lower + 1)
            for i in portion(group, begin, end):
                w.k[first + row, start + i] = values[i] * per[column]
        barrier(group)


def factorise(group, diagonal, first, pivots, run, w):
    """Factorise ``diagonal - J`` where -J stands, column by column, with row pivoting.

    The last of `pivots`, which changes nothing, is negative where no row was interchanged.
    """
    band = band_of(w.y.size, run.stage_begins)
    n, lower, upper = band.n, band.lower, band.upper
    for row in portion(group, 0, band.rows):
        for k in range(min(np.int64(band.columns), n - row * band.columns)):
            column = row * band.columns + k
            w.k[first + row, k * band.width + _shift(band, column) + column] += diagonal
    barrier(group)
    last = -1
    for m in range(n):
        row, start = _column(band, m)
        place = start + _shift(band, m)
        low, high = min(n, m + lower + 1), min(n, m + lower + upper + 1)
        old = w.k[first + row, place + m]
        best, chosen = old, m
        for i in range(m + 1, low):
            value = w.k[first + row, place + i]
            if abs(value) > abs(best):
                best, chosen = value, i
        barrier(group)
        inverse = 1.0 / best
        if group.rank == 0:
            w.k[first + row, place + m] = inverse
            w.k[pivots, m] = chosen
        for i in portion(group, m + 1, low):
            w.k[first + row, place + i] = inverse * (
                old if i == chosen else w.k[first + row, place + i]
            )
        if chosen != m:
            last = n - 1
            for column in portion(group, m + 1, high):
                there, begin = _column(band, column)
                begin += _shift(band, column)
                above = w.k[first + there, begin + chosen]
                w.k[first + there, begin + chosen] = w.k[first + there, begin + m]
                w.k[first + there, begin + m] = above
        barrier(group)
        _update(group, band, m, low, high, row, start, first, w)
        barrier(group)
    if group.rank == 0:
        w.k[pivots, n - 1] = last
    barrier(group)


def _update_cpu(group, band, m, low, high, row, start, first, w):
    place, there, begin = start + _shift(band, m), row, start
    for column in range(m + 1, high):
        begin += band.width
        if begin + band.width > band.n:
            there, begin = there + 1, 0
        into = begin + _shift(band, column)
        above = w.k[first + there, into + m]
        if above != 0.0:
            for i in range(m + 1, low):
                w.k[first + there, into + i] -= w.k[first + row, place + i] * above


def _update_cuda(group, band, m, low, high, row, start, first, w):
    place = start + _shift(band, m)
    height = np.int32(low - m - 1)
    count = np.int32(height * np.int32(high - m - 1))
    for at in range(np.int32(group.rank), count, np.int32(group.size)):
        right = np.int32(at // height)
        column, i = m + 1 + right, m + 1 + at - right * height
        there, begin = _column(band, column)
        begin += _shift(band, column)
        w.k[first + there, begin + i] -= w.k[first + row, place + i] * w.k[first + there, begin + m]


_update = ByTarget(cpu=_update_cpu, cuda=_update_cuda)


def solve(group, b, first, pivots, run, w):
    """Solve with the factors for the right-hand side `b`, in the order of the places."""
    band = band_of(w.y.size, run.stage_begins)
    n, plain = band.n, w.k[pivots, band.n - 1] < 0.0
    above = band.upper if plain else band.lower + band.upper
    row, start = first, np.int64(0)
    for m in range(n):
        place, low = start + _shift(band, m), min(n, m + band.lower + 1)
        if plain:
            value = b[m]
            for i in portion(group, m + 1, low):
                b[i] -= w.k[row, place + i] * value
        else:
            chosen = np.int64(w.k[pivots, m]) if m + 1 < n else m
            value, old = b[chosen], b[m]
            barrier(group)
            if group.rank == 0:
                b[m] = value
            for i in portion(group, m + 1, low):
                b[i] = (old if i == chosen else b[i]) - w.k[row, place + i] * value
        barrier(group)
        start += band.width
        if start + band.width > n:
            row, start = row + 1, 0
    last = (np.int64(band.columns) - 1) * band.width
    row, start = _column(band, n - 1)
    row += first
    for r in range(n):
        m = n - 1 - r
        place = start + _shift(band, m)
        value = b[m] * w.k[row, place + m]
        barrier(group)
        if group.rank == 0:
            b[m] = value
        for i in portion(group, max(0, m - above), m):
            b[i] -= w.k[row, place + i] * value
        barrier(group)
        start -= band.width
        if start < 0:
            row, start = row - 1, last
