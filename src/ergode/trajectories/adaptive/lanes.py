"""What is done to LANES trajectories at once on a thread of a CPU (see `adaptive`).

Arrays have lanes last.  Loops over lanes without branches become vector instructions; what happens
to a lane now and then is done for one lane.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import no_refcount, noinline_cpu, real, unroll
from ergode.trajectories.adaptive.control import SMALLEST, first_step, next_size
from ergode.trajectories.adaptive.step import (
    ADAPTS,
    DONE,
    INACCURATE,
    LOGS_STEPS,
    NOT_FINITE,
    OBSERVED,
    OUTSIDE,
    SEEN,
    STAGES,
    STOPPED,
    attempt,
    begin_observing,
    completed,
    is_interpolated_badly,
    log_step,
    observed,
    observed_step,
    outcome_of,
    settle,
)
from ergode.trajectories.delays.history_ring import JUMPS
from ergode.trajectories.delays.segments import (
    CELLS,
    CUT,
    NUMBER,
    SHARED,
    begin_free,
    end_of_cell,
    fill_past,
    keep_point,
    missed,
    missed_free,
    near_to,
    note_break,
    outside,
    pass_goal,
    past_here,
    past_of,
    read,
    smooth_before,
    stencil,
    turns,
)
from ergode.trajectories.steppers.equations import (
    COEFFICIENTS,
    EPSILON,
    LOOKS_UP,
    PARAMETERS,
    PLACES,
    VARIABLES,
    delayed,
    is_finite,
    slope,
)
from ergode.trajectories.steppers.inside_step import (
    EVENTS,
    gaps_at_begin,
    gaps_at_nodes,
    gaps_here,
    may_happen,
)

LANES = 64


class Run(NamedTuple):
    """What all trajectories of a run have in common (see `integrate_cuda`)."""

    times: Any  # real [time]
    initial: Any  # real [variable, trajectory]
    parameters: Any  # real [parameter, trajectory]
    sizes: Any  # real [trajectory]: of the first step, if above zero
    frame: Any  # real [width, and the range of each delay, trajectory]
    lags: Any  # int64 [delay]: in cells
    breaks: Any  # uint8 [cell]: whether the solution breaks where it begins
    given: Any  # real [slot, delayed variable, 2, trajectory]: points of the history
    jumps: Any  # real [jump, row]: of the history
    limit: Any  # real: what a polynomial may miss
    rtol: Any
    atol: Any
    largest: Any  # real: largest step [time]
    since: Any  # real: time from which to observe
    most: Any  # int64: most steps
    source: Any  # of the noise
    offset: Any  # int64: of the trajectories of the noise
    origin: Any  # real: first time
    last: Any  # real: last time
    period: Any  # int64: slots of the ring


class Lanes(NamedTuple):
    """Workspace of a thread; each [lane], or [row, lane]."""

    y: Any  # state, where the step begins
    f: Any  # slope there
    y1: Any  # state to go on with, after the step
    f1: Any  # slope there
    y2: Any  # state at the end of the step, before an event acts
    f2: Any  # slope there
    k: Any  # stages of the step
    p: Any  # parameters
    g: Any  # functions of the events, where the step begins
    g1: Any  # the same after the step
    s: Any  # what observables keep
    t: Any  # time where the step begins
    t1: Any  # where it ends
    t2: Any  # where it ends before an event
    h: Any  # step that is wanted
    size: Any  # step that was tried
    miss: Any  # logarithm of its error
    previous: Any  # the same of the step before
    soonest: Any  # next time to be saved
    looked: Any  # whether to look into the step
    last_step_rejected: Any  # whether the last step was rejected
    working: Any  # 0 without a trajectory, 1 on its way, 2 ended, 3 stopped by an event
    tried: Any  # steps that were tried
    kept_count: Any  # steps that were kept
    goal: Any  # where steps must end
    width: Any  # of a cell
    interpolation_error: Any  # what polynomials miss of the past at most
    stray: Any  # whether a delay left its range
    who: Any  # int64: number of the trajectory
    cursor: Any  # int64: index of the next time
    ring: Any  # [slot, delayed variable, 2, lane]
    breakpoints: Any  # [mark, row, lane]
    whole: Any  # int64
    pieces: Any  # polynomials that are read


class Out(NamedTuple):
    """What became of trajectories (see `Outcome`)."""

    states: Any
    hit_counts: Any
    hits: Any
    observed: Any
    status: Any
    taken: Any
    rejected: Any
    interpolation_errors: Any
    step_log: Any


@no_refcount
def load(lane, me, run, lanes, out):
    """Put a trajectory into a lane, with its past."""
    times, initial, parameters, given = run.times, run.initial, run.parameters, run.given
    jumps, period = run.jumps, run.period
    t, goal, width, y, f, p = lanes.t, lanes.goal, lanes.width, lanes.y, lanes.f, lanes.p
    soonest, ring, breakpoints, whole, pieces = (
        lanes.soonest,
        lanes.ring,
        lanes.breakpoints,
        lanes.whole,
        lanes.pieces,
    )
    begin, last = times[0], times[times.size - 1]
    y0 = tuple(initial[i, me] for i in range(VARIABLES))
    q = tuple(parameters[i, me] for i in range(PARAMETERS))
    width[lane] = run.frame[0, me]
    goal[lane] = last
    f0 = y0
    if SHARED:
        fill_past(period, begin, width[lane], y0, given, jumps, me, ring, lane)
    elif CELLS:
        f0, end = begin_free(
            begin,
            y0,
            q,
            width[lane],
            period,
            given,
            jumps,
            me,
            ring,
            breakpoints,
            whole,
            pieces,
            lane,
        )
        goal[lane] = end if end < last - near_to(last, begin, width[lane]) else last
    else:
        f0 = slope(begin, y0, (), q)
    for i in unroll(range(VARIABLES)):
        y[i, lane] = y0[i]
        f[i, lane] = f0[i]
        out.states[0, i, me] = y0[i]
    for i in unroll(range(PARAMETERS)):
        p[i, lane] = q[i]
    t[lane] = begin
    lanes.previous[lane] = SMALLEST
    lanes.last_step_rejected[lane] = 0
    lanes.tried[lane] = 0
    lanes.kept_count[lane] = 0
    lanes.interpolation_error[lane] = 0
    lanes.stray[lane] = 0
    lanes.cursor[lane] = 1
    soonest[lane] = times[1] if times.size > 1 else begin
    log_step(0, begin, y0, out.step_log, me)


@no_refcount
def start_in(lane, me, run, lanes):
    """Its first step, and what is observed."""
    origin, period, rtol, atol = run.origin, run.period, run.rtol, run.atol
    t, goal, width, y, f, p = lanes.t, lanes.goal, lanes.width, lanes.y, lanes.f, lanes.p
    g, s, ring, breakpoints, whole, pieces = (
        lanes.g,
        lanes.s,
        lanes.ring,
        lanes.breakpoints,
        lanes.whole,
        lanes.pieces,
    )
    y0 = tuple(y[i, lane] for i in range(VARIABLES))
    f0 = tuple(f[i, lane] for i in range(VARIABLES))
    q = tuple(p[i, lane] for i in range(PARAMETERS))
    past = past_here(origin, width[lane], period, ring, breakpoints, whole, pieces, lane)
    g0 = gaps_here(t[lane], y0, past, q)
    s0 = begin_observing(t[lane], y0, q)
    wanted = run.sizes[me]
    span = goal[lane] - t[lane]
    wanted = wanted if wanted > 0.0 else first_step(t[lane], span, y0, f0, past, q, rtol, atol)
    for e in unroll(range(EVENTS)):
        g[e, lane] = g0[e]
    for j in unroll(range(SEEN)):
        s[j, lane] = s0[j]
    lanes.h[lane] = min(wanted, run.largest)


@no_refcount
def try_steps(run, lanes):
    """A step of every lane, and how many of them have to be looked at."""
    rtol, atol, source, offset, origin = run.rtol, run.atol, run.source, run.offset, run.origin
    period = run.period
    goal, who, t, t1, t2, h = lanes.goal, lanes.who, lanes.t, lanes.t1, lanes.t2, lanes.h
    size, miss, width, y, f, y1 = lanes.size, lanes.miss, lanes.width, lanes.y, lanes.f, lanes.y1
    f1, y2, f2, k, p, g, g1 = lanes.f1, lanes.y2, lanes.f2, lanes.k, lanes.p, lanes.g, lanes.g1
    soonest, looked, working, ring = lanes.soonest, lanes.looked, lanes.working, lanes.ring
    breakpoints, whole, pieces = lanes.breakpoints, lanes.whole, lanes.pieces
    looks = 0
    for lane in range(LANES):
        y0 = tuple(y[i, lane] for i in range(VARIABLES))
        f0 = tuple(f[i, lane] for i in range(VARIABLES))
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        past = past_here(origin, width[lane], period, ring, breakpoints, whole, pieces, lane)
        step_size, end, y_end, f_end, stages, error = attempt(
            t[lane], h[lane], goal[lane], y0, f0, past, q, rtol, atol,
            (source, offset + who[lane], whole[NUMBER, lane], whole[CUT, lane]),
        )  # fmt: skip
        found = end >= soonest[lane]
        if EVENTS > 0:
            g_end = gaps_here(end, y_end, past, q)
            entire = completed(t[lane], step_size, y0, stages, past, q)
            g0 = tuple(g[e, lane] for e in range(EVENTS))
            g0 = gaps_at_begin(g0, t[lane], step_size, y0, entire, past, q)
            found = found | may_happen(
                gaps_at_nodes(g0, g_end, t[lane], step_size, y0, entire, past, q)
            )
            for e in unroll(range(EVENTS)):
                g1[e, lane] = g_end[e]
        for i in unroll(range(VARIABLES)):
            y1[i, lane] = y_end[i]
            f1[i, lane] = f_end[i]
        if SEEN > 0:
            for i in unroll(range(VARIABLES)):
                y2[i, lane] = y_end[i]
                f2[i, lane] = f_end[i]
        for j in unroll(range(STAGES)):
            for i in unroll(range(VARIABLES)):
                k[j * VARIABLES + i, lane] = stages[j][i]
        size[lane] = step_size
        t1[lane] = end
        t2[lane] = end
        miss[lane] = error
        look = found & (error <= 0.0) & (working[lane] > 0.0)
        if CELLS:
            look = look & (t[lane] < goal[lane])
        looked[lane] = 1.0 if look else 0.0
        looks += 1 if look else 0
    return looks


@no_refcount
def look_into(lane, me, run, lanes, out):
    """Save and find events in the step of one lane."""
    since, times, origin, period = run.since, run.times, run.origin, run.period
    t, t1, t2, size, width, y = lanes.t, lanes.t1, lanes.t2, lanes.size, lanes.width, lanes.y
    f, y1, f1, y2, f2, k, p = lanes.f, lanes.y1, lanes.f1, lanes.y2, lanes.f2, lanes.k, lanes.p
    g, g1, cursor, ring, breakpoints = (
        lanes.g,
        lanes.g1,
        lanes.cursor,
        lanes.ring,
        lanes.breakpoints,
    )
    whole, pieces = lanes.whole, lanes.pieces
    q = tuple(p[i, lane] for i in range(PARAMETERS))
    past = past_here(origin, width[lane], period, ring, breakpoints, whole, pieces, lane)
    end, y_end, f_end, y_next, f_next, g_next, next_time, which, ended = settle(
        t[lane], size[lane], t1[lane],
        tuple(y[i, lane] for i in range(VARIABLES)),
        tuple(f[i, lane] for i in range(VARIABLES)),
        tuple(y1[i, lane] for i in range(VARIABLES)),
        tuple(f1[i, lane] for i in range(VARIABLES)),
        tuple(tuple(k[j * VARIABLES + i, lane] for i in range(VARIABLES)) for j in range(STAGES)),
        tuple(g[e, lane] for e in range(EVENTS)),
        tuple(g1[e, lane] for e in range(EVENTS)),
        past, q, me, cursor[lane], since, times, out.states, out.hit_counts, out.hits,
    )  # fmt: skip
    if EVENTS > 0 and CELLS and not SHARED and which >= 0:
        f_next, g_next = note_break(
            which, end, y_end, f_end, y_next, f_next, g_next, past, q, breakpoints, whole, lane
        )
    for i in unroll(range(VARIABLES)):
        y1[i, lane] = y_next[i]
        f1[i, lane] = f_next[i]
        y2[i, lane] = y_end[i]
        f2[i, lane] = f_end[i]
    for e in unroll(range(EVENTS)):
        g1[e, lane] = g_next[e]
    t2[lane] = end
    cursor[lane] = next_time
    lanes.soonest[lane] = times[next_time] if next_time < times.size else 2.0 * abs(times[-1]) + 1.0
    if ended:
        lanes.working[lane] = 2


@no_refcount
def commit(run, lanes, out):
    """Take the steps that can be kept; how many lanes have ended, and how many are at a goal."""
    last, largest, since, frame = run.last, run.largest, run.since, run.frame
    most = real(run.most)
    goal, t, t1, t2, h, size = lanes.goal, lanes.t, lanes.t1, lanes.t2, lanes.h, lanes.size
    miss, y, f, y1, f1, y2, f2 = (
        lanes.miss,
        lanes.y,
        lanes.f,
        lanes.y1,
        lanes.f1,
        lanes.y2,
        lanes.f2,
    )
    p, g, g1, s, previous, last_step_rejected = (
        lanes.p,
        lanes.g,
        lanes.g1,
        lanes.s,
        lanes.previous,
        lanes.last_step_rejected,
    )
    tried, kept_count, working, stray = lanes.tried, lanes.kept_count, lanes.working, lanes.stray
    who = lanes.who
    ends, waits = 0, 0
    for lane in range(LANES):
        active = working[lane] > 0.0
        if CELLS:
            active = active & (t[lane] < goal[lane])
        kept = (miss[lane] <= 0.0) & active
        if SEEN > 0:
            q = tuple(p[i, lane] for i in range(PARAMETERS))
            held = tuple(s[j, lane] for j in range(SEEN))
            y_end = tuple(y2[i, lane] for i in range(VARIABLES))
            after = observed_step(
                held, t[lane],
                tuple(y[i, lane] for i in range(VARIABLES)),
                tuple(f[i, lane] for i in range(VARIABLES)),
                t2[lane], y_end, tuple(f2[i, lane] for i in range(VARIABLES)), q,
            )  # fmt: skip
            fresh = begin_observing(t2[lane], y_end, q)
            late = t[lane] >= since
            for j in unroll(range(SEEN)):
                s[j, lane] = (after[j] if late else fresh[j]) if kept else held[j]
        finite = True
        for i in unroll(range(VARIABLES)):
            # A sum, for a choice between two places in memory is no vector instruction.
            state = y1[i, lane] + 0.0 if kept else y[i, lane]
            finite = finite & is_finite(state)
            y[i, lane] = state
            f[i, lane] = f1[i, lane] + 0.0 if kept else f[i, lane]
        for e in unroll(range(EVENTS)):
            g[e, lane] = g1[e, lane] + 0.0 if kept else g[e, lane]
        before = t[lane]
        now = t2[lane] + 0.0 if kept else before
        t[lane] = now
        if ADAPTS:
            following = next_size(
                h[lane], size[lane], miss[lane], previous[lane], kept, last_step_rejected[lane] > 0,
                t2[lane] - before, t2[lane] < t1[lane], largest,
            )  # fmt: skip
            h[lane] = following if active else h[lane]
            previous[lane] = max(miss[lane], real(SMALLEST)) if kept else previous[lane]
            last_step_rejected[lane] = (
                (0.0 if kept else 1.0) if active else last_step_rejected[lane]
            )
        tried[lane] += 1.0 if active else 0.0
        kept_count[lane] += 1.0 if kept else 0.0
        over = (now >= last) | (tried[lane] >= most) | (working[lane] > 1)
        over = over | (h[lane] <= 4.0 * EPSILON * abs(now)) | (not finite)
        if LOOKS_UP:
            q = tuple(p[i, lane] for i in range(PARAMETERS))
            gone = active & outside(
                now, tuple(y[i, lane] for i in range(VARIABLES)), q, frame, who[lane]
            )
            stray[lane] = 1.0 if gone else stray[lane]
            over = over | gone
        if LOGS_STEPS and kept:
            log_step(
                np.int64(kept_count[lane]), now, tuple(y[i, lane] for i in range(VARIABLES)),
                out.step_log, who[lane],
            )  # fmt: skip
        ended = over & (working[lane] > 0.0)
        working[lane] += 1.0 if ended else 0.0
        ends += 1 if ended else 0
        if CELLS:
            waits += 1 if (working[lane] == 1.0) & (now >= goal[lane]) else 0
    return ends, waits


@no_refcount
def leave_cell(n, now, run, lanes):
    """What the past misses of every lane at the end of a cell; how many it ends."""
    period, breaks, limit, rtol, atol = run.period, run.breaks, run.limit, run.rtol, run.atol
    width, y, interpolation_error, working = (
        lanes.width,
        lanes.y,
        lanes.interpolation_error,
        lanes.working,
    )
    ring = lanes.ring
    ends = 0
    if smooth_before(n, breaks):
        for lane in range(LANES):
            worst = missed(
                n, now, period, width[lane], tuple(y[i, lane] for i in range(VARIABLES)),
                rtol, atol, ring, lane,
            )  # fmt: skip
            worst = max(worst, interpolation_error[lane])
            interpolation_error[lane] = worst
            ended = (worst > limit) & (working[lane] == 1.0)
            working[lane] += 1.0 if ended else 0.0
            ends += 1 if ended else 0
    return ends


@no_refcount
def enter_cell(n, now, run, lanes):
    """Begin a cell in every lane: what is read in it, and the point where it begins."""
    period, origin, last, lags, breaks = run.period, run.origin, run.last, run.lags, run.breaks
    t, goal, width, y, f, p = lanes.t, lanes.goal, lanes.width, lanes.y, lanes.f, lanes.p
    g, ring, whole, pieces = lanes.g, lanes.ring, lanes.whole, lanes.pieces
    if JUMPS:
        for d in unroll(range(len(PLACES))):
            if n == lags[d]:
                for lane in range(LANES):
                    y0 = tuple(y[i, lane] for i in range(VARIABLES))
                    f0 = tuple(f[i, lane] for i in range(VARIABLES))
                    keep_point(period + 1 + d, width[lane], y0, f0, ring, lane)
    for d in unroll(range(len(PLACES))):
        place = stencil(d, n, now, period, lags, breaks)
        for lane in range(LANES):
            c = read(d, place, ring, lane)
            pieces[d * (2 + COEFFICIENTS), lane] = real(n) * width[lane] + origin
            pieces[d * (2 + COEFFICIENTS) + 1, lane] = 1.0 / width[lane]
            for m in unroll(range(COEFFICIENTS)):
                pieces[d * (2 + COEFFICIENTS) + 2 + m, lane] = c[m]
    if turns(n, lags):
        for lane in range(LANES):
            y0 = tuple(y[i, lane] for i in range(VARIABLES))
            q = tuple(p[i, lane] for i in range(PARAMETERS))
            past = past_of(pieces, lane)
            f0 = slope(t[lane], y0, delayed(t[lane], y0, past, q), q)
            for i in unroll(range(VARIABLES)):
                f[i, lane] = f0[i]
            g0 = gaps_here(t[lane], y0, past, q)
            for e in unroll(range(EVENTS)):
                g[e, lane] = g0[e]
    for lane in range(LANES):
        y0 = tuple(y[i, lane] for i in range(VARIABLES))
        f0 = tuple(f[i, lane] for i in range(VARIABLES))
        keep_point(now, width[lane], y0, f0, ring, lane)
        goal[lane] = end_of_cell(n, origin, width[lane], last)
        whole[NUMBER, lane] = n
        whole[CUT, lane] = 0


@no_refcount
def go_on(lane, run, lanes):
    """Go on in a lane where what it read has ended; 1 if its past misses too much."""
    origin, last, period, rtol, atol = run.origin, run.last, run.period, run.rtol, run.atol
    t, goal, width, y, f, p = lanes.t, lanes.goal, lanes.width, lanes.y, lanes.f, lanes.p
    g, interpolation_error, working, ring, breakpoints = (
        lanes.g,
        lanes.interpolation_error,
        lanes.working,
        lanes.ring,
        lanes.breakpoints,
    )
    whole, pieces = lanes.whole, lanes.pieces
    y0 = tuple(y[i, lane] for i in range(VARIABLES))
    f0 = tuple(f[i, lane] for i in range(VARIABLES))
    q = tuple(p[i, lane] for i in range(PARAMETERS))
    worst = missed_free(
        t[lane], y0, origin, width[lane], period, rtol, atol, ring, breakpoints, whole, lane
    )
    worst = max(worst, interpolation_error[lane])
    interpolation_error[lane] = worst
    f0, end = pass_goal(
        t[lane], y0, f0, origin, q, width[lane], period, ring, breakpoints, whole, pieces, lane
    )
    for i in unroll(range(VARIABLES)):
        f[i, lane] = f0[i]
    past = past_here(origin, width[lane], period, ring, breakpoints, whole, pieces, lane)
    g0 = gaps_here(t[lane], y0, past, q)
    for e in unroll(range(EVENTS)):
        g[e, lane] = g0[e]
    goal[lane] = end if end < last - near_to(last, origin, width[lane]) else last
    if worst > run.limit:
        working[lane] = 2
        return 1
    return 0


@noinline_cpu
def end_in(lane, me, run, lanes, out):
    """Note how the trajectory of a lane ended."""
    t, h, y, p, s, tried, kept_count = (
        lanes.t,
        lanes.h,
        lanes.y,
        lanes.p,
        lanes.s,
        lanes.tried,
        lanes.kept_count,
    )
    working = lanes.working
    state = tuple(y[i, lane] for i in range(VARIABLES))
    if OBSERVED > 0:
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        o = observed(tuple(s[j, lane] for j in range(SEEN)), t[lane], state, q)
        for j in unroll(range(OBSERVED)):
            out.observed[j, me] = o[j]
    outcome = outcome_of(t[lane], h[lane], state, tried[lane], run.most)
    if outcome != NOT_FINITE:
        if working[lane] > 2:
            outcome = STOPPED
        elif t[lane] >= run.last:
            outcome = DONE
        if is_interpolated_badly(lanes.interpolation_error[lane]) and (
            outcome == DONE or outcome == STOPPED
        ):
            outcome = INACCURATE
        if lanes.stray[lane] > 0.0:
            outcome = OUTSIDE
    out.status[me] = outcome
    out.taken[me] = np.int64(kept_count[lane])
    out.rejected[me] = np.int64(tried[lane] - kept_count[lane])
    out.interpolation_errors[me] = lanes.interpolation_error[lane]
