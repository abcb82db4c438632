"""Images of cells drawn by a GPU: parts of cells, and a table of the cells that they fall into.

`images` says what is drawn. Masses are added as integers, so that the order of threads has no
effect.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import atomic_add, atomic_max
from ergode.core.math.random import IMAGE, draw_words, uniform_53
from ergode.density.flow.points_kernels import insert
from ergode.density.grid.lattice import DIMENSION

UNIT = np.float64(1 << 62)
"""Mass of a density, as an integer."""

STEEPEST = 4.0
"""Change of the logarithm of the density across a cell, at most."""

FLAT = 1e-6
"""The same, below which the density within a cell is even."""


def count_parts(
    index, count, groups, which, least, fineness, most, across, points, log_weights, beside, out
):  # fmt: skip
    """Number of parts of cells, of one group of them, by one way to divide: a kernel body.

    Model: what divides cells, `fineness` and `most` [way], and the same as in `draw_parts`. Out:
    `out` [way, group].
    """
    way = index // groups
    group = index - way * groups
    total = np.float64(0.0)
    for i in range(group * count // groups, (group + 1) * count // groups):
        if log_weights[which, i] >= least:
            each = np.float64(1.0)
            for d in range(DIMENSION):
                each *= _count(
                    d, i, which, fineness[way], most[way], across, points, log_weights, beside
                )
            total += each
    out[way, group] = total


def draw_parts(
    index, again, which, least, fineness, most, log_mass, centre, across, turns, bits, reach,
    points, log_weights, beside, keys, masses, farthest,
):  # fmt: skip
    """Draw all parts of a cell, one of `again` times: a kernel body.

    Model: `points` [dimension, density, cell] and `log_weights` [density, cell], of the density
    `which`, with its `log_mass`; neighbours `beside` [dimension, 2, cell]; the lattice by its
    `centre` [dimension], the matrix `across` [axis, dimension] that makes coordinates, `turns`
    [axis], `bits` and `reach`. Cells below `least` are not drawn. Out: a table, `keys` and
    `masses`; and the largest coordinate, `farthest` [1].
    """
    i = index // again
    if log_weights[which, i] >= least:
        place = tuple(_along(a, which, i, centre, across, points) for a in range(DIMENSION))
        edges = tuple(
            _edge(d, i, which, across, points, log_weights, beside) for d in range(DIMENSION)
        )
        slopes = tuple(_slope(d, i, which, log_weights, beside) for d in range(DIMENSION))
        counts = tuple(
            np.int64(_count(d, i, which, fineness, most, across, points, log_weights, beside))
            for d in range(DIMENSION)
        )
        total = np.int64(1)
        for d in range(DIMENSION):
            total *= counts[d]
        whole = math.exp(log_weights[which, i] - log_mass) * UNIT / np.float64(again)
        for part in range(total):
            numbers = tuple(_number(d, part, counts) for d in range(DIMENSION))
            shares = tuple(
                _share(d, part, i, index - i * again, numbers, counts, slopes)
                for d in range(DIMENSION)
            )
            mass = whole
            for d in range(DIMENSION):
                mass *= _mass(numbers[d], counts[d], slopes[d])
            key = np.int64(0)
            most_away = np.int64(0)
            for a in range(DIMENSION):
                at = place[a]
                for d in range(DIMENSION):
                    at += edges[d][a] * shares[d]
                cell = _wrapped(np.int64(math.floor(at + 0.5)), turns[a])
                most_away = max(most_away, abs(cell))
                key |= (cell + (np.int64(1) << (bits - 1))) << (bits * a)
            atomic_max(farthest, 0, most_away)
            if most_away <= reach:
                atomic_add(masses, insert(keys, key), np.int64(mass))


def _along(a, which, i, centre, across, points):
    """Coordinate of a point along an axis."""
    at = np.float64(0.0)
    for v in range(DIMENSION):
        at += across[a, v] * (np.float64(points[v, which, i]) - centre[v])
    return at


def _side(d, side, i, which, log_weights, beside):
    """The point beside a cell that has a weight; without one, the point of the cell."""
    there = np.int64(beside[d, side, i])
    return there if there >= 0 and math.isfinite(log_weights[which, there]) else np.int64(i)


def _edge(d, i, which, across, points, log_weights, beside):
    """An edge of a cell: half the difference of the points beside it, in coordinates."""
    up = _side(d, 0, i, which, log_weights, beside)
    down = _side(d, 1, i, which, log_weights, beside)
    apart = _apart(up, down, i)
    return tuple(_between(a, which, up, down, across, points) / apart for a in range(DIMENSION))


def _apart(up, down, i):
    """In how many edges two points are apart, at least one."""
    return np.float64(2.0) if up != i and down != i else np.float64(1.0)


def _between(a, which, up, down, across, points):
    apart = np.float64(0.0)
    for v in range(DIMENSION):
        apart += across[a, v] * (np.float64(points[v, which, up] - points[v, which, down]))
    return apart


def _slope(d, i, which, log_weights, beside):
    """Change of the logarithm of the density along an edge."""
    up = _side(d, 0, i, which, log_weights, beside)
    down = _side(d, 1, i, which, log_weights, beside)
    slope = (log_weights[which, up] - log_weights[which, down]) / _apart(up, down, i)
    return min(max(slope, -STEEPEST), STEEPEST)


def _count(d, i, which, fineness, most, across, points, log_weights, beside):
    """Number of parts along an edge."""
    edge = _edge(d, i, which, across, points, log_weights, beside)
    longest = np.float64(0.0)
    for a in range(DIMENSION):
        longest = max(longest, abs(edge[a]))
    wanted = math.ceil(fineness * longest)
    return np.float64(1.0) if not wanted > 1.0 else min(np.float64(wanted), most)


def _number(d, part, counts):
    """Number of a part along an edge."""
    for e in range(d):
        part = part // counts[e]
    return part % counts[d]


def _share(d, part, i, again, numbers, counts, slopes):
    """Where within the cell a part falls along an edge, from -1/2 to 1/2."""
    w0, w1, w2, w3 = draw_words(0, again, i, IMAGE, part * DIMENSION + d)
    count = np.float64(counts[d])
    slope = slopes[d] / count
    u = uniform_53(w0, w1)
    if abs(slope) > FLAT:
        u = math.log1p(u * math.expm1(slope)) / slope
    return (np.float64(numbers[d]) + u) / count - 0.5


def _mass(number, count, slope):
    """Share of the mass in a part along an edge."""
    if count == 1 or abs(slope) < FLAT:
        return np.float64(1.0) / np.float64(count)
    each = slope / np.float64(count)
    return math.exp(each * np.float64(number)) * math.expm1(each) / math.expm1(slope)


def _wrapped(cell, turns):
    """Coordinate within one period around the centre."""
    if turns > 0:
        least = -(turns // 2)
        return (cell - least) % turns + least
    return cell
