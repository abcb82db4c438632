"""The exact event-driven epidemic: against theory, other methods, and itself."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import chi2

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of

# A family-wise 1e-6 over the 40 comparisons of this file and the next: 2.5e-8 each.
SIGMAS, LEAST = 5.6, 2.5e-8
SIS = ergode.CompartmentModel.sis(transmission_rate=0.25, infectious=ergode.Exponential(rate=0.15))


def seirs(latent, infectious, immune):
    return ergode.CompartmentModel.seirs(
        transmission_rate=0.25, latent=latent, infectious=infectious, immune=immune
    )


MEMORYLESS = seirs(*(ergode.Exponential(mean=m) for m in (3.0, 7.0, 20.0)))


def random_network(node_count, mean_degree, seed):
    """With weights of one, so that most tests of this file share a kernel."""
    source, target = ergode.ContactNetwork.erdos_renyi(node_count, mean_degree, seed).edges()
    return ergode.ContactNetwork.from_edges(
        source, target, node_count, weights=np.ones(source.size)
    )


def run(model, contacts, replicates=1, times=range(61), seed=1, **options):
    options = {"initial": {"I": 5}, "device": "cpu", **options}
    return simulate(model, contacts, times=times, replicates=replicates, seed=seed, **options)


@pytest.mark.parametrize("method", ["sellke", "gillespie"])
def test_endemic_level(method):
    """0.9137 +- 0.0003 at N = 1e3, over networks, whose own spread is estimated from them."""
    levels = []
    for number in range(60):
        network = random_network(1000, 8, 300 + number)
        counts = run(
            SIS, network, replicates=2, times=np.arange(40, 101), seed=number, method=method,
            initial={"I": 0.9},
        )  # fmt: skip
        # Begun near its level, which it forgets in a few days: the last 40.
        levels.append(counts["count"].sel(compartment="I").values[:, -40:].mean() / 1000)
    error = np.std(levels, ddof=1) / np.sqrt(len(levels))
    assert abs(np.mean(levels) - 0.9137) < 0.0003 + 3 * error
    assert error < 3e-4


def test_jumps_are_counted_by_stratum():
    network = random_network(60, 6, 4).with_attributes(third=np.arange(60) % 3)
    options = {"replicates": 30, "seed": 9, "method": "gillespie"}
    together = run(MEMORYLESS, network, **options)
    apart = run(MEMORYLESS, network, strata="third", **options)
    for name in ("count", "cases"):
        np.testing.assert_array_equal(apart[name].sum("stratum"), together[name])
    assert (apart["count"].sum("compartment") == 20).all()
    assert (apart["cases"].isel(time=-1).std("replicate") > 0).all()


@pytest.mark.parametrize(
    ("method", "wanes", "replicates"),
    [("first-passage", 0.0, 1_000_000), ("sellke", 0.7, 300_000), ("gillespie", 0.7, 300_000)],
    ids=["first-passage", "sellke", "gillespie"],
)
def test_small_graph_against_the_master_equation(method, wanes, replicates):
    """Joint counts of a memoryless SIR or SIRS on a weighted directed graph of five nodes."""
    source, target = np.array([0, 1, 2, 3, 1, 4, 0, 2]), np.array([1, 2, 3, 4, 0, 1, 3, 0])
    weights = np.array([1.0, 0.5, 2.0, 1.5, 0.7, 1.0, 0.3, 0.9])
    network = ergode.ContactNetwork.from_edges(source, target, directed=True, weights=weights)
    given = {"transmission_rate": 0.8, "infectious": ergode.Exponential(rate=0.5)}
    if wanes:
        model = ergode.CompartmentModel.sirs(**given, immune=ergode.Exponential(rate=wanes))
    else:
        model = ergode.CompartmentModel.sir(**given)
    moment = 2.5
    generator = np.zeros((3**5, 3**5))
    digits = (np.arange(3**5)[:, None] // 3 ** np.arange(5)) % 3
    for state, kinds in enumerate(digits):
        for i, j, weight in zip(source, target, weights, strict=True):
            if kinds[i] == 1 and kinds[j] == 0:
                generator[state, state + 3**j] += 0.8 * weight
        for i in range(5):
            if kinds[i] == 1:
                generator[state, state + 3**i] += 0.5
            elif kinds[i] == 2:
                generator[state, state - 2 * 3**i] += wanes
    generator -= np.diag(generator.sum(axis=1))
    probability = expm(generator * moment)[1]
    joint = np.zeros((6, 6))
    np.add.at(joint, ((digits == 0).sum(axis=1), (digits == 1).sum(axis=1)), probability)
    counts = run(
        model, network, replicates=replicates, times=[0, moment], seed=3, method=method,
        initial={"I": [0]},
    )  # fmt: skip
    last = counts["count"].values[:, 1]
    seen = np.zeros((6, 6))
    np.add.at(seen, (last[:, 0], last[:, 1]), 1)
    possible = joint * replicates > 5
    assert seen[~possible].sum() < 60
    expected = joint[possible] * replicates
    statistic = ((seen[possible] - expected) ** 2 / expected).sum()
    assert possible.sum() > 12
    assert statistic < chi2.isf(LEAST, possible.sum() - 1)


def ensemble(device="cpu:1", **options):
    network = random_network(500, 8, 1)
    return EventEnsemble(
        MEMORYLESS, scenario_of(network), {"I": 5}, times=np.arange(61.0), seed=3,
        device=devices.resolve(device), **options,
    )  # fmt: skip


def test_does_not_depend_on_buckets_threads_or_company():
    expected = ensemble().run(0, 20)[0][0]
    for bucket_count in (2, 7, 300, 50_000):
        (counts, _), _ = ensemble(bucket_count=bucket_count).run(0, 20)
        np.testing.assert_array_equal(counts, expected)
    (counts, _), _ = ensemble("cpu:4").run(0, 20)
    np.testing.assert_array_equal(counts, expected)
    (counts, _), _ = ensemble().run(7, 3)
    np.testing.assert_array_equal(counts, expected[7:10])


def test_auto_says_why():
    network = ergode.ContactNetwork.erdos_renyi(60, mean_degree=6, seed=4)
    recurrent = run(SIS, network)
    assert recurrent.attrs["method"] == "sellke"
    assert "susceptible again" in recurrent.attrs["method_reason"]
    lasting = seirs(*(ergode.Deterministic(m) for m in (3.0, 7.0, 20.0)))
    with pytest.raises(ergode.PlanError, match="holding time of 'E' is not exponential"):
        run(lasting, network, method="gillespie")
    with pytest.raises(ergode.PlanError, match="susceptible again.*use method='sellke'"):
        run(SIS, network, method="first-passage")
    with pytest.raises(ergode.PlanError, match="keeps no line lists"):
        run(SIS, network, method="gillespie", output="line_list")


def test_a_clock_that_runs_too_far_is_refused():
    network = ergode.ContactNetwork.from_edges([0], [1])
    fast = ergode.CompartmentModel.sis(
        transmission_rate=1e7, infectious=ergode.Exponential(mean=1.0)
    )
    with pytest.raises(ergode.ModelError, match="would transmit 1e\\+09 times"):
        run(fast, network, times=[0, 100], initial={"I": [0]})
