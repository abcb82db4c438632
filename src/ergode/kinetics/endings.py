"""How the integration of a zone ends, and what kernels write of it."""

from __future__ import annotations

from ergode.core.status import Status

# --- device functions -----------------------------------------------------------------------------

DONE, NOT_FINITE, TOO_MANY_STEPS, STEP_TOO_SMALL = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.TOO_MANY_STEPS),
    int(Status.STEP_TOO_SMALL),
)  # fmt: skip


def write(outcome, zone, found):
    """Write how a zone ended.

    `found` has the status, steps taken, steps repeated, the largest defect that was corrected and
    the time when the temperature rose fastest.
    """
    outcome.status[zone] = found[0]
    outcome.taken[zone] = found[1]
    outcome.repeated[zone] = found[2]
    outcome.defect[zone] = found[3]
    outcome.fastest_heating[zone] = found[4]
