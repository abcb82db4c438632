"""The direct method of any network: a search in three levels, blocks, chunks and reactions.

Thirty-two reactions are a chunk, and thirty-two chunks a block; of both the sums of propensities
are kept, and a search goes through the sums of blocks, of the chunks of one, and through the
reactions of one of those.  What a firing changes is listed once for all realizations, sorted by
chunk, so that a chunk's sum is corrected once.  Where reactions are coupled weakly there is a list
for every reaction; where they are not, one for every species, of which there are fewer.

I. Komarov, R. M. D'Souza, "Accelerating the Gillespie exact stochastic simulation algorithm using
hybrid parallel execution on graphics processing units", PLoS ONE 7 e46693 (2012).

Sums that are only corrected drift.  A chunk that is searched, and one whose sum has all but
vanished, is added up anew; sums of blocks are always added up.

On a GPU a team of threads has a realization, and each level is one step of all its threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.machine import cuda, outlined, real
from ergode.core.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.realization import (
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    INFINITY,
    NO_REACTION,
    propensity,
)
from ergode.stochastic.tables import Tables, offsets
from ergode.stochastic.teams import ALL, TEAM, at, search, sync

WIDTH = 32
# Of what a sum was, so little may be left before it is added up anew.
VANISHED = 2.0**-20
# Up to so many entries a reaction, on the average, each reaction has a list of its own.
_LISTED_MOST = 32


class Own(NamedTuple):
    """What the method keeps; rows of one worker each, and what all share."""

    a: Any  # [worker, reaction] propensities
    chunks: Any  # [worker, chunk] their sums
    blocks: Any  # [worker, block]
    negative: Any  # [worker, 1] whether a propensity is
    by_reaction: Any  # [1] whether a list belongs to a reaction, not to a variable
    list_starts: Any  # [list + 1]
    list_chunks: Any  # [entry] chunk
    entry_starts: Any  # [entry + 1]
    listed: Any  # [place] reaction of the chunk whose propensity depends on what changed


def _add_up_chunk(chunk, w, own):
    total = real(0.0)
    for r in range(chunk * WIDTH, min((chunk + 1) * WIDTH, own.a.shape[1])):
        total += own.a[w, r]
    own.chunks[w, chunk] = total


def _add_up_block(block, w, own):
    total = real(0.0)
    for chunk in range(block * WIDTH, min((block + 1) * WIDTH, own.chunks.shape[1])):
        total += own.chunks[w, chunk]
    own.blocks[w, block] = total


@outlined
def prepare(w, t, point, plan, replicate, net, work, own):
    """All propensities, and all sums."""
    own.negative[w, 0] = 0
    for r in range(own.a.shape[1]):
        a = propensity(r, w, t, point, net, work)
        own.a[w, r] = a
        if a < 0.0:
            own.negative[w, 0] = 1
    for chunk in range(own.chunks.shape[1]):
        _add_up_chunk(chunk, w, own)
    for block in range(own.blocks.shape[1]):
        _add_up_block(block, w, own)


def _follow(which, w, t, point, net, work, own):
    """Propensities of a list, and the sums of their chunks and blocks."""
    block = -1
    for entry in range(own.list_starts[which], own.list_starts[which + 1]):
        chunk = own.list_chunks[entry]
        change = real(0.0)
        for place in range(own.entry_starts[entry], own.entry_starts[entry + 1]):
            r = own.listed[place]
            a = propensity(r, w, t, point, net, work)
            change += a - own.a[w, r]
            own.a[w, r] = a
            if a < 0.0:
                own.negative[w, 0] = 1
        before = own.chunks[w, chunk]
        after = before + change
        own.chunks[w, chunk] = after
        if not abs(after) > VANISHED * abs(before):
            _add_up_chunk(chunk, w, own)
        if block >= 0 and chunk // WIDTH != block:
            _add_up_block(block, w, own)
        block = chunk // WIDTH
    if block >= 0:
        _add_up_block(block, w, own)


def update(j, w, t, point, plan, replicate, net, work, own):
    """Follow what changed, by the list of the reaction or the lists of its species."""
    by_reaction = own.by_reaction[0] != 0
    first, last = net.change_starts[j], net.change_starts[j + 1]
    if by_reaction:
        last = min(last, first + 1)
    for entry in range(first, last):
        which = net.changed[entry]
        if by_reaction:
            which = j
        _follow(which, w, t, point, net, work, own)
    return True


def choose(target, w, own):
    """Reaction in whose share of the sum `target` falls; none if rounding led astray."""
    block = -1
    for b in range(own.blocks.shape[1]):
        a = own.blocks[w, b]
        if a > 0.0:
            block = b
            if target < a:
                break
        target -= a
    if block < 0:
        return -1
    chunk = -1
    for c in range(block * WIDTH, min((block + 1) * WIDTH, own.chunks.shape[1])):
        a = own.chunks[w, c]
        if a > 0.0:
            chunk = c
            if target < a:
                break
        target -= a
    chosen = -1
    if chunk >= 0:
        _add_up_chunk(chunk, w, own)
        for r in range(chunk * WIDTH, min((chunk + 1) * WIDTH, own.a.shape[1])):
            a = own.a[w, r]
            if a > 0.0:
                chosen = r
                if target < a:
                    break
            target -= a
    if chosen < 0:
        _add_up_block(block, w, own)
    return chosen


def advance(w, t, limit, point, draw, plan, replicate, net, work, own):
    """The next firing: when, by the sum of all propensities; which, in proportion to them."""
    if own.negative[w, 0] != 0:
        return t, FAILED_NEGATIVE, draw
    while True:
        total = real(0.0)
        for block in range(own.blocks.shape[1]):
            total += own.blocks[w, block]
        if total == 0.0:
            return real(INFINITY), NO_REACTION, draw
        if not (total > 0.0 and total < INFINITY):
            return t, FAILED_NOT_FINITE, draw
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
        draw += 1
        fires_at = t + exponential(w0, w1) / total
        if fires_at >= limit:
            return fires_at, NO_REACTION, draw
        j = choose(uniform(w2, w3) * total, w, own)
        if j >= 0:
            return fires_at, j, draw


def _counts(tables: Tables) -> tuple[int, int]:
    """Numbers of chunks and of blocks."""
    chunks = -(-tables.reaction_count // WIDTH)
    return chunks, -(-chunks // WIDTH)


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row that a worker keeps."""
    chunks, blocks = _counts(tables)
    return {
        "a": (tables.reaction_count, np.float64),
        "chunks": (chunks, np.float64),
        "blocks": (blocks, np.float64),
        "negative": (1, np.int8),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Lists: what all workers share."""
    net, count = tables.net, tables.reaction_count
    affected = np.diff(net.affected_starts)
    by_reaction = affected[net.changed].sum() <= _LISTED_MOST * count
    if by_reaction:
        lengths = affected[net.changed]
        firing = np.repeat(np.arange(count), np.diff(net.change_starts))
        firsts = net.affected_starts[:-1][net.changed]
        lists = np.repeat(firing, lengths)
        inside = np.arange(lists.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        reactions = net.affected[np.repeat(firsts, lengths) + inside]
        list_count = count
    else:
        lists, reactions = np.repeat(np.arange(affected.size), affected), net.affected
        list_count = affected.size
    key = np.unique(lists.astype(np.int64) * count + reactions)
    lists, reactions = key // count, key % count
    chunk = reactions // WIDTH
    begins = np.ones(key.size, bool)
    begins[1:] = (np.diff(lists) != 0) | (np.diff(chunk) != 0)
    places = np.flatnonzero(begins)
    return {
        "by_reaction": np.array([by_reaction], np.int8),
        "list_starts": offsets(lists[places], list_count),
        "list_chunks": chunk[places].astype(np.int32),
        "entry_starts": np.append(places, key.size).astype(np.int32),
        "listed": reactions.astype(np.int32),
    }


# ---- a team of threads

# Bound: whether sums of chunks are in shared memory, whether a firing changes most blocks.
AT_HAND, EVERYWHERE = True, False
_MANY = 64


class TeamOwn(NamedTuple):
    """As `Own`; rows of one team each. Sums of blocks are in shared memory."""

    a: Any
    chunks: Any
    by_reaction: Any
    list_starts: Any
    list_chunks: Any
    entry_starts: Any
    listed: Any


def team_count(i, base, team, memory, work):
    """Count of a species."""
    return work.x[team, at(i)]


def _team_blocks(own):
    return at((own.a.shape[1] + WIDTH * WIDTH - 1) // (WIDTH * WIDTH))


def _team_chunks(own):
    return at((own.a.shape[1] + WIDTH - 1) // WIDTH)


def _place(chunk, base, own):
    """Where the sum of a chunk is: what the threads read at once is never in one bank."""
    return at(base + _team_blocks(own) + chunk + (chunk >> 5))


def _chunk_sum(chunk, base, team, memory, own):
    if AT_HAND:
        return memory[_place(chunk, base, own)]
    return own.chunks[team, chunk]


def _put_chunk_sum(value, chunk, base, team, memory, own):
    if AT_HAND:
        memory[_place(chunk, base, own)] = value
    else:
        own.chunks[team, chunk] = value


def _chunk_total(chunk, team, own):
    total = real(0.0)
    r, end = at(chunk * WIDTH), at(min((chunk + 1) * WIDTH, own.a.shape[1]))
    while r < end:
        total += own.a[team, r]
        r = at(r + 1)
    return total


def _team_add_up_block(block, base, team, memory, own):
    total = real(0.0)
    chunk, end = at(block * WIDTH), at(min((block + 1) * WIDTH, _team_chunks(own)))
    while chunk < end:
        total += _chunk_sum(chunk, base, team, memory, own)
        chunk = at(chunk + 1)
    memory[at(base + block)] = total


def team_prepare(t, point, member, base, team, memory, net, work, own):
    """All propensities, and all sums."""
    w = at(cuda.grid(1))
    i = member
    while i < work.x.shape[1]:
        work.x[team, i] = net.initial[point, i]
        i = at(i + TEAM)
    sync()
    r = member
    while r < own.a.shape[1]:
        a = propensity(r, w, t, point, net, work)
        own.a[team, r] = a
        if a < 0.0:
            memory[at(base - 1)] = 1.0
        r = at(r + TEAM)
    sync()
    chunk = member
    while chunk < _team_chunks(own):
        total = _chunk_total(chunk, team, own)
        _put_chunk_sum(total, chunk, base, team, memory, own)
        chunk = at(chunk + TEAM)
    sync()
    block = member
    while block < _team_blocks(own):
        _team_add_up_block(block, base, team, memory, own)
        block = at(block + TEAM)


def _width(blocks):
    """Blocks in the share of a thread."""
    return at((blocks + TEAM - 1) // TEAM)


def team_share(member, base, team, memory, work, own):
    """What this thread has of the sum of all propensities: some blocks."""
    blocks = _team_blocks(own)
    width = _width(blocks)
    block, end = at(min(member * width, blocks)), at(min((member + 1) * width, blocks))
    mine = real(0.0)
    while block < end:
        mine += memory[at(base + block)]
        block = at(block + 1)
    return mine


def team_choose(who, target, point, lane, member, base, scratch, team, memory, work, own):
    """Reaction in whose share of the sum `target` of thread `who` falls; -1 for none."""
    blocks, chunks = _team_blocks(own), _team_chunks(own)
    width = _width(blocks)
    b, end = at(who * width), at(min((who + 1) * width, blocks))
    block = b
    while b < end:
        a = memory[at(base + b)]
        if a > 0.0:
            block = b
            if target < a:
                break
        target -= a
        b = at(b + 1)
    value = real(0.0)
    chunk = at(block * WIDTH + member)
    if member < WIDTH and chunk < chunks:
        value = _chunk_sum(chunk, base, team, memory, own)
    found, target, total = search(value, target, lane, member, scratch, memory)
    j = np.int32(-1)
    if found >= 0:
        chunk = at(block * WIDTH + found)
        value = real(0.0)
        r = at(chunk * WIDTH + member)
        if member < WIDTH and r < own.a.shape[1]:
            value = own.a[team, r]
        found, target, total = search(value, target, lane, member, scratch, memory)
        if member == 0:
            _put_chunk_sum(total, chunk, base, team, memory, own)
        if found >= 0:
            j = np.int32(chunk * WIDTH + found)
    if j < 0:
        sync()
        if member == 0:
            _team_add_up_block(block, base, team, memory, own)
    sync()
    return j


def team_follow(j, t, point, lane, member, base, team, memory, net, work, own):
    """Change the state by what reaction `j` does, and correct the sums that depend on it."""
    w = at(cuda.grid(1))
    variable = np.int32(-1)
    if lane < net.changed.shape[1]:
        variable = net.changed[at(j), at(lane)]
        if member == lane and variable >= 0:
            work.x[team, at(variable)] += net.changes[at(j), at(lane)]
    sync()
    by_reaction = own.by_reaction[at(0)] != 0
    passes = 1 if by_reaction else net.changed.shape[1]
    for k in range(passes):
        which = np.int32(j) if by_reaction else cuda.shfl_sync(ALL, variable, k)
        if which < 0:
            break
        first = at(own.list_starts[at(which)] + member)
        last = at(own.list_starts[at(which + 1)])
        entry = first
        while entry < last:
            chunk = at(own.list_chunks[entry])
            change = real(0.0)
            place, end = at(own.entry_starts[entry]), at(own.entry_starts[at(entry + 1)])
            while place < end:
                r = at(own.listed[place])
                a = propensity(r, w, t, point, net, work)
                change += a - own.a[team, r]
                own.a[team, r] = a
                if a < 0.0:
                    memory[at(base - 1)] = 1.0
                place = at(place + 1)
            before = _chunk_sum(chunk, base, team, memory, own)
            after = before + change
            if not abs(after) > VANISHED * abs(before):
                after = _chunk_total(chunk, team, own)
            _put_chunk_sum(after, chunk, base, team, memory, own)
            entry = at(entry + TEAM)
        sync()
        if not EVERYWHERE:
            # Who has an entry adds up its block; those with the same write the same.
            entry = first
            while entry < last:
                block = at(own.list_chunks[entry] >> 5)
                _team_add_up_block(block, base, team, memory, own)
                entry = at(entry + TEAM)
            sync()
    if EVERYWHERE:
        block = member
        while block < _team_blocks(own):
            _team_add_up_block(block, base, team, memory, own)
            block = at(block + TEAM)


def team_doubles(tables: Tables) -> int:
    """Numbers that a team keeps in shared memory: sums of blocks at least."""
    return _counts(tables)[1]


def team_options(tables: Tables, room: int) -> tuple[int, tuple[tuple[str, Any], ...]]:
    """The same where there is room for so many, and what is bound."""
    chunks, blocks = _counts(tables)
    with_chunks = blocks + chunks + (chunks >> 5) + 1
    at_hand = with_chunks <= room
    affected = np.diff(tables.net.affected_starts)
    firing = affected[tables.net.changed].sum() / max(1, tables.reaction_count)
    options = (("AT_HAND", at_hand), ("EVERYWHERE", bool(firing > _MANY)))
    return (with_chunks if at_hand else blocks), options


def team_rows(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of what a team keeps elsewhere."""
    return {
        "x": (tables.variable_count + 1, np.float64),
        "a": (tables.reaction_count, np.float64),
        "chunks": (_counts(tables)[0], np.float64),
    }


def team_constants(tables: Tables, size: int) -> dict[str, np.ndarray]:
    """What all teams share."""
    return constants(tables)
