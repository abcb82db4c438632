"""Interruptions of a realization: delayed products, events, breaks and a stopping condition.

An event is triggered when its condition becomes true: by a firing, another event or a break. A
break is a time at which a comparison with time changes its value. Conditions that depend on time
alone are evaluated only at breaks.

A break has two positions. ``time >= 2`` becomes true at the time itself (``after`` is 0), and
``time > 2`` just after it (``after`` is 1). Both have the same `t`; just after a break, formulas
see a time that is one unit in the last place later (see `moment_of`).

Events follow SBML Level 3 Version 1 Core, section 4.12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, noinline_cpu, option, real
from ergode.core.math import random
from ergode.core.math.elementary import NOT_A_NUMBER
from ergode.models.holding_times.kernels import draw, flags
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.bytecode import evaluate, row_of

EVENT_LIMIT = 10000
# Relative difference below which two times are equal. The sum of ten thousand equal intervals is
# about a fifth of it away from their product, by rounding.
ROUNDING = 1e-12
# Relative difference from a whole number of a count that was divided and multiplied by a volume.
ALIKE = 1e-9


class Waiting(NamedTuple):
    """Pending events and delayed products; one row for each worker."""

    armed: Any  # [worker, event] whether the trigger was true
    due: Any  # [worker, pending] time of a pending event
    due_after: Any  # [worker, pending] whether it is due just after that time
    pending: Any  # [worker, pending] which event; -1 for none
    values: Any  # [worker, pending * most values]
    # [worker, 4] of random draws: seed, replicate, how many events have drawn; 1 before the begin
    keys: Any
    delayed_times: Any  # [worker, delayed] heap of the times of delayed products
    delayed_reactions: Any  # [worker, delayed]
    delayed_count: Any  # [worker, 1]


# ---- delayed products: a heap by time


@noinline_cpu
def push_delayed(time, j, w, waiting):
    """Add the delayed products of reaction `j`, due at `time`; false if the heap is full."""
    size = waiting.delayed_count[w, 0]
    if size >= waiting.delayed_times.shape[1]:
        return False
    hole = size
    while hole > 0 and waiting.delayed_times[w, (hole - 1) // 2] > time:
        waiting.delayed_times[w, hole] = waiting.delayed_times[w, (hole - 1) // 2]
        waiting.delayed_reactions[w, hole] = waiting.delayed_reactions[w, (hole - 1) // 2]
        hole = (hole - 1) // 2
    waiting.delayed_times[w, hole] = time
    waiting.delayed_reactions[w, hole] = j
    waiting.delayed_count[w, 0] = size + 1
    return True


@noinline_cpu
def pop_delayed(w, waiting):
    """Remove the next delayed products; returns their reaction."""
    j = waiting.delayed_reactions[w, 0]
    size = waiting.delayed_count[w, 0] - 1
    waiting.delayed_count[w, 0] = size
    time, last = waiting.delayed_times[w, size], waiting.delayed_reactions[w, size]
    hole = 0
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if (
            child + 1 < size
            and waiting.delayed_times[w, child + 1] < waiting.delayed_times[w, child]
        ):
            child += 1
        if waiting.delayed_times[w, child] >= time:
            break
        waiting.delayed_times[w, hole] = waiting.delayed_times[w, child]
        waiting.delayed_reactions[w, hole] = waiting.delayed_reactions[w, child]
        hole = child
    waiting.delayed_times[w, hole] = time
    waiting.delayed_reactions[w, hole] = last
    return j


DRAWS_DELAYS = option(False)  # whether delays may be holding times


def drawing(kinds: Iterable[int]) -> dict[Any, bool]:
    """Bindings of a kernel whose delays are of these kinds of holding times."""
    kinds = set(kinds)
    return {DRAWS_DELAYS: bool(kinds), **(flags(kinds) if kinds else {})}


def delay_of(j, w, t, point, net, interruptions, work, waiting):
    """Time until the products of a reaction that has fired appear; may be not a number."""
    if DRAWS_DELAYS and interruptions.random_delays[j, 0] >= 0.0:
        row = row_of(w)
        number = _next_number(row, waiting)
        return draw(
            int(interruptions.random_delays[j, 0]), interruptions.random_delays[j, 1],
            interruptions.random_delays[j, 2], interruptions.delay_times, interruptions.delay_cdf,
            interruptions.delay_starts[j], interruptions.delay_starts[j + 1],
            waiting.keys[row, 0], waiting.keys[row, 1],
            np.uint64(j) | (np.uint64(number >> np.uint64(24)) << np.uint64(32)), random.DELAY,
            np.uint32(number & np.uint64(0xFFFFFF)),
        )  # fmt: skip
    delay = evaluate(interruptions.delays[j], w, t, point, net, work)
    return real(0.0) if delay < 0.0 else delay


# ---- events


@noinline_cpu
def arm(w, seed, replicate, interruptions, waiting):
    """Set the initial state of triggers; nothing is pending."""
    row = row_of(w)
    waiting.keys[row, 0] = np.uint64(seed)
    waiting.keys[row, 1] = np.uint64(replicate)
    waiting.keys[row, 2] = np.uint64(0)
    waiting.keys[row, 3] = np.uint64(1)
    waiting.delayed_count[row, 0] = 0
    for e in range(interruptions.triggers.size):
        waiting.armed[row, e] = (interruptions.flags[e] >> 1) & 1
    for q in range(waiting.pending.shape[1]):
        waiting.pending[row, q] = -1


@noinline_cpu
def _drawn(d, number, w, t, point, net, interruptions, work, waiting):
    """Draw `d` of an event; not a number if the distribution is invalid."""
    row = row_of(w)
    first = evaluate(interruptions.draws[d, 2], w, t, point, net, work)
    second = evaluate(interruptions.draws[d, 3], w, t, point, net, work)
    seed, replicate = waiting.keys[row, 0], waiting.keys[row, 1]
    entity = np.uint64(d) | (np.uint64(number >> np.uint64(24)) << np.uint64(32))
    index = np.uint32(number & np.uint64(0xFFFFFF))
    kind = interruptions.draws[d, 0]
    count = np.int64(-1)
    if kind == 0:
        near = math.floor(first + real(0.5)) * real(1.0)
        if near >= 0.0 and abs(first - near) <= real(ALIKE) * max(near, real(1.0)):
            count = random.binomial(seed, replicate, entity, random.EVENT_DRAW, index, near, second)
    elif kind == 1:
        count = random.poisson(seed, replicate, entity, random.EVENT_DRAW, index, first)
    elif kind == 4:
        shape = first if first > 0.0 and second > 0.0 else real(-1.0)
        return second * random.gamma(seed, replicate, entity, random.EVENT_DRAW, index, shape)
    else:
        w0, w1, w2, w3 = random.draw_words(seed, replicate, entity, random.EVENT_DRAW, index)
        if kind == 2 and second >= first:
            return fma(random.uniform(w0, w1), second - first, first)
        if kind == 3 and second >= 0.0:
            return fma(second, random.normal(w0, w1), first)
        if kind == 5 and first > 0.0:
            return random.exponential(w0, w1) / first
    return real(count) if count >= 0 else real(NOT_A_NUMBER)


def _next_number(row, waiting):
    """Number of the next draw for events of a realization."""
    number = waiting.keys[row, 2]
    waiting.keys[row, 2] = number + np.uint64(1)
    return number


def _uniform(entry, purpose, w, waiting):
    """A uniform random number for an event."""
    row = row_of(w)
    number = _next_number(row, waiting)
    entity = np.uint64(entry) | (np.uint64(number >> np.uint64(24)) << np.uint64(32))
    index = np.uint32(number & np.uint64(0xFFFFFF))
    w0, w1, w2, w3 = random.draw_words(
        waiting.keys[row, 0], waiting.keys[row, 1], entity, purpose, index
    )  # fmt: skip
    return random.uniform(w0, w1)


@noinline_cpu
def _rounded(value, mode, entry, w, waiting):
    """`value` rounded to a whole count, by `mode`: to the nearest, down, or at random."""
    low, near = math.floor(value) * real(1.0), math.floor(value + real(0.5)) * real(1.0)
    if abs(value - near) <= real(ALIKE) * max(abs(value), real(1.0)) or mode == 0 or mode == 2:
        return near
    if mode == 3:
        return low
    return low + 1.0 if _uniform(entry, random.EVENT_ROUNDING, w, waiting) < value - low else low


@noinline_cpu
def _assign_values(e, q, w, t, point, net, interruptions, work, waiting):
    """Compute the values that event `e` assigns, and keep them in place `q`."""
    row = row_of(w)
    base = q * (waiting.values.shape[1] // waiting.pending.shape[1])
    if interruptions.draw_starts[e] < interruptions.draw_starts[e + 1]:
        number = _next_number(row, waiting)
        for d in range(interruptions.draw_starts[e], interruptions.draw_starts[e + 1]):
            value = _drawn(d, number, w, t, point, net, interruptions, work, waiting)
            work.x[row, interruptions.draws[d, 1]] = value
    first = interruptions.assignment_starts[e]
    for entry in range(first, interruptions.assignment_starts[e + 1]):
        value = evaluate(interruptions.assignments[entry], w, t, point, net, work)
        waiting.values[row, base + entry - first] = value


@noinline_cpu
def _due(time, place, w, t, point, net, interruptions, work, waiting):
    """`time`, or the time of a pending event or break that differs from it by rounding."""
    row = row_of(w)
    near = abs(time) * real(ROUNDING)
    for q in range(waiting.pending.shape[1]):
        if q != place and waiting.pending[row, q] >= 0 and abs(waiting.due[row, q] - time) <= near:
            return waiting.due[row, q]
    for b in range(interruptions.breaks.size):
        turns_at = evaluate(interruptions.breaks[b], w, t, point, net, work)
        if abs(turns_at - time) <= near:
            return turns_at
    return time


@noinline_cpu
def _trigger(w, t, after, point, net, interruptions, work, waiting):
    """Evaluate every trigger; false if there is no room for another pending event."""
    row = row_of(w)
    moment = moment_of(t, after)
    for e in range(interruptions.triggers.size):
        now = 1 if evaluate(interruptions.triggers[e], w, moment, point, net, work) != 0.0 else 0
        flags = interruptions.flags[e]
        if now == 1 and waiting.armed[row, e] == 0:
            place = -1
            for q in range(waiting.pending.shape[1]):
                if waiting.pending[row, q] < 0:
                    place = q
                    break
            if place < 0:
                return False
            delay = real(0.0)
            if interruptions.event_delays[e] >= 0:
                delay = evaluate(interruptions.event_delays[e], w, moment, point, net, work)
            waiting.pending[row, place] = e
            waiting.due[row, place] = t
            if delay > 0.0:
                waiting.due[row, place] = _due(
                    t + delay, place, w, moment, point, net, interruptions, work, waiting
                )
            waiting.due_after[row, place] = after
            if flags & 4 != 0:
                _assign_values(e, place, w, moment, point, net, interruptions, work, waiting)
        elif now == 0 and waiting.armed[row, e] == 1 and flags & 1 == 0:
            for q in range(waiting.pending.shape[1]):
                if waiting.pending[row, q] == e:
                    waiting.pending[row, q] = -1
        waiting.armed[row, e] = now
    return True


@noinline_cpu
def _execute(q, w, t, point, plan, net, interruptions, work, waiting):
    """Execute the pending event in place `q`; returns 1, or a failure code."""
    row = row_of(w)
    e = waiting.pending[row, q]
    waiting.pending[row, q] = -1
    if interruptions.flags[e] & 4 == 0:
        _assign_values(e, q, w, t, point, net, interruptions, work, waiting)
    base = q * (waiting.values.shape[1] // waiting.pending.shape[1])
    first, last = interruptions.assignment_starts[e], interruptions.assignment_starts[e + 1]
    # The size before any assignment: one of this event does not change an assigned concentration.
    for entry in range(first, last):
        if interruptions.sizes[entry] >= 0:
            size = evaluate(interruptions.sizes[entry], w, t, point, net, work)
            waiting.values[row, base + entry - first] *= size
    for entry in range(first, last):
        variable = interruptions.assigned[entry]
        value = waiting.values[row, base + entry - first]
        # Counts of species are whole, except with the Langevin equation and of continuous species.
        if variable < plan.species_count and interruptions.real[variable] == 0:
            if not abs(value) < outcomes.INFINITY:
                return outcomes.FAILED_NOT_FINITE
            mode = (interruptions.flags[e] >> 3) & 7
            if abs(value) < outcomes.WHOLE_LIMIT and mode != 4:
                value = _rounded(value, mode, entry, w, waiting)
            if value < 0.0:
                return outcomes.FAILED_NEGATIVE
        work.x[row_of(w), variable] = value
    return 1


@noinline_cpu
def turned(w, t, point, net, interruptions, work, waiting):
    """Whether a firing changed the value of a trigger."""
    row = row_of(w)
    for k in range(interruptions.watched.size):
        e = interruptions.watched[k]
        now = 1 if evaluate(interruptions.triggers[e], w, t, point, net, work) != 0.0 else 0
        if now != waiting.armed[row, e]:
            return True
    return False


@noinline_cpu
def happen(w, t, after, point, plan, net, interruptions, work, waiting):
    """Execute events until none is due; returns whether there was any (0, 1), or a failure code.

    Events of equal priority run in random order; those without a priority last, as they are listed.
    """
    row = row_of(w)
    moment = moment_of(t, after)
    happened = 0
    if waiting.keys[row, 3] != 0:
        waiting.keys[row, 3] = np.uint64(0)
        for e in range(interruptions.triggers.size):
            if interruptions.flags[e] & 64 != 0:
                waiting.pending[row, 0] = e
                happened = _execute(0, w, moment, point, plan, net, interruptions, work, waiting)
                if happened < 0:
                    return happened
    for _ in range(EVENT_LIMIT):
        if not _trigger(w, t, after, point, net, interruptions, work, waiting):
            return outcomes.FAILED_TO_END
        best, highest, alike = -1, real(-outcomes.INFINITY), 1
        for q in range(waiting.pending.shape[1]):
            due = waiting.due[row, q]
            if waiting.pending[row, q] >= 0 and (
                due < t or (due == t and waiting.due_after[row, q] <= after)
            ):
                priority = real(-outcomes.INFINITY)
                program = interruptions.priorities[waiting.pending[row, q]]
                if program >= 0:
                    priority = evaluate(program, w, moment, point, net, work)
                if best < 0 or priority > highest:
                    best, highest, alike = q, priority, 1
                elif priority == highest and priority == -outcomes.INFINITY:
                    if waiting.pending[row, q] < waiting.pending[row, best]:
                        best = q
                elif priority == highest:
                    alike += 1
                    if _uniform(0, random.EVENT_ORDER, w, waiting) * alike < 1.0:
                        best = q
        if best < 0:
            return happened
        happened = _execute(best, w, moment, point, plan, net, interruptions, work, waiting)
        if happened < 0:
            return happened
    return outcomes.FAILED_TO_END


@noinline_cpu
def next_break(w, t, after, point, net, interruptions, work, waiting):
    """The next break or pending event: its time, and 1 if just after that time."""
    row = row_of(w)
    moment = moment_of(t, after)
    soonest, side = real(outcomes.INFINITY), 0
    for b in range(interruptions.breaks.size):
        time = evaluate(interruptions.breaks[b], w, moment, point, net, work)
        if time == t and after == 0:
            soonest, side = t, 1
        elif time > t and (time < soonest or (time == soonest and side == 1)):
            soonest, side = time, 0
    for q in range(waiting.pending.shape[1]):
        if waiting.pending[row, q] >= 0:
            due, due_after = waiting.due[row, q], int(waiting.due_after[row, q])
            if due < soonest or (due == soonest and due_after < side):
                soonest, side = due, due_after
    return soonest, side


def or_delayed(soonest, side, w, waiting):
    """The earlier of a time with its side, and of the next delayed product."""
    if waiting.delayed_count[w, 0] > 0:
        due = waiting.delayed_times[w, 0]
        if due < soonest or (due == soonest and side == 1):
            soonest, side = due, 0
    return soonest, side


def just_after(t):
    """The next later time: comparisons with `t` have changed."""
    return t + max(abs(t) * real(2.220446049250313e-16), real(1e-300))


def moment_of(t, after):
    """The time that formulas see at `t` (``after`` is 0) or just after it (1)."""
    return just_after(t) if after != 0 else t


def is_over(g, limit, side):
    """Whether the next break, at `limit`, is after the time `g` of the grid.

    Times that differ by rounding are equal: 1.1 + 2.2 is not after 3.3, and just after 0.7 + 0.1 is
    not before 0.8.
    """
    near = abs(g) * real(ROUNDING)
    return limit > g + near or (side == 1 and limit >= g - near)


@noinline_cpu
def interrupt(
    w, t, after, point, plan, after_firing, soonest, side, net, interruptions, work, waiting
):
    """Execute the events that a firing or a break triggers.

    Returns whether any event was executed (or a failure code), the next break, 1 if that is just
    after its time, and whether the stopping condition holds.
    """
    happened = 0
    again = not after_firing or plan.moving_breaks
    if not after_firing or turned(w, t, point, net, interruptions, work, waiting):
        if interruptions.triggers.size > 0:
            happened = happen(w, t, after, point, plan, net, interruptions, work, waiting)
        again = True
    if again:
        soonest, side = next_break(w, t, after, point, net, interruptions, work, waiting)
        soonest, side = or_delayed(soonest, side, row_of(w), waiting)
    over = False
    if interruptions.stop.size > 0 and happened >= 0:
        over = evaluate(interruptions.stop[0], w, moment_of(t, after), point, net, work) != 0.0
    return happened, soonest, side, over
