"""Steps of one size: explicit Runge-Kutta methods for ordinary and delay equations.

A trajectory takes steps of size h, which is its own; step n begins at origin + n h.  What is
asked for between two steps is read off the cubic through both (see `history`).

On a GPU a thread follows one trajectory and keeps its state in registers.  On a CPU a thread
follows LANES trajectories at once: the innermost loop is over lanes, without calls or branches,
so that the compiler makes vector instructions of it - of the user's function too.  Both write
``out[time, variable, trajectory]``.
"""

from __future__ import annotations

import numpy as np

from ergode.core.machine import cuda, fma, real, unroll
from ergode.core.status import Status
from ergode.trajectories.equations import PARAMETERS, PLACES, VARIABLES, is_finite, slope
from ergode.trajectories.history import (
    DELAYED,
    ahead,
    behind,
    delayed_at_stages,
    past_slopes,
    past_values,
)

# Bound for each kernel: a field and a method.
A, B, C = ((),), (1.0,), (0.0,)
EPSILON = 2.0**-52

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
        y[i] + sum((h * B[j]) * k[j][i] for j in range(len(C)) if B[j] != 0.0)
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


def between(x, h, y0, f0, y1, f1):
    """One variable at the fraction `x` of a step: the cubic through both ends."""
    rest = 1.0 - x
    inner = x * rest * (rest * (h * f0) - x * (h * f1) + (rest - x) * (y0 - y1))
    value = rest * y0 + x * y1 + inner
    # Exact at both ends, even if the step leads to infinity.
    value = y0 if x == 0.0 else value
    return y1 if x == 1.0 else value


def period_of(lags):
    """Slots that the ring goes round in; one more holds the end of the history."""
    period = lags[0]
    for d in range(1, len(PLACES)):
        period = max(period, lags[d])
    return period + 1


# ---- CPU: a block of trajectories a thread at a time, in lanes

LANES = 64


def integrate_cpu(
    start, stop,
    origin, times, lags, initial, parameters, steps, step_counts,
    out, status,
):  # fmt: skip
    """Integrate blocks `start` to `stop` of LANES trajectories each, on one thread.

    Model: `lags` [delay] (steps), `initial` [variable, trajectory], `parameters`
    [parameter, trajectory], `steps` and `step_counts` [trajectory]; `times` since `origin`.
    Out: `out` [time, variable, trajectory], `status` [trajectory].
    """
    period = period_of(lags)
    ring = np.empty((period + 1, max(1, len(DELAYED)), 2, LANES), real)
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
            while soonest == step:
                _look_ahead(step, now, period, origin, lags, state, p, h, ring, fraction, saved)
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
            _advance(step, now, period, origin, lags, state, p, h, ring)
            now = now + 1 if now + 1 < period else 0


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


def _cells(step, now, period, lags, ring):
    """Both ends of the older step that each delay reads: views of the ring."""
    return tuple(
        (ring[behind(now, lags[d], period)], ring[ahead(now, lags[d], period, step)])
        for d in range(len(PLACES))
    )


def _advance(step, now, period, origin, lags, state, p, h, ring):
    """One step of every lane."""
    cells = _cells(step, now, period, lags, ring)
    here = ring[now]
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        past = delayed_at_stages(_ends(cells, lane))
        k = slopes_of_stages(fma(real(step), h[lane], origin), h[lane], y, past, q)
        end = step_end(h[lane], y, k)
        for v in unroll(range(len(DELAYED))):
            here[v, 0, lane] = y[DELAYED[v]]
            here[v, 1, lane] = h[lane] * k[0][DELAYED[v]]
        for i in unroll(range(VARIABLES)):
            state[i, lane] = end[i]


def _look_ahead(step, now, period, origin, lags, state, p, h, ring, fraction, saved):
    """Every lane at a fraction of its next step, which is not taken."""
    cells = _cells(step, now, period, lags, ring)
    for lane in range(LANES):
        y = tuple(state[i, lane] for i in range(VARIABLES))
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        ends = _ends(cells, lane)
        k = slopes_of_stages(
            fma(real(step), h[lane], origin), h[lane], y, delayed_at_stages(ends), q
        )
        end = step_end(h[lane], y, k)
        f = slope(
            fma(real(step + 1), h[lane], origin),
            end,
            tuple(ends[d][1] for d in range(len(PLACES))),
            q,
        )
        for i in unroll(range(VARIABLES)):
            saved[i, lane] = between(fraction[lane], h[lane], y[i], k[0][i], end[i], f[i])


def _ends(cells, lane):
    """Values and slopes of one lane at both ends of its older steps."""
    return tuple(
        (
            cells[d][0][PLACES[d], 0, lane],
            cells[d][1][PLACES[d], 0, lane],
            cells[d][0][PLACES[d], 1, lane],
            cells[d][1][PLACES[d], 1, lane],
        )
        for d in range(len(PLACES))
    )


def _save(values, out, status):
    for i in range(VARIABLES):
        out[i] = values[i]
        if not is_finite(values[i]):
            status[0] = _NOT_FINITE


# ---- CUDA: a thread a trajectory


def integrate_cuda(
    origin, times, lags, initial, parameters, steps, step_counts, ring,
    out, status,
):  # fmt: skip
    """Integrate every trajectory, one a thread.

    Model: as for `integrate_cpu`. Scratch: `ring` [slot, delayed variable, 2, trajectory].
    Out: `out` [time, variable, trajectory], `status` [trajectory].
    """
    me = cuda.grid(1)
    if me >= out.shape[2]:
        return
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
                ring[slot, v, 0, me] = values[DELAYED[v]]
                ring[slot, v, 1, me] = slopes[DELAYED[v]]
    lag = tuple(np.int32(lags[d]) for d in range(len(PLACES)))
    near = tuple(_point(ring, period - lag[d], PLACES[d], me) for d in range(len(PLACES)))
    outcome = _FINITE
    cursor = 0
    wanted, fraction = locate(times[0], h, step_count)
    now = np.int32(0)
    for step in range(step_count):
        far = tuple(
            _point(ring, ahead(now, lag[d], period, step), PLACES[d], me)
            for d in range(len(PLACES))
        )
        past = delayed_at_stages(
            tuple((near[d][0], far[d][0], near[d][1], far[d][1]) for d in range(len(PLACES)))
        )
        k = slopes_of_stages(fma(real(step), h, origin), h, y, past, p)
        end = step_end(h, y, k)
        while wanted == step:
            delayed = tuple(far[d][0] for d in range(len(PLACES)))
            f = slope(fma(real(step + 1), h, origin), end, delayed, p)
            for i in unroll(range(VARIABLES)):
                value = between(fraction, h, y[i], k[0][i], end[i], f[i])
                out[cursor, i, me] = value
                outcome = outcome if is_finite(value) else _NOT_FINITE
            cursor += 1
            wanted = step_count
            if cursor < times.size:
                wanted, fraction = locate(times[cursor], h, step_count)
        for v in unroll(range(len(DELAYED))):
            ring[now, v, 0, me] = y[DELAYED[v]]
            ring[now, v, 1, me] = h * k[0][DELAYED[v]]
        y = end
        # The far end of this cell is the near end of the next, but for the end of the history.
        near = tuple(
            _point(ring, 0, PLACES[d], me) if step + 1 == lag[d] else far[d]
            for d in range(len(PLACES))
        )
        now = np.int32(now + 1) if now + 1 < period else np.int32(0)
    status[me] = outcome


def _point(ring, slot, place, me):
    """Value and slope of one trajectory at a slot."""
    return ring[slot, place, 0, me], ring[slot, place, 1, me]
