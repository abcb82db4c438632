"""Derivatives of the functions of a field of arrays along a tangent vector, by rewriting them.

Every expression e(y) has the tangent e'(y) v, and every assignment of a number that depends on the
state gets a second one, of its tangent.  Loops stay loops and branches stay branches, so the text
is about twice as long, whatever the size of the arrays.  A read ``y.u[i, j]`` has the tangent
``y.ergode_tangent_u[m, i, j]``: the tangent vectors are further arrays, with their number m as the
first index.  A parameter p[q] has the tangent ``c.ergode_seeds[m, q]``.

A. Griewank, A. Walther, "Evaluating Derivatives", 2nd ed. (2008), section 3.1.
"""

from __future__ import annotations

import ast
import builtins
import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import function_from_text, outer_value, syntax
from ergode.core.errors import PlanError
from ergode.models.fields.functions import check_form

NUMBER, SEEDS = "ergode_m", "ergode_seeds"
_DATA, _MATH, _PREFIX, _TWIN = "ergode_c", "ergode_math", "ergode_tangent_", "__tangent"

# Derivatives of functions of one number X.
_SLOPES = {
    "exp": "math.exp(X)", "expm1": "math.exp(X)", "log": "1.0 / X", "log1p": "1.0 / (1.0 + X)",
    "log2": "1.4426950408889634 / X", "log10": "0.4342944819032518 / X",
    "sqrt": "0.5 / math.sqrt(X)", "sin": "math.cos(X)", "cos": "-math.sin(X)",
    "tan": "1.0 + math.tan(X) * math.tan(X)", "sinh": "math.cosh(X)", "cosh": "math.sinh(X)",
    "tanh": "1.0 - math.tanh(X) * math.tanh(X)", "asin": "1.0 / math.sqrt(1.0 - X * X)",
    "acos": "-1.0 / math.sqrt(1.0 - X * X)", "atan": "1.0 / (1.0 + X * X)",
    "fabs": "(1.0 if X > 0.0 else (-1.0 if X < 0.0 else 0.0))",
}  # fmt: skip
_SAME = {"abs": "fabs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "absolute": "fabs"}
# Functions of two numbers X and Z, with tangents DX and DZ.
_OF_TWO = {
    "min": "(DX if X <= Z else DZ)", "max": "(DX if X >= Z else DZ)",
    "minimum": "(DX if X <= Z else DZ)", "maximum": "(DX if X >= Z else DZ)",
    "atan2": "(Z * DX - X * DZ) / (X * X + Z * Z)",
    "arctan2": "(Z * DX - X * DZ) / (X * X + Z * Z)",
    "hypot": "(X * DX + Z * DZ) / math.hypot(X, Z)",
    "pow": "X ** Z * (DZ * math.log(X) + Z * DX / X)",
    "fmod": "DX - (X - math.fmod(X, Z)) / Z * DZ",
}  # fmt: skip
_CONSTANT = {"len", "range", "int", "round", "bool", "floor", "ceil", "trunc", "sign", "isnan",
             "isfinite", "isinf"}  # fmt: skip


def tangent_name(name: str) -> str:
    """The array of the tangent vectors of a variable."""
    return _PREFIX + name


class Rewriter:
    """Rewrites a function of a field of arrays for a field that has tangent vectors as well.

    `expected` are the roles of its arguments: indices, ``"t"``, ``"y"``, ``"dy"``, ``"p"``,
    ``"c"``. `only` is the name of the variable where it is the only one, ``y[i]``; None for
    ``y.u[i]``. `seeded`: parameters have tangents. Messages call the function `what`.

    Raises a PlanError if the function has a part without a known derivative; the message names it.
    """

    def __init__(
        self, function: Any, expected: Sequence[str], what: str, only: str | None, seeded: bool
    ) -> None:
        self._function, tree = check_form(function, dict.fromkeys(expected), what)
        self._what, self._only, self._seeded = what, only, seeded
        own = [argument.arg for argument in tree.args.args]
        self._roles = dict(zip(own, expected, strict=True))
        self._arguments = own if "c" in expected else [*own, _DATA]
        self._begin(tree.body, set())

    def _begin(self, body: Sequence[ast.stmt], active: set[str]) -> None:
        """Find all names that depend on the state, from those that are known to."""
        self._body, self._active = _without_docstring(body), active
        self.names: dict[str, Any] = {_MATH: math}
        before = -1
        while len(self._active) > before:
            before = len(self._active)
            self._spread(self._body)
        for part in (part for one in self._body for part in ast.walk(one)):
            if isinstance(part, ast.Name) and (found := outer_value(self._function, part.id)):
                self.names[part.id] = found[0]

    # ---- text

    def state(self) -> FunctionType:
        """The function for the larger field."""
        return self._made("state", self._arguments, self._values(self._body))

    def tangent(self) -> FunctionType:
        """``tangent(m, i, ..., t, y, p, c)``: the derivative along tangent vector m."""
        return self._made("tangent", [NUMBER, *self._arguments], self._tangents(self._body))

    def in_place(self, count: int, more: str) -> FunctionType:
        """``rhs(t, y, dy, p, c)`` that sets derivatives of the state and of `count` tangents.

        `more` are further lines, in which ``{dy}`` is the argument that is set.
        """
        if any(isinstance(part, ast.Return) for one in self._body for part in ast.walk(one)):
            raise self._unknown("return")
        loop = ast.For(
            ast.Name(NUMBER, ast.Store()),
            ast.Call(ast.Name("range", ast.Load()), [ast.Constant(count)], []),
            self._tangents(self._body), [],
        )  # fmt: skip
        dy = next(name for name, role in self._roles.items() if role == "dy")
        last = ast.parse(more.format(dy=dy)).body
        return self._made("rhs", self._arguments, [*self._values(self._body), loop, *last])

    def _made(self, name: str, arguments: Sequence[str], body: Sequence[ast.stmt]) -> FunctionType:
        lines = "\n".join(ast.unparse(ast.fix_missing_locations(one)) for one in body)
        inner = "\n".join(f"    {line}" for line in lines.splitlines())
        return function_from_text(f"def {name}({', '.join(arguments)}):\n{inner}\n", self.names)

    # ---- values

    def _values(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [_Named(self._roles, self._only).visit(copy.deepcopy(one)) for one in body]

    def _value(self, node: ast.expr) -> ast.expr:
        found: ast.expr = _Named(self._roles, self._only).visit(copy.deepcopy(node))
        return found

    # ---- statements

    def _spread(self, body: Iterable[ast.stmt]) -> None:
        """Find the names whose values depend on the state, by one pass."""
        for one in body:
            for part in ast.walk(one):
                pairs = []
                if isinstance(part, ast.Assign):
                    pairs = [pair for one in part.targets for pair in _pairs(one, part.value)]
                elif isinstance(part, ast.AugAssign):
                    pairs = [(part.target, part.value)]
                for target, value in pairs:
                    if isinstance(target, ast.Name) and self.of(value) is not None:
                        self._active.add(target.id)

    def _tangents(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [made for one in body for made in self._tangent_of(one)]

    def _tangent_of(self, one: ast.stmt) -> list[ast.stmt]:
        """Statements in place of one, with those of the tangents before those of the values."""
        same = self._values([one])
        if isinstance(one, ast.Return):
            return [ast.Return(self._number(one.value) if one.value else None)]
        if isinstance(one, ast.Assign) and len(one.targets) == 1:
            pairs = _pairs(one.targets[0], one.value)
            if isinstance(pairs[0][0], ast.Tuple) and self.of(pairs[0][1]) is None:
                return same
            twins = [(self._twin(target), self._number(value)) for target, value in pairs]
            kept = [(target, value) for target, value in twins if target is not None]
            if not kept:
                return same
            if len(kept) == 1:
                return [ast.Assign([kept[0][0]], kept[0][1], lineno=0), *same]
            targets = ast.Tuple([target for target, _ in kept], ast.Store())
            values = ast.Tuple([value for _, value in kept], ast.Load())
            return [ast.Assign([targets], values, lineno=0), *same]
        if isinstance(one, ast.AugAssign):
            twin = self._twin(one.target)
            if twin is None:
                return same
            before = copy.deepcopy(one.target)
            before.ctx = ast.Load()
            whole = ast.BinOp(before, one.op, one.value)
            return [ast.Assign([twin], self._number(whole), lineno=0), *same]
        if isinstance(one, ast.If | ast.For | ast.While):
            made: Any = same[0]
            made.body = self._tangents(one.body)
            made.orelse = self._tangents(one.orelse)
            return [made]
        if isinstance(one, ast.Pass | ast.Break | ast.Continue):
            return same
        raise self._unknown(ast.unparse(one))

    def _twin(self, target: ast.expr) -> Any:
        """What the tangent of an assigned name or element is assigned to; None if it has none."""
        if isinstance(target, ast.Name):
            is_active = target.id in self._active
            return ast.Name(target.id + _TWIN, ast.Store()) if is_active else None
        if isinstance(target, ast.Subscript) and self._array(target.value) is not None:
            found: Any = self.of(target)
            found.ctx = ast.Store()
            return found
        raise self._unknown(ast.unparse(target))

    # ---- expressions

    def _number(self, node: ast.expr) -> ast.expr:
        found = self.of(node)
        return ast.Constant(0.0) if found is None else found

    def _array(self, node: ast.expr) -> ast.expr | None:
        """The array of tangents of ``y``, ``y.u``, ``dy`` or ``dy.u``; None for anything else."""
        holder, name = (node, self._only) if self._only is not None else (
            getattr(node, "value", None), getattr(node, "attr", None)
        )  # fmt: skip
        if not isinstance(holder, ast.Name) or name is None:
            return None
        if self._roles.get(holder.id) not in ("y", "dy"):
            return None
        return ast.Attribute(ast.Name(holder.id, ast.Load()), tangent_name(name), ast.Load())

    def of(self, node: ast.expr) -> ast.expr | None:
        """The tangent of an expression; None if it is zero."""
        if (array := self._array(node)) is not None:
            return ast.Subscript(array, ast.Name(NUMBER, ast.Load()), ast.Load())
        if isinstance(node, ast.Name):
            is_active = node.id in self._active
            return ast.Name(node.id + _TWIN, ast.Load()) if is_active else None
        if isinstance(node, ast.Subscript):
            return self._of_element(node)
        if isinstance(node, ast.BinOp):
            return self._of_operation(node)
        if isinstance(node, ast.UnaryOp):
            inner = self.of(node.operand)
            is_sign = isinstance(node.op, ast.USub | ast.UAdd)
            return ast.UnaryOp(node.op, inner) if inner is not None and is_sign else None
        if isinstance(node, ast.IfExp):
            if self.of(node.body) is None and self.of(node.orelse) is None:
                return None
            return ast.IfExp(
                self._value(node.test), self._number(node.body), self._number(node.orelse)
            )
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Constant | ast.Compare | ast.BoolOp | ast.Attribute):
            return None
        if self._depends(node):
            raise self._unknown(ast.unparse(node))
        return None

    def _of_element(self, node: ast.Subscript) -> ast.expr | None:
        base, index = node.value, self._value(node.slice)
        m = ast.Name(NUMBER, ast.Load())
        first = [*index.elts] if isinstance(index, ast.Tuple) else [index]
        if isinstance(base, ast.Name) and self._roles.get(base.id) == "p":
            if not self._seeded:
                return None
            data = next((k for k, role in self._roles.items() if role == "c"), _DATA)
            seeds = ast.Attribute(ast.Name(data, ast.Load()), SEEDS, ast.Load())
            return ast.Subscript(seeds, ast.Tuple([m, *first], ast.Load()), ast.Load())
        if (array := self._array(base)) is not None:
            return ast.Subscript(array, ast.Tuple([m, *first], ast.Load()), ast.Load())
        inner = self.of(base)
        return None if inner is None else ast.Subscript(inner, index, ast.Load())

    def _of_operation(self, node: ast.BinOp) -> ast.expr | None:
        left, right = self.of(node.left), self.of(node.right)
        if left is None and right is None:
            return None
        x, z, op = self._value(node.left), self._value(node.right), node.op
        if isinstance(op, ast.Add | ast.Sub):
            if right is None:
                return left
            if left is None:
                return right if isinstance(op, ast.Add) else ast.UnaryOp(ast.USub(), right)
            return ast.BinOp(left, op, right)
        if isinstance(op, ast.Mult | ast.MatMult):
            parts = [] if left is None else [ast.BinOp(left, op, z)]
            parts += [] if right is None else [ast.BinOp(x, op, right)]
            return parts[0] if len(parts) == 1 else ast.BinOp(parts[0], ast.Add(), parts[1])
        if isinstance(op, ast.Div):
            if right is None and left is not None:
                return ast.BinOp(left, ast.Div(), z)
            text = "(DX - X / Z * DZ) / Z" if left is not None else "-X / Z * DZ / Z"
            return self._filled(text, X=x, Z=z, DX=left, DZ=right)
        if isinstance(op, ast.Pow):
            if right is None and left is not None:
                lower: ast.expr = ast.BinOp(z, ast.Sub(), ast.Constant(1))
                if isinstance(z, ast.Constant):
                    lower = ast.Constant(z.value - 1)  # type: ignore[operator]
                return self._filled("Z * X ** LOWER * DX", X=x, Z=z, DX=left, LOWER=lower)
            return self._filled(
                "X ** Z * (DZ * math.log(X) + Z * DX / X)", X=x, Z=z, DX=left, DZ=right
            )
        if isinstance(op, ast.Mod):
            return self._filled("DX - X // Z * DZ", X=x, Z=z, DX=left, DZ=right)
        return None  # of integers

    def _of_call(self, node: ast.Call) -> ast.expr | None:
        tangents = [self.of(one) for one in node.args]
        if all(one is None for one in tangents) and not self._passes_parameters(node):
            return None
        name, function = self._called(node.func)
        values = [self._value(one) for one in node.args]
        if name in _CONSTANT:
            return None
        if name == "float" and len(values) == 1:
            return tangents[0]
        if (slope := _SLOPES.get(_SAME.get(name, name))) and len(values) == 1:
            text = slope if " " not in slope or slope.startswith("(") else f"({slope})"
            return self._filled(f"{text} * DX", X=values[0], DX=tangents[0])
        if name in ("min", "max") and len(values) > 2:
            inner = ast.Call(node.func, node.args[:-1], [])
            return self._of_call(ast.Call(node.func, [inner, node.args[-1]], []))
        if name in _OF_TWO and len(values) == 2:
            return self._filled(_OF_TWO[name], X=values[0], Z=values[1], DX=tangents[0],
                                DZ=tangents[1])  # fmt: skip
        if isinstance(function, FunctionType) and not self._passes_parameters(node):
            made = f"{function.__name__}{_TWIN}_{len(self.names)}"
            self.names[made] = _derived(
                function, tuple(one is not None for one in tangents), self._what
            )
            more = [one for one in tangents if one is not None]
            return ast.Call(ast.Name(made, ast.Load()), [*values, *more], [])
        raise self._unknown(ast.unparse(node))

    def _passes_parameters(self, node: ast.Call) -> bool:
        """Whether a function gets the parameters as a whole, and these have tangents."""
        names = (one.id for one in node.args if isinstance(one, ast.Name))
        return self._seeded and any(self._roles.get(name) == "p" for name in names)

    def _called(self, node: ast.expr) -> tuple[str, Any]:
        """The word for a known function, or "", and the function."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = outer_value(self._function, node.value.id)
            is_known = owner is not None and (owner[0] is math or owner[0] is np)
            return (node.attr if is_known else ""), None
        if not isinstance(node, ast.Name):
            return "", None
        found = outer_value(self._function, node.id)
        function = found[0] if found else getattr(builtins, node.id, None)
        for module in (math, np, builtins):
            word = getattr(function, "__name__", "")
            if function is not None and getattr(module, word, None) is function:
                return word, function
        return "", function

    def _depends(self, node: ast.AST) -> bool:
        return any(
            isinstance(part, ast.Name)
            and (part.id in self._active or self._roles.get(part.id) in ("y", "dy"))
            for part in ast.walk(node)
        )

    def _filled(self, text: str, **parts: ast.expr | None) -> ast.expr:
        """An expression with its capital names replaced; a missing tangent is zero."""
        tree = ast.parse(text, mode="eval").body
        found: ast.expr = _Filling(parts).visit(tree)
        return found

    def _unknown(self, part: str) -> PlanError:
        return PlanError(
            f"{self._what}: the derivative of '{part}' is not known; write it with arithmetic, "
            "functions of math, and functions of single numbers or arrays"
        )


class _Named(ast.NodeTransformer):
    """The only array by its name: ``y[i]`` becomes ``y.x[i]``."""

    def __init__(self, roles: Mapping[str, str], only: str | None) -> None:
        self._roles, self._only = roles, only

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self._only is None or self._roles.get(node.id) not in ("y", "dy"):
            return node
        return ast.Attribute(node, self._only, node.ctx)


class _Filling(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, ast.expr | None]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "math":
            return ast.Name(_MATH, ast.Load())
        if node.id not in self._parts:
            return node
        part = self._parts[node.id]
        return ast.Constant(0.0) if part is None else copy.deepcopy(part)


class _Helper(Rewriter):
    """Derives a function of numbers and arrays that a function of the field calls."""

    def __init__(self, function: FunctionType, active: Sequence[bool], what: str) -> None:
        tree = syntax(function)
        own = [argument.arg for argument in tree.args.args]
        if len(own) != len(active):
            raise PlanError(f"{what}: '{function.__name__}' has arguments that are not given")
        self._function, self._what, self._only, self._seeded = function, what, "", False
        self._roles = {}
        self._arguments = own
        self._own = [name for name, is_active in zip(own, active, strict=True) if is_active]
        self._begin(tree.body, set(self._own))

    def made(self) -> FunctionType:
        twins = [name + _TWIN for name in self._own]
        return self._made("derived", [*self._arguments, *twins], self._tangents(self._body))


def _derived(function: FunctionType, active: Sequence[bool], what: str) -> FunctionType:
    return _Helper(function, active, what).made()


def _without_docstring(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return list(body[1:] if is_text else body)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Single targets of an assignment, and their values."""
    are_several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    if are_several and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
        return list(zip(target.elts, value.elts, strict=True))  # type: ignore[attr-defined]
    return [(target, value)]
