"""Sensitivities of fields of arrays, against differences of SciPy's solutions and closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode
from ergode.trajectories import ZeroCrossing, sensitivities

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
TIMES = np.array([0.0, 0.4, 1.0])


def ring(i, t, y, p, c):
    n = len(y)
    swing = c.weights[i] * math.sin(p[1] * t + y[i])
    return (y[(i + 1) % n] - y[i - 2]) * y[i - 1] - y[i] + p[0] + swing


WEIGHTS = np.array([0.5, -1.0, 2.0, 0.3, 1.0])


def solution(start, force, speed):
    def slope(t, x):
        own = WEIGHTS * np.sin(speed * t + x)
        return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + force + own

    return solve_ivp(slope, (0, 1), start, "DOP853", TIMES, rtol=1e-12, atol=1e-12).y.T


@pytest.mark.exhaustive
@DEVICES
@pytest.mark.parametrize("method", ["tsit5", "dop853", "rodas5p"])
def test_by_parameters_and_elements(method, device):
    field = ergode.VectorField(
        component=ring, variables=("x", 5), parameters=["F", "w"], constants={"weights": WEIGHTS}
    )
    starts = 3.0 + np.random.default_rng(0).normal(size=(3, 5))
    forces = np.array([2.0, 4.0, 8.0])
    found = sensitivities(
        field, times=TIMES, initial={"x": starts}, parameters={"F": forces, "w": 2.0},
        with_respect_to=["w", "x[3]", "F", "x[0]"], method=method, rtol=1e-9, atol=1e-10,
        device=device,
    )  # fmt: skip
    assert found["sensitivity_x"].dims == ("trajectory", "time", "i", "with_respect_to")
    assert found["with_respect_to"].values.tolist() == ["w", "x[3]", "F", "x[0]"]
    h = 1e-5
    for k, (start, force) in enumerate(zip(starts, forces, strict=True)):
        np.testing.assert_allclose(found["x"].values[k], solution(start, force, 2.0), atol=1e-6)
        units = np.eye(5)
        moves = {
            "w": (np.zeros(5), 0, h), "x[3]": (h * units[3], 0, 0), "F": (np.zeros(5), h, 0),
            "x[0]": (h * units[0], 0, 0),
        }  # fmt: skip
        for name, (dx, df, dw) in moves.items():
            known = (
                solution(start + dx, force + df, 2.0 + dw)
                - solution(start - dx, force - df, 2.0 - dw)
            ) / (2 * h)
            own = found["sensitivity_x"].sel(with_respect_to=name).values[k]
            np.testing.assert_allclose(own, known, rtol=2e-5, atol=2e-5, err_msg=name)


def spreading(i, j, t, y, p):
    return -p[0] * y.u[i, j] + y.v[i]


def fading(i, t, y, p):
    return -p[1] * y.v[i]


def low(t, y, p):
    return y.v[1] - 0.2


PAIR = ergode.VectorField(
    component={"u": spreading, "v": fading}, variables={"u": (2, 3), "v": 2}, parameters=["a", "b"]
)


@pytest.mark.exhaustive
def test_two_arrays_a_sweep_and_an_event_that_ends_a_run():
    """u' = -a u + v, v' = -b v."""
    a, b = 0.5, np.array([1.0, 2.0])
    found = sensitivities(
        PAIR, times=TIMES, initial={"u": 1.0, "v": 1.0}, parameters=ergode.grid(a=a, b=b),
        with_respect_to=["b", "u[0, 2]", "v[1]"], events=[ZeroCrossing(low, -1, terminal=True)],
        rtol=1e-9, atol={"u": 1e-11, "v": 1e-12}, device="cpu",
    )  # fmt: skip
    assert found["sensitivity_u"].dims == ("b", "time", "i", "j", "with_respect_to")
    t = TIMES[None, :]
    v = np.exp(-b[:, None] * t)
    by_b = found["sensitivity_v"].sel(with_respect_to="b").values[..., 1]
    is_over = v < 0.2
    np.testing.assert_array_equal(np.isnan(by_b), is_over)
    np.testing.assert_allclose(by_b[~is_over], (-t * v)[~is_over], atol=1e-8)
    own = found["sensitivity_u"].sel(with_respect_to="u[0, 2]").values
    np.testing.assert_allclose(own[0, :, 0, 2], np.exp(-a * TIMES), atol=1e-8)
    assert (own[0, :, 1] == 0.0).all() and (own[0, :, 0, :2] == 0.0).all()
    through = (np.exp(-TIMES) - np.exp(-a * TIMES)) / (a - 1.0)
    own = found["sensitivity_u"].sel(with_respect_to="v[1]").values[0]
    np.testing.assert_allclose(own[:, 1, 0], through, atol=1e-8)


def kick(t, y, p):
    y.v[0] = 1.0


@pytest.mark.parametrize(("change", "said"), [
    ({"with_respect_to": "a"}, "expected a list of names"),
    ({"with_respect_to": []}, "is empty; name parameters, or elements"),
    ({"with_respect_to": ["c"]}, "has 'c'; the field has a, b, u"),
    ({"with_respect_to": ["u"]}, "has 'u'; the field has a, b, u"),
    ({"with_respect_to": ["v[2]"]}, r"has 'v\[2\]'; 'v' has shape \(2,\)"),
    ({"with_respect_to": ["u[1]"]}, r"'u' has shape \(2, 3\)"),
    ({"with_respect_to": ["a", "a"]}, "twice"),
    ({"events": [ZeroCrossing(low, effect=kick)]}, "'low' has an effect; sensitivities of arrays"),
    ({"step": 0.1, "rtol": 1e-3}, "give a step, or tolerances"),
    ({"atol": [1.0]}, "atol"),
    ({"precision": "float16"}, "precision"),
])  # fmt: skip
def test_refusals(change, said):
    call = {"times": TIMES, "initial": {"u": 1.0, "v": 1.0}, "parameters": {"a": 1.0, "b": 1.0},
            "with_respect_to": ["a"], "device": "cpu"}  # fmt: skip
    with pytest.raises(ergode.ErgodeError, match=said):
        sensitivities(PAIR, **call | change)
