"""Epidemics on networks that are computed: equal to the stored copy bit for bit, and to theory."""

import numpy as np
import pytest
from reference import heap_first_passage
from scipy.integrate import quad

import ergode
from ergode import ComputedNetwork, ModelError, PlanError
from ergode.core import devices, kernels
from ergode.core.devices.buffers import put_table
from ergode.epidemics.first_passage import runner
from ergode.epidemics.first_passage.computed_cuda import search_computed_cuda
from ergode.epidemics.first_passage.counts import count_on_grid_cuda
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.shared.options import COMPUTED

EARTH = 8_000_000_000
TIMES = np.arange(0.0, 161.0, 8.0)


def seir(rate=0.25):
    return ergode.CompartmentModel.seir(
        transmission_rate=rate,
        latent=ergode.LogNormal(mean=5, median=4),
        infectious=ergode.LogNormal(mean=7.5, median=5),
    )


def two_stages():
    """A model that branches and infects from two stages."""
    return ergode.CompartmentModel(
        ["S", "E", "A", "I", "R", "D"],
        [ergode.Infection("S", "E", {"A": 0.15, "I": 0.3})],
        [
            ergode.Progression("E", {"A": 0.4, "I": 0.6}, ergode.LogNormal(mean=3, median=2)),
            ergode.Progression("A", {"I": 0.5, "R": 0.5}, ergode.LogNormal(mean=2, median=1)),
            ergode.Progression("I", {"R": 0.9, "D": 0.1}, ergode.LogNormal(mean=5, median=4)),
        ],
    )


def regular(node_count, seed=5):
    return ComputedNetwork.random_regular(node_count, degree=8, seed=seed)


def layered(node_count, seed=5):
    """Households of uneven sizes and a community: seven slots, so that quads straddle nodes."""
    return ComputedNetwork.from_layers(
        {
            "household": ComputedNetwork.groups(node_count, [1, 2, 2, 3, 4], seed=seed),
            "community": ComputedNetwork.random_regular(node_count, 4, seed=seed),
        },
        {"community": 0.5},
    )


CASES = [(seir, regular), (two_stages, layered)]


def simulate(model, contacts, **options):
    chosen = {
        "initial": {"E": 8, "I": [3, 17, 19], "R": 0.01}, "times": TIMES, "replicates": 3,
        "seed": 9, "device": "cpu",
    }  # fmt: skip
    return ergode.epidemics.simulate(model, contacts, **(chosen | options))


def same(one, other):
    for name in one.data_vars:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(("model", "network"), CASES)
def test_counts_equal_those_on_the_stored_copy(model, network):
    contacts = network(20_000)
    found = simulate(model(), contacts)
    same(found, simulate(model(), contacts.stored()))
    assert found.attrs["method"] == "first-passage"
    assert found.attrs["network_digest"] == contacts.digest
    assert (found["cases"][:, -1] > 8_000).all()


@pytest.mark.parametrize("network", [regular, layered])
def test_a_few_nodes_equal_the_stored_copy(network):
    for count in (1, 2, 3, 5):
        contacts = network(count)
        chosen = {"initial": {"E": 1}, "replicates": 40}
        same(simulate(seir(), contacts, **chosen), simulate(seir(), contacts.stored(), **chosen))


def test_line_lists_equal_those_on_the_stored_copy():
    contacts = regular(5_000)
    found = simulate(seir(), contacts, output="line_list")
    same(found, simulate(seir(), contacts.stored(), output="line_list"))
    for case in range(0, found.sizes["case"], 997):
        node, infector = int(found["node"][case]), int(found["infector"][case])
        assert infector == -1 or infector in contacts.neighbours(node)
    assert (found["infector"] != found["node"]).all()


def test_infection_times_are_those_of_dijkstra():
    # Small enough for slots that lead to the node itself, or twice to one neighbour.
    contacts = regular(40, seed=2)
    copy = contacts.stored()
    assert any(np.unique(row).size < 8 for row in contacts.targets())
    source = np.repeat(np.arange(40), 8)
    assert (copy.targets == source).any()
    model, found = seir(), []
    for one in (contacts, copy):
        ensemble = FirstPassageEnsemble(
            model, scenario_of(one), {"I": [0, 7]}, times=TIMES, seed=11,
            device=devices.resolve("cpu"),
        )  # fmt: skip
        words = ensemble.run(0, 20)[0]
        found.append((words >> np.uint32(1)).view(np.float32).copy())
    np.testing.assert_array_equal(found[0], found[1])
    start = dict.fromkeys((0, 7), model.index["I"])
    for row in range(20):
        np.testing.assert_array_equal(found[1][row], heap_first_passage(ensemble, start, row))


@pytest.mark.exhaustive
def test_sweeps_and_statistics_run_on_computed_networks():
    contacts = regular(2_000)
    chosen = {"parameters": {"rate": [0.05, 0.25]}, "initial": {"E": 20}}
    same(simulate(seir, contacts, **chosen), simulate(seir, contacts.stored(), **chosen))
    both = contacts, contacts.stored()
    same(*(simulate(seir(), one, output="statistics") for one in both))


def test_wide_numbers_of_nodes_change_nothing(monkeypatch):
    contacts = regular(20_000)
    expected = simulate(seir(), contacts)
    monkeypatch.setattr(runner, "NODES_OF_32_BITS", 1_000)
    found = simulate(seir(), contacts)
    assert found["count"].dtype == np.int64
    for name in found.data_vars:
        np.testing.assert_array_equal(found[name], expected[name])


def test_the_attack_rate_is_that_of_theory():
    # A node escapes if none of its eight neighbours infects it. Along an arc into it, from a
    # neighbour with seven others, that has probability q = 1 - T + T q^7.
    stay = ergode.LogNormal(mean=7.5, median=5)
    transmissibility, _ = quad(
        lambda t: 0.05 * np.exp(-0.05 * t) * stay.survival(t), 0, np.inf, limit=400
    )
    escape = 0.5
    for _ in range(200):
        escape = 1 - transmissibility + transmissibility * escape**7
    expected = 1 - escape**8
    count, replicates = 100_000, 6
    found = simulate(
        seir(0.05), regular(count), initial={"E": 100}, times=[0, 1000], replicates=replicates
    )
    rate = found["cases"][:, -1] / count
    # Seeds add less than a thousandth of those who escape.
    error = 5 * float(rate.std(ddof=1)) / np.sqrt(replicates) + 1e-3 * (1 - expected)
    assert error < 0.01 * expected
    assert abs(float(rate.mean()) - expected) < error


def test_what_computed_networks_lack_is_named():
    contacts = regular(100)
    by_age = ergode.CompartmentModel(
        ["S", "I"], [ergode.Infection("S", "I", {"I": 1.0})], susceptibility="age"
    )
    with pytest.raises(ModelError, match="reads the node attribute 'age', but a computed network"):
        simulate(by_age, contacts, initial={"I": 3})
    with pytest.raises(ModelError, match="strata is 'age', but the network's attributes are none"):
        simulate(seir(), contacts, strata="age")
    with pytest.raises(PlanError, match="output='statistics' is for fewer than 2.31 nodes"):
        simulate(seir(), regular(EARTH), output="statistics")


def test_memory_is_planned_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(devices.CPU, "available_bytes", lambda self: 2 * 10**9)

    def ensemble_of(count):
        return FirstPassageEnsemble(
            seir(), scenario_of(regular(count)), {"E": 100}, times=np.arange(200.0), seed=1,
            device=devices.resolve("cpu:1"),
        )  # fmt: skip

    with pytest.raises(PlanError, match="one replicate of 8,000,000,000 nodes .* needs 32.00 GB"):
        ensemble_of(EARTH).chunk_size(1)
    # A hundred million nodes fit in two billion bytes.
    ensemble = ensemble_of(100_000_000)
    assert ensemble.bytes_per_replicate < 410_000_000
    assert ensemble.chunk_size(1) == 1


# ---- CUDA


@pytest.mark.parametrize(
    ("model", "network", "count", "precision"),
    [
        (two_stages, layered, EARTH, "float32"),
        pytest.param(seir, regular, 1000, "float64", marks=pytest.mark.exhaustive),
    ],
)
def test_the_kernels_compile_to_ptx(model, network, count, precision):
    pytest.importorskip("numba.cuda")
    from ergode.core.devices import cuda

    ensemble = FirstPassageEnsemble(
        model(), scenario_of(network(count)), {"E": 100}, times=TIMES, seed=1,
        device=devices.resolve("cpu:1"), precision=precision,
    )  # fmt: skip
    bindings = dict(ensemble.bindings)
    assert bindings[COMPUTED]
    search, counts = kernels.cuda_kernels(
        search_computed_cuda, count_on_grid_cuda, precision=precision, bindings=bindings
    )
    word = np.dtype(f"uint{precision[-2:]}")
    arguments = (
        ensemble.search, ensemble.width, 256, np.zeros(9, word), np.zeros(9, np.uint64),
        np.zeros(3, word), np.zeros(3, np.int32), np.zeros(2, np.int64),
    )  # fmt: skip
    text = cuda.ptx(search.compiled("cuda"), arguments, optimized=False)
    assert ".entry" in text
    assert (".f64" in text) == (precision == "float64")
    moves = np.zeros((1, 3, 6), ensemble.count_type)
    words = np.zeros((1, 9), word)
    arguments = words, ensemble.search, put_table(ensemble.device, ensemble.grid), moves
    assert ".entry" in cuda.ptx(counts.compiled("cuda"), arguments, optimized=False)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("model", "network"), CASES)
def test_cuda_equals_cpu(model, network, precision):
    contacts = network(30_000)
    chosen = {"replicates": 7, "precision": precision}
    same(
        simulate(model(), contacts, device="cuda", **chosen),
        simulate(model(), contacts, device="cpu", **chosen),
    )


@pytest.mark.cuda
@pytest.mark.parametrize("network", [regular, layered])
def test_cuda_equals_cpu_among_a_few_nodes(network):
    for count in (1, 2, 3, 5, 700):
        pair = [
            simulate(seir(), network(count), initial={"E": 1}, replicates=300, device=device)
            for device in ("cuda", "cpu")
        ]
        same(*pair)


@pytest.mark.cuda
def test_cuda_equals_cpu_with_wide_numbers_and_in_line_lists(monkeypatch):
    contacts = layered(30_000)
    monkeypatch.setattr(runner, "NODES_OF_32_BITS", 1_000)
    for output in ("counts", "line_list"):
        pair = [
            simulate(two_stages(), contacts, output=output, device=device)
            for device in ("cuda", "cpu")
        ]
        same(*pair)


@pytest.mark.cuda
@pytest.mark.parametrize("width", [0.02, 1.0, 1e9])
def test_cuda_does_not_depend_on_the_width_nor_on_the_room_of_the_list(width, monkeypatch):
    from ergode.epidemics.first_passage import on_device

    contacts = regular(50_000)
    words = []
    for room in (2**16, 16):
        monkeypatch.setattr(on_device, "_LISTED_LEAST", room)
        monkeypatch.setattr(on_device, "_WORDS_A_LISTED", 10**9)
        for device in ("cpu", "cuda"):
            ensemble = FirstPassageEnsemble(
                seir(), scenario_of(contacts), {"E": 100}, times=TIMES, seed=11,
                device=devices.resolve(device), width=width,
            )  # fmt: skip
            words.append(ensemble.device.get(ensemble.run(0, 3)[0]).copy())
    for other in words[1:]:
        np.testing.assert_array_equal(other, words[0])
