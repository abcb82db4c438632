"""A thread group: the threads that work on one density together.

All threads run the same steps. A phase is a loop over cells, of which each thread takes a part. It
ends at a barrier. A thread group is one of three: threads of a CPU, as many as the cells keep busy;
the whole grid of a GPU; or a cluster of blocks. The barrier of a cluster takes a quarter of the
time of the barrier of a grid, so clusters serve small densities, and many densities side by side.
Results do not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from ergode.core.barriers import APART, barrier_cpu, edge
from ergode.core.compiler.language import atomic_add, barrier_of_cluster, cuda, option

BLOCKS = option(1)
"""Blocks of a cluster."""

EVERY_LANE = np.uint32(0xFFFFFFFF)

# ---- CPU


def locate_cpu_thread(thread_rank, thread_count, first):
    """Density, rank and number of threads of a CPU thread."""
    return first, thread_rank, thread_count


def share_cpu(thread_rank, thread_count, start, stop):
    """The part of a range for one thread: consecutive numbers."""
    return range(
        edge(thread_rank, thread_count, start, stop),
        edge(thread_rank + 1, thread_count, start, stop),
    )


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
