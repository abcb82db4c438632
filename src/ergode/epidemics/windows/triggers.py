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
from ergode.epidemics.shared.arcs import node_count_of
from ergode.epidemics.shared.atomics import add, lower_to, raise_to
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.lines import admit, asks_for_test, next_period, spent_from
from ergode.epidemics.shared.options import (
    COUNTING,
    HAS_COUNTERS,
    HAS_LINES,
    HAS_QUEUES,
    HAS_TRIGGERS,
)
from ergode.epidemics.shared.tallying import decide_and_tally, tally_isolations_of
from ergode.epidemics.shared.transmission import ISOLATION_KIND, looks_for_cases
from ergode.epidemics.shared.triggers import (
    awaited,
    gain_of,
    is_met,
    places_for_line,
    short_of_level,
)
from ergode.epidemics.windows.state import (
    compartment_of,
    destination,
    is_infection,
    is_wait,
    moves_of,
    since_of,
    stay_of,
)

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
    births: Any  # see `windows.births`


def cut_window(triggers, odd, row, time):
    """End a window before `time`, if not earlier."""
    word = bits(to_bits(real(time)))
    lower_to(triggers.cut, (np.int64(odd), np.int64(row)), word)


def window_stop(begin, width, end):
    """End of a window that is not cut short; `end` is the end of the simulation.

    The first window holds only the initial moment, if a measure may begin just after it, or
    quarantines that began before are counted.
    """
    if (HAS_TRIGGERS or COUNTING) and begin <= 0.0:
        return min(next_up(begin), end)
    return min(max(begin + width, next_up(begin)), end)


def window_end(triggers, odd, row, width, end):
    """End of a window whose paths are settled."""
    begin = triggers.begin[odd, row]
    cut = from_bits(bits(triggers.cut[odd, row]))
    return max(min(window_stop(begin, width, end), cut), next_up(begin))


def pull_triggers(epidemic, counted, row, shift, begin, replicate):
    """Start and stop the measures whose triggers say so when a window begins.

    Nodes that waited for places get those that are free; the inboxes of the lines name them.
    """
    plan, triggers = epidemic.tables.interventions, epidemic.triggers
    for k in range(plan.kind.size):
        if HAS_QUEUES and _admit_waiting(epidemic, row, shift, k, begin):
            continue
        starts = triggers.starts[row]
        start, stop = starts[k], starts[k + plan.kind.size]
        decide_and_tally(
            counted, epidemic.tables, starts, k, triggers.population[row], next_down(begin)
        )
        if COUNTING and starts[k] != start and plan.kind[k] == ISOLATION_KIND:
            _tally_isolations_under(epidemic, counted, starts, shift, k, start, stop, replicate)


def _tally_isolations_under(epidemic, counted, starts, shift, k, start, stop, replicate):
    """Count the isolations of all nodes before a measure started again."""
    tables, paths = epidemic.tables, epidemic.paths
    stops = k + tables.interventions.kind.size
    new_start, new_stop = starts[k], starts[stops]
    starts[k], starts[stops] = start, stop
    for node in range(node_count_of(epidemic.contacts.incoming)):
        at = shift + node
        tally_isolations_of(
            counted, tables, starts, np.int64(k), node, stay_of(paths, at),
            compartment_of(paths, at), since_of(paths, at), real(_NEVER), epidemic.seed, replicate,
        )  # fmt: skip
    starts[k], starts[stops] = new_start, new_stop


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
    if HAS_LINES and k >= plan.kind.size:
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
    # It does not start while the condition of its stop holds.
    if ends >= 0 and ends != trigger and is_met(plan.triggers, trigger, triggers.population[row]):
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
            if HAS_COUNTERS and k < epidemic.tables.interventions.kind.size:
                _count_forgotten(epidemic, row, k, position, node, compartment, stop)
            low = triggers.low[row, k]
            shift = bits(triggers.shift[row, k])
            here = compartment
            stay = np.int32(stay_of(paths, position))
            for j in range(moves):
                if HAS_QUEUES and is_wait(paths, j, position, here):
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


def counter_of(plan, trigger):
    """The counter of a trigger, or -1."""
    counters = plan.triggers.counters
    first = plan.triggers.counts.shape[1] - counters.window.size
    for counter in range(counters.window.size):
        if plan.triggers.counts[trigger, first + counter] != 0:
            return np.int64(counter)
    return np.int64(-1)


def may_arrive(epidemic, position):
    """Whether a search counts anything of a node."""
    found = moves_of(epidemic.paths, position) > 0
    if HAS_COUNTERS:
        found = found or epidemic.recent.count[position] > 0
    return found


def count_move(epidemic, place, old, move):
    """Add a move to the counters of triggers; entries are kept until the end of a window."""
    tables, recent, position = epidemic.tables, epidemic.recent, place.position
    counters = tables.interventions.triggers.counters
    for counter in range(counters.window.size):
        gain = gain_of(
            counters, counter, place.node, old, np.int64(move.compartment), move.infected
        )  # fmt: skip
        window = counters.window[counter]
        over = real(at_moment(tables.moments, real(move.time - move.age) + window))
        if window > 0.0 and gain > 0:
            if over <= move.time:
                gain = np.int32(0)
            else:
                at = np.int64(recent.count[position])
                if at < recent.over.shape[0]:
                    recent.over[at, position] = over
                    recent.mark[at, position] = np.int32(counter) | np.int32(gain << np.int32(8))
                    recent.count[position] = np.int32(at + 1)
                else:
                    raise_to(epidemic.tracing.room, 0, np.int32(at + 1))
        if gain != 0:
            column = np.int64(tables.stages.order.size + 1 + counter)
            add(epidemic.triggers.population, (np.int64(place.slot), column), np.int32(gain))


def forget_entries(epidemic, place, end):
    """Entries whose window is over before `end` are no longer counted."""
    recent, position = epidemic.recent, place.position
    count = np.int64(recent.count[position])
    kept = np.int64(0)
    for at in range(count):
        over, mark = recent.over[at, position], recent.mark[at, position]
        if over < end:
            column = np.int64(epidemic.tables.stages.order.size + 1) + np.int64(mark & 0xFF)
            gain = np.int32(-(mark >> 8))
            add(epidemic.triggers.population, (np.int64(place.slot), column), gain)
        else:
            recent.over[kept, position] = over
            recent.mark[kept, position] = mark
            kept += 1
    if kept != count:
        recent.count[position] = np.int32(kept)


def _count_forgotten(epidemic, row, k, position, node, compartment, stop):
    """Add the entries that are no longer counted to the bins of a search for departures."""
    plan, triggers, recent = epidemic.tables.interventions, epidemic.triggers, epidemic.recent
    counter = counter_of(plan, triggers.watched[row, k] >> 1)
    counters = plan.triggers.counters
    if counter < 0 or counters.window[counter] == 0.0 or (triggers.watched[row, k] & 1) == 0:
        return
    for at in range(np.int64(recent.count[position])):
        mark = recent.mark[at, position]
        if (mark & 0xFF) == counter:
            _count_at(triggers, row, k, recent.over[at, position], stop, np.int32(mark >> 8))
    here = compartment
    for j in range(moves_of(epidemic.paths, position)):
        to = destination(epidemic.paths, j, position)
        infected = is_infection(epidemic.paths, j, position)
        gain = gain_of(counters, counter, node, here, to, infected)
        time = epidemic.paths.time[j, position] + counters.window[counter]
        over = real(at_moment(epidemic.tables.moments, time))
        if gain > 0:
            _count_at(triggers, row, k, over, stop, gain)
        here = to


def _count_at(triggers, row, k, time, stop, gain):
    """Add to the bin of a time, if it is searched."""
    word = bits(to_bits(real(time)))
    low = triggers.low[row, k]
    if time < stop and word >= low:
        at = bits(word - low) >> bits(triggers.shift[row, k])
        if at < bits(BINS):
            add(triggers.arrivals, (np.int64(row), np.int64(k), np.int64(at)), gain)


def _arrivals_by(epidemic, row, k, position, node, j, here, stay, replicate):
    """Arrivals that a search counts for the j-th move of a path, from `here` to a stay."""
    plan, triggers, paths = epidemic.tables.interventions, epidemic.triggers, epidemic.paths
    to = destination(paths, j, position)
    if HAS_LINES and k >= plan.kind.size:
        line = np.int64(k) - plan.kind.size
        measure = np.int64(plan.lines.measure[line])
        time = paths.time[j, position]
        asks = looks_for_cases(plan, triggers.starts[row], measure, time) and asks_for_test(
            plan, line, to, node, stay, epidemic.seed, replicate
        )
        return np.int32(asks)
    trigger = triggers.watched[row, k] >> 1
    if HAS_COUNTERS:
        counter = counter_of(plan, trigger)
        if counter >= 0:
            counters = plan.triggers.counters
            falls = (triggers.watched[row, k] & 1) != 0
            gain = gain_of(counters, counter, node, here, to, is_infection(paths, j, position))
            if counters.window[counter] > 0.0:
                return np.int32(0) if falls else gain
            return -gain if falls else gain
    counts = plan.triggers.counts
    gain = np.int32(counts[trigger, to]) - np.int32(counts[trigger, here])
    if is_infection(paths, j, position):
        gain += np.int32(counts[trigger, epidemic.tables.stages.order.size])
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
