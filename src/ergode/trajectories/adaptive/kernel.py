"""Adaptive integration with events and observables; every trajectory has its own step size.

A trajectory is integrated from goal to goal; no step crosses a goal.  Without delays and noise the
only goal is the last time.  With them, the goals are the ends of cells (see `segments`), with any
number of steps in between.

On a GPU, a thread integrates one trajectory.  On a CPU, a thread attempts a step of LANES
trajectories at once, in a loop without branches that the compiler vectorises.  Lanes with an event
or a save time within the step are then handled one by one.  A lane whose trajectory has ended takes
the next trajectory; on a shared mesh it waits until the trajectories of all lanes have ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, real, unroll
from ergode.trajectories.adaptive.control import SMALLEST, first_step, next_size
from ergode.trajectories.adaptive.lanes import (
    BLOCK,
    LANES,
    busy_blocks,
    commit,
    end_in,
    enter_cell,
    go_on,
    leave_cell,
    load,
    look_into,
    set_due,
    start_in,
    try_steps,
    workspace,
)
from ergode.trajectories.adaptive.resume import (
    ACCEPTED,
    CURSOR,
    ENDED,
    NEW,
    RESUMES,
    STAGE,
    TRIED,
    UNDER_WAY,
    leave,
    stage_of,
    take_up,
)
from ergode.trajectories.adaptive.step import (
    DONE,
    INACCURATE,
    LOGS_INSIDE,
    NO_SOLUTION,
    NOT_FINITE,
    OUTSIDE,
    STOPPED,
    attempt,
    is_interpolated_badly,
    log_inside,
    log_step,
    observed_step,
    outcome_of,
    retried,
    settle,
)
from ergode.trajectories.delays import shared_mesh
from ergode.trajectories.delays.history_ring import JUMPS
from ergode.trajectories.delays.own_mesh import (
    begin_free,
    cut_cell,
    note_break,
    over_knot,
    pass_goal,
    width_of_path,
)
from ergode.trajectories.delays.segments import (
    CELLS,
    CUT,
    NUMBER,
    SHARED,
    StoredHistory,
    cell_error,
    fill_history,
    free_cell_error,
    has_no_solution,
    history_here,
    is_lost,
    keep_point,
    near_to,
)
from ergode.trajectories.delays.state_delays import outside
from ergode.trajectories.steppers.bridges import BRIDGES, may_pass
from ergode.trajectories.steppers.equations import (
    INFINITY,
    LOOKS_UP,
    PLACES,
    VARIABLES,
    delayed,
    is_finite,
    parameters_of,
    slope,
)
from ergode.trajectories.steppers.forcing import past_knots
from ergode.trajectories.steppers.inside_step import (
    EVENTS,
    DenseStep,
    all_met,
    are_numbers,
    begins_on_surface,
    gaps_at_nodes,
    gaps_here,
    gaps_past_goal,
    may_happen,
    met_here,
)
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.observing import OBSERVED, SEEN, begin_observing, observed
from ergode.trajectories.steppers.stepper import ADAPTS, completed
from ergode.trajectories.steppers.timed import TIMED, next_time

# ---- CUDA: one thread per trajectory


class Trajectory(NamedTuple):
    """Present state of a thread's trajectory."""

    t: Any  # time
    y: Any  # [variable]: state
    f: Any  # [variable]: slope
    g: Any  # [event]: values of the event functions
    met: Any  # [event]: which of these have been finite
    s: Any  # accumulators of the observables
    h: Any  # proposed step
    previous: Any  # logarithm of the error of the last accepted step
    last_step_rejected: Any
    cursor: Any  # index of the next time to save
    kept_count: Any  # int64: accepted steps
    rejected_count: Any  # int64: rejected steps
    outcome: Any  # uint8: DONE until the trajectory fails or stops


def integrate_cuda(run, out, storage):
    """Integrate every trajectory, one per thread; arguments as in `arguments`."""
    me = cuda.grid(1)
    if me >= out.status.size:
        return
    p = parameters_of(me, run)
    last = run.last
    period = np.int32(run.period)
    stored = StoredHistory(
        storage.ring, storage.breakpoints, storage.whole, storage.pieces, period, run.origin,
        run.frame[0, me], me,
    )  # fmt: skip
    lag = tuple(np.int32(run.lags[d]) for d in range(len(PLACES)))
    n = np.int32(0)
    now = np.int32(0)
    interpolation_error = real(0.0)
    fresh = True
    goal = last
    at = _begun(p, me, run, out)
    if RESUMES:
        kept = storage.kept
        if kept.counts[STAGE, me] == ENDED:
            return
        fresh = kept.counts[STAGE, me] == NEW
        if SHARED:
            n = np.int32(kept.cell)
            now = np.int32(n % period)
        if not fresh:
            at, interpolation_error, goal = _taken_up(me, kept)
    if SHARED and fresh:
        fill_history(
            period, run.origin, stored.width, at.y, run.given, run.jumps, me, stored.ring, me
        )
    if RESUMES and not SHARED and not fresh:
        # The last launch has ended within a cell.
        history = history_here(stored)
        while at.t < goal and at.outcome == DONE:
            at = _one_step(at, goal, history, p, n, stored, run, out)
        if len(PLACES) > 0 and at.outcome == DONE:
            interpolation_error = _missed(at, interpolation_error, n, now, stored, run)
            bad = interpolation_error > run.limit or is_lost(stored.whole, me)
            at = _with_outcome(at, INACCURATE if bad else DONE)
    until = n
    if RESUMES:
        until = np.int32(min(storage.kept.until, np.int64(2**31 - 1)))
    while at.t < last and at.outcome == DONE:
        if RESUMES and SHARED and n >= until:
            break
        f, goal, history = _at_goal(at, p, n, now, lag, fresh, stored, run)
        g, h = gaps_past_goal(at.g, at.t, at.y, history, p), at.h
        if fresh:
            g = gaps_here(at.t, at.y, history, p)
            h = (
                h
                if h > 0.0
                else first_step(at.t, goal - at.t, at.y, f, history, p, run.rtol, run.atol)
            )
            h = min(h, run.largest)
            fresh = False
            at = _with_outcome(at, NO_SOLUTION if has_no_solution(stored.whole, me) else DONE)
        at = Trajectory(
            at.t, at.y, f, g, met_here(at.met, g), at.s, h, at.previous,
            at.last_step_rejected, at.cursor, at.kept_count, at.rejected_count, at.outcome,
        )  # fmt: skip
        while at.t < goal and at.outcome == DONE:
            at = _one_step(at, goal, history, p, n, stored, run, out)
        if len(PLACES) > 0 and at.outcome == DONE:
            interpolation_error = _missed(at, interpolation_error, n, now, stored, run)
            bad = interpolation_error > run.limit or is_lost(stored.whole, me)
            at = _with_outcome(at, INACCURATE if bad else DONE)
        n = np.int32(n + 1)
        now = np.int32(now + 1) if now + 1 < period else np.int32(0)
    if RESUMES:
        _leave(at, interpolation_error, goal, me, run, storage.kept)
    _finish(at, interpolation_error, p, stored, run, out)


def _taken_up(me, kept):
    """What the last launch has left: a trajectory, its interpolation error, and its goal."""
    rows, counts = kept.rows, kept.counts
    events, seen = 2 * VARIABLES, 2 * VARIABLES + 2 * EVENTS
    single = seen + SEEN
    return (
        Trajectory(
            rows[single, me],
            tuple(rows[i, me] for i in range(VARIABLES)),
            tuple(rows[VARIABLES + i, me] for i in range(VARIABLES)),
            tuple(rows[events + 2 * e, me] for e in range(EVENTS)),
            tuple(rows[events + 2 * e + 1, me] for e in range(EVENTS)),
            tuple(rows[seen + j, me] for j in range(SEEN)),
            rows[single + 1, me], rows[single + 2, me], rows[single + 3, me] > 0.0,
            counts[CURSOR, me], counts[ACCEPTED, me], counts[TRIED, me] - counts[ACCEPTED, me],
            DONE,
        ),
        rows[single + 4, me],
        rows[single + 5, me],
    )  # fmt: skip


def _leave(at, interpolation_error, goal, me, run, kept):
    """Leave a trajectory to the next launch."""
    rows, counts = kept.rows, kept.counts
    events, seen = 2 * VARIABLES, 2 * VARIABLES + 2 * EVENTS
    single = seen + SEEN
    for i in unroll(range(VARIABLES)):
        rows[i, me] = at.y[i]
        rows[VARIABLES + i, me] = at.f[i]
    for e in unroll(range(EVENTS)):
        rows[events + 2 * e, me] = at.g[e]
        rows[events + 2 * e + 1, me] = at.met[e]
    for j in unroll(range(SEEN)):
        rows[seen + j, me] = at.s[j]
    rows[single, me] = at.t
    rows[single + 1, me] = at.h
    rows[single + 2, me] = at.previous
    rows[single + 3, me] = real(1.0) if at.last_step_rejected else real(0.0)
    rows[single + 4, me] = interpolation_error
    rows[single + 5, me] = goal
    tried = at.kept_count + at.rejected_count
    stage = stage_of(at.outcome, tried, kept.most)
    if SHARED:
        stage = UNDER_WAY if at.outcome == DONE and at.t < run.last else ENDED
    counts[STAGE, me] = stage
    counts[TRIED, me] = tried
    counts[ACCEPTED, me] = at.kept_count
    counts[CURSOR, me] = at.cursor


def _begun(p, me, run, out):
    """A trajectory at its first time; `_at_goal` and its caller set slopes and event functions."""
    y = tuple(run.initial[i, me] for i in range(VARIABLES))
    s = begin_observing(run.origin, y, p)
    for i in unroll(range(VARIABLES)):
        out.states[0, i, me] = y[i]
    log_step(0, run.origin, y, out.step_log, me)
    return Trajectory(
        past_knots(run.origin, p), y, y, tuple(real(0.0) for e in range(EVENTS)),
        tuple(real(0.0) for e in range(EVENTS)),
        tuple(real(s[j]) for j in range(SEEN)), run.sizes[me], real(SMALLEST), False, np.int64(1),
        np.int64(0), np.int64(0), DONE,
    )  # fmt: skip


def _with_outcome(at, outcome):
    return Trajectory(
        at.t, at.y, at.f, at.g, at.met, at.s, at.h, at.previous, at.last_step_rejected, at.cursor,
        at.kept_count, at.rejected_count, outcome,
    )  # fmt: skip


def _at_goal(at, p, n, now, lag, fresh, stored, run):
    """At the beginning of a cell or the run: slope, next goal, and polynomials of the history."""
    t, y, f = at.t, at.y, at.f
    last, period, width, me = run.last, stored.period, stored.width, stored.me
    goal = last
    if SHARED:
        if JUMPS:
            for d in unroll(range(len(PLACES))):
                if n == lag[d]:
                    keep_point(period + 1 + d, width, y, f, stored.ring, me)
        per = 1.0 / width
        history = tuple(
            (
                t,
                per,
                shared_mesh.read(
                    d, shared_mesh.stencil(d, n, now, period, lag, run.breaks), stored.ring, me
                ),
            )
            for d in range(len(PLACES))
        )
        if shared_mesh.turns(n, lag):
            f = slope(t, y, delayed(t, y, history, p), p)
        keep_point(now, width, y, f, stored.ring, me)
        goal = shared_mesh.end_of_cell(n, run.origin, width, last)
    elif CELLS:
        if fresh:
            f, goal = begin_free(run.origin, y, p, run.given, run.jumps, me, stored)
        else:
            f, goal = pass_goal(t, y, f, p, stored)
        goal = goal if goal < last - near_to(last, run.origin, width) else last
        history = history_here(stored)
    else:
        history = ()
        f = slope(t, y, delayed(t, y, history, p), p)
    return f, goal, history


def _one_step(at, goal, history, p, n, stored, run, out):
    """The trajectory after one attempted step."""
    t, y, f, h, me = at.t, at.y, at.f, at.h, stored.me
    begin = t
    g, met, s, cursor, kept_count, rejected_count = (
        at.g, at.met, at.s, at.cursor, at.kept_count, at.rejected_count,
    )  # fmt: skip
    previous, last_step_rejected, outcome = at.previous, at.last_step_rejected, at.outcome
    if SCHEME == 0 or SHARED:
        number, cut = np.int64(n), np.int64(0)
    else:
        number, cut = stored.whole[NUMBER, me], stored.whole[CUT, me]
    soonest = run.times[cursor] if cursor < run.times.size else real(INFINITY)
    due, until, width = real(INFINITY), goal, stored.width
    if len(TIMED) > 0:
        due = next_time(t, p, run.origin, run.source, run.offset + me)
        until = min(goal, due)
    if SCHEME > 0 and ADAPTS and not SHARED:
        width = width_of_path(goal, until, stored)
    noise = (run.source, run.offset + me, number, cut, width)
    size, t1, y1, f1, k, log_error = attempt(
        t, h, until, soonest, last_step_rejected, y, f, history, p, run.rtol, run.atol, noise
    )
    kept = log_error <= 0.0
    way, short = size, False
    if kept:
        g1 = gaps_here(t1, y1, history, p)
        looked = cursor < run.times.size and t1 >= run.times[cursor]
        if EVENTS > 0:
            inside = DenseStep(t, size, y, completed(t, size, y, k, history, p), history, p)
            looked = looked or may_happen(gaps_at_nodes(g, g1, inside)) or begins_on_surface(g)
            if BRIDGES:
                looked = looked or may_pass(g, g1, inside)
        looked = looked or t1 >= due
        if LOGS_INSIDE:
            entire = completed(t, size, y, k, history, p)
            log_inside(kept_count + 1, size, entire, out.step_log, me)
        t2, y2, f2 = t1, y1, f1
        outcome, which = DONE, np.int64(-1)
        if looked:
            inside = DenseStep(t, size, y, k, history, p)
            if SCHEME > 0 and ADAPTS:  # a cell has several steps
                noise = (run.source, run.offset + me, kept_count, cut, width)
            t2, y2, f2, y1, f1, g1, cursor, which, outcome = settle(
                inside, (t1, y1, f1), g, g1, me, cursor, run, out, noise
            )
        if SEEN > 0:
            inside = DenseStep(t, size, y, k, history, p)
            s = observed_step(s, inside, f, t2, y2, f2, run.since)
        if EVENTS > 0 and CELLS and not SHARED and which >= 0:
            f1, g1 = note_break(
                which, t2, y2, f2, y1, f1, g1, history, p, stored, run.rtol, run.atol
            )
        if len(TIMED) > 0 and SCHEME > 0 and which < 0 and t1 >= due:
            cut_cell(t1, stored)
        way = t2 - t
        short = t2 < t1
        t, y, f, g = t2, y1, f1, g1
        if EVENTS > 0:
            outcome = outcome if are_numbers(g) else NOT_FINITE
            met = met_here(met, g)
        kept_count += 1
        log_step(kept_count, t, y, out.step_log, me)
        t, f = over_knot(begin, t, y, f, history, p, stored)
    else:
        rejected_count += 1
    if ADAPTS:
        h = next_size(
            h, size, log_error, previous, kept, last_step_rejected, way, short, run.largest
        )
        h = retried(h, t, t1, soonest, kept)
        previous = max(log_error, real(SMALLEST)) if kept else previous
        last_step_rejected = not kept
    outcome = _outcome_after(
        outcome, t, h, y, kept_count + rejected_count, log_error, p, stored, run
    )
    return Trajectory(
        t, y, f, g, met, s, h, previous, last_step_rejected, cursor, kept_count, rejected_count,
        outcome,
    )  # fmt: skip


def _outcome_after(outcome, t, h, y, tried, log_error, p, stored, run):
    """How a trajectory stands after an attempted step, whose events left it with `outcome`."""
    if outcome != DONE:
        return outcome
    if has_no_solution(stored.whole, stored.me):
        return NO_SOLUTION
    if LOOKS_UP and outside(t, y, p, run.frame, stored.me):
        return OUTSIDE
    return outcome_of(t, h, y, tried, run.most, log_error) if t < run.last else DONE


def _missed(at, before, n, now, stored, run):
    """Largest interpolation error at the end of a cell; `before`: largest of earlier cells."""
    if SHARED:
        # The last cell may end before its width, and nothing reads it.
        if shared_mesh.smooth_before(n, run.breaks) and at.t < run.last:
            before = max(
                before,
                cell_error(n, now, stored.period, at.y, run.rtol, run.atol, stored.ring, stored.me),
            )
        return before
    else:  # SHARED is an option: only one branch is compiled
        return max(before, free_cell_error(at.t, at.y, run.rtol, run.atol, stored))


def _finish(at, interpolation_error, p, stored, run, out):
    """Write status, counts and observables of a trajectory that has ended."""
    outcome, me = at.outcome, stored.me
    finite = True
    for i in unroll(range(VARIABLES)):
        finite = finite and is_finite(at.y[i])
    outcome = outcome if finite else NOT_FINITE
    if EVENTS > 0 and outcome == DONE and at.t > run.origin:
        outcome = DONE if all_met(at.met) else NOT_FINITE
    if OBSERVED > 0:
        o = observed(at.s, at.t, at.y, p)
        for j in unroll(range(OBSERVED)):
            out.observed[j, me] = o[j]
    if (outcome == DONE or outcome == STOPPED) and is_interpolated_badly(interpolation_error):
        outcome = INACCURATE
    if is_lost(stored.whole, me):
        outcome = INACCURATE
        interpolation_error = real(INFINITY)
    out.status[me] = outcome
    out.taken[me] = at.kept_count
    out.rejected[me] = at.rejected_count
    out.interpolation_errors[me] = interpolation_error


# ---- CPU: one thread integrates LANES trajectories


def integrate_cpu(start, stop, run, out, breakpoint_count, storage):
    """Integrate trajectories `start` to `stop` on one thread.

    `run` and `out` are those of `arguments`.  `breakpoint_count` is the capacity for breakpoints of
    a trajectory.  `storage` has what lies between two launches, or is ().
    """
    lanes = workspace(run.period, breakpoint_count)
    who, working, looked, t, goal = lanes.who, lanes.working, lanes.looked, lanes.t, lanes.goal
    period = run.period
    following = start
    while following < stop:
        for lane in range(LANES):
            if RESUMES and not SHARED:
                following = next_open(following, stop, storage)
            # Surplus lanes repeat the first trajectory; their results are discarded.
            who[lane] = following if following < stop else start
            working[lane] = 1 if following < stop else 0
            load(lane, who[lane], run, lanes, out)
            following += 1
        count = min(stop - following + LANES, LANES)
        n, now = 0, 0
        paused = False
        if RESUMES:
            if SHARED:
                n = storage.kept.cell
                now = n % period
            count = 0
            for lane in range(LANES):
                if working[lane] == 1 and storage.kept.counts[STAGE, who[lane]] == ENDED:
                    working[lane] = 0
                if working[lane] == 1 and storage.kept.counts[STAGE, who[lane]] == UNDER_WAY:
                    take_up(lane, who[lane], run, lanes, storage)
                    set_due(lane, who[lane], run, lanes)
                count += np.int64(working[lane])
        if SHARED:
            enter_cell(n, now, run, lanes)
        for lane in range(LANES):
            if not (RESUMES and storage.kept.counts[STAGE, who[lane]] == UNDER_WAY):
                start_in(lane, who[lane], run, lanes)
        blocks = busy_blocks(working)
        while count > 0:
            looks = try_steps(blocks, run, lanes)
            if looks > 0:
                for lane in range(BLOCK * blocks):
                    if looked[lane] > 0:
                        look_into(lane, who[lane], run, lanes, out)
            ends, waits = commit(blocks, run, lanes, out)
            if SHARED and waits > 0 and waits == count - ends:
                ends += leave_cell(n, now, run, lanes)
                n += 1
                now = now + 1 if now + 1 < period else 0
                if RESUMES and n >= storage.kept.until:
                    paused = True
                else:
                    enter_cell(n, now, run, lanes)
            elif CELLS and not SHARED and waits > 0:
                for lane in range(LANES):
                    if working[lane] == 1.0 and t[lane] >= goal[lane]:
                        ends += go_on(lane, run, lanes)
            if ends > 0:
                for lane in range(LANES):
                    if working[lane] > 1:
                        end_in(lane, who[lane], run, lanes, out)
                        if RESUMES:
                            outcome = out.status[who[lane]]
                            stage = stage_of(outcome, lanes.tried[lane], storage.kept.most)
                            leave(lane, who[lane], stage, lanes, storage)
                            if not SHARED:
                                following = next_open(following, stop, storage)
                        working[lane] = 0
                        count -= 1
                        if following < stop and not SHARED:
                            who[lane] = following
                            working[lane] = 1
                            load(lane, following, run, lanes, out)
                            if RESUMES and storage.kept.counts[STAGE, following] == UNDER_WAY:
                                take_up(lane, following, run, lanes, storage)
                                set_due(lane, following, run, lanes)
                            else:
                                start_in(lane, following, run, lanes)
                            following += 1
                            count += 1
                blocks = busy_blocks(working)
            if RESUMES and paused:
                for lane in range(LANES):
                    if working[lane] == 1:
                        leave(lane, who[lane], UNDER_WAY, lanes, storage)
                count = 0


def next_open(following, stop, storage):
    """The first trajectory from this one on that has not ended."""
    while following < stop and storage.kept.counts[STAGE, following] == ENDED:
        following += 1
    return following
