"""Programs inside a kernel: a stack machine for the formulas of a network.

One compiled function runs any program, so the compile time does not grow with the model. Rejection
methods need bounds of a formula: the program run in interval arithmetic gives them (R. E. Moore,
"Interval Analysis", 1966).
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import noinline, noinline_cpu, option, real
from ergode.core.math.operations import of_one, of_two, power, truth

INFINITY = float("inf")


# ---- numbers

# The numbers of `Operation`.
CONSTANT, VARIABLE, PARAMETER, TIME = 0, 1, 2, 3
CHOOSE, FIRST_OF_TWO = 4, 40


def _row_of_worker(w):
    return w


row_of = option(_row_of_worker)
"""``row_of(w)`` is the row of the state that worker `w` reads: its own, or its thread group's."""


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
            stack[w, top] = of_two(operation, stack[w, top], stack[w, top + 1])
        elif operation == CHOOSE:
            top -= 2
            if stack[w, top] != 0.0:
                stack[w, top] = stack[w, top + 1]
            else:
                stack[w, top] = stack[w, top + 2]
        else:
            stack[w, top] = of_one(operation, stack[w, top])
    return stack[w, 0]


# ---- intervals


@noinline
def _bounds_of_one(operation, low, high):
    """Bounds of an operation on a number in [low, high]."""
    if operation == 10:
        return -high, -low
    if operation == 11:
        return truth(low == 0.0 and high == 0.0), truth(low <= 0.0 <= high)
    if operation == 12:
        least = real(0.0) if low <= 0.0 <= high else min(math.fabs(low), math.fabs(high))
        return least, max(math.fabs(low), math.fabs(high))
    if operation == 19 or operation == 20:
        # A sine is monotonic between its extremes; a cosine is one a quarter of a turn away.
        shift = real(0.0) if operation == 19 else real(0.5 * math.pi)
        a, b = low + shift, high + shift
        top = math.ceil((a - 0.5 * math.pi) / (2.0 * math.pi)) * (2.0 * math.pi) + 0.5 * math.pi
        bottom = math.ceil((a + 0.5 * math.pi) / (2.0 * math.pi)) * (2.0 * math.pi) - 0.5 * math.pi
        ends = of_one(19, a), of_one(19, b)
        return (
            real(-1.0) if bottom <= b else min(ends[0], ends[1]),
            real(1.0) if top <= b else max(ends[0], ends[1]),
        )
    if operation == 21:
        return real(-INFINITY), real(INFINITY)
    a, b = of_one(operation, low), of_one(operation, high)
    if not (a == a and b == b):
        return real(-INFINITY), real(INFINITY)
    if operation == 26:
        return (real(1.0) if low <= 0.0 <= high else min(a, b)), max(a, b)
    return min(a, b), max(a, b)


def bounds_of_product(a, b, c, d):
    """Bounds of a product; zero times infinity is zero, because the zero is exact."""
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
        p, q, r, s = power(a, c), power(a, d), power(b, c), power(b, d)
        return min(min(p, q), min(r, s)), max(max(p, q), max(r, s))
    if c == d and c == math.floor(c) and c > 0.0 and math.floor(0.5 * c) * 2.0 != c:
        return power(a, c), power(b, c)
    if c == d and c == math.floor(c) and c > 0.0:
        most = max(power(a, c), power(b, c))
        return (real(0.0) if b >= 0.0 else min(power(a, c), power(b, c))), most
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
        return truth(b < c), truth(a < d)
    if operation == 46:
        return truth(b <= c), truth(a <= d)
    if operation == 47:
        return truth(a > d), truth(b > c)
    if operation == 48:
        return truth(a >= d), truth(b >= c)
    if operation == 49:
        return truth(a == b == c == d), truth(a <= d and c <= b)
    if operation == 50:
        return truth(a > d or c > b), truth(not (a == b == c == d))
    if operation == 51:
        return min(a, c), min(b, d)
    if operation == 52 or operation == 54:
        return max(a, c), max(b, d)
    return min(a, c), min(b, d)


# Bounds are widened by this fraction, more than rounding can move them.
_OUTWARD = 1e-12


@noinline_cpu
def evaluate_bounds(program, w, t_low, t_high, point, net, work, state):
    """Bounds of a program over states in [state.low, state.high] and times in [t_low, t_high].

    The lower bound is minus infinity if an intermediate value may be infinite or not a number.
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
