"""Evaluate the operations of a program (see `compiler.programs`), on every target."""

from __future__ import annotations

import math

from ergode.core.compiler.language import noinline, real
from ergode.core.math import whole

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
