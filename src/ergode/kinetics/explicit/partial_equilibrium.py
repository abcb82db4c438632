"""Partial equilibrium: removes equilibrated forward-reverse pairs from the net fluxes.

A reaction and its reverse are a *group*. After an extent xi of reaction the amounts of its members
are Y_i + nu_i xi, and the net rate is

    d xi / dt = k_f prod (Y_i + nu_i xi) - k_r prod (Y_j + nu_j xi) = A xi^2 + B xi + C,

exactly for at most two reactants and products, to second order in xi for three. The equilibrium and
its time scale are, with D = B^2 - 4 A C,

    xi* = 2 C / (-B + sqrt(D)),    tau = 1 / sqrt(D).

A group becomes equilibrated when all its members are within 1 % of equilibrium and tau is shorter
than the step. It ends when a member is off by 20 %. The flows of equilibrated groups are subtracted
from gains and losses before a step. After the step each member is moved to the equilibrium of its
groups (the mean over them), and all amounts are scaled to keep the sum of mass fractions.

M. Guidry, J. Billings, W. Hix, Comput. Sci. Disc. 6, 015003 (2013), sections 2-6.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.network.mechanism import Structure, reactants_of
from ergode.kinetics.tables import SLOTS

JOIN, LEAVE = 0.01, 0.2
# An equilibrated group also ends if step / tau is below this.
SLOW = 0.5


class Groups(NamedTuple):
    """Reactions and their reverses."""

    # uint32 [3, group_count]: reactants and products; empty slots refer to the variable that is
    # one.
    left: np.ndarray
    right: np.ndarray
    # float64 [3, group_count]: net change of each of them by one forward reaction.
    left_change: np.ndarray
    right_change: np.ndarray
    # uint32 [group_count + 1].
    forward_start: np.ndarray
    # uint32: forward and reverse reactions.
    forward: np.ndarray
    backward_start: np.ndarray
    backward: np.ndarray
    member_start: np.ndarray  # uint32 [species_count + 1]: first group of each species, in `group`
    group: np.ndarray  # uint32: groups of species
    change: np.ndarray  # float64: net change of the species in each of them


def groups_of(structure: Structure, wanted: bool = True) -> Groups:
    """Groups of a network; none unless `wanted`."""
    count = structure.species_count
    reactions: dict[tuple[Any, Any], list[int]] = {}
    nets: dict[tuple[Any, Any], Any] = {}
    for r, (orders, net) in enumerate(zip(structure.orders, structure.net, strict=True)):
        left = reactants_of(orders)
        assert left is not None  # refused before
        amounts = {i: left.count(i) for i in left}
        for i, change in net.items():
            amounts[i] = amounts.get(i, 0) + int(change)
        right = tuple(sorted(i for i, times in amounts.items() for _ in range(times)))
        reactions.setdefault((left, right), []).append(r)
        nets[left, right] = net
    pairs = [
        (left, right)
        for left, right in reactions
        if wanted
        and left < right
        and nets.get((right, left)) == {i: -change for i, change in nets[left, right].items()}
    ]
    slots = [np.full((SLOTS, len(pairs)), count, np.uint32) for _ in range(2)]
    changes = [np.zeros((SLOTS, len(pairs))) for _ in range(2)]
    members: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for g, pair in enumerate(pairs):
        net = nets[pair]
        for side, species in enumerate(pair):
            for k, i in enumerate(species):
                slots[side][k, g] = i
                changes[side][k, g] = net.get(i, 0.0)
        for i, change in net.items():
            members[i].append((g, change))
    ahead = [reactions[pair] for pair in pairs]
    back = [reactions[pair[::-1]] for pair in pairs]
    flat = [item for items in members for item in items]
    return Groups(
        slots[0],
        slots[1],
        changes[0],
        changes[1],
        _starts(ahead),
        np.array([r for items in ahead for r in items], np.uint32),
        _starts(back),
        np.array([r for items in back for r in items], np.uint32),
        _starts(members),
        np.array([g for g, _ in flat], np.uint32),
        np.array([change for _, change in flat], np.float64),
    )


def _starts(lists: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.uint32)


# --- device functions -----------------------------------------------------------------------------


def group_rates(groups, workspace, group):
    """Compute the forward and reverse coefficients of all groups."""
    for g in no_unroll(share(group, 0, workspace.forward.size)):
        total = 0.0
        for count in range(groups.forward_start[g], groups.forward_start[g + 1]):
            total += workspace.slots[groups.forward[count & NONNEGATIVE]]
        workspace.forward[g] = total
        total = 0.0
        for count in range(groups.backward_start[g], groups.backward_start[g + 1]):
            total += workspace.slots[groups.backward[count & NONNEGATIVE]]
        workspace.backward[g] = total


def expanded(species, change, g, y):
    """Product of three amounts as a quadratic of the extent: value, slope and curvature."""
    a, b, c = y[species[0, g]], y[species[1, g]], y[species[2, g]]
    u, v, w = change[0, g], change[1, g], change[2, g]
    slope = u * b * c + a * v * c + a * b * w
    return a * b * c, slope, u * v * c + u * b * w + a * v * w


def balance(groups, workspace, g, y):
    """The extent of reaction to the equilibrium of group g, and the relaxation rate [1/s]."""
    value, slope, bend = expanded(groups.left, groups.left_change, g, y)
    other, other_slope, other_bend = expanded(groups.right, groups.right_change, g, y)
    c = workspace.forward[g] * value - workspace.backward[g] * other
    b = workspace.forward[g] * slope - workspace.backward[g] * other_slope
    a = workspace.forward[g] * bend - workspace.backward[g] * other_bend
    root = max(b * b - 4.0 * a * c, 0.0) ** 0.5
    return (2.0 * c / (root - b) if root - b > 0.0 else 0.0), root


def apart(species, change, g, y, extent):
    """Largest relative distance of the members of one side from equilibrium."""
    worst = 0.0
    for k in no_unroll(range(3)):
        moved = change[k, g] * extent
        if moved != 0.0:
            balanced = y[species[k, g]] + moved
            worst = max(worst, abs(moved) / balanced if balanced > 0.0 else 1.0)
    return worst


def judge(groups, workspace, y, dt):
    """Mark the groups that are in equilibrium; ends in a barrier."""
    group = workspace.group
    for g in no_unroll(share(group, 0, workspace.active.size)):
        extent, speed = balance(groups, workspace, g, y)
        off = max(
            apart(groups.left, groups.left_change, g, y, extent),
            apart(groups.right, groups.right_change, g, y, extent),
        )
        if workspace.active[g] > 0.0:
            # A group that relaxes more slowly than a step freezes out.
            workspace.active[g] = 1.0 if off < LEAVE and speed * dt > SLOW else 0.0
        else:
            workspace.active[g] = 1.0 if off < JOIN and speed * dt > 1.0 else 0.0
    barrier(group)


def withdraw(groups, workspace, flow):
    """Subtract the flows of equilibrated groups, at amounts `workspace.y`, from gains and losses.

    Begins and ends in a barrier.
    """
    group = workspace.group
    y, count = workspace.y, workspace.start.size
    barrier(group)
    for g in no_unroll(share(group, 0, workspace.active.size)):
        left, right = groups.left, groups.right
        active = workspace.active[g]
        workspace.ahead[g] = (
            active * workspace.forward[g] * y[left[0, g]] * y[left[1, g]] * y[left[2, g]]
        )
        workspace.back[g] = (
            active * workspace.backward[g] * y[right[0, g]] * y[right[1, g]] * y[right[2, g]]
        )
    barrier(group)
    for i in no_unroll(share(group, 0, count)):
        gain, loss = flow[i], flow[count + i]
        for k in no_unroll(range(groups.member_start[i], groups.member_start[i + 1])):
            member = k & NONNEGATIVE
            g, change = groups.group[member], groups.change[member]
            made, taken = max(change, 0.0), max(-change, 0.0)
            gain -= made * workspace.ahead[g] + taken * workspace.back[g]
            loss -= taken * workspace.ahead[g] + made * workspace.back[g]
        # Cancellation may leave negative values.
        flow[i] = max(gain, 0.0)
        flow[count + i] = max(loss, 0.0)
    barrier(group)


def restore(groups, workspace, y, weight, total):
    """Move members of equilibrated groups to equilibrium; scale the weighted sum to `total`.

    Begins and ends in a barrier.
    """
    group = workspace.group
    count = weight.size
    barrier(group)
    for g in no_unroll(share(group, 0, workspace.active.size)):
        extent, _ = balance(groups, workspace, g, y)
        workspace.extent[g] = workspace.active[g] * extent
    barrier(group)
    part = 0.0
    for i in no_unroll(share(group, 0, count)):
        moved, several = 0.0, 0.0
        for k in no_unroll(range(groups.member_start[i], groups.member_start[i + 1])):
            member = k & NONNEGATIVE
            g = groups.group[member]
            moved += groups.change[member] * workspace.extent[g]
            several += workspace.active[g]
        if several > 0.0:
            y[i] = max(y[i] + moved / several, 0.0)
        part += weight[i] * y[i]
    now = total_of(group, part, 0)
    factor = total / now if now > 0.0 else 1.0
    for i in no_unroll(share(group, 0, count)):
        y[i] *= factor
    barrier(group)
