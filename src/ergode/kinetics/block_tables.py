"""Tables for a block of threads that share one zone: who does what, and when all must wait.

Sums over rows are cut into segments of a few terms, one for a thread, and laid out so that
neighbouring threads read neighbouring memory: the first terms of all segments, then the second
terms, and so on, with the longest segments first.

The last variables to be eliminated, the *tail*, wait for one another one by one: what is left of
the matrix there is dense, and is inverted. The elimination of the others, and substitution, are
programs of *rounds*. In a round every thread does one multiply-subtract, an item of four 16-bit
indices; a thread keeps what it adds to, so that threads wait for one another only between levels,
not between rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from ergode.kinetics.elimination import Elimination, eliminate
from ergode.kinetics.lower import Mechanism
from ergode.kinetics.mechanism import SLOTS, Complexes, Flows
from ergode.kinetics.system import pattern_of

FLOW_WIDTH, SUM_WIDTH, SLOPE_WIDTH = 12, 8, 4
"""Terms of a segment: of gains and losses, of net changes, and of entries of the Jacobian."""
TAIL_MOST = 32
AHEAD = 4
"""Rounds that are read before they are needed."""
WARP = 32
_FIELD = 16
INDEXABLE = 1 << _FIELD
"""Indices of items are smaller than this."""


class Segments(NamedTuple):
    """Sums over rows for many threads.

    Attributes
    ----------
    layer : ndarray of int32, shape [layer_count + 1]
        Where the k-th terms of all segments begin.
    target : ndarray of int32, shape [segment_count]
        Row whose only segment this is; or -1 - place for one of several, summed up there.
    row : ndarray of int32, shape [long_row_count]
        Rows of several segments.
    start : ndarray of int32, shape [long_row_count + 1]
        Where the places of each begin; they follow one another.
    """

    layer: np.ndarray
    target: np.ndarray
    row: np.ndarray
    start: np.ndarray


class Program(NamedTuple):
    """Rounds of items.

    Attributes
    ----------
    item : ndarray of int64, shape [round_count + AHEAD, thread_count]
        Four indices each, the first in the lowest bits; the last rounds do nothing.
    level : ndarray of int32, shape [level_count + 1]
        Where the rounds of each level begin.
    """

    item: np.ndarray
    level: np.ndarray


class BlockSystem(NamedTuple):
    """A network for implicit methods on blocks.

    Attributes
    ----------
    complexes : Complexes
    sums : Segments
        Rates of change of species.
    complex : ndarray of int32, shape [entry_count]
        Complex of each entry, in the order of `sums`.
    source_start, source, weight : ndarray
        As in `Flows`, in that order.
    slopes : Segments
        Entries of the Jacobian.
    slope : ndarray of int64, shape [term_count]
        Entry, and the two amounts it is multiplied with, of each term of the Jacobian.
    pivots : ndarray of int32, shape [species_count]
        Variables by level of their elimination.
    pivot_level : ndarray of int32, shape [level_count + 1]
        Where each level's begin.
    pivot : ndarray of int32, shape [species_count]
        Where the pivot of each variable is.
    tail : ndarray of int32, shape [tail_count]
        Variables of the tail, whose matrix is the last `tail_count` squared entries by rows.
    gather, spread : Segments
        What the other variables take from those of the tail on the way forward, and those of the
        tail from the others on the way back: x_i -= sum of a_ik x_k / a_kk.
    gathered, scattered : ndarray of int64, shape [term_count + 1]
        Entry and variable k of each of their terms.
    factorization, forward, backward : Program
    entry_count : int
        Entries of the factors.
    """

    complexes: Complexes
    sums: Segments
    complex: np.ndarray
    source_start: np.ndarray
    source: np.ndarray
    weight: np.ndarray
    slopes: Segments
    slope: np.ndarray
    pivots: np.ndarray
    pivot_level: np.ndarray
    pivot: np.ndarray
    tail: np.ndarray
    gather: Segments
    gathered: np.ndarray
    spread: Segments
    scattered: np.ndarray
    factorization: Program
    forward: Program
    backward: Program
    entry_count: int


class BlockFlows(NamedTuple):
    """Gains and losses for explicit methods on blocks: rows are gains, then losses.

    Attributes
    ----------
    sums : Segments
    complex : ndarray of int32, shape [entry_count + 1]
        Complex of each entry, in the order of `sums`.
    source_start, source, weight : ndarray
        As in `Flows`, in that order.
    """

    sums: Segments
    complex: np.ndarray
    source_start: np.ndarray
    source: np.ndarray
    weight: np.ndarray


def segments_of(rows: Sequence[int], count: int, width: int) -> tuple[Segments, np.ndarray]:
    """Segments of rows that terms belong to, and the order in which to lay the terms out.

    Parameters
    ----------
    rows : sequence of int, shape [term_count]
        Row of each term.
    count : int
        Number of rows; those without terms get an empty segment.
    width : int
        Terms of a segment at most. Where a segment has fewer, the term that follows the last of
        all stands in, which must be zero.
    """
    terms: list[list[int]] = [[] for _ in range(count)]
    for term, row in enumerate(rows):
        terms[row].append(term)
    pieces = []
    long_rows, start = [], [0]
    for row, members in enumerate(terms):
        cut = [members[k : k + width] for k in range(0, len(members), width)] or [[]]
        if len(cut) == 1:
            pieces.append((row, cut[0]))
        else:
            pieces += [(-1 - start[-1] - k, piece) for k, piece in enumerate(cut)]
            long_rows.append(row)
            start.append(start[-1] + len(cut))
    pieces.sort(key=lambda piece: -len(piece[1]))
    order, layer = [], [0]
    for k in range(width):
        order += [piece[k] for _, piece in pieces if len(piece) > k]
        layer.append(len(order))
    return (
        Segments(
            np.array(layer, np.int32),
            np.array([target for target, _ in pieces], np.int32),
            np.array(long_rows, np.int32),
            np.array(start, np.int32),
        ),
        np.array(order, np.int64),
    )


Item = tuple[int, int, int, int]


def program_of(levels: Sequence[Sequence[Item]], nothing: Item, threads: int) -> Program:
    """Spread the items of each level over threads; those with one target stay together."""
    rounds: list[list[Item]] = []
    begin = [0]
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
        for k in range(max(map(len, lanes))):
            rounds.append([lane[k] if len(lane) > k else nothing for lane in lanes])
        begin.append(len(rounds))
    rounds += [[nothing] * threads] * AHEAD
    fields = np.array(rounds, np.int64).reshape(len(rounds), threads, 4)
    packed = sum(fields[:, :, k] << (_FIELD * k) for k in range(4))
    return Program(np.asarray(packed, np.int64), np.array(begin, np.int32))


def block_system_of(mechanism: Mechanism, threads: int, depth_weight: float = 0.5) -> BlockSystem:
    """Tables for implicit methods.

    Parameters
    ----------
    mechanism : Mechanism
        Whose coefficients do not depend on amounts.
    threads : int
        Of a block.
    depth_weight : float
        As for `eliminate`.
    """
    structure = mechanism.structure
    count = structure.species_count
    pattern, terms = pattern_of(structure.complexes, structure.net_flows, count)
    plan = eliminate(pattern, 0.0 if count <= TAIL_MOST else depth_weight)
    elimination = _Blocked(plan)
    places = elimination.places
    sums, order = segments_of(_rows(structure.net_flows), count, SUM_WIDTH)
    entry_place = np.empty(order.size, np.int64)
    entry_place[order] = np.arange(order.size)
    complexes = np.array(structure.complexes)
    slope_rows, slope_items = [], []
    for pair, items in terms.items():
        for entry, number in items:
            s, slot = divmod(number, SLOTS)
            others = [int(complexes[other][s]) for other in range(SLOTS) if other != slot]
            slope_rows.append(places[pair])
            slope_items.append(
                int(entry_place[entry]) | others[0] << _FIELD | others[1] << 2 * _FIELD
            )
    # Rows that no term belongs to, filled in, are set to zero by their empty segments.
    slopes, slope_order = segments_of(slope_rows, elimination.entry_count, SLOPE_WIDTH)
    slope = np.array([*(slope_items[k] for k in slope_order), order.size], np.int64)
    pivots, pivot_level, factors = elimination.factorization()
    forward, backward = elimination.substitution()
    trash = elimination.entry_count
    nothing = (count, trash, 0, 0)
    return BlockSystem(
        structure.complexes,
        sums,
        *_sources(structure.net_flows, order),
        slopes,
        slope,
        pivots,
        pivot_level,
        np.array([places[i, i] for i in range(count)], np.int32),
        plan.order[elimination.first_of_tail :].astype(np.int32),
        *elimination.between(tail_is_target=True),
        *elimination.between(tail_is_target=False),
        program_of(factors, (trash, trash, trash, 0), threads),
        program_of(forward, nothing, WARP),
        program_of(backward, nothing, WARP),
        trash,
    )


def block_flows_of(flows: Flows) -> BlockFlows:
    """Tables for explicit methods, from flows whose rows are gains, then losses."""
    sums, order = segments_of(_rows(flows), flows.start.size - 1, FLOW_WIDTH)
    return BlockFlows(sums, *_sources(flows, order))


def _rows(flows: Flows) -> list[int]:
    start = flows.start.tolist()
    return [row for row in range(len(start) - 1) for _ in range(start[row], start[row + 1])]


def _sources(
    flows: Flows, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Complex and sources of entries in this order, and one more entry that is zero."""
    begin = flows.source_start.astype(np.int64)
    lengths = np.diff(begin)[order]
    start = np.concatenate([[0], np.cumsum(lengths)])
    which = [np.arange(begin[e], begin[e + 1]) for e in order]
    flat = np.concatenate([np.empty(0, np.int64), *which])
    return (
        np.append(flows.complex[order], 0).astype(np.int32),
        np.append(start, start[-1]).astype(np.uint32),
        flows.source[flat],
        flows.weight[flat],
    )


def _levels(count: int, waits: Callable[[int], Sequence[int]], order: Sequence[int]) -> list[int]:
    level = [0] * count
    for k in order:
        level[k] = 1 + max((level[j] for j in waits(k)), default=-1)
    return level


class _Blocked:
    """An elimination in two parts: sparse pivots by levels, and a dense tail."""

    tail_size = 24

    def __init__(self, plan: Elimination) -> None:
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
        # A small matrix is all tail; of a large one as much as has few levels before it.
        first = max(0, size - (TAIL_MOST if size <= TAIL_MOST else self.tail_size))
        self.first_of_tail = first
        self.places: dict[tuple[int, int], int] = {}
        for k, row in enumerate(rows):
            for j in row.tolist():
                if k < first or j < first:
                    self.places[self.order[k], self.order[j]] = len(self.places)
        for i in range(first, size):
            for j in range(first, size):
                self.places[self.order[i], self.order[j]] = len(self.places)
        self.entry_count = len(self.places)

    def factorization(self) -> tuple[np.ndarray, np.ndarray, list[list[Item]]]:
        """Variables by level, where levels begin, and a_ij -= a_ik a_kj / a_kk by level."""
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
        by_level = sorted(range(first), key=lambda k: self.level[k])
        starts = np.searchsorted([self.level[k] for k in by_level], np.arange(depth + 1))
        return order[by_level].astype(np.int32), starts.astype(np.int32), items

    def between(self, *, tail_is_target: bool) -> tuple[Segments, np.ndarray]:
        """Sums that lead from the others to the tail, or from the tail to the others."""
        size, first = len(self.order), self.first_of_tail
        targets = range(first, size) if tail_is_target else range(first)
        rows, terms = [], []
        for i in targets:
            for k in self.left[i] if tail_is_target else self.right[i]:
                if (k < first) == tail_is_target:
                    rows.append(int(self.order[i]))
                    entry = self.places[self.order[i], self.order[k]]
                    terms.append(entry | int(self.order[k]) << _FIELD)
        sums, order = segments_of(rows, size, SUM_WIDTH)
        kept = sums.target < size
        kept[sums.target >= 0] = np.isin(sums.target[sums.target >= 0], rows)
        # Rows without terms, whose segments come last, are left as they are.
        sums = sums._replace(target=sums.target[kept])
        return sums, np.array([*(terms[k] for k in order), self.entry_count], np.int64)

    def substitution(self) -> tuple[list[list[Item]], list[list[Item]]]:
        """x_i -= a_ik x_k / a_kk by level: forward to the tail, then back from it."""
        size, first = len(self.order), self.first_of_tail
        found = []
        for side, order in ((self.left, range(size)), (self.right, range(size - 1, -1, -1))):

            def waits(k: int, side: list[list[int]] = side) -> list[int]:
                return [j for j in side[k] if k < first and j < first]

            level = _levels(size, waits, order)
            items: list[list[Item]] = [[] for _ in range(max(level) + 1)]
            for i in range(size):
                for k in waits(i):
                    entry = self.places[self.order[i], self.order[k]]
                    items[level[k]].append((int(self.order[i]), entry, int(self.order[k]), 0))
            found.append([level_items for level_items in items if level_items])
        return found[0], found[1]
