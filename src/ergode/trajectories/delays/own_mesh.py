"""A mesh for every trajectory, with breakpoints of its own: not `SHARED` in `segments`."""

from __future__ import annotations

import math

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.delays.history_ring import DELAYED, JUMPS
from ergode.trajectories.delays.segments import (
    CROWD,
    CUT,
    HISTORY_JUMPS,
    MADE,
    NOW,
    NUMBER,
    READ,
    SMOOTH,
    WHOLES,
    fill_history,
    has_no_solution,
    history_here,
    keep_point,
    make_breakpoint,
    near_to,
    piece,
)
from ergode.trajectories.delays.state_delays import (
    check_motion,
    find_pieces,
    lags_of,
    looked_up,
    next_breakpoints,
    pass_edge,
    rates_of,
)
from ergode.trajectories.steppers.equations import (
    COEFFICIENTS,
    EPSILON,
    LOOKS_UP,
    PLACES,
    SLOPED,
    delayed,
    slope,
)
from ergode.trajectories.steppers.forcing import INPUTS, beyond, past_knots
from ergode.trajectories.steppers.inside_step import EDGES, EVENTS, KEPT, gaps_here
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import ADAPTS

TAUS = option(())  # index of each delay's parameter
LEVEL = option(0)  # of the breakpoints at knots of inputs; 0 where there are none


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
    cut_cell(t, stored)
    return f1, g1


def cut_cell(t, stored):
    """Note that a step ended within a cell: the rest of the cell has another path of noise."""
    stored.whole[CUT, stored.me] += 1
    if SCHEME > 0 and ADAPTS:  # a field with delays has steps of one size
        stored.breakpoints[0, 0, stored.me] = t


def width_of_path(goal, until, stored):
    """Width of the path of noise that ends `until`, in a cell that ends at `goal`."""
    if stored.whole[CUT, stored.me] > 0:
        return until - stored.breakpoints[0, 0, stored.me]
    return until - (goal - stored.width) if until < goal else stored.width


def over_knot(before, t, y, f, history, p, stored):
    """Time and slope with which to go on after a step from `before`; a knot is a breakpoint."""
    if len(INPUTS) == 0:
        return t, f
    moved, f1 = beyond(before, t, y, f, history, p)
    if LEVEL > 0 and moved > t:
        make_breakpoint(t, LEVEL, y, f, y, f1, stored)
    return moved, f1


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
    f = slope(past_knots(t, p), y, delayed(t, y, history_here(stored), p), p)
    if LOOKS_UP and HISTORY_JUMPS > 0:  # a delayed time that begins on a jump may move back
        before, rates = next_breakpoints(stored), rates_of(t, y, f, p, stored)
        find_pieces(t, y, f, p, stored)
        f = slope(t, y, looked_up(t, y, stored, p), p)
        check_motion(t, y, f, p, before, rates, stored)
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
    level = SMOOTH + 1
    for d in unroll(range(len(TAUS))):
        tau = p[TAUS[d]]
        late = near_to(t, tau, width)
        following = whole[READ + len(PLACES) + d, me]
        while following < whole[MADE, me]:
            k = following % breakpoints.shape[0]
            if breakpoints[k, 0, me] + tau > t + late:
                break
            # A delayed derivative jumps where the derivative did.
            rise = 0 if len(SLOPED) > 0 and SLOPED[d] else 1
            level = min(level, max(int(breakpoints[k, 1, me]) + rise, 1))
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
    if level <= SMOOTH:
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
