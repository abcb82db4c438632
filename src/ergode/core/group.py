"""Thread groups: the threads that share one member of an ensemble.

All threads of a group run the same steps. Each takes its `share` of a loop; a `barrier` separates
writes from reads by other threads. On CUDA, `KIND` says which threads a group is:

| kind        | threads                                         | barrier                          |
|-------------|-------------------------------------------------|----------------------------------|
| ALONE       | one                                             | none                             |
| PART        | `SIZE` lanes of a warp: a power of two up to 32 | that of a warp                   |
| BLOCK       | a block                                         | that of a block                  |
| CLUSTER     | `BLOCKS` blocks of a cluster                    | that of a cluster                |
| SOME        | some blocks of a resident grid                  | a counter in `words`             |
| GRID        | all blocks of a resident grid                   | counters in `words`              |
| COOPERATIVE | all blocks of a resident grid                   | CUDA's own: `words` is the grid  |

On a CPU a group is one thread, whatever the kind, or with `TEAM` all threads, whose barrier is a
counter in `words`. So one body serves a thread of a CPU and a block of a GPU.

A function takes a `Group`, or a named tuple with the fields that it reads. Sums and choices are for
all threads of a group, and all of them call the function together. The order of a sum is fixed by
the kind and the size of a group. A function that has no form for a kind does not compile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import (
    ByTarget,
    acquire,
    atomic_add,
    atomic_load,
    barrier_of_cluster,
    cuda,
    noinline_cuda,
    now,
    option,
    real,
    release_add,
    unroll,
    yield_thread,
)

ALONE, PART, BLOCK, CLUSTER, SOME, GRID, COOPERATIVE = range(7)

KIND = option()
"""Which threads of a GPU are a group; a kernel for CUDA has to say so."""

TEAM = option(False)
"""Whether the threads of a CPU are a group; otherwise each is one."""

SIZE = option(32)
"""Threads of a group of kind PART, or of a block of whole warps whose size is known."""

LANES = option(32)
"""Threads of a group that are in one warp."""

BLOCKS = option(1)
"""Blocks of a cluster."""

WARPS = 8
"""Most warps of a block in `total_of` and `largest_of`."""

APART = 16  # words between data of different threads: avoids false sharing of a cache line
EVERY_LANE = np.uint32(0xFFFFFFFF)
_SPINS = 20_000  # polls of a barrier before a CPU thread yields its core


class Group(NamedTuple):
    """A thread's view of its group."""

    rank: Any  # number of the thread in the group
    size: Any  # number of threads
    words: Any  # of the barrier: int64, of SOME int32; zeros at first
    scratch: Any  # memory of a block, for sums and choices
    parts: Any  # real [2 or more, block]: of `totals_of` in a grid


ONE = Group(0, 1, (), (), ())
"""A group of one thread."""


# ---- which threads


def _group_of_cpu(rank, size, first, words):
    return first, Group(rank, size, words[first], (), ())


def _group_of_cuda(rank, size, first, words):
    if KIND == CLUSTER:
        number = np.int64(cuda.blockIdx.x) // BLOCKS
        threads = np.int64(BLOCKS * cuda.blockDim.x)
        mine = np.int64(cuda.grid(1)) - number * threads
        return first + number, Group(mine, threads, words[first + number], (), ())
    elif KIND == GRID:
        cuda.cg.this_grid()  # a cooperative launch: all blocks are resident at once
        return first, Group(cuda.grid(1), cuda.gridsize(1), words[first], (), ())


group_of = ByTarget(cpu=_group_of_cpu, cuda=_group_of_cuda)
"""``group_of(rank, size, first, words)`` is the member that a thread works on, and its group.

Members are numbered from `first` on; `words` are [member, word]. A CPU is told rank and size."""


def group_of_block(scratch):
    """The group of a thread of a block; `scratch`, that of sums, is zero after the next barrier."""
    rank = cuda.threadIdx.x & 0x7FFFFFFFFFFFFFFF  # no index from it is negative
    if rank < 2 * WARPS:
        scratch[rank] = 0.0
    return Group(rank, cuda.blockDim.x, (), scratch, ())


# ---- shares


def edge(rank, size, start, stop):
    """First index of a thread's share in consecutive numbers: the end of the preceding share."""
    return start + (stop - start) * rank // size


def _share_cpu(group, start, stop):
    if TEAM:
        return range(
            edge(group.rank, group.size, start, stop), edge(group.rank + 1, group.size, start, stop)
        )
    else:
        return range(start, stop)


def _rank_in(group):
    return group.rank


def rank_anew(group):
    """The rank, from which nothing follows that was computed before.

    Bound to `rank_in`, it keeps addresses and counts of loops out of registers between loops.
    """
    return now(group.rank)


rank_in = option(_rank_in)
"""The rank by which a thread takes its share."""


def _share_cuda(group, start, stop):
    return range(start + rank_in(group), stop, group.size)


share = ByTarget(cpu=_share_cpu, cuda=_share_cuda, indices=True)
"""``share(group, start, stop)`` is the part of a range for one thread.

It is consecutive on a CPU, and strided on CUDA, so that reads coalesce."""


# ---- barriers


def _barrier_cpu(group):
    if TEAM:
        _wait_for_team(group.size, group.words)


def _barrier_cuda(group):
    if KIND == PART:
        cuda.syncwarp(_lane_mask())
    elif KIND == BLOCK or (KIND == CLUSTER and BLOCKS == 1):
        cuda.syncthreads()
    elif KIND == CLUSTER:
        barrier_of_cluster()
    elif KIND == SOME:
        _wait_for_some(group.blocks, group.words)
    elif KIND == GRID:
        _wait_for_grid(group.words)
    elif KIND == COOPERATIVE:
        group.words.sync()


barrier = ByTarget(cpu=_barrier_cpu, cuda=_barrier_cuda)
"""``barrier(group)`` waits for all threads of the group; their writes are then visible."""


def _wait_for_team(size, words):
    if size > 1:
        ticket = atomic_add(words, 0, 1)  # starts at zero in every kernel
        everybody = (ticket // size + 1) * size
        looks = 0
        while atomic_load(words, 0) < everybody:
            looks += 1
            if looks > _SPINS:
                yield_thread()


def _wait_for_grid(words):
    """Each block counts the barriers that it has passed, so it need not read how many arrived.

    Release and acquire take half the time of CUDA's grid barrier, which fences twice.
    """
    first = cuda.threadIdx.x == 0
    mine = APART * (1 + np.int64(cuda.blockIdx.x))
    turn = np.int64(0)
    if first:
        turn = words[mine] + 1
    cuda.syncthreads()
    if first:
        words[mine] = turn
        release_add(words, 0, 1)
        everybody = turn * np.int64(cuda.gridDim.x)
        while acquire(words, 0) < everybody:
            pass
    cuda.syncthreads()


def _wait_for_some(blocks, words):
    """`words` are int32."""
    cuda.syncthreads()
    if blocks > 1:
        if cuda.threadIdx.x == 0:
            cuda.threadfence()
            ticket = np.int64(cuda.atomic.add(words, 0, np.int32(1)))
            full = (ticket // blocks + 1) * blocks
            while cuda.atomic.add(words, 0, np.int32(0)) < full:
                cuda.nanosleep(np.uint32(100))
            cuda.threadfence()
        cuda.syncthreads()


def _meet_cpu():
    return None


def _meet_cuda():
    cuda.syncthreads()


meet = ByTarget(cpu=_meet_cpu, cuda=_meet_cuda)
"""``meet()`` waits for all groups of a block that have not ended.

Groups that run the same code at the same time fetch it once."""


def thread_in_group():
    """Number of a thread in its block, or in its warp where this is the group."""
    if KIND == PART:
        return cuda.threadIdx.x & 31
    else:
        return cuda.threadIdx.x & 0x7FFFFFFFFFFFFFFF


def threads_of_group():
    """Number of threads of a block, or of a warp where this is the group."""
    if KIND == PART:
        return 32
    else:
        return cuda.blockDim.x


# ---- sums over a group


def _total_cpu(group, value, slot):
    return value


def _total_cuda(group, value, slot):
    if KIND == PART and SIZE == 32:
        return sum_of_warp(value)
    elif KIND == BLOCK:
        for turn in range(5):
            value += cuda.shfl_down_sync(EVERY_LANE, value, 16 >> turn)
        _put_of_warp(value, group.scratch, slot)
        cuda.syncthreads()
        o = WARPS * slot
        part = group.scratch
        left = (part[o] + part[o + 1]) + (part[o + 2] + part[o + 3])
        return left + ((part[o + 4] + part[o + 5]) + (part[o + 6] + part[o + 7]))
    elif KIND == ALONE:
        return value


def _largest_cuda(group, value, slot):
    if KIND == BLOCK:
        for turn in range(5):
            value = _larger(value, cuda.shfl_down_sync(EVERY_LANE, value, 16 >> turn))
        _put_of_warp(value, group.scratch, slot)
        cuda.syncthreads()
        largest = 0.0
        for warp in range(WARPS):
            largest = _larger(largest, group.scratch[WARPS * slot + warp])
        return largest
    elif KIND == ALONE:
        return value


def _larger(one, other):
    """The larger number; NaN counts as largest."""
    return one if one >= other or one != one else other


def _put_of_warp(value, scratch, slot):
    if cuda.threadIdx.x & 31 == 0:
        scratch[WARPS * slot + (cuda.threadIdx.x >> 5)] = value


total_of = ByTarget(cpu=_total_cpu, cuda=_total_cuda)
"""``total_of(group, value, slot)`` is the sum over a warp, or a block of up to `WARPS` warps.

In a block it has one barrier. Two sums without a barrier between them need different slots of the
scratch memory, 0 or 1. It begins with zeros."""

largest_of = ByTarget(cpu=_total_cpu, cuda=_largest_cuda)
"""``largest_of(group, value, slot)`` is the largest value, none below 0, as `total_of`."""


def _totals_cpu(group, first, second):
    return first, second


def _totals_cuda(group, first, second):
    if KIND == BLOCK:
        return totals_of_block(group, first, second)
    elif KIND == GRID:
        first, second = totals_of_block(group, first, second)
        if cuda.threadIdx.x == 0:
            group.parts[0, cuda.blockIdx.x] = first
            group.parts[1, cuda.blockIdx.x] = second
        barrier(group)
        first, second = totals_of_parts(group, 0, 1)
        barrier(group)
        return first, second
    elif KIND == ALONE:
        return first, second


totals_of = ByTarget(cpu=_totals_cpu, cuda=_totals_cuda)
"""``totals_of(group, first, second)`` are two sums over a block of any size, or over a grid."""


def totals_of_parts(group, one, other):
    """Two rows of `group.parts`, each summed over all blocks by the threads of a block."""
    first, second = real(0.0), real(0.0)
    for block in range(cuda.threadIdx.x, cuda.gridDim.x, cuda.blockDim.x):
        first += group.parts[one, block]
        second += group.parts[other, block]
    return totals_of_block(group, first, second)


def totals_of_block(group, first, second):
    """Two sums over the threads of a block, whatever the kind; `group.scratch` is [2, warp]."""
    scratch = group.scratch
    for turn in range(5):
        first += cuda.shfl_down_sync(EVERY_LANE, first, 16 >> turn)
        second += cuda.shfl_down_sync(EVERY_LANE, second, 16 >> turn)
    cuda.syncthreads()
    if cuda.threadIdx.x & 31 == 0:
        scratch[0, cuda.threadIdx.x >> 5] = first
        scratch[1, cuda.threadIdx.x >> 5] = second
    cuda.syncthreads()
    first, second = real(0.0), real(0.0)
    for warp in range(cuda.blockDim.x >> 5):
        first += scratch[0, warp]
        second += scratch[1, warp]
    return first, second


def sum_of_threads(count, word, words):
    """Sum of a private word over the first `count` threads of a team."""
    found = np.int64(0)
    for other in range(count):
        found += words[APART * (other + 1) + word]
    return found


def _accumulate_cpu(group, numbers, at, amount):
    if amount != 0:
        atomic_add(numbers, at, amount)


def _accumulate_cuda(group, numbers, at, amount):
    amount = sum_of_lanes(amount, 32)
    if amount != 0 and cuda.threadIdx.x & 31 == 0:
        atomic_add(numbers, at, amount)


accumulate = ByTarget(cpu=_accumulate_cpu, cuda=_accumulate_cuda)
"""``accumulate(group, numbers, at, amount)`` adds the integers of all threads to an element."""


# ---- sums and choices in order of rank, by PART and by BLOCK with `SIZE`


def prefix_of(group, value):
    """The sum over the threads up to this one, and the sum over all."""
    value = prefix_of_lanes(value, lane_in(group), LANES, _lane_mask())
    if KIND == PART:
        return value, shuffle(value, SIZE - 1)
    elif KIND == BLOCK:
        scratch, warp = group.scratch, np.uint32(group.rank >> 5)
        if lane_in(group) == 31:
            scratch[warp] = value
        cuda.syncthreads()
        before, everything = real(0.0), real(0.0)
        for k in range(SIZE >> 5):
            if k == warp:
                before = everything
            everything += scratch[np.uint32(k)]
        cuda.syncthreads()
        return before + value, everything


def first_of(group, first, some):
    """The first thread for which `first` holds, else the last for which `some` holds, else -1."""
    votes = cuda.ballot_sync(_lane_mask(), first)
    if KIND == PART:
        if votes != 0:
            return np.int32(cuda.ffs(votes) - 1 - _first_lane())
        votes = cuda.ballot_sync(_lane_mask(), some)
        return np.int32(31 - cuda.clz(votes) - _first_lane()) if votes != 0 else np.int32(-1)
    elif KIND == BLOCK:
        others = cuda.ballot_sync(_lane_mask(), some)
        scratch, warps = group.scratch, SIZE >> 5
        if lane_in(group) == 0:
            warp = group.rank >> 5
            ahead = group.rank + cuda.ffs(votes) - 1 if votes != 0 else SIZE
            behind = group.rank + 31 - cuda.clz(others) if others != 0 else -1
            scratch[np.uint32(warp)] = real(ahead)
            scratch[np.uint32(warps + warp)] = real(behind)
        cuda.syncthreads()
        found, last = real(SIZE), real(-1.0)
        for k in range(warps):
            found = min(found, scratch[np.uint32(k)])
            last = max(last, scratch[np.uint32(warps + k)])
        cuda.syncthreads()
        return np.int32(found) if found < SIZE else np.int32(last)


def broadcast(group, value, who):
    """The value of thread `who`."""
    if KIND == PART:
        return shuffle(value, who)
    elif KIND == BLOCK:
        if group.rank == who:
            group.scratch[0] = value
        cuda.syncthreads()
        value = group.scratch[0]
        cuda.syncthreads()
        return value


def any_of(group, condition):
    """Whether `condition` holds for at least one thread."""
    return first_of(group, condition, False) >= 0


def next_member(group, queue):
    """The next member of the ensemble, from a queue of all groups; begins with a barrier."""
    if KIND == ALONE:
        return cuda.atomic.add(queue, 0, 1)
    else:
        barrier(group)
        taken = np.int64(0)
        if group.rank == 0:
            taken = np.int64(cuda.atomic.add(queue, 0, 1))
        return np.int64(broadcast(group, taken if KIND == PART else real(taken), 0))


def lane_in(group):
    """The number of a thread among those of its group in one warp."""
    return group.rank & (LANES - 1)


def shuffle(value, k):
    """The value of lane `k` of those of this group in one warp."""
    return cuda.shfl_sync(_lane_mask(), value, np.int32(_first_lane() + k))


def shuffle_up(value, distance):
    """The value of the lane `distance` lanes before; undefined for the first lanes of a group."""
    return cuda.shfl_up_sync(_lane_mask(), value, distance)


def _first_lane():
    """First lane of this group in its warp."""
    return np.int32(cuda.threadIdx.x & (32 - LANES))


def _lane_mask():
    """Mask of the lanes of this group."""
    return np.uint32(np.uint32((np.int64(1) << LANES) - 1) << np.uint32(_first_lane()))


def bindings_of_size(size: int) -> dict[Any, Any]:
    """Options of groups of `size` threads, a power of two: up to 32 of a warp, above of a block."""
    return {KIND: PART if size <= 32 else BLOCK, SIZE: size, LANES: min(size, 32)}


# ---- lanes of a warp, whatever the kind


def _claim_cpu(wanted, counts, at, lane):
    before = counts[at]
    counts[at] += np.int32(wanted)
    return np.int64(before)


def _claim_cuda(wanted, counts, at, lane):
    mask = cuda.ballot_sync(EVERY_LANE, wanted)
    place = np.int64(0)
    if lane == 0 and mask != 0:
        place = np.int64(cuda.atomic.add(counts, at, np.int32(cuda.popc(mask))))
    return cuda.shfl_sync(EVERY_LANE, place, 0) + lanes_before(mask, lane)


claim_place = ByTarget(cpu=_claim_cpu, cuda=_claim_cuda)
"""``claim_place(wanted, counts, at, lane)`` is a place from a counter, if a lane wants one."""


def prefix_of_lanes(value, lane, count, mask):
    """The sum over `count` lanes up to this one."""
    distance = 1
    while distance < count:
        other = cuda.shfl_up_sync(mask, value, distance)
        if lane >= distance:
            value += other
        distance *= 2
    return value


def sum_of_lanes(value, count):
    """The sum over `count` adjacent lanes, a power of two, for each of them."""
    for turn in unroll(range(5)):
        if 1 << turn < count:
            value += cuda.shfl_xor_sync(EVERY_LANE, value, 1 << turn)
    return value


@noinline_cuda
def sum_of_warp(value):
    """The sum over a warp, for each of its threads; called, where code has to be short."""
    return sum_of_lanes(value, 32)


def least_of_lanes(value):
    """The least value of a warp, for every lane."""
    for turn in unroll(range(5)):
        value = min(value, cuda.shfl_xor_sync(EVERY_LANE, value, 1 << turn))
    return value


def lanes_before(mask, lane):
    """How many lanes of a mask are before this one."""
    return cuda.popc(np.uint32(mask & ((1 << lane) - 1)))
