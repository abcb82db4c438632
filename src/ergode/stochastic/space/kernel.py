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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, fma, no_refcount, noinline_cpu, real
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.next_firing import wait_and_choice
from ergode.stochastic.kernel.numbering import replicate_of
from ergode.stochastic.kernel.outcomes import (
    COUNT_LIMIT,
    DONE,
    EXTINCT,
    INFINITY,
    NEGATIVE,
    NOT_FINITE,
    OVERFLOW,
    TOO_MANY,
)
from ergode.stochastic.kernel.realization import propensity

CHILDREN = 8
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


def _take(v, w, work, state):
    """Copy the amounts of a voxel into the worker's row, which propensities read."""
    for i in range(state.amounts.shape[2]):
        work.x[at(w), at(i)] = real(state.amounts[at(w), at(v), at(i)])


def _sum_of(v, w, point, space, net, work, state):
    """Sum of all propensities of a voxel; minus infinity if one of them is negative."""
    _take(v, w, work, state)
    row = _row_of(v, point, space)
    faces = space.faces[at(v)]
    total = real(0.0)
    for m in range(space.movers.size):
        n = work.x[at(w), at(space.movers[at(m)])]
        total = fma(n, space.leaving[at(point), at(faces), at(m)], total)
    for j in range(net.laws.size):
        a = propensity(j, w, real(0.0), row, net, work)
        total = _plus(total, real(-INFINITY) if a < 0.0 else a)
    return total


# ---- the tree


def _sum_above(node, level, w, space, state):
    """Sum a node's children."""
    tree = state.tree
    first = space.levels[at(level - 1)] + CHILDREN * node
    total = real(0.0)
    for k in range(CHILDREN):
        total += tree[at(w), at(first + k)]
    tree[at(w), at(space.levels[at(level)] + node)] = total


def _replant(u, v, w, space, state):
    """Sum the nodes above two leaves, which may be one."""
    for level in range(1, space.levels.size - 1):
        u //= CHILDREN
        v //= CHILDREN
        _sum_above(u, level, w, space, state)
        if u != v:
            _sum_above(v, level, w, space, state)


def _total_of(w, space, state):
    """Sum of all propensities: of the nodes of the top level."""
    total = real(0.0)
    for node in range(space.levels[space.levels.size - 2], space.levels[space.levels.size - 1]):
        total += state.tree[at(w), at(node)]
    return total


def _search(target, w, space, state):
    """The voxel in whose interval of the cumulative sum `target` is, and what remains of it."""
    tree = state.tree
    node = np.int64(0)
    for up in range(space.levels.size - 1):
        first = space.levels[at(space.levels.size - 2 - up)] + CHILDREN * node
        found = np.int64(0)
        for k in range(CHILDREN):
            a = tree[at(w), at(first + k)]
            if a > 0.0:
                found = np.int64(k)
                if target < a:
                    break
            target -= a
        node = CHILDREN * node + found
    return node, target


@noinline_cpu
def plant(w, point, space, net, work, state):
    """Set the initial amounts, and all nodes of the tree."""
    for v in range(state.amounts.shape[1]):
        row = _row_of(v, point, space)
        for i in range(state.amounts.shape[2]):
            n = space.first[at(v), at(i)]
            if n < 0:
                n = np.int32(net.initial[at(row), at(i)])
            state.amounts[at(w), at(v), at(i)] = n
    work.x[at(w), at(state.amounts.shape[2])] = 1.0
    for node in range(state.tree.shape[1]):
        state.tree[at(w), at(node)] = 0.0
    for v in range(state.amounts.shape[1]):
        state.tree[at(w), at(v)] = _sum_of(v, w, point, space, net, work, state)
    for level in range(1, space.levels.size - 1):
        below = space.levels[level] - space.levels[level - 1]
        for node in range(below // CHILDREN):
            _sum_above(node, level, w, space, state)


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
        return u, OVERFLOW
    state.amounts[at(w), at(u), at(i)] = n + np.int32(1)
    state.amounts[at(w), at(v), at(i)] -= np.int32(1)
    return u, DONE


def _react(j, v, w, net, work, state):
    """Apply the changes of a reaction; returns the outcome."""
    for entry in range(net.change_starts[at(j)], net.change_starts[at(j + 1)]):
        i = at(net.changed[at(entry)])
        x = work.x[at(w), i] + net.changes[at(entry)]
        if x < 0.0:
            return NEGATIVE
        if x >= COUNT_LIMIT:
            return OVERFLOW
        state.amounts[at(w), at(v), i] = np.int32(x)
    return DONE


def _fire(target, v, w, point, space, net, work, state):
    """Let happen in a voxel what `target` falls on; returns the other voxel, and the outcome."""
    _take(v, w, work, state)
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
            a = propensity(j, w, real(0.0), row, net, work)
            if a > 0.0:
                reaction = j
                if target < a:
                    break
            target = _plus(target, -a)
    if reaction >= 0:
        return v, _react(reaction, v, w, net, work, state)
    if mover < 0:
        return v, DONE
    face = _face_of(inside, mover, faces, point, space)
    return _jump(v, space.movers[at(mover)], face, w, space, net, work, state)


# ---- the realization


@noinline_cpu
def _write(k, w, row, state, out):
    """Write all amounts at time `k` of the grid."""
    voxels = state.amounts.shape[1]
    for i in range(state.amounts.shape[2]):
        for v in range(voxels):
            out.amounts[row, k, i * voxels + v] = state.amounts[at(w), at(v), at(i)]


@no_refcount
def realize(row, w, space, net, work, state, plan, out):
    """Simulate one realization; `row` is its row in the results."""
    number = plan.first + row
    point = number // plan.replicates
    replicate = replicate_of(number, point, plan)
    plant(w, point, space, net, work, state)
    t = plan.begin
    draw, firings = np.int64(0), np.int64(0)
    cursor = 0
    outcome = DONE
    while outcome == DONE:
        total = _total_of(w, space, state)
        if not (total >= 0.0 and total < INFINITY):
            outcome = NEGATIVE if total < 0.0 else NOT_FINITE
            break
        fires_at, choice = real(INFINITY), real(0.0)
        if total > 0.0:
            wait, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
            draw += 1
            fires_at = t + wait / total
        while cursor < out.grid.size and out.grid[cursor] < fires_at:
            _write(cursor, w, row, state, out)
            cursor += 1
        if cursor == out.grid.size:
            outcome = EXTINCT if total == 0.0 else DONE
            break
        t = fires_at
        v, rest = _search(fma(choice, total, real(0.0)), w, space, state)
        u, outcome = _fire(rest, v, w, point, space, net, work, state)
        if outcome != DONE:
            break
        firings += 1
        for k in range(1 if u == v else 2):
            changed = v if k == 0 else u
            state.tree[at(w), at(changed)] = _sum_of(changed, w, point, space, net, work, state)
        _replant(u, v, w, space, state)
        if firings >= plan.max_firings:
            outcome = TOO_MANY
    out.status[row] = outcome
    out.firings[row] = firings
    out.rows[row] = cursor
    out.ended[row] = t


def realize_cpu(start, stop, grain, space, net, work, state, plan, out):
    """Realizations `start` to `stop`, on one thread; each range has its own worker."""
    for row in range(start, stop):
        realize(row, start // grain, space, net, work, state, plan, out)


def realize_cuda(queue, count, space, net, work, state, plan, out):
    """All realizations: each thread takes the next one from a queue."""
    w = cuda.grid(1)
    if w >= work.x.shape[0]:
        return
    row = cuda.atomic.add(queue, 0, 1)
    while row < count:
        realize(row, w, space, net, work, state, plan, out)
        row = cuda.atomic.add(queue, 0, 1)
