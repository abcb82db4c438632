"""One step of a trajectory: the attempt, saved states and events within it, and its outcome.

Both kernels of `adaptive` (CPU and CUDA) use these functions.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import fma, no_unroll, option, real, unroll
from ergode.core.status import Status
from ergode.trajectories.adaptive.control import error_size, is_no_number
from ergode.trajectories.steppers.bridges import BRIDGES, onto_surface, passages
from ergode.trajectories.steppers.equations import (
    EPSILON,
    INFINITY,
    VARIABLES,
    delayed,
    is_finite,
    slope,
)
from ergode.trajectories.steppers.forcing import INPUTS, knot_after, past_knots
from ergode.trajectories.steppers.inside_step import (
    ACTS,
    DIRECTIONS,
    EDGES,
    ENDS,
    EVENTS,
    SOON,
    DenseStep,
    act,
    between,
    column,
    gaps_at_nodes,
    gaps_here,
    has_just_acted,
    is_endless,
    jumps_across,
    next_crossing,
    nodes_after_begin,
    numbers_throughout,
    side_after,
    slopes_between,
    touched,
)
from ergode.trajectories.steppers.noise import (
    SCHEME,
    expected_error,
    increments,
    increments_in_cell,
    place_in_cell,
    with_implicit_drift,
    with_noise,
)
from ergode.trajectories.steppers.observing import SEEN, begin_observing, keep_observing
from ergode.trajectories.steppers.stepper import (
    ADAPTS,
    DENSE,
    PROBES,
    SEARCHED,
    STIFF,
    completed,
    step,
)
from ergode.trajectories.steppers.timed import DRAWS, JUMPS, TIMED, draws_of, occurring

_TOGETHER = 64.0  # machine epsilons; events closer than this are simultaneous

LOGS_STEPS = option(False)  # whether the end of every accepted step is stored
LOGS_INSIDE = option(False)  # whether the polynomial of every accepted step is stored

LATE = option(False)  # whether observing begins after the first time
PARTS = option(1)  # parts of a step for observables; each has a cubic of its own
BY_PARTS = option(False)  # whether either asks for the dense output

DONE = np.uint8(Status.DONE)
NOT_FINITE = np.uint8(Status.NOT_FINITE)
INACCURATE = np.uint8(Status.INACCURATE)
TOO_MANY_STEPS = np.uint8(Status.TOO_MANY_STEPS)
STEP_TOO_SMALL = np.uint8(Status.STEP_TOO_SMALL)
STOPPED = np.uint8(Status.STOPPED)
OUTSIDE = np.uint8(Status.DELAY_OUT_OF_RANGE)
NO_SOLUTION = np.uint8(Status.NO_SOLUTION)
RATE_OUT_OF_RANGE = np.uint8(Status.RATE_OUT_OF_RANGE)


def is_interpolated_badly(error):
    """Whether an interpolation error is too large; with fixed steps only if it is infinite.

    An infinite error marks an overwritten breakpoint.
    """
    return error > 1.0 if ADAPTS else error >= INFINITY


def attempt(t, h, goal, soonest, wary, y, f, history, p, rtol, atol, noise):
    """Attempt a step that does not pass `goal`.

    `soonest` is the next time to save.  A `wary` step, which follows a rejected one, does not pass
    it either, unless the dense output is always right.
    `noise` is (source, trajectory, number of the step or cell, how often events have truncated the
    step, width of the cell or of its part after an event).
    Returns the step size, end time, state and slope at the end, stages, and logarithm of the error.
    """
    if SCHEME > 0:
        return _noisy_step(t, h, goal, soonest, y, f, history, p, rtol, atol, noise)
    else:  # a stochastic method binds no `step`
        return _smooth_step(t, h, goal, soonest, wary, y, f, history, p, rtol, atol)


def _noisy_step(t, h, goal, soonest, y, f, history, p, rtol, atol, noise):
    source, trajectory, number, cut, width = noise
    end = goal
    if ADAPTS:
        level, part, end = place_in_cell(t, h, goal, soonest, width)
        path = number + (cut << np.int64(24))
        w = increments_in_cell(width, source, trajectory, path, level, part)
    else:
        w = increments(goal - t, source, trajectory, number, cut)
    left = end - t
    t = past_knots(t, p)
    if len(INPUTS) > 0:
        f = slope(t, y, delayed(t, y, history, p), p)
    if STIFF:
        f = slope(end, y, delayed(end, y, history, p), p)
    smooth = tuple(fma(left, f[i], y[i]) for i in range(VARIABLES))
    yd = delayed(t, y, history, p)
    y1 = with_noise(t, left, y, yd, smooth, f, p, w)
    if STIFF:
        y1 = with_implicit_drift(end, left, y, y1, f, history, p)
    f1 = slope(end, y1, delayed(end, y1, history, p), p)
    log_error = real(-1.0)
    if ADAPTS:
        error, reach = expected_error(t, left, y, yd, smooth, f, p)
        log_error = error_size(error, (), y, reach, rtol, atol)
        # There is a smallest step, and the proposal falls on.
        left = left if log_error <= 0.0 else min(left, h)
    return left, end, y1, f1, (tuple(y1[i] - y[i] for i in range(VARIABLES)),), log_error


def _smooth_step(t, h, goal, soonest, wary, y, f, history, p, rtol, atol):
    if len(PROBES) > 0 and not SEARCHED:
        goal = min(goal, soonest) if wary & (soonest > t) else goal
    if len(INPUTS) > 0:
        goal = min(goal, knot_after(t, p))
    left = goal - t
    # A remainder too small to advance the time is merged into this step.
    whole = h * (1.0 + 64.0 * EPSILON) < left
    end = t + h if whole else goal
    size = end - t  # the time that passes: far from zero, times are coarse
    y1, f1, k, error, correction = step(t, size, y, f, history, p, rtol, atol)
    log_error = error_size(error, correction, y, y1, rtol, atol) if ADAPTS else real(-1.0)
    if len(PROBES) > 0 and ADAPTS:
        missed = error_size(correction, (), y, y1, rtol, atol)
        log_error = max(log_error, missed) if SEARCHED or end > soonest else log_error
    return size, end, y1, f1, k, log_error


def settle(inside, end, g0, g1, me, cursor, run, out, noise):
    """Save states and find events within an accepted step.

    `inside` is the step as a `DenseStep` without the extra stages of the dense output.  `end` is
    time, state and slope at its end.  `g0` and `g1` are the event functions at both ends.  `cursor`
    is the index of the next time to save, and `noise` that of `attempt`.

    Returns time, state and slope at the end of the step before an event acts; state, slope and
    event functions after it; the next `cursor`; the event that acts (or -1); and the outcome, DONE
    if the trajectory goes on.
    """
    t, h, y, history, p = inside.t, inside.h, inside.y, inside.history, inside.p
    k = completed(t, h, y, inside.k, history, p)
    inside = DenseStep(t, h, y, k, history, p)
    stop = real(1.0)
    which = -1
    endless = False
    if EVENTS > 0:
        nodes = nodes_after_begin(
            gaps_at_nodes(g0, g1, inside), t <= past_knots(run.origin, p), inside
        )
        g0 = nodes[0]
        g1 = numbers_throughout(nodes)
        # Within a step of a few roundings no state leaves the surface of an event that has acted.
        stays = tuple(h <= 16.0 * EPSILON * abs(t) and has_just_acted(g0[e]) for e in range(EVENTS))
        g1 = tuple(g0[e] if stays[e] else g1[e] for e in range(EVENTS))
        first = tuple(
            _first_of(e, nodes, inside) if ACTS[e] and not stays[e] else real(2.0)
            for e in range(EVENTS)
        )
        if BRIDGES:
            first = passages(g0, g1, first, inside, noise)
        if len(TIMED) > 0:
            timed, is_wrong = occurring(
                t, end[0], end[1], history, p, run.origin, noise[0], noise[1]
            )
            first = tuple(real(1.0) if timed[e][0] else first[e] for e in range(EVENTS))
        for e in unroll(range(EVENTS)):
            if ACTS[e] and (first[e] < stop or (first[e] == 1.0 and which < 0)):
                stop = first[e]
                which = e
                endless = is_endless(g0[e], stop, t, h)
        if len(TIMED) > 0:  # a crossing within rounding of a known time is at that time
            for e in unroll(range(EVENTS)):
                if timed[e][0] and stop + _TOGETHER * EPSILON * max(real(1.0), abs(t) / h) >= 1.0:
                    stop = real(1.0)
        for e in unroll(range(EVENTS)):
            if not ACTS[e]:
                g, slopes = column(nodes, e)
                _record_passing(e, stop, g, slopes, inside, me, run, out)
    t2, y2, f2 = end
    if which >= 0 and stop < 1.0:
        t2 = t + stop * h
        y2 = between(stop, y, k)
        if BRIDGES:
            for e in unroll(range(EVENTS)):
                y2 = onto_surface(e, t2, y2, inside) if which == e else y2
        f2 = slope(t2, y2, delayed(t2, y2, history, p), p)
    times = run.times
    # A time at which an event acts, up to rounding, is before it.
    near = _TOGETHER * EPSILON * max(h, abs(t2)) if which >= 0 else real(0.0)
    while cursor < times.size and times[cursor] <= t2 + near:
        x = (times[cursor] - t) / h
        state = between(x, y, k)
        for i in unroll(range(VARIABLES)):
            out.states[cursor, i, me] = y2[i] if times[cursor] >= t2 - near else state[i]
        cursor += 1
    y3, f3, g3 = y2, f2, g1
    outcome = DONE
    if len(TIMED) > 0 and is_wrong and stop == 1.0:
        return t2, y2, f2, y3, f3, g3, cursor, which, RATE_OUT_OF_RANGE
    if EVENTS > 0 and which >= 0 and which < EVENTS - EDGES:
        if endless:
            return t2, y2, f2, y3, f3, g3, cursor, which, STEP_TOO_SMALL
        # Events at one time, up to rounding, all act, in the order in which they were given.  Then
        # follow those whose surface an effect has crossed; each occurs once.
        together = min(stop + _TOGETHER * EPSILON * max(real(1.0), abs(t2) / h), real(1.0))
        due = tuple(ACTS[e] and e < EVENTS - EDGES and first[e] <= together for e in range(EVENTS))
        had = tuple(False for e in range(EVENTS))
        before = gaps_here(t2, y2, history, p)
        goes_on = True
        while goes_on:
            for e in unroll(range(EVENTS - EDGES)):
                if due[e] and not had[e]:
                    _record(e, _time_of(stop, inside), y3, me, run, out)
                    if ACTS[e]:
                        if ENDS[e] == 1 or (ENDS[e] > 1 and out.hit_counts[e, me] >= ENDS[e]):
                            outcome = STOPPED
                        u = ()
                        if DRAWS:
                            cell, number = np.int64(0), out.hit_counts[e, me] - 1
                            if len(TIMED) > 0:
                                is_jump = TIMED[e] == JUMPS
                                cell = timed[e][1] if is_jump else cell
                                number = timed[e][2] if is_jump else number
                            u = draws_of(e, cell, number, noise[0], noise[1])
                        changed = act(real(e), u, t2, y3, delayed(t2, y3, history, p), p)
                        y3 = tuple(real(changed[i]) for i in range(VARIABLES))
            had = due
            g3 = gaps_here(t2, y3, history, p)
            due = tuple(
                had[e]
                or (
                    e < EVENTS - EDGES
                    and jumps_across(
                        e, touched(before[e], g0[e], g1[e]), touched(g3[e], g0[e], g1[e])
                    )
                )
                for e in range(EVENTS)
            )
            goes_on = False
            for e in unroll(range(EVENTS - EDGES)):
                goes_on = goes_on or (due[e] and not had[e])
        f3 = slope(t2, y3, delayed(t2, y3, history, p), p)
        soon = real(SOON) * h
        without = tuple(fma(soon, f2[i], y2[i]) for i in range(VARIABLES))
        beyond = gaps_here(t2 + soon, without, history, p)
        ahead = tuple(fma(soon, f3[i], y3[i]) for i in range(VARIABLES))
        leaving = gaps_here(t2 + soon, ahead, history, p)
        g3 = tuple(
            side_after(e, g0[e], beyond[e] - before[e], leaving[e] - g3[e], had[e])
            if touched(g3[e], g0[e], g1[e]) == 0.0 and (e < EVENTS - EDGES or first[e] <= together)
            else g3[e]
            for e in range(EVENTS)
        )
    return t2, y2, f2, y3, f3, g3, cursor, which, outcome


def _first_of(e, nodes, inside):
    """Fraction of the step at which an event first occurs; above one if it does not occur."""
    g, slopes = column(nodes, e)
    return next_crossing(e, DIRECTIONS[e], (0, real(0.0), g[0]), g, slopes, inside)[0]


def _record_passing(e, stop, g, slopes, inside, me, run, out):
    """Record every occurrence of a non-acting event up to the fraction `stop` of the step."""
    at = (0, real(0.0), g[0])
    x = real(0.0)
    while x <= stop:
        x, at = next_crossing(e, DIRECTIONS[e], at, g, slopes, inside)
        if x <= stop:
            state = between(x, inside.y, inside.k)
            _record(e, _time_of(x, inside), state, me, run, out)


def _time_of(x, inside):
    """Time at the fraction `x` of a step; within rounding of its beginning that time."""
    return inside.t + x * inside.h if x > EPSILON else inside.t


def _record(e, t, y, me, run, out):
    """Record one occurrence of an event."""
    if t + _TOGETHER * EPSILON * abs(t) < run.since:
        return
    count = out.hit_counts[e, me]
    out.hit_counts[e, me] = count + 1
    room = out.hits.shape[1]
    if room > 0:
        slot = count % room
        out.hits[e, slot, 0, me] = t
        for i in unroll(range(VARIABLES)):
            out.hits[e, slot, 1 + i, me] = y[i]


def outcome_of(t, h, y, taken, most, log_error):
    """Why a trajectory fails after a step of this error; DONE if it does not fail."""
    finite = True
    for i in unroll(range(VARIABLES)):
        finite = finite and is_finite(y[i])
    if not finite:
        return NOT_FINITE
    if h <= 4.0 * EPSILON * abs(t):
        return NOT_FINITE if is_no_number(log_error) else STEP_TOO_SMALL
    return TOO_MANY_STEPS if taken >= most else DONE


def retried(h, t, t1, soonest, kept):
    """The step after a rejected one: as far as the time to save that it has passed.

    The end of the step may have been right, and the states within wrong.
    """
    if len(PROBES) > 0 and not SEARCHED:
        return h if kept | (t1 <= soonest) else max(h, soonest - t)
    else:  # these are options: only one branch is compiled
        return h


def observed_step(s, inside, f, t1, y1, f1, since):
    """Update the accumulators of observables by one step, as far as it is after the time `since`.

    The step `inside` begins with the slope `f` and ends at (`t1`, `y1`, `f1`).  A stochastic step
    is a straight line.  Where equations are stiff, the slopes at a state have large errors, and
    those of the dense output have not.
    """
    t, h, y, k, history, p = inside
    if LATE and t1 <= since:
        return _real(begin_observing(t1, y1, p))
    if BY_PARTS:
        k = completed(t, h, y, k, history, p)
    if STIFF:
        per = 1.0 / h
        begin, end = slopes_between(real(0.0), k), slopes_between((t1 - t) * per, k)
        f = tuple(per * begin[i] for i in range(VARIABLES))
        f1 = tuple(per * end[i] for i in range(VARIABLES))
    if SCHEME > 0:
        rate = 1.0 / (t1 - t)
        f = tuple(rate * (y1[i] - y[i]) for i in range(VARIABLES))
        f1 = f
    now, state, rise = t, y, f
    if LATE and t < since:
        now = since
        state, rise = _within((since - t) / h, h, y, k, f)
        s = _real(begin_observing(now, state, p))
    width = (t1 - now) / real(PARTS)
    for _ in no_unroll(range(PARTS - 1)):
        then = now + width
        inner, slope_there = _within((then - t) / h, h, y, k, f)
        s = _real(keep_observing(s, now, state, rise, then, inner, slope_there, p))
        now, state, rise = then, inner, slope_there
    return _real(keep_observing(s, now, state, rise, t1, y1, f1, p))


def _real(accumulators):
    return tuple(real(accumulators[j]) for j in range(SEEN))


def _within(x, h, y, k, line):
    """State and slope at the fraction `x` of a step."""
    if SCHEME > 0:
        state = tuple(y[i] + x * h * line[i] for i in range(VARIABLES))
        return state, line
    state, rise = between(x, y, k), slopes_between(x, k)
    return state, tuple(rise[i] / h for i in range(VARIABLES))


def log_inside(step, h, k, step_log, me):
    """Keep the size of a step, and coefficients of powers of its fraction; `k` are all stages."""
    if LOGS_INSIDE and step < step_log.shape[0]:
        row = 1 + VARIABLES
        step_log[step, row, me] = h
        for m in unroll(range(len(DENSE[0]))):
            for i in unroll(range(VARIABLES)):
                step_log[step, row + 1 + m * VARIABLES + i, me] = sum(
                    (
                        DENSE[j][m] * k[j][i]
                        for j in range(len(DENSE))
                        if m < len(DENSE[j]) and DENSE[j][m] != 0.0
                    ),
                    real(0.0),
                )


def log_step(step, t, y, step_log, me):
    """Store the end of a step in the step log."""
    if LOGS_STEPS and step < step_log.shape[0]:
        step_log[step, 0, me] = t
        for i in unroll(range(VARIABLES)):
            step_log[step, 1 + i, me] = y[i]
