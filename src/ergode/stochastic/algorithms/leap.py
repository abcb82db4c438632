"""Many firings in one step: tau-leaping, and the chemical Langevin equation.  Both approximate.

A step has two halves (weak trapezoidal scheme).  In the first half each reaction fires a Poisson
number of times, with its propensity a at the beginning.  In the second half the propensity is
2 b - a, where b is the propensity in the middle.  Means and variances are of second order in the
step.  For the Langevin equation the numbers of firings are normal.

A bias of the mean counts against the standard deviation, which is a small fraction of a large
amount.  With drift f, variance D per unit of time and rate of relaxation lambda, their ratio after
a relaxation time is about |f| / sqrt(lambda D) times (lambda step)^2 / 12.  If it exceeds a third
of `tolerance`, the second half also has the difference between the expected firings of the
classical Runge-Kutta step and those of the midpoint step.  The factor of |f| / sqrt(lambda D) is
then (lambda step)^4 / 240.

Four bounds control the step; the grid of results does not (`leap_report`):

- the expected change and the standard deviation of every propensity are within the fraction
  `tolerance` of it;
- relaxation: with lambda the largest eigenvalue of the Jacobian of the drift, estimated by power
  iteration with directional differences, (lambda step)^2 / 4 is at most a third of `tolerance`.
  For linear relaxation that is the largest relative error of a variance, in the middle of a step;
  at its end the error is (lambda step)^3 / 8;
- that bias is at most a third of `tolerance` standard deviations;
- if a step would contain only a few firings, firings are simulated one by one.

Reactions that are within a few firings of using up a reactant are critical: they fire one by one,
at the integral of their propensities, and end the step.  A step that would make a count negative
is repeated with half the length.

D. F. Anderson, M. Koyama, "Weak error analysis of numerical methods for stochastic models of
population processes", Multiscale Model. Simul. 10 (2012), algorithm 3 with theta = 1/2.
G. N. Milstein, M. V. Tretyakov, "Numerical methods in the weak sense for stochastic differential
equations with small noise", SIAM J. Numer. Anal. 34 (1997).
D. F. Anderson, J. C. Mattingly, "A weak trapezoidal method for a class of stochastic differential
equations", Commun. Math. Sci. 9 (2011).
Y. Cao, D. T. Gillespie, L. R. Petzold, "Efficient step size selection for the tau-leaping
simulation method", J. Chem. Phys. 124 (2006), equations 27 to 33.
D. T. Gillespie, "The chemical Langevin equation", J. Chem. Phys. 113 (2000), equation 23.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, noinline_cpu, real
from ergode.core.math import random
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.algorithms.leap_report import between
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.bytecode import evaluate
from ergode.stochastic.tables import Tables

TOLERANCE = 0.03
CRITICAL = 10.0
SINGLE_BELOW = 10.0
SINGLE_FIRINGS = 100
# The Langevin equation is not valid with fewer molecules of a reactant.
FEW = 10.0
# Iterations for the largest eigenvalue without an earlier estimate; with one, two suffice.
SWEEPS = 12
# Safety factor on the estimated eigenvalue.
MARGIN = 1.2
# Largest assumed order of a formula in its variables: a Hill function of exponent three.
FORMULA_ORDER = 3


class MethodState(NamedTuple):
    """State of the method; one row per worker."""

    a: Any  # [worker, reaction] propensities in the first half of the step
    b: Any  # [worker, reaction] propensities in the second half
    critical: Any  # [worker, reaction] whether the reaction is critical
    first: Any  # [worker, reaction] unreported firings of the first half
    second: Any  # [worker, reaction] unreported firings of the second half
    drift: Any  # [worker, variable] expected change per unit of time
    spread: Any  # [worker, variable] its variance per unit of time
    start: Any  # [worker, variable] state at the beginning of the step
    finish: Any  # [worker, variable] state at the end of the step
    mode: Any  # [worker, variable] eigenvector of the drift's Jacobian, in units of the state
    moved: Any  # [worker, variable]
    bend: Any  # [worker, reaction] coefficients of the fraction of a Runge-Kutta step, squared and
    twist: Any  # [worker, reaction] cubed, in the mean propensity up to there; the first is a
    clock: Any  # [worker, 5] time reported up to, middle of the step, its end, its begin; and the
    # length of its Runge-Kutta step, 0 if it has none
    fired: Any  # [worker, 3] firings of the step; remaining single firings; whether `mode` is valid
    stats: Any  # [worker, 6] largest error of a step, steps, single firings, steps below zero, time
    # with few molecules of a reactant, total time
    highest: Any  # [variable] highest order of a reaction with this reactant
    alike: Any  # [variable] number of its molecules that such a reaction takes
    reacts: Any  # [variable] whether propensities depend on it and reactions change it
    gaussian: Any  # [1] whether numbers of firings are normal: the Langevin equation
    control: Any  # [3] tolerance, fixed step or 0, last reported time


def prepare(w, t, point, plan, replicate, net, work, state):
    """Discard the last step: the next step begins from the present state."""
    if work.begun[w, 0] == 0:
        work.begun[w, 0] = 1
        for k in range(state.stats.shape[1]):
            state.stats[w, k] = 0.0
    state.fired[w, 1] = 0.0
    state.fired[w, 2] = 0.0


def update(j, w, t, point, plan, replicate, net, work, state):
    """Do nothing: no values are kept between steps."""
    return True


@noinline_cpu
def _propensity(j, w, t, point, net, work):
    """As `realization.propensity`; a negative count (Langevin equation) gives zero."""
    a = net.coefficients[point, j]
    for entry in range(net.reactant_starts[j], net.reactant_starts[j + 1]):
        x = work.x[w, net.reactants[entry]]
        for k in range(net.orders[entry]):
            a *= max(x - real(k), real(0.0))
    if net.laws[j] >= 0:
        a *= evaluate(net.laws[j], w, t, point, net, work)
    return a


def _order_factor(variable, x, state):
    """Relative change of a propensity per relative change of the count (g of equation 27)."""
    highest, alike = state.highest[variable], state.alike[variable]
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


def _allowed(a, w, work, state):
    """A propensity; zero if it is negative where the Langevin equation has led below zero."""
    if a < 0.0 and state.gaussian[0] != 0:
        for variable in range(state.start.shape[1]):
            if work.x[w, variable] < 0.0:
                return real(0.0)
    return a


@noinline_cpu
def _look(w, t, point, net, work, state):
    """Propensities and critical reactions.

    Returns their total (< 0: invalid), the critical total, the step, and the largest drift over the
    root of its variance per unit of time, of a reactant.
    """
    for variable in range(state.drift.shape[1]):
        state.drift[w, variable] = 0.0
        state.spread[w, variable] = 0.0
    total, rare = real(0.0), real(0.0)
    gaussian = state.gaussian[0] != 0
    for j in range(state.a.shape[1]):
        a = _allowed(_propensity(j, w, t, point, net, work), w, work, state)
        if a < 0.0:
            return real(-1.0), rare, real(0.0), real(0.0)
        state.a[w, j] = a
        total += a
        state.critical[w, j] = 0
        first, last = net.change_starts[j], net.change_starts[j + 1]
        if not gaussian and a > 0.0:
            for entry in range(first, last):
                if work.x[w, net.changed[entry]] < -CRITICAL * net.changes[entry]:
                    state.critical[w, j] = 1
            if state.critical[w, j] == 1:
                rare += a
        if state.critical[w, j] == 0:
            for entry in range(first, last):
                v = net.changes[entry]
                state.drift[w, net.changed[entry]] += v * a
                state.spread[w, net.changed[entry]] += v * v * a
    step, pull = real(outcomes.INFINITY), real(0.0)
    for variable in range(state.drift.shape[1]):
        if state.highest[variable] == 0 or state.spread[w, variable] == 0.0:
            continue
        x = max(work.x[w, variable], real(0.0))
        allowed = max(state.control[0] * x / _order_factor(variable, x, state), real(1.0))
        drift = abs(state.drift[w, variable])
        if drift > 0.0:
            step = min(step, allowed / drift)
        step = min(step, allowed * allowed / state.spread[w, variable])
        pull = max(pull, drift / math.sqrt(state.spread[w, variable]))
    return total, rare, step, pull


@noinline_cpu
def _relaxation(w, t, point, net, work, state):
    """Largest rate of relaxation (or growth) of noncritical reactions, by power iteration.

    Each iteration but the last adds a component in every direction, so that a mode that becomes
    dominant is found.  The last iteration adds none: it would excite a product on which no rate
    depends, which grows but does not relax.
    """
    count = state.drift.shape[1]
    sweeps = 2
    if state.fired[w, 2] == 0.0:
        state.fired[w, 2] = 1.0
        sweeps = SWEEPS
        for variable in range(count):
            state.mode[w, variable] = 0.0
    for variable in range(count):
        state.start[w, variable] = work.x[w, variable]
    rate = real(0.0)
    for sweep in range(sweeps):
        length = real(0.0)
        for variable in range(count):
            # Unequal components: equal ones might be in the null space.
            if sweep + 1 < sweeps:
                state.mode[w, variable] += 0.1 + real((variable * 7 + sweep * 3) % 5) / 16.0
            length = max(length, abs(state.mode[w, variable]))
        for variable in range(count):
            state.mode[w, variable] /= length
            scale = max(abs(state.start[w, variable]), real(1.0))
            work.x[w, variable] = fma(
                DIFFERENCE * scale, state.mode[w, variable], state.start[w, variable]
            )
            state.moved[w, variable] = 0.0
        for j in range(state.a.shape[1]):
            if state.critical[w, j] == 0:
                a = _propensity(j, w, t, point, net, work)
                slope = fma(a, real(1.0), -state.a[w, j]) / DIFFERENCE
                for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                    variable = net.changed[entry]
                    state.moved[w, variable] = fma(
                        net.changes[entry], slope, state.moved[w, variable]
                    )
        length = real(0.0)
        for variable in range(count):
            state.moved[w, variable] /= max(abs(state.start[w, variable]), real(1.0))
            length = max(length, abs(state.moved[w, variable]))
        rate = length
        for variable in range(count):
            work.x[w, variable] = state.start[w, variable]
            state.mode[w, variable] = (
                state.moved[w, variable] / length if length > 0.0 else real(0.0)
            )
        if not (length > 0.0 and length < outcomes.INFINITY):
            break
    return MARGIN * rate if rate < outcomes.INFINITY else real(outcomes.INFINITY)


# Relative difference of the state for directional derivatives: far above rounding.
DIFFERENCE = 1e-6


@noinline_cpu
def _fire_one(u, second, only_critical, w, net, state):
    """One firing at the end of the step, in proportion to propensities; false if a count is < 0."""
    sum_of = real(0.0)
    for j in range(state.a.shape[1]):
        if not only_critical or state.critical[w, j] == 1:
            sum_of += state.b[w, j] if second else state.a[w, j]
    target = u * sum_of
    chosen = -1
    for j in range(state.a.shape[1]):
        a = state.b[w, j] if second else state.a[w, j]
        if a > 0.0 and (not only_critical or state.critical[w, j] == 1):
            chosen = j
            if target < a:
                break
            target -= a
    fine = True
    if chosen >= 0:
        for entry in range(net.change_starts[chosen], net.change_starts[chosen + 1]):
            x = state.finish[w, net.changed[entry]] + net.changes[entry]
            state.finish[w, net.changed[entry]] = x
            fine = fine and x >= 0.0
    return fine


@noinline_cpu
def _number(j, mean, draw, replicate, gaussian, plan):
    """Number of firings of a reaction in half a step."""
    entity = np.uint64(j) | (np.uint64(draw >> 24) << np.uint64(32))
    index = np.uint32(draw & 0xFFFFFF)
    if gaussian:
        w0, w1, w2, w3 = random.draw_words(plan.seed, replicate, entity, random.LEAP, index)
        return fma(math.sqrt(mean), random.normal(w0, w1), mean)
    return real(random.poisson(plan.seed, replicate, entity, random.LEAP, index, mean))


@noinline_cpu
def _half(rates, numbers, length, draw, w, plan, replicate, net, state):
    """Fire during half a step from `finish`; the number of firings, or -1 for a negative count."""
    gaussian = state.gaussian[0] != 0
    firings = real(0.0)
    for j in range(state.a.shape[1]):
        number = real(0.0)
        if state.critical[w, j] == 0 and rates[w, j] > 0.0 and length > 0.0:
            number = _number(j, rates[w, j] * length, draw, replicate, gaussian, plan)
            firings += abs(number)
            for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                variable = net.changed[entry]
                state.finish[w, variable] = fma(
                    number, net.changes[entry], state.finish[w, variable]
                )
        numbers[w, j] = number
    if not gaussian:
        for variable in range(state.finish.shape[1]):
            x = state.finish[w, variable]
            if x < 0.0 and x < state.start[w, variable]:
                return real(-1.0)
    return firings


@noinline_cpu
def _lift(step, w, t, point, net, work, state):
    """What the Runge-Kutta step adds to the propensities of the second half, into `b`.

    Also its dense output, of third order; false if a propensity is invalid.
    """
    fine = True
    for j in range(state.a.shape[1]):
        a = state.a[w, j]
        state.second[w, j] = a
        state.b[w, j] = a * (1.0 / 3.0)
        state.bend[w, j] = a * -1.5
        state.twist[w, j] = a * (2.0 / 3.0)
    for stage in range(1, 4):
        length, weight, bend, twist = 0.5 * step, real(2.0 / 3.0), real(1.0), real(-2.0 / 3.0)
        if stage == 1:
            weight = real(-4.0 / 3.0)
        if stage == 3:
            length, weight, bend, twist = step, real(1.0 / 3.0), real(-0.5), real(2.0 / 3.0)
        for variable in range(state.start.shape[1]):
            work.x[w, variable] = state.start[w, variable]
        for j in range(state.a.shape[1]):
            if state.critical[w, j] == 0:
                number = length * state.second[w, j]
                for entry in range(net.change_starts[j], net.change_starts[j + 1]):
                    variable = net.changed[entry]
                    work.x[w, variable] = fma(number, net.changes[entry], work.x[w, variable])
        for j in range(state.a.shape[1]):
            k = _allowed(_propensity(j, w, t, point, net, work), w, work, state)
            fine = fine and k >= 0.0 and k < outcomes.INFINITY
            state.second[w, j] = k
            state.b[w, j] = fma(weight, k, state.b[w, j])
            state.bend[w, j] = fma(bend, k, state.bend[w, j])
            state.twist[w, j] = fma(twist, k, state.twist[w, j])
    for variable in range(state.start.shape[1]):
        work.x[w, variable] = state.start[w, variable]
    return fine


@noinline_cpu
def _second_rates(w, t, point, net, work, state):
    """Propensities of the second half, from the state in the middle, added to `b`.

    Returns the critical sum; it is negative if a propensity is invalid there.
    """
    for variable in range(state.finish.shape[1]):
        work.x[w, variable] = state.finish[w, variable]
    rare = real(0.0)
    fine = True
    for j in range(state.a.shape[1]):
        b = _allowed(_propensity(j, w, t, point, net, work), w, work, state)
        fine = fine and b >= 0.0 and b < outcomes.INFINITY
        state.b[w, j] = max(fma(real(2.0), b, -state.a[w, j]) + state.b[w, j], real(0.0))
        if state.critical[w, j] == 1:
            rare += state.b[w, j]
    for variable in range(state.finish.shape[1]):
        work.x[w, variable] = state.start[w, variable]
    return rare if fine else real(-1.0)


def _advance_singly(fires_at, limit, u, w, net, state):
    """One firing, if it is before the limit: its time or the limit, and 0 or a failure code."""
    ends_at = min(fires_at, limit)
    state.clock[w, 0], state.clock[w, 1], state.clock[w, 2] = ends_at, ends_at, ends_at
    state.clock[w, 4] = 0.0
    if fires_at >= limit:
        return limit, 0
    if not _fire_one(u, False, False, w, net, state):
        return ends_at, outcomes.FAILED_NEGATIVE
    state.fired[w, 0] = 1.0
    return ends_at, 0


@noinline_cpu
def _count_time(length, w, work, state):
    """Add a time span that begins in the present state to the statistics."""
    few = False
    for variable in range(state.reacts.shape[0]):
        few = few or (state.reacts[variable] == 1 and work.x[w, variable] < FEW)
    state.stats[w, 4] += length if few else real(0.0)
    state.stats[w, 5] += length


@noinline_cpu
def advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    """One step or one firing; returns its end time; `state.finish` is the state at its end.

    The worker's row keeps the state at the beginning until results within the step are reported.
    """
    gaussian = state.gaussian[0] != 0
    given = state.control[1]
    total, rare, step, pull = _look(w, t, point, net, work, state)
    if total < 0.0:
        return t, outcomes.FAILED_NEGATIVE, draw
    if not total < outcomes.INFINITY:
        return t, outcomes.FAILED_NOT_FINITE, draw
    if t >= limit:
        return (real(outcomes.INFINITY) if total == 0.0 else limit), outcomes.NO_REACTION, draw
    if total == 0.0:
        _count_time(max(min(limit, state.control[2]) - t, real(0.0)), w, work, state)
        return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
    # Steps, and firings outside of steps.
    if state.stats[w, 1] + state.stats[w, 2] >= real(plan.max_firings):
        return t, outcomes.FAILED_TO_END, draw
    for variable in range(state.finish.shape[1]):
        state.start[w, variable] = work.x[w, variable]
        state.finish[w, variable] = work.x[w, variable]
    state.fired[w, 0] = 0.0
    w0, w1, w2, w3 = random.draw_words(plan.seed, replicate, draw >> 32, random.FIRING, draw)
    draw += 1
    wait = random.exponential(w0, w1)
    u = random.uniform(w2, w3)
    relaxation = real(0.0)
    if given > 0.0:
        step = given
    if state.fired[w, 1] <= 0.0:
        relaxation = _relaxation(w, t, point, net, work, state)
        pull = pull / math.sqrt(relaxation) if relaxation > 0.0 else real(0.0)
        if given == 0.0 and relaxation > 0.0:
            step = min(step, math.sqrt(state.control[0] * (4.0 / 3.0)) / relaxation)
            if pull > 0.0:
                most = math.sqrt(math.sqrt(80.0 * state.control[0] / pull))
                step = min(step, most / relaxation)
        if not step < outcomes.INFINITY:
            # Constant rates: one step may extend to the last reported time.
            step = max(state.control[2] - t, real(1.0) / total)
        if not gaussian and given == 0.0 and step * total < SINGLE_BELOW:
            state.fired[w, 1] = SINGLE_FIRINGS
    if state.fired[w, 1] > 0.0:
        state.fired[w, 1] -= 1.0
        ends_at, code = _advance_singly(t + wait / total, limit, u, w, net, state)
        return ends_at, code, draw
    step = min(step, limit - t)
    for _ in range(60):
        half = 0.5 * step
        scaled = relaxation * step
        lifts = pull * (scaled * scaled) > 4.0 * state.control[0]
        lifts = lifts and _lift(step, w, t, point, net, work, state)
        if not lifts:
            for j in range(state.a.shape[1]):
                state.b[w, j] = 0.0
        fires = rare * half > wait
        second = False
        if fires:
            half = 0.5 * (wait / rare)
        for variable in range(state.finish.shape[1]):
            state.finish[w, variable] = state.start[w, variable]
        before = _half(state.a, state.first, half, draw, w, plan, replicate, net, state)
        draw += 1
        after = real(-1.0)
        rest = half
        if before >= 0.0:
            rare_then = _second_rates(w, t + half, point, net, work, state)
            left = fma(-rare, half, wait)
            if not fires and rare_then * half > left:
                fires, second = True, True
                rest = left / rare_then
            if rare_then >= 0.0:
                after = _half(state.b, state.second, rest, draw, w, plan, replicate, net, state)
            draw += 1
        if after >= 0.0:
            ends_at = t + (half + rest)
            if not fires and step == limit - t:
                ends_at = limit
            elif ends_at >= limit:
                ends_at, fires = limit, False
            state.clock[w, 0], state.clock[w, 1], state.clock[w, 2] = t, t + half, ends_at
            state.clock[w, 3], state.clock[w, 4] = t, step if lifts else real(0.0)
            state.fired[w, 0] = math.floor(before + after + 0.5)
            if fires:
                if not _fire_one(u, second, True, w, net, state):
                    return ends_at, outcomes.FAILED_NEGATIVE, draw
                state.fired[w, 0] += 1.0
            scaled = relaxation * (half + rest)
            scaled *= scaled
            bias = pull * scaled * (scaled / 240.0 if lifts else real(1.0 / 12.0))
            state.stats[w, 0] = max(state.stats[w, 0], max(0.25 * scaled, bias))
            state.stats[w, 1] += 1.0
            _count_time(half + rest, w, work, state)
            return ends_at, 0, draw
        step = 0.5 * step
    return t, outcomes.FAILED_NOT_FINITE, draw


def arrive(w, work, state):
    """Put the state at the end of the last step into the worker's row; returns its firings."""
    below = False
    for variable in range(state.finish.shape[1]):
        x = state.finish[w, variable]
        work.x[w, variable] = x
        below = below or x < 0.0
    state.stats[w, 3] += 1.0 if below else 0.0
    # For a single firing, the middle of the step equals its end.
    if state.fired[w, 0] == 1.0 and state.clock[w, 1] == state.clock[w, 2]:
        state.stats[w, 2] += 1.0
    return np.int64(state.fired[w, 0])


def tell(row, w, state, out):
    """Write the statistics of all steps, including the last, which may pass the end."""
    for k in range(state.stats.shape[1]):
        out.leaps[row, k] = state.stats[w, k]


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    by_reaction = dict.fromkeys(
        ("a", "b", "first", "second", "bend", "twist"), (tables.reaction_count, np.float64)
    )
    by_variable = dict.fromkeys(
        ("drift", "spread", "start", "finish", "mode", "moved"), (tables.variable_count, np.float64)
    )
    return {
        **by_reaction,
        **by_variable,
        "critical": (tables.reaction_count, np.int8),
        "clock": (5, np.float64),
        "fired": (3, np.float64),
        "stats": (6, np.float64),
    }


def control(gaussian: bool, tolerance: float, step: float, end: float) -> dict[str, np.ndarray]:
    """Constants that control the steps of a run."""
    return {
        "gaussian": np.array([gaussian], np.int8),
        "control": np.array([tolerance, step, end], np.float64),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share: orders of reactions by variable."""
    net = tables.net
    highest = np.zeros(tables.variable_count, np.int32)
    alike = np.zeros(tables.variable_count, np.int32)
    rows = np.repeat(np.arange(tables.reaction_count), np.diff(net.reactant_starts))
    totals = np.bincount(rows, weights=net.orders, minlength=tables.reaction_count).astype(np.int32)
    np.maximum.at(highest, net.reactants, totals[rows])
    top = totals[rows] == highest[net.reactants]
    np.maximum.at(alike, net.reactants[top], net.orders[top])
    formulas = net.laws[net.affected] >= 0
    variables = np.repeat(np.arange(tables.variable_count), np.diff(net.affected_starts))
    np.maximum.at(highest, variables[formulas], np.int32(FORMULA_ORDER))
    changes = np.bincount(net.changed[net.changes != 0.0], minlength=tables.variable_count) > 0
    reacts = ((highest > 0) & changes).astype(np.int8)
    return {
        "highest": highest,
        "alike": alike,
        "reacts": reacts,
        **control(False, TOLERANCE, 0.0, 0.0),
    }


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    advance=advance, between=between, arrive=arrive, tell=tell, has_laws=False,
    leaps=True,
)  # fmt: skip
