"""Derivatives of trajectories, compared with closed forms and with differences."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import ergode
from ergode.trajectories import ZeroCrossing, sensitivities


def linear(t, y, p):
    return p[0] * y[0] + p[1] * y[1], -1.0 * y[0] - 0.5 * y[1]


def predators(t, y, p):
    return p[0] * y[0] - p[1] * y[0] * y[1], p[2] * p[1] * y[0] * y[1] - p[3] * y[1]


def fall(t, y, p):
    return y[1], -p[1]


def height(t, y, p):
    return y[0]


def bounce(t, y, p):
    return 0.0, -p[0] * y[1]


LINEAR = ergode.VectorField(linear, ["x", "y"], ["a", "b"])
RATES = ["birth", "hunt", "gain", "death"]
PREDATORS = ergode.VectorField(predators, ["prey", "predator"], RATES)
BALL = ergode.VectorField(fall, ["height", "speed"], ["restitution", "gravity"])
TIGHT = {"rtol": 1e-10, "atol": 1e-12, "device": "cpu"}


def test_a_linear_system_is_the_derivative_of_the_matrix_exponential():
    a, start = np.array([0.1, -0.4]), np.array([1.0, 2.0])
    found = sensitivities(
        LINEAR, times=[0, 1, 3], initial={"x": 1.0, "y": 2.0}, parameters={"a": a, "b": 0.7},
        with_respect_to=["b", "y"], **TIGHT,
    )  # fmt: skip
    assert found["sensitivity"].dims == ("trajectory", "time", "variable", "with_respect_to")
    assert found["a"].dims == ("trajectory",)
    np.testing.assert_array_equal(found["a"], a)
    for i, one in enumerate(a):
        matrix, change = np.array([[one, 0.7], [-1.0, -0.5]]), np.array([[0.0, 1.0], [0.0, 0.0]])
        both = np.block([[matrix, change], [np.zeros((2, 2)), matrix]])  # Van Loan 1978
        for j, t in enumerate([0, 1, 3]):
            whole = expm(both * t)
            expected = np.column_stack([whole[:2, 2:] @ start, whole[:2, 1]])
            np.testing.assert_allclose(found["sensitivity"][i, j], expected, atol=1e-8)
            np.testing.assert_allclose(found["state"][i, j], whole[:2, :2] @ start, atol=1e-8)


def test_a_nonlinear_field_agrees_with_differences():
    rates, start = np.array([1.1, 0.4, 0.3, 0.6]), np.array([5.0, 2.0])
    found = sensitivities(
        PREDATORS, times=[0, 2, 6], initial=dict(zip(PREDATORS.variables, start, strict=True)),
        parameters=dict(zip(RATES, rates, strict=True)),
        with_respect_to=[*RATES, "prey", "predator"], **TIGHT,
    )  # fmt: skip
    all_values = np.concatenate([rates, start])

    def end(values):
        done = solve_ivp(
            lambda t, y: predators(t, y, values[:4]), (0, 6), values[4:], "DOP853",
            rtol=1e-13, atol=1e-13,
        )  # fmt: skip
        return done.y[:, -1]

    for k in range(6):
        move = 1e-3 * all_values[k] * np.eye(6)[k]
        weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}  # sixth order
        difference = sum(
            w * (end(all_values + j * move) - end(all_values - j * move))
            for j, w in weights.items()
        ) / move[k]  # fmt: skip
        np.testing.assert_allclose(found["sensitivity"][-1, :, k], difference, rtol=1e-6)


def test_a_bouncing_ball_jumps_by_saltation():
    e, g, h, t = 0.8, 9.81, 1.0, 0.9
    found = sensitivities(
        BALL, times=[0, t], initial={"height": h, "speed": 0.0},
        parameters={"restitution": e, "gravity": g},
        with_respect_to=["restitution", "gravity", "height"],
        events=[ZeroCrossing(height, -1, effect=bounce, name="impact")], **TIGHT,
    )  # fmt: skip
    tau, left = np.sqrt(2 * h / g), t - np.sqrt(2 * h / g)
    # speed after the bounce: u = e g tau; height: u left - g left^2 / 2
    moved = {"restitution": 0.0, "gravity": -tau / (2 * g), "height": tau / (2 * h)}
    pushed = {
        "restitution": g * tau, "gravity": e * tau + e * g * moved["gravity"],
        "height": e * g * moved["height"],
    }  # fmt: skip
    direct = {"restitution": 0.0, "gravity": 1.0, "height": 0.0}
    for name in moved:
        dt, du, dg = -moved[name], pushed[name], direct[name]
        speed = du - dg * left - g * dt
        high = du * left + e * g * tau * dt - dg * left**2 / 2 - g * left * dt
        one = found["sensitivity"].sel(with_respect_to=name)[-1]
        np.testing.assert_allclose(one, [high, speed], rtol=1e-7, atol=1e-8)


def test_delays_agree_with_differences():
    field = ergode.field_from_equations({"x": "growth * x * (1 - x(t - tau))"})

    def end(growth, start):
        found = ergode.trajectories.integrate(
            field, times=[0, 5], initial={"x": start},
            parameters={"growth": growth, "tau": 1.0}, **TIGHT,
        )  # fmt: skip
        return found["state"].values[:, -1, 0]

    found = sensitivities(
        field, times=[0, 5], initial={"x": 0.5}, parameters={"growth": 1.2, "tau": 1.0},
        with_respect_to=["growth", "x"], **TIGHT,
    )  # fmt: skip
    h = np.array([1e-4, -1e-4])
    for k, ends in enumerate((end(1.2 + h, 0.5), end(1.2, 0.5 + h))):
        difference = (ends[0] - ends[1]) / 2e-4
        assert float(found["sensitivity"][-1, 0, k]) == pytest.approx(difference, rel=1e-5)
    with pytest.raises(ergode.PlanError, match="'tau', a delay"):
        sensitivities(
            field, times=[0, 5], initial={"x": 0.5}, parameters={"growth": 1.2, "tau": 1.0},
            with_respect_to=["tau"],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("names", "message"),
    [(["q"], "has 'q'"), ([], "is empty"), (["a", "a"], "twice"), ("a", "list of names")],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(ergode.ModelError, match=message):
        sensitivities(
            LINEAR, times=[0, 1], initial={"x": 1, "y": 1}, parameters={"a": 1, "b": 1},
            with_respect_to=names,
        )  # fmt: skip


def test_noise_and_branches_are_refused():
    def noise(t, y, p):
        return (p[0],)

    def drift(t, y, p):
        return (-y[0],)

    def branch(t, y, p):
        if y[0] > 1.0:
            return (-y[0],)
        return (-p[0],)

    given = {"times": [0, 1], "initial": {"x": 1}, "parameters": {"a": 1}}
    for field, message in (
        (ergode.VectorField(drift, ["x"], ["a"], diffusion=noise), "without noise"),
        (ergode.VectorField(branch, ["x"], ["a"]), "symbolic derivatives"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            sensitivities(field, **given, with_respect_to=["a"])


@pytest.mark.slow
def test_many_variables_and_a_slope_of_all_of_them():
    """200 variables were a RecursionError: derivatives that are zero were written out."""
    count = 120
    equations = {f"x{i}": f"-a * x{i} + 0.1 * x{(i + 1) % count}" for i in range(count)}
    equations["x7"] = " + ".join(f"0.01 * x{i}" for i in range(count))
    matrix = 0.1 * np.roll(np.eye(count), 1, axis=1) - 0.5 * np.eye(count)
    matrix[7] = 0.01
    start = np.linspace(1.0, 2.0, count)
    found = sensitivities(
        ergode.field_from_equations(equations), times=[0, 0.5], parameters={"a": 0.5},
        initial={f"x{i}": value for i, value in enumerate(start)}, rtol=1e-9, atol=1e-9,
        with_respect_to=["x3", "a"], device="cpu",
    )["sensitivity"]  # fmt: skip
    np.testing.assert_allclose(found.values[1, :, 0], expm(0.5 * matrix)[:, 3], atol=1e-7)
    unlike = -np.diag(np.arange(count) != 7).astype(float)
    double = np.block([[matrix, np.zeros_like(matrix)], [unlike, matrix]])
    exact = (expm(0.5 * double) @ np.concatenate([start, 0 * start]))[count:]
    np.testing.assert_allclose(found.values[1, :, 1], exact, atol=1e-7)
