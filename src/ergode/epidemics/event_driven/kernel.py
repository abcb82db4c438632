"""The exact epidemic of any model, event by event: method ``"sellke"`` on the CPU.

Nodes may become susceptible again, be infected by several strains, be vaccinated, isolated or
traced, and have temporal contacts.  Every random number is keyed by its purpose.
`shared.progression` draws the length of the n-th stay of a node and the next compartment.
`shared.contacts` draws the moments at which two nodes are in effective contact, and a mark for each
contact.  These draws determine the history.  The kernel finds it by taking events in the order of
time.

T. Sellke (J. Appl. Probab. 20, 1983) draws a threshold of exposure for each susceptible.  Here
every arc has a sequence of thresholds, one for each possible infection.

An event is a progression, an effective contact, a detection, a quarantine or an importation.

Events of one moment come in this order: progressions, importations, contacts.  Contacts see all
nodes as they were before any infection of that moment.  A stay is closed at its beginning and open
at its end.  If an infection begins a stay, the stay is open at its beginning, and the stay before
it closed at its end (`Nodes.opened`).
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import by_reference, calls_model, hold, no_refcount, real
from ergode.epidemics.event_driven.births import await_birth, give_birth
from ergode.epidemics.event_driven.contacts import seek_contacts
from ergode.epidemics.event_driven.infections import await_import, import_case, transmit
from ergode.epidemics.event_driven.measures import (
    await_period,
    begin_counters,
    count_move,
    detect,
    pull_triggers,
    put_in_quarantine,
    test_for_release,
    test_line,
    test_traced,
)
from ergode.epidemics.event_driven.queue import (
    clear,
    has_room,
    new_queue,
    pop,
    push,
    unpacked,
    with_room,
)
from ergode.epidemics.event_driven.record import note_move
from ergode.epidemics.event_driven.state import (
    BIRTH,
    BORN,
    CONTACT,
    DETECTION,
    FIRST_STAY,
    FORGET,
    IMPORT,
    NEVER,
    NOBODY,
    NOT_YET,
    PROGRESS,
    QUARANTINE,
    RETEST,
    SEED,
    Event,
    Move,
    Nodes,
    Run,
    nobody_moves,
)
from ergode.epidemics.event_driven.stays import enter, entry_time, progress, wait
from ergode.epidemics.event_driven.tallies import begin_tallies, new_proposed, tally_rest
from ergode.epidemics.seeding import seed_compartment, seed_node
from ergode.epidemics.shared.arcs import end_arc, first_arc, node_count_of
from ergode.epidemics.shared.importation import importation_time
from ergode.epidemics.shared.lines import begin_line_counts, new_lines, nobody_waits
from ergode.epidemics.shared.lives import begin_life
from ergode.epidemics.shared.options import (
    COMPUTED,
    COUNTING,
    HAS_BIRTHS,
    HAS_COUNTERS,
    HAS_LINES,
    HAS_LIVES,
    HAS_QUEUES,
    HAS_RELEASE,
    HAS_STRATA,
    HAS_TRACING,
    HAS_TRIGGERS,
    LISTING,
    TESTS_TRACED,
)
from ergode.epidemics.shared.row_tables import tables_of_row
from ergode.epidemics.shared.sweep import replicate_of
from ergode.epidemics.shared.transmission import TRACE

_ROOM = 64  # events that one event may add, besides contacts and traces


@calls_model
def sellke_cpu(
    start, stop, contacts, points, seed, rows, seed_count, bucket_count, counts, work, cases
):  # fmt: skip
    """Run replicates `start` to `stop`, on one thread.

    `points` has the tables of all points (see `shared.sweep`); a replicate has at most `seed_count`
    seeds.  Out: `counts` [row, time, column], `work` [row, 2], `cases`.
    """
    contacts, points, cases = by_reference(contacts), by_reference(points), by_reference(cases)
    node_count, plan_size, room, announced = _sizes(contacts, points, seed_count)
    queue = new_queue(4 * node_count + room + announced, bucket_count)
    made = Nodes(
        np.empty(node_count, np.uint8), np.empty(node_count, real), np.empty(node_count, real),
        np.empty(node_count, np.int32), np.empty(node_count, np.uint8),
        np.empty(node_count, real), np.empty(node_count, real), np.empty(node_count, np.int32),
        np.empty((plan_size if HAS_TRACING else 1, node_count if HAS_TRACING else 1, 6), real),
        np.empty((plan_size if TESTS_TRACED else 1, node_count if TESTS_TRACED else 1, 4), real),
        np.empty(node_count if TESTS_TRACED else 1, np.uint8),
        np.empty(points.interventions.triggers.counts.shape[1], np.int64),
        np.empty(3 * plan_size + (2 * node_count if HAS_LIVES else 0), real),
        new_lines(plan_size if HAS_LINES else 1, node_count if HAS_LINES else 1),
        np.empty(1, real),
        np.empty((counts.shape[1] + 1, counts.shape[2]), np.int32),
        new_proposed(plan_size, node_count),
        np.empty(node_count if LISTING else 1, np.int64), np.empty(3, np.int64),
        np.empty(node_count if LISTING else 1, real), cases.happened,
    )  # fmt: skip
    nodes = by_reference(made)
    for row in range(start, stop):
        tables = by_reference(tables_of_row(points, rows, row))
        run = Run(row, replicate_of(rows, row), seed, _per_time(queue, tables.end))
        _begin(queue, tables, nodes, cases, run)
        while not _advance(queue, contacts, tables, nodes, cases, room, run):
            queue = with_room(queue, queue.time.size)
        _finish(tables, nodes, run, counts, work)
    hold(made)


@no_refcount
def _sizes(contacts, tables, seed_count):
    """Nodes, interventions, most events after one event, events at time zero."""
    node_count = node_count_of(contacts)
    most = np.int64(0)
    for node in range(1 if COMPUTED else node_count):  # all have as many slots
        most = max(most, end_arc(contacts, node) - first_arc(contacts, node))
    announced = seed_count + tables.importations.rate.size
    if HAS_BIRTHS or tables.stages.kind[tables.base] >= 0:
        announced += node_count
    room = 2 * most + _ROOM
    if HAS_LINES:
        # All who wait may be isolated, or get places, at once.
        room += (3 if HAS_RELEASE else 2) * node_count
        if HAS_TRACING:
            plan = tables.interventions
            for k in range(plan.kind.size):
                if plan.lines.of[k] >= 0 and plan.traced[k, TRACE] > 0.0:
                    room += end_arc(contacts, node_count - 1)  # contacts of all who are tested
    return (
        node_count, tables.interventions.kind.size, np.int64(room), np.int64(announced),
    )  # fmt: skip


@no_refcount
def _finish(tables, nodes, run, counts, work):
    """Turn the moves of a replicate into counts by running sums."""
    row = run.row
    if COUNTING:
        tally_rest(tables, nodes, run)
    work[row, 0] = nodes.work[0]
    work[row, 1] = nodes.work[1]
    for column in range(counts.shape[2]):
        count = 0
        for at in range(counts.shape[1]):
            count += nodes.moves[at, column]
            counts[row, at, column] = count


@no_refcount
def _begin(queue, tables, nodes, cases, run):
    """Put all nodes into the base compartment at time zero; queue the first events."""
    clear(queue)
    compartment, since, until, stay = nodes.compartment, nodes.since, nodes.until, nodes.stay
    moves, population, starts, base = nodes.moves, nodes.population, nodes.starts, tables.base
    for node in range(compartment.size):
        compartment[node] = base
        since[node] = -1.0
        nodes.opened[node] = -1.0
        nodes.ended[node] = -1
        until[node] = NEVER
        stay[node] = 0
    for at in range(moves.shape[0]):
        for column in range(moves.shape[1]):
            moves[at, column] = 0
    for c in range(population.size):
        population[c] = 0
    population[base] = compartment.size
    if HAS_COUNTERS:
        begin_counters(tables.interventions, population)
    if HAS_STRATA:
        stratum, stratum_count = tables.stratum, tables.stratum_count
        for node in range(compartment.size):
            moves[0, base * stratum_count + stratum[node]] += 1
    else:
        moves[0, base] = compartment.size
    first = tables.interventions.start
    for k in range(first.size):
        starts[k] = first[k]
    if HAS_LIVES:
        for node in range(compartment.size):
            begin_life(tables.interventions, starts, node)
    if LISTING:
        cases.count[run.row] = 0
        cases.happened.count[run.row] = 0
        for node in range(compartment.size):
            nodes.case[node] = -1
            nodes.born[node] = NOT_YET
    if COUNTING:
        begin_tallies(tables, nodes, run)
    if HAS_TRACING:
        for k in range(tables.interventions.kind.size):
            for node in range(compartment.size):
                for part in range(3):
                    nodes.quarantine[k, node, part] = -NEVER
                nodes.quarantine[k, node, 3] = NEVER
                nodes.quarantine[k, node, 4] = 0.0
                nodes.quarantine[k, node, 5] = -NEVER
                if TESTS_TRACED:
                    for part in range(3):
                        nodes.traced[k, node, part] = -NEVER
                    nodes.traced[k, node, 3] = 0.0
    nodes.decided[0] = 0.0
    nodes.work[0] = 0
    nodes.work[1] = 0
    nodes.work[BORN] = 0
    if HAS_LINES:
        for node in range(compartment.size):
            nobody_waits(nodes.lines, node)
        begin_line_counts(tables.interventions, nodes.lines, 0, starts)
        for line in range(tables.interventions.lines.measure.size):
            await_period(queue, tables, nodes, np.int64(line), run)
    _announce(
        queue, tables.seeding, tables.importations,
        compartment.size if tables.stages.kind[base] >= 0 else 0, compartment.size, tables.end, run,
    )  # fmt: skip
    if HAS_BIRTHS and tables.stages.kind[base] < 0:  # no event begins a stay
        for node in range(compartment.size):
            await_birth(queue, tables, nodes, np.int64(node), real(0.0), run)


def _per_time(queue, end):
    """Buckets per unit of time; the last bucket also holds events at the last moment."""
    return (queue.bucket.size - 1) / end if end > 0.0 else real(0.0)


def _announce(queue, seeding, imports, movers, node_count, end, run):
    """Queue the events of time zero, and the first importation of each plan."""
    seeds, seed, replicate = seeding.named_count + seeding.drawn_count, run.seed, run.replicate
    for index in range(seeds + movers + imports.rate.size):
        node, arc, time, kind = np.int64(0), np.int64(-1), real(0.0), np.int64(FIRST_STAY)
        if index < seeds:
            kind = np.int64(SEED)
            arc = np.int64(index)
            node = np.int64(seed_node(seeding, index, node_count, seed, replicate))
        elif index < seeds + movers:  # nodes that leave the base compartment without infection
            node = np.int64(index - seeds)
        else:
            kind = np.int64(IMPORT)
            arc = np.int64(index - seeds - movers)
            time = real(importation_time(imports, arc, np.int64(0), time, seed, replicate))
        if time < end:
            push(queue, run.per_time, time, kind, node, arc, np.int32(0), np.uint32(0), np.int64(0))


@no_refcount
def _advance(queue, contacts, tables, nodes, cases, room, run):
    """Process events in the order of time until none is left, or the queue is full.

    Returns whether none is left.
    """
    decided, stays = nodes.decided, nodes.stay
    while True:
        if not has_room(queue, room):
            return False
        slot = pop(queue)
        if slot < 0:
            if HAS_QUEUES and pull_triggers(queue, tables, nodes, tables.end, run):
                continue
            return True
        nodes.work[0] += 1
        event = _event_at(queue, slot, nodes)
        # After all moves of a moment, so that their order does not matter.
        if HAS_TRIGGERS and decided[0] < event.time and pull_triggers(
            queue, tables, nodes, event.time, run
        ):  # fmt: skip
            nodes.work[0] -= 1  # others enter places before
            push(
                queue, run.per_time, event.time, event.kind, event.node, event.arc, event.stay,
                event.key, event.rank,
            )  # fmt: skip
            continue
        kind, node = event.kind, event.node
        ends_with_stay = kind == CONTACT or kind == PROGRESS
        if HAS_BIRTHS:
            ends_with_stay = ends_with_stay or kind == BIRTH
        if ends_with_stay and stays[node] != event.stay and not event.is_over:
            continue  # the node was infected before
        move = nobody_moves()
        if kind == CONTACT:
            move = transmit(event, contacts, tables, nodes, run)
        elif kind == PROGRESS:
            move = progress(event, tables, nodes, run)
            if HAS_QUEUES and move.compartment < 0:
                wait(queue, event, -2 - move.compartment, tables, nodes, run)
                here = Move(node, np.int64(nodes.compartment[node]), NOBODY, False)
                seek_contacts(queue, event, here, contacts, tables, nodes, run)
                continue
        elif kind == SEED:
            seeding = tables.seeding
            compartment = np.int64(seed_compartment(seeding, event.arc))
            move = Move(node, compartment, NOBODY, seeding.is_case[compartment] != 0)
        elif kind == FIRST_STAY:
            if stays[node] == 0:
                move = Move(node, np.int64(tables.base), NOBODY, False)
        elif kind == IMPORT:
            move = import_case(event, tables, nodes, run)
            await_import(queue, event, tables.importations, tables.end, run)
        elif HAS_BIRTHS and kind == BIRTH:
            give_birth(queue, tables, nodes, node, event.time, run)
        elif HAS_COUNTERS and kind == FORGET:
            nodes.population[tables.stages.order.size + 1 + event.arc] -= np.int64(event.key)
            decided[0] = event.time
        elif HAS_TRACING:
            if kind == DETECTION:
                detect(queue, contacts, tables, nodes, event, run)
            elif kind == QUARANTINE:
                if TESTS_TRACED and event.key != 0:
                    test_traced(queue, contacts, tables, nodes, event.arc, node, event.time, run)
                put_in_quarantine(queue, tables, nodes, event.arc, node, event.time, event.key, run)
            elif HAS_RELEASE and kind == RETEST:
                test_for_release(queue, contacts, tables, nodes, event.arc, node, event.time, run)
            elif HAS_LINES:
                test_line(queue, contacts, tables, nodes, event.arc, event.time, run)
        if move.node >= 0:
            entry = entry_time(event, tables.seeding)
            if HAS_COUNTERS:
                count_move(queue, tables, nodes, move, entry, event.time, run)
            note_move(event, move, entry, tables, nodes, cases, run)
            enter(queue, event, move, entry, tables, nodes, run)
        seek_contacts(queue, event, move, contacts, tables, nodes, run)


def _event_at(queue, slot, nodes):
    """The event of a slot of the queue."""
    time = queue.time[slot]
    kind, rank, node, arc, stay, key = unpacked(queue, slot)
    is_over = kind == CONTACT and nodes.stay[node] != stay
    is_over = is_over and nodes.opened[node] == time and nodes.ended[node] == stay
    return Event(time, kind, rank, node, arc, stay, key, is_over)
