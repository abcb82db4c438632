"""Labelled results of `integrate`: variables, dims and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import results
from ergode.core.devices.foreign import on_host
from ergode.core.errors import ModelError
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status, has_failed
from ergode.core.stopwatch import Stopwatch
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import REPLICATE
from ergode.trajectories.adaptive.outcome import Control
from ergode.trajectories.methods import Choice
from ergode.trajectories.runs import EXPLICIT_STEPS, Found, Problem

if TYPE_CHECKING:
    import xarray

# Of every result, and only of some.
_STATUS = Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)")
_SOME = [
    Variable(name, (SWEPT, *dims), kind, unit, meaning, optional=True)
    for name, dims, kind, unit, meaning in (
        ("step_count", (), "integer", "1", "accepted steps"),
        ("rejected_count", (), "integer", "1", "rejected steps"),
        ("event_count", ("event",), "number", "1", "occurrences of an event"),
        ("event_time", ("event", "hit"), "floating", "time", "time of the last hits"),
        ("observed", ("observable",), "floating", "1", "value of an observable"),
        ("step_time", ("step",), "floating", "time", "end of every step"),
        ("step_size", ("step",), "floating", "time", "size of the step that ends here"),
    )
]
# Of the state, by the name of the variable, or of `arrays.names` where variables are arrays.
_OF_STATE = {
    "event_state": ("event", ("event", "hit"), "state at the last hits"),
    "step_state": ("step", ("step",), "state after a step"),
    "step_coefficient": (
        "step_coefficient", ("step", "power"),
        "coefficients of the step's polynomial, from power 1 of the fraction of the step on",
    ),
}  # fmt: skip

results.register(
    "trajectories",
    "states",
    [
        Variable("state", (SWEPT, "time", "variable"), "floating", "1", "state at a time"),
        _STATUS,
        *_SOME,
        *(
            Variable(name, (SWEPT, *dims, "variable"), "floating", "1", meaning, optional=True)
            for name, (_, dims, meaning) in _OF_STATE.items()
        ),
    ],
)
# Further variables have the names of the model's variables.
results.register("trajectories", "arrays", [_STATUS, *_SOME], coords=["time"])


def check_step_labels(field: VectorField, dense: bool) -> None:
    """Refuse variables that are arrays whose labels in a log of steps are not distinct.

    Raises a ModelError if two variables of the result would have one name.
    """
    if field.arrays is None:
        return
    labels = ["step", *(["step_coefficient"] if dense else [])]
    taken = {*field.variables, *results.names("trajectories", "arrays")}
    for name in field.variables:
        for label in labels:
            if f"{label}_{name}" in taken:
                raise ModelError(
                    f"variable '{name}' would be '{label}_{name}' in the result, a name that is "
                    "already used there; give the variable another name"
                )
            taken.add(f"{label}_{name}")


def _method_attributes(chosen: Choice, work: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Attributes of the result: methods used, and the reason."""
    used, reason = chosen.method.name, chosen.reason
    if work.get("stiff_trajectories"):
        mixed = work["stiff_trajectories"] < count
        stiff = work["stiff_method"]
        used = f"{used}, {stiff}" if mixed else stiff
        reason = (
            f"{work['stiff_trajectories']} of {count} trajectories are stiff: "
            f"'{chosen.method.name}' did not end within {EXPLICIT_STEPS:,} steps"
        )
        reason += f"; {stiff}: {work['stiff_reason']}" if work.get("stiff_reason") else ""
    return {"method": used, "method_reason": reason}


def dataset(
    problem: Problem, chosen: Choice, control: Control, found: Found, stopwatch: Stopwatch,
    more: Mapping[str, Any],
) -> xarray.Dataset:  # fmt: skip
    """Labelled results; `more` are further attributes."""
    field, layout, grid = problem.field, problem.layout, problem.grid
    attrs = results.provenance(
        stopwatch,
        engine="trajectories",
        **_method_attributes(chosen, found.work, layout.count),
        order=chosen.order,
        device=problem.device.name,
        device_model=problem.device.model,
        device_reason=problem.device.reason,
        precision=problem.precision,
        trajectories=layout.count,
        model_digest=field.digest,
        **found.work,
        **more,
        interrupted=int(bool((found.status == Status.NOT_RUN).any())),
    )
    if control.step is None:
        attrs.update(rtol=control.rtol, atol=_tolerances(control, field))
    # Replicates are the slowest dim of the trajectories, and the last of the swept dims of results.
    dims = tuple(sorted(layout.dims, key=lambda dim: dim == REPLICATE))
    if field.arrays is not None:
        made = _of_arrays(problem, control, found, attrs)
        return made if dims == layout.dims else made.transpose(*dims, ...)
    coords = {"time": grid, "variable": list(field.variables), **layout.coords}
    coords |= _coords_of_watched(control)
    shape = (*layout.shape, grid.size, len(field.variables))
    values = found.values
    values["state"] = np.moveaxis(found.states, 2, 0).reshape(shape)
    values["status"] = found.status.reshape(layout.shape)
    _leave_out_failed(values)
    made = results.dataset(
        "trajectories", "states", values, coords=coords, attrs=attrs, swept=layout.dims,
        computed_rows=_computed_rows(values["state"]), hints=_hints(problem, found.status),
    )  # fmt: skip
    return made if dims == layout.dims else made.transpose(*dims, ...)


def derived(
    found: xarray.Dataset, output: str, values: Mapping[str, Any], coords: Mapping[str, Any],
    attrs: Mapping[str, Any], own: Sequence[Variable] = (),
) -> xarray.Dataset:  # fmt: skip
    """A result made from that of an integration: with its points of the sweep and attributes."""
    swept = [str(dim) for dim in found["status"].dims]
    kept = {str(name): one for name, one in found.coords.items() if {*one.dims} <= {*swept}}
    return results.dataset(
        "trajectories", output, values, coords={**kept, **coords}, attrs={**found.attrs, **attrs},
        swept=swept, has_warned=True, own=own,
    )  # fmt: skip


def _coords_of_watched(control: Control) -> dict[str, Any]:
    """Names of events and observables."""
    found: dict[str, Any] = {}
    if control.events:
        found["event"] = [event.name for event in control.events]
    if control.observables:
        found["observable"] = [one.name for one in control.observables]
    return found


def _tolerances(control: Control, field: VectorField) -> float | list[float] | str:
    """The absolute tolerances of a run, as an attribute."""
    if isinstance(control.atol, float):
        return control.atol
    if field.arrays is None:
        return [float(one) for one in control.atol]
    parts = zip(field.variables, field.arrays.views(control.atol), strict=True)
    ends = ((name, {f"{end:g}": None for end in (part.min(), part.max())}) for name, part in parts)
    return ", ".join(f"{name} {' to '.join(both)}" for name, both in ends)


def _of_arrays(
    problem: Problem, control: Control, found: Found, attrs: Mapping[str, Any]
) -> xarray.Dataset:
    """Labelled results for variables that are arrays."""
    arrays, layout = problem.field.arrays, problem.layout
    assert arrays is not None
    states = np.moveaxis(found.states, 2, 0).reshape(*layout.shape, problem.grid.size, -1)
    values = {**found.values, "status": found.status.reshape(layout.shape)}
    values |= dict(zip(arrays.names, arrays.views(states), strict=True))
    own = [
        Variable(name, (SWEPT, "time", *dims), "floating", "1", "state at a time")
        for name, dims in zip(arrays.names, arrays.dims, strict=True)
    ]
    for state, (label, dims, meaning) in _OF_STATE.items():
        if state not in values:
            continue
        parts = arrays.views(values.pop(state))
        for name, inner, part in zip(arrays.names, arrays.dims, parts, strict=True):
            named = Variable(
                f"{label}_{name}", (SWEPT, *dims, *inner), "floating", "1", meaning, True
            )
            own.append(named)
            values[named.name] = part
    _leave_out_failed(values)
    return results.dataset(
        "trajectories", "arrays", values,
        coords={"time": problem.grid, **layout.coords, **_coords_of_watched(control)}, attrs=attrs,
        swept=layout.dims, computed_rows=_computed_rows(states), own=own,
        hints=_hints(problem, found.status),
    )  # fmt: skip


def _hints(problem: Problem, status: np.ndarray) -> dict[Status, str]:
    """What to do about failures, or where they come from."""
    where = " on the delayed value" if problem.field.delays else ""
    switch = (
        "If the right-hand side jumps, as a relay or a switch by 'if' does, make the switch an "
        f"event{where} whose effect changes a variable."
    )
    hints = {Status.TOO_MANY_STEPS: switch, Status.STEP_TOO_SMALL: switch}
    lost = np.flatnonzero(status == Status.NOT_FINITE)
    names = _undefined_at_first(problem, int(lost[0])) if lost.size else ()
    if names:
        hints[Status.NOT_FINITE] = (
            f"The right-hand side of {', '.join(names)} is not finite at the first state."
        )
    return hints


def _undefined_at_first(problem: Problem, which: int) -> list[str]:
    """Variables whose first derivative is not finite in a trajectory, where that is known."""
    field = problem.field
    if field.arrays is not None or field.delays or field.inputs:
        return []
    y, p = (
        tuple(np.asarray(problem.rows[name]).reshape(-1)[which] for name in names)
        for names in (field.variables, field.parameters)
    )
    try:
        with np.errstate(all="ignore"):
            slopes = [float(one) for one in field.function(float(problem.grid[0]), y, p)]
    except (ArithmeticError, ValueError):  # of `math`, which says not where
        return [f"'{field.variables[0]}'"] if field.size == 1 else []
    return [
        f"'{name}'"
        for name, slope in zip(field.variables, slopes, strict=True)
        if not np.isfinite(slope)
    ]


def _computed_rows(states: Any) -> np.ndarray:
    """Number of times of the grid up to the first state that is not finite, per trajectory."""
    rows = np.full(states.shape[:-2], states.shape[-2])
    finite = np.isfinite(states)
    if not finite.all():
        missing = ~on_host(finite.all(axis=-1))
        rows = np.where(missing.any(-1), missing.argmax(-1), rows)
    return rows


def _leave_out_failed(values: dict[str, np.ndarray]) -> None:
    """Set event counts and observables of failed trajectories to NaN."""
    status = values["status"]
    failed = has_failed(status) & (status != Status.INACCURATE)
    for name in ("event_count", "observed"):
        if name in values and failed.any():
            values[name] = np.where(failed[..., None], np.nan, values[name])
