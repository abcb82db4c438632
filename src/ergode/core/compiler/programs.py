"""Formulas as programs for a stack machine, which a kernel interprets.

A rate law, a trigger or an assignment becomes a short list of operations in postfix order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np


class Operation(IntEnum):
    """Operation of a step of a program."""

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
_FUNCTIONS = {**{item.name.lower(): item for item in Operation if 12 <= item < 40}, **_NAMES}

Step = tuple[Operation, int | float]


def steps_of(tree: ast.expr, name: Callable[[str], Sequence[Step]]) -> list[Step]:
    """Postfix steps of an expression.

    Parameters
    ----------
    tree : ast.expr
        Tree of an `Expression`.
    name : function
        ``name(text)`` returns the steps that push the value of a name on the stack.
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
    """Largest number of values on the stack at any time."""
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


def append_program(
    steps: Sequence[Step], operations: list[int], arguments: list[int], constants: list[float]
) -> None:
    """Append a program to the flat lists that kernels read."""
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
