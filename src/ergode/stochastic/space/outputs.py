"""The kinds of output of a simulation in space: what is kept of each chunk of realizations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ergode.core import parts, resident, results
from ergode.core.arguments import choice
from ergode.core.divide import Merge
from ergode.core.errors import PlanError
from ergode.core.launch import check_room
from ergode.core.results import PLACES, SWEPT, Variable
from ergode.core.statistics import ExactSums
from ergode.models.sweep import Layout
from ergode.stochastic.runners.chunks import Wanted

if TYPE_CHECKING:
    import xarray

Output = Literal["trajectories", "statistics", "final"]

_REPLICATE = (SWEPT, "replicate")
_ENDS = ("status", "firing_count")
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

    Parameters
    ----------
    output : str
    layout : Layout
        Points of the sweep.
    replicates : int
        Of each point.
    shape : tuple of int
        Times, species, and voxels along every axis.
    """

    wanted = Wanted(amounts=True)
    takes_long = False

    def __init__(
        self, output: str, layout: Layout, replicates: int, shape: tuple[int, ...]
    ) -> None:
        self._output, self._layout, self._replicates = output, layout, replicates
        self._shape = shape
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

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        """Add the results of a chunk; `first` is its first realization."""
        amounts = chunk["amounts"].reshape(-1, *self._shape)
        if self._sums is None:
            self._parts.append(amounts)
            return
        reached = np.arange(self._shape[0]) < chunk["rows"][:, None]
        points = np.arange(first, first + len(amounts)) // self._replicates
        for point in np.unique(points):
            here = points == point
            _add(self._sums, self._count[point], amounts[here], reached[here], int(point))

    def dataset(
        self,
        found: Mapping[str, np.ndarray],
        reached: np.ndarray,
        coords: Mapping[str, Any],
        places: tuple[str, ...],
        attrs: Mapping[str, Any],
    ) -> xarray.Dataset:
        """The result, from the data `found` and the times reached of every realization."""
        values, swept = dict(found), self._layout.shape
        coords = dict(coords)
        if self._sums is not None:
            values |= _moments(self._sums, self._count, swept)
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
            swept=self._layout.dims, places=places, computed_rows=reached,
        )  # fmt: skip


def check_output(output: str) -> None:
    """Refuse an output that there is not.

    Raises
    ------
    PlanError
        The name is unknown.
    """
    choice("output", output, _VARIABLES)


def _add(
    sums: ExactSums, count: np.ndarray, amounts: np.ndarray, reached: np.ndarray, at: Any = ...
) -> None:
    """Add amounts [replicate, time, ...] at times that were reached [replicate, time]."""
    count += reached.sum(axis=0)
    for one, there in zip(amounts, reached, strict=True):  # squares of all would take much memory
        last = int(there.sum())
        wide = one[:last].astype(np.int64)
        square = wide * wide
        place = (*((at,) if at is not ... else ()), slice(0, last))
        sums.add(wide, square & 0xFFFFFFFF, square >> 32, place)


def _moments(sums: ExactSums, count: np.ndarray, swept: tuple[int, ...]) -> dict[str, np.ndarray]:
    each = count.reshape(*count.shape, *[1] * (sums.sums.ndim - count.ndim))
    moments = {"mean": sums.mean(each), "variance": sums.variance(each)}
    shaped = {name: values.reshape(*swept, *values.shape[1:]) for name, values in moments.items()}
    return shaped | {"count": count.reshape(*swept, -1)}


# ---- statistics from parts of an ensemble


def merge_of(arguments: Mapping[str, Any]) -> Merge | None:
    """How the output of a call is made of parts, if they are not joined."""
    if arguments["output"] != "statistics":
        return None
    return Merge({"output": "trajectories"}, partial(_statistics, concat=parts.concat))


def _statistics(
    found: Iterable[xarray.Dataset], replicates: int, concat: Callable[..., Any]
) -> xarray.Dataset:
    """Means and variances from the amounts of parts."""
    ended: list[xarray.Dataset] = []
    sums = None
    for part in found:
        like = part["amount"]
        place = like.dims.index(parts.REPLICATE)
        swept, shape = like.dims[:place], like.shape[:place]
        values = like.values.reshape(-1, *like.shape[place:])
        if sums is None:
            sums = ExactSums((len(values), *values.shape[2:]))
            count = np.zeros(sums.sums.shape[:2], np.int64)
        inner = tuple(range(3, values.ndim))
        for point, rows in enumerate(values):
            reached = ~np.isnan(rows).any(axis=tuple(k - 1 for k in inner))
            whole = rows if rows.dtype.kind == "i" else np.nan_to_num(rows)
            _add(sums, count[point], whole, reached, point)
        ended.append(part[list(_ENDS)].load())
    assert sums is not None
    together = ended[0] if len(ended) == 1 else concat(ended)
    coords = {
        str(name): one.values if one.dims in ((), (name,)) else (one.dims[0], one.values)
        for name, one in (dict(like.coords) | dict(together.coords)).items()
    }
    places = [str(dim) for dim in like.dims[place + 3 :]]
    return results.dataset(
        "stochastic", "space-statistics",
        _moments(sums, count, shape) | {name: together[name].values for name in _ENDS},
        coords=coords, attrs=together.attrs, swept=[str(dim) for dim in swept], places=places,
        has_warned=True,
    )  # fmt: skip
