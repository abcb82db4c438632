"""One realization of rules: a rule by its propensity, places by rejection, then the change.

The realization is that of `kernel.realization`. The network of the tables has the rates of the
rules; its species are the observables. Those on which rates depend are kept up to date, the others
are counted when they are written.

M. W. Sneddon, J. R. Faeder, T. Emonet, Efficient modeling, simulation and coarse-graining of
biological complexity with NFsim, Nat. Methods 8 (2011).
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.stochastic.kernel import outcomes, realization
from ergode.stochastic.kernel.indexing import at
from ergode.stochastic.kernel.interruptions import moment_of, next_break
from ergode.stochastic.kernel.next_firing import find, wait_and_choice
from ergode.stochastic.kernel.realization import propensity
from ergode.stochastic.kernel.results import write as write_amounts
from ergode.stochastic.rules.choice import choose_places, second_bound
from ergode.stochastic.rules.graph import create, match, spread, touch
from ergode.stochastic.rules.lists import enter, leave, renew_touched
from ergode.stochastic.rules.programs import OF_BOND, OF_STATE
from ergode.stochastic.rules.rule_arrays import CREATE, MAKE, REMOVE, REMOVE_ALL, SET, TWO

# ---- the begin


@noinline_cpu
def _plant(point, w, state):
    """Make the molecules of the seed species, and the lists."""
    width = state.width
    for kind in range(state.rooms.size):
        state.waiting_counts[w, at(kind)] = 0
        state.used[w, at(kind)] = 0
    state.searches[w, 0] = 0
    state.searches[w, 1] = 1
    state.touched_count[w, 0] = 0
    for p in range(state.counts.shape[1]):
        state.counts[w, at(p)] = 0
    for seed in range(state.seed_starts.size - 1):
        start, stop = state.seed_starts[at(seed)], state.seed_starts[at(seed + 1)]
        amount = state.amounts[at(point), at(seed)]
        if amount > 0:
            state.searches[w, 1] = max(state.searches[w, 1], np.int64(stop - start))
        for _ in range(amount):
            for m in range(start, stop):
                n = create(state.seed_types[at(m)], w, state)
                state.queue[w, at(m - start)] = n
                for s in range(width):
                    state.states[w, at(n * width + s)] = state.seed_states[at(m), at(s)]
            for m in range(start, stop):
                n = np.int64(state.queue[w, at(m - start)])
                for s in range(width):
                    there = state.seed_bonds[at(m), at(s)]
                    if there >= 0:
                        other = np.int64(state.queue[w, at(there // width)])
                        state.bonds[w, at(n * width + s)] = other * width + there % width
    for kind in range(state.rooms.size):
        base = state.bases[at(kind)]
        for n in range(base, base + state.used[w, at(kind)]):
            enter(n, w, state)


def _load(row, w, lane, lanes, net, work, state, plan):
    point = (plan.first + row) // plan.replicates
    for i in range(net.initial.shape[1]):
        work.x[at(w), at(i)] = net.initial[at(point), at(i)]
    _plant(point, at(w), state)


# ---- propensities


@noinline_cpu
def _prepare(w, t, point, net, work, state):
    """All propensities: of every combination of places in the lists."""
    w = at(w)
    for o in range(state.observables.shape[0]):
        if state.observables[at(o), 0] != 0:
            total = np.int64(0)
            for c in range(state.counted_starts[at(o)], state.counted_starts[at(o + 1)]):
                kept = np.int64(state.counts[w, at(state.counted[at(c), 0])])
                total += kept * state.counted[at(c), 2]
            work.x[w, at(o)] = np.float64(total)
    for j in range(state.product_counts.size):
        a = real(0.0)
        if state.product_counts[at(j)] != -2:
            a = propensity(j, w, t, point, net, work)
            for q in range(state.reactant_starts[at(j)], state.reactant_starts[at(j + 1)]):
                a *= np.float64(state.counts[w, at(state.first_parts[at(q)])])
                if state.ways[at(q)] == TWO:
                    a *= np.float64(second_bound(q, w, state))
        state.propensities[w, at(j)] = a


def _total(w, state):
    """The total propensity; minus infinity if any is negative."""
    total = real(0.0)
    for j in range(state.product_counts.size):
        a = state.propensities[w, at(j)]
        total += real(-outcomes.INFINITY) if a < 0.0 else a
    return total


def _advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    w = at(w)
    total = _total(w, state)
    if total == 0.0:
        return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
    if not (total > 0.0 and total < outcomes.INFINITY):
        return t, outcomes.FAILED_NEGATIVE if total < 0.0 else outcomes.FAILED_NOT_FINITE, draw
    rejected = np.int64(0)
    while True:
        wait, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
        number = draw
        draw += 1
        t = t + wait / total
        if t >= limit:
            return t, outcomes.NO_REACTION, draw
        j, _ = find(choice * total, state.propensities, w, 0, state.product_counts.size)
        if j >= 0 and choose_places(j, number, plan.seed, replicate, w, state):
            return t, j, draw
        rejected += 1
        if rejected >= plan.max_firings:
            return t, outcomes.FAILED_TO_END, draw


# ---- a firing


@noinline_cpu
def _remove(n, w, state):
    """Take a molecule away; what it was bound to becomes free."""
    for s in range(state.width):
        place = n * state.width + s
        there = np.int64(state.bonds[w, at(place)])
        if there >= 0:
            state.bonds[w, at(there)] = -1
            state.bonds[w, at(place)] = -1
            touch(there, OF_BOND, w, state)
    _discard(n, w, state)


def _discard(n, w, state):
    leave(n, w, state)
    kind = state.kinds[at(n)]
    state.alive[w, at(n)] = 0
    count = state.waiting_counts[w, at(kind)]
    state.waiting[w, at(state.bases[at(kind)] + count)] = n
    state.waiting_counts[w, at(kind)] = count + 1


@noinline_cpu
def change_graph(j, w, state):
    """Do what a rule does to the chosen places; returns the outcome."""
    width = state.width
    first, last = state.operation_starts[at(j)], state.operation_starts[at(j + 1)]
    for k in range(first, last):
        kind = state.operations[at(k), 0]
        number = np.int64(state.operations[at(k), 1])
        value = state.operations[at(k), 2]
        if kind == CREATE:
            n = create(value, w, state)
            if n < 0:
                return outcomes.OVERFLOW
            made = state.created_starts[at(j)] + state.operations[at(k), 3]
            for s in range(width):
                state.states[w, at(n * width + s)] = state.created_states[at(made), at(s)]
                state.places[w, at(number + s)] = n * width + s
            continue
        if kind == REMOVE_ALL:
            for m in range(spread(np.int64(state.chosen[w, at(4 * number)]), w, state)):
                _discard(np.int64(state.queue[w, at(m)]), w, state)
            continue
        place = np.int64(state.places[w, at(number)])
        if kind == SET:
            state.states[w, at(place)] = value
            touch(place, OF_STATE, w, state)
        elif kind == REMOVE:
            _remove(place // width, w, state)
        else:
            other = np.int64(state.places[w, at(value)])
            state.bonds[w, at(place)] = other if kind == MAKE else -1
            state.bonds[w, at(other)] = place if kind == MAKE else -1
            touch(place, OF_BOND, w, state)
            touch(other, OF_BOND, w, state)
    renew_touched(w, state)
    for k in range(first, last):
        kind = state.operations[at(k), 0]
        place = np.int64(state.places[w, at(state.operations[at(k), 1])])
        if kind == CREATE:
            enter(place // width, w, state)
        elif kind == MAKE and state.two_parts:
            size = spread(place // width, w, state)
            state.searches[w, 1] = max(state.searches[w, 1], np.int64(size))
    return outcomes.DONE


def _follow(j, t, firings, soonest, side, one, plan, net, interruptions, work, waiting, state, out):
    w = one.worker
    outcome = change_graph(j, at(w), state)
    if outcome != outcomes.DONE:
        return outcome, np.int64(0), soonest, side, False
    _prepare(w, t, one.point, net, work, state)
    if plan.moving_breaks:
        soonest, side = next_break(w, t, 0, one.point, net, interruptions, work, waiting)
    return outcome, np.int64(1), soonest, side, False


# ---- breaks: there are no events, so a comparison with the time is all that they can be


def _start(t, one, plan, net, interruptions, work, waiting, state):
    return _pass_break(t, 0, t, 0, one, plan, net, interruptions, work, waiting, state)


def _pass_break(t, after, soonest, side, one, plan, net, interruptions, work, waiting, state):
    _prepare(one.worker, moment_of(t, after), one.point, net, work, state)
    soonest, side = next_break(one.worker, t, after, one.point, net, interruptions, work, waiting)
    return outcomes.DONE, soonest, side, False


# ---- what is observed


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
def _count_in_complex(size, w, work, state):
    """Add what a complex, which is in the queue, has of all observables of complexes."""
    for o in range(state.observables.shape[0]):
        if state.observables[at(o), 1] == 0:
            continue
        for c in range(state.counted_starts[at(o)], state.counted_starts[at(o + 1)]):
            kind = state.roots[at(state.counted[at(c), 0])]
            count = np.int64(0)
            for k in range(size):
                n = np.int64(state.queue[w, at(k)])
                if state.kinds[at(n)] == kind:
                    count += _at_root(c, n, size, w, state)
            comparison = state.counted[at(c), 3]
            if comparison >= 0:
                count = np.int64(1 if _is_met(count, comparison, state.counted[at(c), 4]) else 0)
            if state.observables[at(o), 2] != 0:
                count = min(count, np.int64(1))
            work.x[w, at(o)] += np.float64(count)


@noinline_cpu
def _observe(w, work, state):
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
                    _count_in_complex(spread(n, w, state), w, work, state)


@noinline_cpu
def _write(k, one, work, state, out):
    _observe(at(one.worker), work, state)
    return write_amounts(k, one.worker, one.row, one.cell, one.slot, work, state, out)


BINDINGS = {
    realization.load: _load,
    realization.start: _start,
    realization.advance: _advance,
    realization.follow: _follow,
    realization.pass_break: _pass_break,
    realization.write: _write,
}
"""What the loop of realizations does with rules."""
