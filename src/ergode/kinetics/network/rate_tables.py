"""From the laws of coefficients to flat tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError
from ergode.kinetics.compositions import on_surface
from ergode.kinetics.network.composed_tables import ComposedGatherer
from ergode.kinetics.network.formulas import FormulaGatherer, Sum
from ergode.kinetics.network.mechanism import reactants_of
from ergode.kinetics.physics.screening import NONE
from ergode.kinetics.physics.third_bodies import (
    ACTIVATED,
    BLOWERS_MASEL,
    CHEBYSHEV,
    LINDEMANN,
    LOGARITHMIC,
    MIXTURE,
    PLAIN,
    SRI,
    TROE,
)
from ergode.kinetics.tables import Plasma, Rates
from ergode.models.expressions import Expression
from ergode.models.reactions.composed_rates import Branching, Tabulated
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rate_expression import RateExpression
from ergode.models.reactions.rates import (
    Arrhenius,
    BlowersMasel,
    Chebyshev,
    DetailedBalance,
    Falloff,
    LinearBurke,
    Photolysis,
    PowerLaw,
    PressureLog,
    Reaclib,
    TemperatureFit,
    ThreeBody,
    WeakTable,
)
from ergode.models.reactions.reaction import Law
from ergode.models.reactions.thermochemistry import Molecule

_FallingOff = Falloff | PressureLog | Chebyshev
_Dependent = ThreeBody | _FallingOff | BlowersMasel | LinearBurke


class _Slots:
    """Gathers exponentials by slot."""

    def __init__(self, count: int) -> None:
        self.items: list[list[tuple[float, tuple[float, ...]]]] = [[] for _ in range(count)]

    def add(self, slot: int, rate: Reaclib | Arrhenius | TemperatureFit | float) -> None:
        if isinstance(rate, TemperatureFit):
            self.items[slot] += zip(rate.factors, rate.sets, strict=True)
        elif isinstance(rate, Reaclib):
            self.items[slot] += [(rate.prefactor, one) for one in rate.sets]
        elif isinstance(rate, Arrhenius):
            nine = math.log(1e9)
            b, activation = rate.exponent, rate.activation_temperature
            parameters = (b * nine, -activation * 1e-9, 0.0, 0.0, 0.0, 0.0, b)
            self.items[slot].append((rate.factor, parameters))
        else:
            self.items[slot].append((float(rate), (0.0,) * 7))

    def another(self) -> int:
        self.items.append([])
        return len(self.items) - 1


def rates_of(
    network: ReactionNetwork,  # of deterministic mass action
    orders: Sequence[Mapping[int, float]],  # orders of every reaction in species
    net: Sequence[Mapping[int, float]],  # net change of species by each reaction
    screening: int,  # `NONE`, `WEAK` or `CHUGUNOV`
    driven: tuple[str, ...] = (),  # parameters that change in time
) -> Rates:
    """Tables of the coefficients of a network.

    Raises a ModelError if a coefficient is not supported; the message names the reaction.
    """
    table = network.reactions
    values: dict[str, Any] = {}
    slots = _Slots(len(table))
    third_bodies = _ThirdBodies()
    formulas = FormulaGatherer(network, driven)
    composed = ComposedGatherer(slots.add, slots.another)
    weak: dict[int, WeakTable] = {}
    captures: list[int] = []
    sunlit: dict[int, float] = {}
    reverse: list[tuple[int, int]] = []
    reactant = [reactants_of(one) for one in orders]
    forwards: dict[tuple[Any, ...], list[int]] = {}
    for k in range(len(table)):
        rate = table.formulas.get(k, float(table.values[k]))
        if table.laws[k] == Law.RATE:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has a rate=; ergode.kinetics supports mass action "
                "only: give its rate_constant, or use ergode.stochastic or a VectorField"
            )
        if isinstance(rate, Expression) and formulas.follows(rate):
            rate = RateExpression(rate)
        if isinstance(rate, Expression):
            values = values or network.evaluate_parameters()
            rate = float(rate.evaluate(values))
            if not (rate >= 0.0 and np.isfinite(rate)):
                raise ModelError(
                    f"the rate constant of reaction '{table.name_of(k)}' is {rate}; expected a "
                    "finite number, 0 or more"
                )
        if table.laws[k] == Law.STOCHASTIC:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has reactants in different compartments; "
                "a rate constant of concentrations has no meaning there"
            )
        if isinstance(rate, PowerLaw):
            rate = rate.rate
        if isinstance(rate, Photolysis):
            sunlit[k] = rate.exponent
            rate = rate.rate
            if isinstance(rate, RateExpression):
                raise ModelError(
                    f"reaction '{table.name_of(k)}' has a Photolysis of a RateExpression; write "
                    "the sunlight into the formula"
                )
        if isinstance(rate, DetailedBalance):
            if _captures(rate.forward):
                raise ModelError(
                    f"reaction '{table.name_of(k)}' has DetailedBalance with the capture of an "
                    "electron, whose equilibrium depends on electrons"
                )
            key = _key(table, k, forward=False)
            reverse.append((k, _forward(table, k, key, rate, forwards)))
            continue
        forwards.setdefault(_key(table, k, forward=True), []).append(k)
        if isinstance(rate, _Dependent):
            third_bodies.add(k, rate, slots, net[k])
            if isinstance(rate, BlowersMasel):
                _check_molecules(network, k)
        elif isinstance(rate, WeakTable):
            if sum(orders[k].values()) != 1 or len(orders[k]) != 1:
                raise ModelError(
                    f"reaction '{table.name_of(k)}' has a weak table and not one reactant; "
                    "expected one nucleus"
                )
            weak[k] = rate
        elif isinstance(rate, RateExpression):
            formulas.add(k, rate.formula)
        elif isinstance(rate, Tabulated | Branching):
            composed.add(k, rate)
            captures += [k] if _captures(rate) else []
        elif isinstance(rate, Reaclib | Arrhenius | TemperatureFit | float):
            slots.add(k, rate)
            captures += [k] if _captures(rate) else []
        else:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has a {type(rate).__name__} coefficient, which "
                "ergode.kinetics does not support"
            )
    if captures and any(one.charge_number is None for one in network.species):
        raise ModelError(
            f"reaction '{table.name_of(captures[0])}' captures an electron, but a species has no "
            "charge_number"
        )
    first_sum = third_bodies.add_sums(formulas.sums)
    flat = [item for slot in slots.items for item in slot]
    rows = np.array(third_bodies.laws + third_bodies.parts, np.uint32).reshape(-1, 3)
    low_of, kind_of, set_of = (rows[:, column].copy() for column in range(3))
    reaction_of = np.array(third_bodies.reactions, np.uint32)
    changes = [net[forward] for _, forward in reverse]
    both = np.array(reverse, np.uint32).reshape(-1, 2)
    numbers = third_bodies.numbers + third_bodies.part_numbers
    dependents = third_bodies.dependents(len(orders), reverse)
    slope_count = len(orders) + len(third_bodies.parts)
    dependents[first_sum:] = formulas.dependents(slope_count)
    colliders = [key[2] for key in third_bodies.sets]
    return Rates(
        np.array([item[1] for item in flat], np.float64).reshape(-1, 7).T.copy(),
        np.array([item[0] for item in flat], np.float64),
        _starts(slots.items),
        np.array(
            [sum(one.values()) for one in orders],
            np.float64 if any(one is None for one in reactant) else np.uint32,
        ),
        reaction_of, low_of, kind_of, set_of,
        _starts(numbers),
        np.array([x for one in numbers for x in one], np.float64),
        _starts(dependents),
        np.array([r for one in dependents for r, _ in one], np.uint32),
        np.array([slope for one in dependents for _, slope in one], np.uint32),
        _efficiencies(network, third_bodies.sets),
        np.array(third_bodies.mixtures, np.uint32) + reaction_of.size,
        np.array(third_bodies.whole, np.uint32),
        _starts(colliders),
        np.array([_place(network, name) for one in colliders for name, _ in one], np.uint32),
        np.array(third_bodies.collider_slots, np.uint32),
        both[:, 0].copy(),
        both[:, 1].copy(),
        _starts(changes),
        np.array([i for change in changes for i in change], np.uint32),
        np.array([v for change in changes for v in change.values()], np.float64),
        np.array(list(sunlit), np.uint32),
        np.array(list(sunlit.values()), np.float64),
        _plasma_of(network, reactant, reverse, weak, captures, screening),
        formulas.tables(first_sum),
        composed.tables(),
    )  # fmt: skip


def _captures(rate: Any) -> bool:
    """Whether a coefficient is proportional to the density of electrons."""
    rate = rate.rate if isinstance(rate, Tabulated) else rate
    return isinstance(rate, Reaclib) and rate.electrons


_Set = tuple[tuple[tuple[str, float], ...], float, tuple[tuple[str, Arrhenius], ...], int]
"""Efficiencies of named species, of all others, those that depend on T; the whole of a part."""


class _ThirdBodies:
    """Gathers coefficients that depend on collision partners."""

    def __init__(self) -> None:
        self.reactions: list[int] = []
        self.laws: list[tuple[int, int, int]] = []
        self.numbers: list[tuple[float, ...]] = []
        self.parts: list[tuple[int, int, int]] = []
        self.part_numbers: list[tuple[float, ...]] = []
        self.mixtures = [0]
        self.sets: dict[_Set, int] = {}
        self.whole: list[int] = []
        self.collider_slots: list[int] = []

    def add(self, k: int, rate: _Dependent, slots: _Slots, net: Mapping[int, float]) -> None:
        low, numbers, who = 0, tuple[float, ...](), -1
        if isinstance(rate, ThreeBody):
            kind = PLAIN
            who = self._set(slots, rate.efficiencies, rate.default)
            slots.add(k, rate.rate)
        elif isinstance(rate, BlowersMasel):
            kind = BLOWERS_MASEL
            numbers = (rate.intrinsic_temperature, rate.bond_temperature)
            numbers += tuple(float(x) for change in net.items() for x in change)
            slots.add(k, Arrhenius(rate.factor, rate.exponent))
        elif isinstance(rate, LinearBurke):
            kind, low = MIXTURE, len(self.mixtures) - 1
            who = self._mixture(rate, slots)
        else:
            low, kind, numbers = _falling_off(k, rate, slots)
            if isinstance(rate, Falloff):
                who = self._set(slots, rate.efficiencies, rate.default)
        self.reactions.append(k)
        self.laws.append((low, kind, self._set(slots) if who < 0 else who))
        self.numbers.append(numbers)

    def _mixture(self, rate: LinearBurke, slots: _Slots) -> int:
        """Add the parts of a mixture, the reference partner first; the set of all its partners."""
        named = tuple((name, 0.0) for name, _ in rate.efficiencies)
        whole = self._set(slots, named, 1.0, rate.efficiencies)
        own, efficiency = dict(rate.rates), dict(rate.efficiencies)
        sets = [self._set(slots, (), 0.0, ((name, efficiency[name]),), whole) for name in own]
        for law, who in zip((rate.rate, *own.values()), (whole, *sets), strict=True):
            low, kind, numbers = _falling_off(slots.another(), law, slots)
            self.parts.append((low, kind, who))
            self.part_numbers.append(numbers)
        self.mixtures.append(len(self.parts))
        return whole

    def _set(
        self,
        slots: _Slots,
        named: tuple[tuple[str, float], ...] = (),
        default: float = 1.0,
        colliders: tuple[tuple[str, Arrhenius], ...] = (),
        whole: int = -1,
    ) -> int:
        """Row of these collision partners."""
        key = named, default, colliders, whole
        if key not in self.sets:
            self.whole.append(len(self.sets) if whole < 0 else whole)
            self.sets[key] = len(self.sets)
            for _, efficiency in colliders:
                self.collider_slots.append(slots.another())
                slots.add(self.collider_slots[-1], efficiency)
        return self.sets[key]

    def add_sums(self, sums: Iterable[Sum]) -> int:
        """Add rows for the sums of formulas, after all others; the first of them."""
        first = len(self.sets)
        for weights in sums:
            self.sets[weights, 0.0, (), -2] = len(self.sets)  # a row of its own
            self.whole.append(len(self.sets) - 1)
        return first

    def dependents(
        self, reaction_count: int, reverse: Sequence[tuple[int, int]]
    ) -> list[list[tuple[int, int]]]:
        """Reactions that depend on each set, and the slopes of their coefficients."""
        backs: dict[int, list[int]] = {}
        for k, forward in reverse:
            backs.setdefault(forward, []).append(k)
        found: list[list[tuple[int, int]]] = [[] for _ in self.sets]
        for k, (low, kind, who) in zip(self.reactions, self.laws, strict=True):
            slopes = [(who, k)]
            if kind == MIXTURE:
                own = range(self.mixtures[low] + 1, self.mixtures[low + 1])
                slopes += [(self.parts[part][2], reaction_count + part) for part in own]
            for row, slope in slopes:
                found[row] += [(r, slope) for r in (k, *backs.get(k, ()))]
        return found


def _falling_off(own: int, rate: _FallingOff, slots: _Slots) -> tuple[int, int, tuple[float, ...]]:
    """The first other slot, the kind and the parameters of a law with this slot of its own."""
    if isinstance(rate, Falloff):
        kind, numbers = LINDEMANN, tuple[float, ...]()
        if rate.troe:
            kind, numbers = TROE, (*rate.troe, 0.0)[:4]
        elif rate.sri:
            kind, numbers = SRI, rate.sri
        first, second = rate.high, rate.low
        if rate.activated:
            kind += ACTIVATED
            first, second = second, first
        slots.add(own, first)
        low = slots.another()
        slots.add(low, second)
        return low, kind, numbers
    if isinstance(rate, PressureLog):
        pressures = sorted({pressure for pressure, _ in rate.points})
        places = {pressure: slots.another() for pressure in pressures}
        for pressure, arrhenius in rate.points:
            slots.add(places[pressure], arrhenius)
        return places[pressures[0]], LOGARITHMIC, tuple(math.log(one) for one in pressures)
    cold, hot = (1.0 / one for one in rate.temperatures)
    bottom, top = (math.log(one) for one in rate.pressures)
    return own, CHEBYSHEV, (
        (cold + hot) / 2, (hot - cold) / 2, (bottom + top) / 2, (top - bottom) / 2,
        float(len(rate.coefficients[0])), *(a for row in rate.coefficients for a in row),
    )  # fmt: skip


def _check_molecules(network: ReactionNetwork, k: int) -> None:
    for one in network.species:
        if not isinstance(one.thermochemistry, Molecule):
            raise ModelError(
                f"reaction '{network.reactions.name_of(k)}' has a BlowersMasel coefficient, but "
                f"species '{one.name}' has no NASA polynomials"
            )


def _starts(parts: Sequence[Sized]) -> np.ndarray:
    """Offsets of consecutive parts of these lengths."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.uint32)


def _plasma_of(
    network: ReactionNetwork,
    reactant: Sequence[tuple[int, ...] | None],
    reverse: Sequence[tuple[int, int]],
    weak: Mapping[int, WeakTable],
    captures: Sequence[int],
    screening: int,
) -> Plasma:
    """Charged reactants of each reaction, for screening, and tables of weak rates."""
    balanced = {k for k, _ in reverse}
    groups: dict[tuple[float, ...], list[int]] = {}
    for k, left in enumerate(reactant if screening != NONE else ()):
        if left is None:
            raise ModelError(
                f"reaction '{network.reactions.name_of(k)}' has more than three reactants, or "
                "other orders; screening is for three at most"
            )
        met = [network.species[i] for i in left if network.species[i].charge_number]
        if len(met) > 1 and k not in balanced:
            pairs = [(one.charge_number or 0, one.mass_number or 0) for one in met]
            (z1, a1), (z2, a2) = pairs[:2]
            key = (z1, a1, z2, a2, 0, 0, 0, 0)
            if len(pairs) > 2:
                key = (*key[:4], z1 + z2, a1 + a2, *pairs[2])
            groups.setdefault(key, []).append(k)
    numbers = [
        (
            *(math.log(10.0) * x for x in (*table.electron_density, *table.temperature)),
            *(math.log(10.0) * x for row in table.rate for x in row),
        )
        for table in weak.values()
    ]
    shape = [(len(one.electron_density), len(one.temperature)) for one in weak.values()]
    return Plasma(
        screening,
        np.array(list(groups), np.float64).reshape(-1, 8).T.copy(),
        _starts(list(groups.values())),
        np.array([k for members in groups.values() for k in members], np.uint32),
        np.array(list(weak), np.uint32),
        np.array(shape, np.uint32).reshape(-1, 2).T.copy(),
        _starts(numbers),
        np.array([x for one in numbers for x in one], np.float64),
        np.array(captures, np.uint32),
    )


def _key(table: Any, k: int, *, forward: bool) -> tuple[Any, ...]:
    sides = []
    for side in ("reactant", "product"):
        starts = getattr(table, f"{side}_starts")
        part = slice(starts[k], starts[k + 1])
        members = getattr(table, f"{side}_species")[part].tolist()
        counts = getattr(table, f"{side}_counts")[part].tolist()
        sides.append(tuple(sorted(zip(members, counts, strict=True))))
    return tuple(sides) if forward else tuple(reversed(sides))


def _forward(
    table: Any,
    k: int,
    key: tuple[Any, ...],
    rate: DetailedBalance,
    forwards: Mapping[tuple[Any, ...], list[int]],
) -> int:
    for candidate in forwards.get(key, ()):
        if table.formulas.get(candidate, float(table.values[candidate])) == rate.forward:
            return candidate
    raise ModelError(
        f"reaction '{table.name_of(k)}' has DetailedBalance, but its forward reaction does not "
        "come before it in the network"
    )


def _efficiencies(network: ReactionNetwork, sets: Iterable[_Set]) -> np.ndarray:
    found = [np.full(len(network.species), default) for _, default, _, _ in sets]
    for i in np.flatnonzero(on_surface(network)):
        for row in found:
            row[i] = 0.0  # no collision partner
    for row, (named, _, _, _) in zip(found, sets, strict=True):
        for name, value in named:
            row[_place(network, name)] = value
    return np.array(found).reshape(-1, len(network.species))


def _place(network: ReactionNetwork, name: str) -> int:
    """Index of a collision partner."""
    if name not in network.index:
        raise ModelError(
            f"a third body names the species '{name}', which the network does not have"
            f"{did_you_mean(name, network.index)}"
        )
    return network.index[name]
