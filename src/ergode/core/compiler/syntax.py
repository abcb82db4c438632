"""A function as its text and its syntax tree, and a function of a text."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from ergode.core.errors import ModelError


def function_from_text(text: str, names: Mapping[str, Any]) -> FunctionType:
    """A function from its text, whose source is known as that of any other.

    Parameters
    ----------
    text : str
        One definition with `def`.
    names : mapping of str to object
        What its free names stand for.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    file = f"<ergode {digest}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"__name__": "formula", **names}
    exec(compile(text, file, "exec"), namespace)
    function = namespace[text[4 : text.index("(")]]
    assert isinstance(function, FunctionType)
    return function


@lru_cache(maxsize=1024)
def _text_of(code: CodeType) -> str:
    """Source of a function, read once: what the file says now may be another's."""
    return textwrap.dedent(inspect.getsource(code))


def syntax(function: Callable[..., Any]) -> ast.FunctionDef:
    """Syntax tree of a function without decorators, annotations, defaults and docstring."""
    if hasattr(function, "__wrapped__"):
        raise ModelError(
            f"function '{function.__name__}' is wrapped by a decorator, which would be lost; pass "
            "the function without it"
        )
    try:
        text = _text_of(function.__code__)
    except (AttributeError, OSError, TypeError):
        raise ModelError(
            f"the source of function '{function.__name__}' is not available; define it with "
            "`def` in a file or a notebook cell"
        ) from None
    try:
        tree = ast.parse(text).body[0]
    except SyntaxError:
        tree = ast.Pass()
    if not isinstance(tree, ast.FunctionDef):
        raise ModelError(
            f"function '{function.__name__}' must be defined with `def`, alone; a lambda cannot "
            "be compiled"
        )
    tree.decorator_list = []
    tree.returns = None
    tree.args.defaults = []
    tree.args.kw_defaults = [None for _ in tree.args.kwonlyargs]
    for argument in [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]:
        argument.annotation = None
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass()]
    return tree


def local_names(code: CodeType) -> Iterator[str]:
    """Names of local variables, those of comprehensions too."""
    yield from code.co_varnames
    yield from code.co_cellvars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from local_names(constant)
