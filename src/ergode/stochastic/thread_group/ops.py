"""Collective operations of a thread group: part of a warp, a warp, or a block of warps.

Sums and choices over the threads, the layout of shared memory, and tables of what reactions change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, option, real
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.tables import Tables

THREAD_COUNT = option()
"""Threads of a group."""

LANE_COUNT = option()
"""Threads of a group in one warp."""

LANE_MASK = option()
"""A mask of `LANE_COUNT` bits, as uint32."""

SCRATCH = option()
"""float64 of scratch memory that the operations of this module need."""

STRIDE = option()
"""Length of a row of shared memory: one more than threads, which avoids bank conflicts."""

barrier = option()
"""``barrier()`` waits for all threads of the group."""

prefix_sum = option()
"""``prefix_sum(value, threads)`` is the inclusive prefix sum over the threads of the group, and the
sum over all of them.
"""

first_of = option()
"""``first_of(first, some, threads)`` is the first thread for which `first` holds, else the last for
which `some` holds, else -1.
"""

broadcast = option()
"""``broadcast(value, who, threads)`` is the value of thread `who`."""


class ThreadGroup(NamedTuple):
    """A thread group as one of its threads sees it, and its parts of shared memory."""

    lane: Any  # among the threads of the thread group in its warp
    thread_rank: Any
    group_number: Any
    scratch: Any  # where its scratch memory begins
    base: Any  # where the method's numbers begin
    memory: Any  # the shared memory


# ---- operations in a warp, and in a block of warps


def _first_lane():
    """First lane of this thread group in its warp."""
    return np.int32(cuda.threadIdx.x & (32 - LANE_COUNT))


def _lane_mask():
    """Mask of the lanes of this thread group."""
    return np.uint32(LANE_MASK << np.uint32(_first_lane()))


def shuffle(value, k):
    """The value of lane `k` of this thread group."""
    return cuda.shfl_sync(_lane_mask(), value, np.int32(_first_lane() + k))


def shuffle_up(value, distance):
    """The value of the thread `distance` lanes before; undefined for the first lanes."""
    return cuda.shfl_up_sync(_lane_mask(), value, distance)


def warp_barrier():
    cuda.syncwarp(_lane_mask())


def block_barrier():
    cuda.syncthreads()


def _sum_in_part(value, threads):
    distance = 1
    while distance < LANE_COUNT:
        other = shuffle_up(value, distance)
        if threads.lane >= distance:
            value += other
        distance *= 2
    return value


def prefix_sum_warp(value, threads):
    value = _sum_in_part(value, threads)
    return value, shuffle(value, LANE_COUNT - 1)


def prefix_sum_block(value, threads):
    value = _sum_in_part(value, threads)
    memory = threads.memory
    warp = at(threads.thread_rank >> 5)
    if threads.lane == 31:
        memory[at(threads.scratch + warp)] = value
    cuda.syncthreads()
    before, total = real(0.0), real(0.0)
    for k in range(THREAD_COUNT >> 5):
        if k == warp:
            before = total
        total += memory[at(threads.scratch + k)]
    cuda.syncthreads()
    return before + value, total


def first_of_warp(first, some, threads):
    votes = cuda.ballot_sync(_lane_mask(), first)
    if votes != 0:
        return np.int32(cuda.ffs(votes) - 1 - _first_lane())
    votes = cuda.ballot_sync(_lane_mask(), some)
    return np.int32(31 - cuda.clz(votes) - _first_lane()) if votes != 0 else np.int32(-1)


def first_of_block(first, some, threads):
    memory = threads.memory
    votes, others = cuda.ballot_sync(_lane_mask(), first), cuda.ballot_sync(_lane_mask(), some)
    warps = THREAD_COUNT >> 5
    if threads.lane == 0:
        warp = threads.thread_rank >> 5
        ahead = threads.thread_rank + cuda.ffs(votes) - 1 if votes != 0 else THREAD_COUNT
        behind = threads.thread_rank + 31 - cuda.clz(others) if others != 0 else -1
        memory[at(threads.scratch + warp)] = real(ahead)
        memory[at(threads.scratch + warps + warp)] = real(behind)
    cuda.syncthreads()
    found, last = real(THREAD_COUNT), real(-1.0)
    for k in range(warps):
        found = min(found, memory[at(threads.scratch + k)])
        last = max(last, memory[at(threads.scratch + warps + k)])
    cuda.syncthreads()
    return np.int32(found) if found < THREAD_COUNT else np.int32(last)


def broadcast_warp(value, who, threads):
    return shuffle(value, who)


def broadcast_block(value, who, threads):
    memory = threads.memory
    if threads.thread_rank == who:
        memory[at(threads.scratch)] = value
    cuda.syncthreads()
    value = memory[at(threads.scratch)]
    cuda.syncthreads()
    return value


def search(value, target, threads):
    """Thread whose interval of the cumulative sum contains `target`, the remainder, and the sum.

    If `target` is beyond the sum, the last thread with a positive value; -1 if there is none.
    """
    up_to, total = prefix_sum(value, threads)
    some = value > 0.0
    who = first_of(up_to > target and some, some, threads)
    if who >= 0:
        target = broadcast(target - (up_to - value), who, threads)
    return who, target, total


def any_of(condition, threads):
    """Whether `condition` holds for at least one thread."""
    return first_of(condition, False, threads) >= 0


# ---- shared memory: number i is in column i // width, row i % width


def shared_index(i, width):
    """Place of number `i`, relative to the first."""
    return i % width * STRIDE + i // width


def shared_indices(count: int, size: int) -> np.ndarray:
    """Places of `count` numbers in shared memory (see `shared_index`)."""
    width = -(-count // size)
    i = np.arange(count)
    return i % width * (size + 1) + i // width


def row_of_change(j, threads, state):
    """Entry of `change_rows` for a lane: place of the count, change, begin and end of a list."""
    spot, delta, begin, end = np.int32(-1), np.int32(0), np.int32(0), np.int32(0)
    if threads.lane < state.changes_most:
        k = np.int32(4 * (j * state.changes_most + threads.lane))
        spot, delta = state.rows[at(k)], state.rows[at(k + 1)]
        begin, end = state.rows[at(k + 2)], state.rows[at(k + 3)]
    return spot, delta, begin, end


def change_rows(
    tables: Tables, spots: np.ndarray, starts: np.ndarray, by_reaction: bool
) -> np.ndarray:
    """What each reaction changes, and the lists to update, in rows of equal length.

    Returns int32 [reaction, change, 4]: place of the variable's count (from `spots`; -1 after the
    last), its change, and begin and end of a list (from `starts`): that of the variable, or if
    `by_reaction`, that of the reaction, at its first change.
    """
    net = tables.net
    lengths = np.diff(net.change_starts)
    rows = np.zeros((lengths.size, max(1, int(lengths.max(initial=0))), 4), np.int32)
    rows[:, :, 0] = -1
    row = np.repeat(np.arange(lengths.size), lengths)
    column = np.arange(row.size) - net.change_starts[:-1][row]
    rows[row, column, 0] = spots[net.changed]
    rows[row, column, 1] = net.changes
    if by_reaction:
        some = np.flatnonzero(lengths)
        rows[some, 0, 2], rows[some, 0, 3] = starts[:-1][some], starts[1:][some]
    else:
        rows[row, column, 2], rows[row, column, 3] = starts[net.changed], starts[net.changed + 1]
    return rows
