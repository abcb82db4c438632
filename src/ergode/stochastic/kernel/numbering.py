"""Numbers of realizations: point after point, and within a point by replicate."""

from __future__ import annotations


def replicate_of(number, point, plan):
    """Replicate of realization `number`, which is of a point of the sweep: a key of its draws."""
    return plan.begin_replicate + number - point * (plan.replicates - plan.apart)
