"""Position of the lattice, and its first cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, check_range, nearest
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError, PlanError
from ergode.density.bayes import evaluate
from ergode.density.grid.lattice import DIMENSIONS_MOST, Lattice
from ergode.density.specialize import Limits, capacities
from ergode.models.estimation.covariances import root_of
from ergode.models.estimation.priors import Gaussian, Mixture, Prior, Samples

_BOX = 3.0  # half the extent of the published runs' box [standard deviations]
TAIL = 1e-4  # default threshold, relative to the largest cell
_FAR = 5.0  # search radius if only mean and covariance are known [standard deviations]
_CELLS_MOST = 1 << 28
_BLOCK = 1 << 15  # cells evaluated in one batch, which stays in the cache


def directions(axes: Any, prior: Prior, noise: np.ndarray | None) -> np.ndarray | None:
    """Axes of the lattice, as columns; None if they are the axes of the variables.

    Raises a PlanError if the axes are not orthogonal, or the noise is not diagonal along them.
    """
    size = prior.mean.size
    if isinstance(axes, str) and axes == "variables":
        if noise is not None and np.any(noise != np.diag(np.diag(noise))):
            return _uncorrelated(np.linalg.eigh(noise)[1], noise, _UNLIKE)
        return None
    if isinstance(axes, str) and axes == "principal":
        turned = np.linalg.eigh(prior.covariance)[1]
    else:
        numbers = as_numbers(axes)
        good = numbers is not None and numbers.shape == (size, size)
        turned = np.eye(size) if numbers is None else numbers
        if not good or np.abs(turned.T @ turned - np.eye(size)).max() > 1e-8:
            raise PlanError(
                f"axes is {axes!r}; expected 'variables', 'principal' or an orthogonal matrix of "
                f"shape ({size}, {size}){nearest(axes, ('variables', 'principal'))}"
            )
    return turned if noise is None else _uncorrelated(turned, noise, _ASKEW)


_ASKEW = (
    "process_noise is not diagonal along the axes of the grid; leave axes out: the grid is then "
    "rotated to the axes of the noise"
)
_UNLIKE = (
    "process_noise is correlated between variables whose units differ so much that no grid can be "
    "rotated to its axes; use units in which its variances are alike"
)


def _uncorrelated(axes: np.ndarray, noise: np.ndarray, otherwise: str) -> np.ndarray:
    """The axes, if the noise is not correlated along them.

    Raises a PlanError, which says `otherwise`, if it is.
    """
    root = root_of(noise)
    along = axes.T @ root
    size = np.linalg.norm(along, axis=1)
    # Where terms cancel, the noise vanishes.
    seen = size > 1e-6 * (np.abs(axes.T) @ np.linalg.norm(root, axis=1))
    along = along[seen] / size[seen, None]
    if np.abs(along @ along.T - np.eye(len(along))).max(initial=0.0) > 1e-6:
        raise PlanError(otherwise)
    return axes


@lru_cache
def _plain(dimension: int) -> np.ndarray:
    """Axes along the variables, which many lattices share."""
    axes = np.eye(dimension)
    axes.flags.writeable = False
    return axes


def lay_lattice(
    prior: Prior, width: float | Sequence[float] | None, axes: np.ndarray | None, scale: float = 1.0
) -> Lattice:
    """A lattice around the prior's mean; its default width is times `scale`.

    Raises a ModelError if widths are not positive, or not one per dimension. Raises a PlanError if
    there are too many dimensions.
    """
    dimension = prior.mean.size
    if dimension > DIMENSIONS_MOST:
        raise PlanError(
            f"the field has {dimension} variables; a grid has {DIMENSIONS_MOST} dimensions at "
            "most: use an ensemble (ergode.particles)"
        )
    if width is None:
        own = np.asarray(prior.covariance, np.float64)
        own = own if axes is None else axes.T @ own @ axes
        widths = _default_widths(own.tobytes(), scale)
    else:
        given = as_numbers(width)
        if given is None or given.shape not in ((), (1,), (dimension,)):
            raise ModelError(
                f"width is {width!r}; expected a number, or one for each of {dimension} variables"
            )
        widths = np.broadcast_to(given, (dimension,)).copy()
        if not (np.isfinite(widths).all() and (widths > 0).all()):
            raise ModelError(f"width is {widths}; expected positive numbers")
    is_turned, axes = axes is not None, _plain(dimension) if axes is None else axes
    return Lattice(np.asarray(prior.mean, np.float64), widths, axes, is_turned)


@lru_cache(maxsize=64)
def _default_widths(covariance: bytes, scale: float) -> np.ndarray:
    """Default widths of cells, which densities side by side share."""
    values = np.frombuffer(covariance)
    size = math.isqrt(values.size)
    widths = np.asarray(0.5 * scale * np.sqrt(values.reshape(size, size).diagonal()))
    if not (np.isfinite(widths).all() and (widths > 0).all()):
        raise ModelError(f"width is {widths}; expected positive numbers")
    widths.flags.writeable = False
    return widths


_OUTSIDE = "the prior lies wholly outside the region"

_PLACES_IN_CELL = 8  # distinct numbers along each axis of a cell, at least


def check_lattices(lattices: Sequence[Lattice], precision: Precision) -> None:
    """Refuse lattices that cannot be represented in a precision.

    Raises a PlanError if a centre or a width is too large or too small, or rounding merges points
    of neighbouring cells.
    """
    centre = np.stack([lattice.centre for lattice in lattices])
    width = np.stack([lattice.width for lattice in lattices])
    check_range({"the prior's mean": centre, "width": width}, precision)
    axes = np.abs(np.stack([lattice.axes for lattice in lattices]))
    apart = np.spacing(np.abs(centre).astype(precision)).astype(np.float64)
    along = np.einsum("ldk,ld->lk", axes, apart)
    narrow = np.argwhere(_PLACES_IN_CELL * along > width)
    if len(narrow):
        which, d = narrow[0].tolist()
        lattice = lattices[which]
        raise PlanError(
            f"width is {lattice.width[d]:g}, but {precision} numbers near the prior's mean, "
            f"{lattice.centre}, are {along[which, d]:.2g} apart; "
            + ("use precision='float64', or " if precision == "float32" else "")
            + "move the origin of the variables closer to the prior"
        )


@dataclass(frozen=True)
class Laid:
    """Cells of a prior on a lattice."""

    keys: np.ndarray  # keys in ascending order
    mass: np.ndarray  # masses, with the sum one
    threshold: float  # probability below which cells may be dropped
    left_out: float  # probability of the prior outside of the cells


def lay_prior(
    prior: Prior,
    lattice: Lattice,
    threshold: float | None,
    *,
    boxed: bool,
    cut: float | None = None,
    level: float = TAIL,
) -> Laid:
    """The first cells of a prior.

    With `boxed` these are all cells of a box. With `cut` they are the most probable cells, which
    omit no more than this mass. Otherwise they are the cells above the threshold; the default
    threshold is `level` times the mass of the largest cell.
    """
    left_out = 0.0
    if isinstance(prior, Samples):
        keys, cell = np.unique(lattice.pack(lattice.cell_of(prior.points)), return_inverse=True)
        mass = np.bincount(cell.ravel(), prior.weights, len(keys))
    else:
        if boxed:
            keys = lattice.pack(_box(prior, lattice))
        else:
            keys = _ellipsoids(prior, lattice, _reach(prior, lattice, threshold, cut, level))
        log = _log_density(prior, lattice, keys)
        mass = np.exp(log - log.max())
        if not _is_vague(prior):
            peak = np.exp(log.max() + np.log(lattice.width).sum())
            left_out = max(0.0, 1.0 - float(mass.sum() * peak))
    mass = mass / mass.sum()
    if lattice.turns is not None:
        keys, mass = _wrapped(lattice, keys, mass)
    if cut is not None:
        ascending = np.sort(mass)
        below = np.cumsum(ascending) * (1.0 - left_out) + left_out
        threshold = float(ascending[min(np.searchsorted(below, cut), mass.size - 1)])
    elif threshold is None:
        threshold = float(level * mass.max())
    if not boxed:
        stays = mass >= threshold
        if not stays.any():
            raise PlanError(
                f"threshold is {threshold:g}, but the largest cell of the prior has a probability "
                f"of {mass.max():.3g}; use a smaller threshold or larger widths"
            )
        left_out = 1.0 - (1.0 - left_out) * float(mass[stays].sum())
        keys, mass = keys[stays], mass[stays] / mass[stays].sum()
    return Laid(keys, mass, threshold, left_out)


def _wrapped(lattice: Lattice, keys: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys and masses of cells, with what is beyond a period wrapped around it."""
    inside = lattice.pack(lattice.wrapped(lattice.unpack(keys)))
    found, cell = np.unique(inside, return_inverse=True)
    return found, np.bincount(cell.ravel(), mass, len(found))


def count_estimate(
    prior: Prior,
    lattice: Lattice,
    threshold: float | None,
    *,
    boxed: bool = False,
    cut: float | None = None,
    level: float = TAIL,
) -> float:
    """Number of cells that `lay_prior` evaluates for a prior, from volumes; an upper bound."""
    if isinstance(prior, Samples):
        return float(len(prior.points))
    parts = prior.components if isinstance(prior, Mixture) else (prior,)
    cells = np.log(lattice.width).sum()
    if boxed:
        spread = np.sqrt(np.diag(lattice.axes.T @ prior.covariance @ lattice.axes))
        return float(np.prod(2.0 * _BOX * spread / lattice.width))
    size = lattice.dimension
    reach = _reach(prior, lattice, threshold, cut, level)
    ball = size / 2 * math.log(math.pi) - math.lgamma(size / 2 + 1) + size * math.log(reach)
    volumes = [0.5 * np.linalg.slogdet(part.covariance)[1] for part in parts]
    return float(np.exp(np.minimum(ball + np.array(volumes) - cells, 700.0)).sum())


def _reach(
    prior: Prior, lattice: Lattice, threshold: float | None, cut: float | None, level: float
) -> float:
    """Search radius for cells of a prior [standard deviations]; see `lay_prior`."""
    if cut is not None:
        from scipy.special import chdtri  # importing it takes 0.1 s

        # A tenth of the permitted loss is outside of the ellipsoid that is searched.
        reach = float(np.sqrt(chdtri(lattice.dimension, 0.1 * cut)))
    else:
        least = level if threshold is None else threshold / _largest(prior, lattice)
        reach = float(np.sqrt(-2 * np.log(min(least, 0.5)))) if least > 0 else _FAR
    return max(reach, _FAR if _is_vague(prior) else 0)


def within(
    limits: Limits | None,
    lattice: Lattice,
    parameters: np.ndarray,
    keys: np.ndarray,
    mass: np.ndarray,
    counted: bool,
) -> tuple[np.ndarray, np.ndarray, Limits | None]:
    """The admissible cells with their masses normalised, and the limits.

    If the lower limit is NaN, the range is that of these cells. A cell that the edge of a region
    cuts has its share of the mass, unless masses were `counted`.

    Raises a PlanError if no cell is admissible.
    """
    if limits is None:
        return keys, mass, None
    if limits.cuts or limits.absorbs:
        share = capacities(limits, lattice, parameters, keys)
        mass = np.where(share > 0, mass, 0.0) if counted else mass * share
        if not mass.any():
            raise PlanError(_OUTSIDE)
        return keys[mass > 0], mass[mass > 0] / mass.sum(), limits
    values = evaluate(limits.function, lattice, parameters, keys)
    if np.isnan(limits.least):
        limits = replace(limits, least=float(values.min()), largest=float(values.max()))
    inside = (values >= limits.least) & (values <= limits.largest)
    if not inside.any():
        raise PlanError(_OUTSIDE)
    return keys[inside], mass[inside] / mass[inside].sum(), limits


def _is_vague(prior: Prior) -> bool:
    return not isinstance(prior, Gaussian | Mixture)


def _largest(prior: Prior, lattice: Lattice) -> float:
    """Probability of the largest cell if the prior were Gaussian."""
    volume = np.log(lattice.width).sum()
    parts = prior.components if isinstance(prior, Mixture) else (prior,)
    peaks = [
        volume - 0.5 * (part.mean.size * np.log(2 * np.pi) + np.linalg.slogdet(part.covariance)[1])
        for part in parts
    ]
    return float(np.exp(max(peaks)))


def _box(prior: Prior, lattice: Lattice) -> np.ndarray:
    spread = np.sqrt(np.diag(lattice.axes.T @ prior.covariance @ lattice.axes))
    reach = np.maximum(np.rint(_BOX * spread / lattice.width), 1).astype(np.int64)
    if np.prod(2.0 * reach + 1) > _CELLS_MOST:
        raise PlanError(
            f"the prior's box has {np.prod(2.0 * reach + 1):.3g} cells; use larger widths"
        )
    grid = np.indices(tuple(2 * reach[::-1] + 1), dtype=np.int32)
    return grid.reshape(lattice.dimension, -1)[::-1].T - reach.astype(np.int32)


def _log_density(prior: Prior, lattice: Lattice, keys: np.ndarray) -> np.ndarray:
    found = np.empty(len(keys))
    for first in range(0, len(keys), _BLOCK):
        block = slice(first, first + _BLOCK)
        found[block] = prior.log_density(lattice.points(lattice.unpack(keys[block])))
    return found


def _ellipsoids(prior: Prior, lattice: Lattice, reach: float) -> np.ndarray:
    """Keys of the cells within `reach` standard deviations of a prior, or of its components."""
    parts = prior.components if isinstance(prior, Mixture) else (prior,)
    found = []
    for part in parts:
        covariance = lattice.axes.T @ part.covariance @ lattice.axes
        covariance = covariance / np.outer(lattice.width, lattice.width)
        middle = ((part.mean - lattice.centre) @ lattice.axes) / lattice.width
        found.append(lattice.pack(ellipsoid(middle, covariance, reach)))
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def _check_count(count: float) -> None:
    if count > _CELLS_MOST:
        raise PlanError(
            f"the prior covers more than {_CELLS_MOST} cells; use larger widths or a larger "
            "threshold"
        )


def ellipsoid(middle: np.ndarray, covariance: np.ndarray, reach: float) -> np.ndarray:
    """Integer points of an ellipsoid [point, dimension], in the order of their keys.

    Dimensions are processed from the last, the most significant of a key, to the first: with the
    Cholesky factor L, x = middle + L y and |y| <= reach, the coordinates chosen so far leave an
    interval for the next one.
    """
    dimension = len(middle)
    try:
        factor = np.linalg.cholesky(covariance[::-1, ::-1])
    except np.linalg.LinAlgError:
        raise PlanError("width is far larger than the prior; use smaller widths") from None
    # The volume approximates the number of points before any are made.
    unit = math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1)
    _check_count(unit * np.prod(reach * np.diag(factor)) / 2)
    points = np.zeros((1, 0), np.int32)
    y = np.zeros((1, 0))
    for n in range(dimension):
        centre = middle[dimension - 1 - n] + y @ factor[n, :n]
        left = np.maximum(reach**2 - np.square(y).sum(axis=1), 0.0)
        half = factor[n, n] * np.sqrt(left)
        low, high = np.ceil(centre - half), np.floor(centre + half)
        counts = np.maximum(high - low + 1, 0.0)
        if not counts.any():  # no lattice point inside: take the nearest
            low, counts = np.rint(centre), np.ones_like(centre)
        _check_count(counts.sum())
        counts = counts.astype(np.int64)
        row = np.repeat(np.arange(len(counts)), counts)
        value = low[row] + (np.arange(len(row)) - (np.cumsum(counts) - counts)[row])
        points = np.column_stack([value.astype(np.int32), points[row]])
        if n + 1 < dimension:
            y = np.column_stack([y[row], (value - centre[row]) / factor[n, n]])
    return points
