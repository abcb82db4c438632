"""Reactions on a surface in Cantera's YAML format: sites, sticking coefficients, coverages.

Amounts of species on the surface are per volume of the gas. With the area a of the surface over the
volume of the gas, and n_s reactants on the surface, a rate constant k by area [mol/(cm2 s)] is
k a^(1 - n_s) by volume. A molecule that hits the surface sticks at the rate
a s sqrt(R T / (2 pi M)), times the coverages of the sites that it needs.

R. J. Kee, M. E. Coltrin, P. Glarborg: Chemically Reacting Flow (2003), chapter 11.
H. Motz, H. Wise: J. Chem. Phys. 32, 1893 (1960).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ergode.core.errors import ReadError
from ergode.models.constants import GAS_CONSTANT
from ergode.models.expressions import Expression
from ergode.models.reactions.rate_expression import RateExpression
from ergode.models.reactions.rates import Arrhenius, PowerLaw, RateCoefficient
from ergode.models.reactions.species import Species
from ergode.models.reactions.thermochemistry import (
    NasaPolynomials,
    SurfacePolynomials,
    mass_of_atoms,
)
from ergode.readers.bounded import short
from ergode.readers.cantera_rates import NOTES, arrhenius, number_of, only, truth_of
from ergode.readers.cantera_reactions import Equation, Known, Reactions, equation_of
from ergode.readers.cantera_units import Units
from ergode.readers.yaml_lines import place

SURFACE = "ideal-surface"
_PHASE = (
    "name", "thermo", "adjacent-phases", "elements", "species", "kinetics", "reactions",
    "site-density", "units", "skip-undeclared-elements", "Motz-Wise", "state", "note",
    "description",
)  # fmt: skip
_ENTRY = (
    "equation", "type", "duplicate", "units", "orders", "negative-orders", "nonreactant-orders",
    "coverage-dependencies", "negative-A",
)  # fmt: skip
_TYPES = (None, "elementary", "surface", "interface-Arrhenius", "sticking-Arrhenius")
_TINY = 1e-20
"""Coverage below which a power of it stays, as in Cantera; a negative one would not be finite."""


@dataclass
class Surface:
    """A surface phase, and its area over the volume of the gas [1/cm]."""

    phase: Mapping[str, Any]
    what: str
    area: float
    site_density: float  # mol/cm2
    corrects: bool  # whether sticking coefficients are corrected as Motz and Wise do
    sites: dict[str, float] = field(default_factory=dict)  # that a molecule takes

    def put_sites(self, name: str, entry: Mapping[str, Any], what: str) -> None:
        """Keep the number of sites of a species."""
        self.sites[name] = number_of(entry.get("sites", 1.0), f"{what}: sites")
        if not self.sites[name] > 0.0:
            raise ReadError(f"{what} has {self.sites[name]:g} sites; expected more than 0")


def surface_of(
    named: Mapping[str, Mapping[str, Any]], name: str, area: Any, units: Units, path: Path
) -> Surface:
    """The surface of this name among the phases of a file."""
    if name not in named:
        raise ReadError(f"{path}: no phase {name!r}; there are {', '.join(named)}")
    phase = named[name]
    what = f"{place(path, phase)}: phase '{name}'"
    if phase.get("thermo") != SURFACE or phase.get("kinetics") != "surface":
        raise ReadError(
            f"{what} is {short(phase.get('thermo'))} with the kinetics "
            f"{short(phase.get('kinetics', 'none'))}; expected an {SURFACE} with surface"
        )
    only(phase, _PHASE, what)
    beside = phase.get("adjacent-phases") or []
    if isinstance(beside, list) and len(beside) > 1:
        raise ReadError(f"{what} has {len(beside)} adjacent-phases; expected one gas")
    number = isinstance(area, int | float) and not isinstance(area, bool)
    if not number or not 0.0 < area < math.inf:
        raise ReadError(
            f"{path}: surface_area is {area!r}; expected the area of the surface over the volume "
            "of the gas [1/cm]"
        )
    units = units.within(phase.get("units"), what)
    density = phase.get("site-density")
    if isinstance(density, str):
        raise ReadError(f"{what} has the site-density {short(density)}; expected a number")
    density = number_of(density, f"{what}: site-density") * units.quantity / units.length**2
    if not density > 0.0:
        raise ReadError(f"{what} has the site-density {density:g}; expected more than 0")
    return Surface(phase, what, float(area), density, truth_of(phase, "Motz-Wise", what))


class SurfaceReactions(Reactions):
    """Collects the reactions of a surface.

    Parameters
    ----------
    surface : Surface
    gas : mapping
        Number of atoms in each species of the gas.
    there : mapping of str to Species
        Of the surface, as of a gas.
    """

    def __init__(
        self,
        surface: Surface,
        gas: Mapping[str, Mapping[str, float]],
        there: Mapping[str, Species],
    ) -> None:
        self.surface, self.gas = surface, gas
        self.names = {name: re.sub(r"\W+", "_", name).strip("_") for name in there}
        if len({*self.names.values(), *gas}) < len(self.names) + len(gas):
            raise ReadError(f"{surface.what} has species of equal names: {short([*there])}")
        self.full: dict[str, float] = {}
        self.species: list[Species] = []
        atoms = dict(gas)
        for name, one in there.items():
            known = one.thermochemistry
            if not isinstance(known, NasaPolynomials):
                raise ReadError(f"{surface.what}: species '{name}' has no NASA7 thermo")
            own = self.names[name]
            self.full[own] = surface.site_density * surface.area / surface.sites[name]
            site = SurfacePolynomials(
                known.low, known.high, known.middle, known.composition, known.temperature_range,
                self.full[own],
            )  # fmt: skip
            self.species.append(Species(own, thermochemistry=site, label=name))
            atoms[own] = known.composition
        super().__init__(atoms, skip_bodies=False)

    def add(
        self, entry: Mapping[str, Any], units: Units, what: str, number: int, *, declared_only: bool
    ) -> None:
        """Add an entry of a list of reactions; see `Reactions.add`."""
        text, what, read = equation_of(entry, what)
        left, right = (
            {self.names.get(name, name): count for name, count in side.items()}
            for side in (read.left, read.right)
        )
        for name in (*left, *right):
            if name not in self.compositions:
                if declared_only:
                    return
                raise ReadError(f"{what} has {short(name)}, which is not a species of the phases")
        equation = Equation(left, right, read.body, read.reversible)
        if read.body or entry.get("type") not in _TYPES:
            raise ReadError(
                f"{what} has a rate of the kind {short(entry.get('type', read.body))}, which is "
                "not known on a surface"
            )
        self.check_balance(equation, what)
        orders = self.orders_of(self._renamed(entry), equation, what)
        sticks = "sticking-coefficient" in entry
        law = self._sticking if sticks else self._by_area
        rate = law(entry, units, equation, orders, what)
        if orders:
            rate = PowerLaw(rate, tuple(orders.items()))
        self._put(equation, rate, f"{text} ({number} on the surface)", what)
        kind = "sticking" if sticks else "surface"
        marked = truth_of(entry, "duplicate", what)
        self.known.append(Known(what, kind, equation, None, marked))

    def _renamed(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        given = entry.get("orders")
        if not isinstance(given, Mapping):
            return entry
        renamed = {self.names.get(str(name), str(name)): value for name, value in given.items()}
        return {**entry, "orders": renamed}

    def _by_area(
        self, entry: Mapping[str, Any], units: Units, equation: Equation,
        orders: Mapping[str, float], what: str,
    ) -> RateCoefficient:  # fmt: skip
        only(entry, (*_ENTRY, "rate-constant"), what, NOTES)
        every = {**equation.left, **orders}
        there = sum(order for name, order in every.items() if name in self.full)
        negative = truth_of(entry, "negative-A", what)
        rate = arrhenius(
            entry.get("rate-constant"), sum(every.values()), units, what, negative, there
        )
        rate = replace(rate, factor=rate.factor * self.surface.area ** (1.0 - there))
        powers, exponent = self._coverages(entry, units, equation, what)
        if not (powers or exponent):
            return rate
        return RateExpression(Expression(_formula(rate, exponent) + powers))

    def _sticking(
        self, entry: Mapping[str, Any], units: Units, equation: Equation,
        orders: Mapping[str, float], what: str,
    ) -> RateCoefficient:  # fmt: skip
        only(entry, (*_ENTRY, "sticking-coefficient", "sticking-species", "Motz-Wise"), what, NOTES)
        if orders:
            raise ReadError(f"{what} has a sticking-coefficient and orders; expected one of them")
        beside = [name for name in equation.left if name not in self.full]
        named = entry.get("sticking-species", beside[0] if len(beside) == 1 else None)
        if named not in beside or sum(equation.left[name] for name in beside) != 1.0:
            raise ReadError(
                f"{what} has a sticking-coefficient and the species of the gas "
                f"{', '.join(beside) or 'none'}; expected one molecule"
            )
        mass = mass_of_atoms(self.gas[named])
        # The coefficient is a number whatever the units are: as a rate constant of order 1.
        rate = arrhenius(entry.get("sticking-coefficient"), 1.0, replace(units, time=1.0), what)
        factor = math.sqrt(GAS_CONSTANT / (2.0 * math.pi * mass)) * self.surface.area
        for name, count in equation.left.items():
            if name in self.full:
                factor *= self.full[name] ** -count
        powers, exponent = self._coverages(entry, units, equation, what)
        corrects = truth_of(entry, "Motz-Wise", what) if "Motz-Wise" in entry else None
        corrects = self.surface.corrects if corrects is None else corrects
        if not (powers or exponent) and not (rate.exponent or rate.activation_temperature):
            value = rate.factor / (1.0 - 0.5 * rate.factor) if corrects else rate.factor
            return Arrhenius(value * factor, 0.5)
        if not (powers or exponent or corrects):
            return replace(rate, factor=rate.factor * factor, exponent=rate.exponent + 0.5)
        sticks = _formula(rate, exponent) + powers
        if corrects:
            sticks = f"({sticks}) / (1 - 0.5 * ({sticks}))"
        return RateExpression(Expression(f"{factor!r} * sqrt(temperature) * {sticks}"))

    def _coverages(
        self, entry: Mapping[str, Any], units: Units, equation: Equation, what: str
    ) -> tuple[str, str]:
        """How a rate depends on coverages: a product of powers, and a term of an exponent."""
        given = entry.get("coverage-dependencies") or {}
        if not isinstance(given, Mapping):
            raise ReadError(f"{what} has coverage-dependencies {short(given)}; expected a mapping")
        powers, terms = "", []
        for key, value in given.items():
            name = self.names.get(str(key), "")
            if name not in self.full:
                raise ReadError(f"{what} depends on the coverage of {short(key)}; expected a site")
            if isinstance(value, list) and len(value) == 3:
                value = dict(zip(("a", "m", "E"), value, strict=True))
            if not isinstance(value, Mapping) or not set(value) <= {"a", "m", "E"}:
                raise ReadError(
                    f"{what} has coverage-dependencies {short(value)}; expected a, m and E"
                )
            a, m = (number_of(value.get(one, 0.0), f"{what}: {one}") for one in ("a", "m"))
            energy = units.activation_energy(value.get("E", 0.0), what)
            covered = f"{name} * {1.0 / self.full[name]!r}"
            if m:
                powers += f" * max({covered}, {_TINY!r})^{m!r}"
            if a or energy:
                slope = f"({a * math.log(10.0)!r} - {energy!r} / temperature)"
                terms.append(f"{slope} * {covered}")
        if (powers or terms) and equation.reversible:
            raise ReadError(
                f"{what} is reversible and depends on coverages; expected two reactions with '=>'"
            )
        return powers, " + ".join(terms)


def _formula(rate: Arrhenius, exponent: str) -> str:
    """Arrhenius' law as a formula, with more terms of the exponent."""
    terms = (
        [f"{-rate.activation_temperature!r} / temperature"] if rate.activation_temperature else []
    )
    terms += [exponent] if exponent else []
    text = repr(rate.factor)
    if rate.exponent:
        text += (
            f" * temperature^{rate.exponent!r}"
            if rate.exponent > 0
            else (f" / temperature^{-rate.exponent!r}")
        )
    return f"{text} * exp({' + '.join(terms)})" if terms else text
