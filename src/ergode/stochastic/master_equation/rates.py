"""Rates of reactions in many states at once, by NumPy, from what the user wrote.

Nothing here is shared with the kernels that simulate, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.errors import ModelError, PlanError
from ergode.models.expressions import TIME, Expression
from ergode.models.reactions.mass_action import law_of, symbol
from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic.laws import Naming, breaks_of, check_whole
from ergode.stochastic.to_tables import check_amounts


class Rates:
    """Total rate of each change of the state; reactions with equal changes are added.

    `values` are parameters and compartments that differ from the network's own. Nothing happens in
    states where the condition `stop` holds. `changes` are [change, species].

    Raises a ModelError or PlanError if the master equation of this network cannot be solved; the
    message names the reason.
    """

    def __init__(
        self, network: ReactionNetwork, values: Mapping[str, float], stop: Expression | None = None
    ) -> None:
        _refuse(network)
        self.network, self.stop = network, stop
        self.parameters = network.evaluate_parameters(values)
        species = {member.name: member for member in network.species}
        self._laws = [law_of(reaction, species) for reaction in network.reactions]
        net = np.rint(network.stoichiometry.toarray().T).astype(np.int64)
        self._moving: list[int] = np.flatnonzero(net.any(axis=1)).tolist()
        self.changes, kinds = np.unique(net[self._moving], axis=0, return_inverse=True)
        self._kinds = kinds.ravel()
        self._net = net
        self.breaks = self._breaks()

    def __call__(self, states: np.ndarray, time: float) -> np.ndarray:
        """Rates [change, state] in states [state, species].

        Raises a ModelError if a rate is negative or not finite, or a reaction takes molecules that
        are not there.
        """
        rates = np.zeros((len(self.changes), len(states)))
        known = self.known(states, time)
        goes_on = True if self.stop is None else ~self._holds(known)
        for kind, k in zip(self._kinds, self._moving, strict=True):
            found = np.where(goes_on, self._laws[k].evaluate(known), 0.0)
            rate = np.broadcast_to(found, len(states))
            short = (rate > 0) & (states + self._net[k] < 0).any(axis=1)
            bad = np.flatnonzero(~np.isfinite(rate) | (rate < 0) | short)
            if bad.size:
                raise ModelError(self._what_is_wrong(k, states[bad[0]], rate[bad[0]], time))
            rates[kind] += rate
        return rates

    def known(self, states: np.ndarray, time: float) -> dict[str, Any]:
        """Value of every name of a formula, in states [state, species]."""
        known: dict[str, Any] = {TIME: time, **self.parameters}
        for i, member in enumerate(self.network.species):
            known[symbol(member.name)] = states[:, i].astype(np.float64) / self.size_of(i)
        for name in self.network.rule_order:
            known[name] = self.network.rules[name].evaluate(known)
        return known

    def start(self, given: Mapping[str, Any]) -> np.ndarray:
        """Initial amounts, shape [species]; `given` replaces those of the network."""
        start = np.empty((1, len(self.network.species)))
        for i, member in enumerate(self.network.species):
            value: Any = given.get(member.name, member.initial)
            amount = value.evaluate(self.parameters) if isinstance(value, Expression) else value
            start[:, i] = amount * self.size_of(i)
        check_amounts(start, [member.name for member in self.network.species], 31)
        return start[0].astype(np.int64)

    def size_of(self, i: int) -> float:
        """What turns the value of a species into its amount: one, or the size of a compartment."""
        member = self.network.species[i]
        is_amount = member.quantity == "amount" or member.compartment is None
        return 1.0 if is_amount else self.parameters[str(member.compartment)]

    def stopped(self, states: np.ndarray, time: float) -> np.ndarray:
        """Whether the condition holds in each state, shape [state]."""
        return np.broadcast_to(self._holds(self.known(states, time)), len(states))

    def _holds(self, known: Mapping[str, Any]) -> Any:
        assert self.stop is not None
        return np.asarray(self.stop.evaluate(known), bool)

    def _breaks(self) -> list[float]:
        """Times at which a comparison with the time turns; elsewhere no rate depends on it."""
        naming = Naming(self.network, self.parameters)
        times = set()
        for k in self._moving:
            law = naming.inline(self._laws[k])
            found, all_of_it = breaks_of(law)
            if not all_of_it or any(map(naming.follows_state, found)):
                raise PlanError(
                    f"the rate of reaction '{self._called(k)}' depends on time otherwise than by "
                    "comparing it with constants; probabilities cannot be computed: use "
                    "ergode.stochastic.simulate"
                )
            times |= {float(one.evaluate(self.parameters)) for one in found}
        if self.stop is not None and TIME in naming.inline(self.stop).names:
            raise PlanError(f"stop, '{self.stop.text}', depends on time; expected amounts only")
        return sorted(time for time in times if np.isfinite(time))

    def _called(self, k: int) -> str:
        return self.network.reactions.name_of(k)

    def _what_is_wrong(self, k: int, state: np.ndarray, rate: float, time: float) -> str:
        names = [member.name for member in self.network.species]
        where = ", ".join(f"{name} = {n}" for name, n in zip(names, state, strict=True))
        what = f"reaction '{self._called(k)}' has the rate {rate:g} at {where}, time {time:g}"
        lost = np.flatnonzero(state + self._net[k] < 0)
        if lost.size and rate > 0:
            return f"{what}, where it would make '{names[lost[0]]}' negative"
        return f"{what}; expected a finite rate, 0 or more"


def _refuse(network: ReactionNetwork) -> None:
    """Refuse what the master equation of the amounts alone does not describe."""
    check_whole(network)
    remedy = "probabilities cannot be computed: use ergode.stochastic.simulate"
    if network.events:
        event = network.events[0]
        raise PlanError(f"the network has the event '{event.name or event.trigger.text}'; {remedy}")
    for name in (*network.rate_rules, *network.continuous):
        raise PlanError(f"'{name}' is a continuous variable of the network; {remedy}")
    if network.reactions.delays:
        k = min(network.reactions.delays)
        name = network.reactions.name_of(k)
        raise PlanError(f"reaction '{name}' has a delay; {remedy}")
