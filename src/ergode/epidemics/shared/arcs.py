"""The arcs of a node: read from a stored network, or computed (`models.networks.computed_arcs`).

Every method reaches arcs through the functions below, so that a kernel takes either network.  Every
node of a computed network has as many arcs as slots.  Its arcs, their order and their numbers equal
those of `ComputedNetwork.stored`, and so do all results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.source import Precision
from ergode.epidemics.shared.options import COMPUTED, LAYERED, MULTIGRAPH, WIDE
from ergode.models.epidemic.attributes import Network
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.computed_arcs import reverse_slot, slot_target


class Arcs(NamedTuple):
    """Arcs out of every node, or into every node."""

    offsets: Any  # a node's arcs are offsets[i] : offsets[i + 1]; for a computed network unused
    targets: Any  # the node at the other end of each arc; or the tables of a computed network
    weights: Any  # real [arc], or for a computed network [slot]; [1] if there are none
    layer: Any  # uint8, likewise


def arcs_of(
    contacts: Network, weights: np.ndarray | None, precision: Precision, *, layered: bool = True
) -> Arcs:
    """The arcs out of every node, on the host; weights are those of `tables.arc_weights`."""
    offsets: Any = np.zeros(1, np.int64)
    targets: Any
    if isinstance(contacts, ComputedNetwork):
        targets, layer = contacts.arcs, contacts.slot_layers()
    else:
        offsets, targets, layer = contacts.offsets, contacts.targets, contacts.layer
    return Arcs(
        offsets,
        targets,
        np.zeros(1, precision) if weights is None else weights.astype(precision, copy=False),
        layer if layered and layer is not None else np.zeros(1, np.uint8),
    )


def arcs_into(
    contacts: Network, outgoing: Arcs, *, alike: bool, numbered: bool = False
) -> tuple[Arcs, np.ndarray]:
    """The arcs into every node, and their numbers among `outgoing`, of `arcs_of`.

    The arcs are `outgoing` itself, without numbers, if contacts are mutual with equal weights in
    both directions. `alike` says that weights are those of the network, and `numbered` that kernels
    read the numbers.
    """
    if isinstance(contacts, ComputedNetwork) or (alike and not contacts.directed and not numbered):
        return outgoing, np.zeros(1, np.int64)
    number = contacts._transposition()
    first = np.zeros(contacts.node_count + 1, contacts.offsets.dtype)
    np.cumsum(np.bincount(contacts.targets, minlength=contacts.node_count), out=first[1:])

    def ordered(values: np.ndarray) -> np.ndarray:
        return values[number] if values.size == number.size else values

    weights, layer = ordered(outgoing.weights), ordered(outgoing.layer)
    return Arcs(first, contacts._sources()[number], weights, layer), number


def arc_bindings(contacts: Network) -> dict[Any, Any]:
    """Options of kernels that reach arcs: those of a computed network, or of its stored copy."""
    if isinstance(contacts, ComputedNetwork):
        return {COMPUTED: True, MULTIGRAPH: True, **contacts.bindings}
    return {MULTIGRAPH: True} if contacts.multigraph else {}


# ---- device functions


def node_number(node):
    """The number of a node, or of a node in one of many replicates, as narrow as possible."""
    return np.uint64(node) if WIDE else np.uint32(node)


def node_count_of(arcs):
    """Number of nodes."""
    if COMPUTED:
        return np.int64(arcs.targets.domain.count)
    return np.int64(arcs.offsets.size - 1)


def first_arc(arcs, node):
    """Number of the first arc of a node."""
    if COMPUTED:
        return np.int64(node) * np.int64(arcs.targets.slot_count)
    return np.int64(arcs.offsets[node])


def end_arc(arcs, node):
    """Number that follows the last arc of a node."""
    if COMPUTED:
        return (np.int64(node) + np.int64(1)) * np.int64(arcs.targets.slot_count)
    return np.int64(arcs.offsets[node_number(node) + node_number(1)])


def target_of(arcs, node, arc):
    """The node at the other end of an arc of `node`."""
    if COMPUTED:
        return node_number(slot_target(arcs.targets, node, np.int64(arc) - first_arc(arcs, node)))
    return node_number(arcs.targets[arc])


def target_in_row(row, node, k):
    """The node at the other end of the k-th arc of `node`, whose targets begin `row`."""
    if COMPUTED:
        return node_number(slot_target(row, node, k))
    return node_number(row[np.uint32(k)])


def is_loop(node, other):
    """Whether an arc leads from a node to itself.

    No infection follows from such an arc, because no compartment infects itself, and it is no
    contact to trace. All methods skip it.
    """
    if MULTIGRAPH:
        return np.int64(node) == np.int64(other)
    return False


def number_back(arcs, numbers, node, arc, other):
    """Number of an arc into `node` from `other` among the arcs out of `other`.

    `arc` is its number among the arcs into `node`; `numbers` has those of a stored network.
    """
    if COMPUTED:
        slot = np.int64(arc) - first_arc(arcs, node)
        return first_arc(arcs, other) + reverse_slot(arcs.targets, node, slot)
    return np.int64(numbers[arc])


def of_arc(values, arc):
    """Value of an arc; a computed network has one for each slot."""
    if COMPUTED:
        return values[np.uint64(arc) % np.uint64(values.size)]
    return values[arc]


def layer_of(arcs, arc):
    """The layer of an arc."""
    if LAYERED:
        return np.int64(of_arc(arcs.layer, arc))
    return np.int64(0)
