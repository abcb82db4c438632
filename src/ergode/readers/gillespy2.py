"""Reaction networks from models of GillesPy2."""

from __future__ import annotations

from typing import Any

from ergode.core.errors import ModelError
from ergode.models.expressions import TIME, Expression, number_or_expression
from ergode.models.reactions.events import Event
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Compartment, Species

_VOLUME = "vol"  # as GillesPy2 calls it in formulas
_TIME = "t"


def from_gillespy2(model: Any) -> ReactionNetwork:
    """The reaction network of a GillesPy2 model.

    Mass action keeps its rate constant, which GillesPy2 scales with the model's volume; a
    `propensity_function` is the whole rate. Rate rules and species in continuous mode make a hybrid
    model. Species in dynamic mode, whose amounts GillesPy2 may treat in either way, are discrete.

    Parameters
    ----------
    model : gillespy2.Model

    Returns
    -------
    ReactionNetwork

    Raises
    ------
    ModelError
        It has function definitions, species in other units than populations, or a formula that
        cannot be read; the message names it.

    Examples
    --------
    >>> import ergode, gillespy2  # doctest: +SKIP
    >>> network = ergode.from_gillespy2(gillespy2.example_models.create_michaelis_menten())
    ... # doctest: +SKIP
    """
    if model.listOfFunctionDefinitions:
        name = next(iter(model.listOfFunctionDefinitions))
        raise ModelError(f"function definition '{name}' of the GillesPy2 model is not supported")
    if model.units != "population":
        raise ModelError(f"units of the GillesPy2 model is '{model.units}'; expected 'population'")
    known = {*model.listOfSpecies, *model.listOfParameters}
    words = {} if _TIME in known else {_TIME: Expression(TIME)}

    def formula(text: Any, what: str) -> float | Expression:
        value = number_or_expression(str(text), what)
        return value.substitute(words) if isinstance(value, Expression) else value

    rules = {
        _name(rule.variable): formula(rule.formula, f"assignment rule '{rule.name}'")
        for rule in model.listOfAssignmentRules.values()
    }
    rates = {
        _name(rule.variable): formula(rule.formula, f"rate rule '{rule.name}'")
        for rule in model.listOfRateRules.values()
    }
    species = []
    for name, one in model.listOfSpecies.items():
        if name not in rules:
            species.append(
                Species(
                    name, float(one.initial_value), _VOLUME,
                    boundary=bool(one.boundary_condition), constant=bool(one.constant),
                )
            )  # fmt: skip
    reactions = []
    for name, one in model.listOfReactions.items():
        sides = [
            {_name(member): count for member, count in side.items() if _name(member) not in rules}
            for side in (one.reactants, one.products)
        ]
        if one.massaction and not any(_name(member) in rules for member in one.reactants):
            constant = formula(_name(one.marate), f"rate of reaction '{name}'")
            reactions.append(Reaction(*sides, rate_constant=constant, name=name))
        else:
            whole = formula(one.propensity_function, f"propensity of reaction '{name}'")
            reactions.append(Reaction(*sides, rate=whole, name=name))
    parameters = {
        name: formula(one.expression, f"parameter '{name}'")
        for name, one in model.listOfParameters.items()
        if name not in rules
    }
    events = [
        Event(
            formula(one.trigger.expression, f"trigger of event '{name}'"),  # type: ignore[arg-type]
            {
                _name(given.variable): formula(given.expression, f"event '{name}'")
                for given in one.assignments
            },
            formula(one.delay, f"delay of event '{name}'") if one.delay is not None else 0.0,
            formula(one.priority, f"priority of event '{name}'"),
            persistent=bool(one.trigger.persistent),
            initially_true=bool(one.trigger.value),
            values_from_trigger=bool(one.use_values_from_trigger_time),
            name=name,
        )
        for name, one in model.listOfEvents.items()
    ]
    return ReactionNetwork(
        species,
        reactions,
        parameters,
        [Compartment(_VOLUME, float(model.volume))],
        {name: str(rule) if isinstance(rule, float) else rule for name, rule in rules.items()},
        events,
        model.name,
        {name: str(rule) if isinstance(rule, float) else rule for name, rule in rates.items()},
        [name for name, one in model.listOfSpecies.items() if one.mode == "continuous"],
    )


def _name(thing: Any) -> str:
    return str(getattr(thing, "name", thing))
