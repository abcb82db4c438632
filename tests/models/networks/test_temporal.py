"""TemporalContacts: what its constructors take, and what they refuse in one line."""

import igraph
import networkx
import numpy as np
import pytest

import ergode

PAIR = ergode.ContactNetwork.from_edges([0], [1], directed=True)
BOTH = ergode.ContactNetwork.from_edges([0], [1])


def test_the_constructor_takes_lists():
    contacts = ergode.TemporalContacts(PAIR, [0, 2], [1, 5], [2, 7], [1, 2])
    same = ergode.TemporalContacts.from_meetings([0, 0], [1, 1], [1, 5], [2, 7], directed=True)
    assert contacts.digest == same.digest
    assert not contacts.begin.flags.writeable
    nobody = ergode.ContactNetwork.from_edges([], [], node_count=5)
    empty = ergode.TemporalContacts(nobody, [0], [], [], [])
    assert empty.meeting_count == 0
    assert (
        empty.digest == ergode.TemporalContacts.from_meetings([], [], [], [], node_count=5).digest
    )


def test_what_the_library_makes_stands_the_checks_of_the_constructor():
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, 9, (2, 4_000))
    begin = np.round(rng.uniform(1e6, 1e6 + 500, 4_000), 1)
    lasting = ergode.TemporalContacts.from_meetings(source, target, begin, begin + 0.1)
    moments = ergode.TemporalContacts.from_meetings(source, target, begin, contact_time=0.3)
    both = ergode.TemporalContacts.from_layers({"a": lasting, "b": moments})
    for one in (lasting, moments, both):
        arrays = [values.tolist() for values in (one.first, one.begin, one.end, one.amount)]
        assert ergode.TemporalContacts(one.network, *arrays).digest == one.digest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, [], [], [], []), "network is int; expected a ContactNetwork"),
        ((PAIR, [0], [], [], []), "first has 1 elements"),
        ((PAIR, [0, 1], [1], [2, 3], [1]), "end has 2 elements and first ends at 1"),
        ((PAIR, [1, 1], [1], [2], [1]), "first begins with 1"),
        ((PAIR, [0, 1], ["a"], [2], [1]), "begin holds"),
        ((PAIR, [0, 1], [2], [1], [1]), r"end\[0\] is 1.0; a meeting must not end"),
        ((PAIR, [0, 2], [1, 2], [3, 4], [2, 2]), r"begin\[1\] is 2.0; meetings of an arc"),
        ((PAIR, [0, 1], [1], [2], [0]), r"amount\[0\] is 0.0"),
        ((PAIR, [0, 0], [], [], []), r"first\[1\] is 0; each arc needs one meeting or more"),
        ((BOTH, [0, 1, 3], [1, 1, 2], [2, 2, 3], [1, 1, 1]), "0 -> 1 and 1 -> 0 differ in their"),
        ((BOTH, [0, 1, 2], [1, 1], [2, 3], [1, 2]), "0 -> 1 and 1 -> 0 differ"),
    ],
)
def test_the_constructor_says_what_it_expects(arguments, message):
    with pytest.raises(ergode.ModelError, match=message):
        ergode.TemporalContacts(*arguments)


def test_both_arcs_of_a_pair_join_their_meetings_alike():
    # Gaps as wide as what counts as rounding: far apart, the two arcs must find the same.
    rng = np.random.default_rng(2)
    count = 3_000
    source, target = rng.integers(0, 60, (2, count))
    begin = rng.integers(0, 400, count) * 1e-6 + rng.choice([0.0, 1e3], count)
    contacts = ergode.TemporalContacts.from_meetings(source, target, begin, begin + 1e-6)
    contacts._check_mirrored()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ergode.ContactNetwork.from_layers([PAIR]), "layers are given as list"),
        (lambda: ergode.ContactNetwork.from_layers({"a": 5}), "layer 'a' is int; expected a Con"),
        (lambda: ergode.TemporalContacts.from_layers([PAIR]), "layers are given as list"),
        (lambda: ergode.ContactNetwork.from_networkx([(0, 1)]), "graph is list; expected a netw"),
        (
            lambda: ergode.ContactNetwork.from_networkx(igraph.Graph.Ring(3)),
            "graph is Graph; expected a networkx graph",
        ),
        (
            lambda: ergode.ContactNetwork.from_igraph(networkx.path_graph(3)),
            "graph is Graph; expected an igraph graph",
        ),
        (lambda: ergode.ContactNetwork.from_scipy([[0, 1], [1]]), "the matrix is ragged"),
        (
            lambda: ergode.TemporalContacts.from_meetings([0], [1], [2.0], contact_time="long"),
            "contact_time holds",
        ),
    ],
)
def test_networks_say_what_they_are_made_of(build, message):
    with pytest.raises(ergode.ModelError, match=message):
        build()
