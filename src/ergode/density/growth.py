"""Growth: the grid is built from keys, and gets cells where mass is about to move.

On a CPU a thread works through the cells; on a GPU all threads of a cooperative grid do, with a
barrier wherever cells read what others wrote.
"""

from __future__ import annotations

import numpy as np

from ergode.core.machine import cuda, real
from ergode.density.cells import (
    COMPLETE,
    DUE,
    EMPTY,
    FULL,
    REACHED,
    READY,
    STATE,
    USED,
    enter,
    grow,
    grow_towards,
    is_due,
    link,
    link_all,
    survey,
)
from ergode.density.lattice import DIMENSION

# Bound for each kernel.
VARYING = False  # the field or the noise depends on time
MOVES = 4  # four times the square of the dimension

EVERY_LANE = np.uint32(0xFFFFFFFF)


def build(cells, frame, t):
    """Table, rates and neighbours of all cells, from their keys."""
    for at in range(cells.table.size):
        cells.table[at] = EMPTY
    used = cells.tally[USED]
    cells.fastest[0] = real(0.0)
    cells.fastest[1] = real(0.0)
    for i in range(1, used):
        enter(i, cells)
    for i in range(1, used):
        survey(i, t, cells, frame)
        link_all(i, cells)
    cells.tally[READY] = 1


def expand(floor, t, cells, p, q, frame):
    """Grow the grid where `p` is above the floor; whether there was room.

    In cells that are made `p` and `q` are zero.
    """
    tally = cells.tally
    before = tally[USED]
    flow = cells.flow
    for i in range(1, before):
        # Asked here: to hand all arrays to a function costs more than the answer.
        if p[i] >= floor and flow[i] & COMPLETE == 0:
            grow(i, cells, p, q, frame)
    if tally[USED] > cells.key.size:
        tally[STATE] = FULL
        tally[USED] = before
        tally[READY] = 0
    if tally[STATE] != REACHED:
        return False
    if VARYING:
        cells.fastest[0] = real(0.0)
        cells.fastest[1] = real(0.0)
        for i in range(1, tally[USED]):
            survey(i, t, cells, frame)
    else:
        for i in range(before, tally[USED]):
            survey(i, t, cells, frame)
    for i in range(before, tally[USED]):
        link_all(i, cells)
    return True


# ---- CUDA


def build_cuda(grid, first, stride, used, t, cells, frame):
    """Table, rates and neighbours of all cells, as `build` makes them."""
    if first == 1:
        cells.fastest[0] = real(0.0)
        cells.fastest[1] = real(0.0)
    for at in range(first - 1, cells.table.size, stride):
        cells.table[at] = EMPTY
    grid.sync()
    for i in range(first, used, stride):
        enter(i, cells)
    grid.sync()
    for i in range(first, used, stride):
        survey(i, t, cells, frame)
    for n in range(first - 1, DIMENSION * used, stride):
        d = n // used
        i = n - d * used
        if i != 0:
            link(i, d, 0, cells)
    grid.sync()


def expand_cuda(grid, first, stride, used, floor, t, cells, due_list, p, q, frame):
    """Grow the grid as `expand` does; the number of cells, and a value of STATE.

    Out: `due_list`, numbers of the cells that grew.
    """
    tally = cells.tally
    _list_due(first, stride, used, floor, cells, due_list, p)
    grid.sync()
    due = tally[DUE]
    if due > 0:
        # A thread a move: all that it waits for is one place of the table.
        for n in range(first - 1, due * MOVES, stride):
            row = n // MOVES
            i = due_list[row]
            grow_towards(n - row * MOVES, i, cells.key[i], cells.flow[i], cells, p, q, frame)
        grid.sync()
        if first == 1:
            tally[DUE] = 0
    grown = tally[USED]
    state = tally[STATE]
    if grown > cells.key.size:
        state = FULL
        grown = used
    if state == REACHED and (VARYING or grown > used):
        if VARYING:
            if first == 1:
                cells.fastest[0] = real(0.0)
                cells.fastest[1] = real(0.0)
            grid.sync()
        for i in range(first if VARYING else used + first - 1, grown, stride):
            survey(i, t, cells, frame)
        for n in range(first - 1, 2 * DIMENSION * (grown - used), stride):
            i = used + n // (2 * DIMENSION)
            way = n - (i - used) * (2 * DIMENSION)
            link(i, way >> 1, way & 1, cells)
        grid.sync()
    return grown, state


def _list_due(first, stride, used, floor, cells, due_list, p):
    """List the cells that are due to grow, and call them complete: as soon they will be."""
    lane = cuda.threadIdx.x & 31
    # Whole warps go round together, so that a warp asks for its places at once.
    for warp in range(first - 1 - lane, used, stride):
        i = warp + lane
        due = i > 0 and i < used and is_due(i, floor, cells, p)
        mask = np.uint32(cuda.ballot_sync(EVERY_LANE, due))
        if mask != 0:
            place = np.int64(0)
            if lane == 0:
                place = cuda.atomic.add(cells.tally, DUE, np.int64(cuda.popc(mask)))
            place = cuda.shfl_sync(EVERY_LANE, place, 0)
            if due:
                ahead = np.uint32(mask & np.uint32((np.int64(1) << lane) - 1))
                due_list[place + cuda.popc(ahead)] = i
                cells.flow[i] = np.uint32(cells.flow[i] | COMPLETE)
