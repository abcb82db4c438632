"""Inner functions shared by several kernels are compiled once per process.

A generated module defines every function that its kernel reaches, and kernels of an engine have
most of these functions in common.  Here the first loaded function replaces its equals in modules
that are loaded later: numba stores compiled code with the function, and `kept_functions` on disk.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

import numpy as np

from ergode.core.compiler.source import Target, compilers

_KNOWN: dict[Any, Any] = {}
"""Inner functions of all modules so far, by a key of their content."""


def share(names: dict[str, Any], entries: tuple[str, ...]) -> None:
    """Replace the inner functions of a module by their equals in earlier modules.

    Parameters
    ----------
    names : dict of str to object
        The names of a generated module, which are changed in place.  A function comes after all
        functions that it calls.
    entries : tuple of str
        The kernels among them, which stay as they are.
    """
    from ergode.core.compiler import inner_functions

    if not inner_functions.DEFERS:  # numba's cache of a kernel then names all modules
        return
    from ergode.core.compiler import kept_functions

    target: Target = "cpu" if names["__name__"].startswith("ergode_cpu_") else "cuda"
    compiler = compilers(target)
    made_of: dict[str, Any] = {}  # by name
    digests: dict[str, str | None] = {}  # the same from process to process
    for name, value in names.items():
        if name in entries or name.startswith("__"):
            continue
        if hasattr(value, "py_func") and value.py_func.__module__ == names["__name__"]:
            key = _function_key(value, made_of)
            code = value.py_func.__code__
            used = {one: digests[one] for one in code.co_names if one in digests}
            digests[name] = kept_functions.digest_of(compiler, _spelled(key[:-1]), used)
            names[name] = _KNOWN.setdefault(key, value)
            made_of[name] = "function", id(names[name])
            digest = digests[name]
            if names[name] is value and digest and target == "cpu":
                value._cache = kept_functions.Keeper(value, digest)
        else:
            made_of[name] = _value_key(value)
            digests[name] = _spelled(made_of[name]) or kept_functions.spelled(value)


def _spelled(key: Any) -> str | None:
    """The text of a key; None if there is an object in it."""
    text = repr(key)
    return None if "('object', " in text else text


def _function_key(function: Any, made_of: dict[str, Any]) -> Any:
    code = function.py_func.__code__
    options = tuple(sorted((name, repr(value)) for name, value in function.targetoptions.items()))
    return (
        type(function), options, _code_key(code),
        _value_key(function.py_func.__defaults__ or ()),
        tuple((name, made_of.get(name)) for name in code.co_names),
    )  # fmt: skip


def _code_key(code: CodeType) -> Any:
    """A code object without the lines and the file that it was read from."""
    return (
        code.co_name, code.co_code, code.co_exceptiontable, code.co_flags, code.co_names,
        code.co_varnames, code.co_argcount, code.co_kwonlyargcount, _value_key(code.co_consts),
    )  # fmt: skip


def _value_key(value: Any) -> Any:
    """Key of a constant that includes its type: 1, 1.0, True and np.int8(1) are equal in Python."""
    if isinstance(value, tuple):
        return type(value), tuple(map(_value_key, value))
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    if value is None or isinstance(value, bool | int | float | complex | str):
        return type(value), repr(value)
    return "object", id(value)
