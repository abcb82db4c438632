"""The syntax of functions, and functions that are made of text."""

import ast
import functools

import pytest

from ergode.core.compiler.syntax import function_from_text, syntax
from ergode.core.errors import ModelError


def scaled(x: float, *, by: float = 2.0) -> float:
    """Documented."""
    return by * x


def test_what_a_function_does_is_left():
    assert ast.unparse(syntax(scaled)) == "def scaled(x, *, by):\n    return by * x"


def test_a_function_of_a_text_has_a_source():
    function = function_from_text("def rated(x):\n    return rate * x", {"rate": 3.0})
    assert function(2.0) == 6.0
    assert ast.unparse(syntax(function)) == "def rated(x):\n    return rate * x"


def test_a_function_without_source_is_an_error():
    names = {}
    exec("def unseen(x):\n    return x", names)
    with pytest.raises(ModelError, match="source of function 'unseen' is not available"):
        syntax(names["unseen"])


def test_a_lambda_is_an_error():
    with pytest.raises(ModelError, match="must be defined with `def`, alone; a lambda cannot"):
        syntax(lambda x: x)


def test_a_decorator_is_not_dropped_in_silence():
    @functools.wraps(scaled)
    def wrapper(x):
        return 2.0 * scaled(x)

    with pytest.raises(ModelError, match="'scaled' is wrapped by a decorator"):
        syntax(wrapper)
