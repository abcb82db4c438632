"""Triggers: measures that counts of nodes start and stop.

A measure awaits its start or its stop.  Counts are compared after all moves of a moment.  A start
or stop that is decided takes effect later; from then on the other one is awaited.  A start is not
decided while the condition of the stop holds.  So a measure changes at most once while counts do
not change.

The starts and stops of a replicate are an array [2 x intervention_count]: when each measure starts,
and after these when it stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.compiler.source import Precision
from ergode.core.math.elementary import next_up
from ergode.epidemics.shared.names import compartment_index
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import CASES, Intervention, Trigger

_NEVER = float("inf")


class Triggers(NamedTuple):
    """Triggers, one row each, and the rows of each measure."""

    start: Any  # row of the trigger that starts a measure, int32 [intervention_count]; -1 for none
    stop: Any  # row of the trigger that stops it
    counts: Any  # counted compartments, and at the end cases, uint8 [trigger_count, compartments+1]
    level: Any  # int64 [trigger_count]
    below: Any  # whether counts must be below the level, uint8 [trigger_count]
    delay: Any  # real [trigger_count]


def triggers_of(
    interventions: Sequence[Intervention], model: CompartmentModel, precision: Precision
) -> Triggers:
    """The triggers of a plan.

    Raises
    ------
    ModelError
        A compartment is unknown to the model.
    """
    found: list[Trigger] = []
    rows = np.full((2, max(1, len(interventions))), -1, np.int32)
    for column, one in enumerate(interventions):
        for row, trigger in enumerate((one.start, one.stop)):
            if isinstance(trigger, Trigger):
                rows[row, column] = len(found)
                found.append(trigger)
    last = len(model.compartments)
    counts = np.zeros((max(1, len(found)), last + 1), np.uint8)
    for number, trigger in enumerate(found):
        for name in trigger.counted:
            at = last if name == CASES else compartment_index(model, name, "a trigger")
            counts[number, at] = 1
    return Triggers(
        rows[0], rows[1], counts,
        np.array([t.level for t in found] or [2**62], np.int64),
        np.array([t.below for t in found] or [False], np.uint8),
        np.array([t.delay for t in found] or [0.0], precision),
    )  # fmt: skip


# ---- device functions


def short_of_level(triggers, trigger, population):
    """By how many nodes the count of a trigger is below its level.

    `population` [compartments + 1] are the nodes in each compartment and, at the end, cases.
    """
    count = np.int64(0)
    for c in range(population.size):
        if triggers.counts[trigger, c] != 0:
            count += population[c]
    return np.int64(triggers.level[trigger]) - count


def is_met(triggers, trigger, population):
    """Whether the condition of a trigger holds."""
    return (short_of_level(triggers, trigger, population) > 0) == (triggers.below[trigger] != 0)


def awaited(plan, starts, k):
    """The trigger that a measure awaits, or -1, and since when."""
    start, stop = np.int64(plan.triggers.start[k]), np.int64(plan.triggers.stop[k])
    stops_at = real(starts[k + plan.kind.size])
    if starts[k] == _NEVER:
        return start, real(-1.0)
    if stop >= 0:
        if stops_at == _NEVER:
            return stop, real(starts[k])
        return start, stops_at
    return np.int64(-1), real(_NEVER)


def places_for_line(plan, starts, k, population, moment):
    """Free places of a capacity for those who wait; below zero if it is not yet looked at."""
    trigger, since = awaited(plan, starts, k)
    if trigger != plan.triggers.stop[k] or moment < since:
        return np.int64(-1)
    return short_of_level(plan.triggers, trigger, population)


def decide(plan, starts, k, population, moment):
    """Start or stop a measure if its trigger says so after the moves of a moment.

    Returns the next time at which to decide, even if nothing moves before.
    """
    triggers = plan.triggers
    trigger, since = awaited(plan, starts, k)
    if trigger < 0:
        return real(_NEVER)
    if moment < since:
        return since
    if not is_met(triggers, trigger, population):
        return real(_NEVER)
    stop = np.int64(triggers.stop[k])
    # Events at that moment itself are not affected.
    time = real(max(moment + triggers.delay[trigger], next_up(moment)))
    if trigger == stop:
        starts[k + plan.kind.size] = time
        return time if triggers.start[k] >= 0 else real(_NEVER)
    if stop < 0:
        starts[k] = time
        return real(_NEVER)
    if is_met(triggers, stop, population):
        return real(_NEVER)
    starts[k] = time
    starts[k + plan.kind.size] = real(_NEVER)
    return time
