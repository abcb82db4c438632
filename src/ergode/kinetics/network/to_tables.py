"""From a `ReactionNetwork` to flat tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.arguments import choice, did_you_mean
from ergode.core.errors import ModelError
from ergode.kinetics.network.mechanism import Structure, structure_of
from ergode.kinetics.network.rate_tables import rates_of
from ergode.kinetics.physics.energy import polynomials_of
from ergode.kinetics.physics.screening import SCREENING
from ergode.kinetics.tables import Rates, Thermodynamics
from ergode.models.constants import AVOGADRO, BOLTZMANN, DALTON, DALTON_MEV, MEV, PLANCK
from ergode.models.reactions.mass_action import deterministic
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import DetailedBalance, PowerLaw
from ergode.models.reactions.thermochemistry import Molecule, Nucleus

_MEV_PER_MOLE = MEV * AVOGADRO  # erg/mol


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A network lowered to tables."""

    names: tuple[str, ...]  # species
    structure: Structure
    rates: Rates
    thermo: Thermodynamics
    # float64 [species_count]: mass number of nuclei, or one: mass fraction, or concentration, over
    # specific amount.
    mass: np.ndarray
    # float64 [invariant_count, species_count]: weights of conserved sums, linearly independent.
    invariants: np.ndarray
    nuclear: bool  # species are nuclei: amounts are mass fractions
    molecular: bool  # species have NASA polynomials
    digest: str

    @property
    def has_third_bodies(self) -> bool:
        """Whether coefficients depend on collision partners, pressure or enthalpy of reaction."""
        return self.rates.third_body_reaction.size > 0 or len(self.rates.efficiency) > 0

    @property
    def has_formulas(self) -> bool:
        """Whether some coefficients are formulas."""
        return self.rates.formulas.reaction.size > 0

    @property
    def has_composed(self) -> bool:
        """Whether some coefficients have tables of temperature, or intermediate nuclei."""
        return self.rates.composed.tabulated.size + self.rates.composed.branched.size > 0

    def needs(self, condition: str) -> bool:
        """Whether a formula uses the time or a condition of the zone."""
        return condition in self.rates.formulas.names

    @property
    def couplings(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each kind of collision partners: species that its reactions change, and partners."""
        rates, found = self.rates, []
        for kind, row in enumerate(rates.efficiency):
            part = slice(rates.dependent_start[kind], rates.dependent_start[kind + 1])
            net = (self.structure.net[r] for r in rates.dependent[part])
            changed = sorted({i for one in net for i in one})
            there = row != 0.0
            colliders = slice(rates.collider_start[kind], rates.collider_start[kind + 1])
            there[rates.collider_species[colliders]] = True
            found.append((np.array(changed, int), np.flatnonzero(there)))
        return found

    @property
    def has_mixtures(self) -> bool:
        """Whether some coefficients follow the mixture rule of Burke and Song."""
        return self.rates.mixture_start.size > 1

    @property
    def has_powers(self) -> bool:
        """Whether some reaction has orders that are not three whole numbers at most."""
        return self.structure.powers.power_count > 0

    @property
    def has_sunlight(self) -> bool:
        """Whether coefficients depend on the sunlight."""
        return self.rates.sunlit.size > 0 or self.needs("sunlight")

    @property
    def has_plasma(self) -> bool:
        """Whether coefficients depend on electrons and on the charges of nuclei."""
        plasma = self.rates.plasma
        weak = plasma.weak_reaction.size + plasma.capture.size
        return plasma.group_start.size > 1 or weak > 0

    def used(self, heating: bool) -> tuple[Rates, Thermodynamics]:
        """Tables in which arrays that kernels of this network never read are ``()``.

        Every array argument of a device function costs compile time.
        """
        rates, thermo = self.rates, self.thermo
        rates = rates._replace(formulas=rates.formulas.for_kernels)
        reversible, nuclear = rates.reverse.size > 0, not self.molecular
        idle = {
            "third_body_": not self.has_third_bodies,
            "dependent": not self.has_third_bodies,
            "efficiency": not self.has_third_bodies,
            "mixture": not self.has_mixtures,
            "collider": not self.has_mixtures,
            "reverse": not reversible,
            "forward": not reversible,
            "plasma": not self.has_plasma,
            "sunlit": not (self.has_sunlight or self.has_formulas),
            "formulas": not self.has_formulas,
            "composed": not self.has_composed,
            "polynomials": nuclear or not (reversible or heating or self.has_third_bodies),
            "mass_excess": not (nuclear and (reversible or heating)),
            "translation": not (nuclear and reversible),
            "grid": not (nuclear and reversible),
            "partition": not (nuclear and reversible),
            "charge": not (heating or self.has_plasma),
        }

        def without(table: Any) -> Any:
            left_out = [
                name
                for name in table._fields
                if any(without and name.startswith(part) for part, without in idle.items())
            ]
            return table._replace(**dict.fromkeys(left_out, ()))

        return without(rates), without(thermo)


_KEPT: dict[tuple[str, str | None, tuple[str, ...]], Mechanism] = {}


def to_tables(
    network: ReactionNetwork, screening: str | None = None, driven: tuple[str, ...] = ()
) -> Mechanism:
    """Tables of a network, cached for the next call.

    `driven` are parameters that change in time: what depends on them is a formula.

    Raises a ModelError if part of the network is not supported by this engine; the message names
    it. Raises a PlanError if the screening is unknown.
    """
    choice("screening", screening, SCREENING)
    key = network.digest, screening, driven
    if key not in _KEPT:
        _KEPT[key] = _tables_of(network, *key)
    return _KEPT[key]


def _tables_of(
    network: ReactionNetwork, digest: str, screening: str | None, driven: tuple[str, ...]
) -> Mechanism:
    if network.events:
        raise ModelError(
            "the network has events, which ergode.kinetics does not support; use ergode.stochastic"
        )
    if network.rate_rules:
        raise ModelError(
            f"the network has the rate rule of '{min(network.rate_rules)}', which ergode.kinetics "
            "does not support; use ergode.stochastic with method='hybrid'"
        )
    network = deterministic(network)
    species = network.species
    nuclear = all(one.mass_number is not None for one in species)
    molecular = all(isinstance(one.thermochemistry, Molecule) for one in species)
    if network.rules and (nuclear or molecular):
        raise ModelError(
            f"the network has the rule '{min(network.rules)}'; ergode.kinetics supports rules of "
            "concentrations, not of nuclei or of molecules with NASA polynomials"
        )
    table = network.reactions
    change = network.stoichiometry.tocsc()
    orders, net = [], []
    for k in range(len(table)):
        part = slice(table.reactant_starts[k], table.reactant_starts[k + 1])
        left: dict[int, float] = {}
        for i, count in zip(table.reactant_species[part], table.reactant_counts[part], strict=True):
            left[int(i)] = left.get(int(i), 0.0) + float(count)
        rate = table.formulas.get(k)
        for name, order in rate.orders if isinstance(rate, PowerLaw) else ():
            if name not in network.index:
                raise ModelError(
                    f"reaction '{table.name_of(k)}' has an order in '{name}', which the network "
                    f"does not have{did_you_mean(name, network.index)}"
                )
            left[network.index[name]] = order
        if k in table.delays:
            raise ModelError(
                f"reaction '{table.name_of(k)}' has a delay, which ergode.kinetics does not support"
            )
        orders.append(left)
        rows = slice(change.indptr[k], change.indptr[k + 1])
        net.append(
            {
                int(i): float(v)
                for i, v in zip(change.indices[rows], change.data[rows], strict=True)
                if v
            }
        )
    if screening is not None and not nuclear:
        raise ModelError(f"screening is {screening!r}, but the species are not nuclei")
    mass = np.array([float(one.mass_number or 1) if nuclear else 1.0 for one in species])
    return Mechanism(
        tuple(one.name for one in species),
        structure_of(len(species), orders, net),
        rates_of(network, orders, net, SCREENING[screening], driven),
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


def _thermodynamics(network: ReactionNetwork) -> Thermodynamics:
    species = network.species
    count = len(species)
    polynomials = polynomials_of([one.thermochemistry for one in species])
    excess, translation, charge = np.zeros(count), np.zeros(count), np.zeros(count)
    grid = np.array([1.0, 2.0])
    for one in species:
        if isinstance(one.thermochemistry, Nucleus) and one.thermochemistry.temperatures:
            grid = np.union1d(grid if grid.size > 2 else [], one.thermochemistry.temperatures)
    partition = np.zeros((grid.size, count))
    for i, one in enumerate(species):
        known = one.thermochemistry
        if isinstance(known, Nucleus):
            excess[i] = known.mass_excess * _MEV_PER_MOLE
            grams = ((one.mass_number or 0) + known.mass_excess / DALTON_MEV) * DALTON
            volume = (2 * math.pi * grams * BOLTZMANN / PLANCK**2) ** 1.5 / AVOGADRO
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
