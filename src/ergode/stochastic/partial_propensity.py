"""Partial propensities: for mass action in which everything reacts with everything.

The propensity of a reaction of two molecules is n times what is left, its partial propensity,
which depends on the other molecule alone.  Reactions that share a factor n form a group, of which
the sum of partial propensities is kept; when a count changes, it is these sums that change: at
most one for each species it reacts with, not one for each reaction.

R. Ramaswamy, N. Gonzalez-Segredo, I. F. Sbalzarini, "A new class of highly efficient exact
stochastic simulation algorithms for chemical reaction networks", J. Chem. Phys. 130 (2009).

The partial propensities themselves are not stored but made of the counts where they are needed;
and a group that is searched is added up anew, so that sums do not drift.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.machine import outlined, real
from ergode.core.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.realization import (
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    INFINITY,
    NO_REACTION,
)
from ergode.stochastic.tables import Tables

NOTHING, ITSELF = -1, -2
BLOCK_LEAST = 8


class Own(NamedTuple):
    """What the method keeps; rows of one worker each, and what all share."""

    partial: Any  # [worker, group] sum of partial propensities
    sums: Any  # [worker, block] sum of propensities
    dirty: Any  # [worker, block] whether it is to be made anew
    listed: Any  # [worker, block] which blocks are
    width: Any  # [1] groups of a block
    factor: Any  # [group] variable that is factored out; -1 for none
    member_starts: Any  # [group + 1]
    members: Any  # [entry] reaction
    partners: Any  # [entry] variable it depends on besides; -1 for none, -2 for the factor itself
    touch_starts: Any  # [variable + 1]
    touched: Any  # [entry] group that depends on the variable by a partial propensity
    by: Any  # [entry] reaction it does so by


def _count_of(variable, w, work):
    """A factor; one where there is none."""
    return work.x[w, variable] if variable >= 0 else real(1.0)


def _partial_of(entry, factor, w, point, net, work, own):
    """Partial propensity of a member of a group."""
    c = net.coefficients[point, own.members[entry]]
    partner = own.partners[entry]
    if partner >= 0:
        return c * work.x[w, partner]
    if partner == ITSELF:
        return c * max(work.x[w, factor] - 1.0, real(0.0))
    return c


def _group_sum(g, w, point, net, work, own):
    factor = own.factor[g]
    total = real(0.0)
    for entry in range(own.member_starts[g], own.member_starts[g + 1]):
        total += _partial_of(entry, factor, w, point, net, work, own)
    return total


def _add_up(block, w, work, own):
    first = block * own.width[0]
    total = real(0.0)
    for g in range(first, min(first + own.width[0], own.partial.shape[1])):
        total += _count_of(own.factor[g], w, work) * own.partial[w, g]
    own.sums[w, block] = total


@outlined
def prepare(w, t, point, plan, replicate, net, work, own):
    """All sums from the counts."""
    for g in range(own.partial.shape[1]):
        own.partial[w, g] = _group_sum(g, w, point, net, work, own)
    for block in range(own.sums.shape[1]):
        _add_up(block, w, work, own)
        own.dirty[w, block] = 0


def _mark(g, count, w, own):
    """Note that the block of a group is to be added up; how many there are then."""
    block = g // own.width[0]
    if own.dirty[w, block] == 0:
        own.dirty[w, block] = 1
        own.listed[w, count] = block
        count += 1
    return count


def update(j, w, t, point, plan, replicate, net, work, own):
    """Correct the sums of the groups that depend on what changed."""
    count = 0
    groups = own.partial.shape[1]
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        delta = net.changes[entry]
        for k in range(own.touch_starts[variable], own.touch_starts[variable + 1]):
            g = own.touched[k]
            value = own.partial[w, g] + delta * net.coefficients[point, own.by[k]]
            own.partial[w, g] = max(value, real(0.0))
            count = _mark(g, count, w, own)
        if variable < groups:  # the group whose factor it is
            count = _mark(variable, count, w, own)
    for k in range(count):
        block = own.listed[w, k]
        _add_up(block, w, work, own)
        own.dirty[w, block] = 0
    return True


def choose(target, w, point, net, work, own):
    """Reaction in whose share of the sum `target` falls; none if rounding led astray."""
    block = 0
    last = own.sums.shape[1] - 1
    while block < last and target >= own.sums[w, block]:
        target -= own.sums[w, block]
        block += 1
    first = block * own.width[0]
    most = min(first + own.width[0], own.partial.shape[1])
    chosen = -1
    inside = real(0.0)
    for g in range(first, most):
        n = _count_of(own.factor[g], w, work)
        a = n * own.partial[w, g]
        if a > 0.0:
            chosen = g
            inside = target / n
            if target < a:
                break
        target -= a
    j = -1
    if chosen >= 0:
        factor = own.factor[chosen]
        total = real(0.0)
        for entry in range(own.member_starts[chosen], own.member_starts[chosen + 1]):
            value = _partial_of(entry, factor, w, point, net, work, own)
            if value > 0.0 and (j < 0 or inside >= total):
                j = own.members[entry]
            total += value
        own.partial[w, chosen] = total
    if j < 0:
        _add_up(block, w, work, own)
    return j


def advance(w, t, limit, point, draw, plan, replicate, net, work, own):
    """The next firing."""
    while True:
        total = real(0.0)
        for block in range(own.sums.shape[1]):
            total += own.sums[w, block]
        if total == 0.0:
            return real(INFINITY), NO_REACTION, draw
        if not (total > 0.0 and total < INFINITY):
            return t, FAILED_NEGATIVE if total < 0.0 else FAILED_NOT_FINITE, draw
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
        draw += 1
        fires_at = t + exponential(w0, w1) / total
        if fires_at >= limit:
            return fires_at, NO_REACTION, draw
        j = choose(uniform(w2, w3) * total, w, point, net, work, own)
        if j >= 0:
            return fires_at, j, draw


def _width(group_count: int) -> int:
    return max(BLOCK_LEAST, int(np.sqrt(group_count)))


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row that a worker keeps."""
    groups = tables.variable_count + 1
    blocks = -(-groups // _width(groups))
    return {
        "partial": (groups, np.float64),
        "sums": (blocks, np.float64),
        "dirty": (blocks, np.int8),
        "listed": (blocks, np.int32),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Groups: what all workers share."""
    net, groups = tables.net, tables.variable_count + 1
    count = tables.reaction_count
    starts = net.reactant_starts
    kinds = np.diff(starts)
    first = np.full(count, groups - 1)  # the last group has no factor
    partner = np.full(count, NOTHING)
    some = kinds > 0
    first[some] = net.reactants[starts[:-1][some]]
    doubled = some.copy()
    doubled[some] = (net.orders[starts[:-1][some]] == 2) & (kinds[some] == 1)
    partner[doubled] = ITSELF
    pairs = kinds == 2
    partner[pairs] = net.reactants[starts[:-1][pairs] + 1]
    # Of two reactants the one with fewer reactions is the partner: its sums are corrected more.
    busy = np.diff(net.affected_starts)
    swap = pairs.copy()
    swap[pairs] = busy[partner[pairs]] > busy[first[pairs]]
    first[swap], partner[swap] = partner[swap], first[swap]
    order = np.argsort(first, kind="stable")
    moved = np.flatnonzero((partner >= 0) | (partner == ITSELF))
    variable = np.where(partner[moved] == ITSELF, first[moved], partner[moved])
    by = np.argsort(variable, kind="stable")
    factor = np.arange(groups, dtype=np.int32)
    factor[-1] = NOTHING

    def offsets(values: np.ndarray, length: int) -> np.ndarray:
        counts = np.bincount(values, minlength=length)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    return {
        "width": np.array([_width(groups)], np.int32),
        "factor": factor,
        "member_starts": offsets(first, groups),
        "members": order.astype(np.int32),
        "partners": partner[order].astype(np.int32),
        "touch_starts": offsets(variable, tables.variable_count),
        "touched": first[moved[by]].astype(np.int32),
        "by": moved[by].astype(np.int32),
    }
