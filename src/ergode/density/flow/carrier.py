"""Points of several densities on one device: carry them, weigh them, and add them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.source import Precision
from ergode.core.compiler.tracer import traced
from ergode.core.devices import Device
from ergode.core.formulation import Compile, stands_in
from ergode.core.stopwatch import Stopwatch
from ergode.density.flow import stepper, sums
from ergode.density.flow.points import Start
from ergode.density.grid import lattice
from ergode.density.grid.lattice import Frame, Lattice, frame_rows
from ergode.density.noise import depends_on_time
from ergode.density.specialize import standing
from ergode.models.estimation import likelihood
from ergode.models.estimation.measurement import Measurement
from ergode.models.fields.vector_field import VectorField

_PARTS_OF_VARYING = 64  # least steps between two times, for a field that depends on time
_POINTS_WORTH_COMPILING = 20_000
_RTOL = {"float32": 1e-6, "float64": 1e-13}  # the least relative tolerances


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


class Carrier:
    """Points of densities of one field, which have equally many."""

    def __init__(
        self,
        field: VectorField,
        starts: list[Start],  # one per density
        parameters: np.ndarray,  # [density, parameter]
        scales: tuple[
            np.ndarray, np.ndarray
        ],  # mean and deviation of each prior [density, variable]
        *,
        device: Device,
        precision: Precision,
        when: Compile,
        fine: float = 3e-5,  # error of a step, in deviations of the prior
    ) -> None:
        self.device, self.precision, self._when = device, precision, when
        self.count, self.size = len(starts), len(field.variables)
        self.point_count = len(starts[0].points)
        self.time_spent = 0.0
        self.equations: list[str] = []
        self._parameters = parameters
        self._groups = sums.groups_of(self.point_count)
        points = np.stack([one.points.T for one in starts], axis=1)
        self.points = device.empty(points.shape, precision)
        device.copy(np.ascontiguousarray(points, precision), self.points)
        self.log_weights = device.empty((self.count, self.point_count), np.float64)
        device.copy(np.stack([one.log_weights for one in starts]), self.log_weights)
        self._steps = device.zeros((self.count, self.point_count), np.float64)
        away, deviation = scales
        narrow = np.where(away != 0, deviation / np.maximum(np.abs(away), 1e-300), np.inf).min(
            axis=1
        )
        rtol = np.clip(fine * narrow, least := _RTOL[precision], max(least, 0.1 * fine))
        atol = np.maximum(0.1 * max(fine, least) * deviation, 1e-300)
        self._rtol, self._atol, self._signs, self._edge = device.put_together(
            [rtol, atol, starts[0].signs, starts[0].is_edge]
        )
        lattices = [
            Lattice(at, one, np.eye(self.size), False)
            for at, one in zip(away, deviation, strict=True)
        ]
        rows = frame_rows(lattices, parameters)
        self._frame = Frame(*device.put_together([row.astype(precision) for row in rows]))
        (self._exact,) = device.put_together([parameters])
        self._own, self._program = kernels_of(field, precision)
        self._shift = away

    # ---- operations

    def follow(self, begin: float, end: float) -> None:
        """Carry all points from a time to another."""
        if end <= begin:
            return
        kernel, frame = self._own, self._frame
        may_be_interpreted = self._when == "never" or (
            self._when == "auto" and self.count * self.point_count < _POINTS_WORTH_COMPILING
        )
        if self._program and self.device.target == "cpu" and may_be_interpreted:
            other = standing(kernel)
            if self._when == "never" or stands_in(kernel, other, self.time_spent):
                kernel, frame = other, frame._replace(program=self._program)
        name = "compiled" if kernel is self._own else "program"
        if name not in self.equations:
            self.equations.append(name)
        watch = Stopwatch()
        with kernels.readable_errors():
            self.device.run(
                kernel, self.count * self.point_count, self.point_count, begin, end, self._rtol,
                self._atol, frame, self.points, self.log_weights, self._steps,
            )  # fmt: skip
        self.time_spent = watch.seconds()["run_seconds"]

    def move(self, changes: np.ndarray) -> None:
        """Add changes [density, variable] to the points of each density."""
        (there,) = self.device.put_together([changes.astype(self.precision)])
        kernel = kernels.for_each(
            stepper.shift, precision=self.precision, bindings={lattice.DIMENSION: self.size}
        )
        total = self.count * self.point_count
        self.device.run(kernel, total, self.point_count, there, self.points)
        self._shift = self._shift + changes

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
                self.log_weights,
            )  # fmt: skip
        return constants

    def moments(self) -> Moments:
        """Moments of all densities; NaN where no weight is left."""
        tops = self._tops()
        safe = np.where(np.isfinite(tops), tops, 0.0)
        none, n = -1, self.size
        first = [(none, none), (-2, none)] + [(d, none) for d in range(n)]
        found, at_edge = self._sums(first, safe, self._edge)
        with np.errstate(invalid="ignore", divide="ignore"):
            mass = found[:, 0]
            mean = found[:, 2:] / mass[:, None]
            centre = self._shift + mean
        pairs = [(d, e) for d in range(n) for e in range(d + 1)]
        self._shift = np.where(np.isfinite(centre), centre, self._shift)
        wanted = [(none, none)] + [(d, none) for d in range(n)] + pairs
        with np.errstate(invalid="ignore", divide="ignore"):
            second, with_signs = self._sums(wanted, safe, self._signs)
            halves = [second + with_signs, second - with_signs]
            covariance = self._covariance(second, pairs)
            deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
            off, wide, masses = [], [], []
            for half in halves:
                away = half[:, 1 : 1 + n] / half[:, :1]
                off.append(np.abs(away / deviation).max(axis=1))
                own = np.diagonal(self._covariance(half, pairs), axis1=1, axis2=2)
                wide.append(np.abs(np.sqrt(own) / deviation - 1.0).max(axis=1))
                masses.append(np.abs(np.log(half[:, 0] / second[:, 0])))
            return Moments(
                np.log(mass) + tops, centre, covariance, mass**2 / found[:, 1],
                np.max(off, axis=0), np.max(wide, axis=0), np.max(masses, axis=0),
                at_edge[:, 0] / mass,
            )  # fmt: skip

    def host(self, which: int) -> tuple[np.ndarray, np.ndarray]:
        """Points [point, variable] and log-weights [point] of a density, on the host."""
        points = np.asarray(self.device.get(self.points))[:, which].T.astype(np.float64)
        return points, np.array(self.device.get(self.log_weights)[which])

    # ---- implementation

    def _covariance(self, found: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
        n = self.size
        mean = found[:, 1 : 1 + n] / found[:, :1]
        covariance = np.empty((self.count, n, n))
        for number, (d, e) in enumerate(pairs):
            one = found[:, 1 + n + number] / found[:, 0] - mean[:, d] * mean[:, e]
            covariance[:, d, e] = covariance[:, e, d] = one
        return covariance

    def _tops(self) -> np.ndarray:
        out = self.device.empty((self.count, self._groups), np.float64)
        kernel = kernels.for_each(sums.largest)
        total = self.count * self._groups
        self.device.run(kernel, total, self.point_count, self._groups, self.log_weights, out)
        return np.asarray(self.device.get(out)).max(axis=1)

    def _sums(
        self, wanted: list[tuple[int, int]], tops: np.ndarray, signs: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums [density, sum] over all points, and with factors `signs` [point]."""
        rows, columns = np.array(wanted, np.int64).T
        out = self.device.empty((self.count, len(wanted), 2, self._groups), np.float64)
        kernel = kernels.for_each(sums.add_up)
        there = self.device.put_together(
            [np.ascontiguousarray(rows), np.ascontiguousarray(columns), tops, self._shift]
        )
        self.device.run(
            kernel, self.count * len(wanted) * self._groups, self.point_count, self._groups, *there,
            signs, self.points, self.log_weights, out,
        )  # fmt: skip
        found = np.asarray(self.device.get(out)).sum(axis=-1)
        return found[:, :, 0], found[:, :, 1]


def kernels_of(field: VectorField, precision: Precision) -> tuple[kernels.Kernel, tuple[Any, ...]]:
    """The kernel of a field, and its program; () if it has to be compiled."""
    parts = _PARTS_OF_VARYING if depends_on_time(field.function) else 1
    kernel = kernels.for_each(
        stepper.follow, precision=precision,
        bindings={
            lattice.rhs: UserFunction(field.function), lattice.DIMENSION: len(field.variables),
            lattice.PARAMETERS: len(field.parameters), stepper.PARTS: parts,
        },
    )  # fmt: skip
    lengths = [None, len(field.variables), len(field.parameters)]
    found = traced(field.function, lengths, precision)
    return kernel, () if found is None else (found.steps, found.registers, found.outputs)
