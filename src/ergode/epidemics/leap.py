"""An epidemic in time steps: what a step is, for ``"renewal-leap"`` and ``"markov-leap"``.

A leap holds still, for one step from t to t + dt, what changes all the time: who presses on whom.
A node under the pressure P (the sum of rates along arcs from its infectious neighbours) that would
leave its compartment by itself within the step with probability g moves with probability

    1 - exp(-P dt) (1 - g),

by infection with the share P dt / (P dt - log(1 - g)) of the cases.  All nodes move at once.  Three
ways to come by g, for a node that entered its compartment at age a before t, with the hazard h and
the survival S of the holding time:

``"left-end"``     1 - exp(-h(a) dt): the hazard, too, is held still.
``"conditional"``  1 - S(a + dt) / S(a): exact, whatever dt.
``"sampled"``      the holding time is drawn as the node enters, and ends in the step it falls into:
                   the same law as ``"conditional"``, with nothing to draw in between.

What is left is the error of a step that neither sees the infections within it nor the moment of a
move: first order in dt, and nothing else (cf. Gillespie 2001, J. Chem. Phys. 115, 1716, for leaps
of reactions; Boguna, Lafuerza, Toral, Serrano 2014, Phys. Rev. E 90, 042108, for renewal clocks).

Pressures are integers, counts of a unit (`Rules.unit`), so they can be summed in any order: by
each node over its neighbours ("gather"), or by adding to the neighbours of the few nodes whose
infectivity changed ("push").  Both give the same number, and every draw is keyed by (seed,
replicate, node, step): a result depends on neither schedule nor device.

Time is counted in ticks.  Where all steps are equal a tick is a step, an age is a number of steps,
and g comes from a table.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.elementary import expm1, log1p
from ergode.core.machine import ByPrecision, fma, real
from ergode.core.random import LEAP_CAUSE, LEAP_EVENT, draw_words, uniform
from ergode.epidemics.progression import holding_time_of_stay, next_compartment_of_stay
from ergode.epidemics.seeding import seed_compartment, seed_node
from ergode.models import holding_times

# What a kernel is for; rebound, and the code for the rest is gone.  Each is tested by itself, in an
# `if` of its own, so that such a branch is dropped before what is in it is compiled.
# ruff: noqa: SIM102
WEIGHTED = True  # arcs have weights
TABULATED = True  # equal steps: chances of leaving come from a table
COUNTED = False  # pressures are counts of neighbours: chances of infection, too
SAMPLED = False  # holding times are drawn at entry
LEFT_END = False  # the hazard is held still
ADAPTIVE = False  # steps follow the largest hazard
AGED = True  # ages matter: not all holding times are memoryless

NOBODY = 31  # compartment of the places beyond the last node
COMPARTMENTS_MOST = NOBODY
TICKS_MOST = 2**30
_SOON = -1e-3  # of a tick, so that rounding does not make a step of it


class Arcs(NamedTuple):
    """Rows of arcs into, or out of, every node."""

    offsets: Any
    ends: Any  # the node at the other end
    weights: Any  # real [arc], or [1] if there are none


class Rules(NamedTuple):
    """Who infects whom, in integers."""

    # A source: the compartments that press at one rate for one infection [source_count].
    mask: Any  # bit c: compartment c is one of them, int64
    infection: Any  # int64
    rate: Any  # units of pressure along an arc of weight one, real
    susceptible: Any  # compartments before and after each infection, int64 [infection_count]
    infected: Any
    ending_rate: Any  # one over the mean holding time, real [compartment_count]
    unit: Any  # rate that one unit of pressure stands for [1 / time], real
    # Bit c says of compartment c, as int64:
    susceptible_mask: int  # that an infection leads out of it
    leaving_mask: int  # that a node leaves it by itself
    keeping_mask: int  # that a node in it may yet be susceptible


class Chances(NamedTuple):
    """What equal steps allow to know beforehand."""

    leaving: Any  # real [compartment x age]
    infected: Any  # real [pressure]


class Schedule(NamedTuple):
    """How long steps are."""

    tick: Any  # [time], real
    per_tick: Any  # one over it
    grid_tick: Any  # of each time of the grid, int64 [time_count]
    step_ticks: int  # of the longest step
    tolerance: Any  # largest hazard times step, if steps are adaptive; real
    last_age: int  # last column of the table of chances


# ---- what both targets share


def contribution(rate, weights, arc):
    """Units of pressure along an arc."""
    if WEIGHTED:
        return np.int32(fma(rate, weights[arc], real(0.5)))
    return np.int32(rate)


def leaving_chance(stages, chances, schedule, place, age, ticks):
    """Chance g to leave a compartment within a step, at an age in ticks."""
    if TABULATED:
        row = np.int64(place) * np.int64(schedule.last_age + 1)
        column = min(np.int64(age), np.int64(schedule.last_age)) if AGED else 0
        return chances.leaving[np.uint64(row + column)]
    if ticks == 0:
        return real(0.0)
    # Not plain products, which a compiler might fuse with a sum they go into.
    at = fma(real(age), schedule.tick, real(0.0))
    length = fma(real(ticks), schedule.tick, real(0.0))
    if LEFT_END:
        return -expm1(-(hazard(stages, place, at) * length))
    return ending_probability(stages, place, at, length)


def leaving_row(age, stages, place, tick, table):
    """One entry of the table of chances to leave [compartment, age in ticks]."""
    at = real(age) * tick
    if LEFT_END:
        table[place, age] = -expm1(-(hazard(stages, place, at) * tick))
    else:
        # A little longer, so that a certain end on the last moment of a step is within it.
        table[place, age] = ending_probability(stages, place, at, tick * 1.000000001)


def hazard(stages, place, age):
    """Rate of leaving a compartment by itself at an age [1 / time]."""
    return holding_times.hazard(
        stages.kind[place], stages.a[place], stages.b[place], stages.table_time, stages.table_cdf,
        stages.table_start[place], stages.table_start[place + 1], age,
    )  # fmt: skip


def ending_probability(stages, place, age, length):
    """Probability to leave a compartment within `length`, given its age."""
    return holding_times.ending_probability(
        stages.kind[place], stages.a[place], stages.b[place], stages.table_time, stages.table_cdf,
        stages.table_start[place], stages.table_start[place + 1], age, length,
    )  # fmt: skip


def ending_rate(stages, rules, schedule, place, age):
    """What a compartment adds to the hazards that choose the next step."""
    if SAMPLED:
        return rules.ending_rate[place]
    rate = hazard(stages, place, fma(real(age), schedule.tick, real(0.0)))
    # An end that is certain is no reason for steps of no length.
    return rate if rate < real(math.inf) else rules.ending_rate[place]


def infection_chance(pressure, exposure, chances):
    """Chance to be infected within a step; `exposure` is unit x length of the step."""
    if COUNTED:
        return chances.infected[np.uint32(pressure)]
    return -expm1(-(real(pressure) * exposure))


def either(infected, leaving):
    """Chance of at least one of two independent things."""
    return fma(-infected, leaving, infected + leaving)


def block_32(node):
    """Block of random numbers that a node shares with those 32, 64 and 96 places from it."""
    return ((node >> 7) << 5) | (node & 31)


def block_64(node):
    """The same for float64: two nodes share a block."""
    return ((node >> 6) << 5) | (node & 31)


def from_block_32(w0, w1, w2, w3, which):
    """Uniform draw of a node from the words of its block; `which` is the node over 32."""
    low = w1 if which & 1 else w0
    high = w3 if which & 1 else w2
    word = high if which & 2 else low
    return uniform(word, word)


def from_block_64(w0, w1, w2, w3, which):
    """The same for float64."""
    return uniform(w2 if which & 1 else w0, w3 if which & 1 else w1)


# Nodes share blocks as the lanes of a warp, which has 128 of them, want it.
block_of = ByPrecision(float32=block_32, float64=block_64)
from_block = ByPrecision(float32=from_block_32, float64=from_block_64)


def event_uniform(seed, replicate, node, step):
    """Draw that says whether a node moves in a step."""
    w0, w1, w2, w3 = draw_words(seed, replicate, block_of(node), LEAP_EVENT, step)
    return from_block(w0, w1, w2, w3, node >> 5)


def is_infection(pressure, exposure, leaving, seed, replicate, node, step):
    """Whether a node that moves does so because it was infected."""
    if pressure == 0 or leaving >= 1.0:
        return False
    if leaving == 0.0:
        return True
    w0, w1, _, _ = draw_words(seed, replicate, node, LEAP_CAUSE, step)
    by_itself = -log1p(-leaving)
    share = real(pressure) * exposure / fma(real(pressure), exposure, by_itself)
    return uniform(w0, w1) <= share


def chosen_share(pressure, seed, replicate, node, step):
    """A unit of the pressure on a node that is infected, each as likely."""
    _, _, _, word = draw_words(seed, replicate, node, LEAP_CAUSE, step)
    return np.int64((np.uint64(word) * np.uint64(pressure)) >> np.uint64(32))


def arrival_tick(stages, schedule, place, now, seed, replicate, node, index):
    """What is kept of a node that enters a compartment: when it did, or when it will leave."""
    if SAMPLED:
        if stages.kind[place] >= 0:
            duration = holding_time_of_stay(stages, place, index, seed, replicate, node)
            ticks = real(math.ceil(fma(duration, schedule.per_tick, real(_SOON))))
            ticks = min(max(ticks, real(1.0)), real(TICKS_MOST))
            return np.int32(min(now + np.int64(ticks), np.int64(2 * TICKS_MOST - 1)))
    return np.int32(now)


def next_ticks(schedule, start, until, largest):
    """Length of the step from `start`, no further than `until`."""
    if TABULATED:
        return np.int64(1)
    ticks = np.int64(schedule.step_ticks)
    if ADAPTIVE:
        if largest > 0.0:
            allowed = schedule.tolerance / (largest * schedule.tick)
            ticks = min(ticks, np.int64(max(min(allowed, real(TICKS_MOST)), real(1.0))))
    return min(ticks, until - start)


# ---- CPU

LANES = 256

# Entries of a clock.
START, TICKS, STEP, GRID, PULLING, PUSHING, PULLED = range(7)
CLOCK_SIZE = 7
# Entries of the work of a replicate.
STEPS, PULLS, CHANGES, INFECTIOUS = range(4)
WORK_SIZE = 4
# How the pressure is kept up to date.
GATHER, PUSH, AUTO = range(3)


class People(NamedTuple):
    """One replicate: its nodes in segments, each of which one thread works through."""

    bounds: Any  # of the segments, int64 [segment_count + 1]
    compartment: Any  # uint8 [node]
    since: Any  # tick of entry or of leaving, int32 [node]
    pressure: Any  # int32 [infection, node]
    population: Any  # nodes in each compartment, and last all cases: int64 [segment, column]
    largest: Any  # largest hazard, real [segment]
    # Moves of this step, those of a segment from its first node on:
    moved_count: Any  # int64 [segment]
    moved: Any  # node, int64 [node]
    moved_from: Any  # uint8
    moved_to: Any
    moved_since: Any  # int32


class Lanes(NamedTuple):
    """Nodes that may move: a structure of arrays [lane]."""

    node: Any
    place: Any
    pressure: Any
    leaving: Any
    infected: Any
    draw: Any


def new_people(node_count, infection_count, column_count):
    """A replicate in one segment."""
    bounds = np.zeros(2, np.int64)
    bounds[1] = node_count
    return People(
        bounds, np.empty(node_count, np.uint8), np.empty(node_count, np.int32),
        np.empty((infection_count, node_count), np.int32),
        np.empty((1, column_count), np.int64), np.empty(1, real),
        np.empty(1, np.int64), np.empty(node_count, np.int64), np.empty(node_count, np.uint8),
        np.empty(node_count, np.uint8), np.empty(node_count, np.int32),
    )  # fmt: skip


def new_lanes():
    """Lanes for one thread."""
    return Lanes(
        np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int32),
        np.empty(LANES, real), np.empty(LANES, real), np.empty(LANES, real),
    )  # fmt: skip


def begin(people, clock, work, outgoing, rules, stages, schedule, seeding, mode, seed, replicate):
    """Everyone in their first compartment."""
    node_count = people.compartment.size
    people.compartment[:] = rules.susceptible[0]
    people.since[:] = 0
    people.pressure[:] = 0
    people.population[:] = 0
    people.population[0, rules.susceptible[0]] = node_count
    people.largest[:] = 0.0
    clock[:] = 0
    clock[PULLING] = np.int64(mode == GATHER)
    work[:] = 0
    seeds = seeding.named_count + seeding.drawn_count
    for index in range(seeds):
        node = seed_node(seeding, index, node_count, seed, replicate)
        place = seed_compartment(seeding, index)
        people.compartment[node] = place
        people.since[node] = arrival_tick(
            stages, schedule, place, np.int64(0), seed, replicate, node, 0
        )
        people.population[0, rules.susceptible[0]] -= 1
        people.population[0, place] += 1
        people.population[0, people.population.shape[1] - 1] += 1
        if mode != GATHER:
            _push(
                node, rules.susceptible[0], np.int64(place), outgoing, rules, people.pressure,
                0, node_count,
            )  # fmt: skip


def tick(people, clock, rules, schedule, mode, counts, work):
    """Note the counts if it is time to; set the length of the step to come, or say it is over.

    `counts` [time, column] and `work` are the replicate's own.
    """
    if clock[STEP] > 0:
        for place in range(counts.shape[1] - 1):
            for source in range(rules.mask.size):
                if (rules.mask[source] >> place) & 1:
                    for segment in range(people.population.shape[0]):
                        work[INFECTIOUS] += people.population[segment, place]
    if clock[START] == schedule.grid_tick[clock[GRID]]:
        for place in range(counts.shape[1]):
            total = 0
            for segment in range(people.population.shape[0]):
                total += people.population[segment, place]
            counts[clock[GRID], place] = total
        clock[GRID] += 1
        if clock[GRID] == schedule.grid_tick.size:
            return False
    largest = real(0.0)
    for segment in range(people.largest.size):
        largest = max(largest, people.largest[segment])
    until = schedule.grid_tick[clock[GRID]]
    clock[TICKS] = next_ticks(schedule, clock[START], until, largest)
    if ADAPTIVE:
        if clock[STEP] == 0:
            clock[TICKS] = 0  # a step of no length, to see the hazards
    work[STEPS] += 1
    work[PULLS] += clock[PULLING]
    return True


def decide(
    segment, people, clock, lanes, incoming, rules, stages, chances, schedule, seed, replicate
):
    """Draw which nodes of a segment move, and where; nothing moves yet."""
    first, last = people.bounds[segment], people.bounds[segment + 1]
    start, ticks, step = clock[START], clock[TICKS], clock[STEP]
    end = start + ticks
    exposure = rules.unit * (real(ticks) * schedule.tick)
    largest = real(0.0)
    moved = first
    node = first
    while node < last:
        if clock[PULLING] != 0:
            count, node = _collect_gathering(people, lanes, node, last, end, incoming, rules)
        else:
            count, node = _collect(people, lanes, node, last, end, rules)
        for k in range(count):
            place = lanes.place[k]
            leaving = real(0.0)
            if (rules.leaving_mask >> place) & 1:
                since = people.since[lanes.node[k]]
                if SAMPLED:
                    leaving = real(1.0) if since <= end else real(0.0)
                else:
                    leaving = leaving_chance(stages, chances, schedule, place, start - since, ticks)
                if ADAPTIVE:
                    largest = max(
                        largest,
                        fma(
                            rules.unit,
                            real(lanes.pressure[k]),
                            ending_rate(stages, rules, schedule, place, start - since),
                        ),
                    )
            elif ADAPTIVE:
                largest = max(largest, rules.unit * real(lanes.pressure[k]))
            lanes.leaving[k] = leaving
        for k in range(count):
            lanes.infected[k] = infection_chance(lanes.pressure[k], exposure, chances)
        for k in range(count):
            lanes.draw[k] = event_uniform(seed, replicate, lanes.node[k], step)
        hits = 0
        for k in range(count):
            lanes.node[hits] = lanes.node[k]
            lanes.place[hits] = lanes.place[k]
            lanes.pressure[hits] = lanes.pressure[k]
            lanes.leaving[hits] = lanes.leaving[k]
            hits += np.int64(lanes.draw[k] <= either(lanes.infected[k], lanes.leaving[k]))
        for k in range(hits):
            here, place = lanes.node[k], lanes.place[k]
            if is_infection(
                lanes.pressure[k], exposure, lanes.leaving[k], seed, replicate, here, step
            ):
                unit = np.int64(0)
                if rules.susceptible.size > 1:
                    unit = chosen_share(lanes.pressure[k], seed, replicate, here, step)
                to = np.int64(_infected(here, place, unit, people, rules))
                people.population[segment, people.population.shape[1] - 1] += 1
            else:
                to = np.int64(
                    next_compartment_of_stay(stages, place, step + 1, seed, replicate, here)
                )
            people.moved[moved] = here
            people.moved_from[moved] = place
            people.moved_to[moved] = to
            people.moved_since[moved] = arrival_tick(
                stages, schedule, to, end, seed, replicate, here, step + 1
            )
            moved += 1
    people.moved_count[segment] = moved - first
    people.largest[segment] = largest


def _collect(people, lanes, node, last, end, rules):
    """Take into lanes the nodes from `node` on that may move."""
    count = 0
    stop = min(last, node + LANES)
    infections = rules.susceptible.size
    while node < stop:
        place = np.int64(people.compartment[node])
        pressure = np.int32(0)
        if (rules.susceptible_mask >> place) & 1:
            for infection in range(infections):
                if rules.susceptible[infection] == place:
                    pressure += people.pressure[infection, node]
        lanes.node[count] = node
        lanes.place[count] = place
        lanes.pressure[count] = pressure
        count += np.int64((pressure > 0) | _may_leave(people, node, place, end, rules))
        node += 1
    return count, node


def _collect_gathering(people, lanes, node, last, end, incoming, rules):
    """The same, with pressures summed anew over the neighbours of each node."""
    count = 0
    stop = min(last, node + LANES)
    while node < stop:
        place = np.int64(people.compartment[node])
        pressure = np.int32(0)
        if (rules.keeping_mask >> place) & 1:
            for infection in range(rules.susceptible.size):
                total = _gathered(people.compartment, incoming, rules, infection, node)
                people.pressure[infection, node] = total
                if rules.susceptible[infection] == place:
                    pressure += total
        lanes.node[count] = node
        lanes.place[count] = place
        lanes.pressure[count] = pressure
        count += np.int64((pressure > 0) | _may_leave(people, node, place, end, rules))
        node += 1
    return count, node


def _may_leave(people, node, place, end, rules):
    may = ((rules.leaving_mask >> place) & 1) != 0
    if SAMPLED:
        may = may & (people.since[node] <= end)
    return may


def _gathered(compartment, incoming, rules, infection, node):
    """Pressure on a node by one infection, summed over its neighbours."""
    total = np.int32(0)
    for source in range(rules.mask.size):
        if rules.infection[source] == infection:
            mask, rate = rules.mask[source], rules.rate[source]
            for arc in range(incoming.offsets[node], incoming.offsets[node + 1]):
                if (mask >> np.int64(compartment[incoming.ends[arc]])) & 1:
                    total += contribution(rate, incoming.weights, arc)
    return total


def _infected(node, place, chosen, people, rules):
    """Where the infection leads that a unit of pressure is of."""
    found = np.int64(-1)
    for infection in range(rules.susceptible.size):
        if rules.susceptible[infection] == place and found < 0:
            chosen -= np.int64(people.pressure[infection, node])
            if chosen < 0:
                found = rules.infected[infection]
    return found


def settle(segment, people, clock, outgoing, rules):
    """Move the nodes of a segment; add to the pressure on them what all moves change."""
    first, last = people.bounds[segment], people.bounds[segment + 1]
    for other in range(people.moved_count.size):
        begin_at = people.bounds[other]
        for k in range(begin_at, begin_at + people.moved_count[other]):
            node = people.moved[k]
            before, after = np.int64(people.moved_from[k]), np.int64(people.moved_to[k])
            if other == segment:
                people.compartment[node] = after
                people.since[node] = people.moved_since[k]
                people.population[segment, before] -= 1
                people.population[segment, after] += 1
            if clock[PUSHING] != 0:
                _push(node, before, after, outgoing, rules, people.pressure, first, last)


def _push(node, before, after, outgoing, rules, pressure, first, last):
    """Add what a node's move changes in the pressure on its neighbours from `first` to `last`."""
    for source in range(rules.mask.size):
        mask = rules.mask[source]
        change = np.int32(((mask >> after) & 1) - ((mask >> before) & 1))
        if change != 0:
            infection, rate = rules.infection[source], rules.rate[source]
            end = np.int64(outgoing.offsets[node + 1])
            arc = _first_at(outgoing.ends, np.int64(outgoing.offsets[node]), end, first)
            while arc < end and outgoing.ends[arc] < last:
                pressure[infection, outgoing.ends[arc]] += change * contribution(
                    rate, outgoing.weights, arc
                )
                arc += 1


def _first_at(ends, low, high, first):
    """First arc of a row, whose ends ascend, that leads to `first` or beyond."""
    if first == 0:
        return low
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] < first:
            low = middle + 1
        else:
            high = middle
    return low


def advance(people, clock, rules, mode, work):
    """After all have decided, before they move: choose how pressures follow; let time pass."""
    moves = np.int64(0)
    changes = np.int64(0)
    for segment in range(people.moved_count.size):
        begin_at = people.bounds[segment]
        moves += people.moved_count[segment]
        for k in range(begin_at, begin_at + people.moved_count[segment]):
            for source in range(rules.mask.size):
                changes += (
                    (rules.mask[source] >> np.int64(people.moved_from[k]))
                    ^ (rules.mask[source] >> np.int64(people.moved_to[k]))
                ) & 1
    work[CHANGES] += changes
    # To push adds to scattered places, which costs about twice what it does to look at them.
    gather = mode == GATHER or (mode == AUTO and 2 * changes > people.compartment.size)
    clock[PULLING] = np.int64(gather)
    clock[PUSHING] = np.int64(not gather)
    clock[START] += clock[TICKS]
    clock[STEP] += 1


def leap_cpu(
    start, stop,
    incoming, outgoing, rules, stages, chances, schedule, seeding, seed, first_replicate, mode,
    counts, work,
):  # fmt: skip
    """Run replicates `start` to `stop`, on one thread.

    Model: `incoming` to `seeding`. Out: `counts` [replicate, time, column],
    `work` [replicate, WORK_SIZE].
    """
    people = new_people(incoming.offsets.size - 1, rules.susceptible.size, counts.shape[2])
    clock = np.empty(CLOCK_SIZE, np.int64)
    lanes = new_lanes()
    for row in range(start, stop):
        replicate = first_replicate + row
        begin(
            people, clock, work[row], outgoing, rules, stages, schedule, seeding, mode, seed,
            replicate,
        )  # fmt: skip
        while tick(people, clock, rules, schedule, mode, counts[row], work[row]):
            decide(
                0, people, clock, lanes, incoming, rules, stages, chances, schedule, seed, replicate
            )
            advance(people, clock, rules, mode, work[row])
            settle(0, people, clock, outgoing, rules)


# The same for a single large replicate, step by step: segments are shared among threads.


def begin_cpu(
    start, stop, people, clock, work, outgoing, rules, stages, schedule, seeding, mode, seed,
    replicate,
):  # fmt: skip
    """Begin a replicate; all of it is the work of index 0."""
    for _ in range(start, stop):
        begin(
            people, clock, work, outgoing, rules, stages, schedule, seeding, mode, seed, replicate
        )


def decide_cpu(
    start, stop, people, clock, incoming, rules, stages, chances, schedule, seed, replicate
):
    """`decide` for segments `start` to `stop`."""
    lanes = new_lanes()
    for segment in range(start, stop):
        decide(
            segment, people, clock, lanes, incoming, rules, stages, chances, schedule, seed,
            replicate,
        )  # fmt: skip


def settle_cpu(start, stop, people, clock, outgoing, rules):
    """`settle` for segments `start` to `stop`."""
    for segment in range(start, stop):
        settle(segment, people, clock, outgoing, rules)


def between_cpu(start, stop, people, clock, rules, schedule, mode, counts, work, before, going):
    """What one thread does between the others' parts: `tick` before a step, `advance` within."""
    for _ in range(start, stop):
        if before != 0:
            going[0] = np.int64(tick(people, clock, rules, schedule, mode, counts, work))
        else:
            advance(people, clock, rules, mode, work)
