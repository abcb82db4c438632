"""Gather forces of infection on a CUDA device: lanes read rows, warps read the rows of hubs.

A lane reads the rows of its susceptible nodes, four arcs at a time.  It looks up one bit for each
arc: whether the source is infectious.  The bits are in shared memory where they fit (on an H200 up
to 1.6 million nodes), which doubles the speed.  Rows of hubs are cut into segments, and the lanes
of all warps sum the segments first.  (The alternative, a warp that reads the rows of 32 nodes
together and counts ballots, was never faster, neither on random nor on scale-free networks.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import cuda, unroll
from ergode.core.group import sum_of_lanes
from ergode.core.math.search import first_from
from ergode.epidemics.leap.options import (
    ARCS_AT_ONCE,
    CUTS_HUBS,
    KEEPING_MASK,
    LOCAL_BITS,
    PUSHES,
    SOURCE_INFECTION,
    SOURCE_MASK,
    SUSCEPTIBLE,
    SUSCEPTIBLE_MASK,
)
from ergode.epidemics.leap.step import contribution
from ergode.epidemics.shared.arcs import (
    end_arc,
    first_arc,
    is_loop,
    target_in_row,
    target_of,
)
from ergode.epidemics.shared.options import COMPUTED, WEIGHTED

HUB = 64  # arcs into a hub are more than this
SEGMENT = 512  # arcs


class Hubs(NamedTuple):
    """Rows that are cut into segments."""

    node: Any  # ascending, int32 [hub_count]
    segment_hub: Any  # int32 [segment_count]
    segment_begin: Any  # first arc, int64 [segment_count]
    segment_end: Any
    pressure: Any  # int32 [row x hub_count]


def is_in(mask, compartment):
    """Whether a compartment is one of a set."""
    return (np.uint32(np.uint32(mask) >> np.uint32(compartment)) & np.uint32(1)) != np.uint32(0)


def _bit(bits_here, at, node, planes, local_bits):
    """Whether a node is in the source whose bits begin at `at`."""
    k = np.uint32(np.uint32(at) + np.uint32(np.uint32(node) >> np.uint32(5)))
    word = local_bits[k] if LOCAL_BITS else planes[np.uint32(bits_here + k)]
    return np.uint32(word >> np.uint32(np.uint32(node) & np.uint32(31))) & np.uint32(1)


def copy_bits(thread, stride, bits_here, size, planes, local_bits):
    """Copy the bits into shared memory, eight words per thread at a time."""
    last = np.int32(size - 1)
    for k in range(thread, size, 8 * stride):
        read = tuple(
            planes[np.uint32(bits_here + np.uint32(min(np.int32(k + j * stride), last)))]
            for j in range(8)
        )
        for j in unroll(range(8)):
            local_bits[np.uint32(min(np.int32(k + j * stride), last))] = read[j]


def gather_one(bits_here, plane, infection, node, incoming, rules, planes):
    """Force of infection on a node by one infection, summed by one thread."""
    total = np.int32(0)
    for source in unroll(range(len(SOURCE_MASK))):
        if SOURCE_INFECTION[source] == infection:
            for arc in range(first_arc(incoming, node), end_arc(incoming, node)):
                other = np.uint32(target_of(incoming, node, arc))
                if is_loop(node, other):
                    continue
                k = np.uint32(bits_here + source * plane + np.uint32(other >> np.uint32(5)))
                if np.uint32(planes[k] >> np.uint32(other & np.uint32(31))) & np.uint32(1):
                    total += contribution(rules.rate[source], incoming.weights, arc)
    return total


def _asks(source, compartment):
    """Whether a node in a compartment needs the force of infection from a source."""
    if len(SUSCEPTIBLE) == 1:
        return is_in(KEEPING_MASK if PUSHES else SUSCEPTIBLE_MASK, compartment)
    return compartment == np.uint32(SUSCEPTIBLE[SOURCE_INFECTION[source]])


def gather_tile(four, mine, step, sizes, nodes, shared, tables, hubs):
    """Forces of infection on a lane's nodes, into `shared.gathered`; zero if not susceptible."""
    incoming, rules, node_count = tables.incoming, tables.rules, sizes.node_count
    for j in range(4):
        node = np.int32(four.first_node + 32 * j)
        compartment = np.uint32(np.uint32(four.word >> np.uint32(8 * j)) & np.uint32(31))
        begin = first_arc(incoming, np.uint32(min(node, node_count)))
        end = first_arc(incoming, np.uint32(min(node + 1, node_count)))
        total = np.int32(0)
        is_hub = False
        if CUTS_HUBS:
            is_hub = end - begin > HUB
            if is_hub:
                hub = first_from(hubs.node, np.int64(0), np.int64(hubs.node.size), node)
                at = np.uint64(nodes.row * hubs.node.size + hub)
                total = hubs.pressure[at]
                hubs.pressure[at] = np.int32(0)
        for source in unroll(range(len(SOURCE_MASK))):
            if _asks(source, compartment) and not is_hub:
                total = np.int32(
                    total
                    + _gather_row(
                        step.bits_here, np.uint32(source * sizes.plane), node, begin, end,
                        rules.rate[source], incoming, nodes.bits, shared.local_bits,
                    )
                )  # fmt: skip
        shared.gathered[np.uint32(mine + np.uint32(32 * j))] = total


def _gather_row(bits_here, at, node, begin, end, rate, incoming, planes, local_bits):
    """Force of infection along a row, read by one thread; reads of several arcs overlap."""
    total = np.int32(0)
    count = np.int32(end - begin)
    row = incoming.targets if COMPUTED else incoming.targets[begin:]
    weights = incoming.weights if COMPUTED or not WEIGHTED else incoming.weights[begin:]
    for k in range(0, count, ARCS_AT_ONCE):
        others = tuple(
            target_in_row(row, node, min(np.int32(k + j), count - 1)) for j in range(ARCS_AT_ONCE)
        )
        hit = tuple(_bit(bits_here, at, others[j], planes, local_bits) for j in range(ARCS_AT_ONCE))
        for j in unroll(range(ARCS_AT_ONCE)):
            counts = k + j < count and not is_loop(node, others[j])
            if WEIGHTED:
                if hit[j] != np.uint32(0) and counts:
                    total = np.int32(total + contribution(rate, weights, np.uint32(k + j)))
            else:
                total = np.int32(total + (np.int32(hit[j]) if counts else 0))
    return total if WEIGHTED else np.int32(total * contribution(rate, weights, 0))


def gather_hubs(step, threads, sizes, nodes, shared, tables, hubs):
    """Forces of infection on hubs: every warp of a thread group sums segments of their rows."""
    incoming, rules = tables.incoming, tables.rules
    for segment in range(threads.first_tile, hubs.segment_hub.size, threads.tile_step):
        hub = np.int64(hubs.segment_hub[segment])
        node = np.int64(hubs.node[hub])
        word = nodes.state[np.uint32((node >> 7) * 32 + (node & 31))]
        compartment = np.uint32(np.uint32(word >> np.uint32(8 * ((node >> 5) & 3))) & np.uint32(31))
        total = np.int32(0)
        for source in unroll(range(len(SOURCE_MASK))):
            if _asks(source, compartment):
                at = np.uint32(source * sizes.plane)
                begin = hubs.segment_begin[segment] + threads.lane
                for arc in range(begin, hubs.segment_end[segment], 32):
                    e = np.uint64(arc)
                    other = target_of(incoming, node, e)
                    if is_loop(node, other):
                        continue
                    if _bit(step.bits_here, at, other, nodes.bits, shared.local_bits):
                        total += contribution(rules.rate[source], incoming.weights, e)
        total = sum_of_lanes(np.int32(total), 32)
        if threads.lane == 0 and total != 0:
            cuda.atomic.add(hubs.pressure, nodes.row * hubs.node.size + hub, np.int32(total))
