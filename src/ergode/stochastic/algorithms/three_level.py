"""The direct method for any network: a search in three levels, blocks, chunks and reactions.

A chunk has 32 reactions, and a block has 32 chunks; sums of propensities are stored for both.  A
search goes through the sums of blocks, the chunks of one block, and the reactions of one chunk.
Lists of the reactions that a firing affects are made once for all realizations, sorted by chunk, so
that the sum of a chunk is corrected once.  Weakly coupled networks have a list for every reaction;
strongly coupled networks have one for every species, because there are fewer species.

I. Komarov, R. M. D'Souza, "Accelerating the Gillespie exact stochastic simulation algorithm using
hybrid parallel execution on graphics processing units", PLoS ONE 7 e46693 (2012).

Sums that are only corrected drift.  The sum of a chunk is recomputed when the chunk is searched, or
when the sum has nearly vanished; sums of blocks are always recomputed.

On a GPU a thread group simulates a realization, and all its threads share each level of the search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, no_unroll, noinline_cpu, option, real
from ergode.core.group import (
    LANES,
    SIZE,
    barrier,
    broadcast,
    first_of,
    lane_in,
    prefix_of,
    share,
    shuffle,
    shuffle_up,
)
from ergode.stochastic.algorithms.algorithm import Algorithm, Options, Rows, ThreadGroupAlgorithm
from ergode.stochastic.kernel.bytecode import row_of
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.next_firing import find
from ergode.stochastic.kernel.realization import GENERAL, propensity
from ergode.stochastic.tables import Tables, offsets
from ergode.stochastic.thread_group import ops
from ergode.stochastic.thread_group.kernel import thread_group_of

WIDTH = 32
# A sum that falls below this fraction of its former value is recomputed, because of cancellation.
VANISHED = 2.0**-20
# Reactions have their own lists up to this average number of entries per reaction.
_LISTED_MOST = 32


class MethodState(NamedTuple):
    """State of the method (one row per worker), and read-only tables."""

    a: Any  # [worker, reaction] propensities
    chunks: Any  # [worker, chunk] sums of propensities
    blocks: Any  # [worker, block]
    negative: Any  # [worker, 1] whether a propensity is negative
    by_reaction: Any  # [1] whether lists are by reaction instead of by variable
    list_starts: Any  # [list + 1]
    list_chunks: Any  # [entry] chunk
    entry_starts: Any  # [entry + 1]
    listed: Any  # [place] reaction of the chunk with an affected propensity


def _add_up_chunk(chunk, w, state):
    total = real(0.0)
    for r in range(chunk * WIDTH, min((chunk + 1) * WIDTH, state.a.shape[1])):
        total += state.a[w, r]
    state.chunks[w, chunk] = total


def _add_up_block(block, w, state):
    total = real(0.0)
    for chunk in range(block * WIDTH, min((block + 1) * WIDTH, state.chunks.shape[1])):
        total += state.chunks[w, chunk]
    state.blocks[w, block] = total


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Compute all propensities and all sums."""
    state.negative[w, 0] = 0
    for r in range(state.a.shape[1]):
        a = propensity(r, w, t, point, net, work)
        state.a[w, r] = a
        if a < 0.0:
            state.negative[w, 0] = 1
    for chunk in range(state.chunks.shape[1]):
        _add_up_chunk(chunk, w, state)
    for block in range(state.blocks.shape[1]):
        _add_up_block(block, w, state)


def _follow(which, w, t, point, net, work, state):
    """Update the propensities of a list, and the sums of their chunks and blocks."""
    block = -1
    for entry in range(state.list_starts[which], state.list_starts[which + 1]):
        chunk = state.list_chunks[entry]
        change = real(0.0)
        for place in range(state.entry_starts[entry], state.entry_starts[entry + 1]):
            r = state.listed[place]
            a = propensity(r, w, t, point, net, work)
            change += a - state.a[w, r]
            state.a[w, r] = a
            if a < 0.0:
                state.negative[w, 0] = 1
        before = state.chunks[w, chunk]
        after = before + change
        state.chunks[w, chunk] = after
        if not abs(after) > VANISHED * abs(before):
            _add_up_chunk(chunk, w, state)
        if block >= 0 and chunk // WIDTH != block:
            _add_up_block(block, w, state)
        block = chunk // WIDTH
    if block >= 0:
        _add_up_block(block, w, state)


def update(j, w, t, point, plan, replicate, net, work, state):
    """Update affected propensities, by the list of the reaction or the lists of its species."""
    by_reaction = state.by_reaction[0] != 0
    first, last = net.change_starts[j], net.change_starts[j + 1]
    if by_reaction:
        last = min(last, first + 1)
    for entry in range(first, last):
        which = net.changed[entry]
        if by_reaction:
            which = j
        _follow(which, w, t, point, net, work, state)
    return True


def choose(target, w, point, state):
    """Reaction whose interval of the cumulative sum contains `target`; -1 if rounding left none."""
    block, target = find(target, state.blocks, w, 0, state.blocks.shape[1])
    if block < 0:
        return -1
    chunks = state.chunks.shape[1]
    chunk, target = find(
        target, state.chunks, w, block * WIDTH, min((block + 1) * WIDTH, chunks)
    )  # fmt: skip
    chosen = -1
    if chunk >= 0:
        _add_up_chunk(chunk, w, state)
        reactions = state.a.shape[1]
        chosen, target = find(
            target, state.a, w, chunk * WIDTH, min((chunk + 1) * WIDTH, reactions)
        )  # fmt: skip
    if chosen < 0:
        _add_up_block(block, w, state)
    return chosen


def total_of(w, state):
    """Total propensity; negative if any propensity is negative."""
    total = real(0.0)
    for block in range(state.blocks.shape[1]):
        total += state.blocks[w, block]
    return real(-1.0) if state.negative[w, 0] != 0 else total


def _counts(tables: Tables) -> tuple[int, int]:
    """Numbers of chunks and of blocks."""
    chunks = -(-tables.reaction_count // WIDTH)
    return chunks, -(-chunks // WIDTH)


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    chunks, blocks = _counts(tables)
    return {
        "a": (tables.reaction_count, np.float64),
        "chunks": (chunks, np.float64),
        "blocks": (blocks, np.float64),
        "negative": (1, np.int8),
    }


def lists(tables: Tables) -> tuple[bool, np.ndarray, np.ndarray]:
    """Lists of the reactions that a firing affects, in order.

    Returns whether there is a list for every reaction, else one for every variable; int32 [list +
    1], the start of each list and the end of the last; and int32, the reactions.
    """
    net, count = tables.net, tables.reaction_count
    affected = np.diff(net.affected_starts)
    by_reaction = bool(affected[net.changed].sum() <= _LISTED_MOST * count)
    if by_reaction:
        lengths = affected[net.changed]
        firing = np.repeat(np.arange(count), np.diff(net.change_starts))
        firsts = net.affected_starts[:-1][net.changed]
        owners = np.repeat(firing, lengths)
        inside = np.arange(owners.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        reactions = net.affected[np.repeat(firsts, lengths) + inside]
        list_count = count
    else:
        owners, reactions = np.repeat(np.arange(affected.size), affected), net.affected
        list_count = affected.size
    key = np.unique(owners.astype(np.int64) * count + reactions)
    return by_reaction, offsets(key // count, list_count), (key % count).astype(np.int32)


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share: lists; affected reactions of one chunk form one entry."""
    by_reaction, starts, listed = lists(tables)
    chunk = listed // WIDTH
    begins = np.ones(listed.size, bool)
    begins[1:] = np.diff(chunk) != 0
    begins[starts[:-1][np.diff(starts) > 0]] = True
    places = np.flatnonzero(begins)
    return {
        "by_reaction": np.array([by_reaction], np.int8),
        "list_starts": np.searchsorted(places, starts).astype(np.int32),
        "list_chunks": chunk[places].astype(np.int32),
        "entry_starts": np.append(places, listed.size).astype(np.int32),
        "listed": listed,
    }


# ---- thread groups

HEIGHT = option()
"""Number of reactions of a chunk per thread, a power of two."""

_HEIGHTS = (1, 4, 32)


class ThreadGroupState(NamedTuple):
    """As `MethodState`; one row per thread group. Sums of chunks are in shared memory.

    Thread m has reactions ``m * HEIGHT`` to ``(m + 1) * HEIGHT`` of every chunk; the h-th of them
    is at ``h * SIZE + m``, so that threads read consecutive addresses.
    """

    a: Any  # [thread group, place]
    width: Any  # rows of shared memory for sums of chunks
    changes_most: Any  # largest number of changes of a reaction
    rows: Any  # [reaction * change * 4] (`thread_group.ops.change_rows`)
    listed: Any  # [entry] reaction with an affected propensity
    spots: Any  # [entry] position of the sum of its chunk


def thread_group_value(place, threads, state):
    """Sum of a chunk."""
    return threads.scratch[place]


def thread_group_count(i, threads, work, state):
    """Count of a species."""
    return work.x[threads.group_number, at(i)]


def _place_of(r):
    """Position of a reaction's propensity."""
    inside = r & (HEIGHT * SIZE - 1)
    return r - inside + (inside & (HEIGHT - 1)) * SIZE + inside // HEIGHT


def _thread_share(chunk, threads, state):
    """Sum of a chunk's propensities that belong to this thread."""
    first = chunk * (HEIGHT * SIZE) + threads.rank
    mine = real(0.0)
    for h in range(HEIGHT):
        mine += state.a[threads.group_number, at(first + h * SIZE)]
    return mine


def thread_group_prepare(t, point, threads, net, work, state):
    """Compute all propensities and all sums for the initial state."""
    for i in no_unroll(share(threads, 0, work.x.shape[1])):
        work.x[threads.group_number, at(i)] = net.initial[point, at(i)]
    barrier(threads)
    thread_group_refresh(t, point, threads, net, work, state)


def thread_group_refresh(t, point, threads, net, work, state):
    """Compute all propensities and all sums for the present state."""
    w = at(cuda.grid(1))
    for spot in no_unroll(share(threads, 0, state.width * ops.STRIDE)):
        threads.scratch[at(threads.base + spot)] = 0.0
    barrier(threads)
    count = net.coefficients.shape[1]
    chunks = state.a.shape[1] // (HEIGHT * SIZE)
    for chunk in no_unroll(range(chunks)):
        first = (chunk * SIZE + threads.rank) * HEIGHT
        for r in no_unroll(range(first, first + HEIGHT)):
            a = real(0.0)
            if r < count:
                a = propensity(r, w, t, point, net, work)
            state.a[threads.group_number, at(_place_of(r))] = a
            if a < 0.0:
                threads.scratch[at(threads.base - 1)] = 1.0
        _, total = prefix_of(threads, _thread_share(chunk, threads, state))
        if threads.rank == 0:
            spot = ops.shared_index(np.int32(chunk), state.width)
            threads.scratch[at(threads.base + spot)] = total


def thread_group_choose(chunk, place, target, point, threads, work, state):
    """Reaction of a chunk whose interval contains `target`; -1 for none."""
    column, target, total = ops.search(_thread_share(chunk, threads, state), target, threads)
    if threads.rank == 0:
        threads.scratch[place] = total
    j = np.int32(-1)
    if column >= 0:
        # Every thread searches its own reactions; only the result of thread `column` is used.
        first = chunk * (HEIGHT * SIZE) + threads.rank
        row = np.int32(0)
        for h in range(HEIGHT):
            a = state.a[threads.group_number, at(first + h * SIZE)]
            if a > 0.0 and target >= 0.0:
                row = np.int32(h)
            target -= a
        row = np.int32(broadcast(threads, real(row), column))
        j = np.int32((chunk * SIZE + column) * HEIGHT + row)
    barrier(threads)
    return j


def _sum_of_alike(value, key, most, threads):
    """Segmented inclusive prefix sum of `value` over threads with equal keys; whether the last."""
    distance = np.int32(1)
    while distance < most and distance < LANES:
        other = shuffle_up(value, distance)
        same = shuffle_up(key, distance) == key
        if lane_in(threads) >= distance and same:
            value += other
        distance = np.int32(2 * distance)
    behind = shuffle(key, min(lane_in(threads) + 1, LANES - 1))
    return value, lane_in(threads) == LANES - 1 or behind != key


def _add_up_spot(spot, threads, state):
    """Recompute the sum of the chunk at `spot`, with all threads."""
    chunk = spot % ops.STRIDE * state.width + spot // ops.STRIDE
    barrier(threads)
    _, total = prefix_of(threads, _thread_share(chunk, threads, state))
    if threads.rank == 0:
        threads.scratch[at(threads.base + spot)] = total


def thread_group_follow(j, t, point, threads, net, work, state):
    """Apply the changes of reaction `j` to the state, and correct the dependent sums."""
    w = at(cuda.grid(1))
    memory = threads.scratch
    variable, delta, begin, end = ops.row_of_change(j, threads, state)
    if variable >= 0 and threads.rank == lane_in(threads):
        x = work.x[threads.group_number, at(variable)] + real(delta)
        work.x[threads.group_number, at(variable)] = x
        if x < 0.0:
            memory[at(threads.base - 1)] = 1.0
    barrier(threads)
    k = np.int32(0)
    while k < state.changes_most:
        if shuffle(variable, k) < 0:
            break
        first, last = shuffle(begin, k), shuffle(end, k)
        while first < last:
            change, spot = real(0.0), np.int32(-1)
            entry = np.int32(first + threads.rank)
            if entry < last:
                r = state.listed[at(entry)]
                spot = state.spots[at(entry)]
                a = propensity(r, w, t, point, net, work)
                place = at(_place_of(r))
                change = a - state.a[threads.group_number, place]
                state.a[threads.group_number, place] = a
                if a < 0.0:
                    memory[at(threads.base - 1)] = 1.0
            change, ends = _sum_of_alike(change, spot, last - first, threads)
            vanished = False
            for part in range(SIZE // LANES):  # two warps may share a chunk
                if ends and spot >= 0 and change != 0.0 and threads.rank // LANES == part:
                    before = memory[at(threads.base + spot)]
                    after = before + change
                    memory[at(threads.base + spot)] = after
                    vanished = not abs(after) > VANISHED * abs(before)
                if part + 1 < SIZE // LANES:
                    barrier(threads)
            who = first_of(threads, vanished, False)
            while who >= 0:
                _add_up_spot(np.int32(broadcast(threads, real(spot), who)), threads, state)
                vanished = vanished and threads.rank != who
                who = first_of(threads, vanished, False)
            first = np.int32(first + SIZE)
            barrier(threads)
        k = np.int32(k + 1)


def thread_group_options(tables: Tables, size: int, room: int) -> tuple[int, Options]:
    """Shared memory of a thread group [float64], at most `room` if possible, and the bindings."""
    found = (0, 0)
    for height in _HEIGHTS:
        chunks = -(-tables.reaction_count // (size * height))
        found = -(-chunks // size) * (size + 1), height
        if found[0] <= room:
            break
    return found[0], (
        (HEIGHT, found[1]), (GENERAL, not tables.is_plain), (row_of, thread_group_of),
    )  # fmt: skip


def thread_group_rows(tables: Tables, size: int, options: Options) -> Rows:
    """Length and type of a thread group's arrays in global memory."""
    chunk = size * dict(options)[HEIGHT]
    return {
        "x": (tables.variable_count + 1, np.float64),
        "a": (-(-tables.reaction_count // chunk) * chunk, np.float64),
    }


def thread_group_constants(tables: Tables, size: int, options: Options) -> dict[str, np.ndarray]:
    """Constants that all thread groups share."""
    by_reaction, starts, listed = lists(tables)
    chunk = size * dict(options)[HEIGHT]
    chunks = -(-tables.reaction_count // chunk)
    changes = ops.change_rows(tables, np.arange(tables.variable_count), starts, by_reaction)
    return {
        "width": np.int32(-(-chunks // size)),
        "changes_most": np.int32(changes.shape[1]),
        "rows": changes.reshape(-1),
        "listed": listed,
        "spots": ops.shared_indices(chunks, size)[listed // chunk].astype(np.int32),
    }


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    total_of=total_of, choose=choose,
    thread_group=ThreadGroupAlgorithm(
        state=ThreadGroupState, value=thread_group_value, count=thread_group_count,
        prepare=thread_group_prepare, choose=thread_group_choose, follow=thread_group_follow,
        refresh=thread_group_refresh,
        options=thread_group_options, rows=thread_group_rows, constants=thread_group_constants,
        pays_by_block=True,
    ),
)  # fmt: skip
