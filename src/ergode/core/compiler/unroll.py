"""Unroll loops over constant ranges, such as the size of a model, before compilation.

``tuple(... for i in range(N))``, ``sum(... for i in range(N) if ...)`` and
``for i in unroll(range(N))`` become straight-line code on scalars, if N and the conditions are
constants.  It stays in registers on a GPU and vectorises over the lanes of a CPU loop.  A sum of
products becomes a chain of `fma`.  An ``if`` on constants keeps one branch (``if CONSTANT and ...``
too), and an element of a constant table becomes a literal.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ergode.core.compiler.language import polynomial, unroll
from ergode.core.compiler.trees import Put, copied
from ergode.core.errors import ModelError

FUSED = "<fma>"
"""Placeholder for `fma`, which the user's code may have redefined."""

_BUILTINS = {"len": len, "range": range}


def write_out(tree: ast.FunctionDef, lookup: Callable[[str], tuple[bool, Any]]) -> ast.FunctionDef:
    """Unroll the loops of a function, in place.

    Parameters
    ----------
    tree : ast.FunctionDef
        The function.
    lookup : function
        ``lookup(name)`` tells whether a name is defined outside of the function, and its value.

    Raises a ModelError if a loop is over something that is not a constant.
    """
    done = _WriteOut(tree.name, lookup).visit(tree)
    assert isinstance(done, ast.FunctionDef)
    return done


class _WriteOut(ast.NodeTransformer):
    def __init__(self, function: str, lookup: Callable[[str], tuple[bool, Any]]) -> None:
        self.function = function
        self.lookup = lookup

    def generic_visit(self, node: ast.AST) -> ast.AST:
        done = super().generic_visit(node)
        if getattr(done, "body", None) == []:  # only empty loops
            done.body = [ast.Pass()]  # type: ignore[attr-defined]
        return done

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        number = self._constant(node)
        if type(number) in (int, float):
            return ast.copy_location(ast.Constant(number), node)
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test = self._constant(node.test)
        if isinstance(test, bool):  # the other branch need not compile
            return self.visit(node.body if test else node.orelse)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        decides = isinstance(node.op, ast.Or)
        known = [self._constant(value) for value in node.values]
        if any(value is decides for value in known):
            return ast.copy_location(ast.Constant(decides), node)
        left = [
            value for value, one in zip(node.values, known, strict=True) if one is not (not decides)
        ]
        node.values = left or [ast.Constant(not decides)]
        return self.generic_visit(node if len(node.values) > 1 else node.values[0])

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        test = self._constant(node.test)
        if isinstance(test, bool):
            return self._statements(node.body if test else node.orelse) or ast.Pass()
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> Any:
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and self.lookup(call.func.id)[1] is unroll
        ):
            return self.generic_visit(node)
        body: list[ast.stmt] = []
        for replaced in self._each(node.target, call.args[0]):
            body += self._statements([replaced.visit(copied(part)) for part in node.body])
        return body

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (
            isinstance(node.func, ast.Name)
            and node.func.id in ("tuple", "sum")
            and node.args
            and isinstance(node.args[0], ast.GeneratorExp)
        ):
            items = self._items(node.args[0])
            if node.func.id == "tuple":
                return ast.Tuple(items, ast.Load())
            return _sum([*(self.visit(start) for start in node.args[1:]), *items])
        if isinstance(node.func, ast.Name) and self.lookup(node.func.id)[1] is polynomial:
            x, coefficients = node.args
            assert isinstance(x, ast.Name)
            first, *rest = self._known(coefficients)
            total: ast.expr = ast.Constant(first)
            for one in rest:
                arguments = [copied(x), total, ast.Constant(one)]
                total = ast.Call(ast.Name(FUSED, ast.Load()), arguments, [])
            return total
        return self.generic_visit(node)

    def _items(self, generator: ast.GeneratorExp) -> list[ast.expr]:
        (clause,) = generator.generators
        items: list[ast.expr] = []
        for replaced in self._each(clause.target, clause.iter):
            conditions = [replaced.visit(copied(test)) for test in clause.ifs]
            if all(self._known(condition) for condition in conditions):
                items.append(self.visit(replaced.visit(copied(generator.elt))))
        return items

    def _statements(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            done += result if isinstance(result, list) else [result]
        return done

    def _each(self, target: ast.expr, values: ast.expr) -> list[Put]:
        assert isinstance(target, ast.Name)
        return [Put({target.id: ast.Constant(value)}) for value in self._known(values)]

    def _known(self, node: ast.expr) -> Any:
        value = self._constant(node)
        if value is None:
            raise ModelError(
                f"function '{self.function}' unrolls over '{ast.unparse(node)}', which is not "
                "known before it is compiled"
            )
        return value

    def _constant(self, node: ast.expr) -> Any:
        """Value of a constant expression; None for any other."""
        known: dict[str, Any] = {"__builtins__": _BUILTINS}
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id not in _BUILTINS:
                found, value = self.lookup(part.id)
                if not found or not isinstance(value, bool | int | float | tuple):
                    return None
                known[part.id] = value
            elif isinstance(part, ast.Attribute):
                return None
        expression = ast.fix_missing_locations(ast.Expression(copied(node)))
        return eval(compile(expression, "<constant>", "eval"), known)


_LONGEST = 180  # terms of a chain; Python's parser allows 200 nested parentheses


def _sum(items: list[ast.expr]) -> ast.expr:
    if not items:
        return ast.Constant(0.0)
    if len(items) > _LONGEST:  # chains, and their sum
        items = [_sum(items[i : i + _LONGEST // 2]) for i in range(0, len(items), _LONGEST // 2)]
    total = items[0]
    for item in items[1:]:
        if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult):
            total = ast.Call(ast.Name(FUSED, ast.Load()), [item.left, item.right, total], [])
        else:
            total = ast.BinOp(total, ast.Add(), item)
    return total
