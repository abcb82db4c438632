"""Events and observables against what mechanics says."""

import math

import numpy as np
import pytest

import ergode
from ergode.core.errors import ModelError
from ergode.core.status import Status
from ergode.trajectories import Maximum, Mean, Minimum, Observable, TimeAbove, ZeroCrossing
from ergode.trajectories.steppers import observing


def falling(t, y, p):
    return y[1], -p[0]


def height(t, y, p):
    return y[0]


def bounce(t, y, p):
    return 0.0, -p[1] * y[1]


def rotation(t, y, p):
    return y[1], -y[0]


def level(t, y, p):
    return y[0] - 0.5


def begin(t, y, p):
    return (0.0, t)


def update(s, t, y, f, t1, y1, f1, p):
    return s[0] + 0.5 * (t1 - t) * (y[0] ** 2 + y1[0] ** 2), s[1]


def spin(i, t, y, p):
    return y[1] if i == 0 else -y[0]


def power(s, t, y, p):
    return (s[0] / (t - s[1]),)


BALL = ergode.VectorField(falling, ["height", "speed"], ["gravity", "restitution"])
CIRCLE = ergode.VectorField(rotation, ["x", "y"])


def solve(field, **options):
    return ergode.trajectories.integrate(field, **{"device": "cpu", **options})


def test_bouncing_ball():
    restitution = np.linspace(0.5, 0.9, 50)
    result = solve(
        BALL, times=[0.0, 0.7, 1.35], initial={"height": 1.0, "speed": 0.0},
        parameters={"gravity": 9.81, "restitution": restitution}, record=3,
        events=[ZeroCrossing(height, -1, bounce, name="impact")],
    )  # fmt: skip
    fall = math.sqrt(2 / 9.81)
    hops = 2 * restitution[:, None] ** np.arange(1, 30)
    impacts = fall * (1 + np.concatenate([np.zeros((50, 1)), np.cumsum(hops, axis=1)], axis=1))
    np.testing.assert_array_equal(
        result["event_count"].sel(event="impact"), (impacts < 1.35).sum(axis=1)
    )
    for i, count in enumerate(result["event_count"].values[:, 0]):
        last = impacts[i, max(0, count - 3) : count]
        np.testing.assert_allclose(result["event_time"].values[i, 0, : last.size], last, rtol=1e-9)
        assert np.isnan(result["event_time"].values[i, 0, last.size :]).all()
    late = 0.7 - impacts[:, 0]
    up = restitution * 9.81 * fall
    inside = impacts[:, 1] > 0.7
    np.testing.assert_allclose(
        result["state"].values[inside, 1, 0], (up * late - 9.81 * late**2 / 2)[inside], atol=1e-9
    )
    np.testing.assert_array_equal(result["status"], Status.DONE)


def test_terminal_event_leaves_nan_and_says_so():
    result = solve(
        BALL, times=np.linspace(0, 1, 11), initial={"height": [1.0, 10.0], "speed": 0.0},
        parameters={"gravity": 9.81, "restitution": 0.5}, record=1,
        events=[ZeroCrossing(height, -1, terminal=True)],
    )  # fmt: skip
    np.testing.assert_array_equal(result["status"], [Status.STOPPED, Status.DONE])
    assert result["event_time"].values[0, 0, 0] == pytest.approx(math.sqrt(2 / 9.81), rel=1e-10)
    assert np.isnan(result["state"].values[0, 5:]).all()
    assert np.isfinite(result["state"].values[0, :5]).all()
    assert list(result["event"].values) == ["height"]
    result.ergode.raise_for_status()


def test_the_third_occurrence_ends_a_run():
    """Of named variables with an effect, and of an array without one."""
    result = solve(
        BALL, times=[0.0, 5.0], initial={"height": 1.0, "speed": 0.0}, record=4,
        parameters={"gravity": 9.81, "restitution": [0.8, 0.9]},
        events=[ZeroCrossing(height, -1, bounce, terminal=3, name="impact")],
    )  # fmt: skip
    np.testing.assert_array_equal(result["status"], Status.STOPPED)
    np.testing.assert_array_equal(result["event_count"], 3)
    restitution = np.array([0.8, 0.9])
    third = math.sqrt(2 / 9.81) * (1 + 2 * restitution + 2 * restitution**2)
    np.testing.assert_allclose(result["event_time"].values[:, 0, 2], third, rtol=1e-9)
    with pytest.raises(ModelError, match="terminal is -1; expected True, False, or how many"):
        ZeroCrossing(height, terminal=-1)


@pytest.mark.parametrize("count", [1, 2])
def test_the_third_occurrence_ends_a_run_of_arrays(count):
    """In a thread of its own, and in lanes."""
    field = ergode.VectorField(component=spin, variables=("x", 2))
    result = solve(
        field, times=[0.0, 20.0], initial={"x": np.tile([1.0, 0.0], (count, 1))}, rtol=1e-9,
        events=[ZeroCrossing(height, 0, terminal=3), ZeroCrossing(height, 1, name="up")], record=1,
    )  # fmt: skip
    np.testing.assert_array_equal(result["status"], Status.STOPPED)
    np.testing.assert_array_equal(result["event_count"], np.tile([3, 1], (count, 1)))
    np.testing.assert_allclose(result["event_time"].values[:, 0, 0], 2.5 * math.pi, rtol=1e-8)


@pytest.mark.parametrize("options", [{"rtol": 1e-9, "atol": 1e-9}, {"method": "rk4", "step": 0.01}])
def test_passing_events_and_observables_on_a_circle(options):
    end = 20 * math.pi
    result = solve(
        CIRCLE, times=[0.0, end], initial={"x": 1.0, "y": 0.0}, record=4,
        events=[ZeroCrossing(level, 0, name="both"), ZeroCrossing(level, 1, name="up"),
                ZeroCrossing(level, -1, name="down")],
        observables=[Maximum("x"), Minimum("y"), Mean("x"), TimeAbove("x", 0.5),
                     Observable(begin, update, power, "power", 2)],
        **options,
    )  # fmt: skip
    np.testing.assert_array_equal(result["event_count"], [20, 10, 10])
    third = math.pi / 3
    down = third + 2 * math.pi * np.arange(6, 10)
    np.testing.assert_allclose(result["event_time"].sel(event="down"), down, atol=1e-6)
    np.testing.assert_allclose(result["event_time"].sel(event="up"), down + 4 * third, atol=1e-6)
    np.testing.assert_allclose(
        result["event_state"].sel(event="up"), [[0.5, math.sqrt(0.75)]] * 4, atol=1e-6
    )
    observed = dict(zip(result["observable"].values, result["observed"].values, strict=True))
    assert observed["maximum of x"] == pytest.approx(1.0, abs=1e-5)
    assert observed["minimum of y"] == pytest.approx(-1.0, abs=1e-5)
    assert observed["mean of x"] == pytest.approx(0.0, abs=1e-6)
    assert observed["time of x above 0.5"] == pytest.approx(end / 3, abs=1e-3)
    assert observed["power"] == pytest.approx(0.5, abs=2e-3)


def test_time_above_within_one_step():
    # A throw that rises above a level and falls below it again in one step.
    result = solve(
        BALL, times=[0.0, 1.0], initial={"height": 0.0, "speed": 5.0},
        parameters={"gravity": 9.81, "restitution": 1.0},
        observables=[Maximum("height"), TimeAbove("height", 1.0)],
    )  # fmt: skip
    assert int(result["step_count"]) < 9
    top = 25 / (2 * 9.81)
    assert float(result["observed"][0]) == pytest.approx(top, rel=1e-9)
    exact = 2 * math.sqrt(2 * (top - 1) / 9.81)
    assert float(result["observed"][1]) == pytest.approx(exact, rel=1e-9)


def cosine_of(t, y, p):
    return y[0]


def turning(i, t, y, p):
    return -y[1] if i == 0 else y[0]


TURNING = ergode.VectorField(component=turning, variables=("y", 2))
LATE = [
    ("dop853", {}, 3e-6),
    pytest.param("rk4", {"step": 0.07}, 3e-6, marks=pytest.mark.exhaustive),
    pytest.param("tsit5", {}, 2e-5, marks=pytest.mark.exhaustive),
    pytest.param("rodas5p", {}, 5e-5, marks=pytest.mark.exhaustive),
    pytest.param("radau5", {}, 2e-5, marks=pytest.mark.exhaustive),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["named", pytest.param("array", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("method", "options", "error"), LATE)
def test_observing_begins_late(method, options, error, kind):
    """Between two steps, and dense output of a high order is not replaced by a cubic."""
    begin, end = 2.52, 20.0
    of = "x" if kind == "named" else cosine_of
    result = solve(
        CIRCLE if kind == "named" else TURNING, times=[0.0, end], observe_from=begin,
        initial={"x": 1.0, "y": 0.0} if kind == "named" else {"y": [1.0, 0.0]}, method=method,
        observables=[Mean(of), Maximum(of), TimeAbove(of, 0.5)], **options,
    )  # fmt: skip
    mean = (math.sin(end) - math.sin(begin)) / (end - begin)
    above = 3 * 2 * math.pi / 3  # three whole turns
    np.testing.assert_allclose(result["observed"], [mean, 1.0, above], atol=error)


@pytest.mark.parametrize(
    ("times", "begin"), [([0.0, 2.0], 2.0), ([0.0, 2.0], 2.5), ([2.0, 0.0], 0.0)]
)
def test_nothing_to_observe_is_refused(times, begin):
    with pytest.raises(ergode.PlanError, match=f"observe_from is {begin:g}, not before the last"):
        solve(CIRCLE, times=times, initial={"x": 1.0, "y": 0.0}, observables=[Mean("x")],
              observe_from=begin)  # fmt: skip


def test_events_are_counted_late():
    result = solve(
        CIRCLE, times=[0.0, 20.0], initial={"x": 1.0, "y": 0.0}, observe_from=10.0, record=9,
        max_step=0.1, events=[ZeroCrossing(level, name="both")],
    )  # fmt: skip
    times = result["event_time"].values[0]
    assert (times[np.isfinite(times)] >= 10.0).all()
    assert int(result["event_count"][0]) == 4


@pytest.mark.parametrize("options", [{"step": 0.5}, {}])
def test_events_of_one_moment_all_act(options):
    """Only the first did, and the others were lost."""
    ramp = ergode.VectorField(lambda t, y, p: (1.0 + 0.0 * y[0],), ["x"], ["first", "second"])
    doses = [
        ZeroCrossing(
            lambda t, y, p: t - p[0], effect=lambda t, y, p: (y[0] + 1.0,), name="first"
        ),
        ZeroCrossing(
            lambda t, y, p: 3.0 * (t - p[1]), effect=lambda t, y, p: (2.0 * y[0],), name="second"
        ),
    ]  # fmt: skip
    first = np.array([5.0, 0.3, 7.77, 2.0, 10.0])
    second = np.array([5.0, 0.1 * 3, 7.77, 6.0, 10.0])
    found = ergode.trajectories.integrate(
        ramp, times=[0, 10, 12], initial={"x": 0.0}, events=doses, device="cpu",
        parameters={"first": first, "second": second}, **options,
    )  # fmt: skip
    np.testing.assert_array_equal(found["event_count"], 1)
    exact = 2.0 * (second + 1.0) + 12.0 - second
    np.testing.assert_allclose(found["state"].values[:, -1, 0], exact, rtol=1e-12)


def wrong(t, y, p):
    return (y[0],)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"events": [height]}, "events has <function height.*; expected ergode.traj.*ZeroCrossing"),
        ({"events": [ZeroCrossing(wrong)]}, "'wrong' returns \\(y\\[0\\],\\); expected a number"),
        (
            {"events": [ZeroCrossing(height), ZeroCrossing(height)]},
            "two events are called 'height'",
        ),
        ({"events": [ZeroCrossing(height, effect=wrong)]}, "returns 1 value for 2 variables"),
        ({"observables": [Mean("z")]}, "names a variable that the field does not have"),
        ({"observables": ["x"]}, "observables has 'x'; expected ergode.trajectories.Max"),
        ({"observables": [Mean("x"), Mean("x")]}, "two observables are called 'mean of x'"),
        ({"record": -1}, "record is -1; expected 0 to"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_step": 0.0}, "max_step is 0.0; expected a positive number"),
    ],
)
def test_bad_input_is_one_line(options, message):
    with pytest.raises(ergode.ErgodeError, match=message) as caught:
        solve(CIRCLE, times=[0, 1], initial={"x": 1, "y": 0}, **options)
    assert "\n" not in str(caught.value)


def test_direction_is_one_of_three():
    with pytest.raises(ergode.ModelError, match="direction is 2; expected -1, 0 or 1"):
        ZeroCrossing(height, 2)


def test_part_of_a_cubic_above_zero(monkeypatch):
    monkeypatch.setattr(observing, "real", float)
    for y0, f0, y1, f1 in np.random.default_rng(1).normal(size=(2000, 4)) * [1, 4, 1, 4]:
        b = 3 * (y1 - y0) - 2 * f0 - f1
        c = f0 + f1 - 2 * (y1 - y0)
        roots = np.roots([c, b, f0, y0])
        inside = sorted(r.real for r in roots if abs(r.imag) < 1e-12 and 0 < r.real < 1)
        ends = np.array([0.0, *inside, 1.0])
        above = np.polyval([c, b, f0, y0], (ends[1:] + ends[:-1]) / 2) > 0
        with np.errstate(all="ignore"):
            found = observing.part_above(*np.array([1.0, y0, f0, y1, f1]))
        assert found == pytest.approx(np.diff(ends)[above].sum(), abs=1e-6)
