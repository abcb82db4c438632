"""From a `ReactionNetwork` to flat tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.errors import ModelError
from ergode.kinetics.mechanism import SLOTS, Structure, structure_of
from ergode.kinetics.rates import (
    GAS_CONSTANT,
    LINDEMANN,
    PLAIN,
    TROE,
    Rates,
    Thermodynamics,
)
from ergode.models.expressions import Expression
from ergode.models.mass_action import deterministic
from ergode.models.rate_coefficients import (
    Arrhenius,
    DetailedBalance,
    Falloff,
    Reaclib,
    ThreeBody,
)
from ergode.models.reaction_network import ReactionNetwork
from ergode.models.reactions import Law
from ergode.models.thermochemistry import NasaPolynomials, Nucleus

_MEV = 1.602176634e-6 * 6.02214076e23  # erg/mol
_AVOGADRO = 6.02214076e23
_BOLTZMANN = 1.380649e-16  # erg/K
_PLANCK = 6.62607015e-27  # erg s
_DALTON = 1.66053906660e-24  # g
_DALTON_MEV = 931.49410242


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A network lowered to tables.

    Attributes
    ----------
    names : tuple of str
        Species.
    structure : Structure
    rates : Rates
    thermo : Thermodynamics
    mass : ndarray of float64, shape [species_count]
        Mass number of nuclei, or one: mass fraction, or concentration, over specific amount.
    invariants : ndarray of float64, shape [invariant_count, species_count]
        Weights of sums that no reaction changes, independent of one another.
    nuclear : bool
        Species are nuclei: amounts are mass fractions.
    molecular : bool
        Species have NASA polynomials.
    digest : str
    """

    names: tuple[str, ...]
    structure: Structure
    rates: Rates
    thermo: Thermodynamics
    mass: np.ndarray
    invariants: np.ndarray
    nuclear: bool
    molecular: bool
    digest: str

    @property
    def has_bodies(self) -> bool:
        """Whether coefficients depend on amounts."""
        return self.rates.body_reaction.size > 0


_LOWERED: dict[str, Mechanism] = {}


def lower(network: ReactionNetwork) -> Mechanism:
    """Tables of a network, kept for the next call.

    Raises
    ------
    ModelError
        Something in the network has no meaning for this engine; the message says what.
    """
    digest = network.digest
    if digest not in _LOWERED:
        _LOWERED[digest] = _lower(network, digest)
    return _LOWERED[digest]


def _lower(network: ReactionNetwork, digest: str) -> Mechanism:
    for what in ("events", "rules"):
        if getattr(network, what):
            raise ModelError(
                f"the network has {what}, which ergode.kinetics does not know; "
                "ergode.stochastic does"
            )
    network = deterministic(network)
    species = network.species
    nuclear = all(one.mass_number is not None for one in species)
    molecular = all(isinstance(one.thermochemistry, NasaPolynomials) for one in species)
    table = network.reactions
    change = network.stoichiometry.tocsc()
    reactant, net = [], []
    for k in range(len(table)):
        part = slice(table.reactant_starts[k], table.reactant_starts[k + 1])
        left: list[int] = []
        for i, count in zip(table.reactant_species[part], table.reactant_counts[part], strict=True):
            if count != int(count):
                raise ModelError(
                    f"reaction '{table.name_of(k)}' takes {count:g} {species[i].name}; "
                    "ergode.kinetics knows whole numbers of reactants"
                )
            left += [int(i)] * int(count)
        if len(left) > SLOTS:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has {len(left)} reactants; expected {SLOTS} at most"
            )
        if k in table.delays:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has a delay, which ergode.kinetics does not know"
            )
        reactant.append(tuple(sorted(left)))
        rows = slice(change.indptr[k], change.indptr[k + 1])
        net.append(
            {
                int(i): float(v)
                for i, v in zip(change.indices[rows], change.data[rows], strict=True)
                if v
            }
        )
    mass = np.array([float(one.mass_number or 1) if nuclear else 1.0 for one in species])
    return Mechanism(
        tuple(one.name for one in species),
        structure_of(len(species), reactant, net),
        _rates(network, reactant, net),
        _thermodynamics(network),
        mass,
        _invariants(network, net),
        nuclear,
        molecular,
        digest,
    )


def _invariants(network: ReactionNetwork, net: list[dict[int, float]]) -> np.ndarray:
    """Independent linear sums that no reaction changes."""
    count = len(network.species)
    found = []
    for law in network.conserved_quantities() if _whole(net) else []:
        row = np.zeros(count)
        for name, weight in law.items():
            row[network.index[name]] = weight
        found.append(row)
    return np.array(found).reshape(-1, count)


def _whole(net: list[dict[int, float]]) -> bool:
    return all(value == int(value) for change in net for value in change.values())


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


def _rates(
    network: ReactionNetwork, reactant: list[tuple[int, ...]], net: list[dict[int, float]]
) -> Rates:
    table = network.reactions
    values: dict[str, Any] = {}
    slots = _Slots(len(table))
    bodies: list[tuple[int, int, int, int]] = []
    troe: list[tuple[float, ...]] = []
    partners: dict[tuple[Any, float], int] = {}
    reverse: list[tuple[int, int]] = []
    forwards: dict[tuple[Any, ...], list[int]] = {}
    for k in range(len(table)):
        rate = table.formulas.get(k, float(table.values[k]))
        if table.laws[k] == Law.RATE:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has a rate of its own; ergode.kinetics knows mass "
                "action: give its rate_constant, or use ergode.stochastic or a VectorField"
            )
        if isinstance(rate, Expression):
            values = values or network.evaluate_parameters()
            rate = float(rate.evaluate(values))
        if table.laws[k] == Law.STOCHASTIC:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has reactants in different compartments, where "
                "concentrations do not make a rate"
            )
        if isinstance(rate, DetailedBalance):
            key = _key(table, k, forward=False)
            reverse.append((k, _forward(table, k, key, rate, forwards)))
            continue
        forwards.setdefault(_key(table, k, forward=True), []).append(k)
        if isinstance(rate, ThreeBody | Falloff):
            row = partners.setdefault((rate.efficiencies, rate.default), len(partners))
            if isinstance(rate, ThreeBody):
                slots.add(k, rate.rate)
                bodies.append((k, k, PLAIN, row))
                troe.append((0.0, 1.0, 1.0, 0.0))
            else:
                slots.add(k, rate.high)
                low = slots.another()
                slots.add(low, rate.low)
                bodies.append((k, low, TROE if rate.troe else LINDEMANN, row))
                troe.append((*rate.troe, 0.0)[:4] if rate.troe else (0.0, 1.0, 1.0, 0.0))
        elif isinstance(rate, Reaclib | Arrhenius | float):
            slots.add(k, rate)
        else:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has a {type(rate).__name__} coefficient, which "
                "ergode.kinetics does not know"
            )
    flat = [item for slot in slots.items for item in slot]
    start = np.concatenate([[0], np.cumsum([len(slot) for slot in slots.items])])
    rows = np.array(bodies, np.uint32).reshape(-1, 4)
    changes = [net[forward] for _, forward in reverse]
    both = np.array(reverse, np.uint32).reshape(-1, 2)
    reaction_of, low_of, kind_of, set_of = (rows[:, column].copy() for column in range(4))
    return Rates(
        np.array([item[1] for item in flat], np.float64).reshape(-1, 7).T.copy(),
        np.array([item[0] for item in flat], np.float64),
        start.astype(np.uint32),
        np.array([len(left) for left in reactant], np.uint32),
        reaction_of, low_of, kind_of, set_of,
        np.array(troe, np.float64).reshape(-1, 4).T.copy(),
        _efficiencies(network, partners),
        both[:, 0].copy(),
        both[:, 1].copy(),
        np.concatenate([[0], np.cumsum([len(change) for change in changes])]).astype(np.uint32),
        np.array([i for change in changes for i in change], np.uint32),
        np.array([v for change in changes for v in change.values()], np.float64),
    )  # fmt: skip


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
        f"reaction '{table.name_of(k)}' is to balance a forward reaction that does not come before "
        "it in the network"
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
                )
            found[row, network.index[name]] = value
    return found


def _thermodynamics(network: ReactionNetwork) -> Thermodynamics:
    species = network.species
    count = len(species)
    polynomials = np.zeros((15, count))
    excess, translation, charge = np.zeros(count), np.zeros(count), np.zeros(count)
    grid = np.array([1.0, 2.0])
    for one in species:
        if isinstance(one.thermochemistry, Nucleus) and one.thermochemistry.temperatures:
            grid = np.union1d(grid if grid.size > 2 else [], one.thermochemistry.temperatures)
    partition = np.zeros((grid.size, count))
    for i, one in enumerate(species):
        known = one.thermochemistry
        if isinstance(known, NasaPolynomials):
            polynomials[:, i] = (known.middle, *known.low, *known.high)
        elif isinstance(known, Nucleus):
            excess[i] = known.mass_excess * _MEV
            grams = ((one.mass_number or 0) + known.mass_excess / _DALTON_MEV) * _DALTON
            volume = (2 * math.pi * grams * _BOLTZMANN / _PLANCK**2) ** 1.5 / _AVOGADRO
            translation[i] = math.log((2 * known.spin + 1) * volume)
            if known.partition:
                partition[:, i] = np.interp(grid, known.temperatures, np.log(known.partition))
        charge[i] = one.charge_number or 0
    for k, rate in network.reactions.formulas.items():
        if isinstance(rate, DetailedBalance):
            reaction = network.reactions[k]
            for name in (*reaction.reactants, *reaction.products):
                if species[network.index[name]].thermochemistry is None:
                    raise ModelError(
                        f"reaction '{network.reactions.name_of(k)}' follows from detailed balance, "
                        f"but species '{name}' has no thermochemistry"
                    )
    return Thermodynamics(polynomials, excess, translation, grid, partition, charge)


__all__ = ["GAS_CONSTANT", "Mechanism", "lower"]
