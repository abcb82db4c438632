"""Realizations on a GPU by teams of threads: a part of a warp has a realization, or a block has.

What a firing changes and what it searches is shared out over the threads of a team.  A method has
some numbers in shared memory whose sum is that of all propensities, next to each other for every
thread; a search is a sum by every thread over its share, a prefix sum over the team and a vote,
then the same among the numbers of one thread, and then, by the method, among the reactions that
are behind one number: the three levels of M. Komarov, R. D'Souza, PLoS ONE 7 e46693 (2012).
Waiting times and choices of the next firings are drawn at once, one by each thread.  The network,
which all realizations read, is in the cache.

A block has more threads for one realization, and waits longer at each step: it is for few
realizations of networks in which a firing changes much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, no_unroll, real
from ergode.core.math.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.group.ops import (
    PART,
    SCRATCH,
    STRIDE,
    TEAM,
    Member,
    anyone,
    from_lane,
    hand_out,
    one_of,
    search,
    sum_up_to,
    sync,
)
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import arm, interrupt, is_over, moment_of
from ergode.stochastic.kernel.outcomes import (
    COUNT_LIMIT,
    DONE,
    EXTINCT,
    INFINITY,
    NEGATIVE,
    NOT_FINITE,
    OVERFLOW,
    TOO_MANY,
    outcome_of,
)

# Bound for each kernel: whether anything but firings happens to a realization, or ends it.
INTERRUPTED = False
_LOW_HALF = np.int64(0xFFFFFFFF)


class TeamNet(NamedTuple):
    """What teams read of a network, besides what a method has of its own: as in `tables.Net`."""

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


class TeamWork(NamedTuple):
    """What propensities read and need; rows of one team each, and of one thread each."""

    x: Any  # [team, variable]
    stack: Any  # [thread, depth]


def team_of(w):
    """The team of a thread."""
    return w // TEAM


# ---- bound for each method


def team_value(place, me, own):
    """A number of which the sum of all propensities is one."""
    return me.memory[place]


def team_count(i, me, work, own):
    """Count of a species."""
    return real(0.0)


def team_prepare(t, point, me, net, work, own):
    """Make everything that the method keeps, from the state at the beginning."""


def team_choose(number, place, target, point, me, work, own):
    """Reaction behind a number at `place` in whose share `target` falls; -1 for none."""
    return 0


def team_follow(j, t, point, me, net, work, own):
    """Change the state by what reaction `j` does, and follow it."""


def team_refresh(t, point, me, net, work, own):
    """Make everything that the method keeps anew, from the state as it is."""


def pick(who, target, me, own):
    """Number of thread `who` into whose value `target` falls, where it is, what is left, if any."""
    number, place = np.int32(-1), np.uint32(0)
    begin = np.int32(0)
    while begin < own.width:
        value = real(0.0)
        k = np.int32(begin + me.number)
        if k < own.width:
            value = team_value(at(me.base + k * STRIDE + who), me, own)
        found, rest, total = search(value, target, me)
        if found >= 0:
            k = np.int32(begin + found)
            number = np.int32(who * own.width + k)
            place = np.uint32(me.base + k * STRIDE + who)
            if target < total:
                target = rest
                break
        target -= total
        begin = np.int32(begin + TEAM)
    return number, place, target


# ---- the realization


def report(row, cell, cursor, me, work, own, out):
    """Report the state at time `cursor` of the grid; false if a count is too large."""
    species = out.sums.shape[3]
    wrong = False
    for i in no_unroll(range(me.number, species, TEAM)):
        wrong = wrong or not abs(team_count(i, me, work, own)) < COUNT_LIMIT
    if anyone(wrong, me):
        return False
    if out.counts.shape[2] > 0 and me.number == 0:
        cuda.atomic.add(out.counts, (0, cell, cursor), 1)
    for i in no_unroll(range(me.number, species, TEAM)):
        n = np.int64(team_count(i, me, work, own))
        if out.amounts.shape[0] > 0:
            out.amounts[row, cursor, i] = n
        if out.counts.shape[2] > 0 and n != 0:
            where = (0, cell, cursor, i)
            cuda.atomic.add(out.sums, where, n)
            cuda.atomic.add(out.squares_low, where, (n * n) & _LOW_HALF)
            if (n * n) >> 32 != 0:
                cuda.atomic.add(out.squares_high, where, (n * n) >> 32)
    return True


def _interrupt(
    after_firing, t, after, point, species, plan, soonest, side, me, net, others, work, waiting
):
    """What `interrupt` does and says, by the first thread for all."""
    code = real(0.0)
    if me.number == 0:
        happened, soonest, side, over = interrupt(
            at(cuda.grid(1)), t, after, point, species, plan, after_firing, soonest, side, net,
            others, work, waiting,
        )  # fmt: skip
        code = real(4 * happened + 2 * side + (1 if over else 0))
    soonest = hand_out(soonest, 0, me)
    numbers = np.int32(hand_out(code, 0, me))
    sync()
    return numbers >> 2, soonest, (numbers >> 1) & 1, numbers & 1 == 1


def realize_teams(queue, count, size, net, others, work, waiting, own, plan, out):
    """All realizations: a team takes the next from the queue when it has finished one.

    A team has `size` numbers of the shared memory: of the words above, one that says whether a
    propensity or a count is negative, and the method's own.
    """
    memory = cuda.shared.array(0, np.float64)
    scratch = at(cuda.threadIdx.x // TEAM * size)
    alarm = at(scratch + SCRATCH)
    me = Member(
        np.int32(cuda.threadIdx.x & (PART - 1)),
        np.int32(cuda.threadIdx.x & (TEAM - 1)),
        at(cuda.grid(1) // TEAM),
        scratch,
        at(alarm + 1),
        memory,
    )
    grid = out.grid
    times = grid.size
    species = out.sums.shape[3]
    first_point = plan.first // plan.replicates
    taken = real(0.0)
    if me.number == 0:
        taken = real(cuda.atomic.add(queue, 0, 1))
    row = np.int64(hand_out(taken, 0, me))
    while row < count:
        number = (plan.first + row) // plan.replicates
        replicate = np.uint32(plan.first + row - number * plan.replicates)
        cell = number - first_point
        point = at(number)
        if me.number == 0:
            memory[alarm] = 0.0
        t = plan.begin
        after = 0
        team_prepare(t, point, me, net, work, own)
        sync()
        draw = np.int64(0)
        firings = np.int64(0)
        cursor = 0
        limit = grid[0]
        outcome = DONE
        over = False
        soonest, side = real(INFINITY), 0
        if INTERRUPTED:
            if me.number == 0:
                arm(at(cuda.grid(1)), plan.seed, replicate, others, waiting)
            happened, soonest, side, over = _interrupt(
                False, t, after, point, species, plan, soonest, side, me, net, others, work,
                waiting,
            )  # fmt: skip
            if happened < 0:
                outcome, over = outcome_of(happened), True
            team_refresh(t, point, me, net, work, own)
            sync()
        waits, choices = real(0.0), real(0.0)
        while not over:
            mine = real(0.0)
            place = np.uint32(me.base + me.number)
            k = np.int32(0)
            while k < own.width:
                mine += team_value(place, me, own)
                place = np.uint32(place + STRIDE)
                k = np.int32(k + 1)
            up_to, total = sum_up_to(mine, me)
            if memory[alarm] != 0.0:
                outcome = NEGATIVE
                break
            if not (total >= 0.0 and total < INFINITY):
                outcome = NOT_FINITE
                break
            turn = np.int32(draw & (PART - 1))
            if turn == 0:
                w0, w1, w2, w3 = draw_words(
                    plan.seed, replicate, draw >> 32, FIRING, draw + me.lane
                )  # fmt: skip
                waits, choices = exponential(w0, w1), uniform(w2, w3)
            # (As elsewhere nothing is drawn where nothing can fire, or no time is left for it.)
            moment = t
            breaks, waited = False, True
            if INTERRUPTED:
                moment = moment_of(t, after)
                breaks = not is_over(grid[times - 1], soonest, side)
                waited = moment < (soonest if breaks else grid[times - 1])
            draw += 0 if INTERRUPTED and (total == 0.0 or not waited) else 1
            fires_at = moment + from_lane(waits, turn) / total
            if not (waited and fires_at < min(limit, soonest)):
                # What happens at a time of the grid is over when that is reported.
                breaks = breaks and not (waited and fires_at < soonest)
                while cursor < times:
                    g = grid[cursor]
                    if breaks:
                        passed = is_over(g, soonest, side)
                    else:
                        passed = (
                            not waited
                            or g < fires_at
                            or (g == grid[times - 1] and not fires_at < g)
                        )
                    if not passed:
                        break
                    if not report(row, cell, cursor, me, work, own, out):
                        outcome = OVERFLOW
                        break
                    cursor += 1
                if outcome != DONE:
                    break
                if cursor == times:
                    extinct = total == 0.0 and soonest == INFINITY and waited
                    outcome = EXTINCT if extinct else DONE
                    break
                limit = grid[cursor]
                if INTERRUPTED and breaks:
                    t, after = soonest, side
                    happened, soonest, side, over = _interrupt(
                        False, t, after, point, species, plan, soonest, side, me, net, others,
                        work, waiting,
                    )  # fmt: skip
                    if happened < 0:
                        outcome = outcome_of(happened)
                        break
                    team_refresh(moment_of(t, after), point, me, net, work, own)
                    sync()
                    continue
            target = from_lane(choices, turn) * total
            some = mine > 0.0
            who = one_of(up_to > target and some, some, me)
            if who < 0:
                continue
            target = hand_out(target - (up_to - mine), who, me)
            chosen, place, target = pick(who, target, me, own)
            if chosen < 0:
                continue
            j = team_choose(chosen, place, target, point, me, work, own)
            if j < 0:
                continue
            t, after = fires_at, 0
            firings += 1
            team_follow(j, t, point, me, net, work, own)
            sync()
            if INTERRUPTED:
                happened, soonest, side, over = _interrupt(
                    True, t, after, point, species, plan, soonest, side, me, net, others, work,
                    waiting,
                )  # fmt: skip
                if happened < 0:
                    outcome = outcome_of(happened)
                    break
                if happened == 1:
                    team_refresh(t, point, me, net, work, own)
                    sync()
            if firings >= plan.firings_most:
                outcome = TOO_MANY
                break
        # The state in which it was stopped is what is reported from then on.
        while INTERRUPTED and over and outcome == DONE and cursor < times:
            if not report(row, cell, cursor, me, work, own, out):
                outcome = OVERFLOW
                break
            cursor += 1
        if me.number == 0:
            out.status[row] = outcome
            out.firings[row] = firings
            out.rows[row] = cursor
            out.ended[row] = t if over or outcome > EXTINCT else real(INFINITY)
            taken = real(cuda.atomic.add(queue, 0, 1))
        sync()
        row = np.int64(hand_out(taken, 0, me))
