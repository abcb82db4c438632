"""Molecules with sites: patterns and species as graphs.

A *site* has a name, a state, and bonds.  In a species every site of a molecule is there; in a
pattern only those that matter.  A species is a graph of molecules whose bonds join sites.

References
----------
J. R. Faeder, M. L. Blinov, W. S. Hlavacek, Rule-based modeling of biochemical systems with
BioNetGen, Methods Mol. Biol. 500, 113 (2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

PLACE = "@"
"""Name of the site whose state is the compartment of a molecule."""


class RuleError(ValueError):
    """A pattern or a rule that says nothing definite."""


ANY, BOUND = "?", "+"
"""Bonds of a pattern: there may be one; there is one, with whatever partner."""

Place = tuple[int, int]
"""Number of a molecule and of its site."""


class Site(NamedTuple):
    """A site of a molecule; its bonds are names, or `ANY` or `BOUND` alone; none if it is free."""

    name: str
    state: str | None = None  # None: any
    bonds: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it does not say what it is bound to."""
        return self.bonds in ((ANY,), (BOUND,))


@dataclass(frozen=True)
class Molecule:
    """A molecule, or the part of one that a pattern names."""

    name: str
    sites: tuple[Site, ...] = ()
    label: str | None = None  # ``%x``: which molecules of the two sides of a rule are the same


@dataclass(frozen=True)
class Graph:
    """Molecules and their bonds: a pattern, or a species."""

    molecules: tuple[Molecule, ...]
    # The sites to which a site is bound, each from both ends.
    partners: dict[Place, tuple[Place, ...]] = field(default_factory=dict, compare=False)
    label: str | None = None  # ``%x:``: what a rate calls the species
    # ``@c:``: the compartment of the species, and all surfaces
    within: tuple[str, frozenset[str]] | None = None

    @classmethod
    def of(
        cls, molecules: tuple[Molecule, ...], label: str | None = None, within: str | None = None
    ) -> Graph:
        """The graph of molecules whose sites name their bonds."""
        ends: dict[str, list[Place]] = {}
        for m, molecule in enumerate(molecules):
            for s, site in enumerate(molecule.sites):
                for name in () if site.is_open else site.bonds:
                    ends.setdefault(name, []).append((m, s))
        for name, places in ends.items():
            if len(places) != 2:
                raise ValueError(f"the bond '{name}' has {len(places)} end(s); expected two")
        return cls(molecules, both_ways(ends.values()), label,
                   (within, frozenset()) if within else None)  # fmt: skip

    def pairs(self) -> list[tuple[Place, Place]]:
        """Both ends of every bond, in both orders."""
        return [(end, there) for end, all_there in self.partners.items() for there in all_there]

    def parts(self) -> list[list[int]]:
        """Molecules of each connected part."""
        joined: dict[int, set[int]] = {m: set() for m in range(len(self.molecules))}
        for (m, _), (n, _) in self.pairs():
            joined[m].add(n)
        left, found = dict.fromkeys(joined), []
        while left:
            part: list[int] = []
            waiting = [next(iter(left))]
            while waiting:
                m = waiting.pop()
                if m in left:
                    left.pop(m)
                    part.append(m)
                    waiting += joined[m]
            found.append(sorted(part))
        return found

    def part(self, molecules: list[int]) -> Graph:
        """The graph of some of its molecules, which are bound to no others."""
        place = {m: i for i, m in enumerate(molecules)}
        partners = {
            (place[m], s): tuple((place[n], t) for n, t in there)
            for (m, s), there in self.partners.items()
            if m in place
        }
        return Graph(tuple(self.molecules[m] for m in molecules), partners)


def both_ways(bonds: Iterable[Iterable[Place]]) -> dict[Place, tuple[Place, ...]]:
    """The partners of every site, of pairs of sites."""
    partners: dict[Place, tuple[Place, ...]] = {}
    for one, other in bonds:
        partners[one] = (*partners.get(one, ()), other)
        partners[other] = (*partners.get(other, ()), one)
    return partners


# ---- one name for equal species


def canonical(graph: Graph) -> str:
    """The text of a species; equal species have equal texts.

    Molecules and bound sites are sorted by what they are and what is around them, until that tells
    no more apart (Weisfeiler and Lehman).  Of those that are still alike, each is tried as the
    first; one is enough if there is no ring, where all of them are equivalent.
    """
    vertices = _Vertices(graph)
    ring = len(graph.pairs()) // 2 >= len(graph.molecules)
    return min(_text(graph, vertices, ranks) for ranks in vertices.orders(ring))


class _Vertices:
    """Molecules, then their bound sites, with what each is next to."""

    def __init__(self, graph: Graph) -> None:
        self.of_site = {
            place: len(graph.molecules) + k for k, place in enumerate(sorted(graph.partners))
        }
        self.looks: list[tuple] = [
            (one.name, tuple(sorted((s.name, s.state or "", len(s.bonds)) for s in one.sites)))
            for one in graph.molecules
        ]
        self.near: list[list[int]] = [[] for _ in graph.molecules]
        for place in self.of_site:
            site = graph.molecules[place[0]].sites[place[1]]
            self.looks.append(("", ((site.name, site.state or "", len(site.bonds)),)))
            self.near.append([place[0], *(self.of_site[there] for there in graph.partners[place])])
            self.near[place[0]].append(self.of_site[place])

    def orders(self, ring: bool) -> Iterator[list[int]]:
        """Ranks of all vertices, all different."""
        yield from self._split(self._refined(self.looks), ring)

    def _split(self, ranks: list[int], ring: bool) -> Iterator[list[int]]:
        alike: dict[int, list[int]] = {}
        for vertex, rank in enumerate(ranks):
            alike.setdefault(rank, []).append(vertex)
        tied = next((alike[rank] for rank in sorted(alike) if len(alike[rank]) > 1), None)
        if tied is None:
            yield ranks
            return
        for first in tied if ring else tied[:1]:
            keys = [(rank, vertex != first) for vertex, rank in enumerate(ranks)]
            yield from self._split(self._refined(keys), ring)

    def _refined(self, keys: list) -> list[int]:
        ranks = _ranks(keys)
        while True:
            around = (sorted(ranks[there] for there in near) for near in self.near)
            finer = _ranks([(rank, tuple(one)) for rank, one in zip(ranks, around, strict=True)])
            if max(finer) == max(ranks):
                return finer
            ranks = finer


def _ranks(keys: list) -> list[int]:
    order = {key: i for i, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]


def _text(graph: Graph, vertices: _Vertices, ranks: list[int]) -> str:
    """The species in an order, bonds numbered as they occur."""
    numbers: dict[frozenset[Place], int] = {}

    def rank(place: Place) -> int:
        return ranks[vertices.of_site[place]] if place in vertices.of_site else -1

    words = []
    for m in sorted(range(len(graph.molecules)), key=ranks.__getitem__):
        sites = graph.molecules[m].sites
        written = []
        keys = [(site.name, site.state or "", rank((m, s)), s) for s, site in enumerate(sites)
                if site.name != PLACE]  # fmt: skip
        for *_, s in sorted(keys):
            word = sites[s].name + (f"~{sites[s].state}" if sites[s].state is not None else "")
            for there in sorted(graph.partners.get((m, s), ()), key=rank):
                word += f"!{numbers.setdefault(frozenset(((m, s), there)), len(numbers) + 1)}"
            written.append(word)
        place = "".join(f"@{site.state}" for site in sites if site.name == PLACE)
        words.append(f"{graph.molecules[m].name}({','.join(written)}){place}")
    return ".".join(words)


# ---- where a pattern occurs


class Match(NamedTuple):
    """Where a pattern is in a species."""

    molecules: tuple[int, ...]  # of each molecule of the pattern, one of the species
    sites: tuple[tuple[int, ...], ...]  # of each of its sites


def matches(pattern: Graph, graph: Graph) -> list[Match]:
    """All places where a pattern occurs in a species."""
    found: list[Match] = []
    if pattern.within and not _is_within(graph, *pattern.within):
        return found
    _extend(pattern, graph, [None] * len(pattern.molecules), [()] * len(pattern.molecules), found)
    return found


def _is_within(graph: Graph, place: str, surfaces: frozenset[str]) -> bool:
    """Whether a species is in a compartment: at a surface with any molecule, or in it with all."""
    there = {site.state for one in graph.molecules for site in one.sites if site.name == PLACE}
    return place in there and (place in surfaces or not there & surfaces)


def _extend(
    pattern: Graph, graph: Graph, chosen: list[int | None], sites: list[tuple[int, ...]],
    found: list[Match],
) -> None:  # fmt: skip
    m, candidates = _next(pattern, graph, chosen, sites)
    if m is None:
        found.append(Match(tuple(n for n in chosen if n is not None), tuple(sites)))
        return
    for n in candidates:
        if n in chosen or graph.molecules[n].name != pattern.molecules[m].name:
            continue
        chosen[m] = n
        for places in _site_choices(pattern, graph, m, n):
            sites[m] = places
            if _is_bound_alike(pattern, graph, m, chosen, sites):
                _extend(pattern, graph, chosen, sites, found)
        chosen[m], sites[m] = None, ()


def _next(
    pattern: Graph, graph: Graph, chosen: list[int | None], sites: list[tuple[int, ...]]
) -> tuple[int | None, Iterable[int]]:
    """A molecule without a place, and where it may be; one that is bound to a placed one first."""
    for (m, s), (p, _) in pattern.pairs():
        n = chosen[m]
        if n is not None and chosen[p] is None:
            return p, dict.fromkeys(q for q, _ in graph.partners[n, sites[m][s]])
    free = next((m for m, n in enumerate(chosen) if n is None), None)
    return free, range(len(graph.molecules))


def _is_bound_alike(
    pattern: Graph, graph: Graph, m: int, chosen: list[int | None], sites: list[tuple[int, ...]]
) -> bool:
    """Whether the bonds of a molecule to others that have a place are there."""
    for (one, s), (other, t) in pattern.pairs():
        a, b = chosen[one], chosen[other]
        if one != m or a is None or b is None:
            continue
        if (b, sites[other][t]) not in graph.partners[a, sites[one][s]]:
            return False
    return True


def _site_choices(pattern: Graph, graph: Graph, m: int, n: int) -> Iterator[tuple[int, ...]]:
    """Sites of the molecule `n` for those of the pattern's molecule `m`."""
    wanted, there = pattern.molecules[m].sites, graph.molecules[n].sites

    def fits(want: Site, t: int) -> bool:
        count = len(graph.partners.get((n, t), ()))
        if want.name != there[t].name or want.state not in (None, there[t].state):
            return False
        if want.is_open:
            return want.bonds == (ANY,) or count > 0
        return len(want.bonds) == count

    picked: list[int] = []

    def pick(s: int) -> Iterator[tuple[int, ...]]:
        if s == len(wanted):
            yield tuple(picked)
            return
        for t in range(len(there)):
            if t not in picked and fits(wanted[s], t):
                picked.append(t)
                yield from pick(s + 1)
                picked.pop()

    yield from pick(0)


def renumberings(one: Graph, other: Graph) -> list[Match]:
    """The ways in which two patterns are the same."""
    if len(one.molecules) != len(other.molecules) or one.within != other.within:
        return []
    return [
        match
        for match in matches(_exact(one), _exact(other))
        if all(
            len(sites) == len(other.molecules[m].sites)
            for sites, m in zip(match.sites, match.molecules, strict=True)
        )
    ]


def _exact(pattern: Graph) -> Graph:
    """The pattern as a species: what is not said becomes a state and a bond of its own."""
    molecules = tuple(
        replace(one, sites=tuple(
            Site(f"{s.name}~{s.state or ''}!{s.bonds[0] if s.is_open else ''}", None,
                 () if s.is_open else s.bonds)
            for s in one.sites
        ))
        for one in pattern.molecules
    )  # fmt: skip
    return Graph(molecules, pattern.partners)


def automorphisms(pattern: Graph) -> int:
    """In how many ways a pattern is the same as itself."""
    return len(renumberings(pattern, pattern))
