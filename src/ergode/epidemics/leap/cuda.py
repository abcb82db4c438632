"""A leap on a CUDA device: all steps of all replicates of a chunk in one persistent grid.

`leap.grid` divides replicates among threads, `leap.tile` steps the four nodes of a lane, and
`leap.gather` and `leap.push` update the forces of infection.  Pushed changes have two arrays: one
step writes one of them, and the next step reads it.  So one barrier per step is enough.
With sampled transitions, all random numbers are drawn at entry, so the next progression in a tile
is known.  The tile is skipped until then, unless a neighbour pushes a change into it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, cuda, from_bits, real, to_bits
from ergode.core.group import barrier
from ergode.epidemics.leap.factors import mean_factor, next_cursor
from ergode.epidemics.leap.gather import copy_bits, gather_hubs
from ergode.epidemics.leap.grid import (
    BARRIER_STRIDE,
    CURSOR,
    GATHERING,
    GRID,
    NEW,
    NUMBER,
    OVER,
    PRESENT,
    STAGE,
    START,
    UNDER_WAY,
    Shared,
    begin,
    nodes_of,
    sizes_of,
    thread_group,
    threads_of,
)
from ergode.epidemics.leap.options import (
    ADAPTIVE,
    CHANNELS,
    CUTS_HUBS,
    GATHERED,
    GATHERS,
    LAYERS,
    LOCAL_BITS,
    MODULATED,
    PUSHES,
    RESUMES,
    SKIPS,
    SOURCE_MASK,
)
from ergode.epidemics.leap.step import CHANGES, INFECTIOUS, PULLS, STEPS, next_ticks
from ergode.epidemics.leap.tile import step_tile
from ergode.epidemics.shared.options import HAS_STRATA

GATHER_FROM = 12  # gathering pays if this multiple of a step's changes exceeds the node count


class Step(NamedTuple):
    """One step of a replicate."""

    number: Any
    start: Any  # [ticks]
    ticks: Any
    end: Any
    exposure: Any  # unit of the force of infection x length of the step
    factor: Any  # of each layer
    cursor: Any  # of the factors
    grid_at: Any  # next time of the grid
    slot: Any  # of this step's signals
    gathering: Any  # whether forces of infection are gathered in this step
    gathers_next: Any  # and in the next one
    # Offsets of the arrays that this step reads, and that it writes for the next:
    odd: Any  # parity of the step
    bits_here: Any
    bits_there: Any
    delta_here: Any
    delta_there: Any


def leap_cuda(tables, hubs, seed, first_replicate, block_count, store, signals, moves, work):
    """Run every replicate.

    `block_count` is the number of blocks that share a replicate.
    Out: `moves` [replicate, time, column], zero at the start; `work` [WORK_SIZE].
    """
    shared = Shared(
        cuda.shared.array(32, np.int32), cuda.shared.array(1, np.int32),
        cuda.shared.array(1, bits), cuda.shared.array(GATHERED, np.int32),
        cuda.shared.array(0, np.uint32),
    )  # fmt: skip
    if cuda.threadIdx.x < 32:
        shared.moves[cuda.threadIdx.x] = 0
    if cuda.threadIdx.x == 0:
        shared.changes[0] = 0
        shared.largest[0] = bits(0)
    cuda.cg.this_grid().sync()  # only a cooperative launch, with all blocks resident, may sync
    sizes = sizes_of(tables.incoming)
    for row in range(
        thread_group(block_count), moves.shape[0], np.int64(cuda.gridDim.x) // block_count
    ):
        nodes = nodes_of(store, sizes, row, first_replicate + row, seed)
        words = signals.barrier_words[row * BARRIER_STRIDE : (row + 1) * BARRIER_STRIDE]
        threads = threads_of(block_count, words)
        if RESUMES:
            stage = signals.clock[row, STAGE]
            if stage == OVER:
                continue
            if stage == NEW:
                begin(threads, sizes, nodes, tables, moves)
        else:
            begin(threads, sizes, nodes, tables, moves)
        _run_replicate(threads, sizes, nodes, shared, tables, hubs, signals, moves, work)


def _run_replicate(threads, sizes, nodes, shared, tables, hubs, signals, moves, work):
    """Run a replicate from its seeds to the last time."""
    start = np.int64(0)
    number = np.uint32(0)
    grid_at = np.int64(0)
    cursor = np.int64(0)
    gathering = not PUSHES
    infectious = np.int64(0)
    present = np.int32(0)  # infectious nodes of this lane, where tiles are skipped
    changed = np.int64(0)
    gathered_steps = np.int64(0)
    first = np.uint32(0)
    stage = OVER
    if RESUMES:
        row = nodes.row
        if signals.clock[row, STAGE] == UNDER_WAY:
            start = signals.clock[row, START]
            number = np.uint32(signals.clock[row, NUMBER])
            grid_at = signals.clock[row, GRID]
            cursor = signals.clock[row, CURSOR]
            gathering = signals.clock[row, GATHERING] != 0
            # One thread goes on with the sum of all, which only sums read.
            if threads.rank == 0:
                present = np.int32(signals.clock[row, PRESENT])
        first = number
        barrier(threads)  # all have read
        if threads.rank == 0:
            signals.clock[row, PRESENT] = 0
    while True:
        if start == tables.schedule.grid_tick[grid_at]:
            if not HAS_STRATA:
                _note(nodes.row, grid_at, threads.thread, shared.moves, moves)
            grid_at += 1
            if grid_at == tables.schedule.grid_tick.size:
                break
        if RESUMES and np.int64(np.uint32(number - first)) >= signals.budget:
            stage = UNDER_WAY
            break
        step = _next_step(
            number, start, grid_at, cursor, gathering, threads, sizes, nodes, tables, signals
        )
        cursor = step.cursor
        if GATHERS and gathering:
            gathered_steps += 1
            _prepare_gathering(step, threads, sizes, nodes, shared, tables, hubs, signals)
        largest = real(0.0)
        changes = np.int32(0)
        for tile in range(threads.first_tile, sizes.tile_count, threads.tile_step):
            if SKIPS and _sleeps(tile, step, threads, sizes, nodes):
                continue
            tile_changes, tile_infectious, more, tile_largest = step_tile(
                tile, step, threads, sizes, nodes, shared, tables, hubs, moves
            )
            changes = np.int32(changes + tile_changes)
            infectious += tile_infectious
            present = np.int32(present + more)
            if ADAPTIVE:
                largest = max(largest, tile_largest)
        changed += np.int64(changes)
        infectious += np.int64(present)
        _signal(step, largest, changes, threads, shared, signals)
        barrier(threads)
        gathering = step.gathers_next
        start = step.end
        number = np.uint32(number + np.uint32(1))
    if RESUMES:
        _leave(
            stage, start, number, grid_at, cursor, gathering, present, threads, nodes, shared,
            signals, moves,
        )  # fmt: skip
    if threads.rank == 0:
        cuda.atomic.add(work, STEPS, np.int64(np.uint32(number - first)))
        cuda.atomic.add(work, PULLS, gathered_steps)
    if infectious > 0:
        cuda.atomic.add(work, INFECTIOUS, infectious)
    if changed > 0:
        cuda.atomic.add(work, CHANGES, changed)


def _leave(
    stage, start, number, grid_at, cursor, gathering, present, threads, nodes, shared, signals,
    moves,
):  # fmt: skip
    """Leave a replicate to the next launch, or mark it as over."""
    row = nodes.row
    if stage == UNDER_WAY:
        if not HAS_STRATA:
            _note(row, grid_at, threads.thread, shared.moves, moves)
        if present != 0:
            cuda.atomic.add(signals.clock, (row, np.int64(PRESENT)), np.int64(present))
    if threads.rank == 0:
        signals.clock[row, STAGE] = stage
        signals.clock[row, START] = start
        signals.clock[row, NUMBER] = np.int64(number)
        signals.clock[row, GRID] = grid_at
        signals.clock[row, CURSOR] = cursor
        signals.clock[row, GATHERING] = np.int64(gathering)


def _next_step(number, start, grid_at, cursor, gathering, threads, sizes, nodes, tables, signals):
    """The step that begins at `start`."""
    rules, schedule = tables.rules, tables.schedule
    slot = np.int64(number % np.uint32(3)) + 3 * nodes.row
    before = np.int64((number + np.uint32(2)) % np.uint32(3)) + 3 * nodes.row
    largest = real(0.0)
    gathers_next = not PUSHES
    if ADAPTIVE:
        largest = from_bits(signals.largest[before])
    if GATHERS and PUSHES:
        gathers_next = GATHER_FROM * np.int64(signals.changes[before]) > sizes.node_count
    ticks = next_ticks(schedule, start, schedule.grid_tick[grid_at], largest)
    if ADAPTIVE and number == np.uint32(0):
        ticks = np.int64(0)
    if threads.rank == 0:
        after = np.int64((number + np.uint32(1)) % np.uint32(3)) + 3 * nodes.row
        signals.largest[after] = bits(0)
        signals.changes[after] = 0
    factor = tuple(real(1.0) for layer in range(LAYERS))
    if MODULATED:
        cursor = next_cursor(tables.factors, cursor, start)
        factor = tuple(
            mean_factor(tables.factors, cursor, layer, start, ticks) for layer in range(LAYERS)
        )
    odd = np.uint32(number & np.uint32(1))
    even = np.uint32(1 - odd)
    planes = np.uint32(len(SOURCE_MASK))
    channels, padded_count = np.uint32(CHANNELS), np.uint32(sizes.padded_count)
    return Step(
        number, start, ticks, start + ticks, rules.unit * (real(ticks) * schedule.tick), factor,
        cursor, grid_at, slot, gathering, gathers_next, odd,
        np.uint32(odd * planes * sizes.plane), np.uint32(even * planes * sizes.plane),
        np.uint32(odd * channels * padded_count), np.uint32(even * channels * padded_count),
    )  # fmt: skip


def _prepare_gathering(step, threads, sizes, nodes, shared, tables, hubs, signals):
    """Copy the bits into shared memory, and sum the forces of infection on hubs."""
    if LOCAL_BITS:
        copy_bits(
            threads.thread, np.int32(cuda.blockDim.x), step.bits_here,
            np.int32(len(SOURCE_MASK) * sizes.plane), nodes.bits, shared.local_bits,
        )  # fmt: skip
        cuda.syncthreads()
    if CUTS_HUBS:
        gather_hubs(step, threads, sizes, nodes, shared, tables, hubs)
        barrier(threads)


def _sleeps(tile, step, threads, sizes, nodes):
    """Whether nothing happens in a tile in a step."""
    flag = np.uint32(step.odd * np.uint32(sizes.tile_count) + np.uint32(tile))
    awake = nodes.touched[flag] != 0
    if nodes.due[np.uint32(tile)] > step.end and not awake:
        return True
    cuda.syncwarp()
    if awake and threads.lane == 0:
        nodes.touched[flag] = np.int32(0)
    return False


def _signal(step, largest, changes, threads, shared, signals):
    """Tell the other blocks of the thread group the largest hazard and the number of changes."""
    if ADAPTIVE:
        if largest > 0.0:
            cuda.atomic.max(shared.largest, 0, to_bits(largest))
        cuda.syncthreads()
        if threads.thread == 0:
            cuda.atomic.max(signals.largest, step.slot, shared.largest[0])
            shared.largest[0] = bits(0)
    if GATHERS and PUSHES:
        if changes > 0:
            cuda.atomic.add(shared.changes, 0, changes)
        cuda.syncthreads()
        if threads.thread == 0 and shared.changes[0] > 0:
            cuda.atomic.add(signals.changes, step.slot, shared.changes[0])
            shared.changes[0] = 0


def _note(row, grid_at, thread, block_moves, moves):
    """Add a block's moves since the previous grid time to the moves of this grid time."""
    cuda.syncthreads()
    if thread < min(moves.shape[2], block_moves.size):
        count = block_moves[thread]
        if count != 0:
            cuda.atomic.add(moves, (row, grid_at, np.int64(thread)), count)
            block_moves[thread] = 0
    cuda.syncthreads()
