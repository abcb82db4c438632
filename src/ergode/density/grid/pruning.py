"""Pruning: drop cells with little mass, unless much mass flows into them.

Cells below a floor have little mass. The floor is a fraction of the total mass, or follows from the
loss that the user allows. It is then the highest rung of a ladder, with a factor of about 2^(1/2)
between rungs, such that the cells below hold no more than may be lost by now. Masses are summed as
integers, so the floor does not depend on their order.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import (
    ByTarget,
    atomic_add,
    cuda,
    from_bits,
    no_refcount,
    no_unroll,
    noinline_cpu,
    option,
    real,
    to_bits,
)
from ergode.core.group import APART, accumulate, barrier, claim_place, share, sum_of_threads
from ergode.density.grid.cells import (
    ALLOWED,
    LISTED,
    LOADED_AT,
    LOSS_RATE,
    LOST,
    MASS_UNIT,
    PRUNED,
    THRESHOLD,
    USED,
    list_key,
    mark,
    mass_at_threshold,
    total_mass,
    units,
)

RETAINED = option(False)
"""Whether the floor follows from the loss that is allowed."""

# Rungs of the ladder: two for each power of two, from 2^-60 up.
RUNGS = 128
_BOTTOM = np.int64(2 * (1023 - 60))
_HALF_OCTAVE = np.uint64(51)


def rung_of(mass):
    """Rung of the ladder for a mass."""
    rung = np.int64(to_bits(np.float64(mass)) >> _HALF_OCTAVE) - _BOTTOM
    return min(max(rung, np.int64(0)), np.int64(RUNGS - 1))


def _allowed(t, counters, control):
    """Mass that may be pruned now, in units."""
    allowed = control[ALLOWED] + control[LOSS_RATE] * (t - control[LOADED_AT])
    return np.int64(allowed * MASS_UNIT) - counters[PRUNED] - counters[LOST]


def _highest_floor(allowed, ladder):
    """Largest mass on the ladder below which cells hold at most `allowed`."""
    rung = np.int64(0)
    below = ladder[0]
    while below <= allowed and rung < RUNGS - 1:
        rung += np.int64(1)
        below += ladder[rung]
    return from_bits(np.uint64(rung + _BOTTOM) << _HALF_OCTAVE)


@no_refcount
@noinline_cpu
def drop(group, used, t, cells, masses, p, q, control):
    """Drop the cells below the floor, except those that cells above it need.

    Keys stay in place, masses move from `p` to `q`; returns the number of cells.
    """
    counters, kept = cells.counters, masses.kept
    if RETAINED:
        ladder = cells.ladder
        for rung in no_unroll(share(group, 0, RUNGS)):
            ladder[rung] = 0
        barrier(group)
        for i in no_unroll(share(group, 1, used)):
            atomic_add(ladder, rung_of(p[i]), units(p[i]))
        barrier(group)
        if group.rank == 0:
            highest = _highest_floor(_allowed(t, counters, control), ladder)
            control[THRESHOLD] = highest / total_mass(counters)
    for i in no_unroll(share(group, 0, used)):
        kept[i] = np.uint8(0)
    barrier(group)
    floor = real(mass_at_threshold(counters, control))
    for i in no_unroll(share(group, 1, used)):
        if p[i] >= floor:
            mark(i, cells, kept)
    if group.rank == 0:
        counters[USED] = 1
    barrier(group)
    dropped = compact(group, used, floor, cells, masses, p, q)
    accumulate(group, counters, PRUNED, dropped)
    barrier(group)
    count = counters[USED]
    for i in no_unroll(share(group, 1, count)):
        cells.key[i] = masses.key[i]
    barrier(group)
    return count


def compact_cpu(group, used, floor, cells, masses, p, q):
    """List the kept cells in order; returns the mass of the others."""
    kept, words = masses.kept, cells.barrier_words
    count = 0
    for i in no_unroll(share(group, 1, used)):
        count += np.int64(kept[i])
    words[APART * (group.rank + 1) + LISTED] = count
    barrier(group)
    place = 1 + sum_of_threads(group.rank, LISTED, words)
    dropped = np.int64(0)
    for i in no_unroll(share(group, 1, used)):
        if kept[i] != 0:
            masses.key[place] = list_key(i, floor, cells, p)
            q[place] = p[i]
            place += 1
        else:
            dropped += units(p[i])
    if group.rank == group.size - 1:
        cells.counters[USED] = place
    return dropped


def compact_cuda(group, used, floor, cells, masses, p, q):
    """List the kept cells, in order within a warp; returns the mass of the others."""
    counters, kept = cells.counters, masses.kept
    dropped = np.int64(0)
    lane = cuda.threadIdx.x & 31
    # Whole warps loop together, for one atomic addition for each warp.
    for warp in no_unroll(range(group.rank - lane, used, group.size)):
        i = warp + lane
        stays = i > 0 and i < used and kept[i] != 0
        place = claim_place(stays, counters, USED, lane)
        if stays:
            masses.key[place] = list_key(i, floor, cells, p)
            q[place] = p[i]
        elif i > 0 and i < used:
            dropped += units(p[i])
    return dropped


compact = ByTarget(cpu=compact_cpu, cuda=compact_cuda)
