"""Checks of step sizes and tolerances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, number
from ergode.core.calls import launch
from ergode.core.compiler.source import Precision
from ergode.core.errors import AccuracyWarning, PlanError
from ergode.models.fields.vector_field import VectorField

_RTOL, _ATOL = 1e-6, 1e-9
_RTOL_NOISE = 1e-3  # strong orders are low
_NOISE_CELLS = 64  # of a noisy path with adaptive steps: within a cell its increments are a tree
_ROUNDING = 1e-9  # of a number of steps
_MOST_STEPS = 10**6  # for which a step is sought that divides all times


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


def step_of_noise(grid: np.ndarray, step: float, has_delays: bool) -> float:
    """A step from half the `step` on that divides all times; else `step`, with a warning.

    Within a step a noisy path is a straight line, which varies less than the path.
    """
    if grid.size < 3 or not step < np.inf:
        return step
    span = float(abs(grid[-1] - grid[0]))
    least = max(int(np.ceil(span / step * (1.0 - _ROUNDING))), 1)
    if least < _MOST_STEPS and (count := _dividing(grid, least, 1 if has_delays else 2)):
        return span / count
    launch.warn(
        f"some times are within steps of {step:g}, where a noisy path is a straight line and its "
        "variance too small; use a step that divides the times between them, or a shorter one",
        AccuracyWarning,
    )
    return step


def cell_of_noise(grid: np.ndarray) -> float:
    """Width of the cells of noise with adaptive steps; where possible it divides all times."""
    span = float(abs(grid[-1] - grid[0]))
    return span / (_dividing(grid, _NOISE_CELLS, 2) or _NOISE_CELLS) if span > 0 else 1.0


def _dividing(grid: np.ndarray, least: int, most: int) -> int:
    """The least count of steps, from `least` to `most * least`, whose ends are all times; or 0."""
    counts = np.arange(least, most * least + 1)
    for part in np.abs(grid[1:-1] - grid[0]) / abs(grid[-1] - grid[0]):
        ends = part * counts
        counts = counts[np.abs(ends - np.rint(ends)) <= _ROUNDING * np.maximum(ends, 1.0)]
    return int(counts[0]) if counts.size else 0


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and value == np.inf


def check_tolerances(
    rtol: float | None, atol: Any, step: float | None, precision: Precision,
    field: VectorField | None = None,
) -> tuple[float, float | np.ndarray]:  # fmt: skip
    """The checked tolerances, with defaults.

    Raises a PlanError if a tolerance is not positive, `rtol` is above 1 or too small for the
    precision, `atol` does not fit the variables of the `field`, or a tolerance is given together
    with a step.
    """
    for name, value in {"rtol": rtol, "atol": atol}.items():
        if value is not None and step is not None:
            raise PlanError(
                f"step is {step!r} and {name} {value!r}; give a step, or tolerances that control it"
            )
    is_noisy = field is not None and field.diffusion is not None
    rtol = (_RTOL_NOISE if is_noisy else _RTOL) if rtol is None else number("rtol", rtol, above=0)
    if rtol > 1:
        raise PlanError(f"rtol is {rtol:g}; expected at most 1, an error as large as the state")
    least = 4.0 * float(np.finfo(precision).eps)
    if rtol < least:
        raise PlanError(
            f"rtol is {rtol:g}; expected at least {least:.2g}: the machine epsilon of "
            f"{precision} is {least / 4:.2g}"
        )
    # What a precision takes for zero is no scale of a variable that is zero.
    tiny = float(np.finfo(precision).tiny)
    if field is not None and _is_several(atol):
        return rtol, np.maximum(_of_variables(atol, field), tiny)
    return rtol, max(_ATOL if atol is None else number("atol", atol, above=0), tiny)


def _is_several(atol: Any) -> bool:
    """Whether a tolerance is given for each variable."""
    return isinstance(atol, Mapping | list | tuple) or getattr(atol, "ndim", 0) > 0


def _of_variables(atol: Any, field: VectorField) -> np.ndarray:
    """The absolute tolerance of every unknown."""
    names = field.variables
    shapes = [()] * len(names) if field.arrays is None else field.arrays.shapes
    if not isinstance(atol, Mapping):
        numbers = as_numbers(atol)
        if numbers is None:
            raise PlanError(f"atol is {atol!r}; expected positive numbers")
        whole = shapes[0] if field.arrays is not None and len(names) == 1 else (len(names),)
        is_several = field.arrays is not None and len(names) > 1
        if is_several or numbers.shape != whole:
            raise PlanError(
                f"atol has shape {numbers.shape}; expected a number, or by names of the variables "
                f"{', '.join(names)} one for each"
            )
        atol = {names[0]: atol} if whole == shapes[0] else dict(zip(names, atol, strict=True))
    for name in atol:
        if name not in names:
            raise PlanError(
                f"atol has '{name}', which is no variable; the field has {', '.join(names)}"
            )
    parts = []
    for name, shape in zip(names, shapes, strict=True):
        value = as_numbers(atol.get(name, _ATOL))
        fits = value is not None and value.shape in ((), shape)
        fits = fits and not isinstance(atol.get(name), bool)
        if value is None or not fits or not (np.isfinite(value) & (value > 0)).all():
            raise PlanError(
                f"atol of '{name}' is {atol[name]!r}; expected a positive number"
                f"{f', or an array of shape {shape}' if shape else ''}"
            )
        parts.append(np.broadcast_to(value, shape).ravel())
    return np.concatenate(parts)
