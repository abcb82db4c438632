"""Sweeps of a network's parameters: every point has its own zones.

Parameters enter rate constants and initial amounts. The structure of the network is fixed, so one
launch integrates all points: each zone has its own prefactors (`ConditionHistory.factors`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.calls.divide import Axis, alone
from ergode.core.calls.launch import check_room
from ergode.core.errors import ModelError, PlanError
from ergode.kinetics.conditions import Zones, own_amounts, zones_of
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.over_time import Trajectory
from ergode.kinetics.pistons import Piston
from ergode.kinetics.reactors import PlugFlow, StirredTank
from ergode.kinetics.tolerances import tolerances_of
from ergode.kinetics.walls import Wall
from ergode.models.cut import axis_of_values
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import POINT, Grid, Layout, lay_out

_EXCHANGE = StirredTank, PlugFlow, Wall, Piston
"""Records that have values by zone, and parts."""


def layout_of(
    network: ReactionNetwork,
    parameters: Mapping[str, Any] | None,
    initial: Any,
    reserved: Collection[str],
) -> Layout | None:
    """The points of a sweep; None if nothing is swept.

    `reserved` are names of the result, which a swept parameter must not have.

    Raises a ModelError if a name is not a parameter of the network, or a value is invalid.
    """
    amounts = initial if isinstance(initial, Grid) else {}
    if parameters is None and not amounts:
        return None
    given: Any = {} if parameters is None else parameters
    if not isinstance(given, Mapping):
        raise ModelError(
            f"parameters is {type(given).__name__}; expected a mapping of names to values"
        )
    for name in given:
        if name not in network.parameters:
            known = ", ".join(network.parameters) or "none"
            hint = did_you_mean(name, network.parameters)
            raise ModelError(
                f"parameters has '{name}', which the network does not have; it has {known}{hint}"
            )
    every = {"parameters": given, "initial": amounts}
    names = {argument: list(mapping) for argument, mapping in every.items()}
    return lay_out(names, every, reserved=reserved, along=POINT, owner="the network")


def parted(
    network: ReactionNetwork, parameters: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """The parameters that are constant, and those that change in time.

    Raises a ModelError if a parameter that changes in time is unknown, or enters an initial amount.
    """
    if not isinstance(parameters, Mapping) or isinstance(parameters, Grid):
        return parameters, {}
    drives = {k: v for k, v in parameters.items() if isinstance(v, Trajectory) or callable(v)}
    if not drives:
        return parameters, {}
    for name in drives:
        if name not in network.parameters:
            hint = did_you_mean(name, network.parameters)
            raise ModelError(f"parameters has '{name}', which the network does not have{hint}")
    moving = set(drives)
    for name in network.parameter_order:
        value = network.parameters.get(name)
        if isinstance(value, Expression) and value.names & moving:
            moving.add(name)
    for one in network.species:
        if isinstance(one.initial, Expression) and one.initial.names & moving:
            name = min(one.initial.names & moving)
            raise ModelError(
                f"the parameter '{name}' changes in time, and the initial amount of '{one.name}' "
                "depends on it; give the amount as initial"
            )
    return {k: v for k, v in parameters.items() if k not in drives} or None, drives


ROWS = {"parameters": POINT, "rate_factors": POINT} | dict.fromkeys(
    (
        "initial", "temperature", "density", "pressure", "volume", "sunlight", "reactor", "wall",
        "rtol", "atol",
    ),
    "zone",
)  # fmt: skip
"""Arguments that may have a value for each point or zone."""


def axis_of(arguments: Mapping[str, Any]) -> Axis:
    """The slowest dim of a checked call: points of a sweep, or zones.

    Raises a PlanError if a condition is a function of time that differs between zones: its knots
    are common to all.
    """
    initial, factors, reactor = (arguments[name] for name in ("initial", "rate_factors", "reactor"))
    if np.ndim(factors) > 1:
        rows = np.asarray(factors)
        return Axis(POINT, range(len(rows)), lambda start, stop: {"rate_factors": rows[start:stop]})
    parameters, drives = parted(arguments["network"], arguments["parameters"])
    given = {"parameters": parameters, "initial": initial if isinstance(initial, Grid) else None}
    found = axis_of_values(given, POINT)
    if found is not None:
        return found
    if isinstance(reactor, StirredTank) and reactor.tank_count > 1:
        return alone({})
    conditions: dict[str, Any] = {}
    sizes = []
    quantities = "temperature", "density", "pressure", "volume", "sunlight"
    named = {name: arguments[name] for name in quantities}
    exchange = {name: arguments[name] for name in ("reactor", "wall", "volume")}
    exchange = {k: one for k, one in exchange.items() if isinstance(one, _EXCHANGE)}
    named = {name: value for name, value in named.items() if name not in exchange}
    walls = arguments["wall"].over_time if arguments["wall"] is not None else {}
    for name, value in walls.items():
        _refuse_rows(name, value, arguments["times"])
    for name, value in (named | drives).items():
        if isinstance(value, Trajectory):
            sizes.append(np.atleast_2d(value.values).shape[0])
        elif callable(value):
            _refuse_rows(name, value, arguments["times"])
            continue
        elif value is not None:
            sizes.append(np.size(value))
        else:
            continue
        if sizes[-1] > 1:
            conditions[name] = value
    amounts = {} if isinstance(initial, Grid) or initial is None else initial
    for one in exchange.values():
        sizes += one.sizes.values()
    tolerances = tolerances_of(arguments["network"], arguments["rtol"], arguments["atol"])
    sizes += tolerances.sizes.values()
    sizes += [np.size(value) for value in amounts.values()]

    def cut(start: int, stop: int) -> dict[str, Any]:
        changed: dict[str, Any] = {k: one.part(start, stop) for k, one in exchange.items()}
        if tolerances.by_zone:
            changed |= _tolerances_of_part(arguments, start, stop)
        for name, value in conditions.items():
            if name in drives:
                part = Trajectory(value.times, value.values[start:stop])
                changed["parameters"] = changed.get("parameters", arguments["parameters"]) | {
                    name: part
                }
            elif isinstance(value, Trajectory):
                changed[name] = Trajectory(value.times, value.values[start:stop])
            else:
                changed[name] = np.asarray(value)[start:stop]
        if any(np.size(value) > 1 for value in amounts.values()):
            changed["initial"] = {
                name: np.asarray(value)[start:stop] if np.size(value) > 1 else value
                for name, value in amounts.items()
            }
        return changed

    return Axis("zone", range(max([1, *sizes])), cut)


def _refuse_rows(name: str, value: Any, times: Any) -> None:
    """Refuse to divide a function of time for each zone: its knots are common to all."""
    if callable(value) and np.size(value(float(np.ravel(times)[0]))) > 1:
        raise PlanError(
            f"executor, store and chunk: {name} is a function of time for each zone, whose "
            "zones are tabulated together; give a Trajectory"
        )


def _tolerances_of_part(arguments: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Arguments `rtol` and `atol` of some of the zones."""

    def cut(value: Any, axes: int) -> Any:
        several = np.ndim(value) == axes and len(value) > 1
        return np.asarray(value)[start:stop] if several else value

    rtol, atol = cut(arguments["rtol"], 1), arguments["atol"]
    if isinstance(atol, Mapping):
        return {"rtol": rtol, "atol": {name: cut(value, 1) for name, value in atol.items()}}
    return {"rtol": rtol, "atol": cut(atol, 2)}


def swept_zones(
    network: ReactionNetwork,
    mechanism: Mechanism,
    layout: Layout,
    initial: Any,  # amounts, as the user gave them
    conditions: Mapping[str, Any],  # other arguments of `zones_of`
) -> tuple[Zones, dict[str, np.ndarray]]:
    """Zones of all points, point by point, and the parameters of each zone.

    Raises
    ------
    ModelError
        See `zones_of`; or amounts are swept although a point has several zones.
    """
    points = layout.count
    each = len(network.species) + mechanism.rates.prefactor.size + len(layout.rows)
    check_room(
        16 * points * each, f"an array for the zones of {points:,} points", "sweep fewer values"
    )
    rows = {
        name: np.ascontiguousarray(row)
        for name, row in layout.rows.items()
        if name in network.parameters
    }
    first = {name: row[:1] for name, row in rows.items()}
    crossed = isinstance(initial, Grid)
    amounts: Any = {name: layout.rows[name] for name in initial} if crossed else initial
    begin: Any = {name: row[:1] for name, row in amounts.items()} if crossed else initial
    zones = zones_of(network, mechanism, initial=begin, parameters=first, **conditions)
    count = zones.count
    if points > 1 and (crossed or any(a.size > 1 for a in own_amounts(network, rows))):
        if count > 1:
            raise ModelError(
                f"initial amounts are swept, and each point has {count} zones; expected one zone, "
                "or equal amounts at all points"
            )
        zones = zones_of(network, mechanism, initial=amounts, parameters=rows, **conditions)
    if zones.count != points * count:
        history = zones.history
        zones = replace(
            zones,
            count=points * count,
            amounts=np.tile(zones.amounts, (points, 1)),
            history=history._replace(
                **{name: np.tile(array, (points, 1)) for name, array in history.rows().items()}
            ),
        )
    if mechanism.has_formulas:
        values = network.evaluate_parameters(rows)
        used = [
            np.broadcast_to(values[name], points) for name in mechanism.rates.formulas.parameters
        ]
        table = np.array(used, np.float64).reshape(-1, points).T
        zones = replace(
            zones, history=zones.history._replace(parameters=np.repeat(table, count, axis=0))
        )
    factors = np.repeat(factors_of(network, mechanism, rows, points), count, axis=0)
    values = {name: np.repeat(row, count) for name, row in rows.items()}
    return replace(zones, history=zones.history._replace(factors=factors)), values


def factors_of(
    network: ReactionNetwork, mechanism: Mechanism, rows: Mapping[str, np.ndarray], points: int
) -> np.ndarray:
    """`Rates.prefactor` at every point, shape [point_count, set_count].

    Raises a ModelError if a rate constant is negative or not a finite number at some point.
    """
    rates = mechanism.rates
    found = np.tile(rates.prefactor, (points, 1))
    values = network.evaluate_parameters(rows)
    formulas = set(rates.formulas.reaction.tolist())
    for k, rate in network.reactions.formulas.items():
        if not isinstance(rate, Expression) or k in formulas:
            continue
        constants = np.broadcast_to(np.asarray(rate.evaluate(values), np.float64), points)
        bad = np.flatnonzero(~(np.isfinite(constants) & (constants >= 0.0)))
        if bad.size:
            raise ModelError(
                f"the rate constant of reaction '{network.reactions.name_of(k)}' is "
                f"{constants[bad[0]]} at point {bad[0]}; expected finite numbers, 0 or more"
            )
        # A rate constant is stored as one exponential, exp(0), times its prefactor.
        found[:, rates.slot_start[k]] = constants
    return found
