"""Where a rule applies: a place of every reactant, chosen and then accepted or rejected.

The propensity of a rule counts all combinations of places in its lists. What lists do not know is
tested after the choice: whether the reactants are in different complexes, whether all parts of a
pattern are in one, conditions, and whether a bond that breaks makes two species of one. A rejected
choice is a step of time without a firing, so the law of what is left is exact.

V. Danos et al., Scalable simulation of cellular signaling networks, APLAS (2007). J. Yang et al.,
Kinetic Monte Carlo method for rule-based modeling of biochemical networks, Phys. Rev. E 78 (2008).
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import noinline_cpu
from ergode.core.math.random import PLACE, draw_words, uniform_53
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.rules.graph import are_joined, match, place_of, spread
from ergode.stochastic.rules.rule_arrays import BREAK, MAKE, ONCE, SET, TWO
from ergode.stochastic.rules.weights import place_by_weight


def second_bound(q, w, state):
    """Most places of the second part of a reactant that are in one complex."""
    p = np.int64(state.second_parts[at(q)])
    variants = state.variant_starts[at(p + 1)] - state.variant_starts[at(p)]
    return min(np.int64(state.counts[w, at(p)]), np.int64(state.searches[w, 1] * variants))


# ---- the choice


def _uniform(words, second):
    """A uniform number, of half a block of words."""
    return uniform_53(words[2], words[3]) if second else uniform_53(words[0], words[1])


def _number(u, count):
    """A number below `count`."""
    return min(np.int64(u * np.float64(count)), np.int64(count) - 1)


def _block(i, draw, seed, replicate):
    entity = (np.uint64(draw) >> np.uint64(32)) | (np.uint64(i) << np.uint64(32))
    return draw_words(seed, replicate, entity, PLACE, np.uint32(draw))


def _set_places(p, v, n, first, w, state):
    """Write down the centre of the place of a variant, as places from number `first` on."""
    if state.sizes[at(p)] == 1:
        state.found[w, 0] = n
    else:
        match(v, n, 0, w, state)
    for k in range(state.key_counts[at(p)]):
        state.places[w, at(first + k)] = place_of(v, k, 0, w, state)


def _take(p, k, i, first, w, state):
    """Choose entry `k` of a list as number `i` of what is chosen; returns its root."""
    start = state.variant_starts[at(p)]
    count = np.int64(state.variant_starts[at(p + 1)] - start)
    entry = np.int64(state.entries[w, at(state.entry_starts[at(p)] + k)])
    n = state.bases[at(state.roots[at(p)])] + entry // count
    v = start + entry % count
    state.chosen[w, at(2 * i)] = n
    state.chosen[w, at(2 * i + 1)] = v
    _set_places(p, v, n, first, w, state)
    return n


def _take_second(q, i, n, number, w, state):
    """Choose a place of the second part in the complex of a root; false if `number` is beyond."""
    p = np.int64(state.second_parts[at(q)])
    kind = state.roots[at(p)]
    count = np.int64(state.variant_starts[at(p + 1)] - state.variant_starts[at(p)])
    base = state.entry_starts[at(p)]
    first = state.first_places[at(q)] + state.key_counts[at(state.first_parts[at(q)])]
    for k in range(spread(n, w, state)):
        m = np.int64(state.queue[w, at(k)])
        if state.kinds[at(m)] != kind:
            continue
        local = m - state.bases[at(kind)]
        for v in range(count):
            position = state.positions[w, at(base + local * count + v)]
            if position >= 0:
                if number == 0:
                    _take(p, np.int64(position), 2 * i + 1, first, w, state)
                    return True
                number -= 1
    return False


# ---- parts of a pattern


def _are_apart(count, others, w, state):
    """Whether the first `count` molecules that are found are none of the `others` after them."""
    for a in range(count):
        for b in range(count, count + others):
            if state.found[w, at(a)] == state.found[w, at(b)]:
                return False
    return True


def _has_centre(p, v, offset, first, w, state):
    """Whether a variant whose molecules are found has the centre that was chosen."""
    for k in range(state.key_counts[at(p)]):
        if place_of(v, k, offset, w, state) != state.places[w, at(first + k)]:
            return False
    return True


def _second_is_in(p, second, size, w, state):
    """Whether a second part is in the queue, beside the first part that is found."""
    before, others = np.int64(state.sizes[at(p)]), np.int64(state.sizes[at(second)])
    for k in range(size):
        m = np.int64(state.queue[w, at(k)])
        if state.kinds[at(m)] != state.roots[at(second)]:
            continue
        for v in range(state.variant_starts[at(second)], state.variant_starts[at(second + 1)]):
            if match(v, m, before, w, state) and _are_apart(before, others, w, state):
                return True
    return False


@noinline_cpu
def is_at(p, second, n, size, w, state):
    """Whether a pattern is at a root; its second part is anywhere in the queue."""
    for v in range(state.variant_starts[at(p)], state.variant_starts[at(p + 1)]):
        if match(v, n, 0, w, state) and (second < 0 or _second_is_in(p, second, size, w, state)):
            return True
    return False


@noinline_cpu
def is_in(p, second, size, w, state):
    """Whether a pattern is anywhere in the queue."""
    for k in range(size):
        m = np.int64(state.queue[w, at(k)])
        if state.kinds[at(m)] == state.roots[at(p)] and is_at(p, second, m, size, w, state):
            return True
    return False


@noinline_cpu
def _is_together(q, i, size, w, state):
    """Whether the second part of a reactant is there, with no molecule of the first."""
    p, second = np.int64(state.first_parts[at(q)]), np.int64(state.second_parts[at(q)])
    before, others = np.int64(state.sizes[at(p)]), np.int64(state.sizes[at(second)])
    n, m = np.int64(state.chosen[w, at(4 * i)]), np.int64(state.chosen[w, at(4 * i + 2)])
    first = np.int64(state.first_places[at(q)])
    for v in range(state.variant_starts[at(p)], state.variant_starts[at(p + 1)]):
        if not (match(v, n, 0, w, state) and _has_centre(p, v, 0, first, w, state)):
            continue
        if state.ways[at(q)] != TWO:
            if _second_is_in(p, second, size, w, state):
                return True
            continue
        beside = first + np.int64(state.key_counts[at(p)])
        for u in range(state.variant_starts[at(second)], state.variant_starts[at(second + 1)]):
            if (
                match(u, m, before, w, state)
                and _has_centre(second, u, before, beside, w, state)
                and _are_apart(before, others, w, state)
            ):
                return True
    return False


@noinline_cpu
def _fits(q, i, w, state):
    """Whether the complex of a reactant is as its pattern and its conditions want it."""
    way, second = state.ways[at(q)], np.int64(state.second_parts[at(q)])
    start, stop = state.condition_starts[at(q)], state.condition_starts[at(q + 1)]
    if way != ONCE and second < 0 and start == stop:
        return True
    p, n = np.int64(state.first_parts[at(q)]), np.int64(state.chosen[w, at(4 * i)])
    size = spread(n, w, state)
    if way == ONCE:
        # A complex counts once: at the first of the roots that are in it.
        if second >= 0 and not is_at(p, second, n, size, w, state):
            return False
        for k in range(size):
            m = np.int64(state.queue[w, at(k)])
            earlier = m < n and state.kinds[at(m)] == state.roots[at(p)]
            if earlier and is_at(p, second, m, size, w, state):
                return False
    elif second >= 0 and not _is_together(q, i, size, w, state):
        return False
    for c in range(start, stop):
        wanted = state.conditions[at(c), 0] != 0
        one, other = np.int64(state.conditions[at(c), 1]), np.int64(state.conditions[at(c), 2])
        if is_in(one, other, size, w, state) != wanted:
            return False
    return True


# ---- what would be made


def _try(j, undo, w, state):
    """Change bonds and states of the chosen places, or undo that."""
    first, last = state.operation_starts[at(j)], state.operation_starts[at(j + 1)]
    kept = state.group_starts[at(j + 1)] - state.group_starts[at(j)]
    for k in range(last - first):
        op = last - 1 - k if undo else first + k
        kind = state.operations[at(op), 0]
        one = np.int64(state.places[w, at(state.operations[at(op), 1])])
        if kind == SET:
            saved = at(kept + op - first)
            if undo:
                state.states[w, at(one)] = state.labels[w, saved]
            else:
                state.labels[w, saved] = state.states[w, at(one)]
                state.states[w, at(one)] = state.operations[at(op), 2]
        elif kind == BREAK or kind == MAKE:
            other = np.int64(state.places[w, at(state.operations[at(op), 2])])
            binds = (kind == MAKE) != undo
            state.bonds[w, at(one)] = other if binds else -1
            state.bonds[w, at(other)] = one if binds else -1


def _break(j, undo, w, state):
    """Break the bonds that a rule breaks, or undo that."""
    for op in range(state.operation_starts[at(j)], state.operation_starts[at(j + 1)]):
        if state.operations[at(op), 0] == BREAK:
            one = np.int64(state.places[w, at(state.operations[at(op), 1])])
            other = np.int64(state.places[w, at(state.operations[at(op), 2])])
            state.bonds[w, at(one)] = other if undo else -1
            state.bonds[w, at(other)] = one if undo else -1


@noinline_cpu
def _makes_as_many(j, w, state):
    """Whether a rule makes as many species as it has products."""
    start = np.int64(state.group_starts[at(j)])
    count = np.int64(state.group_starts[at(j + 1)]) - start
    if count == 0:
        return True
    _break(j, False, w, state)
    species = np.int64(state.class_counts[at(j)])
    for a in range(count):
        state.labels[w, at(a)] = state.groups[at(start + a), 2]
    for a in range(count):
        for b in range(a + 1, count):
            old, new = state.labels[w, at(b)], state.labels[w, at(a)]
            if old == new or state.groups[at(start + a), 1] != state.groups[at(start + b), 1]:
                continue
            one = np.int64(state.places[w, at(state.groups[at(start + a), 0])]) // state.width
            other = np.int64(state.places[w, at(state.groups[at(start + b), 0])]) // state.width
            if are_joined(one, other, w, state):
                species -= 1
                for c in range(count):
                    if state.labels[w, at(c)] == old:
                        state.labels[w, at(c)] = new
    _break(j, True, w, state)
    return species == state.product_counts[at(j)]


@noinline_cpu
def _makes_what_fits(j, w, state):
    """Whether the products are as the conditions want them."""
    start, stop = state.made_starts[at(j)], state.made_starts[at(j + 1)]
    if start == stop:
        return True
    fits = True
    _try(j, False, w, state)
    for c in range(start, stop):
        # The bonds of the pattern have changed: its molecules were found before.
        n = np.int64(state.chosen[w, at(state.chosen.shape[1] - 1 - (c - start))])
        size = spread(n, w, state)
        wanted = state.made_conditions[at(c), 0] != 0
        one = np.int64(state.made_conditions[at(c), 1])
        other = np.int64(state.made_conditions[at(c), 2])
        fits = fits and is_in(one, other, size, w, state) == wanted
    _try(j, True, w, state)
    return fits


def _find_heads(j, w, state):
    """Note the first molecules of the products that have conditions, at the end of `chosen`."""
    first = state.reactant_starts[at(j)]
    start = state.made_starts[at(j)]
    for c in range(start, state.made_starts[at(j + 1)]):
        i = np.int64(state.made_heads[at(c), 0])
        n, v = np.int64(state.chosen[w, at(4 * i)]), np.int64(state.chosen[w, at(4 * i + 1)])
        match(v, n, 0, w, state)
        head = state.found[w, at(state.made_heads[at(c), 1])]
        state.chosen[w, at(state.chosen.shape[1] - 1 - (c - start))] = head
    return first


# ---- all of it


@noinline_cpu
def choose_places(j, draw, seed, replicate, w, state):
    """Choose places of all reactants; false if the rule does not apply to them."""
    start = np.int64(state.reactant_starts[at(j)])
    count = np.int64(state.reactant_starts[at(j + 1)]) - start
    words = _block(0, draw, seed, replicate)
    for i in range(count):
        q = start + i
        if i > 0 and (i & 1) == 0:
            words = _block(i >> 1, draw, seed, replicate)
        p = np.int64(state.first_parts[at(q)])
        u = _uniform(words, (i & 1) == 1)
        if q == state.weighted[at(j)]:
            k = place_by_weight(j, u, w, state)
            if k < 0:
                return False
        else:
            k = _number(u, state.counts[w, at(p)])
        n = _take(p, k, 2 * i, np.int64(state.first_places[at(q)]), w, state)
        for h in range(i):
            if are_joined(n, np.int64(state.chosen[w, at(4 * h)]), w, state):
                return False
    for i in range(count):
        q = start + i
        if state.ways[at(q)] == TWO:
            u = _uniform(_block(64 + i, draw, seed, replicate), False)
            other = _number(u, second_bound(q, w, state))
            n = np.int64(state.chosen[w, at(4 * i)])
            if not _take_second(q, i, n, other, w, state):
                return False
        if not _fits(q, i, w, state):
            return False
    if not _makes_as_many(j, w, state):
        return False
    _find_heads(j, w, state)
    return _makes_what_fits(j, w, state)
