"""Rejection by bounds: a rate law is evaluated only if its bounds do not decide.

Every count has an interval around it, and every propensity has an upper bound that holds in all
intervals.  Candidates arrive at the rate of the bounds, and are accepted with the ratio of
propensity to bound.  While counts stay in their intervals no update is needed.  Interval arithmetic
gives bounds of any formula, also over time: rates that depend on time are simulated exactly, with
bounds over one short time window after another.

If a rate may be negative, infinite or NaN somewhere in the interval, the interval shrinks to the
state, and every propensity is evaluated in every state.  So an invalid rate is detected in the
state where it occurs, as by other methods.  For a rate that depends on time, it is detected at the
beginning of a window or at a candidate.

V. H. Thanh, C. Priami, R. Zunino, "Efficient rejection-based simulation of biochemical reactions
with stochastic noise and delays", J. Chem. Phys. 141 (2014).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.core.math.random import ACCEPTANCE, FIRING, draw_words, exponential, uniform
from ergode.stochastic.algorithms import direct
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.algorithms.direct import choose
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.bytecode import bounds_of_product, evaluate_bounds
from ergode.stochastic.kernel.realization import propensity
from ergode.stochastic.tables import Tables

# Half width of the interval around a count: this fraction of it, and at least this number.
SHARE, LEAST = 0.1, 4.0
# Expected number of candidates per time window, and number of windows up to the next break.
CANDIDATES, WINDOWS = 16.0, 64.0
# Limit on halvings of a window: resolves a pulse of 1e-15 of the run.
HALVINGS = 50


class MethodState(NamedTuple):
    """State of the method; one row per worker."""

    a: Any  # [worker, reaction] upper bound of the propensity
    lower: Any  # [worker, reaction] lower bound
    sums: Any  # [worker, block] of upper bounds
    dirty: Any  # [worker, block]
    listed: Any  # [worker, block]
    low: Any  # [worker, variable] lower ends of the intervals
    high: Any
    stack: Any  # [worker, depth] upper ends of intervals on the stack
    negative: Any  # [worker, 1] whether a propensity is negative
    window: Any  # [worker, 4] begin and end of the time window, its largest width, the next width
    width: Any  # [1] reactions per block
    follows_time: Any  # [1] whether a rate depends on time


def _surround(variable, w, work, state):
    """Set the interval around the count of a variable."""
    x = work.x[w, variable]
    half = max(real(LEAST), math.floor(SHARE * abs(x)))
    state.low[w, variable] = max(x - half, min(x, real(0.0)))
    state.high[w, variable] = x + half


@noinline_cpu
def _bound(j, w, point, net, work, state):
    """Bounds of a propensity over the intervals of the state and the time window."""
    low, high = real(1.0), real(1.0)
    for entry in range(net.reactant_starts[j], net.reactant_starts[j + 1]):
        variable = net.reactants[entry]
        least, most = state.low[w, variable], state.high[w, variable]
        low, high = bounds_of_product(low, high, least, most)
        for k in range(1, net.orders[entry]):
            low, high = bounds_of_product(
                low, high, max(least - real(k), real(0.0)), max(most - real(k), real(0.0))
            )
    c = net.coefficients[point, j]
    low, high = c * low, c * high
    if net.laws[j] >= 0:
        t_low, t_high = state.window[w, 0], state.window[w, 1]
        least, most = evaluate_bounds(
            net.laws[j], w, t_low, t_high, point, net, work, state
        )  # fmt: skip
        low, high = bounds_of_product(least, most, low, high)
        low = min(low, least) if least == -outcomes.INFINITY else low
    state.lower[w, j] = low
    state.a[w, j] = max(high, real(0.0))


def _is_doubtful(j, w, state):
    """Whether the bounds of a propensity allow negative or infinite values."""
    return not state.a[w, j] < outcomes.INFINITY or state.lower[w, j] < 0.0


@noinline_cpu
def _bound_all(w, t, point, net, work, state):
    """All bounds and sums; intervals shrink to the state if a propensity may be invalid in them."""
    doubtful = False
    state.negative[w, 0] = 0
    for j in range(state.a.shape[1]):
        _bound(j, w, point, net, work, state)
        doubtful = doubtful or _is_doubtful(j, w, state)
    if doubtful:
        for variable in range(state.low.shape[1]):
            state.low[w, variable] = work.x[w, variable]
            state.high[w, variable] = work.x[w, variable]
        for j in range(state.a.shape[1]):
            a = propensity(j, w, t, point, net, work)
            if state.follows_time[0] != 0:
                _bound(j, w, point, net, work, state)
            else:
                state.a[w, j] = a
                state.lower[w, j] = a
            if a < 0.0:
                state.negative[w, 0] = 1
            if not a < outcomes.INFINITY:
                state.a[w, j] = real(outcomes.INFINITY)
    direct.add_up_all(w, state)


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Set intervals around the state, an empty time window, and all bounds."""
    state.window[w, 0] = t
    state.window[w, 1] = t
    state.window[w, 2] = 0.0
    state.window[w, 3] = 0.0
    for variable in range(state.low.shape[1]):
        _surround(variable, w, work, state)
    _bound_all(w, t, point, net, work, state)


def update(j, w, t, point, plan, replicate, net, work, state):
    """Renew the interval of a count that has left it, and the dependent bounds."""
    count = 0
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        x = work.x[w, variable]
        if x >= state.low[w, variable] and x <= state.high[w, variable]:
            continue
        _surround(variable, w, work, state)
        for k in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            r = net.affected[k]
            _bound(r, w, point, net, work, state)
            if _is_doubtful(r, w, state):
                return False
            count = direct.mark(r // state.width[0], count, w, state)
    direct.add_up_marked(count, w, state)
    return True


def _least(w, state):
    """Sum of lower bounds."""
    total = real(0.0)
    for j in range(state.a.shape[1]):
        total += state.lower[w, j]
    return total


def advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    """Draw candidates at the rate of the bounds, until one is accepted."""
    follows_time = state.follows_time[0] != 0
    while True:
        total = direct.sum_of_blocks(w, state)
        if follows_time and t >= state.window[w, 1]:
            if t >= limit:
                return t, outcomes.NO_REACTION, draw
            if state.window[w, 2] == 0.0:
                state.window[w, 2] = (limit - t) / WINDOWS
                state.window[w, 3] = state.window[w, 2]
            width = min(min(limit - t, state.window[w, 2]), state.window[w, 3])
            if not t + width > t:  # the limit is a few roundings away
                width = limit - t
            for _ in range(HALVINGS):
                state.window[w, 0] = t
                state.window[w, 1] = t + width
                _bound_all(w, t, point, net, work, state)
                total = direct.sum_of_blocks(w, state)
                # A pulse raises the bound in the whole window: shorten the window if that costs
                # much.
                if total * width <= CANDIDATES or t + 0.5 * width <= t:
                    break
                if total < outcomes.INFINITY and _least(w, state) > 0.5 * total:
                    break
                width *= 0.5
            state.window[w, 3] = 2.0 * width
        if state.negative[w, 0] != 0:
            return t, outcomes.FAILED_NEGATIVE, draw
        if total == 0.0 and not follows_time:
            return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
        if not (total >= 0.0 and total < outcomes.INFINITY):
            return t, outcomes.FAILED_NOT_FINITE, draw
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
        candidate = t + exponential(w0, w1) / total
        if follows_time and candidate >= state.window[w, 1] and state.window[w, 1] < limit:
            draw += 1
            t = state.window[w, 1]
            continue
        if candidate >= limit:
            return candidate, outcomes.NO_REACTION, draw + 1
        t = candidate
        j = choose(uniform(w2, w3) * total, w, point, state)
        if j >= 0:
            w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, ACCEPTANCE, draw)
            height = uniform(w0, w1) * state.a[w, j]
            if height < state.lower[w, j]:
                return t, j, draw + 1
            a = propensity(j, w, t, point, net, work)
            if a < 0.0:
                return t, outcomes.FAILED_NEGATIVE, draw
            if not a < outcomes.INFINITY:
                return t, outcomes.FAILED_NOT_FINITE, draw
            if height < a:
                return t, j, draw + 1
        draw += 1


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    return {
        **direct.arrays(tables),
        "lower": (tables.reaction_count, np.float64),
        "low": (tables.variable_count, np.float64),
        "high": (tables.variable_count, np.float64),
        "stack": (tables.depth, np.float64),
        "window": (4, np.float64),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share."""
    return {**direct.constants(tables), "follows_time": np.array([tables.time_dependent], np.int8)}


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    advance=advance,
)  # fmt: skip
