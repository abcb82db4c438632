"""The persistent grid of a leap on a CUDA device: its threads, its arrays and its barrier.

A thread group is the blocks that work on one replicate.  They wait for one another at a barrier
after each step.  If there are more replicates than blocks, a thread group is one block, and no
grid barrier is needed.  A warp processes a tile of 128 nodes at a time; a lane has four nodes, 32
apart.  Their compartments are the bytes of one word.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, unroll
from ergode.core.group import barrier, share
from ergode.epidemics.leap.gather import is_in
from ergode.epidemics.leap.options import (
    AGED,
    CHANNELS,
    GATHERS,
    PUSHES,
    SKIPS,
    SOURCE_MASK,
    SUSCEPTIBLE,
    THRESHOLDS,
)
from ergode.epidemics.leap.push import push_seed
from ergode.epidemics.leap.step import NOBODY, column, seed_tick, threshold
from ergode.epidemics.seeding import seed_age, seed_compartment, seed_node
from ergode.epidemics.shared.arcs import node_count_of
from ergode.epidemics.shared.options import COUNTING_ENTRIES

TILE = 128
BARRIER_STRIDE = 32


class Store(NamedTuple):
    """The nodes of all replicates, each padded to whole tiles; a row is a replicate."""

    state: Any  # compartments, four to a word: uint32 [row x tile x 32]
    since: Any  # int32 [row x node], or [1] where no ages are kept
    bits: Any  # membership of nodes in a source: uint32 [row x parity x source x node / 32]
    pressure: Any  # int32 [row x infection x node], or [1] if nothing is pushed
    left: Any  # of thresholds, int32 [row x node], or [1] where there are none
    due: Any  # tick of the next progression in a tile, int32 [row x tile], or [1]
    touched: Any  # whether a change was pushed into a tile, int32 [row x parity x tile], or [1]
    delta: Any  # changes pushed in the previous step: int32 [row x parity x infection x node]


class Signals(NamedTuple):
    """Communication between the blocks of a thread group."""

    barrier_words: Any  # arrivals, int32 [row x BARRIER_STRIDE]
    largest: Any  # largest hazard, bits [row x 3]
    changes: Any  # changes of infectivity, int32 [row x 3]
    clock: Any  # what lies between two launches: int64 [row, CLOCK_SIZE], or [1, 1]
    budget: Any  # steps of a launch, int64


# Entries of `Signals.clock`.
STAGE, START, NUMBER, GRID, CURSOR, GATHERING, PRESENT, CLOCK_SIZE = range(8)

NEW, UNDER_WAY, OVER = range(3)
"""Values of STAGE."""


class Sizes(NamedTuple):
    """Sizes of a replicate."""

    node_count: Any
    tile_count: Any
    padded_count: Any  # nodes of whole tiles
    plane: Any  # words of one source's bits


class Threads(NamedTuple):
    """Indices of a thread, and its share of a replicate."""

    thread: Any  # within the block
    lane: Any
    warp: Any  # within the block
    rank: Any  # these four as in `core.group.Group`
    size: Any
    blocks: Any
    words: Any
    first_tile: Any  # of its warp
    tile_step: Any


class Nodes(NamedTuple):
    """The nodes of one replicate: its part of each array of a `Store`."""

    row: Any
    replicate: Any
    seed: Any
    state: Any
    since: Any
    bits: Any
    pressure: Any
    left: Any
    due: Any
    touched: Any
    delta: Any


class Shared(NamedTuple):
    """Shared memory of a block."""

    moves: Any  # into each compartment less moves out of it, int32 [32]
    changes: Any  # of infectivity, int32 [1]
    largest: Any  # hazard, bits [1]
    gathered: Any  # forces of infection, int32 [thread x 4]
    local_bits: Any  # membership of nodes in a source: uint32, or empty


def sizes_of(incoming):
    """Sizes of a replicate on a network."""
    node_count = np.int32(node_count_of(incoming))
    tile_count = np.int32((node_count + TILE - 1) // TILE)
    return Sizes(node_count, tile_count, np.int32(tile_count * TILE), np.uint32(tile_count * 4))


def threads_of(block_count, words):
    """Indices of this thread; `block_count` blocks are a thread group with these barrier words."""
    thread = np.int32(cuda.threadIdx.x)
    block_rank = np.int32(cuda.blockIdx.x - thread_group(block_count) * block_count)
    rank = np.int32(block_rank * cuda.blockDim.x + thread)
    size = np.int32(block_count * cuda.blockDim.x)
    return Threads(
        thread, np.int32(thread & 31), np.int32(thread >> 5), rank, size, block_count, words,
        np.int32(rank >> 5), np.int32(size >> 5),
    )  # fmt: skip


def thread_group(block_count):
    """The thread group of this block."""
    return np.int32(cuda.blockIdx.x // block_count)


def nodes_of(store, sizes, row, replicate, seed):
    """The nodes of a row: parts of one size for every row; an empty part of an unused array."""
    size = np.int64(sizes.padded_count) // 4
    state = store.state[row * size : (row + 1) * size]
    size = np.int64(sizes.padded_count) if AGED else 0
    since = store.since[row * size : (row + 1) * size]
    size = 2 * len(SOURCE_MASK) * np.int64(sizes.plane) if GATHERS else 0
    bits = store.bits[row * size : (row + 1) * size]
    size = CHANNELS * np.int64(sizes.padded_count) if PUSHES else 0
    pressure = store.pressure[row * size : (row + 1) * size]
    delta = store.delta[2 * row * size : 2 * (row + 1) * size]
    size = np.int64(sizes.padded_count) if THRESHOLDS else 0
    left = store.left[row * size : (row + 1) * size]
    size = np.int64(sizes.tile_count) if SKIPS else 0
    due = store.due[row * size : (row + 1) * size]
    touched = store.touched[2 * row * size : 2 * (row + 1) * size]
    return Nodes(row, replicate, seed, state, since, bits, pressure, left, due, touched, delta)


def begin(threads, sizes, nodes, tables, moves):
    """Put all nodes into the base compartment, and then place the seeds."""
    _begin_nodes(threads, sizes, nodes, tables)
    barrier(threads)
    _begin_seeds(threads, sizes, nodes, tables, moves)
    barrier(threads)


def _begin_nodes(threads, sizes, nodes, tables):
    """Put all nodes into the base compartment, with zero forces of infection."""
    padded_count = np.int64(sizes.tile_count) * TILE
    entry = np.uint32(SUSCEPTIBLE[0])
    for k in share(threads, 0, sizes.tile_count * 32):
        word = np.uint32(0)
        for j in range(4):
            node = (k >> 5) * TILE + (k & 31) + 32 * j
            byte = entry if node < sizes.node_count else np.uint32(NOBODY)
            word = np.uint32(word | np.uint32(byte << np.uint32(8 * j)))
        nodes.state[np.uint32(k)] = word
    if AGED:
        for k in share(threads, 0, padded_count):
            nodes.since[np.uint32(k)] = np.int32(0)
    if THRESHOLDS:
        for k in share(threads, 0, padded_count):
            nodes.left[np.uint32(k)] = threshold(
                tables.rules, tables.schedule, nodes.seed, nodes.replicate, np.int64(k), 0
            )
    if SKIPS:
        for k in share(threads, 0, sizes.tile_count):
            nodes.due[np.uint32(k)] = np.int32(0)
        for k in share(threads, 0, 2 * sizes.tile_count):
            nodes.touched[np.uint32(k)] = np.int32(0)
    if GATHERS:
        for k in share(threads, 0, 2 * len(SOURCE_MASK) * sizes.tile_count * 4):
            nodes.bits[np.uint32(k)] = np.uint32(0)
    if PUSHES:
        for k in share(threads, 0, CHANNELS * padded_count):
            nodes.pressure[np.uint32(k)] = np.int32(0)
        for k in share(threads, 0, 2 * CHANNELS * padded_count):
            nodes.delta[np.uint32(k)] = np.int32(0)


def _begin_seeds(threads, sizes, nodes, tables, moves):
    """Put the seeds into their compartments."""
    padded_count = np.int64(sizes.tile_count) * TILE
    entry = np.uint32(SUSCEPTIBLE[0])
    rules, seeding, row = tables.rules, tables.seeding, nodes.row
    seed, replicate = nodes.seed, nodes.replicate
    for index in share(threads, 0, np.int64(seeding.named_count + seeding.drawn_count)):
        node = np.int64(seed_node(seeding, index, np.int64(sizes.node_count), seed, replicate))
        compartment = np.int64(seed_compartment(seeding, index))
        cuda.atomic.xor(
            nodes.state,
            (node >> 7) * 32 + (node & 31),
            np.uint32(
                np.uint32(entry ^ np.uint32(compartment)) << np.uint32(8 * ((node >> 5) & 3))
            ),
        )
        if AGED:
            nodes.since[np.uint32(node)] = seed_tick(
                tables.stages, tables.schedule, compartment, seed_age(seeding, index), seed,
                replicate, node,
            )  # fmt: skip
        cuda.atomic.sub(moves, (row, 0, column(rules, np.int64(entry), node)), np.int32(1))
        cuda.atomic.add(moves, (row, 0, column(rules, compartment, node)), np.int32(1))
        if seeding.is_case[compartment] != 0:
            last = column(rules, rules.compartment_count, node)
            cuda.atomic.add(moves, (row, 0, last), np.int32(1))
        if COUNTING_ENTRIES:
            entered = column(rules, rules.compartment_count + 1 + compartment, node)
            cuda.atomic.add(moves, (row, 0, entered), np.int32(1))
        if PUSHES:
            push_seed(node, compartment, tables.outgoing, rules, padded_count, nodes.delta)
        for source in unroll(range(len(SOURCE_MASK))):
            if GATHERS and is_in(SOURCE_MASK[source], compartment):
                cuda.atomic.or_(
                    nodes.bits,
                    source * np.int64(sizes.tile_count) * 4 + (node >> 5),
                    np.uint32(np.uint32(1) << np.uint32(node & 31)),
                )
