"""Counts on a time grid from the times at which nodes were infected.

Only infection times are stored: the path of each node through the compartments is drawn again from
its keys.  A move is counted at the first grid time at or after it.  A running sum over the grid,
starting with all nodes susceptible, gives the counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda
from ergode.epidemics.first_passage.kernel import starting_compartment, time_of
from ergode.epidemics.seeding import seeding_of_row
from ergode.epidemics.shared.counts import grid_index, running_sums
from ergode.epidemics.shared.options import COUNTING_ENTRIES, HAS_STRATA, WIDE
from ergode.epidemics.shared.progression import (
    LANES,
    advance,
    hold,
    holding_time,
    new_lanes,
    next_compartment,
    stages_of_row,
)
from ergode.epidemics.shared.sweep import replicate_of

# Moves that a block of CUDA threads can hold in shared memory [int32 entries]; beyond that they
# go to device memory one by one.
SHARED_ENTRIES = 8192


def _column(compartment, node, stratum, stratum_count):
    """Column of counts of a node in a compartment."""
    return compartment * stratum_count + stratum[node] if HAS_STRATA else compartment


def _stratum_count(counts, stages):
    return counts.shape[2] // (stages.order.size * (2 if COUNTING_ENTRIES else 1))


class Grid(NamedTuple):
    """Grid and columns of the counts."""

    times: Any  # ascending, real [time_count]
    per_step: Any  # grid points per unit of time
    susceptible: int  # compartment of nodes that are not reached
    at_first: Any  # nodes in each column before any infection, int32 [column]
    stratum: Any  # of each node, int32 [node_count]


def count_on_grid_cpu(start, stop, words, search, grid, counts):
    """Count replicates `start` to `stop` into `counts` [replicate, time, column].

    Columns are compartments, and then entries if they are counted, each by stratum.
    """
    rows, seed = search.rows, search.seed
    times, per_step, susceptible = grid.times, grid.per_step, grid.susceptible
    stratum, at_first = grid.stratum, grid.at_first
    node_count = words.shape[1]
    stratum_count = _stratum_count(counts, search.stages)
    horizon = times[times.size - 1]
    moves = np.empty((times.size + 1, counts.shape[2]), np.int64 if WIDE else np.int32)
    lanes = new_lanes()
    for row in range(start, stop):
        replicate = replicate_of(rows, row)
        stages = stages_of_row(search.stages, rows, row)
        seeding = seeding_of_row(search.seeding, rows, row)
        moves[:] = 0
        node = 0
        while node < node_count:
            count = 0
            while node < node_count and count < LANES:
                time = time_of(words[row, node])
                lanes.node[count] = node
                lanes.since[count] = time
                count += np.int64(time <= horizon)
                node += 1
            for lane in range(count):
                time = lanes.since[lane]
                compartment = starting_compartment(
                    seeding, time, np.int64(lanes.node[lane]), node_count, seed, replicate
                )
                lanes.compartment[lane] = compartment
                at = grid_index(times, per_step, time)
                column = _column(susceptible, np.int64(lanes.node[lane]), stratum, stratum_count)
                moves[at, column] -= 1
                column = _column(compartment, np.int64(lanes.node[lane]), stratum, stratum_count)
                moves[at, column] += 1
                if COUNTING_ENTRIES:
                    moves[at, column + stages.order.size * stratum_count] += 1
            for compartment in stages.order:
                if stages.kind[compartment] < 0:
                    continue
                size = hold(lanes, count, stages, compartment, horizon, seed, replicate)
                advance(lanes, size, stages, compartment, seed, replicate)
                for k in range(size):
                    lane = lanes.group[k]
                    at = grid_index(times, per_step, lanes.since[lane])
                    node_of_lane = np.int64(lanes.node[lane])
                    column = _column(compartment, node_of_lane, stratum, stratum_count)
                    moves[at, column] -= 1
                    column = _column(lanes.compartment[lane], node_of_lane, stratum, stratum_count)
                    moves[at, column] += 1
                    if COUNTING_ENTRIES:
                        moves[at, column + stages.order.size * stratum_count] += 1
        for at in range(times.size):  # a slice would compile an error message for unequal shapes
            for column in range(counts.shape[2]):
                counts[row, at, column] = moves[at, column]
        for column in range(counts.shape[2]):
            running_sums(row * counts.shape[2] + column, counts, at_first)


def count_type(number):
    """A number of nodes, as wide as counts are."""
    return np.int64(number) if WIDE else np.int32(number)


def count_on_grid_cuda(words, search, grid, moves):
    """Add the moves of every replicate to `moves` [replicate, time, column].

    `moves` must be zero at the start; it is int64 if `WIDE`.  Only the CPU uses `grid.at_first`: it
    sums up the moves.

    A row of blocks works on one replicate; its moves are summed in shared memory if they fit.
    """
    shared = cuda.shared.array(SHARED_ENTRIES, np.int32)
    rows, seed = search.rows, search.seed
    times, per_step, stratum = grid.times, grid.per_step, grid.stratum
    node_count = np.int64(words.shape[1])
    time_count = times.size
    column_count = moves.shape[2]
    stratum_count = _stratum_count(moves, search.stages)
    to_entries = search.stages.order.size * stratum_count
    entries = time_count * column_count
    fits = entries <= SHARED_ENTRIES
    last = times[time_count - 1]
    for row in range(cuda.blockIdx.y, words.shape[0], cuda.gridDim.y):
        replicate = replicate_of(rows, row)
        stages = stages_of_row(search.stages, rows, row)
        seeding = seeding_of_row(search.seeding, rows, row)
        if fits:
            for k in range(cuda.threadIdx.x, entries, cuda.blockDim.x):
                shared[k] = 0
        cuda.syncthreads()
        for node in range(cuda.grid(1), node_count, cuda.blockDim.x * cuda.gridDim.x):
            time = time_of(words[row, node])
            if time <= last:
                compartment = starting_compartment(seeding, time, node, node_count, seed, replicate)
                came_from = np.int32(grid.susceptible)
                going = True
                while going:
                    at = grid_index(times, per_step, time)
                    left = np.int64(_column(came_from, node, stratum, stratum_count))
                    entered = np.int64(_column(compartment, node, stratum, stratum_count))
                    if fits:
                        cuda.atomic.sub(shared, at * column_count + left, np.int32(1))
                        cuda.atomic.add(shared, at * column_count + entered, np.int32(1))
                        if COUNTING_ENTRIES:
                            entered += to_entries
                            cuda.atomic.add(shared, at * column_count + entered, np.int32(1))
                    else:
                        cuda.atomic.sub(moves, (row, at, left), count_type(1))
                        cuda.atomic.add(moves, (row, at, entered), count_type(1))
                        if COUNTING_ENTRIES:
                            entered += to_entries
                            cuda.atomic.add(moves, (row, at, entered), count_type(1))
                    going = stages.kind[compartment] >= 0
                    if going:
                        time = time + holding_time(stages, compartment, seed, replicate, node)
                        going = time <= last
                        if going:
                            came_from = np.int32(compartment)
                            compartment = next_compartment(
                                stages, compartment, seed, replicate, node
                            )
        cuda.syncthreads()
        if fits:
            for k in range(cuda.threadIdx.x, entries, cuda.blockDim.x):
                if shared[k] != 0:
                    cuda.atomic.add(
                        moves, (row, k // column_count, k % column_count), count_type(shared[k])
                    )
        cuda.syncthreads()
