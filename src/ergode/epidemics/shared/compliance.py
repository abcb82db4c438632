"""Which nodes take part in a measure: those with an attribute, all of them or with a probability.

Whether a node takes part is drawn once for each measure and replicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.source import Precision
from ergode.core.math.random import COMPLIANCE, draw_words, uniform
from ergode.epidemics.shared.names import members_of
from ergode.epidemics.shared.options import HAS_COMPLIANCE
from ergode.models.epidemic.attributes import ByAttribute, Network, entry_of_nodes
from ergode.models.epidemic.interventions import Intervention

_FIELDS = ("among", "contacts_among")
_CONTACTS = np.uint32(0x100)  # of draws: for a contact, not for the case


class Groups(NamedTuple):
    """The nodes that measures are for."""

    case: Any  # row of the other two for each measure, int32 [intervention_count]; -1: all nodes
    contact: Any  # likewise for contacts of its cases
    members: Any  # whether a node may take part, uint8 [group_count, node_count]
    # With what probability it does, real [group_count, node_count]; [1] if that is always 1.
    compliance: Any


def groups_of(
    interventions: Sequence[Intervention], contacts: Network, precision: Precision
) -> Groups:
    """The groups of a plan.

    Raises a ModelError if the network has no such attribute, or a node's value has no entry.
    """
    rows = [np.full(max(1, len(interventions)), -1, np.int32) for _ in _FIELDS]
    members: list[np.ndarray] = []
    shares: list[np.ndarray] = []
    for k, one in enumerate(interventions):
        for row, name in zip(rows, _FIELDS, strict=True):
            among = getattr(one, name, None)
            if among is None:
                continue
            row[k] = len(members)
            if isinstance(among, ByAttribute):
                entry = entry_of_nodes(among.division, contacts)
                shares.append(np.asarray(among.entries, precision)[entry])
                members.append((shares[-1] > 0).astype(np.uint8))
            else:
                members.append(members_of(contacts, among, one.place(k)))
                shares.append(np.ones(members[-1].size, precision))
    if not has_compliance(interventions):
        shares = [np.ones(1, precision)]
    case, contact = rows
    return Groups(
        case, contact, np.array(members or [np.zeros(1)], np.uint8), np.array(shares, precision)
    )


def has_compliance(interventions: Sequence[Intervention]) -> bool:
    """Whether nodes take part in a measure with a probability."""
    given = (getattr(one, name, None) for one in interventions for name in _FIELDS)
    return any(isinstance(among, ByAttribute) for among in given)


def compliance_bindings(interventions: Sequence[Intervention]) -> dict[Any, bool]:
    """Options of kernels for measures in which nodes take part with a probability."""
    return {HAS_COMPLIANCE: True} if has_compliance(interventions) else {}


# ---- device functions


def takes_part(plan, k, node, seed, replicate):
    """Whether a node takes part in a measure."""
    return _is_in(plan.groups, plan.groups.case[k], np.uint32(k), node, seed, replicate)


def may_be_traced(plan, k, node, seed, replicate):
    """Whether a contact of a case of a measure may be traced."""
    index = np.uint32(k) | _CONTACTS
    return _is_in(plan.groups, plan.groups.contact[k], index, node, seed, replicate)


def _is_in(groups, group, index, node, seed, replicate):
    if group < 0:
        return True
    if groups.members[group, node] == 0:
        return False
    if HAS_COMPLIANCE and groups.compliance[group, node] < 1.0:
        w0, w1, w2, w3 = draw_words(seed, replicate, node, COMPLIANCE, index)
        return uniform(w0, w1) <= groups.compliance[group, node]
    return True
