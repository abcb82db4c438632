"""The past of a delay equation: what a step reads of it, and where it is kept.

Between two steps the solution is the cubic that has its values and slopes at both (Hermite
interpolation; Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", 2nd ed.
(1993), chapter II.6, eq. (6.7)).  Its error falls as step^4, and so does that of any method of
order four or more that reads it.

Every delay is a whole number of steps, its lag.  A stage at the fraction c of a step then reads
the cubic at the fraction c of an older step: with weights that are constants.  A trajectory with
another delay takes steps of another size, and not another number of them, so all trajectories
read the same slots.

    ring[slot][delayed variable][value | step x slope][trajectory]

Step n reads, for each lag m, the points of steps n - m and n - m + 1, and writes its own beginning
into slot n modulo the period, the longest lag plus one: so it never writes where it reads, which
is what lets lanes vectorise.  One slot more, the last, is the end of the history: there the slope
jumps from that of the history to that of the equation, so this one point in time is kept twice
and no cubic crosses the jump.
"""

from __future__ import annotations

import math

from ergode.core.machine import real
from ergode.trajectories.equations import PLACES, VARIABLES

# Bound for each kernel: a field, its delays, a method.
DELAYED = (0,)  # variables that the ring holds
STAGE_WEIGHTS = ((1.0, 0.0, 0.0, 0.0),)  # of the cubic at each stage
HAS_HISTORY = False
VALUE, SLOPE = 0, 1


def hermite_weights(x: float) -> tuple[float, float, float, float]:
    """Weights of both values and both slopes (times the step) of the cubic at fraction `x`."""
    return (
        (1.0 + 2.0 * x) * (1.0 - x) ** 2,
        x * x * (3.0 - 2.0 * x),
        x * (1.0 - x) ** 2,
        x * x * (x - 1.0),
    )


def history(t):
    """The user's history: bound for each kernel."""
    return (t,)


def behind(now, lag, period):
    """Slot of the point `lag` steps before the step whose own slot is `now`."""
    slot = now + period - lag
    return slot - period if slot >= period else slot


def ahead(now, lag, period, step):
    """Slot of the next point, seen from before it; `step` is the number of the step."""
    slot = now + 1 + period - lag
    slot = slot - period if slot >= period else slot
    return period if step + 1 == lag else slot


def delayed_at_stages(cells):
    """Delayed values at every stage.

    `cells` has, for each delay, both values and both slopes (times the step) of an older step.
    """
    return tuple(
        tuple(
            sum(STAGE_WEIGHTS[s][j] * cells[d][j] for j in range(4) if STAGE_WEIGHTS[s][j] != 0.0)
            for d in range(len(PLACES))
        )
        for s in range(len(STAGE_WEIGHTS))
    )


def past_values(t, y):
    """All variables at a time of the history; `y` is where the trajectory begins."""
    if HAS_HISTORY:
        values = history(t)
        return tuple(real(values[i]) for i in range(VARIABLES))
    return y


def past_slopes(t, h, y):
    """Slopes (times `abs(h)`) at a time of the history, seen from the side that `h` points to.

    They are differences over quarters of a step, whose error, of order h^5, is below that of the
    cubic.
    """
    if HAS_HISTORY:
        f0 = past_values(t, y)
        f1 = past_values(t + 0.25 * h, y)
        f2 = past_values(t + 0.5 * h, y)
        f3 = past_values(t + 0.75 * h, y)
        f4 = past_values(t + h, y)
        scale = math.copysign(real(1.0), h) / 3.0
        return tuple(
            scale * (48.0 * f1[i] - 25.0 * f0[i] - 36.0 * f2[i] + 16.0 * f3[i] - 3.0 * f4[i])
            for i in range(VARIABLES)
        )
    return tuple(real(0.0) for i in range(VARIABLES))
