"""What a rule takes and does, by numbers of places."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from ergode.core.errors import PlanError
from ergode.models.rules.generation import Local, Rule
from ergode.models.rules.patterns import Graph, Molecule, Place
from ergode.stochastic.rules.programs import Part, Vocabulary, parts_of

# What a rule does, in this order.
BREAK, SET, REMOVE, REMOVE_ALL, CREATE, MAKE = range(6)
# How the places of a reactant are found: each of a list; one of those in a complex; two of it.
EACH, ONCE, TWO = range(3)

Condition = tuple[bool, list[Part]]
"""Whether a complex must have a pattern or must not, and the parts of the pattern."""


@dataclass(frozen=True)
class Reactant:
    """A pattern that a rule takes."""

    parts: list[Part]
    way: int
    first: int  # number of the first place of its centre
    conditions: list[Condition]

    @property
    def anchors(self) -> list[Part]:
        """Parts whose places are kept in lists."""
        return self.parts if self.way == TWO else self.parts[:1]


class RuleArrays:
    """Numbers of a rule for the kernel.

    Places are numbered: those of the centre, then all sites of molecules that the rule creates.
    """

    def __init__(self, rule: Rule, what: str, words: Vocabulary) -> None:
        self.rule, self.words, self.what = rule, words, what
        numbers = count()
        self.place: dict[Place, int] = {}
        starts = np.cumsum([0, *(len(one.molecules) for one in rule.reactants)]).tolist()
        self.reactants = []
        for i, (start, pattern) in enumerate(zip(starts, rule.reactants, strict=False)):
            self.reactants.append(self._reactant(i, start, pattern, numbers))
        self.reactant_of = [i for i, one in enumerate(rule.reactants) for _ in one.molecules]
        self.created_types = [words.type_of(one.name) for one in rule.created]
        self.created_states = [states_of(one, words) for one in rule.created]
        self.created_first = []
        for c, one in enumerate(rule.created):
            first = next(numbers)
            for _ in range(1, words.width):
                next(numbers)
            self.created_first.append(first)
            for s, t in concrete_sites(Graph((one,)), words).items():
                self.place[rule.taken + c, s[1]] = first + t
        self.place_count = next(numbers)
        self._check_bonds()
        self.operations = self._operations()
        self.groups, self.class_count = self._groups()
        # -1: as many species as there happen to be; -2: the rule never applies
        self.product_count = len(rule.heads) if rule.keeps_parts else -1
        if not rule.keeps_parts:
            self.groups = []  # nothing to count
        elif not self.groups:
            self.product_count = -1 if self.class_count == len(rule.heads) else -2
        self.made_conditions = self._made_conditions(starts)

    def _reactant(self, i: int, start: int, pattern: Graph, numbers: count[int]) -> Reactant:
        last = start + len(pattern.molecules)
        centre = [(m - start, s) for m, s in self.rule.centre if start <= m < last]
        parts = parts_of(pattern, centre, self.words, self.what)
        first = -1
        for part in parts:
            for m, s in part.key:
                self.place[m + start, s] = next(numbers)
                first = self.place[m + start, s] if first < 0 else first
        way = TWO if len(parts) > 1 and parts[1].key else EACH if parts[0].key else ONCE
        return Reactant(parts, way, max(first, 0), self._conditions(True, i))

    def weighted_reactant(self) -> int:
        """The reactant on which the rate depends."""
        found = {one.reactant for one in self.rule.locals}
        if len(found) > 1:
            raise PlanError(
                f"{self.what} has a rate that depends on two reactants; simulation without a "
                "network takes one"
            )
        return found.pop()

    def key_of(self, local: Local) -> int:
        """Which place of the centre is in the molecule of a number of the rate; -1: none."""
        if local.molecule < 0:
            return -1
        key = self.reactants[local.reactant].parts[0].key
        if (local.molecule, -1) not in key:
            raise PlanError(
                f"{self.what} has a rate that depends on a molecule which no bond of the pattern "
                "joins to the first one that changes; simulation without a network does not take it"
            )
        return key.index((local.molecule, -1))

    def _conditions(self, of_reactants: bool, place: int) -> list[Condition]:
        found = []
        for one in self.rule.conditions:
            if one.of_reactants != of_reactants or one.place != place:
                continue
            if one.includes and len(one.patterns) != 1:
                raise PlanError(
                    f"{self.what} includes one of several patterns; simulation without a network "
                    "takes one pattern"
                )
            for pattern in one.patterns:
                parts = parts_of(pattern, None, self.words, self.what)
                found.append((one.includes, parts))
        return found

    def _made_conditions(self, starts: list[int]) -> list[tuple[Condition, int, int]]:
        """Conditions of products, with the reactant of their first molecule, and which it is."""
        found = []
        for k, head in enumerate(self.rule.heads):
            for condition in self._conditions(False, k):
                if self.rule.deleted or self.rule.created:
                    raise PlanError(
                        f"{self.what} makes or deletes molecules, and has a condition of its "
                        "products; simulation without a network does not take both"
                    )
                i = self.reactant_of[head]
                part = self.reactants[i].parts[0]
                if head - starts[i] not in part.molecules:
                    raise PlanError(
                        f"{self.what} has a condition of a product whose first molecule no bond "
                        "joins to what changes; simulation without a network does not take it"
                    )
                found.append((condition, i, part.molecules.index(head - starts[i])))
        return found

    # ---- what it does

    def _check_bonds(self) -> None:
        """Refuse sites with two bonds."""
        rule = self.rule
        before = [one for graph in rule.reactants for one in graph.molecules]
        old = {
            (starts + m, s): len(there)
            for starts, graph in zip(
                np.cumsum([0, *(len(one.molecules) for one in rule.reactants)]).tolist(),
                rule.reactants, strict=False,
            )
            for (m, s), there in graph.partners.items()
        }  # fmt: skip
        gone = set(rule.deleted)
        bonds: dict[Place, int] = {}
        for end in (end for bond in rule.made for end in bond):
            bonds[end] = bonds.get(end, 0) + 1
            if end in old and bonds[end] == 1:
                broken = sum(end in bond for bond in rule.broken)
                start = sum(len(g.molecules) for g in rule.reactants[: self.reactant_of[end[0]]])
                graph = rule.reactants[self.reactant_of[end[0]]]
                there = graph.partners[end[0] - start, end[1]]
                lost = sum(n + start in gone for n, _ in there)
                bonds[end] += old[end] - broken - lost
            if bonds[end] > 1:
                one = [*before, *rule.created][end[0]]
                raise PlanError(two_bonds(f"{one.name}({one.sites[end[1]].name})"))

    def _operations(self) -> list[tuple[int, int, int, int]]:
        """Rows: what, and up to three numbers (see `kernel.change_graph`)."""
        rule, place = self.rule, self.place
        made = [(BREAK, place[one], place[other], 0) for one, other in rule.broken]
        made += [(SET, place[at], self.words.state(state), 0) for at, state in rule.states]
        whole = {m for m, i in enumerate(self.reactant_of) if i in rule.whole}
        made += [(REMOVE, place[m, -1], 0, 0) for m in rule.deleted if m not in whole]
        made += [(REMOVE_ALL, i, 0, 0) for i in rule.whole]
        made += [
            (CREATE, self.created_first[c], kind, c) for c, kind in enumerate(self.created_types)
        ]
        made += [(MAKE, place[one], place[other], 0) for one, other in rule.made]
        return made

    def _groups(self) -> tuple[list[tuple[int, int, int]], int]:
        """Molecules that stay joined by what the rule says, of reactants that lose a bond.

        Rows: a place of it, the reactant, and a class; classes that have no row count, too.
        """
        rule = self.rule
        molecules = range(rule.taken + len(rule.created))
        label = list(molecules)

        def join(one: int, other: int) -> None:
            old, new = label[one], label[other]
            label[:] = [new if one == old else one for one in label]

        broken = {frozenset(bond) for bond in rule.broken}
        opened = {self.reactant_of[m] for bond in rule.broken for m, _ in bond}
        start = 0
        for i, graph in enumerate(rule.reactants):
            for (m, s), (n, t) in graph.pairs():
                if frozenset(((start + m, s), (start + n, t))) not in broken:
                    join(start + m, start + n)
            if i not in opened:
                for m in range(1, len(graph.molecules)):
                    join(start, start + m)
            start += len(graph.molecules)
        for (one, _), (other, _) in rule.made:
            join(one, other)
        rows, seen, classes = [], set(), set()
        for (m, _), number in self.place.items():
            key = (label[m], self.reactant_of[m]) if m < rule.taken else (label[m], -1)
            if m < rule.taken and key[1] in opened and key not in seen:
                seen.add(key)
                rows.append((number, key[1], label[m]))
            classes.add(label[m])
        # A reactant that stays as it is, and what is created, are there without a place.
        classes |= {label[m] for m in molecules
                    if m >= rule.taken or self.reactant_of[m] not in opened}  # fmt: skip
        return rows, len(classes)


def two_bonds(site: str) -> str:
    """What is wrong with a site."""
    return f"the site {site} has two bonds; simulation without a network takes one bond a site"


def concrete_sites(graph: Graph, words: Vocabulary) -> dict[Place, int]:
    """Sites of the types for those of molecules that have all of them."""
    found = {}
    for m, one in enumerate(graph.molecules):
        left = list(enumerate(words.sites[words.type_of(one.name)]))
        for s, site in enumerate(one.sites):
            place = next(pair for pair in left if pair[1] == site.name)
            left.remove(place)
            found[m, s] = place[0]
    return found


def states_of(one: Molecule, words: Vocabulary) -> np.ndarray:
    """States of all sites of a molecule that has all of them."""
    states = np.full(words.width, -1, np.int16)
    for (_, s), t in concrete_sites(Graph((one,)), words).items():
        states[t] = words.state(one.sites[s].state)
    return states
