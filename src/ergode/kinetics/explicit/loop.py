"""The loop over steps of the explicit method, and its kernels.

The rate of change of a species is gain - loss, with loss = k Y. `asymptotic` has the step.

The loop is written once for a thread and for a block of threads (see `thread_group`).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import cuda, no_refcount, no_unroll, real
from ergode.core.group import group_of_block, next_member, share, total_of
from ergode.kinetics import endings
from ergode.kinetics.block.schedule import FLOW_WIDTH
from ergode.kinetics.condition_history import history_of, horizon, settled
from ergode.kinetics.explicit import flows
from ergode.kinetics.explicit.asymptotic import asymptotic_step
from ergode.kinetics.kernel_options import DYNAMIC, THIRD_BODIES, TIMED
from ergode.kinetics.physics.third_bodies import slope_count

# First time and first step, as fractions of the whole time: those of the reference code, which runs
# from 1e-20 s to 1e-9 s.
BEGIN, FIRST = 1e-11, 1.23456789e-13
# Largest relative change of a given temperature or density in a step.
CHANGE = 0.01
# Steps below this fraction of the elapsed time are lost in rounding.
SHORTEST = 1e-16

# --- device functions -----------------------------------------------------------------------------


@no_refcount
def explicit_zone(system, control, workspace, history, grid, max_steps, out):
    """Integrate one zone; `out` [time, species] is filled, its first row being the start.

    `history` has the conditions of this zone. Returns what `endings.write` takes; the defect is the
    change of the conserved sum.
    """
    group = workspace.group
    y, weight = workspace.y, system.weight
    total = begin_zone(system, workspace, out)
    scale = 1.0 if control.fractions or total == 0.0 else 1.0 / total
    before = total * scale
    at_first = before
    begin = grid[0]
    span = grid[grid.size - 1] - begin
    t, dt = BEGIN * span, FIRST * span
    # The time t is also `since` after the knot `below`.
    below, since = 0, t
    if TIMED:
        below, since = settled(history.times, below, since)
    flows.set_explicit_conditions(system, workspace, history, below, since, y)
    status, steps, place = endings.DONE, 0, 1
    while status == endings.DONE and place < grid.size:
        if steps >= max_steps:
            status = endings.TOO_MANY_STEPS
            continue
        if not dt > SHORTEST * t:
            status = endings.STEP_TOO_SMALL
            continue
        target = grid[place] - begin
        ahead, ends = target - t, False
        if TIMED:
            ahead, ends = step_bound(history, below, since, ahead, dt)
        begin_step(system, workspace, history, below, since, min(dt, ahead))
        taken, dt, total = asymptotic_step(system, control, workspace, t, ahead, dt, before, scale)
        if not total < math.inf:
            status = endings.NOT_FINITE
            continue
        before = total
        steps += 1
        since += taken
        if TIMED:
            if ends and taken == ahead:
                below, since = below + 1, 0.0
            below, since = settled(history.times, below, since)
        if taken == target - t or t + taken >= target:
            t = target
            while place < grid.size and grid[place] - begin <= t:
                for i in no_unroll(share(group, 0, weight.size)):
                    out[place, i] = y[i]
                place += 1
        else:
            t += taken
    return status, steps, 0, abs(before - at_first), math.nan


def begin_zone(system, workspace, out):
    """Take a zone's amounts from `out`; returns their conserved sum."""
    group = workspace.group
    y, weight = workspace.y, system.weight
    part = 0.0
    for i in no_unroll(share(group, 0, weight.size)):
        y[i] = out[0, i]
        part += weight[i] * y[i]
    if group.rank == 0:
        # The variable that empty slots of complexes refer to.
        y[weight.size] = 1.0
    return total_of(group, part, 0)


def step_bound(history, below, since, ahead, dt):
    """Bound of a step by conditions, and whether it ends at a knot."""
    # Every knot ends a step; the next step has the length that this one had before the cut.
    allowed, last, ends = horizon(history, below, since, max(ahead, dt), CHANGE, -1.0)
    if ends and last + 2 == history.times.size:
        ends = False  # the grid has the last time
    else:
        ends = ends and allowed <= ahead
        ahead = min(ahead, allowed)
    return ahead, ends


def begin_step(system, workspace, history, below, since, dt):
    """Gains and losses at the start of a step of at most `dt`."""
    y = workspace.y
    if DYNAMIC:
        at = since
        if TIMED:
            at += 0.5 * dt
        flows.set_explicit_conditions(system, workspace, history, below, at, y)
    flows.flows_at(system, workspace, y, workspace.flow)


# --- CPU ------------------------------------------------------------------------------------------


def explicit_cpu(start, stop, system, control, history, grid, max_steps, outcome):
    """Zones `start` to `stop`, one after another."""
    workspace = flows.workspace_of(system)
    for zone in range(start, stop):
        found = explicit_zone(
            system, control, workspace, history_of(history, zone), grid, max_steps,
            outcome.amounts[zone],
        )  # fmt: skip
        endings.write(outcome, zone, found)


# --- CUDA -----------------------------------------------------------------------------------------

HELD = flows.HELD_ROUNDS * FLOW_WIDTH


def shared_count(system: flows.ExplicitSystem) -> int:
    """Numbers that a zone keeps in shared memory."""
    partial = system.flows.sums.place_count
    return 37 + 4 * system.weight.size + system.complexes.first.size + partial


def scratch_count(system: flows.ExplicitSystem) -> int:
    """Numbers that a block keeps in device memory."""
    rates = system.rates
    numbers = rates.slot_count + rates.slope_count + len(rates.efficiency)
    return numbers + system.weight.size + system.flows.value_count + rates.memory_count


def explicit_block(system, several, control, history, grid, max_steps, scratch, counter, outcome):
    """Zones from a queue, each by one block."""
    species = system.weight.size
    shared = cuda.shared.array(0, real)
    # y, start, flow.
    a = 36 + species + 1
    b = a + species
    c = b + 2 * species
    d = c + system.complexes.first.size
    e = d + several
    mine = scratch[cuda.blockIdx.x]
    slot_count = system.rates.slot_start.size - 1
    h = slot_count + (slope_count(system.rates) if THIRD_BODIES else 0)
    k = h + (system.rates.efficiency.shape[0] if THIRD_BODIES else 0)
    i = k + species
    group = group_of_block(shared[0:32])
    workspace = flows.ExplicitWorkspace(
        shared[36:a], shared[a:b], shared[b:c], shared[c:d], shared[d:e], group,
        mine[0:slot_count], mine[slot_count:h], mine[h:k], mine[k:i],
        mine[i : i + system.flows.value_count], cuda.local.array(HELD, real),
        cuda.local.array(HELD, np.int32),
        mine[i + system.flows.value_count : mine.size],
    )  # fmt: skip
    zone = next_member(group, counter)
    while zone < outcome.amounts.shape[0]:
        found = explicit_zone(
            system, control, workspace, history_of(history, zone), grid, max_steps,
            outcome.amounts[zone],
        )  # fmt: skip
        if group.rank == 0:
            endings.write(outcome, zone, found)
        zone = next_member(group, counter)
