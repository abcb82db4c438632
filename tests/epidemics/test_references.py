"""Epidemics against what is known of them: theory, the master equation, independent simulation.

Seeds are fixed. Where an assertion is statistical its error is stated; all of them together are
wrong with a probability below 1e-6 for a right engine.
"""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

import ergode
from ergode.epidemics import simulate, summary

LATENT = ergode.LogNormal(mean=5, median=4)
INFECTIOUS = ergode.LogNormal(mean=7.5, median=5)
# For 20 comparisons at a family-wise 1e-6, each may err with 5e-8: 5.45 standard deviations.
SIGMAS = 5.45


def seir(rate):
    return ergode.CompartmentModel.seir(
        transmission_rate=rate, latent=LATENT, infectious=INFECTIOUS
    )


@pytest.fixture(scope="module")
def large():
    return ergode.ContactNetwork.erdos_renyi(800_000, mean_degree=8, seed=5)


@pytest.mark.parametrize(("rate", "final_size"), [(0.25, 0.995583), (0.03, 0.554363)])
def test_final_size(large, rate, final_size):
    """The giant component's size, from a few seeds that add next to nothing.

    With 800,000 nodes the sampling error of one epidemic is 0.2 % at a rate of 0.03; the three
    replicates share the network, whose own error is of that order too.
    """
    counts = simulate(
        seir(rate), large, initial={"E": 20}, times=[0, 2000.0], replicates=3, seed=2, device="cpu"
    )
    attack = summary(counts)["attack_rate"].values
    # Variance of the giant component's size on a Poisson network (central limit, per node).
    t = _transmissibility(rate)
    mean = 8 * t * (1 - final_size)
    error = np.sqrt(final_size * (1 - final_size) * (1 + mean) / (1 - mean) ** 2 / 800_000)
    bias = 20 / 800_000 / (1 - mean)
    assert abs(attack.mean() - final_size) < SIGMAS * error * 1.1 + bias
    assert SIGMAS * error < 0.02 * final_size


def _transmissibility(rate):
    return {0.25: 0.680798, 0.05: 0.271630, 0.10: 0.439535, 0.03: 0.182}[rate]


def test_final_size_of_a_regular_network():
    network = ergode.ContactNetwork.random_regular(200_000, degree=8, seed=1)
    counts = simulate(
        seir(0.25), network, initial={"E": 20}, times=[0, 2000.0], seed=2, device="cpu"
    )
    missed = 1 - float(summary(counts)["attack_rate"][0])
    # About 22 nodes of 200,000 escape: a Poisson count.
    assert abs(missed * 200_000 - 0.000108 * 200_000) < SIGMAS * np.sqrt(21.6) + 1


def test_final_size_of_a_markovian_epidemic(large):
    model = ergode.CompartmentModel.sir(
        transmission_rate=0.25, infectious=ergode.Exponential(rate=0.15)
    )
    counts = simulate(model, large, initial={"I": 20}, times=[0, 1000.0], seed=2, device="cpu")
    error = np.sqrt(0.993023 * 0.006977 / 800_000)
    assert abs(float(summary(counts)["attack_rate"][0]) - 0.993023) < SIGMAS * 1.1 * error + 1e-4


def test_final_size_when_everyone_meets_everyone():
    """The law of Kermack and McKendrick, 1 - z = s exp(-R z), which gives 0.79681 for R = 2."""
    n, seeds, replicates = 1_000, 20, 250
    everyone = ergode.ContactNetwork.from_edges(*np.triu_indices(n, 1))
    model = ergode.CompartmentModel.sir(
        transmission_rate=2 * 0.15 / (n - 1), infectious=ergode.Exponential(rate=0.15)
    )
    counts = simulate(
        model, everyone, initial={"I": seeds}, times=[0, 1000.0], replicates=replicates, seed=3,
        device="cpu",
    )  # fmt: skip
    attack = summary(counts)["attack_rate"].values
    size = brentq(lambda z: 1 - z - (1 - seeds / n) * np.exp(-2 * z), 0.1, 1)
    error = SIGMAS * attack.std() / np.sqrt(replicates)
    assert brentq(lambda z: 1 - z - np.exp(-2 * z), 0.1, 1) == pytest.approx(0.79681, abs=5e-6)
    assert abs(attack.mean() - size) < error + 2 / n  # the law is that of infinitely many
    assert error < 0.01


@pytest.mark.parametrize("method", ["first-passage", "sellke"])
def test_the_force_of_both_stages_infects(method):
    """In pairs one infects the other, in its first or second stage: a chain of three states.

    Of 2,000,000 pairs 36 % are infected by time 1 and 65 % in the end. Allowed errors are 0.5 % and
    0.3 % of that.
    """
    pairs, replicates = 20_000, 100
    first = 2 * np.arange(pairs)
    model = ergode.CompartmentModel(
        ["S", "A", "B", "R"],
        [ergode.Infection("S", "A", {"A": 0.4, "B": 0.8})],
        [
            ergode.Progression("A", "B", ergode.Exponential(mean=1.5)),
            ergode.Progression("B", "R", ergode.Exponential(mean=1.0)),
        ],
    )
    counts = simulate(
        model, ergode.ContactNetwork.from_edges(first, first + 1), initial={"A": first},
        times=[0, 1.0, 200.0], replicates=replicates, seed=5, method=method, device="cpu",
    )  # fmt: skip
    infected = 1 - counts["count"].sel(compartment="S").values.mean(axis=0) / pairs
    chain = np.array([[-0.4 - 1 / 1.5, 1 / 1.5, 0.0], [0.0, -0.8 - 1.0, 1.0], [0.0, 0.0, 0.0]])
    exact = np.array([1 - expm(t * chain)[0].sum() for t in (1.0, 200.0)])
    error = np.sqrt(exact * (1 - exact) / (replicates * pairs))
    assert np.all(np.abs(infected[1:] - exact) < SIGMAS * error), (infected, exact, error)


def test_growth_rate(large):
    """While few are infected an epidemic grows by Lotka's and Euler's exponent, 0.29804 a day."""
    times = np.arange(0, 22.1, 0.5)
    counts = simulate(
        seir(0.25), large, initial={"E": 20}, times=times, replicates=150, seed=11, device="cpu"
    )
    cases = counts["cases"].values
    begin, end = np.searchsorted(cases.mean(0), [500, 5000])
    rate = np.log(cases[:, end] / cases[:, begin]) / (times[end] - times[begin])
    error = SIGMAS * rate.std() / np.sqrt(rate.size)
    # A hundredth of the nodes is no longer susceptible in the end.
    assert abs(rate.mean() - 0.29804) < error + 0.001
    assert error < 0.01 * 0.29804


@pytest.mark.parametrize(
    ("rate", "probability", "between"),
    [
        (0.03, 0.374691, (0.22, 0.35)), (0.05, 0.66096, (0.15, 0.6)), (0.10, 0.87041, (0.1, 0.9)),
        (0.25, 1 - 0.027791, (0.1, 0.95)),
    ],
)  # fmt: skip
def test_outbreaks_from_one_seed(rate, probability, between):
    """A replicate is an outbreak or dies out small: none ends between."""
    replicates = 8000 if rate == 0.05 else 4000
    network = ergode.ContactNetwork.erdos_renyi(4000, mean_degree=8, seed=8)
    counts = simulate(
        seir(rate), network, initial={"E": 1}, times=[0, 2000.0], replicates=replicates, seed=1,
        device="cpu",
    )  # fmt: skip
    attack = summary(counts)["attack_rate"].values
    low, high = between
    assert not ((attack > low) & (attack < high)).any()
    error = np.sqrt(probability * (1 - probability) / replicates)
    assert abs((attack > low).mean() - probability) < SIGMAS * error


@pytest.mark.parametrize(
    ("fraction", "peak", "day", "recovered"),
    [(1e-2, 0.37518, 20.18, 0.97322), (1e-3, 0.37412, 27.96, 0.94746)],
)
def test_the_renewal_limit(fraction, peak, day, recovered):
    """Edge-based limit from a fraction of the nodes: the peak, its day, and R(50)."""
    node_count = 500_000
    network = ergode.ContactNetwork.erdos_renyi(node_count, mean_degree=8, seed=3)
    times = np.arange(0, 60.01, 0.05)
    counts = simulate(
        seir(0.25),
        network,
        initial={"I": fraction},
        times=times,
        replicates=2,
        seed=9,
        device="cpu",
    )
    curve = counts["count"].mean("replicate") / node_count
    infectious = curve.sel(compartment="I").values
    # The noise of a thousand seeds shifts the curve by about 0.5 / (0.3 sqrt(1000)) days, and with
    # it R(50) of the later one, which still rises by 0.01 a day then.
    shift = 0.5 / (0.3 * np.sqrt(2 * fraction * node_count))
    assert abs(times[infectious.argmax()] - day) < SIGMAS * shift + 0.1
    assert abs(infectious.max() - peak) < 0.0015
    found = float(curve.sel(compartment="R").sel(time=50, method="nearest"))
    assert abs(found - recovered) < 0.001 + 0.01 * SIGMAS * shift * (fraction < 1e-2)


def test_small_networks_at_high_resolution():
    """1,000 nodes, 10 seeds: peak 0.3850 +- 0.0005, final 0.99560, time of peak 20.22 d.

    Twelve networks; errors between networks dominate, and are estimated from them.
    """
    peaks, moments, finals = [], [], []
    for number in range(12):
        network = ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=50 + number)
        counts = simulate(
            seir(0.25), network, initial={"I": 10}, times=np.arange(0, 200, 0.05), replicates=100,
            seed=number, device="cpu",
        )  # fmt: skip
        found = summary(counts)
        peaks.append(float(found["peak_count"].mean()) / 1000)
        moments.append(float(found["peak_time"].mean()))
        finals.append(float(found["attack_rate"].mean()))
    for values, expected, floor in (
        (peaks, 0.3850, 0.0005), (moments, 20.22, 0.05), (finals, 0.99560, 0.0002),
    ):  # fmt: skip
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) < SIGMAS * (error + floor)
        assert error < 0.01 * expected
