"""The arcs of a node: read from a stored network, or computed (`models.networks.computed_arcs`).

`search.offsets` and `search.targets` are those of a stored network.  For a computed network,
`search.targets` are its tables (`ComputedArcs`), `search.offsets` is unused, and every node has as
many arcs as slots.
"""

from __future__ import annotations

import numpy as np

from ergode.epidemics.shared.options import COMPUTED, WIDE
from ergode.models.networks.computed_arcs import slot_target


def node_number(node):
    """The number of a node, or of a node in one of many replicates, as narrow as possible."""
    return np.uint64(node) if WIDE else np.uint32(node)


def first_arc(search, node):
    """Number of the first arc of a node."""
    if COMPUTED:
        return np.int64(node) * np.int64(search.targets.slot_count)
    return np.int64(search.offsets[node])


def end_arc(search, node):
    """Number that follows the last arc of a node."""
    if COMPUTED:
        return (np.int64(node) + np.int64(1)) * np.int64(search.targets.slot_count)
    return np.int64(search.offsets[node_number(node) + node_number(1)])


def target_of(search, node, arc):
    """The node that an arc of `node` leads to."""
    if COMPUTED:
        return node_number(slot_target(search.targets, node, arc - first_arc(search, node)))
    return node_number(search.targets[arc])


def weight_of(weights, arc):
    """Weight of an arc; those of a computed network have one for each slot."""
    if COMPUTED:
        return weights[np.int64(arc) % np.int64(weights.size)]
    return weights[arc]
