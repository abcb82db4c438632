"""Events, breaks and delayed products in space: those of a network, in every voxel for itself.

A voxel is a well-mixed volume, so its events are those of `kernel.interruptions`: they read and
write what is in this voxel alone. A worker has one set of rows for these functions (`Waiting`).
`visit` copies what a voxel keeps into the rows, lets its events happen, and copies the rest back.

A firing can trigger events only in the voxels that it changes, so only their conditions are
evaluated. The next time at which anything is due in a voxel is a leaf of a tree of minima, so
breaks and delays find their voxel in O(log voxels). Delayed products of all voxels are in one heap,
whose numbers are voxel * reactions + reaction.

Events follow SBML Level 3 Version 1 Core, section 4.12; parameters to which they assign have a
value of their own in every voxel.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import (
    delay_of,
    happen,
    moment_of,
    next_break,
    or_delayed,
    pop_delayed,
    push_delayed,
    turned,
)
from ergode.stochastic.kernel.tree import earliest, set_leaf


def begin(w, interruptions, state):
    """Nothing is pending or due, in any voxel; initial state of triggers."""
    for v in range(state.armed.shape[1]):
        for e in range(state.armed.shape[2]):
            state.armed[at(w), at(v), at(e)] = (interruptions.flags[at(e)] >> 1) & 1
    for node in range(state.wakes.shape[1]):
        state.wakes[at(w), at(node)] = outcomes.INFINITY
    for v in range(state.heads.shape[1]):
        state.heads[at(w), at(v)] = -1
    last = state.links.shape[1] - 1
    for entry in range(state.links.shape[1]):
        state.links[at(w), at(entry)] = entry + 1 if entry < last else -1
    state.free[at(w), 0] = 0 if last >= 0 else -1


# ---- pending events of a voxel


def _load(v, w, waiting, state):
    """Move the list of a voxel into the worker's places, which are all free."""
    if state.heads.shape[1] == 0:
        return
    entry = state.heads[at(w), at(v)]
    most = state.values.shape[2]
    while entry >= 0:
        q = state.places[at(w), at(entry)]
        waiting.pending[at(w), at(q)] = state.pending[at(w), at(entry)]
        waiting.due[at(w), at(q)] = state.due[at(w), at(entry)]
        waiting.due_after[at(w), at(q)] = state.due_after[at(w), at(entry)]
        for k in range(most):
            waiting.values[at(w), at(q * most + k)] = state.values[at(w), at(entry), at(k)]
        following = state.links[at(w), at(entry)]
        state.links[at(w), at(entry)] = state.free[at(w), 0]
        state.free[at(w), 0] = entry
        entry = following
    state.heads[at(w), at(v)] = -1


def _unload(v, w, waiting, state):
    """Move the worker's places into the list of a voxel; false if there is no free entry."""
    if state.heads.shape[1] == 0:
        return True
    most = state.values.shape[2]
    for q in range(waiting.pending.shape[1]):
        if waiting.pending[at(w), at(q)] < 0:
            continue
        entry = state.free[at(w), 0]
        if entry < 0:
            return False
        state.free[at(w), 0] = state.links[at(w), at(entry)]
        state.links[at(w), at(entry)] = state.heads[at(w), at(v)]
        state.heads[at(w), at(v)] = entry
        state.places[at(w), at(entry)] = q
        state.pending[at(w), at(entry)] = waiting.pending[at(w), at(q)]
        state.due[at(w), at(entry)] = waiting.due[at(w), at(q)]
        state.due_after[at(w), at(entry)] = waiting.due_after[at(w), at(q)]
        for k in range(most):
            state.values[at(w), at(entry), at(k)] = waiting.values[at(w), at(q * most + k)]
        waiting.pending[at(w), at(q)] = -1
    return True


# ---- the events of a voxel


def take(v, w, work, state):
    """Copy the amounts of a voxel into the worker's row, which formulas read."""
    species = state.amounts.shape[2]
    for i in range(species):
        work.x[at(w), at(i)] = real(state.amounts[at(w), at(v), at(i)])
    for i in range(state.reals.shape[2]):
        work.x[at(w), at(species + i)] = state.reals[at(w), at(v), at(i)]


def _give_back(v, w, work, state):
    """Copy the worker's row into a voxel; false if a count is too large."""
    species = state.amounts.shape[2]
    for i in range(species):
        x = work.x[at(w), at(i)]
        if x >= outcomes.COUNT_LIMIT:
            return False
        state.amounts[at(w), at(v), at(i)] = np.int32(x)
    for i in range(state.reals.shape[2]):
        state.reals[at(w), at(v), at(i)] = work.x[at(w), at(species + i)]
    return True


def _set_due(v, due, side, w, state):
    """Note when anything is next due in a voxel."""
    state.dues[at(w), at(v)] = due
    state.sides[at(w), at(v)] = side
    set_leaf(v, moment_of(due, side), w, state.levels, state.wakes)


@noinline_cpu
def visit(v, w, t, after, after_firing, point, plan, net, interruptions, work, waiting, state):
    """Let the events of a voxel happen, whose amounts the worker has.

    After a firing there are none unless it changed the value of a condition. Returns the outcome,
    and whether the time at which anything is due may have changed. `point` is the row of the
    voxel's parameters.
    """
    for e in range(state.armed.shape[2]):
        waiting.armed[at(w), at(e)] = state.armed[at(w), at(v), at(e)]
    still = after_firing and not plan.moving_breaks
    if still and not turned(w, t, point, net, interruptions, work, waiting):
        return outcomes.DONE, False
    _load(v, w, waiting, state)
    happened = 0
    if state.armed.shape[2] > 0:
        happened = happen(w, t, after, point, plan, net, interruptions, work, waiting)
    if happened < 0:
        return outcomes.outcome_of(happened), True
    if state.wakes.shape[1] > 0:
        due, side = next_break(w, t, after, point, net, interruptions, work, waiting)
        _set_due(v, due, side, w, state)
    if happened == 1 and not _give_back(v, w, work, state):
        return outcomes.OVERFLOW, True
    for e in range(state.armed.shape[2]):
        state.armed[at(w), at(v), at(e)] = waiting.armed[at(w), at(e)]
    return outcomes.DONE if _unload(v, w, waiting, state) else outcomes.TOO_MANY, True


# ---- what is due


def next_due(w, waiting, state):
    """The next time at which anything is due in any voxel, and 1 if just after that time."""
    soonest, side = real(outcomes.INFINITY), 0
    if state.wakes.shape[1] > 0:
        v = earliest(w, state.levels, state.wakes)
        if v >= 0:
            soonest, side = state.dues[at(w), at(v)], int(state.sides[at(w), at(v)])
    return or_delayed(soonest, side, w, waiting)


def due_voxel(w, t, after, state):
    """The voxel of an event or delayed firing that is due by this time; -1 if there is none."""
    v = np.int64(-1)
    if state.wakes.shape[1] > 0:
        v = earliest(w, state.levels, state.wakes)
    if v >= 0:
        due = state.dues[at(w), at(v)]
        if due > t or (due == t and state.sides[at(w), at(v)] > after):
            v = np.int64(-1)
    return v


def put_off(j, v, w, t, point, net, interruptions, work, waiting):
    """Add the delayed products of a reaction in a voxel; whether that failed."""
    delay = delay_of(j, w, t, point, net, interruptions, work, waiting)
    if not delay < outcomes.INFINITY:
        return outcomes.NOT_FINITE
    number = v * interruptions.delays.size + j
    return outcomes.DONE if push_delayed(t + delay, number, w, waiting) else outcomes.OVERFLOW


def deliver(w, t, interruptions, waiting, state):
    """Add all delayed products that are due; their voxels are then due, too."""
    count = interruptions.delays.size
    while waiting.delayed_count[at(w), 0] > 0 and waiting.delayed_times[at(w), 0] <= t:
        number = pop_delayed(w, waiting)
        v, j = number // count, number % count
        first, last = interruptions.delayed_starts[j], interruptions.delayed_starts[j + 1]
        for entry in range(first, last):
            i = interruptions.delayed_variables[entry]
            x = real(state.amounts[at(w), at(v), at(i)]) + interruptions.delayed_changes[entry]
            if x >= outcomes.COUNT_LIMIT:
                return outcomes.OVERFLOW
            if x < 0.0:
                return outcomes.NEGATIVE
            state.amounts[at(w), at(v), at(i)] = np.int32(x)
        _set_due(v, t, 0, w, state)
    return outcomes.DONE
