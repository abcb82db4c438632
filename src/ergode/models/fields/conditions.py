"""The values of a function, if there are only a few: a condition is one or zero.

They follow from the syntax: comparisons, constants, choices between them, arithmetic on them, and
calls of functions that return them. Any other dependence on the arguments allows any value.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterable
from itertools import product
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import as_function, outer_value, syntax
from ergode.core.errors import ErgodeError, ModelError

Values = frozenset[float] | None  # None for any

_MOST_VALUES, _DEEPEST = 32, 4
_TRUTHS = frozenset((0.0, 1.0))
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: lambda a, b: int(a) & int(b), ast.BitOr: lambda a, b: int(a) | int(b),
    ast.BitXor: lambda a, b: int(a) ^ int(b),
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: lambda a: ~int(a),
}  # fmt: skip
_CALLED: dict[Any, Callable[..., Any]] = {
    float: float, int: int, bool: bool, abs: abs, round: round, min: min, max: max,
    np.float64: float, np.float32: float,
}  # fmt: skip


def check_crosses(function: Any) -> None:
    """Refuse an event function that is zero on one side of the event.

    Other objects than functions are refused elsewhere.

    Raises a ModelError if it is a condition, or its values are zero and numbers of one sign.
    """
    function = as_function(function)
    if not isinstance(function, FunctionType):
        return
    tree = syntax(function)
    values = _values_of(function, tree, 0)
    if values is None or len(values) < 2 or 0.0 not in values or min(values) < 0.0 < max(values):
        return
    returned = [one.value for one in ast.walk(tree) if isinstance(one, ast.Return) and one.value]
    text = " or ".join(dict.fromkeys(map(ast.unparse, returned)))
    listed = ", ".join(f"{value:g}" for value in sorted(values))
    raise ModelError(
        f"function '{function.__name__}' returns a condition, {text}, whose values are {listed}; "
        "expected a number that changes its sign there, such as the difference a - b instead of "
        "a > b"
    )


def _values_of(function: FunctionType, tree: ast.FunctionDef, depth: int) -> Values:
    """The values that a function returns, for any arguments."""
    reader = _Reader(function, tree, depth)
    returned = [one.value for one in ast.walk(tree) if isinstance(one, ast.Return)]
    return _union(reader.values(value) for value in returned if value is not None)


def _union(found: Iterable[Values]) -> Values:
    values: frozenset[float] = frozenset()
    for one in found:
        if one is None or len(values := values | one) > _MOST_VALUES:
            return None
    return values or None


class _Reader:
    """Reads expressions of one function."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef, depth: int) -> None:
        self._function, self._depth = function, depth
        self._arguments = {one.arg for one in tree.args.args}
        self._assigned: dict[str, list[ast.expr | None]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assign(node.targets[0], node.value)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
                self._assign(node.target, None)
        self._reading: set[str] = set()

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                own = value if node is target else None
                self._assigned.setdefault(node.id, []).append(own)

    def values(self, node: ast.expr) -> Values:
        """Possible values of an expression."""
        if isinstance(node, ast.Constant):
            return frozenset((float(node.value),)) if isinstance(node.value, int | float) else None
        if isinstance(node, ast.Compare):
            return _TRUTHS
        if isinstance(node, ast.BoolOp):
            return _union(map(self.values, node.values))
        if isinstance(node, ast.IfExp):
            return _union(map(self.values, (node.body, node.orelse)))
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                return _TRUTHS
            return self._made(_UNARY[type(node.op)], node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self._made(_BINARY[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Call) and not node.keywords:
            return self._call(node)
        return self._name(node.id) if isinstance(node, ast.Name) else None

    def _name(self, name: str) -> Values:
        if name in self._arguments or name in self._reading:
            return None
        if name in self._assigned:
            self._reading.add(name)
            found = _union(
                None if value is None else self.values(value) for value in self._assigned[name]
            )
            self._reading.discard(name)
            return found
        outside = outer_value(self._function, name)
        number = outside is not None and isinstance(outside[0], int | float | np.number)
        return frozenset((float(outside[0]),)) if outside is not None and number else None

    def _call(self, node: ast.Call) -> Values:
        called = self._called(node.func)
        if isinstance(called, FunctionType) and self._depth < _DEEPEST:
            try:
                return _values_of(called, syntax(called), self._depth + 1)
            except ErgodeError:  # its source is not available
                return None
        made = next((own for one, own in _CALLED.items() if one is called), None)
        return None if made is None else self._made(made, *node.args)

    def _called(self, node: ast.expr) -> Any:
        """The called function, if known."""
        if isinstance(node, ast.Attribute):
            owner = self._called(node.value)
            return getattr(owner, node.attr, None) if owner is np else None
        if not isinstance(node, ast.Name) or node.id in self._arguments | {*self._assigned}:
            return None
        known = outer_value(self._function, node.id)
        return known[0] if known else getattr(builtins, node.id, None)

    def _made(self, function: Callable[..., Any], *nodes: ast.expr) -> Values:
        """Apply a function to the possible values of expressions."""
        known = [self.values(node) for node in nodes]
        if any(one is None for one in known):
            return None
        try:
            found = {float(function(*some)) for some in product(*(one or () for one in known))}
        except (ArithmeticError, TypeError, ValueError):
            return None
        return frozenset(found) if len(found) <= _MOST_VALUES else None
