"""Stirred tanks in series, by a Rosenbrock method for all tanks of a chain together.

What flows out of a tank is what is in it, and flows into the next one. With the amounts Y of the
mass in tank k, whose mass is m_k,

    dY_k/dt = (reactions) + (q Y_(k-1) - Y_k) / tau_k,    q = m_k / m_(k-1),

and the enthalpy of the inflow is q times that of tank k - 1. No tank depends on those behind it, so
the Jacobian of a chain is block-triangular, and the linear system of a stage (see `rosenbrock`) is
solved tank by tank:

    W_k U_ik = f_k + sum (c_ij / h) U_jk + (q / tau_k) U_i(k-1).

All tanks take the same steps. Stages and their solutions are handed from tank to tank, so the
inflow is neither tabulated nor interpolated: the chain is one system of equations, and its error is
controlled as such.

Conserved sums S of a tank, such as atoms of an element, obey S_k' = (q S_(k-1) - S_k) / tau_k. The
method is applied to this equation, too, with the sums that were handed over; they are restored
after every step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import by_reference, hold, no_refcount, no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elementary import log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics import endings
from ergode.kinetics.condition_history import NEARLY, history_of, wall_at
from ergode.kinetics.implicit import rosenbrock, step_control
from ergode.kinetics.implicit.energy import (
    Heat,
    Isobar,
    heat_of,
    outside_rate,
    put_energy_row,
)
from ergode.kinetics.implicit.system import (
    add_inflow,
    add_outflow,
    change_at,
    fill_slopes,
    keep_coefficients,
    put_own_powers,
)
from ergode.kinetics.implicit.turns import StepTime, turns_of
from ergode.kinetics.kernel_options import (
    HEATING,
    OWN_TOLERANCES,
    SELF_HEATING,
    THIRD_BODIES,
)
from ergode.kinetics.network.projection import project, renew_sums
from ergode.kinetics.physics.rates import energy_of, heat_capacity
from ergode.kinetics.tables import FIXED
from ergode.models.constants import GAS_CONSTANT

# --- device functions -----------------------------------------------------------------------------

_BEFORE, _SPEED, _STEEPEST, _PEAK, _RISE, _HEATING = range(6)
"""Columns of `Chain.heating`; the last is their number."""


class Chain(NamedTuple):
    """What is kept of the tanks of a chain within a step."""

    y: np.ndarray  # [tank_count * variable_count]: amounts at the start of the step
    new: np.ndarray  # the same at its end
    # [2 * stage_count * (species_count + 1)]: amounts, and enthalpy [erg], of a tank at every
    # stage. Two tanks take turns.
    stages: np.ndarray
    # The same of the solutions: changes of the amounts, and of the enthalpy.
    solutions: np.ndarray
    gram: np.ndarray  # [tank_count * (invariant_count + 3) * invariant_count]: see `StepVectors`
    sums: np.ndarray  # [tank_count * invariant_count]: conserved sums at the start of the step
    gained: np.ndarray  # [stage_count]: solutions of one sum
    # [tank_count * 5]: of the temperature of each tank: before the last step; its slope by
    # reactions there; the steepest slope, and its time; its slope at the start of the step.
    heating: np.ndarray


def chain_count(variables, species, invariants, stages, tanks):
    """Numbers that a chain keeps."""
    found = tanks * (2 * variables + (invariants + 4) * invariants + _HEATING)
    return found + 4 * stages * (species + 1) + stages


def chain_in(memory, variables, species, invariants, stages, tanks):
    """The parts of so much memory."""
    a = tanks * variables
    b = a + tanks * variables
    c = b + 2 * stages * (species + 1)
    d = c + 2 * stages * (species + 1)
    e = d + tanks * (invariants + 3) * invariants
    f = e + tanks * invariants
    g = f + stages
    return Chain(
        memory[0:a], memory[a:b], memory[b:c], memory[c:d], memory[d:e], memory[e:f], memory[f:g],
        memory[g : g + tanks * _HEATING],
    )  # fmt: skip


def row_of(tank, stage, method, width):
    """Where the row of a stage begins in `Chain.stages` and `Chain.solutions`."""
    return (((tank & 1) * method.m.size + stage) * width) & NONNEGATIVE


def gram_of(system, chain, tank):
    """The row of a tank, as `StepVectors.gram`, in a tuple."""
    size = (system.invariants.shape[0] + 3) * system.invariants.shape[0]
    return (chain.gram[tank * size : (tank + 1) * size],)


def receive(method, chain, history, tank, stage, species_count, group):
    """Put what flows into a tank at a stage where the inflow of a zone is; ends in a barrier."""
    if tank > 0:
        ratio = history.inflow[history.inflow.size - 1]
        row = row_of(tank - 1, stage, method, species_count + 1)
        for i in no_unroll(share(group, 0, species_count + 1)):
            history.inflow[i] = ratio * chain.stages[row + i]
    barrier(group)


def hand_over(system, method, chain, tank, stage, temperature, y, group):
    """Keep the amounts of a stage, and their enthalpy, for the next tank."""
    thermo, species_count = system.thermo, system.invariants.shape[1]
    row = row_of(tank, stage, method, species_count + 1)
    enthalpy = 0.0
    if SELF_HEATING:
        inverse, logarithm = 1.0 / temperature, log(temperature)
        for i in no_unroll(share(group, 0, species_count)):
            one = energy_of(thermo, temperature, inverse, logarithm, i)
            enthalpy += y[i] * (one + GAS_CONSTANT * temperature)
        enthalpy = total_of(group, enthalpy, 0)
    for i in no_unroll(share(group, 0, species_count)):
        chain.stages[row + i] = y[i]
    if group.rank == 0:
        chain.stages[row + species_count] = enthalpy
    barrier(group)


def hand_over_solution(system, method, workspace, vectors, chain, tank, stage, heat, group):
    """Keep the solution of a stage, and its change of the enthalpy, for the next tank."""
    thermo, species_count = system.thermo, system.invariants.shape[1]
    row = row_of(tank, stage, method, species_count + 1)
    x, y, t = vectors.trial, vectors.y, heat.temperature
    change = 0.0
    if SELF_HEATING:
        # The solution has the change of the energy over the heat capacity where dT was.
        taken, capacity, inverse, logarithm = 0.0, 0.0, 1.0 / t, log(t)
        for i in no_unroll(share(group, 0, species_count)):
            taken += workspace.energies[i] * x[i]
            one = energy_of(thermo, t, inverse, logarithm, i) + GAS_CONSTANT * t
            change += one * x[i]
            capacity += y[i] * (heat_capacity(thermo, t, i) + GAS_CONSTANT)
        taken = total_of(group, taken, 0)
        change = total_of(group, change, 1)
        barrier(group)
        warmer = x[species_count] - taken / heat.capacity
        change += total_of(group, capacity, 0) * warmer
    for i in no_unroll(share(group, 0, species_count)):
        chain.solutions[row + i] = x[i]
    if group.rank == 0:
        chain.solutions[row + species_count] = change
    barrier(group)


def add_solution(method, chain, history, tank, stage, heat, species_count, found, group):
    """Add what the solution of the tank before does to this one; ends in a barrier."""
    if tank > 0:
        factor = history.inflow[species_count + 1] * history.inflow[history.inflow.size - 1]
        row = row_of(tank - 1, stage, method, species_count + 1)
        for i in no_unroll(share(group, 0, species_count)):
            found[i] += factor * chain.solutions[row + i]
        if SELF_HEATING and group.rank == 0:
            found[species_count] += factor * chain.solutions[row + species_count] / heat.capacity
    barrier(group)


def sums_after(system, method, chain, history, tank, elapsed, h, renewal, group):
    """Compute the sums of a tank after a step, into its row of `gram`; ends in a barrier."""
    count, species_count = system.invariants.shape
    place = count * (count + 2)
    (gram,) = gram_of(system, chain, tank)
    if group.rank == 0:
        for k in no_unroll(range(count)):
            gram[place + k] = chain.sums[tank * count + k]
    barrier(group)
    if tank == 0:
        renew_sums(system.invariants, history.inflow, elapsed, h, gram, group)
    elif group.rank == 0:
        ratio = history.inflow[history.inflow.size - 1]
        for k in no_unroll(range(count)):
            total = chain.sums[tank * count + k]
            for stage in no_unroll(range(method.m.size)):
                row = row_of(tank - 1, stage, method, species_count + 1)
                into, change = 0.0, 0.0
                for i in no_unroll(range(species_count)):
                    into += system.invariants[k, i] * chain.stages[row + i]
                    change += system.invariants[k, i] * chain.solutions[row + i]
                own, before = chain.sums[tank * count + k], 0.0
                for j in no_unroll(range(stage)):
                    own += method.a[stage, j] * chain.gained[j]
                    before += method.c[stage, j] * chain.gained[j]
                gain = renewal * (ratio * (into + change) - own) + before / h
                gain /= 1.0 / (h * method.gamma) + renewal
                chain.gained[stage] = gain
                total += method.m[stage] * gain
                scale = k * (count + 2) + count + 1
                gram[scale] = max(gram[scale], abs(ratio * into))
            gram[place + k] = total
    barrier(group)


def keep_the_sums(system, chain, tanks, group):
    """Take the sums at the end of a step for those at the start of the next one."""
    count = system.invariants.shape[0]
    place = count * (count + 2)
    if group.rank == 0:
        for tank in no_unroll(range(tanks)):
            (gram,) = gram_of(system, chain, tank)
            for k in no_unroll(range(count)):
                chain.sums[tank * count + k] = gram[place + k]
    barrier(group)


def load(chain, vectors, tank, count, group):
    """Take the amounts of a tank at the start of the step; ends in a barrier."""
    for i in no_unroll(share(group, 0, count)):
        vectors.y[i] = chain.y[tank * count + i]
    barrier(group)


def tolerances_at(system, history, rtol):
    """Absolute tolerances and the relative one of a tank."""
    if OWN_TOLERANCES:
        count = system.absolute.size
        return history.tolerances[:count], history.tolerances[count]
    return system.absolute, rtol


def first_step_of(system, method, workspace, vectors, chain, histories, first, tanks, rtol, span):
    """The first step: the shortest that one of the tanks alone would take."""
    group, species_count = workspace.group, system.invariants.shape[1]
    count, turns, shortest = system.absolute.size, turns_of(system.rates), span
    step, heat = StepTime(0, 0.0, 0, 0.0), Heat(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for tank in no_unroll(range(tanks)):
        history = history_of(histories, first + tank)
        load(chain, vectors, tank, count, group)
        heat, _ = evaluate(
            system, method, workspace, vectors, chain, history, tank, 0, turns, step, heat
        )
        absolute, relative = tolerances_at(system, history, rtol)
        h = step_control.first_step(
            absolute, relative, vectors.y, vectors.change, heat.rise, species_count, span, group
        )
        shortest = min(shortest, h)
    return shortest


def evaluate(system, method, workspace, vectors, chain, history, tank, turn, turns, step, heat):
    """Evaluate dy/dt of a turn, into `vectors.trial`, at turn 0 also into `vectors.change`.

    Returns the heat at the start of the step, and the density; ends in a barrier.
    """
    group, new, trial = workspace.group, vectors.new, vectors.trial
    count, species_count = system.absolute.size, system.invariants.shape[1]
    stage, isobar = max(turn - turns.last, 0), Isobar(0.0, 0.0)
    rosenbrock.put_amounts(
        method, vectors, count, turn, turn - turns.last, turns, species_count, group
    )
    put_own_powers(system, new, group)
    hot, dense = rosenbrock.put_conditions(
        system, method, workspace, vectors, history, turn, turns, step, heat, isobar
    )
    change_at(system, workspace, new, trial)
    renewal = history.inflow[species_count + 1]
    # A kind of collision partners changes only the reactions.
    reactions_alone = turn > 0 and turn < turns.warmer
    if not reactions_alone:
        receive(method, chain, history, tank, stage, species_count, group)
        add_inflow(history.inflow, renewal, new, trial, species_count, group)
    if HEATING != FIXED:
        outside = 0.0
        if SELF_HEATING and not reactions_alone:
            outside = outside_rate(
                system, workspace, hot, dense, new, history, renewal, 0.0, isobar,
                wall_at(history, 0, 0, 0.0),
            )  # fmt: skip
            if turn == 0:
                heat = heat_of(system, workspace, hot, dense, new, trial, outside)
            outside /= heat.capacity
        if group.rank == 0:
            trial[species_count] = outside
        barrier(group)
    if turn == 0:
        for i in no_unroll(share(group, 0, count)):
            vectors.change[i] = trial[i]
        barrier(group)
    if turn == 0 or turn > turns.last:
        hand_over(system, method, chain, tank, stage, hot, new, group)
    return heat, dense


def step_of_tank(system, method, workspace, vectors, chain, history, tank, turns, step, rtol):
    """Try a step of one tank; returns the error, and the heat at the start of the step.

    The solution is in `vectors.new`, but for its temperature.
    """
    group, species_count = workspace.group, system.invariants.shape[1]
    count, h, sound = system.absolute.size, step.h, True
    change, trial = vectors.change, vectors.trial
    renewal = history.inflow[species_count + 1]
    load(chain, vectors, tank, count, group)
    heat = Heat(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for turn in no_unroll(range(turns.last + method.m.size)):
        stage = turn - turns.last
        heat, dense = evaluate(
            system, method, workspace, vectors, chain, history, tank, turn, turns, step, heat
        )
        if turn == 0:
            put_own_powers(system, vectors.y, group)
            fill_slopes(system, workspace, vectors, vectors.y)
            if THIRD_BODIES:
                keep_coefficients(workspace)
            if SELF_HEATING:
                put_energy_row(
                    system, workspace, vectors, dense, vectors.y, heat, renewal, 0.0,
                    1.0 / (h * method.gamma),
                )  # fmt: skip
            add_outflow(system, vectors, renewal, group)
        elif stage <= 0:
            rosenbrock.put_direction(
                system, workspace, vectors, turn, turns, dense, h, heat, 1.0 / (h * method.gamma)
            )
        if stage == 0:
            sound = rosenbrock.factorize(system, vectors, 1.0 / (h * method.gamma))
            add_solution(method, chain, history, tank, 0, heat, species_count, change, group)
        elif stage > 0:
            add_solution(method, chain, history, tank, stage, heat, species_count, trial, group)
        if stage >= 0:
            rosenbrock.solve_stage(
                system, method, workspace, vectors, stage, turns, h, (0.0, 0.0), heat, False
            )
            barrier(group)
            hand_over_solution(system, method, workspace, vectors, chain, tank, stage, heat, group)
    absolute, relative = tolerances_at(system, history, rtol)
    part = step_control.finish_step(
        method, absolute, relative, system.thermo, workspace, vectors, species_count, heat
    )
    error = (total_of(group, part if sound else math.inf, 0) / count) ** 0.5
    return error, heat


def follow_heating(chain, tank, heat, hot, taken, ago, begin, since):
    """Update the time when a tank heated itself fastest, at the start of a step."""
    row = chain.heating[tank * _HEATING : (tank + 1) * _HEATING]
    if HEATING != FIXED and taken > 0:
        row[_STEEPEST], row[_PEAK] = step_control.fastest_heating(
            hot - row[_BEFORE], row[_SPEED], heat.rise, ago, begin, since, row[_STEEPEST],
            row[_PEAK],
        )  # fmt: skip
    row[_RISE] = heat.rise


@no_refcount
def integrate_chain(
    system, method, workspace, vectors, chain, histories, first, tanks, grid, rtol, max_steps,
    outcome,
):  # fmt: skip
    """Integrate the tanks of a chain, the zones from `first` on, and fill their outcome."""
    group = workspace.group
    count, species_count = system.absolute.size, system.invariants.shape[1]
    begin, since = grid[0], 0.0
    whole = grid[grid.size - 1] - begin
    turns = turns_of(system.rates)
    for tank in no_unroll(range(tanks)):
        rosenbrock.begin_zone(
            system, workspace, vectors, history_of(histories, first + tank),
            outcome.amounts[first + tank],
        )  # fmt: skip
        for i in no_unroll(share(group, 0, count)):
            chain.y[tank * count + i] = vectors.y[i]
        (gram,) = gram_of(system, chain, tank)
        for i in no_unroll(share(group, 0, gram.size)):
            gram[i] = vectors.gram[i]
        if group.rank == 0:
            outcome.defect[first + tank] = 0.0
            for k in no_unroll(range(_HEATING)):
                chain.heating[tank * _HEATING + k] = math.nan if k == _PEAK else 0.0
        barrier(group)
    keep_the_sums(system, chain, tanks, group)
    h = first_step_of(
        system, method, workspace, vectors, chain, histories, first, tanks, rtol, whole
    )
    place, taken, repeated, ago, status = 1, 0, 0, 0.0, endings.DONE
    after_reject, finite = False, True
    while place < grid.size:
        if taken + repeated >= max_steps:
            status = endings.TOO_MANY_STEPS
            break
        if not (h > max(rosenbrock.SHORTEST * since, rosenbrock.VANISHED)) or not (h < math.inf):
            status = endings.STEP_TOO_SMALL if finite and h < math.inf else endings.NOT_FINITE
            break
        ends = h * NEARLY >= whole - since
        h = whole - since if ends else h
        error, reached = 0.0, place
        for tank in no_unroll(range(tanks)):
            history, row = history_of(histories, first + tank), first + tank
            own, heat = step_of_tank(
                system, method, workspace, vectors, chain, history, tank, turns,
                StepTime(0, since, 0, h), rtol,
            )  # fmt: skip
            hot = vectors.y[species_count] if HEATING != FIXED else 0.0
            if group.rank == 0:
                follow_heating(chain, tank, heat, hot, taken, ago, begin, since)
            # A step that fails fails for all tanks.
            if not own <= 1.0:
                error = own if own < math.inf else math.inf
                break
            error = max(error, own)
            renewal = history.inflow[species_count + 1]
            sums_after(system, method, chain, history, tank, since + h, h, renewal, group)
            (gram,) = gram_of(system, chain, tank)
            worst = project(system.invariants, vectors.new, gram, group)
            if worst > rosenbrock.LOST:
                error = math.inf
                break
            if group.rank == 0:
                outcome.defect[row] = max(outcome.defect[row], worst)
            if SELF_HEATING:
                step_control.end_temperature(
                    system, method, workspace, vectors, heat, Isobar(0.0, 0.0), history.density[0]
                )
            # Written again where a tank behind fails.
            reached = step_control.fill_output(
                system, method, workspace, vectors, heat, Isobar(0.0, 0.0), history, (0, 0), grid,
                place, begin, since, h, grid[grid.size - 1], ends, outcome.amounts[row],
            )  # fmt: skip
            for i in no_unroll(share(group, 0, count)):
                chain.new[tank * count + i] = vectors.new[i]
            barrier(group)
        finite = error < math.inf
        if not finite or error > 1.0:
            repeated += 1
            h *= step_control.rejected_factor(method, error, finite)
            after_reject = True
            continue
        taken += 1
        place, ago = reached, h
        for tank in no_unroll(range(tanks)):
            if group.rank == 0 and HEATING != FIXED:
                at = tank * _HEATING
                chain.heating[at + _BEFORE] = chain.y[tank * count + species_count]
                chain.heating[at + _SPEED] = chain.heating[at + _RISE]
            barrier(group)
            for i in no_unroll(share(group, 0, count)):
                chain.y[tank * count + i] = chain.new[tank * count + i]
            barrier(group)
        keep_the_sums(system, chain, tanks, group)
        since += h
        factor = step_control.step_factor(method, error)
        h *= min(factor, 1.0) if after_reject else factor
        after_reject = False
    if status != endings.DONE:  # a step that failed has written what is not reached
        barrier(group)
        for tank in no_unroll(range(tanks)):
            for point in no_unroll(range(place, grid.size)):
                for i in no_unroll(share(group, 0, count)):
                    outcome.amounts[first + tank, point, i] = math.nan
    if group.rank == 0:
        for tank in no_unroll(range(tanks)):
            outcome.status[first + tank] = status
            outcome.taken[first + tank] = taken
            outcome.repeated[first + tank] = repeated
            outcome.fastest_heating[first + tank] = chain.heating[tank * _HEATING + _PEAK]


# --- CPU ------------------------------------------------------------------------------------------


def integrate_chains_cpu(
    start, stop, system, method, history, grid, rtol, max_steps, tank_count, outcome
):
    """Chains `start` to `stop`, one after another."""
    made, also = rosenbrock.room_of(system, method)
    sizes = system.absolute.size, system.invariants.shape[1], system.invariants.shape[0]
    memory = np.empty(chain_count(sizes[0], sizes[1], sizes[2], method.m.size, tank_count))
    kept = chain_in(memory, sizes[0], sizes[1], sizes[2], method.m.size, tank_count)
    system, method = by_reference(system), by_reference(method)
    workspace, vectors, chain = by_reference(made), by_reference(also), by_reference(kept)
    for one in range(start, stop):
        integrate_chain(
            system, method, workspace, vectors, chain, history, one * tank_count, tank_count, grid,
            rtol, max_steps, outcome,
        )  # fmt: skip
    hold(made)
    hold(also)
    hold(kept)
