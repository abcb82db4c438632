"""Rosenbrock methods: implicit Runge-Kutta with one factorisation a step and no iteration.

With J = df/dy and W = I / (h gamma) - J, the stages U_i solve

    W U_i = f(t + alpha_i h, y + sum a_ij U_j) + sum (c_ij / h) U_j + gamma_i h df/dt,

the step is y + sum m_i U_i, and its error is estimated by sum e_i U_i. Between the ends of a step
the solution is read off

    y(t + theta h) = (1 - theta) y_0 + theta (y_1 + (1 - theta) (p + theta q)),

p and q sums of the U_i.

Screening and weak rates (see `screening`) depend on the sums E = sum of Z_i Y_i and Q = sum of
Z_i^2 Y_i, which couple every nucleus with every other. Their part of J, df/dE Z^T + df/dQ (Z^2)^T,
is two columns times two rows. Only the matrix without that part, W_0, is factorised, and

    W x = b:    x = W_0^-1 b + w c,    w = W_0^-1 (df/dE, df/dQ),    (I - v w) c = v W_0^-1 b

with the rows v of Z and Z^2 (M. A. Woodbury, 1950).

The step is written once: for a thread on the CPU, and for a block of threads, or one alone, on CUDA
(see `thread_group`); the coefficients of the methods are in `tableaus`.

E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), IV.7.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda, no_refcount, no_unroll, real
from ergode.core.status import Status
from ergode.kinetics.block.collectives import next_zone
from ergode.kinetics.block.elimination import block_factorize, block_solve
from ergode.kinetics.block.thread_group import barrier, thread_count, thread_rank, total_of
from ergode.kinetics.condition_history import NEARLY, horizon, settled
from ergode.kinetics.implicit.elimination import factorize_shifted, solve
from ergode.kinetics.implicit.system import (
    add_temperature_rate,
    change_at,
    coefficients,
    density_of,
    fill_slopes,
    keep_slopes,
    put_slopes,
    put_temperature_column,
    put_temperature_row,
    subtract_dilution,
    subtract_partners,
    temperature_of,
)
from ergode.kinetics.network.mechanism import entry_values
from ergode.kinetics.network.projection import conserved, project
from ergode.kinetics.physics.screening import charges
from ergode.kinetics.tables import FIXED, PRESSURE, BlockSystem, Workspace

# --- device functions -----------------------------------------------------------------------------

DYNAMIC = False
TIMED = False
HEATING = FIXED
THIRD_BODIES = False
PLASMA = False
REVERSIBLE = False
DONE, NOT_FINITE, TOO_MANY_STEPS, STEP_TOO_SMALL = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.TOO_MANY_STEPS),
    int(Status.STEP_TOO_SMALL),
)  # fmt: skip
NOT_A_NUMBER, INFINITY = math.nan, math.inf
SAFETY, LEAST, MOST = 0.9, 0.2, 8.0
# Steps shorter than this of the time since a knot are lost in rounding; and the least of all.
SHORTEST, VANISHED = 1e-15, 1e-280
# By this part of its range may a temperature or density that is given change in a step.
CHANGE = 0.05
# The first step is no shorter than this part of the whole time: errors of what is next to nothing
# are then found by repeating it.
LEAST_FIRST = 1e-16
# Of a step, of the temperature, and of what else a column of the Jacobian is differenced along.
_LATER, _WARMER, _MORE = 1e-6, 1e-7, 1e-6


class StepVectors(NamedTuple):
    """Vectors of a zone.

    Attributes
    ----------
    y, new : ndarray, shape [variable_count + 1]
        At the start of the step, and where rates of change are asked for; then one.
    change : ndarray, shape [variable_count]
        dy/dt at the start.
    trial : ndarray, shape [variable_count + 1]
        dy/dt elsewhere; what is to be solved for.
    in_time : ndarray, shape [variable_count]
        Derivative of dy/dt in time.
    columns : ndarray, shape [2 * variable_count]
        What electrons change, and what is solved of it.
    stages : ndarray, shape [stage_count * variable_count]
    matrix : ndarray, shape [entry_count]
        The Jacobian's negative, then factors.
    row : ndarray, shape [variable_count + 1]
        Of the elimination.
    gram : ndarray, shape [invariant_count + 3, invariant_count]
        Of the projection.
    pivoting, tile : ndarray
        Of the elimination by a block.
    """

    y: np.ndarray
    new: np.ndarray
    change: np.ndarray
    trial: np.ndarray
    in_time: np.ndarray
    columns: np.ndarray
    stages: np.ndarray
    matrix: np.ndarray
    row: np.ndarray
    gram: np.ndarray
    pivoting: np.ndarray
    tile: np.ndarray


def _factorize_alone(system, vectors, diagonal):
    return factorize_shifted(system.plan, vectors.matrix, diagonal, vectors.row)


def _factorize_together(system, vectors, diagonal):
    return block_factorize(
        system, vectors.matrix, diagonal, vectors.row, vectors.pivoting, vectors.tile
    )


def _solve_alone(system, workspace, vectors):
    solve(system.plan, vectors.matrix, vectors.trial, vectors.row)


def _solve_together(system, workspace, vectors):
    block_solve(system, vectors.matrix, vectors.row, vectors.tile, vectors.trial, workspace.partial)


factorize = ByTarget(cpu=_factorize_alone, cuda=_factorize_together)
"""Factorise the matrix plus `diagonal` times I; whether all pivots were finite and not zero."""
solve_trial = ByTarget(cpu=_solve_alone, cuda=_solve_together)
"""Replace the right-hand side `vectors.trial` by the solution. Begins and ends in a barrier."""


def first_step(absolute, rtol, y, change, span, reduced):
    """Length of a first step in which the solution changes little."""
    amount, speed = 0.0, 0.0
    for i in no_unroll(range(thread_rank(), absolute.size, thread_count())):
        allowed = absolute[i] + rtol * abs(y[i])
        amount += (y[i] / allowed) ** 2
        speed += (change[i] / allowed) ** 2
    amount = total_of(amount, reduced, 0)
    speed = total_of(speed, reduced, 1)
    if speed == 0.0:
        return span
    step = 0.01 * max((amount / speed) ** 0.5, 1e-3 / speed**0.5)
    return min(span, max(step, LEAST_FIRST * span))


def fastest_heating(rise, before, after, duration, begin, since, steepest, peak):
    """The steepest slope of the temperature so far, and its time, after another step.

    The temperature follows the cubic through both ends of the step, whose slopes are `before` and
    `after`. The step has ended `since` after the time `begin`.
    """
    for eighth in no_unroll(range(1, 9)):
        theta = 0.125 * eighth
        slope = 6.0 * theta * (1.0 - theta) * rise
        slope /= duration
        slope += (3.0 * theta - 1.0) * (theta - 1.0) * before
        slope += theta * (3.0 * theta - 2.0) * after
        if slope > steepest:
            steepest = slope
            peak = begin + (since - (1.0 - theta) * duration)
    return steepest, peak


def finish_step(method, absolute, rtol, vectors):
    """Amounts at the end of a step, into `vectors.new`; returns this thread's squared errors."""
    y, new, U = vectors.y, vectors.new, vectors.stages
    count, part = absolute.size, 0.0
    for i in no_unroll(range(thread_rank(), count, thread_count())):
        total, error = y[i], 0.0
        for j in no_unroll(range(method.m.size)):
            total += method.m[j] * U[j * count + i]
            error += method.e[j] * U[j * count + i]
        new[i] = total
        ratio = error / (absolute[i] + rtol * max(abs(y[i]), abs(total)))
        part += ratio * ratio
    return part


def fill_output(method, vectors, grid, place, base, since, h, stop, ends, out):
    """Amounts at the times of the result within a step; returns the next place in `grid`.

    The step begins `since` after the time `base`. If it `ends` at a knot, that is `stop`.
    """
    y, new, U = vectors.y, vectors.new, vectors.stages
    count = out.shape[1]
    while place < grid.size:
        theta = ((grid[place] - base) - since) / h
        if not (grid[place] <= stop if ends else theta <= 1.0):
            break
        theta = min(theta, 1.0)
        for i in no_unroll(range(thread_rank(), count, thread_count())):
            curve, bend = 0.0, 0.0
            for j in no_unroll(range(method.m.size)):
                curve += method.p[j] * U[j * count + i]
                bend += method.q[j] * U[j * count + i]
            inner = new[i] + (1.0 - theta) * (curve + theta * bend)
            out[place, i] = max((1.0 - theta) * y[i] + theta * inner, 0.0)
        place += 1
    return place


@no_refcount
def integrate_zone(
    system, method, workspace, vectors, times, temperatures, densities, grid, rtol, step_limit, out
):
    """Integrate one zone; `out` [time, variable] is filled, its first row being the start.

    Returns status, steps taken, steps repeated, the largest defect that was put right and, where
    the zone heats itself, the time when its temperature rose fastest.
    """
    first, stride = thread_rank(), thread_count()
    y, new, change, trial, U = vectors.y, vectors.new, vectors.change, vectors.trial, vectors.stages
    rates, thermo, invariants = system.rates, system.thermo, system.invariants
    count, species_count = system.absolute.size, invariants.shape[1]
    stage_count, point_count = method.m.size, grid.size
    for i in no_unroll(range(first, count, stride)):
        y[i] = out[0, i]
    if first == 0:
        # The variable that empty slots of complexes refer to.
        y[count] = 1.0
        new[count] = 1.0
    barrier()
    widths = invariants.shape[0] * (invariants.shape[0] + 2)
    conserved(invariants, y, vectors.gram[widths : widths + invariants.shape[0]], workspace.reduced)
    # Time is that of the knot `below` and so much since.
    begin, since, below = grid[0], 0.0, 0
    whole = grid[point_count - 1] - begin
    if not DYNAMIC:
        coefficients(rates, thermo, workspace, temperatures[0], densities[0], y, 1.0, 1.0)
        entry_values(system.flows, workspace.slots, workspace.values, first, stride)
    # Rates of change are asked for at the start of a step; then, for the Jacobian and for the
    # derivative in time, along one direction each; the last of these turns is stage zero.
    warmer = 1 + (rates.efficiency.shape[0] if THIRD_BODIES else 0)
    denser = warmer + (1 if HEATING != FIXED else 0)
    charged = denser + (1 if HEATING == PRESSURE else 0)
    later = charged + (2 if PLASMA else 0)
    last_direction = later if TIMED else later - 1
    h = 0.0
    place, taken, repeated, defect = 1, 0, 0, 0.0
    peak, steepest = NOT_A_NUMBER, 0.0
    before, speed, ago = 0.0, 0.0, 0.0
    after_reject, ends, sound, finite = False, False, True, True
    last = 0
    hot, dense = 0.0, 0.0
    while place < point_count:
        if taken + repeated >= step_limit:
            return TOO_MANY_STEPS, taken, repeated, defect, peak
        for turn in no_unroll(range(last_direction + stage_count)):
            stage = turn - last_direction
            for i in no_unroll(range(first, count, stride)):
                total = y[i]
                for j in no_unroll(range(stage)):
                    total += method.a[stage, j] * U[j * count + i]
                if HEATING != FIXED and turn == warmer and i == species_count:
                    total *= 1.0 + _WARMER
                new[i] = total
            barrier()
            if DYNAMIC:
                at, until = since, below
                if stage > 0:
                    at += method.alpha[stage] * h
                    until = last
                elif turn == later:
                    at += _LATER * h
                hot = temperature_of(times, temperatures, below, until, at, new, species_count)
                dense = density_of(
                    times, densities, below, until, at, new, species_count, workspace.reduced
                )
                if HEATING == PRESSURE and turn == denser:
                    dense *= 1.0 + _MORE
                anew = True
                if THIRD_BODIES:
                    anew = turn == 0 or turn >= warmer
                    if not anew:
                        put_slopes(rates, workspace, turn - 1)
                if anew:
                    more_electrons, more_squares = 1.0, 1.0
                    if PLASMA:
                        more_electrons += _MORE if turn == charged else 0.0
                        more_squares += _MORE if turn == charged + 1 else 0.0
                    coefficients(
                        rates, thermo, workspace, hot, dense, new, more_electrons, more_squares
                    )  # fmt: skip
                entry_values(system.flows, workspace.slots, workspace.values, first, stride)
                barrier()
            change_at(system, workspace, new, trial)
            capacity = 0.0
            if HEATING != FIXED:
                capacity = add_temperature_rate(system, workspace, hot, dense, new, trial)
            if turn == 0:
                for i in no_unroll(range(first, count, stride)):
                    change[i] = trial[i]
                barrier()
                if HEATING != FIXED and taken > 0:
                    rise = y[count - 1] - before
                    steepest, peak = fastest_heating(
                        rise, speed, change[count - 1], ago, begin, since, steepest, peak
                    )
                if taken + repeated == 0:
                    h = first_step(system.absolute, rtol, y, change, whole, workspace.reduced)
                if not (h > max(SHORTEST * since, VANISHED)) or not (h < INFINITY):
                    lost = not (finite and h < INFINITY)
                    status = NOT_FINITE if lost else STEP_TOO_SMALL
                    return status, taken, repeated, defect, peak
                if TIMED:
                    h, last, ends = horizon(
                        times, temperatures, densities, below, since, h, CHANGE, 0.1 * rtol
                    )
                else:
                    ends = h * NEARLY >= whole - since
                    if ends:
                        h = whole - since
                fill_slopes(system, workspace, vectors, y)
                if THIRD_BODIES:
                    keep_slopes(rates, workspace)
                if HEATING != FIXED:
                    put_temperature_row(system, workspace, vectors, hot, dense, y, change, capacity)
            elif stage <= 0:
                if THIRD_BODIES and turn < warmer:
                    subtract_partners(system, workspace, vectors, turn - 1, dense, trial)
                if turn >= warmer:
                    for i in no_unroll(range(first, count, stride)):
                        trial[i] -= change[i]
                        if HEATING != FIXED and turn == warmer:
                            trial[i] /= _WARMER * y[count - 1]
                        if HEATING == PRESSURE and turn == denser:
                            trial[i] /= _MORE
                        if PLASMA and charged <= turn < charged + 2:
                            vectors.columns[(turn - charged) * count + i] = trial[i] / _MORE
                        if turn == later:
                            vectors.in_time[i] = trial[i] / (_LATER * h)
                    barrier()
                    if HEATING != FIXED and turn == warmer:
                        put_temperature_column(system, vectors, trial)
                    if HEATING == PRESSURE and turn == denser:
                        subtract_dilution(system, vectors, workspace.reduced, y, trial)
            if stage == 0:
                sound = factorize(system, vectors, 1.0 / (h * method.gamma))
            if stage >= 0:
                electrons, squares = 1.0, 1.0
                if PLASMA:
                    electrons, squares = charges(thermo.charge, y, workspace.reduced)
                # Before the first stage the columns of what electrons change.
                for column in no_unroll(range(charged - later if stage == 0 else 0, 1)):
                    barrier()
                    for i in no_unroll(range(first, count, stride)):
                        total = 0.0
                        for j in no_unroll(range(stage)):
                            total += method.c[stage, j] * U[j * count + i]
                        total = total / h + (trial[i] if stage > 0 else change[i])
                        if DYNAMIC and last_direction == later:
                            total += method.gammas[stage] * h * vectors.in_time[i]
                        if PLASMA and column < 0:
                            total = vectors.columns[(column + 2) * count + i]
                        trial[i] = total
                    solve_trial(system, workspace, vectors)
                    if PLASMA:
                        if column < 0:
                            for i in no_unroll(range(first, count, stride)):
                                vectors.columns[(column + 2) * count + i] = trial[i]
                        else:
                            add_electrons(system, workspace, vectors, electrons, squares)
                for i in no_unroll(range(first, count, stride)):
                    U[stage * count + i] = trial[i]
        part = finish_step(method, system.absolute, rtol, vectors)
        error = (total_of(part if sound else INFINITY, workspace.reduced, 0) / count) ** 0.5
        finite = error < INFINITY
        if not finite:
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
        defect = max(defect, project(invariants, new, vectors.gram, workspace.reduced))
        stop = grid[point_count - 1]
        base = begin
        if TIMED:
            stop, base = times[last + 1], times[below]
        place = fill_output(method, vectors, grid, place, base, since, h, stop, ends, out)
        if HEATING != FIXED:
            before, speed, ago = y[count - 1], change[count - 1], h
            barrier()
        for i in no_unroll(range(first, count, stride)):
            y[i] = new[i]
        if TIMED and ends:
            below, since = last + 1, 0.0
        else:
            since += h
            if TIMED:
                below, since = settled(times, below, since)
        h *= min(factor, 1.0) if after_reject else factor
        after_reject = False
    return DONE, taken, repeated, defect, peak


def add_electrons(system, workspace, vectors, electrons, squares):
    """Correct the solution for the dependence of coefficients on electrons (see the module)."""
    charge, columns, x = system.thermo.charge, vectors.columns, vectors.trial
    count = system.absolute.size
    a, b = charges(charge, x, workspace.reduced)
    aa, ba = charges(charge, columns[0:count], workspace.reduced)
    ab, bb = charges(charge, columns[count : 2 * count], workspace.reduced)
    a, aa, ab = a / electrons, 1.0 - aa / electrons, -ab / electrons
    b, ba, bb = b / squares, -ba / squares, 1.0 - bb / squares
    determinant = aa * bb - ab * ba
    by_electrons = (a * bb - b * ab) / determinant
    by_squares = (b * aa - a * ba) / determinant
    for i in no_unroll(range(thread_rank(), count, thread_count())):
        x[i] += by_electrons * columns[i] + by_squares * columns[count + i]


# --- CPU ------------------------------------------------------------------------------------------


def integrate_cpu(start, stop, system, method, history, grid, rtol, step_limit, outcome):
    """Zones `start` to `stop`, one after another."""
    count = outcome.amounts.shape[2]
    rates, species = system.rates, system.invariants.shape[1]
    nothing = np.empty(0)
    workspace = Workspace(
        np.empty(rates.slot_start.size - 1),
        np.zeros(rates.order.size) if THIRD_BODIES else nothing,
        np.empty(rates.order.size) if THIRD_BODIES else nothing,
        np.empty(rates.efficiency.shape[0]) if THIRD_BODIES else nothing,
        np.empty(species) if REVERSIBLE else nothing,
        np.empty(species) if HEATING != FIXED else nothing,
        np.empty(system.flows.complex.size),
        np.empty(system.complexes.first.size),
        np.empty(3 * system.complexes.first.size),
        nothing,
        nothing,
    )
    vectors = StepVectors(
        np.empty(count + 1),
        np.empty(count + 1),
        np.empty(count),
        np.empty(count + 1),
        np.empty(count),
        np.empty(2 * count) if PLASMA else nothing,
        np.empty(method.m.size * count),
        np.empty(system.plan.column.size + 1),
        np.empty(count),
        np.empty((system.invariants.shape[0] + 3) * system.invariants.shape[0]),
        nothing,
        nothing,
    )
    for zone in range(start, stop):
        status, taken, repeated, defect, peak = integrate_zone(
            system, method, workspace, vectors, history.times, history.temperature[zone],
            history.density[zone], grid, rtol, step_limit, outcome.amounts[zone],
        )  # fmt: skip
        outcome.status[zone] = status
        outcome.taken[zone] = taken
        outcome.repeated[zone] = repeated
        outcome.defect[zone] = defect
        outcome.fastest_heating[zone] = peak


# --- CUDA, a block for every zone -----------------------------------------------------------------

TILE = 18
_REDUCTION = 32


def shared_count(system: BlockSystem, stage_count: int, dynamic: bool) -> int:
    """Numbers that a zone keeps in shared memory."""
    n, several = system.pivot.size, len(system.invariants)
    fixed = _REDUCTION + 4 * system.tail.size + 7 * (n + 1) + (several + 3) * several
    return fixed + partial_count(system) + matrix_count(system, stage_count, dynamic)


def matrix_count(system: BlockSystem, stage_count: int, dynamic: bool) -> int:
    """Room for the matrix, stages and products.

    Once the tail of the matrix is in registers, stages take its place; and products, unless they
    are asked for while the matrix is being filled.
    """
    tail, products = system.tail_count**2, system.flows.triple.size
    stages = stage_count * system.pivot.size
    behind = max(tail, stages) + products if dynamic else max(tail, stages + products)
    return system.entry_count - tail + behind


def partial_count(system: BlockSystem) -> int:
    """Room for parts of rows that have several."""
    parts = (system.flows.sums, system.slopes, system.gather, system.scatter)
    return max(system.tail.size, *(part.place_count for part in parts))


def scratch_count(system: BlockSystem, slot_count: int, reaction_count: int, kinds: int) -> int:
    """Numbers that a block keeps in device memory."""
    numbers = slot_count + 2 * reaction_count + kinds + 3 * system.pivot.size
    return numbers + system.flows.value_count


def integrate_block(
    system, several, method, history, grid, rtol, step_limit, scratch, counter, outcome
):
    """Zones from a queue, each by one block."""
    count, species = system.pivot.size, system.invariants.shape[1]
    invariants, width = system.invariants.shape[0], system.pivot.size + 1
    rates, tail = system.rates, system.tail_count * system.tail_count
    shared = cuda.shared.array(0, real)
    mine = scratch[cuda.blockIdx.x]
    pivoting = _REDUCTION + 4 * system.tail.size
    a = pivoting + width
    b = a + width
    c = b + width
    d = c + width
    e = d + width
    f = e + width
    g = f + width
    h = g + (invariants + 3) * invariants
    i = h + several
    matrix = i + system.entry_count
    # Where the matrix of the tail was, which is in registers then.
    stages = matrix - tail
    k = stages + method.m.size * count
    products = max(matrix, k) if DYNAMIC else k
    slots = rates.slot_start.size - 1
    slopes = slots + rates.order.size
    saved = slopes + rates.order.size
    partners = saved + (rates.efficiency.shape[0] if THIRD_BODIES else 0)
    volumes = partners + species
    columns = volumes + 2 * count
    workspace = Workspace(
        mine[0:slots], mine[slots:slopes], mine[slopes:saved], mine[saved:partners],
        mine[partners:volumes], shared[f : f + species],
        mine[columns : columns + system.flows.value_count],
        shared[products : products + system.flows.triple.size], mine[0:0], shared[h:i],
        shared[0:_REDUCTION],
    )  # fmt: skip
    vectors = StepVectors(
        shared[pivoting:a], shared[a:b], shared[b : b + count], shared[c:d], shared[d : d + count],
        mine[volumes:columns], shared[stages:k], shared[i:matrix], shared[e:f], shared[g:h],
        shared[_REDUCTION:pivoting], cuda.local.array(TILE, real),
    )  # fmt: skip
    if THIRD_BODIES:
        for r in no_unroll(range(thread_rank(), rates.order.size, thread_count())):
            workspace.slopes[r] = 0.0
    integrate_from_queue(
        system, method, workspace, vectors, history, grid, rtol, step_limit, counter, outcome
    )


def integrate_from_queue(
    system, method, workspace, vectors, history, grid, rtol, step_limit, counter, outcome
):
    """Zones from a queue, one after another, until it is empty."""
    zone = next_zone(counter, workspace.reduced)
    while zone < outcome.amounts.shape[0]:
        status, taken, repeated, defect, peak = integrate_zone(
            system, method, workspace, vectors, history.times, history.temperature[zone],
            history.density[zone], grid, rtol, step_limit, outcome.amounts[zone],
        )  # fmt: skip
        if thread_rank() == 0:
            outcome.status[zone] = status
            outcome.taken[zone] = taken
            outcome.repeated[zone] = repeated
            outcome.defect[zone] = defect
            outcome.fastest_heating[zone] = peak
        zone = next_zone(counter, workspace.reduced)
