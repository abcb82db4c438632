"""Networks that rules generate from seed species."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations, product
from typing import NamedTuple

from ergode.models.rules.compartments import Compartments, places_of
from ergode.models.rules.observables import Observable
from ergode.models.rules.patterns import (
    PLACE,
    Graph,
    Match,
    Molecule,
    Place,
    RuleError,
    Site,
    both_ways,
    canonical,
    matches,
    renumberings,
)


@dataclass(frozen=True)
class Condition:
    """A species that must, or must not, have one of some patterns."""

    includes: bool
    of_reactants: bool
    place: int  # which of them
    patterns: tuple[Graph, ...]

    def holds(self, species: Graph) -> bool:
        """Whether a species fulfils it."""
        return any(matches(one, species) for one in self.patterns) == self.includes


class Local(NamedTuple):
    """A name in a rate that is a number: of an observable, in what the rule takes."""

    name: str
    observable: Observable
    reactant: int  # -1: by how much the rule changes it
    molecule: int  # of the reactant; -1: in all of its species


@dataclass(frozen=True)
class Rule:
    """What a rule takes, and what it does to the molecules that it takes.

    Molecules and sites are numbered through all reactants; `created` are numbered after them.
    """

    name: str
    reactants: tuple[Graph, ...]
    heads: tuple[int, ...]  # of each product, its first molecule
    states: tuple[tuple[Place, str], ...]  # new states
    broken: tuple[tuple[Place, Place], ...]
    made: tuple[tuple[Place, Place], ...]
    deleted: tuple[int, ...]  # molecules
    whole: tuple[int, ...]  # reactants that are deleted with all that is bound to them
    created: tuple[Molecule, ...]
    rate: str
    keeps_parts: bool  # whether it makes as many species as it has products
    conditions: tuple[Condition, ...] = ()
    locals: tuple[Local, ...] = ()
    # Species that move: reactant, compartment before, and after.
    moves: tuple[tuple[int, str, str], ...] = ()
    moves_connected: bool = False  # whether what is bound to a moved molecule moves along

    @property
    def tagged(self) -> tuple[int, ...]:
        """Molecules on which the rate depends."""
        starts = _starts(self.reactants)
        return tuple(starts[one.reactant] + one.molecule for one in self.locals
                     if one.molecule >= 0)  # fmt: skip

    @property
    def centre(self) -> tuple[Place, ...]:
        """Sites that change, and what the rate depends on; the site -1 is a molecule itself."""
        places = [place for place, _ in self.states]
        places += [end for bond in (*self.broken, *self.made) for end in bond]
        starts = _starts(self.reactants)
        entire = {  # a reactant that goes as a whole goes once, wherever the pattern is in it
            starts[i] + m for i in self.whole for m in range(len(self.reactants[i].molecules))
        }
        places += [(m, -1) for m in self.deleted if m not in entire]
        places += [(m, -1) for m in self.tagged]
        return tuple(dict.fromkeys(place for place in places if place[0] < self.taken))

    @property
    def taken(self) -> int:
        """Number of molecules of all reactants."""
        return sum(len(one.molecules) for one in self.reactants)


def rule_of(
    name: str, left: Sequence[Graph], right: Sequence[Graph], rate: str, *,
    delete_molecules: bool = False, conditions: tuple[Condition, ...] = (),
) -> Rule:  # fmt: skip
    """The rule that turns patterns into others.

    Raises a RuleError if the two sides cannot be compared.
    """
    before = [one for graph in left for one in graph.molecules]
    after = [one for graph in right for one in graph.molecules]
    origin = _origins(before, after)
    deleted = tuple(m for m in range(len(before)) if m not in origin.values())
    created = tuple(
        _in_product(one, graph)
        for k, (one, graph) in enumerate((one, graph) for graph in right for one in graph.molecules)
        if k not in origin
    )
    number = {
        k: len(before) + i for i, k in enumerate(k for k in range(len(after)) if k not in origin)
    }
    number |= origin
    place_of: dict[Place, Place] = {}  # of a site of the products: of the reactants
    states = []
    for k, m in origin.items():
        for s, t in _same_sites(before[m], after[k]):
            place_of[k, t] = (m, s)
            old, new = before[m].sites[s], after[k].sites[t]
            if new.state is not None and new.state != old.state:
                states.append(((m, s), new.state))
            if (old.is_open or new.is_open) and old.bonds != new.bonds:
                mark = (old if old.is_open else new).bonds[0]
                raise RuleError(f"the site '{old.name}' has '!{mark}' on one side only")
    for k in range(len(after)):
        if k not in origin:
            place_of |= {(k, t): (number[k], t) for t in range(len(after[k].sites))}
    old_bonds = _bonds(left, lambda place: place)
    new_bonds = _bonds(right, place_of.__getitem__)
    broken = [bond for bond in old_bonds - new_bonds if not any(m in deleted for m, _ in bond)]
    starts = _starts(left)
    whole = tuple(
        i for i, graph in enumerate(left)
        if not delete_molecules and graph.molecules
        and all(starts[i] + m in deleted for m in range(len(graph.molecules)))
    )  # fmt: skip
    heads = tuple(number[k] for k in _starts(right))
    moves = []
    for start, there in zip(_starts(right), right, strict=True):
        taken = {origin.get(start + k, -1) for k in range(len(there.molecules))}
        for i, (first, graph) in enumerate(zip(starts, left, strict=True)):
            is_same = taken == set(range(first, first + len(graph.molecules)))
            if is_same and graph.within and there.within and graph.within != there.within:
                moves.append((i, graph.within[0], there.within[0]))
    return Rule(
        name, tuple(left), heads, tuple(states), _sorted(broken), _sorted(new_bonds - old_bonds),
        deleted, whole, created, rate, not deleted, conditions, moves=tuple(moves),
    )  # fmt: skip


def _in_product(one: Molecule, product: Graph) -> Molecule:
    """A molecule that is made, in the compartment of its product if it does not say its own."""
    if product.within is None or any(site.name == PLACE for site in one.sites):
        return one
    return replace(one, sites=(*one.sites, Site(PLACE, product.within[0])))


def _sorted(bonds: Iterable[frozenset[Place]]) -> tuple[tuple[Place, Place], ...]:
    return tuple(sorted((min(bond), max(bond)) for bond in bonds))


def _starts(graphs: Sequence[Graph]) -> list[int]:
    starts, count = [], 0
    for graph in graphs:
        starts.append(count)
        count += len(graph.molecules)
    return starts


def _bonds(graphs: Sequence[Graph], place: Callable[[Place], Place]) -> set[frozenset[Place]]:
    return {
        frozenset((place((start + m, s)), place((start + n, t))))
        for start, graph in zip(_starts(graphs), graphs, strict=True)
        for (m, s), (n, t) in graph.pairs()
    }


def _origins(before: list[Molecule], after: list[Molecule]) -> dict[int, int]:
    """For each product molecule that was there before, which one it was.

    Labels decide; then equal names and sites, in their order.
    """
    origin: dict[int, int] = {}
    free = dict.fromkeys(range(len(before)))

    def pair(same: Callable[[Molecule, Molecule], bool]) -> None:
        for k, one in enumerate(after):
            if k not in origin:
                for m in free:
                    if before[m].name == one.name and same(before[m], one):
                        origin[k] = m
                        free.pop(m)
                        break

    def names(one: Molecule) -> list[str]:
        return sorted(site.name for site in one.sites)

    pair(lambda a, b: a.label is not None and a.label == b.label)
    pair(lambda a, b: a.label is None and b.label is None and names(a) == names(b))
    pair(lambda a, b: a.label is None and b.label is None)
    return origin


def _same_sites(before: Molecule, after: Molecule) -> list[tuple[int, int]]:
    """Pairs of sites of a molecule on both sides: equal names, in their order."""
    free = list(range(len(before.sites)))
    pairs = []
    for t, site in enumerate(after.sites):
        s = next((s for s in free if before.sites[s].name == site.name), None)
        if s is None and site.name == PLACE:
            raise RuleError(
                f"the product '{after.name}' is in a compartment that the reactant does not name"
            )
        if s is None:
            raise RuleError(
                f"the product '{after.name}' has a site '{site.name}' that the reactant has not"
            )
        free.remove(s)
        pairs.append((s, t))
    free = [s for s in free if before.sites[s].name != PLACE]  # where it was, it stays
    if free:
        raise RuleError(
            f"the product '{after.name}' has no site '{before.sites[free[0]].name}', which the "
            "reactant has"
        )
    return pairs


def symmetry(rule: Rule) -> int:
    """Number of ways in which a rule is the same with its reactants and centre renumbered."""
    starts = _starts(rule.reactants)
    found = set()
    for order in permutations(range(len(rule.reactants))):
        maps = [renumberings(rule.reactants[i], rule.reactants[j]) for i, j in enumerate(order)]
        for each in product(*maps):
            place: dict[Place, Place] = {}
            for i, (j, one) in enumerate(zip(order, each, strict=True)):
                for m, n in enumerate(one.molecules):
                    place[starts[i] + m, -1] = (starts[j] + n, -1)
                    for s, t in enumerate(one.sites[m]):
                        place[starts[i] + m, s] = (starts[j] + n, t)
            kept = all(order[one.reactant] == one.reactant for one in rule.locals
                       if one.reactant >= 0)  # fmt: skip
            if kept and _acts_alike(rule, place):
                found.add((order, tuple(place[one] for one in rule.centre)))
    return len(found)


def _acts_alike(rule: Rule, place: dict[Place, Place]) -> bool:
    def moved(at: Place) -> Place:
        return place.get(at, at)  # created molecules stay

    def bonds(given: tuple[tuple[Place, Place], ...], move: bool) -> set[frozenset[Place]]:
        return {frozenset(moved(end) if move else end for end in bond) for bond in given}

    return (
        {(moved(at), state) for at, state in rule.states} == set(rule.states)
        and bonds(rule.broken, True) == bonds(rule.broken, False)
        and bonds(rule.made, True) == bonds(rule.made, False)
        and {moved((m, -1)) for m in rule.deleted} == {(m, -1) for m in rule.deleted}
        and all(moved((m, -1)) == (m, -1) for m in rule.tagged)
    )


@dataclass(frozen=True)
class Generated:
    """Species, and reactions between them by their numbers."""

    species: list[Graph]
    names: list[str]  # canonical
    # (reactants, products, factor, rate)
    reactions: list[tuple[tuple[int, ...], tuple[int, ...], Fraction, str]]


class TooManyError(ValueError):
    """More species, or larger ones, than allowed."""


_POLYMER = 30
"""Molecules of a species beyond which rules are taken to go on for ever, if nothing bounds them."""


class Generator:
    """Applies rules until they make nothing new."""

    def __init__(
        self, rules: Sequence[Rule], most: int, largest: float | None = None,
        compartments: Compartments | None = None,
    ) -> None:  # fmt: skip
        self.rules, self.most, self.compartments = rules, most, compartments
        # molecules of a species; reactions that make larger ones are left out
        self.largest = math.inf if largest is None else largest
        self.goes_on = largest is None  # if nothing bounds it
        self.symmetries = [symmetry(rule) for rule in rules]
        self.species: list[Graph] = []
        self.numbers: dict[str, int] = {}
        # [rule][reactant]: species and where the pattern is in it, one for each centre
        self.found: list[list[list[tuple[int, Match]]]] = [
            [[] for _ in rule.reactants] for rule in rules
        ]
        self.counts: dict[tuple[int, int], int] = {}  # by observable and species
        # factors by rule, rate, reactants and products
        self.reactions: dict[tuple[str, str, tuple[int, ...], tuple[int, ...]], Fraction] = {}

    def number_of(self, graph: Graph) -> int:
        """The number of a species; equal species have one number."""
        name = canonical(graph)
        if name not in self.numbers:
            if len(self.species) >= self.most:
                raise TooManyError(f"more than max_species = {self.most:,} species")
            if self.goes_on and len(graph.molecules) > _POLYMER:
                raise TooManyError(f"species of more than {_POLYMER} molecules")
            self.numbers[name] = len(self.species)
            self.species.append(graph)
        return self.numbers[name]

    def run(self, seeds: Iterable[Graph], iterations: int | None) -> Generated:
        """Generate the network; `iterations` bounds how often all rules are applied."""
        self.goes_on = self.goes_on and iterations is None
        for seed in seeds:
            self.number_of(seed)
        for rule in self.rules:
            if not rule.reactants:
                self._apply(rule, 0, ())
        known, rounds = 0, 0
        while known < len(self.species) and (iterations is None or rounds < iterations):
            last = len(self.species)
            for k, rule in enumerate(self.rules):
                old = [len(found) for found in self.found[k]]
                for i, pattern in enumerate(rule.reactants):
                    for number in range(known, last):
                        self.found[k][i] += self._places(rule, i, pattern, number)
                self._combine(k, rule, old)
            known = last
            rounds += 1
        reactions = [(left, right, factor, rate) for (_, rate, left, right), factor
                     in self.reactions.items()]  # fmt: skip
        return Generated(self.species, list(self.numbers), reactions)

    def _places(self, rule: Rule, i: int, pattern: Graph, number: int) -> list[tuple[int, Match]]:
        """Where a pattern is in a species; places with the same centre are one."""
        start = _starts(rule.reactants)[i]
        inside = [(m - start, s) for m, s in rule.centre
                  if start <= m < start + len(pattern.molecules)]  # fmt: skip
        if not all(
            one.holds(self.species[number])
            for one in rule.conditions
            if one.of_reactants and one.place == i
        ):
            return []
        unique: dict[tuple, Match] = {}
        for match in matches(pattern, self.species[number]):
            key = tuple(
                (match.molecules[m], match.sites[m][s] if s >= 0 else -1) for m, s in inside
            )
            unique.setdefault(key, match)
        return [(number, match) for match in unique.values()]

    def _combine(self, k: int, rule: Rule, old: list[int]) -> None:
        found = self.found[k]
        for first in range(len(found)):  # the first reactant that is new in this round
            known = [places[: old[i]] for i, places in enumerate(found[:first])]
            for chosen in product(*known, found[first][old[first] :], *found[first + 1 :]):
                self._apply(rule, k, chosen)

    def _apply(self, rule: Rule, k: int, chosen: Sequence[tuple[int, Match]]) -> None:
        taken = [self.species[number] for number, _ in chosen]
        made = _products(rule, taken, [match for _, match in chosen], self.compartments)
        if made is None or max((len(g.molecules) for g in made), default=0) > self.largest:
            return
        if not all(
            one.holds(made[one.place])
            for one in rule.conditions
            if not one.of_reactants and one.place < len(made)
        ):
            return
        size = self.compartments.factor(taken, made) if self.compartments else ""
        if size is None:
            return
        right = tuple(sorted(self.number_of(one) for one in made))
        left = tuple(sorted(number for number, _ in chosen))
        rate = self._rate(rule, chosen, right)
        key = rule.name, f"({rate}){size}" if size else rate, left, right
        self.reactions[key] = self.reactions.get(key, Fraction(0)) + Fraction(1, self.symmetries[k])

    def _rate(self, rule: Rule, chosen: Sequence[tuple[int, Match]], made: Sequence[int]) -> str:
        """The rate of a rule, with numbers for what depends on what it takes and makes."""
        rate = rule.rate
        for one in rule.locals:
            if one.reactant < 0:
                count = sum(self._count(one.observable, number) for number in made)
                count -= sum(self._count(one.observable, number) for number, _ in chosen)
            elif one.molecule < 0:
                count = self._count(one.observable, chosen[one.reactant][0])
            else:
                number, match = chosen[one.reactant]
                there = match.molecules[one.molecule]
                count = one.observable.number(self.species[number], there)
            rate = re.sub(rf"\b{one.name}\b", f"({count})" if count < 0 else str(count), rate)
        return rate

    def _count(self, observable: Observable, number: int) -> int:
        """How much of an observable a species has."""
        key = id(observable), number
        if key not in self.counts:
            self.counts[key] = observable.number(self.species[number])
        return self.counts[key]


def _products(
    rule: Rule, taken: list[Graph], chosen: list[Match], compartments: Compartments | None
) -> list[Graph] | None:
    """The species that a rule makes, in the order of its products; None if they are not as many."""
    molecules: list[Molecule] = []
    bonds: set[frozenset[Place]] = set()
    at: list[int] = []  # of each molecule of the patterns, its number among all
    sites: list[tuple[int, ...]] = []
    gone: set[int] = set()
    for i, (graph, match) in enumerate(zip(taken, chosen, strict=True)):
        start = len(molecules)
        molecules += graph.molecules
        bonds |= {frozenset(((start + m, s), (start + n, t))) for (m, s), (n, t) in graph.pairs()}
        at += [start + m for m in match.molecules]
        sites += match.sites
        if i in rule.whole:
            gone |= set(range(start, len(molecules)))
    gone |= {at[m] for m in rule.deleted}
    reactant = [i for i, graph in enumerate(taken) for _ in graph.molecules]
    for one in rule.created:
        at.append(len(molecules))
        sites.append(tuple(range(len(one.sites))))
        inherited = compartments.of(taken[0]) if compartments and taken else None
        molecules.append(_placed(one, inherited, only_free=True))

    def place(given: Place) -> Place:
        return at[given[0]], sites[given[0]][given[1]]

    for given, state in rule.states:
        m, s = place(given)
        changed = list(molecules[m].sites)
        changed[s] = changed[s]._replace(state=state)
        molecules[m] = replace(molecules[m], sites=tuple(changed))
    if rule.moves_connected:
        _move_connected(rule, taken, molecules, bonds, place)
    for i, old, new in rule.moves:
        goes = compartments.moved(old, new) if compartments else {}
        for m, of in enumerate(reactant):
            if of == i:
                where = places_of(Graph((molecules[m],)))[0]
                molecules[m] = _placed(molecules[m], goes.get(str(where), where))
    bonds -= {frozenset(map(place, bond)) for bond in rule.broken}
    bonds |= {frozenset(map(place, bond)) for bond in rule.made}
    left = [m for m in range(len(molecules)) if m not in gone]
    number = {m: i for i, m in enumerate(left)}
    partners = both_ways(
        [(number[m], s) for m, s in bond] for bond in bonds if all(m in number for m, _ in bond)
    )
    # The bonds of a molecule's sites are in `partners`; here is their number, as they look.
    whole = Graph(
        tuple(
            _bound(molecules[m], [len(partners.get((number[m], s), ()))
                                  for s in range(len(molecules[m].sites))])
            for m in left
        ),
        partners,
    )  # fmt: skip
    parts = whole.parts()
    if rule.keeps_parts and len(parts) != len(rule.heads):
        return None
    heads = [number.get(at[head], -1) for head in rule.heads]  # in what order the rule has them
    parts.sort(
        key=lambda part: min((k for k, m in enumerate(heads) if m in part), default=len(heads))
    )
    return [whole.part(part) for part in parts]


def _placed(one: Molecule, place: str | None, only_free: bool = False) -> Molecule:
    """A molecule in a compartment; with `only_free`, if it is in none."""
    return replace(one, sites=tuple(
        site._replace(state=place)
        if site.name == PLACE and not (only_free and site.state is not None) else site
        for site in one.sites
    ))  # fmt: skip


def _move_connected(
    rule: Rule, taken: list[Graph], molecules: list[Molecule], bonds: set[frozenset[Place]],
    place: Callable[[Place], Place],
) -> None:  # fmt: skip
    """Move what is bound to molecules that move, as far as it is in the same compartment."""
    before = [where for graph in taken for where in places_of(graph)]
    near: dict[int, set[int]] = {}
    for one, other in (sorted(m for m, _ in bond) for bond in bonds):
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    for given, new in rule.states:
        m, s = place(given)
        if molecules[m].sites[s].name != PLACE:
            continue
        waiting, seen = [m], {m}
        while waiting:
            one = waiting.pop()
            molecules[one] = _placed(molecules[one], new)
            more = {n for n in near.get(one, ()) if before[n] == before[m]} - seen
            seen |= more
            waiting += more


def _bound(one: Molecule, counts: list[int]) -> Molecule:
    """A molecule whose sites have these numbers of bonds."""
    if one.label is None and [len(site.bonds) for site in one.sites] == counts:
        return one
    sites = zip(one.sites, counts, strict=True)
    return Molecule(one.name, tuple(s._replace(bonds=("",) * count) for s, count in sites))
