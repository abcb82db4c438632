"""Pickle models with user functions: a function is sent as its source text.

Pickle finds a function by its name in a module.  Functions of a notebook or a prompt, nested
functions and lambdas are not found by name, and a file may have changed since it was imported.  A
user's function is therefore pickled as its text, with the values of the names in it.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from ergode.core.compiler.syntax import as_function, function_from_text, outer_value, syntax


class HoldsFunctions:
    """Base of models with function attributes, which are pickled as text.

    A dataclass calls this `__post_init__` first: it turns a `functools.partial` into a function.
    """

    def __post_init__(self) -> None:
        vars(self).update({name: as_function(value) for name, value in vars(self).items()})

    def __getstate__(self) -> dict[str, Any]:
        return _each(_packed, vars(self))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(_each(_unpacked, state))


@dataclass(frozen=True)
class _Module:
    name: str


@dataclass(frozen=True)
class _Text:
    """A function: its definition, and the values of the names in it."""

    text: str
    names: dict[str, Any]
    defaults: Any
    keyword_defaults: Any


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """Apply `change` to everything inside nested tuples, lists and dictionaries."""
    if type(value) in (tuple, list):
        return type(value)(_each(change, one) for one in value)
    if type(value) is dict:
        return {key: _each(change, one) for key, one in value.items()}
    return change(value)


def _packed(value: Any) -> Any:
    if isinstance(value, ModuleType):
        return _Module(value.__name__)
    if not isinstance(value, FunctionType) or _is_found(value):
        return value
    tree = syntax(value)
    used = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
    names = {name: outer_value(value, name) for name in used - {*value.__code__.co_varnames}}
    known = {name: _each(_packed, one[0]) for name, one in names.items() if one}
    return _Text(ast.unparse(tree), known, value.__defaults__, value.__kwdefaults__)


def _unpacked(value: Any) -> Any:
    if isinstance(value, _Module):
        return importlib.import_module(value.name)
    if not isinstance(value, _Text):
        return value
    function = function_from_text(value.text, _each(_unpacked, value.names))
    function.__defaults__ = value.defaults
    function.__kwdefaults__ = value.keyword_defaults
    return function


def _is_found(function: FunctionType) -> bool:
    """Whether the function belongs to this library, so that other processes find it by name."""
    if not function.__module__.startswith("ergode."):
        return False
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function
