"""Noise against theory: super-steps, noise that depends on state and time; what may be lost."""

import numpy as np
import pytest
from density_cases import first, on_plane
from scipy.integrate import solve_ivp

import ergode
from ergode.core.errors import ModelError, PlanError
from ergode.density import views
from ergode.density.runner import CPURunner
from ergode.density.transport import diffusion

NOWHERE = np.zeros((2, 2))
PULL, FLOOR, SLOPE = 1.0, 0.2, 0.3
NAMES = ["pull", "floor", "slope"]
VALUES = dict(zip(NAMES, (PULL, FLOOR, SLOPE), strict=True))


def pull(t, y, p):
    return (-p[0] * y[0],)


def in_the_day(t, y, p):
    return ((p[1] + p[2] * y[0] * y[0]) * (1 + 0.5 * t),)


def amplitude(t, y, p):
    return ((p[1] + p[2] * y[0] * y[0]) ** 0.5,)


FIELD = ergode.VectorField(pull, ["x"], NAMES)
STOCHASTIC = ergode.VectorField(pull, ["x"], NAMES, diffusion=amplitude)
PRIOR = ergode.Gaussian([1.0], [0.04])


def second_moment(times, grows):
    """Of dx = -pull x dt + sqrt(floor + slope x^2) dW, the variance in the root times 1 + t / 2."""

    def change(t, m):
        return -2 * PULL * m + (FLOOR + SLOPE * m) * (1 + 0.5 * t * grows)

    return solve_ivp(change, times[[0, -1]], [1.04], t_eval=times, rtol=1e-10).y[0]


def test_heat_in_few_steps():
    """Without a field a Gaussian widens; a super-step does what dozens of Euler's would."""
    Q = np.array([0.5, 0.1])
    prior = ergode.Gaussian([0.3, -0.2], [0.04, 0.04])
    errors = []
    for width in (0.05, 0.025):
        result = on_plane(
            NOWHERE, (0, 0), prior, [0, 1], process_noise=Q, width=width, threshold=1e-10
        )
        euler = Q.sum() / width**2
        assert result.attrs["steps"] < 0.1 * euler
        cells = views.cells_at(result)
        variance = 0.04 + Q
        away = cells["point"].values - prior.mean
        exact = np.exp(-0.5 * (away**2 / variance).sum(1)) * width**2
        exact /= 2 * np.pi * np.sqrt(variance.prod())
        errors.append(np.abs(cells["mass"].values - exact).sum())
        assert np.allclose(result["covariance"][-1], np.diag(variance), rtol=1e-5, atol=1e-9)
        balance = result["mass_kept"] + result["mass_pruned"] + result["mass_out"] - 1
        assert np.abs(balance).max() < 1e-12
    assert errors[1] < 1e-3
    assert np.log2(errors[0] / errors[1]) > 1.9


def test_stages_are_stable():
    """A super-step of any length damps every wave; Euler's steps beyond their bound do not."""
    for length in (0.1, 0.25, 0.26, 1.0, 2.5, 2.6, 7.0, 20.0, 59.0):
        n = diffusion.stages_of(length)
        assert n % 2 == 1 and (n == 1) == (length <= 0.25)
        for z in np.linspace(0, 2 * length, 101):  # minus the step times an eigenvalue of L
            before, latest = 1.0, 1.0 - z * diffusion.share_of_first(n)
            for j in range(2, n + 1):
                w = 4 / (n * n + n - 2)
                m = (2 * j - 1) / j * diffusion.weight(j) / diffusion.weight(j - 1)
                v = -(j - 1) / j * diffusion.weight(j) / diffusion.weight(j - 2)
                late = m * latest + v * before + 1 - m - v
                late += -z * m * w * (latest - (1 - diffusion.weight(j - 1)))
                before, latest = latest, late
            assert abs(latest) <= 1 + 1e-12
            if z < 0.5:
                assert abs(latest - np.exp(-z)) < (0.6 * z**2 if n == 1 else 0.2 * z**3) + 1e-12


def test_noise_of_state_and_time():
    times = np.array([0.0, 0.5, 1.0, 2.0])
    mean, second = np.exp(-PULL * times), second_moment(times, grows=1)
    errors = []
    for width in (0.1, 0.05):
        result = ergode.density.propagate(
            FIELD, PRIOR, times=times, parameters=VALUES, process_noise=in_the_day, width=width,
            threshold=1e-11, device="cpu:1",
        )  # fmt: skip
        assert np.allclose(result["mean"][:, 0], mean, atol=5e-4)
        errors.append(np.abs(result["covariance"][:, 0, 0] - (second - mean**2)).max())
    assert errors[1] < 1e-3
    assert errors[0] > 2.5 * errors[1]


def test_how_room_is_made_changes_nothing(monkeypatch):
    """Where a step had no room for its cells it is taken again, as if it had not been tried."""
    found = []
    for least in (1 << 5, 1 << 12):
        monkeypatch.setattr(CPURunner, "cells_least", least)
        found.append(
            ergode.density.propagate(
                FIELD, ergode.Gaussian([0.5], [1e-4]), times=[0, 1.0], parameters=VALUES,
                process_noise=in_the_day, width=0.012, threshold=1e-11, device="cpu:1",
            )
        )  # fmt: skip
    one, two = found
    assert int(one["cell_count"][0]) < 100 < int(one["cell_count"][-1])
    for name in one.data_vars:
        assert np.array_equal(one[name], two[name], equal_nan=True), name


def test_diffusion_of_the_field_and_mass_to_retain():
    """What is lost is never more than was allowed, whatever the measurements; errors follow."""
    times = np.array([0.0, 0.5, 1.0])
    options = {"parameters": VALUES, "width": 0.05, "device": "cpu:1"}
    mean, second = np.exp(-PULL * times), second_moment(times, grows=0)
    cells = []
    for lost in (1e-3, 1e-5):
        result = ergode.density.propagate(
            STOCHASTIC, PRIOR, times=times, retained=1 - lost, **options
        )
        assert float(result["mass_lost"][-1]) <= lost
        assert np.allclose(result["mean"][:, 0], mean, atol=2 * lost + 2e-4)
        variance = second - mean**2
        assert np.allclose(result["covariance"][:, 0, 0], variance, atol=6 * lost + 2e-4)
        cells.append(int(result["cell_count"][-1]))
        seen = ergode.density.propagate(
            STOCHASTIC, PRIOR, times=times, retained=1 - lost, **options,
            measurements=[ergode.Measurement(t, first, 0.7, 0.02) for t in (0.5, 1.0)],
        )  # fmt: skip
        assert float(seen["mass_pruned"][-1]) > 0
        assert float(seen["mass_lost"][-1]) <= lost
    assert cells[0] < 0.8 * cells[1]


def drained(t, y, p):
    return (-p[1],)


def two(t, y, p):
    return 1.0, 2.0


@pytest.mark.parametrize(
    ("field", "error", "message", "settings"),
    [
        (FIELD, PlanError, "threshold and retained", {"threshold": 1e-6, "retained": 0.9}),
        (FIELD, PlanError, "between 0 and 1", {"retained": 1.0}),
        (FIELD, ModelError, "none of them negative", {"process_noise": drained}),
        (FIELD, ModelError, "2 values for 1 variable", {"process_noise": two}),
        (STOCHASTIC, ModelError, "has a diffusion", {"process_noise": [0.1]}),
        (FIELD, PlanError, "use larger widths", {"process_noise": [1e12]}),
    ],
)
def test_bad_settings(field, error, message, settings):
    with pytest.raises(error, match=message):
        ergode.density.propagate(field, PRIOR, times=[0, 1], parameters=VALUES, **settings)


def test_function_of_noise_on_a_turned_grid():
    with pytest.raises(PlanError, match="leave axes out"):
        ergode.density.propagate(
            ergode.fields.duffing(), ergode.Gaussian([0, 0], [1, 1]), times=[0, 1],
            parameters={"damping": 1, "stiffness": 1, "hardening": 1}, process_noise=both,
            axes=np.array([[0.6, -0.8], [0.8, 0.6]]), scheme="split",
        )  # fmt: skip


def both(t, y, p):
    return 0.1, 0.2 * y[0] * y[0]


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_units_do_not_matter_to_noise(unit):
    """Of variables in units 2^30 apart, a variance is 1e18 times the other."""
    units = np.array([1.0, unit])
    squares = np.outer(units, units)
    Q = np.array([[0.3, 0.2], [0.2, 0.5]])
    common = {"threshold": 1e-8, "keep": "none"}
    alike, other = (
        on_plane(
            NOWHERE, (0, 0), ergode.Gaussian([1.0, 0.0], [0.2, 0.3] * scale**2), [0, 1],
            process_noise=np.diag(Q) * scale**2, width=0.2 * scale, **common,
        )["covariance"].values[-1]
        for scale in (np.ones(2), units)
    )  # fmt: skip
    np.testing.assert_allclose(other / squares, alike, rtol=1e-12, atol=1e-15)
    # Where it is correlated, the grid is rotated, by another angle in other units.
    prior = ergode.Gaussian([1.0, 0.0], [0.2, 0.3] * units**2)
    turned = on_plane(NOWHERE, (0, 0), prior, [0, 1], process_noise=Q * squares, **common)
    exact = np.diag([0.2, 0.3]) + Q
    np.testing.assert_allclose(turned["covariance"].values[-1] / squares, exact, atol=0.02)
    with pytest.raises(PlanError, match="process_noise is not diagonal along the axes"):
        on_plane(
            NOWHERE, (0, 0), prior, [0, 1], process_noise=Q * squares, axes=np.eye(2), **common
        )
