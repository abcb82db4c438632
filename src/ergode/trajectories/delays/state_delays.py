"""Delays that depend on the state: every stage looks its delayed values up in the ring.

A delay reads one smooth piece of the history, between two breakpoints. An event of the integration
(`edges`) is where it passes a breakpoint: from there on it reads the next piece.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.delays.history_ring import DELAYED
from ergode.trajectories.delays.segments import (
    CROWD,
    ENDLESS,
    FAULT,
    LOST,
    MADE,
    NUMBER,
    READ,
    SMOOTH,
    make_breakpoint,
    near_to,
    piece,
)
from ergode.trajectories.steppers.equations import (
    EPSILON,
    PLACES,
    VARIABLES,
    derivative,
    polynomial,
    slope,
)
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import absolute

PROPAGATES = option(True)  # whether any delayed variable depends on delayed values
lags_of = option()  # lags_of(t, y, p): value of every delay, if delays depend on the state

# A jump that changes the state less within a cell is ignored [tolerance]: the polynomial of the
# cell then misses a small part of this.
_FELT = 50.0
_LOW = 2  # jumps of derivatives up to this order are not ignored
_STILL = 1e-5  # a delayed time that changes less per unit of time may move in either direction
_REACH = 8.0  # lengths of its piece, beyond which a polynomial goes on as a line


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
    known, rates = next_breakpoints(history), rates_of(t, y, f, p, history)
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
    check_motion(t, y, f1, p, known, rates, history)
    if PROPAGATES and level <= SMOOTH:
        changes = _size_of_jump(t, y, f1, known, rates, history, p)
        if _is_felt(level, changes, y, history.width, rtol, atol):
            _make_felt_breakpoint(t, level, y, f, f1, changes, history)
    return f1


def _size_of_jump(t, y, f, known, rates, stored, p):
    """Change of every slope one cell after a jump of a derivative.

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


def next_breakpoints(stored):
    """The next breakpoint of every delay."""
    return tuple(stored.whole[READ + len(PLACES) + d, stored.me] for d in range(len(PLACES)))


def check_motion(t, y, f, p, known, rates, stored):
    """Note if a delayed time that has left a piece at these `rates` moves back into it.

    `known` are the next breakpoints in that piece, and `f` is the slope after it.
    """
    whole, me = stored.whole, stored.me
    found = rates_of(t, y, f, p, stored)
    for d in unroll(range(len(PLACES))):
        way = real(whole[READ + len(PLACES) + d, me] - known[d])
        turns_back = way * rates[d] > 0.0 and way * found[d] < -_STILL
        if SCHEME == 0 and turns_back and whole[FAULT, me] == 0:
            whole[FAULT, me] = ENDLESS


def rates_of(t, y, f, p, stored):
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
    lags, rates = lags_of(t, y, p), rates_of(t, y, f, p, stored)
    level = SMOOTH + 1
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
        whole[FAULT, me] = LOST
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
