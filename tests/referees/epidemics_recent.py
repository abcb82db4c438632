"""What triggers count: some nodes, or what is new in a window; written from what a user is told.

It shares no code with the library.  `RecentEntries` remembers, of all replicates side by side,
until when each entry of a node is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from epidemics_world import World, tidy

_SLOTS = 8  # entries of a node that are remembered


def counted_of(given: dict[str, Any]) -> tuple[str, ...]:
    """The compartments, and "cases", that a trigger counts."""
    return (given["count"],) if isinstance(given["count"], str) else tuple(given["count"])


def members_of(world: World, given: dict[str, Any]) -> np.ndarray:
    """Which nodes a trigger counts."""
    among = given.get("among")
    if among is None:
        return np.ones(world.nodes, bool)
    if isinstance(among, str):
        return np.asarray(getattr(world, among)) != 0
    name, values = next(iter(among.items()))
    return np.isin(getattr(world, name), values)


class RecentEntries:
    """When entries that count in a window of time are over, by replicate, node and slot."""

    def __init__(self, world: World, count: int, index: dict[str, int]) -> None:
        given = [
            one[end] for one in world.measures for end in ("trigger", "stop")
            if isinstance(one.get(end), dict) and "window" in one[end]
        ]  # fmt: skip
        self.given, self.index = given, index
        self.over = {id(one): np.full((count, world.nodes, _SLOTS), np.inf) for one in given}

    def note(self, name: str, rows: np.ndarray, node: np.ndarray, begin: np.ndarray,
             now: np.ndarray) -> None:  # fmt: skip
        """Nodes enter a compartment, or become cases."""
        for one in self.given:
            over = tidy(begin + one["window"])
            some = over > now
            if name in counted_of(one) and some.any():
                slots = self.over[id(one)]
                free = (slots[rows[some], node[some]] == np.inf).argmax(axis=1)
                slots[rows[some], node[some], free] = over[some]

    def next(self, rows: np.ndarray) -> np.ndarray:
        """When the next entry is over."""
        found = np.full(rows.size, np.inf)
        for slots in self.over.values():
            found = np.minimum(found, slots[rows].min(axis=(1, 2)))
        return found

    def forget(self, rows: np.ndarray, time: np.ndarray) -> None:
        """Entries are over."""
        for slots in self.over.values():
            held = slots[rows]
            slots[rows] = np.where(held == time[:, None, None], np.inf, held)

    def counts(self, given: dict[str, Any], rows: np.ndarray) -> np.ndarray:
        """Entries in the window, by node."""
        return np.isfinite(self.over[id(given)][rows]).sum(axis=2)
