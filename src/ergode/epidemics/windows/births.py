"""Births at a rate of each living person, by windows of time.

The births of a window follow from the paths of mothers.  When no path changes any more, all births
are listed, and the k-th of them in the order of time ends the stay of the k-th node that was unborn
at the beginning of the window.  If that changes, the paths of these nodes are computed again, and
then the births.  Each pass settles at least one more birth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import real, to_bits
from ergode.core.group import barrier, share
from ergode.epidemics.shared.arcs import node_count_of
from ergode.epidemics.shared.atomics import add, exchange
from ergode.epidemics.shared.births import child_of, next_birth
from ergode.epidemics.shared.contacts import just_before
from ergode.epidemics.shared.sweep import replicate_of
from ergode.epidemics.windows.state import (
    compartment_of,
    destination,
    epidemic_of_row,
    moves_of,
    since_of,
    until_of,
)
from ergode.epidemics.windows.triggers import cut_window, window_end

_NEVER = float("inf")


class BirthState(NamedTuple):
    """Births of each replicate: lists by place, numbers by row."""

    time: Any  # of the births that are listed, in any order; real [place]
    mother: Any  # int32 [place]
    count: Any  # births that are listed, which may exceed the nodes of a replicate; int32 [row]
    given: Any  # births of this window whose nodes know of them, int32 [row]
    born: Any  # births of earlier windows, int32 [row]


def begin_births(births, row):
    """A replicate at time zero."""
    births.count[row] = np.int32(0)
    births.given[row] = np.int32(0)
    births.born[row] = np.int32(0)


def settle_births(epidemic, rows, width, queue, waiting, odd, round_number, thread):
    """List the births of windows, and tell the nodes that are born; whether some paths change.

    Nodes whose birth changes are queued for the round that follows.
    """
    births, paths = epidemic.triggers.births, epidemic.paths
    node_count = node_count_of(epidemic.contacts.incoming)
    position_count = np.int64(paths.queued.size)
    for row in share(thread, 0, np.int64(births.born.size)):
        births.count[row] = np.int32(0)
    barrier(thread)
    for position in share(thread, 0, position_count):
        row = position // node_count
        begin = epidemic.triggers.begin[odd, row]
        if begin < epidemic.tables.end:
            end = window_end(epidemic.triggers, odd, row, width, epidemic.tables.end)
            own = epidemic_of_row(epidemic, rows, row)
            _list_births(
                own, row, position, position - row * node_count, begin, end, replicate_of(rows, row)
            )
    barrier(thread)
    for position in share(thread, 0, position_count):
        row = position // node_count
        number = position - row * node_count
        count = np.int64(births.count[row])
        if count > node_count:  # more than the list takes: a shorter window
            if number == 0:
                begin = epidemic.triggers.begin[odd, row]
                end = window_end(epidemic.triggers, odd, row, width, epidemic.tables.end)
                cut_window(epidemic.triggers, odd, row, real(begin + (end - begin) * 0.5))
                _queue_next(paths, queue, waiting, round_number, position)
        elif number < count or number < births.given[row]:
            own = epidemic_of_row(epidemic, rows, row)
            time = real(_NEVER)
            rank = number
            if number < count:
                time = births.time[position]
                rank = _rank(births, position - number, number, count)
            child = child_of(
                own.tables.births, own.tables.seeding, births.born[row] + rank, node_count,
                epidemic.seed, replicate_of(rows, row),
            )  # fmt: skip
            if child >= 0:
                at = row * node_count + child
                if until_of(paths, at) != time:
                    paths.state[at, 1] = to_bits(time)
                    _queue_next(paths, queue, waiting, round_number, at)
    barrier(thread)
    changed = waiting[0, round_number % 3] > 0
    for row in share(thread, 0, np.int64(births.born.size)):
        births.given[row] = min(births.count[row], np.int32(node_count))
    return changed


def _queue_next(paths, queue, waiting, round_number, position):
    """Queue a node for the round that follows, once."""
    if exchange(paths.queued, position, 1) == 0:
        slot = add(waiting, (0, round_number % 3), 1)
        queue[round_number & 1, slot] = position


def _list_births(epidemic, row, position, node, begin, end, replicate):
    """List the births by a person in a window, from her path."""
    paths, births, table = epidemic.paths, epidemic.triggers.births, epidemic.tables.births
    kind = compartment_of(paths, position)
    after = real(max(since_of(paths, position), just_before(begin), real(0.0)))
    moves = moves_of(paths, position)
    for k in range(moves + 1):
        until = paths.time[k, position] if k < moves else real(_NEVER)
        while True:
            time = next_birth(
                table, epidemic.tables.stages, kind, node, after, end, epidemic.seed, replicate
            )
            if not (time < end and time <= until):
                break
            slot = np.int64(add(births.count, row, 1))
            if slot < node_count_of(epidemic.contacts.incoming):
                births.time[position - node + slot] = time
                births.mother[position - node + slot] = np.int32(node)
            after = time
        if k < moves:
            after = max(after, until)
            kind = destination(paths, k, position)
            if not after < end:
                break


def _rank(births, first, number, count):
    """Number of listed births that come before one of them."""
    time, mother = births.time[first + number], births.mother[first + number]
    rank = np.int64(0)
    for k in range(count):
        other = births.time[first + k]
        rank += np.int64(other < time or (other == time and births.mother[first + k] < mother))
    return rank
