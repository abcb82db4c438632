"""The log of a trajectory of arrays: the end of every accepted step, and its polynomial.

    step_log[step, row, trajectory]

The rows of a step are time and state at its end; with polynomials also its size and the
coefficients of the powers of its fraction, power by power.  Every thread of a group keeps the
unknowns that it owns.
"""

from __future__ import annotations

from ergode.core.compiler.language import noinline_cpu, unroll
from ergode.trajectories.adaptive.step import LOGS_INSIDE, LOGS_STEPS
from ergode.trajectories.arrays.equations import unknowns
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import DENSE


@noinline_cpu
def log_end(me, group, n, step, t, state, step_log):
    """Keep the end of a step."""
    if LOGS_STEPS and step < step_log.shape[0]:
        if group.rank == 0:
            step_log[step, 0, me] = t
        # A loop over places from 1 on would be compiled wrongly for a thread of a GPU.
        row = step_log[step, 1:]
        for i in unknowns(group, n):
            row[i, me] = state[i]


@noinline_cpu
def log_inside(me, group, step, h, y, end, k, step_log):
    """Keep size and polynomial of a step from state `y` to `end`; its slopes `k` are complete."""
    if LOGS_INSIDE and step < step_log.shape[0]:
        n = k.shape[1]
        if group.rank == 0:
            step_log[step, 1 + n, me] = h
        for m in unroll(range(len(DENSE[0]))):
            row = step_log[step, 2 + (m + 1) * n :]
            for i in unknowns(group, n):
                if SCHEME > 0:  # a straight line
                    row[i, me] = end[i] - y[i]
                else:
                    row[i, me] = h * sum(
                        DENSE[j][m] * k[j, i]
                        for j in range(len(DENSE))
                        if len(DENSE[j]) > m and DENSE[j][m] != 0.0
                    )
