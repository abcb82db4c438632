"""Pruning: cells of little mass are dropped, unless mass that counts flows into them.

The floor below which a cell counts as of little mass is a fraction of all mass that the user
chose; or it follows from what the user allows to be lost, in which case it is the highest of a
ladder, each step a factor of 2^(1/2) or so above the one before, below which there is no more mass
than may be lost by now.  Sums are of integers, so that the floor does not depend on their order.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import (
    atomic_add,
    cuda,
    from_bits,
    no_refcount,
    no_unroll,
    real,
    to_bits,
)
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
    total_mass,
    units,
)
from ergode.density.grid.group import APART, EVERY_LANE, book, meet, share, sum_of_threads

# Bound for each kernel.
RETAINED = False  # the floor follows from what may be lost

# Steps of the ladder: two for each power of two, from 2^-60 up.
RUNGS = 128
_BOTTOM = np.int64(2 * (1023 - 60))
_HALF_OCTAVE = np.uint64(51)


def rung_of(mass):
    """Step of the ladder that a mass lies on."""
    rung = np.int64(to_bits(np.float64(mass)) >> _HALF_OCTAVE) - _BOTTOM
    return min(max(rung, np.int64(0)), np.int64(RUNGS - 1))


def _allowed(t, tally, clock):
    """Mass that may be pruned now, in units."""
    allowed = clock[ALLOWED] + clock[LOSS_RATE] * (t - clock[LOADED_AT])
    return np.int64(allowed * MASS_UNIT) - tally[PRUNED] - tally[LOST]


def _highest_floor(allowed, ladder):
    """Largest mass on the ladder below which there is no more than is allowed."""
    rung = np.int64(0)
    below = ladder[0]
    while below <= allowed and rung < RUNGS - 1:
        rung += np.int64(1)
        below += ladder[rung]
    return from_bits(np.uint64(rung + _BOTTOM) << _HALF_OCTAVE)


@no_refcount
def drop(rank, size, used, t, cells, masses, p, q, clock):
    """Drop the cells below the floor, but for those that mass above it flows into.

    Keys stay in place, masses move from `p` to `q`; returns the number of cells.
    """
    tally, kept = cells.tally, masses.kept
    if RETAINED:
        ladder = cells.ladder
        for rung in no_unroll(share(rank, size, 0, RUNGS)):
            ladder[rung] = 0
        meet(size, cells.meeting)
        for i in no_unroll(share(rank, size, 1, used)):
            atomic_add(ladder, rung_of(p[i]), units(p[i]))
        meet(size, cells.meeting)
        if rank == 0:
            highest = _highest_floor(_allowed(t, tally, clock), ladder)
            clock[THRESHOLD] = highest / total_mass(tally)
    for i in no_unroll(share(rank, size, 0, used)):
        kept[i] = np.uint8(0)
    meet(size, cells.meeting)
    floor = real(clock[THRESHOLD] * total_mass(tally))
    for i in no_unroll(share(rank, size, 1, used)):
        if p[i] >= floor:
            mark(i, cells, kept)
    if rank == 0:
        tally[USED] = 1
    meet(size, cells.meeting)
    dropped = compact(rank, size, used, floor, cells, masses, p, q)
    book(tally, PRUNED, dropped)
    meet(size, cells.meeting)
    count = tally[USED]
    for i in no_unroll(share(rank, size, 1, count)):
        cells.key[i] = masses.key[i]
    meet(size, cells.meeting)
    return count


def compact_cpu(rank, size, used, floor, cells, masses, p, q):
    """List the cells that stay, in their order; the mass of the others."""
    kept, words = masses.kept, cells.meeting
    count = 0
    for i in no_unroll(share(rank, size, 1, used)):
        count += np.int64(kept[i])
    words[APART * (rank + 1) + LISTED] = count
    meet(size, words)
    place = 1 + sum_of_threads(rank, LISTED, words)
    dropped = np.int64(0)
    for i in no_unroll(share(rank, size, 1, used)):
        if kept[i] != 0:
            masses.key[place] = list_key(i, floor, cells, p)
            q[place] = p[i]
            place += 1
        else:
            dropped += units(p[i])
    if rank == size - 1:
        cells.tally[USED] = place
    return dropped


def compact_cuda(rank, size, used, floor, cells, masses, p, q):
    """List the cells that stay, those of a warp in their order; the mass of the others."""
    tally, kept = cells.tally, masses.kept
    dropped = np.int64(0)
    lane = cuda.threadIdx.x & 31
    # Whole warps go round together, so that a warp asks for its places at once.
    for warp in no_unroll(range(rank - lane, used, size)):
        i = warp + lane
        stays = i > 0 and i < used and kept[i] != 0
        mask = np.uint32(cuda.ballot_sync(EVERY_LANE, stays))
        place = np.int64(0)
        if lane == 0:
            place = atomic_add(tally, USED, np.int64(cuda.popc(mask)))
        place = cuda.shfl_sync(EVERY_LANE, place, 0)
        if stays:
            place += cuda.popc(np.uint32(mask & np.uint32((np.int64(1) << lane) - 1)))
            masses.key[place] = list_key(i, floor, cells, p)
            q[place] = p[i]
        elif i > 0 and i < used:
            dropped += units(p[i])
    return dropped


compact = compact_cpu  # bound for each kernel
