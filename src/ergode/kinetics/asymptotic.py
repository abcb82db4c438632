"""The explicit asymptotic method: Euler's, made stable by algebra where a species is stiff.

Of dY/dt = F - k Y a species whose losses within a step exceed what there is (k dt > 1) takes

    Y' = (Y + F dt) / (1 + k dt),

the others Y' = Y + (F - k Y) dt. The step is bounded by the fastest net change, by a tenth of the
time gone by and by the step before; then it is tried, and made shorter or longer, once, by how much
the sum of mass fractions has moved, for the asymptotic formula does not conserve it.

M. Guidry, R. Budiardja, E. Feger, J. Billings, W. Hix, O. Messer, K. Roche, E. McMahon, M. He,
Comput. Sci. Disc. 6, 015001 (2013), eqs. (12)-(14) and section 8; A. Haidar, B. Brock, S. Tomov,
M. Guidry, J. Billings, D. Shyles, J. Dongarra, "Performance analysis and acceleration of explicit
integration for large kinetic networks using batched GPU computations" (2016).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.core.machine import cuda, real
from ergode.core.status import Status
from ergode.kinetics.block import (
    block_conditions,
    block_max,
    block_products,
    block_sum,
    block_sums,
    next_zone,
)
from ergode.kinetics.block_tables import BlockFlows
from ergode.kinetics.explicit import gains_and_losses, room_of, set_explicit_conditions

FLUX_FRACTION = 0.01
MASS_TOLERANCE = 1e-7
# Of the time that is integrated, where the method begins and its first step: a code that starts at
# 1e-20 s and ends at 1e-9 s has these.
BEGIN, FIRST = 1e-11, 1.23456789e-13


class Control(NamedTuple):
    """How steps are chosen.

    Attributes
    ----------
    flux_fraction : float
        How much the amount of a species may change in a step.
    mass_tolerance : float
        How much the sum of mass fractions may move in a step.
    reference : bool
        Whether, when a step is tried again, a species is asymptotic by the amount that the first
        trial gave it, as in the reference code, and not by that of the step's start.
    fractions : bool
        Whether amounts are mass fractions as they are; others are taken relative to their sum.
    """

    flux_fraction: float
    mass_tolerance: float
    reference: bool
    fractions: bool


# --- device functions -----------------------------------------------------------------------------

DYNAMIC = False
INFINITY = float("inf")
DONE, NOT_FINITE, TOO_MANY_STEPS = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.TOO_MANY_STEPS)
)  # fmt: skip


def updated(amount, judged, gain, loss, dt):
    """A species after a step; `judged` is the amount by which it is stiff or not."""
    if judged > 0.0 and loss * dt > judged:
        return (amount + gain * dt) / (1.0 + loss / amount * dt)
    return amount + (gain - loss) * dt


def adjusted(dt, total, before, tolerance):
    """The step after a trial that took the sum of mass fractions from `before` to `total`."""
    moved = abs(total - before)
    if abs(total - 1.0) > abs(before - 1.0) and moved > tolerance:
        return dt * max(tolerance / moved, 0.1)
    if moved < 0.25 * tolerance:
        return dt * tolerance / max(moved, 0.9 * tolerance)
    return dt


def asymptotic_zone(
    system, control, room, y, start, gain, loss, times, temperatures, densities, grid, most_steps,
    out,
):  # fmt: skip
    """Integrate one zone; `out` [time, species] is filled, its first row being the start.

    Returns status, steps taken and how far the conserved sum is off at the end.
    """
    count = gain.size
    weight = system.weight
    first = 0.0
    for i in range(count):
        y[i] = out[0, i]
        first += weight[i] * y[i]
    y[count] = 1.0
    scale = 1.0 if control.fractions or first == 0.0 else 1.0 / first
    before = first * scale
    begin = grid[0]
    span = grid[grid.size - 1] - begin
    t, dt = BEGIN * span, FIRST * span
    if not DYNAMIC:
        set_explicit_conditions(system, room, times, temperatures, densities, begin, y)
    steps, place = 0, 1
    while place < grid.size:
        if steps >= most_steps:
            return TOO_MANY_STEPS, steps, abs(before - first * scale)
        gains_and_losses(system, room, times, temperatures, densities, begin + t, y, gain, loss)
        fastest = 0.0
        for i in range(count):
            fastest = max(fastest, abs(gain[i] - loss[i]))
            start[i] = y[i]
        dt = min(min(control.flux_fraction / (fastest * scale), 0.1 * t), dt)
        target = grid[place] - begin
        # One trial, and one repetition with the step that it suggests.
        whole = dt
        total = before
        for trial in range(2):
            if trial == 1:
                whole = adjusted(dt, total, before, control.mass_tolerance)
                dt = min(whole, target - t)
            total = 0.0
            for i in range(count):
                judged = y[i] if control.reference else start[i]
                amount = updated(start[i], judged, gain[i], loss[i], dt)
                y[i] = amount
                total += weight[i] * amount
            total *= scale
        if not total < INFINITY:
            return NOT_FINITE, steps, abs(before - first * scale)
        before = total
        t += dt
        steps += 1
        if dt == target - (t - dt) or t >= target:
            t = target
            while place < grid.size and grid[place] - begin <= t:
                for i in range(count):
                    out[place, i] = y[i]
                place += 1
        dt = whole
    return DONE, steps, abs(before - first * scale)


# --- CPU ------------------------------------------------------------------------------------------


def asymptotic_cpu(
    start, stop, system, control, course, grid, most_steps, out, status, taken, defect
):
    """Zones `start` to `stop`, one after another."""
    room = room_of(system)
    count = system.weight.size
    y, begin = np.empty(count + 1), np.empty(count)
    gain, loss = np.empty(count), np.empty(count)
    for zone in range(start, stop):
        outcome, steps, off = asymptotic_zone(
            system, control, room, y, begin, gain, loss, course.times, course.temperature[zone],
            course.density[zone], grid, most_steps, out[zone],
        )  # fmt: skip
        status[zone] = outcome
        taken[zone] = steps
        defect[zone] = off


# --- CUDA -----------------------------------------------------------------------------------------


def shared_count(flows: BlockFlows, species_count: int) -> int:
    """Numbers that a zone keeps in shared memory."""
    partial = max(int(flows.sums.start[-1]), 1)
    return (
        32 + 4 * (species_count + 1) + flows.complexes.first.size + partial + flows.complex.size
    )  # fmt: skip


def asymptotic_block(
    flows, rates, thermo, weight, control, times, temperature, density, grid, most_steps, scratch,
    counter, out, status, taken, defect,
):  # fmt: skip
    """Zones from a queue, each by one block; the method is `asymptotic_zone`."""
    tid, threads = cuda.threadIdx.x, cuda.blockDim.x
    size = weight.size
    shared = cuda.shared.array(0, real)
    room = shared[0:32]
    y = shared[32 : 33 + size]
    start = shared[33 + size : 33 + 2 * size]
    # Gains of all species, then losses.
    sums = shared[33 + 2 * size : 33 + 4 * size]
    place = 36 + 4 * size
    found = shared[place : place + flows.complexes.first.size]
    place += flows.complexes.first.size
    partial_count = max(flows.sums.start[flows.sums.start.size - 1], 1)
    partial = shared[place : place + partial_count]
    place += partial_count
    values = shared[place : place + flows.complex.size]
    mine = scratch[cuda.blockIdx.x]
    slot_count = rates.slot_start.size - 1
    slots, volumes = mine[0:slot_count], mine[slot_count : slot_count + size]

    zone = next_zone(counter, room)
    while zone < out.shape[0]:
        hot, dense = temperature[zone], density[zone]
        part = 0.0
        for i in range(tid, size, threads):
            y[i] = out[zone, 0, i]
            part += weight[i] * y[i]
        if tid == 0:
            y[size] = 1.0
        first = block_sum(part, room, 0)
        scale = 1.0 if control.fractions or first == 0.0 else 1.0 / first
        before = first * scale
        begin = grid[0]
        span = grid[grid.size - 1] - begin
        t, dt = BEGIN * span, FIRST * span
        block_conditions(flows, rates, thermo, times, hot, dense, begin, slots, values, volumes)
        steps, point, outcome = 0, 1, DONE
        while point < grid.size:
            if steps >= most_steps:
                outcome = TOO_MANY_STEPS
                break
            if DYNAMIC:
                block_conditions(
                    flows, rates, thermo, times, hot, dense, begin + t, slots, values, volumes
                )
            block_products(flows.complexes, y, found)
            block_sums(flows.sums, flows.complex, values, found, partial, sums)
            fastest = 0.0
            for i in range(tid, size, threads):
                fastest = max(fastest, abs(sums[i] - sums[size + i]))
                start[i] = y[i]
            fastest = block_max(fastest, room, 0)
            dt = min(min(control.flux_fraction / (fastest * scale), 0.1 * t), dt)
            target = grid[point] - begin
            whole = dt
            total = before
            for trial in range(2):
                if trial == 1:
                    whole = adjusted(dt, total, before, control.mass_tolerance)
                    dt = min(whole, target - t)
                part = 0.0
                for i in range(tid, size, threads):
                    judged = y[i] if control.reference else start[i]
                    amount = updated(start[i], judged, sums[i], sums[size + i], dt)
                    y[i] = amount
                    part += weight[i] * amount
                # Slots take turns: trials have 1 and 0, the fastest change had 0 before a barrier.
                total = block_sum(part, room, 1 - trial) * scale
            if not total < INFINITY:
                outcome = NOT_FINITE
                break
            before = total
            t += dt
            steps += 1
            if dt == target - (t - dt) or t >= target:
                t = target
                while point < grid.size and grid[point] - begin <= t:
                    for i in range(tid, size, threads):
                        out[zone, point, i] = y[i]
                    point += 1
            dt = whole
        if tid == 0:
            status[zone] = outcome
            taken[zone] = steps
            defect[zone] = abs(before - first * scale)
        zone = next_zone(counter, room)
