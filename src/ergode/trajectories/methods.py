"""The methods by name: their order, what they are good for, and what they bind into a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ergode.trajectories import explicit
from ergode.trajectories.tableaus import TABLEAUS, Tableau


@dataclass(frozen=True)
class Method:
    """One method of integration.

    Attributes
    ----------
    name : str
    order : int
        The error after a fixed time falls as step to this power.
    adapts : bool
        Whether it estimates its own error, so that a tolerance decides on its steps.
    stiff : bool
        Whether it takes steps that stability does not limit, at the price of a Jacobian.
    bindings : mapping
        What a kernel of `adaptive` is specialised to.
    tableau : Tableau or None
        Of an explicit method.
    """

    name: str
    order: int
    adapts: bool
    stiff: bool
    bindings: Mapping[str, Any] = field(repr=False)
    tableau: Tableau | None = field(default=None, repr=False)


def _explicit(name: str, tableau: Tableau) -> Method:
    bindings = {
        "step": explicit.step,
        "completed": explicit.completed,
        "A": tableau.a,
        "B": tableau.b,
        "C": tableau.c,
        "ERROR": tableau.error,
        "CORRECTION": tableau.correction,
        "CORRECTED": bool(tableau.correction),
        "EXTRA_A": tableau.extra_a,
        "EXTRA_C": tableau.extra_c,
        "DENSE": tableau.dense,
        "STAGES": len(tableau.b) + 1,
        # The estimate is of the order below, and of one step.
        "ERROR_ORDER": float(tableau.order),
    }
    return Method(name, tableau.order, bool(tableau.error), False, bindings, tableau)


METHODS = {name: _explicit(name, tableau) for name, tableau in TABLEAUS.items()}
