"""Newton's method for a step: the correction of a prediction.

A step solves y = y_p + e with h f(y) = h y_p' + l_1 e. With gamma = h / l_1 an iteration solves

    (I / gamma - J) d = f(y) - y_p' - e / gamma.

Jacobian and factors are kept over many steps. The factors are renewed when gamma has changed by
more than 15 %, or after 20 steps, and the Jacobian after 20 steps, or if the iteration fails.
Otherwise d is multiplied by 2 / (1 + gamma / gamma_0), where gamma_0 is that of the factors.

A zone that heats itself has one more unknown, its temperature, and one more equation: the energy of
the zone is that at its start, for no reaction changes it. The rates of a temperature that is a
variable would make it drift.

A. C. Hindmarsh et al.: ACM Trans. Math. Softw. 31, 363 (2005), section 2.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import lane_of, noinline_cpu, where
from ergode.kinetics.implicit.elimination import factorize_shifted, solve
from ergode.kinetics.kernel_options import SELF_HEATING
from ergode.kinetics.multistep.activities import (
    change_of,
    energy_of_zone,
    put_jacobian,
    put_temperature_slopes,
)
from ergode.kinetics.multistep.lanes import WIDTH, row_of, rows_of
from ergode.kinetics.multistep.nordsieck import MOST

# --- device functions -----------------------------------------------------------------------------

CHANGED = 0.15
ITERATIONS, SHARE = 3, 0.03
"""Most iterations; error of the iteration over the allowed error of a step."""
CONVERGED, DIVERGED, BROKEN = 0, 1, 2
"""How an iteration ended; at last, with numbers that are not finite."""


class Vectors(NamedTuple):
    """Vectors of a zone."""

    history: np.ndarray  # [MOST + 1, variable_count]: see `nordsieck`
    y: np.ndarray  # [variable_count]
    change: np.ndarray  # [variable_count]: dy/dt
    correction: np.ndarray  # [variable_count]
    before: np.ndarray  # [variable_count]: correction of the step before
    trial: np.ndarray  # [variable_count]: right-hand side and solution
    weight: np.ndarray  # [variable_count]: one over the allowed error
    slopes: np.ndarray  # [entry_count]: Jacobian
    row: np.ndarray  # [species_count]: row and column of the temperature
    column: np.ndarray
    matrix: np.ndarray  # factors
    scratch: np.ndarray  # [variable_count]
    gain: np.ndarray  # [MOST + 2]: coefficients of a step
    past: np.ndarray  # [MOST + 2]: lengths of past steps
    # [1] each: length of the step; gamma; that of the factors; factor of corrections; heat capacity
    # at the Jacobian; whether it is renewed; a norm; its factor; density or pressure; temperature
    # and energy of `Setting`.
    h: np.ndarray
    gamma: np.ndarray
    factored: np.ndarray
    share: np.ndarray
    capacity: np.ndarray
    renews: np.ndarray
    size: np.ndarray
    constant: np.ndarray
    given: np.ndarray
    start: np.ndarray
    energy: np.ndarray
    gram: np.ndarray  # [WIDTH, ...]: workspace of the projection


class Iteration(NamedTuple):
    """Newton's method of each lane, [WIDTH] each."""

    state: np.ndarray  # how it ended
    goes_on: np.ndarray
    anew: np.ndarray  # whether it needs a new Jacobian
    allowed: np.ndarray  # error at which it ends
    rate: np.ndarray  # estimate of the rate of convergence
    last: np.ndarray  # size of the last correction


def vectors_of(chemistry):
    """Workspace for these tables."""
    count, sums = chemistry.absolute.size, chemistry.invariants.shape[0]
    return Vectors(
        rows_of(MOST + 1, count), row_of(count), row_of(count), row_of(count),
        row_of(count), row_of(count), row_of(count),
        row_of(chemistry.slopes.entry.shape[1]), row_of(count), row_of(count),
        row_of(chemistry.plan.column.size), row_of(count), row_of(MOST + 2),
        row_of(MOST + 2), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1),
        row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), np.empty((WIDTH, (sums + 3) * sums)),
    )  # fmt: skip


def iteration_of():
    """Workspace of Newton's method."""
    return Iteration(
        np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.bool_), np.zeros(WIDTH, np.bool_),
        np.zeros(WIDTH), np.ones(WIDTH), np.zeros(WIDTH),
    )  # fmt: skip


def norm(vector, weight):
    """Root mean square of the errors over the allowed errors."""
    total = 0.0
    for i in range(vector.size):
        one = vector[i] * weight[i]
        total += one * one
    return math.sqrt(total / vector.size)


def put_rates(chemistry, zone, vectors, setting):
    """Compute dy/dt at `vectors.y`."""
    y, species = vectors.y, zone.matter.shape[1]
    hot = y[species] if SELF_HEATING else setting.start
    rise = change_of(chemistry, zone, setting, hot, y, vectors.change)
    if SELF_HEATING:
        vectors.change[species] = rise


@noinline_cpu
def renew_slopes(chemistry, zone, vectors, setting):
    """Compute the Jacobian at `vectors.y`, where the rates are known, of the lanes that need it."""
    renews, species = vectors.renews[0], zone.matter.shape[1]
    put_jacobian(chemistry, zone, renews, vectors.slopes)
    if SELF_HEATING:
        vectors.capacity[0] = put_temperature_slopes(
            chemistry, zone, setting, vectors.y[species], renews, vectors.y, vectors.change,
            vectors.row, vectors.column, vectors.scratch, vectors.capacity[0],
        )  # fmt: skip


@noinline_cpu
def renew_factors(chemistry, vectors, gamma):
    """Factorise the matrix; returns 0 if all pivots are sound, else NaN."""
    slopes, matrix, per = chemistry.slopes, vectors.matrix, 1.0 / gamma
    for entry in range(matrix.size):
        matrix[entry] = 0.0
    for entry in range(vectors.slopes.size):
        matrix[slopes.entry[1, entry]] = -vectors.slopes[entry]
    if SELF_HEATING:
        for i in range(slopes.heat.shape[1]):
            matrix[slopes.heat[0, i]] = per * vectors.row[i]
            matrix[slopes.heat[1, i]] = -vectors.column[i]
    return factorize_shifted(chemistry.plan, matrix, per, vectors.scratch)


def correct(chemistry, zone, vectors, iteration, setting, active):
    """Solve for a step of `active` lanes, whose predictions are in the history."""
    y, history, correction, b = vectors.y, vectors.history, vectors.correction, vectors.trial
    species, gamma, factored = zone.matter.shape[1], vectors.gamma, vectors.factored
    gamma[0] = vectors.h[0] / vectors.gain[1]
    for i in range(y.size):
        y[i] = history[0, i]
        correction[i] = 0.0
    for lane in range(WIDTH):
        iteration.goes_on[lane] = active[lane]
        iteration.state[lane] = DIVERGED if active[lane] else CONVERGED
    energy = vectors.energy[0]
    for turn in range(ITERATIONS):
        put_rates(chemistry, zone, vectors, setting)
        if SELF_HEATING:
            energy, _ = energy_of_zone(zone, y)
        if turn == 0:
            if asks_for_slopes(vectors, iteration):
                renew_slopes(chemistry, zone, vectors, setting)
            if asks_for_factors(vectors, iteration):
                # Lanes that did not ask get the factors that they have.
                vectors.size[0] = renew_factors(chemistry, vectors, factored[0])
                for lane in range(WIDTH):
                    if lane_of(vectors.size, lane)[0] != 0.0:
                        iteration.goes_on[lane] = False
        vectors.share[0] = 2.0 / (1.0 + gamma[0] / factored[0])
        for lane in range(WIDTH):
            if not iteration.goes_on[lane]:
                share = lane_of(vectors.share, lane)
                share[0] = 0.0
        per, inverse, share = 1.0 / factored[0], 1.0 / vectors.gain[1], vectors.share[0]
        for i in range(species):
            b[i] = gamma[0] * vectors.change[i] - history[1, i] * inverse - correction[i]
            b[i] *= per
        if SELF_HEATING:
            b[species] = (setting.energy - energy) / (vectors.capacity[0] * factored[0])
        solve(chemistry.plan, vectors.matrix, b, vectors.scratch)
        for i in range(y.size):
            b[i] = where(share, b[i] * share, share)
            correction[i] += b[i]
            y[i] = history[0, i] + correction[i]
        vectors.size[0] = norm(b, vectors.weight)
        if not judge(vectors, iteration, turn, species):
            break


def asks_for_slopes(vectors, iteration):
    """Put which lanes need a new Jacobian; whether some do."""
    some = False
    for lane in range(WIDTH):
        renews = lane_of(vectors.renews, lane)
        renews[0] = 1.0 if iteration.anew[lane] else 0.0
        some = some or (iteration.anew[lane] and iteration.goes_on[lane])
    return some


def asks_for_factors(vectors, iteration):
    """Put the gamma of the factors of each lane; whether some are new."""
    some = False
    for lane in range(WIDTH):
        gamma, factored = lane_of(vectors.gamma, lane), lane_of(vectors.factored, lane)
        far = iteration.goes_on[lane] and not abs(gamma[0] / factored[0] - 1.0) <= CHANGED
        if far or iteration.anew[lane]:
            factored[0] = gamma[0]
            iteration.rate[lane] = 1.0
            some = some or iteration.goes_on[lane]
    return some


@noinline_cpu
def judge(vectors, iteration, turn, species):
    """Decide for each lane whether its iteration has ended; whether some lane goes on."""
    some = False
    for lane in range(WIDTH):
        if iteration.goes_on[lane]:
            size, last = lane_of(vectors.size, lane)[0], iteration.last[lane]
            if turn > 0:
                iteration.rate[lane] = max(0.3 * iteration.rate[lane], size / last)
            iteration.last[lane] = size
            if size * min(iteration.rate[lane], 1.0) <= iteration.allowed[lane]:
                iteration.state[lane] = CONVERGED
                iteration.goes_on[lane] = False
            elif not size < math.inf:
                iteration.state[lane] = BROKEN
                iteration.goes_on[lane] = False
            elif (SELF_HEATING and not lane_of(vectors.y, lane)[species] > 0.0) or (
                turn > 0 and size > 2.0 * last
            ):
                iteration.goes_on[lane] = False
            some = some or iteration.goes_on[lane]
    return some
