import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode
from ergode.core.status import Status
from ergode.trajectories.fixed.runner import Ensemble


def lorenz(t, y, p):
    x, v, z = y[0], y[1], y[2]
    return p[0] * (v - x), x * (p[1] - z) - v, x * v - p[2] * z


def rotation(t, y, p):
    return -p[0] * y[1], p[0] * y[0]


def explosion(t, y, p):
    return (y[0] ** 2,)


def forced(t, y, p):
    return (math.exp(-t) - y[0],)


LORENZ = ergode.VectorField(lorenz, ["x", "y", "z"], ["sigma", "rho", "beta"])
ROTATION = ergode.VectorField(rotation, ["x", "y"], ["frequency"])
EXPLOSION = ergode.VectorField(explosion, ["y"])
FORCED = ergode.VectorField(forced, ["y"])
USUAL = {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
START = {"x": 1.0, "y": 1.0, "z": 1.0}


def solve(field, **options):
    return ergode.trajectories.integrate(field, **{"device": "cpu", **options})


def test_lorenz_against_scipy():
    times = np.linspace(0.0, 5.0, 11)
    rhos = np.linspace(10.0, 30.0, 3)
    found = solve(
        LORENZ, times=times, initial=START, step=1e-3,
        parameters={**USUAL, "rho": rhos},
    )["state"]  # fmt: skip
    for i, rho in enumerate(rhos):
        exact = solve_ivp(
            lambda t, y, rho=rho: lorenz(t, y, (10.0, rho, 8 / 3)), (0, 5), [1.0, 1.0, 1.0],
            method="DOP853", t_eval=times, rtol=1e-12, atol=1e-12,
        )  # fmt: skip
        np.testing.assert_allclose(found[i], exact.y.T, atol=2e-7)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk4", 4), ("tsit5", 5)])
def test_order(method, order):
    errors = []
    for step in (1 / 16, 1 / 32, 1 / 64):
        result = solve(
            ROTATION, times=[0.0, 4.0], initial={"x": 1, "y": 0}, parameters={"frequency": 1.3},
            step=step if order > 1 else step / 64, method=method,
        )  # fmt: skip
        exact = [math.cos(5.2), math.sin(5.2)]
        errors.append(np.abs(result["state"].values[-1] - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(order, abs=0.15)
    assert result.attrs["order"] == order


def test_time_dependence_and_dense_output():
    # y' = exp(-t) - y, y(2) = 2 exp(-2): y = t exp(-t)
    times = 2.0 + np.sort(np.random.default_rng(1).random(200)) * 3.0
    times[0] = 2.0
    result = solve(FORCED, times=times, initial={"y": 2 * math.exp(-2)}, step=1 / 64)
    np.testing.assert_allclose(result["state"][:, 0], times * np.exp(-times), atol=3e-9)


def test_times_on_steps_are_the_steps():
    few = solve(LORENZ, times=[0, 2], initial=START, parameters=USUAL, step=0.01)
    many = solve(LORENZ, times=np.linspace(0, 2, 201), initial=START, parameters=USUAL, step=0.01)
    np.testing.assert_array_equal(few["state"][-1], many["state"][-1])
    np.testing.assert_array_equal(few["state"][0], [1.0, 1.0, 1.0])
    assert many.attrs["steps_taken"] == 200


def test_one_time_is_the_initial_state():
    result = solve(LORENZ, times=[3.0], initial=START, parameters=USUAL, step=0.01)
    np.testing.assert_array_equal(result["state"], [[1.0, 1.0, 1.0]])


def test_threads_and_neighbours_do_not_matter():
    rhos = np.linspace(0.0, 40.0, 1000)
    options = {"times": [0.0, 0.7, 5.0], "initial": START, "step": 0.01}
    one = solve(LORENZ, parameters={**USUAL, "rho": rhos}, **{**options, "device": "cpu:1"})
    two = solve(LORENZ, parameters={**USUAL, "rho": rhos}, **{**options, "device": "cpu:2"})
    np.testing.assert_array_equal(one["state"], two["state"])
    some = solve(LORENZ, parameters={**USUAL, "rho": rhos[100:137]}, **options)
    np.testing.assert_array_equal(some["state"], one["state"][100:137])
    alone = solve(LORENZ, parameters={**USUAL, "rho": rhos[999]}, **options)
    np.testing.assert_array_equal(alone["state"], one["state"][999])


@pytest.mark.parametrize("method", ["rk4", "tsit5"])
def test_explosion_is_flagged_and_disturbs_nobody(method):
    # y' = y^2 is infinite at t = 1 / y(0).
    start = np.concatenate([np.full(70, 0.1), [2.0], np.full(10, 0.1)])
    options = {"times": [0.0, 0.25, 4.0], "step": 1 / 64, "method": method}
    result = solve(EXPLOSION, initial={"y": start}, **options)
    status = result["status"].values
    assert status[70] == Status.NOT_FINITE
    assert (np.delete(status, 70) == Status.DONE).all()
    assert result["state"][70, 1, 0] == pytest.approx(4.0, rel=1e-6)
    alone = solve(EXPLOSION, initial={"y": 0.1}, **options)
    np.testing.assert_array_equal(result["state"][80], alone["state"])
    np.testing.assert_allclose(result["state"][0, :, 0], [0.1, 0.1 / 0.975, 0.1 / 0.6], rtol=1e-9)
    with pytest.raises(ergode.ErgodeError, match="1 of 81 .*infinite or not a number"):
        result.ergode.raise_for_status()


def test_tolerance_without_a_step():
    frequencies = np.array([0.1, 1.0, 10.0])
    result = solve(
        ROTATION, times=[0.0, 3.0], initial={"x": 1, "y": 0},
        parameters={"frequency": frequencies}, rtol=1e-8, atol=1e-8, method="rk4",
    )  # fmt: skip
    exact = np.stack([np.cos(3 * frequencies), np.sin(3 * frequencies)], axis=1)
    np.testing.assert_allclose(result["state"][:, -1], exact, atol=2e-8)
    assert (result["status"] == Status.DONE).all()


@pytest.mark.parametrize("interrupted", [1, 2, 6])
def test_steps_that_are_halved_keep_what_was_within_tolerance(monkeypatch, interrupted):
    """Interrupted in one of the runs with ever smaller steps."""
    options = {
        "times": [0.0, 3.0], "initial": {"x": 1, "y": 0}, "rtol": 1e-8, "atol": 1e-8,
        "method": "rk4", "parameters": {"frequency": np.geomspace(0.05, 10.0, 20)},
    }  # fmt: skip
    whole = solve(ROTATION, **options)
    integrate, calls = Ensemble.integrate, []

    def stopped(self, initial, *arguments, **more):
        states, status = integrate(self, initial, *arguments, **more)
        calls.append(1)
        if len(calls) == interrupted:
            rest = slice(status.size // 2, None)
            states[..., rest], status[rest] = np.nan, Status.NOT_RUN
        assert len(calls) <= interrupted
        return states, status

    monkeypatch.setattr(Ensemble, "integrate", stopped)
    if interrupted == 1:  # no error is known
        with pytest.raises(KeyboardInterrupt):
            solve(ROTATION, **options)
        return
    with pytest.warns(ergode.InterruptionWarning, match=r"interrupted: \d+ of 20 trajectories"):
        found = solve(ROTATION, **options)
    done = found["status"].values != Status.NOT_RUN
    assert 0 < done.sum() < 20
    np.testing.assert_array_equal(found["state"][done], whole["state"][done])
    assert np.isnan(found["state"][~done]).all()


def test_tolerance_that_cannot_be_met_is_said():
    result = solve(
        LORENZ,
        times=[0.0, 60.0],
        initial=START,
        parameters=USUAL,
        rtol=1e-10,
        atol=1e-10,
        method="rk4",
    )
    assert int(result["status"]) == Status.INACCURATE


def test_float32():
    double, single = (
        solve(
            LORENZ, times=[0.0, 1.0], initial=START, parameters=USUAL, step=0.005,
            precision=precision,
        )["state"]
        for precision in ("float64", "float32")
    )  # fmt: skip
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-4)


def test_sweeps_are_labelled():
    result = solve(
        LORENZ, times=[0.0, 0.1], step=0.01, initial={"x": [1.0, 2.0], "y": [1.0, 3.0], "z": 1.0},
        parameters=ergode.grid(rho=[20.0, 24.0, 28.0], sigma=10.0, beta=[2.0, 8 / 3]),
    )  # fmt: skip
    assert result["state"].dims == ("rho", "beta", "trajectory", "time", "variable")
    assert result["state"].shape == (3, 2, 2, 2, 3)
    assert result["status"].dims == ("rho", "beta", "trajectory")
    alone = solve(
        LORENZ, times=[0.0, 0.1], step=0.01, initial={"x": 2.0, "y": 3.0, "z": 1.0},
        parameters={"rho": 24.0, "sigma": 10.0, "beta": 8 / 3},
    )  # fmt: skip
    found = result["state"].sel(rho=24.0, beta=8 / 3).isel(trajectory=1)
    np.testing.assert_array_equal(found, alone["state"])
    assert result["x"].dims == ("trajectory",)
    assert result.attrs["trajectories"] == 12
    assert list(result["variable"].values) == ["x", "y", "z"]


RATE = 1.0


def decay(t, y, p):
    return (-RATE * y[0],)


def test_constants_are_those_of_the_moment(monkeypatch):
    field = ergode.VectorField(decay, ["y"])
    options = {"times": [0.0, 1.0], "initial": {"y": 1.0}, "step": 0.01}
    assert float(solve(field, **options)["state"][-1, 0]) == pytest.approx(math.exp(-1))
    digest = field.digest
    monkeypatch.setitem(globals(), "RATE", 2.0)
    assert field.digest != digest
    assert float(solve(field, **options)["state"][-1, 0]) == pytest.approx(math.exp(-2))


def test_result_can_be_saved(tmp_path):
    result = solve(LORENZ, times=[0, 1], initial=START, parameters=USUAL, step=0.1)
    path = ergode.save(result, tmp_path / "lorenz.nc")
    np.testing.assert_array_equal(ergode.open_dataset(path)["state"], result["state"])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"times": [0.0, 1.0, 1.0]}, ergode.ModelError, r"times\[2\] = 1 follows times\[1\] = 1"),
        ({"times": [0.0, np.nan]}, ergode.ModelError, r"times\[1\] is nan"),
        ({"times": []}, ergode.ModelError, "not empty"),
        ({"times": ["a"]}, ergode.ModelError, "expected a list of numbers"),
        ({"step": 0.0}, ergode.PlanError, "step is 0.0; expected a positive number"),
        ({"step": np.inf}, ergode.PlanError, "step is inf"),
        ({"step": 1e-10}, ergode.PlanError, r"takes 10,000,000,000 steps; at most 2\^31 - 1"),
        ({"step": "small"}, ergode.PlanError, "step is 'small'; expected a positive number"),
        ({"step": None, "rtol": 2.0}, ergode.PlanError, "rtol is 2; expected at most 1"),
        ({"step": None, "rtol": -1.0}, ergode.PlanError, "rtol is -1.0"),
        ({"step": None, "atol": "small"}, ergode.PlanError, "atol is 'small'"),
        ({"method": "rk5"}, ergode.PlanError, "method 'rk5' is unknown; expected 'auto', 'euler'"),
        ({"precision": "half"}, ergode.PlanError, "precision 'half' is unknown"),
        ({"device": "tpu"}, ergode.PlanError, "device 'tpu' is unknown"),
        ({"initial": {"x": 1, "y": 1}}, ergode.ModelError, "initial has no value for 'z'"),
        ({"initial": 1.0}, ergode.ModelError, "initial is float; expected values by name"),
        (
            {"parameters": {**USUAL, "rhoo": 1}},
            ergode.ModelError,
            "parameters has 'rhoo', which the vector field does not.*did you mean 'rho'",
        ),
        (
            {"parameters": {**USUAL, "rho": [1.0, np.inf]}},
            ergode.ModelError,
            r"parameters of 'rho'\[1\] is inf; expected finite numbers",
        ),
        (
            {"parameters": {**USUAL, "rho": "high"}},
            ergode.ModelError,
            "parameters of 'rho' is 'high'; expected a number or a list",
        ),
        (
            {"parameters": {**USUAL, "rho": [[1.0]]}},
            ergode.ModelError,
            r"parameters of 'rho' has shape \(1, 1\)",
        ),
        (
            {"parameters": {**USUAL, "rho": [1, 2, 3], "beta": [1, 2]}},
            ergode.ModelError,
            "'beta' has 2 values and 'rho' has 3; .* use ergode.grid to cross them",
        ),
    ],
)
def test_bad_input_is_an_error(change, error, message):
    usual = {"times": [0.0, 1.0], "initial": START, "parameters": USUAL, "step": 0.1}
    with pytest.raises(error, match=message):
        solve(LORENZ, **{**usual, **change})


def test_field_must_be_a_vector_field():
    with pytest.raises(ergode.ModelError, match="field is function; expected a VectorField"):
        solve(lorenz, times=[0, 1], initial=START, parameters=USUAL)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize(
    "options",
    [{"step": 0.02, "method": "rk4"}, {"method": "tsit5", "rtol": 1e-8}],
    ids=["rk4", "tsit5"],
)
def test_a_field_of_forty_variables(options, device):
    """A tuple of more than thirty elements, with choices in it."""
    count = 40
    field = ergode.field_from_equations(
        {
            f"x{i}": f"-x{i} + (0.5 if x{i} > 0.2 else 0.1) * x{(i + 1) % count}"
            for i in range(count)
        }
    )
    start = np.linspace(0.3, 1.3, count)
    found = ergode.trajectories.integrate(
        field, times=[0.0, 0.25, 0.5], device=device, **options,
        initial={f"x{i}": value for i, value in enumerate(start)},
    )  # fmt: skip
    # All stay above the level, so the field is linear.
    matrix = 0.5 * np.roll(np.eye(count), 1, axis=1) - np.eye(count)
    values, vectors = np.linalg.eig(matrix)
    for t, state in zip((0.25, 0.5), found["state"].values[1:], strict=True):
        exact = (vectors * np.exp(values * t)) @ np.linalg.solve(vectors, start)
        assert exact.real.min() > 0.2
        np.testing.assert_allclose(state, exact.real, rtol=1e-6)


def first_is_level(t, y, p):
    return y[0] - p[0]


@pytest.mark.slow
def test_very_many_named_variables():
    """200 variables were unrolled in every stage: the call did not end within 400 s."""
    n = 120
    field = ergode.field_from_equations(
        {f"x{i}": f"(x{(i + 1) % n} - x{i - 2 if i > 1 else i - 2 + n}) * x{(i - 1) % n} - x{i} + F"
         for i in range(n)}
    )  # fmt: skip
    first = np.random.default_rng(0).normal(size=(2, n))

    def slopes(t, y):
        return (np.roll(y, -1) - np.roll(y, 2)) * np.roll(y, 1) - y + 4.0

    exact = [
        solve_ivp(slopes, (0, 1), y, method="DOP853", rtol=1e-11, atol=1e-12, t_eval=[0, 0.4, 1])
        for y in first
    ]
    found = solve(
        field, times=[0.0, 0.4, 1.0], initial={f"x{i}": first[:, i] for i in range(n)},
        parameters={"F": 4.0}, method="tsit5", rtol=1e-8, atol=1e-8, every_step=True,
        events=[ergode.trajectories.ZeroCrossing(first_is_level, 1, name="level")],
        observables=[ergode.trajectories.Mean("x3")],
    )  # fmt: skip
    np.testing.assert_array_equal(found["status"], Status.DONE)
    np.testing.assert_allclose(found["state"], [one.y.T for one in exact], atol=1e-6)
    assert found["step_state"].sizes["variable"] == n
    fine = solve_ivp(slopes, (0, 1), first[0], rtol=1e-11, atol=1e-12, dense_output=True).sol
    x = fine(np.linspace(0, 1, 2001))
    mean = np.trapezoid(x[3], dx=1 / 2000)
    assert float(found["observed"][0, 0]) == pytest.approx(mean, abs=1e-5)
    rises = int(((x[0, 1:] >= 4.0) & (x[0, :-1] < 4.0)).sum())
    assert int(found["event_count"][0, 0]) == rises


@pytest.mark.parametrize("method", ["auto", "euler-maruyama", "sra1", "milstein"])
def test_noise_of_very_many_named_variables_is_refused(method):
    """Their code took more than minutes to compile."""
    names = [f"x{i}" for i in range(200)]
    field = ergode.field_from_equations(
        {name: f"-{name}" for name in names}, diffusion=dict.fromkeys(names, "0.1")
    )
    with pytest.raises(ergode.PlanError, match="up to 128 named variables, and the field has 200"):
        solve(field, times=[0, 1], initial=dict.fromkeys(names, 1.0), step=0.1, method=method)


@pytest.mark.parametrize("method", ["auto", "rk4", "tsit5", "rodas5p", "radau5"])
def test_delays_of_very_many_named_variables_are_refused(method):
    names = [f"x{i}" for i in range(200)]
    field = ergode.field_from_equations({name: f"-{name}(t - 1)" for name in names})
    with pytest.raises(ergode.PlanError, match="named variables, and the field has 200"):
        solve(
            field, times=[0, 1], initial=dict.fromkeys(names, 1.0), method=method,
            step=0.1 if method == "rk4" else None,
        )  # fmt: skip


def test_exponents_of_very_many_named_variables_are_refused():
    names = [f"x{i}" for i in range(2_600)]
    field = ergode.field_from_equations({name: f"-{name}" for name in names})
    with pytest.raises(ergode.PlanError, match="2 Lyapunov exponents of 2600 named variables"):
        ergode.trajectories.lyapunov_spectrum(
            field, initial=dict.fromkeys(names, 1.0), duration=1.0, count=2, device="cpu"
        )
