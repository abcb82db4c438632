"""One problem in several engines: what they must agree on, within errors that are known.

Family-wise error of each test of random numbers: 1e-6.
"""

import numpy as np
import pytest
from scipy.stats import chi2, norm

import ergode

ALPHA = 1e-6


def complete_graph(size):
    return ergode.ContactNetwork.from_edges(*np.triu_indices(size, 1))


# ---- SEIR on a complete graph: nodes, molecules and the master equation

SIZE, TRANSMISSION, ONSET, RECOVERY = 30, 0.06, 0.8, 0.5
TIMES = [0.0, 2.0, 6.0]
COPIES = 25_000


def seir_counts(transmission):
    model = ergode.CompartmentModel.seir(
        transmission_rate=transmission,
        latent=ergode.Exponential(rate=ONSET),
        infectious=ergode.Exponential(rate=RECOVERY),
    )
    return ergode.epidemics.simulate(
        model, complete_graph(SIZE), initial={"I": 2}, times=TIMES, replicates=COPIES, seed=1,
        device="cpu",
    )["count"].values  # fmt: skip


def seir_network():
    return ergode.ReactionNetwork(
        {"S": SIZE - 2, "E": 0, "I": 2, "R": 0},
        [
            ergode.Reaction("S + I -> E + I", stochastic_rate_constant=TRANSMISSION),
            ergode.Reaction("E -> I", rate_constant=ONSET),
            ergode.Reaction("I -> R", rate_constant=RECOVERY),
        ],
    )


def chance(values, probability):
    """Probability of a chi-square this large, of bins of 50 or more."""
    expected = probability * values.size
    found = np.bincount(values, minlength=expected.size)
    last = np.cumsum(expected) // max(50, values.size / 40)
    bins = np.flatnonzero(np.diff(last, prepend=-1))
    expected, found = np.add.reduceat(expected, bins), np.add.reduceat(found, bins)
    return chi2.sf(((found - expected) ** 2 / expected).sum(), bins.size - 1)


def least_chance(counts, exact):
    """The least chance of all times and compartments, shape [copy, time, compartment]."""
    probability = exact["probability"].values
    return min(
        chance(counts[:, time, k].astype(int), probability[time, k])
        for time in range(1, len(TIMES))
        for k in range(4)
    )


def test_nodes_and_molecules_follow_the_master_equation():
    exact = ergode.stochastic.probabilities(seir_network(), times=TIMES)
    assert exact["truncation_error"].max() < 1e-6
    assert least_chance(seir_counts(TRANSMISSION), exact) > ALPHA / 16
    amounts = ergode.stochastic.simulate(
        seir_network(), times=TIMES, replicates=COPIES, seed=2, device="cpu"
    )["amount"].values
    assert least_chance(amounts, exact) > ALPHA / 16
    # A transmission rate that is two per cent off is noticed.
    assert least_chance(seir_counts(1.02 * TRANSMISSION), exact) < ALPHA / 16


# ---- SEIR on a growing complete graph: the renewal equation

LATENT, INFECTIOUS = ergode.Gamma(mean=3, sd=1.5), ergode.LogNormal(mean=5, median=4)


def renewal(reproduction, share, times, step=0.01):
    """Susceptible share of a large mixed population, where a share begins its latent time at 0.

    -ds/dt = rate s i(t), and i(t) = share K(t) + integral of (-ds/du) K(t - u) du, where K(a) is
    the probability of being infectious at the age a of an infection.
    """
    t = step * np.arange(round(times[-1] / step) + 1)
    mass = -np.diff(LATENT.survival(t))
    kernel = np.convolve(mass, INFECTIOUS.survival(t[:-1] + step / 2))[: t.size - 1]
    kernel = np.append(0.0, kernel)
    s, flow, rate = np.full(t.size, 1.0 - share), np.zeros(t.size), reproduction / 5
    before = 0.0
    for k in range(t.size - 1):
        # A cell's infections have their middle half a step before its end.
        ages = 0.5 * (kernel[k + 1 : 0 : -1] + kernel[k::-1])
        after = share * kernel[k + 1] + step * np.dot(flow[: k + 1], ages)
        s[k + 1] = s[k] * np.exp(-rate * step * (before + after) / 2)
        flow[k] = (s[k] - s[k + 1]) / step
        before = after
    return np.interp(times, t, s)


def test_a_large_complete_graph_follows_the_renewal_equation():
    times = np.arange(0.0, 61.0, 10.0)
    expected = renewal(2.5, 0.05, times)
    np.testing.assert_allclose(expected, renewal(2.5, 0.05, times, 0.02), atol=1e-4)
    mean, error = {}, {}
    for size, copies in ((200, 4_000), (400, 2_000)):
        model = ergode.CompartmentModel.seir(
            transmission_rate=2.5 / 5 / size, latent=LATENT, infectious=INFECTIOUS
        )
        counts = ergode.epidemics.simulate(
            model, complete_graph(size), initial={"E": size // 20}, times=times,
            replicates=copies, seed=1, device="cpu",
        )  # fmt: skip
        share = counts["count"].sel(compartment="S").values[:, 1:] / size
        mean[size], error[size] = share.mean(axis=0), share.std(axis=0) / np.sqrt(copies)
    # The difference from the limit falls as one over the size: extrapolate.
    found = 2 * mean[400] - mean[200]
    noise = np.hypot(2 * error[400], error[200])
    most = norm.isf(ALPHA / 2 / found.size)
    assert (noise < 0.005).all()
    assert (abs(found - expected[1:]) < most * noise + 1e-4).all()
    # The test sees a reproduction number that is three per cent off.
    assert (abs(found - renewal(2.575, 0.05, times)[1:]) > most * noise + 1e-4).any()


# ---- a reaction network in a growing volume: kinetics

RATES = {"2 A -> B": 0.5, "B -> 2 A": 0.3, "A + B -> C": 1.0}


def test_a_large_volume_follows_kinetics():
    times = [0.0, 0.5, 2.0, 5.0]
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0, "C": 0.0},
        [ergode.Reaction(text, rate_constant=rate) for text, rate in RATES.items()],
    )
    limit = ergode.kinetics.integrate(network, times=times, rtol=1e-9, device="cpu")
    limit = limit["concentration"].values[0, 1:]
    # Gillespie's c is k n! / V^(n - 1) for n equal molecules.
    constants = ("2 * 0.5 / V", "0.3", "1.0 / V")
    molecules = ergode.ReactionNetwork(
        {"A": 100, "B": 0, "C": 0},
        [
            ergode.Reaction(text, stochastic_rate_constant=constant)
            for text, constant in zip(RATES, constants, strict=True)
        ],
        {"V": 100.0},
    )
    volumes, copies = np.array([100, 200]), 40_000
    amounts = ergode.stochastic.simulate(
        molecules, times=times, parameters={"V": volumes}, initial={"A": volumes},
        replicates=copies, seed=3, device="cpu",
    )["amount"].values[:, :, 1:]  # fmt: skip
    found = amounts / volumes[:, None, None, None]
    mean, error = found.mean(axis=1), found.std(axis=1) / np.sqrt(copies)
    extrapolated, noise = 2 * mean[1] - mean[0], np.hypot(2 * error[1], error[0])
    most = norm.isf(ALPHA / 2 / noise.size)
    assert (abs(extrapolated - limit) < most * noise).all()
    assert (noise[:, 0] < 0.002 * limit[:, 0]).all()
    # The smaller volume alone is seen not to be the limit; fluctuations fall as its root.
    assert (abs(mean[0] - limit) > most * error[0]).any()
    np.testing.assert_allclose(found[0].var(axis=0) / found[1].var(axis=0), 2.0, rtol=0.12)


# ---- a vector field: trajectories, particles and the density itself

MEAN, DEVIATION = np.array([1.5, 0.5]), 0.2
FIELD, PARAMETERS = ergode.fields.van_der_pol(), {"damping": 0.5}


def moments_by_quadrature(times, order=24):
    """Mean and covariance from trajectories that start at the nodes of a Gauss-Hermite rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    x, v = (MEAN[:, None, None] + DEVIATION * np.array(np.meshgrid(nodes, nodes))).reshape(2, -1)
    weight = np.outer(weights, weights).ravel() / (2 * np.pi)
    state = ergode.trajectories.integrate(
        FIELD, times=times, initial={"x": x, "v": v}, parameters=PARAMETERS, rtol=1e-9,
        atol=1e-12, device="cpu",
    )["state"].values[:, -1]  # fmt: skip
    mean = weight @ state
    return mean, (weight[:, None] * (state - mean)).T @ (state - mean)


# The wider cells are too wide on purpose.
@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
def test_trajectories_particles_and_a_density_agree():
    times = [0.0, 1.0]
    mean, covariance = moments_by_quadrature(times)
    again = moments_by_quadrature(times, 16)
    np.testing.assert_allclose(again[0], mean, atol=1e-8)
    prior = ergode.Gaussian(MEAN, [DEVIATION**2] * 2)
    common = {"times": times, "parameters": PARAMETERS, "device": "cpu"}
    count = 100_000
    particles = ergode.particles.propagate(FIELD, prior, count=count, seed=1, **common)
    error = np.sqrt(np.diag(covariance) / count)
    assert (abs(particles["mean"].values[-1] - mean) < 5.5 * error).all()
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    away = abs(particles["covariance"].values[-1] - covariance) / scale
    assert (away < 5.5 * np.sqrt(2 / count) * 1.5).all()
    # The error of a density falls as the square of its cells' width.
    errors = []
    for width in (0.08, 0.04):
        found = ergode.density.propagate(FIELD, prior, width=width, threshold=1e-9, **common)
        errors.append(abs(found["covariance"].values[-1] - covariance) / scale)
        assert (abs(found["mean"].values[-1] - mean) < 0.25 * width**2).all()
    assert errors[1].max() < 0.02
    assert errors[1].max() < errors[0].max() / 3
