"""Backward differentiation formulas with a warp for every zone: its memory, and the kernel.

The formulas are those of `formulas`, which the threads of a warp share. All threads decide, from
the same sums. Vectors that many threads read are in shared memory; all else is in device memory.
What all threads compute alike, each keeps for itself.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod

from ergode.core.compiler.language import by_reference, cuda, real, window
from ergode.core.group import Group, next_member
from ergode.kinetics.block.schedule import WARP
from ergode.kinetics.condition_history import history_of
from ergode.kinetics.kernel_options import EXCHANGES, POWERS, THIRD_BODIES
from ergode.kinetics.multistep.activities import Zone
from ergode.kinetics.multistep.corrector import Vectors
from ergode.kinetics.multistep.formulas import integrate_zone
from ergode.kinetics.multistep.nordsieck import MOST
from ergode.kinetics.multistep.tables import Chemistry
from ergode.kinetics.physics.third_bodies import slope_count

Shape = tuple[int, ...]


def shared_shapes(chemistry: Chemistry) -> list[Shape]:
    """Shapes of the arrays of a zone in shared memory, in the order of `integrate_group`."""
    count, powers = chemistry.absolute.size, chemistry.powers
    width = chemistry.reactions.start.size
    width += powers.power_count + powers.species.size if powers else 0
    return [(3, width), *[(count + 1,)] * 6]


def scratch_shapes(chemistry: Chemistry) -> list[Shape]:
    """Shapes of its arrays in device memory."""
    laws, reactions, sums = chemistry.laws, chemistry.reactions, chemistry.invariants.shape[0]
    species, count = reactions.start.size - 1, chemistry.absolute.size
    whole, pairs = reactions.left.shape[1], reactions.right.shape[1]
    sums_of = chemistry.schedule.changes, chemistry.schedule.slopes
    return [
        (laws.exponent.shape[1],), (2, laws.slot_count), (laws.rates.slope_count,),
        (laws.usual.size,), (3, laws.falloff.shape[1]), (12, species), (3, species), (3, whole),
        (3 * (whole + pairs) + chemistry.slopes.power.shape[1],),
        (max(part.place_count for part in sums_of),), (MOST + 1, count + 1), (count,),
        (chemistry.slopes.entry.shape[1],), (count,), (count,), (chemistry.plan.column.size + 1,),
        (count + 1,),        ((sums + 3) * sums,),
    ]  # fmt: skip


def places_of(shapes: list[Shape]) -> Shape:
    """Where arrays of these shapes begin in one memory, and where it ends."""
    return tuple(accumulate(map(prod, shapes), initial=0))


# --- device functions -----------------------------------------------------------------------------

STEPS = MOST + 2


def integrate_group(
    chemistry, at, behind, history, grid, rtol, max_steps, scratch, counter, outcome
):
    """Zones from a queue, each by one warp.

    Arrays begin in shared memory and in device memory where `at` and `behind` tell.
    """
    laws, reactions = chemistry.laws, chemistry.reactions
    species, count = reactions.start.size - 1, chemistry.absolute.size
    whole, pairs = reactions.left.shape[1], reactions.right.shape[1]
    width, longer = species + 1, count + 1 if EXCHANGES else count
    slopes = slope_count(laws.rates) if THIRD_BODIES else 0
    powers = 3 * (whole + pairs)
    if POWERS:
        width += chemistry.powers.start.size - 1 + chemistry.powers.species.size
        powers += chemistry.slopes.power.shape[1]
    shared, mine, to = cuda.shared.array(0, real), scratch[cuda.blockIdx.x], behind
    group = Group(cuda.threadIdx.x & 0x7FFFFFFFFFFFFFFF, WARP, (), (), ())
    for i in range(group.rank, mine.size, group.size):
        mine[i] = 0.0
    cuda.syncwarp()
    zone = Zone(
        window(mine, to[0], (laws.exponent.shape[1],)), window(mine, to[1], (2, laws.slot_count)),
        window(mine, to[2], (slopes,)), window(mine, to[3], (laws.usual.size,)),
        window(mine, to[4], (3, laws.falloff.shape[1])), window(mine, to[5], (12, species)),
        cuda.local.array(2, real), cuda.local.array((5, 1), real),
        window(mine, to[6], (3, species)), window(shared, at[0], (3, width)),
        window(mine, to[7], (3, whole)), window(mine, to[8], (powers,)),
        window(mine, to[9], (to[10] - to[9],)), group,
    )  # fmt: skip
    vectors = Vectors(
        window(mine, to[10], (MOST + 1, longer)), window(shared, at[1], (count,)),
        window(shared, at[2], (count,)), window(shared, at[3], (longer,)),
        window(mine, to[11], (count,)), window(shared, at[4], (count,)),
        window(shared, at[5], (count,)), window(mine, to[12], (chemistry.slopes.entry.shape[1],)),
        window(mine, to[13], (count,)), window(mine, to[14], (count,)),
        window(mine, to[15], (chemistry.plan.column.size + 1,)), window(mine, to[16], (count + 1,)), window(shared, at[6], (count + 1,)),
        cuda.local.array(STEPS, real), cuda.local.array(STEPS, real),
        window(mine, to[17], (to[18] - to[17],)), group,
    )  # fmt: skip
    for i in range(group.rank, whole, group.size):
        zone.rate[0, i] = 1.0
    for i in range(group.rank, 3 * width, group.size):
        shared[at[0] + i] = 1.0
    cuda.syncwarp()
    tables, own, its = by_reference(chemistry), by_reference(zone), by_reference(vectors)
    cuda.syncwarp()
    index = next_member(group, counter)
    while index < outcome.amounts.shape[0]:
        status, taken, repeated, defect, peak = integrate_zone(
            tables, own, its, history_of(history, index), grid, rtol, max_steps,
            outcome.amounts[index],
        )  # fmt: skip
        if group.rank == 0:
            outcome.status[index] = status
            outcome.taken[index] = taken
            outcome.repeated[index] = repeated
            outcome.defect[index] = defect
            outcome.fastest_heating[index] = peak
        index = next_member(group, counter)
