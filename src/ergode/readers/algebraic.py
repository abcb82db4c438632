"""Algebraic rules of SBML, ``0 = f(x, ...)``, as assignment rules ``x = ...``.

Each rule determines one variable that nothing else determines.  A rule that is linear in it is
solved on its tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ergode.core.errors import ModelError
from ergode.models.expressions import Expression


def solved(rules: Sequence[Expression], free: Iterable[str]) -> dict[str, Expression]:
    """The variable that each rule determines, of those that are `free`, with its formula.

    Raises a ModelError that shows the equation, if a rule determines none or is not linear in it.
    """
    unknown = set(free)
    choices = [{name for name in rule.names & unknown if slope(rule, name)} for rule in rules]
    owner: dict[str, int] = {}
    for k, rule in enumerate(rules):
        if not _match(k, choices, owner, set()):
            names = sorted(rule.names & unknown)
            why = (
                f"is not linear in {' or '.join(repr(name) for name in names)}, which it determines"
                if names and not choices[k]
                else "determines no variable that is not determined otherwise"
            )
            raise ModelError(f"the algebraic rule 0 = {rule.text} {why}")
    return {name: _solution(rules[k], name) for name, k in owner.items()}


def slope(formula: Expression, name: str) -> str | None:
    """The derivative of a formula by a name in which it is linear; None if it is not, or level."""
    found, _ = _linear(formula.tree, name) or (None, None)
    return None if found is None else ast.unparse(found)


def _match(k: int, choices: list[set[str]], owner: dict[str, int], seen: set[str]) -> bool:
    """Give the rule `k` a variable; others may have to change theirs (Kuhn's algorithm)."""
    for name in sorted(choices[k] - seen):
        seen.add(name)
        if name not in owner or _match(owner[name], choices, owner, seen):
            owner[name] = k
            return True
    return False


def _solution(rule: Expression, name: str) -> Expression:
    parts = _linear(rule.tree, name)
    slope, rest = parts or (None, None)
    assert slope is not None
    if rest is None:
        return Expression("0")
    text = f"-({ast.unparse(rest)})"
    return Expression(text if _is_one(slope) else f"{text} / ({ast.unparse(slope)})")


Term = ast.expr | None  # None: zero


def _linear(node: ast.expr, name: str) -> tuple[Term, Term] | None:
    """A formula as slope times the variable, plus the rest; None if it is not that."""
    if all(not (isinstance(one, ast.Name) and one.id == name) for one in ast.walk(node)):
        return None, node
    match node:
        case ast.Name():
            return ast.Constant(1.0), None
        case ast.UnaryOp(ast.USub(), inner):
            parts = _linear(inner, name)
            return parts and (_negative(parts[0]), _negative(parts[1]))
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            one, other = _linear(left, name), _linear(right, name)
            if one is None or other is None:
                return None
            if isinstance(node.op, ast.Sub):
                other = _negative(other[0]), _negative(other[1])
            return _sum(one[0], other[0]), _sum(one[1], other[1])
        case ast.BinOp(left, ast.Mult(), right):
            one, other = _linear(left, name), _linear(right, name)
            if one is None or other is None or (one[0] is not None and other[0] is not None):
                return None
            (slope, rest), factor = (one, right) if other[0] is None else (other, left)
            return _times(slope, factor), _times(rest, factor)
        case ast.BinOp(left, ast.Div(), right):
            one, other = _linear(left, name), _linear(right, name)
            if one is None or other is None or other[0] is not None:
                return None
            return _over(one[0], right), _over(one[1], right)
    return None


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _negative(node: Term) -> Term:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    return node and ast.UnaryOp(ast.USub(), node)


def _sum(one: Term, other: Term) -> Term:
    return ast.BinOp(one, ast.Add(), other) if one and other else one or other


def _times(node: Term, factor: ast.expr) -> Term:
    return node and (factor if _is_one(node) else ast.BinOp(node, ast.Mult(), factor))


def _over(node: Term, divisor: ast.expr) -> Term:
    return node and ast.BinOp(node, ast.Div(), divisor)
