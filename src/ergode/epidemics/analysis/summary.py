"""Attack rates, peaks and incidence of epidemic curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.arguments import check_once, did_you_mean
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.models.epidemic.graph import closure
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray


@recorded({"counts": POINT})
def summary(
    counts: xarray.Dataset, compartment: str | Sequence[str] | None = None
) -> xarray.Dataset:
    """Attack rate and peak of every replicate.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.  For all strata together pass
        ``counts.sum("stratum", keep_attrs=True)``.
    compartment : str or sequence of str, optional
        Where nodes are counted for the peak, such as the beds of a hospital; of several, the sum.
        The default is all infectious compartments.

    Returns
    -------
    xarray.Dataset
        Per `replicate`: ``attack_rate``, the fraction of nodes that were a case by the last time;
        ``peak_count`` and ``peak_time``, the largest number of these nodes at a grid time, and
        the first such time, with ``peak_date`` if the counts have dates;
        ``final_count(replicate, compartment)``; and ``cases``, the infections up to the last time,
        with reinfections.  Dims for `stratum` and the points of a sweep are
        kept.

        With reinfection, counts give the attack rate only if nodes that were never infected are in
        other compartments than the rest, as with several strains.  Otherwise, as in SIS,
        ``attack_rate`` is missing (NaN), and ``cases`` divided by the number of nodes is the mean
        number of infections per node.

    Raises
    ------
    ModelError
        A compartment is unknown or named twice, or `counts` are not from that output.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.si(transmission_rate=5.0)
    >>> contacts = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": 1}, times=[0, 100], device="cpu"
    ... )
    >>> float(ergode.epidemics.summary(counts)["attack_rate"][0])
    1.0
    """
    import xarray

    names = _known(counts, _names(counts, "infectious") if compartment is None else compartment)
    dates = counts.coords.get("date")
    counts = counts.drop_vars("date", errors="ignore")
    count = counts["count"]
    inside = count.sel(compartment=names).sum("compartment", skipna=False)
    run = inside.notnull().all("time")  # false for unfinished parts of a sweep
    at = inside.fillna(-1).argmax("time").compute()  # an index, also where counts are in a store
    any_one = count.isel(time=0, replicate=0, drop=True, missing_dims="ignore")
    population = any_one.sum("compartment", skipna=False)
    result = xarray.Dataset(
        {
            "attack_rate": _ever_infected(counts) / population,
            "peak_count": inside.isel(time=at).drop_vars("time"),
            "peak_time": counts["time"].isel(time=at).drop_vars("time").where(run),
            "cases": counts["cases"].isel(time=-1, drop=True),
            "final_count": count.isel(time=-1, drop=True),
        },
        attrs=counts.attrs,
    )
    result["attack_rate"].attrs = {"units": "1", "long_name": "fraction of nodes that were a case"}
    result["peak_count"].attrs = {
        "units": "1",
        "long_name": f"largest number of nodes in {_text(names)}",
    }
    result["peak_time"].attrs = {"units": "time", "long_name": "first time of the peak"}
    if dates is not None:
        result["peak_date"] = dates.drop_vars(["time", "date"]).isel(time=at).where(run)
        result["peak_date"].attrs = {"long_name": "first date of the peak"}
    return result


def _ever_infected(counts: xarray.Dataset) -> xarray.DataArray:
    """Nodes that were a case by the last time; NaN if the counts do not determine it."""
    import xarray

    model = json.loads(str(counts.attrs["model"]))
    infections = [(i["susceptible"], i["infected"]) for i in model["infections"]]
    by_itself = [(p["compartment"], name) for p in model["progressions"] for name in p["to"]]
    after = _reached({infected for _, infected in infections}, [*by_itself, *infections])
    if not after & {susceptible for susceptible, _ in infections}:
        return counts["cases"].isel(time=-1, drop=True)  # nobody is infected twice
    count = counts["count"]
    # Never-infected nodes are in compartments reachable without infection; others are elsewhere.
    first = count.isel(time=0, drop=True)
    elsewhere = [name for name in _compartments(counts) if name not in _infected(counts)]
    started = {infections[0][0]}
    started |= {n for n in elsewhere if bool((first.sel(compartment=n) > 0).any())}
    never = _reached(started, by_itself) - set(_infected(counts))
    left = count.isel(time=-1, drop=True).sel(compartment=sorted(never)).sum("compartment")
    total = first.sum("compartment")
    return total - left if not never & after else xarray.full_like(total, np.nan, float)


def _reached(start: set[str], moves: list[tuple[str, str]]) -> set[str]:
    """Compartments reachable by moves from `start`, including `start`."""
    return closure(start, lambda found: {to for begin, to in moves if begin in found})


def _compartments(counts: xarray.Dataset) -> list[str]:
    return [str(name) for name in counts["compartment"].values]


def _infected(counts: xarray.Dataset) -> list[str]:
    return _names(counts, "infected")


@recorded({"counts": POINT})
def fatality_ratio(counts: xarray.Dataset, compartment: str | Sequence[str]) -> xarray.DataArray:
    """Share of the cases that ended in a compartment, such as the dead; of several, in any of them.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.
    compartment : str or sequence of str
        Compartments that no node leaves.

    Returns
    -------
    xarray.DataArray
        Per `replicate`, and by `stratum` and point if the counts are: the nodes in `compartment` at
        the last time, less those that began there, by the cases up to the last time.  Cases that
        are still ill then count as cases; NaN without cases.

    Raises
    ------
    ModelError
        A compartment is unknown or named twice, or nodes leave it.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.seird(
    ...     transmission_rate=5.0, latent=ergode.Deterministic(1.0),
    ...     infectious=ergode.Deterministic(1.0), fatality=1.0,
    ... )
    >>> contacts = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": 1}, times=[0, 100], device="cpu"
    ... )
    >>> ergode.epidemics.fatality_ratio(counts, "D").values.tolist()
    [1.0]
    """
    names = _known(counts, compartment)
    model = json.loads(str(counts.attrs["model"]))
    left = {i["susceptible"] for i in model["infections"]}
    left |= {p["compartment"] for p in model["progressions"]}
    for name in names:
        if name in left:
            raise ModelError(f"nodes leave the compartment '{name}'; expected one where cases end")
    inside = counts["count"].sel(compartment=names).sum("compartment", skipna=False)
    ended = inside.isel(time=-1, drop=True) - inside.isel(time=0, drop=True)
    cases = counts["cases"].isel(time=-1, drop=True)
    found = (ended / cases.where(cases > 0)).rename("fatality_ratio")
    return found.assign_attrs(units="1", long_name=f"share of cases that end in {_text(names)}")


@recorded({"counts": POINT})
def person_time(counts: xarray.Dataset, compartment: str | Sequence[str]) -> xarray.DataArray:
    """Time that all nodes together spend in a compartment, such as bed days in a hospital.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.
    compartment : str or sequence of str
        A compartment; of several, the sum.

    Returns
    -------
    xarray.DataArray
        Per `replicate`, and by `stratum` and point if the counts are [node x time]: the integral of
        the counts over the time grid by the trapezoidal rule.  Its error is of second order in the
        spacing of the grid.

    Raises
    ------
    ModelError
        A compartment is unknown or named twice.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.si(transmission_rate=0.0)
    >>> contacts = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": 1}, times=[0, 7], device="cpu"
    ... )
    >>> ergode.epidemics.person_time(counts, "I").values.tolist()
    [7.0]
    """
    names = _known(counts, compartment)
    inside = counts["count"].drop_vars("date", errors="ignore").sel(compartment=names)
    found = inside.sum("compartment", skipna=False).integrate("time").rename("person_time")
    return found.assign_attrs(units="time", long_name=f"time spent in {_text(names)}")


def _known(counts: xarray.Dataset, compartment: str | Sequence[str]) -> list[str]:
    """Names of compartments of the counts."""
    if "count" not in counts:
        raise ModelError("expected a Dataset from simulate(..., output='counts')")
    names = [compartment] if isinstance(compartment, str) else list(compartment)
    for name in names:
        if name not in _compartments(counts):
            known = ", ".join(_compartments(counts))
            raise ModelError(
                f"unknown compartment {name!r}; the counts have {known}"
                f"{did_you_mean(name, _compartments(counts))}"
            )
    check_once("compartment", names)
    return names


def _text(names: list[str]) -> str:
    return " or ".join(names)


@recorded({"counts": POINT})
def incidence(counts: xarray.Dataset) -> xarray.DataArray:
    """New infections in each interval of the time grid, dims (replicate, interval[, stratum]).

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.

    Returns
    -------
    xarray.DataArray
        The coordinate ``interval`` is the middle of each interval [time]; if the counts have dates,
        ``date(interval)`` is that of the middle.
    """
    if "cases" not in counts:
        raise ModelError("expected a Dataset from simulate(..., output='counts')")
    return by_interval(counts, "cases", "new infections in an interval").rename("incidence")


def by_interval(counts: xarray.Dataset, name: str, meaning: str) -> xarray.DataArray:
    """Differences of a variable along the time grid, at the middle of each interval."""
    values = counts[name].drop_vars("date", errors="ignore")
    time = counts["time"].values
    found = (
        values.isel(time=slice(1, None), drop=True)
        .copy(data=np.diff(values.values, axis=values.get_axis_num("time")))
        .rename(time="interval")
        .assign_coords(interval=0.5 * (time[1:] + time[:-1]))
        .assign_attrs(long_name=meaning)
    )
    if "time_unit" in counts.attrs:
        found.attrs["time_unit"] = counts.attrs["time_unit"]
    if "date" in counts.coords:
        dates = counts["date"].values
        found = found.assign_coords(date=("interval", dates[:-1] + (dates[1:] - dates[:-1]) / 2))
    return found


@recorded({"counts": POINT})
def flows(counts: xarray.Dataset) -> xarray.Dataset:
    """Entries into and exits from every compartment in each interval of the time grid.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., include="entries")`` with ``output="counts"``.

    Returns
    -------
    xarray.Dataset
        ``entries`` and ``exits``, dims (replicate, interval, compartment[, stratum]): nodes that
        enter and leave a compartment in an interval, such as admissions to and discharges from a
        hospital.  The coordinate ``interval`` is the middle of each interval [time]; if the counts
        have dates, ``date(interval)`` is that of the middle.  Seeds enter at the first time, before
        all intervals.

    Raises
    ------
    ModelError
        `counts` have no entries.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.sir(
    ...     transmission_rate=9.0, infectious=ergode.Deterministic(3.0)
    ... )
    >>> contacts = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": [1]}, times=[0, 2, 4, 6], include="entries",
    ...     device="cpu",
    ... )
    >>> flows = ergode.epidemics.flows(counts).sel(replicate=0)
    >>> flows["entries"].sel(compartment="I").values.tolist()
    [2, 0, 0]
    >>> flows["exits"].sel(compartment="I").values.tolist()
    [0, 3, 0]
    """
    import xarray

    if "entries" not in counts:
        raise ModelError(
            "expected a Dataset from simulate(..., output='counts', include='entries')"
        )
    entries = by_interval(counts, "entries", "nodes that enter a compartment in an interval")
    inside = by_interval(counts, "count", "")
    exits = (entries - inside).assign_attrs(
        units="1", long_name="nodes that leave a compartment in an interval"
    )
    return xarray.Dataset({"entries": entries, "exits": exits}, attrs=counts.attrs)


def _names(counts: xarray.Dataset, role: str) -> list[str]:
    if role not in counts.attrs:
        raise ModelError(
            "expected a Dataset from simulate(..., output='counts') with its attributes; sums keep "
            "them with keep_attrs=True"
        )
    return [name for name in str(counts.attrs[role]).split(",") if name]
