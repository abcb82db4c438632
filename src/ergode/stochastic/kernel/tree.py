"""Trees: of sums, to choose a voxel or a place, and of minima, to find the earliest time.

What is chosen is a leaf, and a node is the sum or the minimum of its eight children. The levels
follow each other in one array; `levels` [level + 1] has the first node of each, from the leaves to
the top. A change of a leaf changes one node on each level, which is computed anew from its
children: no rounding error accumulates, and the tree depends on nothing but its leaves.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.outcomes import INFINITY

CHILDREN = 8


def levels_of(leaves: int) -> np.ndarray:
    """First node of each level. A level is filled up to a multiple of `CHILDREN` nodes."""
    starts, count = [0], leaves
    while True:
        starts.append(starts[-1] + -(-count // CHILDREN) * CHILDREN)
        if count <= CHILDREN:
            return np.array(starts, np.int64)
        count = -(-count // CHILDREN)


# ---- sums


def sum_above(node, level, w, levels, tree):
    """Sum a node's children."""
    first = levels[at(level - 1)] + CHILDREN * node
    total = real(0.0)
    for k in range(CHILDREN):
        total += tree[at(w), at(first + k)]
    tree[at(w), at(levels[at(level)] + node)] = total


def replant(u, v, w, levels, tree):
    """Sum the nodes above two leaves, which may be one."""
    for level in range(1, levels.size - 1):
        u //= CHILDREN
        v //= CHILDREN
        sum_above(u, level, w, levels, tree)
        if u != v:
            sum_above(v, level, w, levels, tree)


def sum_all(w, levels, tree):
    """Sum all nodes above the leaves."""
    for level in range(1, levels.size - 1):
        below = levels[level] - levels[level - 1]
        for node in range(below // CHILDREN):
            sum_above(node, level, w, levels, tree)


def total_of(w, levels, tree):
    """Sum of all leaves: of the nodes of the top level."""
    total = real(0.0)
    for node in range(levels[levels.size - 2], levels[levels.size - 1]):
        total += tree[at(w), at(node)]
    return total


def search(target, w, levels, tree):
    """The leaf in whose interval of the cumulative sum `target` is, and what remains of it."""
    node = np.int64(0)
    for up in range(levels.size - 1):
        first = levels[at(levels.size - 2 - up)] + CHILDREN * node
        found = np.int64(0)
        for k in range(CHILDREN):
            a = tree[at(w), at(first + k)]
            if a > 0.0:
                found = np.int64(k)
                if target < a:
                    break
            target -= a
        node = CHILDREN * node + found
    return node, target


# ---- minima


def set_leaf(v, time, w, levels, tree):
    """Set a leaf of a tree of minima, and the nodes above it that change."""
    tree[at(w), at(v)] = time
    node = v
    for level in range(1, levels.size - 1):
        node //= CHILDREN
        first = levels[at(level - 1)] + CHILDREN * node
        least = tree[at(w), at(first)]
        for k in range(1, CHILDREN):
            least = min(least, tree[at(w), at(first + k)])
        place = levels[at(level)] + node
        if tree[at(w), at(place)] == least:
            break
        tree[at(w), at(place)] = least


def earliest(w, levels, tree):
    """The first leaf that is the minimum, or -1 if it is infinite."""
    node = np.int64(0)
    for up in range(levels.size - 1):
        first = levels[at(levels.size - 2 - up)] + CHILDREN * node
        found, least = np.int64(0), tree[at(w), at(first)]
        for k in range(1, CHILDREN):
            time = tree[at(w), at(first + k)]
            if time < least:
                found, least = np.int64(k), time
        if not least < INFINITY:
            return np.int64(-1)
        node = CHILDREN * node + found
    return node
