"""Conditions that change: cold starts, pulses and steps, and clocks that begin anywhere."""

import time

import numpy as np
import pytest
from scipy.integrate import quad

import ergode
from ergode.core.status import Status
from ergode.kinetics import Trajectory, integrate
from ergode.kinetics.methods import METHODS
from ergode.kinetics.over_time import linear_at, tabulated

FACTOR, ACTIVATION = 10.0, 12_000.0
DECAY = ergode.ReactionNetwork(
    {"A": 1.0, "B": 0.0},
    [ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(FACTOR, 0.0, ACTIVATION))],
)
ALLOWED = {"asymptotic": 3e-2}


def pulse(t):
    return 300.0 + 3700.0 * np.exp(-(((t - 50.0) / 3.0) ** 2))


def left_of(temperature, start, stop, points):
    """What is left of A, by quadrature."""
    exponent = quad(
        lambda t: FACTOR * np.exp(-ACTIVATION / temperature(t)), start, stop, points=points,
        epsabs=1e-12, epsrel=1e-10, limit=1000,
    )[0]  # fmt: skip
    return np.exp(-exponent)


KNOTS = np.linspace(0.0, 100.0, 401)
COURSES = {
    "knots": (Trajectory(KNOTS, pulse(KNOTS)), lambda t: np.interp(t, KNOTS, pulse(KNOTS))),
    "function": (pulse, pulse),
    "steps": (
        Trajectory([20.0, np.nextafter(20.0, 21.0), 20.3, np.nextafter(20.3, 21.0)],
                   [300.0, 5000.0, 5000.0, 300.0]),
        lambda t: 5000.0 if 20.0 < t <= 20.3 else 300.0,
    ),
    "a step as a function": (lambda t: 300.0 if t < 77.7 else 3000.0,) * 2,
}  # fmt: skip


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name].multistep])
@pytest.mark.parametrize("course", COURSES)
def test_no_pulse_is_stepped_over(method, course):
    """A cold start burnt nothing: the first step went from end to end."""
    given, function = COURSES[course]
    result = integrate(
        DECAY, times=[0, 100], temperature=given, method=method, rtol=1e-5, device="cpu"
    )
    points = [20.0, 20.3] if course == "steps" else [44.0, 50.0, 56.0, 77.7]
    expected = left_of(function, 0.0, 100.0, points)
    assert 0.01 < expected < 0.99
    found = result["concentration"].sel(species="A").values[0, -1]
    assert result["status"].item() == Status.DONE
    assert found == pytest.approx(expected, rel=ALLOWED.get(method, 1e-3))


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name].multistep])
@pytest.mark.parametrize("origin", [1.0, -64.0, 2.0**30])
def test_the_origin_of_time_changes_nothing(method, origin):
    """To the last bit, where the shifted times are exact."""
    grid, knots = np.array([0.0, 16.0, 72.0, 100.0]), KNOTS[100:300:10]
    found = [
        integrate(
            DECAY, times=grid + shift, temperature=Trajectory(knots + shift, pulse(knots)),
            method=method, device="cpu",
        )
        for shift in (0.0, origin)
    ]  # fmt: skip
    assert (found[0]["status"] == Status.DONE).all()
    for name in ("concentration", "step_count", "repeated_count", "temperature"):
        np.testing.assert_array_equal(found[0][name], found[1][name])


@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23", "asymptotic"])
def test_a_short_time_after_a_late_origin(method):
    """Steps are compared with the time since the start, not with what the clock shows."""
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=2e14)]
    )
    short = 2.0**-48
    for origin in (0.0, 1.0):
        result = integrate(
            network, times=[origin, origin + short], method=method, rtol=1e-6, device="cpu"
        )
        assert result["status"].item() == Status.DONE
        left = result["concentration"].sel(species="A").values[0, -1]
        assert left == pytest.approx(np.exp(-2e14 * short), rel=2e-2)


def test_the_start_of_a_trajectory_need_not_be_that_of_the_run():
    """Mole fractions become concentrations at the temperature that there is at first."""
    flat = (2.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    gas = ergode.NasaPolynomials(flat, flat, 1e3, {"H": 1})
    network = ergode.ReactionNetwork(
        [ergode.Species(name, thermochemistry=gas) for name in "AB"],
        [ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(1e-9))],
    )
    result = integrate(
        network, times=[5.0, 6.0], temperature=Trajectory([0.0, 10.0], [500.0, 1500.0]),
        pressure=1e6, initial={"A": 1.0}, device="cpu",
    )  # fmt: skip
    assert result["pressure"].values[0, 0] == pytest.approx(1e6)


def test_functions_are_tabulated_within_their_tolerance():
    grid = np.array([-3.0, 100.0])
    for function in (pulse, lambda t: 1e3 / (t + 3.01), lambda t: [1e3 + t, 2e3 * np.exp(-t / 9)]):
        times, values = tabulated("temperature", function, grid, 1e-6)
        between = 0.5 * (times[1:] + times[:-1])
        exact = np.array([np.atleast_1d(function(t)) for t in between]).T
        found = np.array([np.interp(between, times, row) for row in values])
        np.testing.assert_allclose(found, exact, rtol=1.01e-6)
    with pytest.raises(ergode.ModelError, match="temperature is -1 in zone 0"):
        integrate(DECAY, times=[0, 1], temperature=lambda t: -1.0, device="cpu")


@pytest.mark.parametrize("knots", [1, 2, 9])
def test_conditions_of_all_zones_are_interpolated_together(knots):
    rng = np.random.default_rng(1)
    at, rows = np.sort(rng.random(knots)), rng.random((5, knots))
    times = np.sort(np.concatenate([at, rng.uniform(-0.5, 1.5, 40)]))
    expected = [np.interp(times, at, row) for row in rows]
    np.testing.assert_allclose(linear_at(times, at, rows), expected, rtol=1e-14)


def test_conditions_of_a_million_zones_take_no_loop():
    """NumPy's own function took two seconds, a call for each zone."""
    rows = np.ones((1_000_000, 1))
    started = time.process_time()
    found = linear_at(np.array([0.0, 1.0]), np.zeros(1), rows)
    assert time.process_time() - started < 0.5
    assert found.shape == (1_000_000, 2)
    assert (found == 1.0).all()
