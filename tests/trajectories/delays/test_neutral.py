"""Neutral delay equations, against the method of steps by hand."""

import math

import numpy as np
import pytest
import sympy

import ergode
from ergode.trajectories import History, ZeroCrossing

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def echoing(t, y, yd, p):
    return (-p[0] * y[0] + p[1] * yd[0] + p[2] * yd[1],)


def growing(t):
    return (1.0 + 0.5 * t + 0.25 * t * t,)


def swing(t, y, yd, p):
    return y[1], -y[0] + p[0] * yd[0]


def height(t, y, yd, p):
    return y[0] - 1.2


def halved(t, y, yd, p):
    return (0.5 * y[0],)


PAIRS = [("x'", "tau"), ("x", "tau")]
ECHO = ergode.VectorField(echoing, ["x"], ["rate", "echo", "late", "tau"], PAIRS)
TIMES = np.linspace(0.0, 5.0, 41)


def by_steps(rate, echo, late, tau, past):
    """x' = -rate x + echo x'(t - tau) + late x(t - tau), piece by piece with SymPy."""
    s = sympy.symbols("s")
    piece, found = sympy.sympify(past).subs(sympy.symbols("t"), s - tau), []
    start = piece.subs(s, tau)
    for _ in range(int(5 / tau) + 1):
        force = sympy.expand(sympy.exp(rate * s) * (echo * sympy.diff(piece, s) + late * piece))
        piece = sympy.expand(sympy.exp(-rate * s) * (start + sympy.integrate(force, (s, 0, s))))
        start = piece.subs(s, tau)
        found.append(sympy.lambdify(s, piece, "numpy"))
    place = np.minimum(np.floor(TIMES / float(tau) + 1e-12), len(found) - 1).astype(int)
    return np.array([found[k](t - k * float(tau)) for k, t in zip(place, TIMES, strict=True)])


def solve(field, **options):
    return ergode.trajectories.integrate(field, **{"times": TIMES, "device": "cpu", **options})


@DEVICES
@pytest.mark.parametrize("method", ["tsit5", "dop853"])
def test_it_is_the_method_of_steps(method, device):
    """The slope jumps at every multiple of the delay, and does not become smooth."""
    echo, tau = [sympy.Rational(1, 2), sympy.Rational(-4, 5)], [1, sympy.Rational(5, 4)]
    late = sympy.Rational(1, 3)
    exact = [by_steps(1, *one, "1") for one in zip(echo, [late] * 2, tau, strict=True)]
    for tolerance, allowed in ((1e-6, 1e-6), (1e-10, 1e-10)):
        found = solve(
            ECHO, method=method, initial={"x": 1.0}, rtol=tolerance, atol=tolerance, device=device,
            parameters={"rate": 1.0, "echo": list(map(float, echo)), "late": float(late),
                        "tau": list(map(float, tau))},
        )  # fmt: skip
        np.testing.assert_allclose(found["state"][..., 0], exact, rtol=0, atol=allowed)
        assert (found["status"] == 0).all()


def test_a_history_with_a_slope():
    exact = by_steps(1, sympy.Rational(1, 2), 0, 1, "1 + t / 2 + t**2 / 4")
    for past in (growing, History(np.linspace(-1, 0, 201), np.array(
        [growing(t) for t in np.linspace(-1, 0, 201)]
    ))):  # fmt: skip
        found = solve(
            ECHO, initial={"x": 1.0}, history=past, rtol=1e-10, atol=1e-10,
            parameters={"rate": 1.0, "echo": 0.5, "late": 0.0, "tau": 1.0},
        )  # fmt: skip
        np.testing.assert_allclose(found["state"][:, 0], exact, rtol=0, atol=1e-9)


def test_order_in_steps_of_one_size():
    exact = by_steps(1, sympy.Rational(1, 2), sympy.Rational(1, 3), 1, "1")
    steps = np.array([1 / 4, 1 / 8, 1 / 16])
    errors = [
        np.abs(solve(
            ECHO, method="tsit5", step=step, initial={"x": 1.0},
            parameters={"rate": 1.0, "echo": 0.5, "late": 1 / 3, "tau": 1.0},
        )["state"].values[:, 0] - exact).max()
        for step in steps
    ]  # fmt: skip
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] > 4.8


def test_two_variables():
    """x'' = -x + c x''(t - 2 pi), with x = cos t before."""
    field = ergode.VectorField(swing, ["x", "v"], ["echo", "tau"], [("v'", "tau")])
    # With the echo of v' = -cos t, the force is -(x + c cos t): x = cos t - c t sin(t) / 2.
    found = solve(
        field, initial={"x": 1.0, "v": 0.0}, history=lambda t: (math.cos(t), -math.sin(t)),
        parameters={"echo": 0.5, "tau": 2 * math.pi}, rtol=1e-9,
    )  # fmt: skip
    exact = np.cos(TIMES) - 0.25 * TIMES * np.sin(TIMES)
    np.testing.assert_allclose(found["state"][:, 0], exact, atol=1e-7)


def test_the_echo_and_its_delay_are_fitted():
    data = by_steps(1, sympy.Rational(1, 2), 0, 1, "1")
    found = ergode.trajectories.fit(
        ECHO, times=TIMES, data={"x": data}, initial={"x": 1.0}, estimate=["echo", "tau"],
        parameters={"rate": 1.0, "echo": 0.4, "late": 0.0, "tau": 1.1}, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["estimate"], [0.5, 1.0], rtol=1e-6)


VALUES = {"rate": 1.0, "echo": 0.5, "late": 0.0, "tau": 1.0}


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        ("integrate", {"method": "rodas5p"}, "'rodas5p' is not for delayed derivatives"),
        ("integrate", {"step": 0.1}, "'rk4' is not for delayed derivatives; choose 'tsit5'"),
        ("integrate", {"history": lambda t: (2.0,)}, "the state may not jump"),
        ("integrate", {"events": [ZeroCrossing(height, effect=halved)]}, "events have no effects"),
        ("sensitivities", {"with_respect_to": ["rate"]}, "delayed derivatives"),
        ("lyapunov_spectrum", {"times": None, "duration": 10.0}, "without delayed derivatives"),
    ],
)
def test_refusals(call, options, message):
    given = {"times": TIMES, "initial": {"x": 1.0}, "parameters": VALUES, "device": "cpu"}
    given = {name: value for name, value in (given | options).items() if value is not None}
    with pytest.raises(ergode.PlanError, match=message):
        getattr(ergode.trajectories, call)(ECHO, **given)


def test_wrong_pairs_are_named():
    with pytest.raises(ergode.ModelError, match="names the variable 'z'"):
        ergode.VectorField(echoing, ["x"], ["a", "b", "c", "tau"], [("z'", "tau"), ("x", "tau")])
    lag = ergode.Delay(lambda t, y, p: 1.0, 0.5, 2.0)
    with pytest.raises(ergode.ModelError, match="a derivative, must be a parameter"):
        ergode.VectorField(echoing, ["x"], ["a", "b", "c", "tau"], [("x'", lag), ("x", "tau")])
    plain = ergode.VectorField(echoing, ["x"], ["rate", "echo", "late", "tau"], [("x", "tau")] * 2)
    assert plain.digest != ECHO.digest and not plain.is_neutral and ECHO.is_neutral
