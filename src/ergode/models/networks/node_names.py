"""Nodes given by name or by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.devices.foreign import on_host
from ergode.core.errors import ModelError
from ergode.models.networks import checks


class Positions(np.ndarray):
    """Positions of nodes, which are not taken for names; from `ContactNetwork.nodes_named`."""


def positions_of(
    nodes: Any, names: np.ndarray | None, where: str, by: str | None = None
) -> np.ndarray:
    """Positions of nodes that are given by name or by position.

    Parameters
    ----------
    nodes : array_like
        Names or positions of nodes.
    names : ndarray, shape [node_count], or None
        The names of all nodes.
    where : str
        What names the nodes, for messages.
    by : {"name", "position"}, optional
        What `nodes` holds. By default text is a name. An integer is a position, unless names of
        the network are integers in another order: then it is refused.

    Returns
    -------
    ndarray
        Positions; unchecked where they were given as such.

    Raises
    ------
    ModelError
        A name is unknown, the network has no names, or an integer may be either.
    """
    given = nodes if names is None or isinstance(nodes, np.ndarray) else _as_names(nodes)
    ids = on_host(given)
    is_number = ids.dtype.kind in "iu" or not ids.size
    if names is None:
        if by == "name":
            raise ModelError(f"{where} is given by name, but the network has no node names")
        return ids
    if by == "position" or isinstance(nodes, Positions):
        return ids
    if by is None and is_number and names.dtype.kind not in "iufO":
        return ids
    position = {name: node for node, name in enumerate(names.tolist())}
    listed = ids.ravel().tolist()
    if by is None and is_number:
        for node in listed:
            if position.get(node) != node and _has_numbers(names):
                raise ModelError(_ambiguous(where, node, position, names, listed))
        return ids
    unknown = [name for name in listed if name not in position]
    if unknown:
        raise ModelError(
            f"{where} names {unknown[0]!r}, but no node of the network has this name"
            + did_you_mean(unknown[0], position)
        )
    return np.array([position[name] for name in listed], np.int64)


def _as_names(nodes: Any) -> Any:
    return checks.name_array(nodes) if isinstance(nodes, list | tuple) else nodes


def _has_numbers(names: np.ndarray) -> bool:
    return names.dtype.kind in "iuf" or any(isinstance(name, int | float) for name in names)


def _ambiguous(
    where: str, node: int, position: dict[Any, int], names: np.ndarray, listed: list[int]
) -> str:
    by_name, by_position = f"no node is named {node}", f"no node is at position {node}"
    if node in position:
        by_name = f"the node named {node} is at position {position[node]}"
    if 0 <= node < names.size:
        by_position = f"the node at position {node} is named {names[node]}"
    shown = str(listed) if len(listed) < 4 else f"[{listed[0]}, ...]"
    return (
        f"{where} has {node}, which may be a name or a position: {by_name}, and {by_position}. "
        f"Write Seeds({shown}, by='name') or Seeds({shown}, by='position')"
    )
