"""The memory of a zone, for threads that share one and for tanks that are connected.

Arrays are windows of one array, or of two: what a step reads and writes most is in shared memory of
a GPU, all else in device memory.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod

from ergode.core.compiler.language import window
from ergode.core.group import barrier, share
from ergode.core.math.nordsieck import MOST
from ergode.kinetics.kernel_options import POWERS, SELF_HEATING, THIRD_BODIES
from ergode.kinetics.multistep.activities import Zone, further_slopes
from ergode.kinetics.multistep.corrector import Vectors
from ergode.kinetics.multistep.outside import NUMBERS, kept_count
from ergode.kinetics.multistep.tables import Chemistry
from ergode.kinetics.physics.formulas import memory_count
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
    read = slopes.sum.shape[1] if len(slopes.sum) else 0
    parts = (schedule.changes, schedule.slopes) if schedule else ()
    partial = max((part.place_count for part in parts), default=0)
    return [
        (3, width), (count,), (count,), (count + kept,), (count,), (count,), (count + 1,),
        (count + 1,), (3, species), (laws.usual.size,), (3, laws.falloff.shape[1]),
        (MOST + 1, count + kept), (1 if heats else 2, whole), (1 if heats else 2, laws.slot_count),
        (chemistry.plan.column.size + 1,), (count,), (laws.exponent.shape[1],), (12, species),
        ((sums + 3) * sums,), (partial,), (laws.rates.slope_count,), (count,), (count,),
        (3 * (whole + pairs) + slopes.power.shape[1] + read,), (slopes.entry.shape[1],),
        (count + NUMBERS,), (laws.rates.memory_count,),
    ]  # fmt: skip


def places_of(shapes: list[Shape], most: int) -> tuple[Shape, int]:
    """Where arrays of these shapes begin, and where the last ends; how many numbers are shared.

    Whole arrays are in shared memory, up to `most` numbers.
    """
    places = tuple(accumulate(map(prod, shapes), initial=0))
    return places, max(place for place in places if place <= most)


# --- device functions -----------------------------------------------------------------------------

ARRAYS = 27


def array_at(shared, mine, at, within, k, shape):
    """Array k, in shared memory if it ends there (a tuple, as CUDA returns no part of an array)."""
    if at[k + 1] <= within:
        return (window(shared, at[k], shape),)
    return (window(mine, at[k] - within, shape),)


def room_of(chemistry, shared, mine, at, within, between, hot, gain, lengths, group):
    """The workspace and the vectors of a zone, whose arrays begin where `at` tells.

    They are in `shared` up to `within`, and then in `mine`.
    """
    laws, reactions = chemistry.laws, chemistry.reactions
    species, count = reactions.start.size - 1, chemistry.absolute.size
    whole, pairs = reactions.left.shape[1], reactions.right.shape[1]
    width, longer = species + 1, count + kept_count(chemistry.invariants.shape[0])
    slopes = slope_count(laws.rates) if THIRD_BODIES else 0
    derivatives = 3 * (whole + pairs) + further_slopes(chemistry.slopes)
    if POWERS:
        width += chemistry.powers.start.size - 1 + chemistry.powers.species.size
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
    (history,) = array_at(shared, mine, at, within, 11, (MOST + 1, longer))
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
    (memory,) = array_at(shared, mine, at, within, 26, (memory_count(laws.rates),))
    zone = Zone(
        exponential, slots, steep, partners, falloff, packed, between, hot, matter, activity, rate,
        derivative, partial, memory, chemistry.work, group,
    )  # fmt: skip
    vectors = Vectors(
        history, y, change, correction, before, trial, weight, jacobian, energies, warmth, border,
        matrix, inverse, row, gain, lengths, gram, group,
    )  # fmt: skip
    return zone, vectors


def clear(zone, shared, mine):
    """Put zeros everywhere, and activities of one; ends in a barrier."""
    group, activity = zone.group, zone.activity
    for i in share(group, 0, shared.size):
        shared[i] = 0.0
    for i in share(group, 0, mine.size):
        mine[i] = 0.0
    barrier(group)
    for i in share(group, 0, activity.shape[1]):
        for k in range(3):
            activity[k, i] = 1.0
    barrier(group)
