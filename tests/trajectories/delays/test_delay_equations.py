"""Delay equations whose solutions are known to many digits, and what must hold beside."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import ergode


def _linear(t, y, yd, p):
    return (-yd[0],)


def _mackey_glass(t, y, yd, p):
    return (p[0] * yd[0] / (1 + yd[0] ** 10) - p[1] * y[0],)


def _hutchinson(t, y, yd, p):
    return (p[0] * y[0] * (1 - yd[0]),)


def _ikeda(t, y, yd, p):
    return (-y[0] + 3 * math.sin(yd[0]),)


def _el_nino(t, y, yd, p):
    return (y[0] - y[0] ** 3 - 0.75 * yd[0],)


def _logistic(t, y, yd, p):
    return (y[0] * (p[0] - yd[0]),)


def _logistic_past(t):
    return (1.5 - math.cos(t),)


def _wille_baker(t, y, yd, p):
    return yd[0], yd[0] + yd[1], y[1]


def _delayed_lorenz(t, y, yd, p):
    return 10 * (yd[0] - y[0]), y[0] * (p[0] - y[2]) - y[1], y[0] * y[1] - 8 * y[2] / 3


def _delayed_lorenz_past(t):
    return -8, -8 + math.sin(2 * math.pi * t), -8


@dataclass(frozen=True)
class Problem:
    name: str
    field: ergode.VectorField
    initial: dict
    parameters: dict
    references: dict  # time: state
    step: float
    tolerance: float  # relative
    history: object = None

    def solve(self, times=None, **options):
        options = {"step": self.step, "device": "cpu", "history": self.history, **options}
        options = {"parameters": self.parameters, "initial": self.initial, **options}
        return ergode.trajectories.integrate(
            self.field, times=[0.0, *self.references] if times is None else times, **options
        )


def _scalar(function, names=("tau",)):
    return ergode.VectorField(function, ["y"], names, [("y", "tau")])


LINEAR = Problem(
    "linear", _scalar(_linear), {"y": 1.0}, {"tau": 1.0}, {10.0: [10493 / 518400]}, 1 / 64, 1e-8
)
MACKEY_GLASS = Problem(
    "Mackey-Glass",
    _scalar(_mackey_glass, ("beta", "gamma", "tau")),
    {"y": 1.2},
    {"beta": 0.2, "gamma": 0.1, "tau": 17.0},
    {170.0: [0.655640466774150646], 510.0: [0.632959894424109832]},
    17 / 128,
    1e-8,
)
LOGISTIC = Problem(
    "logistic1",
    _scalar(_logistic, ("p", "tau")),
    {"y": 0.5},
    {"p": 1.5, "tau": 1.0},
    {10.0: [1.91557812304376571]},
    1 / 64,
    1e-8,
    _logistic_past,
)
PROBLEMS = [
    LINEAR,
    MACKEY_GLASS,
    Problem(
        "DDETST A1",
        MACKEY_GLASS.field,
        {"y": 0.5},
        {"beta": 0.2, "gamma": 0.1, "tau": 14.0},
        {500.0: [1.01044311170014235]},
        14 / 128,
        1e-8,
    ),
    Problem(
        "Hutchinson",
        _scalar(_hutchinson, ("r", "tau")),
        {"y": 0.5},
        {"r": 1.8, "tau": 1.0},
        {20.0: [0.205300615456662867]},
        1 / 128,
        1e-8,
    ),
    Problem(
        "Ikeda",
        _scalar(_ikeda),
        {"y": 0.5},
        {"tau": 2.0},
        {20.0: [2.23282406080506373]},
        1 / 64,
        1e-8,
    ),
    Problem(
        "El Nino",
        _scalar(_el_nino),
        {"y": 0.1},
        {"tau": 6.0},
        {60.0: [0.500799860523986940]},
        1 / 64,
        1e-7,
    ),
    LOGISTIC,
    Problem(
        "logistic1, p = 3",
        LOGISTIC.field,
        {"y": 0.5},
        {"p": 3.0, "tau": 1.0},
        {10.0: [1.465395615895e-5]},
        1 / 512,
        2e-7,
        _logistic_past,
    ),
    Problem(
        "Wille-Baker",
        ergode.VectorField(
            _wille_baker, list("abc"), ["tau", "sigma"], [("a", "tau"), ("b", "sigma")]
        ),
        {"a": 1.0, "b": 1.0, "c": 1.0},
        {"tau": 1.0, "sigma": 0.2},
        {5.0: [19.175, 176.422578447380318, 190.344201936070417]},
        1 / 100,
        1e-8,
    ),
    Problem(
        "delayed Lorenz",
        ergode.VectorField(_delayed_lorenz, list("xyz"), ["rho", "tau"], [("y", "tau")]),
        {"x": -8.0, "y": -8.0, "z": -8.0},
        {"rho": 28.0, "tau": 13 / 28},
        {20 * 13 / 28: [-17.0805142951485495, -3.43714619645015, 19.4319544500567]},
        13 / 28 / 512,
        1e-6,
        _delayed_lorenz_past,
    ),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_reference(problem):
    result = problem.solve()
    found = result["state"].values[1:]
    np.testing.assert_allclose(found, list(problem.references.values()), rtol=problem.tolerance)
    assert (result["status"] == 0).all()


@pytest.mark.parametrize(
    ("problem", "method", "order"),
    [(LINEAR, "rk4", 4), (LOGISTIC, "rk4", 4), (MACKEY_GLASS, "rk4", 4), (LINEAR, "euler", 1)],
    ids=lambda value: getattr(value, "name", None),
)
def test_order(problem, method, order):
    time, exact = next(iter(problem.references.items()))
    tau = problem.parameters["tau"]
    errors = [
        abs(
            float(problem.solve([0.0, time], step=tau / lag, method=method)["state"][-1, 0])
            - exact[0]
        )
        for lag in ([64, 128, 256] if order == 4 else [512, 1024, 2048])
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(order, abs=0.15)


def test_error_with_the_cubic_and_the_quintic():
    # The published errors of RK4 with the cubic and Tsit5 with the quintic at t = 510.
    for method, error, order in (("rk4", 4.1e-8, 4), ("tsit5", 3.9e-10, 5)):
        result = MACKEY_GLASS.solve(step=17 / 64, method=method)
        found = abs(float(result["state"][-1, 0]) - MACKEY_GLASS.references[510.0][0])
        assert found == pytest.approx(error, rel=0.1)
        assert result.attrs["order"] == order


def _zero(t):
    return (0.0,)


@pytest.mark.parametrize("method", ["rk4", "tsit5"])
def test_jump_at_the_first_time(method):
    field = ergode.VectorField(_two_delays, ["y"], ["a", "b"], [("y", "a"), ("y", "b")])
    result = ergode.trajectories.integrate(
        field, times=[0, 1], initial={"y": 1.0}, history=_zero, step=1 / 30, method=method,
        parameters={"a": 1 / 3, "b": 1 / 5}, device="cpu",
    )  # fmt: skip
    # Polynomials of low degree between breaks: all that is left is rounding.
    assert float(result["state"][-1, 0]) == pytest.approx(-0.0345967078189300412, abs=1e-14)


def test_first_delay_of_a_linear_equation_is_exact():
    # On [0, 2] the solution is a polynomial of degree two, which RK4 and the cubic reproduce.
    times = np.linspace(0.0, 2.0, 37)
    found = LINEAR.solve(times, step=0.25)["state"].values[:, 0]
    exact = np.where(times < 1, 1 - times, 1 - times + (times - 1) ** 2 / 2)
    np.testing.assert_allclose(found, exact, atol=1e-14)


def _two_delays(t, y, yd, p):
    return (-yd[0] - yd[1],)


def _method_of_steps(lags, count, width):
    """y' = -sum of y(t - lag width) from y = 1: exact values at multiples of `width`."""
    one = [Fraction(1)]
    cells = dict.fromkeys(range(-max(lags), 0), one)
    values = [Fraction(1)]
    for cell in range(count):
        slope = [Fraction(0)] * (max(len(cells[cell - lag]) for lag in lags))
        for lag in lags:
            for power, coefficient in enumerate(cells[cell - lag]):
                slope[power] -= coefficient
        cells[cell] = [values[-1], *(c / (power + 1) for power, c in enumerate(slope))]
        values.append(sum(c * width**power for power, c in enumerate(cells[cell])))
    return values


def test_two_delays_on_a_common_grid():
    field = ergode.VectorField(
        _two_delays, ["y"], ["long", "short"], [("y", "long"), ("y", "short")]
    )
    exact = float(_method_of_steps((5, 3), 45, Fraction(1, 15))[-1])
    errors = []
    for step in (1 / 30, 1 / 60, 1 / 120):
        result = ergode.trajectories.integrate(
            field, times=[0, 3], initial={"y": 1}, step=step, device="cpu",
            parameters={"long": 1 / 3, "short": 1 / 5},
        )  # fmt: skip
        errors.append(abs(float(result["state"][-1, 0]) - exact))
    assert errors[-1] < 1e-9
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.15)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(4, abs=0.15)


def test_swept_delay_is_the_same_as_single_runs():
    taus = np.linspace(2.0, 17.0, 70)  # more than a block of lanes
    times = [0.0, 3.3, 50.0, 50.1, 121.7]
    together = MACKEY_GLASS.solve(
        times, parameters=ergode.grid(beta=0.2, gamma=0.1, tau=taus), step=0.5
    )
    assert together["state"].dims == ("tau", "time", "variable")
    lag = math.ceil(17.0 / 0.5)
    for i in (0, 13, 63, 64, 69):
        alone = MACKEY_GLASS.solve(
            times, parameters={"beta": 0.2, "gamma": 0.1, "tau": taus[i]}, step=taus[i] / lag
        )
        np.testing.assert_array_equal(alone["state"], together["state"][i])


def _cosine(t):
    return (math.cos(t),)


def _shifted(t, y, yd, p):
    return (yd[0],)


def test_history_is_followed_with_its_slope():
    # y' = y(t - 3 pi / 2), y = cos t in the past: the solution is cos t for ever.
    field = ergode.VectorField(_shifted, ["y"], ["tau"], [("y", "tau")])
    result = ergode.trajectories.integrate(
        field, times=[0.0, 1.0, 4.0], initial={"y": 1.0}, parameters={"tau": 1.5 * math.pi},
        history=_cosine, step=0.05, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(result["state"][:, 0], np.cos([0.0, 1.0, 4.0]), atol=1e-7)


def test_bad_history_is_an_error():
    def short(t):
        return (1.0, 2.0)

    def high(t):
        return (2.0,)

    with pytest.raises(ergode.ModelError, match="'short' returns 2 values for 1 variable"):
        LINEAR.solve(history=short)
    with pytest.raises(ergode.ModelError, match="the vector field has no delays"):
        ergode.trajectories.integrate(
            ergode.VectorField(_no_delay, ["y"], []), times=[0, 1], initial={"y": 1}, history=high
        )


def _no_delay(t, y, p):
    return (-y[0],)


def test_delay_must_be_positive():
    with pytest.raises(ergode.ModelError, match="delay 'tau' is 0 in trajectory 1; expected a pos"):
        LINEAR.solve(parameters={"tau": [1.0, 0.0]})


def test_tolerance_without_a_step():
    result = MACKEY_GLASS.solve([0.0, 170.0], step=None, rtol=1e-7, atol=1e-7, method="rk4")
    assert float(result["state"][-1, 0]) == pytest.approx(0.655640466774150646, rel=2e-7)
    assert result.attrs["step"] < 17 / 16


def echoes(t, y, yd, p):
    return yd[1] - y[0], yd[2] - y[1], p[0] * math.sin(yd[0]) - y[2]


def test_histories_are_not_all_in_memory_at_once():
    resource = pytest.importorskip("resource")
    field = ergode.VectorField(
        echoes, ["x", "y", "z"], ["gain", "tau"], [(name, "tau") for name in "xyz"]
    )

    def run(count):
        return ergode.trajectories.integrate(
            field, times=[0.0, 1.01], initial={"x": 1.0, "y": 0.5, "z": 0.1}, device="cpu",
            parameters={"gain": np.linspace(0, 3, count), "tau": 1.0}, step=1e-3,
        )["state"].values  # fmt: skip

    few = run(128)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many = run(16_384)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    # All histories of 1,000 steps, three variables and their slopes are 790 MB.
    assert grown < 60e6
    np.testing.assert_array_equal(many[[0, -1]], few[[0, -1]])
