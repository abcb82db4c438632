"""Barriers for the threads of a group, and the division of a range among threads."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import (
    acquire,
    atomic_add,
    atomic_load,
    cuda,
    release_add,
    yield_thread,
)

APART = 16  # words between data of different threads: avoids false sharing of a cache line
_SPINS = 20_000  # polls of a barrier before a CPU thread yields its core


def edge(thread_rank, thread_count, start, stop):
    """First index of a CPU thread's share of a range: the end of the preceding thread's share."""
    return start + (stop - start) * thread_rank // thread_count


def barrier_cpu(thread_count, barrier_words):
    """Wait for all threads of the group; their writes are then visible."""
    if thread_count > 1:
        ticket = atomic_add(barrier_words, 0, 1)  # starts at zero in every kernel
        everybody = (ticket // thread_count + 1) * thread_count
        looks = 0
        while atomic_load(barrier_words, 0) < everybody:
            looks += 1
            if looks > _SPINS:
                yield_thread()


def barrier_grid(thread_count, barrier_words):
    """Wait for all threads of a grid; their writes are then visible.

    Each block counts the barriers that it has passed, so it need not read how many blocks arrived
    before it.  Release and acquire take half the time of CUDA's grid barrier, which fences twice.
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
