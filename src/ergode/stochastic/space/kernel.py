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

A realization is that of `kernel.realization`; `space.interruptions` has the events of a voxel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, noinline_cpu, real
from ergode.stochastic.kernel import outcomes, realization
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import arm, moment_of, or_delayed
from ergode.stochastic.kernel.next_firing import wait_and_choice
from ergode.stochastic.kernel.realization import INTERRUPTED, propensity
from ergode.stochastic.kernel.tree import replant, search, sum_all, total_of
from ergode.stochastic.space.interruptions import (
    begin,
    deliver,
    due_voxel,
    next_due,
    put_off,
    take,
    visit,
)

FACES = 6
"""Faces of a voxel: the lower and the upper one of each axis. A set of faces is a number of six
bits."""


class State(NamedTuple):
    """The grid, which all realizations share, and what a worker keeps.

    A mover is a species that diffuses. Pending events of a voxel are a list in entries that all
    share. What a network does not need has no voxels and no entries.
    """

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

    amounts: Any  # [worker, voxel, species]
    tree: Any  # [worker, node] sums of propensities
    rest: Any  # [worker, 1] what chooses among the propensities of a voxel
    reals: Any  # [worker, voxel, parameter] parameters that events assign to
    armed: Any  # [worker, voxel, event] whether the trigger was true
    wakes: Any  # [worker, node] tree of the moments at which anything is due in a voxel
    dues: Any  # [worker, voxel] the same as a time
    sides: Any  # [worker, voxel] and 1 if it is due just after that time
    heads: Any  # [worker, voxel] first entry of its list; -1 for none
    links: Any  # [worker, entry] the next entry of the list, or of those that are free
    places: Any  # [worker, entry] the place in `Waiting`, and so on
    pending: Any  # [worker, entry]
    due: Any  # [worker, entry]
    due_after: Any  # [worker, entry]
    values: Any  # [worker, entry, value]
    free: Any  # [worker, 1] the first free entry; -1 for none


# ---- propensities of a voxel


def _plus(total, a):
    """A sum in which no compiler fuses a product that is one of its terms."""
    return fma(a, real(1.0), total)


def _row_of(v, point, state):
    """Row of the tables of a network for a voxel."""
    zone = np.int64(0)
    if state.zones.size > 0:
        zone = np.int64(state.zones[at(v)])
    return point * state.zone_count + zone


def _sum_of(v, w, t, point, net, work, state):
    """Sum of all propensities of a voxel whose amounts the worker has.

    It is minus infinity if one of them is negative.
    """
    row = _row_of(v, point, state)
    faces = state.faces[at(v)]
    total = real(0.0)
    for m in range(state.movers.size):
        n = work.x[at(w), at(state.movers[at(m)])]
        total = fma(n, state.leaving[at(point), at(faces), at(m)], total)
    for j in range(net.laws.size):
        a = propensity(j, w, t, row, net, work)
        total = _plus(total, real(-outcomes.INFINITY) if a < 0.0 else a)
    return total


@noinline_cpu
def plant(w, t, point, plan, net, interruptions, work, waiting, state):
    """Set the initial amounts, and all nodes of the tree, after events of the first time."""
    outcome = outcomes.DONE
    species = state.amounts.shape[2]
    for v in range(state.amounts.shape[1]):
        row = _row_of(v, point, state)
        for i in range(species):
            n = state.first[at(v), at(i)]
            if n < 0:
                n = np.int32(net.initial[at(row), at(i)])
            state.amounts[at(w), at(v), at(i)] = n
        for i in range(state.reals.shape[2]):
            state.reals[at(w), at(v), at(i)] = net.initial[at(row), at(species + i)]
    work.x[at(w), at(work.x.shape[1] - 1)] = 1.0
    for node in range(state.tree.shape[1]):
        state.tree[at(w), at(node)] = 0.0
    if INTERRUPTED:
        begin(w, interruptions, state)
    for v in range(state.amounts.shape[1]):
        take(v, w, work, state)
        if INTERRUPTED and outcome == outcomes.DONE:
            row = _row_of(v, point, state)
            outcome, _ = visit(
                v, w, t, 0, False, row, plan, net, interruptions, work, waiting, state
            )
        state.tree[at(w), at(v)] = _sum_of(v, w, t, point, net, work, state)
    sum_all(w, state.levels, state.tree)
    return outcome


# ---- a firing


def _face_of(target, m, faces, point, state):
    """The face through which a molecule jumps."""
    found = 0
    for face in range(FACES):
        if (faces >> face) & 1 == 0:
            continue
        rate = state.rates[at(point), at(m), at(face)]
        if rate > 0.0:
            found = face
            if target < rate:
                break
        target -= rate
    return found


def _jump(v, i, face, w, state):
    """Move a molecule through a face; returns the other voxel, and the outcome."""
    around = (state.around[at(v)] >> face) & 1
    u = v + state.steps[at(around), at(face)]
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


def _fire(target, v, w, t, point, net, work, state):
    """Let happen in a voxel what `target` falls on.

    Returns the other voxel, the reaction or -1, and the outcome.
    """
    take(v, w, work, state)
    row = _row_of(v, point, state)
    faces = state.faces[at(v)]
    mover, reaction = -1, -1
    found = False
    inside = real(0.0)  # target over molecules: it says through which face
    for m in range(state.movers.size):
        n = work.x[at(w), at(state.movers[at(m)])]
        a = n * state.leaving[at(point), at(faces), at(m)]
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
    face = _face_of(inside, mover, faces, point, state)
    u, outcome = _jump(v, state.movers[at(mover)], face, w, state)
    return u, -1, outcome


# ---- what a realization does


def _load(row, w, lane, lanes, net, work, state, plan):
    """Do nothing: `plant` does it."""


def _start(t, one, plan, net, interruptions, work, waiting, state):
    w = one.worker
    if INTERRUPTED:
        arm(w, plan.seed, one.replicate, interruptions, waiting)
    outcome = plant(w, t, one.point, plan, net, interruptions, work, waiting, state)
    soonest, side = real(outcomes.INFINITY), 0
    if INTERRUPTED:
        soonest, side = next_due(w, waiting, state)
    return outcome, soonest, side, False


def _advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    total = total_of(w, state.levels, state.tree)
    if total == 0.0:
        return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
    if not (total > 0.0 and total < outcomes.INFINITY):
        return t, outcomes.FAILED_NEGATIVE if total < 0.0 else outcomes.FAILED_NOT_FINITE, draw
    wait, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
    draw += 1
    fires_at = t + wait / total
    if fires_at >= limit:
        return fires_at, outcomes.NO_REACTION, draw
    v, rest = search(fma(choice, total, real(0.0)), w, state.levels, state.tree)
    state.rest[at(w), 0] = rest
    return fires_at, v, draw


def _follow(v, t, firings, soonest, side, one, plan, net, interruptions, work, waiting, state, out):
    w, point = one.worker, one.point
    rest = state.rest[at(w), 0]
    u, j, outcome = _fire(rest, v, w, t, point, net, work, state)
    if outcome != outcomes.DONE:
        return outcome, np.int64(0), soonest, side, False
    visited = False
    for k in range(1 if u == v else 2):
        changed = v if k == 0 else u
        take(changed, w, work, state)
        if INTERRUPTED and outcome == outcomes.DONE:
            zone = _row_of(changed, point, state)
            if j >= 0 and interruptions.delays[j] >= 0:
                outcome = put_off(j, v, w, t, zone, net, interruptions, work, waiting)
                if outcome != outcomes.DONE:
                    break
            outcome, happened = visit(
                changed, w, t, 0, True, zone, plan, net, interruptions, work, waiting, state
            )
            visited = visited or happened
        state.tree[at(w), at(changed)] = _sum_of(changed, w, t, point, net, work, state)
    replant(u, v, w, state.levels, state.tree)
    if INTERRUPTED and visited:
        soonest, side = next_due(w, waiting, state)
    elif INTERRUPTED:
        soonest, side = or_delayed(soonest, side, w, waiting)
    return outcome, np.int64(1), soonest, side, False


@noinline_cpu
def _visit_due(t, after, w, point, plan, net, interruptions, work, waiting, state):
    """Let happen what is due in all voxels; returns the outcome."""
    outcome = deliver(w, t, interruptions, waiting, state)
    while outcome == outcomes.DONE:
        v = due_voxel(w, t, after, state)
        if v < 0:
            break
        take(v, w, work, state)
        row = _row_of(v, point, state)
        outcome, _ = visit(
            v, w, t, after, False, row, plan, net, interruptions, work, waiting, state
        )
        moment = moment_of(t, after)
        state.tree[at(w), at(v)] = _sum_of(v, w, moment, point, net, work, state)
        replant(v, v, w, state.levels, state.tree)
    return outcome


def _pass_break(t, after, soonest, side, one, plan, net, interruptions, work, waiting, state):
    w = one.worker
    outcome = _visit_due(t, after, w, one.point, plan, net, interruptions, work, waiting, state)
    soonest, side = next_due(w, waiting, state)
    return outcome, soonest, side, False


@noinline_cpu
def _write(k, one, work, state, out):
    voxels = state.amounts.shape[1]
    for i in range(state.amounts.shape[2]):
        for v in range(voxels):
            out.amounts[one.row, k, i * voxels + v] = state.amounts[at(one.worker), at(v), at(i)]
    return True


BINDINGS = {
    realization.realize_on_cpu: realization.realize,
    realization.load: _load,
    realization.start: _start,
    realization.advance: _advance,
    realization.follow: _follow,
    realization.pass_break: _pass_break,
    realization.write: _write,
}
"""What the loop of realizations does in space."""
