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

from ergode.core import kernels
from ergode.density.flow import sums
from ergode.density.flow.weighted import brief
from ergode.density.grid import lattice

if TYPE_CHECKING:
    from ergode.density.flow.carrier import Carrier


class Smeared:
    """Smeared weights of the points of a carrier, from its first measurement on."""

    def __init__(self, carrier: Carrier) -> None:
        device, shape = carrier.device, (carrier.count, carrier.point_count)
        self._carrier = carrier
        self._before = device.empty(shape, np.float64)
        self._logs = device.empty(shape, np.float64)
        device.copy(carrier.log_weights, self._logs)
        self._widest = device.zeros(shape, np.float64)

    def before(self) -> None:
        """Note the log-weights before a measurement."""
        self._carrier.device.copy(self._carrier.log_weights, self._before)

    def after(self, is_known: bool) -> None:
        """Smear the likelihood of a measurement, whose largest value may be known to be one."""
        carrier = self._carrier
        total = carrier.count * carrier.point_count
        if is_known:
            summits = carrier.device.zeros((carrier.count, 1), np.float64)
        else:
            gain = carrier.device.empty((carrier.count, carrier.point_count), np.float64)
            minus = kernels.for_each(sums.gained)
            carrier.device.run(
                minus, total, carrier.point_count, self._before, carrier.log_weights, gain,
                **brief(total),
            )  # fmt: skip
            summits = carrier.summits(gain)
        kernel = kernels.for_each(sums.smear, bindings={lattice.DIMENSION: carrier.size})
        carrier.device.run(
            kernel, total, carrier.point_count, summits, carrier.beside, self._before,
            carrier.log_weights, self._logs, self._widest, **brief(total),
        )  # fmt: skip

    def hidden(self) -> np.ndarray:
        """How far moments may be off because likelihoods are thin [density], in deviations."""
        carrier = self._carrier
        out = carrier.device.empty((carrier.count, 2, carrier.groups), np.float64)
        groups = carrier.count * carrier.groups
        total = carrier.count * carrier.point_count
        carrier.device.run(
            kernels.for_each(sums.thin), groups, carrier.point_count, carrier.groups,
            carrier.summits(self._logs), self._logs, self._widest, out, **brief(groups, total),
        )  # fmt: skip
        whole, thin = np.moveaxis(np.asarray(carrier.device.get(out)).sum(axis=-1), 1, 0)
        hidden = np.zeros(carrier.count)
        for which in np.flatnonzero(thin > _THIN_MOST * whole).tolist():
            points, log = carrier.host(which)
            wide = np.asarray(carrier.device.get(self._widest))[which] > sums.THINNEST
            hidden[which] = _hidden(points, log, self.host(which), wide, carrier.start.neighbours)
        return hidden

    def host(self, which: int) -> np.ndarray:
        """Logarithms of the smeared weights of a density [point], on the host."""
        return np.array(self._carrier.device.get(self._logs)[which])

    def leave(self, there: Any) -> None:
        """Go on with points whose numbers are `there`, on the device."""
        for name in ("_before", "_logs", "_widest"):
            setattr(self, name, self._carrier.chosen(getattr(self, name), there))


def _hidden(
    points: np.ndarray, log: np.ndarray, smeared: np.ndarray, is_thin: np.ndarray,
    neighbours: np.ndarray,
) -> float:  # fmt: skip
    """How far moments of points may be off because likelihoods are thin, in deviations.

    Where thin likelihoods meet the points of a few cells, these have the smeared weight together.
    Where they meet none, cells have their smeared weights.
    """
    top = max(log.max(), smeared.max())
    weight, cells = np.exp(log - top), np.where(is_thin, np.exp(smeared - top), 0.0)
    near = _around(cells, neighbours)
    seen = _around(np.where(is_thin, weight, 0.0), neighbours)
    with np.errstate(invalid="ignore", divide="ignore"):
        thin = np.where(seen * _MET > near, weight * near / seen, cells)
    mended = np.where(is_thin, thin, weight)
    (mean, deviation), (other, wide) = (_moments(points, one) for one in (weight, mended))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float((np.maximum(np.abs(other - mean), np.abs(wide - deviation)) / deviation).max())


def _moments(points: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of weighted points [variable]."""
    share = weight / weight.sum()
    mean = share @ points
    return mean, np.sqrt(share @ (points - mean) ** 2)


def _around(x: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Sums over a point and all points beside it, across corners too."""
    for up, down in neighbours:
        padded = np.append(x, 0.0)  # a neighbour that is not there has the number -1
        x = x + padded[up] + padded[down]
    return x


_MET = 10.0  # smeared weight of a few cells, relative to that of their points
_THIN_MOST = 1e-4  # of the smeared weight in cells with a thin likelihood, that is left alone
