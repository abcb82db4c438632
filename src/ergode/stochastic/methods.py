"""Which method simulates a network, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from ergode.core.errors import PlanError
from ergode.models.reaction_network import ReactionNetwork
from ergode.stochastic import block_search, small
from ergode.stochastic.ensemble import Ensemble
from ergode.stochastic.tables import Tables

EXACT: dict[str, ModuleType] = {
    "direct": block_search,
}


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
) -> MethodPlan:
    """Choose a method.

    Raises
    ------
    PlanError
        The method is unknown, or cannot simulate this network.
    """
    name, reason = (method, "asked for") if method != "auto" else ("direct", "small network")
    if name not in EXACT:
        raise PlanError(f"method {method!r} is unknown")
    if name == "direct" and small.fits(tables) and not logged and firings_most <= small.FIRINGS_MOST:
        return MethodPlan(name, reason, True, partial(small.SmallEnsemble, network))
    return MethodPlan(name, reason, True, partial(Ensemble, method=EXACT[name]))
