"""Options that the source of a kernel names, including those in dropped branches."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ergode.core.compiler.language import ByPrecision, ByTarget, Option, UserFunction


def named_options(functions: Iterable[Any]) -> set[Option]:
    """Options named by functions and by all functions that these reach.

    A kernel drops the branches that an option rules out, and with them the options named there.
    Binding such an option is not an error: other models of the kernel use it.
    """
    options: set[Option] = set()
    seen: set[Any] = set()
    waiting = list(functions)
    while waiting:
        one = waiting.pop()
        if isinstance(one, Option):
            options.add(one)
            one = one.default
        if isinstance(one, ByPrecision):
            waiting += [one.float32, one.float64]
        elif isinstance(one, ByTarget):
            waiting += [one.cpu, one.cuda]
        elif isinstance(one, UserFunction):
            waiting.append(one.function)
        elif isinstance(one, FunctionType) and one not in seen:
            seen.add(one)
            waiting += _named(one)
    return options


def _named(function: FunctionType) -> list[Any]:
    """Values of the names in a function, and of the names after a dot in modules."""
    names = _names(function.__code__)
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    modules = [vars(value) for value in found if isinstance(value, ModuleType)]
    return found + [module[name] for module in modules for name in names if name in module]


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
