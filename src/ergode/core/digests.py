"""Digests of arguments: equal arguments have equal digests in every process."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Set
from datetime import date
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ergode.core.compiler.syntax import outer_value, syntax
from ergode.core.errors import ModelError


def digest_of(value: Any) -> str:
    """Hexadecimal digest of an argument: of numbers, arrays, containers, models and functions.

    A function counts by its text and by the values of the names in it.
    """
    found = hashlib.sha256()
    _Digest(found).add(value)
    return found.hexdigest()[:32]


def text_of_function(function: FunctionType) -> str:
    """The definition of a function, or its name if there is no text."""
    text, _ = _written(function)
    name = function.__name__
    return text.replace("formula", name, 1) if isinstance(text, str) else f"<function {name}>"


_WRITTEN: WeakKeyDictionary[FunctionType, tuple[str | CodeType, list[str]]] = WeakKeyDictionary()


def _written(function: FunctionType) -> tuple[str | CodeType, list[str]]:
    """What a function does, and the names in it that have values outside."""
    known = _WRITTEN.get(function)
    if known is not None:
        return known
    body: Any = function.__code__
    names = {*body.co_names, *body.co_freevars}
    try:
        tree = syntax(function)
    except ModelError:  # no text, or a decorator: by its compiled code
        pass
    else:
        tree.name = "formula"
        # A parameter or a local variable is not the value outside that has its name.
        # From Python 3.12 on, a name in a comprehension is a local variable beside one outside.
        local = {*function.__code__.co_varnames} - names
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - local
        body = ast.unparse(tree)
    found = _WRITTEN[function] = body, sorted(names)
    return found


class _Digest:
    def __init__(self, into: Any) -> None:
        self._into = into
        self._open: list[int] = []  # objects that contain what is being added

    def _mark(self, *marks: object) -> None:
        self._into.update("\0".join(map(str, marks)).encode() + b"\1")

    def add(self, value: Any) -> None:
        if id(value) in self._open:
            self._mark("again", self._open.index(id(value)))
            return
        self._open.append(id(value))
        try:
            self._add(value)
        finally:
            self._open.pop()

    def _add(self, value: Any) -> None:
        kind = type(value)
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            self._mark(kind.__name__, repr(value))
        elif isinstance(value, Enum | type | ModuleType | date | PurePath):
            self._mark(kind.__qualname__, repr(value))
        elif isinstance(value, np.ndarray | np.generic):
            self._add_array(np.asarray(value))
        elif isinstance(value, range | slice):
            self._mark(repr(value))
        elif isinstance(getattr(value, "digest", None), str):
            self._mark(kind.__qualname__, value.digest)
        elif isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, partial):
            self._all("partial", [value.func, value.args, value.keywords])
        elif isinstance(value, BuiltinFunctionType | np.ufunc):
            self._mark("builtin", getattr(value, "__module__", ""), value.__name__)
        elif isinstance(value, CodeType):
            self._all("code", [value.co_code, value.co_names, value.co_consts])
        elif isinstance(value, Mapping):
            # The order of names is that of the dims of a sweep.
            self._all(f"mapping {len(value)}", [x for pair in value.items() for x in pair])
        elif isinstance(value, list | tuple):
            self._all(f"sequence {len(value)}", value)
        elif isinstance(value, Set):
            self._all(f"set {len(value)}", sorted(value, key=repr))
        elif hasattr(value, "__array__"):  # of pandas, xarray and other libraries
            self._mark(kind.__qualname__)
            self._add_array(np.asarray(value))
            for name in ("index", "columns", "dims"):
                labels = getattr(value, name, None)
                if labels is not None and not callable(labels):
                    self._add_array(np.asarray(labels))
            self.add({str(k): np.asarray(one) for k, one in getattr(value, "coords", {}).items()})
        else:
            self._mark(kind.__module__, kind.__qualname__)
            state = {name: getattr(value, name) for one in kind.__mro__
                     for name in getattr(one, "__slots__", ()) if hasattr(value, name)}  # fmt: skip
            self.add(state | dict(getattr(value, "__dict__", {})))

    def _all(self, what: str, values: Any) -> None:
        self._mark(what)
        for one in values:
            self.add(one)

    def _add_array(self, array: np.ndarray) -> None:
        self._mark("array", array.dtype.str, array.shape)
        if array.dtype.hasobject:
            self.add(array.tolist())
        else:
            self._into.update(np.ascontiguousarray(array).tobytes())

    def _add_function(self, function: FunctionType) -> None:
        if (function.__module__ or "").startswith("ergode."):
            self._mark("ergode", function.__module__, function.__qualname__)
            return
        body, names = _written(function)
        outside = {name: outer_value(function, name) for name in names}
        used = {name: one[0] for name, one in outside.items() if one}
        self._all("function", [body, function.__defaults__, function.__kwdefaults__, used])
