"""Counts in words."""

import ergode
from ergode.core.words import counted, plural, singular, totals


def test_one_is_not_in_the_plural():
    assert [counted(n, "species") for n in (0, 1, 2)] == ["0 species", "1 species", "2 species"]
    assert [counted(n, "trajectory") for n in (1, 2000)] == ["1 trajectory", "2,000 trajectories"]
    assert totals(species=1, reaction=1) == "1 species, 1 reaction"
    for item in ("replicate", "trajectory", "species", "zone"):
        assert singular(plural(item)) == item


def test_models_are_described_in_the_singular_where_they_have_one():
    network = ergode.ReactionNetwork({"X": 1}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    assert repr(network) == "<ReactionNetwork: 1 species, 1 reaction>"
    alone = ergode.ContactNetwork.from_edges([], [], node_count=1)
    assert repr(alone) == "ContactNetwork(1 node, 0 undirected edges, mean degree 0)"
