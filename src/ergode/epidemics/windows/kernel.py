"""The exact epidemic of any model, a window of time at once: method ``"sellke"`` on CUDA.

The draws are those of `event_driven.kernel`, and imply the same history.  Here all nodes find it at
once.  In a window of time every node works out its path - the compartments it passes through, and
when - from the paths of its neighbours, as far as they are known (`windows.path`).  When a path
changes, the neighbours at risk work out theirs anew.  A path depends on earlier moments of other
paths alone, so each round settles at least one more infection of every chain.  The rounds end when
no path changes.

A path has room for a few moves.  The window is cut short at the first move that found none, and at
the first that may pull a trigger (`windows.triggers`).  So neither the width of a window nor the
order in which nodes are looked at changes the result.  Each replicate has windows of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, cuda, no_refcount, real, to_bits
from ergode.epidemics.seeding import seed_age, seed_compartment, seed_node
from ergode.epidemics.shared.counts import grid_index
from ergode.epidemics.windows.path import work_out
from ergode.epidemics.windows.state import (
    INFECTED,
    ROOM,
    Paths,
    begin_at_base,
    compartment_of,
    destination,
    idle,
    is_infection,
    is_open_at_first,
    moves_of,
    set_moves,
    set_stay,
    since_of,
    stay_of,
)
from ergode.epidemics.windows.tracing import TracingState, await_detection, carry_out
from ergode.epidemics.windows.triggers import (
    BINS,
    TriggerState,
    add,
    begin_search,
    count_arrivals,
    cut_window,
    narrow_search,
    pull_triggers,
    window_end,
    window_stop,
)

# Rebound in kernels: what a run has no use for is not in its kernel.
# ruff: noqa: SIM102
HAS_STRATA = True
HAS_TRACING = True
HAS_TRIGGERS = True
LISTING = True
HAS_AGES = False
HUBS = False

THREADS = 256
HUB = 64  # arcs into a node that a warp works on together are more than this
_NEVER = float("inf")
_EVERY_LANE = np.uint32(0xFFFFFFFF)


class Records(NamedTuple):
    """Every move, in the order of time for each node: a row of each array a replicate."""

    count: Any  # int64 [row]; may exceed the room there is
    node: Any  # int32 [row, room]
    time: Any  # real
    to: Any  # and whether it is an infection, as in paths; uint8
    infector: Any  # int32; -1 for seeds and importations


def _column(rules, compartment, node):
    if HAS_STRATA:
        return np.int64(compartment * rules.stratum_count + rules.stratum[node])
    return np.int64(compartment)


def _enter(
    rules, paths, triggers, tracing, records, moves, row, slot, position, node, compartment,
    infected, at_once, infector, time, age, stay, seed, replicate,
):  # fmt: skip
    """Move a node for good, `stay` stays having gone before.

    At `time` it has been in the compartment for `age`, which is zero but for seeds.  It is a case
    if `infected`, and was infected at this very moment if `at_once`.  `row` is that of the results,
    `slot` that of the trigger state.
    """
    is_open = at_once or (is_open_at_first(paths, position) and since_of(paths, position) == time)
    at = np.int64(grid_index(rules.times, rules.per_step, time))
    old = compartment_of(paths, position)
    if at < moves.shape[1]:
        add(moves, (np.int64(row), at, _column(rules, old, node)), np.int32(-1))
        add(moves, (np.int64(row), at, _column(rules, compartment, node)), np.int32(1))
        if infected:
            last = np.int64(moves.shape[2] - rules.stratum_count)
            group = np.int64(rules.stratum[node]) if HAS_STRATA else np.int64(0)
            add(moves, (np.int64(row), at, last + group), np.int32(1))
    if HAS_TRIGGERS:
        add(triggers.population, (np.int64(slot), old), np.int32(-1))
        add(triggers.population, (np.int64(slot), np.int64(compartment)), np.int32(1))
        if infected:
            cases = np.int64(triggers.population.shape[1] - 1)
            add(triggers.population, (np.int64(slot), cases), np.int32(1))
    if LISTING:
        number = add(records.count, np.int64(row), np.int64(1))
        if number < records.node.shape[1]:
            records.node[row, number] = node
            records.time[row, number] = time - age
            records.to[row, number] = np.uint8(compartment | (INFECTED if infected else 0))
            records.infector[row, number] = infector
    set_stay(rules, paths, position, node, compartment, time, age, is_open, stay, seed, replicate)
    if HAS_TRACING:
        await_detection(
            rules,
            tracing,
            position,
            node,
            compartment,
            time - age,
            stay + np.int32(1),
            seed,
            replicate,
        )


def _begin_place(rules, paths, tracing, position, node, seed, replicate):
    """A node that is not a seed, at time zero."""
    begin_at_base(rules, paths, position, node, seed, replicate)
    if HAS_TRACING:
        tracing.count[position] = 0
        for k in range(tracing.until.shape[0]):
            tracing.until[k, position] = bits(0)
        if rules.stages.kind[rules.base] >= 0:
            await_detection(
                rules, tracing, position, node, np.int64(rules.base), real(0.0), np.int32(1), seed,
                replicate,
            )  # fmt: skip


def _begin_clock(rules, triggers, slot, node_count):
    """A replicate at time zero."""
    never = bits(to_bits(real(_NEVER)))
    for odd in range(2):
        triggers.begin[odd, slot] = 0.0
        triggers.cut[odd, slot] = never
    for k in range(triggers.starts.shape[1]):
        triggers.starts[slot, k] = rules.interventions.start[k]
        triggers.rank[slot, k] = np.int32(0)
        if HAS_TRIGGERS:
            for at in range(BINS):
                triggers.arrivals[slot, k, at] = np.int32(0)
    for c in range(triggers.population.shape[1]):
        triggers.population[slot, c] = np.int32(0)
    triggers.population[slot, rules.base] = np.int32(node_count)


def _place_seed(
    rules, paths, triggers, tracing, records, moves, row, slot, index, node_count, seed, replicate
):
    """Put a seed where it starts."""
    node = np.int64(seed_node(rules.seeding, index, node_count, seed, replicate))
    compartment = seed_compartment(rules.seeding, index)
    position = slot * node_count + node
    # What is already there is the first stay of a node that is no seed.
    if HAS_TRACING:
        tracing.count[position] = 0
    age = real(0.0)
    if HAS_AGES:
        age = real(seed_age(rules.seeding, index))
    _enter(
        rules, paths, triggers, tracing, records, moves, row, slot, position, node,
        np.int64(compartment), rules.seeding.is_case[compartment] != 0, False, np.int64(-1),
        real(0.0), age, np.int32(0), seed, replicate,
    )  # fmt: skip


def _settle(
    arcs,
    rules,
    paths,
    triggers,
    tracing,
    records,
    moves,
    row,
    slot,
    position,
    node,
    end,
    seed,
    replicate,
):
    """Make what a path has before `end` a node's past."""
    count = moves_of(paths, position)
    if count > 0:
        set_moves(paths, position, np.int64(0))
    for k in range(count):
        time = paths.time[k, position]
        if time < end:
            infector = np.int64(-1)
            if LISTING:
                infector = np.int64(paths.infector[k, position])
            _enter(
                rules, paths, triggers, tracing, records, moves, row, slot, position, node,
                destination(paths, k, position), is_infection(paths, k, position),
                is_infection(paths, k, position), infector, time, real(0.0),
                stay_of(paths, position), seed, replicate,
            )  # fmt: skip
    if HAS_TRACING:
        if tracing.count[position] > 0:
            carry_out(
                arcs, rules, tracing, triggers.starts[slot], position, node, end, seed, replicate
            )


# ---- CPU: one replicate a thread at a time


def windows_cpu(
    start, stop, arcs, rules, imported_cases, seed, first_replicate, width, room, records,
    needed, counts, work,
):  # fmt: skip
    """Run replicates `start` to `stop`, on one thread.

    A node may have `room` detections to come.  Out: `counts` [row, time, (compartment, and at the
    end cases) x stratum], `work` [row, 2] (paths worked out, windows), `records`, and `needed`
    [row], the room that there would have to be.
    """
    node_count = arcs.first.size - 1
    rows = rules.interventions.kind.size
    listed = ROOM if LISTING else 1
    watched = node_count if HAS_TRACING else 1
    paths = Paths(
        np.empty((node_count, 4), bits), np.empty((ROOM, node_count), real),
        np.empty((ROOM, node_count), np.uint8),
        np.empty((listed, node_count if LISTING else 1), np.int32), np.empty(node_count, np.int32),
    )  # fmt: skip
    tracing = TracingState(
        np.empty((rows, watched), bits), np.empty((room, watched), real),
        np.empty((room, watched), np.int32), np.empty(watched, np.int32), np.zeros(1, np.int32),
    )  # fmt: skip
    triggers = TriggerState(
        np.empty((2, 1), real), np.empty((2, 1), bits), np.empty((1, rows), real),
        np.empty((1, rules.stages.kind.size + 1), np.int32), np.empty((1, rows), bits),
        np.empty((1, rows), np.int32), np.empty((1, rows), np.int32),
        np.empty((1, rows, BINS), np.int32),
    )  # fmt: skip
    queue = np.empty((2, node_count), np.int64)
    for row in range(start, stop):
        tracing.room[0] = 0
        _run_one(
            arcs, rules, imported_cases, paths, triggers, tracing, records, queue, row, seed,
            first_replicate + row, width, counts, work,
        )  # fmt: skip
        needed[row] = tracing.room[0]


@no_refcount
def _run_one(
    arcs, rules, imported_cases, paths, triggers, tracing, records, queue, row, seed, replicate,
    width, counts, work,
):  # fmt: skip
    """One replicate, window after window."""
    node_count = np.int64(arcs.first.size - 1)
    plan = rules.interventions
    only = np.int64(0)
    for at in range(counts.shape[1]):
        for column in range(counts.shape[2]):
            counts[row, at, column] = 0
    records.count[row] = 0
    _begin_clock(rules, triggers, only, node_count)
    for node in range(node_count):
        _begin_place(rules, paths, tracing, node, node, seed, replicate)
        counts[row, 0, _column(rules, rules.base, node)] += 1
    for index in range(rules.seeding.named_count + rules.seeding.drawn_count):
        _place_seed(
            rules, paths, triggers, tracing, records, counts, row, only, index, node_count, seed,
            replicate,
        )  # fmt: skip
    worked = np.int64(0)
    windows = np.int64(0)
    while triggers.begin[windows & 1, 0] < rules.end:
        odd = windows & 1
        begin = triggers.begin[odd, 0]
        stop = window_stop(begin, width, rules.end)
        triggers.cut[odd, 0] = bits(to_bits(real(_NEVER)))
        if HAS_TRIGGERS:
            if begin > 0.0:
                pull_triggers(plan, triggers, only, begin)
        starts = triggers.starts[0]
        waiting = np.int64(0)
        for node in range(node_count):
            if not idle(rules, paths, node, stop):
                queue[0, waiting] = node
                waiting += 1
        sweep = np.int64(0)
        while waiting > 0:
            here, there = sweep & 1, (sweep + 1) & 1
            following = np.int64(0)
            for k in range(waiting):
                paths.queued[queue[here, k]] = 0
            for k in range(waiting):
                node = queue[here, k]
                changed, left_out = work_out(
                    arcs, rules, paths, tracing, imported_cases, starts, row, node, node, begin,
                    stop, np.int64(0), np.int64(1), seed, replicate,
                )  # fmt: skip
                if left_out < stop:
                    cut_window(triggers, odd, only, left_out)
                worked += 1
                if changed > 0:
                    for e in range(arcs.offsets[node], arcs.offsets[node + 1]):
                        other = np.int64(arcs.targets[e])
                        following = _wake(rules, paths, queue, there, following, other, stop)
                        if HAS_TRACING:
                            if changed > 1:
                                for f in range(arcs.offsets[other], arcs.offsets[other + 1]):
                                    following = _wake(
                                        rules, paths, queue, there, following,
                                        np.int64(arcs.targets[f]), stop,
                                    )  # fmt: skip
            waiting = following
            sweep += 1
        if HAS_TRIGGERS:
            for k in range(plan.kind.size):
                going = begin_search(plan, triggers, only, k, begin, stop)
                while going:
                    final = window_end(triggers, odd, only, width, rules.end)
                    for node in range(node_count):
                        if moves_of(paths, node) > 0:
                            count_arrivals(
                                plan,
                                triggers,
                                paths,
                                only,
                                node,
                                compartment_of(paths, node),
                                final,
                            )
                    going = narrow_search(triggers, odd, only, k)
        end = window_end(triggers, odd, only, width, rules.end)
        for node in range(node_count):
            _settle(
                arcs, rules, paths, triggers, tracing, records, counts, row, only, node, node, end,
                seed, replicate,
            )  # fmt: skip
        triggers.begin[1 - odd, 0] = end
        windows += 1
    for column in range(counts.shape[2]):
        total = 0
        for at in range(counts.shape[1]):
            total += counts[row, at, column]
            counts[row, at, column] = total
    work[row, 0] = worked
    work[row, 1] = windows


def _wake(rules, paths, queue, there, following, position, stop):
    """Queue a node, unless it is or nothing can happen to it."""
    if paths.queued[position] == 0 and not idle(rules, paths, position, stop):
        paths.queued[position] = 1
        queue[there, following] = position
        following += 1
    return following


# ---- CUDA: all replicates of a chunk in one persistent grid


def windows_cuda(
    arcs, rules, imported_cases, seed, first_replicate, width,
    paths, triggers, tracing, queue, waiting, records, moves, work,
):  # fmt: skip
    """Run every replicate; one cooperative grid from seeds to the last time.

    Out: `moves` [replicate, time, (compartment, cases) x stratum], all zero before, `work` [2], and
    `records`, whose counts are zero before.  Scratch: `paths`, `triggers`, `tracing`; `queue` [2,
    place]; `waiting` int32 [3, 3]: nodes queued in this round, the next and the one after, and
    likewise replicates that are not at their end, and searches for arrivals.
    """
    grid = cuda.cg.this_grid()
    first = np.int64(cuda.grid(1))
    stride = np.int64(cuda.gridsize(1))
    lane = np.int64(cuda.threadIdx.x & 31)
    node_count = np.int64(arcs.first.size - 1)
    row_count = np.int64(moves.shape[0])
    position_count = np.int64(paths.queued.size)
    plan = rules.interventions
    never = bits(to_bits(real(_NEVER)))
    for row in range(first, row_count, stride):
        _begin_clock(rules, triggers, row, node_count)
    for position in range(first, position_count, stride):
        row = position // node_count
        _begin_place(
            rules,
            paths,
            tracing,
            position,
            position - row * node_count,
            seed,
            first_replicate + row,
        )
    if first < 9:
        waiting[first // 3, first % 3] = 0
    if first < 2:
        work[first] = 0
    if first == 0:
        tracing.room[0] = 0
    grid.sync()
    seed_count = np.int64(rules.seeding.named_count + rules.seeding.drawn_count)
    for s in range(first, seed_count * row_count, stride):
        row = s // seed_count
        _place_seed(
            rules, paths, triggers, tracing, records, moves, row, row, s - row * seed_count,
            node_count, seed, first_replicate + row,
        )  # fmt: skip
    grid.sync()

    worked = np.int64(0)
    windows = np.int64(0)
    round_number = np.int64(0)
    searches = np.int64(0)
    whole = (position_count + stride - 1) // stride * stride  # lanes of a warp stay together
    while True:
        # Settle what the last window found, and queue the nodes that may move in the next.
        odd = windows & 1
        slot = round_number % 3
        if first == 0:
            waiting[0, (round_number + 1) % 3] = 0
            waiting[1, (windows + 1) % 3] = 0
        for row in range(first, row_count, stride):
            triggers.cut[odd, row] = never
            begin = real(0.0)
            if windows > 0:
                begin = window_end(triggers, 1 - odd, row, width, rules.end)
                triggers.begin[odd, row] = begin
            if begin < rules.end:
                waiting[1, windows % 3] = 1
        for position in range(first, whole, stride):
            wanted = False
            if position < position_count:
                row = position // node_count
                begin = real(0.0)
                if windows > 0:
                    begin = window_end(triggers, 1 - odd, row, width, rules.end)
                    _settle(
                        arcs, rules, paths, triggers, tracing, records, moves, row, row, position,
                        position - row * node_count, begin, seed, first_replicate + row,
                    )  # fmt: skip
                if begin < rules.end:
                    wanted = not idle(rules, paths, position, window_stop(begin, width, rules.end))
                paths.queued[position] = np.int32(1) if wanted else np.int32(0)
            mask = cuda.ballot_sync(_EVERY_LANE, wanted)
            at = np.int32(0)
            if lane == 0 and mask != 0:
                at = cuda.atomic.add(waiting, (0, slot), np.int32(cuda.popc(mask)))
            at = cuda.shfl_sync(_EVERY_LANE, at, 0)
            if wanted:
                ahead = np.int64(cuda.popc(np.uint32(mask & ((1 << lane) - 1))))
                queue[round_number & 1, at + ahead] = position
        grid.sync()
        if waiting[1, windows % 3] == 0:
            break
        if HAS_TRIGGERS:
            for row in range(first, row_count, stride):
                begin = triggers.begin[odd, row]
                if begin > 0.0:
                    pull_triggers(plan, triggers, row, begin)
            grid.sync()
        going = True
        while going:
            slot = round_number % 3
            following = (round_number + 1) % 3
            if first == 0:
                waiting[0, (round_number + 2) % 3] = 0
            worked += _one_round(
                arcs, rules, imported_cases, paths, triggers, tracing, queue, waiting, odd,
                round_number, node_count, first, stride, lane, width, seed, first_replicate,
            )  # fmt: skip
            grid.sync()
            round_number += 1
            going = waiting[0, following] > 0
        if HAS_TRIGGERS:
            going = True
            begins = True
            while going:
                here, there = searches % 3, (searches + 1) % 3
                if first == 0:
                    waiting[2, there] = 0
                for k in range(first, row_count * plan.kind.size, stride):
                    row = k // plan.kind.size
                    which = k - row * plan.kind.size
                    if begins:
                        begin = triggers.begin[odd, row]
                        found = begin < rules.end and begin_search(
                            plan, triggers, row, which, begin,
                            window_stop(begin, width, rules.end),
                        )  # fmt: skip
                    else:
                        found = narrow_search(triggers, odd, row, which)
                    if found:
                        waiting[2, here] = 1
                begins = False
                grid.sync()
                going = waiting[2, here] > 0
                if going:
                    for position in range(first, position_count, stride):
                        if moves_of(paths, position) > 0:
                            row = position // node_count
                            count_arrivals(
                                plan, triggers, paths, row, position,
                                compartment_of(paths, position),
                                window_end(triggers, odd, row, width, rules.end),
                            )  # fmt: skip
                    grid.sync()
                searches += 1
        windows += 1
        # Another slot for the next round: somebody may still have to read that this one is empty.
        round_number += 1
    cuda.atomic.add(work, 0, worked)
    if first == 0:
        work[1] = windows


def _one_round(
    arcs, rules, imported_cases, paths, triggers, tracing, queue, waiting, odd, round_number,
    node_count, first, stride, lane, width, seed, first_replicate,
):  # fmt: skip
    """Work out the paths of the nodes that are queued; returns how many this thread did.

    A lane takes a node.  Nodes with many arcs are left until all lanes of the warp have had theirs,
    and then taken one after another by all of them.
    """
    total = np.int64(waiting[0, round_number % 3])
    here = round_number & 1
    worked = np.int64(0)
    k = first - stride
    position = np.int64(0)
    together = np.uint32(0)  # lanes whose node is still to be worked on by all
    while True:
        mine = np.int64(0)
        share, shares = np.int64(0), np.int64(1)
        active = True
        if together == np.uint32(0):
            k += stride
            if k - lane >= total:
                break
            active = k < total
            if active:
                position = np.int64(queue[here, k])
            mine = position
            if HUBS:
                node = position - position // node_count * node_count
                many = active and arcs.first[node + 1] - arcs.first[node] > HUB
                together = np.uint32(cuda.ballot_sync(_EVERY_LANE, many))
                active = active and not many
        elif HUBS:
            owner = np.int32(cuda.ffs(together) - 1)
            together = np.uint32(together & np.uint32(together - np.uint32(1)))
            mine = np.int64(cuda.shfl_sync(_EVERY_LANE, position, owner))
            share, shares = lane, np.int64(32)
        if active:
            if share == 0:
                cuda.atomic.exch(paths.queued, mine, 0)
            # What follows must see all that was written before the mark was set.
            cuda.threadfence()
            if HUBS:
                if shares > 1:
                    cuda.syncwarp()
            row = mine // node_count
            node = mine - row * node_count
            begin = triggers.begin[odd, row]
            stop = window_stop(begin, width, rules.end)
            starts = triggers.starts[row] if HAS_TRIGGERS else rules.interventions.start
            changed, left_out = work_out(
                arcs, rules, paths, tracing, imported_cases, starts, row, mine, node, begin, stop,
                share, shares, seed, first_replicate + row,
            )  # fmt: skip
            worked += np.int64(share == 0)
            if left_out < stop and share == 0:
                cut_window(triggers, odd, row, left_out)
            if changed > 0:
                cuda.threadfence()
                for e in range(arcs.offsets[node] + share, arcs.offsets[node + 1], shares):
                    other = np.int64(arcs.targets[e])
                    _wake_on_cuda(
                        rules, paths, queue, waiting, round_number, mine - node + other, stop
                    )
                    if HAS_TRACING:
                        if changed > 1:
                            for f in range(arcs.offsets[other], arcs.offsets[other + 1]):
                                _wake_on_cuda(
                                    rules, paths, queue, waiting, round_number,
                                    mine - node + np.int64(arcs.targets[f]), stop,
                                )  # fmt: skip
    return worked


def _wake_on_cuda(rules, paths, queue, waiting, round_number, position, stop):
    """Queue a node for the next round, unless it is or nothing can happen to it."""
    if not idle(rules, paths, position, stop) and cuda.atomic.exch(paths.queued, position, 1) == 0:
        at = cuda.atomic.add(waiting, (0, (round_number + 1) % 3), 1)
        queue[1 - (round_number & 1), at] = position
