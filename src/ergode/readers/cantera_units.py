"""Units of Cantera's YAML format: defaults of a file and its sections, and units of single values.

Values are converted to cm, mol, s, K and dyn/cm2; activation energies to temperatures [K].
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ergode.core.errors import ReadError
from ergode.models.constants import AVOGADRO
from ergode.readers.bounded import short

_GAS_CONSTANT = 8.31446261815324  # J / (mol K)

# Value of each unit in cm, mol, s, J, dyn/cm2 and K; and its kind of quantity.
_LENGTH = {
    "m": 100.0, "cm": 1.0, "mm": 0.1, "um": 1e-4, "micron": 1e-4, "nm": 1e-7, "angstrom": 1e-8,
    "km": 1e5,
}  # fmt: skip
_QUANTITY = {
    "mol": 1.0, "gmol": 1.0, "kmol": 1e3, "mmol": 1e-3, "umol": 1e-6, "molec": 1.0 / AVOGADRO,
}  # fmt: skip
_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "hr": 3600.0}
_ENERGY = {
    "J": 1.0, "kJ": 1e3, "MJ": 1e6, "cal": 4.184, "kcal": 4184.0, "erg": 1e-7,
    "eV": 1.602176634e-19,
}  # fmt: skip
_PRESSURE = {
    "Pa": 10.0, "kPa": 1e4, "MPa": 1e7, "hPa": 1e3, "bar": 1e6, "mbar": 1e3, "atm": 1.01325e6,
    "torr": 1.01325e6 / 760, "dyn/cm^2": 1.0,
}  # fmt: skip
_TEMPERATURE = {"K": 1.0}
_KINDS: dict[str, Mapping[str, float]] = {
    "length": _LENGTH, "quantity": _QUANTITY, "time": _TIME, "energy": _ENERGY,
    "pressure": _PRESSURE, "temperature": _TEMPERATURE,
}  # fmt: skip
# Kinds that do not affect the kinetics; Cantera allows defaults for them.
_IGNORED = ("mass", "current")
_BASE = {word: (factor, kind) for kind, known in _KINDS.items() for word, factor in known.items()}
_FACTOR = re.compile(r"([A-Za-z]+)\^?([+-]?\d+)?")


@dataclass(frozen=True)
class Units:
    """Default units that apply at one place of a file."""

    # One unit in cm, mol and s.
    length: float = 100.0
    quantity: float = 1e3
    time: float = 1.0
    # One unit in J and dyn/cm2.
    energy: float = 1.0
    pressure: float = 10.0
    # One unit of activation energy in K if the file sets it; None: energy per quantity.
    activation: float | None = None

    def within(self, given: Any, what: str) -> Units:
        """The units inside an entry whose key ``units`` has the value `given`."""
        if given is None:
            return self
        if not isinstance(given, Mapping):
            raise ReadError(f"{what} has the units {short(given)}; expected a mapping")
        found: dict[str, float] = {}
        for kind, word in given.items():
            if kind in _IGNORED or kind == "activation-energy":
                continue
            known = _KINDS.get(str(kind))
            if known is None:
                raise ReadError(
                    f"{what} has a unit of {short(kind)}; expected {', '.join(_KINDS)} or "
                    "activation-energy"
                )
            if not isinstance(word, str) or word not in known:
                raise ReadError(f"{what} has the unit {short(word)} of {kind}; {_known(known)}")
            found[str(kind)] = known[word]
        found.pop("temperature", None)
        units = replace(self, **found)
        if "activation-energy" in given:
            return replace(units, activation=_activation(given["activation-energy"], what))
        return units

    def rate_constant(
        self, given: Any, order: float, what: str, surface: float | None = None
    ) -> float:
        """A rate constant of a reaction of this order [(cm3/mol)^(order - 1) / s].

        `surface` is the part of the order that species on a surface have, whose amounts and rates
        are by area [mol/cm2].
        """
        number, unit = _split(given, what)
        length = 3 * (order - 1) + (0 if surface is None else 1 - surface)
        if unit is None and surface is not None:
            return number * self.length**length * self.quantity ** (1 - order) / self.time
        if unit is None:
            return number * (self.length**3 / self.quantity) ** (order - 1) / self.time
        factor, dims = _parsed(unit, what)
        if dims != _dimensions(length=length, quantity=1 - order, time=-1):
            raise ReadError(
                f"{what} has the rate constant {short(given)}, whose unit does not fit a reaction "
                f"of order {order:g}"
            )
        return number * factor

    def activation_energy(self, given: Any, what: str) -> float:
        """An activation energy divided by the gas constant [K]."""
        number, unit = _split(given, what)
        if unit is not None:
            return number * _activation(unit, what)
        if self.activation is not None:
            return number * self.activation
        return number * self.energy / self.quantity / _GAS_CONSTANT

    def pressure_of(self, given: Any, what: str) -> float:
        """A pressure [dyn/cm2]."""
        return self._of(given, self.pressure, _PRESSURE, "pressure", what)

    def temperature_of(self, given: Any, what: str) -> float:
        """A temperature [K]."""
        return self._of(given, 1.0, _TEMPERATURE, "temperature", what)

    def _of(
        self, given: Any, usual: float, known: Mapping[str, float], kind: str, what: str
    ) -> float:
        number, unit = _split(given, what)
        if unit is None:
            return number * usual
        if unit not in known:
            raise ReadError(f"{what} has the {kind} {short(given)}; {_known(known)}")
        return number * known[unit]


def _split(given: Any, what: str) -> tuple[float, str | None]:
    """A number, and its unit if it has one."""
    try:
        if isinstance(given, bool):
            raise TypeError
        if not isinstance(given, str):
            return float(given), None
        number, _, unit = given.strip().partition(" ")
        return float(number), unit.strip() or None
    except (TypeError, ValueError, OverflowError):
        raise ReadError(
            f"{what} has {short(given)}; expected a number, or one and its unit"
        ) from None


def _activation(unit: Any, what: str) -> float:
    """One unit of activation energy in kelvin."""
    factor, dims = _parsed(unit, what)
    if dims == {"temperature": 1}:
        return factor
    if dims == {"energy": 1, "quantity": -1}:
        return factor / _GAS_CONSTANT
    if dims == {"energy": 1}:  # per molecule
        return factor * AVOGADRO / _GAS_CONSTANT
    raise ReadError(
        f"{what} has the unit {short(unit)} of activation-energy; expected such as J/kmol, "
        "cal/mol, K or eV"
    )


def _parsed(unit: Any, what: str) -> tuple[float, dict[str, int]]:
    """A unit such as ``cm^3/mol/s``: its factor, and the exponents of its kinds of quantities."""
    factor, dims = 1.0, dict[str, int]()
    pieces = re.split(r"([*/])", unit.replace(" ", "")) if isinstance(unit, str) else []
    signs = [1, *(1 if sign == "*" else -1 for sign in pieces[1::2])]
    for sign, word in zip(signs, pieces[::2], strict=False):
        match = _FACTOR.fullmatch(word)
        if word == "1":
            continue
        if match is None or match[1] not in _BASE or len(match[2] or "") > 3:
            raise ReadError(f"{what} has the unit {short(unit)}, which cannot be read")
        one, kind = _BASE[match[1]]
        power = sign * int(match[2] or 1)
        factor *= one**power
        dims[kind] = dims.get(kind, 0) + power
    if not pieces:
        raise ReadError(f"{what} has the unit {short(unit)}, which cannot be read")
    return factor, {kind: power for kind, power in dims.items() if power}


def _dimensions(**powers: float) -> dict[str, float]:
    return {kind: power for kind, power in powers.items() if power}


def _known(known: Mapping[str, float]) -> str:
    return f"expected {', '.join(known)}"
