"""Triggers by windows of time: the window and the moment at which a count reaches its threshold.

A trigger is pulled at the first moment after whose moves its condition holds (`shared.triggers`).
If a window begins with a count d below the threshold, the d-th arrival in the counted compartments
is the earliest possible moment.  So the window is cut short just after that arrival, which an exact
search over the bit patterns of times finds.  Then either the count is at the threshold, and the
measure begins, or it is d' below, and the next window searches for its d'-th arrival.  If the count
must fall, departures take the place of arrivals.  A window is also cut short at the moment from
which on a trigger is awaited.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, from_bits, real, to_bits
from ergode.core.math.elementary import next_down, next_up
from ergode.epidemics.shared.lines import admit, asks_for_test, next_period, spent_from
from ergode.epidemics.shared.options import HAS_LINES, HAS_QUEUES, HAS_TRIGGERS
from ergode.epidemics.shared.transmission import looks_for_cases
from ergode.epidemics.shared.triggers import (
    awaited,
    decide,
    is_met,
    places_for_line,
    short_of_level,
)
from ergode.epidemics.windows.atomics import add, lower_to
from ergode.epidemics.windows.state import destination, is_infection, is_wait, moves_of, stay_of

# Each option has its own `if`, so that its branch is dropped before it is compiled.
# ruff: noqa: SIM102

BIN_BITS = 6
BINS = 1 << BIN_BITS
_NEVER = float("inf")


class TriggerState(NamedTuple):
    """State of the windows and triggers of each replicate, by row."""

    begin: Any  # begin of the window, real [2, row]: even and odd windows
    cut: Any  # time at which it is cut short, bits [2, row]
    starts: Any  # of interventions, see `shared.transmission.is_in_force`; real [row, ...]
    population: Any  # nodes in each compartment and, last, cases: int32 [row, compartments + 1]
    # The search for an arrival, by intervention and then by line:
    low: Any  # lower bound of its time, bits [row, search]
    shift: Any  # width of a bin in bits, int32
    rank: Any  # rank of the arrival after `low`; zero without a search, int32
    watched: Any  # trigger that counts; the lowest bit is set if departures do, int32
    arrivals: Any  # int32 [row, search, BINS]


def cut_window(triggers, odd, row, time):
    """End a window before `time`, if not earlier."""
    word = bits(to_bits(real(time)))
    lower_to(triggers.cut, (np.int64(odd), np.int64(row)), word)


def window_stop(begin, width, end):
    """End of a window that is not cut short; `end` is the end of the simulation.

    The first window holds only the initial moment, if a measure may begin just after it.
    """
    if HAS_TRIGGERS:
        if begin <= 0.0:
            return min(next_up(begin), end)
    return min(max(begin + width, next_up(begin)), end)


def window_end(triggers, odd, row, width, end):
    """End of a window whose paths are settled."""
    begin = triggers.begin[odd, row]
    cut = from_bits(bits(triggers.cut[odd, row]))
    return max(min(window_stop(begin, width, end), cut), next_up(begin))


def pull_triggers(epidemic, row, shift, begin):
    """Start and stop the measures whose triggers say so when a window begins.

    Nodes that waited for places get those that are free; the inboxes of the lines name them.
    """
    plan, triggers = epidemic.tables.interventions, epidemic.triggers
    for k in range(plan.kind.size):
        if HAS_QUEUES:
            if _admit_waiting(epidemic, row, shift, k, begin):
                continue
        decide(plan, triggers.starts[row], k, triggers.population[row], next_down(begin))


def _admit_waiting(epidemic, row, shift, k, begin):
    """Give free places to the first in a line; return whether it has taken all."""
    plan, triggers, state = epidemic.tables.interventions, epidemic.triggers, epidemic.lines
    line = np.int64(plan.lines.of[k])
    if line < 0 or plan.lines.places[line] == 0 or state.size[row, line] == 0:
        return False
    free = places_for_line(
        plan, triggers.starts[row], k, triggers.population[row], next_down(begin)
    )
    some = False
    while free > 0 and state.size[row, line] > 0:
        node = admit(plan, state, row, line, shift)
        epidemic.paths.state[shift + node, 1] = to_bits(real(begin))
        state.inbox[line, shift + np.int64(state.arrived[row, line])] = np.int32(node)
        state.arrived[row, line] += np.int32(1)
        some = True
        free -= 1
    return some and free == 0


def begin_search(epidemic, odd, row, k, begin, stop):
    """Begin the search for the arrival that may pull a trigger; return whether there is one."""
    plan, triggers = epidemic.tables.interventions, epidemic.triggers
    triggers.rank[row, k] = np.int32(0)
    if HAS_LINES:
        if k >= plan.kind.size:
            return _begin_search_of_line(epidemic, odd, row, k, begin, stop)
    trigger, since = awaited(plan, triggers.starts[row], k)
    if trigger < 0:
        return False
    if since >= begin:
        if since < stop:
            cut_window(triggers, odd, row, next_up(since))
        return False
    falls = plan.triggers.below[trigger] != 0
    ends = np.int64(plan.triggers.stop[k])
    if ends >= 0 and ends != trigger:
        # It does not start while the condition of its stop holds.
        if is_met(plan.triggers, trigger, triggers.population[row]):
            trigger = ends
            falls = plan.triggers.below[ends] == 0
    rank = short_of_level(plan.triggers, trigger, triggers.population[row])
    if falls:
        rank = 1 - rank
    triggers.watched[row, k] = np.int32(2 * trigger + np.int64(falls))
    _search_from(triggers, row, k, rank, begin, stop)
    return True


def _begin_search_of_line(epidemic, odd, row, k, begin, stop):
    """Begin the search for the node that takes the last test of a period."""
    plan, triggers, state = epidemic.tables.interventions, epidemic.triggers, epidemic.lines
    line = k - plan.kind.size
    moment = next_period(plan, state, row, line)
    if moment < stop:
        cut_window(triggers, odd, row, moment)
    measure = plan.lines.measure[line]
    if triggers.starts[row, spent_from(plan, measure)] < _NEVER:
        return False
    _search_from(triggers, row, k, np.int64(state.left[row, line]), begin, stop)
    return True


def _search_from(triggers, row, k, rank, begin, stop):
    """Search a window for an arrival of a rank."""
    low = bits(to_bits(real(begin)))
    span = bits(bits(to_bits(real(stop))) - low)
    shift = np.int32(0)
    while (span >> bits(shift)) >= bits(BINS):
        shift += np.int32(1)
    # If the count is already at the threshold, the trigger is pulled at the first moment.
    triggers.rank[row, k] = np.int32(min(max(rank, np.int64(1)), np.int64(0x7FFFFFFF)))
    triggers.low[row, k] = low
    triggers.shift[row, k] = shift


def count_arrivals(epidemic, row, position, node, compartment, stop, replicate):
    """Add the arrivals in a path to those of the bins that are searched."""
    triggers, paths = epidemic.triggers, epidemic.paths
    moves = moves_of(paths, position)
    for k in range(triggers.rank.shape[1]):
        if triggers.rank[row, k] > 0:
            low = triggers.low[row, k]
            shift = bits(triggers.shift[row, k])
            here = compartment
            stay = np.int32(stay_of(paths, position))
            for j in range(moves):
                if HAS_QUEUES:
                    if is_wait(paths, j, position, here):
                        continue
                stay += np.int32(1)
                to = destination(paths, j, position)
                time = paths.time[j, position]
                word = bits(to_bits(real(time)))
                if time < stop and word >= low:
                    at = bits(word - low) >> shift
                    if at < bits(BINS):
                        gain = _arrivals_by(
                            epidemic, row, k, position, node, j, here, stay, replicate
                        )
                        if gain > 0:
                            add(triggers.arrivals, (np.int64(row), np.int64(k), np.int64(at)), gain)
                here = to


def _arrivals_by(epidemic, row, k, position, node, j, here, stay, replicate):
    """Arrivals that a search counts for the j-th move of a path, from `here` to a stay."""
    plan, triggers, paths = epidemic.tables.interventions, epidemic.triggers, epidemic.paths
    to = destination(paths, j, position)
    if HAS_LINES:
        if k >= plan.kind.size:
            line = np.int64(k) - plan.kind.size
            measure = np.int64(plan.lines.measure[line])
            time = paths.time[j, position]
            asks = looks_for_cases(plan, triggers.starts[row], measure, time) and asks_for_test(
                plan, line, to, node, stay, epidemic.seed, replicate
            )
            return np.int32(asks)
    trigger = triggers.watched[row, k] >> 1
    counts = plan.triggers.counts
    gain = np.int32(counts[trigger, to]) - np.int32(counts[trigger, here])
    if is_infection(paths, j, position):
        gain += np.int32(counts[trigger, triggers.population.shape[1] - 1])
    return -gain if (triggers.watched[row, k] & 1) != 0 else gain


def narrow_search(triggers, odd, row, k):
    """Narrow the search to the bin of the arrival; return whether the search continues.

    Once the arrival is found, its window is cut short just after it.
    """
    rank = np.int64(triggers.rank[row, k])
    if rank == 0:
        return False
    found = np.int64(-1)
    for at in range(BINS):
        count = np.int64(triggers.arrivals[row, k, at])
        triggers.arrivals[row, k, at] = np.int32(0)
        if found < 0:
            if count >= rank:
                found = np.int64(at)
            else:
                rank -= count
    if found < 0:  # not in this window
        triggers.rank[row, k] = np.int32(0)
        return False
    shift = triggers.shift[row, k]
    low = bits(triggers.low[row, k] + bits(bits(found) << bits(shift)))
    if shift == 0:
        triggers.rank[row, k] = np.int32(0)
        cut_window(triggers, odd, row, next_up(from_bits(low)))
        return False
    triggers.low[row, k] = low
    triggers.rank[row, k] = np.int32(rank)
    triggers.shift[row, k] = np.int32(max(shift - BIN_BITS, 0))
    return True
