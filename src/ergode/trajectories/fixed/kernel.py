"""Steps of one size: explicit Runge-Kutta methods for ordinary and delay equations.

A trajectory takes steps of size h, which is its own; step n begins at origin + n h.  What is
asked for between two steps is read off the cubic through both (see `history`).

On a GPU a thread follows one trajectory and keeps its state in registers.  On a CPU a thread
follows LANES trajectories at once: the innermost loop is over lanes, without calls or branches,
so that the compiler makes vector instructions of it - of the user's function too.  Both write
``out[time, variable, trajectory]``.

Most steps are calm: nothing is saved in them, and what they read of the past has no break.  A
thread of a GPU takes such steps several at a time: all that they read is asked for at once, so that
memory has more to do while the thread waits for it.  (On a CPU this makes the chain of operations
of a lane longer than what a processor looks ahead, and gains nothing.)
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import cuda, fma, real, unroll
from ergode.core.status import Status
from ergode.trajectories.delays.history_ring import (
    DELAYED,
    JUMPS,
    POINTS,
    breaks_at,
    calm,
    delayed_at_stages,
    past_slopes,
    past_values,
    period_of,
    predicted,
    slot_before,
    slot_count,
    slot_of,
)
from ergode.trajectories.fixed.tangents import TANGENTS, renew, renews
from ergode.trajectories.steppers.equations import (
    EPSILON,
    PARAMETERS,
    PLACES,
    VARIABLES,
    is_finite,
    slope,
)
from ergode.trajectories.steppers.inside_step import between
from ergode.trajectories.steppers.noise import SCHEME, with_noise

# Bound for each kernel: a method.
A, B, C = ((),), (1.0,), (0.0,)
AHEAD = 1  # calm steps that a thread of a GPU takes together
SHORT = ()  # slots, delayed variables and threads of a ring in shared memory, if it is there

_FINITE = np.uint8(Status.DONE)
_NOT_FINITE = np.uint8(Status.NOT_FINITE)


# ---- what both targets share


def slopes_of_stages(t, h, y, past, p):
    """Derivatives at every stage of a step; `past` has the delayed values at each."""
    k = (slope(t, y, past[0], p),)
    for s in unroll(range(1, len(C))):
        k = k + (  # noqa: RUF005
            slope(
                fma(real(C[s]), h, t),
                tuple(
                    sum(((h * A[s][j]) * k[j][i] for j in range(s) if A[s][j] != 0.0), y[i])
                    for i in range(VARIABLES)
                ),
                past[s],
                p,
            ),
        )
    return k


def step_end(h, y, k):
    """Variables at the end of a step."""
    return tuple(
        sum(((h * B[j]) * k[j][i] for j in range(len(C)) if B[j] != 0.0), y[i])
        for i in range(VARIABLES)
    )


def locate(time, h, step_count):
    """Step in which a time (since the origin) falls, and the fraction of the step."""
    position = time / h
    step = min(np.int64(position), np.int64(step_count - 1))
    fraction = position - real(step)
    # The end of a step, but for rounding, is the end of a step.
    near = 8.0 * EPSILON * (position + 1.0)
    fraction = real(0.0) if fraction < near else fraction
    return step, (real(1.0) if fraction > 1.0 - near else fraction)


def ended(t, h, y, k, yd, p, source, trajectory, step):
    """Variables at the end of a step, with its noise."""
    end = step_end(h, y, k)
    if SCHEME > 0:
        return with_noise(t, h, y, yd, end, k[0], p, source, trajectory, step)
    return end


def within(x, h, y, k, end, f):
    """The state at the fraction `x` of a step; exact at its ends, even if that is infinity."""
    if SCHEME > 0:
        return tuple((1.0 - x) * y[i] + x * end[i] for i in range(VARIABLES))
    scaled = tuple(tuple(h * k[j][i] for i in range(VARIABLES)) for j in range(len(C)))
    inner = between(x, y, scaled + (tuple(h * f[i] for i in range(VARIABLES)),))  # noqa: RUF005
    return tuple(
        (y[i] if x == 0.0 else (end[i] if x == 1.0 else inner[i])) for i in range(VARIABLES)
    )


# ---- CPU: a block of trajectories a thread at a time, in lanes

LANES = 64


def integrate_cpu(
    start, stop,
    origin, times, lags, breaks, initial, parameters, steps, step_counts,
    source, offset, renewal, out, status, exponents,
):  # fmt: skip
    """Integrate blocks `start` to `stop` of LANES trajectories each, on one thread.

    Model: `lags` [delay] (steps), `breaks` [step] (whether the solution breaks), `initial`
    [variable, trajectory], `parameters` [parameter, trajectory], `steps` and `step_counts`
    [trajectory]; `times` since `origin`; `source` of the noise and `offset` of its
    trajectories; `renewal` of `tangents`.
    Out: `out` [time, variable, trajectory], `status` [trajectory], `exponents` of `tangents`
    [row, trajectory].
    """
    period = period_of(lags)
    ring = np.empty((slot_count(period), max(1, len(DELAYED)), 2, LANES), real)
    state = np.empty((VARIABLES, LANES), real)
    p = np.empty((PARAMETERS, LANES), real)
    h = np.empty(LANES, real)
    counts = np.empty(LANES, np.int64)
    wanted = np.empty(LANES, np.int64)  # the step in which a lane's next time falls
    cursor = np.empty(LANES, np.int64)  # that time's index
    fraction = np.empty(LANES, real)
    saved = np.empty((VARIABLES, LANES), real)
    count = out.shape[2]
    for block in range(start, stop):
        first = block * LANES
        for lane in range(LANES):
            # Lanes beyond the last trajectory follow it: every block is full.
            column = min(first + lane, count - 1)
            for i in unroll(range(VARIABLES)):
                state[i, lane] = initial[i, column]
            for i in unroll(range(PARAMETERS)):
                p[i, lane] = parameters[i, column]
            h[lane] = steps[column]
            counts[lane] = step_counts[column]
            wanted[lane], fraction[lane] = locate(times[0], h[lane], counts[lane])
            cursor[lane] = 0
            if first + lane < count:
                status[column] = _FINITE
        if len(PLACES) > 0:
            for slot in range(1, period + 1):
                _fill_past(slot, period, origin, state, h, ring[slot])
        now = 0
        last = counts.max()
        soonest = wanted.min()
        for step in range(last):
            if TANGENTS > 0:
                _renew(step, renewal, h, counts, period, state, ring, exponents, first, count)
            for d in unroll(range(len(PLACES) if POINTS == 3 else 0)):
                if breaks_at(step - lags[d], breaks):
                    _predict(d, step, now, period, lags, ring)
            while soonest == step:
                _look_ahead(
                    step, now, period, origin, lags, breaks, state, p, h, ring, fraction, saved,
                    source, offset + first,
                )  # fmt: skip
                for lane in range(LANES):
                    if wanted[lane] == step:
                        if first + lane < count:
                            _save(
                                saved[:, lane], out[cursor[lane], :, first + lane],
                                status[first + lane : first + lane + 1],
                            )  # fmt: skip
                        cursor[lane] += 1
                        wanted[lane] = last
                        if cursor[lane] < times.size:
                            wanted[lane], fraction[lane] = locate(
                                times[cursor[lane]], h[lane], counts[lane]
                            )
                soonest = wanted.min()
            _advance(
                step, now, period, origin, lags, breaks, state, p, h, ring, source, offset + first
            )
            now = now + 1 if now + 1 < period else 0
            if JUMPS:
                for d in unroll(range(len(PLACES))):
                    if step + 1 == lags[d]:
                        _note_before(d, step + 1, now, period, origin, lags, state, p, h, ring)


def _fill_past(slot, period, origin, state, h, ring):
    """Write the history of every lane at one slot."""
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        t = fma(real(slot - period), h[lane], origin)
        values = past_values(t, y)
        slopes = past_slopes(t, -h[lane] if slot == period else h[lane], y)
        for v in unroll(range(len(DELAYED))):
            ring[v, 0, lane] = values[DELAYED[v]]
            ring[v, 1, lane] = slopes[DELAYED[v]]


def _stencils(step, now, period, lags, breaks, ring):
    """The points that each delay reads: views of the ring."""
    return tuple(
        tuple(
            ring[_stencil_slot(j, d, step - lags[d], step, now, period, lags, breaks)]
            for j in range(POINTS)
        )
        for d in range(len(PLACES))
    )


def _stencil_slot(j, d, cell, step, now, period, lags, breaks):
    """Slot of the j-th point that a delay reads; its step begins at the point `cell`."""
    if j == POINTS - 1:
        return slot_before(cell + 1, step, now, period, lags)
    if POINTS == 2 or j == 1:
        return slot_of(cell, step, now, period)
    if breaks_at(cell, breaks):
        return period + 1 + len(PLACES) + d
    return slot_of(cell - 1, step, now, period)


def _predict(d, step, now, period, lags, ring):
    """Put a point where the quintic of a delay would reach back across a break."""
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


def _note_before(d, step, now, period, origin, lags, state, p, h, ring):
    """Keep the point where a delay reaches the end of the history, as it is seen from before."""
    goal = ring[period + 1 + d]
    ends = tuple(
        ring[slot_before(step - lags[m], step, now, period, lags)] for m in range(len(PLACES))
    )
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        past = tuple(ends[m][PLACES[m], 0, lane] for m in range(len(PLACES)))
        f = slope(fma(real(step), h[lane], origin), y, past, q)
        for v in unroll(range(len(DELAYED))):
            goal[v, 0, lane] = y[DELAYED[v]]
            goal[v, 1, lane] = h[lane] * f[DELAYED[v]]


def _renew(step, renewal, h, counts, period, state, ring, exponents, first, count):
    """Make the tangents of every lane orthonormal where that is due."""
    if renews(step, renewal):
        for lane in range(LANES):
            column = first + lane if first + lane < count else -1
            renew(
                step, renewal, h[lane], counts[lane], period, state, ring, lane, exponents, column
            )


def _advance(step, now, period, origin, lags, breaks, state, p, h, ring, source, first):
    """One step of every lane."""
    stencils = _stencils(step, now, period, lags, breaks, ring)
    here = ring[now]
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        past = delayed_at_stages(_points(stencils, lane))
        t = fma(real(step), h[lane], origin)
        k = slopes_of_stages(t, h[lane], y, past, q)
        end = ended(t, h[lane], y, k, past[0], q, source, first + lane, step)
        for v in unroll(range(len(DELAYED))):
            here[v, 0, lane] = y[DELAYED[v]]
            here[v, 1, lane] = h[lane] * k[0][DELAYED[v]]
        for i in unroll(range(VARIABLES)):
            state[i, lane] = end[i]


def _look_ahead(
    step, now, period, origin, lags, breaks, state, p, h, ring, fraction, saved, source, first
):  # fmt: skip
    """Every lane at a fraction of its next step, which is not taken."""
    stencils = _stencils(step, now, period, lags, breaks, ring)
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        points = _points(stencils, lane)
        t = fma(real(step), h[lane], origin)
        past = delayed_at_stages(points)
        k = slopes_of_stages(t, h[lane], y, past, q)
        end = ended(t, h[lane], y, k, past[0], q, source, first + lane, step)
        f = slope(
            fma(real(step + 1), h[lane], origin),
            end,
            tuple(points[d][2 * POINTS - 2] for d in range(len(PLACES))),
            q,
        )
        value = within(fraction[lane], h[lane], y, k, end, f)
        for i in unroll(range(VARIABLES)):
            saved[i, lane] = value[i]


def _points(stencils, lane):
    """Values and slopes in turn, of one lane, at the points that each delay reads."""
    return tuple(
        tuple(stencils[d][j // 2][PLACES[d], j % 2, lane] for j in range(2 * POINTS))
        for d in range(len(PLACES))
    )


def _save(values, out, status):
    for i in range(VARIABLES):
        out[i] = values[i]
        if not is_finite(values[i]):
            status[0] = _NOT_FINITE


# ---- CUDA: a thread a trajectory


def integrate_cuda(
    origin, times, lags, breaks, initial, parameters, steps, step_counts, ring,
    source, offset, renewal, out, status, exponents,
):  # fmt: skip
    """Integrate every trajectory, one a thread.

    Model: as for `integrate_cpu`. Scratch: `ring` [slot, delayed variable, 2, trajectory], unless
    it is in shared memory, and the last time of `out` where tangents are made orthonormal.
    Out: as for `integrate_cpu`.
    """
    me = cuda.grid(1)
    if me >= out.shape[2]:
        return
    mine = me
    if len(SHORT) > 0:
        ring = cuda.shared.array((SHORT[0], SHORT[1], 2, SHORT[2]), real)
        mine = cuda.threadIdx.x
    y = tuple(initial[i, me] for i in range(VARIABLES))
    p = tuple(parameters[i, me] for i in range(PARAMETERS))
    h = steps[me]
    step_count = step_counts[me]
    period = np.int32(period_of(lags))
    if len(PLACES) > 0:
        for slot in range(1, period + 1):
            t = fma(real(slot - period), h, origin)
            values = past_values(t, y)
            slopes = past_slopes(t, -h if slot == period else h, y)
            for v in unroll(range(len(DELAYED))):
                ring[slot, v, 0, mine] = values[DELAYED[v]]
                ring[slot, v, 1, mine] = slopes[DELAYED[v]]
    lag = tuple(np.int32(lags[d]) for d in range(len(PLACES)))
    # What the last step has read of the past, but for its oldest point: the next reads it again.
    window = tuple(
        _first_window(_point(ring, period - lag[d], PLACES[d], mine)) for d in range(len(PLACES))
    )
    outcome = _FINITE
    cursor = 0
    wanted, fraction = locate(times[0], h, step_count)
    now = np.int32(0)
    step = np.int32(0)
    last = np.int32(step_count)
    renewing = np.int32(renewal[0]) if TANGENTS > 0 else last
    while step < last:
        if TANGENTS > 0:
            due = step == renewing
            if due:
                # Where the last state will be, there is room until then.
                state = out[out.shape[0] - 1]
                for i in unroll(range(VARIABLES)):
                    state[i, me] = y[i]
                renew(step, renewal, h, step_count, period, state, ring, me, exponents, me)
                y = tuple(state[i, me] for i in range(VARIABLES))
                window = tuple(
                    _window(step - lag[d], step, now, period, ring, PLACES[d], mine)
                    for d in range(len(PLACES))
                )
                renewing = np.int32(renewing + renewal[1])
        calm_until = min(min(np.int32(wanted), renewing), last)
        if step + AHEAD <= calm_until and calm(step, AHEAD, lag, breaks):
            ahead = window
            for u in unroll(range(AHEAD)):
                ahead = tuple(
                    ahead[d]
                    + _point(
                        ring, slot_of(step + (u + 1) - lag[d], step, now, period), PLACES[d], mine
                    )
                    for d in range(len(PLACES))
                )
            for u in unroll(range(AHEAD)):
                points = tuple(
                    tuple(ahead[d][2 * u + j] for j in range(2 * POINTS))
                    for d in range(len(PLACES))
                )
                t = fma(real(step), h, origin)
                past = delayed_at_stages(points)
                k = slopes_of_stages(t, h, y, past, p)
                for v in unroll(range(len(DELAYED))):
                    ring[now, v, 0, mine] = y[DELAYED[v]]
                    ring[now, v, 1, mine] = h * k[0][DELAYED[v]]
                y = ended(t, h, y, k, past[0], p, source, offset + me, step)
                step = np.int32(step + 1)
                now = np.int32(now + 1) if now + 1 < period else np.int32(0)
            window = tuple(
                tuple(ahead[d][2 * AHEAD + j] for j in range(2 * (POINTS - 1)))
                for d in range(len(PLACES))
            )
            continue
        near = tuple(
            (window[d][2 * POINTS - 4], window[d][2 * POINTS - 3]) for d in range(len(PLACES))
        )
        far = tuple(
            _point(ring, slot_before(step + 1 - lag[d], step, now, period, lag), PLACES[d], mine)
            for d in range(len(PLACES))
        )
        if POINTS == 2:
            points = tuple(near[d] + far[d] for d in range(len(PLACES)))
        else:
            points = tuple(
                _back(d, step, now, period, lag, breaks, near[d], far[d], ring, mine)
                + near[d]
                + far[d]
                for d in range(len(PLACES))
            )
        t = fma(real(step), h, origin)
        past = delayed_at_stages(points)
        k = slopes_of_stages(t, h, y, past, p)
        end = ended(t, h, y, k, past[0], p, source, offset + me, step)
        while wanted == step:
            f = slope(
                fma(real(step + 1), h, origin), end, tuple(far[d][0] for d in range(len(PLACES))), p
            )
            value = within(fraction, h, y, k, end, f)
            for i in unroll(range(VARIABLES)):
                out[cursor, i, me] = value[i]
                outcome = outcome if is_finite(value[i]) else _NOT_FINITE
            cursor += 1
            wanted = step_count
            if cursor < times.size:
                wanted, fraction = locate(times[cursor], h, step_count)
        for v in unroll(range(len(DELAYED))):
            ring[now, v, 0, mine] = y[DELAYED[v]]
            ring[now, v, 1, mine] = h * k[0][DELAYED[v]]
        if JUMPS:
            for d in unroll(range(len(PLACES))):
                if step + 1 == lag[d]:
                    f = slope(
                        fma(real(step + 1), h, origin), end,
                        tuple(far[m][0] for m in range(len(PLACES))), p,
                    )  # fmt: skip
                    for v in unroll(range(len(DELAYED))):
                        ring[period + 1 + d, v, 0, mine] = end[DELAYED[v]]
                        ring[period + 1 + d, v, 1, mine] = h * f[DELAYED[v]]
        y = end
        # The far end of this cell is the near end of the next, but where the solution breaks.
        nearer = tuple(
            _next_near(step + 1 - lag[d], step, now, period, lag, far[d], ring, PLACES[d], mine)
            for d in range(len(PLACES))
        )
        window = nearer if POINTS == 2 else tuple(near[d] + nearer[d] for d in range(len(PLACES)))
        step = np.int32(step + 1)
        now = np.int32(now + 1) if now + 1 < period else np.int32(0)
    status[me] = outcome


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


def _back(d, step, now, period, lag, breaks, near, far, ring, me):
    """The point before a cell, or what the quintic of the other side makes of it."""
    cell = step - lag[d]
    if breaks_at(cell, breaks):
        third = _point(ring, slot_before(cell + 2, step, now, period, lag), PLACES[d], me)
        return predicted(near[0], near[1], far[0], far[1], third[0], third[1])
    return _point(ring, slot_of(cell - 1, step, now, period), PLACES[d], me)


def _point(ring, slot, place, me):
    """Value and slope of one trajectory at a slot."""
    return ring[slot, place, 0, me], ring[slot, place, 1, me]
