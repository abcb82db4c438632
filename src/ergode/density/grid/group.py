"""A thread group: the threads that work on one density together.

All threads run the same steps. A phase is a loop over cells, of which each thread takes a part. It
ends at a barrier. A thread group is one of three: threads of a CPU, as many as the cells keep busy;
the whole grid of a GPU; or a cluster of blocks. The barrier of a cluster takes a quarter of the
time of the barrier of a grid, so clusters serve small densities, and many densities side by side.
Results do not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import (
    acquire,
    atomic_add,
    atomic_load,
    barrier_of_cluster,
    cuda,
    option,
    release_add,
    yield_thread,
)

BLOCKS = option(1)
"""Blocks of a cluster."""

EVERY_LANE = np.uint32(0xFFFFFFFF)

APART = 16  # words between private words of threads, so that no two share a cache line
_SPINS = 20_000  # polls of a barrier before a thread of a CPU yields its core


# ---- CPU


def edge(thread_rank, thread_count, start, stop):
    """First number of the share of a CPU thread: the end of the share before it."""
    return start + (stop - start) * thread_rank // thread_count


def locate_cpu_thread(thread_rank, thread_count, first):
    """Density, rank and number of threads of a CPU thread."""
    return first, thread_rank, thread_count


def share_cpu(thread_rank, thread_count, start, stop):
    """The part of a range for one thread: consecutive numbers."""
    return range(
        edge(thread_rank, thread_count, start, stop),
        edge(thread_rank + 1, thread_count, start, stop),
    )


def barrier_cpu(thread_count, barrier_words):
    """Wait for all threads of the group; their writes are visible afterwards."""
    if thread_count > 1:
        ticket = atomic_add(barrier_words, 0, 1)  # zero when a kernel starts
        everybody = (ticket // thread_count + 1) * thread_count
        looks = 0
        while atomic_load(barrier_words, 0) < everybody:
            looks += 1
            if looks > _SPINS:
                yield_thread()


def sum_of_threads(thread_count, word, words):
    """Sum of a private word over the first `thread_count` CPU threads."""
    total = np.int64(0)
    for other in range(thread_count):
        total += words[APART * (other + 1) + word]
    return total


def atomic_accumulate_cpu(counters, at, amount):
    """Add the amount of a thread to a counter."""
    if amount != 0:
        atomic_add(counters, at, amount)


# ---- CUDA


def share_cuda(thread_rank, thread_count, start, stop):
    """The part of a range for one thread, strided for coalesced reads."""
    return range(start + thread_rank, stop, thread_count)


def barrier_grid(thread_count, barrier_words):
    """Wait for all threads of a grid; their writes are visible afterwards.

    Each block counts the barriers that it passed, which gives the count to wait for. Release and
    acquire take half the time of CUDA's grid barrier, which fences twice.
    """
    first = cuda.threadIdx.x == 0
    mine = APART * (1 + np.int64(cuda.blockIdx.x))
    turn = np.int64(0)
    if first:
        turn = barrier_words[mine] + 1
    cuda.syncthreads()
    if first:
        barrier_words[mine] = turn
        release_add(barrier_words, 0, 1)
        everybody = turn * np.int64(cuda.gridDim.x)
        while acquire(barrier_words, 0) < everybody:
            pass
    cuda.syncthreads()


def barrier_block(thread_count, barrier_words):
    """Wait for all threads of a block, where one block is a thread group."""
    cuda.syncthreads()


def barrier_cluster(thread_count, barrier_words):
    """Wait for all threads of a cluster, where several blocks are a thread group."""
    barrier_of_cluster()


def _sum_of_warp(value):
    for shift in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(EVERY_LANE, value, shift)
    return value


def atomic_accumulate_cuda(counters, at, amount):
    """Add the amounts of all lanes of a warp to a counter."""
    total = _sum_of_warp(amount)
    if total != 0 and cuda.threadIdx.x & 31 == 0:
        atomic_add(counters, at, total)


def locate_in_grid(thread_rank, thread_count, first):
    """Density, rank and number of threads of a thread of a grid."""
    cuda.cg.this_grid()  # a cooperative launch: all blocks are resident at once
    return first, cuda.grid(1), cuda.gridsize(1)


def locate_in_cluster(thread_rank, thread_count, first):
    """Density, rank and number of threads of a thread of a cluster."""
    cluster = np.int64(cuda.blockIdx.x) // BLOCKS
    threads = np.int64(BLOCKS * cuda.blockDim.x)
    return first + cluster, np.int64(cuda.grid(1)) - cluster * threads, threads


# ---- the functions of a kind of thread group

locate_thread = option(locate_cpu_thread)
"""``locate_thread(thread_rank, thread_count, first)`` is the density that a thread works on, its
rank among the threads of that density, and their number.
"""

share = option(share_cpu)
"""``share(thread_rank, thread_count, start, stop)`` is the part of a range for one thread."""

barrier = option(barrier_cpu)
"""``barrier(thread_count, barrier_words)`` waits for all threads of the group."""

atomic_accumulate = option(atomic_accumulate_cpu)
"""``atomic_accumulate(counters, at, amount)`` adds the amounts of all threads to a counter."""
