"""Hybrid models: differential equations between firings, a piecewise-deterministic Markov process.

The continuous variables x obey dx/dt = f(x, n, t), with n the molecules.  Between two firings

    d Lambda / dt = a0(x, n, t)

is integrated with them, where a0 is the total propensity of the reactions that fire.  The next
reaction fires when Lambda reaches an exponential random number of mean one.  That time is a root
of the dense output of a step (`hybrid_step`).  The reaction is chosen by the propensities at that
time.  The threshold is kept across steps, breaks and events, so neither times of results nor steps
change a realization beyond the tolerance.  Triggers of events and `stop` turn at the first root of
the dense output (`hybrid_conditions`).

The dense output resolves a fast transient only in short steps, though the end of a long step is
right.  So the first step after an event or a break is short, and so is that after a firing if it
changes the derivatives of a variable.  The next steps grow.

A variable that has been zero until now has no size to which an error is relative: of t^4 every step
from zero has the same relative error.  Its size is what it becomes in the first tried step in which
all variables that have a size or a slope are right to a half.

E. L. Haseltine, J. B. Rawlings, "Approximate simulation of coupled fast and slow reactions for
stochastic chemical kinetics", J. Chem. Phys. 117, 6959 (2002), section III.
S. Zeiser, U. Franz, O. Wittich, V. Liebscher, "Simulation of genetic networks modelled by piecewise
deterministic Markov processes", IET Syst. Biol. 2, 113 (2008).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.core.compiler.programs import Operation
from ergode.core.math.rosenbrock import RODAS4, coefficients_of
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.algorithms.hybrid_conditions import first_change, hides
from ergode.stochastic.algorithms.hybrid_step import (
    BEFORE,
    STAGES,
    change_within,
    differentiate,
    error_of,
    floor_of,
    look,
    put_within,
    share_of,
    slopes,
    time_within,
    try_step,
)
from ergode.stochastic.kernel.next_firing import wait_and_choice
from ergode.stochastic.kernel.outcomes import (
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    FAILED_TO_END,
    INFINITY,
    NO_REACTION,
)
from ergode.stochastic.kernel.realization import propensity
from ergode.stochastic.tables import Tables

TOLERANCE = 1e-6
"""Default relative tolerance of a step."""

# The first step changes no variable by more than this fraction of it.
FIRST = 0.01
# Largest relative error of a step that tells the size of a variable.
ROUGH = 0.5
# A step is at most this number of times as long as the present propensities need for a firing.
AHEAD = 2.0
TRIALS = 100
SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.1, 5.0
# A propensity may be negative by this multiple of the tolerance [firings in a step].
BELOW_ZERO = 10.0

# Places in the row `clock`; the next is `BEFORE`.
_BEGIN, _LENGTH, _SHARE, _GOAL, _CHOICE, _NEXT, _STEPS = range(7)


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
    before: Any  # [worker, slot] those just before the last firing
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
    look(w, t, point, net, work, state)


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
    slopes(w, t, point, state.before, net, work, state)
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
def _first_length(t, limit, fired, w, state):
    """Length of the first step; `fired` if only a firing is before it, which changed slopes."""
    length = state.clock[w, _NEXT] if fired else real(0.0)
    if length == 0.0:
        length, fired = limit - t, False
        if not length < INFINITY:
            length = max(abs(t), real(1.0))
    for k in range(state.variables.size):
        size = max(abs(state.y[w, k]), floor_of(k, w, state))
        slope = abs(state.slope[w, k] - (state.before[w, k] if fired else real(0.0)))
        if slope > 0.0 and size > 0.0:
            length = min(length, FIRST * size / slope)
    return length


@noinline_cpu
def _become(w, state):
    """Give variables without a size that of the tried step, if it is right to a half."""
    count = state.variables.size
    found = False
    for k in range(count):
        found = found or (state.largest[w, k] == 0.0 and state.end[w, k] != 0.0)
    if not found:
        return False
    for k in range(count + 1):
        size = real(1.0)
        if k < count:
            size = max(max(abs(state.y[w, k]), abs(state.end[w, k])), floor_of(k, w, state))
        sized = k == count or state.largest[w, k] > 0.0 or state.slope[w, k] != 0.0
        if sized and not error_of(k, w, state) <= ROUGH * size:
            return False
    for k in range(count):
        if state.largest[w, k] == 0.0:
            state.largest[w, k] = max(abs(state.end[w, k]), error_of(k, w, state))
    return True


@noinline_cpu
def _accepted(w, t, length, wish, point, net, work, state):
    """Step until the error is small enough; the step's length, or a failure code."""
    for _ in range(TRIALS):
        error = try_step(w, t, length, point, net, work, state)
        if error < INFINITY and _become(w, state):
            length = min(length, _first_length(t, t + length, False, w, state))
            wish = min(wish, length)
            differentiate(w, t, length, point, net, work, state)
            continue
        if error <= 1.0 and hides(w, t, length, point, net, work, state):
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
    fired = state.clock[w, _GOAL] < 0.0
    if fired:
        goal, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
        draw += 1
        state.clock[w, _GOAL] = goal
        state.clock[w, _CHOICE] = choice
    goal = state.clock[w, _GOAL]
    finite = True
    for k in range(count):
        x = work.x[w, state.variables[k]]
        state.y[w, k] = x
        state.largest[w, k] = max(state.largest[w, k], abs(x))
    least = slopes(w, t, point, state.slope, net, work, state)
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
    # The largest number below `limit`, but not before the middle of `t` and `limit`.
    before = limit
    if limit < INFINITY:
        before = max(limit - abs(limit) * real(2.3e-16), 0.5 * (t + limit))
    state.clock[w, BEFORE] = before
    wish = state.clock[w, _NEXT]
    if fired or wish == 0.0:
        wish = _first_length(t, limit, fired, w, state)
    length = min(wish, limit - t)
    if total > 0.0:
        length = min(length, AHEAD * goal / total)
    if not t + length > t:
        length = min(max(abs(t), real(1e-300)) * real(4.5e-16), limit - t)
    differentiate(w, t, length, point, net, work, state)
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
        share = share_of(goal, w, state)
    for place in range(state.conditions.size):
        changed = first_change(
            state.conditions[place], t, length, share, w, point, net, work, state
        )  # fmt: skip
        if changed < share:
            share, fires = changed, False
        elif changed <= 1.0 and not fires:
            share = changed
    put_within(share, w, work, state)
    for k in range(count):
        state.finish[w, k] = work.x[w, state.variables[k]]
    state.clock[w, _BEGIN] = t
    state.clock[w, _LENGTH] = length
    state.clock[w, _SHARE] = share
    j = none
    if fires:
        state.clock[w, _GOAL] = -1.0
        j = _choose(w, time_within(t, length, share, w, state), point, net, work, state)
        j = j if j >= 0 else none
    else:
        left = goal - change_within(count, share, w, state)
        state.clock[w, _GOAL] = max(left, real(0.0))
    put_within(real(0.0), w, work, state)
    ends_at = min(t + share * length, limit)
    if share >= 1.0 and length >= limit - t:
        ends_at = limit
        # A rate may change at the break.
        state.clock[w, _NEXT] = 0.0
    return ends_at, j, draw


@noinline_cpu
def between(k, time, w, plan, replicate, net, work, state):
    """Put the state at a time of the grid, within the last step, into the worker's row."""
    share = (time - state.clock[w, _BEGIN]) / state.clock[w, _LENGTH]
    put_within(min(max(share, real(0.0)), state.clock[w, _SHARE]), w, work, state)


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
            "y", "end", "finish", "largest", "slope", "before", "trial", "in_time", "first",
            "second", "third",
        ),
        (width, np.float64),
    )  # fmt: skip
    return {
        **slots,
        "a": (tables.reaction_count, np.float64),
        "clock": (8, np.float64),
        "stages": (STAGES * width, np.float64),
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
    tableau = np.zeros((6, STAGES, STAGES))
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
