"""Lists of the places where programs are, and their updates after a change.

A change of a site matters to a list only through the molecules of its part: bonds lead from the
site back to the roots that may have gained or lost a place. No path from such a root to the first
changed molecule on it has a bond that changed, so paths in the new graph find all of them.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import noinline_cpu
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.rules.graph import match, place_of


def _has_earlier(p, v, n, w, state):
    """Whether a variant before this one, with the same centre, is at the root."""
    width = np.int64(state.sizes[at(p)])
    for u in range(state.variant_starts[at(p)], v):
        if not match(u, n, width, w, state):
            continue
        same = True
        for k in range(state.key_counts[at(p)]):
            same = same and place_of(u, k, width, w, state) == place_of(v, k, 0, w, state)
        if same:
            return True
    return False


@noinline_cpu
def renew(p, n, w, state):
    """Compare the list with what is at a root now."""
    start = state.variant_starts[at(p)]
    count = state.variant_starts[at(p + 1)] - start
    base = state.entry_starts[at(p)]
    local = n - state.bases[at(state.roots[at(p)])]
    for k in range(count):
        v = start + k
        here = match(v, n, 0, w, state)
        if here and state.ambiguous[at(p)] != 0 and k > 0:
            here = not _has_earlier(p, v, n, w, state)
        entry = local * count + k
        position = state.positions[w, at(base + entry)]
        if here and position < 0:
            last = state.counts[w, at(p)]
            state.entries[w, at(base + last)] = entry
            state.positions[w, at(base + entry)] = last
            state.counts[w, at(p)] = last + 1
        elif not here and position >= 0:
            _drop(p, base, entry, position, w, state)


def _drop(p, base, entry, position, w, state):
    """Take an entry out of a list; the last one moves to its place."""
    last = state.counts[w, at(p)] - 1
    state.counts[w, at(p)] = last
    moved = state.entries[w, at(base + last)]
    state.entries[w, at(base + position)] = moved
    state.positions[w, at(base + moved)] = position
    state.positions[w, at(base + entry)] = -1


@noinline_cpu
def leave(n, w, state):
    """Take a molecule out of all lists."""
    kind = np.int64(state.kinds[at(n)])
    for r in range(state.rooted_starts[at(kind)], state.rooted_starts[at(kind + 1)]):
        p = np.int64(state.rooted[at(r)])
        count = np.int64(state.variant_starts[at(p + 1)] - state.variant_starts[at(p)])
        base = state.entry_starts[at(p)]
        for k in range(count):
            entry = (n - state.bases[at(kind)]) * count + k
            position = state.positions[w, at(base + entry)]
            if position >= 0:
                _drop(p, base, entry, position, w, state)


@noinline_cpu
def enter(n, w, state):
    """Put a molecule into all lists in which it has places."""
    kind = np.int64(state.kinds[at(n)])
    for r in range(state.rooted_starts[at(kind)], state.rooted_starts[at(kind + 1)]):
        renew(np.int64(state.rooted[at(r)]), n, w, state)


def _root_of(path, n, w, state):
    """The molecule at the end of a path; -1 if it is broken."""
    width = state.width
    for k in range(state.path_starts[at(path)], state.path_starts[at(path + 1)]):
        there = np.int64(state.bonds[w, at(n * width + state.path_steps[at(k), 0])])
        if there < 0:
            return np.int64(-1)
        n = there // width
        if there - n * width != state.path_steps[at(k), 1]:
            return np.int64(-1)
        if state.kinds[at(n)] != state.path_steps[at(k), 2]:
            return np.int64(-1)
    return n


@noinline_cpu
def renew_touched(w, state):
    """Bring all lists up to date with the places that have changed."""
    width = state.width
    for k in range(state.touched_count[w, 0]):
        touched = np.int64(state.touched[w, at(k)])
        place = touched >> 1
        n = place // width
        if state.alive[w, at(n)] == 0:
            continue
        site = np.int64(state.kinds[at(n)]) * width + place - n * width
        row = 2 * site + (touched & 1)
        for d in range(state.dependent_starts[at(row)], state.dependent_starts[at(row + 1)]):
            root = _root_of(np.int64(state.dependent[at(d), 1]), n, w, state)
            if root >= 0:
                renew(np.int64(state.dependent[at(d), 0]), root, w, state)
