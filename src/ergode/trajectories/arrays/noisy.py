"""Steps of stochastic differential equations for fields of arrays (see `steppers.noise`).

    dy_i = f_i(t, y) dt + g_i(t, y) dW_i

Every unknown has a Wiener process.  Its increments are those of the variable of the same number, so
the same equations written with names have the same paths.  `take_step` is for a group of threads,
and `step_lanes` for several trajectories; their results are bitwise equal.
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
from ergode.trajectories.steppers.noise import SCHEME, increment

# Rows after the slopes at both ends of a step: amplitudes g where it begins, and a second time:
# for Milstein at a displaced state, for SRA1 at the end of the step.
_SPREAD, _OTHER = 2, 3
ROWS_OF = (0, 1, 2, 2)
"""Number of these rows, by the scheme."""


def take_step(me, group, step, t, h, t1, p, run, w):
    """State at the end of a step, and the slope there."""
    # Loops of draws do nothing else: so they are vectorised.
    n, trajectory = w.y.size, run.offset + me
    root = math.sqrt(h)
    amplitudes(group, t, w.y, p, run, w.k[_SPREAD])
    if SCHEME == 2:
        for i in unknowns(group, n):
            w.stage[0, i] = _displaced(h, root, w.y[i], w.k[0, i], w.k[_SPREAD, i])
        barrier(group)
        amplitudes(group, t, w.stage[0], p, run, w.k[_OTHER])
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
        for i in unknowns(group, n):
            drawn = w.stage[END, i]
            end = fma(w.k[_SPREAD, i], drawn, fma(h, w.k[0, i], w.y[i]))
            if SCHEME == 2:
                end += _bent(h, root, w.k[_SPREAD, i], w.k[_OTHER, i], drawn)
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
        amplitudes_of_lanes(lanes.t, lanes.stage[0], lanes.p, run, lanes.k[_OTHER])
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
                drawn = increment(h, run.source, run.offset + first + lane, i, step)[0]
                g = lanes.k[_SPREAD, i, lane]
                end = fma(g, drawn, fma(h, lanes.k[0, i, lane], lanes.y[i, lane]))
                if SCHEME == 2:
                    end += _bent(h, root, g, lanes.k[_OTHER, i, lane], drawn)
                lanes.stage[END, i, lane] = end
    evaluate_lanes(lanes.t1, lanes.stage[END], lanes.p, run, lanes.k[1])


def _displaced(h, root, y, f, g):
    """State at which Milstein's scheme evaluates the amplitude again."""
    return fma(root, g, fma(h, f, y))


def _bent(h, root, g, moved, drawn):
    """What Milstein's scheme adds to Euler's."""
    return (moved - g) * (drawn * drawn - h) / (2.0 * root)


def _inner(h, y, f, g, mean):
    """State of the second stage of SRA1; `mean` is of W over the step."""
    return fma(0.75 * h, f, y) + 1.5 * g * mean


def _additive(h, y, f, inner, g, later, drawn, mean):
    """State at the end of a step of SRA1."""
    return y + h * (f + 2.0 * inner) / 3.0 + later * drawn + (g - later) * mean
