"""What realizations by thread groups share: a search, shared memory, and tables of changes.

A thread group is a part of a warp, a warp, or a block of warps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import option
from ergode.core.group import broadcast, first_of, lane_in, prefix_of
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.tables import Tables

SCRATCH = option()
"""float64 of scratch memory of a thread group."""

STRIDE = option()
"""Length of a row of shared memory: one more than threads, which avoids bank conflicts."""


class ThreadGroup(NamedTuple):
    """A `core.group.Group` of a realization, and its part of shared memory."""

    rank: Any
    size: Any
    scratch: Any  # the shared memory, which begins with the scratch memory of a block
    group_number: Any
    base: Any  # where the method's numbers begin


def search(value, target, threads):
    """Thread whose interval of the cumulative sum contains `target`, the remainder, and the sum.

    If `target` is beyond the sum, the last thread with a positive value; -1 if there is none.
    """
    up_to, total = prefix_of(threads, value)
    some = value > 0.0
    who = first_of(threads, up_to > target and some, some)
    if who >= 0:
        target = broadcast(threads, target - (up_to - value), who)
    return who, target, total


# ---- shared memory: number i is in column i // width, row i % width


def shared_index(i, width):
    """Place of number `i`, relative to the first."""
    return i % width * STRIDE + i // width


def shared_indices(count: int, size: int) -> np.ndarray:
    """Places of `count` numbers in shared memory (see `shared_index`)."""
    width = -(-count // size)
    i = np.arange(count)
    return i % width * (size + 1) + i // width


def row_of_change(j, threads, state):
    """Entry of `change_rows` for a lane: place of the count, change, begin and end of a list."""
    spot, delta, begin, end = np.int32(-1), np.int32(0), np.int32(0), np.int32(0)
    if lane_in(threads) < state.changes_most:
        k = np.int32(4 * (j * state.changes_most + lane_in(threads)))
        spot, delta = state.rows[at(k)], state.rows[at(k + 1)]
        begin, end = state.rows[at(k + 2)], state.rows[at(k + 3)]
    return spot, delta, begin, end


def change_rows(
    tables: Tables, spots: np.ndarray, starts: np.ndarray, by_reaction: bool
) -> np.ndarray:
    """What each reaction changes, and the lists to update, in rows of equal length.

    Returns int32 [reaction, change, 4]: place of the variable's count (from `spots`; -1 after the
    last), its change, and begin and end of a list (from `starts`): that of the variable, or if
    `by_reaction`, that of the reaction, at its first change.
    """
    net = tables.net
    lengths = np.diff(net.change_starts)
    rows = np.zeros((lengths.size, max(1, int(lengths.max(initial=0))), 4), np.int32)
    rows[:, :, 0] = -1
    row = np.repeat(np.arange(lengths.size), lengths)
    column = np.arange(row.size) - net.change_starts[:-1][row]
    rows[row, column, 0] = spots[net.changed]
    rows[row, column, 1] = net.changes
    if by_reaction:
        some = np.flatnonzero(lengths)
        rows[some, 0, 2], rows[some, 0, 3] = starts[:-1][some], starts[1:][some]
    else:
        rows[row, column, 2], rows[row, column, 3] = starts[net.changed], starts[net.changed + 1]
    return rows
