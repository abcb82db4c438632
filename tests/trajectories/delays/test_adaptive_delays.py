"""Delay equations with steps of the trajectories' own, against exact solutions."""

import math
from copy import deepcopy

import numpy as np
import pytest
from both_devices import on_both
from scipy.optimize import brentq

import ergode
from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.core.status import Status
from ergode.trajectories import History, Maximum, Mean, ZeroCrossing
from ergode.trajectories.adaptive.arguments import Storage
from ergode.trajectories.adaptive.bindings import bindings_of
from ergode.trajectories.adaptive.kernel import integrate_cuda
from ergode.trajectories.adaptive.outcome import Outcome, control_of
from ergode.trajectories.adaptive.resume import ENDED, RESUMES, STAGE, TRIED, Kept, rows_of
from ergode.trajectories.adaptive.runner import Runner
from ergode.trajectories.delays.history import initial_history
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers.inside_step import EVENTS


def logarithm(t, y, yd, p):
    # Of a solution of a linear equation: see test_orders.
    return (p[0] + p[1] * math.exp(yd[0] - y[0]) + p[2] * math.exp(yd[1] - y[0]),)


def past(t):
    return (math.log(1.0 + 0.5 * math.sin(3 * t)),)


def jumping(t):
    return (math.log(0.6 if t < -0.11 else 1.0 + 0.5 * math.sin(3 * t)),)


def kick_time(t, y, yd, p):
    return t - 0.43


def kick(t, y, yd, p):
    return (math.log(math.exp(y[0]) + 0.5),)


def echo_of_a_ramp(t, y, yd, p):
    return -1.0 + 0.0 * y[0], yd[0]


def dose_is_due(t, y, yd, p):
    return t - p[1]


def dose(t, y, yd, p):
    return y[0] + 2.0, y[1]


def level(t, y, yd, p):
    return y[0] - 0.2


def high(t, y, yd, p):
    return y[0] - 0.63


FIELD = ergode.VectorField(
    logarithm, ["w"], ["rate", "first", "second", "long", "short"],
    [("w", "long"), ("w", "short")],
)  # fmt: skip
PARAMETERS = {"rate": -2.0, "first": 1.5, "second": 1.0}
TIMES = np.array([0.0, 0.17, 0.61, 1.37, 2.1])


def solve(field=FIELD, **options):
    given = {"initial": {"w": math.log(1.4)}, "device": "cpu", "times": TIMES, **options}
    given["parameters"] = {**PARAMETERS, **given.get("parameters", {})}
    return ergode.trajectories.integrate(field, **given)


def smooth_past(s):
    return 1.0 + 0.5 * np.sin(3 * s)


def test_error_follows_the_tolerance(linear):
    """Delays with a common step, of each trajectory's own: all go from cell to cell together."""
    long = np.array([1 / 3, 0.5, 0.9])
    exact = [
        [math.log(linear(-2.0, 1.5, 1.0, one, 0.6 * one).solution(t, 1.4, smooth_past))
         for t in TIMES[1:]]
        for one in long
    ]  # fmt: skip
    errors, steps = [], []
    for tolerance in (1e-5, 1e-7, 1e-9):
        found = solve(
            parameters={"long": long, "short": 0.6 * long}, history=past, rtol=tolerance,
            atol=tolerance,
        )  # fmt: skip
        assert (found["status"] == Status.DONE).all()
        assert found.attrs["method"] == "tsit5" and 0 < found.attrs["cell"] < 0.2
        errors.append(np.abs(found["state"].values[:, 1:, 0] - exact).max())
        steps.append(int(found["step_count"].max()))
    assert np.all(np.array(errors) < [1e-5, 1e-7, 1e-9])
    assert steps[0] < steps[1] < steps[2]
    alone = solve(
        parameters={"long": long[1], "short": 0.6 * long[1]}, history=past, rtol=1e-5, atol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(
        alone["state"][1:, 0], exact[1], atol=1e-5
    )  # its cells may be others


MACKEY_GLASS = {"x": "0.2*x(t-tau)/(1+x(t-tau)**10)-0.1*x"}


def test_a_swept_delay_takes_the_steps_of_single_calls():
    """Cells of many widths: the last cell of most trajectories ends before its width."""
    field = ergode.field_from_equations(MACKEY_GLASS)
    options = {
        "times": [0.0, 300.0], "initial": {"x": 0.5}, "device": "cpu"
    }  # fmt: skip
    taus = np.array([5.0, 11.3, 14.7, 17.0, 22.9])
    together = ergode.trajectories.integrate(field, parameters={"tau": taus}, **options)
    alone = [ergode.trajectories.integrate(field, parameters={"tau": tau}, **options)
             for tau in taus]  # fmt: skip
    assert (together["status"] == Status.DONE).all()
    assert together.attrs["cell"] > 0.5
    steps = np.array([int(one["step_count"]) for one in alone])
    assert (together["step_count"].values < 1.6 * steps).all()  # refined by one factor for all


def test_steps_that_the_cells_of_a_history_take_are_not_stiffness():
    """800 cells per unit of time.  x' = -x(t - tau) has exp(rt), r = -exp(-r tau), in the end."""
    field = ergode.field_from_equations({"x": "-k*x(t-tau)"})
    found = ergode.trajectories.integrate(
        field, times=[0.0, 140.0, 141.0], initial={"x": 1.0}, parameters={"tau": 0.01, "k": 0.1},
        device="cpu",
    )  # fmt: skip
    assert int(found["step_count"]) > 112_000
    assert found.attrs["method"] == "tsit5" and found.attrs["stiff_trajectories"] == 0
    rate = brentq(lambda r: r + 0.1 * math.exp(-0.01 * r), -0.2, 0.0)
    x = found["state"].values[:, 0]
    assert math.log(x[2] / x[1]) == pytest.approx(rate, rel=1e-5)


def test_delays_without_a_common_step_and_a_history_that_jumps(linear):
    pairs = [(1 / 3, 1 / 5), (1 / 3, 0.2 * math.sqrt(2)), (0.3, 0.07 * math.e)]

    def before(s):
        return np.where(s < -0.11, 0.6, smooth_past(s))

    exact = [
        [math.log(linear(-2.0, 1.5, 1.0, *pair).solution(t, 1.4, before, [-0.11]))
         for t in TIMES[1:]]
        for pair in pairs
    ]  # fmt: skip
    for tolerance in (1e-5, 1e-7, 1e-9):
        found = solve(
            parameters=dict(zip(("long", "short"), np.transpose(pairs), strict=True)),
            history=History(jumping, jumps=[-0.11]), rtol=tolerance, atol=tolerance,
        )  # fmt: skip
        assert (found["status"] == Status.DONE).all()
        assert np.abs(found["state"].values[:, 1:, 0] - exact).max() < tolerance


def test_events_act_on_a_delay_equation(linear):
    u = linear(-2.0, 1.5, 1.0, 1 / 3, 0.2)

    def exact(t):
        kicked = 0.5 * u.fundamental(np.array([t - 0.43]))[0] if t >= 0.43 else 0.0
        return math.log(u.solution(t, 1.4, smooth_past) + kicked)

    found = solve(
        parameters={"long": 1 / 3, "short": 0.2}, history=past, rtol=1e-9, atol=1e-9,
        events=[ZeroCrossing(kick_time, 1, kick), ZeroCrossing(high, 1, name="first"),
                ZeroCrossing(high, 1, terminal=True, name="end")],
        times=[0.0, 0.17, 0.4, 0.6, 5.0], observables=[Maximum("w")], record=2,
    )  # fmt: skip
    np.testing.assert_allclose(
        found["state"][1:4, 0], [exact(t) for t in (0.17, 0.4, 0.6)], atol=1e-8
    )
    assert int(found["status"]) == Status.STOPPED
    assert np.isnan(found["state"].values[4]).all()
    times = found["event_time"].values[:, 0]
    reached = brentq(lambda t: exact(t) - 0.63, 0.7, 1.1, xtol=1e-13)
    np.testing.assert_allclose(times, [0.43, reached, reached], atol=1e-8)
    assert float(found["observed"][0]) == pytest.approx(0.63, abs=1e-6)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_an_event_one_rounding_after_the_end_of_a_cell(device):
    """Its jump lies at the end of a cell, of which it is no interpolation error."""
    echo = ergode.VectorField(echo_of_a_ramp, ["x", "echo"], ["tau", "when"], [("x", "tau")])
    before = np.nextafter(0.3, 0)  # then a step of a rounding follows
    when = [0.1 + 0.2, 0.3, before, np.nextafter(before, 0), 1.1 + 2.2, 6 * 0.3]
    result = ergode.trajectories.integrate(
        echo, times=[0, 6], parameters={"tau": 0.3, "when": when}, device=device,
        initial={"x": 1.0, "echo": 0.0},
        events=[ZeroCrossing(dose_is_due, effect=dose, name="dose")],
    )  # fmt: skip
    assert (result["status"] == Status.DONE).all()
    assert result.attrs["method"] == "tsit5"
    assert (result["event_count"] == 1).all()
    # x is 1 - t and 2 more after the dose; the echo is its integral one delay before.
    s = 6 - 0.3
    expected = 0.3 + s - s**2 / 2 + 2 * (s - np.array(when))
    np.testing.assert_allclose(result["state"].sel(variable="echo")[:, -1], expected, atol=1e-6)


@pytest.mark.parametrize("taus", [0.5, np.linspace(0.5, 0.58, 9)], ids=["shared", "free"])
def test_an_event_occurs_where_a_delayed_value_jumps(taus):
    """The delayed value jumps from 0 to 1 at tau; then it rises, and is above 1.2 one tau later."""
    field = ergode.VectorField(
        lambda t, y, yd, p: (yd[0],), variables=["x"], parameters=["tau"], delays=[("x", "tau")]
    )
    found = ergode.trajectories.integrate(
        field, times=[0.0, 2.0], initial={"x": np.ones(9)}, history=lambda t: (0.0,),
        parameters={"tau": taus}, device="cpu", events=[
            ZeroCrossing(lambda t, y, yd, p: yd[0] - 0.5, name="jump"),
            ZeroCrossing(lambda t, y, yd, p: yd[0] - 1.2, name="rise"),
        ],
    )  # fmt: skip
    np.testing.assert_array_equal(found["event_count"].values, 1)
    times = np.nanmax(found["event_time"].values.reshape(9, 2, -1), axis=2)
    np.testing.assert_allclose(times[:, 0], np.broadcast_to(taus, 9), rtol=1e-12)
    np.testing.assert_allclose(times[:, 1], 2 * np.broadcast_to(taus, 9) + 0.2, rtol=1e-9)


def test_samples_of_a_history():
    times = np.linspace(-0.5, 0.0, 401)
    shape = np.log(smooth_past(times))
    options = {"parameters": {"long": 0.5, "short": 0.25}, "rtol": 1e-8, "atol": 1e-8}
    wanted = solve(history=past, **options)["state"].values
    found = solve(history=History(times, shape[:, None]), **options)["state"].values
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    each = np.stack([shape, 0.0 * shape], axis=-1)[:, None, :]
    found = solve(
        history=History(times, each), initial={"w": [math.log(1.4), math.log(1.4)]}, **options
    )["state"].values
    np.testing.assert_allclose(found[0], wanted, atol=1e-8)
    assert np.abs(found[1] - wanted).max() > 0.05
    # From the states of another run.
    first = solve(history=past, times=np.linspace(0, 1, 1001), **options)["state"]
    rest = solve(history=first, times=[1.0, 2.1], initial={"w": float(first[-1, 0])}, **options)
    np.testing.assert_allclose(rest["state"][-1], wanted[-1], atol=1e-7)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (History([-0.2, 0.0], [[0.0], [0.0]]), "from -0.2 to 0; expected them from -0.5, the lon"),
        (History([-1.0, 0.0], [[0.0, 1.0]] * 2), "have 2 variables; the field has 1"),
        (History([-1.0, 0.0], np.zeros((2, 1, 3))), "are for 3 trajectories; there are 1"),
        (History(past, jumps=[0.5]), "a history jumps at 0.5; expected times before 0"),
        ([0.0], "history is list; expected a function of t, an ergode.trajectories.History"),
    ],
)
def test_bad_history_is_one_line(history, message):
    with pytest.raises(ergode.ModelError, match=message) as caught:
        solve(history=history, parameters={"long": 0.5, "short": 0.25})
    assert "\n" not in str(caught.value)


def test_bad_samples_are_one_line():
    for past_times, values, message in (
        ([0.0, -1.0], [[0.0], [0.0]], "must ascend"),
        ([0.0, 1.0], [[0.0], [np.nan]], "must be finite"),
        ([0.0, 1.0], [[0.0]], "have shape"),
        ([0.0, 1.0], None, "there are no values"),
    ):
        with pytest.raises(ergode.ModelError, match=message):
            History(past_times, values)


def own_value(t, y, yd, p):
    return (yd[0],)


def back_to_own_value(t, y, p):
    return t - y[0]


def half(t):
    return (0.5,)


OWN_VALUE = ergode.VectorField(
    own_value, ["y"], ["most"], [("y", ergode.Delay(back_to_own_value, 0.8, "most"))]
)


def test_delay_that_depends_on_the_state():
    """y' = y(y(t)), y = 1/2 before t = 2, y(2) = 1: breaks at 4 and 4 + 2 log 2."""
    field = ergode.VectorField(
        own_value, ["y"], ["least", "most"],
        [("y", ergode.Delay(back_to_own_value, "least", "most"))],
    )  # fmt: skip
    times = [2.0, 3.0, 4.5, 5.5]
    # From the last break on y' = 2 exp((y - 4) / 2), so exp(-(y - 4) / 2) falls by 1 a unit.
    last = 4.0 - 2.0 * math.log(1.0 - (5.5 - 4.0 - 2.0 * math.log(2.0)))
    exact = [1.0, 1.5, 2.0 * math.exp(0.25), last]
    assert last == pytest.approx(4.241412295, abs=1e-8)
    # A jump of no size: the kernel is that of the equations without a solution.
    past = History(half, jumps=[1.9])
    for tolerance in (1e-5, 1e-7, 1e-9):
        found = ergode.trajectories.integrate(
            field, times=times, initial={"y": 1.0}, history=past, rtol=tolerance, atol=tolerance,
            parameters={"least": [0.9, 0.9, 1.3], "most": [2.2, 1.5, 2.2]}, device="cpu",
        )  # fmt: skip
        np.testing.assert_allclose(found["state"][0, :, 0], exact, atol=tolerance)
        # The delay is 1 at first and 2 at t = 4.
        np.testing.assert_array_equal(
            found["status"], [Status.DONE, Status.DELAY_OUT_OF_RANGE, Status.DELAY_OUT_OF_RANGE]
        )
        assert int(found["step_count"][0]) < 300
    with pytest.raises(ergode.PlanError, match="not for delays that depend on the state"):
        ergode.trajectories.integrate(
            field, times=times, initial={"y": 1.0}, parameters={"least": 1, "most": 2},
            method="rodas5p",
        )  # fmt: skip


def sum_of_own_past(t, y, yd, p):
    return 0.0, yd[0]


def own_lag(t, y, p):
    return 1.0 + y[0]


def rise(t):
    return t, 0.0


def two_or_four(t, y, yd, p):
    return (t - 2.0) * (4.0 - t)


def change_lag(t, y, yd, p):
    return 1.5 - y[0], y[1]


INSIDE = {"method": "dop853", "observables": [Mean("sum")], "dense_output": True}
OWN_LAG = ergode.VectorField(
    sum_of_own_past, ["lag", "sum"], delays=[("lag", ergode.Delay(own_lag, 0.5, 3.0))]
)
CHANGES = ZeroCrossing(two_or_four, effect=change_lag)


def sum_of_jumping_past():
    """At steps of 1e-4. The delayed time jumps from 1 to -0.5 at time 2, from 1.5 to 3 at 4."""
    fine = np.linspace(0.0, 5.0, 50_001)
    middle = 0.5 * (fine[1:] + fine[:-1])
    delayed = middle - np.where((middle > 2) & (middle < 4), 2.5, 1.0)
    return np.r_[0.0, np.cumsum(1e-4 * np.where(delayed < 0, delayed, 1.5 * (delayed > 2)))]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "options", [{"method": "rk4", "step": 0.05}, INSIDE], ids=["rk4", "dop853"]
)
def test_an_effect_moves_a_delay_over_breaking_points(options):
    # The delayed time jumps back over the end of the history, and later ahead over the first event.
    # The extra stages of the dense output of "dop853" must read the history as the step has done.
    times = np.linspace(0.0, 5.0, 101)
    found = ergode.trajectories.integrate(
        OWN_LAG, times=times, initial={"lag": 0.0, "sum": 0.0}, history=rise, device="cpu",
        events=[CHANGES], **options,
    )  # fmt: skip
    exact = sum_of_jumping_past()
    assert found["status"] == Status.DONE
    np.testing.assert_allclose(found["state"][:, 1], exact[::500], atol=1e-8)
    if "dense_output" in options:
        dense = found.ergode.solution(times)[:, 1]
        np.testing.assert_allclose(dense, exact[::500], atol=1e-8)
        mean = np.mean(0.5 * (exact[1:] + exact[:-1]))
        assert float(found["observed"][0]) == pytest.approx(mean, abs=1e-8)


def two_delays(t, y, yd, p):
    return -1.3 * yd[0] + 0.3 * yd[1], y[0] - y[1]


def tanh_lag(t, y, p):
    return 1.0 + 0.5 * math.tanh(y[0])


def sine_lag(t, y, p):
    return 0.8 + 0.32 * math.sin(t)


def line(t):
    return 1.0 + 0.2 * t, 0.5


def is_empty(t, y, yd, p):
    return y[0]


def fill(t, y, yd, p):
    return y[0] + 0.3, y[1]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"method": "rk4", "step": 0.01}, 1e-7),
        ({"method": "tsit5", "rtol": 1e-9, "atol": 1e-11}, 1e-8),
    ],
)
def test_effects_with_two_delays_that_depend_on_the_state(options, error):
    # A fixed step overwrites breakpoints, reads wrong values and must be repeated. The reference
    # is SciPy's DOP853 at 1e-13, from one breaking point to the next.
    lags = [
        ("x", ergode.Delay(tanh_lag, least=0.5, most=1.5)),
        ("z", ergode.Delay(sine_lag, least=0.3, most=2.0)),
    ]
    found = ergode.trajectories.integrate(
        ergode.VectorField(two_delays, ["x", "z"], delays=lags),
        times=[0, 15], initial={"x": 1.0, "z": 0.5}, history=line, device="cpu", record=9,
        events=[ZeroCrossing(is_empty, -1, effect=fill)], **options,
    )  # fmt: skip
    hits = [1.0365836235999741, 1.3385753823644175, 2.4958081560847485, 4.611123584311009]
    np.testing.assert_allclose(found["event_time"][0, :4], hits, atol=error)
    np.testing.assert_allclose(found["state"][-1], [0.17386666, 0.18148876], atol=error)


def twice(t, y, yd, p):
    return -1.0, yd[0], yd[1]


def swinging_lag(t, y, p):
    return 1.5 + p[0] * math.sin(p[1] * t)


def tent(t):
    return t, 0.0, 0.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [{"method": "dop853"}, {"method": "rk4", "step": 0.01}])
def test_two_delays_move_back_and_forth_over_breaking_points(options):
    """x is -|t|: both sums are the integral of -|t - lag|, which has breaking points at all times.

    The second delay stayed behind where both move back. Pieces between two breaking points are
    as short as 1e-9, and polynomials of these were extrapolated.
    """
    both = [("x", ergode.Delay(swinging_lag, least=0.1, most=3.0))] * 2
    speeds = np.array([[1.2, 3.0], [1.39, 9.0], [0.5, 2.0]])
    found = ergode.trajectories.integrate(
        ergode.VectorField(twice, ["x", "first", "second"], ["size", "speed"], delays=both),
        times=[0, 8], initial={"x": 0.0, "first": 0.0, "second": 0.0}, history=tent, device="cpu",
        parameters={"size": speeds[:, 0], "speed": speeds[:, 1]}, **options,
    )  # fmt: skip
    assert (found["status"] == Status.DONE).all()
    times = np.linspace(0, 8, 400_001)[:, None]
    delayed = times - 1.5 - speeds[:, 0] * np.sin(speeds[:, 1] * times)
    exact = np.trapezoid(-np.abs(delayed), dx=2e-5, axis=0)
    np.testing.assert_allclose(found["state"][:, -1, 1], exact, atol=1e-6)
    np.testing.assert_allclose(found["state"][:, -1, 2], exact, atol=1e-6)


def test_more_breakpoints_than_are_kept_at_first():
    """A trajectory that is kicked 48 times within its delay was flagged; now it is exact."""
    echo = ergode.VectorField(
        lambda t, y, yd, p: (yd[0],), ["y"], ["tau"], delays=[("y", "tau")]
    )  # fmt: skip
    kick = ZeroCrossing(
        lambda t, y, yd, p: math.sin(300.0 * t), 1,
        effect=lambda t, y, yd, p: (y[0] + 0.01,), name="kick",
    )  # fmt: skip
    found = ergode.trajectories.integrate(
        echo, times=[0.0, 1.0, 2.0], initial={"y": 1.0}, parameters={"tau": [1.0, 4.0]},
        events=[kick], max_step=0.005, device="cpu:1",
    )  # fmt: skip
    assert found["status"].values.tolist() == [0, 0]
    kicks = 2 * math.pi / 300 * np.arange(48)  # one at the start
    before = kicks.size, 1 + int(2 * 300 / (2 * math.pi))
    np.testing.assert_array_equal(found["event_count"].values[:, 0], before[1])
    exact = [2 + 0.01 * before[0], 3.5 + 0.01 * (before[1] + (1 - kicks).sum())]
    np.testing.assert_allclose(found["state"].values[0, 1:, 0], exact, rtol=1e-6)
    np.testing.assert_allclose(found["state"].values[1, 2, 0], 3 + 0.01 * before[1], rtol=1e-6)


def test_bad_delays_are_one_line():
    for delay, message in (
        (ergode.Delay(back_to_own_value, 2.0, 1.0), "between 2.0 and 1.0; expected positive num"),
        (ergode.Delay(back_to_own_value, "tau", 1.0), "names the parameter 'tau', which is not"),
        (ergode.Delay(half, 0.5, 1.0), r"delay of 'y' is half\(t\); expected half\(t, y, p\)"),
    ):
        with pytest.raises(ergode.ModelError, match=message) as caught:
            ergode.VectorField(own_value, ["y"], [], [("y", delay)])
        assert "\n" not in str(caught.value)


def test_stiff_method_with_delays_whose_every_step_is_kept(linear):
    exact = [
        math.log(linear(-60.0, 40.0, 15.0, 0.5, 0.25).solution(t, 1.4, smooth_past))
        for t in TIMES[1:3]
    ]
    found = solve(
        parameters={"rate": -60.0, "first": [40.0, 1.5], "second": 15.0, "long": 0.5,
                    "short": 0.25},
        times=TIMES[:3], rtol=1e-6, atol=1e-6, history=past, method="rodas5p", every_step=True,
    )  # fmt: skip
    np.testing.assert_allclose(found["state"][0, 1:, 0], exact, atol=1e-5)
    counts = found["step_count"].values
    assert found.sizes["step"] == counts.max() + 1
    for i, count in enumerate(counts):
        times = found["step_time"].values[i]
        assert times[0] == 0.0 and times[count] == TIMES[2] and np.isnan(times[count + 1 :]).all()
        assert (np.diff(times[: count + 1]) > 0).all()
        np.testing.assert_array_equal(found["step_state"][i, count], found["state"][i, -1])


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", ["shared", "free", "state"])
def test_cuda_kernel_in_several_launches_compiles(case, cuda_arguments, compiles_to_registers):
    run, out, storage = cuda_arguments("float32")
    number, rows = np.int64(1), np.ones((9, 1), np.float32)
    kept = Kept(number, number, number, rows, np.ones((4, 1), np.int64))
    bindings = _bindings(case) | {RESUMES: True}
    compiles_to_registers(bindings, "float32", (run, out, storage._replace(kept=kept)))


@pytest.mark.parametrize("case", ["shared", "free", "state"])
def test_cuda_kernel_compiles_to_registers_of_its_precision(case, compiles_to_registers):
    compiles_to_registers(_bindings(case), "float32")


def _bindings(case):
    free = case == "free"
    field = OWN_VALUE if case == "state" else FIELD
    rows = {name: np.full(1, 2.2) for name in (*field.variables, *field.parameters)}
    given = {"shared": past, "free": History(jumping, jumps=[-0.11]), "state": half}[case]
    control = control_of({"events": [ZeroCrossing(kick_time, 1, kick)] if free else []})
    known = initial_history(field, given, 0.0, rows, 1)
    return bindings_of(field, METHODS["tsit5"], control, "float32", known, case == "shared")


def _as_python(free, method, run_as_python, times=TIMES):
    """What the text of the CUDA kernel has found, and what it was given; the runner, its mesh."""
    count, tolerance = 2, 1e-6
    initial, parameters = np.full((1, count), math.log(1.4)), np.ones((5, count))
    parameters[:] = np.array([[-2.0], [1.5], [1.0], [0.5], [0.3]])
    rows = dict(zip((*FIELD.variables, *FIELD.parameters), (*initial, *parameters), strict=True))
    jump = [-0.11] if free else []
    known = initial_history(FIELD, History(jumping if free else past, jumps=jump), 0.0, rows, count)
    options = {"rtol": tolerance, "atol": np.full(1, tolerance)}
    if free:
        powers = METHODS[method].powers
        options |= {"events": [ZeroCrossing(level, -1)], "recorded": 1, "step_log": 500,
                    "powers": powers}  # fmt: skip
    found = _text_run(
        FIELD, METHODS[method], control_of(options), known, times, (initial, parameters),
        run_as_python,
    )  # fmt: skip
    assert found[-1].shared == (not free)
    return found


def _text_run(field, method, control, known, times, given, run_as_python):
    initial, parameters = given
    size, count = initial.shape
    runner = Runner(
        field, method, control, times=times, device=resolve("cpu:1"), precision="float64",
        history=known,
    )  # fmt: skip
    plan = runner.plan(parameters, 1 / 20)
    kernel = kernels.cuda_kernel(
        integrate_cuda, bindings=bindings_of(field, method, control, "float64", known, plan.shared)
    )
    outcome = Outcome.empty(times.size, size, control, count, "float64")
    storage = Storage(
        *(np.full(shape, -1 if number == 2 else np.nan, int if number == 2 else float)
          for number, shape in enumerate(runner.storage_shapes(plan, count)))
    )  # fmt: skip
    run = runner.arguments(initial, parameters, plan, np.inf, np.arange(count))
    run_as_python(kernel, count + 1, run, outcome.arrays(), storage)
    return kernel, run, outcome, storage, runner, plan


def test_an_effect_moves_a_delay_in_the_kernel_run_as_python(run_as_python):
    """As `test_an_effect_moves_a_delay_over_breaking_points`, without a compiler."""
    initial, times = np.zeros((2, 1)), np.linspace(0.0, 5.0, 11)
    rows = dict(zip(OWN_LAG.variables, initial, strict=True))
    known = initial_history(OWN_LAG, rise, 0.0, rows, 1)
    control = control_of({"step": 0.05, "events": [CHANGES]})
    outcome = _text_run(
        OWN_LAG, METHODS["rk4"], control, known, times, (initial, np.zeros((0, 1))), run_as_python
    )[2]
    np.testing.assert_array_equal(outcome.status, Status.DONE)
    np.testing.assert_allclose(outcome.states[:, 1, 0], sum_of_jumping_past()[::5_000], atol=1e-8)


@pytest.mark.parametrize("case", ["later", "at once"])
def test_no_solution_in_the_kernel_run_as_python(case, run_as_python):
    """As `test_equations_without_a_solution_that_goes_on`, without a compiler."""
    field, past, times, initial, parameters = without_solution(case)
    rows = {"y": initial}
    known = initial_history(field, past, 0.0, rows, initial.size)
    outcome = _text_run(
        field, METHODS["tsit5"], control_of({}), known, times,
        (initial[None], parameters), run_as_python,
    )[2]  # fmt: skip
    check_no_solution(case, outcome.status, outcome.states[:, 0].T)


@pytest.mark.parametrize("method", ["tsit5", "rodas5p"])
@pytest.mark.parametrize("free", [False, True])
def test_cuda_kernel_run_as_python_is_exact(free, method, linear, run_as_python):
    """The text of the CUDA kernel: cells that are shared, or, with a jump, each its own."""
    jump, powers = [-0.11] if free else [], METHODS[method].powers
    outcome = _as_python(free, method, run_as_python)[2]

    def before(s):
        return np.where((s < -0.11) & free, 0.6, smooth_past(s))

    u = linear(-2.0, 1.5, 1.0, 0.5, 0.3)
    exact = [math.log(u.solution(t, 1.4, before, jump)) for t in TIMES[1:]]
    np.testing.assert_array_equal(outcome.status, Status.DONE)
    np.testing.assert_allclose(outcome.states[1:, 0], np.transpose([exact, exact]), atol=1e-7)
    assert (outcome.interpolation_errors > 0).all() and (outcome.interpolation_errors < 1).all()
    if free:
        ends, states = outcome.step_log[:, 0, 0], outcome.step_log[:, 1, 0]
        n = np.searchsorted(ends[np.isfinite(ends)], 1.01)  # within this step
        size, coefficients = outcome.step_log[n, 2, 0], outcome.step_log[n, 3:, 0]
        x = (1.01 - ends[n - 1]) / size
        inside = states[n - 1] + sum(c * x**k for k, c in enumerate(coefficients, 1))
        exact = math.log(u.solution(1.01, 1.4, before, jump))
        assert inside == pytest.approx(exact, abs=1e-6) and len(coefficients) == powers
        time = float(outcome.hits[0, 0, 0, 0])
        assert math.log(u.solution(time, 1.4, before, jump)) == pytest.approx(0.2, abs=1e-7)


def test_cuda_kernel_run_as_python_whose_last_cell_is_short(run_as_python):
    """What follows the last whole cell is not read, and has no interpolation error."""
    times = np.array([0.0, 1.188])
    _, run, outcome, _, runner, plan = _as_python(False, "tsit5", run_as_python, times)
    cells = 1.188 / plan.width[0]
    assert 0.2 < cells % 1 < 0.8
    initial, parameters = run.initial[:, :1], run.parameters[:, :1]
    alone = runner._run(initial, parameters, plan, np.inf, np.arange(1), False)
    np.testing.assert_allclose(outcome.interpolation_errors, alone.interpolation_errors[0], 1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["tsit5", "rodas5p"])
@pytest.mark.parametrize("free", [False, True])
def test_cuda_kernel_run_as_python_in_several_launches(free, method, run_as_python):
    """Of two cells or three steps each: the same bits."""
    kernel, run, outcome, storage = _as_python(free, method, run_as_python)[:4]
    is_shared = not free
    bindings = kernel.bindings | {RESUMES: True}
    kernel = kernels.cuda_kernel(integrate_cuda, bindings=bindings)
    count = outcome.status.size
    for array in storage[:2]:
        array[:] = np.nan
    rows = np.full((rows_of(1, bindings.get(EVENTS, 0), 0), count), np.nan)
    kept = Kept(0, 0, int(run.most), rows, np.zeros((4, count), int))
    again = deepcopy(outcome)
    for array in again.arrays():
        array[...] = np.nan if array.dtype.kind == "f" else 0
    again.step_log[:] = outcome.step_log
    launches = 0
    while (kept.counts[STAGE] != ENDED).any():
        limits = {"cell": 2 * launches, "until": 2 * launches + 2} if is_shared else {}
        here = run if is_shared else run._replace(most=int(kept.counts[TRIED].max()) + 3)
        limited = storage._replace(kept=kept._replace(**limits))
        run_as_python(kernel, count + 1, here, again.arrays(), limited)
        launches += 1
    assert launches > 3
    for name, one, other in zip(
        again.arrays()._fields, again.arrays(), outcome.arrays(), strict=True
    ):
        np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.cuda
def test_a_swept_delay_takes_the_same_steps_on_cuda():
    field = ergode.field_from_equations(MACKEY_GLASS)
    cpu, gpu = on_both(
        ergode.trajectories.integrate, field, times=[0.0, 1000.0], initial={"x": 0.5},
        parameters={"tau": np.linspace(2, 25, 200)},
    )  # fmt: skip
    np.testing.assert_array_equal(gpu["status"], Status.DONE)
    assert gpu.attrs["cell"] == pytest.approx(cpu.attrs["cell"], rel=0.3)
    assert gpu.attrs["steps_taken"] == pytest.approx(cpu.attrs["steps_taken"], rel=0.1)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["tsit5", "rodas5p"])
@pytest.mark.parametrize("case", ["shared", "free", "state"])
def test_cuda_agrees_with_cpu(case, method):
    long = np.linspace(0.3, 0.9, 300)
    options = {"rtol": 1e-8, "atol": 1e-8, "method": method, "history": past}
    field, parameters = FIELD, {**PARAMETERS, "long": long, "short": 0.6 * long}
    initial, times = {"w": math.log(1.4)}, TIMES
    if case == "free":
        parameters["short"] = 0.2
        options |= {
            "events": [ZeroCrossing(kick_time, 1, kick)],
            "history": History(jumping, jumps=[-0.11]),
        }  # fmt: skip
    if case == "state":
        if method == "rodas5p":
            pytest.skip("not for delays that depend on the state")
        field = OWN_VALUE
        parameters, times = {"most": np.linspace(2.05, 2.5, 300)}, [2.0, 3.0, 4.5, 5.5]
        initial, options["history"] = {"y": 1.0}, half
    cpu, gpu = on_both(
        ergode.trajectories.integrate, field, times=times, initial=initial, parameters=parameters,
        **options,
    )  # fmt: skip
    np.testing.assert_array_equal(gpu["status"], cpu["status"])
    np.testing.assert_allclose(gpu["state"], cpu["state"], rtol=1e-7, atol=1e-7)


def read_back(t, y, yd, p):
    return yd[0], 0.0


def quick_lag(t, y, p):
    return 1.0 + 0.9 * math.sin(p[0] * t)


def step_of_the_past(t):
    return 0.0, 1.0 if t >= -1.0 else -1.0


def test_a_delayed_time_that_begins_on_a_jump_reads_the_side_to_which_it_moves():
    """It read the side after the jump for ever, or took 6,300 steps at the highest rate."""
    field = ergode.VectorField(
        read_back, ["y", "z"], ["rate"], [("z", ergode.Delay(quick_lag, 0.05, 2.0))]
    )
    rates = np.array([0.5, 5.0, 25.0, 50.0])
    found = ergode.trajectories.integrate(
        field, times=[0, 1], initial={"y": 0.0, "z": 1.0}, parameters={"rate": rates},
        history=History(step_of_the_past, jumps=[-1.0]), device="cpu",
    )  # fmt: skip
    t = (np.arange(2_000_000) + 0.5) / 2_000_000
    delayed = t - 1.0 - 0.9 * np.sin(rates[:, None] * t)
    exact = np.where(delayed >= -1.0, 1.0, -1.0).mean(axis=1)
    np.testing.assert_allclose(found["state"][:, -1, 0], exact, atol=1e-5)
    # What is delayed does not depend on delayed values: it has no further breaking points.
    assert (found["step_count"] < 150).all()


def fall_to_five(t, y, yd, p):
    return (p[0] - yd[0],)


def square_lag(t, y, p):
    return 2.0 + y[0] * y[0]


def high_or_low(t):
    return (4.5 if t < -1.0 else -0.5,)


def next_lag(t, y, p):
    return 1.0 + y[0]


def minus_two_after_jump(t):
    return (-2.0 if t >= -1.0 else 0.0,)


def without_solution(case):
    """Field, history, times, initial states and parameters."""
    names = ["source", "spare"]  # as many as in `test_delay_that_depends_on_the_state`
    if case == "later":  # Guglielmi, Hairer: no solution after 125 / 121, for 5 of the sources
        field = ergode.VectorField(
            fall_to_five, ["y"], names, [("y", ergode.Delay(square_lag, 1.9, 9.0))]
        )
        past, initial, sources = History(high_or_low, jumps=[-1.0]), [-0.5, -0.5], [5.0, 4.9]
        times = np.array([0.0, 0.5, 1.0, 1.03, 1.1])
    else:  # the delayed time begins on the jump, and both sides lead to the other
        field = ergode.VectorField(
            fall_to_five, ["y"], names, [("y", ergode.Delay(next_lag, 0.5, 3.0))]
        )
        past, initial = History(minus_two_after_jump, jumps=[-1.0]), [0.0, 0.0]
        sources, times = [0.0, -1.5], np.array([0.0, 0.1, 0.2])
    return field, past, times, np.array(initial), np.array([sources, [0.0, 0.0]])


def check_no_solution(case, status, states):
    assert status[0] == Status.NO_SOLUTION
    if case == "later":
        np.testing.assert_allclose(states[0, :4], [-0.5, -0.25, 0.0, 0.165], atol=1e-7)
        assert np.isnan(states[0, 4])
    else:
        assert states[0, 0] == 0.0
        assert np.isnan(states[0, 1:]).all()
        # y' = -1.5 + 2 after the jump: the delayed time moves ahead, and goes on.
        assert status[1] == Status.DONE
        np.testing.assert_allclose(states[1], [0.0, 0.05, 0.1], atol=1e-7)


@pytest.mark.parametrize("case", ["later", "at once"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_equations_without_a_solution_that_goes_on(case, device):
    """The delayed time went back and forth over the jump, with the status DONE."""
    field, past, times, initial, parameters = without_solution(case)
    with pytest.warns(ergode.FailureWarning, match="no solution"):
        found = ergode.trajectories.integrate(
            field, times=times, initial={"y": initial}, history=past,
            parameters=dict(zip(field.parameters, parameters, strict=True)),
            device=device, every_step=case == "later",
        )  # fmt: skip
    check_no_solution(case, found["status"].values, found["state"].values[..., 0])
    if case == "later":
        last = np.nanmax(found["step_time"].values[0])
        assert last == pytest.approx(125 / 121, abs=1e-9)


def feed_back(t, y, yd, p):
    return (-yd[0],)


def step_of_one(t):
    return (1.0 if t >= -1.0 else -1.0,)


def fed_back(rates, count=100_000):
    """y(1) of y' = -y(t - 1 - 0.9 sin(rate t)) by the midpoint rule, with lines for the history."""
    h, y = 1.0 / count, np.ones((count + 1, rates.size))
    late = (np.arange(count) + 0.5)[:, None] - (1.0 + 0.9 * np.sin(rates * h * (
        np.arange(count) + 0.5)[:, None])) / h  # fmt: skip
    cells, which = np.floor(late).astype(int), np.arange(rates.size)
    for n in range(count):
        j = np.maximum(cells[n], 0)
        value = y[j, which] + (late[n] - j) * (y[j + 1, which] - y[j, which])
        past = np.where(late[n] * h >= -1.0, 1.0, -1.0)
        y[n + 1] = y[n] - h * np.where(late[n] < 0.0, past, value)
    return y[-1]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"method": "rk4", "step": 0.002}])
def test_a_delay_that_varies_quickly(options):
    """It missed a crossing of a breaking point: .642 for .653, and wrong from the start by rk4."""
    field = ergode.VectorField(
        feed_back, ["y"], ["rate"], [("y", ergode.Delay(quick_lag, 0.05, 2.0))]
    )
    rates = np.array([5.0, 10.0, 25.0, 50.0])
    found = ergode.trajectories.integrate(
        field, times=[0, 1], initial={"y": 1.0}, parameters={"rate": rates}, device="cpu",
        history=History(step_of_one, jumps=[-1.0]), **options,
    )  # fmt: skip
    assert (found["status"] == Status.DONE).all()
    np.testing.assert_allclose(found["state"][:, -1, 0], fed_back(rates), atol=5e-5)


@pytest.mark.slow
def test_steps_of_a_delay_that_varies_quickly_do_not_multiply():
    """Every breaking point made many others: 6,580 steps at the highest rate, with error 8e-6."""
    field = ergode.VectorField(
        feed_back, ["y"], ["rate"], [("y", ergode.Delay(quick_lag, 0.05, 2.0))]
    )
    rates = np.array([5.0, 25.0])
    found = {
        rtol: ergode.trajectories.integrate(
            field,
            times=[0, 2],
            initial={"y": 1.0},
            parameters={"rate": rates},
            device="cpu",
            rtol=rtol,
            atol=rtol,
        )
        for rtol in (1e-5, 1e-7)
    }
    exact = [midpoint(rate, 2.0, 1_000_000) for rate in rates]
    for rtol, one in found.items():
        assert (one["status"] == Status.DONE).all()
        assert one["state"].values[:, -1, 0] == pytest.approx(exact, abs=20 * rtol)
    assert (found[1e-5]["step_count"] < 1_000).all()


def midpoint(rate, end, count):
    """y(end) of `fed_back` for one rate, without a jump of the history."""
    h, y = end / count, [1.0]
    for n in range(count):
        t = (n + 0.5) * h
        late = max(t - 1.0 - 0.9 * math.sin(rate * t), 0.0) / h
        j = int(late)
        value = y[j] + (late - j) * (y[min(j + 1, n)] - y[j])
        y.append(y[n] - h * value)
    return y[-1]
