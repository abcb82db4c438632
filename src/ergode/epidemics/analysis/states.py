"""States of all nodes at chosen times, from a line list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import time_grid
from ergode.core.calls.launch import check_room
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.epidemics.analysis.line_list import check_cases
from ergode.models.epidemic.dates import dates_since, days_since, origin_of
from ergode.models.epidemic.seeds import Seeds
from ergode.models.networks.checks import names_of_nodes
from ergode.models.networks.node_names import Positions, positions_of
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray


@recorded({"cases": POINT})
def states(
    cases: xarray.Dataset,
    times: ArrayLike,
    *,
    others: Mapping[str, ArrayLike] | None = None,
    node_names: ArrayLike | None = None,
) -> xarray.DataArray:
    """The compartment of every node at some times.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.
    times : array_like, shape [time_count]
        Ascending times within those of the simulation [time], or dates.
    others : mapping of str to array_like or Seeds, optional
        Names or positions of nodes that began in another compartment than the susceptible one
        without being cases, such as ``{"R": immune}``: line lists do not have them. List
        them in `initial` too, as it is not known which nodes are drawn.
    node_names : array_like, shape [node_count], optional
        The `node_names` of the network. Then `others` may have names, and the result has the
        coordinate ``node_name(node)``.

    Returns
    -------
    xarray.DataArray
        ``state(replicate, time, node)``: the number of a compartment in ``attrs["compartments"]``.

    Raises
    ------
    ModelError
        A time is outside of the simulation; a compartment or node of `others` is unknown, or they
        are not as many as there were; or the line list does not determine states, because nodes
        that are no cases change their compartment, or progressions lead back to a compartment.
    PlanError
        Memory is short.

    Examples
    --------
    >>> import ergode
    >>> chain = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    >>> cases = ergode.epidemics.simulate(
    ...     ergode.CompartmentModel.si(transmission_rate=5.0), chain, initial={"I": [0]},
    ...     times=[0, 100], output="line_list", device="cpu",
    ... )
    >>> ergode.epidemics.states(cases, [0, 100]).values.tolist()
    [[[1, 0, 0], [1, 1, 1]]]
    """
    import xarray

    check_cases(cases)
    names = [str(name) for name in cases["compartment"].values]
    susceptible = str(cases.attrs["susceptible"]).split(",")[0]
    origin = origin_of(cases.attrs.get("origin"), ())
    grid = time_grid(days_since(origin, "times", times))
    span = np.asarray(cases.attrs["times"], float)
    outside = grid[(grid < span[0]) | (grid > span[-1])]
    if outside.size:
        raise ModelError(
            f"times has {outside[0]:g}; the simulation is from {span[0]:g} to {span[-1]:g}"
        )
    node_count, replicates = int(cases.attrs["node_count"]), int(cases.attrs["replicates"])
    all_names = names_of_nodes(node_names, node_count)
    start = np.full(node_count, names.index(susceptible), np.uint8)
    for name, nodes in (others or {}).items():
        given, by = (nodes.nodes, nodes.by) if isinstance(nodes, Seeds) else (nodes, None)
        told = all_names is not None or by is not None or isinstance(given, Positions)
        if not told and _named_by_integers(cases):
            raise ModelError(
                f"others['{name}'] has integers, which may be names or positions of nodes. Write "
                "Seeds(..., by='name') and node_names=network.node_names, or "
                "Seeds(..., by='position')"
            )
        ids = np.atleast_1d(positions_of(given, all_names, f"others['{name}']", by))
        if name not in names:
            raise ModelError(f"others names '{name}'; the compartments are {', '.join(names)}")
        if ids.dtype.kind not in "iu" or ((ids < 0) | (ids >= node_count)).any():
            raise ModelError(
                f"others: {name} has {nodes!r:.60}; expected ids below {node_count}, or "
                "names of nodes with node_names=network.node_names"
            )
        start[ids] = names.index(name)
    _check_others(cases, start, names)
    _check_determined(str(cases.attrs["model"]), {susceptible, *(others or {})})
    check_room(
        replicates * grid.size * node_count,
        f"an array of {replicates:,} x {grid.size:,} x {node_count:,} states",
        "use fewer replicates or times",
    )
    state = np.empty((replicates, grid.size, node_count), np.uint8)
    state[:] = start
    first = int(cases.attrs.get("first_replicate", 0))
    replicate, node = cases["replicate"].values - first, cases["node"].values
    entered = cases["entered"].values
    infected_at = cases["infected_at"].values
    for k, time in enumerate(grid):
        happened = infected_at <= time
        past = np.where(entered[happened] <= time, entered[happened], -np.inf)
        # Cases of a node follow each other, and the last assignment holds.
        state[replicate[happened], k, node[happened]] = past.argmax(1)
    coords: dict[str, Any] = {
        "replicate": first + np.arange(replicates),
        "time": grid,
        "node": np.arange(node_count),
    }
    if all_names is not None:
        coords["node_name"] = ("node", all_names)
    found = xarray.DataArray(
        state, dims=("replicate", "time", "node"), coords=coords, name="state",
        attrs={"units": "1", "long_name": "number of the compartment", "compartments": names},
    )  # fmt: skip
    if "time_unit" in cases.attrs:
        found.attrs["time_unit"] = cases.attrs["time_unit"]
    if origin is not None:
        found = found.assign_coords(date=("time", dates_since(origin, grid)))
    return found


def _named_by_integers(cases: xarray.Dataset) -> bool:
    """Whether nodes of a line list have names that are integers in another order."""
    if "node_name" not in cases:
        return False
    names = cases["node_name"].values
    return names.dtype.kind in "iuf" and bool((names != cases["node"].values).any())


def _check_others(cases: xarray.Dataset, start: np.ndarray, names: list[str]) -> None:
    """Refuse a list that leaves out other nodes than `others` names."""
    for name, number in json.loads(cases.attrs.get("others", "{}")).items():
        given = int(np.count_nonzero(start == names.index(name)))
        if given != number:
            raise ModelError(
                f"others has {given} nodes that began in '{name}', but the simulation began with "
                f"{number}, which are no cases; give the ids that `initial` had, such as "
                f"others={{'{name}': immune}}"
            )


def _check_determined(model: str, silent: set[str]) -> None:
    """Refuse a model in which nodes move in ways that a line list does not have."""
    after = {p["compartment"]: set(p["to"]) for p in json.loads(model)["progressions"]}
    for name in sorted(silent & set(after)):
        raise ModelError(
            f"nodes leave '{name}' without being cases, and the line list does not say when"
        )
    for name in after:
        reached, frontier = set(), set(after[name])
        while frontier:
            reached |= frontier
            frontier = {to for one in frontier for to in after.get(one, ())} - reached
        if name in reached:
            raise ModelError(
                f"progressions lead back to '{name}', and the line list has one entry of each"
            )
