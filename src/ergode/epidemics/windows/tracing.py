"""Testing and contact tracing by windows of time: quarantine of a node at any moment.

A node that enters a compartment is detected after a delay, and after a second delay its contacts
are put in quarantine (`event_driven.kernel`).  The times of entry determine all of this, so
quarantine can be evaluated at any moment of a window.  `TracingState.until` holds the end of
quarantines that were settled before the window.  Pending detections are stored with the detected
node.  Moves within the window are in the paths.

A quarantine does not apply at the moment at which it begins.  So the order of simultaneous events
does not matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, from_bits, real, to_bits
from ergode.epidemics.shared.arcs import (
    end_arc,
    first_arc,
    is_loop,
    layer_of,
    node_count_of,
    target_of,
)
from ergode.epidemics.shared.atomics import fence, lower_to, raise_to
from ergode.epidemics.shared.clock import at_moment, earlier, later, precedes, snapped
from ergode.epidemics.shared.contacts import contact_entity
from ergode.epidemics.shared.counts import POSITIVE, TESTS, tally, tally_hold
from ergode.epidemics.shared.detection import (
    is_traced,
    known_until,
    next_detection,
    stays_isolated,
)
from ergode.epidemics.shared.lives import died_at, is_alive
from ergode.epidemics.shared.options import (
    COUNTING,
    HAS_FINDS,
    HAS_LIVES,
    HAS_QUEUES,
    HAS_RELEASE,
    HAS_SCREENING,
    TESTS_TRACED,
)
from ergode.epidemics.shared.progression import holding_time_of_stay, stay_index
from ergode.epidemics.shared.tallying import (
    tally_hold_over,
    tally_positive,
    tally_release,
    tally_traced,
)
from ergode.epidemics.shared.transmission import (
    CONTACT_DELAY,
    CONTACT_TIME,
    FINDS,
    OWN_DELAY,
    OWN_TIME,
    RETEST_AFTER,
    RETEST_EVERY,
    TRACE,
    TRACING_KIND,
    detects,
    looks_for_cases,
)
from ergode.epidemics.windows.state import (
    compartment_of,
    contact_into,
    destination,
    is_wait,
    moves_of,
    stay_of,
    until_of,
)

_NEVER = float("inf")
DETECTED = np.int32(1 << 30)  # in a mark
STAYS = np.int32((1 << 22) - 1)


class TracingState(NamedTuple):
    """State of contact tracing at the beginning of a window."""

    until: Any  # end of the quarantine of each node, bits [intervention, place]
    # Pending detections [room, place]:
    moment: Any  # real
    # Intervention, above it the stay for which the node is detected, and above that whether the
    # measure was in force then, once that is known; int32.
    mark: Any
    count: Any  # int32 [place]
    room: Any  # room that is needed, int32 [1]
    # Where isolated nodes are counted, bits [intervention, place]:
    begun: Any  # the first begin of a quarantine in the window; infinite without one
    held: Any  # the end of a quarantine that is counted
    # The next proposed test (`shared.tallying`), [intervention, place]:
    proposed: Any
    # The next test that may end an isolation, and when one last did, real [intervention, place]:
    again: Any
    released: Any
    tested: Any  # number of such tests, int32 [intervention, place]
    known: Any  # until when a node is a known case, real [intervention, place]
    made: Any  # tests of a node that is traced, int32 [intervention, place]


def may_trace_before(tables, compartment, entered, stop):
    """Whether contacts of a node may be in quarantine before `stop` for a move of it."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        if plan.positive[k, compartment] > 0.0 and plan.traced[k, TRACE] > 0.0:
            moment = at_moment(tables.moments, entered + plan.delay[k])
            if at_moment(tables.moments, moment + plan.traced[k, CONTACT_DELAY]) < stop:
                return True
    return False


class Held(NamedTuple):
    """A node that a detection of a case may put in quarantine."""

    arc: Any  # incoming arc from the case; negative if it is the case itself
    node: Any
    delay: Any  # from the detection to the quarantine
    lasting: Any  # the quarantine
    since: Any  # quarantines that began before have been ended
    time: Any  # at which the quarantine is looked at


def holds(epidemic, starts, k, held, position, node, moves, replicate):
    """Whether one of a node's detections holds a node in quarantine.

    The first `moves` moves of the node's path are used.
    """
    tables, paths, tracing = epidemic.tables, epidemic.paths, epidemic.tracing
    seed = epidemic.seed
    for d in range(np.int64(tracing.count[position])):
        mark = tracing.mark[d, position]
        if (mark & 0xFF) == k:
            stay = np.int32((mark >> 8) & STAYS)
            if _holds_from(
                epidemic, starts, k, held, node, stay, tracing.moment[d, position],
                (mark & DETECTED) != 0, replicate,
            ):  # fmt: skip
                return True
    number_of_stay = np.int32(stay_of(paths, position))
    here = compartment_of(paths, position)
    for j in range(moves):
        compartment = destination(paths, j, position)
        if HAS_QUEUES and is_wait(paths, j, position, here):
            continue
        here = compartment
        number_of_stay += np.int32(1)
        stay = np.int32(number_of_stay)
        last = real(paths.time[j, position])
        leaves = real(_NEVER)
        if HAS_SCREENING and plan_tests(tables.interventions, k, compartment):
            leaves = real(
                at_moment(
                    tables.moments,
                    last
                    + holding_time_of_stay(
                        tables.stages, compartment,
                        stay_index(compartment, stay - np.int32(1)), seed, replicate, node,
                    ),
                )
            )  # fmt: skip
        number = np.int64(0)
        while True:
            moment = next_detection(
                tables, k, compartment, last, number, leaves, node, stay, seed, replicate
            )
            if not at_moment(tables.moments, moment + held.delay) < held.time:
                break
            if _holds_from(epidemic, starts, k, held, node, stay, moment, False, replicate):
                return True
            last = moment
            number += 1
    return False


def plan_tests(plan, k, compartment):
    """Whether a measure tests nodes in a compartment at a rate."""
    return plan.rate[k] > 0.0 and plan.positive[k, compartment] > 0.0


def _holds_from(epidemic, starts, k, held, node, stay, moment, known, replicate):
    """Whether the detection of a case at a moment holds a node in quarantine.

    `known` says that the measure was in force at that moment.
    """
    tables, plan = epidemic.tables, epidemic.tables.interventions
    begin = at_moment(tables.moments, moment + held.delay)
    until = at_moment(tables.moments, begin + held.lasting)
    kept = not HAS_RELEASE or not precedes(begin, held.since)
    if (
        kept
        and begin < held.time
        and until > held.time
        and (known or detects(plan, starts, k, moment))
    ):
        e = np.int64(held.arc)
        if e < 0:
            return True
        if not is_alive(plan, starts, held.node, begin):
            return False
        number, entity = contact_into(epidemic, held.node, e, node)
        return is_traced(
            plan, tables.meetings, k, layer_of(epidemic.contacts.incoming, e), number, entity,
            np.int64(held.node), stay, moment, epidemic.seed, replicate,
        )  # fmt: skip
    return False


def _is_held(epidemic, starts, k, shift, node, moves, time, replicate):
    """Whether a node, `moves` of whose path count, is in quarantine at a time."""
    tracing = epidemic.tracing
    position = shift + node
    until = from_bits(bits(tracing.until[k, position]))
    if not HAS_RELEASE:
        return until > time or _is_newly_held(
            epidemic, starts, k, shift, node, moves, time, real(-_NEVER), replicate
        )
    since, moment = real(tracing.released[k, position]), real(tracing.again[k, position])
    # A loop, so that the code of what holds a node is there once.
    looks = 2 if moment <= time else 1
    settled = until > time
    held = False
    while looks > 0:
        # First whether the isolation goes on until the test that may end it.
        first = looks == 2
        held = until > later(moment) if first else settled
        held = held or _is_newly_held(
            epidemic, starts, k, shift, node, moves, earlier(until) if first else time, since,
            replicate,
        )  # fmt: skip
        if first and held and is_negative(epidemic, k, position, node, moves, moment, replicate):
            since = moment
            settled = False
        looks -= 1
    return held


def _is_newly_held(epidemic, starts, k, shift, node, moves, time, since, replicate):
    """Whether a quarantine that began in this window, from `since` on, holds a node at a time."""
    incoming, tracing, plan = (
        epidemic.contacts.incoming, epidemic.tracing, epidemic.tables.interventions
    )  # fmt: skip
    own = Held(
        np.int64(-1), np.int64(node), real(plan.traced[k, OWN_DELAY]),
        real(plan.traced[k, OWN_TIME]), real(since), real(time),
    )  # fmt: skip
    if holds(epidemic, starts, k, own, shift + node, node, moves, replicate):
        return True
    if plan.traced[k, TRACE] > 0.0:
        for e in range(first_arc(incoming, node), end_arc(incoming, node)):
            source = np.int64(target_of(incoming, node, e))
            if is_loop(node, source):
                continue
            other = shift + source
            count = moves_of(epidemic.paths, other)
            if tracing.count[other] > 0 or count > 0:
                held = Held(
                    np.int64(e), np.int64(node), real(plan.traced[k, CONTACT_DELAY]),
                    real(plan.traced[k, CONTACT_TIME]), real(since), real(time),
                )  # fmt: skip
                if holds(epidemic, starts, k, held, other, source, count, replicate):
                    return True
    return False


def is_negative(epidemic, k, position, node, moves, moment, replicate):
    """Whether a test for the release of a node is negative, as the node is just before it."""
    paths = epidemic.paths
    here = compartment_of(paths, position)
    for j in range(moves):
        if precedes(paths.time[j, position], moment) and not (
            HAS_QUEUES and is_wait(paths, j, position, here)
        ):
            here = destination(paths, j, position)
    return not stays_isolated(
        epidemic.tables.interventions, k, here,
        np.int64(epidemic.tracing.tested[k, position]), node, epidemic.seed, replicate,
    )  # fmt: skip


def release(epidemic, counted, starts, place, end):
    """Make the tests for a release final that are before the end of a settled window."""
    tables, tracing, position = epidemic.tables, epidemic.tracing, place.position
    plan, shift = tables.interventions, place.position - place.node
    count = moves_of(epidemic.paths, position)
    for k in range(plan.kind.size):
        moment = real(tracing.again[k, position])
        if moment < end:
            tracing.again[k, position] = _NEVER
            if HAS_LIVES and died_at(plan, starts, place.node) < moment:
                continue
            until = from_bits(bits(tracing.until[k, position]))
            # A quarantine of the window may have prolonged it; that lasts longer than the window.
            if not (
                until > later(moment)
                or _is_newly_held(
                    epidemic, starts, k, shift, place.node, count, earlier(until),
                    real(tracing.released[k, position]), place.replicate,
                )
            ):  # fmt: skip
                continue
            if COUNTING:
                tally(counted, tables, k, TESTS, place.node, moment, 1)
            negative = is_negative(
                epidemic, k, position, place.node, count, moment, place.replicate
            )
            tracing.tested[k, position] += np.int32(1)
            if negative:
                tracing.released[k, position] = moment
                if COUNTING:
                    tally_release(counted, tables, k, place.node, moment, moment, until)
                tracing.until[k, position] = to_bits(moment)
                tracing.held[k, position] = bits(to_bits(moment))
            else:
                following = moment + plan.traced[k, RETEST_EVERY]
                tracing.again[k, position] = at_moment(tables.moments, following)
                if HAS_FINDS and plan.traced[k, FINDS] > 0.0:
                    _find(epidemic, counted, starts, k, place, count, moment)


def _find(epidemic, counted, starts, k, place, count, moment):
    """A test for the release of a node is positive: a case is found, unless it is a known one.

    What follows begins after the window, which is shorter than the delay of a test.
    """
    tables, tracing, position = epidemic.tables, epidemic.tracing, place.position
    paths, plan = epidemic.paths, epidemic.tables.interventions
    lasting = real(plan.traced[k, OWN_DELAY] + plan.traced[k, OWN_TIME])
    own = Held(np.int64(-1), np.int64(place.node), real(0.0), lasting, real(-_NEVER), real(moment))
    if (
        not precedes(moment, tracing.known[k, position])
        and looks_for_cases(plan, starts, k, moment)
        and not holds(epidemic, starts, k, own, position, place.node, count, place.replicate)
    ):
        stay = np.int32(stay_of(paths, position))
        here = compartment_of(paths, position)
        for j in range(count):
            if precedes(paths.time[j, position], moment) and not (
                HAS_QUEUES and is_wait(paths, j, position, here)
            ):
                stay += np.int32(1)
                here = destination(paths, j, position)
        keep_detection(tracing, position, k, stay, moment)
        if COUNTING:
            tally(counted, tables, k, POSITIVE, place.node, moment, 1)


def left_by_quarantine(
    epidemic, starts, shift, source, source_moves, target, target_moves, time, replicate
):
    """Fraction of the rate between two nodes that remains under the quarantine of either.

    `shift` is the offset from a node to its position.  Only some moves of their paths are used.
    """
    plan = epidemic.tables.interventions
    left = real(1.0)
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND:
            held = _is_held(
                epidemic, starts, k, shift, target, target_moves, time, replicate
            ) or _is_held(epidemic, starts, k, shift, source, source_moves, time, replicate)
            if held:
                left *= 1.0 - plan.reduction[k]
    return left


def quarantines(
    epidemic, starts, shift, source, source_moves, target, target_moves, time, replicate
):
    """The measures under whose quarantine either of two nodes is, a bit for each."""
    plan = epidemic.tables.interventions
    held = np.uint64(0)
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND and (
            _is_held(epidemic, starts, k, shift, target, target_moves, time, replicate)
            or _is_held(epidemic, starts, k, shift, source, source_moves, time, replicate)
        ):
            held |= np.uint64(1) << np.uint64(k)
    return held


def left_by_own_quarantine(epidemic, starts, shift, node, moves, time, replicate):
    """Fraction of the infection rate from outside that remains under a node's own quarantine."""
    plan = epidemic.tables.interventions
    left = real(1.0)
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND and _is_held(
            epidemic, starts, k, shift, node, moves, time, replicate
        ):
            left *= 1.0 - plan.reduction[k]
    return left


# ---- between windows


def await_detection(
    tables, tracing, position, node, compartment, entered, leaves, stay, seed, replicate
):  # fmt: skip
    """Keep the detections of a node that entered a compartment, which it `leaves`."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND:
            last = real(entered)
            number = np.int64(0)
            while True:
                last = next_detection(
                    tables, k, compartment, last, number, leaves, node, stay, seed, replicate
                )
                if not last < tables.end:
                    break
                _keep(tracing, position, last, np.int32(k) | np.int32(np.int32(stay) << 8))
                number += 1


def _keep(tracing, position, moment, mark):
    at = np.int64(tracing.count[position])
    if at < tracing.moment.shape[0]:
        tracing.moment[at, position] = moment
        tracing.mark[at, position] = mark
        if HAS_FINDS:
            fence()  # other nodes may read this list
        tracing.count[position] = np.int32(at + 1)
    else:
        raise_to(tracing.room, 0, np.int32(at + 1))


def keep_detection(tracing, position, k, stay, moment):
    """Keep the detection of a node in a stay by a measure that is in force at this moment."""
    mark = np.int32(k) | np.int32((np.int32(stay) & STAYS) << 8)
    _keep(tracing, position, moment, mark | DETECTED)


def _hold(tracing, k, position, begin, until):
    """Put a node in quarantine, at least until some time."""
    if not until > begin:
        return
    if HAS_RELEASE and precedes(begin, tracing.released[k, position]):
        return
    word = to_bits(real(max(until, real(0.0))))
    raise_to(tracing.until, (np.int64(k), np.int64(position)), word)
    if (COUNTING or HAS_RELEASE) and until > 0.0:
        word = to_bits(real(max(begin, real(0.0))))
        lower_to(tracing.begun, (np.int64(k), np.int64(position)), word)


def begin_holds(tracing, k, position):
    """A node at time zero is in no quarantine."""
    tracing.until[k, position] = bits(0)
    if HAS_RELEASE:
        tracing.again[k, position] = _NEVER
        tracing.released[k, position] = -_NEVER
        tracing.tested[k, position] = np.int32(0)
    if HAS_FINDS:
        tracing.known[k, position] = -_NEVER
    if TESTS_TRACED:
        tracing.made[k, position] = np.int32(0)
    if COUNTING or HAS_RELEASE:
        tracing.held[k, position] = bits(0)
        tracing.begun[k, position] = bits(to_bits(real(_NEVER)))


def tally_holds(counted, tables, tracing, paths, starts, position, node):
    """Count the quarantines of a node that began in a window: they overlap, so they are one.

    A window is shorter than any quarantine.  Who has died is held no more.
    """
    for k in range(tables.interventions.kind.size):
        begin = from_bits(bits(tracing.begun[k, position]))
        if begin < _NEVER:
            until = from_bits(bits(tracing.until[k, position]))
            before = from_bits(bits(tracing.held[k, position]))
            if COUNTING:
                tally_hold(counted, tables, k, node, begin, until, before)
            if HAS_RELEASE and not precedes(begin, before):
                again = begin + tables.interventions.traced[k, RETEST_AFTER]
                tracing.again[k, position] = at_moment(tables.moments, again)
            tracing.held[k, position] = bits(to_bits(until))
            tracing.begun[k, position] = bits(to_bits(real(_NEVER)))
        if HAS_LIVES and tables.births.outside[compartment_of(paths, position)] != 0:
            over = died_at(tables.interventions, starts, node)
            held = from_bits(bits(tracing.held[k, position]))
            if held > over:
                if COUNTING:
                    tally_hold_over(counted, tables, k, node, over, held)
                tracing.until[k, position] = to_bits(over)
                tracing.held[k, position] = bits(to_bits(over))
            if HAS_RELEASE:
                tracing.again[k, position] = _NEVER
        if HAS_RELEASE:
            again = snapped(tracing.again[k, position], until_of(paths, position))
            tracing.again[k, position] = again


def carry_out(counted, outgoing, tables, tracing, starts, position, node, end, seed, replicate):
    """Carry out the quarantines before `end` that follow from a node's detections.

    Detections without further consequences are dropped.
    """
    plan = tables.interventions
    count = np.int64(tracing.count[position])
    kept = np.int64(0)
    for d in range(count):
        moment, mark = tracing.moment[d, position], tracing.mark[d, position]
        k = np.int64(mark & 0xFF)
        # A measure may have stopped since the detection.
        forced = (mark & DETECTED) != 0 or detects(plan, starts, k, moment)
        begin = at_moment(tables.moments, moment + plan.traced[k, CONTACT_DELAY])
        if moment < end:
            if not forced:
                continue
            if COUNTING and (mark & DETECTED) == 0:
                tally_positive(counted, tables, k, node, moment)
            mark = np.int32(mark | DETECTED)
            if HAS_FINDS:
                tracing.known[k, position] = max(
                    tracing.known[k, position], known_until(tables, k, moment)
                )
        own = at_moment(tables.moments, moment + plan.traced[k, OWN_DELAY])
        if own < end and is_alive(plan, starts, node, own):
            until = at_moment(tables.moments, own + plan.traced[k, OWN_TIME])
            _hold(tracing, k, position, own, until)
        if begin < end and plan.traced[k, TRACE] > 0.0:
            until = at_moment(tables.moments, begin + plan.traced[k, CONTACT_TIME])
            for arc in range(first_arc(outgoing, node), end_arc(outgoing, node)):
                target = np.int64(target_of(outgoing, node, arc))
                if is_loop(node, target):
                    continue
                layer = layer_of(outgoing, arc)
                entity = contact_entity(
                    arc, node, target, layer, node_count_of(outgoing), tables.calendars.peak.size
                )
                if is_alive(plan, starts, target, begin) and is_traced(
                    plan, tables.meetings, k, layer, np.int64(arc), entity, target,
                    (mark >> 8) & STAYS, moment, seed, replicate,
                ):  # fmt: skip
                    if COUNTING:
                        tally_traced(counted, tables, k, layer, target, begin)
                    _hold(tracing, k, position - node + target, begin, until)
        if max(begin, own) >= end:
            tracing.moment[kept, position] = moment
            tracing.mark[kept, position] = mark
            kept += 1
    tracing.count[position] = np.int32(kept)
