"""What one asks of an epidemic curve first: how many, how high, when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ergode.core.errors import ModelError

if TYPE_CHECKING:
    import xarray


def summary(counts: xarray.Dataset) -> xarray.Dataset:
    """Attack rate and peak of every replicate.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.

    Returns
    -------
    xarray.Dataset
        Per `replicate`: ``attack_rate``, the fraction of nodes no longer susceptible at the last
        time; ``peak_count`` and ``peak_time``, the largest number of infectious nodes at a grid
        time, and the first such time; ``final_count(replicate, compartment)``; and ``cases``, the
        infections up to the last time (of some nodes several, where they can be infected again).
        By `stratum`, where the counts are.

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

    if "count" not in counts:
        raise ModelError("summary needs a Dataset from simulate(..., output='counts')")
    count = counts["count"]
    infectious = count.sel(compartment=_names(counts, "infectious")).sum("compartment")
    at = infectious.argmax("time")
    susceptible = (
        count.isel(time=-1, drop=True)
        .sel(compartment=_names(counts, "susceptible"))
        .sum("compartment")
    )
    population = count.isel(time=0, replicate=0, drop=True).sum("compartment")
    result = xarray.Dataset(
        {
            "attack_rate": 1.0 - susceptible / population,
            "peak_count": infectious.isel(time=at).drop_vars("time"),
            "peak_time": counts["time"].isel(time=at).drop_vars("time"),
            "cases": counts["cases"].isel(time=-1, drop=True),
            "final_count": count.isel(time=-1, drop=True),
        },
        attrs=counts.attrs,
    )
    result["attack_rate"].attrs = {"units": "1", "long_name": "fraction no longer susceptible"}
    result["peak_count"].attrs = {"units": "1", "long_name": "most nodes infectious at once"}
    result["peak_time"].attrs = {"units": "time", "long_name": "first time of the peak"}
    return result


def incidence(counts: xarray.Dataset) -> xarray.DataArray:
    """New infections in each interval of the time grid, dims (replicate, interval[, stratum]).

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.
    """
    cases = counts["cases"]
    time = counts["time"].values
    axis = cases.get_axis_num("time")
    return (
        cases.isel(time=slice(1, None), drop=True)
        .copy(data=np.diff(cases.values, axis=axis))
        .rename(time="interval")
        .assign_coords(interval=0.5 * (time[1:] + time[:-1]))
        .rename("incidence")
        .assign_attrs(long_name="new infections in an interval")
    )


def _names(counts: xarray.Dataset, role: str) -> list[str]:
    return str(counts.attrs[role]).split(",")
