"""Counts on a time grid: the grid index of a moment, and counts from moves."""

from __future__ import annotations

import numpy as np

from ergode.core import kernels


def grid_index(times, per_step, time):
    """Index of the first grid time at or after `time`; the length of the grid if all are earlier.

    `per_step` is the approximate number of grid points per unit of time; it only gives the first
    guess of the search.
    """
    at = max(np.int64(0), min(np.int64(time * per_step), np.int64(times.size)))
    while at > 0 and times[at - 1] >= time:
        at -= 1
    while at < times.size and times[at] < time:
        at += 1
    return at


def running_sums(index, moves, at_first):
    """Turn one column's moves in one replicate into counts, in place."""
    row = index // moves.shape[2]
    column = index - row * moves.shape[2]
    count = at_first[column]
    for at in range(moves.shape[1]):
        count += moves[row, at, column]
        moves[row, at, column] = count


RUNNING_SUMS = kernels.for_each(running_sums)
