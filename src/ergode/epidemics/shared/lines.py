"""Lines of nodes that wait for a test or for a place.

A measure with a number of tests in each period has a line.  Its state in a replicate is the tests
that are left, the time from which on none is left (`starts`, see `shared.transmission`), and the
nodes that wait.  A binary heap orders these by class of priority, by the time at which they asked,
and by number.  So the order in which they are added does not matter.

A capacity for which nodes wait has a line, too.  Nodes join it at the end of their stay, and remain
in their compartment until they get a place, or leave the line (`leaves_at`).  Whenever the triggers
of the capacity are looked at, the first in the line get the free places (`admit`), and enter at the
next moment.

The two exact methods share this module.  A node of a replicate has a position in each array, and
`shift` is the offset from nodes to positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError
from ergode.core.math.random import EXIT, TESTING, TRACING, draw_words, exponential, uniform
from ergode.epidemics.shared.clock import ROUNDING, at_moment
from ergode.epidemics.shared.compliance import takes_part
from ergode.epidemics.shared.counts import TESTS, TURNED_AWAY, WAITING, tally
from ergode.epidemics.shared.doses import urgency_of
from ergode.epidemics.shared.lives import died_at
from ergode.epidemics.shared.names import compartment_index
from ergode.epidemics.shared.options import COUNTING, HAS_LEAVERS, HAS_LIVES
from ergode.epidemics.shared.progression import HAS_EXITS, exit_of_stay, row_of, time_to_exit
from ergode.models.epidemic.attributes import Network
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import Capacity, Intervention, Trigger
from ergode.models.epidemic.testing import Testing
from ergode.models.holding_times.families import Exponential

_NEVER = float("inf")
# In `since`: the node does not wait; it waited, and has got a place.
_NOBODY, _ADMITTED = -1.0, -2.0
_NUMBER_BITS = np.int64(40)  # of a node in a key; above them is the number of the period
_PERIODS_MOST = 10**6
_PATIENCE = 1 << 24  # in the index of a draw


class Lines(NamedTuple):
    """Measures with a line, one row each."""

    measure: Any  # its row in the table of interventions, int32 [line_count]
    of: Any  # the line of a measure, int32 [intervention_count]; -1 for none
    places: Any  # whether it is a line for places, uint8 [line_count]
    asks: Any  # whether nodes that enter a compartment ask, uint8 [line_count, compartments]
    waits: Any  # whether they wait, uint8 [line_count]
    urgency: Any  # class of priority of each node, 0 first: int32 [line_count, node_count or 1]
    first: Any  # a line's periods are first[i] : first[i + 1], int64 [line_count + 1]
    moment: Any  # when a period begins, real [period_count]; the last of a line never does
    tests: Any  # of a period, int32 [period_count]
    # Of lines for places: the longest wait, and the rate at which it ends, real [line_count].
    longest: Any
    rate: Any


class LineState(NamedTuple):
    """State of the lines of some replicates; a row each."""

    since: Any  # when a node asked, real [line, position]; negative if it does not wait
    heap: Any  # nodes that wait, int32 [line, position]
    size: Any  # their number, int32 [row, line]
    # Nodes that began to wait since they were last taken into the heap, in any order.
    inbox: Any  # int32 [line, position]
    arrived: Any  # their number, int32 [row, line]
    # Tests left in the period, below zero if too many were made; of a line for places, nodes in the
    # heap that have left the line: int32 [row, line].
    left: Any
    period: Any  # number of the next period, int32 [row, line]


def is_limited(one: Intervention) -> bool:
    """Whether a measure has a number of tests in each period."""
    return isinstance(one, Testing) and one.capacity is not None


def has_queue(one: Intervention) -> bool:
    """Whether nodes wait for places."""
    return isinstance(one, Capacity) and one.wait


def period_starts(one: Testing, begin: float, end: float) -> np.ndarray:
    """When the periods of a measure begin, from the one that holds `begin` on, before `end`.

    Raises a ModelError if there are too many.
    """
    from_begin = one.start is None or isinstance(one.start, Trigger)
    start = begin if from_begin else float(one.start)  # type: ignore[arg-type]
    near = ROUNDING * (abs(begin) + abs(start) + one.period)
    first = max(0.0, np.floor((begin - start + near) / one.period))
    count = (end - start) / one.period - first + 1
    if count > _PERIODS_MOST:
        raise ModelError(
            f"Testing: a period of {one.period:g} is over {count:.3g} times before the end of the "
            f"run; expected at most {_PERIODS_MOST:,}"
        )
    found = start + one.period * (first + np.arange(max(0, int(np.ceil(count)))))
    return np.asarray(found[found <= end])


def lines_of(
    interventions: Sequence[Intervention],
    model: CompartmentModel,
    contacts: Network,
    begin: float,
    horizon: float,
    precision: Precision,
) -> Lines:
    """The lines of a plan, on a clock that is zero at `begin` and ends at `horizon`.

    Raises a ModelError if a name is unknown to the model or the network, or there are too many
    periods.
    """
    rows = [row for row, one in enumerate(interventions) if is_limited(one) or has_queue(one)]
    given = [interventions[row] for row in rows]
    count = max(1, len(rows))
    of = np.full(max(1, len(interventions)), -1, np.int32)
    of[rows] = np.arange(len(rows))
    asks = np.zeros((count, len(model.compartments)), np.uint8)
    priorities = [getattr(one, "priority", None) for one in given]
    ranked = any(priority is not None for priority in priorities)
    urgency = np.zeros((count, contacts.node_count if ranked else 1), np.int32)
    for line, priority in enumerate(priorities):
        if priority is not None:
            urgent = urgency_of(priority, contacts, given[line].place(rows[line]))
            urgency[line] = np.unique(-urgent, return_inverse=True)[1]
    first = [0]
    moments: list[np.ndarray] = []
    tests: list[np.ndarray] = []
    for line in range(count):
        if line < len(rows) and isinstance(one := given[line], Testing):
            where = one.place(rows[line])
            for name in one.sensitivity:
                asks[line, compartment_index(model, name, where)] = 1
            starts = period_starts(one, begin, begin + horizon)
            level: Any = one.capacity
            each = np.full(starts.size, 0 if isinstance(level, Calendar) else level)
            if isinstance(level, Calendar):
                each = level.at(starts + ROUNDING * (1.0 + np.abs(starts)))
            # All who ask at the first moment of the run are in the line before its first period.
            moments.append(np.maximum(starts - begin, np.nextafter(np.zeros(1, precision), 1)))
            tests.append(each.astype(np.int64))
        moments.append(np.full(1, np.inf))
        tests.append(np.zeros(1, np.int64))
        first.append(sum(map(len, moments)))
    return Lines(
        np.array(rows or [0], np.int32), of,
        np.array([has_queue(one) for one in given] or [False], np.uint8), asks,
        np.array([getattr(one, "wait", False) for one in given] or [False], np.uint8), urgency,
        np.array(first, np.int64), np.concatenate(moments).astype(precision),
        np.concatenate(tests).astype(np.int32), *_patience(given, precision),
    )  # fmt: skip


def _patience(given: Sequence[Any], precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    """The longest wait in each line, and the rate at which waits end."""
    each = [getattr(one, "patience", None) for one in given] or [None]
    longest = [one if isinstance(one, float) else np.inf for one in each]
    rate = [one.rate if isinstance(one, Exponential) else 0.0 for one in each]
    return np.array(longest, precision), np.array(rate, precision)


def leaving_bindings(
    interventions: Sequence[Intervention], model: CompartmentModel
) -> dict[Any, bool]:
    """Options of kernels in which nodes end their wait for a place without one."""
    waits = [one for one in interventions if isinstance(one, Capacity) and one.wait]
    leave = model.has_exits or any(one.patience is not None for one in waits)
    return {HAS_LEAVERS: True} if waits and leave else {}


# ---- device functions


def new_lines(line_count, position_count):
    """State for one replicate, on a CPU."""
    return LineState(
        np.empty((line_count, position_count), real),
        np.empty((line_count, position_count), np.int32), np.empty((1, line_count), np.int32),
        np.empty((line_count, position_count), np.int32), np.empty((1, line_count), np.int32),
        np.empty((1, line_count), np.int32), np.empty((1, line_count), np.int32),
    )  # fmt: skip


def asks_for_test(plan, line, compartment, node, stay, seed, replicate):
    """Whether a node that enters a compartment for a stay asks for a test."""
    lines = plan.lines
    if lines.asks[line, compartment] == 0:
        return False
    k = lines.measure[line]
    if not takes_part(plan, k, node, seed, replicate):
        return False
    index = np.uint32(k) | np.uint32(np.uint32(stay) << 8)
    w0, w1, w2, w3 = draw_words(seed, replicate, node, TRACING, index)
    return uniform(w2, w3) <= plan.fraction[k]


def spent_from(plan, k):
    """Where `starts` has the time from which on no test of a measure is left in the period."""
    return np.int64(k) + 2 * plan.kind.size


def next_period(plan, state, row, line):
    """When the next period of a line begins."""
    return plan.lines.moment[plan.lines.first[line] + np.int64(state.period[row, line])]


def nobody_waits(state, position):
    """A node at time zero."""
    for line in range(state.since.shape[0]):
        state.since[line, position] = _NOBODY


def begin_line_counts(plan, state, row, starts):
    """The counts of the lines of a replicate at time zero."""
    for line in range(plan.lines.measure.size):
        state.size[row, line] = np.int32(0)
        state.arrived[row, line] = np.int32(0)
        state.left[row, line] = np.int32(0)
        state.period[row, line] = np.int32(0)
        starts[spent_from(plan, plan.lines.measure[line])] = real(0.0)


def begin_period(plan, state, row, line, starts):
    """A line has the tests of its next period; who waits is tested by `next_tested`."""
    at = plan.lines.first[line] + np.int64(state.period[row, line])
    state.left[row, line] = np.int32(plan.lines.tests[at] + min(state.left[row, line], np.int32(0)))
    state.period[row, line] += np.int32(1)
    spent = real(_NEVER) if state.left[row, line] > 0 else real(plan.lines.moment[at])
    starts[spent_from(plan, plan.lines.measure[line])] = spent


def empty_line(counted, tables, state, row, line, shift, starts, time):
    """All who wait leave the line."""
    for at in range(np.int64(state.size[row, line])):
        node = np.int64(state.heap[line, shift + at])
        state.since[line, shift + node] = _NOBODY
        if COUNTING and not died_at(tables.interventions, starts, node) < time:
            k = tables.interventions.lines.measure[line]
            tally(counted, tables, k, WAITING, node, time, -1)
            tally(counted, tables, k, TURNED_AWAY, node, time, 1)
    state.size[row, line] = np.int32(0)


def next_tested(counted, tables, state, row, line, shift, starts, time):
    """At the beginning of a period: the node of a line that is tested next, or -1."""
    plan = tables.interventions
    while state.left[row, line] > 0 and state.size[row, line] > 0:
        node = _leave(plan, state, row, line, shift)
        if HAS_LIVES and died_at(plan, starts, node) < time:
            continue
        use_test(plan, state, row, line, starts)
        if COUNTING:
            k = plan.lines.measure[line]
            tally(counted, tables, k, WAITING, node, time, -1)
            tally(counted, tables, k, TESTS, node, time, 1)
        return node
    if plan.lines.waits[line] == 0:  # who asked at the first moment of the run
        empty_line(counted, tables, state, row, line, shift, starts, time)
    return np.int64(-1)


def use_test(plan, state, row, line, starts):
    """A test less is left; where none is, that holds from the beginning of the period on."""
    state.left[row, line] -= np.int32(1)
    if state.left[row, line] <= 0:
        at = plan.lines.first[line] + np.int64(state.period[row, line]) - 1
        starts[spent_from(plan, plan.lines.measure[line])] = real(plan.lines.moment[at])


def is_positive(plan, line, period, compartment, node, seed, replicate):
    """Whether the test of a node that waited is positive; `period` is the number of the next."""
    k = plan.lines.measure[line]
    entity = np.int64(node) | (np.int64(period) << _NUMBER_BITS)
    w0, w1, w2, w3 = draw_words(seed, replicate, entity, TESTING, np.uint32(k))
    return uniform(w0, w1) <= plan.positive[k, compartment]


def _comes_before(plan, state, line, shift, one, other):
    """Whether one node of a line comes before another."""
    urgency = plan.lines.urgency
    if urgency.shape[1] > 1 and urgency[line, one] != urgency[line, other]:
        return urgency[line, one] < urgency[line, other]
    a, b = state.since[line, shift + one], state.since[line, shift + other]
    return a < b or (a == b and one < other)


def join(plan, state, row, line, shift, node):
    """Add a node, whose `since` is set, to the heap."""
    heap = state.heap[line]
    at = np.int64(state.size[row, line])
    state.size[row, line] = np.int32(at + 1)
    while at > 0:
        above = (at - 1) >> 1
        other = np.int64(heap[shift + above])
        if _comes_before(plan, state, line, shift, other, node):
            break
        heap[shift + at] = np.int32(other)
        at = above
    heap[shift + at] = np.int32(node)


def _leave(plan, state, row, line, shift):
    """Take the first node out of the heap."""
    heap = state.heap[line]
    first = np.int64(heap[shift])
    count = np.int64(state.size[row, line]) - 1
    state.size[row, line] = np.int32(count)
    node = np.int64(heap[shift + count])
    at = np.int64(0)
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        other = np.int64(heap[shift + below])
        if below + 1 < count:
            second = np.int64(heap[shift + below + 1])
            if _comes_before(plan, state, line, shift, second, other):
                below += 1
                other = second
        if _comes_before(plan, state, line, shift, node, other):
            break
        heap[shift + at] = np.int32(other)
        at = below
    heap[shift + at] = np.int32(node)
    state.since[line, shift + first] = _NOBODY
    return first


def take_in(plan, state, row, line, shift):
    """Take the nodes of the inbox into the heap."""
    for at in range(np.int64(state.arrived[row, line])):
        node = np.int64(state.inbox[line, shift + at])
        if state.since[line, shift + node] >= 0.0:  # it has not left already
            join(plan, state, row, line, shift, node)
    state.arrived[row, line] = np.int32(0)


def admit(plan, state, row, line, shift):
    """The first node in a line for places gets one, and is returned."""
    node = _leave(plan, state, row, line, shift)
    state.since[line, shift + node] = _ADMITTED
    return node


def line_of(plan, state, position):
    """The line for places in which a node waits, or -1."""
    for line in range(plan.lines.measure.size):
        if plan.lines.places[line] != 0 and state.since[line, position] >= 0.0:
            return np.int64(line)
    return np.int64(-1)


def admitted_to(plan, state, position):
    """The line in which a node has got a place, which it has not yet entered; or -1."""
    for line in range(plan.lines.measure.size):
        if state.since[line, position] == _ADMITTED:
            return np.int64(line)
    return np.int64(-1)


@noinline_cpu
def _times_of_leaving(tables, line, compartment, index, entered, since, node, seed, replicate):
    """When a node that waits since a time loses patience, and when it leaves by an exit."""
    lines, stages = tables.interventions.lines, tables.stages
    patience = real(lines.longest[line])
    if lines.rate[line] > 0.0:
        # A draw beside that of an exit from the same stay.
        w0, w1, w2, w3 = draw_words(
            seed, replicate, node, EXIT, np.uint32(index) | np.uint32(_PATIENCE)
        )
        patience = real(exponential(w0, w1) / lines.rate[line])
    gone = real(_NEVER)
    if HAS_EXITS:
        row = row_of(stages, compartment, node)
        gone = real(entered + time_to_exit(stages, row, index, seed, replicate, node))
    return real(at_moment(tables.moments, since + patience)), max(gone, real(since))


def leaves_at(tables, line, compartment, index, entered, since, node, seed, replicate):
    """When a node that waits for a place since a time leaves the line without one."""
    if HAS_LEAVERS:
        over, gone = _times_of_leaving(
            tables, line, compartment, index, entered, since, node, seed, replicate
        )
        return min(over, gone)
    return real(_NEVER)


def leaves_to(tables, line, compartment, index, entered, since, node, seed, replicate):
    """Where a node goes that leaves a line, and whether it found no place until then."""
    over, gone = _times_of_leaving(
        tables, line, compartment, index, entered, since, node, seed, replicate
    )
    if HAS_EXITS and gone <= over:
        row = row_of(tables.stages, compartment, node)
        into = np.int64(exit_of_stay(tables.stages, row, index, seed, replicate, node))
        return into, False
    plan = tables.interventions
    return np.int64(plan.instead[plan.lines.measure[line]]), True


def forget_leavers(plan, state, row, line, shift):
    """Take out of a heap those who have left the line; the order of the others is made anew."""
    count = np.int64(state.size[row, line])
    state.size[row, line] = np.int32(0)
    for at in range(count):
        node = np.int64(state.heap[line, shift + at])
        if state.since[line, shift + node] >= 0.0:
            join(plan, state, row, line, shift, node)


def enter_place(state, line, position):
    """A node enters the place that it has got."""
    state.since[line, position] = _NOBODY


def may_join(plan, state, line, position, time):
    """Whether a node that finds no test joins the line; at time zero all do, until just after."""
    waits = plan.lines.waits[line] != 0 or time == 0.0
    return waits and state.since[line, position] < 0.0
