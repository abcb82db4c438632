"""The exact epidemic as a shortest-path problem: method ``"first-passage"``.

Where nobody becomes susceptible again, an epidemic needs no clock.  For every node, draw how long
it stays in each compartment once it is infected.  For every arc (directed edge) i -> j, draw an
exponential threshold x.  Node i infects j when the cumulative force of infection along the arc,

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

from ergode.core.compiler.language import ByPrecision, bits, cuda, fma, from_bits, real, to_bits
from ergode.core.math.random import TRANSMISSION, draw_words, exponential
from ergode.epidemics.seeding import initial_compartment, seed_node, seeding_of_row
from ergode.epidemics.shared.options import WEIGHTED
from ergode.epidemics.shared.progression import (
    LANES,
    advance,
    hold,
    holding_time,
    new_lanes,
    next_compartment,
    stages_of_row,
)
from ergode.epidemics.shared.sweep import replicate_of


class Search(NamedTuple):
    """What does not change while replicates are searched."""

    offsets: Any  # a node's outgoing arcs are offsets[i] : offsets[i + 1]
    targets: Any
    weights: Any  # real [arc_count]
    stages: Any  # of all points, see `shared.progression`
    seeding: Any  # of all points, see `seeding`
    seed_count: Any  # most seeds of a replicate
    seed: Any
    rows: Any  # which replicates the rows are, see `shared.sweep`
    horizon: Any  # the last time, real


# ---- what both targets share


def _word(time):
    """Word of a node reached at `time` and not yet expanded."""
    return bits(to_bits(real(time)) << bits(1))


def time_of(word):
    """Time at which the node of a word is reached."""
    return from_bits(bits(word >> bits(1)))


def _limit(earliest, width):
    """Word up to which a pass expands: `width` later, and later at all however short that is."""
    return max(_word(time_of(earliest) + width), bits(earliest + bits(2)))


def _arc_words_32(seed, replicate, arc):
    """A word for an arc (and a spare): four arcs share a block."""
    w0, w1, w2, w3 = draw_words(seed, replicate, arc >> 2, TRANSMISSION, np.uint32(0))
    low = w1 if arc & 1 else w0
    high = w3 if arc & 1 else w2
    word = high if arc & 2 else low
    return word, word


def _arc_words_64(seed, replicate, arc):
    """Two words for an arc: two arcs share a block."""
    w0, w1, w2, w3 = draw_words(seed, replicate, arc >> 1, TRANSMISSION, np.uint32(0))
    return (w2 if arc & 1 else w0), (w3 if arc & 1 else w1)


_arc_words = ByPrecision(float32=_arc_words_32, float64=_arc_words_64)


def threshold(seed, replicate, arc, weights):
    """Cumulative force of infection at which an arc transmits, per unit of weight."""
    w0, w1 = _arc_words(seed, replicate, arc)
    x = exponential(w0, w1)
    return x / weights[arc] if WEIGHTED else x


def arrival(x, since, before, rate, duration):
    """When a node transmits along an arc during one of its stages; infinite if it does not.

    The stage begins at time `since` and lasts `duration`.  The cumulative force of infection of
    earlier stages is `before`.
    """
    if before <= x and x < fma(rate, duration, before):
        return since + (x - before) / rate
    return real(_NEVER)


def starting_compartment(seeding, time, node, node_count, seed, replicate):
    """Where the path of a node reached at `time` begins."""
    # Only a seed is reached at time zero, but for a transmission in no time at all.
    if time == 0.0:
        compartment = initial_compartment(seeding, node, node_count, seed, replicate)
        if compartment >= 0:
            return compartment
    return np.int32(seeding.entry)


_NEVER = float("inf")


# ---- CPU: one replicate a thread at a time, its nodes in lanes

# A block of words has one entry in `nearest`, the earliest pending word in it: a pass looks at
# blocks, then at groups (a few vector registers), and at single words only where there is work.
_BLOCK_BITS = 10
_BLOCK = 1 << _BLOCK_BITS
_GROUP = 32
_TRIALS = 1024  # arcs tried together
_EXPANDED = -1


class Trials(NamedTuple):
    """Arcs along which a transmission is tried: a structure of arrays [trial]."""

    arc: Any
    target: Any
    member: Any  # of the group of lanes
    threshold: Any
    word: Any  # at which the target would be reached


def search_cpu(start, stop, search, width, words, work):
    """Reach every node of replicates `start` to `stop`, on one thread.

    Out: `words` [replicate, node], `work` [replicate, 2] (expansions, passes).
    """
    rows, seed = search.rows, search.seed
    node_count = words.shape[1]
    never = _word(_NEVER)
    nearest = np.empty((node_count + _BLOCK - 1) >> _BLOCK_BITS, bits)
    lanes = new_lanes()
    before = np.empty(LANES, real)
    trials = Trials(
        np.empty(_TRIALS, np.int64), np.empty(_TRIALS, np.uint32), np.empty(_TRIALS, np.int32),
        np.empty(_TRIALS, real), np.empty(_TRIALS, bits),
    )  # fmt: skip
    for row in range(start, stop):
        replicate = replicate_of(rows, row)
        stages = stages_of_row(search.stages, rows, row)
        seeding = seeding_of_row(search.seeding, rows, row)
        reached = words[row]
        reached[:] = never
        nearest[:] = never
        for index in range(seeding.named_count + seeding.drawn_count):
            node = seed_node(seeding, index, node_count, seed, replicate)
            reached[node] = bits(0)
            nearest[node >> _BLOCK_BITS] = bits(0)
        work[row, 0] = 0
        work[row, 1] = 0
        while True:
            earliest = never
            for block in range(nearest.size):
                earliest = min(earliest, nearest[block])
            if earliest >= never:
                break
            limit = _limit(earliest, width)
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
    """Take pending nodes earlier than `limit` into lanes, from `position` until they are full.

    Returns where to go on, and how many nodes were taken.
    """
    count = 0
    while position < reached.size and count + _GROUP <= LANES:
        block = position >> _BLOCK_BITS
        if position & (_BLOCK - 1) == 0:
            if nearest[block] >= limit:
                position += _BLOCK
                continue
            nearest[block] = _word(_NEVER)
        end = min(position + _GROUP, reached.size)
        left = _earliest_pending(reached, position, end)
        if left < limit:
            left = _word(_NEVER)
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
    """Walk the nodes in lanes through their stages; lower the times of those they would infect."""
    offsets, targets, weights = search.offsets, search.targets, search.weights
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
        arc = np.int64(offsets[lanes.group_node[0]]) if size > 0 else np.int64(0)
        while member < size:
            tried = 0
            while member < size and tried < _TRIALS:
                node = lanes.group_node[member]
                earliest = _word(lanes.since[lanes.group[member]])
                end = np.int64(offsets[node + np.uint32(1)])
                last = min(end, arc + _TRIALS - tried)
                while arc < last:
                    target = np.uint32(targets[arc])
                    trials.arc[tried] = arc
                    trials.target[tried] = target
                    trials.member[tried] = member
                    # Kept only if the target could still be reached earlier: no branch.
                    tried += np.int64(earliest < bits(reached[target] & ~bits(1)))
                    arc += 1
                if arc == end:
                    member += 1
                    if member < size:
                        arc = np.int64(offsets[lanes.group_node[member]])
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
    for trial in range(tried):  # a loop for each kind of work: they vectorise one by one
        trials.threshold[trial] = threshold(seed, replicate, trials.arc[trial], weights)
    for trial in range(tried):
        member = trials.member[trial]
        lane = lanes.group[member]
        trials.word[trial] = _word(
            arrival(
                trials.threshold[trial], lanes.since[lane], before[lane], rate,
                lanes.group_duration[member],
            )
        )  # fmt: skip
    latest = _word(horizon)
    for trial in range(tried):
        target = trials.target[trial]
        word = trials.word[trial]
        if word <= latest and word < bits(reached[target] & ~bits(1)):
            reached[target] = word
            block = target >> _BLOCK_BITS
            nearest[block] = min(nearest[block], word)


# ---- CUDA: all replicates of a chunk in one persistent grid

THREADS = 256
_QUEUE = 2 * THREADS  # 64 entries a warp
_EVERY_LANE = np.uint32(0xFFFFFFFF)
# A node with more arcs than this is cut into segments, which the whole grid shares.
SEGMENT = 64


class Shares(NamedTuple):
    """What the lanes of a warp tell each other of the nodes they expand: shared memory [thread]."""

    end: Any  # running sum over lanes of the arcs in their shares
    arc: Any  # first arc of a lane's share, less the arcs of lanes before it
    row: Any  # replicate, from the first of the chunk
    since: Any  # when the node's stage begins
    before: Any  # cumulative force of infection of earlier stages
    rate: Any
    duration: Any


def _new_shares():
    """The shares of a block."""
    return Shares(
        cuda.shared.array(THREADS, np.int32), cuda.shared.array(THREADS, np.int64),
        cuda.shared.array(THREADS, np.uint32), cuda.shared.array(THREADS, real),
        cuda.shared.array(THREADS, real), cuda.shared.array(THREADS, real),
        cuda.shared.array(THREADS, real),
    )  # fmt: skip


def search_cuda(
    search, width, tile, words, segments, earliest, segment_count, work
):  # fmt: skip
    """Reach every node of every replicate; one cooperative grid from seeds to fixed point.

    Out: `words` [replicate x node], `work` [2] (expansions, passes). Scratch: `segments`
    [capacity, 2]; `earliest` [3] and `segment_count` [3], each for this pass, the next and the one
    after.

    A warp scans tiles of words into a queue of its own and expands 32 nodes at a time: a lane
    draws the stages of one node, then all lanes share the arcs of the 32.  Segments of hubs are
    expanded likewise, by the whole grid, once the scan is over.
    """
    grid = cuda.cg.this_grid()
    me = np.uint32(cuda.threadIdx.x)
    lane = np.int32(cuda.threadIdx.x & 31)
    mine = np.uint32(me - np.uint32(lane))  # where this warp's part of shared arrays begins
    queue = cuda.shared.array(_QUEUE, np.uint32)
    shares = _new_shares()
    block_earliest = cuda.shared.array(1, bits)
    block_expansions = cuda.shared.array(1, np.int32)

    node_count = np.uint32(search.offsets.size - 1)
    never = _word(_NEVER)
    first = cuda.grid(1)
    stride = cuda.gridsize(1)
    _clear(words, earliest, segment_count, work, first, stride)
    if me == 0:
        block_expansions[0] = 0
    grid.sync()
    _reach_seeds(search, words, node_count, first, stride)
    grid.sync()

    expansions = np.int32(0)
    passes = np.int32(0)
    start = bits(0)
    while start < never:
        limit = _limit(start, width)
        passes += np.int32(1)
        slot = np.int32(passes % 3)
        if first == 0:
            earliest[(passes + 1) % 3] = never
            segment_count[(passes + 1) % 3] = 0
        scanning = True
        while True:
            left = never
            if me == 0:
                block_earliest[0] = never
            cuda.syncthreads()
            position = (first >> 5) * tile if scanning else first >> 5
            queued = np.int32(0)
            while True:
                # A node, or a segment of a hub, for every lane.
                alive = False
                v = np.uint32(0)
                part = np.int64(0)
                if scanning:
                    position, queued, left = _scan(
                        words, limit, tile, stride >> 5, queue, mine, lane, position, queued, left
                    )
                    if queued == 0:
                        break
                    taken = min(queued, np.int32(32))
                    queued -= taken
                    alive = lane < taken
                    if alive:
                        v = queue[np.uint32(2 * mine + np.uint32(queued + lane))]
                    cuda.syncwarp()
                else:
                    if position >= segment_count[slot]:
                        break
                    at = position + lane * (stride >> 5)
                    alive = at < segment_count[slot]
                    if alive:
                        v = segments[at, 0]
                        part = np.int64(segments[at, 1])
                    position += stride
                expansions += np.int32(scanning and alive)
                since, arc, degree = _arcs_of_lane(
                    alive, v, part, search.offsets, node_count, words, scanning, segments,
                    segment_count, slot,
                )  # fmt: skip
                left = _expand_warp(
                    v, since, arc, degree, left, lane, me, mine, shares, search, node_count, words
                )
            _note_earliest(left, lane, me, block_earliest, earliest, slot)
            grid.sync()
            if not scanning or segment_count[slot] == 0:
                break
            scanning = False
        start = earliest[slot]
    _note_work(expansions, passes, me, block_expansions, work, first)


def _clear(words, earliest, segment_count, work, first, stride):
    """Nobody is reached."""
    for v in range(first, words.size, stride):
        words[np.uint32(v)] = _word(_NEVER)
    if first < 3:
        earliest[first] = _word(_NEVER)
        segment_count[first] = 0
    if first < 2:
        work[first] = 0


def _reach_seeds(search, words, node_count, first, stride):
    """Seeds are reached at time zero."""
    seed_count = np.int64(search.seed_count)
    replicate_count = np.int64(words.size // np.int64(node_count))
    for s in range(first, seed_count * replicate_count, stride):
        row = s // seed_count
        index = s - row * seed_count
        seeding = seeding_of_row(search.seeding, search.rows, row)
        if index < seeding.named_count + seeding.drawn_count:
            replicate = replicate_of(search.rows, row)
            node = seed_node(seeding, index, np.int64(node_count), search.seed, replicate)
            words[row * np.int64(node_count) + node] = bits(0)


def _note_earliest(left, lane, me, block_earliest, earliest, slot):
    """Lower the earliest pending word of a pass to that of a block."""
    soonest = time_of(left)  # floats, because lanes exchange no unsigned integers
    for shift in (16, 8, 4, 2, 1):
        soonest = min(soonest, cuda.shfl_xor_sync(_EVERY_LANE, soonest, shift))
    if lane == 0:
        cuda.atomic.min(block_earliest, 0, _word(soonest))
    cuda.syncthreads()
    if me == 0 and block_earliest[0] < _word(_NEVER):
        cuda.atomic.min(earliest, slot, block_earliest[0])


def _note_work(expansions, passes, me, block_expansions, work, first):
    """Add up the expansions of all threads, which have as many passes each."""
    cuda.atomic.add(block_expansions, 0, expansions)
    cuda.syncthreads()
    if me == 0:
        cuda.atomic.add(work, 0, np.int64(block_expansions[0]))
    if first == 0:
        work[1] = passes


def _scan(words, limit, tile, warp_count, queue, mine, lane, position, queued, left):
    """Queue pending nodes earlier than `limit` until there are 32, or no more of this warp's tiles.

    Returns where to go on, how many are queued, and the earliest pending word not queued.
    """
    while queued < 32 and position < words.size:
        at = position + lane
        hit = False
        if at < words.size:
            word = words[np.uint32(at)]
            if (word & bits(1)) == bits(0):
                hit = word < limit
                if not hit:
                    left = min(left, word)
        mask = cuda.ballot_sync(_EVERY_LANE, hit)
        if hit:
            ahead = cuda.popc(np.uint32(mask & ((1 << lane) - 1)))
            queue[np.uint32(2 * mine + np.uint32(queued + ahead))] = np.uint32(at)
        queued += np.int32(cuda.popc(mask))
        position += 32
        if position & (tile - 1) == 0:
            position += (warp_count - 1) * tile
    cuda.syncwarp()
    return position, queued, left


def _arcs_of_lane(
    alive, v, part, offsets, node_count, words, scanning, segments, segment_count, slot
):  # fmt: skip
    """When the node of a lane is reached; the first of its arcs to expand, and how many.

    A lane that is not `alive` has none.
    """
    since = real(0.0)
    arc = np.int64(0)
    degree = np.int32(0)
    if alive:
        node = np.uint32(v % node_count)
        arc = np.int64(offsets[node]) + part * SEGMENT
        degree = np.int32(offsets[node + np.uint32(1)] - arc)
        since, degree = _take(words, v, degree, scanning, segments, segment_count, slot)
    return since, arc, degree


def _take(words, v, degree, scanning, segments, segment_count, slot):
    """When a node is reached, and along how many arcs it is expanded now.

    A scan marks the node as expanded, and leaves hubs to the whole grid.
    """
    if scanning:
        since = time_of(cuda.atomic.or_(words, v, bits(1)))
        if degree > SEGMENT:
            _cut(v, degree, segments, segment_count, slot)
            return since, np.int32(0)
        return since, np.int32(degree)
    return time_of(words[v]), np.int32(min(degree, SEGMENT))


def _cut(v, degree, segments, segment_count, slot):
    """Leave a hub to the whole grid, in segments."""
    parts = np.int32((degree + SEGMENT - 1) // SEGMENT)
    at = cuda.atomic.add(segment_count, slot, parts)
    for part in range(parts):
        segments[at + part, 0] = v
        segments[at + part, 1] = part


def _expand_warp(
    v, since, arc, degree, left, lane, me, mine, shares, search, node_count, words
):  # fmt: skip
    """Lower the times of those whom a warp's 32 nodes would infect, along `degree` arcs of each.

    Returns the earliest word written, or `left` if that is earlier.
    """
    rows, seed, horizon = search.rows, search.seed, search.horizon
    row = np.uint32(v // node_count)
    node = np.uint32(v - row * node_count)
    replicate = replicate_of(rows, row)
    stages = stages_of_row(search.stages, rows, row)
    alive = degree > 0 and since <= horizon
    before = real(0.0)
    compartment = np.int32(0)
    if alive:
        seeding = seeding_of_row(search.seeding, rows, row)
        compartment = starting_compartment(
            seeding, since, np.int64(node), np.int64(node_count), seed, replicate
        )
    while cuda.any_sync(_EVERY_LANE, alive):
        # Every lane goes on to the next stage in which its node infects ...
        share = np.int32(0)
        while alive and share == 0:
            rate = stages.transmission_rate[compartment]
            duration = holding_time(stages, compartment, seed, replicate, node)
            if rate > 0.0:
                share = degree
                shares.since[me] = since
                shares.before[me] = before
                shares.rate[me] = rate
                shares.duration[me] = duration
                before = fma(rate, duration, before)
            since = since + duration
            if stages.kind[compartment] < 0 or since > horizon:
                alive = False
            else:
                compartment = next_compartment(stages, compartment, seed, replicate, node)
        # ... and all lanes share the arcs of all, found by searching the running sum.
        end = share
        for shift in (1, 2, 4, 8, 16):
            below = cuda.shfl_up_sync(_EVERY_LANE, end, shift)
            if lane >= shift:
                end += below
        shares.end[me] = end
        shares.arc[me] = arc - (end - share)
        shares.row[me] = row
        cuda.syncwarp()
        for k in range(lane, shares.end[np.uint32(mine + np.uint32(31))], 32):
            owner = mine
            for step in (np.uint32(16), np.uint32(8), np.uint32(4), np.uint32(2), np.uint32(1)):
                if shares.end[np.uint32(owner + step - np.uint32(1))] <= k:
                    owner = np.uint32(owner + step)
            e = np.uint64(shares.arc[owner] + k)
            at = np.uint32(shares.row[owner] * node_count + np.uint32(search.targets[e]))
            known = bits(words[at] & ~bits(1))
            begun = shares.since[owner]
            if _word(begun) < known:
                x = threshold(seed, replicate_of(rows, shares.row[owner]), e, search.weights)
                time = arrival(
                    x, begun, shares.before[owner], shares.rate[owner], shares.duration[owner]
                )
                word = _word(time)
                if word < known and time <= horizon:
                    cuda.atomic.min(words, at, word)
                    left = min(left, word)
        cuda.syncwarp()
    return left
