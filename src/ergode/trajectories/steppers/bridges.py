"""Events of noisy paths: first passages between the ends of a step.

A step is a straight line, and the path between its ends is a Brownian bridge.  With the event
function a at the beginning of a step of size h, b at its end, and its variance rate s^2, the bridge
passes zero with the probability

    exp(-2 a b / (s^2 h))    if a and b have one sign, and else 1.

The ratio of the times before and after the first passage, x / (1 - x) with the fraction x of the
step, has the inverse Gaussian distribution of mean |a / b| and shape a^2 / (s^2 h).  Exact for an
event function that is linear in one variable with constant noise; else its error falls with the
step.

P. Glasserman, "Monte Carlo Methods in Financial Engineering" (2004), section 6.4; J. R. Michael,
W. R. Schucany, R. W. Haas, Am. Stat. 30, 88 (1976), for the draw.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import option, real, unroll
from ergode.core.math.elementary import exp
from ergode.core.math.random import PASSAGE, draw_words, normal, uniform
from ergode.trajectories.steppers.equations import VARIABLES, delayed
from ergode.trajectories.steppers.inside_step import (
    ACTS,
    DIRECTIONS,
    EVENTS,
    KEPT,
    gaps_here,
)
from ergode.trajectories.steppers.noise import MIXTURE, SHARED, spread

BRIDGES = option(False)  # whether a noisy path has events that act
_PROBE = 1e-2  # of the deviation of a step, over which event functions are taken as linear
_RARE = 40.0  # passages of a probability below exp(-40) do not happen
_LEAST = 1e-30


def _directions(inside):
    """Displacements by each independent process, and the change of each event function by it."""
    t, h, y, history, p = inside.t, inside.h, inside.y, inside.history, inside.p
    g = spread(t, y, delayed(t, y, history, p), p)
    here = gaps_here(t, y, history, p)
    way = real(_PROBE) * math.sqrt(h)
    moves, rises = (), ()
    for j in unroll(range(VARIABLES)):
        move = tuple(
            g[i] * (MIXTURE[i][j] if j <= i else real(0.0))
            if len(MIXTURE) > 0
            else (g[i] if i == j else real(0.0))
            for i in range(VARIABLES)
        )
        there = gaps_here(t, tuple(y[i] + way * move[i] for i in range(VARIABLES)), history, p)
        moves = moves + (move,)  # noqa: RUF005
        rises = rises + (  # noqa: RUF005
            tuple((there[e] - here[e]) / way for e in range(EVENTS)),
        )
    return moves, rises


def _rate(e, rises):
    """Variance rate of event function `e`."""
    return sum((rises[j][e] * rises[j][e] for j in range(VARIABLES)), real(0.0))


def _may(e, a, b, rate, h):
    """Whether a passage of event `e` between the values `a` and `b` is not too rare."""
    begins = abs(a) > 8.0 * KEPT and not a * real(DIRECTIONS[e]) > 0.0
    return ACTS[e] and begins and 2.0 * a * b < real(_RARE) * rate * h


def may_pass(g0, g1, inside):
    """Whether any event may be passed between the ends of a step."""
    rises = _directions(inside)[1]
    found = False
    for e in unroll(range(EVENTS)):
        found = found | _may(e, g0[e], g1[e], _rate(e, rises), inside.h)
    return found


def passages(g0, g1, first, inside, noise):
    """Fractions of a step at which the path first passes each event; `first` of the straight line.

    `noise` is that of `adaptive.step.attempt`.
    """
    rises = _directions(inside)[1]
    return tuple(
        _passage(e, g0[e], g1[e], _rate(e, rises), first[e], inside.h, noise) for e in range(EVENTS)
    )


def _passage(e, a, b, rate, first, h, noise):
    if not _may(e, a, b, rate, h) or rate <= 0.0:
        return first
    source, trajectory, step, cut, _ = noise
    path = trajectory // source[2] if SHARED else trajectory
    w0, w1, w2, w3 = draw_words(source[0], path, cut * EVENTS + e, PASSAGE, step)
    ratio = 2.0 * a * b / (rate * h)
    if ratio > 0.0 and uniform(w0, w1) >= exp(-ratio):
        return real(2.0)
    v0, v1, _, _ = draw_words(source[0], path, (cut + (1 << 24)) * EVENTS + e, PASSAGE, step)
    shape = a * a / (rate * h)
    mean = abs(a) / max(abs(b), real(_LEAST) + real(1e-6) * abs(a))
    z = normal(w2, w3)
    q = 0.5 * mean * z * z / shape
    small = mean / (1.0 + q + math.sqrt(q * (q + 2.0)))
    ratio = small if uniform(v0, v1) * (mean + small) <= mean else mean * mean / small
    return ratio / (1.0 + ratio)


def onto_surface(e, t, y, inside):
    """The state `y` on a bridge at time `t`, moved along the noise to where event `e` is zero."""
    moves, rises = _directions(inside)
    rate = _rate(e, rises)
    if rate <= 0.0:
        return y
    share = -gaps_here(t, y, inside.history, inside.p)[e] / rate
    return tuple(
        y[i] + share * sum((moves[j][i] * rises[j][e] for j in range(VARIABLES)), real(0.0))
        for i in range(VARIABLES)
    )
