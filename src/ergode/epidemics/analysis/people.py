"""Nodes that stand for several people each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ergode.core.arguments import is_finite_number
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray

_COUNTS = "count", "cases", "entries", "measures"


@recorded({"counts": POINT})
def as_people(counts: xarray.Dataset, per_node: float) -> xarray.Dataset:
    """Counts of people, where each node stands for several (`pop_scale` of Covasim).

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.
    per_node : float
        People for whom a node stands: those of the population over the nodes of the network.

    Returns
    -------
    xarray.Dataset
        Counts of nodes, cases, entries and measures are multiplied; measures in force are not.

    Raises
    ------
    ModelError
        These are no counts, or `per_node` is not a finite number above zero.

    Notes
    -----
    Means of shares are those of the simulated network. The variance is too large: a count n times k
    has the variance ``k**2 Var(n)``. In a large outbreak ``Var(n)`` is in proportion to the number
    of nodes, so this is k times the variance in a population that is k times as large. A seed
    stands for k people too, whose chains of infection begin and die out together. Levels of
    triggers, capacities, dose rates and importations are of nodes: divide those of the population
    by `per_node`.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.si(transmission_rate=0.0)
    >>> contacts = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": 1}, times=[0, 7], device="cpu"
    ... )
    >>> people = ergode.epidemics.as_people(counts, 1000)
    >>> people["count"].sel(compartment="S").values.tolist()
    [[2000.0, 2000.0]]
    """
    if "count" not in counts or "cases" not in counts:
        raise ModelError("expected a Dataset from simulate(..., output='counts')")
    if not (is_finite_number(per_node) and per_node > 0):
        raise ModelError(f"per_node is {per_node!r}; expected a finite number above zero")
    factor = float(per_node)
    found = counts.assign(
        {name: counts[name] * factor for name in _COUNTS if name in counts and name != "measures"}
    )
    if "measures" in counts:
        force = counts["tally"].str.endswith("in force")
        found["measures"] = (counts["measures"] * factor).where(~force, counts["measures"])
    for name in found.data_vars:
        found[name].attrs = dict(counts[name].attrs)
    return found.assign_attrs(people_per_node=factor)
