"""The exact epidemic as a shortest-path problem: method ``"first-passage"``.

Without reinfection, an epidemic needs no clock.  For every node, draw its holding time in each
compartment after infection.  For every arc (directed edge) i -> j, draw an exponential threshold x.
Node i infects j when the cumulative force of infection along the arc,

    the integral of transmission rate x arc weight over i's time since infection,

reaches x, and never if it does not.  The age of i at that moment is the length of the arc.  The
infection time of a node is the length of the shortest path from the seeds: exactly, with no time
step.  A length is computed when it is needed: it is a function of (seed, replicate, node or arc).
This is first-passage percolation (Sellke 1983, J. Appl. Probab. 20; for epidemics, Kenah and
Robins 2007, Phys. Rev. E 76, 036113).

The search keeps one word per node, ``2 x (bits of the time) + (1 if expanded)``.  The bits of
positive floats have the order of the floats.  So to lower a time is a minimum over integers, and
the same write marks the node as not expanded.  A pass expands every pending node earlier than
`limit`.  The limit then moves to `width` after the earliest pending node.  The fixed point does not
depend on the order, so the result does not depend on width, threads, blocks or devices.  Only the
number of nodes that are expanded twice does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByPrecision, bits, fma, from_bits, real, to_bits
from ergode.core.math.random import TRANSMISSION, draw_words, exponential
from ergode.epidemics.seeding import initial_compartment, seed_node, seeding_of_row
from ergode.epidemics.shared.arcs import end_arc, first_arc, of_arc, target_of
from ergode.epidemics.shared.options import WEIGHTED, WIDE
from ergode.epidemics.shared.progression import (
    LANES,
    advance,
    hold,
    new_lanes,
    stages_of_row,
)
from ergode.epidemics.shared.sweep import replicate_of


class Search(NamedTuple):
    """Read-only tables of a search."""

    offsets: Any  # a node's outgoing arcs are offsets[i] : offsets[i + 1]
    targets: Any  # or `ComputedArcs`, see `shared.arcs`
    weights: Any  # real [arc_count], or [slot_count] of a computed network
    stages: Any  # of all points, see `shared.progression`
    seeding: Any  # of all points, see `seeding`
    seed_count: Any  # largest number of seeds of a replicate
    seed: Any
    rows: Any  # point and replicate of the rows, see `shared.sweep`
    horizon: Any  # the last time, real


# ---- shared by both targets


def word_of(time):
    """Word of a node reached at `time` and not yet expanded."""
    return bits(to_bits(real(time)) << bits(1))


def time_of(word):
    """Time at which the node of a word is reached."""
    return from_bits(bits(word >> bits(1)))


def limit_after(earliest, width):
    """Word up to which a pass expands: `width` after `earliest`, and always later than it."""
    return max(word_of(time_of(earliest) + width), bits(earliest + bits(2)))


def _arc_words_32(seed, replicate, arc):
    """A random word for an arc (and a spare): four arcs share a block."""
    w0, w1, w2, w3 = draw_words(seed, replicate, arc >> 2, TRANSMISSION, np.uint32(0))
    low = w1 if arc & 1 else w0
    high = w3 if arc & 1 else w2
    word = high if arc & 2 else low
    return word, word


def _arc_words_64(seed, replicate, arc):
    """Two random words for an arc: two arcs share a block."""
    w0, w1, w2, w3 = draw_words(seed, replicate, arc >> 1, TRANSMISSION, np.uint32(0))
    return (w2 if arc & 1 else w0), (w3 if arc & 1 else w1)


_arc_words = ByPrecision(float32=_arc_words_32, float64=_arc_words_64)


def threshold(seed, replicate, arc, weights):
    """Cumulative force of infection at which an arc transmits, per unit of weight."""
    w0, w1 = _arc_words(seed, replicate, arc)
    x = exponential(w0, w1)
    return x / of_arc(weights, arc) if WEIGHTED else x


def arrival(x, since, before, rate, duration):
    """When a node transmits along an arc during one of its stages; infinite if it does not.

    The stage begins at time `since` and lasts `duration`.  The cumulative force of infection of
    earlier stages is `before`.
    """
    if before <= x and x < fma(rate, duration, before):
        return since + (x - before) / rate
    return real(NEVER)


def starting_compartment(seeding, time, node, node_count, seed, replicate):
    """First compartment of the path of a node reached at `time`."""
    # Only seeds are reached at time zero, unless a transmission takes no time.
    if time == 0.0:
        compartment = initial_compartment(seeding, node, node_count, seed, replicate)
        if compartment >= 0:
            return compartment
    return np.int32(seeding.entry)


NEVER = float("inf")


# ---- CPU: each thread runs one replicate at a time, with its nodes in lanes

# A block of words has one entry in `nearest`, the earliest pending word in it: a pass looks at
# blocks, then at groups (a few vector registers), and at single words only where words are pending.
_BLOCK_BITS = 10
_BLOCK = 1 << _BLOCK_BITS
_GROUP = 32
_TRIALS = 1024  # arcs tried together
_EXPANDED = -1


class Trials(NamedTuple):
    """Arcs whose transmission time is drawn: a structure of arrays [trial]."""

    arc: Any
    target: Any
    member: Any  # of the group of lanes
    threshold: Any
    word: Any  # of the time at which the target would be reached


def search_cpu(start, stop, search, width, budget, words, work, pending):
    """Reach every node of replicates `start` to `stop`, on one thread.

    Out: `words` [replicate, node], `work` [replicate, 2] (expansions, passes), and `pending`
    [replicate], the time of the earliest node that is still to be expanded, infinite if none is.

    With a `budget` of -1 all passes are made. Otherwise up to as many are made of a replicate,
    which goes on from its words if its work is not zero.
    """
    rows, seed = search.rows, search.seed
    node_count = words.shape[1]
    never = word_of(NEVER)
    nearest = np.empty((node_count + _BLOCK - 1) >> _BLOCK_BITS, bits)
    lanes = new_lanes()
    before = np.empty(LANES, real)
    trials = Trials(
        np.empty(_TRIALS, np.int64), np.empty(_TRIALS, np.uint64 if WIDE else np.uint32),
        np.empty(_TRIALS, np.int32),
        np.empty(_TRIALS, real), np.empty(_TRIALS, bits),
    )  # fmt: skip
    for row in range(start, stop):
        replicate = replicate_of(rows, row)
        stages = stages_of_row(search.stages, rows, row)
        seeding = seeding_of_row(search.seeding, rows, row)
        reached = words[row]
        if budget < 0 or work[row, 1] == 0:
            reached[:] = never
            for index in range(seeding.named_count + seeding.drawn_count):
                reached[seed_node(seeding, index, node_count, seed, replicate)] = bits(0)
            work[row, 0] = 0
            work[row, 1] = 0
        for block in range(nearest.size):
            begin = block << _BLOCK_BITS
            found = _earliest_pending(reached, begin, min(begin + _BLOCK, node_count))
            nearest[block] = min(never, found)
        left = np.int64(budget)
        while True:
            earliest = never
            for block in range(nearest.size):
                earliest = min(earliest, nearest[block])
            pending[row] = time_of(earliest)
            if earliest >= never or left == 0:
                break
            left -= 1
            limit = limit_after(earliest, width)
            position = 0
            while position < node_count:
                position, count = _collect(lanes, position, limit, nearest, reached)
                _expand(
                    lanes, count, before, trials, nearest, reached, search, stages, seeding,
                    replicate,
                )  # fmt: skip
                work[row, 0] += count
            work[row, 1] += 1


def _collect(lanes, position, limit, nearest, reached):
    """Fill lanes with pending nodes earlier than `limit`, starting at `position`.

    Returns the next position and the number of nodes taken.
    """
    count = 0
    while position < reached.size and count + _GROUP <= LANES:
        block = position >> _BLOCK_BITS
        if position & (_BLOCK - 1) == 0:
            if nearest[block] >= limit:
                position += _BLOCK
                continue
            nearest[block] = word_of(NEVER)
        end = min(position + _GROUP, reached.size)
        left = _earliest_pending(reached, position, end)
        if left < limit:
            left = word_of(NEVER)
            for node in range(position, end):
                word = reached[node]
                if (word & bits(1)) == bits(0):
                    if word < limit:
                        reached[node] = bits(word | bits(1))
                        lanes.node[count] = node
                        lanes.since[count] = time_of(word)
                        count += 1
                    else:
                        left = min(left, word)
        nearest[block] = min(nearest[block], left)
        position = end
    return position, count


def _earliest_pending(reached, begin, end):
    """Least pending word of a group; without branches, so that it vectorises."""
    least = bits(_EXPANDED)
    for node in range(np.uint64(begin), np.uint64(end)):
        word = reached[node]
        least = min(least, bits(word | bits(bits(0) - bits(word & bits(1)))))
    return least


def _expand(
    lanes, count, before, trials, nearest, reached, search, stages, seeding, replicate
):  # fmt: skip
    """Follow the nodes in lanes through their stages; lower the times of their targets."""
    weights = search.weights
    seed, horizon = search.seed, search.horizon
    for lane in range(count):
        before[lane] = 0.0
        lanes.compartment[lane] = starting_compartment(
            seeding, lanes.since[lane], np.int64(lanes.node[lane]), reached.size, seed, replicate
        )
    for compartment in stages.order:
        rate = stages.transmission_rate[compartment]
        final = stages.kind[compartment] < 0
        if final and rate == 0.0:
            continue
        size = hold(lanes, count, stages, compartment, horizon, seed, replicate)
        member = 0 if rate > 0.0 else size
        arc = first_arc(search, lanes.group_node[0]) if size > 0 else np.int64(0)
        while member < size:
            tried = 0
            while member < size and tried < _TRIALS:
                node = lanes.group_node[member]
                earliest = word_of(lanes.since[lanes.group[member]])
                end = end_arc(search, node)
                last = min(end, arc + _TRIALS - tried)
                while arc < last:
                    target = target_of(search, node, arc)
                    trials.arc[tried] = arc
                    trials.target[tried] = target
                    trials.member[tried] = member
                    # Kept only if the target could still be reached earlier: no branch.
                    tried += np.int64(earliest < bits(reached[target] & ~bits(1)))
                    arc += 1
                if arc == end:
                    member += 1
                    if member < size:
                        arc = first_arc(search, lanes.group_node[member])
            _try(
                trials, tried, lanes, before, rate, nearest, reached, weights,
                seed, replicate, horizon,
            )  # fmt: skip
        if not final:
            for k in range(size):
                lane = lanes.group[k]
                before[lane] = fma(rate, lanes.group_duration[k], before[lane])
            advance(lanes, size, stages, compartment, seed, replicate)


def _try(trials, tried, lanes, before, rate, nearest, reached, weights, seed, replicate, horizon):
    """Draw whether and when each trial's arc transmits, and lower the times of the targets."""
    for trial in range(tried):  # separate loops vectorise
        trials.threshold[trial] = threshold(seed, replicate, trials.arc[trial], weights)
    for trial in range(tried):
        member = trials.member[trial]
        lane = lanes.group[member]
        trials.word[trial] = word_of(
            arrival(
                trials.threshold[trial], lanes.since[lane], before[lane], rate,
                lanes.group_duration[member],
            )
        )  # fmt: skip
    latest = word_of(horizon)
    for trial in range(tried):
        target = trials.target[trial]
        word = trials.word[trial]
        if word <= latest and word < bits(reached[target] & ~bits(1)):
            reached[target] = word
            block = target >> _BLOCK_BITS
            nearest[block] = min(nearest[block], word)
