"""Points drawn from a prior, which noise moves at random: a reference within one or two per cent.

Whatever the field does to cells of a grid, or to Gaussian cells, these points have the moments of
the density, but for chance. Noise is added half before and half after each step (of weak order two
in the steps), which is half as long as the paths of most points need without noise. After a
measurement points are drawn anew if less than half of them count.

The first points are equidistributed: additive recurrences with powers of the root of
x^(d + 1) = x + 1, through the inverse normal distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import room_for
from ergode.core.devices import resolve
from ergode.density.flow import gaussians
from ergode.density.flow.carrier import Carrier
from ergode.density.flow.points import start_of
from ergode.density.grid import lattice
from ergode.density.noise import Noise
from ergode.models.estimation.covariances import root_of
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Gaussian, Mixture, Samples
from ergode.models.fields.vector_field import VectorField

POINTS = 10_000
_FINE = 1e-3  # error of a step, in deviations
_FEWEST, _MOST = 8, 1000  # steps of noise


class Drawn(Carrier):
    """Points of one density that noise moves at random, on all cores."""

    def __init__(
        self, field: VectorField, prior: Gaussian | Mixture | Samples, parameters: np.ndarray,
        scales: tuple[np.ndarray, np.ndarray], noise: Noise | None, duration: float,
        count: int = POINTS, **options: Any,
    ) -> None:  # fmt: skip
        start = start_of(Samples(_spread(prior, count)), None, 0.0)
        super().__init__(
            field, [start], parameters, scales, device=resolve("cpu"), precision="float64",
            fine=_FINE, **options,
        )  # fmt: skip
        matrix = None if noise is None else noise.matrix
        self._root = None if matrix is None else root_of(matrix)
        self._local: kernels.Kernel | None = None
        if noise is not None and matrix is None:
            given = len(field.parameters)
            bindings = {lattice.DIMENSION: self.size, lattice.PARAMETERS: room_for(given)}
            bindings |= noise.bindings(self.size, given)
            self._local = kernels.for_each(gaussians.kick, bindings=bindings)
        self.fewest = float(count)  # effective number of points, after any measurement
        self._random = np.random.default_rng(0)
        self._bounds = duration / _MOST, duration / _FEWEST

    def follow(self, begin: float, end: float, *, is_brief: bool = False) -> None:
        if self._root is None and self._local is None:
            super().follow(begin, end)
            return
        now, owed = begin, 0.0
        while now < end:
            known = self._steps[self._steps > 0]
            step = np.clip(0.5 * np.median(known) if known.size else 0.0, *self._bounds)
            after = end if now + 1.5 * step > end else now + float(step)
            self._shake(now, owed + 0.5 * (after - now))
            super().follow(now, after, is_brief=True)
            owed = 0.5 * (after - now)
            now = after
        self._shake(now, owed)

    def _shake(self, time: float, duration: float) -> None:
        """Let noise act for a while."""
        if self._local is None:
            self._kick(self._root * np.sqrt(duration))
            return
        random = self._random.standard_normal((self.size, self.point_count))
        with kernels.readable_errors():
            self.device.run(
                self._local, self.point_count, time, float(np.sqrt(duration)), random, self._frame,
                self.points,
            )  # fmt: skip

    def jump(self, maneuver: Maneuver, places: np.ndarray) -> None:
        super().jump(maneuver, places)
        if maneuver.covariance is not None:
            self._kick(root_of(maneuver.covariance))

    def weigh(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        constants = super().weigh(measurement, places)
        log = self.log_weights[0]
        top = log.max()
        weight = np.exp(log - top) if np.isfinite(top) else np.zeros(log.size)
        self.fewest = min(self.fewest, weight.sum() ** 2 / max(float(weight @ weight), 1e-300))
        if 0 < weight.sum() ** 2 < 0.5 * log.size * (weight @ weight):
            places_ = (np.arange(log.size) + self._random.random()) / log.size
            chosen = np.searchsorted(np.cumsum(weight / weight.sum()), places_)
            chosen = self._random.permutation(np.minimum(chosen, log.size - 1))
            self.points[:] = self.points[:, :, chosen]
            self._steps[:] = self._steps[:, chosen]
            log[:] = top + np.log(weight.mean())  # `weigh` has set to zero what is killed
        return constants

    def _kick(self, root: Any) -> None:
        self.points[:, 0] += root @ self._random.standard_normal((self.size, self.point_count))


def _spread(prior: Gaussian | Mixture | Samples, count: int) -> np.ndarray:
    """Points [`count`, variable] of a prior, each with the same weight."""
    from scipy.special import ndtri  # importing it takes 0.1 s

    size = prior.mean.size
    base = 2.0
    for _ in range(60):
        base = (1.0 + base) ** (1.0 / (size + 2))
    steps = base ** -np.arange(1.0, size + 2)
    if isinstance(prior, Samples):
        chosen = np.searchsorted(np.cumsum(prior.weights), (np.arange(count) + 0.5) / count)
        return np.asarray(prior.points[np.minimum(chosen, len(prior.points) - 1)])
    even = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    parts, weights = ([prior], [1.0]) if isinstance(prior, Gaussian) else (
        prior.components, prior.weights
    )  # fmt: skip
    whose = np.minimum(np.searchsorted(np.cumsum(weights), even[:, -1]), len(parts) - 1)
    z = ndtri(even[:, :-1])
    points = np.empty((count, size))
    for number, one in enumerate(parts):
        own = whose == number
        points[own] = one.mean + z[own] @ root_of(np.asarray(one.covariance, np.float64)).T
    return points
