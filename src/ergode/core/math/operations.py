"""Evaluate the operations of a program (see `compiler.programs`), on every target."""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, noinline, noinline_cpu, real
from ergode.core.math import elementary, whole

INFINITY = float("inf")


@noinline
def of_one(operation, a):
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
        return whole.floor(a)
    if operation == 18:
        return whole.ceil(a)
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


def power(a, b):
    """A power; small whole exponents by multiplication."""
    if b == 1.0:
        return a
    if b == 2.0:
        return a * a
    if b == 3.0:
        return a * a * a
    if b == 4.0:
        return (a * a) * (a * a)
    return math.pow(a, b)


def truth(condition):
    """A condition as a number."""
    return real(1.0) if condition else real(0.0)


@noinline
def of_two(operation, a, b):
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
        return power(a, b)
    if operation == 45:
        return truth(a < b)
    if operation == 46:
        return truth(a <= b)
    if operation == 47:
        return truth(a > b)
    if operation == 48:
        return truth(a >= b)
    if operation == 49:
        return truth(a == b)
    if operation == 50:
        return truth(a != b)
    if operation == 51:
        return truth(a != 0.0 and b != 0.0)
    if operation == 52:
        return truth(a != 0.0 or b != 0.0)
    if operation == 53:
        return min(a, b)
    return max(a, b)


# ---- of a user's formula


@noinline_cpu
def _formula_of_one(operation, a):
    """An operation on one number, bitwise equal to a compiled formula."""
    if operation == 60:
        return elementary.exp(a)
    if operation == 61:
        return elementary.expm1(a)
    if operation == 62:
        return elementary.log(a)
    if operation == 63:
        return elementary.log1p(a)
    if operation == 64:
        return elementary.sin(a)
    if operation == 65:
        return elementary.cos(a)
    if operation == 66:
        return elementary.tan(a)
    if operation == 67:
        return elementary.tanh(a)
    if operation == 68:
        return math.log10(a)
    if operation == 69:
        return math.asinh(a)
    if operation == 70:
        return math.acosh(a)
    if operation == 71:
        return math.atanh(a)
    if operation == 72:
        return math.erf(a)
    if operation == 73:
        return math.erfc(a)
    if operation == 74:
        return whole.truncate(a)
    return whole.nearest(a)


@noinline_cpu
def _formula_of_two(operation, a, b):
    """An operation on two numbers, bitwise equal to a compiled formula."""
    if operation == 80:
        return elementary.power(a, b)
    if operation == 81:
        return a % b
    if operation == 82:
        return a // b
    if operation == 83:
        return math.atan2(a, b)
    if operation == 84:
        return math.hypot(a, b)
    return math.copysign(a, b)


def private(program):
    """Steps, registers and outputs of a program, with registers of this thread's own."""
    registers = np.empty(program[1].size, real)
    for i in range(registers.size):
        registers[i] = program[1][i]
    return program[0], registers, program[2]


@noinline_cpu
def run(steps, registers):
    """Run the program of a formula (see `compiler.tracer.Program`): fill its last registers."""
    target = registers.size - steps.shape[0]
    for i in range(steps.shape[0]):
        operation = steps[i, 0]
        a, b = registers[steps[i, 1]], registers[steps[i, 2]]
        if operation == 42:
            value = a * b
        elif operation == 40:
            value = a + b
        elif operation == 41:
            value = a - b
        elif operation == 90:
            value = fma(a, b, registers[steps[i, 3]])
        elif operation == 43:
            value = a / b
        elif operation == 10:
            value = -a
        elif operation == 4:
            value = b if a != 0.0 else registers[steps[i, 3]]
        elif operation < 40:
            value = of_one(operation, a)
        elif operation < 60:
            value = of_two(operation, a, b)
        elif operation < 80:
            value = _formula_of_one(operation, a)
        else:
            value = _formula_of_two(operation, a, b)
        registers[target + i] = value
