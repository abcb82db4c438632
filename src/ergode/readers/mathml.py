"""Conversion of SBML formulas: MathML, parsed by libsbml, to `Expression`, and back.

Numbers are written without libsbml: it writes 15 significant digits, and a float64 needs up to 17.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from ergode.core.errors import ModelError
from ergode.models.expressions import TIME, Effect, Expression

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
AVOGADRO = 6.02214179e23
"""Value of SBML's symbol ``avogadro`` [1/mol] (Level 3, section 3.4.6)."""

RATE_OF = "rate_of__"
"""What begins a name that stands for the rate of change of the rest of it."""
DELAYED = "delayed__"
"""What begins a name that stands for a formula with a delay; see `MathReader.delayed`."""
_LARGEST_FACTORIAL = 170  # of a float64
_LONGEST_CHAIN = 100
_LARGEST = 200_000  # largest formula after inlining of calls [nodes]
_SYMBOL_OF_TIME = "http://www.sbml.org/sbml/symbols/time"

# key: name in ergode; value: name in MathML
_FUNCTIONS = {
    "abs": "abs", "exp": "exp", "log": "ln", "floor": "floor", "ceil": "ceiling",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
}  # fmt: skip
_NEWER_FUNCTIONS = ("min", "max")
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "plus", ast.Sub: "minus", ast.Mult: "times", ast.Div: "divide", ast.Pow: "power",
    ast.Lt: "lt", ast.LtE: "leq", ast.Gt: "gt", ast.GtE: "geq", ast.Eq: "eq", ast.NotEq: "neq",
    ast.And: "and", ast.Or: "or",
}  # fmt: skip
_CONDITIONS = (ast.Compare, ast.BoolOp, ast.IfExp, ast.Constant)

# MathML functions without a counterpart in ergode; `{0}` and `{1}` are the arguments.
_REWRITTEN = {
    "SEC": "1 / cos({0})", "CSC": "1 / sin({0})", "COT": "1 / tan({0})",
    "SECH": "1 / cosh({0})", "CSCH": "1 / sinh({0})", "COTH": "1 / tanh({0})",
    "ARCSEC": "acos(1 / {0})", "ARCCSC": "asin(1 / {0})", "ARCCOT": "atan(1 / {0})",
    "ARCSINH": "log({0} + sqrt({0}^2 + 1))", "ARCCOSH": "log({0} + sqrt({0}^2 - 1))",
    "ARCTANH": "log((1 + {0}) / (1 - {0})) / 2", "ARCCOTH": "log(({0} + 1) / ({0} - 1)) / 2",
    "ARCSECH": "log(1 / {0} + sqrt(1 / {0}^2 - 1))",
    "ARCCSCH": "log(1 / {0} + sqrt(1 / {0}^2 + 1))",
    "QUOTIENT": "floor({0} / {1}) if {0} / {1} >= 0 else ceil({0} / {1})",
    "REM": "{0} - {1} * (floor({0} / {1}) if {0} / {1} >= 0 else ceil({0} / {1}))",
}  # fmt: skip

# Draws of the package `distrib`, by the number of their arguments.
_DRAWN = {
    "NORMAL": {2: "normal({0}, {1})"}, "UNIFORM": {2: "uniform({0}, {1})"},
    "POISSON": {1: "poisson({0})"}, "BINOMIAL": {2: "binomial({0}, {1})"},
    "BERNOULLI": {1: "binomial(1, {0})"}, "EXPONENTIAL": {1: "exponential({0})"},
    "GAMMA": {2: "gamma({0}, {1})"}, "CHISQUARE": {1: "gamma({0} / 2, 2)"},
    "LOGNORMAL": {2: "exp(normal({0}, {1}))"}, "RAYLEIGH": {1: "{0} * sqrt(2 * exponential(1))"},
    "CAUCHY": {
        1: "{0} * tan(3.141592653589793 * (uniform(0, 1) - 0.5))",
        2: "{0} + {1} * tan(3.141592653589793 * (uniform(0, 1) - 0.5))",
    },
    "LAPLACE": {
        1: "{0} * (exponential(1) - exponential(1))",
        2: "{0} + {1} * (exponential(1) - exponential(1))",
    },
}  # fmt: skip


class MathReader:
    """Converts expression trees of libsbml to formulas; calls of its `functions` are inlined."""

    def __init__(self, libsbml: Any, functions: Mapping[str, Any]) -> None:
        self.functions = functions
        self.delayed: dict[str, tuple[Expression, Expression]] = {}  # formulas and their delays
        self._calling: list[str] = []
        self._left = _LARGEST
        kinds: dict[int, Callable[[Any, Any], ast.expr]] = {}
        for name, operator in (("PLUS", ast.Add), ("TIMES", ast.Mult)):
            kinds[getattr(libsbml, f"AST_{name}")] = self._many(operator)
        for name in ("LT", "LEQ", "GT", "GEQ", "EQ", "NEQ"):
            kinds[getattr(libsbml, f"AST_RELATIONAL_{name}")] = self._relation(name.lower())
        for here, there in {**_FUNCTIONS, "min": "min", "max": "max"}.items():
            kinds[getattr(libsbml, f"AST_FUNCTION_{there.upper()}")] = self._of(
                partial(_called, here)
            )
        for name, template in _REWRITTEN.items():
            kinds[getattr(libsbml, f"AST_FUNCTION_{name}")] = self._rewritten({2: template})
        for name, templates in _DRAWN.items():
            kind = getattr(libsbml, f"AST_DISTRIB_FUNCTION_{name}", None)
            if kind is not None:
                kinds[kind] = self._rewritten(templates, name.lower())
        kinds |= {
            libsbml.AST_MINUS: self._of(_minus),
            libsbml.AST_DIVIDE: self._of(lambda a, b: ast.BinOp(a, ast.Div(), b)),
            libsbml.AST_POWER: self._of(_power),
            libsbml.AST_FUNCTION_POWER: self._of(_power),
            libsbml.AST_FUNCTION_ROOT: self._of(_root),
            libsbml.AST_FUNCTION_LOG: self._of(_log),
            libsbml.AST_FUNCTION_FACTORIAL: self._of(_factorial),
            libsbml.AST_FUNCTION_PIECEWISE: self._piecewise,
            libsbml.AST_FUNCTION: self._call,
            libsbml.AST_LOGICAL_AND: self._logical(ast.And(), 1.0),
            libsbml.AST_LOGICAL_OR: self._logical(ast.Or(), 0.0),
            libsbml.AST_LOGICAL_XOR: self._xor,
            libsbml.AST_LOGICAL_NOT: self._of(_not),
            libsbml.AST_LOGICAL_IMPLIES: self._of(lambda a, b: ast.BoolOp(ast.Or(), [_not(a), b])),
            libsbml.AST_INTEGER: lambda node, bound: _number(node.getInteger()),
            libsbml.AST_REAL: lambda node, bound: _number(node.getReal()),
            libsbml.AST_REAL_E: _scientific,
            libsbml.AST_RATIONAL: _rational,
            libsbml.AST_NAME: self._name,
            libsbml.AST_FUNCTION_RATE_OF: self._rate_of,
            libsbml.AST_FUNCTION_DELAY: self._delayed,
            libsbml.AST_NAME_TIME: lambda node, bound: ast.Name(TIME, ast.Load()),
            libsbml.AST_NAME_AVOGADRO: lambda node, bound: _number(AVOGADRO),
            libsbml.AST_CONSTANT_PI: lambda node, bound: _number(math.pi),
            libsbml.AST_CONSTANT_E: lambda node, bound: _number(math.e),
            libsbml.AST_CONSTANT_TRUE: lambda node, bound: _number(1.0),
            libsbml.AST_CONSTANT_FALSE: lambda node, bound: _number(0.0),
        }
        self._kinds = kinds
        self._named = {
            getattr(libsbml, name): name.removeprefix("AST_").removeprefix("FUNCTION_").lower()
            for name in dir(libsbml)
            if name.startswith("AST_")
        }

    def expression(
        self,
        node: Any,
        renamed: Mapping[str, str] | None = None,
        kind: type[Expression] = Expression,
    ) -> Expression:
        """Convert a tree to a formula of a kind, with some names replaced.

        Raises a ModelError if the tree has an element that formulas do not support.
        """
        self._left = _LARGEST
        bound = {old: ast.Name(new, ast.Load()) for old, new in (renamed or {}).items()}  # type: dict[str, ast.expr]
        return kind.from_tree(self._visit(node, bound))

    def _visit(self, node: Any, bound: Mapping[str, ast.expr]) -> ast.expr:
        self._spend(1)
        kind = self._kinds.get(node.getType())
        if kind is None:
            what = self._named.get(node.getType(), "something")
            raise ModelError(f"its formula uses '{what}', which ergode does not support")
        return kind(node, bound)

    def _spend(self, count: int) -> None:
        """Bound the size of a formula: nested calls can grow exponentially when inlined."""
        self._left -= count
        if self._left < 0:
            raise ModelError(f"its formula, written out, has more than {_LARGEST} parts")

    def _children(self, node: Any, bound: Mapping[str, ast.expr]) -> list[ast.expr]:
        return [self._visit(node.getChild(i), bound) for i in range(node.getNumChildren())]

    def _many(self, operator: type[ast.operator]) -> Callable[[Any, Any], ast.expr]:
        neutral = 0.0 if operator is ast.Add else 1.0

        def read(node: Any, bound: Any) -> ast.expr:
            # (a + b) + c is flattened to a + b + c: a chain of thousands of terms gives no deep
            # tree.
            parts: list[Any] = []
            spine = node
            while spine.getType() == node.getType() and spine.getNumChildren():
                count = spine.getNumChildren()
                parts += [spine.getChild(i) for i in range(count - 1, 0, -1)]
                spine = spine.getChild(0)
            if spine.getType() != node.getType():
                parts.append(spine)
            operands = [self._visit(part, bound) for part in reversed(parts)]
            return joined(operands, operator) if operands else _number(neutral)

        return read

    def _relation(self, name: str) -> Callable[[Any, Any], ast.expr]:
        operator = next(kind for kind, there in _OPERATORS.items() if there == name)

        def read(node: Any, bound: Any) -> ast.expr:
            sides = self._children(node, bound)
            if len(sides) < 2:
                raise ModelError(f"its formula has '{name}' with fewer than two sides")
            pairs: list[ast.expr] = [
                ast.Compare(left, [operator()], [right])  # type: ignore[list-item]
                for left, right in zip(sides[:-1], sides[1:], strict=True)
            ]
            return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), pairs)

        return read

    def _of(self, build: Callable[..., ast.expr]) -> Callable[[Any, Any], ast.expr]:
        """A reader of an element that depends only on its arguments."""
        return lambda node, bound: build(*self._children(node, bound))

    def _rewritten(
        self, templates: Mapping[int, str], draw: str = ""
    ) -> Callable[[Any, Any], ast.expr]:
        """A reader that fills in the template for a number of arguments, or the only one."""

        def read(node: Any, bound: Any) -> ast.expr:
            parts = self._children(node, bound)
            if draw and len(parts) not in templates:
                raise ModelError(
                    f"its formula has '{draw}' with {len(parts)} argument(s), which ergode does "
                    f"not support; it takes {' or '.join(map(str, templates))} (a truncated "
                    "distribution has more)"
                )
            formula = Effect(
                templates.get(len(parts), next(iter(templates.values()))).format("_0", "_1")
            )
            return formula.substitute(
                {f"_{i}": Effect.from_tree(tree) for i, tree in enumerate(parts)}
            ).tree

        return read

    def _piecewise(self, node: Any, bound: Any) -> ast.expr:
        parts = self._children(node, bound)
        if len(parts) % 2 == 0:  # without `otherwise`, it has no value where no condition holds
            parts.append(ast.BinOp(_number(0.0), ast.Div(), _number(0.0)))
        result = parts[-1]
        for k in range(len(parts) - 3, -1, -2):
            result = ast.IfExp(parts[k + 1], parts[k], result)
        return result

    def _logical(self, operator: ast.boolop, neutral: float) -> Callable[[Any, Any], ast.expr]:
        def read(node: Any, bound: Any) -> ast.expr:
            parts = self._children(node, bound)
            if len(parts) > 1:
                return ast.BoolOp(operator, parts)
            return parts[0] if parts else _number(neutral)

        return read

    def _xor(self, node: Any, bound: Any) -> ast.expr:
        result: ast.expr = _number(0.0)
        for k, part in enumerate(self._children(node, bound)):
            if k == 0:
                result = part
                continue
            self._spend(sum(1 for _ in ast.walk(result)))
            one = ast.BoolOp(ast.And(), [result, _not(part)])
            other = ast.BoolOp(ast.And(), [_not(result), part])
            result = ast.BoolOp(ast.Or(), [one, other])
        return result

    def _name(self, node: Any, bound: Mapping[str, ast.expr]) -> ast.expr:
        name = node.getName()
        given = bound.get(name)
        if given is None:
            return ast.Name(name, ast.Load())
        if not isinstance(given, ast.Name | ast.Constant):
            self._spend(sum(1 for _ in ast.walk(given)))
        return given

    def _rate_of(self, node: Any, bound: Mapping[str, ast.expr]) -> ast.expr:
        (of,) = self._children(node, bound)
        if not isinstance(of, ast.Name):
            raise ModelError("its formula has a rateOf that is not of a name")
        return ast.Name(RATE_OF + of.id, ast.Load())

    def _delayed(self, node: Any, bound: Any) -> ast.expr:
        formula, delay = map(Expression.from_tree, self._children(node, bound))
        name = f"{DELAYED}{len(self.delayed)}"
        self.delayed[name] = formula, delay
        return ast.Name(name, ast.Load())

    def _call(self, node: Any, bound: Any) -> ast.expr:
        name = node.getName()
        definition = self.functions.get(name)
        if definition is None:
            raise ModelError(f"its formula calls '{name}', which is not defined")
        if name in self._calling:
            raise ModelError(f"its formula calls '{name}', which calls itself")
        arguments = self._children(node, bound)
        count = definition.getNumChildren() - 1
        if len(arguments) != count:
            raise ModelError(
                f"its formula calls '{name}' with {len(arguments)} argument(s); it takes {count}"
            )
        if any(Effect.from_tree(argument).draws for argument in arguments):
            raise ModelError(f"its formula calls '{name}' with a random number")
        inner = {definition.getChild(i).getName(): a for i, a in enumerate(arguments)}
        self._calling.append(name)
        try:
            return self._visit(definition.getChild(count), inner)
        finally:
            self._calling.pop()


def joined(parts: list[ast.expr], operator: type[ast.operator]) -> ast.expr:
    """A sum or product: left-associative, or a balanced tree if that would be too deep."""
    if len(parts) <= _LONGEST_CHAIN:
        result = parts[0]
        for part in parts[1:]:
            result = ast.BinOp(result, operator(), part)
        return result
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        last = parts[-1:] if len(parts) % 2 else []
        parts = [*(ast.BinOp(a, operator(), b) for a, b in pairs), *last]
    return parts[0]


def _called(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _not(part: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), part)


def _minus(first: ast.expr, *second: ast.expr) -> ast.expr:
    return ast.BinOp(first, ast.Sub(), *second) if second else ast.UnaryOp(ast.USub(), first)


def _power(base: ast.expr, exponent: ast.expr) -> ast.expr:
    return ast.BinOp(base, ast.Pow(), exponent)


def _root(degree: ast.expr, radicand: ast.expr) -> ast.expr:
    if isinstance(degree, ast.Constant) and degree.value == 2:
        return _called("sqrt", radicand)
    return _power(radicand, ast.BinOp(_number(1.0), ast.Div(), degree))


def _factorial(of: ast.expr) -> ast.expr:
    match of:
        case ast.Constant(float(n)) if n.is_integer() and n <= _LARGEST_FACTORIAL:
            return _number(math.factorial(int(n)))
    raise ModelError(
        f"its formula has a factorial that is not of a whole number up to {_LARGEST_FACTORIAL}"
    )


def _log(*parts: ast.expr) -> ast.expr:
    *base, argument = parts
    if not base or (isinstance(base[0], ast.Constant) and base[0].value == 10):
        return _called("log10", argument)
    return ast.BinOp(_called("log", argument), ast.Div(), _called("log", base[0]))


def _number(value: float) -> ast.expr:
    value = float(value)
    if not math.isfinite(value):
        raise ModelError(f"its formula has the number {value}; expected a finite one")
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _scientific(node: Any, bound: Any) -> ast.expr:
    # libsbml multiplies by a power of ten, which is wrong in the last digit.
    return _number(float(f"{node.getMantissa()!r}e{node.getExponent()}"))


def _rational(node: Any, bound: Any) -> ast.expr:
    return ast.BinOp(_number(node.getNumerator()), ast.Div(), _number(node.getDenominator()))


# ---- writing


def needs_newer(expression: Expression) -> bool:
    """Whether a formula needs Level 3 Version 2: min, max, or conditions used as numbers."""
    tree = expression.tree
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    if any(isinstance(called, ast.Name) and called.id in _NEWER_FUNCTIONS for called in calls):
        return True
    numbers = [
        side
        for node in ast.walk(tree)
        for side in (
            (node.left, node.right) if isinstance(node, ast.BinOp)
            else node.args if isinstance(node, ast.Call)
            else (node.left, *node.comparators) if isinstance(node, ast.Compare)
            else (node.operand,)
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
            else ()
        )
    ]  # fmt: skip
    return any(isinstance(side, ast.Compare | ast.BoolOp) for side in numbers)


def write(parent: Element, expression: Expression, *, condition: bool = False) -> None:
    """Append a formula to an element as ``math``.

    Raises a ModelError if a condition is required, but the formula is a number.
    """
    element = SubElement(parent, "math", xmlns=NAMESPACE)
    _write(element, expression.tree, condition)


def _write(parent: Element, node: ast.expr, condition: bool = False) -> None:
    if condition and not (
        isinstance(node, _CONDITIONS)
        or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    ):
        raise ModelError(f"'{ast.unparse(node)}' is a number; SBML needs a condition there")
    match node:
        case ast.Constant(value) if condition:
            SubElement(parent, "true" if value else "false")
        case ast.Constant(float(value)):
            # Without an exponent: some programs read MathML's exponent notation inexactly.
            text = format(Decimal(repr(value)), "f")
            whole = float(value).is_integer() and abs(value) < 2**31
            if whole:
                SubElement(parent, "cn", type="integer").text = f"{int(value)}"
            else:
                SubElement(parent, "cn").text = text
        case ast.Name(name) if name == TIME:
            symbol = SubElement(parent, "csymbol", encoding="text", definitionURL=_SYMBOL_OF_TIME)
            symbol.text = name
        case ast.Name(name):
            SubElement(parent, "ci").text = name
        case ast.BinOp(left, operator, right):
            _apply(parent, _OPERATORS[type(operator)], [left, right])
        case ast.UnaryOp(ast.USub(), operand):
            _apply(parent, "minus", [operand])
        case ast.UnaryOp(ast.Not(), operand):
            _apply(parent, "not", [operand], True)
        case ast.BoolOp(operator, values):
            _apply(parent, _OPERATORS[type(operator)], values, True)
        case ast.Compare(left, [operator], [right]):
            _apply(parent, _OPERATORS[type(operator)], [left, right])
        case ast.IfExp():
            _choice(parent, node, condition)
        case ast.Call(ast.Name("sqrt"), arguments):
            _apply(parent, "root", arguments)
        case ast.Call(ast.Name("log10"), arguments):
            _apply(parent, "log", arguments)
        case ast.Call(ast.Name(name), arguments):
            _apply(parent, _FUNCTIONS.get(name, name), arguments)
        case _:
            raise ModelError(f"'{ast.unparse(node)}' cannot be written as MathML")


def _apply(
    parent: Element, operator: str, arguments: list[ast.expr], condition: bool = False
) -> None:
    element = SubElement(parent, "apply")
    SubElement(element, operator)
    for argument in arguments:
        _write(element, argument, condition)


def _choice(parent: Element, node: ast.expr, condition: bool) -> None:
    element = SubElement(parent, "piecewise")
    while isinstance(node, ast.IfExp):
        piece = SubElement(element, "piece")
        _write(piece, node.body, condition)
        _write(piece, node.test, True)
        node = node.orelse
    _write(SubElement(element, "otherwise"), node, condition)
