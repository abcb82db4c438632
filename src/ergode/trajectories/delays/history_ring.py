"""The history of a delay equation with fixed steps: a ring buffer and its interpolation.

Between two steps the history is a Hermite interpolant of values and slopes: a cubic through both
ends of the step, or a quintic through both ends and the point before.  Its error is O(step^4) or
O(step^6), which limits the order of every method.

Every delay is a whole number of steps, its lag.  A stage at the fraction c of a step reads the
polynomial at the fraction c of an older step, with constant weights.  Trajectories with different
delays have different step sizes but equal lags, so they all read the same slots.

    ring[slot][delayed variable][value | step x slope][trajectory]

Step n stores its first point in slot n modulo the period.  The period is long enough that no step
writes a slot that it reads, so that the compiler can vectorise over lanes.

Breaking points are the first time, and that time plus sums of delays.  All of them are ends of
steps, and no polynomial crosses one.  A point with two slopes is stored twice.  If a quintic would
reach back across a breaking point, the point before it is replaced by a prediction from the quintic
on the other side.  These points have slots after the ring:

    period              the end of the history
    period + 1 + d      the d-th lag, left-hand limit, if the solution jumps at the first time
    period + 1 + D + d  the point predicted for the d-th of D delays

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed. (1993),
chapters II.6 (eq. 6.7) and II.17; A. Bellen, M. Zennaro, "Numerical Methods for Delay Differential
Equations" (2003), chapter 2 (breaking points).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ergode.core.compiler.language import option, real, unroll
from ergode.trajectories.steppers.equations import PLACES, VARIABLES

DELAYED = option(())  # variables that the ring stores
POINTS = option(2)  # number of points that a polynomial interpolates
STAGE_WEIGHTS = option(((1.0, 0.0, 0.0, 0.0),))  # interpolation weights at each stage
BACK_VALUE = option((0.0,) * 6)  # weights that extrapolate a quintic one step back: its value
BACK_SLOPE = option((0.0,) * 6)  # weights that extrapolate a quintic one step back: its slope
HAS_HISTORY = option(False)
initial_history = option()  # initial_history(t): the user's history, all variables
JUMPS = option(False)  # whether the solution jumps at the first time: history differs from state


def hermite_weights(x: float, points: Sequence[float] = (0.0, 1.0)) -> tuple[float, ...]:
    """Weights of values and slopes at `points` that give the Hermite interpolant at `x`."""
    weights = []
    for point in points:
        others = [other for other in points if other != point]
        basis = math.prod((x - other) / (point - other) for other in others)
        slope = sum(1.0 / (point - other) for other in others)
        weights += [(1.0 - 2.0 * slope * (x - point)) * basis**2, (x - point) * basis**2]
    return tuple(weights)


def hermite_slope_weights(x: float, points: Sequence[float]) -> tuple[float, ...]:
    """Weights that give the slope of the Hermite interpolant at `x`, not one of the points."""
    weights = []
    for point in points:
        others = [other for other in points if other != point]
        basis = math.prod((x - other) / (point - other) for other in others)
        growth = 2.0 * basis**2 * sum(1.0 / (x - other) for other in others)
        slope = sum(1.0 / (point - other) for other in others)
        weights += [
            -2.0 * slope * basis**2 + (1.0 - 2.0 * slope * (x - point)) * growth,
            basis**2 + (x - point) * growth,
        ]
    return tuple(weights)


def period_of(lags):
    """Number of slots of the ring."""
    period = lags[0]
    for d in range(1, len(PLACES)):
        period = max(period, lags[d])
    return period + POINTS - 1


def slot_count(period):
    """Number of slots of the ring and of the points stored after it."""
    return period + 1 + 2 * len(PLACES)


def slot_of(point, step, now, period):
    """Slot of a point; `step` is the number of the present step, and `now` is its slot."""
    slot = now + (point - step)
    return slot + period if slot < 0 else slot


def slot_before(point, step, now, period, lags):
    """`slot_of` for the last point of a polynomial: the left-hand limit at a breaking point."""
    slot = slot_of(point, step, now, period)
    if JUMPS:
        for d in unroll(range(len(PLACES))):
            slot = period + 1 + d if point == lags[d] else slot
    return period if point == 0 else slot


def breaks_at(point, breaks):
    """Whether a point is a breaking point."""
    return point >= 0 and point < breaks.size and breaks[point] > 0


def calm(step, count, lags, breaks):
    """Whether `count` steps read no point that they write, and cross no breaking point.

    For a cubic, the breaking points are the end of the history, and the lags if the solution jumps
    at the first time.  For a quintic, they are all points of `breaks`.
    """
    undisturbed = True
    for d in unroll(range(len(PLACES))):
        begin = step - lags[d]
        undisturbed = undisturbed and lags[d] > count
        if POINTS == 2:
            undisturbed = undisturbed and (begin >= 0 or begin + count < 0)
            if JUMPS:
                for m in unroll(range(len(PLACES))):
                    undisturbed = undisturbed and (begin >= lags[m] or begin + count < lags[m])
        else:
            for point in range(max(begin, 0), min(begin + count + 1, breaks.size)):
                undisturbed = undisturbed and breaks[point] == 0
    if JUMPS:
        for m in unroll(range(len(PLACES))):
            undisturbed = undisturbed and (step >= lags[m] or step + count < lags[m])
    return undisturbed


def delayed_at_stages(points):
    """Delayed values at every stage; `points[d]` holds values and slopes alternately."""
    return tuple(
        tuple(
            sum(
                STAGE_WEIGHTS[s][j] * points[d][j]
                for j in range(2 * POINTS)
                if STAGE_WEIGHTS[s][j] != 0.0
            )
            for d in range(len(PLACES))
        )
        for s in range(len(STAGE_WEIGHTS))
    )


def predicted(v0, s0, v1, s1, v2, s2):
    """Value and slope one step before three points, extrapolated by their quintic."""
    value = (
        BACK_VALUE[0] * v0
        + BACK_VALUE[1] * s0
        + BACK_VALUE[2] * v1
        + BACK_VALUE[3] * s1
        + BACK_VALUE[4] * v2
        + BACK_VALUE[5] * s2
    )
    slope = (
        BACK_SLOPE[0] * v0
        + BACK_SLOPE[1] * s0
        + BACK_SLOPE[2] * v1
        + BACK_SLOPE[3] * s1
        + BACK_SLOPE[4] * v2
        + BACK_SLOPE[5] * s2
    )
    return value, slope


def history_values(t, y):
    """All variables of the history at time `t`; `y` is the initial state."""
    if HAS_HISTORY:
        values = initial_history(t)
        return tuple(real(values[i]) for i in range(VARIABLES))
    return y


def history_slopes(t, h, y):
    """One-sided slopes (times `abs(h)`) of the history at `t`, on the side that `h` points to.

    They are finite differences over sixths of a step.  Their error is O(h^7), below the error of
    the polynomials.
    """
    if HAS_HISTORY:
        f0 = history_values(t, y)
        f1 = history_values(t + h / 6.0, y)
        f2 = history_values(t + h / 3.0, y)
        f3 = history_values(t + 0.5 * h, y)
        f4 = history_values(t + h / 1.5, y)
        f5 = history_values(t + h / 1.2, y)
        f6 = history_values(t + h, y)
        scale = math.copysign(real(0.1), h)
        return tuple(
            scale
            * (
                360.0 * f1[i]
                - 147.0 * f0[i]
                - 450.0 * f2[i]
                + 400.0 * f3[i]
                - 225.0 * f4[i]
                + 72.0 * f5[i]
                - 10.0 * f6[i]
            )
            for i in range(VARIABLES)
        )
    return tuple(real(0.0) for i in range(VARIABLES))
