"""The sparse grid: cells in a hash table, their neighbours, growth and pruning.

Cells are numbered. Cell 0 is a zero-mass sentinel for missing neighbours, so loops over cells need
no branch. Each cell keeps the rates on the faces above it, the numbers of its neighbours, and bits
for the neighbours that it needs before its mass may move. They are computed only for new cells. A
cell that has all needed neighbours is complete, and growth skips it.

A thread claims a slot of the table by compare-and-swap, so a cell is made once. The numbers of
cells depend on the order of threads; masses and their sums do not, because sums are of integers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import (
    ByTarget,
    atomic_add,
    atomic_max,
    atomic_swap_if,
    option,
    real,
    unroll,
)
from ergode.core.group import APART
from ergode.density.grid.cut import cut, drawn_in, is_admissible
from ergode.density.grid.lattice import (
    ABSORBING,
    BITS,
    CROSSED,
    CUT,
    DIMENSION,
    DIMENSIONS_MOST,
    KILLED,
    LOSSY,
    NOISY,
    SPREAD_KEPT,
    VARYING,
    beside,
    centre_of,
    crossings,
    face_rates,
    is_allowed,
    is_inside,
    killing_rate,
    number_of_pair,
    shifted,
    spreads,
)
from ergode.density.grid.walls import find_walls

_HEAPED = 3.0  # least number of steps in which drift towards an edge crosses a cell
_KILLED_FAST = 2.0  # least number of steps in the time in which a rate kills most of a cell's mass

OWN_FACES = option(False)
"""Whether the rate on the face above a cell serves for the face below it too."""

SUM_OF_RATES = option(False)
"""Whether the sum of rates over dimensions bounds the step; else the largest rate does."""

EMPTY = np.int64(-1)
KEY = np.int64((1 << 62) - 1)  # in a list, the next bit marks a complete cell
_LOOKS_MOST = 4096  # longest search in a table, of which at least half is empty
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
COMPLETE = np.uint32(1 << 31)  # a bit of `flow`

# Words of `counters`: counts (the sentinel is one of the cells USED), and sums of mass since the
# density was loaded, in units of 2^-60. From TURN on: the sums of mass times the cosine and
# the sine of its phase, for each periodic axis.
(
    USED, READY, STATE, DUE, STEPS, SINCE, CELL_STEPS, PEAK, LOADED, PRUNED, LOST, CLIPPED,
    ABSORBED, KILLED_MASS, TURN,
) = range(15)  # fmt: skip
COUNTERS = TURN + 2 * DIMENSIONS_MOST
MASS_UNIT = np.float64(2.0**60)

# Private words of a CPU thread in `barrier_words`: number of cells that it lists, the latest slot
# that it claimed, and the number of slots that it claimed.
LISTED, LATEST, CLAIMED = range(3)

# Values of STATE: why the steps ended.
REACHED, FULL, EDGE, UNDEFINED, PAUSED = range(5)

# Words of `control`:
# - the time of the density, the time to stop at, the time up to which noise has acted, and the time
#   at which the density was loaded;
# - the threshold, the mass that may be pruned at once after loading, and the mass that may be
#   pruned a unit of time;
# - whether (1 or 0) to prune before the next step;
# - the mass of a cell at the threshold when the latest step began (0: no step yet);
# - the length of that step, unless the target was reached since;
# - for a field that depends on time, the time at which rates were last computed, the time at which
#   the stretch to the target began, and the parts of the stretch per unit of time; the longest step
#   in each of these parts follows (see `forcing`).
(
    TIME, TARGET, NOISE_TIME, LOADED_AT, THRESHOLD, ALLOWED, LOSS_RATE, TO_PRUNE, FLOOR, TAKEN,
    SEEN, BEGAN, PART_RATE, CONTROLS,
) = range(14)  # fmt: skip


PARTS = 64
"""Parts of a stretch between two targets, each with a longest step."""


class Cells(NamedTuple):
    """A sparse grid on a device; several densities have one more axis in front."""

    key: Any  # int64 [capacity]
    rate: Any  # real [dimension, capacity]: cells per unit of time, on the face above
    # real [dimension, capacity], if kept: fraction per unit of time each way; if noise is crossed,
    # there is a row more for every two dimensions
    spread: Any
    # real [2 x dimension + 1, capacity], if walls absorb: see `walls`;
    # real [dimension + 1, capacity], if they cut cells: see `cut`
    walls: Any
    decay: Any  # real [capacity], if mass is killed: fraction per unit of time
    above: Any  # uint32 [dimension, capacity]: number of the neighbour
    below: Any  # uint32 [dimension, capacity]
    flow: Any  # uint32 [capacity]: bit d, out through the face above; bit 16 + d, below
    table: Any  # int64 [2 x table size]: key and number of a cell, interleaved
    fastest: Any  # real [2]: largest rate that bounds the step, and largest spread
    counters: Any  # int64 [COUNTERS]
    ladder: Any  # int64: histogram of cell masses, for pruning by allowed loss
    barrier_words: Any  # int64: of the barrier, and private words of CPU threads or blocks, APART


class Masses(NamedTuple):
    """Mass of each cell, and workspace for a step; each [capacity]."""

    now: Any  # real
    next: Any  # real
    half: Any  # real: contributions of corners
    flux: Any  # real [rows, capacity]: fluxes through the faces above, of one or all dimensions
    key: Any  # int64: keys of the cells that stay
    kept: Any  # uint8


def cells_of(every, which):
    """The grid of one density."""
    return Cells(
        every.key[which], every.rate[which], every.spread[which], every.walls[which],
        every.decay[which], every.above[which], every.below[which], every.flow[which],
        every.table[which], every.fastest[which], every.counters[which], every.ladder[which],
        every.barrier_words[which],
    )  # fmt: skip


def masses_of(every, which):
    """The masses of one density."""
    return Masses(
        every.now[which], every.next[which], every.half[which], every.flux[which],
        every.key[which], every.kept[which],
    )  # fmt: skip


# ---- masses as integers, whose sums do not depend on their order


def units(mass):
    """A mass as an integer."""
    return np.int64(np.float64(mass) * MASS_UNIT)


def total_mass(counters):
    """Total mass, from the counters."""
    kept = counters[LOADED] - counters[PRUNED] - counters[LOST] + counters[CLIPPED]
    if LOSSY:
        # A few units: where all mass is gone, no cell is above the threshold.
        kept = max(kept - counters[ABSORBED] - counters[KILLED_MASS], np.int64(64))
    return np.float64(kept) / MASS_UNIT


def mass_at_threshold(counters, control):
    """Mass of a cell at the threshold."""
    floor = control[THRESHOLD] * total_mass(counters)
    if LOSSY:
        floor = max(floor, 1.0 / MASS_UNIT)  # no cell without mass is kept
    return floor


# ---- the table


def _home(table, key):
    """First slot of the search for a key."""
    mixed = np.uint64(key) * _SPREAD
    mixed = (mixed ^ (mixed >> np.uint64(32))) & np.uint64((table.size >> 1) - 1)
    return np.int64(mixed << np.uint64(1))


def _next(table, at):
    """Next slot of the search."""
    return (at + 2) & (table.size - 1)


def find(table, key):
    """Number of a cell; 0 if there is none."""
    at = _home(table, key)
    while True:
        found = table[at]
        if found == key:
            return np.uint32(table[at + 1])
        if found == EMPTY:
            return np.uint32(0)
        at = _next(table, at)


def enter(i, cells):
    """Put a listed cell into the table, without neighbours."""
    key = cells.key[i] & KEY
    cells.flow[i] = COMPLETE if cells.key[i] != key else np.uint32(0)
    cells.key[i] = key
    for d in unroll(range(DIMENSION)):
        cells.below[d, i] = np.uint32(0)
    at = _home(cells.table, key)
    while atomic_swap_if(cells.table, at, EMPTY, key) != EMPTY:
        at = _next(cells.table, at)
    cells.table[at + 1] = i


def claim(cells, key):
    """Claim a slot of the table for a cell: its index, or EMPTY if the table has the cell.

    A long search sets FULL. The grid is full long before the table is.
    """
    table = cells.table
    at = _home(table, key)
    for _ in range(_LOOKS_MOST):
        found = table[at]
        if found == EMPTY:
            found = atomic_swap_if(table, at, EMPTY, key)
            if found == EMPTY:
                return at
        if found == key:
            return EMPTY
        at = _next(table, at)
    cells.counters[STATE] = FULL
    return EMPTY


def settle(at, number, key, cells, masses, fresh):
    """Give the cell of a claimed slot its number, and zero mass."""
    cells.table[at + 1] = number
    cells.key[number] = key
    cells.flow[number] = np.uint32(0)
    masses[number] = real(0.0)
    fresh[number] = real(0.0)


def create_cuda(thread_rank, key, cells, masses, fresh):
    """Make a cell without mass, unless it exists."""
    at = claim(cells, key)
    if at != EMPTY:
        number = atomic_add(cells.counters, USED, 1)
        if number < cells.key.size:
            settle(at, number, key, cells, masses, fresh)


def create_cpu(thread_rank, key, cells, masses, fresh):
    """Claim a slot for a cell, unless the table has it; `settle_claimed` gives it a number.

    A counter that all threads share, and writes to cache lines of other threads, would cost more
    than all other work.
    """
    at = claim(cells, key)
    if at != EMPTY:
        mine = APART * (thread_rank + 1)
        cells.table[at + 1] = cells.barrier_words[mine + LATEST]  # until it has its number
        cells.barrier_words[mine + LATEST] = at
        cells.barrier_words[mine + CLAIMED] += 1


def settle_claimed(at, number, cells, masses, fresh):
    """Give numbers to the cells that a thread of a CPU claimed; `at` is the latest slot."""
    while at != EMPTY:
        before = cells.table[at + 1]
        settle(at, number, cells.table[at], cells, masses, fresh)
        number += 1
        at = before


create = ByTarget(cpu=create_cpu, cuda=create_cuda)


# ---- a cell's faces and neighbours


def _raise_to(values, at, value):
    """Raise a value to `value` atomically, if it is less."""
    if value > values[at]:
        atomic_max(values, at, value)


def _opens(key, z, d, way, frame):
    """Whether mass may cross the face of a cell above (`way` 1) or below (-1)."""
    if CUT and not is_allowed(shifted(z, d, real(0.5 * way), frame), frame):
        return False
    return is_admissible(beside(key, d, way, frame), frame)


def survey(i, t, cells, frame):
    """Compute the rates on the faces of a cell, and which neighbours its mass needs.

    A rate that is not finite makes the largest rate infinite.
    """
    z = centre_of(cells.key[i], frame)
    above = face_rates(t, z, real(0.5), frame)
    below = above if OWN_FACES else face_rates(t, z, real(-0.5), frame)
    if CUT:
        faster, towards = cut(i, z, cells, frame)
    bits = np.uint32(0)
    bound = real(0.0)
    all_finite = True
    for d in unroll(range(DIMENSION)):
        rate = above[d]
        if not (math.isfinite(rate) and math.isfinite(below[d])):
            # On the face of an inadmissible cell the field need not be defined.
            key = cells.key[i]
            rate = rate if math.isfinite(rate) else real(0.0)
            if (not math.isfinite(above[d]) and _opens(key, z, d, 1, frame)) or (
                not math.isfinite(below[d]) and _opens(key, z, d, -1, frame)
            ):
                rate = real(math.inf)
                all_finite = False
        if CUT and OWN_FACES:
            # Mass that flows into a missing cell would be lost.
            rate = rate if is_admissible(beside(cells.key[i], d, 1, frame), frame) else real(0.0)
        cells.rate[d, i] = rate
        if rate > 0.0 or NOISY[d]:
            bits = np.uint32(bits | np.uint32(1 << d))
        if below[d] < 0.0 or NOISY[d]:
            bits = np.uint32(bits | np.uint32(1 << (16 + d)))
        fraction = abs(rate)
        if CUT:  # along the edge
            fraction *= 1.0 + max(faster[d] - 1.0, real(0.0)) * (1.0 - towards[d] * towards[d])
        bound = bound + fraction if SUM_OF_RATES else max(bound, fraction)
    if not VARYING:  # else the needed neighbours may have changed
        bits = np.uint32((cells.flow[i] & COMPLETE) | bits)
    cells.flow[i] = bits
    _raise_to(cells.fastest, 0, bound if all_finite else real(math.inf))
    if CUT:
        z = drawn_in(z, frame)
    if SPREAD_KEPT:
        spread = spreads(t, z, frame)
        bound = real(0.0)
        for d in unroll(range(DIMENSION)):
            cells.spread[d, i] = spread[d]
            bound += max(faster[d], real(1.0)) * spread[d] if CUT else spread[d]
        if CROSSED:
            pairs = crossings(t, z, frame)
            for d in unroll(range(DIMENSION)):
                for e in unroll(range(d + 1, DIMENSION)):
                    cells.spread[number_of_pair(d, e), i] = pairs[d * DIMENSION + e]
                    bound += real(0.0) * pairs[d * DIMENSION + e]  # whether it is finite
            bound *= real(0.25 * DIMENSION * DIMENSION / (DIMENSION - 1))
        if CUT:
            speed = real(0.0)
            across = real(0.0)
            for d in unroll(range(DIMENSION)):
                speed -= real(0.5) * (above[d] + below[d]) * towards[d]
                across += spread[d] * towards[d] * towards[d]
            if across > 0.0:
                # What drift heaps up at the edge in a step creeps along it, until noise acts.
                _raise_to(cells.fastest, 0, _HEAPED * speed)
        _raise_to(cells.fastest, 1, bound if math.isfinite(bound) else real(math.inf))
    if ABSORBING:
        _raise_to(cells.fastest, 0, find_walls(i, t, z, cells, frame))
    if KILLED:
        rate = killing_rate(t, z, frame)
        cells.decay[i] = rate
        fast = _KILLED_FAST * rate if rate >= 0.0 and math.isfinite(rate) else real(math.inf)
        _raise_to(cells.fastest, 0, fast)


def is_undefined(cells):
    """Whether the field, or the noise, is not finite in some cell."""
    return math.isinf(cells.fastest[0]) or math.isinf(cells.fastest[1])


def link(i, d, side, cells, frame):
    """Link a cell and its neighbour above (side 0) or below (side 1) to each other."""
    other = find(cells.table, beside(cells.key[i], d, 1 - 2 * side, frame))
    number = np.uint32(i)
    if side == 0:
        cells.above[d, i] = other
        if other != 0:
            cells.below[d, other] = number
    else:
        cells.below[d, i] = other
        if other != 0:
            cells.above[d, other] = number


def _moves_out(bits, d, side):
    """Whether mass leaves a cell along dimension `d`, up (side 0) or down (side 1)."""
    return (bits >> np.uint32(d + 16 * side)) & np.uint32(1) != 0


def _try_to_create(thread_rank, key, d, cells, masses, fresh, frame):
    """Make a cell unless it exists, is not admissible or is outside the lattice."""
    if is_inside(key, d):
        if is_admissible(key, frame):
            create(thread_rank, key, cells, masses, fresh)
    else:
        cells.counters[STATE] = EDGE


def grow_towards(move, thread_rank, i, key, bits, cells, masses, fresh, frame):
    """Make neighbour `move` of MOVES, if the cell needs it and it does not exist.

    The first moves are along one dimension, up and down; then come diagonals, four for each pair of
    dimensions. The last move makes all corners of three and more dimensions.
    """
    if DIMENSION > 2 and move == 2 * DIMENSION * DIMENSION:
        _grow_corners(thread_rank, i, key, bits, cells, masses, fresh, frame)
        return
    if move < 2 * DIMENSION:
        d, side = move >> 1, move & 1
        if _moves_out(bits, d, side):
            there = cells.above[d, i] if side == 0 else cells.below[d, i]
            if there == 0:
                there_key = beside(key, d, 1 - 2 * side, frame)
                _try_to_create(thread_rank, there_key, d, cells, masses, fresh, frame)
        return
    side, turn = move & 1, (move >> 1) & 1
    pair = (move - 2 * DIMENSION) >> 2
    d = 0
    while pair >= DIMENSION - 1 - d:
        pair -= DIMENSION - 1 - d
        d += 1
    e = d + 1 + pair
    if _moves_out(bits, d, side) and _moves_out(bits, e, turn):
        there = cells.above[d, i] if side == 0 else cells.below[d, i]
        if there != 0:
            there = cells.above[e, there] if turn == 0 else cells.below[e, there]
        if there == 0:
            corner = beside(beside(key, d, 1 - 2 * side, frame), e, 1 - 2 * turn, frame)
            _try_to_create(thread_rank, corner, e, cells, masses, fresh, frame)


# Sweeps along all dimensions carry mass to the corner that is downwind along each of them. Mass
# waits where that cell is missing. Little of it crosses a face that moves less than this fraction
# of a cell in the longest step.
_FAR = 0.25


def _fast_axes(i, bits, cells):
    """The dimensions along which the mass of a cell moves far in the longest step, as bits."""
    least = real(_FAR) * cells.fastest[0]
    mask = np.int64(0)
    for d in unroll(range(DIMENSION)):
        rate = cells.rate[d, i]
        if abs(rate) > least and _moves_out(bits, d, 0 if rate > 0.0 else 1):
            mask |= np.int64(1) << np.int64(d)
    return mask


def _is_corner(mask):
    """Whether a set of dimensions has three or more."""
    pair = mask & (mask - 1)  # without the first
    return pair & (pair - 1) != 0


def _corner_of(i, mask, cells):
    """Number of the downwind neighbour along all dimensions of a set; 0 if a link is missing."""
    there = np.uint32(i)
    for d in range(DIMENSION):
        if (mask >> np.int64(d)) & 1 != 0 and there != 0:
            there = cells.above[d, there] if cells.rate[d, i] > 0.0 else cells.below[d, there]
    return there


def _grow_corners(thread_rank, i, key, bits, cells, masses, fresh, frame):
    """Make the downwind corners of three and more dimensions that a cell needs."""
    axes = _fast_axes(i, bits, cells)
    mask = axes if _is_corner(axes) else np.int64(0)
    while mask != 0:
        if _is_corner(mask) and _corner_of(i, mask, cells) == 0:
            corner = key
            last = 0
            for d in range(DIMENSION):
                if (mask >> np.int64(d)) & 1 != 0:
                    corner = beside(corner, d, 1 if cells.rate[d, i] > 0.0 else -1, frame)
                    last = d
            _try_to_create(thread_rank, corner, last, cells, masses, fresh, frame)
        mask = (mask - 1) & axes


# ---- pruning


def mark(i, cells, kept):
    """Mark a cell above the floor, and the neighbours that its mass needs, as kept."""
    kept[i] = np.uint8(1)
    bits = cells.flow[i]
    # A complete cell has all neighbours. Another may reach a diagonal along one dimension first and
    # not along the other.
    complete = bits & COMPLETE != 0
    for d in range(DIMENSION):
        for side in range(2):
            if _moves_out(bits, d, side):
                there = cells.above[d, i] if side == 0 else cells.below[d, i]
                kept[there] = np.uint8(1)
                for e in range(d + 1 if complete else 0, DIMENSION):
                    if e != d:
                        for turn in range(2):
                            if _moves_out(bits, e, turn):
                                other = (
                                    cells.above[e, there] if turn == 0 else cells.below[e, there]
                                )
                                kept[other] = np.uint8(1)
    if DIMENSION > 2:
        axes = _fast_axes(i, bits, cells)
        mask = axes if _is_corner(axes) else np.int64(0)
        while mask != 0:
            if _is_corner(mask):
                kept[_corner_of(i, mask, cells)] = np.uint8(1)
            mask = (mask - 1) & axes


def list_key(i, floor, cells, masses):
    """Key of a kept cell, for rebuilding the grid.

    A complete cell above the floor keeps the neighbours that it needs, so it stays complete.
    """
    if cells.flow[i] & COMPLETE != 0 and masses[i] >= floor:
        return cells.key[i] | (KEY + 1)
    return cells.key[i]


def interleave(index, first, key, code):
    """Compute the Morton code of a cell: the bits of its coordinates, interleaved."""
    word = key[first + index] & KEY
    result = np.int64(0)
    for bit in range(BITS):
        for d in range(DIMENSION):
            result |= ((word >> np.int64(BITS * d + bit)) & np.int64(1)) << np.int64(
                DIMENSION * bit + d
            )
    code[index] = result
