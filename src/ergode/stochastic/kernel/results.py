"""What every kernel writes of a realization: sums over realizations, and how it ended."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda, no_unroll, noinline_cpu, option, real
from ergode.stochastic.kernel.outcomes import COUNT_LIMIT, EXTINCT, INFINITY, WHOLE_LIMIT

REAL = option(False)
"""Whether amounts may be real numbers, which have no limit."""


class Out(NamedTuple):
    """Results; those that are not wanted have no rows."""

    grid: Any  # [time]
    amounts: Any  # [row, time, species]
    sums: Any  # [slot, point, time, species]
    squares_low: Any
    squares_high: Any
    counts: Any  # [slot, point, time]
    status: Any  # [row]
    firings: Any  # [row]
    rows: Any  # [row] grid times reported
    ended: Any  # [row] time of the stopping condition or failure
    states: Any  # [row, species] the last state, if wanted
    leaps: Any  # [row, 6] statistics of the steps of a method that leaps (see `algorithms.leap`)
    log_starts: Any  # [row + 1]
    log_times: Any
    log_reactions: Any
    real: Any  # [species] whether amounts are real numbers, and have no limit


# ---- who writes: by default one thread, from the row of a worker


def _amount_of_row(i, w, work, state):
    return work.x[w, i]


def _everything(w, count):
    return range(count)


def _itself(w, condition):
    return condition


def _always(w):
    return True


amount = option(_amount_of_row)
"""``amount(i, w, work, state)`` is the amount of a species."""

share_in = option(ByTarget(cpu=_everything, cuda=_everything, indices=True))
"""``share_in(w, count)`` is the part of a range for this thread."""

all_in = option(_itself)
"""``all_in(w, condition)``: whether a condition holds for all threads that share a realization."""

leads = option(_always)
"""``leads(w)``: whether this thread is the first of them."""


# ---- sums

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


@noinline_cpu
def write(k, w, row, cell, slot, work, state, out):
    """Write the state at time `k` of the grid; false if a count is too large."""
    most = COUNT_LIMIT if out.counts.shape[2] > 0 else WHOLE_LIMIT
    fits = True
    for i in no_unroll(share_in(w, out.sums.shape[3])):
        if not REAL or out.real[i] == 0:
            fits = fits and abs(amount(i, w, work, state)) < most
    if not all_in(w, fits):
        return False
    summed = out.counts.shape[2] > 0
    if summed and leads(w):
        accumulate_count(out.counts, slot, cell, k)
    for i in no_unroll(share_in(w, out.amounts.shape[2])):
        x = amount(i, w, work, state)
        if out.amounts.shape[0] > 0:
            out.amounts[row, k, i] = x
        if summed and i < out.sums.shape[3] and x != 0.0:
            add_amount(slot, cell, k, i, np.int64(x), out)
    return True


def log_firing(row, number, t, j, out):
    """Write the firing of a realization with this number, if there is room for it in the log."""
    if out.log_starts.size > 1:
        place = out.log_starts[row] + number
        if place < out.log_starts[row + 1]:
            out.log_times[place] = t
            out.log_reactions[place] = j


def finish(row, outcome, firings, cursor, t, over, out):
    """Write how a realization ended; `over`: by the stopping condition."""
    out.status[row] = outcome
    out.firings[row] = firings
    out.rows[row] = cursor
    out.ended[row] = t if over or outcome > EXTINCT else real(INFINITY)


def _write_last(row, w, work, state, out):
    if out.states.shape[0] > 0:
        for i in range(out.states.shape[1]):
            out.states[row, i] = amount(i, w, work, state)


def _write_nothing(row, w, work, state, out):
    """Do nothing: the last states are for `runners.failures`, on a CPU."""


write_last = ByTarget(cpu=_write_last, cuda=_write_nothing)
"""``write_last(row, w, work, state, out)`` writes the last state of a realization, if wanted."""
