"""Delays of variables that are arrays: exact solutions, the small form, orders, refusals, CUDA."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from both_devices import on_both
from cuda_on_host import CASES, check_ptx, states_on_host

import ergode
from ergode.core.status import Status
from ergode.trajectories import History, Maximum, Mean, Minimum, ZeroCrossing, integrate
from ergode.trajectories.arrays import delayed
from ergode.trajectories.arrays.runner import Runner
from ergode.trajectories.methods import METHODS

TIGHT = {"rtol": 1e-9, "atol": 1e-10, "device": "cpu"}


def ring(i, t, y, yd, p):
    """Delays of two arrays of neighbours; with `coupling` 0 every unknown is alone."""
    n = len(y)
    return p[0] * yd[0][i] + p[1] * (y[i] + math.sin(yd[1][i - 1]) * math.cos(yd[0][(i + 1) % n]))


def past(i, t):
    return math.cos(t + 0.3 * i)


def ring_of(n):
    return ergode.VectorField(
        component=ring, variables=("x", n), parameters=["rate", "coupling", "first", "second"],
        delays=[("x", "first"), ("x", "second")],
    )  # fmt: skip


ALONE = {"rate": -1.0, "coupling": 0.0, "first": 1.0, "second": 0.7}
MIXED = {"rate": -1.2, "coupling": 0.4, "first": 1.0, "second": 0.5}
# Watched in all of them, so that runs of one method have one kernel: extrema and mean of a
# delayed value, and when it rises above a line.  For the same reason histories are functions.
WATCHED = {
    "observables": [
        kind(lambda t, y, yd, p: yd[0][0], name=kind.__name__) for kind in (Maximum, Minimum, Mean)
    ],
    "events": [ZeroCrossing(lambda t, y, yd, p: yd[0][0] - 0.5 * t - 0.45, name="above")],
}
HOW = {
    "tsit5": ("tsit5", TIGHT),
    "rk4": ("rk4", {"step": 0.1, "device": "cpu"}),
    "dop853": ("dop853", TIGHT),
    "tsit5 fixed": ("tsit5", {"step": 0.1, "device": "cpu"}),
}


def by_steps(first, tau, end):
    """y' = -y(t - tau), y = `first` until 0: the exact sum of the method of steps."""
    tau, end, total, k = Fraction(tau), Fraction(end), Fraction(0), 0
    while end - (k - 1) * tau >= 0:
        total += (-1) ** k * (end - (k - 1) * tau) ** k / math.factorial(k)
        k += 1
    return first * float(total)


# ---- numbers


@pytest.mark.parametrize(
    "how", ["tsit5", *(pytest.param(one, marks=pytest.mark.exhaustive)
                       for one in ("rk4", "dop853", "tsit5 fixed"))],
)  # fmt: skip
@pytest.mark.parametrize("n", [1, 2, 200])
def test_the_method_of_steps(n, how):
    """Delays are shorter than a step, ends of steps, or longer than the run; all in one sweep."""
    method, options = HOW[how]
    taus = [0.04, 0.25, 1.0, 3.5]
    start = 0.5 + 0.5 * np.arange(n) / n
    found = integrate(
        ring_of(n), times=[0.0, 0.7, 2.0], initial={"x": start}, method=method,
        history=lambda i, t: 0.5 + 0.5 * i / n,
        parameters=ergode.grid(**{**ALONE, "first": taus}), **options, **WATCHED,
    )  # fmt: skip
    assert (found["status"] == Status.DONE).all()
    exact = [[start * by_steps(1.0, tau, t) for t in (0, 0.7, 2)] for tau in taus]
    np.testing.assert_allclose(found["x"].values, exact, rtol=2e-6, atol=2e-6)


STEEP = {**MIXED, "rate": -3.0, "coupling": 1.5}
# The larger step, and parameters for which errors are far from rounding.
ORDERS = {
    "euler": (1 / 8, MIXED), "rk4": (1 / 8, MIXED), "tsit5": (1 / 16, MIXED),
    "dopri5": (1 / 8, MIXED), "dop853": (1 / 8, STEEP),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ORDERS)
def test_orders_of_convergence(method):
    """Against steps that are finer; breaking points are ends of steps."""
    order, (size, parameters) = METHODS[method].order, ORDERS[method]
    run = {"times": [0.0, 3.0], "initial": {"x": [0.4, 0.7, -0.2]}, "parameters": parameters}
    exact, *rough = (
        integrate(ring_of(3), method=method, step=step, device="cpu", **run)["x"][-1]
        for step in (size / {1: 256, 4: 64}.get(order, 8), size, size / 2)
    )
    errors = [float(abs(one - exact).max()) for one in rough]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


@pytest.mark.exhaustive
def test_sweeps_and_threads_change_no_bit():
    """One trajectory, several, all threads on each."""
    taus = [0.5, 0.8, 1.3]
    field, start = ring_of(9_000), np.linspace(-1.0, 1.0, 9_000)

    def run(threads, first):
        found = integrate(
            field, times=[0.0, 2.0], initial={"x": start}, method="rk4", step=0.1,
            parameters={**MIXED, "first": first}, device=f"cpu:{threads}",
        )  # fmt: skip
        return found["x"].values

    many = run(2, taus)
    for k, tau in enumerate(taus):
        np.testing.assert_array_equal(many[k], run(1, tau))
    np.testing.assert_array_equal(many[1], run(2, taus[1]))


def test_a_history_that_outgrows_its_ring_is_followed_again(monkeypatch):
    run = {"times": [0.0, 3.0], "initial": {"x": [0.4, 0.7]}, "parameters": MIXED, **TIGHT,
           **WATCHED, "history": past}  # fmt: skip
    whole = integrate(ring_of(2), method="tsit5", **run)
    for name in ("_SLOTS", "_SLOTS_MOST"):
        monkeypatch.setattr(delayed, name, 4)
    monkeypatch.setattr(delayed, "_SLOTS_BYTES", 1)
    again = []
    monkeypatch.setattr(delayed.Delayed, "grow", lambda self, grow=delayed.Delayed.grow: (
        again.append(1), grow(self)))  # fmt: skip
    found = integrate(ring_of(2), method="tsit5", **run)
    assert again
    np.testing.assert_array_equal(found["x"].values, whole["x"].values)
    assert found.attrs["steps_taken"] == whole.attrs["steps_taken"]


def watched(tau, rate, end, **how):
    """x' is `rate` times the delayed value, which is 0 before x begins at 1."""
    return integrate(
        ring_of(2), times=[0.0, end], initial={"x": 1.0}, history=lambda i, t: 0.0, device="cpu",
        parameters={"rate": rate, "coupling": 0.0, "first": tau, "second": 9.0}, **how, **WATCHED,
    )  # fmt: skip


def test_observables_of_delayed_values_that_jump_do_not_overshoot():
    """The delayed value jumps from the history to the initial value: its extrema are those two."""
    seen = watched(0.25, 0.0, 2.0, method="tsit5")["observed"].values
    np.testing.assert_allclose(seen, [1.0, 0.0, 1.75 / 2.0], atol=1e-12)


@pytest.mark.parametrize("how", [{"method": "rk4", "step": 0.17}, {"method": "tsit5"}])
def test_what_is_watched_reads_the_step_that_a_delayed_value_is_in(how):
    """The delayed value is 0, from 0.5 on 1, and from 1 on the time: lines with a jump and a kink.

    The function of the event is above zero from the jump on.  The line after the kink, continued
    backward, is zero at 0.9.
    """
    found = watched(0.5, 1.0, 1.5, **how)
    np.testing.assert_allclose(found["observed"].values, [1.5, 0.0, 0.75], atol=1e-12)
    np.testing.assert_allclose(found["event_time"].values.ravel(), [0.5], rtol=1e-12)


def test_breaking_points_are_sums_of_delays():
    runner = Runner(
        ring_of(1), METHODS["rk4"], delayed_control(), times=np.array([1.0, 2.0]),
        device=ergode.core.devices.resolve("cpu"), precision="float64",
    )  # fmt: skip
    knots = runner.delayed._knots(np.array([[0.25, 2.0], [0.5, 0.3]]))
    np.testing.assert_allclose(knots, np.transpose([[1.25, 1.5, 1.75], [1.3, 1.6, 1.9]]))


def test_a_field_with_delays_travels():
    field = ring_of(4)
    other = pickle.loads(pickle.dumps(field))
    assert other.delays == field.delays and other.digest == field.digest
    assert field.digest != ring_of(5).digest


# ---- refusals


def lagged(i, t, y, yd, p):
    return -yd[0][i]


def plain(i, t, y, p):
    return -y[i]


def beyond(i, t, y, yd, p):
    return -yd[1][i]


def field_of(function=lagged, delays=(("x", "tau"),), **more):
    return ergode.VectorField(component=function, variables=("x", 3), parameters=["tau"],
                              delays=delays, **more)  # fmt: skip


BAD_FIELDS = {
    r"expected plain\(i, t, y, yd, p\)": {"function": plain},
    r"uses yd\[1\], but there is 1 delay": {"function": beyond},
    "names the variable 'z', which is not among the variables: x": {"delays": [("z", "tau")]},
    "names the parameter 'lag', which is not": {"delays": [("x", "lag")]},
    "depends on the state; delays of variables that are arrays": {
        "delays": [("x", ergode.Delay(lambda t, y, p: 1.0, 0.5, 2.0))]
    },
    "delays and diffusion are both given": {"diffusion": 0.1},
}


@pytest.mark.parametrize("said", BAD_FIELDS)
def test_bad_delays_are_refused_in_one_line(said):
    with pytest.raises(ergode.ModelError, match=said):
        field_of(**BAD_FIELDS[said])


def kick(t, y, p):
    y[0] = 0.0


BAD_RUNS = {
    "delay 'tau' is 0 in trajectory 0; expected a positive": {"parameters": {"tau": 0.0}},
    "'rodas5p' does not support delays of variables that are arrays": {"method": "rodas5p"},
    "'rkc2' does not support delays of variables that are arrays": {"method": "rkc2"},
    r"history of 'x' is .*expected .*\(i, t\)": {"history": lambda t: 1.0},
    "history of 'x' at 0 is nan at the time 0; expected a finite": {
        "history": lambda i, t: math.nan
    },
    "history of 'x' is inf": {"history": math.inf},
    "samples and jumps are for single variables": {"history": History(lambda i, t: 1.0)},
    "times descend, and the field has delays": {"times": [1.0, 0.0]},
    "a step of 5e-13 takes 1,999,999": {
        "parameters": {"tau": 1e-12},
        "step": 0.1,
        "method": "tsit5",
    },
    "effect of event 'kick': effects are not made yet for variables that are arrays with delays": {
        "events": [ZeroCrossing(lambda t, y, yd, p: y[0], effect=kick, name="kick")]
    },
}


@pytest.mark.parametrize("said", BAD_RUNS)
def test_what_delays_of_arrays_cannot_do_is_refused_by_name(said):
    run = {"times": [0.0, 1.0], "initial": {"x": 1.0}, "parameters": {"tau": 1.0}, "device": "cpu"}
    with pytest.raises(ergode.ErgodeError, match=said):
        integrate(field_of(), **{**run, **BAD_RUNS[said]})


def test_a_history_without_delays_is_refused():
    field = ergode.VectorField(component=plain, variables=("x", 3))
    with pytest.raises(ergode.ModelError, match="history is given, but the vector field has no"):
        integrate(field, times=[0.0, 1.0], initial={"x": 1.0}, history=past, device="cpu")


# ---- CUDA


def delayed_control():
    from ergode.trajectories.adaptive.outcome import control_of

    return control_of({"step": 0.1})


@pytest.mark.parametrize(
    ("case", "n"),
    [pytest.param("thread", 3, marks=pytest.mark.exhaustive), ("block", 100),
     pytest.param("block", 20_000, marks=pytest.mark.exhaustive)],
)  # fmt: skip
def test_cuda_kernels_compile(case, n):
    count = 1 if n > 100 else 10
    check_ptx(case, ring_of(n), "rk4", count, "float32", step=0.1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["tsit5", "dop853"])
@pytest.mark.parametrize("n", [3, 100, 20_000])
def test_cuda_kernels_of_their_own_steps_compile(method, n):
    group = "thread" if n == 3 else "block"
    check_ptx(group, ring_of(n), method, 1 if n > 100 else 1_000, "float64")


@pytest.mark.parametrize("case", ["thread", "block"])
def test_equal_steps_of_cuda_threads(case, monkeypatch):
    """Kernels run as Python threads, with barriers that are real: an exact solution."""
    times, taus = np.array([0.0, 0.5, 1.7]), [0.25, 0.8]
    count = 2
    start = np.random.default_rng(1).normal(size=(count, 5))
    parameters = np.array([[-1.0] * 2, [0.0] * 2, taus, [0.9, 5.0]])[:, :count]
    states = states_on_host(
        case, monkeypatch, ring_of(5), "rk4", times, start, parameters, {"step": 0.11}
    )
    for k in range(count):
        exact = [start[k] * by_steps(1.0, taus[k], t) for t in times]
        np.testing.assert_allclose(states[..., k], exact, atol=2e-5)


@pytest.mark.parametrize("case", ["thread", "block"])
def test_groups_of_cuda_threads_compute_the_same(case, monkeypatch):
    assert case in CASES
    method, how, count = "tsit5", {"rtol": 1e-6, "atol": 1e-9}, 2
    times, taus = np.array([0.5, 1.0, 1.7]), [0.4, 0.3]
    start = np.tile(np.cos(0.3 * np.arange(5)), (count, 1))
    parameters = np.array([[-1.2] * 2, [0.4] * 2, taus, [0.9, 5.0]])[:, :count]
    states = states_on_host(case, monkeypatch, ring_of(5), method, times, start, parameters, how)
    found = integrate(
        ring_of(5), times=times, initial={"x": start}, method=method, device="cpu", **how,
        parameters=dict(zip(("rate", "coupling", "first", "second"), parameters, strict=True)),
        history=lambda i, t: math.cos(0.3 * i), **WATCHED,
    )  # fmt: skip
    np.testing.assert_allclose(np.moveaxis(states, -1, 0), found["x"].values, rtol=1e-9, atol=1e-9)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["tsit5", "dop853", "rk4"])
@pytest.mark.parametrize(("n", "count"), [(1, 500), (5, 40), (200, 40), (20_000, 1)])
def test_on_a_gpu(method, n, count):
    """By threads and blocks: as on a CPU."""
    options = {"step": 0.05} if method == "rk4" else {"rtol": 1e-8, "atol": 1e-9}
    rng = np.random.default_rng(n)
    run = {
        "times": [0.0, 0.3, 2.0], "initial": {"x": rng.normal(size=(count, n))}, "method": method,
        "parameters": {**MIXED, "first": rng.uniform(0.3, 2.5, count), "second": 0.5},
        "history": past, "events": [ZeroCrossing(late_sum, name="sum")] if n > 8 else [],
        "observables": [Mean(late_sum)] if n > 8 else [], **options,
    }  # fmt: skip
    cpu, gpu = on_both(integrate, ring_of(n), **run)
    np.testing.assert_allclose(gpu["x"].values, cpu["x"].values, rtol=1e-6, atol=1e-6)
    if n > 8:
        np.testing.assert_array_equal(gpu["event_count"].values, cpu["event_count"].values)
        np.testing.assert_allclose(gpu["observed"].values, cpu["observed"].values, atol=1e-6)


def late_sum(t, y, yd, p):
    return y[0] + yd[1][1] - 0.1
