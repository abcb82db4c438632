"""The states that are followed, and the rates between them.

A state is found by a key: the sum of its amounts times random odd numbers, modulo 2^64. Where keys
agree, the amounts are compared. If two states have one key, other numbers are drawn.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from ergode.core.errors import PlanError
from ergode.stochastic.master_equation.rates import Rates

MISSING = -1


class StateSpace:
    """At most `most` states that grow by what can be reached from the state `first` [species].

    `states` are [state, species], `rates` [change, state] those at the time given last, and `links`
    [change, state] the index of the state after a change; `MISSING` if it is not among the states.
    """

    def __init__(self, rates: Rates, first: np.ndarray, time: float, most: int) -> None:
        self.law, self.time, self.most = rates, time, most
        self.states = np.zeros((0, first.size), np.int64)
        self.rates = np.zeros((len(rates.changes), 0))
        self.links = np.zeros((len(rates.changes), 0), np.int32)
        self._draws = np.random.default_rng(0)
        self._sort(first.size)
        self.add(first[None, :])
        self.link()

    @property
    def count(self) -> int:
        """Number of states."""
        return len(self.states)

    def _sort(self, species_count: int | None = None) -> None:
        """Order states by key; with `species_count`, by keys of newly drawn numbers."""
        if species_count is not None:
            numbers = self._draws.integers(0, 2**62, species_count)
            self._factors = 2 * numbers + 1
        keys = self._keys(self.states)
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]

    def _keys(self, states: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray((states * self._factors).sum(axis=1))

    def find(self, states: np.ndarray) -> np.ndarray:
        """Index of each of the states, or `MISSING`."""
        if not self.count:
            return np.full(len(states), MISSING)
        keys = self._keys(states)
        place = np.minimum(np.searchsorted(self._sorted, keys), self.count - 1)
        index = self._order[place]
        same = self._sorted[place] == keys
        same[same] = (self.states[index[same]] == states[same]).all(axis=1)
        return np.where(same, index, MISSING)

    def distinct(self, states: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each state once, with the sum of its weights."""
        _, first, inverse = np.unique(self._keys(states), return_index=True, return_inverse=True)
        while (states[first][inverse.ravel()] != states).any():
            self._sort(states.shape[1])
            _, first, inverse = np.unique(
                self._keys(states), return_index=True, return_inverse=True
            )
        return states[first], np.bincount(inverse.ravel(), weights)

    def add(self, states: np.ndarray) -> np.ndarray:
        """Add distinct states that are not among the states; return their rates [change, state].

        They have no links before `link` is called.

        Raises a PlanError if there are too many.
        """
        before = self.count
        if before + len(states) > self.most:
            raise PlanError(
                f"more than {self.most:,} states have a probability that matters at time "
                f"{self.time:g}; give a larger max_states or tolerance, or use "
                "ergode.stochastic.simulate"
            )
        rates = self.law(states, self.time)
        self.states = np.concatenate([self.states, states])
        self.rates = np.concatenate([self.rates, rates], axis=1)
        new = np.full(rates.shape, MISSING, np.int32)
        self.links = np.concatenate([self.links, new], axis=1)
        self._sort()
        while (self._sorted[1:] == self._sorted[:-1]).any():
            self._sort(states.shape[1])
        return rates

    def link(self) -> None:
        """Find what is missing: the links of states that are new, and those that lead to them."""
        for change, links, rate in zip(self.law.changes, self.links, self.rates, strict=True):
            unknown = np.flatnonzero((links == MISSING) & (rate > 0))
            links[unknown] = self.find(self.states[unknown] + change)

    def keep(self, chosen: np.ndarray) -> None:
        """Forget all states but the chosen ones (a mask)."""
        place = np.full(self.count + 1, MISSING, np.int32)  # the last is that of `MISSING`
        place[:-1][chosen] = np.arange(np.count_nonzero(chosen))
        self.states, self.rates = self.states[chosen], self.rates[:, chosen]
        self.links = place[self.links[:, chosen]]
        self._sort()

    def set_time(self, time: float) -> None:
        """Take the rates of another time."""
        self.time = time
        states, self.states = self.states, self.states[:0]
        self.rates, self.links = self.rates[:, :0], self.links[:, :0]
        self.add(states)
        self.link()

    def generator(self) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
        """Rates between states [to, from], and the total rate out of each state."""
        change, source = np.nonzero((self.links != MISSING) & (self.rates > 0))
        target = self.links[change, source]
        shape = (self.count, self.count)
        matrix = scipy.sparse.csr_matrix((self.rates[change, source], (target, source)), shape)
        return matrix, self.rates.sum(axis=0)

    def ways_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Changes that lead out of the states: index of the change, and of the state before."""
        change, source = np.nonzero((self.links == MISSING) & (self.rates > 0))
        return change, source
