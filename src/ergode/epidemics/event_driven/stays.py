"""Stays in the event-driven kernel: how they begin, how they end, and who waits for a place."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.epidemics.event_driven.births import await_birth
from ergode.epidemics.event_driven.measures import ask_for_test, await_detection, die, snap_tests
from ergode.epidemics.event_driven.queue import push_end
from ergode.epidemics.event_driven.state import NOBODY, SEED, Move, counted_in
from ergode.epidemics.seeding import seed_age
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.contacts import just_before
from ergode.epidemics.shared.lines import (
    admitted_to,
    enter_place,
    forget_leavers,
    join,
    leaves_at,
    leaves_to,
    line_of,
)
from ergode.epidemics.shared.lives import begin_unborn, live
from ergode.epidemics.shared.options import (
    COUNTING,
    HAS_AGES,
    HAS_BIRTHS,
    HAS_CAPACITIES,
    HAS_LEAVERS,
    HAS_LINES,
    HAS_LIVES,
    HAS_QUEUES,
    HAS_RELEASE,
    HAS_TRACING,
    TESTS_TRACED,
)
from ergode.epidemics.shared.progression import holding_time_of_stay, remaining_time, stay_index
from ergode.epidemics.shared.tallying import tally_diversions, tally_entry, tally_leaver, tally_wait
from ergode.epidemics.shared.transmission import destination_of_stay


def entry_time(event, seeding):
    """Time of entry into the new compartment; before time zero for a seed with an age."""
    if HAS_AGES and event.kind == SEED:
        return event.time - real(seed_age(seeding, event.arc))
    return event.time


def enter(queue, event, move, entry, tables, nodes, run):
    """Begin the stay of a node in its new compartment; queue the events that may end it."""
    time, node, compartment = event.time, move.node, move.compartment
    stages, end, stays, opened = tables.stages, tables.end, nodes.stay, nodes.opened
    index, old = stay_index(compartment, stays[node]), np.int64(nodes.compartment[node])
    if move.is_case:
        nodes.ended[node] = stays[node]
        nodes.was[node] = nodes.compartment[node]
        nodes.was_since[node] = nodes.since[node]
    if TESTS_TRACED:
        nodes.before[node] = nodes.compartment[node]
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
        push_end(queue, run, node, stays[node], leaves)
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


def progress(event, tables, nodes, run):
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
            return Move(event.node, into, NOBODY, False)
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
    return Move(event.node, np.int64(compartment), NOBODY, False)


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
    return Move(node, into, NOBODY, False)


def wait(queue, event, line, tables, nodes, run):
    """A node waits for a place, in its compartment."""
    node, time, state = event.node, event.time, nodes.lines
    here = np.int64(nodes.compartment[node])
    leaves = leaves_at(
        tables, line, here, stay_index(here, event.stay - 1), nodes.since[node], time, node,
        run.seed, run.replicate,
    )  # fmt: skip
    nodes.until[node] = leaves
    if HAS_LEAVERS and leaves < tables.end:
        push_end(queue, run, node, event.stay, leaves)
    nodes.opened[node] = max(nodes.opened[node], just_before(time))
    state.since[line, node] = time
    join(tables.interventions, state, np.int64(0), line, np.int64(0), node)
    if COUNTING:
        tally_wait(counted_in(nodes, run), tables, line, node, time, 1)
