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

`LOOKS_UP`: delays depend on the state, and every stage searches the ring for its cell (see
`state_delays`).

The interpolation error is estimated at the end of a cell.  The quintic through the three points
before this end, extrapolated to it, has 243 times its largest error within a cell.

A. Bellen, M. Zennaro, "Numerical Methods for Delay Differential Equations" (2003), chapters 2 to 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.delays.history_ring import (
    DELAYED,
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
    polynomial,
)
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import absolute

CELLS = option(False)  # whether there is a mesh: with delays, or with noise
SHARED = option(False)  # whether all trajectories share the mesh
SAMPLED = option(False)  # whether the history is given as samples
HISTORY_JUMPS = option(0)  # number of jumps of the history

# Integers of a trajectory on its own mesh: cell number, slot of the cell, breakpoints made so far,
# how often events truncated a step in this cell, a fault, breakpoints that delays made in this
# cell; then for each delay the cell that it reads, and for each delay its next breakpoint.
NUMBER, NOW, MADE, CUT, FAULT, CROWD, READ = 0, 1, 2, 3, 4, 5, 6
WHOLES = 6
# Rows of a breakpoint: time, order of the first derivative that jumps; then for each delayed
# variable value and slope before, value and slope after; then for each delayed variable the size of
# the jump of that derivative, where a quick delay has made the breakpoint.

LOST = 1  # fault: an unread breakpoint was overwritten
ENDLESS = 2  # fault: the equations have no solution after the present time
SMOOTH = 5  # jumps of derivatives above this order are ignored
_MOST_IN_CELL = 4  # breakpoints above this order; a cell with more is too wide
_TOO_WIDE = 20.0  # interpolation error of such a cell: the next mesh is twice as fine
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


# ---- breakpoints, and a mesh per trajectory


def make_breakpoint(t, level, y, f, y1, f1, stored):
    """Store a breakpoint; `level` is the order of the first derivative that jumps."""
    breakpoints, whole, me = stored.breakpoints, stored.whole, stored.me
    if len(PLACES) > 0:
        made = whole[MADE, me]
        for d in unroll(range(len(PLACES))):
            # The breakpoint before the present polynomial is still needed.
            if made - breakpoints.shape[0] >= whole[READ + len(PLACES) + d, me] - 1:
                whole[FAULT, me] = LOST
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
    return CELLS and not SHARED and whole[FAULT, me] == LOST


def has_no_solution(whole, me):
    """Whether the equations have no solution after the present time (see `pass_edge`)."""
    return LOOKS_UP and whole[FAULT, me] == ENDLESS


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
