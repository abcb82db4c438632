"""Infections in the event-driven kernel: by contacts along arcs, and by importations."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.epidemics.event_driven.measures import left_by_quarantine, quarantines
from ergode.epidemics.event_driven.queue import push
from ergode.epidemics.event_driven.state import IMPORT, NOBODY, Move, counted_in, nobody_moves
from ergode.epidemics.shared.arcs import layer_of, target_of
from ergode.epidemics.shared.contacts import contact_entity, contact_mark
from ergode.epidemics.shared.importation import (
    importation_mark,
    importation_time,
    imported,
    imported_node,
)
from ergode.epidemics.shared.options import AVOIDING, HAS_INTERVENTIONS, HAS_TRACING, THINNED
from ergode.epidemics.shared.tallying import tally_avoided
from ergode.epidemics.shared.transmission import Source, outcome
from ergode.epidemics.shared.vaccines import guarded


def _may_be_infected(node, time, tables, nodes):
    """Whether a contact at a time may infect a node."""
    at_risk = tables.infections.at_risk[nodes.compartment[node]] != 0
    return at_risk and nodes.opened[node] < time and time < nodes.until[node]


def transmit(event, contacts, tables, nodes, run):
    """The infection, if any, by an effective contact along an arc."""
    time, node, stay = event.time, event.node, event.stay
    target = np.int64(target_of(contacts, node, event.arc))
    if not _may_be_infected(target, time, tables, nodes):
        return nobody_moves()
    infected = np.int64(tables.infections.infected[0])
    if THINNED:
        layer = layer_of(contacts, event.arc)
        left = real(1.0)
        if HAS_TRACING:
            left = left_by_quarantine(tables.interventions, nodes.quarantine, node, target, time)
        entity = contact_entity(
            event.arc, node, target, layer, nodes.compartment.size, tables.calendars.peak.size
        )
        source = Source(
            node, np.int64(nodes.was[node] if event.is_over else nodes.compartment[node]),
            nodes.was_since[node] if event.is_over else nodes.since[node], stay,
        )  # fmt: skip
        mark = contact_mark(entity, event.key, run.seed, run.replicate)
        compartment = np.int64(nodes.compartment[target])
        infected = np.int64(
            outcome(
                tables, nodes.starts, mark, left, time, layer, source, target, compartment,
                run.seed, run.replicate,
            )
        )  # fmt: skip
        if AVOIDING and infected < 0:
            held = np.uint64(0)
            if HAS_TRACING:
                held = quarantines(tables.interventions, nodes.quarantine, node, target, time)
            tally_avoided(
                counted_in(nodes, run), tables, nodes.starts, held, mark, time, layer, source,
                target, compartment, run.seed, run.replicate,
            )  # fmt: skip
    return Move(target if infected >= 0 else NOBODY, infected, node, True)


def import_case(event, tables, nodes, run):
    """The infection, if any, by an importation."""
    time, plan, number = event.time, tables.interventions, np.int64(event.key)
    seed, replicate = run.seed, run.replicate
    node = np.int64(imported_node(event.arc, number, nodes.compartment.size, seed, replicate))
    if not _may_be_infected(node, time, tables, nodes):
        return nobody_moves()
    left = real(1.0)
    if HAS_TRACING:
        left = left_by_quarantine(plan, nodes.quarantine, node, node, time)
    if HAS_INTERVENTIONS:
        left *= guarded(plan, nodes.starts, time, node, seed, replicate)
    into = imported(
        tables.importations, tables.infections, event.arc,
        importation_mark(event.arc, number, seed, replicate), left, node, nodes.compartment[node],
    )  # fmt: skip
    return Move(node if into >= 0 else NOBODY, into, NOBODY, True)


def await_import(queue, event, imports, end, run):
    """Queue the next importation of this plan."""
    number = np.int64(event.key) + 1
    later = importation_time(imports, event.arc, number, event.time, run.seed, run.replicate)
    if later < end:
        push(
            queue, run.per_time, later, np.int64(IMPORT), np.int64(0), event.arc, np.int32(0),
            np.uint32(number), np.int64(0),
        )  # fmt: skip
