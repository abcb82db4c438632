"""One realization, by any method: its firings, and what interrupts them.

A method finds the next firing (`advance`) and updates what it keeps (`prepare`, `update`). This
module does the rest for all methods: results on the grid, events, delayed products, breaks,
stopping conditions and failures. Thread groups (`thread_group.kernel`) and space (`space.kernel`)
have their own ways to `start`, to `follow` a firing and to `pass_break`, in the same loop.

Between breaks the process is memoryless, so stopping at a break and drawing a new waiting time is
exact. Times of the grid are not breaks: they never change a realization.

D. T. Gillespie, "Exact stochastic simulation of coupled chemical reactions", J. Phys. Chem. 81
(1977).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import (
    by_reference,
    cuda,
    no_refcount,
    noinline_cpu,
    option,
    real,
)
from ergode.core.group import ONE, Group, barrier, next_member
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.bytecode import evaluate, row_of
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import (
    arm,
    delay_of,
    interrupt,
    is_over,
    moment_of,
    pop_delayed,
    push_delayed,
)
from ergode.stochastic.kernel.numbering import replicate_of
from ergode.stochastic.kernel.results import finish, leads, log_firing, write_last
from ergode.stochastic.kernel.results import write as write_amounts
from ergode.stochastic.tables import ONE_LESS

LEAPS = option(False)
"""Whether a step of the method has many firings."""

FLOWS = option(False)
"""Whether variables change between firings, by differential equations. In place of a reaction, the
number of reactions then means that a step ends without a firing.
"""

GENERAL = option(True)
"""Whether there may be formulas or reactions of three molecules. Otherwise none is compiled."""

INTERRUPTED = option(True)
"""Whether there may be events, breaks, delays, a stopping condition or a log of firings. Otherwise
none of these is compiled.
"""

PREPARED = option(False)
"""Whether realizations copy initial state that is prepared once per point."""

ONLY_VARIABLE = ONE_LESS - 1


class Plan(NamedTuple):
    """The run: numbers."""

    seed: Any
    replicates: Any  # replicates of every point
    begin_replicate: Any  # number of the first of them, at point 0
    apart: Any  # distance between those numbers of successive points; 0 if all are the same
    first: Any  # first realization of this chunk
    begin: Any  # start time
    max_firings: Any
    moving_breaks: Any  # whether breaks depend on the state
    species_count: Any
    acts: Any  # whether anything can fire; otherwise nothing is extinct


class Work(NamedTuple):
    """What every method keeps; one row for each worker."""

    x: Any  # [worker, variable + 1] the state, and a one
    stack: Any  # [worker, depth]
    begun: Any  # [worker, 1] whether the method has begun
    waits: Any  # [worker, draw] draws made ahead (see `kernel.next_firing`)
    choices: Any  # [worker, draw]


# ---- the functions of a method


def _between_nothing(k, time, w, plan, replicate, net, work, state):
    """Do nothing: the method has no steps."""


def _arrive_nowhere(w, work, state):
    """Do nothing: the method has no steps."""
    return np.int64(0)


def _tell_nothing(row, w, state, out):
    """Do nothing: the method has no steps."""


def _copy_nothing(w, lane, lanes, point, state):
    """Do nothing: the method prepares nothing."""


prepare = option()
"""``prepare(w, t, point, plan, replicate, net, work, state)`` computes what the method keeps, from
the state.
"""

update = option()
"""``update(j, w, t, point, plan, replicate, net, work, state)`` updates what the method keeps after
reaction `j`; false if the method needs `prepare` instead.
"""

advance = option()
"""``advance(w, t, limit, point, draw, plan, replicate, net, work, state)`` returns the time of the
next firing, its reaction, and the number of the next draw. If nothing fires before `limit`, the
time is `limit` or later and there is no reaction.
"""

between = option(_between_nothing)
"""``between(k, time, w, plan, replicate, net, work, state)`` interpolates the last step at time `k`
of the grid, into the worker's row.
"""

arrive = option(_arrive_nowhere)
"""``arrive(w, work, state)`` moves the worker's row to the end of the last step; returns its
firings.
"""

tell = option(_tell_nothing)
"""``tell(row, w, state, out)`` writes the statistics of all steps, when a realization has ended."""

copy_prepared = option(_copy_nothing)
"""``copy_prepared(w, lane, lanes, point, state)`` copies part `lane` of `lanes` of what was
prepared for a point into the worker's rows.
"""


# ---- propensities


def falling_factorials(j, w, net, work):
    """Number of ordered choices of the reactants of reaction `j`."""
    product = real(1.0)
    for entry in range(net.reactant_starts[j], net.reactant_starts[j + 1]):
        n = work.x[row_of(w), net.reactants[entry]]
        product *= n
        for k in range(1, net.orders[entry]):
            product *= max(n - real(k), real(0.0))
    return product


def propensity(j, w, t, point, net, work):
    """Probability per time that reaction `j` fires."""
    if GENERAL and (net.laws[j] >= 0 or net.pairs.shape[0] == 0):
        a = net.coefficients[point, j] * falling_factorials(j, w, net, work)
        if net.laws[j] >= 0:
            rate = evaluate(net.laws[j], w, t, point, net, work)
            a = rate * a
    else:
        second = net.pairs[at(j), 1]
        n = work.x[row_of(w), at(net.pairs[at(j), 0])]
        m = work.x[row_of(w), at(second & ONLY_VARIABLE)] - real(second >> 30)
        a = net.coefficients[point, at(j)] * (n * m)
    return a


def change(j, w, net, work):
    """Apply the undelayed changes of reaction `j`; false if a count becomes negative."""
    fine = True
    for entry in range(net.change_starts[at(j)], net.change_starts[at(j + 1)]):
        variable = at(net.changed[at(entry)])
        x = work.x[w, variable] + net.changes[at(entry)]
        work.x[w, variable] = x
        fine = fine and x >= 0.0
    return fine


# ---- what a realization does, by default


def _begin_draws():
    """Number of the first draw."""
    return np.int64(0)


def _load(row, w, lane, lanes, net, work, state, plan):
    """Copy part `lane` of `lanes` of the initial state into the rows of a worker."""
    point = (plan.first + row) // plan.replicates
    for i in range(lane, net.initial.shape[1], lanes):
        work.x[w, i] = net.initial[point, i]
    if PREPARED:
        copy_prepared(w, lane, lanes, point, state)


def _start(t, one, plan, net, interruptions, work, waiting, state):
    work.begun[one.worker, 0] = 0
    if INTERRUPTED:
        arm(one.worker, plan.seed, one.replicate, interruptions, waiting)
        return _pass_break(
            t, 0, real(outcomes.INFINITY), 0, one, plan, net, interruptions, work, waiting, state
        )
    else:
        if not PREPARED:
            prepare(one.worker, t, one.point, plan, one.replicate, net, work, state)
        return outcomes.DONE, real(outcomes.INFINITY), 0, False


def _write(k, one, work, state, out):
    return write_amounts(k, one.worker, one.row, one.cell, one.slot, work, state, out)


def _is_firing(j, net):
    """Whether a step ends with a firing."""
    return not FLOWS or j < net.change_starts.size - 1


def _interrupt(j, fires, t, soonest, side, one, plan, net, interruptions, work, waiting, state):
    """After a firing or a step: delays and events; returns what `_pass_break` does."""
    w = one.worker
    if fires and interruptions.delays[j] >= 0:
        delay = delay_of(j, w, t, one.point, net, interruptions, work, waiting)
        if not delay < outcomes.INFINITY:
            return outcomes.NOT_FINITE, soonest, side, False
        if not push_delayed(t + delay, j, w, waiting):
            return outcomes.OVERFLOW, soonest, side, False
        if waiting.delayed_times[w, 0] < soonest:
            soonest, side = waiting.delayed_times[w, 0], 0
    happened, soonest, side, over = interrupt(
        w, t, 0, one.point, plan, True, soonest, side, net, interruptions, work, waiting
    )
    if happened < 0:
        return outcomes.outcome_of(happened), soonest, side, over
    if FLOWS and happened == 1:  # or `update` puts the values of the step over the event's
        prepare(w, t, one.point, plan, one.replicate, net, work, state)
    followed = update(j, w, t, one.point, plan, one.replicate, net, work, state)
    if not followed or (happened == 1 and not FLOWS):
        prepare(w, t, one.point, plan, one.replicate, net, work, state)
    return outcomes.DONE, soonest, side, over


def _follow(j, t, firings, soonest, side, one, plan, net, interruptions, work, waiting, state, out):
    w = one.worker
    fired = np.int64(0)
    fires = not LEAPS and _is_firing(j, net)
    if LEAPS or FLOWS:
        fired += arrive(w, work, state)
    if fires:
        fired += np.int64(1)
        if not change(j, w, net, work):
            return outcomes.NEGATIVE, fired, soonest, side, False
    if INTERRUPTED:
        if fires:
            log_firing(one.row, firings, t, j, out)
        outcome, soonest, side, over = _interrupt(
            j, fires, t, soonest, side, one, plan, net, interruptions, work, waiting, state
        )
        return outcome, fired, soonest, side, over
    else:
        if not update(j, w, t, one.point, plan, one.replicate, net, work, state):
            prepare(w, t, one.point, plan, one.replicate, net, work, state)
        return outcomes.DONE, fired, soonest, side, False


def _pass_break(t, after, soonest, side, one, plan, net, interruptions, work, waiting, state):
    w = one.worker
    below = False
    while waiting.delayed_count[w, 0] > 0 and waiting.delayed_times[w, 0] <= t:
        j = pop_delayed(w, waiting)
        for entry in range(interruptions.delayed_starts[j], interruptions.delayed_starts[j + 1]):
            variable = interruptions.delayed_variables[entry]
            work.x[w, variable] += interruptions.delayed_changes[entry]
            below = below or (
                work.x[w, variable] < 0.0 and interruptions.delayed_changes[entry] < 0.0
            )
    if below:
        return outcomes.NEGATIVE, soonest, side, False
    happened, soonest, side, over = interrupt(
        w, t, after, one.point, plan, False, soonest, side, net, interruptions, work, waiting
    )
    if happened < 0:
        return outcomes.outcome_of(happened), soonest, side, over
    if soonest > t:
        prepare(w, moment_of(t, after), one.point, plan, one.replicate, net, work, state)
    return outcomes.DONE, soonest, side, over


first_draw = option(_begin_draws)
"""``first_draw()`` is what `advance` takes and returns of draws."""

load = option(_load)
"""``load(row, w, lane, lanes, net, work, state, plan)`` copies the initial state."""

start = option(_start)
"""``start(t, one, plan, net, interruptions, work, waiting, state)`` begins a realization. It
returns the outcome, the next break, 1 if that is just after its time, and whether to stop.
"""

write = option(_write)
"""``write(k, one, work, state, out)`` writes the state at time `k` of the grid; false if a count is
too large.
"""

follow = option(_follow)
"""``follow(j, t, firings, soonest, side, one, plan, net, interruptions, work, waiting, state,
out)`` changes the state by what `advance` returned. It returns the outcome, how many reactions
fired, and what `start` does after its outcome.
"""

pass_break = option(_pass_break)
"""``pass_break(t, after, soonest, side, one, plan, net, interruptions, work, waiting, state)``
handles a break: delayed products and events. It returns what `start` does.
"""


# ---- the realization


class Realization(NamedTuple):
    """A realization and its rows."""

    worker: Any  # row of the arrays that workers keep, or a thread group
    row: Any  # of the results
    slot: Any  # of the sums
    cell: Any  # point of the sweep, counted from the first of the chunk
    point: Any
    replicate: Any


def _which(row, w, slot, plan):
    """The realization of a row of the results."""
    number = plan.first + row
    point = number // plan.replicates
    cell = point - plan.first // plan.replicates
    return Realization(w, row, slot, cell, point, replicate_of(number, point, plan))


class Passage(NamedTuple):
    """A time span without firings, and what ends it."""

    moment: Any  # its begin
    fires_at: Any  # time of the firing, or of the end of a step
    j: Any  # the reaction, or `NO_REACTION`
    breaks: Any  # whether a break is before the end of the run
    limit: Any  # the time of the break, or the end
    soonest: Any  # the next break
    side: Any  # 1 if that is just after its time


def _is_passed(g, passage):
    """Whether nothing more happens at the time `g` of the grid."""
    if passage.j == outcomes.NO_REACTION and passage.breaks:
        passed = is_over(g, passage.limit, passage.side)
    else:
        passed = g < passage.fires_at or (passage.j == outcomes.NO_REACTION and g <= passage.limit)
    if (LEAPS or FLOWS) and passage.j >= 0 and passage.fires_at == passage.soonest:
        passed = is_over(g, passage.soonest, 0)
    return passed


def _write_passed(cursor, passage, one, plan, net, work, state, out):
    """Write the times of the grid that are passed; returns the next one, and the outcome."""
    grid = out.grid
    while cursor < grid.size:
        g = grid[cursor]
        if not _is_passed(g, passage):
            break
        if (
            (LEAPS or FLOWS)
            and passage.j != outcomes.NO_REACTION
            and passage.fires_at > passage.moment
        ):
            between(cursor, g, one.worker, plan, one.replicate, net, work, state)
        if not write(cursor, one, work, state, out):
            return cursor, outcomes.OVERFLOW
        cursor += 1
    return cursor, outcomes.DONE


def _write_stopped(cursor, one, work, state, out):
    """Write the state at which the stopping condition held, for all later times."""
    while cursor < out.grid.size:
        if not write(cursor, one, work, state, out):
            return cursor, outcomes.OVERFLOW
        cursor += 1
    return cursor, outcomes.DONE


@no_refcount
def realize(row, w, slot, net, interruptions, work, waiting, state, plan, out):
    """Simulate the realization of a row of the results."""
    one = _which(row, w, slot, plan)
    end = out.grid[out.grid.size - 1]
    t, after = plan.begin, 0
    draw, firings, cursor = first_draw(), np.int64(0), 0
    outcome, soonest, side, over = start(t, one, plan, net, interruptions, work, waiting, state)
    while not over and outcome == outcomes.DONE:
        moment, breaks, limit = t, False, end
        if INTERRUPTED:
            moment = moment_of(t, after)
            breaks = not is_over(end, soonest, side)
            limit = soonest if breaks else end
        if INTERRUPTED and limit <= moment:
            fires_at, j = limit, outcomes.NO_REACTION
        else:
            last = soonest if LEAPS or FLOWS else limit
            fires_at, j, draw = advance(
                w, moment, last, one.point, draw, plan, one.replicate, net, work, state
            )
        passage = Passage(moment, fires_at, j, breaks, limit, soonest, side)
        cursor, outcome = _write_passed(cursor, passage, one, plan, net, work, state, out)
        if outcome != outcomes.DONE:
            break
        if cursor == out.grid.size:
            if plan.acts and fires_at == outcomes.INFINITY and soonest == outcomes.INFINITY:
                outcome = outcomes.EXTINCT
            break
        if j < outcomes.NO_REACTION:
            outcome = outcomes.outcome_of(j)
            t = fires_at
            break
        if j >= 0:
            t, after = fires_at, 0
            outcome, fired, soonest, side, over = follow(
                j, t, firings, soonest, side, one, plan, net, interruptions, work, waiting, state,
                out,
            )  # fmt: skip
            firings += fired
            if not LEAPS and outcome == outcomes.DONE and firings >= plan.max_firings:
                outcome = outcomes.TOO_MANY
        elif INTERRUPTED:
            t, after = limit, side
            outcome, soonest, side, over = pass_break(
                t, after, soonest, side, one, plan, net, interruptions, work, waiting, state
            )
    if INTERRUPTED and over and outcome == outcomes.DONE:
        cursor, outcome = _write_stopped(cursor, one, work, state, out)
    if LEAPS or FLOWS:
        tell(row, w, state, out)
    if leads(w):
        finish(row, outcome, firings, cursor, t, over, out)
        write_last(row, w, work, state, out)


# ---- CPU and CUDA: one thread for each realization


@no_refcount
@noinline_cpu
def _realize_apart(row, w, slot, net, interruptions, work, waiting, state, plan, out):
    realize(row, w, slot, net, interruptions, work, waiting, state, plan, out)


realize_on_cpu = option(_realize_apart)
"""`realize`, which a CPU calls; it is inlined if `realize` itself is bound."""


def realize_cpu(start, stop, grain, net, interruptions, work, waiting, state, plan, out):
    """Realizations `start` to `stop`, on one thread; each range has its own worker."""
    w = start // grain
    net, interruptions, work = by_reference(net), by_reference(interruptions), by_reference(work)
    waiting, state, plan, out = (
        by_reference(waiting), by_reference(state), by_reference(plan), by_reference(out)
    )  # fmt: skip
    for row in range(start, stop):
        load(row, w, 0, 1, net, work, state, plan)
        realize_on_cpu(row, w, w, net, interruptions, work, waiting, state, plan, out)


def realize_cuda(queue, count, net, interruptions, work, waiting, state, plan, out):
    """All realizations: each thread takes the next one from a queue."""
    w = cuda.grid(1)
    if w >= work.x.shape[0]:
        return
    row = next_member(ONE, queue)
    while row < count:
        load(row, w, 0, 1, net, work, state, plan)
        realize(row, w, 0, net, interruptions, work, waiting, state, plan, out)
        row = next_member(ONE, queue)


def realize_led_cuda(queue, count, net, interruptions, work, waiting, state, plan, out):
    """As `realize_cuda`, with a warp for each realization: all lanes copy, one simulates.

    For few realizations: threads of a warp that diverge wait for each other.
    """
    w = cuda.grid(1) // 32
    if w >= work.x.shape[0]:
        return
    warp = Group(cuda.threadIdx.x & 31, 32, (), (), ())
    row = next_member(warp, queue)
    while row < count:
        load(row, w, warp.rank, 32, net, work, state, plan)
        barrier(warp)
        if warp.rank == 0:
            realize(row, w, 0, net, interruptions, work, waiting, state, plan, out)
        row = next_member(warp, queue)
