"""Regions that hold a given probability: intervals over time, cells, surfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import number
from ergode.core.errors import PlanError
from ergode.core.inputs import recorded
from ergode.density.smooth import Smooth
from ergode.density.views import (
    cells_at,
    highest_density,
    marginal,
    smooth_marginal,
    widths_along,
)

if TYPE_CHECKING:
    import xarray


@recorded({})
def quantiles(dataset: xarray.Dataset, probability: float | Sequence[float]) -> xarray.DataArray:
    """Quantiles of every variable's marginal over time.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.density.propagate` with ``keep="all"``.
    probability : float or sequence of float
        Between 0 and 1: ``[0.025, 0.975]`` are the ends of credible intervals of 95 %.

    Returns
    -------
    xarray.DataArray
        quantile(time, variable, probability), linear within cells.

    Raises
    ------
    PlanError
        A probability is not between 0 and 1, or cells were not kept.

    Examples
    --------
    >>> import ergode
    >>> result = ergode.density.propagate(
    ...     ergode.fields.rotation(), ergode.Gaussian([1, 0], [0.04, 0.04]), times=[0],
    ...     parameters={"rate": 1}, width=0.05, threshold=1e-8, device="cpu",
    ... )
    >>> ergode.density.quantiles(result, [0.5, 0.841])[0, 0].values.round(2).tolist()
    [1.0, 1.2]
    """
    import xarray

    wanted = np.atleast_1d(np.asarray(probability, float))
    if not ((wanted > 0) & (wanted < 1)).all():
        raise PlanError(f"probability is {probability!r}; expected numbers between 0 and 1")
    names = [str(name) for name in dataset["variable"].values]
    found = np.empty((dataset.sizes["time"], len(names), wanted.size))
    for index in range(dataset.sizes["time"]):
        cells = cells_at(dataset, index=index)
        for k, name in enumerate(names):
            curve = marginal(cells, name)
            at, half = curve[name].values, 0.5 * widths_along(cells)[k]
            faces = np.append(at - half, at[-1] + half)
            rises = np.concatenate([[0.0], np.cumsum(curve.values)])
            found[index, k] = np.interp(wanted, rises / rises[-1], faces)
    return xarray.DataArray(
        found, dims=("time", "variable", "probability"), name="quantile",
        coords={"time": dataset["time"].values, "variable": names, "probability": wanted},
    )  # fmt: skip


@recorded({})
def credible_region(cells: xarray.Dataset, probability: float) -> xarray.Dataset:
    """The cells of the highest-density region of a given probability.

    Parameters
    ----------
    cells : xarray.Dataset
        From `cells_at`.
    probability : float
        Probability of the region, 0 to 1.

    Returns
    -------
    xarray.Dataset
        The cells of the region, in the form of `cells_at`; their masses are not normalised. attrs:
        ``volume`` [product of the variables' units] and ``level``, the density at the edge.

    Raises
    ------
    PlanError
        The probability is not between 0 and 1.
    """
    (least,) = highest_density(cells, number("probability", probability))
    inside = cells.isel(cell=np.flatnonzero(cells["mass"].values >= least))
    one = float(np.prod(cells.attrs["width"]))
    return inside.assign_attrs(volume=one * inside.sizes["cell"], level=float(least) / one)


def surface(
    cells: xarray.Dataset, variables: Sequence[str], probability: float
) -> tuple[np.ndarray, np.ndarray]:
    """The surface of the highest-density region of three variables' marginal, as triangles.

    Parameters
    ----------
    cells : xarray.Dataset
        From `cells_at`.
    variables : sequence of three str
        The three variables; all others are summed over.
    probability : float
        Probability of the region, between 0 and 1.

    Returns
    -------
    vertices : ndarray, shape [vertex_count, 3]
    faces : ndarray, shape [face_count, 3]
        Indices of the vertices of each triangle.

    Raises
    ------
    PlanError
        There are not three variables, one is unknown, or scikit-image is not installed.

    Notes
    -----
    The probability of each cell is spread by a cubic B-spline, so that the surface is smooth. A
    region that is thinner than a cell is drawn about as thick as one. What this spreading moves out
    of the region is taken into account to second order.

    References
    ----------
    T. Lewiner, H. Lopes, A. W. Vieira, G. Tavares, "Efficient implementation of marching cubes'
    cases with topological guarantees", J. Graph. Tools 8 (2003).
    """
    names = list(variables)
    if len(names) != 3:
        raise PlanError(f"variables is {variables!r}; expected three names")
    space = smooth_marginal(cells, names)
    (found,) = surfaces_of(space, [number("probability", probability)])
    return found


def surfaces_of(
    space: Smooth, probabilities: Sequence[float]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Vertices and faces of the surfaces of several probabilities; see `surface`."""
    try:
        from skimage import measure
    except ImportError:
        raise PlanError("surfaces need scikit-image (pip install 'ergode[densities]')") from None
    marching_cubes: Any = measure.marching_cubes
    low = np.array([axis[0] for axis in space.axes])
    found = []
    for level in space.levels(probabilities):
        vertices, faces, _, _ = marching_cubes(space.density, level, spacing=tuple(space.steps))
        found.append((vertices + low, faces))
    return found
