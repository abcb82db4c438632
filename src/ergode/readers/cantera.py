"""Mechanisms of gas-phase chemistry in Cantera's YAML format."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ergode.core.errors import ErgodeError, ReadError
from ergode.models.rate_coefficients import (
    Arrhenius,
    Chebyshev,
    DetailedBalance,
    Falloff,
    PressureLog,
    RateCoefficient,
    ThreeBody,
)
from ergode.models.reaction_network import ReactionNetwork
from ergode.models.reactions import Reaction
from ergode.models.species import Species
from ergode.models.thermochemistry import NasaPolynomials

_LENGTH = {"m": 100.0, "cm": 1.0, "mm": 0.1}
_QUANTITY = {"mol": 1.0, "kmol": 1e3, "molec": 1.0 / 6.02214076e23}
_TIME = {"s": 1.0, "min": 60.0, "hr": 3600.0}
# Kelvin for one of the unit.
_ENERGY = {
    "K": 1.0, "cal/mol": 4.184 / 8.31446261815324, "kcal/mol": 4184.0 / 8.31446261815324,
    "J/mol": 1 / 8.31446261815324, "kJ/mol": 1e3 / 8.31446261815324,
    "J/kmol": 1e-3 / 8.31446261815324, "eV": 11604.518121550082,
}  # fmt: skip
# dyn/cm2 for one of the unit.
_PRESSURE = {
    "Pa": 10.0, "kPa": 1e4, "MPa": 1e7, "bar": 1e6, "atm": 1.01325e6, "torr": 1333.2236842105263,
    "dyn/cm^2": 1.0,
}  # fmt: skip
_ARROW = re.compile(r"\s+(<=>|=>|=)\s+")
_FALLOFF = re.compile(r"\(\s*\+\s*([^)\s]+)\s*\)")
_TERM = re.compile(r"(?:(\d+(?:\.\d+)?)\s+)?(\S+)")


def read_cantera(path: str | os.PathLike[str], *, phase: str | None = None) -> ReactionNetwork:
    """Read a mechanism of an ideal gas.

    Parameters
    ----------
    path : path
        A YAML file; reactions with Arrhenius, three-body, falloff (Lindemann, Troe, SRI),
        pressure-dependent Arrhenius ("PLOG") and Chebyshev rates, species with NASA polynomials of
        two ranges.
    phase : str, optional
        Name of the phase; the first if not given.

    Returns
    -------
    ReactionNetwork
        In mol, cm, s and K. A reversible reaction is two, the second by `DetailedBalance`.

    Raises
    ------
    ReadError
        The file is not there, not of this form, or has rates of another kind; the message names
        the species or reaction.

    Notes
    -----
    Needs the package ``ruamel.yaml`` (``pip install 'ergode[chemistry]'``).
    """
    return _Mechanism(Path(path), phase).network()


class _Mechanism:
    def __init__(self, path: Path, phase: str | None) -> None:
        self.path = path
        self.content = _load(path)
        phases = self.content.get("phases") or []
        names = [one.get("name") for one in phases]
        if not phases:
            raise ReadError(f"{path}: it has no phases; expected at least one")
        if phase is not None and phase not in names:
            raise ReadError(f"{path}: no phase {phase!r}; there are {', '.join(map(str, names))}")
        self.phase = phases[0] if phase is None else phases[names.index(phase)]
        if self.phase.get("thermo") != "ideal-gas":
            raise ReadError(
                f"{path}: phase '{self.phase.get('name')}' is {self.phase.get('thermo')!r}; "
                "expected an ideal-gas"
            )
        units = self.content.get("units") or {}
        self.length = self._unit(units, "length", _LENGTH, "m")
        self.quantity = self._unit(units, "quantity", _QUANTITY, "kmol")
        self.time = self._unit(units, "time", _TIME, "s")
        self.pressure = self._unit(units, "pressure", _PRESSURE, "Pa")
        energy = units.get("activation-energy")
        if energy is None:
            energy = f"{units.get('energy', 'J')}/{units.get('quantity', 'kmol')}"
        self.energy = self._unit({"energy": energy}, "energy", _ENERGY, "")

    def _unit(
        self, units: Mapping[str, Any], key: str, known: Mapping[str, float], usual: str
    ) -> float:
        word = units.get(key, usual)
        if word not in known:
            raise ReadError(f"{self.path}: unit {word!r} of {key}; expected {', '.join(known)}")
        return known[word]

    def network(self) -> ReactionNetwork:
        """All of it."""
        species = list(self._species())
        names = {one.name for one in species}
        reactions: list[Reaction] = []
        for number, entry in enumerate(self._reactions(), 1):
            reactions += self._reaction(entry, number, names)
        try:
            return ReactionNetwork(species, reactions, name=str(self.phase.get("name")))
        except ErgodeError as error:
            raise ReadError(f"{self.path}: {error}") from None

    def _species(self) -> Iterator[Species]:
        known = {entry["name"]: entry for entry in self.content.get("species") or []}
        wanted = self.phase.get("species", "all")
        names = list(known) if wanted == "all" else [str(name) for name in wanted]
        for name in names:
            if name not in known:
                raise ReadError(f"{self.path}: species '{name}' of the phase is not defined")
            thermo = known[name].get("thermo") or {}
            data, ranges = thermo.get("data") or [], thermo.get("temperature-ranges") or []
            if thermo.get("model") != "NASA7" or len(data) not in (1, 2):
                raise ReadError(
                    f"{self.path}: species '{name}' has a thermo of {thermo.get('model')!r} with "
                    f"{len(data)} ranges; expected NASA7 with one or two"
                )
            try:
                polynomials = NasaPolynomials(
                    tuple(data[0]), tuple(data[-1]), float(ranges[1]), known[name]["composition"]
                )
            except (ErgodeError, ValueError, TypeError, KeyError, IndexError) as error:
                raise ReadError(f"{self.path}: species '{name}': {error}") from None
            yield Species(name, thermochemistry=polynomials)

    def _reactions(self) -> list[Any]:
        sections = self.phase.get("reactions", "all")
        if sections == "none":
            return []
        if isinstance(sections, list):
            return [entry for key in sections for entry in self.content.get(key) or []]
        return self.content.get("reactions") or []

    def _reaction(self, entry: Mapping[str, Any], number: int, names: set[str]) -> list[Reaction]:
        equation = str(entry.get("equation", ""))
        what = f"{self.path}: reaction {number} '{equation}'"
        sides = _ARROW.split(equation)
        if len(sides) != 3:
            raise ReadError(f"{what} cannot be read; expected such as 'A + B <=> C'")
        for unknown in ("orders", "Tsang", "coverage-dependencies"):
            if unknown in entry:
                raise ReadError(f"{what} has {unknown}, which is not known here")
        left, body = self._side(sides[0], names, what)
        right, _ = self._side(sides[2], names, what)
        kind = entry.get("type", "three-body" if body == "M" else "elementary")
        order = sum(left.values())
        rate = self._rate(entry, kind, order, body, what)
        label = f"{equation} ({number})"
        try:
            reactions = [Reaction(left, right, rate_constant=rate, name=label)]
            if sides[1] != "=>":
                back = DetailedBalance(rate)
                reactions.append(Reaction(right, left, rate_constant=back, name=f"{label} back"))
        except ErgodeError as error:
            raise ReadError(f"{what}: {error}") from None
        return reactions

    def _side(self, text: str, names: set[str], what: str) -> tuple[dict[str, float], str | None]:
        """Stoichiometry, and the third body if there is one."""
        found: dict[str, float] = {}
        body = None
        match = _FALLOFF.search(text)
        if match:
            body = f"(+{match[1]})"
            text = text[: match.start()] + text[match.end() :]
        for term in re.split(r"\s+\+\s+", text.strip()):
            pair = _TERM.fullmatch(term.strip())
            if pair and pair[2] == "M" and "M" not in names:
                body = "M"
            elif pair and pair[2] in names:
                found[pair[2]] = found.get(pair[2], 0.0) + float(pair[1] or 1)
            else:
                raise ReadError(f"{what} has '{term}', which is no species of the phase")
        return found, body

    def _rate(
        self, entry: Mapping[str, Any], kind: str, order: float, body: str | None, what: str
    ) -> RateCoefficient:
        efficiencies = tuple(
            (str(name), float(value)) for name, value in (entry.get("efficiencies") or {}).items()
        )
        default = float(entry.get("default-efficiency", 1.0))
        if kind in ("elementary", "Arrhenius") or (kind == "three-body" and body != "M"):
            return self._arrhenius(entry.get("rate-constant"), order, what)
        if kind == "three-body":
            rate = self._arrhenius(entry.get("rate-constant"), order + 1, what)
            return ThreeBody(rate, efficiencies, default)
        if kind == "falloff":
            if body not in ("(+M)", None):
                efficiencies, default = ((body[2:-1], 1.0),), 0.0
            troe = entry.get("Troe")
            numbers = None
            if troe is not None:
                numbers = tuple(float(troe[k]) for k in ("A", "T3", "T1", "T2") if k in troe)
            sri = entry.get("SRI")
            if sri is not None:
                usual = {"D": 1.0, "E": 0.0}
                sri = tuple(float((usual | dict(sri))[k]) for k in "ABCDE")
            return Falloff(
                self._arrhenius(entry.get("low-P-rate-constant"), order + 1, what),
                self._arrhenius(entry.get("high-P-rate-constant"), order, what),
                efficiencies, default, numbers, sri,
            )  # fmt: skip
        if kind == "pressure-dependent-Arrhenius":
            return PressureLog(
                tuple(
                    (self._pressure(one.get("P"), what), self._arrhenius(one, order, what))
                    for one in entry.get("rate-constants") or []
                )
            )
        if kind == "Chebyshev":
            return self._chebyshev(entry, order, what)
        raise ReadError(
            f"{what} has a rate of the kind {kind!r}; expected elementary, three-body, falloff, "
            "pressure-dependent-Arrhenius or Chebyshev"
        )

    def _chebyshev(self, entry: Mapping[str, Any], order: float, what: str) -> Chebyshev:
        own = entry.get("units") or {}
        length = self._unit(own, "length", _LENGTH, "") if "length" in own else self.length
        quantity = self._unit(own, "quantity", _QUANTITY, "") if "quantity" in own else None
        scale = (length**3 / (quantity or self.quantity)) ** (order - 1) / self.time
        try:
            rows = [[float(a) for a in row] for row in entry["data"]]
            rows[0][0] += math.log10(scale)
            hot = [_number(one, {"K": 1.0, "": 1.0}) for one in entry["temperature-range"]]
            pressures = [self._pressure(one, what) for one in entry["pressure-range"]]
            return Chebyshev(
                (hot[0], hot[1]), (pressures[0], pressures[1]), tuple(map(tuple, rows))
            )
        except (KeyError, TypeError, ValueError, IndexError):
            raise ReadError(
                f"{what} is no Chebyshev rate; expected data, temperature-range and pressure-range"
            ) from None

    def _pressure(self, given: Any, what: str) -> float:
        """A pressure in dyn/cm2."""
        try:
            return _number(given, _PRESSURE | {"": self.pressure})
        except (KeyError, TypeError, ValueError):
            raise ReadError(
                f"{what} has the pressure {given!r}; expected a number, or one and a unit of "
                f"{', '.join(_PRESSURE)}"
            ) from None

    def _arrhenius(self, given: Any, order: float, what: str) -> Arrhenius:
        try:
            values = (
                [given["A"], given.get("b", 0.0), given.get("Ea", 0.0)]
                if isinstance(given, Mapping)
                else list(given)
            )
            factor, exponent = float(values[0]), float(values[1])
            energy = values[2]
            if isinstance(energy, str):
                number, unit = energy.split()
                activation = float(number) * _ENERGY[unit]
            else:
                activation = float(energy) * self.energy
        except (TypeError, ValueError, KeyError, IndexError):
            raise ReadError(
                f"{what} has the rate constant {given!r}; expected A, b and Ea as numbers"
            ) from None
        scale = (self.length**3 / self.quantity) ** (order - 1) / self.time
        return Arrhenius(factor * scale, exponent, activation)


def _number(given: Any, units: Mapping[str, float]) -> float:
    """A number, or one with a unit behind it."""
    if not isinstance(given, str):
        return float(given) * units[""]
    number, _, unit = given.strip().partition(" ")
    return float(number) * units[unit.strip()]


def _load(path: Path) -> dict[str, Any]:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise ReadError(
            "reading Cantera's format needs ruamel.yaml: pip install 'ergode[chemistry]'"
        ) from None
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReadError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from None
    except YAMLError as error:
        first = " ".join(str(error).split())
        raise ReadError(f"{path}: not YAML: {first}") from None
    if not isinstance(content, dict):
        raise ReadError(f"{path}: not a mechanism; expected phases, species and reactions")
    return content
