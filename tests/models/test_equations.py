import math

import numpy as np
import pytest

import ergode
from ergode import field_from_equations


def test_text_is_the_function_it_says():
    field = field_from_equations(
        {
            "x": "sigma * (y - x) + sin(pi * t) ** 2",
            "y": "x(t - tau) * abs(y) - exp(-x) if x > 0 else rate / 3",
        }
    )
    assert field.parameters == ("rate", "sigma", "tau")
    assert field.delays == (("x", "tau"),)
    y, yd, p = (0.4, -1.2), (0.7,), (2.0, 3.0, 1.0)
    assert field.function(0.3, y, yd, p) == pytest.approx(
        (3.0 * -1.6 + math.sin(0.3 * math.pi) ** 2, 0.7 * 1.2 - math.exp(-0.4))
    )
    assert field.function(0.3, (-1.0, 2.0), yd, p)[1] == pytest.approx(2 / 3)


def test_sympy_is_a_door():
    sympy = pytest.importorskip("sympy")
    t, tau, r = sympy.symbols("t tau r")
    y = sympy.Function("y")
    field = field_from_equations({"y": r * sympy.Symbol("y") * (1 - y(t - tau))})
    assert field.delays == (("y", "tau"),)
    result = ergode.trajectories.integrate(
        field, times=[0, 20], initial={"y": 0.5}, parameters={"r": 1.8, "tau": 1.0}, step=1 / 128,
        device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(result["state"][-1, 0], 0.205300615456662867, rtol=1e-8)


def test_noise():
    field = field_from_equations({"x": "-a * x", "v": "x"}, diffusion={"x": "s"})
    assert field.parameters == ("a", "s")
    assert field.diffusion(0.0, (1.0, 2.0), (3.0, 4.0)) == (4.0, 0.0)


@pytest.mark.parametrize(
    ("equations", "parameters", "message"),
    [
        ({"x": "a *"}, None, "the equation of 'x' is 'a \\*'; expected arithmetic"),
        ({"x": "[x]"}, None, r"the equation of 'x' has '\[x\]'; expected arithmetic"),
        ({"x": "erf(x)"}, None, "the equation of 'x' calls 'erf'; expected one of exp"),
        ({"x": "x(t + tau)"}, None, "expected a delayed value such as 'x\\(t - tau\\)'"),
        ({"x": "a * x + b"}, ["a"], "use 'b', which is neither a variable nor among .*: a"),
        ({}, None, "expected an equation for each variable"),
    ],
)
def test_bad_equations_are_one_line(equations, parameters, message):
    with pytest.raises(ergode.ModelError, match=message) as caught:
        field_from_equations(equations, parameters)
    assert "\n" not in str(caught.value)


def test_noise_of_nothing():
    with pytest.raises(ergode.ModelError, match="diffusion has 'y', which has no equation"):
        field_from_equations({"x": "-x"}, diffusion={"y": "1"})
