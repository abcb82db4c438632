"""The exact epidemic of any model, a window of time at once: method ``"sellke"`` on CUDA.

The draws are those of `sellke`, and so is the history that they imply; here it is found by all
nodes at once.  In a window of time every node works out its path - the compartments it passes
through, and when - from the paths of its neighbours, as far as they are known.  When a path
changes, the neighbours at risk work out theirs anew.  A path depends on earlier moments of other
paths alone, so that each round settles at least one more infection of every chain, and the rounds
end when nothing changes any more: at the one history there is.

A path has room for a few moves.  The window is cut short at the first move that found none.  So
neither the width of a window nor the order in which nodes are looked at changes the result.
Method ``"sellke-capped"`` stops after a fixed number of rounds, and is an approximation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.machine import bits, borrowing, cuda, from_bits, real, to_bits
from ergode.epidemics.contact_process import contact_entity, contact_mark, next_contact
from ergode.epidemics.progression import (
    holding_time_of_stay,
    next_compartment_of_stay,
    stay_index,
)
from ergode.epidemics.seeding import initial_compartment, seed_node
from ergode.epidemics.tally import grid_index
from ergode.epidemics.transmission import outcome

WEIGHTED = True
LAYERED = True
HAS_STRATA = True
THINNED = True

# Moves that a path has room for within a window.
ROOM = 4
THREADS = 256
_NEVER = float("inf")
_EVERY_LANE = np.uint32(0xFFFFFFFF)


class Arcs(NamedTuple):
    """Who may infect a node, and whom it may infect."""

    first: Any  # a node's incoming arcs are first[i] : first[i + 1]
    source: Any
    weight: Any
    layer: Any
    number: Any  # of the arc among outgoing ones, for its meetings
    offsets: Any  # a node's outgoing arcs
    targets: Any


class Rules(NamedTuple):
    """The tables of a run; see `sellke.Scene`."""

    meetings: Any
    stages: Any
    seeding: Any
    infections: Any
    calendars: Any
    interventions: Any
    stratum: Any
    stratum_count: int
    base: int
    times: Any
    per_step: Any
    end: Any  # the next number after the last of `times`


class Paths(NamedTuple):
    """Where nodes are at the beginning of a window, and what they do in it.

    A node of a replicate is one place of each array; those of `time` and `to` have `ROOM` rows.
    """

    # What a neighbour asks for lies side by side: when the stay began and when it would end, as
    # bits; compartment and number of moves in the window; compartments the node was in before.
    state: Any  # bits [place, 4]
    time: Any  # of moves, real [ROOM, place]
    to: Any  # uint8 [ROOM, place]
    queued: Any  # int32 [place]


def _since(paths, place):
    return from_bits(bits(paths.state[place, 0]))


def _until(paths, place):
    return from_bits(bits(paths.state[place, 1]))


def _compartment(paths, place):
    return np.int64(paths.state[place, 2] & bits(0xFF))


def _moves(paths, place):
    return np.int64(paths.state[place, 2] >> bits(8))


def _stay(paths, place):
    return np.int32(paths.state[place, 3])


def _set_moves(paths, place, count):
    paths.state[place, 2] = bits(_compartment(paths, place)) | bits(bits(count) << bits(8))


def _set(paths, place, compartment, since, until, stay):
    """A node's stay at the beginning of a window, in which it has not moved."""
    paths.state[place, 0] = to_bits(real(since))
    paths.state[place, 1] = to_bits(real(until))
    paths.state[place, 2] = bits(compartment)
    paths.state[place, 3] = bits(stay)


def place_seed(index, node_count, rules, paths, row, seed, replicate):
    """Put a seed where it starts; returns its node and compartment."""
    node = np.int64(seed_node(rules.seeding, index, node_count, seed, replicate))
    compartment = initial_compartment(rules.seeding, node, node_count, seed, replicate)
    place = row * node_count + node
    _settle(
        rules, paths, place, node, np.int64(compartment), real(0.0), np.int32(0), seed, replicate
    )
    return node, np.int64(compartment)


def begin_at_base(rules, paths, place, node, seed, replicate):
    """A node that is not a seed, at time zero."""
    base = np.int64(rules.base)
    paths.queued[place] = 0
    for k in range(ROOM):
        paths.time[k, place] = 0.0
        paths.to[k, place] = 0
    if rules.stages.kind[base] >= 0:
        _settle(rules, paths, place, node, base, real(0.0), np.int32(0), seed, replicate)
    else:
        _set(paths, place, base, real(-1.0), real(_NEVER), np.int32(0))


def _settle(rules, paths, place, node, compartment, time, stay, seed, replicate):
    """A node's stay at the beginning of a window, `stay` of them having gone before."""
    until = time + holding_time_of_stay(
        rules.stages, compartment, stay_index(compartment, stay), seed, replicate, node
    )
    _set(paths, place, compartment, time, until, stay + np.int32(1))


def idle(rules, paths, place, stop):
    """Whether nothing can happen to a node before `stop`."""
    at_risk = rules.infections.at_risk[_compartment(paths, place)] != 0
    return _until(paths, place) >= stop and not at_risk


def _first_transmission(
    arcs, rules, paths, place, node, compartment, after, before, seed, replicate
):
    """The first transmission to a node in a compartment, later than `after`, before `before`.

    Returns when it is (or `before`), and where it leads (or -1).
    """
    node_count = np.int64(arcs.first.size - 1)
    shift = place - node
    infected = np.int64(-1)
    for e in range(arcs.first[node], arcs.first[node + 1]):
        source = np.int64(arcs.source[e])
        other = shift + source
        moves = _moves(paths, other)
        layer = np.int64(arcs.layer[e]) if LAYERED else np.int64(0)
        rate = rules.infections.peak * rules.calendars.peak[layer]
        if WEIGHTED:
            rate *= arcs.weight[e]
        entity = contact_entity(source, node, layer, node_count, rules.calendars.peak.size)
        number = np.int64(arcs.number[e]) if TEMPORAL else np.int64(0)
        begin = _since(paths, other)
        kind = _compartment(paths, other)
        for k in range(moves + 1):
            end = paths.time[k, other] if k < moves else min(_until(paths, other), before)
            if k == moves and moves > 0:
                end = before  # it would have moved once more, had it left in this window
            if rules.infections.infectious[kind] != 0:
                low = max(begin, after)
                high = min(end, before)
                while low < high:
                    time, key = next_contact(
                        entity, number, rate, rules.meetings, low, high, seed, replicate
                    )
                    if not time < high:
                        break
                    into = np.int64(rules.infections.infected[0])
                    if THINNED:
                        into = np.int64(
                            outcome(
                                rules.infections, rules.calendars, rules.interventions,
                                rules.interventions.start,
                                contact_mark(entity, key, seed, replicate),
                                rules.calendars.peak[layer], real(1.0), time, layer, source, kind,
                                begin, _stay(paths, other) + k, node, compartment, seed, replicate,
                            )
                        )  # fmt: skip
                    if into >= 0:
                        before = time
                        infected = into
                        break
                    low = time
            if k < moves:
                begin = end
                kind = np.int64(paths.to[k, other])
    return before, infected


# Whether contacts come and go; the binding is that of `contact_process`.
TEMPORAL = True


def work_out(arcs, rules, paths, place, node, before_start, stop, seed, replicate):
    """Work out the path of a node in the window that ends at `stop`, from those of others.

    `before_start` is the last number before the window.  Returns whether the path changed, and
    when the first move is that has no room in it.
    """
    compartment = _compartment(paths, place)
    since = _since(paths, place)
    until = _until(paths, place)
    stay = _stay(paths, place)
    changed = False
    moves = np.int64(0)
    left_out = real(_NEVER)
    known = _moves(paths, place)
    while True:
        time = min(until, stop)
        infected = np.int64(-1)
        if rules.infections.at_risk[compartment] != 0:
            time, infected = _first_transmission(
                arcs, rules, paths, place, node, compartment, max(since, before_start), time,
                seed, replicate,
            )  # fmt: skip
        if time >= stop:
            break
        if moves == ROOM:
            left_out = time
            break
        into = infected
        if infected < 0:
            into = np.int64(
                next_compartment_of_stay(
                    rules.stages, compartment, stay_index(compartment, stay - 1), seed, replicate,
                    node,
                )
            )  # fmt: skip
        if moves >= known or paths.time[moves, place] != time or paths.to[moves, place] != into:
            changed = True
            paths.time[moves, place] = time
            paths.to[moves, place] = into
        moves += 1
        compartment = into
        since = time
        until = time + holding_time_of_stay(
            rules.stages, compartment, stay_index(compartment, stay), seed, replicate, node
        )
        stay += np.int32(1)
    if moves != known:
        changed = True
        _set_moves(paths, place, moves)
    return changed, left_out


# ---- CPU: one replicate a thread at a time


def windows_cpu(start, stop, arcs, rules, seed, first_replicate, width, sweeps_most, counts, work):
    """Run replicates `start` to `stop`, on one thread.

    A window is settled in at most `sweeps_most` rounds, if that is not zero.  Out: `counts` [row,
    time, (compartment, and at the end cases) x stratum], `work` [row, 2] (paths worked out,
    windows).
    """
    node_count = arcs.first.size - 1
    paths = Paths(
        np.empty((node_count, 4), bits), np.empty((ROOM, node_count), real),
        np.empty((ROOM, node_count), np.uint8), np.empty(node_count, np.int32),
    )  # fmt: skip
    queue = np.empty((2, node_count), np.int64)
    for row in range(start, stop):
        _run_one(
            arcs, rules, paths, queue, row, seed, first_replicate + row, width, sweeps_most,
            counts, work,
        )  # fmt: skip


@borrowing
def _run_one(arcs, rules, paths, queue, row, seed, replicate, width, sweeps_most, counts, work):
    """One replicate, window after window."""
    node_count = np.int64(arcs.first.size - 1)
    cases = np.int64(counts.shape[2] - rules.stratum_count)
    for at in range(counts.shape[1]):
        for column in range(counts.shape[2]):
            counts[row, at, column] = 0
    for node in range(node_count):
        begin_at_base(rules, paths, node, node, seed, replicate)
        counts[row, 0, _column(rules, rules.base, node)] += 1
    for index in range(rules.seeding.named_count + rules.seeding.drawn_count):
        node, compartment = place_seed(
            index, node_count, rules, paths, np.int64(0), seed, replicate
        )
        counts[row, 0, _column(rules, rules.base, node)] -= 1
        counts[row, 0, _column(rules, compartment, node)] += 1
        counts[row, 0, cases + (rules.stratum[node] if HAS_STRATA else 0)] += 1
    begin = real(0.0)
    before_start = real(0.0)
    worked = np.int64(0)
    windows = np.int64(0)
    while begin < rules.end:
        stop = min(max(begin + width, after_number(begin)), rules.end)
        cut = stop
        waiting = np.int64(0)
        for node in range(node_count):
            if not idle(rules, paths, node, stop):
                queue[0, waiting] = node
                waiting += 1
        sweep = np.int64(0)
        while waiting > 0 and (sweeps_most == 0 or sweep < sweeps_most):
            here, there = sweep & 1, (sweep + 1) & 1
            following = np.int64(0)
            for k in range(waiting):
                paths.queued[queue[here, k]] = 0
            for k in range(waiting):
                node = queue[here, k]
                changed, left_out = work_out(
                    arcs, rules, paths, node, node, before_start, stop, seed, replicate
                )
                cut = min(cut, left_out)
                worked += 1
                if changed:
                    for e in range(arcs.offsets[node], arcs.offsets[node + 1]):
                        other = np.int64(arcs.targets[e])
                        if paths.queued[other] == 0 and not idle(rules, paths, other, stop):
                            paths.queued[other] = 1
                            queue[there, following] = other
                            following += 1
            waiting = following
            sweep += 1
        for k in range(waiting):  # of a window that was capped
            paths.queued[queue[sweep & 1, k]] = 0
        end = max(cut, after_number(begin))
        for node in range(node_count):
            moves = _moves(paths, node)
            if moves > 0:
                _set_moves(paths, node, 0)
            for k in range(moves):
                time = paths.time[k, node]
                if time < end:
                    into = np.int64(paths.to[k, node])
                    at = grid_index(rules.times, rules.per_step, time)
                    if at < counts.shape[1]:
                        counts[row, at, _column(rules, _compartment(paths, node), node)] -= 1
                        counts[row, at, _column(rules, into, node)] += 1
                        if time < _until(paths, node):
                            group = rules.stratum[node] if HAS_STRATA else 0
                            counts[row, at, cases + group] += 1
                    _settle(
                        rules, paths, node, node, into, time, _stay(paths, node), seed, replicate
                    )
        begin = end
        before_start = before_number(end)
        windows += 1
    for column in range(counts.shape[2]):
        total = 0
        for at in range(counts.shape[1]):
            total += counts[row, at, column]
            counts[row, at, column] = total
    work[row, 0] = worked
    work[row, 1] = windows


def _column(rules, compartment, node):
    if HAS_STRATA:
        return compartment * rules.stratum_count + rules.stratum[node]
    return compartment


def after_number(x):
    """The next float after one that is not negative."""
    return from_bits(bits(to_bits(real(x)) + bits(1)))


def before_number(x):
    """The last float before one above zero."""
    return from_bits(bits(to_bits(real(x)) - bits(1)))


# ---- CUDA: all replicates of a chunk in one persistent grid


def windows_cuda(
    arcs, rules, seed, first_replicate, width, sweeps_most,
    paths, queue, waiting, cut, moves, work,
):  # fmt: skip
    """Run every replicate; one cooperative grid from seeds to the last time.

    Out: `moves` [replicate, time, (compartment, cases) x stratum], all zero before, and `work` [2].
    Scratch: `paths`; `queue` [2, place]; `waiting` int32 [3] and `cut` (bits of times) [3], each
    for this round or window, the next and the one after.
    """
    grid = cuda.cg.this_grid()
    first = np.int64(cuda.grid(1))
    stride = np.int64(cuda.gridsize(1))
    node_count = np.int64(arcs.first.size - 1)
    places = np.int64(paths.queued.size)
    never = bits(to_bits(real(_NEVER)))
    for place in range(first, places, stride):
        row = place // node_count
        node = place - row * node_count
        begin_at_base(rules, paths, place, node, seed, first_replicate + row)
    if first < 3:
        waiting[first] = 0
        cut[first] = never
    if first < 2:
        work[first] = 0
    grid.sync()
    seed_count = np.int64(rules.seeding.named_count + rules.seeding.drawn_count)
    cases = np.int64(moves.shape[2] - rules.stratum_count)
    for s in range(first, seed_count * (places // node_count), stride):
        row = s // seed_count
        replicate = first_replicate + row
        node, compartment = place_seed(
            s - row * seed_count, node_count, rules, paths, row, seed, replicate
        )
        group = np.int64(rules.stratum[node]) if HAS_STRATA else np.int64(0)
        cuda.atomic.sub(moves, (row, 0, np.int64(_column(rules, rules.base, node))), 1)
        cuda.atomic.add(moves, (row, 0, np.int64(_column(rules, compartment, node))), 1)
        cuda.atomic.add(moves, (row, 0, cases + group), 1)
    grid.sync()

    begin = real(0.0)
    before_start = real(0.0)
    worked = np.int64(0)
    windows = np.int64(0)
    round_number = np.int64(0)
    lane = np.int64(cuda.threadIdx.x & 31)
    whole = (places + stride - 1) // stride * stride  # lanes of a warp stay together
    end = real(0.0)
    while True:
        # Settle what was found up to `end`, and queue the nodes that may move before `stop`.
        stop = min(max(end + width, after_number(end)), rules.end)
        slot = round_number % 3
        if first == 0:
            waiting[(round_number + 1) % 3] = 0
            cut[(windows + 1) % 3] = never
        for place in range(first, whole, stride):
            wanted = False
            if place < places:
                row = place // node_count
                node = place - row * node_count
                count = _moves(paths, place)
                if count > 0:
                    _set_moves(paths, place, 0)
                for k in range(count):
                    time = paths.time[k, place]
                    if time < end:
                        into = np.int64(paths.to[k, place])
                        at = np.int64(grid_index(rules.times, rules.per_step, time))
                        if at < moves.shape[1]:
                            old = np.int64(_column(rules, _compartment(paths, place), node))
                            new = np.int64(_column(rules, into, node))
                            cuda.atomic.sub(moves, (row, at, old), 1)
                            cuda.atomic.add(moves, (row, at, new), 1)
                            if time < _until(paths, place):
                                group = np.int64(rules.stratum[node]) if HAS_STRATA else np.int64(0)
                                cuda.atomic.add(moves, (row, at, cases + group), 1)
                        _settle(
                            rules, paths, place, node, into, time, _stay(paths, place), seed,
                            first_replicate + row,
                        )  # fmt: skip
                wanted = not idle(rules, paths, place, stop)
                paths.queued[place] = np.int32(1) if wanted else np.int32(0)
            mask = cuda.ballot_sync(_EVERY_LANE, wanted)
            at = np.int32(0)
            if lane == 0 and mask != 0:
                at = cuda.atomic.add(waiting, slot, np.int32(cuda.popc(mask)))
            at = cuda.shfl_sync(_EVERY_LANE, at, 0)
            if wanted:
                ahead = np.int64(cuda.popc(np.uint32(mask & ((1 << lane) - 1))))
                queue[round_number & 1, at + ahead] = place
        if not end < rules.end:
            break
        grid.sync()
        begin = end
        sweep = np.int64(0)
        going = True
        while going:
            slot = round_number % 3
            following = (round_number + 1) % 3
            here = round_number & 1
            if first == 0:
                waiting[(round_number + 2) % 3] = 0
            for k in range(first, np.int64(waiting[slot]), stride):
                place = np.int64(queue[here, k])
                cuda.atomic.exch(paths.queued, place, 0)
                # What follows must see all that was written before the mark was set.
                cuda.threadfence()
                row = place // node_count
                node = place - row * node_count
                changed, left_out = work_out(
                    arcs, rules, paths, place, node, before_start, stop, seed,
                    first_replicate + row,
                )  # fmt: skip
                worked += 1
                if left_out < stop:
                    cuda.atomic.min(cut, windows % 3, bits(to_bits(left_out)))
                if changed:
                    cuda.threadfence()
                    for e in range(arcs.offsets[node], arcs.offsets[node + 1]):
                        other = row * node_count + np.int64(arcs.targets[e])
                        if not idle(rules, paths, other, stop) and (
                            cuda.atomic.exch(paths.queued, other, 1) == 0
                        ):
                            queue[1 - here, cuda.atomic.add(waiting, following, 1)] = other
            grid.sync()
            round_number += 1
            sweep += 1
            going = waiting[following] > 0 and (sweeps_most == 0 or sweep < sweeps_most)
        end = max(min(stop, from_bits(bits(cut[windows % 3]))), after_number(begin))
        before_start = before_number(end)
        windows += 1
        # The slot of the next round, when it was capped, still holds who was left waiting.
        round_number += 1
    cuda.atomic.add(work, 0, worked)
    if first == 0:
        work[1] = windows
