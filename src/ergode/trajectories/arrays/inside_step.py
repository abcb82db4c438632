"""Events and observables of fields of arrays, within the steps of one trajectory.

What is watched are functions of time and state: first those of the events, then one for each
observable.  They are evaluated at the nodes of a step (see `steppers.inside_step`), by one thread
of the group; all threads then make the same decisions.  Events are searched as in small fields.
Between two nodes an observable sees a cubic, with the slopes of the polynomial through all nodes.

``w.g[q, 0]`` holds function q at the nodes, ``w.g[q, 1]`` its slopes there (times the step), and
``w.g[q, 2]`` the numbers named below.  Of the events that act, ``w.g[e, 1]`` holds other numbers.
An effect changes the state at the end of the step in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, noinline_cpu, option, real, unroll
from ergode.core.group import barrier
from ergode.core.status import Status
from ergode.trajectories.adaptive.step import LOGS_INSIDE
from ergode.trajectories.arrays.equations import LATE, arranged, evaluate, unknowns
from ergode.trajectories.arrays.group import (
    DONE,
    END,
    FUNCTIONS,
    NOT_FINITE,
    TOGETHER,
    complete,
    save,
    within,
)
from ergode.trajectories.arrays.past import recall
from ergode.trajectories.steppers.equations import EPSILON, is_finite
from ergode.trajectories.steppers.explicit import EXTRA_C, C
from ergode.trajectories.steppers.inside_step import (
    ACTING,
    ACTS,
    DIRECTIONS,
    ENDS,
    EVENTS,
    INTERVALS,
    SLOPES,
    SOON,
    column_after_begin,
    dense_weights,
    is_endless,
    jumps_across,
    may_cross,
    next_crossing,
    off_by_roundings,
    on_surface,
    side_after,
    touched,
)
from ergode.trajectories.steppers.observing import (
    OBSERVED,
    SEEN,
    begin_observing,
    cubic_at,
    keep_observing,
    observed,
)

STOPPED = np.uint8(Status.STOPPED)
STEP_TOO_SMALL = np.uint8(Status.STEP_TOO_SMALL)

watched = option()  # watched(q, t, y, p, c): function q
act = option()  # act(event, t, y, p, c): changes the state in place

# Numbers of a function in ``w.g[q, 2]``: the fraction of the step at which an event that acts
# first occurs; whether the function has been finite; and its value where it is searched.
_FIRST, _MET, _FOUND = 0, 1, 2
# Numbers of an event in ``w.g[e, 1]``, at a moment when events act: its function before they act;
# the change of the function soon after, without their effects; and whether it has occurred.
_BEFORE, _APPROACH, _HAD = 0, 1, 2
_DUE = 0.5  # an event that occurs now


class Inside(NamedTuple):
    """A step with its dense output.  Calls pass no more arrays than these: that compiles sooner."""

    group: Any
    t: Any  # time at its beginning
    h: Any  # size
    p: Any
    since: Any  # events before this time are ignored
    begins: Any  # these three as in `arguments.Run`
    shapes: Any
    constants: Any
    y: Any  # these four as in `arguments.Workspace`
    stage: Any
    k: Any
    g: Any
    late: Any  # with delays `arguments.Run` and `past.Past`, else ()


def _late_of(run, w):
    if LATE > 0:
        return run, w.past
    else:  # LATE is an option: only one branch is compiled
        return ()


def inside_of(group, t, h, p, run, w):
    """An `Inside` of a group."""
    return Inside(
        group, t, h, p, run.since, run.begins, run.shapes, run.constants, w.y, w.stage, w.k, w.g,
        _late_of(run, w),
    )  # fmt: skip


@noinline_cpu
def value_at(e, x, inside):
    """Function `e` at the fraction `x` of a step; all threads of the group call this together."""
    group = inside.group
    _place(x, 0, inside)
    barrier(group)
    if group.rank == 0:
        inside.g[e, 2, _FOUND] = function_at(e, inside.t + x * inside.h, inside.stage[0], inside)
    barrier(group)
    return inside.g[e, 2, _FOUND]


def function_at(q, t, state, inside):
    """Function `q` of a state."""
    return _function_at(q, t, state, inside.begins, inside.shapes, inside.constants, inside.p)


@noinline_cpu
def _function_at(q, t, state, begins, shapes, constants, p):
    return watched(q, t, arranged(state, begins, shapes), p, constants)


@noinline_cpu
def _place(x, row, inside):
    """Set a row of stage states, and delayed values, to those at the fraction `x` of a step."""
    if LATE > 0:
        t, h = inside.t, inside.h
        recall(
            inside.group, t + x * h, fma(real(0.5), h, t), inside.p, inside.late[0],
            inside.stage[row], inside.late[1],
        )  # fmt: skip
    weights = dense_weights(x)
    for i in unknowns(inside.group, inside.k.shape[1]):
        inside.stage[row, i] = within(x, weights, inside.h, i, inside)


def begin_watching(me, group, p, run, out, w):
    """Evaluate all functions where a trajectory begins."""
    if group.rank == 0:
        inside = inside_of(group, run.origin, real(0.0), p, run, w)
        for q in range(FUNCTIONS):
            g = function_at(q, run.origin, w.y, inside)
            w.g[q, 0, 0] = g
            w.g[q, 2, _MET] = real(1.0) if is_finite(g) else real(0.0)
        for e in range(EVENTS):
            out.hit_counts[e, me] = 0
        if SEEN > 0:
            _begin_observing(run.origin, _at_node(0, real(1.0), w.g)[0], p, w.s)
    barrier(group)


def look_again(group, t, p, run, w):
    """Evaluate the observables at the beginning of a step, where delayed values may have jumped.

    Events keep the value before: they may occur by the jump.
    """
    if group.rank == 0:
        inside = inside_of(group, t, real(0.0), p, run, w)
        for q in range(EVENTS, FUNCTIONS):
            w.g[q, 0, 0] = function_at(q, t, w.y, inside)


def look(me, group, t, h, t1, cursor, p, run, out, w):
    """Save states, find events and observe within an accepted step.

    Returns the time at its end, where an event may have shortened it; the next `cursor`; and the
    outcome, DONE if the trajectory goes on.
    """
    if len(EXTRA_C) > 0 and LATE == 0 and not LOGS_INSIDE:  # else it is complete
        complete(group, t, h, p, run, w)
    inside = inside_of(group, t, h, p, run, w)
    _inner_nodes(real(1.0), 0, inside)
    return settle(me, inside, t1, cursor, run, out, w)


@noinline_cpu
def settle(me, inside, t1, cursor, run, out, w):
    """As `look`, where the functions at the inner nodes and the extra stages are known."""
    group, t, h, p = inside.group, inside.t, inside.h, inside.p
    _end_node(t1, 0, inside)
    stop, which, is_number = real(1.0), -1, True
    if EVENTS > 0:
        stop, which, is_number = _crossings(me, inside, t == run.origin, out.hit_counts, out.hits)
    endless = False
    if ACTING and which >= 0:
        endless = is_endless(w.g[which, 0, 0], stop, t, h)
    t2 = t + stop * h if which >= 0 and stop < 1.0 else t1
    # A time at which an event acts, up to rounding, is before it.
    near = TOGETHER * EPSILON * max(h, abs(t2)) if which >= 0 else real(0.0)
    while cursor < run.times.size and run.times[cursor] < t2 - near:
        save(me, group, cursor, (run.times[cursor] - t) / h, h, out, w)
        cursor += 1
    if ACTING and t2 < t1:
        if SEEN > 0:
            _inner_nodes(stop, EVENTS, inside)
        _place(stop, END, inside)
        barrier(group)
        if SEEN > 0:
            _end_node(t2, EVENTS, inside)
    while cursor < run.times.size and run.times[cursor] <= t2 + near:
        save(me, group, cursor, real(1.0), h, out, w)
        cursor += 1
    if SEEN > 0 and group.rank == 0:
        _observe(t, t2, run.since, p, w.g, w.s)
    barrier(group)
    outcome = DONE
    if group.rank == 0 and which < 0:
        for q in range(FUNCTIONS):
            w.g[q, 0, 0] = w.g[q, 0, INTERVALS]
            w.g[q, 2, _MET] = real(1.0) if is_finite(w.g[q, 0, 0]) else w.g[q, 2, _MET]
    if ACTING and endless:
        outcome = STEP_TOO_SMALL
    elif ACTING and which >= 0:
        ended = _act(me, inside, t2, stop, out.hit_counts, out.hits)
        outcome = STOPPED if ended else DONE
        evaluate(group, t2, w.stage[END], p, run, w.k[len(C)])
        barrier(group)
        soon = real(SOON) * h
        for i in unknowns(group, inside.k.shape[1]):
            w.stage[0, i] = fma(soon, w.k[len(C), i], w.stage[END, i])
        barrier(group)
        if group.rank == 0:
            _set_after(t2, soon, inside)
        barrier(group)
        is_number = True
        for e in range(EVENTS):
            is_number = is_number and w.g[e, 0, 0] == w.g[e, 0, 0]
    return t2, cursor, outcome if is_number else NOT_FINITE


def end_watching(me, group, taken, outcome, out, w):
    """Write the observables of a trajectory that has ended; returns its outcome.

    It has failed if an event function was never finite.
    """
    if OBSERVED > 0 and group.rank == 0:
        _write_observables(me, w.s, out.observed)
    barrier(group)
    met = True
    for e in range(EVENTS):
        met = met and w.g[e, 2, _MET] > 0.0
    return outcome if met or outcome != DONE or taken == 0 else NOT_FINITE


# ---- nodes


@noinline_cpu
def _inner_nodes(stop, first, inside):
    """Functions from `first` on at the inner nodes of a step that ends at its fraction `stop`."""
    for j in range(1, INTERVALS):
        x = stop * node(j)
        _place(x, j & 1, inside)
        barrier(inside.group)
        if inside.group.rank == 0:
            for q in range(first, FUNCTIONS):
                inside.g[q, 0, j] = function_at(
                    q, inside.t + x * inside.h, inside.stage[j & 1], inside
                )


def node(j):
    """Fraction of the step at node `j`."""
    return real(j) / real(INTERVALS)


@noinline_cpu
def _end_node(t1, first, inside):
    """Functions at the last node, and the slopes at all."""
    if inside.group.rank == 0:
        for q in range(first, FUNCTIONS):
            inside.g[q, 0, INTERVALS] = function_at(q, t1, inside.stage[END], inside)
            _set_slopes(inside.g[q])
    barrier(inside.group)


@noinline_cpu
def _set_slopes(g):
    """Set the slopes of a function at all nodes."""
    for j in unroll(range(INTERVALS + 1)):
        g[1, j] = sum(SLOPES[j][i] * g[0, i] for i in range(INTERVALS + 1) if SLOPES[j][i] != 0.0)


# ---- events


def _crossings(me, inside, is_first, hit_counts, hits):
    """Find the events of a step, the first one or not; record those that do not act.

    Returns the fraction of the step at which an event acts; the event, or -1; and whether all event
    functions are numbers.
    """
    group, g = inside.group, inside.g
    is_number = True
    for e in range(EVENTS):
        if on_surface(g[e, 0, 0]):
            soon, noise = value_at(e, real(SOON), inside), _noise_at_begin(e, inside)
            if group.rank == 0:
                row = tuple(g[e, 0, j] for j in range(INTERVALS + 1))
                for known in unroll(range(EVENTS)):
                    if e == known:
                        row = column_after_begin(known, row, soon, noise, is_first)
                for j in unroll(range(INTERVALS + 1)):
                    g[e, 0, j] = row[j]
                _set_slopes(g[e])
            barrier(group)
        for j in range(INTERVALS + 1):
            is_number = is_number and g[e, 0, j] == g[e, 0, j]
    # Events that act are searched first: they may end the step.
    stop, which = real(1.0), -1
    for turn in range(0 if ACTING else EVENTS, 2 * EVENTS):
        e = turn % EVENTS
        acts = turn < EVENTS
        first = real(2.0)
        row = tuple(g[e, 0, j] for j in range(INTERVALS + 1))
        if ACTS[e] == acts and may_cross(row, DIRECTIONS[e]):
            at = (0, real(0.0), g[e, 0, 0])
            x = real(0.0)
            while x <= stop:
                x, at = _next_crossing(e, at, inside)
                if acts:
                    first = x
                    x = real(2.0)
                elif x <= stop:
                    _record(me, e, x, inside.t + x * inside.h, inside, hit_counts, hits)
        if acts:
            if first < stop or (first == 1.0 and which < 0):
                stop, which = first, e
            if group.rank == 0:
                g[e, 2, _FIRST] = first
    return stop, which, is_number


@noinline_cpu
def _noise_at_begin(e, inside):
    """How far roundings can change event function `e` at the beginning of a step.

    All threads of the group call this together.
    """
    group, y, near = inside.group, inside.y, inside.stage[0]
    for i in unknowns(group, near.shape[0]):
        near[i] = off_by_roundings(i, y[i])
    barrier(group)
    if group.rank == 0:
        moved = function_at(e, off_by_roundings(1, inside.t), near, inside)
        inside.g[e, 2, _FOUND] = abs(moved - function_at(e, inside.t, y, inside))
    barrier(group)
    return inside.g[e, 2, _FOUND]


@noinline_cpu
def _next_crossing(e, at, inside):
    return next_crossing(e, DIRECTIONS[e], at, inside.g[e, 0], inside.g[e, 1], inside)


@noinline_cpu
def _record(me, e, x, t, inside, hit_counts, hits):
    """Record an occurrence of an event at the fraction `x` of a step."""
    group = inside.group
    if t + TOGETHER * EPSILON * abs(t) < inside.since:
        return
    count = hit_counts[e, me]
    barrier(group)
    if group.rank == 0:
        hit_counts[e, me] = count + 1
    room = hits.shape[1]
    if room > 0:
        slot = count % room
        weights = dense_weights(x)
        if group.rank == 0:
            hits[e, slot, 0, me] = t
        # A loop over places from 1 on would be compiled wrongly for a thread of a GPU.
        state = hits[e, slot, 1:]
        for i in unknowns(group, inside.k.shape[1]):
            state[i, me] = within(x, weights, inside.h, i, inside)
    barrier(group)


@noinline_cpu
def _act(me, inside, t2, stop, hit_counts, hits):
    """Act on the state at the end of a step.

    Events at one time, up to rounding, all act, in the order in which they were given.  Then follow
    those whose surface an effect has crossed; each occurs once.  Returns whether the trajectory
    ends.
    """
    group, g = inside.group, inside.g
    together = stop + TOGETHER * EPSILON * max(real(1.0), abs(t2) / inside.h)
    for e in range(EVENTS):
        beyond = value_at(e, stop + real(SOON), inside)
        if group.rank == 0:
            before = function_at(e, t2, inside.stage[END], inside)
            g[e, 1, _APPROACH] = beyond - before
            g[e, 1, _BEFORE] = touched(before, g[e, 0, 0], g[e, 0, INTERVALS])
            g[e, 1, _HAD] = real(0.0)
    barrier(group)
    ended, goes_on, is_first = False, True, True
    while goes_on:
        goes_on = False
        if group.rank == 0:
            for e in range(EVENTS):
                due = ACTS[e] and g[e, 2, _FIRST] <= together and is_first
                if not is_first and g[e, 1, _HAD] == 0.0:
                    due = _jumps(e, function_at(e, t2, inside.stage[END], inside), g[e])
                if due:
                    g[e, 1, _HAD] = real(_DUE)
        barrier(group)
        for e in range(EVENTS):
            if g[e, 1, _HAD] == _DUE:
                goes_on = True
                _record(me, e, real(1.0), t2, inside, hit_counts, hits)
                if group.rank == 0:
                    g[e, 1, _HAD] = real(1.0)
                barrier(group)
                if ACTS[e]:
                    ended = ended or ENDS[e] == 1 or (ENDS[e] > 1 and hit_counts[e, me] >= ENDS[e])
                    if group.rank == 0:
                        y = arranged(inside.stage[END], inside.begins, inside.shapes)
                        act(e, t2, y, inside.p, inside.constants)
                barrier(group)
        is_first = False
    return ended


def _jumps(e, value, g):
    """Whether effects have carried event function `e`, now `value`, across zero."""
    found = False
    for known in unroll(range(EVENTS)):
        if e == known:
            found = jumps_across(known, g[1, _BEFORE], touched(value, g[0, 0], g[0, INTERVALS]))
    return found


@noinline_cpu
def _set_after(t2, soon, inside):
    """Functions after events have acted; ``stage[0]`` has the state `soon` after them."""
    g = inside.g
    for q in range(FUNCTIONS):
        value = function_at(q, t2, inside.stage[END], inside)
        if q < EVENTS and touched(value, g[q, 0, 0], g[q, 0, INTERVALS]) == 0.0:
            leaving = function_at(q, t2 + soon, inside.stage[0], inside) - value
            for e in unroll(range(EVENTS)):
                if q == e:
                    value = side_after(
                        e, g[e, 0, 0], g[e, 1, _APPROACH], leaving, g[e, 1, _HAD] > 0.0
                    )
        g[q, 0, 0] = value
        g[q, 2, _MET] = real(1.0) if is_finite(value) else g[q, 2, _MET]


# ---- observables


@noinline_cpu
def _begin_observing(t, values, p, s):
    begun = begin_observing(t, values, p)
    for k in unroll(range(SEEN)):
        s[k] = real(begun[k])


@noinline_cpu
def _observe(t, t2, since, p, g, s):
    """Update the accumulators by a step from `t` to `t2`, from node to node, after `since`."""
    per, width = 1.0 / (t2 - t), (t2 - t) / real(INTERVALS)
    for j in range(INTERVALS):
        now = t + real(j) * width
        values, slopes = _at_node(j, per, g)
        next_values, next_slopes = _at_node(j + 1, per, g)
        late = since - now
        if late >= width:
            _begin_observing(now + width, next_values, p, s)
        else:
            if late > 0.0:
                inner = tuple(
                    cubic_at(
                        late / width, width, values[o], slopes[o], next_values[o], next_slopes[o]
                    )
                    for o in range(OBSERVED)
                )
                values = tuple(inner[o][0] for o in range(OBSERVED))
                slopes = tuple(inner[o][1] for o in range(OBSERVED))
                _begin_observing(since, values, p, s)
            kept = keep_observing(
                tuple(s[k] for k in range(SEEN)), max(late, real(0.0)), values, slopes, width,
                next_values, next_slopes, p,
            )  # fmt: skip
            for k in unroll(range(SEEN)):
                s[k] = real(kept[k])


@noinline_cpu
def _write_observables(me, s, values):
    found = observed(tuple(s[k] for k in range(SEEN)), real(0.0), (), ())
    for j in unroll(range(OBSERVED)):
        values[j, me] = found[j]


def _at_node(j, per, g):
    """Values and slopes of the observed functions at a node."""
    values = tuple(g[EVENTS + o, 0, j] for o in range(OBSERVED))
    return values, tuple(per * g[EVENTS + o, 1, j] for o in range(OBSERVED))
