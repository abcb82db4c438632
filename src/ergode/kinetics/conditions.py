"""The conditions of zones as a user gives them: temperature, density, pressure, composition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.arguments import choice
from ergode.core.calls.launch import check_room, warn
from ergode.core.errors import AccuracyWarning, ModelError
from ergode.core.words import counted
from ergode.kinetics.compositions import (
    by_zone,
    check_no_surface,
    check_signs,
    composition_of,
    molar_masses,
    on_surface,
)
from ergode.kinetics.compression import given_over_time
from ergode.kinetics.feeds import feed_of, feed_rows, mass_of
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.over_time import Trajectory, linear_at, tabulated
from ergode.kinetics.pistons import Piston
from ergode.kinetics.reactors import Given, PlugFlow, StirredTank
from ergode.kinetics.tables import (
    CHANGING,
    CLOSED,
    FIXED,
    NO_WALL,
    PLUG,
    PRESSURE,
    STEADY,
    STILL,
    STIRRED,
    VOLUME,
    ConditionHistory,
)
from ergode.kinetics.walls import COEFFICIENT, Wall
from ergode.models.constants import GAS_CONSTANT, RADIATION
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork

_DENSEST_GAS = 1e10  # [dyn/cm2]; a larger pressure of a gas is taken for a mistaken unit
_SUM_TOLERANCE = 1e-3
_ROUNDING = 1e-15  # of functions that were tabulated with a shift, relative to the shift
_SAMPLED = 257  # times at which the size of a parameter is found

_MASS, _INFLOW = "mass in the tank", "inflow"

ISOTHERMAL = "isothermal-constant-pressure"
HEATING = {None: FIXED, "constant-volume": VOLUME, "constant-pressure": PRESSURE}
GIVEN = {"given-volume": "volume", "given-pressure": "pressure"}
_MODES = HEATING | {ISOTHERMAL: PRESSURE, "given-volume": VOLUME, "given-pressure": PRESSURE}


@dataclass(frozen=True, eq=False)
class Zones:
    """Checked conditions of all zones, as kernels take them."""

    count: int
    history: ConditionHistory
    # [zone_count, variable_count]: specific amounts at the start [mol/g], and the temperature where
    # it is a variable.
    amounts: np.ndarray
    heating: int
    has_temperature: bool  # whether a temperature was given
    flow: int = CLOSED  # `CLOSED`, `STIRRED` or `PLUG`
    # Whether the temperature is constant, although `heating` is `PRESSURE`.
    isothermal: bool = False
    tank_count: int = 1  # a chain is this number of successive zones
    piston: Piston | None = None  # that moves by the pressure

    @property
    def is_compressed(self) -> bool:
        """Whether volume or pressure change by themselves, and the zone heats itself."""
        return not isinstance(self.history.compression, tuple) or self.moving != STILL

    @property
    def is_fed(self) -> bool:
        """Whether what flows into a stirred tank changes in time."""
        return not isinstance(self.history.feed, tuple)

    @property
    def moving(self) -> int:
        """Whether the volume follows from the pressure: `STILL`, `MOBILE` or `INERT`."""
        return STILL if self.piston is None else self.piston.moving

    @property
    def is_diluted(self) -> bool:
        """Whether concentrations are not the amounts: of molecules whose volume or mass changes."""
        return self.is_compressed or (self.flow == STIRRED and self.history.times.size > 1)

    @property
    def walled(self) -> int:
        """Whether heat passes through a wall: `NO_WALL`, `STEADY` or `CHANGING`."""
        if isinstance(self.history.wall, tuple):
            return NO_WALL
        return STEADY if self.history.wall.shape[1] == 2 else CHANGING

    @property
    def is_walled(self) -> bool:
        """Whether heat passes through a wall."""
        return self.walled != NO_WALL


def zones_of(
    network: ReactionNetwork,
    mechanism: Mechanism,
    *,
    temperature: Any,
    density: Any,
    pressure: Any,
    volume: Any = None,
    initial: Mapping[str, Any] | None,
    heating: str | None,
    grid: np.ndarray | None = None,
    rtol: float = 1e-4,
    parameters: Mapping[str, np.ndarray] | None = None,
    reactor: StirredTank | PlugFlow | None = None,
    wall: Wall | None = None,
    sunlight: Any = None,
    tolerance_sizes: Mapping[str, int] | None = None,
    drives: Mapping[str, Any] | None = None,
) -> Zones:
    """Check conditions and bring them to one shape.

    `grid` holds the times of the result. Conditions that change are followed from the first of
    these times to the last; without `grid` they keep their first values. Functions of time are
    tabulated within a hundredth of `rtol`. `parameters` replace values of the network, one value
    or one for each zone; initial amounts may depend on them. Without a `reactor` the zones are
    closed. `tolerance_sizes` has the number of values of each tolerance. `drives` are parameters
    that change in time, those of `mechanism`.

    Raises a ModelError if a value is missing, of the wrong shape or sign, or not finite; a species
    is unknown.
    """
    choice("heating", heating, _MODES, error=ModelError)
    isothermal, mode, given = heating == ISOTHERMAL, _MODES[heating], GIVEN.get(heating or "")
    rows = composition_of(network, initial) if initial is not None else {}
    if initial is None or not (mechanism.nuclear or mechanism.molecular):
        for i, amount in enumerate(own_amounts(network, parameters)):
            rows.setdefault(i, amount * (mechanism.mass[i] if initial is None else 1.0))
    named = {
        "temperature": temperature, "density": density, "pressure": pressure, "sunlight": sunlight,
        "volume": volume,
    }  # fmt: skip
    squeezed, piston = None, volume if isinstance(volume, Piston) else None
    if piston is not None:
        _check_piston(heating, reactor)
        named["volume"] = given = None
    if given and named[given] is not None and grid is not None:
        squeezed = given_over_time(given, named[given], grid, rtol)
    histories: dict[str, Any] = {
        name: squeezed[:2] if squeezed and name == given else _values(name, value, grid, rtol)
        for name, value in named.items()
        if value is not None
    }
    _check_given(mechanism, histories, heating, has_piston=piston is not None)
    if reactor is not None:
        check_no_surface(network, "reactor is given")
    if mode == PRESSURE or given or piston is not None:
        check_no_surface(network, f"heating is {heating!r}")
    if given and isinstance(reactor, PlugFlow):
        raise ModelError(f"heating is {heating!r}, and the reactor a PlugFlow; expected a tank")
    if isinstance(wall, Wall):
        for name, value in wall.over_time.items():
            histories[name] = _values(name, value, grid, rtol)
    for name, value in (drives or {}).items():
        histories[_driven(name)] = _values(_driven(name), value, grid, rtol)
    sizes = {name: value.shape[0] for name, (_, value) in histories.items()}
    sizes |= {f"initial '{network.species[i].name}'": row.size for i, row in rows.items()}
    if reactor is not None:
        sizes |= reactor.sizes
    if wall is not None:
        _check_wall(mechanism, mode, isothermal, reactor)
        sizes |= wall.sizes
    if piston is not None:
        sizes |= piston.sizes
    sizes |= tolerance_sizes or {}
    tanks = reactor.tank_count if isinstance(reactor, StirredTank) else 1
    if tanks > max(sizes.values(), default=1):
        sizes["tank_count"] = tanks
    count = max([tanks, *sizes.values()])
    for name, size in sizes.items():
        if size not in (1, count):
            longest = max(sizes, key=lambda key: sizes[key])
            raise ModelError(
                f"{name} has {counted(size, 'value')} and {longest} has {count}; expected one for "
                "all zones, or one for each"
            )
    if count % tanks:
        longest = max(sizes, key=lambda key: sizes[key])
        raise ModelError(
            f"tank_count is {tanks}, and {longest} has {counted(count, 'value')}; expected a "
            "multiple of tank_count: one value for each tank of each chain"
        )
    about = Given("density" in histories, mode, isothermal)
    gathered = feed = None
    if isinstance(reactor, StirredTank) and grid is not None:
        if reactor.changes:
            feed = feed_of(reactor, network, mechanism, grid, rtol, about)
            histories[_INFLOW] = feed.times, feed.columns[:1, 0]
        if reactor.growth.any():
            gathered = mass_of(reactor, feed, grid, rtol, mechanism.molecular and mode == VOLUME)
            histories[_MASS] = gathered[:2]
    times = _common_times(histories, grid)
    if times.size == 1 and grid is not None and mechanism.needs("time"):
        times = np.array([grid[0], grid[-1]])
    if tanks > 1 and times.size > 1:
        raise ModelError(
            f"tank_count is {tanks}, and a condition, parameter or coefficient changes in time; "
            "expected constant ones in connected tanks"
        )
    check_room(
        8 * count * (3 * len(network.species) + (5 + len(drives or {})) * times.size),
        f"an array of conditions of {count:,} zones at {times.size:,} knots",
        "use fewer zones",
    )
    amounts = np.zeros((count, len(network.species)))
    for i, row in rows.items():
        amounts[:, i] = row
    empty = np.flatnonzero(~(amounts.sum(axis=1) > 0))
    if empty.size and (mechanism.nuclear or mechanism.molecular):
        raise ModelError(f"initial is empty in zone {empty[0]}; expected at least one species")
    hot = _on_grid(histories.get("temperature"), times, count, 1e9)
    dense = np.ones((count, times.size))
    if mechanism.nuclear:
        dense = _on_grid(histories["density"], times, count, 1.0)
        if given:  # only ratios matter: the pressure at the start follows from the density
            ratio = _on_grid(histories[given], times, count, 1.0)
            dense = dense * (ratio / ratio[:, :1])
        _check_sum(amounts)
        amounts /= mechanism.mass
    elif mechanism.molecular:
        dense = _gas(network, histories, times, count, hot, amounts)
        push = dense[:, 0].copy()
        if given:
            dense = _on_grid(histories[given], times, count, 1.0)
        elif mode != PRESSURE:
            dense = np.ones((count, times.size))
        if gathered and mode != PRESSURE:
            dense = dense * _on_grid(gathered[:2], times, count, 1.0)
    history, flow = ConditionHistory(times, hot, dense), CLOSED
    denser = gathered if mechanism.molecular and mode == VOLUME else None
    if squeezed or denser:
        tables = [(one[0], one[2]) for one in (squeezed, denser) if one]
        slopes = np.sum([_on_grid(one, times, count, 0.0) for one in tables], axis=0)
        history = history._replace(compression=np.c_[slopes, np.abs(slopes).max(axis=1)])
    if wall is not None and not wall.is_insulated:
        changing = {name: _on_grid(histories[name], times, count, 0.0) for name in wall.over_time}
        history = history._replace(wall=wall.rows(count, changing))
    if mechanism.has_sunlight:
        light = _on_grid(histories["sunlight"], times, count, 1.0)
        brightest = light.max(axis=1, keepdims=True)
        history = history._replace(sunlight=np.concatenate([light, brightest], axis=1))
    if mechanism.has_formulas:
        history = history._replace(
            **_formula_inputs(network, mechanism, histories, times, count, parameters, drives or {})
        )
    if reactor is not None:
        flow, at_first = reactor.flow, reactor
        if isinstance(reactor, StirredTank) and feed is not None:
            at_first = reactor.at_first(times[:1])
        inflow = at_first.rows(network, mechanism, amounts, about)
        if feed is not None:
            inflow, table = feed_rows(feed, network, mechanism, times, amounts, inflow)
            history = history._replace(feed=table)
        history = history._replace(inflow=inflow)
    if mode != FIXED:
        amounts = np.concatenate([amounts, hot[:, :1]], axis=1)
    if piston is not None:
        if mechanism.nuclear:  # a scale of the pressure
            push = GAS_CONSTANT * hot[:, 0] * dense[:, 0] * amounts[:, :-1].sum(axis=1)
            push = push + RADIATION / 3.0 * hot[:, 0] ** 4
        motion, variables = piston.rows(push)
        history = history._replace(motion=motion)
        amounts = np.concatenate([amounts, variables], axis=1)
    if flow == PLUG:
        amounts = np.concatenate([amounts, np.zeros((count, 1))], axis=1)
    return Zones(
        count, history, np.ascontiguousarray(amounts), mode, "temperature" in histories, flow,
        isothermal, tanks, piston,
    )  # fmt: skip


def _check_piston(heating: str | None, reactor: Any) -> None:
    if heating != "given-volume":
        raise ModelError("volume is a Piston; it is for heating='given-volume'")
    if reactor is not None:
        raise ModelError("volume is a Piston, and a reactor is given; expected a closed zone")


def _check_wall(mechanism: Mechanism, mode: int, isothermal: bool, reactor: Any) -> None:
    if not mechanism.molecular or mode == FIXED or isothermal:
        raise ModelError("wall is for molecules that heat themselves; expected heating")
    if isinstance(reactor, PlugFlow):
        raise ModelError("wall is not possible with PlugFlow; leave one of them out")


def _driven(name: str) -> str:
    return f"parameter '{name}'"


def _formula_inputs(
    network: ReactionNetwork,
    mechanism: Mechanism,
    histories: Mapping[str, Any],
    times: np.ndarray,
    count: int,
    parameters: Mapping[str, np.ndarray] | None,
    drives: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """What formulas of coefficients read (see `ConditionHistory`)."""
    values = network.evaluate_parameters(parameters)
    names = mechanism.rates.formulas.parameters
    rows = [np.broadcast_to(np.asarray(values[name], np.float64), count) for name in names]
    found = np.array(rows, np.float64).reshape(len(names), count).T.copy()
    every = [_on_grid(histories[_driven(name)], times, count, 0.0) for name in drives]
    every = [np.c_[one, np.abs(one).max(axis=1)] for one in every]
    return {"parameters": found, "drives": np.hstack([np.empty((count, 0)), *every])}


def own_amounts(
    network: ReactionNetwork, parameters: Mapping[str, np.ndarray] | None
) -> list[np.ndarray]:
    """The network's initial amount of each species, shape [1] or that of the parameters."""
    values = network.evaluate_parameters(parameters)
    given = (one.initial for one in network.species)
    numbers = (one.evaluate(values) if isinstance(one, Expression) else one for one in given)
    return [np.atleast_1d(np.asarray(one, np.float64)) for one in numbers]


def _check_sum(fractions: np.ndarray) -> None:
    apart = np.abs(fractions.sum(axis=1) - 1.0)
    if apart.max() > _SUM_TOLERANCE:
        zone = int(np.argmax(apart))
        warn(
            f"mass fractions add up to {fractions[zone].sum():g} in zone {zone}; expected 1",
            AccuracyWarning,
        )


def _gas(
    network: ReactionNetwork,
    histories: Mapping[str, Any],
    times: np.ndarray,
    count: int,
    hot: np.ndarray,
    amounts: np.ndarray,
) -> np.ndarray:
    """Make concentrations of `amounts`, in place; returns the pressure [dyn/cm2]."""
    there = on_surface(network)
    if there.any():
        sites = _coverages(network, there, amounts)
        amounts[:, there] = 0.0
        bare = np.flatnonzero(~(amounts.sum(axis=1) > 0.0))
        if bare.size and histories.keys() & {"pressure", "density"}:
            raise ModelError(
                f"initial has no species of the gas in zone {bare[0]}; expected at least one, or "
                "neither pressure nor density"
            )
        total = _gas_only(network, histories, times, count, hot, amounts)
        amounts[:, there] = sites
        return total
    return _gas_only(network, histories, times, count, hot, amounts)


def _coverages(network: ReactionNetwork, there: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Concentrations of species on a surface, whose amounts are coverages in any unit."""
    known: list[Any] = [one.thermochemistry for one in network.species]
    covered = amounts[:, there]
    total = covered.sum(axis=1, keepdims=True)
    empty = np.flatnonzero(~(total[:, 0] > 0.0))
    if empty.size:
        raise ModelError(
            f"initial has no species on the surface in zone {empty[0]}; expected coverages, such "
            f"as {{'{network.species[int(np.argmax(there))].name}': 1.0}}"
        )
    full = [one.full_coverage for one, on in zip(known, there, strict=True) if on]
    return np.asarray(covered / total * np.array(full))


def _gas_only(
    network: ReactionNetwork,
    histories: Mapping[str, Any],
    times: np.ndarray,
    count: int,
    hot: np.ndarray,
    amounts: np.ndarray,
) -> np.ndarray:
    if "pressure" in histories:
        pressure = _on_grid(histories["pressure"], times, count, 1.0)
        amounts /= amounts.sum(axis=1, keepdims=True)
        amounts *= pressure[:, :1] / (GAS_CONSTANT * hot[:, :1])
    elif "density" in histories:
        amounts /= amounts.sum(axis=1, keepdims=True)
        mass = molar_masses(network)
        mass[mass == 0.0] = 1.0  # on a surface
        amounts *= _on_grid(histories["density"], times, count, 1.0)[:, :1] / mass
    total = amounts.sum(axis=1, keepdims=True) * GAS_CONSTANT * hot[:, :1]
    if not histories.keys() & {"pressure", "density"} and total.max() > _DENSEST_GAS:
        warn(
            "initial has concentrations [mol/cm3], because neither pressure nor density is given; "
            f"they are a gas of {total.max():.1e} dyn/cm2. Give pressure for mole fractions, or "
            "density for mass fractions",
            AccuracyWarning,
        )
    return np.repeat(total, times.size, axis=1)


def _check_given(
    mechanism: Mechanism, histories: Mapping[str, Any], heating: str | None, *, has_piston: bool
) -> None:
    if heating and not (mechanism.nuclear or mechanism.molecular):
        raise ModelError(
            f"heating is {heating!r}, but the species are neither nuclei nor molecules with NASA "
            "polynomials"
        )
    if heating == ISOTHERMAL and not mechanism.molecular:
        raise ModelError(f"heating is {heating!r}; expected molecules with NASA polynomials")
    given = None if has_piston else GIVEN.get(heating or "")
    if given and given not in histories:
        raise ModelError(f"{given} is not given, and heating is {heating!r}")
    if "volume" in histories and given != "volume":
        raise ModelError("volume is given; it is for heating='given-volume'")
    rates = mechanism.rates
    needs = rates.parameters[1:].any() or rates.reverse.size or rates.third_body_number.size
    needs = needs or mechanism.has_plasma
    needs = needs or mechanism.needs("temperature") or mechanism.needs("pressure")
    if "temperature" not in histories and (needs or heating):
        raise ModelError("temperature is not given, but coefficients of the network depend on it")
    if mechanism.nuclear:
        if "density" not in histories:
            raise ModelError("density is not given; a network of nuclei needs it [g/cm3]")
        if "pressure" in histories and given != "pressure":
            raise ModelError("pressure is for networks of molecules; nuclei have a density")
    elif not mechanism.molecular:
        for name in ("density", "pressure"):
            if name in histories:
                raise ModelError(
                    f"{name} is given, but the species are neither nuclei nor molecules with NASA "
                    "polynomials: their amounts are concentrations"
                )
    elif "density" in histories and "pressure" in histories:
        raise ModelError("density and pressure are given; one follows from the other")
    if ("sunlight" in histories) != mechanism.has_sunlight:
        raise ModelError(
            "sunlight is not given, but a coefficient depends on it"
            if mechanism.has_sunlight
            else "sunlight is given, but no coefficient depends on it"
        )
    for name, (times, _) in histories.items():
        if name in ("sunlight", given):
            continue
        if times is not None and (heating or (name != "temperature" and mechanism.molecular)):
            more = "; use heating='given-pressure'" if name == "pressure" else ""
            raise ModelError(f"{name} is a Trajectory, but here the reactions determine it{more}")


def _values(
    name: str, value: Any, grid: np.ndarray | None, rtol: float
) -> tuple[np.ndarray | None, np.ndarray]:
    """Times, or None, and values [zone, point], all positive.

    The sunlight may be zero; a parameter may have any sign.
    """
    dark, free = name == "sunlight", name.startswith("parameter")
    level = free or name == COEFFICIENT
    times = None
    if isinstance(value, Trajectory):
        times, rows = value.times, np.atleast_2d(value.values)
    elif callable(value):
        if grid is None:
            raise ModelError(f"{name} is a function of time; expected its value at one time")
        # Small values of the sunlight are as accurate as those of about one.
        shift = 1.0 if dark else 0.0
        if level:  # as accurate as the largest value
            seen = [value(float(t)) for t in np.linspace(grid[0], grid[-1], _SAMPLED)]
            shift = 2.0 * float(np.abs(np.asarray(seen, np.float64)).max()) or 1.0
        times, rows = tabulated(
            name, lambda t: np.asarray(value(t), np.float64) + shift, grid, 0.01 * rtol
        )
        rows -= shift
        if shift:
            rows[np.abs(rows) < _ROUNDING * shift] = 0.0
    else:
        rows = by_zone(name, value, ", a Trajectory or a function of time")[:, None]
    if free:
        if not np.isfinite(rows).all():
            zone, point = np.argwhere(~np.isfinite(rows))[0]
            raise ModelError(
                f"{name} is {rows[zone, point]} in zone {zone}; expected finite numbers"
            )
    else:
        check_signs(name, rows, may_vanish=dark or name == COEFFICIENT)
    return times, rows


def _common_times(histories: Mapping[str, Any], grid: np.ndarray | None) -> np.ndarray:
    """Knots of all histories, from the first to the last time of the grid."""
    knots = [times for times, _ in histories.values() if times is not None]
    if not knots:
        return np.zeros(1)
    every = np.unique(np.concatenate(knots))
    if grid is None:
        return every
    inside = every[(every > grid[0]) & (every < grid[-1])]
    return np.concatenate([grid[:1], inside, grid[-1:]])


def _on_grid(history: Any, times: np.ndarray, count: int, default: float) -> np.ndarray:
    """Values [zone, point] on common times."""
    if history is None:
        return np.full((count, times.size), default)
    own, rows = history
    if own is not None:
        rows = linear_at(times, own, rows)
    # A copy of one layout: for read-only arrays, and for other layouts, code is compiled anew.
    return np.array(np.broadcast_to(rows, (count, times.size)), order="C")
