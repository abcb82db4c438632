"""The direct method on tables: propensities in blocks, a search over blocks and then in one block.

The search in levels is that of M. Komarov, R. D'Souza, PLoS ONE 7 e46693 (2012).  The sum of a
block that changed is recomputed from its propensities, because incremental corrections drift.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.kernel.next_firing import find
from ergode.stochastic.kernel.realization import propensity
from ergode.stochastic.tables import Tables

BLOCK_LEAST = 8


class MethodState(NamedTuple):
    """State of the method; one row per worker."""

    a: Any  # [worker, reaction] propensities
    sums: Any  # [worker, block]
    dirty: Any  # [worker, block] whether the sum is outdated
    listed: Any  # [worker, block] list of outdated blocks
    negative: Any  # [worker, 1] number of negative propensities
    width: Any  # [1] reactions per block


def _add_up(block, w, state):
    """Recompute the sum of a block and mark it as valid."""
    width = state.width[0]
    first = block * width
    total = real(0.0)
    for j in range(first, min(first + width, state.a.shape[1])):
        total += state.a[w, j]
    state.sums[w, block] = total
    state.dirty[w, block] = 0


def add_up_all(w, state):
    """Recompute the sums of all blocks."""
    for block in range(state.sums.shape[1]):
        _add_up(block, w, state)


def mark(block, count, w, state):
    """Add a block to the list of `count` outdated blocks; return the length of the list."""
    if state.dirty[w, block] == 0:
        state.dirty[w, block] = 1
        state.listed[w, count] = block
        count += 1
    return count


def add_up_marked(count, w, state):
    """Recompute the sums of the listed blocks."""
    for k in range(count):
        _add_up(state.listed[w, k], w, state)


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Compute all propensities and all sums."""
    negative = 0
    for j in range(state.a.shape[1]):
        a = propensity(j, w, t, point, net, work)
        negative += 1 if a < 0.0 else 0
        state.a[w, j] = a
    state.negative[w, 0] = negative
    add_up_all(w, state)


def update(j, w, t, point, plan, replicate, net, work, state):
    """Update the propensities that depend on changed variables, and the sums of their blocks."""
    width = state.width[0]
    count = 0
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        for place in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            r = net.affected[place]
            a = propensity(r, w, t, point, net, work)
            before = state.a[w, r]
            state.negative[w, 0] += (1 if a < 0.0 else 0) - (1 if before < 0.0 else 0)
            state.a[w, r] = a
            count = mark(r // width, count, w, state)
    add_up_marked(count, w, state)
    return True


def choose(target, w, point, state):
    """Reaction whose interval of the cumulative sum contains `target`."""
    block, target = find(target, state.sums, w, 0, state.sums.shape[1])
    if block < 0:
        return -1
    width = state.width[0]
    first = block * width
    chosen, target = find(target, state.a, w, first, min(first + width, state.a.shape[1]))
    return chosen


def sum_of_blocks(w, state):
    """Total over all blocks."""
    total = real(0.0)
    for block in range(state.sums.shape[1]):
        total += state.sums[w, block]
    return total


def total_of(w, state):
    """Total propensity; negative if any propensity is negative."""
    total = sum_of_blocks(w, state)
    return real(-1.0) if state.negative[w, 0] > 0 else total


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    reaction_count = tables.reaction_count
    width = block_width(reaction_count)
    blocks = -(-reaction_count // width)
    return {
        "a": (reaction_count, np.float64),
        "sums": (blocks, np.float64),
        "dirty": (blocks, np.int8),
        "listed": (blocks, np.int32),
        "negative": (1, np.int32),
    }


def block_width(reaction_count: int) -> int:
    """Reactions per block: about as many as there are blocks."""
    return max(BLOCK_LEAST, int(np.sqrt(reaction_count)))


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share."""
    return {"width": np.array([block_width(tables.reaction_count)], np.int32)}


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    total_of=total_of, choose=choose,
)  # fmt: skip
