"""Who is where at the start: counts, fractions, node ids, and the kernels that find them."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import ergode
from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.core.devices.buffers import put_table
from ergode.core.errors import ModelError
from ergode.epidemics import seeding, simulate
from ergode.epidemics.methods import METHODS
from ergode.epidemics.seeding import initial_compartment, seed_node, seeding_of

MODEL = ergode.CompartmentModel.seir(
    transmission_rate=0.25,
    latent=ergode.Exponential(mean=5),
    infectious=ergode.Exponential(mean=7),
)
E, I, R = (MODEL.index[name] for name in "EIR")  # noqa: E741
LEVEL = 1e-8  # chance of each statistical test to fail; the family's is below 1e-6
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))


def _nodes(index, seeds, node_count, seed, out):
    for k in range(out.shape[1]):
        out[index, k] = seed_node(seeds, k, node_count, seed, index)


def _compartments(index, seeds, node_count, seed, out):
    for node in range(out.shape[1]):
        out[index, node] = initial_compartment(seeds, node, node_count, seed, index)


NODES, COMPARTMENTS = map(kernels.for_each, (_nodes, _compartments))


def total(seeds):
    return seeds.named_count + seeds.drawn_count


def run(kernel, initial, node_count, replicates, device="cpu", columns=None):
    """Rows of seeds (or of all nodes' compartments), one a replicate."""
    where = resolve(device)
    seeds = seeding_of(MODEL, initial, node_count)
    if columns is None:
        columns = total(seeds) if kernel is NODES else node_count
    out = where.empty((replicates, columns), np.int64)
    where.run(kernel, replicates, put_table(where, seeds), node_count, np.uint64(7), out)
    return where.get(out)


# ---- what is laid out


@pytest.mark.parametrize(
    ("value", "drawn"),
    [
        (0, 0), (1, 1), (10, 10), (np.int32(3), 3), (np.uint64(4), 4), (0.0, 0), (0.3, 3),
        (0.999, 10), (np.float32(0.2), 2), (0.04, 0), (0.06, 1),
    ],
)  # fmt: skip
def test_an_integer_is_a_count_and_a_float_a_fraction(value, drawn):
    found = seeding_of(MODEL, {"I": value}, 10)
    assert (found.named_count, found.drawn_count) == (0, drawn)
    assert found.drawn_end.tolist() == [drawn]
    assert found.drawn_compartment.tolist() == [I]
    assert found.entry == E


@pytest.mark.parametrize("ids", [[3, 1, 8], (3, 1, 8), np.array([[3], [1], [8]], np.uint8)])
def test_an_array_is_node_ids(ids):
    found = seeding_of(MODEL, {"R": ids}, 9)
    assert found.named_node.tolist() == [1, 3, 8]
    assert found.named_compartment.tolist() == [R, R, R]
    assert (found.named_count, found.drawn_count) == (3, 0)


def test_kinds_may_be_mixed():
    found = seeding_of(MODEL, {"R": [7, 2], "I": 4, "E": 0.25}, 20)
    assert found.named_node.tolist() == [2, 7]
    assert found.drawn_end.tolist() == [5, 9]
    assert found.drawn_compartment.tolist() == [E, I]
    # Equal mappings are equal, in whatever order they were written.
    other = seeding_of(MODEL, {"I": 4, "E": 0.25, "R": [7, 2]}, 20)
    assert all(np.array_equal(a, b) for a, b in zip(found, other, strict=True))


@pytest.mark.parametrize("initial", [{}, {"I": 0}, {"I": []}, {"I": np.zeros(0, int), "E": 0}])
def test_nobody_may_be_seeded(initial):
    found = seeding_of(MODEL, initial, 5)
    assert (found.named_count, found.drawn_count) == (0, 0)
    assert min(array.size for array in found[:2] + found[3:5]) >= 1  # kernels want no empty arrays
    assert (run(COMPARTMENTS, initial, 5, 2) == -1).all()


def test_everybody_may_be_seeded():
    assert (run(COMPARTMENTS, {"I": range(5)}, 5, 2) == I).all()
    assert (run(COMPARTMENTS, {"I": 5}, 5, 2) == I).all()
    found = run(COMPARTMENTS, {"I": 2, "R": [4, 0], "E": 1}, 5, 50)
    assert (np.sort(found, axis=1) == sorted([E, I, I, R, R])).all()


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        (10, "initial must map compartments to numbers or node ids, such as {'I': 10}; found 10"),
        (None, "initial must map compartments"),
        ({"X": 1}, "initial names the unknown compartment 'X'; the model has S, E, I, R"),
        ({"S": 5}, r"initial\['S'\] is not needed: every node that is not named starts in 'S'"),
        ({"I": -1}, r"initial\['I'\] is -1 nodes; expected 0 to 10, the network's node count"),
        ({"I": 11}, r"initial\['I'\] is 11 nodes; expected 0 to 10"),
        ({"I": 10**30}, "expected 0 to 10"),
        ({"I": 1.0}, r"initial\['I'\] is 1.0; a fraction is at least 0 and below 1"),
        ({"I": -0.1}, r"is -0.1; a fraction is at least 0"),
        ({"I": math.nan}, "is nan; a fraction"),
        ({"I": math.inf}, "is inf; a fraction"),
        ({"I": True}, r"initial\['I'\] is True; expected a number or node ids"),
        ({"I": np.True_}, "expected a number or node ids"),
        ({"I": "5"}, r"initial\['I'\] is '5'; expected a number or node ids"),
        ({"I": None}, r"initial\['I'\] is None; expected"),
        ({"I": 1j}, "expected a number or node ids"),
        ({"I": np.complex128(1)}, "expected a number or node ids"),
        ({"I": {1, 2}}, "expected a number or node ids"),
        ({"I": [0.0, 1.0]}, r"initial\['I'\] is an array of float64; expected integer node ids"),
        ({"I": [True, False]}, "array of bool; expected integer node ids"),
        ({"I": ["a"]}, "expected integer node ids"),
        ({"I": [3, 10]}, r"initial\['I'\]\[1\] is node 10, but node ids are 0 to 9"),
        ({"I": [3, 4, -1]}, r"initial\['I'\]\[2\] is node -1, but node ids are 0 to 9"),
        ({"I": np.array([[0, 1], [2, 10]])}, r"initial\['I'\]\[3\] is node 10"),
        ({"I": [2**62]}, "but node ids are 0 to 9"),
        ({"I": [3, 5, 3]}, "initial names node 3 twice"),
        ({"I": [3, 5], "E": [5]}, "initial names node 5 twice"),
        ({"I": 6, "E": 5}, "initial places 11 nodes, but the network has 10"),
        ({"I": [1, 2], "E": 9}, "initial places 11 nodes, but the network has 10"),
    ],
)
def test_what_cannot_be_an_initial_condition_is_named(initial, message):
    with pytest.raises(ModelError, match=message):
        seeding_of(MODEL, initial, 10)


# ---- what kernels find

MIXED = {"R": [0, 5, 6, 11], "I": 3, "E": [9]}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "initial",
    [
        {"I": 1}, {"I": 12}, {"I": 2, "E": 3}, {"R": [11]}, {"R": [0]}, MIXED,
        {"I": 5, "R": range(7)},
    ],
)  # fmt: skip
def test_seeds_and_compartments_are_two_views_of_one_thing(initial, device):
    node_count, replicates = 12, 200
    nodes = run(NODES, initial, node_count, replicates, device)
    places = run(COMPARTMENTS, initial, node_count, replicates, device)
    assert nodes.min() >= 0
    assert nodes.max() < node_count
    for row, place in zip(nodes, places, strict=True):
        assert np.unique(row).size == row.size  # no node is two seeds
        assert set(row) == set(np.flatnonzero(place >= 0))
    for name, value in initial.items():
        here = places == MODEL.index[name]
        if np.ndim(value):
            assert np.array_equal(np.flatnonzero(here.all(axis=0)), np.sort(value))
            assert (here.sum(axis=1) == len(value)).all()
        else:
            assert (here.sum(axis=1) == value).all()
    # Ranks are in the order of groups: the named ones ascending, then one group after the other.
    order = np.take_along_axis(places, nodes, axis=1)
    assert (order == order[0]).all()


def test_a_large_network_has_its_seeds_too():
    node_count = 10_000_019
    named = np.array([0, 1, 2, 5_000_000, node_count - 1])
    nodes = run(NODES, {"R": named, "I": 1000}, node_count, 2)
    for row in nodes:
        assert np.array_equal(row[:5], named)
        assert np.unique(row).size == 1005
        assert row.max() < node_count
        assert abs(row[5:].mean() / node_count - 0.5) < 5.8 / math.sqrt(12 * 1000)


def test_every_set_of_nodes_is_equally_likely():
    """Of the six nodes not named, all 15 pairs, and who of them is in which group."""
    replicates = 300_000
    nodes = run(NODES, {"R": [0, 3, 4], "I": 1, "E": 1}, 9, replicates)[:, 3:]
    _, observed = np.unique(nodes[:, 0] * 9 + nodes[:, 1], return_counts=True)
    assert observed.size == 6 * 5
    assert set(nodes.ravel()) == {1, 2, 5, 6, 7, 8}
    statistic = ((observed - replicates / 30) ** 2).sum() / (replicates / 30)
    assert statistic < stats.chi2.isf(LEVEL, 29)


@pytest.mark.cuda
def test_both_devices_seed_the_same_nodes():
    initial = {"R": [0, 3, 50_000], "I": 100, "E": 0.001}
    found = [run(NODES, initial, 100_000, 50, device) for device in ("cpu", "cuda")]
    assert np.array_equal(*found)


@pytest.mark.filterwarnings("ignore:.*rounds to no node")
def test_fractions_of_a_whole_never_exceed_it():
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.1,
        latent=ergode.Exponential(mean=1),
        infectious=ergode.Exponential(mean=1),
    )
    for node_count in range(1, 30):
        third = seeding_of(model, {"E": 1 / 3, "I": 1 / 3, "R": 1 / 3}, node_count)
        assert third.drawn_count == node_count
        halves = seeding_of(model, {"I": 0.5, "R": 0.5}, node_count)
        assert halves.drawn_count == node_count


# ---- drawn by weight, and there for a while already

SIR = ergode.CompartmentModel.sir(
    transmission_rate=0.2, infectious=ergode.LogNormal(mean=7.5, median=5)
)
GRID = np.arange(0, 31.0)


def test_weights_draw_one_after_another_in_proportion():
    """Of weights 1 to 5 (and two nodes that are named or weigh nothing), every ordered pair."""
    weights = np.array([7.0, 1, 2, 3, 4, 5, 0])
    contacts = ergode.ContactNetwork.from_edges([0], [1], node_count=7).with_attributes(w=weights)
    initial = {"R": [0], "I": ergode.Seeds(2, weight="w")}
    replicates = 40_000
    seeds = seeding.Seeder(MODEL, contacts, initial, np.uint64(3), resolve("cpu"), "float64")
    listed = seeds.of(5, replicates).listed
    assert np.array_equal(seeds.of(9, 3).listed, listed[4:7])  # a replicate is always the same
    p = weights[1:6] / 15
    expected = np.array(
        [p[i] * p[j] / (1 - p[i]) if i != j else 0 for i in range(5) for j in range(5)]
    )
    observed = np.bincount((listed[:, 0] - 1) * 5 + listed[:, 1] - 1, minlength=25)
    held = expected > 0
    assert observed[~held].sum() == 0
    statistic = (
        (observed - replicates * expected)[held] ** 2 / (replicates * expected[held])
    ).sum()
    assert statistic < stats.chi2.isf(LEVEL, held.sum() - 1)


def test_kernels_find_those_that_are_listed(model, contacts):
    group = contacts.with_attributes(child=np.arange(500) % 10 == 0)
    initial = {"I": ergode.Seeds(30, weight="child"), "R": 100, "E": [0, 1]}
    seeds = seeding.Seeder(MODEL, group, initial, np.uint64(7), resolve("cpu"), "float64").of(0, 5)
    nodes, places = np.empty((5, 132), np.int64), np.empty((5, 500), np.int64)
    for kernel, out in ((NODES, nodes), (COMPARTMENTS, places)):
        resolve("cpu").run(kernel, 5, seeds, 500, np.uint64(7), out)
    for row, place in zip(nodes, places, strict=True):
        assert set(row) == set(np.flatnonzero(place >= 0)) and np.unique(row).size == 132
        assert (np.flatnonzero(place == I) % 10 == 0).all() and (place == I).sum() == 30
        assert (place == R).sum() == 100
    counts = ergode.epidemics.simulate(
        model, group, initial=initial, times=range(3), replicates=2, seed=7, device="cpu"
    )
    assert counts.attrs["method"] == "first-passage"
    assert counts["count"][:, 0].values.tolist() == [[368, 2, 30, 100]] * 2


AGED = {"I": ergode.Seeds(np.arange(0, 40_000, 2), age=6.0)}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("auto", {}),
        ("renewal-leap", {"step": 0.25}),
        ("renewal-leap", {"step": 0.25, "transition": "sampled"}),
    ],
)
def test_ages_are_those_of_who_is_still_there(method, options):
    """Pairs that do not infect: of those infectious for six days, S(6 + t) / S(6) still are."""
    odd = np.arange(0, 40_000, 2)
    contacts = ergode.ContactNetwork.from_edges(odd, odd + 1)
    quiet = ergode.CompartmentModel.sir(
        transmission_rate=1e-9, infectious=ergode.LogNormal(mean=7.5, median=5)
    )
    counts = ergode.epidemics.simulate(
        quiet, contacts, initial=AGED, times=GRID, seed=3, method=method, device="cpu", **options
    )
    assert counts.attrs["method"] == method.replace("auto", "sellke")
    holding = ergode.LogNormal(mean=7.5, median=5)
    expected = holding.survival(6.0 + GRID) / holding.survival(6.0)
    found = counts["count"].sel(compartment="I").values[0] / odd.size
    assert (
        abs(found - expected) < 5.8 * np.sqrt(expected * (1 - expected) / odd.size) + 1e-9
    ).all()


def test_ages_that_cannot_be_are_refused(contacts):
    def refused(match, model=SIR, **initial):
        with pytest.raises(ModelError, match=match):
            ergode.epidemics.simulate(model, contacts, initial=initial, times=GRID, device="cpu")

    fixed = ergode.CompartmentModel.sir(transmission_rate=0.2, infectious=ergode.Deterministic(5.0))
    refused("which no holding time of 'I' exceeds", fixed, I=ergode.Seeds(1, age=5.0))
    refused("drawn by 'child', but", I=ergode.Seeds(1, weight="child"))
    with pytest.raises(ModelError, match="expected one age, or one for each node id"):
        ergode.Seeds([1, 2], age=[1.0, 2.0, 3.0])
    with pytest.raises(ModelError, match="but nodes has node ids"):
        ergode.Seeds([1, 2], weight="child")


# ---- names of nodes, of which integers may be positions too

SI = ergode.CompartmentModel.si(transmission_rate=0.1)
NUMBERED = ergode.ContactNetwork.from_networkx(nx.Graph([(2, 0), (0, 1)]))  # names 2, 0, 1
TEXT = ergode.ContactNetwork.from_networkx(nx.Graph([("ann", "bob"), ("bob", "eve")]))


def first_cases(contacts, initial, method="first-passage"):
    """Positions of the nodes that are infected at first."""
    contacts = contacts.with_attributes(place=np.arange(3))
    counts = simulate(
        SI, contacts, initial=initial, times=[0, 1], device="cpu", method=method, strata="place"
    )
    return np.flatnonzero(counts["cases"].isel(replicate=0, time=0)).tolist()


@pytest.mark.parametrize("method", METHODS)
def test_nodes_are_given_by_name_in_every_method(method):
    for names, places in ((["bob"], [1]), (["eve", "ann"], [0, 2])):
        assert first_cases(TEXT, {"I": names}, method) == places
        assert first_cases(TEXT, {"I": ergode.Seeds(names)}, method) == places
        assert first_cases(TEXT, {"I": TEXT.nodes_named(names)}, method) == places
    assert first_cases(TEXT, {"I": [1]}, method) == [1]  # text is no position
    by = ergode.Seeds
    assert first_cases(NUMBERED, {"I": by([2], by="name")}, method) == [0]
    assert first_cases(NUMBERED, {"I": by([2], by="position")}, method) == [2]
    assert first_cases(NUMBERED, {"I": NUMBERED.nodes_named([2])}, method) == [0]


@pytest.mark.parametrize(
    ("contacts", "initial", "message"),
    [
        (NUMBERED, {"I": [0]}, r"the node named 0 is at position 1, and the node at position 0 is "
         r"named 2. Write Seeds\(\[0\], by='name'\) or Seeds\(\[0\], by='position'\)"),
        (NUMBERED, {"I": np.array([7])}, "no node is named 7, and no node is at position 7"),
        (TEXT, {"I": ["bib"]}, "names 'bib', but no node of the network has this name"),
        (
            TEXT,
            {"I": ergode.Seeds([0], by="name")},
            "names 0, but no node of the network has this name",
        ),
        (ergode.ContactNetwork.from_edges([0], [1], 3), {"I": ergode.Seeds([0], by="name")},
         "but the network has no node names"),
    ],
)  # fmt: skip
def test_a_node_that_is_not_told_is_refused(contacts, initial, message):
    with pytest.raises(ergode.ModelError, match=message):
        first_cases(contacts, initial)


def test_names_that_are_positions_are_both():
    contacts = ergode.ContactNetwork.from_networkx(nx.Graph([(0, 1), (1, 7)]))
    assert first_cases(contacts, {"I": [1]}) == [1]
    with pytest.raises(ergode.ModelError, match="the node named 7 is at position 2"):
        first_cases(contacts, {"I": [7]})


def test_states_take_names_and_have_them():
    model = ergode.CompartmentModel.sir(transmission_rate=0.1, infectious=ergode.Deterministic(9.0))
    cases = simulate(
        model, NUMBERED, times=[0, 1.0], device="cpu", output="line_list",
        initial={"I": ergode.Seeds([0], by="name"), "R": NUMBERED.nodes_named([2])},
    )  # fmt: skip
    names = NUMBERED.node_names
    for others in (ergode.Seeds([2], by="name"), ergode.Seeds([0], by="position")):
        found = ergode.epidemics.states(cases, [0.0], others={"R": others}, node_names=names)
        assert found.values.tolist() == [[[2, 1, 0]]]
        assert found["node_name"].values.tolist() == [2, 0, 1]
    with pytest.raises(ergode.ModelError, match="which may be names or positions"):
        ergode.epidemics.states(cases, [0.0], others={"R": [0]})


def test_text_of_a_graph_is_a_stratum():
    graph = nx.Graph([("ann", "bob"), ("bob", "eve")])
    nx.set_node_attributes(graph, {"ann": "nurse", "bob": "patient", "eve": "nurse"}, "role")
    contacts = ergode.ContactNetwork.from_networkx(graph)
    counts = simulate(
        SI, contacts, initial={"I": ["eve"]}, times=[0, 1], device="cpu", strata="role"
    )
    assert counts["cases"].isel(replicate=0, time=0).sel(stratum="nurse") == 1
    assert counts["stratum"].values.tolist() == ["nurse", "patient"]


def test_a_sweep_over_networks_with_named_nodes_is_each_of_them():
    def contacts(seed):
        graph = nx.gnm_random_graph(40, 90, seed=int(seed))
        return ergode.ContactNetwork.from_networkx(
            nx.relabel_nodes(graph, {k: f"p{k}" for k in graph})
        )

    def run(network, **options):
        return simulate(
            MODEL, network,
            initial={"I": ["p3"]}, times=range(0, 30, 10), replicates=20, seed=1, device="cpu:1",
            **options,
        )["count"]  # fmt: skip

    swept = run(contacts, parameters={"seed": np.array([1, 2])})
    for point, seed in enumerate((1, 2)):
        alone = run(contacts(seed))
        np.testing.assert_array_equal(swept.isel(point=point).transpose(*alone.dims), alone)
