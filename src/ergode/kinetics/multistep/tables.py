"""A network as tables of activities, for backward differentiation formulas.

With the activity z_i = c_i / q_i of a species, where c_i is its concentration and q_i its partition
function per volume, a reaction and its reverse by detailed balance have the net rate

    r = K (prod of z over reactants - prod of z over products),   K = k_forward prod of q_reactants.

A reverse reaction then costs no exponential and no division, and its equilibrium is exact. Other
reactions have the first product alone. Species without thermochemistry have q = 1.

Reactions conserve some sums (atoms of elements). Any combination of these sums may be added to all
ln q_i, for it cancels in r. The combination that fits -ln q_i best, of the form A_i + B_i / T,
keeps the exponents of large molecules small.

The Jacobian has neither derivatives with respect to collision partners nor with respect to the
density at constant pressure, which would fill it, nor with respect to sums of many species that
formulas read. Newton's method needs no exact Jacobian.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.math.elimination import Elimination, eliminate
from ergode.kinetics.network.mechanism import reactants_of
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.third_bodies import LINDEMANN, PLAIN, TROE
from ergode.kinetics.tables import SLOTS, STILL, Powers, Rates

_TINY, _HUGE = 1e-300, 1e300
_WIDEST = 32  # species of a sum with derivatives
_COLD, _HOT = 300.0, 3000.0  # temperatures of the fit of ln q [K]


class Laws(NamedTuple):
    """Coefficients at a temperature, and their third bodies."""

    # float64 [term_count, row_count]: distinct ones of `Rates.parameters`, without terms that are
    # zero in all; uint32 [term_count]: which terms there are.
    exponent: np.ndarray
    term: np.ndarray
    slot_count: int
    # Slots that are sums of exponentials, and their terms: uint32 [sum_count], [sum_count + 1].
    slot: np.ndarray
    start: np.ndarray
    row: np.ndarray  # uint32 [set_count]: row of `exponent` of each term
    prefactor: np.ndarray  # float64 [set_count]
    # Partners: the efficiency of most species of each set, and how that of others differs.
    usual: np.ndarray  # float64 [partner_set_count]
    other_start: np.ndarray  # uint32 [partner_set_count + 1]
    other_species: np.ndarray  # uint32
    other_more: np.ndarray  # float64
    # uint32 [2, plain_count]: reactions whose coefficient is multiplied by a concentration, and the
    # partners of each.
    plain: np.ndarray
    # Falloff of Lindemann and Troe: uint32 [3, falloff_count]: reaction, slot of the low limit, and
    # partners; float64 [4, falloff_count]: a, -1 / T3, -1 / T1 and -T2 of Troe.
    falloff: np.ndarray
    troe: np.ndarray
    rates: Rates  # all other laws that depend on partners


class Reactions(NamedTuple):
    """Pairs of reactions, and reactions without a reverse."""

    # uint32 [3, reaction_count]: activities of the reactants; the number of species where there is
    # none. Larger numbers are powers. Reactions with a reverse come first.
    left: np.ndarray
    right: np.ndarray  # uint32 [3, pair_count]: activities of the products
    coefficient: np.ndarray  # uint32 [reaction_count]: slot of the forward coefficient
    # By species: reactions that change it, and by how much.
    start: np.ndarray  # uint32 [species_count + 1]
    reaction: np.ndarray  # uint32
    change: np.ndarray  # float64


class Slopes(NamedTuple):
    """How the Jacobian is assembled.

    The derivatives of rates with respect to activities are a vector: three of each reaction, then
    three of the products of each pair, then those with respect to factors of powers, then those
    with respect to species of the sums that formulas read.
    """

    start: np.ndarray  # uint32 [entry_count + 1]: where the terms of each entry begin
    derivative: np.ndarray  # uint32 [term_count]
    change: np.ndarray  # float64 [term_count]: net change of the species of the row
    # uint32 [2, entry_count]: species of the column, and index among the entries of the factors.
    entry: np.ndarray
    # uint32 [2, factor_count]: derivatives with respect to factors of powers: that with respect to
    # the power, and the factor.
    power: np.ndarray
    # uint32 [2 variable_count, variable_count]: places of the rows of the temperature and of what
    # a piston adds, then of their columns.
    heat: np.ndarray
    # Where coefficients are formulas of sums, uint32 [3, count]: derivatives of formulas by sums,
    # behind all others: reaction, place among those derivatives, and a species of the sum.
    sum: Any = ()


class Chemistry(NamedTuple):
    """All tables of a network for backward differentiation formulas."""

    laws: Laws
    reactions: Reactions
    slopes: Slopes
    plan: Elimination
    polynomials: Any  # as in `Thermodynamics`
    shift: np.ndarray  # float64 [2, species_count]: A_i and B_i of ln q_i
    invariants: np.ndarray  # float64 [invariant_count, species_count]
    absolute: np.ndarray  # float64 [variable_count]: absolute tolerances
    powers: Any  # `Powers`; ``()`` in kernels of GPUs where no reaction has one
    # Whether energies are internal ones: 1, and 0 for enthalpies, at constant pressure.
    work: float = 1.0
    schedule: Any = ()  # for a warp (see `schedule`)


def chemistry_of(mechanism: Mechanism, *, heats: bool, moving: int = STILL) -> Chemistry:
    """Tables of a network, without tolerances.

    Parameters
    ----------
    mechanism : Mechanism
    heats : bool
        Whether the temperature is an unknown.
    moving : int
        `STILL`, `MOBILE` or `INERT`: the number of unknowns behind the temperature.
    """
    count = mechanism.structure.species_count
    entries = _Entries(mechanism)
    reactions = entries.reactions()
    slopes, plan = _slopes_of(entries, reactions, count, heats + moving)
    return Chemistry(
        _laws_of(mechanism, heats), reactions, slopes, plan,
        mechanism.thermo.polynomials, _shift_of(mechanism), mechanism.invariants,
        np.zeros(count + heats + moving),
        entries.powers,
    )  # fmt: skip


class _Entries:
    """Sides and changes of all pairs, and of reactions without a reverse."""

    def __init__(self, mechanism: Mechanism) -> None:
        structure, rates = mechanism.structure, mechanism.rates
        self.species_count, self._rates = structure.species_count, rates
        self._powers: dict[tuple[tuple[int, float], ...], int] = {}
        paired: dict[int, int] = {}
        extra: list[tuple[int, int]] = []
        for back, forward in zip(rates.reverse.tolist(), rates.forward.tolist(), strict=True):
            if forward in paired:
                extra.append((forward, back))
            else:
                paired[forward] = back
        backs = set(rates.reverse.tolist())
        alone = [r for r in range(len(structure.orders)) if r not in backs and r not in paired]
        # A second reverse reaction is another pair without its forward reaction.
        pairs = [*paired.items(), *extra]
        whole = [forward for forward, _ in pairs] + alone + [forward for forward, _ in extra]
        self.pair_count = len(pairs)
        self.coefficient = whole
        self.left = [self._side(structure.orders[r]) for r in whole]
        self.right = [self._side(structure.orders[back]) for _, back in pairs]
        signs = [1.0] * (len(whole) - len(extra)) + [-1.0] * len(extra)
        self.net = [
            {i: sign * v for i, v in structure.net[r].items()}
            for r, sign in zip(whole, signs, strict=True)
        ]

    def _side(self, orders: Any) -> tuple[int, ...]:
        """Three activities; one of them may be a power."""
        plain, nothing = reactants_of(orders), self.species_count
        if plain is None:
            factors = tuple((i, order) for i, order in sorted(orders.items()) if order)
            plain = (nothing + 1 + self._powers.setdefault(factors, len(self._powers)),)
        return plain + (nothing,) * (SLOTS - len(plain))

    def sums(self) -> Iterable[tuple[int, int, int, float]]:
        """Reactions whose formulas read a sum: place of the slope, species of the sum, weight."""
        formulas, efficiency = self._rates.formulas, self._rates.efficiency
        for f, slot in enumerate(formulas.reaction.tolist()):
            for place in range(int(formulas.sum_start[f]), int(formulas.sum_start[f + 1])):
                row = efficiency[formulas.first_sum + int(formulas.sum[place])]
                there = np.flatnonzero(row)
                for r in np.flatnonzero(np.equal(self.coefficient, slot)).tolist():
                    for j in there.tolist() if there.size <= _WIDEST else ():
                        yield r, place, j, float(row[j])

    @property
    def powers(self) -> Powers:
        return Powers(
            _starts(list(self._powers)),
            np.array([i for one in self._powers for i, _ in one], np.uint32),
            np.array([order for one in self._powers for _, order in one], np.float64),
        )

    @property
    def has_formulas(self) -> bool:
        return bool(self._rates.formulas.reaction.size)

    def reactions(self) -> Reactions:
        left = np.array(self.left, np.uint32).reshape(-1, SLOTS).T
        right = np.array(self.right, np.uint32).reshape(-1, SLOTS).T
        rows: list[list[tuple[int, float]]] = [[] for _ in range(self.species_count)]
        for r, change in enumerate(self.net):
            for i, value in change.items():
                rows[i].append((r, value))
        return Reactions(
            left.copy(), right.copy(), np.array(self.coefficient, np.uint32), _starts(rows),
            np.array([r for row in rows for r, _ in row], np.uint32),
            np.array([v for row in rows for _, v in row], np.float64),
        )  # fmt: skip


def _slopes_of(
    entries: _Entries, reactions: Reactions, count: int, more: int
) -> tuple[Slopes, Elimination]:
    """`more` variables depend on all others, and change them."""
    powers = entries.powers
    whole = SLOTS * (reactions.coefficient.size + entries.pair_count)
    power: list[int] = []
    factor: list[int] = []
    terms: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for side, base in ((entries.left, 0), (entries.right, SLOTS * reactions.coefficient.size)):
        for r, slots in enumerate(side):
            for slot, j in enumerate(slots):
                own = base + SLOTS * r + slot
                found = [(j, own)] if j < count else []
                if j > count:
                    p = j - count - 1
                    for k in range(int(powers.start[p]), int(powers.start[p + 1])):
                        found.append((int(powers.species[k]), whole + len(power)))
                        power.append(own)
                        factor.append(k)
                for other, derivative in found:
                    for i, value in entries.net[r].items():
                        terms.setdefault((i, other), []).append((derivative, value))
    read: list[tuple[int, int, int]] = []
    for r, place, j, weight in entries.sums():
        for i, value in entries.net[r].items():
            own = whole + len(power) + len(read)
            terms.setdefault((i, j), []).append((own, weight * value))
        read.append((r, place, j))
    size = count + more
    pattern = np.zeros((size, size), bool)
    keys = sorted(terms)
    for key in keys:
        pattern[key] = True
    pattern[count:], pattern[:, count:] = True, True
    plan = eliminate(pattern)
    places = plan.positions()
    flat = [term for key in keys for term in terms[key]]
    lines, every = range(count, size), range(size)
    rows = [[places[k, i] for i in every] for k in lines]
    columns = [[places[i, k] for i in every] for k in lines]
    return Slopes(
        _starts([terms[key] for key in keys]),
        np.array([one for one, _ in flat], np.uint32),
        np.array([value for _, value in flat], np.float64),
        _pairs((key[1], places[key]) for key in keys),
        _pairs(zip(power, factor, strict=True)),
        np.array(rows + columns, np.uint32).reshape(2 * more, size),
        np.array(read, np.uint32).reshape(-1, 3).T.copy() if entries.has_formulas else (),
    ), plan  # fmt: skip


def _laws_of(mechanism: Mechanism, heats: bool) -> Laws:
    used, _ = mechanism.used(heats)
    rates: Any = used
    every = mechanism.rates
    exponent, row = np.unique(every.parameters, axis=1, return_inverse=True)
    term = np.flatnonzero(exponent.any(axis=1))
    starts = every.slot_start
    filled = np.flatnonzero(starts[1:] > starts[:-1])
    usual, others = _partners_of(every.efficiency)
    kind = every.third_body_kind[: every.third_body_reaction.size]
    plain = np.flatnonzero(kind == PLAIN)
    falloff = np.flatnonzero((kind == LINDEMANN) | (kind == TROE))
    if mechanism.has_third_bodies:
        rates = _without(rates, np.union1d(plain, falloff))
    idle = ("parameters", "prefactor", "slot_start", "dependent_start", "dependent",
            "dependent_slope", "efficiency", "reverse", "forward", "reverse_start",
            "reverse_species", "reverse_change")  # fmt: skip
    # Only the number of orders is read, which are floats where there are powers.
    rates = rates._replace(order=rates.order.astype(np.float64), **dict.fromkeys(idle, ()))
    # Coefficients are of concentrations here: no power of the density is applied.
    return Laws(
        np.ascontiguousarray(exponent[term]), term.astype(np.uint32), every.slot_count,
        filled.astype(np.uint32), np.append(starts[filled], starts[-1]),
        row.ravel().astype(np.uint32), every.prefactor, usual, _starts(others),
        np.array([i for one in others for i, _ in one], np.uint32),
        np.array([v for one in others for _, v in one], np.float64),
        np.array([every.third_body_reaction[plain], every.third_body_set[plain]], np.uint32),
        np.array(
            [
                every.third_body_reaction[falloff],
                every.third_body_low[falloff],
                every.third_body_set[falloff],
            ],
            np.uint32,
        ),
        _troe_of(every, falloff),
        rates,
    )  # fmt: skip


def _troe_of(rates: Rates, laws: np.ndarray) -> np.ndarray:
    """Parameters of Troe's formula; those of Lindemann make its factor 1."""
    found = np.empty((4, laws.size))
    for place, b in enumerate(laws):
        numbers = rates.third_body_number[rates.third_body_start[b] : rates.third_body_start[b + 1]]
        if numbers.size:
            a, t3, t1, t2 = numbers
            # A temperature of 0 stands for a term that vanishes.
            found[:, place] = a, *(-1.0 / (t or _TINY) for t in (t3, t1)), -t2 if t2 else -_HUGE
        else:
            found[:, place] = 1.0, -1.0, -_TINY, -_HUGE
    return found


def _without(rates: Rates, laws: np.ndarray) -> Rates:
    """The tables without these laws of third bodies."""
    starts = rates.third_body_start.astype(np.int64)
    kept = np.setdiff1d(np.arange(rates.third_body_kind.size), laws)
    numbers = [rates.third_body_number[starts[b] : starts[b + 1]] for b in kept]
    return rates._replace(
        third_body_reaction=np.delete(rates.third_body_reaction, laws),
        third_body_low=rates.third_body_low[kept],
        third_body_kind=rates.third_body_kind[kept],
        third_body_set=rates.third_body_set[kept],
        third_body_start=_starts(numbers),
        third_body_number=np.concatenate([np.zeros(0), *numbers]),
        mixture_start=rates.mixture_start
        if isinstance(rates.mixture_start, tuple)
        else (rates.mixture_start - np.uint32(laws.size)),
    )


def _partners_of(efficiency: np.ndarray) -> tuple[np.ndarray, list[list[tuple[int, float]]]]:
    """The most frequent efficiency of each set, and the differences of all others from it."""
    usual, others = np.zeros(len(efficiency)), []
    for place, row in enumerate(efficiency):
        values, counts = np.unique(row, return_counts=True)
        usual[place] = values[counts.argmax()]
        different = np.flatnonzero(row != usual[place])
        others.append([(int(i), row[i] - usual[place]) for i in different])
    return usual, others


def _shift_of(mechanism: Mechanism) -> np.ndarray:
    """What is added to ln q of every species: A_i, and B_i over the temperature."""
    count = mechanism.structure.species_count
    sums = mechanism.invariants
    if not (mechanism.molecular and mechanism.rates.reverse.size and len(sums)):
        return np.zeros((2, count))
    cold, hot = (_log_volumes(mechanism.thermo.polynomials, t) for t in (_COLD, _HOT))
    slope = (cold - hot) / (1.0 / _COLD - 1.0 / _HOT)
    level = hot - slope / _HOT
    fits = np.linalg.lstsq(sums.T, -np.stack([level, slope], axis=1), rcond=None)[0]
    return np.ascontiguousarray((sums.T @ fits).T)


def _log_volumes(polynomials: np.ndarray, t: float) -> np.ndarray:
    """ln q of molecules, without what is common to all."""
    found = np.zeros(polynomials.shape[1])
    for i, column in enumerate(polynomials.T):
        o = 0
        while t > column[o]:
            o += 10
        a = column[o + 1 : o + 10]
        powers = [a[2 + k] * t**k for k in range(5)]
        enthalpy = sum(one / (k + 1) for k, one in enumerate(powers))
        enthalpy += (a[7] + a[1] * np.log(t) - a[0] / t) / t
        entropy = powers[0] * np.log(t) + sum(one / k for k, one in enumerate(powers) if k)
        entropy += a[8] - (a[1] + 0.5 * a[0] / t) / t
        found[i] = entropy - enthalpy
    return found


def _pairs(items: Iterable[tuple[int, int]]) -> np.ndarray:
    return np.array(list(items), np.uint32).reshape(-1, 2).T.copy()


def _starts(parts: Sequence[Iterable[Any]]) -> np.ndarray:
    """Offsets of consecutive parts of these lengths."""
    sizes = [len(part) for part in parts]  # type: ignore[arg-type]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
