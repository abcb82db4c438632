"""Conversion of amounts from moles, or another unit, to numbers of molecules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ergode.core.errors import ModelError
from ergode.models.expressions import Expression
from ergode.models.reactions.events import Event
from ergode.models.reactions.mass_action import deterministic
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import RateCoefficient
from ergode.models.reactions.reaction import Law, Reaction
from ergode.models.reactions.species import Species

SYSTEM_SIZE = "molecules_per_unit"
"""Name of the parameter that the conversion adds."""


def in_molecules(network: ReactionNetwork, molecules_per_unit: float) -> ReactionNetwork:
    """Convert a network to amounts in molecules.

    A deterministic model in nanomoles, say, becomes one for stochastic simulation. Rates follow
    the chemist's convention: ``k * A * A`` for two ``A`` is mass action, with the propensity
    n (n - 1). Initial amounts, and amounts that events assign, are rounded to whole molecules.
    Rules keep their unit.

    Parameters
    ----------
    network : ReactionNetwork
    molecules_per_unit : float
        Molecules in one unit of amount: 6.02214076e14 for nanomoles. It becomes a parameter of
        the network, which may be swept; a larger value is closer to the deterministic model.

    Returns
    -------
    ReactionNetwork

    Raises
    ------
    ModelError
        The number is not positive, the name of the parameter is taken, or a rate constant depends
        on conditions.

    References
    ----------
    D. T. Gillespie, J. Comput. Phys. 22, 403 (1976), section 2.

    Examples
    --------
    >>> import ergode
    >>> pairing = ergode.Reaction("2 A -> B", rate="k * A * A")
    >>> network = ergode.ReactionNetwork({"A": 0.5, "B": 0}, [pairing], parameters={"k": 2.0})
    >>> print(ergode.in_molecules(network, 1000).propensities())
    R1  2 A -> B  (k / molecules_per_unit) * A * (A - 1)
    """
    if not 0 < molecules_per_unit < math.inf:
        raise ModelError(
            f"molecules_per_unit is {molecules_per_unit!r}; expected a positive number"
        )
    if SYSTEM_SIZE in network.parameters:
        raise ModelError(f"the network is already in molecules: it has '{SYSTEM_SIZE}'")
    network = deterministic(network)
    species = {member.name: member for member in network.species}
    units = {name: Expression(f"{name} / {SYSTEM_SIZE}") for name in species if name.isidentifier()}
    return ReactionNetwork(
        [
            replace(one, initial=_whole(one.initial, one, real))
            for one, real in zip(network.species, network.is_continuous, strict=True)
        ],
        [_reaction(one, units) for one in network.reactions],
        {**network.parameters, SYSTEM_SIZE: float(molecules_per_unit)},
        network.compartments,
        {name: rule.substitute(units) for name, rule in network.rules.items()},
        [_event(one, network, units) for one in network.events],
        network.name,
        {name: _per_unit(name, rule, species, units) for name, rule in network.rate_rules.items()},
        network.continuous,
    )


def _per_unit(
    name: str, rule: Expression, species: Mapping[str, Species], units: Mapping[str, Expression]
) -> Expression:
    """A time derivative in molecules."""
    rule = rule.substitute(units)
    return Expression(f"({rule.text}) * {SYSTEM_SIZE}") if name in species else rule


def _whole(value: float | Expression, member: Species, real: bool) -> float | Expression:
    """An amount or concentration in the old unit, as one of whole molecules unless it is `real`."""
    if value == 0:
        return 0.0
    text = f"({value.text if isinstance(value, Expression) else repr(value)}) * {SYSTEM_SIZE}"
    if real:
        return Expression(text)
    if member.quantity == "concentration" and member.compartment is not None:
        place = member.compartment
        return Expression(f"floor({text} * {place} + 0.5) / {place}")
    return Expression(f"floor({text} + 0.5)")


def _reaction(reaction: Reaction, units: Mapping[str, Expression]) -> Reaction:
    value = reaction.value
    if isinstance(value, RateCoefficient):
        raise ModelError(
            f"the rate of reaction '{reaction.name}' depends on conditions; it cannot be put in "
            "molecules"
        )
    order = 0.0 if reaction.law == Law.RATE else sum(reaction.reactants.values())
    text = repr(value)
    if isinstance(value, Expression):
        text = value.substitute(units).text if reaction.law == Law.RATE else value.text
    if order != 1:
        by = SYSTEM_SIZE if order in (0, 2) else f"{SYSTEM_SIZE}^{abs(1 - order):g}"
        plain = text.isidentifier() or not isinstance(value, Expression)
        text = f"{text if plain else f'({text})'} {'*' if order < 1 else '/'} {by}"
    delay = reaction.delay
    if isinstance(delay, Expression):
        delay = delay.substitute(units)
    given: Any = {reaction.law.argument: text}
    return Reaction(
        reaction.reactants, reaction.products, name=reaction.name, delay=delay,
        consuming=reaction.consuming, **given,
    )  # fmt: skip


def _event(event: Event, network: ReactionNetwork, units: Mapping[str, Expression]) -> Event:
    index = network.index

    def put(value: float | Expression) -> float | Expression:
        return value.substitute(units) if isinstance(value, Expression) else value

    assigned = {name: put(value) for name, value in event.assignments.items()}
    assignments = {
        name: _whole(value, network.species[index[name]], bool(network.is_continuous[index[name]]))
        if name in index
        else value
        for name, value in assigned.items()
    }
    return replace(
        event,
        trigger=event.trigger.substitute(units),
        assignments=assignments,
        delay=put(event.delay),
        priority=None if event.priority is None else put(event.priority),
    )
