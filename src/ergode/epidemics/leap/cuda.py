"""A leap on a CUDA device: all steps of all replicates of a chunk in one persistent grid.

A thread group is the blocks that work on one replicate.  They wait for one another at a barrier
after each step.  Where there are more replicates than blocks, a thread group is one block, and
there is nothing to wait for.  A warp takes 128 nodes at a time, a tile; a lane has the four that
are 32 apart.  Their compartments are the bytes of one word, and their draws are one block of random
numbers.

`leap.tile` says what a lane does with its four nodes, `leap.gather` and `leap.push` how nodes learn
of their neighbours.  There are two arrays of what is pushed: one step writes one of them, and the
next step reads it.  So one barrier a step is enough.  With sampled transitions all chance is drawn
at entry: a tile knows when it next changes by itself.  It is skipped until then, unless something
is pushed into it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, cuda, fma, from_bits, real, to_bits, unroll
from ergode.epidemics.leap.factors import mean_factor, next_cursor, susceptibility
from ergode.epidemics.leap.gather import EVERY_LANE, copy_bits, gather_hubs, gather_tile, is_in
from ergode.epidemics.leap.push import push_all, push_seed
from ergode.epidemics.leap.step import (
    ADAPTIVE,
    AGED,
    CHANGES,
    INFECTIOUS,
    MODULATED,
    NOBODY,
    PULLS,
    SAMPLED,
    STEPS,
    THRESHOLDS,
    arrival_tick,
    column,
    ending_rate,
    next_ticks,
    seed_tick,
    threshold,
)
from ergode.epidemics.leap.tile import (
    ballot,
    destination,
    draw_hits,
    due_by,
    infectious_four,
    leaves_by,
    nth,
    probability_to_leave,
    read_if,
)
from ergode.epidemics.seeding import seed_age, seed_compartment, seed_node

# What a kernel is for; rebound.
# ruff: noqa: SIM102
GATHERS = True  # at least in some steps
PUSHES = True
SKIPS = False  # tiles in which nothing happens
LOCAL_BITS = False  # who is infectious fits in shared memory
CUTS_HUBS = False  # there are rows to cut into segments
HAS_STRATA = False  # moves are too many kinds for shared memory
LAYERS = 1
GATHERED = 4096  # words of shared memory: four a thread
# The model's structure (see `step.Rules`), for which a kernel is compiled.
SOURCE_MASK: tuple[int, ...] = (2,)
SOURCE_INFECTION: tuple[int, ...] = (0,)
SUSCEPTIBLE: tuple[int, ...] = (0,)
CHANNELS = 1  # pressures of a node: by infection and layer
CHANNEL_SUSCEPTIBLE: tuple[int, ...] = (0,)
CHANNEL_LAYER: tuple[int, ...] = (0,)
SUSCEPTIBLE_MASK = 1
LEAVING_MASK = 2
KEEPING_MASK = 3

TILE = 128
BARRIER_STRIDE = 32
_NEVER = 2**31 - 1  # ticks
GATHER_FROM = 12  # times the changes of a step: if more than the nodes, gathering pays


class Store(NamedTuple):
    """The nodes of all replicates, each padded to whole tiles; a row is a replicate."""

    state: Any  # compartments, four to a word: uint32 [row x tile x 32]
    since: Any  # int32 [row x node], or [1] where no ages are kept
    bits: Any  # who is in a source: uint32 [row x parity x source x node / 32]
    pressure: Any  # int32 [row x infection x node], or [1] if nothing is pushed
    left: Any  # of thresholds, int32 [row x node], or [1] where there are none
    due: Any  # tick at which something next happens in a tile by itself, int32 [row x tile], or [1]
    touched: Any  # whether something was pushed into a tile, int32 [row x parity x tile], or [1]
    delta: Any  # what was pushed in the step before: int32 [row x parity x infection x node]


class Signals(NamedTuple):
    """What the blocks of a thread group tell each other."""

    barrier_words: Any  # arrivals, int32 [row x BARRIER_STRIDE]
    largest: Any  # largest hazard, bits [row x 3]
    changes: Any  # changes of infectivity, int32 [row x 3]


def leap_cuda(
    incoming, outgoing, hubs, rules, stages, probabilities, schedule, factors, seeding, seed,
    first_replicate, block_count, store, signals, moves, work,
):  # fmt: skip
    """Run every replicate.

    Model: `incoming` to `seeding`. `block_count` is the number of blocks that share a replicate.
    Out: `moves` [replicate, time, column], all zero before; `work` [WORK_SIZE].
    """
    thread = np.int32(cuda.threadIdx.x)
    lane = np.int32(thread & 31)
    warp = np.int32(thread >> 5)
    block_moves = cuda.shared.array(32, np.int32)
    block_changes = cuda.shared.array(1, np.int32)
    block_largest = cuda.shared.array(1, bits)
    gathered = cuda.shared.array(GATHERED, np.int32)
    local_bits = cuda.shared.array(0, np.uint32)
    if thread < 32:
        block_moves[thread] = 0
    if thread == 0:
        block_changes[0] = 0
        block_largest[0] = bits(0)
    cuda.cg.this_grid().sync()  # a grid that syncs is launched only if all of it is resident

    node_count = np.int32(incoming.offsets.size - 1)
    tile_count = np.int32((node_count + TILE - 1) // TILE)
    padded_count = np.int32(tile_count * TILE)
    plane = np.uint32(tile_count * 4)  # words of one source's bits
    thread_group = np.int32(cuda.blockIdx.x // block_count)
    block_rank = np.int32(cuda.blockIdx.x - thread_group * block_count)
    thread_rank = np.int32(block_rank * cuda.blockDim.x + thread)  # within the thread group
    thread_count = np.int32(block_count * cuda.blockDim.x)
    first_tile = np.int32(thread_rank >> 5)
    tile_step = np.int32(thread_count >> 5)

    for row in range(thread_group, moves.shape[0], np.int64(cuda.gridDim.x) // block_count):
        replicate = first_replicate + row
        # Parts of one size for every row; of an array that is not used, an empty one.
        size = np.int64(padded_count) // 4
        state = store.state[row * size : (row + 1) * size]
        size = np.int64(padded_count) if AGED else 0
        since = store.since[row * size : (row + 1) * size]
        size = 2 * len(SOURCE_MASK) * np.int64(plane) if GATHERS else 0
        planes = store.bits[row * size : (row + 1) * size]
        size = CHANNELS * np.int64(padded_count) if PUSHES else 0
        pressures = store.pressure[row * size : (row + 1) * size]
        deltas = store.delta[2 * row * size : 2 * (row + 1) * size]
        size = np.int64(padded_count) if THRESHOLDS else 0
        left = store.left[row * size : (row + 1) * size]
        size = np.int64(tile_count) if SKIPS else 0
        due = store.due[row * size : (row + 1) * size]
        touched = store.touched[2 * row * size : 2 * (row + 1) * size]
        _begin(
            row, thread_rank, thread_count, replicate, node_count, tile_count, outgoing, rules,
            stages, schedule, seeding, seed, state, since, planes, pressures, deltas, left, due,
            touched, moves, block_count, signals,
        )  # fmt: skip
        start = np.int64(0)
        step = np.uint32(0)
        grid_at = np.int64(0)
        cursor = np.int64(0)
        gathering = not PUSHES
        infectious = np.int64(0)
        present = np.int32(0)  # infectious nodes of this lane, where tiles are skipped
        changed = np.int64(0)
        gathered_steps = np.int64(0)
        while True:
            if start == schedule.grid_tick[grid_at]:
                if not HAS_STRATA:
                    _note(row, grid_at, thread, block_moves, moves)
                grid_at += 1
                if grid_at == schedule.grid_tick.size:
                    break
            now = np.int64(step % np.uint32(3)) + 3 * row  # slot of this step's signals
            before = np.int64((step + np.uint32(2)) % np.uint32(3)) + 3 * row
            largest = real(0.0)
            gathers_next = not PUSHES
            if ADAPTIVE:
                largest = from_bits(signals.largest[before])
            if GATHERS and PUSHES:
                gathers_next = GATHER_FROM * np.int64(signals.changes[before]) > node_count
            ticks = next_ticks(schedule, start, schedule.grid_tick[grid_at], largest)
            if ADAPTIVE:
                if step == np.uint32(0):
                    ticks = np.int64(0)
            if thread_rank == 0:
                after = np.int64((step + np.uint32(1)) % np.uint32(3)) + 3 * row
                signals.largest[after] = bits(0)
                signals.changes[after] = 0
            end = start + ticks
            exposure = rules.unit * (real(ticks) * schedule.tick)
            factor = tuple(real(1.0) for layer in range(LAYERS))
            if MODULATED:
                cursor = next_cursor(factors, cursor, start)
                factor = tuple(
                    mean_factor(factors, cursor, layer, start, ticks) for layer in range(LAYERS)
                )
            odd = np.uint32(step & np.uint32(1))
            bits_here = np.uint32(odd * np.uint32(len(SOURCE_MASK)) * plane)
            bits_there = np.uint32(np.uint32(1 - odd) * np.uint32(len(SOURCE_MASK)) * plane)
            delta_here = np.uint32(odd * np.uint32(CHANNELS) * np.uint32(padded_count))
            delta_there = np.uint32(
                np.uint32(1 - odd) * np.uint32(CHANNELS) * np.uint32(padded_count)
            )
            if GATHERS:
                if gathering:
                    gathered_steps += 1
                    if LOCAL_BITS:
                        copy_bits(
                            thread, np.int32(cuda.blockDim.x), bits_here,
                            np.int32(len(SOURCE_MASK) * plane), planes, local_bits,
                        )  # fmt: skip
                        cuda.syncthreads()
                    if CUTS_HUBS:
                        gather_hubs(
                            row, bits_here, plane, first_tile, tile_step, lane, incoming, hubs,
                            rules, state, planes, local_bits,
                        )  # fmt: skip
                        barrier(signals.barrier_words, row, block_count)
            step_largest = real(0.0)
            step_changes = np.int32(0)
            for tile in range(first_tile, tile_count, tile_step):
                if SKIPS:
                    flag = np.uint32(odd * np.uint32(tile_count) + np.uint32(tile))
                    awake = touched[flag] != 0
                    if due[np.uint32(tile)] > end and not awake:
                        continue
                    cuda.syncwarp()
                    if awake and lane == 0:
                        touched[flag] = np.int32(0)
                at = np.uint32(tile * 32 + lane)
                word = state[at]
                new_word = word
                first_node = np.int32(tile * TILE + lane)
                mine = np.uint32(warp * TILE + lane)
                compartment = tuple(
                    np.uint32(np.uint32(word >> np.uint32(8 * j)) & 31) for j in range(4)
                )
                if GATHERS:
                    if gathering:
                        gather_tile(
                            row, bits_here, plane, first_node, mine, word, node_count, incoming,
                            hubs, rules, planes, local_bits, gathered,
                        )  # fmt: skip
                pressure = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
                weighed = (real(0.0), real(0.0), real(0.0), real(0.0))
                if PUSHES:
                    if not gathering:
                        for channel in unroll(range(CHANNELS)):
                            slot = np.uint32(channel * padded_count + first_node)
                            # All reads before any write, so that they overlap.
                            held = tuple(
                                read_if(KEEPING_MASK, compartment[j], pressures, slot + 32 * j)
                                for j in range(4)
                            )
                            pushed = tuple(
                                read_if(
                                    KEEPING_MASK, compartment[j], deltas, delta_here + slot + 32 * j
                                )
                                for j in range(4)
                            )
                            for j in unroll(range(4)):
                                if pushed[j] != 0:
                                    deltas[np.uint32(delta_here + slot + 32 * j)] = np.int32(0)
                                    pressures[np.uint32(slot + 32 * j)] = np.int32(
                                        held[j] + pushed[j]
                                    )
                            pressure = tuple(
                                np.int32(
                                    pressure[j]
                                    + (
                                        held[j] + pushed[j]
                                        if compartment[j] == np.uint32(CHANNEL_SUSCEPTIBLE[channel])
                                        else 0
                                    )
                                )
                                for j in range(4)
                            )
                            if LAYERS > 1:
                                weighed = tuple(
                                    fma(
                                        factor[CHANNEL_LAYER[channel]],
                                        real(
                                            held[j] + pushed[j]
                                            if compartment[j]
                                            == np.uint32(CHANNEL_SUSCEPTIBLE[channel])
                                            else 0
                                        ),
                                        weighed[j],
                                    )
                                    for j in range(4)
                                )
                if GATHERS:
                    if gathering:
                        pressure = tuple(
                            gathered[np.uint32(mine + np.uint32(32 * j))] for j in range(4)
                        )
                        if PUSHES:  # of a model with one infection
                            if not gathers_next:
                                for j in unroll(range(4)):
                                    pressures[np.uint32(first_node + 32 * j)] = pressure[j]
                            pressure = tuple(
                                pressure[j]
                                if is_in(SUSCEPTIBLE_MASK, compartment[j])
                                else np.int32(0)
                                for j in range(4)
                            )
                if LAYERS == 1:
                    weighed = tuple(real(pressure[j]) for j in range(4))
                if MODULATED:
                    if LAYERS == 1:
                        weighed = tuple(
                            fma(factor[0], real(pressure[j]), real(0.0)) for j in range(4)
                        )
                    middle = fma(real(start) + 0.5 * real(ticks), schedule.tick, real(0.0))
                    weighed = tuple(
                        weighed[j]
                        * (
                            susceptibility(
                                factors.vaccines, np.int64(first_node + 32 * j), middle, seed,
                                replicate,
                            )
                            if pressure[j] > 0
                            else real(1.0)
                        )
                        for j in range(4)
                    )  # fmt: skip
                if THRESHOLDS:
                    since_when = tuple(
                        read_if(
                            SUSCEPTIBLE_MASK | LEAVING_MASK,
                            compartment[j],
                            since,
                            first_node + 32 * j,
                        )
                        for j in range(4)
                    )
                    left_now = tuple(
                        read_if(SUSCEPTIBLE_MASK, compartment[j], left, first_node + 32 * j)
                        for j in range(4)
                    )
                    if PUSHES:
                        # Since it was last written, a node took what it was under until then.
                        left_now = tuple(
                            np.int32(left_now[j] - held[j] * (start - since_when[j]))
                            for j in range(4)
                        )
                    leaves = tuple(due_by(compartment[j], since_when[j], end) for j in range(4))
                elif SAMPLED:
                    leaves = tuple(
                        leaves_by(compartment[j], since, first_node + 32 * j, end) for j in range(4)
                    )
                else:
                    leaves = tuple(
                        probability_to_leave(
                            compartment[j], since, first_node + 32 * j, start, ticks, stages,
                            probabilities, schedule,
                        )
                        for j in range(4)
                    )  # fmt: skip
                if ADAPTIVE:
                    for j in unroll(range(4)):
                        own_rate = real(0.0)
                        if is_in(LEAVING_MASK, compartment[j]):
                            age = np.int64(0)
                            if AGED:
                                age = start - np.int64(since[np.uint32(first_node + 32 * j)])
                            own_rate = ending_rate(
                                stages, rules, schedule, np.int64(compartment[j]), age
                            )
                        step_largest = max(step_largest, fma(rules.unit, weighed[j], own_rate))
                hits = np.uint32(0)
                if THRESHOLDS:
                    for j in unroll(range(4)):
                        if is_in(SUSCEPTIBLE_MASK, compartment[j]):
                            if pressure[j] > 0 and pressure[j] >= left_now[j]:
                                hits = np.uint32(hits | np.uint32(1 << j))
                            if PUSHES:
                                if pushed[j] != 0:
                                    left[np.uint32(first_node + 32 * j)] = left_now[j]
                                    since[np.uint32(first_node + 32 * j)] = np.int32(start)
                            elif pressure[j] > 0:
                                left[np.uint32(first_node + 32 * j)] = np.int32(
                                    left_now[j] - pressure[j]
                                )
                        elif leaves[j] > 0.0:
                            hits = np.uint32(hits | np.uint32(1 << j))
                if SKIPS:
                    soonest = np.int64(end) if hits != np.uint32(0) else np.int64(_NEVER)
                    for j in unroll(range(4)):
                        if is_in(SUSCEPTIBLE_MASK, compartment[j]):
                            if pressure[j] > 0:
                                soonest = min(soonest, end + (left_now[j] - 1) // pressure[j])
                        elif is_in(LEAVING_MASK, compartment[j]):
                            soonest = min(soonest, np.int64(since_when[j]))
                    sooner = np.int32(max(soonest, np.int64(end)))
                    for shift in (16, 8, 4, 2, 1):
                        sooner = np.int32(
                            min(sooner, cuda.shfl_xor_sync(EVERY_LANE, sooner, shift))
                        )
                    if lane == 0:
                        due[np.uint32(tile)] = sooner
                any_pressure = pressure[0] | pressure[1] | pressure[2] | pressure[3]
                any_leaving = max(max(leaves[0], leaves[1]), max(leaves[2], leaves[3]))
                if (any_pressure != 0 or any_leaving > 0.0) and not THRESHOLDS:
                    hits = draw_hits(
                        seed,
                        replicate,
                        first_node,
                        step,
                        pressure,
                        weighed,
                        leaves,
                        exposure,
                        probabilities,
                    )
                turned = np.uint32(0)  # nodes whose infectivity may have changed
                while hits != np.uint32(0):
                    j = np.int32(cuda.ffs(hits) - 1)
                    hits = np.uint32(hits & np.uint32(hits - np.uint32(1)))
                    node = np.int32(first_node + 32 * j)
                    from_ = np.uint32(np.uint32(word >> np.uint32(8 * j)) & np.uint32(31))
                    to, cases = destination(
                        bits_here, plane, padded_count, node, np.int64(from_), nth(pressure, j),
                        nth(weighed, j), factor, exposure, nth(leaves, j), step, incoming, rules,
                        stages, seed, replicate, planes, pressures,
                    )  # fmt: skip
                    new_word = np.uint32(
                        new_word ^ np.uint32(np.uint32(from_ ^ np.uint32(to)) << np.uint32(8 * j))
                    )
                    if AGED:
                        since[np.uint32(node)] = arrival_tick(
                            stages, schedule, to, end, seed, replicate, np.int64(node),
                            np.int64(step) + 1,
                        )  # fmt: skip
                    if THRESHOLDS:
                        if is_in(SUSCEPTIBLE_MASK, to):
                            left[np.uint32(node)] = threshold(
                                rules, schedule, seed, replicate, np.int64(node),
                                np.int64(step) + 1,
                            )  # fmt: skip
                    if HAS_STRATA:
                        cuda.atomic.sub(
                            moves, (row, grid_at, column(rules, np.int64(from_), node)), np.int32(1)
                        )
                        cuda.atomic.add(moves, (row, grid_at, column(rules, to, node)), np.int32(1))
                        if cases > 0:
                            last = column(rules, rules.compartment_count, node)
                            cuda.atomic.add(moves, (row, grid_at, last), np.int32(1))
                    else:
                        cuda.atomic.sub(block_moves, np.int64(from_), np.int32(1))
                        cuda.atomic.add(block_moves, to, np.int32(1))
                        if cases > 0:
                            cuda.atomic.add(block_moves, np.int64(moves.shape[2] - 1), np.int32(1))
                    for source in unroll(range(len(SOURCE_MASK))):
                        change = is_in(SOURCE_MASK[source], from_) != is_in(
                            SOURCE_MASK[source], np.uint32(to)
                        )
                        step_changes = np.int32(step_changes + np.int32(change))
                        if change:
                            turned = np.uint32(turned | np.uint32(np.uint32(1) << np.uint32(j)))
                if new_word != word:
                    state[at] = new_word
                if PUSHES:
                    if not gathers_next:
                        push_all(
                            lane, first_node, turned, word, new_word, outgoing, rules, padded_count,
                            delta_there, deltas, touched,
                            np.uint32(np.uint32(1 - odd) * np.uint32(tile_count)),
                        )  # fmt: skip
                if SKIPS:  # of a model with one source
                    if step > np.uint32(0):
                        present -= infectious_four(SOURCE_MASK[0], word)
                    present += infectious_four(SOURCE_MASK[0], new_word)
                else:
                    for source in unroll(range(len(SOURCE_MASK))):
                        own = ballot(SOURCE_MASK[source], new_word, lane)
                        if lane < 4:
                            infectious += np.int64(cuda.popc(own))
                            if GATHERS:
                                k = bits_there + source * plane + np.uint32(tile * 4 + lane)
                                planes[np.uint32(k)] = own
            changed += np.int64(step_changes)
            infectious += np.int64(present)
            if ADAPTIVE:
                if step_largest > 0.0:
                    cuda.atomic.max(block_largest, 0, to_bits(step_largest))
                cuda.syncthreads()
                if thread == 0:
                    cuda.atomic.max(signals.largest, now, block_largest[0])
                    block_largest[0] = bits(0)
            if GATHERS and PUSHES:
                if step_changes > 0:
                    cuda.atomic.add(block_changes, 0, step_changes)
                cuda.syncthreads()
                if thread == 0:
                    if block_changes[0] > 0:
                        cuda.atomic.add(signals.changes, now, block_changes[0])
                        block_changes[0] = 0
            barrier(signals.barrier_words, row, block_count)
            gathering = gathers_next
            start = end
            step = np.uint32(step + np.uint32(1))
        if thread_rank == 0:
            cuda.atomic.add(work, STEPS, np.int64(step))
            cuda.atomic.add(work, PULLS, gathered_steps)
        if infectious > 0:
            cuda.atomic.add(work, INFECTIOUS, infectious)
        if changed > 0:
            cuda.atomic.add(work, CHANGES, changed)


def barrier(barrier_words, row, block_count):
    """Wait for all threads of a thread group; what they wrote before can be read after."""
    cuda.syncthreads()
    if block_count > 1:
        if cuda.threadIdx.x == 0:
            at = row * BARRIER_STRIDE
            cuda.threadfence()
            ticket = np.int64(cuda.atomic.add(barrier_words, at, np.int32(1)))
            full = (ticket // block_count + 1) * block_count
            while cuda.atomic.add(barrier_words, at, np.int32(0)) < full:
                cuda.nanosleep(np.uint32(100))
            cuda.threadfence()
        cuda.syncthreads()


def _begin(
    row, thread_rank, thread_count, replicate, node_count, tile_count, outgoing, rules, stages,
    schedule, seeding, seed, state, since, planes, pressures, deltas, left, due, touched, moves,
    block_count, signals,
):  # fmt: skip
    """Everyone in their first compartment; then the seeds."""
    padded_count = np.int64(tile_count) * TILE
    entry = np.uint32(SUSCEPTIBLE[0])
    for k in range(thread_rank, tile_count * 32, thread_count):
        word = np.uint32(0)
        for j in range(4):
            node = (k >> 5) * TILE + (k & 31) + 32 * j
            byte = entry if node < node_count else np.uint32(NOBODY)
            word = np.uint32(word | np.uint32(byte << np.uint32(8 * j)))
        state[np.uint32(k)] = word
    if AGED:
        for k in range(thread_rank, padded_count, thread_count):
            since[np.uint32(k)] = np.int32(0)
    if THRESHOLDS:
        for k in range(thread_rank, padded_count, thread_count):
            left[np.uint32(k)] = threshold(rules, schedule, seed, replicate, np.int64(k), 0)
    if SKIPS:
        for k in range(thread_rank, tile_count, thread_count):
            due[np.uint32(k)] = np.int32(0)
        for k in range(thread_rank, 2 * tile_count, thread_count):
            touched[np.uint32(k)] = np.int32(0)
    if GATHERS:
        for k in range(thread_rank, 2 * len(SOURCE_MASK) * tile_count * 4, thread_count):
            planes[np.uint32(k)] = np.uint32(0)
    if PUSHES:
        for k in range(thread_rank, CHANNELS * padded_count, thread_count):
            pressures[np.uint32(k)] = np.int32(0)
        for k in range(thread_rank, 2 * CHANNELS * padded_count, thread_count):
            deltas[np.uint32(k)] = np.int32(0)
    barrier(signals.barrier_words, row, block_count)
    for index in range(
        thread_rank, np.int64(seeding.named_count + seeding.drawn_count), thread_count
    ):
        node = np.int64(seed_node(seeding, index, np.int64(node_count), seed, replicate))
        compartment = np.int64(seed_compartment(seeding, index))
        cuda.atomic.xor(
            state,
            (node >> 7) * 32 + (node & 31),
            np.uint32(
                np.uint32(entry ^ np.uint32(compartment)) << np.uint32(8 * ((node >> 5) & 3))
            ),
        )
        if AGED:
            since[np.uint32(node)] = seed_tick(
                stages, schedule, compartment, seed_age(seeding, index), seed, replicate, node
            )
        cuda.atomic.sub(moves, (row, 0, column(rules, np.int64(entry), node)), np.int32(1))
        cuda.atomic.add(moves, (row, 0, column(rules, compartment, node)), np.int32(1))
        if seeding.is_case[compartment] != 0:
            last = column(rules, rules.compartment_count, node)
            cuda.atomic.add(moves, (row, 0, last), np.int32(1))
        if PUSHES:
            push_seed(node, compartment, outgoing, rules, padded_count, deltas)
        for source in unroll(range(len(SOURCE_MASK))):
            if is_in(SOURCE_MASK[source], compartment):
                if GATHERS:
                    cuda.atomic.or_(
                        planes,
                        source * np.int64(tile_count) * 4 + (node >> 5),
                        np.uint32(np.uint32(1) << np.uint32(node & 31)),
                    )
    barrier(signals.barrier_words, row, block_count)


def _note(row, grid_at, thread, block_moves, moves):
    """Add a block's moves since the last time of the grid to those before this one."""
    cuda.syncthreads()
    if thread < moves.shape[2]:
        count = block_moves[thread]
        if count != 0:
            cuda.atomic.add(moves, (row, grid_at, np.int64(thread)), count)
            block_moves[thread] = 0
    cuda.syncthreads()
