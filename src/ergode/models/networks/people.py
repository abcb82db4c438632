"""A network from a table of people: those of one household or school are in contact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError
from ergode.models.networks import checks, csr, random_degrees
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.layers import from_layers
from ergode.models.networks.population import within

_DEGREE_MOST = 1_000_000


def from_people(
    people: Any,
    layers: Sequence[str] | Mapping[str, str],
    *,
    most: Mapping[str, int] | None = None,
    weights: Mapping[str, float] | None = None,
    names: str | None = None,
    seed: int = 0,
) -> ContactNetwork:
    """A network from a table of people, one a row.

    Parameters
    ----------
    people : DataFrame or mapping of str to array_like, shape [node_count]
        The columns of the table.
    layers : sequence of str, or mapping of str to str
        Columns that say to which household, school, workplace ... a person belongs; or these by the
        name of the layer. All people with an equal value are in contact. A missing value (None,
        NaN, an empty text) means none.
    most : mapping of str to int, optional
        Most contacts of a person in a layer, even: in a larger group, each is in contact with the
        nearest on a ring of its people in random order.
    weights : mapping of str to float, optional
        Factors on the transmission rate by layer (default 1).
    names : str, optional
        Column of the names of the nodes.
    seed : int
        Names the random orders.

    Returns
    -------
    ContactNetwork
        Columns that are complete, and of numbers, truth values or text, are its attributes.

    Raises
    ------
    ModelError
        A column is unknown or of another length, a layer of `most` or `weights` is unknown, or
        names are not unique.

    Examples
    --------
    >>> import ergode
    >>> people = {
    ...     "age": [40, 12, 9, 70], "home": ["a", "a", "a", "b"], "school": [None, 1, 1, None],
    ... }
    >>> network = ergode.ContactNetwork.from_people(people, ["home", "school"])
    >>> network.layers, network.edge_count, network.attributes["age"].tolist()
    (('home', 'school'), 4, [40, 12, 9, 70])
    """
    try:
        columns = {str(name): np.atleast_1d(people[name]) for name in people}
    except (TypeError, KeyError, IndexError):
        raise ModelError(
            f"people is {type(people).__name__}; expected a table: a DataFrame, or columns by name"
        ) from None
    by_layer = dict(layers) if isinstance(layers, Mapping) else {name: name for name in layers}
    if not by_layer:
        raise ModelError("layers is empty; expected the columns that put people together")
    wanted = [*by_layer.values(), *([] if names is None else [names])]
    for name in wanted:
        if name not in columns:
            raise ModelError(
                f"the table of people has no column '{name}'; it has {', '.join(columns)}"
                f"{did_you_mean(name, columns)}"
            )
    count = len(next(iter(columns.values())))
    for name, values in columns.items():
        if values.shape != (count,):
            raise ModelError(f"column '{name}' has the shape {values.shape}; expected ({count},)")
    count = checks.node_count_of(count)
    for option in (most or {}, weights or {}):
        for name in option:
            if name not in by_layer:
                raise ModelError(
                    f"'{name}' is no layer; layers are {', '.join(by_layer)}"
                    f"{did_you_mean(name, by_layer)}"
                )
    seed_word = checks.seed_word(seed)
    made = {}
    for name, column in by_layer.items():
        degree = (most or {}).get(name)
        if degree is not None:
            degree = checks.whole(degree, f"most['{name}']", 0, _DEGREE_MOST)
            if degree % 2:
                raise ModelError(f"most['{name}'] is {degree}; expected an even number")
        made[name] = ContactNetwork._trusted(count, _rows(columns[column], degree, seed_word))
    network = from_layers(made, weights)
    found = {name: _attribute(column) for name, column in columns.items() if name != names}
    kept = {name: each for name, each in found.items() if each is not None}
    network = network.with_attributes(**kept)
    if names is None:
        return network
    given = columns[names]
    if _missing(given).any() or np.unique(given.astype(str)).size != count:
        raise ModelError(f"column '{names}' does not name each person; expected distinct values")
    return network._with(node_names=given if given.dtype.kind != "O" else given.astype(str))


def _rows(values: np.ndarray, most: int | None, seed: np.uint64) -> csr.Rows:
    """Contacts of all people with an equal value."""
    present = np.flatnonzero(~_missing(values)).astype(csr.index_dtype(values.size))
    if most is not None:
        present = random_degrees.shuffled(present, seed)
    here = values[present]
    _, group = np.unique(here.astype(str) if here.dtype.kind == "O" else here, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(group))).astype(np.int64)
    return within(values.size, present[order], starts, most)[0]


def _missing(values: np.ndarray) -> np.ndarray:
    """Which values are missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        return np.array([one is None or one != one or one == "" for one in values.tolist()], bool)
    return values == "" if values.dtype.kind in "UT" else np.zeros(values.size, bool)


def _attribute(values: np.ndarray) -> np.ndarray | None:
    """A column as an attribute, if every node has a number, a truth value or a text."""
    if _missing(values).any():
        return None
    if values.dtype.kind == "O":
        if not all(isinstance(one, str) for one in values.tolist()):
            return None
        return values.astype(str)
    return values if values.dtype.kind in "biufU" else None
