"""The past of trajectories that take steps of their own: cells, and what is read within one.

Points of the past are kept at the ends of cells of one width, whatever steps lie between (see
`history` for the ring that they are kept in).  Within a cell a delayed value is one polynomial,
whose coefficients are read once and evaluated at every stage: steps end where the polynomial does.
The polynomial goes through values and slopes at three points - both ends of a cell, and the one
before or, where the solution breaks at its beginning, the one after - or at both ends alone, for a
method of low order.

`SHARED`: every delay is a whole number of cells, the same for all trajectories (their widths
differ), so all pass from cell to cell together and read and write side by side.  The solution
breaks at the ends of cells alone.

Otherwise every trajectory is free.  What it reads ends where a cell ends, a delay ago, and where
its solution broke: these breaks are its own - where it begins, where its history jumps, where an
event changes its state - and each makes another one, smoother by a derivative, a delay later.  The
last MARKS of them are kept with the values and slopes from both sides, so that no polynomial
crosses one.

`LOOKS_UP`: delays depend on the state, and every stage finds its own place in the ring.

What the polynomial misses of the solution is estimated where a cell ends: the quintic through the
three points before it, taken to that point, is off by 243 times what it is off within a cell.

A. Bellen, M. Zennaro, "Numerical Methods for Delay Differential Equations" (2003), chapters 2 to 4.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, real, unroll
from ergode.trajectories.delays.history_ring import (
    DELAYED,
    JUMPS,
    breaks_at,
    past_slopes,
    past_values,
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

# Bound for each kernel.
CELLS = False  # whether trajectories go from cell to cell: with delays, or with noise
SHARED = False
TAUS = ()  # for each delay, the place of its parameter
MARKS = 1  # breaks that are kept
SAMPLED = False  # whether the points of the history are given
PAST_JUMPS = 0  # of the history

# Of a free trajectory's whole numbers: the number of its cell and its slot, the marks it has made,
# how often its step was cut short, whether a mark was lost; and for each delay the cell that is
# read and the mark that comes next.
NUMBER, NOW, MADE, CUT, LOST, READ = 0, 1, 2, 3, 4, 5
WHOLES = 5
# Of a mark: when, which derivative jumps, then for each delayed variable value and slope, before
# and after.
MARK_ROWS = 6

_SMOOTH = 5  # a jump of a higher derivative does not matter
_FAR = 2.0  # where the next point is, from the cell before it
# What a polynomial misses within a cell at most, as a part of what it misses at the next point.
_PART = 1.0 / 243.0
_PART_CUBIC = 1.0 / 64.0


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
    """The polynomial that this method reads its past by."""
    if COEFFICIENTS == 4:
        return cubic(near, far)
    return quintic(near, far, third, x)


def fill_past(period, origin, width, y, given, jumps, column, ring, me):
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
            for j in range(PAST_JUMPS):
                way = jumps[j, 0] - t
                if abs(way) <= near_to(t, origin, width):
                    back = real(0.0)
                elif way > 0.0:
                    ahead = min(ahead, 0.99 * way)
                else:
                    back = min(back, -0.99 * way)
            reach = ahead if ahead >= back else -back
            values = past_values(t, y)
            slopes = past_slopes(t, reach, y)
            scale = width / abs(reach)
            for v in unroll(range(len(DELAYED))):
                ring[slot, v, 0, me] = values[DELAYED[v]]
                ring[slot, v, 1, me] = scale * slopes[DELAYED[v]]


def keep_point(slot, width, y, f, ring, me):
    """Write a point of the past."""
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


def missed(n, now, period, width, y, rtol, atol, ring, me):
    """What a polynomial misses, in units of the tolerance, by the point where cell `n` ends."""
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


def make_mark(t, level, y, f, y1, f1, breakpoints, whole, me):
    """Keep a break: what jumps first is the derivative of order `level`."""
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


def note_break(which, t, y, f, y1, f1, g1, past, p, breakpoints, whole, me):
    """Where the event `which` has cut a free trajectory's step: its slope, and what events see."""
    if LOOKS_UP and which >= EVENTS - EDGES:
        f1 = pass_edge(which - EVENTS + EDGES, t, y, f, past, p)
        g1 = gaps_here(t, y1, past, p)
    else:
        make_mark(t, 0, y, f, y1, f1, breakpoints, whole, me)
    whole[CUT, me] += 1
    return f1, g1


def begin_free(t, y, p, width, period, given, jumps, column, ring, breakpoints, whole, pieces, me):
    """Fill the past of a free trajectory: its slope, and where its first step must end."""
    for j in unroll(range(WHOLES + 2 * len(PLACES))):
        whole[j, me] = 0
    if len(PLACES) > 0:
        fill_past(period, t, width, y, given, jumps, column, ring, me)
        for j in range(PAST_JUMPS):
            for row in range(jumps.shape[1]):
                breakpoints[j, row, me] = jumps[j, row]
        made = PAST_JUMPS
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
            for j in range(PAST_JUMPS):
                after += 1 if jumps[j, 0] <= earlier + near_to(t, t, width) else 0
            whole[READ + len(PLACES) + d, me] = after
        if LOOKS_UP:
            lags = lags_of(t, y, p)
            for d in unroll(range(len(PLACES))):
                after = 0
                for j in range(PAST_JUMPS):
                    after += 1 if jumps[j, 0] <= t - real(lags[d]) else 0
                whole[READ + len(PLACES) + d, me] = after
    goal = read_all(t, t, y, p, width, period, ring, breakpoints, whole, pieces, me)
    f = slope(
        t, y, delayed(t, y, past_here(t, width, period, ring, breakpoints, whole, pieces, me), p), p
    )
    if len(PLACES) > 0:
        for v in unroll(range(len(DELAYED))):
            breakpoints[PAST_JUMPS, 5 + 4 * v, me] = f[DELAYED[v]]
        keep_point(0, width, y, f, ring, me)
    return f, goal


def pass_goal(t, y, f, origin, p, width, period, ring, breakpoints, whole, pieces, me):
    """Go on where what was read has ended: the slope there, and where the next step must end."""
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
    goal = read_all(t, origin, y, p, width, period, ring, breakpoints, whole, pieces, me)
    f1 = f
    if level <= _SMOOTH:
        f1 = slope(
            t,
            y,
            delayed(
                t, y, past_here(origin, width, period, ring, breakpoints, whole, pieces, me), p
            ),
            p,
        )
        make_mark(t, level, y, f, y, f1, breakpoints, whole, me)
        if ended:
            keep_point(whole[NOW, me], width, y, f1, ring, me)
    return f1, goal


def read_all(t, origin, y, p, width, period, ring, breakpoints, whole, pieces, me):
    """Read what every delay reads from `t` on, and where the first of these ends."""
    goal = fma(real(whole[NUMBER, me] + 1), width, origin)
    rows = 2 + COEFFICIENTS
    for d in unroll(range(len(TAUS))):
        tau = p[TAUS[d]]
        begin, end, c = piece(
            d, whole[READ + d, me], origin, width, period, ring, breakpoints, whole, me
        )
        pieces[d * rows, me] = begin + tau
        pieces[d * rows + 1, me] = 1.0 / (end - begin)
        for m in unroll(range(COEFFICIENTS)):
            pieces[d * rows + 2 + m, me] = c[m]
        goal = min(goal, end + tau)
    return goal


def piece(d, cell, origin, width, period, ring, breakpoints, whole, me):
    """The polynomial that a delay reads in a cell, between points and breaks: its ends, and it."""
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


def past_here(origin, width, period, ring, breakpoints, whole, pieces, me):
    """What stages of the present step read of the past (see `equations.delayed`)."""
    if LOOKS_UP:
        return (ring, breakpoints, whole, period, origin, width, me)
    return past_of(pieces, me)


def past_of(pieces, me):
    """The same where polynomials were read before."""
    return tuple(
        (
            pieces[d * (2 + COEFFICIENTS), me],
            pieces[d * (2 + COEFFICIENTS) + 1, me],
            tuple(pieces[d * (2 + COEFFICIENTS) + 2 + m, me] for m in range(COEFFICIENTS)),
        )
        for d in range(len(PLACES))
    )


def missed_free(t, y, origin, width, period, rtol, atol, ring, breakpoints, whole, me):
    """As `missed`, where a free trajectory ends a cell; no polynomial is across a break."""
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
    return missed(n, whole[NOW, me], period, width, y, rtol, atol, ring, me)


# ---- delays that depend on the state


def lags_of(t, y, p):
    """Every delay at a time and state: bound for each kernel."""
    return ()


def looked_up(t, y, past, p):
    """Delayed values, each from its own place in the ring."""
    ring, breakpoints, whole, period, origin, width, me = past
    lags = lags_of(t, y, p)
    return tuple(
        _look_up(d, t - real(lags[d]), origin, width, period, ring, breakpoints, whole, me)
        for d in range(len(PLACES))
    )


def _look_up(d, s, origin, width, period, ring, breakpoints, whole, me):
    """The past at the time `s`, as it goes on beyond a break that has not been passed.

    What is not in the ring is its nearest end.
    """
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
    begin, end, c = piece(d, cell, origin, width, period, ring, breakpoints, whole, me)
    return polynomial((s - begin) / (end - begin), c)


def edges(t, y, past, p):
    """For every delay what falls through zero where it passes a break, and reads beyond it."""
    ring, breakpoints, whole, period, origin, width, me = past
    lags = lags_of(t, y, p)
    return tuple(_edge(d, t - real(lags[d]), breakpoints, whole, me) for d in range(len(PLACES)))


def _edge(d, s, breakpoints, whole, me):
    following = whole[READ + len(PLACES) + d, me]
    inside = real(1.0)
    if following > 0:
        inside = s - breakpoints[(following - 1) % breakpoints.shape[0], 0, me]
    if following < whole[MADE, me]:
        inside = inside * (breakpoints[following % breakpoints.shape[0], 0, me] - s)
    return inside


def pass_edge(edge, t, y, f, past, p):
    """Go on where the delay numbered `edge` has passed a break: the slope there."""
    ring, breakpoints, whole, period, origin, width, me = past
    near = near_to(t, origin, width)
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
    f1 = slope(t, y, looked_up(t, y, past, p), p)
    if level <= _SMOOTH:
        make_mark(t, level, y, f, y, f1, breakpoints, whole, me)
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
