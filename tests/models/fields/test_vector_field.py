import functools
import math

import numpy as np
import pytest

import ergode
from ergode import VectorField

RATE = 2


def fine(t, y, p):
    return (-p[0] * y[0],)


def helper(x):
    return RATE * x


def with_helper(t, y, p):
    return (helper(y[0]),)


def short_of_arguments(t, y):
    return (y[0],)


def with_past(t, y, yd, p):
    return (yd[0],)


def with_default(t, y, p=1):
    return (y[0],)


def a_list(t, y, p):
    return [y[0]]


def a_number(t, y, p):
    return p[0] * y[0]


def nothing(t, y, p):
    y[0] + 1.0


def bare_return(t, y, p):
    return


def two(t, y, p):
    return y[0], y[0]


def two_by_name(t, y, p):
    result = (y[0], y[0])
    return result


def list_inside(t, y, p):
    parts = [y[0]]
    return (parts[0],)


def number_by_name(t, y, p):
    result = y[0]
    return result


def recursive(t, y, p):
    return recursive(t, y, p)


def undefined(t, y, p):
    return (no_such_name * y[0],)  # noqa: F821


def beyond_parameters(t, y, p):
    return (p[1] * y[0],)


def beyond_variables(t, y, p):
    return (y[2],)


def beyond_delays(t, y, yd, p):
    return (yd[1],)


def array_returned(t, y, p):
    return np.array([y[0]])


def dictionary(t, y, p):
    table = {"a": 1.0}
    return (table["a"] * y[0],)


def adds_a_tuple(t, y, p):
    return (np.sum(y),)


def of_two(t, y, p, a=1.0, b=2.0):
    return (a * b * y[0],)


def a_word(t, y, p):
    return ("none",)


def helped(t, y, p):
    return (misspelled(y[0]),)


def misspelled(x):
    return x.real_part


def by_name(t, y, p):
    return (-p["rate"] * y[0],)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (short_of_arguments, r"function is short_of_arguments\(t, y\); expected .*\(t, y, p\)"),
        (with_past, r"expected with_past\(t, y, p\) - or list the delays"),
        (with_default, r"function is with_default\(t, y, p=1\); expected with_default\(t, y, p\)"),
        (a_list, r"'a_list' returns a list; expected a tuple, \(dy/dt,\)"),
        (a_number, r"'a_number' returns p\[0\] \* y\[0\]; expected a tuple"),
        (nothing, "'nothing' returns nothing"),
        (bare_return, "'bare_return' returns nothing"),
        (two, r"'two' returns 2 values for 1 variable: there are too many; expected \(dy/dt,\)"),
        (two_by_name, "'two_by_name' returns 2 values for 1 variable"),
        (number_by_name, "'number_by_name' returns a float; expected a tuple"),
        (list_inside, r"'list_inside' uses a list \(line 2 of 'list_inside'\)"),
        (dictionary, r"'dictionary' uses a dict \(line 2 of 'dictionary'\)"),
        (array_returned, r"returns np.array\(\[...\]\), an array; expected a tuple"),
        (lambda t, y, p: np.array([y[0]]), r"returns np.array\(\[...\]\), an array"),
        (recursive, "'recursive' calls itself; use a loop instead"),
        (undefined, "'undefined' uses 'no_such_name', which is not defined"),
        (a_word, "'a_word' returns 'none' for 'y'; expected a real number"),
        (by_name, r"'by_name' failed: TypeError: tuple indices must be integers.* \(line 2 of"),
        (helped, r"failed: AttributeError: .*\(line 2 of 'misspelled': return x.real_part\)"),
        (functools.partial(of_two, b=5.0), r"bind the other arguments: .*partial\(of_two, a=1.0\)"),
        (of_two, r"bind the other arguments: functools.partial\(of_two, a=1.0, b=2.0\)"),
        (with_past, "or bind 'p' with functools.partial"),
        (beyond_parameters, r"uses p\[1\], but there is 1 parameter"),
        (beyond_variables, r"uses y\[2\], but there is 1 variable"),
        (lambda t, y, p: y[0] + 1, "returns y\\[0\\] \\+ 1; expected a tuple"),
        (lambda t, y, p: y[0] + 1, r"expected a tuple, \(y\[0\] \+ 1,\)"),
        (lambda y, t, p: (y[0],), r"function is <lambda>\(y, t, p\); expected <lambda>\(t, y, p\)"),
        (math.sin, "function is <built-in function sin>; expected a function"),
        (3.0, "function is 3.0; expected a function"),
    ],
)
def test_bad_function_is_one_line(function, message):
    with pytest.raises(ergode.ModelError, match=message) as caught:
        VectorField(function, ["y"], ["rate"])
    assert "\n" not in str(caught.value)


def test_missing_variables_are_named():
    with pytest.raises(ergode.ModelError, match="'fine' returns 1 value for 3 .* for 'y', 'z'; "):
        VectorField(fine, ["x", "y", "z"], ["rate"])


def test_what_only_the_compiler_can_tell_is_one_line():
    field = VectorField(adds_a_tuple, ["y"], ["rate"])
    with pytest.raises(ergode.ModelError, match="cannot be compiled: .*sum") as caught:
        ergode.trajectories.integrate(
            field, times=[0, 1], initial={"y": 1}, parameters={"rate": 1}, step=0.1, device="cpu"
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("delays", "message"),
    [
        ([("q", "rate")], r"delay \('q', 'rate'\) names the variable 'q', which is not among .* y"),
        ([("y", "tau")], "names the parameter 'tau', which is not among the parameters: rate"),
        (["y"], "delays has 'y'; expected pairs of a variable and the parameter"),
    ],
)
def test_bad_delay(delays, message):
    with pytest.raises(ergode.ModelError, match=message):
        VectorField(beyond_delays, ["y"], ["rate"], delays)


def test_delay_beyond_those_named():
    with pytest.raises(ergode.ModelError, match=r"uses yd\[1\], but there is 1 delay"):
        VectorField(beyond_delays, ["y"], ["tau"], [("y", "tau")])
    with pytest.raises(ergode.ModelError, match=r"fine\(t, y, p\); expected fine\(t, y, yd, p\)"):
        VectorField(fine, ["y"], ["tau"], [("y", "tau")])


@pytest.mark.parametrize(
    ("variables", "parameters", "message"),
    [
        ([], ["rate"], "variables is empty"),
        ("y", ["rate"], r"variables is 'y'; expected a sequence of names, such as \['y'\]"),
        (["y", "y"], ["rate"], "variables has 'y' twice"),
        (["y"], ["y"], "'y' is both a variable and a parameter"),
        (["y"], [1], "parameters has 1; expected names"),
    ],
)
def test_bad_names(variables, parameters, message):
    with pytest.raises(ergode.ModelError, match=message):
        VectorField(fine, variables, parameters)


def test_digest_is_of_all_that_is_compiled(monkeypatch):
    digest = VectorField(with_helper, ["y"], ["rate"]).digest
    assert digest == VectorField(with_helper, ["y"], ["rate"]).digest
    assert digest != VectorField(with_helper, ["y"], ["speed"]).digest
    monkeypatch.setitem(globals(), "RATE", 3)
    assert digest != VectorField(with_helper, ["y"], ["rate"]).digest


def test_a_negative_power_of_zero_ends_its_own_trajectory_alone():
    field = VectorField(lambda t, y, p: (y[0] ** -1,), ["y"])
    result = ergode.trajectories.integrate(
        field, initial={"y": [0.0, 1.0]}, times=[0, 0.5], step=0.1, device="cpu",
    )  # fmt: skip
    assert result["status"].values.tolist() == [ergode.Status.NOT_FINITE, ergode.Status.DONE]
    assert result["state"].values[1].ravel()[-1] == pytest.approx(np.sqrt(2.0), rel=1e-6)


def later(i, t, y, p):
    return y[0] if t < 2.0 else y[12]


def later_of_two(i, j, t, y, p, c):
    return y[i, -4] * c.weights[1] if t > 2.0 else 0.0


def later_table(i, j, t, y, p, c):
    return c.weights[2] if t > 2.0 else 0.0


def later_in_place(t, y, dy, p):
    if t > 2.0:
        dy.v[5] = y.x[2]
    dy.x[:] = y.x
    dy.v[:] = y.v


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (later, {"variables": ("y", 12)}, r"'later' uses y\[12\], but an index .* from 0 to 11"),
        (later_of_two, {"variables": ("y", (5, 3)), "constants": {"weights": np.ones(2)}},
         r"uses y\[i, -4\], but an index of this array is from 0 to 2"),
        (later_table, {"variables": ("y", (5, 3)), "constants": {"weights": np.ones(2)}},
         r"uses c.weights\[2\], but an index of this array is from 0 to 1"),
        (later_in_place, {"variables": {"x": 3, "v": 5}}, r"uses dy.v\[5\], but .* from 0 to 4"),
    ],
)  # fmt: skip
def test_constant_indices_beyond_an_array(function, options, message):
    """They were found only where the first call reads them; later they read foreign memory."""
    what = "rhs" if function is later_in_place else "component"
    with pytest.raises(ergode.ModelError, match=message):
        VectorField(**{what: function}, **options)
