"""From the laws of coefficients to flat tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError
from ergode.kinetics.network.mechanism import reactants_of
from ergode.kinetics.physics.screening import NONE
from ergode.kinetics.physics.third_bodies import (
    ACTIVATED,
    BLOWERS_MASEL,
    CHEBYSHEV,
    LINDEMANN,
    LOGARITHMIC,
    PLAIN,
    SRI,
    TROE,
)
from ergode.kinetics.tables import Plasma, Rates
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import (
    Arrhenius,
    BlowersMasel,
    Chebyshev,
    DetailedBalance,
    Falloff,
    Photolysis,
    PowerLaw,
    PressureLog,
    Reaclib,
    ThreeBody,
    WeakTable,
)
from ergode.models.reactions.reaction import Law
from ergode.models.reactions.thermochemistry import Molecule

_Dependent = ThreeBody | Falloff | PressureLog | Chebyshev | BlowersMasel


class _Slots:
    """Gathers exponentials by slot."""

    def __init__(self, count: int) -> None:
        self.items: list[list[tuple[float, tuple[float, ...]]]] = [[] for _ in range(count)]

    def add(self, slot: int, rate: Reaclib | Arrhenius | float) -> None:
        if isinstance(rate, Reaclib):
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
    network: ReactionNetwork,
    orders: Sequence[Mapping[int, float]],
    net: Sequence[Mapping[int, float]],
    screening: int,
) -> Rates:
    """Tables of the coefficients of a network.

    Parameters
    ----------
    network : ReactionNetwork
        Of deterministic mass action.
    orders : sequence of mapping of int to float
        Orders of every reaction in species.
    net : sequence of mapping of int to float
        Net change of species by each reaction.
    screening : int
        `NONE`, `WEAK` or `CHUGUNOV`.

    Raises
    ------
    ModelError
        A coefficient is not supported; the message names the reaction.
    """
    table = network.reactions
    values: dict[str, Any] = {}
    slots = _Slots(len(table))
    third_bodies = _ThirdBodies()
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
        if isinstance(rate, DetailedBalance):
            if isinstance(rate.forward, Reaclib) and rate.forward.electrons:
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
        elif isinstance(rate, Reaclib | Arrhenius | float):
            slots.add(k, rate)
            if isinstance(rate, Reaclib) and rate.electrons:
                captures.append(k)
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
    flat = [item for slot in slots.items for item in slot]
    rows = np.array(third_bodies.rows, np.uint32).reshape(-1, 4)
    changes = [net[forward] for _, forward in reverse]
    both = np.array(reverse, np.uint32).reshape(-1, 2)
    reaction_of, low_of, kind_of, set_of = (rows[:, column].copy() for column in range(4))
    depends = np.arange(len(orders), dtype=np.uint32)
    depends[both[:, 0]] = both[:, 1]
    partners = np.full(len(orders), len(third_bodies.partners), np.uint32)
    partners[reaction_of] = set_of
    return Rates(
        np.array([item[1] for item in flat], np.float64).reshape(-1, 7).T.copy(),
        np.array([item[0] for item in flat], np.float64),
        _starts(slots.items),
        np.array(
            [sum(one.values()) for one in orders],
            np.float64 if any(one is None for one in reactant) else np.uint32,
        ),
        reaction_of, low_of, kind_of, set_of,
        _starts(third_bodies.numbers),
        np.array([x for one in third_bodies.numbers for x in one], np.float64),
        partners[depends],
        depends,
        _efficiencies(network, third_bodies.partners),
        both[:, 0].copy(),
        both[:, 1].copy(),
        _starts(changes),
        np.array([i for change in changes for i in change], np.uint32),
        np.array([v for change in changes for v in change.values()], np.float64),
        np.array(list(sunlit), np.uint32),
        np.array(list(sunlit.values()), np.float64),
        _plasma_of(network, reactant, reverse, weak, captures, screening),
    )  # fmt: skip


class _ThirdBodies:
    """Gathers coefficients that depend on collision partners."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.numbers: list[tuple[float, ...]] = []
        self.partners: dict[tuple[Any, float], int] = {}

    def add(self, k: int, rate: _Dependent, slots: _Slots, net: Mapping[int, float]) -> None:
        who: tuple[Any, float] = ((), 1.0)
        if isinstance(rate, ThreeBody | Falloff):
            who = rate.efficiencies, rate.default
        own, numbers = k, tuple[float, ...]()
        if isinstance(rate, ThreeBody):
            kind = PLAIN
            slots.add(k, rate.rate)
        elif isinstance(rate, Falloff):
            kind = LINDEMANN
            if rate.troe:
                kind, numbers = TROE, (*rate.troe, 0.0)[:4]
            elif rate.sri:
                kind, numbers = SRI, rate.sri
            first, second = rate.high, rate.low
            if rate.activated:
                kind += ACTIVATED
                first, second = second, first
            slots.add(k, first)
            own = slots.another()
            slots.add(own, second)
        elif isinstance(rate, BlowersMasel):
            kind = BLOWERS_MASEL
            numbers = (rate.intrinsic_temperature, rate.bond_temperature)
            numbers += tuple(float(x) for change in net.items() for x in change)
            slots.add(k, Arrhenius(rate.factor, rate.exponent))
        elif isinstance(rate, PressureLog):
            kind = LOGARITHMIC
            pressures = sorted({pressure for pressure, _ in rate.points})
            places = {pressure: slots.another() for pressure in pressures}
            own, numbers = places[pressures[0]], tuple(math.log(one) for one in pressures)
            for pressure, arrhenius in rate.points:
                slots.add(places[pressure], arrhenius)
        else:
            kind = CHEBYSHEV
            cold, hot = (1.0 / one for one in rate.temperatures)
            low, high = (math.log(one) for one in rate.pressures)
            numbers = (
                (cold + hot) / 2, (hot - cold) / 2, (low + high) / 2, (high - low) / 2,
                float(len(rate.coefficients[0])), *(a for row in rate.coefficients for a in row),
            )  # fmt: skip
        self.rows.append((k, own, kind, self.partners.setdefault(who, len(self.partners))))
        self.numbers.append(numbers)


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


def _efficiencies(
    network: ReactionNetwork, partners: Mapping[tuple[Any, float], int]
) -> np.ndarray:
    found = np.empty((len(partners), len(network.species)))
    for (named, default), row in partners.items():
        found[row] = default
        for name, value in named:
            if name not in network.index:
                raise ModelError(
                    f"a third body names the species '{name}', which the network does not have"
                    f"{did_you_mean(name, network.index)}"
                )
            found[row, network.index[name]] = value
    return found
