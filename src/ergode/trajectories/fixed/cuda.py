"""Steps of one size on a GPU: a thread follows one trajectory and keeps its state in registers.

Most steps are calm: nothing is saved in them, and what they read of the history has no break.  A
thread takes such steps several at a time: all that they read is asked for at once, so that memory
has more to do while the thread waits for it.  (On a CPU this makes the chain of operations of a
lane longer than what a processor looks ahead, and gains nothing.)
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
    ended,
    locate,
    slopes_of_stages,
    within,
)
from ergode.trajectories.fixed.tangents import TANGENTS, renew
from ergode.trajectories.steppers.equations import (
    PARAMETERS,
    PLACES,
    VARIABLES,
    is_finite,
    slope,
)

AHEAD = option(1)  # calm steps that a thread takes together
# Slots, delayed variables and threads of a ring in shared memory, if it is there.
SHORT = option(())


class Trajectory(NamedTuple):
    """What a thread knows of its trajectory."""

    p: Any  # [parameter]
    h: Any  # size of its steps
    lag: Any  # int32 [delay]
    period: Any  # int32: slots of the ring
    me: Any  # its number
    mine: Any  # its place in the ring


def integrate_cuda(run, out, ring):
    """Integrate every trajectory, one a thread.

    `ring` [slot, delayed variable, 2, trajectory] is where histories are kept, unless they are in
    shared memory; where tangents are made orthonormal, the last time of the states is used too.
    """
    me = cuda.grid(1)
    if me >= out.states.shape[2]:
        return
    mine = me
    if len(SHORT) > 0:
        ring = cuda.shared.array((SHORT[0], SHORT[1], 2, SHORT[2]), real)
        mine = cuda.threadIdx.x
    period = np.int32(period_of(run.lags))
    lag = tuple(np.int32(run.lags[d]) for d in range(len(PLACES)))
    one = Trajectory(
        tuple(run.parameters[i, me] for i in range(PARAMETERS)), run.sizes[me], lag, period, me,
        mine,
    )  # fmt: skip
    y = tuple(run.initial[i, me] for i in range(VARIABLES))
    h = one.h
    step_count = run.counts[me]
    if len(PLACES) > 0:
        _fill_ring(y, run.origin, ring, one)
    # What the last step has read of the history, but for its oldest point: the next reads it again.
    window = tuple(
        _first_window(_point(ring, period - lag[d], PLACES[d], mine)) for d in range(len(PLACES))
    )
    outcome = FINITE
    cursor = 0
    wanted, fraction = locate(run.times[0], h, step_count)
    now = np.int32(0)
    step = np.int32(0)
    last = np.int32(step_count)
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
        # The far end of this cell is the near end of the next, but where the solution breaks.
        nearer = tuple(
            _next_near(step + 1 - lag[d], step, now, period, lag, far[d], ring, PLACES[d], mine)
            for d in range(len(PLACES))
        )
        window = nearer if POINTS == 2 else tuple(near[d] + nearer[d] for d in range(len(PLACES)))
        step = np.int32(step + 1)
        now = np.int32(now + 1) if now + 1 < period else np.int32(0)
    out.status[me] = outcome


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
    """The state of a trajectory whose tangents are made orthonormal."""
    # Where the last state will be, there is room until then.
    state = out.states[out.states.shape[0] - 1]
    for i in unroll(range(VARIABLES)):
        state[i, one.me] = y[i]
    renew(
        step, run.renewal, one.h, step_count, one.period, state, ring, one.me, out.exponents, one.me
    )
    return tuple(state[i, one.me] for i in range(VARIABLES))


def _calm_steps(y, window, step, now, ring, one, run):
    """A trajectory after AHEAD calm steps: its state, its window, and the slot that is next."""
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
    """Values and slopes in turn, at the points that each delay reads."""
    if POINTS == 2:
        return tuple(near[d] + far[d] for d in range(len(PLACES)))
    else:  # what is not chosen is not compiled
        return tuple(
            _back(d, step, now, near[d], far[d], ring, one, breaks) + near[d] + far[d]
            for d in range(len(PLACES))
        )


def _save_one(cursor, fraction, step, y, k, end, far, one, origin, states):
    """Save a trajectory at a fraction of a step; whether its state is finite there."""
    f = slope(
        fma(real(step + 1), one.h, origin),
        end,
        tuple(far[d][0] for d in range(len(PLACES))),
        one.p,
    )
    value = within(fraction, one.h, y, k, end, f)
    finite = True
    for i in unroll(range(VARIABLES)):
        states[cursor, i, one.me] = value[i]
        finite = finite and is_finite(value[i])
    return finite


def _note_ends(step, end, far, origin, ring, one):
    """Keep the point where a delay reaches the end of the history, as it is seen from before."""
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
    """The window whose last point this is; one before it is not looked at in the first step."""
    if POINTS == 2:
        return point
    return point + point


def _window(point, step, now, period, ring, place, me):
    """The window whose last point this is, where the ring has changed."""
    here = _point(ring, slot_of(point, step, now, period), place, me)
    if POINTS == 2:
        return here
    return _point(ring, slot_of(point - 1, step, now, period), place, me) + here


def _next_near(point, step, now, period, lag, far, ring, place, me):
    """A point as it is seen from after it."""
    broken = point == 0
    if JUMPS:
        for d in unroll(range(len(PLACES))):
            broken = broken or point == lag[d]
    return _point(ring, slot_of(point, step, now, period), place, me) if broken else far


def _back(d, step, now, near, far, ring, one, breaks):
    """The point before a cell, or what the quintic of the other side makes of it."""
    period, lag, me = one.period, one.lag, one.mine
    cell = step - lag[d]
    if breaks_at(cell, breaks):
        third = _point(ring, slot_before(cell + 2, step, now, period, lag), PLACES[d], me)
        return predicted(near[0], near[1], far[0], far[1], third[0], third[1])
    return _point(ring, slot_of(cell - 1, step, now, period), PLACES[d], me)


def _point(ring, slot, place, me):
    """Value and slope of one trajectory at a slot."""
    return ring[slot, place, 0, me], ring[slot, place, 1, me]
