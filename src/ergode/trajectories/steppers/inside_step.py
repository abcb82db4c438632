"""Dense output and events within a step.

The event function g(t, y) is evaluated at the nodes of a step: INTERVALS + 1 fractions, enough that
the interpolating polynomial equals g if g is linear in a variable.  The Bernstein coefficients of
the polynomial bound its values.  If the bounds contain zero, the step is searched.  Between two
nodes of different sign there is a crossing.  Between two nodes of equal sign there are two
crossings if g has an extremum of the opposite sign.  Golden-section search finds the extremum of g,
and the Illinois variant of regula falsi finds a crossing.

A g that oscillates faster than its polynomial can be missed; a smaller `max_step` prevents this.

At an event, g is zero up to rounding.  Its value is then replaced by a tiny mark with the sign of
the side to which the state leaves the surface g = 0.  If this side is the one that the event
watches for, as for a state that begins on its surface, the mark has the other sign, and the event
occurs at the beginning of the step.  A state that begins at rest on its surface leaves it when g
exceeds what roundings of time and state can change.

G. Farin, "Curves and Surfaces for CAGD", 5th ed. (2002), chapter 6 (Bernstein form); M. Dowell,
P. Jarratt, BIT 11, 168 (1971).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ergode.core.compiler.language import ByPrecision, fma, option, real, unroll
from ergode.trajectories.steppers.equations import (
    EPSILON,
    VARIABLES,
    delayed,
    is_finite,
    massed,
    slope,
)
from ergode.trajectories.steppers.linear import solved
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import DENSE, PROBES

EVENTS = option(0)
DIRECTIONS = option(())  # 1 rising, -1 falling, 0 both
ACTS = option(())  # whether each event acts: changes the state or ends the run
ACTING = option(False)  # whether any event acts
ENDS = option(())  # how many occurrences of each event end the run; 0 if none do
EDGES = option(0)  # number of internal events, the last ones: a delay passes a breakpoint
INTERVALS = option(2)  # intervals between the nodes of a step
NODES = option((0.0, 0.5, 1.0))
BERNSTEIN = option(((1.0, 0.0, 0.0), (-0.5, 2.0, -0.5), (0.0, 0.0, 1.0)))  # nodes -> coefficients
SLOPES = option(((-3.0, 4.0, -1.0), (-1.0, 0.0, 1.0), (1.0, -4.0, 3.0)))  # nodes -> slopes at nodes
gaps = option()  # gaps(t, y, yd, p): event functions of the user
edges = option()  # edges(t, y, history, p): event functions of the EDGES internal events
act = option()  # act(event, draws, t, y, yd, p): the state after an event

NOT_A_NUMBER = math.nan
_LOCATING = 60
_TURNING = 40
_GOLDEN = 0.3819660112501051
_SLACK = 0.125  # margin for g outside the range of its polynomial, relative to this range
_TOUCHING = 1e-9
SOON = 1e-4  # fraction of a step
_RESTS = 1e-7  # slope of an event function at rest, relative to its slope before the event

# Marks in place of an event function that is zero, with the sign of a side.  `BEGUN` has no side:
# the state has not left the surface since the first time.
REST = ByPrecision(1e-37, 1e-300)  # the event has acted, and the state rests on the surface
BEGUN = ByPrecision(4e-37, 4e-300)
LEFT = ByPrecision(1e-35, 1e-296)  # the event has acted, and the state leaves to this side
KEPT = ByPrecision(1e-33, 1e-290)  # the event has not acted; the state is on this side


class DenseStep(NamedTuple):
    """A step with its dense output (see `stepper`)."""

    t: Any  # time at its beginning
    h: Any  # size
    y: Any  # [variable]: state at its beginning
    k: Any  # [stage][variable]: stages of the dense output
    history: Any  # history argument of the stages (see `equations.delayed`)
    p: Any  # [parameter]


def between(x, y, k):
    """State at the fraction `x` of a step that begins at `y`."""
    weights = dense_weights(x)
    return tuple(
        sum((weights[j] * k[j][i] for j in range(len(DENSE))), y[i]) for i in range(VARIABLES)
    )


def dense_weights(x):
    """Weights of the stages in the dense output at the fraction `x` of a step."""
    powers = (x,)
    for m in unroll(range(1, len(DENSE[0]))):
        powers = powers + (powers[m - 1] * x,)  # noqa: RUF005
    return tuple(
        sum(DENSE[j][m] * powers[m] for m in range(len(DENSE[j])) if DENSE[j][m] != 0.0)
        for j in range(len(DENSE))
    )


def slopes_between(x, k):
    """Slope of the dense output at the fraction `x` of a step, times the step."""
    weights = slope_weights(x)
    return tuple(sum(weights[j] * k[j][i] for j in range(len(DENSE))) for i in range(VARIABLES))


def slope_weights(x):
    """Weights of the stages in `slopes_between`."""
    powers = (real(1.0),)
    for m in unroll(range(1, len(DENSE[0]))):
        powers = powers + (powers[m - 1] * x,)  # noqa: RUF005
    return tuple(
        sum(
            real(m + 1) * DENSE[j][m] * powers[m]
            for m in range(len(DENSE[j]))
            if DENSE[j][m] != 0.0
        )
        for j in range(len(DENSE))
    )


def missed_inside(t, h, y, k, history, p, factors, scale):
    """Error of the dense output of a method with PROBES (see `stepper`).

    `factors` are those of the matrix of the step, times `scale` over the step.
    """
    missed = tuple(real(0.0) for i in range(VARIABLES))
    for q in unroll(range(len(PROBES))):
        x = solved(factors, _defect(real(PROBES[q]), scale, t, h, y, k, history, p))
        # What is no number is worst.
        missed = tuple(missed[i] if abs(x[i]) <= missed[i] else abs(x[i]) for i in range(VARIABLES))
    return missed


def _defect(x, scale, t, h, y, k, history, p):
    """How far the dense output is from the equations: (u' - f) scale."""
    time = fma(x, h, t)
    state = between(x, y, k)
    g = slope(time, state, delayed(time, state, history, p), p)
    moved = massed(slopes_between(x, k))
    per = scale / h
    return tuple(fma(-scale, g[i], per * moved[i]) for i in range(VARIABLES))


def gaps_at(x, inside):
    """Event functions at the fraction `x` of a `DenseStep`."""
    time = inside.t + x * inside.h
    state = between(x, inside.y, inside.k)
    return gaps_here(time, state, inside.history, inside.p)


def gap_at(e, x, inside):
    """Event function `e` at the fraction `x` of a `DenseStep`."""
    return gaps_at(x, inside)[e]


value_at = option(gap_at)
"""``value_at(e, x, inside)`` is the event function that is searched."""


def gaps_here(t, y, history, p):
    """Event functions at a state."""
    g = gaps(t, y, delayed(t, y, history, p), p)
    found = tuple(real(g[e]) for e in range(EVENTS - EDGES))
    if EDGES > 0:
        return found + edges(t, y, history, p)
    return found


def gaps_past_goal(g, t, y, history, p):
    """Event functions where delayed values may jump.

    Those of the user's events keep the value before: an event may occur by the jump.
    """
    if EDGES > 0:
        return tuple(g[e] for e in range(EVENTS - EDGES)) + edges(t, y, history, p)
    return g


def on_surface(g):
    """Whether an event function is zero and has no side."""
    return abs(g) <= 8.0 * REST


def begins_on_surface(g):
    """Whether any event function is zero and has no side, or a delayed time outside its piece."""
    found = False
    for e in unroll(range(EVENTS)):
        found = found | on_surface(g[e])
        if e >= EVENTS - EDGES:
            found = found | (g[e] < 0.0)
    return found


def nodes_after_begin(nodes, is_first, inside):
    """Event functions at the nodes of a step; those that are zero at its beginning, with a side."""
    if not begins_on_surface(nodes[0]):
        return nodes
    soon = gaps_at(real(SOON), inside)
    noise = _noise_at_begin(inside)
    found = tuple(
        column_after_begin(
            e, tuple(nodes[j][e] for j in range(INTERVALS + 1)), soon[e], noise[e], is_first
        )
        for e in range(EVENTS)
    )
    return tuple(tuple(found[e][j] for e in range(EVENTS)) for j in range(INTERVALS + 1))


def _noise_at_begin(inside):
    """How far roundings of time and state can change the event functions there."""
    near = tuple(off_by_roundings(i, inside.y[i]) for i in range(VARIABLES))
    g = gaps_here(inside.t, inside.y, inside.history, inside.p)
    moved = gaps_here(off_by_roundings(1, inside.t), near, inside.history, inside.p)
    return tuple(abs(moved[e] - g[e]) for e in range(EVENTS))


def off_by_roundings(i, x):
    """Number `i` of a state, moved by 16 to 32 roundings; not all by the same."""
    share = 1.0 + abs(real(i % 7) - 3.0) / 3.0
    return fma(16.0 * EPSILON * share, abs(x), x)


def column_after_begin(e, g, soon, noise, is_first):
    """Event function `e` at the nodes of a step; `soon` shortly after its beginning.

    A function that has been zero since the first time has a side as soon as it exceeds its `noise`.
    Until then it is taken as a parabola.
    """
    if e >= EVENTS - EDGES and g[0] < 0.0 and soon < 0.0:  # its crossing was missed
        return (real(KEPT),) + g[1:]  # noqa: RUF005
    if not on_surface(g[0]):
        return g
    if not (is_first or abs(g[0]) == real(BEGUN)):
        return (side_at_begin(e, g[0], soon, False),) + g[1:]  # noqa: RUF005
    side = soon if abs(soon) > noise else real(0.0)
    place = real(1.0)  # node at which the side is known
    is_known = abs(soon) > noise
    for j in unroll(range(1, INTERVALS + 1)):
        if side == 0.0 and abs(g[j]) > noise:
            side, place = g[j], real(j)
    found = (side_at_begin(e, g[0], side, True) if side != 0.0 else real(0.0),)
    for j in unroll(range(1, INTERVALS + 1)):
        is_known = is_known or not abs(g[j]) <= noise  # NaN is known
        x = real(j) / place
        before = side * x * x if j < INTERVALS or side != 0.0 else real(BEGUN)
        found = found + (g[j] if is_known else before,)  # noqa: RUF005
    return found


def side_at_begin(e, g, soon, is_first):
    """Event function `e` at the beginning of a step, which is `soon` shortly after it.

    A state that leaves the surface in the direction of the event crosses it at the beginning: at
    the first time, and where the event acts.
    """
    if not on_surface(g):
        return g
    watches = e < EVENTS - EDGES and (is_first or (ACTS[e] and SCHEME == 0))
    if watches and soon != 0.0 and real(DIRECTIONS[e]) * soon >= 0.0:
        return -math.copysign(real(KEPT) if g == 0.0 else real(LEFT), soon)
    return soon


def is_endless(g, stop, t, h):
    """Whether an event that has acted at time `t` acts there again, at fraction `stop` of a step.

    `g` is its event function at the beginning of the step.
    """
    here = stop <= 64.0 * EPSILON or stop * h <= 16.0 * EPSILON * abs(t)
    return here and has_just_acted(g)


def has_just_acted(g):
    """Whether an event may have acted at the beginning of a step, where its function is `g`."""
    return abs(g) <= 8.0 * LEFT


def jumps_across(e, before, after):
    """Whether an effect carries event function `e` across zero."""
    return before * after < 0.0 and crosses(before, after, DIRECTIONS[e])


def side_after(e, g0, approach, leaving, has_acted):
    """Event function `e`, zero up to rounding, after the events of a moment: its side.

    `g0` is its value at the beginning of the step.  `approach` and `leaving` are its changes soon
    after the events, without and with their effects.
    """
    if SCHEME > 0 or e >= EVENTS - EDGES:  # noise decides the side
        return real(0.0)
    is_passive = ACTS[e] and not has_acted
    if is_passive and not on_surface(g0):
        return math.copysign(real(KEPT), g0)
    if abs(leaving) <= real(_RESTS) * abs(approach) or leaving == 0.0:
        return real(REST) if has_acted else real(0.0)
    if is_passive and real(DIRECTIONS[e]) * leaving >= 0.0:
        return -math.copysign(real(KEPT), leaving)
    return math.copysign(real(LEFT) if has_acted else real(KEPT), leaving)


def crosses(before, after, direction):
    """Whether zero is crossed between two values; a function that begins at zero does not cross."""
    rises = before < 0.0 and after >= 0.0
    falls = before > 0.0 and after <= 0.0
    if direction > 0:
        return rises
    if direction < 0:
        return falls
    return rises or falls


def gaps_at_nodes(g0, g1, inside):
    """Event functions at all nodes of a step; `g0` and `g1` are those at its ends."""
    inner = tuple(gaps_at(real(NODES[j]), inside) for j in range(1, INTERVALS))
    return (g0,) + inner + (g1,)  # noqa: RUF005


def are_numbers(g):
    """Whether none of the user's event functions is NaN."""
    found = True
    for e in unroll(range(EVENTS - EDGES)):
        found = found & (g[e] == g[e])
    return found


def met_here(met, g):
    """Which functions of the user's events have been finite so far; 1 or 0 of each."""
    return tuple(real(1.0) if is_finite(g[e]) else met[e] for e in range(EVENTS))


def all_met(met):
    """Whether the functions of all events of the user's have been finite at all."""
    found = True
    for e in unroll(range(EVENTS - EDGES)):
        found = found & (met[e] > 0.0)
    return found


def numbers_throughout(nodes):
    """Event functions at the end of a step; NaN for an event that is NaN at any node."""
    return tuple(
        _last_of_numbers(tuple(nodes[j][e] for j in range(INTERVALS + 1))) for e in range(EVENTS)
    )


def _last_of_numbers(g):
    number = True
    for j in unroll(range(INTERVALS + 1)):
        number = number & (g[j] == g[j])
    return g[INTERVALS] if number else real(NOT_A_NUMBER)


def may_happen(nodes):
    """Whether any event may occur in the step, from the event functions at the nodes.

    It may also occur if a value is NaN.
    """
    found = False
    for e in unroll(range(EVENTS)):
        found = found | may_cross(tuple(nodes[j][e] for j in range(INTERVALS + 1)), DIRECTIONS[e])
    return found


def may_cross(g, direction):
    """Whether an event function with values `g` at the nodes may cross zero in the step."""
    b = tuple(
        sum(BERNSTEIN[j][i] * g[i] for i in range(INTERVALS + 1) if BERNSTEIN[j][i] != 0.0)
        for j in range(INTERVALS + 1)
    )
    low, high, total = b[0], b[0], b[0]
    rises, falls = False, False
    for j in unroll(range(1, INTERVALS + 1)):
        low = min(low, b[j])
        high = max(high, b[j])
        total = total + b[j]
        rises = rises | (b[j] > b[j - 1])
        falls = falls | (b[j] < b[j - 1])
    # Without a turning point the extrema are the ends, which are exact.
    slack = _SLACK * (high - low) if rises & falls else real(0.0)
    fits = rises if direction > 0 else (falls if direction < 0 else rises | falls)
    return (fits & (low - slack <= 0.0) & (high + slack >= 0.0)) | (total != total)


def column(nodes, e):
    """One event function at the nodes, and its slopes there (times the step)."""
    g = tuple(nodes[j][e] for j in range(INTERVALS + 1))
    slopes = tuple(
        sum(SLOPES[j][i] * g[i] for i in range(INTERVALS + 1) if SLOPES[j][i] != 0.0)
        for j in range(INTERVALS + 1)
    )
    return g, slopes


def next_crossing(e, direction, at, g, slopes, inside):
    """Fraction of the step at which event `e` next occurs; above one if it does not occur.

    `at` is the state of the search: interval, fraction of the step, and event function there.  The
    updated state is returned too; pass it to the next call.
    """
    j, a, ga = at
    turned = a > real(j) / real(INTERVALS)
    x = real(2.0)
    while j < INTERVALS and x > 1.0:
        b, gb = real(j + 1) / real(INTERVALS), g[j + 1]
        alike = (ga > 0.0 and gb > 0.0) or (ga < 0.0 and gb < 0.0)
        if alike and not turned and ga * slopes[j] < 0.0 and gb * slopes[j + 1] > 0.0:
            b, gb = towards_zero(e, a, ga, b, inside)
            turned = True
        else:
            j += 1
            turned = False
        if crosses(ga, gb, direction):
            x = locate(e, a, ga, b, gb, inside)
        a, ga = b, gb
    return x, (j, a, ga)


def towards_zero(e, a, ga, b, inside):
    """Fraction between `a` and `b` at which an event function is nearest to zero, or crosses it.

    Returns the first fraction found whose value does not have the sign of `ga`, else the fraction
    of the extremum; and the event function there.
    """
    sign = math.copysign(real(1.0), ga)
    x = a + real(_GOLDEN) * (b - a)
    z = b - real(_GOLDEN) * (b - a)
    gx = value_at(e, x, inside)
    gz = value_at(e, z, inside)
    for _ in range(_TURNING):
        if sign * gx <= 0.0 or not sign * gz > 0.0:
            break
        if sign * gx < sign * gz:
            b, z, gz = z, x, gx
            x = a + real(_GOLDEN) * (b - a)
            gx = value_at(e, x, inside)
        else:
            a, x, gx = x, z, gz
            z = b - real(_GOLDEN) * (b - a)
            gz = value_at(e, z, inside)
    return (x, gx) if sign * gx <= sign * gz else (z, gz)


def locate(e, a, ga, b, gb, inside):
    """Fraction of the step, just after the zero of event `e` between `a` and `b`.

    Where the function is zero over a stretch, that is where the stretch begins.
    """
    is_mark = abs(ga) <= 8.0 * KEPT  # the value is zero
    if gb == 0.0 and is_mark:
        return b
    side = 0
    for _ in range(_LOCATING):
        x = (a * gb - b * ga) / (gb - ga)
        x = x if (x > a and x < b) else 0.5 * (a + b)
        if abs(ga) <= 8.0 * KEPT:
            x = a + 0.0625 * (b - a)
        if x <= a or x >= b:
            break
        g = value_at(e, x, inside)
        if g == 0.0 or (g > 0.0) != (ga > 0.0):
            b, gb = x, g
            if g == 0.0 and is_mark:
                break
            ga = 0.5 * ga if side == 1 else ga
            side = 1
        else:
            a, ga = x, g
            gb = 0.5 * gb if side == -1 else gb
            side = -1
    return b


def touched(gap, g0, g1):
    """Event function after its event has occurred; rounded to zero if it is close to zero."""
    return real(0.0) if math.fabs(gap) <= _TOUCHING * (math.fabs(g0) + math.fabs(g1)) else gap
