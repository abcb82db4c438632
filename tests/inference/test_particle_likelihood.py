"""particle_likelihood, pseudo_marginal and iterated_filtering against a known likelihood."""

import functools

import numpy as np
import pytest
import xarray
from inference.known import DEATH, deaths, exact_log_likelihood, exact_posterior, normal_density
from scipy import stats

import ergode
from ergode import ModelError, PlanError

SIGMAS = stats.norm.isf(1e-7)


@pytest.mark.parametrize("particles", [5, 200])
def test_the_estimate_is_not_biased(particles):
    """The mean of likelihoods, whatever the number of particles; 5 % are noticed."""
    k = [0.7, 1.0, 1.4]
    count = 40_000 // particles
    logs = deaths(particles)(np.repeat(k, count)[:, None]).reshape(3, count)
    for one, known in zip(logs, map(exact_log_likelihood, k), strict=True):
        ratios = np.exp(one - known)
        error = ratios.std(ddof=1) / np.sqrt(count)
        assert abs(ratios.mean() - 1) < SIGMAS * error < 0.3


def test_filtered_states_are_those_of_the_forward_algorithm():
    """The mean amount at the last time, given all observations."""
    found = deaths(20_000).states([1.1], seed=3)
    assert dict(found.sizes) == {"time": 3, "particle": 20_000}
    amounts, weights, now = np.arange(41), (np.arange(41) == 40).astype(float), 0.0
    for time, seen in [(0.5, 26), (1.0, 17), (1.8, 5)]:
        moves = stats.binom.pmf(amounts[None, :], amounts[:, None], np.exp(-1.1 * (time - now)))
        weights, now = (weights @ moves) * stats.norm.pdf(seen, amounts, 1.5), time
        weights /= weights.sum()
        mean = weights @ amounts
        deviation = np.sqrt(weights @ (amounts - mean) ** 2)
        off = float(found["X"].sel(time=time).mean()) - mean
        assert abs(off) < SIGMAS * 3 * deviation / np.sqrt(20_000)
    np.testing.assert_allclose(found["log_likelihood"], exact_log_likelihood(1.1), atol=0.1)


def test_chains_sample_the_posterior():
    """Few particles, and the exact posterior all the same: Kolmogorov-Smirnov at 1e-6."""
    found = ergode.pseudo_marginal(
        deaths(20, seed=5), {"k": (0.01, 4)}, draws=300, warmup=100, chains=40, seed=3
    )
    draws = np.sort(found["k"].values.ravel())
    grid, known = exact_posterior(0.01, 4)
    off = np.abs(np.interp(draws, grid, known) - (np.arange(draws.size) + 0.5) / draws.size).max()
    assert off < stats.kstwo.isf(1e-6, draws.size // 12)
    assert found.attrs["r_hat"] < 1.05 and (found.attrs["accepted"] > 0.1).all()
    assert 0.2 < found.attrs["deviation"] < 2


def test_the_maximum_is_found():
    found = ergode.iterated_filtering(
        deaths(500), {"k": (0.01, 10)}, iterations=30, starts=4, seed=1
    )
    k = np.linspace(0.5, 2, 301)
    best = k[np.argmax([exact_log_likelihood(one) for one in k])]
    assert abs(float(found["k"][0]) - best) < 0.1
    known = exact_log_likelihood(float(found["k"][0]))
    assert abs(float(found["log_likelihood"][0]) - known) < 0.1
    assert (np.diff(found["log_likelihood"]) <= 0).all()


def walk(parameters, initial, times, seed):
    """A random walk: an observed linear process, whose likelihood the Kalman filter knows."""
    random = np.random.default_rng(seed)
    size = len(initial["x"])
    step = np.sqrt((times[1] - times[0]) * parameters["D"]) * random.standard_normal(size)
    return {"x": initial["x"] + step}


def test_functions_missing_observations_and_drawn_beginnings():
    """A call of one's own, a time without observation, two observed values: Kalman's filter."""
    times, seen = [0.0, 1.0, 2.5, 3.0], np.array([[0.2, 0.1], [np.nan] * 2, [1.5, 1.2], [0.9, 1.4]])
    likelihood = ergode.particle_likelihood(
        walk, ["D"], lambda parameters, random: {"x": random.standard_normal(len(parameters["D"]))},
        times, seen,
        lambda seen, states, parameters: stats.norm.logpdf(seen[0], states["x"], 0.5)
        + stats.norm.logpdf(seen[1], states["x"], 0.7),
        particles=4_000,
    )  # fmt: skip
    covariance = np.ones((3, 3)) + 0.8 * np.minimum.outer([0, 2.5, 3.0], [0, 2.5, 3.0])
    every = np.kron(covariance, np.ones((2, 2))) + np.diag([0.25, 0.49] * 3)
    known = stats.multivariate_normal.logpdf(seen[[0, 2, 3]].ravel(), np.zeros(6), every)
    logs = likelihood(np.full((50, 1), 0.8))
    ratios = np.exp(logs - known)
    assert abs(ratios.mean() - 1) < SIGMAS * ratios.std(ddof=1) / np.sqrt(50) < 0.2
    assert likelihood([np.nan]) == -np.inf and np.ndim(likelihood([0.8])) == 0


@pytest.mark.parametrize("seen", [[0.3, 0.1], [np.nan, 0.1]])
def test_particles_that_fail_have_no_weight_and_are_not_simulated_on(seen):
    """A third fails in each interval, also where nothing is observed after it."""

    def call(parameters, initial, times, seed):
        assert np.isfinite(initial["x"]).all()
        lost = np.random.default_rng(seed).random(len(initial["x"])) < 1 / 3
        return xarray.Dataset({
            "x": ("point", np.where(lost, np.nan, initial["x"])),
            "status": ("point", np.where(lost, ergode.Status.NOT_FINITE, ergode.Status.DONE)),
        })  # fmt: skip

    likelihood = ergode.particle_likelihood(
        call, ["a"], {"x": 0.0}, [1.0, 2.0], seen,
        lambda seen, states, parameters: stats.norm.logpdf(seen, states["x"], 1.0),
        start=0.0, particles=20_000,
    )  # fmt: skip
    known = 2 * np.log(2 / 3) + stats.norm.logpdf(seen)[np.isfinite(seen)].sum()
    assert abs(likelihood([1.0]) - known) < SIGMAS * 0.01
    assert deaths(observed=[-90, 17, 5], max_firings=1)([[1.0]])[0] == -np.inf


def test_noisy_trajectories_are_filtered():
    """`integrate` with noise, whose states are named by a dimension."""
    field = ergode.field_from_equations({"x": "-x"}, ["s"], diffusion={"x": "s"})
    likelihood = ergode.particle_likelihood(
        functools.partial(
            ergode.trajectories.integrate, field, method="euler-maruyama", step=0.01, device="cpu:1"
        ),
        ["s"], {"x": 1.0}, [1.0, 2.0], [0.5, 0.1],
        lambda seen, states, parameters: stats.norm.logpdf(seen, states["x"], 0.2),
        start=0.0, particles=500,
    )  # fmt: skip
    logs = likelihood(np.full((20, 1), 0.3))
    shrink, grown = 0.99**100, 0.09 * 0.01 * (1 - 0.99**200) / (1 - 0.99**2)
    covariance = [[grown, shrink * grown], [shrink * grown, shrink**2 * grown + grown]]
    known = stats.multivariate_normal.logpdf(
        [0.5, 0.1], [shrink, shrink**2], np.add(covariance, 0.04 * np.eye(2))
    )
    ratios = np.exp(logs - known)
    assert abs(ratios.mean() - 1) < SIGMAS * ratios.std(ddof=1) / np.sqrt(20) < 0.3


def test_seeds_units_and_arviz():
    likelihood = deaths()
    theta = [[0.8], [1.2]]
    np.testing.assert_array_equal(likelihood(theta, seed=4), likelihood(theta, seed=4))
    assert (likelihood(theta) != likelihood(theta)).all()
    unit = 2.0**-30
    call = functools.partial(ergode.stochastic.simulate, DEATH, device="cpu:1")
    slow = ergode.particle_likelihood(
        call, ["k"], {"X": 40}, np.divide([0.5, 1.0, 1.8], unit), [26, 17, 5], normal_density,
        start=0, particles=100,
    )  # fmt: skip
    np.testing.assert_array_equal(slow(np.multiply(theta, unit), seed=4), likelihood(theta, seed=4))
    draws = [
        ergode.pseudo_marginal(one, {"k": (0, 4 * scale)}, draws=20, warmup=30, seed=2)["k"] / scale
        for one, scale in ((likelihood, 1.0), (slow, unit))
    ]
    np.testing.assert_allclose(*draws, rtol=1e-9)


def test_no_chain_stays_at_a_maximum_that_does_not_matter():
    """The wider one, in which most chains begin, has a share of exp(-57)."""

    def two(theta, seed):
        narrow = stats.norm.logpdf(theta[:, 0], 1.0, 0.02)
        return np.logaddexp(narrow, stats.norm.logpdf(theta[:, 0], 8.0, 0.5) - 60)

    found = ergode.pseudo_marginal(two, {"x": (0, 10)}, draws=300, warmup=300, chains=20, seed=1)
    assert abs(found["x"].values - 1).max() < 0.2 and found.attrs["r_hat"] < 1.05
    assert found["x"].values.std() == pytest.approx(0.02, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_posterior_that_bends_is_not_told_too_narrow(noise):
    """y = x^2 + 0.1 N(0, 1), x = N(0, 1), with as many steps as by default; 6 % are noticed."""

    def bent(theta, seed):
        x, y = theta.T
        error = noise * np.random.default_rng(seed).standard_normal(len(x)) - noise**2 / 2
        return stats.norm.logpdf(x) + stats.norm.logpdf(y, x**2, 0.1) + error

    found = ergode.pseudo_marginal(bent, {"x": (-10, 10), "y": (-5, 25)}, chains=400, seed=1)
    assert float(found["x"].std()) == pytest.approx(1, rel=0.02)
    assert float(found["y"].std()) == pytest.approx(np.sqrt(2.01), rel=0.045)
    assert found.attrs["r_hat"] < 1.03


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"times": [1, 1, 2]}, ModelError, "times must ascend"),
        ({"observed": [1, 2]}, ModelError, "expected a row for each of 3 times"),
        ({"start": 0.7}, ModelError, "start is 0.7, after"),
        ({"initial": {}}, ModelError, "expected a number for each state"),
        ({"initial": {"Y": 3}}, ModelError, "'Y'"),
        ({"log_density": lambda *given: 0.0}, PlanError, "expected that of a state"),
        ({"log_density": 3}, ModelError, "log_density is 3"),
        ({"particles": 1}, PlanError, "particles is 1"),
    ],
)  # fmt: skip
def test_what_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        deaths(**changes)([[1.0]])


def test_what_samplers_refuse_and_tell():
    with pytest.raises(ModelError, match="no argument 'initial'"):
        ergode.particle_likelihood(
            lambda parameters: None, ["k"], {"X": 1}, [0, 1], [1, 1], normal_density
        )
    impossible = deaths(log_density=lambda seen, states, _: np.full(states["X"].shape, -np.inf))
    with pytest.raises(PlanError, match="none of 80 draws of the prior"):
        ergode.pseudo_marginal(impossible, {"k": (0, 4)})
    with pytest.raises(PlanError, match="no search found"):
        ergode.iterated_filtering(impossible, {"k": (0, 4)}, iterations=2)
    with pytest.raises(ModelError, match=r"expected what ergode\.particle_likelihood returns"):
        ergode.iterated_filtering(lambda theta: theta, {"k": (0, 4)})
    with pytest.raises(ModelError, match="no distribution of 'k'"):
        ergode.pseudo_marginal(deaths(), {"q": (0, 4)})

    def rough(theta, seed):
        return 5 * np.random.default_rng(seed).standard_normal(len(theta))

    with pytest.warns(ergode.AccuracyWarning, match="take more particles"):
        ergode.pseudo_marginal(rough, {"x": (0, 1)}, draws=200, warmup=20)
    with pytest.warns(ergode.AccuracyWarning, match="the chains do not agree"):
        ergode.pseudo_marginal(
            lambda theta, seed: 2_000 * np.abs(theta[:, 0] - 0.5), {"x": (0, 1)}, draws=50, chains=8
        )
