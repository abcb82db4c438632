"""The history of trajectories with adaptive steps: a mesh of cells, and a polynomial in each.

The history is kept at the ends of cells of equal width, whatever steps lie between (`history_ring`
describes the ring buffer).  Within a cell a delayed value is one polynomial.  Its coefficients are
read once and evaluated at every stage; a step ends where the polynomial ends.  The polynomial is
the Hermite interpolant of values and slopes at three points: both ends of the cell and the point
before it, or the point after it if the solution breaks at the beginning of the cell.  Methods of
low order use both ends alone.

`SHARED`: every delay is a whole number of cells, the same number for all trajectories; only the
widths differ.  All trajectories then pass from cell to cell together, and read and write side by
side.  The solution breaks at ends of cells only.

Otherwise every trajectory has breakpoints of its own: where it begins, where its history jumps, and
where an event changes its state.  Each of them causes another one a delay later, smoother by one
derivative.  A polynomial ends at the end of a cell and at a breakpoint, each one delay later.  The
last breakpoints are kept with values and slopes from both sides, so that no polynomial crosses one.

`LOOKS_UP`: delays depend on the state, and every stage finds its own place in the ring.

The interpolation error is estimated at the end of a cell.  The quintic through the three points
before it, extrapolated to that end, is off by 243 times its largest error within a cell.

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
    breaks_at,
    history_slopes,
    history_values,
    slot_before,
    slot_of,
)
from ergode.trajectories.steppers.equations import (
    COEFFICIENTS,
    EPSILON,
    INFINITY,
    LOOKS_UP,
    PLACES,
    delayed,
    polynomial,
    slope,
)
from ergode.trajectories.steppers.inside_step import EDGES, EVENTS, gaps_here
from ergode.trajectories.steppers.noise import SCHEME

CELLS = option(False)  # whether trajectories go from cell to cell: with delays, or with noise
SHARED = option(False)  # whether they go together
TAUS = option(())  # for each delay, the place of its parameter
SAMPLED = option(False)  # whether the points of the history are given
HISTORY_JUMPS = option(0)  # of the history
lags_of = option()  # lags_of(t, y, p): every delay, where they depend on the state

# Of a free trajectory's whole numbers: the number of its cell and its slot, how many breakpoints
# it has made, how often its step was cut short, whether a breakpoint was lost; and for each delay
# the cell that is read and the breakpoint that comes next.
NUMBER, NOW, MADE, CUT, LOST, READ = 0, 1, 2, 3, 4, 5
WHOLES = 5
# Rows of a breakpoint: when, which derivative jumps, then for each delayed variable value and
# slope, before and after.

_SMOOTH = 5  # a jump of a higher derivative does not matter
_FAR = 2.0  # where the next point is, from the cell before it
# The largest error of a polynomial within a cell, as a part of its error at the next point.
_PART = 1.0 / 243.0
_PART_CUBIC = 1.0 / 64.0


class StoredHistory(NamedTuple):
    """What is kept of the history of one trajectory, and of others beside it."""

    ring: Any  # real [slot, delayed variable, 2, trajectory]
    breakpoints: Any  # real [breakpoint, row, trajectory]
    whole: Any  # int64 [NUMBER ..., trajectory]
    pieces: Any  # real [row, trajectory]: the polynomials that are read
    period: Any  # slots of the ring
    origin: Any  # first time
    width: Any  # of a cell [time]
    me: Any  # the trajectory


def point(ring, slot, place, me):
    """Value and slope (times the width) of one trajectory at a slot."""
    return ring[slot, place, 0, me], ring[slot, place, 1, me]


def cubic(near, far):
    """Coefficients, in the fraction of the way, of the cubic through both ends of it."""
    rise = far[0] - near[0]
    return (
        near[0],
        near[1],
        3.0 * rise - 2.0 * near[1] - far[1],
        near[1] + far[1] - 2.0 * rise,
    )


def quintic(near, far, third, x):
    """The same of the quintic through a third point, at the fraction `x` of the way."""
    c = cubic(near, far)
    # What is added is z^2 (1 - z)^2 (a + b (z - x)) at the fraction z.
    bump = x * x * (x - 1.0) * (x - 1.0)
    per = 1.0 / bump
    a = (third[0] - fma(x, fma(x, fma(x, c[3], c[2]), c[1]), c[0])) * per
    steep = 2.0 * x * (x - 1.0) * (2.0 * x - 1.0)
    b = (third[1] - fma(x, fma(x, 3.0 * c[3], 2.0 * c[2]), c[1]) - steep * a) * per
    a = a - b * x
    return (c[0], c[1], c[2] + a, c[3] + b - 2.0 * a, a - 2.0 * b, b)


def through(near, far, third, x):
    """The polynomial that this method reads its history by."""
    if COEFFICIENTS == 4:
        return cubic(near, far)
    return quintic(near, far, third, x)


def fill_history(period, origin, width, y, given, jumps, column, ring, me):
    """Write the history of one trajectory; slot `period` has its end, as seen from before.

    The slopes of a history are differences that reach over no jump.
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
    """Write a point of the history."""
    for v in unroll(range(len(DELAYED))):
        ring[slot, v, 0, me] = y[DELAYED[v]]
        ring[slot, v, 1, me] = width * f[DELAYED[v]]


def end_of_cell(n, origin, width, last):
    """Where cell `n` ends, or the run."""
    end = fma(real(n + 1), width, origin)
    return end if end < last - near_to(last, origin, width) else last


def near_to(t, origin, width):
    """What times differ by that are the same but for rounding."""
    return 64.0 * EPSILON * (abs(t) + abs(origin) + width)


def cell_error(n, now, period, width, y, rtol, atol, ring, me):
    """The interpolation error, in units of the tolerance, by the point where cell `n` ends."""
    worst = real(0.0)
    for v in unroll(range(len(DELAYED))):
        c = through(
            point(ring, slot_of(n - 1, n, now, period), v, me),
            point(ring, now, v, me),
            point(ring, slot_of(n - 2, n, now, period), v, me),
            real(-1.0),
        )
        value = y[DELAYED[v]]
        off = abs(value - polynomial(real(_FAR), c)) / fma(rtol, abs(value), atol)
        worst = max(worst, (_PART_CUBIC if COEFFICIENTS == 4 else _PART) * off)
    return worst


# ---- cells that all trajectories share


def stencil(d, n, now, period, lags, breaks):
    """What a delay reads in cell `n`: slots of both ends and of a third point, and where that is.

    The third is the one before, or after where the solution breaks.
    """
    cell = n - lags[d]
    broken = breaks_at(cell, breaks)
    other = (
        slot_before(cell + 2, n, now, period, lags) if broken else slot_of(cell - 1, n, now, period)
    )
    return (
        slot_of(cell, n, now, period),
        slot_before(cell + 1, n, now, period, lags),
        other,
        real(2.0) if broken else real(-1.0),
    )


def read(d, place, ring, me):
    """The polynomial of a delay by its stencil."""
    third = (real(0.0), real(0.0))
    if COEFFICIENTS == 6:
        third = point(ring, place[2], PLACES[d], me)
    return through(
        point(ring, place[0], PLACES[d], me), point(ring, place[1], PLACES[d], me), third, place[3]
    )


def turns(n, lags):
    """Whether slopes jump where cell `n` begins."""
    found = n == 0
    if JUMPS:
        for d in unroll(range(len(PLACES))):
            found = found or n == lags[d]
    return found


def smooth_before(n, breaks):
    """Whether the last three points before the end of cell `n` are those of one polynomial."""
    return n >= 2 and not (breaks_at(n, breaks) or breaks_at(n - 1, breaks))


# ---- cells of every trajectory's own


def make_breakpoint(t, level, y, f, y1, f1, stored):
    """Keep a break: what jumps first is the derivative of order `level`."""
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    if len(PLACES) > 0:
        made = whole[MADE, me]
        for d in unroll(range(len(PLACES))):
            # The break before what is being read is needed, too.
            if made - breakpoints.shape[0] >= whole[READ + len(PLACES) + d, me] - 1:
                whole[LOST, me] = 1
        k = made % breakpoints.shape[0]
        breakpoints[k, 0, me] = t
        breakpoints[k, 1, me] = real(level)
        for v in unroll(range(len(DELAYED))):
            breakpoints[k, 2 + 4 * v, me] = y[DELAYED[v]]
            breakpoints[k, 3 + 4 * v, me] = f[DELAYED[v]]
            breakpoints[k, 4 + 4 * v, me] = y1[DELAYED[v]]
            breakpoints[k, 5 + 4 * v, me] = f1[DELAYED[v]]
        whole[MADE, me] = made + 1


def note_break(which, t, y, f, y1, f1, g1, history, p, stored):
    """Where the event `which` has cut a free trajectory's step: its slope, and what events see."""
    if LOOKS_UP and which >= EVENTS - EDGES:
        f1 = pass_edge(which - EVENTS + EDGES, t, y, f, history, p)
        g1 = gaps_here(t, y1, history, p)
    else:
        make_breakpoint(t, 0, y, f, y1, f1, stored)
    stored.whole[CUT, stored.me] += 1
    return f1, g1


def begin_free(t, y, p, given, jumps, column, stored):
    """Fill the history of a free trajectory: its slope, and where its first step must end."""
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
            breakpoints[made, 5 + 4 * v, me] = 0.0  # not known yet, nor read
        for d in unroll(range(len(TAUS))):
            earlier = t - p[TAUS[d]]
            whole[READ + d, me] = -math.ceil(p[TAUS[d]] / width * (1.0 - 64.0 * EPSILON))
            after = 0
            for j in range(HISTORY_JUMPS):
                after += 1 if jumps[j, 0] <= earlier + near_to(t, t, width) else 0
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
    if len(PLACES) > 0:
        for v in unroll(range(len(DELAYED))):
            breakpoints[HISTORY_JUMPS, 5 + 4 * v, me] = f[DELAYED[v]]
        keep_point(0, width, y, f, ring, me)
    return f, goal


def pass_goal(t, y, f, p, stored):
    """Go on where what was read has ended: the slope there, and where the next step must end."""
    ring, breakpoints, whole, me = stored.ring, stored.breakpoints, stored.whole, stored.me
    period, origin, width = stored.period, stored.origin, stored.width
    near = near_to(t, origin, width)
    level = _SMOOTH + 1
    for d in unroll(range(len(TAUS))):
        tau = p[TAUS[d]]
        following = whole[READ + len(PLACES) + d, me]
        while following < whole[MADE, me]:
            k = following % breakpoints.shape[0]
            if breakpoints[k, 0, me] + tau > t + near:
                break
            level = min(level, int(breakpoints[k, 1, me]) + 1)
            following += 1
        whole[READ + len(PLACES) + d, me] = following
        while fma(real(whole[READ + d, me] + 1), width, origin) + tau <= t + near:
            whole[READ + d, me] += 1
    ended = fma(real(whole[NUMBER, me] + 1), width, origin) <= t + near
    if ended:
        whole[NUMBER, me] += 1
        whole[NOW, me] = whole[NOW, me] + 1 if whole[NOW, me] + 1 < period else 0
        whole[CUT, me] = 0
        keep_point(whole[NOW, me], width, y, f, ring, me)
    goal = read_all(p, stored)
    f1 = f
    if level <= _SMOOTH:
        f1 = slope(t, y, delayed(t, y, history_here(stored), p), p)
        make_breakpoint(t, level, y, f, y, f1, stored)
        if ended:
            keep_point(whole[NOW, me], width, y, f1, ring, me)
    return f1, goal


def read_all(p, stored):
    """Read what every delay reads from now on, and where the first of these ends."""
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
    """The polynomial that a delay reads in a cell, between points and breaks: its ends, and it."""
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
    """What stages of the present step read of the history (see `equations.delayed`)."""
    if LOOKS_UP:
        return stored
    return polynomials_in(stored.pieces, stored.me)


def polynomials_in(pieces, me):
    """The same where polynomials were read before."""
    return tuple(
        (
            pieces[d * (2 + COEFFICIENTS), me],
            pieces[d * (2 + COEFFICIENTS) + 1, me],
            tuple(pieces[d * (2 + COEFFICIENTS) + 2 + m, me] for m in range(COEFFICIENTS)),
        )
        for d in range(len(PLACES))
    )


def free_cell_error(t, y, rtol, atol, stored):
    """As `cell_error`, where a free trajectory ends a cell; no polynomial crosses a break."""
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    origin, width = stored.origin, stored.width
    n = whole[NUMBER, me]
    if whole[LOST, me] != 0:
        return real(INFINITY)
    if len(PLACES) == 0 or n < 2:
        return real(0.0)
    last = breakpoints[(whole[MADE, me] - 1) % breakpoints.shape[0], 0, me]
    if last > fma(real(n - 2), width, origin) + near_to(t, origin, width):
        return real(0.0)
    if fma(real(n + 1), width, origin) > t + near_to(t, origin, width):
        return real(0.0)  # the end of what was read, not of a cell
    return cell_error(n, whole[NOW, me], stored.period, width, y, rtol, atol, stored.ring, me)


# ---- delays that depend on the state


def looked_up(t, y, history, p):
    """Delayed values, each from its own place in the ring."""
    lags = lags_of(t, y, p)
    return tuple(_look_up(d, t - real(lags[d]), history) for d in range(len(PLACES)))


def _look_up(d, s, stored):
    """The history at the time `s`, as it goes on beyond a break that has not been passed.

    What is not in the ring is its nearest end.
    """
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    period, origin, width = stored.period, stored.origin, stored.width
    following, n = whole[READ + len(PLACES) + d, me], whole[NUMBER, me]
    lowest, highest = n - period + 3, n - 1
    near = 64.0 * EPSILON * (1.0 + abs(origin) / width)
    if following > 0:
        before = (breakpoints[(following - 1) % breakpoints.shape[0], 0, me] - origin) / width
        lowest = max(lowest, np.int64(math.floor(before + near)))
    if following < whole[MADE, me]:
        after = (breakpoints[following % breakpoints.shape[0], 0, me] - origin) / width
        highest = min(highest, np.int64(math.ceil(after - near)) - 1)
    x = (s - origin) / width
    # Written so that NaN is the nearest end as well.
    x = x if x > real(lowest) else real(lowest)
    x = x if x < real(highest) else real(highest)
    # On CUDA the floor of a number is no integer.
    cell = np.int64(math.floor(x))
    begin, end, c = piece(d, cell, stored)
    return polynomial((s - begin) / (end - begin), c)


def edges(t, y, history, p):
    """For every delay what falls through zero where it passes a break, and reads beyond it."""
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


def pass_edge(edge, t, y, f, history, p):
    """Go on where the delay numbered `edge` has passed a break: the slope there."""
    breakpoints, whole, me = history.breakpoints, history.whole, history.me
    near = near_to(t, history.origin, history.width)
    lags = lags_of(t, y, p)
    level = _SMOOTH + 1
    for d in unroll(range(len(PLACES))):
        s = t - real(lags[d])
        following = whole[READ + len(PLACES) + d, me]
        if (
            following < whole[MADE, me]
            and s >= breakpoints[following % breakpoints.shape[0], 0, me] - near
        ):
            level = min(level, int(breakpoints[following % breakpoints.shape[0], 1, me]) + 1)
            whole[READ + len(PLACES) + d, me] = following + 1
        elif d == edge and following > 0:  # it turns back
            level = min(level, int(breakpoints[(following - 1) % breakpoints.shape[0], 1, me]) + 1)
            whole[READ + len(PLACES) + d, me] = following - 1
    f1 = slope(t, y, looked_up(t, y, history, p), p)
    if level <= _SMOOTH:
        make_breakpoint(t, level, y, f, y, f1, history)
    return f1


def outside(t, y, p, frame, me):
    """Whether a delay that depends on the state is out of the range given for it."""
    lags = lags_of(t, y, p)
    found = False
    for d in unroll(range(len(PLACES))):
        # Written so that NaN is outside, too.
        inside = real(lags[d]) >= frame[1 + 2 * d, me] and real(lags[d]) <= frame[2 + 2 * d, me]
        found = found or not inside
    return found
