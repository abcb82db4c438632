"""From `Tabulated` and `Branching` coefficients to flat tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ergode.kinetics.tables import Composed
from ergode.models.reactions.composed_rates import Branching, Tabulated, TemperatureTable
from ergode.models.reactions.rates import Reaclib


class ComposedGatherer:
    """Gathers tables of slots, and sequences of reactions.

    Parameters
    ----------
    add : function
        Of a slot and its `Reaclib` or number.
    another : function
        Returns a slot beyond the reactions.
    """

    def __init__(
        self, add: Callable[[int, Reaclib | float], None], another: Callable[[], int]
    ) -> None:
        self._add, self._another = add, another
        self._tables: dict[int, tuple[TemperatureTable, ...]] = {}
        self.sequences: dict[int, tuple[int, tuple[int, ...]]] = {}

    def add(self, slot: int, rate: Reaclib | Tabulated | Branching | float) -> None:
        """Add the coefficient of a slot."""
        if isinstance(rate, Branching):
            self.add(slot, rate.direct)
            parts = []
            for part in (rate.first, *rate.branches):
                parts.append(self._another())
                self.add(parts[-1], part)
            self.sequences[slot] = parts[0], tuple(parts[1:])
        elif isinstance(rate, Tabulated):
            self._tables[slot] = rate.tables
            self._add(slot, rate.rate)
        else:
            self._add(slot, rate)

    def tables(self) -> Composed:
        """All of them as arrays."""
        flat = [table for tables in self._tables.values() for table in tables]
        axes = [
            np.log(one.temperature) if one.logarithmic else np.array(one.temperature)
            for one in flat
        ]

        def joined(parts: list[np.ndarray]) -> np.ndarray:
            return np.concatenate([np.zeros(0), *parts])

        def starts(sizes: list[int]) -> np.ndarray:
            return np.cumsum([0, *sizes]).astype(np.uint32)

        branches = [branches for _, branches in self.sequences.values()]
        return Composed(
            np.array(list(self._tables), np.uint32),
            starts([len(tables) for tables in self._tables.values()]),
            np.array([one.logarithmic for one in flat], np.uint32),
            starts([axis.size for axis in axes]),
            joined(axes),
            joined([np.array(one.logarithm) for one in flat]),
            joined([np.array(one.slope) for one in flat]),
            np.array(list(self.sequences), np.uint32),
            np.array([first for first, _ in self.sequences.values()], np.uint32),
            starts([len(one) for one in branches]),
            np.array([slot for one in branches for slot in one], np.uint32),
        )
