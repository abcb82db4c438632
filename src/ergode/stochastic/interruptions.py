"""What happens to a realization besides firings: late products, events, breaks, a condition.

An event is triggered when a condition turns true: by a firing, by another event, or at a break, a
time at which a comparison with time turns.  Conditions that time alone turns are not looked at
between breaks.  SBML Level 3 Version 1 Core, section 4.12, says what an event does.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ergode.core.machine import outlined, real
from ergode.stochastic.outcomes import (
    COUNT_LIMIT,
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    FAILED_TO_END,
    INFINITY,
)
from ergode.stochastic.programs import evaluate, row_of

EVENT_LIMIT = 10000


class Waiting(NamedTuple):
    """What is to happen besides firings; rows of one worker each."""

    armed: Any  # [worker, event] whether the trigger was true
    due: Any  # [worker, pending] time of a pending event
    pending: Any  # [worker, pending] which event; -1 for none
    values: Any  # [worker, pending * most values]
    late_times: Any  # [worker, late] heap of times of late products
    late_reactions: Any  # [worker, late]
    late_count: Any  # [worker, 1] how many


# ---- late products: a heap by time


@outlined
def push_late(time, j, w, waiting):
    """Remember that products of `j` appear at `time`; false if there is no room."""
    size = waiting.late_count[w, 0]
    if size >= waiting.late_times.shape[1]:
        return False
    hole = size
    while hole > 0 and waiting.late_times[w, (hole - 1) // 2] > time:
        waiting.late_times[w, hole] = waiting.late_times[w, (hole - 1) // 2]
        waiting.late_reactions[w, hole] = waiting.late_reactions[w, (hole - 1) // 2]
        hole = (hole - 1) // 2
    waiting.late_times[w, hole] = time
    waiting.late_reactions[w, hole] = j
    waiting.late_count[w, 0] = size + 1
    return True


@outlined
def pop_late(w, waiting):
    """The reaction whose products are next."""
    j = waiting.late_reactions[w, 0]
    size = waiting.late_count[w, 0] - 1
    waiting.late_count[w, 0] = size
    time, last = waiting.late_times[w, size], waiting.late_reactions[w, size]
    hole = 0
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and waiting.late_times[w, child + 1] < waiting.late_times[w, child]:
            child += 1
        if waiting.late_times[w, child] >= time:
            break
        waiting.late_times[w, hole] = waiting.late_times[w, child]
        waiting.late_reactions[w, hole] = waiting.late_reactions[w, child]
        hole = child
    waiting.late_times[w, hole] = time
    waiting.late_reactions[w, hole] = last
    return j


# ---- events


@outlined
def arm(w, others, waiting):
    """State of triggers before the beginning, with nothing under way."""
    row = row_of(w)
    waiting.late_count[row, 0] = 0
    for e in range(others.triggers.size):
        waiting.armed[row, e] = (others.flags[e] >> 1) & 1
    for q in range(waiting.pending.shape[1]):
        waiting.pending[row, q] = -1


@outlined
def _assign_values(e, q, w, t, point, net, others, work, waiting):
    """Compute what event `e` assigns, into place `q`."""
    row = row_of(w)
    base = q * (waiting.values.shape[1] // waiting.pending.shape[1])
    first = others.assignment_starts[e]
    for entry in range(first, others.assignment_starts[e + 1]):
        value = evaluate(others.assignments[entry], w, t, point, net, work)
        waiting.values[row, base + entry - first] = value


@outlined
def _trigger(w, t, point, net, others, work, waiting):
    """Look at every trigger; false if there is no room for another pending event."""
    row = row_of(w)
    for e in range(others.triggers.size):
        now = 1 if evaluate(others.triggers[e], w, t, point, net, work) != 0.0 else 0
        flags = others.flags[e]
        if now == 1 and waiting.armed[row, e] == 0:
            place = -1
            for q in range(waiting.pending.shape[1]):
                if waiting.pending[row, q] < 0:
                    place = q
                    break
            if place < 0:
                return False
            delay = real(0.0)
            if others.event_delays[e] >= 0:
                delay = evaluate(others.event_delays[e], w, t, point, net, work)
            waiting.pending[row, place] = e
            waiting.due[row, place] = t + max(delay, real(0.0))
            if flags & 4 != 0:
                _assign_values(e, place, w, t, point, net, others, work, waiting)
        elif now == 0 and waiting.armed[row, e] == 1 and flags & 1 == 0:
            for q in range(waiting.pending.shape[1]):
                if waiting.pending[row, q] == e:
                    waiting.pending[row, q] = -1
        waiting.armed[row, e] = now
    return True


@outlined
def _execute(q, w, t, point, species_count, net, others, work, waiting):
    """Assign what the pending event in place `q` assigns: 1, or what is wrong with it."""
    row = row_of(w)
    e = waiting.pending[row, q]
    waiting.pending[row, q] = -1
    if others.flags[e] & 4 == 0:
        _assign_values(e, q, w, t, point, net, others, work, waiting)
    base = q * (waiting.values.shape[1] // waiting.pending.shape[1])
    first = others.assignment_starts[e]
    for entry in range(first, others.assignment_starts[e + 1]):
        variable = others.assigned[entry]
        value = waiting.values[row, base + entry - first]
        # Amounts are whole; parameters, which come after the species, are what they are.
        if variable < species_count:
            if not abs(value) < INFINITY:
                return FAILED_NOT_FINITE
            if abs(value) < COUNT_LIMIT:
                value = math.floor(value + real(0.5)) * real(1.0)
            if value < 0.0:
                return FAILED_NEGATIVE
        work.x[row_of(w), variable] = value
    return 1


@outlined
def turned(w, t, point, net, others, work, waiting):
    """Whether a firing turned a trigger."""
    row = row_of(w)
    for k in range(others.watched.size):
        e = others.watched[k]
        now = 1 if evaluate(others.triggers[e], w, t, point, net, work) != 0.0 else 0
        if now != waiting.armed[row, e]:
            return True
    return False


@outlined
def happen(w, t, point, species_count, net, others, work, waiting):
    """Trigger and execute events until none is due: whether any was (0, 1), or what is wrong."""
    row = row_of(w)
    happened = 0
    for _ in range(EVENT_LIMIT):
        if not _trigger(w, t, point, net, others, work, waiting):
            return FAILED_TO_END
        best, highest = -1, real(-INFINITY)
        for q in range(waiting.pending.shape[1]):
            if waiting.pending[row, q] >= 0 and waiting.due[row, q] <= t:
                priority = real(-INFINITY)
                program = others.priorities[waiting.pending[row, q]]
                if program >= 0:
                    priority = evaluate(program, w, t, point, net, work)
                if best < 0 or priority > highest:
                    best, highest = q, priority
        if best < 0:
            return happened
        happened = _execute(best, w, t, point, species_count, net, others, work, waiting)
        if happened < 0:
            return happened
    return FAILED_TO_END


@outlined
def next_break(w, t, point, net, others, work, waiting):
    """The next time after `t` at which something turns, or is due."""
    row = row_of(w)
    soonest = real(INFINITY)
    for b in range(others.breaks.size):
        time = evaluate(others.breaks[b], w, t, point, net, work)
        if time >= t and time < soonest:
            soonest = time
    for q in range(waiting.pending.shape[1]):
        if waiting.pending[row, q] >= 0:
            soonest = min(soonest, waiting.due[row, q])
    if waiting.late_count[row, 0] > 0:
        soonest = min(soonest, waiting.late_times[row, 0])
    return soonest


def just_after(t):
    """A time so little later that comparisons with `t` have turned."""
    return t + max(abs(t) * real(2.220446049250313e-16), real(1e-300))


@outlined
def interrupt(w, t, point, species_count, plan, after_firing, soonest, net, others, work, waiting):
    """What a firing or a break leads to besides what follows of propensities.

    Whether anything happened, or what is wrong; the next break; whether a condition ends it all.
    """
    happened = 0
    again = not after_firing or plan.moving_breaks
    if not after_firing or turned(w, t, point, net, others, work, waiting):
        if others.triggers.size > 0:
            happened = happen(w, t, point, species_count, net, others, work, waiting)
        again = True
    if again:
        soonest = next_break(w, just_after(t), point, net, others, work, waiting)
    over = False
    if others.stop.size > 0 and happened >= 0:
        over = evaluate(others.stop[0], w, t, point, net, work) != 0.0
    return happened, soonest, over
