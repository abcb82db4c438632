"""One step of a tile by a warp: which of its nodes move, and where.

A lane has four nodes, 32 apart.  Their compartments are the bytes of one word, and their draws are
one block of random numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, fma, real, unroll
from ergode.core.group import EVERY_LANE, least_of_lanes
from ergode.core.math.random import LEAP_EVENT, draw_words
from ergode.epidemics.leap.factors import susceptibility
from ergode.epidemics.leap.gather import gather_one, gather_tile, is_in
from ergode.epidemics.leap.grid import TILE
from ergode.epidemics.leap.options import (
    ADAPTIVE,
    AGED,
    CHANNEL_LAYER,
    CHANNEL_SUSCEPTIBLE,
    CHANNELS,
    COUNTED,
    GATHERS,
    INFECTED,
    KEEPING_MASK,
    LAYERS,
    LEAVING_MASK,
    MODULATED,
    PUSHES,
    SAMPLED,
    SKIPS,
    SOURCE_MASK,
    SUSCEPTIBLE,
    SUSCEPTIBLE_MASK,
    THRESHOLDS,
)
from ergode.epidemics.leap.push import push_all
from ergode.epidemics.leap.step import (
    arrival_tick,
    block_of,
    chosen_part,
    chosen_share,
    column,
    either,
    ending_rate,
    from_block,
    infection_probability,
    is_infection,
    leaving_probability,
    threshold,
)
from ergode.epidemics.shared.options import COUNTING_ENTRIES, HAS_STRATA
from ergode.epidemics.shared.progression import next_compartment_of_stay

_NEVER = 2**31 - 1  # ticks


class Four(NamedTuple):
    """The four nodes of a lane when a step begins."""

    first_node: Any  # the others are 32, 64 and 96 places from it
    word: Any  # compartments, a byte each
    compartment: Any  # the compartments as a tuple


def step_tile(tile, step, threads, sizes, nodes, shared, tables, hubs, moves):
    """Advance the nodes of a tile by a step.

    Returns for a lane: changes of infectivity, infectious nodes, the increase of infectious nodes
    (if tiles are skipped), and the largest hazard.
    """
    at = np.uint32(tile * 32 + threads.lane)
    word = nodes.state[at]
    four = Four(
        np.int32(tile * TILE + threads.lane),
        word,
        tuple(np.uint32(np.uint32(word >> np.uint32(8 * j)) & 31) for j in range(4)),
    )
    mine = np.uint32(threads.warp * TILE + threads.lane)
    if GATHERS and step.gathering:
        gather_tile(four, mine, step, sizes, nodes, shared, tables, hubs)
    held, pushed, pressure, weighed = _pressures(four, mine, step, sizes, nodes, shared)
    weighed = _modulated(four, pressure, weighed, step, nodes, tables)
    since_when, left_now = _thresholds(four, held, step, nodes)
    leaves = _leaving(four, since_when, step, nodes, tables)
    largest = real(0.0)
    if ADAPTIVE:
        largest = _largest_hazard(four, weighed, step, nodes, tables)
    hits = np.uint32(0)
    if THRESHOLDS:
        hits = _threshold_hits(four, pressure, pushed, left_now, leaves, step, nodes)
    if SKIPS:
        _note_due(tile, four, hits, pressure, since_when, left_now, step, threads, nodes)
    any_pressure = pressure[0] | pressure[1] | pressure[2] | pressure[3]
    any_leaving = max(max(leaves[0], leaves[1]), max(leaves[2], leaves[3]))
    if (any_pressure != 0 or any_leaving > 0.0) and not THRESHOLDS:
        hits = draw_hits(four, step, pressure, weighed, leaves, nodes, tables.probabilities)
    new_word, turned, changes = _move(
        four, hits, pressure, weighed, leaves, step, sizes, nodes, shared, tables, moves
    )
    if new_word != word:
        nodes.state[at] = new_word
    if PUSHES and not step.gathers_next:
        push_all(
            threads.lane, four.first_node, turned, word, new_word, tables.outgoing,
            tables.rules, sizes.padded_count, step.delta_there, nodes.delta, nodes.touched,
            np.uint32(np.uint32(1 - step.odd) * np.uint32(sizes.tile_count)),
        )  # fmt: skip
    infectious = np.int64(0)
    present = np.int32(0)
    if SKIPS:  # of a model with one source
        if step.number > np.uint32(0):
            present -= infectious_four(SOURCE_MASK[0], word)
        present += infectious_four(SOURCE_MASK[0], new_word)
    else:
        infectious = _note_sources(tile, new_word, step, threads, sizes, nodes)
    return changes, infectious, present, largest


def _pressures(four, mine, step, sizes, nodes, shared):
    """Forces of infection on a lane's nodes.

    Returns, of the last channel, what was held before the last step and what was pushed in it; of
    all channels, sums in units and sums weighed by the factors of layers.
    """
    compartment, first_node = four.compartment, four.first_node
    held = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
    pushed = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
    pressure = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
    weighed = (real(0.0), real(0.0), real(0.0), real(0.0))
    if PUSHES and not step.gathering:
        for channel in unroll(range(CHANNELS)):
            slot = np.uint32(channel * sizes.padded_count + first_node)
            # All reads before any write, so that they overlap.
            held = tuple(
                read_if(KEEPING_MASK, compartment[j], nodes.pressure, slot + 32 * j)
                for j in range(4)
            )
            pushed = tuple(
                read_if(KEEPING_MASK, compartment[j], nodes.delta, step.delta_here + slot + 32 * j)
                for j in range(4)
            )
            for j in unroll(range(4)):
                if pushed[j] != 0:
                    nodes.delta[np.uint32(step.delta_here + slot + 32 * j)] = np.int32(0)
                    nodes.pressure[np.uint32(slot + 32 * j)] = np.int32(held[j] + pushed[j])
            pressure = tuple(
                np.int32(
                    pressure[j]
                    + (
                        held[j] + pushed[j]
                        if compartment[j] == np.uint32(CHANNEL_SUSCEPTIBLE[channel])
                        else 0
                    )
                )
                for j in range(4)
            )
            if LAYERS > 1:
                weighed = tuple(
                    fma(
                        step.factor[CHANNEL_LAYER[channel]],
                        real(
                            held[j] + pushed[j]
                            if compartment[j] == np.uint32(CHANNEL_SUSCEPTIBLE[channel])
                            else 0
                        ),
                        weighed[j],
                    )
                    for j in range(4)
                )
    if GATHERS and step.gathering:
        pressure = tuple(shared.gathered[np.uint32(mine + np.uint32(32 * j))] for j in range(4))
        if PUSHES:  # of a model with one infection
            if not step.gathers_next:
                for j in unroll(range(4)):
                    nodes.pressure[np.uint32(first_node + 32 * j)] = pressure[j]
            pressure = tuple(
                pressure[j] if is_in(SUSCEPTIBLE_MASK, compartment[j]) else np.int32(0)
                for j in range(4)
            )
    return held, pushed, pressure, weighed


def _modulated(four, pressure, weighed, step, nodes, tables):
    """Forces of infection weighed by the factors of layers and the vaccines of nodes."""
    if LAYERS == 1:
        weighed = tuple(real(pressure[j]) for j in range(4))
    if MODULATED:
        if LAYERS == 1:
            weighed = tuple(fma(step.factor[0], real(pressure[j]), real(0.0)) for j in range(4))
        middle = fma(real(step.start) + 0.5 * real(step.ticks), tables.schedule.tick, real(0.0))
        weighed = tuple(
            weighed[j]
            * (
                susceptibility(
                    tables.factors.vaccines, np.int64(four.first_node + 32 * j), middle,
                    nodes.seed, nodes.replicate,
                )
                if pressure[j] > 0
                else real(1.0)
            )
            for j in range(4)
        )  # fmt: skip
    return weighed


def _thresholds(four, held, step, nodes):
    """Stored ticks of a lane's nodes, and the rests of their thresholds; zeros if not stored."""
    since_when = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
    left_now = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
    if THRESHOLDS:
        since_when = tuple(
            read_if(
                SUSCEPTIBLE_MASK | LEAVING_MASK,
                four.compartment[j],
                nodes.since,
                four.first_node + 32 * j,
            )
            for j in range(4)
        )
        left_now = tuple(
            read_if(SUSCEPTIBLE_MASK, four.compartment[j], nodes.left, four.first_node + 32 * j)
            for j in range(4)
        )
        if PUSHES:
            # The force of infection on a node was constant since it was last written.
            left_now = tuple(
                np.int32(left_now[j] - held[j] * (step.start - since_when[j])) for j in range(4)
            )
    return since_when, left_now


def _leaving(four, since_when, step, nodes, tables):
    """Probabilities of a lane's nodes to progress within the step."""
    if THRESHOLDS:
        leaves = tuple(due_by(four.compartment[j], since_when[j], step.end) for j in range(4))
    elif SAMPLED:
        leaves = tuple(
            leaves_by(four.compartment[j], nodes.since, four.first_node + 32 * j, step.end)
            for j in range(4)
        )
    else:
        leaves = tuple(
            probability_to_leave(
                four.compartment[j], nodes.since, four.first_node + 32 * j, step.start, step.ticks,
                tables.stages, tables.probabilities, tables.schedule,
            )
            for j in range(4)
        )  # fmt: skip
    return leaves


def _largest_hazard(four, weighed, step, nodes, tables):
    """The largest hazard of a lane's nodes."""
    largest = real(0.0)
    for j in unroll(range(4)):
        own_rate = real(0.0)
        if is_in(LEAVING_MASK, four.compartment[j]):
            age = np.int64(0)
            if AGED:
                age = step.start - np.int64(nodes.since[np.uint32(four.first_node + 32 * j)])
            own_rate = ending_rate(
                tables.stages,
                tables.rules,
                tables.schedule,
                np.int64(four.compartment[j]),
                np.uint32(four.first_node + 32 * j),
                age,
            )
        largest = max(largest, fma(tables.rules.unit, weighed[j], own_rate))
    return largest


def _threshold_hits(four, pressure, pushed, left_now, leaves, step, nodes):
    """Which of a lane's nodes move, as drawn at entry; updates the thresholds of the others."""
    hits = np.uint32(0)
    for j in unroll(range(4)):
        if is_in(SUSCEPTIBLE_MASK, four.compartment[j]):
            if pressure[j] > 0 and pressure[j] >= left_now[j]:
                hits = np.uint32(hits | np.uint32(1 << j))
            if PUSHES:
                if pushed[j] != 0:
                    nodes.left[np.uint32(four.first_node + 32 * j)] = left_now[j]
                    nodes.since[np.uint32(four.first_node + 32 * j)] = np.int32(step.start)
            elif pressure[j] > 0:
                nodes.left[np.uint32(four.first_node + 32 * j)] = np.int32(
                    left_now[j] - pressure[j]
                )
        elif leaves[j] > 0.0:
            hits = np.uint32(hits | np.uint32(1 << j))
    return hits


def _note_due(tile, four, hits, pressure, since_when, left_now, step, threads, nodes):
    """Store the tick of the next progression in a tile."""
    soonest = np.int64(step.end) if hits != np.uint32(0) else np.int64(_NEVER)
    for j in unroll(range(4)):
        if is_in(SUSCEPTIBLE_MASK, four.compartment[j]):
            if pressure[j] > 0:
                soonest = min(soonest, step.end + (left_now[j] - 1) // pressure[j])
        elif is_in(LEAVING_MASK, four.compartment[j]):
            soonest = min(soonest, np.int64(since_when[j]))
    sooner = np.int32(max(soonest, np.int64(step.end)))
    sooner = np.int32(least_of_lanes(sooner))
    if threads.lane == 0:
        nodes.due[np.uint32(tile)] = sooner


def draw_hits(four, step, pressure, weighed, leaving, nodes, probabilities):
    """Which of a lane's four nodes move."""
    hits = np.uint32(0)
    first_node, number, seed, replicate = four.first_node, step.number, nodes.seed, nodes.replicate
    w0, w1, w2, w3 = draw_words(seed, replicate, block_of(np.int64(first_node)), LEAP_EVENT, number)
    for j in unroll(range(4)):
        if block_of(32 * j) != block_of(32 * j - 32) and j > 0:
            w0, w1, w2, w3 = draw_words(
                seed, replicate, block_of(np.int64(first_node) + 32 * j), LEAP_EVENT, number
            )
        units = pressure[j] if COUNTED else weighed[j]
        probability = either(infection_probability(units, step.exposure, probabilities), leaving[j])
        if from_block(w0, w1, w2, w3, j) <= probability:
            hits = np.uint32(hits | np.uint32(1 << j))
    return hits


def _move(four, hits, pressure, weighed, leaves, step, sizes, nodes, shared, tables, moves):
    """Move those of a lane's nodes that are set in `hits`.

    Returns the new compartments, nodes whose infectivity may have changed, and the number of
    changes of infectivity.
    """
    new_word = four.word
    turned = np.uint32(0)
    changes = np.int32(0)
    seed, replicate, after = nodes.seed, nodes.replicate, np.int64(step.number) + 1
    while hits != np.uint32(0):
        j = np.int32(cuda.ffs(hits) - 1)
        hits = np.uint32(hits & np.uint32(hits - np.uint32(1)))
        node = np.int32(four.first_node + 32 * j)
        from_ = np.uint32(np.uint32(four.word >> np.uint32(8 * j)) & np.uint32(31))
        to, cases = destination(
            node, np.int64(from_), nth(pressure, j), nth(weighed, j), nth(leaves, j), step, sizes,
            nodes, tables,
        )  # fmt: skip
        new_word = np.uint32(
            new_word ^ np.uint32(np.uint32(from_ ^ np.uint32(to)) << np.uint32(8 * j))
        )
        if AGED:
            nodes.since[np.uint32(node)] = arrival_tick(
                tables.stages, tables.schedule, to, step.end, seed, replicate, np.int64(node), after
            )
        if THRESHOLDS and is_in(SUSCEPTIBLE_MASK, to):
            nodes.left[np.uint32(node)] = threshold(
                tables.rules, tables.schedule, seed, replicate, np.int64(node), after
            )
        _count_move(node, from_, to, cases, step, nodes, shared, tables.rules, moves)
        for source in unroll(range(len(SOURCE_MASK))):
            change = is_in(SOURCE_MASK[source], from_) != is_in(SOURCE_MASK[source], np.uint32(to))
            changes = np.int32(changes + np.int32(change))
            if change:
                turned = np.uint32(turned | np.uint32(np.uint32(1) << np.uint32(j)))
    return new_word, turned, changes


def _count_move(node, from_, to, cases, step, nodes, shared, rules, moves):
    """Count a move: directly by stratum, or first in the block's shared memory."""
    row, grid_at = nodes.row, step.grid_at
    if COUNTING_ENTRIES:
        entered = column(rules, np.int64(rules.compartment_count + 1 + to), node)
        cuda.atomic.add(moves, (row, grid_at, entered), np.int32(1))
    if HAS_STRATA:
        cuda.atomic.sub(moves, (row, grid_at, column(rules, np.int64(from_), node)), np.int32(1))
        cuda.atomic.add(moves, (row, grid_at, column(rules, to, node)), np.int32(1))
        if cases > 0:
            last = column(rules, rules.compartment_count, node)
            cuda.atomic.add(moves, (row, grid_at, last), np.int32(1))
    else:
        cuda.atomic.sub(shared.moves, np.int64(from_), np.int32(1))
        cuda.atomic.add(shared.moves, to, np.int32(1))
        if cases > 0:
            cuda.atomic.add(shared.moves, np.int64(rules.compartment_count), np.int32(1))


def _note_sources(tile, new_word, step, threads, sizes, nodes):
    """Store the nodes in each source; return their number in the words of the first four lanes."""
    infectious = np.int64(0)
    for source in unroll(range(len(SOURCE_MASK))):
        own = ballot(SOURCE_MASK[source], new_word, threads.lane)
        if threads.lane < 4:
            infectious += np.int64(cuda.popc(own))
            if GATHERS:
                k = step.bits_there + source * sizes.plane + np.uint32(tile * 4 + threads.lane)
                nodes.bits[np.uint32(k)] = own
    return infectious


def nth(four, j):
    """Element of a tuple of four, by selection."""
    low = four[1] if j & 1 else four[0]
    high = four[3] if j & 1 else four[2]
    return high if j & 2 else low


def read_if(mask, compartment, array, at):
    """An element of an array if a compartment is one of a set, else zero."""
    return array[np.uint32(at)] if is_in(mask, compartment) else np.int32(0)


def probability_to_leave(compartment, since, node, start, ticks, stages, probabilities, schedule):
    """Probability that a node progresses within the step."""
    if not is_in(LEAVING_MASK, compartment):
        return real(0.0)
    age = np.int64(0)
    if AGED:
        age = start - np.int64(since[np.uint32(node)])
    return leaving_probability(
        stages, probabilities, schedule, np.int64(compartment), np.uint32(node), age, ticks
    )


def infectious_four(mask, word):
    """Number of a lane's four nodes that are in a source."""
    count = np.int32(0)
    for j in unroll(range(4)):
        compartment = np.uint32(np.uint32(word >> np.uint32(8 * j)) & np.uint32(31))
        count = np.int32(count + np.int32(is_in(mask, compartment)))
    return count


def ballot(mask, word, lane):
    """Which of 32 nodes are in a source: of those of a byte, for each of the first four lanes."""
    ballots = tuple(
        np.uint32(
            cuda.ballot_sync(
                EVERY_LANE, is_in(mask, np.uint32(word >> np.uint32(8 * j)) & np.uint32(31))
            )
        )
        for j in range(4)
    )
    return nth(ballots, lane & 3)


def due_by(compartment, due, end):
    """One where a node leaves its compartment by a tick."""
    return real(1.0) if is_in(LEAVING_MASK, compartment) and np.int64(due) <= end else real(0.0)


def leaves_by(compartment, since, node, end):
    """`due_by` for a holding time that was sampled at entry."""
    if not is_in(LEAVING_MASK, compartment):
        return real(0.0)
    return real(1.0) if np.int64(since[np.uint32(node)]) <= end else real(0.0)


def destination(node, compartment, pressure, weighed, leaving, step, sizes, nodes, tables):
    """New compartment of a node that moves, and whether it was infected."""
    seed, replicate, number = nodes.seed, nodes.replicate, step.number
    if not is_infection(weighed, step.exposure, leaving, seed, replicate, np.int64(node), number):
        return np.int64(
            next_compartment_of_stay(
                tables.stages, compartment, np.int64(number) + 1, seed, replicate, np.int64(node)
            )
        ), np.int64(0)
    if len(SUSCEPTIBLE) == 1:
        return np.int64(INFECTED[0]), np.int64(1)
    if MODULATED:
        part = chosen_part(seed, replicate, np.int64(node), number)
        return _infected_by_weight(node, compartment, part, step, sizes, nodes, tables), np.int64(1)
    chosen = chosen_share(pressure, seed, replicate, np.int64(node), number)
    found = np.int64(-1)
    for infection in unroll(range(len(SUSCEPTIBLE))):
        if compartment == SUSCEPTIBLE[infection] and found < 0:
            chosen -= _units(node, infection, 0, step, sizes, nodes, tables)
            if chosen < 0:
                found = np.int64(INFECTED[infection])
    return found, np.int64(1)


def _units(node, infection, layer, step, sizes, nodes, tables):
    """Force of infection on a node by one infection in one layer, in units."""
    if PUSHES:
        channel = infection * LAYERS + layer
        return np.int64(nodes.pressure[np.uint32(channel * sizes.padded_count + node)])
    return np.int64(
        gather_one(
            step.bits_here, sizes.plane, infection, node, tables.incoming, tables.rules, nodes.bits
        )
    )


def _infected_by_weight(node, compartment, part, step, sizes, nodes, tables):
    """Compartment after an infection, drawn in proportion to the weighed forces of infection."""
    total = real(0.0)
    for infection in unroll(range(len(SUSCEPTIBLE))):
        if compartment == SUSCEPTIBLE[infection]:
            for layer in unroll(range(LAYERS)):
                units = _units(node, infection, layer, step, sizes, nodes, tables)
                total = fma(step.factor[layer], real(units), total)
    left = part * total
    found = np.int64(-1)
    for infection in unroll(range(len(SUSCEPTIBLE))):
        if compartment == SUSCEPTIBLE[infection] and (found < 0 or left > 0.0):
            found = np.int64(INFECTED[infection])
            for layer in unroll(range(LAYERS)):
                units = _units(node, infection, layer, step, sizes, nodes, tables)
                left = fma(-step.factor[layer], real(units), left)
    return found
