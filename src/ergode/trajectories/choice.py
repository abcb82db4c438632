"""Which method integrates a field, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ergode.core.errors import PlanError
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers.derivatives import additive, mixed_noise

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
    order : float
        Of the error after a fixed time.
    streams : bool
        Whether all trajectories take the same number of steps, side by side (`fixed_step`), or
        each its own (`adaptive`).
    otherwise : str or None
        The method for trajectories that prove stiff.
    """

    method: str
    reason: str
    order: float
    streams: bool
    otherwise: str | None = None


def choose(
    field: VectorField, method: str, step: float | None, *, watched: bool, free: bool = False
) -> Choice:
    """Choose how to integrate.

    Parameters
    ----------
    field : VectorField
    method : str
        What was asked for, or ``"auto"``.
    step : float or None
        Step that was asked for.
    watched : bool
        Whether there are events or observables, or every step is kept.
    free : bool
        Whether the past breaks where steps of one size would not end.

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
        small = len(field.variables) <= _STIFF_VARIABLES
        if step is None and field.diffusion is None and small and not field.state_dependent:
            otherwise = "rodas5p"
    chosen = METHODS[method]
    if (field.diffusion is not None) != (chosen.scheme > 0):
        known = ", ".join(repr(name) for name, one in METHODS.items() if one.scheme > 0)
        raise PlanError(
            f"method '{method}' is for equations with noise, and the field has no diffusion"
            if chosen.scheme
            else f"the field has a diffusion; expected one of the methods {known}"
        )
    if chosen.scheme and step is None:
        raise PlanError(f"method '{method}' has steps of one size: give a step")
    if chosen.scheme and field.state_dependent:
        raise PlanError("delays that depend on the state are not read through noise")
    if chosen.scheme == 3 and (field.delays or not additive(field)):
        raise PlanError(
            "method 'sra1' is for noise that depends on time and parameters alone, and equations "
            "without delays; choose 'milstein' or 'euler-maruyama'"
        )
    if chosen.scheme == 2 and (depends := mixed_noise(field)) is not None:
        raise PlanError(
            f"method 'milstein' is of order 1 for noise that depends on its own variable, and "
            f"{depends}; choose 'euler-maruyama', of order 1/2"
        )
    order = min(chosen.order, _HISTORY_ORDER) if field.delays else chosen.order
    apart = watched or free or field.state_dependent
    streams = not (apart or chosen.stiff or (step is None and chosen.adapts))
    if apart and step is None and not chosen.adapts:
        raise PlanError(
            f"method '{method}' does not estimate its error; give a step, or choose 'tsit5'"
        )
    if chosen.stiff and field.state_dependent:
        raise PlanError(
            f"method '{method}' is not for delays that depend on the state; choose 'tsit5'"
        )
    if chosen.stiff and len(field.variables) > _STIFF_VARIABLES:
        raise PlanError(
            f"method '{method}' writes out equations of up to {_STIFF_VARIABLES} variables, and "
            f"the field has {len(field.variables)}"
        )
    return Choice(method, reason, order, streams, None if streams else otherwise)


def _automatic(field: VectorField, step: float | None) -> tuple[str, str]:
    if field.diffusion is not None:
        if additive(field) and not field.delays:
            return "sra1", "noise that does not depend on the state"
        if (depends := mixed_noise(field)) is not None:
            return "euler-maruyama", depends
        return "milstein", "noise that depends on the state"
    if field.delays and step is not None:
        return "rk4", "delays are read at the order of the classical method"
    if step is not None:
        return "rk4", "the classical method for steps of one size"
    return "tsit5", "no step was given: a method that estimates its error, for what is not stiff"
