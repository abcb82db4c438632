"""Parts of a sweep: the slowest dim of paired or crossed values, and the values of its members."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.divide import Axis
from ergode.models.sweep import Grid


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
