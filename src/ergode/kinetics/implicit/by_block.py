"""Implicit methods by a block of threads for every zone: its memory, and the kernel."""

from __future__ import annotations

from ergode.core.compiler.language import cuda, real
from ergode.core.group import group_of_block, next_member
from ergode.kinetics import endings
from ergode.kinetics.block.elimination import TILE
from ergode.kinetics.condition_history import history_of
from ergode.kinetics.implicit.rosenbrock import StepVectors, integrate_zone
from ergode.kinetics.kernel_options import DYNAMIC, FED, POWERS, THIRD_BODIES
from ergode.kinetics.network.projection import STAGES
from ergode.kinetics.physics.formulas import memory_count
from ergode.kinetics.physics.third_bodies import slope_count
from ergode.kinetics.tables import BlockSystem, Workspace

_REDUCTION = 32


def shared_count(system: BlockSystem, stage_count: int, dynamic: bool, fed: bool = False) -> int:
    """Numbers that a zone keeps in shared memory."""
    n, several = system.pivot.size, len(system.invariants)
    fixed = _REDUCTION + (5 if dynamic else 3) * (n + 1) + (several + 3) * several
    fixed += (system.powers.size if system.powers else 0) + (STAGES if fed else 0)
    return fixed + partial_count(system) + matrix_count(system, stage_count, dynamic)


def matrix_count(system: BlockSystem, stage_count: int, dynamic: bool) -> int:
    """Numbers for the matrix and for what reuses the memory of its tail.

    The tail is in registers when the stages are computed. Products, amounts and changes of a stage
    are there too, unless they are needed while the matrix is being filled.
    """
    tail, stages = system.tail_count**2, stage_count * system.pivot.size
    others = system.flows.triple.size + 2 * (system.pivot.size + 1) + 8 * system.tail.size
    others += system.powers.size if system.powers else 0
    behind = max(tail, stages) + others if dynamic else max(tail, stages + others)
    return system.entry_count - tail + behind


def partial_count(system: BlockSystem) -> int:
    """Numbers for partial sums of rows."""
    parts = (system.flows.sums, system.slopes, system.gather, system.scatter)
    return max(system.tail.size, *(part.place_count for part in parts))


def scratch_count(system: BlockSystem) -> int:
    """Numbers that a block keeps in device memory."""
    rates = system.rates
    numbers = rates.slot_count + rates.slope_count + rates.order.size + len(rates.efficiency)
    numbers += rates.memory_count
    return numbers + 4 * system.pivot.size + system.flows.value_count


# --- device functions -----------------------------------------------------------------------------


def integrate_block(
    system, several, method, history, grid, rtol, max_steps, scratch, counter, outcome
):
    """Zones from a queue, each by one block."""
    count, species = system.pivot.size, system.invariants.shape[1]
    invariants, width = system.invariants.shape[0], system.pivot.size + 1
    rates, tail = system.rates, system.tail_count * system.tail_count
    shared = cuda.shared.array(0, real)
    mine = scratch[cuda.blockIdx.x]
    longer = width
    if POWERS:
        longer += system.powers.start.size - 1 + system.powers.species.size
    # Indices of entries are then places in shared memory.
    matrix = system.entry_count
    stages = matrix - tail
    k = stages + method.m.size * count
    products = max(matrix, k) if DYNAMIC else k
    new = products + system.flows.triple.size
    trial = new + longer
    pivoting = trial + width
    end = pivoting + 8 * system.tail.size
    reductions = max(matrix, end)
    a = reductions + _REDUCTION
    b = a + longer
    c = b + width
    d = c + width
    e = d + (width if DYNAMIC else 0)
    f = e + (width if DYNAMIC else 0)
    g = f + (invariants + 3) * invariants + (STAGES if FED else 0)
    h = g + several
    values = system.flows.value_count
    slots = values + rates.slot_start.size - 1
    slopes = slots + (slope_count(rates) if THIRD_BODIES else 0)
    saved = slopes + rates.order.size
    partners = saved + (rates.efficiency.shape[0] if THIRD_BODIES else 0)
    volumes = partners + species
    columns = volumes + 3 * count
    behind = columns + memory_count(rates)
    workspace = Workspace(
        mine[values:slots], mine[slots:slopes], mine[slopes:saved], mine[saved:partners],
        mine[partners:volumes], shared[e : min(e + species, f)],
        mine[0:values],
        shared[products:new], mine[0:0], shared[g:h], group_of_block(shared[reductions:a]),
        mine[columns:behind],
    )  # fmt: skip
    vectors = StepVectors(
        shared[a:b], shared[new:trial], shared[b : b + count], shared[trial:pivoting],
        shared[d : min(d + count, e)], mine[volumes:columns], shared[stages:k], shared[0:matrix],
        shared[c:d], shared[f:g], shared[pivoting:end], cuda.local.array(TILE, real),
    )  # fmt: skip
    integrate_from_queue(
        system, method, workspace, vectors, history, grid, rtol, max_steps, counter, outcome
    )


def integrate_from_queue(
    system, method, workspace, vectors, history, grid, rtol, max_steps, counter, outcome
):
    """Zones from a queue, one after another, until it is empty."""
    group = workspace.group
    zone = next_member(group, counter)
    while zone < outcome.amounts.shape[0]:
        found = integrate_zone(
            system, method, workspace, vectors, history_of(history, zone), grid, rtol, max_steps,
            outcome.amounts[zone],
        )  # fmt: skip
        if group.rank == 0:
            endings.write(outcome, zone, found)
        zone = next_member(group, counter)
