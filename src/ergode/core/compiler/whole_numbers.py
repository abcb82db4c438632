"""Find the integer names of a user's formula.

They index a table, bound a range or are operands of bit operators.  All other numbers
of a formula are real (see `user_functions`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Lookup = Callable[[str], tuple[bool, Any]]

BIT_OPERATORS = ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift | ast.RShift
# Built-in functions that return integers for integer arguments.
KEEPING = {"min", "max", "abs", "sum", "len", "range", "enumerate", "zip", "reversed", "tuple"}
_OF_TABLES = KEEPING - {"range", "abs"}
_OF_SEVERAL = {"min", "max"}


@dataclass(frozen=True)
class WholeNames:
    """Local names of a formula that are whole, or hold whole numbers."""

    counted: set[str]  # names whose assigned values stay integers
    integers: set[str]  # numbers among `counted`, and loop variables over whole numbers
    sure: set[str]  # members of `integers` that are integers in every assignment
    looped: set[str]  # loop variables over whole numbers


def whole_names(
    tree: ast.FunctionDef, lookup: Lookup, integer_arguments: Callable[[ast.Call], list[ast.expr]],
    indices: Collection[str] = (),
) -> WholeNames:  # fmt: skip
    """Look for the whole names of a formula.

    Parameters
    ----------
    tree : ast.FunctionDef
    lookup : function
        ``lookup(name)`` tells whether a name is defined outside of the function, and its value.
    integer_arguments : function
        Returns the arguments of a call that must be integers.
    indices : collection of str
        Arguments of the function that are integers.
    """
    counted: set[str] = {*indices}
    for part in ast.walk(tree):
        for place in _whole_places(part, integer_arguments):
            counted |= {*_names_of(place)}
    bindings = [pair for part in ast.walk(tree) for pair in _bindings(part)]
    before = -1
    while len(counted) > before:  # the operands of a whole name are whole
        before = len(counted)
        for target, value in bindings:
            if value is not None and target in counted:
                counted |= {*_names_of(value)}
    looped = {name for part in ast.walk(tree) for name in _looped(part, lookup)}
    structures = {name for part in ast.walk(tree) for name in _structures(part)}
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    unsure = {argument.arg for argument in arguments} - {*indices}
    unsure |= {target for target, value in bindings if value is None}
    integers = (counted | looped) - structures
    return WholeNames(counted, integers, integers - unsure, looped - unsure)


def pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr | None]]:
    """Each target name with its assigned value; None if it is known only at run time."""
    if not isinstance(target, ast.Tuple | ast.List):
        return [(target, value)]
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        both = zip(target.elts, value.elts, strict=True)
        return [pair for one, other in both for pair in pairs(one, other)]
    return [(one, None) for one in ast.walk(target) if isinstance(one, ast.Name)]


def _whole_places(
    part: ast.AST, integer_arguments: Callable[[ast.Call], list[ast.expr]]
) -> list[ast.expr]:
    if isinstance(part, ast.Subscript):
        return [part.slice]
    if isinstance(part, ast.Call):
        return integer_arguments(part)
    if isinstance(part, ast.BinOp) and isinstance(part.op, BIT_OPERATORS):
        return [part.left, part.right]
    if isinstance(part, ast.AugAssign) and isinstance(part.op, BIT_OPERATORS):
        return [part.target, part.value]
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
        return [part.operand]
    return []


def _names_of(node: ast.expr | None) -> Iterator[str]:
    """Names of the numbers in an expression of whole numbers."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Subscript):
        yield from _names_of(node.value)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in KEEPING:
            for argument in node.args:
                yield from _names_of(argument)
    elif isinstance(node, ast.IfExp):
        yield from _names_of(node.body)
        yield from _names_of(node.orelse)
    elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Slice | ast.Tuple | ast.BoolOp):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _names_of(child)


def _bindings(part: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Names that a statement assigns, each with its value; None if known only at run time."""
    if isinstance(part, ast.Assign):
        found = [pair for target in part.targets for pair in pairs(target, part.value)]
    elif isinstance(part, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
        found = [(part.target, part.value)]
    elif isinstance(part, ast.For | ast.comprehension):
        if isinstance(part.target, ast.Name):
            direct = isinstance(part.iter, ast.Tuple | ast.Name) or _calls(part.iter, "range")
            found = [(part.target, part.iter if direct else None)]
        else:
            found = [(one, None) for one in ast.walk(part.target) if isinstance(one, ast.Name)]
            if _calls(part.iter, "enumerate"):
                found[0] = (found[0][0], ast.Constant(0))
    else:
        return
    for target, value in found:
        if isinstance(target, ast.Name):
            yield target.id, value


def _looped(part: ast.AST, lookup: Lookup) -> Iterator[str]:
    """Variables of loops over ranges, places, and whole numbers from outside."""
    if not isinstance(part, ast.For | ast.comprehension):
        return
    target = part.target
    if isinstance(target, ast.Name):
        outside = lookup(part.iter.id)[1] if isinstance(part.iter, ast.Name) else None
        if _calls(part.iter, "range") or is_whole_table(outside):
            yield target.id
    elif _calls(part.iter, "enumerate"):
        yield next(one.id for one in ast.walk(target) if isinstance(one, ast.Name))


def _calls(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _structures(part: ast.AST) -> Iterator[str]:
    """Names of subscripted or iterated values."""
    if isinstance(part, ast.Subscript):
        places = [part.value]
    elif isinstance(part, ast.For | ast.comprehension):
        places = [part.iter]
    elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
        several = part.func.id in _OF_SEVERAL and len(part.args) > 1
        places = part.args if part.func.id in _OF_TABLES and not several else []
    else:
        return
    for place in places:
        if isinstance(place, ast.Name):
            yield place.id


def is_whole_table(value: Any) -> bool:
    """Whether this is a tuple of whole numbers."""
    return isinstance(value, tuple) and bool(value) and all(map(is_integer, value))


def is_integer(value: Any) -> bool:
    """Whether this is a whole number by its type."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
