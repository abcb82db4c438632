"""A solution as scaled derivatives at the end of a step, and how a step changes them.

Row j of the history [row, variable] is h^j y^(j) / j!, for the polynomial through the last values.
A prediction is a product with Pascal's triangle. A step of order q then adds l_j times the
correction to row j, where the polynomial

    sum of l_j x^j = (1 + x / xi_*) (1 + x) (1 + x / xi_2) ... (1 + x / xi_(q-1))

vanishes at the past times t_(n-i), which are xi_i steps of length h before the new one, and xi_* is
such that l_1 = sum of 1/j for j up to q: this coefficient, which multiplies the Jacobian, does not
depend on the past steps.

G. D. Byrne, A. C. Hindmarsh: ACM Trans. Math. Softw. 1, 71 (1975);
K. R. Jackson, R. Sacks-Davis: ACM Trans. Math. Softw. 6, 295 (1980);
A. C. Hindmarsh et al.: ACM Trans. Math. Softw. 31, 363 (2005), section 2.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ergode.core.compiler.language import no_unroll, noinline, noinline_cuda
from ergode.core.group import barrier, share
from ergode.core.math.elimination import NONNEGATIVE

MOST = 5
"""The highest order."""

# Largest growth of a step: usually, and of the first; the least growth for which steps change.
GROWTH, FIRST_GROWTH, WORTHWHILE = 10.0, 1e4, 1.5
# Errors are estimated with these safety factors: own and lower order, higher order.
SAFE, SAFER = 6.0, 10.0
MOST_FAILURES = 3
"""Failures of a step after which the order falls to one."""

# --- device functions -----------------------------------------------------------------------------


class Constants(NamedTuple):
    """Factors of norms that estimate errors of a step, and one factor of the next order."""

    own: float  # of the correction
    lower: float  # of the last row of the history
    higher: float  # of the difference of two corrections
    ratio: float  # of the next order, over the previous correction


@noinline
def predict(history, order, group):
    """Move the history forward by a step."""
    for k in range(order):
        for back in range(order - k):
            j = (order - 1 - back) & NONNEGATIVE
            for i in no_unroll(share(group, 0, history.shape[1])):
                history[j, i] += history[j + 1, i]
    barrier(group)


@noinline
def retract(history, order, group):
    """Undo `predict`."""
    for k in range(order):
        for back in range(order - k):
            j = (order - 1 - back) & NONNEGATIVE
            for i in no_unroll(share(group, 0, history.shape[1])):
                history[j, i] -= history[j + 1, i]
    barrier(group)


@noinline
def rescale(history, order, factor, group):
    """Change the length of the next step."""
    scale = 1.0
    for j in range(1, order + 1):
        scale *= factor
        for i in no_unroll(share(group, 0, history.shape[1])):
            history[j, i] *= scale
    barrier(group)


@noinline
def put_coefficients(gain, past, order, h):
    """Put the coefficients l_j of a step of length h; `past` has past lengths, from 1 on."""
    for j in range(gain.size):
        gain[j] = 0.0
    gain[0], gain[1] = 1.0, 1.0
    star, last = 1.0, 1.0  # 1 / xi_* and 1 / xi_q
    leading, fitted = -1.0, -1.0
    since = h
    if order > 1:
        for j in range(2, order):
            since += past[j - 1]
            leading -= 1.0 / j
            for back in range(j):
                gain[j - back] += gain[j - back - 1] * (h / since)
        leading -= 1.0 / order
        star = -gain[1] - leading
        since += past[order - 1]
        last = h / since
        fitted = -gain[1] - last
        for back in range(order):
            gain[order - back] += gain[order - back - 1] * star
    a = 1.0 - fitted + leading
    b = 1.0 + order * a
    lower = 1.0
    if order > 1:
        c = leading + 1.0 / order
        lower = abs(star / gain[order] * (1.0 - (fitted + last) + c) / c)
    further = h / (since + past[order])
    d = leading - 1.0 / (order + 1)
    higher = abs((1.0 - (fitted - further) + d) / b / (further * (order + 2) * d))
    return Constants(abs(a / (leading * b)), lower, higher, abs(b * star / (gain[order] * last)))


@noinline
def raise_order(history, gain, past, order, h, correction, group):
    """Add a row to the history, and change the others to the polynomial of the higher order."""
    for j in range(gain.size):
        gain[j] = 0.0
    gain[2] = 1.0
    total, product, before, leading = 1.0, 1.0, 1.0, -1.0
    since = h
    for j in range(1, order):
        since += past[j + 1]
        xi = since / h
        product *= xi
        leading -= 1.0 / (j + 1)
        total += 1.0 / xi
        for back in range(j + 1):
            i = j + 2 - back
            gain[i] = gain[i] * before + gain[i - 1]
        before = xi
    scale = (-leading - total) / product
    for i in no_unroll(share(group, 0, history.shape[1])):
        last = scale * correction[i]
        history[order + 1, i] = last
        for j in range(2, order + 1):
            history[j, i] += gain[j] * last
    barrier(group)


@noinline
def lower_order(history, gain, past, order, h, group):
    """Change the history to the polynomial of the lower order."""
    for j in range(gain.size):
        gain[j] = 0.0
    gain[2] = 1.0
    since = 0.0
    for j in range(1, order - 1):
        since += past[j]
        for back in range(j + 1):
            i = j + 2 - back
            gain[i] = gain[i] * (since / h) + gain[i - 1]
    for j in range(2, order):
        for i in no_unroll(share(group, 0, history.shape[1])):
            history[j, i] -= gain[j] * history[order, i]
    for i in no_unroll(share(group, 0, history.shape[1])):
        history[order, i] = 0.0
    barrier(group)


def value_at(history, order, i, s):
    """A variable, s steps after the end of a step."""
    total = 0.0
    for back in range(order + 1):
        total = total * s + history[order - back, i]
    return total


def slopes_at(history, order, i, s):
    """The first three derivatives of a variable with respect to s."""
    first, second, third = 0.0, 0.0, 0.0
    for back in range(order):
        j = order - back
        third = third * s + second
        second = second * s + first
        first = first * s + j * history[j, i]
    return first, second, 2.0 * third


@noinline_cuda
def growth(safety, error, order):
    """Ratio of the next step to this one."""
    return 1.0 / ((safety * error) ** (1.0 / order) + 1e-6)


def next_order(error, low, high, order, waiting, most):
    """The order of the next step, its length over that of this one, and steps before a change.

    The step is at most `most` times as long; 1 stands for the step after a failure. Errors of the
    orders beside are of `errors_beside`.
    """
    chosen, factor = order, 1.0
    if most == 1.0:
        waiting = max(waiting, 2)
    else:
        factor = growth(SAFE, error, order + 1)
        if waiting <= 0:
            down = growth(SAFE, low, order) if low >= 0.0 else 0.0
            up = growth(SAFER, high, order + 2) if high >= 0.0 else 0.0
            if up > factor and up > down:
                chosen, factor = order + 1, up
            elif down > factor:
                chosen, factor = order - 1, down
            waiting = 2
    if factor < WORTHWHILE:
        factor, chosen = 1.0, order
    factor = min(factor, most)
    if chosen != order or factor != 1.0:
        waiting = chosen + 1
    return chosen, factor, waiting


def shorter(error, order, failures):
    """Ratio of a step to one whose error is too large; `failures` of its tries are so by now."""
    factor = max(0.1, growth(SAFE, error, order + 1)) if error < math.inf else 0.1
    return min(factor, 0.9 if failures < 2 else 0.2)


def keep_length(past, order, h, taken):
    """Put the length of a step, the last of `taken`, before those of earlier ones."""
    for back in range(order - 1):
        past[order - back] = past[order - back - 1]
    if order == 1 and taken > 1:
        past[2] = past[1]
    past[1] = h


def turn_history(vectors, order, chosen, factor, h):
    """Make the history one of the order `chosen`, for a step `factor` times as long."""
    history, gain, past, group = vectors.history, vectors.gain, vectors.past, vectors.group
    if chosen > order:
        raise_order(history, gain, past, order, h, vectors.correction, group)
    elif chosen < order:
        lower_order(history, gain, past, order, h, group)
    if factor != 1.0:
        rescale(history, chosen, factor, group)
