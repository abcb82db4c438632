"""Triggers, quarantine, detection and lines in the event-driven kernel."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.math.elementary import next_up
from ergode.epidemics.event_driven.queue import push, push_end
from ergode.epidemics.event_driven.state import (
    DETECTION,
    FORGET,
    NEVER,
    PERIOD,
    QUARANTINE,
    RETEST,
    counted_in,
)
from ergode.epidemics.shared.arcs import end_arc, first_arc, is_loop, layer_of, target_of
from ergode.epidemics.shared.clock import at_moment, earlier, later, precedes, snapped
from ergode.epidemics.shared.contacts import contact_entity
from ergode.epidemics.shared.counts import (
    POSITIVE,
    TESTS,
    TURNED_AWAY,
    WAITING,
    tally,
    tally_hold,
)
from ergode.epidemics.shared.detection import (
    is_found,
    is_traced,
    known_until,
    next_detection,
    stays_isolated,
)
from ergode.epidemics.shared.lines import (
    admit,
    asks_for_test,
    begin_period,
    empty_line,
    is_positive,
    join,
    may_join,
    next_period,
    next_tested,
    spent_from,
)
from ergode.epidemics.shared.lives import is_alive
from ergode.epidemics.shared.options import (
    COUNTING,
    HAS_FINDS,
    HAS_LINES,
    HAS_QUEUES,
    HAS_RELEASE,
    HAS_SCREENING,
    HAS_TRACING,
    TESTS_TRACED,
)
from ergode.epidemics.shared.tallying import (
    decide_and_tally,
    tally_death,
    tally_hold_over,
    tally_isolations_of,
    tally_positive,
    tally_release,
    tally_tests_of,
    tally_traced,
)
from ergode.epidemics.shared.transmission import (
    CONTACT_DELAY,
    CONTACT_TIME,
    FINDS,
    ISOLATION_KIND,
    OWN_DELAY,
    OWN_TIME,
    RETEST_AFTER,
    RETEST_EVERY,
    TRACE,
    TRACING_KIND,
    detects,
    looks_for_cases,
)
from ergode.epidemics.shared.triggers import gain_of, places_for_line

_ONLY = np.int64(0)  # a thread has one replicate


def pull_triggers(queue, tables, nodes, time, run):
    """Start and stop measures after the moves of all moments before a time.

    `nodes.decided` [1] is the next moment after whose moves a measure may start or stop.  Returns
    whether nodes that waited have got places, which they enter at the next moment.
    """
    plan, starts, decided = tables.interventions, nodes.starts, nodes.decided
    while decided[0] < time:
        moment = real(decided[0])
        following = real(NEVER)
        admitted = False
        for k in range(plan.kind.size):
            if HAS_QUEUES:
                some, all_taken = _admit_waiting(queue, tables, nodes, k, moment, run)
                admitted = admitted or some
                if all_taken:
                    continue
            start, stop = starts[k], starts[k + plan.kind.size]
            when = decide_and_tally(
                counted_in(nodes, run), tables, starts, k, nodes.population, moment
            )
            following = min(following, when)
            if COUNTING:
                changed = starts[k] != start
                if HAS_SCREENING and plan.rate[k] > 0.0:
                    changed = changed or starts[k + plan.kind.size] != stop
                else:
                    changed = changed and plan.kind[k] == ISOLATION_KIND
                if changed:
                    _tally_under(tables, nodes, k, start, stop, next_up(moment), run)
        decided[0] = following
        if admitted:
            return True
    return False


def _tally_under(tables, nodes, k, start, stop, before, run):
    """Count the negative tests, or the isolations, of all nodes before a measure changed."""
    starts, stops = nodes.starts, k + tables.interventions.kind.size
    new_start, new_stop = starts[k], starts[stops]
    starts[k], starts[stops] = start, stop
    counted, measure = counted_in(nodes, run), np.int64(k)
    for node in range(nodes.compartment.size):
        if tables.interventions.kind[k] == ISOLATION_KIND:
            tally_isolations_of(
                counted, tables, starts, measure, node, nodes.stay[node],
                np.int64(nodes.compartment[node]), nodes.since[node], real(NEVER), run.seed,
                run.replicate,
            )  # fmt: skip
        elif HAS_SCREENING:
            tally_tests_of(
                counted, nodes.proposed, tables, starts, measure, node, node,
                nodes.compartment[node], before, run.seed, run.replicate,
            )  # fmt: skip
    starts[k], starts[stops] = new_start, new_stop


def _admit_waiting(queue, tables, nodes, k, moment, run):
    """Give free places to the first in the line; whether to some, and whether none is left."""
    plan, state = tables.interventions, nodes.lines
    line = np.int64(plan.lines.of[k])
    if line < 0 or plan.lines.places[line] == 0 or state.size[_ONLY, line] == 0:
        return False, False
    free = places_for_line(plan, nodes.starts, k, nodes.population, moment)
    some = False
    time = real(next_up(moment))
    while free > 0 and state.size[_ONLY, line] > 0:
        node = admit(plan, state, _ONLY, line, _ONLY)
        nodes.until[node] = time
        if time < tables.end:
            push_end(queue, run, node, nodes.stay[node], time)
        some = True
        free -= 1
    return some, some and free == 0


def begin_counters(plan, population):
    """The counters of triggers at time zero."""
    counters = plan.triggers.counters
    first = population.size - counters.window.size
    for counter in range(counters.window.size):
        population[first + counter] = counters.at_first[counter]


def count_move(queue, tables, nodes, move, entry, time, run):
    """Add a move to the counters of triggers; entries are forgotten at the end of a window."""
    counters = tables.interventions.triggers.counters
    first = nodes.population.size - counters.window.size
    for counter in range(counters.window.size):
        gain = gain_of(
            counters, counter, move.node, np.int64(nodes.compartment[move.node]),
            np.int64(move.compartment), move.is_case,
        )  # fmt: skip
        window = counters.window[counter]
        over = real(at_moment(tables.moments, entry + window))
        if window > 0.0 and gain > 0:
            if over <= time:
                gain = np.int32(0)
            elif over < tables.end:
                push(
                    queue, run.per_time, over, np.int64(FORGET), np.int64(move.node),
                    np.int64(counter), np.int32(0), np.uint32(gain), np.int64(0),
                )  # fmt: skip
        nodes.population[first + counter] += np.int64(gain)


def put_in_quarantine(queue, tables, nodes, k, node, time, contact, run):
    """Put a node in quarantine: record its begin, its end, and the end of earlier quarantines.

    `contact` is zero for a case; for a contact it is one more than the layer.
    """
    quarantine, is_contact = nodes.quarantine, contact != 0
    if not is_alive(tables.interventions, nodes.starts, node, time):
        return
    if COUNTING and is_contact:
        tally_traced(counted_in(nodes, run), tables, k, np.int64(contact) - 1, node, time)
    lasting = tables.interventions.traced[k, CONTACT_TIME if is_contact else OWN_TIME]
    until = at_moment(tables.moments, time + lasting)
    before = max(quarantine[k, node, 1], quarantine[k, node, 2])
    if not until > time:
        return
    if precedes(quarantine[k, node, 0], time):
        quarantine[k, node, 2] = before
        quarantine[k, node, 0] = time
        quarantine[k, node, 1] = until
    else:  # another quarantine has begun at this moment
        quarantine[k, node, 1] = max(quarantine[k, node, 1], until)
    if COUNTING and until > before:
        tally_hold(counted_in(nodes, run), tables, k, node, real(time), real(until), real(before))
    if HAS_RELEASE and not precedes(time, before):
        _queue_release(queue, tables, nodes, k, node, time, RETEST_AFTER, run)


def _queue_release(queue, tables, nodes, k, node, time, column, run):
    """Queue the next test that may end an isolation."""
    moment = at_moment(tables.moments, time + tables.interventions.traced[k, column])
    _queue_test(queue, tables, nodes, k, node, snapped(moment, nodes.until[node]), run)


def snap_tests(queue, tables, nodes, node, run):
    """Tests that may end an isolation at the end of a node's new stay are before that end."""
    for k in range(tables.interventions.kind.size):
        pending = real(nodes.quarantine[k, node, 3])
        moment = snapped(pending, nodes.until[node])
        if moment != pending:
            _queue_test(queue, tables, nodes, k, node, moment, run)


def _queue_test(queue, tables, nodes, k, node, moment, run):
    nodes.quarantine[k, node, 3] = moment
    if moment < tables.end:
        push(
            queue, run.per_time, moment, np.int64(RETEST), node, k, np.int32(0), np.uint32(0),
            np.int64(0),
        )  # fmt: skip


def test_for_release(queue, contacts, tables, nodes, k, node, time, run):
    """Test an isolated node: a negative test ends its isolation, a positive one may find a case."""
    quarantine = nodes.quarantine
    if quarantine[k, node, 3] != time:
        return  # that isolation is over, and another has begun
    until = real(quarantine[k, node, 2])
    begins = not precedes(quarantine[k, node, 0], time)  # an isolation that this test does not end
    if not begins:
        until = max(until, quarantine[k, node, 1])
    if not until > later(time):  # no test when the isolation ends
        quarantine[k, node, 3] = NEVER
        return
    number = np.int64(quarantine[k, node, 4])
    quarantine[k, node, 4] += 1.0
    if COUNTING:
        tally(counted_in(nodes, run), tables, k, TESTS, node, time, 1)
    compartment = np.int64(nodes.compartment[node])
    if stays_isolated(tables.interventions, k, compartment, number, node, run.seed, run.replicate):
        _queue_release(queue, tables, nodes, k, node, time, RETEST_EVERY, run)
        if HAS_FINDS and tables.interventions.traced[k, FINDS] > 0.0:
            unknown = not precedes(time, quarantine[k, node, 5])
            if unknown and looks_for_cases(tables.interventions, nodes.starts, k, time):
                if COUNTING:
                    tally(counted_in(nodes, run), tables, k, POSITIVE, node, time, 1)
                stay = nodes.stay[node]
                _isolate_and_trace(queue, contacts, tables, nodes, node, k, stay, time, run)
        return
    over = real(time)
    if begins:
        over = real(quarantine[k, node, 1])
    if COUNTING:
        tally_release(counted_in(nodes, run), tables, k, node, time, over, max(until, over))
    quarantine[k, node, 1] = over
    quarantine[k, node, 2] = time
    quarantine[k, node, 3] = NEVER
    if begins:
        begin = real(quarantine[k, node, 0])
        _queue_release(queue, tables, nodes, k, node, begin, RETEST_AFTER, run)


def test_traced(queue, contacts, tables, nodes, k, node, time, run):
    """Test a node at the moment at which it is traced, unless it is a known case."""
    plan, traced = tables.interventions, nodes.traced
    if not (
        plan.traced[k, FINDS] < 0.0
        and precedes(traced[k, node, 2], time)
        and is_alive(plan, nodes.starts, node, time)
        and looks_for_cases(plan, nodes.starts, k, time)
    ):
        return
    before = earlier(time)
    last = real(traced[k, node, 0])
    if not last < before:
        last = real(traced[k, node, 1])
    if last > -NEVER and before < known_until(tables, k, last):
        return
    number = np.int64(traced[k, node, 3])
    traced[k, node, 2] = time
    traced[k, node, 3] += 1.0
    if COUNTING:
        tally(counted_in(nodes, run), tables, k, TESTS, node, time, 1)
    compartment, stay = np.int64(nodes.compartment[node]), np.int32(nodes.stay[node])
    if not precedes(nodes.since[node], time):  # it has just moved
        compartment, stay = np.int64(nodes.before[node]), np.int32(stay - np.int32(1))
    if is_found(plan, k, compartment, number, node, run.seed, run.replicate):
        if COUNTING:
            tally(counted_in(nodes, run), tables, k, POSITIVE, node, time, 1)
        _isolate_and_trace(queue, contacts, tables, nodes, node, k, stay, time, run)


def die(tables, nodes, node, time, run):
    """A node dies: it is held and waits no more."""
    counted, quarantine = counted_in(nodes, run), nodes.quarantine
    if HAS_TRACING:
        for k in range(tables.interventions.kind.size):
            until = max(quarantine[k, node, 1], quarantine[k, node, 2])
            if until > time:
                if COUNTING:
                    tally_hold_over(counted, tables, k, node, real(time), real(until))
                for part in range(1, 3):
                    quarantine[k, node, part] = min(quarantine[k, node, part], time)
            quarantine[k, node, 3] = NEVER
    if COUNTING and HAS_LINES:
        tally_death(counted, tables, nodes.lines, node, node, time)


def _is_held(quarantine, k, node, time):
    """Whether a node is in quarantine at a time; not yet at the moment at which it begins."""
    return quarantine[k, node, 2] > time or (
        quarantine[k, node, 0] < time and quarantine[k, node, 1] > time
    )


def left_by_quarantine(plan, quarantine, source, target, time):
    """Fraction of the rate between two nodes that remains under the quarantine of either."""
    left = real(1.0)
    for k in range(plan.kind.size):
        if _is_either_held(plan, quarantine, k, source, target, time):
            left *= 1.0 - plan.reduction[k]
    return left


def quarantines(plan, quarantine, source, target, time):
    """The measures under whose quarantine either of two nodes is, a bit for each."""
    held = np.uint64(0)
    for k in range(plan.kind.size):
        if _is_either_held(plan, quarantine, k, source, target, time):
            held |= np.uint64(1) << np.uint64(k)
    return held


def _is_either_held(plan, quarantine, k, source, target, time):
    return plan.kind[k] == TRACING_KIND and (
        _is_held(quarantine, k, source, time) or _is_held(quarantine, k, target, time)
    )


def await_detection(queue, tables, node, stay, compartment, time, leaves, run):
    """Queue the first detection of a node that entered a compartment, which it `leaves`."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND:
            _queue_detection(
                queue, tables, np.int64(k), compartment, time, 0, leaves, node, stay, run
            )


def _queue_detection(queue, tables, k, compartment, last, number, leaves, node, stay, run):
    moment = next_detection(
        tables, k, compartment, last, np.int64(number), leaves, node, stay, run.seed, run.replicate
    )
    if moment < tables.end:
        push(
            queue, run.per_time, moment, np.int64(DETECTION), node, k, stay,
            np.uint32(number + 1), np.int64(0),
        )  # fmt: skip


def detect(queue, contacts, tables, nodes, event, run):
    """Quarantine a detected case and those of its contacts that are traced."""
    plan, node, k, stay, time = (
        tables.interventions, event.node, event.arc, event.stay, event.time
    )  # fmt: skip
    # The next test of this stay, which no infection ends.
    if HAS_SCREENING and plan.rate[k] > 0.0:
        _queue_detection(
            queue, tables, k, np.int64(nodes.compartment[node]), time, np.int64(event.key),
            nodes.until[node], node, stay, run,
        )  # fmt: skip
    if not detects(plan, nodes.starts, k, time):
        return
    if COUNTING:
        tally_positive(counted_in(nodes, run), tables, k, node, time)
    _isolate_and_trace(queue, contacts, tables, nodes, node, k, stay, time, run)


def _isolate_and_trace(queue, contacts, tables, nodes, node, k, stay, time, run):
    """Quarantine a node that is detected in a stay, and those of its contacts that are traced."""
    plan = tables.interventions
    if HAS_FINDS:
        known = max(nodes.quarantine[k, node, 5], known_until(tables, k, time))
        nodes.quarantine[k, node, 5] = known
    if TESTS_TRACED and precedes(nodes.traced[k, node, 0], time):
        nodes.traced[k, node, 1] = nodes.traced[k, node, 0]
        nodes.traced[k, node, 0] = time
    own_delay = plan.traced[k, OWN_DELAY]
    if own_delay > 0.0:
        _queue_quarantine(queue, tables, node, k, time + own_delay, np.uint32(0), run)
    else:
        put_in_quarantine(queue, tables, nodes, k, node, time, np.uint32(0), run)
    if plan.traced[k, TRACE] > 0.0:
        _trace(queue, contacts, tables, nodes, node, k, stay, time, run)


def _queue_quarantine(queue, tables, node, k, time, contact, run):
    moment = at_moment(tables.moments, time)
    if moment < tables.end:
        push(
            queue, run.per_time, moment, np.int64(QUARANTINE), node, k, np.int32(0),
            contact, np.int64(0),
        )  # fmt: skip


def _trace(queue, contacts, tables, nodes, node, k, stay, time, run):
    """Queue the quarantine of the contacts of a detected case that are traced."""
    plan, layer_count = tables.interventions, tables.calendars.peak.size
    node_count = nodes.compartment.size
    for arc in range(first_arc(contacts, node), end_arc(contacts, node)):
        target = np.int64(target_of(contacts, node, arc))
        if is_loop(node, target):
            continue
        layer = layer_of(contacts, arc)
        entity = contact_entity(arc, node, target, layer, node_count, layer_count)
        if is_traced(
            plan, tables.meetings, k, layer, arc, entity, target, stay, time, run.seed,
            run.replicate,
        ):  # fmt: skip
            delay = plan.traced[k, CONTACT_DELAY]
            _queue_quarantine(queue, tables, target, k, time + delay, np.uint32(layer + 1), run)


# ---- a number of tests in each period


def ask_for_test(tables, nodes, node, stay, compartment, time, run):
    """A node that entered a compartment asks for a test: it is tested, or waits."""
    plan, starts, state = tables.interventions, nodes.starts, nodes.lines
    counted = counted_in(nodes, run)
    for line in range(plan.lines.measure.size):
        k = np.int64(plan.lines.measure[line])
        asks = plan.lines.asks[line, compartment] != 0 and time >= 0.0
        asks = asks and looks_for_cases(plan, starts, k, time)
        if asks and asks_for_test(plan, line, compartment, node, stay, run.seed, run.replicate):
            if time < starts[spent_from(plan, k)]:
                state.left[_ONLY, line] -= np.int32(1)
                if COUNTING:
                    tally(counted, tables, k, TESTS, node, time, 1)
                if state.left[_ONLY, line] <= 0:
                    starts[spent_from(plan, k)] = next_up(real(time))
            elif may_join(plan, state, line, node, time):
                state.since[line, node] = time
                join(plan, state, _ONLY, line, _ONLY, node)
                if COUNTING:
                    tally(counted, tables, k, WAITING, node, time, 1)
            elif COUNTING and state.since[line, node] < 0.0:
                tally(counted, tables, k, TURNED_AWAY, node, time, 1)


def await_period(queue, tables, nodes, line, run):
    """Queue the beginning of the next period of a line."""
    moment = real(next_period(tables.interventions, nodes.lines, _ONLY, line))
    if moment < tables.end:
        push(
            queue, run.per_time, moment, np.int64(PERIOD), _ONLY, line, np.int32(0), np.uint32(0),
            np.int64(0),
        )  # fmt: skip


def test_line(queue, contacts, tables, nodes, line, time, run):
    """A period begins: the first in the line are tested, and isolated if they are positive."""
    plan, starts, state = tables.interventions, nodes.starts, nodes.lines
    counted = counted_in(nodes, run)
    k = np.int64(plan.lines.measure[line])
    begin_period(plan, state, _ONLY, line, starts)
    if not looks_for_cases(plan, starts, k, time):
        empty_line(counted, tables, state, _ONLY, line, _ONLY, starts, time)
    node = next_tested(counted, tables, state, _ONLY, line, _ONLY, starts, time)
    while node >= 0:
        period = state.period[_ONLY, line]
        if is_positive(plan, line, period, nodes.compartment[node], node, run.seed, run.replicate):
            if COUNTING:
                tally(counted, tables, k, POSITIVE, node, time, 1)
            stay = nodes.stay[node]
            _isolate_and_trace(queue, contacts, tables, nodes, node, k, stay, time, run)
        node = next_tested(counted, tables, state, _ONLY, line, _ONLY, starts, time)
    await_period(queue, tables, nodes, line, run)
