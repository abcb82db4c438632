"""Final moves of nodes: initial compartments, and the settled part of paths."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, real, to_bits
from ergode.epidemics.seeding import seed_age, seed_compartment, seed_node
from ergode.epidemics.shared.arcs import end_arc, first_arc, node_count_of, target_of
from ergode.epidemics.shared.atomics import add
from ergode.epidemics.shared.counts import Counted, grid_index
from ergode.epidemics.shared.lines import admitted_to, begin_line_counts, line_of, nobody_waits
from ergode.epidemics.shared.lives import begin_life, begin_unborn
from ergode.epidemics.shared.options import (
    COUNTING,
    COUNTING_ENTRIES,
    HAS_AGES,
    HAS_BIRTHS,
    HAS_CAPACITIES,
    HAS_COUNTERS,
    HAS_LEAVERS,
    HAS_LINES,
    HAS_LIVES,
    HAS_QUEUES,
    HAS_SCREENING,
    HAS_STRATA,
    HAS_TRACING,
    HAS_TRIGGERS,
    LISTING,
)
from ergode.epidemics.shared.progression import stay_index
from ergode.epidemics.shared.tallying import (
    begin_tests,
    tally_death,
    tally_diversions,
    tally_entry,
    tally_exit,
    tally_tests,
)
from ergode.epidemics.windows.births import begin_births
from ergode.epidemics.windows.lines import ask_for_test, enter_places, leave_line, wait_for_place
from ergode.epidemics.windows.state import (
    INFECTED,
    Place,
    begin_at_base,
    compartment_of,
    destination,
    is_infection,
    is_open_at_first,
    is_wait,
    moves_of,
    set_moves,
    set_stay,
    since_of,
    stay_of,
    until_of,
)
from ergode.epidemics.windows.tracing import await_detection, begin_holds, carry_out
from ergode.epidemics.windows.triggers import BINS, count_move, forget_entries

_NEVER = float("inf")


class Records(NamedTuple):
    """Every move, in the order of time for each node: one row of each array per replicate."""

    count: Any  # int64 [row]; may exceed `room`
    node: Any  # int32 [row, room]
    time: Any  # real
    to: Any  # and whether it is an infection, as in paths; uint8
    infector: Any  # int32; -1 for seeds and importations


class Results(NamedTuple):
    """Results of a chunk."""

    records: Records
    moves: Any  # int32 [row, time, column], see `shared.ensemble`; in the end counts
    happened: Any  # see `shared.counts`


def counted_in(results, row):
    """Where what measures do in a replicate is counted."""
    return Counted(results.moves[row], results.happened, np.int64(row))


class Move(NamedTuple):
    """A node enters a compartment."""

    compartment: Any
    infected: Any  # whether the node becomes a case
    at_once: Any  # whether the infection is at this moment
    infector: Any  # -1 if nobody infected the node
    time: Any
    age: Any  # age in the compartment; zero except for seeds


def column_of(tables, compartment, node):
    """Column of counts in which a node in a compartment is counted."""
    if HAS_STRATA:
        return np.int64(compartment * tables.stratum_count + tables.stratum[node])
    return np.int64(compartment)


def _enter(epidemic, results, place, move, stay):
    """Make a move final; the node had `stay` earlier stays."""
    tables, paths, triggers = epidemic.tables, epidemic.paths, epidemic.triggers
    position, node, compartment, time = place.position, place.node, move.compartment, move.time
    is_open = move.at_once or (
        is_open_at_first(paths, position) and since_of(paths, position) == time
    )
    at = np.int64(grid_index(tables.times, tables.per_step, time))
    old = compartment_of(paths, position)
    row, moves = np.int64(place.row), results.moves
    if at < moves.shape[1]:
        add(moves, (row, at, column_of(tables, old, node)), np.int32(-1))
        add(moves, (row, at, column_of(tables, compartment, node)), np.int32(1))
        if move.infected:
            add(moves, (row, at, column_of(tables, tables.stages.order.size, node)), np.int32(1))
        if COUNTING_ENTRIES:
            entered = tables.stages.order.size + 1 + compartment
            add(moves, (row, at, column_of(tables, entered, node)), np.int32(1))
    if COUNTING:
        _tally_leaving(epidemic, results, place, old, time)
        if HAS_LIVES and HAS_LINES:
            outside = tables.births.outside
            if outside[old] == 0 and outside[compartment] != 0 and time > 0.0:
                counted = counted_in(results, row)
                tally_death(counted, tables, epidemic.lines, position, node, time)
    change = np.int32(tables.infections.infectious[compartment] != 0) - np.int32(
        tables.infections.infectious[old] != 0
    )
    if change != 0:
        _expose(epidemic, position, node, np.int32(change))
    if HAS_TRIGGERS:
        slot = np.int64(place.slot)
        add(triggers.population, (slot, old), np.int32(-1))
        add(triggers.population, (slot, np.int64(compartment)), np.int32(1))
        if move.infected:
            cases = np.int64(tables.stages.order.size)
            add(triggers.population, (slot, cases), np.int32(1))
        if HAS_COUNTERS:
            count_move(epidemic, place, old, move)
    if LISTING:
        records = results.records
        number = add(records.count, row, np.int64(1))
        if number < records.node.shape[1]:
            records.node[row, number] = node
            records.time[row, number] = time - move.age
            records.to[row, number] = np.uint8(compartment | (INFECTED if move.infected else 0))
            records.infector[row, number] = move.infector
    set_stay(
        tables, paths, position, node, compartment, time, move.age, is_open, stay, epidemic.seed,
        place.replicate,
    )  # fmt: skip
    if HAS_TRACING:
        await_detection(
            tables, epidemic.tracing, position, node, compartment, time - move.age,
            until_of(paths, position), stay + np.int32(1), epidemic.seed, place.replicate,
        )  # fmt: skip
    if HAS_LINES:
        ask_for_test(
            epidemic, counted_in(results, row), place, stay + np.int32(1), compartment,
            real(time - move.age),
        )  # fmt: skip
    if COUNTING:
        tally_entry(
            counted_in(results, row), tables, triggers.starts[place.slot], node, stay + np.int32(1),
            compartment, real(time - move.age), time, epidemic.seed, place.replicate,
        )  # fmt: skip


def _expose(epidemic, position, node, change):
    """Count an infectious node more, or less, among the sources of its contacts."""
    outgoing = epidemic.contacts.outgoing
    for arc in range(first_arc(outgoing, node), end_arc(outgoing, node)):
        target = np.int64(target_of(outgoing, node, arc))
        add(epidemic.paths.exposing, position - node + target, change)


def _tally_leaving(epidemic, results, place, compartment, time):
    """A node is about to leave its compartment."""
    counted, position = counted_in(results, place.row), place.position
    tally_tests_before(epidemic, counted, place, compartment, time)
    tally_exit(
        counted, epidemic.tables, epidemic.triggers.starts[place.slot], place.node,
        stay_of(epidemic.paths, position), compartment, since_of(epidemic.paths, position), time,
        epidemic.seed, place.replicate,
    )  # fmt: skip


def tally_tests_before(epidemic, counted, place, compartment, time):
    """Count a node's negative tests at a rate before a time."""
    if HAS_SCREENING:
        tally_tests(
            counted, epidemic.tracing.proposed, epidemic.tables,
            epidemic.triggers.starts[place.slot], place.position, place.node, compartment, time,
            epidemic.seed, place.replicate,
        )  # fmt: skip


def begin_node(epidemic, position, node, replicate):
    """Initialise a node that is not a seed, at time zero."""
    tables, tracing, seed = epidemic.tables, epidemic.tracing, epidemic.seed
    incoming = epidemic.contacts.incoming
    in_degree = end_arc(incoming, node) - first_arc(incoming, node)
    begin_at_base(tables, epidemic.paths, position, node, in_degree, seed, replicate)
    if HAS_COUNTERS:
        epidemic.recent.count[position] = 0
    if HAS_LIVES:
        starts = epidemic.triggers.starts[(position - node) // node_count_of(incoming)]
        begin_life(tables.interventions, starts, node)
    if HAS_LINES:
        nobody_waits(epidemic.lines, position)
    if HAS_TRACING:
        tracing.count[position] = 0
        for k in range(tracing.until.shape[0]):
            begin_holds(tracing, k, position)
        if COUNTING and HAS_SCREENING:
            begin_tests(tracing.proposed, tables, position, node, seed, replicate)
        if tables.stages.kind[tables.base] >= 0:
            await_detection(
                tables, tracing, position, node, np.int64(tables.base), real(0.0),
                until_of(epidemic.paths, position), np.int32(1), seed, replicate,
            )  # fmt: skip


def begin_clock(epidemic, slot, node_count):
    """A replicate at time zero."""
    tables, triggers = epidemic.tables, epidemic.triggers
    never = bits(to_bits(real(_NEVER)))
    if HAS_BIRTHS:
        begin_births(triggers.births, slot)
    for odd in range(2):
        triggers.begin[odd, slot] = 0.0
        triggers.cut[odd, slot] = never
    for k in range(tables.interventions.start.size):
        triggers.starts[slot, k] = tables.interventions.start[k]
    for k in range(triggers.rank.shape[1]):
        triggers.rank[slot, k] = np.int32(0)
        if HAS_TRIGGERS:
            for at in range(BINS):
                triggers.arrivals[slot, k, at] = np.int32(0)
    for c in range(triggers.population.shape[1]):
        triggers.population[slot, c] = np.int32(0)
    triggers.population[slot, tables.base] = np.int32(node_count)
    if HAS_COUNTERS:
        counters = tables.interventions.triggers.counters
        for counter in range(counters.window.size):
            at = tables.stages.order.size + 1 + counter
            triggers.population[slot, at] = counters.at_first[counter]
    if HAS_LINES:
        begin_line_counts(tables.interventions, epidemic.lines, slot, triggers.starts[slot])


def place_seed(epidemic, results, row, slot, index, node_count, replicate):
    """Put a seed into its compartment."""
    seeding = epidemic.tables.seeding
    node = np.int64(seed_node(seeding, index, node_count, epidemic.seed, replicate))
    compartment = seed_compartment(seeding, index)
    position = slot * node_count + node
    # `begin_node` has stored the first stay of a node that is not a seed.
    if HAS_TRACING:
        epidemic.tracing.count[position] = 0
    age = real(0.0)
    if HAS_AGES:
        age = real(seed_age(seeding, index))
    move = Move(
        np.int64(compartment), seeding.is_case[compartment] != 0, False, np.int64(-1), real(0.0),
        age,
    )  # fmt: skip
    place = Place(row, slot, position, node, replicate)
    _enter(epidemic, results, place, move, np.int32(0))
    if HAS_LIVES and epidemic.tables.births.outside[compartment] != 0:
        starts, until = epidemic.triggers.starts[slot], until_of(epidemic.paths, position)
        begin_unborn(epidemic.tables.interventions, starts, node, until)


def _tally_diversions(epidemic, results, place, k, time):
    """Count the places that a node does not find, if the k-th move of its path is by itself."""
    paths, position = epidemic.paths, place.position
    if is_infection(paths, k, position):
        return
    plan, lines = epidemic.tables.interventions, epidemic.lines
    if HAS_QUEUES and admitted_to(plan, lines, position) >= 0:
        return
    if HAS_LEAVERS and line_of(plan, lines, position) >= 0:
        return
    here = compartment_of(paths, position)
    index = stay_index(here, stay_of(paths, position) - np.int32(1))
    tally_diversions(
        counted_in(results, place.row), epidemic.tables, epidemic.triggers.starts[place.slot], here,
        index, time, epidemic.seed, place.replicate, place.node,
    )  # fmt: skip


def settle(epidemic, results, place, end):
    """Make the moves of a path before `end` final."""
    paths, position = epidemic.paths, place.position
    count = moves_of(paths, position)
    if count > 0:
        set_moves(paths, position, np.int64(0))
    for k in range(count):
        time = paths.time[k, position]
        if time < end:
            if COUNTING and HAS_CAPACITIES:
                _tally_diversions(epidemic, results, place, k, time)
            if HAS_QUEUES:
                if is_wait(paths, k, position, compartment_of(paths, position)):
                    wait_for_place(epidemic, counted_in(results, place.row), place, time)
                    continue
                if HAS_LEAVERS and not is_infection(paths, k, position):
                    leave_line(epidemic, counted_in(results, place.row), place, time)
                enter_places(epidemic, counted_in(results, place.row), place, time)
            if HAS_BIRTHS and compartment_of(paths, position) == epidemic.tables.births.unborn:
                add(epidemic.triggers.births.born, np.int64(place.slot), 1)
            infector = np.int64(-1)
            if LISTING:
                infector = np.int64(paths.infector[k, position])
            infected = is_infection(paths, k, position)
            move = Move(
                destination(paths, k, position), infected, infected, infector, time, real(0.0)
            )
            _enter(epidemic, results, place, move, stay_of(paths, position))
    if COUNTING:
        tally_tests_before(
            epidemic, counted_in(results, place.row), place, compartment_of(paths, position), end
        )
    if HAS_COUNTERS:
        forget_entries(epidemic, place, end)
    if HAS_TRACING and epidemic.tracing.count[position] > 0:
        carry_out(
            counted_in(results, place.row), epidemic.contacts.outgoing, epidemic.tables,
            epidemic.tracing, epidemic.triggers.starts[place.slot], position, place.node, end,
            epidemic.seed, place.replicate,
        )  # fmt: skip
