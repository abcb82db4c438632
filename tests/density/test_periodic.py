"""Angles: cells that close a circle, and means and variances of what lies on it."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import ergode

pytestmark = pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")  # cells are wide
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
SCHEMES = pytest.mark.parametrize("scheme", ["split", "corner-transport"])
TURN = 2 * math.pi


def rotor(t, y, p):
    return (p[0],)


def pendulum(t, y, p):
    return y[1], -math.sin(y[0]) - 0.2 * y[1]


def on_circle(y, t, p):
    return math.cos(y[0]), math.sin(y[0])


def near_zero(y, t, p):
    return (math.cos(y[0]) - math.cos(2.5),)


def fading(y, t, p):
    return (0.02 + 0.005 * t,)


ROTOR = ergode.VectorField(rotor, ["theta"], ["rate"])
PAIR = ergode.VectorField(lambda t, y, p: (2.0, 0.0 * y[1]), ["theta", "x"])
PENDULUM = ergode.VectorField(pendulum, ["theta", "speed"])
PRIOR = ergode.Gaussian([3.0], [0.09])


def turned(times, *, rate=2.0, prior=PRIOR, **options):
    settings = {
        "periodic": {"theta": TURN}, "process_noise": [0.2], "width": 0.1, "threshold": 1e-9,
        "device": "cpu:1",
    } | options  # fmt: skip
    return ergode.density.propagate(
        ROTOR, prior, times=times, parameters={"rate": rate}, **settings
    )


def direction(cells):
    """The mean of exp(i theta)."""
    return cells["mass"].values @ np.exp(1j * cells["point"].values[:, 0])


def wrapped(theta, mean, variance):
    """The wrapped normal density."""
    turns = TURN * np.arange(-9, 10)[:, None]
    return norm.pdf(theta + turns, mean, math.sqrt(variance)).sum(axis=0)


@DEVICES
def test_a_noisy_rotor_has_a_wrapped_normal_density(device):
    for width, most in ((0.1, 0.003), (0.05, 0.0008)):
        found = turned([0, 1, 4], width=width, device=device)
        assert found.attrs["method"] == "split"
        assert float(found["width"][0]) == TURN / round(TURN / width)
        for index, time in enumerate([0, 1, 4]):
            cells = ergode.density.cells_at(found, index=index)
            law = wrapped(cells["point"].values[:, 0], 3 + 2 * time, 0.09 + 0.2 * time)
            density = cells["mass"].values / float(found["width"][0])
            np.testing.assert_allclose(density, law, rtol=0, atol=most)
            exact = np.exp(1j * (3 + 2 * time) - 0.5 * (0.09 + 0.2 * time))
            assert abs(direction(cells) - exact) < most / 8
        # Means lie within half a turn of the prior's mean; variances are those of a narrow density.
        np.testing.assert_allclose(found["mean"][:, 0], [3, 5, 11 - TURN], atol=0.002)
        np.testing.assert_allclose(found["covariance"][:2, 0, 0], [0.09, 0.29], atol=1e-4)


@SCHEMES
def test_it_becomes_uniform(scheme):
    found = turned([0, 200], width=0.2, scheme=scheme)
    count = int(found["cell_count"][-1])
    assert count == math.ceil(TURN / 0.2)
    mass = ergode.density.cells_at(found)["mass"].values
    np.testing.assert_allclose(mass, 1 / count, rtol=1e-6)
    assert float(found["covariance"][-1, 0, 0]) == pytest.approx(TURN**2 / 12, rel=0.002)
    assert float(found["mass_lost"][-1]) < 1e-3


def test_a_prior_wider_than_a_turn_is_wrapped():
    found = turned([0], prior=ergode.Gaussian([1.0], [9.0]))
    cells = ergode.density.cells_at(found)
    theta = cells["point"].values[:, 0]
    assert np.abs(theta - 1.0).max() <= math.pi + 0.1
    density = cells["mass"].values / float(found["width"][0])
    np.testing.assert_allclose(density, wrapped(theta, 1.0, 9.0), rtol=1e-3)


@DEVICES
def test_a_pendulum_that_swings_over_is_that_of_an_unwrapped_angle(device):
    directions, speeds = [], []
    for periodic in (None, {"theta": TURN}):
        found = ergode.density.propagate(
            PENDULUM, ergode.Gaussian([2.5, 1.0], [0.04, 0.09]), times=[0, 4],
            process_noise=[0.0, 0.2], width=TURN / 80, threshold=1e-8, periodic=periodic,
            device=device, scheme="split",
        )  # fmt: skip
        directions.append(direction(ergode.density.cells_at(found)))
        speeds.append([float(found["mean"][-1, 1]), float(found["covariance"][-1, 1, 1])])
    assert abs(directions[1] - directions[0]) < 2e-4
    np.testing.assert_allclose(speeds[1], speeds[0], rtol=0, atol=2e-4)


@DEVICES
def test_measurements_of_a_direction(device):
    # What is measured, at 6.0, is beside the place where the circle is cut, at 3 + pi.
    seen = [ergode.Measurement(1.0, on_circle, [math.cos(6), math.sin(6)], [0.1, 0.1])]
    found = turned([0, 1], measurements=seen, width=0.05, device=device)
    theta = np.linspace(0, TURN, 4001)[:-1]
    before = wrapped(theta, 5.0, 0.29)
    away = np.abs(np.exp(1j * theta) - np.exp(6j)) ** 2 / 0.2
    after = before * np.exp(-away) / (TURN * 0.1)
    evidence = after.mean() * TURN
    assert float(found["log_evidence"][0]) == pytest.approx(math.log(evidence), abs=2e-3)
    exact = (after @ np.exp(1j * theta)) / after.sum()
    assert abs(direction(ergode.density.cells_at(found)) - exact) < 1e-3
    assert float(found["prior_mean"][0, 0]) == pytest.approx(5.0, abs=1e-3)
    assert float(found["posterior_shift"][0]) < 0.1


def test_walls_on_a_circle_absorb():
    # Brownian motion between -2.5 and 2.5; the circle is cut elsewhere, at 1.5 - pi.
    found = turned(
        [0, 2, 8], rate=0.0, prior=ergode.Gaussian([1.5], [0.04]), region=near_zero,
        boundary="absorbing", width=0.05, process_noise=[0.5], killing_rate=fading,
    )  # fmt: skip
    n = np.arange(1, 60, 2)
    k = n * math.pi / 5
    start = np.exp(-0.5 * k**2 * 0.04) * np.sin(k * 4.0)
    exact = [(4 / (n * math.pi) * start * np.exp(-0.25 * k**2 * t)).sum() for t in (2, 8)]
    exact = np.exp([-0.04 - 0.01, -0.16 - 0.16]) * exact  # who was killed before
    np.testing.assert_allclose(found["survival"][1:], exact, rtol=0, atol=0.002)


@pytest.mark.parametrize("scheme", [pytest.param("split", marks=pytest.mark.slow), "flow"])
def test_correlated_noise_and_a_jump_turn_a_wrapped_normal_density(scheme):
    """A rotor and a free variable: the direction shrinks by half the variance."""
    noise, jump = np.array([[0.2, 0.1], [0.1, 0.3]]), np.array([[0.4, -0.2], [-0.2, 0.3]])
    found = ergode.density.propagate(
        PAIR, ergode.Gaussian([3.0, 0.0], [0.09, 0.16]), times=[0, 1], process_noise=noise,
        maneuvers=[ergode.Maneuver(0.5, [4.0, 0.0], jump)], periodic={"theta": TURN},
        width=[0.1, 0.15] if scheme == "split" else None, device="cpu:1", scheme=scheme,
        # Kills nothing: so that the grid has the kernel of another test.
        killing_rate=(lambda y, t, p: (0.0 * y[0],)) if scheme == "split" else None,
    )  # fmt: skip
    cells = ergode.density.cells_at(found, 1.0)
    exact = np.diag([0.09, 0.16]) + noise + jump
    turn = direction(cells)
    assert np.angle(turn / np.exp(1j * (3.0 + 4.0 + 2.0))) == pytest.approx(0.0, abs=0.01)
    assert abs(turn) == pytest.approx(math.exp(-0.5 * exact[0, 0]), rel=0.01)
    free = cells["point"].values[:, 1]
    mixed = (cells["mass"].values * free) @ np.exp(1j * cells["point"].values[:, 0]) / turn
    # Of a normal pair: E[x exp(i theta)] / E[exp(i theta)] is i times the covariance.
    assert mixed.imag == pytest.approx(exact[0, 1], abs=0.01)
    assert float(found["covariance"][-1, 1, 1]) == pytest.approx(exact[1, 1], rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"periodic": {"phi": TURN}}, "'phi', which is no variable"),
        ({"periodic": {"theta": -1}}, "expected a positive number"),
        ({"axes": "principal"}, "rotates it"),
    ],
)
def test_what_cannot_be_combined_is_refused(options, message):
    with pytest.raises(ergode.core.errors.ErgodeError, match=message):
        turned([0, 1], **options)


def test_a_field_without_the_period_is_refused():
    with pytest.raises(ergode.ModelError, match="expected a field that has the period"):
        ergode.density.propagate(
            PENDULUM, ergode.Gaussian([2.5, 1.0], [0.04, 0.09]), times=[0, 1],
            periodic={"speed": 3.0},
        )  # fmt: skip


def test_a_maneuver_turns_it():
    found = turned([0, 1], maneuvers=[ergode.Maneuver(0.5, [4.0])], width=0.05)
    assert float(found["mean"][-1, 0]) == pytest.approx(9.0 - TURN, abs=1e-3)
