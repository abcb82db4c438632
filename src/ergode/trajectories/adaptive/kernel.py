"""Steps of any size: every trajectory takes its own, with events and observables on the way.

A trajectory moves from goal to goal.  Without delays and noise the only goal is the last time.
With them it goes from cell to cell (see `cells`), however many steps it takes in one.

On a GPU a thread follows one trajectory.  On a CPU a thread tries a step of LANES trajectories at
once, in a loop without branches that the compiler makes vector instructions of; lanes whose step
meets a time to be saved or an event are then looked at one by one.  A lane that has ended takes
the next trajectory, unless all go from cell to cell together.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import cuda, real, unroll
from ergode.trajectories.adaptive.control import SMALLEST, first_step, next_size
from ergode.trajectories.adaptive.lanes import (
    LANES,
    Lanes,
    Out,
    Run,
    commit,
    end_in,
    enter_cell,
    go_on,
    leave_cell,
    load,
    look_into,
    start_in,
    try_steps,
)
from ergode.trajectories.adaptive.step import (
    ADAPTS,
    DONE,
    INACCURATE,
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
from ergode.trajectories.delays.history_ring import DELAYED, JUMPS, period_of, slot_count
from ergode.trajectories.delays.segments import (
    CELLS,
    CUT,
    MARK_ROWS,
    NUMBER,
    SHARED,
    WHOLES,
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
    read,
    smooth_before,
    stencil,
    turns,
)
from ergode.trajectories.steppers.equations import (
    COEFFICIENTS,
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
from ergode.trajectories.steppers.noise import SCHEME

# ---- CUDA: a thread a trajectory


def integrate_cuda(
    times, initial, parameters, sizes, frame, lags, breaks, given, jumps, limit,
    rtol, atol, largest, since, most, source, offset,
    ring, breakpoints, whole, pieces,
    out, hit_counts, hits, seen, status, taken, rejected, interpolation_errors, step_log,
):  # fmt: skip
    """Integrate every trajectory, one a thread.

    Model: `initial` [variable, trajectory], `parameters` [parameter, trajectory], `times`.
    Past: `frame` [width of a cell, and for each delay its least and largest value, trajectory],
    `lags` [delay] and `breaks` [cell] of shared cells, `given` points of the history [slot,
    delayed variable, 2, trajectory], `jumps` of it as breakpoints [jump, row], and the `limit` of
    what a polynomial may miss.
    Control: `sizes` [trajectory] (of the first step, if above zero; of all, if steps are of one
    size), tolerances, the largest step, the time `since` which to observe, and the most steps;
    `source` of the noise and `offset` of its trajectories.
    Scratch: `ring` [slot, delayed variable, 2, trajectory], and of free trajectories `breakpoints`
    [mark, row, trajectory], `whole` and `pieces` [row, trajectory].
    Out: `out` [time, variable, trajectory], `hit_counts` [event, trajectory], `hits` [event, hit,
    time and variables, trajectory], `seen` [observable, trajectory], `status`, `taken`, `rejected`
    and `interpolation_errors` [trajectory], `step_log` [step, time and variables, trajectory].
    """
    me = cuda.grid(1)
    if me >= status.size:
        return
    y = tuple(initial[i, me] for i in range(VARIABLES))
    p = tuple(parameters[i, me] for i in range(PARAMETERS))
    t = times[0]
    origin = t
    last = times[times.size - 1]
    width = frame[0, me]
    period = np.int32(period_of(lags))
    lag = tuple(np.int32(lags[d]) for d in range(len(PLACES)))
    if SHARED:
        fill_past(period, origin, width, y, given, jumps, me, ring, me)
    f = y
    s = begin_observing(t, y, p)
    s = tuple(real(s[j]) for j in range(SEEN))
    g = tuple(real(0.0) for e in range(EVENTS))
    for i in unroll(range(VARIABLES)):
        out[0, i, me] = y[i]
    log_step(0, t, y, step_log, me)
    cursor = 1
    h = sizes[me]
    goal = last
    previous = real(SMALLEST)
    last_step_rejected = False
    outcome = DONE
    step_count = np.int64(0)
    reject_count = np.int64(0)
    interpolation_error = real(0.0)
    n = np.int32(0)
    now = np.int32(0)
    fresh = True
    while t < last and outcome == DONE:
        if SHARED:
            if JUMPS:
                for d in unroll(range(len(PLACES))):
                    if n == lag[d]:
                        keep_point(period + 1 + d, width, y, f, ring, me)
            per = 1.0 / width
            past = tuple(
                (t, per, read(d, stencil(d, n, now, period, lag, breaks), ring, me))
                for d in range(len(PLACES))
            )
            if turns(n, lag):
                f = slope(t, y, delayed(t, y, past, p), p)
            keep_point(now, width, y, f, ring, me)
            goal = end_of_cell(n, origin, width, last)
        elif CELLS:
            if fresh:
                f, goal = begin_free(
                    t, y, p, width, period, given, jumps, me, ring, breakpoints, whole, pieces, me
                )
            else:
                f, goal = pass_goal(
                    t, y, f, origin, p, width, period, ring, breakpoints, whole, pieces, me
                )
            goal = goal if goal < last - near_to(last, origin, width) else last
            past = past_here(origin, width, period, ring, breakpoints, whole, pieces, me)
        else:
            past = ()
            f = slope(t, y, delayed(t, y, past, p), p)
        if fresh:
            h = h if h > 0.0 else first_step(t, goal - t, y, f, past, p, rtol, atol)
            h = min(h, largest)
            fresh = False
        g = gaps_here(t, y, past, p)
        while t < goal and outcome == DONE:
            if SCHEME == 0 or SHARED:
                number, cut = np.int64(n), np.int64(0)
            else:
                number, cut = whole[NUMBER, me], whole[CUT, me]
            size, t1, y1, f1, k, miss = attempt(
                t, h, goal, y, f, past, p, rtol, atol, (source, offset + me, number, cut)
            )
            kept = miss <= 0.0
            way, short = size, False
            if kept:
                g1 = gaps_here(t1, y1, past, p)
                looked = t1 >= times[cursor]
                if EVENTS > 0:
                    entire = completed(t, size, y, k, past, p)
                    g = gaps_at_begin(g, t, size, y, entire, past, p)
                    looked = looked or may_happen(gaps_at_nodes(g, g1, t, size, y, entire, past, p))
                t2, y2, f2 = t1, y1, f1
                ended = False
                if looked:
                    t2, y2, f2, y1, f1, g1, cursor, which, ended = settle(
                        t, size, t1, y, f, y1, f1, k, g, g1, past, p,
                        me, cursor, since, times, out, hit_counts, hits,
                    )  # fmt: skip
                    if EVENTS > 0 and CELLS and not SHARED and which >= 0:
                        f1, g1 = note_break(
                            which, t2, y2, f2, y1, f1, g1, past, p, breakpoints, whole, me
                        )
                if SEEN > 0:
                    s = (
                        observed_step(s, t, y, f, t2, y2, f2, p)
                        if t >= since
                        else begin_observing(t2, y2, p)
                    )
                    s = tuple(real(s[j]) for j in range(SEEN))
                way = t2 - t
                short = t2 < t1
                t, y, f, g = t2, y1, f1, g1
                outcome = STOPPED if ended else DONE
                step_count += 1
                log_step(step_count, t, y, step_log, me)
            else:
                reject_count += 1
            if ADAPTS:
                h = next_size(
                    h, size, miss, previous, kept, last_step_rejected, way, short, largest
                )
                previous = max(miss, real(SMALLEST)) if kept else previous
                last_step_rejected = not kept
            if outcome == DONE:
                outcome = outcome_of(t, h, y, step_count + reject_count, most) if t < last else DONE
                if LOOKS_UP and outside(t, y, p, frame, me):
                    outcome = OUTSIDE
        if len(PLACES) > 0 and outcome == DONE:
            if SHARED:
                if smooth_before(n, breaks):
                    interpolation_error = max(
                        interpolation_error, missed(n, now, period, width, y, rtol, atol, ring, me)
                    )
            else:
                interpolation_error = max(
                    interpolation_error,
                    missed_free(
                        t, y, origin, width, period, rtol, atol, ring, breakpoints, whole, me
                    ),
                )
            outcome = INACCURATE if interpolation_error > limit else DONE
        n = np.int32(n + 1)
        now = np.int32(now + 1) if now + 1 < period else np.int32(0)
    finite = True
    for i in unroll(range(VARIABLES)):
        finite = finite and is_finite(y[i])
    outcome = outcome if finite else NOT_FINITE
    if OBSERVED > 0:
        o = observed(s, t, y, p)
        for j in unroll(range(OBSERVED)):
            seen[j, me] = o[j]
    if (outcome == DONE or outcome == STOPPED) and is_interpolated_badly(interpolation_error):
        outcome = INACCURATE
    status[me] = outcome
    taken[me] = step_count
    rejected[me] = reject_count
    interpolation_errors[me] = interpolation_error


# ---- CPU: a thread follows LANES trajectories


def integrate_cpu(
    start, stop,
    times, initial, parameters, sizes, frame, lags, breaks, given, jumps, limit,
    rtol, atol, largest, since, most, source, offset, mark_count,
    out, hit_counts, hits, seen, status, taken, rejected, interpolation_errors, step_log,
):  # fmt: skip
    """Integrate trajectories `start` to `stop` on one thread; arguments as `integrate_cuda`."""
    # Parts of one array, so that the compiler sees that they do not overlap.
    read_rows = len(PLACES) * (2 + COEFFICIENTS)
    rows = np.empty(
        (
            6 * VARIABLES + STAGES * VARIABLES + PARAMETERS + read_rows + 2 * EVENTS + SEEN + 17,
            LANES,
        ),
        real,
    )
    y, f = rows[:VARIABLES], rows[VARIABLES : 2 * VARIABLES]
    y1, f1 = rows[2 * VARIABLES : 3 * VARIABLES], rows[3 * VARIABLES : 4 * VARIABLES]
    y2, f2 = rows[4 * VARIABLES : 5 * VARIABLES], rows[5 * VARIABLES : 6 * VARIABLES]
    k = rows[6 * VARIABLES : (6 + STAGES) * VARIABLES]
    p = rows[(6 + STAGES) * VARIABLES : (6 + STAGES) * VARIABLES + PARAMETERS]
    pieces = rows[(6 + STAGES) * VARIABLES + PARAMETERS :][:read_rows]
    rest = rows[(6 + STAGES) * VARIABLES + PARAMETERS + read_rows :]
    g, g1, s = rest[:EVENTS], rest[EVENTS : 2 * EVENTS], rest[2 * EVENTS : 2 * EVENTS + SEEN]
    single = rest[2 * EVENTS + SEEN :]
    t, t1, t2, h, size = single[0], single[1], single[2], single[3], single[4]
    miss, previous, soonest, looked = single[5], single[6], single[7], single[8]
    last_step_rejected, working, tried, kept_count = single[9], single[10], single[11], single[12]
    goal, width, interpolation_error, stray = single[13], single[14], single[15], single[16]
    who, cursor = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    origin, last = times[0], times[times.size - 1]
    period = period_of(lags)
    ring = np.empty(
        (slot_count(period) if len(PLACES) > 0 else 1, max(1, len(DELAYED)), 2, LANES), real
    )
    whole = np.empty((WHOLES + 2 * len(PLACES), LANES), np.int64)
    breakpoints = np.empty((mark_count, MARK_ROWS, LANES), real)
    run = Run(
        times, initial, parameters, sizes, frame, lags, breaks, given, jumps, limit, rtol, atol,
        largest, since, most, source, offset, origin, last, period,
    )  # fmt: skip
    lanes = Lanes(
        y, f, y1, f1, y2, f2, k, p, g, g1, s, t, t1, t2, h, size, miss, previous, soonest, looked,
        last_step_rejected, working, tried, kept_count, goal, width, interpolation_error, stray,
        who, cursor, ring, breakpoints, whole, pieces,
    )  # fmt: skip
    outcome = Out(
        out, hit_counts, hits, seen, status, taken, rejected, interpolation_errors, step_log
    )
    following = start
    while following < stop:
        for lane in range(LANES):
            # Lanes without a trajectory of their own repeat the work of the first.
            who[lane] = following if following < stop else start
            working[lane] = 1 if following < stop else 0
            load(lane, who[lane], run, lanes, outcome)
            following += 1
        count = min(stop - following + LANES, LANES)
        n, now = 0, 0
        if SHARED:
            enter_cell(n, now, run, lanes)
        for lane in range(LANES):
            start_in(lane, who[lane], run, lanes)
        while count > 0:
            looks = try_steps(run, lanes)
            if looks > 0:
                for lane in range(LANES):
                    if looked[lane] > 0:
                        look_into(lane, who[lane], run, lanes, outcome)
            ends, waits = commit(run, lanes, outcome)
            if SHARED and waits > 0 and waits == count - ends:
                ends += leave_cell(n, now, run, lanes)
                n += 1
                now = now + 1 if now + 1 < period else 0
                enter_cell(n, now, run, lanes)
            elif CELLS and not SHARED and waits > 0:
                for lane in range(LANES):
                    if working[lane] == 1.0 and t[lane] >= goal[lane]:
                        ends += go_on(lane, run, lanes)
            if ends > 0:
                for lane in range(LANES):
                    if working[lane] > 1:
                        end_in(lane, who[lane], run, lanes, outcome)
                        working[lane] = 0
                        count -= 1
                        if following < stop and not SHARED:
                            who[lane] = following
                            working[lane] = 1
                            load(lane, following, run, lanes, outcome)
                            start_in(lane, following, run, lanes)
                            following += 1
                            count += 1
