"""Tables, intervals and transmission trees from a line list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.epidemics.shared.tallies import positions_of, split_label
from ergode.models.epidemic.dates import dates_since, origin_of
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import networkx
    import pandas
    import xarray


def case_table(cases: xarray.Dataset) -> pandas.DataFrame:
    """The line list as a table with one row for each case.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.

    Returns
    -------
    pandas.DataFrame
        Columns ``replicate``, ``node``, ``infector``, ``infected_at`` and one ``entered_<name>``
        for each compartment [time].  If the simulation had an origin, each column of times is
        followed by one of dates, such as ``infected_at_date``.  In a sweep, also ``point`` and the
        parameters.

    Raises
    ------
    PlanError
        A swept parameter has the name of one of these columns.
    """
    _check_list(cases)
    flat = cases.drop_vars("entered").drop_dims(_BESIDES, errors="ignore").to_dataframe()
    for name in cases["compartment"].values:
        if f"entered_{name}" in flat:
            raise PlanError(
                f"'entered_{name}' is a column of the table and a parameter that was swept; rename "
                "the parameter in the result (cases.rename)"
            )
        flat[f"entered_{name}"] = cases["entered"].sel(compartment=name).values
    origin = origin_of(cases.attrs.get("origin"), ())
    if origin is not None:
        moments = ("infected_at", "born_at", "entered_")
        _add_dates(flat, [name for name in flat if name.startswith(moments)], origin)
    return flat


_BESIDES = ("compartment", "event", "tally")  # dims that are not those of cases


def _add_dates(flat: pandas.DataFrame, columns: list[str], origin: np.datetime64) -> None:
    """Put a column of dates after each column of times."""
    for column in columns:
        dates = dates_since(origin, flat[column].to_numpy())
        flat.insert(flat.columns.get_loc(column) + 1, f"{column}_date", dates)


def measure_table(cases: xarray.Dataset) -> pandas.DataFrame:
    """What measures did to each node, as a table with one row for each event.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list", include="measures")``.

    Returns
    -------
    pandas.DataFrame
        Columns ``replicate``, ``node``, ``measure`` (its position in `interventions`), ``what`` (a
        quantity of :doc:`/reference/interventions`, such as ``"tests"`` or ``"isolated"``),
        ``time`` and ``end`` [time]. The end is that of an isolation, a quarantine or a wait; it is
        NaN if these go on at the last time, and for all else. Nodes that never become cases are
        listed too, so that rows add up to the counts. What happened before the first time has that
        time. If measures have names, there is ``measure_name``, None for one without; if nodes have
        names, there is ``node_name``; if the simulation had an origin, a column of dates follows
        ``time`` and ``end``; in a sweep there is ``point``.

    Raises
    ------
    ModelError
        The line list has no measures.

    Examples
    --------
    Tests of each person, and days in isolation:

    >>> import ergode
    >>> cases = ergode.epidemics.simulate(
    ...     ergode.CompartmentModel.sir(
    ...         transmission_rate=0.1, infectious=ergode.Gamma(mean=7, sd=3)
    ...     ),
    ...     ergode.ContactNetwork.erdos_renyi(200, mean_degree=8, seed=1),
    ...     initial={"I": 10}, times=range(61), device="cpu", output="line_list",
    ...     include="measures",
    ...     interventions=[ergode.Testing({"I": 0.9}, rate=0.1, isolation=10)],
    ... )
    >>> table = ergode.epidemics.measure_table(cases)
    >>> table.groupby(["replicate", "node", "what"]).size().unstack(fill_value=0).columns.tolist()
    ['isolated', 'positive', 'tests']
    >>> held = table[table["what"] == "isolated"]
    >>> round(float((held["end"] - held["time"]).min()), 3)  # a later positive test prolongs it
    10.0
    """
    import pandas

    _check_list(cases)
    if "event_tally" not in cases:
        raise ModelError(
            "the line list has no measures; expected one of simulate(..., output='line_list', "
            "include='measures')"
        )
    labels = [str(one) for one in cases["tally"].values]
    split = [split_label(one) for one in labels]
    tally = cases["event_tally"].values
    columns = {
        "replicate": cases["event_replicate"].values,
        "node": cases["event_node"].values,
        "measure": positions_of(labels)[tally],
        "what": np.array([one for _, one in split], object)[tally],
        "time": cases["event_time"].values,
        "end": cases["event_end"].values,
    }
    if "event_point" in cases:
        columns = {"point": cases["event_point"].values, **columns}
    if any(name is not None for name, _ in split):
        columns["measure_name"] = np.array([name for name, _ in split], object)[tally]
    if "event_node_name" in cases.coords:
        columns["node_name"] = cases["event_node_name"].values
    flat = pandas.DataFrame(columns)
    origin = origin_of(cases.attrs.get("origin"), ())
    if origin is not None:
        _add_dates(flat, ["time", "end"], origin)
    return flat


@recorded({"cases": POINT})
def generation_interval(cases: xarray.Dataset) -> xarray.DataArray:
    """Generation interval: time from the infector's infection to the case's infection.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.

    Returns
    -------
    xarray.DataArray
        Dim `case` [time]; NaN for seeds.
    """
    check_cases(cases)
    return _interval(cases, cases["infected_at"], "time from the infector's infection")


@recorded({"cases": POINT})
def serial_interval(cases: xarray.Dataset, onset: str = "I") -> xarray.DataArray:
    """Serial interval: time from the infector's onset to the case's onset.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.
    onset : str
        The compartment whose entry is the onset.

    Returns
    -------
    xarray.DataArray
        Dim `case` [time]; NaN for seeds and for cases without onset by the last time.
    """
    check_cases(cases)
    if onset not in cases["compartment"].values:
        raise ModelError(
            f"unknown compartment '{onset}'; the line list has "
            + ", ".join(map(str, cases["compartment"].values))
            + did_you_mean(onset, cases["compartment"].values)
        )
    moment = cases["entered"].sel(compartment=onset, drop=True)
    return _interval(cases, moment, "time from the infector's onset")


@recorded({"cases": POINT})
def next_generation(
    cases: xarray.Dataset, groups: ArrayLike, until: float | None = None
) -> xarray.Dataset:
    """Next-generation matrix by group: mean number of secondary cases per case.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.
    groups : array_like, shape [node_count]
        Group of each node, such as a node attribute of the network.
    until : float, optional
        Count only cases infected by this time as sources [time].  Early, while most nodes are
        susceptible, the matrix gives the basic reproduction number.

    Returns
    -------
    xarray.Dataset
        ``matrix(source, target)``: mean number of cases of the target's group that a case of the
        source's group infects, over all replicates; NaN for a group without cases.
        ``reproduction_number``: its largest eigenvalue.

    References
    ----------
    Diekmann, Heesterbeek, Roberts, J. R. Soc. Interface 7 (2010), section 2.
    """
    import xarray

    source = infector_case(cases)
    kinds = np.asarray(groups)
    node = cases["node"].values
    if kinds.ndim != 1 or (node.size and node.max() >= kinds.size):
        raise ModelError(f"groups has shape {kinds.shape}; expected one value for each node")
    names, group = np.unique(kinds, return_inverse=True)
    counted = np.ones(node.size, bool)
    if until is not None:
        counted = cases["infected_at"].values <= until
    size = np.bincount(group[node[counted]], minlength=names.size)
    caused = (source >= 0) & counted[source]
    flat = group[node[source[caused]]] * names.size + group[node[caused]]
    total = np.bincount(flat, minlength=names.size**2).reshape(names.size, names.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        matrix = total / size[:, None]
    largest = np.abs(np.linalg.eigvals(np.nan_to_num(matrix))).max()
    return xarray.Dataset(
        {"matrix": (("source", "target"), matrix), "reproduction_number": float(largest)},
        coords={"source": names, "target": names},
    )


def transmission_tree(cases: xarray.Dataset, replicate: int = 0) -> networkx.DiGraph:
    """Who infected whom in one replicate.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.
    replicate : int
        Which replicate.

    Returns
    -------
    networkx.DiGraph
        A tree for each seed and importation. Its nodes are cases, numbered as in `cases`, with the
        attributes ``node`` (id of the infected node) and ``infected_at`` [time]; edges lead from
        infector to infected. A node that is infected several times has a case for each infection.
        Needs networkx, which ``ergode[networks]`` installs.

    Raises
    ------
    ModelError
        The list has no such replicate.
    """
    try:
        import networkx
    except ImportError:
        raise PlanError(
            "a transmission tree needs networkx (pip install 'ergode[networks]')"
        ) from None
    chosen = cases_of(cases, replicate)
    node, time = cases["node"].values, cases["infected_at"].values
    source = infector_case(cases)
    tree = networkx.DiGraph()
    for case in chosen.tolist():
        tree.add_node(case, node=int(node[case]), infected_at=float(time[case]))
    infected = chosen[source[chosen] >= 0]
    tree.add_edges_from(zip(source[infected].tolist(), infected.tolist(), strict=True))
    return tree


def _interval(cases: xarray.Dataset, moment: xarray.DataArray, meaning: str) -> xarray.DataArray:
    source = infector_case(cases)
    values = np.where(source >= 0, moment.values - moment.values[source], np.nan)
    return moment.copy(data=values).assign_attrs(units="time", long_name=meaning)


def _check_list(cases: xarray.Dataset) -> None:
    """Refuse what is not a line list."""
    if "infector" not in cases:
        raise ModelError("expected a Dataset from simulate(..., output='line_list')")


def check_cases(cases: xarray.Dataset) -> None:
    """Refuse what is not the line list of one point."""
    _check_list(cases)
    if "point" in cases and len(np.unique(cases["point"])) > 1:
        raise ModelError(
            "the line list is of a sweep; choose one point, such as "
            "cases.isel(case=cases['point'].values == 0)"
        )


def cases_of(cases: xarray.Dataset, replicate: int) -> np.ndarray:
    """Positions in the line list of the cases of one replicate."""
    check_cases(cases)
    first = int(cases.attrs.get("first_replicate", 0))
    last = first + int(cases.attrs["replicates"]) - 1
    if not first <= replicate <= last:
        raise ModelError(f"replicate is {replicate}; the line list has {first} to {last}")
    return np.flatnonzero(cases["replicate"].values == replicate)


def infector_case(cases: xarray.Dataset) -> np.ndarray:
    """Position in the line list of each case's infector; -1 for seeds."""
    check_cases(cases)
    replicate, node = cases["replicate"].values, cases["node"].values
    infector = cases["infector"].values
    if not node.size:
        return np.zeros(0, np.int64)
    # Cases are listed by replicate, node and time: one key orders the first two.
    span = np.int64(max(node.max(), infector.max()) + 1)
    found = np.searchsorted(replicate * span + node, replicate * span + infector, side="right") - 1
    time = cases["infected_at"].values
    # If an infector was infected several times, take its last infection before this one.
    later = (infector >= 0) & (time[found] > time)
    while later.any():
        found[later] -= 1
        later[later] = time[found[later]] > time[later]
    # A node that became infectious by a progression, without being a case, is not listed.
    listed = (infector >= 0) & (node[found] == infector) & (replicate[found] == replicate)
    return np.where(listed, found, -1)
