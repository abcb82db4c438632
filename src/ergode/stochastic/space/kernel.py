"""One realization of a reaction-diffusion master equation: the voxel, then what happens in it.

A firing costs O(log voxels). Each voxel has the sum of its propensities: reactions, and jumps
through its faces. The sums are leaves of a tree in which a node is the sum of its eight children:
a walk from the root finds the voxel, a scan of its propensities the reaction or the jump. A firing
changes the sums of one voxel, a jump of two neighbours; they and the nodes above are summed anew,
so that no rounding error accumulates and the tree depends on nothing but the state.

Subvolumes are those of J. Elf, M. Ehrenberg, Syst. Biol. 1 (2004), who find the next one in a queue
of times. With one waiting time for all voxels a firing needs one draw, and the eight children of a
node are in one or two cache lines: of a million voxels only the leaves and the level above them
(9 MB) and the amounts are outside of a cache of 1 MB, so a firing waits for memory about four
times.

With events, breaks or delayed products (`INTERRUPTED`), realizations stop at breaks as those of
`kernel.realization` do; `space.interruptions` has the events of a voxel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import (
    by_reference,
    cuda,
    fma,
    no_refcount,
    noinline_cpu,
    option,
    real,
)
from ergode.core.group import ONE, next_member
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import arm, is_over, moment_of, or_delayed
from ergode.stochastic.kernel.next_firing import wait_and_choice
from ergode.stochastic.kernel.numbering import replicate_of
from ergode.stochastic.kernel.realization import Passage, is_passed, propensity
from ergode.stochastic.space.interruptions import (
    begin,
    deliver,
    due_voxel,
    next_due,
    put_off,
    take,
    visit,
)
from ergode.stochastic.space.tree import replant, search, sum_all, total_of

INTERRUPTED = option(False)
"""Whether there are events, breaks or delayed products. Otherwise none of these is compiled."""

FACES = 6
"""Faces of a voxel: the lower and the upper one of each axis. A set of faces is a number of six
bits."""


class Space(NamedTuple):
    """The grid; all realizations share it. A mover is a species that diffuses."""

    faces: Any  # [voxel] set of faces that lead to a neighbour
    around: Any  # [voxel] set of faces behind which the other end of the grid is
    steps: Any  # [2, face] difference of the numbers of neighbours; in the second row, around
    zones: Any  # [voxel] row of its parameters; no voxel if all have the same
    zone_count: Any
    movers: Any  # [mover] species
    rates: Any  # [point, mover, face] jumps of a molecule per time
    leaving: Any  # [point, set of faces, mover] their sum
    first: Any  # [voxel, species] initial amount; negative: that of the network
    levels: Any  # [level + 1] first node of each level of the tree, from the leaves to the top


class State(NamedTuple):
    """What a worker keeps."""

    amounts: Any  # [worker, voxel, species]
    tree: Any  # [worker, node]


# ---- propensities of a voxel


def _plus(total, a):
    """A sum in which no compiler fuses a product that is one of its terms."""
    return fma(a, real(1.0), total)


def _row_of(v, point, space):
    """Row of the tables of a network for a voxel."""
    zone = np.int64(0)
    if space.zones.size > 0:
        zone = np.int64(space.zones[at(v)])
    return point * space.zone_count + zone


def _sum_of(v, w, t, point, space, net, work):
    """Sum of all propensities of a voxel whose amounts the worker has.

    It is minus infinity if one of them is negative.
    """
    row = _row_of(v, point, space)
    faces = space.faces[at(v)]
    total = real(0.0)
    for m in range(space.movers.size):
        n = work.x[at(w), at(space.movers[at(m)])]
        total = fma(n, space.leaving[at(point), at(faces), at(m)], total)
    for j in range(net.laws.size):
        a = propensity(j, w, t, row, net, work)
        total = _plus(total, real(-outcomes.INFINITY) if a < 0.0 else a)
    return total


@noinline_cpu
def plant(w, t, point, plan, space, net, interruptions, work, waiting, state, kept):
    """Set the initial amounts, and all nodes of the tree, after events of the first time."""
    outcome = outcomes.DONE
    species = state.amounts.shape[2]
    for v in range(state.amounts.shape[1]):
        row = _row_of(v, point, space)
        for i in range(species):
            n = space.first[at(v), at(i)]
            if n < 0:
                n = np.int32(net.initial[at(row), at(i)])
            state.amounts[at(w), at(v), at(i)] = n
        for i in range(kept.reals.shape[2]):
            kept.reals[at(w), at(v), at(i)] = net.initial[at(row), at(species + i)]
    work.x[at(w), at(work.x.shape[1] - 1)] = 1.0
    for node in range(state.tree.shape[1]):
        state.tree[at(w), at(node)] = 0.0
    if INTERRUPTED:
        begin(w, net, interruptions, state, kept)
    for v in range(state.amounts.shape[1]):
        take(v, w, work, state, kept)
        if INTERRUPTED and outcome == outcomes.DONE:
            row = _row_of(v, point, space)
            outcome, _ = visit(
                v, w, t, 0, False, row, plan, space, net, interruptions, work, waiting, state, kept
            )
        state.tree[at(w), at(v)] = _sum_of(v, w, t, point, space, net, work)
    sum_all(w, space.levels, state.tree)
    return outcome


# ---- a firing


def _face_of(target, m, faces, point, space):
    """The face through which a molecule jumps."""
    found = 0
    for face in range(FACES):
        if (faces >> face) & 1 == 0:
            continue
        rate = space.rates[at(point), at(m), at(face)]
        if rate > 0.0:
            found = face
            if target < rate:
                break
        target -= rate
    return found


def _jump(v, i, face, w, space, net, work, state):
    """Move a molecule through a face; returns the other voxel, and the outcome."""
    around = (space.around[at(v)] >> face) & 1
    u = v + space.steps[at(around), at(face)]
    n = state.amounts[at(w), at(u), at(i)]
    if n == np.int32(2147483647):
        return u, outcomes.OVERFLOW
    state.amounts[at(w), at(u), at(i)] = n + np.int32(1)
    state.amounts[at(w), at(v), at(i)] -= np.int32(1)
    return u, outcomes.DONE


def _react(j, v, w, net, work, state):
    """Apply the changes of a reaction; returns the outcome."""
    for entry in range(net.change_starts[at(j)], net.change_starts[at(j + 1)]):
        i = at(net.changed[at(entry)])
        x = work.x[at(w), i] + net.changes[at(entry)]
        if x < 0.0:
            return outcomes.NEGATIVE
        if x >= outcomes.COUNT_LIMIT:
            return outcomes.OVERFLOW
        state.amounts[at(w), at(v), i] = np.int32(x)
    return outcomes.DONE


def _fire(target, v, w, t, point, space, net, work, state, kept):
    """Let happen in a voxel what `target` falls on.

    Returns the other voxel, the reaction or -1, and the outcome.
    """
    take(v, w, work, state, kept)
    row = _row_of(v, point, space)
    faces = space.faces[at(v)]
    mover, reaction = -1, -1
    found = False
    inside = real(0.0)  # target over molecules: it says through which face
    for m in range(space.movers.size):
        n = work.x[at(w), at(space.movers[at(m)])]
        a = n * space.leaving[at(point), at(faces), at(m)]
        if a > 0.0:
            mover = m
            inside = target / n
            if target < a:
                found = True
                break
        target = _plus(target, -a)
    if not found:
        for j in range(net.laws.size):
            a = propensity(j, w, t, row, net, work)
            if a > 0.0:
                reaction = j
                if target < a:
                    break
            target = _plus(target, -a)
    if reaction >= 0:
        return v, reaction, _react(reaction, v, w, net, work, state)
    if mover < 0:
        return v, -1, outcomes.DONE
    face = _face_of(inside, mover, faces, point, space)
    u, outcome = _jump(v, space.movers[at(mover)], face, w, space, net, work, state)
    return u, -1, outcome


# ---- what interrupts a realization


@noinline_cpu
def _pass_break(t, after, w, point, plan, space, net, interruptions, work, waiting, state, kept):
    """Let happen what is due in all voxels; returns the outcome."""
    outcome = deliver(w, t, space, interruptions, waiting, state, kept)
    while outcome == outcomes.DONE:
        v = due_voxel(w, t, after, space, kept)
        if v < 0:
            break
        take(v, w, work, state, kept)
        row = _row_of(v, point, space)
        outcome, _ = visit(
            v, w, t, after, False, row, plan, space, net, interruptions, work, waiting, state, kept
        )
        moment = moment_of(t, after)
        state.tree[at(w), at(v)] = _sum_of(v, w, moment, point, space, net, work)
        replant(v, v, w, space.levels, state.tree)
    return outcome


# ---- the realization


@noinline_cpu
def _write(k, w, row, state, out):
    """Write all amounts at time `k` of the grid."""
    voxels = state.amounts.shape[1]
    for i in range(state.amounts.shape[2]):
        for v in range(voxels):
            out.amounts[row, k, i * voxels + v] = state.amounts[at(w), at(v), at(i)]


@no_refcount
def realize(row, w, space, net, interruptions, work, waiting, state, kept, plan, out):
    """Simulate one realization; `row` is its row in the results."""
    number = plan.first + row
    point = number // plan.replicates
    replicate = replicate_of(number, point, plan)
    t, after = plan.begin, 0
    if INTERRUPTED:
        arm(w, plan.seed, replicate, interruptions, waiting)
    outcome = plant(w, t, point, plan, space, net, interruptions, work, waiting, state, kept)
    soonest, side = real(outcomes.INFINITY), 0
    if INTERRUPTED:
        soonest, side = next_due(w, space, waiting, kept)
    end = out.grid[out.grid.size - 1]
    draw, firings = np.int64(0), np.int64(0)
    cursor = 0
    while outcome == outcomes.DONE:
        moment, limit = t, real(outcomes.INFINITY)
        breaks = False
        if INTERRUPTED:
            moment = moment_of(t, after)
            breaks = not is_over(end, soonest, side)
            limit = soonest if breaks else end
        total = total_of(w, space.levels, state.tree)
        fires_at, choice = real(outcomes.INFINITY), real(0.0)
        if limit > moment:
            if not (total >= 0.0 and total < outcomes.INFINITY):
                outcome = outcomes.NEGATIVE if total < 0.0 else outcomes.NOT_FINITE
                break
            if total > 0.0:
                wait, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
                draw += 1
                fires_at = moment + wait / total
        fires = fires_at < limit
        passage = Passage(
            moment, fires_at, 0 if fires else outcomes.NO_REACTION, breaks, limit, soonest, side
        )
        while cursor < out.grid.size:
            g = out.grid[cursor]
            if not (is_passed(g, passage) if INTERRUPTED else g < fires_at):
                break
            _write(cursor, w, row, state, out)
            cursor += 1
        if cursor == out.grid.size:
            outcome = (
                outcomes.EXTINCT if total == 0.0 and soonest == outcomes.INFINITY else outcomes.DONE
            )
            break
        if INTERRUPTED and not fires:
            t, after = limit, side
            outcome = _pass_break(
                t, after, w, point, plan, space, net, interruptions, work, waiting, state, kept
            )
            soonest, side = next_due(w, space, waiting, kept)
            continue
        t, after = fires_at, 0
        v, rest = search(fma(choice, total, real(0.0)), w, space.levels, state.tree)
        u, j, outcome = _fire(rest, v, w, t, point, space, net, work, state, kept)
        if outcome != outcomes.DONE:
            break
        firings += 1
        visited = False
        for k in range(1 if u == v else 2):
            changed = v if k == 0 else u
            take(changed, w, work, state, kept)
            if INTERRUPTED and outcome == outcomes.DONE:
                zone = _row_of(changed, point, space)
                if j >= 0 and interruptions.delays[j] >= 0:
                    outcome = put_off(j, v, w, t, zone, net, interruptions, work, waiting)
                    if outcome != outcomes.DONE:
                        break
                outcome, happened = visit(
                    changed, w, t, 0, True, zone, plan, space, net, interruptions, work, waiting,
                    state, kept,
                )  # fmt: skip
                visited = visited or happened
            state.tree[at(w), at(changed)] = _sum_of(changed, w, t, point, space, net, work)
        replant(u, v, w, space.levels, state.tree)
        if INTERRUPTED and visited:
            soonest, side = next_due(w, space, waiting, kept)
        elif INTERRUPTED:
            soonest, side = or_delayed(soonest, side, w, waiting)
        if outcome == outcomes.DONE and firings >= plan.max_firings:
            outcome = outcomes.TOO_MANY
    out.status[row] = outcome
    out.firings[row] = firings
    out.rows[row] = cursor
    out.ended[row] = t


def realize_cpu(
    start, stop, grain, space, net, interruptions, work, waiting, state, kept, plan, out
):
    """Realizations `start` to `stop`, on one thread; each range has its own worker."""
    w = start // grain
    space, net, work, out = (
        by_reference(space), by_reference(net), by_reference(work), by_reference(out)
    )  # fmt: skip
    for row in range(start, stop):
        realize(row, w, space, net, interruptions, work, waiting, state, kept, plan, out)


def realize_cuda(queue, count, space, net, interruptions, work, waiting, state, kept, plan, out):
    """All realizations: each thread takes the next one from a queue."""
    w = cuda.grid(1)
    if w >= work.x.shape[0]:
        return
    row = next_member(ONE, queue)
    while row < count:
        realize(row, w, space, net, interruptions, work, waiting, state, kept, plan, out)
        row = next_member(ONE, queue)
