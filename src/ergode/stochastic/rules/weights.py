"""Rates that depend on what a rule takes: a weight for each place of a list, in a tree of sums.

A weight depends on the complex of its place alone. After a firing, the weights in complexes that
have changed are computed anew.

M. W. Sneddon, J. R. Faeder, T. Emonet, Efficient modeling, simulation and coarse-graining of
biological complexity with NFsim, Nat. Methods 8 (2011): distributions of rates.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.realization import propensity
from ergode.stochastic.kernel.tree import replant, search, total_of
from ergode.stochastic.rules.graph import match, place_of, spread
from ergode.stochastic.rules.observe import number_of


def _row(j, w, state):
    """Number of the tree of a rule."""
    return np.int64(w) * state.tree_count + np.int64(state.trees[at(j)])


@noinline_cpu
def weight_of(j, w, state):
    """Sum of the weights of the places that a rule may take."""
    return total_of(_row(j, w, state), state.levels, state.weights)


@noinline_cpu
def place_by_weight(j, u, w, state):
    """Number of a place in the list of a rule, with the probability of its weight; or -1."""
    row = _row(j, w, state)
    total = total_of(row, state.levels, state.weights)
    entry, _ = search(u * total, row, state.levels, state.weights)
    p = np.int64(state.first_parts[at(state.weighted[at(j)])])
    return np.int64(state.positions[w, at(state.entry_starts[at(p)] + entry)])


@noinline_cpu
def _set(j, entry, weight, w, state):
    row = _row(j, w, state)
    if state.weights[at(row), at(entry)] != weight:
        state.weights[at(row), at(entry)] = weight
        replant(entry, entry, row, state.levels, state.weights)


@noinline_cpu
def forget(n, w, state):
    """Take away the weights of a molecule that is gone."""
    kind = state.kinds[at(n)]
    for r in range(state.weighted_starts[at(kind)], state.weighted_starts[at(kind + 1)]):
        j = np.int64(state.weighted_rules[at(r)])
        p = np.int64(state.first_parts[at(state.weighted[at(j)])])
        count = np.int64(state.variant_starts[at(p + 1)] - state.variant_starts[at(p)])
        for k in range(count):
            _set(j, (n - state.bases[at(kind)]) * count + k, real(0.0), w, state)


@noinline_cpu
def _weigh(j, n, k, size, w, t, point, net, work, state):
    """Compute the weight of a variant at a root whose complex is in the queue."""
    p = np.int64(state.first_parts[at(state.weighted[at(j)])])
    start = np.int64(state.variant_starts[at(p)])
    count = np.int64(state.variant_starts[at(p + 1)]) - start
    entry = (n - state.bases[at(state.kinds[at(n)])]) * count + k
    weight = real(0.0)
    if state.positions[w, at(state.entry_starts[at(p)] + entry)] >= 0:
        for i in range(state.local_starts[at(j)], state.local_starts[at(j + 1)]):
            root, key = np.int64(-1), np.int64(state.locals[at(i), 2])
            if key >= 0:
                match(start + k, n, 0, w, state)
                root = place_of(start + k, key, 0, w, state) // state.width
            number = number_of(np.int64(state.locals[at(i), 1]), root, size, w, state)
            work.x[w, at(state.locals[at(i), 0])] = np.float64(number)
        weight = propensity(j, w, t, point, net, work)
        if weight < 0.0:
            weight = real(-outcomes.INFINITY)
    _set(j, entry, weight, w, state)


@noinline_cpu
def weigh_complex(n, follows, w, t, point, net, work, state):
    """Compute the weights in a complex; of rules that follow the whole state alone, if wanted."""
    size = spread(n, w, state)
    for i in range(size):
        m = np.int64(state.queue[w, at(i)])
        kind = np.int64(state.kinds[at(m)])
        for r in range(state.weighted_starts[at(kind)], state.weighted_starts[at(kind + 1)]):
            j = np.int64(state.weighted_rules[at(r)])
            if follows and state.follows[at(j)] == 0:
                continue
            p = np.int64(state.first_parts[at(state.weighted[at(j)])])
            count = state.variant_starts[at(p + 1)] - state.variant_starts[at(p)]
            for k in range(count):
                _weigh(j, m, np.int64(k), size, w, t, point, net, work, state)


@noinline_cpu
def clear_weights(w, state):
    """Make all weights zero."""
    first = np.int64(w) * state.tree_count
    for row in range(first, first + state.tree_count):
        for node in range(state.weights.shape[1]):
            state.weights[at(row), at(node)] = 0.0


@noinline_cpu
def weigh_all(follows, w, t, point, net, work, state):
    """Compute the weights of all places; of rules that follow the whole state alone, if wanted."""
    before = state.searches[w, 0]
    for kind in range(state.rooms.size):
        base = state.bases[at(kind)]
        for n in range(base, base + state.used[w, at(kind)]):
            if state.alive[w, at(n)] != 0 and state.marks[w, at(n)] <= before:
                weigh_complex(np.int64(n), follows, w, t, point, net, work, state)


@noinline_cpu
def weigh_touched(w, t, point, net, work, state):
    """Compute the weights in the complexes of places that have changed."""
    before = state.searches[w, 0]
    for k in range(state.touched_count[w, 0]):
        n = (np.int64(state.touched[w, at(k)]) >> 1) // state.width
        if state.alive[w, at(n)] != 0 and state.marks[w, at(n)] <= before:
            weigh_complex(n, False, w, t, point, net, work, state)
