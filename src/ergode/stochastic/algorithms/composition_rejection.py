"""Composition and rejection: constant time per firing, for any number of reactions.

A group contains the reactions whose propensities are between two consecutive powers of two.  A
group is chosen in proportion to its size times the upper power, and a member with equal
probabilities.  The member is accepted with the ratio of its propensity to the upper power, which is
more than one half.  Rejected candidates also advance time (thinning).  No sum of propensities is
stored, so none can drift.

A. Slepoy, A. P. Thompson, S. J. Plimpton, "A constant-time kinetic Monte Carlo algorithm for
simulation of large biochemical reaction networks", J. Chem. Phys. 128 (2008).

One list holds all reactions, group after group, the highest group first.  Reactions that cannot
fire follow the lowest group in use.  A reaction moves to an adjacent group by a swap with the
reaction at the border.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import from_bits, noinline_cpu, real, to_bits
from ergode.core.math.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.realization import propensity
from ergode.stochastic.tables import ONE_LESS, Tables

GROUPS = 24
HEADROOM = 3


class MethodState(NamedTuple):
    """State of the method; one row per worker."""

    order: Any  # [worker, reaction] reactions in order of groups
    place: Any  # [worker, reaction] index of each reaction in `order`
    group: Any  # [worker, reaction] group: 1 is the highest; GROUPS + 1: cannot fire
    starts: Any  # [worker, GROUPS + 3] start of each group; last, of those that cannot fire
    numbers: Any  # [worker, 3] highest exponent, lowest group in use, negative propensities
    first_order: Any  # [point, reaction] prepared initial values of the arrays above, if any
    first_place: Any
    first_group: Any
    first_starts: Any
    first_numbers: Any


def exponent_of(a):
    """The smallest e with a <= 2^e, for positive a."""
    above = (to_bits(a) - np.uint64(1)) >> np.uint64(52)
    return np.int32(above & np.uint64(2047)) - np.int32(1022)


def power_of_two(e):
    """Two to the power `e`; infinity from 1024 on."""
    e = max(min(np.int64(e), np.int64(1024)), np.int64(-1022))
    return from_bits(np.uint64(e + 1023) << np.uint64(52))


def _group_of(a, top):
    """Group of a propensity: 0 or less if it is above all groups, or is NaN."""
    if not a > 0.0:
        return np.int32(GROUPS + 1) if a <= 0.0 else np.int32(0)
    return min(top - exponent_of(a) + np.int32(1), np.int32(GROUPS))


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Assign every reaction to its group."""
    count = state.order.shape[1]
    highest = real(0.0)
    negative = 0
    for j in range(count):
        a = propensity(j, w, t, point, net, work)
        negative += 1 if a < 0.0 else 0
        highest = max(highest, a) if a == a else real(outcomes.INFINITY)
    top = np.int32(0)
    if highest > 0.0:
        top = exponent_of(highest) + HEADROOM
    lowest = np.int32(1)
    for g in range(GROUPS + 3):
        state.starts[w, g] = 0
    for j in range(count):
        g = max(_group_of(propensity(j, w, t, point, net, work), top), np.int32(1))
        state.group[w, j] = g
        state.starts[w, g + 1] += 1
        if g <= GROUPS:
            lowest = max(lowest, g)
    for g in range(1, GROUPS + 3):
        state.starts[w, g] += state.starts[w, g - 1]
    for j in range(count):
        g = state.group[w, j]
        state.order[w, state.starts[w, g]] = j
        state.place[w, j] = state.starts[w, g]
        state.starts[w, g] += 1
    for g in range(GROUPS + 2, 0, -1):
        state.starts[w, g] = state.starts[w, g - 1]
    state.numbers[w, 0] = top
    state.numbers[w, 1] = lowest
    state.numbers[w, 2] = negative


def _exchange(here, there, w, state):
    """Swap two entries of the list."""
    if here != there:
        a, b = state.order[w, here], state.order[w, there]
        state.order[w, here] = b
        state.order[w, there] = a
        state.place[w, a] = there
        state.place[w, b] = here


def update(j, w, t, point, plan, replicate, net, work, state):
    """Regroup the reactions whose propensity changed; false if one is above all groups."""
    top = state.numbers[w, 0]
    lowest = state.numbers[w, 1]
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        for k in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            r = net.affected[k]
            a = propensity(r, w, t, point, net, work)
            if a < 0.0:
                state.numbers[w, 2] = 1
            to = _group_of(a, top)
            g = np.int32(state.group[w, r])
            if to == g:
                continue
            if to < 1:
                return False
            state.group[w, r] = to
            while lowest < to and to <= GROUPS:  # groups in between are empty
                state.starts[w, lowest + 2] = state.starts[w, lowest + 1]
                lowest += np.int32(1)
                state.numbers[w, 1] = lowest
            g, to = min(g, lowest + np.int32(1)), min(to, lowest + np.int32(1))
            here = state.place[w, r]
            while g < to:
                last = state.starts[w, g + 1] - 1
                _exchange(here, last, w, state)
                state.starts[w, g + 1] = last
                here = last
                g += 1
            while g > to:
                first = state.starts[w, g]
                _exchange(here, first, w, state)
                state.starts[w, g] = first + 1
                here = first
                g -= 1
    return True


def advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    """Draw candidates at the sum of all upper bounds, until one is accepted."""
    if state.numbers[w, 2] > 0:
        return t, outcomes.FAILED_NEGATIVE, draw
    lowest = state.numbers[w, 1]
    while lowest > 1 and state.starts[w, lowest] == state.starts[w, lowest + 1]:
        lowest -= np.int32(1)
    state.numbers[w, 1] = lowest
    highest_bound = power_of_two(state.numbers[w, 0])
    total = real(0.0)
    bound = highest_bound
    for g in range(1, lowest + 1):
        total += real(state.starts[w, g + 1] - state.starts[w, g]) * bound
        bound *= 0.5
    if total == 0.0:
        return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
    if not (total > 0.0 and total < outcomes.INFINITY):
        return t, outcomes.FAILED_NOT_FINITE, draw
    while True:
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
        draw += 1
        t += exponential(w0, w1) / total
        if t >= limit:
            return t, outcomes.NO_REACTION, draw
        target = uniform(w2, w3) * total
        bound = highest_bound
        g = 1
        weight = real(state.starts[w, 2] - state.starts[w, 1]) * bound
        while g < lowest and target >= weight:
            target -= weight
            bound *= 0.5
            g += 1
            weight = real(state.starts[w, g + 1] - state.starts[w, g]) * bound
        first = state.starts[w, g]
        count = state.starts[w, g + 1] - first
        if count == 0:
            continue
        position = target / bound
        member = min(np.int32(position), np.int32(count - 1))
        j = state.order[w, first + member]
        a = propensity(j, w, t, point, net, work)
        # The position within the member's interval is uniform, so it serves for acceptance.
        if (position - real(member)) * bound < a:
            return t, j, draw


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row that a worker keeps."""
    count = tables.reaction_count
    return {
        "order": (count, np.int32),
        "place": (count, np.int32),
        "group": (count, np.int8),
        "starts": (GROUPS + 3, np.int32),
        "numbers": (3, np.int32),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share: none of its own; shapes of unprepared arrays."""
    rows = arrays(tables).items()
    return {f"first_{name}": np.zeros((0, 0), kind) for name, (_, kind) in rows}


# ---- initial states, prepared once per point


def copy_prepared(w, lane, lanes, point, state):
    """Copy the groups of the initial state: this lane's part of every array."""
    for j in range(lane, state.order.shape[1], lanes):
        state.order[w, j] = state.first_order[point, j]
        state.place[w, j] = state.first_place[point, j]
        state.group[w, j] = state.first_group[point, j]
    for k in range(lane, state.starts.shape[1], lanes):
        state.starts[w, k] = state.first_starts[point, k]
    for k in range(lane, state.numbers.shape[1], lanes):
        state.numbers[w, k] = state.first_numbers[point, k]


def prepared(tables: Tables) -> dict[str, np.ndarray]:
    """State after `prepare` for the initial state of every point."""
    net = tables.net
    n, m = (net.initial[:, net.pairs[:, k] & (ONE_LESS - 1)] for k in (0, 1))
    a = net.coefficients * (n * (m - (net.pairs[:, 1] >> 30)))
    exponents = (((a.view(np.int64) - 1) >> 52) & 2047).astype(np.int32) - 1022
    able = a > 0
    top = np.where(able, exponents, -(2**20)).max(axis=1, initial=-(2**20)) + HEADROOM
    top[~able.any(axis=1)] = 0
    group = np.where(able, np.minimum(top[:, None] - exponents + 1, GROUPS), GROUPS + 1)
    order = np.argsort(group, axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(order.shape[1])[None, :], axis=1)
    starts = np.array([np.searchsorted(np.sort(row), np.arange(GROUPS + 3)) for row in group])
    lowest = np.where(able, group, 1).max(axis=1, initial=1)
    return {
        "first_order": order.astype(np.int32),
        "first_place": place.astype(np.int32),
        "first_group": group.astype(np.int8),
        "first_starts": starts.astype(np.int32),
        "first_numbers": np.stack([top, lowest, np.zeros_like(top)], axis=1).astype(np.int32),
    }


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    advance=advance, prepared=prepared, copy_prepared=copy_prepared,
)  # fmt: skip
