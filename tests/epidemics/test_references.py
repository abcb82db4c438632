"""Epidemics against what is known of them: theory, the master equation, independent simulation.

Seeds are fixed. Where an assertion is statistical its error is stated; all of them together are
wrong with a probability below 1e-6 for a right engine.
"""

import numpy as np
import pytest
from reference import event_driven
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.stats import chi2, ks_2samp

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


@pytest.mark.parametrize(
    ("rate", "final_size"), [(0.25, 0.995583), (0.05, 0.838212), (0.10, 0.964646), (0.03, 0.554363)]
)
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


def test_agrees_with_an_independent_event_driven_simulation(model):
    """Two-sample KS at n = 5,000 on peak, R(30), final size and time of peak; four tests at 1e-7.

    The reference draws with NumPy from a queue of events and knows nothing of first passage.
    """
    n, node_count = 5000, 60
    network = ergode.ContactNetwork.erdos_renyi(node_count, mean_degree=8, seed=21)
    grid = np.arange(0, 150, 0.25)
    counts = simulate(
        model, network, initial={"I": 2}, times=grid, replicates=n, seed=6, device="cpu"
    )["count"]
    infectious = counts.sel(compartment="I").values
    recovered = counts.sel(compartment="R").values
    ours = {
        "peak": infectious.max(axis=1),
        "time of peak": grid[infectious.argmax(axis=1)],
        "R(30)": recovered[:, grid.searchsorted(30)],
        "final size": node_count - counts.sel(compartment="S").values[:, -1],
    }
    rng = np.random.default_rng(12)
    sigma = np.sqrt(2 * np.log(5 / 4)), np.sqrt(2 * np.log(7.5 / 5))
    theirs = {name: [] for name in ours}
    for _ in range(n):
        begin, end = event_driven(
            network, 0.25,
            lambda r: r.lognormal(np.log(4), sigma[0]),
            lambda r: r.lognormal(np.log(5), sigma[1]),
            2, rng,
        )  # fmt: skip
        recovered = np.searchsorted(end, grid, side="right")
        curve = np.searchsorted(begin, grid, side="right") - recovered
        theirs["peak"].append(curve.max())
        theirs["time of peak"].append(grid[curve.argmax()])
        theirs["R(30)"].append(recovered[grid.searchsorted(30)])
        theirs["final size"].append(begin.size)
    for name in ours:
        # Ties make the test conservative. A critical distance of 0.058 at 1e-7.
        assert ks_2samp(ours[name], theirs[name]).pvalue > 1e-7, name


def test_small_graph_against_the_master_equation():
    """All joint counts of S, I, R on a weighted directed graph of five nodes, a million replicates.

    Markovian, so that the 3^5 states obey dp/dt = p Q; one chi-square at 1e-7.
    """
    source, target = np.array([0, 1, 2, 3, 1, 4, 0, 2]), np.array([1, 2, 3, 4, 0, 1, 3, 0])
    weights = np.array([1.0, 0.5, 2.0, 1.5, 0.7, 1.0, 0.3, 0.9])
    network = ergode.ContactNetwork.from_edges(source, target, directed=True, weights=weights)
    model = ergode.CompartmentModel.sir(
        transmission_rate=0.8, infectious=ergode.Exponential(rate=0.5)
    )
    moment, replicates = 1.5, 1_000_000
    generator = np.zeros((3**5, 3**5))
    digits = (np.arange(3**5)[:, None] // 3 ** np.arange(5)) % 3
    for state, kinds in enumerate(digits):
        for i, j, weight in zip(source, target, weights, strict=True):
            if kinds[i] == 1 and kinds[j] == 0:
                generator[state, state + 3**j] += 0.8 * weight
        for i in range(5):
            if kinds[i] == 1:
                generator[state, state + 3**i] += 0.5
    generator -= np.diag(generator.sum(axis=1))
    probability = expm(generator * moment)[1]  # node 0 infectious, the rest susceptible
    joint = np.zeros((6, 6))
    np.add.at(joint, ((digits == 0).sum(axis=1), (digits == 1).sum(axis=1)), probability)

    counts = simulate(
        model, network, initial={"I": [0]}, times=[0, moment], replicates=replicates, seed=17,
        device="cpu",
    )  # fmt: skip
    last = counts["count"].values[:, 1]
    seen = np.zeros((6, 6))
    np.add.at(seen, (last[:, 0], last[:, 1]), 1)
    possible = joint * replicates > 5
    assert seen[~possible].sum() < 50
    expected = joint[possible] * replicates
    statistic = ((seen[possible] - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-7, possible.sum() - 1)
    assert possible.sum() > 10
