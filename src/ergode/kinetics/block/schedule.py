"""Tables for a block of threads that share one zone: the work of each thread, and the barriers.

Latency limits the speed of a step: the length of the chain of memory accesses and barriers. Every
table is therefore laid out in reading order. Neighbouring threads read neighbouring items. An item
holds all indices of a multiplication, and its position does not depend on other items, so items are
prefetched.

Sums over rows are cut into segments of a few terms, one for each thread; short segments are filled
with terms that are zero. The segments of a row are neighbours in one warp, which adds them without
a barrier. The order of terms within a segment is free; it is chosen to avoid conflicts of shared
memory banks.

The last variables to be eliminated, the *tail*, depend on one another in sequence. Their part of
the matrix is dense, and is inverted in registers. The elimination of the other variables, and
substitution, are programs of *rounds*, in which every thread does one multiply-subtract. In the
elimination a thread keeps its target in a register, and a barrier separates levels. One warp does
the substitution, round after round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import zip_longest
from typing import Any

import numpy as np

from ergode.core.math.elimination import Elimination, eliminate
from ergode.kinetics.network.mechanism import pattern_of
from ergode.kinetics.tables import (
    SLOTS,
    BlockFlows,
    BlockSystem,
    Complexes,
    Flows,
    Program,
    Segments,
    System,
)

FLOW_WIDTH, SUM_WIDTH, SLOPE_WIDTH, BETWEEN_WIDTH = 13, 20, 4, 12
"""Terms of a segment: of gains and losses, of net changes, of entries of the Jacobian, and of sums
between the tail and the others."""
SUM_WORDS, BETWEEN_WORDS = SUM_WIDTH // 4, BETWEEN_WIDTH // 2
"""Items of a segment."""
PRODUCTS_AT_ONCE, SLOPES_AT_ONCE, SINGLES_AT_ONCE = 5, 2 * SLOPE_WIDTH, 4
"""Loads of a thread that overlap: for complexes, and for entries of the Jacobian."""
CHUNK = 4
"""Rounds whose items are loaded together, while those of the chunk before are worked on."""
WARP = 32
_BANKS = 16
"""Banks of shared memory: eight-byte numbers that half a warp reads at once."""
SMALL, _LARGE = 16, 48
_MOST_CHOSEN = 128  # items of a lane: to choose takes a time that grows with their square
_DEPTH_WEIGHT = 0.5
"""As for `eliminate`."""
_FIELD = 16
INDEXABLE = 1 << _FIELD
"""Indices of items are smaller than this."""


def tail_of(species_count: int) -> int:
    """Largest number of variables in the dense tail."""
    return SMALL if species_count <= SMALL else _LARGE


def segments_of(
    rows: Sequence[int], wanted: Iterable[int], width: int, banks: Sequence[int] | None = None
) -> tuple[Segments, np.ndarray]:
    """Segments of rows that terms belong to, and the order in which the terms are laid out.

    Parameters
    ----------
    rows : sequence of int, shape [term_count]
        Row of each term.
    wanted : iterable of int
        Rows to sum; those without terms get an empty segment.
    width : int
        Largest number of terms of a segment.
    banks : sequence of int, shape [term_count], optional
        Index in shared memory that each term reads.

    Returns
    -------
    Segments
        Its items are indices of terms in the new order; the number of terms stands for none.
    ndarray
        Old index of each term.
    """
    terms: dict[int, list[int]] = {row: [] for row in wanted}
    for term, row in enumerate(rows):
        terms[row].append(term)
    parts: list[tuple[int, list[list[int]]]] = []
    long_rows: list[tuple[int, int, int]] = []
    places = 0
    for row, members in terms.items():
        cut = [members[k : k + width] for k in range(0, len(members), width)] or [[]]
        if len(cut) <= WARP:
            parts.append((row, cut))
        else:
            pieces = [cut[k : k + WARP] for k in range(0, len(cut), WARP)]
            parts += [(-2 - places - k, piece) for k, piece in enumerate(pieces)]
            long_rows.append((row, places, places + len(pieces)))
            places += len(pieces)
    long_rows.sort(key=lambda one: one[1] - one[2])
    warps = _in_warps(parts)
    target, rest = list[int](), list[int]()
    slots: list[list[int | None]] = []
    single = 0
    for warp in warps:
        segments = [segment for _, cut in warp for segment in cut]
        segments += [[] for _ in range(WARP - len(segments))]
        alone = max(map(len, segments)) < 2
        laid = _apart(segments, 1 if alone else width, banks or [0] * len(rows))
        slots += [terms + [None] * (width - len(terms)) for terms in laid]
        single = single if alone else len(slots)
        for row, cut in warp:
            target += [row] + [-1] * (len(cut) - 1)
            rest += range(len(cut) - 1, -1, -1)
        missing = len(slots) - len(target)
        target += [-1] * missing
        rest += [0] * missing
    item = np.full((width, len(slots)), len(rows), np.int64)
    order: list[int] = []
    for k in range(width):
        for s, segment in enumerate(slots):
            read = segment[k]
            if read is not None:
                item[k, s] = len(order)
                order.append(read)
    long = np.array(long_rows, np.int32).reshape(-1, 3)
    # Turns of adding neighbours, until every row of the warp is one sum.
    most = np.array(rest, np.int64).reshape(-1, WARP).max(axis=1, initial=0)
    turns = np.ceil(np.log2(most + 1)).astype(int).repeat(WARP)
    label = np.array(target, np.int64) << 8 | turns << 5 | np.array(rest, np.int64)
    return (
        Segments(item, label.astype(np.int32), single, *(long[:, k].copy() for k in range(3))),
        np.array(order, np.int64),
    )


Part = tuple[int, list[list[int]]]


def _in_warps(parts: Sequence[Part]) -> list[list[Part]]:
    """Group rows so that no row is split between warps, the longest rows first."""
    warps: list[list[Part]] = []
    free: list[list[int]] = [[] for _ in range(WARP + 1)]
    for part in sorted(parts, key=lambda part: (-len(part[1]), -len(part[1][0]))):
        size = len(part[1])
        lanes = next((lanes for lanes in range(size, WARP + 1) if free[lanes]), None)
        if lanes is None:
            lanes = WARP
            free[lanes].append(len(warps))
            warps.append([])
        warp = free[lanes].pop()
        warps[warp].append(part)
        free[lanes - size].append(warp)
    return warps


def _apart(
    segments: Sequence[Sequence[int]], width: int, banks: Sequence[int]
) -> list[list[int | None]]:
    """Terms of a warp's segments, or none, in an order in which neighbours read different banks."""
    done: list[list[int | None]] = []
    for half in (segments[: WARP // 2], segments[WARP // 2 :]):
        left = [list(segment) for segment in half]
        laid: list[list[int | None]] = [[] for _ in half]
        for turn in range(width):
            taken: dict[int, int] = {}  # the index that is read from each bank
            often = Counter(banks[term] % _BANKS for terms in left for term in terms)
            for lane in sorted(range(len(half)), key=lambda lane: -len(left[lane])):
                terms = left[lane]
                fits = [
                    term
                    for term in terms
                    if taken.get(banks[term] % _BANKS, banks[term]) == banks[term]
                ]
                must = len(terms) == width - turn
                if not fits and not must:
                    laid[lane].append(None)
                    continue
                term = max(fits or terms, key=lambda term: often[banks[term] % _BANKS])
                terms.remove(term)
                taken.setdefault(banks[term] % _BANKS, banks[term])
                laid[lane].append(term)
        done += laid
    return done


def packed(*fields: Any) -> np.ndarray:
    """Items of 16-bit indices, the first in the lowest bits."""
    total = np.zeros(np.shape(fields[0]), np.int64)
    for k, field in enumerate(fields):
        total |= np.asarray(field, np.int64) << (_FIELD * k)
    return total


def by_warp(item: np.ndarray) -> np.ndarray:
    """Items [word, segment] in the order [warp, word, lane], as `Segments` has them."""
    return np.ascontiguousarray(item.reshape(len(item), -1, WARP).swapaxes(0, 1)).ravel()


Item = tuple[int, int, int, int]


def program_of(levels: Sequence[Sequence[Item]], nothing: Item, threads: int) -> Program:
    """Distribute the items of each level over threads; one thread has all items of a target."""
    rounds: list[list[Item]] = []
    counts = []
    for level in levels:
        groups: dict[int, list[Item]] = {}
        for item in level:
            groups.setdefault(item[0], []).append(item)
        lanes: list[list[Item]] = [[] for _ in range(threads)]
        loads = [(0, lane) for lane in range(threads)]
        heapify(loads)
        for group in sorted(groups.values(), key=lambda group: -len(group)):
            load, lane = heappop(loads)
            lanes[lane] += group
            heappush(loads, (load + len(group), lane))
        turns = _turns(lanes, nothing)
        rounds += turns
        rounds += [[nothing] * threads] * (-len(turns) % CHUNK)
        counts.append(len(turns))
    return Program(_laid_out(rounds, nothing, threads), np.array([*counts, 0], np.int32))


def _turns(lanes: Sequence[Sequence[Item]], nothing: Item) -> list[list[Item]]:
    """The item of every lane in each round, chosen to avoid bank conflicts; not of many items."""
    count = max(map(len, lanes))
    if count > _MOST_CHOSEN:
        return [list(turn) for turn in zip_longest(*lanes, fillvalue=nothing)]
    turns = [[nothing] * len(lanes) for _ in range(count)]
    for start in range(0, len(lanes), WARP // 2):
        half = range(start, min(start + WARP // 2, len(lanes)))
        left = {lane: list(lanes[lane]) for lane in half}
        for turn in range(count):
            taken: tuple[dict[int, int], ...] = ({}, {}, {}, {})
            for lane in sorted(half, key=lambda lane: -len(left[lane])):
                if not left[lane]:
                    continue
                meetings = [_meetings(item, taken) for item in left[lane]]
                fewest = min(meetings)
                if fewest > 2 and len(left[lane]) < count - turn:
                    continue
                item = left[lane].pop(meetings.index(fewest))
                turns[turn][lane] = item
                for seen, place in zip(taken, item, strict=True):
                    seen.setdefault(place % _BANKS, place)
    return turns


def _meetings(item: Item, taken: Sequence[Mapping[int, int]]) -> int:
    """Bank conflicts of an item, weighted by accesses."""
    met = [
        seen.get(place % _BANKS, place) != place for seen, place in zip(taken, item, strict=True)
    ]
    return 2 * met[0] + sum(met[1:])  # the target of an addition is read and written


def _laid_out(rounds: list[list[Item]], nothing: Item, threads: int) -> np.ndarray:
    more = CHUNK + -len(rounds) % CHUNK
    rounds = [*rounds, *([[nothing] * threads] * more)]
    fields = np.array(rounds, np.int64).reshape(-1, 4)
    return packed(*fields.T)


def rounds_of(items: Sequence[Item], nothing: Item, lanes: int) -> np.ndarray:
    """Rounds of x_i -= a_ik x_k; each round waits for the previous one.

    An item (i, entry, k, 0) is ready when all items that change k are done; items of one i run one
    at a time. Of the ready items, those on which most others depend come first.
    """
    waiting: dict[int, list[Item]] = {}
    users: dict[int, list[Item]] = {}
    for item in items:
        waiting.setdefault(item[0], []).append(item)
        users.setdefault(item[2], []).append(item)
    height: dict[int, int] = {}

    def height_of(i: int) -> int:
        if i not in height:
            height[i] = 1 + max((height_of(item[0]) for item in users.get(i, ())), default=0)
        return height[i]

    targets = sorted(waiting, key=height_of, reverse=True)
    rounds: list[list[Item]] = []
    while waiting:
        chosen: list[Item] = []
        for i in targets:
            ready = [item for item in waiting.get(i, ()) if item[2] not in waiting]
            if ready and len(chosen) < lanes:
                chosen.append(ready[0])
        for item in chosen:
            waiting[item[0]].remove(item)
            if not waiting[item[0]]:
                del waiting[item[0]]
        rounds.append(chosen + [nothing] * (lanes - len(chosen)))
    return _laid_out(rounds, nothing, lanes)


def block_system_of(system: System, pattern: np.ndarray, threads: int) -> BlockSystem:
    """Tables for implicit methods.

    Parameters
    ----------
    system : System
        The same for one thread.
    pattern : ndarray of bool, shape [variable_count, variable_count]
        Where the Jacobian may not be zero.
    threads : int
        Of a block.
    """
    count = len(pattern)
    plan = eliminate(pattern, _DEPTH_WEIGHT)
    blocked = Blocked(plan, tail_of(count))
    places = blocked.places
    flows, value_place = _sums_of(
        system.complexes, system.flows, system.flows.start.size - 1, SUM_WIDTH
    )
    complexes = np.array(system.complexes)
    _, terms = pattern_of(system.complexes, system.powers, system.flows, count)
    size = system.complexes.first.size
    slope_rows, slope_items = [], []
    for pair, items in terms.items():
        for entry, number in items:
            s, slot = divmod(number, SLOTS)
            if s < size:
                others = [int(complexes[other][s]) for other in range(SLOTS) if other != slot]
            else:  # the derivative of a power, times one
                others = [count + 1 + system.powers.power_count + number - SLOTS * size, count]
            slope_rows.append(places[pair])
            slope_items.append((int(value_place[entry]), *others))
    reads = [y for _, _, y in slope_items]
    slopes, order = segments_of(slope_rows, dict.fromkeys(slope_rows), SLOPE_WIDTH, reads)
    slope = np.array([*(slope_items[k] for k in order), (flows.value_count - 1, 0, 0)])
    forward, backward = blocked.substitution()
    tail = np.full(tail_of(count), count)
    tail[: blocked.tail_count] = plan.order[blocked.first_of_tail :]
    place = system.place
    if place.size > 1:
        place = np.zeros_like(place)
        for (i, j), index in places.items():
            place[i, j] = index
    return BlockSystem(
        flows,
        system.rates,
        system.thermo,
        system.invariants,
        system.absolute,
        place,
        slopes._replace(item=by_warp(packed(*slope.T)[slopes.item])),
        blocked.pivots(threads),
        np.array([places[i, i] for i in range(count)], np.int32),
        tail.astype(np.int32),
        blocked.tail_count,
        blocked.between(tail_is_target=True),
        blocked.between(tail_is_target=False),
        program_of(blocked.factorization(), (0, 0, 0, count), threads),
        rounds_of(forward, (count, 0, count, 0), WARP),
        rounds_of(backward, (count, 0, count, 0), WARP),
        blocked.entry_count,
        system.powers,
    )


def block_flows_of(complexes: Complexes, flows: Flows) -> BlockFlows:
    """Tables for the explicit method, from flows whose rows are gains, then losses."""
    return _sums_of(complexes, flows, flows.start.size - 1, FLOW_WIDTH)[0]


def _sums_of(
    complexes: Complexes, flows: Flows, count: int, width: int
) -> tuple[BlockFlows, np.ndarray]:
    """Sums of flows, and the place of the value of each entry."""
    start = flows.start.tolist()
    rows = [row for row in range(count) for _ in range(start[row], start[row + 1])]
    sums, order = segments_of(rows, range(count), width, flows.complex.tolist())
    slots = sums.item.ravel()
    filled = np.flatnonzero(slots < order.size)
    place = np.empty(order.size, np.int64)
    laid = by_warp(np.arange(slots.size).reshape(sums.item.shape))
    place[order[slots[filled]]] = laid.argsort()[filled]
    complex_of = np.zeros((-(-width // 4) * 4, sums.label.size), np.int64)
    complex_of.reshape(-1)[filled] = flows.complex[order[slots[filled]]]
    begin = flows.source_start.astype(np.int64)
    lengths = np.zeros(slots.size + 1, np.int64)
    lengths[place] = np.diff(begin)
    which = [np.arange(begin[e], begin[e + 1]) for e in place.argsort()]
    flat = np.concatenate([np.empty(0, np.int64), *which])
    found = BlockFlows(
        packed(*np.array(complexes)),
        sums._replace(item=by_warp(packed(*(complex_of[k::4] for k in range(4))))),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        flows.source[flat],
        flows.weight[flat],
        lengths.size,
    )
    return found, place


def _levels(count: int, waits: Callable[[int], Sequence[int]], order: Sequence[int]) -> list[int]:
    level = [0] * count
    for k in order:
        level[k] = 1 + max((level[j] for j in waits(k)), default=-1)
    return level


class Blocked:
    """An elimination in two parts: sparse pivots by levels, and a dense tail of a certain size."""

    def __init__(self, plan: Elimination, tail: int) -> None:
        size = plan.size
        self.order = plan.order.astype(int)
        rows = [plan.column[plan.start[k] : plan.start[k + 1]].astype(int) for k in range(size)]
        self.left = [row[row < k].tolist() for k, row in enumerate(rows)]
        self.right = [row[row > k].tolist() for k, row in enumerate(rows)]
        above: list[list[int]] = [[] for _ in range(size)]
        for k in range(size):
            for j in self.right[k]:
                above[j].append(k)
        self.level = _levels(size, lambda k: [*self.left[k], *above[k]], range(size))
        self.tail_count = min(size, tail)
        self.first_of_tail = first = size - self.tail_count
        # The first entry belongs to no variable; it is zero.
        self.places: dict[tuple[int, int], int] = {}
        for k, row in enumerate(rows):
            for j in row.tolist():
                if k < first or j < first:
                    self.places[self.order[k], self.order[j]] = len(self.places) + 1
        for i in range(first, size):
            for j in range(first, size):
                self.places[self.order[i], self.order[j]] = len(self.places) + 1
        self.entry_count = len(self.places) + 1

    def pivots(self, threads: int) -> Program:
        """Pivots by level, each with its place."""
        first, order, places = self.first_of_tail, self.order, self.places
        levels: list[list[int]] = [[] for _ in range(max(self.level[:first], default=-1) + 1)]
        for k in range(first):
            i = int(order[k])
            levels[self.level[k]].append(i | places[i, i] << _FIELD)
        rounds, counts = [], []
        for level in levels:
            parts = [level[at : at + threads] for at in range(0, len(level), threads)]
            rounds += [part + [-1] * (threads - len(part)) for part in parts]
            counts.append(len(parts))
        rounds.append([-1] * threads)
        return Program(np.array(rounds, np.int64).ravel(), np.array([*counts, 0], np.int32))

    def factorization(self) -> list[list[Item]]:
        """a_ij -= a_ik a_kj / a_kk by level of k."""
        first, order, places = self.first_of_tail, self.order, self.places
        depth = max(self.level[:first], default=-1) + 1
        items: list[list[Item]] = [[] for _ in range(depth)]
        below: list[list[int]] = [[] for _ in range(len(order))]
        for i, members in enumerate(self.left):
            for k in members:
                below[k].append(i)
        for k in range(first):
            for i in below[k]:
                for j in self.right[k]:
                    items[self.level[k]].append(
                        (
                            places[order[i], order[j]],
                            places[order[i], order[k]],
                            places[order[k], order[j]],
                            int(order[k]),
                        )
                    )
        return items

    def between(self, *, tail_is_target: bool) -> Segments:
        """Sums that lead from the others to the tail, or from the tail to the others."""
        size, first, order = len(self.order), self.first_of_tail, self.order
        rows, terms = [], []
        for i in range(first, size) if tail_is_target else range(first):
            for k in self.left[i] if tail_is_target else self.right[i]:
                if (k < first) == tail_is_target:
                    rows.append(int(order[i]))
                    terms.append((self.places[order[i], order[k]], int(order[k])))
        reads = [place for place, _ in terms]
        sums, laid = segments_of(rows, dict.fromkeys(rows), BETWEEN_WIDTH, reads)
        fields = np.array([*(terms[k] for k in laid), (0, size)])[sums.item]
        pairs = (fields[0::2], fields[1::2])
        words = packed(*(pair[..., k] for pair in pairs for k in range(2)))
        return sums._replace(item=by_warp(words))

    def substitution(self) -> tuple[list[Item], list[Item]]:
        """x_i -= a_ik x_k / a_kk forward to the tail, and back from it."""
        first, order = self.first_of_tail, self.order
        found = []
        for side in (self.left, self.right):
            found.append(
                [
                    (int(order[i]), self.places[order[i], order[k]], int(order[k]), 0)
                    for i in range(first)
                    for k in side[i]
                    if k < first
                ]
            )
        return found[0], found[1]
