"""Tests of contacts at the moment at which they are traced, by windows of time.

They are made when a window is settled: then the moments at which a node is traced are known, and so
is its compartment.  What follows from a positive test begins after the delay of a test, which is
longer than a window.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.epidemics.shared.arcs import end_arc, first_arc, is_loop, layer_of, target_of
from ergode.epidemics.shared.clock import at_moment, earlier, precedes
from ergode.epidemics.shared.counts import POSITIVE, TESTS, tally
from ergode.epidemics.shared.detection import is_found, is_traced, next_detection
from ergode.epidemics.shared.lives import is_alive
from ergode.epidemics.shared.options import COUNTING, HAS_QUEUES
from ergode.epidemics.shared.progression import holding_time_of_stay, stay_index
from ergode.epidemics.shared.transmission import (
    CONTACT_DELAY,
    FINDS,
    OWN_DELAY,
    OWN_TIME,
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
)
from ergode.epidemics.windows.tracing import DETECTED, STAYS, Held, holds, keep_detection

_NEVER = float("inf")


def test_traced(epidemic, counted, starts, place, end):
    """Test a node whenever it is traced in a settled window, unless it is a known case."""
    plan, tracing, position = epidemic.tables.interventions, epidemic.tracing, place.position
    for k in range(plan.kind.size):
        if plan.traced[k, FINDS] < 0.0:
            moment = _next_trace(epidemic, starts, k, place, real(-_NEVER), end)
            while moment < end:
                if looks_for_cases(plan, starts, k, moment) and not _is_known(
                    epidemic, starts, k, place, moment
                ):
                    number = np.int64(tracing.made[k, position])
                    tracing.made[k, position] += np.int32(1)
                    if COUNTING:
                        tally(counted, epidemic.tables, k, TESTS, place.node, moment, 1)
                    here, stay = _just_before(epidemic.paths, position, moment)
                    if is_found(plan, k, here, number, place.node, epidemic.seed, place.replicate):
                        if COUNTING:
                            tally(counted, epidemic.tables, k, POSITIVE, place.node, moment, 1)
                        keep_detection(tracing, position, k, stay, moment)
                moment = _next_trace(epidemic, starts, k, place, moment, end)


def _is_known(epidemic, starts, k, place, moment):
    """Whether an earlier detection makes a node a known case at a moment."""
    plan, position = epidemic.tables.interventions, place.position
    before = earlier(moment)
    lasting = real(plan.traced[k, OWN_DELAY] + plan.traced[k, OWN_TIME])
    own = Held(
        np.int64(-1), np.int64(place.node), real(0.0), lasting, real(-_NEVER), real(before)
    )  # fmt: skip
    count = moves_of(epidemic.paths, position)
    return before < epidemic.tracing.known[k, position] or holds(
        epidemic, starts, k, own, position, place.node, count, place.replicate
    )


def _just_before(paths, position, moment):
    """The compartment of a node just before a moment of a settled window, and its stay."""
    here, stay = compartment_of(paths, position), np.int32(stay_of(paths, position))
    for j in range(moves_of(paths, position)):
        if precedes(paths.time[j, position], moment) and not (
            HAS_QUEUES and is_wait(paths, j, position, here)
        ):
            here = destination(paths, j, position)
            stay += np.int32(1)
    return here, stay


def _next_trace(epidemic, starts, k, place, last, end):
    """When a node is next traced after a time, if that is before the `end` of a window."""
    incoming, tracing = epidemic.contacts.incoming, epidemic.tracing
    shift, found = place.position - place.node, real(end)
    for e in range(first_arc(incoming, place.node), end_arc(incoming, place.node)):
        source = np.int64(target_of(incoming, place.node, e))
        if is_loop(place.node, source):
            continue
        other = shift + source
        for d in range(np.int64(tracing.count[other])):
            mark = tracing.mark[d, other]
            if (mark & 0xFF) == k:
                found = _sooner(
                    epidemic, starts, k, place, e, source, np.int32((mark >> 8) & STAYS),
                    real(tracing.moment[d, other]), (mark & DETECTED) != 0, last, found,
                )  # fmt: skip
        found = _sooner_by_moves(epidemic, starts, k, place, e, source, last, found)
    return found


def _sooner_by_moves(epidemic, starts, k, place, e, source, last, found):
    """`_sooner` for the detections of a case that follow from its moves in the window."""
    tables, paths, other = epidemic.tables, epidemic.paths, place.position - place.node + source
    here, stay = compartment_of(paths, other), np.int32(stay_of(paths, other))
    for j in range(moves_of(paths, other)):
        entered = real(paths.time[j, other])
        if HAS_QUEUES and is_wait(paths, j, other, here):
            continue
        here = destination(paths, j, other)
        stay += np.int32(1)
        length = holding_time_of_stay(
            tables.stages, here, stay_index(here, stay - np.int32(1)), epidemic.seed,
            place.replicate, source,
        )  # fmt: skip
        leaves = real(at_moment(tables.moments, entered + length))
        number = np.int64(0)
        moment = entered
        while moment < found:
            moment = next_detection(
                tables, k, here, moment, number, leaves, source, stay, epidemic.seed,
                place.replicate,
            )  # fmt: skip
            found = _sooner(epidemic, starts, k, place, e, source, stay, moment, False, last, found)
            number += 1
    return found


def _sooner(epidemic, starts, k, place, e, source, stay, moment, known, last, found):
    """The moment at which a node is traced after a case is detected, if it is before `found`.

    `known` says that the measure was in force at the detection.
    """
    tables, plan = epidemic.tables, epidemic.tables.interventions
    begin = real(at_moment(tables.moments, moment + plan.traced[k, CONTACT_DELAY]))
    if (
        begin < found
        and precedes(last, begin)
        and (known or detects(plan, starts, k, moment))
        and is_alive(plan, starts, place.node, begin)
    ):
        number, entity = contact_into(epidemic, place.node, e, source)
        if is_traced(
            plan, tables.meetings, k, layer_of(epidemic.contacts.incoming, e), number, entity,
            np.int64(place.node), stay, moment, epidemic.seed, place.replicate,
        ):  # fmt: skip
            return begin
    return found
