"""synthetic_likelihood and ensemble_kalman where the posterior is known."""

import numpy as np
import pytest
from scipy import stats

import ergode
from ergode import ModelError, PlanError

SIGMAS = stats.norm.isf(1e-7)
SLOPES, TARGET = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([0.4, 1.1, 2.3])
LAW = stats.norm(0, 2)


def line(noise=0.3, seed=0, unit=1.0):
    """A line with normal noise; summaries are its values at three places."""

    def call(parameters, seed):
        theta = np.stack([parameters["a"], parameters["b"]], axis=1)
        errors = noise * np.random.default_rng(seed).standard_normal((len(theta), 3))
        return unit * (theta @ SLOPES.T + errors)

    return ergode.simulator(call, ["a", "b"], lambda found: found, seed=seed)


def known_posterior():
    inverse = np.linalg.inv(SLOPES.T @ SLOPES / 0.09 + np.eye(2) / 4)
    return inverse @ SLOPES.T @ TARGET / 0.09, inverse


def test_the_synthetic_likelihood_is_not_biased():
    """Of normal summaries it is the likelihood, whatever the number of simulations."""
    known = stats.norm.logpdf(TARGET, SLOPES @ [0.5, 0.8], 0.3).sum()
    for simulations, most in ((8, 0.15), (100, 0.02)):
        likelihood = ergode.synthetic_likelihood(line(), TARGET, simulations=simulations)
        ratios = np.exp(likelihood(np.tile([0.5, 0.8], (40_000 // simulations, 1))) - known)
        error = ratios.std(ddof=1) / np.sqrt(ratios.size)
        assert abs(ratios.mean() - 1) < SIGMAS * error < most * SIGMAS


def test_units_and_summaries_without_spread():
    one, small = (
        ergode.synthetic_likelihood(line(unit=unit, seed=1), TARGET * unit) for unit in (1.0, 1e-9)
    )
    theta = [[0.5, 0.8], [1.0, 0.0]]
    np.testing.assert_allclose(
        one(theta, seed=2), small(theta, seed=2) + 3 * np.log(1e-9), rtol=1e-9
    )
    fixed = ergode.simulator(
        lambda parameters, seed: np.stack(
            [np.full(len(parameters["a"]), 7.0),
             np.random.default_rng(seed).standard_normal(len(parameters["a"]))], axis=1,
        ), ["a"], lambda found: found,
    )  # fmt: skip
    assert np.isfinite(ergode.synthetic_likelihood(fixed, [7.0, 0.1])([0.5]))
    assert ergode.synthetic_likelihood(fixed, [7.1, 0.1])([0.5]) == -np.inf


def test_chains_on_the_synthetic_likelihood():
    mean, covariance = known_posterior()
    likelihood = ergode.synthetic_likelihood(line(), TARGET, simulations=30)
    found = ergode.pseudo_marginal(
        likelihood, {"a": LAW, "b": LAW}, draws=400, warmup=200, chains=50, seed=1
    )
    for k, name in enumerate("ab"):
        draws = found[name].values
        error = draws.mean(axis=1).std(ddof=1) / np.sqrt(50)
        assert abs(draws.mean() - mean[k]) < SIGMAS * error < 0.05
        assert abs(draws.std() / np.sqrt(covariance[k, k]) - 1) < 0.1


def test_a_kalman_ensemble_of_a_linear_model_is_the_posterior():
    """Whatever the number of steps; simulations with noise of their own are told."""
    mean, covariance = known_posterior()
    found = ergode.ensemble_kalman(
        line(noise=0.0), {"a": LAW, "b": LAW}, TARGET, [0.09] * 3, members=4_000, seed=1
    )
    draws = np.stack([found[name].values[0] for name in "ab"])
    off = np.linalg.solve(np.linalg.cholesky(covariance), draws.mean(axis=1) - mean)
    assert np.abs(off).max() < SIGMAS * 3 / np.sqrt(4_000)
    np.testing.assert_allclose(np.cov(draws), covariance, rtol=0.15)
    assert found.attrs["simulations"] == 4_000 * (found.attrs["iterations"] + 2)
    assert 0.3 < found.attrs["misfit"] < 3
    with pytest.warns(ergode.AccuracyWarning, match="simulations with equal parameters differ"):
        ergode.ensemble_kalman(line(noise=0.3), {"a": LAW, "b": LAW}, TARGET, [0.09] * 3)


def test_kalman_members_that_fail_are_replaced_and_units_do_not_matter():
    def call(parameters, seed):
        made = np.stack([parameters["a"], parameters["a"] + 1e-3], axis=1)
        made[parameters["a"] > 3] = np.nan
        return made

    simulate = ergode.simulator(call, ["a"], lambda found: found)
    found = ergode.ensemble_kalman(simulate, {"a": (0, 4)}, [1.0, 1.0], [1e-4, 1e-4], members=100)
    assert abs(float(found["a"].mean()) - 1) < 0.01
    small = ergode.simulator(
        lambda parameters, seed: 1e-9 * call({"a": parameters["a"] * 1e9}, seed),
        ["a"], lambda found: found,
    )  # fmt: skip
    again = ergode.ensemble_kalman(
        small, {"a": (0, 4e-9)}, [1e-9, 1e-9], [1e-22, 1e-22], members=100
    )
    np.testing.assert_allclose(again["a"] * 1e9, found["a"], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ergode.synthetic_likelihood(line, TARGET), ModelError, "expected what ergode"),
        (lambda: ergode.synthetic_likelihood(line(), [1, np.nan, 2]), ModelError, "finite numbers"),
        (lambda: ergode.synthetic_likelihood(line(), [1.0])([0, 0]), PlanError, "makes 3 summ"),
        (lambda: ergode.synthetic_likelihood(line(), TARGET, simulations=6), PlanError, "is 6"),
        (lambda: kalman(TARGET, [1, 1]), ModelError, "expected 3 variances"),
        (lambda: kalman(TARGET, [1, 1, -1]), ModelError, "positive definite"),
        (lambda: kalman([1, 2], [1, 1]), PlanError, "makes 3 summaries"),
        (lambda: kalman(TARGET + 1e6, [1e-9] * 3, max_iterations=3), PlanError, "data's weight"),
        (lambda: kalman(TARGET, [1] * 3, members=2), PlanError, "members is 2"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def kalman(target, covariance, **options):
    return ergode.ensemble_kalman(
        line(noise=0.0), {"a": LAW, "b": LAW}, target, covariance, **options
    )
