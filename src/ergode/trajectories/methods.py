"""The methods by name: their order, what they are good for, and what they bind into a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ergode.trajectories.steppers import explicit, kvaerno, rosenbrock
from ergode.trajectories.steppers.rosenbrock import RODAS5P, ROSENBROCK23, RosenbrockTableau
from ergode.trajectories.steppers.tableaus import EULER, TABLEAUS, Tableau


@dataclass(frozen=True)
class Method:
    """One method of integration.

    Attributes
    ----------
    name : str
    order : float
        The error after a fixed time falls as step to this power; of a path, for noise.
    adapts : bool
        Whether it estimates its own error, so that a tolerance decides on its steps.
    stiff : bool
        Whether it takes steps that stability does not limit, at the price of a Jacobian.
    bindings : mapping
        What a kernel of `adaptive` is specialised to.
    tableau : Tableau or None
        Of an explicit method.
    scheme : int
        What it does with noise (see `noise`); 0 for methods without.
    """

    name: str
    order: float
    adapts: bool
    stiff: bool
    bindings: Mapping[str, Any] = field(repr=False)
    tableau: Tableau | None = field(default=None, repr=False)
    scheme: int = 0


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


def _rosenbrock(name: str, tableau: RosenbrockTableau) -> Method:
    bindings = {
        "step": rosenbrock.step,
        "completed": _whole,
        "GAMMA": tableau.gamma,
        "ALPHA": tableau.alpha,
        "GAMMAS": tableau.gammas,
        "A": tableau.a,
        "C": tableau.c,
        "M": tableau.m,
        "ERROR": tableau.error,
        "DENSE": tableau.dense,
        "STAGES": len(tableau.m),
        "ERROR_ORDER": float(tableau.error_order),
    }
    return Method(name, tableau.order, True, True, bindings)


def _whole(t, h, y, k, past, p):  # type: ignore[no-untyped-def]
    """All stages are there: what `completed` is for a method without extra ones."""
    return k


_KVAERNO5 = Method(
    "kvaerno5", 5, True, True,
    {
        "step": kvaerno.step, "completed": _whole, "DENSE": kvaerno.DENSE, "STAGES": 7,
        "ERROR_ORDER": 5.0,
    },
)  # fmt: skip

METHODS = {
    **{name: _explicit(name, tableau) for name, tableau in TABLEAUS.items()},
    "rosenbrock23": _rosenbrock("rosenbrock23", ROSENBROCK23),
    "rodas5p": _rosenbrock("rodas5p", RODAS5P),
    "kvaerno5": _KVAERNO5,
    "euler-maruyama": Method("euler-maruyama", 0.5, False, False, {}, EULER, 1),
    "milstein": Method("milstein", 1.0, False, False, {}, EULER, 2),
    "sra1": Method("sra1", 1.5, False, False, {}, EULER, 3),
}
