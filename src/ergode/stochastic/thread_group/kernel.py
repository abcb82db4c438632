"""Realizations on a GPU by thread groups: part of a warp, a warp or a block for each realization.

The threads of a group share the search for a reaction and the updates after a firing. A method
keeps partial sums in shared memory, which add up to the total propensity. Each thread owns several
of them, adjacent in memory. A search has three levels (M. Komarov, R. D'Souza, PLoS ONE 7 e46693,
2012):

1. Every thread adds up its partial sums; a prefix sum over the group and a vote choose a thread.
2. A prefix sum over the partial sums of that thread and a vote choose one of them.
3. The method searches the reactions of that partial sum.

Each thread draws the waiting time and the choice of one future firing.

A block has more threads, and slower barriers. It is worth it for few realizations of networks in
which a firing changes many propensities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, no_unroll, option, real
from ergode.core.group import (
    LANES,
    SIZE,
    any_of,
    barrier,
    broadcast,
    first_of,
    lane_in,
    next_member,
    prefix_of,
    share,
    shuffle,
)
from ergode.core.math.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import arm, interrupt, is_over, moment_of
from ergode.stochastic.kernel.numbering import replicate_of
from ergode.stochastic.kernel.results import accumulate_count, add_amount, finish
from ergode.stochastic.thread_group.ops import SCRATCH, STRIDE, ThreadGroup, search

INTERRUPTED = option()
"""Whether there may be events or a stopping condition."""


class ThreadGroupNet(NamedTuple):
    """The arrays of `tables.Net` that the kernel itself reads."""

    initial: Any
    coefficients: Any
    parameters: Any
    laws: Any
    pairs: Any
    reactant_starts: Any
    reactants: Any
    orders: Any
    program_starts: Any
    operations: Any
    arguments: Any
    constants: Any


class ThreadGroupWork(NamedTuple):
    """The state and the stack; one row for each thread group or thread."""

    x: Any  # [thread group, variable]
    stack: Any  # [thread, depth]


def thread_group_of(w):
    """The thread group of a thread."""
    return w // SIZE


# ---- the functions of a method


thread_group_value = option()
"""``thread_group_value(place, threads, state)`` is the partial sum at a place of shared memory."""

thread_group_count = option()
"""``thread_group_count(i, threads, work, state)`` is the count of a species."""

thread_group_prepare = option()
"""``thread_group_prepare(t, point, threads, net, work, state)`` computes what the method keeps,
from the initial state.
"""

thread_group_choose = option()
"""``thread_group_choose(number, place, target, point, threads, work, state)`` is the reaction of
partial sum `number`, at `place`, whose interval contains `target`; -1 for none.
"""

thread_group_follow = option()
"""``thread_group_follow(j, t, point, threads, net, work, state)`` applies reaction `j` to the state
and to what the method keeps.
"""

thread_group_refresh = option()
"""``thread_group_refresh(t, point, threads, net, work, state)`` recomputes what the method keeps,
after an event.
"""


def pick(who, target, threads, state):
    """The partial sum of thread `who` that contains `target`: number, place, and the remainder."""
    number, place = np.int32(-1), np.uint32(0)
    begin = np.int32(0)
    while begin < state.width:
        value = real(0.0)
        k = np.int32(begin + threads.rank)
        if k < state.width:
            value = thread_group_value(at(threads.base + k * STRIDE + who), threads, state)
        found, rest, total = search(value, target, threads)
        if found >= 0:
            k = np.int32(begin + found)
            number = np.int32(who * state.width + k)
            place = np.uint32(threads.base + k * STRIDE + who)
            if target < total:
                target = rest
                break
        target -= total
        begin = np.int32(begin + SIZE)
    return number, place, target


# ---- the realization


def report(row, cell, cursor, threads, work, state, out):
    """Write the state at time `cursor` of the grid; false if a count is too large."""
    species = out.sums.shape[3]
    most = outcomes.COUNT_LIMIT if out.counts.shape[2] > 0 else outcomes.WHOLE_LIMIT
    wrong = False
    for i in no_unroll(share(threads, 0, species)):
        wrong = wrong or not abs(thread_group_count(i, threads, work, state)) < most
    if any_of(threads, wrong):
        return False
    if out.counts.shape[2] > 0 and threads.rank == 0:
        accumulate_count(out.counts, 0, cell, cursor)
    for i in no_unroll(share(threads, 0, species)):
        n = np.int64(thread_group_count(i, threads, work, state))
        if out.amounts.shape[0] > 0:
            out.amounts[row, cursor, i] = n
        if out.counts.shape[2] > 0 and n != 0:
            add_amount(0, cell, cursor, i, n, out)
    return True


class Firing(NamedTuple):
    """The next firing, and the break that may precede it."""

    fires_at: Any
    waited: Any  # whether there is time left for it before the break or the end
    breaks: Any  # whether the break is before it
    soonest: Any  # the next break
    side: Any  # 1 if that is just after its time


def _is_passed(g, end, firing):
    """Whether nothing more happens at the time `g` of the grid."""
    if firing.breaks:
        return is_over(g, firing.soonest, firing.side)
    return not firing.waited or g < firing.fires_at or (g == end and not firing.fires_at < g)


def _report_passed(row, cell, cursor, firing, threads, work, state, out):
    """Write the times of the grid that are passed; returns the next one, and the outcome."""
    times = out.grid.size
    while cursor < times:
        if not _is_passed(out.grid[cursor], out.grid[times - 1], firing):
            break
        if not report(row, cell, cursor, threads, work, state, out):
            return cursor, outcomes.OVERFLOW
        cursor += 1
    return cursor, outcomes.DONE


def _report_stopped(row, cell, cursor, threads, work, state, out):
    """Write the state at which the stopping condition held, for all later times."""
    while cursor < out.grid.size:
        if not report(row, cell, cursor, threads, work, state, out):
            return cursor, outcomes.OVERFLOW
        cursor += 1
    return cursor, outcomes.DONE


def _sum_of_thread(threads, state):
    """Sum of the partial sums of this thread."""
    total = real(0.0)
    place = np.uint32(threads.base + threads.rank)
    k = np.int32(0)
    while k < state.width:
        total += thread_group_value(place, threads, state)
        place = np.uint32(place + STRIDE)
        k = np.int32(k + 1)
    return total


def _choose(target, mine, up_to, point, threads, work, state):
    """Reaction whose interval of the cumulative sum contains `target`; -1 for none.

    `mine` is the sum of this thread, `up_to` the inclusive prefix sum.
    """
    some = mine > 0.0
    who = first_of(threads, up_to > target and some, some)
    if who < 0:
        return np.int32(-1)
    target = broadcast(threads, target - (up_to - mine), who)
    chosen, place, target = pick(who, target, threads, state)
    if chosen < 0:
        return np.int32(-1)
    return np.int32(thread_group_choose(chosen, place, target, point, threads, work, state))


class Arrays(NamedTuple):
    """State and tables of a realization, without results."""

    net: Any
    interruptions: Any
    work: Any
    waiting: Any
    state: Any


def _interrupt(after_firing, t, after, soonest, side, point, plan, threads, arrays):
    """Call `interrupt` by the first thread, and refresh propensities if an event was executed.

    Returns the outcome, the next break, 1 if that is just after its time, and whether to stop.
    """
    code = real(0.0)
    if threads.rank == 0:
        happened, soonest, side, over = interrupt(
            at(cuda.grid(1)), t, after, point, plan, after_firing, soonest, side, arrays.net,
            arrays.interruptions, arrays.work, arrays.waiting,
        )  # fmt: skip
        code = real(4 * happened + 2 * side + (1 if over else 0))
    soonest = broadcast(threads, soonest, 0)
    numbers = np.int32(broadcast(threads, code, 0))
    barrier(threads)
    happened, side, over = numbers >> 2, (numbers >> 1) & 1, numbers & 1 == 1
    if happened < 0:
        return outcomes.outcome_of(happened), soonest, side, over
    if happened == 1 or not after_firing:
        moment = moment_of(t, after)
        thread_group_refresh(moment, point, threads, arrays.net, arrays.work, arrays.state)
        barrier(threads)
    return outcomes.DONE, soonest, side, over


def _draw(seed, replicate, draw, threads):
    """Waiting time and choice of a future firing; lane k is k draws ahead."""
    w0, w1, w2, w3 = draw_words(seed, replicate, draw >> 32, FIRING, draw + lane_in(threads))
    return exponential(w0, w1), uniform(w2, w3)


def _next_firing(t, after, waits, turn, total, soonest, side, end):
    """The next firing, and whether a break precedes it."""
    moment = t
    breaks, waited = False, True
    if INTERRUPTED:
        moment = moment_of(t, after)
        breaks = not is_over(end, soonest, side)
        waited = moment < (soonest if breaks else end)
    fires_at = moment + shuffle(waits, turn) / total
    breaks = breaks and not (waited and fires_at < soonest)
    return Firing(fires_at, waited, breaks, soonest, side)


def _realize(row, alarm, threads, plan, arrays, out):
    """Simulate the realization of a row of the results."""
    number = (plan.first + row) // plan.replicates
    replicate = np.uint32(replicate_of(plan.first + row, number, plan))
    cell = number - plan.first // plan.replicates
    point = at(number)
    net, work, state = arrays.net, arrays.work, arrays.state
    memory = threads.scratch
    if threads.rank == 0:
        memory[alarm] = 0.0
    t, after = plan.begin, 0
    thread_group_prepare(t, point, threads, net, work, state)
    barrier(threads)
    draw, firings = np.int64(0), np.int64(0)
    cursor = 0
    limit, end = out.grid[0], out.grid[out.grid.size - 1]
    outcome = outcomes.DONE
    over = False
    soonest, side = real(outcomes.INFINITY), 0
    if INTERRUPTED:
        if threads.rank == 0:
            arm(at(cuda.grid(1)), plan.seed, replicate, arrays.interruptions, arrays.waiting)
        outcome, soonest, side, over = _interrupt(
            False, t, after, soonest, side, point, plan, threads, arrays
        )
    waits, choices = real(0.0), real(0.0)
    while not over and outcome == outcomes.DONE:
        mine = _sum_of_thread(threads, state)
        up_to, total = prefix_of(threads, mine)
        if memory[alarm] != 0.0:
            outcome = outcomes.NEGATIVE
            break
        if not (total >= 0.0 and total < outcomes.INFINITY):
            outcome = outcomes.NOT_FINITE
            break
        turn = np.int32(draw & (LANES - 1))
        if turn == 0:
            waits, choices = _draw(plan.seed, replicate, draw, threads)
        firing = _next_firing(t, after, waits, turn, total, soonest, side, end)
        # As in `next_firing.advance`, nothing is drawn if nothing can fire or no time is left.
        draw += 0 if INTERRUPTED and (total == 0.0 or not firing.waited) else 1
        if not (firing.waited and firing.fires_at < min(limit, soonest)):
            cursor, outcome = _report_passed(row, cell, cursor, firing, threads, work, state, out)
            if outcome != outcomes.DONE:
                break
            if cursor == out.grid.size:
                extinct = total == 0.0 and soonest == outcomes.INFINITY and firing.waited
                outcome = outcomes.EXTINCT if extinct else outcomes.DONE
                break
            limit = out.grid[cursor]
            if INTERRUPTED and firing.breaks:
                t, after = soonest, side
                outcome, soonest, side, over = _interrupt(
                    False, t, after, soonest, side, point, plan, threads, arrays
                )
                continue
        target = shuffle(choices, turn) * total
        j = _choose(target, mine, up_to, point, threads, work, state)
        if j < 0:
            continue
        t, after = firing.fires_at, 0
        firings += 1
        thread_group_follow(j, t, point, threads, net, work, state)
        barrier(threads)
        if INTERRUPTED:
            outcome, soonest, side, over = _interrupt(
                True, t, after, soonest, side, point, plan, threads, arrays
            )
        if outcome == outcomes.DONE and firings >= plan.max_firings:
            outcome = outcomes.TOO_MANY
    if INTERRUPTED and over and outcome == outcomes.DONE:
        cursor, outcome = _report_stopped(row, cell, cursor, threads, work, state, out)
    if threads.rank == 0:
        finish(row, outcome, firings, cursor, t, over, out)


def realize_thread_groups(queue, count, size, net, interruptions, work, waiting, state, plan, out):
    """All realizations: each thread group takes the next one from a queue.

    A thread group has `size` float64 of shared memory: scratch for the operations of a block, one
    flag (a propensity or a count is negative), and the partial sums of the method.
    """
    own = at(cuda.threadIdx.x // SIZE * size)
    alarm = at(own + SCRATCH)
    threads = ThreadGroup(
        np.int32(cuda.threadIdx.x & (SIZE - 1)),
        SIZE,
        cuda.shared.array(0, np.float64),
        at(cuda.grid(1) // SIZE),
        at(alarm + 1),
    )
    arrays = Arrays(net, interruptions, work, waiting, state)
    row = next_member(threads, queue)
    while row < count:
        _realize(row, alarm, threads, plan, arrays, out)
        row = next_member(threads, queue)
