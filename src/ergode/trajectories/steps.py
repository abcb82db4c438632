"""What lies within a step: the state between its ends, events, and times to be saved.

Events are found where a function g(t, y) changes sign between the beginning, the middle and the
end of a step, and located on the state in between by regula falsi in the Illinois variant
(M. Dowell, P. Jarratt, BIT 11, 168 (1971)).
"""

from __future__ import annotations

import math

from ergode.core.machine import real, unroll
from ergode.trajectories.equations import VARIABLES, delayed

# Bound for each method and each set of events.
DENSE = ((1.0,), (0.0,))
EVENTS = 0
DIRECTIONS = ()  # 1 rising, -1 falling, 0 both
ACTS = ()  # whether the event changes the state or ends the run
ACTING = False  # whether any does
RECORDED = 0  # hits of every event that are kept, the last ones
EDGES = 0  # of the events, the last ones, where a delay that depends on the state passes a break

_LOCATING = 60
_TOUCHING = 1e-9
_SOON = 1e-4  # of a step


def gaps(t, y, yd, p):
    """The functions whose zeros are events: bound for each set of events."""
    return ()


def edges(t, y, past, p):
    """The functions whose zeros these are: bound for each kernel."""
    return ()


def between(x, y, k):
    """The state at the fraction `x` of a step from `y`."""
    powers = (x,)
    for m in unroll(range(1, len(DENSE[0]))):
        powers = powers + (powers[m - 1] * x,)  # noqa: RUF005
    weights = tuple(
        sum(DENSE[j][m] * powers[m] for m in range(len(DENSE[j])) if DENSE[j][m] != 0.0)
        for j in range(len(DENSE))
    )
    return tuple(
        sum((weights[j] * k[j][i] for j in range(len(DENSE))), y[i]) for i in range(VARIABLES)
    )


def gaps_at(x, t, h, y, k, past, p):
    """The functions of the events at the fraction `x` of a step."""
    time = t + x * h
    state = between(x, y, k)
    return gaps_here(time, state, past, p)


def gaps_here(t, y, past, p):
    """The functions of the events at a state."""
    g = gaps(t, y, delayed(t, y, past, p), p)
    found = tuple(real(g[e]) for e in range(EVENTS - EDGES))
    if EDGES > 0:
        return found + edges(t, y, past, p)
    return found


def gaps_at_begin(g0, t, h, y, k, past, p):
    """The functions of the events where a step begins; shortly after it, where they are zero.

    An event that acts leaves its own function at zero, and may happen again in the next step.
    """
    if ACTING:
        soon = gaps_at(real(_SOON), t, h, y, k, past, p)
        return tuple(g0[e] if g0[e] != 0.0 else soon[e] for e in range(EVENTS))
    return g0


def crosses(before, after, direction):
    """Whether zero is crossed; what begins at zero has not crossed it."""
    rises = before < 0.0 and after >= 0.0
    falls = before > 0.0 and after <= 0.0
    if direction > 0:
        return rises
    if direction < 0:
        return falls
    return rises or falls


def any_crossing(g0, middle, g1):
    """Whether any event is in the step."""
    found = False
    for e in unroll(range(EVENTS)):
        found = found or crosses(g0[e], middle[e], DIRECTIONS[e])
        found = found or crosses(middle[e], g1[e], DIRECTIONS[e])
    return found


def locate(e, a, ga, b, gb, t, h, y, k, past, p):
    """Fraction of the step, on the far side of the zero of event `e` between `a` and `b`."""
    side = 0
    for _ in range(_LOCATING):
        x = (a * gb - b * ga) / (gb - ga)
        x = x if (x > a and x < b) else 0.5 * (a + b)
        if x <= a or x >= b:
            break
        g = gaps_at(x, t, h, y, k, past, p)[e]
        if (g > 0.0) == (gb > 0.0) and g != 0.0:
            b, gb = x, g
            ga = 0.5 * ga if side == 1 else ga
            side = 1
        elif g == 0.0:
            b = x
            break
        else:
            a, ga = x, g
            gb = 0.5 * gb if side == -1 else gb
            side = -1
    return b


def touched(gap, g0, g1):
    """The value of an event's function after it has happened: zero if it nearly is."""
    return real(0.0) if math.fabs(gap) <= _TOUCHING * (math.fabs(g0) + math.fabs(g1)) else gap
