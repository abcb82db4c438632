"""The search of `kernel` on a GPU for networks that are computed: one grid, no arcs in memory.

What bounds it.  A node costs 4 bytes, and a pass reads all of them; a case costs one expansion, and
each of its arcs that transmits reads the word of its target, 32 bytes of a random place, which is
also the least that memory delivers.  A target that is lowered is read and written once more.  For
a random regular network of degree 8 and transmissibility 0.68 these are, in bytes a node,

    scans         4 x 31 passes for 150 days               124
    targets       8 x 0.68 x 32                            174
    lowered       about 1.5 x 64                            96
    counts        4                                          4

that is 400 bytes a node, or 3.2 TB for 8e9 nodes: 0.7 s at 4.5 TB/s.  An arc costs about 200
instructions: a permutation of 7 rounds, a quarter of a block of random words, a logarithm, an
eighth of the draws of its node.  For 8e9 nodes these are 1.3e13, half of them on the integer unit:
0.5 s.  An H200 takes 3.0 s, and as long for each node among 1e8 to 8e9.  So neither bound is met:
it makes 1.9e10 random reads and writes a second, and waits for them.

Three things keep it near these bounds.  A lane draws four consecutive arcs from one block of random
words, and reads the words of their four targets together.  A node that is lowered to a time within
the window is listed, so that the window needs one scan, not one for every link of a chain of fast
infections.  While few nodes are expanded, windows are longer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByPrecision, bits, cuda, real, unroll
from ergode.core.group import EVERY_LANE, Group, barrier, lanes_before
from ergode.core.math.random import TRANSMISSION, draw_words, exponential
from ergode.epidemics.first_passage.cuda import (
    THREADS,
    clear,
    next_infectious,
    note_earliest,
    reach_seeds,
)
from ergode.epidemics.first_passage.kernel import (
    NEVER,
    arrival,
    limit_after,
    starting_compartment,
    time_of,
    word_of,
)
from ergode.epidemics.seeding import seeding_of_row
from ergode.epidemics.shared.arcs import first_arc
from ergode.epidemics.shared.options import WEIGHTED
from ergode.epidemics.shared.progression import stages_of_row
from ergode.epidemics.shared.sweep import replicate_of
from ergode.models.networks.computed_arcs import slot_target

_SCANNED = 4  # words that a lane reads at a time; 32 times as many divide a tile
_QUEUE_OF_LANE = 1 + _SCANNED
_QUEUE = THREADS * _QUEUE_OF_LANE
_LONGER = 4.0  # windows, while fewer than a thousandth of all nodes are expanded in each
_FEW = 10


class Shares(NamedTuple):
    """Nodes whose arcs the lanes of a warp expand: shared memory [thread]."""

    owner: Any  # threads that have a node with arcs to expand, the first ones of a warp
    node: Any
    row: Any  # replicate, from the first of the chunk
    since: Any  # when the node's stage begins
    before: Any  # cumulative force of infection of earlier stages
    rate: Any
    duration: Any


class Frontier(NamedTuple):
    """What a pass has to expand, and what it leaves."""

    words: Any  # of all nodes of all replicates
    limit: Any  # word up to which the pass expands
    again: Any  # nodes lowered below the limit, uint64 [capacity]
    count: Any  # of those, for this pass, the next and the one after, int32 [3]
    slot: Any  # of this pass


def _new_shares():
    """The shares of a block."""
    return Shares(
        cuda.shared.array(THREADS, np.uint32), cuda.shared.array(THREADS, np.uint64),
        cuda.shared.array(THREADS, np.uint32), cuda.shared.array(THREADS, real),
        cuda.shared.array(THREADS, real), cuda.shared.array(THREADS, real),
        cuda.shared.array(THREADS, real),
    )  # fmt: skip


def search_computed_cuda(search, width, tile, words, again, earliest, again_count, work):
    """Reach every node of every replicate; one cooperative grid from seeds to fixed point.

    Out: `words` [replicate x node], `work` [2] (expansions, passes). Scratch: `again` [capacity];
    `earliest` [3] and `again_count` [3], each for this pass, the next and the one after.

    A warp scans tiles of words into a queue of its own and expands 32 nodes at a time.  Nodes that
    are lowered to a time before the limit are listed in `again` and expanded by the whole grid,
    until there are none; those for which the list has no room are left to the next pass.
    """
    grid = Group(cuda.grid(1), cuda.gridsize(1), cuda.cg.this_grid(), (), ())
    me = np.uint32(cuda.threadIdx.x)
    lane = np.int32(cuda.threadIdx.x & 31)
    mine = np.uint32(me - np.uint32(lane))  # where this warp's part of shared arrays begins
    queue = cuda.shared.array(_QUEUE, np.uint64)
    shares = _new_shares()
    block_earliest = cuda.shared.array(1, bits)
    block_expansions = cuda.shared.array(1, np.int32)

    never = word_of(NEVER)
    first, stride = grid.rank, grid.size
    clear(words, earliest, again_count, work, grid)
    barrier(grid)
    reach_seeds(search, words, np.int64(search.targets.domain.count), grid)
    barrier(grid)

    few = np.int64(words.size >> _FEW)
    reach = real(width)
    total = np.int64(0)
    passes = np.int32(0)
    start = bits(0)
    while start < never:
        limit = limit_after(start, reach)
        passes += np.int32(1)
        slot = np.int32(passes % 3)
        if first == 0:
            earliest[(passes + 1) % 3] = never
            again_count[(passes + 1) % 3] = 0
        if me == 0:
            block_earliest[0] = never
            block_expansions[0] = 0
        cuda.syncthreads()
        frontier = Frontier(words, limit, again, again_count, slot)
        left = never
        expansions = np.int32(0)
        position = (first >> 5) * tile
        queued = np.int32(0)
        while True:
            position, queued, left = _scan(
                words, limit, tile, stride >> 5, queue, np.uint32(mine * np.uint32(_QUEUE_OF_LANE)),
                lane, position, queued, left,
            )  # fmt: skip
            if queued == 0:
                break
            taken = min(queued, np.int32(32))
            queued -= taken
            alive = lane < taken
            v = np.uint64(0)
            if alive:
                v = queue[np.uint32(mine * np.uint32(_QUEUE_OF_LANE)) + np.uint32(queued + lane)]
            cuda.syncwarp()
            left, expansions = _expand_warp(
                v, alive, left, expansions, lane, me, mine, shares, search, frontier
            )
        barrier(grid)
        low = np.int64(0)
        high = min(np.int64(again_count[slot]), np.int64(again.size))
        while low < high:
            barrier(grid)  # all threads have read the count, before any of them adds to it
            position = low + (first - lane)
            while position < high:
                alive = position + lane < high
                v = np.uint64(0)
                if alive:
                    v = again[position + lane]
                left, expansions = _expand_warp(
                    v, alive, left, expansions, lane, me, mine, shares, search, frontier
                )
                position += stride
            barrier(grid)
            low = high
            high = min(np.int64(again_count[slot]), np.int64(again.size))
        _note(left, expansions, lane, me, block_earliest, block_expansions, earliest, slot, work)
        barrier(grid)
        start = earliest[slot]
        done = work[0] - total
        total = work[0]
        if reach == width:
            if done < few >> 2:
                reach = real(width * _LONGER)
        elif done > few:
            reach = real(width)
        barrier(grid)  # all threads have read the work, before any of them adds to it
    if first == 0:
        work[1] = passes


def _note(left, expansions, lane, me, block_earliest, block_expansions, earliest, slot, work):
    """Lower the earliest pending word of a pass to that of a block, and add up its expansions."""
    cuda.atomic.add(block_expansions, 0, expansions)
    note_earliest(left, lane, me, block_earliest, earliest, slot)
    if me == 0:
        cuda.atomic.add(work, 0, np.int64(block_expansions[0]))


def _scan(words, limit, tile, warp_count, queue, base, lane, position, queued, left):
    """Queue pending nodes earlier than `limit` until 32 are queued or this warp's tiles end.

    Returns the next position, the number of queued nodes, and the earliest pending word not queued.
    """
    last = np.int64(words.size - 1)
    while queued < 32 and position < words.size:
        at = np.int64(position + lane)
        # Several reads without a branch between them, so that they overlap.
        found = tuple(words[min(at + 32 * k, last)] for k in range(_SCANNED))
        for k in unroll(range(_SCANNED)):
            word = found[k]
            pending = (word & bits(1)) == bits(0) and at + 32 * k <= last
            hit = pending and word < limit
            if pending and not hit:
                left = min(left, word)
            mask = cuda.ballot_sync(EVERY_LANE, hit)
            if hit:
                ahead = lanes_before(mask, lane)
                queue[np.uint32(base + np.uint32(queued + ahead))] = np.uint64(at + 32 * k)
            queued += np.int32(cuda.popc(mask))
        position += 32 * _SCANNED
        if position & (tile - 1) == 0:
            position += (warp_count - 1) * tile
    cuda.syncwarp()
    return position, queued, left


def _words_32(seed, replicate, quad):
    """Random words of four arcs, and spare ones."""
    w0, w1, w2, w3 = draw_words(seed, replicate, quad, TRANSMISSION, np.uint32(0))
    return w0, w0, w1, w1, w2, w2, w3, w3


def _words_64(seed, replicate, quad):
    """Two random words for each of four arcs."""
    w0, w1, w2, w3 = draw_words(seed, replicate, 2 * quad, TRANSMISSION, np.uint32(0))
    u0, u1, u2, u3 = draw_words(seed, replicate, 2 * quad + 1, TRANSMISSION, np.uint32(0))
    return w0, w1, w2, w3, u0, u1, u2, u3


_words_of_quad = ByPrecision(float32=_words_32, float64=_words_64)
"""Random words of arcs ``4 x quad`` to ``4 x quad + 3``, those of `kernel.threshold`."""


def _expand_warp(
    v, alive, left, expansions, lane, me, mine, shares, search, frontier
):  # fmt: skip
    """Lower the infection times of the targets of a warp's nodes `v`, one for each lane `alive`.

    Returns the earliest word written that nobody will expand in this pass, or `left` if that is
    earlier; and the number of expansions.
    """
    rows, seed, horizon, arcs = search.rows, search.seed, search.horizon, search.targets
    node_count = np.uint64(arcs.domain.count)
    slot_count = np.int64(arcs.slot_count)
    since = real(0.0)
    if alive:
        word = cuda.atomic.or_(frontier.words, np.int64(v), bits(1))
        alive = (word & bits(1)) == bits(0)  # else another lane has expanded it
        since = time_of(word)
    expansions += np.int32(alive)
    alive = alive and since <= horizon
    row = np.uint32(v // node_count)
    node = np.uint64(v - np.uint64(row) * node_count)
    replicate = replicate_of(rows, row)
    stages = stages_of_row(search.stages, rows, row)
    shares.node[me] = node
    shares.row[me] = row
    before = real(0.0)
    compartment = np.int32(0)
    if alive:
        seeding = seeding_of_row(search.seeding, rows, row)
        compartment = starting_compartment(
            seeding, since, np.int64(node), np.int64(node_count), seed, replicate
        )
    # Quads of arcs of a node; two more if they may begin or end among those of other nodes.
    quads = np.uint32(slot_count >> 2)
    if slot_count & 3 != 0:
        quads = np.uint32(quads + np.uint32(2))
    reciprocal = np.uint64(0xFFFFFFFF) // np.uint64(quads) + np.uint64(1)
    while cuda.any_sync(EVERY_LANE, alive):
        # Every lane advances to the next infectious stage of its node ...
        infects, alive, since, before, compartment = next_infectious(
            alive, since, before, compartment, me, shares, stages, horizon, seed, replicate, node
        )
        mask = cuda.ballot_sync(EVERY_LANE, infects)
        if infects:
            ahead = lanes_before(mask, lane)
            shares.owner[np.uint32(mine + np.uint32(ahead))] = me
        cuda.syncwarp()
        # ... and the lanes share the quads of all nodes.
        items = np.int64(cuda.popc(mask)) * np.int64(quads)
        base = np.int64(0)
        while base < items:
            item = base + np.int64(lane)
            active = item < items
            turn = np.uint32((np.uint64(item) * reciprocal) >> np.uint64(32))
            owner = me
            if active:
                owner = shares.owner[np.uint32(mine + turn)]
            quad = np.int64(item) - np.int64(turn) * np.int64(quads)
            left = _expand_quad(
                owner, quad, active, left, lane, slot_count, node_count, shares, search, frontier
            )
            base += 32
        cuda.syncwarp()
    return left, expansions


def _expand_quad(
    owner, quad, active, left, lane, slot_count, node_count, shares, search, frontier
):  # fmt: skip
    """Lower the times of the targets of four consecutive arcs of a node; all lanes together."""
    rows, seed, horizon, words = search.rows, search.seed, search.horizon, frontier.words
    node, row = shares.node[owner], shares.row[owner]
    own = np.int64(np.uint64(row) * node_count)
    first = first_arc(search, node)
    quad = (first >> 2) + quad
    slot = 4 * quad - first
    drawn = _words_of_quad(seed, replicate_of(rows, row), quad)
    slots = tuple(min(max(slot + k, np.int64(0)), slot_count - 1) for k in range(4))
    times = tuple(
        arrival(
            _threshold(drawn[2 * k], drawn[2 * k + 1], search.weights, slots[k]),
            shares.since[owner], shares.before[owner], shares.rate[owner], shares.duration[owner],
        )
        for k in range(4)
    )  # fmt: skip
    passes = tuple(active and slots[k] == slot + k and times[k] <= horizon for k in range(4))
    # Where nothing passes the node itself takes the place of the target: no branch, so that the
    # four reads overlap.
    places = tuple(
        own + np.int64(slot_target(search.targets, node, slots[k]) if passes[k] else node)
        for k in range(4)
    )
    known = tuple(bits(words[places[k]] & ~bits(1)) for k in range(4))
    for k in unroll(range(4)):
        within = False
        word = word_of(times[k])
        if passes[k] and word < known[k] and word < cuda.atomic.min(words, places[k], word):
            within = word < frontier.limit
            if not within:
                left = min(left, word)
        mask = cuda.ballot_sync(EVERY_LANE, within)
        if mask != 0:
            left = _list(mask, within, places[k], word, left, lane, frontier)
    return left


def _threshold(w0, w1, weights, slot):
    """`kernel.threshold` from the random words of the arc."""
    x = exponential(w0, w1)
    return x / weights[slot] if WEIGHTED else x


def _list(mask, within, place, word, left, lane, frontier):
    """List lowered nodes to be expanded in this pass; without room they are left to the next."""
    leader = np.int32(cuda.ffs(mask) - 1)
    begin = np.int32(0)
    if lane == leader:
        begin = cuda.atomic.add(frontier.count, frontier.slot, np.int32(cuda.popc(mask)))
    begin = cuda.shfl_sync(EVERY_LANE, begin, leader)
    if within:
        at = begin + np.int32(lanes_before(mask, lane))
        if at < frontier.again.size:
            frontier.again[at] = np.uint64(place)
        else:
            left = min(left, word)
    return left
