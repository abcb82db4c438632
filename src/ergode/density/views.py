"""Analysis of a density: its cells, marginals, regions, entropy, samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import integer, names_in
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, PlanError
from ergode.core.inputs import recorded
from ergode.core.words import counted
from ergode.density.grid.lattice import Lattice
from ergode.density.smooth import Smooth, smooth

if TYPE_CHECKING:
    import xarray

# A function that bends by more than this part of its change in a cell is far from linear there.
_BENT = 0.22
_TOLD = 1e-3  # probability in such cells, above which it is told


@recorded({})
def cells_at(
    dataset: xarray.Dataset, time: float | None = None, *, index: int | None = None
) -> xarray.Dataset:
    """The cells of a density at one time.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.density.propagate`; select one of several, as ``dataset.isel(trajectory=3)``.
    time : float, optional
        One of the dataset's times.
    index : int, optional
        Instead of `time`: the index of the time. The default is the last time.

    Returns
    -------
    mass(cell), whose sum is one; point(cell, variable), the centres of cells; and
    coordinate(cell, variable), their integer coordinates on the lattice.

    Raises
    ------
    PlanError
        The dataset has no such time, or kept no cells of it.
    """
    import xarray

    if "cells_stored" not in dataset:
        raise PlanError("the dataset has no cells; expected one from ergode.density.propagate")
    check_single(dataset)
    where = _index(dataset, time, index)
    count = int(dataset["cells_stored"][where])
    if count == 0 and not float(dataset["cell_count"][where]) > 0:
        raise PlanError(f"nothing of the density is left at time {float(dataset['time'][where]):g}")
    if count == 0:
        raise PlanError(
            f"the cells of time {float(dataset['time'][where]):g} were not kept; call propagate "
            "with keep='all'"
        )
    start = int(dataset["cell_start"][where])
    coordinate = dataset["coordinate"].values[start : start + count]
    centre = dataset["centre"].values
    if "grid_shift" in dataset:  # results of earlier versions have none
        centre = centre + dataset["grid_shift"].values[where]
    lattice = Lattice(centre, dataset["width"].values, dataset["axes"].values)
    return xarray.Dataset(
        {
            "mass": ("cell", dataset["mass"].values[start : start + count]),
            "point": (("cell", "variable"), lattice.points(coordinate)),
            "coordinate": (("cell", "variable"), coordinate),
        },
        coords={"variable": dataset["variable"].values, "time": dataset["time"].values[where]},
        attrs={"centre": lattice.centre, "width": lattice.width, "axes": lattice.axes.ravel()},
    )


@recorded({})
def marginal(cells: xarray.Dataset, variables: str | Sequence[str]) -> xarray.DataArray:
    """Probability density of one, two or more variables, on a regular grid.

    Parameters
    ----------
    cells : xarray.Dataset
        From `cells_at`.
    variables : str or sequence of str
        Variables to keep; all others are summed over.

    Returns
    -------
    xarray.DataArray
        Density [1 / product of the variables' units], one dim for each variable.

    Raises
    ------
    PlanError
        A variable is unknown.
    """
    import xarray

    _check_cells(cells)
    names = [variables] if isinstance(variables, str) else list(variables)
    known = [str(name) for name in cells["variable"].values]
    if not names:
        raise PlanError("variables is empty; expected at least one name")
    names_in("variable", names, known)
    columns = [known.index(name) for name in names]
    width = widths_along(cells)[columns]
    centre = np.asarray(cells.attrs["centre"], float)[columns]
    # On a rotated grid, points are binned on a new grid with the same resolution.
    points = cells["point"].values
    place, low, shape = np.zeros(len(points)), [], []
    for number, middle, step in zip(columns, centre, width, strict=True):
        coordinate = np.rint((points[:, number] - middle) / step)
        low.append(int(coordinate.min()))
        shape.append(int(coordinate.max()) - low[-1] + 1)
        place = place * shape[-1] + (coordinate - low[-1])
    place = place.astype(np.int64)
    density = np.bincount(place, cells["mass"].values, int(np.prod(shape))).reshape(shape)
    axes = {
        name: centre[k] + width[k] * (low[k] + np.arange(shape[k])) for k, name in enumerate(names)
    }
    return xarray.DataArray(density / width.prod(), coords=axes, dims=names, name="density")


def smooth_marginal(
    cells: xarray.Dataset,
    variables: Sequence[str],
    *,
    scattered: bool | None = None,
    **options: Any,
) -> Smooth:
    """Density of some variables as a smooth function; `options` are those of `smooth`.

    `scattered` is what `is_scattered` says of the cells.
    """
    _check_cells(cells)
    known = [str(name) for name in cells["variable"].values]
    columns = [known.index(name) for name in names_in("variable", variables, known)]
    axes = np.reshape(cells.attrs["axes"], (len(known), -1))[columns]
    is_turned = bool((np.count_nonzero(np.abs(axes) > 1e-12, axis=1) > 1).any())
    points, mass = cells["point"].values[:, columns], cells["mass"].values
    width = widths_along(cells)[columns]
    if len(columns) < len(known) and (is_scattered(cells) if scattered is None else scattered):
        least = min(_TOGETHER, len(points) // 2)
        joined = 1
        while _count_together(points, mass, joined * width) < least:
            joined += 1 + joined // 4
        periods = options.get("periods")
        kept = np.zeros(len(width), bool) if periods is None else periods > 0
        width = np.where(kept, width, joined * width)
    return smooth(points, mass, width, is_turned=is_turned, **options)


# Cells of a scattered density that are seen as one, so that its marginals have little noise.
_TOGETHER = 100
_SEEN = 2048  # cells whose neighbours are looked for
_ALONE = 0.5  # part of the neighbours below which cells are scattered


def _count_together(points: np.ndarray, mass: np.ndarray, width: np.ndarray) -> float:
    """Number of cells at one place of a marginal; fewer hold a twentieth of the probability."""
    places = np.rint(points / width).astype(np.int64)
    places -= places.min(axis=0)
    size = places.max(axis=0) + 1
    if size.prod(dtype=float) > 1 << 62:
        return 0.0
    found, where = np.unique(places @ np.cumprod([1, *size[:-1]]), return_inverse=True)
    count = np.bincount(where.ravel(), minlength=len(found))
    each = count[where.ravel()]
    rising = np.argsort(each)
    held = np.cumsum(mass[rising])
    return float(each[rising[np.searchsorted(held, 0.05 * held[-1])]])


def is_scattered(cells: xarray.Dataset) -> bool:
    """Whether most cells lack neighbours: a density too stretched to be filled with cells."""
    place = cells["coordinate"].values.astype(np.int64)
    random = np.random.Generator(np.random.Philox(0))
    factors = random.integers(-(1 << 62), 1 << 62, place.shape[1])
    keys = np.sort(place @ factors)  # whole numbers wrap: two places are rarely equal
    rising = np.cumsum(cells["mass"].values)
    chosen = np.searchsorted(rising, random.random(_SEEN) * rising[-1])
    seen = place[np.minimum(chosen, len(place) - 1)] @ factors
    beside = (seen[:, None] + np.concatenate([factors, -factors])).ravel()
    at = np.minimum(np.searchsorted(keys, beside), len(keys) - 1)
    return bool((keys[at] == beside).mean() < _ALONE)


def widths_along(cells: xarray.Dataset) -> np.ndarray:
    """Resolution of marginals: width of cells along each variable, shape [variable_count]."""
    width = np.asarray(cells.attrs["width"], float)
    return np.sqrt(np.square(np.reshape(cells.attrs["axes"], (width.size, -1)) * width).sum(axis=1))


def highest_density(cells: xarray.Dataset, probability: float | Sequence[float]) -> np.ndarray:
    """Masses of cells at the edge of the highest-density regions of given probabilities.

    Parameters
    ----------
    cells : xarray.Dataset
        From `cells_at`, or any Dataset with ``mass``.
    probability : float or sequence of float
        Probability of each region, 0 to 1.

    Returns
    -------
    ndarray
        For each probability p, the mass m such that the cells of mass m or more contain p in total;
        divided by a cell's volume, m is a level of the density.
    """
    wanted = np.atleast_1d(np.asarray(probability, float))
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise PlanError(f"probability is {probability!r}; expected numbers from 0 to 1")
    descending = np.sort(cells["mass"].values)[::-1]
    held = np.cumsum(descending)
    at = np.searchsorted(held, wanted * held[-1])
    return descending[np.minimum(at, descending.size - 1)]


def region_probability(
    cells: xarray.Dataset,
    contains: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    level: Callable[[np.ndarray], np.ndarray] | None = None,
) -> float:
    """Probability of a region.

    Parameters
    ----------
    cells : xarray.Dataset
        From `cells_at`.
    contains : function, optional
        Maps points [cell_count, variable_count] to whether they are in the region: booleans, or
        fractions of a cell, 0 to 1. With booleans a cell on the edge counts entirely or not at all:
        the error is of first order in the width, about half the mass of a layer of cells.
    level : function, optional
        Instead: maps points to numbers that are positive in the region, negative outside, and
        smooth across its edge, such as ``lambda x: x[:, 0] - 1``. A cell on the edge counts by the
        fraction of it that lies inside; the error is of second order. A region should not be
        thinner than a cell.

    Raises
    ------
    PlanError
        Both functions or none are given, or a function returns an invalid value.

    Warns
    -----
    AccuracyWarning
        The region of `level`, or what it leaves out, is thinner than a cell.

    Examples
    --------
    >>> import ergode
    >>> result = ergode.density.propagate(
    ...     ergode.fields.rotation(), ergode.Gaussian([0, 0], [1, 1]), times=[0],
    ...     parameters={"rate": 1}, width=0.25, threshold=1e-8, device="cpu",
    ... )
    >>> cells = ergode.density.cells_at(result)
    >>> round(ergode.density.region_probability(cells, level=lambda x: x[:, 0] - 0.3), 3)
    0.382
    """
    _check_cells(cells)
    if (contains is None) == (level is None):
        raise PlanError("a region is given by one function: expected either contains or level")
    points = cells["point"].values
    if level is not None:
        inside = _fractions_inside(cells, level)
    else:
        assert contains is not None
        inside = _one_each("contains", contains, points)
        if ((inside < 0) | (inside > 1)).any():
            raise PlanError(
                f"contains returned numbers from {inside.min():g} to {inside.max():g}; expected "
                "booleans or fractions, 0 to 1 - a function that is positive inside is level="
            )
    return float(inside @ cells["mass"].values)


def _one_each(
    name: str, function: Callable[[np.ndarray], np.ndarray], points: np.ndarray
) -> np.ndarray:
    found = np.asarray(function(points), float)
    if found.shape != (len(points),) or np.isnan(found).any():
        raise PlanError(
            f"{name} returned shape {found.shape}, or NaN; expected one number for each of "
            f"{counted(len(points), 'point')}"
        )
    return found


def _fractions_inside(
    cells: xarray.Dataset, level: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Fraction of each cell where a function is positive, with the function linearised in the cell.

    The exact fraction on one side of a plane depends on the plane's position and direction.  A ramp
    with the length of the gradient has the same mean and variance over all positions of the plane,
    so it has no first-order error.
    """
    points = cells["point"].values
    at = _one_each("level", level, points)
    width = np.asarray(cells.attrs["width"], float)
    axes = np.reshape(cells.attrs["axes"], (width.size, -1))
    square, bend = np.zeros(len(points)), np.zeros(len(points))
    for d in range(width.size):
        half = 0.5 * width[d] * axes[:, d]
        ends = [_one_each("level", level, points + side * half) for side in (1, -1)]
        change, second = ends[0] - ends[1], ends[0] + ends[1] - 2 * at
        # Whether the parabola through the centre and both ends crosses the edge in the cell.
        turns = abs(change) < 2 * abs(second)
        top = at - 0.125 * np.divide(change**2, second, out=np.zeros_like(at), where=turns)
        crosses = (ends[0] * ends[1] < 0) | (turns & (ends[0] * top < 0))
        bend = np.maximum(bend, np.where(crosses, 0.5 * abs(second), 0.0))
        square += change**2
    slope = np.sqrt(square)
    share = float(cells["mass"].values @ (bend > _BENT * slope))
    if share > _TOLD:
        warn(
            f"the region of level, or what it leaves out, is thinner than the cells that hold "
            f"{100 * share:.3g} % of the probability; use a smaller width",
            AccuracyWarning,
        )
    # Where the function is flat, a cell is entirely on one side of the edge, or on the edge.
    ratio = np.divide(at, slope, out=np.copysign(np.where(at == 0, 0.0, 1.0), at), where=slope > 0)
    return np.clip(0.5 + ratio, 0.0, 1.0)


def entropy(cells: xarray.Dataset) -> float:
    """Differential entropy of a density [nats]."""
    _check_cells(cells)
    mass = cells["mass"].values
    mass = mass[mass > 0]
    volume = float(np.prod(cells.attrs["width"]))
    return float(-(mass * np.log(mass / volume)).sum())


def samples(cells: xarray.Dataset, count: int, *, seed: int = 0) -> np.ndarray:
    """Points drawn from a density, uniform within cells, shape [count, variable_count]."""
    _check_cells(cells)
    count = integer("count", count, 0, 2**40)
    rng = np.random.Generator(np.random.Philox(seed))
    mass = cells["mass"].values
    which = np.searchsorted(np.cumsum(mass), rng.random(count) * mass.sum())
    inside = (rng.random((count, cells.sizes["variable"])) - 0.5) * np.asarray(cells.attrs["width"])
    size = cells.sizes["variable"]
    axes = np.reshape(cells.attrs["axes"], (size, size))
    return cells["point"].values[np.minimum(which, mass.size - 1)] + inside @ axes.T


def check_single(dataset: xarray.Dataset) -> None:
    """Refuse a dataset of several densities."""
    several = [str(dim) for dim in dataset["covariance"].dims[:-3]]
    if several:
        chosen = ", ".join(f"{dim}=0" for dim in several)
        raise PlanError(f"the dataset has several densities; choose one, as by isel({chosen})")


def _check_cells(cells: xarray.Dataset) -> None:
    if "point" not in cells:
        raise PlanError("expected the cells of one time, from ergode.density.cells_at")


def _index(dataset: xarray.Dataset, time: Any, index: int | None) -> int:
    size = dataset.sizes["time"]
    if time is not None:
        found = np.flatnonzero(np.isclose(dataset["time"].values, float(time), rtol=1e-12))
        if found.size == 0:
            raise PlanError(f"the dataset has no time {time:g}")
        return int(found[0])
    where = size - 1 if index is None else int(index)
    if not -size <= where < size:
        raise PlanError(f"index is {index}, and the dataset has {counted(size, 'time')}")
    return where % size
