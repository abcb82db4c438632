"""Sums of Gaussian cells against exact answers, and where noise is too strong for them."""

import numpy as np
import pytest
from density_cases import LINEAR, first
from scipy.linalg import expm

import ergode
from ergode.core import kernels
from ergode.density import choice, views
from ergode.density.flow import carrier, gaussians, points, sums
from ergode.density.grid.lattice import DIMENSION, Frame
from ergode.density.noise import Noise

DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])
A = np.array([[-0.3, -2.0], [1.5, 0.1]])
SHIFT = np.array([1e4, -2e4])  # 1e4 deviations in a unit of time
Q = np.array([[0.3, 0.1], [0.1, 0.2]])
PUSH = np.array([[0.2, -0.1], [-0.1, 0.3]])
JUMP = np.array([3.0, -40.0])


def propagate(prior, times, unit=1.0, shift=SHIFT, noise=Q, **options):
    values = dict(zip("abcdef", (*np.ravel(A), *(shift * unit)), strict=True))
    settings = {"device": "cpu:2", "keep": "none"} | options
    noise = noise if callable(noise) else noise * unit**2
    return ergode.density.propagate(
        LINEAR, prior, times=times, parameters=values, process_noise=noise, **settings
    )


def carried(mean, covariance, time):
    """Mean and covariance of the linear system with its noise (van Loan's exponential)."""
    whole = expm(time * np.block([[A, SHIFT[:, None]], [np.zeros((1, 3))]]))
    move = whole[:2, :2]
    block = expm(time * np.block([[-A, Q], [np.zeros((2, 2)), A.T]]))
    return move @ mean + whole[:2, 2], move @ covariance @ move.T + move @ block[:2, 2:]


@DEVICES
@pytest.mark.parametrize("unit", [1.0, 2.0**20, 2.0**-20])
def test_a_linear_system_is_that_of_kalman(unit, device):
    """Noise, a jump with a covariance, measurements near and far, 1e4 deviations of distance."""
    mean, covariance = np.array([1.0, 0.5]), np.array([[1.0, 0.3], [0.3, 0.5]])
    prior = ergode.Gaussian(mean * unit, covariance * unit**2)
    seen, evidences, now = [], [], 0.0
    for time, away, variance in ((0.5, 0.7, 1.0), (1.0, -7.0, 0.25), (1.4, 1.0, 0.003)):
        mean, covariance = carried(mean, covariance, time - now)
        if time == 1.0:
            mean, covariance = mean + JUMP, covariance + PUSH
        now, spread = time, covariance[0, 0] + variance
        value = mean[0] + away * np.sqrt(spread)
        seen.append(ergode.Measurement(time, first, value * unit, variance * unit**2))
        evidences.append(-0.5 * (away**2 + np.log(2 * np.pi * spread * unit**2)))
        gain = covariance[:, 0] / spread
        mean = mean + gain * (value - mean[0])
        covariance = covariance - spread * np.outer(gain, gain)
    mean, covariance = carried(mean, covariance, 0.6)
    found = propagate(
        prior, [0.0, 2.0], unit, measurements=seen, device=device,
        maneuvers=[ergode.Maneuver(1.0, JUMP * unit, PUSH * unit**2)],
    )  # fmt: skip
    assert found.attrs["method"] == "flow" and "weak noise" in found.attrs["method_reason"]
    deviation = np.sqrt(np.diag(covariance))
    assert np.abs((found["mean"].values[-1] / unit - mean) / deviation).max() < 0.01
    ratio = found["covariance"].values[-1] / unit**2 / np.outer(deviation, deviation)
    assert np.abs(ratio - covariance / np.outer(deviation, deviation)).max() < 0.003
    assert np.allclose(found["log_evidence"], evidences, atol=0.01)
    assert np.isnan(float(found["unreliable_from"]))


def test_a_mixture_and_a_bank():
    """Each component and each density has cells of its own; parts are as the whole."""
    still = np.zeros(2)
    wide = ergode.Gaussian([5.0, 1.0], [1.0, 2.0])
    heaps = [
        ergode.Mixture([1, 3], [ergode.Gaussian([-9.0, k], [0.1, 0.1]), wide]) for k in (0.0, 2.0)
    ]
    both = propagate(heaps, [0.0, 1.0], shift=still)
    move = expm(A)
    block = expm(np.block([[-A, Q], [np.zeros((2, 2)), A.T]]))
    for which, prior in enumerate(heaps):
        exact = move @ prior.covariance @ move.T + move @ block[:2, 2:]
        assert np.allclose(both["mean"][which, -1], move @ prior.mean, atol=2e-3)
        assert np.allclose(both["covariance"][which, -1], exact, atol=2e-3 * exact.max())
    one = propagate(heaps[1:], [0.0, 1.0], shift=still)
    assert np.array_equal(one["mean"].values[0], both["mean"].values[1])


def test_parts_have_the_choice_of_the_whole(monkeypatch):
    """It is made once."""
    made = []
    bend_of = choice.bend_of
    monkeypatch.setattr(choice, "bend_of", lambda *given: made.append(1) or bend_of(*given))
    priors = [ergode.Gaussian([k, 0.5], [1.0, 0.5]) for k in range(5)]
    whole = propagate(priors, [0.0, 1.0])
    parts = propagate(priors, [0.0, 1.0], chunk=2)
    assert np.array_equal(whole["covariance"].values, parts["covariance"].values)
    assert parts.attrs["method"] == "flow" and len(made) == 2


def test_cells_are_drawn_as_gaussians():
    found = propagate(ergode.Gaussian([1.0, 0.5], [1.0, 0.5]), [0.0, 1.0], keep="all")
    mean, covariance = carried(np.array([1.0, 0.5]), np.diag([1.0, 0.5]), 1.0)
    cells = views.cells_at(found, 1.0)
    assert float(cells["mass"].sum()) == pytest.approx(1.0)
    for name, variance, middle in zip("xy", np.diag(covariance), mean, strict=True):
        one = views.marginal(cells, name)
        x = one[name].values
        exact = np.exp(-0.5 * (x - middle) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
        assert 0.5 * np.abs(one.values - exact).sum() * (x[1] - x[0]) < 0.02


# With the six parameters of `LINEAR`, and so with its kernels.
OSCILLATOR = ergode.VectorField(
    lambda t, y, p: (y[1], p[0] * (1.0 - y[0] * y[0]) * y[1] - y[0]),
    LINEAR.variables,
    list("abcdef"),
)


def van_der_pol(noise, **options):
    return ergode.density.propagate(
        OSCILLATOR, ergode.Gaussian([1.5, 0.5], [0.04, 0.04]), times=[0, 1, 2, 4],
        parameters=dict.fromkeys("abcdef", 0.5), process_noise=[noise, noise],
        measurements=[ergode.Measurement(1.0, first, 1.4, 0.01)],
        **{"keep": "none", "device": "cpu:2", **options},
    )  # fmt: skip


def test_strong_noise_gets_a_grid_and_is_told():
    found = van_der_pol(0.3)
    assert found.attrs["method"] == "split"
    assert "deviations off drawn points" in found.attrs["method_reason"]
    with pytest.warns(ergode.AccuracyWarning, match=r"on: means, deviations .* within 0\.\d+ of"):
        asked = van_der_pol(0.3, scheme="flow")
    assert float(asked["unreliable_from"]) <= 4.0


def plain_lorenz(q, times, count=100_000, steps=200):
    """Means and deviations [time, variable] of points in NumPy, by Heun's steps."""
    random = np.random.default_rng(5)
    x, y, z = random.normal(np.array([-11.5, -10.0, 9.5])[:, None], 1.0, (3, count))
    rows = [(x, y, z)]
    for begin, end in zip(times, times[1:], strict=False):
        h = (end - begin) / steps
        for _ in range(steps):
            kick = np.sqrt(q * h) * random.standard_normal((3, count))
            a = 4.0 * (y - x), -y - x * z, -(z + 48.0) + x * y
            u, v, w = (
                one + h * slope + by for one, slope, by in zip((x, y, z), a, kick, strict=True)
            )
            b = 4.0 * (v - u), -v - u * w, -(w + 48.0) + u * v
            x, y, z = (
                one + 0.5 * h * (first + last) + by
                for one, first, last, by in zip((x, y, z), a, b, kick, strict=True)
            )
        rows.append((x, y, z))
    return np.mean(rows, axis=2), np.std(rows, axis=2)


@pytest.mark.slow
def test_lorenz_with_noise_is_right_by_default():
    """Cells bend by .6 deviations if they feel no curvature, and yet the sum is good."""
    times = [0.0, 0.5, 1.0]
    found = ergode.density.propagate(
        ergode.fields.lorenz63(centred=True), ergode.Gaussian([-11.5, -10.0, 9.5], np.ones(3)),
        times=times, parameters={"sigma": 4, "b": 1, "r": 48}, process_noise=[0.1, 0.1, 0.1],
        device="cpu:2", keep="none",
    )  # fmt: skip
    mean, deviation = plain_lorenz(0.1, times)
    assert found.attrs["method"] == "flow"
    assert np.abs((found["mean"].values - mean) / deviation).max() < 0.025
    own = np.sqrt(np.diagonal(found["covariance"].values, axis1=1, axis2=2))
    assert np.abs(own / deviation - 1).max() < 0.02
    assert np.isnan(float(found["unreliable_from"]))


@DEVICES
@pytest.mark.slow
def test_weak_noise_of_a_nonlinear_field_is_that_of_a_million_particles(device):
    found = van_der_pol(0.001, device=device)
    assert found.attrs["method"] == "flow"
    exact = ergode.particles.propagate(
        ergode.fields.van_der_pol(), ergode.Gaussian([1.5, 0.5], [0.04, 0.04]),
        times=[0, 1, 2, 4], parameters={"damping": 0.5}, process_noise=[0.001, 0.001],
        measurements=[ergode.Measurement(1.0, first, 1.4, 0.01)], count=1_000_000, seed=3,
        step=0.02, keep="none", device=device,
    )  # fmt: skip
    deviation = np.sqrt(np.diagonal(exact["covariance"].values, axis1=1, axis2=2))
    away = np.abs(found["mean"].values - exact["mean"].values) / deviation
    own = np.sqrt(np.diagonal(found["covariance"].values, axis1=1, axis2=2))
    assert away.max() < 0.02 and np.abs(own / deviation - 1).max() < 0.02
    assert float(found["log_evidence"][0]) == pytest.approx(
        float(exact["log_evidence"][0]), abs=0.02
    )


@pytest.mark.parametrize("size", [2, 7])
def test_cells_of_a_mixture_have_its_moments(size):
    """Components of unequal widths, each with cells of its own."""
    parts = [
        ergode.Gaussian(np.full(size, 4.0 * k), np.diag(np.arange(1.0, 1 + size)) * (1 + 3 * k))
        for k in range(2)
    ]
    prior = ergode.Mixture([0.25, 0.75], parts)
    start = points.wide_start_of(prior, None, points.CUT)
    weights = np.exp(start.log_weights)
    means, columns = np.split(carrier._states(start), [size], axis=1)
    own = np.einsum("p,pki,pkj->ij", weights, *2 * [columns.reshape(-1, size, size)])
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-9)
    np.testing.assert_allclose(weights @ means, prior.mean, atol=0.01)
    own += np.cov(means.T, aweights=weights, ddof=0)
    np.testing.assert_allclose(own, prior.covariance, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("kind", ["samples", "function"])
def test_priors_that_are_no_gaussians_keep_their_moments(kind):
    random = np.random.default_rng(1)
    mean, covariance = np.array([1.0, 0.5]), np.array([[1.0, 0.3], [0.3, 0.5]])
    if kind == "samples":
        prior = ergode.Samples(random.multivariate_normal(mean, covariance, 400))
        mean, covariance = prior.mean, prior.covariance
    else:
        prior = ergode.Density(
            lambda x: -0.5 * np.einsum(
                "pi,pi->p", (x - mean) @ np.linalg.inv(covariance), x - mean
            ), mean, covariance,
        )  # fmt: skip
    found = propagate(prior, [0.0, 1.0], scheme="flow")
    mean, covariance = carried(mean, covariance, 1.0)
    assert np.abs(found["mean"].values[-1] - mean).max() < 0.01
    np.testing.assert_allclose(found["covariance"].values[-1], covariance, atol=0.01)


def test_noise_by_a_function_without_a_slope_is_that_of_a_matrix():
    """Of a smoother, whose cells also go without noise."""
    seen = ergode.Measurement(0.5, first, 2.0, 0.1)
    own, plain = (
        propagate(
            ergode.Gaussian([1.0, 0.5], [1.0, 0.5]), [0.0, 0.25, 1.0], shift=np.zeros(2),
            noise=noise, measurements=[seen], smooth=True, scheme="flow",
        ) for noise in (level, Q)
    )  # fmt: skip
    for name in ("mean", "covariance", "log_evidence"):
        np.testing.assert_allclose(own[name], plain[name], rtol=1e-8, atol=1e-8)


def level(t, y, p):
    return 0.3, 0.1, 0.1, 0.2


def test_a_gaussian_likelihood_that_is_written_out_is_the_same():
    """Of densities side by side: near, in the tail, and as thin as a hundredth of a cell."""
    priors = [ergode.Gaussian([k, 0.5], [1.0, 0.5]) for k in (0.4, 4.0)]
    still = np.zeros(2)
    for likelihood, variance in ((wide_likelihood, 0.5), (thin_likelihood, 1e-5)):
        plain, own = (
            propagate(
                priors, [0.0, 0.1], shift=still, measurements=[one], scheme="flow"
            ) for one in (
                ergode.Measurement(0.1, first, 0.5, variance),
                ergode.Measurement(0.1, likelihood=likelihood),
            )
        )  # fmt: skip
        for name in ("mean", "covariance"):
            np.testing.assert_allclose(own[name], plain[name], rtol=1e-6, atol=1e-8)
        constant = 0.5 * np.log(2 * np.pi * variance)
        evidence = plain["log_evidence"].values + constant
        np.testing.assert_allclose(own["log_evidence"], evidence, rtol=1e-6, atol=1e-6)


def wide_likelihood(y, t, p):
    return (-(y[0] - 0.5) * (y[0] - 0.5),)


def thin_likelihood(y, t, p):
    return (-5e4 * (y[0] - 0.5) * (y[0] - 0.5),)


def shaken(t, y, p):
    return 0.1 + y[0] * y[0], 0.1 * y[0], 0.1 * y[0], 0.2


def test_its_cuda_kernels_compile():
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    size, count = 2, 8
    one, log, square = np.zeros((1, size)), np.zeros((1, count)), np.zeros((size, size))
    states = np.zeros((size * (1 + size), 1, count))
    frame = Frame(one, one, np.eye(size)[None], np.zeros((1, 6)), one, one)
    follow = (
        0, count, count, 0.0, 1.0, np.zeros(1), one, square, np.zeros(3), frame, states, log,
        log, log, log,
    )  # fmt: skip
    shaking = Noise(None, shaken, is_crossed=True)
    kernel = carrier.kernel_of(
        LINEAR, "float64", "cuda", True, lambda y, t, p: (y[0] * y[0],), noise=shaking
    )
    cuda.ptx(kernel.compiled("cuda"), follow, optimized=False)
    whole, signs, summit = np.zeros(3, np.int64), np.ones(count, np.int8), np.zeros((1, 1 + size))
    out = np.zeros((1, 3, 2, 1))
    add_up = 0, 3, count, 1, whole, whole, summit, signs, signs, states, log, out
    bindings = {gaussians.WIDE: True, DIMENSION: size, sums.PERIODS: (0.0, 6.0)}
    kernel = kernels.for_each(sums.add_up, bindings=bindings)
    cuda.ptx(kernel.compiled("cuda"), add_up, optimized=False)
    turn = kernels.for_each(sums.turn, bindings=bindings)
    cuda.ptx(turn.compiled("cuda"), (0, 1, count, 1, summit, states, log, out), optimized=False)
