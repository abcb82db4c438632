"""Backward differentiation formulas with a warp for every zone: its memory, and the kernel.

The formulas are those of `formulas`, which the threads of a warp share. All threads decide, from
the same sums. What a step reads and writes most is in shared memory; all else is in device memory.
What all threads compute alike, each keeps for itself.

The code of a step is larger than the cache of instructions. The warps of a block therefore meet
before each step: what one of them fetches serves all.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from ergode.core.compiler.language import by_reference, cuda, real, window
from ergode.core.group import Group, next_member, thread_in_group
from ergode.kinetics import endings
from ergode.kinetics.block.schedule import WARP
from ergode.kinetics.condition_history import history_of
from ergode.kinetics.kernel_options import POWERS, SELF_HEATING, THIRD_BODIES
from ergode.kinetics.multistep.activities import Zone
from ergode.kinetics.multistep.corrector import Vectors
from ergode.kinetics.multistep.formulas import integrate_zone
from ergode.kinetics.multistep.nordsieck import MOST
from ergode.kinetics.multistep.outside import NUMBERS, kept_count
from ergode.kinetics.multistep.tables import Chemistry
from ergode.kinetics.physics.third_bodies import slope_count

Shape = tuple[int, ...]


def shapes_of(chemistry: Chemistry, heats: bool, kept: int) -> list[Shape]:
    """Shapes of the arrays of a zone, those first of which a step reads and writes most.

    `kept` is the number of columns of the history behind the variables.
    """
    laws, reactions, powers = chemistry.laws, chemistry.reactions, chemistry.powers
    sums, slopes, schedule = chemistry.invariants.shape[0], chemistry.slopes, chemistry.schedule
    species, count = reactions.start.size - 1, chemistry.absolute.size
    whole, pairs = reactions.left.shape[1], reactions.right.shape[1]
    width = species + 1 + (powers.power_count + powers.species.size if powers else 0)
    partial = max(part.place_count for part in (schedule.changes, schedule.slopes))
    return [
        (3, width), (count,), (count,), (count + kept,), (count,), (count,), (count + 1,),
        (count + 1,), (3, species), (laws.usual.size,), (3, laws.falloff.shape[1]),
        (MOST + 1, count + kept), (1 if heats else 2, whole), (1 if heats else 2, laws.slot_count),
        (chemistry.plan.column.size + 1,), (count,), (laws.exponent.shape[1],), (12, species),
        ((sums + 3) * sums,), (partial,), (laws.rates.slope_count,), (count,), (count,),
        (3 * (whole + pairs) + slopes.power.shape[1],), (slopes.entry.shape[1],),
        (count + NUMBERS,),
    ]  # fmt: skip


def places_of(shapes: list[Shape], most: int) -> tuple[Shape, int]:
    """Where arrays of these shapes begin, and where the last ends; how many numbers are shared.

    Whole arrays are in shared memory, up to `most` numbers.
    """
    places = tuple(accumulate(map(prod, shapes), initial=0))
    return places, max(place for place in places if place <= most)


# --- device functions -----------------------------------------------------------------------------

STEPS, ARRAYS = MOST + 2, 26


def array_at(shared, mine, at, within, k, shape):
    """Array k, in shared memory if it ends there (a tuple, as CUDA returns no part of an array)."""
    if at[k + 1] <= within:
        return (window(shared, at[k], shape),)
    return (window(mine, at[k] - within, shape),)


def integrate_group(
    chemistry, at, within, history, grid, rtol, max_steps, scratch, counter, outcome
):
    """Zones from a queue, each by one warp.

    Arrays begin where `at` tells, up to `within` in shared memory, and then in device memory.
    """
    laws, reactions = chemistry.laws, chemistry.reactions
    species, count = reactions.start.size - 1, chemistry.absolute.size
    whole, pairs = reactions.left.shape[1], reactions.right.shape[1]
    width, longer = species + 1, count + kept_count(chemistry.invariants.shape[0])
    slopes = slope_count(laws.rates) if THIRD_BODIES else 0
    derivatives = 3 * (whole + pairs)
    if POWERS:
        width += chemistry.powers.start.size - 1 + chemistry.powers.species.size
        derivatives += chemistry.slopes.power.shape[1]
    warp, beyond = np.int64(cuda.threadIdx.x >> 5), at[ARRAYS] - within
    shared = window(cuda.shared.array(0, real), warp * within, (within,))
    mine = window(scratch[cuda.blockIdx.x], warp * beyond, (beyond,))
    group = Group(thread_in_group(), WARP, (), (), ())
    (activity,) = array_at(shared, mine, at, within, 0, (3, width))
    (y,) = array_at(shared, mine, at, within, 1, (count,))
    (change,) = array_at(shared, mine, at, within, 2, (count,))
    (correction,) = array_at(shared, mine, at, within, 3, (longer,))
    (trial,) = array_at(shared, mine, at, within, 4, (count,))
    (weight,) = array_at(shared, mine, at, within, 5, (count,))
    (row,) = array_at(shared, mine, at, within, 6, (count + 1,))
    (inverse,) = array_at(shared, mine, at, within, 7, (count + 1,))
    (matter,) = array_at(shared, mine, at, within, 8, (3, species))
    (partners,) = array_at(shared, mine, at, within, 9, (laws.usual.size,))
    (falloff,) = array_at(shared, mine, at, within, 10, (3, laws.falloff.shape[1]))
    (matrix,) = array_at(shared, mine, at, within, 14, (chemistry.plan.column.size + 1,))
    (slots,) = array_at(shared, mine, at, within, 13, (1 if SELF_HEATING else 2, laws.slot_count))
    (rate,) = array_at(shared, mine, at, within, 12, (1 if SELF_HEATING else 2, whole))
    (past,) = array_at(shared, mine, at, within, 11, (MOST + 1, longer))
    (before,) = array_at(shared, mine, at, within, 15, (count,))
    (exponential,) = array_at(shared, mine, at, within, 16, (laws.exponent.shape[1],))
    (packed,) = array_at(shared, mine, at, within, 17, (12, species))
    (gram,) = array_at(shared, mine, at, within, 18, (at[19] - at[18],))
    (partial,) = array_at(shared, mine, at, within, 19, (at[20] - at[19],))
    (steep,) = array_at(shared, mine, at, within, 20, (slopes,))
    (energies,) = array_at(shared, mine, at, within, 21, (count,))
    (warmth,) = array_at(shared, mine, at, within, 22, (count,))
    (derivative,) = array_at(shared, mine, at, within, 23, (derivatives,))
    (jacobian,) = array_at(shared, mine, at, within, 24, (chemistry.slopes.entry.shape[1],))
    (border,) = array_at(shared, mine, at, within, 25, (count + NUMBERS,))
    zone = Zone(
        exponential, slots, steep, partners, falloff, packed, cuda.local.array(2, real),
        cuda.local.array((5, 1), real), matter, activity, rate, derivative, partial, group,
    )  # fmt: skip
    vectors = Vectors(
        past, y, change, correction, before, trial, weight, jacobian, energies, warmth, border,
        matrix, inverse, row, cuda.local.array(STEPS, real), cuda.local.array(STEPS, real),
        gram, group,
    )  # fmt: skip
    for i in range(group.rank, within, group.size):
        shared[i] = 0.0
    for i in range(group.rank, mine.size, group.size):
        mine[i] = 0.0
    cuda.syncwarp()
    for i in range(group.rank, width, group.size):
        for k in range(3):
            activity[k, i] = 1.0
    cuda.syncwarp()
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
