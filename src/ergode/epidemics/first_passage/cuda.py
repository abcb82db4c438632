"""The search of `kernel` on a GPU: all replicates of a chunk in one persistent grid."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, cuda, fma, real
from ergode.core.group import (
    EVERY_LANE,
    Group,
    barrier,
    lanes_before,
    least_of_lanes,
    prefix_of_lanes,
    share,
)
from ergode.epidemics.first_passage.kernel import (
    NEVER,
    arrival,
    limit_after,
    starting_compartment,
    threshold,
    time_of,
    word_of,
)
from ergode.epidemics.seeding import seed_node, seeding_of_row
from ergode.epidemics.shared.progression import holding_time, next_compartment, stages_of_row
from ergode.epidemics.shared.sweep import replicate_of

THREADS = 256
_QUEUE = 2 * THREADS  # 64 entries a warp
# A node with more arcs than this is cut into segments, which the whole grid shares.
SEGMENT = 64


class Shares(NamedTuple):
    """Shares of the arcs that the lanes of a warp expand: shared memory [thread]."""

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
    grid = Group(cuda.grid(1), cuda.gridsize(1), cuda.cg.this_grid(), (), ())
    me = np.uint32(cuda.threadIdx.x)
    lane = np.int32(cuda.threadIdx.x & 31)
    mine = np.uint32(me - np.uint32(lane))  # where this warp's part of shared arrays begins
    queue = cuda.shared.array(_QUEUE, np.uint32)
    shares = _new_shares()
    block_earliest = cuda.shared.array(1, bits)
    block_expansions = cuda.shared.array(1, np.int32)

    node_count = np.uint32(search.offsets.size - 1)
    never = word_of(NEVER)
    first, stride = grid.rank, grid.size
    clear(words, earliest, segment_count, work, grid)
    if me == 0:
        block_expansions[0] = 0
    barrier(grid)
    reach_seeds(search, words, np.int64(node_count), grid)
    barrier(grid)

    expansions = np.int32(0)
    passes = np.int32(0)
    start = bits(0)
    while start < never:
        limit = limit_after(start, width)
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
            note_earliest(left, lane, me, block_earliest, earliest, slot)
            barrier(grid)
            if not scanning or segment_count[slot] == 0:
                break
            scanning = False
        start = earliest[slot]
    _note_work(expansions, passes, me, block_expansions, work, first)


def clear(words, earliest, queued, work, grid):
    """Mark all nodes as not reached."""
    for v in share(grid, 0, words.size):
        words[v] = word_of(NEVER)
    if grid.rank < 3:
        earliest[grid.rank] = word_of(NEVER)
        queued[grid.rank] = 0
    if grid.rank < 2:
        work[grid.rank] = 0


def reach_seeds(search, words, node_count, grid):
    """Seeds are reached at time zero."""
    seed_count = np.int64(search.seed_count)
    replicate_count = np.int64(words.size // node_count)
    for s in share(grid, 0, seed_count * replicate_count):
        row = s // seed_count
        index = s - row * seed_count
        seeding = seeding_of_row(search.seeding, search.rows, row)
        if index < seeding.named_count + seeding.drawn_count:
            replicate = replicate_of(search.rows, row)
            node = seed_node(seeding, index, node_count, search.seed, replicate)
            words[row * node_count + node] = bits(0)


def note_earliest(left, lane, me, block_earliest, earliest, slot):
    """Lower the earliest pending word of a pass to the minimum of a block."""
    soonest = least_of_lanes(time_of(left))  # floats: lanes exchange no unsigned integers
    if lane == 0:
        cuda.atomic.min(block_earliest, 0, word_of(soonest))
    cuda.syncthreads()
    if me == 0 and block_earliest[0] < word_of(NEVER):
        cuda.atomic.min(earliest, slot, block_earliest[0])


def _note_work(expansions, passes, me, block_expansions, work, first):
    """Add up the expansions of all threads; all threads make the same number of passes."""
    cuda.atomic.add(block_expansions, 0, expansions)
    cuda.syncthreads()
    if me == 0:
        cuda.atomic.add(work, 0, np.int64(block_expansions[0]))
    if first == 0:
        work[1] = passes


def _scan(words, limit, tile, warp_count, queue, mine, lane, position, queued, left):
    """Queue pending nodes earlier than `limit` until 32 are queued or this warp's tiles end.

    Returns the next position, the number of queued nodes, and the earliest pending word not queued.
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
        mask = cuda.ballot_sync(EVERY_LANE, hit)
        if hit:
            ahead = lanes_before(mask, lane)
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
    """Time at which a lane's node is reached, its first arc to expand, and the number of arcs.

    A lane that is not `alive` has no arcs.
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
    """Time at which a node is reached, and the number of its arcs to expand now.

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
    """Queue a hub in segments for the whole grid."""
    parts = np.int32((degree + SEGMENT - 1) // SEGMENT)
    at = cuda.atomic.add(segment_count, slot, parts)
    for part in range(parts):
        segments[at + part, 0] = v
        segments[at + part, 1] = part


def next_infectious(
    alive, since, before, compartment, me, shares, stages, horizon, seed, replicate, node
):  # fmt: skip
    """Advance the node of a lane to its next infectious stage, which becomes the lane's share.

    Returns whether there is one; whether the lane has further stages; and of these, the time, the
    cumulative force of infection and the compartment at which they begin.
    """
    infects = False
    while alive and not infects:
        rate = stages.transmission_rate[compartment]
        duration = holding_time(stages, compartment, seed, replicate, node)
        if rate > 0.0:
            infects = True
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
    return infects, alive, since, before, compartment


def _expand_warp(
    v, since, arc, degree, left, lane, me, mine, shares, search, node_count, words
):  # fmt: skip
    """Lower the infection times of the targets of a warp's 32 nodes, along `degree` arcs of each.

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
    while cuda.any_sync(EVERY_LANE, alive):
        # Every lane advances to the next infectious stage of its node ...
        infects, alive, since, before, compartment = next_infectious(
            alive, since, before, compartment, me, shares, stages, horizon, seed, replicate, node
        )
        own = np.int32(degree if infects else 0)
        # ... and the lanes share all arcs: each finds its own by a search in the running sum.
        end = prefix_of_lanes(own, lane, 32, EVERY_LANE)
        shares.end[me] = end
        shares.arc[me] = arc - (end - own)
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
            if word_of(begun) < known:
                x = threshold(seed, replicate_of(rows, shares.row[owner]), e, search.weights)
                time = arrival(
                    x, begun, shares.before[owner], shares.rate[owner], shares.duration[owner]
                )
                word = word_of(time)
                if word < known and time <= horizon:
                    cuda.atomic.min(words, at, word)
                    left = min(left, word)
        cuda.syncwarp()
    return left
