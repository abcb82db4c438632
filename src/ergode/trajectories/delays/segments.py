"""The history of trajectories with adaptive steps: a mesh of cells with one polynomial per cell.

Value and slope are stored at the ends of cells of equal width, independent of the steps
(`history_ring` describes the ring buffer).  Within a cell a delayed value is one polynomial.  Its
coefficients are computed once and evaluated at every stage; a step ends where the polynomial ends.
The polynomial is the Hermite interpolant of values and slopes at three points: both ends of the
cell and the point before it, or the point after it if the cell begins at a breaking point.  Methods
of low order use both ends only.

Breaking points ("breakpoints" in the code) are times at which a derivative of the solution jumps.

`SHARED`: every delay is a whole number of cells, and this number is equal for all trajectories;
only the widths differ.  All trajectories enter a cell together, with coalesced reads and writes.
All breaking points are ends of cells.

Not `SHARED`: every trajectory has its own mesh and its own breaking points: its beginning, jumps of
its history, and events that change its state.  Each breaking point propagates: one delay later, the
next higher derivative jumps.  The polynomial of a delay changes one delay after the end of a cell
and one delay after a breaking point.  The most recent breaking points are stored with values and
slopes from both sides, so that no polynomial crosses one.

`LOOKS_UP`: delays depend on the state, and every stage searches the ring for its cell.

The interpolation error is estimated at the end of a cell.  The quintic through the three points
before this end, extrapolated to it, has 243 times its largest error within a cell.

A. Bellen, M. Zennaro, "Numerical Methods for Delay Differential Equations" (2003), chapters 2 to 4.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.delays.history_ring import (
    DELAYED,
    JUMPS,
    history_slopes,
    history_values,
    slot_of,
)
from ergode.trajectories.delays.interpolants import cubic, point, quintic, through
from ergode.trajectories.steppers.equations import (
    COEFFICIENTS,
    EPSILON,
    INFINITY,
    LOOKS_UP,
    PLACES,
    VARIABLES,
    delayed,
    derivative,
    polynomial,
    slope,
)
from ergode.trajectories.steppers.inside_step import EDGES, EVENTS, KEPT, gaps_here
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import absolute

CELLS = option(False)  # whether there is a mesh: with delays, or with noise
SHARED = option(False)  # whether all trajectories share the mesh
TAUS = option(())  # index of each delay's parameter
SAMPLED = option(False)  # whether the history is given as samples
HISTORY_JUMPS = option(0)  # number of jumps of the history
PROPAGATES = option(True)  # whether any delayed variable depends on delayed values
lags_of = option()  # lags_of(t, y, p): value of every delay, if delays depend on the state

# Integers of a trajectory on its own mesh: cell number, slot of the cell, breakpoints made so far,
# how often events truncated a step in this cell, a fault, breakpoints above `_LOW` made in this
# cell; then for each delay the cell that it reads, and for each delay its next breakpoint.
NUMBER, NOW, MADE, CUT, FAULT, CROWD, READ = 0, 1, 2, 3, 4, 5, 6
WHOLES = 6
# Rows of a breakpoint: time, order of the first derivative that jumps; then for each delayed
# variable value and slope before, value and slope after; then for each delayed variable the size of
# the jump of that derivative, where a quick delay has made the breakpoint.

_LOST = 1  # fault: an unread breakpoint was overwritten
_ENDLESS = 2  # fault: the equations have no solution after the present time
_SMOOTH = 5  # jumps of derivatives above this order are ignored
# A jump that changes the state less within a cell is ignored [tolerance]: the polynomial of the
# cell then misses a small part of this.
_FELT = 50.0
_LOW = 2  # jumps of derivatives up to this order are not ignored
_MOST_IN_CELL = 4  # breakpoints above this order; a cell with more is too wide
_TOO_WIDE = 20.0  # interpolation error of such a cell: the next mesh is twice as fine
_STILL = 1e-5  # a delayed time that changes less per unit of time may move in either direction
_REACH = 8.0  # lengths of its piece, beyond which a polynomial goes on as a line
_FAR = 2.0  # position of the next point, in the coordinate of the cell before
# Largest error of a polynomial within a cell, relative to its error at the next point.
_PART = 1.0 / 243.0
_PART_CUBIC = 1.0 / 64.0


class StoredHistory(NamedTuple):
    """History buffers of many trajectories, and the index `me` of one of them."""

    ring: Any  # real [slot, delayed variable, 2, trajectory]
    breakpoints: Any  # real [breakpoint, row, trajectory]
    whole: Any  # int64 [NUMBER ..., trajectory]
    pieces: Any  # real [row, trajectory]: present polynomial of each delay
    period: Any  # slots of the ring
    origin: Any  # first time
    width: Any  # width of a cell [time]
    me: Any  # index of the trajectory


def fill_history(period, origin, width, y, given, jumps, column, ring, me):
    """Write the history of one trajectory; slot `period` holds its end, with the left-hand limit.

    Slopes are finite differences whose stencil crosses no jump of the history.
    """
    for slot in range(1, period + 1):
        if SAMPLED:
            place = column if given.shape[3] > 1 else 0
            for v in unroll(range(len(DELAYED))):
                ring[slot, v, 0, me] = given[slot, v, 0, place]
                ring[slot, v, 1, me] = given[slot, v, 1, place]
        else:
            t = fma(real(slot - period), width, origin)
            ahead, back = (real(0.0), width) if slot == period else (width, width)
            for j in range(HISTORY_JUMPS):
                way = jumps[j, 0] - t
                if abs(way) <= near_to(t, origin, width):
                    back = real(0.0)
                elif way > 0.0:
                    ahead = min(ahead, 0.99 * way)
                else:
                    back = min(back, -0.99 * way)
            reach = ahead if ahead >= back else -back
            values = history_values(t, y)
            slopes = history_slopes(t, reach, y)
            scale = width / abs(reach)
            for v in unroll(range(len(DELAYED))):
                ring[slot, v, 0, me] = values[DELAYED[v]]
                ring[slot, v, 1, me] = scale * slopes[DELAYED[v]]


def keep_point(slot, width, y, f, ring, me):
    """Store value and slope of a point in the ring."""
    for v in unroll(range(len(DELAYED))):
        ring[slot, v, 0, me] = y[DELAYED[v]]
        ring[slot, v, 1, me] = width * f[DELAYED[v]]


def near_to(t, origin, width):
    """Largest difference of two times that are equal up to rounding."""
    return 64.0 * EPSILON * (abs(t) + abs(origin) + width)


def cell_error(n, now, period, y, rtol, atol, ring, me):
    """Interpolation error, in units of the tolerance, estimated at the end of cell `n`."""
    worst = real(0.0)
    for v in unroll(range(len(DELAYED))):
        c = through(
            point(ring, slot_of(n - 1, n, now, period), v, me),
            point(ring, now, v, me),
            point(ring, slot_of(n - 2, n, now, period), v, me),
            real(-1.0),
        )
        value = y[DELAYED[v]]
        off = abs(value - polynomial(real(_FAR), c)) / fma(
            rtol, abs(value), absolute(atol, DELAYED[v])
        )
        worst = max(worst, (_PART_CUBIC if COEFFICIENTS == 4 else _PART) * off)
    return worst


# ---- one mesh per trajectory


def make_breakpoint(t, level, y, f, y1, f1, stored):
    """Store a breakpoint; `level` is the order of the first derivative that jumps."""
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    if len(PLACES) > 0:
        made = whole[MADE, me]
        for d in unroll(range(len(PLACES))):
            # The breakpoint before the present polynomial is still needed.
            if made - breakpoints.shape[0] >= whole[READ + len(PLACES) + d, me] - 1:
                whole[FAULT, me] = _LOST
        k = made % breakpoints.shape[0]
        breakpoints[k, 0, me] = t
        breakpoints[k, 1, me] = real(level)
        for v in unroll(range(len(DELAYED))):
            breakpoints[k, 2 + 4 * v, me] = y[DELAYED[v]]
            breakpoints[k, 3 + 4 * v, me] = f[DELAYED[v]]
            breakpoints[k, 4 + 4 * v, me] = y1[DELAYED[v]]
            breakpoints[k, 5 + 4 * v, me] = f1[DELAYED[v]]
            breakpoints[k, 2 + 4 * len(DELAYED) + v, me] = 0.0
        whole[MADE, me] = made + 1
        cell_begin = fma(real(whole[NUMBER, me]), stored.width, stored.origin)
        if t <= cell_begin + near_to(t, stored.origin, stored.width):
            # The polynomials of this cell begin after the jump.
            keep_point(whole[NOW, me], stored.width, y1, f1, stored.ring, me)


def is_lost(whole, me):
    """Whether an unread breakpoint was overwritten: delayed values are wrong from then on."""
    return CELLS and not SHARED and whole[FAULT, me] == _LOST


def has_no_solution(whole, me):
    """Whether the equations have no solution after the present time (see `pass_edge`)."""
    return LOOKS_UP and whole[FAULT, me] == _ENDLESS


def note_break(which, t, y, f, y1, f1, g1, history, p, stored, rtol, atol):
    """After event `which` truncated a step: make a breakpoint; returns slope, event functions."""
    if LOOKS_UP and which >= EVENTS - EDGES:
        f1 = pass_edge(which - EVENTS + EDGES, t, y, f, history, p, rtol, atol)
        g1 = gaps_here(t, y1, history, p)
    else:
        if LOOKS_UP:
            # The delays follow the state, and may have jumped over breakpoints.
            find_pieces(t, y1, f1, p, stored)
            f1 = slope(t, y1, looked_up(t, y1, history, p), p)
            found = gaps_here(t, y1, history, p)
            g1 = tuple(
                found[e] if abs(g1[e]) > 8.0 * KEPT or e >= EVENTS - EDGES else g1[e]
                for e in range(EVENTS)
            )
        make_breakpoint(t, 0, y, f, y1, f1, stored)
    stored.whole[CUT, stored.me] += 1
    return f1, g1


def begin_free(t, y, p, given, jumps, column, stored):
    """Initialise history and breakpoints of a trajectory; returns its slope and first goal.

    The goal is the first time if there is no solution.
    """
    ring, breakpoints, whole, me = stored.ring, stored.breakpoints, stored.whole, stored.me
    period, width = stored.period, stored.width
    for j in unroll(range(WHOLES + 2 * len(PLACES))):
        whole[j, me] = 0
    if len(PLACES) > 0:
        fill_history(period, t, width, y, given, jumps, column, ring, me)
        for j in range(HISTORY_JUMPS):
            for row in range(jumps.shape[1]):
                breakpoints[j, row, me] = jumps[j, row]
        made = HISTORY_JUMPS
        whole[MADE, me] = made + 1
        breakpoints[made, 0, me] = t
        breakpoints[made, 1, me] = 0.0 if JUMPS else 1.0
        for v in unroll(range(len(DELAYED))):
            breakpoints[made, 2 + 4 * v, me] = ring[period, v, 0, me]
            breakpoints[made, 3 + 4 * v, me] = ring[period, v, 1, me] / width
            breakpoints[made, 4 + 4 * v, me] = y[DELAYED[v]]
            breakpoints[made, 5 + 4 * v, me] = 0.0  # the slope, set below; not read before
            breakpoints[made, 2 + 4 * len(DELAYED) + v, me] = 0.0
        for d in unroll(range(len(TAUS))):
            earlier = t - p[TAUS[d]]
            whole[READ + d, me] = -math.ceil(p[TAUS[d]] / width * (1.0 - 64.0 * EPSILON))
            after = 0
            for j in range(HISTORY_JUMPS):
                after += 1 if jumps[j, 0] <= earlier + near_to(t, earlier, width) else 0
            whole[READ + len(PLACES) + d, me] = after
        if LOOKS_UP:
            lags = lags_of(t, y, p)
            for d in unroll(range(len(PLACES))):
                after = 0
                for j in range(HISTORY_JUMPS):
                    after += 1 if jumps[j, 0] <= t - real(lags[d]) else 0
                whole[READ + len(PLACES) + d, me] = after
    goal = read_all(p, stored)
    f = slope(t, y, delayed(t, y, history_here(stored), p), p)
    if LOOKS_UP and HISTORY_JUMPS > 0:  # a delayed time that begins on a jump may move back
        before, rates = _next_breakpoints(stored), _rates(t, y, f, p, stored)
        find_pieces(t, y, f, p, stored)
        f = slope(t, y, looked_up(t, y, stored, p), p)
        _check_motion(t, y, f, p, before, rates, stored)
    if len(PLACES) > 0:
        for v in unroll(range(len(DELAYED))):
            breakpoints[HISTORY_JUMPS, 5 + 4 * v, me] = f[DELAYED[v]]
        keep_point(0, width, y, f, ring, me)
    return f, t if has_no_solution(whole, me) else goal


def pass_goal(t, y, f, p, stored):
    """At a goal: advance cells and breakpoints; returns the slope and the next goal."""
    ring, breakpoints, whole, me = stored.ring, stored.breakpoints, stored.whole, stored.me
    period, origin, width = stored.period, stored.origin, stored.width
    near = near_to(t, origin, width)
    level = _SMOOTH + 1
    for d in unroll(range(len(TAUS))):
        tau = p[TAUS[d]]
        late = near_to(t, tau, width)
        following = whole[READ + len(PLACES) + d, me]
        while following < whole[MADE, me]:
            k = following % breakpoints.shape[0]
            if breakpoints[k, 0, me] + tau > t + late:
                break
            level = min(level, int(breakpoints[k, 1, me]) + 1)
            following += 1
        whole[READ + len(PLACES) + d, me] = following
        while fma(real(whole[READ + d, me] + 1), width, origin) + tau <= t + near + late:
            whole[READ + d, me] += 1
    if fma(real(whole[NUMBER, me] + 1), width, origin) <= t + near:
        whole[NUMBER, me] += 1
        whole[NOW, me] = whole[NOW, me] + 1 if whole[NOW, me] + 1 < period else 0
        whole[CUT, me] = 0
        whole[CROWD, me] = 0
        keep_point(whole[NOW, me], width, y, f, ring, me)
    goal = read_all(p, stored)
    f1 = f
    if level <= _SMOOTH:
        f1 = slope(t, y, delayed(t, y, history_here(stored), p), p)
        make_breakpoint(t, level, y, f, y, f1, stored)
    return f1, goal


def read_all(p, stored):
    """Compute the polynomial of every delay; returns the goal, where the first polynomial ends."""
    whole, pieces, me = stored.whole, stored.pieces, stored.me
    goal = fma(real(whole[NUMBER, me] + 1), stored.width, stored.origin)
    rows = 2 + COEFFICIENTS
    for d in unroll(range(len(TAUS))):
        tau = p[TAUS[d]]
        begin, end, c = piece(d, whole[READ + d, me], stored)
        pieces[d * rows, me] = begin + tau
        pieces[d * rows + 1, me] = 1.0 / (end - begin)
        for m in unroll(range(COEFFICIENTS)):
            pieces[d * rows + 2 + m, me] = c[m]
        goal = min(goal, end + tau)
    return goal


def piece(d, cell, stored):
    """Polynomial of delay `d` in `cell`, cut at breakpoints: beginning, end, coefficients."""
    ring, breakpoints, whole, me = stored.ring, stored.breakpoints, stored.whole, stored.me
    period, origin, width = stored.period, stored.origin, stored.width
    following = whole[READ + len(PLACES) + d, me]
    n, now = whole[NUMBER, me], whole[NOW, me]
    v = PLACES[d]
    begin = fma(real(cell), width, origin)
    end = fma(real(cell + 1), width, origin)
    near = near_to(begin, origin, width)
    v0, s0 = point(ring, slot_of(cell, n, now, period), v, me)
    v1, s1 = point(ring, slot_of(cell + 1, n, now, period), v, me)
    s0, s1 = s0 / width, s1 / width
    third = begin - width
    forward = False
    if following > 0:
        k = (following - 1) % breakpoints.shape[0]
        forward = breakpoints[k, 0, me] > third + near
        if breakpoints[k, 0, me] >= begin - near:
            begin = max(begin, breakpoints[k, 0, me])
            v0, s0 = breakpoints[k, 4 + 4 * v, me], breakpoints[k, 5 + 4 * v, me]
    found = not forward
    if forward:
        third = fma(real(cell + 2), width, origin)
        found = cell + 2 <= n
    if following < whole[MADE, me]:
        k = following % breakpoints.shape[0]
        if breakpoints[k, 0, me] <= end + near:
            end = breakpoints[k, 0, me] if breakpoints[k, 0, me] < end - near else end
            v1, s1 = breakpoints[k, 2 + 4 * v, me], breakpoints[k, 3 + 4 * v, me]
            found = found and not forward
        elif forward:
            found = found and breakpoints[k, 0, me] > third + near
    length = end - begin
    if SCHEME > 0:
        return begin, end, (v0, v1 - v0, real(0.0), real(0.0))
    first, second = (v0, length * s0), (v1, length * s1)
    if COEFFICIENTS == 4:
        return begin, end, cubic(first, second)
    c = cubic(first, second) + (real(0.0), real(0.0))  # noqa: RUF005
    if found:
        v2, s2 = point(ring, slot_of(cell + 2 if forward else cell - 1, n, now, period), v, me)
        c = quintic(first, second, (v2, length * (s2 / width)), (third - begin) / length)
    return begin, end, c


def history_here(stored):
    """History argument of the stages of the present step (see `equations.delayed`)."""
    if LOOKS_UP:
        return stored
    return polynomials_in(stored.pieces, stored.me)


def polynomials_in(pieces, me):
    """Present polynomial of every delay: (beginning, 1 / duration, coefficients)."""
    return tuple(
        (
            pieces[d * (2 + COEFFICIENTS), me],
            pieces[d * (2 + COEFFICIENTS) + 1, me],
            tuple(pieces[d * (2 + COEFFICIENTS) + 2 + m, me] for m in range(COEFFICIENTS)),
        )
        for d in range(len(PLACES))
    )


def free_cell_error(t, y, rtol, atol, stored):
    """`cell_error` at a goal of a trajectory with its own mesh; 0 near a breakpoint.

    Many breakpoints within a cell are those of a quick delay, which a finer mesh need not have.
    """
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    origin, width = stored.origin, stored.width
    n = whole[NUMBER, me]
    if is_lost(whole, me):
        return real(INFINITY)
    if whole[CROWD, me] > _MOST_IN_CELL:
        return real(_TOO_WIDE)
    if len(PLACES) == 0 or n < 2:
        return real(0.0)
    last = breakpoints[(whole[MADE, me] - 1) % breakpoints.shape[0], 0, me]
    if last > fma(real(n - 2), width, origin) + near_to(t, origin, width):
        return real(0.0)
    if fma(real(n + 1), width, origin) > t + near_to(t, origin, width):
        return real(0.0)  # this goal is the end of a polynomial, not of a cell
    return cell_error(n, whole[NOW, me], stored.period, y, rtol, atol, stored.ring, me)


# ---- state-dependent delays


def looked_up(t, y, history, p):
    """Delayed values, each looked up in the ring."""
    lags = lags_of(t, y, p)
    return tuple(_look_up(d, t - real(lags[d]), history) for d in range(len(PLACES)))


def _look_up(d, s, stored):
    """History at the time `s`, limited to the smooth piece between two breakpoints.

    Beyond a breakpoint that has not been passed, the polynomial is extrapolated; far from a short
    piece, linearly.  Outside the ring, `s` is read from the nearest cell in it.
    """
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    period, origin, width = stored.period, stored.origin, stored.width
    following, n = whole[READ + len(PLACES) + d, me], whole[NUMBER, me]
    lowest, highest = n - period + 3, n - 1
    if following > 0:
        before = breakpoints[(following - 1) % breakpoints.shape[0], 0, me]
        before = (before + near_to(before, origin, width) - origin) / width
        lowest = max(lowest, np.int64(math.floor(before)))
    if following < whole[MADE, me]:
        after = breakpoints[following % breakpoints.shape[0], 0, me]
        after = (after - near_to(after, origin, width) - origin) / width
        highest = min(highest, np.int64(math.ceil(after)) - 1)
    x = (s - origin) / width
    # These comparisons also move NaN into the ring.
    x = x if x > real(lowest) else real(lowest)
    x = x if x < real(highest) else real(highest)
    # On CUDA `math.floor` returns a float.
    cell = np.int64(math.floor(x))
    begin, end, c = piece(d, cell, stored)
    x = (s - begin) / (end - begin)
    near_by = min(max(x, real(-_REACH)), real(_REACH))
    value = polynomial(near_by, c)
    if x != near_by:
        value = value + (x - near_by) * derivative(near_by, c)
    return value


def edges(t, y, history, p):
    """Event function of every delay: it becomes negative where the delay passes a breakpoint."""
    lags = lags_of(t, y, p)
    return tuple(_edge(d, t - real(lags[d]), history) for d in range(len(PLACES)))


def _edge(d, s, stored):
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    following = whole[READ + len(PLACES) + d, me]
    inside = real(1.0)
    if following > 0:
        inside = s - breakpoints[(following - 1) % breakpoints.shape[0], 0, me]
    if following < whole[MADE, me]:
        inside = inside * (breakpoints[following % breakpoints.shape[0], 0, me] - s)
    return inside


def pass_edge(edge, t, y, f, history, p, rtol, atol):
    """Continue after delay number `edge` has passed a breakpoint; returns the slope.

    If the delayed value jumps there, so does the slope.  If with the new slope the delayed time
    moves back, and with the old one ahead, neither piece has a solution that goes on.

    A jump that is not felt makes no breakpoint.  A quick delay passes each one many times, so that
    the number of breakpoints would grow like a power of its frequency.
    """
    breakpoints, whole, me = history.breakpoints, history.whole, history.me
    size = breakpoints.shape[0]
    row = READ + len(PLACES) + edge
    known, rates = _next_breakpoints(history), _rates(t, y, f, p, history)
    following = whole[row, me]
    level = find_pieces(t, y, f, p, history)
    if whole[row, me] == following:  # the time of an event has an error
        lags, s, rate = lags_of(t, y, p), t, real(0.0)
        for d in unroll(range(len(PLACES))):
            s = t - real(lags[d]) if d == edge else s
            rate = rates[d] if d == edge else rate
        before = s - breakpoints[(following - 1) % size, 0, me]
        after = breakpoints[following % size, 0, me] - s
        if rate >= 0.0 and following < whole[MADE, me] and (following == 0 or after <= before):
            level = min(level, _next_piece(edge, 1, history))
        elif rate < 0.0 and following > 0 and (following == whole[MADE, me] or before <= after):
            level = min(level, _next_piece(edge, -1, history))
    f1 = slope(t, y, looked_up(t, y, history, p), p)
    _check_motion(t, y, f1, p, known, rates, history)
    if PROPAGATES and level <= _SMOOTH:
        changes = _size_of_jump(t, y, f1, level, known, rates, history, p)
        if _is_felt(level, changes, y, history.width, rtol, atol):
            _make_felt_breakpoint(t, level, y, f, f1, changes, history)
    return f1


def _size_of_jump(t, y, f, level, known, rates, stored, p):
    """Change of every slope one cell after a jump of its derivative of order `level` - 1.

    The delays have passed the breakpoints between the ones `known` before and their next ones now.
    A jump J of the derivative of order m changes the delayed value by J s^m / m! after a way s.
    """
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    width, kept = stored.width, 2 + 4 * len(DELAYED)
    ahead = tuple(fma(width, f[i], y[i]) for i in range(VARIABLES))
    lags, later = lags_of(t, y, p), lags_of(t + width, ahead, p)
    values = looked_up(t, y, stored, p)
    others = values
    for d in unroll(range(len(PLACES))):
        following = whole[READ + len(PLACES) + d, me]
        way = max(abs(rates[d]) * width, abs(width - real(later[d]) + real(lags[d])))
        change, v = real(0.0), PLACES[d]
        for passed in range(min(known[d], following), max(known[d], following)):
            k = passed % breakpoints.shape[0]
            power = real(1.0)
            for m in range(int(breakpoints[k, 1, me])):
                power *= way / real(m + 1)
            change += abs(breakpoints[k, 4 + 4 * v, me] - breakpoints[k, 2 + 4 * v, me])
            change += way * abs(breakpoints[k, 5 + 4 * v, me] - breakpoints[k, 3 + 4 * v, me])
            change += power * breakpoints[k, kept + v, me]
        others = tuple(others[c] + change if c == d else others[c] for c in range(len(PLACES)))
    before, after = slope(t, y, values, p), slope(t, y, others, p)
    return tuple(abs(after[i] - before[i]) for i in range(VARIABLES))


def _is_felt(level, changes, y, width, rtol, atol):
    """Whether a jump with these `changes` of slopes within a cell changes the state there."""
    felt = level <= _LOW
    for i in unroll(range(VARIABLES)):
        allowed = _FELT * real(level) / width * fma(rtol, abs(y[i]), absolute(atol, i))
        felt = felt or not changes[i] <= allowed  # NaN is felt
    return felt


def _make_felt_breakpoint(t, level, y, f, f1, changes, stored):
    """Store a breakpoint with the size of the jump of its derivative of order `level`."""
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    make_breakpoint(t, level, y, f, y, f1, stored)
    whole[CROWD, me] += 1 if level > _LOW else 0
    per = real(1.0)
    for m in range(1, level):
        per *= real(m) / stored.width
    k = (whole[MADE, me] - 1) % breakpoints.shape[0]
    for v in unroll(range(len(DELAYED))):
        breakpoints[k, 2 + 4 * len(DELAYED) + v, me] = per * changes[DELAYED[v]]


def _next_breakpoints(stored):
    """The next breakpoint of every delay."""
    return tuple(stored.whole[READ + len(PLACES) + d, stored.me] for d in range(len(PLACES)))


def _check_motion(t, y, f, p, known, rates, stored):
    """Note if a delayed time that has left a piece at these `rates` moves back into it.

    `known` are the next breakpoints in that piece, and `f` is the slope after it.
    """
    whole, me = stored.whole, stored.me
    found = _rates(t, y, f, p, stored)
    for d in unroll(range(len(PLACES))):
        way = real(whole[READ + len(PLACES) + d, me] - known[d])
        turns_back = way * rates[d] > 0.0 and way * found[d] < -_STILL
        if SCHEME == 0 and turns_back and whole[FAULT, me] == 0:
            whole[FAULT, me] = _ENDLESS


def _rates(t, y, f, p, stored):
    """Change of every delayed time per unit of time, where the state has the slope `f`."""
    soon = t + 64.0 * math.sqrt(EPSILON) * stored.width
    apart = soon - t
    lags = lags_of(t, y, p)
    later = lags_of(soon, tuple(fma(apart, f[i], y[i]) for i in range(VARIABLES)), p)
    return tuple((real(lags[d]) - real(later[d]) + apart) / apart for d in range(len(PLACES)))


def find_pieces(t, y, f, p, stored):
    """Find the smooth piece of the history that every delay reads from now on.

    Returns the order of the first derivative that jumps.
    """
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    size, made = breakpoints.shape[0], whole[MADE, me]
    lags, rates = lags_of(t, y, p), _rates(t, y, f, p, stored)
    level = _SMOOTH + 1
    for d in unroll(range(len(PLACES))):
        row = READ + len(PLACES) + d
        # At a breakpoint, the delayed time is in the piece to which it moves.
        s = t - real(lags[d])
        near = near_to(s, t, stored.width) * max(real(1.0), abs(rates[d]))
        s += near if rates[d] >= 0.0 else -near
        while whole[row, me] < made and breakpoints[whole[row, me] % size, 0, me] <= s:
            level = min(level, _next_piece(d, 1, stored))
        while whole[row, me] > 0 and breakpoints[(whole[row, me] - 1) % size, 0, me] > s:
            level = min(level, _next_piece(d, -1, stored))
    return level


def _next_piece(d, way, stored):
    """Let delay `d` read the next piece of the history, or the one before if `way` is -1.

    Returns the order of the derivative that jumps between both.
    """
    whole, me, size = stored.whole, stored.me, stored.breakpoints.shape[0]
    row = READ + len(PLACES) + d
    passed = min(whole[row, me], whole[row, me] + way)
    whole[row, me] += way
    # The breakpoint before the piece may have been overwritten.
    if 0 < whole[row, me] <= whole[MADE, me] - size:
        whole[FAULT, me] = _LOST
    return int(stored.breakpoints[passed % size, 1, me]) + 1


def outside(t, y, p, frame, me):
    """Whether a state-dependent delay is outside its declared range."""
    lags = lags_of(t, y, p)
    found = False
    for d in unroll(range(len(PLACES))):
        # These comparisons also count NaN as outside.
        inside = real(lags[d]) >= frame[1 + 2 * d, me] and real(lags[d]) <= frame[2 + 2 * d, me]
        found = found or not inside
    return found
