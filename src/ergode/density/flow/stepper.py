"""Points carried by the field: the explicit method of order 8 by Dormand and Prince.

Each point chooses its own steps. On a CPU a thread attempts a step of LANES points at once, in a
loop without branches that the compiler vectorises; a point that has arrived makes room for the
next. Gaussian cells and watched paths go one by one, by the pair of orders 5 and 4. A point that
becomes infinite, or needs too many steps, stays where it was last, and its mass is dropped: the
logarithm of its weight becomes minus infinity. A killing rate is integrated along the path, as one
more variable of the point.

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed. (1993),
II.5 and II.10.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.core.math.elementary import rough_log2
from ergode.core.math.tableaus import DOP853
from ergode.density.flow import nearest as watch
from ergode.density.flow.gaussians import STATE, WIDE, motion, sizes
from ergode.density.flow.nearest import WATCHED
from ergode.density.grid.lattice import (
    DIMENSION,
    KILLED,
    PARAMETERS,
    frame_of,
    killing,
    parameters_of,
    rhs,
)

A, B, C, ERROR, CORRECTION, ORDER = (
    option(one) for one in (DOP853.a, DOP853.b, DOP853.c, DOP853.error, DOP853.correction, 8)
)
"""Tableau of the method (see `core.math.tableaus`)."""

PARTS = option(1)
"""Least number of steps between two times: more for a field that depends on time."""

LANES = 32
"""Points that a thread of a CPU carries at once."""

_STEPS_MOST = 200_000


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


def _plus(factor, x, y):
    """The sum of `y` and a multiple of `x`."""
    return tuple(fma(factor, x[d], y[d]) for d in range(STATE))


def _stages(t, h, y, a, p, frame, noise, manner):
    """The state after a step, its slope there, estimated errors, and the bend of the step."""
    none = tuple(real(0.0) for d in range(STATE))
    k = (a,)
    for s in unroll(range(1, len(C))):
        slope = none
        for j in unroll(range(s)):
            if A[s][j] != 0.0:
                slope = _plus(A[s][j], k[j], slope)
        there = _plus(h, slope, y)
        k = k + (_field(t + real(C[s]) * h, there, p, frame, noise, manner),)  # noqa: RUF005
    slope = none
    for j in unroll(range(len(C))):
        if B[j] != 0.0:
            slope = _plus(B[j], k[j], slope)
    after = _plus(h, slope, y)
    last = _field(t + h, after, p, frame, noise, manner)
    k = k + (last,)  # noqa: RUF005
    error = none
    for j in unroll(range(len(ERROR))):
        if ERROR[j] != 0.0:
            error = _plus(ERROR[j], k[j], error)
    error = _plus(h, error, none)
    coarse = none
    for j in unroll(range(len(CORRECTION))):
        if CORRECTION[j] != 0.0:
            coarse = _plus(CORRECTION[j], k[j], coarse)
    coarse = _plus(h, coarse, none)
    bend = error
    if WATCHED:
        bend = watch.bend_of(h, k[0], k[2], k[3], k[4], k[5], last)
    return after, last, error, coarse, bend


def _scales(y, atol, rtol, fine):
    """One over the tolerance of each variable at the state `y`."""
    if WIDE:
        wide = sizes(y)
        return tuple(
            real(1.0) / (atol[i] + rtol * abs(y[i])) if i < DIMENSION
            else real(1.0) / (fine * wide[i % DIMENSION])
            for i in range(STATE)
        )  # fmt: skip
    return tuple(
        real(1.0) / (atol[i] + rtol * abs(y[i])) if i < DIMENSION
        else real(1.0) / (fine * (real(1.0) + abs(y[i])))
        for i in range(STATE)
    )  # fmt: skip


def _square(x, scales):
    """Mean square of `x`, in units of the tolerance."""
    return sum((x[i] * scales[i]) * (x[i] * scales[i]) for i in range(STATE)) * real(1.0 / STATE)


def _missed(error, coarse, y, atol, rtol, fine):
    """Mean square of the error of a step from both estimates, in units of the tolerance."""
    scales = _scales(y, atol, rtol, fine)
    found = _square(error, scales)
    if len(CORRECTION) > 0:
        return found * found / max(found + real(0.01) * _square(coarse, scales), real(1e-30))
    return found


def _growth(square):
    """Ratio of the next step to this one, from the mean square of the error."""
    power = min(
        max(fma(rough_log2(square), real(-0.5 / ORDER), real(_SAFETY)), real(-_MOST)), real(_MOST)
    )
    # 2^power as the fourth power of a cubic.
    x = real(0.17328679513998632) * power
    root = fma(x, fma(x, fma(x, real(1.0 / 6.0), real(0.5)), real(1.0)), real(1.0))
    return np.float64(root * root) * np.float64(root * root)


_SAFETY = -0.152003  # log2(0.9)
_MOST = 2.321928  # log2 of the largest step ratio, 5
_SHORT = 0.05  # a first step, relative to the time in which the state changes by its own size


def _first(slope, y, atol, rtol, fine, longest):
    """A first step."""
    scales = _scales(y, atol, rtol, fine)
    rise = np.float64(_square(slope, scales))
    size = np.float64(_square(y, scales))
    if rise > 0.0:
        return min(longest, np.float64(_SHORT) * math.sqrt(max(size, np.float64(1.0)) / rise))
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
    p = parameters_of(frame)
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
        after, slope, error, coarse, bend = _stages(
            real(t), real(step), y, a, p, frame, noise, manner
        )
        square = _missed(error, coarse, y, atol, relative, fine)
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
                    p = parameters_of(frame_of(frames, which))
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
            after, slope, error, coarse, _ = _stages(
                real(t), real(step), y, a, p, frames, noise, manner
            )
            square = _missed(
                error, coarse, y, atol, rows[2 * STATE + PARAMETERS + DIMENSION, lane], fine
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
