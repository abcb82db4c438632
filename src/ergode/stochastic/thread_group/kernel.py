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

from ergode.core.compiler.language import ByTarget, cuda, option, real
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
    shuffle,
)
from ergode.core.math.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.kernel import outcomes, realization, results
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import arm, interrupt, moment_of
from ergode.stochastic.kernel.realization import INTERRUPTED, realize
from ergode.stochastic.kernel.results import write
from ergode.stochastic.thread_group.ops import SCRATCH, STRIDE, ThreadGroup, search


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


# ---- what a realization does


def _amount(i, threads, work, state):
    return thread_group_count(i, threads, work, state)


def _share_in(threads, count):
    return range(threads.rank, count, threads.size)


def _all_in(threads, condition):
    return not any_of(threads, not condition)


def _leads(threads):
    return threads.rank == 0


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


def _interrupt(
    after_firing, t, after, soonest, side, one, plan, net, interruptions, work, waiting, state
):
    """Call `interrupt` by the first thread, and refresh propensities if an event was executed.

    Returns the outcome, the next break, 1 if that is just after its time, and whether to stop.
    """
    threads, point = one.worker, at(one.point)
    code = real(0.0)
    if threads.rank == 0:
        happened, soonest, side, over = interrupt(
            at(cuda.grid(1)), t, after, point, plan, after_firing, soonest, side, net,
            interruptions, work, waiting,
        )  # fmt: skip
        code = real(4 * happened + 2 * side + (1 if over else 0))
    soonest = broadcast(threads, soonest, 0)
    numbers = np.int32(broadcast(threads, code, 0))
    barrier(threads)
    happened, side, over = numbers >> 2, (numbers >> 1) & 1, numbers & 1 == 1
    if happened < 0:
        return outcomes.outcome_of(happened), soonest, side, over
    if happened == 1 or not after_firing:
        thread_group_refresh(moment_of(t, after), point, threads, net, work, state)
        barrier(threads)
    return outcomes.DONE, soonest, side, over


def _write(k, one, work, state, out):
    fits = write(k, one.worker, one.row, one.cell, one.slot, work, state, out)
    barrier(one.worker)  # a firing changes what others still write
    return fits


class Draws(NamedTuple):
    """Draws made ahead: lane k has that of the k-th firing from the last multiple of lanes on."""

    number: Any  # of the next draw
    wait: Any
    choice: Any


def _first_draw():
    return Draws(np.int64(0), real(0.0), real(0.0))


def _draw(seed, replicate, draw, threads):
    """Waiting time and choice of a future firing; lane k is k draws ahead."""
    w0, w1, w2, w3 = draw_words(seed, replicate, draw >> 32, FIRING, draw + lane_in(threads))
    return exponential(w0, w1), uniform(w2, w3)


def _advance(threads, t, limit, point, draw, plan, replicate, net, work, state):
    while True:
        mine = _sum_of_thread(threads, state)
        up_to, total = prefix_of(threads, mine)
        if threads.scratch[at(threads.base - 1)] != 0.0:
            return t, outcomes.FAILED_NEGATIVE, draw
        if not (total >= 0.0 and total < outcomes.INFINITY):
            return t, outcomes.FAILED_NOT_FINITE, draw
        if total == 0.0:
            return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
        turn = np.int32(draw.number & (LANES - 1))
        wait, choice = draw.wait, draw.choice
        if turn == 0:
            wait, choice = _draw(plan.seed, np.uint32(replicate), draw.number, threads)
        draw = Draws(draw.number + 1, wait, choice)
        fires_at = t + shuffle(wait, turn) / total
        if fires_at >= limit:
            return fires_at, outcomes.NO_REACTION, draw
        target = shuffle(choice, turn) * total
        j = _choose(target, mine, up_to, at(point), threads, work, state)
        if j >= 0:
            return fires_at, j, draw


def _start(t, one, plan, net, interruptions, work, waiting, state):
    threads = one.worker
    if threads.rank == 0:
        threads.scratch[at(threads.base - 1)] = 0.0
    thread_group_prepare(t, at(one.point), threads, net, work, state)
    barrier(threads)
    if INTERRUPTED:
        if threads.rank == 0:
            arm(at(cuda.grid(1)), plan.seed, np.uint32(one.replicate), interruptions, waiting)
        return _interrupt(
            False, t, 0, real(outcomes.INFINITY), 0, one, plan, net, interruptions, work, waiting,
            state,
        )  # fmt: skip
    else:
        return outcomes.DONE, real(outcomes.INFINITY), 0, False


def _follow(j, t, firings, soonest, side, one, plan, net, interruptions, work, waiting, state, out):
    threads = one.worker
    thread_group_follow(j, t, at(one.point), threads, net, work, state)
    barrier(threads)
    outcome, over = outcomes.DONE, False
    if INTERRUPTED:
        outcome, soonest, side, over = _interrupt(
            True, t, 0, soonest, side, one, plan, net, interruptions, work, waiting, state
        )
    return outcome, np.int64(1), soonest, side, over


def _pass_break(t, after, soonest, side, one, plan, net, interruptions, work, waiting, state):
    return _interrupt(
        False, t, after, soonest, side, one, plan, net, interruptions, work, waiting, state
    )


BINDINGS = {
    realization.first_draw: _first_draw,
    realization.advance: _advance,
    realization.start: _start,
    realization.follow: _follow,
    realization.pass_break: _pass_break,
    realization.write: _write,
    results.amount: _amount,
    results.share_in: ByTarget(cpu=_share_in, cuda=_share_in, indices=True),
    results.all_in: _all_in,
    results.leads: _leads,
}
"""What the loop of realizations does by thread groups."""


def realize_thread_groups(queue, count, size, net, interruptions, work, waiting, state, plan, out):
    """All realizations: each thread group takes the next one from a queue.

    A thread group has `size` float64 of shared memory: scratch for the operations of a block, one
    flag (a propensity or a count is negative), and the partial sums of the method.
    """
    own = at(cuda.threadIdx.x // SIZE * size)
    threads = ThreadGroup(
        np.int32(cuda.threadIdx.x & (SIZE - 1)),
        SIZE,
        cuda.shared.array(0, np.float64),
        at(cuda.grid(1) // SIZE),
        at(own + SCRATCH + 1),
    )
    row = next_member(threads, queue)
    while row < count:
        realize(row, threads, 0, net, interruptions, work, waiting, state, plan, out)
        row = next_member(threads, queue)
