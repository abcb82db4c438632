"""Contact tracing by windows of time: quarantine of a node at any moment.

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
from ergode.core.math.random import TRACING, draw_words, uniform
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.contacts import contact_entity, exposure
from ergode.epidemics.shared.options import LAYERED, TEMPORAL
from ergode.epidemics.shared.transmission import TRACING_KIND, detects
from ergode.epidemics.windows.atomics import raise_to
from ergode.epidemics.windows.state import destination, moves_of, stay_of

# Each option has its own `if`, so that its branch is dropped before it is compiled.
# ruff: noqa: SIM102

_CONTACTS = np.uint32(0x80000000)  # of draws: for a contact, not for the case
_DETECTED = np.int32(1 << 30)  # in a mark
_STAYS = np.int32((1 << 22) - 1)


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


def is_detected(plan, k, node, stay, seed, replicate):
    """Whether a case that entered its compartment with a stay is detected."""
    w0, w1, w2, w3 = draw_words(
        seed, replicate, node, TRACING, np.uint32(k) | np.uint32(np.uint32(stay) << 8)
    )
    return uniform(w0, w1) <= plan.fraction[k]


def is_traced(plan, meetings, k, arc, entity, stay, moment, seed, replicate):
    """Whether the contact with key `entity` of a case detected at `moment` is traced."""
    w0, w1, w2, w3 = draw_words(
        seed, replicate, entity, TRACING,
        np.uint32(k) | np.uint32(np.uint32(stay) << 8) | _CONTACTS,
    )  # fmt: skip
    met = exposure(meetings, arc, moment) > exposure(meetings, arc, moment - plan.traced[k, 3])
    return met and uniform(w0, w1) <= plan.traced[k, 0]


def may_trace_before(tables, compartment, entered, stop):
    """Whether contacts of a node may be in quarantine before `stop` for a move of it."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND and plan.compartment[k] == compartment:
            moment = at_moment(tables.moments, entered + plan.delay[k])
            if at_moment(tables.moments, moment + plan.traced[k, 1]) < stop:
                return True
    return False


def _holds(epidemic, starts, k, delay, e, position, node, moves, target, time, replicate):
    """Whether one of a node's detections holds a node in quarantine at a time.

    That node is the detected node if `e` is negative, else the other end of the incoming arc `e`.
    The first `moves` moves of the node's path are used.
    """
    arcs, tables, paths = epidemic.arcs, epidemic.tables, epidemic.paths
    tracing, plan, seed = epidemic.tracing, tables.interventions, epidemic.seed
    waiting = np.int64(tracing.count[position])
    for d in range(waiting + moves):
        stay = np.int32(0)
        moment = real(0.0)
        found = False
        known = False
        if d < waiting:
            mark = tracing.mark[d, position]
            found = (mark & 0xFF) == k
            known = (mark & _DETECTED) != 0
            stay = np.int32((mark >> 8) & _STAYS)
            moment = tracing.moment[d, position]
        else:
            j = d - waiting
            if destination(paths, j, position) == plan.compartment[k]:
                stay = np.int32(stay_of(paths, position) + np.int32(j) + np.int32(1))
                moment = at_moment(tables.moments, paths.time[j, position] + plan.delay[k])
                found = is_detected(plan, k, node, stay, seed, replicate)
        begin = at_moment(tables.moments, moment + delay)
        until = at_moment(tables.moments, begin + plan.traced[k, 2])
        if found and begin < time and until > time:
            if known or detects(plan, starts, k, moment):
                if e < 0:
                    return True
                layer = np.int64(arcs.layer[e]) if LAYERED else np.int64(0)
                number = np.int64(arcs.number[e]) if TEMPORAL else np.int64(0)
                entity = contact_entity(
                    node, target, layer, np.int64(arcs.first.size - 1), tables.calendars.peak.size
                )
                if is_traced(
                    plan, tables.meetings, k, number, entity, stay, moment, seed, replicate
                ):
                    return True
    return False


def _is_held(epidemic, starts, k, shift, node, moves, time, replicate):
    """Whether a node, `moves` of whose path count, is in quarantine at a time."""
    arcs, tracing = epidemic.arcs, epidemic.tracing
    position = shift + node
    if from_bits(bits(tracing.until[k, position])) > time:
        return True
    if _holds(
        epidemic, starts, k, real(0.0), np.int64(-1), position, node, moves, node, time, replicate
    ):
        return True
    delay = epidemic.tables.interventions.traced[k, 1]
    for e in range(arcs.first[node], arcs.first[node + 1]):
        source = np.int64(arcs.source[e])
        other = shift + source
        count = moves_of(epidemic.paths, other)
        if tracing.count[other] > 0 or count > 0:
            if _holds(
                epidemic, starts, k, delay, np.int64(e), other, source, count, node, time, replicate
            ):
                return True
    return False


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


def left_by_own_quarantine(epidemic, starts, shift, node, moves, time, replicate):
    """Fraction of the infection rate from outside that remains under a node's own quarantine."""
    plan = epidemic.tables.interventions
    left = real(1.0)
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND:
            if _is_held(epidemic, starts, k, shift, node, moves, time, replicate):
                left *= 1.0 - plan.reduction[k]
    return left


# ---- between windows


def await_detection(tables, tracing, position, node, compartment, entered, stay, seed, replicate):
    """Keep the detection of a node that entered a compartment, if it will be detected."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND and plan.compartment[k] == compartment:
            moment = at_moment(tables.moments, entered + plan.delay[k])
            if moment < tables.end and is_detected(plan, k, node, stay, seed, replicate):
                at = np.int64(tracing.count[position])
                if at < tracing.moment.shape[0]:
                    tracing.moment[at, position] = moment
                    tracing.mark[at, position] = np.int32(k) | np.int32(np.int32(stay) << 8)
                    tracing.count[position] = np.int32(at + 1)
                else:
                    raise_to(tracing.room, 0, np.int32(at + 1))


def _hold(tracing, k, position, until):
    """Put a node in quarantine, at least until some time."""
    word = to_bits(real(max(until, real(0.0))))
    raise_to(tracing.until, (np.int64(k), np.int64(position)), word)


def carry_out(arcs, tables, tracing, starts, position, node, end, seed, replicate):
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
        forced = (mark & _DETECTED) != 0 or detects(plan, starts, k, moment)
        begin = at_moment(tables.moments, moment + plan.traced[k, 1])
        if moment < end:
            if not forced:
                continue
            mark = np.int32(mark | _DETECTED)
            until = at_moment(tables.moments, moment + plan.traced[k, 2])
            _hold(tracing, k, position, until)
        if begin < end:
            for arc in range(arcs.offsets[node], arcs.offsets[node + 1]):
                target = np.int64(arcs.targets[arc])
                layer = np.int64(arcs.layer_out[arc]) if LAYERED else np.int64(0)
                entity = contact_entity(
                    node, target, layer, np.int64(arcs.first.size - 1), tables.calendars.peak.size
                )
                if is_traced(
                    plan, tables.meetings, k, np.int64(arc), entity, (mark >> 8) & _STAYS, moment,
                    seed, replicate,
                ):  # fmt: skip
                    until = at_moment(tables.moments, begin + plan.traced[k, 2])
                    _hold(tracing, k, position - node + target, until)
        if begin >= end:
            tracing.moment[kept, position] = moment
            tracing.mark[kept, position] = mark
            kept += 1
    tracing.count[position] = np.int32(kept)
