"""Composition and rejection: the same time a firing, however many reactions there are.

Reactions whose propensity is between two powers of two are in one group.  A group is chosen by
its size times the upper power, a member of it evenly, and the member is accepted with the ratio of
its propensity to the power: one half at least.  What is rejected takes time too (the process is a
thinned one), so no sum of propensities is ever kept, and none can drift.

A. Slepoy, A. P. Thompson, S. J. Plimpton, "A constant-time kinetic Monte Carlo algorithm for
simulation of large biochemical reaction networks", J. Chem. Phys. 128 (2008).

All reactions stand in one list, group after group, the highest first and behind it those that
cannot fire; a reaction that goes from a group to the next is exchanged with the one at the border.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.machine import from_bits, outlined, real, to_bits
from ergode.core.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.realization import (
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    INFINITY,
    NO_REACTION,
    propensity,
)
from ergode.stochastic.tables import Tables

GROUPS = 24
HEADROOM = 3


class Own(NamedTuple):
    """What the method keeps; rows of one worker each."""

    order: Any  # [worker, reaction] reactions, group after group
    place: Any  # [worker, reaction] where each is in that list
    group: Any  # [worker, reaction] its group: 0 cannot fire, 1 is the highest
    starts: Any  # [worker, GROUPS + 2] where groups start
    numbers: Any  # [worker, 3] highest exponent, lowest group in use, negative propensities


def exponent_of(a):
    """The least e with a < 2^e, of a positive number."""
    return np.int32((to_bits(a) >> np.uint64(52)) & np.uint64(2047)) - np.int32(1022)


def power_of_two(e):
    """Two to the power `e`, and infinity from 1024 on."""
    e = max(min(np.int64(e), np.int64(1024)), np.int64(-1022))
    return from_bits(np.uint64(e + 1023) << np.uint64(52))


def _group_of(a, top):
    """Group of a propensity; beyond the highest it is below one."""
    if not a > 0.0:
        return np.int32(0) if a <= 0.0 else np.int32(-1)
    group = top - exponent_of(a) + 1
    return min(group, np.int32(GROUPS))


@outlined
def prepare(w, t, point, plan, replicate, net, work, own):
    """Put every reaction into its group."""
    count = own.order.shape[1]
    highest = real(0.0)
    negative = 0
    for j in range(count):
        a = propensity(j, w, t, point, net, work)
        negative += 1 if a < 0.0 else 0
        highest = max(highest, a) if a == a else real(INFINITY)
    top = np.int32(0)
    if highest > 0.0:
        top = exponent_of(highest) + HEADROOM
    own.numbers[w, 0] = top
    own.numbers[w, 1] = 1
    own.numbers[w, 2] = negative
    # Those that cannot fire come first, then group 1, the highest, and so on.
    for g in range(GROUPS + 2):
        own.starts[w, g] = 0
    for j in range(count):
        g = max(_group_of(propensity(j, w, t, point, net, work), top), np.int32(0))
        own.group[w, j] = g
        own.starts[w, g + 1] += 1
        own.numbers[w, 1] = max(own.numbers[w, 1], g)
    for g in range(1, GROUPS + 2):
        own.starts[w, g] += own.starts[w, g - 1]
    for j in range(count):
        g = own.group[w, j]
        own.order[w, own.starts[w, g]] = j
        own.place[w, j] = own.starts[w, g]
        own.starts[w, g] += 1
    for g in range(GROUPS + 1, 0, -1):
        own.starts[w, g] = own.starts[w, g - 1]
    own.starts[w, 0] = 0


def _exchange(here, there, w, own):
    """Exchange what stands at two places of the list."""
    if here != there:
        a, b = own.order[w, here], own.order[w, there]
        own.order[w, here] = b
        own.order[w, there] = a
        own.place[w, a] = there
        own.place[w, b] = here


def update(j, w, t, point, plan, replicate, net, work, own):
    """Move the reactions that depend on what changed; false if one is above all groups."""
    top = own.numbers[w, 0]
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        for k in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            r = net.affected[k]
            a = propensity(r, w, t, point, net, work)
            if a < 0.0:
                own.numbers[w, 2] = 1
            to = _group_of(a, top)
            g = np.int32(own.group[w, r])
            if to == g:
                continue
            if to < 0 or (to == 0 and a > 0.0):
                return False
            own.group[w, r] = to
            own.numbers[w, 1] = max(own.numbers[w, 1], to)
            here = own.place[w, r]
            while g < to:
                last = own.starts[w, g + 1] - 1
                _exchange(here, last, w, own)
                own.starts[w, g + 1] = last
                here = last
                g += 1
            while g > to:
                first = own.starts[w, g]
                _exchange(here, first, w, own)
                own.starts[w, g] = first + 1
                here = first
                g -= 1
    return True


def advance(w, t, limit, point, draw, plan, replicate, net, work, own):
    """Candidates at the rate of all upper bounds, until one is accepted."""
    if own.numbers[w, 2] > 0:
        return t, FAILED_NEGATIVE, draw
    lowest = own.numbers[w, 1]
    while lowest > 1 and own.starts[w, lowest] == own.starts[w, lowest + 1]:
        lowest -= 1
    own.numbers[w, 1] = lowest
    highest_bound = power_of_two(own.numbers[w, 0])
    total = real(0.0)
    bound = highest_bound
    for g in range(1, lowest + 1):
        total += real(own.starts[w, g + 1] - own.starts[w, g]) * bound
        bound *= 0.5
    if total == 0.0:
        return real(INFINITY), NO_REACTION, draw
    if not (total > 0.0 and total < INFINITY):
        return t, FAILED_NOT_FINITE, draw
    while True:
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
        draw += 1
        t += exponential(w0, w1) / total
        if t >= limit:
            return t, NO_REACTION, draw
        target = uniform(w2, w3) * total
        bound = highest_bound
        g = 1
        weight = real(own.starts[w, 2] - own.starts[w, 1]) * bound
        while g < lowest and target >= weight:
            target -= weight
            bound *= 0.5
            g += 1
            weight = real(own.starts[w, g + 1] - own.starts[w, g]) * bound
        first = own.starts[w, g]
        count = own.starts[w, g + 1] - first
        if count == 0:
            continue
        position = target / bound
        member = min(np.int32(position), np.int32(count - 1))
        j = own.order[w, first + member]
        a = propensity(j, w, t, point, net, work)
        # The place within the member's share is even, and decides whether it is accepted.
        if (position - real(member)) * bound < a:
            return t, j, draw


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row that a worker keeps."""
    count = tables.reaction_count
    return {
        "order": (count, np.int32),
        "place": (count, np.int32),
        "group": (count, np.int8),
        "starts": (GROUPS + 2, np.int32),
        "numbers": (3, np.int32),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """What all workers share: nothing."""
    return {}
