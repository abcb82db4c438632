"""How large steps may be, and their errors: what a run is asked for, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.arguments import number
from ergode.core.compiler.source import Precision
from ergode.core.errors import PlanError

_RTOL, _ATOL = 1e-6, 1e-9


def check_steps(step: float | None, max_step: float | None) -> None:
    """Check that steps are positive, and that `max_step` is not given with a fixed step."""
    for name, value in {"step": step, "max_step": max_step}.items():
        if value is not None and not (name == "max_step" and _is_infinite(value)):
            number(name, value, above=0)
    if step is not None and max_step is not None and not _is_infinite(max_step):
        raise PlanError(
            f"step is {step!r} and max_step {max_step!r}; give step for fixed steps, or max_step "
            "for adaptive steps"
        )


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and value == np.inf


def check_tolerances(
    rtol: float | None, atol: float | None, step: float | None, precision: Precision
) -> tuple[float, float]:
    """The checked tolerances, with defaults.

    Raises
    ------
    PlanError
        A tolerance is not positive, `rtol` is above 1 or too small for the precision, or a
        tolerance is given together with a step.
    """
    for name, value in {"rtol": rtol, "atol": atol}.items():
        if value is not None and step is not None:
            raise PlanError(
                f"step is {step!r} and {name} {value!r}; give a step, or tolerances that control it"
            )
        if value is not None:
            number(name, value, above=0)
    rtol = _RTOL if rtol is None else float(rtol)
    atol = _ATOL if atol is None else float(atol)
    if rtol > 1:
        raise PlanError(f"rtol is {rtol:g}; expected at most 1, an error as large as the state")
    least = 4.0 * float(np.finfo(precision).eps)
    if rtol < least:
        raise PlanError(
            f"rtol is {rtol:g}; expected at least {least:.2g}: the machine epsilon of "
            f"{precision} is {least / 4:.2g}"
        )
    # What a precision takes for zero is no scale of a variable that is zero.
    return rtol, max(atol, float(np.finfo(precision).tiny))
