"""Differential-algebraic equations: problems of the published test set, and consistent values.

F. Mazzia, C. Magherini, "Test Set for Initial Value Problem Solvers", release 2.4 (2008).
"""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode
from ergode.core.errors import ModelError, PlanError
from ergode.trajectories import ZeroCrossing, integrate, sensitivities

ROBERTSON = ergode.field_from_equations(
    {"a": "-k * a + 1e4 * b * c", "b": "k * a - 1e4 * b * c - 3e7 * b**2", "c": "a + b + c - 1"},
    mass=[1, 1, 0],
)


def ordinary(t, y):
    a, b, c = y
    rise = 0.04 * a - 1e4 * b * c
    return [-rise, rise - 3e7 * b**2, 3e7 * b**2]


def jacobian(t, y):
    _, b, c = y
    return [[-0.04, 1e4 * c, 1e4 * b], [0.04, -1e4 * c - 6e7 * b, -1e4 * b], [0, 6e7 * b, 0]]


@pytest.mark.parametrize("method", ["auto", "radau5"])
def test_robertson(method):
    times = np.append(0.0, 0.4 * 10.0 ** np.arange(8))
    found = integrate(ROBERTSON, times=times, initial={"a": 1.0, "b": 0.0, "c": 0.5},
                      parameters={"k": 0.04}, rtol=1e-9, atol=1e-14, method=method,
                      device="cpu")  # fmt: skip
    assert found.attrs["method"] == ("rodas5p" if method == "auto" else method)
    assert found["state"].values[0].tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-15)
    exact = solve_ivp(ordinary, (0, times[-1]), [1.0, 0.0, 0.0], "Radau", times, rtol=1e-11,
                      atol=1e-16, jac=jacobian)  # fmt: skip
    assert found["state"].values == pytest.approx(exact.y.T, rel=2e-7, abs=1e-13)
    assert found["state"].sum("variable").values == pytest.approx(1.0, abs=1e-11)


def amplifier(t, y, p):
    first = 1e-6 * (math.exp((y[1] - y[2]) / 0.026) - 1)
    second = 1e-6 * (math.exp((y[4] - y[5]) / 0.026) - 1)
    return (
        (y[0] - 0.1 * math.sin(200 * math.pi * t)) / 1000,
        (2 * y[1] - 6) / 9000 + 0.01 * first,
        y[2] / 9000 - first,
        (y[3] - 6) / 9000 + 0.99 * first,
        (2 * y[4] - 6) / 9000 + 0.01 * second,
        y[5] / 9000 - second,
        (y[6] - 6) / 9000 + 0.99 * second,
        y[7] / 9000,
    )


def test_transistor_amplifier():
    mass = np.zeros((8, 8))
    for capacity, (i, j) in ((1e-6, (0, 1)), (3e-6, (3, 4)), (5e-6, (6, 7))):
        mass[[i, j], [i, j]] -= capacity
        mass[[i, j], [j, i]] += capacity
    mass[2, 2], mass[5, 5] = -2e-6, -4e-6
    field = ergode.VectorField(amplifier, [f"u{k}" for k in range(1, 9)], mass=mass)
    found = integrate(
        field, times=[0, 0.2], rtol=1e-9, atol=1e-10, device="cpu",
        initial=dict(zip(field.variables, (0, 3, 3, 6, 3, 3, 6, 0), strict=True)),
    )  # fmt: skip
    assert found["state"].values[-1] == pytest.approx(
        [-0.5562145012262709e-2, 0.3006522471903042e1, 0.2849958788608128e1, 0.2926422536206241e1,
         0.2704617865010554e1, 0.2761837778393145e1, 0.4770927631616772e1, 0.1236995868091548e1],
        abs=2e-6,
    )  # fmt: skip


def test_what_is_refused():
    given = {"initial": {"a": 1.0, "b": 0.0, "c": 0.0}, "parameters": {"k": 0.04}, "device": "cpu"}
    with pytest.raises(PlanError, match="'tsit5' has no mass matrix; choose 'rodas5p' or 'radau5'"):
        integrate(ROBERTSON, times=[0, 1], method="tsit5", **given)
    with pytest.raises(ModelError, match="takes fields without a mass matrix"):
        sensitivities(ROBERTSON, times=[0, 1], with_respect_to=["k"], **given)

    def level(t, y, p):
        return y[0] - 0.5

    def change(t, y, p):
        return 1.0, 0.0, 0.0

    with pytest.raises(PlanError, match="effects of events with a mass matrix"):
        integrate(ROBERTSON, times=[0, 1], events=[ZeroCrossing(level, effect=change)], **given)
    with pytest.raises(ModelError, match=r"mass has shape \(2,\); expected finite numbers"):
        ergode.field_from_equations({"x": "-x"}, mass=[1, 2])
    higher = ergode.field_from_equations({"x": "z", "z": "x - 1"}, mass=[1, 0])
    with pytest.raises(ModelError, match="the index of the equations is above 1"):
        integrate(higher, times=[0, 1], initial={"x": 1.0, "z": 0.0}, device="cpu")
    nothing = ergode.field_from_equations({"x": "-x", "z": "z**2 + 1 + x**2"}, mass=[1, 0])
    with pytest.raises(ModelError, match="no consistent initial|do not determine"):
        integrate(nothing, times=[0, 1], initial={"x": 1.0, "z": 0.3}, device="cpu")
