"""Effective contacts between two nodes: for each arc a Poisson process on its own clock.

The clock of an arc runs at the largest rate at which the arc could ever transmit: the largest
transmission rate, times the arc's weight, times the largest factor of its layer.  The clock of a
temporal contact runs only during contact.  On that clock, effective contacts are the points of a
Poisson process of rate one.  Each contact carries a mark, uniform on (0, 1].  It transmits if the
source is infectious, the target is susceptible, and the mark is below the ratio of the current rate
to the largest.

A lower rate - by another stage, a calendar, a vaccine, a closed school - therefore removes
transmissions but does not shift any.  Two scenarios with one seed differ only by the removed
transmissions and their consequences.

A cell is a unit of the clock.  Its points are a function of (seed, replicate, source, target,
layer, cell), or of (seed, replicate, arc, cell) where two nodes may have several arcs in a layer.
They can be computed in any order, from any moment on.

References
----------
T. E. Harris, "Additive set-valued Markov processes and graphical methods", Ann. Probab. 6 (1978):
the graphical representation.  Thinning: Lewis and Shedler, Nav. Res. Logist. Q. 26 (1979).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByPrecision, fma, real
from ergode.core.math.elementary import next_down
from ergode.core.math.random import CONTACT, CONTACT_MARK, draw_words, exponential, uniform
from ergode.core.math.search import first_above
from ergode.epidemics.shared.options import MULTIGRAPH, TEMPORAL

CELL_BITS = 26
CELLS_MOST = 1 << CELL_BITS  # on the clock of an arc, so that a point's key has 32 bits
ENTITIES_MOST = 1 << 56  # pairs of nodes in each layer, so that their keys are unique

_NEVER = float("inf")
NO_KEY = np.uint32(0xFFFFFFFF)
_RANKS = 2.0**22
# A cell is looked for from a little earlier, because products of floats round.
_EARLIER = 1.0 - 2.0**-18


class Meetings(NamedTuple):
    """Meetings of the two nodes of each arc, in the order of time."""

    first: Any  # the arc's meetings are first[arc] : first[arc + 1], int64 [arc_count + 1]
    begin: Any  # real [meeting_count]
    end: Any  # equal to `begin` for an instantaneous one
    amount: Any  # contact time of a meeting, or the equivalent of an instantaneous one
    before: Any  # sum of the amounts of the arc's earlier meetings


def exposure(meetings, arc, time):
    """Contact time along an arc up to `time`."""
    if not TEMPORAL:
        return time
    start = meetings.first[arc]
    k = first_above(meetings.begin, start, meetings.first[arc + 1], time) - 1
    if k < start:
        return real(0.0)
    if time >= meetings.end[k]:
        return meetings.before[k] + meetings.amount[k]
    share = (time - meetings.begin[k]) / (meetings.end[k] - meetings.begin[k])
    return fma(share, meetings.amount[k], meetings.before[k])


def moment(meetings, arc, amount):
    """First time at which the contact time along an arc exceeds `amount`; infinite if never."""
    if not TEMPORAL:
        return amount
    low = meetings.first[arc]
    stop = meetings.first[arc + 1]
    high = stop
    while low < high:
        middle = (low + high) >> 1
        if meetings.before[middle] + meetings.amount[middle] <= amount:
            low = middle + 1
        else:
            high = middle
    if low == stop:
        return real(_NEVER)
    share = (amount - meetings.before[low]) / meetings.amount[low]
    return fma(share, meetings.end[low] - meetings.begin[low], meetings.begin[low])


def _gap_32(seed, replicate, entity, cell, number):
    """The `number`-th exponential gap of a cell: four share a block of random words."""
    index = np.uint32(cell) | np.uint32(np.uint32(number >> 2) << np.uint32(CELL_BITS))
    w0, w1, w2, w3 = draw_words(seed, replicate, entity, CONTACT, index)
    low = w1 if number & 1 else w0
    high = w3 if number & 1 else w2
    word = high if number & 2 else low
    return exponential(word, word)


def _gap_64(seed, replicate, entity, cell, number):
    """`_gap_32` for float64: two gaps share a block."""
    index = np.uint32(cell) | np.uint32(np.uint32(number >> 1) << np.uint32(CELL_BITS))
    w0, w1, w2, w3 = draw_words(seed, replicate, entity, CONTACT, index)
    return exponential(w2, w3) if number & 1 else exponential(w0, w1)


gap = ByPrecision(float32=_gap_32, float64=_gap_64)


# No meeting ends or begins between this and zero: normal numbers are no smaller.
_BEFORE_ZERO = ByPrecision(float32=-(2.0**-126), float64=-(2.0**-1022))


def just_before(time):
    """The largest number below a positive `time`; the largest below zero at time zero."""
    return next_down(time) if time > 0.0 else real(_BEFORE_ZERO)


def contact_entity(arc, source, target, layer, node_count, layer_count):
    """Key of the contacts along an arc: from one node to another in a layer.

    `arc` is its number among the arcs out of all nodes; it is the key if nodes may have several.
    """
    if MULTIGRAPH:
        return np.int64(arc)
    pair = np.int64(source) * np.int64(node_count) + np.int64(target)
    return pair * np.int64(layer_count) + np.int64(layer)


def next_contact(entity, arc, rate, meetings, after, last, before, seed, replicate):
    """The first effective contact along an arc later than `after` and no later than `before`.

    If `last` is not `NO_KEY`, contacts at `after` itself that follow the key `last` also count: an
    instantaneous meeting may hold several.  `rate` is the rate of the arc's clock.  Returns the
    time of the contact (infinity if there is none), its key in the arc, and its rank among
    simultaneous contacts (`rank_of`).
    """
    if rate > 0.0:
        cell = max(np.int64(rate * exposure(meetings, arc, after) * _EARLIER), np.int64(0))
        last_cell = np.int64(last & np.uint32(CELLS_MOST - 1))
        last_number = np.int64(last >> np.uint32(CELL_BITS))
        cell = min(cell, last_cell)
        while moment(meetings, arc, real(cell) / rate) <= before:
            place = real(0.0)
            number = 0
            while number < 64:
                place += gap(seed, replicate, entity, cell, number)
                if place >= 1.0:
                    break
                amount = (real(cell) + place) / rate
                time = moment(meetings, arc, amount)
                if time > before:
                    return real(_NEVER), NO_KEY, np.int64(0)
                follows = cell > last_cell or (cell == last_cell and number > last_number)
                if time > after or (time == after and follows):
                    key = np.uint32(cell) | np.uint32(np.uint32(number) << np.uint32(CELL_BITS))
                    return time, key, rank_of(meetings, arc, time, amount)
                number += 1
            cell += 1
    return real(_NEVER), NO_KEY, np.int64(0)


def rank_of(meetings, arc, time, amount):
    """Order of an effective contact among simultaneous ones.

    Simultaneous meetings proceed at an equal pace, so the rank is the elapsed fraction of the
    contact time of the contact's own meeting.
    """
    if not TEMPORAL:
        return np.int64(0)
    start = meetings.first[arc]
    k = first_above(meetings.begin, start, meetings.first[arc + 1], time) - 1
    if k < start:
        return np.int64(0)
    if meetings.end[k] > meetings.begin[k]:
        return np.int64(0)
    share = (amount - meetings.before[k]) / meetings.amount[k]
    return np.int64(min(max(share, real(0.0)), real(1.0)) * real(_RANKS))


def contact_mark(entity, key, seed, replicate):
    """The mark of an effective contact, uniform on (0, 1]."""
    w0, w1, w2, w3 = draw_words(seed, replicate, entity, CONTACT_MARK, key)
    return uniform(w0, w1)
