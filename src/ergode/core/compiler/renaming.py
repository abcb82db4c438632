"""The names in a function: free ones become the module's, and float literals are typed."""

from __future__ import annotations

import ast
import builtins
import math
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.compiler import unroll, user_functions
from ergode.core.compiler.language import ByPrecision, ByTarget, UserFunction, fma, no_unroll
from ergode.core.compiler.purity import check_pure
from ergode.core.compiler.syntax import local_names, outer_value, syntax
from ergode.core.compiler.trees import Put, counted_opaquely, in_parts, is_range
from ergode.core.errors import ModelError

if TYPE_CHECKING:
    from ergode.core.compiler.bundle import Collector

_UNDEFINED = object()


class Rename(ast.NodeTransformer):
    """Points a function's free names at the module's, and types its float literals."""

    bound = True  # its names may have been bound

    def __init__(self, collector: Collector, function: FunctionType) -> None:
        self.collector = collector
        self.function = function
        self.local = set(local_names(function.__code__))
        self.exact = False  # inside a literal with an explicit type

    def rewritten(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """The function in the form that is compiled."""
        done = self.visit(unroll.write_out(tree, self._lookup))
        assert isinstance(done, ast.FunctionDef)
        return done

    def visit_Name(self, node: ast.Name) -> ast.AST:
        found, value = self._lookup(node.id)
        if not found:
            return node
        if self.exact and type(value) is float and math.isfinite(value):
            return ast.copy_location(ast.Constant(value), node)
        return self._known(node.id, value, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        found, module = self._lookup_path(node.value)
        if found and isinstance(module, ModuleType):
            if not hasattr(module, node.attr):
                raise ModelError(f"module '{module.__name__}' has no '{node.attr}'")
            member = getattr(module, node.attr)
            if module.__name__.partition(".")[0] not in ("math", "numpy"):
                if self.bound:
                    member = self.collector.bindings.get(node.attr, self.collector.bound(member))
                return self._known(node.attr, member, node)
            if isinstance(member, float):
                return self._typed(self.generic_visit(node))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        found, called = self._lookup_path(node.func)
        if found and (called is np.float32 or called is np.float64):
            inside = [part for argument in node.args for part in ast.walk(argument)]
            self.exact = not any(
                isinstance(part, ast.Call) or (isinstance(part, ast.Name) and part.id in self.local)
                for part in inside
            )
        try:
            return self.generic_visit(node)
        finally:
            self.exact = False

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        self.generic_visit(node)
        return in_parts(node) if isinstance(node.ctx, ast.Load) else node

    def visit_For(self, node: ast.For) -> Any:
        call = node.iter
        rolled = isinstance(call, ast.Call) and self._lookup_path(call.func)[1] is no_unroll
        if rolled:
            assert isinstance(call, ast.Call)
            node.iter = call.args[0]
            indices = isinstance(node.iter, ast.Call) and getattr(
                self._lookup_path(node.iter.func)[1], "indices", False
            )
        values = self._written_out(node.iter) if self.bound else None
        if values is not None:
            node.iter = ast.Constant(None)
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.For)
        if values is not None:
            visited.iter = values
        if not rolled or self.collector.target != "cuda":
            return visited
        self.collector.words.add("opaque_int")
        return counted_opaquely(visited, indices)

    def _written_out(self, values: ast.expr) -> ast.expr | None:
        """What a function that only returns a range returns: the compiler then knows its bounds."""
        if not isinstance(values, ast.Call) or values.keywords:
            return None
        function = self._lookup_path(values.func)[1]
        if isinstance(function, ByTarget):
            function = getattr(function, self.collector.target)
        if not isinstance(function, FunctionType) or len(syntax(function).body) > 2:
            return None
        tree = Rename(self.collector, function).rewritten(syntax(function))
        only = tree.body[-1]
        if len(tree.body) > 1 or not isinstance(only, ast.Return) or not is_range(only.value):
            return None
        assert only.value is not None
        names = [argument.arg for argument in tree.args.args]
        given = dict(zip(names, map(self.visit, values.args), strict=True))
        written: ast.expr = Put(given).visit(only.value)
        return written

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self._typed(node) if isinstance(node.value, float) else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.Assign([node.target], node.value)
        return self.generic_visit(ast.copy_location(plain, node))

    def _typed(self, node: Any) -> ast.AST:
        """A float literal as the working precision."""
        if self.exact or self.collector.precision == "float64":
            return node
        real = ast.Name(self._clear_of_locals("real"), ast.Load())
        return ast.copy_location(ast.Call(real, [node], []), node)

    def _known(self, name: str, value: Any, node: ast.AST) -> ast.AST:
        known = self._clear_of_locals(self.collector.value(name, value, self.function))
        return ast.copy_location(ast.Name(known, ast.Load()), node)

    def _clear_of_locals(self, name: str) -> str:
        while name.partition(".")[0] in self.local:
            name = self.collector.alias(name)
        return name

    def _lookup_path(self, node: ast.expr) -> tuple[bool, Any]:
        """The value of a dotted path of names through modules."""
        if isinstance(node, ast.Name):
            return self._lookup(node.id)
        if isinstance(node, ast.Attribute):
            found, value = self._lookup_path(node.value)
            if found and isinstance(value, ModuleType) and hasattr(value, node.attr):
                return True, self.collector.bound(getattr(value, node.attr))
        return False, None

    def _lookup(self, name: str) -> tuple[bool, Any]:
        function = self.function
        if name in self.local:
            return False, None
        if name == unroll.FUSED:
            return True, fma
        if name in user_functions.WORDS:
            return True, user_functions.WORDS[name]
        if self.bound and name in self.collector.bindings:
            return True, self.collector.bindings[name]
        value = self.outer(name)
        if value is not _UNDEFINED:
            self.collector.found.append((self, name, value))
            return True, self.collector.bound(value)
        if name not in function.__code__.co_freevars and hasattr(builtins, name):
            return False, None
        raise ModelError(f"function '{function.__name__}' uses '{name}', which is not defined")

    def outer(self, name: str) -> Any:
        """Current value of a name outside of the function."""
        found = outer_value(self.function, name)
        return found[0] if found else _UNDEFINED


class RenameFormula(Rename):
    """`Rename` for a user's formula: the names in it are never bound to an engine's values."""

    bound = False

    def rewritten(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        check_pure(tree, self._lookup_path, self.local)
        indices = getattr(self.function, "counters", ())
        return super().rewritten(user_functions.make_real(tree, self._lookup, indices))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        found, value = self._lookup_path(node)
        known = user_functions.meaning(value) if found else None
        if isinstance(known, ByPrecision | UserFunction | FunctionType):
            return self._known(node.attr, known, node)
        return super().visit_Attribute(node)

    def _known(self, name: str, value: Any, node: ast.AST) -> ast.AST:
        return super()._known(name, user_functions.meaning(value), node)
