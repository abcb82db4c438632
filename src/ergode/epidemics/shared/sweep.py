"""Many points of a sweep in one launch: which point and which replicate a row is.

Rows of a launch are numbered point by point.  Tables that differ between points have a leading axis
of points, and a row reads those of its point.  Its draws have the key of its replicate, as in the
call of the point alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import option
from ergode.models.epidemic.compartments import CompartmentModel

SWEPT = option(False)
"""Whether a launch is of several points."""
ROWS_MOST = 2**31
"""Replicates of a point, and rows of a launch of several, are fewer."""


@dataclass(frozen=True)
class PointGroup:
    """Points that run in one launch: their tables differ in numbers, but in no size or index.

    Attributes
    ----------
    models, initials : sequence, length point_count
    replicates : int
        Of each.
    """

    models: Sequence[CompartmentModel]
    initials: Sequence[Mapping[str, Any]]
    replicates: int

    @property
    def has_own_seeds(self) -> bool:
        """Whether points differ in who is where at first."""
        return any(initial is not self.initials[0] for initial in self.initials)


class Rows(NamedTuple):
    """What the rows of a launch are."""

    point: Any  # of the first row
    replicate: Any  # of the first row
    replicates: Any  # rows of each point


def rows_from(first: int, group: PointGroup | None) -> Rows:
    """The rows of a launch from number `first` of all on."""
    if group is None:
        return Rows(0, first, 1)
    point, replicate = divmod(first, group.replicates)
    return Rows(point, replicate, group.replicates)


def bindings_of(group: PointGroup | None) -> dict[Any, Any]:
    """What kernels are bound to that run a group."""
    return {} if group is None else {SWEPT: True}


def replicate_of(rows, row):
    """Number of the replicate that a row is."""
    if SWEPT:
        number = np.uint32(np.uint32(rows.replicate) + np.uint32(row))
        return np.int64(np.uint32(number % np.uint32(rows.replicates)))
    return rows.replicate + row


def point_of(rows, row):
    """Number of the point that a row is of."""
    number = np.uint32(np.uint32(rows.replicate) + np.uint32(row))
    return np.uint32(np.uint32(rows.point) + np.uint32(number // np.uint32(rows.replicates)))
