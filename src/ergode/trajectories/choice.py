"""Which method integrates a field, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ergode.core.errors import PlanError
from ergode.models.vector_field import VectorField
from ergode.trajectories.methods import METHODS

# The quintic through the past limits the order of a method with delays.
_HISTORY_ORDER = 6
_STIFF_VARIABLES = 16


@dataclass(frozen=True)
class Choice:
    """A method for a run.

    Attributes
    ----------
    method : str
    reason : str
        Why this one, for the attributes of the result.
    order : int
        Of the error after a fixed time.
    streams : bool
        Whether all trajectories take the same number of steps, side by side (`fixed_step`), or
        each its own (`adaptive`).
    otherwise : str or None
        The method for trajectories that prove stiff.
    """

    method: str
    reason: str
    order: int
    streams: bool
    otherwise: str | None = None


def choose(field: VectorField, method: str, step: float | None, *, watched: bool) -> Choice:
    """Choose how to integrate.

    Parameters
    ----------
    field : VectorField
    method : str
        What was asked for, or ``"auto"``.
    step : float or None
        Step that was asked for.
    watched : bool
        Whether there are events or observables.

    Raises
    ------
    PlanError
        The method is unknown, or cannot do what is asked.
    """
    if method not in ("auto", *METHODS):
        known = ", ".join(repr(name) for name in ("auto", *METHODS))
        raise PlanError(f"method {method!r} is unknown; expected {known}")
    reason, otherwise = "asked for", None
    if method == "auto":
        method, reason = _automatic(field, step)
        if step is None and len(field.variables) <= _STIFF_VARIABLES:
            otherwise = "rodas5p"
    chosen = METHODS[method]
    order = min(chosen.order, _HISTORY_ORDER) if field.delays else chosen.order
    streams = bool(field.delays) or not (
        watched or chosen.stiff or (step is None and chosen.adapts)
    )
    if watched and step is None and not chosen.adapts:
        raise PlanError(
            f"method '{method}' does not estimate its error; give a step, or choose 'tsit5'"
        )
    if chosen.stiff and field.delays:
        raise PlanError(f"method '{method}' is for equations without delays; choose 'rk4'")
    if chosen.stiff and len(field.variables) > _STIFF_VARIABLES:
        raise PlanError(
            f"method '{method}' writes out equations of up to {_STIFF_VARIABLES} variables, and "
            f"the field has {len(field.variables)}"
        )
    return Choice(method, reason, order, streams, None if streams else otherwise)


def _automatic(field: VectorField, step: float | None) -> tuple[str, str]:
    if field.delays:
        return "rk4", "delays are read at the order of the classical method"
    if step is not None:
        return "rk4", "the classical method for steps of one size"
    return "tsit5", "no step was given: a method that estimates its error, for what is not stiff"
