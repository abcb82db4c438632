"""Contact matrices: mean contacts of a node of one group with nodes of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, kernels
from ergode.core.arguments import as_numbers, check_switch, did_you_mean
from ergode.core.errors import ModelError

if TYPE_CHECKING:
    import xarray

    from ergode.models.networks.contact_network import ContactNetwork

_NODES_PER_PIECE = 1 << 14
_GROUPS_MOST = 1000


def contact_matrix(
    network: ContactNetwork,
    attribute: str,
    groups: ArrayLike | None = None,
    layer: str | None = None,
    weighted: bool = False,
) -> xarray.DataArray:
    """Mean number of contacts of a node of one group with nodes of another.

    Parameters
    ----------
    network : ContactNetwork
    attribute : str
        The node attribute that makes the groups.
    groups : array_like of float, shape [group_count], optional
        Lowest value of each group, ascending; a group ends where the next begins, and the last one
        has no end. If not given, each value of the attribute is a group.
    layer : str, optional
        Count the contacts of this layer alone.
    weighted : bool
        Whether to add the weights of contacts instead of their number.

    Returns
    -------
    xarray.DataArray, dims (group, contact_group)
        Arcs from nodes of `group` to nodes of `contact_group`, by nodes of `group`; NaN for a group
        without nodes.

    Raises
    ------
    ModelError
        The network has no such attribute or layer, groups do not ascend, or a node is in none.

    Examples
    --------
    >>> import ergode
    >>> net = ergode.ContactNetwork.from_edges([0, 0], [1, 2]).with_attributes(age=[40, 3, 9])
    >>> net.contact_matrix("age", groups=[0, 18]).values.tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    """
    check_switch("contact_matrix", "weighted", weighted)
    if not isinstance(attribute, str) or attribute not in network.attributes:
        known = ", ".join(map(repr, network.attributes)) or "none"
        raise ModelError(
            f"attribute {attribute!r} is unknown; the network has {known}"
            f"{did_you_mean(attribute, network.attributes)}"
        )
    if layer is not None and layer not in network.layers:
        raise ModelError(
            f"layer {layer!r} is unknown; the network has {network.layers or 'none'}"
            f"{did_you_mean(layer, network.layers)}"
        )
    values = network.attributes[attribute]
    if groups is None:
        found, group = np.unique(values, return_inverse=True)
        labels: list[Any] = found.tolist()
    else:
        edges = group_edges(groups, "groups")
        group, labels = grouped(values, edges, f"attribute '{attribute}'"), labels_of(edges)
    if len(labels) > _GROUPS_MOST:
        raise ModelError(
            f"attribute '{attribute}' has {len(labels):,} values, at most {_GROUPS_MOST} can be "
            "groups; give groups, the lowest value of each"
        )
    sums = arc_sums(network, group, len(labels), weighted=weighted)
    chosen = sums.sum(0) if layer is None else sums[network.layers.index(layer)]
    return means(chosen, np.bincount(group, minlength=len(labels)), labels)


def group_edges(values: Any, name: str) -> np.ndarray:
    """Ascending lower edges of groups, shape [group_count]."""
    edges = as_numbers(values)
    if edges is None or edges.ndim != 1 or edges.size == 0:
        raise ModelError(f"{name} is {values!r:.60}; expected the lowest value of each group")
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ModelError(f"{name} is {edges.tolist()!r:.60}; expected finite ascending numbers")
    return edges


def grouped(values: np.ndarray, edges: np.ndarray, what: str) -> np.ndarray:
    """Index of the group of each value, shape [node_count]."""
    if values.dtype.kind not in "biuf":
        raise ModelError(f"{what} holds {values.dtype}; groups need numbers")
    group = np.searchsorted(edges, values, side="right") - 1
    outside = (group < 0) | (values != values)
    if outside.any():
        node = int(np.argmax(outside))
        raise ModelError(
            f"{what} of node {node} is {values[node]}, in no group; groups begin at {edges[0]:g}"
        )
    return group


def labels_of(edges: np.ndarray) -> list[str]:
    """Names of groups: ``"0-4"`` where edges are whole numbers, ``"65+"`` for the last."""
    whole = bool((edges == np.floor(edges)).all())
    labels = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        last = high - 1 if whole else high
        labels.append(f"{low:g}" if last == low else f"{low:g}-{last:g}")
    return [*labels, f"{edges[-1]:g}+"]


def arc_sums(
    network: ContactNetwork, group: np.ndarray, group_count: int, *, weighted: bool = False
) -> np.ndarray:
    """Number or weight of arcs between groups, shape [layer_count, group_count, group_count].

    A network without layers has one.
    """
    layer_count = max(1, len(network.layers))
    piece = max(_NODES_PER_PIECE, -(-network.node_count // 1024))
    pieces = -(-network.node_count // piece)
    sums = np.zeros((pieces, layer_count, group_count, group_count))
    none = np.empty(0, np.float32)
    weights = network.weights if weighted and network.weights is not None else none
    layer = network.layer if network.layer is not None else np.empty(0, np.uint8)
    devices.resolve("cpu").run(
        _COUNT, pieces, piece, network.offsets, network.targets, weights, layer,
        np.asarray(group, np.int64), sums,
    )  # fmt: skip
    return np.asarray(sums.sum(0))


def means(sums: np.ndarray, people: np.ndarray, labels: list[Any]) -> xarray.DataArray:
    """Sums by group as a labelled array of means."""
    import xarray

    with np.errstate(invalid="ignore", divide="ignore"):
        values = sums / people[:, None]
    return xarray.DataArray(
        values,
        dims=("group", "contact_group"),
        coords={"group": labels, "contact_group": labels},
        name="contacts",
    )


def _count(piece, size, offsets, targets, weights, layer, group, sums):
    for node in range(piece * size, min((piece + 1) * size, offsets.size - 1)):
        for arc in range(offsets[node], offsets[node + 1]):
            where = layer[arc] if layer.size > 0 else 0
            weight = np.float64(weights[arc]) if weights.size > 0 else np.float64(1.0)
            sums[piece, where, group[node], group[targets[arc]]] += weight


_COUNT = kernels.for_each(_count)
