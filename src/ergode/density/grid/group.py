"""A crew: the threads that work on one density together.

All of them run the same steps.  A phase - a loop over cells, of which each thread takes its share -
ends where they meet, and the next may read what any of them wrote.  A crew is as many threads of a
CPU as the grid keeps busy, the whole grid of a GPU, or a cluster of its blocks, which meet in a
quarter of the time: for a small density, or each of many side by side.  What a phase leaves does
not depend on how many they are.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import (
    acquire,
    atomic_add,
    atomic_load,
    barrier_of_cluster,
    cuda,
    release_add,
    yield_thread,
)

# Bound for each kernel.
BLOCKS = 1  # of a cluster

EVERY_LANE = np.uint32(0xFFFFFFFF)

APART = 16  # words between what different threads write, so that they are not in each other's way
_SPINS = 20_000  # looks at the others before a thread of a CPU lets others have its core


# ---- CPU


def edge(rank, size, start, stop):
    """Where the share of a thread of a CPU begins, and that of the one before it ends."""
    return start + (stop - start) * rank // size


def place_of_thread(rank, size, first):
    """Which density a thread of a CPU works on, its rank, and how many they are."""
    return first, rank, size


def share_cpu(rank, size, start, stop):
    """The share of a thread of a range: a piece of it."""
    return range(edge(rank, size, start, stop), edge(rank + 1, size, start, stop))


def meet_cpu(size, meeting):
    """Wait for all others; what they wrote can then be read."""
    if size > 1:
        ticket = atomic_add(meeting, 0, 1)  # from zero, whenever a kernel starts
        everybody = (ticket // size + 1) * size
        looks = 0
        while atomic_load(meeting, 0) < everybody:
            looks += 1
            if looks > _SPINS:
                yield_thread()


def sum_of_threads(size, word, words):
    """Sum over the first threads of a CPU of a word that each has to itself."""
    total = np.int64(0)
    for other in range(size):
        total += words[APART * (other + 1) + word]
    return total


def book_cpu(tally, at, amount):
    """Add what a thread has to an account."""
    if amount != 0:
        atomic_add(tally, at, amount)


# ---- CUDA


def share_cuda(rank, size, start, stop):
    """The share of a thread of a range: every so many, so that neighbours read together."""
    return range(start + rank, stop, size)


def meet_grid(size, meeting):
    """Wait for all others; what they wrote can then be read.

    A block counts its own meetings, so that it need not ask how many came before it; to release and
    acquire, rather than to fence twice, takes half the time of the grid's own barrier.
    """
    first = cuda.threadIdx.x == 0
    mine = APART * (1 + np.int64(cuda.blockIdx.x))
    turn = np.int64(0)
    if first:
        turn = meeting[mine] + 1
    cuda.syncthreads()
    if first:
        meeting[mine] = turn
        release_add(meeting, 0, 1)
        everybody = turn * np.int64(cuda.gridDim.x)
        while acquire(meeting, 0) < everybody:
            pass
    cuda.syncthreads()


def meet_block(size, meeting):
    """The same where one block is a crew."""
    cuda.syncthreads()


def meet_cluster(size, meeting):
    """The same where several, a cluster, are one."""
    barrier_of_cluster()


def _sum_of_warp(value):
    for shift in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(EVERY_LANE, value, shift)
    return value


def book_cuda(tally, at, amount):
    """Add what all lanes of a warp have to an account."""
    total = _sum_of_warp(amount)
    if total != 0 and cuda.threadIdx.x & 31 == 0:
        atomic_add(tally, at, total)


def place_in_grid(rank, size, first):
    """The same of a thread of a grid."""
    cuda.cg.this_grid()  # says that all blocks must be there at once
    return first, cuda.grid(1), cuda.gridsize(1)


def place_in_cluster(rank, size, first):
    """The same where a cluster of blocks is a crew."""
    cluster = np.int64(cuda.blockIdx.x) // BLOCKS
    threads = np.int64(BLOCKS * cuda.blockDim.x)
    return first + cluster, np.int64(cuda.grid(1)) - cluster * threads, threads


# Bound for each kernel.
place, share, meet, book = place_of_thread, share_cpu, meet_cpu, book_cpu
