"""What a call says of the edges of its densities: regions, walls, killing rates, periods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ergode.core.arguments import by_name, choice, did_you_mean, number
from ergode.core.compiler.syntax import as_function
from ergode.core.errors import ModelError, PlanError
from ergode.density.grid.lattice import Lattice
from ergode.density.specialize import Killing, Limits
from ergode.models.estimation.estimation import Estimation
from ergode.models.fields.functions import check_function
from ergode.models.fields.vector_field import VectorField


def limits_of(
    field: VectorField,
    conserved: Callable[..., tuple[Any, ...]] | None,
    region: Callable[..., tuple[Any, ...]] | None,
    boundary: str,
) -> Limits | None:
    """The region that a density must stay in, or None.

    Raises a PlanError if there are two, or a `boundary` without a region.
    """
    choice("boundary", boundary, ("reflecting", "absorbing"))
    absorbs = boundary == "absorbing"
    if absorbs and region is None:
        raise PlanError("boundary is 'absorbing', and there is no region; expected region=")
    if conserved is not None and region is not None:
        raise PlanError("conserved and region are both given; expected one of them")
    function = as_function(region if conserved is None else conserved)
    if function is None:
        return None
    name = "region" if conserved is None else "conserved"
    arguments = {"y": len(field.variables), "t": None, "p": len(field.parameters)}
    check_function(function, arguments, ["value"], name)
    return Limits(function, 0.0 if conserved is None else np.nan, np.inf, absorbs)


def killing_of(
    field: VectorField, killing_rate: Callable[..., tuple[Any, ...]] | None
) -> Killing | None:
    """The killing rate, if there is one."""
    function = as_function(killing_rate)
    if function is not None:
        arguments = {"y": len(field.variables), "t": None, "p": len(field.parameters)}
        check_function(function, arguments, ["rate"], "killing_rate")
    return function


def periods_of(asked: Estimation, periodic: Mapping[str, float] | None) -> np.ndarray | None:
    """Period of each variable, infinite if it has none; None if no variable has one.

    Raises a ModelError if it is no mapping, a variable is unknown, or the field does not have the
    period. Raises a PlanError if a period is no positive number.
    """
    periodic = by_name("periodic", periodic, "periods")
    if not periodic:
        return None
    known = list(asked.field.variables)
    found = np.full(len(known), np.inf)
    for name, given in periodic.items():
        if name not in known:
            raise ModelError(
                f"periodic has '{name}', which is no variable of the field; expected "
                f"{', '.join(known)}{did_you_mean(name, known)}"
            )
        period = number(f"periodic['{name}']", given, above=0)
        found[known.index(name)] = period
        here = asked.priors[0].mean
        there = here + np.where(np.array(known) == name, period, 0.0)
        first, last = _field_at(asked, here), _field_at(asked, there)
        size = float(np.abs(first).max())
        if not np.allclose(first, last, rtol=1e-6, atol=1e-9 * size, equal_nan=True):
            raise ModelError(
                f"the field is {first} at the prior's mean, and {last} a period of '{name}' "
                "further; expected a field that has the period"
            )
    return found


def _field_at(asked: Estimation, point: np.ndarray) -> np.ndarray:
    """The field at a point, or NaN where it cannot be evaluated."""
    state, row = tuple(point.tolist()), tuple(asked.values[0].tolist())
    try:
        return np.array(asked.field.function(float(asked.times[0]), state, row), np.float64)
    except (ArithmeticError, ValueError):
        return np.full(point.size, np.nan)


def closed(lattices: list[Lattice], periods: np.ndarray | None) -> list[Lattice]:
    """The lattices with periods; those that were one still are.

    Raises a PlanError if they are rotated.
    """
    if periods is None:
        return lattices
    if any(one.is_rotated for one in lattices):
        raise PlanError(
            "periodic is for a grid along the variables, and axes, or a region and a process_noise "
            "that is not diagonal, rotates it; leave one of them out"
        )
    distinct = {id(one): one.periodic(periods) for one in lattices}
    return [distinct[id(one)] for one in lattices]
