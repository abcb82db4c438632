"""Several points of a sweep in one launch: the point and the replicate of each row.

Rows of a launch are numbered point by point.  Tables that differ between points have a leading axis
of points, and a row reads the tables of its point.  Its draws are keyed by its replicate, as if the
point ran alone.  Points have the same replicates, or each has numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np

from ergode.core.columns import values_of
from ergode.core.compiler.language import option
from ergode.models.epidemic.compartments import CompartmentModel

SWEPT = option(False)
"""Whether a launch has several points."""
ROWS_MOST = 2**31
"""Upper bound (exclusive) of the replicates of a point, and of the rows of a launch of several."""


class ModelsTogether(Sequence[CompartmentModel]):
    """Models of points that were made by one call; a single one is made when it is asked for."""

    def __init__(
        self,
        together: CompartmentModel,  # its numbers are columns of all points, or equal at all points
        make: Callable[[int], CompartmentModel],  # ``make(point)`` returns the model of a point
        points: np.ndarray,  # [model_count]: the points whose models these are
    ) -> None:
        self._together, self._make, self._points = together, make, points

    def __len__(self) -> int:
        return len(self._points)

    @overload
    def __getitem__(self, at: int) -> CompartmentModel: ...
    @overload
    def __getitem__(self, at: slice) -> ModelsTogether: ...
    def __getitem__(self, at: int | slice) -> CompartmentModel | ModelsTogether:
        if isinstance(at, slice):
            return self.of(self._points[at])
        return self._make(int(self._points[at]))

    def of(self, points: np.ndarray) -> ModelsTogether:
        """The models of some points."""
        return ModelsTogether(self._together, self._make, points)

    def numbers(self, get: Callable[[CompartmentModel], Sequence[float]]) -> np.ndarray:
        """What `numbers_of` returns."""
        columns = [values_of(number, 1) for number in get(self._together)]
        found = np.empty((len(self), len(columns)))
        for k, column in enumerate(columns):
            found[:, k] = column[self._points] if column.size > 1 else column
        return found


def numbers_of(
    models: Sequence[CompartmentModel], get: Callable[[CompartmentModel], Sequence[float]]
) -> np.ndarray:
    """Numbers of the models of all points, float64 [point, number].

    ``get(model)`` returns those of one model.
    """
    if isinstance(models, ModelsTogether):
        return models.numbers(get)
    if all(model is models[0] for model in models):
        return np.tile(np.array(get(models[0]), np.float64), (len(models), 1))
    rows = np.array([get(model) for model in models], np.float64)
    return rows.reshape(len(models), -1)


def rates_of(model: CompartmentModel) -> list[float]:
    """Transmission rates, infection after infection, for `numbers_of`."""
    return [rate for one in model.infections for rate in one.transmission_rate.values()]


@dataclass(frozen=True)
class PointGroup:
    """Points that run in one launch: their tables differ in numbers, but in no size or index."""

    # See `numbers_of` for what is asked of all models.
    models: Sequence[CompartmentModel]
    initials: Sequence[Mapping[str, Any]]
    begins: np.ndarray  # int64 [point_count]: number of the first replicate of each point
    replicates: int  # replicates of each point

    @property
    def has_own_seeds(self) -> bool:
        """Whether points differ in their initial conditions."""
        return any(initial is not self.initials[0] for initial in self.initials)


class Rows(NamedTuple):
    """Points and replicates of the rows of a launch."""

    point: Any  # of the first row
    replicate: Any  # of the first row; in a sweep, counted from the first of its point
    replicates: Any  # rows of each point
    begins: Any  # in a sweep, first replicate of each point, int64 [point_count]


def rows_from(first: int, group: PointGroup | None) -> Rows:
    """The rows of a launch that begins with row `first` of all rows, on the host."""
    if group is None:
        return Rows(0, first, 1, 0)
    point, replicate = divmod(first, group.replicates)
    return Rows(point, replicate, group.replicates, group.begins)


def bindings_of(group: PointGroup | None) -> dict[Any, Any]:
    """Options of kernels that run a group."""
    return {} if group is None else {SWEPT: True}


def replicate_of(rows, row):
    """Replicate number of a row."""
    if SWEPT:
        number = np.uint32(np.uint32(rows.replicate) + np.uint32(row))
        point = np.uint32(np.uint32(rows.point) + np.uint32(number // np.uint32(rows.replicates)))
        return rows.begins[point] + np.int64(np.uint32(number % np.uint32(rows.replicates)))
    return rows.replicate + row


def point_of(rows, row):
    """Point number of a row."""
    number = np.uint32(np.uint32(rows.replicate) + np.uint32(row))
    return np.uint32(np.uint32(rows.point) + np.uint32(number // np.uint32(rows.replicates)))
