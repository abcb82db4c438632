"""What every kernel writes of a realization: sums over realizations, and how it ended."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda, real
from ergode.stochastic.kernel.outcomes import EXTINCT, INFINITY

LOW_HALF = np.int64(0xFFFFFFFF)
"""The lower 32 bits of a square: its halves are added apart, so that no sum overflows."""


def _accumulate_alone(array, slot, point, k, i, value):
    array[slot, point, k, i] += value


def _accumulate_together(array, slot, point, k, i, value):
    cuda.atomic.add(array, (slot, point, k, i), value)


accumulate = ByTarget(cpu=_accumulate_alone, cuda=_accumulate_together)
"""Add to a sum; atomically on CUDA."""


def _count_alone(array, slot, point, k):
    array[slot, point, k] += 1


def _count_together(array, slot, point, k):
    cuda.atomic.add(array, (slot, point, k), 1)


accumulate_count = ByTarget(cpu=_count_alone, cuda=_count_together)
"""Add one to a count of realizations; atomically on CUDA."""


def add_amount(slot, point, k, i, n, out):
    """Add an amount and its square to the sums of species `i` at time `k`."""
    square = n * n
    accumulate(out.sums, slot, point, k, i, n)
    accumulate(out.squares_low, slot, point, k, i, square & LOW_HALF)
    if square >> 32 != 0:
        accumulate(out.squares_high, slot, point, k, i, square >> 32)


def finish(row, outcome, firings, cursor, t, over, out):
    """Write how a realization ended; `over`: by the stopping condition."""
    out.status[row] = outcome
    out.firings[row] = firings
    out.rows[row] = cursor
    out.ended[row] = t if over or outcome > EXTINCT else real(INFINITY)
