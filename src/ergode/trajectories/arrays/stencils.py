"""The band of the Jacobian of arrays of one dimension, whose derivatives read their neighbours.

A derivative is evaluated with other values outside a window around it, and with those of single
unknowns inside changed: that takes as many evaluations as the window has unknowns.  The band is
the narrowest of a few orders of the unknowns: array by array, cell by cell, and with the last cell
beside the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ergode.trajectories.arrays.evaluator import Evaluator

BANDED = 50
"""Unknowns up to which a matrix is full."""

NARROW = 16
"""Diagonals on a side, up to which a matrix is banded."""

_REACHES = 1, 2, 6


def band_of_neighbours(
    field: Evaluator, me: int, t: float, states: np.ndarray
) -> np.ndarray | None:
    """The band (see `banded.full`) near the first of `states`, or None if it is not found.

    The others [state, unknown] are values that derivatives are tried with.
    """
    shapes = field.arrays.shapes
    cells, count = shapes[0][0], len(shapes)
    if field.arrays.in_place or any(shape != (cells,) for shape in shapes):
        return None
    for reach in _REACHES:
        if cells <= 2 * reach + 1:
            return None
        # One array whose derivatives read no further than that has a band of this width.
        found = field.windows(me, t, states, reach, inside=count > 1 or reach > 1)
        if not found[:, -1, 0].any():
            i, array, ahead = np.nonzero(found[:, :-1])
            read = array * cells + (i % cells + ahead - reach) % cells
            return _narrowest(cells, count, i, read)
    return None


def _narrowest(cells: int, count: int, i: np.ndarray, read: np.ndarray) -> np.ndarray | None:
    """The narrowest band where derivative ``i[k]`` reads unknown ``read[k]``."""
    cell, bands = np.arange(cells), []
    folded = np.where(2 * cell < cells, 2 * cell, 2 * (cells - cell) - 1)
    array = np.arange(count)[:, None]
    for places in (array * cells + cell, count * cell + array, count * folded + array):
        place = places.ravel()
        below = place[i] - place[read]
        lower, upper = int(below.max(initial=0)), int(-below.min(initial=0))
        if max(lower, upper) <= NARROW:
            bands.append(np.array([lower, upper, *place], np.int64))
    return min(bands, key=lambda band: band[0] + band[1], default=None)
