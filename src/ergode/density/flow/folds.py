"""States that fold between neighbours of a lattice, whose sums may be wrong without a sign of it.

Both halves of a checkerboard have the same places along each axis: what varies along one axis alone
looks alike in both. So where states bend much from point to point, the points of even and of odd
numbers along each axis are compared too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ergode.core import kernels
from ergode.density.flow import sums
from ergode.density.flow.weighted import Moments, brief
from ergode.density.grid import lattice

if TYPE_CHECKING:
    from ergode.density.flow.carrier import Carrier
    from ergode.density.flow.points import Start

_BENT = 0.3  # second difference of a state between neighbours, in deviations
_FOLDED = 0.5  # the same, from which points may miss a fold altogether


def uneven(carrier: Carrier, start: Start, found: Moments) -> np.ndarray:
    """How far points of even and odd numbers along an axis are apart [density], in deviations.

    Zero where states hardly bend from point to point, and infinite where they bend so much that all
    points may miss a fold.
    """
    device, size = carrier.device, carrier.size
    tops = carrier.tops(carrier.log_weights)
    tops = np.where(np.isfinite(tops), tops, 0.0)
    beside, there = device.put_together([start.neighbours, tops])
    out = device.empty((carrier.count, 1 + size, carrier.groups), np.float64)
    groups = carrier.count * carrier.groups
    device.run(
        kernels.for_each(sums.fold, bindings={lattice.DIMENSION: size}), groups,
        carrier.point_count, carrier.groups, beside, there, carrier.points, carrier.log_weights,
        out, **brief(groups, carrier.count * carrier.point_count),
    )  # fmt: skip
    total = np.asarray(device.get(out)).sum(axis=-1)
    variance = np.diagonal(found.covariance, axis1=1, axis2=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        bend = np.sqrt((total[:, 1:] / total[:, :1] / variance).max(axis=1))
    is_bent = bend > _BENT
    worst = np.zeros(carrier.count)
    if is_bent.any():
        for d in range(size):
            signs = np.where(start.index[:, 1 + d] % 2 == 0, 1, -1).astype(np.int8)
            (half,) = device.put_together([signs])
            apart = carrier.apart(half, tops)
            worst = np.fmax(worst, np.where(np.isfinite(apart), apart, 0.0))
    return np.where(bend > _FOLDED, np.inf, np.where(is_bent, worst, 0.0))
