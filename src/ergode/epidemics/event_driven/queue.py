"""A calendar queue of events.

A bucket is a span of time.  Events of the current bucket are in a heap; later events wait in
unsorted lists, one for each bucket.  Events are taken in the order of time; equal times are ordered
by kind, rank, node and arc, so that the order does not depend on the width of a bucket.

A queue belongs to one CPU thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import no_refcount, real
from ergode.epidemics.event_driven.state import PROGRESS

_NONE = -1
_NEXT, _HEAPED = 0, 1  # columns of `Queue.link`
# Places in `Queue.counter`.
HEAP, FREE, USED, BUCKET = 0, 1, 2, 3


class Queue(NamedTuple):
    """Events and their order; each event is kept in a slot."""

    time: Any  # real [slot]
    item: Any  # kind, rank and node; arc; stay and key: int64 [slot, 3]
    link: Any  # next slot of a bucket or of the free ones; slot at a place of the heap: int32
    heap_time: Any  # times of the heap, real [slot]
    bucket: Any  # first slot of each bucket, int32 [bucket_count]
    counter: Any  # int64 [4]


def new_queue(capacity, bucket_count):
    """An empty queue with room for `capacity` events."""
    queue = Queue(
        np.empty(capacity, real), np.empty((capacity, 3), np.int64),
        np.empty((capacity, 2), np.int32), np.empty(capacity, real),
        np.empty(bucket_count, np.int32), np.zeros(4, np.int64),
    )  # fmt: skip
    clear(queue)
    return queue


@no_refcount
def clear(queue):
    """Remove all events."""
    for at in range(queue.bucket.size):
        queue.bucket[at] = _NONE
    queue.counter[HEAP] = 0
    queue.counter[FREE] = _NONE
    queue.counter[USED] = 0
    queue.counter[BUCKET] = 0


def with_room(queue, wanted):
    """The queue, or a larger copy of it, with at least `wanted` free slots."""
    if has_room(queue, wanted):
        return queue
    used = queue.counter[USED]
    larger = new_queue(2 * queue.time.size + wanted, queue.bucket.size)
    _copy(queue, larger, used)
    return larger


@no_refcount
def _copy(queue, larger, used):
    """The same events in a larger queue."""
    # Loops: a copy of a slice compiles for seconds.
    for slot in range(used):
        larger.time[slot] = queue.time[slot]
        larger.heap_time[slot] = queue.heap_time[slot]
        for column in range(3):
            larger.item[slot, column] = queue.item[slot, column]
        for column in range(2):
            larger.link[slot, column] = queue.link[slot, column]
    for at in range(queue.bucket.size):
        larger.bucket[at] = queue.bucket[at]
    for at in range(queue.counter.size):
        larger.counter[at] = queue.counter[at]


def has_room(queue, wanted):
    """Whether at least `wanted` slots are free."""
    return queue.counter[USED] + wanted <= queue.time.size


def push(queue, per_time, time, kind, node, arc, stay, key, rank):
    """Add an event; a slot must be free.  `per_time` is the number of buckets per unit of time.

    Events of equal time and kind are ordered by `rank` (below 2^23).
    """
    slot = queue.counter[FREE]
    if slot == _NONE:
        slot = queue.counter[USED]
        queue.counter[USED] = slot + 1
    else:
        queue.counter[FREE] = queue.link[slot, _NEXT]
    queue.time[slot] = time
    queue.item[slot, 0] = np.int64(kind) << 56 | np.int64(rank) << 32 | np.int64(node)
    queue.item[slot, 1] = arc
    queue.item[slot, 2] = np.int64(stay) << 32 | np.int64(key)
    at = min(np.int64(time * per_time), queue.bucket.size - 1)
    if at <= queue.counter[BUCKET]:
        _sift_in(queue, time, slot)
    else:
        queue.link[slot, _NEXT] = queue.bucket[at]
        queue.bucket[at] = slot


def pop(queue):
    """Remove the earliest event; its slot stays readable until the next `push`.

    Returns the slot, or -1 if there is no event.
    """
    while queue.counter[HEAP] == 0:
        at = queue.counter[BUCKET] + 1
        while at < queue.bucket.size and queue.bucket[at] == _NONE:
            at += 1
        if at >= queue.bucket.size:
            return np.int64(_NONE)
        queue.counter[BUCKET] = at
        slot = np.int64(queue.bucket[at])
        queue.bucket[at] = _NONE
        while slot != _NONE:
            _sift_in(queue, queue.time[slot], slot)
            slot = np.int64(queue.link[slot, _NEXT])
    slot = np.int64(queue.link[0, _HEAPED])
    _sift_out(queue)
    queue.link[slot, _NEXT] = queue.counter[FREE]
    queue.counter[FREE] = slot
    return slot


def push_end(queue, run, node, stay, time):
    """Add the end of a stay of a node."""
    push(
        queue, run.per_time, time, np.int64(PROGRESS), node, np.int64(-1), stay, np.uint32(0),
        np.int64(0),
    )  # fmt: skip


def unpacked(queue, slot):
    """Kind, rank, node, arc, stay and key of an event."""
    first, last = queue.item[slot, 0], queue.item[slot, 2]
    return (
        first >> 56, (first >> 32) & 0xFFFFFF, first & 0xFFFFFFFF, queue.item[slot, 1],
        np.int32(last >> 32), np.uint32(last & 0xFFFFFFFF),
    )  # fmt: skip


def _first_of_equals(queue, one, other):
    """Whether `one` of two simultaneous events comes before the `other`."""
    for column in range(2):
        if queue.item[one, column] != queue.item[other, column]:
            return queue.item[one, column] < queue.item[other, column]
    return one < other


def _sift_in(queue, time, slot):
    """Add to the heap."""
    at = queue.counter[HEAP]
    queue.counter[HEAP] = at + 1
    while at > 0:
        above = (at - 1) >> 1
        other = queue.heap_time[above]
        if other < time or (
            other == time and _first_of_equals(queue, queue.link[above, _HEAPED], slot)
        ):
            break
        queue.heap_time[at] = other
        queue.link[at, _HEAPED] = queue.link[above, _HEAPED]
        at = above
    queue.heap_time[at] = time
    queue.link[at, _HEAPED] = slot


def _sift_out(queue):
    """Remove the first element of the heap."""
    count = queue.counter[HEAP] - 1
    queue.counter[HEAP] = count
    time = queue.heap_time[count]
    slot = queue.link[count, _HEAPED]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        first = queue.heap_time[below]
        if below + 1 < count:
            second = queue.heap_time[below + 1]
            if second < first or (
                second == first
                and _first_of_equals(
                    queue, queue.link[below + 1, _HEAPED], queue.link[below, _HEAPED]
                )
            ):
                below += 1
                first = second
        if time < first or (
            time == first and _first_of_equals(queue, slot, queue.link[below, _HEAPED])
        ):
            break
        queue.heap_time[at] = first
        queue.link[at, _HEAPED] = queue.link[below, _HEAPED]
        at = below
    queue.heap_time[at] = time
    queue.link[at, _HEAPED] = slot
