"""The exact epidemic against Dijkstra's algorithm, bit for bit, whatever the schedule."""

import numpy as np
import pytest
from reference import heap_first_passage

import ergode
from ergode.core import devices
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.epidemics.scenario import scenario_of

TIMES = np.arange(0.0, 200.0, 5.0)


def every_kind():
    """A model that branches, infects from two stages and holds by every kind of distribution."""
    return ergode.CompartmentModel(
        ["S", "E", "A", "I", "J", "R", "D"],
        [ergode.Infection("S", "E", {"A": 0.1, "I": 0.3, "J": 0.05})],
        [
            ergode.Progression("E", {"A": 0.3, "I": 0.7}, ergode.Weibull(shape=2.0, scale=3.0)),
            ergode.Progression("A", "R", ergode.Gamma(shape=2.5, scale=2.0)),
            ergode.Progression("I", {"J": 0.5, "R": 0.5}, ergode.Empirical([1, 3, 8], [0, 0.5, 1])),
            ergode.Progression("J", {"R": 0.6, "D": 0.4}, ergode.Deterministic(4.0)),
            ergode.Progression("R", "D", ergode.Exponential(mean=50.0)),
        ],
    )


def weighted_network(node_count=400, seed=3):
    """Directed and weighted, with zero weights, a hub, and nodes that nobody reaches."""
    rng = np.random.default_rng(seed)
    source = np.concatenate([rng.integers(0, node_count - 5, 1600), np.full(200, 7)])
    target = np.concatenate([rng.integers(0, node_count - 5, 1600), rng.integers(0, 390, 200)])
    weights = np.where(rng.random(source.size) < 0.1, 0.0, rng.gamma(2.0, 0.5, source.size))
    return ergode.ContactNetwork.from_edges(
        source, target, node_count=node_count, directed=True, weights=weights
    )


def build(model, contacts, *, device="cpu", precision="float32", width=None, initial=None):
    return FirstPassageEnsemble(
        model,
        scenario_of(contacts),
        initial or {"I": [0, 7, 11], "E": [2]},
        times=TIMES,
        seed=11,
        device=devices.resolve(device),
        precision=precision,
        width=width,
    )


def times_of(ensemble, words):
    words = ensemble.device.get(words)
    return (words >> words.dtype.type(1)).view(ensemble.times.dtype).copy()


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_equals_dijkstra_on_every_kind_of_stage(precision):
    model, contacts = every_kind(), weighted_network()
    ensemble = build(model, contacts, precision=precision)
    found = times_of(ensemble, ensemble.run(5, 8)[0])
    start = {node: model.index["I"] for node in (0, 7, 11)} | {2: model.index["E"]}
    for row in range(8):
        expected = heap_first_passage(ensemble, start, 5 + row)
        np.testing.assert_array_equal(found[row], expected)
        assert 50 < np.isfinite(expected).sum() < contacts.node_count - 4


def test_equals_dijkstra_on_a_random_network(model, contacts):
    ensemble = build(model, contacts)
    found = times_of(ensemble, ensemble.run(0, 3)[0])
    start = {node: model.index["I"] for node in (0, 7, 11)} | {2: model.index["E"]}
    for row in range(3):
        np.testing.assert_array_equal(found[row], heap_first_passage(ensemble, start, row))


def test_does_not_depend_on_the_width(model):
    # Large enough that lanes fill in the middle of a block, which small networks never see.
    contacts = ergode.ContactNetwork.barabasi_albert(20_000, m=4, seed=1)
    initial = {"I": 200}
    expected, _ = build(model, contacts, initial=initial, width=0.05).run(0, 2)
    for width in (0.7, 4.0, 50.0, 1e9):
        words, _ = build(model, contacts, initial=initial, width=width).run(0, 2)
        np.testing.assert_array_equal(words, expected)


def test_does_not_depend_on_threads_chunks_or_company(model, contacts):
    alone = build(model, contacts, device="cpu:1")
    together = build(model, contacts, device="cpu:4")
    all_words = together.run(0, 40)[0].copy()
    for first, count in ((0, 1), (17, 1), (3, 20), (39, 1)):
        words, _ = alone.run(first, count)
        np.testing.assert_array_equal(words, all_words[first : first + count])


def test_float64_follows_float32(model, contacts):
    # Other draws (two words, not one), so equal in distribution alone: the mean infection time
    # over 2000 replicates, of sd 0.25 each, to 6 standard errors.
    means = []
    for precision in ("float32", "float64"):
        ensemble = build(every_kind(), weighted_network(), precision=precision)
        reached = times_of(ensemble, ensemble.run(0, 2000)[0])
        means.append([np.mean(row[np.isfinite(row)]) for row in reached])
    a, b = np.array(means)
    error = np.sqrt(a.var() / a.size + b.var() / b.size)
    assert abs(a.mean() - b.mean()) < 6 * error
    assert error < 0.01 * a.mean()


def test_nothing_passes_along_no_edges_or_weightless_ones(model):
    lonely = ergode.ContactNetwork.from_edges([], [], node_count=3)
    ensemble = build(model, lonely, initial={"I": [1]})
    np.testing.assert_array_equal(times_of(ensemble, ensemble.run(0, 1)[0]), [[np.inf, 0, np.inf]])
    weightless = ergode.ContactNetwork.from_edges([0, 1], [1, 2], weights=[0.0, 0.0])
    ensemble = build(every_kind(), weightless, initial={"I": [1]})
    np.testing.assert_array_equal(times_of(ensemble, ensemble.run(0, 1)[0]), [[np.inf, 0, np.inf]])


def test_attributes_multiply_the_rate(contacts):
    rng = np.random.default_rng(0)
    susceptibility, infectivity = rng.random((2, contacts.node_count))
    model = ergode.CompartmentModel(
        ["S", "I", "R"],
        [ergode.Infection("S", "I", {"I": 2.0})],
        [ergode.Progression("I", "R", ergode.Exponential(mean=2.0))],
        susceptibility="susceptibility",
        infectivity="infectivity",
    )
    named = contacts.with_attributes(susceptibility=susceptibility, infectivity=infectivity)
    source, target = named.edges()
    by_hand = ergode.ContactNetwork.from_edges(
        np.concatenate([source, target]),
        np.concatenate([target, source]),
        node_count=contacts.node_count,
        directed=True,
        weights=np.concatenate(
            [
                np.float32(infectivity[source]) * np.float32(susceptibility[target]),
                np.float32(infectivity[target]) * np.float32(susceptibility[source]),
            ]
        ),
    )
    plain = ergode.CompartmentModel(model.compartments, model.infections, model.progressions)
    initial = {"I": [0, 1, 2]}
    one = build(model, named, initial=initial).run(0, 4)[0]
    other = build(plain, by_hand, initial=initial).run(0, 4)[0]
    np.testing.assert_array_equal(one, other)


def test_a_layer_factor_multiplies_the_rate(contacts):
    halved = ergode.ContactNetwork.from_layers({"work": contacts}, factors={"work": 0.5})
    infectious = ergode.Exponential(mean=7.5)
    slow = ergode.CompartmentModel.sir(transmission_rate=0.5, infectious=infectious)
    slower = ergode.CompartmentModel.sir(transmission_rate=0.25, infectious=infectious)
    initial = {"I": [0, 1, 2]}
    weighted = build(slow, halved, initial=initial)
    plain = build(slower, contacts, initial=initial)
    # x / 0.5 / 0.5 is x / 0.25 exactly: powers of two round nowhere.
    np.testing.assert_array_equal(weighted.run(0, 4)[0], plain.run(0, 4)[0])


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cuda_equals_cpu_on_every_kind_of_stage(precision):
    model, contacts = every_kind(), weighted_network()
    initial = {"I": [0, 7, 11], "E": 5, "D": 0.1}
    pair = [
        build(model, contacts, device=device, precision=precision, initial=initial)
        for device in ("cpu", "cuda")
    ]
    here, there = (ensemble.run(2, 300)[0] for ensemble in pair)
    np.testing.assert_array_equal(there.copy_to_host(), here)
    np.testing.assert_array_equal(pair[1].count(there, 2), pair[0].count(here, 2))


@pytest.mark.cuda
@pytest.mark.parametrize("width", [0.5, 8.0, 1e9])
def test_cuda_equals_cpu_with_hubs(model, width):
    # Degrees up to a thousand: segments of hubs are expanded by the whole grid.
    contacts = ergode.ContactNetwork.barabasi_albert(50_000, m=4, seed=1)
    assert contacts.degrees().max() > 500
    pair = [
        build(model, contacts, device=device, initial={"I": 100}, width=width)
        for device in ("cpu", "cuda")
    ]
    here, there = (ensemble.run(0, 4)[0] for ensemble in pair)
    np.testing.assert_array_equal(there.copy_to_host(), here)
    np.testing.assert_array_equal(pair[1].count(there, 0), pair[0].count(here, 0))


@pytest.mark.cuda
def test_cuda_takes_one_node_no_edges_and_a_star(model):
    star = ergode.ContactNetwork.from_edges(np.zeros(99_999, int), np.arange(1, 100_000))
    for contacts in (
        ergode.ContactNetwork.from_edges([], [], node_count=1),
        ergode.ContactNetwork.from_edges([], [], node_count=70),
        star,
    ):
        pair = [
            build(model, contacts, device=device, initial={"I": [0]}) for device in ("cpu", "cuda")
        ]
        here, there = (ensemble.run(0, 3)[0] for ensemble in pair)
        np.testing.assert_array_equal(there.copy_to_host(), here)
