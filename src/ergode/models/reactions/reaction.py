"""Reactions: reactants, products and rates, one by one or as a flat table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, overload

import numpy as np

from ergode.core.arguments import check_distinct, check_switch, check_text, did_you_mean, sequence
from ergode.core.errors import ModelError
from ergode.models.expressions import Expression, number_or_expression
from ergode.models.holding_times.base import HoldingTime
from ergode.models.reactions.rates import RateCoefficient

_PLUS = re.compile(r"(?<=\s)\+(?=\s)|(?<=\w)\+(?=\w)")
_TERM = re.compile(r"(?:(\d+(?:\.\d+)?)\s+)?(\S+)")
_TIMES = re.compile(r"(\d+(?:\.\d+)?)\s*\*\s*([^\W\d]\w*)")
# Not an error in itself: such names are valid for nuclei.
_GLUED = re.compile(r"(\d+(?:\.\d+)?)([^\W\d]\w*)")
_NOTHING = ("", "0", "∅")


class Law(IntEnum):
    """Meaning of the number or formula of a reaction."""

    DETERMINISTIC = 0
    """Mass action: the rate of change of concentrations is k [A]^a [B]^b ..."""
    STOCHASTIC = 1
    """Mass action: c dt is the probability that a given combination of molecules reacts."""
    RATE = 2
    """The whole rate [amount / time]."""

    @property
    def argument(self) -> str:
        """The argument of `Reaction` that gives it."""
        return ("rate_constant", "stochastic_rate_constant", "rate")[self]


_ARGUMENTS = {law.argument: law for law in Law}


@dataclass(frozen=True, init=False, eq=True)
class Reaction:
    """One reaction.

    Parameters
    ----------
    reactants, products : mapping of str to float, or sequence of str
        Stoichiometry by name of the species; in a sequence a name may be repeated. Instead of
        both, the first argument may be the whole reaction as text: ``"2 A + B -> C"``.
    rate_constant : float, str or RateCoefficient, optional
        Deterministic mass action, with concentrations: for ``A + B`` the rate is k [A] [B], for
        ``2 A`` it is k [A]^2. A formula may use parameters and compartments.
    stochastic_rate_constant : float or str, optional
        Gillespie's c: for ``A + B`` the propensity is c n(A) n(B), for ``2 A`` it is
        c n(A) (n(A) - 1) / 2.
    rate : float or str, optional
        The whole rate [amount / time], a formula of species, parameters, compartments and
        ``time``: Michaelis-Menten, Hill, ...
    name : str, optional
    delay : float, str or HoldingTime, optional
        Time from the firing, when reactants are consumed, to when products appear. A formula is
        evaluated at the firing, without what it has consumed; a negative value counts as zero, if
        amounts make it so. A holding time, such as ``ergode.Gamma(mean=10, sd=2)``, is drawn for
        each firing.
    consuming : bool
        Whether the firing consumes the reactants. If not, they are consumed when products appear,
        as by the non-consuming delayed reactions of [Cai2007]_; until then they react on. A
        molecule that two firings take ends its realization, with the status ``NEGATIVE_RATE``.

    Raises
    ------
    ModelError
        Not exactly one of the three rates is given, an argument cannot be read, or `consuming` is
        False without a delay.

    References
    ----------
    .. [Cai2007] X. Cai, "Exact stochastic simulation of coupled chemical reactions with delays",
       J. Chem. Phys. 126, 124108 (2007).

    Examples
    --------
    >>> import ergode
    >>> ergode.Reaction("2 A + B -> C", rate_constant=0.5).reactants
    {'A': 2.0, 'B': 1.0}
    >>> ergode.Reaction(["A"], [], rate="v * A / (K + A)").law.name
    'RATE'
    """

    reactants: Mapping[str, float]
    products: Mapping[str, float]
    law: Law
    value: float | Expression | RateCoefficient
    name: str | None
    delay: float | Expression | HoldingTime | None
    consuming: bool

    def __init__(
        self,
        reactants: str | Mapping[str, float] | Iterable[str],
        products: Mapping[str, float] | Iterable[str] | None = None,
        *,
        rate_constant: float | str | Expression | RateCoefficient | None = None,
        stochastic_rate_constant: float | str | Expression | None = None,
        rate: float | str | Expression | None = None,
        name: str | None = None,
        delay: float | str | Expression | HoldingTime | None = None,
        consuming: bool = True,
    ) -> None:
        what = f"reaction '{name if name is not None else reactants}'"
        if name is not None:
            check_text("a reaction", "name", name)
        if isinstance(reactants, str):
            if products is not None:
                raise ModelError(
                    f"{what} has a text and products; expected 'A + B -> C', or separate sides"
                )
            left, right = _sides(reactants)
        else:
            left, right = (
                _stoichiometry(side, what, part)
                for side, part in ((reactants, "reactants"), (products, "products"))
            )
        given = {
            word: value
            for word, value in (
                ("rate_constant", rate_constant),
                ("stochastic_rate_constant", stochastic_rate_constant),
                ("rate", rate),
            )
            if value is not None
        }
        if len(given) != 1:
            raise ModelError(
                f"{what} has {' and '.join(given) or 'no rate'}; expected one of rate_constant, "
                "stochastic_rate_constant and rate"
            )
        ((word, value),) = given.items()
        if not (word == "rate_constant" and isinstance(value, RateCoefficient)):
            value = number_or_expression(value, f"{word} of {what}")
            # Deterministic reactions may have negative rates; simulations refuse others.
            if not isinstance(value, Expression) and value < 0 and word != "rate":
                raise ModelError(f"{word} of {what} is {value:g}; expected 0 or more")
        check_switch(what, "consuming", consuming)
        if delay is None and not consuming:
            raise ModelError(f"{what} has consuming=False and no delay; give a delay")
        if delay is not None and not isinstance(delay, HoldingTime):
            delay = number_or_expression(delay, f"delay of {what}")
            if not isinstance(delay, Expression) and delay < 0:
                raise ModelError(f"delay of {what} is {delay:g}; expected 0 or more")
        fields = (left, right, _ARGUMENTS[word], value, name, delay, bool(consuming))
        for attribute, item in zip(self.__dataclass_fields__, fields, strict=True):
            object.__setattr__(self, attribute, item)

    @property
    def rate_constant(self) -> float | Expression | RateCoefficient | None:
        """The rate constant; None if the rate was given otherwise."""
        return self._given(Law.DETERMINISTIC)

    @property
    def stochastic_rate_constant(self) -> float | Expression | None:
        """Gillespie's c; None if the rate was given otherwise."""
        return self._given(Law.STOCHASTIC)

    @property
    def rate(self) -> float | Expression | None:
        """The whole rate; None if it was given by a constant."""
        return self._given(Law.RATE)

    def _given(self, law: Law) -> Any:
        return self.value if self.law is law else None

    def __str__(self) -> str:
        def side(items: Mapping[str, float]) -> str:
            return " + ".join(n if k == 1 else f"{k:g} {n}" for n, k in items.items()) or "0"

        return f"{side(self.reactants)} -> {side(self.products)}"


def _sides(text: str) -> tuple[dict[str, float], dict[str, float]]:
    for arrow in ("<->", "<=>", "<-->"):
        if f" {arrow} " in text:
            raise ModelError(
                f"reaction '{text}' is reversible; write two reactions with '->', each with its "
                "own rate"
            )
    sides = re.split(r"\s*->\s*", text.strip())
    if len(sides) != 2:
        raise ModelError(f"reaction '{text}' cannot be read; expected such as 'A + 2 B -> C'")
    return _read_side(sides[0], text), _read_side(sides[1], text)


def _read_side(side: str, text: str) -> dict[str, float]:
    counts: dict[str, float] = {}
    if side.strip() in _NOTHING:
        return counts
    for term in _PLUS.split(side):
        match = _TERM.fullmatch(term.strip())
        times = _TIMES.fullmatch(term.strip())
        if times:
            raise ModelError(f"reaction '{text}' has the term '{times[0]}'; {_advice(times)}")
        if not match or match[2] == "+":
            raise ModelError(
                f"reaction '{text}' has the term '{term.strip()}'; expected a species, or a "
                "number, a space and a species, such as '2 A'"
            )
        counts[match[2]] = counts.get(match[2], 0.0) + float(match[1] or 1)
    return counts


def _advice(term: re.Match[str]) -> str:
    return f"write '{term[1]} {term[2]}' for {term[1]} of '{term[2]}'"


def _stoichiometry(side: Any, what: str, part: str) -> dict[str, float]:
    if not isinstance(side, Mapping):
        expected = "names of species, or a mapping of them to counts"
        side = sequence(f"{part} of {what}", side, expected)
        for name in side:
            if not isinstance(name, str):
                raise ModelError(f"{part} of {what} has {name!r}; expected {expected}")
    if not isinstance(side, Mapping):
        counts: dict[str, float] = {}
        for name in side:
            counts[name] = counts.get(name, 0.0) + 1.0
        return counts
    for name, count in side.items():
        if (
            isinstance(count, bool)
            or not isinstance(count, int | float | np.number)
            or not 0 < count < np.inf
        ):
            raise ModelError(f"{part} of {what}: '{name}' is {count!r}; expected a positive number")
    return {name: float(count) for name, count in side.items()}


def _constant(values: Any, dtype: Any) -> np.ndarray:
    array = np.array(values, dtype, order="C")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class ReactionTable(Sequence[Reaction]):
    """Reactions as flat arrays: the storage of a network, and input for large networks.

    Attributes
    ----------
    species : tuple of str
        Names that indices of species refer to.
    reactant_starts, product_starts : ndarray of int64, shape [reaction_count + 1]
        Where the entries of each reaction start.
    reactant_species, product_species : ndarray of int32
        Index of the species of each entry.
    reactant_counts, product_counts : ndarray of float64
        Stoichiometry of each entry.
    laws : ndarray of uint8, shape [reaction_count]
        Meaning of each value (see `Law`).
    values : ndarray of float64, shape [reaction_count]
        Rate or rate constant of each reaction; NaN if it is a formula.
    formulas : mapping of int to Expression or RateCoefficient
        Formulas, by index of the reaction.
    delays : mapping of int to float, Expression or HoldingTime
        Delays of products, by index of the reaction.
    names : sequence of str, or None
        Names of all reactions; None numbers them R1, R2, ...
    late : set of int
        Reactions whose reactants are consumed after the delay.
    """

    species: tuple[str, ...]
    reactant_starts: np.ndarray
    reactant_species: np.ndarray
    reactant_counts: np.ndarray
    product_starts: np.ndarray
    product_species: np.ndarray
    product_counts: np.ndarray
    laws: np.ndarray
    values: np.ndarray
    formulas: Mapping[int, Expression | RateCoefficient] = field(default_factory=dict)
    delays: Mapping[int, float | Expression | HoldingTime] = field(default_factory=dict)
    names: Sequence[str] | None = None
    late: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        count = len(self.laws)
        for side in ("reactant", "product"):
            starts = _constant(getattr(self, f"{side}_starts"), np.int64)
            members = _constant(getattr(self, f"{side}_species"), np.int32)
            counts = _constant(getattr(self, f"{side}_counts"), np.float64)
            fits = starts.shape == (count + 1,) and starts[0] == 0 and starts[-1] == members.size
            if not fits or counts.shape != members.shape or (np.diff(starts) < 0).any():
                raise ModelError(f"{side}s of the reaction table do not fit {count} reactions")
            if members.size and not 0 <= members.min() <= members.max() < len(self.species):
                raise ModelError(f"{side}_species has an index out of range")
            if counts.size and not (counts.min() > 0 and np.isfinite(counts).all()):
                raise ModelError(f"{side}_counts has a stoichiometry that is not positive")
            for name, array in (("starts", starts), ("species", members), ("counts", counts)):
                object.__setattr__(self, f"{side}_{name}", array)
        values = _constant(self.values, np.float64)
        laws = _constant(self.laws, np.uint8)
        negative = (values < 0) & (laws != Law.RATE) if laws.shape == values.shape else True
        bad = ~np.isfinite(values) | negative
        if self.formulas:
            bad[list(self.formulas)] = False
        if values.shape != (count,) or bad.any():
            k = int(np.argmax(bad)) if bad.any() else 0
            raise ModelError(f"the rate of reaction {k} is not a number of 0 or more")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "laws", laws)

    @classmethod
    def gather(cls, reactions: Sequence[Reaction], species: Sequence[str]) -> ReactionTable:
        """The table of some reactions.

        Raises
        ------
        ModelError
            A species is unknown, or a name is used twice.
        """
        index = {name: i for i, name in enumerate(species)}
        sides: list[tuple[list[int], list[int], list[float]]] = [([0], [], []), ([0], [], [])]
        values = np.full(len(reactions), np.nan)
        formulas: dict[int, Expression | RateCoefficient] = {}
        delays: dict[int, float | Expression | HoldingTime] = {}
        names: list[str] = []
        for k, reaction in enumerate(reactions):
            if not isinstance(reaction, Reaction):
                raise ModelError(f"reactions[{k}] is {reaction!r}; expected a Reaction")
            for (starts, members, counts), side in zip(
                sides, (reaction.reactants, reaction.products), strict=True
            ):
                for name, count in side.items():
                    if name not in index:
                        hint = did_you_mean(name, species)
                        glued = _GLUED.fullmatch(str(name))
                        if glued and glued[2] in index:
                            hint = f"; {_advice(glued)}"
                        raise ModelError(
                            f"reaction '{reaction.name or reaction}' has the species {name!r}, "
                            f"which the network does not have{hint}"
                        )
                    members.append(index[name])
                    counts.append(count)
                starts.append(len(members))
            if isinstance(reaction.value, float):
                values[k] = reaction.value
            else:
                formulas[k] = reaction.value
            if reaction.delay is not None:
                delays[k] = reaction.delay
            names.append(f"R{k + 1}" if reaction.name is None else str(reaction.name))
        check_distinct("reactions", names)
        laws = np.array([reaction.law for reaction in reactions], np.uint8)
        (a, b, c), (d, e, f) = sides
        return cls(
            tuple(species),
            np.array(a), np.array(b), np.array(c), np.array(d), np.array(e), np.array(f),
            laws, values, formulas, delays, tuple(names),
            frozenset(k for k, reaction in enumerate(reactions) if not reaction.consuming),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.laws)

    @overload
    def __getitem__(self, which: int) -> Reaction: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Reaction]: ...
    def __getitem__(self, which: int | slice) -> Reaction | Sequence[Reaction]:
        if isinstance(which, slice):
            return [self[k] for k in range(*which.indices(len(self)))]
        k = range(len(self))[which]
        word = Law(self.laws[k]).argument
        value = self.formulas.get(k)
        options: dict[str, Any] = {word: float(self.values[k]) if value is None else value}
        return Reaction(
            self._side("reactant", k), self._side("product", k),
            name=self.name_of(k), delay=self.delays.get(k), consuming=k not in self.late,
            **options,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Reaction]:
        return (self[k] for k in range(len(self)))

    def _side(self, side: str, k: int) -> dict[str, float]:
        starts = getattr(self, f"{side}_starts")
        members = getattr(self, f"{side}_species")[starts[k] : starts[k + 1]]
        counts = getattr(self, f"{side}_counts")[starts[k] : starts[k + 1]]
        result: dict[str, float] = {}
        for member, count in zip(members, counts, strict=True):
            name = self.species[member]
            result[name] = result.get(name, 0.0) + float(count)
        return result

    def name_of(self, k: int) -> str:
        """Name of a reaction."""
        return self.names[k] if self.names is not None else f"R{k + 1}"

    @cached_property
    def number(self) -> dict[str, int]:
        """Index of every reaction by its name."""
        return {self.name_of(k): k for k in range(len(self))}
