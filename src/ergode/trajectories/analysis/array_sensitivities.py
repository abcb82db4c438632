"""Forward sensitivities of fields of arrays (see `sensitivities` and `tangent_arrays`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import results
from ergode.core.arguments import check_once, sequence
from ergode.core.errors import ModelError, PlanError
from ergode.core.results import SWEPT, Variable
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import Grid
from ergode.trajectories.analysis.forward_mode import Rewriter, tangent_name
from ergode.trajectories.analysis.tangent_arrays import check_tangents, with_tangent_arrays
from ergode.trajectories.events import ZeroCrossing
from ergode.trajectories.integrate import integrate
from ergode.trajectories.labels import derived
from ergode.trajectories.tolerances import check_tolerances

if TYPE_CHECKING:
    import xarray

_BY = "with_respect_to"

results.register(
    "trajectories",
    "array_sensitivities",  # further variables are x and sensitivity_x for every variable x
    [Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)")],
    coords=["time", _BY],
)


def of_arrays(
    field: VectorField, names: Any, events: Sequence[ZeroCrossing], *,
    initial: Mapping[str, Any], parameters: Mapping[str, Any], step: float | None,
    rtol: float | None, atol: Any, **options: Any,
) -> xarray.Dataset:  # fmt: skip
    """What `sensitivities` returns for variables that are arrays."""
    arrays = field.arrays
    assert arrays is not None
    check_tangents(field, "a sensitivity")
    seeds, units = _directions(field, names)
    for event in events:
        if not isinstance(event, ZeroCrossing):
            raise ModelError(f"events has {event!r}; expected ergode.trajectories.ZeroCrossing")
        if event.effect is not None:
            raise PlanError(
                f"event '{event.name}' has an effect; sensitivities of arrays refuse it"
            )
    tolerance = check_tolerances(rtol, atol, step, options["precision"], field)[1]
    extended = with_tangent_arrays(field, len(seeds), seeds)
    start = dict(initial)
    start |= {
        tangent_name(name): one for name, one in zip(arrays.names, arrays.views(units), strict=True)
    }
    if np.ndim(tolerance):
        parts = dict(zip(arrays.names, arrays.views(np.asarray(tolerance)), strict=True))
        atol = {**parts, **{
            tangent_name(name): np.tile(one, (len(seeds), *np.ones(one.ndim, int)))
            for name, one in parts.items()
        }}  # fmt: skip
    found = integrate(
        extended, initial=Grid(start) if isinstance(initial, Grid) else start, step=step,
        parameters=parameters, events=[_for(field, one) for one in events], record=0,
        rtol=rtol, atol=atol, **options,
    )  # fmt: skip
    place = found["status"].ndim + 1  # of the tangents, behind the points of the sweep and times
    values, own = {"status": found["status"].values}, []
    for name, dims in zip(arrays.names, arrays.dims, strict=True):
        values[name] = found[name].values
        own.append(Variable(name, (SWEPT, "time", *dims), "floating", "1", "state at a time"))
        label = f"sensitivity_{name}"
        values[label] = np.moveaxis(found[tangent_name(name)].values, place, -1)
        own.append(
            Variable(
                label, (SWEPT, "time", *dims, _BY), "floating", "1",
                "derivative of the state by a parameter or initial value",
            )
        )  # fmt: skip
    coords = {"time": found["time"], _BY: list(names)}
    return derived(
        found, "array_sensitivities", values, coords, {"model_digest": field.digest}, own
    )


def _directions(field: VectorField, names: Any) -> tuple[np.ndarray, np.ndarray]:
    """Tangents of the parameters [quantity, parameter], and of the first state [..., unknown].

    Raises a ModelError if a name is unknown or given twice.
    """
    arrays = field.arrays
    assert arrays is not None
    if isinstance(names, str):
        raise ModelError(f"{_BY} is {names!r}; expected a list of names")
    names = list(sequence(_BY, names, "names"))
    if not names:
        raise ModelError(f"{_BY} is empty; name parameters, or elements such as 'x[0]'")
    check_once(_BY, names)
    seeds = np.zeros((len(names), max(1, len(field.parameters))))
    units = np.zeros((len(names), arrays.size))
    places = arrays.views(np.arange(arrays.size))
    for row, name in enumerate(names):
        if name in field.parameters:
            seeds[row, field.parameters.index(name)] = 1.0
            continue
        match = re.fullmatch(r"(\w+)\[([\d, ]+)\]", name) if isinstance(name, str) else None
        if match is None or match[1] not in arrays.names:
            known = ", ".join([*field.parameters, *(f"{one}[...]" for one in arrays.names)])
            raise ModelError(f"{_BY} has {name!r}; the field has {known}")
        place = places[arrays.names.index(match[1])]
        index = tuple(int(one) for one in match[2].split(",") if one.strip())
        if len(index) != place.ndim or any(i >= n for i, n in zip(index, place.shape, strict=True)):
            raise ModelError(f"{_BY} has {name!r}; '{match[1]}' has shape {place.shape}")
        units[row, place[index]] = 1.0
    return seeds, units


def _for(field: VectorField, event: ZeroCrossing) -> ZeroCrossing:
    """An event of the field, for the field with tangent vectors."""
    assert field.arrays is not None
    only = field.arrays.names[0] if field.arrays.is_single else None
    roles = ["t", "y", "p", *(["c"] if field.constants else [])]
    made = Rewriter(event.function, roles, f"event '{event.name}'", only, False)
    return ZeroCrossing(made.state(), event.direction, None, event.terminal, event.name)
