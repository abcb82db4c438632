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
from ergode.stochastic.rules.graph import create, spread, touch
from ergode.stochastic.rules.lists import enter, leave, renew_touched
from ergode.stochastic.rules.observe import observe
from ergode.stochastic.rules.programs import OF_BOND, OF_STATE
from ergode.stochastic.rules.rule_arrays import CREATE, MAKE, REMOVE, REMOVE_ALL, SET, TWO
from ergode.stochastic.rules.weights import (
    clear_weights,
    forget,
    weigh_all,
    weigh_touched,
    weight_of,
)

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
    if state.any_follows:
        weigh_all(True, w, t, point, net, work, state)
    for j in range(state.product_counts.size):
        a = real(0.0)
        if state.product_counts[at(j)] != -2:
            weighted = state.weighted[at(j)]
            a = weight_of(j, w, state) if weighted >= 0 else propensity(j, w, t, point, net, work)
            for q in range(state.reactant_starts[at(j)], state.reactant_starts[at(j + 1)]):
                if q != weighted:
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
    forget(n, w, state)
    kind = state.kinds[at(n)]
    state.alive[w, at(n)] = 0
    count = state.waiting_counts[w, at(kind)]
    state.waiting[w, at(state.bases[at(kind)] + count)] = n
    state.waiting_counts[w, at(kind)] = count + 1


@noinline_cpu
def change_graph(j, w, t, point, net, work, state):
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
    if state.weighted_rules.size > 0:
        for k in range(first, last):
            if state.operations[at(k), 0] == CREATE:
                touch(np.int64(state.places[w, at(state.operations[at(k), 1])]), OF_STATE, w, state)
        weigh_touched(w, t, point, net, work, state)
    state.touched_count[w, 0] = 0
    return outcomes.DONE


def _follow(j, t, firings, soonest, side, one, plan, net, interruptions, work, waiting, state, out):
    w = one.worker
    outcome = change_graph(j, at(w), t, one.point, net, work, state)
    if outcome != outcomes.DONE:
        return outcome, np.int64(0), soonest, side, False
    _prepare(w, t, one.point, net, work, state)
    if plan.moving_breaks:
        soonest, side = next_break(w, t, 0, one.point, net, interruptions, work, waiting)
    return outcome, np.int64(1), soonest, side, False


# ---- breaks: there are no events, so a comparison with the time is all that they can be


def _start(t, one, plan, net, interruptions, work, waiting, state):
    if state.weighted_rules.size > 0:
        clear_weights(at(one.worker), state)
        weigh_all(False, at(one.worker), t, one.point, net, work, state)
    return _pass_break(t, 0, t, 0, one, plan, net, interruptions, work, waiting, state)


def _pass_break(t, after, soonest, side, one, plan, net, interruptions, work, waiting, state):
    _prepare(one.worker, moment_of(t, after), one.point, net, work, state)
    soonest, side = next_break(one.worker, t, after, one.point, net, interruptions, work, waiting)
    return outcomes.DONE, soonest, side, False


@noinline_cpu
def _write(k, one, work, state, out):
    observe(at(one.worker), work, state)
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
