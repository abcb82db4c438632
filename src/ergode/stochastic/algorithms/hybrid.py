"""Hybrid models: differential equations between firings, a piecewise-deterministic Markov process.

The continuous variables x obey dx/dt = f(x, n, t), with n the molecules.  Between two firings

    d Lambda / dt = a0(x, n, t)

is integrated with them, where a0 is the total propensity of the reactions that fire.  The next
reaction fires when Lambda reaches an exponential random number of mean one.  That time is a root of
the dense output of a step.  The reaction is chosen by the propensities at that time.  The threshold
is kept across steps, breaks and events, so neither times of results nor steps change a realization
beyond the tolerance.

Steps are those of ``rodas4``, an L-stable Rosenbrock method of order 4(3), so the differential
equations may be stiff.  Its Jacobian is made by finite differences.  Conditions on continuous
variables (triggers of events, `stop`) turn at the first root of the dense output.  Interval
arithmetic over the step decides whether there is one: the dense output is a cubic polynomial, which
lies between its Bernstein coefficients.  Only a part of a step in which the value cannot be decided
is divided, down to the fraction `SHORTEST` of it.

E. L. Haseltine, J. B. Rawlings, "Approximate simulation of coupled fast and slow reactions for
stochastic chemical kinetics", J. Chem. Phys. 117, 6959 (2002), section III.
S. Zeiser, U. Franz, O. Wittich, V. Liebscher, "Simulation of genetic networks modelled by piecewise
deterministic Markov processes", IET Syst. Biol. 2, 113 (2008).
E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), IV.7 and VI.4.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.core.compiler.programs import Operation
from ergode.core.math.rosenbrock import RODAS4, coefficients_of
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.kernel.bytecode import evaluate, evaluate_bounds
from ergode.stochastic.kernel.next_firing import wait_and_choice
from ergode.stochastic.kernel.outcomes import (
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    FAILED_TO_END,
    INFINITY,
    NO_REACTION,
)
from ergode.stochastic.kernel.realization import falling_factorials, propensity
from ergode.stochastic.tables import Tables

TOLERANCE = 1e-6
"""Default relative tolerance of a step."""

# The first step changes no variable by more than this fraction of it.
FIRST = 0.01
# A step is at most this number of times as long as the present propensities need for a firing.
AHEAD = 2.0
TRIALS = 100
SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.1, 5.0
# Relative increment of finite differences: of variables, and of time within the step.
DIFFERENCE, LATER = 1e-7, 1e-6
# A propensity may be negative by this multiple of the tolerance [firings in a step].
BELOW_ZERO = 10.0
# Firings in a step that its bounds allow beyond the propensities at its ends.
HIDDEN = 0.1
# Parts of a step of this length are not divided further by intervals.
SHORTEST = 1e-6
HALVINGS = 60

GAMMA = RODAS4.gamma
_STAGES = len(RODAS4.m)
# Places in the row `clock`.
_BEGIN, _LENGTH, _SHARE, _GOAL, _CHOICE, _NEXT, _STEPS, _BEFORE = range(8)


class MethodState(NamedTuple):
    """State of the method; one row per worker.  A slot is a continuous variable; last is Lambda."""

    a: Any  # [worker, reaction] propensities, and rates of deterministic reactions
    clock: Any  # [worker, 8] begin and length of the step; its part that happens; Lambda left until
    # the firing, or -1; the number that chooses; next length; steps; last time before a break
    y: Any  # [worker, slot] at the begin of the step
    end: Any  # [worker, slot] at its end
    finish: Any  # [worker, slot] at the end of the part that happens
    largest: Any  # [worker, slot] largest absolute value so far
    slope: Any  # [worker, slot] time derivatives at the begin
    trial: Any  # [worker, slot] at a stage; then the solution of its linear system
    in_time: Any  # [worker, slot] derivatives of the slopes by time
    first: Any  # [worker, slot] coefficients of the dense output
    second: Any
    third: Any
    stages: Any  # [worker, stage * slot]
    jacobian: Any  # [worker, slot * slot] row by row, the last is the gradient of a0
    matrix: Any  # [worker, slot * slot] its shifted factors
    pivots: Any  # [worker, slot]
    low: Any  # [worker, variable] intervals
    high: Any
    stack: Any  # [worker, depth] upper ends of intervals on the stack
    variables: Any  # [slot - 1] variable of each slot
    rates: Any  # [slot - 1] program of its rate rule; -1 without one
    slots: Any  # [variable] its slot; -1 if it has none
    flows: Any  # [0 ...] deterministic reactions
    moving: Any  # [0 ...] reactions that fire, and whose propensity changes between firings
    timed: Any  # [0 ...] those whose propensity depends on time
    still: Any  # [0 ...] other reactions that fire
    fires: Any  # [reaction] whether it fires
    conditions: Any  # [0 ...] programs whose value can change between firings
    follows_time: Any  # [1] whether a rate depends on time
    tolerance: Any  # [1]
    tableau: Any  # [6, stage, stage] coefficients: a, c, and the rows m, e, alpha, gammas
    more: Any  # [2, stage] p and q of the dense output


# ---- the right-hand side


@noinline_cpu
def _look(w, t, point, net, work, state):
    """Propensities that stay the same between firings."""
    for k in range(state.still.size):
        j = state.still[k]
        state.a[w, j] = propensity(j, w, t, point, net, work)


@noinline_cpu
def _slopes(w, t, point, out, net, work, state):
    """Time derivatives of all slots, into `out`; returns the lowest propensity."""
    count = state.variables.size
    for k in range(count):
        slope = real(0.0)
        if state.rates[k] >= 0:
            slope = evaluate(state.rates[k], w, t, point, net, work)
        out[w, k] = slope
    for place in range(state.flows.size):
        j = state.flows[place]
        rate = propensity(j, w, t, point, net, work)
        for entry in range(net.change_starts[j], net.change_starts[j + 1]):
            out[w, state.slots[net.changed[entry]]] += net.changes[entry] * rate
    total, least = real(0.0), real(0.0)
    for place in range(state.still.size):
        a = state.a[w, state.still[place]]
        total += a
        least = min(least, a * real(INFINITY)) if a < 0.0 else least
    for place in range(state.moving.size):
        j = state.moving[place]
        a = propensity(j, w, t, point, net, work)
        state.a[w, j] = a
        total += max(a, real(0.0)) if a == a else a
        least = min(least, a)
    out[w, count] = total
    return least


def _floor(k, w, state):
    """Size of a variable below which its errors are absolute: one, or its largest value if less."""
    return min(state.largest[w, k], real(1.0))


@noinline_cpu
def _differentiate(w, t, length, point, net, work, state):
    """The Jacobian at the begin of a step, and the derivatives by time."""
    count = state.variables.size
    width = count + 1
    for k in range(count):
        size = max(abs(state.y[w, k]), _floor(k, w, state))
        if size == 0.0:
            size = real(1.0)
        moved = state.y[w, k] + real(DIFFERENCE) * size
        work.x[w, state.variables[k]] = moved
        _slopes(w, t, point, state.trial, net, work, state)
        work.x[w, state.variables[k]] = state.y[w, k]
        for i in range(width):
            state.jacobian[w, i * width + k] = (state.trial[w, i] - state.slope[w, i]) / (
                moved - state.y[w, k]
            )
    for i in range(width):
        state.in_time[w, i] = 0.0
    if state.follows_time[0] != 0:
        later = t + real(LATER) * length
        if later > t:
            _slopes(w, later, point, state.trial, net, work, state)
            for i in range(width):
                state.in_time[w, i] = (state.trial[w, i] - state.slope[w, i]) / (later - t)


# ---- linear systems of the variables; Lambda follows from them


@noinline_cpu
def _factorise(w, diagonal, state):
    """Factors of diagonal - J, with row interchanges; false if it is singular."""
    count = state.variables.size
    width = count + 1
    for i in range(count):
        for k in range(count):
            state.matrix[w, i * width + k] = -state.jacobian[w, i * width + k]
        state.matrix[w, i * width + i] += diagonal
    for k in range(count):
        best, largest = k, abs(state.matrix[w, k * width + k])
        for i in range(k + 1, count):
            size = abs(state.matrix[w, i * width + k])
            if size > largest:
                best, largest = i, size
        state.pivots[w, k] = best
        if not (largest > 0.0 and largest < INFINITY):
            return False
        if best != k:
            for i in range(count):
                kept = state.matrix[w, k * width + i]
                state.matrix[w, k * width + i] = state.matrix[w, best * width + i]
                state.matrix[w, best * width + i] = kept
        for i in range(k + 1, count):
            factor = state.matrix[w, i * width + k] / state.matrix[w, k * width + k]
            state.matrix[w, i * width + k] = factor
            for m in range(k + 1, count):
                state.matrix[w, i * width + m] -= factor * state.matrix[w, k * width + m]
    return True


@noinline_cpu
def _solve(w, diagonal, state):
    """Solve for the right-hand side in `trial`, in place."""
    count = state.variables.size
    width = count + 1
    for k in range(count):
        best = state.pivots[w, k]
        value = state.trial[w, best]
        state.trial[w, best] = state.trial[w, k]
        state.trial[w, k] = value
    for k in range(count):
        for i in range(k):
            state.trial[w, k] -= state.matrix[w, k * width + i] * state.trial[w, i]
    for k in range(count - 1, -1, -1):
        value = state.trial[w, k]
        for i in range(k + 1, count):
            value -= state.matrix[w, k * width + i] * state.trial[w, i]
        state.trial[w, k] = value / state.matrix[w, k * width + k]
    value = state.trial[w, count]
    for k in range(count):
        value += state.jacobian[w, count * width + k] * state.trial[w, k]
    state.trial[w, count] = value / diagonal


# ---- a step


def _seen(t, length, share, w, state):
    """The time at a fraction of a step; formulas see it before the break that ends the step."""
    return min(t + share * length, state.clock[w, _BEFORE])


@noinline_cpu
def _step(w, t, length, point, net, work, state):
    """Try a step; returns its error relative to the tolerance, infinite if it has none."""
    count = state.variables.size
    width = count + 1
    diagonal = 1.0 / (GAMMA * length)
    if not _factorise(w, diagonal, state):
        return real(INFINITY)
    for s in range(_STAGES):
        if s > 0:
            for k in range(count):
                value = state.y[w, k]
                for r in range(s):
                    value += state.tableau[0, s, r] * state.stages[w, r * width + k]
                work.x[w, state.variables[k]] = value
            alpha = state.tableau[4, 0, s]
            _slopes(
                w, _seen(t, length, alpha, w, state), point, state.trial, net, work, state
            )  # fmt: skip
        for k in range(width):
            value = state.slope[w, k] if s == 0 else state.trial[w, k]
            for r in range(s):
                value += state.tableau[1, s, r] / length * state.stages[w, r * width + k]
            state.trial[w, k] = value + state.tableau[5, 0, s] * length * state.in_time[w, k]
        _solve(w, diagonal, state)
        for k in range(width):
            state.stages[w, s * width + k] = state.trial[w, k]
    worst = real(0.0)
    tolerance = state.tolerance[0]
    for k in range(width):
        change, error, p, q = real(0.0), real(0.0), real(0.0), real(0.0)
        for s in range(_STAGES):
            u = state.stages[w, s * width + k]
            change += state.tableau[2, 0, s] * u
            error += state.tableau[3, 0, s] * u
            p += state.more[0, s] * u
            q += state.more[1, s] * u
        scale = real(1.0)
        if k < count:
            state.end[w, k] = state.y[w, k] + change
            scale = max(max(abs(state.y[w, k]), abs(state.end[w, k])), _floor(k, w, state))
        else:
            state.end[w, k] = change
        state.first[w, k] = change + p
        state.second[w, k] = q - p
        state.third[w, k] = -q
        part = abs(error)
        if part > 0.0:
            part = part / (tolerance * scale)
        if not part < INFINITY:
            return real(INFINITY)
        worst = max(worst, part)
    for k in range(count):
        work.x[w, state.variables[k]] = state.y[w, k]
    return worst


def _change(k, share, w, state):
    """Change of a slot since the begin of the step, by the dense output."""
    return share * (state.first[w, k] + share * (state.second[w, k] + share * state.third[w, k]))


def _value(k, share, w, state):
    """Value of a continuous variable within the step."""
    return state.end[w, k] if share >= 1.0 else state.y[w, k] + _change(k, share, w, state)


def _put(share, w, work, state):
    """Put the values within the step into the worker's row."""
    for k in range(state.variables.size):
        work.x[w, state.variables[k]] = _value(k, share, w, state)


@noinline_cpu
def _share_of(goal, w, state):
    """Fraction of the step at which Lambda is `goal`, which is at most its value at the end."""
    k = state.variables.size
    low, high = real(0.0), real(1.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _change(k, middle, w, state) < goal:
            low = middle
        else:
            high = middle
    return high


# ---- conditions


@noinline_cpu
def _surround(begin, end, w, state):
    """Intervals of the continuous variables over a part of the step: Bernstein coefficients."""
    third = (end - begin) / 3.0
    for k in range(state.variables.size):
        a, b = _value(k, begin, w, state), _value(k, end, w, state)
        slope_a = state.first[w, k] + begin * (
            2.0 * state.second[w, k] + begin * (3.0 * state.third[w, k])
        )
        slope_b = state.first[w, k] + end * (
            2.0 * state.second[w, k] + end * (3.0 * state.third[w, k])
        )
        c, d = a + third * slope_a, b - third * slope_b
        state.low[w, state.variables[k]] = min(min(a, b), min(c, d))
        state.high[w, state.variables[k]] = max(max(a, b), max(c, d))


@noinline_cpu
def _holds(program, t, length, share, w, point, net, work, state):
    """Whether a condition holds at a fraction of the step."""
    _put(share, w, work, state)
    return evaluate(program, w, _seen(t, length, share, w, state), point, net, work) != 0.0


@noinline_cpu
def _first_change(program, t, length, most, w, point, net, work, state):
    """The first fraction of the step up to `most` at which a condition has changed; 2 if none."""
    before = _holds(program, t, length, real(0.0), w, point, net, work, state)
    at, width = real(0.0), most
    for variable in range(state.slots.size):
        state.low[w, variable] = work.x[w, variable]
        state.high[w, variable] = work.x[w, variable]
    while at < most:
        to = min(at + width, most)
        _surround(at, to, w, state)
        low, high = evaluate_bounds(
            program, w, _seen(t, length, at, w, state), _seen(t, length, to, w, state), point, net,
            work, state,
        )  # fmt: skip
        never, always = high == 0.0 and low == 0.0, low > 0.5
        if (always and before) or (never and not before):
            at = to
            width *= 2.0
            continue
        if to - at > SHORTEST * most:
            width = 0.5 * (to - at)
            continue
        if _holds(program, t, length, to, w, point, net, work, state) != before:
            low_share, high_share = at, to
            for _ in range(HALVINGS):
                middle = 0.5 * (low_share + high_share)
                if _holds(program, t, length, middle, w, point, net, work, state) != before:
                    high_share = middle
                else:
                    low_share = middle
            return high_share
        at = to
        width *= 2.0
    return real(2.0)


@noinline_cpu
def _hides(w, t, length, point, net, work, state):
    """Whether a pulse in time, between the times at which a step looks, may fire a reaction."""
    if state.timed.size == 0:
        return False
    for variable in range(state.slots.size):
        state.low[w, variable] = work.x[w, variable]
        state.high[w, variable] = work.x[w, variable]
    _surround(real(0.0), real(1.0), w, state)
    ends = _seen(t, length, real(1.0), w, state)
    more = real(0.0)
    for place in range(state.timed.size):
        j = state.timed[place]
        low, high = evaluate_bounds(net.laws[j], w, t, ends, point, net, work, state)
        seen = max(
            evaluate(net.laws[j], w, t, point, net, work),
            evaluate(net.laws[j], w, ends, point, net, work),
        )
        factor = net.coefficients[point, j] * falling_factorials(j, w, net, work)
        if high < INFINITY and factor > 0.0:
            more += factor * (high - seen)
    return more * length > HIDDEN


# ---- the method


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Begin, or go on after an event: the threshold is kept."""
    state.clock[w, _NEXT] = 0.0
    if work.begun[w, 0] == 0:
        work.begun[w, 0] = 1
        state.clock[w, _GOAL] = -1.0
        state.clock[w, _STEPS] = 0.0
        for k in range(state.variables.size):
            state.largest[w, k] = 0.0
    _look(w, t, point, net, work, state)


def update(j, w, t, point, plan, replicate, net, work, state):
    """Renew the propensities of still reactions that depend on changed variables."""
    if j >= state.a.shape[1]:
        return True
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        for place in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            r = net.affected[place]
            state.a[w, r] = propensity(r, w, t, point, net, work)
    return True


@noinline_cpu
def _choose(w, t, point, net, work, state):
    """The reaction that fires, by the propensities of the worker's row; -1 if none can."""
    for place in range(state.moving.size):
        j = state.moving[place]
        state.a[w, j] = propensity(j, w, t, point, net, work)
    total = real(0.0)
    for j in range(state.a.shape[1]):
        if state.fires[j] == 1:
            total += max(state.a[w, j], real(0.0))
    target = state.clock[w, _CHOICE] * total
    found = -1
    for j in range(state.a.shape[1]):
        a = state.a[w, j]
        if state.fires[j] == 1 and a > 0.0:
            found = j
            if target < a:
                break
            target -= a
    return found


@noinline_cpu
def _first_length(t, limit, w, state):
    """Length of the first step."""
    length = limit - t
    if not length < INFINITY:
        length = max(abs(t), real(1.0))
    for k in range(state.variables.size):
        size = max(abs(state.y[w, k]), _floor(k, w, state))
        slope = abs(state.slope[w, k])
        if size > 0.0 and slope > 0.0:
            length = min(length, FIRST * size / slope)
    return length


@noinline_cpu
def _accepted(w, t, length, wish, point, net, work, state):
    """Step until the error is small enough; the step's length, or a failure code."""
    for _ in range(TRIALS):
        error = _step(w, t, length, point, net, work, state)
        if error <= 1.0 and _hides(w, t, length, point, net, work, state):
            length *= 0.5
            wish = min(wish, length)
            continue
        if error <= 1.0:
            factor = real(MOST_FACTOR)
            if error > 0.0:
                factor = min(factor, SAFETY * math.exp(-0.25 * math.log(error)))
            state.clock[w, _NEXT] = max(wish, length * factor)
            return length
        factor = real(LEAST_FACTOR)
        if error < INFINITY:
            factor = max(factor, SAFETY * math.exp(-0.25 * math.log(error)))
        length *= factor
        wish = min(wish, length)
        if not t + length > t:
            break
    return real(FAILED_NOT_FINITE)


@noinline_cpu
def advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    """A step, or its part up to a firing or a condition that changes: its end, what ends it.

    In place of a reaction, the number of reactions means that none fires.
    """
    count = state.variables.size
    none = state.a.shape[1]
    if state.clock[w, _GOAL] < 0.0:
        goal, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
        draw += 1
        state.clock[w, _GOAL] = goal
        # A firing may begin a fast transient, which a long step would not resolve within.
        state.clock[w, _NEXT] = 0.0
        state.clock[w, _CHOICE] = choice
    goal = state.clock[w, _GOAL]
    finite = True
    for k in range(count):
        x = work.x[w, state.variables[k]]
        state.y[w, k] = x
        state.largest[w, k] = max(state.largest[w, k], abs(x))
    least = _slopes(w, t, point, state.slope, net, work, state)
    for k in range(count + 1):
        finite = finite and abs(state.slope[w, k]) < INFINITY
    total = state.slope[w, count]
    if least == -INFINITY:
        return t, FAILED_NEGATIVE, draw
    if not finite:
        return t, FAILED_NOT_FINITE, draw
    if t >= limit:
        return limit, NO_REACTION, draw
    # Nothing moves between firings: the direct method.
    if count == 0 and state.follows_time[0] == 0 and state.conditions.size == 0:
        fires_at = t + goal / total if total > 0.0 else real(INFINITY)
        if fires_at >= limit:
            state.clock[w, _GOAL] = max(goal - total * (limit - t), real(0.0))
            return (real(INFINITY) if total == 0.0 else limit), NO_REACTION, draw
        state.clock[w, _GOAL] = -1.0
        j = _choose(w, t, point, net, work, state)
        return fires_at, (j if j >= 0 else none), draw
    state.clock[w, _STEPS] += 1.0
    if state.clock[w, _STEPS] > real(plan.max_firings):
        return t, FAILED_TO_END, draw
    # The last number below `limit`, halfway if there is none after `t`.
    before = limit
    if limit < INFINITY:
        before = max(limit - abs(limit) * real(2.3e-16), 0.5 * (t + limit))
    state.clock[w, _BEFORE] = before
    wish = state.clock[w, _NEXT]
    if wish == 0.0:
        wish = _first_length(t, limit, w, state)
    length = min(wish, limit - t)
    if total > 0.0:
        length = min(length, AHEAD * goal / total)
    if not t + length > t:
        length = min(max(abs(t), real(1e-300)) * real(4.5e-16), limit - t)
    _differentiate(w, t, length, point, net, work, state)
    length = _accepted(w, t, length, wish, point, net, work, state)
    if length < 0.0:
        for k in range(count):
            work.x[w, state.variables[k]] = state.y[w, k]
        return t, FAILED_NOT_FINITE, draw
    if least * length < -BELOW_ZERO * state.tolerance[0]:
        return t, FAILED_NEGATIVE, draw
    share, fires = real(1.0), False
    if total > 0.0 or state.end[w, count] > 0.0:
        fires = state.end[w, count] >= goal
    if fires:
        share = _share_of(goal, w, state)
    for place in range(state.conditions.size):
        changed = _first_change(
            state.conditions[place], t, length, share, w, point, net, work, state
        )  # fmt: skip
        if changed < share:
            share, fires = changed, False
        elif changed <= 1.0 and not fires:
            share = changed
    _put(share, w, work, state)
    for k in range(count):
        state.finish[w, k] = work.x[w, state.variables[k]]
    state.clock[w, _BEGIN] = t
    state.clock[w, _LENGTH] = length
    state.clock[w, _SHARE] = share
    j = none
    if fires:
        state.clock[w, _GOAL] = -1.0
        j = _choose(w, _seen(t, length, share, w, state), point, net, work, state)
        j = j if j >= 0 else none
    else:
        left = goal - _change(count, share, w, state)
        state.clock[w, _GOAL] = max(left, real(0.0))
    _put(real(0.0), w, work, state)
    ends_at = min(t + share * length, limit)
    if share >= 1.0 and length >= limit - t:
        ends_at = limit
    return ends_at, j, draw


@noinline_cpu
def between(k, time, w, plan, replicate, net, work, state):
    """Put the state at a time of the grid, within the last step, into the worker's row."""
    share = (time - state.clock[w, _BEGIN]) / state.clock[w, _LENGTH]
    _put(min(max(share, real(0.0)), state.clock[w, _SHARE]), w, work, state)


def arrive(w, work, state):
    """Put the state at the end of the last step into the worker's row, before the firing."""
    for k in range(state.variables.size):
        work.x[w, state.variables[k]] = state.finish[w, k]
    return np.int64(0)


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    width = tables.flow.variables.size + 1
    slots = dict.fromkeys(
        (
            "y", "end", "finish", "largest", "slope", "trial", "in_time", "first", "second",
            "third",
        ),
        (width, np.float64),
    )  # fmt: skip
    return {
        **slots,
        "a": (tables.reaction_count, np.float64),
        "clock": (8, np.float64),
        "stages": (_STAGES * width, np.float64),
        "jacobian": (width * width, np.float64),
        "matrix": (width * width, np.float64),
        "pivots": (width, np.int32),
        "low": (tables.variable_count, np.float64),
        "high": (tables.variable_count, np.float64),
        "stack": (tables.depth, np.float64),
    }


def control(tolerance: float = TOLERANCE) -> dict[str, np.ndarray]:
    """Constants that control the steps of a run."""
    return {"tolerance": np.array([tolerance], np.float64)}


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share."""
    net, flow = tables.net, tables.flow
    slots = np.full(tables.variable_count, -1, np.int32)
    slots[flow.variables] = np.arange(flow.variables.size)
    flows = tables.network.flows
    moves, timed = np.zeros((2, tables.reaction_count), bool)
    for variable in flow.variables:
        part = slice(*net.affected_starts[variable : variable + 2])
        moves[net.affected[part]] = True
    if tables.time_dependent:
        for j in np.flatnonzero(net.laws >= 0):
            program = slice(*net.program_starts[net.laws[j] : net.laws[j] + 2])
            timed[j] = (net.operations[program] == Operation.TIME).any()
    moves |= timed
    made = coefficients_of(RODAS4)
    tableau = np.zeros((6, _STAGES, _STAGES))
    tableau[0], tableau[1] = made.a, made.c
    for k, row in enumerate((made.m, made.e, made.alpha, made.gammas)):
        tableau[2 + k, 0] = row
    return {
        "variables": flow.variables,
        "rates": flow.rates,
        "slots": slots,
        "flows": np.flatnonzero(flows).astype(np.int32),
        "moving": np.flatnonzero(moves & ~flows).astype(np.int32),
        "timed": np.flatnonzero(timed & ~flows).astype(np.int32),
        "still": np.flatnonzero(~moves & ~flows).astype(np.int32),
        "fires": (~flows).astype(np.int8),
        "conditions": flow.conditions,
        "follows_time": np.array([tables.time_dependent], np.int8),
        "tableau": tableau,
        "more": np.array([made.p, made.q]),
        **control(),
    }


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    advance=advance, between=between, arrive=arrive,
)  # fmt: skip
