"""Indices of arrays that a function computes from time, state or parameters.

Such an index may leave its array at any time, and compiled code does not check bounds.  Its reads
become calls of `tables.element`, which gives NaN beyond the ends.  Its writes use `tables.place`,
by which the first element becomes NaN.  The trajectory then fails, with the status ``NOT_FINITE``
or, where steps are adapted, ``STEP_TOO_SMALL``.
All other indices depend on the unknown alone: they are left as they are, and cost nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ergode.core.math import tables

_COMPUTED = ("t", "y", "yd", "dy", "p")
_PREFIX = "_at_"
_ASSIGNMENTS = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr

FUNCTIONS = {
    f"{_PREFIX}{one.__name__}": one
    for one in (
        tables.element, tables.element_2, tables.element_3, tables.place, tables.place_2,
        tables.place_3,
    )
}  # fmt: skip
"""Functions that are called in a rewritten tree, by name."""


def with_checks(
    tree: ast.FunctionDef, roles: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]],
    data: Mapping[str, Any],
) -> ast.FunctionDef:  # fmt: skip
    """The tree of a function with checks of its computed indices.

    `roles` are those of its arguments, `shapes` those of the variables, and `data` the constants.
    """
    names = _computed_names(tree, roles)
    found: ast.FunctionDef = _Checks(names, roles, shapes, data).visit(tree)
    return found


def _computed_names(tree: ast.FunctionDef, roles: Mapping[str, str]) -> set[str]:
    """Names whose values depend on time, state or parameters."""
    names, before = {name for name, role in roles.items() if role in _COMPUTED}, -1
    while len(names) > before:
        before = len(names)
        _spread(tree.body, False, names)
    return names


def _spread(body: Sequence[ast.stmt], is_computed: bool, names: set[str]) -> None:
    """Add names that are assigned in `body`; `is_computed`: whether it runs may depend on them."""
    for one in body:
        here = is_computed
        if isinstance(one, ast.If | ast.While):
            here = here or _depends(one.test, names)
        elif isinstance(one, ast.For):
            here = here or _depends(one.iter, names)
            names |= _assigned(one.target) if here else set()
        if isinstance(one, ast.While | ast.For):
            here = here or any(
                isinstance(part, ast.If) and _depends(part.test, names) and _leaves(part)
                for part in ast.walk(one)
            )
        if isinstance(one, ast.If | ast.While | ast.For):
            _spread([*one.body, *one.orelse], here, names)
        for part in ast.walk(one):
            if isinstance(part, _ASSIGNMENTS) and (here or _depends(part.value, names)):
                for target in part.targets if isinstance(part, ast.Assign) else [part.target]:
                    names |= _assigned(target)


def _leaves(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Break | ast.Continue) for part in ast.walk(node))


def _assigned(target: ast.expr) -> set[str]:
    parts = ast.walk(target)
    return {p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}


def _depends(node: ast.AST | None, names: set[str]) -> bool:
    """Whether the value of an expression depends on names; a shape does not."""
    if node is None or (isinstance(node, ast.Attribute) and node.attr in ("shape", "size")):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return False
    if isinstance(node, ast.Name):
        return node.id in names
    return any(_depends(part, names) for part in ast.iter_child_nodes(node))


class _Checks(ast.NodeTransformer):
    def __init__(
        self, names: set[str], roles: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]],
        data: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self._names, self._roles, self._shapes, self._data = names, roles, shapes, data

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        number = self._checked(node)
        self.generic_visit(node)
        if not number:
            return node
        ending = "" if number == 1 else f"_{number}"
        indices = [*node.slice.elts] if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(node.ctx, ast.Load):
            return _call("element" + ending, node.value, *indices)
        node.slice = _call("place" + ending, node.value, *indices)
        return node

    def _checked(self, node: ast.Subscript) -> int:
        """Number of the indices of an element, if any is computed; 0 for all else."""
        if not _depends(node.slice, self._names):
            return 0
        owner = node.value
        holder = owner.value if isinstance(owner, ast.Attribute) else owner
        role = self._roles.get(holder.id, "") if isinstance(holder, ast.Name) else ""
        number = 0
        if role == "c" and isinstance(owner, ast.Attribute):
            number = np.ndim(self._data.get(owner.attr, 0.0))
        elif role in ("y", "dy"):
            name = owner.attr if isinstance(owner, ast.Attribute) else next(iter(self._shapes))
            number = len(self._shapes.get(name, ()))
        given = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
        return number if number == given and number <= 3 else 0


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(_PREFIX + name, ast.Load()), list(arguments), [])
