"""Reactions that are continuous while their species are many, and fire one by one while not.

Before each step, a reaction becomes continuous if every species that it changes has at least
`threshold` molecules, and it fires often in a step.  It fires one by one again below half of these
limits.  In a step no species exchanges more than the fraction `TURNOVER` of its molecules.

All reactions fire one by one where continuous ones would not save at least `WORTH` firings a step:
a firing that changes a continuous amount ends a step.

A continuous reaction obeys the chemical Langevin equation.  In a step of length h, a constant rate
sqrt(a / h) z is added to its propensity, with z a normal number and a the propensity that the drift
gives at the middle of the step (Wong & Zakai).  For linear relaxation with rate r, variances are
then too small by the fraction (r h)^2 / 12.  Within a step, and where a firing ends it at its
fraction s, a Brownian bridge of variance a h s (1 - s) is added.

At the end of a step, species have what the extents of the reactions have made, so all conservation
laws hold.  A reaction that becomes discrete rounds its extent to a whole number, up with the
probability of its fraction: no mean changes, and amounts that no continuous reaction changes are
whole again.

E. L. Haseltine, J. B. Rawlings, J. Chem. Phys. 117, 6959 (2002).
H. Salis, Y. Kaznessis, "Accurate hybrid stochastic simulation of a system of coupled chemical or
biochemical reactions", J. Chem. Phys. 122, 054103 (2005).
E. Wong, M. Zakai, Ann. Math. Stat. 36, 1560 (1965).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.core.math.random import PARTITION, draw_words, normal, uniform
from ergode.stochastic.algorithms.hybrid_step import (
    BEGIN,
    CHECK,
    CONTINUOUS,
    ERROR,
    FIRED,
    LENGTH,
    LONGEST,
    MOVES,
    POINT,
    QUIET,
    RELAXES,
    STEPS,
    STILL_FIRES,
    SWITCHES,
    put_within,
    time_within,
    value_within,
)
from ergode.stochastic.kernel.outcomes import INFINITY
from ergode.stochastic.kernel.realization import propensity

# Largest fraction of a species that is made or used in a step.
TURNOVER = 0.5
# A reaction becomes continuous if it fires so often in a step, and all of them together so often.
OFTEN, WORTH = 10.0, 300.0
# It becomes discrete below this part of each limit.
BACK = 0.5
# What random numbers of a reaction in a step are for.
STEP, ROUND = np.uint64(0), np.uint64(1 << 32)
END, BRIDGE = np.uint64(2 << 32), np.uint64(3 << 32)
# Gauss's nodes and weights on [0, 1].
NODE, OUTER, INNER = 0.5 * math.sqrt(0.6), 5.0 / 18.0, 8.0 / 18.0


@noinline_cpu
def _normal(j, what, index, plan, replicate):
    entity = np.uint64(j) | what
    w0, w1, _, _ = draw_words(plan.seed, replicate, entity, PARTITION, np.uint32(index))
    return normal(w0, w1)


@noinline_cpu
def _rate(j, w, t, point, net, work):
    return propensity(j, w, t, point, net, work)


def _able(place, state):
    """Whether the reaction in a place of `flows` may be either."""
    return state.able[state.flows[place]] == 1


# ---- which reactions are continuous


@noinline_cpu
def divide(w, t, point, plan, replicate, net, work, state):
    """Choose the continuous reactions for a step, and its largest length."""
    clock, rates, turnover, used = state.clock, state.root, state.trial, state.row
    clock[w, POINT] = real(point)
    clock[w, CHECK] = real(16 + state.a.shape[1])
    for k in range(state.variables.size):
        turnover[w, k], used[w, k] = 0.0, 0.0
    on = False
    for j in range(state.a.shape[1]):
        rates[w, j] = 0.0
    for place in range(state.flows.size):
        j = state.flows[place]
        if state.able[j] == 1:
            was = state.role[w, j] == CONTINUOUS
            on = on or was
            least = state.threshold[0] * (real(BACK) if was else real(1.0))
            many = True
            for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                variable = net.changed[entry]
                if state.counts[state.slots[variable]] == 1:
                    many = many and work.x[w, variable] >= least
            if many:
                rates[w, j] = max(_rate(j, w, t, point, net, work), real(0.0))
                for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                    k = state.slots[net.changed[entry]]
                    flow = abs(net.changes[entry]) * rates[w, j]
                    if net.changes[entry] < 0.0:
                        flow *= _order(j, net.changed[entry], net)
                        used[w, k] += flow
                    turnover[w, k] += flow
    most = real(0.0)
    clock[w, RELAXES] = 0.0
    for k in range(state.variables.size):
        if turnover[w, k] > 0.0 and state.counts[k] == 1:
            x = work.x[w, state.variables[k]]
            most = max(most, turnover[w, k] / x)
            clock[w, RELAXES] = max(clock[w, RELAXES], used[w, k] / x)
    length = TURNOVER / most if most > 0.0 else real(INFINITY)
    total = real(0.0)
    for place in range(state.flows.size):
        j = state.flows[place]
        if _able(place, state):
            often = OFTEN * (real(BACK) if state.role[w, j] == CONTINUOUS else real(1.0))
            if not (rates[w, j] > 0.0 and rates[w, j] * length >= often):
                rates[w, j] = 0.0
            total += rates[w, j]
    worth = False
    if total > 0.0:
        # A firing that changes what continuous reactions change ends a step.
        ending = 1.0 / length
        for j in range(state.a.shape[1]):
            if rates[w, j] == 0.0 and state.able[j] != 2 and _touches(j, turnover, w, net, state):
                ending += max(_rate(j, w, t, point, net, work), real(0.0))
        worth = total >= WORTH * ending * (real(BACK) if on else real(1.0))
    turned, rounds = False, False
    for place in range(state.flows.size):
        j = state.flows[place]
        if _able(place, state):
            now = worth and rates[w, j] > 0.0
            if now != (state.role[w, j] == CONTINUOUS):
                turned = True
                if not now:
                    rounds = True
                    _round_extent(j, w, plan, replicate, net, work, state)
                state.role[w, j] = CONTINUOUS if now else STILL_FIRES
    clock[w, LONGEST] = length if worth else real(INFINITY)
    if turned:
        clock[w, SWITCHES] += 1.0
        _assign_roles(rounds, w, t, point, net, work, state)


def _order(j, variable, net):
    """Number of molecules of a species that mass action takes; at least one."""
    order = real(1.0)
    for entry in range(net.reactant_starts[j], net.reactant_starts[j + 1]):
        if net.reactants[entry] == variable:
            order = max(order, real(net.orders[entry]))
    return order


@noinline_cpu
def _touches(j, turnover, w, net, state):
    """Whether a reaction changes what continuous reactions change."""
    touches = False
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        k = state.slots[net.changed[entry]]
        touches = touches or (k >= 0 and turnover[w, k] > 0.0)
    return touches


@noinline_cpu
def _round_extent(j, w, plan, replicate, net, work, state):
    """Let a reaction that becomes discrete have fired a whole number of times."""
    index = np.uint32(state.clock[w, STEPS])
    w0, w1, _, _ = draw_words(plan.seed, replicate, np.uint64(j) | ROUND, PARTITION, index)
    part = state.part[w, j]
    more = (real(1.0) if uniform(w0, w1) < part else real(0.0)) - part
    state.part[w, j] = 0.0
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        work.x[w, variable] += more * net.changes[entry]


@noinline_cpu
def _assign_roles(rounds, w, t, point, net, work, state):
    """How each reaction fires, and which firings end a step, from the continuous reactions."""
    touched = state.row
    quiet = state.calm[0] == 1
    for k in range(state.variables.size):
        touched[w, k] = real(1 - state.counts[k])
    for place in range(state.flows.size):
        j = state.flows[place]
        if state.role[w, j] == CONTINUOUS:
            quiet = False
            for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                touched[w, state.slots[net.changed[entry]]] = 1.0
    for j in range(state.a.shape[1]):
        if state.role[w, j] != CONTINUOUS:
            state.role[w, j] = STILL_FIRES
    for place in range(state.timed.size):
        if state.role[w, state.timed[place]] != CONTINUOUS:
            state.role[w, state.timed[place]] = MOVES
    for k in range(state.variables.size):
        variable = state.variables[k]
        if touched[w, k] == 0.0:
            if rounds:
                work.x[w, variable] = max(real(round(work.x[w, variable])), real(0.0))
            continue
        for at in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            if state.role[w, net.affected[at]] != CONTINUOUS:
                state.role[w, net.affected[at]] = MOVES
    for j in range(state.a.shape[1]):
        state.disturbing_row[w, j] = 0
        state.a[w, j] = 0.0
        if state.role[w, j] == CONTINUOUS:
            continue
        if state.role[w, j] == STILL_FIRES:
            state.a[w, j] = _rate(j, w, t, point, net, work)
        for entry in range(net.change_starts[j], net.change_starts[j + 1]):
            variable = net.changed[entry]
            k = state.slots[variable]
            disturbs = state.ruled[variable] == 1 or (k >= 0 and touched[w, k] == 1.0)
            for at in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
                disturbs = disturbs or state.role[w, net.affected[at]] == CONTINUOUS
            if disturbs:
                state.disturbing_row[w, j] = 1
    state.clock[w, QUIET] = real(1.0) if quiet else real(0.0)


@noinline_cpu
def make_discrete(w, t, point, plan, replicate, net, work, state):
    """Let all reactions fire one by one, until the next choice."""
    for place in range(state.flows.size):
        j = state.flows[place]
        if _able(place, state) and state.role[w, j] == CONTINUOUS:
            _round_extent(j, w, plan, replicate, net, work, state)
            state.role[w, j] = STILL_FIRES
    state.clock[w, CHECK] = 0.0
    _assign_roles(True, w, t, point, net, work, state)


@noinline_cpu
def begin(w, state):
    """Begin a realization."""
    for j in range(state.a.shape[1]):
        state.role[w, j] = CONTINUOUS if state.able[j] == 2 else STILL_FIRES
        state.part[w, j] = 0.0
    state.clock[w, ERROR] = 0.0
    state.clock[w, FIRED] = 0.0
    state.clock[w, SWITCHES] = 0.0


# ---- noise


@noinline_cpu
def stir(t, length, w, point, plan, replicate, net, work, state):
    """Draw the noise of a step; propensities are those that its drift gives at its middle."""
    t = time_within(t, length, 0.5, w, state)
    for k in range(state.variables.size):
        state.push[w, k] = 0.0
        work.x[w, state.variables[k]] = state.y[w, k] + 0.5 * length * state.slope[w, k]
    for place in range(state.flows.size):
        j = state.flows[place]
        if _able(place, state) and state.role[w, j] == CONTINUOUS:
            a = _rate(j, w, t, point, net, work)
            state.root[w, j] = math.sqrt(max(a, real(0.0)))
            z = _normal(j, STEP, state.clock[w, STEPS], plan, replicate)
            state.noise[w, j] = state.root[w, j] * z
            for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                k = state.slots[net.changed[entry]]
                state.push[w, k] += net.changes[entry] * state.noise[w, j]
    for k in range(state.variables.size):
        work.x[w, state.variables[k]] = state.y[w, k]


@noinline_cpu
def _fire(place, extent, w, net, work, state):
    """Change amounts by an extent of a reaction."""
    j = state.flows[place]
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        if state.counts[state.slots[variable]] == 1:
            work.x[w, variable] += net.changes[entry] * extent


@noinline_cpu
def _bridge(share, what, index, w, point, plan, replicate, net, work, state):
    """Add the Brownian bridge at a fraction of the step; its extents are added to `terms`.

    On average it relaxes for half of the time since the begin of the step.
    """
    length = state.clock[w, LENGTH]
    spread = math.sqrt(share * (1.0 - share) * length)
    if not spread > 0.0:
        return
    t = time_within(state.clock[w, BEGIN], length, share, w, state)
    for pass_number in range(4):
        for place in range(state.flows.size):
            j = state.flows[place]
            if not (_able(place, state) and state.role[w, j] == CONTINUOUS):
                continue
            if pass_number == 0:
                state.a[w, j] = _rate(j, w, t, point, net, work)
            elif pass_number == 2:
                a = _rate(j, w, t, point, net, work)
                state.a[w, j] = 0.5 * share * length * (a - state.a[w, j])
            else:
                extent = state.a[w, j]
                if pass_number == 1:
                    z = _normal(j, what, index, plan, replicate)
                    extent = spread * state.root[w, j] * z
                state.terms[w, place] += extent
                _fire(place, extent, w, net, work, state)


@noinline_cpu
def settle(share, w, point, plan, replicate, net, work, state):
    """End a step at a fraction of it, into `finish`: what the extents of the reactions make."""
    clock = state.clock
    length = clock[w, LENGTH]
    for place in range(state.flows.size):
        state.terms[w, place] = 0.0
    for node in range(3):
        at = share * (0.5 + (node - 1) * real(NODE))
        weight = (real(INNER) if node == 1 else real(OUTER)) * share * length
        put_within(at, w, work, state)
        t = time_within(clock[w, BEGIN], length, at, w, state)
        for place in range(state.flows.size):
            j = state.flows[place]
            if _able(place, state) and state.role[w, j] == CONTINUOUS:
                state.terms[w, place] += weight * _rate(j, w, t, point, net, work)
    for k in range(state.variables.size):
        real_one = state.counts[k] == 0
        value = value_within(k, share, w, state) if real_one else state.y[w, k]
        work.x[w, state.variables[k]] = value
    for place in range(state.flows.size):
        j = state.flows[place]
        if _able(place, state) and state.role[w, j] == CONTINUOUS:
            state.terms[w, place] += state.noise[w, j] * math.sqrt(length) * share
            _fire(place, state.terms[w, place], w, net, work, state)
    _bridge(share, END, clock[w, STEPS], w, point, plan, replicate, net, work, state)
    for place in range(state.flows.size):
        j = state.flows[place]
        if _able(place, state) and state.role[w, j] == CONTINUOUS:
            clock[w, FIRED] += state.terms[w, place]
            whole = state.part[w, j] + state.terms[w, place]
            state.part[w, j] = whole - math.floor(whole)
    for k in range(state.variables.size):
        state.finish[w, k] = work.x[w, state.variables[k]]
    passed = clock[w, RELAXES] * length
    clock[w, ERROR] = max(clock[w, ERROR], passed * passed / 12.0)


@noinline_cpu
def spread_within(k, share, w, plan, replicate, net, work, state):
    """Add the Brownian bridge at a fraction of the step, for time `k` of the grid."""
    point = np.int64(state.clock[w, POINT])
    _bridge(share, BRIDGE, real(k), w, point, plan, replicate, net, work, state)


def tell(row, w, state, out):
    """Write the error of the noise, and numbers of steps, continuous firings and changes."""
    out.leaps[row, 0] = state.clock[w, ERROR]
    out.leaps[row, 1] = state.clock[w, STEPS]
    out.leaps[row, 2] = state.clock[w, FIRED]
    out.leaps[row, 3] = state.clock[w, SWITCHES]
