"""Patterns as graphs, against networkx on random molecules."""

import itertools

import numpy as np
import pytest

from ergode.models.rules.patterns import ANY, BOUND, Graph, Molecule, Site, canonical, matches

networkx = pytest.importorskip("networkx")

NAMES = {"A": ("a", "a", "b"), "B": ("a", "c"), "C": ("c", "c", "c")}
STATES = {"b": ("U", "P")}


def molecules(random, count):
    """Molecules with bonds between random free sites; some sites have two."""
    kinds = random.choice(list(NAMES), count)
    sites = [[Site(name, *random.choice(STATES[name], 1)) if name in STATES else Site(name)
              for name in NAMES[kind]] for kind in kinds]  # fmt: skip
    ends = [(m, s) for m in range(count) for s in range(len(sites[m]))]
    pairs = [random.choice(len(ends), 2, replace=False) for _ in range(random.integers(count + 2))]
    for number, (one, other) in enumerate({tuple(sorted(pair)) for pair in pairs}):
        (m, s), (n, t) = ends[one], ends[other]
        for at, site in ((m, s), (n, t)):
            old = sites[at][site]
            sites[at][site] = old._replace(bonds=(*old.bonds, str(number)))
    return [Molecule(kind, tuple(one)) for kind, one in zip(kinds, sites, strict=True)]


def as_networkx(graph, is_pattern=False):
    """A vertex for each molecule, site, and bond."""
    made = networkx.Graph()
    for m, molecule in enumerate(graph.molecules):
        made.add_node(m, look=("molecule", molecule.name))
        for s, site in enumerate(molecule.sites):
            count = None if site.is_open else len(graph.partners.get((m, s), ()))
            made.add_node((m, s), look=("site", site.name, site.state, site.bonds, count))
            made.add_edge(m, (m, s))
    for k, (one, other) in enumerate(pair for pair in graph.pairs() if pair[0] < pair[1]):
        made.add_node(("bond", k), look=("bond",))
        made.add_edges_from([(one, ("bond", k)), (other, ("bond", k))])
    return made


def same(one, other):
    a, b = one["look"], other["look"]
    return (a[0], a[1:3], a[4:]) == (b[0], b[1:3], b[4:])


def shuffled(random, parts):
    renamed = {str(k): f"x{i}" for k, i in enumerate(random.permutation(100))}
    found = []
    for i in random.permutation(len(parts)):
        sites = [parts[i].sites[s] for s in random.permutation(len(parts[i].sites))]
        sites = [one._replace(bonds=tuple(renamed[b] for b in one.bonds)) for one in sites]
        found.append(Molecule(parts[i].name, tuple(sites)))
    return Graph.of(tuple(found))


def test_equal_species_have_equal_names_and_others_have_not():
    random = np.random.default_rng(1)
    graphs = []
    for _ in range(150):
        parts = molecules(random, int(random.integers(1, 6)))
        graph = Graph.of(tuple(parts))
        assert canonical(graph) == canonical(shuffled(random, parts))
        graphs.append(graph)
    alike = 0
    for one, other in itertools.combinations(graphs, 2):
        if len(one.molecules) != len(other.molecules):
            assert canonical(one) != canonical(other)
            continue
        equal = networkx.is_isomorphic(as_networkx(one), as_networkx(other), node_match=same)
        assert (canonical(one) == canonical(other)) == equal
        alike += equal
    assert alike > 20


def test_rings_that_look_alike_at_every_molecule():
    """Two rings of three and one of six, whose molecules all see the same."""

    def ring(*sizes):
        parts, number = [], 0
        for size in sizes:
            parts += [
                Molecule("R", (Site("x", None, (f"{number + k}",)),
                               Site("x", None, (f"{number + (k + 1) % size}",))))
                for k in range(size)
            ]  # fmt: skip
            number += size
        return Graph.of(tuple(parts))

    assert canonical(ring(6)) != canonical(ring(3, 3))
    assert len(ring(3, 3).parts()) == 2
    one = Graph.of(
        (
            Molecule("R", (Site("x", None, ("1",)), Site("x", None, ("2",)))),
            Molecule("R", (Site("x", None, ("2",)),)),
            Molecule("R", (Site("x", None, ("1",)),)),
        )
    )
    assert len(matches(one, ring(6))) == 12


def fitting(one, other):
    """Whether a vertex of a species is one of a pattern."""
    have, want = one["look"], other["look"]
    if have[0] != want[0]:
        return False
    if have[0] != "site":
        return have == want
    if have[1] != want[1] or want[2] not in (None, have[2]):
        return False
    if want[3] == (BOUND,):
        return have[4] > 0
    return want[3] == (ANY,) or have[4] == want[4]


def test_every_place_of_a_pattern():
    random = np.random.default_rng(2)
    total = 0
    for _ in range(400):
        graph = Graph.of(tuple(molecules(random, int(random.integers(2, 6)))))
        pattern = []
        for one in molecules(random, int(random.integers(1, 3))):
            sites = [site for site in one.sites if site.bonds or random.random() < 0.5]
            for k, site in enumerate(sites):
                if site.state is not None and random.random() < 0.5:
                    sites[k] = site._replace(state=None)
                if not site.bonds and random.random() < 0.6:
                    sites[k] = sites[k]._replace(bonds=(str(random.choice([ANY, BOUND])),))
            pattern.append(Molecule(one.name, tuple(sites)))
        wanted = Graph.of(tuple(pattern))
        matcher = networkx.algorithms.isomorphism.GraphMatcher(
            as_networkx(graph), as_networkx(wanted), node_match=fitting
        )
        # Two bonds between the same sites can be exchanged in the graph of networkx.
        places = {
            frozenset(
                (b, a) for a, b in one.items() if not (isinstance(b, tuple) and b[0] == "bond")
            )
            for one in matcher.subgraph_monomorphisms_iter()
        }
        assert len(matches(wanted, graph)) == len(places)
        total += len(places)
    assert total > 100
