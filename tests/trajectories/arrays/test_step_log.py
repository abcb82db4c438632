"""Every step of fields of arrays, and the state at any time: closed forms, and SciPy."""

import math

import numpy as np
import pytest
from both_devices import on_both
from cuda_on_host import check_ptx, outcome_on_host
from scipy.integrate import solve_ivp

import ergode
from ergode.core.errors import ErgodeError, ModelError
from ergode.trajectories import Maximum, Observable, ZeroCrossing, integrate
from ergode.trajectories.steppers.noise import Paths


def waves(i, j, t, y, p):
    return (1 + i) * p[0] * math.cos((1 + i) * p[0] * t) + 0.0 * y.u[i, j]


def decays(i, t, y, p):
    return -(1 + i) * y.v[i] + 0.0 * y.u[0, 0]


PAIR = ergode.VectorField(
    component={"u": waves, "v": decays}, variables={"u": (2, 3), "v": 4}, parameters=["w"]
)
SPEEDS = np.array([2.0, 3.0])
CALL = {
    "times": [0.0, 0.7, 2.0], "initial": {"u": 0.5, "v": np.arange(1.0, 5.0)}, "rtol": 1e-9,
    "atol": 1e-11, "device": "cpu", "dense_output": True,
}  # fmt: skip


def exact(times, w, v=(1.0, 2.0, 3.0, 4.0)):
    """The arrays u [time, i, j] and v [time, i]."""
    t = np.asarray(times)[:, None]
    u = 0.5 + np.sin(np.arange(1, 3) * w * t)
    return np.repeat(u[..., None], 3, axis=2), np.asarray(v) * np.exp(-np.arange(1, 5) * t)


def check_solution(found, atol):
    """The state at any time, in any order and more than once."""
    times = np.array([1.3, 0.0, 2.0, 0.0371, 0.7, 1.3, 1.99999])
    solution = found.ergode.solution(times)
    assert solution["u"].dims == ("w", "time", "u_i", "j")
    assert solution["v"].dims == ("w", "time", "v_i")
    np.testing.assert_array_equal(solution["time"], times)
    for k, w in enumerate(SPEEDS):
        for name, known in zip("uv", exact(times, w), strict=True):
            np.testing.assert_allclose(solution[name].values[k], known, atol=atol, err_msg=name)


@pytest.mark.exhaustive
def test_the_state_at_any_time():
    """Trajectories differ in the number of their steps; each of them ends where the next begins."""
    found = integrate(PAIR, parameters=ergode.grid(w=SPEEDS), **CALL)
    check_solution(found, 2e-8)
    counts = found["step_count"].values
    assert counts[0] != counts[1] and found.sizes["step"] == counts.max() + 1
    for k, count in enumerate(counts):
        ends = found["step_time"].values[k]
        assert np.isfinite(ends[: count + 1]).all() and np.isnan(ends[count + 1 :]).all()
        assert ends[0] == 0.0 and ends[count] == 2.0
        np.testing.assert_allclose(np.diff(ends[: count + 1]), found["step_size"][k, 1 : count + 1])
        for name, known in zip("uv", exact(ends[: count + 1], SPEEDS[k]), strict=True):
            np.testing.assert_allclose(found[f"step_{name}"][k, : count + 1], known, atol=2e-8)
    assert found["step_coefficient_u"].dims == ("w", "step", "power", "u_i", "j")
    later = found.isel(w=1).ergode.solution(0.4)
    np.testing.assert_allclose(later["u"], exact([0.4], 3.0)[0][0], atol=2e-8)
    for t in (-0.1, 2.1):
        with pytest.raises(ErgodeError, match="expected times from 0 to 2"):
            found.ergode.solution(t)
    with pytest.raises(ErgodeError, match="were selected"):
        found.isel(step=0).ergode.solution(0.4)


METHODS = {
    "dop853": ({}, 2e-8), "dop853 fixed": ({"step": 0.05}, 1e-6), "rk4": ({"step": 0.01}, 1e-6),
    "rkc2": ({"rtol": 1e-6, "atol": 1e-7}, 1e-3), "rodas5p": ({}, 1e-6),
    "rosenbrock23": ({"rtol": 1e-6, "atol": 1e-7}, 1e-3), "rodas5p-krylov": ({}, 1e-6),
    "tsit5 float32": ({"rtol": 1e-5, "atol": 1e-6, "precision": "float32"}, 2e-4),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("label", METHODS)
@pytest.mark.parametrize("logs", ["dense_output", "every_step"])
def test_every_method(label, logs):
    given, atol = METHODS[label]
    usual = {**CALL, "dense_output": False, logs: True}
    if "step" in given:
        usual.update(rtol=None, atol=None)
    how = {**usual, **given, "method": label.split()[0]}
    found = integrate(PAIR, parameters=ergode.grid(w=SPEEDS), **how)
    for k, w in enumerate(SPEEDS):
        ends = found["step_time"].values[k]
        ends = ends[np.isfinite(ends)]
        for name, known in zip("uv", exact(ends, w), strict=True):
            np.testing.assert_allclose(
                found[f"step_{name}"].values[k, : ends.size], known, atol=atol
            )
    if logs == "dense_output":
        check_solution(found, atol)
    # Storing steps changes no other result, but that stiff steps are then judged within, too.
    rtol = 1e-9 if "rodas5p" in label and logs == "dense_output" else 1e-12
    bare = integrate(PAIR, parameters=ergode.grid(w=SPEEDS), **how | {logs: False})
    for name in "uv":
        np.testing.assert_allclose(bare[name], found[name], rtol=rtol, atol=1e-13)


@pytest.mark.exhaustive
def test_backward_and_one_variable():
    last = dict(zip("uv", (one[0] for one in exact([2.0], 3.0)), strict=True))
    back = CALL | {"times": [2.0, 0.5, 0.0], "initial": last}
    found = integrate(PAIR, parameters={"w": 3.0}, **back)
    solution = found.ergode.solution([0.1, 1.7])
    for name, known in zip("uv", exact([0.1, 1.7], 3.0), strict=True):
        np.testing.assert_allclose(solution[name], known, atol=1e-6)
    assert found["step_time"][0] == 2.0 and (np.diff(found["step_time"]) < 0).all()


def falling(i, t, y, p):
    return y[1] if i == 0 else -p[0]


def height(t, y, p):
    return y[0]


def bounce(t, y, p):
    y[0] = 0.0
    y[1] = -0.8 * y[1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["tsit5", "rodas5p"])
def test_steps_that_an_event_ends(method):
    """A ball that bounces: at the moment of an impact, the state before it."""
    ball = ergode.VectorField(component=falling, variables=("x", 2), parameters=["g"])
    found = integrate(
        ball, times=[0.0, 1.2], initial={"x": [1.0, 0.0]}, parameters={"g": 9.8}, device="cpu",
        events=[ZeroCrossing(height, -1, effect=bounce, name="impact")], record=3, rtol=1e-9,
        observables=[Maximum(height)], dense_output=True, method=method,
    )  # fmt: skip
    first = math.sqrt(2 / 9.8)
    assert float(found["event_count"][0]) == 2
    np.testing.assert_allclose(found["event_time"][0, 0], first, rtol=1e-9)
    times = np.array([0.3 * first, first - 1e-6, first + 1e-6, 1.5 * first])
    x = found.ergode.solution(times)["x"].values
    speed = 9.8 * first
    later = np.maximum(times - first, 0.0)
    np.testing.assert_allclose(x[:, 0], np.where(
        times < first, 1 - 4.9 * times**2, 0.8 * speed * later - 4.9 * later**2
    ), atol=1e-7)  # fmt: skip
    np.testing.assert_allclose(x[1:3, 1], [-speed, 0.8 * speed], atol=1e-4)
    at = found.ergode.solution(float(found["event_time"][0, 0]))["x"].values
    np.testing.assert_allclose(at, [0.0, -speed], atol=1e-7)


def named(t, y, p):
    return tuple(-(10.0 ** (k / 4)) * (y[k] - math.cos(p[0] * t)) for k in range(17))


def half(t, y, p):
    return y[0] - 0.5


def lift(t, y, p):
    return tuple(y[k] + (1.0 if k == 0 else 0.0) for k in range(17))


@pytest.mark.exhaustive
@pytest.mark.parametrize("count", [1, 3])
def test_events_and_steps_of_many_named_variables(count):
    """A kick of 17 stiff variables, against SciPy, from kick to kick."""
    field = ergode.VectorField(named, [f"x{k}" for k in range(17)], ["w"])
    speeds = np.linspace(1.0, 2.0, count)
    found = integrate(
        field, times=[0.0, 1.0, 3.0], initial=dict.fromkeys(field.variables, 1.0), method="rodas5p",
        events=[ZeroCrossing(half, -1, effect=lift, name="lift")], record=5, rtol=1e-8, atol=1e-9,
        observables=[Maximum("x0"), Maximum("x3")], parameters={"w": speeds}, device="cpu",
        dense_output=True,
    )  # fmt: skip
    assert found["state"].dims == ("trajectory", "time", "variable")
    times = np.linspace(0.0, 3.0, 31)
    solution = found.ergode.solution(times)

    def stop(t, y):
        return y[0] - 0.5

    stop.terminal, stop.direction = True, -1
    for k, w in enumerate(speeds):
        y, t, known, hits = np.ones(17), 0.0, [], []
        while t < 3.0:
            path = solve_ivp(lambda t, y, w=w: named(t, y, (w,)), (t, 3.0), y, "Radau", rtol=1e-9,
                             atol=1e-10, events=stop, dense_output=True)  # fmt: skip
            here = times[(times >= t) & (times <= path.t[-1])]
            known.append(path.sol(here[here > t] if t else here).T)
            t, y = path.t[-1], path.y[:, -1].copy()
            if path.status == 1:
                hits.append(t)
                y[0] += 1.0
        assert len(hits) > 1 or w < 1.5
        np.testing.assert_allclose(found["event_time"].values[k, 0, : len(hits)], hits, atol=1e-5)
        assert int(found["event_count"].values[k, 0]) == len(hits)
        known = np.concatenate(known)
        far = [all(abs(t - hit) > 1e-3 for hit in hits) for t in times]
        np.testing.assert_allclose(solution.values[k][far], known[far], atol=2e-5)
        np.testing.assert_allclose(
            found["observed"].values[k], [max(known[:, 0].max(), 1.5 if hits else 1), 1], atol=0.03
        )


def test_what_is_refused_before_anything_runs():
    usual = {"times": [0.0, 1.0], "device": "cpu"}
    for label, how in (("size", "every_step"), ("coefficient_x", "dense_output")):
        field = ergode.VectorField(
            component={"x": lambda i, t, y, p: -y.x[i], label: lambda i, t, y, p: 0.0 * y.x[i]},
            variables={"x": 3, label: 3},
        )
        with pytest.raises(ModelError, match=f"would be 'step_.*{label[:4]}.*' in the result"):
            integrate(field, initial={"x": 1.0, label: 1.0}, **usual, **{how: True})
    wide = ergode.VectorField(named, [f"x{k}" for k in range(17)], ["w"])
    own = Observable(lambda t, y, p: (0.0,), lambda s, t, y, f, t1, y1, f1, p: s,
                     lambda s, t, y, p: s, name="own")  # fmt: skip
    usual["parameters"] = {"w": 1.0}
    with pytest.raises(ergode.PlanError, match="observables of your own for up to 16 variables"):
        integrate(wide, initial=dict.fromkeys(wide.variables, 1.0), method="rodas5p",
                  observables=[own], **usual)  # fmt: skip
    large = ergode.VectorField(component=falling, variables=("x", 300), parameters=["w"])
    with pytest.raises(ergode.PlanError, match="than 256 unknowns; choose 'bdf', 'rodas5p-kry"):
        integrate(large, initial={"x": 1.0}, method="rodas5p", events=[ZeroCrossing(height)],
                  **usual)  # fmt: skip


# ---- CUDA


@pytest.mark.parametrize("case", ["thread", "block", "block, all in shared memory", "grid"])
def test_groups_of_cuda_threads_store_the_same(case, monkeypatch):
    """Kernels run as Python threads; all times of a trajectory from its polynomials."""
    count = 1 if case == "grid" else 2
    times, first = np.array([0.0, 0.3, 1.0]), np.tile([0.5] * 6 + [1.0, 2.0, 3.0, 4.0], (count, 1))
    given = {"rtol": 1e-6, "atol": 1e-8, "step_log": 60, "powers": 4}
    out = outcome_on_host(case, monkeypatch, PAIR, "tsit5", times, first, SPEEDS[None, :count],
                          given)  # fmt: skip
    for me in range(count):
        log = out.step_log[..., me]
        for step in range(1, int(out.taken[me]) + 1):
            begin, end, size = log[step - 1, 0], log[step, 0], log[step, 11]
            assert end - begin == pytest.approx(size, rel=1e-12)
            for x in (0.3, 1.0):
                powers = x ** np.arange(1, 5)
                state = log[step - 1, 1:11] + powers @ log[step, 12:].reshape(4, 10)
                known = [one.ravel() for one in exact([begin + x * size], SPEEDS[me])]
                np.testing.assert_allclose(state, np.concatenate(known), atol=2e-5)
        assert np.isnan(log[int(out.taken[me]) + 1 :]).all() and log[int(out.taken[me]), 0] == 1.0


def test_noise_within_a_step(monkeypatch):
    """A straight line, in the log too."""
    field = ergode.VectorField(
        component=lambda i, t, y, p: -y[i], variables=("x", 3), diffusion=0.8
    )
    times, start = np.linspace(0.0, 1.0, 11), np.full((2, 3), 0.5)
    out = outcome_on_host(
        "thread", monkeypatch, field, "euler-maruyama", times, start, np.zeros((0, 2)),
        {"step": 0.1, "step_log": 11, "powers": 1}, paths=Paths(seed=4),
    )  # fmt: skip
    log = out.step_log
    np.testing.assert_allclose(log[:, 0], np.tile(times, (2, 1)).T, rtol=1e-12)
    np.testing.assert_allclose(log[:, 1:4], out.states, rtol=1e-12)
    np.testing.assert_allclose(log[1:, 4], 0.1, rtol=1e-12)
    np.testing.assert_allclose(log[1:, 5:], np.diff(out.states, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("group", "n", "method", "precision"), [
    ("thread", 5, "dop853", "float32"), ("block", 40, "tsit5", "float64"),
    ("grid", 20_000, "rk4", "float64"), ("block", 40, "rodas5p", "float32"),
])  # fmt: skip
def test_ptx(group, n, method, precision):
    field = ergode.VectorField(
        component=lambda i, t, y, p: -y[i - 1], variables=("x", n), parameters=["w"]
    )
    watched = {} if method == "rk4" else {"events": [ZeroCrossing(height)], "recorded": 2}
    step = 0.01 if method == "rk4" else None
    check_ptx(group, field, method, 1 if group == "grid" else 500, precision, step=step,
              step_log=1, powers=7 if method == "dop853" else 4, **watched)  # fmt: skip


@pytest.mark.cuda
@pytest.mark.parametrize("how", [
    {"method": "tsit5"}, {"method": "dop853", "events": [ZeroCrossing(height)]},
    {"method": "rodas5p"}, {"method": "rodas5p", "events": [ZeroCrossing(height)]},
    {"method": "rk4", "step": 0.01}, {"method": "rodas5p-krylov"},
    {"method": "rodas5p-krylov", "events": [ZeroCrossing(height)]},
])  # fmt: skip
@pytest.mark.parametrize("n", [2, 5, 40, 20_000])
def test_cuda_agrees_with_cpu(how, n):
    if n > 256 and how["method"] == "rodas5p":
        pytest.skip("for a CPU")
    count = 1 if n > 1000 else 37
    start = np.random.default_rng(n).normal(size=(count, n))
    field = ergode.VectorField(
        component=lambda i, t, y, p: y[i - 1] - p[0] * y[i], variables=("x", n), parameters=["a"]
    )
    usual = {"times": [0.0, 0.5, 2.0], "initial": {"x": start}, "dense_output": True,
             "parameters": {"a": np.linspace(1.0, 2.0, count)}, **how}  # fmt: skip
    if "step" not in how:
        usual.update(rtol=1e-7, atol=1e-8)
    times = np.random.default_rng(3).uniform(0.0, 2.0, 30)
    cpu, gpu = on_both(integrate, field, **usual)
    one, other = (found.ergode.solution(times)["x"] for found in (cpu, gpu))
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=2e-6)
    if "events" in how:
        np.testing.assert_array_equal(gpu["event_count"], cpu["event_count"])
