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


def test_meetings_have_dates():
    """As text, of NumPy or of pandas; the unit of time is a day."""
    begin = np.array(["2026-03-02T09:00", "2026-03-03T12:00"], "datetime64[m]")
    end = begin + np.timedelta64(6, "h")
    found = ergode.TemporalContacts.from_meetings([0, 1], [1, 2], begin, end, directed=True)
    assert found.begin.tolist() == [0.375, 1.5] and found.end.tolist() == [0.625, 1.75]
    assert found.origin == np.datetime64("2026-03-02")
    assert "2026-03-02T09:00:00 to 2026-03-03T18:00:00" in repr(found)
    text = ergode.TemporalContacts.from_meetings(
        [0, 1], [1, 2], begin.astype(str), end.tolist(), directed=True, origin="2026-03-01"
    )
    assert text.begin.tolist() == [1.375, 2.5]
    assert text.since("2026-03-02").digest == found.digest != text.digest
    both = ergode.TemporalContacts.from_layers({"a": found, "b": text})
    assert both.origin == np.datetime64("2026-03-01")
    np.testing.assert_array_equal(np.sort(both.begin), [1.375, 1.375, 2.5, 2.5])
    assert both.with_attributes(age=[1, 2, 3]).origin == both.origin
    plain = ergode.TemporalContacts.from_meetings([0], [1], [0.0], [1.0], node_count=3)
    assert plain.origin is None and plain.since("2026-03-02") is plain
    with pytest.raises(ergode.ModelError, match="expected all or none"):
        ergode.TemporalContacts.from_layers({"a": both, "b": plain})
    with pytest.raises(ergode.ModelError, match="both to have dates"):
        ergode.TemporalContacts.from_meetings([0], [1], ["2026-03-02"], [1.0])
    with pytest.raises(ergode.ModelError, match="both to have dates"):
        ergode.TemporalContacts.from_meetings([0], [1], [1.0], ["2026-03-02"])
