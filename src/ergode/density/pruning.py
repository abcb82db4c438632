"""Pruning: cells of little mass are dropped, unless mass that counts flows into them.

The floor below which a cell counts as of little mass is a fraction of all mass that the user
chose; or it follows from what the user allows to be lost, in which case it is the highest of a
ladder, each step a factor of 2^(1/2) or so above the one before, below which there is no more mass
than may be lost by now.  Sums are of integers, so that the floor does not depend on their order.
"""

from __future__ import annotations

import numpy as np

from ergode.core.machine import cuda, from_bits, real, to_bits
from ergode.density.cells import (
    ALLOWED,
    LOADED_AT,
    LOSS_RATE,
    LOST,
    MASS_UNIT,
    PRUNED,
    READY,
    THRESHOLD,
    TIME,
    USED,
    list_key,
    mark,
    total_mass,
    units,
)
from ergode.density.growth import EVERY_LANE, build, build_cuda

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


def prune(t, cells, p, kept, clock):
    """Drop the cells below the floor, but for those that mass above it flows into."""
    tally = cells.tally
    used = tally[USED]
    if RETAINED:
        ladder = cells.ladder
        for rung in range(RUNGS):
            ladder[rung] = 0
        for i in range(1, used):
            ladder[rung_of(p[i])] += units(p[i])
        clock[THRESHOLD] = _highest_floor(_allowed(t, tally, clock), ladder) / total_mass(tally)
    floor = real(clock[THRESHOLD] * total_mass(tally))
    for i in range(used):
        kept[i] = np.uint8(0)
    for i in range(1, used):
        if p[i] >= floor:
            mark(i, cells, kept)
    count = 1
    dropped = np.int64(0)
    for i in range(1, used):
        if kept[i] != 0:
            cells.key[count] = list_key(i, floor, cells, p)
            p[count] = p[i]
            count += 1
        else:
            dropped += units(p[i])
    tally[USED] = count
    tally[PRUNED] += dropped
    tally[READY] = 0


def prune_cpu(start, stop, cells, masses, frame, clock):
    """Prune alone: what follows a correction."""
    if cells.tally[READY] == 0:
        build(cells, frame, clock[TIME])
    prune(clock[TIME], cells, masses.now, masses.kept, clock)


# ---- CUDA


def _sum_of_warp(value):
    """Sum over the lanes of a warp, in its first lane."""
    for shift in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(EVERY_LANE, value, shift)
    return value


def book(tally, at, amount):
    """Add what all lanes of a warp have to one account."""
    total = _sum_of_warp(amount)
    if total != 0 and cuda.threadIdx.x & 31 == 0:
        cuda.atomic.add(tally, at, total)


def drop_cuda(grid, first, stride, used, t, cells, masses, p, q, clock):
    """Drop cells as `prune` does; keys stay in place, masses move from `p` to `q`."""
    tally, kept = cells.tally, masses.kept
    if RETAINED:
        ladder = cells.ladder
        for rung in range(first - 1, RUNGS, stride):
            ladder[rung] = 0
        grid.sync()
        for i in range(first, used, stride):
            cuda.atomic.add(ladder, rung_of(p[i]), units(p[i]))
        grid.sync()
        if first == 1:
            highest = _highest_floor(_allowed(t, tally, clock), ladder)
            clock[THRESHOLD] = highest / total_mass(tally)
    for i in range(first - 1, used, stride):
        kept[i] = np.uint8(0)
    grid.sync()
    floor = real(clock[THRESHOLD] * total_mass(tally))
    for i in range(first, used, stride):
        if p[i] >= floor:
            mark(i, cells, kept)
    if first == 1:
        tally[USED] = 1
    grid.sync()
    dropped = np.int64(0)
    lane = cuda.threadIdx.x & 31
    # Whole warps go round together, so that a warp asks for its places at once.
    for warp in range(first - 1 - lane, used, stride):
        i = warp + lane
        stays = i > 0 and i < used and kept[i] != 0
        mask = np.uint32(cuda.ballot_sync(EVERY_LANE, stays))
        place = np.int64(0)
        if lane == 0:
            place = cuda.atomic.add(tally, USED, np.int64(cuda.popc(mask)))
        place = cuda.shfl_sync(EVERY_LANE, place, 0)
        if stays:
            place += cuda.popc(np.uint32(mask & np.uint32((np.int64(1) << lane) - 1)))
            masses.key[place] = list_key(i, floor, cells, p)
            q[place] = p[i]
        elif i > 0 and i < used:
            dropped += units(p[i])
    book(tally, PRUNED, dropped)
    grid.sync()
    count = tally[USED]
    for i in range(first, count, stride):
        cells.key[i] = masses.key[i]
    grid.sync()
    return count


def prune_cuda(cells, masses, frame, clock):
    """Prune alone: what follows a correction."""
    grid = cuda.cg.this_grid()
    first = cuda.grid(1) + 1
    stride = cuda.gridsize(1)
    used = cells.tally[USED]
    ready = cells.tally[READY]
    t = clock[TIME]
    grid.sync()
    if ready == 0:
        build_cuda(grid, first, stride, used, t, cells, frame)
    used = drop_cuda(grid, first, stride, used, t, cells, masses, masses.now, masses.next, clock)
    for i in range(first, used, stride):
        masses.now[i] = masses.next[i]
    if first == 1:
        cells.tally[READY] = 0
