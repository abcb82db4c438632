"""Fixed steps on a CPU: a thread integrates LANES trajectories at once.

The innermost loop is over lanes, without calls or branches, so that the compiler vectorises it
together with the user's function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.delays.history_ring import (
    DELAYED,
    JUMPS,
    POINTS,
    breaks_at,
    delayed_at_stages,
    history_slopes,
    history_values,
    period_of,
    predicted,
    slot_before,
    slot_count,
    slot_of,
)
from ergode.trajectories.fixed.kernel import (
    FINITE,
    NOT_FINITE,
    RESUMES,
    ended,
    locate,
    slopes_of_stages,
    within,
)
from ergode.trajectories.fixed.tangents import TANGENTS, renew, renews
from ergode.trajectories.steppers.equations import (
    PARAMETERS,
    PLACES,
    VARIABLES,
    is_finite,
    parameters_in,
    parameters_of,
    slope,
)

LANE_COUNT = 64
LANES = option(LANE_COUNT)  # trajectories that a thread integrates at once


class Lanes(NamedTuple):
    """Workspace of a thread; each array is [lane] or [row, lane]."""

    ring: Any  # [slot, delayed variable, 2, lane]: ring buffer of the history
    state: Any  # present state
    p: Any  # parameters
    h: Any  # step sizes
    counts: Any  # int64: number of steps
    wanted: Any  # int64: step that contains the next time to save
    cursor: Any  # int64: index of the next time to save
    fraction: Any  # fraction of the step at the next time to save
    saved: Any  # state at the next time to save


def integrate_cpu(start, stop, run, out, kept):
    """Integrate blocks `start` to `stop` of LANES trajectories each, on one thread.

    `kept` has the lanes of all blocks between launches, or is () if there is one launch.
    """
    period = period_of(run.lags)
    lanes = Lanes(
        np.empty((slot_count(period), max(1, len(DELAYED)), 2, LANES), real),
        np.empty((VARIABLES, LANES), real), np.empty((PARAMETERS, LANES), real),
        np.empty(LANES, real), np.empty(LANES, np.int64), np.empty(LANES, np.int64),
        np.empty(LANES, np.int64), np.empty(LANES, real), np.empty((VARIABLES, LANES), real),
    )  # fmt: skip
    ring, wanted, lags = lanes.ring, lanes.wanted, run.lags
    for block in range(start, stop):
        first = block * LANES
        begin = 0
        if RESUMES:
            begin = kept.begin
        _load(first, begin == 0, run, lanes, out)
        if len(PLACES) > 0 and begin == 0:
            for slot in range(1, period + 1):
                _fill_history(slot, period, run.origin, lanes.state, lanes.h, ring[slot])
        now = 0
        last = lanes.counts.max()
        until = last
        if RESUMES:
            now = begin % period
            until = min(last, kept.until)
            if begin > 0:
                _take_up(first, last, kept, run, lanes)
        soonest = wanted.min()
        for step in range(begin, until):
            if TANGENTS > 0:
                _renew(step, period, first, run, lanes, out)
            for d in unroll(range(len(PLACES) if POINTS == 3 else 0)):
                if breaks_at(step - lags[d], run.breaks):
                    _predict(d, step, now, period, lags, ring)
            while soonest == step:
                _look_ahead(step, now, period, first, run, lanes)
                _save(step, last, first, run, lanes, out)
                soonest = wanted.min()
            _advance(step, now, period, first, run, lanes)
            now = now + 1 if now + 1 < period else 0
            if JUMPS:
                for d in unroll(range(len(PLACES))):
                    if step + 1 == lags[d]:
                        _note_before(d, step + 1, now, period, run, lanes)
        if RESUMES:
            _leave(first, kept, lanes)


def _take_up(first, last, kept, run, lanes):
    """Go on from where the last launch has left the lanes of a block."""
    for lane in range(LANES):
        for i in range(VARIABLES):
            lanes.state[i, lane] = kept.state[i, first + lane]
        cursor = kept.cursor[first + lane]
        lanes.cursor[lane] = cursor
        lanes.wanted[lane] = last
        if cursor < run.times.size:
            lanes.wanted[lane], lanes.fraction[lane] = locate(
                run.times[cursor], lanes.h[lane], lanes.counts[lane]
            )
        for slot in range(lanes.ring.shape[0] if len(PLACES) > 0 else 0):
            for v in range(lanes.ring.shape[1]):
                lanes.ring[slot, v, 0, lane] = kept.ring[slot, v, 0, first + lane]
                lanes.ring[slot, v, 1, lane] = kept.ring[slot, v, 1, first + lane]


def _leave(first, kept, lanes):
    """Leave the lanes of a block to the next launch."""
    for lane in range(LANES):
        for i in range(VARIABLES):
            kept.state[i, first + lane] = lanes.state[i, lane]
        kept.cursor[first + lane] = lanes.cursor[lane]
        for slot in range(lanes.ring.shape[0] if len(PLACES) > 0 else 0):
            for v in range(lanes.ring.shape[1]):
                kept.ring[slot, v, 0, first + lane] = lanes.ring[slot, v, 0, lane]
                kept.ring[slot, v, 1, first + lane] = lanes.ring[slot, v, 1, lane]


def _load(first, is_new, run, lanes, out):
    """Load a block of trajectories into the lanes; `is_new` if they begin."""
    count = out.states.shape[2]
    for lane in range(LANES):
        # Surplus lanes repeat the last trajectory, so that every block is full.
        column = min(first + lane, count - 1)
        for i in unroll(range(VARIABLES)):
            lanes.state[i, lane] = run.initial[i, column]
        p = parameters_of(column, run)
        for i in unroll(range(PARAMETERS)):
            lanes.p[i, lane] = p[i]
        lanes.h[lane] = run.sizes[column]
        lanes.counts[lane] = run.counts[column]
        lanes.wanted[lane], lanes.fraction[lane] = locate(
            run.times[0], lanes.h[lane], lanes.counts[lane]
        )
        lanes.cursor[lane] = 0
        if is_new and first + lane < count:
            out.status[column] = FINITE


def _save(step, last, first, run, lanes, out):
    """Save the lanes whose next save time lies in this step; set their following save time."""
    times, wanted, cursor = run.times, lanes.wanted, lanes.cursor
    for lane in range(LANES):
        if wanted[lane] == step:
            me = first + lane
            if me < out.states.shape[2]:
                for i in range(VARIABLES):
                    value = lanes.saved[i, lane]
                    out.states[cursor[lane], i, me] = value
                    if not is_finite(value):
                        out.status[me] = NOT_FINITE
            cursor[lane] += 1
            wanted[lane] = last
            if cursor[lane] < times.size:
                wanted[lane], lanes.fraction[lane] = locate(
                    times[cursor[lane]], lanes.h[lane], lanes.counts[lane]
                )


def _fill_history(slot, period, origin, state, h, ring):
    """Write the history of every lane at one slot."""
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        t = fma(real(slot - period), h[lane], origin)
        values = history_values(t, y)
        slopes = history_slopes(t, -h[lane] if slot == period else h[lane], y)
        for v in unroll(range(len(DELAYED))):
            ring[v, 0, lane] = values[DELAYED[v]]
            ring[v, 1, lane] = slopes[DELAYED[v]]


def _stencils(step, now, period, lags, breaks, ring):
    """Interpolation points of each delay, as views of the ring."""
    return tuple(
        tuple(
            ring[_stencil_slot(j, d, step - lags[d], step, now, period, lags, breaks)]
            for j in range(POINTS)
        )
        for d in range(len(PLACES))
    )


def _stencil_slot(j, d, cell, step, now, period, lags, breaks):
    """Slot of the j-th interpolation point of delay `d`; the delayed step begins at `cell`."""
    if j == POINTS - 1:
        return slot_before(cell + 1, step, now, period, lags)
    if POINTS == 2 or j == 1:
        return slot_of(cell, step, now, period)
    if breaks_at(cell, breaks):
        return period + 1 + len(PLACES) + d
    return slot_of(cell - 1, step, now, period)


def _predict(d, step, now, period, lags, ring):
    """Store the predicted point used where a quintic would reach back across a breaking point."""
    cell = step - lags[d]
    v = PLACES[d]
    first, second = (
        ring[slot_of(cell, step, now, period)],
        ring[slot_of(cell + 1, step, now, period)],
    )
    third = ring[slot_before(cell + 2, step, now, period, lags)]
    goal = ring[period + 1 + len(PLACES) + d]
    for lane in range(LANES):
        goal[v, 0, lane], goal[v, 1, lane] = predicted(
            first[v, 0, lane], first[v, 1, lane], second[v, 0, lane], second[v, 1, lane],
            third[v, 0, lane], third[v, 1, lane],
        )  # fmt: skip


def _note_before(d, step, now, period, run, lanes):
    """Store the left-hand limit at the d-th lag, where the delay reaches the end of the history."""
    ring, state, p, h, lags = lanes.ring, lanes.state, lanes.p, lanes.h, run.lags
    goal = ring[period + 1 + d]
    ends = tuple(
        ring[slot_before(step - lags[m], step, now, period, lags)] for m in range(len(PLACES))
    )
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = parameters_in(lane, p)
        delayed = tuple(ends[m][PLACES[m], 0, lane] for m in range(len(PLACES)))
        f = slope(fma(real(step), h[lane], run.origin), y, delayed, q)
        for v in unroll(range(len(DELAYED))):
            goal[v, 0, lane] = y[DELAYED[v]]
            goal[v, 1, lane] = h[lane] * f[DELAYED[v]]


def _renew(step, period, first, run, lanes, out):
    """Orthonormalize the tangent vectors of every lane in the steps that require it."""
    renewal = run.renewal
    if renews(step, renewal):
        for lane in range(LANES):
            column = first + lane if first + lane < out.states.shape[2] else -1
            renew(
                step, renewal, lanes.h[lane], lanes.counts[lane], period, lanes.state, lanes.ring,
                lane, out.exponents, column,
            )  # fmt: skip


def _advance(step, now, period, first, run, lanes):
    """One step of every lane."""
    ring, state, p, h = lanes.ring, lanes.state, lanes.p, lanes.h
    source, offset = run.source, run.offset + first
    stencils = _stencils(step, now, period, run.lags, run.breaks, ring)
    here = ring[now]
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = parameters_in(lane, p)
        delayed = delayed_at_stages(_points(stencils, lane))
        t = fma(real(step), h[lane], run.origin)
        k = slopes_of_stages(t, h[lane], y, delayed, q)
        end = ended(t, h[lane], y, k, delayed[0], q, source, offset + lane, step)
        for v in unroll(range(len(DELAYED))):
            here[v, 0, lane] = y[DELAYED[v]]
            here[v, 1, lane] = h[lane] * k[0][DELAYED[v]]
        for i in unroll(range(VARIABLES)):
            state[i, lane] = end[i]


def _look_ahead(step, now, period, first, run, lanes):
    """Dense output of every lane within its next step; the states do not advance."""
    state, p, h, fraction = lanes.state, lanes.p, lanes.h, lanes.fraction
    source, offset = run.source, run.offset + first
    stencils = _stencils(step, now, period, run.lags, run.breaks, lanes.ring)
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = parameters_in(lane, p)
        points = _points(stencils, lane)
        t = fma(real(step), h[lane], run.origin)
        delayed = delayed_at_stages(points)
        k = slopes_of_stages(t, h[lane], y, delayed, q)
        end = ended(t, h[lane], y, k, delayed[0], q, source, offset + lane, step)
        f = slope(
            fma(real(step + 1), h[lane], run.origin),
            end,
            tuple(points[d][2 * POINTS - 2] for d in range(len(PLACES))),
            q,
        )
        value = within(fraction[lane], h[lane], y, k, end, f)
        for i in unroll(range(VARIABLES)):
            lanes.saved[i, lane] = value[i]


def _points(stencils, lane):
    """Values and slopes, alternating, of one lane at the interpolation points of each delay."""
    return tuple(
        tuple(stencils[d][j // 2][PLACES[d], j % 2, lane] for j in range(2 * POINTS))
        for d in range(len(PLACES))
    )
