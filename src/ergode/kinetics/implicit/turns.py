"""What a step evaluates, and its time span."""

from __future__ import annotations

from typing import NamedTuple

from ergode.kinetics.kernel_options import HEATING, MOVING, PLASMA, THIRD_BODIES, TIMED
from ergode.kinetics.tables import FIXED, PRESSURE

# --- device functions -----------------------------------------------------------------------------


class Turns(NamedTuple):
    """The turns of a step: each evaluates dy/dt at perturbed amounts or conditions.

    Turn 0 is the start of the step. Each turn before `warmer` perturbs one kind of collision
    partner. The last direction is stage zero.
    """

    # Perturbed temperature, and perturbed density at constant pressure, or perturbed volume.
    warmer: int
    denser: int
    charged: int  # perturbed sum of charges; the next turn perturbs the sum of squared charges
    # Perturbed time; the last direction.
    later: int
    last: int


def turns_of(rates):
    """The turns of a step."""
    warmer = 1 + (rates.efficiency.shape[0] if THIRD_BODIES else 0)
    denser = warmer + (1 if HEATING != FIXED else 0)
    charged = denser + (1 if HEATING == PRESSURE or MOVING else 0)
    later = charged + (2 if PLASMA else 0)
    return Turns(warmer, denser, charged, later, later if TIMED else later - 1)


class StepTime(NamedTuple):
    """The time span of a step."""

    below: int  # the knot before its start
    since: float  # time from that knot to its start
    last: int  # the last segment of the conditions that it touches
    h: float  # its length
