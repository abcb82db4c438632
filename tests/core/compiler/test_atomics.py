"""Threads of a CPU that change the same words and wait for each other."""

import numpy as np
import pytest

from ergode.core import kernels
from ergode.core.compiler.language import (
    atomic_add,
    atomic_load,
    atomic_max,
    atomic_swap_if,
    yield_thread,
)
from ergode.core.devices import cpu

ROUNDS = 2000


def work(rank, size, counts, winners, largest):
    for turn in range(ROUNDS):
        atomic_add(counts, 1, rank + 1)
        if atomic_swap_if(winners, turn, 0, rank + 1) == 0:
            atomic_add(counts, 2, 1)
        atomic_max(largest, 0, 1.5 * turn * rank)
        atomic_max(counts, 3, turn * rank)
        ticket = atomic_add(counts, 0, 1)
        while atomic_load(counts, 0) < (ticket // size + 1) * size:
            yield_thread()
        # All have met: nobody is a round behind.
        if atomic_load(counts, 1) < (turn + 1) * (size * (size + 1) // 2):
            atomic_add(counts, 4, 1)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_words_that_threads_share(count):
    counts, winners, largest = np.zeros(8, np.int64), np.zeros(ROUNDS, np.int64), np.zeros(1)
    kernel = kernels.cpu_kernel(work)
    cpu.run_together(kernel.compiled("cpu"), count, (counts, winners, largest))
    assert counts[1] == ROUNDS * count * (count + 1) // 2
    assert counts[2] == ROUNDS and ((winners > 0) & (winners <= count)).all()
    assert largest[0] == 1.5 * (ROUNDS - 1) * (count - 1)
    assert counts[3] == (ROUNDS - 1) * (count - 1)
    assert counts[4] == 0


def test_errors_of_a_thread_are_raised():
    def broken(rank, size, seen):
        seen.append((rank, size))
        if rank == 1:
            raise ValueError("of rank 1")

    seen = []
    with pytest.raises(ValueError, match="of rank 1"):
        cpu.run_together(broken, 3, (seen,))
    assert sorted(seen) == [(0, 3), (1, 3), (2, 3)]
