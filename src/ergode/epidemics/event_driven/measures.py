"""Triggers, quarantine and detection in the event-driven kernel."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.math.random import TRACING, draw_words, uniform
from ergode.epidemics.event_driven.queue import push
from ergode.epidemics.event_driven.state import DETECTION, NEVER, QUARANTINE
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.contacts import contact_entity, exposure
from ergode.epidemics.shared.options import LAYERED
from ergode.epidemics.shared.transmission import TRACING_KIND, detects
from ergode.epidemics.shared.triggers import decide


def pull_triggers(plan, starts, population, decided, time):
    """Start and stop measures after the moves of all moments before a time.

    `decided` [1] is the next moment after whose moves a measure may start or stop.
    """
    while decided[0] < time:
        moment = real(decided[0])
        following = real(NEVER)
        for k in range(plan.kind.size):
            following = min(following, decide(plan, starts, k, population, moment))
        decided[0] = following


def put_in_quarantine(quarantine, moments, k, node, time, lasts):
    """Put a node in quarantine: record its begin, its end, and the end of an earlier quarantine."""
    if quarantine[k, node, 0] < time:
        quarantine[k, node, 2] = max(quarantine[k, node, 2], quarantine[k, node, 1])
        quarantine[k, node, 0] = time
        quarantine[k, node, 1] = at_moment(moments, time + lasts)


def _is_held(quarantine, k, node, time):
    """Whether a node is in quarantine at a time; not yet at the moment at which it begins."""
    return quarantine[k, node, 2] > time or (
        quarantine[k, node, 0] < time and quarantine[k, node, 1] > time
    )


def left_by_quarantine(plan, quarantine, source, target, time):
    """Fraction of the rate between two nodes that remains under the quarantine of either."""
    left = real(1.0)
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND and (
            _is_held(quarantine, k, source, time) or _is_held(quarantine, k, target, time)
        ):
            left *= 1.0 - plan.reduction[k]
    return left


def await_detection(queue, tables, node, stay, compartment, time, run):
    """Queue the detection of a node that entered a compartment, if it will be detected."""
    plan, end = tables.interventions, tables.end
    for k in range(plan.kind.size):
        if plan.kind[k] == TRACING_KIND and plan.compartment[k] == compartment:
            w0, w1, w2, w3 = draw_words(
                run.seed,
                run.replicate,
                node,
                TRACING,
                np.uint32(k) | np.uint32(np.uint32(stay) << 8),
            )
            moment = at_moment(tables.moments, time + plan.delay[k])
            if uniform(w0, w1) <= plan.fraction[k] and moment < end:
                push(
                    queue, run.per_time, moment, np.int64(DETECTION), node, np.int64(k), stay,
                    np.uint32(0), np.int64(0),
                )  # fmt: skip


def detect(queue, contacts, tables, nodes, event, run):
    """Quarantine a detected case and those of its contacts that are traced."""
    offsets, targets, layers = contacts.offsets, contacts.targets, contacts.layer
    meetings, plan, layer_count = tables.meetings, tables.interventions, tables.calendars.peak.size
    end, quarantine = tables.end, nodes.quarantine
    node, k, stay, time = event.node, event.arc, event.stay, event.time
    if not detects(plan, nodes.starts, k, time):
        return
    tracing, delay = plan.traced[k, 0], plan.traced[k, 1]
    put_in_quarantine(quarantine, tables.moments, k, node, time, plan.traced[k, 2])
    found_at = at_moment(tables.moments, time + delay)
    for arc in range(offsets[node], offsets[node + 1]):
        target = np.int64(targets[arc])
        layer = np.int64(layers[arc]) if LAYERED else np.int64(0)
        entity = contact_entity(node, target, layer, offsets.size - 1, layer_count)
        w0, w1, w2, w3 = draw_words(
            run.seed, run.replicate, entity, TRACING,
            np.uint32(k) | np.uint32(np.uint32(stay) << 8) | np.uint32(0x80000000),
        )  # fmt: skip
        met = exposure(meetings, arc, time) > exposure(meetings, arc, time - plan.traced[k, 3])
        if met and uniform(w0, w1) <= tracing and found_at < end:
            push(
                queue, run.per_time, found_at, np.int64(QUARANTINE), target, k, np.int32(0),
                np.uint32(0), np.int64(0),
            )  # fmt: skip
