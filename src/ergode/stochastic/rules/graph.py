"""Molecules, their sites and their bonds: what is where, and what is bound to what.

A *place* is a site of a molecule: the number of the molecule times `width`, plus the site. A
molecule is found behind a place by division. Molecules of a type have a range of numbers; the
numbers of those that are gone wait on a stack for new ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.rules.programs import BOUND, FOLLOW, FREE, JOINED, STATE


class State(NamedTuple):
    """The rules, which all realizations share, and what a worker keeps.

    A *program* finds a part of a pattern from its root (see `programs`). The first programs have a
    list of all places where they are, which rules choose from. Rows of an item lie between
    consecutive elements of its ``starts`` array.
    """

    width: Any  # most sites of a molecule
    bases: Any  # [type + 1] first molecule of each type
    rooms: Any  # [type] largest number of molecules
    kinds: Any  # [molecule] its type
    seed_starts: Any
    seed_types: Any  # [molecule of a seed]
    seed_states: Any  # [molecule of a seed, site]
    seed_bonds: Any  # [molecule of a seed, site] place in the seed; -1: free
    amounts: Any  # [point, seed]

    roots: Any  # [program] type
    sizes: Any  # [program] number of molecules
    ambiguous: Any  # [program] whether variants may have the same centre
    key_counts: Any  # [program] places of the centre
    variant_starts: Any  # [program + 1]
    test_starts: Any  # [variant + 1]
    tests: Any  # [test, 5] see `programs.Operation`
    keys: Any  # [variant, place, 2] molecule, in the order in which they are found, and site
    entry_starts: Any  # [list + 1]
    dependent_starts: Any  # [2 * (type * width + site) + what]
    dependent: Any  # [entry, 2] list and path
    path_starts: Any
    path_steps: Any  # [step, 3] site, site at the other end, type there
    rooted_starts: Any  # [type + 1]
    rooted: Any  # [entry] lists with roots of a type

    reactant_starts: Any  # [rule + 1]
    ways: Any  # [reactant] how its places are found
    first_parts: Any  # [reactant] list
    second_parts: Any  # [reactant] program, or -1
    first_places: Any  # [reactant]
    condition_starts: Any  # [reactant + 1]
    conditions: Any  # [condition, 3] whether it includes, and two programs
    made_starts: Any  # [rule + 1]
    made_conditions: Any  # [condition, 3] the same of products
    made_heads: Any  # [condition, 2] reactant with its first molecule, and which one
    operation_starts: Any  # [rule + 1]
    operations: Any  # [operation, 4]
    created_starts: Any  # [rule + 1]
    created_states: Any  # [created, site]
    group_starts: Any  # [rule + 1]
    groups: Any  # [group, 3] place, reactant, class
    class_counts: Any  # [rule]
    product_counts: Any  # [rule] species that it makes; -1: any number; -2: it never applies
    two_parts: Any  # whether any reactant has two places in a complex

    weighted: Any  # [rule] reactant whose places have weights: the rate depends on it; -1: none
    follows: Any  # [rule] whether its weights depend on the whole state or the time, too
    any_follows: Any
    weighted_starts: Any  # [type + 1]
    weighted_rules: Any  # [entry] rules whose weighted places have roots of a type
    local_starts: Any  # [rule + 1]
    # [number, 3] of a rate: its place among the amounts; an observable; and the place in the centre
    # whose molecule is observed, or -1 for the whole complex
    locals: Any
    tree_count: Any
    trees: Any  # [rule] number of its tree of weights; -1: it has none
    levels: Any  # of all trees (see `kernel.tree`); a leaf is an entry of a list

    counted_starts: Any  # [observable + 1]
    counted: Any  # [pattern, 5] two programs, multiplicity, comparison, number
    observables: Any  # [observable, 3] whether it is kept, is of complexes, and is of species

    states: Any  # [worker, place]
    bonds: Any  # [worker, place] place at the other end; -1: free
    alive: Any  # [worker, molecule]
    waiting: Any  # [worker, molecule] stack of each type, of those that were there and are gone
    waiting_counts: Any  # [worker, type]
    used: Any  # [worker, type] molecules that have been there
    entries: Any  # [worker, entry] root, counted from the first of its type, and variant
    positions: Any  # [worker, entry] where in the list a root and variant are; -1: they are not
    counts: Any  # [worker, list] its length
    marks: Any  # [worker, molecule] the last search that came by
    queue: Any  # [worker, 2 * molecule]
    searches: Any  # [worker, 2] number of searches; largest complex so far
    found: Any  # [worker, molecule of a pattern]
    places: Any  # [worker, place] of the chosen centre, and of molecules that were made
    # [worker, 4 * reactant] root and variant, also of the second part; at its end, molecules of
    # products with conditions
    chosen: Any
    labels: Any  # [worker, group]
    touched: Any  # [worker, entry] changed places, twice, plus what of them has changed
    touched_count: Any  # [worker, 1]
    propensities: Any  # [worker, rule]
    weights: Any  # [worker * tree_count + tree, node]


# ---- a molecule


@noinline_cpu
def create(kind, w, state):
    """A new molecule whose sites are free; its number, or -1 if there is no room."""
    base = state.bases[at(kind)]
    count = state.waiting_counts[w, at(kind)] - 1
    used = state.used[w, at(kind)]
    if count >= 0:
        state.waiting_counts[w, at(kind)] = count
        n = np.int64(state.waiting[w, at(base + count)])
    elif used < state.rooms[at(kind)]:
        n = np.int64(base + used)
        state.used[w, at(kind)] = used + 1
        state.marks[w, at(n)] = 0
        for r in range(state.rooted_starts[at(kind)], state.rooted_starts[at(kind + 1)]):
            p = np.int64(state.rooted[at(r)])
            count = np.int64(state.variant_starts[at(p + 1)] - state.variant_starts[at(p)])
            for k in range(used * count, (used + 1) * count):
                state.positions[w, at(state.entry_starts[at(p)] + k)] = -1
    else:
        return np.int64(-1)
    state.alive[w, at(n)] = 1
    for s in range(state.width):
        state.bonds[w, at(n * state.width + s)] = -1
    return n


def touch(place, what, w, state):
    """Note that the state or the bond of a place has changed."""
    k = state.touched_count[w, 0]
    state.touched[w, at(k)] = 2 * place + what
    state.touched_count[w, 0] = k + 1


# ---- where a program is


@noinline_cpu
def match(v, n, first, w, state):
    """Whether a variant is at a root; its molecules are `found` from number `first` on."""
    width = state.width
    state.found[w, at(first)] = n
    count = first + 1
    for k in range(state.test_starts[at(v)], state.test_starts[at(v + 1)]):
        kind = state.tests[at(k), 0]
        molecule = np.int64(state.found[w, at(first + state.tests[at(k), 1])])
        place = molecule * width + state.tests[at(k), 2]
        value = state.tests[at(k), 3]
        if kind == STATE:
            if state.states[w, at(place)] != value:
                return False
            continue
        there = np.int64(state.bonds[w, at(place)])
        if kind == FREE:
            if there >= 0:
                return False
        elif kind == BOUND:
            if there < 0:
                return False
        elif kind == FOLLOW:
            if there < 0:
                return False
            other = there // width
            if there - other * width != value or state.kinds[at(other)] != state.tests[at(k), 4]:
                return False
            for m in range(first, count):
                if state.found[w, at(m)] == other:
                    return False
            state.found[w, at(count)] = other
            count += 1
        elif kind == JOINED:
            other = np.int64(state.found[w, at(first + state.tests[at(k), 4])])
            if there != other * width + value:
                return False
    return True


def place_of(v, k, first, w, state):
    """Place `k` of the centre of a variant whose molecules are found; of a molecule its first."""
    site = np.int64(state.keys[at(v), at(k), 1])
    molecule = np.int64(state.found[w, at(first + state.keys[at(v), at(k), 0])])
    return molecule * state.width + max(site, np.int64(0))


# ---- complexes


@noinline_cpu
def spread(n, w, state):
    """All molecules of a complex, in the queue; returns their number."""
    width = state.width
    mark = state.searches[w, 0] + 1
    state.searches[w, 0] = mark
    state.marks[w, at(n)] = mark
    state.queue[w, 0] = n
    count, done = 1, 0
    while done < count:
        m = np.int64(state.queue[w, at(done)])
        done += 1
        for s in range(width):
            there = np.int64(state.bonds[w, at(m * width + s)])
            if there >= 0:
                other = there // width
                if state.marks[w, at(other)] != mark:
                    state.marks[w, at(other)] = mark
                    state.queue[w, at(count)] = other
                    count += 1
    return count


@noinline_cpu
def are_joined(n, m, w, state):
    """Whether two molecules are in one complex: a search from both, until they meet or one ends."""
    if n == m:
        return True
    width = state.width
    half = state.queue.shape[1] // 2
    first = state.searches[w, 0] + 1
    state.searches[w, 0] = first + 1
    state.marks[w, at(n)] = first
    state.marks[w, at(m)] = first + 1
    state.queue[w, 0] = n
    state.queue[w, at(half)] = m
    done, count, others_done, others_count = 0, 1, 0, 1
    mark, start = first, 0
    while done < count:
        one = np.int64(state.queue[w, at(start + done)])
        done += 1
        for s in range(width):
            there = np.int64(state.bonds[w, at(one * width + s)])
            if there >= 0:
                other = there // width
                seen = state.marks[w, at(other)]
                if seen == mark:
                    continue
                if seen == 2 * first + 1 - mark:
                    return True
                state.marks[w, at(other)] = mark
                state.queue[w, at(start + count)] = other
                count += 1
        # It is the other side's turn.
        mark, start = 2 * first + 1 - mark, half - start
        done, count, others_done, others_count = others_done, others_count, done, count
    return False
