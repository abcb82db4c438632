"""Steps of a Rosenbrock method (see `steppers.rosenbrock`) of a group of threads.

The matrix 1 / (h gamma) - J is one of `banded`.

Rows of the slopes are: the slope where the step begins; the stages u / h; the slope at the end;
then the time derivative, a scratch row, the pivots, and the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.core.compiler.source import Precision
from ergode.core.group import barrier, totals_of
from ergode.trajectories.arrays import banded
from ergode.trajectories.arrays.banded import PLACES, put_jacobian
from ergode.trajectories.arrays.equations import evaluate, unknowns
from ergode.trajectories.arrays.group import END
from ergode.trajectories.steppers import explicit, rosenbrock, stepper
from ergode.trajectories.steppers.equations import EPSILON
from ergode.trajectories.steppers.explicit import C
from ergode.trajectories.steppers.inside_step import dense_weights, slope_weights
from ergode.trajectories.steppers.rosenbrock import GAMMA
from ergode.trajectories.steppers.stepper import ADAPTS, DENSE, PROBES, absolute

STAGES = option(8)

EXACT = 1e-8  # part of the state to which stages are solved in steps of one size
LEAST_SCALE = 1e-30
_LEAST_MOVED = 1e-5  # state for which the difference of a derivative is taken, at least
# Columns of a row of the tableau (see `tableau_rows`), before the couplings of the stages.
_ALPHA, _GAMMAS, _END, _COUPLED = 0, 1, 2, 3


def take_stages(group, t, h, t1, looked, p, run, w):
    """All stages of a step, its end and the slope there (see `group.implicit_stages`)."""
    n, b = w.y.size, w.stage[1]
    slopes_by_time(group, t, h, p, run, w)
    factorise(group, t, h, p, run, w)
    for s in range(STAGES):
        right_hand_side(group, s, t, h, p, run, w)
        for i in unknowns(group, n):
            b[run.stage_begins[PLACES + i]] = w.k[1 + s, i]
        barrier(group)
        solve(group, b, run, w)
        for i in unknowns(group, n):
            w.k[1 + s, i] = b[run.stage_begins[PLACES + i]] / h
        barrier(group)
    end_of_step(group, h, t1, p, run, w)
    return real(0.0), missed_inside(group, t, h, looked, p, run, w)


def missed_inside(group, t, h, looked, p, run, w):
    """Sum of the squares of the dense output's error (see `stepper`); 0 if not `looked` into."""
    worst = real(0.0)
    b, row = w.stage[1], STAGES + 3
    for q in range(len(PROBES) if looked else 0):
        defect_inside(group, q, row, t, h, p, run, w)
        for i in unknowns(group, w.y.size):
            b[run.stage_begins[PLACES + i]] = w.k[row, i]
        barrier(group)
        solve(group, b, run, w)
        total = real(0.0)
        for i in unknowns(group, w.y.size):
            total += square_of_error(b[run.stage_begins[PLACES + i]], i, run, w)
        total = totals_of(group, total, total)[0]
        worst = worst if total <= worst else total  # which may be no number
    return worst


def defect_inside(group, q, row, t, h, p, run, w):
    """Set a row of slopes to u' - f of the dense output u at one of the PROBES."""
    x = real(0.0)
    for each in unroll(range(len(PROBES))):
        x = real(PROBES[each]) if q == each else x
    weights, slopes = dense_weights(x), slope_weights(x)
    for i in unknowns(group, w.y.size):
        moved = sum(weights[j] * w.k[j, i] for j in range(len(DENSE)))
        w.stage[0, i] = fma(h, moved, w.y[i])
    barrier(group)
    evaluate(group, fma(x, h, t), w.stage[0], p, run, w.k[row])
    for i in unknowns(group, w.y.size):
        w.k[row, i] = sum(slopes[j] * w.k[j, i] for j in range(len(DENSE))) - w.k[row, i]


def square_of_error(error, i, run, w):
    """Square of an error of unknown `i` in a step, in tolerances."""
    part = error / fma(run.rtol, max(abs(w.y[i]), abs(w.stage[END, i])), absolute(run.atol, i))
    return part * part


def slopes_by_time(group, t, h, p, run, w):
    """Set the time derivative of the slopes where a step begins."""
    barrier(group)
    row = STAGES + 2
    later = t + max(math.sqrt(EPSILON) * h, min(h, 64.0 * EPSILON * abs(t)))
    evaluate(group, later, w.y, p, run, w.k[row])
    for i in unknowns(group, w.y.size):
        w.k[row, i] = (w.k[row, i] - w.k[0, i]) / (later - t)


def right_hand_side(group, s, t, h, p, run, w):
    """Set the row of stage `s` to the right-hand side of its linear system."""
    n, table, stage = w.y.size, run.stages, w.stage[0]
    time_row, scratch = STAGES + 2, STAGES + 3
    for i in unknowns(group, n):
        stage[i] = w.y[i]
    for j in range(s):
        weight = h * table[s, _COUPLED + j]
        for i in unknowns(group, n):
            stage[i] = fma(weight, w.k[1 + j, i], stage[i])
    barrier(group)
    evaluate(group, fma(table[s, _ALPHA], h, t), stage, p, run, w.k[scratch])
    for i in unknowns(group, n):
        w.k[1 + s, i] = fma(table[s, _GAMMAS] * h, w.k[time_row, i], w.k[scratch, i])
    for j in range(s):
        weight = table[s, _COUPLED + STAGES + j]
        for i in unknowns(group, n):
            w.k[1 + s, i] = fma(weight, w.k[1 + j, i], w.k[1 + s, i])


def set_tolerances(group, row, run, w):
    """Set the tolerances of the unknowns where a step begins; the size of the state in them.

    In steps of one size they are a small part of the state.
    """
    n = w.y.size
    total = real(0.0)
    for i in unknowns(group, n):
        total += w.y[i] * w.y[i]
    size = math.sqrt(totals_of(group, total, total)[0] / real(n))
    total = real(0.0)
    for i in unknowns(group, n):
        if ADAPTS:
            row[i] = fma(run.rtol, abs(w.y[i]), absolute(run.atol, i))
        else:
            row[i] = EXACT * (abs(w.y[i]) + size) + LEAST_SCALE
        part = w.y[i] / row[i]
        total += part * part
    return math.sqrt(totals_of(group, total, total)[0] / real(n))


def end_of_step(group, h, t1, p, run, w):
    """Set the state at the end of a step from its stages, and the slope there."""
    n = w.y.size
    for i in unknowns(group, n):
        w.stage[END, i] = w.y[i]
    for j in range(STAGES):
        weight = h * run.stages[j, _END]
        for i in unknowns(group, n):
            w.stage[END, i] = fma(weight, w.k[1 + j, i], w.stage[END, i])
    barrier(group)
    evaluate(group, t1, w.stage[END], p, run, w.k[len(C)])


def factorise(group, t, h, p, run, w):
    """Set the matrix of a step by differences, and factorise it."""
    moved, scratch, first = w.k[STAGES + 4], w.k[STAGES + 3], STAGES + 5
    for i in unknowns(group, w.y.size):
        moved[i] = w.y[i] + math.sqrt(EPSILON * max(real(_LEAST_MOVED), abs(w.y[i])))
    put_jacobian(group, t, w.y, w.k[0], moved, first, scratch, p, run, w)
    banded.factorise(group, 1.0 / (h * real(GAMMA)), first, STAGES + 4, run, w)


def solve(group, b, run, w):
    """Solve for the right-hand side `b`, in the order of the places."""
    banded.solve(group, b, STAGES + 5, STAGES + 4, run, w)


# ---- what a host gives to the kernel


def rows_of(method: Mapping[Any, Any]) -> int:
    """Rows of slopes before the columns of the matrix."""
    return len(method[rosenbrock.ALPHA]) + 5


def bindings_of(method: Mapping[Any, Any]) -> dict[Any, Any]:
    """Bindings of the kernel for a method; its first row of slopes is no stage."""
    count = len(method[rosenbrock.ALPHA])
    return {
        STAGES: count, GAMMA: method[GAMMA], C: (0.0,) * (count + 1),
        explicit.ERROR: (0.0, *method[rosenbrock.ERROR]),
        stepper.DENSE: ((0.0,) * len(method[stepper.DENSE][0]), *method[stepper.DENSE]),
        stepper.ERROR_ORDER: method[stepper.ERROR_ORDER], stepper.PROBES: method[stepper.PROBES],
    }  # fmt: skip


def table_of(method: Mapping[Any, Any], precision: Precision) -> np.ndarray:
    """The tableau [stage, 3 + 2 stage count], for `take_stages`."""
    count = len(method[rosenbrock.ALPHA])
    found = np.zeros((count, _COUPLED + 2 * count), precision)
    found[:, _ALPHA], found[:, _GAMMAS] = method[rosenbrock.ALPHA], method[rosenbrock.GAMMAS]
    found[:, _END] = method[rosenbrock.M]
    for s in range(count):
        found[s, _COUPLED : _COUPLED + s] = method[rosenbrock.A][s]
        found[s, _COUPLED + count : _COUPLED + count + s] = method[rosenbrock.C][s]
    return found
