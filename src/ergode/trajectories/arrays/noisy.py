"""Steps of stochastic differential equations for fields of arrays (see `steppers.noise`).

    dy_i = f_i(t, y) dt + g_i(t, y) dW_i

Every unknown has a Wiener process.  Its increments are those of the variable of the same number, so
the same equations written with names have the same paths.  In the sense of Stratonovich the methods
are those of `steppers.noise`.  `take_step` is for a group of threads, and `step_lanes` for several
trajectories; their results are bitwise equal.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import fma, noinline_cpu, real
from ergode.core.group import barrier
from ergode.trajectories.arrays.equations import (
    amplitudes,
    amplitudes_of_lanes,
    evaluate,
    evaluate_lanes,
    unknowns,
)
from ergode.trajectories.arrays.group import END
from ergode.trajectories.steppers.noise import SCHEME, STRATONOVICH, increment

# Rows after the slopes at both ends of a step: amplitudes g where it begins, and a second time:
# for Milstein at a displaced state, for SRA1 and Heun at the end of the step. In the sense of
# Stratonovich, Milstein's are at states displaced to both sides.
_SPREAD, _OTHER, _BELOW = 2, 3, 4


def rows_of(scheme: int, *, is_stratonovich: bool) -> int:
    """Number of these rows."""
    return (0, 2, 3, 2)[scheme] if is_stratonovich else (0, 1, 2, 2)[scheme]


def take_step(me, group, step, t, h, t1, p, run, w):
    """State at the end of a step, and the slope there."""
    # Loops of draws do nothing else: so they are vectorised.
    n, trajectory = w.y.size, run.offset + me
    root = math.sqrt(h)
    amplitudes(group, t, w.y, p, run, w.k[_SPREAD])
    if SCHEME == 2:
        for i in unknowns(group, n):
            w.stage[0, i] = _displaced(h, root, w.y[i], w.k[0, i], w.k[_SPREAD, i])
            if STRATONOVICH:
                w.stage[1, i] = fma(-root, w.k[_SPREAD, i], w.y[i])
        barrier(group)
        amplitudes(group, t, w.stage[0], p, run, w.k[_OTHER])
        if STRATONOVICH:
            amplitudes(group, t, w.stage[1], p, run, w.k[_BELOW])
    if SCHEME == 3:
        amplitudes(group, t1, w.y, p, run, w.k[_OTHER])
        for i in unknowns(group, n):
            drawn, integral = increment(h, run.source, trajectory, i, step)
            w.stage[1, i] = drawn
            w.stage[END, i] = integral / h
        for i in unknowns(group, n):
            w.stage[0, i] = _inner(h, w.y[i], w.k[0, i], w.k[_SPREAD, i], w.stage[END, i])
        barrier(group)
        evaluate(group, fma(real(0.75), h, t), w.stage[0], p, run, w.k[1])
        for i in unknowns(group, n):
            w.stage[END, i] = _additive(
                h, w.y[i], w.k[0, i], w.k[1, i], w.k[_SPREAD, i], w.k[_OTHER, i], w.stage[1, i],
                w.stage[END, i],
            )  # fmt: skip
    else:
        for i in unknowns(group, n):
            w.stage[END, i] = increment(h, run.source, trajectory, i, step)[0]
        if SCHEME == 1 and STRATONOVICH:
            for i in unknowns(group, n):
                drift = fma(h, w.k[0, i], w.y[i])
                w.stage[0, i] = fma(w.k[_SPREAD, i], w.stage[END, i], drift)
            barrier(group)
            amplitudes(group, t1, w.stage[0], p, run, w.k[_OTHER])
        for i in unknowns(group, n):
            drawn, g = w.stage[END, i], w.k[_SPREAD, i]
            if SCHEME == 1 and STRATONOVICH:
                g = 0.5 * (g + w.k[_OTHER, i])
            end = fma(g, drawn, fma(h, w.k[0, i], w.y[i]))
            if SCHEME == 2 and STRATONOVICH:
                end += _bent_both(root, w.k[_OTHER, i], w.k[_BELOW, i], drawn)
            elif SCHEME == 2:
                end += _bent(h, root, g, w.k[_OTHER, i], drawn)
            w.stage[END, i] = end
    barrier(group)
    evaluate(group, t1, w.stage[END], p, run, w.k[1])


@noinline_cpu
def step_lanes(first, step, h, run, lanes):
    """As `take_step`, for every lane; the trajectories are those from `first` on."""
    n, width = lanes.y.shape
    root = math.sqrt(h)
    amplitudes_of_lanes(lanes.t, lanes.y, lanes.p, run, lanes.k[_SPREAD])
    if SCHEME == 2:
        for i in range(n):
            for lane in range(width):
                lanes.stage[0, i, lane] = _displaced(
                    h, root, lanes.y[i, lane], lanes.k[0, i, lane], lanes.k[_SPREAD, i, lane]
                )
                if STRATONOVICH:
                    lanes.stage[1, i, lane] = fma(
                        -root, lanes.k[_SPREAD, i, lane], lanes.y[i, lane]
                    )
        amplitudes_of_lanes(lanes.t, lanes.stage[0], lanes.p, run, lanes.k[_OTHER])
        if STRATONOVICH:
            amplitudes_of_lanes(lanes.t, lanes.stage[1], lanes.p, run, lanes.k[_BELOW])
    if SCHEME == 3:
        amplitudes_of_lanes(lanes.t1, lanes.y, lanes.p, run, lanes.k[_OTHER])
        for lane in range(width):
            lanes.at[lane] = fma(real(0.75), h, lanes.t[lane])
        for i in range(n):
            for lane in range(width):
                drawn, integral = increment(h, run.source, run.offset + first + lane, i, step)
                lanes.stage[1, i, lane] = drawn
                lanes.stage[END, i, lane] = integral / h
                lanes.stage[0, i, lane] = _inner(
                    h, lanes.y[i, lane], lanes.k[0, i, lane], lanes.k[_SPREAD, i, lane],
                    integral / h,
                )  # fmt: skip
        evaluate_lanes(lanes.at, lanes.stage[0], lanes.p, run, lanes.k[1])
        for i in range(n):
            for lane in range(width):
                lanes.stage[END, i, lane] = _additive(
                    h, lanes.y[i, lane], lanes.k[0, i, lane], lanes.k[1, i, lane],
                    lanes.k[_SPREAD, i, lane], lanes.k[_OTHER, i, lane], lanes.stage[1, i, lane],
                    lanes.stage[END, i, lane],
                )  # fmt: skip
    else:
        for i in range(n):
            for lane in range(width):
                lanes.stage[END, i, lane] = increment(
                    h, run.source, run.offset + first + lane, i, step
                )[0]
        if SCHEME == 1 and STRATONOVICH:
            for i in range(n):
                for lane in range(width):
                    drift = fma(h, lanes.k[0, i, lane], lanes.y[i, lane])
                    lanes.stage[0, i, lane] = fma(
                        lanes.k[_SPREAD, i, lane], lanes.stage[END, i, lane], drift
                    )
            amplitudes_of_lanes(lanes.t1, lanes.stage[0], lanes.p, run, lanes.k[_OTHER])
        for i in range(n):
            for lane in range(width):
                drawn, g = lanes.stage[END, i, lane], lanes.k[_SPREAD, i, lane]
                if SCHEME == 1 and STRATONOVICH:
                    g = 0.5 * (g + lanes.k[_OTHER, i, lane])
                end = fma(g, drawn, fma(h, lanes.k[0, i, lane], lanes.y[i, lane]))
                if SCHEME == 2 and STRATONOVICH:
                    end += _bent_both(
                        root, lanes.k[_OTHER, i, lane], lanes.k[_BELOW, i, lane], drawn
                    )
                elif SCHEME == 2:
                    end += _bent(h, root, g, lanes.k[_OTHER, i, lane], drawn)
                lanes.stage[END, i, lane] = end
    evaluate_lanes(lanes.t1, lanes.stage[END], lanes.p, run, lanes.k[1])


def _displaced(h, root, y, f, g):
    """State at which Milstein's scheme evaluates the amplitude again."""
    return fma(root, g, y) if STRATONOVICH else fma(root, g, fma(h, f, y))


def _bent(h, root, g, moved, drawn):
    """What Milstein's scheme adds to Euler's."""
    return (moved - g) * (drawn * drawn - h) / (2.0 * root)


def _bent_both(root, above, below, drawn):
    """As `_bent`, in the sense of Stratonovich."""
    return (above - below) * drawn * drawn / (4.0 * root)


def _inner(h, y, f, g, mean):
    """State of the second stage of SRA1; `mean` is of W over the step."""
    return fma(0.75 * h, f, y) + 1.5 * g * mean


def _additive(h, y, f, inner, g, later, drawn, mean):
    """State at the end of a step of SRA1."""
    return y + h * (f + 2.0 * inner) / 3.0 + later * drawn + (g - later) * mean
