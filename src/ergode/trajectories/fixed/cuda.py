"""Fixed steps on a GPU: a thread integrates one trajectory and keeps its state in registers.

Most steps are calm: no save time lies in them, and their history has no breaking point.  A thread
takes AHEAD calm steps together and issues all their loads first, so that the memory latencies
overlap.  (On a CPU this gains nothing: the dependency chain of a lane exceeds the processor's
reorder window.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, fma, option, real, unroll
from ergode.trajectories.delays.history_ring import (
    DELAYED,
    JUMPS,
    POINTS,
    breaks_at,
    calm,
    delayed_at_stages,
    history_slopes,
    history_values,
    period_of,
    predicted,
    slot_before,
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
from ergode.trajectories.fixed.tangents import TANGENTS, renew
from ergode.trajectories.steppers.equations import (
    PLACES,
    VARIABLES,
    is_finite,
    parameters_of,
    slope,
)

AHEAD = option(1)  # calm steps that a thread takes together
# Slots, delayed variables and threads of a ring in shared memory; empty for global memory.
SHORT = option(())


class Trajectory(NamedTuple):
    """Constants of a thread's trajectory."""

    p: Any  # [parameter]
    h: Any  # step size
    lag: Any  # int32 [delay]: each delay in steps
    period: Any  # int32: slots of the ring
    me: Any  # number of the trajectory
    mine: Any  # its index in the ring


def integrate_cuda(run, out, kept):
    """Integrate every trajectory, one per thread.

    `kept.ring` holds the histories, unless they are in shared memory.
    """
    me = cuda.grid(1)
    if me >= out.states.shape[2]:
        return
    mine = me
    ring = kept.ring
    if len(SHORT) > 0:
        ring = cuda.shared.array((SHORT[0], SHORT[1], 2, SHORT[2]), real)
        mine = cuda.threadIdx.x
    period = np.int32(period_of(run.lags))
    lag = tuple(np.int32(run.lags[d]) for d in range(len(PLACES)))
    one = Trajectory(
        parameters_of(me, run), run.sizes[me], lag, period, me,
        mine,
    )  # fmt: skip
    y = tuple(run.initial[i, me] for i in range(VARIABLES))
    h = one.h
    step_count = run.counts[me]
    begin = np.int32(0)
    if RESUMES:
        begin = np.int32(min(kept.begin, step_count))
    if len(PLACES) > 0 and begin == 0:
        _fill_ring(y, run.origin, ring, one)
    # Points that the next step reads again: all points of the last step except its oldest.
    window = tuple(
        _first_window(_point(ring, period - lag[d], PLACES[d], mine)) for d in range(len(PLACES))
    )
    outcome = FINITE
    cursor = 0
    wanted, fraction = locate(run.times[0], h, step_count)
    now = np.int32(0)
    step = np.int32(0)
    last = np.int32(step_count)
    if RESUMES:
        last = np.int32(min(kept.until, step_count))
        if begin > 0:
            step = begin
            now = np.int32(begin % period)
            y = tuple(kept.state[i, me] for i in range(VARIABLES))
            outcome = out.status[me]
            cursor = kept.cursor[me]
            wanted = step_count
            if cursor < run.times.size:
                wanted, fraction = locate(run.times[cursor], h, step_count)
            window = tuple(
                _window(step - lag[d], step, now, period, ring, PLACES[d], mine)
                for d in range(len(PLACES))
            )
    renewing = np.int32(run.renewal[0]) if TANGENTS > 0 else last
    while step < last:
        if TANGENTS > 0:
            due = step == renewing
            if due:
                y = _renew_one(y, step, step_count, ring, one, run, out)
                window = tuple(
                    _window(step - lag[d], step, now, period, ring, PLACES[d], mine)
                    for d in range(len(PLACES))
                )
                renewing = np.int32(renewing + run.renewal[1])
        calm_until = min(min(np.int32(wanted), renewing), last)
        if step + AHEAD <= calm_until and calm(step, AHEAD, lag, run.breaks):
            y, window, now = _calm_steps(y, window, step, now, ring, one, run)
            step = np.int32(step + AHEAD)
            continue
        near = tuple(
            (window[d][2 * POINTS - 4], window[d][2 * POINTS - 3]) for d in range(len(PLACES))
        )
        far = tuple(
            _point(ring, slot_before(step + 1 - lag[d], step, now, period, lag), PLACES[d], mine)
            for d in range(len(PLACES))
        )
        delayed = delayed_at_stages(_points_of_cells(step, now, near, far, ring, one, run.breaks))
        t = fma(real(step), h, run.origin)
        k = slopes_of_stages(t, h, y, delayed, one.p)
        end = ended(t, h, y, k, delayed[0], one.p, run.source, run.offset + me, step)
        while wanted == step:
            finite = _save_one(cursor, fraction, step, y, k, end, far, one, run.origin, out.states)
            outcome = outcome if finite else NOT_FINITE
            cursor += 1
            wanted = step_count
            if cursor < run.times.size:
                wanted, fraction = locate(run.times[cursor], h, step_count)
        for v in unroll(range(len(DELAYED))):
            ring[now, v, 0, mine] = y[DELAYED[v]]
            ring[now, v, 1, mine] = h * k[0][DELAYED[v]]
        if JUMPS:
            _note_ends(step, end, far, run.origin, ring, one)
        y = end
        # The far end of this cell is the near end of the next one, except at a breaking point.
        nearer = tuple(
            _next_near(step + 1 - lag[d], step, now, period, lag, far[d], ring, PLACES[d], mine)
            for d in range(len(PLACES))
        )
        window = nearer if POINTS == 2 else tuple(near[d] + nearer[d] for d in range(len(PLACES)))
        step = np.int32(step + 1)
        now = np.int32(now + 1) if now + 1 < period else np.int32(0)
    out.status[me] = outcome
    if RESUMES:
        kept.cursor[me] = cursor
        for i in unroll(range(VARIABLES)):
            kept.state[i, me] = y[i]


def _fill_ring(y, origin, ring, one):
    """Write the history of a trajectory."""
    h, period = one.h, one.period
    for slot in range(1, period + 1):
        t = fma(real(slot - period), h, origin)
        values = history_values(t, y)
        slopes = history_slopes(t, -h if slot == period else h, y)
        for v in unroll(range(len(DELAYED))):
            ring[slot, v, 0, one.mine] = values[DELAYED[v]]
            ring[slot, v, 1, one.mine] = slopes[DELAYED[v]]


def _renew_one(y, step, step_count, ring, one, run, out):
    """Orthonormalize the tangent vectors of a trajectory; returns its state."""
    # The slot of the last saved state is free until the end, and serves as a buffer.
    state = out.states[out.states.shape[0] - 1]
    for i in unroll(range(VARIABLES)):
        state[i, one.me] = y[i]
    renew(
        step, run.renewal, one.h, step_count, one.period, state, ring, one.me, out.exponents, one.me
    )
    return tuple(state[i, one.me] for i in range(VARIABLES))


def _calm_steps(y, window, step, now, ring, one, run):
    """Take AHEAD calm steps; returns the state, the window, and the next slot."""
    h, lag, period, mine = one.h, one.lag, one.period, one.mine
    ahead = window
    for u in unroll(range(AHEAD)):
        ahead = tuple(
            ahead[d]
            + _point(ring, slot_of(step + (u + 1) - lag[d], step, now, period), PLACES[d], mine)
            for d in range(len(PLACES))
        )
    for u in unroll(range(AHEAD)):
        points = tuple(
            tuple(ahead[d][2 * u + j] for j in range(2 * POINTS)) for d in range(len(PLACES))
        )
        t = fma(real(step), h, run.origin)
        delayed = delayed_at_stages(points)
        k = slopes_of_stages(t, h, y, delayed, one.p)
        for v in unroll(range(len(DELAYED))):
            ring[now, v, 0, mine] = y[DELAYED[v]]
            ring[now, v, 1, mine] = h * k[0][DELAYED[v]]
        y = ended(t, h, y, k, delayed[0], one.p, run.source, run.offset + one.me, step)
        step = np.int32(step + 1)
        now = np.int32(now + 1) if now + 1 < period else np.int32(0)
    window = tuple(
        tuple(ahead[d][2 * AHEAD + j] for j in range(2 * (POINTS - 1))) for d in range(len(PLACES))
    )
    return y, window, now


def _points_of_cells(step, now, near, far, ring, one, breaks):
    """Values and slopes, alternating, at the interpolation points of each delay."""
    if POINTS == 2:
        return tuple(near[d] + far[d] for d in range(len(PLACES)))
    else:  # POINTS is an option: only one branch is compiled
        return tuple(
            _back(d, step, now, near[d], far[d], ring, one, breaks) + near[d] + far[d]
            for d in range(len(PLACES))
        )


def _save_one(cursor, fraction, step, y, k, end, far, one, origin, states):
    """Save the state at a fraction of a step; returns whether it is finite."""
    f = slope(
        fma(real(step + 1), one.h, origin), end, tuple(far[d][0] for d in range(len(PLACES))), one.p
    )
    value = within(fraction, one.h, y, k, end, f)
    finite = True
    for i in unroll(range(VARIABLES)):
        states[cursor, i, one.me] = value[i]
        finite = finite and is_finite(value[i])
    return finite


def _note_ends(step, end, far, origin, ring, one):
    """Store the left-hand limit at a lag, if the step ends where a delay reaches the first time."""
    h = one.h
    for d in unroll(range(len(PLACES))):
        if step + 1 == one.lag[d]:
            f = slope(
                fma(real(step + 1), h, origin), end,
                tuple(far[m][0] for m in range(len(PLACES))), one.p,
            )  # fmt: skip
            for v in unroll(range(len(DELAYED))):
                ring[one.period + 1 + d, v, 0, one.mine] = end[DELAYED[v]]
                ring[one.period + 1 + d, v, 1, one.mine] = h * f[DELAYED[v]]


def _first_window(point):
    """Window that ends with this point; the first step does not read the point before it."""
    if POINTS == 2:
        return point
    return point + point


def _window(point, step, now, period, ring, place, me):
    """Window that ends with this point, reloaded from the ring."""
    here = _point(ring, slot_of(point, step, now, period), place, me)
    if POINTS == 2:
        return here
    return _point(ring, slot_of(point - 1, step, now, period), place, me) + here


def _next_near(point, step, now, period, lag, far, ring, place, me):
    """The right-hand limit at a point."""
    broken = point == 0
    if JUMPS:
        for d in unroll(range(len(PLACES))):
            broken = broken or point == lag[d]
    return _point(ring, slot_of(point, step, now, period), place, me) if broken else far


def _back(d, step, now, near, far, ring, one, breaks):
    """The point before a cell, or its prediction from the other side of a breaking point."""
    period, lag, me = one.period, one.lag, one.mine
    cell = step - lag[d]
    if breaks_at(cell, breaks):
        third = _point(ring, slot_before(cell + 2, step, now, period, lag), PLACES[d], me)
        return predicted(near[0], near[1], far[0], far[1], third[0], third[1])
    return _point(ring, slot_of(cell - 1, step, now, period), PLACES[d], me)


def _point(ring, slot, place, me):
    """Value and slope of one trajectory at a slot."""
    return ring[slot, place, 0, me], ring[slot, place, 1, me]
