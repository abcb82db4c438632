"""A user's formula: a function of numbers in which every number is real.

Numba computes an integer with a float32 in double precision.  Integers therefore become floats
before a formula is compiled, except in subscripts, exponents and ranges.  A power with a whole
exponent becomes multiplications, an exponent of a half a square root, and any other power is
computed by `core.math.elementary`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.compiler.language import UserFunction, real
from ergode.core.compiler.syntax import as_function
from ergode.core.math import elementary

# In a formula these are ergode's own, which vectorise and give the same bits on every target.
_ELEMENTARY = {
    getattr(module, name): getattr(elementary, name)
    for module in (math, np)
    for name in ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh")
} | {math.pow: elementary.power, np.power: elementary.power}

POWER, ROOT, REAL = "<power>", "<root>", "<real>"
"""Stand for our power, the square root and the working precision, whatever these names mean where
they are written."""

WORDS = {POWER: elementary.power, ROOT: math.sqrt, REAL: real}


def meaning(value: Any) -> Any:
    """What a name in a formula stands for: our own functions, or a formula in its turn."""
    value = as_function(value)
    if isinstance(value, FunctionType):
        return value if value.__module__.startswith("ergode.") else UserFunction(value)
    try:
        return _ELEMENTARY.get(value, value)
    except TypeError:  # not hashable
        return value


def make_real(tree: ast.FunctionDef, lookup: Callable[[str], tuple[bool, Any]]) -> ast.FunctionDef:
    """Make floats of the integers of a formula, in place.

    Parameters
    ----------
    tree : ast.FunctionDef
        The function.
    lookup : function
        ``lookup(name)`` tells whether a name is defined outside of the function, and its value.
    """
    done = _MakeReal(tree, lookup).visit(tree)
    assert isinstance(done, ast.FunctionDef)
    return done


class _MakeReal(ast.NodeTransformer):
    def __init__(self, tree: ast.FunctionDef, lookup: Callable[[str], tuple[bool, Any]]) -> None:
        self.lookup = lookup
        self.counting = False
        self.counters: set[str] = set()  # local names that index or bound a range
        for part in ast.walk(tree):
            counts: list[ast.expr] = []
            if isinstance(part, ast.Subscript):
                counts = [part.slice]
            elif isinstance(part, ast.Call) and _is_range(part):
                counts = part.args
            for place in counts:
                self.counters |= {n.id for n in ast.walk(place) if isinstance(n, ast.Name)}

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and not self.counting:
            return ast.copy_location(ast.Constant(float(node.value)), node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        found, value = self.lookup(node.id)
        if found and type(value) is int:
            return self.visit_Constant(ast.copy_location(ast.Constant(value), node))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        node.slice = self._count(node.slice)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node.left = self.visit(node.left)
        whole = isinstance(node.op, ast.Pow) and self._is_whole(node.right)
        node.right = self._count(node.right) if whole else self.visit(node.right)
        if whole:
            return _without_minus(node)
        if not isinstance(node.op, ast.Pow):
            return node
        half = isinstance(node.right, ast.Constant) and node.right.value == 0.5
        if half:
            return _call(ROOT, node.left)
        return _call(POWER, *(_call(REAL, side) for side in (node.left, node.right)))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_range(node):
            node.args = [self._count(argument) for argument in node.args]
            return node
        done = self.generic_visit(node)
        assert isinstance(done, ast.Call)
        if self._is_elementary(node.func):
            # What `int`, `math.floor` or a range gave is whole, and ours are for real numbers.
            done.args = [
                one if isinstance(one, ast.Constant | ast.Subscript) else _call(REAL, one)
                for one in done.args
            ]
        return done

    def _is_elementary(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            value = self.lookup(function.id)[1]
        elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            value = getattr(self.lookup(function.value.id)[1], function.attr, None)
        else:
            return False
        return any(value is one for one in _ELEMENTARY)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._assign(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._assign(node, [node.target])

    def _assign(self, node: Any, targets: list[Any]) -> ast.AST:
        if any(isinstance(target, ast.Name) and target.id in self.counters for target in targets):
            node.value = self._count(node.value)
            return node
        return self.generic_visit(node)

    def _count(self, node: ast.expr) -> Any:
        before, self.counting = self.counting, True
        done = self.visit(node)
        self.counting = before
        return done

    def _is_whole(self, node: ast.expr) -> bool:
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                if type(self.lookup(part.id)[1]) is not int:
                    return False
            elif isinstance(part, ast.Constant):
                if type(part.value) is not int:
                    return False
            elif not isinstance(
                part, ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop | ast.expr_context
            ):
                return False
        return True


def _without_minus(node: ast.BinOp) -> ast.BinOp:
    """A whole power; one over it where the exponent is negative, of zero as of any other number.

    Numba's own form ends the whole run where the number is zero.
    """
    exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
    if not isinstance(exponent, ast.Constant):
        return node
    value = exponent.value
    negated = isinstance(node.right, ast.UnaryOp) and isinstance(node.right.op, ast.USub)
    if not isinstance(value, int) or (value >= 0) is not negated:
        return node
    node.right = ast.Constant(abs(value))
    return ast.BinOp(ast.Constant(1.0), ast.Div(), node)


def _call(word: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(word, ast.Load()), list(arguments), [])


def _is_range(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "range"
