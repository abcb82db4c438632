"""Counts on a time grid: the grid index of a moment, counts from moves, and tallies of measures.

Where line lists are kept, every change of a tally is kept too (`Happened`), with its node and time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import noinline_cpu, real
from ergode.epidemics.shared.atomics import add
from ergode.epidemics.shared.clock import precedes
from ergode.epidemics.shared.options import HAS_STRATA, LISTING

# Quantities of a measure (`shared.tallies`); doses from `DOSE` on.
(
    TESTS, POSITIVE, BEGUN, HELD, WAITING, TURNED_AWAY, IN_FORCE, TRACED, RELEASED, AVOIDED, DOSE,
) = range(11)  # fmt: skip


class Happened(NamedTuple):
    """Changes of tallies, in any order: one row of each array per replicate."""

    count: Any  # int64 [row]; may exceed `room`
    what: Any  # node, column and change (`_note`), int64 [row, room]
    time: Any  # real [row, room]


class Counted(NamedTuple):
    """Where what measures do in a replicate is counted."""

    moves: Any  # int32 [time, column]
    happened: Any
    row: Any  # of `happened`


_COLUMN_BIT, _NODE_BIT = np.int64(2), np.int64(24)  # in `Happened.what`; below is the change + 1


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


def tally(counted, tables, k, quantity, node, time, amount):
    """Add to a quantity of a measure at a time, for a node; `counted` is a `Counted`."""
    group = np.int64(0)
    if HAS_STRATA:
        group = np.int64(tables.stratum[node])
    column = np.int64(tables.interventions.tallies.column[k, quantity])
    _tally_in(counted, tables, column, group, time, amount)
    if LISTING:
        _note(counted, tables, column, np.int64(node), real(time), np.int64(amount))


def tally_contact(counted, tables, k, quantity, layer, node, time):
    """Count a contact with a node, in all layers and, if they are counted, in its own."""
    tally(counted, tables, k, quantity, node, time, 1)
    column = np.int64(tables.interventions.tallies.column[k, quantity])
    if tables.interventions.tallies.by_layer != 0 and column >= 0:
        column += 1 + np.int64(layer)
        group = np.int64(0)
        if HAS_STRATA:
            group = np.int64(tables.stratum[node])
        _tally_in(counted, tables, column, group, time, 1)
        if LISTING:
            _note(counted, tables, column, np.int64(node), real(time), np.int64(1))


def tally_in_all(counted, tables, k, quantity, time, amount):
    """Add to a quantity of a measure at a time, in all strata."""
    column = np.int64(tables.interventions.tallies.column[k, quantity])
    for group in range(tables.stratum_count):
        _tally_in(counted, tables, column, np.int64(group), time, amount)
    if LISTING:
        _note(counted, tables, column, np.int64(-1), real(time), np.int64(amount))


def _tally_in(counted, tables, column, group, time, amount):
    if column >= 0:
        column = column * tables.stratum_count + group
        moves = counted.moves
        _add_at(moves, tables.times, tables.per_step, column, real(time), np.int32(amount))


@noinline_cpu
def _add_at(moves, times, per_step, column, time, amount):
    """Add to a column of moves at a time; nothing after the last time."""
    if time <= times[times.size - 1]:
        add(moves, (np.int64(grid_index(times, per_step, time)), column), amount)


def _note(counted, tables, column, node, time, amount):
    """Keep a change of a tally; nothing after the last time."""
    if column >= 0 and time <= tables.times[tables.times.size - 1]:
        happened = counted.happened
        what = (node + 1) << _NODE_BIT | column << _COLUMN_BIT | (amount + 1)
        _append(happened.count, happened.what, happened.time, np.int64(counted.row), what, time)


@noinline_cpu
def _append(count, what, moments, row, change, time):
    """Add to a row of `Happened`, if it has room."""
    at = add(count, row, np.int64(1))
    if at < what.shape[1]:
        what[row, at] = change
        moments[row, at] = max(time, real(0.0))  # what was before the first time is counted at it


def tally_hold(counted, tables, k, node, begin, until, before):
    """A node is held from a time until another, after it was held until the time `before`."""
    if until > 0.0:
        if not precedes(before, begin) and before > 0.0:
            tally(counted, tables, k, HELD, node, before, 1)
        else:
            tally(counted, tables, k, BEGUN, node, begin, 1)
            tally(counted, tables, k, HELD, node, begin, 1)
        tally(counted, tables, k, HELD, node, until, -1)


# ---- host functions


def changes_of(happened: Happened) -> tuple[np.ndarray, ...]:
    """Row, node, column, change and time of what happened, ordered by the first three and time."""
    kept = np.arange(happened.what.shape[1]) < happened.count[:, None]
    row, what = np.nonzero(kept)[0], happened.what[kept]
    node = (what >> _NODE_BIT) - 1
    column = (what >> _COLUMN_BIT) & ((1 << (_NODE_BIT - _COLUMN_BIT)) - 1)
    time = happened.time[kept].astype(np.float64)
    order = np.lexsort((time, column, node, row))
    change = (what & ((1 << _COLUMN_BIT) - 1)) - 1
    return tuple(each[order] for each in (row, node, column, change, time))
