"""Steps of the trajectories' own: orders, tolerances, dense output, neighbours, targets."""

import math

import numpy as np
import pytest
from both_devices import on_both

import ergode
from ergode.core.status import Status
from ergode.trajectories.adaptive.bindings import bindings_of
from ergode.trajectories.adaptive.outcome import control_of
from ergode.trajectories.methods import METHODS


def lorenz(t, y, p):
    return p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]


def forced(t, y, p):
    return y[1] + p[0] * math.exp(-t), -y[0]


def explosion(t, y, p):
    return y[0] * y[0], 0.0, 0.0


LORENZ = ergode.VectorField(lorenz, ["x", "y", "z"], ["sigma", "rho", "beta"])
EXPLOSION = ergode.VectorField(explosion, LORENZ.variables, LORENZ.parameters)  # of its kernels
FORCED = ergode.VectorField(forced, ["x", "y"], ["push"])
START = {"x": 1.0, "y": 1.0, "z": 1.0}
USUAL = {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
EXPLICIT = ["tsit5", "dopri5", "dop853"]


def solve(field, **options):
    return ergode.trajectories.integrate(field, **{"device": "cpu", **options})


def exact_forced(t):
    """The solution from (1, 0) with push 1."""
    t = np.asarray(t)
    x = 0.5 * (3 * np.cos(t) + np.sin(t) - np.exp(-t))
    y = 0.5 * (np.cos(t) - 3 * np.sin(t) - np.exp(-t))
    return np.stack([x, y], axis=-1)


def of_size(method, step, times=(0.0, 4.0)):
    """With steps of one size: an event, which never happens, keeps it off the other engine."""
    return solve(
        FORCED, times=list(times), initial={"x": 1.0, "y": 0.0}, parameters={"push": 1.0},
        method=method, step=step, observables=[ergode.trajectories.Mean("x")],
    )  # fmt: skip


@pytest.mark.parametrize("method", EXPLICIT)
def test_order_of_steps_and_of_what_is_between(method):
    order = METHODS[method].order
    finest = 1 / 64 if order == 5 else 1 / 4
    steps = [4 * finest, 2 * finest, finest]
    errors, between = [], []
    for step in steps:
        result = of_size(method, step, (0.0, 0.3 * step, 0.6 * step, 4.0))["state"].values
        errors.append(np.abs(result[-1] - exact_forced(4.0)).max())
        between.append(np.abs(result[1:3] - exact_forced([0.3 * step, 0.6 * step])).max())
    ratios = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(ratios[-1], order, atol=0.15)
    # One step: the error between its ends is of one order more than the interpolant's.
    local = np.log2(between[1] / between[2])
    assert local > (4.8 if order == 5 else 7.5)


def test_tolerance_is_kept_and_pays():
    for method in EXPLICIT:
        errors, counts = [], []
        for rtol in (1e-6, 1e-8, 1e-10):
            result = solve(
                FORCED, times=[0.0, 20.0], initial={"x": 1.0, "y": 0.0}, parameters={"push": 1.0},
                method=method, rtol=rtol, atol=rtol,
            )  # fmt: skip
            errors.append(np.abs(result["state"].values[-1] - exact_forced(20.0)).max())
            counts.append(int(result["step_count"]))
            assert result.attrs["method"] == method
        assert np.all(np.array(errors) < [1e-5, 1e-7, 1e-9])
        # Steps grow as the tolerance to the power of -1 / order.
        growth = math.log(counts[2] / counts[0]) / math.log(1e4)
        assert growth == pytest.approx(1 / METHODS[method].order, rel=0.2)


def test_auto_says_why():
    result = solve(LORENZ, times=[0, 1], initial=START, parameters=USUAL)
    assert result.attrs["method"] == "tsit5"
    assert "no step was given" in result.attrs["method_reason"]


def test_dense_output_on_a_fine_grid():
    times = np.linspace(0.0, 7.0, 200)
    result = solve(
        FORCED, times=times, initial={"x": 1.0, "y": 0.0}, parameters={"push": 1.0},
        rtol=1e-9, atol=1e-9,
    )  # fmt: skip
    assert int(result["step_count"]) < 150
    np.testing.assert_allclose(result["state"], exact_forced(times), atol=2e-8)


def test_neighbours_threads_and_times_do_not_matter():
    rhos = np.linspace(0.0, 40.0, 700)
    options = {"times": [0.0, 2.0], "initial": START, "rtol": 1e-6}
    one = solve(
        LORENZ, parameters={"sigma": 10.0, "beta": 8 / 3, "rho": rhos},
        **{**options, "device": "cpu:1"},
    )  # fmt: skip
    two = solve(
        LORENZ, parameters={"sigma": 10.0, "beta": 8 / 3, "rho": rhos},
        **{**options, "times": [0.0, 0.3, 0.9, 2.0], "device": "cpu:2"},
    )  # fmt: skip
    np.testing.assert_array_equal(one["state"][:, -1], two["state"][:, -1])
    np.testing.assert_array_equal(one["step_count"], two["step_count"])
    alone = solve(LORENZ, parameters={"sigma": 10.0, "beta": 8 / 3, "rho": rhos[699]}, **options)
    np.testing.assert_array_equal(alone["state"], one["state"][699])


def test_what_cannot_go_on_is_flagged():
    start = np.array([0.1, 2.0, 0.1])
    options = {"parameters": USUAL, "method": "tsit5"}
    initial = {"x": start, "y": 0.0, "z": 0.0}
    result = solve(EXPLOSION, times=[0.0, 0.4, 4.0], initial=initial, **options)
    assert result["status"].values[1] in (Status.STEP_TOO_SMALL, Status.NOT_FINITE)
    np.testing.assert_array_equal(result["status"].values[[0, 2]], Status.DONE)
    np.testing.assert_allclose(result["state"][:, 1, 0], start / (1 - 0.4 * start), rtol=1e-5)
    assert np.isnan(result["state"].values[1, 2, 0])
    assert result["state"].values[0, 2, 0] == pytest.approx(0.1 / 0.6, rel=1e-6)
    few = solve(EXPLOSION, times=[0.0, 4.0], initial={**initial, "x": 0.1}, max_steps=2, **options)
    assert int(few["status"]) == Status.TOO_MANY_STEPS
    assert int(few["step_count"]) == 2


def test_control_at_its_limits():
    # An error of zero, tolerances that allow anything, and stages that overflow to NaN.
    start = np.array([0.0, 1e-300, 0.1, 1e200, 0.1])
    options = {
        "times": [0.0, 4.0], "initial": {"x": start, "y": 0.0, "z": 0.0}, "method": "tsit5",
        "parameters": USUAL,
    }  # fmt: skip
    result = solve(EXPLOSION, **options)
    np.testing.assert_array_equal(result["state"][[0, 1], 1, 0], start[:2])
    assert (result["step_count"][[0, 1]] <= 12).all()  # five times as long, one after another
    assert result["status"].values[3] == Status.NOT_FINITE
    np.testing.assert_array_equal(result["status"].values[[0, 1, 2, 4]], Status.DONE)
    np.testing.assert_array_equal(result["state"][2], result["state"][4])
    loose = solve(EXPLOSION, **options, rtol=1.0, atol=1e300)
    np.testing.assert_array_equal(loose["status"].values[[0, 1, 2, 4]], Status.DONE)
    assert (loose["step_count"][[0, 1, 2, 4]] <= 12).all()
    assert loose["state"].values[2, 1, 0] == pytest.approx(0.1 / 0.6, rel=0.02)


def test_largest_step_and_one_time():
    options = {"initial": {"x": 1, "y": 0}, "parameters": {"push": 1.0}}
    assert int(solve(FORCED, times=[0, 1], max_step=0.01, **options)["step_count"]) >= 100
    result = solve(FORCED, times=[3.0], **options)
    np.testing.assert_array_equal(result["state"], [[1.0, 0.0]])


def test_method_without_an_estimate_needs_a_step():
    with pytest.raises(ergode.PlanError, match="method 'rk4' does not estimate its error; give a"):
        solve(
            FORCED, times=[0, 1], initial={"x": 1, "y": 0}, parameters={"push": 1.0},
            method="rk4", observables=[ergode.trajectories.Mean("x")],
        )  # fmt: skip


def falling(t, y, p):
    return y[1], -p[0]


def height(t, y, p):
    return y[0]


def bounce(t, y, p):
    return 0.0, -0.8 * y[1]


BALL = ergode.VectorField(falling, ["height", "speed"], ["gravity"])
EVENTS = [ergode.trajectories.ZeroCrossing(height, -1, bounce, name="impact")]
OBSERVABLES = [ergode.trajectories.Maximum("height")]


@pytest.mark.parametrize(
    ("method", "precision"), [("tsit5", "float32"), ("tsit5", "float64"), ("dop853", "float32")]
)
def test_cuda_kernel_compiles_to_registers_of_its_precision(
    method, precision, cuda_arguments, compiles_to_registers
):
    options = {"events": EVENTS, "observables": OBSERVABLES, "recorded": 2}
    run, out, storage = cuda_arguments(precision)
    if precision == "float64":  # what costs registers when it is asked for
        options |= {"atol": np.full(2, 1e-9), "step_log": 2, "powers": METHODS[method].powers}
        run = run._replace(atol=(run.atol, run.atol))
    else:  # events without effects once did not compile on Python 3.12
        options |= {"events": [ergode.trajectories.ZeroCrossing(height)]}
    bindings = bindings_of(BALL, METHODS[method], control_of(options), precision)
    compiles_to_registers(bindings, precision, (run, out, storage))


@pytest.mark.cuda
@pytest.mark.parametrize("method", EXPLICIT)
def test_cuda_agrees_with_cpu(method):
    gravity = np.linspace(5.0, 12.0, 1000)
    results = on_both(
        solve, BALL, times=np.linspace(0.0, 2.5, 11), initial={"height": 1.0, "speed": 0.0},
        parameters={"gravity": gravity}, method=method, rtol=1e-8, atol=1e-8, events=EVENTS,
        record=3, observables=OBSERVABLES, observe_from=0.5,
    )  # fmt: skip
    for name in ("state", "event_time", "event_state", "observed"):
        np.testing.assert_allclose(results[1][name], results[0][name], rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(results[1]["event_count"], results[0]["event_count"])
    np.testing.assert_array_equal(results[1]["status"], results[0]["status"])


def test_a_long_smooth_oscillation_is_not_stiff():
    """It took 100,000 steps of tsit5, and then more of rodas5p than tsit5 needs."""
    circle = ergode.VectorField(lambda t, y, p: (y[1], -p[0] * y[0]), ["x", "v"], ["stiffness"])
    options = {
        "times": [0.0, 9000.0], "initial": {"x": 1.0, "v": 0.0}, "parameters": {"stiffness": 1.0},
        "rtol": 1e-9, "atol": 1e-9, "device": "cpu",
    }  # fmt: skip
    plain = ergode.trajectories.integrate(circle, method="tsit5", **options)
    found = ergode.trajectories.integrate(circle, **options)
    assert int(plain["step_count"]) > 100_000
    assert found.attrs["stiff_trajectories"] == 0
    np.testing.assert_array_equal(found["state"], plain["state"])
    np.testing.assert_array_equal(found["step_count"], plain["step_count"])
