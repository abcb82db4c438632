"""Points of several densities on one device: carry them, weigh them, and add them up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import UserFunction, room_for
from ergode.core.compiler.source import Precision, Target
from ergode.core.devices import Device
from ergode.core.math.tableaus import DOPRI5
from ergode.density.flow import gaussians, nearest, points_kernels, stepper, sums
from ergode.density.flow.cells import Cells, columns, least_of, numbered, places_of, run
from ergode.density.flow.folds import bends_of, uneven
from ergode.density.flow.matched import matched
from ergode.density.flow.placed import cells_of, lay
from ergode.density.flow.points import Start
from ergode.density.flow.posterior import Posterior
from ergode.density.flow.smeared import Smeared
from ergode.density.flow.smoothed import GaussianCells, Passage
from ergode.density.flow.weighted import Moments, Weighted
from ergode.density.grid import lattice
from ergode.density.grid.lattice import Frame
from ergode.density.noise import Noise, depends_on_time
from ergode.models.estimation import likelihood
from ergode.models.estimation.gate import distance_of
from ergode.models.estimation.likelihood import Undefined
from ergode.models.estimation.linear_update import short_way, updated, updated_by_student
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.fields.vector_field import VectorField

_PARTS_OF_VARYING = 64  # least steps between two times, for a field that depends on time
_BRIEF = 1024  # points whose short way is no work for two threads
_FINE = {False: 1.5e-4, True: 1e-5}  # of points, and of Gaussian cells, which may shrink
_RTOL = {"float32": 1e-6, "float64": 1e-13}  # the least relative tolerances


class Carrier(Weighted):
    """Points of densities of one field, which have equally many."""

    def __init__(
        self,
        field: VectorField,
        starts: list[Start],  # one per density
        parameters: np.ndarray,  # [density, parameter]
        scales: tuple[np.ndarray, np.ndarray],  # mean and deviation of priors [density, variable]
        *,
        device: Device,
        precision: Precision,
        noise: Noise | None = None,  # of cells that are Gaussians
        is_linear: bool = False,  # whether such cells feel the slope at their centre alone
        fine: float | None = None,  # error of a step, in deviations of the prior
        killing: Callable[..., tuple[Any, ...]] | None = None,
        periods: np.ndarray | None = None,  # [variable], infinite if it has none
        made: dict[Any, kernels.Kernel] | None = None,  # kernels of the call
    ) -> None:
        self.device, self.precision = device, precision
        if made is not None:
            self._made = made
        self.count, self.size = len(starts), len(field.variables)
        self.point_count = len(starts[0])
        self._parameters = parameters
        self._is_wide = starts[0].roots is not None
        fine = fine or _FINE[self._is_wide]
        self._manner = _MANNERS["linear" if is_linear else "curved"]
        self._lay(starts)
        self._steps, self._marks = device.zeros_together(
            [((self.count, self.point_count), np.float64), ((2, self.count), np.int64)]
        )
        away, deviation = scales
        narrow = np.full_like(away, np.inf)
        np.divide(deviation, np.abs(away), out=narrow, where=away != 0)
        narrow = narrow.min(axis=1)
        rtol = np.clip(fine * narrow, least := _RTOL[precision], max(least, 0.1 * fine))
        atol = np.maximum(0.1 * max(fine, least) * deviation, 1e-300)
        q = np.zeros((self.size, self.size))
        if noise is not None and noise.matrix is not None:
            q = noise.matrix
        n = self.size
        axes = np.broadcast_to(np.eye(n), (self.count, n, n))
        none = np.zeros((self.count, n)), np.zeros((self.count, 2 + n))
        rows = [away, deviation, axes, parameters, *none]
        numbers = [rtol, atol, q, np.array([*self._manner, fine]), parameters]
        there = device.put_together([*numbers, *(row.astype(precision) for row in rows)])
        self._rtol, self._atol, self._noise, self._how, self._exact = there[:5]
        self._frame = Frame(*there[5:])
        self._undefined: dict[int, Undefined] = {}  # of the latest measurement of Gaussian cells
        self.start = starts[0]
        self._smeared: Smeared | None = None
        self._beside: Any = None
        if "follow" not in self._made:
            self._made["follow"] = kernel_of(
                field,
                precision,
                device.target,
                self._is_wide,
                killing,
                noise=noise if self._is_wide else None,
            )
        self._field, self._kernel = field, self._made["follow"]
        self._known: Moments | None = None  # until points or weights change
        self._nearest: Any = None  # [2 + 2 components, density, point], where paths are watched
        self._periods = periods
        # [density, point]: what a killing rate has added to log-weights since a measurement
        self._killed = None if killing is None else device.zeros(self.log_weights.shape, np.float64)

    # ---- operations

    def _lay(self, starts: list[Start]) -> None:
        """Put points and log-weights on the device; those of one pattern are made there."""
        device, shape, self._starts = self.device, starts[0].shape, starts
        self.log_weights = device.empty((self.count, self.point_count), np.float64)
        if shape is not None and not self._is_wide:
            there = shape.on(device)
            self._signs, self._edge = there.signs, there.is_edge
            if all(one.laid is None and one.shape is shape for one in starts):
                self.points = lay(device, starts, self.precision, self.log_weights)
                return
        elif isinstance(starts[0].laid, Cells):
            self._signs, self._edge = starts[0].laid.sign, starts[0].laid.rim
        else:
            self._signs, self._edge = device.put_together([starts[0].signs, starts[0].is_edge])
        laid = starts[0].laid
        if isinstance(laid, Cells) and not self._is_wide and self.precision == "float64":
            self.points = device.empty(laid.points.shape, np.float64)
            device.copy(laid.points, self.points)
            device.copy(laid.log, self.log_weights)
            return
        points = np.stack([_states(one).T for one in starts], axis=1)
        self.points = device.empty(points.shape, self.precision)
        device.copy(np.ascontiguousarray(points, self.precision), self.points)
        device.copy(np.stack([one.log_weights for one in starts]), self.log_weights)

    def posterior(self, which: int, moments: Moments) -> Posterior:
        """What the points of a density say of its posterior at the first time.

        `moments` are those of all densities.
        """
        device, count, start = self.device, self.point_count, self._starts[which]
        counts = device.empty((1, count), np.float64)
        smeared = self.log_weights if self._smeared is None else self._smeared.logs
        periods = np.zeros(self.size) if self._periods is None else np.nan_to_num(
            self._periods, posinf=0.0
        )  # fmt: skip
        numbers = [moments.mean[which], np.diagonal(moments.covariance[which]), periods]
        run(
            device, points_kernels.widen, count, which, *device.put_together(numbers), self.points,
            smeared, counts,
        )  # fmt: skip
        own, other = self.log_weights, smeared
        if self.count > 1:
            own, other = own[which : which + 1], other[which : which + 1]
        others = self._signs, self._edge, counts
        return Posterior(device, start, cells_of(start, device), own, other, others)

    @property
    def is_steady(self) -> bool:
        """Whether the field does not depend on time: then stops on the way are of no use."""
        return bool(self._kernel.bindings[stepper.PARTS] == 1)

    def follow(self, begin: float, end: float, *, is_brief: bool = False) -> None:
        """Carry all points from a time to another; over a short one, it `is_brief`."""
        if end <= begin:
            return
        self._known = None
        if self._killed is not None:
            self._largest = None
        total = self.count * self.point_count
        with kernels.readable_errors():
            self.device.run(
                self._kernel, total, self.point_count, begin, end,
                self._rtol, self._atol, self._noise, self._how, self._frame, self.points,
                self.log_weights, self._steps,
                self.log_weights if self._killed is None else self._killed,
                self.log_weights if self._nearest is None else self._nearest, is_brief=is_brief,
                grain=max(_BRIEF, -(-total // self.device.core_count)) if is_brief else None,
            )  # fmt: skip

    @contextmanager
    def aside(self, distance: UserFunction) -> Iterator[Any]:
        """Carry the points and watch their distances, and come back; yields the nearest places.

        They are [2 + 2 components, density, point], on the device: sizes, times, places and
        velocities.
        """
        names = "points", "log_weights", "_steps", "_kernel", "_nearest"
        kept = {name: getattr(self, name) for name in names}
        for name in names[:3]:
            setattr(self, name, self.copied(kept[name]))
        self._kernel = kernel_of(self._field, self.precision, self.device.target, distance=distance)
        assert distance.shape is not None
        rows = 2 + 2 * distance.shape[0]
        there = self.device.empty((rows, self.count, self.point_count), np.float64)
        self.device.copy(np.full(there.shape, np.inf), there)
        self._nearest = there
        try:
            yield there
        finally:
            vars(self).update(kept)

    @property
    def gaussian_cells(self) -> GaussianCells:
        """The Gaussian cells, on the host."""
        n, states = self.size, np.array(self.device.get(self.points))
        columns = states[n:].reshape(n, n, self.count, self.point_count)
        return GaussianCells(np.moveaxis(states[:n], 0, 2), np.moveaxis(columns, (0, 1), (3, 2)))

    @gaussian_cells.setter
    def gaussian_cells(self, cells: GaussianCells) -> None:
        self._known = None
        columns = np.moveaxis(cells.root, (3, 2), (0, 1))
        states = [np.moveaxis(cells.mean, 2, 0), columns.reshape(-1, self.count, self.point_count)]
        self.device.copy(np.ascontiguousarray(np.concatenate(states)), self.points)

    def passage(self, move: Callable[[], None], *, is_still: bool) -> Passage:
        """Let Gaussian cells `move` to a later time; if they are `is_still`, by a maneuver."""
        before = self.gaussian_cells
        moved = before.root
        if not is_still:
            kept, noise = (self.points, self.log_weights, self._steps), self._noise
            own = self._kernel
            if own.bindings.get(lattice.LOCAL_NOISE):
                still = kernel_of(self._field, self.precision, self.device.target, True)
                self._kernel = self._made.setdefault("still", still)
            self.points, self.log_weights, self._steps = map(self.copied, kept)
            self._noise = self.device.zeros(noise.shape, np.float64)
            move()
            moved = self.gaussian_cells.root
            (self.points, self.log_weights, self._steps), self._noise = kept, noise
            self._kernel = own
        move()
        return Passage(before, moved, self.gaussian_cells)

    def copied(self, array: Any) -> Any:
        """A copy of an array, on the device."""
        copy = self.device.empty(array.shape, array.dtype)
        self.device.copy(array, copy)
        return copy

    def jump(self, maneuver: Maneuver, places: np.ndarray) -> None:
        """Move the points, and widen Gaussian cells."""
        self._known = None
        changes = maneuver.changes(places)
        (there,) = self.device.put_together([changes.astype(self.precision)])
        kernel = kernels.for_each(
            stepper.shift, precision=self.precision, bindings={lattice.DIMENSION: self.size}
        )
        total = self.count * self.point_count
        self.device.run(kernel, total, self.point_count, there, self.points)
        if maneuver.covariance is not None and self._is_wide:
            self._widen(maneuver.covariance)

    def log_unkilled(self, log_mass: np.ndarray) -> np.ndarray:
        """Logarithm of what the mass [density] would be without a killing rate.

        `log_mass` is that of all weights; a killing rate counts from the latest measurement on.
        """
        if self._killed is None:
            return log_mass
        whole = self.device.empty(self.log_weights.shape, np.float64)
        self.pointwise(sums.gained, self._killed, self.log_weights, whole)
        return self.moments_by(whole).log_mass

    def weigh(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        """Multiply weights by likelihoods; returns constants to be added to their logarithms."""
        self._known = self._largest = None
        if self._killed is not None:
            self.device.fill_zero(self._killed)
        if self._is_wide:
            self._update(measurement, places)
            return np.zeros(self.count)
        if not self.start.spacing:
            return super().weigh(measurement, places)
        if self._smeared is None:
            self._smeared = Smeared(self)
        self._smeared.before()
        constants = super().weigh(measurement, places)
        self._smeared.after(measurement.likelihood is None)
        return constants

    def undefined(self) -> dict[int, Undefined]:
        if not self._is_wide:
            return super().undefined()
        found, self._undefined = self._undefined, {}
        return found

    def moments(self) -> Moments:
        if self._known is None:
            self._known = super().moments()
        return self._known

    def judged(self, matters: Callable[[Moments], np.ndarray]) -> Moments:
        """Moments of all densities, and what likelihoods that are thinner than cells may hide.

        Nothing is looked for unless it `matters` for a density, by its moments.
        """
        summits, added = self.begin()
        found = self._known = self.read(summits, added)
        if self._smeared is None or not matters(found).any():
            return found
        bends = bends_of(self, summits)
        hidden = self._smeared.hidden(found, summits)
        return replace(found, hidden=hidden, uneven=uneven(self, found, summits, bends))

    def turned(self, which: int) -> float:
        """How far neighbours are apart along a periodic variable, in periods.

        It is the root mean square, of the lattice's axis along which it is largest.
        """
        if self._periods is None or self._is_wide or not self.start.spacing:
            return 0.0
        points, log = self.host(which)
        weight = np.exp(log - log.max())
        most = 0.0
        for up, _ in self.start.neighbours:
            both = weight * (up >= 0) * weight[up]
            square = ((points[up] - points) / self._periods) ** 2
            if both.sum() > 0:
                mean = np.where(both > 0, both, 0.0) @ np.where(both[:, None] > 0, square, 0.0)
                most = max(most, float((mean / both.sum()).max()))
        return math.sqrt(most)

    def host(self, which: int) -> tuple[np.ndarray, np.ndarray]:
        """States [point, ...] and log-weights [point] of a density, on the host."""
        points = np.asarray(self.device.get(self.points))[:, which].T.astype(np.float64)
        return points, np.array(self.device.get(self.log_weights)[which])

    def only_heavy(self, faint: float, fewer: float) -> Start:
        """Leave out points of a single density that hold the share `faint` together.

        If more than the part `fewer` of the points is left, none is left out. Returns the points.
        """
        device, count, start = self.device, self.point_count, self._starts[0]
        top = float(np.asarray(device.get(self.summits(self.log_weights)))[0, 0])
        (least,) = least_of(device, (top, self.log_weights, [faint]))
        flags = device.empty(count, np.int8)
        run(device, points_kernels.mark_heavy, count, self.log_weights, least, flags)
        numbers, left = numbered(device, flags)
        cells = cells_of(start, device) if left <= fewer * count else None
        if not isinstance(cells, Cells):
            return start
        there, _ = places_of(device, flags)
        laid = cells.only(numbers, there)
        start = replace(start, laid=laid, shape=None, is_apart=False)
        killed = () if self._killed is None else ("_killed",)
        for name in ("points", "log_weights", "_steps", *killed):
            setattr(self, name, columns(device, getattr(self, name), there))
        self._signs, self._edge, self._beside = laid.sign, laid.rim, None
        self.point_count, self.start, self._starts = left, start, [start]
        self._known = None
        if self._smeared is not None:
            self._smeared.leave(there)
        return start

    @property
    def beside(self) -> Any:
        """Neighbours of the points, on the device, as of a `Start`."""
        if self._beside is None:
            self._beside = self.start.neighbours_on(self.device)
        return self._beside

    @property
    def index(self) -> Any:
        """Component and place of each point in its lattice [1 + axis, point], on the device."""
        if isinstance(self.start.laid, Cells):
            return self.start.laid.index
        if self.start.shape is not None:
            return self.start.shape.on(self.device).index
        return self.device.put(self.start.index.T)

    def state(self) -> dict[str, Any]:
        """What `restore` takes, between two actions."""
        return {name: self.device.get(array) for name, array in self._arrays().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        if "smeared" in state:
            self._smeared = Smeared(self)
        self._largest = None
        for name, array in self._arrays().items():
            self.device.copy(state[name], array)

    def _arrays(self) -> dict[str, Any]:
        found = {"points": self.points, "log_weights": self.log_weights, "steps": self._steps}
        if self._killed is not None:
            found["killed"] = self._killed
        return found | ({} if self._smeared is None else self._smeared.arrays)

    # ---- implementation

    def _widen(self, covariance: np.ndarray) -> None:
        """Add a covariance [variable, variable] to Gaussian cells."""
        states = np.array(self.device.get(self.points))
        n = self.size
        columns = states[n:].reshape(n, n, self.count, self.point_count)
        own = np.einsum("kdij,keij->ijde", columns, columns) + covariance
        scale = np.sqrt(np.diagonal(own, axis1=2, axis2=3))
        scale = np.where(scale > 0, scale, 1.0)
        unit = own / (scale[..., :, None] * scale[..., None, :])
        good = np.isfinite(unit).all(axis=(2, 3))
        root = np.linalg.cholesky(np.where(good[..., None, None], unit, np.eye(n)))
        root *= scale[..., :, None]
        states[n:] = np.moveaxis(root, (3, 2), (0, 1)).reshape(n * n, self.count, self.point_count)
        self.device.copy(states, self.points)
        self._steps = self.device.zeros((self.count, self.point_count), np.float64)

    def _update(self, measurement: Measurement, places: np.ndarray) -> None:
        """Update Gaussian cells, and weigh them by what they expected to be measured."""
        n = self.size
        log = np.array(self.device.get(self.log_weights))
        states = np.array(self.device.get(self.points))
        root = np.moveaxis(states[n:].reshape(n, n, self.count, self.point_count), (0, 1), (3, 2))
        good = np.isfinite(log)
        self._undefined = {}
        if measurement.likelihood is not None:
            own = partial(self._likelihoods, measurement, places, np.nonzero(good)[0])
            evidence, shift, left = matched(own, states[:n][:, good].T, root[good])
        else:
            slopes, noise, away, missing = self._linearised(measurement, places)
            good &= np.isfinite(away).all(axis=2) & np.isfinite(noise).all((2, 3))
            good &= np.isfinite(slopes).all(axis=(2, 3))
            for which in np.flatnonzero((np.isfinite(log) & ~good).any(axis=1)).tolist():
                bad = np.isfinite(log[which]) & ~good[which]
                share = float(bad.sum() / np.isfinite(log[which]).sum())
                self._undefined[which] = Undefined(share, states[:n, which, int(bad.argmax())])
            cells = slopes[good], noise[good], away[good]
            if (freedom := measurement.degrees_of_freedom) is None:
                _, evidence, shift, left = updated(*cells)
            else:
                unseen = missing.sum(axis=1)[np.nonzero(good)[0]]
                evidence, shift, left = updated_by_student(*cells, freedom, unseen)
        log[~good] = -np.inf
        root = root[good]
        states[:n][:, good] += np.einsum("ikj,ij->ki", root, shift)
        after = root @ left
        states[n:][:, good] = np.moveaxis(after, (2, 1), (0, 1)).reshape(n * n, len(after))
        log[good] += evidence
        self.device.copy(states, self.points)
        self.device.copy(log, self.log_weights)
        self._steps = self.device.zeros((self.count, self.point_count), np.float64)

    def _likelihoods(
        self, measurement: Measurement, places: np.ndarray, whose: np.ndarray, some: np.ndarray,
        states: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Log-likelihoods [cell, node] at `states` [cell, node, variable] of `some` cells.

        `whose` [cell] is the density of each of all cells.
        """
        densities, row, counts = np.unique(whose[some], return_inverse=True, return_counts=True)
        column = np.arange(len(some)) - (np.cumsum(counts) - counts)[row]
        each = states.shape[1]
        points = np.zeros((self.size, len(densities), counts.max(), each))
        points[:, row, column] = np.moveaxis(states, 2, 0)
        log = self.device.zeros((len(densities), counts.max() * each), np.float64)
        there = self.device.put(self._parameters[densities])
        points = points.reshape(self.size, len(densities), -1)
        marks = self.device.zeros((2, len(densities)), np.int64)
        self.weigh_points(
            measurement, places[densities], there, self.device.put(points), log, marks
        )
        found = np.asarray(self.device.get(log)).reshape(len(densities), -1, each)
        bad, last = np.asarray(self.device.get(marks))
        for k in np.flatnonzero(bad).tolist():
            share = float(bad[k] / (counts[k] * each))
            if share > self._undefined.get(int(densities[k]), _NOWHERE).share:
                self._undefined[int(densities[k])] = Undefined(share, points[:, k, last[k] - 1])
        return np.asarray(found[row, column])

    def innovation(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        """Distances of values from what densities expect [density], in deviations."""
        if not self._is_wide:
            return super().innovation(measurement, places)
        slopes, noise, away, missing = self._linearised(measurement, places)
        log = np.array(self.device.get(self.log_weights))
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        own = noise + np.einsum("ijka,ijkb->ijab", slopes, slopes)
        share = weights / weights.sum(axis=1, keepdims=True)
        spread = np.einsum("ij,ijab->iab", share, own)
        return distance_of(away, spread, weights, measurement, missing)

    def _linearised(
        self, measurement: Measurement, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """How cells see a measurement; its last are missing components [density, component].

        Slopes [density, point, variable, component] by a cell's own normal variables, covariances
        of the noise [density, point, component, component], and values less the expected ones
        [density, point, component].
        """
        n, components = self.size, measurement.component_count
        out = self.device.empty((self.count, self.point_count, 2 * n + 1, components), np.float64)
        reach, bent = self._manner
        assert measurement.h is not None  # see `choice`
        kernel = kernels.for_each(
            gaussians.expected,
            bindings={
                likelihood.H: UserFunction(measurement.h), likelihood.COMPONENTS: components,
                lattice.DIMENSION: n, lattice.PARAMETERS: self._parameters.shape[1],
            },
        )  # fmt: skip
        with kernels.readable_errors():
            self.device.run(
                kernel, self.count * self.point_count * (2 * n + 1), self.point_count,
                measurement.time, reach, self._exact, self.points, out,
            )  # fmt: skip
        expected = np.array(self.device.get(out))
        angles = list(measurement.angles)
        expected[..., angles] = expected[..., :1, angles] + short_way(
            expected[..., angles] - expected[..., :1, angles]
        )
        centre, above, below = expected[:, :, 0], expected[:, :, 1::2], expected[:, :, 2::2]
        slopes = (above - below) / (2.0 * reach)
        curved = bent * (above + below - 2.0 * centre[:, :, None]) / (2.0 * reach**2)
        value, noise, missing = measurement.of(places)
        slopes[np.broadcast_to(missing[:, None, None], slopes.shape)] = 0.0
        curved[np.broadcast_to(missing[:, None, None], slopes.shape)] = 0.0
        away = value[:, None] - centre - curved.sum(axis=2)
        away[..., angles] = short_way(away[..., angles])
        away[np.broadcast_to(missing[:, None], away.shape)] = 0.0
        noise = noise[:, None] + 2.0 * np.einsum("ijka,ijkb->ijab", curved, curved)
        return slopes, noise, away, missing


_NOWHERE = Undefined(0.0, np.empty(0))
_MANNERS = {"curved": (math.sqrt(3.0), 1.0), "linear": (0.3, 0.0)}
"""Distance of the points at which a field is taken, and whether means feel curvature."""


def _states(start: Start) -> np.ndarray:
    """Points [point, variable], and after them the columns of the roots of Gaussian cells."""
    if start.roots is None:
        return start.points
    columns = np.swapaxes(start.roots, 1, 2).reshape(len(start.roots), -1)
    whose = start.index[:, 0] if len(start.index) else np.zeros(len(start), np.int64)
    return np.concatenate([start.points, columns[whose]], axis=1)


def kernel_of(
    field: VectorField,
    precision: Precision,
    target: Target,
    is_wide: bool = False,
    killing: Callable[..., tuple[Any, ...]] | None = None,
    distance: UserFunction | None = None,
    noise: Noise | None = None,
) -> kernels.Kernel:
    """The kernel that follows a field, and watches a distance."""
    size, parameters = len(field.variables), len(field.parameters)
    varies = depends_on_time(field.function)
    varies |= killing is not None and depends_on_time(killing, 1)
    shaken: dict[Any, Any] = {}
    if noise is not None and noise.function is not None:
        varies |= depends_on_time(noise.function)
        shaken = noise.bindings(size, parameters) | {lattice.LOCAL_NOISE: True}
    watches: dict[Any, Any] = {}
    if distance is not None and distance.shape is not None:
        components = distance.shape[0]
        watches = {nearest.WATCHED: True, nearest.COMPONENTS: components}
        watches[nearest.distance] = distance
    parts = _PARTS_OF_VARYING if varies else 1
    state = size * (1 + size) if is_wide else size
    kills = {} if killing is None else {
        lattice.KILLED: True, lattice.killing: UserFunction(killing, (1,), parameters),
    }  # fmt: skip
    bindings = {
        lattice.rhs: UserFunction(field.function, (size,), parameters), lattice.DIMENSION: size,
        lattice.PARAMETERS: room_for(parameters), stepper.PARTS: parts,
        gaussians.STATE: state + len(kills) // 2, gaussians.WIDE: is_wide,
    } | kills | watches | shaken  # fmt: skip
    if is_wide or watches:  # what is watched has a dense output, and a Gaussian cell many variables
        bindings |= {
            stepper.A: DOPRI5.a, stepper.B: DOPRI5.b, stepper.C: DOPRI5.c,
            stepper.ERROR: DOPRI5.error, stepper.CORRECTION: (), stepper.ORDER: DOPRI5.order,
        }  # fmt: skip
    if target == "cpu" and not is_wide and not watches:
        return kernels.cpu_kernel(stepper.follow_lanes, precision=precision, bindings=bindings)
    return kernels.for_each(stepper.follow, precision=precision, bindings=bindings)
