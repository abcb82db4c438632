"""Events that cross twice within a step are found, whatever takes the step."""

import math

import numpy as np
import pytest

import ergode
from ergode.trajectories import ZeroCrossing


def rotation(t, y, p):
    return y[1], -y[0]


def above(t, y, p):
    return y[0] - p[0]


def in_disc(t, y, p):
    # The square of the distance to a point on the circle: not linear in the state.
    return (y[0] - 1.0) ** 2 + y[1] ** 2 - p[0]


def delayed_rotation(t, y, yd, p):
    return (-p[0] * yd[0],)


def delayed_above(t, y, yd, p):
    return y[0] - p[2]


def cosine(t):
    return (math.cos(0.5 * math.pi * t),)


def stay(t, y, p):
    return y[0], y[1]


CIRCLE = ergode.VectorField(rotation, ["x", "y"], ["level"])
ANGLES = np.linspace(0.05, 0.5, 32)  # half of what lies between two crossings
BOTH = [ZeroCrossing(above, way, name=name) for name, way in (("both", 0), ("up", 1), ("down", -1))]
TURNS = 10
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def around(device, events, levels, **options):
    return ergode.trajectories.integrate(
        CIRCLE, times=[0.0, 1.0 + 2 * math.pi * TURNS], initial={"x": 0.0, "y": 1.0},
        parameters={"level": levels}, events=events, device=device, record=2 * TURNS, **options,
    )  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options",
    [
        {"method": "tsit5"}, {"method": "dop853", "rtol": 1e-9}, {"method": "rodas5p"},
        {"method": "radau5", "rtol": 1e-5}, {"method": "dopri5", "step": 0.6},
        {"method": "rk4", "step": 0.2},
        {"method": "tsit5", "precision": "float32"},
        {"method": "tsit5", "rtol": 1e-4, "precision": "float32"},
        {"method": "rodas5p", "rtol": 1e-5, "precision": "float32"},
        {"method": "rk4", "step": 0.2, "precision": "float32"},
    ],
    ids=lambda options: f"{options['method']}-{options.get('precision', 'float64')}",
)  # fmt: skip
def test_two_crossings_in_a_step_are_found(options, device):
    found = around(device, BOTH, np.cos(ANGLES), **options)
    assert int(found["step_count"].max()) * 0.05 < 2 * math.pi * TURNS  # steps are longer
    np.testing.assert_array_equal(found["event_count"], [[2 * TURNS, TURNS, TURNS]] * ANGLES.size)
    tops = 0.5 * math.pi + 2 * math.pi * np.arange(TURNS)
    exact = (tops[:, None] + [-1, 1] * ANGLES[:, None, None]).reshape(ANGLES.size, -1)
    times = found["event_time"].sel(event="both").values
    # Near the top the level hides an error of the state, and 1/sin(angle) of it is one of time.
    np.testing.assert_allclose(times, exact, atol=0.03)
    assert (np.diff(times, axis=1) > 0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_two_crossings_of_a_function_that_is_not_linear(device):
    levels = 4 * np.sin(0.5 * ANGLES) ** 2
    found = around(device, [ZeroCrossing(in_disc, name="in")], levels, rtol=1e-7)
    np.testing.assert_array_equal(found["event_count"][:, 0], 2 * TURNS)


@pytest.mark.parametrize("device", DEVICES)
def test_what_acts_at_the_first_of_two_crossings_in_a_step(device):
    level = np.cos(ANGLES)
    events = [ZeroCrossing(above, 0, terminal=True, name="stop")]
    found = around(device, events, level)
    np.testing.assert_array_equal(found["status"], ergode.Status.STOPPED)
    np.testing.assert_allclose(found["event_time"][:, 0, 0], 0.5 * math.pi - ANGLES, atol=1e-4)
    # With an effect the run goes on, and the second crossing is found too.
    events = [ZeroCrossing(above, 0, stay, name="both"), ZeroCrossing(above, -1, name="down")]
    found = around(device, events, level, rtol=1e-7)
    np.testing.assert_array_equal(found["event_count"], [[2 * TURNS, TURNS]] * ANGLES.size)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options", [{"rtol": 1e-6}, {"method": "rk4", "step": 0.1}, {"method": "rodas5p"}],
    ids=["tsit5", "rk4", "rodas5p"],
)  # fmt: skip
def test_two_crossings_in_a_step_with_delays(options, device):
    field = ergode.VectorField(delayed_rotation, ["x"], ["rate", "tau", "level"], [("x", "tau")])
    angles = np.linspace(0.02, 0.2, 16)
    found = ergode.trajectories.integrate(
        field, times=[0.0, 2.0 + 4 * TURNS], initial={"x": 1.0}, history=cosine, device=device,
        parameters={"rate": 0.5 * math.pi, "tau": 1.0, "level": np.cos(angles)},
        events=[ZeroCrossing(delayed_above, name="both")], **options,
    )  # fmt: skip
    # It begins above the level and comes back above it TURNS times.
    np.testing.assert_array_equal(found["event_count"][:, 0], 2 * TURNS + 1)


def test_a_function_that_begins_at_zero_and_returns_in_the_first_step():
    found = ergode.trajectories.integrate(
        CIRCLE, times=[0.0, 1.0], initial={"x": np.cos(ANGLES / 5), "y": np.sin(ANGLES / 5)},
        parameters={"level": np.cos(ANGLES / 5)}, device="cpu", max_step=0.3,
        events=[ZeroCrossing(above, name="both"), ZeroCrossing(above, 1, name="up")],
    )  # fmt: skip
    # It leaves the level upwards, which is an event, and comes back.
    np.testing.assert_array_equal(found["event_count"], [[2, 1]] * ANGLES.size)


@pytest.mark.parametrize(
    "options", [{"step": 0.5}, {"step": 0.5, "method": "tsit5"}, {}, {"method": "dop853"}]
)
def test_a_zero_at_the_very_end_of_a_step_is_there(options):
    """It was placed in the midst of the step, and an event that acts happened without end."""
    ramp = ergode.VectorField(lambda t, y, p: (1.0 + 0.0 * y[0],), ["x"])
    fading = ergode.VectorField(lambda t, y, p: (-y[0],), ["x"])
    crossing = ergode.trajectories.ZeroCrossing
    reached = crossing(lambda t, y, p: y[0] - 5.0, name="reached")
    dose = crossing(lambda t, y, p: t - 5.0, effect=lambda t, y, p: (y[0] + 1.0,), name="dose")
    for field, event, last in ((ramp, reached, 10.0), (fading, dose, np.exp(-5.0))):
        result = ergode.trajectories.integrate(
            field, initial={"x": 0.0}, times=[0, 5, 10], events=[event], record=2, device="cpu",
            **options,
        )  # fmt: skip
        assert result["status"].item() == 0 and result["event_count"].item() == 1
        assert result["event_time"].values.ravel()[0] == pytest.approx(5.0, abs=1e-12)
        assert result["state"].values.ravel()[-1] == pytest.approx(last, rel=0.01)
