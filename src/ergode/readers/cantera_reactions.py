"""Reactions of Cantera's YAML format: equations, collision partners, duplicates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ergode.core.errors import ErgodeError, ReadError
from ergode.models.reactions.rates import DetailedBalance, PowerLaw, RateCoefficient
from ergode.models.reactions.reaction import Reaction
from ergode.readers.bounded import short
from ergode.readers.cantera_rates import (
    BODIES,
    FALLOFFS,
    KEYS,
    NOTES,
    Partners,
    linear_burke,
    number_of,
    only,
    rate_of,
    truth_of,
)
from ergode.readers.cantera_units import Units

_ARROW = re.compile(r"\s+(<=>|=>|=)\s+")
_FALLOFF = re.compile(r"(?:^|(?<=\s))\(\+\s*(\S+)\)(?=\s|$)")
_TERM = re.compile(r"(?:(\d+\.?\d*|\.\d+)\s+)?(\S+)")
# Keys of every kind of reaction.
_ALWAYS = (
    "equation", "type", "duplicate", "units", "orders", "negative-orders", "nonreactant-orders",
)  # fmt: skip
_ALIASES = {"Arrhenius": "elementary", "three-body-Arrhenius": "three-body"}
_BALANCE = 1e-4  # relative to the atoms of a side; compositions may be fractions


@dataclass
class Equation:
    """The two sides of an equation, and the generic collision partner, which is on both.

    Attributes
    ----------
    left, right : dict of str to float
    body : str
        ``""``, ``"M"``, ``"(+M)"``, or such as ``"(+AR)"``.
    reversible : bool
    """

    left: dict[str, float]
    right: dict[str, float]
    body: str
    reversible: bool


@dataclass
class Known:
    """A reaction as it is compared with others to find duplicates."""

    what: str
    kind: str
    equation: Equation
    partners: Partners | None
    marked: bool
    paired: bool = False


class Reactions:
    """Collects the reactions of a phase.

    Parameters
    ----------
    compositions : mapping
        Number of atoms in each species.
    skip_bodies : bool
        Whether to skip collision partners that are not in the phase.
    """

    def __init__(
        self, compositions: Mapping[str, Mapping[str, float]], *, skip_bodies: bool
    ) -> None:
        self.compositions = compositions
        self.skip_bodies = skip_bodies
        self.found: list[Reaction] = []
        self.known: list[Known] = []

    def add(
        self, entry: Mapping[str, Any], units: Units, what: str, number: int, *, declared_only: bool
    ) -> None:
        """Add an entry of a list of reactions.

        Parameters
        ----------
        units : Units
            Units that apply to the entry.
        what : str
            Name of the entry in messages.
        number : int
            Position in the list.
        declared_only : bool
            Skip the reaction if one of its species is not in the phase.

        Raises
        ------
        ReadError
            The entry is invalid or not supported.
        """
        text, what, equation = equation_of(entry, what)
        body = equation.body[2:-1] if equation.body.startswith("(") else ""
        for name in (*equation.left, *equation.right, *([body] if body not in ("", "M") else [])):
            if name not in self.compositions:
                if declared_only:
                    return
                raise ReadError(f"{what} has {short(name)}, which is not a species of the phase")
        kind = _kind(entry, equation, what)
        only(entry, (*_ALWAYS, *KEYS[kind]), what, NOTES)
        self.check_balance(equation, what)
        partners, efficiency = None, 1.0
        rate: RateCoefficient
        orders = self.orders_of(entry, equation, what)
        order = sum((equation.left | orders).values())
        if kind in ("three-body", *FALLOFFS):
            partners, collider = self._partners(entry, equation, what)
            if collider:  # the collision partner is an ordinary species: mass action
                efficiency = partners.of(collider)
        if kind == "linear-Burke":
            rate = linear_burke(entry, units, order, self.compositions, self.skip_bodies, what)
        else:
            rate = rate_of(
                entry, kind, units, order, partners or Partners((), 1.0), what,
                body=bool(equation.body), efficiency=efficiency,
            )  # fmt: skip
        if orders:
            rate = PowerLaw(rate, tuple(orders.items()))
        self._put(equation, rate, f"{text} ({number})", what)
        if kind == "three-body" and not equation.body:  # the partner is an ordinary species
            kind, partners = "elementary", None
        self.known.append(Known(what, kind, equation, partners, truth_of(entry, "duplicate", what)))

    def _put(self, equation: Equation, rate: RateCoefficient, name: str, what: str) -> None:
        """Add a reaction, and its reverse where it has one."""
        left, right, back = equation.left, equation.right, DetailedBalance(rate)
        try:
            self.found.append(Reaction(left, right, rate_constant=rate, name=name))
            if equation.reversible:
                self.found.append(Reaction(right, left, rate_constant=back, name=f"{name} back"))
        except ErgodeError as error:
            raise ReadError(f"{what}: {error}") from None

    def orders_of(
        self, entry: Mapping[str, Any], equation: Equation, what: str
    ) -> dict[str, float]:
        """Orders of reaction that the entry gives."""
        given = entry.get("orders") or {}
        if not isinstance(given, Mapping):
            raise ReadError(f"{what} has the orders {short(given)}; expected a mapping")
        if given and equation.reversible:
            raise ReadError(f"{what} has orders, but is reversible; expected '=>'")
        negative = truth_of(entry, "negative-orders", what)
        others = truth_of(entry, "nonreactant-orders", what)
        found = {}
        for key, value in given.items():
            name = str(key)
            if name not in self.compositions:
                raise ReadError(f"{what} has an order in {short(name)}, not a species of the phase")
            found[name] = number_of(value, f"{what}: order in {name}")
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
        groups: dict[tuple[str, ...], list[Known]] = {}
        for one in self.known:
            net = _net(one.equation)
            others = groups.setdefault(tuple(sorted((*net.left, *net.right))), [])
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
        for one in self.known:
            if one.marked and not one.paired:
                raise ReadError(f"{one.what} is marked as a duplicate, but there is no other")

    def _same(self, one: Known, other: Known) -> bool:
        if one.marked and other.marked:  # with M, and with one of its species as the partner
            return bool(_direction(_net(one.equation), _net(other.equation)))
        direction = _direction(one.equation, other.equation)
        if one.kind != other.kind or not direction:
            return False
        if direction < 0 and not (one.equation.reversible or other.equation.reversible):
            return False
        if one.partners is None or other.partners is None:
            return True
        # With other partners it is another reaction: A (+M) and A (+AR), if M excludes AR.
        return any(one.partners.of(name) * other.partners.of(name) for name in self.compositions)

    def check_balance(self, equation: Equation, what: str) -> None:
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
        self, entry: Mapping[str, Any], equation: Equation, what: str
    ) -> tuple[Partners, str]:
        """Collision partners; and the name of the partner, if it is a species on both sides."""
        given = entry.get("efficiencies") or {}
        if not isinstance(given, Mapping):
            raise ReadError(f"{what} has the efficiencies {short(given)}; expected a mapping")
        efficiencies = []
        for name, value in given.items():
            if str(name) in self.compositions:
                number = number_of(value, f"{what}: efficiency of {short(name)}")
                if number < 0:
                    raise ReadError(
                        f"{what} has the efficiency {number:g} of {name}; expected 0 or more"
                    )
                efficiencies.append((str(name), number))
            elif not self.skip_bodies:
                raise ReadError(
                    f"{what} has an efficiency of {short(name)}, not a species of the phase"
                )
        if equation.body in ("M", "(+M)"):
            default = number_of(entry.get("default-efficiency", 1.0), f"{what}: default-efficiency")
            return Partners(tuple(efficiencies), default), ""
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
                f"{what} has efficiencies of species other than its collision partner {collider}"
            )
        if number_of(entry.get("default-efficiency", 0.0), f"{what}: default-efficiency"):
            raise ReadError(
                f"{what} has a default-efficiency, but its collision partner is {collider} alone"
            )
        partners = Partners(tuple(efficiencies) or ((collider, 1.0),), 0.0)
        return partners, "" if equation.body else collider


def _net(equation: Equation) -> Equation:
    """An equation without what is on both sides."""
    left, right = (
        {name: n - other.get(name, 0.0) for name, n in side.items() if n > other.get(name, 0.0)}
        for side, other in ((equation.left, equation.right), (equation.right, equation.left))
    )
    return Equation(left, right, "", equation.reversible)


def _direction(one: Equation, other: Equation) -> int:
    """1 if two reactions are equal, -1 if one is the reverse of the other, else 0."""
    if _proportional((one.left, other.left), (one.right, other.right)):
        return 1
    return -1 if _proportional((one.left, other.right), (one.right, other.left)) else 0


def _proportional(*sides: tuple[Mapping[str, float], Mapping[str, float]]) -> bool:
    if any(one.keys() != other.keys() for one, other in sides):
        return False
    return len({round(other[name] / one[name], 9) for one, other in sides for name in one}) <= 1


def equation_of(entry: Mapping[str, Any], what: str) -> tuple[str, str, Equation]:
    """The equation of an entry: its text, the name of the entry with it, and its sides."""
    text = entry.get("equation")
    if not isinstance(text, str):
        raise ReadError(f"{what} has the equation {short(text)}; expected such as 'A => B'")
    what = f"{what} {short(text)}"
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
    return text, what, Equation(left, right, body, sides[1] != "=>")


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


def _kind(entry: Mapping[str, Any], equation: Equation, what: str) -> str:
    kind = entry.get("type")
    if kind is None:
        # As in Cantera: a species on both sides is the collision partner if the entry names one.
        partners = equation.body == "M" or any(key in entry for key in BODIES)
        kind = "three-body" if partners else "elementary"
    kind = _ALIASES.get(kind, kind) if isinstance(kind, str) else ""
    if kind not in KEYS:
        raise ReadError(
            f"{what} has a rate of the kind {short(entry.get('type'))}; expected {', '.join(KEYS)}"
        )
    bodies = {
        "elementary": ("",), "Blowers-Masel": ("",), "three-body": ("", "M"), "falloff": ("(+",),
        "chemically-activated": ("(+",),
        "pressure-dependent-Arrhenius": ("", "(+M)"), "Chebyshev": ("", "(+M)"),
        "linear-Burke": ("", "(+M)"),
    }  # fmt: skip
    if equation.body[: 2 if kind in FALLOFFS else None] not in bodies[kind]:
        raise ReadError(
            f"{what} has the collision partner {equation.body or 'none'}, which does not go with a "
            f"rate of the kind {kind}"
        )
    return kind
