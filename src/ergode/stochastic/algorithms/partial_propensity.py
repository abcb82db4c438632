"""Partial propensities: for strongly coupled mass action.

The propensity of a reaction of two molecules is n times its partial propensity, which depends on
the other molecule only.  Reactions that share a factor n form a group; the sum of the group's
partial propensities is stored.  A change of a count changes these sums: at most one for each
species that it reacts with, instead of one for each reaction.

R. Ramaswamy, N. Gonzalez-Segredo, I. F. Sbalzarini, "A new class of highly efficient exact
stochastic simulation algorithms for chemical reaction networks", J. Chem. Phys. 130 (2009).

Partial propensities are not stored, but computed from the counts when they are needed.  Sums are
corrected by differences.  To avoid drift, a sum is recomputed when its group is searched, or when
it has nearly vanished.

On a GPU a thread group simulates a realization.  Counts and sums are in shared memory; each thread
has a part of the groups, and a part of the members of the group that is searched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import no_unroll, noinline_cpu, real
from ergode.core.group import SIZE, any_of, barrier, lane_in, shuffle
from ergode.stochastic.algorithms.algorithm import Algorithm, Options, Rows, ThreadGroupAlgorithm
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.next_firing import find
from ergode.stochastic.tables import ONE_LESS, Tables, offsets
from ergode.stochastic.thread_group import ops

BLOCK = 16
# A sum that falls below this fraction of its former value is recomputed, because of cancellation.
VANISHED = 2.0**-20


class MethodState(NamedTuple):
    """State of the method (one row per worker), and read-only tables."""

    counts: Any  # [worker, variable + 1 ...] the state, and a one; padded with zeros to a block
    partial: Any  # [worker, group ...] sum of partial propensities, padded
    sums: Any  # [worker, block] sum of propensities
    parts: Any  # [worker, 4] partial sums of a block
    member_starts: Any  # [group + 1]
    members: Any  # [entry] reaction
    partners: Any  # [entry] variable in the partial propensity; the last variable (one) if none
    coefficients: Any  # [point, entry]
    touch_starts: Any  # [variable + 1]
    touched: Any  # [entry] group whose partial propensities depend on the variable
    touch_coefficients: Any  # [point, entry] sum of their coefficients


def _partial_of(entry, w, point, state):
    """Partial propensity of a member of a group."""
    partner = state.partners[at(entry)]
    n = state.counts[w, at(partner & (ONE_LESS - 1))] - real(partner >> 30)
    return state.coefficients[point, at(entry)] * n


def _four_of(entry, w, point, state):
    """Sum of the partial propensities of four members."""
    return (_partial_of(entry, w, point, state) + _partial_of(entry + 1, w, point, state)) + (
        _partial_of(entry + 2, w, point, state) + _partial_of(entry + 3, w, point, state)
    )


@noinline_cpu
def _add_up(g, w, point, state):
    total = real(0.0)
    for entry in range(state.member_starts[at(g)], state.member_starts[at(g + 1)], 4):
        total += _four_of(entry, w, point, state)
    state.partial[w, at(g)] = total


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Compute all sums from the counts."""
    groups = work.x.shape[1]
    for g in range(state.partial.shape[1]):
        state.counts[w, g] = work.x[w, g] if g < groups else 0.0
        state.partial[w, g] = 0.0
    for g in range(groups):
        _add_up(g, w, point, state)


def update(j, w, t, point, plan, replicate, net, work, state):
    """Correct the sums of the groups that depend on changed variables."""
    for entry in range(net.change_starts[at(j)], net.change_starts[at(j + 1)]):
        variable = net.changed[at(entry)]
        delta = net.changes[at(entry)]
        # One variable at a time: a recomputed sum must include only the changes made so far.
        state.counts[w, at(variable)] += delta
        first, last = state.touch_starts[at(variable)], state.touch_starts[at(variable + 1)]
        for k in range(np.int64(first), np.int64(last)):
            g = state.touched[at(k)]
            before = state.partial[w, at(g)]
            after = before + delta * state.touch_coefficients[point, at(k)]
            state.partial[w, at(g)] = after
            if abs(after) <= VANISHED * abs(before):
                _add_up(g, w, point, state)
    return True


def choose(target, w, point, state):
    """Reaction whose interval of the cumulative sum contains `target`; -1 if rounding left none."""
    block, target = find(target, state.sums, w, 0, state.sums.shape[1])
    if block < 0:
        return -1
    chosen = -1
    inside = real(0.0)
    for g in range(block * BLOCK, (block + 1) * BLOCK):
        n = state.counts[w, at(g)]
        a = n * state.partial[w, at(g)]
        if a > 0.0:
            chosen = g
            inside = target / n
            if target < a:
                break
        target -= a
    if chosen < 0:
        return -1
    four = -1
    total, rest = real(0.0), real(0.0)
    first, last = state.member_starts[at(chosen)], state.member_starts[at(chosen + 1)]
    for entry in range(np.int64(first), np.int64(last), 4):
        value = _four_of(entry, w, point, state)
        if value > 0.0 and inside >= total:
            four, rest = entry, inside - total
        total += value
    state.partial[w, at(chosen)] = total
    found = -1
    if four >= 0:
        for entry in range(four, four + 4):
            value = _partial_of(entry, w, point, state)
            if value > 0.0 and rest >= 0.0:
                found = entry
            rest -= value
    return state.members[at(found)] if found >= 0 else -1


def _sum_of_block(block, w, state):
    """Sum of the propensities of a block, in four independent parts."""
    s0, s1, s2, s3 = real(0.0), real(0.0), real(0.0), real(0.0)
    for g in range(block * BLOCK, (block + 1) * BLOCK, 4):
        s0 += state.counts[w, at(g)] * state.partial[w, at(g)]
        s1 += state.counts[w, at(g + 1)] * state.partial[w, at(g + 1)]
        s2 += state.counts[w, at(g + 2)] * state.partial[w, at(g + 2)]
        s3 += state.counts[w, at(g + 3)] * state.partial[w, at(g + 3)]
    # Adjacent stores let the compiler vectorise the four sums.
    state.parts[w, at(0)], state.parts[w, at(1)] = s0, s1
    state.parts[w, at(2)], state.parts[w, at(3)] = s2, s3
    return (s0 + s1) + (s2 + s3)


def total_of(w, state):
    """Total propensity."""
    total = real(0.0)
    for block in range(state.sums.shape[1]):
        part = _sum_of_block(block, w, state)
        state.sums[w, at(block)] = part
        total += part
    return total


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    blocks = -(-(tables.variable_count + 1) // BLOCK)
    return {
        "counts": (blocks * BLOCK, np.float64),
        "partial": (blocks * BLOCK, np.float64),
        "sums": (blocks, np.float64),
        "parts": (4, np.float64),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share: groups, padded to a multiple of four members."""
    found = groups_of(tables)
    starts = found["member_starts"]
    lengths = np.diff(starts)
    padded = np.concatenate([[0], np.cumsum(-(-lengths // 4) * 4)]).astype(np.int32)
    group = np.repeat(np.arange(lengths.size), lengths)
    place = padded[group] + np.arange(group.size) - starts[group]
    return {**found, "member_starts": padded, **_spread(found, place, padded[-1])}


def _spread(found: dict[str, np.ndarray], place: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Members at their padded positions; the gaps have the coefficient 0."""
    members = np.zeros(count, np.int32)
    partners = np.zeros(count, np.int32)
    coefficients = np.zeros((len(found["coefficients"]), count))
    members[place], partners[place] = found["members"], found["partners"]
    coefficients[:, place] = found["coefficients"]
    return {"members": members, "partners": partners, "coefficients": coefficients}


def groups_of(tables: Tables) -> dict[str, np.ndarray]:
    """Groups with their members, in flat arrays. The last group has no factor."""
    net, groups = tables.net, tables.variable_count + 1
    count = tables.reaction_count
    one = groups - 1
    starts = net.reactant_starts
    kinds = np.diff(starts)
    first, partner = np.full(count, one), np.full(count, one)
    some = kinds > 0
    first[some] = net.reactants[starts[:-1][some]]
    doubled = some.copy()
    doubled[some] = (net.orders[starts[:-1][some]] == 2) & (kinds[some] == 1)
    partner[doubled] = first[doubled]
    pairs = kinds == 2
    partner[pairs] = net.reactants[starts[:-1][pairs] + 1]
    # The reactant with fewer reactions is the partner: each of its changes corrects a sum.
    busy = np.diff(net.affected_starts)
    swap = pairs.copy()
    swap[pairs] = busy[partner[pairs]] > busy[first[pairs]]
    first[swap], partner[swap] = partner[swap], first[swap]
    order = np.argsort(first, kind="stable")
    # Groups that a variable affects, each once, with the sum of their coefficients.
    moved = np.flatnonzero(partner < one)
    key, place = np.unique(partner[moved] * groups + first[moved], return_inverse=True)
    sums = np.zeros((len(net.coefficients), key.size))
    for point, row in enumerate(net.coefficients):
        sums[point] = np.bincount(place, weights=row[moved], minlength=key.size)
    return {
        "member_starts": offsets(first, groups),
        "members": order.astype(np.int32),
        "partners": (partner + ONE_LESS * doubled)[order].astype(np.int32),
        "coefficients": np.ascontiguousarray(net.coefficients[:, order]),
        "touch_starts": offsets(key // groups, tables.variable_count),
        "touched": (key % groups).astype(np.int32),
        "touch_coefficients": sums,
    }


# ---- thread groups

# An entry packs three numbers: the position of the count, whether the count is reduced by one, and
# the index of the coefficient. Networks have few distinct coefficients, so entries are short.
_SPOTS, _ONE_LESS, _NUMBER = np.uint32(2**14 - 1), np.uint32(2**14), np.uint32(15)
_NOT_A_NUMBER = float("nan")


class ThreadGroupState(NamedTuple):
    """State of a thread group besides counts and sums, which are in shared memory.

    Members are in the order in which threads read them: the k-th member of thread m is at
    ``k * SIZE + m`` of its group.  Tables with several dimensions are flattened.
    """

    width: Any  # rows of shared memory for groups
    changes_most: Any  # largest number of changes of a reaction
    number_count: Any  # distinct coefficients of a point
    member_starts: Any  # [group + 1]
    members: Any  # [place] reaction
    entries: Any  # [place] partner, packed
    numbers: Any  # [point * number] coefficients
    rows: Any  # [reaction * change * 4] (`thread_group.ops.change_rows`)
    touches: Any  # [place] sum of a group and coefficient, packed


def thread_group_value(place, threads, state):
    """Sum of the propensities of a group."""
    return threads.scratch[place] * threads.scratch[at(place + state.width * ops.STRIDE)]


def thread_group_count(i, threads, work, state):
    """Count of a species."""
    return threads.scratch[at(threads.base + ops.shared_index(np.int32(i), state.width))]


def _thread_partial_of(place, first, threads, state):
    """Partial propensity of the member at `place`; coefficients of the point begin at `first`."""
    entry = state.entries[at(place)]
    n = threads.scratch[at(threads.base + (entry & _SPOTS))]
    if entry & _ONE_LESS != np.uint32(0):
        n -= 1.0
    return state.numbers[at(first + (entry >> _NUMBER))] * n


def _thread_add_up(g, first, threads, state):
    """Sum of a group, computed by one thread."""
    total = real(0.0)
    for place in no_unroll(range(state.member_starts[at(g)], state.member_starts[at(g + 1)])):
        total += _thread_partial_of(place, first, threads, state)
    return total


def thread_group_prepare(t, point, threads, net, work, state):
    """Compute all sums from the counts."""
    groups = state.member_starts.size - 1
    for k in no_unroll(range(state.width)):
        g = threads.rank * state.width + k
        n = real(0.0)
        if g < groups:
            n = net.initial[point, at(g)]
        threads.scratch[at(threads.base + k * ops.STRIDE + threads.rank)] = n
    barrier(threads)
    for k in no_unroll(range(state.width)):
        g = threads.rank * state.width + k
        total = real(0.0)
        if g < groups:
            total = _thread_add_up(g, point * state.number_count, threads, state)
        threads.scratch[at(threads.base + (state.width + k) * ops.STRIDE + threads.rank)] = total


def thread_group_choose(g, place, target, point, threads, work, state):
    """Reaction of group `g` whose interval contains `target`; -1 for none."""
    memory = threads.scratch
    first, last = state.member_starts[at(g)], state.member_starts[at(g + 1)]
    numbers = np.uint32(point * state.number_count)
    target /= memory[place]
    value = real(0.0)
    entry = np.int32(first + threads.rank)
    while entry < last:
        value += _thread_partial_of(entry, numbers, threads, state)
        entry = np.int32(entry + SIZE)
    column, target, total = ops.search(value, target, threads)
    if threads.rank == 0:
        memory[at(place + state.width * ops.STRIDE)] = total
    j = np.int32(-1)
    if column >= 0:
        begin = np.int32(first + column)
        while begin < last:
            value = real(0.0)
            entry = np.int32(begin + threads.rank * SIZE)
            if entry < last:
                value = _thread_partial_of(entry, numbers, threads, state)
            row, rest, total = ops.search(value, target, threads)
            if row >= 0:
                j = state.members[at(begin + row * SIZE)]
                if target < total:
                    break
            target -= total
            begin = np.int32(begin + SIZE * SIZE)
    barrier(threads)
    return j


def thread_group_follow(j, t, point, threads, net, work, state):
    """Apply the changes of reaction `j` to the counts, and correct the dependent sums."""
    memory = threads.scratch
    numbers = np.uint32(point * state.number_count)
    sums = np.uint32(threads.base + state.width * ops.STRIDE)
    spot, delta, begin, end = ops.row_of_change(j, threads, state)
    if spot >= 0 and threads.rank == lane_in(threads):
        memory[at(threads.base + spot)] += real(delta)
    barrier(threads)
    vanished = False
    k = np.int32(0)
    while k < state.changes_most:
        if shuffle(spot, k) < 0:
            break
        change = real(shuffle(delta, k))
        place, last = np.int32(shuffle(begin, k) + threads.rank), shuffle(end, k)
        while place < last:
            entry = state.touches[at(place)]
            where = at(sums + (entry & _SPOTS))
            before = memory[where]
            after = before + change * state.numbers[at(numbers + (entry >> _NUMBER))]
            if abs(after) <= VANISHED * abs(before):
                after = real(_NOT_A_NUMBER)  # stays NaN under further additions
                vanished = True
            memory[where] = after
            place = np.int32(place + SIZE)
        barrier(threads)
        k = np.int32(k + 1)
    if any_of(threads, vanished):
        for k in no_unroll(range(state.width)):
            where = at(sums + k * ops.STRIDE + threads.rank)
            if memory[where] != memory[where]:
                memory[where] = _thread_add_up(
                    threads.rank * state.width + k, numbers, threads, state
                )


def thread_group_options(tables: Tables, size: int, room: int) -> tuple[int, Options]:
    """float64 of shared memory of a thread group, and bindings: none."""
    width = -(-(tables.variable_count + 1) // size)
    return 2 * width * (size + 1), ()


def thread_group_rows(tables: Tables, size: int, options: Options) -> Rows:
    """Length and type of a thread group's arrays in global memory: none."""
    return {}


def thread_group_constants(tables: Tables, size: int, options: Options) -> dict[str, np.ndarray]:
    """Constants that all thread groups of `size` threads share."""
    found = groups_of(tables)
    groups = tables.variable_count + 1
    spots = ops.shared_indices(groups, size)
    lengths = np.diff(found["member_starts"])
    rows = -(-lengths // size)
    starts = np.concatenate([[0], np.cumsum(rows * size)]).astype(np.int32)
    group = np.repeat(np.arange(lengths.size), lengths)
    number = np.arange(group.size) - found["member_starts"][:-1][group]
    place = starts[group] + number % rows[group] * size + number // rows[group]
    members = np.zeros(int(starts[-1]), np.int32)
    members[place] = found["members"]
    # Padding has the coefficient 0, at index 0.
    both = np.hstack([found["coefficients"], found["touch_coefficients"]])
    numbers, which = np.unique(both, axis=1, return_inverse=True)
    which = which.reshape(-1) + 1
    partners = spots[found["partners"] & (ONE_LESS - 1)]
    less = found["partners"] >> 30
    packed = partners | less * int(_ONE_LESS) | which[: place.size] << int(_NUMBER)
    entries = np.zeros(members.size, np.uint32)
    entries[place] = packed
    touches = spots[found["touched"]] | which[place.size :] << int(_NUMBER)
    changes = ops.change_rows(tables, spots, found["touch_starts"], False)
    return {
        "width": np.int32(-(-groups // size)),
        "changes_most": np.int32(changes.shape[1]),
        "number_count": np.int32(numbers.shape[1] + 1),
        "member_starts": starts,
        "members": members,
        "entries": entries,
        "numbers": np.hstack([np.zeros((len(numbers), 1)), numbers]).reshape(-1),
        "rows": changes.reshape(-1),
        "touches": touches.astype(np.uint32),
    }


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    total_of=total_of, choose=choose, has_laws=False,
    thread_group=ThreadGroupAlgorithm(
        state=ThreadGroupState, value=thread_group_value, count=thread_group_count,
        prepare=thread_group_prepare, choose=thread_group_choose, follow=thread_group_follow,
        options=thread_group_options, rows=thread_group_rows, constants=thread_group_constants,
    ),
)  # fmt: skip
