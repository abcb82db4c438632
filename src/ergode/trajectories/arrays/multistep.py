"""Backward differentiation formulas of order 1 to 5 (see `core.math.nordsieck`) of a group.

A step solves y = y_p + e with h f(y) = h y_p' + l_1 e.  With gamma = h / l_1 an iteration solves

    (1 / gamma - J) d = f(y) - y_p' - e / gamma

with a matrix of `banded`.  Jacobian and factors are kept over many steps: the factors until gamma
has changed by more than `CHANGED`, and d is then multiplied by 2 / (1 + gamma / gamma_0), where
gamma_0 is that of the factors; both until they are old, the Jacobian also until the iteration
fails.  The solution starts anew with order 1 where an event or a knot may make it jump.

Rows of the slopes are: the slope where a step begins; the polynomial of a step that is looked
into, by powers of its fraction; the correction e; the slope at the end; the correction of the step
before; one over the tolerances; the derivatives of an iteration; the pivots; the history; then -J
and the factors.

A. C. Hindmarsh et al.: ACM Trans. Math. Softw. 31, 363 (2005), section 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, noinline_cpu, real
from ergode.core.compiler.source import Precision
from ergode.core.group import barrier, totals_of
from ergode.core.math import nordsieck
from ergode.core.math.nordsieck import MOST
from ergode.trajectories.arrays import banded
from ergode.trajectories.arrays.banded import PLACES, band_of, put_jacobian
from ergode.trajectories.arrays.equations import evaluate, unknowns
from ergode.trajectories.arrays.group import (
    END,
    MULTISTEP,
    ORDER,
    OWN,
    begin_anew,
    next_step,
)
from ergode.trajectories.steppers import explicit, stepper
from ergode.trajectories.steppers.equations import EPSILON, INFINITY
from ergode.trajectories.steppers.explicit import C
from ergode.trajectories.steppers.inside_step import ACTING
from ergode.trajectories.steppers.stepper import absolute

AGE, SLOPES_AGE, CHANGED = 20, 50, 0.3
ITERATIONS, SHARE = 3, 0.1
"""Most iterations; error of the iteration over the allowed error of a step."""

# Rows of slopes.
_POLYNOMIAL, _CORRECTION, _SLOPE, _BEFORE, _WEIGHT, _SCRATCH, _PIVOTS, _HISTORY = (
    1, MOST + 1, MOST + 2, MOST + 3, MOST + 4, MOST + 5, MOST + 6, MOST + 7
)  # fmt: skip
_ROWS = _HISTORY + MOST + 1

# Numbers of a thread, which are the same for all of a group (see `arguments.Workspace.own`): the
# coefficients of a step and the lengths of past steps, each MOST + 2; then
_PAST = MOST + 2
(
    _ORDER, _LENGTH, _WAITING, _RATIO, _MOST, _FAILURES, _TAKEN, _ERROR, _AGE, _SLOPES_AGE, _GAMMA,
    _RATE, _ANEW, _LOWER, _HIGHER, _KEPT_RATIO, _NUMBERS,
) = range(2 * _PAST, 2 * _PAST + 17)  # fmt: skip
_NEVER = 1e6  # age of what is not there


class _Vectors(NamedTuple):
    """What `nordsieck` reads."""

    history: Any
    gain: Any
    past: Any
    correction: Any
    group: Any


def _vectors(group, w):
    return _Vectors(
        w.k[_HISTORY : _HISTORY + MOST + 1], w.own[:_PAST], w.own[_PAST : 2 * _PAST],
        w.k[_CORRECTION], group,
    )  # fmt: skip


def begin(group, h, run, w):
    """Begin with order 1 at the state and slope where a step begins, its length being `h`."""
    for i in unknowns(group, w.y.size):
        w.k[_HISTORY, i], w.k[_HISTORY + 1, i] = w.y[i], h * w.k[0, i]
    _put_weights(group, run, w)
    own = w.own
    for j in range(own.size):
        own[j] = 0.0
    own[_ORDER], own[_LENGTH], own[_WAITING], own[_MOST] = 1.0, h, 2.0, nordsieck.FIRST_GROWTH
    own[_AGE], own[_SLOPES_AGE], own[_GAMMA], own[_RATE] = _NEVER, _NEVER, 1.0, 1.0
    barrier(group)


def _put_weights(group, run, w):
    for i in unknowns(group, w.y.size):
        w.k[_WEIGHT, i] = 1.0 / fma(run.rtol, abs(w.k[_HISTORY, i]), absolute(run.atol, i))


def _norm(group, row, w):
    """Root mean square of a row of slopes in tolerances."""
    total = real(0.0)
    for i in unknowns(group, w.y.size):
        part = w.k[row, i] * w.k[_WEIGHT, i]
        total += part * part
    return math.sqrt(totals_of(group, total, total)[0] / real(w.y.size))


def take_stages(group, t, h, t1, looked, p, run, w):
    """A step, as `group.implicit_stages`; its error in tolerances, infinite without a solution."""
    own, v = w.own, _vectors(group, w)
    order = int(own[_ORDER])
    if h != own[_LENGTH]:
        nordsieck.rescale(v.history, order, h / own[_LENGTH], group)
        own[_LENGTH] = h
    nordsieck.predict(v.history, order, group)
    constants = nordsieck.put_coefficients(v.gain, v.past, order, h)
    own[_LOWER], own[_HIGHER] = constants.lower, constants.higher
    own[_KEPT_RATIO] = constants.ratio
    error = real(INFINITY)
    if _correct(group, h, t1, SHARE / constants.own, p, run, w):
        error = _norm(group, _CORRECTION, w) * constants.own
    own[_ERROR] = error
    for i in unknowns(group, w.y.size):
        w.k[_SLOPE, i] = fma(own[1], w.k[_CORRECTION, i], w.k[_HISTORY + 1, i]) / h
    if looked and error <= 1.0:
        _put_polynomial(group, h, w)
    return error, real(0.0)


def _correct(group, h, t1, allowed, p, run, w):
    """Solve for the end of a step, whose prediction is in the history; whether that converged."""
    n, own, b = w.y.size, w.own, w.stage[1]
    predicted, slope, correction = w.k[_HISTORY], w.k[_HISTORY + 1], w.k[_CORRECTION]
    gain = own[1]
    gamma = h / gain
    matrix = _ROWS
    factors = _ROWS + band_of(n, run.stage_begins).rows
    again = own[_ANEW] != 0.0
    own[_ANEW] = 0.0
    converged, over = False, False
    while not over:
        fresh = again or own[_SLOPES_AGE] >= SLOPES_AGE
        rate, last, part = own[_RATE], real(0.0), real(1.0)
        for turn in range(ITERATIONS):
            if turn == 0:
                for i in unknowns(group, n):
                    w.stage[END, i], correction[i] = predicted[i], 0.0
                barrier(group)
            evaluate(group, t1, w.stage[END], p, run, w.k[_SCRATCH])
            if turn == 0:
                if fresh:
                    _put_jacobian(group, t1, matrix, p, run, w)
                    own[_SLOPES_AGE] = 0.0
                    for i in unknowns(group, n):
                        w.stage[END, i], correction[i] = predicted[i], 0.0
                if fresh or own[_AGE] >= AGE or abs(gamma / own[_GAMMA] - 1.0) > CHANGED:
                    rate, own[_AGE], own[_GAMMA] = real(1.0), 0.0, gamma
                    for row in range(factors - matrix):
                        for i in unknowns(group, n):
                            w.k[factors + row, i] = w.k[matrix + row, i]
                    barrier(group)
                    banded.factorise(group, 1.0 / gamma, factors, _PIVOTS, run, w)
                part = 2.0 / (1.0 + gamma / own[_GAMMA])
            per = 1.0 / own[_GAMMA]
            for i in unknowns(group, n):
                one = fma(gamma, w.k[_SCRATCH, i], -slope[i] / gain)
                b[run.stage_begins[PLACES + i]] = (one - correction[i]) * per
            barrier(group)
            banded.solve(group, b, factors, _PIVOTS, run, w)
            total = real(0.0)
            for i in unknowns(group, n):
                change = part * b[run.stage_begins[PLACES + i]]
                correction[i] += change
                w.stage[END, i] = predicted[i] + correction[i]
                change *= w.k[_WEIGHT, i]
                total += change * change
            size = math.sqrt(totals_of(group, total, total)[0] / real(n))
            if turn > 0:
                rate = max(0.3 * rate, size / last)
            if size * min(rate, real(1.0)) <= allowed:
                converged = True
                break
            if not size < INFINITY or (turn > 0 and size > 2.0 * last):
                break
            last = size
        own[_RATE] = rate
        over = converged or fresh
        again = True
    return converged


@noinline_cpu
def _put_jacobian(group, t, matrix, p, run, w):
    """Set -J at the prediction, where the derivatives are known; a unit changes nothing."""
    predicted, moved = w.k[_HISTORY], w.k[_PIVOTS]
    for i in unknowns(group, w.y.size):
        size = max(abs(predicted[i]), 1.0 / (run.rtol * w.k[_WEIGHT, i]))
        moved[i] = predicted[i] + math.sqrt(EPSILON) * size
    # The correction is not needed yet.
    put_jacobian(group, t, predicted, w.k[_SCRATCH], moved, matrix, w.k[_CORRECTION], p, run, w)


def _put_polynomial(group, h, w):
    """Set the polynomial of a step, over `h`, from its prediction and correction."""
    own, order = w.own, int(w.own[_ORDER])
    for power in range(1, MOST + 1):
        for i in unknowns(group, w.y.size):
            w.k[_POLYNOMIAL + power - 1, i] = 0.0
        factor = 1.0 / h  # times the binomial of j and power, with its sign
        for j in range(power, order + 1):
            for i in unknowns(group, w.y.size):
                row = fma(own[j], w.k[_CORRECTION, i], w.k[_HISTORY + j, i])
                w.k[_POLYNOMIAL + power - 1, i] += factor * row
            factor *= -(j + 1.0) / (j + 1.0 - power)
    barrier(group)


def following(group, kept, jumps, run, w):
    """Make the history that of the next step; returns its length.

    Where the solution `jumps` at the end of a step, or steps fail again and again, the order is set
    to 0 (see `begin`).
    """
    own, v = w.own, _vectors(group, w)
    order, h, error = int(own[_ORDER]), own[_LENGTH], own[_ERROR]
    if not kept:
        nordsieck.retract(v.history, order, group)
        own[_MOST] = 1.0
        factor = real(0.25)
        if error < INFINITY:
            own[_FAILURES] += 1.0
            factor = nordsieck.shorter(error, order, int(own[_FAILURES]))
        else:
            own[_ANEW] = 1.0
        if own[_FAILURES] > nordsieck.MOST_FAILURES:
            own[_ORDER] = 0.0
            return 0.1 * h
        nordsieck.rescale(v.history, order, factor, group)
        own[_LENGTH] = factor * h
        return factor * h
    own[_TAKEN] += 1.0
    own[_FAILURES] = 0.0
    nordsieck.keep_length(v.past, order, h, int(own[_TAKEN]))
    if ACTING and not jumps:
        away = real(0.0)
        for i in unknowns(group, w.y.size):
            away += 0.0 if w.k[_HISTORY, i] + w.k[_CORRECTION, i] == w.stage[END, i] else 1.0
        jumps = totals_of(group, away, away)[0] != 0.0
    if jumps:
        own[_ORDER] = 0.0
        return h
    for j in range(order + 1):
        for i in unknowns(group, w.y.size):
            w.k[_HISTORY + j, i] += own[j] * w.k[_CORRECTION, i]
    own[_AGE] += 1.0
    own[_SLOPES_AGE] += 1.0
    factor = _change_order(group, order, h, error, w)
    own[_LENGTH] = factor * h
    own[_MOST] = nordsieck.GROWTH
    _put_weights(group, run, w)
    barrier(group)
    return factor * h


def _change_order(group, order, h, error, w):
    """Make the history one for the next step; returns the length of that step over `h`."""
    own, v = w.own, _vectors(group, w)
    waiting = int(own[_WAITING]) - 1
    low, high = real(-1.0), real(-1.0)
    if waiting <= 0 and own[_MOST] != 1.0:
        if order > 1:
            low = _norm(group, _HISTORY + order, w) * own[_LOWER]
        if order < MOST and own[_RATIO] > 0.0:
            scale = own[_KEPT_RATIO] / own[_RATIO] * (h / v.past[2]) ** (order + 1)
            for i in unknowns(group, w.y.size):
                w.k[_SCRATCH, i] = fma(-scale, w.k[_BEFORE, i], w.k[_CORRECTION, i])
            high = _norm(group, _SCRATCH, w) * own[_HIGHER]
    if waiting == 1 and order < MOST:
        own[_RATIO] = own[_KEPT_RATIO]
        for i in unknowns(group, w.y.size):
            w.k[_BEFORE, i] = w.k[_CORRECTION, i]
    chosen, factor, waiting = nordsieck.next_order(error, low, high, order, waiting, own[_MOST])
    barrier(group)
    nordsieck.turn_history(v, order, chosen, factor, h)
    own[_ORDER], own[_WAITING] = real(chosen), real(waiting)
    return factor


# ---- what a host gives to the kernel


def rows_of(method: Mapping[Any, Any]) -> int:
    """Rows of slopes before those of the matrices."""
    return _ROWS


def bindings_of(method: Mapping[Any, Any]) -> dict[Any, Any]:
    """Bindings of the kernel."""
    return {
        MULTISTEP: True, OWN: _NUMBERS, ORDER: _ORDER, C: (0.0,) * _SLOPE,
        explicit.ERROR: (), begin_anew: begin,
        next_step: following, stepper.DENSE: method[stepper.DENSE],
        stepper.ERROR_ORDER: method[stepper.ERROR_ORDER],
    }  # fmt: skip


def table_of(method: Mapping[Any, Any], precision: Precision) -> np.ndarray:
    """No tableau."""
    return np.zeros((1, 1), precision)
