"""What the points of one density say of its posterior at the first time.

All measurements so far are functions of the first state, so that the points there have the weights
that they have now. Arrays of points stay on the device: the host gets sums over them.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from ergode.core.devices import Device
from ergode.density.flow import on_cpu, points_kernels, sums
from ergode.density.flow.cells import Cells, added, columns, kernel_of, parts_of, run, run_parts
from ergode.density.flow.placed import Points
from ergode.density.flow.points import Start
from ergode.density.flow.weighted import Weighted

_POWERS_MOST = 128  # that are tried, from one down; see `sums.temper`
_COARSE = 4  # the largest that is enough is looked for among every fourth, and then between them
_TRIED = {True: 16, False: 1}  # powers at once on CUDA and on a CPU
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
        self._parts = parts_of(device, self.point_count)
        self.tempered, self.smeared = log_weights, smeared
        self.top = self.own_top = 0.0  # of the tempered logarithms of weights, and of those by now
        # [1, point]: smeared logarithms of weights, with what points that are far away add.
        self._signs, self._edge, self.counts = others
        self._tried: dict[int, tuple[float, float]] = {}

    def temper(self, wanted: float) -> float:
        """Take the likelihood to the largest power up to one that leaves enough effective points.

        If none does, to the one that leaves the most of them. Returns the power.
        """
        coarse = range(0, _POWERS_MOST, _COARSE)
        which = next((k for k in coarse if self._effective(k)[0] >= wanted), None)
        if which is None:
            which = max(coarse, key=lambda k: self._effective(k)[0])
        else:
            finer = range(max(0, which + 1 - _COARSE), which + 1)
            which = next(k for k in finer if self._effective(k)[0] >= wanted)
        self.own_top, self.top = self._effective(0)[1], self._effective(which)[1]
        power = math.exp(sums.STEP * which)
        self.tempered = self._taken(power)
        return power

    def _effective(self, which: int) -> tuple[float, float]:
        """Effective number of points with a power of the likelihood, and the largest weight."""
        if which not in self._tried:
            count = _TRIED[self.device.is_cuda]
            first = which - which % count
            found = zip(*self._effective_of(first, count), strict=True)
            self._tried |= dict(zip(range(first, first + count), found, strict=True))
        return self._tried[which]

    def _effective_of(self, first: int, count: int) -> tuple[list[float], list[float]]:
        """The same of several powers."""
        out = self.device.empty((3, count, self._parts), np.float64)
        if self.device.is_cuda:
            self.device.run(
                kernel_of(sums.temper), count * self._parts, self.point_count, self._parts,
                first, self.base, self.log_weights, out,
            )  # fmt: skip
        else:
            on_cpu.temper(first, self.base, self.log_weights, out)
        top, whole, squares = np.asarray(self.device.get(out))
        tops = top.max(axis=1)
        with np.errstate(invalid="ignore"):
            scale = np.exp(top - tops[:, None])
            found = (whole * scale).sum(axis=1) ** 2 / (squares * scale**2).sum(axis=1)
        return np.nan_to_num(found).tolist(), tops.tolist()

    def _taken(self, power: float) -> Any:
        """Logarithms of weights [1, point] with a power of the likelihood, on the device."""
        if power == 1.0:
            return self.log_weights
        out = self.device.empty(self.base.shape, np.float64)
        run(
            self.device, sums.take_power, self.point_count, power, self.base, self.log_weights, out
        )  # fmt: skip
        return out

    @cached_property
    def smeared_top(self) -> float:
        """The largest smeared logarithm of a weight."""
        return float(np.asarray(self.device.get(self.summits(self.smeared)))[0, 0])

    @property
    def farthest_top(self) -> float:
        """What no logarithm of a weight with what its point adds to the moments exceeds."""
        return self.smeared_top + math.log1p(points_kernels.FARTHEST)

    def beyond(
        self, mean: np.ndarray, root: np.ndarray, wider: np.ndarray, limit: float
    ) -> list[tuple[float, np.ndarray]]:
        """Share of the weight beyond a squared distance `limit`, and how much lies in each shell.

        Of tempered weights, of smeared ones, and of `counts`. Distances are those from a mean, in
        deviations by the root of a covariance, and by a `wider` one of smeared weights; shells are
        half a deviation thick.
        """
        own, tops = np.linalg.inv(root), [self.top, self.smeared_top, self.farthest_top]
        out = self.device.zeros((3, sums.SHELLS + 1, self._parts), np.float64)
        there = self.device.put_together(
            [np.array(tops), mean, np.stack([own, np.linalg.inv(wider), own])]
        )
        run_parts(
            self.device, sums.shell, self.point_count, limit, *there, self.points, self.tempered,
            self.smeared, self.counts, out, times=3,
        )  # fmt: skip
        found = added(self.device, out)
        total = found[:, :-1].sum(axis=1)
        return [
            (float(outside / whole), shells / whole)
            for (*_, outside), shells, whole in zip(found, found[:, :-1], total, strict=True)
        ]

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
