"""The arcs of a computed network: tables, and the device function that computes a target.

Every node has the same number of slots.  A slot is an arc to another node, or it is unused and
leads to the node itself; an infection that passes from a node to itself changes nothing.  Slot k of
node i is arc ``i x slot_count + k``.

Random regular layers: slots 2p and 2p + 1 of node i lead to pi_p(i) and to the node that pi_p takes
to i, with keyed permutations pi_p (`permutations`).  So an arc from i to j in slot 2p has the
reverse arc in slot 2p + 1 of j.

Groups: a keyed permutation takes nodes to places, and consecutive places are groups, whose sizes
repeat a pattern.  Slot k leads to the k-th other member of the group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import option
from ergode.models.networks.permutations import ROUNDS, Domain, domain_of, last_key, permuted

GROUPED = option(True)
"""Whether some layers are groups."""

FORWARD, BACKWARD = -1, -2  # instead of a member of a group


class ComputedArcs(NamedTuple):
    """Read-only tables of a computed network."""

    domain: Domain
    slot_count: Any  # arcs of a node, uint64
    reciprocal: Any  # 2^32 / slot_count, rounded up, uint64
    key: Any  # of the permutation of a slot, in its direction, uint32 [slot_count]
    step: Any  # uint32 [slot_count]
    member: Any  # other member of the group, or FORWARD or BACKWARD, int32 [slot_count]
    first: Any  # where the pattern of a slot's layer begins, int64 [slot_count]
    period: Any  # places in this pattern, int64 [slot_count] (1 for random regular layers)
    begin: Any  # first place of the group of each place of a pattern, int32
    size: Any  # size of that group, int32


def keys_of(seed: int, kind: str, number: int) -> tuple[np.uint32, np.uint32]:
    """The two words that key permutation `number` of a layer: the first key, and an odd step."""
    words = hashlib.sha256(f"ergode {kind} {seed} {number}".encode()).digest()
    key, step = np.frombuffer(words[:8], "<u4")
    return key, step | np.uint32(1)


def arcs_of(
    node_count: int, parts: Sequence[tuple[str, int, tuple[int, ...], int]]
) -> ComputedArcs:
    """The tables of layers (kind, degree, sizes of groups, seed)."""
    columns: list[tuple[Any, ...]] = []
    begins, sizes, length = [np.zeros(1, np.int32)], [np.ones(1, np.int32)], 1
    for kind, degree, pattern, seed in parts:
        if pattern:
            repeated = np.array(pattern)
            key, step = keys_of(seed, kind, 0)
            period = int(repeated.sum())
            columns += [(key, step, member, length, period) for member in range(degree)]
            begins.append(np.repeat(np.cumsum(repeated) - repeated, repeated))
            sizes.append(np.repeat(repeated, repeated))
            length += period
        else:
            for number in range(degree // 2):
                key, step = keys_of(seed, kind, number)
                back = np.uint32((int(key) + (ROUNDS - 1) * int(step)) & 0xFFFFFFFF)
                columns.append((key, step, FORWARD, 0, 1))
                columns.append((back, np.uint32(-int(step) & 0xFFFFFFFF), BACKWARD, 0, 1))
    types = (np.uint32, np.uint32, np.int32, np.int64, np.int64)
    transposed = zip(*columns, strict=True)
    slots = [np.array(column, kind) for column, kind in zip(transposed, types, strict=True)]
    return ComputedArcs(
        domain_of(node_count), np.uint64(len(columns)), np.uint64(-(-(2**32) // len(columns))),
        slots[0], slots[1], slots[2], slots[3], slots[4],
        np.concatenate(begins).astype(np.int32), np.concatenate(sizes).astype(np.int32),
    )  # fmt: skip


# ---- device functions


def slot_target(arcs, node, slot):
    """The node that a slot of a node leads to (uint64); the node itself for an unused slot."""
    key, step = arcs.key[slot], arcs.step[slot]
    if not GROUPED:
        return permuted(node, key, step, (slot & 1) != 0, arcs.domain)
    member = np.int64(arcs.member[slot])
    place = permuted(node, key, step, member == BACKWARD, arcs.domain)
    if member < 0:
        return place
    period = arcs.period[slot]
    place = np.int64(place)
    block = place // period
    entry = arcs.first[slot] + place - block * period
    other = block * period + arcs.begin[entry] + member
    if member + 1 >= arcs.size[entry]:
        return np.uint64(node)
    if other >= place:  # the node itself is not among the others
        other += 1
    if other >= np.int64(arcs.domain.count):  # the last group may be incomplete
        return np.uint64(node)
    return permuted(other, last_key(key, step), np.uint32(np.uint32(0) - step), True, arcs.domain)


def reverse_slot(arcs, node, slot):
    """The slot of the target that leads back to the node; the slot must not be unused."""
    if not GROUPED:
        return np.int64(slot ^ 1)
    member = np.int64(arcs.member[slot])
    if member < 0:
        return np.int64(slot) + (1 if member == FORWARD else -1)
    period = arcs.period[slot]
    place = np.int64(permuted(node, arcs.key[slot], arcs.step[slot], False, arcs.domain)) % period
    own = place - arcs.begin[arcs.first[slot] + place]  # the node is this member of its group
    # The other members, without the target, are numbered in the order of places.
    return np.int64(slot) - member + (own - 1 if member < own else own)


def compute_targets(index, arcs, first, targets):
    """Targets of all slots of node `first` + `index`, into row `index` of `targets`."""
    node = first + index
    for slot in range(targets.shape[1]):
        targets[index, slot] = slot_target(arcs, node, slot)
