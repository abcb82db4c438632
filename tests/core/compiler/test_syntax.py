"""The syntax of functions, and functions that are made of text."""

import ast
import functools
import importlib
import linecache
import types

import pytest

from ergode.core.compiler.syntax import as_function, function_from_text, syntax
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


def test_a_lambda_is_a_definition():
    (one, two), three = (lambda x: x + 1, lambda x: (lambda y: y, x)), lambda x, *, k=2: k * x
    assert ast.unparse(syntax(one)) == "def formula(x):\n    return x + 1"
    assert ast.unparse(syntax(two)) == "def formula(x):\n    return (lambda y: y, x)"
    assert ast.unparse(syntax(two(0)[0])) == "def formula(y):\n    return y"
    assert ast.unparse(syntax(three)) == "def formula(x, *, k):\n    return k * x"
    for found in (lambda x: -x if x < 0 else x), (lambda x: max(x, 0.0) ** 2), (lambda x: x):
        text = ast.unparse(syntax(found))[len("def formula(x):\n    return ") :]
        assert eval(text, {"x": -3.0}) == found(-3.0)


def test_lambdas_of_one_line_are_told_apart_by_their_code():
    one, two = lambda x: (0.0, 0.1), lambda x: (0.0, -0.1)  # constants, whatever positions they get
    same, as_well = lambda x: x * 2, lambda x: x * 2
    assert [ast.unparse(syntax(f).body[0].value) for f in (one, two)] == [
        "(0.0, 0.1)",
        "(0.0, -0.1)",
    ]
    assert ast.unparse(syntax(same)) == ast.unparse(syntax(as_well))
    bare = types.FunctionType(one.__code__.replace(co_linetable=b""), {})  # no positions at all
    assert ast.unparse(syntax(bare).body[0].value) == "(0.0, 0.1)"
    gone = types.FunctionType(one.__code__.replace(co_consts=(None, (0.0, 0.3))), {})
    with pytest.raises(ModelError, match="cannot be read; define it with `def`"):
        syntax(gone)


WRITTEN = """
def plain(x):
    return x + {0}
def closed(rate):
    \"\"\"Documented.\"\"\"
    def inner(x, scale=2.0):
        total = sum(rate * k for k in (1, {0}))
        return scale * x if x > total else (lambda y: -y)(x)
    return inner
short = lambda x: x * {0}
"""


def test_a_source_that_has_changed_since_is_an_error(tmp_path, monkeypatch):
    """Python runs what was read; what would be compiled is what the file says now."""
    path = tmp_path / "rates_of_a_user.py"
    monkeypatch.syspath_prepend(tmp_path)
    path.write_text(WRITTEN.format(2))
    module = importlib.import_module(path.stem)
    path.write_text("\n" + WRITTEN.format(2))
    again = importlib.reload(module)
    for function in again.plain, again.closed(2.0), again.short:
        syntax(function)
    path.write_text(WRITTEN.format(3))
    later = importlib.reload(module)
    path.write_text(WRITTEN.format(4))
    linecache.checkcache()
    for function in later.plain, later.closed(2.0), later.short:
        with pytest.raises(ModelError, match="has changed since it was read"):
            syntax(function)


def test_a_partial_function_is_a_function():
    assert as_function(functools.partial(scaled, by=3.0))(2.0) == 6.0
    assert as_function(functools.partial(pow, 2)).__class__ is functools.partial
    whole = as_function(functools.partial(lambda a, b, c: (a, b, c), 1, c=3))
    assert whole(2) == (1, 2, 3)
    assert ast.unparse(syntax(whole)).startswith("def formula(b):")


def test_a_decorator_is_not_dropped_in_silence():
    @functools.wraps(scaled)
    def wrapper(x):
        return 2.0 * scaled(x)

    with pytest.raises(ModelError, match="'scaled' is wrapped by a decorator"):
        syntax(wrapper)
