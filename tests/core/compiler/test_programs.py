"""Programs in postfix order have the value of the formula that they are made of."""

import math
import operator

import pytest

from ergode.core.compiler.programs import Operation, depth_of, programs_arrays, steps_of
from ergode.models.expressions import Expression

VALUES = {"x": 3.0, "y": -1.5, "k": 0.25}
ONE = {
    Operation.NEGATE: operator.neg, Operation.NOT: lambda a: float(a == 0), Operation.ABS: abs,
    Operation.EXP: math.exp, Operation.FLOOR: math.floor, Operation.SQRT: math.sqrt,
}  # fmt: skip
TWO = {
    Operation.ADD: operator.add, Operation.SUBTRACT: operator.sub, Operation.MULTIPLY: operator.mul,
    Operation.DIVIDE: operator.truediv, Operation.POWER: operator.pow, Operation.LESS: operator.lt,
    Operation.GREATER: operator.gt, Operation.LESS_EQUAL: operator.le, Operation.MINIMUM: min,
    Operation.MAXIMUM: max, Operation.AND: lambda a, b: a != 0 and b != 0,
    Operation.OR: lambda a, b: a != 0 or b != 0,
}  # fmt: skip


def run(steps):
    """A plain stack machine: the value, and the greatest height of the stack."""
    stack, height = [], 0
    for operation, argument in steps:
        if operation == Operation.CONSTANT:
            stack.append(argument)
        elif operation == Operation.VARIABLE:
            stack.append(list(VALUES.values())[argument])
        elif operation == Operation.CHOOSE:
            test, one, other = _three(stack)
            stack.append(one if test != 0 else other)
        elif operation in ONE:
            stack.append(ONE[operation](stack.pop()))
        else:
            right = stack.pop()
            stack.append(float(TWO[operation](stack.pop(), right)))
        height = max(height, len(stack))
    assert len(stack) == 1
    return stack[0], height


def _three(stack):
    other, one, test = stack.pop(), stack.pop(), stack.pop()
    return test, one, other


@pytest.mark.parametrize(
    "text",
    [
        "k * x * (x - 1) / 2", "-x ^ 2 + y", "1 if x > y else 2", "exp(-k * x) / (1 + abs(y))",
        "min(x, y, k) + max(x, k)", "x if y < k and x > 2 else 0 if x <= 3 or y > 1 else 5",
        "floor(x / 2) * sqrt(x + 1)", "1 < x < 4",
    ],
)  # fmt: skip
def test_a_program_has_the_value_of_its_formula(text):
    expression = Expression(text)
    steps = steps_of(expression.tree, lambda name: [(Operation.VARIABLE, list(VALUES).index(name))])
    value, height = run(steps)
    assert value == pytest.approx(float(expression.evaluate(VALUES)), rel=1e-14)
    assert depth_of(steps) == height


def test_programs_stand_one_after_another():
    programs = [
        [(Operation.CONSTANT, 2.5)],
        [(Operation.VARIABLE, 1), (Operation.CONSTANT, 4.0), (Operation.ADD, 0)],
    ]
    found = programs_arrays(programs)
    assert found["program_starts"].tolist() == [0, 1, 4]
    assert found["constants"].tolist() == [2.5, 4.0]
    assert found["arguments"].tolist() == [0, 1, 1, 0]
