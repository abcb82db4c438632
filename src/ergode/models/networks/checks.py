"""Checks of the arrays of a contact network; each names the first invalid element."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers
from ergode.core.calls.launch import check_room
from ergode.core.devices.foreign import on_host
from ergode.core.errors import ModelError

if TYPE_CHECKING:
    from ergode.models.networks.contact_network import ContactNetwork

LAYERS_MOST = 255
NODES_MOST = 1 << 36


def reject(bad: np.ndarray, values: np.ndarray, name: str, why: str, shift: int = 0) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        raise ModelError(f"{name}[{first + shift}] is {values[first]}; {why}")


def node_count_of(value: Any) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise ModelError(f"node_count is {value!r}; expected a whole number") from None
    if isinstance(value, bool | np.bool_) or count < 1:
        raise ModelError(f"node_count is {value!r}; a network has at least one node")
    if count > NODES_MOST:
        raise ModelError(f"node_count is above {NODES_MOST}, the largest possible")
    check_room(8 * count, f"a network of {count:,} nodes", "use a smaller node_count")
    return count


def one_dimensional(values: ArrayLike, name: str) -> np.ndarray:
    try:
        array = on_host(values)
    except ValueError:
        raise ModelError(f"{name} is ragged; expected a one-dimensional array") from None
    if array.ndim != 1:
        raise ModelError(f"{name} has shape {array.shape}; expected a one-dimensional array")
    return array


def node_ids(values: ArrayLike, name: str) -> np.ndarray:
    array = one_dimensional(values, name)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind == "f":  # np.loadtxt returns floats
        bad = ~((np.abs(array) < 2**53) & (array == np.trunc(array)))
        reject(bad, array, name, "node ids are whole numbers")
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ModelError(
            f"{name} holds {array.dtype}; expected integers. For nodes with names use "
            "ContactNetwork.from_networkx or ergode.read_contacts, which assign ids"
        )
    return array


def check_range(ids: np.ndarray, name: str, node_count: int) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= node_count):
        bad = (ids < 0) | (ids >= node_count)
        reject(bad, ids, name, f"node ids run from 0 to node_count - 1 = {node_count - 1}")


def arc_weights(values: ArrayLike, name: str, count: int, like: str) -> np.ndarray:
    array = one_dimensional(values, name)
    if array.size != count:
        raise ModelError(f"{name} has {array.size} elements and {like} {count}; expected equal")
    if array.size and array.dtype.kind not in "biuf":
        raise ModelError(f"{name} holds {array.dtype}; expected numbers")
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    reject(np.isnan(single), array, name, "a weight must be a number")
    reject(single < 0, array, name, "a weight must not be negative")
    reject(np.isinf(single), array, name, "a weight must be finite (in float32)")
    return single


def layer_indices(values: Any, layers: tuple[str, ...], count: int) -> np.ndarray | None:
    if values is None:
        if layers:
            raise ModelError(f"layers is {layers}; expected layer, the layer of each arc, as well")
        return None
    if len(set(layers)) != len(layers) or not 0 < len(layers) <= LAYERS_MOST:
        raise ModelError(f"layers is {layers}; expected 1 to {LAYERS_MOST} different names")
    array = node_ids(values, "layer")
    if array.size != count:
        raise ModelError(f"layer has {array.size} elements and targets {count}; expected equal")
    bad = (array < 0) | (array >= len(layers))
    reject(bad, array, "layer", f"layers are numbered 0 to {len(layers) - 1}")
    return array.astype(np.uint8)


def check_rows(network: ContactNetwork) -> None:
    """Raise unless rows are sorted, without loops or duplicates, and mirrored if undirected."""
    source = network._sources()
    loop = np.flatnonzero(source == network.targets)
    if loop.size:
        raise ModelError(
            f"targets[{loop[0]}] makes node {source[loop[0]]} its own contact; remove "
            "self-loops, or use ContactNetwork.from_edges, which removes them"
        )
    order = network.targets.astype(np.int64)
    if network.layer is not None:
        order = order * (LAYERS_MOST + 1) + network.layer
    unsorted = np.flatnonzero((source[1:] == source[:-1]) & (np.diff(order) <= 0))
    if unsorted.size:
        raise ModelError(
            f"targets[{unsorted[0] + 1}] does not increase within the row of node "
            f"{source[unsorted[0]]}; sort rows and merge duplicates, or use "
            "ContactNetwork.from_edges, which does both"
        )
    if network.directed:
        return
    # The reversed arcs in order; for an undirected network they equal the arcs.
    arcs = network._transposition()
    back_source, back_target = network.targets[arcs], source[arcs]
    same = (source == back_source) & (network.targets == back_target)
    if network.layer is not None:
        same &= network.layer == network.layer[arcs]
    if network.weights is not None:
        same &= network.weights == network.weights[arcs]
    if not same.all():
        first = int(np.argmin(same))
        arc = int(source[first]), int(network.targets[first])
        reverse = int(back_source[first]), int(back_target[first])
        # At the first difference of two sorted lists, the smaller element is missing in one.
        one, other = arc if arc <= reverse else reverse[::-1]
        raise ModelError(
            f"the network is undirected, but the arc {one} -> {other} has no equal arc back; "
            "pass directed=True, or use ContactNetwork.from_edges"
        )


def check_layers(networks: Any) -> None:
    """Raise unless the networks of layers are given by name."""
    if not isinstance(networks, Mapping):
        raise ModelError(
            f"layers are given as {type(networks).__name__}; expected a dictionary with a network "
            "for each name"
        )


def node_attributes(arrays: Mapping[str, ArrayLike], count: int) -> dict[str, np.ndarray]:
    result = {}
    for name, values in arrays.items():
        array = np.array(on_host(values))
        if array.shape != (count,):
            raise ModelError(
                f"attribute '{name}' has shape {array.shape}; expected one value for each node, "
                f"shape ({count},)"
            )
        result[name] = array
    return result


def names_of_nodes(values: Any, count: int) -> np.ndarray | None:
    if values is None:
        return None
    names = name_array(values)
    if names.size != count:
        raise ModelError(f"node_names has {names.size} elements; expected node_count = {count}")
    return names


def name_array(values: Any) -> np.ndarray:
    """Names as a one-dimensional array, of objects where they are not all numbers or all text."""
    values = values if isinstance(values, np.ndarray) else list(values)
    if isinstance(values, list) and len({type(value) for value in values}) > 1:
        array = np.empty(len(values), object)
        array[:] = values
        return array
    array = np.array(values)
    if array.ndim != 1 or array.dtype.kind not in "iufUO":
        array = np.empty(len(values), object)
        for index, value in enumerate(values):  # one by one: a name may itself be a sequence
            array[index] = value
    return array


def whole(value: Any, name: str, least: int, most: float = float("inf")) -> int:
    """`value` as an int, if it is a whole number from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ModelError(f"{name} is {value!r}; expected a whole number") from None
    if not least <= number <= most:
        limit = f"at least {least}" if most == float("inf") else f"from {least} to {most}"
        raise ModelError(f"{name} is {number}; expected {limit}")
    return number


def real_number(value: Any, name: str, most: float) -> float:
    """`value` as a float, if it is a number from 0 to `most`."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{name} is {value!r}; expected a number") from None
    if not 0 <= number <= most:
        raise ModelError(f"{name} is {number:g}; expected 0 to {most:g}")
    return number


def seed_word(seed: Any) -> np.uint64:
    """`seed` as the 64-bit word that keys random draws."""
    return np.uint64(whole(seed, "seed", 0, 2**64 - 1))


def square_matrix(name: str, values: Any, size: int, members: str) -> np.ndarray:
    """A matrix with a non-negative number for each pair of `size` members.

    Raises a ModelError if it has another shape, or a number is negative or not finite; the message
    names the first.
    """
    found = as_numbers(values)
    if found is None or found.shape != (size, size):
        shape = "no matrix" if found is None else f"shape {found.shape}"
        raise ModelError(
            f"{name} has {shape}; expected ({size}, {size}), as there are {size} {members}"
        )
    bad = ~(np.isfinite(found) & (found >= 0))
    if bad.any():
        a, b = np.argwhere(bad)[0]
        raise ModelError(f"{name}[{a}, {b}] is {found[a, b]}; expected 0 or more")
    return found
