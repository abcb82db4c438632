"""Formulas inside a kernel: programs for a stack of numbers.

A rate law, a trigger or an assignment becomes a short list of operations in postfix order, and one
compiled function runs any of them: no compile that grows with the model.  The same list, run on
intervals, gives bounds that hold for all states and times in between (R. E. Moore, "Interval
Analysis", 1966): what rejection methods need of a rate they know nothing else about.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np

from ergode.core.compiler.language import noinline, noinline_cpu, real

INFINITY = float("inf")


class Operation(IntEnum):
    """What a step of a program does."""

    CONSTANT = 0
    VARIABLE = 1
    PARAMETER = 2
    TIME = 3
    CHOOSE = 4
    # of one number
    NEGATE = 10
    NOT = 11
    ABS = 12
    EXP = 13
    LOG = 14
    LOG10 = 15
    SQRT = 16
    FLOOR = 17
    CEIL = 18
    SIN = 19
    COS = 20
    TAN = 21
    ASIN = 22
    ACOS = 23
    ATAN = 24
    SINH = 25
    COSH = 26
    TANH = 27
    # of two
    ADD = 40
    SUBTRACT = 41
    MULTIPLY = 42
    DIVIDE = 43
    POWER = 44
    LESS = 45
    LESS_EQUAL = 46
    GREATER = 47
    GREATER_EQUAL = 48
    EQUAL = 49
    NOT_EQUAL = 50
    AND = 51
    OR = 52
    MINIMUM = 53
    MAXIMUM = 54


_OPERATORS: dict[type[ast.AST], Operation] = {
    ast.Add: Operation.ADD, ast.Sub: Operation.SUBTRACT, ast.Mult: Operation.MULTIPLY,
    ast.Div: Operation.DIVIDE, ast.Pow: Operation.POWER, ast.USub: Operation.NEGATE,
    ast.Not: Operation.NOT, ast.Lt: Operation.LESS, ast.LtE: Operation.LESS_EQUAL,
    ast.Gt: Operation.GREATER, ast.GtE: Operation.GREATER_EQUAL, ast.Eq: Operation.EQUAL,
    ast.NotEq: Operation.NOT_EQUAL, ast.And: Operation.AND, ast.Or: Operation.OR,
}  # fmt: skip
_NAMES = {"min": Operation.MINIMUM, "max": Operation.MAXIMUM}
_FUNCTIONS = {
    **{item.name.lower(): item for item in Operation if 12 <= item < 40},
    **_NAMES,
}

Step = tuple[Operation, int | float]


def steps_of(tree: ast.expr, name: Callable[[str], Sequence[Step]]) -> list[Step]:
    """Postfix steps of an expression.

    Parameters
    ----------
    tree : ast.expr
        Of an `Expression`.
    name : function
        Steps that put the value of a name on the stack.
    """
    steps: list[Step] = []

    def emit(node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, float)
            steps.append((Operation.CONSTANT, node.value))
        elif isinstance(node, ast.Name):
            steps.extend(name(node.id))
        elif isinstance(node, ast.BinOp):
            emit(node.left)
            emit(node.right)
            steps.append((_OPERATORS[type(node.op)], 0))
        elif isinstance(node, ast.UnaryOp):
            emit(node.operand)
            if not isinstance(node.op, ast.UAdd):
                steps.append((_OPERATORS[type(node.op)], 0))
        elif isinstance(node, ast.BoolOp):
            emit(node.values[0])
            for value in node.values[1:]:
                emit(value)
                steps.append((_OPERATORS[type(node.op)], 0))
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for k, operator in enumerate(node.ops):
                emit(sides[k])
                emit(sides[k + 1])
                steps.append((_OPERATORS[type(operator)], 0))
                if k:
                    steps.append((Operation.AND, 0))
        elif isinstance(node, ast.IfExp):
            emit(node.test)
            emit(node.body)
            emit(node.orelse)
            steps.append((Operation.CHOOSE, 0))
        else:
            assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            for argument in node.args:
                emit(argument)
            steps.append((_FUNCTIONS[node.func.id], 0))

    emit(tree)
    return steps


def depth_of(steps: Sequence[Step]) -> int:
    """Most numbers that are on the stack at once."""
    depth = most = 0
    for operation, _ in steps:
        if operation < Operation.CHOOSE:
            depth += 1
        elif operation == Operation.CHOOSE:
            depth -= 2
        elif operation >= Operation.ADD:
            depth -= 1
        most = max(most, depth)
    return most


# ---- device functions: numbers

CONSTANT, VARIABLE, PARAMETER, TIME = 0, 1, 2, 3
CHOOSE, FIRST_OF_TWO = 4, 40


@noinline
def _of_one(operation, a):
    """An operation on one number."""
    if operation == 10:
        return -a
    if operation == 11:
        return real(1.0) if a == 0.0 else real(0.0)
    if operation == 12:
        return math.fabs(a)
    if operation == 13:
        return math.exp(a)
    if operation == 14:
        return math.log(a) if a > 0.0 else real(-INFINITY)
    if operation == 15:
        return math.log10(a) if a > 0.0 else real(-INFINITY)
    if operation == 16:
        return math.sqrt(a)
    if operation == 17:
        return math.floor(a) * real(1.0)
    if operation == 18:
        return math.ceil(a) * real(1.0)
    if operation == 19:
        return math.sin(a)
    if operation == 20:
        return math.cos(a)
    if operation == 21:
        return math.tan(a)
    if operation == 22:
        return math.asin(a)
    if operation == 23:
        return math.acos(a)
    if operation == 24:
        return math.atan(a)
    if operation == 25:
        return math.sinh(a)
    if operation == 26:
        return math.cosh(a)
    return math.tanh(a)


def _power(a, b):
    """A power; small whole ones by multiplication."""
    if b == 1.0:
        return a
    if b == 2.0:
        return a * a
    if b == 3.0:
        return a * a * a
    if b == 4.0:
        return (a * a) * (a * a)
    return math.pow(a, b)


def _truth(condition):
    return real(1.0) if condition else real(0.0)


@noinline
def _of_two(operation, a, b):
    """An operation on two numbers."""
    if operation == 40:
        return a + b
    if operation == 41:
        return a - b
    if operation == 42:
        return a * b
    if operation == 43:
        return a / b
    if operation == 44:
        return _power(a, b)
    if operation == 45:
        return _truth(a < b)
    if operation == 46:
        return _truth(a <= b)
    if operation == 47:
        return _truth(a > b)
    if operation == 48:
        return _truth(a >= b)
    if operation == 49:
        return _truth(a == b)
    if operation == 50:
        return _truth(a != b)
    if operation == 51:
        return _truth(a != 0.0 and b != 0.0)
    if operation == 52:
        return _truth(a != 0.0 or b != 0.0)
    if operation == 53:
        return min(a, b)
    return max(a, b)


def row_of(w):
    """Row of the state that worker `w` reads. Thread groups bind another."""
    return w


@noinline_cpu
def evaluate(program, w, t, point, net, work):
    """Value of a program for the state of worker `w`."""
    stack = work.stack
    top = -1
    for i in range(net.program_starts[program], net.program_starts[program + 1]):
        operation = net.operations[i]
        argument = net.arguments[i]
        if operation < CHOOSE:
            top += 1
            if operation == CONSTANT:
                stack[w, top] = net.constants[argument]
            elif operation == VARIABLE:
                stack[w, top] = work.x[row_of(w), argument]
            elif operation == PARAMETER:
                stack[w, top] = net.parameters[point, argument]
            else:
                stack[w, top] = t
        elif operation >= FIRST_OF_TWO:
            top -= 1
            stack[w, top] = _of_two(operation, stack[w, top], stack[w, top + 1])
        elif operation == CHOOSE:
            top -= 2
            if stack[w, top] != 0.0:
                stack[w, top] = stack[w, top + 1]
            else:
                stack[w, top] = stack[w, top + 2]
        else:
            stack[w, top] = _of_one(operation, stack[w, top])
    return stack[w, 0]


# ---- device functions: intervals


@noinline
def _bounds_of_one(operation, low, high):
    """Bounds of an operation on one number between bounds."""
    if operation == 10:
        return -high, -low
    if operation == 11:
        return _truth(low == 0.0 and high == 0.0), _truth(low <= 0.0 <= high)
    if operation == 12:
        least = real(0.0) if low <= 0.0 <= high else min(math.fabs(low), math.fabs(high))
        return least, max(math.fabs(low), math.fabs(high))
    if operation == 19 or operation == 20:
        # A sine is monotonic between its extremes; a cosine is one a quarter of a turn away.
        shift = real(0.0) if operation == 19 else real(0.5 * math.pi)
        a, b = low + shift, high + shift
        top = math.ceil((a - 0.5 * math.pi) / (2.0 * math.pi)) * (2.0 * math.pi) + 0.5 * math.pi
        bottom = math.ceil((a + 0.5 * math.pi) / (2.0 * math.pi)) * (2.0 * math.pi) - 0.5 * math.pi
        ends = _of_one(19, a), _of_one(19, b)
        return (
            real(-1.0) if bottom <= b else min(ends[0], ends[1]),
            real(1.0) if top <= b else max(ends[0], ends[1]),
        )
    if operation == 21:
        return real(-INFINITY), real(INFINITY)
    a, b = _of_one(operation, low), _of_one(operation, high)
    if not (a == a and b == b):
        return real(-INFINITY), real(INFINITY)
    if operation == 26:
        return (real(1.0) if low <= 0.0 <= high else min(a, b)), max(a, b)
    return min(a, b), max(a, b)


def bounds_of_product(a, b, c, d):
    """Bounds of a product; zero times infinity is zero, for one factor is exactly that."""
    p = real(0.0) if a == 0.0 or c == 0.0 else a * c
    q = real(0.0) if a == 0.0 or d == 0.0 else a * d
    r = real(0.0) if b == 0.0 or c == 0.0 else b * c
    s = real(0.0) if b == 0.0 or d == 0.0 else b * d
    return min(min(p, q), min(r, s)), max(max(p, q), max(r, s))


def _bounds_of_power(a, b, c, d):
    if c == d and c == 2.0:
        low = real(0.0) if a <= 0.0 <= b else min(a * a, b * b)
        return low, max(a * a, b * b)
    if a >= 0.0:
        p, q, r, s = _power(a, c), _power(a, d), _power(b, c), _power(b, d)
        return min(min(p, q), min(r, s)), max(max(p, q), max(r, s))
    if c == d and c == math.floor(c) and c > 0.0 and math.floor(0.5 * c) * 2.0 != c:
        return _power(a, c), _power(b, c)
    if c == d and c == math.floor(c) and c > 0.0:
        most = max(_power(a, c), _power(b, c))
        return (real(0.0) if b >= 0.0 else min(_power(a, c), _power(b, c))), most
    return real(-INFINITY), real(INFINITY)


@noinline
def _bounds_of_two(operation, a, b, c, d):
    """Bounds of an operation on numbers in [a, b] and [c, d]."""
    if operation == 40:
        return a + c, b + d
    if operation == 41:
        return a - d, b - c
    if operation == 42:
        return bounds_of_product(a, b, c, d)
    if operation == 43:
        if c == 0.0 and d == 0.0:
            return a / c, b / d
        if c <= 0.0 <= d:
            if c == 0.0 and d > 0.0 and a >= 0.0:
                return a / d, real(INFINITY)
            return real(-INFINITY), real(INFINITY)
        return bounds_of_product(a, b, 1.0 / d, 1.0 / c)
    if operation == 44:
        return _bounds_of_power(a, b, c, d)
    if operation == 45:
        return _truth(b < c), _truth(a < d)
    if operation == 46:
        return _truth(b <= c), _truth(a <= d)
    if operation == 47:
        return _truth(a > d), _truth(b > c)
    if operation == 48:
        return _truth(a >= d), _truth(b >= c)
    if operation == 49:
        return _truth(a == b == c == d), _truth(a <= d and c <= b)
    if operation == 50:
        return _truth(a > d or c > b), _truth(not (a == b == c == d))
    if operation == 51:
        return min(a, c), min(b, d)
    if operation == 52 or operation == 54:
        return max(a, c), max(b, d)
    return min(a, c), min(b, d)


# Rounding may bring a bound within a few units of the last place of what it bounds.
_OUTWARD = 1e-12


@noinline_cpu
def evaluate_bounds(program, w, t_low, t_high, point, net, work, state):
    """Bounds of a program for all states between ``state.low`` and ``state.high``, and times.

    The lower bound is minus infinity where anything on the way may be infinite, or not a number.
    """
    lows, highs = work.stack, state.stack
    top = -1
    finite = True
    for i in range(net.program_starts[program], net.program_starts[program + 1]):
        operation = net.operations[i]
        argument = net.arguments[i]
        if operation < CHOOSE:
            top += 1
            if operation == CONSTANT:
                lows[w, top] = net.constants[argument]
                highs[w, top] = net.constants[argument]
            elif operation == VARIABLE:
                lows[w, top] = state.low[w, argument]
                highs[w, top] = state.high[w, argument]
            elif operation == PARAMETER:
                lows[w, top] = net.parameters[point, argument]
                highs[w, top] = net.parameters[point, argument]
            else:
                lows[w, top] = t_low
                highs[w, top] = t_high
        elif operation >= FIRST_OF_TWO:
            top -= 1
            lows[w, top], highs[w, top] = _bounds_of_two(
                operation, lows[w, top], highs[w, top], lows[w, top + 1], highs[w, top + 1]
            )
        elif operation == CHOOSE:
            top -= 2
            if lows[w, top] != 0.0:  # true throughout
                lows[w, top], highs[w, top] = lows[w, top + 1], highs[w, top + 1]
            elif highs[w, top] == 0.0:  # never true
                lows[w, top], highs[w, top] = lows[w, top + 2], highs[w, top + 2]
            else:
                lows[w, top] = min(lows[w, top + 1], lows[w, top + 2])
                highs[w, top] = max(highs[w, top + 1], highs[w, top + 2])
        else:
            lows[w, top], highs[w, top] = _bounds_of_one(operation, lows[w, top], highs[w, top])
        if not (lows[w, top] > -INFINITY and highs[w, top] < INFINITY):
            finite = False
            if not lows[w, top] <= highs[w, top]:
                lows[w, top], highs[w, top] = real(-INFINITY), real(INFINITY)
    low, high = lows[w, 0], highs[w, 0]
    low = low - _OUTWARD * math.fabs(low) if finite else real(-INFINITY)
    return low, high + _OUTWARD * math.fabs(high)


def append_program(
    steps: Sequence[Step], operations: list[int], arguments: list[int], constants: list[float]
) -> None:
    """Write a program at the end of the flat lists that kernels read."""
    for operation, argument in steps:
        operations.append(int(operation))
        if operation == Operation.CONSTANT:
            constants.append(float(argument))
            argument = len(constants) - 1
        arguments.append(int(argument))


def programs_arrays(programs: Sequence[Sequence[Step]]) -> dict[str, np.ndarray]:
    """Programs as the arrays that `evaluate` reads."""
    operations: list[int] = []
    arguments: list[int] = []
    constants: list[float] = []
    starts = [0]
    for steps in programs:
        append_program(steps, operations, arguments, constants)
        starts.append(len(operations))
    return {
        "program_starts": np.array(starts, np.int32),
        "operations": np.array(operations or [0], np.int32),
        "arguments": np.array(arguments or [0], np.int32),
        "constants": np.array(constants or [0.0], np.float64),
    }
