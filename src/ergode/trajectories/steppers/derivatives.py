"""Symbolic derivatives of a user's function.

The function is called with SymPy symbols, and SymPy differentiates the expressions it returns.  The
derivatives become a function that kernels compile.  A function that branches on its arguments, or
uses them as indices or loop counts, cannot be called with symbols; stiff methods then use finite
differences.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ergode.core.compiler.bundle import formula_text
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.syntax import function_from_text, syntax
from ergode.core.math import tables
from ergode.models.fields.arrays import ArrayField
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers import jacobian
from ergode.trajectories.steppers.dependences import dependences, reads_of_arrays

# Functions that an expression may use, and their SymPy names.
_NAMES = {
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan", "sqrt": "sqrt",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asin": "asin", "acos": "acos", "atan": "atan",
    "fabs": "Abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "abs": "Abs",
}  # fmt: skip


class _Symbolic:
    """Replaces `math` or `numpy` while a function is called with symbols."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _symbolic(getattr(self._module, name))


def _log1p(x: Any) -> Any:
    import sympy

    return sympy.log(1 + x)


def _expm1(x: Any) -> Any:
    import sympy

    return sympy.exp(x) - 1


_READS = (tables.input_value, tables.input_slope, tables.input_curvature)


@lru_cache
def _read(order: int) -> Any:
    """The SymPy function of the values of an input, or of a derivative of them by the time."""
    import sympy

    def derivative(call: Any, which: int = 5) -> Any:
        return _read(order + 1)(*call.args) if which == 5 else sympy.Integer(0)

    # Numbers of tables and their address are no quantities: nothing is derived by them.
    return type(_READS[order].__name__, (sympy.Function,), {"fdiff": derivative, "is_real": True})


def _symbolic(value: Any) -> Any:
    """The SymPy counterpart of a value, or the value itself."""
    import sympy

    if value in _READS:
        return _read(_READS.index(value))
    if value is math or value is np:
        return _Symbolic(value)
    for module in (math, np, builtins):
        for name, known in _NAMES.items():
            if getattr(module, name, None) is value and value is not None:
                return getattr(sympy, known)
        for name, own in (("log1p", _log1p), ("expm1", _expm1)):
            if getattr(module, name, None) is value and value is not None:
                return own
    if isinstance(value, FunctionType):
        return _with_symbols(value)
    return value


def _with_symbols(function: FunctionType) -> FunctionType:
    """A copy of the function whose global names refer to their SymPy counterparts."""
    own = {
        name: _symbolic(function.__globals__[name])
        for name in function.__code__.co_names
        if name in function.__globals__ and function.__globals__[name] is not function
    }
    own["__builtins__"] = {**vars(builtins), "abs": _symbolic(abs)}
    cells = tuple(CellType(_symbolic(cell.cell_contents)) for cell in function.__closure__ or ())
    return FunctionType(
        function.__code__, own, function.__name__, function.__defaults__, cells or None
    )


class Symbols:
    """A field's function called with symbols, and its derivatives.

    `y`, `yd` and `p` are symbols named as they are written in a function, ``y[0]``; `slopes` are
    the expressions that the function returns.
    """

    def __init__(self, field: VectorField) -> None:
        import sympy

        def several(name: str, count: int) -> tuple[Any, ...]:
            return tuple(sympy.Symbol(f"{name}[{i}]", real=True) for i in range(count))

        self.t = sympy.Symbol("t", real=True)
        self.y = several("y", len(field.variables))
        self.yd = several("yd", len(field.delays))
        self.sd = several("sd", len(field.delays))
        self.p = several("p", len(field.parameters))
        assert isinstance(field.function, FunctionType)
        function = _with_symbols(field.function)
        history = (self.yd,) if field.delays else ()
        self.slopes = tuple(map(sympy.sympify, function(self.t, self.y, *history, self.p)))

    def jacobian(self) -> list[Any]:
        """Derivatives of every slope by every variable, in row-major order."""
        return [slope.diff(variable) for slope in self.slopes for variable in self.y]

    def delayed_jacobian(self) -> list[Any]:
        """Derivatives of every slope by every delayed value, in row-major order."""
        return [slope.diff(variable) for slope in self.slopes for variable in self.yd]

    def time_slopes(self) -> list[Any]:
        """Time derivative of every slope, including the change of the delayed values."""
        pairs = list(zip(self.yd, self.sd, strict=True))
        return [
            slope.diff(self.t) + sum(slope.diff(yd) * sd for yd, sd in pairs)
            for slope in self.slopes
        ]


def function_of(name: str, arguments: str, expressions: Sequence[Any]) -> FunctionType:
    """A function that returns a tuple of SymPy expressions; common subexpressions are shared.

    Raises a ValueError if an expression has no form in plain arithmetic.
    """
    import sympy

    shared, reduced = sympy.cse(list(expressions), symbols=sympy.numbered_symbols("shared_"))
    lines = [f"    {symbol} = {_text(value)}\n" for symbol, value in shared]
    values = "".join(f"{_text(value)}, " for value in reduced)
    text = f"def {name}({arguments}):\n{''.join(lines)}    return ({values})\n"
    reads = {one.__name__: one for one in _READS if one.__name__ in text}
    return function_from_text(text, {"math": math, **reads})


def _text(expression: Any) -> str:
    import sympy

    reads = {one.__name__: one.__name__ for one in _READS}
    text = str(sympy.pycode(expression, fully_qualified_modules=True, user_functions=reads))
    words = set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_0-9]+)?", text))
    for word in words:
        plain = re.fullmatch(
            r"t|y|yd|sd|p|s|v|w|shared_\d+|abs|if|else|and|or|not|e\d*|input_[a-z]+", word
        )
        known = word.startswith("math.") and hasattr(math, word[5:])
        if not (plain or known):
            raise ValueError(f"'{word}' has no form in plain arithmetic")
    return text


@lru_cache(maxsize=64)
def _exact(text: str, field: VectorField) -> tuple[FunctionType, FunctionType] | None:
    try:
        symbols = Symbols(field)
        return (
            function_of("exact_jacobian", "t, y, yd, p", symbols.jacobian()),
            function_of("exact_time_slope", "t, y, yd, sd, p", symbols.time_slopes()),
        )
    except Exception:  # SymPy is not installed, or the function cannot be called with symbols
        return None


def bindings_of_derivatives(field: VectorField, time_slopes: bool) -> dict[Any, Any]:
    """Bindings of a stiff method: exact derivatives of the field, if there are any.

    `time_slopes`: whether the method needs the time derivative.
    """
    found = _exact(formula_text(field.function), field)
    if found is None:
        return {}
    count = len(field.variables)
    bindings = {
        jacobian.EXACT: True, jacobian.exact_jacobian: UserFunction(found[0], (count * count,))
    }  # fmt: skip
    if time_slopes:
        bindings[jacobian.exact_time_slope] = UserFunction(found[1], (count,))
    return bindings


def additive(field: VectorField) -> bool:
    """Whether the noise is additive: the diffusion depends on neither state nor history."""
    if field.arrays is not None:
        return not any(own or others for own, others in _reads_of_noise(field.arrays))
    assert isinstance(field.diffusion, FunctionType)
    names = [argument.arg for argument in syntax(field.diffusion).args.args]
    hidden = set(names[1:-1])
    return not any(
        isinstance(node, ast.Name) and node.id in hidden
        for node in ast.walk(syntax(field.diffusion))
    )


def mixed_noise(field: VectorField) -> str | None:
    """Message naming a noise that depends on another variable or a delayed value; None if none.

    If the diffusion cannot be called with symbols, `dependences` decides.  It may report a
    dependence that does not exist, but never misses one.
    """
    if field.arrays is not None:
        reads = zip(field.variables, _reads_of_noise(field.arrays), strict=True)
        others = (name for name, (_, others) in reads if others)
        return next((f"noise of '{name}' reads other unknowns" for name in others), None)
    assert isinstance(field.diffusion, FunctionType)
    try:
        reached = _symbols_of(replace(field, function=field.diffusion, diffusion=None))
    except Exception:  # SymPy is not installed, or the function cannot be called with symbols
        reached = dependences(field.diffusion, len(field.variables))
    for i, (name, known) in enumerate(zip(field.variables, reached, strict=True)):
        for kind, index in sorted(known):
            if kind == "yd":
                return f"noise of '{name}' depends on a delayed value"
            if kind == "y" and index != i:
                other = "the state as a whole" if index < 0 else f"'{field.variables[index]}'"
                return f"noise of '{name}' depends on {other}"
    return None


def _reads_of_noise(arrays: ArrayField) -> list[tuple[bool, bool]]:
    """For the noise of each array, whether it reads its own unknown, and whether others."""
    return [
        reads_of_arrays(function, len(shape), None if arrays.is_single else v)
        for v, (function, shape) in enumerate(zip(arrays.noise, arrays.shapes, strict=True))
    ]


def _symbols_of(field: VectorField) -> list[set[tuple[str, int]]]:
    """Dependences of each slope, found by calling the function with symbols."""
    symbols = Symbols(field)
    place = {
        symbol: (kind, i)
        for kind, several in (("t", (symbols.t,)), ("y", symbols.y), ("yd", symbols.yd))
        for i, symbol in enumerate(several)
    }
    return [
        {place[symbol] for symbol in slope.free_symbols if symbol in place}
        for slope in symbols.slopes
    ]


@lru_cache(maxsize=64)
def separated(field: VectorField) -> tuple[bool, ...] | str:
    """For each variable, whether it is a position; or why there is no such separation.

    Slopes of positions depend on momenta alone, slopes of momenta on time and positions alone.
    """
    names = field.variables
    try:
        reached = _symbols_of(field)
    except Exception:  # as in `mixed_noise`
        reached = dependences(field.function, len(names))
        # It does not follow the time: suppose that all slopes depend on it.
        reached = [known | {("t", 0)} for known in reached]
    kinds: list[bool | None] = [None] * len(names)
    beside: list[set[int]] = [set() for _ in names]
    for i, known in enumerate(reached):
        for _, j in {one for one in known if one[0] == "y"}:
            if j == i or j < 0:
                what = f"'{names[i]}' itself" if j == i else "the state as a whole"
                return f"the derivative of '{names[i]}' depends on {what}"
            beside[i].add(j)
            beside[j].add(i)
    for first in range(len(names)):
        if kinds[first] is not None:
            continue
        kinds[first], found = True, [first]
        for i in found:
            for j in sorted(beside[i]):
                if kinds[j] is None:
                    kinds[j] = not kinds[i]
                    found.append(j)
                elif kinds[j] == kinds[i]:
                    return f"'{names[i]}' and '{names[j]}' depend on each other and on a third"
        timed = {kinds[i] for i in found if ("t", 0) in reached[i]}
        if timed == {True, False}:
            return "derivatives of both positions and momenta depend on time"
        if timed == {True}:
            for i in found:
                kinds[i] = not kinds[i]
    return tuple(bool(kind) for kind in kinds)
