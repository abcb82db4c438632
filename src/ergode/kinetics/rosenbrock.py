"""Rosenbrock methods: implicit Runge-Kutta with one factorisation a step and no iteration.

With J = df/dy and W = I / (h gamma) - J, the stages U_i solve

    W U_i = f(t + alpha_i h, y + sum a_ij U_j) + sum (c_ij / h) U_j + gamma_i h df/dt,

the step is y + sum m_i U_i, and its error is estimated by sum e_i U_i. Between the ends of a step
the solution is read off

    y(t + theta h) = (1 - theta) y_0 + theta (y_1 + (1 - theta) (p + theta q)),

p and q sums of the U_i.

``rodas4`` is the stiffly accurate pair of order 4(3) of E. Hairer, G. Wanner, "Solving Ordinary
Differential Equations II", 2nd ed. (1996), section IV.7 and VI.4; ``rosenbrock23`` the pair of
order 2(3) of L. F. Shampine, M. W. Reichelt, SIAM J. Sci. Comput. 18, 1 (1997), brought to the
same form by U_1 = h d k_1, U_2 = h d (k_2 - k_1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ergode.core.machine import borrowing, cuda
from ergode.core.status import Status
from ergode.kinetics.elimination import factorize_shifted, solve
from ergode.kinetics.mechanism import NATURAL
from ergode.kinetics.system import (
    FIXED,
    Room,
    System,
    jacobian,
    rate_of_change,
    set_conditions,
)

Row = tuple[float, ...]


@dataclass(frozen=True)
class Tableau:
    """One Rosenbrock method, in the form above."""

    order: int
    gamma: float
    a: tuple[Row, ...]
    c: tuple[Row, ...]
    m: Row
    e: Row
    alpha: Row
    gammas: Row
    p: Row
    q: Row


class Method(NamedTuple):
    """A tableau as arrays, so that all methods are one kernel."""

    a: np.ndarray
    c: np.ndarray
    m: np.ndarray
    e: np.ndarray
    alpha: np.ndarray
    gammas: np.ndarray
    p: np.ndarray
    q: np.ndarray
    gamma: float
    exponent: float


def method_of(tableau: Tableau) -> Method:
    """Arrays of a tableau."""
    stages = len(tableau.m)

    def square(rows: tuple[Row, ...]) -> np.ndarray:
        full = np.zeros((stages, stages))
        for i, row in enumerate(rows):
            full[i, : len(row)] = row
        return full

    rows = (np.array(getattr(tableau, name)) for name in ("m", "e", "alpha", "gammas", "p", "q"))
    m, e, alpha, gammas, p, q = rows
    return Method(
        square(tableau.a), square(tableau.c), m, e, alpha, gammas, p, q,
        tableau.gamma, 1.0 / tableau.order,
    )  # fmt: skip


_A5 = (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950)

RODAS4 = Tableau(
    order=4,
    gamma=0.25,
    a=(
        (),
        (1.544,),
        (0.9466785280815826, 0.2557011698983284),
        (3.314825187068521, 2.896124015972201, 0.9986419139977817),
        _A5,
        (*_A5, 1.0),
    ),
    c=(
        (),
        (-5.6688,),
        (-2.430093356833875, -0.2063599157091915),
        (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
        (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
        (
            8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136,
            -6.058818238834054,
        ),
    ),
    m=(*_A5, 1.0, 1.0),
    e=(0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    alpha=(0.0, 0.386, 0.21, 0.63, 1.0, 1.0),
    gammas=(0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0),
    p=(
        10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823,
        1.025137723295662, 0.0,
    ),
    q=(
        -0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386,
        -6.594389125716872, 0.0,
    ),
)  # fmt: skip

_D = 1.0 / (2.0 + math.sqrt(2.0))
_E = 6.0 + math.sqrt(2.0)

ROSENBROCK23 = Tableau(
    order=2,
    gamma=_D,
    a=((), (0.5 / _D,), (1.0 / _D, 1.0 / _D)),
    c=((), (-1.0 / _D,), (-2.0 / _D, -_E / _D)),
    m=(1.0 / _D, 1.0 / _D, 0.0),
    e=(1.0 / (6.0 * _D), (_E - 2.0) / (6.0 * _D), 1.0 / (6.0 * _D)),
    alpha=(0.0, 0.5, 1.0),
    gammas=(_D, 0.0, -_D),
    p=(0.0, -1.0 / (_D * (1.0 - 2.0 * _D)), 0.0),
    q=(0.0, 0.0, 0.0),
)

TABLEAUS = {"rodas4": RODAS4, "rosenbrock23": ROSENBROCK23}


# --- device functions -----------------------------------------------------------------------------

DYNAMIC = False
HEATING = FIXED
BODIES = False
REVERSIBLE = False
SLOPES_KEPT = True
"""Whether the Jacobian outlives its factors, for a step that is repeated."""
DONE, NOT_FINITE, TOO_MANY_STEPS, INACCURATE = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.TOO_MANY_STEPS), int(Status.INACCURATE)
)  # fmt: skip
NOT_A_NUMBER = math.nan
SAFETY, LEAST, MOST = 0.9, 0.2, 8.0
# Steps shorter than this of the time are lost in rounding.
SHORTEST = 1e-15


class Work(NamedTuple):
    """Vectors of a zone."""

    y: np.ndarray
    new: np.ndarray
    change: np.ndarray
    trial: np.ndarray
    in_time: np.ndarray
    stages: np.ndarray
    slopes: np.ndarray
    matrix: np.ndarray
    row: np.ndarray
    gram: np.ndarray


def weighted_norm(absolute, rtol, error, y, new):
    """Root mean square of errors over what is allowed."""
    total = 0.0
    for i in range(error.size):
        allowed = absolute[i] + rtol * max(abs(y[i]), abs(new[i]))
        ratio = error[i] / allowed
        total += ratio * ratio
    return (total / error.size) ** 0.5


def first_step(absolute, rtol, y, change, span):
    """A step in which little happens."""
    size, speed = 0.0, 0.0
    for i in range(y.size - 1):
        allowed = absolute[i] + rtol * abs(y[i])
        size += (y[i] / allowed) ** 2
        speed += (change[i] / allowed) ** 2
    if speed == 0.0:
        return span
    return min(span, 0.01 * max((size / speed) ** 0.5, 1e-3 / speed**0.5))


def project(invariants, species_count, totals, y, gram):
    """Clip negative amounts and restore sums that are conserved; returns the largest defect.

    Each amount is multiplied by one plus a combination of the invariants' weights: what is zero
    stays zero.
    """
    for i in range(species_count):
        y[i] = max(y[i], 0.0)
    count = invariants.shape[0]
    width = count + 1
    worst = 0.0
    for k in range(count):
        for other in range(count):
            total = 0.0
            for i in range(species_count):
                total += invariants[k, i] * y[i] * invariants[other, i]
            gram[k * width + other] = total
        total, scale = 0.0, 0.0
        for i in range(species_count):
            total += invariants[k, i] * y[i]
            scale += abs(invariants[k, i]) * y[i]
        gram[k * width + count] = totals[k] - total
        if scale > 0.0:
            worst = max(worst, abs(gram[k * width + count]) / scale)
    for k in range(count):
        pivot = gram[k * width + k]
        for other in range(k + 1, count):
            factor = gram[other * width + k] / pivot if pivot > 0.0 else 0.0
            for m in range(k, count + 1):
                gram[other * width + m] -= factor * gram[k * width + m]
    for back in range(count):
        k = (count - 1 - back) & NATURAL
        total = gram[k * width + count]
        for m in range(k + 1, count):
            total -= gram[k * width + m] * gram[m * width + count]
        gram[k * width + count] = (
            total / gram[k * width + k] if gram[k * width + k] > 1e-280 else 0.0
        )
    for i in range(species_count):
        factor = 1.0
        for k in range(count):
            factor += gram[k * width + count] * invariants[k, i]
        y[i] *= max(factor, 0.0)
    return worst


@borrowing
def integrate_zone(
    system, method, room, work, times, temperatures, densities, grid, rtol, most_steps, out
):
    """Integrate one zone; `out` [time, variable] is filled, its first row being the start.

    Returns status, steps taken, steps repeated, the largest defect that was put right and, where
    the zone heats itself, the time when its temperature rose fastest.
    """
    y, new, change, trial, U = work.y, work.new, work.change, work.trial, work.stages
    size, species_count = change.size, system.flows.start.size - 1
    invariants, plan, matrix = system.invariants, system.plan, work.matrix
    stage_count, point_count = method.m.size, grid.size
    for i in range(size):
        y[i] = out[0, i]
    # The variable that empty slots of complexes refer to.
    y[size] = 1.0
    new[size] = 1.0
    width = invariants.shape[0] + 1
    totals = work.gram[width * (width - 1) : width * width - 1]
    for k in range(invariants.shape[0]):
        totals[k] = 0.0
        for i in range(species_count):
            totals[k] += invariants[k, i] * y[i]
    t, end = grid[0], grid[point_count - 1]
    if not DYNAMIC:
        set_conditions(system, room, temperatures[0], densities[0], y)
    h = 0.0
    place, taken, repeated, defect = 1, 0, 0, 0.0
    peak, steepest = NOT_A_NUMBER, 0.0
    before, speed, begun = 0.0, 0.0, t
    fresh, after_reject = True, False
    while place < point_count:
        if taken + repeated >= most_steps:
            return TOO_MANY_STEPS, taken, repeated, defect, peak
        if fresh:
            rate_of_change(system, room, times, temperatures, densities, t, y, change)
            if HEATING != FIXED and taken > 0:
                # Of the cubic through both ends of the step.
                for eighth in range(1, 9):
                    theta = 0.125 * eighth
                    slope = 6.0 * theta * (1.0 - theta) * (y[size - 1] - before) / (t - begun)
                    slope += (3.0 * theta - 1.0) * (theta - 1.0) * speed
                    slope += theta * (3.0 * theta - 2.0) * change[size - 1]
                    if slope > steepest:
                        steepest = slope
                        peak = begun + theta * (t - begun)
            if taken == 0:
                h = first_step(system.absolute, rtol, y, change, end - t)
        if not (h > SHORTEST * max(abs(t), 1e-12 * (end - t))) or not (h < np.inf):
            return NOT_FINITE, taken, repeated, defect, peak
        last = t + h * 1.0000001 >= end
        if last:
            h = end - t
        if fresh:
            jacobian(system, room, times, temperatures, densities, t, y, change, trial, work.slopes)
            if DYNAMIC:
                # The derivative in time, last: it leaves other coefficients behind.
                shift = 1e-6 * h if times.size > 1 else 0.0
                for i in range(size):
                    work.in_time[i] = 0.0
                if shift > 0.0:
                    rate_of_change(
                        system, room, times, temperatures, densities, t + shift, y, work.in_time
                    )
                    for i in range(size):
                        work.in_time[i] = (work.in_time[i] - change[i]) / shift
        elif not SLOPES_KEPT:
            jacobian(system, room, times, temperatures, densities, t, y, change, trial, work.slopes)
        fresh = False
        diagonal = 1.0 / (h * method.gamma)
        sound = factorize_shifted(plan, work.slopes, diagonal, matrix, work.row)
        for stage in range(stage_count):
            if stage > 0:
                for i in range(size):
                    total = y[i]
                    for j in range(stage):
                        total += method.a[stage, j] * U[j * size + i]
                    new[i] = total
                rate_of_change(
                    system, room, times, temperatures, densities,
                    t + method.alpha[stage] * h, new, trial,
                )  # fmt: skip
            else:
                for i in range(size):
                    trial[i] = change[i]
            for i in range(size):
                total = 0.0
                for j in range(stage):
                    total += method.c[stage, j] * U[j * size + i]
                trial[i] += total / h
                if DYNAMIC:
                    trial[i] += method.gammas[stage] * h * work.in_time[i]
            solve(plan, matrix, trial, U[stage * size : (stage + 1) * size], work.row)
        for i in range(size):
            total, error = y[i], 0.0
            for j in range(stage_count):
                total += method.m[j] * U[j * size + i]
                error += method.e[j] * U[j * size + i]
            new[i] = total
            trial[i] = error
        error = weighted_norm(system.absolute, rtol, trial, y, new)
        if not (sound and error < np.inf):
            repeated += 1
            h *= 0.1
            after_reject = True
            continue
        factor = SAFETY * max(error, 1e-10) ** -method.exponent
        factor = min(max(factor, LEAST), MOST)
        if error > 1.0:
            repeated += 1
            h *= min(factor, 0.9)
            after_reject = True
            continue
        taken += 1
        then = end if last else t + h
        defect = max(defect, project(invariants, species_count, totals, new, work.gram))
        while place < point_count and grid[place] <= then:
            theta = (grid[place] - t) / h
            for i in range(size):
                curve, bend = 0.0, 0.0
                for j in range(stage_count):
                    curve += method.p[j] * U[j * size + i]
                    bend += method.q[j] * U[j * size + i]
                inner = new[i] + (1.0 - theta) * (curve + theta * bend)
                out[place, i] = max((1.0 - theta) * y[i] + theta * inner, 0.0)
            place += 1
        before, speed, begun = y[size - 1], change[size - 1], t
        for i in range(size):
            y[i] = new[i]
        t = then
        h *= min(factor, 1.0) if after_reject else factor
        after_reject = False
        fresh = True
    return DONE, taken, repeated, defect, peak


# --- CPU ------------------------------------------------------------------------------------------


def integrate_cpu(
    start, stop, system, method, course, grid, rtol, most_steps, out, status, taken, repeated,
    defect, peak,
):  # fmt: skip
    """Zones `start` to `stop`, one after another."""
    size, width = out.shape[2], system.invariants.shape[0] + 1
    rates = system.rates
    species = system.flows.start.size - 1
    nothing = np.empty(0)
    room = Room(
        np.empty(rates.slot_start.size - 1),
        np.zeros(rates.order.size) if BODIES else nothing,
        np.zeros(rates.order.size) if BODIES else nothing,
        np.empty(species) if REVERSIBLE else nothing,
        np.empty(species) if HEATING != FIXED else nothing,
        np.empty(system.flows.complex.size),
        np.empty(system.complexes.first.size),
        np.empty(3 * system.complexes.first.size),
    )
    work = Work(
        np.empty(size + 1),
        np.empty(size + 1),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(method.m.size * size),
        np.empty(system.plan.column.size + 1),
        np.empty(system.plan.column.size + 1),
        np.empty(size),
        np.empty(width * width),
    )
    for zone in range(start, stop):
        outcome, steps, again, worst, when = integrate_zone(
            system, method, room, work, course.times, course.temperature[zone],
            course.density[zone], grid, rtol, most_steps, out[zone],
        )  # fmt: skip
        status[zone] = outcome
        taken[zone] = steps
        repeated[zone] = again
        defect[zone] = worst
        peak[zone] = when


# --- CUDA, a thread for every zone ----------------------------------------------------------------


def thread_count_of_numbers(system: System, stage_count: int) -> int:
    """Numbers that a thread keeps in device memory."""
    size, width = system.absolute.size, system.invariants.shape[0] + 1
    rates, complexes = system.rates, system.complexes.first.size
    room = rates.slot_count + 2 * rates.order.size + 2 * (system.flows.start.size - 1)
    room += system.flows.complex.size + 4 * complexes
    work = 2 * (size + 1) + (4 + stage_count) * size + 2 * (system.plan.column.size + 1)
    return room + work + width * width


def integrate_threads(
    system, method, times, temperature, density, grid, rtol, most_steps, scratch, counter, out,
    status, taken, repeated, defect, peak,
):  # fmt: skip
    """Zones from a queue, each by one thread, whose numbers lie beside those of the others."""
    memory = scratch[:, cuda.grid(1)]
    size, width = out.shape[2], system.invariants.shape[0] + 1
    rates, species = system.rates, system.flows.start.size - 1
    slots, reactions = rates.slot_start.size - 1, rates.order.size
    entries, complexes = system.flows.complex.size, system.complexes.first.size
    factors, stages = system.plan.column.size + 1, method.m.size * size
    a = slots
    b = a + reactions
    c = b + reactions
    d = c + species
    e = d + species
    f = e + entries
    g = f + complexes
    h = g + 3 * complexes
    room = Room(
        memory[0:a], memory[a:b], memory[b:c], memory[c:d], memory[d:e], memory[e:f], memory[f:g],
        memory[g:h],
    )  # fmt: skip
    a = h + size + 1
    b = a + size + 1
    c = b + size
    d = c + size
    e = d + size
    f = e + stages
    g = f + factors
    i = g + factors
    j = i + size
    work = Work(
        memory[h:a], memory[a:b], memory[b:c], memory[c:d], memory[d:e], memory[e:f], memory[f:g],
        memory[g:i], memory[i:j], memory[j : j + width * width],
    )  # fmt: skip
    integrate_queue(
        system, method, room, work, times, temperature, density, grid, rtol, most_steps, counter,
        out, status, taken, repeated, defect, peak,
    )  # fmt: skip


def integrate_queue(
    system, method, room, work, times, temperature, density, grid, rtol, most_steps, counter, out,
    status, taken, repeated, defect, peak,
):  # fmt: skip
    """Zones from a queue, one after another, until it is empty."""
    zone = cuda.atomic.add(counter, 0, 1)
    while zone < out.shape[0]:
        outcome, steps, again, worst, when = integrate_zone(
            system, method, room, work, times, temperature[zone], density[zone], grid, rtol,
            most_steps, out[zone],
        )  # fmt: skip
        status[zone] = outcome
        taken[zone] = steps
        repeated[zone] = again
        defect[zone] = worst
        peak[zone] = when
        zone = cuda.atomic.add(counter, 0, 1)
