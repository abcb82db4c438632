"""Reactions that are continuous while their species are many: against exact laws and methods."""

import numpy as np
import pytest

import ergode
from ergode import Event, Reaction, ReactionNetwork

MANY = 5.5  # deviations by chance; of some 200 comparisons, at 1e-6 in all
GENE = ReactionNetwork(
    {"G": 0, "P": 0},
    [
        Reaction("0 -> G", rate="0.5 * (1 - G)"),
        Reaction("G -> 0", rate_constant=0.7),
        Reaction("G -> G + P", rate_constant="b"),
        Reaction("P -> 0", rate_constant=1.5),
    ],
    parameters={"b": 3000.0},
)
CHAIN = ReactionNetwork(
    {"A": 4000, "B": 0, "C": 30, "D": 0},
    [
        Reaction("A -> B", rate_constant=1.0),
        Reaction("B -> A", rate_constant=0.5),
        Reaction("A -> 0", rate_constant=0.4),
        Reaction("C -> D", rate_constant=0.3),
        Reaction("D -> C", rate_constant=0.2),
    ],
)


def run(network, times, above=400.0, **options):
    options = {"method": "hybrid", "device": "cpu", "seed": 1, **options}
    return ergode.stochastic.simulate(network, times=times, continuous_above=above, **options)


def agree(result, mean, variance, kurtosis=3.0, error=0.01):
    """Means and variances [time, species] up to chance and a relative error of variances."""
    x = result["amount"].values
    deviation = np.sqrt(variance / len(x))
    off = np.abs(x.mean(axis=0) - mean) - 0.01 * error * mean
    assert (off <= MANY * deviation + 1e-9).all(), off / deviation
    spread = variance * np.sqrt((kurtosis - 1) / len(x))
    off = np.abs(x.var(axis=0) - variance) - error * variance
    assert (off <= MANY * spread + 1e-9).all(), off / spread


def test_the_method_is_chosen_for_it():
    found = run(CHAIN, [0, 0.1], replicates=2, method="auto")
    assert found.attrs["method"] == "hybrid" and "continuous_above" in found.attrs["method_reason"]
    assert (found["amount"].values == run(CHAIN, [0, 0.1], replicates=2)["amount"].values).all()


def test_linear_networks_have_their_exact_moments():
    """Amounts rise from zero and fall back through the limits."""
    times = [0, 0.2, 0.5, 1.0, 2.13, 4.0, 8.0]
    for network, kurtosis in ((GENE, 6.0), (CHAIN, 3.5)):
        exact = ergode.stochastic.linear_noise(network, times=times)
        found = run(network, times, replicates=3000)
        assert found.attrs["exact"] == 0 and found.attrs["partition_changes"] >= 3000
        assert 0.5 < found.attrs["continuous_share"] < 1
        error = found.attrs["step_error"] + found.attrs["partition_error"]
        assert 0 < error < 0.02
        covariance = exact["covariance"].values
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        agree(found, exact["mean"].values, variance, kurtosis, error)
    anywhere = run(CHAIN, times, replicates=2, device="auto")
    assert anywhere.attrs["device_reason"] == "for continuous_above"


def test_a_law_is_that_of_the_master_equation():
    network = ReactionNetwork(
        {"X": 900},
        [Reaction("0 -> X", rate="1800 * 900 / (900 + X)"), Reaction("X -> 0", rate_constant=1.0)],
    )
    found = run(network, [0, 0.777, 5.0], replicates=4000)
    exact = ergode.stochastic.probabilities(network, times=[0, 0.777, 5.0])
    for k in (1, 2):
        x = np.sort(found["amount"].values[:, k, 0])
        law = np.cumsum(exact["probability"].values[k, 0])
        # Real amounts: half of each step of the law.
        at = np.interp(x, exact["amount"].values + 0.5, law)
        empirical = (np.arange(x.size) + 0.5) / x.size
        assert np.abs(at - empirical).max() < 2.7 / np.sqrt(x.size) + 0.005


def test_conserved_amounts_stay_and_what_is_discrete_is_whole():
    found = run(CHAIN, [0, 1, 3, 8, 30], replicates=200)["amount"].values
    assert (found[..., 2] + found[..., 3] == 30).all()
    assert (found[:, -1] % 1 == 0).all() and (found[:, 0, 0] == 4000).all()
    assert (found[:, 1, :2] % 1 != 0).any()
    closed = ReactionNetwork({"A": 3000, "B": 0}, CHAIN.reactions[:2])
    total = run(closed, [0, 0.3, 1, 5], replicates=50)["amount"].values.sum(axis=-1)
    np.testing.assert_allclose(total, 3000, rtol=1e-13)
    few = run(GENE, [0, 2.0], replicates=50, parameters={"b": 20.0})
    one = ergode.stochastic.simulate(
        GENE, times=[0, 2.0], replicates=50, method="hybrid", seed=1, parameters={"b": 20.0}
    )
    assert few.attrs["continuous_share"] == 0
    np.testing.assert_array_equal(few["amount"], one["amount"])


def test_events_rates_in_time_and_parts():
    """Deaths: Poisson numbers of independent molecules; the rate decays, and a dose comes."""
    network = ReactionNetwork(
        {"A": 3000},
        [Reaction("A -> 0", rate="k * A")],
        parameters={"k": 0.5},
        rate_rules={"k": "-0.2 * k"},
        events=[Event("time > 1.5", {"A": "A + 1000"})],
    )
    times = np.array([0, 0.5, 1, 2, 4])
    found = run(network, times, replicates=3000)
    passed = 2.5 * (1 - np.exp(-0.2 * times))
    p, q = np.exp(-passed), np.exp(2.5 * (1 - np.exp(-0.3)) - passed) * (times > 1.5)
    mean = 3000 * p + 1000 * q
    variance = mean - 3000 * p**2 - 1000 * q**2
    agree(found, mean[:, None], variance[:, None])
    parts = [run(network, times, replicates=range(*ends)) for ends in ((0, 7), (7, 20))]
    joined = np.concatenate([part["amount"].values for part in parts])
    np.testing.assert_array_equal(joined, found["amount"].values[:20])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"above": 10.0}, "expected at least 100 molecules"),
        ({"method": "direct"}, "solves no differential equations"),
        ({"output": "events"}, "no single firings"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ergode.PlanError, match=message):
        run(GENE, [0, 1.0], **options)


@pytest.mark.cuda
def test_device_and_processor_agree():
    cpu, gpu = (run(GENE, [0, 1, 4], replicates=400, device=d) for d in ("cpu", "cuda"))
    off = np.abs(cpu["amount"].values - gpu["amount"].values) > 1e-3
    assert off.any(axis=(1, 2)).mean() < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_against_the_direct_method(seed):
    rng = np.random.default_rng(seed)
    names = ["A", "B", "C", "D"]
    reactions = [Reaction(f"0 -> {names[0]}", rate_constant=8000.0)]
    for i in range(4):
        for j in rng.choice(4, 2, replace=False):
            if i != j:
                rate = float(rng.uniform(0.3, 3))
                reactions.append(Reaction(f"{names[i]} -> {names[j]}", rate_constant=rate))
        reactions.append(Reaction(f"{names[i]} -> 0", rate_constant=float(rng.uniform(0.5, 2))))
    i, j, k = rng.choice(4, 3, replace=False)
    reactions.append(Reaction(f"{names[i]} + {names[j]} -> {names[k]}", rate_constant=1e-5))
    network = ReactionNetwork(dict.fromkeys(names, 0), reactions)
    times = [0, 0.3, 1, 3]
    found = run(network, times, above=150.0, replicates=4000)
    exact = ergode.stochastic.simulate(
        network, times=times, replicates=4000, method="direct", output="statistics", device="cpu"
    )
    assert found.attrs["continuous_share"] > 0.2
    error = found.attrs["step_error"] + found.attrs["partition_error"]
    mean, variance = exact["mean"].values, exact["variance"].values
    spread = np.sqrt(variance / 4000 + variance / 4000)
    off = np.abs(found["amount"].values.mean(axis=0) - mean) - 0.001 * mean
    assert (off <= MANY * spread + 1e-9).all()
    off = np.abs(found["amount"].values.var(axis=0) / np.maximum(variance, 1e-9) - 1)[1:]
    assert (off < error + MANY * np.sqrt(4 / 4000)).all()
