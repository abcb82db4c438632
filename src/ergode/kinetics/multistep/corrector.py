"""Newton's method for a step: the correction of a prediction.

A step solves y = y_p + e with h f(y) = h y_p' + l_1 e. With gamma = h / l_1 an iteration solves

    (I / gamma - J) d = f(y) - y_p' - e / gamma.

Jacobian and factors are kept over many steps. The factors are renewed when gamma has changed by
more than 15 %, or after 20 steps, and the Jacobian after 20 steps, or if the iteration fails.
Otherwise d is multiplied by 2 / (1 + gamma / gamma_0), where gamma_0 is that of the factors.

A zone that heats itself has one more unknown, its temperature, and one more equation: the energy of
the zone is that at its start, for no reaction changes it. The rates of a temperature that is a
variable would make it drift. Where work or heat from outside changes the energy at a rate G, the
energy has a history too, and is corrected by e = gamma (G - E_p' / h), with the G of the iteration.

A. C. Hindmarsh et al.: ACM Trans. Math. Softw. 31, 363 (2005), section 2.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import no_unroll
from ergode.core.group import ONE, Group, barrier, share, total_of
from ergode.core.math.nordsieck import MOST
from ergode.kinetics.kernel_options import EXCHANGES, FLOW, MOVING, SELF_HEATING, WALLED
from ergode.kinetics.multistep import activities, coefficients
from ergode.kinetics.multistep.factors import renew_factors, solve_trial
from ergode.kinetics.multistep.lanes import row_of, rows_of
from ergode.kinetics.multistep.outside import (
    NUMBERS,
    correct_kept,
    kept_count,
    pace_of,
    put_motion_slopes,
    widening,
)
from ergode.kinetics.tables import CLOSED, PLUG, STIRRED

# --- device functions -----------------------------------------------------------------------------

AGE, CHANGED = 20, 0.15
ITERATIONS, SHARE = 3, 0.03
"""Most iterations; error of the iteration over the allowed error of a step."""
CONVERGED, DIVERGED, BROKEN = 0, 1, 2
"""How an iteration ended; at last, with numbers that are not finite."""


class Vectors(NamedTuple):
    """Vectors of a zone."""

    # [MOST + 1, variable_count]: see `nordsieck`. What comes from outside adds columns: the energy,
    # and those of `outside`.
    history: np.ndarray
    y: np.ndarray  # [variable_count]
    change: np.ndarray  # [variable_count]: dy/dt
    correction: np.ndarray  # as a row of the history
    before: np.ndarray  # [variable_count]: correction of the step before
    trial: np.ndarray  # [variable_count]: right-hand side and solution
    weight: np.ndarray  # [variable_count]: one over the allowed error
    slopes: np.ndarray  # [entry_count]: Jacobian
    row: np.ndarray  # [variable_count]: row and column of the temperature
    column: np.ndarray
    # [variable_count + NUMBERS] where a piston moves: column of the volume, and numbers (see
    # `outside`).
    border: np.ndarray
    matrix: np.ndarray  # factors
    inverse: np.ndarray  # of pivots, for a warp
    scratch: np.ndarray  # [variable_count], for a warp one more
    gain: np.ndarray  # [MOST + 2]: coefficients of a step
    past: np.ndarray  # [MOST + 2]: lengths of past steps
    gram: np.ndarray  # workspace of the projection
    group: Group  # the threads that share the zone


class Kept(NamedTuple):
    """Of the Jacobian and the factors that are kept."""

    slopes_age: int  # steps since the Jacobian was computed; very large before the first
    factors_age: int
    gamma: float  # of the factors
    rate: float  # estimate of the rate of convergence
    capacity: float  # heat capacity at the Jacobian


NOTHING_KEPT = 1_000_000
WIDER = 1e-7
"""Relative increment of the volume in finite differences."""


def vectors_of(chemistry):
    """Workspace for these tables."""
    count, sums = chemistry.absolute.size, chemistry.invariants.shape[0]
    width = count + kept_count(sums)
    return Vectors(
        rows_of(MOST + 1, width), row_of(count), row_of(count), row_of(width), row_of(count),
        row_of(count), row_of(count), row_of(chemistry.slopes.entry.shape[1]), row_of(count),
        row_of(count), row_of(count + NUMBERS if MOVING else 0),
        row_of(chemistry.plan.column.size), row_of(0), row_of(count),
        row_of(MOST + 2), row_of(MOST + 2), row_of((sums + 3) * sums), ONE,
    )  # fmt: skip


def norm(vector, weight, group):
    """Root mean square of the errors over the allowed errors."""
    total = 0.0
    for i in no_unroll(share(group, 0, weight.size)):
        one = vector[i] * weight[i]
        total += one * one
    return math.sqrt(total_of(group, total, 0) / weight.size)


def put_rates(chemistry, zone, vectors, setting):
    """Compute dy/dt at `vectors.y`."""
    y, species = vectors.y, zone.matter.shape[1]
    hot = y[species] if SELF_HEATING else setting.start
    rise = activities.change_of(chemistry, zone, setting, hot, y, vectors.change)
    if SELF_HEATING:
        vectors.change[species] = rise
    barrier(zone.group)


def put_all_rates(chemistry, zone, vectors, setting):
    """Compute dy/dt at `vectors.y`, with what comes from outside; returns the latter.

    It is the rate of the energy, and 0 where the energy is kept.
    """
    put_rates(chemistry, zone, vectors, setting)
    rate = 0.0
    if EXCHANGES:
        species = zone.matter.shape[1]
        rate, _ = activities.outside_rate(zone, setting, vectors.y[species], vectors.y)
        _, capacity = activities.energy_of_zone(zone, vectors.y)
        if zone.group.rank == 0:
            vectors.change[species] += rate / capacity
        barrier(zone.group)
    return rate


def density_now(zone, vectors, setting):
    """The density along a tube at `vectors.y`; 1 in others."""
    if FLOW != PLUG:
        return 1.0
    hot = vectors.y[zone.matter.shape[1]] if SELF_HEATING else setting.start
    return activities.density_at(zone, setting.given, hot, vectors.y)


def gain_of_energy(zone, vectors, setting, gamma):
    """Correction of the energy for the amounts and the temperature in `vectors.y`."""
    species = zone.matter.shape[1]
    rate, _ = activities.outside_rate(zone, setting, vectors.y[species], vectors.y)
    return gamma * rate - vectors.history[1, vectors.y.size] / vectors.gain[1]


def settled_gain(chemistry, zone, vectors, setting, gamma):
    """`gain_of_energy` at the end of an iteration, without what its error would add.

    Fast exchange multiplies an error of `vectors.y` by gamma times its rate. The gain is therefore
    that of the energy of `vectors.y`, and one step of Newton's method for the energy alone; and the
    work of a piston follows from the correction of the volume.
    """
    y, history, species = vectors.y, vectors.history, zone.matter.shape[1]
    hot, steady = y[species], history[1, y.size] / vectors.gain[1]
    if FLOW == STIRRED or WALLED:  # whatever iteration was the last in the workspace
        coefficients.put_matter(chemistry, zone, setting.start, hot)
    rate, slope = activities.outside_rate(zone, setting, hot, y)
    gained = gamma * rate - steady
    if MOVING:
        widens, _, push, _ = widening(zone, setting, hot, y)
        wider = vectors.correction[species + 1] + history[1, species + 1] / vectors.gain[1]
        gained += push * (gamma * widens - wider)
    if FLOW == STIRRED or WALLED:
        energy, capacity = activities.energy_of_zone(zone, y)
        own = energy - history[0, y.size]
        gained = own + (gained - own) / (1.0 + gamma * max(-slope / capacity, 0.0))
    return gained


def renew_slopes(chemistry, zone, vectors, setting, renews, capacity):
    """Compute the Jacobian at `vectors.y`, where the rates are known; returns the heat capacity.

    Where `renews` is 0, the Jacobian stays as it is, and the heat capacity is `capacity`.
    """
    y, species = vectors.y, zone.matter.shape[1]
    pace = pace_of(zone, setting, density_now(zone, vectors, setting))
    activities.put_jacobian(chemistry, zone, pace, renews, vectors.slopes)
    if SELF_HEATING:
        capacity = activities.put_temperature_slopes(
            chemistry, zone, setting, y[species], renews, y, vectors.change, vectors.row,
            vectors.column, vectors.scratch, capacity,
        )  # fmt: skip
    if MOVING:
        put_motion_slopes(zone, setting, y[species], y, capacity, vectors.column, vectors.border)
        put_volume_slopes(chemistry, zone, vectors, setting)
    return capacity


def put_volume_slopes(chemistry, zone, vectors, setting):
    """Compute the derivatives of rates of species with respect to the volume, by a difference."""
    y, species, group = vectors.y, zone.matter.shape[1], vectors.group
    x = y[species + 1]
    barrier(group)
    y[species + 1] = x * (1.0 + WIDER)
    barrier(group)
    activities.change_of(chemistry, zone, setting, y[species], y, vectors.scratch)
    for i in no_unroll(share(group, 0, species)):
        vectors.border[i] = (vectors.scratch[i] - vectors.change[i]) / (WIDER * x)
    barrier(group)
    y[species + 1] = x
    barrier(group)


def correct(chemistry, zone, vectors, setting, h, allowed, kept, anew):
    """Solve for a step of length h, whose prediction is in the history.

    The iteration ends at an error below `allowed`. If `anew`, the Jacobian is computed first.
    Returns how it ended, and what is kept.
    """
    y, history, correction, b = vectors.y, vectors.history, vectors.correction, vectors.trial
    species, group = zone.matter.shape[1], vectors.group
    gamma = h / vectors.gain[1]
    again = anew
    while True:
        for i in no_unroll(share(group, 0, y.size)):
            y[i] = history[0, i]
            correction[i] = 0.0
        barrier(group)
        fresh = again or kept.slopes_age >= AGE
        state, rate, last, part = DIVERGED, kept.rate, 0.0, 1.0
        energy, target = 0.0, setting.energy
        for turn in range(ITERATIONS):
            put_rates(chemistry, zone, vectors, setting)
            if SELF_HEATING:
                energy, _ = activities.energy_of_zone(zone, y)
                target = setting.energy
                if EXCHANGES:
                    target = history[0, y.size]
                    target += gain_of_energy(zone, vectors, setting, gamma)
            if turn == 0:
                if fresh:
                    capacity = renew_slopes(chemistry, zone, vectors, setting, 1.0, 1.0)
                    kept = Kept(0, kept.factors_age, kept.gamma, rate, capacity)
                if fresh or kept.factors_age >= AGE or abs(gamma / kept.gamma - 1.0) > CHANGED:
                    rate = 1.0
                    kept = Kept(kept.slopes_age, 0, gamma, rate, kept.capacity)
                    if renew_factors(chemistry, vectors, gamma, setting.renewal) != 0.0:
                        break
                part = 2.0 / (1.0 + gamma / kept.gamma)
            for i in no_unroll(share(group, 0, y.size)):
                if i != species:
                    one = gamma * vectors.change[i] - history[1, i] / vectors.gain[1]
                    b[i] = (one - correction[i]) / kept.gamma
            if SELF_HEATING:
                b[species] = (target - energy) / (kept.capacity * kept.gamma)
            barrier(group)
            solve_trial(chemistry, vectors)
            for i in no_unroll(share(group, 0, y.size)):
                b[i] *= part
                correction[i] += b[i]
                y[i] = history[0, i] + correction[i]
            barrier(group)
            size = norm(b, vectors.weight, group)
            if turn > 0:
                rate = max(0.3 * rate, size / last)
            if size * min(rate, 1.0) <= allowed:
                state = CONVERGED
                break
            if not size < math.inf:
                state = BROKEN
                break
            if SELF_HEATING and not y[species] > 0.0:
                break
            if turn > 0 and size > 2.0 * last:
                break
            last = size
        kept = Kept(kept.slopes_age, kept.factors_age, kept.gamma, rate, kept.capacity)
        if EXCHANGES:
            correction[y.size] = settled_gain(chemistry, zone, vectors, setting, gamma)
            barrier(group)
        if FLOW != CLOSED:
            correct_kept(chemistry, vectors, setting, density_now(zone, vectors, setting), gamma)
            barrier(group)
        if state == CONVERGED or fresh:
            return state, kept
        again = True
