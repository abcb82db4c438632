"""Check that a user's function is pure: it uses only its arguments and functions of numbers.

A compiled function is called in any order, on several threads and on a GPU, and its compiled form
is cached.  Random numbers, clocks, files and side effects would be lost, or frozen at their first
value.  Noise belongs into a field's `diffusion`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ergode.core.errors import ModelError

# Built-in functions of numbers.
_PURE = {
    "abs", "all", "any", "bool", "complex", "divmod", "enumerate", "float", "int", "len", "max",
    "min", "pow", "range", "reversed", "round", "slice", "sorted", "sum", "tuple", "zip",
    "Ellipsis", "NotImplemented",
}  # fmt: skip
# Functions of NumPy that are not pure.
_NUMPY_IMPURE = {
    "random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "save", "savetxt", "savez",
    "savez_compressed", "empty", "empty_like", "seterr", "errstate", "putmask", "copyto", "put",
    "put_along_axis", "place", "fill_diagonal", "set_printoptions", "asarray_chkfinite",
}  # fmt: skip
_REASONS = {
    "random": "draws random numbers; noise is the diffusion of a VectorField",
    "secrets": "draws random numbers; noise is the diffusion of a VectorField",
    "print": "prints",
    "open": "opens a file",
    "input": "asks for input",
    "time": "reads a clock; the time of the model is an argument",
    "datetime": "reads a clock; the time of the model is an argument",
}
_EXPECTED = "expected a function of its arguments alone, which changes nothing else"


def check_pure(
    tree: ast.FunctionDef, lookup: Callable[[ast.expr], tuple[bool, Any]], own: set[str]
) -> None:
    """Refuse a function that uses or changes more than its arguments.

    Parameters
    ----------
    tree : ast.FunctionDef
        The function.
    lookup : function
        ``lookup(path)`` tells whether a dotted path is defined outside of the function, and its
        value.
    own : set of str
        Names of its local variables.

    Raises a ModelError that names the function and what it uses.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            kind = type(node).__name__.lower()
            _refuse(
                tree, f"{kind} {', '.join(node.names)}", "changes a variable outside the function"
            )
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = ", ".join(alias.name for alias in node.names)
            _refuse(tree, f"import {names}", "belongs outside the function")
        if isinstance(node, ast.Name | ast.Attribute):
            _check_name(tree, node, lookup, own)


def _check_name(
    tree: ast.FunctionDef, node: ast.Name | ast.Attribute, lookup: Callable[..., Any], own: set[str]
) -> None:
    if isinstance(node, ast.Name) and node.id in own:
        return
    if not isinstance(node.ctx, ast.Load):
        _refuse(tree, ast.unparse(node), "changes a variable outside the function")
    found, value = lookup(node)
    path = ast.unparse(node)
    if not found:
        known = isinstance(node, ast.Name) and hasattr(builtins, node.id)
        if known and node.id not in _PURE and not _is_error(node.id):  # type: ignore[union-attr]
            _refuse(tree, path, _REASONS.get(path, "is not a function of numbers"))
        return
    if isinstance(value, ModuleType):
        name = value.__name__
        if name.startswith("numpy.random"):
            _refuse(tree, path, _REASONS["random"])
        return
    home = _home(value)
    if home.partition(".")[0] in _REASONS:
        _refuse(tree, path, _REASONS[home.partition(".")[0]])
    if home.startswith("numpy.random"):
        _refuse(tree, path, _REASONS["random"])
    name = getattr(value, "__name__", "")
    if name in _NUMPY_IMPURE and getattr(np, name, None) is value:
        _refuse(tree, path, "is not a function of numbers")
    for impure in ("print", "open", "input"):  # by another name
        if value is getattr(builtins, impure):
            _refuse(tree, path, _REASONS[impure])


def _home(value: Any) -> str:
    """Module in which a function, or the class of a method, is defined."""
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return str(type(owner).__module__)
    return str(getattr(value, "__module__", None) or getattr(owner, "__name__", ""))


def _is_error(name: str) -> bool:
    value = getattr(builtins, name)
    return (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, type) and issubclass(value, BaseException))
    )


def _refuse(tree: ast.FunctionDef, what: str, reason: str) -> None:
    raise ModelError(f"function '{tree.name}' uses {what!r}, which {reason}; {_EXPECTED}")
