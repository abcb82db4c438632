"""Hybrid models: differential equations between firings, a piecewise-deterministic Markov process.

The continuous variables x obey dx/dt = f(x, n, t), with n the molecules.  Between two firings

    d Lambda / dt = a0(x, n, t),

where a0 is the total propensity of the reactions that fire.  The next reaction fires when Lambda
reaches an exponential random number of mean one.  The differential equations are solved in steps
with a dense output (`hybrid_step`), from which follow a0 and Lambda (`hybrid_window`).  A firing
that changes no derivative and no continuous variable leaves the step as it is: a step has many such
firings.  The reaction is chosen by the propensities at the time of the firing.  The threshold is
kept across steps, breaks and events, so neither times of results nor steps change a realization
beyond the tolerance.  Triggers of events and `stop` turn at the first root of the dense output
(`hybrid_conditions`).

The dense output resolves a fast transient only in short steps, though the end of a long step is
right.  So the first step after an event or a break is short, and so is that after a firing if it
changes the derivatives of a variable.  The next steps grow.

An error is relative to the size of a variable, at least a thousandth of what reactions make it of.
Else a complex of many parts, which grows as a high power of time, takes most steps while there is
next to nothing of it: of t^4 every step from zero has the same relative error.  A variable without
a size has that of the first tried step in which all variables that have a size or a slope are right
to a half.

E. L. Haseltine, J. B. Rawlings, "Approximate simulation of coupled fast and slow reactions for
stochastic chemical kinetics", J. Chem. Phys. 117, 6959 (2002), section III.
S. Zeiser, U. Franz, O. Wittich, V. Liebscher, "Simulation of genetic networks modelled by piecewise
deterministic Markov processes", IET Syst. Biol. 2, 113 (2008).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.stochastic.algorithms import hybrid_partition, hybrid_window
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.algorithms.hybrid_conditions import first_change
from ergode.stochastic.algorithms.hybrid_step import (
    BEFORE,
    BEGIN,
    CHECK,
    CHOICE,
    CONTINUOUS,
    GOAL,
    LENGTH,
    LONGEST,
    NEXT,
    NOW,
    PARTED,
    QUIET,
    SHAKEN,
    SHARE,
    STEPS,
    STILL,
    TURN,
    WINDOW,
    WINDOW_BEGIN,
    WINDOW_END,
    differentiate,
    error_of,
    extend_reach,
    floor_of,
    put_within,
    slopes,
    time_within,
    try_step,
)
from ergode.stochastic.algorithms.hybrid_tables import arrays, constants
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.next_firing import wait_and_choice
from ergode.stochastic.kernel.realization import propensity

# The first step changes no variable by more than this fraction of it.
FIRST = 0.01
# Largest relative error of a step that tells the size of a variable.
ROUGH = 0.5


class MethodState(NamedTuple):
    """State of the method; one row per worker.  A slot is a continuous variable."""

    a: Any  # [worker, reaction] propensities
    # [worker, 15 or 23] the last time before a break; begin and length of the step; the part of it
    # that happened, and the part at whose end a condition changes; the time there, or infinity if
    # the step is over; next length; steps; 1 after a firing that changes slopes; Lambda left until
    # the firing, or -1; the number that chooses; total propensity of still reactions; next length
    # of a window, and the parts of the step at which it begins and ends; with a partition: if the
    # direct method serves, firings until the next choice, largest step, error of the noise,
    # continuous firings, changes of the partition, rate of relaxation, point of the sweep
    clock: Any
    y: Any  # [worker, slot] at the begin of the step
    end: Any  # [worker, slot] at its end
    finish: Any  # [worker, slot] at the end of the part that happened
    largest: Any  # [worker, slot] largest absolute value so far
    reach: Any  # [worker, slot] how large it may become by what reactions make it of
    slope: Any  # [worker, slot] time derivatives at the begin
    before: Any  # [worker, slot] those just before the last firing that changed them
    trial: Any  # [worker, slot] at a stage; then the solution of its linear system
    in_time: Any  # [worker, slot] derivatives of the slopes by time
    first: Any  # [worker, slot] coefficients of the dense output
    second: Any
    third: Any
    stages: Any  # [worker, stage * slot]
    terms: Any  # [worker, term] rates of the deterministic reactions, then of the rate rules
    jacobian: Any  # [worker, entry] the negative Jacobian
    matrix: Any  # [worker, entry] its shifted factors
    row: Any  # [worker, slot] workspace of the elimination
    nodes: Any  # [worker, moving * node] propensities at the nodes of the window
    parts: Any  # [worker, moving * node] those that scale, over the number of choices of reactants
    series: Any  # [worker, node] Lambda in the window, over its length
    low: Any  # [worker, variable] intervals
    high: Any
    stack: Any  # [worker, depth] upper ends of intervals on the stack
    # With a partition only:
    role: Any  # [worker, reaction] see `hybrid_step`
    disturbing_row: Any  # [worker, reaction] 1 if its firing changes slopes or continuous variables
    part: Any  # [worker, reaction] fraction of the extent
    root: Any  # [worker, reaction] square root of the propensity at the middle of the step
    noise: Any  # [worker, reaction] that, times a normal number
    push: Any  # [worker, slot] what the noise does, times the square root of the step
    variables: Any  # [slot] variable of each slot
    rates: Any  # [slot] program of its rate rule; -1 without one
    slots: Any  # [variable] its slot; -1 if it has none
    flows: Any  # [0 ...] deterministic reactions
    source_starts: Any  # [deterministic reaction + 1] of `sources`
    sources: Any  # [0 ...] variables that are reactants
    use_starts: Any  # [slot + 1] of `uses`
    uses: Any  # [use] terms that contain the variable of a slot
    targets: Any  # [0 ...] entries to which uses add, one after another
    order: Any  # the fields of an `Elimination`
    start: Any
    column: Any
    pivot: Any
    tail: Any
    moving: Any  # [0 ...] reactions that fire, and whose propensity changes between firings
    places: Any  # [reaction] place among them; -1 for others
    scales: Any  # [moving] whether firings change only the number of choices of its reactants
    timed: Any  # [0 ...] those whose propensity depends on time
    still: Any  # [0 ...] other reactions that fire
    fires: Any  # [reaction] whether it fires
    disturbs: Any  # [reaction] whether its firing changes slopes or a continuous variable
    disturbing: Any  # [0 ...] those reactions
    conditions: Any  # [0 ...] programs whose value can change between firings
    counted: Any  # [condition] whether a firing can change its value, too
    follows_time: Any  # [1] whether a rate depends on time
    able: Any  # [reaction] 1 if it may be discrete or continuous, 2 if it is always continuous
    counts: Any  # [slot] whether it is a number of molecules
    ruled: Any  # [variable] whether a rate rule contains it
    calm: Any  # [1] whether nothing but reactions changes anything
    threshold: Any  # [1] molecules from which a species may be continuous
    tolerance: Any  # [1]
    longest: Any  # [1] largest step
    tableau: Any  # [6, stage, stage] coefficients: a, c, and the rows m, e, alpha, gammas
    more: Any  # [2, stage] p and q of the dense output


# ---- the method


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Begin, or go on after an event: the threshold is kept."""
    state.clock[w, NEXT] = 0.0
    state.clock[w, NOW] = outcomes.INFINITY
    state.clock[w, WINDOW] = outcomes.INFINITY
    state.clock[w, SHAKEN] = 0.0
    if work.begun[w, 0] == 0:
        work.begun[w, 0] = 1
        state.clock[w, GOAL] = -1.0
        state.clock[w, STEPS] = 0.0
        for k in range(state.variables.size):
            state.largest[w, k] = 0.0
            state.reach[w, k] = 0.0
        if PARTED:
            hybrid_partition.begin(w, state)
    if PARTED:
        hybrid_partition.make_discrete(w, t, point, plan, replicate, net, work, state)
        return
    for place in range(state.still.size):
        j = state.still[place]
        state.a[w, j] = propensity(j, w, t, point, net, work)


def update(j, w, t, point, plan, replicate, net, work, state):
    """Renew the propensities that depend on changed variables."""
    if j >= state.a.shape[1]:
        return True
    if hybrid_window.disturbs(j, w, state):
        state.clock[w, NOW] = outcomes.INFINITY
        state.clock[w, SHAKEN] = 1.0
    stands = state.clock[w, NOW] == t and state.clock[w, SHARE] < state.clock[w, WINDOW_END]
    moves = False
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        if PARTED:  # amounts of the step, which goes on
            state.y[w, state.slots[variable]] += net.changes[entry]
            state.end[w, state.slots[variable]] += net.changes[entry]
        for at in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            r = net.affected[at]
            place = state.places[r]
            if PARTED and state.role[w, r] == CONTINUOUS:
                continue
            if place >= 0 and hybrid_window.moves(r, w, state):
                if stands and state.scales[place] == 1:
                    hybrid_window.scale(r, place, w, net, work, state)
                else:
                    moves = True
            elif _fires(r, w, state):
                state.a[w, r] = propensity(r, w, t, point, net, work)
    if moves and stands:
        hybrid_window.renew(j, w, point, net, work, state)
    return True


def _fires(j, w, state):
    return state.role[w, j] != CONTINUOUS if PARTED else state.fires[j] == 1


def _choose(w, state):
    """The reaction that fires, by the propensities of the worker's row; -1 if none can."""
    total = real(0.0)
    for j in range(state.a.shape[1]):
        if _fires(j, w, state):
            total += max(state.a[w, j], real(0.0))
    target = state.clock[w, CHOICE] * total
    found = -1
    for j in range(state.a.shape[1]):
        a = state.a[w, j]
        if _fires(j, w, state) and a > 0.0:
            found = j
            if target < a:
                break
            target -= a
    return found


def _first_length(t, limit, fired, w, state):
    """Length of the first step; `fired` if only a firing is before it, which changed slopes."""
    length = state.clock[w, NEXT] if fired else real(0.0)
    if length == 0.0:
        length, fired = limit - t, False
        if not length < outcomes.INFINITY:
            length = max(abs(t), real(1.0))
    for k in range(state.variables.size):
        size = max(abs(state.y[w, k]), floor_of(k, w, state))
        slope = abs(state.slope[w, k] - (state.before[w, k] if fired else real(0.0)))
        if slope > 0.0 and size > 0.0:
            length = min(length, FIRST * size / slope)
    return length


def _become(w, state):
    """Give variables without a size that of the tried step, if it is right to a half."""
    count = state.variables.size
    found = False
    for k in range(count):
        found = found or (floor_of(k, w, state) == 0.0 and state.end[w, k] != 0.0)
    if not found:
        return False
    for k in range(count):
        size = max(max(abs(state.y[w, k]), abs(state.end[w, k])), floor_of(k, w, state))
        sized = floor_of(k, w, state) > 0.0 or state.slope[w, k] != 0.0
        if sized and not error_of(k, w, state) <= ROUGH * size:
            return False
    for k in range(count):
        if floor_of(k, w, state) == 0.0:
            state.largest[w, k] = max(abs(state.end[w, k]), error_of(k, w, state))
    return True


def _accepted(w, t, length, wish, point, net, work, state):
    """Step until the error is small enough; the step's length, or a failure code."""
    for _ in range(hybrid_window.TRIALS):
        error = try_step(w, t, length, point, net, work, state)
        if error < outcomes.INFINITY and _become(w, state):
            length = min(length, _first_length(t, t + length, False, w, state))
            wish = min(wish, length)
            slopes(w, t, point, state.slope, net, work, state)
            differentiate(w, t, length, point, net, work, state)
            continue
        if error <= 1.0:
            factor = real(hybrid_window.MOST_FACTOR)
            if error > 0.0:
                factor = min(factor, hybrid_window.SAFETY * math.exp(-0.25 * math.log(error)))
            state.clock[w, NEXT] = max(wish, length * factor)
            return length
        factor = real(hybrid_window.LEAST_FACTOR)
        if error < outcomes.INFINITY:
            factor = max(factor, hybrid_window.SAFETY * math.exp(-0.25 * math.log(error)))
        length *= factor
        wish = min(wish, length)
        if not t + length > t:
            break
    return real(outcomes.FAILED_NOT_FINITE)


@noinline_cpu
def _begin_step(w, t, limit, point, plan, replicate, net, work, state):
    """Begin a step: 0, or a failure code; ``NO_REACTION`` if there is no time for a step."""
    count, clock = state.variables.size, state.clock
    finite = True
    for k in range(count):
        x = work.x[w, state.variables[k]]
        state.y[w, k] = x
        state.largest[w, k] = max(state.largest[w, k], abs(x))
    extend_reach(w, net, work, state)
    slopes(w, t, point, state.slope, net, work, state)
    for k in range(count):
        finite = finite and abs(state.slope[w, k]) < outcomes.INFINITY
    hybrid_window.look(w, t, point, net, work, state)
    total = hybrid_window.total_of(w, state)
    if not (finite and abs(total) < outcomes.INFINITY):
        return outcomes.FAILED_NOT_FINITE
    if t >= limit:
        return outcomes.NO_REACTION
    clock[w, STEPS] += 1.0
    if clock[w, STEPS] > real(plan.max_firings):
        return outcomes.FAILED_TO_END
    wish = clock[w, NEXT]
    if clock[w, SHAKEN] != 0.0 or wish == 0.0:
        wish = _first_length(t, limit, clock[w, SHAKEN] != 0.0, w, state)
    clock[w, SHAKEN] = 0.0
    wish = min(wish, state.longest[0])
    if PARTED:
        wish = min(wish, clock[w, LONGEST])
    length = min(min(wish, limit - t), hybrid_window.soon(total, w, state))
    if not t + length > t:
        length = min(max(abs(t), real(1e-300)) * real(4.5e-16), limit - t)
    differentiate(w, t, length, point, net, work, state)
    if PARTED:
        hybrid_partition.stir(t, length, w, point, plan, replicate, net, work, state)
    length = _accepted(w, t, length, wish, point, net, work, state)
    if length < 0.0:
        for k in range(count):
            work.x[w, state.variables[k]] = state.y[w, k]
        return outcomes.FAILED_NOT_FINITE
    clock[w, BEGIN], clock[w, LENGTH], clock[w, SHARE] = t, length, 0.0
    clock[w, WINDOW_BEGIN], clock[w, WINDOW_END] = 0.0, 0.0
    turn = real(2.0)
    for place in range(state.conditions.size):
        if state.counted[place] == 0:
            turn = min(turn, first_change(
                state.conditions[place], t, length, real(0.0), min(turn, real(1.0)), w, point, net,
                work, state,
            ))  # fmt: skip
    clock[w, TURN] = turn
    put_within(real(0.0), w, work, state)
    return 0


def _cross_step(last, w, point, net, work, state):
    """Go on to a firing, to a condition that changes, or to the fraction `last` of the step.

    Returns 0, or a failure code; 1 for a firing; 2 for a condition.
    """
    clock = state.clock
    begin, length = clock[w, BEGIN], clock[w, LENGTH]
    while True:
        share = clock[w, SHARE]
        if not share < clock[w, WINDOW_END]:
            failure = hybrid_window.open_window(w, point, net, work, state)
            if failure != 0:
                return failure
        to, left = hybrid_window.cross(min(clock[w, WINDOW_END], last), w, state)
        changes = False
        for place in range(state.conditions.size):
            if state.counted[place] == 1:
                changed = first_change(
                    state.conditions[place], begin, length, share, to, w, point, net, work, state
                )  # fmt: skip
                if changed < to or (changed <= to and left > 0.0):
                    _, left = hybrid_window.cross(changed, w, state)
                    to, left, changes = changed, max(left, real(1e-300)), True
        if not changes and clock[w, TURN] <= to and left > 0.0:
            changes = True
        clock[w, SHARE] = to
        if left == 0.0:
            return 1
        clock[w, GOAL] = left
        if changes:
            return 2
        if to >= last:
            return 0
        put_within(to, w, work, state)
        hybrid_window.close_window(w, state)


def _is_direct(w, state):
    """Whether nothing moves between firings."""
    if PARTED:
        return state.clock[w, QUIET] != 0.0
    return state.variables.size == 0 and state.follows_time[0] == 0 and state.conditions.size == 0


def advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    """A firing; or the end of a step, or a condition that changes. Returns its time, what it is.

    In place of a reaction, the number of reactions means that none fires.
    """
    clock = state.clock
    none = state.a.shape[1]
    if clock[w, GOAL] < 0.0:
        goal, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
        draw += 1
        clock[w, GOAL] = goal
        clock[w, CHOICE] = choice
    if PARTED:
        within = clock[w, NOW] == t and clock[w, SHARE] < 1.0 and t < limit
        if not within and (clock[w, QUIET] == 0.0 or clock[w, CHECK] <= 0.0):
            hybrid_partition.divide(w, t, point, plan, replicate, net, work, state)
        clock[w, CHECK] -= 1.0
    if hybrid_window.sum_still(w, state) < 0.0:
        return t, outcomes.FAILED_NEGATIVE, draw
    # Nothing moves between firings: the direct method.
    if _is_direct(w, state):
        total, goal = clock[w, STILL], clock[w, GOAL]
        if not total < outcomes.INFINITY:
            return t, outcomes.FAILED_NOT_FINITE, draw
        if t >= limit:
            return limit, outcomes.NO_REACTION, draw
        fires_at = t + goal / total if total > 0.0 else real(outcomes.INFINITY)
        if fires_at >= limit:
            clock[w, GOAL] = max(goal - total * (limit - t), real(0.0))
            return (real(outcomes.INFINITY) if total == 0.0 else limit), outcomes.NO_REACTION, draw
        clock[w, GOAL] = -1.0
        j = _choose(w, state)
        return fires_at, (j if j >= 0 else none), draw
    # The largest number below `limit`, but not before the middle of `t` and `limit`.
    clock[w, BEFORE] = limit
    if limit < outcomes.INFINITY:
        clock[w, BEFORE] = max(limit - abs(limit) * real(2.3e-16), 0.5 * (t + limit))
    if not (clock[w, NOW] == t and clock[w, SHARE] < 1.0 and t < limit):
        failure = _begin_step(w, t, limit, point, plan, replicate, net, work, state)
        if failure == outcomes.NO_REACTION:
            return limit, outcomes.NO_REACTION, draw
        if failure != 0:
            return t, failure, draw
    elif clock[w, SHARE] < clock[w, WINDOW_END]:
        error, _ = hybrid_window.expand(w, state)
        if not error <= 1.0:
            clock[w, WINDOW] = (clock[w, WINDOW_END] - clock[w, SHARE]) * clock[w, LENGTH]
            clock[w, WINDOW_END] = clock[w, SHARE]
            hybrid_window.look(w, t, point, net, work, state)
    begin, length = clock[w, BEGIN], clock[w, LENGTH]
    last = min(clock[w, TURN], real(1.0))
    if begin + length > limit:
        last = min(last, (limit - begin) / length)
    share = clock[w, SHARE]
    what = _cross_step(last, w, point, net, work, state)
    if what < 0 and clock[w, SHARE] == share:
        put_within(share, w, work, state)
        clock[w, NOW] = outcomes.INFINITY
        return t, what, draw
    share = clock[w, SHARE]
    put_within(share, w, work, state)
    for k in range(state.variables.size):
        state.finish[w, k] = work.x[w, state.variables[k]]
    ends_at = min(begin + share * length, limit)
    j, ends = none, what != 1 or ends_at >= limit
    if what == 1:
        clock[w, GOAL] = -1.0
        hybrid_window.interpolate(share, w, state)
        j = _choose(w, state)
        if j >= 0 and hybrid_window.disturbs(j, w, state):
            ends = True
            moment = time_within(begin, length, share, w, state)
            slopes(w, moment, point, state.before, net, work, state)
        j = j if j >= 0 else none
    if PARTED and ends:
        hybrid_partition.settle(share, w, point, plan, replicate, net, work, state)
    if what == 0 and begin + length >= limit:
        ends_at = limit
    clock[w, NOW] = ends_at
    if what == 0 or what == 2:
        clock[w, NOW] = outcomes.INFINITY
    if ends_at >= limit:
        # A rate may change at the break.
        clock[w, NEXT], clock[w, NOW] = 0.0, outcomes.INFINITY
    return ends_at, j, draw


@noinline_cpu
def between(k, time, w, plan, replicate, net, work, state):
    """Put the state at a time of the grid, within the last step, into the worker's row."""
    if PARTED and _is_direct(w, state):
        return
    share = (time - state.clock[w, BEGIN]) / state.clock[w, LENGTH]
    share = min(max(share, real(0.0)), state.clock[w, SHARE])
    put_within(share, w, work, state)
    if PARTED:
        hybrid_partition.spread_within(k, share, w, plan, replicate, net, work, state)


def arrive(w, work, state):
    """Put the state at the end of the last step into the worker's row, before the firing."""
    if not PARTED or not _is_direct(w, state):
        for k in range(state.variables.size):
            work.x[w, state.variables[k]] = state.finish[w, k]
    return np.int64(0)


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    advance=advance, between=between, arrive=arrive,
)  # fmt: skip
PARTED_ALGORITHM = replace(ALGORITHM, tell=hybrid_partition.tell, switches=((PARTED, True),))
