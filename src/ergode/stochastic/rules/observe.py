"""What is counted: matches of the patterns of observables, of molecules and of complexes."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import noinline_cpu
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.rules.graph import match, spread


def _at_root(c, n, size, w, state):
    """In how many ways a counted pattern is at a root; a second part is anywhere in the queue."""
    p, second = np.int64(state.counted[at(c), 0]), np.int64(state.counted[at(c), 1])
    before = np.int64(state.sizes[at(p)])
    count = np.int64(0)
    for v in range(state.variant_starts[at(p)], state.variant_starts[at(p + 1)]):
        if not match(v, n, 0, w, state):
            continue
        if second < 0:
            count += 1
            continue
        for k in range(size):
            m = np.int64(state.queue[w, at(k)])
            if state.kinds[at(m)] != state.roots[at(second)]:
                continue
            for u in range(state.variant_starts[at(second)], state.variant_starts[at(second + 1)]):
                if match(u, m, before, w, state):
                    apart = True
                    for a in range(before):
                        for b in range(state.sizes[at(second)]):
                            apart = apart and (
                                state.found[w, at(a)] != state.found[w, at(before + b)]
                            )
                    count += 1 if apart else 0
    return count * state.counted[at(c), 2]


def _is_met(count, comparison, bound):
    if comparison == 0:
        return count == bound
    if comparison == 1:
        return count <= bound
    if comparison == 2:
        return count >= bound
    return count < bound if comparison == 3 else count > bound


@noinline_cpu
def number_of(o, root, size, w, state):
    """How much of an observable there is in the queue; with its first molecule at a root, if any.

    A root of -1 is none.
    """
    number = np.int64(0)
    for c in range(state.counted_starts[at(o)], state.counted_starts[at(o + 1)]):
        kind = state.roots[at(state.counted[at(c), 0])]
        count = np.int64(0)
        for k in range(size if root < 0 else 1):
            n = np.int64(state.queue[w, at(k)]) if root < 0 else root
            if state.kinds[at(n)] == kind:
                count += _at_root(c, n, size, w, state)
        comparison = state.counted[at(c), 3]
        if comparison >= 0:
            count = np.int64(1 if _is_met(count, comparison, state.counted[at(c), 4]) else 0)
        number += min(count, np.int64(1)) if state.observables[at(o), 2] != 0 else count
    return number


@noinline_cpu
def observe(w, work, state):
    """Count all observables that are not kept up to date."""
    in_complexes = False
    for o in range(state.observables.shape[0]):
        if state.observables[at(o), 0] != 0:
            continue
        work.x[w, at(o)] = 0.0
        if state.observables[at(o), 1] != 0:
            in_complexes = True
            continue
        total = np.int64(0)
        for c in range(state.counted_starts[at(o)], state.counted_starts[at(o + 1)]):
            kind = state.roots[at(state.counted[at(c), 0])]
            base = state.bases[at(kind)]
            for n in range(base, base + state.used[w, at(kind)]):
                if state.alive[w, at(n)] != 0:
                    total += _at_root(c, n, 0, w, state)
        work.x[w, at(o)] = np.float64(total)
    if in_complexes:
        before = state.searches[w, 0]
        for kind in range(state.rooms.size):
            base = state.bases[at(kind)]
            for n in range(base, base + state.used[w, at(kind)]):
                if state.alive[w, at(n)] != 0 and state.marks[w, at(n)] <= before:
                    size = spread(n, w, state)
                    for o in range(state.observables.shape[0]):
                        if state.observables[at(o), 1] != 0:
                            number = number_of(o, np.int64(-1), size, w, state)
                            work.x[w, at(o)] += np.float64(number)
