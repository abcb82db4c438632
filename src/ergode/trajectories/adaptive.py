"""Steps of any size: every trajectory takes its own, with events and observables on the way.

A trajectory moves from goal to goal.  Without delays the only goal is the last time.  With delays
goals are the points of a uniform grid on which its past is kept (see `history`): within a cell of
this grid what is read of the past is one polynomial, and all trajectories pass from cell to cell
together, so that the past is read and written side by side however their steps differ.

On a GPU a thread follows one trajectory.  On a CPU a thread tries a step of LANES trajectories at
once, in a loop without branches that the compiler makes vector instructions of; lanes whose step
meets a time to be saved or an event are then looked at one by one.  A lane that has ended takes
the next trajectory.
"""

from __future__ import annotations

import numpy as np

from ergode.core.machine import cuda, real, unroll
from ergode.core.status import Status
from ergode.trajectories.control import error_size, first_step, growth
from ergode.trajectories.equations import PARAMETERS, VARIABLES, delayed, is_finite, slope
from ergode.trajectories.steps import (
    ACTS,
    DIRECTIONS,
    EVENTS,
    RECORDED,
    any_crossing,
    between,
    crosses,
    gaps_at,
    gaps_at_begin,
    gaps_here,
    locate,
    touched,
)

# Bound for each method and what is to be observed.
STAGES = 1  # that are kept of a step to know the state in between
ADAPTS = True  # or steps of one size
SEEN = 0  # numbers that observables keep
OBSERVED = 0  # numbers that they come to
EPSILON = 2.0**-52

_DONE = np.uint8(Status.DONE)
_NOT_FINITE = np.uint8(Status.NOT_FINITE)
_TOO_MANY_STEPS = np.uint8(Status.TOO_MANY_STEPS)
_STEP_TOO_SMALL = np.uint8(Status.STEP_TOO_SMALL)
_STOPPED = np.uint8(Status.STOPPED)


def step(t, h, y, f, past, p):
    """The method's step: bound for each method."""
    return y, f, (y,), y, ()


def completed(t, h, y, k, past, p):
    """Stages that the state between the ends needs: bound for each method."""
    return k


def act(event, t, y, yd, p):
    """The state after an event: bound for each set of events."""
    return y


def ends_run(event):
    """Whether an event ends the run: bound for each set of events."""
    return False


def begin_observing(t, y, p):
    """What observables keep at first: bound for each set of them."""
    return ()


def keep_observing(s, t, y, f, t1, y1, f1, p):
    """What they keep after a step."""
    return s


def observed(s, t, y, p):
    """What they come to."""
    return ()


# ---- what both targets share


def attempt(t, h, goal, y, f, past, p, rtol, atol):
    """A step towards a goal: its size, where it ends, and the logarithm of its error."""
    left = goal - t
    # What would be left for a last step, too small for its times to differ, goes with this one.
    whole = h * (1.0 + 64.0 * EPSILON) < left
    size = h if whole else left
    y1, f1, k, error, correction = step(t, size, y, f, past, p)
    miss = error_size(error, correction, y, y1, rtol, atol) if ADAPTS else real(-1.0)
    return size, (t + size if whole else goal), y1, f1, k, miss


def settle(
    t, h, t1, y, f, y1, f1, k, g0, g1, past, p,
    me, cursor, since, times, out, hit_counts, hits,
):  # fmt: skip
    """Save what falls into a step, and look for events; where the step ends, and how.

    Returns the end of the step before any event acts (time, state, slope), the state, slope and
    event functions to go on with, the next time to save, and whether the run has ended.
    """
    k = completed(t, h, y, k, past, p)
    g0 = gaps_at_begin(g0, t, h, y, k, past, p)
    stop = real(1.0)
    which = -1
    middle = gaps_at(real(0.5), t, h, y, k, past, p)
    for e in unroll(range(EVENTS)):
        if ACTS[e]:
            x = _earliest(e, g0, middle, g1, t, h, y, k, past, p)
            if x < stop or (x == 1.0 and which < 0):
                stop = x
                which = e
    for e in unroll(range(EVENTS)):
        if not ACTS[e]:
            _record_passing(
                e, stop, g0, middle, g1, t, h, y, k, past, p, me, since, hit_counts, hits
            )
    y2, f2, t2 = y1, f1, t1
    if which >= 0 and stop < 1.0:
        t2 = t + stop * h
        y2 = between(stop, y, k)
        f2 = slope(t2, y2, delayed(t2, past), p)
    while cursor < times.size and times[cursor] <= t2:
        x = (times[cursor] - t) / h
        state = between(x, y, k)
        for i in unroll(range(VARIABLES)):
            out[cursor, i, me] = y2[i] if times[cursor] == t2 else state[i]
        cursor += 1
    y3, f3, g3 = y2, f2, g1
    ended = False
    if EVENTS > 0 and which >= 0:
        _record(which, t2, y2, me, since, hit_counts, hits)
        ended = ends_run(which)
        changed = act(real(which), t2, y2, delayed(t2, past), p)
        y3 = tuple(real(changed[i]) for i in range(VARIABLES))
        f3 = slope(t2, y3, delayed(t2, past), p)
        g3 = gaps_here(t2, y3, past, p)
        g3 = tuple(touched(g3[e], g0[e], g1[e]) if which == e else g3[e] for e in range(EVENTS))
    return t2, y2, f2, y3, f3, g3, cursor, ended


def _earliest(e, g0, middle, g1, t, h, y, k, past, p):
    """Where in a step an event happens first; beyond the end if it does not."""
    if crosses(g0[e], middle[e], DIRECTIONS[e]):
        return locate(e, real(0.0), g0[e], real(0.5), middle[e], t, h, y, k, past, p)
    if crosses(middle[e], g1[e], DIRECTIONS[e]):
        return locate(e, real(0.5), middle[e], real(1.0), g1[e], t, h, y, k, past, p)
    return real(2.0)


def _record_passing(
    e, stop, g0, middle, g1, t, h, y, k, past, p, me, since, hit_counts, hits
):  # fmt: skip
    """Note every time an event happens up to where the step stops."""
    if crosses(g0[e], middle[e], DIRECTIONS[e]):
        x = locate(e, real(0.0), g0[e], real(0.5), middle[e], t, h, y, k, past, p)
        if x <= stop:
            _record(e, t + x * h, between(x, y, k), me, since, hit_counts, hits)
    if crosses(middle[e], g1[e], DIRECTIONS[e]):
        x = locate(e, real(0.5), middle[e], real(1.0), g1[e], t, h, y, k, past, p)
        if x <= stop:
            _record(e, t + x * h, between(x, y, k), me, since, hit_counts, hits)


def _record(e, t, y, me, since, hit_counts, hits):
    if t < since:
        return
    count = hit_counts[e, me]
    hit_counts[e, me] = count + 1
    if RECORDED > 0:
        slot = count % RECORDED
        hits[e, slot, 0, me] = t
        for i in unroll(range(VARIABLES)):
            hits[e, slot, 1 + i, me] = y[i]


def outcome_of(t, h, y, taken, most):
    """What has become of a trajectory that goes on; DONE if nothing has happened to it."""
    finite = True
    for i in unroll(range(VARIABLES)):
        finite = finite and is_finite(y[i])
    if not finite:
        return _NOT_FINITE
    if h <= 4.0 * EPSILON * abs(t):
        return _STEP_TOO_SMALL
    return _TOO_MANY_STEPS if taken >= most else _DONE


# ---- CUDA: a thread a trajectory


def integrate_cuda(
    times, initial, parameters, sizes, rtol, atol, largest, since, most,
    out, hit_counts, hits, seen, status, taken, rejected,
):  # fmt: skip
    """Integrate every trajectory, one a thread.

    Model: `initial` [variable, trajectory], `parameters` [parameter, trajectory], `times`.
    Control: `sizes` [trajectory] (of the first step, if above zero; of all, if steps are of one
    size), tolerances, the largest step, the time `since` which to observe, and the most steps.
    Out: `out` [time, variable, trajectory], `hit_counts` [event, trajectory], `hits` [event, hit,
    time and variables, trajectory], `seen` [observable, trajectory], `status`, `taken`, `rejected`
    [trajectory].
    """
    me = cuda.grid(1)
    if me >= status.size:
        return
    y = tuple(initial[i, me] for i in range(VARIABLES))
    p = tuple(parameters[i, me] for i in range(PARAMETERS))
    t = times[0]
    last = times[times.size - 1]
    past = ()
    f = slope(t, y, delayed(t, past), p)
    g = gaps_here(t, y, past, p)
    s = begin_observing(t, y, p)
    s = tuple(real(s[j]) for j in range(SEEN))
    for i in unroll(range(VARIABLES)):
        out[0, i, me] = y[i]
    cursor = 1
    h = sizes[me]
    h = h if h > 0.0 else first_step(t, last - t, y, f, past, p, rtol, atol)
    h = min(h, largest)
    previous = real(-9.2)
    stumbled = False
    outcome = _DONE
    step_count = np.int64(0)
    reject_count = np.int64(0)
    while t < last and outcome == _DONE:
        size, t1, y1, f1, k, miss = attempt(t, h, last, y, f, past, p, rtol, atol)
        kept = miss <= 0.0
        way, cut = size, False
        if kept:
            g1 = gaps_here(t1, y1, past, p)
            looked = t1 >= times[cursor]
            if EVENTS > 0:
                whole = completed(t, size, y, k, past, p)
                g = gaps_at_begin(g, t, size, y, whole, past, p)
                looked = looked or any_crossing(
                    g, gaps_at(real(0.5), t, size, y, whole, past, p), g1
                )
            t2, y2, f2 = t1, y1, f1
            ended = False
            if looked:
                t2, y2, f2, y1, f1, g1, cursor, ended = settle(
                    t, size, t1, y, f, y1, f1, k, g, g1, past, p,
                    me, cursor, since, times, out, hit_counts, hits,
                )  # fmt: skip
            if SEEN > 0:
                s = (
                    keep_observing(s, t, y, f, t2, y2, f2, p)
                    if t >= since
                    else begin_observing(t2, y2, p)
                )
                s = tuple(real(s[j]) for j in range(SEEN))
            way = t2 - t
            cut = t2 < t1
            t, y, f, g = t2, y1, f1, g1
            outcome = _STOPPED if ended else _DONE
            step_count += 1
        else:
            reject_count += 1
        if ADAPTS:
            factor = growth(miss, previous, kept, stumbled)
            # A step cut short by the goal says nothing against a longer one.
            h = min(max(factor * size, h) if (kept and size < h) else factor * size, largest)
            # After an event that acts, no longer than the way to it: the next may be as near.
            h = min(h, way) if cut else h
            previous = max(miss, real(-9.2)) if kept else previous
            stumbled = not kept
        if outcome == _DONE:
            outcome = outcome_of(t, h, y, step_count + reject_count, most) if t < last else _DONE
    finite = True
    for i in unroll(range(VARIABLES)):
        finite = finite and is_finite(y[i])
    outcome = outcome if finite else _NOT_FINITE
    if OBSERVED > 0:
        o = observed(s, t, y, p)
        for j in unroll(range(OBSERVED)):
            seen[j, me] = o[j]
    status[me] = outcome
    taken[me] = step_count
    rejected[me] = reject_count


# ---- CPU: a thread follows LANES trajectories

LANES = 32


def integrate_cpu(
    start, stop,
    times, initial, parameters, sizes, rtol, atol, largest, since, most,
    out, hit_counts, hits, seen, status, taken, rejected,
):  # fmt: skip
    """Integrate trajectories `start` to `stop` on one thread; arguments as `integrate_cuda`."""
    # Parts of one array, so that the compiler sees that they do not overlap.
    rows = np.empty(
        (6 * VARIABLES + STAGES * VARIABLES + PARAMETERS + 2 * EVENTS + SEEN + 13, LANES), real
    )
    y, f = rows[:VARIABLES], rows[VARIABLES : 2 * VARIABLES]
    y1, f1 = rows[2 * VARIABLES : 3 * VARIABLES], rows[3 * VARIABLES : 4 * VARIABLES]
    y2, f2 = rows[4 * VARIABLES : 5 * VARIABLES], rows[5 * VARIABLES : 6 * VARIABLES]
    k = rows[6 * VARIABLES : (6 + STAGES) * VARIABLES]
    p = rows[(6 + STAGES) * VARIABLES : (6 + STAGES) * VARIABLES + PARAMETERS]
    rest = rows[(6 + STAGES) * VARIABLES + PARAMETERS :]
    g, g1, s = rest[:EVENTS], rest[EVENTS : 2 * EVENTS], rest[2 * EVENTS : 2 * EVENTS + SEEN]
    single = rest[2 * EVENTS + SEEN :]
    t, t1, t2, h, size = single[0], single[1], single[2], single[3], single[4]
    miss, previous, soonest, looked = single[5], single[6], single[7], single[8]
    stumbled, working, tried, kept_count = single[9], single[10], single[11], single[12]
    who, cursor = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    last = times[times.size - 1]
    following = start
    for lane in range(LANES):
        # Lanes without a trajectory of their own do the work of the first, to no end.
        who[lane] = following if following < stop else start
        working[lane] = 1 if following < stop else 0
        _begin(
            lane, who[lane], times, initial, parameters, sizes, rtol, atol, largest,
            t, h, y, f, p, g, s, previous, stumbled, tried, kept_count, cursor, soonest, out,
        )  # fmt: skip
        following += 1
    count = min(stop - start, LANES)
    while count > 0:
        looks = _try(
            last, rtol, atol, since, most, t, t1, t2, h, size, miss, y, f, y1, f1, y2, f2, k, p,
            g, g1, soonest, looked, working,
        )  # fmt: skip
        if looks > 0:
            for lane in range(LANES):
                if looked[lane] > 0:
                    _look(
                        lane, who[lane], since, times, t, t1, t2, h, size, y, f, y1, f1, y2, f2, k,
                        p, g, g1, cursor, soonest, working, out, hit_counts, hits,
                    )  # fmt: skip
        ends = _commit(
            last, largest, since, most, t, t1, t2, h, size, miss, y, f, y1, f1, y2, f2, p, g, g1,
            s, previous, stumbled, tried, kept_count, working,
        )  # fmt: skip
        if ends > 0:
            for lane in range(LANES):
                if working[lane] > 1:
                    _end(
                        lane, who[lane], last, most, t, h, y, p, s, tried, kept_count, working,
                        seen, status, taken, rejected,
                    )  # fmt: skip
                    working[lane] = 0
                    count -= 1
                    if following < stop:
                        who[lane] = following
                        working[lane] = 1
                        _begin(
                            lane, following, times, initial, parameters, sizes, rtol, atol,
                            largest, t, h, y, f, p, g, s, previous, stumbled, tried, kept_count,
                            cursor, soonest, out,
                        )  # fmt: skip
                        following += 1
                        count += 1


def _begin(
    lane, me, times, initial, parameters, sizes, rtol, atol, largest,
    t, h, y, f, p, g, s, previous, stumbled, tried, kept_count, cursor, soonest, out,
):  # fmt: skip
    """Put a trajectory into a lane."""
    y0 = tuple(initial[i, me] for i in range(VARIABLES))
    q = tuple(parameters[i, me] for i in range(PARAMETERS))
    begin = times[0]
    past = ()
    f0 = slope(begin, y0, delayed(begin, past), q)
    g0 = gaps_here(begin, y0, past, q)
    s0 = begin_observing(begin, y0, q)
    wanted = sizes[me]
    span = times[times.size - 1] - begin
    wanted = wanted if wanted > 0.0 else first_step(begin, span, y0, f0, past, q, rtol, atol)
    for i in unroll(range(VARIABLES)):
        y[i, lane] = y0[i]
        f[i, lane] = f0[i]
        out[0, i, me] = y0[i]
    for i in unroll(range(PARAMETERS)):
        p[i, lane] = q[i]
    for e in unroll(range(EVENTS)):
        g[e, lane] = g0[e]
    for j in unroll(range(SEEN)):
        s[j, lane] = s0[j]
    t[lane] = begin
    h[lane] = min(wanted, largest)
    previous[lane] = -9.2
    stumbled[lane] = 0
    tried[lane] = 0
    kept_count[lane] = 0
    cursor[lane] = 1
    soonest[lane] = times[1] if times.size > 1 else begin


def _try(
    goal, rtol, atol, since, most, t, t1, t2, h, size, miss, y, f, y1, f1, y2, f2, k, p,
    g, g1, soonest, looked, working,
):  # fmt: skip
    """A step of every lane, and how many of them have to be looked at."""
    looks = 0
    for lane in range(LANES):
        y0 = tuple(y[i, lane] for i in range(VARIABLES))
        f0 = tuple(f[i, lane] for i in range(VARIABLES))
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        past = ()
        step_size, end, y_end, f_end, stages, error = attempt(
            t[lane], h[lane], goal, y0, f0, past, q, rtol, atol
        )
        found = end >= soonest[lane]
        if EVENTS > 0:
            g_end = gaps_here(end, y_end, past, q)
            whole = completed(t[lane], step_size, y0, stages, past, q)
            middle = gaps_at(real(0.5), t[lane], step_size, y0, whole, past, q)
            g0 = tuple(g[e, lane] for e in range(EVENTS))
            g0 = gaps_at_begin(g0, t[lane], step_size, y0, whole, past, q)
            found = found | any_crossing(g0, middle, g_end)
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
        looked[lane] = 1.0 if look else 0.0
        looks += 1 if look else 0
    return looks


def _look(
    lane, me, since, times, t, t1, t2, h, size, y, f, y1, f1, y2, f2, k,
    p, g, g1, cursor, soonest, working, out, hit_counts, hits,
):  # fmt: skip
    """Save and find events in the step of one lane."""
    q = tuple(p[i, lane] for i in range(PARAMETERS))
    past = ()
    end, y_end, f_end, y_next, f_next, g_next, next_time, ended = settle(
        t[lane], size[lane], t1[lane],
        tuple(y[i, lane] for i in range(VARIABLES)),
        tuple(f[i, lane] for i in range(VARIABLES)),
        tuple(y1[i, lane] for i in range(VARIABLES)),
        tuple(f1[i, lane] for i in range(VARIABLES)),
        tuple(tuple(k[j * VARIABLES + i, lane] for i in range(VARIABLES)) for j in range(STAGES)),
        tuple(g[e, lane] for e in range(EVENTS)),
        tuple(g1[e, lane] for e in range(EVENTS)),
        past, q, me, cursor[lane], since, times, out, hit_counts, hits,
    )  # fmt: skip
    for i in unroll(range(VARIABLES)):
        y1[i, lane] = y_next[i]
        f1[i, lane] = f_next[i]
        y2[i, lane] = y_end[i]
        f2[i, lane] = f_end[i]
    for e in unroll(range(EVENTS)):
        g1[e, lane] = g_next[e]
    t2[lane] = end
    cursor[lane] = next_time
    soonest[lane] = times[next_time] if next_time < times.size else 2.0 * abs(times[-1]) + 1.0
    if ended:
        working[lane] = 2


def _commit(
    last, largest, since, most, t, t1, t2, h, size, miss, y, f, y1, f1, y2, f2, p, g, g1,
    s, previous, stumbled, tried, kept_count, working,
):  # fmt: skip
    """Take the steps that can be kept; how many lanes have ended."""
    ends = 0
    for lane in range(LANES):
        kept = (miss[lane] <= 0.0) & (working[lane] > 0)
        if SEEN > 0:
            q = tuple(p[i, lane] for i in range(PARAMETERS))
            held = tuple(s[j, lane] for j in range(SEEN))
            y_end = tuple(y2[i, lane] for i in range(VARIABLES))
            after = keep_observing(
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
            state = y1[i, lane] if kept else y[i, lane]
            finite = finite & is_finite(state)
            y[i, lane] = state
            f[i, lane] = f1[i, lane] if kept else f[i, lane]
        for e in unroll(range(EVENTS)):
            g[e, lane] = g1[e, lane] if kept else g[e, lane]
        before = t[lane]
        now = t2[lane] if kept else before
        t[lane] = now
        if ADAPTS:
            factor = growth(miss[lane], previous[lane], kept, stumbled[lane] > 0)
            following = factor * size[lane]
            following = max(following, h[lane]) if kept & (size[lane] < h[lane]) else following
            # After an event that acts, no longer than the way to it: the next may be as near.
            following = min(following, t2[lane] - before) if t2[lane] < t1[lane] else following
            h[lane] = min(following, largest)
            previous[lane] = max(miss[lane], real(-9.2)) if kept else previous[lane]
            stumbled[lane] = 0.0 if kept else 1.0
        tried[lane] += 1.0
        kept_count[lane] += 1.0 if kept else 0.0
        over = (now >= last) | (tried[lane] >= most) | (working[lane] > 1)
        over = over | (h[lane] <= 4.0 * EPSILON * abs(now)) | (not finite)
        ended = over & (working[lane] > 0.0)
        working[lane] += 1.0 if ended else 0.0
        ends += 1 if ended else 0
    return ends


def _end(
    lane, me, last, most, t, h, y, p, s, tried, kept_count, working,
    seen, status, taken, rejected,
):  # fmt: skip
    """Note how the trajectory of a lane ended."""
    state = tuple(y[i, lane] for i in range(VARIABLES))
    if OBSERVED > 0:
        q = tuple(p[i, lane] for i in range(PARAMETERS))
        o = observed(tuple(s[j, lane] for j in range(SEEN)), t[lane], state, q)
        for j in unroll(range(OBSERVED)):
            seen[j, me] = o[j]
    outcome = outcome_of(t[lane], h[lane], state, tried[lane], most)
    if outcome != _NOT_FINITE:
        if working[lane] > 2:
            outcome = _STOPPED
        elif t[lane] >= last:
            outcome = _DONE
    status[me] = outcome
    taken[me] = np.int64(kept_count[lane])
    rejected[me] = np.int64(tried[lane] - kept_count[lane])
