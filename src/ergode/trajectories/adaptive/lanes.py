"""One CPU thread integrates LANES trajectories at once (see `adaptive.kernel`).

The last axis of every array is the lane.  Loops over lanes have no branches, so that the compiler
vectorises them.  Rare work (events, save times, a new trajectory) is done for one lane at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import no_refcount, noinline_cpu, option, real, unroll
from ergode.trajectories.adaptive.control import SMALLEST, first_step, next_size
from ergode.trajectories.adaptive.step import (
    BY_PARTS,
    DONE,
    INACCURATE,
    LOGS_INSIDE,
    LOGS_STEPS,
    NO_SOLUTION,
    NOT_FINITE,
    OUTSIDE,
    RATE_OUT_OF_RANGE,
    STEP_TOO_SMALL,
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
from ergode.trajectories.delays import own_mesh, shared_mesh
from ergode.trajectories.delays.history_ring import DELAYED, JUMPS, slot_count
from ergode.trajectories.delays.segments import (
    CELLS,
    CUT,
    NUMBER,
    SHARED,
    WHOLES,
    StoredHistory,
    cell_error,
    fill_history,
    free_cell_error,
    has_no_solution,
    history_here,
    is_lost,
    keep_point,
    near_to,
    polynomials_in,
)
from ergode.trajectories.delays.state_delays import outside
from ergode.trajectories.steppers import equations
from ergode.trajectories.steppers.bridges import BRIDGES, may_pass
from ergode.trajectories.steppers.equations import (
    COEFFICIENTS,
    EPSILON,
    INFINITY,
    LOOKS_UP,
    PARAMETERS,
    PLACES,
    VARIABLES,
    delayed,
    is_finite,
    slope,
)
from ergode.trajectories.steppers.explicit import EXTRA_C
from ergode.trajectories.steppers.forcing import INPUTS, past_knots
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
from ergode.trajectories.steppers.stepper import ADAPTS, DENSE, STIFF, completed
from ergode.trajectories.steppers.timed import TIMED, next_time

LANE_COUNT = 64
BLOCK_COUNT = 8
BLOCK = option(BLOCK_COUNT)  # lanes that are attempted together
LANES = option(LANE_COUNT)  # trajectories that a thread integrates at once


class Lanes(NamedTuple):
    """Workspace of a thread; each array is [lane] or [row, lane]."""

    y: Any  # state at the beginning of the step
    f: Any  # slope at the beginning of the step
    y1: Any  # state after the step and its events
    f1: Any  # slope after the step and its events
    y2: Any  # state at the end of the step, before events act
    f2: Any  # slope at the end of the step, before events act
    k: Any  # stages of the step
    p: Any  # parameters
    g: Any  # event functions at the beginning of the step
    g1: Any  # event functions after the step
    met: Any  # which of these have been finite
    s: Any  # accumulators of the observables
    t: Any  # time at the beginning of the step
    t1: Any  # time at the end of the attempted step
    t2: Any  # time at the end of the step; earlier than t1 if an event truncates it
    h: Any  # proposed step
    size: Any  # attempted step
    log_error: Any  # logarithm of the error of the attempted step
    previous: Any  # logarithm of the error of the last accepted step
    soonest: Any  # next time to save
    looked: Any  # whether the step contains a save time or perhaps an event
    acted: Any  # the event that truncated a step that was looked into, or -1
    last_step_rejected: Any  # whether the last step was rejected
    working: Any  # 0 idle lane, 1 active, 2 ended, 3 stopped, 5 events without end, 7 wrong rate
    tried: Any  # attempted steps
    kept_count: Any  # accepted steps
    goal: Any  # time that no step crosses
    width: Any  # width of a cell [time]
    interpolation_error: Any  # largest interpolation error of the history
    stray: Any  # whether a state-dependent delay has left its range
    due: Any  # next time of an event that is not a crossing
    who: Any  # int64: number of the trajectory
    cursor: Any  # int64: index of the next time to save
    ring: Any  # [slot, delayed variable, 2, lane]: ring buffer of the history
    breakpoints: Any  # [breakpoint, row, lane]
    whole: Any  # int64 [row, lane]: counters (see `segments`)
    pieces: Any  # [row, lane]: present polynomial of each delay


def workspace(period, breakpoint_count):
    """Allocate the workspace of a thread."""
    # Views of one array, so that the compiler knows that they do not overlap.
    stages = len(DENSE) - len(EXTRA_C)
    read_rows = len(PLACES) * (2 + COEFFICIENTS)
    rows = np.empty(
        ((6 + stages) * VARIABLES + PARAMETERS + read_rows + 3 * EVENTS + SEEN + 19, LANES),
        real,
    )
    p_row = (6 + stages) * VARIABLES
    piece_row = p_row + PARAMETERS
    event_row = piece_row + read_rows
    met_row = event_row + 2 * EVENTS
    seen_row = met_row + EVENTS
    single = rows[seen_row + SEEN :]
    return Lanes(
        rows[:VARIABLES], rows[VARIABLES : 2 * VARIABLES], rows[2 * VARIABLES : 3 * VARIABLES],
        rows[3 * VARIABLES : 4 * VARIABLES], rows[4 * VARIABLES : 5 * VARIABLES],
        rows[5 * VARIABLES : 6 * VARIABLES],
        rows[6 * VARIABLES : p_row], rows[p_row:piece_row], rows[event_row : event_row + EVENTS],
        rows[event_row + EVENTS : met_row], rows[met_row:seen_row],
        rows[seen_row : seen_row + SEEN],
        single[0], single[1], single[2], single[3], single[4], single[5], single[6], single[7],
        single[8], single[9], single[10], single[11], single[12], single[13], single[14],
        single[15], single[16], single[17], single[18],
        np.empty(LANES, np.int64), np.empty(LANES, np.int64),
        np.empty(
            (slot_count(period) if len(PLACES) > 0 else 1, max(1, len(DELAYED)), 2, LANES), real
        ),
        np.empty((breakpoint_count, 2 + 5 * len(DELAYED), LANES), real),
        np.empty((WHOLES + 2 * len(PLACES), LANES), np.int64),
        rows[piece_row:event_row],
    )  # fmt: skip


def stored_in(lane, run, lanes):
    """The history of a lane."""
    return StoredHistory(
        lanes.ring, lanes.breakpoints, lanes.whole, lanes.pieces, run.period, run.origin,
        lanes.width[lane], lane,
    )  # fmt: skip


def state_in(lane, rows):
    """State or slope of one lane, as a tuple."""
    return tuple(rows[i, lane] for i in range(VARIABLES))


def parameters_in(lane, lanes):
    """The parameters of one lane."""
    return equations.parameters_in(lane, lanes.p)


def stages_in(lane, lanes):
    """The stages of the step of one lane, but for extra ones."""
    return tuple(
        tuple(lanes.k[j * VARIABLES + i, lane] for i in range(VARIABLES))
        for j in range(len(DENSE) - len(EXTRA_C))
    )


def put(lane, rows, values):
    """Write the state or slope of one lane."""
    for i in unroll(range(VARIABLES)):
        rows[i, lane] = values[i]


@no_refcount
def load(lane, me, run, lanes, out):
    """Load trajectory `me` into a lane: state, parameters and history."""
    times, last = run.times, run.last
    begin = run.origin
    y0 = tuple(run.initial[i, me] for i in range(VARIABLES))
    q = equations.parameters_of(me, run)
    for i in unroll(range(PARAMETERS)):
        lanes.p[i, lane] = q[i]
    lanes.width[lane] = run.frame[0, me]
    lanes.goal[lane] = last
    f0 = y0
    if SHARED:
        width = lanes.width[lane]
        fill_history(run.period, begin, width, y0, run.given, run.jumps, me, lanes.ring, lane)
    elif CELLS:
        stored = stored_in(lane, run, lanes)
        f0, end = own_mesh.begin_free(begin, y0, q, run.given, run.jumps, me, stored)
        lanes.goal[lane] = end if end < last - near_to(last, begin, lanes.width[lane]) else last
    else:
        f0 = slope(past_knots(begin, q), y0, (), q)
    put(lane, lanes.y, y0)
    put(lane, lanes.f, f0)
    for i in unroll(range(VARIABLES)):
        out.states[0, i, me] = y0[i]
    lanes.t[lane] = past_knots(begin, q)
    lanes.previous[lane] = SMALLEST
    lanes.last_step_rejected[lane] = 0
    lanes.tried[lane] = 0
    lanes.kept_count[lane] = 0
    lanes.interpolation_error[lane] = 0
    lanes.stray[lane] = 0
    lanes.cursor[lane] = 1
    lanes.soonest[lane] = times[1] if times.size > 1 else begin
    log_step(0, begin, y0, out.step_log, me)


@no_refcount
def start_in(lane, me, run, lanes):
    """Set the first step, event functions and accumulators of a newly loaded trajectory."""
    t = lanes.t
    y0, f0, q = state_in(lane, lanes.y), state_in(lane, lanes.f), parameters_in(lane, lanes)
    history = history_here(stored_in(lane, run, lanes))
    g0 = gaps_here(t[lane], y0, history, q)
    s0 = begin_observing(t[lane], y0, q)
    wanted = run.sizes[me]
    span = lanes.goal[lane] - t[lane]
    wanted = (
        wanted
        if wanted > 0.0
        else first_step(t[lane], span, y0, f0, history, q, run.rtol, run.atol)
    )
    for e in unroll(range(EVENTS)):
        lanes.g[e, lane] = g0[e]
        lanes.met[e, lane] = 1.0 if is_finite(g0[e]) else 0.0
    for j in unroll(range(SEEN)):
        lanes.s[j, lane] = s0[j]
    lanes.h[lane] = min(wanted, run.largest)
    set_due(lane, me, run, lanes)


def busy_blocks(working):
    """How many blocks of lanes, from the first one on, hold all that have work."""
    blocks = 0
    for lane in range(LANES):
        if working[lane] > 0:
            blocks = lane // BLOCK + 1
    return blocks


@no_refcount
def try_steps(blocks, run, lanes):
    """Attempt a step in every lane of `blocks`; returns how many lanes need `look_into`.

    Explicit methods without noise attempt it in all lanes.
    """
    t, h, goal, whole, k = lanes.t, lanes.h, lanes.goal, lanes.whole, lanes.k
    looks = 0
    # Over a known number of lanes a loop is vectorised more often.
    for lane in range(LANES if SCHEME == 0 and not STIFF else BLOCK * blocks):
        y0, f0, q = state_in(lane, lanes.y), state_in(lane, lanes.f), parameters_in(lane, lanes)
        stored = stored_in(lane, run, lanes)
        history = history_here(stored)
        until, width = goal[lane], lanes.width[lane]
        if len(TIMED) > 0:
            until = min(until, lanes.due[lane])
        if SCHEME > 0 and ADAPTS and not SHARED:
            width = own_mesh.width_of_path(goal[lane], until, stored)
        step_size, end, y_end, f_end, stages, error = attempt(
            t[lane], h[lane], until, lanes.soonest[lane], lanes.last_step_rejected[lane] > 0.0,
            y0, f0, history, q, run.rtol, run.atol,
            (
                run.source, run.offset + lanes.who[lane], whole[NUMBER, lane], whole[CUT, lane],
                width,
            ),
        )  # fmt: skip
        found = end >= lanes.soonest[lane]
        if len(TIMED) > 0:
            found = found | (end >= lanes.due[lane])
        if EVENTS > 0:
            g_end = gaps_here(end, y_end, history, q)
            entire = completed(t[lane], step_size, y0, stages, history, q)
            inside = DenseStep(t[lane], step_size, y0, entire, history, q)
            g0 = tuple(lanes.g[e, lane] for e in range(EVENTS))
            found = found | may_happen(gaps_at_nodes(g0, g_end, inside)) | begins_on_surface(g0)
            if BRIDGES:
                found = found | may_pass(g0, g_end, inside)
            for e in unroll(range(EVENTS)):
                lanes.g1[e, lane] = g_end[e]
        put(lane, lanes.y1, y_end)
        put(lane, lanes.f1, f_end)
        if SEEN > 0:
            put(lane, lanes.y2, y_end)
            put(lane, lanes.f2, f_end)
        for j in unroll(range(len(DENSE) - len(EXTRA_C))):
            for i in unroll(range(VARIABLES)):
                k[j * VARIABLES + i, lane] = stages[j][i]
        lanes.size[lane] = step_size
        lanes.t1[lane] = end
        lanes.t2[lane] = end
        lanes.log_error[lane] = error
        look = found & (error <= 0.0) & (lanes.working[lane] > 0.0)
        if CELLS:
            look = look & (t[lane] < goal[lane])
        lanes.looked[lane] = 1.0 if look else 0.0
        looks += 1 if look else 0
    return looks


@no_refcount
def look_into(lane, me, run, lanes, out):
    """Save states and find events within the step of one lane."""
    times = run.times
    q = parameters_in(lane, lanes)
    history = history_here(stored_in(lane, run, lanes))
    stages = stages_in(lane, lanes)
    number = lanes.whole[NUMBER, lane]
    if SCHEME > 0 and ADAPTS:  # a cell has several steps
        number = np.int64(lanes.kept_count[lane])
    inside = DenseStep(lanes.t[lane], lanes.size[lane], state_in(lane, lanes.y), stages, history, q)
    end, y_end, f_end, y_next, f_next, g_next, next_time, which, outcome = settle(
        inside,
        (lanes.t1[lane], state_in(lane, lanes.y1), state_in(lane, lanes.f1)),
        tuple(lanes.g[e, lane] for e in range(EVENTS)),
        tuple(lanes.g1[e, lane] for e in range(EVENTS)),
        me, lanes.cursor[lane], run, out,
        (
            run.source, run.offset + me, number, lanes.whole[CUT, lane],
            lanes.width[lane],
        ),
    )  # fmt: skip
    lanes.acted[lane] = real(which)
    put(lane, lanes.y1, y_next)
    put(lane, lanes.f1, f_next)
    put(lane, lanes.y2, y_end)
    put(lane, lanes.f2, f_end)
    for e in unroll(range(EVENTS)):
        lanes.g1[e, lane] = g_next[e]
    lanes.t2[lane] = end
    lanes.cursor[lane] = next_time
    lanes.soonest[lane] = times[next_time] if next_time < times.size else 2.0 * abs(times[-1]) + 1.0
    if outcome != DONE:
        how = 6 if outcome == RATE_OUT_OF_RANGE else 4
        lanes.working[lane] = 2 if outcome == STOPPED else how


@no_refcount
def commit(blocks, run, lanes, out):
    """Apply accepted steps; returns how many lanes have ended, and how many are at their goal."""
    most = real(run.most)
    t, t2, h, log_error, y, y1 = lanes.t, lanes.t2, lanes.h, lanes.log_error, lanes.y, lanes.y1
    goal, tried, working = lanes.goal, lanes.tried, lanes.working
    ends, waits = 0, 0
    for lane in range(LANES if SCHEME == 0 and not STIFF else BLOCK * blocks):
        active = working[lane] > 0.0
        if CELLS:
            active = active & (t[lane] < goal[lane])
        kept = (log_error[lane] <= 0.0) & active
        if SEEN > 0 and (kept or not BY_PARTS):
            _observe(lane, kept, run, lanes)
        if LOGS_INSIDE and kept:
            _log_inside(lane, run, lanes, out)
        if EVENTS > 0 and CELLS and not SHARED and kept and lanes.looked[lane] > 0.0:
            _note_break(lane, run, lanes)
        finite = True
        for i in unroll(range(VARIABLES)):
            # `+ 0.0` loads the value: LLVM cannot vectorise a select between two addresses.
            state = y1[i, lane] + 0.0 if kept else y[i, lane]
            finite = finite & is_finite(state)
            y[i, lane] = state
            lanes.f[i, lane] = lanes.f1[i, lane] + 0.0 if kept else lanes.f[i, lane]
        for e in unroll(range(EVENTS)):
            lanes.g[e, lane] = lanes.g1[e, lane] + 0.0 if kept else lanes.g[e, lane]
        if EVENTS > 0:
            g = tuple(lanes.g[e, lane] for e in range(EVENTS))
            finite = finite & are_numbers(g)
            met = met_here(tuple(lanes.met[e, lane] for e in range(EVENTS)), g)
            for e in unroll(range(EVENTS)):
                lanes.met[e, lane] = met[e]
        before = t[lane]
        now = t2[lane] + 0.0 if kept else before
        t[lane] = now
        if ADAPTS:
            _choose_step(lane, before, kept, active, run, lanes)
        tried[lane] += 1.0 if active else 0.0
        lanes.kept_count[lane] += 1.0 if kept else 0.0
        over = (now >= run.last) | (tried[lane] >= most) | (working[lane] > 1)
        over = over | (h[lane] <= 4.0 * EPSILON * abs(now)) | (not finite)
        if LOOKS_UP:
            q = parameters_in(lane, lanes)
            gone = active & outside(now, state_in(lane, y), q, run.frame, lanes.who[lane])
            lanes.stray[lane] = 1.0 if gone else lanes.stray[lane]
            over = over | gone | has_no_solution(lanes.whole, lane)
        if LOGS_STEPS and kept:
            number = np.int64(lanes.kept_count[lane])
            log_step(number, now, state_in(lane, y), out.step_log, lanes.who[lane])
        if len(TIMED) > 0 and kept and now >= lanes.due[lane]:
            if SCHEME > 0 and lanes.acted[lane] < 0.0:
                own_mesh.cut_cell(now, stored_in(lane, run, lanes))
            set_due(lane, lanes.who[lane], run, lanes)
        if len(INPUTS) > 0 and kept:
            _pass_knot(lane, before, run, lanes)
        ended = over & (working[lane] > 0.0)
        working[lane] += 1.0 if ended else 0.0
        ends += 1 if ended else 0
        if CELLS:
            waits += 1 if (working[lane] == 1.0) & (now >= goal[lane]) else 0
    return ends, waits


def set_due(lane, me, run, lanes):
    """Find the next time of an event that is not a crossing."""
    if len(TIMED) > 0:
        path, q = run.offset + me, parameters_in(lane, lanes)
        lanes.due[lane] = next_time(lanes.t[lane], q, run.origin, run.source, path)


def _pass_knot(lane, before, run, lanes):
    """Go on behind a knot, if a step of a lane from the time `before` ends there."""
    stored = stored_in(lane, run, lanes)
    lanes.t[lane], f = own_mesh.over_knot(
        before, lanes.t[lane], state_in(lane, lanes.y), state_in(lane, lanes.f),
        history_here(stored), parameters_in(lane, lanes), stored,
    )  # fmt: skip
    put(lane, lanes.f, f)


def _note_break(lane, run, lanes):
    """Add a breakpoint where an event cut the step of a lane short, once it was observed."""
    which = int(lanes.acted[lane])
    if which >= 0:
        stored = stored_in(lane, run, lanes)
        f1, g1 = own_mesh.note_break(
            which, lanes.t2[lane], state_in(lane, lanes.y2), state_in(lane, lanes.f2),
            state_in(lane, lanes.y1), state_in(lane, lanes.f1),
            tuple(lanes.g1[e, lane] for e in range(EVENTS)), history_here(stored),
            parameters_in(lane, lanes), stored, run.rtol, run.atol,
        )  # fmt: skip
        put(lane, lanes.f1, f1)
        for e in unroll(range(EVENTS)):
            lanes.g1[e, lane] = g1[e]


def _log_inside(lane, run, lanes, out):
    """Keep the polynomial of a lane's step, which has not been taken."""
    t, h, y = lanes.t[lane], lanes.size[lane], state_in(lane, lanes.y)
    history = history_here(stored_in(lane, run, lanes))
    entire = completed(t, h, y, stages_in(lane, lanes), history, parameters_in(lane, lanes))
    number = np.int64(lanes.kept_count[lane]) + 1
    log_inside(number, h, entire, out.step_log, lanes.who[lane])


def _observe(lane, kept, run, lanes):
    """Update the accumulators of the observables of a lane."""
    s = lanes.s
    inside = DenseStep(
        lanes.t[lane], lanes.size[lane], state_in(lane, lanes.y), stages_in(lane, lanes),
        history_here(stored_in(lane, run, lanes)), parameters_in(lane, lanes),
    )  # fmt: skip
    held = tuple(s[j, lane] for j in range(SEEN))
    after = observed_step(
        held, inside, state_in(lane, lanes.f), lanes.t2[lane], state_in(lane, lanes.y2),
        state_in(lane, lanes.f2), run.since,
    )  # fmt: skip
    for j in unroll(range(SEEN)):
        s[j, lane] = after[j] if kept else held[j]


def _choose_step(lane, before, kept, active, run, lanes):
    """Propose the next step of a lane; `before` is the time at which its last step began."""
    h, log_error, previous, t2 = lanes.h, lanes.log_error, lanes.previous, lanes.t2
    last_step_rejected = lanes.last_step_rejected
    following = next_size(
        h[lane], lanes.size[lane], log_error[lane], previous[lane], kept,
        last_step_rejected[lane] > 0, t2[lane] - before, t2[lane] < lanes.t1[lane], run.largest,
    )  # fmt: skip
    following = retried(following, before, lanes.t1[lane], lanes.soonest[lane], kept)
    h[lane] = following if active else h[lane]
    previous[lane] = max(log_error[lane], real(SMALLEST)) if kept else previous[lane]
    last_step_rejected[lane] = (0.0 if kept else 1.0) if active else last_step_rejected[lane]


@no_refcount
def leave_cell(n, now, run, lanes):
    """Update the interpolation errors at the end of a shared cell; returns how many lanes fail."""
    interpolation_error, working = lanes.interpolation_error, lanes.working
    ends = 0
    if shared_mesh.smooth_before(n, run.breaks):
        for lane in range(LANES):
            worst = cell_error(
                n, now, run.period, state_in(lane, lanes.y), run.rtol, run.atol, lanes.ring, lane
            )
            # A lane that has just ended is within a cell, which nothing will read.
            active = working[lane] == 1.0
            worst = max(worst, interpolation_error[lane]) if active else interpolation_error[lane]
            interpolation_error[lane] = worst
            ended = (worst > run.limit) & active
            working[lane] += 1.0 if ended else 0.0
            ends += 1 if ended else 0
    return ends


@no_refcount
def enter_cell(n, now, run, lanes):
    """Begin a shared cell in every lane: read its polynomials and store its first point."""
    period, origin, lags = run.period, run.origin, run.lags
    t, width, y, f, ring, pieces = lanes.t, lanes.width, lanes.y, lanes.f, lanes.ring, lanes.pieces
    if JUMPS:
        for d in unroll(range(len(PLACES))):
            if n == lags[d]:
                for lane in range(LANES):
                    y0, f0 = state_in(lane, y), state_in(lane, f)
                    keep_point(period + 1 + d, width[lane], y0, f0, ring, lane)
    for d in unroll(range(len(PLACES))):
        place = shared_mesh.stencil(d, n, now, period, lags, run.breaks)
        for lane in range(LANES):
            c = shared_mesh.read(d, place, ring, lane)
            pieces[d * (2 + COEFFICIENTS), lane] = real(n) * width[lane] + origin
            pieces[d * (2 + COEFFICIENTS) + 1, lane] = 1.0 / width[lane]
            for m in unroll(range(COEFFICIENTS)):
                pieces[d * (2 + COEFFICIENTS) + 2 + m, lane] = c[m]
    if shared_mesh.turns(n, lags):
        for lane in range(LANES):
            y0, q = state_in(lane, y), parameters_in(lane, lanes)
            history = polynomials_in(pieces, lane)
            put(lane, f, slope(t[lane], y0, delayed(t[lane], y0, history, q), q))
    for lane in range(LANES):
        keep_point(now, width[lane], state_in(lane, y), state_in(lane, f), ring, lane)
        lanes.goal[lane] = shared_mesh.end_of_cell(n, origin, width[lane], run.last)
        lanes.whole[NUMBER, lane] = n
        lanes.whole[CUT, lane] = 0


@no_refcount
def go_on(lane, run, lanes):
    """Set the next goal of a lane on its own mesh; returns 1 if its interpolation error fails."""
    t, last, interpolation_error = lanes.t, run.last, lanes.interpolation_error
    y0, q = state_in(lane, lanes.y), parameters_in(lane, lanes)
    stored = stored_in(lane, run, lanes)
    worst = free_cell_error(t[lane], y0, run.rtol, run.atol, stored)
    worst = max(worst, interpolation_error[lane])
    interpolation_error[lane] = worst
    f0, end = own_mesh.pass_goal(t[lane], y0, state_in(lane, lanes.f), q, stored)
    put(lane, lanes.f, f0)
    g0 = tuple(lanes.g[e, lane] for e in range(EVENTS))
    g0 = gaps_past_goal(g0, t[lane], y0, history_here(stored), q)
    for e in unroll(range(EVENTS)):
        lanes.g[e, lane] = g0[e]
    lanes.goal[lane] = end if end < last - near_to(last, run.origin, lanes.width[lane]) else last
    if worst > run.limit or is_lost(lanes.whole, lane):
        lanes.working[lane] = 2
        return 1
    return 0


@noinline_cpu
def end_in(lane, me, run, lanes, out):
    """Write status, counts and observables of the trajectory of a lane."""
    t, tried, working = lanes.t, lanes.tried, lanes.working
    state = state_in(lane, lanes.y)
    if OBSERVED > 0:
        kept = tuple(lanes.s[j, lane] for j in range(SEEN))
        o = observed(kept, t[lane], state, parameters_in(lane, lanes))
        for j in unroll(range(OBSERVED)):
            out.observed[j, me] = o[j]
    last_error = lanes.log_error[lane] if t[lane] < run.last else real(0.0)
    outcome = outcome_of(t[lane], lanes.h[lane], state, tried[lane], run.most, last_error)
    if EVENTS > 0 and not are_numbers(tuple(lanes.g[e, lane] for e in range(EVENTS))):
        outcome = NOT_FINITE
    if outcome != NOT_FINITE:
        if working[lane] > 2:
            outcome = STOPPED if working[lane] < 4 else STEP_TOO_SMALL
            outcome = RATE_OUT_OF_RANGE if working[lane] > 6 else outcome
        elif t[lane] >= run.last:
            outcome = DONE
        if is_interpolated_badly(lanes.interpolation_error[lane]) and (
            outcome == DONE or outcome == STOPPED
        ):
            outcome = INACCURATE
        if lanes.stray[lane] > 0.0:
            outcome = OUTSIDE
        if has_no_solution(lanes.whole, lane):
            outcome = NO_SOLUTION
    if EVENTS > 0 and outcome == DONE:
        met = all_met(tuple(lanes.met[e, lane] for e in range(EVENTS)))
        outcome = DONE if met or not lanes.t[lane] > run.origin else NOT_FINITE
    if is_lost(lanes.whole, lane):
        outcome = INACCURATE
        lanes.interpolation_error[lane] = INFINITY
    out.status[me] = outcome
    out.taken[me] = np.int64(lanes.kept_count[lane])
    out.rejected[me] = np.int64(tried[lane] - lanes.kept_count[lane])
    out.interpolation_errors[me] = lanes.interpolation_error[lane]
