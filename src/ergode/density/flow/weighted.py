"""Weighted points of several densities on one device: weigh them, and add them up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.density.flow import gaussians, on_cpu, sums
from ergode.density.flow.cells import FEW_SUMS, added_in_order, flat, kernel_of
from ergode.density.flow.on_cpu import pairs_of
from ergode.density.grid import lattice
from ergode.models.estimation import likelihood
from ergode.models.estimation.gate import innovation_of
from ergode.models.estimation.likelihood import Undefined
from ergode.models.estimation.measurement import Measurement

_GROUPS = 128  # groups whose sums the device adds up
_GROUPS_MOST = 512  # groups whose largest weights one thread compares
_FEW_TERMS = 20_000  # starting a thread takes longer than adding these
_BY_DIMENSION = sums.smear, sums.fold, sums.summit


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


@lru_cache(maxsize=32)
def _asked(size: int) -> list[tuple[int, int]]:
    """Pairs of factors whose sums are asked for; see `sums.add_up`."""
    one = sums.NONE
    pairs = zip(*(each.tolist() for each in pairs_of(size)), strict=True)
    return [
        (one, one), *((d, one) for d in range(size)), *pairs, (sums.WEIGHT, one), (sums.EDGE, one)
    ]  # fmt: skip


@lru_cache(maxsize=32)
def _squares(size: int) -> np.ndarray:
    """Places of the sums of squares among those that are asked for."""
    rows, columns = pairs_of(size)
    return 1 + size + np.flatnonzero(rows == columns)


@lru_cache(maxsize=32)
def _asked_on(device: Device, size: int) -> list[Any]:
    """The factors on a device, as many as are added together or a multiple of it."""
    wanted = _asked(size)
    both = np.full((2, -(-len(wanted) // sums.TOGETHER) * sums.TOGETHER), sums.NONE)
    both[:, : len(wanted)] = np.transpose(wanted)
    return device.put_together([*both])


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
    _marks: Any  # [2, density], on the device: see `sums.weigh`
    _signs: Any  # [point]
    _edge: Any  # [point]: whether a point is at the edge of the points
    # An array, and the largest of its groups on a GPU, while the logarithms do not change. A point
    # that is lost since then may still be its summit: the others are relative to it all the same.
    _largest: tuple[Any, Any] | None = None
    _is_wide = False  # whether points carry a covariance
    _periods: np.ndarray | None = None  # [variable], infinite if it has none; None: none has one

    @cached_property
    def _made(self) -> dict[Any, kernels.Kernel]:
        """Kernels of a call, as finding one by the functions of its model takes long."""
        return {}

    @property
    def groups(self) -> int:
        """Number of groups of points that are added apart."""
        if not self.device.is_cuda:
            return -(-self.point_count // on_cpu.PIECE)
        return sums.groups_of(self.point_count)

    def pointwise(self, body: Callable[..., Any], *arguments: Any) -> None:
        """Run a kernel for each point of each density, or on a CPU what it is in `on_cpu`."""
        device, total = self.device, self.count * self.point_count
        if device.is_cuda:
            device.run(self._kernel_of(body), total, self.point_count, *arguments)
        else:
            on_cpu.divide_work(
                device, getattr(on_cpu, body.__name__), self.count, total, *arguments
            )

    def groupwise(self, body: Callable[..., Any], *arguments: Any) -> None:
        """The same for each group of points of each density."""
        device, total = self.device, self.count * self.groups
        if device.is_cuda:
            device.run(self._kernel_of(body), total, self.point_count, self.groups, *arguments)
        else:
            function, terms = getattr(on_cpu, body.__name__), self.count * self.point_count
            on_cpu.divide_work(device, function, total, terms, *arguments)

    def _kernel_of(self, body: Callable[..., Any]) -> kernels.Kernel:
        return kernel_of(body, self.size if body in _BY_DIMENSION else 0)

    def weigh(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        """Multiply weights by likelihoods; returns constants to be added to their logarithms."""
        self._largest = None
        points = self._exact, self.points, self.log_weights
        return self.weigh_points(measurement, places, *points, self._marks)

    def forget_undefined(self) -> None:
        """Let `undefined` tell nothing of measurements up to now."""
        self.device.fill_zero(self._marks)

    def undefined(self) -> dict[int, Undefined]:
        """Where likelihoods are not numbers, of each density with such points, since last asked."""
        counts, last = np.asarray(self.device.get(self._marks))
        if not counts.any():
            return {}
        counts, last = counts.copy(), last.copy()
        self.device.fill_zero(self._marks)
        states = np.asarray(self.device.get(self.points))
        return {
            which: Undefined(
                float(counts[which] / self.point_count),
                states[: self.size, which, last[which] - 1].astype(np.float64),
            )
            for which in np.flatnonzero(counts).tolist()
        }

    def weigh_points(
        self, measurement: Measurement, places: np.ndarray, parameters: Any, points: Any,
        log_weights: Any, marks: Any,
    ) -> np.ndarray:  # fmt: skip
        """The same for `parameters` [density, parameter], and points and weights, of a device."""
        count, each = log_weights.shape
        student = measurement.degrees_of_freedom is not None
        function = measurement.likelihood or measurement.h
        key = function, measurement.component_count, tuple(measurement.angles), student
        if key not in self._made:
            self._made[key] = kernels.for_each(
                sums.weigh,
                bindings=likelihood.bindings_of(measurement)
                | {lattice.DIMENSION: self.size, lattice.PARAMETERS: self._parameters.shape[1]},
            )
        kernel = self._made[key]
        values, precisions, constants = likelihood.numbers_of(measurement, places)
        with kernels.readable_errors():
            self.device.run(
                kernel, count * each, each, measurement.time, parameters,
                *self.device.put_together([values, precisions]), points, log_weights, marks,
                **brief(count * each),
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
        return self.read(*self.begin())

    def moments_by(self, log_weights: Any) -> Moments:
        """Moments by other logarithms of weights [density, point]."""
        own, self.log_weights = self.log_weights, log_weights
        found = self.read(*self.begin())
        self.log_weights = own
        return found

    def begin(self) -> tuple[Any, Any]:
        """Start what `moments` reads: the summits on the device, and sums."""
        summits = self.summits(self.log_weights)
        if self._periods is not None:
            self._turn_to_mean(summits)
        return summits, self.sums(summits, self._signs)

    def read(self, summits: Any, found: Any) -> Moments:
        """Moments from what has been begun."""
        n, own = self.size, np.asarray(self.device.get(summits))
        rows, columns = pairs_of(n)
        with np.errstate(invalid="ignore", divide="ignore"):
            halves, squares = self._halves(found)
            whole, mass = halves[0], halves[0, :, 0]
            mean, covariance = whole[:, 1 : 1 + n], np.empty((self.count, n, n))
            second = whole[:, 1 + n : -2] - mean[:, rows] * mean[:, columns]
            covariance[:, rows, columns] = covariance[:, columns, rows] = second
            return Moments(
                np.log(mass) + own[:, 0], own[:, 1:] + mean, covariance, mass**2 / squares,
                *self._errors(halves), whole[:, -1],
            )  # fmt: skip

    def apart(self, found: Any) -> np.ndarray:
        """How far halves of the points are apart [density], in deviations, from their `sums`."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_error, deviation_error, _ = self._errors(self._halves(found)[0])
        return np.asarray(np.maximum(mean_error, deviation_error))

    def _halves(self, found: Any) -> tuple[np.ndarray, np.ndarray]:
        """Masses of all points and of each half of them, and sums relative to those.

        [3, density, sum]; and sums of squared weights [density].
        """
        added = self.totals(found)[:, : len(_asked(self.size))]
        whole, with_signs = added[..., 0], added[..., 1]
        halves = np.stack([whole, whole - with_signs, whole + with_signs])
        halves[..., 1:] /= halves[..., :1]
        return halves, whole[:, -2]

    def _errors(self, halves: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Errors of mean, deviation and logarithm of the mass by halves: see `Moments`."""
        mass, mean = halves[..., 0], halves[..., 1 : 1 + self.size]
        own = np.sqrt(halves[..., _squares(self.size)] - mean**2)
        off = np.abs((mean[1:] - mean[0]) / own[0]).max(axis=(0, 2))
        wide = np.abs(own[1:] / own[0] - 1.0).max(axis=(0, 2))
        return off, wide, np.abs(np.log(mass[1:] / mass[0])).max(axis=0)

    def short_way(self, away: np.ndarray) -> np.ndarray:
        """Differences of states [..., variable], the short ways of periodic variables."""
        if self._periods is None:
            return away
        period = np.where(np.isfinite(self._periods), self._periods, 1.0)
        wrapped = away - period * np.floor(away / period + 0.5)
        return np.where(np.isfinite(self._periods), wrapped, away)

    def summits(self, of: Any) -> Any:
        """The largest of each density, of an array [density, point], and its point, on the device.

        See `sums.summit`.
        """
        device, groups = self.device, min(self.groups, _GROUPS_MOST)
        out = device.empty((self.count, 1 + self.size), np.float64)
        if not device.is_cuda:
            self.pointwise(sums.summit, of, self.points, out)
            return out
        if self._largest is None or self._largest[0] is not of:
            found = device.empty((self.count, 2, groups), np.float64)
            total = self.count * groups
            device.run(kernel_of(sums.largest), total, self.point_count, groups, of, found)
            self._largest = of, found
        found = self._largest[1]
        device.run(self._kernel_of(sums.summit), self.count, groups, found, self.points, out)
        return out

    def _of_cells(self) -> dict[Any, Any]:
        """Options of kernels that add up Gaussian cells, or go short ways around a period."""
        found: dict[Any, Any] = {gaussians.WIDE: True} if self._is_wide else {}
        if self._periods is not None:
            periods = np.where(np.isfinite(self._periods), self._periods, 0.0)
            found[sums.PERIODS] = tuple(periods.tolist())
        return found | ({lattice.DIMENSION: self.size} if found else {})

    def _turn_to_mean(self, summits: Any) -> None:
        """Put the mean directions of periodic variables in the place of those of the summits."""
        assert self._periods is not None
        out = self.device.empty((self.count, self.size, 2, self.groups), np.float64)
        total = self.count * self.groups
        self.device.run(
            kernels.for_each(sums.turn, bindings=self._of_cells()), total, self.point_count,
            self.groups, summits, self.points, self.log_weights, out,
            **brief(total, self.count * self.point_count),
        )  # fmt: skip
        across, along = np.moveaxis(self.totals(self.gathered(out)), 2, 0)
        own = np.array(self.device.get(summits))
        turns = np.isfinite(self._periods)
        with np.errstate(invalid="ignore"):
            found = np.arctan2(across, along) / (2 * np.pi) * self._periods
        own[:, 1:] = np.where(turns & np.isfinite(found), found, own[:, 1:])
        self.device.copy(own, summits)

    def sums(self, summits: Any, signs: Any) -> Any:
        """Sums by groups, on the device: of weights, distances, products, squares, and the edge.

        Of all points, and with factors `signs` [point]; see `sums.add_up`.
        """
        if not (self.device.is_cuda or self._of_cells()):
            out = np.empty((self.count, len(_asked(self.size)), 2, self.groups))
            self.groupwise(
                sums.add_up, summits, signs, self._edge, self.points, self.log_weights, out
            )
            return out
        rows, columns = _asked_on(self.device, self.size)
        count = rows.size
        out = self.device.empty((self.count, count, 2, self.groups), np.float64)
        kernel = kernels.for_each(sums.add_up, bindings=self._of_cells())
        total = self.count * (count // sums.TOGETHER) * self.groups
        self.device.run(
            kernel, total, self.point_count, self.groups, rows, columns, summits, signs, self._edge,
            self.points, self.log_weights, out,
            **brief(total, total // self.groups * self.point_count),
        )  # fmt: skip
        return self.gathered(out)

    def gathered(self, found: Any) -> Any:
        """Sums [..., group] of fewer groups, on the device; the same ones, if they are few."""
        if not self.device.is_cuda or found.size <= FEW_SUMS:
            return found
        fewer = max(1, self.groups // _GROUPS)
        out = self.device.empty((*found.shape[:-1], fewer), np.float64)
        self.device.run(
            kernel_of(sums.gather), out.size, self.groups, fewer, flat(found), flat(out)
        )
        return out

    def totals(self, gathered: Any) -> np.ndarray:
        """Sums [...] of all groups, on the host, from those `gathered`."""
        found = np.asarray(self.device.get(gathered))
        if self.device.is_cuda and found.size <= FEW_SUMS:
            found = added_in_order(found, max(1, self.groups // _GROUPS))
        return np.asarray(found.sum(axis=-1))
