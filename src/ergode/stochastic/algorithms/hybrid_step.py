"""A step of the differential equations between firings.

A slot is a continuous variable.  The step is that of ``rodas4``, an L-stable Rosenbrock method of
order 4(3).  Its Jacobian is made by finite differences of the rates that contain each variable, and
its linear systems are sparse.  Within a step the values are those of the dense output, a cubic
polynomial.

E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), IV.7 and VI.4.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import noinline_cpu, option, real
from ergode.core.math.elimination import factorize_shifted, solve
from ergode.core.math.rosenbrock import RODAS4
from ergode.stochastic.kernel.bytecode import evaluate
from ergode.stochastic.kernel.outcomes import INFINITY
from ergode.stochastic.kernel.realization import propensity

# Relative increment of finite differences: of variables, and of time within the step.
DIFFERENCE, LATER = 1e-7, 1e-6
# Below this fraction of how large a variable may become, its errors are absolute.
SCARCE = 1e-3

PARTED = option(False)
"""Whether reactions are continuous at times (see `hybrid_partition`). Their role says when."""

# Roles of a reaction: it fires with a rate that firings alone change; it fires with another rate;
# or it is a term of the differential equations.
STILL_FIRES, MOVES, CONTINUOUS = 0, 1, 2

GAMMA = RODAS4.gamma
STAGES = len(RODAS4.m)
# Places in the row `clock` (see `hybrid.MethodState`).
BEFORE, BEGIN, LENGTH, SHARE, TURN, NOW, NEXT, STEPS, SHAKEN = range(9)
GOAL, CHOICE, STILL, WINDOW, WINDOW_BEGIN, WINDOW_END = range(9, 15)
QUIET, CHECK, LONGEST, ERROR, FIRED, SWITCHES, RELAXES, POINT = range(15, 23)


# ---- the right-hand side


def _term(term, w, t, point, net, work, state):
    """Rate of a deterministic reaction, or of a rate rule; zero without one."""
    rule = term - state.flows.size
    if rule < 0:
        j = state.flows[term]
        if PARTED and state.role[w, j] != CONTINUOUS:
            return real(0.0)
        return propensity(j, w, t, point, net, work)
    program = state.rates[rule]
    return evaluate(program, w, t, point, net, work) if program >= 0 else real(0.0)


def slopes(w, t, point, out, net, work, state):
    """Time derivatives of all slots, into `out`."""
    for k in range(state.variables.size):
        term = state.flows.size + k
        state.terms[w, term] = _term(term, w, t, point, net, work, state)
        out[w, k] = state.terms[w, term]
    for place in range(state.flows.size):
        j = state.flows[place]
        rate = _term(place, w, t, point, net, work, state)
        state.terms[w, place] = rate
        if PARTED and rate == 0.0:
            continue
        for entry in range(net.change_starts[j], net.change_starts[j + 1]):
            out[w, state.slots[net.changed[entry]]] += net.changes[entry] * rate


def floor_of(k, w, state):
    """Size of a variable below which its errors are absolute: one, or its own size if less."""
    own = max(state.largest[w, k], real(SCARCE) * state.reach[w, k])
    return min(own, real(1.0))


def extend_reach(w, net, work, state):
    """Renew how large variables may become: as what a reaction makes them of."""
    for k in range(state.variables.size):
        state.reach[w, k] = max(state.reach[w, k], state.largest[w, k])
    for place in range(state.flows.size):
        least = real(INFINITY)
        for source in range(state.source_starts[place], state.source_starts[place + 1]):
            variable = state.sources[source]
            k = state.slots[variable]
            least = min(least, state.reach[w, k] if k >= 0 else work.x[w, variable])
        j = state.flows[place]
        if least < INFINITY:
            for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                k = state.slots[net.changed[entry]]
                state.reach[w, k] = max(state.reach[w, k], least)


@noinline_cpu
def differentiate(w, t, length, point, net, work, state):
    """The Jacobian at the begin of a step, where `terms` are, and the derivatives by time."""
    count = state.variables.size
    for index in range(state.jacobian.shape[1]):
        state.jacobian[w, index] = 0.0
    target = 0
    for k in range(count):
        size = max(abs(state.y[w, k]), floor_of(k, w, state))
        if size == 0.0:
            size = real(1.0)
        moved = state.y[w, k] + real(DIFFERENCE) * size
        work.x[w, state.variables[k]] = moved
        for use in range(state.use_starts[k], state.use_starts[k + 1]):
            term = state.uses[use]
            more = _term(term, w, t, point, net, work, state) - state.terms[w, term]
            slope = more / (moved - state.y[w, k])
            if term >= state.flows.size:
                state.jacobian[w, state.targets[target]] -= slope
                target += 1
                continue
            j = state.flows[term]
            for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                state.jacobian[w, state.targets[target]] -= net.changes[entry] * slope
                target += 1
        work.x[w, state.variables[k]] = state.y[w, k]
    for i in range(count):
        state.in_time[w, i] = 0.0
    if state.follows_time[0] != 0:
        later = t + real(LATER) * length
        if later > t:
            slopes(w, later, point, state.trial, net, work, state)
            for i in range(count):
                state.in_time[w, i] = (state.trial[w, i] - state.slope[w, i]) / (later - t)


# ---- a step


def time_within(t, length, share, w, state):
    """The time at a fraction of a step; formulas see it before the break that ends the step."""
    return min(t + share * length, state.clock[w, BEFORE])


@noinline_cpu
def try_step(w, t, length, point, net, work, state):
    """Try a step; returns its error relative to the tolerance, infinite if it has none."""
    count = state.variables.size
    matrix, trial, row = state.matrix[w], state.trial[w], state.row[w]
    for index in range(matrix.size):
        matrix[index] = state.jacobian[w, index]
    if factorize_shifted(state, matrix, 1.0 / (GAMMA * length), row) != 0.0:
        return real(INFINITY)
    for s in range(STAGES):
        if s > 0:
            for k in range(count):
                value = state.y[w, k]
                for r in range(s):
                    value += state.tableau[0, s, r] * state.stages[w, r * count + k]
                work.x[w, state.variables[k]] = value
            alpha = state.tableau[4, 0, s]
            slopes(
                w, time_within(t, length, alpha, w, state), point, state.trial, net, work, state
            )  # fmt: skip
        for k in range(count):
            value = state.slope[w, k] if s == 0 else state.trial[w, k]
            if PARTED:
                value += state.push[w, k] / math.sqrt(length)
            for r in range(s):
                value += state.tableau[1, s, r] / length * state.stages[w, r * count + k]
            state.trial[w, k] = value + state.tableau[5, 0, s] * length * state.in_time[w, k]
        solve(state, matrix, trial, row)
        for k in range(count):
            state.stages[w, s * count + k] = state.trial[w, k]
    worst = real(0.0)
    tolerance = state.tolerance[0]
    for k in range(count):
        change, p, q = real(0.0), real(0.0), real(0.0)
        for s in range(STAGES):
            u = state.stages[w, s * count + k]
            change += state.tableau[2, 0, s] * u
            p += state.more[0, s] * u
            q += state.more[1, s] * u
        state.end[w, k] = state.y[w, k] + change
        scale = max(max(abs(state.y[w, k]), abs(state.end[w, k])), floor_of(k, w, state))
        state.first[w, k] = change + p
        state.second[w, k] = q - p
        state.third[w, k] = -q
        part = error_of(k, w, state)
        if part > 0.0:
            part = part / (tolerance * scale)
        if not part < INFINITY:
            return real(INFINITY)
        worst = max(worst, part)
    for k in range(count):
        work.x[w, state.variables[k]] = state.y[w, k]
    return worst


def error_of(k, w, state):
    """Estimated error of a slot at the end of the tried step."""
    error = real(0.0)
    for s in range(STAGES):
        error += state.tableau[3, 0, s] * state.stages[w, s * state.variables.size + k]
    return abs(error)


def change_within(k, share, w, state):
    """Change of a slot since the begin of the step, by the dense output."""
    return share * (state.first[w, k] + share * (state.second[w, k] + share * state.third[w, k]))


def value_within(k, share, w, state):
    """Value of a continuous variable within the step."""
    return state.end[w, k] if share >= 1.0 else state.y[w, k] + change_within(k, share, w, state)


def put_within(share, w, work, state):
    """Put the values within the step into the worker's row."""
    for k in range(state.variables.size):
        work.x[w, state.variables[k]] = value_within(k, share, w, state)
