"""Rows of arcs for tau-leaping."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.source import Precision
from ergode.epidemics.leap.step import Arcs
from ergode.models.networks.contact_network import ContactNetwork


def arcs_of(
    contacts: ContactNetwork,  # the network
    weights: np.ndarray | None,  # [arc_count]: what multiplies the transmission rate along each arc
    precision: Precision,  # type of the weights
    *,
    layered: bool,  # whether kernels distinguish layers
    pushes: bool,  # whether kernels read only outgoing arcs
) -> tuple[Arcs, Arcs]:
    """Rows of arcs out of and into every node.

    Returns
    -------
    outgoing, incoming : Arcs
        The same object if contacts are mutual with equal weights in both directions, or if kernels
        read only outgoing arcs.
    """
    plain = np.zeros(1) if weights is None else weights
    layer = np.zeros(1, np.uint8)
    if layered and contacts.layer is not None:
        layer = contacts.layer
    outgoing = Arcs(contacts.offsets, contacts.targets, plain.astype(precision, copy=False), layer)
    mutual = not contacts.directed and (weights is None or weights is contacts.weights)
    if mutual or pushes:
        return outgoing, outgoing
    back = ContactNetwork(
        contacts.node_count, contacts.offsets, contacts.targets, weights, directed=True,
        layers=contacts.layers, layer=contacts.layer,
    ).reversed()  # fmt: skip
    into = np.zeros(1) if back.weights is None else back.weights
    return outgoing, Arcs(back.offsets, back.targets, into.astype(precision, copy=False), layer[:1])
