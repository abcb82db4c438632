"""A network as flat tables.

The rates of change of all species are sums over *complexes*, the distinct left-hand sides of
reactions (all reactions of `C12 + He4` share one complex):

    dY_i / dt = sum over s of  v_is prod of Y_j over j in s,    v_is = sum over r of nu_ir k_r.

This takes a third of the arithmetic of a sum over reactions. Rates of change and the Jacobian do
not depend on the laws of the coefficients k_r. Y are specific amounts [mol/g]: mass fraction over
mass number for nuclei, concentration over density for molecules.

Horn, F., Jackson, R.: General mass action kinetics. Arch. Rational Mech. Anal. 47, 81 (1972).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ergode.kinetics.tables import NONNEGATIVE, SLOTS, Complexes, Flows


@dataclass(frozen=True, eq=False)
class Structure:
    """The reactions of a mechanism, without their coefficients.

    Attributes
    ----------
    species_count : int
    reactant : tuple of tuple of int
        Complex of each reaction, as sorted species.
    net : tuple of mapping of int to float
        Net change of species by each reaction.
    complexes : Complexes
    net_flows, gain_flows, loss_flows : Flows
        All changes; the positive ones; the negative ones, as positive numbers.
    """

    species_count: int
    reactant: tuple[tuple[int, ...], ...]
    net: tuple[Mapping[int, float], ...]
    complexes: Complexes
    net_flows: Flows
    gain_flows: Flows
    loss_flows: Flows

    @property
    def orders(self) -> np.ndarray:
        """Number of reactants of each reaction."""
        return np.array([len(left) for left in self.reactant], np.uint32)


def structure_of(
    species_count: int,
    reactant: Sequence[tuple[int, ...]],
    net: Sequence[Mapping[int, float]],
    *,
    nothing: int | None = None,
) -> Structure:
    """Tables of reactions.

    Parameters
    ----------
    species_count : int
    reactant : sequence of tuple of int
        Reactants, repeated by stoichiometry, at most `SLOTS`.
    net : sequence of mapping of int to float
        Change of each species that changes.
    nothing : int, optional
        Index of the variable that is always one; `species_count` if not given.
    """
    nothing = species_count if nothing is None else nothing
    left = [tuple(sorted(one)) for one in reactant]
    distinct = {one: index for index, one in enumerate(dict.fromkeys(left))}
    slots = np.full((SLOTS, len(distinct)), nothing, np.uint32)
    for one, index in distinct.items():
        slots[: len(one), index] = one
    entries: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for number, (one, change) in enumerate(zip(left, net, strict=True)):
        for species, amount in change.items():
            entries.setdefault((species, distinct[one]), []).append((number, amount))
    return Structure(
        species_count,
        tuple(left),
        tuple(net),
        Complexes(*slots),
        *(_flows(species_count, entries, sign) for sign in (0, 1, -1)),
    )


def _flows(
    species_count: int, entries: Mapping[tuple[int, int], Sequence[tuple[int, float]]], sign: int
) -> Flows:
    start = np.zeros(species_count + 1, np.uint32)
    complexes: list[int] = []
    source_start, source, weight = [0], [], []
    for (species, complex_), terms in sorted(entries.items()):
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
    complexes: Complexes, flows: Flows, count: int
) -> tuple[np.ndarray, dict[tuple[int, int], list[tuple[int, int]]]]:
    """Entries of the Jacobian that may not be zero, and the (entry, slope) terms of each."""
    pattern = np.zeros((count, count), bool)
    terms: dict[tuple[int, int], list[tuple[int, int]]] = {}
    species_count = flows.start.size - 1
    for i in range(species_count):
        for entry in range(flows.start[i], flows.start[i + 1]):
            s = int(flows.complex[entry])
            for slot in range(SLOTS):
                j = int(complexes[slot][s])
                if j < species_count:
                    pattern[i, j] = True
                    terms.setdefault((i, j), []).append((entry, SLOTS * s + slot))
    return pattern, terms


# --- device functions -----------------------------------------------------------------------------


def entry_values(flows, coefficients, values, first, stride):
    """Values of the matrix of `flows` for these coefficients."""
    for entry in range(first, values.size, stride):
        total = 0.0
        for count in range(flows.source_start[entry], flows.source_start[entry + 1]):
            term = count & NONNEGATIVE
            total += flows.weight[term] * coefficients[flows.source[term]]
        values[entry] = total


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
