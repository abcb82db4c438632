"""Steps of Kvaerno's method (see `steppers.kvaerno`) of a group of threads.

Newton's method solves a stage z = h f(t + c h, y + sum_j a_j z_j + gamma z) with the matrix of
`rosenbrock`.  It has converged if the last change is far below the tolerances; else the change is
an error of the step.

Rows of the slopes are: the slope where the step begins; the stages z / h from the second on; the
estimate of the error / h; the slope at the end; the part of a stage that is known; then those of
`rosenbrock` from the scratch row on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.compiler.language import fma, real
from ergode.core.compiler.source import Precision
from ergode.core.group import barrier, totals_of
from ergode.trajectories.arrays.banded import PLACES
from ergode.trajectories.arrays.equations import evaluate, unknowns
from ergode.trajectories.arrays.group import END
from ergode.trajectories.arrays.rosenbrock import (
    STAGES,
    factorise,
    missed_inside,
    set_tolerances,
    solve,
)
from ergode.trajectories.steppers import explicit, kvaerno, stepper
from ergode.trajectories.steppers.explicit import C
from ergode.trajectories.steppers.rosenbrock import GAMMA

_COUNT = len(kvaerno.C)
_ITERATIONS = 10
_ENOUGH = 1e-3  # of the tolerances, below which a change says that Newton's method has converged
# Columns of a row of the tableau, before the couplings of the stages.
_TIME, _ERROR, _COUPLED = 0, 1, 2


def take_stages(group, t, h, t1, looked, p, run, w):
    """All stages of a step, its end and the slope there (see `group.implicit_stages`)."""
    n, table, b, known = w.y.size, run.stages, w.stage[1], w.k[STAGES + 2]
    barrier(group)
    factorise(group, t, h, p, run, w)
    set_tolerances(group, w.stage[END], run, w)
    doubt = real(0.0)
    for s in range(1, STAGES):
        for i in unknowns(group, n):
            known[i] = w.y[i]
            w.k[s, i] = w.k[s - 1, i]
        for j in range(s):
            weight = h * table[s, _COUPLED + j]
            for i in unknowns(group, n):
                known[i] = fma(weight, w.k[j, i], known[i])
        change = _newton(group, s, fma(table[s, _TIME], h, t), h, p, run, w)
        doubt = max(doubt, change if change > _ENOUGH else real(0.0))
    for i in unknowns(group, n):
        raw = real(0.0)
        for j in range(STAGES):
            raw = fma(table[j, _ERROR], w.k[j, i], raw)
        b[run.stage_begins[PLACES + i]] = raw / real(GAMMA)
    barrier(group)
    # Solving with the matrix damps stiff components (see `steppers.kvaerno`).
    solve(group, b, run, w)
    for i in unknowns(group, n):
        w.k[STAGES, i] = b[run.stage_begins[PLACES + i]] / h
        w.stage[END, i] = fma(h * real(GAMMA), w.k[STAGES - 1, i], known[i])
        w.k[len(C), i] = w.k[STAGES - 1, i]
    return doubt, missed_inside(group, t, h, looked, p, run, w)


def _newton(group, s, t, h, p, run, w):
    """Solve stage `s` by Newton's method; the size of the last change in tolerances."""
    n, b, known, slopes = w.y.size, w.stage[1], w.k[STAGES + 2], w.k[STAGES + 3]
    change, iterations = real(1.0), 0
    while change > _ENOUGH and iterations < _ITERATIONS:
        for i in unknowns(group, n):
            w.stage[0, i] = fma(h * real(GAMMA), w.k[s, i], known[i])
        barrier(group)
        evaluate(group, t, w.stage[0], p, run, slopes)
        for i in unknowns(group, n):
            b[run.stage_begins[PLACES + i]] = (slopes[i] - w.k[s, i]) / real(GAMMA)
        barrier(group)
        solve(group, b, run, w)
        total = real(0.0)
        for i in unknowns(group, n):
            moved = b[run.stage_begins[PLACES + i]]
            w.k[s, i] += moved / h
            part = moved / w.stage[END, i]
            total += part * part
        change = math.sqrt(totals_of(group, total, total)[0] / real(n))
        iterations += 1
    return change


# ---- what a host gives to the kernel


def rows_of(method: Mapping[Any, Any]) -> int:
    """Rows of slopes before the columns of the matrix."""
    return _COUNT + 5


def bindings_of(method: Mapping[Any, Any]) -> dict[Any, Any]:
    """Bindings of the kernel."""
    return {
        STAGES: _COUNT, GAMMA: kvaerno.GAMMA, C: (0.0,) * (_COUNT + 1),
        explicit.ERROR: (*(0.0,) * _COUNT, 1.0), stepper.DENSE: method[stepper.DENSE],
        stepper.ERROR_ORDER: method[stepper.ERROR_ORDER], stepper.PROBES: method[stepper.PROBES],
    }  # fmt: skip


def table_of(method: Mapping[Any, Any], precision: Precision) -> np.ndarray:
    """The tableau [stage, 2 + stage count], for `take_stages`."""
    found = np.zeros((_COUNT, _COUPLED + _COUNT), precision)
    found[:, _TIME], found[:, _ERROR] = kvaerno.C, kvaerno.ERROR
    for s, row in enumerate(kvaerno.A):
        found[s, _COUPLED : _COUPLED + len(row)] = row
    return found
