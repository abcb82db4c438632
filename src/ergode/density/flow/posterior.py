"""What the points of one density say of its posterior at the first time.

All measurements so far are functions of the first state, so that the points there have the weights
that they have now. Arrays of points stay on the device: the host gets sums over them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.density.flow import sums
from ergode.density.flow.cells import Cells, columns, run
from ergode.density.flow.placed import Points
from ergode.density.flow.points import Start
from ergode.density.flow.weighted import Moments, Weighted, brief

_POWERS = 1.25 ** -np.arange(129.0)
"""Powers of a likelihood that are tried, from one down."""

_TRIED = {True: 16, False: 4}  # powers at once on CUDA and on a CPU, after the first
_PARTS = 256  # groups of points, at most, whose sums the host adds
_SEEN = 8192  # points that tell a parabola


class Posterior(Weighted):
    """Points of one density at the first time, and the logarithms of their weights by now."""

    def __init__(
        self,
        device: Device,
        start: Start,
        cells: Cells | Points,  # at the first time
        log_weights: Any,  # [1, point]: logarithms of weights by now
        smeared: Any,  # [1, point]: smeared ones
        others: tuple[Any, Any, Any],  # `_signs` and `_edge` of the points, and `counts`
    ) -> None:
        self.device, self.count, self.start, self.cells = device, 1, start, cells
        self.size, _, self.point_count = cells.points.shape
        self.points, self.base, self.log_weights = cells.points, cells.log, log_weights
        self.tempered, self.smeared = log_weights, smeared
        # [1, point]: smeared logarithms of weights, with what points that are far away add.
        self._signs, self._edge, self.counts = others

    @property
    def _parts(self) -> int:
        return min(_PARTS, self.groups)

    def power(self, wanted: float) -> float:
        """The largest power up to one of the likelihood that leaves an effective number of points.

        If none does, the one that leaves the most of them.
        """
        best, most = 0.0, 0.0
        for powers in np.split(_POWERS, range(1, len(_POWERS), _TRIED[self.device.is_cuda])):
            effective = self._effective(powers)
            if len(enough := np.flatnonzero(effective >= wanted)):
                return float(powers[enough[0]])
            if effective.max() > most:
                best, most = float(powers[effective.argmax()]), float(effective.max())
        return best

    def _effective(self, powers: np.ndarray) -> np.ndarray:
        """Effective numbers of points with each of some powers of the likelihood."""
        out = self.device.empty((3, len(powers), self._parts), np.float64)
        total = len(powers) * self._parts
        self.device.run(
            kernels.for_each(sums.temper), total, self.point_count, self._parts,
            self.device.put(powers), self.base, self.log_weights, out,
            **brief(total, len(powers) * self.point_count),
        )  # fmt: skip
        top, added, squares = np.asarray(self.device.get(out))
        with np.errstate(invalid="ignore"):
            scale = np.exp(top - top.max(axis=1, keepdims=True))
            found = (added * scale).sum(axis=1) ** 2 / (squares * scale**2).sum(axis=1)
        return np.nan_to_num(found)

    def at(self, power: float) -> Moments:
        """Moments with a power of the likelihood, whose weights are `tempered` from now on."""
        self.tempered = self.taken(power)
        return self.moments_by(self.tempered)

    def taken(self, power: float) -> Any:
        """Logarithms of weights [1, point] with a power of the likelihood, on the device."""
        if power == 1.0:
            return self.log_weights
        out = self.device.empty(self.base.shape, np.float64)
        run(
            self.device, sums.take_power, self.point_count, power, self.base, self.log_weights, out
        )  # fmt: skip
        return out

    def beyond(
        self, log_weights: Any, mean: np.ndarray, root: np.ndarray, limit: float
    ) -> tuple[float, np.ndarray]:
        """Share of the weight beyond a squared distance `limit`, and how much lies in each shell.

        Distances are those from a mean, in deviations by the root of a covariance; shells are half
        a deviation thick.
        """
        out = self.device.zeros((sums.SHELLS + 1, self._parts), np.float64)
        there = self.device.put_together([mean, np.linalg.inv(root)])
        self.device.run(
            kernels.for_each(sums.shell), self._parts, self.point_count, self._parts, limit,
            *there, self.summits(log_weights), self.points, log_weights, out,
            **brief(self._parts, self.point_count),
        )  # fmt: skip
        *shells, outside = np.asarray(self.device.get(out)).sum(axis=1)
        total = np.sum(shells)
        return float(outside / total), np.array(shells) / total

    def some(self) -> tuple[np.ndarray, np.ndarray]:
        """Some points [point, variable], and logarithms of their densities, on the host."""
        numbers = np.arange(0, self.point_count, max(1, self.point_count // _SEEN))
        there = self.device.put(numbers)
        points, log = (
            np.asarray(self.device.get(columns(self.device, one, there)))[..., 0, :]
            for one in (self.points, self.log_weights)
        )
        shape = self.start.shape
        log = log if shape is None else log - shape.log_volume[numbers]
        known = np.isfinite(log)
        return points.T[known], log[known]
