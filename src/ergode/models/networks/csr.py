"""Compressed sparse rows from a list of edges, by a counting sort in two steps.

First, edges are dealt into buckets of neighbouring rows, so that the writes of a bucket stay in
cache.  Second, each bucket is counted, filled and sorted, and duplicates are merged.  Both steps
keep the order of the input.  Hence the result does not depend on the number of threads, and both
arcs of an undirected edge add duplicate weights in equal order, with equal rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core import devices, kernels

_ROW_BITS_LEAST = 10
_ROW_BITS_MOST = 16  # a row within its bucket is a uint16
_BUCKETS_WANTED = 1024
_EDGES_PER_PIECE = 1 << 18
_FEW = 1 << 13  # up to this many edges are sorted by NumPy: compiling kernels takes a second
_RUN = 24  # rows up to this length are sorted by insertion


class Arcs(NamedTuple):
    """Arcs in the order of their buckets: row within the bucket, target, and weight if any."""

    row: Any
    target: Any
    weight: Any


Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""Offsets, targets and weights of compressed rows."""


def index_dtype(largest: int) -> type[np.signedinteger]:
    """The narrower of int32 and int64 that holds `largest`."""
    return np.int32 if largest < 2**31 else np.int64


def build_rows(
    # [edge_count]: node ids below `node_count`. Self-loops are dropped.
    source: np.ndarray,
    target: np.ndarray,
    node_count: int,  # number of rows
    *,
    directed: bool,  # whether an edge makes one arc, or one each way
    # float32 [edge_count]: weights of edges; weights of duplicate arcs are added. Without weights,
    # duplicates merge.
    weights: np.ndarray | None = None,
) -> Rows:
    """Compressed rows, sorted by target, of a list of checked edges.

    Returns
    -------
    offsets : ndarray of int32 or int64, shape [node_count + 1]
    targets : ndarray of int32 or int64, shape [arc_count]
    weights : ndarray of float32, shape [arc_count], or None

    Examples
    --------
    >>> import numpy as np
    >>> from ergode.models.networks.csr import build_rows
    >>> offsets, targets, _ = build_rows(np.array([2, 0]), np.array([0, 1]), 3, directed=False)
    >>> offsets.tolist(), targets.tolist()
    ([0, 2, 3, 4], [1, 2, 0, 0])
    """
    cpu = devices.resolve("cpu")
    ids = index_dtype(node_count)
    source = np.ascontiguousarray(source, ids)
    target = np.ascontiguousarray(target, ids)
    if source.size <= _FEW and node_count < 2**31:
        return _rows_of_few(source, target, node_count, directed, weights)
    weighted = weights is not None
    edge_weights = np.ascontiguousarray(weights if weighted else np.empty(0), np.float32)
    row_bits = _ROW_BITS_LEAST
    while row_bits < _ROW_BITS_MOST and node_count >> row_bits > _BUCKETS_WANTED:
        row_bits += 1
    bucket_count = ((node_count - 1) >> row_bits) + 1

    piece_count = max(1, -(-source.size // _EDGES_PER_PIECE))
    tally = np.zeros((piece_count, bucket_count), np.int64)
    edges = (source, target, not directed, _EDGES_PER_PIECE, row_bits)
    cpu.run(_COUNT_BUCKETS, piece_count, *edges, tally)
    bucket_starts, cursors = _starts(tally)
    arc_count = int(bucket_starts[-1])

    rows = np.empty(arc_count, np.uint16)
    ends = np.empty(arc_count, ids)
    end_weights = np.empty(arc_count if weighted else 0, np.float32)
    dealt = Arcs(rows, ends, end_weights)
    cpu.run(_DEAL, piece_count, *edges, edge_weights, weighted, cursors, dealt)

    offsets = np.empty(node_count + 1, np.int64)
    offsets[-1] = arc_count
    kept = np.zeros(node_count, np.int64)
    targets = np.empty(arc_count, ids)
    arc_weights = np.empty(arc_count if weighted else 0, np.float32)
    grain = max(1, bucket_count // 256)
    sorted_rows = (offsets, kept, targets, arc_weights)
    cpu.run(
        _FILL, bucket_count, bucket_starts, row_bits, weighted, dealt, *sorted_rows, grain=grain
    )
    del rows, ends, end_weights, dealt

    kept_total = int(kept.sum())
    if kept_total < arc_count:
        shorter = np.zeros(node_count + 1, np.int64)
        np.cumsum(kept, out=shorter[1:])
        short_targets = np.empty(kept_total, ids)
        short_weights = np.empty(kept_total if weighted else 0, np.float32)
        long, short = (offsets, targets, arc_weights), (shorter, short_targets, short_weights)
        cpu.run(_COMPACT, node_count, *long, weighted, *short)
        offsets, targets, arc_weights = short
    offsets = offsets.astype(index_dtype(targets.size), copy=False)
    return offsets, targets, arc_weights if weighted else None


def _rows_of_few(
    source: np.ndarray, target: np.ndarray, node_count: int, directed: bool,
    weights: np.ndarray | None,
) -> Rows:  # fmt: skip
    """What `build_rows` returns, by a sort of NumPy that keeps the order of the input."""
    proper = source != target
    rows, targets = source[proper], target[proper]
    share = None if weights is None else np.asarray(weights, np.float32)[proper]
    if not directed:
        rows, targets = np.stack([(rows, targets), (targets, rows)], axis=-1).reshape(2, -1)
        share = None if share is None else np.repeat(share, 2)
    key = rows.astype(np.int64) * node_count + targets
    order = np.argsort(key, kind="stable")
    key = key[order]
    is_first = np.ones(key.size, bool)
    is_first[1:] = key[1:] != key[:-1]
    kept = order[is_first]
    offsets = np.zeros(node_count + 1, index_dtype(kept.size))
    np.cumsum(np.bincount(rows[kept], minlength=node_count), out=offsets[1:])
    if share is None:
        return offsets, targets[kept], None
    total = np.zeros(kept.size, np.float32)
    np.add.at(total, np.cumsum(is_first) - 1, share[order])
    return offsets, targets[kept], total


def sort_rows(offsets: np.ndarray, targets: np.ndarray) -> None:
    """Sort the targets of every row in place.

    Parameters
    ----------
    offsets : ndarray of int64, shape [node_count + 1]
    targets : ndarray of int32 or int64, shape [arc_count]
    """
    spare = np.empty_like(targets)
    no_weights = np.empty(0, np.float32)
    devices.resolve("cpu").run(_SORT, offsets.size - 1, offsets, targets, spare, no_weights)


def deal(values: np.ndarray, keys: np.ndarray, key_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Group values by key, keeping their order.

    Parameters
    ----------
    values : ndarray of int32 or int64, shape [count]
        Values to group.
    keys : ndarray of int32 or int64, shape [count]
        Group of each value, below `key_count`.
    key_count : int
        Number of groups; a few thousand at most are fast.

    Returns
    -------
    starts : ndarray of int64, shape [key_count + 1]
        Where each group starts.
    grouped : ndarray, shape [count]
        The values, group after group.
    """
    cpu = devices.resolve("cpu")
    piece_count = max(1, -(-values.size // _EDGES_PER_PIECE))
    tally = np.zeros((piece_count, key_count), np.int64)
    cpu.run(_COUNT_KEYS, piece_count, keys, _EDGES_PER_PIECE, tally)
    starts, cursors = _starts(tally)
    grouped = np.empty_like(values)
    cpu.run(_DEAL_KEYS, piece_count, keys, values, _EDGES_PER_PIECE, cursors, grouped)
    return starts, grouped


def _starts(tally: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start of each bucket, and of each piece of the input within each bucket."""
    ends = np.cumsum(tally.T.ravel()).reshape(tally.shape[::-1])
    starts = np.zeros(tally.shape[1] + 1, np.int64)
    starts[1:] = ends[:, -1]
    return starts, np.ascontiguousarray(ends.T - tally)


def _count_buckets(start, stop, source, target, mirrored, piece_size, row_bits, tally):
    for piece in range(start, stop):
        for edge in range(piece * piece_size, min((piece + 1) * piece_size, source.size)):
            a = source[edge]
            b = target[edge]
            if a != b:
                tally[piece, a >> row_bits] += 1
                if mirrored:
                    tally[piece, b >> row_bits] += 1


def _deal(
    start, stop, source, target, mirrored, piece_size, row_bits, weights, weighted, cursors, arcs
):  # fmt: skip
    mask = (1 << row_bits) - 1
    for piece in range(start, stop):
        for edge in range(piece * piece_size, min((piece + 1) * piece_size, source.size)):
            a = source[edge]
            b = target[edge]
            if a != b:
                place = cursors[piece, a >> row_bits]
                cursors[piece, a >> row_bits] = place + 1
                arcs.row[place] = a & mask
                arcs.target[place] = b
                if weighted:
                    arcs.weight[place] = weights[edge]
                if mirrored:
                    place = cursors[piece, b >> row_bits]
                    cursors[piece, b >> row_bits] = place + 1
                    arcs.row[place] = b & mask
                    arcs.target[place] = a
                    if weighted:
                        arcs.weight[place] = weights[edge]


def _fill(
    start, stop, bucket_starts, row_bits, weighted, arcs, offsets, kept, targets, weights
):  # fmt: skip
    for bucket in range(start, stop):
        first = bucket << row_bits
        last = min((bucket + 1) << row_bits, kept.size)
        for arc in range(bucket_starts[bucket], bucket_starts[bucket + 1]):
            kept[first + arcs.row[arc]] += 1
        place = bucket_starts[bucket]
        for row in range(first, last):
            offsets[row] = place
            place += kept[row]
            kept[row] = offsets[row]
        for arc in range(bucket_starts[bucket], bucket_starts[bucket + 1]):
            row = first + arcs.row[arc]
            place = kept[row]
            kept[row] = place + 1
            targets[place] = arcs.target[arc]
            if weighted:
                weights[place] = arcs.weight[arc]
        for row in range(first, last):
            # The dealt arcs of this bucket are no longer needed; their memory serves the merges.
            begin, end = offsets[row], kept[row]
            sort_row(targets, weights, arcs.target, arcs.weight, begin, end, weighted)
            kept[row] = _merge_duplicates(targets, weights, begin, end, weighted)


def sort_row(ids, weights, spare_ids, spare_weights, begin, end, weighted):
    """Device function: sort ``ids[begin:end]``, weights alongside, keeping the order of equals."""
    for low in range(begin, end, _RUN):
        for i in range(low + 1, min(low + _RUN, end)):
            value = ids[i]
            weight = weights[i] if weighted else np.float32(0.0)
            j = i - 1
            while j >= low and ids[j] > value:
                ids[j + 1] = ids[j]
                if weighted:
                    weights[j + 1] = weights[j]
                j -= 1
            ids[j + 1] = value
            if weighted:
                weights[j + 1] = weight
    width = _RUN
    while width < end - begin:
        for low in range(begin, end, 2 * width):
            middle = min(low + width, end)
            high = min(low + 2 * width, end)
            left, right = low, middle
            for place in range(low, high):
                if left < middle and (right >= high or ids[left] <= ids[right]):
                    chosen = left
                    left += 1
                else:
                    chosen = right
                    right += 1
                spare_ids[place] = ids[chosen]
                if weighted:
                    spare_weights[place] = weights[chosen]
        for place in range(begin, end):
            ids[place] = spare_ids[place]
            if weighted:
                weights[place] = spare_weights[place]
        width *= 2


def _merge_duplicates(ids, weights, begin, end, weighted):
    """Number of distinct ids in a sorted row, which are moved to its front."""
    place = begin
    for i in range(begin, end):
        if place > begin and ids[place - 1] == ids[i]:
            if weighted:
                weights[place - 1] += weights[i]
        else:
            ids[place] = ids[i]
            if weighted:
                weights[place] = weights[i]
            place += 1
    return place - begin


def _compact(row, offsets, targets, weights, weighted, shorter, short_targets, short_weights):
    shift = offsets[row] - shorter[row]
    for place in range(shorter[row], shorter[row + 1]):
        short_targets[place] = targets[place + shift]
        if weighted:
            short_weights[place] = weights[place + shift]


def _sort(row, offsets, targets, spare, no_weights):
    sort_row(targets, no_weights, spare, no_weights, offsets[row], offsets[row + 1], False)


def _count_keys(start, stop, keys, piece_size, tally):
    for piece in range(start, stop):
        for i in range(piece * piece_size, min((piece + 1) * piece_size, keys.size)):
            tally[piece, keys[i]] += 1


def _deal_keys(start, stop, keys, values, piece_size, cursors, grouped):
    for piece in range(start, stop):
        for i in range(piece * piece_size, min((piece + 1) * piece_size, keys.size)):
            place = cursors[piece, keys[i]]
            cursors[piece, keys[i]] = place + 1
            grouped[place] = values[i]


_COUNT_BUCKETS = kernels.cpu_kernel(_count_buckets)
_DEAL = kernels.cpu_kernel(_deal)
_FILL = kernels.cpu_kernel(_fill)
_COMPACT = kernels.for_each(_compact)
_SORT = kernels.for_each(_sort)
_COUNT_KEYS = kernels.cpu_kernel(_count_keys)
_DEAL_KEYS = kernels.cpu_kernel(_deal_keys)
