"""Rate laws of Cantera's YAML format."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ergode.core.errors import ErgodeError, ReadError
from ergode.models.reactions.rates import (
    Arrhenius,
    BlowersMasel,
    Chebyshev,
    Efficiencies,
    Falloff,
    LinearBurke,
    PressureLog,
    RateCoefficient,
    ThreeBody,
)
from ergode.readers.bounded import short
from ergode.readers.cantera_units import Units

# Keys that do not affect the rate.
NOTES = ("note", "id")
BODIES = ("efficiencies", "default-efficiency")
_LIMITS = ("low-P-rate-constant", "high-P-rate-constant")
# Keys of each kind of reaction, besides the common ones.
KEYS = {
    "elementary": ("rate-constant", "negative-A"),
    "Blowers-Masel": ("rate-constant", "negative-A"),
    "three-body": ("rate-constant", "negative-A", *BODIES),
    "falloff": (*_LIMITS, "Troe", "SRI", *BODIES),
    "chemically-activated": (*_LIMITS, "Troe", "SRI", *BODIES),
    "pressure-dependent-Arrhenius": ("rate-constants", "negative-A"),
    "Chebyshev": ("temperature-range", "pressure-range", "data"),
    "linear-Burke": ("colliders",),
}
FALLOFFS = ("falloff", "chemically-activated")
# Laws of the collision partners of a linear-Burke reaction, and what Cantera asks for them.
_IN_MIXTURES = {
    "falloff": (*_LIMITS, "Troe"),
    "pressure-dependent-Arrhenius": KEYS["pressure-dependent-Arrhenius"],
    "Chebyshev": KEYS["Chebyshev"],
}


@dataclass
class Partners:
    """Efficiencies of molecules as collision partners."""

    efficiencies: Efficiencies
    default: float

    def of(self, name: str) -> float:
        return dict(self.efficiencies).get(name, self.default)


def only(
    entry: Mapping[str, Any], known: Iterable[str], what: str, notes: Iterable[str] = ()
) -> None:
    """Refuse keys that are neither read nor notes."""
    known = (*known, *notes)
    for key in entry:
        if key not in known:
            raise ReadError(f"{what} has the key {short(key)}, which is not known here")


def rate_of(
    entry: Mapping[str, Any],
    kind: str,
    units: Units,
    order: float,
    partners: Partners,
    what: str,
    *,
    body: bool = True,
    efficiency: float = 1.0,
) -> RateCoefficient:
    """The rate of an entry of a kind other than linear-Burke.

    Parameters
    ----------
    order : float
        Order of the reaction, without its generic collision partner.
    partners : Partners
    body : bool
        Whether a three-body reaction has a generic collision partner. If not, its rate constant is
        multiplied by the `efficiency` of the species that is the partner.
    """
    negative = truth_of(entry, "negative-A", what)
    if kind == "elementary":
        return arrhenius(entry.get("rate-constant"), order, units, what, negative)
    if kind == "Blowers-Masel":
        return _blowers_masel(entry.get("rate-constant"), order, units, what, negative)
    if kind == "Chebyshev":
        return _chebyshev(entry, order, units, what)
    if kind == "pressure-dependent-Arrhenius":
        return _pressure_log(entry, order, units, what)
    if kind == "three-body":
        if body:
            rate = arrhenius(entry.get("rate-constant"), order + 1, units, what, negative)
            return ThreeBody(rate, partners.efficiencies, partners.default)
        rate = arrhenius(entry.get("rate-constant"), order, units, what, negative)
        return Arrhenius(rate.factor * efficiency, rate.exponent, rate.activation_temperature)
    activated = kind == "chemically-activated"
    own = order - 1 if activated else order  # of the high limit
    return Falloff(
        arrhenius(entry.get("low-P-rate-constant"), own + 1, units, what),
        arrhenius(entry.get("high-P-rate-constant"), own, units, what),
        partners.efficiencies, partners.default, *_broadening(entry, units, what), activated,
    )  # fmt: skip


def linear_burke(
    entry: Mapping[str, Any],
    units: Units,
    order: float,
    species: Container[str],
    skip_bodies: bool,
    what: str,
) -> LinearBurke:
    """The rate of an entry of the kind linear-Burke.

    Parameters
    ----------
    species : container of str
    skip_bodies : bool
        Whether to skip collision partners that are not among the species.
    """
    colliders = entry.get("colliders")
    if not (
        isinstance(colliders, list)
        and colliders
        and all(isinstance(one, Mapping) for one in colliders)
        and colliders[0].get("name") == "M"
    ):
        raise ReadError(f"{what} has the colliders {short(colliders)}; expected a list, M first")
    word = "eig0" if "eig0" in colliders[0] else "efficiency"
    one_by_one = {"A": 1.0, "b": 0.0, "Ea": 0.0}
    efficiencies: dict[str, Arrhenius] = {}
    rates: dict[str, Any] = {}
    for one in colliders:
        name = str(one.get("name"))
        here = f"{what}: collider {short(name)}"
        kind = one.get("type")
        if name in efficiencies:
            raise ReadError(f"{here} is listed twice")
        if not (kind is None and efficiencies) and kind not in _IN_MIXTURES:
            raise ReadError(
                f"{here} has a rate of the kind {short(kind)}; expected {', '.join(_IN_MIXTURES)}"
            )
        keys = _IN_MIXTURES.get(kind, ())
        only(one, ("name", "type", "units", word, *keys), here, NOTES)
        if kind == "falloff" and "Troe" not in one:
            raise ReadError(f"{here} has a falloff without Troe; expected Troe")
        within = units.within(one.get("units"), here)
        usual = one_by_one if name == "M" and word == "efficiency" else None
        efficiencies[name] = _efficiency(one.get(word, usual), within, f"{here}: {word}")
        if kind is not None:
            rates[name] = rate_of(one, kind, within, order, Partners((), 1.0), here)
    reference = efficiencies["M"]
    if (word == "efficiency" and reference != Arrhenius(1.0)) or not reference.factor > 0.0:
        raise ReadError(
            f"{what}: collider M has {word} {short(colliders[0].get(word))}; expected "
            + ("A: 1, b: 0, Ea: 0, or none" if word == "efficiency" else "A above 0")
        )
    relative = {}
    for name, value in efficiencies.items():
        if name in species:
            relative[name] = Arrhenius(
                value.factor / reference.factor,
                value.exponent - reference.exponent,
                value.activation_temperature - reference.activation_temperature,
            )
        elif name != "M" and not skip_bodies:
            raise ReadError(f"{what} has the collider {short(name)}, not a species of the phase")
    own = {name: rate for name, rate in rates.items() if name in relative}
    try:
        return LinearBurke(rates["M"], tuple(relative.items()), tuple(own.items()))
    except ErgodeError as error:
        raise ReadError(f"{what}: {error}") from None


def _efficiency(given: Any, units: Units, what: str) -> Arrhenius:
    """An efficiency that depends on temperature."""
    if not isinstance(given, Mapping) or set(given) != {"A", "b", "Ea"}:
        raise ReadError(f"{what} is {short(given)}; expected A, b and Ea")
    numbers = number_of(given["A"], what), number_of(given["b"], what)
    return Arrhenius(*numbers, units.activation_energy(given["Ea"], what))


def _broadening(
    entry: Mapping[str, Any], units: Units, what: str
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Parameters of Troe and of SRI."""
    troe, sri = entry.get("Troe"), entry.get("SRI")
    if troe is not None and sri is not None:
        raise ReadError(f"{what} has Troe and SRI; expected one of them")
    for name, given, needed, also in (
        ("Troe", troe, ("A", "T3", "T1"), ("T2",)), ("SRI", sri, ("A", "B", "C"), ("D", "E")),
    ):  # fmt: skip
        if given is not None and not (
            isinstance(given, Mapping) and set(needed) <= set(given) <= {*needed, *also}
        ):
            raise ReadError(
                f"{what} has {name}: {short(given)}; expected {', '.join(needed)}, and perhaps "
                f"{', '.join(also)}"
            )
    if troe is not None:
        hot = [units.temperature_of(troe[key], what) for key in ("T3", "T1", "T2") if key in troe]
        # As in Cantera, the term of a zero temperature is omitted.
        hot = [*(one or 1e-30 for one in hot[:2]), *(one for one in hot[2:] if one)]
        return (number_of(troe["A"], what), *hot), None
    if sri is not None:
        usual = {"D": 1.0, "E": 0.0} | dict(sri)
        numbers = [
            number_of(usual[key], what) if key in "ADE" else units.temperature_of(usual[key], what)
            for key in "ABCDE"
        ]
        return None, tuple(numbers)
    return None, None


def _pressure_log(entry: Mapping[str, Any], order: float, units: Units, what: str) -> PressureLog:
    rows = entry.get("rate-constants")
    if not isinstance(rows, list) or not all(isinstance(one, Mapping) for one in rows) or not rows:
        raise ReadError(f"{what} has the rate-constants {short(rows)}; expected a list of mappings")
    points = []
    for one in rows:
        own = units.within(one.get("units"), what)
        pressure = own.pressure_of(one.get("P"), what)
        rest = {key: value for key, value in one.items() if key != "P"}
        # A negative factor is valid as one term of a sum at one pressure.
        points.append((pressure, arrhenius(rest, order, own, what, negative=True)))
    for pressure in {pressure for pressure, _ in points}:
        factors = [rate.factor for other, rate in points if other == pressure]
        if len(factors) == 1 and factors[0] <= 0:
            raise ReadError(
                f"{what} has the factor {factors[0]:g} at one pressure, which has no logarithm"
            )
    try:
        return PressureLog(tuple(points))
    except ErgodeError as error:
        raise ReadError(f"{what}: {error}") from None


def _chebyshev(entry: Mapping[str, Any], order: float, units: Units, what: str) -> Chebyshev:
    try:
        rows = [[number_of(a, what) for a in row] for row in entry["data"]]
        hot = [units.temperature_of(one, what) for one in entry["temperature-range"]]
        pressures = [units.pressure_of(one, what) for one in entry["pressure-range"]]
        rows[0][0] += math.log10(units.rate_constant(1.0, order, what))
        (cold, warm), (low, high) = hot, pressures
        return Chebyshev((cold, warm), (low, high), tuple(map(tuple, rows)))
    except ReadError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, ErgodeError):
        raise ReadError(
            f"{what} is not a Chebyshev rate; expected data, temperature-range and pressure-range"
        ) from None


def _blowers_masel(
    given: Any, order: float, units: Units, what: str, negative: bool
) -> BlowersMasel:
    if not isinstance(given, Mapping):
        raise ReadError(f"{what} has the rate constant {short(given)}; expected A, b, Ea0 and w")
    units = units.within(given.get("units"), what)
    only(given, ("A", "b", "Ea0", "w", "units"), f"{what}: rate constant")
    plain = {"A": given.get("A"), "b": given.get("b"), "Ea": given.get("Ea0")}
    rate = arrhenius(plain, order, units, what, negative)
    bond = units.activation_energy(given.get("w"), what)
    try:
        return BlowersMasel(rate.factor, rate.exponent, rate.activation_temperature, bond)
    except ErgodeError as error:
        raise ReadError(f"{what}: {error}") from None


def arrhenius(
    given: Any,
    order: float,
    units: Units,
    what: str,
    negative: bool = False,
    surface: float | None = None,
) -> Arrhenius:
    """Arrhenius' law; for `surface` see `Units.rate_constant`."""
    if isinstance(given, Mapping):
        units = units.within(given.get("units"), what)
        only(given, ("A", "b", "Ea", "units"), f"{what}: rate constant")
        values = [given.get(key) for key in ("A", "b", "Ea")]
    else:
        values = given if isinstance(given, list) else []
    if len(values) != 3 or any(value is None for value in values):
        raise ReadError(
            f"{what} has the rate constant {short(given)}; expected A, b and Ea as numbers"
        )
    factor = units.rate_constant(values[0], order, what, surface)
    if factor < 0 and not negative:
        raise ReadError(f"{what} has the negative factor {short(values[0])} without negative-A")
    try:
        return Arrhenius(
            factor, number_of(values[1], what), units.activation_energy(values[2], what)
        )
    except ErgodeError as error:
        if isinstance(error, ReadError):
            raise
        raise ReadError(f"{what}: {error}") from None


def number_of(given: Any, what: str) -> float:
    """A finite number."""
    try:
        if isinstance(given, bool | str):
            raise TypeError
        number = float(given)
        if not math.isfinite(number):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        raise ReadError(f"{what}: {short(given)} is not a finite number") from None


def truth_of(entry: Mapping[str, Any], key: str, what: str) -> bool:
    """Whether a key is true; it is false if it is not there."""
    given = entry.get(key, False)
    if not isinstance(given, bool):
        raise ReadError(f"{what} has {key}: {short(given)}; expected true or false")
    return given
