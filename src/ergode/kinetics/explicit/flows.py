"""Gains and losses of every species, and a zone's workspace, for the explicit method."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda, no_unroll, real, unroll
from ergode.core.group import ONE, Group, barrier
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.block.schedule import FLOW_WIDTH, WARP, block_flows_of
from ergode.kinetics.block.segments import block_products, block_rows, put_segment
from ergode.kinetics.condition_history import history_at
from ergode.kinetics.implicit.system import coefficients
from ergode.kinetics.kernel_options import FORMULAS, THIRD_BODIES
from ergode.kinetics.network.mechanism import entry_values, products, row_sums
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.formulas import memory_count, put_inputs
from ergode.kinetics.physics.third_bodies import slope_count
from ergode.kinetics.tables import Complexes, Flows, Rates, Thermodynamics

HELD_ROUNDS = 2
"""Number of segments of sums that a CUDA thread keeps in registers."""


class ExplicitSystem(NamedTuple):
    """Tables of a network for the explicit method."""

    complexes: Complexes
    flows: Any  # rows are the gains of all species, then their losses
    rates: Rates
    thermo: Thermodynamics
    # float64 [species_count]: weights of the conserved sum that controls steps: mass numbers of
    # nuclei.
    weight: np.ndarray


class ExplicitWorkspace(NamedTuple):
    """Workspace of a zone."""

    y: np.ndarray  # [species_count + 1]: amounts [mol/g], and one
    start: np.ndarray  # [species_count]: amounts at the start of the step
    flow: np.ndarray  # [2 * species_count]: gains, then losses
    found: np.ndarray  # products of complexes
    partial: np.ndarray  # scratch memory of sums over threads
    group: Group
    # Coefficients, their derivatives and inputs, and the values of entries of the flows.
    slots: np.ndarray
    slopes: np.ndarray
    partners: np.ndarray
    volumes: np.ndarray
    values: np.ndarray
    # Entries that a CUDA thread keeps in registers.
    held_value: np.ndarray
    held_complex: np.ndarray
    memory: np.ndarray  # inputs and stacks of coefficients that are formulas


def conserved_weight(mechanism: Mechanism) -> np.ndarray:
    """Weights of a conserved sum; zero if there is none."""
    if mechanism.nuclear:
        return mechanism.mass
    rows = mechanism.invariants[(mechanism.invariants >= 0).all(axis=1)]
    weight = rows.sum(axis=0) if len(rows) else np.zeros(mechanism.structure.species_count)
    # Inert species would hide errors of the others.
    return np.asarray(weight * (np.diff(mechanism.structure.net_flows.start) > 0))


def conserves(mechanism: Mechanism) -> bool:
    """Whether there is a conserved sum to control explicit steps."""
    return bool(conserved_weight(mechanism).any())


def explicit_system_of(mechanism: Mechanism, *, blocks: bool) -> ExplicitSystem:
    """Tables for the explicit method; for CUDA with `blocks`."""
    structure = mechanism.structure
    weight = conserved_weight(mechanism)
    gains, losses = structure.gain_flows, structure.loss_flows
    flows: Any = Flows(
        np.concatenate([gains.start, gains.start[-1] + losses.start[1:]]),
        np.concatenate([gains.complex, losses.complex]),
        np.concatenate([gains.source_start, gains.source_start[-1] + losses.source_start[1:]]),
        np.concatenate([gains.source, losses.source]),
        np.concatenate([gains.weight, losses.weight]),
    )
    if blocks:
        flows = block_flows_of(structure.complexes, flows)
    return ExplicitSystem(structure.complexes, flows, *mechanism.used(False), weight)


def workspace_of(system):
    """An `ExplicitWorkspace` on the CPU."""
    count = system.weight.size
    return ExplicitWorkspace(
        np.empty(count + 1),
        np.empty(count),
        np.empty(2 * count),
        np.empty(system.complexes.first.size),
        np.empty(1),
        ONE,
        np.empty(system.rates.slot_start.size - 1),
        np.empty(slope_count(system.rates) if THIRD_BODIES else 0),
        np.empty(system.rates.efficiency.shape[0] if THIRD_BODIES else 0),
        np.empty(count),
        np.empty(system.flows.complex.size),
        np.empty(1),
        np.empty(1, np.int32),
        np.empty(memory_count(system.rates)),
    )


# --- device functions -----------------------------------------------------------------------------


def set_explicit_conditions(system, workspace, history, below, since, y):
    """Compute coefficients `since` after the knot `below`; begins and ends in a barrier."""
    group = workspace.group
    temperature = history_at(history.times, history.temperature, below, below, since)
    density = history_at(history.times, history.density, below, below, since)
    if FORMULAS:
        put_inputs(system.rates, history, 1.0, below, below, since, workspace.memory, group)
    barrier(group)
    coefficients(
        system.rates,
        system.thermo,
        workspace,
        history.factors,
        temperature,
        density,
        y,
        1.0,
        1.0,
        1.0,
    )
    entry_values(system.flows, workspace.slots, workspace.values, group)
    barrier(group)
    hold(system, workspace)


def _row_by_row(system, workspace, y, flow):
    products(system.complexes, y, workspace.found)
    row_sums(system.flows, workspace.values, workspace.found, flow)


def _nothing_to_hold(system, workspace):
    pass


def _places(segment):
    """Where the items of a segment begin, and its values."""
    warp, lane = segment >> 5, segment & 31
    at = (warp * ((FLOW_WIDTH + 3) // 4 * WARP) + lane) & NONNEGATIVE
    return at, (warp * (FLOW_WIDTH * WARP) + lane) & NONNEGATIVE


def _hold(system, workspace):
    """Load entries into registers, for later sums."""
    group = workspace.group
    sums = system.flows.sums
    last = sums.label.size - 1
    for r in unroll(range(HELD_ROUNDS)):
        segment = min(r * group.size + group.rank, last) & NONNEGATIVE
        at, place = _places(segment)
        for k in unroll(range(FLOW_WIDTH)):
            workspace.held_value[r * FLOW_WIDTH + k] = workspace.values[place + k * WARP]
            item = sums.item[at + k // 4 * WARP] >> (k % 4 * 16)
            workspace.held_complex[r * FLOW_WIDTH + k] = item & 0xFFFF


def _segment_by_segment(system, workspace, y, flow):
    """`_row_by_row` by all threads of a block; begins and ends with a barrier."""
    group = workspace.group
    thread, threads = group.rank, group.size
    sums, found = system.flows.sums, workspace.found
    cuda.syncthreads()
    block_products(system.flows.triple, y, found)
    totals = cuda.local.array(HELD_ROUNDS, real)
    for r in unroll(range(HELD_ROUNDS)):
        total = 0.0
        for k in unroll(range(FLOW_WIDTH)):
            index = r * FLOW_WIDTH + k
            total += (
                workspace.held_value[index] * found[workspace.held_complex[index] & NONNEGATIVE]
            )
        totals[r] = total
    for r in unroll(range(HELD_ROUNDS)):
        segment = r * threads + thread
        if segment < sums.label.size:  # of whole warps
            label = sums.label[segment & NONNEGATIVE]
            put_segment(label, totals[r], workspace.partial, flow, 0)
    for base in no_unroll(range(HELD_ROUNDS * threads + thread, sums.label.size, threads)):
        segment = base & NONNEGATIVE
        at, place = _places(segment)
        total = 0.0
        for k in unroll(range(FLOW_WIDTH)):
            item = sums.item[at + k // 4 * WARP] >> (k % 4 * 16)
            total += workspace.values[place + k * WARP] * found[item & 0xFFFF]
        put_segment(sums.label[segment], total, workspace.partial, flow, 0)
    block_rows(sums, workspace.partial, flow, 0)


hold = ByTarget(cpu=_nothing_to_hold, cuda=_hold)
flows_at = ByTarget(cpu=_row_by_row, cuda=_segment_by_segment)
