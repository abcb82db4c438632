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
Contacts are searched from infectious nodes only, and from the moment on at which the target may be
at risk.  When a contact comes, the next one along its arc is searched.

Events of one moment come in this order: progressions, importations, contacts.  Contacts see all
nodes as they were before any infection of that moment.  A stay is closed at its beginning and open
at its end.  If an infection begins a stay, the stay is open at its beginning, and the stay before
it closed at its end (`Nodes.opened`).
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import by_reference, calls_model, hold, no_refcount, real
from ergode.epidemics.event_driven.births import await_birth, give_birth
from ergode.epidemics.event_driven.measures import (
    ask_for_test,
    await_detection,
    await_period,
    begin_counters,
    count_move,
    detect,
    die,
    left_by_quarantine,
    pull_triggers,
    put_in_quarantine,
    quarantines,
    snap_tests,
    test_for_release,
    test_line,
)
from ergode.epidemics.event_driven.queue import (
    clear,
    has_room,
    key_of,
    kind_of,
    new_queue,
    node_of,
    pop,
    push,
    rank_of,
    stay_of,
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
    NOT_YET,
    PROGRESS,
    QUARANTINE,
    RETEST,
    SEED,
    Event,
    Move,
    Nodes,
    Run,
    counted_in,
)
from ergode.epidemics.event_driven.tallies import begin_tallies, new_proposed, tally_rest
from ergode.epidemics.seeding import seed_age, seed_compartment, seed_node
from ergode.epidemics.shared.arcs import (
    end_arc,
    first_arc,
    is_loop,
    layer_of,
    node_count_of,
    of_arc,
    target_of,
)
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.contacts import (
    NO_KEY,
    contact_entity,
    contact_mark,
    just_before,
    next_contact,
)
from ergode.epidemics.shared.importation import (
    importation_mark,
    importation_time,
    imported,
    imported_node,
)
from ergode.epidemics.shared.lines import (
    admitted_to,
    begin_line_counts,
    enter_place,
    forget_leavers,
    join,
    leaves_at,
    leaves_to,
    line_of,
    new_lines,
    nobody_waits,
)
from ergode.epidemics.shared.lives import begin_life, begin_unborn, live
from ergode.epidemics.shared.options import (
    AVOIDING,
    COMPUTED,
    COUNTING,
    HAS_AGES,
    HAS_BIRTHS,
    HAS_CAPACITIES,
    HAS_COUNTERS,
    HAS_INTERVENTIONS,
    HAS_LEAVERS,
    HAS_LINES,
    HAS_LIVES,
    HAS_QUEUES,
    HAS_RELEASE,
    HAS_STRATA,
    HAS_TRACING,
    HAS_TRIGGERS,
    LISTING,
    THINNED,
    WEIGHTED,
)
from ergode.epidemics.shared.progression import (
    holding_time_of_stay,
    remaining_time,
    stay_index,
)
from ergode.epidemics.shared.row_tables import tables_of_row
from ergode.epidemics.shared.sweep import replicate_of
from ergode.epidemics.shared.tallying import (
    tally_avoided,
    tally_diversions,
    tally_entry,
    tally_leaver,
    tally_wait,
)
from ergode.epidemics.shared.transmission import TRACE, Source, destination_of_stay, outcome
from ergode.epidemics.shared.vaccines import guarded

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


_NOBODY = np.int64(-1)


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
        if HAS_TRIGGERS and decided[0] < event.time:
            rank = rank_of(queue, slot)
            if pull_triggers(queue, tables, nodes, event.time, run):
                nodes.work[0] -= 1  # others enter places before
                push(
                    queue, run.per_time, event.time, event.kind, event.node, event.arc, event.stay,
                    event.key, rank,
                )  # fmt: skip
                continue
        kind, node = event.kind, event.node
        ends_with_stay = kind == CONTACT or kind == PROGRESS
        if HAS_BIRTHS:
            ends_with_stay = ends_with_stay or kind == BIRTH
        if ends_with_stay and stays[node] != event.stay and not event.is_over:
            continue  # the node was infected before
        move = _nobody_moves()
        if kind == CONTACT:
            move = _transmit(event, contacts, tables, nodes, run)
        elif kind == PROGRESS:
            move = _progress(event, tables, nodes, run)
            if HAS_QUEUES and move.compartment < 0:
                _wait(queue, event, -2 - move.compartment, tables, nodes, run)
                here = Move(node, np.int64(nodes.compartment[node]), _NOBODY, False)
                _seek_contacts(queue, event, here, contacts, tables, nodes, run)
                continue
        elif kind == SEED:
            seeding = tables.seeding
            compartment = np.int64(seed_compartment(seeding, event.arc))
            move = Move(node, compartment, _NOBODY, seeding.is_case[compartment] != 0)
        elif kind == FIRST_STAY:
            if stays[node] == 0:
                move = Move(node, np.int64(tables.base), _NOBODY, False)
        elif kind == IMPORT:
            move = _import_case(event, tables, nodes, run)
            _await_import(queue, event, tables.importations, tables.end, run)
        elif HAS_BIRTHS and kind == BIRTH:
            give_birth(queue, tables, nodes, node, event.time, run)
        elif HAS_COUNTERS and kind == FORGET:
            nodes.population[tables.stages.order.size + 1 + event.arc] -= np.int64(event.key)
            decided[0] = event.time
        elif HAS_TRACING:
            if kind == DETECTION:
                detect(queue, contacts, tables, nodes, event, run)
            elif kind == QUARANTINE:
                put_in_quarantine(queue, tables, nodes, event.arc, node, event.time, event.key, run)
            elif HAS_RELEASE and kind == RETEST:
                test_for_release(queue, contacts, tables, nodes, event.arc, node, event.time, run)
            elif HAS_LINES:
                test_line(queue, contacts, tables, nodes, event.arc, event.time, run)
        if move.node >= 0:
            entry = _entry_time(event, tables.seeding)
            if HAS_COUNTERS:
                count_move(queue, tables, nodes, move, entry, event.time, run)
            note_move(event, move, entry, tables, nodes, cases, run)
            _enter(queue, event, move, entry, tables, nodes, run)
        _seek_contacts(queue, event, move, contacts, tables, nodes, run)


def _event_at(queue, slot, nodes):
    """The event of a slot of the queue."""
    time, kind, node = queue.time[slot], kind_of(queue, slot), node_of(queue, slot)
    stay = stay_of(queue, slot)
    is_over = kind == CONTACT and nodes.stay[node] != stay
    is_over = is_over and nodes.opened[node] == time and nodes.ended[node] == stay
    return Event(time, kind, node, queue.item[slot, 1], stay, key_of(queue, slot), is_over)


def _nobody_moves():
    """The empty move of an event that moves no node."""
    return Move(_NOBODY, np.int64(0), _NOBODY, False)


def _may_be_infected(node, time, tables, nodes):
    """Whether a contact at a time may infect a node."""
    at_risk = tables.infections.at_risk[nodes.compartment[node]] != 0
    return at_risk and nodes.opened[node] < time and time < nodes.until[node]


def _transmit(event, contacts, tables, nodes, run):
    """The infection, if any, by an effective contact along an arc."""
    time, node, stay = event.time, event.node, event.stay
    target = np.int64(target_of(contacts, node, event.arc))
    if not _may_be_infected(target, time, tables, nodes):
        return _nobody_moves()
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
    return Move(target if infected >= 0 else _NOBODY, infected, node, True)


def _progress(event, tables, nodes, run):
    """The move of a node at the end of its stay."""
    left = np.int64(nodes.compartment[event.node])
    if HAS_QUEUES:
        line = admitted_to(tables.interventions, nodes.lines, event.node)
        if line >= 0:
            enter_place(nodes.lines, line, event.node)
            if COUNTING:
                tally_wait(counted_in(nodes, run), tables, line, event.node, event.time, -1)
            plan = tables.interventions
            into = np.int64(plan.compartment[plan.lines.measure[line]])
            return Move(event.node, into, _NOBODY, False)
        if HAS_LEAVERS:
            line = line_of(tables.interventions, nodes.lines, event.node)
            if line >= 0:
                return _leave_line(event, line, left, tables, nodes, run)
    index = stay_index(left, event.stay - 1)
    if COUNTING and HAS_CAPACITIES:
        tally_diversions(
            counted_in(nodes, run), tables, nodes.starts, left, index, event.time, run.seed,
            run.replicate, event.node,
        )  # fmt: skip
    compartment = destination_of_stay(
        tables, nodes.starts, left, index, event.time, run.seed, run.replicate, event.node
    )
    return Move(event.node, np.int64(compartment), _NOBODY, False)


def _leave_line(event, line, left, tables, nodes, run):
    """The move of a node that waits for a place, and leaves the line without one."""
    node, state = event.node, nodes.lines
    index = stay_index(left, event.stay - 1)
    into, in_vain = leaves_to(
        tables, line, left, index, nodes.since[node], state.since[line, node], node, run.seed,
        run.replicate,
    )  # fmt: skip
    enter_place(state, line, node)
    forget_leavers(tables.interventions, state, np.int64(0), line, np.int64(0))
    if COUNTING:
        tally_leaver(counted_in(nodes, run), tables, line, node, event.time, in_vain)
    return Move(node, into, _NOBODY, False)


def _wait(queue, event, line, tables, nodes, run):
    """A node waits for a place, in its compartment."""
    node, time, state = event.node, event.time, nodes.lines
    here = np.int64(nodes.compartment[node])
    leaves = leaves_at(
        tables, line, here, stay_index(here, event.stay - 1), nodes.since[node], time, node,
        run.seed, run.replicate,
    )  # fmt: skip
    nodes.until[node] = leaves
    if HAS_LEAVERS and leaves < tables.end:
        push(
            queue, run.per_time, leaves, np.int64(PROGRESS), node, np.int64(-1), event.stay,
            np.uint32(0), np.int64(0),
        )  # fmt: skip
    nodes.opened[node] = max(nodes.opened[node], just_before(time))
    state.since[line, node] = time
    join(tables.interventions, state, np.int64(0), line, np.int64(0), node)
    if COUNTING:
        tally_wait(counted_in(nodes, run), tables, line, node, time, 1)


def _import_case(event, tables, nodes, run):
    """The infection, if any, by an importation."""
    time, plan, number = event.time, tables.interventions, np.int64(event.key)
    seed, replicate = run.seed, run.replicate
    node = np.int64(imported_node(event.arc, number, nodes.compartment.size, seed, replicate))
    if not _may_be_infected(node, time, tables, nodes):
        return _nobody_moves()
    left = real(1.0)
    if HAS_TRACING:
        left = left_by_quarantine(plan, nodes.quarantine, node, node, time)
    if HAS_INTERVENTIONS:
        left *= guarded(plan, nodes.starts, time, node, seed, replicate)
    into = imported(
        tables.importations, tables.infections, event.arc,
        importation_mark(event.arc, number, seed, replicate), left, node, nodes.compartment[node],
    )  # fmt: skip
    return Move(node if into >= 0 else _NOBODY, into, _NOBODY, True)


def _await_import(queue, event, imports, end, run):
    """Queue the next importation of this plan."""
    number = np.int64(event.key) + 1
    later = importation_time(imports, event.arc, number, event.time, run.seed, run.replicate)
    if later < end:
        push(
            queue, run.per_time, later, np.int64(IMPORT), np.int64(0), event.arc, np.int32(0),
            np.uint32(number), np.int64(0),
        )  # fmt: skip


def _entry_time(event, seeding):
    """Time of entry into the new compartment; before time zero for a seed with an age."""
    if HAS_AGES and event.kind == SEED:
        return event.time - real(seed_age(seeding, event.arc))
    return event.time


def _enter(queue, event, move, entry, tables, nodes, run):
    """Begin the stay of a node in its new compartment; queue the events that may end it."""
    time, node, compartment = event.time, move.node, move.compartment
    stages, end, stays, opened = tables.stages, tables.end, nodes.stay, nodes.opened
    index, old = stay_index(compartment, stays[node]), np.int64(nodes.compartment[node])
    if move.is_case:
        nodes.ended[node] = stays[node]
        nodes.was[node] = nodes.compartment[node]
        nodes.was_since[node] = nodes.since[node]
    stays[node] += np.int32(1)
    nodes.compartment[node] = compartment
    nodes.since[node] = entry
    if move.is_case and event.kind != SEED:
        opened[node] = time
    else:
        opened[node] = max(opened[node], just_before(time))
    if HAS_AGES:
        age = real(0.0)
        if event.kind == SEED:
            age = real(seed_age(tables.seeding, event.arc))
        leaves = time + remaining_time(
            stages, compartment, index, age, run.seed, run.replicate, node
        )
    else:
        leaves = time + holding_time_of_stay(
            stages, compartment, index, run.seed, run.replicate, node
        )
    leaves = at_moment(tables.moments, leaves)
    nodes.until[node] = leaves
    if HAS_LIVES:
        plan, outside = tables.interventions, tables.births.outside
        if event.kind == SEED and outside[compartment] != 0:
            begin_unborn(plan, nodes.starts, node, leaves)
        else:
            live(plan, outside, nodes.starts, node, old, compartment, time)
            if outside[old] == 0 and outside[compartment] != 0:
                die(tables, nodes, node, time, run)
    if leaves < end:
        push(
            queue, run.per_time, leaves, np.int64(PROGRESS), node, np.int64(-1), stays[node],
            np.uint32(0), np.int64(0),
        )  # fmt: skip
    if HAS_BIRTHS:
        await_birth(queue, tables, nodes, node, time, run)
    if HAS_RELEASE:
        snap_tests(queue, tables, nodes, node, run)
    if HAS_TRACING:
        await_detection(queue, tables, node, stays[node], compartment, entry, leaves, run)
    if HAS_LINES:
        ask_for_test(tables, nodes, node, stays[node], compartment, real(entry), run)
    if COUNTING:
        tally_entry(
            counted_in(nodes, run), tables, nodes.starts, node, stays[node], compartment, entry,
            time, run.seed, run.replicate,
        )  # fmt: skip


def _seek_contacts(queue, event, move, contacts, tables, nodes, run):
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
