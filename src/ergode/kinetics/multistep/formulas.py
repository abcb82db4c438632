"""Backward differentiation formulas of order 1 to 5, with steps of any length (see `nordsieck`).

The error of a step is its correction times a constant. The order follows the errors of the orders
next to it. An amount below zero is an error as large as itself.

G. D. Byrne, A. C. Hindmarsh: ACM Trans. Math. Softw. 1, 71 (1975);
A. C. Hindmarsh et al.: ACM Trans. Math. Softw. 31, 363 (2005), section 2.1.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import (
    by_reference,
    hold,
    no_refcount,
    no_unroll,
    noinline,
)
from ergode.core.group import barrier, meet, share, total_of
from ergode.core.math import nordsieck
from ergode.kinetics import endings
from ergode.kinetics.condition_history import history_of, horizon, wall_at
from ergode.kinetics.implicit.step_control import CHANGE, time_after
from ergode.kinetics.kernel_options import (
    COMPRESSED,
    EXCHANGES,
    FLOW,
    OWN_TOLERANCES,
    SELF_HEATING,
    SUNLIT,
    TIMED,
)
from ergode.kinetics.multistep import activities, coefficients, corrector
from ergode.kinetics.multistep.conditions import (
    SMOOTH,
    after_jump,
    begins_anew,
    put_formula_inputs,
    setting_over_time,
)
from ergode.kinetics.multistep.outside import begin_kept, flow_at, put_first
from ergode.kinetics.network.projection import conserved, project
from ergode.kinetics.physics.rates import jump_of
from ergode.kinetics.tables import CLOSED, PLUG, STIRRED

# --- device functions -----------------------------------------------------------------------------

# Steps below this fraction of the time since the start are lost in rounding; the smallest step.
SHORTEST, VANISHED = 1e-15, 1e-280
FINER = 10.0


def put_weights(absolute, rtol, history, weight, group):
    """Put one over the allowed errors of a step."""
    for i in no_unroll(share(group, 0, weight.size)):
        weight[i] = 1.0 / (absolute[i] + rtol * abs(history[0, i]))
    barrier(group)


def error_of(vectors, constant, species):
    """Error of a step over the allowed one, where an amount below zero is an error too."""
    total = 0.0
    for i in no_unroll(share(vectors.group, 0, vectors.y.size)):
        error = abs(vectors.correction[i]) * constant
        if i < species:
            error = max(error, -vectors.y[i])
        error *= vectors.weight[i]
        total += error * error
    return math.sqrt(total_of(vectors.group, total, 0) / vectors.y.size)


def with_energy(setting, start, energy):
    """The setting with another temperature at the start of the step, and another energy."""
    return activities.Setting(
        setting.factors, setting.given, setting.sunlight, start, energy, setting.squeeze,
        setting.passage, setting.around, setting.renewal, setting.inflow, setting.motion,
    )  # fmt: skip


@noinline
def begin(chemistry, zone, vectors, setting, span):
    """Begin with order 1 at `vectors.y`; returns the first step."""
    group = vectors.group
    for i in no_unroll(share(group, 0, vectors.y.size)):
        vectors.history[0, i] = vectors.y[i]
    barrier(group)
    outside = corrector.put_all_rates(chemistry, zone, vectors, setting)
    speed = corrector.norm(vectors.change, vectors.weight, group)
    h = min(span, 0.05 / speed) if speed > 0.0 else span
    for i in no_unroll(share(group, 0, vectors.y.size)):
        vectors.history[1, i] = h * vectors.change[i]
    if EXCHANGES:
        vectors.history[1, vectors.y.size] = h * outside
    if FLOW != CLOSED:
        density = corrector.density_now(zone, vectors, setting)
        begin_kept(chemistry, vectors, setting, density, h)
    barrier(group)
    return h


@noinline
def put_temperature(chemistry, zone, start, kept, amounts, species):
    """Put the temperature that the energy `kept` sets, near the one that is there.

    `start` is the temperature at the start of the step.
    """
    hot = amounts[species]
    coefficients.put_matter(chemistry, zone, start, hot)
    energy, capacity = activities.energy_of_zone(zone, amounts)
    amounts[species] = hot + (kept - energy) / capacity
    barrier(zone.group)


def exchange_error(zone, vectors, constant):
    """Error of the energy that comes from outside, over the allowed one of the temperature.

    Nothing forgets such an error, and those of many steps add up: `FINER` times as little is
    allowed.
    """
    species = zone.matter.shape[1]
    _, capacity = activities.energy_of_zone(zone, vectors.y)
    warmer = abs(vectors.correction[vectors.y.size]) * constant / capacity
    return FINER * warmer * vectors.weight[species]


def jump_error(chemistry, zone, vectors, setting, order):
    """What jumps of enthalpies within a step change of the heat of its reactions.

    It is the change of the temperature over the allowed error. The step does not see it: its
    energies are continuous. `vectors.y` is the end of the step, and the history its prediction.
    """
    start, species = setting.start, zone.matter.shape[1]
    if start > zone.between[0] and start <= zone.between[1]:
        return 0.0
    y, heat = vectors.y, 0.0
    for i in no_unroll(share(zone.group, 0, species)):
        jump = jump_of(chemistry, start, y[species], i)
        heat += jump * (y[i] - nordsieck.value_at(vectors.history, order, i, -1.0))
    heat = total_of(zone.group, heat, 0)
    _, capacity = activities.energy_of_zone(zone, y)
    return abs(heat) / capacity * vectors.weight[species]


@noinline
def errors_beside(vectors, constants, order, ratio, h):
    """Errors of the orders below and above this one; negative where there is none.

    `ratio` is that of the correction before.
    """
    low, high = -1.0, -1.0
    if order > 1:
        size = corrector.norm(vectors.history[order], vectors.weight, vectors.group)
        low = size * constants.lower
    if order < nordsieck.MOST and ratio > 0.0:
        scale = constants.ratio / ratio * (h / vectors.past[2]) ** (order + 1)
        for i in no_unroll(share(vectors.group, 0, vectors.trial.size)):
            vectors.trial[i] = vectors.correction[i] - scale * vectors.before[i]
        high = corrector.norm(vectors.trial, vectors.weight, vectors.group) * constants.higher
    return low, high


def keep_correction(vectors, order, waiting):
    """Keep the correction of a step, if the one after it may change the order; whether it may."""
    if waiting != 1 or order >= nordsieck.MOST:
        return False
    for i in no_unroll(share(vectors.group, 0, vectors.y.size)):
        vectors.before[i] = vectors.correction[i]
    return True


def change_order(vectors, constants, error, order, waiting, ratio, most, h):
    """Make the history one for the next step, which is at most `most` times as long as this one.

    Returns the order of that step, the number of steps before it may change, the ratio of the
    correction that is kept, and the length of that step over `h`.
    """
    waiting -= 1
    if keep_correction(vectors, order, waiting):
        ratio = constants.ratio
    low, high = -1.0, -1.0
    if waiting <= 0 and most != 1.0:
        low, high = errors_beside(vectors, constants, order, ratio, h)
    chosen, factor, waiting = nordsieck.next_order(error, low, high, order, waiting, most)
    nordsieck.turn_history(vectors, order, chosen, factor, h)
    return chosen, waiting, ratio, factor


@noinline
def fill_output(chemistry, zone, vectors, setting, order, h, now, grid, place, defect, out):
    """Write amounts at the times of the result within a step; returns the next place in `grid`."""
    species, group, first = zone.matter.shape[1], vectors.group, vectors.y.size
    while place < grid.size and grid[place] - grid[0] <= now:
        s = ((grid[place] - grid[0]) - now) / h
        for i in no_unroll(share(group, 0, out.shape[1])):
            if i < vectors.y.size:
                out[place, i] = nordsieck.value_at(vectors.history, order, i, s)
            elif FLOW == PLUG and i > species:  # the age
                out[place, i] = nordsieck.value_at(vectors.history, order, first, s)
            else:
                out[place, i] = out[0, i]
        if FLOW == STIRRED:
            put_sums(chemistry, vectors, setting, order, s)
        worst = project(chemistry.invariants, out[place], vectors.gram, group)
        defect = max(defect, worst)
        if SELF_HEATING:
            kept = setting.energy
            if EXCHANGES:
                kept = nordsieck.value_at(vectors.history, order, first, s)
            put_temperature(chemistry, zone, setting.start, kept, out[place], species)
            put_temperature(chemistry, zone, setting.start, kept, out[place], species)
        place += 1
    return place, defect


def put_sums(chemistry, vectors, setting, order, s):
    """Put the conserved sums of a tank, s steps after the end of a step; ends in a barrier."""
    count, species = chemistry.invariants.shape
    first, gram = vectors.y.size + (1 if EXCHANGES else 0), vectors.gram
    for k in no_unroll(share(vectors.group, 0, count)):
        scale = k * (count + 2) + count + 1
        gram[scale] = max(gram[scale], abs(setting.inflow[species + 2 + k]))
        place = count * (count + 2) + k
        gram[place] = nordsieck.value_at(vectors.history, order, first + k, s)
    barrier(vectors.group)


def heating_at(history, order, i, energy, s, capacity):
    """The first three derivatives of the temperature by reactions, with respect to s."""
    first, second, third = nordsieck.slopes_at(history, order, i, s)
    if COMPRESSED:
        work, more, most = nordsieck.slopes_at(history, order, energy, s)
        first -= work / capacity
        second -= more / capacity
        third -= most / capacity
    return first, second, third


@noinline
def fastest_heating(history, order, i, energy, h, end, capacity, steepest, peak):
    """Update the steepest slope of the temperature, and its time, by a step up to `end`.

    What the work on a zone of this heat capacity warms is left out; `energy` is its column.
    """
    most = 0.0
    for j in range(1, order + 1):
        most += j * abs(history[j, i])
        if COMPRESSED:
            most += j * abs(history[j, energy]) / capacity
    if not most > steepest * h:  # nowhere in this step
        return steepest, peak
    for eighth in range(9):
        s = 0.125 * eighth - 1.0
        first, _, _ = heating_at(history, order, i, energy, s, capacity)
        if first > steepest * h:
            for _ in range(3):
                _, second, third = heating_at(history, order, i, energy, s, capacity)
                if third < 0.0:
                    s = min(max(s - second / third, -1.0), 0.0)
            best, _, _ = heating_at(history, order, i, energy, s, capacity)
            if best >= first:
                steepest = best / h
                peak = end + s * h
            else:
                steepest = first / h
                peak = end + (0.125 * eighth - 1.0) * h
    return steepest, peak


@no_refcount
def integrate_zone(chemistry, zone, vectors, conditions, grid, rtol, max_steps, out):
    """Integrate one zone; `out` [time, variable] is filled, its first row being the start.

    Returns the status, steps taken, steps repeated, the largest defect that was corrected and, if
    the zone heats itself, the time when its temperature rose fastest.
    """
    history, y, past, gain = vectors.history, vectors.y, vectors.past, vectors.gain
    species, count, group = zone.matter.shape[1], vectors.y.size, vectors.group
    absolute = chemistry.absolute
    if OWN_TOLERANCES:
        absolute = conditions.tolerances[:count]
        rtol = conditions.tolerances[conditions.tolerances.size - 1]
    for i in no_unroll(share(group, 0, count)):
        y[i] = out[0, i]
        history[0, i] = out[0, i]
    barrier(group)
    for j in range(past.size):
        past[j] = 0.0
    conserved(chemistry.invariants, y, vectors.gram, group)
    hot = out[0, species] if SELF_HEATING else conditions.temperature[0]
    if not SELF_HEATING and out.shape[1] > species:
        hot = out[0, species]
    zone.between[0], zone.between[1] = math.inf, -math.inf
    light = conditions.sunlight[0] if SUNLIT else 1.0
    passage, around = wall_at(conditions, 0, 0, 0.0)
    sums = chemistry.invariants.shape[0]
    renewal, _ = flow_at(conditions, zone, sums, 0, 0, 0.0)
    setting = activities.Setting(
        conditions.factors, conditions.density[0], light, hot, 0.0, 0.0, passage, around, renewal,
        conditions.inflow, conditions.motion,
    )  # fmt: skip
    put_formula_inputs(chemistry, zone, conditions, setting, 0, 0, 0.0)
    coefficients.forget_heat(zone)
    if not SELF_HEATING:
        coefficients.put_heat(chemistry, zone, setting, hot)
    else:
        coefficients.put_matter(chemistry, zone, hot, hot)
        energy, _ = activities.energy_of_zone(zone, y)
        setting = with_energy(setting, hot, energy)
    if EXCHANGES:
        history[0, count] = setting.energy
    if FLOW != CLOSED:
        put_first(vectors, sums)
    barrier(group)
    whole = grid[grid.size - 1] - grid[0]
    put_weights(absolute, rtol, history, vectors.weight, group)
    h, restarts = whole, True
    kept = corrector.Kept(corrector.NOTHING_KEPT, corrector.NOTHING_KEPT, 1.0, 1.0, 1.0)
    order, waiting, most = 1, 2, nordsieck.FIRST_GROWTH
    now, place, taken, repeated, defect = 0.0, 1, 0, 0, 0.0
    peak, steepest = math.nan, 0.0
    ratio, failures, anew, broken = 0.0, 0, True, False
    # The time is `since` after the knot `below`; a step may touch segments up to `last`.
    below, since, last, ends = 0, 0.0, 0, False
    while place < grid.size:
        meet()
        if restarts:
            if TIMED:
                setting = setting_over_time(conditions, zone, sums, setting, below, below, since)
                put_formula_inputs(chemistry, zone, conditions, setting, below, below, since)
                if not SELF_HEATING:
                    coefficients.put_heat(chemistry, zone, setting, setting.start)
            h = begin(chemistry, zone, vectors, setting, h)
            order, waiting, failures, restarts = 1, 2, 0, False
        if taken + repeated >= max_steps:
            return endings.TOO_MANY_STEPS, taken, repeated, defect, peak
        if not (h > max(SHORTEST * now, VANISHED)) or not h < math.inf:
            status = endings.NOT_FINITE if broken or not h < math.inf else endings.STEP_TOO_SMALL
            return status, taken, repeated, defect, peak
        if TIMED:
            allowed, last, ends = horizon(conditions, below, since, h, CHANGE, SMOOTH * rtol)
            if allowed != h:
                nordsieck.rescale(history, order, allowed / h, group)
                h = allowed
            setting = setting_over_time(conditions, zone, sums, setting, below, last, since + h)
            put_formula_inputs(chemistry, zone, conditions, setting, below, last, since + h)
            if not SELF_HEATING:
                coefficients.put_heat(chemistry, zone, setting, setting.start)
        nordsieck.predict(history, order, group)
        constants = nordsieck.put_coefficients(gain, past, order, h)
        state, kept = corrector.correct(
            chemistry, zone, vectors, setting, h, corrector.SHARE / constants.own, kept, anew
        )
        anew, broken = False, state == corrector.BROKEN
        error = 2.0
        if state == corrector.CONVERGED:
            error = error_of(vectors, constants.own, species)
        if SELF_HEATING and error <= 1.0:
            if EXCHANGES:
                energy = history[0, count] + vectors.correction[count]
                setting = with_energy(setting, setting.start, energy)
            put_temperature(chemistry, zone, setting.start, setting.energy, y, species)
            vectors.correction[species] = y[species] - history[0, species]
            barrier(group)
            error += jump_error(chemistry, zone, vectors, setting, order)
            if EXCHANGES:
                error += exchange_error(zone, vectors, constants.own)
        if not error <= 1.0 or state != corrector.CONVERGED:
            nordsieck.retract(history, order, group)
            repeated += 1
            most = 1.0
            if state != corrector.CONVERGED:
                factor, anew = 0.25, True
            else:
                failures += 1
                factor = nordsieck.shorter(error, order, failures)
            if failures > nordsieck.MOST_FAILURES:
                # The past says nothing of the future: begin again, without amounts below zero.
                for i in no_unroll(share(group, 0, count)):
                    y[i] = max(history[0, i], 0.0) if i <= species else history[0, i]
                barrier(group)
                h *= 0.1
                anew, restarts = True, True
                continue
            h *= factor
            nordsieck.rescale(history, order, factor, group)
            continue
        taken += 1
        failures = 0
        nordsieck.keep_length(past, order, h, taken)
        now += h
        if TIMED:
            below, since = time_after(conditions, below, since, last, h, ends)
            now = (conditions.times[below] - grid[0]) + since
        for j in range(order + 1):
            for i in no_unroll(share(group, 0, history.shape[1])):
                history[j, i] += gain[j] * vectors.correction[i]
        barrier(group)
        if SELF_HEATING:
            capacity = activities.energy_of_zone(zone, y)[1] if COMPRESSED else 1.0
            steepest, peak = fastest_heating(
                history, order, species, count, h, grid[0] + now, capacity, steepest, peak
            )
        place, defect = fill_output(
            chemistry, zone, vectors, setting, order, h, now, grid, place, defect, out
        )
        if SELF_HEATING:
            hot = history[0, species]
            coefficients.put_matter(chemistry, zone, setting.start, hot)
            energy = setting.energy
            if not (setting.start > zone.between[0] and setting.start <= zone.between[1]):
                zone.between[0], zone.between[1] = math.inf, -math.inf
                coefficients.put_matter(chemistry, zone, hot, hot)
                energy, _ = activities.energy_of_zone(zone, y)
                if EXCHANGES:
                    history[0, count] = energy
            setting = with_energy(setting, hot, energy)
        kept = corrector.Kept(
            kept.slopes_age + 1, kept.factors_age + 1, kept.gamma, kept.rate, kept.capacity
        )
        if TIMED and ends and place < grid.size:
            below = after_jump(conditions.times, below)
            following = setting_over_time(conditions, zone, sums, setting, below, below, 0.0)
            if begins_anew(chemistry, zone, setting, following, history, y, h, vectors.weight):
                put_weights(absolute, rtol, history, vectors.weight, group)
                for i in no_unroll(share(group, 0, count)):
                    y[i] = history[0, i]
                barrier(group)
                restarts, most = True, nordsieck.FIRST_GROWTH
                continue
        order, waiting, ratio, factor = change_order(
            vectors, constants, error, order, waiting, ratio, most, h
        )
        most = nordsieck.GROWTH
        h *= factor
        put_weights(absolute, rtol, history, vectors.weight, group)
    return endings.DONE, taken, repeated, defect, peak


# --- CPU ------------------------------------------------------------------------------------------


def integrate_cpu(start, stop, chemistry, conditions, grid, rtol, max_steps, outcome):
    """Zones `start` to `stop`, one after another."""
    made, also = activities.zone_of(chemistry), corrector.vectors_of(chemistry)
    chemistry, zone, vectors = by_reference(chemistry), by_reference(made), by_reference(also)
    for place in range(start, stop):
        found = integrate_zone(
            chemistry, zone, vectors, history_of(conditions, place), grid, rtol, max_steps,
            outcome.amounts[place],
        )  # fmt: skip
        endings.write(outcome, place, found)
    hold(made)
    hold(also)
