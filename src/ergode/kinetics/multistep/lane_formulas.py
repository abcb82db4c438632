"""The formulas of `formulas` for eight zones in vector lanes.

Each lane has its own step, order and errors, and decides as a zone alone does: it has its bits.
What lanes share is the work of an iteration. A lane whose Jacobian is old waits a few steps for
others that are about to need one, because a Jacobian of eight zones takes as long as that of one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import (
    by_reference,
    hold,
    lane_of,
    no_refcount,
    noinline_cpu,
    where,
)
from ergode.core.group import ONE
from ergode.core.math import nordsieck
from ergode.kinetics import endings
from ergode.kinetics.condition_history import history_at, history_of, horizon
from ergode.kinetics.implicit.step_control import CHANGE, time_after
from ergode.kinetics.kernel_options import (
    COMPRESSED,
    EXCHANGES,
    FLOW,
    FORMULAS,
    SELF_HEATING,
    SUNLIT,
    SWEPT,
    TIMED,
    WALLED,
)
from ergode.kinetics.multistep import activities, coefficients, corrector, formulas
from ergode.kinetics.multistep.conditions import (
    SMOOTH,
    after_jump,
    begins_anew,
    setting_over_time,
)
from ergode.kinetics.multistep.lane_corrector import (
    begin_iterations,
    correct_some,
    iteration_of,
    let_go_on,
    numbers_of,
    predict_some,
    put,
    vectors_at,
    zone_at,
)
from ergode.kinetics.multistep.lanes import WIDTH
from ergode.kinetics.multistep.outside import begin_kept, put_first
from ergode.kinetics.network.projection import conserved
from ergode.kinetics.physics.formulas import put_inputs
from ergode.kinetics.tables import CLOSED

# --- device functions -----------------------------------------------------------------------------

GOES_ON, EMPTY, UNUSED, UNKNOWN = -1, -1, -2, -1
PATIENCE = 5
"""Steps that a lane waits for the Jacobians of others."""


class Course(NamedTuple):
    """How far the zone of each lane is, [WIDTH] each; names are those of a zone alone."""

    zone: np.ndarray  # its number; negative if the lane has no zone
    active: np.ndarray  # whether there is one
    restarts: np.ndarray
    predicted: np.ndarray  # whether the history has been moved forward
    waited: np.ndarray  # steps that the lane has waited
    order: np.ndarray
    waiting: np.ndarray
    place: np.ndarray
    taken: np.ndarray
    repeated: np.ndarray
    failures: np.ndarray
    now: np.ndarray
    most: np.ndarray
    ratio: np.ndarray
    defect: np.ndarray
    steepest: np.ndarray
    peak: np.ndarray
    below: np.ndarray  # the time is `since` after this knot
    since: np.ndarray
    last: np.ndarray  # segment that the step touches; negative before it has a length
    ends: np.ndarray  # whether the step ends at the end of that segment
    constants: np.ndarray  # [WIDTH, 4]: `Constants`


def course_of():
    """Lanes without zones."""
    return Course(
        np.full(WIDTH, UNUSED), np.zeros(WIDTH, np.bool_), np.zeros(WIDTH, np.bool_),
        np.zeros(WIDTH, np.bool_), np.zeros(WIDTH, np.int64), np.ones(WIDTH, np.int64),
        np.zeros(WIDTH, np.int64), np.ones(WIDTH, np.int64), np.zeros(WIDTH, np.int64),
        np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.int64), np.zeros(WIDTH), np.zeros(WIDTH),
        np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH),
        np.zeros(WIDTH, np.int64), np.zeros(WIDTH), np.full(WIDTH, UNKNOWN),
        np.zeros(WIDTH, np.bool_), np.zeros((WIDTH, 4)),
    )  # fmt: skip


def setting_of(conditions, numbers):
    """What the zones of all lanes have during a step."""
    factors = conditions.factors[0]
    if SWEPT:
        factors = numbers.factors
    return activities.Setting(
        factors, numbers.given[0], numbers.sunlight[0] if SUNLIT else 1.0, numbers.start[0],
        numbers.energy[0],
        numbers.squeeze[0], numbers.passage[0], numbers.around[0], numbers.renewal[0],
        numbers.inflow, (),
    )  # fmt: skip


def setting_at(setting, numbers, lane):
    """What the zone of one lane has during a step."""
    factors = setting.factors
    if SWEPT:
        factors = lane_of(numbers.factors, lane)
    return activities.Setting(
        factors, lane_of(numbers.given, lane)[0], lane_of(numbers.sunlight, lane)[0],
        lane_of(numbers.start, lane)[0], lane_of(numbers.energy, lane)[0],
        lane_of(numbers.squeeze, lane)[0], lane_of(numbers.passage, lane)[0],
        lane_of(numbers.around, lane)[0], lane_of(numbers.renewal, lane)[0],
        lane_of(numbers.inflow, lane), (),
    )  # fmt: skip


def put_conditions(chemistry, zone, numbers, lane, conditions, below, last, since):
    """Put what changes in time for the zone of a lane (see `setting_over_time`)."""
    times = conditions.times
    put(numbers.given, lane, history_at(times, conditions.density, below, last, since))
    light = 1.0
    if SUNLIT:
        light = history_at(times, conditions.sunlight, below, last, since)
        put(numbers.sunlight, lane, light)
    if COMPRESSED:
        put(numbers.squeeze, lane, history_at(times, conditions.compression, below, last, since))
    if TIMED and not SELF_HEATING:
        put(numbers.start, lane, history_at(times, conditions.temperature, below, last, since))
    if FORMULAS:
        memory = lane_of(zone.memory, lane)
        put_inputs(chemistry.laws.rates, conditions, light, below, last, since, memory, ONE)


def temperature_at_start(zone, temperature, out):
    """The temperature with which a zone begins; `out` [time, variable] has its start."""
    species = zone.matter.shape[1]
    return out[0, species] if out.shape[1] > species else temperature


def warmth(zone, conditions, amounts, index):
    """Temperature of a zone; 0 if it has none."""
    own = history_of(conditions, index)
    hot = temperature_at_start(zone, own.temperature[0], amounts[index])
    return hot if hot > 0.0 else 0.0


@noinline_cpu
def next_zone(zone, conditions, amounts, start, stop, before):
    """The zone after `before` (a negative number at first) from hot to cold.

    Similar zones need factors and iterations at similar times, and those that burn long are first.
    """
    found, best, last = start, -1.0, math.inf
    if before >= 0:
        last = warmth(zone, conditions, amounts, before)
    for index in range(start, stop):
        hot = warmth(zone, conditions, amounts, index)
        if hot > best and (hot < last or (hot == last and index > before)):
            found, best = index, hot
    return found


@noinline_cpu
def place_zone(
    chemistry, zone, vectors, numbers, course, iteration, lane, index, conditions, whole, out,
):  # fmt: skip
    """Begin with a zone in a lane; `out` [time, variable] has its start."""
    own, matter = vectors_at(vectors, lane), zone_at(zone, lane)
    y, history = own.y, own.history
    for i in range(y.size):
        y[i] = out[0, i]
    for j in range(history.shape[0]):
        for i in range(history.shape[1]):
            history[j, i] = 0.0
    for i in range(y.size):
        history[0, i] = out[0, i]
    for j in range(own.past.size):
        own.past[j] = 0.0
    conserved(chemistry.invariants, y, own.gram, ONE)
    hot = temperature_at_start(zone, conditions.temperature[0], out)
    matter.between[0], matter.between[1] = math.inf, -math.inf
    coefficients.forget_heat(matter)
    put(numbers.given, lane, conditions.density[0])
    put(numbers.start, lane, hot)
    if TIMED or SUNLIT or FORMULAS:
        put_conditions(chemistry, zone, numbers, lane, conditions, 0, 0, 0.0)
    if WALLED:
        put(numbers.passage, lane, conditions.wall[0])
        put(numbers.around, lane, conditions.wall[1])
    if SWEPT:
        factors = lane_of(numbers.factors, lane)
        for i in range(factors.size):
            factors[i] = conditions.factors[i]
    if FLOW != CLOSED:
        into = lane_of(numbers.inflow, lane)
        for i in range(into.size):
            into[i] = conditions.inflow[i]
        put(numbers.renewal, lane, into[chemistry.invariants.shape[1] + 1])
    put(numbers.h, lane, whole)
    put(numbers.ends, lane, 1.0)
    if SELF_HEATING:
        coefficients.put_matter(chemistry, matter, hot, hot)
        energy, _ = activities.energy_of_zone(matter, y)
        put(numbers.energy, lane, energy)
        if EXCHANGES:
            history[0, y.size] = energy
    if FLOW != CLOSED:
        put_first(own, chemistry.invariants.shape[0])
    begin_iterations(numbers, iteration, lane)
    course.zone[lane], course.active[lane], course.restarts[lane] = index, True, True
    course.predicted[lane], course.waited[lane] = False, 0
    course.place[lane], course.taken[lane], course.repeated[lane] = 1, 0, 0
    course.now[lane], course.most[lane], course.ratio[lane] = 0.0, nordsieck.FIRST_GROWTH, 0.0
    course.defect[lane], course.steepest[lane], course.peak[lane] = 0.0, 0.0, math.nan
    course.below[lane], course.since[lane], course.last[lane] = 0, 0.0, UNKNOWN


@noinline_cpu
def begin_some(chemistry, zone, vectors, numbers, course, setting):
    """Begin with order 1 in the lanes that begin anew."""
    for i in range(vectors.y.size):
        vectors.y[i] = vectors.history[0, i]
    outside = corrector.put_all_rates(chemistry, zone, vectors, setting)
    if EXCHANGES:
        numbers.constant[0] = outside
    numbers.size[0] = corrector.norm(vectors.change, vectors.weight, vectors.group)
    for lane in range(WIDTH):
        if course.restarts[lane]:
            own, h = vectors_at(vectors, lane), lane_of(numbers.h, lane)
            speed = lane_of(numbers.size, lane)[0]
            if speed > 0.0:
                h[0] = min(h[0], 0.05 / speed)
            for i in range(own.y.size):
                own.history[1, i] = h[0] * own.change[i]
            for j in range(2, own.history.shape[0]):
                for i in range(own.history.shape[1]):
                    own.history[j, i] = 0.0
            if EXCHANGES:
                own.history[1, own.y.size] = h[0] * lane_of(numbers.constant, lane)[0]
            if FLOW != CLOSED:
                begin_kept(chemistry, own, setting_at(setting, numbers, lane), 1.0, h[0])
            course.restarts[lane], course.order[lane] = False, 1
            course.waiting[lane], course.failures[lane] = 2, 0


@noinline_cpu
def put_weights_of_some(absolute, rtol, history, ends, weight):
    """Put one over the allowed errors of a step, where one has ended."""
    for i in range(weight.size):
        weight[i] = where(ends, 1.0 / (absolute[i] + rtol * abs(history[0, i])), weight[i])


@noinline_cpu
def prepare(
    chemistry, zone, vectors, numbers, course, iteration, conditions, grid, rtol, max_steps,
    outcome,
):  # fmt: skip
    """Put the coefficients of the steps of all lanes; zones that are done or fail end.

    Returns whether a zone has ended.
    """
    has_ended = False
    for lane in range(WIDTH):
        if course.active[lane]:
            h, now, status = lane_of(numbers.h, lane)[0], course.now[lane], GOES_ON
            if course.place[lane] >= grid.size:
                status = endings.DONE
            elif course.taken[lane] + course.repeated[lane] >= max_steps:
                status = endings.TOO_MANY_STEPS
            elif not (h > max(formulas.SHORTEST * now, formulas.VANISHED)) or not h < math.inf:
                broken = iteration.state[lane] == corrector.BROKEN or not h < math.inf
                status = endings.NOT_FINITE if broken else endings.STEP_TOO_SMALL
            own = vectors_at(vectors, lane)
            if status != GOES_ON:
                write_zone(course, lane, status, outcome)
                for j in range(1, own.history.shape[0]):
                    for i in range(own.history.shape[1]):
                        own.history[j, i] = 0.0
                has_ended = True
            else:
                if TIMED and course.last[lane] == UNKNOWN:
                    history = history_of(conditions, course.zone[lane])
                    below, since = course.below[lane], course.since[lane]
                    shorter, last, ends = horizon(history, below, since, h, CHANGE, SMOOTH * rtol)
                    if shorter != h:
                        nordsieck.rescale(own.history, course.order[lane], shorter / h, own.group)
                        h = shorter
                        put(numbers.h, lane, h)
                    course.last[lane], course.ends[lane] = last, ends
                    put_conditions(chemistry, zone, numbers, lane, history, below, last, since + h)
                found = nordsieck.put_coefficients(own.gain, own.past, course.order[lane], h)
                constants = course.constants[lane]
                constants[0], constants[1] = found.own, found.lower
                constants[2], constants[3] = found.higher, found.ratio
                put(numbers.constant, lane, found.own)
                iteration.allowed[lane] = corrector.SHARE / found.own
    return has_ended


def write_zone(course, lane, status, outcome):
    """Write the outcome of the zone of a lane, which then has none."""
    index = course.zone[lane]
    found = (
        status,
        course.taken[lane],
        course.repeated[lane],
        course.defect[lane],
        course.peak[lane],
    )
    endings.write(outcome, index, found)
    course.zone[lane], course.active[lane] = EMPTY, False


@noinline_cpu
def choose_lanes(numbers, course, iteration):
    """Choose which lanes take a step now; returns the highest order."""
    nearly, top = False, 1
    for lane in range(WIDTH):
        age = iteration.slopes_age[lane]
        near = age < corrector.AGE and age >= corrector.AGE - PATIENCE and not iteration.anew[lane]
        nearly = nearly or (course.active[lane] and near)
    for lane in range(WIDTH):
        goes_on = course.active[lane]
        if goes_on:
            top = max(top, course.order[lane])
            asks = iteration.slopes_age[lane] >= corrector.AGE and not iteration.anew[lane]
            if nearly and asks and course.waited[lane] < PATIENCE:
                course.waited[lane] += 1
                goes_on = False
            else:
                course.waited[lane] = 0
        let_go_on(iteration, lane, goes_on)
        put(numbers.moves, lane, 1.0 if goes_on and not course.predicted[lane] else 0.0)
        course.predicted[lane] = course.predicted[lane] or goes_on
    return top


@noinline_cpu
def find_errors(chemistry, zone, vectors, numbers, course, iteration, setting, going, errors):
    """Put the errors of steps; corrections become zero where no step ends."""
    for lane in range(WIDTH):
        error = 2.0
        if going[lane] and iteration.state[lane] == corrector.CONVERGED:
            error = lane_of(numbers.size, lane)[0]
            if SELF_HEATING and error <= 1.0:
                error += formulas.jump_error(
                    chemistry, zone_at(zone, lane), vectors_at(vectors, lane),
                    setting_at(setting, numbers, lane), course.order[lane],
                )  # fmt: skip
                if EXCHANGES:
                    error += formulas.exchange_error(
                        zone_at(zone, lane), vectors_at(vectors, lane), course.constants[lane][0]
                    )
        errors[lane] = error
        ends = going[lane] and error <= 1.0
        put(numbers.ends, lane, 1.0 if ends else 0.0)
        if not ends:
            gain, correction = lane_of(vectors.gain, lane), lane_of(vectors.correction, lane)
            for j in range(gain.size):
                gain[j] = 0.0
            for i in range(correction.size):
                correction[i] = 0.0


@noinline_cpu
def reject(chemistry, zone, vectors, numbers, course, iteration, conditions, lane, error):
    """Undo the prediction of a step and choose a shorter one, or a new Jacobian."""
    converged = iteration.state[lane] == corrector.CONVERGED
    if not converged and not iteration.fresh[lane]:
        iteration.anew[lane] = True
        return
    own, order = vectors_at(vectors, lane), course.order[lane]
    history, h = own.history, lane_of(numbers.h, lane)
    nordsieck.retract(history, order, own.group)
    course.predicted[lane], course.last[lane] = False, UNKNOWN
    course.repeated[lane] += 1
    course.most[lane] = 1.0
    iteration.anew[lane] = not converged
    if not converged:
        factor = 0.25
    else:
        course.failures[lane] += 1
        factor = nordsieck.shorter(error, order, course.failures[lane])
    if course.failures[lane] > nordsieck.MOST_FAILURES:
        # The past says nothing of the future: begin again, without amounts below zero.
        for i in range(own.y.size):
            history[0, i] = max(history[0, i], 0.0)
        h[0] *= 0.1
        if TIMED:
            below, since = course.below[lane], course.since[lane]
            put_conditions(chemistry, zone, numbers, lane, conditions, below, below, since)
        course.restarts[lane], iteration.anew[lane] = True, True
        return
    h[0] *= factor
    nordsieck.rescale(history, order, factor, own.group)


@noinline_cpu
def accept(
    chemistry, zone, vectors, numbers, course, iteration, setting, conditions, lane, error, grid,
    out,
):  # fmt: skip
    """Go on to the next step, after the history has been corrected."""
    own, matter, mine = (
        vectors_at(vectors, lane), zone_at(zone, lane), setting_at(setting, numbers, lane)
    )  # fmt: skip
    history, order, species = own.history, course.order[lane], zone.matter.shape[1]
    h = lane_of(numbers.h, lane)[0]
    course.predicted[lane], iteration.anew[lane] = False, False
    course.taken[lane] += 1
    course.failures[lane] = 0
    nordsieck.keep_length(own.past, order, h, course.taken[lane])
    course.now[lane] += h
    if TIMED:
        course.below[lane], course.since[lane] = time_after(
            conditions, course.below[lane], course.since[lane], course.last[lane], h,
            course.ends[lane],
        )  # fmt: skip
        course.now[lane] = (conditions.times[course.below[lane]] - grid[0]) + course.since[lane]
        course.last[lane] = UNKNOWN
    now = course.now[lane]
    if SELF_HEATING:
        capacity = activities.energy_of_zone(matter, own.y)[1] if COMPRESSED else 1.0
        course.steepest[lane], course.peak[lane] = formulas.fastest_heating(
            history, order, species, own.y.size, h, grid[0] + now, capacity, course.steepest[lane],
            course.peak[lane],
        )  # fmt: skip
    if grid[course.place[lane]] - grid[0] <= now:
        course.place[lane], course.defect[lane] = formulas.fill_output(
            chemistry, matter, own, mine, order, h, now, grid, course.place[lane],
            course.defect[lane], out,
        )  # fmt: skip
    if SELF_HEATING:
        hot = history[0, species]
        if not (hot > matter.between[0] and hot <= matter.between[1]):
            coefficients.put_matter(chemistry, matter, mine.start, hot)
        if not (mine.start > matter.between[0] and mine.start <= matter.between[1]):
            matter.between[0], matter.between[1] = math.inf, -math.inf
            coefficients.put_matter(chemistry, matter, hot, hot)
            energy, _ = activities.energy_of_zone(matter, own.y)
            put(numbers.energy, lane, energy)
            if EXCHANGES:
                history[0, own.y.size] = energy
        put(numbers.start, lane, hot)
    iteration.slopes_age[lane] += 1
    iteration.factors_age[lane] += 1
    if TIMED and course.ends[lane] and course.place[lane] < grid.size:
        course.below[lane] = after_jump(conditions.times, course.below[lane])
        below, sums = course.below[lane], chemistry.invariants.shape[0]
        following = setting_over_time(conditions, matter, sums, mine, below, below, 0.0)
        if begins_anew(chemistry, matter, mine, following, history, own.y, h, own.weight):
            put_conditions(chemistry, zone, numbers, lane, conditions, below, below, 0.0)
            course.restarts[lane], course.most[lane] = True, nordsieck.FIRST_GROWTH
            return
    found = course.constants[lane]
    constants = nordsieck.Constants(found[0], found[1], found[2], found[3])
    order, waiting, ratio, factor = formulas.change_order(
        own, constants, error, order, course.waiting[lane], course.ratio[lane], course.most[lane], h
    )
    course.order[lane], course.waiting[lane], course.ratio[lane] = order, waiting, ratio
    course.most[lane] = nordsieck.GROWTH
    put(numbers.h, lane, h * factor)


@no_refcount
def integrate_zones(
    chemistry, zone, vectors, numbers, course, iteration, going, errors, conditions, grid, rtol,
    max_steps, start, stop, outcome,
):  # fmt: skip
    """Integrate the zones from `start` to `stop`; a lane whose zone has ended takes the next."""
    history, y, correction, gain = vectors.history, vectors.y, vectors.correction, vectors.gain
    species, left, index = zone.matter.shape[1], stop - start, -1
    while True:
        some, placed, restarts = False, False, False
        for lane in range(WIDTH):
            if not course.active[lane] and (left > 0 or course.zone[lane] == UNUSED):
                # A lane that is not needed has some numbers, for they are computed with.
                if left > 0:
                    index = next_zone(zone, conditions, outcome.amounts, start, stop, index)
                own = history_of(conditions, index)
                place_zone(
                    chemistry, zone, vectors, numbers, course, iteration, lane, index, own,
                    grid[grid.size - 1] - grid[0], outcome.amounts[index],
                )  # fmt: skip
                if left <= 0:
                    course.zone[lane], course.active[lane] = EMPTY, False
                left -= 1
                placed = True
            some = some or course.active[lane]
            restarts = restarts or course.restarts[lane]
        if not some:
            break
        setting = setting_of(conditions, numbers)
        if (placed or (TIMED and restarts)) and not SELF_HEATING:
            coefficients.put_heat(chemistry, zone, setting, setting.start)
        put_weights_of_some(chemistry.absolute, rtol, history, numbers.ends[0], vectors.weight)
        numbers.ends[0] = 0.0
        if restarts:
            begin_some(chemistry, zone, vectors, numbers, course, setting)
        if prepare(
            chemistry, zone, vectors, numbers, course, iteration, conditions, grid, rtol,
            max_steps, outcome,
        ):  # fmt: skip
            continue
        if TIMED:
            setting = setting_of(conditions, numbers)
            if not SELF_HEATING:
                coefficients.put_heat(chemistry, zone, setting, setting.start)
        top = choose_lanes(numbers, course, iteration)
        predict_some(history, top, numbers.moves[0])
        for lane in range(WIDTH):
            going[lane] = iteration.goes_on[lane]
        correct_some(chemistry, zone, vectors, numbers, iteration, setting)
        numbers.size[0] = formulas.error_of(vectors, numbers.constant[0], species)
        if SELF_HEATING:
            formulas.put_temperature(chemistry, zone, setting.start, numbers.energy[0], y, species)
            correction[species] = y[species] - history[0, species]
        find_errors(
            chemistry, zone, vectors, numbers, course, iteration, setting, going, errors
        )  # fmt: skip
        for j in range(top + 1):
            for i in range(history.shape[1]):
                history[j, i] += gain[j] * correction[i]
        for lane in range(WIDTH):
            if going[lane]:
                if errors[lane] <= 1.0:
                    accept(
                        chemistry, zone, vectors, numbers, course, iteration, setting,
                        history_of(conditions, course.zone[lane]), lane, errors[lane], grid,
                        outcome.amounts[course.zone[lane]],
                    )  # fmt: skip
                else:
                    reject(
                        chemistry, zone, vectors, numbers, course, iteration,
                        history_of(conditions, course.zone[lane]), lane, errors[lane],
                    )  # fmt: skip


# --- CPU ------------------------------------------------------------------------------------------


def integrate_lanes_cpu(start, stop, chemistry, conditions, grid, rtol, max_steps, outcome):
    """Zones `start` to `stop`, eight at a time."""
    zone, vectors, numbers = (
        activities.zone_of(chemistry),
        corrector.vectors_of(chemistry),
        numbers_of(
            conditions.inflow.shape[1] if FLOW != CLOSED else 0,
            conditions.factors.shape[1] if SWEPT else 0,
        ),
    )
    course, iteration = course_of(), iteration_of()
    integrate_zones(
        by_reference(chemistry), by_reference(zone), by_reference(vectors), by_reference(numbers),
        by_reference(course), by_reference(iteration), np.zeros(WIDTH, np.bool_), np.zeros(WIDTH),
        by_reference(conditions), grid, rtol, max_steps, start, stop, by_reference(outcome),
    )  # fmt: skip
    hold(zone)
    hold(vectors)
    hold(numbers)
    hold(course)
    hold(iteration)
