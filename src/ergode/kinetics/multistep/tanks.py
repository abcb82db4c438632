"""Backward differentiation formulas for stirred tanks that are connected in any way.

What flows into a tank is its feed and what is in others. With the amounts Y of the mass in each,

    dY_k/dt = (reactions) + r_k (F_k + sum of w_kj Y_j - Y_k),

where r_k is the flow in over the mass, F_k the feed's part of it, and w_kj the part that comes from
tank j, times the ratio of the masses m_k / m_j. All tanks take the same steps, and the largest of
their errors decides. The matrix of Newton's method has a block for each tank (see `corrector`) and
diagonal blocks r_k w_kj beside them. A solution is found by sweeps of Gauss and Seidel from tank to
tank. Where no tank flows back to one before it, one sweep is exact. Otherwise they converge, for
every tank also flows out and has its own diagonal.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import (
    by_reference,
    no_refcount,
    no_unroll,
    noinline_cpu,
    noinline_cuda,
)
from ergode.core.group import ONE, barrier, meet, share, total_of
from ergode.core.math import nordsieck
from ergode.kinetics import endings
from ergode.kinetics.condition_history import history_of, wall_at
from ergode.kinetics.kernel_options import EXCHANGES, OWN_TOLERANCES, SELF_HEATING, SUNLIT
from ergode.kinetics.multistep import activities, coefficients, corrector, formulas
from ergode.kinetics.multistep.conditions import put_formula_inputs
from ergode.kinetics.multistep.outside import begin_kept, put_first, work_of
from ergode.kinetics.multistep.room import ARRAYS, clear
from ergode.kinetics.multistep.tank_in_hand import (
    CAPACITY,
    CARRIED,
    DEFECT,
    ENERGY,
    ENTHALPY,
    PEAK,
    START,
    STEEPEST,
    Net,
    apart,
    in_hand,
    memory_of,
    tank_at,
    tank_size,
)
from ergode.kinetics.network.projection import conserved
from ergode.models.constants import GAS_CONSTANT

# --- device functions -----------------------------------------------------------------------------

SWEEPS, _NEARLY = 200, 0.1
"""Most sweeps; change of the solution over the allowed error at which they end."""


def setting_of(net, tank, k):
    """What a tank has during a step."""
    conditions = history_of(net.conditions, net.first + k)
    passage, around = wall_at(conditions, 0, 0, 0.0)
    return activities.Setting(
        conditions.factors, conditions.density[0], conditions.sunlight[0] if SUNLIT else 1.0,
        tank.own[START], tank.own[ENERGY], 0.0, passage, around,
        conditions.inflow[tank.zone.matter.shape[1] + 1], tank.entering, (),
    )  # fmt: skip


def weight_of(net, k, j):
    """The part of the flow into tank k that comes from tank j; at the end, from outside."""
    inflow = net.conditions.inflow
    return inflow[net.first + k, inflow.shape[1] - 1 - net.tanks + j]


def sweeps_of(net):
    """Most sweeps of a solution: one where no tank flows back to one before it."""
    for k in no_unroll(range(net.tanks)):
        for j in no_unroll(range(k + 1, net.tanks)):
            if weight_of(net, k, j) > 0.0:
                return SWEEPS
    return 1


@noinline_cuda
def put_outflow(tank):
    """Put the enthalpy of what flows out, and its heat capacity."""
    if SELF_HEATING:
        zone, y, species = tank.zone, tank.vectors.y, tank.zone.matter.shape[1]
        energy, capacity = activities.energy_of_zone(zone, y)
        if work_of(zone) != 0.0:
            gas = GAS_CONSTANT * activities.sum_of_amounts(zone, y)
            energy, capacity = energy + gas * zone.hot[0, 0], capacity + gas
        barrier(zone.group)
        if zone.group.rank == 0:
            tank.own[ENTHALPY] = energy + capacity * (y[species] - zone.hot[0, 0])
            tank.own[CARRIED] = capacity
        barrier(zone.group)


@noinline_cuda
@noinline_cpu
def put_entering(net, tank, k):
    """Put what flows into a tank: amounts, and their enthalpy; ends in a barrier."""
    species, feed = tank.zone.matter.shape[1], history_of(net.conditions, net.first + k).inflow
    fed = weight_of(net, k, net.tanks)
    barrier(net.group)
    for i in no_unroll(share(net.group, 0, species + 1)):
        tank.entering[i] = fed * feed[i] if fed > 0.0 else 0.0
    for j in no_unroll(range(net.tanks)):
        weight = weight_of(net, k, j)
        if weight > 0.0:
            other = tank_at(net, j)
            for i in no_unroll(share(net.group, 0, species + 1)):
                one = other.own[ENTHALPY]
                if i < species:
                    one = other.vectors.y[i]
                tank.entering[i] += weight * one
    barrier(net.group)


@noinline_cuda
@noinline_cpu
def put_entering_sums(net, tank, k, turns):
    """Put the conserved sums of what flows into a tank, at the end of a step if it `turns`."""
    chemistry, species = net.chemistry, tank.zone.matter.shape[1]
    place = tank.vectors.y.size + (1 if EXCHANGES else 0)
    feed = history_of(net.conditions, net.first + k).inflow
    fed = weight_of(net, k, net.tanks)
    barrier(net.group)
    for s in no_unroll(share(net.group, 0, chemistry.invariants.shape[0])):
        total = fed * feed[species + 2 + s] if fed > 0.0 else 0.0
        for j in no_unroll(range(net.tanks)):
            weight = weight_of(net, k, j)
            if weight > 0.0:
                other = tank_at(net, j).vectors
                one = other.history[0, place + s]
                if turns:
                    one += other.correction[place + s]
                total += weight * one
        tank.entering[species + 2 + s] = total
    barrier(net.group)


@noinline_cpu
def settle_sums(net, gamma, sweeps):
    """Put the corrections of the conserved sums of all tanks, by sweeps."""
    species, place = net.chemistry.invariants.shape[1], 0
    for _ in no_unroll(range(sweeps)):
        most = 0.0
        for k in no_unroll(range(net.tanks)):
            tank = by_reference(in_hand(net, k))
            correction, place = tank.vectors.correction, tank.vectors.y.size
            place += 1 if EXCHANGES else 0
            put_entering_sums(net, tank, k, True)
            for s in no_unroll(share(net.group, 0, net.chemistry.invariants.shape[0])):
                tank.right[s] = correction[place + s]
            setting = setting_of(net, tank, k)
            corrector.correct_kept(net.chemistry, tank.vectors, setting, 1.0, gamma)
            barrier(net.group)
            for s in no_unroll(range(net.chemistry.invariants.shape[0])):
                scale = abs(tank.entering[species + 2 + s]) + abs(
                    tank.vectors.history[0, place + s]
                )
                if scale > 0.0:
                    most = max(most, abs(correction[place + s] - tank.right[s]) / scale)
        if most <= 1e-15:
            break


@noinline_cpu
def begin_tank(net, k, out):
    """Put a tank's amounts at first."""
    tank = by_reference(in_hand(net, k))
    (mine,) = memory_of(net, k)
    clear(tank.zone, mine, mine)
    zone, vectors, own = tank.zone, tank.vectors, tank.own
    species, count, group = zone.matter.shape[1], vectors.y.size, net.group
    for i in no_unroll(share(group, 0, count)):
        vectors.y[i] = out[0, i]
        vectors.history[0, i] = out[0, i]
    barrier(group)
    hot = history_of(net.conditions, net.first + k).temperature[0]
    if out.shape[1] > species:
        hot = out[0, species]
    conserved(net.chemistry.invariants, vectors.y, vectors.gram, group)
    if group.rank == 0:
        own[START], own[PEAK], own[CAPACITY] = hot, math.nan, 1.0
    zone.between[0], zone.between[1] = math.inf, -math.inf
    barrier(group)
    if SELF_HEATING:
        coefficients.put_matter(net.chemistry, zone, hot, hot)
        energy, _ = activities.energy_of_zone(zone, vectors.y)
        if group.rank == 0:
            own[ENERGY] = energy
            vectors.history[0, count] = energy
    put_first(vectors, net.chemistry.invariants.shape[0])
    conditions = history_of(net.conditions, net.first + k)
    put_formula_inputs(net.chemistry, zone, conditions, setting_of(net, tank, k), 0, 0, 0.0)
    barrier(group)


def tolerances_of(net, k, rtol):
    """Absolute tolerances of a tank, and its relative one."""
    absolute = net.chemistry.absolute
    if OWN_TOLERANCES:
        own = history_of(net.conditions, net.first + k).tolerances
        return own[: absolute.size], own[own.size - 1]
    return absolute, rtol


def put_weights(net, rtol):
    """Put one over the allowed errors of a step of all tanks."""
    for k in no_unroll(range(net.tanks)):
        vectors = tank_at(net, k).vectors
        absolute, relative = tolerances_of(net, k, rtol)
        formulas.put_weights(absolute, relative, vectors.history, vectors.weight, net.group)


@noinline_cpu
def begin(net, span):
    """Begin all tanks with order 1; returns the first step."""
    h = span
    if SELF_HEATING:
        for k in no_unroll(range(net.tanks)):
            tank = by_reference(in_hand(net, k))
            hot = tank.vectors.y[tank.zone.matter.shape[1]]
            coefficients.put_matter(net.chemistry, tank.zone, tank.own[START], hot)
            put_outflow(tank)
    for k in no_unroll(range(net.tanks)):
        tank = by_reference(in_hand(net, k))
        setting = setting_of(net, tank, k)
        if not SELF_HEATING:
            coefficients.put_heat(net.chemistry, tank.zone, setting, setting.start)
        put_entering(net, tank, k)
        put_entering_sums(net, tank, k, False)
        h = min(h, formulas.begin(net.chemistry, tank.zone, tank.vectors, setting, span))
    for k in no_unroll(range(net.tanks)):
        tank = by_reference(in_hand(net, k))
        vectors, setting = tank.vectors, setting_of(net, tank, k)
        outside = corrector.put_all_rates(net.chemistry, tank.zone, vectors, setting)
        for i in no_unroll(share(net.group, 0, vectors.y.size)):
            vectors.history[1, i] = h * vectors.change[i]
        if EXCHANGES:
            vectors.history[1, vectors.y.size] = h * outside
        begin_kept(net.chemistry, vectors, setting, 1.0, h)
        barrier(net.group)
    return h


@noinline_cpu
def put_right(net, k, gamma, factored):
    """Put the right-hand side of an iteration."""
    tank = by_reference(in_hand(net, k))
    zone, vectors, species = tank.zone, tank.vectors, tank.zone.matter.shape[1]
    history, y = vectors.history, vectors.y
    put_entering(net, tank, k)
    for i in no_unroll(share(net.group, 0, y.size)):
        if i != species:
            one = gamma * vectors.change[i] - history[1, i] / vectors.gain[1]
            tank.right[i] = (one - vectors.correction[i]) / factored
        tank.step[i] = 0.0
    if SELF_HEATING:
        setting = setting_of(net, tank, k)
        # The workspace may be at another temperature nearby.
        energy, capacity = activities.energy_of_zone(zone, y)
        energy += capacity * (y[species] - zone.hot[0, 0])
        target = history[0, y.size] + corrector.gain_of_energy(zone, vectors, setting, gamma)
        tank.right[species] = (target - energy) / (tank.own[CAPACITY] * factored)
    barrier(net.group)


@noinline_cpu
def sweep(net, k):
    """Solve for one tank, with what is known of others; returns the square of the change."""
    tank = by_reference(in_hand(net, k))
    vectors, species = tank.vectors, tank.zone.matter.shape[1]
    b, renewal = vectors.trial, setting_of(net, tank, k).renewal
    for i in no_unroll(share(net.group, 0, b.size)):
        b[i] = tank.right[i]
    barrier(net.group)
    for j in no_unroll(range(net.tanks)):
        weight = renewal * weight_of(net, k, j)
        if weight > 0.0:
            other = tank_at(net, j)
            for i in no_unroll(share(net.group, 0, species)):
                b[i] += weight * other.step[i]
            if SELF_HEATING:
                brought, gas = 0.0, 0.0
                if work_of(tank.zone) != 0.0:
                    (kept,) = apart(net, j)
                    gas = GAS_CONSTANT * kept[2]
                for i in no_unroll(share(net.group, 0, species)):
                    brought += other.step[i] * (other.zone.matter[1, i] + gas)
                brought = total_of(net.group, brought, 0)
                brought += other.own[CARRIED] * other.step[species]
                barrier(net.group)
                if net.group.rank == 0:
                    b[species] += weight * brought / tank.own[CAPACITY]
    barrier(net.group)
    corrector.solve_trial(net.chemistry, vectors)
    total = 0.0
    for i in no_unroll(share(net.group, 0, b.size)):
        one = (b[i] - tank.step[i]) * vectors.weight[i]
        tank.step[i] = b[i]
        total += one * one
    barrier(net.group)
    return total_of(net.group, total, 0) / b.size


@noinline_cpu
def correct(net, h, allowed, kept, anew, sweeps):
    """Solve for a step of all tanks, whose predictions are in the histories (see `corrector`)."""
    gamma, again = h / net.gain[1], anew
    while True:
        for k in no_unroll(range(net.tanks)):
            vectors = tank_at(net, k).vectors
            for i in no_unroll(share(net.group, 0, vectors.correction.size)):
                vectors.correction[i] = 0.0
                if i < vectors.y.size:
                    vectors.y[i] = vectors.history[0, i]
        barrier(net.group)
        fresh = again or kept.slopes_age >= corrector.AGE
        state, rate, last, part = corrector.DIVERGED, kept.rate, 0.0, 1.0
        for turn in range(corrector.ITERATIONS):
            renews = turn == 0 and fresh
            factors = turn == 0 and (
                fresh or kept.factors_age >= corrector.AGE
                or abs(gamma / kept.gamma - 1.0) > corrector.CHANGED
            )  # fmt: skip
            if renews:
                kept = corrector.Kept(0, kept.factors_age, kept.gamma, rate, 1.0)
            if factors:
                rate = 1.0
                kept = corrector.Kept(kept.slopes_age, 0, gamma, rate, 1.0)
            if turn == 0:
                part = 2.0 / (1.0 + gamma / kept.gamma)
            sound = 0.0
            for k in no_unroll(range(net.tanks)):
                sound += put_rates_of_tank(net, k, kept.gamma, renews, factors)
            if sound != 0.0:
                break
            for k in no_unroll(range(net.tanks)):
                put_right(net, k, gamma, kept.gamma)
            for _ in no_unroll(range(sweeps)):
                changed = 0.0
                for k in no_unroll(range(net.tanks)):
                    changed = max(changed, sweep(net, k))
                if not changed > (_NEARLY * allowed) ** 2:
                    break
            size, cold = 0.0, False
            for k in no_unroll(range(net.tanks)):
                vectors, step = tank_at(net, k).vectors, tank_at(net, k).step
                for i in no_unroll(share(net.group, 0, vectors.y.size)):
                    vectors.trial[i] = step[i] * part
                    vectors.correction[i] += step[i] * part
                    vectors.y[i] = vectors.history[0, i] + vectors.correction[i]
                barrier(net.group)
                if SELF_HEATING:
                    cold = cold or not vectors.y[net.chemistry.invariants.shape[1]] > 0.0
                own = corrector.norm(vectors.trial, vectors.weight, net.group)
                size = own if not own < math.inf else max(size, own)
            if turn > 0:
                rate = max(0.3 * rate, size / last)
            if size * min(rate, 1.0) <= allowed:
                state = corrector.CONVERGED
                break
            if not size < math.inf:
                state = corrector.BROKEN
                break
            if cold or (turn > 0 and size > 2.0 * last):
                break
            last = size
        kept = corrector.Kept(kept.slopes_age, kept.factors_age, kept.gamma, rate, 1.0)
        if state == corrector.CONVERGED:
            settle(net, gamma, sweeps)
        if state == corrector.CONVERGED or fresh:
            return state, kept
        again = True


@noinline_cpu
def put_rates_of_tank(net, k, gamma, renews, factors):
    """Compute the rates of a tank, and if asked its Jacobian and its factors.

    Returns 0 if all pivots are sound.
    """
    tank = by_reference(in_hand(net, k))
    zone, vectors, setting = tank.zone, tank.vectors, setting_of(net, tank, k)
    put_entering(net, tank, k)
    corrector.put_rates(net.chemistry, zone, vectors, setting)
    put_outflow(tank)
    if renews:
        capacity = corrector.renew_slopes(net.chemistry, zone, vectors, setting, 1.0, 1.0)
        barrier(net.group)
        if net.group.rank == 0:
            tank.own[CAPACITY] = capacity
        barrier(net.group)
    if factors:
        return corrector.renew_factors(net.chemistry, vectors, gamma, setting.renewal)
    return 0.0


@noinline_cpu
def settle(net, gamma, sweeps):
    """Put the corrections of energies and sums, after an iteration that has converged."""
    if EXCHANGES:
        for k in no_unroll(range(net.tanks)):
            put_outflow(by_reference(in_hand(net, k)))
        for k in no_unroll(range(net.tanks)):
            tank = by_reference(in_hand(net, k))
            put_entering(net, tank, k)
            gained = corrector.settled_gain(
                net.chemistry, tank.zone, tank.vectors, setting_of(net, tank, k), gamma
            )
            barrier(net.group)
            if net.group.rank == 0:
                tank.vectors.correction[tank.vectors.y.size] = gained
            barrier(net.group)
    settle_sums(net, gamma, sweeps)


@noinline_cpu
def error_at_end(net, k, constants, order):
    """The error of a tank over the allowed one; puts the temperature that its energy sets."""
    tank = by_reference(in_hand(net, k))
    zone, vectors, species = tank.zone, tank.vectors, tank.zone.matter.shape[1]
    error = formulas.error_of(vectors, constants.own, species)
    if SELF_HEATING and error <= 1.0:
        count, y = vectors.y.size, vectors.y
        energy = vectors.history[0, count] + vectors.correction[count]
        setting = formulas.with_energy(setting_of(net, tank, k), tank.own[START], energy)
        formulas.put_temperature(net.chemistry, zone, setting.start, energy, y, species)
        if net.group.rank == 0:
            vectors.correction[species] = y[species] - vectors.history[0, species]
        barrier(net.group)
        error += formulas.jump_error(net.chemistry, zone, vectors, setting, order)
        error += formulas.exchange_error(zone, vectors, constants.own)
    return error


@noinline_cpu
def end_step(net, k, order, h, now, grid, place, out):
    """Go on with a tank after a step; returns the next place of the result."""
    tank = by_reference(in_hand(net, k))
    zone, vectors, own = tank.zone, tank.vectors, tank.own
    species, count, group = zone.matter.shape[1], vectors.y.size, net.group
    history, setting = vectors.history, setting_of(net, tank, k)
    for j in range(order + 1):
        for i in no_unroll(share(group, 0, history.shape[1])):
            history[j, i] += vectors.gain[j] * vectors.correction[i]
    barrier(group)
    if SELF_HEATING:
        energy = history[0, count]
        setting = formulas.with_energy(setting, own[START], energy)
        steepest, peak = formulas.fastest_heating(
            history, order, species, count, h, grid[0] + now, 1.0, own[STEEPEST], own[PEAK]
        )
        barrier(group)
        if group.rank == 0:
            own[STEEPEST], own[PEAK] = steepest, peak
    place, defect = formulas.fill_output(
        net.chemistry, zone, vectors, setting, order, h, now, grid, place, own[DEFECT], out
    )
    barrier(group)
    if group.rank == 0:
        own[DEFECT] = defect
    if SELF_HEATING:
        hot = history[0, species]
        coefficients.put_matter(net.chemistry, zone, setting.start, hot)
        energy = setting.energy
        if not (setting.start > zone.between[0] and setting.start <= zone.between[1]):
            zone.between[0], zone.between[1] = math.inf, -math.inf
            coefficients.put_matter(net.chemistry, zone, hot, hot)
            energy, _ = activities.energy_of_zone(zone, vectors.y)
        barrier(group)
        if group.rank == 0:
            own[START], own[ENERGY], history[0, count] = hot, energy, energy
        barrier(group)
    return place


@no_refcount
def integrate_network(net, grid, rtol, max_steps, outcome):
    """Integrate the tanks of a network, and fill their outcome."""
    group, first, sweeps = net.group, net.first, sweeps_of(net)
    past, gain = net.lengths, net.gain
    for j in range(past.size):
        past[j] = 0.0
    for k in no_unroll(range(net.tanks)):
        begin_tank(net, k, outcome.amounts[first + k])
    put_weights(net, rtol)
    h, restarts = grid[grid.size - 1] - grid[0], True
    kept = corrector.Kept(corrector.NOTHING_KEPT, corrector.NOTHING_KEPT, 1.0, 1.0, 1.0)
    order, waiting, most = 1, 2, nordsieck.FIRST_GROWTH
    now, place, taken, repeated, status = 0.0, 1, 0, 0, endings.DONE
    ratio, failures, anew, broken = 0.0, 0, True, False
    while place < grid.size:
        meet()
        if restarts:
            h = begin(net, h)
            order, waiting, failures, restarts = 1, 2, 0, False
        if taken + repeated >= max_steps:
            status = endings.TOO_MANY_STEPS
            break
        if not (h > max(formulas.SHORTEST * now, formulas.VANISHED)) or not h < math.inf:
            lost = broken or not h < math.inf
            status = endings.NOT_FINITE if lost else endings.STEP_TOO_SMALL
            break
        for k in no_unroll(range(net.tanks)):
            nordsieck.predict(tank_at(net, k).vectors.history, order, group)
        constants = nordsieck.put_coefficients(gain, past, order, h)
        state, kept = correct(net, h, corrector.SHARE / constants.own, kept, anew, sweeps)
        anew, broken, error = False, state == corrector.BROKEN, 2.0
        if state == corrector.CONVERGED:
            error = 0.0
            for k in no_unroll(range(net.tanks)):
                if error <= 1.0:
                    own = error_at_end(net, k, constants, order)
                    error = own if not own <= error else error
        if not error <= 1.0 or state != corrector.CONVERGED:
            repeated += 1
            most, factor = 1.0, 0.25
            if state != corrector.CONVERGED:
                anew = True
            else:
                failures += 1
                factor = nordsieck.shorter(error, order, failures)
            restarts = failures > nordsieck.MOST_FAILURES
            for k in no_unroll(range(net.tanks)):
                vectors = tank_at(net, k).vectors
                nordsieck.retract(vectors.history, order, group)
                if restarts:
                    for i in no_unroll(share(group, 0, vectors.y.size)):
                        vectors.y[i] = max(vectors.history[0, i], 0.0)
                    barrier(group)
                else:
                    nordsieck.rescale(vectors.history, order, factor, group)
            h *= 0.1 if restarts else factor
            anew = anew or restarts
            continue
        taken += 1
        failures = 0
        nordsieck.keep_length(past, order, h, taken)
        now += h
        reached = place
        for k in no_unroll(range(net.tanks)):
            put_entering_sums(net, by_reference(in_hand(net, k)), k, True)
        for k in no_unroll(range(net.tanks)):
            reached = end_step(net, k, order, h, now, grid, place, outcome.amounts[first + k])
        place = reached
        kept = corrector.Kept(kept.slopes_age + 1, kept.factors_age + 1, kept.gamma, kept.rate, 1.0)
        waiting -= 1
        low, high, keeps = -1.0, -1.0, False
        for k in no_unroll(range(net.tanks)):
            keeps = formulas.keep_correction(tank_at(net, k).vectors, order, waiting)
        ratio = constants.ratio if keeps else ratio
        if waiting <= 0 and most != 1.0:
            for k in no_unroll(range(net.tanks)):
                vectors = by_reference(in_hand(net, k)).vectors
                below, above = formulas.errors_beside(vectors, constants, order, ratio, h)
                low, high = max(low, below), max(high, above)
        chosen, factor, waiting = nordsieck.next_order(error, low, high, order, waiting, most)
        for k in no_unroll(range(net.tanks)):
            nordsieck.turn_history(tank_at(net, k).vectors, order, chosen, factor, h)
        order, most = chosen, nordsieck.GROWTH
        h *= factor
        put_weights(net, rtol)
    for k in no_unroll(range(net.tanks)):
        own = tank_at(net, k).own
        if group.rank == 0:
            endings.write(outcome, first + k, (status, taken, repeated, own[DEFECT], own[PEAK]))


# --- CPU ------------------------------------------------------------------------------------------


def integrate_networks_cpu(
    start, stop, chemistry, at, conditions, grid, rtol, max_steps, tanks, outcome
):
    """Networks `start` to `stop`, one after another."""
    memory = np.zeros(tanks * tank_size(chemistry, at[ARRAYS]))
    gain, lengths = np.zeros(nordsieck.MOST + 2), np.zeros(nordsieck.MOST + 2)
    for one in range(start, stop):
        net = Net(
            chemistry, at, memory, (), (), (), gain, lengths, conditions, one * tanks, tanks, ONE
        )
        integrate_network(by_reference(net), grid, rtol, max_steps, by_reference(outcome))
