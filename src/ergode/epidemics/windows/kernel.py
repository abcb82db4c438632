"""The exact epidemic of any model, by windows of time: method ``"sellke"`` on CUDA.

The draws equal those of `event_driven.kernel`, and determine the same history.  Here all nodes are
processed in parallel, by the threads of a persistent grid.  On the CPU one thread does the same,
which validates both.

In a window of time, the path of every node - its compartments and the times of its moves - is
computed from the known paths of its neighbours (`windows.path`).  When a path changes, the paths of
neighbours at risk are recomputed.  A path depends only on earlier moments of other paths, so each
round settles at least one more infection of every chain.  The rounds end when no path changes.

A path has room for a few moves.  A window is cut short at the first move without room, and at the
first move that may pull a trigger (`windows.triggers`).  So neither the width of a window nor the
order of processing changes the result.  Each replicate has windows of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, by_reference, cuda, no_refcount, real, to_bits
from ergode.core.group import EVERY_LANE, barrier, claim_place, share
from ergode.epidemics.shared.arcs import end_arc, first_arc, node_count_of, target_of
from ergode.epidemics.shared.atomics import add, exchange, fence
from ergode.epidemics.shared.options import (
    AVOIDING,
    COUNTING,
    HAS_BIRTHS,
    HAS_LINES,
    HAS_LIVES,
    HAS_QUEUES,
    HAS_RELEASE,
    HAS_TRACING,
    HAS_TRIGGERS,
    TESTS_TRACED,
)
from ergode.epidemics.shared.sweep import replicate_of
from ergode.epidemics.shared.tallying import tally_doses, tally_isolations, tally_starts
from ergode.epidemics.windows.births import settle_births
from ergode.epidemics.windows.contact_tests import test_traced
from ergode.epidemics.windows.lines import forget_admitted, form_lines, test_lines
from ergode.epidemics.windows.moves import (
    begin_clock,
    begin_node,
    counted_in,
    place_seed,
    settle,
)
from ergode.epidemics.windows.path import HUBS, count_avoided, work_out
from ergode.epidemics.windows.state import (
    Place,
    compartment_of,
    epidemic_of_row,
    idle,
    is_at_risk,
    since_of,
    stay_of,
    unexposed,
)
from ergode.epidemics.windows.tracing import release, tally_holds
from ergode.epidemics.windows.triggers import (
    begin_search,
    count_arrivals,
    cut_window,
    may_arrive,
    narrow_search,
    pull_triggers,
    window_end,
    window_stop,
)

THREADS = 256
HUB = 64  # a warp shares the work on a node with more incoming arcs than this
_NEVER = float("inf")


class Thread(NamedTuple):
    """A `core.group.Group`: all threads of a grid work on all replicates."""

    rank: Any
    size: Any
    words: Any
    lane: Any  # its number in its warp


def windows_cpu(
    start, stop, epidemic, rows, seed_count, width, queue, waiting, results, work
):  # fmt: skip
    """`run_windows` on one thread, for one index of a range."""
    for _ in range(start, stop):
        run_windows(
            by_reference(epidemic), by_reference(rows), seed_count, width, queue, waiting,
            by_reference(results), work, Thread(np.int64(0), np.int64(1), (), np.int64(0)),
        )  # fmt: skip


def windows_cuda(epidemic, rows, seed_count, width, queue, waiting, results, work):
    """`run_windows` on one cooperative grid."""
    run_windows(
        epidemic, rows, seed_count, width, queue, waiting, results, work,
        Thread(
            np.int64(cuda.grid(1)), np.int64(cuda.gridsize(1)), cuda.cg.this_grid(),
            np.int64(cuda.threadIdx.x & 31),
        ),
    )  # fmt: skip


@no_refcount
def run_windows(epidemic, rows, seed_count, width, queue, waiting, results, work, thread):
    """Run every replicate, from seeds to the last time, with all threads.

    A replicate has at most `seed_count` seeds.  Out: `results`, whose moves and counts of records
    are zero before, and `work` [2].  Scratch: paths, triggers and tracing of `epidemic`; `queue`
    [2, position]; `waiting` int32 [3, 3]: nodes queued in this round, the next and the one after,
    and likewise replicates that are not at their end, and searches for arrivals.
    """
    triggers = epidemic.triggers
    row_count = np.int64(results.moves.shape[0])
    node_count = node_count_of(epidemic.contacts.incoming)
    _begin_chunk(epidemic, rows, waiting, results, work, row_count, thread)
    barrier(thread)
    _place_seeds(epidemic, rows, seed_count, results, row_count, thread)
    barrier(thread)

    worked = np.int64(0)
    windows = np.int64(0)
    round_number = np.int64(0)
    searches = np.int64(0)
    while True:
        if AVOIDING and windows > 0:
            _count_all_avoided(epidemic, rows, width, results, windows, thread)
            barrier(thread)
        if (HAS_RELEASE or TESTS_TRACED) and windows > 0:
            _test_all(epidemic, rows, width, results, windows, thread)
            barrier(thread)
        _open_window(epidemic, rows, width, queue, waiting, results, windows, round_number, thread)
        barrier(thread)
        odd = windows & 1
        if (COUNTING or HAS_RELEASE) and HAS_TRACING:
            _tally_all_holds(epidemic, results, thread)
        if waiting[1, windows % 3] == 0:
            break
        if HAS_TRIGGERS:
            for row in share(thread, 0, row_count):
                begin = triggers.begin[odd, row]
                if begin > 0.0:
                    shift = row * node_count
                    if HAS_LINES:
                        form_lines(epidemic, row, shift)
                    counted, replicate = counted_in(results, row), replicate_of(rows, row)
                    pull_triggers(epidemic, counted, row, shift, begin, replicate)
                    if HAS_QUEUES:
                        _wake_admitted(epidemic, queue, waiting, round_number, row, shift)
                    if HAS_LINES:
                        test_lines(epidemic, counted, row, shift, begin, replicate)
            barrier(thread)
        going = True
        _queue_exposed(epidemic, width, queue, waiting, odd, round_number, thread)
        while going:
            following = (round_number + 1) % 3
            if thread.rank == 0:
                waiting[0, (round_number + 2) % 3] = 0
            worked += _one_round(
                epidemic, rows, width, queue, waiting, results, odd, round_number, thread
            )
            barrier(thread)
            round_number += 1
            going = waiting[0, following] > 0
            if HAS_BIRTHS and not going:
                going = settle_births(
                    epidemic, rows, width, queue, waiting, odd, round_number, thread
                )
        if HAS_TRIGGERS:
            going = True
            begins = True
            while going:
                here, there = searches % 3, (searches + 1) % 3
                if thread.rank == 0:
                    waiting[2, there] = 0
                _search_arrivals(epidemic, width, waiting, odd, here, begins, row_count, thread)
                begins = False
                barrier(thread)
                going = waiting[2, here] > 0
                if going:
                    _count_all_arrivals(epidemic, rows, width, odd, thread)
                    barrier(thread)
                searches += 1
        windows += 1
        # The next round uses another slot: threads may still have to read that this one is empty.
        round_number += 1
    if COUNTING:
        _tally_rest(epidemic, rows, results, thread)
    add(work, 0, worked)
    if thread.rank == 0:
        work[1] = windows


def _begin_chunk(epidemic, rows, waiting, results, work, row_count, thread):
    """All replicates at time zero, without their seeds."""
    node_count = node_count_of(epidemic.contacts.incoming)
    for row in share(thread, 0, row_count):
        begin_clock(epidemic, row, node_count)
        if COUNTING:
            start = epidemic.tables.interventions.start
            tally_starts(counted_in(results, row), epidemic.tables, start)
    for position in share(thread, 0, np.int64(epidemic.paths.queued.size)):
        row = position // node_count
        begin_node(
            epidemic_of_row(epidemic, rows, row), position, position - row * node_count,
            replicate_of(rows, row),
        )  # fmt: skip
    if thread.rank < 9:
        waiting[thread.rank // 3, thread.rank % 3] = 0
    if thread.rank < 2:
        work[thread.rank] = 0
    if thread.rank == 0:
        epidemic.tracing.room[0] = 0


def _count_all_avoided(epidemic, rows, width, results, windows, thread):
    """Count the contacts that measures avoid in the window that is settled."""
    node_count = node_count_of(epidemic.contacts.incoming)
    triggers, was, over = epidemic.triggers, 1 - (windows & 1), epidemic.tables.end
    for position in share(thread, 0, np.int64(epidemic.paths.queued.size)):
        row = position // node_count
        begin = triggers.begin[was, row]
        if begin < over:
            end = min(window_end(triggers, was, row, width, over), over)
            starts = (
                triggers.starts[row]
                if HAS_TRIGGERS or HAS_LIVES
                else epidemic.tables.interventions.start
            )
            place = Place(row, row, position, position - row * node_count, replicate_of(rows, row))
            own, counted = epidemic_of_row(epidemic, rows, row), counted_in(results, row)
            count_avoided(own, counted, place, starts, begin, end)


def _test_all(epidemic, rows, width, results, windows, thread):
    """Make the tests in the window that is settled: of contacts, and for the release of nodes."""
    node_count = node_count_of(epidemic.contacts.incoming)
    triggers = epidemic.triggers
    for position in share(thread, 0, np.int64(epidemic.paths.queued.size)):
        row = position // node_count
        end = window_end(triggers, 1 - (windows & 1), row, width, epidemic.tables.end)
        starts = (
            triggers.starts[row]
            if HAS_TRIGGERS or HAS_LIVES
            else epidemic.tables.interventions.start
        )
        place = Place(row, row, position, position - row * node_count, replicate_of(rows, row))
        own, counted = epidemic_of_row(epidemic, rows, row), counted_in(results, row)
        if TESTS_TRACED:
            test_traced(own, counted, starts, place, end)
        if HAS_RELEASE:
            release(own, counted, starts, place, end)


def _tally_all_holds(epidemic, results, thread):
    """Count the quarantines of all nodes that began in the window that is settled."""
    node_count = node_count_of(epidemic.contacts.incoming)
    for position in share(thread, 0, np.int64(epidemic.paths.queued.size)):
        row = position // node_count
        tally_holds(
            counted_in(results, row), epidemic.tables, epidemic.tracing, epidemic.paths,
            epidemic.triggers.starts[row], position, position - row * node_count,
        )  # fmt: skip


def _tally_rest(epidemic, rows, results, thread):
    """Count what is known at the end: doses of all nodes, and isolations in their last stays."""
    node_count = node_count_of(epidemic.contacts.incoming)
    tables, paths = epidemic.tables, epidemic.paths
    for position in share(thread, 0, np.int64(paths.queued.size)):
        row = position // node_count
        node, replicate = position - row * node_count, replicate_of(rows, row)
        counted, starts = counted_in(results, row), epidemic.triggers.starts[row]
        tally_isolations(
            counted, tables, starts, node, stay_of(paths, position),
            compartment_of(paths, position), since_of(paths, position), real(_NEVER),
            epidemic.seed, replicate,
        )  # fmt: skip
        tally_doses(counted, tables, starts, node, epidemic.seed, replicate)


def _place_seeds(epidemic, rows, seed_count, results, row_count, thread):
    """Put the seeds of all replicates where they start; a replicate has `seed_count` at most."""
    node_count = node_count_of(epidemic.contacts.incoming)
    for s in share(thread, 0, seed_count * row_count):
        row = s // seed_count
        index = s - row * seed_count
        own = epidemic_of_row(epidemic, rows, row)
        seeding = own.tables.seeding
        if index < seeding.named_count + seeding.drawn_count:
            place_seed(own, results, row, row, index, node_count, replicate_of(rows, row))


def _open_window(epidemic, rows, width, queue, waiting, results, windows, round_number, thread):
    """Settle the paths of the last window, and queue the nodes that may move in the next."""
    tables, triggers, paths = epidemic.tables, epidemic.triggers, epidemic.paths
    node_count = node_count_of(epidemic.contacts.incoming)
    position_count = np.int64(paths.queued.size)
    odd = windows & 1
    if thread.rank == 0:
        waiting[0, (round_number + 1) % 3] = 0
        waiting[1, (windows + 1) % 3] = 0
    for row in share(thread, 0, np.int64(results.moves.shape[0])):
        triggers.cut[odd, row] = bits(to_bits(real(_NEVER)))
        begin = real(0.0)
        if windows > 0:
            begin = window_end(triggers, 1 - odd, row, width, tables.end)
            triggers.begin[odd, row] = begin
        if begin < tables.end:
            waiting[1, windows % 3] = 1
    # Lanes of a warp stay together.
    whole = (position_count + thread.size - 1) // thread.size * thread.size
    for position in share(thread, 0, whole):
        wanted = False
        if position < position_count:
            row = position // node_count
            begin = real(0.0)
            if windows > 0:
                begin = window_end(triggers, 1 - odd, row, width, tables.end)
                node = position - row * node_count
                place = Place(row, row, position, node, replicate_of(rows, row))
                settle(epidemic_of_row(epidemic, rows, row), results, place, begin)
            if begin < tables.end and not is_at_risk(tables, paths, position):
                wanted = not idle(tables, paths, position, window_stop(begin, width, tables.end))
            paths.queued[position] = np.int32(1) if wanted else np.int32(0)
        at = claim_place(wanted, waiting, (np.int64(0), np.int64(round_number % 3)), thread.lane)
        if wanted:
            queue[round_number & 1, at] = position


def _queue_exposed(epidemic, width, queue, waiting, odd, round_number, thread):
    """Queue the nodes at risk that may move, for the round after that of the others.

    So most of them are worked on once, when it is known who becomes infectious in the window.
    """
    tables, triggers, paths = epidemic.tables, epidemic.triggers, epidemic.paths
    node_count = node_count_of(epidemic.contacts.incoming)
    position_count = np.int64(paths.queued.size)
    whole = (position_count + thread.size - 1) // thread.size * thread.size
    for position in share(thread, 0, whole):
        wanted = False
        if position < position_count and is_at_risk(tables, paths, position):
            begin = triggers.begin[odd, position // node_count]
            stop = window_stop(begin, width, tables.end)
            wanted = begin < tables.end and not unexposed(tables, paths, position, stop)
            wanted = wanted and exchange(paths.queued, position, 1) == 0
        at = claim_place(
            wanted, waiting, (np.int64(0), np.int64((round_number + 1) % 3)), thread.lane
        )
        if wanted:
            queue[1 - (round_number & 1), at] = position


def _wake_admitted(epidemic, queue, waiting, round_number, row, shift):
    """Queue the nodes of a replicate that have got places, for the round that begins."""
    state = epidemic.lines
    for line in range(state.arrived.shape[1]):
        for at in range(np.int64(state.arrived[row, line])):
            position = shift + np.int64(state.inbox[line, shift + at])
            if exchange(epidemic.paths.queued, position, 1) == 0:
                slot = add(waiting, (0, round_number % 3), 1)
                queue[round_number & 1, slot] = position
    forget_admitted(state, row)


def _search_arrivals(epidemic, width, waiting, odd, slot, begins, row_count, thread):
    """Begin or narrow the searches of all replicates; count in `waiting` those not finished."""
    triggers, end = epidemic.triggers, epidemic.tables.end
    search_count = np.int64(triggers.rank.shape[1])
    for k in share(thread, 0, row_count * search_count):
        row = k // search_count
        which = k - row * search_count
        if begins:
            begin = triggers.begin[odd, row]
            found = begin < end and begin_search(
                epidemic, odd, row, which, begin, window_stop(begin, width, end)
            )
        else:
            found = narrow_search(triggers, odd, row, which)
        if found:
            waiting[2, slot] = 1


def _count_all_arrivals(epidemic, rows, width, odd, thread):
    """Count the arrivals in all paths in the bins of their searches."""
    paths, triggers, tables = epidemic.paths, epidemic.triggers, epidemic.tables
    node_count = node_count_of(epidemic.contacts.incoming)
    for position in share(thread, 0, np.int64(paths.queued.size)):
        if may_arrive(epidemic, position):
            row = position // node_count
            count_arrivals(
                epidemic, row, position, position - row * node_count,
                compartment_of(paths, position), window_end(triggers, odd, row, width, tables.end),
                replicate_of(rows, row),
            )  # fmt: skip


def _one_round(epidemic, rows, width, queue, waiting, results, odd, round_number, thread):
    """Compute the paths of queued nodes; return the number computed by this thread.

    Each lane takes a node.  Nodes with many arcs are deferred: the whole warp then processes them
    one after another.
    """
    outgoing, tables, paths = epidemic.contacts.outgoing, epidemic.tables, epidemic.paths
    triggers, lane = epidemic.triggers, thread.lane
    incoming = epidemic.contacts.incoming
    node_count = node_count_of(incoming)
    total = np.int64(waiting[0, round_number % 3])
    here = round_number & 1
    worked = np.int64(0)
    k = thread.rank - thread.size
    position = np.int64(0)
    together = np.uint32(0)  # lanes whose node is still to be worked on by all
    while True:
        mine = np.int64(0)
        share, shares = np.int64(0), np.int64(1)
        active = True
        if together == np.uint32(0):
            k += thread.size
            if k - lane >= total:
                break
            active = k < total
            if active:
                position = np.int64(queue[here, k])
            mine = position
            if HUBS:
                node = position - position // node_count * node_count
                many = active and end_arc(incoming, node) - first_arc(incoming, node) > HUB
                together = np.uint32(cuda.ballot_sync(EVERY_LANE, many))
                active = active and not many
        elif HUBS:
            owner = np.int32(cuda.ffs(together) - 1)
            together = np.uint32(together & np.uint32(together - np.uint32(1)))
            mine = np.int64(cuda.shfl_sync(EVERY_LANE, position, owner))
            share, shares = lane, np.int64(32)
        if active:
            if share == 0:
                exchange(paths.queued, mine, 0)
            # Later reads must see all writes before the mark was set.
            fence()
            if HUBS and shares > 1:
                cuda.syncwarp()
            row = mine // node_count
            node = mine - row * node_count
            begin = triggers.begin[odd, row]
            stop = window_stop(begin, width, tables.end)
            starts = (
                triggers.starts[row] if HAS_TRIGGERS or HAS_LIVES else tables.interventions.start
            )
            place = Place(row, row, mine, node, replicate_of(rows, row))
            own = epidemic_of_row(epidemic, rows, row)
            changed, left_out = work_out(
                own, counted_in(results, row), place, starts, begin, stop, share, shares
            )
            worked += np.int64(share == 0)
            if left_out < stop and share == 0:
                cut_window(triggers, odd, row, left_out)
            if changed > 0:
                fence()
                for e in range(first_arc(outgoing, node) + share, end_arc(outgoing, node), shares):
                    other = np.int64(target_of(outgoing, node, e))
                    _wake(tables, paths, queue, waiting, round_number, mine - node + other, stop)
                    if HAS_TRACING and changed > 1:
                        for f in range(first_arc(outgoing, other), end_arc(outgoing, other)):
                            _wake(
                                tables, paths, queue, waiting, round_number,
                                mine - node + np.int64(target_of(outgoing, other, f)), stop,
                            )  # fmt: skip
    return worked


def _wake(tables, paths, queue, waiting, round_number, position, stop):
    """Queue a node for the next round, unless it is already queued or cannot move."""
    if not idle(tables, paths, position, stop) and exchange(paths.queued, position, 1) == 0:
        at = add(waiting, (0, (round_number + 1) % 3), 1)
        queue[1 - (round_number & 1), at] = position
