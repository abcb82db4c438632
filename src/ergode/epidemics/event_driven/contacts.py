"""The search for effective contacts in the event-driven kernel.

Contacts are searched from infectious nodes only, and from the moment on at which the target may be
at risk.  When a contact comes, the next one along its arc is searched.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.epidemics.event_driven.queue import push
from ergode.epidemics.event_driven.state import CONTACT, NEVER
from ergode.epidemics.shared.arcs import end_arc, first_arc, is_loop, layer_of, of_arc, target_of
from ergode.epidemics.shared.contacts import NO_KEY, contact_entity, just_before, next_contact
from ergode.epidemics.shared.lines import line_of
from ergode.epidemics.shared.options import HAS_BIRTHS, HAS_QUEUES, WEIGHTED


def seek_contacts(queue, event, move, contacts, tables, nodes, run):
    """Queue the next contact along the arc of a contact, and the first along those of a mover."""
    if event.kind == CONTACT:
        _seek_next(queue, event, contacts, tables, nodes, run)
    if move.node >= 0 and tables.infections.infectious[move.compartment] != 0:
        _seek_first(queue, event.time, move.node, contacts, tables, nodes, run)


def _seek_next(queue, event, contacts, tables, nodes, run):
    """Queue the next contact along the arc of a contact."""
    source, arc, key = event.node, event.arc, event.key
    target = np.int64(target_of(contacts, source, arc))
    if tables.infections.safe[nodes.compartment[target]] != 0:
        return
    after, before = event.time, min(nodes.until[source], tables.end)
    of_stay = nodes.stay[source]
    at_rest = _at_rest_until(target, event.time, tables, nodes)
    if at_rest >= after:
        after, key = at_rest, NO_KEY
    if event.is_over:  # further contacts of that stay at this moment
        before, of_stay = event.time, event.stay
    if after < before or event.is_over:
        rate, entity = _clock_of(source, arc, target, contacts, tables, nodes)
        moment, key, rank = next_contact(
            entity, arc, rate, tables.meetings, after, key, before, run.seed, run.replicate
        )
        if moment < before or (event.is_over and moment == before):
            push(queue, run.per_time, moment, np.int64(CONTACT), source, arc, of_stay, key, rank)


def _seek_first(queue, time, source, contacts, tables, nodes, run):
    """Queue the first contacts along the arcs of a node whose stay begins."""
    opened, before = nodes.opened[source], min(nodes.until[source], tables.end)
    for arc in range(first_arc(contacts, source), end_arc(contacts, source)):
        target = np.int64(target_of(contacts, source, arc))
        after = max(opened, _at_rest_until(target, time, tables, nodes))
        if after < before and not is_loop(source, target):
            rate, entity = _clock_of(source, arc, target, contacts, tables, nodes)
            moment, key, rank = next_contact(
                entity, arc, rate, tables.meetings, after, NO_KEY, before, run.seed, run.replicate
            )
            if moment < before:
                push(
                    queue, run.per_time, moment, np.int64(CONTACT), source, arc,
                    nodes.stay[source], key, rank,
                )  # fmt: skip


def _at_rest_until(target, time, tables, nodes):
    """Contacts up to this moment have no effect: the target is not at risk before it moves."""
    if tables.infections.safe[nodes.compartment[target]] != 0:
        return real(NEVER)
    until = nodes.until[target]
    rests = tables.infections.at_risk[nodes.compartment[target]] == 0 and until > time
    if HAS_QUEUES:  # of those who wait it is not known
        rests = rests and line_of(tables.interventions, nodes.lines, target) < 0
    if HAS_BIRTHS:  # nor of those who are not born
        rests = rests and nodes.compartment[target] != tables.births.unborn
    return just_before(until) if rests else real(-NEVER)


def _clock_of(source, arc, target, contacts, tables, nodes):
    """Rate of an arc's clock, and the key of its contacts."""
    layer, peak = layer_of(contacts, arc), tables.calendars.peak
    rate = tables.infections.peak * peak[layer]
    if WEIGHTED:
        rate *= of_arc(contacts.weights, arc)
    entity = contact_entity(arc, source, target, layer, nodes.compartment.size, peak.size)
    return rate, entity
