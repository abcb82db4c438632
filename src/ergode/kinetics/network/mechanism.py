"""A network as flat tables.

The rates of change of all species are sums over *complexes*, the distinct left-hand sides of
reactions (all reactions of `C12 + He4` share one complex):

    dY_i / dt = sum over s of  v_is prod of Y_j over j in s,    v_is = sum over r of nu_ir k_r.

This takes a third of the arithmetic of a sum over reactions. Rates of change and the Jacobian do
not depend on the laws of the coefficients k_r. Y are specific amounts [mol/g]: mass fraction over
mass number for nuclei, concentration over density for molecules.

A complex has three reactants at most. A product of more, or of powers with other orders, is one
additional amount, P = prod of Y_j^n_j, and the complex has this amount alone. Powers and their
derivatives dP / dY_j stand behind the amounts.

Horn, F., Jackson, R.: General mass action kinetics. Arch. Rational Mech. Anal. 47, 81 (1972).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ergode.core.group import share
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.tables import SLOTS, Complexes, Flows, Powers


@dataclass(frozen=True, eq=False)
class Structure:
    """The reactions of a mechanism, without their coefficients."""

    species_count: int
    orders: tuple[Mapping[int, float], ...]  # orders of each reaction in species
    net: tuple[Mapping[int, float], ...]  # net change of species by each reaction
    complexes: Complexes
    powers: Powers
    # All changes; the positive ones; the negative ones, as positive numbers.
    net_flows: Flows
    gain_flows: Flows
    loss_flows: Flows


def reactants_of(orders: Mapping[int, float]) -> tuple[int, ...] | None:
    """The sorted reactants of a complex, repeated by their orders; None if it needs a power."""
    left = [(i, order) for i, order in sorted(orders.items()) if order]
    natural = all(order > 0 and order == int(order) for _, order in left)
    if natural and sum(order for _, order in left) <= SLOTS:
        return tuple(i for i, order in left for _ in range(int(order)))
    return None


def structure_of(
    species_count: int,
    orders: Sequence[Mapping[int, float]],  # orders of each reaction in species
    net: Sequence[Mapping[int, float]],  # change of each species that changes
) -> Structure:
    """Tables of reactions."""
    nothing = species_count  # the variable that is always one
    powers: dict[tuple[tuple[int, float], ...], int] = {}
    left: list[tuple[int, ...]] = []
    for order_in in orders:
        plain = reactants_of(order_in)
        if plain is None:
            factors = tuple((i, order) for i, order in sorted(order_in.items()) if order)
            plain = (nothing + 1 + powers.setdefault(factors, len(powers)),)
        left.append(plain)
    distinct = {one: index for index, one in enumerate(dict.fromkeys(left))}
    slots = np.full((SLOTS, len(distinct)), nothing, np.uint32)
    for one, index in distinct.items():
        slots[: len(one), index] = one
    entries: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for number, (one, change) in enumerate(zip(left, net, strict=True)):
        for species, amount in change.items():
            entries.setdefault((species, distinct[one]), []).append((number, amount))
    ordered = sorted(entries.items())
    return Structure(
        species_count,
        tuple(orders),
        tuple(net),
        Complexes(*slots),
        Powers(
            np.cumsum([0, *map(len, powers)]).astype(np.uint32),
            np.array([i for one in powers for i, _ in one], np.uint32),
            np.array([order for one in powers for _, order in one], np.float64),
        ),
        *(_flows(species_count, ordered, sign) for sign in (0, 1, -1)),
    )


def _flows(
    species_count: int,
    entries: Sequence[tuple[tuple[int, int], Sequence[tuple[int, float]]]],  # sorted
    sign: int,
) -> Flows:
    start = np.zeros(species_count + 1, np.uint32)
    complexes: list[int] = []
    source_start, source, weight = [0], [], []
    for (species, complex_), terms in entries:
        kept = [(number, amount) for number, amount in terms if sign == 0 or sign * amount > 0]
        if not kept:
            continue
        complexes.append(complex_)
        source += [number for number, _ in kept]
        weight += [amount if sign == 0 else abs(amount) for _, amount in kept]
        source_start.append(len(source))
        start[species + 1] += 1
    return Flows(
        np.cumsum(start, dtype=np.uint32),
        np.array(complexes, np.uint32),
        np.array(source_start, np.uint32),
        np.array(source, np.uint32),
        np.array(weight, np.float64),
    )


def pattern_of(
    complexes: Complexes, powers: Powers, flows: Flows, count: int
) -> tuple[np.ndarray, dict[tuple[int, int], list[tuple[int, int]]]]:
    """Entries of the Jacobian that may not be zero, and the (entry, slope) terms of each."""
    pattern = np.zeros((count, count), bool)
    terms: dict[tuple[int, int], list[tuple[int, int]]] = {}
    species_count = flows.start.size - 1
    size = complexes.first.size
    nothing = complexes.third.max(initial=0)  # of a power the second and the third are empty
    for i in range(species_count):
        for entry in range(flows.start[i], flows.start[i + 1]):
            s = int(flows.complex[entry])
            for slot in range(SLOTS):
                j = int(complexes[slot][s])
                if j < species_count:
                    pattern[i, j] = True
                    terms.setdefault((i, j), []).append((entry, SLOTS * s + slot))
                elif j > nothing:
                    power = j - nothing - 1
                    for factor in range(powers.start[power], powers.start[power + 1]):
                        other = int(powers.species[factor])
                        pattern[i, other] = True
                        terms.setdefault((i, other), []).append((entry, SLOTS * size + factor))
    return pattern, terms


# --- device functions -----------------------------------------------------------------------------


def entry_values(flows, coefficients, values, group):
    """Values of the matrix of `flows` for these coefficients."""
    for entry in share(group, 0, values.size):
        total = 0.0
        for count in range(flows.source_start[entry], flows.source_start[entry + 1]):
            term = count & NONNEGATIVE
            total += flows.weight[term] * coefficients[flows.source[term]]
        values[entry] = total


def power_of(amount, order):
    """An amount to the power of an order; 0 where an order that is no natural number meets none."""
    whole = int(order)
    if whole == order and whole >= 0 and whole <= _MOST_FACTORS:
        total = 1.0
        for _ in range(whole):
            total *= amount
        return total
    return exp(order * log(amount)) if amount > 0.0 else 0.0


def put_powers(powers, y, nothing, group):
    """Put powers and their derivatives behind the amounts, after the place of `nothing`."""
    count = powers.start.size - 1
    for p in share(group, 0, count):
        total = 1.0
        begin, end = powers.start[p], powers.start[p + 1]
        for factor in range(begin, end):
            k = factor & NONNEGATIVE
            total *= power_of(y[powers.species[k]], powers.order[k])
            slope = 1.0
            for other in range(begin, end):
                m = other & NONNEGATIVE
                order = powers.order[m]
                amount = y[powers.species[m]]
                if m == k:
                    slope *= order * power_of(amount, order - 1.0)
                else:
                    slope *= power_of(amount, order)
            y[nothing + 1 + count + k] = slope
        y[nothing + 1 + p] = total


_MOST_FACTORS = 8


def products(complexes, y, found):
    """Product of the amounts of every complex."""
    for s in range(found.size):
        found[s] = y[complexes.first[s]] * y[complexes.second[s]] * y[complexes.third[s]]


def row_sums(flows, values, found, sums):
    """Matrix times products: the rate of change of every species."""
    for i in range(flows.start.size - 1):
        begin, end = flows.start[i], flows.start[i + 1]
        # Two sums at a time hide the latency of additions.
        even, odd = 0.0, 0.0
        for count in range(begin, end - 1, 2):
            entry = count & NONNEGATIVE
            even += values[entry] * found[flows.complex[entry]]
            odd += values[entry + 1] * found[flows.complex[entry + 1]]
        if (end - begin) % 2 == 1:
            last = (end - 1) & NONNEGATIVE
            even += values[last] * found[flows.complex[last]]
        sums[i] = even + odd
