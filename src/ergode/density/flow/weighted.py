"""Weighted points of several densities on one device: weigh them, and add them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.density.flow import gaussians, sums
from ergode.density.grid import lattice
from ergode.models.estimation import likelihood
from ergode.models.estimation.gate import innovation_of
from ergode.models.estimation.measurement import Measurement

_FEW_TERMS = 20_000  # starting a thread takes longer than adding these


@dataclass(frozen=True)
class Moments:
    """Moments of several densities, and how far those of each half of their points are away."""

    log_mass: np.ndarray  # [density]: logarithm of the sum of weights
    mean: np.ndarray  # [density, variable]
    covariance: np.ndarray  # [density, variable, variable]
    effective: np.ndarray  # [density]: effective number of points
    mean_error: np.ndarray  # [density], in deviations: the largest of all variables
    deviation_error: np.ndarray  # [density], relative: the largest of all variables
    log_mass_error: np.ndarray  # [density]
    edge: np.ndarray  # [density]: fraction of the weight at the edge of the points
    hidden: Any = 0.0  # [density], in deviations: what thin likelihoods may hide, see `smeared`
    uneven: Any = 0.0  # [density], in deviations: see `folds`


def brief(count: int, terms: int | None = None) -> dict[str, Any]:
    """Options of work on `count` indices, which a CPU does without a thread if it is little.

    `terms` is the number of points or sums of points, if it is not `count`.
    """
    few = (count if terms is None else terms) <= _FEW_TERMS
    return {"grain": max(count, 1), "is_brief": True} if few else {}


class Weighted:
    """Points of densities, which have equally many, and the logarithms of their weights.

    A subclass sets the attributes. The halves whose moments are compared are those of points whose
    sign is 1, and -1.
    """

    device: Device
    count: int  # of densities
    size: int  # of variables
    point_count: int  # of one density
    points: Any  # [state, density, point]
    log_weights: Any  # [density, point]
    _parameters: np.ndarray  # [density, parameter]
    _exact: Any  # the same, on the device
    _signs: Any  # [point]
    _edge: Any  # [point]: whether a point is at the edge of the points
    _shift: np.ndarray  # [density, variable]: near the means
    _is_wide = False  # whether points carry a covariance
    _periods: np.ndarray | None = None  # [variable], infinite if it has none; None: none has one

    @property
    def groups(self) -> int:
        """Number of groups of points that are added apart."""
        return sums.groups_of(self.point_count)

    def weigh(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        """Multiply weights by likelihoods; returns constants to be added to their logarithms."""
        kernel = kernels.for_each(
            sums.weigh,
            bindings=likelihood.bindings_of(measurement)
            | {lattice.DIMENSION: self.size, lattice.PARAMETERS: self._parameters.shape[1]},
        )
        values, precisions, constants = likelihood.numbers_of(measurement, places)
        with kernels.readable_errors():
            self.device.run(
                kernel, self.count * self.point_count, self.point_count, measurement.time,
                self._exact, *self.device.put_together([values, precisions]), self.points,
                self.log_weights, **brief(self.count * self.point_count),
            )  # fmt: skip
        return constants

    def innovation(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        """Distances of values from what densities expect [density], in deviations."""
        points = np.asarray(self.device.get(self.points))[: self.size].transpose(1, 2, 0)
        log = np.asarray(self.device.get(self.log_weights))
        with np.errstate(invalid="ignore"):
            weights = np.nan_to_num(np.exp(log - log.max(axis=1, keepdims=True)))
        return innovation_of(self.device, measurement, places, points, self._parameters, weights)

    def moments(self) -> Moments:
        """Moments of all densities; NaN where no weight is left."""
        tops = self.tops(self.log_weights)
        safe = np.where(np.isfinite(tops), tops, 0.0)
        if self._periods is not None:
            self._turn_to_mean(safe)
        none, n = -1, self.size
        first = [(none, none), (-2, none)] + [(d, none) for d in range(n)]
        found, at_edge = self._sums(first, safe, self._edge)
        with np.errstate(invalid="ignore", divide="ignore"):
            mass = found[:, 0]
            centre = self._shift + found[:, 2:] / mass[:, None]
        keeps = ~np.isfinite(centre)
        if self._periods is not None:
            keeps |= np.isfinite(self._periods)  # short ways are those from the mean direction
        self._shift = np.where(keeps, self._shift, centre)
        second, covariance, mean_error, deviation_error, mass_error = self._second(
            safe, self._signs
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self._shift + second[:, 1 : 1 + n] / mass[:, None]
            return Moments(
                np.log(mass) + tops, mean, covariance, mass**2 / found[:, 1], mean_error,
                deviation_error, mass_error, at_edge[:, 0] / mass,
            )  # fmt: skip

    def apart(self, signs: Any, tops: np.ndarray) -> np.ndarray:
        """How far both halves of the points by `signs` [point] are apart [density], in deviations.

        After `moments`; `tops` [density] are the largest log-weights.
        """
        _, _, mean_error, deviation_error, _ = self._second(tops, signs)
        return np.asarray(np.maximum(mean_error, deviation_error))

    def _second(
        self, tops: np.ndarray, signs: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Sums up to second powers, covariances, and errors by halves: see `Moments`."""
        none, n = -1, self.size
        pairs = [(d, e) for d in range(n) for e in range(d + 1)]
        wanted = [(none, none)] + [(d, none) for d in range(n)] + pairs
        with np.errstate(invalid="ignore", divide="ignore"):
            second, with_signs = self._sums(wanted, tops, signs)
            covariance = self._covariance(second, pairs)
            deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
            middle = 0.0 if self._periods is None else second[:, 1 : 1 + n] / second[:, :1]
            off, wide, masses = [], [], []
            for half in (second - with_signs, second + with_signs):
                away = half[:, 1 : 1 + n] / half[:, :1] - middle
                off.append(np.abs(away / deviation).max(axis=1))
                own = np.diagonal(self._covariance(half, pairs), axis1=1, axis2=2)
                wide.append(np.abs(np.sqrt(own) / deviation - 1.0).max(axis=1))
                masses.append(np.abs(np.log(half[:, 0] / second[:, 0])))
            return (
                second, covariance, np.max(off, axis=0), np.max(wide, axis=0),
                np.max(masses, axis=0),
            )  # fmt: skip

    def _covariance(self, found: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
        n = self.size
        mean = found[:, 1 : 1 + n] / found[:, :1]
        covariance = np.empty((self.count, n, n))
        for number, (d, e) in enumerate(pairs):
            one = found[:, 1 + n + number] / found[:, 0] - mean[:, d] * mean[:, e]
            covariance[:, d, e] = covariance[:, e, d] = one
        return covariance

    def short_way(self, away: np.ndarray) -> np.ndarray:
        """Differences of states [..., variable], the short ways of periodic variables."""
        if self._periods is None:
            return away
        period = np.where(np.isfinite(self._periods), self._periods, 1.0)
        wrapped = away - period * np.floor(away / period + 0.5)
        return np.where(np.isfinite(self._periods), wrapped, away)

    def tops(self, of: Any) -> np.ndarray:
        """The largest of each density, of an array [density, point]."""
        out = self.device.empty((self.count, self.groups), np.float64)
        kernel = kernels.for_each(sums.largest)
        total = self.count * self.groups
        self.device.run(
            kernel, total, self.point_count, self.groups, of, out,
            **brief(total, total // self.groups * self.point_count),
        )  # fmt: skip
        return np.asarray(self.device.get(out)).max(axis=1)

    def _of_periods(self) -> dict[Any, Any]:
        """Options of kernels that go the short ways of periodic variables."""
        if self._periods is None:
            return {}
        periods = np.where(np.isfinite(self._periods), self._periods, 0.0)
        return {sums.PERIODS: tuple(periods.tolist()), lattice.DIMENSION: self.size}

    def _turn_to_mean(self, tops: np.ndarray) -> None:
        """Set the shifts of periodic variables to their mean directions."""
        assert self._periods is not None
        out = self.device.empty((self.count, self.size, 2, self.groups), np.float64)
        (there,) = self.device.put_together([tops])
        total = self.count * self.groups
        self.device.run(
            kernels.for_each(sums.turn, bindings=self._of_periods()), total, self.point_count,
            self.groups, there, self.points, self.log_weights, out,
            **brief(total, self.count * self.point_count),
        )  # fmt: skip
        across, along = np.moveaxis(np.asarray(self.device.get(out)).sum(axis=-1), 2, 0)
        turns = np.isfinite(self._periods)
        with np.errstate(invalid="ignore"):
            found = np.arctan2(across, along) / (2 * np.pi) * self._periods
        self._shift = np.where(turns & np.isfinite(found), found, self._shift)

    def _sums(
        self, wanted: list[tuple[int, int]], tops: np.ndarray, signs: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums [density, sum] over all points, and with factors `signs` [point]."""
        parts = -(-len(wanted) // sums.TOGETHER)
        asked = np.full((parts * sums.TOGETHER, 2), -1)
        asked[: len(wanted)] = wanted
        rows, columns = asked.T
        out = self.device.empty((self.count, len(asked), 2, self.groups), np.float64)
        bindings = {gaussians.WIDE: True, lattice.DIMENSION: self.size} if self._is_wide else {}
        kernel = kernels.for_each(sums.add_up, bindings=bindings | self._of_periods())
        there = self.device.put_together(
            [np.ascontiguousarray(rows), np.ascontiguousarray(columns), tops, self._shift]
        )
        total = self.count * parts * self.groups
        self.device.run(
            kernel, total, self.point_count, self.groups, *there, signs, self.points,
            self.log_weights, out, **brief(total, total // self.groups * self.point_count),
        )  # fmt: skip
        found = np.asarray(self.device.get(out)).sum(axis=-1)
        return found[:, : len(wanted), 0], found[:, : len(wanted), 1]
