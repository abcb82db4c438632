"""Reproduction numbers over time: of line lists, which tell who infected whom, and of counts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.epidemics.analysis.line_list import infector_case
from ergode.epidemics.analysis.summary import by_interval
from ergode.models.epidemic.dates import dates_since, origin_of
from ergode.models.holding_times.families import HoldingTime
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray

_LEVELS = 0.025, 0.25, 0.5, 0.75, 0.975
_CASE, _INSTANTANEOUS = "case_reproduction_number", "instantaneous_reproduction_number"
_FINE = 64  # points of an integral in each interval


@recorded({"cases": POINT})
def reproduction_number(
    cases: xarray.Dataset, *, by_replicate: bool = False, quantiles: Sequence[float] = _LEVELS
) -> xarray.Dataset:
    """Case and instantaneous reproduction number on the time grid of the simulation.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.
    by_replicate : bool
        Whether each replicate has numbers of its own; otherwise replicates are pooled.
    quantiles : sequence of float
        Levels of the bands over replicates, with `by_replicate`.

    Returns
    -------
    xarray.Dataset
        ``secondary_cases(case)``; ``case_reproduction_number(interval)``, the mean number of
        secondary cases of nodes infected in an interval of the grid; and
        ``instantaneous_reproduction_number(interval)``: infections in an interval, divided by the
        infections expected if every earlier case infected one node at the observed generation
        intervals, which are those of all replicates.  Numbers are NaN where nobody could infect.
        All seeds are infected at the same time: do not rely on the instantaneous number in the
        first generation.

        With `by_replicate` both numbers have the dim ``replicate``, and
        ``case_reproduction_number_quantile(level, interval)`` and that of the other are quantiles
        over the replicates that have a number.

    References
    ----------
    Cori, Ferguson, Fraser, Cauchemez, Am. J. Epidemiol. 178 (2013), eq. 1; Wallinga, Teunis,
    Am. J. Epidemiol. 160 (2004).
    """
    import xarray

    source = infector_case(cases)
    has_source = source >= 0
    secondary = np.bincount(source[has_source], minlength=source.size)
    edges = np.asarray(cases.attrs["times"])
    width = edges.size - 1
    first = int(cases.attrs.get("first_replicate", 0))
    rows = int(cases.attrs["replicates"]) if by_replicate else 1
    row = cases["replicate"].values - first if by_replicate else np.zeros(source.size, int)
    infected_at = cases["infected_at"].values
    bins = np.clip(np.searchsorted(edges, infected_at, side="left") - 1, -1, edges.size - 2)
    inside = bins >= 0

    def total(some: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Sum over some cases by row and interval."""
        flat = row[some] * width + bins[some]
        given = None if weights is None else weights[some]
        sums: np.ndarray = np.bincount(flat, given, minlength=rows * width)
        return sums.reshape(rows, width)

    pressure = np.zeros((rows, width))
    interval = np.sort(infected_at[has_source] - infected_at[source[has_source]])
    if interval.size:
        # Each case contributes one unit, distributed over time as the generation intervals.
        before = np.zeros(rows)
        for k, edge in enumerate(edges):
            share = np.searchsorted(interval, edge - infected_at, side="right") / interval.size
            until: np.ndarray = np.bincount(row, share, minlength=rows)
            if k:
                pressure[:, k - 1] = until - before
            before = until
    numbers: dict[str, Any] = {
        _CASE: _ratio(total(inside, secondary), total(inside)),
        _INSTANTANEOUS: _ratio(total(inside & has_source), pressure),
    }
    coords = {"interval": _middles(edges), "replicate": first + np.arange(rows)}
    if not by_replicate:
        del coords["replicate"]
        numbers = {name: one[0] for name, one in numbers.items()}
    dims = ("replicate", "interval") if by_replicate else ("interval",)
    found = xarray.Dataset(
        {
            "secondary_cases": ("case", secondary),
            **{name: (dims, one) for name, one in numbers.items()},
        },
        coords=coords,
    )
    origin = origin_of(cases.attrs.get("origin"), ())
    if origin is not None:
        found = found.assign_coords(date=("interval", dates_since(origin, _middles(edges))))
    return _with_bands(found, quantiles) if by_replicate else found


@recorded({"counts": POINT})
def reproduction_over_time(
    counts: xarray.Dataset, generation: HoldingTime, *, quantiles: Sequence[float] = _LEVELS
) -> xarray.Dataset:
    """Case and instantaneous reproduction number from counts, as they are estimated from data.

    The infections of each interval and the distribution of the generation interval tell how likely
    each case was infected by each other case.  Who infected whom is not used.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``, for all strata together.
    generation : HoldingTime
        Distribution of the generation interval, such as
        ``ergode.Gamma(mean=float(intervals.mean()), sd=float(intervals.std()))`` of
        `generation_interval`.
    quantiles : sequence of float
        Levels of the bands over replicates.

    Returns
    -------
    xarray.Dataset
        ``case_reproduction_number(replicate, interval)``, of the cases infected in an interval
        (Wallinga and Teunis); ``instantaneous_reproduction_number(replicate, interval)``,
        infections in an interval divided by those expected if every case infected one node (Cori
        and others); and ``..._quantile(level, interval)`` of both over the replicates that have a
        number.  Within an interval infections are taken to be evenly spread; seeds are infected at
        the first time.  Numbers are NaN where nobody could infect.  The case number of the last
        generation is too low, because its cases infect others after the last time.

    Raises
    ------
    ModelError
        `counts` are not counts of one point for all strata together, or `generation` is no holding
        time.

    References
    ----------
    Wallinga, Teunis, Am. J. Epidemiol. 160 (2004), eq. 1 and 2; Cori, Ferguson, Fraser, Cauchemez,
    Am. J. Epidemiol. 178 (2013), eq. 1.

    Examples
    --------
    >>> import ergode, numpy, xarray
    >>> cases = numpy.array([[1, 3, 7, 15, 31]])  # two cases of each, a day later
    >>> counts = xarray.Dataset(
    ...     {"cases": (("replicate", "time"), cases)}, coords={"time": [0.0, 1, 2, 3, 4]}
    ... )
    >>> found = ergode.epidemics.reproduction_over_time(counts, ergode.Deterministic(1.0))
    >>> found["instantaneous_reproduction_number"].values.round(6).tolist()
    [[2.0, 2.0, 2.0, 2.0]]
    """
    import xarray

    if "cases" not in counts or "time" not in counts["cases"].dims:
        raise ModelError("expected a Dataset from simulate(..., output='counts')")
    if not isinstance(generation, HoldingTime):
        raise ModelError(
            f"generation is {type(generation).__name__}; expected a HoldingTime, such as "
            "ergode.Gamma(mean=5, sd=2)"
        )
    if {*counts["cases"].dims} != {"replicate", "time"}:
        raise ModelError(
            f"cases have the dims {', '.join(map(str, counts['cases'].dims))}; expected replicate "
            "and time: choose one point, and sum over strata"
        )
    edges = np.asarray(counts["time"].values, float)
    new = by_interval(counts, "cases", "").transpose("replicate", "interval")
    infections = new.values.astype(float)
    seeds = counts["cases"].transpose("replicate", "time").values[:, :1]
    shares, of_seeds = _shares(generation, edges)
    pressure = infections @ shares + seeds * of_seeds
    with np.errstate(divide="ignore", invalid="ignore"):
        instantaneous = np.where(pressure > 0, infections / pressure, np.nan)
    case = np.where(infections > 0, np.nan_to_num(instantaneous) @ shares.T, np.nan)
    dims = "replicate", "interval"
    found = xarray.Dataset(
        {_CASE: (dims, case), _INSTANTANEOUS: (dims, instantaneous)}, coords=new.coords
    )
    return _with_bands(found, quantiles)


def _shares(generation: HoldingTime, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability that an infection by a case is in each interval.

    [interval of the case, interval] for cases that are evenly spread in an interval, and [interval]
    for cases at the first time.
    """
    fine = np.interp(
        np.arange((edges.size - 1) * _FINE + 1) / _FINE, np.arange(edges.size), edges
    )  # fmt: skip
    middle = 0.5 * (fine[1:] + fine[:-1])
    source = middle.reshape(-1, _FINE)
    shares = np.zeros((edges.size - 1, edges.size))
    for k, edge in enumerate(edges):
        age = np.maximum(edge - source, 0.0)
        shares[:, k] = np.where(edge > source, 1.0 - generation.survival(age), 0.0).mean(axis=1)
    since = edges - edges[0]
    of_seeds = np.diff(np.where(since > 0, 1.0 - generation.survival(since), 0.0))
    return np.diff(shares, axis=1), of_seeds


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, above / below, np.nan)


def _middles(edges: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (edges[1:] + edges[:-1]))


def _with_bands(found: xarray.Dataset, quantiles: Sequence[float]) -> xarray.Dataset:
    """Add quantiles over the replicates that have a number."""
    levels = [float(level) for level in np.atleast_1d(quantiles)]
    if not all(0.0 <= level <= 1.0 for level in levels):
        raise PlanError(f"quantiles are {levels}; expected levels between 0 and 1")
    bands: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
        for name in (_CASE, _INSTANTANEOUS):
            band = found[name].quantile(levels, "replicate", skipna=True)
            bands[f"{name}_quantile"] = band.rename(quantile="level")
    return found.assign(bands)
