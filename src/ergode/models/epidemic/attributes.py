"""Parts of a model that differ between nodes, by a node attribute such as age."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ergode.core.arguments import check_text, did_you_mean, is_finite_number
from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.mixing import group_edges, grouped, labels_of

Network = ContactNetwork | ComputedNetwork


@dataclass(frozen=True)
class ByAttribute:
    """A part of a model for each value of a node attribute, or for each group of its values.

    It takes the place of the branching or the holding time of a `Progression`, and is the
    susceptibility or the infectivity of an `Infection`.

    Parameters
    ----------
    attribute : str
        The node attribute of the network: age, vaccination status, risk ...
    values : mapping or sequence
        What holds for each value of the attribute; with `groups`, a sequence of what holds for
        each group. These are numbers, branching probabilities or holding times.
    groups : array_like of float, shape [group_count], optional
        Lowest value of each group, ascending; a group ends where the next begins, and the last one
        has no end.

    Raises
    ------
    ModelError
        Groups do not ascend, a group has no entry, or there are no entries.

    Examples
    --------
    The share of cases that need a hospital, by age:

    >>> import ergode
    >>> progression = ergode.Progression(
    ...     "I",
    ...     ergode.ByAttribute(
    ...         "age",
    ...         [{"H": 0.001, "R": 0.999}, {"H": 0.02, "R": 0.98}, {"H": 0.2, "R": 0.8}],
    ...         groups=[0, 18, 65],
    ...     ),
    ...     ergode.Exponential(mean=7),
    ... )

    Susceptibility by a status of two values:

    >>> infection = ergode.Infection(
    ...     "S", "E", {"I": 0.25},
    ...     susceptibility=ergode.ByAttribute("vaccinated", {False: 1.0, True: 0.3}),
    ... )
    """

    attribute: str
    values: Mapping[Any, Any] | Sequence[Any]
    groups: Sequence[float] | None = None
    entries: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_text("ByAttribute", "attribute", self.attribute)
        owner = f"ByAttribute('{self.attribute}')"
        if self.groups is None:
            if not isinstance(self.values, Mapping):
                raise ModelError(
                    f"{owner}: values is {self.values!r:.60}; expected one entry for each value of "
                    "the attribute, as a mapping; or give groups, the lowest value of each group"
                )
            values: Any = {_plain(key): one for key, one in self.values.items()}
            entries = tuple(values.values())
        else:
            edges = group_edges(self.groups, f"{owner}: groups")
            if isinstance(self.values, str | Mapping) or not hasattr(self.values, "__iter__"):
                raise ModelError(
                    f"{owner}: values is {self.values!r:.60}; with groups, expected a sequence of "
                    "one entry for each group"
                )
            entries = values = tuple(self.values)
            if len(entries) != edges.size:
                raise ModelError(
                    f"{owner}: {counted(len(entries), 'value')} for {counted(edges.size, 'group')} "
                    f"({', '.join(labels_of(edges))}); expected one for each"
                )
            object.__setattr__(self, "groups", tuple(edges.tolist()))
        if not entries:
            raise ModelError(f"{owner}: values is empty; expected at least one")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "entries", entries)

    @property
    def division(self) -> tuple[Any, ...]:
        """What divides the nodes: the attribute, and its values or the edges of its groups."""
        keys = tuple(self.values) if isinstance(self.values, Mapping) else None
        return self.attribute, keys, self.groups

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the entries, for messages and tables."""
        if isinstance(self.values, Mapping):
            return tuple(f"{self.attribute} {key}" for key in self.values)
        edges = np.asarray(self.groups, float)
        return tuple(f"{self.attribute} {label}" for label in labels_of(edges))

    def each(self, change: Callable[[Any, str], Any]) -> ByAttribute:
        """The same division with other entries: of ``change(entry, label)``."""
        made = [change(one, label) for one, label in zip(self.entries, self.labels, strict=True)]
        if isinstance(self.values, Mapping):
            return replace(self, values=dict(zip(self.values, made, strict=True)))
        return replace(self, values=made)

    def to_dict(self, entry: Callable[[Any], Any] = lambda one: one) -> dict[str, Any]:
        """Plain data for files and digests."""
        keys = list(self.values) if isinstance(self.values, Mapping) else list(self.groups or ())
        return {
            "attribute": self.attribute, "grouped": self.groups is not None,
            "values": [[key, entry(one)] for key, one in zip(keys, self.entries, strict=True)],
        }  # fmt: skip


def _plain(key: Any) -> Any:
    return key.item() if isinstance(key, np.generic) else key


def factors_by(owner: str, name: str, given: Any) -> Any:
    """A checked factor of a node: the name of an attribute, or numbers by attribute.

    Raises a ModelError if it is neither, or a number is negative.
    """
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, ByAttribute):
        raise ModelError(
            f"{name} of the {owner} is {given!r}; expected the name of a node attribute, or "
            "ergode.ByAttribute('age', ...)"
        )

    def check(value: Any, label: str) -> float:
        if not (is_finite_number(value) and value >= 0):
            raise ModelError(
                f"{name} of the {owner} is {value!r} for {label}; expected a finite number, zero "
                "or more"
            )
        return float(value)

    return given.each(check)


def priority_by(owner: str, given: Any) -> Any:
    """A checked priority: the name of an attribute, numbers by attribute, or None.

    Raises a ModelError if it is none of these, or a number is negative.
    """
    if given is not None and not isinstance(given, ByAttribute):
        check_text(owner, "priority", given)
    return factors_by(owner.lower(), "priority", given)


# ---- which entry each node of a network has


def attribute_values(contacts: Network, name: str) -> np.ndarray:
    """A node attribute by name.

    Raises a ModelError if the network has no such attribute.
    """
    if name not in contacts.attributes:
        if isinstance(contacts, ComputedNetwork):
            raise ModelError(
                f"the model reads the node attribute '{name}', but a computed network has no "
                "attributes; use ComputedNetwork.stored(simple=True).with_attributes(...)"
            )
        known = ", ".join(contacts.attributes) or "none"
        raise ModelError(
            f"the network has no node attribute '{name}'; it has {known}"
            f"{did_you_mean(name, contacts.attributes)}"
        )
    return np.asarray(contacts.attributes[name])


def entry_of_nodes(division: tuple[Any, ...], contacts: Network) -> np.ndarray:
    """Index of the entry of every node, shape [node_count].

    Raises a ModelError if the network has no such attribute, or a node's value has no entry.
    """
    name, keys, edges = division
    values = attribute_values(contacts, name)
    if edges is not None:
        if (span := _span(values)) is not None:
            low, every = span
            entry = (np.searchsorted(edges, every, side="right") - 1)[values.astype(np.int64) - low]
            if (entry >= 0).all():
                return np.asarray(entry)
        return grouped(values, np.asarray(edges), f"attribute '{name}'")
    place = {key: number for number, key in enumerate(keys)}
    found, inverse = _distinct(values)
    index = np.array([place.get(value, -1) for value in found], np.int64)[inverse]
    if (index < 0).any():
        node = int(np.argmax(index < 0))
        raise ModelError(
            f"node {node} has the {name} {_shown(values[node])}, for which the model has no value; "
            f"it has {', '.join(map(_shown, keys))}"
        )
    return np.asarray(index)


def _shown(value: Any) -> str:
    """A value in messages: text has quotes, so that '1' is not 1."""
    return repr(value.item() if isinstance(value, np.generic) else value)


_SPAN_MOST = 2**20  # of integers that are counted rather than sorted


def _distinct(values: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Values that may occur, and the position of each node's."""
    if values.dtype.kind == "O":
        return values.tolist(), np.arange(values.size)
    if (span := _span(values)) is not None:
        low, every = span
        return every.tolist(), values.astype(np.int64) - low
    found, inverse = np.unique(values, return_inverse=True)
    return found.tolist(), inverse


def _span(values: np.ndarray) -> tuple[int, np.ndarray] | None:
    """The least of some integers, and all from it to the largest; None if these are too many."""
    if values.dtype.kind not in "biu" or not values.size:
        return None
    low, high = int(values.min()), int(values.max())
    if high - low >= _SPAN_MOST:
        return None
    return low, np.arange(low, high + 1).astype(values.dtype)


def factor_of_nodes(given: str | ByAttribute, contacts: Network) -> np.ndarray:
    """A factor of every node, float32 [node_count].

    Raises a ModelError if the network has no such attribute, a node's value has no entry, or a
    factor is negative.
    """
    if isinstance(given, ByAttribute):
        return np.asarray(given.entries, np.float32)[entry_of_nodes(given.division, contacts)]
    factor = np.asarray(attribute_values(contacts, given), np.float32)
    bad = np.flatnonzero(~(np.isfinite(factor) & (factor >= 0)))
    if bad.size:
        raise ModelError(
            f"node attribute '{given}' is {factor[bad[0]]} at node {bad[0]}; expected finite "
            "numbers, zero or more"
        )
    return factor
