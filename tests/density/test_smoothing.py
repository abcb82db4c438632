"""Densities given all measurements, against exact answers and weighted samples."""

from functools import cache

import numpy as np
import pytest
from density_cases import LINEAR, LORENZ, LORENZ_PARAMETERS, LORENZ_PRIOR, first, third
from scipy.linalg import expm

import ergode

DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])
A = np.array([[-0.3, -2.0], [1.5, 0.1]])
VALUES = dict(zip("abcdef", (*A.ravel(), 0.0, 0.0), strict=True))
SEEN = [(0.5, 0.4, 0.3), (1.0, -1.0, 0.1), (1.4, 0.3, 0.02)]
TIMES = [0.0, 0.5, 0.8, 1.4, 2.0]


def measured(rows):
    return [ergode.Measurement(t, first, value, variance) for t, value, variance in rows]


def at_the_start(mean, covariance):
    """The first state given all measurements: a linear regression."""
    information = np.linalg.inv(covariance)
    right = information @ mean
    for time, value, variance in SEEN:
        row = expm(time * A)[0]
        information = information + np.outer(row, row) / variance
        right = right + row * value / variance
    return np.linalg.solve(information, right), np.linalg.inv(information)


@DEVICES
def test_a_linear_system_has_the_smoother_of_rauch_tung_and_striebel(device):
    mean, covariance = np.array([1.0, 0.5]), np.array([[1.0, 0.3], [0.3, 0.5]])
    for unit in (1.0, 2.0**20):
        found = ergode.density.propagate(
            LINEAR, ergode.Gaussian(mean * unit, covariance * unit**2), times=TIMES,
            parameters=VALUES, smooth=True, device=device,
            measurements=measured([(t, v * unit, r * unit**2) for t, v, r in SEEN]),
        )  # fmt: skip
        begin, spread = at_the_start(mean, covariance)
        for row, time in enumerate(TIMES):
            wide = expm(time * A) @ spread @ expm(time * A).T
            deviation = np.sqrt(np.diag(wide))
            away = found["mean"].values[row] / unit - expm(time * A) @ begin
            assert np.abs(away / deviation).max() < 0.01
            error = found["covariance"].values[row] / unit**2 - wide
            assert np.abs(error / np.outer(deviation, deviation)).max() < 0.01
        assert found.attrs["method"] == "flow" and found.attrs["smoothed"] == 1
        assert "smoothing" in found.attrs["method_reason"]


NOISE = np.array([[0.05, 0.02], [0.02, 0.1]])
SHAKEN = ergode.Maneuver(1.2, [0.3, -0.2], [[0.02, 0.0], [0.0, 0.01]])


def with_noise(mean, covariance, times):
    """Moments of a linear system with noise and a maneuver, given all measurements.

    All states together are one Gaussian, and measurements a regression on it.
    """
    every = np.unique([*times, *(t for t, *_ in SEEN), SHAKEN.time])
    n = 2 * every.size
    middle, whole = np.zeros(n), np.zeros((n, n))
    m, P = mean, covariance
    for k, time in enumerate(every):
        here = slice(2 * k, 2 * k + 2)
        if k:
            step = time - every[k - 1]
            F = expm(step * A)
            both = expm(step * np.block([[-A, NOISE], [np.zeros((2, 2)), A.T]]))
            m, P = F @ m, F @ P @ F.T + F @ both[:2, 2:]
            whole[here, : 2 * k] = F @ whole[2 * k - 2 : 2 * k, : 2 * k]
        if time == SHAKEN.time:
            m, P = m + SHAKEN.change, P + SHAKEN.covariance
        middle[here], whole[here, here] = m, P
        whole[: 2 * k, here] = whole[here, : 2 * k].T
    H = np.zeros((len(SEEN), n))
    H[np.arange(len(SEEN)), 2 * np.searchsorted(every, [t for t, *_ in SEEN])] = 1.0
    S = H @ whole @ H.T + np.diag([r for *_, r in SEEN])
    gain = np.linalg.solve(S, H @ whole).T
    middle = middle + gain @ ([v for _, v, _ in SEEN] - H @ middle)
    whole = whole - gain @ H @ whole
    places = [slice(2 * k, 2 * k + 2) for k in np.searchsorted(every, times)]
    return [(middle[one], whole[one, one]) for one in places]


@DEVICES
def test_a_linear_system_with_noise_and_a_maneuver_has_its_smoother(device):
    mean, covariance = np.array([1.0, 0.5]), np.array([[1.0, 0.3], [0.3, 0.5]])
    prior = ergode.Gaussian(mean, covariance)
    found = ergode.density.propagate(
        LINEAR, prior, times=TIMES, parameters=VALUES, smooth=True, device=device,
        measurements=measured(SEEN), process_noise=NOISE, maneuvers=[SHAKEN],
    )  # fmt: skip
    for row, (middle, wide) in enumerate(with_noise(mean, covariance, TIMES)):
        deviation = np.sqrt(np.diag(wide))
        assert np.abs((found["mean"].values[row] - middle) / deviation).max() < 0.01
        error = found["covariance"].values[row] - wide
        assert np.abs(error / np.outer(deviation, deviation)).max() < 0.01


TWICE = [0.0, 0.25, 0.5, 1.0]


@cache
def lorenz(**options):
    """Lorenz '63, measured at two times."""
    return ergode.density.propagate(
        LORENZ, LORENZ_PRIOR, times=TWICE, parameters=LORENZ_PARAMETERS, scheme="flow",
        measurements=[
            ergode.Measurement(0.5, third, -11.0, 1.0), ergode.Measurement(1.0, first, 6.0, 1.0)
        ],
        **options,
    )  # fmt: skip


@DEVICES
def test_chaos_against_weighted_samples(device):
    found = lorenz(smooth=True, device=device, keep="all")
    draws = np.random.default_rng(3).normal(LORENZ_PRIOR.mean, 1.0, (400_000, 3))
    run = ergode.trajectories.integrate(
        LORENZ, times=TWICE, parameters=LORENZ_PARAMETERS, rtol=1e-6, atol=1e-8,
        initial=dict(zip(LORENZ.variables, draws.T, strict=True)),
    )  # fmt: skip
    states = run["state"].values  # [trajectory, time, variable]
    log = -0.5 * ((states[:, 2, 2] + 11) ** 2 + (states[:, 3, 0] - 6) ** 2)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    effective = 1 / (weight**2).sum()
    for row in range(4):
        mean = weight @ states[:, row]
        wide = (weight[:, None] * (states[:, row] - mean)).T @ (states[:, row] - mean)
        deviation = np.sqrt(np.diag(wide))
        bound = 0.01 + 5 / np.sqrt(effective)
        assert np.abs((found["mean"].values[row] - mean) / deviation).max() < bound
        found_deviation = np.sqrt(np.diagonal(found["covariance"].values[row]))
        assert np.abs(found_deviation / deviation - 1).max() < bound


def test_the_filter_and_the_smoother_agree_after_the_last_measurement():
    smooth, plain = (lorenz(smooth=one, device="cpu:2", keep="all") for one in (True, False))
    # Paths of the smoother stop at all times: they differ by the errors of their steps.
    deviation = np.sqrt(np.diag(plain["covariance"][-1]))
    assert np.abs((smooth["mean"][-1] - plain["mean"][-1]) / deviation).max() < 1e-4
    assert np.array_equal(smooth["log_evidence"], plain["log_evidence"])
    assert np.trace(smooth["covariance"][0]) < 0.9 * np.trace(plain["covariance"][0])
    # The cells of the result are those of the smoother too.
    cells = ergode.density.cells_at(smooth, time=0.25)
    away = cells["mass"].values @ cells["point"].sel(variable="z").values
    assert away == pytest.approx(float(smooth["mean"][1, 2]), abs=0.05)


def test_each_density_of_a_bank_is_that_of_a_call_alone():
    mean, covariance = np.array([1.0, 0.5]), np.array([[1.0, 0.3], [0.3, 0.5]])
    seen = ergode.Measurement(1.4, first, np.array([[0.3], [2.5]]), 0.02)
    options = {"times": TIMES, "parameters": VALUES, "smooth": True, "keep": "none"}
    prior = ergode.Gaussian(mean, covariance)
    kick = ergode.Maneuver(0.7, [0.5, -0.2])
    both = ergode.density.propagate(LINEAR, prior, measurements=[seen], maneuvers=[kick], **options)
    for which, value in enumerate((0.3, 2.5)):
        alone = ergode.density.propagate(
            LINEAR, prior, measurements=[ergode.Measurement(1.4, first, value, 0.02)],
            maneuvers=[kick], **options,
        )  # fmt: skip
        assert np.array_equal(both["mean"][which], alone["mean"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheme": "split"}, "forgets where mass came from"),
        ({"region": lambda y, t, p: (y[0],)}, "without walls"),
        ({"measurements": []}, "no effect without measurements"),
    ],
)
def test_what_cannot_be_smoothed_is_refused(options, said):
    settings = {"measurements": measured(SEEN[:1]), "smooth": True} | options
    with pytest.raises(ergode.PlanError, match=said):
        ergode.density.propagate(
            LINEAR,
            ergode.Gaussian([1.0, 0.5], [1.0, 0.5]),
            times=[0, 1],
            parameters=VALUES,
            **settings,
        )
