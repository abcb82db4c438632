"""Distance between a density on a grid and an ensemble of particles, and its sampling error.

The marginals of each variable are binned on common bins and compared by two distances:

- total variation, half the sum of absolute differences: the largest difference in the probability
  of any set of bins, 0 to 1;
- the Wasserstein distance of first order, the area between the distribution functions: the mean
  distance over which probability has to be moved, in the units of the variable.

For a finite ensemble neither is ever zero.  The part that chance explains is estimated from two
halves of the particles: their distance is scaled by 1/2, because the difference of two halves has
twice the standard deviation of the sampling error of the whole ensemble.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode import density
from ergode.core import devices, results
from ergode.core.arguments import integer
from ergode.core.errors import PlanError
from ergode.core.results import Variable
from ergode.core.stopwatch import Stopwatch
from ergode.density import views
from ergode.models.estimation.estimation import estimation
from ergode.models.estimation.priors import Prior
from ergode.models.fields.vector_field import VectorField
from ergode.particles.cloud import moments
from ergode.particles.propagate import gather, propagate, unreliable_from, warn_of_few

if TYPE_CHECKING:
    import xarray

_EACH = ("tool", "time", "variable")
_BOTH = ("time", "variable")
results.register(
    "particles",
    "comparison",
    [
        Variable("mean", _EACH, "floating", "1", "mean by each of the tools"),
        Variable("deviation", _EACH, "floating", "1", "standard deviation by each of the tools"),
        Variable("mean_error", _BOTH, "floating", "1", "standard error of the particles' mean"),
        Variable(
            "deviation_error", _BOTH, "floating", "1",
            "standard error of the particles' standard deviation",
        ),
        Variable(
            "total_variation", _BOTH, "floating", "1", "total variation between the marginals"
        ),
        Variable("total_variation_by_chance", _BOTH, "floating", "1", "the part due to chance"),
        Variable("wasserstein", _BOTH, "floating", "1", "Wasserstein distance of the marginals"),
        Variable("wasserstein_by_chance", _BOTH, "floating", "1", "the part due to chance"),
        Variable("position", (*_BOTH, "bin"), "floating", "1", "middle of a bin"),
        Variable("marginal", (*_EACH, "bin"), "floating", "1", "probability density in a bin"),
        Variable("log_evidence", ("tool", "measurement"), "floating", "1", "log evidence"),
        Variable("mass_lost", ("time",), "floating", "1", "probability that the grid dropped"),
        Variable(
            "effective_count", ("time",), "floating", "1",
            "effective sample size before resampling: the smallest since the previous reported "
            "time",
        ),
        Variable(
            "unreliable_from", ("tool",), "floating", "time",
            "time of the first measurement after which the result is unreliable; missing if there "
            "is none",
        ),
        Variable("seconds", ("tool",), "floating", "s", "wall time, compiling included"),
    ],
)  # fmt: skip

_TAIL = 1e-4  # fraction of the particles that may lie outside of the bins, on each side


def compare(
    field: VectorField,
    prior: Prior,
    *,
    times: ArrayLike,
    bins: int = 50,
    device: str | devices.Device = "auto",
    **options: Any,
) -> xarray.Dataset:
    """Compare a density on a grid with an ensemble of particles.

    This runs `ergode.density.propagate` and `ergode.particles.propagate` with the same field,
    prior, measurements and noise.

    Parameters
    ----------
    field, prior, times, device
        Arguments of both calls.
    bins : int
        Number of bins of each marginal.
    **options
        Options of both calls (``measurements``, ``parameters``, ``process_noise``), of the
        particles (``count``, ``seed``, ``step``, ``rtol``, ``resample_below``), or of the density
        (``width``, ``threshold``, ``scheme`` and others).

    Returns
    -------
    xarray.Dataset
        mean and deviation(tool, time, variable), with the particles' standard errors;
        total_variation and wasserstein(time, variable) between the marginals, and the part of both
        that chance explains; marginal(tool, time, variable, bin) at position(time, variable, bin);
        log_evidence(tool, measurement); mass_lost(time), effective_count(time), seconds(tool);
        ``unreliable_from(tool)``, the time of the first measurement after which the result of the
        tool is unreliable.

    Raises
    ------
    ModelError, PlanError
        See `ergode.density.propagate` and `ergode.particles.propagate`.

    Examples
    --------
    >>> import ergode
    >>> found = ergode.particles.compare(
    ...     ergode.fields.ornstein_uhlenbeck(), ergode.Gaussian([1.5], [0.04]), times=[0, 1],
    ...     parameters={"rate": 1.0, "mean": 0.0}, process_noise=[0.5], width=0.05,
    ...     count=20_000, device="cpu",
    ... )
    >>> bool(found["total_variation"][-1, 0] < 3 * found["total_variation_by_chance"][-1, 0])
    True
    """
    stopwatch = Stopwatch()
    bins = integer("bins", bins, 4, 100_000)
    _check_names(options)
    place = devices.resolve(device)
    started = clock.perf_counter()
    given = {name: value for name, value in options.items() if name in _OF_PARTICLES}
    given = {name: one.default for name, one in _OF_PARTICLES.items()} | given
    asked = estimation(
        field,
        prior,
        times,
        given.pop("measurements"),
        given.pop("parameters"),
        reserved=results.names("particles", "comparison"),
    )
    asked.one_at_a_time("a comparison takes")
    of_density = {name: value for name, value in options.items() if name in _OF_DENSITY}
    on_grid = density.propagate(field, prior, times=times, device=place, keep="all", **of_density)
    middle = clock.perf_counter()
    # The grid's run may have ended early.
    times = on_grid["time"].values
    found = [one for one in asked.measurements if one.time <= times[-1]]
    cloud = gather(replace(asked, times=times), **given, device=place)
    rows: list[dict[str, np.ndarray]] = []
    effective = []
    for number, _ in enumerate(cloud.visit(times, found)):
        cells = views.cells_at(on_grid, index=number)
        rows.append(_both(cells, cloud.points, cloud.weights, bins))
        effective.append(cloud.least_effective_count())
    warn_of_few(cloud, found)
    seconds = np.array([middle - started, clock.perf_counter() - middle])
    values = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    for name in ("mean", "deviation", "marginal"):
        values[name] = np.moveaxis(values[name], 1, 0)
    values |= {
        "log_evidence": np.array([on_grid["log_evidence"].values[: len(found)], cloud.log_evidence],
                                 float),
        "mass_lost": on_grid["mass_lost"].values,
        "effective_count": np.array(effective),
        "unreliable_from": np.array(
            [float(on_grid["unreliable_from"]), unreliable_from(cloud, found)]
        ),
        "seconds": seconds,
    }  # fmt: skip
    attrs = results.provenance(
        stopwatch, engine="particles", device=place.name, device_model=place.model,
        model_digest=field.digest,
        particles=given["count"], seed=given["seed"], cell_steps=on_grid.attrs["cell_steps"],
        scheme=on_grid.attrs["method"], width=on_grid["width"].values,
        threshold=float(on_grid["threshold"]),
    )  # fmt: skip
    coords = {
        "tool": ["density", "particles"], "time": times, "variable": list(field.variables),
        "measurement": [one.time for one in found],
    }  # fmt: skip
    return results.dataset("particles", "comparison", values, coords=coords, attrs=attrs)


# Options of each call by name, without the arguments of the comparison itself.
_OF_DENSITY, _OF_PARTICLES = (
    {
        name: one
        for name, one in signature(tool).parameters.items()
        if name not in ("field", "prior", "times", "device", "keep", "progress")
    }
    for tool in (density.propagate, propagate)
)


def _check_names(options: Mapping[str, Any]) -> None:
    if "keep" in options:
        raise PlanError("option 'keep' is not available: the comparison keeps what it needs")
    known = [*_OF_DENSITY, *(name for name in _OF_PARTICLES if name not in _OF_DENSITY)]
    for name in options:
        if name not in known:
            raise PlanError(f"option '{name}' is unknown; expected one of {', '.join(known)}")


def _both(
    cells: xarray.Dataset, points: np.ndarray, weights: np.ndarray, bins: int
) -> dict[str, np.ndarray]:
    """All comparisons at one time."""
    mass, centres = cells["mass"].values, cells["point"].values
    grid_mean, grid_covariance = moments(centres, mass)
    mean, covariance = moments(points, weights)
    deviation = np.sqrt(np.diag(covariance))
    away = points - mean
    mean_error = np.sqrt((weights**2) @ away**2)
    # The standard error of the variance; the delta method gives that of the standard deviation.
    about = np.sqrt((weights**2) @ (away**2 - deviation**2) ** 2)
    found: dict[str, Any] = {
        "mean": [grid_mean, mean],
        "deviation": [np.sqrt(np.diag(grid_covariance)), deviation],
        "mean_error": mean_error,
        "deviation_error": about / (2 * np.maximum(deviation, 1e-300)),
    }
    widths = views.widths_along(cells)
    columns = [_marginals(views.marginal(cells, str(name)), widths[k], points[:, k], weights, bins)
               for k, name in enumerate(cells["variable"].values)]  # fmt: skip
    for name in columns[0]:
        found[name] = np.stack([column[name] for column in columns])
    found["marginal"] = np.swapaxes(found["marginal"], 0, 1)
    return {name: np.asarray(value) for name, value in found.items()}


def _marginals(
    curve: xarray.DataArray, width: float, x: np.ndarray, weights: np.ndarray, bins: int
) -> dict[str, Any]:
    """One variable's marginals and the distances between them."""
    at = curve[curve.dims[0]].values
    faces = np.append(at - 0.5 * width, at[-1] + 0.5 * width)
    rises = np.concatenate([[0.0], np.cumsum(curve.values * width)])
    rises /= rises[-1]
    order = np.argsort(x)
    so_far = np.cumsum(weights[order])
    low, high = x[order[np.searchsorted(so_far, [_TAIL, 1 - _TAIL]).clip(0, x.size - 1)]]
    kept = np.interp([_TAIL, 1 - _TAIL], rises, faces)
    edges = np.linspace(min(low, kept[0]), max(high, kept[1]), bins + 1)
    if edges[-1] - edges[0] <= 0:
        edges = np.linspace(edges[0] - width, edges[0] + width, bins + 1)
    size = edges[1] - edges[0]
    # Smooth within cells, and monotone.
    from scipy.interpolate import PchipInterpolator  # it takes a second to import

    inside = PchipInterpolator(faces, rises)(np.clip(edges, faces[0], faces[-1]))
    on_grid = np.asarray(inside)
    in_cloud = _distribution(x, weights, edges)
    # Alternate particles form the halves, so that both represent the prior equally.
    halves = [_distribution(x[k::2], weights[k::2] / weights[k::2].sum(), edges) for k in (0, 1)]
    distance = {}
    for label, (one, other), part in (
        ("", (on_grid, in_cloud), 1.0), ("_by_chance", halves, 0.5),
    ):  # fmt: skip
        apart = one - other
        # The probability outside of the bins counts as one more bin on each side.
        outside = abs(apart[0]) + abs(apart[-1])
        distance["total_variation" + label] = part * 0.5 * (np.abs(np.diff(apart)).sum() + outside)
        distance["wasserstein" + label] = part * np.trapezoid(np.abs(apart), dx=size)
    return distance | {
        "position": 0.5 * (edges[1:] + edges[:-1]),
        "marginal": np.stack([np.diff(on_grid), np.diff(in_cloud)]) / size,
    }


def _distribution(x: np.ndarray, weights: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Probability below each edge."""
    within, _ = np.histogram(x, edges, weights=weights)
    below = float(weights[x < edges[0]].sum())
    return np.concatenate([[below], below + np.cumsum(within)])
