"""What happens is recorded in the event-driven kernel: counts by time, and the line list."""

from __future__ import annotations

import numpy as np

from ergode.epidemics.event_driven.state import FIRST_STAY, NOT_YET
from ergode.epidemics.event_driven.tallies import tally_leaving
from ergode.epidemics.shared.counts import grid_index
from ergode.epidemics.shared.options import COUNTING, COUNTING_ENTRIES, HAS_STRATA, LISTING


def note_move(event, move, entry, tables, nodes, cases, run):
    """Count a move on the grid of times, and list it."""
    node, compartment = move.node, move.compartment
    moves, population = nodes.moves, nodes.population
    stratum, stratum_count = tables.stratum, tables.stratum_count
    if move.is_case:
        nodes.work[1] += 1
        population[tables.stages.order.size] += 1
        if LISTING:
            _note_case(cases, nodes, run.row, node, move.infector, entry)
    if LISTING:
        number = nodes.case[node]
        if number >= 0 and number < cases.node.shape[1]:
            cases.entered[run.row, number, compartment] = entry
    old = np.int64(nodes.compartment[node])
    if LISTING and tables.births.outside[old] != 0 and tables.births.outside[compartment] == 0:
        nodes.born[node] = entry
    if COUNTING:
        tally_leaving(tables, nodes, node, event.time, run)
    at = grid_index(tables.times, tables.per_step, event.time)
    if move.is_case:
        first = tables.stages.order.size * stratum_count
        moves[at, first + stratum[node] if HAS_STRATA else first] += 1
    if COUNTING_ENTRIES and event.kind != FIRST_STAY:
        first = (tables.stages.order.size + 1 + compartment) * stratum_count
        moves[at, first + stratum[node] if HAS_STRATA else first] += 1
    if HAS_STRATA:
        moves[at, old * stratum_count + stratum[node]] -= 1
        moves[at, compartment * stratum_count + stratum[node]] += 1
    else:
        moves[at, old] -= 1
        moves[at, compartment] += 1
    population[old] -= 1
    population[compartment] += 1
    nodes.decided[0] = event.time


def _note_case(cases, nodes, row, node, infector, time):
    """Begin an entry of the line list."""
    number = cases.count[row]
    cases.count[row] = number + 1
    nodes.case[node] = number
    if number < cases.node.shape[1]:
        cases.node[row, number] = node
        cases.infector[row, number] = infector
        cases.time[row, number] = time
        cases.born[row, number] = nodes.born[node]
        for k in range(cases.entered.shape[2]):
            cases.entered[row, number, k] = NOT_YET
