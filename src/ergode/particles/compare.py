"""Distance between a density on a grid and an ensemble of particles, and its sampling error.

A Kalman filter is shown beside: where its marginals differ, the density is not Gaussian.

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
from ergode.core.arguments import did_you_mean, integer
from ergode.core.calls.resident import KEEP
from ergode.core.errors import PlanError
from ergode.core.inputs import recorded
from ergode.core.results import Variable
from ergode.core.stopwatch import Stopwatch
from ergode.density import views
from ergode.models.estimation.estimation import Estimation, estimation
from ergode.models.estimation.maneuver import noted
from ergode.models.estimation.priors import Prior
from ergode.models.fields.vector_field import VectorField
from ergode.particles.kalman import bank_of
from ergode.particles.propagate import gather, propagate, unreliable_from, warn_of_few
from ergode.particles.unscented import unscented_kalman

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


@recorded({})
def compare(
    field: VectorField,
    prior: Prior,
    *,
    times: ArrayLike,
    bins: int = 50,
    device: str | devices.Device = "auto",
    **options: Any,
) -> xarray.Dataset:
    """Compare a density on a grid with an ensemble of particles and a Kalman filter.

    This runs `ergode.density.propagate`, `ergode.particles.propagate` and
    `ergode.particles.unscented_kalman` with the same field, prior, measurements, maneuvers and
    noise. The Kalman filter is missing (NaN) if a measurement has a likelihood instead of a value.

    Parameters
    ----------
    field, prior, times, device
        Arguments of all calls.
    bins : int
        Number of bins of each marginal.
    **options
        Options of all calls (``measurements``, ``maneuvers``, ``parameters``,
        ``process_noise``), of the particles (``count``, ``seed``, ``step``, ``rtol``,
        ``resample_below``, ``regularise``), of the Kalman filter (``alpha``, ``beta``,
        ``kappa``), or of the density (``width``, ``threshold``, ``scheme`` and others).

    Returns
    -------
    xarray.Dataset
        mean and deviation(tool, time, variable), with the particles' standard errors;
        total_variation and wasserstein(time, variable) between the marginals of grid and particles,
        and the part of both that chance explains; marginal(tool, time, variable, bin) at
        position(time, variable, bin);
        log_evidence(tool, measurement); mass_lost(time), effective_count(time), seconds(tool);
        ``unreliable_from(tool)``, the time of the first measurement after which the result of the
        tool is unreliable.

    Raises
    ------
    ModelError, PlanError
        See the three calls.

    Examples
    --------
    >>> import ergode
    >>> found = ergode.particles.compare(
    ...     ergode.field_from_equations({"x": "v", "v": "-k * x"}),
    ...     ergode.Gaussian([1.0, 0.0], [0.3, 0.3]), times=[0, 1], parameters={"k": 1.0},
    ...     width=0.1, count=20_000, step=0.05, device="cpu",
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
    of_kalman = {
        name: options.get(name, one.default) for name, one in _OF_KALMAN.items()
        if name not in _OF_PARTICLES
    }  # fmt: skip
    asked = estimation(
        field,
        prior,
        times,
        given.pop("measurements"),
        given.pop("parameters"),
        given.pop("maneuvers"),
        reserved=results.names("particles", "comparison"),
    )
    asked.one_at_a_time("a comparison takes")
    of_density = {name: value for name, value in options.items() if name in _OF_DENSITY}
    on_grid = density.propagate(field, prior, times=times, device=place, keep="all", **of_density)
    middle = clock.perf_counter()
    # The grid's run may have ended early.
    times = on_grid["time"].values
    found = [one for one in asked.measurements if one.time <= times[-1]]
    jumps = [one for one in asked.maneuvers if one.time <= times[-1]]
    asked = replace(asked, times=times, maneuvers=jumps)
    cloud = gather(asked, **given, device=place)
    rows: list[dict[str, np.ndarray]] = []
    effective = []
    for number, _ in enumerate(cloud.visit(times, found, jumps)):
        cells = views.cells_at(on_grid, index=number)
        rows.append(_both(cells, cloud.states(), cloud.weights(), bins))
        effective.append(cloud.least_effective_count())
    warn_of_few(cloud, found)
    later = clock.perf_counter()
    asked = replace(asked, measurements=found)
    gaussian = _gaussian(asked, given["process_noise"], of_kalman, place)
    for row, mean, covariance in zip(rows, gaussian["mean"], gaussian["covariance"], strict=True):
        _append_gaussian(row, mean, np.sqrt(np.diag(covariance)))
    seconds = np.array([middle - started, later - middle, clock.perf_counter() - later])
    values = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    for name in ("mean", "deviation", "marginal"):
        values[name] = np.moveaxis(values[name], 1, 0)
    values |= {
        "log_evidence": np.array(
            [on_grid["log_evidence"].values[: len(found)], cloud.log_evidence,
             gaussian["log_evidence"]], float,
        ),
        "mass_lost": on_grid["mass_lost"].values,
        "effective_count": np.array(effective),
        "unreliable_from": np.array(
            [float(on_grid["unreliable_from"]), unreliable_from(cloud, found), np.nan]
        ),
        "seconds": seconds,
    }  # fmt: skip
    attrs = results.provenance(
        stopwatch, engine="particles", device=place.name, device_model=place.model,
        model_digest=field.digest,
        particles=given["count"], seed=given["seed"], cell_steps=on_grid.attrs.get("cell_steps", 0),
        scheme=on_grid.attrs["method"], width=on_grid["width"].values,
        threshold=float(on_grid["threshold"]), **noted(jumps),
    )  # fmt: skip
    coords = {
        "tool": ["density", "particles", "kalman"], "time": times,
        "variable": list(field.variables),
        "measurement": [one.time for one in found],
    }  # fmt: skip
    return results.dataset("particles", "comparison", values, coords=coords, attrs=attrs)


# Options of each call by name, without the arguments of the comparison itself.
_NOT_OPTIONS = (
    "field", "prior", "times", "device", "keep", "progress", "executor", "store", "chunk",
    "checkpoint", KEEP,
)  # fmt: skip
_OF_DENSITY, _OF_PARTICLES, _OF_KALMAN = (
    {name: one for name, one in signature(tool).parameters.items() if name not in _NOT_OPTIONS}
    for tool in (density.propagate, propagate, unscented_kalman)
)


def _check_names(options: Mapping[str, Any]) -> None:
    if "keep" in options:
        raise PlanError("option 'keep' is not available: the comparison keeps what it needs")
    known = list({**_OF_DENSITY, **_OF_PARTICLES, **_OF_KALMAN})
    for name in options:
        if name not in known:
            raise PlanError(
                f"option '{name}' is unknown; expected one of {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )


def _gaussian(
    asked: Estimation, process_noise: Any, options: Mapping[str, Any], device: devices.Device
) -> dict[str, np.ndarray]:
    """Moments of the Kalman filter at each time, and its evidence; NaN if it is not for these."""
    size, count = len(asked.field.variables), len(asked.measurements)
    if not all(one.is_gaussian for one in asked.measurements):
        return {
            "mean": np.full((asked.times.size, size), np.nan),
            "covariance": np.full((asked.times.size, size, size), np.nan),
            "log_evidence": np.full(count, np.nan),
        }
    bank = bank_of(asked, process_noise, **options, device=device)
    moved = [
        (bank.mean[0], bank.covariance[0])
        for _ in bank.visit(asked.times, asked.measurements, asked.maneuvers)
    ]
    return {
        "mean": np.array([mean for mean, _ in moved]),
        "covariance": np.array([covariance for _, covariance in moved]),
        "log_evidence": bank.seen_values(count)["log_evidence"][0],
    }


def _append_gaussian(row: dict[str, np.ndarray], mean: np.ndarray, deviation: np.ndarray) -> None:
    """Append the Kalman filter to the moments and marginals of the tools at one time."""
    from scipy.special import ndtr  # it takes half a second to import

    middles = row["position"]
    width = middles[:, 1:2] - middles[:, :1]
    edges = np.append(middles - 0.5 * width, middles[:, -1:] + 0.5 * width, axis=1)
    below = ndtr((edges - mean[:, None]) / deviation[:, None])
    marginal = np.diff(below, axis=1) / width
    for name, value in (("mean", mean), ("deviation", deviation), ("marginal", marginal)):
        row[name] = np.concatenate([row[name], value[None]])


def moments(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [variable] and covariance [variable, variable]."""
    # Relative to a particle: the sum of many numbers far from zero would be rounded.
    shift = weights @ (points - points[0])
    away = points - points[0] - shift
    return points[0] + shift, (away * weights[:, None]).T @ away


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
