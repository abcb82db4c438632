"""Which method simulates a network, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic.algorithms import (
    composition_rejection,
    direct,
    leap,
    next_reaction,
    partial_propensity,
    rejection_bounds,
    three_level,
)
from ergode.stochastic.runners import compiled_direct, thread_groups
from ergode.stochastic.runners.threads import ThreadRunner
from ergode.stochastic.tables import Tables

EXACT: dict[str, ModuleType] = {
    "direct": direct,
    "warp-direct": three_level,
    "partial-propensity": partial_propensity,
    "composition-rejection": composition_rejection,
    "rejection-bounds": rejection_bounds,
    "next-reaction": next_reaction,
}
APPROXIMATE = ("tau-leap", "langevin")

# Up to so many reactions one search over all of them is quickest.
_DIRECT_MOST = 64
# Beyond so many propensities that a firing changes, sums of partial propensities are quicker.
_COUPLED_FROM = 32
# On a GPU the search in three levels has a block of warps for each realization if there are so few
# of them for a multiprocessor, and a firing changes so much.
_BLOCKS_A_MULTIPROCESSOR = 2
_BLOCK_FROM = 256
# With so many realizations for a multiprocessor, of networks of up to so many reactions, a quarter
# of a warp for each is quicker than a warp.
_QUARTERS_A_MULTIPROCESSOR = 64
_QUARTER_MOST = 2048


@dataclass(frozen=True)
class MethodPlan:
    """A method and how it runs.

    Attributes
    ----------
    name : str
    reason : str
        Why it was chosen.
    exact : bool
    runner : function
        Makes what runs chunks.
    """

    name: str
    reason: str
    exact: bool
    runner: Any


def plan(
    method: str,
    network: ReactionNetwork,
    tables: Tables,
    *,
    firings_most: int,
    logged: bool,
    realizations: int,
    device: Device,
    control: Mapping[str, np.ndarray],
) -> MethodPlan:
    """Choose a method; `control` is for those that leap (see `leap.control`).

    Raises
    ------
    PlanError
        The method is unknown, or cannot simulate this network.
    """
    if method != "auto" and method not in EXACT and method not in APPROXIMATE:
        known = ", ".join(repr(name) for name in ("auto", *EXACT, *APPROXIMATE))
        raise PlanError(f"method {method!r} is unknown; expected {known}")
    name, reason = choose(tables) if method == "auto" else (method, "asked for")
    why_not = why_unsupported(name, tables, logged)
    if why_not:
        raise PlanError(f"method '{name}' {why_not}")
    if name in APPROXIMATE:
        leaping = partial(ThreadRunner, method=leap, control=control)
        return MethodPlan(name, reason, False, leaping)
    straight = (
        compiled_direct.fits(tables) and not logged and firings_most <= compiled_direct.FIRINGS_MOST
    )
    if name == "direct" and straight:
        if device.is_cuda:
            reason += "; a thread for a realization"
        return MethodPlan(
            name, reason, True, partial(compiled_direct.CompiledDirectRunner, network)
        )
    module = EXACT[name]
    runner: Any = partial(ThreadRunner, method=module)
    if device.is_cuda:
        # A thread group finds by levels what one search over all reactions finds.
        shared = three_level if name == "direct" else module
        size = 1 if logged else thread_group_size(shared, tables, realizations, device.core_count)
        if size > 1:
            runner = partial(thread_groups.ThreadGroupRunner, method=shared, size=size)
        names = {
            1: "thread",
            thread_groups.QUARTER: "quarter of a warp",
            thread_groups.WARP: "warp",
        }
        which = names.get(size, f"block of {size} threads")
        reason += f"; a {which} for a realization"
    return MethodPlan(name, reason, True, runner)


def thread_group_size(
    module: ModuleType, tables: Tables, realizations: int, multiprocessors: int
) -> int:
    """How many threads of a GPU share a realization."""
    if not hasattr(module, "thread_group_follow"):
        return 1
    few = realizations <= _BLOCKS_A_MULTIPROCESSOR * multiprocessors
    many = realizations >= _QUARTERS_A_MULTIPROCESSOR * multiprocessors
    sizes = [thread_groups.WARP, thread_groups.BLOCK]
    if few and module is three_level and coupling(tables) >= _BLOCK_FROM:
        sizes.reverse()
    elif many and tables.reaction_count <= _QUARTER_MOST:
        sizes.insert(0, thread_groups.QUARTER)
    return next(
        (size for size in sizes if not thread_groups.why_unsupported(module, tables, size)), 1
    )


def choose(tables: Tables) -> tuple[str, str]:
    """The method for a network, and why: the same on every device, as its results are."""
    count = tables.reaction_count
    if tables.time_dependent:
        return "rejection-bounds", "rates depend on time"
    if count <= _DIRECT_MOST:
        return "direct", f"{count} reactions: one search over all"
    followed = coupling(tables)
    if followed > _COUPLED_FROM and not why_unsupported("partial-propensity", tables, False):
        return (
            "partial-propensity",
            f"{count:,} reactions of mass action, {followed:,.0f} of which a firing changes",
        )
    reason = f"{count:,} reactions, {followed:,.0f} of which a firing changes"
    return ("warp-direct" if followed > _COUPLED_FROM else "composition-rejection"), reason


def coupling(tables: Tables) -> float:
    """Propensities that a firing changes, on the average over reactions."""
    net = tables.net
    affected = np.diff(net.affected_starts)
    return float(affected[net.changed].sum() / max(1, tables.reaction_count))


def why_unsupported(name: str, tables: Tables, logged: bool) -> str:
    """Why a method cannot simulate a network; empty if it can."""
    if tables.time_dependent and name != "rejection-bounds":
        return (
            "takes rates to be constant between firings, but a rate depends on time; use "
            "'rejection-bounds'"
        )
    if name == "partial-propensity" and (not tables.mass_action or tables.order_most > 2):
        return "is for mass action of at most two molecules; use 'direct' or another"
    if name == "partial-propensity":
        found = tables.unlimited
        if found is not None:
            reaction, variable = found
            return (
                f"needs counts that stay above zero, but reaction {reaction + 1} takes "
                f"'{tables.naming.variables[variable]}' at a rate that does not ask how much there "
                "is; use 'direct' or another"
            )
    if name in APPROXIMATE:
        if logged:
            return "has no single firings to list; use an exact method"
        if tables.has_delays:
            return "does not know delays; use an exact method"
        interruptions = tables.interruptions
        if interruptions.stop.size:
            return "steps over the moment at which 'stop' is met; use an exact method"
        if interruptions.watched.size or tables.moving_breaks:
            return (
                "steps over the moment at which a condition on amounts turns, and the network has "
                "such events or rates; use an exact method"
            )
    return ""
