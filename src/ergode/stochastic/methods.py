"""Which method simulates a network, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.stochastic import block_search
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
    method: str, tables: Tables, place: Device, count: int, *, logged: bool, statistics: bool
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
    return MethodPlan(name, reason, True, partial(Ensemble, method=EXACT[name]))
