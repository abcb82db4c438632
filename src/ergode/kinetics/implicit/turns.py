"""What a step evaluates, and its time span."""

from __future__ import annotations

from typing import NamedTuple

from ergode.kinetics.kernel_options import HEATING, PLASMA, THIRD_BODIES, TIMED
from ergode.kinetics.tables import FIXED, PRESSURE

# --- device functions -----------------------------------------------------------------------------


class Turns(NamedTuple):
    """The turns of a step: each evaluates dy/dt at perturbed amounts or conditions.

    Turn 0 is the start of the step. Each turn before `warmer` perturbs one kind of collision
    partner. The last direction is stage zero.

    Attributes
    ----------
    warmer, denser : int
        Perturbed temperature, and perturbed density at constant pressure.
    charged : int
        Perturbed sum of charges; the next turn perturbs the sum of squared charges.
    later, last : int
        Perturbed time; the last direction.
    """

    warmer: int
    denser: int
    charged: int
    later: int
    last: int


def turns_of(rates):
    """The turns of a step."""
    warmer = 1 + (rates.efficiency.shape[0] if THIRD_BODIES else 0)
    denser = warmer + (1 if HEATING != FIXED else 0)
    charged = denser + (1 if HEATING == PRESSURE else 0)
    later = charged + (2 if PLASMA else 0)
    return Turns(warmer, denser, charged, later, later if TIMED else later - 1)


class StepTime(NamedTuple):
    """The time span of a step.

    Attributes
    ----------
    below : int
        The knot before its start.
    since : float
        Time from that knot to its start.
    last : int
        The last segment of the conditions that it touches.
    h : float
        Its length.
    """

    below: int
    since: float
    last: int
    h: float
