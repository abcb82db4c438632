"""The path of one node in a window of time, from the paths of its neighbours.

A path is the moves of a node in a window: their times and new compartments.  It depends only on
earlier moments of its neighbours' paths.  Under contact tracing it also depends on the paths of
their neighbours, whose detection may have quarantined them (`windows.tracing`).  All draws equal
those of `event_driven.kernel`.

On a CUDA device the lanes of a warp share the arcs into a node with many arcs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, option, real
from ergode.core.group import EVERY_LANE, least_of_lanes
from ergode.core.math.elementary import next_up
from ergode.epidemics.shared.arcs import (
    end_arc,
    first_arc,
    is_loop,
    layer_of,
    of_arc,
    target_of,
)
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.contacts import (
    NO_KEY,
    contact_mark,
    just_before,
    next_contact,
)
from ergode.epidemics.shared.importation import first_imported_case, imported
from ergode.epidemics.shared.lines import admitted_to, leaves_at, leaves_to, line_of
from ergode.epidemics.shared.lives import live, live_on
from ergode.epidemics.shared.options import (
    AVOIDING,
    HAS_IMPORTATIONS,
    HAS_INTERVENTIONS,
    HAS_LEAVERS,
    HAS_LIVES,
    HAS_QUEUES,
    HAS_TRACING,
    LISTING,
    MULTIGRAPH,
    THINNED,
    WEIGHTED,
)
from ergode.epidemics.shared.progression import (
    holding_time_of_stay,
    stay_index,
)
from ergode.epidemics.shared.tallying import tally_avoided
from ergode.epidemics.shared.transmission import Source, destination_of_stay, outcome
from ergode.epidemics.shared.vaccines import guarded
from ergode.epidemics.windows.state import (
    INFECTED,
    ROOM,
    compartment_of,
    contact_into,
    destination,
    is_infection,
    is_wait,
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
    quarantines,
)

HUBS = option(False)
"""Whether lanes of a warp share the arcs into a node with many arcs."""

_NEVER = float("inf")
_NOBODY = -1


class Order(NamedTuple):
    """Which of the contacts of one moment came before one of them."""

    rank: Any
    arc: Any


def _arcs_of_infectious(epidemic, shift, node, start, stop, step):
    """Which of up to 32 arcs into a node come from one that is infectious in the window, as bits.

    So threads side by side draw contacts of few arcs each.
    """
    incoming, tables, paths = epidemic.contacts.incoming, epidemic.tables, epidemic.paths
    some = np.uint32(0)
    for k in range(min(np.int64(32), (stop - start + step - 1) // step)):
        source = np.int64(target_of(incoming, node, start + k * step))
        if is_loop(node, source):
            continue
        position = shift + source
        found = tables.infections.infectious[compartment_of(paths, position)] != 0
        for j in range(moves_of(paths, position)):
            to = destination(paths, j, position)
            found = found or tables.infections.infectious[to] != 0
        if found:
            some = np.uint32(some | np.uint32(np.uint32(1) << np.uint32(k)))
    return some


def _first_transmission(
    epidemic, place, starts, compartment, moves, after, before, lane, lanes, counts, counted,
    until,
):  # fmt: skip
    """The first transmission to a node in a compartment, later than `after`, before `before`.

    Visits every arc of number `lane` modulo `lanes`.  Returns its time (or `before`), the new
    compartment (or -1), the infector and its `Order`.  Or it `counts` instead the contacts that
    measures avoid, those before `until` at the moment `before` among them, in the table `counted`.
    """
    incoming, tables, paths = epidemic.contacts.incoming, epidemic.tables, epidemic.paths
    seed, replicate, node = epidemic.seed, place.replicate, place.node
    shift = place.position - node
    infected = np.int64(-1)
    infector = np.int64(_NOBODY)
    arc = np.int64(-1)
    first_rank = np.int64(-1)  # no contact at `before` itself counts
    start, stop = first_arc(incoming, node) + lane, end_arc(incoming, node)
    e = start
    some = np.uint32(0)
    while True:
        if some == np.uint32(0):
            if start >= stop:
                break
            some = _arcs_of_infectious(epidemic, shift, node, start, stop, lanes)
            e = start - lanes
            start += 32 * lanes
            continue
        while (some & np.uint32(1)) == np.uint32(0):
            some = np.uint32(some >> np.uint32(1))
            e += lanes
        some = np.uint32(some >> np.uint32(1))
        e += lanes
        source = np.int64(target_of(incoming, node, e))
        other = shift + source
        count = moves_of(paths, other)
        layer = layer_of(incoming, e)
        rate = tables.infections.peak * tables.calendars.peak[layer]
        if WEIGHTED:
            rate *= of_arc(incoming.weights, e)
        number, entity = contact_into(epidemic, node, e, source)
        begin = since_of(paths, other)
        opened = real(opened_at(paths, other))
        kind = compartment_of(paths, other)
        stays = np.int32(0)  # that moves have begun
        for k in range(count + 1):
            end = paths.time[k, other] if k < count else until_of(paths, other)
            if k == count and count > 0:
                end = real(_NEVER)  # a departure within this window would be in the path
            if tables.infections.infectious[kind] != 0:
                # At the moment of an infection, contacts belong to the stay before it.
                closed = k < count and is_infection(paths, k, other)
                latest = real(end if closed else just_before(end))
                low = real(max(opened, after))
                last = NO_KEY
                while low <= before and low <= latest:
                    time, key, rank = next_contact(
                        entity, number, rate, tables.meetings, low, last, before, seed, replicate
                    )
                    if MULTIGRAPH:  # its arcs are in any order
                        rank = entity
                    if time > latest or time > before:
                        break
                    if time == before and rank >= first_rank:
                        if not counts or rank > until.rank:
                            break
                        if rank == until.rank and e >= until.arc:
                            break
                    into = np.int64(tables.infections.infected[0])
                    if THINNED:
                        left = real(1.0)
                        if HAS_TRACING:
                            left = left_by_quarantine(
                                epidemic, starts, shift, source, count, node, moves, time, replicate
                            )
                        mark = contact_mark(entity, key, seed, replicate)
                        who = Source(source, kind, begin, stay_of(paths, other) + stays)
                        into = np.int64(
                            outcome(
                                tables, starts, mark, left, time, layer, who, node, compartment,
                                seed, replicate,
                            )
                        )  # fmt: skip
                        if AVOIDING and counts and into < 0:
                            held = np.uint64(0)
                            if HAS_TRACING:
                                held = quarantines(
                                    epidemic, starts, shift, source, count, node, moves, time,
                                    replicate,
                                )  # fmt: skip
                            tally_avoided(
                                counted, tables, starts, held, mark, time, layer, who, node,
                                compartment, seed, replicate,
                            )  # fmt: skip
                    if into >= 0 and not counts:
                        before = time
                        first_rank = rank
                        infected = into
                        infector = source
                        arc = np.int64(e)
                        break
                    low = time
                    last = key
            if k < count:
                if HAS_QUEUES and is_wait(paths, k, other, kind):
                    opened = max(opened, just_before(end))
                    continue
                stays += np.int32(1)
                begin = end
                opened = end if is_infection(paths, k, other) else max(opened, just_before(end))
                kind = destination(paths, k, other)
    if HUBS and lanes > 1:
        before, infected, infector = _first_of_lanes(before, first_rank, infected, infector, arc)
    return before, infected, infector, Order(first_rank, arc)


def _first_of_lanes(time, rank, infected, infector, arc):
    """Reduce over lanes, as if one thread visited all arcs: ties go to the first arc."""
    soonest = real(least_of_lanes(real(time)))
    last = np.int64(0x7FFFFFFFFFFFFFFF)
    found = infected >= 0 and time == soonest
    lowest = np.int64(least_of_lanes(np.int64(rank) if found else last))
    mine = np.int64(arc) if found and rank == lowest else last
    first = np.int64(least_of_lanes(np.int64(mine)))
    if first == last:
        return soonest, np.int64(-1), np.int64(_NOBODY)
    owner = np.int32(cuda.ffs(cuda.ballot_sync(EVERY_LANE, mine == first)) - 1)
    infected = np.int64(cuda.shfl_sync(EVERY_LANE, np.int64(infected), owner))
    return soonest, infected, np.int64(cuda.shfl_sync(EVERY_LANE, np.int64(infector), owner))


def _first_import(epidemic, place, starts, entry, compartment, moves, opened, begin, stop):
    """The first importation, from `entry` on, that infects a node in a compartment before `stop`.

    Returns its time (or `stop`) and the new compartment (or -1).
    """
    tables, imported_cases, node = epidemic.tables, epidemic.imported_cases, place.node
    last = np.int64(imported_cases.first[place.row + 1])
    while entry < last and imported_cases.node[entry] == node:
        moment = imported_cases.time[entry]
        if moment >= stop:
            break
        if moment >= begin and opened < moment:
            left = real(1.0)
            if HAS_TRACING:
                left = left_by_own_quarantine(
                    epidemic, starts, place.position - node, node, moves, moment, place.replicate
                )
            if HAS_INTERVENTIONS:
                left *= guarded(
                    tables.interventions, starts, moment, node, epidemic.seed, place.replicate
                )
            into = imported(
                tables.importations, tables.infections, imported_cases.plan[entry],
                imported_cases.mark[entry], left, node, compartment,
            )  # fmt: skip
            if into >= 0:
                return real(moment), into
        entry += 1
    return real(stop), np.int64(-1)


def _concerns(tables, compartment):
    """Whether paths of other nodes depend on when a node is in a compartment."""
    found = HAS_QUEUES or tables.infections.infectious[compartment] != 0
    if HAS_TRACING:
        plan = tables.interventions
        for k in range(plan.kind.size):
            found = found or plan.positive[k, compartment] > 0.0
    return found


def _new_move(epidemic, position, at, known, time, here, into, stop):
    """Whether a move differs from the known one so that others may move differently.

    It is 2 if neighbours may be traced because of it.  `at` is the number of the move in the path,
    whose first `known` moves were known before.  It leads from the compartment `here`.
    """
    tables, paths = epidemic.tables, epidemic.paths
    if at < known and paths.time[at, position] == time and paths.to[at, position] == into:
        return np.int32(0)
    concerns = _concerns(tables, here) or _concerns(tables, into & (INFECTED - 1))
    if not concerns and not (at < known and _concerns(tables, destination(paths, at, position))):
        return np.int32(0)
    changed = np.int32(1)
    if HAS_TRACING:
        if may_trace_before(epidemic.tables, into & (INFECTED - 1), time, stop):
            changed = np.int32(2)
        if at < known and may_trace_before(
            epidemic.tables, destination(paths, at, position), paths.time[at, position], stop
        ):
            changed = np.int32(2)
    return changed


def _fewer_moves(epidemic, position, moves, known, here, stop):
    """`_new_move` for moves that are no longer in a path, which ends in the compartment `here`."""
    paths = epidemic.paths
    changed = np.int32(_concerns(epidemic.tables, here))
    for k in range(moves, known):
        if _concerns(epidemic.tables, destination(paths, k, position)):
            changed = max(changed, np.int32(1))
        if HAS_TRACING and may_trace_before(
            epidemic.tables, destination(paths, k, position), paths.time[k, position], stop
        ):
            changed = np.int32(2)
    return changed


def work_out(epidemic, counted, place, starts, begin, stop, lane, lanes):
    """Compute the path of a node in the window from `begin` to `stop` from other nodes' paths.

    `starts` are the starts of interventions; `lanes` threads call this together.  Returns whether
    the path changed (2 if neighbours may be traced because of it within the window), and the time
    of the first move without room.
    """
    tables, paths, position = epidemic.tables, epidemic.paths, place.position
    seed, replicate, node = epidemic.seed, place.replicate, place.node
    before_start = real(just_before(begin))
    compartment = compartment_of(paths, position)
    opened = real(opened_at(paths, position))
    until = until_of(paths, position)
    stay = stay_of(paths, position)
    changed = np.int32(0)
    moves = np.int64(0)
    left_out = real(_NEVER)
    known = moves_of(paths, position)
    if HAS_LIVES and lane == 0:
        live_on(tables.interventions, tables.births.outside, starts, node, compartment, until)
    line = np.int64(-1)  # in which the node has got a place
    if HAS_QUEUES:
        line = admitted_to(tables.interventions, epidemic.lines, position)
    waiting, since = np.int64(-1), real(_NEVER)  # in which line, and since when
    entered = since_of(paths, position)
    if HAS_LEAVERS:
        waiting = line_of(tables.interventions, epidemic.lines, position)
        if waiting >= 0:
            since = epidemic.lines.since[waiting, position]
    entry = np.int64(0)  # first importation into the node
    if HAS_IMPORTATIONS:
        entry = first_imported_case(epidemic.imported_cases, place.row, node)
    while True:
        time = min(until, stop)
        infected = np.int64(-1)
        infector = np.int64(_NOBODY)
        if tables.infections.at_risk[compartment] != 0:
            from_outside = np.int64(-1)
            if HAS_IMPORTATIONS:
                time, from_outside = _first_import(
                    epidemic, place, starts, entry, compartment, moves, opened, begin, time
                )
            time, infected, infector, _ = _first_transmission(
                epidemic, place, starts, compartment, moves, max(opened, before_start), time, lane,
                lanes, False, counted, Order(np.int64(-1), np.int64(-1)),
            )  # fmt: skip
            if HAS_IMPORTATIONS and infected < 0:
                infected = from_outside
        if time >= stop:
            break
        if moves == ROOM:
            left_out = min(left_out, time)
            break
        into = infected | INFECTED
        waits = False
        if infected < 0 and line >= 0:
            plan = tables.interventions
            into = np.int64(plan.compartment[plan.lines.measure[line]])
            line = np.int64(-1)
        elif HAS_LEAVERS and infected < 0 and waiting >= 0:
            into, _ = leaves_to(
                tables, waiting, compartment, stay_index(compartment, stay - 1), entered, since,
                node, seed, replicate,
            )  # fmt: skip
            waiting = np.int64(-1)
            left_out = min(left_out, real(next_up(time)))  # a shorter window: see `lines`
        elif infected < 0:
            into = np.int64(
                destination_of_stay(
                    tables, starts, compartment, stay_index(compartment, stay - 1), time, seed,
                    replicate, node,
                )
            )  # fmt: skip
            if HAS_QUEUES and into < 0:
                waits = True
                waiting, since = -2 - into, time
                into = compartment
        changed = max(
            changed, _new_move(epidemic, position, moves, known, time, compartment, into, stop)
        )
        _together(lanes)
        if lane == 0:
            paths.time[moves, position] = time
            paths.to[moves, position] = into
            if LISTING:
                paths.infector[moves, position] = infector
            if HAS_LIVES:
                plan, outside = tables.interventions, tables.births.outside
                live(plan, outside, starts, node, compartment, into & (INFECTED - 1), time)
        _together(lanes)
        moves += 1
        if HAS_QUEUES and waits:
            opened = max(opened, real(just_before(time)))
            until = leaves_at(
                tables, waiting, compartment, stay_index(compartment, stay - 1), entered, time,
                node, seed, replicate,
            )  # fmt: skip
            continue
        entered = time
        compartment = into & (INFECTED - 1)
        opened = time if infected >= 0 else max(opened, real(just_before(time)))
        until = time + holding_time_of_stay(
            tables.stages, compartment, stay_index(compartment, stay), seed, replicate, node
        )
        until = at_moment(tables.moments, until)
        stay += np.int32(1)
    if moves != known:
        changed = max(changed, _fewer_moves(epidemic, position, moves, known, compartment, stop))
        _together(lanes)
        if lane == 0:
            set_moves(paths, position, moves)
    return changed, left_out


def count_avoided(epidemic, counted, place, starts, begin, end):
    """Count the contacts with a node, in a window whose paths are known, that measures avoid."""
    tables, paths, position = epidemic.tables, epidemic.paths, place.position
    before_start = real(just_before(begin))
    here = compartment_of(paths, position)
    opened = real(opened_at(paths, position))
    known = moves_of(paths, position)
    moves = np.int64(0)
    one, alone = np.int64(0), np.int64(1)
    while True:
        moved = moves < known and paths.time[moves, position] < end
        time = real(paths.time[moves, position] if moved else end)
        infected = moved and is_infection(paths, moves, position)
        if tables.infections.at_risk[here] != 0:
            after = real(max(opened, before_start))
            until = Order(np.int64(-1), np.int64(-1))
            if infected:  # contacts of the same moment count that came before
                last = real(next_up(time))
                if HAS_IMPORTATIONS:
                    entry = first_imported_case(epidemic.imported_cases, place.row, place.node)
                    last, _ = _first_import(
                        epidemic, place, starts, entry, here, moves, opened, begin, last
                    )
                _, _, _, until = _first_transmission(
                    epidemic, place, starts, here, moves, after, last, one, alone, False,
                    counted, until,
                )  # fmt: skip
            _first_transmission(
                epidemic, place, starts, here, moves, after, time, one, alone, True, counted, until
            )
        if not moved:
            break
        waits = HAS_QUEUES and is_wait(paths, moves, position, here)
        here = destination(paths, moves, position)
        opened = time if infected and not waits else max(opened, real(just_before(time)))
        moves += 1


def _together(lanes):
    """Wait for the threads that work on the same node."""
    if HUBS and lanes > 1:
        cuda.syncwarp()
