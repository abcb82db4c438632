"""ContactNetwork: what is refused, and that nothing is lost on the way in or out."""

import pickle

import networkx
import numpy as np
import pytest
import scipy.sparse

import ergode
from ergode.core.errors import ModelError
from ergode.models.networks import csr
from ergode.models.networks.contact_network import ContactNetwork


def matrix_of(source, target, weights, node_count, directed):
    """The same network by way of scipy: duplicates added, loops removed."""
    matrix = scipy.sparse.coo_array((weights, (source, target)), (node_count, node_count)).tocsr()
    if not directed:
        matrix = matrix + matrix.T
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    ("node_count", "edge_count"), [(1, 0), (2, 5), (10, 40), (60, 9000), (5000, 40_000)]
)
def test_from_edges_agrees_with_scipy(node_count, edge_count, directed):
    rng = np.random.default_rng(node_count)
    source, target = rng.integers(0, node_count, (2, edge_count))
    weights = rng.integers(1, 9, edge_count).astype(np.float32)
    expected = matrix_of(source, target, weights, node_count, directed)
    weighted = ContactNetwork.from_edges(source, target, node_count, directed, weights)
    plain = ContactNetwork.from_edges(source, target, node_count, directed)
    for network in (weighted, plain):
        assert np.array_equal(network.offsets, expected.indptr)
        assert np.array_equal(network.targets, expected.indices)
    assert np.array_equal(weighted.weights, expected.data)
    assert plain.weights is None
    # The constructor checks everything that building promises.
    again = ContactNetwork(
        node_count, weighted.offsets, weighted.targets, weighted.weights, directed=directed
    )
    assert again == weighted


def test_many_duplicates_add_up_the_same_both_ways():
    # Float addition depends on order, and long rows are sorted by merging: order must be kept.
    rng = np.random.default_rng(5)
    source, target = rng.integers(0, 7, (2, 20_000))
    weights = rng.random(20_000)
    network = ContactNetwork.from_edges(source, target, weights=weights)
    ContactNetwork(7, network.offsets, network.targets, network.weights)
    assert network.weights.sum() == pytest.approx(2 * weights[source != target].sum(), rel=1e-4)


@pytest.mark.parametrize("directed", [False, True])
def test_few_edges_without_kernels_make_the_same_network(monkeypatch, directed):
    source, target = np.random.default_rng(2).integers(0, 60, (2, 8000))
    weights = np.random.default_rng(3).random(8000)
    few = ContactNetwork.from_edges(source, target, directed=directed, weights=weights)
    monkeypatch.setattr(csr, "_FEW", 0)
    many = ContactNetwork.from_edges(source, target, directed=directed, weights=weights)
    assert few == many and few.digest == many.digest


def test_building_does_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, 40_000, (2, 600_000))
    weights = rng.random(600_000)
    digests = set()
    for threads in (1, 2, 5):
        monkeypatch.setenv("ERGODE_THREADS", str(threads))
        digests.add(ContactNetwork.from_edges(source, target, weights=weights).digest)
    assert len(digests) == 1


def test_wide_indices(monkeypatch):
    # Networks beyond 2^31 nodes are too large for a test; their kernels are not.
    source, target = np.random.default_rng(1).integers(0, 3000, (2, 20_000))
    narrow = ContactNetwork.from_edges(source, target, weights=np.arange(20_000))
    monkeypatch.setattr(csr, "index_dtype", lambda largest: np.int64)
    wide = ContactNetwork.from_edges(source, target, weights=np.arange(20_000))
    assert wide.targets.dtype == wide.offsets.dtype == np.int64
    assert wide == narrow


def test_sort_rows_and_deal():
    offsets = np.array([0, 3, 3, 103])
    targets = np.concatenate([[5, 1, 3], np.random.default_rng(2).permutation(100)]).astype("i4")
    csr.sort_rows(offsets, targets)
    assert targets.tolist() == [1, 3, 5, *range(100)]
    keys = np.array([2, 0, 2, 1, 0], np.int32)
    starts, grouped = csr.deal(np.arange(5, dtype=np.int32), keys, 4)
    assert starts.tolist() == [0, 2, 3, 5, 5] and grouped.tolist() == [1, 4, 3, 0, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 12], [1, 2], 10), r"source\[1\] is 12; node ids run from 0 to node_count - 1 = 9"),
        (([0, 1], [1, -3]), r"target\[1\] is -3; node ids run from 0"),
        (([0, 1, 2], [1, 2]), "source has 3 elements and target 2"),
        (([0, 1.5], [1, 2]), r"source\[1\] is 1.5; node ids are whole numbers"),
        (([0, np.nan], [1, 2]), r"source\[1\] is nan; node ids are whole numbers"),
        ((["a", "b"], ["b", "c"]), "source holds <U1; expected integers"),
        (([True], [False]), "source holds bool; expected integers"),
        (([[0, 1]], [1]), r"source has shape \(1, 2\)"),
        (([[0, 1], [2]], [1]), "source is ragged"),
        (([], []), "without edges needs node_count"),
        (([0], [1], 0), "node_count is 0; a network has at least one node"),
        (([0], [1], 2.0), "node_count is 2.0; expected a whole number"),
        (([0, 1], [1, 2], 3, False, [1]), "weights has 1 elements and source 2"),
        (([0, 1], [1, 2], 3, False, [1, np.nan]), r"weights\[1\] is nan; a weight must be a num"),
        (([0, 1], [1, 2], 3, False, [1, -2]), r"weights\[1\] is -2; .* not be negative"),
        (([0, 1], [1, 2], 3, False, [np.inf, 1]), r"weights\[0\] is inf; .* finite"),
        (([0, 1], [1, 2], 3, False, [1, 1e39]), r"weights\[1\] is 1e\+39; .*in float32"),
        (([0, 1], [1, 2], 3, False, ["x", "y"]), "weights holds <U1; expected numbers"),
    ],
)
def test_from_edges_refuses(arguments, message):
    with pytest.raises(ModelError, match=message):
        ContactNetwork.from_edges(*arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": [0, 1, 2]}, r"offsets has 3 elements; expected node_count \+ 1 = 4"),
        ({"offsets": [0, 1, 3, 5]}, "offsets runs from 0 to 5"),
        ({"offsets": [0, 3, 1, 4]}, r"offsets\[2\] is 1; offsets must not decrease"),
        ({"targets": [1, 0, 3, 1]}, r"targets\[2\] is 3; node ids run from 0 to .* = 2"),
        ({"targets": [1, 0, 2, 2]}, r"targets\[3\] makes node 2 its own contact"),
        ({"targets": [1, 2, 0, 1]}, r"targets\[2\] does not increase within the row of node 1"),
        ({"targets": [1, 0, 2, 0]}, "the arc 2 -> 0 has no equal arc back"),
        ({"offsets": [0, 1, 2, 4], "targets": [1, 0, 0, 1]}, "the arc 2 -> 0 has no equal arc"),
        ({"weights": [1, 1, 2, 3]}, "the arc 1 -> 2 has no equal arc back"),
        ({"layers": ("a",)}, "expected layer, the layer of each arc, as well"),
        ({"layer": [0, 0, 0, 0]}, r"layers is \(\); expected 1 to 255 different names"),
        ({"layers": ("a",), "layer": [0, 0, 1, 0]}, r"layer\[2\] is 1; layers are numbered 0 to 0"),
        ({"attributes": {"age": [1, 2]}}, r"attribute 'age' has shape \(2,\); .* shape \(3,\)"),
        ({"node_names": ["a"]}, "node_names has 1 elements; expected node_count = 3"),
    ],
)
def test_constructor_refuses(changes, message):
    sound = {"node_count": 3, "offsets": [0, 1, 3, 4], "targets": [1, 0, 2, 1]}
    ContactNetwork(**sound)
    with pytest.raises(ModelError, match=message):
        ContactNetwork(**{**sound, **changes})


def test_what_it_says_of_itself():
    network = ContactNetwork.from_edges([0.0, 1], [1, 2], node_count=5)
    assert repr(network) == "ContactNetwork(5 nodes, 2 undirected edges, mean degree 0.8)"
    assert (network.arc_count, network.edge_count, network.mean_degree) == (4, 2, 0.8)
    assert network.degrees().tolist() == [1, 2, 1, 0, 0]
    assert network.offsets.dtype == network.targets.dtype == np.int32
    assert network.memory_bytes == 4 * 6 + 4 * 4
    assert [ends.tolist() for ends in network.edges()] == [[0, 1], [1, 2]]
    empty = ContactNetwork.from_edges([], [], node_count=3)
    assert empty.arc_count == 0 and empty.degrees().tolist() == [0, 0, 0]


def test_frozen_equal_and_hashed_by_content():
    network = ContactNetwork.from_edges([0, 1], [1, 2]).with_attributes(age=[1, 2, 3])
    with pytest.raises(AttributeError):
        network.node_count = 4
    for array in (network.targets, network.attributes["age"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    same = pickle.loads(pickle.dumps(network))
    assert same == network and hash(same) == hash(network) and same.digest == network.digest
    others = [
        network.with_attributes(age=[1, 2, 4]),
        network.with_attributes(size=[1, 2, 4]),
        ContactNetwork.from_edges([0, 1], [1, 2]),
        ContactNetwork.from_edges([0, 1], [1, 2], directed=True),
        ContactNetwork.from_edges([0, 1], [1, 2], weights=[1, 1]),
        ContactNetwork.from_edges([0, 1], [1, 2], node_count=4),
    ]
    assert len({network, *others}) == 7
    assert all(network != other for other in others)
    assert network != "a network"
    # Stable over machines and releases: provenance written today must be found tomorrow.
    expected = "0aa0e9a24e50"
    assert ContactNetwork.from_edges([0, 1], [1, 2]).digest[:12] == expected


def test_reversed():
    network = ContactNetwork.from_edges([0, 0, 3], [1, 2, 1], 4, True, [1, 2, 3])
    back = network.reversed()
    assert np.array_equal(back.to_scipy().toarray(), network.to_scipy().toarray().T)
    assert back.reversed() == network
    undirected = ContactNetwork.from_edges([0], [1])
    assert undirected.reversed() is undirected


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_round_trips(directed, weighted):
    rng = np.random.default_rng(3)
    source, target = rng.integers(0, 50, (2, 200))
    weights = rng.random(200) + 0.5 if weighted else None
    network = ContactNetwork.from_edges(source, target, 50, directed, weights)
    assert ContactNetwork.from_scipy(network.to_scipy(), directed) == network
    assert ContactNetwork.from_scipy(network.to_scipy()) == network
    assert ContactNetwork.from_scipy(network.to_scipy().toarray()) == network
    network = network.with_attributes(age=rng.integers(0, 90, 50), x=rng.random(50))
    graph = network.to_networkx()
    assert graph.is_directed() == directed and graph.number_of_edges() == network.edge_count
    assert ContactNetwork.from_networkx(graph, "weight" if weighted else None) == network


def test_from_networkx_keeps_names_and_numbers():
    graph = networkx.MultiGraph()
    graph.add_node("ann", age=4, town="Ulm", job=1)
    graph.add_node("bob", age=31.5, town="Bonn")
    graph.add_edge("ann", "bob", hours=1)
    graph.add_edge("bob", "ann", hours=2.5)
    graph.add_edge("ann", "ann", hours=9)
    network = ContactNetwork.from_networkx(graph, weight="hours")
    assert network.node_names.tolist() == ["ann", "bob"]
    assert network.weights.tolist() == [3.5, 3.5]
    assert list(network.attributes) == ["age", "town"]
    assert network.attributes["age"].tolist() == [4, 31.5]
    assert ContactNetwork.from_networkx(graph).weights is None
    grid = ContactNetwork.from_networkx(networkx.grid_2d_graph(2, 2))
    assert grid.node_names.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert set(grid.to_networkx()) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    mixed = ContactNetwork.from_networkx(networkx.path_graph([1, "a"]))
    assert mixed.node_names.tolist() == [1, "a"]
    with pytest.raises(ModelError, match=r"edge \('ann', 'bob'\) has no attribute 'days'"):
        ContactNetwork.from_networkx(graph, weight="days")
    graph.add_edge("ann", "bob", hours="many")
    with pytest.raises(ModelError, match=r"'hours' of edge \('ann', 'bob'\) is 'many'"):
        ContactNetwork.from_networkx(graph, weight="hours")
    with pytest.raises(ModelError, match="no nodes"):
        ContactNetwork.from_networkx(networkx.Graph())


def test_from_igraph():
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph([(0, 1), (1, 2), (2, 2), (1, 0)])
    graph.vs["name"] = ["a", "b", "c"]
    graph.vs["age"] = [1, 2, 3]
    graph.es["w"] = [1.0, 2.0, 3.0, 4.0]
    network = ContactNetwork.from_igraph(graph, weight="w")
    assert network.node_names.tolist() == ["a", "b", "c"]
    assert network.weights.tolist() == [5, 5, 2, 2] and list(network.attributes) == ["age"]
    assert ContactNetwork.from_igraph(igraph.Graph.Ring(5, directed=True)).directed
    with pytest.raises(ModelError, match="no attribute 'v'"):
        ContactNetwork.from_igraph(graph, weight="v")


def test_from_scipy_refuses():
    with pytest.raises(ModelError, match=r"shape \(2, 3\); expected a square one"):
        ContactNetwork.from_scipy(np.ones((2, 3)))
    with pytest.raises(ModelError, match=r"element \(0, 1\) of the matrix is -1"):
        ContactNetwork.from_scipy(np.array([[0, -1], [-1, 0]]))
    with pytest.raises(ModelError, match=r"element \(0, 1\) of the matrix is 2.* \(1, 0\) is 3"):
        ContactNetwork.from_scipy(np.array([[7, 2], [3, 0]]), directed=False)
    assert ContactNetwork.from_scipy(np.array([[7, 2], [3, 0]])).directed
    ones = ContactNetwork.from_scipy(np.array([[1, 1], [1, 0]], bool))
    assert ones.weights is None and not ones.directed and ones.edge_count == 1


def test_layers():
    rng = np.random.default_rng(4)
    parts = {}
    for name in ("home", "school", "work"):
        source, target = rng.integers(0, 30, (2, 60))
        parts[name] = ContactNetwork.from_edges(source, target, 30)
    parts["home"] = parts["home"].with_attributes(age=np.arange(30))
    network = ContactNetwork.from_layers(parts)
    assert network.weights is None and network.layers == ("home", "school", "work")
    assert network.edge_count == sum(part.edge_count for part in parts.values())
    assert "layers home, school, work" in repr(network)
    names = ("node_count", "offsets", "targets", "weights", "directed", "layers", "layer")
    fields = {name: getattr(network, name) for name in names}
    assert ContactNetwork(**fields, attributes=network.attributes) == network
    scaled = ContactNetwork.from_layers(parts, {"school": 0.25})
    expected = parts["home"].to_scipy() + 0.25 * parts["school"].to_scipy()
    expected = expected + parts["work"].to_scipy()
    assert np.array_equal(scaled.to_scipy().toarray(), expected.toarray())
    for index, part in enumerate(parts.values()):
        assert np.array_equal(scaled.targets[scaled.layer == index], part.targets)
    graph = scaled.to_networkx()
    assert graph.is_multigraph() and graph.number_of_edges() == scaled.edge_count


def test_layers_refuse():
    a = ContactNetwork.from_edges([0], [1], 3)
    refused = [
        ({"a": a, "b": ContactNetwork.from_edges([0], [1])}, None, "layer 'b' has 2 nodes and 'a'"),
        ({"a": a, "b": ContactNetwork.from_edges([0], [1], 3, True)}, None, "is directed, one is"),
        ({"a": a}, {"b": 1}, "factors names 'b', which is not a layer"),
        ({"a": a}, {"a": -1}, "factor of layer 'a' is -1"),
        ({"a": ContactNetwork.from_layers({"b": a})}, None, "'a' has layers itself"),
        ({}, None, "0 layers were given"),
        (
            {"a": a.with_attributes(x=[1, 2, 3]), "b": a.with_attributes(x=[1, 2, 4])},
            None,
            "attribute 'x' of layer 'b' differs",
        ),
    ]
    for networks, factors, message in refused:
        with pytest.raises(ModelError, match=message):
            ContactNetwork.from_layers(networks, factors)


def test_an_id_far_beyond_the_edges_must_be_meant():
    with pytest.raises(ergode.ModelError, match="give node_count"):
        ergode.ContactNetwork.from_edges([0], [10**9])


def test_nodes_are_found_by_name():
    import networkx

    named = ergode.ContactNetwork.from_networkx(networkx.Graph([("ann", "bob"), ("bob", "eve")]))
    assert named.node_names[named.nodes_named(["eve", "ann"])].tolist() == ["eve", "ann"]
    with pytest.raises(ergode.ModelError, match="'zoe', but no node of the network has this name"):
        named.nodes_named("zoe")
    with pytest.raises(ergode.ModelError, match="no node names"):
        ergode.ContactNetwork.from_edges([0], [1]).nodes_named([0])


def test_the_largest_degrees_are_those_of_the_arcs_out_and_in():
    star = ergode.ContactNetwork.from_edges([0, 0, 0], [1, 2, 3], directed=True)
    assert (star.largest_degree, star.largest_in_degree) == (3, 1)
    mutual = ergode.ContactNetwork.from_edges([0, 0, 0], [1, 2, 3])
    assert (mutual.largest_degree, mutual.largest_in_degree) == (3, 3)
    nobody = ergode.ContactNetwork(2, [0, 0, 0], [], directed=True)
    assert (nobody.largest_degree, nobody.largest_in_degree) == (0, 0)
