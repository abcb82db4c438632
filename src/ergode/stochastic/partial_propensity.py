"""Partial propensities: for mass action in which everything reacts with everything.

The propensity of a reaction of two molecules is n times what is left, its partial propensity,
which depends on the other molecule alone.  Reactions that share a factor n form a group, of which
the sum of partial propensities is kept; when a count changes, it is these sums that change: at
most one for each species it reacts with, not one for each reaction.

R. Ramaswamy, N. Gonzalez-Segredo, I. F. Sbalzarini, "A new class of highly efficient exact
stochastic simulation algorithms for chemical reaction networks", J. Chem. Phys. 130 (2009).

The partial propensities themselves are not stored but made of the counts where they are needed.
Sums are corrected by differences; a group that is searched, and one whose sum has all but
vanished, is added up anew, so that they do not drift.

On a GPU a team of threads has a realization: counts and sums in shared memory, a share of the
groups, and of the members of the group that is searched, for every thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.machine import cuda, outlined, real
from ergode.core.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.realization import (
    FAILED_NEGATIVE,
    FAILED_NOT_FINITE,
    INFINITY,
    NO_REACTION,
)
from ergode.stochastic.tables import ONE_LESS, Tables, offsets
from ergode.stochastic.teams import ALL, TEAM, at, search, sync

BLOCK = 16
# Of what a sum was, so little may be left before it is added up anew.
VANISHED = 2.0**-20


class Own(NamedTuple):
    """What the method keeps; rows of one worker each, and what all share."""

    counts: Any  # [worker, variable + 1 ...] the state, and a one; zeros up to the end of a block
    partial: Any  # [worker, group ...] sum of partial propensities; the same
    sums: Any  # [worker, block] sum of propensities
    member_starts: Any  # [group + 1]
    members: Any  # [entry] reaction
    partners: Any  # [entry] variable it depends on besides: the last, which is one, for none
    coefficients: Any  # [point, entry]
    touch_starts: Any  # [variable + 1]
    touched: Any  # [entry] group that depends on the variable by partial propensities
    touch_coefficients: Any  # [point, entry] their sum of coefficients


def _partial_of(entry, w, point, own):
    """Partial propensity of a member of a group."""
    partner = own.partners[entry]
    n = own.counts[w, partner & (ONE_LESS - 1)] - real(partner >> 30)
    return own.coefficients[point, entry] * n


@outlined
def _add_up(g, w, point, own):
    total = real(0.0)
    for entry in range(own.member_starts[g], own.member_starts[g + 1]):
        total += _partial_of(entry, w, point, own)
    own.partial[w, g] = total


@outlined
def prepare(w, t, point, plan, replicate, net, work, own):
    """All sums from the counts."""
    groups = work.x.shape[1]
    for g in range(own.partial.shape[1]):
        own.counts[w, g] = work.x[w, g] if g < groups else 0.0
        own.partial[w, g] = 0.0
    for g in range(groups):
        _add_up(g, w, point, own)


def update(j, w, t, point, plan, replicate, net, work, own):
    """Correct the sums of the groups that depend on what changed."""
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        delta = net.changes[entry]
        # One by one: a sum that is added up anew knows the counts that were looked at, not others.
        own.counts[w, variable] += delta
        for k in range(own.touch_starts[variable], own.touch_starts[variable + 1]):
            g = own.touched[k]
            before = own.partial[w, g]
            after = before + delta * own.touch_coefficients[point, k]
            own.partial[w, g] = after
            if abs(after) <= VANISHED * abs(before):
                _add_up(g, w, point, own)
    return True


def choose(target, w, point, own):
    """Reaction in whose share of the sum `target` falls; none if rounding led astray."""
    block = 0
    last = own.sums.shape[1] - 1
    while block < last and target >= own.sums[w, block]:
        target -= own.sums[w, block]
        block += 1
    chosen = -1
    inside = real(0.0)
    for g in range(block * BLOCK, (block + 1) * BLOCK):
        n = own.counts[w, g]
        a = n * own.partial[w, g]
        if a > 0.0:
            chosen = g
            inside = target / n
            if target < a:
                break
        target -= a
    if chosen < 0:
        return -1
    found = -1
    total = real(0.0)
    for entry in range(own.member_starts[chosen], own.member_starts[chosen + 1]):
        value = _partial_of(entry, w, point, own)
        if value > 0.0 and inside >= total:
            found = entry
        total += value
    own.partial[w, chosen] = total
    return own.members[found] if found >= 0 else -1


def _sum_of_block(block, w, own):
    """Sum of the propensities of a block, in four parts that do not wait for each other."""
    s0, s1, s2, s3 = real(0.0), real(0.0), real(0.0), real(0.0)
    for g in range(block * BLOCK, (block + 1) * BLOCK, 4):
        s0 += own.counts[w, g] * own.partial[w, g]
        s1 += own.counts[w, g + 1] * own.partial[w, g + 1]
        s2 += own.counts[w, g + 2] * own.partial[w, g + 2]
        s3 += own.counts[w, g + 3] * own.partial[w, g + 3]
    return (s0 + s1) + (s2 + s3)


def advance(w, t, limit, point, draw, plan, replicate, net, work, own):
    """The next firing."""
    while True:
        total = real(0.0)
        for block in range(own.sums.shape[1]):
            part = _sum_of_block(block, w, own)
            own.sums[w, block] = part
            total += part
        if total == 0.0:
            return real(INFINITY), NO_REACTION, draw
        if not (total > 0.0 and total < INFINITY):
            return t, FAILED_NEGATIVE if total < 0.0 else FAILED_NOT_FINITE, draw
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
        draw += 1
        fires_at = t + exponential(w0, w1) / total
        if fires_at >= limit:
            return fires_at, NO_REACTION, draw
        j = choose(uniform(w2, w3) * total, w, point, own)
        if j >= 0:
            return fires_at, j, draw


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row that a worker keeps."""
    blocks = -(-(tables.variable_count + 1) // BLOCK)
    return {
        "counts": (blocks * BLOCK, np.float64),
        "partial": (blocks * BLOCK, np.float64),
        "sums": (blocks, np.float64),
    }


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Groups: what all workers share. The last group has no factor."""
    net, groups = tables.net, tables.variable_count + 1
    count = tables.reaction_count
    one = groups - 1
    starts = net.reactant_starts
    kinds = np.diff(starts)
    first, partner = np.full(count, one), np.full(count, one)
    some = kinds > 0
    first[some] = net.reactants[starts[:-1][some]]
    doubled = some.copy()
    doubled[some] = (net.orders[starts[:-1][some]] == 2) & (kinds[some] == 1)
    partner[doubled] = first[doubled]
    pairs = kinds == 2
    partner[pairs] = net.reactants[starts[:-1][pairs] + 1]
    # Of two reactants the one with fewer reactions is the partner: its sums are corrected more.
    busy = np.diff(net.affected_starts)
    swap = pairs.copy()
    swap[pairs] = busy[partner[pairs]] > busy[first[pairs]]
    first[swap], partner[swap] = partner[swap], first[swap]
    order = np.argsort(first, kind="stable")
    # Groups that a variable touches, each once, with the sum of their coefficients.
    moved = np.flatnonzero(partner < one)
    key, place = np.unique(partner[moved] * groups + first[moved], return_inverse=True)
    sums = np.zeros((len(net.coefficients), key.size))
    for point, row in enumerate(net.coefficients):
        sums[point] = np.bincount(place, weights=row[moved], minlength=key.size)
    return {
        "member_starts": offsets(first, groups),
        "members": order.astype(np.int32),
        "partners": (partner + ONE_LESS * doubled)[order].astype(np.int32),
        "coefficients": np.ascontiguousarray(net.coefficients[:, order]),
        "touch_starts": offsets(key // groups, tables.variable_count),
        "touched": (key % groups).astype(np.int32),
        "touch_coefficients": sums,
    }


# ---- a team of threads


class TeamOwn(NamedTuple):
    """As `Own`; counts and sums are in shared memory, members in the order threads read them.

    The k-th member of the share of thread `m` stands at ``k * TEAM + m`` of its group.
    """

    member_starts: Any
    members: Any
    partners: Any
    coefficients: Any
    touch_starts: Any
    touched: Any
    touch_coefficients: Any


def team_count(i, base, team, memory, work):
    """Count of a species."""
    return memory[at(base + i)]


def _team_partial_of(entry, base, point, memory, own):
    partner = own.partners[entry]
    n = memory[at(base + (partner & (ONE_LESS - 1)))] - real(partner >> 30)
    return own.coefficients[point, entry] * n


def _team_add_up(g, base, point, memory, own):
    """Sum of a group, by one thread."""
    total = real(0.0)
    entry, end = at(own.member_starts[g]), at(own.member_starts[at(g + 1)])
    while entry < end:
        total += _team_partial_of(entry, base, point, memory, own)
        entry = at(entry + 1)
    return total


def team_prepare(t, point, member, base, team, memory, net, work, own):
    """All sums from the counts."""
    groups = at(own.member_starts.size - 1)
    i = member
    while i < groups:
        memory[at(base + i)] = net.initial[point, i]
        i = at(i + TEAM)
    sync()
    g = member
    while g < groups:
        memory[at(base + groups + g)] = _team_add_up(g, base, point, memory, own)
        g = at(g + TEAM)


def _width(groups):
    """Groups in the share of a thread: odd, so that no two are in one bank of the memory."""
    return at(((groups + TEAM - 1) // TEAM) | 1)


def _propensity_of(k, groups, memory):
    """Sum of the propensities of a group, whose count is at `k`."""
    return memory[k] * memory[at(k + groups)]


def team_share(member, base, team, memory, work, own):
    """What this thread has of the sum of all propensities."""
    groups = at(own.member_starts.size - 1)
    width = _width(groups)
    k = at(base + min(member * width, groups))
    end = at(base + min((member + 1) * width, groups))
    mine = real(0.0)
    while k < end:
        mine += _propensity_of(k, groups, memory)
        k = at(k + 1)
    return mine


def team_choose(who, target, point, lane, member, base, scratch, team, memory, work, own):
    """Reaction in whose share of the sum `target` of thread `who` falls; -1 for none."""
    groups = at(own.member_starts.size - 1)
    width = _width(groups)
    begin, end = at(who * width), at(min((who + 1) * width, groups))
    g = groups
    while begin < end:
        value = real(0.0)
        if begin + member < end:
            value = _propensity_of(at(base + begin + member), groups, memory)
        found, target, total = search(value, target, lane, member, scratch, memory)
        if found >= 0:
            g = at(begin + found)
            value = _propensity_of(at(base + g), groups, memory)
            if target < value:
                break
            target -= value
        begin = at(begin + TEAM)
    if g == groups:
        return np.int32(-1)
    target /= memory[at(base + g)]
    begin, end = at(own.member_starts[g]), at(own.member_starts[at(g + 1)])
    value = real(0.0)
    entry = at(begin + member)
    while entry < end:
        value += _team_partial_of(entry, base, point, memory, own)
        entry = at(entry + TEAM)
    column, target, total = search(value, target, lane, member, scratch, memory)
    if member == 0:
        memory[at(base + groups + g)] = total
    j = np.int32(-1)
    if column >= 0:
        begin = at(begin + column)
        while begin < end:
            value = real(0.0)
            entry = at(begin + member * TEAM)
            if entry < end:
                value = _team_partial_of(entry, base, point, memory, own)
            row, target, total = search(value, target, lane, member, scratch, memory)
            if row >= 0:
                entry = at(begin + row * TEAM)
                j = own.members[entry]
                value = _team_partial_of(entry, base, point, memory, own)
                if target < value:
                    break
                target -= value
            begin = at(begin + TEAM * TEAM)
    sync()
    return j


def team_follow(j, t, point, lane, member, base, team, memory, net, work, own):
    """Change the counts by what reaction `j` does, and correct the sums that depend on them."""
    sums = at(base + own.member_starts.size - 1)
    variable, delta = np.int32(-1), real(0.0)
    if lane < net.changed.shape[1]:
        variable = net.changed[at(j), at(lane)]
        delta = net.changes[at(j), at(lane)]
    for k in range(net.changed.shape[1]):
        which = cuda.shfl_sync(ALL, variable, k)
        if which < 0:
            break
        change = cuda.shfl_sync(ALL, delta, k)
        # One by one, as `update` does.
        if member == 0:
            memory[at(base + which)] += change
        sync()
        entry, end = at(own.touch_starts[at(which)] + member), at(own.touch_starts[at(which + 1)])
        while entry < end:
            place = at(sums + own.touched[entry])
            before = memory[place]
            after = before + change * own.touch_coefficients[point, entry]
            if abs(after) <= VANISHED * abs(before):
                after = _team_add_up(at(own.touched[entry]), base, point, memory, own)
            memory[place] = after
            entry = at(entry + TEAM)
        sync()


def team_doubles(tables: Tables) -> int:
    """Numbers that a team keeps in shared memory."""
    return 2 * (tables.variable_count + 1)


def team_rows(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of what a team keeps elsewhere: nothing."""
    return {}


def team_constants(tables: Tables, size: int) -> dict[str, np.ndarray]:
    """What all teams of so many threads share."""
    found = constants(tables)
    lengths = np.diff(found["member_starts"])
    rows = -(-lengths // size)
    starts = np.concatenate([[0], np.cumsum(rows * size)]).astype(np.int32)
    group = np.repeat(np.arange(lengths.size), lengths)
    number = np.arange(group.size) - found["member_starts"][:-1][group]
    place = starts[group] + number % rows[group] * size + number // rows[group]
    members = np.zeros(int(starts[-1]), np.int32)
    partners = np.full(members.size, tables.variable_count, np.int32)
    coefficients = np.zeros((len(found["coefficients"]), members.size))
    members[place], partners[place] = found["members"], found["partners"]
    coefficients[:, place] = found["coefficients"]
    return {
        **found, "member_starts": starts, "members": members, "partners": partners,
        "coefficients": coefficients,
    }  # fmt: skip
