"""Every method on networks that are computed: bit for bit as on the stored copy, and as theory."""

import numpy as np
import pytest
from computed_cases import layered, measures, schedule, superinfection
from leap_cases import aging, memoryless
from scipy.linalg import expm

import ergode
from ergode import ComputedNetwork, PlanError
from ergode.core import devices
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

TIMES = np.arange(0.0, 13.0)
METHODS = ["sellke", "gillespie", "renewal-leap", "markov-leap"]


def network_of(rng, form):
    """A random network of a form; often so small that nodes meet twice, and themselves."""
    count = int(rng.choice([1, 2, 3, 7, 40, 151, 400]))
    seed = int(rng.integers(2**32))
    if form == "regular":
        return ComputedNetwork.random_regular(count, int(rng.choice([2, 4, 10])), seed)
    if form == "groups":
        return ComputedNetwork.groups(count, rng.integers(1, 6, rng.integers(1, 5)), seed)
    return layered(count, seed % 1000, float(rng.choice([0.3, 0.7])))


def simulate(model, contacts, **options):
    chosen = {"initial": {"I": 3}, "times": TIMES, "replicates": 3, "seed": 9, "device": "cpu"}
    chosen |= options
    chosen["initial"] = {
        name: min(count, contacts.node_count) for name, count in chosen["initial"].items()
    }
    return ergode.epidemics.simulate(model, contacts, **chosen)


def same(one, other):
    assert list(one.data_vars) == list(other.data_vars)
    for name in one.data_vars:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name])


def check(model, contacts, **options):
    found = simulate(model, contacts, **options)
    same(found, simulate(model, contacts.stored(), **options))
    return found


# ---- as on the stored copy


@pytest.mark.parametrize(
    "method", ["gillespie", pytest.param("markov-leap", marks=pytest.mark.exhaustive)]
)
def test_memoryless_methods_equal_the_stored_copy(method):
    for count in (2, 7, 400):
        found = check(superinfection(), layered(count), method=method)
        assert found.attrs["method"] == method
    assert (found["cases"][:, -1] > 200).all()


@pytest.mark.exhaustive
def test_line_lists_under_measures_equal_those_on_the_stored_copy():
    chosen = measures() | {"output": "line_list"}
    contacts = layered(400)
    found = check(superinfection(), contacts, **chosen)
    assert found.attrs["method"] == "sellke" and found.sizes["case"] > 600
    for case in range(0, found.sizes["case"], 7):
        node, infector = int(found["node"][case]), int(found["infector"][case])
        assert infector == -1 or infector in contacts.neighbours(node)


FAMILIES = {
    "sis": (
        lambda: ergode.CompartmentModel.sis(
            transmission_rate=0.3, infectious=ergode.LogNormal(mean=3, median=2)
        ),
        dict,
    ),
    "superinfection": (superinfection, dict),
    "measures": (superinfection, lambda: measures()),
    "strains": (memoryless, lambda: {"importations": [ergode.Importation("J", rate=1.0)]}),
    "leap": (aging, lambda: schedule()),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["regular", "groups", "layers"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_random_networks_equal_the_stored_copy(family, form):
    model, options = FAMILIES[family]
    if form != "layers" and family in ("measures", "leap"):
        pytest.skip("it closes a layer")
    rng = np.random.default_rng([len(family), len(form)])
    ran = set()
    for number in range(12):
        contacts = network_of(rng, form)
        for method in METHODS:
            for output, precision in (("counts", "float64"), ("line_list", "float32")):
                chosen = options() | {
                    "method": method, "output": output, "seed": number, "precision": precision,
                }  # fmt: skip
                try:
                    check(model(), contacts, **chosen)
                except PlanError:  # `ran` tells below what must not be refused
                    continue
                ran.add((method, output))
    assert ("sellke", "line_list") in ran
    assert ("renewal-leap", "counts") in ran or family in ("measures", "strains")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("model", "transition"),
    [(superinfection, "conditional"), (aging, "conditional"), (aging, "sampled")],
)
def test_ways_of_summing_are_equal(model, transition):
    chosen = {"method": "renewal-leap", "transition": transition}
    # In small networks many arcs lead from a node to itself.
    for count in (1, 3, 7, 40, 400):
        for seed in range(3):
            each = [
                check(model(), layered(count), pressure=pressure, seed=seed, **chosen)
                for pressure in ("gather", "push", "auto")
            ]
            same(each[0], each[1])
            same(each[0], each[2])


@pytest.mark.exhaustive
def test_threads_that_share_a_replicate_change_nothing(monkeypatch):
    from ergode.epidemics.leap import cpu_runs

    contacts = layered(400)
    chosen = {"method": "renewal-leap", "replicates": 1}
    expected = simulate(aging(), contacts, **chosen)
    monkeypatch.setattr(cpu_runs, "_SHARED_FROM", 1)
    for pressure in ("push", "auto"):
        same(simulate(aging(), contacts, pressure=pressure, device="cpu:3", **chosen), expected)


@pytest.mark.exhaustive
def test_sweeps_run_on_computed_networks():
    def sis(rate):
        return ergode.CompartmentModel.sis(
            transmission_rate=rate, infectious=ergode.Exponential(mean=3)
        )

    for method in ("sellke", "gillespie"):
        check(sis, layered(151), parameters={"rate": [0.1, 0.3]}, method=method)


# ---- windows of time, which run on CUDA, against the queue of events


def histories(contacts, **options):
    """Counts and line lists of both exact engines, which must be equal."""
    found = []
    for kind in (EventEnsemble, WindowEnsemble):
        ensemble = kind(
            superinfection(), scenario_of(contacts, **options), {"I": min(3, contacts.node_count)},
            times=TIMES, seed=4, device=devices.resolve("cpu:1"), listing=True,
        )  # fmt: skip
        (counts, *rest), _ = ensemble.run(0, 3)
        found.append((counts, ensemble.cases((counts, *rest), 0)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    for name, column in found[0][1].items():
        np.testing.assert_array_equal(column, found[1][1][name])
    return found[0][0]


@pytest.mark.exhaustive
def test_windows_equal_events():
    for count in (1, 3, 40, 400):
        for contacts in (layered(count), layered(count).stored()):
            histories(contacts, **measures())
    rng = np.random.default_rng(3)
    for form in ("regular", "groups"):
        for _ in range(10):
            histories(network_of(rng, form))


def _another_target(contacts, monkeypatch):
    """One permutation of the kernels has another key."""
    key = contacts.arcs.key.copy()
    key[-1] ^= np.uint32(1)
    monkeypatch.setitem(vars(contacts), "arcs", contacts.arcs._replace(key=key))


def _another_order(contacts, monkeypatch):
    """Two members of a group change places."""
    member = contacts.arcs.member.copy()
    member[[-1, -2]] = member[[-2, -1]]
    monkeypatch.setitem(vars(contacts), "arcs", contacts.arcs._replace(member=member))


def _another_weight(contacts, monkeypatch):
    """The last slot has the factor of another layer."""
    factors = contacts.slot_factors()
    factors[-1] = 0.5
    monkeypatch.setitem(vars(contacts), "slot_factors", lambda: factors)


def _next_slot(arcs, node, slot):
    return np.int64(slot)


@pytest.mark.exhaustive
@pytest.mark.parametrize("broken", [_another_target, _another_order, _another_weight])
def test_one_arc_that_is_off_is_noticed(broken, monkeypatch):
    contacts = layered(40)
    copy = contacts.stored()
    broken(contacts, monkeypatch)
    chosen = {"output": "line_list", "seed": 3}
    with pytest.raises(AssertionError):
        same(
            simulate(superinfection(), contacts, **chosen),
            simulate(superinfection(), copy, **chosen),
        )


@pytest.mark.exhaustive
def test_a_wrong_way_back_is_noticed(monkeypatch):
    """Windows of time draw the contacts of another arc."""
    monkeypatch.setattr("ergode.epidemics.shared.arcs.reverse_slot", _next_slot)
    with pytest.raises(AssertionError):
        histories(layered(40))


# ---- as theory


def exact_mean(contacts, rate, recovery, first, times):
    """Mean number of infectious nodes of SIS, from the generator over all states of the nodes."""
    count = contacts.node_count
    generator = np.zeros((2**count, 2**count))
    factors = [part.factor for part in contacts.parts for _ in range(part.degree)]
    targets = contacts.targets()
    for state in range(2**count):
        for node in range(count):
            flow = recovery
            if not state >> node & 1:
                flow = rate * sum(
                    factor * (state >> int(other) & 1)
                    for other, factor in zip(targets[node], factors, strict=True)
                )
            generator[state, state ^ 1 << node] += flow
            generator[state, state] -= flow
    sick = np.array([bin(state).count("1") for state in range(2**count)])
    return np.array([expm(generator * t)[1 << first] @ sick for t in times])


@pytest.mark.parametrize("method", ["gillespie", "sellke"])
def test_a_few_nodes_follow_the_master_equation(method):
    # With three nodes, most slots lead to a node itself or to one neighbour again.
    contacts = layered(3, seed=8)
    rows = contacts.targets()
    assert (rows == np.arange(3)[:, None]).any()
    assert any(np.unique(row[row != node]).size < (row != node).sum()
               for node, row in enumerate(rows))  # fmt: skip
    model = ergode.CompartmentModel.sis(
        transmission_rate=0.15, infectious=ergode.Exponential(mean=2)
    )
    times = [0.0, 1.0, 3.0, 8.0]
    found = simulate(
        model, contacts, initial={"I": 1}, times=times, replicates=40_000, method=method
    )["count"].sel(compartment="I")
    expected = np.mean([exact_mean(contacts, 0.15, 0.5, k, times) for k in range(3)], axis=0)
    error = found.std("replicate", ddof=1) / 200.0
    assert (abs(found.mean("replicate") - expected) <= 5.5 * error).all()
    assert (error[1:] < 0.011 * expected[1:].max()).all()


# ---- what is refused


def test_large_networks_are_for_first_passage_alone():
    earth = ComputedNetwork.random_regular(8_000_000_000)
    sis = ergode.CompartmentModel.sis(transmission_rate=0.3, infectious=ergode.Exponential(mean=2))
    with pytest.raises(PlanError, match="no other method takes this network of 8,000,000,000"):
        simulate(sis, earth)
    sir = ergode.CompartmentModel.sir(transmission_rate=0.3, infectious=ergode.Exponential(mean=2))
    with pytest.raises(PlanError, match="8,000,000,000 nodes, more than 2.31 - 1; use method='fir"):
        simulate(sir, earth, method="sellke")


@pytest.mark.parametrize(("method", "least"), [("sellke", "26.00"), ("gillespie", "33.18")])
def test_memory_of_nodes_is_planned_before_it_is_allocated(method, least, monkeypatch):
    monkeypatch.setattr(devices.CPU, "available_bytes", lambda self: 2 * 10**9)
    contacts = ComputedNetwork.random_regular(1_000_000_000)
    sis = ergode.CompartmentModel.sis(transmission_rate=0.3, infectious=ergode.Exponential(mean=2))
    with pytest.raises(PlanError, match=f"of 1,000,000,000 nodes beside .* needs {least} GB"):
        simulate(sis, contacts, method=method)


# ---- CUDA


def check_devices(model, contacts, **options):
    same(
        simulate(model, contacts, **options, device="cuda"),
        simulate(model, contacts, **options, device="cpu"),
    )


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("form", ["regular", "groups", "layers"])
def test_cuda_equals_cpu(form, precision):
    rng = np.random.default_rng(len(form))
    for number in range(8):
        contacts = network_of(rng, form)
        for method in ("sellke", "renewal-leap", "markov-leap"):
            chosen = {"method": method, "precision": precision, "seed": number}
            check_devices(superinfection(), contacts, **chosen)
            if number < 2:
                check_devices(superinfection(), contacts.stored(), **chosen)


@pytest.mark.cuda
def test_cuda_equals_cpu_under_measures():
    for contacts in (layered(400), layered(400).stored(), layered(30_000)):
        for output in ("counts", "line_list"):
            check_devices(superinfection(), contacts, output=output, **measures())
        for pressure in ("gather", "push", "auto"):
            check_devices(aging(), contacts, method="renewal-leap", pressure=pressure, step=0.5)
        check_devices(aging(), contacts, method="renewal-leap", **schedule())


@pytest.mark.cuda
def test_cuda_equals_cpu_with_many_slots():
    # More than 64: lanes of a warp share the arcs of a node.
    contacts = ComputedNetwork.from_layers(
        {
            "crowd": ComputedNetwork.random_regular(300, 70, seed=2),
            "class": ComputedNetwork.groups(300, 31, seed=3),
        },
        {"crowd": 0.05, "class": 0.1},
    )
    for one in (contacts, contacts.stored()):
        for method in ("sellke", "renewal-leap"):
            check_devices(superinfection(), one, method=method)
