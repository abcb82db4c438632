"""How a realization ends, and the codes that replace a reaction number."""

from __future__ import annotations

import numpy as np

from ergode.core.status import Status

DONE = np.uint8(Status.DONE)
EXTINCT = np.uint8(Status.EXTINCT)
NOT_FINITE = np.uint8(Status.NOT_FINITE)
TOO_MANY = np.uint8(Status.TOO_MANY_STEPS)
OVERFLOW = np.uint8(Status.OVERFLOW)
NEGATIVE = np.uint8(Status.NEGATIVE_RATE)

INFINITY = float("inf")
# Amounts are below this, so that they are whole; those whose squares are added, below that.
WHOLE_LIMIT = 9007199254740992.0
COUNT_LIMIT = 2147483648.0

# In place of a reaction number, or of whether an event was executed.
NO_REACTION = -1
FAILED_NOT_FINITE = -2
FAILED_NEGATIVE = -3
FAILED_TO_END = -4


def outcome_of(failed):
    """The status of a failure code."""
    if failed == FAILED_NEGATIVE:
        return NEGATIVE
    return NOT_FINITE if failed == FAILED_NOT_FINITE else TOO_MANY
