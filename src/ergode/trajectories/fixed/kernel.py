"""Fixed-step explicit Runge-Kutta methods for ordinary, delay and stochastic equations.

Every trajectory has its own step size h; step n begins at origin + n h.  Dense output gives the
states between two steps.

This module holds what both targets share; `cpu` and `cuda` hold the loops over steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.core.status import Status
from ergode.trajectories.steppers.equations import EPSILON, VARIABLES, slope
from ergode.trajectories.steppers.explicit import A, B, C
from ergode.trajectories.steppers.forcing import past_knots
from ergode.trajectories.steppers.inside_step import between
from ergode.trajectories.steppers.noise import SCHEME, increments, with_noise
from ergode.trajectories.steppers.splitting import DRIFTS, average_slope

FINITE = np.uint8(Status.DONE)
NOT_FINITE = np.uint8(Status.NOT_FINITE)


RESUMES = option(False)
"""Whether a launch takes some of the steps, and leaves the state for the next one."""


class Run(NamedTuple):
    """Inputs of a run."""

    origin: Any  # real: first time
    times: Any  # real [time]: when states are saved, relative to the origin
    lags: Any  # int64 [delay]: each delay in steps
    breaks: Any  # uint8 [step]: whether a step begins at a breaking point
    initial: Any  # real [variable, trajectory]
    parameters: Any  # real [parameter, trajectory]
    sizes: Any  # real [trajectory]: step size [time]
    counts: Any  # int64 [trajectory]: number of steps
    source: Any  # noise: (seed, increments per step, trajectories per path)
    offset: Any  # int64: number of the first trajectory, a key of its noise
    renewal: Any  # see `tangents.renew`


class Out(NamedTuple):
    """Outputs of a run."""

    states: Any  # real [time, variable, trajectory]
    status: Any  # uint8 [trajectory]
    exponents: Any  # real [row, trajectory]: see `tangents.renew`


class Kept(NamedTuple):
    """What lies between two launches; where all steps are in one, only `ring` is used, on a GPU."""

    begin: Any  # int64: first step of this launch
    until: Any  # int64: first step of the next one
    ring: Any  # real [slot, delayed variable, 2, trajectory]: histories (see `history_ring`)
    state: Any  # real [variable, trajectory]
    cursor: Any  # int64 [trajectory]: index of the next time to save


def slopes_of_stages(t, h, y, delayed, p):
    """Slopes at every stage of a step; `delayed[s]` holds the delayed values at stage s."""
    begin = past_knots(t, p)
    if len(DRIFTS) > 0:
        return slope(begin, y, (), p), average_slope(t, h, y, p)
    k = (slope(begin, y, delayed[0], p),)
    for s in unroll(range(1, len(C))):
        k = k + (  # noqa: RUF005
            slope(
                fma(real(C[s]), h, t),
                tuple(
                    sum(((h * A[s][j]) * k[j][i] for j in range(s) if A[s][j] != 0.0), y[i])
                    for i in range(VARIABLES)
                ),
                delayed[s],
                p,
            ),
        )
    return k


def step_end(h, y, k):
    """State at the end of a step, without noise."""
    return tuple(
        sum(((h * B[j]) * k[j][i] for j in range(len(C)) if B[j] != 0.0), y[i])
        for i in range(VARIABLES)
    )


def locate(time, h, step_count):
    """Step that contains a time (relative to the origin), and the fraction of this step."""
    position = time / h
    step = min(np.int64(position), np.int64(step_count - 1))
    fraction = position - real(step)
    # Times equal to an end of the step, up to rounding, are moved to this end.
    near = 8.0 * EPSILON * (position + 1.0)
    fraction = real(0.0) if fraction < near else fraction
    return step, (real(1.0) if fraction > 1.0 - near else fraction)


def ended(t, h, y, k, yd, p, source, trajectory, step):
    """State at the end of a step, with noise."""
    end = step_end(h, y, k)
    if SCHEME > 0:
        w = increments(h, source, trajectory, step)
        return with_noise(past_knots(t, p), h, y, yd, end, k[0], p, w)
    return end


def within(x, h, y, k, end, f):
    """State at the fraction `x` of a step; exact at its ends, even if a state is infinite."""
    if SCHEME > 0:
        return tuple((1.0 - x) * y[i] + x * end[i] for i in range(VARIABLES))
    scaled = tuple(tuple(h * k[j][i] for i in range(VARIABLES)) for j in range(len(C)))
    inner = between(x, y, scaled + (tuple(h * f[i] for i in range(VARIABLES)),))  # noqa: RUF005
    return tuple(
        (y[i] if x == 0.0 else (end[i] if x == 1.0 else inner[i])) for i in range(VARIABLES)
    )
