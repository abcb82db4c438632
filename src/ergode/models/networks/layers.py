"""Multilayer networks: several contact networks of the same nodes, such as household and work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ergode.core import devices, kernels
from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.networks import checks, csr
from ergode.models.networks.contact_network import ContactNetwork


class _Rows(NamedTuple):
    """Compressed rows in which each arc has a weight and a layer."""

    offsets: Any
    targets: Any
    weights: Any
    layer: Any


def from_layers(
    networks: Mapping[str, ContactNetwork], factors: Mapping[str, float] | None = None
) -> ContactNetwork:
    """One network of named layers.

    The arcs of all layers share one set of rows; `layer` has the layer of each arc. A pair of nodes
    may be in contact once in each layer, and each such contact transmits independently. Node
    attributes are merged.

    Parameters
    ----------
    networks : mapping of str to ContactNetwork
        The layers, in order: the same nodes, all directed or all undirected.
    factors : mapping of str to float, optional
        Multiplies the weights, and so the transmission rate, of a layer (default 1). The factors
        are constant; factors that change in time are arguments of the simulation.

    Returns
    -------
    ContactNetwork

    Raises
    ------
    ModelError
        Layers differ in nodes, direction or a node attribute, or have layers themselves; or a
        factor is not a finite number of 0 or more, or names no layer.

    Examples
    --------
    >>> import ergode
    >>> home = ergode.ContactNetwork.from_edges([0], [1], node_count=3)
    >>> school = ergode.ContactNetwork.from_edges([0, 1], [1, 2], node_count=3)
    >>> net = ergode.ContactNetwork.from_layers({"home": home, "school": school}, {"school": 0.5})
    >>> net.targets.tolist(), net.layer.tolist(), net.weights.tolist()
    ([1, 1, 0, 0, 2, 1], [0, 1, 0, 1, 1, 1], [1.0, 0.5, 1.0, 0.5, 0.5, 0.5])
    """
    checks.check_layers(networks)
    names = tuple(networks)
    if not 0 < len(names) <= checks.LAYERS_MOST:
        raise ModelError(f"{len(names)} layers were given; expected 1 to {checks.LAYERS_MOST}")
    multipliers = _multipliers(names, factors or {})
    parts = list(networks.values())
    first = parts[0]
    attributes: dict[str, np.ndarray] = {}
    for name, part in networks.items():
        _check_like(first, names[0], part, name)
        for key, values in part.attributes.items():
            if key in attributes and not np.array_equal(attributes[key], values):
                raise ModelError(f"attribute '{key}' of layer '{name}' differs from earlier layers")
            attributes[key] = values
    weighted = any(part.weights is not None for part in parts) or any(multipliers != 1)

    done = _empty_rows(np.zeros(first.node_count + 1, np.int64), first.targets.dtype)
    for index, part in enumerate(parts):
        added = np.ones(part.arc_count, np.float32) if part.weights is None else part.weights
        added = (added * multipliers[index]).astype(np.float32)
        number = np.full(part.arc_count, index, np.uint8)
        here = _Rows(part.offsets.astype(np.int64), part.targets.copy(), added, number)
        merged = _empty_rows(done.offsets + here.offsets, first.targets.dtype)
        devices.resolve("cpu").run(_MERGE, first.node_count, done, here, merged)
        done = merged
    offsets, targets, weights, layer = done
    rows = (offsets.astype(csr.index_dtype(targets.size)), targets, weights if weighted else None)
    others: dict[str, Any] = {"layers": names, "layer": layer, "attributes": attributes}
    others |= {"directed": first.directed, "node_names": first.node_names}
    return ContactNetwork._trusted(first.node_count, rows, **others)


def _multipliers(names: tuple[str, ...], factors: Mapping[str, float]) -> np.ndarray:
    for name, factor in factors.items():
        if name not in names:
            raise ModelError(
                f"factors names '{name}', which is not a layer; layers are {names}"
                f"{did_you_mean(name, names)}"
            )
        if not 0 <= factor < float("inf"):
            raise ModelError(f"the factor of layer '{name}' is {factor}; expected 0 or more")
    return np.array([factors.get(name, 1.0) for name in names])


def _check_like(first: ContactNetwork, first_name: str, part: ContactNetwork, name: str) -> None:
    if not isinstance(part, ContactNetwork):
        raise ModelError(f"layer '{name}' is {type(part).__name__}; expected a ContactNetwork")
    if part.node_count != first.node_count:
        raise ModelError(
            f"layer '{name}' has {counted(part.node_count, 'node')} and '{first_name}' "
            f"{first.node_count}; "
            "all layers must have the same nodes"
        )
    if part.directed != first.directed:
        raise ModelError(f"one of the layers '{first_name}' and '{name}' is directed, one is not")
    if part.layers:
        raise ModelError(f"layer '{name}' has layers itself; give its layers separately")
    if part.multigraph:
        raise ModelError(
            f"layer '{name}' is a copy of a computed network, slot by slot; use "
            "ComputedNetwork.stored(simple=True)"
        )
    mine, theirs = first.node_names, part.node_names
    if (mine is None) != (theirs is None) or (mine is not None and (mine != theirs).any()):
        raise ModelError(f"layers '{first_name}' and '{name}' name their nodes differently")


def _empty_rows(offsets: np.ndarray, ids: Any) -> _Rows:
    """Rows that begin at `offsets`, with uninitialised arcs."""
    size = int(offsets[-1])
    return _Rows(offsets, np.empty(size, ids), np.empty(size, np.float32), np.empty(size, np.uint8))


def _merge(row, a, b, out):
    i, j = a.offsets[row], b.offsets[row]
    for place in range(out.offsets[row], out.offsets[row + 1]):
        # On a tie the earlier layer comes first.
        if j >= b.offsets[row + 1] or (i < a.offsets[row + 1] and a.targets[i] <= b.targets[j]):
            _copy_arc(a, i, out, place)
            i += 1
        else:
            _copy_arc(b, j, out, place)
            j += 1


def _copy_arc(a, i, out, place):
    out.targets[place], out.weights[place], out.layer[place] = (
        a.targets[i],
        a.weights[i],
        a.layer[i],
    )


_MERGE = kernels.for_each(_merge)
