"""Rosenbrock methods: implicit Runge-Kutta with one factorisation a step and no iteration.

With J = df/dy and W = I / (h gamma) - J, the stages U_i solve

    W U_i = f(t + alpha_i h, y + sum a_ij U_j) + sum (c_ij / h) U_j + gamma_i h df/dt,

the step is y + sum m_i U_i, and sum e_i U_i estimates its error. Within a step the solution is
interpolated by

    y(t + theta h) = (1 - theta) y_0 + theta (y_1 + (1 - theta) (p + theta q)),

where p and q are sums of the U_i.

Parts of J that couple all nuclei are kept out of the factorised matrix (see `low_rank`).

The step is written once, for a thread on the CPU and a block or a thread on CUDA (see
`thread_group`). `core.math.rosenbrock` has the coefficients of the methods.

E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), IV.7.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import (
    ByTarget,
    by_reference,
    hold,
    no_refcount,
    no_unroll,
    option,
)
from ergode.core.group import ONE, barrier, share, total_of
from ergode.core.math.elimination import NONNEGATIVE, factorize_shifted, solve
from ergode.kinetics import endings
from ergode.kinetics.block.elimination import block_factorize, block_solve
from ergode.kinetics.condition_history import history_at, history_of, wall_at
from ergode.kinetics.implicit import low_rank, motion, step_control
from ergode.kinetics.implicit.energy import (
    Heat,
    Isobar,
    given_at,
    heat_of,
    isobar_of,
    outside_rate,
    put_energy_row,
    put_gain,
    temperature_at,
)
from ergode.kinetics.implicit.system import (
    add_inflow,
    add_outflow,
    change_at,
    coefficients,
    density_of,
    fill_slopes,
    keep_coefficients,
    put_own_powers,
    put_slopes,
    put_temperature_column,
    renewal_of,
    set_age_rate,
    subtract_dilution,
    subtract_partners,
    temperature_of,
)
from ergode.kinetics.implicit.turns import StepTime, turns_of
from ergode.kinetics.kernel_options import (
    COMPRESSED,
    DYNAMIC,
    FED,
    FLOW,
    FORMULAS,
    HEATING,
    MOLECULES,
    MOVING,
    OWN_TOLERANCES,
    PLASMA,
    POWERS,
    REVERSIBLE,
    SELF_HEATING,
    SUNLIT,
    THIRD_BODIES,
    TIMED,
)
from ergode.kinetics.network import projection
from ergode.kinetics.network.mechanism import entry_values
from ergode.kinetics.physics.formulas import memory_count, put_inputs
from ergode.kinetics.physics.screening import charges
from ergode.kinetics.physics.third_bodies import slope_count
from ergode.kinetics.tables import FIXED, PLUG, PRESSURE, STIRRED, Workspace

# --- device functions -----------------------------------------------------------------------------

# Steps below this fraction of the time since a knot are lost in rounding; the smallest step.
SHORTEST, VANISHED = 1e-15, 1e-280
# A loss of conserved sums in a step, relative and over rtol, from which on stages keep them.
BLURRED = 1e-4
# A loss after which a step is repeated, smaller.
LOST = 1e-3
# Relative increments of finite differences: time (of a step), temperature, all others.
_LATER, _WARMER, _MORE = 1e-6, 1e-7, 1e-6


class StepVectors(NamedTuple):
    """Vectors of a zone."""

    # [variable_count + 1 + power_size]: amounts at the start of the step, and at the current stage;
    # then one, then powers.
    y: np.ndarray
    new: np.ndarray
    change: np.ndarray  # [variable_count]: dy/dt at the start
    # [variable_count + 1]: dy/dt at the current stage; right-hand side and solution.
    trial: np.ndarray
    in_time: np.ndarray  # [variable_count]: derivative of dy/dt with respect to time
    # [3 * variable_count]: df/dE and df/dQ, then w; and df/d ln rho of nuclei, then W_0^-1 times
    # it.
    columns: np.ndarray
    stages: np.ndarray  # [stage_count * variable_count]
    matrix: np.ndarray  # [entry_count]: the negative Jacobian, then its factors
    row: np.ndarray  # [variable_count + 1]: workspace of the elimination
    # [(invariant_count + 3) * invariant_count], and more if the inflow changes: workspace of the
    # projection
    gram: np.ndarray
    # Workspace of the elimination by a block.
    pivoting: np.ndarray
    tile: np.ndarray


def _factorize_alone(system, vectors, diagonal):
    return factorize_shifted(system.plan, vectors.matrix, diagonal, vectors.row) == 0.0


def _factorize_together(system, vectors, diagonal):
    return block_factorize(
        system, vectors.matrix, diagonal, vectors.row, vectors.pivoting, vectors.tile
    )


def _solve_alone(system, workspace, vectors):
    solve(system.plan, vectors.matrix, vectors.trial, vectors.row)


def _solve_together(system, workspace, vectors):
    block_solve(system, vectors.matrix, vectors.row, vectors.tile, vectors.trial, workspace.partial)


factorize = option(ByTarget(cpu=_factorize_alone, cuda=_factorize_together))
"""Factorise the matrix plus `diagonal` times I; true if all pivots are finite and not zero."""
solve_trial = option(ByTarget(cpu=_solve_alone, cuda=_solve_together))
"""Replace the right-hand side `vectors.trial` by the solution. Begins and ends in a barrier."""


def begin_zone(system, workspace, vectors, history, out):
    """Take a zone's amounts from `out`, and compute constant coefficients; ends in a barrier."""
    group = workspace.group
    y, invariants, count = vectors.y, system.invariants, system.absolute.size
    for i in no_unroll(share(group, 0, count)):
        y[i] = out[0, i]
    if group.rank == 0:
        # The variable that empty slots of complexes refer to.
        y[count] = 1.0
    barrier(group)
    projection.conserved(invariants, y, vectors.gram, group)
    if not DYNAMIC:
        sunlight = history.sunlight[0] if SUNLIT else 1.0
        if FORMULAS:
            put_inputs(system.rates, history, sunlight, 0, 0, 0.0, workspace.memory, group)
        coefficients(
            system.rates, system.thermo, workspace, history.factors, history.temperature[0],
            history.density[0], y, 1.0, 1.0, sunlight,
        )  # fmt: skip
        entry_values(system.flows, workspace.slots, workspace.values, group)


def put_amounts(method, vectors, count, turn, stage, turns, species_count, group):
    """Compute the amounts of a turn, into `vectors.new`; ends in a barrier.

    In a later stage, the temperature's place has the change of the energy.
    """
    y, U = vectors.y, vectors.stages
    row = stage & NONNEGATIVE
    for i in no_unroll(share(group, 0, count)):
        total = 0.0 if SELF_HEATING and stage > 0 and i == species_count else y[i]
        for j in no_unroll(range(stage)):
            total += method.a[row, j & NONNEGATIVE] * U[(j * count + i) & NONNEGATIVE]
        if HEATING != FIXED and turn == turns.warmer and i == species_count:
            total *= 1.0 + _WARMER
        if MOVING and turn == turns.denser and i == species_count + 1:
            total *= 1.0 + _MORE
        vectors.new[i] = total
    if group.rank == 0:
        vectors.new[count] = 1.0
    barrier(group)


def time_of(method, turn, turns, step):
    """The time of a turn since the knot before the step, and the last segment that it may touch."""
    stage = turn - turns.last
    at, until = step.since, step.below
    if stage > 0:
        at += method.alpha[stage] * step.h
        until = step.last
    elif turn == turns.later:
        at += _LATER * step.h
    return at, until


def put_conditions(system, method, workspace, vectors, history, turn, turns, step, heat, isobar):
    """Compute the coefficients of a turn; returns temperature and density."""
    group = workspace.group
    rates, new, species_count = system.rates, vectors.new, system.invariants.shape[1]
    stage = turn - turns.last
    at, until = time_of(method, turn, turns, step)
    times, below = history.times, step.below
    own, isobar = given_at(history, isobar, below, until, at)
    own = motion.own_density(history, own, new, species_count)
    # The energy of nuclei depends on the density: at another time, an equal energy is another
    # temperature.
    squeezed = COMPRESSED and not MOLECULES and turn == turns.later
    if SELF_HEATING and (stage > 0 or squeezed):
        gained = new[species_count] if stage > 0 else 0.0
        hot = temperature_at(system, workspace, heat, isobar, own, vectors.y, new, gained)
        barrier(group)
    else:
        hot = temperature_of(times, history.temperature, below, until, at, new, species_count)
    dense = density_of(
        system.thermo, times, history.density, below, until, at, new, species_count, hot, isobar,
        group,
    )  # fmt: skip
    if HEATING == PRESSURE and turn == turns.denser:
        dense *= 1.0 + _MORE
    anew = True
    if THIRD_BODIES:
        anew = turn == 0 or turn >= turns.warmer
        if not anew:
            put_slopes(rates, workspace, turn - 1)
    if anew:
        more_electrons, more_squares = 1.0, 1.0
        sunlight = 1.0
        if SUNLIT:
            sunlight = history_at(times, history.sunlight, below, until, at)
        if PLASMA:
            more_electrons += _MORE if turn == turns.charged else 0.0
            more_squares += _MORE if turn == turns.charged + 1 else 0.0
        if FORMULAS:
            put_inputs(
                rates, history, sunlight, below, until, at, workspace.memory, group,
            )  # fmt: skip
        coefficients(
            rates, system.thermo, workspace, history.factors, hot, dense, new, more_electrons,
            more_squares, sunlight,
        )  # fmt: skip
    values = workspace.values
    entry_values(system.flows, workspace.slots, values, group)
    if FLOW == PLUG:
        # dt = dz / u, and the velocity u is inversely proportional to the density.
        for entry in no_unroll(share(group, 0, values.size)):
            values[entry] *= dense * history.inflow[0]
    barrier(group)
    return hot, dense


def put_direction(system, workspace, vectors, turn, turns, dense, h, heat, diagonal):
    """Add the part of the Jacobian from this turn; `vectors.trial` is dy/dt of this turn.

    The diagonal of the matrix will get `diagonal`.
    """
    group = workspace.group
    y, change, trial, count = vectors.y, vectors.change, vectors.trial, system.absolute.size
    warmer, denser, charged, later = turns.warmer, turns.denser, turns.charged, turns.later
    if THIRD_BODIES and turn < warmer:
        subtract_partners(system, workspace, vectors, turn - 1, dense, trial)
    if turn >= warmer:
        for i in no_unroll(share(group, 0, count)):
            trial[i] -= change[i]
            if HEATING != FIXED and turn == warmer:
                trial[i] /= _WARMER * y[system.invariants.shape[1]]
            if HEATING == PRESSURE and turn == denser:
                trial[i] /= _MORE
                if not MOLECULES:
                    vectors.columns[2 * count + i] = trial[i]
            if MOVING and turn == denser:
                trial[i] /= _MORE * y[system.invariants.shape[1] + 1]
            if PLASMA and charged <= turn < charged + 2:
                vectors.columns[(turn - charged) * count + i] = trial[i] / _MORE
            if turn == later:
                vectors.in_time[i] = trial[i] / (_LATER * h)
        barrier(group)
        if HEATING != FIXED and turn == warmer:
            put_temperature_column(system, vectors, trial, group)
        if MOVING and turn == denser:
            motion.put_volume_column(system, vectors, trial, heat, diagonal, group)
        if HEATING == PRESSURE and MOLECULES and turn == denser:
            subtract_dilution(system, vectors, group, y, trial)


def solve_stage(system, method, workspace, vectors, stage, turns, h, dilution, heat, keeps):
    """Solve for a stage; `vectors.trial` is dy/dt at its amounts.

    If it `keeps` conserved sums, returns how much of them the linear system had lost.
    """
    group = workspace.group
    trial, U, count = vectors.trial, vectors.stages, system.absolute.size
    row = stage & NONNEGATIVE
    electrons, squares = 1.0, 1.0
    if PLASMA:
        electrons, squares = charges(system.thermo.charge, vectors.y, group)
    # Before the first stage, solve for the columns w: that of the density, and two of electrons.
    fewest = turns.charged - turns.later
    if HEATING == PRESSURE and not MOLECULES:
        fewest = -3
    for column in no_unroll(range(fewest if stage == 0 else 0, 1)):
        if (column == -1 or column == -2) and not PLASMA:
            continue
        barrier(group)
        for i in no_unroll(share(group, 0, count)):
            total = 0.0
            for j in no_unroll(range(stage)):
                total += method.c[row, j & NONNEGATIVE] * U[(j * count + i) & NONNEGATIVE]
            total = total / h + (trial[i] if stage > 0 else vectors.change[i])
            if DYNAMIC and turns.last == turns.later:
                total += method.gammas[stage] * h * vectors.in_time[i]
            if column < 0:
                total = vectors.columns[low_rank.column_at(column) * count + i]
            trial[i] = total
        solve_trial(system, workspace, vectors)
        if HEATING == PRESSURE and not MOLECULES and column > -3:
            low_rank.add_dilution(system, workspace, vectors, dilution)
        if column < 0:
            for i in no_unroll(share(group, 0, count)):
                vectors.columns[low_rank.column_at(column) * count + i] = trial[i]
        elif PLASMA:
            low_rank.add_electrons(system, workspace, vectors, electrons, squares)
    if SELF_HEATING:
        put_gain(workspace, trial, heat)
    lost = 0.0
    # The temperature of the next stage follows from these amounts.
    if SELF_HEATING and FLOW != STIRRED and keeps:
        lost = projection.keep_sums(system.invariants, vectors.y, trial, vectors.gram, group)
    for i in no_unroll(share(group, 0, count)):
        U[stage * count + i] = trial[i]
    return lost


@no_refcount
def integrate_zone(system, method, workspace, vectors, history, grid, rtol, max_steps, out):
    """Integrate one zone; `out` [time, variable] is filled, its first row being the start.

    `history` has the conditions of this zone. Returns the status, steps taken, steps repeated, the
    largest defect that was corrected and, if the zone heats itself, the time when its temperature
    rose fastest.
    """
    group = workspace.group
    y, new, change, trial = vectors.y, vectors.new, vectors.change, vectors.trial
    count, species_count = system.absolute.size, system.invariants.shape[1]
    absolute = history.tolerances[:count] if OWN_TOLERANCES else system.absolute
    if OWN_TOLERANCES:
        rtol = history.tolerances[count]
    begin_zone(system, workspace, vectors, history, out)
    # The time is `since` after the knot `below`.
    begin, since, below, last, h = grid[0], 0.0, 0, 0, 0.0
    whole = grid[grid.size - 1] - begin
    turns = turns_of(system.rates)
    place, taken, repeated, defect = 1, 0, 0, 0.0
    peak, steepest = math.nan, 0.0
    before, speed, ago, pushed = 0.0, 0.0, 0.0, 0.0
    after_reject, ends, sound, finite, keeps = False, False, True, True, True
    hot, dense, heat = 0.0, 0.0, Heat(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    dilution = 0.0, 0.0
    isobar = isobar_of(system.thermo, history.density[0], y, group)
    while place < grid.size:
        if taken + repeated >= max_steps:
            return endings.TOO_MANY_STEPS, taken, repeated, defect, peak
        blur = 0.0
        for turn in no_unroll(range(turns.last + method.m.size)):
            stage = turn - turns.last
            put_amounts(method, vectors, count, turn, stage, turns, species_count, group)
            put_own_powers(system, new, group)
            if DYNAMIC:
                step = StepTime(below, since, last, h)
                hot, dense = put_conditions(
                    system, method, workspace, vectors, history, turn, turns, step, heat, isobar
                )
            change_at(system, workspace, new, trial)
            renewal = 0.0
            # A kind of collision partners changes only the reactions.
            reactions_alone = turn > 0 and turn < turns.warmer
            at, until = time_of(method, turn, turns, StepTime(below, since, last, h))
            if FLOW == STIRRED and not reactions_alone:
                renewal = renewal_of(system, history, below, until, at, group)
                add_inflow(history.inflow, renewal, new, trial, species_count, group)
            squeeze, level = 0.0, isobar
            if MOVING:
                squeeze = motion.put_motion(
                    system, history, hot, dense, new, reactions_alone, trial, group
                )
            elif COMPRESSED:
                squeeze = history_at(history.times, history.compression, below, until, at)
                _, level = given_at(history, isobar, below, until, at)
            if HEATING != FIXED:
                outside = 0.0
                if SELF_HEATING and not reactions_alone:
                    outside = outside_rate(
                        system, workspace, hot, dense, new, history, renewal, squeeze, level,
                        wall_at(history, below, until, at),
                    )  # fmt: skip
                    if turn == 0:
                        isobar = Isobar(isobar.pressure, dense)
                        heat = heat_of(system, workspace, hot, dense, new, trial, outside)
                    outside /= heat.capacity
                if group.rank == 0:
                    trial[species_count] = outside
                barrier(group)
            if FLOW == PLUG:
                set_age_rate(history.inflow, dense, reactions_alone, trial, species_count, group)
            if turn == 0:
                for i in no_unroll(share(group, 0, count)):
                    change[i] = trial[i]
                barrier(group)
                # Of nuclei that are compressed, the heat of reactions alone is not known.
                if HEATING != FIXED and (MOLECULES or not COMPRESSED) and taken > 0:
                    warmed, rise = y[species_count] - before, heat.rise
                    if COMPRESSED:  # the heat of reactions alone
                        warmed -= 0.5 * ago * (pushed + heat.outside)
                        rise -= heat.outside
                    base = begin
                    if TIMED:
                        base = history.times[below]
                    steepest, peak = step_control.fastest_heating(
                        warmed, speed, rise, ago, base, since, steepest, peak
                    )
                if taken + repeated == 0:
                    h = step_control.first_step(
                        absolute, rtol, y, change, heat.rise, species_count, whole,
                        group,
                    )  # fmt: skip
                if not (h > max(SHORTEST * since, VANISHED)) or not (h < math.inf):
                    lost = not (finite and h < math.inf)
                    status = endings.NOT_FINITE if lost else endings.STEP_TOO_SMALL
                    return status, taken, repeated, defect, peak
                h, last, ends = step_control.step_ahead(
                    history, StepTime(below, since, last, h), whole, rtol, grid[place]
                )
                put_own_powers(system, y, group)
                fill_slopes(system, workspace, vectors, y)
                if THIRD_BODIES:
                    keep_coefficients(workspace)
                if SELF_HEATING:
                    put_energy_row(
                        system, workspace, vectors, dense, y, heat, renewal, squeeze,
                        1.0 / (h * method.gamma),
                    )  # fmt: skip
                if MOVING:
                    motion.put_motion_rows(system, vectors, history, dense, heat, group)
                if HEATING != FIXED:
                    dilution = low_rank.dilution_of(system, workspace, y, hot, dense)
                if FLOW == STIRRED:
                    add_outflow(system, vectors, renewal, group)
            elif stage <= 0:
                put_direction(
                    system, workspace, vectors, turn, turns, dense, h, heat,
                    1.0 / (h * method.gamma),
                )  # fmt: skip
            if stage == 0:
                sound = factorize(system, vectors, 1.0 / (h * method.gamma))
            if stage >= 0:
                lost = solve_stage(
                    system, method, workspace, vectors, stage, turns, h, dilution, heat, keeps
                )
                blur = max(blur, lost)
        part = step_control.finish_step(
            method, absolute, rtol, system.thermo, workspace, vectors, species_count, heat
        )
        error = (total_of(group, part if sound else math.inf, 0) / count) ** 0.5
        finite = error < math.inf
        if not finite or error > 1.0 or blur > LOST:
            repeated += 1
            h *= 0.1 if blur > LOST else step_control.rejected_factor(method, error, finite)
            after_reject = True
            continue
        taken += 1
        if FED:
            projection.renew_fed_sums(
                system, method, history, StepTime(below, since, last, h), _LATER * h, vectors.gram,
                workspace.group,
            )  # fmt: skip
        elif FLOW == STIRRED:
            elapsed = since + h
            if TIMED:
                elapsed += history.times[below] - history.times[0]
            projection.renew_sums(
                system.invariants, history.inflow, elapsed, h, vectors.gram, group
            )
        worst = projection.project(system.invariants, new, vectors.gram, group)
        defect = max(defect, worst)
        keeps = max(blur, worst) > BLURRED * rtol
        if SELF_HEATING:
            own, level = given_at(history, isobar, below, last, since + h)
            own = motion.own_density(history, own, new, species_count)
            step_control.end_temperature(system, method, workspace, vectors, heat, level, own)
        stop, base = grid[grid.size - 1], begin
        if TIMED:
            stop, base = history.times[last + 1], history.times[below]
        place = step_control.fill_output(
            system, method, workspace, vectors, heat, isobar, history, (below, last), grid, place,
            base, since, h, stop, ends, out,
        )  # fmt: skip
        if HEATING != FIXED:
            before, speed, ago = y[species_count], heat.rise, h
            if COMPRESSED:
                speed, pushed = heat.rise - heat.outside, heat.outside
            barrier(group)
        for i in no_unroll(share(group, 0, count)):
            y[i] = new[i]
        below, since = step_control.time_after(history, below, since, last, h, ends)
        factor = step_control.step_factor(method, error)
        h *= min(factor, 1.0) if after_reject else factor
        after_reject = False
    return endings.DONE, taken, repeated, defect, peak


# --- CPU ------------------------------------------------------------------------------------------


def room_of(system, method):
    """Workspace and vectors of a zone."""
    count, rates, species = system.absolute.size, system.rates, system.invariants.shape[1]
    nothing = np.empty(0)
    workspace = Workspace(
        np.empty(rates.slot_start.size - 1),
        np.empty(slope_count(rates)) if THIRD_BODIES else nothing,
        np.empty(rates.order.size) if THIRD_BODIES else nothing,
        np.empty(rates.efficiency.shape[0]) if THIRD_BODIES else nothing,
        np.empty(species) if REVERSIBLE else nothing,
        np.empty(species) if HEATING != FIXED else nothing,
        np.empty(system.flows.complex.size),
        np.empty(system.complexes.first.size),
        np.empty(3 * system.complexes.first.size + (system.powers.species.size if POWERS else 0)),
        nothing,
        ONE,
        np.empty(memory_count(rates)),
    )
    width = count + 1
    if POWERS:
        width += system.powers.start.size - 1 + system.powers.species.size
    vectors = StepVectors(
        np.empty(width),
        np.empty(width),
        np.empty(count),
        np.empty(count + 1),
        np.empty(count),
        np.empty(3 * count) if PLASMA or HEATING == PRESSURE else nothing,
        np.empty(method.m.size * count),
        np.empty(system.plan.column.size + 1),
        np.empty(count),
        np.empty(
            (system.invariants.shape[0] + 3) * system.invariants.shape[0]
            + (projection.STAGES if FED else 0)
        ),
        nothing,
        nothing,
    )
    return workspace, vectors


def integrate_cpu(start, stop, system, method, history, grid, rtol, max_steps, outcome):
    """Zones `start` to `stop`, one after another."""
    made, also = room_of(system, method)
    system, method = by_reference(system), by_reference(method)
    workspace, vectors = by_reference(made), by_reference(also)
    for zone in range(start, stop):
        found = integrate_zone(
            system, method, workspace, vectors, history_of(history, zone), grid, rtol, max_steps,
            outcome.amounts[zone],
        )  # fmt: skip
        endings.write(outcome, zone, found)
    hold(made)
    hold(also)
