"""From a Python function to the definition that a generated module holds.

Names are pointed at the module's, float literals typed, and loops over what the size of a model
decides are written out.  In a user's formula integers are typed as well, and `exp` and `log` are
our own.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import math
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import elementary
from ergode.core.errors import ModelError
from ergode.core.machine import ByPrecision, Formula, unroll

if TYPE_CHECKING:
    from ergode.core.source import Collector

PLAIN_MODULES = {"math": "math", "numpy": "numpy"}
# In a user's formula these are our own, which vectorise and are the same on every target.
_ELEMENTARY = {
    math.exp: elementary.exp,
    math.expm1: elementary.expm1,
    math.log: elementary.log,
    math.log1p: elementary.log1p,
    np.exp: elementary.exp,
    np.expm1: elementary.expm1,
    np.log: elementary.log,
    np.log1p: elementary.log1p,
}


class Rewrite(ast.NodeTransformer):
    """Points a function's free names at the module's, types float literals, unrolls."""

    def __init__(self, collector: Collector, function: FunctionType) -> None:
        self.collector = collector
        self.function = function
        self.local = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        self._fused: list[ast.Call] = []

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.local:
            return node
        found, value = self._lookup(node.id)
        if found:
            node.id = self.collector.value(node.id, value, self.function)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id not in self.local:
            found, value = self._lookup(node.value.id)
            if found and isinstance(value, ModuleType) and value.__name__ not in PLAIN_MODULES:
                if not hasattr(value, node.attr):
                    raise ModelError(f"module '{value.__name__}' has no '{node.attr}'")
                member = getattr(value, node.attr)
                name = self.collector.value(node.attr, member, self.function)
                return ast.copy_location(ast.Name(name, ast.Load()), node)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, float) and self.collector.precision == "float32":
            return self._typed(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        number = self._constant(node)  # an element of a table that is bound into the kernel
        if type(number) in (int, float):
            return self.visit(ast.copy_location(ast.Constant(number), node))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if node in self._fused:  # `fma` is the word, whatever that name means to this function
            node.args = [self.visit(argument) for argument in node.args]
            return node
        if ast.unparse(node.func) in ("np.float32", "np.float64", "numpy.float32", "numpy.float64"):
            node.func = self.visit(node.func)  # the user chose the type of this literal
            return node
        if (
            isinstance(node.func, ast.Name)
            and node.func.id in ("tuple", "sum")
            and node.args
            and isinstance(node.args[0], ast.GeneratorExp)
        ):
            return self.visit(self._unrolled(node))
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test = self._constant(node.test)
        if isinstance(test, bool):  # what is not chosen need not compile
            return self.visit(node.body if test else node.orelse)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        test = self._constant(node.test)
        if isinstance(test, bool):
            kept = []
            for statement in node.body if test else node.orelse:
                done = self.visit(statement)
                kept += done if isinstance(done, list) else [done]
            return kept or ast.Pass()
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> Any:
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id not in self.local
            and self._lookup(call.func.id)[1] is unroll
        ):
            return self.generic_visit(node)
        body: list[ast.stmt] = []
        for replaced in self._each(node.target, call.args[0]):
            for statement in node.body:
                done = self.visit(replaced.visit(copy.deepcopy(statement)))
                body += done if isinstance(done, list) else [done]
        return body

    def _unrolled(self, call: ast.Call) -> ast.expr:
        """Write out ``tuple(...)`` or ``sum(...)`` over a range that is known now."""
        generator = call.args[0]
        assert isinstance(generator, ast.GeneratorExp) and isinstance(call.func, ast.Name)
        (clause,) = generator.generators
        items: list[ast.expr] = []
        for replaced in self._each(clause.target, clause.iter):
            conditions = [replaced.visit(copy.deepcopy(test)) for test in clause.ifs]
            if all(self._known(condition) for condition in conditions):
                items.append(replaced.visit(copy.deepcopy(generator.elt)))
        if call.func.id == "tuple":
            return ast.Tuple(items, ast.Load())
        items = [*call.args[1:], *items] or [ast.Constant(0.0)]
        total = items[0]
        for item in items[1:]:
            if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult):
                self.collector.words.add("fma")
                total = ast.Call(ast.Name("fma", ast.Load()), [item.left, item.right, total], [])
                self._fused.append(total)
            else:
                total = ast.BinOp(total, ast.Add(), item)
        return total

    def _each(self, target: ast.expr, values: ast.expr) -> list[_Replace]:
        if not isinstance(target, ast.Name):
            raise ModelError(f"function '{self.function.__name__}' unrolls over more than one name")
        return [_Replace(target.id, value) for value in self._known(values)]

    def _known(self, node: ast.expr) -> Any:
        value = self._constant(node)
        if value is None:
            raise ModelError(
                f"function '{self.function.__name__}' unrolls over '{ast.unparse(node)}', which "
                "is not known before it is compiled"
            )
        return value

    def _constant(self, node: ast.expr) -> Any:
        """Value of an expression of constants alone; None if it is anything else."""
        known: dict[str, Any] = {"__builtins__": {"len": len, "range": range}}
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id not in known["__builtins__"]:
                if part.id in self.local:
                    return None
                found, value = self._lookup(part.id)
                if not found or not isinstance(value, bool | int | float | tuple):
                    return None
                known[part.id] = value
            elif isinstance(part, ast.Call) and not isinstance(part.func, ast.Name):
                return None
        expression = ast.fix_missing_locations(ast.Expression(copy.deepcopy(node)))
        return eval(compile(expression, "<constant>", "eval"), known)

    @staticmethod
    def _typed(node: ast.expr) -> ast.AST:
        return ast.copy_location(ast.Call(ast.Name("real", ast.Load()), [node], []), node)

    def _lookup(self, name: str) -> tuple[bool, Any]:
        function = self.function
        if name in self.collector.bindings:
            return True, self.collector.bindings[name]
        if name in function.__code__.co_freevars and function.__closure__:
            cell = function.__closure__[function.__code__.co_freevars.index(name)]
            return True, cell.cell_contents
        if name in function.__globals__:
            return True, function.__globals__[name]
        if hasattr(builtins, name):
            return False, None
        raise ModelError(f"function '{function.__name__}' uses '{name}', which is not defined")


class RewriteFormula(Rewrite):
    """Does the same for a user's function, in which every number is real.

    Numba makes a double of a float and an integer, whatever the float: so an integer is typed
    too, except where it counts - in a subscript, an exponent or a range.
    """

    def __init__(self, collector: Collector, function: FunctionType) -> None:
        super().__init__(collector, function)
        self._counting = 0
        self._counters: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        for part in ast.walk(node):
            counts: list[ast.expr] = []
            if isinstance(part, ast.Subscript):
                counts = [part.slice]
            elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow):
                counts = [part.right] if isinstance(part.right, ast.Name) else []
            elif isinstance(part, ast.Call) and ast.unparse(part.func) == "range":
                counts = part.args
            for count in counts:
                self._counters |= {n.id for n in ast.walk(count) if isinstance(n, ast.Name)}
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and not self._counting:
            if self.collector.precision == "float64":
                return ast.copy_location(ast.Constant(float(node.value)), node)
            return self._typed(ast.Constant(float(node.value)))
        return super().visit_Constant(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.local:
            found, value = self._lookup(node.id)
            if found and type(value) is int and not self._counting:
                return self.visit(ast.copy_location(ast.Constant(value), node))
            if found:
                node.id = self.collector.value(node.id, _formula(value), self.function)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id not in self.local:
            found, value = self._lookup(node.value.id)
            if found and isinstance(value, ModuleType) and hasattr(value, node.attr):
                member = _formula(getattr(value, node.attr))
                if isinstance(member, ByPrecision | Formula):
                    name = self.collector.value(node.attr, member, self.function)
                    return ast.copy_location(ast.Name(name, ast.Load()), node)
        return super().visit_Attribute(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        number = self._constant(node)
        if type(number) in (int, float):
            return self.visit(ast.copy_location(ast.Constant(number), node))
        node.value = self.visit(node.value)
        node.slice = self._count(node.slice)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Pow):
            node.left = self.visit(node.left)
            whole = self._constant(node.right)
            node.right = (
                ast.Constant(whole)
                if type(whole) is int  # numba writes out a power that it sees as a number
                else self.visit(node.right)
            )
            return node
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "range":
            node.args = [self._count(argument) for argument in node.args]
            return node
        return super().visit_Call(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if any(isinstance(t, ast.Name) and t.id in self._counters for t in node.targets):
            node.value = self._count(node.value)
            return node
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if isinstance(node.target, ast.Name) and node.target.id in self._counters:
            node.value = self._count(node.value)
            return node
        return self.generic_visit(node)

    def _count(self, node: ast.expr) -> Any:
        self._counting += 1
        done = self.visit(node)
        self._counting -= 1
        return done


def _formula(value: Any) -> Any:
    """What a name in a user's formula stands for: our own functions, or a formula in turn."""
    if isinstance(value, FunctionType):
        return value if value.__module__.startswith("ergode.") else Formula(value)
    try:
        return _ELEMENTARY.get(value, value)
    except TypeError:  # not hashable
        return value


class _Replace(ast.NodeTransformer):
    """Puts a number in place of a name."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self.name and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(self.value), node)
        return node


def syntax(function: Callable[..., Any]) -> ast.FunctionDef:
    """Syntax tree of a function without decorators, annotations and docstring."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise ModelError(
            f"the source of function '{function.__name__}' is not available; define it with "
            "`def` in a file or a notebook cell"
        ) from None
    try:
        tree = ast.parse(text).body[0]
    except SyntaxError:
        tree = ast.Pass()
    if not isinstance(tree, ast.FunctionDef):
        raise ModelError(
            f"function '{function.__name__}' must be defined with `def`, alone; a lambda cannot "
            "be compiled"
        )
    tree.decorator_list = []
    tree.returns = None
    for argument in [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]:
        argument.annotation = None
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass()]
    return tree
