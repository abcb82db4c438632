"""A user's formula: a function of numbers in which every number is real.

A compiled integer has 64 bits and overflows silently, and an operation of an integer and a float32
is done in float64.  Integers therefore become floats before a formula is compiled, except in
subscripts, exponents, ranges and bit operators: even `int(x)` is a real number.  A power with a
whole exponent becomes multiplications, an exponent of 1/2 a square root, and any other power is
computed by `core.math.elementary`.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Collection
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ergode.core.compiler.language import UserFunction, real
from ergode.core.compiler.syntax import as_function, outer_value, syntax
from ergode.core.compiler.whole_numbers import (
    BIT_OPERATORS,
    KEEPING,
    Lookup,
    is_integer,
    pairs,
    whole_names,
)
from ergode.core.math import elementary, tables, whole

# A formula uses ergode's versions, which vectorise and are bitwise equal on every target.
_ELEMENTARY = {
    getattr(module, name): getattr(elementary, name)
    for module in (math, np)
    for name in ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh")
} | {math.pow: elementary.power, np.power: elementary.power}

POWER, ROOT, REAL, INDEX = "<power>", "<root>", "<real>", "<index>"
"""Placeholders for ergode's power, the square root, the working precision and an integer type: the
user's code may have redefined these names."""

WORDS = {
    POWER: elementary.power, ROOT: math.sqrt, REAL: real, INDEX: whole.index,
    "<floor>": whole.floor, "<ceil>": whole.ceil, "<truncate>": whole.truncate,
    "<nearest>": whole.nearest, "<element>": whole.element,
    "<element_of_row>": whole.element_of_row,
}  # fmt: skip
_ROUNDING = [
    (int, "<truncate>"), (math.trunc, "<truncate>"), (round, "<nearest>"),
    (math.floor, "<floor>"), (math.ceil, "<ceil>"),
]  # fmt: skip
# Functions of integers, and functions whose arguments after the first are integers.
_OF_INTEGERS = [
    getattr(module, name)
    for module in (math, np)
    for name in (
        "gcd", "lcm", "factorial", "comb", "perm", "isqrt", "bitwise_and", "bitwise_or",
        "bitwise_xor", "left_shift", "right_shift", "invert",
    )
    if hasattr(module, name)
]  # fmt: skip
_SECOND_INTEGER = [
    round, math.ldexp, np.ldexp, tables.element, tables.element_2, tables.element_3, tables.place,
    tables.place_2, tables.place_3,
]  # fmt: skip
_SMALL = 2**20


def meaning(value: Any) -> Any:
    """Value of a name in a formula: ergode's version of a function, or another formula."""
    value = as_function(value)
    if isinstance(value, FunctionType):
        return value if value.__module__.startswith("ergode.") else UserFunction(value)
    try:
        return _ELEMENTARY.get(value, value)
    except TypeError:  # not hashable
        return value


def make_real(
    tree: ast.FunctionDef, lookup: Lookup, indices: Collection[str] = ()
) -> ast.FunctionDef:
    """Turn the integers of a formula into floats, in place.

    Parameters
    ----------
    tree : ast.FunctionDef
        The function.
    lookup : function
        ``lookup(name)`` tells whether a name is defined outside of the function, and its value.
    indices : collection of str
        Arguments that are integers.
    """
    done = _MakeReal(tree, lookup, indices).visit(tree)
    assert isinstance(done, ast.FunctionDef)
    return done


class _MakeReal(ast.NodeTransformer):
    def __init__(
        self, tree: ast.FunctionDef, lookup: Lookup, indices: Collection[str] = ()
    ) -> None:
        self.lookup, self.indices = lookup, indices
        self.counting = False  # whether whole numbers stay integers here
        stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_stored(n)}
        self.local = stored | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        self.names = whole_names(tree, lookup, self._integer_arguments, indices)

    # ---- numbers and names

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and not self.counting:
            return ast.copy_location(ast.Constant(float(node.value)), node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if is_integer(self._value(node)):
            return self._outside(node)
        if _is_stored(node) or node.id not in self.names.integers:
            return node
        if not self.counting:
            return _call(REAL, node)
        return node if node.id in self.names.sure else _call(INDEX, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if is_integer(self._value(node)):
            return self._outside(node)
        return node if isinstance(node.value, ast.Name) else self.generic_visit(node)

    def _outside(self, node: ast.expr) -> ast.AST:
        """A whole number from outside the function; as an index it keeps its type."""
        value = self._value(node)
        if self.counting and not isinstance(value, int):
            return node
        return self.visit_Constant(ast.copy_location(ast.Constant(int(value)), node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        elements = self._elements(node)
        number = not self.counting and _are_alike_numbers(elements)
        places = [node.slice] if number else []
        table = node.value
        if number and isinstance(table, ast.Subscript) and self._may_miss(table.slice):
            places, table = [table.slice, node.slice], table.value
        if any(map(self._may_miss, places)):
            word = "<element>" if len(places) == 1 else "<element_of_row>"
            return _call(word, self._as(True, self.visit, table), *map(self._count, places))
        if not isinstance(node.value, ast.Name):
            node.value = self.visit(node.value)
        node.slice = self._count(node.slice)
        whole = any(map(is_integer, elements)) and not self.counting
        return _call(REAL, node) if whole else node

    def _may_miss(self, place: ast.expr) -> bool:
        """Whether an index is computed from real numbers, so that it may be out of range."""
        return not isinstance(place, ast.Slice) and not self._is_whole(place, self.names.looped)

    # ---- operators

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, BIT_OPERATORS):
            return self._of_bits(node)
        shrinks = self.counting and isinstance(node.op, ast.Mod | ast.FloorDiv)
        if shrinks and self._is_rounded(node.left):
            return _call(INDEX, self._real(node))
        if self.counting or not isinstance(node.op, ast.Pow):
            return self.generic_visit(node)
        node.left = self.visit(node.left)
        if self._is_whole(node.right):
            node.right = self._count(node.right)
            return _without_minus(node)
        node.right = self.visit(node.right)
        if isinstance(node.right, ast.Constant) and node.right.value == 0.5:
            return _call(ROOT, node.left)
        return _call(POWER, *(_call(REAL, side) for side in (node.left, node.right)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Invert):
            return self._of_bits(node)
        counting = self.counting and not isinstance(node.op, ast.Not)
        return self._as(counting, self.generic_visit, node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        # Conditions on loop variables stay constants in unrolled loops.
        sides = [node.left, *node.comparators]
        constant = all(self._is_whole(side, self.names.looped) for side in sides)
        return self._as(constant, self.generic_visit, node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._real(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def _of_bits(self, node: ast.expr) -> Any:
        truth = _is_truth(node)
        done = self._as(True, self.generic_visit, node)
        return done if self.counting or truth else _call(REAL, done)

    # ---- calls

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = self._value(node.func)
        integers = self._integer_arguments(node)
        rounding = next((word for one, word in _ROUNDING if called is one), None)
        if rounding and len(node.args) == 1 and not node.keywords:
            done = _call(rounding, self._real(node.args[0]))
            return _call(INDEX, done) if self.counting else done
        if self.counting and self._is_rounded(node):
            return _call(INDEX, self._real(node))
        keeps = isinstance(node.func, ast.Name) and node.func.id in KEEPING - self.local
        counts = self.counting and keeps
        passed = _integer_places(called) if self.indices else ()
        node.args = [
            self._as(
                counts
                or _is_one_of(one, integers)
                or (place in passed and self._is_whole(one, self.names.sure)),
                self.visit,
                one,
            )
            for place, one in enumerate(node.args)
        ]
        for keyword in node.keywords:
            keyword.value = self._real(keyword.value)
        node.func = self._real(node.func)
        if self._is(node.func, "range"):
            return node
        if self.counting:
            return node if keeps or integers else _call(INDEX, node)
        if _is_one_of(called, _ELEMENTARY):
            # A condition is not a real number, as ergode's versions require.
            node.args = [
                one if isinstance(one, ast.Constant | ast.Subscript) else _call(REAL, one)
                for one in node.args
            ]
        integer = _is_one_of(called, _OF_INTEGERS) or self._is(node.func, "len")
        return _call(REAL, node) if integer else node

    def _integer_arguments(self, node: ast.Call) -> list[ast.expr]:
        """The arguments of a call that must be integers."""
        called = self._value(node.func)
        if self._is(node.func, "range") or _is_one_of(called, _OF_INTEGERS):
            return node.args
        return node.args[1:] if _is_one_of(called, _SECOND_INTEGER) else []

    # ---- statements

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.targets = [self._real(target) for target in node.targets]
        kept = next((one for one in node.targets if self._stays_whole(one)), node.targets[0])
        node.value = self._assigned(kept, node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.op, ast.Pow | BIT_OPERATORS):
            node.value = self._assigned(node.target, node.value)
            return node
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return self.visit(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = node.value and self._assigned(node.target, node.value)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        node.value = self._assigned(node.target, node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = self._assigned(node.target, node.iter)
        for part in ("body", "orelse"):
            setattr(node, part, [self.visit(one) for one in getattr(node, part)])
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.iter = self._assigned(node.target, node.iter)
        node.ifs = [self._real(one) for one in node.ifs]
        return node

    def _assigned(self, target: ast.expr, value: ast.expr) -> Any:
        """The assigned value; it stays whole if its name is whole."""
        both = pairs(target, value)
        if isinstance(value, ast.Tuple | ast.List) and len(both) > 1 and both[0][1] is not None:
            assert isinstance(target, ast.Tuple | ast.List)
            parts = zip(target.elts, value.elts, strict=True)
            value.elts = [self._assigned(one, other) for one, other in parts]
            return value
        return self._count(value) if self._stays_whole(target) else self._real(value)

    def _stays_whole(self, target: ast.expr) -> bool:
        return isinstance(target, ast.Name) and target.id in self.names.counted

    # ---- classification

    def _as(self, counting: bool, visit: Callable[[Any], Any], node: ast.AST) -> Any:
        before, self.counting = self.counting, counting
        done = visit(node)
        self.counting = before
        return done

    def _count(self, node: ast.expr) -> Any:
        return self._as(True, self.visit, node)

    def _real(self, node: ast.expr) -> Any:
        return self._as(False, self.visit, node)

    def _value(self, node: ast.expr) -> Any:
        """Value of a name outside of the function."""
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return (
                getattr(owner, node.attr, None) if isinstance(owner, ModuleType | tuple) else None
            )
        if not isinstance(node, ast.Name) or node.id in self.local:
            return None
        found, value = self.lookup(node.id)
        return value if found else getattr(builtins, node.id, None)

    def _elements(self, node: ast.expr) -> list[Any]:
        """Possible values of an element of a table from outside."""
        if not isinstance(node, ast.Subscript):
            return [self._value(node)]
        tables = [one for one in self._elements(node.value) if isinstance(one, tuple)]
        if isinstance(node.slice, ast.Slice):
            return []
        place = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(place, int):
            return [table[place] for table in tables if -len(table) <= place < len(table)]
        return [one for table in tables for one in table]

    def _is(self, function: ast.expr, name: str) -> bool:
        return isinstance(function, ast.Name) and function.id == name and name not in self.local

    def _is_rounded(self, node: ast.expr) -> bool:
        """Whether a real number is rounded here, or bounded: it may be too large for an integer.

        What follows from it, and is smaller, is worked out as a real number.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return self._is_rounded(node.operand)
        if not isinstance(node, ast.Call) or node.keywords:
            return False
        if any(self._is(node.func, name) for name in ("abs", "min", "max")):
            small = [one for one in node.args if not self._is_whole(one)]
            return bool(small) and all(map(self._is_rounded, small))
        return any(self._value(node.func) is one for one, _ in _ROUNDING) and len(node.args) == 1

    def _is_whole(self, node: ast.expr, variables: Collection[str] = ()) -> bool:
        """Whether an expression has only whole numbers: literals, outer values or `variables`."""
        if isinstance(node, ast.BinOp):
            return self._is_whole(node.left, variables) and self._is_whole(node.right, variables)
        if isinstance(node, ast.UnaryOp):
            return self._is_whole(node.operand, variables)
        if isinstance(node, ast.Constant):
            return _is_small(node.value)
        if isinstance(node, ast.Subscript) and variables:
            elements = self._elements(node)
            return bool(elements) and all(map(_is_small, elements))
        if not isinstance(node, ast.Name):
            return False
        return node.id in variables or _is_small(self._value(node))


def _without_minus(node: ast.BinOp) -> ast.BinOp:
    """A whole power; for a negative exponent, the reciprocal, also of zero.

    Numba's own power of zero with a negative exponent raises an error and ends the run.
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


def _integer_places(function: Any) -> tuple[int, ...]:
    """Positions of the arguments that a user's function uses as indices."""
    function = as_function(function)
    if not isinstance(function, FunctionType) or function.__module__.startswith("ergode."):
        return ()

    def lookup(name: str) -> tuple[bool, Any]:
        found = outer_value(function, name)
        return (True, found[0]) if found else (False, None)

    tree = syntax(function)
    integers = _MakeReal(tree, lookup).names.integers
    return tuple(k for k, argument in enumerate(tree.args.args) if argument.arg in integers)


def _are_alike_numbers(values: list[Any]) -> bool:
    """Whether these are numbers of one type."""
    kinds = {type(one) for one in values}
    return len(kinds) == 1 and kinds != {bool} and isinstance(values[0], int | float | np.number)


def _is_small(value: Any) -> bool:
    """Whether this is a whole number so small that products do not overflow."""
    return is_integer(value) and abs(int(value)) < _SMALL


def _is_one_of(value: Any, known: Collection[Any]) -> bool:
    return any(value is one for one in known)


def _is_stored(node: ast.Name | ast.Subscript) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is_truth(node: ast.expr) -> bool:
    """Whether this is a condition, including compound ones."""
    if isinstance(node, ast.BinOp):
        return _is_truth(node.left) and _is_truth(node.right)
    if isinstance(node, ast.BoolOp):
        return all(map(_is_truth, node.values))
    not_one = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return not_one or isinstance(node, ast.Compare)
