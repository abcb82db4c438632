"""Counts on a time grid: the grid index of a moment, counts from moves, and tallies of measures."""

from __future__ import annotations

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import noinline_cpu, real
from ergode.epidemics.shared.atomics import add
from ergode.epidemics.shared.clock import precedes
from ergode.epidemics.shared.options import HAS_STRATA

# Quantities of a measure (`shared.tallies`); doses from `DOSE` on.
(
    TESTS, POSITIVE, BEGUN, HELD, WAITING, TURNED_AWAY, IN_FORCE, TRACED, RELEASED, AVOIDED, DOSE,
) = range(11)  # fmt: skip


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


def tally(moves, tables, k, quantity, node, time, amount):
    """Add to a quantity of a measure at a time, for a node.

    `moves` [time, column] are those of a replicate.
    """
    group = np.int64(0)
    if HAS_STRATA:
        group = np.int64(tables.stratum[node])
    _tally_in(moves, tables, k, quantity, group, time, amount)


def tally_contact(moves, tables, k, quantity, layer, node, time):
    """Count a contact with a node, in all layers and, if they are counted, in its own."""
    tally(moves, tables, k, quantity, node, time, 1)
    column = np.int64(tables.interventions.tallies.column[k, quantity])
    if tables.interventions.tallies.by_layer != 0 and column >= 0:
        column = (column + 1 + np.int64(layer)) * tables.stratum_count
        if HAS_STRATA:
            column += np.int64(tables.stratum[node])
        _add_at(moves, tables.times, tables.per_step, column, real(time), np.int32(1))


def tally_in_all(moves, tables, k, quantity, time, amount):
    """Add to a quantity of a measure at a time, in all strata."""
    for group in range(tables.stratum_count):
        _tally_in(moves, tables, k, quantity, np.int64(group), time, amount)


def _tally_in(moves, tables, k, quantity, group, time, amount):
    column = np.int64(tables.interventions.tallies.column[k, quantity])
    if column >= 0:
        column = column * tables.stratum_count + group
        _add_at(moves, tables.times, tables.per_step, column, real(time), np.int32(amount))


@noinline_cpu
def _add_at(moves, times, per_step, column, time, amount):
    """Add to a column of moves at a time; nothing after the last time."""
    if time <= times[times.size - 1]:
        add(moves, (np.int64(grid_index(times, per_step, time)), column), amount)


def tally_hold(moves, tables, k, node, begin, until, before):
    """A node is held from a time until another, after it was held until the time `before`."""
    if until > 0.0:
        if not precedes(before, begin) and before > 0.0:
            tally(moves, tables, k, HELD, node, before, 1)
        else:
            tally(moves, tables, k, BEGUN, node, begin, 1)
            tally(moves, tables, k, HELD, node, begin, 1)
        tally(moves, tables, k, HELD, node, until, -1)
