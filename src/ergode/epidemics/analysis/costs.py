"""What a policy costs: counts of what measures did, times prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.arguments import did_you_mean, is_finite_number
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.epidemics.shared.tallies import split_label
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray

_LEVELS = "isolated", "quarantined", "waiting", "in force"  # how many there are at a time


@recorded({"counts": POINT})
def cost(counts: xarray.Dataset, prices: Mapping[str, float]) -> xarray.DataArray:
    """What measures cost up to each time, by a table of prices.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., include="measures")``: counts, or statistics, of which the mean cost
        is made.
    prices : mapping of str to float
        Price of each quantity of :doc:`/reference/interventions`: a quantity of all measures, such
        as ``"tests"``, or of one, such as ``"interventions[0] tests"``, or ``"clinics: tests"`` of
        a measure with the name ``"clinics"``. What lasts has a price per unit of time:
        ``"isolated"``, ``"quarantined"``, ``"waiting"`` and ``"in force"``.

    Returns
    -------
    xarray.DataArray
        The dims of the counts, and ``item`` in place of ``tally``: one for each price. Sum over it
        for the total. What lasts is integrated by the trapezoidal rule: it is as exact as the time
        grid is fine. Where holds of days are short beside its spacing, use a finer grid.

    Raises
    ------
    ModelError
        There are no counts of measures, or no such quantity, a price is no finite number, or a
        price is of measures in force and the counts are by strata, each of which has them.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.sir(
    ...     transmission_rate=0.1, infectious=ergode.Gamma(mean=7, sd=3)
    ... )
    >>> contacts = ergode.ContactNetwork.erdos_renyi(200, mean_degree=8, seed=1)
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": 10}, times=range(61), device="cpu", include="measures",
    ...     interventions=[ergode.Testing({"I": 0.9}, rate=0.1, isolation=10)],
    ... )
    >>> spent = ergode.epidemics.cost(counts, {"tests": 30.0, "isolated": 100.0})
    >>> tests = counts["measures"].sel(tally="interventions[0] tests", time=60)
    >>> bool((spent.sel(item="tests", time=60) == 30 * tests).all())
    True
    """
    import xarray

    name = next((one for one in ("measures", "measures_mean") if one in counts), None)
    if name is None:
        raise ModelError(
            "the counts have no measures; expected a Dataset from simulate(..., include='measures')"
        )
    values = counts[name].drop_vars("date", errors="ignore")
    labels = [str(one) for one in counts["tally"].values]
    whats = [split_label(label)[1] for label in labels]
    items = []
    for item, price in prices.items():
        if not is_finite_number(price):
            raise ModelError(f"the price of '{item}' is {price!r}; expected a finite number")
        mine = [item in (label, what) for label, what in zip(labels, whats, strict=True)]
        if not any(mine):
            known = list(dict.fromkeys(whats))
            raise ModelError(
                f"there is a price of '{item}', but the counts have {', '.join(known)}"
                + did_you_mean(item, [*known, *labels])
            )
        what = whats[mine.index(True)]
        if what == "in force" and "stratum" in values.dims:
            raise ModelError("a measure is in force in all strata; expected counts without strata")
        amount = values.isel(tally=np.flatnonzero(mine)).sum("tally", skipna=False)
        if what in _LEVELS:
            amount = amount.cumulative_integrate("time")
        items.append(price * amount)
    if not items:
        raise ModelError("prices is empty; expected a price for one quantity or more")
    found = xarray.concat(items, "item").transpose(..., "item").assign_coords(item=[*prices])
    if "date" in counts.coords:
        found = found.assign_coords(date=counts["date"])
    return found.rename("cost").assign_attrs(units="1", long_name="cost up to a time")
