"""The integrated propensity within a step of the differential equations.

Propensities that change between firings are known at five equally spaced nodes of a window, which
is a step or a part of it.  Their sum is the polynomial of fourth degree through the nodes, so its
integral Lambda is a polynomial, too.  A firing changes only the propensities that depend on what it
changed; the others keep their values at the nodes.  The difference between that polynomial and the
cubic one through four of the nodes is the error; it decides how long a window is.

A pulse in time between nodes is found by interval arithmetic over the window.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import noinline_cpu, real
from ergode.stochastic.algorithms.hybrid_conditions import surround
from ergode.stochastic.algorithms.hybrid_step import (
    BEGIN,
    GOAL,
    LENGTH,
    MOVES,
    PARTED,
    SHARE,
    STILL,
    STILL_FIRES,
    WINDOW,
    WINDOW_BEGIN,
    WINDOW_END,
    put_within,
    time_within,
)
from ergode.stochastic.kernel.bytecode import evaluate, evaluate_bounds
from ergode.stochastic.kernel.outcomes import FAILED_NEGATIVE, FAILED_NOT_FINITE, INFINITY
from ergode.stochastic.kernel.realization import falling_factorials, propensity

NODES = 5
# Largest relative error of the total propensity, in tolerances, and in firings of a window.
LOOSE, LOST = 10.0, 1.0
# Firings in a window that its bounds allow beyond the propensities at the nodes.
HIDDEN = 0.1
# A propensity may be negative by this multiple of the tolerance [firings in a window].
BELOW_ZERO = 10.0
# Before a firing that changes the differential equations, a window is at most this number of times
# as long as the present propensities need for it.
AHEAD = 2.0
TRIALS = 100
SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.1, 5.0
ITERATIONS = 60


def moves(j, w, state):
    """Whether a reaction of `moving` fires, with a propensity that changes between firings."""
    return not PARTED or state.role[w, j] == MOVES


def disturbs(j, w, state):
    """Whether a firing changes the differential equations or a continuous variable."""
    return (state.disturbing_row[w, j] if PARTED else state.disturbs[j]) == 1


def look(w, t, point, net, work, state):
    """Present propensities that change between firings: the lowest, or minus infinity."""
    least = real(0.0)
    for place in range(state.moving.size):
        j = state.moving[place]
        if moves(j, w, state):
            a = propensity(j, w, t, point, net, work)
            state.a[w, j] = a
            least = min(least, a)
    return least


def total_of(w, state):
    """The present total propensity; not finite if one is not."""
    total = state.clock[w, STILL]
    for place in range(state.moving.size):
        if moves(state.moving[place], w, state):
            a = state.a[w, state.moving[place]]
            total += max(a, real(0.0)) if a == a else a
    return total


def soon(total, w, state):
    """Time in which a firing that changes the differential equations is likely."""
    disturbing = real(0.0)
    for place in range(state.disturbing.size):
        j = state.disturbing[place]
        if not PARTED or state.disturbing_row[w, j] == 1:
            disturbing += max(state.a[w, j], real(0.0))
    if not disturbing > 0.0:
        return real(INFINITY)
    return AHEAD * max(state.clock[w, GOAL] / total, 1.0 / disturbing)


def sum_still(w, state):
    """Renew the sum of the propensities that stay the same between firings; the lowest of them."""
    total, least = real(0.0), real(0.0)
    for place in range(state.a.shape[1] if PARTED else state.still.size):
        j = place if PARTED else state.still[place]
        if not PARTED or state.role[w, j] == STILL_FIRES:
            a = state.a[w, j]
            total += a
            least = min(least, a)
    state.clock[w, STILL] = total
    return least


# ---- a window


def _node(node, w, state):
    """Fraction of the step at a node."""
    begin, end = state.clock[w, WINDOW_BEGIN], state.clock[w, WINDOW_END]
    return end if node == NODES - 1 else begin + 0.25 * real(node) * (end - begin)


def renew(j, w, point, net, work, state):
    """Renew the values at the nodes of what depends on the changes of reaction `j`; all: -1.

    Except what `scale` renews.
    """
    for node in range(NODES):
        share = _node(node, w, state)
        put_within(share, w, work, state)
        t = time_within(state.clock[w, BEGIN], state.clock[w, LENGTH], share, w, state)
        if j < 0:
            for place in range(state.moving.size):
                r = state.moving[place]
                if not moves(r, w, state):
                    continue
                if state.scales[place] == 1:
                    law = net.coefficients[point, r] * evaluate(net.laws[r], w, t, point, net, work)
                    state.parts[w, place * NODES + node] = law
                    a = law * falling_factorials(r, w, net, work)
                else:
                    a = propensity(r, w, t, point, net, work)
                state.nodes[w, place * NODES + node] = a
            continue
        for entry in range(net.change_starts[j], net.change_starts[j + 1]):
            variable = net.changed[entry]
            for at in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
                place = state.places[net.affected[at]]
                if place >= 0 and state.scales[place] == 0 and moves(net.affected[at], w, state):
                    a = propensity(net.affected[at], w, t, point, net, work)
                    state.nodes[w, place * NODES + node] = a
    put_within(state.clock[w, SHARE], w, work, state)


def scale(r, place, w, net, work, state):
    """Renew the values at the nodes of a reaction whose law no firing changes."""
    factor = falling_factorials(r, w, net, work)
    for k in range(place * NODES, (place + 1) * NODES):
        state.nodes[w, k] = state.parts[w, k] * factor


def expand(w, state):
    """The total propensity of a window as a polynomial; its error, and the lowest propensity.

    Coefficients are those of Lambda over the length of the window.  The error is in firings over
    what is allowed; infinite if a propensity is not finite.
    """
    a, b, c = real(0.0), real(0.0), real(0.0)
    d, e, least = real(0.0), real(0.0), real(0.0)
    for place in range(state.moving.size):
        if not moves(state.moving[place], w, state):
            continue
        k = place * NODES
        p, q, r = state.nodes[w, k], state.nodes[w, k + 1], state.nodes[w, k + 2]
        s, u = state.nodes[w, k + 3], state.nodes[w, k + 4]
        least = min(least, min(min(min(p, q), min(r, s)), u))
        a += max(p, real(0.0))
        b += max(q, real(0.0))
        c += max(r, real(0.0))
        d += max(s, real(0.0))
        e += max(u, real(0.0))
        if not (p + q + r + s + u < INFINITY):
            return real(INFINITY), least
    still = state.clock[w, STILL]
    one = (-25.0 * a + 48.0 * b - 36.0 * c + 16.0 * d - 3.0 * e) / 3.0
    two = (70.0 * a - 208.0 * b + 228.0 * c - 112.0 * d + 22.0 * e) / 3.0
    three = (-80.0 * a + 288.0 * b - 384.0 * c + 224.0 * d - 48.0 * e) / 3.0
    four = (32.0 * a - 128.0 * b + 192.0 * c - 128.0 * d + 32.0 * e) / 3.0
    state.series[w, 0] = still + a
    state.series[w, 1] = one / 2.0
    state.series[w, 2] = two / 3.0
    state.series[w, 3] = three / 4.0
    state.series[w, 4] = four / 5.0
    length = (state.clock[w, WINDOW_END] - state.clock[w, WINDOW_BEGIN]) * state.clock[w, LENGTH]
    off = abs(c - (4.0 * (b + d) - a - e) / 6.0) * length
    allowed = max(LOOSE * (still + c) * length, real(LOST)) * state.tolerance[0]
    return off / allowed, least


def _hides(t, ends, length, w, point, net, work, state):
    """Whether a pulse in time, between the nodes, may fire a reaction."""
    if state.timed.size == 0:
        return False
    for variable in range(state.slots.size):
        state.low[w, variable] = work.x[w, variable]
        state.high[w, variable] = work.x[w, variable]
    surround(state.clock[w, WINDOW_BEGIN], state.clock[w, WINDOW_END], w, state)
    more = real(0.0)
    for place in range(state.timed.size):
        j = state.timed[place]
        if not moves(j, w, state):
            continue
        _, high = evaluate_bounds(net.laws[j], w, t, ends, point, net, work, state)
        factor = net.coefficients[point, j] * falling_factorials(j, w, net, work)
        seen = real(0.0)
        for node in range(NODES):
            seen = max(seen, state.nodes[w, state.places[j] * NODES + node])
        if high < INFINITY and factor > 0.0:
            more += max(factor * high - seen, real(0.0))
    return more * length > HIDDEN


@noinline_cpu
def open_window(w, point, net, work, state):
    """A window from the present fraction of the step, where propensities are known.

    Returns 0, or a failure code.
    """
    clock = state.clock
    begin, step = clock[w, SHARE], clock[w, LENGTH]
    t = time_within(clock[w, BEGIN], step, begin, w, state)
    clock[w, WINDOW_BEGIN], clock[w, WINDOW_END] = begin, real(1.0)
    if state.moving.size == 0:
        expand(w, state)
        return 0
    least = real(0.0)
    for place in range(state.moving.size):
        if moves(state.moving[place], w, state):
            least = min(least, state.a[w, state.moving[place]])
    total = total_of(w, state)
    if not total < INFINITY:
        return FAILED_NOT_FINITE
    wish = min(clock[w, WINDOW], soon(total, w, state))
    length = min(wish, (1.0 - begin) * step)
    if least * length < -BELOW_ZERO * state.tolerance[0]:
        return FAILED_NEGATIVE
    for _ in range(TRIALS):
        end = real(1.0) if length >= (1.0 - begin) * step else begin + length / step
        if not end > begin:
            break
        clock[w, WINDOW_END] = end
        renew(-1, w, point, net, work, state)
        error, lowest = expand(w, state)
        factor = real(MOST_FACTOR)
        if error > 0.0:
            factor = min(factor, SAFETY * math.exp(-0.25 * math.log(error)))
        if not error < INFINITY or (
            least == 0.0 and lowest * length < -BELOW_ZERO * state.tolerance[0]
        ):
            factor = real(LEAST_FACTOR)
        elif error <= 1.0:
            ends = time_within(clock[w, BEGIN], step, end, w, state)
            if not _hides(t, ends, length, w, point, net, work, state):
                clock[w, WINDOW] = max(wish, length * factor)
                return 0
            factor = real(0.5)
        length *= max(factor, real(LEAST_FACTOR))
        wish = length
    return FAILED_NOT_FINITE


def close_window(w, state):
    """Present propensities, at the end of a window."""
    for place in range(state.moving.size):
        if moves(state.moving[place], w, state):
            state.a[w, state.moving[place]] = state.nodes[w, place * NODES + NODES - 1]


# ---- firings within a window


def hazard(x, w, state):
    """Lambda at a fraction of the window, over its length."""
    s = state.series
    return x * (s[w, 0] + x * (s[w, 1] + x * (s[w, 2] + x * (s[w, 3] + x * s[w, 4]))))


def _rate(x, w, state):
    s = state.series
    high = 4.0 * s[w, 3] + x * (5.0 * s[w, 4])
    return s[w, 0] + x * (2.0 * s[w, 1] + x * (3.0 * s[w, 2] + x * high))


def cross(to, w, state):
    """The share of the step at which Lambda reaches its goal, and what Lambda still lacks there.

    If Lambda does not reach it by the share `to`, the share is `to`.
    """
    clock = state.clock
    begin, goal = clock[w, WINDOW_BEGIN], clock[w, GOAL]
    width = clock[w, WINDOW_END] - begin
    length = width * clock[w, LENGTH]
    low, high = (clock[w, SHARE] - begin) / width, (to - begin) / width
    target = hazard(low, w, state) * length + goal
    most = hazard(high, w, state) * length
    if not most >= target:
        return to, target - most
    x = low
    for _ in range(ITERATIONS):
        rate = _rate(x, w, state) * length
        beyond = hazard(x, w, state) * length - target
        if beyond < 0.0:
            low = x
        else:
            high = x
        middle = 0.5 * (low + high)
        new = x - beyond / rate if rate > 0.0 else middle
        if not (new >= low and new <= high):
            new = middle
        near = abs(new - x) <= real(1e-9) * new
        x = new
        if near:
            break
    return min(begin + x * width, to), real(0.0)


def interpolate(share, w, state):
    """Propensities within the window, into the worker's row."""
    begin = state.clock[w, WINDOW_BEGIN]
    z = 4.0 * (share - begin) / (state.clock[w, WINDOW_END] - begin)
    y, x, v, u = z - 1.0, z - 2.0, z - 3.0, z - 4.0
    a, b, c = y * x * v * u / 24.0, -z * x * v * u / 6.0, z * y * v * u / 4.0
    d, e = -z * y * x * u / 6.0, z * y * x * v / 24.0
    for place in range(state.moving.size):
        if not moves(state.moving[place], w, state):
            continue
        k = place * NODES
        state.a[w, state.moving[place]] = (
            a * state.nodes[w, k] + b * state.nodes[w, k + 1] + c * state.nodes[w, k + 2]
            + d * state.nodes[w, k + 3] + e * state.nodes[w, k + 4]
        )  # fmt: skip
