"""Likelihoods smeared over cells: where a posterior may lie between the points of a lattice.

A likelihood thinner than a cell may miss the point of the cell, and the cell still has weight. The
square root of the logarithm of a likelihood is a distance from what was measured. Its differences
between neighbours are its spread s over a cell. The mean of a Gaussian likelihood over the cell is
then that of a distance with the variance 1 + s^2, as in a Kalman filter. Products over measurements
are weights of cells. They are no results: they tell which cells must be smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.density.flow import sums
from ergode.density.flow.cells import columns
from ergode.density.flow.weighted import Moments

if TYPE_CHECKING:
    from ergode.density.flow.carrier import Carrier


class Smeared:
    """Smeared weights of the points of a carrier, from its first measurement on."""

    def __init__(self, carrier: Carrier) -> None:
        device, shape = carrier.device, (carrier.count, carrier.point_count)
        self._carrier = carrier
        self._before = device.empty(shape, np.float64)
        self.logs = device.empty(shape, np.float64)
        device.copy(carrier.log_weights, self.logs)
        self._widest, self._nothing = device.zeros_together(
            [(shape, np.float64), ((carrier.count, 1), np.float64)]
        )

    def before(self) -> None:
        """Note the log-weights before a measurement."""
        self._carrier.device.copy(self._carrier.log_weights, self._before)

    def after(self, is_known: bool) -> None:
        """Smear the likelihood of a measurement, whose largest value may be known to be one."""
        carrier = self._carrier
        if is_known:
            summits = self._nothing
        else:
            gain = carrier.device.empty((carrier.count, carrier.point_count), np.float64)
            carrier.pointwise(sums.gained, self._before, carrier.log_weights, gain)
            summits = carrier.summits(gain)
        carrier.pointwise(
            sums.smear, summits, carrier.beside, self._before, carrier.log_weights, self.logs,
            self._widest,
        )  # fmt: skip

    def hidden(self, found: Moments, others: Any) -> np.ndarray:
        """How far moments may be off because likelihoods are thin [density], in deviations.

        `found` are the moments, and `others` the summits of the log-weights.
        """
        carrier = self._carrier
        out = carrier.device.empty((carrier.count, 2, carrier.groups), np.float64)
        summits = carrier.summits(self.logs)
        carrier.groupwise(sums.thin, summits, self.logs, self._widest, out)
        whole, thin = carrier.totals(carrier.gathered(out)).T
        is_thin = thin > _THIN_MOST * whole
        if not is_thin.any():
            return np.zeros(carrier.count)
        mended = carrier.moments_by(self._mended(summits, others))
        deviation, wide = (
            np.sqrt(np.diagonal(one.covariance, axis1=1, axis2=2)) for one in (found, mended)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.maximum(np.abs(mended.mean - found.mean), np.abs(wide - deviation))
            return np.where(is_thin, (off / deviation).max(axis=1), 0.0)

    def _mended(self, *summits: Any) -> Any:
        """Log-weights where thin likelihoods count in cells, not at points, on the device.

        Where they meet the points of a few cells, these have the smeared weight together. Where
        they meet none, cells have their smeared weights.
        """
        carrier, device = self._carrier, self._carrier.device
        out = device.empty(self.logs.shape, np.float64)
        logs = carrier.log_weights, self.logs, self._widest
        if not device.is_cuda:
            carrier.pointwise(sums.mend, *summits, carrier.beside, *logs, out)
            return out
        pairs = [device.empty(self.logs.shape, np.float64) for _ in range(4)]
        near, other = pairs[:2], pairs[2:]
        carrier.pointwise(sums.part, *summits, *logs, *near)
        for d in range(carrier.size):
            carrier.pointwise(sums.around, d, carrier.beside, *near, *other)
            near, other = other, near
        carrier.pointwise(sums.mend, *logs, *near, out)
        return out

    @property
    def arrays(self) -> dict[str, Any]:
        """What is kept between two measurements, on the device."""
        return {"smeared": self.logs, "widest": self._widest}

    def leave(self, there: Any) -> None:
        """Go on with points whose numbers are `there`, on the device."""
        device = self._carrier.device
        self.logs, self._widest = (
            columns(device, one, there) for one in (self.logs, self._widest)
        )  # fmt: skip
        self._before = device.empty(self.logs.shape, np.float64)


_THIN_MOST = 1e-4  # of the smeared weight in cells with a thin likelihood, that is left alone
