"""Growth: the grid is built from keys, and gets cells where mass is about to move."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import atomic_add, cuda, no_refcount, no_unroll, real
from ergode.density.grid.cells import (
    CLAIMED,
    COMPLETE,
    DUE,
    EMPTY,
    FULL,
    LATEST,
    LISTED,
    REACHED,
    STATE,
    UNDEFINED,
    USED,
    enter,
    grow_towards,
    is_undefined,
    link,
    settle_claimed,
    survey,
)
from ergode.density.grid.group import APART, edge, meet, share, sum_of_threads
from ergode.density.grid.lattice import DIMENSION

# Bound for each kernel.
VARYING = False  # the field or the noise depends on time
MOVES = 2  # two times the square of the dimension


@no_refcount
def build(rank, size, used, t, cells, frame):
    """Table, rates and neighbours of all cells, from their keys."""
    if rank == 0:
        cells.fastest[0] = real(0.0)
        cells.fastest[1] = real(0.0)
    for at in no_unroll(share(rank, size, 0, cells.table.size)):
        cells.table[at] = EMPTY
    meet(size, cells.meeting)
    for i in no_unroll(share(rank, size, 1, used)):
        enter(i, cells)
    meet(size, cells.meeting)
    for i in no_unroll(share(rank, size, 1, used)):
        survey(i, t, cells, frame)
    for d in range(DIMENSION):
        for i in no_unroll(share(rank, size, 1, used)):
            link(i, d, 0, cells)
    meet(size, cells.meeting)


@no_refcount
def expand(rank, size, used, floor, listed, t, cells, due, p, q, frame):
    """Grow the grid where `p` is above the floor; the number of cells, and a value of STATE.

    In cells that are made `p` and `q` are zero. Room to write: `due` [cell], which on CUDA has the
    cells that need neighbours where they were `listed` as mass moved to them.
    """
    grown = make_needed(rank, size, used, floor, listed, cells, due, p, q, frame)
    state = cells.tally[STATE]
    if state == FULL or grown > cells.key.size:
        state = FULL
        grown = used
    if state == REACHED and (VARYING or grown > used):
        if VARYING:
            if rank == 0:
                cells.fastest[0] = real(0.0)
                cells.fastest[1] = real(0.0)
            meet(size, cells.meeting)
        for i in no_unroll(share(rank, size, 1 if VARYING else used, grown)):
            survey(i, t, cells, frame)
        ways = 2 * DIMENSION
        for n in no_unroll(share(rank, size, 0, ways * (grown - used))):
            i = n // ways
            way = n - i * ways
            link(used + i, way >> 1, way & 1, cells)
        meet(size, cells.meeting)
        if is_undefined(cells):
            state = UNDEFINED
    return grown, state


def make_needed_cpu(rank, size, used, floor, listed, cells, due, p, q, frame):
    """Make the neighbours that cells above the floor need; the number of cells.

    Every thread lists those of its share.  Most are cells that were made last, which are the last
    one's, so the list is then divided anew.
    """
    flow, words = cells.flow, cells.meeting
    mine = APART * (rank + 1)
    start = edge(rank, size, 1, used)
    place = start
    for i in range(start, edge(rank + 1, size, 1, used)):
        if (p[i] >= floor) & (flow[i] & COMPLETE == 0):
            due[place] = i
            place += 1
    words[mine + LISTED] = place - start
    words[mine + LATEST] = EMPTY
    words[mine + CLAIMED] = 0
    meet(size, words)
    count = sum_of_threads(size, LISTED, words)
    if count == 0:
        return used
    before = np.int64(0)
    for other in range(size):
        there = words[APART * (other + 1) + LISTED]
        begin = edge(other, size, 1, used) - before
        first = max(before, edge(rank, size, 0, count))
        last = min(before + there, edge(rank + 1, size, 0, count))
        for n in range(first, last):
            i = due[begin + n]
            bits = flow[i]
            flow[i] = np.uint32(bits | COMPLETE)
            for move in range(MOVES):
                grow_towards(move, rank, i, cells.key[i], bits, cells, p, q, frame)
        before += there
    meet(size, words)
    grown = used + sum_of_threads(size, CLAIMED, words)
    if grown <= cells.key.size:
        number = used + sum_of_threads(rank, CLAIMED, words)
        settle_claimed(words[mine + LATEST], number, cells, p, q)
    meet(size, words)
    return grown


def make_needed_cuda(rank, size, used, floor, listed, cells, due, p, q, frame):
    """The same: cells that are due are listed, and then every move has a thread."""
    tally = cells.tally
    if not listed:
        for i in no_unroll(share(rank, size, 1, used)):
            note_due(i, p[i], floor, cells, due)
        meet(size, cells.meeting)
    count = tally[DUE]
    # All that a thread waits for is one place of the table.
    for n in no_unroll(share(rank, size, 0, count * MOVES)):
        row = n // MOVES
        i = due[row]
        grow_towards(n - row * MOVES, rank, i, cells.key[i], cells.flow[i], cells, p, q, frame)
    if count > 0:
        meet(size, cells.meeting)
    if rank == 0:
        tally[DUE] = 0
    return tally[USED]


make_needed = make_needed_cpu  # bound for each kernel


def note_due_cuda(i, mass, floor, cells, due):
    """List a cell if it is due to grow, and call it complete: as soon it will be; on CUDA."""
    if mass >= floor and cells.flow[i] & COMPLETE == 0:
        # Lanes that are here together ask for their places at once.
        lane = cuda.threadIdx.x & 31
        together = np.uint32(cuda.activemask())
        leader = cuda.ffs(together) - 1
        place = np.int64(0)
        if lane == leader:
            place = atomic_add(cells.tally, DUE, np.int64(cuda.popc(together)))
        place = cuda.shfl_sync(together, place, leader)
        ahead = np.uint32(together & np.uint32((np.int64(1) << lane) - 1))
        due[place + cuda.popc(ahead)] = i
        cells.flow[i] = np.uint32(cells.flow[i] | COMPLETE)


def note_due_cpu(i, mass, floor, cells, due):
    """Leave it to the next look at all cells."""


note_due = note_due_cpu  # bound for each kernel
