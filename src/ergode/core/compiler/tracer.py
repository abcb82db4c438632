"""Trace a user's formula into a program by calling it with symbolic arguments.

The formula is rewritten as for the compiler (see `bundle`), and called with symbols instead of
numbers.  The operations are recorded in order, so that the program and the compiled formula give
bitwise equal results.  Where the formula branches on a condition, it is called again for the other
branch.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from ergode.core.compiler.bundle import Collector, formula_text
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.programs import Operation
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError
from ergode.core.math import elementary, whole
from ergode.core.parsing import parse

_MOST_STEPS, _MOST_PATHS, _MOST_TURNS = 4096, 64, 4096
_MOST_POWER = 64


@dataclass(frozen=True, eq=False)
class Program:
    """A formula as `math.operations.run` reads it."""

    # [step_count, 4]: operation, and the registers of its operands.  Step k writes the k-th
    # register after the constants.
    steps: np.ndarray
    # [register_count]: the arguments, then the constants, then the results of the steps
    registers: np.ndarray
    outputs: np.ndarray  # [output_count]: registers of the results


class _UntraceableError(Exception):
    """The formula does something that a program cannot express."""


def traced(
    function: Callable[..., Any], lengths: Sequence[int | None], precision: Precision
) -> Program | None:
    """The program of a formula, or None if it has to be compiled.

    Parameters
    ----------
    function : function
        A user's function that returns a tuple of numbers.
    lengths : sequence of int or None
        For each argument: None for a number, else the length of the tuple.
    precision : {"float32", "float64"}
        Type of all arithmetic.
    """
    key = formula_text(function), tuple(lengths), precision
    if key not in _KNOWN:
        if len(_KNOWN) >= _KNOWN_MOST:
            _KNOWN.clear()
        _KNOWN[key] = _program_of(function, lengths, precision)
    return _KNOWN[key]


_KNOWN: dict[Any, Program | None] = {}
_KNOWN_MOST = 256


def _program_of(
    function: Callable[..., Any], lengths: Sequence[int | None], precision: Precision
) -> Program | None:
    collector = _WithoutElementary(precision)
    try:
        entry = collector.function(UserFunction(function))
        tree = parse("\n\n".join([*collector.constants, *collector.definitions.values()]))
        _check(tree)
        code = compile(ast.fix_missing_locations(_Literals().visit(tree)), "<formula>", "exec")
    except (_UntraceableError, ModelError):
        return None
    trace = _Trace(precision)
    arguments = tuple(
        trace.argument() if length is None else tuple(trace.argument() for _ in range(length))
        for length in lengths
    )
    names = trace.names()
    try:
        with np.errstate(all="ignore"):
            exec(code, names)
            outputs = trace.paths(lambda: names[entry](*arguments), [])
    except Exception:  # no program can be made; the compiler may still accept the formula
        return None
    return trace.program(outputs)


# ---- the text of a formula

_ELEMENTARY = {
    elementary.exp: Operation.FORMULA_EXP, elementary.expm1: Operation.FORMULA_EXPM1,
    elementary.log: Operation.FORMULA_LOG, elementary.log1p: Operation.FORMULA_LOG1P,
    elementary.sin: Operation.FORMULA_SIN, elementary.cos: Operation.FORMULA_COS,
    elementary.tan: Operation.FORMULA_TAN, elementary.tanh: Operation.FORMULA_TANH,
    elementary.power: Operation.FORMULA_POWER,
    whole.floor: Operation.FLOOR, whole.ceil: Operation.CEIL,
    whole.truncate: Operation.TRUNCATE, whole.nearest: Operation.NEAREST,
}  # fmt: skip


class _WithoutElementary(Collector):
    """Gathers a formula and its helpers; ergode's elementary functions stay names."""

    def __init__(self, precision: Precision) -> None:
        super().__init__(precision, {})
        self._taken |= {_INDEX, *(one.name for one in _ELEMENTARY.values())}

    def function(self, function: Any, wanted: str | None = None) -> str:
        if function is whole.index:
            return _INDEX
        known = None if isinstance(function, UserFunction) else _ELEMENTARY.get(function)
        return super().function(function, wanted) if known is None else known.name


def _check(tree: ast.Module) -> None:
    """Refuse loops that may not end, and powers that the compiler computes differently."""
    for node in ast.walk(tree):
        if isinstance(node, ast.While | ast.Assert | ast.Raise | ast.Try):
            raise _UntraceableError
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow):
            exponent = node.right if isinstance(node, ast.BinOp) else node.value
            if isinstance(exponent, ast.UnaryOp):
                exponent = exponent.operand
            if not isinstance(exponent, ast.Constant | ast.Name):
                raise _UntraceableError


class _Literals(ast.NodeTransformer):
    """Turns the literals of a formula into symbols, so that Python computes nothing."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, float):
            return node
        return ast.copy_location(ast.Call(ast.Name(_REAL, ast.Load()), [node], []), node)


_REAL = "<real>"  # no name that a formula may have
_INDEX = "INDEX"


# ---- symbols


class _Number:
    """A number that a formula computes."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: _Trace, place: int) -> None:
        self.trace, self.place = trace, place

    def __bool__(self) -> bool:
        return self.trace.holds(self)

    def __pow__(self, exponent: Any) -> Any:
        """A whole power, multiplied out as numba does."""
        if type(exponent) is not int or abs(exponent) > _MOST_POWER:
            raise _UntraceableError
        result, value, left = self.trace.number(1.0), self, abs(exponent)
        while left:
            if left & 1:
                result = self.trace.apply(Operation.MULTIPLY, result, value)
            left >>= 1
            value = self.trace.apply(Operation.MULTIPLY, value, value)
        one = self.trace.number(1.0)
        return result if exponent >= 0 else self.trace.apply(Operation.DIVIDE, one, result)

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        return self.trace.apply(Operation.NEGATE, self)

    def __abs__(self) -> Any:
        return self.trace.apply(Operation.ABS, self)


class _Truth(_Number):
    """A condition: one or zero."""

    def __and__(self, other: Any) -> Any:
        return self.trace.both(Operation.AND, self, other)

    def __or__(self, other: Any) -> Any:
        return self.trace.both(Operation.OR, self, other)


_COMPARED = {
    "lt": Operation.LESS, "le": Operation.LESS_EQUAL, "gt": Operation.GREATER,
    "ge": Operation.GREATER_EQUAL, "eq": Operation.EQUAL, "ne": Operation.NOT_EQUAL,
}  # fmt: skip
_OPERATORS = {
    "add": Operation.ADD, "sub": Operation.SUBTRACT, "mul": Operation.MULTIPLY,
    "truediv": Operation.DIVIDE, "mod": Operation.MODULO, "floordiv": Operation.FLOOR_DIVIDE,
}  # fmt: skip


def _method(operation: Operation, reflected: bool = False) -> Callable[..., Any]:
    def method(self: _Number, other: Any) -> Any:
        sides = (other, self) if reflected else (self, other)
        return self.trace.apply(operation, *sides)

    return method


for _name, _operation in (_COMPARED | _OPERATORS).items():
    setattr(_Number, f"__{_name}__", _method(_operation))
for _name, _operation in _OPERATORS.items():
    setattr(_Number, f"__r{_name}__", _method(_operation, reflected=True))

# Operations with at most one rounding; they are folded if all operands are constants.
_FOLDED: dict[Operation, Callable[..., Any]] = {
    Operation.ADD: operator.add, Operation.SUBTRACT: operator.sub,
    Operation.MULTIPLY: operator.mul, Operation.DIVIDE: operator.truediv,
    Operation.NEGATE: operator.neg,
    **{operation: getattr(operator, name) for name, operation in _COMPARED.items()},
}  # fmt: skip

_OF_MATH = {
    "sqrt": Operation.SQRT, "fabs": Operation.ABS, "asin": Operation.ASIN, "acos": Operation.ACOS,
    "atan": Operation.ATAN, "sinh": Operation.SINH, "cosh": Operation.COSH,
    "log10": Operation.FORMULA_LOG10, "asinh": Operation.ASINH, "acosh": Operation.ACOSH,
    "atanh": Operation.ATANH, "erf": Operation.ERF, "erfc": Operation.ERFC,
    "atan2": Operation.ATAN2, "hypot": Operation.HYPOT, "copysign": Operation.COPYSIGN,
}  # fmt: skip


_OF_LIBRARY = {*_OF_MATH.values()} - {Operation.SQRT, Operation.ABS, Operation.COPYSIGN}
_CONSTANTS = ("pi", "e", "tau", "inf", "nan")


class _Trace:
    """The operations of a formula so far.  Equal steps are recorded once."""

    def __init__(self, precision: Precision) -> None:
        self.precision = precision
        self.real = np.dtype(precision).type
        self.argument_count = 0
        self.nodes: list[Any] = []  # an argument, a constant, or an operation and its operands
        self.places: dict[Any, int] = {}
        self.forced: list[bool] = []
        self.asked: list[int] = []
        self.path_count = 0

    def names(self) -> dict[str, Any]:
        """Values of the names in the text of a formula."""
        own = {one.name: self._function(one) for one in _ELEMENTARY.values()}
        of_math = {name: self._function(one) for name, one in _OF_MATH.items()}
        constants = {name: self.number(getattr(math, name)) for name in _CONSTANTS}
        of_numpy = {"sqrt": of_math["sqrt"], "pi": constants["pi"], "e": constants["e"]}
        inner = {
            "abs": abs, "len": len, "sum": sum, "tuple": tuple, "range": _short_range,
            "enumerate": enumerate, "zip": zip, "float": self._float,
            "min": self._extreme(Operation.MINIMUM), "max": self._extreme(Operation.MAXIMUM),
        }  # fmt: skip
        return {
            "__builtins__": inner, "real": self.number, _REAL: self.number, **own,
            _INDEX: self._index,
            "math": SimpleNamespace(**of_math, **constants),
            "numpy": SimpleNamespace(**of_numpy, **{self.precision: self.number}),
            "fma": self._function(Operation.FMA),
            "device_function": lambda function: function,
        }  # fmt: skip

    def _function(self, operation: Operation) -> Callable[..., Any]:
        return lambda *operands: self.apply(operation, *operands)

    def _extreme(self, operation: Operation) -> Callable[..., Any]:
        def extreme(*values: Any) -> Any:
            if len(values) < 2:  # of a tuple
                raise _UntraceableError
            return reduce(self._function(operation), values)

        return extreme

    def _float(self, value: Any) -> Any:
        if self.precision == "float32":  # float is float64
            raise _UntraceableError
        return self.number(value)

    def _index(self, value: Any) -> int:
        """An integer, which must be known when the formula is traced."""
        node = self.nodes[value.place] if isinstance(value, _Number) else value
        if not isinstance(node, int | np.floating):
            raise _UntraceableError
        return int(node)

    # ---- values

    def argument(self) -> _Number:
        """The next argument."""
        self.argument_count += 1
        return _Number(self, self._place(("argument", self.argument_count), None))

    def number(self, value: Any) -> _Number:
        """A value in the working precision."""
        if isinstance(value, _Number):
            return _Number(self, value.place)
        if type(value) not in (int, float) and type(value) is not self.real:
            raise _UntraceableError
        constant = self.real(value)
        return _Number(self, self._place(("constant", constant.tobytes()), constant))

    def _operand(self, value: Any) -> _Number:
        """An operand: numba computes an integer with a float32 in float64."""
        mixed = isinstance(value, _Truth) or type(value) is int
        if mixed and self.precision == "float32":
            raise _UntraceableError
        return value if isinstance(value, _Number) else self.number(value)

    def apply(self, operation: Operation, *values: Any) -> _Number:
        """Result of an operation."""
        if sum(isinstance(value, _Truth | int) for value in values) == len(values):
            raise _UntraceableError  # numba stays with integers
        return self._apply(operation, [self._operand(value) for value in values])

    def both(self, operation: Operation, one: Any, other: Any) -> _Number:
        """Conditions joined by ``&`` or ``|``."""
        if not (isinstance(one, _Truth) and isinstance(other, _Truth)):
            raise _UntraceableError
        return self._apply(operation, [one, other])

    def _apply(self, operation: Operation, operands: list[_Number]) -> _Number:
        places = [operand.place for operand in operands]
        known = [self.nodes[place] for place in places]
        compared = Operation.LESS <= operation <= Operation.OR
        kind = _Truth if compared else _Number
        if operation in _FOLDED and all(isinstance(one, np.floating) for one in known):
            return kind(self, self.number(self.real(_FOLDED[operation](*known))).place)
        if operation in _OF_LIBRARY and all(isinstance(one, np.floating) for one in known):
            raise _UntraceableError  # the compiler folds constants with its own rounding
        key = (operation, *places)
        return kind(self, self._place(key, key))

    def _place(self, key: Any, node: Any) -> int:
        if key not in self.places:
            if len(self.nodes) > _MOST_STEPS:
                raise _UntraceableError
            self.places[key] = len(self.nodes)
            self.nodes.append(node)
        return self.places[key]

    # ---- conditions

    def holds(self, number: _Number) -> bool:
        """Whether a condition holds on this path."""
        if not isinstance(number, _Truth):
            number = self._apply(Operation.NOT_EQUAL, [number, self.number(0.0)])
        node = self.nodes[number.place]
        if isinstance(node, np.floating):
            return bool(node != 0.0)
        if number.place in self.asked:
            return self.forced[self.asked.index(number.place)]
        if len(self.asked) == len(self.forced):
            self.forced.append(True)
        self.asked.append(number.place)
        return self.forced[len(self.asked) - 1]

    def paths(self, call: Callable[[], Any], forced: list[bool]) -> list[int]:
        """Registers of the results, over all paths whose conditions begin with `forced`."""
        self.path_count += 1
        if self.path_count > _MOST_PATHS:
            raise _UntraceableError
        self.forced, self.asked = list(forced), []
        found = [self.number(value).place for value in call()]
        answers, asked = self.forced, self.asked
        for k in range(len(asked) - 1, len(forced) - 1, -1):
            other = self.paths(call, [*answers[:k], False])
            found = [
                one if one == two else self._place(key, key)
                for one, two in zip(found, other, strict=True)
                for key in [(Operation.CHOOSE, asked[k], one, two)]
            ]
        return found

    # ---- the program

    def program(self, outputs: list[int]) -> Program:
        """The steps that the results need."""
        needed, waiting = set[int](), list(outputs)
        while waiting:
            place = waiting.pop()
            if place not in needed:
                needed.add(place)
                if isinstance(self.nodes[place], tuple):
                    waiting += self.nodes[place][1:]
        constants = [p for p in sorted(needed) if isinstance(self.nodes[p], np.floating)]
        done = [p for p in sorted(needed) if isinstance(self.nodes[p], tuple)]
        arguments = range(self.argument_count)  # the first nodes are the arguments
        register = {place: k for k, place in enumerate([*arguments, *constants, *done])}
        steps = np.zeros((len(done), 4), np.uint32)
        for step, place in zip(steps, done, strict=True):
            operation, *operands = self.nodes[place]
            step[0] = operation
            step[1 : 1 + len(operands)] = [register[one] for one in operands]
        registers = np.zeros(len(register), self.real)
        for place in constants:
            registers[register[place]] = self.nodes[place]
        return Program(steps, registers, np.array([register[p] for p in outputs], np.uint32))


def _short_range(*bounds: Any) -> range:
    values = range(*bounds)
    if len(values) > _MOST_TURNS:
        raise _UntraceableError
    return values
