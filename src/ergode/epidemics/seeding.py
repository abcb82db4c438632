"""Who is where at the start.

`initial` names, for each compartment but the one everyone else is in, either node ids (the same
in every replicate) or a number of nodes drawn at random (anew in every replicate).  Drawn nodes
are the first ranks of a keyed shuffle of the nodes not named, so that a kernel finds the node of
a rank and the rank of a node without storing either.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ergode.core.devices import Device
from ergode.core.errors import ModelError
from ergode.core.random import SEEDING, shuffle_rank, shuffled
from ergode.models.compartments import CompartmentModel

Initial = Mapping[str, Any]


class Seeding(NamedTuple):
    """Initial conditions as flat arrays."""

    named_node: Any  # ascending, int64 [named_count] (one unused entry where there are none)
    named_compartment: Any  # int32 [named_count]
    named_count: int
    drawn_end: Any  # rank at which each drawn compartment ends, ascending, int64 [group_count]
    drawn_compartment: Any  # int32 [group_count]
    drawn_count: int
    entry: int  # compartment that an infection leads to


def seeding_of(model: CompartmentModel, initial: Initial, node_count: int) -> Seeding:
    """Check `initial` against a model and a network, and lay it out.

    Raises
    ------
    ModelError
        An unknown compartment, a node id out of range or named twice, a count or fraction out of
        range, more nodes than there are.
    """
    if not isinstance(initial, Mapping):
        raise ModelError(
            f"initial must map compartments to numbers or node ids, such as {{'I': 10}}; found "
            f"{initial!r}"
        )
    everyone_else = model.infections[0].susceptible
    nodes: list[np.ndarray] = []
    places: list[np.ndarray] = []
    ends: list[int] = []
    drawn: list[int] = []
    total = fractions = 0
    fraction = 0.0
    for name in initial:
        if name not in model.index:
            raise ModelError(
                f"initial names the unknown compartment '{name}'; the model has "
                + ", ".join(model.compartments)
            )
        if name == everyone_else:
            raise ModelError(
                f"initial['{name}'] is not needed: every node that is not named starts in '{name}'"
            )
    # In the order of compartments: equal mappings draw equal nodes.
    for name in sorted(initial, key=lambda name: model.index[name]):
        value = initial[name]
        if np.ndim(value):
            ids = _node_ids(name, np.asarray(value), node_count)
            nodes.append(ids)
            places.append(np.full(ids.size, model.index[name], np.int32))
        else:
            number = _number(name, value, node_count)
            if isinstance(number, float):
                # Rounded as they add up: fractions of one network never exceed it.
                fraction += number
                number = round(fraction * node_count) - fractions
                if number == 0 and value > 0.0:
                    warnings.warn(
                        f"initial['{name}'] is {value!r} of {node_count} nodes, which rounds to no "
                        "node",
                        RuntimeWarning,
                        stacklevel=4,
                    )
                fractions += number
            total += number
            ends.append(total)
            drawn.append(model.index[name])
    node = np.concatenate(nodes) if nodes else np.zeros(0, np.int64)
    place = np.concatenate(places) if places else np.zeros(0, np.int32)
    order = np.argsort(node, kind="stable")
    node, place = node[order], place[order]
    repeated = np.flatnonzero(node[1:] == node[:-1])
    if repeated.size:
        raise ModelError(f"initial names node {node[repeated[0]]} twice")
    if total + node.size > node_count:
        raise ModelError(
            f"initial places {total + node.size} nodes, but the network has {node_count}"
        )
    return Seeding(
        node if node.size else np.zeros(1, np.int64),
        place if node.size else np.zeros(1, np.int32),
        node.size,
        np.array(ends or [0], np.int64),
        np.array(drawn or [0], np.int32),
        total,
        model.index[model.infections[0].infected],
    )


def _node_ids(name: str, ids: np.ndarray, node_count: int) -> np.ndarray:
    if ids.size and ids.dtype.kind not in "iu":
        raise ModelError(
            f"initial['{name}'] is an array of {ids.dtype}; expected integer node ids (for "
            "names, see ContactNetwork.nodes_named)"
        )
    ids = ids.ravel()
    outside = np.flatnonzero((ids < 0) | (ids >= node_count))
    if outside.size:
        raise ModelError(
            f"initial['{name}'][{outside[0]}] is node {ids[outside[0]]}, but node ids are 0 to "
            f"{node_count - 1} (positions in the network's node_names, where it has names: see "
            "ContactNetwork.nodes_named)"
        )
    return ids.astype(np.int64)


def _number(name: str, value: Any, node_count: int) -> int | float:
    """A count of nodes, or a fraction of them."""
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
        raise ModelError(f"initial['{name}'] is {value!r}; expected a number or node ids")
    if isinstance(value, int | np.integer):
        if not 0 <= value <= node_count:
            raise ModelError(
                f"initial['{name}'] is {value} nodes; expected 0 to {node_count}, the network's "
                "node count"
            )
        return int(value)
    if not 0.0 <= value < 1.0:
        raise ModelError(
            f"initial['{name}'] is {value!r}; a fraction is at least 0 and below 1, and a count "
            "of nodes is an integer"
        )
    return float(value)


def put(seeding: Seeding, device: Device) -> Seeding:
    """The same on a device."""
    return Seeding(*(device.put(x) if isinstance(x, np.ndarray) else x for x in seeding))


def _named_up_to(seeding, node):
    """How many named nodes have an id of at most `node`."""
    low, high = 0, seeding.named_count
    while low < high:
        middle = (low + high) >> 1
        if seeding.named_node[middle] <= node:
            low = middle + 1
        else:
            high = middle
    return low


def seed_node(seeding, index, node_count, seed, replicate):
    """The node that seed number `index` of a replicate is: first the named, then the drawn."""
    if index < seeding.named_count:
        return seeding.named_node[index]
    node = shuffled(
        index - seeding.named_count, node_count - seeding.named_count, seed, replicate, SEEDING
    )
    # The shuffle is of the nodes not named: skip those that are, until none is skipped anew.
    skipped = 0
    while True:
        below = _named_up_to(seeding, node + skipped)
        if below == skipped:
            return node + skipped
        skipped = below


def seed_compartment(seeding, index):
    """The compartment that seed number `index` starts in."""
    if index < seeding.named_count:
        return seeding.named_compartment[index]
    group = 0
    while index - seeding.named_count >= seeding.drawn_end[group]:
        group += 1
    return seeding.drawn_compartment[group]


def initial_compartment(seeding, node, node_count, seed, replicate):
    """The compartment a node starts in, or -1 if it is not a seed."""
    below = _named_up_to(seeding, node)
    if below > 0 and seeding.named_node[below - 1] == node:
        return seeding.named_compartment[below - 1]
    if seeding.drawn_count > 0:
        rank = shuffle_rank(
            node - below, node_count - seeding.named_count, seed, replicate, SEEDING
        )
        if rank < seeding.drawn_count:
            group = 0
            while rank >= seeding.drawn_end[group]:
                group += 1
            return seeding.drawn_compartment[group]
    return np.int32(-1)
