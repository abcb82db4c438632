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
from ergode.epidemics.shared.options import HAS_TRIGGERS
from ergode.epidemics.shared.triggers import awaited, decide, is_met, short_of_level
from ergode.epidemics.windows.atomics import add, lower_to
from ergode.epidemics.windows.state import destination, is_infection, moves_of

# Each option has its own `if`, so that its branch is dropped before it is compiled.
# ruff: noqa: SIM102

BIN_BITS = 6
BINS = 1 << BIN_BITS


class TriggerState(NamedTuple):
    """State of the windows and triggers of each replicate, by row."""

    begin: Any  # begin of the window, real [2, row]: even and odd windows
    cut: Any  # time at which it is cut short, bits [2, row]
    starts: Any  # of interventions, and then their stops, real [row, 2 x intervention]
    population: Any  # nodes in each compartment and, last, cases: int32 [row, compartments + 1]
    # The search for an arrival, by intervention:
    low: Any  # lower bound of its time, bits [row, intervention]
    shift: Any  # width of a bin in bits, int32
    rank: Any  # rank of the arrival after `low`; zero without a search, int32
    watched: Any  # trigger that counts; the lowest bit is set if departures do, int32
    arrivals: Any  # int32 [row, intervention, BINS]


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


def pull_triggers(plan, triggers, row, begin):
    """Start and stop the measures whose triggers say so when a window begins."""
    for k in range(plan.kind.size):
        decide(plan, triggers.starts[row], k, triggers.population[row], next_down(begin))


def begin_search(plan, triggers, odd, row, k, begin, stop):
    """Begin the search for the arrival that may pull a trigger; return whether there is one."""
    triggers.rank[row, k] = np.int32(0)
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
    low = bits(to_bits(real(begin)))
    span = bits(bits(to_bits(real(stop))) - low)
    shift = np.int32(0)
    while (span >> bits(shift)) >= bits(BINS):
        shift += np.int32(1)
    # If the count is already at the threshold, the trigger is pulled at the first moment.
    triggers.rank[row, k] = np.int32(min(max(rank, np.int64(1)), np.int64(0x7FFFFFFF)))
    triggers.low[row, k] = low
    triggers.shift[row, k] = shift
    return True


def count_arrivals(plan, triggers, paths, row, position, compartment, stop):
    """Add the arrivals in a path to those of the bins that are searched."""
    moves = moves_of(paths, position)
    for k in range(plan.kind.size):
        if triggers.rank[row, k] > 0:
            trigger = triggers.watched[row, k] >> 1
            falls = (triggers.watched[row, k] & 1) != 0
            counts = plan.triggers.counts
            cases = counts[trigger, triggers.population.shape[1] - 1]
            low = triggers.low[row, k]
            shift = bits(triggers.shift[row, k])
            here = compartment
            for j in range(moves):
                to = destination(paths, j, position)
                gain = np.int32(counts[trigger, to]) - np.int32(counts[trigger, here])
                if is_infection(paths, j, position):
                    gain += np.int32(cases)
                if falls:
                    gain = -gain
                here = to
                time = paths.time[j, position]
                word = bits(to_bits(real(time)))
                if gain > 0 and time < stop and word >= low:
                    at = bits(word - low) >> shift
                    if at < bits(BINS):
                        add(triggers.arrivals, (np.int64(row), np.int64(k), np.int64(at)), gain)


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
