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


def test_a_number_is_a_delay():
    """Only parameters were delays in equations given as text."""
    field = field_from_equations({"x": "-rate * x(t - 1)", "y": "x(t - 3 / 2) - x(t - pi / 2)"})
    assert field.parameters == ("rate", "1.0", "1.5", "1.5707963267948966")
    for text, delay in (("1", 1.0), ("3 / 2", 1.5), ("pi / 2", math.pi / 2)):
        found = ergode.trajectories.integrate(
            field_from_equations({"x": f"-rate * x(t - {text})"}), times=[0.0, 1.0, 2.0],
            initial={"x": 1.0}, parameters={"rate": [1.0, 2.0]}, step=2.0**-10, device="cpu",
        )["state"].values[..., 0]  # fmt: skip
        for rate, x in zip((1.0, 2.0), found, strict=True):  # a line, and then a parabola
            known = [1.0, 1.0 - rate, 1.0 - 2 * rate + 0.5 * (rate * (2 - delay)) ** 2]
            np.testing.assert_allclose(x, known, atol=1e-6)
    with pytest.raises(ergode.ModelError, match=r"delay '-1.0'"):
        ergode.trajectories.integrate(
            field_from_equations({"x": "x(t - (-1))"}), times=[0, 1], initial={"x": 1.0}
        )


@pytest.mark.parametrize(
    ("equations", "parameters", "message"),
    [
        ({"x": "a *"}, None, "the equation of 'x' is 'a \\*'; expected arithmetic"),
        ({"x": "[x]"}, None, r"the equation of 'x' has '\[x\]'; expected arithmetic"),
        ({"x": "erf(x)"}, None, "the equation of 'x' calls 'erf'; expected one of exp"),
        ({"x": "sin(x, x)"}, None, r"the equation of 'x' has sin\(x, x\); sin is of one number"),
        ({"x": "min(x)"}, None, r"has min\(x\); min is of several numbers"),
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


def test_a_sum_of_hundreds_of_terms_is_read():
    terms = [f"a * x ** {k % 3} / {k + 1}" for k in range(700)]
    field = field_from_equations({"x": " + ".join(terms)})
    expected = 0.0
    for k in range(700):
        expected += 0.3 * 0.7 ** (k % 3) / (k + 1)
    assert field.function(0.0, (0.7,), (0.3,)) == (expected,)  # in the same order, bit for bit


@pytest.mark.slow
def test_a_sum_of_hundreds_of_terms_runs():
    field = field_from_equations({"x": " + ".join(["a * x"] * 500)})
    found = ergode.trajectories.integrate(
        field, times=[0, 0.1], initial={"x": 0.7}, parameters={"a": 0.0}, step=0.05, device="cpu"
    )
    assert found["state"].values.ravel().tolist() == [0.7, 0.7]


def test_parts_of_a_long_equation_do_not_take_the_name_of_a_parameter():
    field = field_from_equations({"x": "-x" + " + part0 * x" * 200})
    assert field.parameters == ("part0",)
    assert field.function(0.0, (2.0,), (0.01,)) == (pytest.approx(2.0),)


@pytest.mark.parametrize(
    "text",
    [
        "-x + 0 * 9**9**9", "x + 1e999", "x + " + "9" * 400, "x ** (9 ** (9 ** 9))", "x + 0 ** -1",
        "(" * 5000 + "x" + ")" * 5000, "-" * 50_000 + "x", "x" + " + x" * 50_000,
        "x + (-8) ** (1 / 3)",
    ],
)  # fmt: skip
def test_what_has_no_value_or_no_end_is_refused(text):
    with pytest.raises(ergode.ModelError):
        field_from_equations({"x": text})


@pytest.mark.parametrize(
    ("text", "sign"),
    [("x ^ 2", r"\^ \(a power is \*\*\)"), ("x << 2", "<<"), ("x & 1", "&"), ("~x", "~"),
     ("x in x", "in"), ("x @ x", "@"), ("x is x", "is")],
)  # fmt: skip
def test_signs_of_whole_numbers_and_of_sets_are_refused_by_name(text, sign):
    with pytest.raises(ergode.ModelError, match=f"'x' has {sign}; expected arithmetic"):
        field_from_equations({"x": text})


def test_a_value_of_the_future_is_no_delay():
    with pytest.raises(ergode.ModelError, match="expected a delayed value"):
        field_from_equations({"x": "x(+tau + t)"})


def test_powers_of_numbers_keep_their_value():
    field = field_from_equations({"x": "x ** 2 + 2 ** 3 * x + 9 ** 40 * x"})
    assert field.function(0.0, (0.5,), ()) == (0.25 + 4.0 + 9.0**40 * 0.5,)


@pytest.mark.parametrize("name", ["I", "E", "oo"])
def test_a_name_that_is_a_number_elsewhere_is_no_parameter_by_itself(name):
    with pytest.raises(ergode.ModelError, match=f"'{name}'.*list it in parameters="):
        ergode.field_from_equations({"x": f"{name} * x"})
    assert ergode.field_from_equations({"x": f"{name} * x"}, [name]).parameters == (name,)
    infected = ergode.field_from_equations({"S": "-rate * S * I", "I": "rate * S * I"})
    assert infected.parameters == ("rate",)


def test_constants_of_sympy_are_numbers():
    sympy = pytest.importorskip("sympy")
    x = sympy.Symbol("x")
    field = ergode.field_from_equations({"x": sympy.E * x + sympy.pi * sympy.exp(x)})
    assert field.parameters == ()
    assert field.function(0.0, (1.0,), ())[0] == pytest.approx(math.e + math.pi * math.e)
    with pytest.raises(ergode.ModelError, match="real"):
        ergode.field_from_equations({"x": sympy.I * x})
