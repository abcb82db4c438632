"""Triggers: measures that counts of nodes start and stop.

A measure awaits its start or its stop.  Counts are compared after all moves of a moment.  A start
or stop that is decided takes effect later; from then on the other one is awaited.  A start is not
decided while the condition of the stop holds.  So a measure changes at most once while counts do
not change.

A trigger that counts in a window of time, or some of the nodes alone, has a counter of its own,
which every move changes (`gain_of`).  In a window it counts entries, each until its age is the
window.

The starts and stops of a replicate are an array [2 x intervention_count]: when each measure starts,
and after these when it stops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError
from ergode.core.math.elementary import next_up
from ergode.epidemics.shared.names import attribute, compartment_index, members_of
from ergode.models.epidemic.attributes import Network
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import CASES, Intervention, Trigger

_NEVER = float("inf")


class Triggers(NamedTuple):
    """Triggers, one row each, and the rows of each measure."""

    start: Any  # row of the trigger that starts a measure, int32 [intervention_count]; -1 for none
    stop: Any  # row of the trigger that stops it
    # Counted compartments, then cases, then counters, uint8 [trigger_count, population_size].
    counts: Any
    level: Any  # int64 [trigger_count]
    below: Any  # whether counts must be below the level, uint8 [trigger_count]
    delay: Any  # real [trigger_count]
    counters: Any  # see below


class Counters(NamedTuple):
    """Counts of triggers that the nodes in each compartment do not tell, one row each."""

    counts: Any  # counted compartments, and at the end cases, uint8 [counter_count, compartments+1]
    window: Any  # real [counter_count]; zero for none
    group: Any  # row of `members`, int32; -1 for all nodes
    members: Any  # uint8 [group_count, node_count]
    at_first: Any  # nodes of the base compartment that are counted, int32 [counter_count]


def triggers_of(
    interventions: Sequence[Intervention], model: CompartmentModel, contacts: Network,
    precision: Precision,
) -> Triggers:  # fmt: skip
    """The triggers of a plan.

    Raises a ModelError if a compartment is unknown to the model, or an attribute or a value to the
    network.
    """
    found: list[Trigger] = []
    rows = np.full((2, max(1, len(interventions))), -1, np.int32)
    for column, one in enumerate(interventions):
        for row, trigger in enumerate((one.start, one.stop)):
            if isinstance(trigger, Trigger):
                rows[row, column] = len(found)
                found.append(trigger)
    last = len(model.compartments)
    own = [number for number, trigger in enumerate(found) if has_counter(trigger)]
    counts = np.zeros((max(1, len(found)), last + 1 + len(own)), np.uint8)
    counted = counts[own, : last + 1]
    members: list[np.ndarray] = []
    group, at_first = np.full(max(1, len(own)), -1, np.int32), np.zeros(max(1, len(own)), np.int32)
    sizes = np.full(len(found), contacts.node_count)
    base = model.index[model.infections[0].susceptible]
    for number, trigger in enumerate(found):
        of_trigger = np.zeros(last + 1, np.uint8)
        for name in trigger.counted:
            at = last if name == CASES else compartment_index(model, name, "a trigger")
            of_trigger[at] = 1
        if trigger.among is not None:
            group[own.index(number)] = len(members)
            members.append(_members(trigger, contacts))
            sizes[number] = members[-1].sum()
        if number in own:
            row = own.index(number)
            counted[row], counts[number, last + 1 + row] = of_trigger, 1
            at_first[row] = sizes[number] * of_trigger[base] * (trigger.window is None)
        else:
            counts[number, : last + 1] = of_trigger
    levels = [_level(trigger, int(size)) for trigger, size in zip(found, sizes, strict=True)]
    counters = Counters(
        counted if own else np.zeros((1, last + 1), np.uint8),
        np.array([found[k].window or 0.0 for k in own] or [0.0], precision), group,
        np.array(members or [np.zeros(1)], np.uint8), at_first,
    )  # fmt: skip
    return Triggers(
        rows[0], rows[1], counts,
        np.array(levels or [2**62], np.int64),
        np.array([t.below for t in found] or [False], np.uint8),
        np.array([t.delay for t in found] or [0.0], precision), counters,
    )  # fmt: skip


def has_counter(trigger: Trigger) -> bool:
    """Whether a trigger counts what the nodes in each compartment do not tell."""
    return trigger.window is not None or trigger.among is not None


def _members(trigger: Trigger, contacts: Network) -> np.ndarray:
    """Which nodes a trigger counts, uint8 [node_count]."""
    if isinstance(trigger.among, str):
        return members_of(contacts, trigger.among, "a trigger")
    assert trigger.among is not None
    name, values = next(iter(trigger.among.items()))
    given = attribute(contacts, name, "a trigger")
    found = np.zeros(given.size, np.uint8)
    for value in values:
        equal = given == value
        if not np.any(equal):
            raise ModelError(f"a trigger counts nodes with {name} {value!r}, but there are none")
        found |= np.asarray(equal, np.uint8)
    return found


def _level(trigger: Trigger, size: int) -> int:
    """The threshold as a number of nodes; `size` is the number of those that may be counted."""
    if trigger.fraction is None:
        assert trigger.level is not None
        return int(trigger.level)
    return max(1, math.ceil(trigger.fraction * size * (1.0 - 1e-12)))


# ---- device functions


def gain_of(counters, counter, node, old, to, infected):
    """What a move adds to a counter; in a window the entry, which is lost when it is over."""
    group = counters.group[counter]
    if group >= 0 and counters.members[group, node] == 0:
        return np.int32(0)
    gain = np.int32(counters.counts[counter, to])
    if counters.window[counter] == 0.0:
        gain -= np.int32(counters.counts[counter, old])
    elif old == to:
        gain = np.int32(0)
    if infected:
        gain += np.int32(counters.counts[counter, counters.counts.shape[1] - 1])
    return gain


def short_of_level(triggers, trigger, population):
    """By how many nodes the count of a trigger is below its level.

    `population` are the nodes in each compartment, then cases, and then counters.
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
