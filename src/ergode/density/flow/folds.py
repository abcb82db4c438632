"""States that fold between neighbours of a lattice, whose sums may be wrong without a sign of it.

Both halves of a checkerboard have the same places along each axis: what varies along one axis alone
looks alike in both. So where states bend much from point to point, the points of even and of odd
numbers along each axis are compared too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.density.flow import points_kernels, sums
from ergode.density.flow.cells import run
from ergode.density.flow.weighted import Moments

if TYPE_CHECKING:
    from ergode.density.flow.carrier import Carrier

_BENT = 0.3  # second difference of a state between neighbours, in deviations
_FOLDED = 0.5  # the same, from which points may miss a fold altogether


def bends_of(carrier: Carrier, summits: Any) -> Any:
    """Start to add up how states bend between neighbours; sums by groups, on the device."""
    device, size = carrier.device, carrier.size
    out = device.empty((carrier.count, 1 + size, carrier.groups), np.float64)
    carrier.groupwise(
        sums.fold, carrier.beside, summits, carrier.points, carrier.log_weights, out
    )  # fmt: skip
    return carrier.gathered(out)


def uneven(
    carrier: Carrier, found: Moments, summits: Any, bends: Any
) -> np.ndarray:  # fmt: skip
    """How far points of even and odd numbers along an axis are apart [density], in deviations.

    Zero where states hardly bend from point to point, and infinite where they bend so much that all
    points may miss a fold.
    """
    device = carrier.device
    total = carrier.totals(bends)
    variance = np.diagonal(found.covariance, axis1=1, axis2=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        bend = np.sqrt((total[:, 1:] / total[:, :1] / variance).max(axis=1))
    is_bent = bend > _BENT
    worst = np.zeros(carrier.count)
    if is_bent.any():
        signs = device.empty((carrier.size, carrier.point_count), np.int8)
        run(device, points_kernels.parity, carrier.point_count, carrier.index, signs)
        for found_ones in [carrier.sums(summits, signs[d]) for d in range(carrier.size)]:
            apart = carrier.apart(found_ones)
            worst = np.fmax(worst, np.where(np.isfinite(apart), apart, 0.0))
    return np.where(bend > _FOLDED, np.inf, np.where(is_bent, worst, 0.0))
