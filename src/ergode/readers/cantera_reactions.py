"""Reactions of Cantera's YAML format: equations, collision partners, rate laws, duplicates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ergode.core.errors import ErgodeError, ReadError
from ergode.models.reactions.rates import (
    Arrhenius,
    BlowersMasel,
    Chebyshev,
    DetailedBalance,
    Efficiencies,
    Falloff,
    PowerLaw,
    PressureLog,
    RateCoefficient,
    ThreeBody,
)
from ergode.models.reactions.reaction import Reaction
from ergode.readers.bounded import located, short
from ergode.readers.cantera_units import Units

_ARROW = re.compile(r"\s+(<=>|=>|=)\s+")
_FALLOFF = re.compile(r"(?:^|(?<=\s))\(\+\s*(\S+)\)(?=\s|$)")
_TERM = re.compile(r"(?:(\d+\.?\d*|\.\d+)\s+)?(\S+)")

# Keys that do not affect the rate.
_NOTES = ("note", "id")
_ALWAYS = (
    "equation", "type", "duplicate", "units", "orders", "negative-orders", "nonreactant-orders",
)  # fmt: skip
_BODIES = ("efficiencies", "default-efficiency")
# Keys of each kind of reaction, besides the common ones.
_KEYS = {
    "elementary": ("rate-constant", "negative-A"),
    "Blowers-Masel": ("rate-constant", "negative-A"),
    "three-body": ("rate-constant", "negative-A", *_BODIES),
    "falloff": ("low-P-rate-constant", "high-P-rate-constant", "Troe", "SRI", *_BODIES),
    "chemically-activated": (
        "low-P-rate-constant",
        "high-P-rate-constant",
        "Troe",
        "SRI",
        *_BODIES,
    ),
    "pressure-dependent-Arrhenius": ("rate-constants", "negative-A"),
    "Chebyshev": ("temperature-range", "pressure-range", "data"),
}
_FALLOFFS = ("falloff", "chemically-activated")
_ALIASES = {"Arrhenius": "elementary", "three-body-Arrhenius": "three-body"}
_BALANCE = 1e-4  # relative to the atoms of a side; compositions may be fractions


@dataclass
class _Equation:
    """The two sides of an equation, and the generic collision partner, which is on both."""

    left: dict[str, float]
    right: dict[str, float]
    body: str  # ``""``, ``"M"``, ``"(+M)"``, or such as ``"(+AR)"``
    reversible: bool


@dataclass
class _Partners:
    """Efficiencies of molecules as collision partners."""

    efficiencies: Efficiencies
    default: float

    def of(self, name: str) -> float:
        return dict(self.efficiencies).get(name, self.default)


@dataclass
class _Known:
    """A reaction as it is compared with others to find duplicates."""

    what: str
    kind: str
    equation: _Equation
    partners: _Partners | None
    marked: bool
    paired: bool = False


class Reactions:
    """Collects the reactions of a phase, whose species have these `compositions` in atoms.

    `skip_bodies`: collision partners that are not in the phase are skipped.
    """

    def __init__(
        self, compositions: Mapping[str, Mapping[str, float]], *, skip_bodies: bool
    ) -> None:
        self.compositions = compositions
        self.skip_bodies = skip_bodies
        self.found: list[Reaction] = []
        self._known: list[_Known] = []

    def add(
        self, entry: Mapping[str, Any], units: Units, what: str, number: int, *, declared_only: bool
    ) -> None:
        """Add entry `number` of a list of reactions, with its units and its name in messages.

        `declared_only`: the reaction is skipped if one of its species is not in the phase.

        Raises a ReadError if the entry is invalid or not supported.
        """
        text = entry.get("equation")
        if not isinstance(text, str):
            raise ReadError(f"{what} has the equation {short(text)}; expected such as 'A => B'")
        what = f"{what} {short(text)}"
        equation = _equation(text, what)
        body = equation.body[2:-1] if equation.body.startswith("(") else ""
        for name in (*equation.left, *equation.right, *([body] if body not in ("", "M") else [])):
            if name not in self.compositions:
                if declared_only:
                    return
                raise ReadError(f"{what} has {short(name)}, which is not a species of the phase")
        kind = _kind(entry, equation, what)
        only(entry, (*_ALWAYS, *_KEYS[kind]), what, _NOTES)
        self._check_balance(equation, what)
        partners, efficiency = None, 1.0
        orders = self._orders(entry, equation, what)
        order = sum((equation.left | orders).values())
        if kind in ("three-body", *_FALLOFFS):
            partners, collider = self._partners(entry, equation, what)
            if collider:  # the collision partner is an ordinary species: mass action
                efficiency = partners.of(collider)
        rate = _rate(entry, kind, equation, units, order, partners, efficiency, what)
        if orders:
            rate = PowerLaw(rate, tuple(orders.items()))
        label = f"{text} ({number})"
        with located(what):
            self.found.append(
                Reaction(equation.left, equation.right, rate_constant=rate, name=label)
            )
            if equation.reversible:
                back = DetailedBalance(rate)
                self.found.append(
                    Reaction(
                        equation.right, equation.left, rate_constant=back, name=f"{label} back"
                    )
                )
        if not equation.body:  # a species on both sides is an ordinary species
            kind, partners = "elementary", None
        self._known.append(_Known(what, kind, equation, partners, _truth(entry, "duplicate", what)))

    def _orders(self, entry: Mapping[str, Any], equation: _Equation, what: str) -> dict[str, float]:
        """Orders of reaction that the entry gives."""
        given = entry.get("orders") or {}
        if not isinstance(given, Mapping):
            raise ReadError(f"{what} has the orders {short(given)}; expected a mapping")
        if given and equation.reversible:
            raise ReadError(f"{what} has orders, but is reversible; expected '=>'")
        negative = _truth(entry, "negative-orders", what)
        others = _truth(entry, "nonreactant-orders", what)
        found = {}
        for key, value in given.items():
            name = str(key)
            if name not in self.compositions:
                raise ReadError(f"{what} has an order in {short(name)}, not a species of the phase")
            found[name] = _number(value, f"{what}: order in {name}")
            if found[name] < 0 and not negative:
                raise ReadError(
                    f"{what} has the order {found[name]:g} in {name} without negative-orders: true"
                )
            if name not in equation.left and not others:
                raise ReadError(
                    f"{what} has an order in {name}, which is no reactant, without "
                    "nonreactant-orders: true"
                )
        return found

    def check_duplicates(self) -> None:
        """Refuse unmarked duplicates, and a duplicate mark on a reaction that occurs once."""
        groups: dict[tuple[str, ...], list[_Known]] = {}
        for one in self._known:
            names = {*one.equation.left, *one.equation.right}
            others = groups.setdefault(tuple(sorted(names)), [])
            for other in others:
                if not self._same(one, other):
                    continue
                if one.marked and other.marked:
                    one.paired = other.paired = True
                else:
                    raise ReadError(
                        f"{one.what} is the same as {other.what}; mark both with duplicate: true, "
                        "or remove one"
                    )
            others.append(one)
        for one in self._known:
            if one.marked and not one.paired:
                raise ReadError(f"{one.what} is marked as a duplicate, but there is no other")

    def _same(self, one: _Known, other: _Known) -> bool:
        if one.marked and other.marked:
            return bool(_direction(one.equation, other.equation))
        direction = _direction(one.equation, other.equation)
        if one.kind != other.kind or not direction:
            return False
        if direction < 0 and not (one.equation.reversible or other.equation.reversible):
            return False
        if one.partners is None or other.partners is None:
            return True
        # With other partners it is another reaction: A (+M) and A (+AR), if M excludes AR.
        return any(one.partners.of(name) * other.partners.of(name) for name in self.compositions)

    def _check_balance(self, equation: _Equation, what: str) -> None:
        sums: dict[str, list[float]] = {}
        for side, counts in enumerate((equation.left, equation.right)):
            for name, count in counts.items():
                for element, atoms in self.compositions[name].items():
                    sums.setdefault(element, [0.0, 0.0])[side] += count * atoms
        for element, (left, right) in sums.items():
            if abs(left - right) > _BALANCE * max(abs(left), abs(right)):
                raise ReadError(
                    f"{what} is not balanced: {left:g} {element} on the left, {right:g} on the "
                    "right"
                )

    def _partners(
        self, entry: Mapping[str, Any], equation: _Equation, what: str
    ) -> tuple[_Partners, str]:
        """Collision partners; and the name of the partner, if it is a species on both sides."""
        given = entry.get("efficiencies") or {}
        if not isinstance(given, Mapping):
            raise ReadError(f"{what} has the efficiencies {short(given)}; expected a mapping")
        efficiencies = []
        for name, value in given.items():
            if str(name) in self.compositions:
                number = _number(value, f"{what}: efficiency of {short(name)}")
                if number < 0:
                    raise ReadError(f"{what} has the efficiency {number:g} of {name}")
                efficiencies.append((str(name), number))
            elif not self.skip_bodies:
                raise ReadError(
                    f"{what} has an efficiency of {short(name)}, not a species of the phase"
                )
        if equation.body in ("M", "(+M)"):
            default = _number(entry.get("default-efficiency", 1.0), f"{what}: default-efficiency")
            return _Partners(tuple(efficiencies), default), ""
        if equation.body:
            collider = equation.body[2:-1]
        else:
            both = [name for name in equation.left if name in equation.right]
            if len(both) != 1:
                raise ReadError(
                    f"{what} is a three-body reaction with {len(both)} species on both sides; "
                    "expected M, or one"
                )
            collider = both[0]
        if {str(name) for name in given} - {collider}:
            raise ReadError(
                f"{what} has efficiencies of others than its collision partner {collider}"
            )
        if _number(entry.get("default-efficiency", 0.0), f"{what}: default-efficiency"):
            raise ReadError(
                f"{what} has a default-efficiency, but its collision partner is {collider} alone"
            )
        partners = _Partners(tuple(efficiencies) or ((collider, 1.0),), 0.0)
        return partners, "" if equation.body else collider


def only(
    entry: Mapping[str, Any], known: Iterable[str], what: str, notes: Iterable[str] = ()
) -> None:
    """Refuse keys that are neither read nor notes."""
    known = (*known, *notes)
    for key in entry:
        if key not in known:
            raise ReadError(f"{what} has the key {short(key)}, which is not known here")


def _direction(one: _Equation, other: _Equation) -> int:
    """1 if two reactions are equal, -1 if one is the reverse of the other, else 0."""
    if _proportional((one.left, other.left), (one.right, other.right)):
        return 1
    return -1 if _proportional((one.left, other.right), (one.right, other.left)) else 0


def _proportional(*sides: tuple[Mapping[str, float], Mapping[str, float]]) -> bool:
    if any(one.keys() != other.keys() for one, other in sides):
        return False
    return len({round(other[name] / one[name], 9) for one, other in sides for name in one}) <= 1


def _equation(text: str, what: str) -> _Equation:
    sides = _ARROW.split(f" {text} ")
    if len(sides) != 3:
        raise ReadError(f"{what} cannot be read; expected such as 'A + B <=> C'")
    left, body = _side(sides[0], what)
    right, other = _side(sides[2], what)
    if body != other:
        raise ReadError(
            f"{what} has the collision partner {body or 'none'} on the left and {other or 'none'} "
            "on the right; expected the same"
        )
    return _Equation(left, right, body, sides[1] != "=>")


def _side(text: str, what: str) -> tuple[dict[str, float], str]:
    """Stoichiometry of a side, and its generic collision partner, if any."""
    found: dict[str, float] = {}
    body = ""
    match = _FALLOFF.search(text)
    if match:
        body = f"(+{match[1]})"
        text = text[: match.start()] + text[match.end() :]
    for term in re.split(r"\s+\+\s+", text.strip()):
        pair = _TERM.fullmatch(term.strip())
        if not pair:
            raise ReadError(f"{what} has {short(term)}, which cannot be read")
        if pair[2] == "M" and not body and not pair[1]:
            body = "M"
        else:
            found[pair[2]] = found.get(pair[2], 0.0) + float(pair[1] or 1)
    return found, body


def _kind(entry: Mapping[str, Any], equation: _Equation, what: str) -> str:
    kind = entry.get("type")
    if kind is None:
        # As in Cantera: a species on both sides is the collision partner if the entry names one.
        partners = equation.body == "M" or any(key in entry for key in _BODIES)
        kind = "three-body" if partners else "elementary"
    kind = _ALIASES.get(kind, kind) if isinstance(kind, str) else ""
    if kind not in _KEYS:
        raise ReadError(
            f"{what} has a rate of the kind {short(entry.get('type'))}; expected {', '.join(_KEYS)}"
        )
    bodies = {
        "elementary": ("",), "Blowers-Masel": ("",), "three-body": ("", "M"), "falloff": ("(+",),
        "chemically-activated": ("(+",),
        "pressure-dependent-Arrhenius": ("", "(+M)"), "Chebyshev": ("", "(+M)"),
    }  # fmt: skip
    if equation.body[: 2 if kind in _FALLOFFS else None] not in bodies[kind]:
        raise ReadError(
            f"{what} has the collision partner {equation.body or 'none'}, which does not go with a "
            f"rate of the kind {kind}"
        )
    return kind


def _rate(
    entry: Mapping[str, Any],
    kind: str,
    equation: _Equation,
    units: Units,
    order: float,
    partners: _Partners | None,
    efficiency: float,
    what: str,
) -> RateCoefficient:
    negative = _truth(entry, "negative-A", what)
    if kind == "elementary":
        return _arrhenius(entry.get("rate-constant"), order, units, what, negative)
    if kind == "Blowers-Masel":
        return _blowers_masel(entry.get("rate-constant"), order, units, what, negative)
    if kind == "Chebyshev":
        return _chebyshev(entry, order, units, what)
    if kind == "pressure-dependent-Arrhenius":
        return _pressure_log(entry, order, units, what)
    assert partners is not None
    if kind == "three-body":
        if equation.body:
            rate = _arrhenius(entry.get("rate-constant"), order + 1, units, what, negative)
            return ThreeBody(rate, partners.efficiencies, partners.default)
        rate = _arrhenius(entry.get("rate-constant"), order, units, what, negative)
        return Arrhenius(rate.factor * efficiency, rate.exponent, rate.activation_temperature)
    activated = kind == "chemically-activated"
    own = order - 1 if activated else order  # of the high limit
    return Falloff(
        _arrhenius(entry.get("low-P-rate-constant"), own + 1, units, what),
        _arrhenius(entry.get("high-P-rate-constant"), own, units, what),
        partners.efficiencies, partners.default, *_broadening(entry, units, what), activated,
    )  # fmt: skip


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
        return (_number(troe["A"], what), *hot), None
    if sri is not None:
        usual = {"D": 1.0, "E": 0.0} | dict(sri)
        numbers = [
            _number(usual[key], what) if key in "ADE" else units.temperature_of(usual[key], what)
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
        points.append((pressure, _arrhenius(rest, order, own, what, negative=True)))
    for pressure in {pressure for pressure, _ in points}:
        factors = [rate.factor for other, rate in points if other == pressure]
        if len(factors) == 1 and factors[0] <= 0:
            raise ReadError(
                f"{what} has the factor {factors[0]:g} at one pressure, which has no logarithm"
            )
    with located(what):
        return PressureLog(tuple(points))


def _chebyshev(entry: Mapping[str, Any], order: float, units: Units, what: str) -> Chebyshev:
    try:
        rows = [[_number(a, what) for a in row] for row in entry["data"]]
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
    rate = _arrhenius(plain, order, units, what, negative)
    bond = units.activation_energy(given.get("w"), what)
    with located(what):
        return BlowersMasel(rate.factor, rate.exponent, rate.activation_temperature, bond)


def _arrhenius(
    given: Any, order: float, units: Units, what: str, negative: bool = False
) -> Arrhenius:
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
    factor = units.rate_constant(values[0], order, what)
    if factor < 0 and not negative:
        raise ReadError(f"{what} has the negative factor {short(values[0])} without negative-A")
    with located(what):
        return Arrhenius(factor, _number(values[1], what), units.activation_energy(values[2], what))


def _number(given: Any, what: str) -> float:
    try:
        if isinstance(given, bool | str):
            raise TypeError
        number = float(given)
        if not math.isfinite(number):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        raise ReadError(f"{what}: {short(given)} is not a finite number") from None


def _truth(entry: Mapping[str, Any], key: str, what: str) -> bool:
    given = entry.get(key, False)
    if not isinstance(given, bool):
        raise ReadError(f"{what} has {key}: {short(given)}; expected true or false")
    return given
