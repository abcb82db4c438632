"""Backward differentiation formulas of order 1 to 5, with steps of any length (see `nordsieck`).

The error of a step is its correction times a constant. The order follows the errors of the orders
next to it. An amount below zero is an error as large as itself.

G. D. Byrne, A. C. Hindmarsh: ACM Trans. Math. Softw. 1, 71 (1975);
A. C. Hindmarsh et al.: ACM Trans. Math. Softw. 31, 363 (2005), section 2.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import lane_of, no_refcount, noinline_cpu
from ergode.core.status import Status
from ergode.kinetics.condition_history import history_of
from ergode.kinetics.kernel_options import (
    OWN_TOLERANCES,
    SELF_HEATING,
    SUNLIT,
)
from ergode.kinetics.multistep.activities import (
    Setting,
    Zone,
    energy_of_zone,
    put_heat,
    put_matter,
    zone_of,
)
from ergode.kinetics.multistep.corrector import (
    BROKEN,
    CONVERGED,
    SHARE,
    correct,
    iteration_of,
    norm,
    put_rates,
    vectors_of,
)
from ergode.kinetics.multistep.lanes import WIDTH
from ergode.kinetics.multistep.nordsieck import (
    MOST,
    lower_order,
    predict,
    put_coefficients,
    raise_order,
    rescale,
    retract,
    slopes_at,
    value_at,
)
from ergode.kinetics.network.projection import conserved, project
from ergode.kinetics.physics.rates import jump_of

# --- device functions -----------------------------------------------------------------------------

DONE, NOT_FINITE, TOO_MANY_STEPS, STEP_TOO_SMALL = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.TOO_MANY_STEPS),
    int(Status.STEP_TOO_SMALL),
)  # fmt: skip
NOT_A_NUMBER = math.nan
# Steps below this fraction of the time since the start are lost in rounding; the smallest step.
SHORTEST, VANISHED = 1e-15, 1e-280
# Largest growth of a step: usually, and of the first; the least growth for which steps change.
GROWTH, FIRST_GROWTH, WORTHWHILE = 10.0, 1e4, 1.5
# Errors are estimated with these safety factors: own and lower order, higher order.
SAFE, SAFER = 6.0, 10.0
GOES_ON, UNUSED = -1, -2
AGE, PACE, FIRST = 20, 4, 12
"""Attempts after which the Jacobian is renewed, and after which steps may become longer.

Zones in lanes then do both at the same times, though none knows of the others. The first steps may
always become longer.
"""
MOST_FAILURES = 3
"""Failures of a step after which the order falls to one."""


def growth(safety, error, order):
    """Ratio of the next step to this one."""
    return 1.0 / ((safety * error) ** (1.0 / order) + 1e-6)


def put_weights(absolute, rtol, history, weight):
    """Put one over the allowed errors of a step."""
    for i in range(weight.size):
        weight[i] = 1.0 / (absolute[i] + rtol * abs(history[0, i]))


class Course(NamedTuple):
    """How far the zone of each lane is, [WIDTH] each."""

    zone: np.ndarray  # a negative number where there is none
    active: np.ndarray  # whether there is one
    begins: np.ndarray  # whether it begins anew
    order: np.ndarray
    waiting: np.ndarray  # steps before the order may change
    place: np.ndarray  # of the next time in the grid
    taken: np.ndarray
    repeated: np.ndarray
    failures: np.ndarray  # of this step
    now: np.ndarray  # time since the start
    most: np.ndarray  # largest growth of the next step
    ratio: np.ndarray  # `Constants.ratio` of the correction before
    defect: np.ndarray
    steepest: np.ndarray  # fastest heating, and its time
    peak: np.ndarray
    constants: np.ndarray  # [3, WIDTH]: `lower`, `higher` and `ratio` of `Constants`
    error: np.ndarray  # of the step over the allowed one


def course_of():
    """Lanes without zones."""
    return Course(
        np.full(WIDTH, UNUSED), np.zeros(WIDTH, np.bool_), np.zeros(WIDTH, np.bool_),
        np.ones(WIDTH, np.int64), np.ones(WIDTH, np.int64), np.ones(WIDTH, np.int64),
        np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.int64),
        np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH),
        np.zeros(WIDTH), np.zeros((3, WIDTH)), np.zeros(WIDTH),
    )  # fmt: skip


def error_of(vectors, constant, species):
    """Error of a step over the allowed one, where an amount below zero is an error too."""
    total = 0.0
    for i in range(species):
        one = max(abs(vectors.correction[i]) * constant, -vectors.y[i]) * vectors.weight[i]
        total += one * one
    for i in range(species, vectors.y.size):
        one = vectors.correction[i] * constant * vectors.weight[i]
        total += one * one
    return math.sqrt(total / vectors.y.size)


@noinline_cpu
def put_temperature(chemistry, zone, start, own, amounts, species):
    """Put the temperature that the energy `own` sets, near the one that is there."""
    hot = amounts[species]
    put_matter(chemistry, zone, start, hot)
    energy, capacity = energy_of_zone(zone, amounts)
    amounts[species] = hot + (own - energy) / capacity


def jump_error(chemistry, zone, history, y, weight, start, order):
    """What jumps of enthalpies within a step change of the heat of its reactions.

    It is the change of the temperature over the allowed error. The step does not see it: its
    energies are continuous. `y` is the end of the step, and the history its prediction.
    """
    species = zone.matter.shape[1]
    if start > zone.between[0] and start <= zone.between[1]:
        return 0.0
    heat = 0.0
    for i in range(species):
        jump = jump_of(chemistry, start, y[species], i)
        heat += jump * (y[i] - value_at(history, order, i, -1.0))
    _, capacity = energy_of_zone(zone, y)
    return abs(heat) / capacity * weight[species]


@noinline_cpu
def next_order(
    history, weight, correction, before, trial, lower, higher, own, error, order, waiting, ratio,
    length,
):  # fmt: skip
    """The order of the next step, and its length over that of this step.

    `waiting` is the number of steps before the order may change. `lower`, `higher` and `own` are
    those of `Constants`, `ratio` that of the correction before, and `length` that of this step over
    the one before.
    """
    most, chosen = growth(SAFE, error, order + 1), order
    if waiting > 0:
        return chosen, most
    down, up = 0.0, 0.0
    if order > 1:
        down = growth(SAFE, norm(history[order], weight) * lower, order)
    if order < MOST and ratio > 0.0:
        scale = own / ratio * length ** (order + 1)
        for i in range(trial.size):
            trial[i] = correction[i] - scale * before[i]
        up = growth(SAFER, norm(trial, weight) * higher, order + 2)
    if max(most, down, up) < WORTHWHILE:
        return order, 1.0
    if up > most and up > down:
        return order + 1, up
    if down > most:
        return order - 1, down
    return order, most


@noinline_cpu
def fill_output(
    chemistry, zone, history, gram, start, energy, order, h, now, grid, place, defect, out
):
    """Write amounts at the times of the result within a step; returns the next place in `grid`."""
    species = zone.matter.shape[1]
    while place < grid.size and grid[place] - grid[0] <= now:
        s = ((grid[place] - grid[0]) - now) / h
        for i in range(out.shape[1]):
            if i < history.shape[1]:
                out[place, i] = value_at(history, order, i, s)
            else:
                out[place, i] = out[0, i]
        worst = project(chemistry.invariants, out[place], gram, gram)
        defect = max(defect, worst)
        if SELF_HEATING:
            put_temperature(chemistry, zone, start, energy, out[place], species)
            put_temperature(chemistry, zone, start, energy, out[place], species)
        place += 1
    return place, defect


@noinline_cpu
def fastest_heating(history, order, i, h, end, steepest, peak):
    """Update the steepest slope of the temperature, and its time, by a step up to `end`."""
    for eighth in range(9):
        s = 0.125 * eighth - 1.0
        first, _, _ = slopes_at(history, order, i, s)
        if first > steepest * h:
            for _ in range(3):
                _, second, third = slopes_at(history, order, i, s)
                if third < 0.0:
                    s = min(max(s - second / third, -1.0), 0.0)
            best, _, _ = slopes_at(history, order, i, s)
            if best >= first:
                steepest = best / h
                peak = end + s * h
            else:
                steepest = first / h
                peak = end + (0.125 * eighth - 1.0) * h
    return steepest, peak


def lane_of_zone(zone, lane):
    """The workspace of one lane."""
    return Zone(
        lane_of(zone.exponential, lane), lane_of(zone.slots, lane), zone.slopes,
        lane_of(zone.partners, lane), lane_of(zone.falloff, lane), lane_of(zone.packed, lane),
        lane_of(zone.between, lane), lane_of(zone.hot, lane), lane_of(zone.matter, lane),
        lane_of(zone.activity, lane), lane_of(zone.rate, lane), lane_of(zone.derivative, lane),
    )  # fmt: skip


def forget_range(zone):
    """Pack the polynomials at the next temperature."""
    zone.between[0], zone.between[1] = math.inf, -math.inf


@noinline_cpu
def place_zone(chemistry, zone, vectors, course, lane, index, density, temperature, whole, out):
    """Begin with a zone in a lane; `out` [time, variable] has its start."""
    history, y = lane_of(vectors.history, lane), lane_of(vectors.y, lane)
    past, species = lane_of(vectors.past, lane), zone.matter.shape[1]
    for i in range(y.size):
        y[i] = out[0, i]
        for j in range(history.shape[0]):
            history[j, i] = 0.0
        history[0, i] = out[0, i]
    for j in range(past.size):
        past[j] = 0.0
    gram = vectors.gram[lane]
    conserved(chemistry.invariants, y, gram, gram)
    hot = out[0, species] if SELF_HEATING else temperature
    if not SELF_HEATING and out.shape[1] > species:
        hot = out[0, species]
    given, start, energy, h = (
        lane_of(vectors.given, lane), lane_of(vectors.start, lane), lane_of(vectors.energy, lane),
        lane_of(vectors.h, lane),
    )  # fmt: skip
    given[0], start[0], h[0] = density, hot, whole
    own = lane_of_zone(zone, lane)
    forget_range(own)
    if SELF_HEATING:
        put_matter(chemistry, own, hot, hot)
        energy[0], _ = energy_of_zone(own, y)
    course.zone[lane], course.active[lane], course.begins[lane] = index, True, True
    course.place[lane], course.taken[lane], course.repeated[lane] = 1, 0, 0
    course.now[lane], course.most[lane], course.ratio[lane] = 0.0, FIRST_GROWTH, 0.0
    course.defect[lane], course.steepest[lane], course.peak[lane] = 0.0, 0.0, NOT_A_NUMBER


@noinline_cpu
def begin(chemistry, zone, vectors, course, setting):
    """Begin with order 1 in the lanes that begin anew."""
    for i in range(vectors.y.size):
        vectors.y[i] = vectors.history[0, i]
    put_rates(chemistry, zone, vectors, setting)
    vectors.size[0] = norm(vectors.change, vectors.weight)
    for lane in range(WIDTH):
        if course.begins[lane]:
            history, change = lane_of(vectors.history, lane), lane_of(vectors.change, lane)
            h, speed = lane_of(vectors.h, lane), lane_of(vectors.size, lane)[0]
            if speed > 0.0:
                h[0] = min(h[0], 0.05 / speed)
            for i in range(change.size):
                history[1, i] = h[0] * change[i]
                for j in range(2, history.shape[0]):
                    history[j, i] = 0.0
            course.begins[lane], course.order[lane] = False, 1
            course.waiting[lane], course.failures[lane] = 2, 0


def write_zone(course, lane, status, outcome):
    """Write the outcome of the zone of a lane, which then has none."""
    index = course.zone[lane]
    outcome.status[index] = status
    outcome.taken[index] = course.taken[lane]
    outcome.repeated[index] = course.repeated[lane]
    outcome.defect[index] = course.defect[lane]
    outcome.fastest_heating[index] = course.peak[lane]
    course.zone[lane], course.active[lane] = -1, False


@noinline_cpu
def reject(vectors, course, iteration, lane, error):
    """Undo the prediction of a step and choose a shorter one, or a new Jacobian."""
    history, h, order = lane_of(vectors.history, lane), lane_of(vectors.h, lane), course.order[lane]
    retract(history, order)
    course.repeated[lane] += 1
    was_new, iteration.anew[lane] = iteration.anew[lane], False
    if iteration.state[lane] != CONVERGED:
        iteration.anew[lane] = True
        if not was_new:
            return
        factor = 0.25
    else:
        course.failures[lane] += 1
        factor = max(0.1, growth(SAFE, error, order + 1)) if error < math.inf else 0.1
        factor = min(factor, 0.9 if course.failures[lane] < 2 else 0.2)
    course.most[lane] = 1.0
    if course.failures[lane] > MOST_FAILURES:
        # The past says nothing of the future: begin again, without amounts below zero.
        for i in range(history.shape[1]):
            history[0, i] = max(history[0, i], 0.0)
        h[0] *= 0.1
        course.begins[lane], iteration.anew[lane] = True, True
        return
    h[0] *= factor
    rescale(history, order, factor)


@noinline_cpu
def accept(chemistry, zone, vectors, course, lane, error, grid, out):
    """Go on to the next step, after the history has been corrected."""
    history, past, gain = (
        lane_of(vectors.history, lane), lane_of(vectors.past, lane), lane_of(vectors.gain, lane)
    )  # fmt: skip
    correction, before, h = (
        lane_of(vectors.correction, lane), lane_of(vectors.before, lane), lane_of(vectors.h, lane)
    )  # fmt: skip
    order, length, species = course.order[lane], h[0], zone.matter.shape[1]
    own, start, energy = (
        lane_of_zone(zone, lane), lane_of(vectors.start, lane), lane_of(vectors.energy, lane)
    )  # fmt: skip
    course.taken[lane] += 1
    course.failures[lane] = 0
    for back in range(order - 1):
        past[order - back] = past[order - back - 1]
    if order == 1 and course.taken[lane] > 1:
        past[2] = past[1]
    past[1] = length
    course.now[lane] += length
    now = course.now[lane]
    if SELF_HEATING:
        course.steepest[lane], course.peak[lane] = fastest_heating(
            history, order, species, length, grid[0] + now, course.steepest[lane],
            course.peak[lane],
        )  # fmt: skip
    if grid[course.place[lane]] - grid[0] <= now:
        course.place[lane], course.defect[lane] = fill_output(
            chemistry, own, history, vectors.gram[lane], start[0], energy[0], order, length, now,
            grid, course.place[lane], course.defect[lane], out,
        )  # fmt: skip
    if SELF_HEATING:
        hot = history[0, species]
        if not (hot > own.between[0] and hot <= own.between[1]):
            put_matter(chemistry, own, start[0], hot)
        if not (start[0] > own.between[0] and start[0] <= own.between[1]):
            forget_range(own)
            put_matter(chemistry, own, hot, hot)
            energy[0], _ = energy_of_zone(own, lane_of(vectors.y, lane))
        start[0] = hot
    course.waiting[lane] -= 1
    lower, higher, ratio = (
        course.constants[0, lane], course.constants[1, lane], course.constants[2, lane]
    )  # fmt: skip
    factor, chosen = 1.0, order
    attempts = course.taken[lane] + course.repeated[lane]
    if course.most[lane] == 1.0:  # the step after a failure
        course.waiting[lane] = max(course.waiting[lane], 2)
        course.most[lane] = GROWTH
    elif attempts < FIRST or attempts % PACE == 0:
        chosen, factor = next_order(
            history, lane_of(vectors.weight, lane), correction, before,
            lane_of(vectors.trial, lane), lower, higher, ratio, error, order, course.waiting[lane],
            course.ratio[lane], length / past[2],
        )  # fmt: skip
        if course.waiting[lane] <= 0:
            course.waiting[lane] = 2
    if course.waiting[lane] <= 1 and order < MOST:
        for i in range(correction.size):
            before[i] = correction[i]
        course.ratio[lane] = ratio
    if factor < WORTHWHILE:
        factor, chosen = 1.0, order
    if factor > 1.0:
        factor = min(factor, course.most[lane])
        course.most[lane] = GROWTH
    if chosen > order:
        raise_order(history, gain, past, order, length, correction)
    elif chosen < order:
        lower_order(history, gain, past, order, length)
    if chosen != order or factor != 1.0:
        order = chosen
        course.order[lane] = order
        course.waiting[lane] = order + 1
    if factor != 1.0:
        rescale(history, order, factor)
        h[0] *= factor


@noinline_cpu
def prepare(vectors, course, iteration, grid, max_steps, outcome):
    """Put the coefficients of the steps of all lanes; zones that are done or fail end.

    Returns whether a zone has ended.
    """
    has_ended = False
    for lane in range(WIDTH):
        if course.active[lane]:
            h, now, status = lane_of(vectors.h, lane)[0], course.now[lane], GOES_ON
            if course.place[lane] >= grid.size:
                status = DONE
            elif course.taken[lane] + course.repeated[lane] >= max_steps:
                status = TOO_MANY_STEPS
            elif not (h > max(SHORTEST * now, VANISHED)) or not h < math.inf:
                broken = iteration.state[lane] == BROKEN or not h < math.inf
                status = NOT_FINITE if broken else STEP_TOO_SMALL
            if status != GOES_ON:
                write_zone(course, lane, status, outcome)
                history = lane_of(vectors.history, lane)
                for j in range(1, history.shape[0]):
                    for i in range(history.shape[1]):
                        history[j, i] = 0.0
                has_ended = True
            else:
                constants = put_coefficients(
                    lane_of(vectors.gain, lane), lane_of(vectors.past, lane), course.order[lane], h
                )
                course.constants[0, lane], course.constants[1, lane] = (
                    constants.lower, constants.higher
                )  # fmt: skip
                course.constants[2, lane] = constants.ratio
                constant = lane_of(vectors.constant, lane)
                constant[0] = constants.own
                iteration.allowed[lane] = SHARE / constants.own
    return has_ended


@no_refcount
def integrate_zones(
    chemistry, zone, vectors, course, iteration, conditions, grid, rtol, max_steps, start, stop,
    outcome,
):  # fmt: skip
    """Integrate the zones from `start` to `stop`; a lane whose zone has ended takes the next."""
    history, y, correction, gain = vectors.history, vectors.y, vectors.correction, vectors.gain
    species, count, absolute = zone.matter.shape[1], vectors.y.size, chemistry.absolute
    following, factors, light, turn = start, conditions.factors[0], 1.0, 0
    while True:
        some, placed, begins, top = False, False, False, 1
        for lane in range(WIDTH):
            free = not course.active[lane] and (WIDTH == 1 or turn % AGE == 0)
            if free and (following < stop or course.zone[lane] == UNUSED):
                # A lane that is not needed has some numbers, for they are computed with.
                index = following if following < stop else start
                own = history_of(conditions, index)
                place_zone(
                    chemistry, zone, vectors, course, lane, index, own.density[0],
                    own.temperature[0], grid[grid.size - 1] - grid[0], outcome.amounts[index],
                )  # fmt: skip
                iteration.state[lane], iteration.anew[lane] = CONVERGED, True
                if following >= stop:
                    course.zone[lane], course.active[lane] = -1, False
                following += 1
                placed = True
                if WIDTH == 1:
                    factors = own.factors
                    if SUNLIT:
                        light = own.sunlight[0]
                    if OWN_TOLERANCES:
                        absolute = own.tolerances[:count]
                        rtol = own.tolerances[own.tolerances.size - 1]
            some, begins = some or course.active[lane], begins or course.begins[lane]
        if not some and following >= stop:
            break
        if not some:
            turn = 0
            continue
        setting = Setting(factors, vectors.given[0], light, vectors.start[0], vectors.energy[0])
        if placed and not SELF_HEATING:
            put_heat(chemistry, zone, setting, setting.start)
        put_weights(absolute, rtol, history, vectors.weight)
        if begins:
            begin(chemistry, zone, vectors, course, setting)
        if prepare(vectors, course, iteration, grid, max_steps, outcome):
            continue
        for lane in range(WIDTH):
            top = max(top, course.order[lane])
        predict(history, top)
        correct(chemistry, zone, vectors, iteration, setting, course.active)
        turn += 1
        vectors.size[0] = error_of(vectors, vectors.constant[0], species)
        if SELF_HEATING:
            put_temperature(chemistry, zone, setting.start, setting.energy, y, species)
            correction[species] = y[species] - history[0, species]
        find_errors(chemistry, zone, vectors, course, iteration)
        for j in range(top + 1):
            for i in range(count):
                history[j, i] += gain[j] * correction[i]
        for lane in range(WIDTH):
            if course.active[lane]:
                error = course.error[lane]
                if error <= 1.0:
                    accept(
                        chemistry, zone, vectors, course, lane, error, grid,
                        outcome.amounts[course.zone[lane]],
                    )  # fmt: skip
                    iteration.anew[lane] = False
                else:
                    reject(vectors, course, iteration, lane, error)
                attempts = course.taken[lane] + course.repeated[lane]
                iteration.anew[lane] = iteration.anew[lane] or attempts % AGE == 0


@noinline_cpu
def find_errors(chemistry, zone, vectors, course, iteration):
    """Find the errors of steps; the corrections of steps that are rejected become zero."""
    for lane in range(WIDTH):
        error = 2.0
        if course.active[lane] and iteration.state[lane] == CONVERGED:
            error = lane_of(vectors.size, lane)[0]
            if SELF_HEATING and error <= 1.0:
                error += jump_error(
                    chemistry, lane_of_zone(zone, lane), lane_of(vectors.history, lane),
                    lane_of(vectors.y, lane), lane_of(vectors.weight, lane),
                    lane_of(vectors.start, lane)[0], course.order[lane],
                )  # fmt: skip
        course.error[lane] = error
        if not error <= 1.0:
            gain, correction = lane_of(vectors.gain, lane), lane_of(vectors.correction, lane)
            for j in range(gain.size):
                gain[j] = 0.0
            for i in range(correction.size):
                correction[i] = 0.0


# --- CPU ------------------------------------------------------------------------------------------


def integrate_cpu(start, stop, chemistry, conditions, grid, rtol, max_steps, outcome):
    """Zones `start` to `stop`."""
    integrate_zones(
        chemistry, zone_of(chemistry), vectors_of(chemistry), course_of(), iteration_of(),
        conditions, grid, rtol, max_steps, start, stop, outcome,
    )  # fmt: skip
