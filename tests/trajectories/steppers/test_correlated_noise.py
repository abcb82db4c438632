"""Correlated Wiener processes: increments, orders, laws and refusals."""

import math
import pickle

import numpy as np
import pytest

import ergode
from ergode.models.fields.correlation import mixture_of
from ergode.trajectories import Maximum, integrate

RHO = [[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]]
NAMES = ["a", "b", "c"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def still(t, y, p):
    return 0.0, 0.0, 0.0


def unit(t, y, p):
    return 1.0, 1.0, 1.0


def grows(t, y, p):
    return 0.1 * y[0], -0.2 * y[1], 0.0


def own(t, y, p):
    return 0.5 * y[0], 0.4 * y[1], 0.3 * y[2]


def first(y, t, p):
    return (y[0],)


WALK = ergode.VectorField(still, NAMES, diffusion=unit, correlation=RHO)
FREE = ergode.VectorField(still, NAMES, diffusion=unit)
GROWTH = ergode.VectorField(grows, NAMES, diffusion=own, correlation=RHO)


def paths(field, count, **options):
    start = dict.fromkeys(NAMES, 1.0)
    common = {"times": [0, 1], "initial": start, "replicates": count, "seed": 5, "device": "cpu"}
    return integrate(field, **{**common, **options})["state"].values - (
        1.0 if field is not GROWTH else 0.0
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options", [{}, {"observables": [Maximum("a")]}], ids=["together", "apart"]
)
@pytest.mark.parametrize("method", ["euler-maruyama", "milstein", "sra1"])
def test_increments_are_mixtures_of_independent_ones(method, options, device):
    common = {"step": 0.25, "method": method, "device": device, "times": np.linspace(0, 1, 5)}
    mixed, free = (paths(field, 50, **common, **options) for field in (WALK, FREE))
    np.testing.assert_allclose(mixed, free @ np.array(mixture_of(WALK.correlation)).T, atol=1e-13)


def test_the_covariance_is_that_of_the_equation():
    """20,000 paths; errors of a sample covariance at a family-wise level of 1e-6."""
    count = 20_000
    end = paths(WALK, count, step=1.0)[:, -1]
    error = 5.6 * np.sqrt((1.0 + np.array(RHO) ** 2) / count)
    assert (np.abs(np.cov(end.T) - RHO) < error).all()


@pytest.mark.parametrize(("method", "order"), [("euler-maruyama", 0.5), ("milstein", 1.0)])
def test_strong_order(method, order):
    """Geometric Brownian motion, whose solution depends on its own process alone."""
    count, finest = 2000, 256
    walk = paths(WALK, count, step=1 / finest, method="euler-maruyama")[:, -1]
    drift, noise = np.array([0.1, -0.2, 0.0]), np.array([0.5, 0.4, 0.3])
    exact = np.exp(drift - noise**2 / 2 + noise * walk)
    errors = []
    for n in (8, 32):
        found = paths(GROWTH, count, step=1 / n, method=method, noise_per_step=finest // n)
        errors.append(np.sqrt(np.mean((found[:, -1] - exact) ** 2)))
    assert abs(math.log2(errors[0] / errors[1]) / 2 - order) < 0.15


def test_one_process_in_several_variables():
    rho = np.ones((3, 3))
    rho[:2, 2] = rho[2, :2] = -1.0
    one = ergode.VectorField(still, NAMES, diffusion=unit, correlation=rho)
    end = paths(one, 20, step=0.5)
    np.testing.assert_allclose(end[..., 0], end[..., 1], atol=1e-15)
    np.testing.assert_allclose(end[..., 0], -end[..., 2], atol=1e-15)


def test_independence_changes_nothing():
    same = ergode.VectorField(still, NAMES, diffusion=unit, correlation=np.eye(3))
    assert same.correlation is None and same.digest == FREE.digest != WALK.digest
    assert pickle.loads(pickle.dumps(WALK)).digest == WALK.digest
    texts = ergode.field_from_equations(
        dict.fromkeys(NAMES, "0.0"), [], dict.fromkeys(NAMES, "1.0"), RHO
    )
    np.testing.assert_array_equal(paths(texts, 5, step=0.5), paths(WALK, 5, step=0.5))


def test_filters_of_correlated_noise():
    prior = ergode.Gaussian([1.0, 1.0, 1.0], [0.1, 0.1, 0.1])
    seen = [ergode.Measurement(1.0, first, 2.5, 0.2)]
    options = {"times": [0, 1], "measurements": seen, "device": "cpu"}
    found = ergode.particles.unscented_kalman(WALK, prior, **options)
    before = np.array(RHO) + 0.1 * np.eye(3)
    gain = before[:, 0] / (before[0, 0] + 0.2)
    np.testing.assert_allclose(found["mean"].values[-1], 1.0 + 1.5 * gain, atol=1e-9)
    cloud = ergode.particles.propagate(WALK, prior, count=20_000, seed=3, step=0.5, **options)
    assert (np.abs(cloud["mean"].values[-1] - found["mean"].values[-1]) < 0.05).all()
    with pytest.raises(ergode.ModelError, match="correlated; give a density a matrix"):
        ergode.density.propagate(WALK, prior, times=[0, 1], device="cpu")


@pytest.mark.parametrize(
    ("rho", "message"),
    [
        (np.eye(2), r"shape \(2, 2\); expected \(3, 3\)"),
        (2 * np.eye(3), "outside of -1 to 1"),
        (np.full((3, 3), np.nan), "not finite"),
        (0.5 * np.eye(3), "correlation has the diagonal .* expected ones"),
        ([[1, 0.5, 0], [0, 1, 0], [0, 0, 1]], "not symmetric"),
        ([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]], "not positive semi-definite"),
        ("high", "expected a matrix of numbers"),
    ],
)
def test_refusals(rho, message):
    with pytest.raises(ergode.ModelError, match=message):
        ergode.VectorField(still, NAMES, diffusion=unit, correlation=rho)


def test_correlation_needs_noise():
    with pytest.raises(ergode.ModelError, match="correlation is for a field with diffusion"):
        ergode.VectorField(still, NAMES, correlation=RHO)
