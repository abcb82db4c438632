"""The kinds of output of a simulation in space: what is kept of each chunk of realizations."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ergode.core import results
from ergode.core.calls import resident
from ergode.core.calls.launch import check_room
from ergode.core.errors import PlanError
from ergode.core.results import PLACES, SWEPT, Variable
from ergode.core.results.statistics import ExactSums
from ergode.models.sweep import Layout
from ergode.stochastic.merge import moments
from ergode.stochastic.runners.chunks import Wanted

if TYPE_CHECKING:
    import xarray

Output = Literal["trajectories", "statistics", "final"]

_REPLICATE = (SWEPT, "replicate")
_STATUS = [
    Variable("status", _REPLICATE, "uint8", "1", "how the realization ended (see Status)"),
    Variable("firing_count", _REPLICATE, "int64", "1", "reactions that fired, and jumps"),
]
_FIELD, _MOMENT = ("species", PLACES), (SWEPT, "time", "species", PLACES)
_VARIABLES = {
    "trajectories": [
        Variable("amount", (*_REPLICATE, "time", *_FIELD), "number", "1", "molecules in a voxel"),
    ],
    "statistics": [
        Variable("mean", _MOMENT, "float64", "1", "mean of the amount in a voxel"),
        Variable("variance", _MOMENT, "float64", "1", "unbiased variance of the amount"),
        Variable("count", (SWEPT, "time"), "int64", "1", "realizations that reached this time"),
    ],
    "final": [
        Variable("amount", (*_REPLICATE, *_FIELD), "number", "1", "molecules at the last time"),
    ],
}  # fmt: skip
for _output, _variables in _VARIABLES.items():
    results.register("stochastic", f"space-{_output}", [*_variables, *_STATUS])


class Collector:
    """Collects the results of chunks and returns them as a Dataset.

    `shape`: times, species, and voxels along every axis.
    """

    wanted = Wanted(amounts=True)
    takes_long = False

    def __init__(
        self, output: str, layout: Layout, replicates: int, shape: tuple[int, ...],
        axes: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._output, self._layout, self._replicates = output, layout, replicates
        self._shape, self._axes = shape, axes
        self._total = layout.count * replicates
        self._parts: list[Any] = []
        self._sums: ExactSums | None = None
        self._count = np.zeros((layout.count, shape[0]), np.int64)
        values = prod(shape)
        if output == "statistics":
            if resident.device() is not None:
                raise PlanError("keep_on_device: output='statistics' is made on the host")
            self.takes_long = True
            check_room(
                56 * layout.count * values,
                f"an array of statistics of {layout.count:,} points and {values:,} amounts",
                "use fewer voxels, times or points",
            )
            self._sums = ExactSums((layout.count, *shape))
        else:
            check_room(
                8 * self._total * values,
                f"an array of {values:,} amounts of {self._total:,} realizations",
                "use fewer replicates or times, or output='statistics'",
            )

    def widens(self, status: np.ndarray) -> bool:
        """Amounts have one width in space."""
        return False

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        """Add the results of a chunk; `first` is its first realization."""
        amounts = chunk["amounts"].reshape(-1, *self._shape)
        if self._sums is None:
            self._parts.append(amounts)
            return
        reached = np.arange(self._shape[0]) < chunk["rows"][:, None]
        there = reached.reshape(*reached.shape, *[1] * (amounts.ndim - 2))
        points = np.arange(first, first + len(amounts)) // self._replicates
        for point in np.unique(points):
            here = points == point
            self._sums.add_values(np.where(there[here], amounts[here], 0), int(point))
            self._count[point] += reached[here].sum(axis=0)

    def dataset(
        self, found: Mapping[str, np.ndarray], coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        """The result, from the data `found` and the times reached of every realization."""
        values, swept, coords = dict(found), self._layout.shape, dict(coords)
        reached = values.pop("rows")
        if self._sums is not None:
            found_of = moments(self._sums, self._count) | {"count": self._count}
            values |= {name: one.reshape(*swept, *one.shape[1:]) for name, one in found_of.items()}
        else:
            amounts = np.concatenate(self._parts) if len(self._parts) > 1 else self._parts[0]
            if len(amounts) < self._total:
                shape = (self._total - len(amounts), *self._shape)
                amounts = np.concatenate([amounts, np.zeros_like(amounts, order="C", shape=shape)])
            amounts = amounts.reshape(*swept, self._replicates, *self._shape)
            if self._output == "final":
                del coords["time"]
                amounts = np.take(amounts, 0, axis=len(swept) + 1)
                unreached = reached == 0
                if unreached.any():
                    amounts = resident.with_missing(amounts, unreached)
            values["amount"] = amounts
        return results.dataset(
            "stochastic", f"space-{self._output}", values, coords=coords, attrs=attrs,
            swept=self._layout.dims, places=self._axes, computed_rows=reached,
        )  # fmt: skip
