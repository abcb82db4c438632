"""Points carried by the field: the explicit pair of orders 5 and 4 by Dormand and Prince.

Each point chooses its own steps. On a CPU a thread attempts a step of LANES points at once, in a
loop without branches that the compiler vectorises; a point that has arrived makes room for the
next. Gaussian cells and watched paths go one by one. A point that becomes infinite, or needs too
many steps, stays where it was last, and its mass is dropped: the logarithm of its weight becomes
minus infinity. A killing rate is integrated along the path, as one more variable of the point.

J. R. Dormand, P. J. Prince, "A family of embedded Runge-Kutta formulae", J. Comput. Appl. Math. 6
(1980).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.core.math.elementary import rough_log2
from ergode.density.flow import nearest as watch
from ergode.density.flow.gaussians import STATE, WIDE, motion, sizes
from ergode.density.flow.nearest import WATCHED
from ergode.density.grid.lattice import (
    DIMENSION,
    KILLED,
    PARAMETERS,
    frame_of,
    killing,
    rhs,
)

PARTS = option(1)
"""Least number of steps between two times: more for a field that depends on time."""

LANES = 32
"""Points that a thread of a CPU carries at once."""

_STEPS_MOST = 200_000


def _along(y, h, slope):
    """The state after a step `h` with a slope."""
    return tuple(y[d] + h * slope[d] for d in range(STATE))


def _field(t, y, p, frame, noise, manner):
    if WIDE:
        return motion(t, y, frame, noise, manner)
    if KILLED:
        state = tuple(y[d] for d in range(DIMENSION))
        f = rhs(t, state, p)
        rate = real(killing(state, t, p)[0])
        rate = rate if rate >= 0.0 else real(math.nan)  # the point is dropped
        return tuple(real(f[d]) if d < DIMENSION else rate for d in range(STATE))
    f = rhs(t, y, p)
    return tuple(real(f[d]) for d in range(DIMENSION))


def _start(points, which, place):
    """The variables of a point, before a step."""
    if KILLED:
        return tuple(points[d, which, place] if d < STATE - 1 else real(0.0) for d in range(STATE))
    return tuple(points[d, which, place] for d in range(STATE))


def _stages(t, h, y, a, p, frame, noise, manner):
    """The state after a step, its slope there, the estimated error, and the bend of the step."""
    b = _field(
        t + 0.2 * h, _along(y, h, tuple(0.2 * a[d] for d in range(STATE))), p, frame, noise, manner
    )
    c = _field(
        t + 0.3 * h,
        _along(y, h, tuple(0.075 * a[d] + 0.225 * b[d] for d in range(STATE))),
        p, frame, noise, manner,
    )  # fmt: skip
    e = _field(
        t + 0.8 * h,
        _along(
            y, h,
            tuple(
                (44.0 / 45.0) * a[d] - (56.0 / 15.0) * b[d] + (32.0 / 9.0) * c[d]
                for d in range(STATE)
            ),
        ), p, frame, noise, manner,
    )  # fmt: skip
    f = _field(
        t + (8.0 / 9.0) * h,
        _along(
            y, h,
            tuple(
                (19372.0 / 6561.0) * a[d] - (25360.0 / 2187.0) * b[d] + (64448.0 / 6561.0) * c[d]
                - (212.0 / 729.0) * e[d]
                for d in range(STATE)
            ),
        ), p, frame, noise, manner,
    )  # fmt: skip
    g = _field(
        t + h,
        _along(
            y, h,
            tuple(
                (9017.0 / 3168.0) * a[d] - (355.0 / 33.0) * b[d] + (46732.0 / 5247.0) * c[d]
                + (49.0 / 176.0) * e[d] - (5103.0 / 18656.0) * f[d]
                for d in range(STATE)
            ),
        ), p, frame, noise, manner,
    )  # fmt: skip
    after = _along(
        y, h,
        tuple(
            (35.0 / 384.0) * a[d] + (500.0 / 1113.0) * c[d] + (125.0 / 192.0) * e[d]
            - (2187.0 / 6784.0) * f[d] + (11.0 / 84.0) * g[d]
            for d in range(STATE)
        ),
    )  # fmt: skip
    last = _field(t + h, after, p, frame, noise, manner)
    error = tuple(
        h * (
            (71.0 / 57600.0) * a[d] - (71.0 / 16695.0) * c[d] + (71.0 / 1920.0) * e[d]
            - (17253.0 / 339200.0) * f[d] + (22.0 / 525.0) * g[d] - (1.0 / 40.0) * last[d]
        )
        for d in range(STATE)
    )  # fmt: skip
    bend = error
    if WATCHED:
        bend = watch.bend_of(h, a, c, e, f, g, last)
    return after, last, error, bend


def _square(x, y, atol, rtol, fine):
    """Mean square of `x` in units of the tolerance at the state `y`."""
    total = real(0.0)
    for d in range(DIMENSION):
        one = x[d] / (atol[d] + rtol * abs(y[d]))
        total += one * one
    if WIDE:
        wide = sizes(y)
        for i in range(DIMENSION, DIMENSION * (1 + DIMENSION)):
            one = x[i] / (fine * wide[i % DIMENSION])
            total += one * one
    if KILLED:
        one = x[STATE - 1] / (fine * (real(1.0) + abs(y[STATE - 1])))
        total += one * one
    return total / real(STATE)


def _growth(square):
    """Ratio of the next step to this one, from the mean square of the error."""
    power = min(max(fma(rough_log2(square), real(-0.1), real(_SAFETY)), real(-_MOST)), real(_MOST))
    # 2^power as the fourth power of a cubic.
    x = real(0.17328679513998632) * power
    root = fma(x, fma(x, fma(x, real(1.0 / 6.0), real(0.5)), real(1.0)), real(1.0))
    return np.float64(root * root) * np.float64(root * root)


_SAFETY = -0.152003  # log2(0.9)
_MOST = 2.321928  # log2 of the largest step ratio, 5


def _first(slope, y, atol, rtol, fine, longest):
    """A first step."""
    rise = np.float64(_square(slope, y, atol, rtol, fine))
    size = np.float64(_square(y, y, atol, rtol, fine))
    if rise > 0.0:
        return min(longest, np.float64(0.01) * math.sqrt(max(size, np.float64(1.0)) / rise))
    return longest


def follow(
    index, count, begin, end, rtol, atols, noise, manner, frames, points, log_weights, steps,
    killed, nearest,
):  # fmt: skip
    """Carry one cell of one density from a time to another: a kernel body.

    Model: `rtol` [density], `atols` [density, dimension]; `noise` and `manner`, see `gaussians`.
    In and out: `points` [state, density, count], `log_weights` [density, count]; `steps`
    [density, count], the length of the next step, zero before the first; `killed` [density, count],
    what a killing rate has added to the log-weights, if there is one; `nearest` [2 + 2 components,
    density, count], the nearest place along the path, if it is watched: its size and time, the
    place, and its velocity.
    """
    which = index // count
    place = index - which * count
    if log_weights[which, place] == -math.inf:
        return
    frame = frame_of(frames, which)
    p = tuple(frame.parameters[j] for j in range(PARAMETERS))
    atol = tuple(real(atols[which, d]) for d in range(DIMENSION))
    relative, fine = real(rtol[which]), real(manner[2])
    y = _start(points, which, place)
    t = np.float64(begin)
    longest = (end - begin) / np.float64(PARTS)
    a = _field(real(t), y, p, frame, noise, manner)
    h = np.float64(steps[which, place])
    if h <= 0.0:
        h = _first(a, y, atol, relative, fine, longest)
    if WATCHED:
        best = watch.known(nearest, which, place)
    taken = 0
    failed = not math.isfinite(h)
    while t < end and not failed:
        h = min(h, longest)
        last = h >= end - t
        step = end - t if last else h
        after, slope, error, bend = _stages(real(t), real(step), y, a, p, frame, noise, manner)
        square = _square(error, y, atol, relative, fine)
        taken += 1
        failed = taken > _STEPS_MOST or t + step == t
        kept = square <= 1.0
        if kept:
            if WATCHED:
                best = watch.nearer(best, t, real(step), y, after, a, slope, bend, frame)
            t = end if last else t + step
            y = after
            a = slope
        following = _growth(square) * step
        # The last step is cut at the end: the next one is at least as long as it could have been.
        h = max(h, following) if last and kept else following
    if WATCHED:
        for k in range(2 * watch.COMPONENTS + 2):
            nearest[k, which, place] = best[k]
    _leave(which, place, failed, h, y, points, log_weights, steps, killed)


def _leave(which, place, failed, h, y, points, log_weights, steps, killed):
    """Write where a point is at the end."""
    if failed:
        log_weights[which, place] = -math.inf
    else:
        steps[which, place] = h
        for d in range(STATE - 1 if KILLED else STATE):
            points[d, which, place] = y[d]
        if KILLED:
            log_weights[which, place] -= np.float64(y[STATE - 1])
            killed[which, place] -= np.float64(y[STATE - 1])


def follow_lanes(
    start, stop, count, begin, end, rtol, atols, noise, manner, frames, points, log_weights, steps,
    killed, nearest,
):  # fmt: skip
    """Carry points of a range from a time to another, LANES at once: a kernel body for a CPU.

    Arguments are those of `follow`.
    """
    fine = real(manner[2])
    longest = (end - begin) / np.float64(PARTS)
    # Rows of state, slope, parameters, tolerances; and of times, steps, numbers of steps, flags.
    rows = np.empty((2 * STATE + PARAMETERS + DIMENSION + 1, LANES), real)
    control = np.empty((4, LANES), np.float64)
    who = np.empty(LANES, np.int64)
    rows.fill(1.0)
    control.fill(0.0)
    following = start
    under_way = 0
    waiting = LANES
    while under_way > 0 or following < stop:
        for lane in range(LANES if waiting > 0 else 0):
            if control[3, lane] > 1.0:
                which = who[lane] // count
                _leave(
                    which, who[lane] - which * count, control[3, lane] > 2.0, control[1, lane],
                    tuple(rows[d, lane] for d in range(STATE)), points, log_weights, steps, killed,
                )  # fmt: skip
                control[3, lane] = 0.0
                under_way -= 1
            while control[3, lane] == 0.0 and following < stop:
                which = following // count
                place = following - which * count
                who[lane] = following
                following += 1
                if log_weights[which, place] > -math.inf:
                    y = _start(points, which, place)
                    p = tuple(frames.parameters[which, j] for j in range(PARAMETERS))
                    atol = tuple(real(atols[which, d]) for d in range(DIMENSION))
                    a = _field(real(begin), y, p, frames, noise, manner)
                    h = np.float64(steps[which, place])
                    if h <= 0.0:
                        h = _first(a, y, atol, real(rtol[which]), fine, longest)
                    for d in unroll(range(STATE)):
                        rows[d, lane] = y[d]
                        rows[STATE + d, lane] = a[d]
                    for j in unroll(range(PARAMETERS)):
                        rows[2 * STATE + j, lane] = p[j]
                    for d in unroll(range(DIMENSION)):
                        rows[2 * STATE + PARAMETERS + d, lane] = atol[d]
                    rows[2 * STATE + PARAMETERS + DIMENSION, lane] = real(rtol[which])
                    control[0, lane] = begin
                    control[1, lane] = h
                    control[2, lane] = 0.0
                    control[3, lane] = 1.0
                    under_way += 1
        waiting = 0
        for lane in range(LANES):
            y = tuple(rows[d, lane] for d in range(STATE))
            a = tuple(rows[STATE + d, lane] for d in range(STATE))
            p = tuple(rows[2 * STATE + j, lane] for j in range(PARAMETERS))
            atol = tuple(rows[2 * STATE + PARAMETERS + d, lane] for d in range(DIMENSION))
            t = control[0, lane]
            h = min(control[1, lane], longest)
            last = h >= end - t
            step = end - t if last else h
            after, slope, error, _ = _stages(real(t), real(step), y, a, p, frames, noise, manner)
            square = _square(
                error, y, atol, rows[2 * STATE + PARAMETERS + DIMENSION, lane], fine
            )  # fmt: skip
            kept = square <= 1.0
            for d in unroll(range(STATE)):
                rows[d, lane] = after[d] if kept else y[d]
                rows[STATE + d, lane] = slope[d] if kept else a[d]
            taken = control[2, lane] + 1.0
            grown = _growth(square) * step
            now = (end if last else t + step) if kept else t
            control[0, lane] = now
            control[1, lane] = max(h, grown) if last & kept else grown
            control[2, lane] = taken
            failed = (taken > _STEPS_MOST) | (t + step == t) | (not (h < math.inf))
            here = control[3, lane] == 1.0
            arrived = here & ((now >= end) | failed)
            control[3, lane] = (3.0 if failed else 2.0) if arrived else control[3, lane] + 0.0
            waiting += 1 if arrived else 0


def shift(index, count, changes, points):
    """Move one point of one density by `changes` [density, dimension]: a kernel body."""
    which = index // count
    place = index - which * count
    for d in range(DIMENSION):
        points[d, which, place] += changes[which, d]
