"""What a lane of a warp does with its four nodes in a step: whether they move, and where.

Their compartments are the bytes of one word.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import cuda, fma, real, unroll
from ergode.core.math.random import LEAP_EVENT, draw_words
from ergode.epidemics.leap.gather import EVERY_LANE, gather_one, is_in
from ergode.epidemics.leap.step import (
    AGED,
    COUNTED,
    block_of,
    chosen_part,
    chosen_share,
    either,
    from_block,
    infection_probability,
    is_infection,
    leaving_probability,
)
from ergode.epidemics.shared.progression import next_compartment_of_stay

# What a kernel is for, and the model's structure; rebound together with those of `leap.cuda`.
PUSHES = True
MODULATED = False
LAYERS = 1
SUSCEPTIBLE: tuple[int, ...] = (0,)
INFECTED: tuple[int, ...] = (1,)
LEAVING_MASK = 2


def nth(four, j):
    """Element of a tuple of four, by selection."""
    low = four[1] if j & 1 else four[0]
    high = four[3] if j & 1 else four[2]
    return high if j & 2 else low


def read_if(mask, compartment, array, at):
    """An element of an array if a compartment is one of a set, else zero."""
    return array[np.uint32(at)] if is_in(mask, compartment) else np.int32(0)


def probability_to_leave(compartment, since, node, start, ticks, stages, probabilities, schedule):
    """Chance that a node leaves its compartment by itself."""
    if not is_in(LEAVING_MASK, compartment):
        return real(0.0)
    age = np.int64(0)
    if AGED:
        age = start - np.int64(since[np.uint32(node)])
    return leaving_probability(stages, probabilities, schedule, np.int64(compartment), age, ticks)


def infectious_four(mask, word):
    """How many of a lane's four nodes are in a source."""
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
    """The same where it is known when."""
    if not is_in(LEAVING_MASK, compartment):
        return real(0.0)
    return real(1.0) if np.int64(since[np.uint32(node)]) <= end else real(0.0)


def draw_hits(
    seed, replicate, first_node, step, pressure, weighed, leaving, exposure, probabilities
):
    """Which of a lane's four nodes move."""
    hits = np.uint32(0)
    w0, w1, w2, w3 = draw_words(seed, replicate, block_of(np.int64(first_node)), LEAP_EVENT, step)
    for j in unroll(range(4)):
        if block_of(32 * j) != block_of(32 * j - 32) and j > 0:
            w0, w1, w2, w3 = draw_words(
                seed, replicate, block_of(np.int64(first_node) + 32 * j), LEAP_EVENT, step
            )
        units = pressure[j] if COUNTED else weighed[j]
        probability = either(infection_probability(units, exposure, probabilities), leaving[j])
        if from_block(w0, w1, w2, w3, j) <= probability:
            hits = np.uint32(hits | np.uint32(1 << j))
    return hits


def destination(
    bits_here, plane, padded_count, node, compartment, pressure, weighed, factor, exposure, leaving,
    step, incoming, rules, stages, seed, replicate, planes, pressures,
):  # fmt: skip
    """Where a node that moves goes, and whether it was infected."""
    if not is_infection(weighed, exposure, leaving, seed, replicate, np.int64(node), step):
        return np.int64(
            next_compartment_of_stay(
                stages, compartment, np.int64(step) + 1, seed, replicate, np.int64(node)
            )
        ), np.int64(0)
    if len(SUSCEPTIBLE) == 1:
        return np.int64(INFECTED[0]), np.int64(1)
    if MODULATED:
        part = chosen_part(seed, replicate, np.int64(node), step)
        return _infected_by_weight(
            bits_here,
            plane,
            padded_count,
            node,
            compartment,
            part,
            factor,
            incoming,
            rules,
            planes,
            pressures,
        ), np.int64(1)
    chosen = chosen_share(pressure, seed, replicate, np.int64(node), step)
    found = np.int64(-1)
    for infection in unroll(range(len(SUSCEPTIBLE))):
        if compartment == SUSCEPTIBLE[infection] and found < 0:
            chosen -= _units(
                bits_here,
                plane,
                padded_count,
                node,
                infection,
                0,
                incoming,
                rules,
                planes,
                pressures,
            )
            if chosen < 0:
                found = np.int64(INFECTED[infection])
    return found, np.int64(1)


def _units(
    bits_here, plane, padded_count, node, infection, layer, incoming, rules, planes, pressures
):
    """Pressure on a node by one infection in one layer."""
    if PUSHES:
        channel = infection * LAYERS + layer
        return np.int64(pressures[np.uint32(channel * padded_count + node)])
    return np.int64(gather_one(bits_here, plane, infection, node, incoming, rules, planes))


def _infected_by_weight(
    bits_here,
    plane,
    padded_count,
    node,
    compartment,
    part,
    factor,
    incoming,
    rules,
    planes,
    pressures,
):
    """Where an infection leads, in proportion to the pressures as they are weighed."""
    total = real(0.0)
    for infection in unroll(range(len(SUSCEPTIBLE))):
        if compartment == SUSCEPTIBLE[infection]:
            for layer in unroll(range(LAYERS)):
                units = _units(
                    bits_here, plane, padded_count, node, infection, layer, incoming, rules, planes,
                    pressures,
                )  # fmt: skip
                total = fma(factor[layer], real(units), total)
    left = part * total
    found = np.int64(-1)
    for infection in unroll(range(len(SUSCEPTIBLE))):
        if compartment == SUSCEPTIBLE[infection] and (found < 0 or left > 0.0):
            found = np.int64(INFECTED[infection])
            for layer in unroll(range(LAYERS)):
                units = _units(
                    bits_here, plane, padded_count, node, infection, layer, incoming, rules, planes,
                    pressures,
                )  # fmt: skip
                left = fma(-factor[layer], real(units), left)
    return found
