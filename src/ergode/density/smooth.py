"""A marginal as a smooth function, for contours and surfaces.

The probability of each cell is spread by a cubic B-spline: the function has no corners, is not
negative, and has the same total and mean. Its variance is larger by a third of the squared width of
a cell. Cells that are small beside the whole density are blurred besides, by about a hundredth of
its length, so that a thin density has no dots where its cells and its shape beat. The level of a
region is chosen so that the density before it was spread has the wanted probability within it: what
spreading has changed follows from the second derivatives of the function, to second order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_ACROSS = 60  # cells along an axis that need no blur
_TAIL = 5e-4  # probability beyond each end of what counts as the length of an axis
_CELLS_MOST = 1 << 23  # beyond this, neighbouring cells are joined
_PLACES_MOST = 1 << 21
_FINEST = 6  # places in a cell along each variable
_MARGIN = 2  # cells about which the spline ends


@dataclass(frozen=True)
class Smooth:
    """A density of a few variables at evenly spaced places."""

    axes: tuple[np.ndarray, ...]  # places along each variable
    density: np.ndarray
    held: np.ndarray  # probability about each place, before it was spread

    def levels(self, probabilities: Sequence[float]) -> np.ndarray:
        """Densities at the edges of the highest-density regions of these probabilities."""
        descending = np.argsort(self.density, axis=None)[::-1]
        held = np.maximum.accumulate(np.cumsum(self.held.ravel()[descending]))
        at = np.searchsorted(held, np.asarray(probabilities) * held[-1])
        found = self.density.ravel()[descending[np.minimum(at, held.size - 1)]]
        return np.maximum(found, np.finfo(float).tiny)

    @property
    def steps(self) -> np.ndarray:
        """Distances between two places, shape [variable_count]."""
        return np.array([axis[1] - axis[0] for axis in self.axes])


def smooth(
    points: np.ndarray,
    mass: np.ndarray,
    width: np.ndarray,
    *,
    periods: np.ndarray | None = None,
    is_turned: bool = False,
    places_most: int = _PLACES_MOST,
) -> Smooth:
    """The smooth density of `points` [point, variable], each with a `mass`.

    `width` [variable] is that of the cells. A variable with a period is drawn once around if the
    cells go around. `is_turned`: the points are those of a rotated grid, and are divided between
    the cells beside them.
    """
    is_free = np.ones(len(width), bool) if periods is None else periods == 0
    low, high = points.min(axis=0), points.max(axis=0)
    shape = np.rint((high - low) / width).astype(np.int64) + 1
    while shape.prod(dtype=float) > _CELLS_MOST:
        width = np.where((shape == shape.max()) | is_free, 2 * width, width)
        shape = np.rint((high - low) / width).astype(np.int64) + 1
    turns = np.zeros(len(width), np.int64)
    if periods is not None:
        turns = np.where(is_free, 0, np.rint(periods / width)).astype(np.int64)
    goes_around = (turns > 0) & (shape + 2 * _MARGIN >= turns)
    shape = np.where(goes_around, turns, shape + is_turned)
    coarse = _binned((points - low) / width, mass, shape, is_turned)
    blur = _lengths(coarse) / _ACROSS
    blocks = np.where(goes_around, 1, np.maximum(blur / 2, 1)).astype(np.int64)
    variance = width**2 * (5 / 12 * blocks**2 + np.where(blur > 1, 0.5 * blur, 0.0) ** 2)
    density, start = _blurred(coarse, blur, blocks, goes_around)
    shape, low, width = np.array(density.shape), low + start * width, width * blocks
    margin = np.where(goes_around, 0, _MARGIN)
    room = places_most / (shape + 2 * margin).prod(dtype=float)
    finer = int(np.clip(room ** (1 / len(width)), 1, _FINEST))
    axes = []
    for d, count in enumerate(shape):
        place = (np.arange((count + 2 * margin[d]) * finer) + 0.5) / finer - 0.5 - margin[d]
        density = _along(d, _spline(place, count, bool(goes_around[d])), density)
        axes.append(low[d] + place * width[d])
    held = density.copy()
    for d, step in enumerate(width / finer):
        bend = np.roll(density, 1, d) - 2 * density + np.roll(density, -1, d)
        held -= 0.5 * variance[d] / step**2 * bend
    return Smooth(tuple(axes), density / width.prod(), held / finer ** len(width))


def _lengths(mass: np.ndarray) -> np.ndarray:
    """Number of cells along each axis, without the tails."""
    found = np.empty(mass.ndim)
    for d in range(mass.ndim):
        held = np.cumsum(mass.sum(axis=tuple(k for k in range(mass.ndim) if k != d)))
        first, last = np.searchsorted(held, held[-1] * np.array([_TAIL, 1 - _TAIL]))
        found[d] = last - first + 1
    return found


def _blurred(
    mass: np.ndarray, blur: np.ndarray, blocks: np.ndarray, goes_around: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Masses of blocks of cells, blurred, and the place of the first block.

    A B-spline on blocks adds to the blur: together they are about half as wide as `blur` [axis].
    """
    from scipy.ndimage import gaussian_filter

    sigma = np.where(blur > 1, 0.5 * blur, 0.0)
    room = np.where(goes_around, 0, np.ceil(_REACH * sigma)).astype(np.int64)
    after = room + (-(np.array(mass.shape) + 2 * room)) % blocks
    mass = np.pad(mass, np.stack([room, after], axis=1))
    modes = ["wrap" if one else "constant" for one in goes_around]
    mass = gaussian_filter(mass, sigma, mode=modes, truncate=_REACH) if sigma.any() else mass
    shape = np.stack([np.array(mass.shape) // blocks, blocks], axis=1).ravel()
    mass = mass.reshape(shape).sum(axis=tuple(range(1, 2 * mass.ndim, 2)))
    return mass, 0.5 * (blocks - 1) - room


_REACH = 3.0  # deviations of a blur


def _binned(places: np.ndarray, mass: np.ndarray, shape: np.ndarray, is_turned: bool) -> np.ndarray:
    """Mass of each cell; `places` [point, variable] are in cells from the first."""
    size, total = len(shape), int(shape.prod())
    found = np.zeros(total)
    base = np.floor(places) if is_turned else np.rint(places)
    share = places - base
    for corner in np.ndindex(*(2,) * size) if is_turned else [(0,) * size]:
        up = np.array(corner)
        part = np.where(up, share, 1 - share).prod(axis=1) if is_turned else 1.0
        index = (base.astype(np.int64) + up) % shape
        found += np.bincount(np.ravel_multi_index(index.T, tuple(shape)), mass * part, total)
    return found.reshape(shape)


def _spline(place: np.ndarray, count: int, goes_around: bool) -> Any:
    """Matrix [place, cell] of the cubic B-spline of each cell at the places."""
    from scipy.sparse import csr_matrix

    cell = np.floor(place).astype(np.int64)[:, None] + np.arange(-1, 3)
    away = np.abs(place[:, None] - cell)
    value = np.where(away < 1, 2 / 3 - away**2 + away**3 / 2, np.maximum(2 - away, 0) ** 3 / 6)
    row = np.broadcast_to(np.arange(len(place))[:, None], cell.shape)
    known = np.ones(cell.shape, bool) if goes_around else (cell >= 0) & (cell < count)
    return csr_matrix((value[known], (row[known], cell[known] % count)), (len(place), count))


def _along(axis: int, matrix: Any, values: np.ndarray) -> np.ndarray:
    """`values` with a matrix applied along one axis."""
    first = np.moveaxis(values, axis, 0)
    made = matrix @ first.reshape(first.shape[0], -1)
    return np.moveaxis(made.reshape(-1, *first.shape[1:]), 0, axis)
