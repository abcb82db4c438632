"""Many firings in one step: tau-leaping, and the chemical Langevin equation.  Approximations.

In a step so short that no propensity changes much, each reaction fires a Poisson number of times;
where these are many they are normal.  The step is the largest in which the expected change, and
its spread, of every propensity is within a share `epsilon` of it.  Reactions that are within a few
firings of using up a reactant are critical: at most one of them fires in a step.  A step that
would make a count negative is taken again, half as long; where a step would not be worth several
firings, firings are simulated one by one.

Y. Cao, D. T. Gillespie, L. R. Petzold, "Efficient step size selection for the tau-leaping
simulation method", J. Chem. Phys. 124 (2006), equations 27 to 33.
D. T. Gillespie, "The chemical Langevin equation", J. Chem. Phys. 113 (2000), equation 23.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.machine import outlined, real
from ergode.core.random import FIRING, LEAP, draw_words, exponential, normal, poisson, uniform
from ergode.stochastic.outcomes import (
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    INFINITY,
    NO_REACTION,
)
from ergode.stochastic.programs import evaluate
from ergode.stochastic.realization import change
from ergode.stochastic.tables import Tables

LEAPS = True
EPSILON = 0.03
CRITICAL = 10.0
SINGLE_BELOW = 10.0
SINGLE_FIRINGS = 100


class Own(NamedTuple):
    """What the method keeps; rows of one worker each."""

    a: Any  # [worker, reaction] propensities
    critical: Any  # [worker, reaction] whether it is
    drift: Any  # [worker, variable] expected change a time
    spread: Any  # [worker, variable] its variance a time
    delta: Any  # [worker, variable] change of the step
    fired: Any  # [worker, 2] firings of the step; firings still to be simulated one by one
    highest: Any  # [variable] highest order of a reaction that it takes part in
    alike: Any  # [variable] how many of it such a reaction takes
    gaussian: Any  # [1] whether numbers of firings are normal: the Langevin equation


def prepare(w, t, point, plan, replicate, net, work, own):
    """Begin a step at a time anew."""
    own.fired[w, 1] = 0.0


def update(j, w, t, point, plan, replicate, net, work, own):
    """Nothing is kept from step to step."""
    return True


def _propensity(j, w, t, point, net, work):
    """As everywhere, but zero of a count below zero, which the Langevin equation may lead to."""
    a = net.coefficients[point, j]
    for entry in range(net.reactant_starts[j], net.reactant_starts[j + 1]):
        x = work.x[w, net.reactants[entry]]
        for k in range(net.orders[entry]):
            a *= max(x - real(k), real(0.0))
    if net.laws[j] >= 0:
        a *= evaluate(net.laws[j], w, t, point, net, work)
    return a


def _order_factor(variable, x, own):
    """How many times faster than the count a propensity changes (the g of equation 27)."""
    highest, alike = own.highest[variable], own.alike[variable]
    g = real(highest)
    if alike >= 2:
        below = max(x - 1.0, real(1.0))
        extra = 1.0 / below
        if highest == 3 and alike == 2:
            extra *= 1.5
        elif alike >= 3:
            extra += 2.0 / max(x - 2.0, real(1.0))
        g += extra
    return g


@outlined
def _look(w, t, point, net, work, own):
    """Propensities and which are critical: total, total of the critical, step; total < 0: wrong."""
    for variable in range(own.drift.shape[1]):
        own.drift[w, variable] = 0.0
        own.spread[w, variable] = 0.0
    total, rare = real(0.0), real(0.0)
    gaussian = own.gaussian[0] != 0
    for j in range(own.a.shape[1]):
        a = _propensity(j, w, t, point, net, work)
        if a < 0.0:
            return real(-1.0), rare, real(0.0)
        own.a[w, j] = a
        total += a
        own.critical[w, j] = 0
        first, last = net.change_starts[j], net.change_starts[j + 1]
        if not gaussian and a > 0.0:
            for entry in range(first, last):
                if work.x[w, net.changed[entry]] < -CRITICAL * net.changes[entry]:
                    own.critical[w, j] = 1
            if own.critical[w, j] == 1:
                rare += a
        if own.critical[w, j] == 0:
            for entry in range(first, last):
                v = net.changes[entry]
                own.drift[w, net.changed[entry]] += v * a
                own.spread[w, net.changed[entry]] += v * v * a
    step = real(INFINITY)
    for variable in range(own.drift.shape[1]):
        if own.highest[variable] == 0 or own.spread[w, variable] == 0.0:
            continue
        x = max(work.x[w, variable], real(0.0))
        allowed = max(EPSILON * x / _order_factor(variable, x, own), real(1.0))
        drift = abs(own.drift[w, variable])
        if drift > 0.0:
            step = min(step, allowed / drift)
        step = min(step, allowed * allowed / own.spread[w, variable])
    return total, rare, step


def _fire_one(u, only_critical, w, net, work, own):
    """One firing, in proportion to propensities; false if a count falls below zero."""
    sum_of = real(0.0)
    for j in range(own.a.shape[1]):
        if not only_critical or own.critical[w, j] == 1:
            sum_of += own.a[w, j]
    target = u * sum_of
    chosen = -1
    for j in range(own.a.shape[1]):
        if own.a[w, j] > 0.0 and (not only_critical or own.critical[w, j] == 1):
            chosen = j
            if target < own.a[w, j]:
                break
            target -= own.a[w, j]
    return chosen < 0 or change(chosen, w, net, work)


@outlined
def _number(j, mean, draw, replicate, gaussian, plan):
    """How often a reaction fires in a step."""
    entity = np.uint64(j) | (np.uint64(draw >> 24) << np.uint64(32))
    index = np.uint32(draw & 0xFFFFFF)
    if gaussian:
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, entity, LEAP, index)
        return mean + math.sqrt(mean) * normal(w0, w1)
    return real(poisson(plan.seed, replicate, entity, LEAP, index, mean))


@outlined
def advance(w, t, limit, point, draw, plan, replicate, net, work, own):
    """One step, or one firing: the state at its end, and when that is."""
    if t >= limit:
        return limit, NO_REACTION, draw
    total, rare, step = _look(w, t, point, net, work, own)
    if total < 0.0:
        return t, FAILED_NEGATIVE, draw
    if not total < INFINITY:
        return t, FAILED_NOT_FINITE, draw
    own.fired[w, 0] = 0.0
    if total == 0.0:
        # The driver sees a step that leads to the limit without a firing.
        return limit, 0, draw
    w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
    draw += 1
    wait = exponential(w0, w1)
    u = uniform(w2, w3)
    gaussian = own.gaussian[0] != 0
    if not gaussian:
        if own.fired[w, 1] <= 0.0 and step < SINGLE_BELOW / total:
            own.fired[w, 1] = SINGLE_FIRINGS
        if own.fired[w, 1] > 0.0:
            own.fired[w, 1] -= 1.0
            if t + wait / total >= limit:
                return limit, 0, draw
            if not _fire_one(u, False, w, net, work, own):
                return t, FAILED_NEGATIVE, draw
            own.fired[w, 0] = 1.0
            return t + wait / total, 0, draw
    until_rare = wait / rare if rare > 0.0 else real(INFINITY)
    for _ in range(60):
        ends_at = t + min(step, until_rare)
        fires = until_rare <= step and ends_at < limit
        ends_at = min(ends_at, limit)
        length = ends_at - t
        for variable in range(own.delta.shape[1]):
            own.delta[w, variable] = 0.0
        firings = real(0.0)
        for j in range(own.a.shape[1]):
            if own.critical[w, j] == 0 and own.a[w, j] > 0.0:
                number = _number(
                    j, own.a[w, j] * length, draw, replicate, gaussian, plan
                )  # fmt: skip
                firings += abs(number)
                for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                    own.delta[w, net.changed[entry]] += number * net.changes[entry]
        draw += 1
        negative = False
        for variable in range(own.delta.shape[1]):
            ends = work.x[w, variable] + own.delta[w, variable]
            negative = negative or (ends < 0.0 and own.delta[w, variable] < 0.0)
        if gaussian or not negative:
            for variable in range(own.delta.shape[1]):
                work.x[w, variable] += own.delta[w, variable]
            if fires:
                if not _fire_one(u, True, w, net, work, own):
                    return t, FAILED_NEGATIVE, draw
                firings += 1.0
            own.fired[w, 0] = math.floor(firings + 0.5)
            return ends_at, 0, draw
        step = 0.5 * min(step, length)
    return t, FAILED_NOT_FINITE, draw


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row that a worker keeps."""
    return {
        "a": (tables.reaction_count, np.float64),
        "critical": (tables.reaction_count, np.int8),
        "drift": (tables.variable_count, np.float64),
        "spread": (tables.variable_count, np.float64),
        "delta": (tables.variable_count, np.float64),
        "fired": (2, np.float64),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Highest orders: what all workers share."""
    net = tables.net
    highest = np.zeros(tables.variable_count, np.int32)
    alike = np.zeros(tables.variable_count, np.int32)
    rows = np.repeat(np.arange(tables.reaction_count), np.diff(net.reactant_starts))
    totals = np.bincount(rows, weights=net.orders, minlength=tables.reaction_count).astype(np.int32)
    np.maximum.at(highest, net.reactants, totals[rows])
    top = totals[rows] == highest[net.reactants]
    np.maximum.at(alike, net.reactants[top], net.orders[top])
    # Of a formula the order is not known: of second order in all it uses.
    formulas = net.laws[net.affected] >= 0
    variables = np.repeat(np.arange(tables.variable_count), np.diff(net.affected_starts))
    np.maximum.at(highest, variables[formulas], np.int32(2))
    return {"highest": highest, "alike": alike, "gaussian": np.array([0], np.int8)}
