"""One realization, by any exact method: from firing to firing, with all that interrupts them.

A method tells what fires next (`advance`) and follows what changed (`prepare`, `update`).  The
rest is the same for all and is here: results on the grid, events, products that are late, breaks
at which rates turn, conditions that end a realization, and what went wrong.

Between breaks the process has no memory, so stopping at one and drawing anew is exact.  The grid
of results is no break: it never changes a realization.

D. T. Gillespie, "Exact stochastic simulation of coupled chemical reactions", J. Phys. Chem. 81
(1977).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.machine import borrowing, cuda, outlined, real
from ergode.core.status import Status
from ergode.stochastic.programs import evaluate

INFINITY = float("inf")
# Bound by methods that step over firings, and therefore stop at every time of the grid.
LEAPS = False
COUNT_LIMIT = 2147483648.0
EVENT_LIMIT = 10000
NO_REACTION = -1

_DONE = np.uint8(Status.DONE)
_EXTINCT = np.uint8(Status.EXTINCT)
_NOT_FINITE = np.uint8(Status.NOT_FINITE)
_TOO_MANY = np.uint8(Status.TOO_MANY_STEPS)
_OVERFLOW = np.uint8(Status.OVERFLOW)
_NEGATIVE = np.uint8(Status.NEGATIVE_RATE)

# What `advance` may say instead of a reaction.
FAILED_NOT_FINITE = -2
FAILED_NEGATIVE = -3


class Plan(NamedTuple):
    """What is asked for; numbers."""

    seed: Any
    replicates: Any  # replicates of every point
    first: Any  # number of the first realization of this chunk
    begin: Any  # time at which realizations begin
    firings_most: Any
    moving_breaks: Any  # whether breaks depend on the state


class Work(NamedTuple):
    """What a worker keeps, whatever the method; rows of one worker each."""

    x: Any  # [worker, variable]
    stack: Any  # [worker, depth]
    armed: Any  # [worker, event] whether the trigger was true
    due: Any  # [worker, pending] time of a pending event
    pending: Any  # [worker, pending] which event; -1 for none
    values: Any  # [worker, pending * most values]
    late_times: Any  # [worker, late] heap of times of late products
    late_reactions: Any  # [worker, late]
    counters: Any  # [worker, 2] pending late products; whether the method has begun


class Out(NamedTuple):
    """Results; what is not asked for has no rows."""

    grid: Any  # [time]
    amounts: Any  # [row, time, species]
    sums: Any  # [slot, point, time, species]
    squares_low: Any
    squares_high: Any
    counts: Any  # [slot, point, time]
    status: Any  # [row]
    firings: Any  # [row]
    ended: Any  # [row] time at which it ended
    log_starts: Any  # [row + 1]
    log_times: Any
    log_reactions: Any


# ---- bound for each method and target


def prepare(w, t, point, plan, replicate, net, work, own):
    """Make everything that the method keeps from the state."""


def update(j, w, t, point, plan, replicate, net, work, own):
    """Follow the change that reaction `j` made to the state; false if that cannot be."""
    return True


def advance(w, t, limit, point, draw, plan, replicate, net, work, own):
    """Time of the next firing, its reaction, and the next draw's index.

    The time is `limit` or later, without a reaction, if nothing fires before it.
    """
    return t, 0, draw


def add_to(array, slot, point, k, i, value):
    """Add to a shared accumulator."""
    array[slot, point, k, i] += value


def add_to_count(array, slot, point, k):
    array[slot, point, k] += 1


# ---- propensities


def falling_factorials(j, w, net, work):
    """Number of ordered ways to choose the reactants of a law."""
    product = real(1.0)
    for entry in range(net.reactant_starts[j], net.reactant_starts[j + 1]):
        n = work.x[w, net.reactants[entry]]
        product *= n
        for k in range(1, net.orders[entry]):
            product *= max(n - real(k), real(0.0))
    return product


def propensity(j, w, t, point, net, work):
    """Probability per time that reaction `j` fires."""
    a = net.coefficients[point, j] * falling_factorials(j, w, net, work)
    if net.laws[j] >= 0:
        rate = evaluate(net.laws[j], w, t, point, net, work)
        a = rate * a
    return a


def change(j, w, net, work):
    """Change the state by what reaction `j` does at once."""
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        work.x[w, net.changed[entry]] += net.changes[entry]


# ---- results


@outlined
def write(k, w, row, point, slot, work, out):
    """Report the state at time `k` of the grid; false if a count is too large."""
    fits = True
    for i in range(out.sums.shape[3]):
        x = work.x[w, i]
        fits = fits and abs(x) < COUNT_LIMIT
    if not fits:
        return False
    if out.amounts.shape[0] > 0:
        for i in range(out.amounts.shape[2]):
            out.amounts[row, k, i] = work.x[w, i]
    if out.counts.shape[2] > 0:
        add_to_count(out.counts, slot, point, k)
        for i in range(out.sums.shape[3]):
            n = np.int64(work.x[w, i])
            if n != 0:
                square = n * n
                add_to(out.sums, slot, point, k, i, n)
                add_to(out.squares_low, slot, point, k, i, square & np.int64(0xFFFFFFFF))
                if square >> 32 != 0:
                    add_to(out.squares_high, slot, point, k, i, square >> 32)
    return True


# ---- late products: a heap by time


@outlined
def push_late(time, j, w, work):
    """Remember that products of `j` appear at `time`; false if there is no room."""
    size = work.counters[w, 0]
    if size >= work.late_times.shape[1]:
        return False
    hole = size
    while hole > 0 and work.late_times[w, (hole - 1) // 2] > time:
        work.late_times[w, hole] = work.late_times[w, (hole - 1) // 2]
        work.late_reactions[w, hole] = work.late_reactions[w, (hole - 1) // 2]
        hole = (hole - 1) // 2
    work.late_times[w, hole] = time
    work.late_reactions[w, hole] = j
    work.counters[w, 0] = size + 1
    return True


@outlined
def pop_late(w, work):
    """The reaction whose products are next."""
    j = work.late_reactions[w, 0]
    size = work.counters[w, 0] - 1
    work.counters[w, 0] = size
    time, last = work.late_times[w, size], work.late_reactions[w, size]
    hole = 0
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and work.late_times[w, child + 1] < work.late_times[w, child]:
            child += 1
        if work.late_times[w, child] >= time:
            break
        work.late_times[w, hole] = work.late_times[w, child]
        work.late_reactions[w, hole] = work.late_reactions[w, child]
        hole = child
    work.late_times[w, hole] = time
    work.late_reactions[w, hole] = last
    return j


# ---- events


@outlined
def arm(w, net, work):
    """State of triggers before the beginning."""
    for e in range(net.event_triggers.size):
        work.armed[w, e] = (net.event_flags[e] >> 1) & 1
    for q in range(work.pending.shape[1]):
        work.pending[w, q] = -1


@outlined
def _assign_values(e, q, w, t, point, net, work):
    """Compute what event `e` assigns, into place `q`."""
    base = q * (work.values.shape[1] // work.pending.shape[1])
    first = net.assignment_starts[e]
    for entry in range(first, net.assignment_starts[e + 1]):
        value = evaluate(net.assignments[entry], w, t, point, net, work)
        work.values[w, base + entry - first] = value


@outlined
def _trigger(w, t, point, net, work):
    """Look at every trigger; false if there is no room for another pending event."""
    for e in range(net.event_triggers.size):
        now = 1 if evaluate(net.event_triggers[e], w, t, point, net, work) != 0.0 else 0
        flags = net.event_flags[e]
        if now == 1 and work.armed[w, e] == 0:
            place = -1
            for q in range(work.pending.shape[1]):
                if work.pending[w, q] < 0:
                    place = q
                    break
            if place < 0:
                return False
            delay = real(0.0)
            if net.event_delays[e] >= 0:
                delay = evaluate(net.event_delays[e], w, t, point, net, work)
            work.pending[w, place] = e
            work.due[w, place] = t + max(delay, real(0.0))
            if flags & 4 != 0:
                _assign_values(e, place, w, t, point, net, work)
        elif now == 0 and work.armed[w, e] == 1 and flags & 1 == 0:
            for q in range(work.pending.shape[1]):
                if work.pending[w, q] == e:
                    work.pending[w, q] = -1
        work.armed[w, e] = now
    return True


@outlined
def _execute(q, w, t, point, species_count, net, work):
    """Assign what the pending event in place `q` assigns."""
    e = work.pending[w, q]
    work.pending[w, q] = -1
    if net.event_flags[e] & 4 == 0:
        _assign_values(e, q, w, t, point, net, work)
    base = q * (work.values.shape[1] // work.pending.shape[1])
    first = net.assignment_starts[e]
    for entry in range(first, net.assignment_starts[e + 1]):
        variable = net.assigned[entry]
        value = work.values[w, base + entry - first]
        # Amounts are whole; parameters, which come after the species, are what they are.
        whole = variable < species_count
        work.x[w, variable] = math.floor(value + real(0.5)) if whole else value


@outlined
def happen(w, t, point, species_count, net, work):
    """Trigger and execute events until none is due: 0 nothing, 1 something happened, 2 no end."""
    happened = 0
    for _ in range(EVENT_LIMIT):
        if not _trigger(w, t, point, net, work):
            return 2
        best, highest = -1, real(-INFINITY)
        for q in range(work.pending.shape[1]):
            if work.pending[w, q] >= 0 and work.due[w, q] <= t:
                priority = real(-INFINITY)
                program = net.event_priorities[work.pending[w, q]]
                if program >= 0:
                    priority = evaluate(program, w, t, point, net, work)
                if best < 0 or priority > highest:
                    best, highest = q, priority
        if best < 0:
            return happened
        _execute(best, w, t, point, species_count, net, work)
        happened = 1
    return 2


@outlined
def next_break(w, t, point, net, work):
    """The next time after `t` at which something turns, or is due."""
    soonest = real(INFINITY)
    for b in range(net.breaks.size):
        time = evaluate(net.breaks[b], w, t, point, net, work)
        if time >= t and time < soonest:
            soonest = time
    for q in range(work.pending.shape[1]):
        if work.pending[w, q] >= 0:
            soonest = min(soonest, work.due[w, q])
    if work.counters[w, 0] > 0:
        soonest = min(soonest, work.late_times[w, 0])
    return soonest


def just_after(t):
    """A time so little later that comparisons with `t` have turned."""
    return t + max(abs(t) * real(2.220446049250313e-16), real(1e-300))


# ---- the realization


@borrowing
@outlined
def realize(row, w, slot, net, work, own, plan, out):
    """Simulate one realization, which is row `row` of the results."""
    number = plan.first + row
    first_point = plan.first // plan.replicates
    point = number // plan.replicates
    replicate = number - point * plan.replicates
    cell = point - first_point
    for i in range(net.initial.shape[1]):
        work.x[w, i] = net.initial[point, i]
    work.counters[w, 0] = 0
    work.counters[w, 1] = 0
    arm(w, net, work)
    grid = out.grid
    species_count = out.sums.shape[3]
    end = grid[grid.size - 1]
    t = plan.begin
    eventful = net.event_triggers.size > 0
    breakable = eventful or net.breaks.size > 0 or net.late.size > 0
    outcome = _DONE
    draw = np.int64(0)
    firings = np.int64(0)
    cursor = 0
    logged = np.int64(0)
    log_first, log_last = np.int64(0), np.int64(0)
    if out.log_starts.size > 1:
        log_first, log_last = out.log_starts[row], out.log_starts[row + 1]
    # Comparisons with the first time count as turned: what begins at it has begun.
    if eventful and happen(w, just_after(t), point, species_count, net, work) == 2:
        outcome = _TOO_MANY
    over = outcome != _DONE
    if net.stop.size > 0 and not over:
        over = evaluate(net.stop[0], w, t, point, net, work) != 0.0
    soonest = real(INFINITY)
    if breakable:
        soonest = next_break(w, just_after(t), point, net, work)
        prepare(w, just_after(t), point, plan, replicate, net, work, own)
    else:
        prepare(w, t, point, plan, replicate, net, work, own)
    while not over:
        limit = min(soonest, end)
        if LEAPS:
            fits = True
            while cursor < grid.size and grid[cursor] <= t and fits:
                fits = write(cursor, w, row, cell, slot, work, out)
                cursor += 1
            if not fits:
                outcome = _OVERFLOW
                break
            if cursor == grid.size:
                break
            limit = min(soonest, grid[cursor])
        fires_at, j, draw = advance(
            w, t, limit, point, draw, plan, replicate, net, work, own
        )  # fmt: skip
        if j < NO_REACTION:
            outcome = _NEGATIVE if j == FAILED_NEGATIVE else _NOT_FINITE
            break
        reached = fires_at if j >= 0 else limit
        # What happens at a time of the grid is over when that is reported.
        while cursor < grid.size and (
            grid[cursor] < reached or (j < 0 and soonest > end and grid[cursor] <= end)
        ):
            if not write(cursor, w, row, cell, slot, work, out):
                outcome = _OVERFLOW
                break
            cursor += 1
        if outcome != _DONE or cursor == grid.size:
            t = end
            if fires_at == INFINITY and outcome == _DONE and soonest == INFINITY:
                outcome = _EXTINCT
            break
        if j >= 0:
            t = fires_at
            if LEAPS:
                firings += np.int64(own.fired[w, 0])
            else:
                change(j, w, net, work)
                firings += 1
            if log_first + logged < log_last:
                out.log_times[log_first + logged] = t
                out.log_reactions[log_first + logged] = j
                logged += 1
            if not LEAPS and net.delays[j] >= 0:
                delay = evaluate(net.delays[j], w, t, point, net, work)
                if not push_late(t + max(delay, real(0.0)), j, w, work):
                    outcome = _OVERFLOW
                    break
                soonest = min(soonest, work.late_times[w, 0])
            happened = 0
            if eventful:
                happened = happen(w, t, point, species_count, net, work)
                if happened == 2:
                    outcome = _TOO_MANY
                    break
            followed = update(j, w, t, point, plan, replicate, net, work, own)
            if happened == 1 or not followed:
                prepare(w, t, point, plan, replicate, net, work, own)
            if happened == 1:
                soonest = next_break(w, just_after(t), point, net, work)
            if happened == 0 and plan.moving_breaks:
                soonest = next_break(w, just_after(t), point, net, work)
            elif eventful and happened == 0:
                for q in range(work.pending.shape[1]):
                    if work.pending[w, q] >= 0:
                        soonest = min(soonest, work.due[w, q])
            if firings >= plan.firings_most:
                outcome = _TOO_MANY
                break
        else:
            # A break: products appear, comparisons turn, events happen.
            t = just_after(limit)
            while work.counters[w, 0] > 0 and work.late_times[w, 0] <= t:
                late = pop_late(w, work)
                for entry in range(net.late_starts[late], net.late_starts[late + 1]):
                    work.x[w, net.late[entry]] += net.late_changes[entry]
            if eventful and happen(w, t, point, species_count, net, work) == 2:
                outcome = _TOO_MANY
                break
            prepare(w, t, point, plan, replicate, net, work, own)
            soonest = next_break(w, just_after(t), point, net, work)
        if net.stop.size > 0:
            over = evaluate(net.stop[0], w, t, point, net, work) != 0.0
    if over and outcome == _DONE:
        # The state in which it was stopped is what is reported from then on.
        while cursor < grid.size:
            if not write(cursor, w, row, cell, slot, work, out):
                outcome = _OVERFLOW
                break
            cursor += 1
    out.status[row] = outcome
    out.firings[row] = firings
    out.ended[row] = t if over else real(INFINITY)


# ---- CPU and CUDA: a thread a realization


def realize_cpu(start, stop, grain, net, work, own, plan, out):
    """Realizations `start` to `stop`, on one thread; every range has its own worker's rows."""
    w = start // grain
    for row in range(start, stop):
        realize(row, w, w, net, work, own, plan, out)


def add_to_cuda(array, slot, point, k, i, value):
    """Add to a shared accumulator, whoever else does."""
    cuda.atomic.add(array, (slot, point, k, i), value)


def add_to_count_cuda(array, slot, point, k):
    """Count, whoever else does."""
    cuda.atomic.add(array, (slot, point, k), 1)


def realize_cuda(queue, count, spread, net, work, own, plan, out):
    """All realizations: a thread takes the next from the queue when it has finished one.

    Of `spread` neighbours one works: threads of a warp wait for each other where they do different
    things, and where there are few realizations each may as well have a warp to itself.
    """
    index = cuda.grid(1)
    w = index // spread
    if index != w * spread or w >= work.x.shape[0]:
        return
    row = cuda.atomic.add(queue, 0, 1)
    while row < count:
        realize(row, w, 0, net, work, own, plan, out)
        row = cuda.atomic.add(queue, 0, 1)
