"""Curves of folds and of Hopf points against normal forms."""

import numpy as np
import pytest

import ergode
from ergode.trajectories import branch


def test_cusp(special, names):
    field = ergode.field_from_equations({"x": "a + b * x - x**3"})
    rest = branch(field, start={"x": 2}, parameters={"a": 3, "b": 1}, vary={"a": (-4, 4)})
    bounds = {"a": (-4, 4), "b": (-1, 3)}
    found = branch(field, start=rest, at="fold-1", kind="folds", vary=bounds)
    assert names(found) == ["bound-1", "cusp-1", "bound-2"]
    np.testing.assert_allclose(27 * found["a"] ** 2, 4 * found["b"] ** 3, atol=1e-12)
    cusp = special(found, "cusp-1")
    assert abs(float(cusp["a"])) < 1e-12
    assert abs(float(cusp["b"])) < 1e-12


def test_bogdanov_takens(special, names):
    """Folds at 4 b1 = b2^2; Hopf points at b1 = 0, b2 < 0; both meet at zero."""
    field = ergode.field_from_equations({"x": "y", "y": "b1 + b2 * x + x**2 - x * y"})
    rest = branch(
        field, start={"x": -1.5, "y": 0}, parameters={"b1": -0.5, "b2": -1}, vary={"b1": (-2, 2)}
    )
    bounds = {"b1": (-2, 2), "b2": (-2, 2)}
    folds = branch(field, start=rest, at="fold-1", kind="folds", vary=bounds)
    np.testing.assert_allclose(4 * folds["b1"], folds["b2"] ** 2, atol=1e-12)
    hopf = branch(field, start=rest, at="hopf-1", kind="hopf", vary=bounds)
    np.testing.assert_allclose(hopf["b1"], 0, atol=1e-12)
    np.testing.assert_allclose(hopf["frequency"] ** 2, -hopf["b2"], atol=1e-10)
    for curve in (folds, hopf):
        point = special(curve, "bogdanov-takens-1")
        assert abs(float(point["b1"])) < 1e-10
        assert abs(float(point["b2"])) < 1e-10
    ends = {hopf.attrs["first_end"], hopf.attrs["last_end"]}
    assert "The Hopf points end at a Bogdanov-Takens point." in ends
    other = branch(field, start=folds, at="bogdanov-takens-1", kind="hopf", vary=bounds)
    assert names(other) == ["bogdanov-takens-1", "bound-1"]
    np.testing.assert_allclose(other["b1"], 0, atol=1e-12)
    assert other["b2"].values.min() == pytest.approx(-2)
    with pytest.raises(ergode.PlanError, match="at= is 'bogdanov-takens-1'"):
        branch(field, start=other, at="bogdanov-takens-1", kind="cycles", vary={"b1": (-2, 2)})


def test_bautin(special):
    """The cubic coefficient of the normal form passes zero on the curve of Hopf points."""
    square = "(x**2 + y**2)"
    field = ergode.field_from_equations({
        "x": f"mu * x - 2 * y + a * x * {square} - x * {square}**2",
        "y": f"2 * x + mu * y + a * y * {square} - y * {square}**2",
    })  # fmt: skip
    rest = branch(
        field, start={"x": 0, "y": 0}, parameters={"mu": -1, "a": -1.5}, vary={"mu": (-2, 1)}
    )
    found = branch(field, start=rest, at="hopf-1", kind="hopf", vary={"mu": (-4, 4), "a": (-2, 3)})
    np.testing.assert_allclose(found["lyapunov_coefficient"], found["a"], rtol=1e-10, atol=1e-12)
    bautin = special(found, "bautin-1")
    assert abs(float(bautin["a"])) < 1e-12
    # Beyond it, the cycles are unstable first, and turn at a fold: 4 mu + a^2 = 0.
    begin = int(np.abs(found["a"].values - 2).argmin())
    a = float(found["a"][begin])
    cycles = branch(field, start=found, at=begin, kind="cycles", vary={"mu": (-2, 1)})
    assert float(special(cycles, "fold-1")["mu"]) == pytest.approx(-(a**2) / 4, rel=1e-8)
    assert not bool(cycles["stable"][2])
    assert bool(cycles["stable"][-1])


def test_zero_hopf_and_double_hopf(special):
    """Independent parts of one field lose stability where their parameters are zero."""
    field = ergode.field_from_equations({
        "x": "mu * x - 2 * y - x**3", "y": "2 * x + mu * y - y**3",
        "u": "nu * u - 3 * v - u**3 + mu * u", "v": "3 * u + nu * v - v**3 + mu * v",
        "w": "-(nu + 1) * w - w**3",
    })  # fmt: skip
    zero = dict.fromkeys(field.variables, 0.0)
    rest = branch(field, start=zero, parameters={"mu": -1, "nu": -0.5}, vary={"mu": (-1.2, 0.2)})
    found = branch(
        field, start=rest, at="hopf-1", kind="hopf", vary={"mu": (-1.2, 0.2), "nu": (-2, 1)}
    )
    assert abs(float(special(found, "double-hopf-1")["nu"])) < 1e-9
    assert float(special(found, "zero-hopf-1")["nu"]) == pytest.approx(-1, abs=1e-9)


def test_the_hopf_points_of_the_brusselator_without_symbolic_derivatives():
    def brusselator(t, y, p):
        x = y[0]
        if x > 1e9:
            x = 1e9
        return p[0] - (p[1] + 1) * x + x * x * y[1], p[1] * x - x * x * y[1]

    field = ergode.VectorField(brusselator, ["x", "y"], ["A", "B"])
    rest = branch(field, start={"x": 1, "y": 1}, parameters={"A": 1, "B": 1}, vary={"B": (0.5, 3)})
    found = branch(
        field, start=rest, at="hopf-1", kind="hopf", vary={"B": (1.1, 3), "A": (0.1, 3)},
        max_points=5, max_step=0.1,
    )  # fmt: skip
    assert found.attrs["derivatives"] == "differences"
    np.testing.assert_allclose(found["B"], 1 + found["A"] ** 2, rtol=1e-9)
