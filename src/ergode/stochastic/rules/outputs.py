"""The kinds of output of rules: values of observables and functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ergode.core import results
from ergode.core.calls import resident
from ergode.core.calls.launch import check_room
from ergode.core.errors import PlanError
from ergode.core.results import SWEPT, Variable
from ergode.core.results.statistics import Moments
from ergode.models.sweep import Layout
from ergode.stochastic.outputs import Collector as OfNetwork
from ergode.stochastic.rules.tables import RuleTables
from ergode.stochastic.runners.chunks import Wanted

if TYPE_CHECKING:
    import xarray

Output = Literal["trajectories", "statistics", "final"]

_REPLICATE = (SWEPT, "replicate")
_STATUS = [
    Variable("status", _REPLICATE, "uint8", "1", "how the realization ended (see Status)"),
    Variable("firing_count", _REPLICATE, "int64", "1", "rules that fired"),
]
_RULE = (SWEPT, "time", "rule")
_VALUE = "value of an observable or a function"
_VARIABLES = {
    "trajectories": [
        Variable("value", (*_REPLICATE, "time", "rule"), "float64", "1", f"{_VALUE} at a time"),
    ],
    "statistics": [
        Variable("value_mean", _RULE, "float64", "1", f"mean of the {_VALUE}"),
        Variable("value_variance", _RULE, "float64", "1", f"variance of the {_VALUE}"),
        Variable("count", (SWEPT, "time"), "int64", "1", "realizations that reached this time"),
    ],
    "final": [
        Variable("value", (*_REPLICATE, "rule"), "float64", "1", f"{_VALUE} at the last time"),
    ],
}  # fmt: skip
for _output, _variables in _VARIABLES.items():
    results.register("stochastic", f"rules-{_output}", [*_variables, *_STATUS])


class Collector:
    """Collects the results of chunks and returns them as a Dataset."""

    wanted = Wanted(amounts=True)
    takes_long = True

    def __init__(
        self, output: str, rules: RuleTables, grid: np.ndarray, layout: Layout, replicates: int
    ) -> None:
        self._output, self._layout, self._replicates = output, layout, replicates
        self._names, self._observables = rules.names, len(rules.model.observables)
        self._of_network = OfNetwork(rules.network, grid, layout, replicates)
        if resident.device() is not None:
            raise PlanError("keep_on_device: values of rules are made on the host")
        points = layout.count if output == "statistics" else layout.count * replicates
        check_room(
            24 * points * grid.size * len(self._names),
            f"an array of {len(self._names):,} values at {grid.size:,} times",
            "use fewer replicates or times, or output='statistics'",
        )
        self._values = np.full(
            (0 if output == "statistics" else points, grid.size, len(self._names)), np.nan
        )
        self._moments = (
            Moments(points, grid.size, len(self._names)) if output == "statistics" else None
        )

    def widens(self, status: np.ndarray) -> bool:
        """Amounts have one width."""
        return False

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        """Add the results of a chunk; `first` is its first realization."""
        amounts = chunk["amounts"]
        values = np.concatenate(
            [amounts[..., : self._observables], self._of_network.rule_values(amounts, first)], 2
        )
        reached = np.arange(amounts.shape[1]) < chunk["rows"][:, None]
        if self._moments is None:
            self._values[first : first + len(values)] = np.where(
                reached[:, :, None], values, np.nan
            )
            return
        points = self._of_network.points_of(first, len(values))
        for point in np.unique(points):
            here = points == point
            self._moments.add(int(point), values[here], chunk["rows"][here])

    def dataset(
        self, found: Mapping[str, np.ndarray], coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        """The result, from the data `found` and the times reached of every realization."""
        values, swept, coords = dict(found), self._layout.shape, dict(coords)
        reached = values.pop("rows")
        times = self._values.shape[1]
        if self._moments is not None:
            shape = (*swept, times, len(self._names))
            values |= {
                "value_mean": self._moments.mean().reshape(shape),
                "value_variance": self._moments.variance().reshape(shape),
                "count": self._moments.count.reshape(*swept, times),
            }
        else:
            values["value"] = self._values.reshape(*swept, self._replicates, times, -1)
        if self._output == "final":
            del coords["time"]
            values["value"] = values["value"][..., 0, :]
        return results.dataset(
            "stochastic", f"rules-{self._output}", values,
            coords=coords | {"rule": list(self._names)}, attrs=attrs, swept=self._layout.dims,
            computed_rows=reached,
        )  # fmt: skip
