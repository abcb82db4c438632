"""Formulas as text: arithmetic on names, parsed once, checked, evaluated and rewritten.

The language is Python's arithmetic with the notation of modelling tools: ``^`` is a power, ``time``
is the model's time, ``piecewise(value, condition, ..., otherwise)`` selects a value.  A formula can
use only the functions listed here; nothing but arithmetic is executed.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.compiler.trees import copied
from ergode.core.errors import ModelError
from ergode.core.parsing import parse

TIME = "time"
_SHOWN = 60  # characters of a formula in a message
_LONGEST = 300_000  # characters of a formula in which others are written out

_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, np.abs), "exp": (1, np.exp), "log": (1, np.log), "ln": (1, np.log),
    "log10": (1, np.log10), "sqrt": (1, np.sqrt), "floor": (1, np.floor), "ceil": (1, np.ceil),
    "sin": (1, np.sin), "cos": (1, np.cos), "tan": (1, np.tan), "asin": (1, np.arcsin),
    "acos": (1, np.arccos), "atan": (1, np.arctan), "sinh": (1, np.sinh), "cosh": (1, np.cosh),
    "tanh": (1, np.tanh), "pow": (2, np.power), "min": (2, np.minimum), "max": (2, np.maximum),
}  # fmt: skip
FUNCTIONS = frozenset(_FUNCTIONS) | {"piecewise"}
"""Names of the functions that a formula may call."""
DRAWS = {
    "binomial": 2, "poisson": 1, "uniform": 2, "normal": 2, "gamma": 2, "exponential": 1,
}  # fmt: skip
"""Random draws allowed in assignments of events, each with its number of arguments."""

_NUMBERS = {"pi": math.pi}
_WORDS = ("and", "if", "else", "not", "or", "True", "False")
RESERVED = frozenset({*_NUMBERS, *_WORDS, "None"})
"""Reserved words, which cannot be names of quantities."""

# Python's other keywords are allowed as names: a model may have a `lambda`. They are marked by a
# letter that no name of a model has while Python parses a formula.
_MARK = "\ua60c"
_KEYWORD = re.compile(rf"\b({'|'.join(sorted(set(keyword.kwlist) - set(_WORDS) - {'None'}))})\b")
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.UAdd, ast.USub, ast.Not, ast.And, ast.Or,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
)  # fmt: skip
_FOREIGN = {
    "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "~": "not", "=": "==",
    "//": "floor(A / B)", "%": "A - B * floor(A / B)", "?": "A if condition else B",
    "<<": "A * 2^B", ">>": "floor(A / 2^B)", "@": "*",
}  # fmt: skip
"""Operators of other languages, and what to write instead."""
_FOREIGN_FIRST = re.compile(r"&&?|\|\|?|!(?!=)|(?<![<>=!])=(?!=)|//|[%?~@]|<<|>>")
_NODES = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Load)


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A formula; two are equal if they differ only in spaces and parentheses.

    Operators are ``+ - * / ^ **``, the comparisons ``< <= > >= == !=``, also in chains such as
    ``1 < A < 3``, and ``and or not``; ``A if condition else B`` chooses a value, and so does
    ``piecewise(value, condition, ..., otherwise)``. Functions are ``abs exp log ln log10 sqrt floor
    ceil sin cos tan asin acos atan sinh cosh tanh pow min max``; ``log`` is the natural logarithm.
    ``pi`` and ``time`` have their meaning. Assignments of events may draw numbers besides:
    ``binomial(n, p)``, ``poisson(mean)``, ``uniform(low, high)``, ``normal(mean, deviation)``,
    ``gamma(shape, scale)``, ``exponential(rate)``.

    Parameters
    ----------
    text : str
        Such as ``"k * A / (K + A)"``.

    Raises
    ------
    ModelError
        It is not arithmetic; the message names the part that cannot be read.

    Examples
    --------
    >>> from ergode.models.expressions import Expression
    >>> Expression("v * A^2 / (K + A^2)").evaluate({"v": 2.0, "A": 3.0, "K": 9.0})
    1.0
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ModelError(f"a formula is {self.text!r}; expected a string")
        if _parse(self.text)[3] and not self._may_draw:
            raise ModelError(
                f"formula {quoted(self.text)} draws a random number; only assignments of events may"
            )

    @property
    def _may_draw(self) -> bool:
        return False

    @property
    def draws(self) -> bool:
        """Whether it calls one of `DRAWS`."""
        return _parse(self.text)[3]

    @classmethod
    def from_tree(cls, tree: ast.expr) -> Expression:
        """The formula of a syntax tree."""
        return cls(ast.unparse(tree))

    def __repr__(self) -> str:
        return f"Expression({_parse(self.text)[2]!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and _parse(self.text)[2] == _parse(other.text)[2]

    def __hash__(self) -> int:
        return hash(_parse(self.text)[2])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text,)  # compiled code is not pickled

    @property
    def tree(self) -> ast.expr:
        """Its syntax tree; must not be modified."""
        return _parse(self.text)[0]

    @property
    def names(self) -> frozenset[str]:
        """Names of the quantities it uses, including ``time``."""
        return _parse(self.text)[1]

    @cached_property
    def _code(self) -> Any:
        tree = ast.Expression(_Vectorise().visit(copied(self.tree)))
        try:
            return compile(ast.fix_missing_locations(tree), "<formula>", "eval")
        except (RecursionError, MemoryError):
            raise ModelError(f"formula {quoted(self.text)} is nested too deeply") from None

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Its value, given a number or an array for each of its names.

        Raises
        ------
        ModelError
            A name has no value.
        """
        known: dict[str, Any] = {name: function for name, (_, function) in _FUNCTIONS.items()}
        known |= {"__builtins__": {}, "where": np.where, "divide": np.divide}
        known |= {"land": np.logical_and, "lor": np.logical_or, "lnot": np.logical_not}
        for name in self.names:
            if name not in values:
                raise ModelError(f"formula {quoted(self.text)} uses '{name}', which has no value")
            value = values[name]
            known["_" + name] = value if isinstance(value, np.ndarray) else np.float64(value)
        try:
            with np.errstate(all="ignore"):
                value = eval(self._code, known)
        except (ArithmeticError, RecursionError, MemoryError):
            value = None
        if value is None or np.iscomplexobj(value):
            given = [
                f"{name} = {values[name]:g}"
                for name in sorted(self.names) if isinstance(values[name], int | float)
            ]  # fmt: skip
            where = f" at {', '.join(given)}" if given else ""
            raise ModelError(f"formula {quoted(self.text)} is not a real number{where}")
        return value if isinstance(value, np.ndarray) else float(value)

    def substitute(self, replacements: Mapping[str, Expression | float]) -> Expression:
        """The formula with some names replaced by formulas or numbers."""
        if not self.names & set(replacements):
            return self
        lengths = {
            name: len(new.text) for name, new in replacements.items() if isinstance(new, Expression)
        }
        used = (node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        if len(self.text) + sum(lengths.get(name, 0) for name in used) > _LONGEST:
            raise ModelError(
                f"formula {quoted(self.text)} has more than {_LONGEST} characters after the "
                "formulas that it uses are substituted"
            )
        return self.from_tree(_Substitute(replacements).visit(copied(self.tree)))


class Effect(Expression):
    """The formula of an event's assignment, which may call one of `DRAWS`.

    Examples
    --------
    >>> Effect("binomial(X, 0.5)").draws
    True
    """

    @property
    def _may_draw(self) -> bool:
        return True


def quoted(text: str) -> str:
    """A formula for messages; only the beginning of a long one."""
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]} ...'"


def number_or_expression(
    value: Any, what: str, kind: type[Expression] = Expression
) -> float | Expression:
    """A user's value of a quantity: a finite number, or a formula of the given class.

    Raises a ModelError if it is neither; the message begins with `what`.
    """
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        try:
            expression = kind(value)
        except ModelError as error:
            raise ModelError(f"{what}: {error}") from None
        constant = not (expression.names or expression.draws)
        return expression.evaluate({}) if constant else expression
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ModelError(f"{what} is {value!r}; expected a number or a formula") from None
    except OverflowError:
        raise ModelError(f"{what} is too large; expected a number or a formula") from None
    if isinstance(value, bool | np.bool_) or not math.isfinite(number):
        raise ModelError(f"{what} is {value!r}; expected a finite number or a formula")
    return number


def check_condition(
    expression: Expression, what: str, rules: Mapping[str, Expression] = MappingProxyType({})
) -> None:
    """Refuse a number where a condition is expected; rules may be conditions.

    Raises a ModelError if it is a number; the message begins with `what`.
    """
    if not is_condition(expression, rules):
        text = quoted(expression.text)
        raise ModelError(
            f"{what} {text} is a number; expected a condition such as '{expression.text:.60} > 0'"
        )


def is_condition(
    expression: Expression, rules: Mapping[str, Expression] = MappingProxyType({})
) -> bool:
    """Whether a formula is a comparison, a combination of conditions, or always true or false."""

    def holds(node: ast.expr) -> bool:
        if isinstance(node, ast.IfExp):
            return holds(node.body) and holds(node.orelse)
        if isinstance(node, ast.Name):
            return node.id in rules and holds(rules[node.id].tree)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not)
        if isinstance(node, ast.Constant):
            return node.value in (0.0, 1.0)
        return isinstance(node, ast.Compare | ast.BoolOp)

    return holds(expression.tree)


@lru_cache(maxsize=65536)
def _parse(text: str) -> tuple[ast.expr, frozenset[str], str, bool]:
    """Syntax tree, names, canonical text, and whether it draws."""
    try:
        # Parentheses allow line breaks in a formula.
        if not text.strip():
            raise SyntaxError
        marked = _KEYWORD.sub(rf"\1{_MARK}", text.replace("^", "**"))
        tree = _Normalise(text).visit(parse(f"({marked})", mode="eval").body)
        canonical = ast.unparse(tree)
    except ModelError:
        raise
    except (MemoryError, RecursionError):
        raise ModelError(
            f"formula {quoted(text)} is nested too deeply; group a long sum with parentheses"
        ) from None
    except (SyntaxError, ValueError, AttributeError, OverflowError):
        raise ModelError(
            f"{quoted(text)} is not a formula that can be read{_instead(text)}"
        ) from None
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called
    }
    draws = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DRAWS
        for node in ast.walk(tree)
    )
    return tree, frozenset(names), canonical, draws


def _instead(text: str) -> str:
    """The end of a message: the first operator of another language, and what to write instead."""
    found = _FOREIGN_FIRST.search(text)
    return "" if found is None else f": it has '{found[0]}'; write '{_FOREIGN[found[0]]}'"


class _Normalise(ast.NodeTransformer):
    """Refuses all but arithmetic; numbers become floats, ``piecewise`` becomes ``if``.

    A chain such as ``a < b < c`` becomes ``a < b and b < c``, and ``+a`` is ``a``.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def _refuse(self, what: str) -> ModelError:
        return ModelError(f"formula {quoted(self.text)} has {what}, which cannot be read")

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _OPERATORS):
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
            return self.visit(node.operand)
        if isinstance(node, _NODES):
            node = self.generic_visit(node)
            return _pairs(node) if isinstance(node, ast.Compare) else node
        if isinstance(node, ast.Constant):
            if isinstance(node.value, int | float):
                return ast.Constant(float(node.value))
            raise self._refuse(repr(node.value))
        if isinstance(node, ast.Name):
            if node.id in _NUMBERS:
                return ast.Constant(_NUMBERS[node.id])
            return ast.Name(node.id.removesuffix(_MARK), ast.Load())
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.operator | ast.unaryop):
            raise ModelError(f"formula {quoted(self.text)} cannot be read{_instead(self.text)}")
        try:
            found = f"'{ast.unparse(node)}'"
        except Exception:
            found = f"a {type(node).__name__}"
        raise self._refuse(found)

    def _call(self, node: ast.Call) -> ast.expr:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS and name not in DRAWS:
            raise ModelError(
                f"formula {quoted(self.text)} calls the unknown function '{name}'; expected one of "
                f"{', '.join(sorted(FUNCTIONS))}{did_you_mean(name, FUNCTIONS)}"
            )
        arguments = [self.visit(argument) for argument in node.args]
        if node.keywords:
            raise self._refuse(f"named arguments of {name}")
        if name == "piecewise":
            if len(arguments) < 3 or len(arguments) % 2 == 0:
                raise ModelError(
                    f"formula {quoted(self.text)}: piecewise takes pairs of a value and its "
                    "condition, then the value if no condition is true"
                )
            result: ast.expr = arguments[-1]
            for k in range(len(arguments) - 3, -1, -2):
                result = ast.IfExp(arguments[k + 1], arguments[k], result)
            return result
        if name in ("min", "max") and arguments and len(arguments) != 2:
            result = arguments[0]
            for argument in arguments[1:]:
                result = ast.Call(ast.Name(name, ast.Load()), [result, argument], [])
            return result
        expected = DRAWS[name] if name in DRAWS else _FUNCTIONS[name][0]
        if len(arguments) != expected:
            raise ModelError(
                f"formula {quoted(self.text)}: {name} takes {expected} argument(s), not "
                f"{len(arguments)}"
            )
        if name == "pow":
            return ast.BinOp(arguments[0], ast.Pow(), arguments[1])
        return ast.Call(ast.Name("log" if name == "ln" else name, ast.Load()), arguments, [])


def _pairs(node: ast.Compare) -> ast.expr:
    """A chain of comparisons as comparisons of two."""
    sides = [node.left, *node.comparators]
    pairs: list[ast.expr] = [
        ast.Compare(copied(sides[k]), [operator], [copied(sides[k + 1])])
        for k, operator in enumerate(node.ops)
    ]
    return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), pairs)


class _Vectorise(ast.NodeTransformer):
    """Replaces conditions by NumPy functions, which take arrays, and renames clashing names.

    All cases of a condition are evaluated. So a number over zero is no error in one of them, such
    as 0 / 0, which stands where an SBML ``piecewise`` has no ``otherwise``.
    """

    is_a_case = False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("_" + node.id, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        outer, self.is_a_case = self.is_a_case, True
        parts = [self.visit(one) for one in (node.test, node.body, node.orelse)]
        self.is_a_case = outer
        return _call("where", *parts)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        left, right = self.visit(node.left), self.visit(node.right)
        if self.is_a_case and isinstance(node.op, ast.Div):
            return _call("divide", left, right)
        return ast.BinOp(left, node.op, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _call("lnot", operand)
        return ast.UnaryOp(node.op, operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        name = "land" if isinstance(node.op, ast.And) else "lor"
        parts = [self.visit(value) for value in node.values]
        result = parts[0]
        for part in parts[1:]:
            result = _call(name, result, part)
        return result


class _Substitute(ast.NodeTransformer):
    def __init__(self, replacements: Mapping[str, Expression | float]) -> None:
        self.replacements = replacements

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        new = self.replacements.get(node.id)
        if new is None:
            return node
        return copied(new.tree) if isinstance(new, Expression) else ast.Constant(float(new))


def _call(name: str, *arguments: Any) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
