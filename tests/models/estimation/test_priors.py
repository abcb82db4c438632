"""Priors: their moments and densities against SciPy; what cannot be is refused."""

import numpy as np
import pytest
from scipy import stats

import ergode
from ergode.core.errors import ModelError

COVARIANCE = [[2.0, 0.6], [0.6, 1.0]]


def test_a_gaussian_is_what_scipy_says():
    points = np.random.default_rng(1).normal(size=(50, 2))
    mine = ergode.Gaussian([1.0, -1.0], COVARIANCE).log_density(points)
    theirs = stats.multivariate_normal([1.0, -1.0], COVARIANCE).logpdf(points)
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_names_put_components_in_order():
    one = ergode.Gaussian({"y": 2.0, "x": 1.0}, {"x": 3.0, "y": 4.0}).by_name(["x", "y"])
    np.testing.assert_array_equal(one.mean, [1.0, 2.0])
    np.testing.assert_array_equal(one.covariance, np.diag([3.0, 4.0]))


def test_a_mixture_has_the_moments_of_its_samples():
    mixture = ergode.Mixture(
        [1, 3], [ergode.Gaussian([0.0, 0.0], COVARIANCE), ergode.Gaussian([4.0, 1.0], [1.0, 1.0])]
    )
    rng, total = np.random.default_rng(2), 400_000
    heavy = rng.random(total) < 0.75
    drawn = np.where(
        heavy[:, None], rng.normal([4.0, 1.0], 1.0, (total, 2)),
        rng.multivariate_normal([0.0, 0.0], COVARIANCE, total),
    )  # fmt: skip
    np.testing.assert_allclose(mixture.mean, drawn.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(mixture.covariance, np.cov(drawn.T), atol=0.05)
    points = drawn[:20]
    each = [
        stats.multivariate_normal([0.0, 0.0], COVARIANCE).pdf(points),
        stats.multivariate_normal([4.0, 1.0], np.eye(2)).pdf(points),
    ]
    density = 0.25 * each[0] + 0.75 * each[1]
    np.testing.assert_allclose(mixture.log_density(points), np.log(density), rtol=1e-10)


def test_several_side_by_side():
    several = ergode.Gaussian([[0.0, 1.0], [2.0, 1.0]], [0.5, 0.25]).each
    assert [one.mean.tolist() for one in several] == [[0.0, 1.0], [2.0, 1.0]]
    np.testing.assert_array_equal(several[1].covariance, np.diag([0.5, 0.25]))


@pytest.mark.parametrize(
    ("mean", "covariance", "message"),
    [
        ([0, 1], [1.0], "shape"), ([0, 1], [1.0, -1.0], "positive definite"),
        ([0, 1], [[1.0, 2.0], [0.0, 1.0]], "symmetric"), ([0, np.nan], [1.0, 1.0], "finite"),
        ({"x": 0}, {"y": 1}, "different variables"), ("a", [1.0], "mean"),
    ],
)  # fmt: skip
def test_what_is_no_gaussian(mean, covariance, message):
    with pytest.raises(ModelError, match=message):
        ergode.Gaussian(mean, covariance)


def test_what_is_no_mixture():
    one = ergode.Gaussian([0.0], [1.0])
    for weights, parts in (([1], []), ([1, -1], [one, one]), ([1, 1], [one, 3])):
        with pytest.raises(ModelError):
            ergode.Mixture(weights, parts)
