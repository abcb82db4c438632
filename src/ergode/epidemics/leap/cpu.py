"""Tau-leaping on the CPU: one replicate per thread, or one large replicate on all threads.

A step has two halves.  The first half draws which nodes move, from the states at the beginning of
the step.  Nodes that may move are collected into lanes, so that each kind of work is a loop that
vectorises.  The second half moves them and updates the forces of infection on their neighbours.
If threads share a replicate, each thread owns a segment of the nodes.  It draws for its nodes, and
applies all changes to them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import by_reference, fma, hold, real
from ergode.core.math.search import first_from
from ergode.epidemics.leap.factors import mean_factor, next_cursor, susceptibility
from ergode.epidemics.leap.options import (
    ADAPTIVE,
    COUNTED,
    LAYERS,
    MODULATED,
    SAMPLED,
    THRESHOLDS,
)
from ergode.epidemics.leap.step import (
    AUTO,
    CHANGES,
    GATHER,
    INFECTIOUS,
    PULLS,
    STEPS,
    arrival_tick,
    chosen_part,
    chosen_share,
    column,
    contribution,
    either,
    ending_rate,
    event_uniform,
    infection_probability,
    is_infection,
    layer_of,
    leaving_probability,
    next_ticks,
    seed_tick,
    threshold,
)
from ergode.epidemics.seeding import seed_age, seed_compartment, seed_node
from ergode.epidemics.shared.arcs import end_arc, first_arc, is_loop, node_count_of, target_of
from ergode.epidemics.shared.options import COUNTING_ENTRIES, MULTIGRAPH
from ergode.epidemics.shared.progression import next_compartment_of_stay

LANES = 256

# Entries of a clock.
START, TICKS, STEP, GRID, PULLING, PUSHING, CURSOR = range(7)
CLOCK_SIZE = 7


class NodeState(NamedTuple):
    """One replicate: its nodes in segments, one for each thread."""

    bounds: Any  # of the segments, int64 [segment_count + 1]
    compartment: Any  # uint8 [node]
    since: Any  # tick of entry or of leaving, int32 [node]
    pressure: Any  # int32 [infection x layer, node]
    factor: Any  # of each layer in this step, real [layer]
    left: Any  # rest of the threshold at tick `since`, int32 [node]; [1] if unused
    # Nodes in each compartment, all cases, and then entries if counted: int64 [segment, column].
    population: Any
    largest: Any  # largest hazard, real [segment]
    # Moves of this step; a segment's moves begin at the index of its first node:
    moved_count: Any  # int64 [segment]
    moved: Any  # node, int64 [node]
    moved_from: Any  # uint8
    moved_to: Any
    moved_since: Any  # int32
    moved_left: Any


class Lanes(NamedTuple):
    """Nodes that may move: a structure of arrays [lane]."""

    node: Any
    compartment: Any
    pressure: Any
    weighed: Any  # `pressure` times the factors of the step and the node
    leaving: Any
    infected: Any
    draw: Any


def new_nodes(node_count, channel_count, column_count):
    """A replicate in one segment."""
    bounds = np.zeros(2, np.int64)
    bounds[1] = node_count
    return NodeState(
        bounds, np.empty(node_count, np.uint8), np.empty(node_count, np.int32),
        np.empty((channel_count, node_count), np.int32), np.empty(LAYERS, real),
        np.empty(node_count, np.int32), np.empty((1, column_count), np.int64), np.empty(1, real),
        np.empty(1, np.int64), np.empty(node_count, np.int64), np.empty(node_count, np.uint8),
        np.empty(node_count, np.uint8), np.empty(node_count, np.int32),
        np.empty(node_count, np.int32),
    )  # fmt: skip


def new_lanes():
    """Lanes for one thread."""
    return Lanes(
        np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int32),
        np.empty(LANES, real), np.empty(LANES, real), np.empty(LANES, real), np.empty(LANES, real),
    )  # fmt: skip


def begin(nodes, clock, work, outgoing, rules, stages, schedule, seeding, mode, seed, replicate):
    """Put all nodes into the base compartment, and then place the seeds."""
    node_count = nodes.compartment.size
    nodes.compartment[:] = rules.susceptible[0]
    nodes.since[:] = 0
    nodes.pressure[:] = 0
    if THRESHOLDS:
        for node in range(node_count):
            nodes.left[node] = threshold(rules, schedule, seed, replicate, node, 0)
    nodes.population[:] = 0
    for node in range(node_count):
        nodes.population[0, column(rules, rules.susceptible[0], node)] += 1
    nodes.largest[:] = 0.0
    clock[:] = 0
    clock[PULLING] = np.int64(mode == GATHER)
    work[:] = 0
    seeds = seeding.named_count + seeding.drawn_count
    for index in range(seeds):
        node = seed_node(seeding, index, node_count, seed, replicate)
        compartment = seed_compartment(seeding, index)
        nodes.compartment[node] = compartment
        nodes.since[node] = seed_tick(
            stages, schedule, compartment, seed_age(seeding, index), seed, replicate, node
        )
        nodes.population[0, column(rules, rules.susceptible[0], node)] -= 1
        nodes.population[0, column(rules, compartment, node)] += 1
        if seeding.is_case[compartment] != 0:
            nodes.population[0, column(rules, rules.compartment_count, node)] += 1
        if COUNTING_ENTRIES:
            nodes.population[0, column(rules, rules.compartment_count + 1 + compartment, node)] += 1
        if mode != GATHER:
            _push(
                node, rules.susceptible[0], np.int64(compartment), outgoing, rules, nodes, 0,
                node_count, np.int64(0),
            )  # fmt: skip


def tick(nodes, clock, rules, schedule, factors, counts, work):
    """Store the counts at a grid time and set the length of the next step; False at the end.

    `counts` [time, column] and `work` are the replicate's own.
    """
    if clock[STEP] > 0:
        for where in range(rules.compartment_count * rules.stratum_count):
            compartment = where // rules.stratum_count
            for source in range(rules.mask.size):
                if (rules.mask[source] >> compartment) & 1:
                    for segment in range(nodes.population.shape[0]):
                        work[INFECTIOUS] += nodes.population[segment, where]
    if clock[START] == schedule.grid_tick[clock[GRID]]:
        for compartment in range(counts.shape[1]):
            total = 0
            for segment in range(nodes.population.shape[0]):
                total += nodes.population[segment, compartment]
            counts[clock[GRID], compartment] = total
        clock[GRID] += 1
        if clock[GRID] == schedule.grid_tick.size:
            return False
    largest = real(0.0)
    for segment in range(nodes.largest.size):
        largest = max(largest, nodes.largest[segment])
    until = schedule.grid_tick[clock[GRID]]
    clock[TICKS] = next_ticks(schedule, clock[START], until, largest)
    if ADAPTIVE and clock[STEP] == 0:
        clock[TICKS] = 0  # a step of length zero computes the hazards
    if MODULATED:
        clock[CURSOR] = next_cursor(factors, clock[CURSOR], clock[START])
        for layer in range(LAYERS):
            nodes.factor[layer] = mean_factor(
                factors, clock[CURSOR], layer, clock[START], clock[TICKS]
            )
    work[STEPS] += 1
    work[PULLS] += clock[PULLING]
    return True


def decide(
    segment, nodes, clock, lanes, incoming, rules, stages, probabilities, schedule, vaccines, seed,
    replicate,
):  # fmt: skip
    """Draw which nodes of a segment move, and where; `settle` moves them."""
    first, last = nodes.bounds[segment], nodes.bounds[segment + 1]
    start, ticks, step = clock[START], clock[TICKS], clock[STEP]
    end = start + ticks
    exposure = rules.unit * (real(ticks) * schedule.tick)
    middle = fma(real(start) + 0.5 * real(ticks), schedule.tick, real(0.0))
    largest = real(0.0)
    moved = first
    node = first
    while node < last:
        if clock[PULLING] != 0:
            count, node = _collect_gathering(nodes, lanes, node, last, end, incoming, rules)
        else:
            count, node = _collect(nodes, lanes, node, last, end, rules)
        _weigh(count, nodes, lanes, rules, vaccines, middle, seed, replicate)
        largest = _leave(
            count, nodes, clock, lanes, rules, stages, probabilities, schedule, largest
        )
        _draw(count, lanes, exposure, probabilities, seed, replicate, step)
        hits = _keep_hits(count, lanes)
        moved = _choose(
            segment, hits, moved, nodes, clock, lanes, rules, stages, schedule, exposure, seed,
            replicate,
        )  # fmt: skip
    nodes.moved_count[segment] = moved - first
    nodes.largest[segment] = largest


def _weigh(count, nodes, lanes, rules, vaccines, middle, seed, replicate):
    """Weigh the forces of infection on lanes by the factors of the step and of the node."""
    for k in range(count):
        lanes.weighed[k] = real(lanes.pressure[k])
        if MODULATED and lanes.pressure[k] > 0:
            if LAYERS > 1:
                weighed = _weighed(nodes, rules, lanes.node[k], lanes.compartment[k])
            else:
                weighed = nodes.factor[0] * real(lanes.pressure[k])
            lanes.weighed[k] = weighed * susceptibility(
                vaccines, lanes.node[k], middle, seed, replicate
            )


def _leave(count, nodes, clock, lanes, rules, stages, probabilities, schedule, largest):
    """Probabilities of lanes to leave their compartments; the largest hazard, if steps adapt."""
    start, ticks = clock[START], clock[TICKS]
    end = start + ticks
    for k in range(count):
        compartment = lanes.compartment[k]
        leaving = real(0.0)
        if (rules.leaving_mask >> compartment) & 1:
            since = nodes.since[lanes.node[k]]
            if SAMPLED:
                leaving = real(1.0) if since <= end else real(0.0)
            else:
                leaving = leaving_probability(
                    stages,
                    probabilities,
                    schedule,
                    compartment,
                    lanes.node[k],
                    start - since,
                    ticks,
                )
            if ADAPTIVE:
                largest = max(
                    largest,
                    fma(
                        rules.unit,
                        lanes.weighed[k],
                        ending_rate(
                            stages, rules, schedule, compartment, lanes.node[k], start - since
                        ),
                    ),
                )
        elif ADAPTIVE:
            largest = max(largest, rules.unit * lanes.weighed[k])
        lanes.leaving[k] = leaving
    return largest


def _draw(count, lanes, exposure, probabilities, seed, replicate, step):
    """Probabilities of lanes to be infected, and a draw for each lane."""
    if THRESHOLDS:  # only nodes that move were collected
        for k in range(count):
            lanes.infected[k] = 1.0 if lanes.pressure[k] > 0 else 0.0
            lanes.draw[k] = 0.0
    else:
        for k in range(count):
            if COUNTED:
                lanes.infected[k] = infection_probability(
                    lanes.pressure[k], exposure, probabilities
                )
            else:
                lanes.infected[k] = infection_probability(lanes.weighed[k], exposure, probabilities)
        for k in range(count):
            lanes.draw[k] = event_uniform(seed, replicate, lanes.node[k], step)


def _keep_hits(count, lanes):
    """Keep the lanes that move; return their number."""
    hits = 0
    for k in range(count):
        lanes.node[hits] = lanes.node[k]
        lanes.compartment[hits] = lanes.compartment[k]
        lanes.pressure[hits] = lanes.pressure[k]
        lanes.weighed[hits] = lanes.weighed[k]
        lanes.leaving[hits] = lanes.leaving[k]
        hits += np.int64(lanes.draw[k] <= either(lanes.infected[k], lanes.leaving[k]))
    return hits


def _choose(
    segment, hits, moved, nodes, clock, lanes, rules, stages, schedule, exposure, seed, replicate
):
    """Store the moves of lanes from index `moved` on; return the next index."""
    step = clock[STEP]
    end = clock[START] + clock[TICKS]
    for k in range(hits):
        here, compartment = lanes.node[k], lanes.compartment[k]
        if is_infection(lanes.weighed[k], exposure, lanes.leaving[k], seed, replicate, here, step):
            if MODULATED:
                to = _infected_by_weight(here, compartment, step, nodes, rules, seed, replicate)
            else:
                unit = np.int64(0)
                if rules.susceptible.size > 1:
                    unit = chosen_share(lanes.pressure[k], seed, replicate, here, step)
                to = np.int64(_infected(here, compartment, unit, nodes, rules))
            cases = column(rules, rules.compartment_count, here)
            nodes.population[segment, cases] += 1
        else:
            to = np.int64(
                next_compartment_of_stay(stages, compartment, step + 1, seed, replicate, here)
            )
        if COUNTING_ENTRIES:
            entered = column(rules, rules.compartment_count + 1 + to, here)
            nodes.population[segment, entered] += 1
        nodes.moved[moved] = here
        nodes.moved_from[moved] = compartment
        nodes.moved_to[moved] = to
        nodes.moved_since[moved] = arrival_tick(
            stages, schedule, to, end, seed, replicate, here, step + 1
        )
        if THRESHOLDS and (rules.susceptible_mask >> to) & 1:
            nodes.moved_left[moved] = threshold(rules, schedule, seed, replicate, here, step + 1)
        moved += 1
    return moved


def _collect(nodes, lanes, node, last, end, rules):
    """Collect into lanes the nodes from `node` on that may move."""
    count = 0
    stop = min(last, node + LANES)
    infections = rules.susceptible.size
    while node < stop:
        compartment = np.int64(nodes.compartment[node])
        pressure = np.int32(0)
        if (rules.susceptible_mask >> compartment) & 1:
            for infection in range(infections):
                if rules.susceptible[infection] == compartment:
                    for layer in range(LAYERS):
                        pressure += nodes.pressure[infection * LAYERS + layer, node]
            if THRESHOLDS:
                taken = np.int64(pressure) * (end - np.int64(nodes.since[node]))
                pressure = pressure if taken >= np.int64(nodes.left[node]) else np.int32(0)
        lanes.node[count] = node
        lanes.compartment[count] = compartment
        lanes.pressure[count] = pressure
        count += np.int64((pressure > 0) | _may_leave(nodes, node, compartment, end, rules))
        node += 1
    return count, node


def _collect_gathering(nodes, lanes, node, last, end, incoming, rules):
    """As `_collect`, with forces of infection summed over the neighbours of each node."""
    count = 0
    stop = min(last, node + LANES)
    while node < stop:
        compartment = np.int64(nodes.compartment[node])
        pressure = np.int32(0)
        if (rules.keeping_mask >> compartment) & 1:
            for infection in range(rules.susceptible.size):
                total = _gathered(nodes.compartment, incoming, rules, infection, node)
                nodes.pressure[infection, node] = total
                if rules.susceptible[infection] == compartment:
                    pressure += total
            if THRESHOLDS and (rules.susceptible_mask >> compartment) & 1:
                nodes.left[node] = max(nodes.left[node] - pressure, 0)
                pressure = pressure if nodes.left[node] == 0 else np.int32(0)
        lanes.node[count] = node
        lanes.compartment[count] = compartment
        lanes.pressure[count] = pressure
        count += np.int64((pressure > 0) | _may_leave(nodes, node, compartment, end, rules))
        node += 1
    return count, node


def _may_leave(nodes, node, compartment, end, rules):
    may = ((rules.leaving_mask >> compartment) & 1) != 0
    if SAMPLED:
        may = may & (nodes.since[node] <= end)
    return may


def _gathered(compartment, incoming, rules, infection, node):
    """Force of infection on a node by one infection, summed over its neighbours."""
    total = np.int32(0)
    for source in range(rules.mask.size):
        if rules.infection[source] == infection:
            mask, rate = rules.mask[source], rules.rate[source]
            for arc in range(first_arc(incoming, node), end_arc(incoming, node)):
                other = target_of(incoming, node, arc)
                if (mask >> np.int64(compartment[other])) & 1 and not is_loop(node, other):
                    total += contribution(rate, incoming.weights, arc)
    return total


def _weighed(nodes, rules, node, compartment):
    """Force of infection on a node, weighed by the factors of layers."""
    total = real(0.0)
    for infection in range(rules.susceptible.size):
        if rules.susceptible[infection] == compartment:
            for layer in range(LAYERS):
                units = nodes.pressure[infection * LAYERS + layer, node]
                total = fma(nodes.factor[layer], real(units), total)
    return total


def _infected_by_weight(node, compartment, step, nodes, rules, seed, replicate):
    """Compartment after an infection, drawn in proportion to the weighed forces of infection."""
    left = chosen_part(seed, replicate, node, step) * _weighed(nodes, rules, node, compartment)
    found = np.int64(-1)
    for infection in range(rules.susceptible.size):
        if rules.susceptible[infection] == compartment and (found < 0 or left > 0.0):
            found = np.int64(rules.infected[infection])
            for layer in range(LAYERS):
                units = nodes.pressure[infection * LAYERS + layer, node]
                left = fma(-nodes.factor[layer], real(units), left)
    return found


def _infected(node, compartment, chosen, nodes, rules):
    """Compartment after an infection, by the drawn unit of the force of infection."""
    found = np.int64(-1)
    for infection in range(rules.susceptible.size):
        if rules.susceptible[infection] == compartment and found < 0:
            chosen -= np.int64(nodes.pressure[infection, node])
            if chosen < 0:
                found = rules.infected[infection]
    return found


def settle(segment, nodes, clock, outgoing, rules):
    """Move the nodes of a segment; update the forces of infection on them by all moves."""
    first, last = nodes.bounds[segment], nodes.bounds[segment + 1]
    for other in range(nodes.moved_count.size):
        begin_at = nodes.bounds[other]
        for k in range(begin_at, begin_at + nodes.moved_count[other]):
            node = nodes.moved[k]
            before, after = np.int64(nodes.moved_from[k]), np.int64(nodes.moved_to[k])
            if other == segment:
                nodes.compartment[node] = after
                nodes.since[node] = nodes.moved_since[k]
                if THRESHOLDS:
                    nodes.left[node] = nodes.moved_left[k]
                nodes.population[segment, column(rules, before, node)] -= 1
                nodes.population[segment, column(rules, after, node)] += 1
            if clock[PUSHING] != 0:
                _push(node, before, after, outgoing, rules, nodes, first, last, clock[START])


def _push(node, before, after, outgoing, rules, nodes, first, last, now):
    """Update the forces of infection on the neighbours `first` to `last` of a node that moved."""
    for source in range(rules.mask.size):
        mask = rules.mask[source]
        change = np.int32(((mask >> after) & 1) - ((mask >> before) & 1))
        if change != 0:
            infection, rate = rules.infection[source], rules.rate[source]
            arc, end = first_arc(outgoing, node), end_arc(outgoing, node)
            if not MULTIGRAPH:
                arc = _first_at(outgoing.targets, arc, end, first)
            while arc < end:
                other = target_of(outgoing, node, arc)
                if MULTIGRAPH:
                    if other < first or other >= last or is_loop(node, other):
                        arc += 1
                        continue
                elif other >= last:
                    break
                if (
                    THRESHOLDS
                    and (rules.susceptible_mask >> np.int64(nodes.compartment[other])) & 1
                ):
                    # The old force of infection applied until now.
                    since = np.int64(nodes.since[other])
                    nodes.left[other] -= nodes.pressure[0, other] * (now - since)
                    nodes.since[other] = now
                channel = infection * LAYERS + layer_of(outgoing, arc)
                nodes.pressure[channel, other] += change * contribution(rate, outgoing.weights, arc)
                arc += 1


def _first_at(targets, low, high, first):
    """First arc of a row with ascending targets whose target is at least `first`."""
    if first == 0:
        return low
    return first_from(targets, low, high, first)


def advance(nodes, clock, rules, mode, work):
    """Between the halves of a step: choose gather or push, and advance the time."""
    moves = np.int64(0)
    changes = np.int64(0)
    for segment in range(nodes.moved_count.size):
        begin_at = nodes.bounds[segment]
        moves += nodes.moved_count[segment]
        for k in range(begin_at, begin_at + nodes.moved_count[segment]):
            for source in range(rules.mask.size):
                changes += (
                    (rules.mask[source] >> np.int64(nodes.moved_from[k]))
                    ^ (rules.mask[source] >> np.int64(nodes.moved_to[k]))
                ) & 1
    work[CHANGES] += changes
    # A scattered addition costs about twice as much as a scattered read. The arcs of a multigraph
    # are in any order, so that each thread goes through those of all nodes that moved.
    visits = 2 * changes * (nodes.moved_count.size if MULTIGRAPH else 1)
    gather = mode == GATHER or (mode == AUTO and visits > nodes.compartment.size)
    clock[PULLING] = np.int64(gather)
    clock[PUSHING] = np.int64(not gather)
    clock[START] += clock[TICKS]
    clock[STEP] += 1


def leap_cpu(start, stop, tables, seed, first_replicate, mode, counts, work):
    """Run replicates `start` to `stop`, on one thread.

    Out: `counts` [replicate, time, column], `work` [replicate, WORK_SIZE].
    """
    tables = by_reference(tables)
    incoming, outgoing, rules, stages = (
        tables.incoming, tables.outgoing, tables.rules, tables.stages
    )  # fmt: skip
    probabilities, schedule, factors, seeding = (
        tables.probabilities, tables.schedule, tables.factors, tables.seeding
    )  # fmt: skip
    made = new_nodes(node_count_of(incoming), rules.susceptible.size * LAYERS, counts.shape[2])
    clock = np.empty(CLOCK_SIZE, np.int64)
    lanes, nodes = new_lanes(), by_reference(made)
    for row in range(start, stop):
        replicate = first_replicate + row
        begin(
            nodes, clock, work[row], outgoing, rules, stages, schedule, seeding, mode, seed,
            replicate,
        )  # fmt: skip
        while tick(nodes, clock, rules, schedule, factors, counts[row], work[row]):
            decide(
                0, nodes, clock, lanes, incoming, rules, stages, probabilities, schedule,
                factors.vaccines, seed, replicate,
            )  # fmt: skip
            advance(nodes, clock, rules, mode, work[row])
            settle(0, nodes, clock, outgoing, rules)
    hold(made)


# A single large replicate, step by step: segments are shared among threads.


def begin_cpu(start, stop, nodes, clock, work, tables, mode, seed, replicate):
    """Begin a replicate; index 0 does all of it."""
    for _ in range(start, stop):
        begin(
            nodes, clock, work, tables.outgoing, tables.rules, tables.stages, tables.schedule,
            tables.seeding, mode, seed, replicate,
        )  # fmt: skip


def decide_cpu(
    start, stop, nodes, clock, incoming, rules, stages, probabilities, schedule, vaccines, seed,
    replicate,
):  # fmt: skip
    """`decide` for segments `start` to `stop`."""
    lanes = new_lanes()
    for segment in range(start, stop):
        decide(
            segment, nodes, clock, lanes, incoming, rules, stages, probabilities, schedule,
            vaccines, seed, replicate,
        )  # fmt: skip


def settle_cpu(start, stop, nodes, clock, outgoing, rules):
    """`settle` for segments `start` to `stop`."""
    for segment in range(start, stop):
        settle(segment, nodes, clock, outgoing, rules)


def between_cpu(
    start, stop, nodes, clock, rules, schedule, factors, mode, counts, work, before, going
):
    """The serial part of a step: `tick` before a step, `advance` within it."""
    for _ in range(start, stop):
        if before != 0:
            going[0] = np.int64(tick(nodes, clock, rules, schedule, factors, counts, work))
        else:
            advance(nodes, clock, rules, mode, work)
