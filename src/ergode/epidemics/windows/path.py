"""What one node does in a window of time, given what its neighbours do in it.

A path is the moves of a node in a window: when, and into which compartment.  It depends on
earlier moments of its neighbours' paths alone - and, under contact tracing, on those of their
neighbours, who may have had them put in quarantine (`windows.tracing`).  All draws are those of
`event_driven.kernel`.

On a CUDA device the lanes of a warp share the arcs into a node that has many.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import cuda, real
from ergode.epidemics.shared.contacts import (
    NO_KEY,
    contact_entity,
    contact_mark,
    just_before,
    next_contact,
)
from ergode.epidemics.shared.importation import first_imported_case, imported
from ergode.epidemics.shared.progression import (
    holding_time_of_stay,
    next_compartment_of_stay,
    stay_index,
)
from ergode.epidemics.shared.transmission import guarded, outcome
from ergode.epidemics.windows.state import (
    INFECTED,
    ROOM,
    compartment_of,
    destination,
    is_infection,
    moves_of,
    opened_at,
    set_moves,
    since_of,
    stay_of,
    until_of,
)
from ergode.epidemics.windows.tracing import (
    left_by_own_quarantine,
    left_by_quarantine,
    may_trace_before,
)

# Rebound in kernels: what a run has no use for is not in its kernel.  Each is tested by itself, in
# an `if` of its own, so that such a branch is dropped before what is in it is compiled.
# ruff: noqa: SIM102
WEIGHTED = True
LAYERED = True
THINNED = True
TEMPORAL = True
HAS_TRACING = True
HAS_INTERVENTIONS = True
HAS_IMPORTATIONS = True
LISTING = True
HUBS = False  # whether lanes of a warp share arcs

_NEVER = float("inf")
_NOBODY = -1
_EVERY_LANE = np.uint32(0xFFFFFFFF)


def _first_transmission(
    arcs, rules, paths, tracing, starts, position, node, compartment, moves, after, before, lane,
    lanes, seed, replicate,
):  # fmt: skip
    """The first transmission to a node in a compartment, later than `after`, before `before`.

    Looks at every arc of number `lane` modulo `lanes`.  Returns when it is (or `before`), where
    it leads (or -1) and from whom.
    """
    node_count = np.int64(arcs.first.size - 1)
    shift = position - node
    infected = np.int64(-1)
    infector = np.int64(_NOBODY)
    arc = np.int64(-1)
    first_rank = np.int64(-1)  # nothing of the moment `before` comes first
    for e in range(arcs.first[node] + lane, arcs.first[node + 1], lanes):
        source = np.int64(arcs.source[e])
        other = shift + source
        count = moves_of(paths, other)
        layer = np.int64(arcs.layer[e]) if LAYERED else np.int64(0)
        rate = rules.infections.peak * rules.calendars.peak[layer]
        if WEIGHTED:
            rate *= arcs.weight[e]
        entity = contact_entity(source, node, layer, node_count, rules.calendars.peak.size)
        number = np.int64(arcs.number[e]) if TEMPORAL else np.int64(0)
        begin = since_of(paths, other)
        opened = real(opened_at(paths, other))
        kind = compartment_of(paths, other)
        for k in range(count + 1):
            end = paths.time[k, other] if k < count else until_of(paths, other)
            if k == count and count > 0:
                end = real(_NEVER)  # it would have moved once more, had it left in this window
            if rules.infections.infectious[kind] != 0:
                # At the moment of an infection contacts are those of who was there before it.
                closed = k < count and is_infection(paths, k, other)
                latest = real(end if closed else just_before(end))
                low = real(max(opened, after))
                last = NO_KEY
                while low <= before and low <= latest:
                    time, key, rank = next_contact(
                        entity, number, rate, rules.meetings, low, last, before, seed, replicate
                    )
                    if time > latest or time > before or (time == before and rank >= first_rank):
                        break
                    into = np.int64(rules.infections.infected[0])
                    if THINNED:
                        left = real(1.0)
                        if HAS_TRACING:
                            left = left_by_quarantine(
                                arcs, rules, paths, tracing, starts, shift, source, count, node,
                                moves, time, seed, replicate,
                            )  # fmt: skip
                        into = np.int64(
                            outcome(
                                rules.infections, rules.calendars, rules.interventions, starts,
                                contact_mark(entity, key, seed, replicate),
                                rules.calendars.peak[layer], left, time, layer, source, kind,
                                begin, stay_of(paths, other) + k, node, compartment, seed,
                                replicate,
                            )
                        )  # fmt: skip
                    if into >= 0:
                        before = time
                        first_rank = rank
                        infected = into
                        infector = source
                        arc = np.int64(e)
                        break
                    low = time
                    last = key
            if k < count:
                begin = end
                opened = end if is_infection(paths, k, other) else max(opened, just_before(end))
                kind = destination(paths, k, other)
    if HUBS:
        if lanes > 1:
            before, infected, infector = _first_of_lanes(
                before, first_rank, infected, infector, arc
            )
    return before, infected, infector


def _first_of_lanes(time, rank, infected, infector, arc):
    """What one thread, going through all arcs, would have found: the first arc of equal ones."""
    soonest = real(time)
    for shift in (16, 8, 4, 2, 1):
        soonest = min(soonest, real(cuda.shfl_xor_sync(_EVERY_LANE, soonest, shift)))
    last = np.int64(0x7FFFFFFFFFFFFFFF)
    found = infected >= 0 and time == soonest
    lowest = np.int64(rank) if found else last
    for shift in (16, 8, 4, 2, 1):
        lowest = min(lowest, np.int64(cuda.shfl_xor_sync(_EVERY_LANE, lowest, shift)))
    mine = np.int64(arc) if found and rank == lowest else last
    first = np.int64(mine)
    for shift in (16, 8, 4, 2, 1):
        first = min(first, np.int64(cuda.shfl_xor_sync(_EVERY_LANE, first, shift)))
    if first == last:
        return soonest, np.int64(-1), np.int64(_NOBODY)
    owner = np.int32(cuda.ffs(cuda.ballot_sync(_EVERY_LANE, mine == first)) - 1)
    infected = np.int64(cuda.shfl_sync(_EVERY_LANE, np.int64(infected), owner))
    return soonest, infected, np.int64(cuda.shfl_sync(_EVERY_LANE, np.int64(infector), owner))


def work_out(
    arcs, rules, paths, tracing, imported_cases, starts, row, position, node, begin, stop, lane,
    lanes, seed, replicate,
):  # fmt: skip
    """Work out the path of a node in the window from `begin` to `stop`, from those of others.

    `starts` says when interventions begin; `lanes` threads call this together.  Returns whether
    the path changed - 2 if so that neighbours may be traced for it within the window - and when
    the first move is that has no room in it.
    """
    before_start = real(just_before(begin))
    compartment = compartment_of(paths, position)
    opened = real(opened_at(paths, position))
    until = until_of(paths, position)
    stay = stay_of(paths, position)
    changed = np.int32(0)
    moves = np.int64(0)
    left_out = real(_NEVER)
    known = moves_of(paths, position)
    own_first, last_imported_case = np.int64(0), np.int64(0)
    if HAS_IMPORTATIONS:
        own_first = first_imported_case(imported_cases, row, node)
        last_imported_case = np.int64(imported_cases.first[row + 1])
    while True:
        time = min(until, stop)
        infected = np.int64(-1)
        infector = np.int64(_NOBODY)
        if rules.infections.at_risk[compartment] != 0:
            if HAS_IMPORTATIONS:
                from_outside = np.int64(-1)
                entry = own_first  # whom one stay is immune to, another may be infected by
                while (
                    entry < last_imported_case
                    and imported_cases.node[entry] == node
                    and from_outside < 0
                ):
                    moment = imported_cases.time[entry]
                    if moment >= time:
                        break
                    if moment >= begin and opened < moment:
                        left = real(1.0)
                        if HAS_TRACING:
                            left = left_by_own_quarantine(
                                arcs, rules, paths, tracing, starts, position - node, node, moves,
                                moment, seed, replicate,
                            )  # fmt: skip
                        if HAS_INTERVENTIONS:
                            left *= guarded(
                                rules.interventions, starts, moment, node, seed, replicate
                            )
                        imported_into = imported(
                            rules.importations, rules.infections, imported_cases.plan[entry],
                            imported_cases.mark[entry], left, node, compartment,
                        )  # fmt: skip
                        if imported_into >= 0:
                            time = moment
                            from_outside = imported_into
                    entry += 1
            time, infected, infector = _first_transmission(
                arcs, rules, paths, tracing, starts, position, node, compartment, moves,
                max(opened, before_start), time, lane, lanes, seed, replicate,
            )  # fmt: skip
            if HAS_IMPORTATIONS:
                if infected < 0:
                    infected = from_outside
        if time >= stop:
            break
        if moves == ROOM:
            left_out = time
            break
        into = infected | INFECTED
        if infected < 0:
            into = np.int64(
                next_compartment_of_stay(
                    rules.stages, compartment, stay_index(compartment, stay - 1), seed, replicate,
                    node,
                )
            )  # fmt: skip
        new = (
            moves >= known
            or paths.time[moves, position] != time
            or paths.to[moves, position] != into
        )
        if new:
            changed = np.int32(max(changed, 1))
            if HAS_TRACING:
                if may_trace_before(rules, into & (INFECTED - 1), time, stop):
                    changed = np.int32(2)
                if moves < known and may_trace_before(
                    rules, destination(paths, moves, position), paths.time[moves, position], stop
                ):
                    changed = np.int32(2)
        if HUBS:
            if lanes > 1:
                cuda.syncwarp()
        if lane == 0:
            paths.time[moves, position] = time
            paths.to[moves, position] = into
            if LISTING:
                paths.infector[moves, position] = infector
        if HUBS:
            if lanes > 1:
                cuda.syncwarp()
        moves += 1
        compartment = into & (INFECTED - 1)
        opened = time if infected >= 0 else max(opened, real(just_before(time)))
        until = time + holding_time_of_stay(
            rules.stages, compartment, stay_index(compartment, stay), seed, replicate, node
        )
        stay += np.int32(1)
    if moves != known:
        changed = np.int32(max(changed, 1))
        if HAS_TRACING:
            for k in range(moves, known):
                if may_trace_before(
                    rules, destination(paths, k, position), paths.time[k, position], stop
                ):
                    changed = np.int32(2)
        if HUBS:
            if lanes > 1:
                cuda.syncwarp()
        if lane == 0:
            set_moves(paths, position, moves)
    return changed, left_out
