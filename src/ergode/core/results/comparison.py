"""Paired differences between results that share their randomness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.calls.parts import REPLICATE
from ergode.core.errors import PlanError
from ergode.core.inputs import recorded
from ergode.core.status import has_failed

if TYPE_CHECKING:
    import xarray

LEVELS = 0.025, 0.25, 0.5, 0.75, 0.975
SCENARIO = "scenario"
# Two results share their randomness if they agree in these.
_SHARED = {
    "seed": "give both the same seed",
    "method": "name one method in both; for epidemics, give the baseline interventions=()",
    "precision": "name one precision in both",
}


@recorded({})
def compare(
    baseline: xarray.Dataset | xarray.DataArray,
    scenarios: Mapping[str, Any] | xarray.Dataset | xarray.DataArray,
    *,
    quantiles: Sequence[float] = LEVELS,
) -> xarray.Dataset:
    """Differences of scenarios from a baseline, replicate by replicate.

    Replicates of equal number share their random numbers if both calls have one `seed`, one method
    and one precision.  They then differ only by the scenario, and the differences vary less than
    those of independent runs.

    Parameters
    ----------
    baseline : xarray.Dataset or xarray.DataArray
        A result with replicates, such as that of `ergode.epidemics.simulate` with ``"counts"``; or
        what an analysis makes of it, such as `ergode.epidemics.summary`.
    scenarios : mapping of str to Dataset or DataArray, or one of these
        A result for each scenario, by its name; or the result of a sweep, whose points are the
        scenarios.
    quantiles : sequence of float
        Levels of the bands over replicates.

    Returns
    -------
    xarray.Dataset
        For each variable that all have: ``NAME``, the mean of scenario less baseline over
        replicates; ``NAME_error``, its standard error; and ``NAME_quantile``, quantiles of the
        differences, with the dim ``level``.  The dim ``scenario`` or the dims of the sweep come
        first.  Replicates that failed or did not run in either result are left out.

    Raises
    ------
    PlanError
        The results have other replicates, times, seeds, methods or precisions, or no variable in
        common.

    Examples
    --------
    >>> import ergode
    >>> contacts = ergode.ContactNetwork.erdos_renyi(500, mean_degree=8, seed=1)
    >>> def run(rate):
    ...     model = ergode.CompartmentModel.sir(
    ...         transmission_rate=rate, infectious=ergode.Exponential(mean=6.0)
    ...     )
    ...     return ergode.epidemics.simulate(
    ...         model, contacts, initial={"I": 10}, times=range(81), replicates=20, device="cpu"
    ...     )
    >>> averted = ergode.compare(run(0.3), {"masks": run(0.2)})
    >>> float(averted["cases"].sel(scenario="masks", time=20)) < 0
    True
    """
    import pandas
    import xarray

    levels = [float(level) for level in np.atleast_1d(quantiles)]
    if not all(0.0 <= level <= 1.0 for level in levels):
        raise PlanError(f"quantiles are {levels}; expected levels between 0 and 1")
    first = _as_dataset(baseline, "baseline")
    if isinstance(scenarios, Mapping) and not isinstance(scenarios, xarray.Dataset):
        if not scenarios:
            raise PlanError("scenarios is empty; expected names and results")
        each = []
        for name, one in scenarios.items():
            other = _as_dataset(one, f"scenario '{name}'")
            each.append(_differences(first, other, levels, f"scenario '{name}'"))
        common = set.intersection(*(set(one.data_vars) for one in each))
        found = xarray.concat(
            [one[[name for name in one.data_vars if name in common]] for one in each],
            pandas.Index([str(name) for name in scenarios], name=SCENARIO),
        )
    else:
        other = _as_dataset(scenarios, "scenarios")
        found = _differences(first, other, levels, "scenarios")
    if not found.data_vars:
        raise PlanError(
            "the results have no variable with replicates in common; expected results of one call "
            "or of one analysis, which are not statistics over replicates"
        )
    found.attrs = {
        "replicates": int(first.sizes[REPLICATE]),
        **({"time_unit": "days"} if "date" in first.coords else {}),
        **{
            key: first.attrs[key]
            for key in ("engine", "model", "time_unit", *_SHARED)
            if key in first.attrs
        },
    }
    return found


def _as_dataset(given: Any, where: str) -> xarray.Dataset:
    """A result as a Dataset with replicates."""
    import xarray

    if isinstance(given, xarray.DataArray):
        given = given.rename(given.name or "value").to_dataset(promote_attrs=True)
    if not isinstance(given, xarray.Dataset):
        raise PlanError(
            f"{where} is {type(given).__name__}; expected an xarray.Dataset or DataArray"
        )
    if REPLICATE not in given.dims:
        raise PlanError(
            f"{where} has no dim 'replicate'; expected replicates, not statistics over them"
        )
    if "status" in given:
        failed = given["status"].copy(data=has_failed(given["status"].values))
        named = [name for name, one in given.data_vars.items()
                 if name != "status" and {*failed.dims} <= {*one.dims}]  # fmt: skip
        if failed.any():
            given = given.assign({name: given[name].where(~failed) for name in named})
        given = given.drop_vars("status")
    return given


_TALLY = "tally"  # the dim whose labels in common are compared: scenarios have other measures


def _differences(
    baseline: xarray.Dataset, scenario: xarray.Dataset, levels: list[float], where: str
) -> xarray.Dataset:
    """Means, standard errors and quantiles of the differences in all variables in common."""
    import xarray

    for fact, advice in _SHARED.items():
        both = [one.attrs.get(fact) for one in (baseline, scenario)]
        if None not in both and both[0] != both[1]:
            raise PlanError(
                f"{where} has the {fact} {both[1]!r}, but the baseline has {both[0]!r}, so their "
                f"replicates are no pairs; {advice}"
            )
    found = {}
    for key in baseline.data_vars:
        name = str(key)
        if name not in scenario or REPLICATE not in baseline[name].dims:
            continue
        one, other = baseline[name], scenario[name]
        if one.dtype.kind not in "iuf" or REPLICATE not in other.dims:
            continue
        if _TALLY in one.dims and _TALLY in other.dims:
            names = [label for label in one[_TALLY].values if label in other[_TALLY].values]
            if not names:
                continue
            one, other = (each.sel({_TALLY: names}) for each in (one, other))
        _check_labels(one, other, f"{where}: '{name}'")
        difference = (other.astype(float) - one.astype(float)).transpose(*other.dims)
        count = difference.notnull().sum(REPLICATE)
        error = difference.std(REPLICATE, ddof=1) / np.sqrt(count)
        meaning = one.attrs.get("long_name", name)
        units = {"units": one.attrs.get("units", "1")}
        quantile = difference.quantile(levels, REPLICATE).rename(quantile="level")
        found[name] = difference.mean(REPLICATE).assign_attrs(
            **units, long_name=f"difference in {meaning}"
        )
        found[f"{name}_error"] = error.assign_attrs(
            **units, long_name=f"standard error of the difference in {meaning}"
        )
        found[f"{name}_quantile"] = quantile.assign_attrs(
            **units, long_name=f"quantile of the difference in {meaning}"
        )
    return xarray.Dataset(found).drop_vars("date", errors="ignore")


def _check_labels(one: xarray.DataArray, other: xarray.DataArray, where: str) -> None:
    """Refuse arrays whose dims in common have other labels."""
    missing = {*one.dims} - {*other.dims}
    if missing:
        raise PlanError(f"{where} has no dim '{min(map(str, missing))}', which the baseline has")
    for dim in one.dims:
        expected, labels = one[dim].values, other[dim].values
        if not np.array_equal(expected, labels):
            raise PlanError(
                f"{where} has other values of '{dim}' than the baseline: {_text(labels)} for "
                f"{_text(expected)}"
            )


def _text(labels: np.ndarray) -> str:
    return f"{labels.size} from {labels[0]} to {labels[-1]}" if labels.size else "none"
