"""Push changes of infectivity to the neighbours on a CUDA device.

The lanes of a warp share the arcs out of each node whose infectivity changed, and update the
forces of infection on the nodes at their ends.  There are two arrays: one step writes one of them,
and the next step reads it.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import cuda, unroll
from ergode.core.group import EVERY_LANE
from ergode.epidemics.leap.gather import is_in
from ergode.epidemics.leap.options import (
    LAYERS,
    SKIPS,
    SOURCE_INFECTION,
    SOURCE_MASK,
)
from ergode.epidemics.leap.step import contribution, layer_of
from ergode.epidemics.shared.arcs import end_arc, first_arc, is_loop, target_of


def push_seed(node, compartment, outgoing, rules, padded_count, deltas):
    """Add a seed to the forces of infection on its neighbours."""
    for source in unroll(range(len(SOURCE_MASK))):
        if is_in(SOURCE_MASK[source], compartment):
            for arc in range(first_arc(outgoing, node), end_arc(outgoing, node)):
                other = target_of(outgoing, node, arc)
                if is_loop(node, other):
                    continue
                channel = SOURCE_INFECTION[source] * LAYERS + layer_of(outgoing, arc)
                cuda.atomic.add(
                    deltas,
                    channel * padded_count + np.int64(other),
                    contribution(rules.rate[source], outgoing.weights, arc),
                )


def push_all(
    lane, first_node, turned, word, new_word, outgoing, rules, padded_count, delta_there, deltas,
    touched, flags,
):  # fmt: skip
    """Update the forces of infection on the neighbours of the nodes of a warp that moved."""
    left = np.uint32(cuda.ballot_sync(EVERY_LANE, turned != np.uint32(0)))
    while left != np.uint32(0):
        owner = np.int32(cuda.ffs(left) - 1)
        left = np.uint32(left & np.uint32(left - np.uint32(1)))
        nodes = np.uint32(cuda.shfl_sync(EVERY_LANE, np.int32(turned), owner))
        old = np.uint32(cuda.shfl_sync(EVERY_LANE, np.int32(word), owner))
        new = np.uint32(cuda.shfl_sync(EVERY_LANE, np.int32(new_word), owner))
        while nodes != np.uint32(0):
            j = np.int32(cuda.ffs(nodes) - 1)
            nodes = np.uint32(nodes & np.uint32(nodes - np.uint32(1)))
            node = np.uint32(first_node + owner - lane + 32 * j)
            before = np.uint32(np.uint32(old >> np.uint32(8 * j)) & np.uint32(31))
            after = np.uint32(np.uint32(new >> np.uint32(8 * j)) & np.uint32(31))
            begin, end = first_arc(outgoing, node) + lane, end_arc(outgoing, node)
            for source in unroll(range(len(SOURCE_MASK))):
                sign = np.int32(is_in(SOURCE_MASK[source], after)) - np.int32(
                    is_in(SOURCE_MASK[source], before)
                )
                if sign != 0:
                    for arc in range(begin, end, 32):
                        e = np.uint64(arc)
                        other = np.int64(target_of(outgoing, node, e))
                        if is_loop(node, other):
                            continue
                        channel = SOURCE_INFECTION[source] * LAYERS + layer_of(outgoing, e)
                        into = np.int64(delta_there) + channel * np.int64(padded_count)
                        amount = contribution(rules.rate[source], outgoing.weights, e)
                        cuda.atomic.add(deltas, into + other, np.int32(sign * amount))
                        if SKIPS:
                            touched[np.uint32(flags + np.uint32(other >> 7))] = np.int32(1)
