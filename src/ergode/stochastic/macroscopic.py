"""The macroscopic equations of a network: the drift of amounts, its Jacobian, and the diffusion.

The drift is S a(n), the diffusion S diag(a) S^T, with the stoichiometry S and the propensities a.
In the limit of large amounts, n equal molecules form n^2 ordered pairs; `counted` ones n (n - 1).
Nothing here is shared with the kernels that simulate, so that the two can be compared.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from functools import cached_property
from typing import Any

import numpy as np

from ergode.core.errors import ModelError, PlanError
from ergode.models.expressions import TIME
from ergode.models.reactions.mass_action import law_of, symbol
from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic.laws import Naming, breaks_of

# Increment of central differences, relative to an amount.
_INCREMENT = float(np.cbrt(np.finfo(np.float64).eps))


class Macroscopic:
    """Rates of a network as functions of real amounts; `values` replace parameters and sizes.

    Attributes
    ----------
    breaks : list of float
        Times at which a comparison with the time turns.
    follows_time : bool
        Whether a rate depends on the time.
    floor : float
        Amounts below this are small: errors and increments are not relative to them. 0: what is
        small beside the largest amount, in `linear_noise.steady_state`.

    Raises a PlanError if amounts have other causes than reactions; the message names the cause.
    """

    def __init__(
        self, network: ReactionNetwork, values: Mapping[str, float], counted: bool = False,
        floor: float = 1.0,
    ) -> None:  # fmt: skip
        _refuse(network)
        self.network, self.floor = network, floor
        self.parameters = network.evaluate_parameters(values)
        species = {member.name: member for member in network.species}
        real = network.continuous if counted else species
        self._laws = [law_of(one, species, continuous=real) for one in network.reactions]
        self.changes = network.stoichiometry.toarray().astype(np.float64)  # [species, reaction]
        self.noisy = self.changes * ~network.flows  # a deterministic reaction has no noise
        naming = Naming(network, self.parameters)
        inlined = [naming.inline(law) for law in self._laws]
        self.follows_time = any(TIME in law.names for law in inlined)
        found = [time for law in inlined for time in breaks_of(law)[0]]
        still = [time for time in found if not naming.follows_state(time)]
        self.breaks = sorted({float(time.evaluate(self.parameters)) for time in still})

    @cached_property
    def degrees(self) -> np.ndarray:
        """Degree of each rate as a polynomial of the amounts, shape [reaction]; -1 of others."""
        of = {symbol(member.name) for member in self.network.species}
        varying = of | self.network.rules.keys()
        return np.array([_degree(law.tree, of, varying) for law in self._laws], int)

    def known(self, amounts: np.ndarray, time: float) -> dict[str, Any]:
        """Value of every name of a formula, at amounts [..., species]."""
        known: dict[str, Any] = {TIME: time, **self.parameters}
        for i, member in enumerate(self.network.species):
            is_amount = member.quantity == "amount" or member.compartment is None
            size = 1.0 if is_amount else known[str(member.compartment)]
            known[symbol(member.name)] = amounts[..., i] / size
        for name in self.network.rule_order:
            known[name] = self.network.rules[name].evaluate(known)
        return known

    def propensities(self, amounts: np.ndarray, time: float) -> np.ndarray:
        """Rates [..., reaction] at amounts [..., species]."""
        known, shape = self.known(amounts, time), amounts.shape[:-1]
        rows = [np.broadcast_to(law.evaluate(known), shape) for law in self._laws]
        return np.stack(rows, axis=-1) if rows else np.zeros((*shape, 0))

    def drift(self, amounts: np.ndarray, time: float) -> np.ndarray:
        """Change of the amounts per time, shape [species].

        Raises a ModelError if a rate is not finite; the message names its reaction.
        """
        return self.changes @ self.finite(self.propensities(amounts, time), amounts, time)

    def parts(self, amounts: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Drift [species], its Jacobian and the diffusion [species, species]."""
        rates = self.finite(self.propensities(amounts, time), amounts, time)
        slopes = gradients(lambda n: self.propensities(n, time), amounts, self.floor)
        return self.changes @ rates, self.changes @ slopes.T, self.diffusion(rates)

    def diffusion(self, rates: np.ndarray) -> np.ndarray:
        """Diffusion [species, species] at these rates [reaction]."""
        return (self.noisy * np.maximum(rates, 0.0)) @ self.noisy.T

    def rules(self, amounts: np.ndarray, time: float) -> np.ndarray:
        """Values of all rules [..., rule] at amounts [..., species]."""
        known, shape = self.known(amounts, time), amounts.shape[:-1]
        rows = [np.broadcast_to(known[name], shape) for name in self.network.rules]
        return np.stack(rows, axis=-1)

    def finite(self, rates: np.ndarray, amounts: np.ndarray, time: float) -> np.ndarray:
        """The rates, which must be finite."""
        bad = np.flatnonzero(~np.isfinite(rates))
        if bad.size:
            names = [member.name for member in self.network.species]
            where = ", ".join(f"{name} = {n:g}" for name, n in zip(names, amounts, strict=True))
            raise ModelError(
                f"reaction '{self.network.reactions.name_of(int(bad[0]))}' has the rate "
                f"{rates[bad[0]]:g} at {where}, time {time:g}; expected a finite rate"
            )
        return rates


def _degree(tree: ast.expr, of: Set[str], varying: Set[str]) -> int:
    """Degree of a formula as a polynomial of the names `of`; -1 if it is none.

    Other names in `varying` make no polynomial.
    """
    if not varying & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
        return 0
    match tree:
        case ast.Name(name):
            return 1 if name in of else -1
        case ast.UnaryOp(_, operand):
            return _degree(operand, of, varying)
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() as operation, right):
            degrees = _degree(left, of, varying), _degree(right, of, varying)
            if min(degrees) < 0:
                return -1
            return sum(degrees) if isinstance(operation, ast.Mult) else max(degrees)
        case ast.BinOp(left, ast.Div(), right):
            names = {node.id for node in ast.walk(right) if isinstance(node, ast.Name)}
            return -1 if varying & names else _degree(left, of, varying)
        case ast.BinOp(left, ast.Pow(), ast.Constant(float(power))) if power in (1.0, 2.0, 3.0):
            degree = _degree(left, of, varying)
            return int(power) * degree if degree > 0 else degree
    return -1


def gradients(function: Any, amounts: np.ndarray, floor: float = 1.0) -> np.ndarray:
    """Derivatives [species, ...] of a function of amounts [state, species], by central differences.

    One-sided differences of second order are used where the lower amount would be negative.
    """
    step = _INCREMENT * np.maximum(np.abs(amounts), floor)
    down = np.where(amounts - step >= 0.0, -step, 2.0 * step)
    # The differences as they are after rounding.
    high, low = (amounts + step) - amounts, (amounts + down) - amounts
    count = amounts.size
    states = np.repeat(amounts[None], 2 * count + 1, axis=0)
    which = np.arange(count)
    states[1 + which, which] += step
    states[1 + count + which, which] += down
    values = function(states)
    there = values[1 : 1 + count] - values[0]
    other = values[1 + count :] - values[0]
    h, g = high[:, None], low[:, None]
    return (there * g / h - other * h / g) / (g - h)


def _refuse(network: ReactionNetwork) -> None:
    """Refuse what reactions alone do not describe."""
    remedy = "the linear noise approximation has none: use ergode.stochastic.simulate"
    if network.events:
        event = network.events[0]
        raise PlanError(f"the network has the event '{event.name or event.trigger.text}'; {remedy}")
    for name in network.rate_rules:
        raise PlanError(f"'{name}' has a rate rule; {remedy}")
    if network.reactions.delays:
        k = min(network.reactions.delays)
        raise PlanError(f"reaction '{network.reactions.name_of(k)}' has a delay; {remedy}")
