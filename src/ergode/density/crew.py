"""A crew: the threads that work on one density together.

All of them run the same steps.  A phase - a loop over cells, of which each thread takes its share -
ends where they meet, and the next may read what any of them wrote.  A crew is as many threads of a
CPU as the grid keeps busy, the whole grid of a GPU, or one block of it where many densities run
side by side.  What a phase leaves does not depend on how many they are.
"""

from __future__ import annotations

import numpy as np

from ergode.core.machine import atomic_add, atomic_load, cuda, give_way

EVERY_LANE = np.uint32(0xFFFFFFFF)

APART = 16  # words between what different threads write, so that they are not in each other's way
_SPINS = 20_000  # looks at the others before a thread of a CPU sleeps, for the machine may be busy


# ---- CPU


def edge(rank, size, start, stop):
    """Where the share of a thread of a CPU begins, and that of the one before it ends."""
    return start + (stop - start) * rank // size


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
                give_way()


def book_cpu(tally, at, amount):
    """Add what a thread has to an account."""
    if amount != 0:
        atomic_add(tally, at, amount)


# ---- CUDA


def share_cuda(rank, size, start, stop):
    """The share of a thread of a range: every so many, so that neighbours read together."""
    return range(start + rank, stop, size)


def meet_grid(size, meeting):
    """Wait for all others; what they wrote can then be read."""
    cuda.cg.this_grid().sync()


def meet_block(size, meeting):
    """The same where a block is a crew."""
    cuda.syncthreads()


def _sum_of_warp(value):
    for shift in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(EVERY_LANE, value, shift)
    return value


def book_cuda(tally, at, amount):
    """Add what all lanes of a warp have to an account."""
    total = _sum_of_warp(amount)
    if total != 0 and cuda.threadIdx.x & 31 == 0:
        atomic_add(tally, at, total)


def place_in_grid(first):
    """Which density a thread of a grid works on, its rank, and how many they are."""
    return first, cuda.grid(1), cuda.gridsize(1)


def place_in_block(first):
    """The same where a block is a crew."""
    return first + cuda.blockIdx.x, np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x)


place = place_in_grid  # bound for each kernel, as are these
share, meet, book = share_cpu, meet_cpu, book_cpu
