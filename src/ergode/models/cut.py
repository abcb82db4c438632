"""Parts of a sweep or a bank of filters: the slowest dim, and the values of its members."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ergode.core.calls.divide import Axis, alone
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import side_by_side
from ergode.models.sweep import TRAJECTORY, Grid

ROWS = dict.fromkeys(("prior", "measurements", "maneuvers", "parameters"), TRAJECTORY)
"""Arguments of densities side by side."""


def axis_of_values(
    given: Mapping[str, Any], along: str, depths: Mapping[str, int] | None = None
) -> Axis | None:
    """The slowest dim of checked values; None if all are single ones.

    Parameters
    ----------
    given : mapping of str to mapping
        The user's values for each argument, in the order of `models.sweep.lay_out`.
    along : str
        Dim of paired values.
    depths : mapping of str to int, optional
        Dims of a single value, if it is not a number.
    """
    depths = depths or {}
    sizes: dict[str, int] = {}
    owner = {}
    for argument, mapping in given.items():
        for name, value in (mapping or {}).items():
            if np.ndim(value) > depths.get(name, 0):
                dim = name if isinstance(mapping, Grid) else along
                sizes[dim] = len(np.asarray(value))
                owner[dim] = argument
    if not sizes:
        return None
    first = min(sizes, key=lambda dim: dim == along)
    rows = math.prod(sizes.values()) // sizes[first]

    def cut(start: int, stop: int) -> dict[str, Any]:
        if first != along:
            mapping = given[owner[first]]
            values = np.asarray(mapping[first])[start:stop]
            return {owner[first]: Grid({**mapping, first: values})}
        return {
            argument: {
                name: np.asarray(value)[start:stop] if np.ndim(value) > depths.get(name, 0)
                else value for name, value in mapping.items()
            }
            for argument, mapping in given.items() if mapping and not isinstance(mapping, Grid)
        }  # fmt: skip

    return Axis(first, range(sizes[first]), cut, rows)


def axis_of_densities(arguments: Mapping[str, Any]) -> Axis:
    """The slowest dim of checked priors, measurements, maneuvers and parameters."""
    priors, is_many = side_by_side(arguments["prior"])
    several = {name: _several(arguments[name]) for name in ("measurements", "maneuvers")}
    swept = axis_of_values({"parameters": arguments["parameters"]}, TRAJECTORY)
    if swept is not None and swept.dim != TRAJECTORY:
        return swept
    sizes = [one.side_by_side for some in several.values() for one in some]
    sizes += [len(priors) if is_many else None, len(swept.numbers) if swept else None]
    size = next((one for one in sizes if one is not None), None)
    if size is None:
        return alone(arguments)

    def cut(start: int, stop: int) -> dict[str, Any]:
        found: dict[str, Any] = {"prior": priors[start:stop] if is_many else priors[0]}
        found |= {
            name: [_cut_one(one, start, stop) for one in some] for name, some in several.items()
        }
        return found | (swept.cut(start, stop) if swept else {})

    return Axis(TRAJECTORY, range(size), cut)


def _several(given: Any) -> Sequence[Measurement | Maneuver]:
    return [given] if isinstance(given, Measurement | Maneuver) else list(given)


def _cut_one(one: Measurement | Maneuver, start: int, stop: int) -> Measurement | Maneuver:
    """The values or changes of some densities."""
    if one.side_by_side is None:
        return one
    if isinstance(one, Maneuver):
        return replace(one, change=one.change[start:stop])
    return replace(
        one,
        value=one.value[start:stop] if one.value.ndim == 2 else one.value,
        covariance=one.covariance[start:stop] if one.covariance.ndim == 3 else one.covariance,
    )
