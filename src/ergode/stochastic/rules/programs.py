"""Patterns as programs that a kernel runs: where a pattern is, from one molecule on.

A pattern is cut into parts that its bonds connect. A part has a *root*, from which its bonds lead
to all its molecules. Sites with equal names are taken apart in advance: a *variant* gives each site
of the pattern a site of the molecule. From a root molecule a variant then leads to one place or to
none, because a site has one bond at most.

A rule acts on the sites of its centre alone, and counts places that differ there. Variants that
test the same and have the same centre are one; their number is the *multiplicity* of the part.

J. A. P. Sekar, J. R. Faeder, Rule-based modeling of signal transduction: a primer, Methods Mol.
Biol. 880, 139 (2012). V. Danos et al., Scalable simulation of cellular signaling networks, APLAS
(2007): positive and negative influence of rules through the sites that they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import perm, prod
from typing import NamedTuple

from ergode.core.errors import PlanError
from ergode.models.rules.model import Types
from ergode.models.rules.patterns import ANY, Graph, Place

# Operations of a program: what they test at a site of a molecule that has been found.
STATE, FREE, BOUND, FOLLOW, JOINED = range(5)
# What of a site changes, and on what a pattern depends.
OF_STATE, OF_BOND = 0, 1

_VARIANTS_MOST = 2000
_PARTS_MOST = 2


class Operation(NamedTuple):
    """A test at a site of a molecule; `FOLLOW` finds another molecule behind its bond."""

    kind: int
    molecule: int  # its number in the order in which they are found
    site: int
    value: int = 0  # a state; the site at the other end of a bond
    other: int = 0  # the type of the molecule there; of `JOINED`, its number


Key = tuple[tuple[int, int], ...]
"""Places of the centre: molecule in the order in which they are found, and its site; or -1."""
Path = tuple[tuple[int, int, int], ...]
"""Bonds from a molecule of a part back to its root: site, site at the other end, type there."""
Dependence = tuple[int, int, int, Path]
"""Type and site of a molecule, what of it; and how the root is found from there."""


@dataclass(frozen=True)
class Program:
    """A connected part of a pattern; equal parts are equal."""

    root: int  # type of molecule
    # Operations of a variant, and the places of the centre.
    variants: tuple[tuple[tuple[Operation, ...], Key], ...]
    dependences: frozenset[Dependence]
    size: int  # number of molecules
    counts_all: bool  # whether places with the same centre count each

    @property
    def is_ambiguous(self) -> bool:
        """Whether two variants may have the same centre at once, which then counts once."""
        keys = [key for _, key in self.variants]
        beyond = any(molecule > 0 for key in keys for molecule, _ in key)
        return not self.counts_all and (len(set(keys)) < len(keys) or beyond)


class Part(NamedTuple):
    """A part of a pattern, and how it lies in it."""

    program: Program
    molecules: tuple[int, ...]  # of the pattern, in the order in which they are found
    key: tuple[Place, ...]  # places of the centre, as the pattern numbers them
    multiplicity: int


class Vocabulary:
    """Numbers of types of molecules, of their sites, and of states."""

    def __init__(self, types: Types, states: Iterable[str]) -> None:
        self.types = list(types)
        self.sites = [[site for site, _ in types[name]] for name in self.types]
        self.width = max([1, *map(len, self.sites)])
        self._states = {name: k for k, name in enumerate(sorted(set(states)))}

    def type_of(self, name: str) -> int:
        """Number of a type of molecule."""
        return self.types.index(name)

    def state(self, name: str | None) -> int:
        """Number of a state; -1 for none."""
        return -1 if name is None else self._states[name]


def parts_of(
    pattern: Graph, centre: Sequence[Place] | None, words: Vocabulary, what: str
) -> list[Part]:
    """The parts of a pattern; those with places of the `centre` first. None: all places count.

    Raises a PlanError if there are more than two, or too many equal sites.
    """
    for place, there in pattern.partners.items():
        if len(there) > 1:
            name = pattern.molecules[place[0]].name
            raise PlanError(
                f"{what}: a site of {name} has two bonds; simulation without a network takes one "
                "bond a site"
            )
    found = pattern.parts()
    if len(found) > _PARTS_MOST:
        raise PlanError(
            f"{what} has a pattern of {len(found)} molecules or groups that no bond of the pattern "
            f"joins; simulation without a network takes {_PARTS_MOST}"
        )
    inside = {m for m, _ in centre or ()}
    found.sort(key=lambda part: inside.isdisjoint(part))
    return [_part(pattern, part, centre, words, what) for part in found]


def _part(
    pattern: Graph, members: list[int], centre: Sequence[Place] | None, words: Vocabulary,
    what: str,
) -> Part:  # fmt: skip
    key = tuple(place for place in centre or () if place[0] in members)
    order, parents = _walk(pattern, key[0][0] if key else members[0])
    number = {m: k for k, m in enumerate(order)}
    choices = [_site_choices(pattern, m, words) for m in order]
    if prod(map(len, choices)) > _VARIANTS_MOST:
        raise PlanError(
            f"{what} has a pattern with {prod(map(len, choices)):,} orders of its equal sites; "
            f"simulation without a network takes {_VARIANTS_MOST:,}"
        )
    variants: dict[tuple[tuple[Operation, ...], Key], int] = {}
    dependences = set()
    for chosen in product(*choices):
        site = {(m, s): t for m, places in zip(order, chosen, strict=True)
                for s, t in enumerate(places)} | {(m, -1): -1 for m in order}  # fmt: skip
        operations = _operations(pattern, order, parents, number, site, words)
        places = tuple((number[m], site[m, s]) for m, s in key)
        one = operations, places
        variants[one] = variants.get(one, 0) + 1
        dependences |= _dependences(pattern, order, parents, site, words)
    multiplicity = next(iter(variants.values()), 1)
    program = Program(
        words.type_of(pattern.molecules[order[0]].name), tuple(variants), frozenset(dependences),
        len(order), centre is None,
    )  # fmt: skip
    return Part(program, tuple(order), key, multiplicity)


def _walk(pattern: Graph, root: int) -> tuple[list[int], dict[int, tuple[Place, Place]]]:
    """Molecules in the order in which bonds lead to them, and the bond that led to each."""
    order, parents = [root], {}
    for m in order:
        for (one, s), (other, t) in pattern.pairs():
            if one == m and other not in order:
                order.append(other)
                parents[other] = (m, s), (other, t)
    return order, parents


def _site_choices(pattern: Graph, m: int, words: Vocabulary) -> list[tuple[int, ...]]:
    """Sites of the type for those of a molecule of the pattern."""
    molecule = pattern.molecules[m]
    if molecule.name not in words.types:
        return []
    there = words.sites[words.type_of(molecule.name)]
    wanted = [site.name for site in molecule.sites]
    count = prod(perm(there.count(name), wanted.count(name)) for name in set(wanted))
    if count > _VARIANTS_MOST:
        return [()] * count
    names = list(dict.fromkeys(wanted))
    found = []
    for picks in product(*(
        permutations([t for t, name in enumerate(there) if name == one], wanted.count(one))
        for one in names
    )):  # fmt: skip
        left = {name: list(pick) for name, pick in zip(names, picks, strict=True)}
        found.append(tuple(left[name].pop(0) for name in wanted))
    return found


def _operations(
    pattern: Graph, order: list[int], parents: dict[int, tuple[Place, Place]],
    number: dict[int, int], site: dict[Place, int], words: Vocabulary,
) -> tuple[Operation, ...]:  # fmt: skip
    made = []
    for m in order:
        if m in parents:
            (up, s), (_, t) = parents[m]
            kind = words.type_of(pattern.molecules[m].name)
            made.append(Operation(FOLLOW, number[up], site[up, s], site[m, t], kind))
        tests = []
        for s, one in enumerate(pattern.molecules[m].sites):
            if one.state is not None:
                tests.append(Operation(STATE, number[m], site[m, s], words.state(one.state)))
            if one.is_open:
                if one.bonds != (ANY,):
                    tests.append(Operation(BOUND, number[m], site[m, s]))
            elif not one.bonds:
                tests.append(Operation(FREE, number[m], site[m, s]))
            else:
                ((n, t),) = pattern.partners[m, s]
                is_path = parents.get(m) == ((n, t), (m, s)) or parents.get(n) == ((m, s), (n, t))
                if not is_path and (number[n], site[n, t]) <= (number[m], site[m, s]):
                    tests.append(
                        Operation(JOINED, number[m], site[m, s], site[n, t], number[n])
                    )  # fmt: skip
        made += sorted(tests)
    return tuple(made)


def _dependences(
    pattern: Graph, order: list[int], parents: dict[int, tuple[Place, Place]],
    site: dict[Place, int], words: Vocabulary,
) -> set[Dependence]:  # fmt: skip
    found = set()
    for m in order:
        path, at = [], m
        while at in parents:
            (up, s), (_, t) = parents[at]
            path.append((site[at, t], site[up, s], words.type_of(pattern.molecules[up].name)))
            at = up
        kind = words.type_of(pattern.molecules[m].name)
        for s, one in enumerate(pattern.molecules[m].sites):
            if one.state is not None:
                found.add((kind, site[m, s], OF_STATE, tuple(path)))
            if one.bonds != (ANY,):
                found.add((kind, site[m, s], OF_BOND, tuple(path)))
    return found
