"""Dependence analysis: the arguments that each returned number of a function depends on.

The analysis follows names through the syntax tree.  A name depends on everything that is ever
assigned to it.  A value assigned or returned under a condition also depends on the condition.  A
tuple that is used as a whole counts as all of its elements.
"""

from __future__ import annotations

import ast
import re
from types import FunctionType

from ergode.core.compiler.syntax import syntax

Reached = set[tuple[str, int]]
_WHOLE = -1


def dependences(function: FunctionType, size: int) -> list[Reached]:
    """Dependences of each of the `size` numbers that a function of t, y, perhaps yd, and p returns.

    Each is a set of pairs of ``"y"`` or ``"yd"`` and an index; the index is -1 if any element of
    the tuple may be used.
    """
    tree = syntax(function)
    names = [argument.arg for argument in tree.args.args]
    roles = dict(zip(names[1:-1], ("y", "yd"), strict=False))
    known: dict[str, Reached] = {}
    conditions = _Conditions(tree)
    changed = True
    while changed:  # a fixed point: names may be assigned from one another in a loop
        changed = False
        for node in ast.walk(tree):
            for target, value in _assignments(node):
                found = _reached(value, roles, known) | conditions(node, roles, known)
                for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                    if not found <= known.get(name, set()):
                        known[name] = known.get(name, set()) | found
                        changed = True
    result: list[Reached] = [set() for _ in range(size)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            value = node.value
            each = isinstance(value, ast.Tuple) and len(value.elts) == size
            parts = value.elts if each and isinstance(value, ast.Tuple) else [value] * size
            for found, part in zip(result, parts, strict=True):
                found |= _reached(part, roles, known) | conditions(node, roles, known)
    return result


def reads_of_arrays(
    function: FunctionType, index_count: int, place: int | None
) -> tuple[bool, bool]:
    """Whether a component of an array reads its own unknown, and whether it may read others.

    The function is the compiled form of ``amplitude(i, ..., t, y, p)``, with this number of
    indices, and never assigns its arguments. It belongs to the array ``y[place][i]``; None for the
    only one, ``y[i]``.
    """
    tree = syntax(function)
    names = [argument.arg for argument in tree.args.args]
    y = names[index_count + 1]
    arrays = y if place is None else rf"{y}\[\d+\]"
    array = y if place is None else f"{y}[{place}]"
    index = ", ".join(names[:index_count])
    mine = {f"{array}[{index}]", f"{array}[({index})]"}
    found = [False, False]

    def visit(node: ast.AST) -> None:
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        if text in mine:
            found[0] = True
        elif not re.fullmatch(rf"(len\({arrays}\)|{arrays}\.(shape|size))", text):
            found[1] |= isinstance(node, ast.Name) and node.id == y
            for child in ast.iter_child_nodes(node):
                visit(child)

    for statement in tree.body:
        visit(statement)
    return found[0], found[1]


def _assignments(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        pairs = []
        for target in node.targets:
            if (
                isinstance(target, ast.Tuple)
                and isinstance(node.value, ast.Tuple)
                and len(target.elts) == len(node.value.elts)
            ):
                pairs += list(zip(target.elts, node.value.elts, strict=True))
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Name):
                pairs += [
                    (one, ast.Subscript(node.value, ast.Constant(i), ast.Load()))
                    for i, one in enumerate(target.elts)
                ]
            else:
                pairs.append((target, node.value))
        return pairs
    if isinstance(node, ast.AugAssign | ast.NamedExpr):
        return [(node.target, node.value)]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [(node.target, node.value)]
    if isinstance(node, ast.For | ast.comprehension):
        return [(node.target, node.iter)]
    return []


def _reached(node: ast.AST, roles: dict[str, str], known: dict[str, Reached]) -> Reached:
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in roles
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        and node.slice.value >= 0
    ):
        return {(roles[node.value.id], node.slice.value)}
    if isinstance(node, ast.Name):
        own = {(roles[node.id], _WHOLE)} if node.id in roles else set()
        return own | known.get(node.id, set())
    found: Reached = set()
    for child in ast.iter_child_nodes(node):
        found |= _reached(child, roles, known)
    return found


class _Conditions:
    """The conditions of each statement; a conditional return is a condition of all that follows."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.tests: dict[ast.AST, list[ast.expr]] = {}
        self._walk(tree.body, [])

    def _walk(self, statements: list[ast.stmt], tests: list[ast.expr]) -> list[ast.expr]:
        tests = list(tests)
        for statement in statements:
            self.tests[statement] = list(tests)
            test = getattr(statement, "test", getattr(statement, "iter", None))
            inside = [*tests, test] if test is not None else tests
            left = []
            for part in ("body", "orelse"):
                left += self._walk(getattr(statement, part, []), inside)
            leaves = any(
                isinstance(n, ast.Return | ast.Break | ast.Continue) for n in ast.walk(statement)
            )
            if test is not None and leaves:
                tests += [one for one in [test, *left] if one not in tests]
        return tests

    def __call__(self, node: ast.AST, roles: dict[str, str], known: dict[str, Reached]) -> Reached:
        found: Reached = set()
        for test in self.tests.get(node, []):
            found |= _reached(test, roles, known)
        return found
