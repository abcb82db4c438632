"""Growth: build the grid from keys, and add cells where mass is about to move."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import (
    ByTarget,
    atomic_add,
    cuda,
    no_refcount,
    no_unroll,
    noinline_cpu,
    option,
    real,
)
from ergode.core.group import APART, barrier, edge, lanes_before, share, sum_of_threads
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
from ergode.density.grid.lattice import DIMENSION, VARYING

MOVES = option()
"""Moves to neighbours that a cell may need: two times the square of the dimension, and one for all
corners of three and more dimensions."""


@no_refcount
@noinline_cpu
def build(group, used, t, cells, frame):
    """Compute the table, rates and neighbours of all cells from their keys."""
    if group.rank == 0:
        cells.fastest[0] = real(0.0)
        cells.fastest[1] = real(0.0)
    for at in no_unroll(share(group, 0, cells.table.size)):
        cells.table[at] = EMPTY
    barrier(group)
    for i in no_unroll(share(group, 1, used)):
        enter(i, cells)
    barrier(group)
    for i in no_unroll(share(group, 1, used)):
        survey(i, t, cells, frame)
    for d in range(DIMENSION):
        for i in no_unroll(share(group, 1, used)):
            link(i, d, 0, cells, frame)
    barrier(group)


@no_refcount
@noinline_cpu
def expand(group, used, floor, listed, t, cells, due, p, q, frame):
    """Grow the grid where `p` is above the floor; returns the number of cells, and the state.

    New cells have zero `p` and `q`. `due` [cell] is workspace; on CUDA, if `listed`, it already has
    the cells that need neighbours.
    """
    grown = make_needed(group, used, floor, listed, cells, due, p, q, frame)
    state = cells.counters[STATE]
    if state == FULL or grown > cells.key.size:
        state = FULL
        grown = used
    if state == REACHED and (VARYING or grown > used):
        if VARYING:
            if group.rank == 0:
                cells.fastest[0] = real(0.0)
                cells.fastest[1] = real(0.0)
            barrier(group)
        for i in no_unroll(share(group, 1 if VARYING else used, grown)):
            survey(i, t, cells, frame)
        ways = 2 * DIMENSION
        for n in no_unroll(share(group, 0, ways * (grown - used))):
            i = n // ways
            way = n - i * ways
            link(used + i, way >> 1, way & 1, cells, frame)
        barrier(group)
        if is_undefined(cells):
            state = UNDEFINED
    return grown, state


def make_needed_cpu(group, used, floor, listed, cells, due, p, q, frame):
    """Make the neighbours that cells above the floor need; returns the number of cells.

    Each thread lists the cells of its share. Most are recent cells, in the last thread's share, so
    the whole list is divided again.
    """
    flow, words = cells.flow, cells.barrier_words
    mine = APART * (group.rank + 1)
    start = edge(group.rank, group.size, 1, used)
    place = start
    for i in range(start, edge(group.rank + 1, group.size, 1, used)):
        if (p[i] >= floor) & (flow[i] & COMPLETE == 0):
            due[place] = i
            place += 1
    words[mine + LISTED] = place - start
    words[mine + LATEST] = EMPTY
    words[mine + CLAIMED] = 0
    barrier(group)
    count = sum_of_threads(group.size, LISTED, words)
    if count == 0:
        return used
    before = np.int64(0)
    for other in range(group.size):
        there = words[APART * (other + 1) + LISTED]
        begin = edge(other, group.size, 1, used) - before
        first = max(before, edge(group.rank, group.size, 0, count))
        last = min(before + there, edge(group.rank + 1, group.size, 0, count))
        for n in range(first, last):
            i = due[begin + n]
            bits = flow[i]
            flow[i] = np.uint32(bits | COMPLETE)
            for move in range(MOVES):
                grow_towards(move, group.rank, i, cells.key[i], bits, cells, p, q, frame)
        before += there
    barrier(group)
    grown = used + sum_of_threads(group.size, CLAIMED, words)
    if grown <= cells.key.size:
        number = used + sum_of_threads(group.rank, CLAIMED, words)
        settle_claimed(words[mine + LATEST], number, cells, p, q)
    barrier(group)
    return grown


def make_needed_cuda(group, used, floor, listed, cells, due, p, q, frame):
    """`make_needed_cpu` on CUDA: cells are listed, and each move of a listed cell has a thread."""
    counters = cells.counters
    if not listed:
        for i in no_unroll(share(group, 1, used)):
            note_due(i, p[i], floor, cells, due)
        barrier(group)
    count = counters[DUE]
    # Each thread then waits for one slot of the table only.
    for n in no_unroll(share(group, 0, count * MOVES)):
        row = n // MOVES
        i = due[row]
        grow_towards(
            n - row * MOVES, group.rank, i, cells.key[i], cells.flow[i], cells, p, q, frame
        )
    if count > 0:
        barrier(group)
    if group.rank == 0:
        counters[DUE] = 0
    return counters[USED]


make_needed = ByTarget(cpu=make_needed_cpu, cuda=make_needed_cuda)


def note_due_cuda(i, mass, floor, cells, due):
    """List a cell that needs neighbours, and mark it complete, which it soon will be."""
    if mass >= floor and cells.flow[i] & COMPLETE == 0:
        # One atomic addition for all active lanes.
        lane = cuda.threadIdx.x & 31
        together = np.uint32(cuda.activemask())
        leader = cuda.ffs(together) - 1
        place = np.int64(0)
        if lane == leader:
            place = atomic_add(cells.counters, DUE, np.int64(cuda.popc(together)))
        place = cuda.shfl_sync(together, place, leader)
        due[place + lanes_before(together, lane)] = i
        cells.flow[i] = np.uint32(cells.flow[i] | COMPLETE)


def note_due_cpu(i, mass, floor, cells, due):
    """Do nothing: `make_needed_cpu` looks at all cells."""


note_due = ByTarget(cpu=note_due_cpu, cuda=note_due_cuda)
