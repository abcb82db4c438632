"""Summary of a density: its moments and its sharpness.

Moments are sums of integers over cells, so they do not depend on the order of cells.  Each term is
rounded to a multiple of a power of two, chosen so that no sum overflows.  Coordinates count from
the middle of the cells' range; along a periodic axis, the short way from the cell at the mean
direction.  Sharpness follows from the total variation along a line, which for
a Gaussian is 2 / (sqrt(2 pi) sigma).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ergode.core.compiler.language import atomic_max, no_unroll, noinline_cpu, unroll
from ergode.core.group import accumulate, barrier, share
from ergode.density.grid.cells import COUNTERS, KEY, MASS_UNIT, TURN, USED, units
from ergode.density.grid.cut import is_admissible
from ergode.density.grid.lattice import (
    DIMENSION,
    PERIODIC,
    Lattice,
    beside,
    coordinate,
    turns_of,
)

RANGE = COUNTERS
"""First counter of a summary: minus the minimum and the maximum of each coordinate; then sums."""


def word_count(dimension: int) -> int:
    """Number of counters of a density: of its mass balance, then ranges, then sums.

    The sums are: mass, first and second moments, mass beyond the edge, and variations.
    """
    sums = 1 + dimension + dimension * (dimension + 1) // 2 + 1 + dimension
    return RANGE + 2 * dimension + sums


def mass_word(dimension: int) -> int:
    """Index of the counter for the mass of all cells, in units."""
    return RANGE + 2 * dimension


def _middle(range_, d):
    """Middle of the cells' range along a dimension; `range_` has minus the minimum, the maximum."""
    return (range_[2 * d + 1] - range_[2 * d]) // 2


def _reach(range_, d):
    """A power of two that bounds every cell's distance from the middle, in widths."""
    most = max(range_[2 * d + 1] - _middle(range_, d), _middle(range_, d) + range_[2 * d])
    reach = np.float64(1.0)
    while reach < most:
        reach *= np.float64(2.0)
    return reach


def _rounded(value):
    return np.int64(math.floor(value + np.float64(0.5)))


# If mass hardly falls towards the edge of the grid, the mass beyond it cannot be estimated.
_STEADIEST = np.float64(0.9)
_TURN = np.float64(2.0 * math.pi)
_BEYOND_UNIT = MASS_UNIT / np.float64(16.0)  # up to nine times all mass must not overflow


def _beyond_face(mass, inner):
    """Mass beyond the face of a cell at the edge of the grid, by extrapolation.

    `inner` is the mass of the neighbour on the other side: masses are extrapolated geometrically.
    """
    mass, inner = np.float64(mass), np.float64(inner)
    ratio = _STEADIEST
    if mass < _STEADIEST * inner:
        ratio = mass / inner
    return mass * ratio / (np.float64(1.0) - ratio)


def beyond_cell(i, cells, p, frame):
    """Mass beyond the edge of the grid at a cell: the maximum over the axes."""
    most = np.float64(0.0)
    if p[i] > 0.0:
        for d in unroll(range(DIMENSION)):
            above, below = cells.above[d, i], cells.below[d, i]
            # Nothing is missing beyond an inadmissible cell.
            if above == 0 and is_admissible(beside(cells.key[i], d, 1, frame), frame):
                most = max(most, _beyond_face(p[i], p[below]))
            if below == 0 and is_admissible(beside(cells.key[i], d, -1, frame), frame):
                most = max(most, _beyond_face(p[i], p[above]))
    return most


def forget(counters):
    """Reset the counters of a summary."""
    for n in range(2 * DIMENSION):
        counters[RANGE + n] = np.int64(-(1 << 40))
    for n in range(RANGE + 2 * DIMENSION, counters.size):
        counters[n] = 0
    if PERIODIC:
        for n in range(2 * DIMENSION):
            counters[TURN + n] = 0


def _sum_phases(group, used, cells, p, frame):
    """Sum masses times cosine and sine of their phase, for each periodic axis."""
    for d in range(DIMENSION):
        count = turns_of(d, frame)
        across = np.int64(0)
        along = np.int64(0)
        if count > 0:
            for i in no_unroll(share(group, 1, used)):
                k = coordinate(cells.key[i] & KEY, d)
                phase = _TURN * np.float64(k) / np.float64(count)
                across += units(np.float64(p[i]) * math.cos(phase))
                along += units(np.float64(p[i]) * math.sin(phase))
        accumulate(group, cells.counters, TURN + 2 * d, across)
        accumulate(group, cells.counters, TURN + 2 * d + 1, along)
    barrier(group)


def _middle_of_turn(count, counters, d):
    """The cell at the mean direction along a periodic axis."""
    phase = math.atan2(np.float64(counters[TURN + 2 * d + 1]), np.float64(counters[TURN + 2 * d]))
    return _rounded(phase / _TURN * np.float64(count))


def _away(k, middle, d, frame):
    """Cells from the middle, the short way along a periodic axis."""
    x = k - middle
    if PERIODIC:
        count = turns_of(d, frame)
        if count > 0:
            half = count >> 1
            if x < -half:
                x += count
            if x >= count - half:
                x -= count
    return np.float64(x)


@noinline_cpu
def summarize(group, used, cells, p, frame):
    """Sum over the cells of a density. Out: the counters from RANGE on, which `forget` reset."""
    range_ = cells.counters[RANGE : RANGE + 2 * DIMENSION]
    sums = cells.counters[RANGE + 2 * DIMENSION :]
    if PERIODIC:
        _sum_phases(group, used, cells, p, frame)
    for d in range(DIMENSION):
        least = np.int64(1 << 40)
        most = np.int64(-(1 << 40))
        for i in no_unroll(share(group, 1, used)):
            k = coordinate(cells.key[i] & KEY, d)
            least = min(least, k)
            most = max(most, k)
        if PERIODIC:
            count = turns_of(d, frame)
            if count > 0:
                middle = _middle_of_turn(count, cells.counters, d)
                least = middle - (count >> 1)
                most = middle + (count >> 1)
        atomic_max(range_, 2 * d, -least)
        atomic_max(range_, 2 * d + 1, most)
    barrier(group)
    total = np.int64(0)
    for i in no_unroll(share(group, 1, used)):
        total += units(p[i])
    accumulate(group, sums, 0, total)
    beyond = np.int64(0)
    for i in no_unroll(share(group, 1, used)):
        beyond += np.int64(beyond_cell(i, cells, p, frame) * _BEYOND_UNIT)
    accumulate(group, sums, sums.size - DIMENSION - 1, beyond)
    place = 1 + DIMENSION
    for d in range(DIMENSION):
        middle = _middle(range_, d)
        scale = MASS_UNIT / _reach(range_, d)
        above = cells.above[d]
        first = np.int64(0)
        variation = np.int64(0)
        for i in no_unroll(share(group, 1, used)):
            x = _away(coordinate(cells.key[i] & KEY, d), middle, d, frame)
            first += _rounded(np.float64(p[i]) * x * scale)
            variation += units(abs(p[i] - p[above[i]]))
        accumulate(group, sums, 1 + d, first)
        accumulate(group, sums, sums.size - DIMENSION + d, variation)
        for e in range(d + 1):
            centre = _middle(range_, e)
            finer = scale / _reach(range_, e)
            second = np.int64(0)
            for i in no_unroll(share(group, 1, used)):
                key = cells.key[i] & KEY
                x = _away(coordinate(key, d), middle, d, frame)
                y = _away(coordinate(key, e), centre, e, frame)
                second += _rounded(np.float64(p[i]) * (x * y) * finer)
            accumulate(group, sums, place, second)
            place += 1


@dataclass(frozen=True)
class Summary:
    """Moments and sharpness of a density."""

    cell_count: int
    mass: float  # sum over cells
    mean: np.ndarray  # [variable]
    covariance: np.ndarray  # [variable, variable]
    # [dimension]: length scale of the density's features along each axis, as a standard deviation
    # in cells.
    sharpness: np.ndarray
    # Estimated fraction of the mass beyond the edge of the grid, by extrapolation of the density
    # towards the edge.
    beyond: float


def summaries_of(lattices: Sequence[Lattice], counters: np.ndarray) -> list[Summary]:
    """The summaries of densities of one dimension, from their counters [density, word]."""
    size = lattices[0].dimension
    width, centre, turn = (
        np.stack([getattr(one, name) for one in lattices]) for name in ("width", "centre", "axes")
    )
    range_, sums = np.split(counters[:, RANGE:], [2 * size], axis=1)
    unit = float(MASS_UNIT)
    mass = sums[:, 0] / unit
    mass[mass == 0.0] = math.nan  # before the first summary
    middle = (range_[:, 1::2] - range_[:, ::2]) // 2
    most = np.maximum(range_[:, 1::2] - middle, middle + range_[:, ::2])
    reach = 2.0 ** np.ceil(np.log2(np.maximum(most, 1)))
    first = sums[:, 1 : 1 + size] / unit * reach / mass[:, None]
    second = np.empty((len(lattices), size, size))
    rows, columns = np.tril_indices(size)
    found = sums[:, 1 + size : 1 + size + len(rows)] / unit * reach[:, rows] * reach[:, columns]
    second[:, rows, columns] = second[:, columns, rows] = found / mass[:, None]
    covariance = (second - _outer(first)) * _outer(width)
    beyond = sums[:, -size - 1] / float(_BEYOND_UNIT)
    beyond /= mass + beyond
    mean = centre + (turn @ ((middle + first) * width)[:, :, None])[:, :, 0]
    covariance = turn @ covariance @ turn.transpose(0, 2, 1)
    sharpness = mass[:, None] * np.sqrt(2 / np.pi) / np.maximum(sums[:, -size:] / unit, 1e-300)
    return [
        Summary(
            int(counters[k, USED]) - 1, float(mass[k]), mean[k], covariance[k], sharpness[k],
            float(beyond[k]),
        )
        for k in range(len(lattices))
    ]  # fmt: skip


def _outer(vectors: np.ndarray) -> np.ndarray:
    return vectors[:, :, None] * vectors[:, None, :]
