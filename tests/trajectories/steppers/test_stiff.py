"""Stiff methods: Robertson's problem, Jacobians, and when `auto` turns to them."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from small_calls import same_bits

import ergode
from ergode.core.status import Status
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories import Maximum, Mean, Minimum, ZeroCrossing, runs
from ergode.trajectories.adaptive.bindings import bindings_of
from ergode.trajectories.adaptive.outcome import control_of
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers import derivatives

STIFF = ["rosenbrock23", "rodas5p", "radau5"]


def robertson(t, y, p):
    slow = p[0] * y[0]
    fast = 1e4 * y[1] * y[2]
    return fast - slow, slow - fast - 3e7 * y[1] ** 2, 3e7 * y[1] ** 2


def forced(t, y, p):
    return y[1] + p[0] * math.exp(-t), -y[0]


def forced_with_a_branch(t, y, p):
    # Not for symbols, but the same.
    push = p[0] if t > -1 else 0.0
    return y[1] + push * math.exp(-t), -y[0]


def van_der_pol(t, y, p):
    return y[1], p[0] * ((1 - y[0] ** 2) * y[1] - y[0])


ROBERTSON = VectorField(robertson, ["a", "b", "c"], ["slow"])
FORCED = VectorField(forced, ["x", "y"], ["push"])


def solve(field, **options):
    return ergode.trajectories.integrate(field, **{"device": "cpu", **options})


def exact_forced(t):
    return np.array(
        [
            0.5 * (3 * math.cos(t) + math.sin(t) - math.exp(-t)),
            0.5 * (math.cos(t) - 3 * math.sin(t) - math.exp(-t)),
        ]
    )


@pytest.mark.parametrize("method", STIFF)
def test_robertson(method):
    times = [0.0, 0.4, 40.0, 4e3, 4e5]
    slow = np.linspace(0.03, 0.05, 3)
    found = solve(
        ROBERTSON, times=times, initial={"a": 1.0, "b": 0.0, "c": 0.0}, method=method,
        parameters={"slow": slow}, rtol=1e-7, atol=1e-11,
    )  # fmt: skip
    np.testing.assert_allclose(found["state"].sum("variable"), 1.0, rtol=1e-9)
    assert (found["step_count"] < 5000).all()
    for i in (0, 2):
        exact = solve_ivp(
            lambda t, y, i=i: robertson(t, y, (slow[i],)), (0, 4e5), [1.0, 0.0, 0.0],
            method="Radau", t_eval=times, rtol=1e-11, atol=1e-15,
        )  # fmt: skip
        np.testing.assert_allclose(found["state"][i], exact.y.T, rtol=1e-5, atol=1e-9)


def test_differences_where_there_are_no_symbols():
    branched = VectorField(forced_with_a_branch, ["x", "y"], ["push"])
    assert derivatives.bindings_of_derivatives(FORCED, False)
    assert not derivatives.bindings_of_derivatives(branched, False)
    options = {
        "times": [0.0, 4.0], "initial": {"x": 1.0, "y": 0.0}, "parameters": {"push": 1.0},
        "method": "rodas5p", "rtol": 1e-8, "atol": 1e-8,
    }  # fmt: skip
    np.testing.assert_allclose(
        solve(branched, **options)["state"][-1], exact_forced(4.0), atol=1e-7
    )


def helper(x, rate):
    return math.tanh(rate * x) + abs(x) ** 3


def with_helper(t, y, yd, p):
    return helper(y[0], p[0]) * math.sin(t) + yd[0] ** 2 / y[1], math.sqrt(y[0] * y[1])


def test_derivatives_are_those_of_the_function():
    field = VectorField(with_helper, ["x", "y"], ["rate", "tau"], [("y", "tau")])
    symbols = derivatives.Symbols(field)
    arguments = "t, y, yd, p"
    matrix = derivatives.function_of("matrix", arguments, symbols.jacobian())
    by_time = derivatives.function_of("by_time", "t, y, yd, sd, p", symbols.time_slopes())
    t, y, yd, sd, p, d = 0.3, (0.7, 1.9), (0.4,), (1.7,), (2.3, 1.0), 1e-6
    columns = []
    for j in range(2):
        up, down = (tuple(y[i] + s * d * (i == j) for i in range(2)) for s in (1, -1))
        columns.append(
            np.subtract(with_helper(t, up, yd, p), with_helper(t, down, yd, p)) / (2 * d)
        )
    np.testing.assert_allclose(
        np.reshape(matrix(t, y, yd, p), (2, 2)), np.transpose(columns), rtol=1e-7
    )
    later, earlier = ((t + s * d, y, (yd[0] + s * d * sd[0],), p) for s in (1, -1))
    np.testing.assert_allclose(
        by_time(t, y, yd, sd, p),
        np.subtract(with_helper(*later), with_helper(*earlier)) / (2 * d),
        rtol=1e-7, atol=1e-9,
    )  # fmt: skip


def test_auto_turns_to_a_stiff_method(monkeypatch):
    monkeypatch.setattr(runs, "EXPLICIT_STEPS", 2000)
    field = VectorField(van_der_pol, ["x", "v"], ["mu"])
    result = solve(
        field, times=[0.0, 2.0], initial={"x": 2.0, "v": 0.0}, parameters={"mu": [5.0, 1e5]}
    )
    assert result.attrs["stiff_trajectories"] == 1
    assert result.attrs["method"] == "tsit5, rodas5p"
    assert result.attrs["method_reason"].startswith("1 of 2 trajectories are stiff: 'tsit5' did")
    assert (result["status"] == Status.DONE).all()
    exact = solve_ivp(
        lambda t, y: van_der_pol(t, y, (1e5,)), (0, 2), [2.0, 0.0], method="Radau", rtol=1e-9,
        atol=1e-9,
    ).y[:, -1]  # fmt: skip
    np.testing.assert_allclose(result["state"][1, -1], exact, rtol=1e-3)


@pytest.mark.parametrize(
    "option", [pytest.param("every_step", marks=pytest.mark.exhaustive), "dense_output"]
)
def test_auto_keeps_the_steps_of_the_stiff_method(option, monkeypatch):
    monkeypatch.setattr(runs, "EXPLICIT_STEPS", 2000)
    field = VectorField(van_der_pol, ["x", "v"], ["mu"])
    given = {"times": [0.0, 2.0], "initial": {"x": 2.0, "v": 0.0}, option: True}
    both = solve(field, parameters={"mu": [5.0, 1e5]}, **given)
    assert (both["status"] == Status.DONE).all()
    for which, method in enumerate(("tsit5", "rodas5p")):
        mine = both.isel(trajectory=which)
        one = solve(field, parameters={"mu": float(mine["mu"])}, method=method, **given)
        steps = one.sizes["step"]
        assert mine["step_time"][steps:].isnull().all()
        same_bits(mine.isel(step=slice(steps)).drop_vars("mu"), one)


def test_stiff_methods_say_what_they_cannot():
    def many(t, y, yd, p):
        return tuple(yd[0] - y[i] for i in range(17))

    field = VectorField(many, [f"x{i}" for i in range(17)], ["tau"], [("x0", "tau")])
    for method in STIFF:
        with pytest.raises(ergode.PlanError, match="up to 16 variables, and the field has 17"):
            solve(field, times=[0, 1], initial=dict.fromkeys(field.variables, 1.0), method=method,
                  parameters={"tau": 0.1})  # fmt: skip


@pytest.mark.parametrize(
    ("method", "precision"), [*((method, "float32") for method in STIFF), (STIFF[0], "float64")]
)
def test_cuda_kernel_compiles_to_registers_of_its_precision(
    method, precision, compiles_to_registers
):
    bindings = bindings_of(FORCED, METHODS[method], control_of({}), precision)
    compiles_to_registers(bindings, precision)


def first(t, y, p):
    return y[0]


def followed(t, y, p):
    return (-p[0] * (y[0] - math.cos(t)) - math.sin(t),)


FOLLOWED = VectorField(followed, ["x"], ["rate"])
FOLLOWING = {
    "initial": {"x": 1.0}, "parameters": {"rate": np.array([1e4, 1e6, 1e8])}, "rtol": 1e-7,
    "atol": 1e-9,
}  # fmt: skip
CUDA = pytest.param("cuda", marks=pytest.mark.cuda)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(
    "method", ["rodas5p", pytest.param("radau5", marks=pytest.mark.exhaustive)]
)
def test_a_variable_that_follows_is_right_within_steps(method, device):
    """A. Prothero, A. Robinson, Math. Comp. 28, 145 (1974): steps are as long as the cosine."""
    times = np.linspace(0.0, 10.0, 31)
    found = solve(FOLLOWED, times=times, method=method, device=device, **FOLLOWING)
    exact = np.broadcast_to(np.cos(times), (3, times.size))
    np.testing.assert_allclose(found["state"].squeeze(), exact, atol=1e-6)
    # A step ends at the next time at the latest where it would be wrong there.
    assert (found["step_count"] < 250).all()
    plain = solve(FOLLOWED, times=times[[0, -1]], method=method, device=device, **FOLLOWING)
    assert (plain["step_count"] < 80).all()


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(
    "method",
    [
        "radau5",
        pytest.param("rodas5p", marks=pytest.mark.exhaustive),
        pytest.param("rosenbrock23", marks=pytest.mark.exhaustive),
    ],
)
def test_what_watches_a_variable_that_follows_is_right(method, device):
    tolerances = {"rtol": 1e-5, "atol": 1e-6} if method == "rosenbrock23" else {}
    allowed = 1e-4 if tolerances else 1e-6
    found = solve(
        FOLLOWED, times=[0.0, 20.0], method=method, device=device, dense_output=True, record=6,
        events=[ZeroCrossing(first, name="zero")],
        observables=[Maximum("x"), Minimum("x"), Mean("x")], **FOLLOWING | tolerances,
    )  # fmt: skip
    at = np.broadcast_to(np.pi * (np.arange(6) + 0.5), (3, 6))
    np.testing.assert_allclose(found["event_time"].squeeze(), at, atol=allowed)
    seen = np.broadcast_to([1.0, -1.0, math.sin(20.0) / 20.0], (3, 3))
    np.testing.assert_allclose(found["observed"], seen, atol=allowed)
    times = np.linspace(0.0, 20.0, 101)
    exact = np.broadcast_to(np.cos(times), (3, times.size))
    inside = found.ergode.solution(times).squeeze()
    np.testing.assert_allclose(inside, exact, atol=allowed)
