"""Formulas: what is read, what it is worth, what is refused."""

import ast
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from ergode.core.errors import ModelError
from ergode.models import expressions
from ergode.models.expressions import Effect, Expression, number_or_expression

KNOWN = {"a": 2.0, "b": -3.5, "c": 0.25}


def random_formula(rng, depth):
    """A formula as ergode reads it, and as Python does."""
    if depth == 0:
        name = rng.choice([*KNOWN, "1.5", "2"])
        return name, name
    kind = rng.integers(6)
    (p, q), (r, s) = (random_formula(rng, depth - 1) for _ in range(2))
    if kind < 3:
        sign = "+-*"[kind]
        return f"({p} {sign} {r})", f"({q} {sign} {s})"
    if kind == 3:
        return f"abs({p})^2", f"abs({q})**2"
    if kind == 4:
        return f"max({p}, {r}, 1)", f"max({q}, {s}, 1)"
    return f"piecewise({p}, {p} < {r}, {r})", f"({q} if {q} < {s} else {s})"


@pytest.mark.parametrize("seed", range(40))
def test_random_formulas_are_what_python_says(seed):
    mine, theirs = random_formula(np.random.default_rng(seed), 4)
    assert Expression(mine).evaluate(KNOWN) == pytest.approx(eval(theirs, dict(KNOWN)), rel=1e-13)


def test_arrays_are_taken_element_by_element():
    formula = Expression("piecewise(x, x > 1 and not x > 3, -x)")
    x = np.array([0.5, 2.0, 4.0])
    np.testing.assert_array_equal(formula.evaluate({"x": x}), [-0.5, 2.0, -4.0])


def test_a_chain_of_comparisons():
    assert Expression("1 < x < 3").evaluate({"x": 2.0})
    assert not Expression("1 < x < 3").evaluate({"x": 4.0})


def test_names_and_constants():
    formula = Expression("v * S / (K + S) * pi + lambda")
    assert formula.names == {"v", "S", "K", "lambda"}
    known = {"v": 1.0, "S": 1.0, "K": 1.0, "lambda": 0.5}
    assert formula.evaluate(known) == pytest.approx(math.pi / 2 + 0.5)


def test_equality_is_of_meaning_and_pickles():
    one, other = Expression("a+b"), Expression("( a  + b )")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Expression("b + a")
    assert pickle.loads(pickle.dumps(one)) == one


def test_substitution():
    formula = Expression("k * A").substitute({"k": Expression("a + b"), "A": 2.0})
    assert formula == Expression("(a + b) * 2")
    assert formula.evaluate(KNOWN) == -3.0
    grows = Expression("a * a + 1")
    with pytest.raises(ModelError, match="more than 300000 characters"):
        for _ in range(30):
            grows = grows.substitute({"a": grows})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A > 1 & time > 2", "it has '&'; write 'and'"), ("A || B", r"'\|\|'; write 'or'"),
        ("A>1 && !B", "'&&'; write 'and'"), ("!(A != 1)", "'!'; write 'not'"),
        ("A % 2", r"'%'; write 'A - B \* floor"), ("A // 2", "'//'; write 'floor"),
        ("A = 3", "it has '='; write '=='"), ("B <= 2 ? 1 : A", r"'\?'; write 'A if cond"),
        ("", "not a formula"), ("a +", "not a formula"), ("a[0]", "cannot be read"),
        ("'x'", "cannot be read"), ("f(a)", "calls the unknown function 'f'"),
        ("exp(a, b)", "takes 1 argument"), ("piecewise(a, b)", "takes pairs"),
        ("binomial(a, 0.5)", "only assignments of events"),
        ("(" * 3000 + "a" + ")" * 3000, r"^.{3,80} is not a formula"),
        ("-" * 3000 + "a", r"^.{3,80} is "),
        ("max(a, key=b)", "named arguments"), ("a.b", "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_formula_is_refused(text, message):
    with pytest.raises(ModelError, match=message):
        Expression(text)


def test_no_value_is_an_error():
    with pytest.raises(ModelError, match="uses 'q', which has no value"):
        Expression("q").evaluate({})
    assert math.isnan(Expression("sqrt(b)").evaluate(KNOWN))


def test_effects_may_draw():
    assert Effect("binomial(X, 0.5) + 1").draws
    assert not Effect("X + 1").draws


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2, 2.0), (np.float32(0.5), 0.5), ("3 * 2", 6.0), ("k", Expression("k"))],
)
def test_number_or_expression(value, expected):
    assert number_or_expression(value, "rate") == expected


@pytest.mark.parametrize("value", [None, [1], True, math.inf, "k +", 10**400])
def test_neither_number_nor_formula(value):
    with pytest.raises(ModelError, match="^rate"):
        number_or_expression(value, "rate")


def test_the_page_lists_what_a_formula_may_have():
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "reaction_networks.md"
    section = page.read_text().partition("### Formulas")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", section, re.M))
    shown = {name: re.findall(r"`(.+?)`", row) for name, row in rows.items()}
    assert sorted(shown["functions"]) == sorted(expressions.FUNCTIONS)
    assert [draw.partition("(")[0] for draw in shown["draws"]] == list(expressions.DRAWS)
    assert all(expressions.Effect(draw).draws for draw in shown["draws"])
    operators = {
        type(node)
        for text in shown["arithmetic"] + shown["comparisons"] + shown["conditions"]
        for node in ast.walk(ast.parse(text.replace("^", "**")))
    }
    assert set(expressions._OPERATORS) <= operators
    for text in [*shown["arithmetic"], *shown["comparisons"], *shown["choice"]]:
        assert np.isfinite(Expression(text).evaluate({"A": 2.0, "B": 3.0}))
    words = set(re.findall(r"\w+", Expression.__doc__.partition("Parameters")[0]))
    assert words >= {*expressions.FUNCTIONS, *expressions.DRAWS, "pi", "time"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("A > 1", True), ("1 < A < 3", True), ("not A", True), ("A > 1 or B > 1", True),
        ("A > 1 if B > 1 else False", True), ("True", True), ("busy", True), ("very", True),
        ("A", False), ("-A", False), ("A if B > 1 else 0", False), ("level", False), ("2", False),
        ("abs(A > 1)", False), ("time", False),
    ],
)  # fmt: skip
def test_numbers_are_no_conditions(text, holds):
    rules = {"busy": "A > 3", "very": "busy", "level": "A + 3"}
    rules = {name: Expression(rule) for name, rule in rules.items()}
    assert expressions.is_condition(Expression(text), rules) == holds
