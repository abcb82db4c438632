"""Tests of integration backward in time and of the solution between times."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode
from ergode.trajectories import Maximum, Mean, Observable, TimeAbove, ZeroCrossing, integrate

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def pendulum(t, y, p):
    return y[1], -math.sin(y[0]) - p[0] * y[1] + math.cos(2.0 * t)


def above(t, y, p):
    return y[0] - 0.2


def knocked(t, y, p):
    return y[0], y[1] + 0.3 * t


def wave(i, t, y, p, c):
    return p[0] * (y[i - 1] - y[(i + 1) % len(y)]) + c.push(t)


def wave_in_place(t, y, dy, p, c):
    for i in range(len(y)):
        dy[i] = p[0] * (y[i - 1] - y[(i + 1) % len(y)]) + c.push(t)


FIELD = ergode.VectorField(pendulum, ["angle", "speed"], ["friction"])
TIMES = np.array([3.0, 2.5, 1.0, -0.5])
START = {"angle": [1.0, -0.5, 0.2], "speed": 0.1}
TIGHT = {"rtol": 1e-11, "atol": 1e-12}


def path(start, begin, end):
    return solve_ivp(
        lambda t, y: pendulum(t, y, (0.1,)), (begin, end), start, method="DOP853", rtol=1e-12,
        atol=1e-12, dense_output=True,
    ).sol  # fmt: skip


def backward(**options):
    common = {"times": TIMES, "initial": START, "parameters": {"friction": 0.1}, "device": "cpu"}
    return integrate(FIELD, **{**common, **options})


PATHS = [path([angle, 0.1], 3.0, -0.5) for angle in START["angle"]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"method": "tsit5", **TIGHT}, 1e-9),
        ({"method": "rodas5p", "rtol": 1e-9, "atol": 1e-10}, 1e-6),
        ({"step": 0.01}, 1e-7),
    ],
)
def test_states_are_those_of_scipy(options, allowed, device):
    found = backward(device=device, **options)
    np.testing.assert_array_equal(found["time"], TIMES)
    exact = np.array([one(TIMES).T for one in PATHS])
    np.testing.assert_allclose(found["state"].values, exact, atol=allowed)


def _begin(t, y, p):
    return t, 0.0


def _update(s, t, y, f, t1, y1, f1, p):
    return min(s[0], t, t1), max(s[1], abs(f[0] - y[1]))


def _result(s, t, y, p):
    return (s[0] + 100.0 * s[1],)


def test_events_and_observables_have_the_times_and_slopes_of_the_equations():
    found = backward(
        method="tsit5", record=4, dense_output=True, **TIGHT,
        events=[ZeroCrossing(above, 1, name="up"), ZeroCrossing(above, -1, name="down")],
        observables=[
            Maximum("angle"), Mean("angle"), TimeAbove("angle", 0.2),
            Observable(_begin, _update, _result, name="earliest", size=2),
        ],
    )  # fmt: skip
    fine = np.linspace(-0.5, 3.0, 40001)
    for i, one in enumerate(PATHS):
        angle = one(fine)[0]
        np.testing.assert_allclose(
            found["observed"].values[i],
            [angle.max(), np.trapezoid(angle, fine) / 3.5, 3.5 * np.mean(angle > 0.2), -0.5],
            atol=1e-3,
        )
        gap = angle - 0.2
        # What falls forward rises on the way back.
        falls = fine[:-1][(gap[:-1] > 0) & (gap[1:] <= 0)][::-1]
        seen = found["event_time"].sel(event="up").values[i]
        np.testing.assert_allclose(seen[np.isfinite(seen)], falls, atol=1e-4)
    ends = found["step_time"].values
    assert (np.diff(ends, axis=-1)[np.isfinite(np.diff(ends, axis=-1))] <= 0).all()


def test_an_effect_sees_the_time():
    kick = ZeroCrossing(above, -1, knocked, name="kick")
    found = backward(method="tsit5", events=[kick], record=1, **TIGHT)
    when = float(found["event_time"][0, 0, 0])
    after = PATHS[0](when) + np.array([0.0, 0.3 * when])
    np.testing.assert_allclose(
        found["state"].values[0, -1], path(after, when, -0.5)(-0.5), atol=1e-7
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", [{"component": wave}, {"rhs": wave_in_place}])
@pytest.mark.parametrize("method", ["tsit5", "rk4", "rodas5p"])
def test_arrays_and_tables(form, method, device):
    knots, push = [-1.0, 0.3, 0.9, 3.0], [0.0, 1.0, -0.5, 0.25]
    field = ergode.VectorField(
        **form, variables=("x", 8), parameters=["speed"],
        constants={"push": ergode.interpolant(knots, push, kind="linear")},
    )  # fmt: skip
    start = np.sin(np.arange(8.0))
    options = {"step": 0.0025} if method == "rk4" else {"rtol": 1e-8, "atol": 1e-9}
    found = integrate(
        field, times=[2.0, 1.0, -0.5], initial={"x": start}, parameters={"speed": 1.5},
        method=method, device=device, **options,
    )  # fmt: skip
    exact = solve_ivp(
        lambda t, x: 1.5 * (np.roll(x, 1) - np.roll(x, -1)) + np.interp(t, knots, push),
        (2.0, -0.5), start, rtol=1e-10, atol=1e-11, max_step=0.05, t_eval=[2.0, 1.0, -0.5],
    )  # fmt: skip
    np.testing.assert_allclose(found["x"].values, exact.y.T, atol=2e-5)


def test_sensitivities_back_undo_those_forth():
    options = {
        "parameters": {"friction": 0.1}, "with_respect_to": ["angle", "speed"], "device": "cpu",
        "method": "tsit5", **TIGHT,
    }  # fmt: skip
    forth = ergode.trajectories.sensitivities(
        FIELD, times=[0.0, 2.0], initial={"angle": 1.0, "speed": 0.0}, **options
    )
    end = dict(zip(["angle", "speed"], forth["state"].values[-1], strict=True))
    back = ergode.trajectories.sensitivities(FIELD, times=[2.0, 0.0], initial=end, **options)
    product = back["sensitivity"].values[-1] @ forth["sensitivity"].values[-1]
    np.testing.assert_allclose(product, np.eye(2), atol=1e-8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("method", ["tsit5", "dop853", "rodas5p"])
def test_the_solution_between_times(method, precision, device):
    single = precision == "float32"
    options = {"rtol": 1e-5, "atol": 1e-6} if single else {"rtol": 1e-8, "atol": 1e-9}
    found = backward(
        method=method, dense_output=True, precision=precision, device=device, **options
    )
    times = np.random.default_rng(1).uniform(-0.5, 3.0, 200)
    exact = np.array([one(times).T for one in PATHS])
    seen = found.ergode.solution(times)
    assert seen.dims == ("trajectory", "time", "variable")
    np.testing.assert_allclose(seen.values, exact, atol=1e-3 if single else 5e-6)
    # At the times of the result it is the result.
    np.testing.assert_allclose(
        found.ergode.solution(TIMES).values, found["state"].values, atol=1e-4 if single else 1e-13
    )
    assert found.ergode.solution(1.25).dims == ("trajectory", "variable")


@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        (FIELD, {"times": [3.0, 2.0, 2.5]}, r"times must descend, but times\[2\] = 2.5"),
        (
            ergode.VectorField(
                lambda t, y, yd, p: (-yd[0],), ["angle"], ["tau"], delays=[("angle", "tau")]
            ),
            {"initial": {"angle": 1.0}, "parameters": {"tau": 1.0}},
            "times descend, and the field has delays",
        ),
        (
            ergode.VectorField(
                lambda t, y, p: (-y[0],), ["angle"], diffusion=lambda t, y, p: (0.1,)
            ),
            {"initial": {"angle": 1.0}, "parameters": {}, "step": 0.1},
            "times descend, and the field has noise",
        ),
    ],
)
def test_what_cannot_run_backward_is_refused(field, options, message):
    common = {"times": TIMES, "initial": START, "parameters": {"friction": 0.1}, "device": "cpu"}
    with pytest.raises(ergode.ErgodeError, match=message):
        integrate(field, **{**common, **options})


def test_a_result_without_steps_has_no_solution():
    found = backward(method="tsit5")
    with pytest.raises(ergode.ErgodeError, match="integrate with dense_output=True"):
        found.ergode.solution(1.0)


def test_a_part_of_a_result_has_its_solution():
    whole = backward(method="tsit5", dense_output=True)
    expected = whole.ergode.solution([0.3, 2.0])
    one = whole.isel(trajectory=1).ergode.solution([0.3, 2.0])
    np.testing.assert_array_equal(one, expected[1])
    turned = whole.transpose("variable", "power", "step", ...).ergode.solution([0.3, 2.0])
    np.testing.assert_array_equal(turned, expected)
    with pytest.raises(ergode.ErgodeError, match=r"call solution\(t\) first, then select"):
        whole.sel(variable="angle").ergode.solution(0.3)


def test_the_solution_of_a_path_with_noise_is_a_straight_line_in_a_step():
    field = ergode.VectorField(lambda t, y, p: (-y[0],), ["x"], diffusion=lambda t, y, p: (0.3,))
    found = integrate(
        field, times=[0, 0.5, 1], initial={"x": 1.0}, step=0.5, replicates=3, dense_output=True,
        method="euler-maruyama", device="cpu",
    )  # fmt: skip
    states = found["state"].values
    middle = found.ergode.solution(0.25).values
    np.testing.assert_allclose(middle, 0.5 * (states[:, 0] + states[:, 1]), rtol=1e-12)
