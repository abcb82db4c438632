"""Events whose times do not depend on the state: lists of times, and jumps of Poisson processes.

No step crosses such a time.  Jumps are found by thinning: candidates come at a constant rate, the
bound, and a candidate jumps with the probability rate / bound.  Time is divided into cells of one
expected candidate.  Within a cell the gaps between candidates are exponential.  Candidates, whether
they jump, and the draws of their effects are functions of (seed, path, event, cell, number within
the cell): they depend on no step, no tolerance and no other trajectory.

P. A. W. Lewis, G. S. Shedler, Naval Res. Logist. Q. 26, 403 (1979).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import option, real, unroll
from ergode.core.math.random import (
    EVENT_DRAW,
    JUMP_TIME,
    draw_words,
    exponential,
    normal,
    uniform,
)
from ergode.trajectories.steppers.equations import EPSILON, INFINITY, delayed
from ergode.trajectories.steppers.inside_step import EVENTS

LISTED, JUMPS = 1, 2
TIMED = option(())  # for each event LISTED, JUMPS, or 0 for a crossing; empty if all are crossings
DRAWS = option(False)  # whether any effect takes draws
ahead = option()  # ahead(t, p): for each event its next time after t, or the bound of its rate
rates = option()  # rates(t, y, yd, p): for each event, the rate of its jumps


def next_time(t, p, origin, source, trajectory):
    """The first time after `t` of an event that is not a crossing."""
    known = ahead(t, p)
    soonest = real(INFINITY)
    for e in unroll(range(len(TIMED))):
        if TIMED[e] == LISTED:
            soonest = min(soonest, real(known[e]))
        if TIMED[e] == JUMPS:
            soonest = min(soonest, _candidate(e, t, known[e], origin, source, trajectory)[0])
    return soonest


def occurring(t, end, y, history, p, origin, source, trajectory):
    """Events that occur at the `end` of a step from `t`, with the state `y` there.

    For each event: whether it occurs, and the cell and number of its candidate. Then whether the
    rate of a candidate is out of its range.
    """
    known = ahead(t, p)
    rate = rates(end, y, delayed(end, y, history, p), p)
    found, wrong = (), False
    for e in unroll(range(EVENTS)):
        happens, cell, number = False, np.int64(0), np.int64(0)
        if TIMED[e] == LISTED:
            happens = real(known[e]) <= end
        if TIMED[e] == JUMPS:
            time, cell, number = _candidate(e, t, known[e], origin, source, trajectory)
            if time <= end:
                words = _words(e, cell, number, JUMP_TIME, source, trajectory)
                happens = uniform(words[2], words[3]) * known[e] <= rate[e]
                most = known[e] * (1.0 + 16.0 * EPSILON)
                wrong = wrong or not (rate[e] >= 0.0 and rate[e] <= most)
        found = found + ((happens, cell, number),)  # noqa: RUF005
    return found, wrong


def draws_of(e, cell, number, source, trajectory):
    """What an effect receives: two standard uniform and two standard normal numbers."""
    w = _words(e, cell, 2 * number, EVENT_DRAW, source, trajectory)
    v = _words(e, cell, 2 * number + 1, EVENT_DRAW, source, trajectory)
    return uniform(w[0], w[1]), uniform(w[2], w[3]), normal(v[0], v[1]), normal(v[2], v[3])


def _candidate(e, t, bound, origin, source, trajectory):
    """Time of the first candidate after `t`, its cell, and its number there."""
    time, cell, number = real(INFINITY), np.int64(0), np.int64(0)
    if bound > 0.0:
        width = 1.0 / bound
        cell = np.int64(math.floor(max(t - origin, real(0.0)) * bound))
        place = real(0.0)
        searching = True
        while searching:
            words = _words(e, cell, number, JUMP_TIME, source, trajectory)
            place = place + exponential(words[0], words[1])
            time = origin + (real(cell) + place) * width
            searching = place >= 1.0 or not time > t
            if place >= 1.0:
                cell, number, place = cell + 1, np.int64(0), real(0.0)
            elif searching:
                number += 1
    return time, cell, number


def _words(e, cell, number, purpose, source, trajectory):
    entity = cell * 256 + e
    return draw_words(source[0], trajectory // source[2], entity, purpose, np.uint32(number))
