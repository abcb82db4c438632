"""What a team of threads can do together, in part of a warp, a warp, or a block of warps.

Sums and choices over all its threads, and where they find things: numbers in shared memory next to
each other for every thread, and rows of what a reaction changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, real
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.tables import Tables

# Bound for each kernel: threads of a team, those of them in one warp, a mask of as many bits, and
# numbers that the words below pass on through memory.
TEAM, PART, PART_BITS, SCRATCH = 32, 32, np.uint32(0xFFFFFFFF), 0
# Rows of shared memory are longer by one than a team: what is in one column is in many banks.
STRIDE = TEAM + 1


class Member(NamedTuple):
    """A thread of a team, and where in shared memory the team has what."""

    lane: Any  # among the threads of the team in its warp
    number: Any  # among those of the team
    team: Any
    scratch: Any  # where words pass numbers on
    base: Any  # where the method's numbers begin
    memory: Any  # the shared memory


# ---- what a team can do: in a warp, and in a block of warps


def _leader():
    """The lane in which this thread's part of the warp begins."""
    return np.int32(cuda.threadIdx.x & (32 - PART))


def _mates():
    """Lanes of that part."""
    return np.uint32(PART_BITS << np.uint32(_leader()))


def from_lane(value, k):
    """What the thread at lane `k` of the same part has."""
    return cuda.shfl_sync(_mates(), value, np.int32(_leader() + k))


def from_before(value, distance):
    """What the thread so many lanes before has; anything for the first ones."""
    return cuda.shfl_up_sync(_mates(), value, distance)


def sync():
    """Wait for the others of the team: bound to one of the two below."""


def sync_warp():
    cuda.syncwarp(_mates())


def sync_block():
    cuda.syncthreads()


def sum_up_to(value, me):
    """Sum of the values of this thread and those before it, and of all."""
    return value, value


def _sum_in_part(value, me):
    distance = 1
    while distance < PART:
        other = from_before(value, distance)
        if me.lane >= distance:
            value += other
        distance *= 2
    return value


def sum_up_to_warp(value, me):
    value = _sum_in_part(value, me)
    return value, from_lane(value, PART - 1)


def sum_up_to_block(value, me):
    value = _sum_in_part(value, me)
    memory = me.memory
    warp = at(me.number >> 5)
    if me.lane == 31:
        memory[at(me.scratch + warp)] = value
    cuda.syncthreads()
    before, total = real(0.0), real(0.0)
    for k in range(TEAM >> 5):
        if k == warp:
            before = total
        total += memory[at(me.scratch + k)]
    cuda.syncthreads()
    return before + value, total


def one_of(first, some, me):
    """The first thread for which `first` holds, else the last for which `some` does, else -1."""
    return 0


def one_of_warp(first, some, me):
    votes = cuda.ballot_sync(_mates(), first)
    if votes != 0:
        return np.int32(cuda.ffs(votes) - 1 - _leader())
    votes = cuda.ballot_sync(_mates(), some)
    return np.int32(31 - cuda.clz(votes) - _leader()) if votes != 0 else np.int32(-1)


def one_of_block(first, some, me):
    memory = me.memory
    votes, others = cuda.ballot_sync(_mates(), first), cuda.ballot_sync(_mates(), some)
    warps = TEAM >> 5
    if me.lane == 0:
        warp = me.number >> 5
        ahead = me.number + cuda.ffs(votes) - 1 if votes != 0 else TEAM
        behind = me.number + 31 - cuda.clz(others) if others != 0 else -1
        memory[at(me.scratch + warp)] = real(ahead)
        memory[at(me.scratch + warps + warp)] = real(behind)
    cuda.syncthreads()
    found, last = real(TEAM), real(-1.0)
    for k in range(warps):
        found = min(found, memory[at(me.scratch + k)])
        last = max(last, memory[at(me.scratch + warps + k)])
    cuda.syncthreads()
    return np.int32(found) if found < TEAM else np.int32(last)


def hand_out(value, who, me):
    """The value of one thread, to all."""
    return value


def hand_out_warp(value, who, me):
    return from_lane(value, who)


def hand_out_block(value, who, me):
    memory = me.memory
    if me.number == who:
        memory[at(me.scratch)] = value
    cuda.syncthreads()
    value = memory[at(me.scratch)]
    cuda.syncthreads()
    return value


def search(value, target, me):
    """Whose value `target` falls into, what is left of it there, and the sum of all values.

    The last who has any if it falls behind all; -1 if none has.
    """
    up_to, total = sum_up_to(value, me)
    some = value > 0.0
    who = one_of(up_to > target and some, some, me)
    if who >= 0:
        target = hand_out(target - (up_to - value), who, me)
    return who, target, total


def anyone(condition, me):
    """Whether it holds for one at least."""
    return one_of(condition, False, me) >= 0


# ---- numbers in shared memory: number i is in column i // width, and there in row i % width


def spot_of(i, width):
    """Where number `i` is, counted from the first."""
    return i % width * STRIDE + i // width


def spots_of(count: int, size: int) -> np.ndarray:
    """Where in shared memory each of so many numbers is (see `spot_of`)."""
    width = -(-count // size)
    i = np.arange(count)
    return i % width * (size + 1) + i // width


def row_of_change(j, me, own):
    """Of `change_rows` what is of this lane: where the count is, its change, and a list."""
    spot, delta, begin, end = np.int32(-1), np.int32(0), np.int32(0), np.int32(0)
    if me.lane < own.changes_most:
        k = np.int32(4 * (j * own.changes_most + me.lane))
        spot, delta = own.rows[at(k)], own.rows[at(k + 1)]
        begin, end = own.rows[at(k + 2)], own.rows[at(k + 3)]
    return spot, delta, begin, end


def change_rows(
    tables: Tables, spots: np.ndarray, starts: np.ndarray, by_reaction: bool
) -> np.ndarray:
    """What each reaction changes, and which lists follow it, in rows of one length.

    Returns
    -------
    ndarray of int32, shape [reaction, change, 4]
        Where the count of the variable is (of `spots`; -1 behind the last), its change, and where
        the list begins and ends whose entries depend on it: by `starts` that of the variable, or
        where lists are of reactions, that of the reaction at its first change.
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
