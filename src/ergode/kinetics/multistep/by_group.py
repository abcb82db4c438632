"""Backward differentiation formulas with a warp for every zone: the kernel.

The formulas are those of `formulas`, which the threads of a warp share. All threads decide, from
the same sums. What all threads compute alike, each keeps for itself.

The code of a step is larger than the cache of instructions. The warps of a block therefore meet
before each step: what one of them fetches serves all.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import by_reference, cuda, real, window
from ergode.core.group import Group, next_member, thread_in_group
from ergode.core.math.nordsieck import MOST
from ergode.kinetics import endings
from ergode.kinetics.block.schedule import WARP
from ergode.kinetics.condition_history import history_of
from ergode.kinetics.multistep.formulas import integrate_zone
from ergode.kinetics.multistep.room import ARRAYS, clear, room_of
from ergode.kinetics.multistep.tank_in_hand import Net, tank_size
from ergode.kinetics.multistep.tanks import integrate_network

# --- device functions -----------------------------------------------------------------------------

STEPS = MOST + 2


def integrate_group(
    chemistry, at, within, history, grid, rtol, max_steps, scratch, counter, outcome
):
    """Zones from a queue, each by one warp.

    Arrays begin where `at` tells, up to `within` in shared memory, and then in device memory.
    """
    warp, beyond = np.int64(cuda.threadIdx.x >> 5), at[ARRAYS] - within
    shared = window(cuda.shared.array(0, real), warp * within, (within,))
    mine = window(scratch[cuda.blockIdx.x], warp * beyond, (beyond,))
    group = Group(thread_in_group(), WARP, (), (), ())
    zone, vectors = room_of(
        chemistry, shared, mine, at, within, cuda.local.array(2, real),
        cuda.local.array((5, 1), real), cuda.local.array(STEPS, real),
        cuda.local.array(STEPS, real), group,
    )  # fmt: skip
    clear(zone, shared, mine)
    tables, own, its = by_reference(chemistry), by_reference(zone), by_reference(vectors)
    cuda.syncwarp()
    index = next_member(group, counter)
    while index < outcome.amounts.shape[0]:
        found = integrate_zone(
            tables, own, its, history_of(history, index), grid, rtol, max_steps,
            outcome.amounts[index],
        )  # fmt: skip
        if group.rank == 0:
            endings.write(outcome, index, found)
        index = next_member(group, counter)


def integrate_networks(
    chemistry, at, history, grid, rtol, max_steps, tanks, scratch, counter, outcome
):
    """Networks of tanks from a queue, each by one warp; all arrays are in device memory."""
    size = tanks * tank_size(chemistry, at[ARRAYS])
    mine = window(scratch[cuda.blockIdx.x], np.int64(cuda.threadIdx.x >> 5) * size, (size,))
    between, hot = cuda.local.array(2, real), cuda.local.array((5, 1), real)
    held = cuda.local.array(1, np.int64)
    gain, lengths = cuda.local.array(STEPS, real), cuda.local.array(STEPS, real)
    group = Group(thread_in_group(), WARP, (), (), ())
    index = next_member(group, counter)
    while (index + 1) * tanks <= outcome.amounts.shape[0]:
        net = by_reference(
            Net(
                chemistry, at, mine, between, hot, held, gain, lengths, history, index * tanks,
                tanks, group,
            )
        )  # fmt: skip
        held[0] = -1
        cuda.syncwarp()
        integrate_network(net, grid, rtol, max_steps, outcome)
        index = next_member(group, counter)
