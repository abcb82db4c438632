"""Copy and rewrite syntax trees, without looking up the values of names."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, TypeGuard

from ergode.core.errors import ModelError
from ergode.core.parsing import parse


def copied(tree: Any) -> Any:
    """A copy of a tree with its source positions; several times faster than `copy.deepcopy`."""
    if isinstance(tree, ast.AST):
        found = type(tree).__new__(type(tree))
        found.__dict__.update({name: copied(value) for name, value in tree.__dict__.items()})
        return found
    return [copied(item) for item in tree] if isinstance(tree, list) else tree


# Python builds a longer tuple by way of a list, which numba does not support if an element is a
# conditional (`a if b else c`).
_TUPLE_MOST = 30


def in_parts(node: ast.Tuple) -> ast.expr:
    """A long tuple as a concatenation of shorter ones."""
    if len(node.elts) <= _TUPLE_MOST or any(isinstance(one, ast.Starred) for one in node.elts):
        return node
    starts = range(0, len(node.elts), _TUPLE_MOST)
    parts = [ast.Tuple(node.elts[i : i + _TUPLE_MOST], ast.Load()) for i in starts]
    whole: ast.expr = parts[0]
    for part in parts[1:]:
        whole = ast.BinOp(whole, ast.Add(), part)
    return ast.copy_location(whole, node)


def shorten(tree: ast.FunctionDef, number: int, length: int) -> None:
    """Let a function use only the first items of one of its arguments, a tuple, in place."""
    name = tree.args.args[number].arg
    items = "".join(f"{name}[{k}], " for k in range(length))
    tree.body.insert(0, parse(f"{name} = ({items})").body[0])


def is_range(node: ast.expr | None) -> TypeGuard[ast.Call]:
    """Whether an expression is a call of `range`."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    )


def counted_opaquely(node: ast.For, indices: bool = False) -> list[ast.stmt]:
    """A loop over a range as a `while` loop whose trip count the compiler cannot compute.

    If the numbers are `indices`, it knows that none is negative.
    """
    call, target = node.iter, node.target
    if not (is_range(call) and isinstance(target, ast.Name) and not node.orelse):
        raise ModelError(f"'{ast.unparse(node.iter)}' is not a range; no_unroll takes a range")
    bounds = [ast.unparse(argument) for argument in call.args]
    if len(bounds) == 1:
        bounds = ["0", *bounds]
    first, last, stride = [*bounds, "1"][:3]
    following, stop, step = (f"{target.id}__{word}" for word in ("next", "stop", "step"))
    number = f"{following} & {2**63 - 1}" if indices else following
    text = f"""\
{following}, {stop}, {step} = opaque_int(numpy.int64({first})), {last}, {stride}
while {following} < {stop}:
    {target.id} = {number}
    {following} = opaque_int({following} + {step})
"""
    begin, loop = parse(text).body
    assert isinstance(loop, ast.While)
    loop.body += node.body
    return [begin, loop]


class Put(ast.NodeTransformer):
    """Replaces names that are read by expressions."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self.values.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if value is None else copied(value)
