"""Points carried by the field: the explicit pair of orders 5 and 4 by Dormand and Prince.

Each point chooses its own steps. A point that becomes infinite, or needs too many steps, stays
where it was last, and its mass is dropped: the logarithm of its weight becomes minus infinity. A
killing rate is integrated along the path, as one more variable of the point.

J. R. Dormand, P. J. Prince, "A family of embedded Runge-Kutta formulae", J. Comput. Appl. Math. 6
(1980).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import option, real
from ergode.density.flow import nearest as watch
from ergode.density.flow.gaussians import STATE, WIDE, motion, sizes
from ergode.density.flow.nearest import WATCHED
from ergode.density.grid.lattice import (
    DIMENSION,
    KILLED,
    PARAMETERS,
    field_at,
    frame_of,
    killing,
)

PARTS = option(1)
"""Least number of steps between two times: more for a field that depends on time."""

_STEPS_MOST = 200_000


def _along(y, h, slope):
    """The state after a step `h` with a slope."""
    return tuple(y[d] + h * slope[d] for d in range(STATE))


def _field(t, y, frame, noise, manner):
    if WIDE:
        return motion(t, y, frame, noise, manner)
    if KILLED:
        state = tuple(y[d] for d in range(DIMENSION))
        f = field_at(t, state, frame)
        rate = real(killing(state, t, tuple(frame.parameters[j] for j in range(PARAMETERS)))[0])
        if rate < 0.0:
            rate = real(math.nan)  # the point is dropped
        return tuple(real(f[d]) if d < DIMENSION else rate for d in range(STATE))
    f = field_at(t, y, frame)
    return tuple(real(f[d]) for d in range(DIMENSION))


def _start(points, which, place):
    """The variables of a point, before a step."""
    if KILLED:
        return tuple(points[d, which, place] if d < DIMENSION else real(0.0) for d in range(STATE))
    return tuple(points[d, which, place] for d in range(STATE))


def _stages(t, h, y, a, frame, noise, manner):
    """The state after a step, its slope there, the estimated error, and the bend of the step."""
    b = _field(
        t + 0.2 * h, _along(y, h, tuple(0.2 * a[d] for d in range(STATE))), frame, noise, manner
    )
    c = _field(
        t + 0.3 * h,
        _along(y, h, tuple(0.075 * a[d] + 0.225 * b[d] for d in range(STATE))),
        frame, noise, manner,
    )  # fmt: skip
    e = _field(
        t + 0.8 * h,
        _along(
            y, h,
            tuple(
                (44.0 / 45.0) * a[d] - (56.0 / 15.0) * b[d] + (32.0 / 9.0) * c[d]
                for d in range(STATE)
            ),
        ), frame, noise, manner,
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
        ), frame, noise, manner,
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
        ), frame, noise, manner,
    )  # fmt: skip
    after = _along(
        y, h,
        tuple(
            (35.0 / 384.0) * a[d] + (500.0 / 1113.0) * c[d] + (125.0 / 192.0) * e[d]
            - (2187.0 / 6784.0) * f[d] + (11.0 / 84.0) * g[d]
            for d in range(STATE)
        ),
    )  # fmt: skip
    last = _field(t + h, after, frame, noise, manner)
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


def _size(x, y, atol, rtol, manner):
    """Root mean square of `x` in units of the tolerance at the state `y`."""
    total = real(0.0)
    for d in range(DIMENSION):
        one = x[d] / (real(atol[d]) + real(rtol) * abs(y[d]))
        total += one * one
    if WIDE:
        wide = sizes(y)
        for i in range(DIMENSION, STATE):
            one = x[i] / (real(manner[2]) * wide[i % DIMENSION])
            total += one * one
    if KILLED:
        one = x[DIMENSION] / (real(manner[2]) * (real(1.0) + abs(y[DIMENSION])))
        total += one * one
    return math.sqrt(total / real(STATE))


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
    atol = atols[which]
    y = _start(points, which, place)
    t = np.float64(begin)
    longest = (end - begin) / np.float64(PARTS)
    a = _field(real(t), y, frame, noise, manner)
    h = np.float64(steps[which, place])
    if h <= 0.0:
        slope = np.float64(_size(a, y, atol, rtol[which], manner))
        state = np.float64(_size(y, y, atol, rtol[which], manner))
        h = longest
        if slope > 0.0:
            h = min(h, np.float64(0.01) * max(state, np.float64(1.0)) / slope)
    if WATCHED:
        best = watch.known(nearest, which, place)
    taken = 0
    failed = not math.isfinite(h)
    while t < end and not failed:
        h = min(h, longest)
        last = h >= end - t
        step = end - t if last else h
        after, slope, error, bend = _stages(real(t), real(step), y, a, frame, noise, manner)
        size = np.float64(_size(error, y, atol, rtol[which], manner))
        taken += 1
        failed = taken > _STEPS_MOST or t + step == t
        if size <= 1.0:
            if WATCHED:
                best = watch.nearer(best, t, real(step), y, after, a, slope, bend, frame)
            t = end if last else t + step
            y = after
            a = slope
        factor = np.float64(0.2)
        if math.isfinite(size):
            factor = np.float64(5.0)
            if size > 0.0:
                factor = min(max(np.float64(0.9) * size**-0.2, np.float64(0.2)), factor)
        # The last step is cut at the end: the next one is at least as long as it could have been.
        h = max(h, factor * step) if last and size <= 1.0 else factor * step
    if WATCHED:
        for k in range(2 * watch.COMPONENTS + 2):
            nearest[k, which, place] = best[k]
    if failed:
        log_weights[which, place] = -math.inf
    else:
        steps[which, place] = h
        for d in range(STATE - 1 if KILLED else STATE):
            points[d, which, place] = y[d]
        if KILLED:
            log_weights[which, place] -= np.float64(y[DIMENSION])
            killed[which, place] -= np.float64(y[DIMENSION])


def lay(index, count, means, edges, places, log_share, points, log_weights):
    """Lay one point of the lattice of one density: a kernel body.

    Model: `means` [density, dimension], `edges` of a cell [density, dimension, axis], `places`
    [axis, count], `log_share` [count]. Out: `points` [dimension, density, count], `log_weights`
    [density, count].
    """
    which = index // count
    place = index - which * count
    for d in range(DIMENSION):
        at = means[which, d]
        for k in range(DIMENSION):
            at += edges[which, d, k] * places[k, place]
        points[d, which, place] = at
    log_weights[which, place] = log_share[place]


def shift(index, count, changes, points):
    """Move one point of one density by `changes` [density, dimension]: a kernel body."""
    which = index // count
    place = index - which * count
    for d in range(DIMENSION):
        points[d, which, place] += changes[which, d]


def choose(index, count, numbers, source, out):
    """Copy one of the chosen columns of one row: a kernel body.

    Model: `numbers` [count] of columns, `source` [row, ...]. Out: `out` [row, count].
    """
    row = index // count
    place = index - row * count
    out[row, place] = source[row, numbers[place]]
