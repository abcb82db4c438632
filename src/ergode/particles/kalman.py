"""Gaussians side by side, propagated by sigma points, moved by maneuvers, and measured."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ergode import trajectories
from ergode.core import devices
from ergode.core.arguments import number, refuse_idle
from ergode.core.errors import InterruptionWarning, ModelError
from ergode.core.status import Status
from ergode.density.noise import Noise, noise_of
from ergode.models.estimation.covariances import are_definite
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.gate import expected_at_points
from ergode.models.estimation.linear_update import short_way, updated
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.fields.vector_field import VectorField
from ergode.particles.sigma_points import SigmaPoints
from ergode.particles.tolerances import rtol_of

_STEPS = 200
_RTOL = 1e-9
_FINE = 1e-7  # absolute tolerance, in units of the distance of a sigma point


def bank_of(
    asked: Estimation, process_noise: Any, *, alpha: float, beta: float, kappa: float,
    device: devices.Device, step: float | None = None, rtol: float | None = None,
) -> Bank:  # fmt: skip
    """Filters that begin at their priors; checks the options."""
    for one in asked.measurements:
        if not one.is_gaussian:
            has = "a likelihood" if one.h is None else "degrees_of_freedom"
            raise ModelError(
                f"the measurement at time {one.time:g} has {has}; a Kalman filter needs h, "
                "value and covariance of Gaussian noise"
            )
    size = len(asked.field.variables)
    field = asked.field
    correlation = np.eye(size) if field.correlation is None else np.array(field.correlation)
    noise = noise_of(process_noise, dataclasses.replace(field, correlation=None))
    points = SigmaPoints(
        size, number("alpha", alpha, above=0), number("beta", beta),
        number("kappa", kappa, above=-size),
    )  # fmt: skip
    span = float(np.ptp(asked.times))
    longest = number("step", step, above=0) if step is not None else span / _STEPS
    refuse_idle(step=(step is not None and noise is None, "there is no noise"))
    if field.diffusion is not None:
        field = dataclasses.replace(field, diffusion=None, correlation=None)
    return Bank(
        field, noise, correlation, points, asked.values, asked.layout.beside, longest,
        None if rtol is None else number("rtol", rtol, above=0), device,
        np.stack([one.mean for one in asked.priors]),
        np.stack([one.covariance for one in asked.priors]),
        float(asked.times[0]),
    )  # fmt: skip


@dataclasses.dataclass
class Bank:
    """Kalman filters side by side."""

    field: VectorField  # without noise
    noise: Noise | None
    correlation: np.ndarray  # [variable, variable]: of the noise, if it is given by amplitudes
    transform: SigmaPoints
    parameters: np.ndarray  # [filter, parameter]
    places: np.ndarray  # [filter]: index of each filter among the values of a measurement
    step: float  # longest time between two sets of sigma points, with noise [time]
    rtol: float | None
    device: devices.Device
    mean: np.ndarray  # [filter, variable]
    covariance: np.ndarray  # [filter, variable, variable]
    now: float  # time of mean and covariance
    status: np.ndarray = dataclasses.field(init=False)
    seen: list[dict[str, np.ndarray]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.status = np.full(len(self.mean), Status.DONE, np.uint8)

    def visit(
        self, times: np.ndarray, measurements: Sequence[Measurement],
        maneuvers: Sequence[Maneuver] = (),
    ) -> Iterator[float]:  # fmt: skip
        """Propagate to each time in turn; at their times, apply maneuvers and measurements."""
        events = np.union1d(times, [m.time for m in measurements] + [m.time for m in maneuvers])
        pending, jumps = list(measurements), list(maneuvers)
        at = 0
        while at < events.size:
            seen = min((some[0].time for some in (pending, jumps) if some), default=math.inf)
            stop = min(int(np.searchsorted(events, seen)) + 1, events.size)
            for time in self._predict(events[at:stop]):
                while jumps and jumps[0].time == time:
                    self._jump(jumps.pop(0))
                while pending and pending[0].time == time:
                    self._update(pending.pop(0))
                if time in times:
                    yield time
            at = stop

    def _predict(self, times: np.ndarray) -> Iterator[float]:
        """Propagate mean and covariance to each of the times."""
        if self.noise is None:
            yield from self._fly(times)
            return
        for time in times:
            passed = time - self.now
            pieces = math.ceil(passed / self.step * (1 - 1e-12)) if passed else 1
            for goal in np.linspace(self.now, time, pieces + 1)[1:]:
                half = 0.5 * (goal - self.now)
                self._diffuse(half)
                for _ in self._fly(np.array([goal])):
                    self._diffuse(half)
            yield float(time)

    def _diffuse(self, duration: float) -> None:
        """Add the covariance of the noise of a duration."""
        assert self.noise is not None
        if duration == 0.0:
            return
        if self.noise.matrix is not None:
            self.covariance = self.covariance + duration * self.noise.matrix
            return
        assert self.noise.function is not None
        sets = self._points()
        found = np.array(
            [
                [self.noise.function(self.now, tuple(y), tuple(p)) for y in points]
                for points, p in zip(sets.tolist(), self.parameters.tolist(), strict=True)
            ]
        )
        weights = self.transform.of_means
        if self.noise.amplitudes:
            product = np.einsum("i,kid,kie->kde", weights, found, found) * self.correlation
        else:
            product = np.einsum("i,kid->kd", weights, found)[..., None] * np.eye(found.shape[2])
        self.covariance = self.covariance + duration * product

    def _points(self) -> np.ndarray:
        """Sigma points [filter, point, variable]; a filter that failed stays at NaN."""
        good = np.isfinite(self.covariance).all((1, 2)) & np.isfinite(self.mean).all(1)
        good[good] = are_definite(self.covariance[good])
        self.status[~good] = Status.NOT_FINITE
        safe = np.where(good[:, None, None], self.covariance, np.eye(self.transform.size))
        points = self.transform.points(np.where(good[:, None], self.mean, 0.0), safe)
        points[~good] = np.nan
        return points

    def _fly(self, times: np.ndarray) -> Iterator[float]:
        """Propagate by the field alone; the sigma points of now reach all times."""
        if times.size and times[0] == self.now:
            yield float(times[0])
            times = times[1:]
        if times.size == 0:
            return
        points = self._points()
        good = np.isfinite(points).all((1, 2))
        if not good.any():
            self.mean, self.covariance = self.mean * np.nan, self.covariance * np.nan
            self.now = float(times[-1])
            yield from map(float, times)
            return
        count, rows = self.transform.count, points[good]
        distance = self.transform.alpha * np.sqrt(np.einsum("kii->ki", self.covariance[good]))
        start = rows.reshape(-1, self.transform.size).T
        values = np.repeat(self.parameters[good], count, axis=0).T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptionWarning)
            found = trajectories.integrate(
                self.field, times=[self.now, *times],
                initial=dict(zip(self.field.variables, start, strict=True)),
                parameters=dict(zip(self.field.parameters, values, strict=True)),
                rtol=rtol_of(self.rtol, self.mean[good], self.covariance[good], _RTOL),
                atol=_FINE * distance.min(axis=0), device=self.device,
            )  # fmt: skip
        if found.attrs["interrupted"]:
            raise KeyboardInterrupt
        states = found["state"].values.reshape(len(rows), count, 1 + times.size, -1)
        for number_, time in enumerate(times, 1):
            mean, covariance = (
                np.full_like(self.mean, np.nan),
                np.full_like(self.covariance, np.nan),
            )
            mean[good], covariance[good] = self.transform.moments(states[:, :, number_])
            self.mean, self.covariance, self.now = mean, covariance, float(time)
            self.status[~np.isfinite(mean).all(1)] = Status.NOT_FINITE
            yield float(time)

    def _jump(self, maneuver: Maneuver) -> None:
        """Apply a maneuver, which is linear: this is exact."""
        self.mean = self.mean + maneuver.changes(self.places)
        if maneuver.covariance is not None:
            self.covariance = self.covariance + maneuver.covariance

    def _update(self, measurement: Measurement) -> None:
        """Apply a measurement."""
        points = self._points()
        expected = expected_at_points(self.device, measurement, points, self.parameters)
        angles = list(measurement.angles)
        expected[..., angles] = expected[:, :1, angles] + short_way(
            expected[..., angles] - expected[:, :1, angles]
        )
        value, noise, missing = measurement.of(self.places)
        centre, slopes, curved = self.transform.linearised(expected)
        slopes = np.where(missing[:, None], 0.0, slopes)
        noise = noise + np.where(missing[:, :, None] | missing[:, None], 0.0, curved)
        away = value - centre
        away[:, angles] = short_way(away[:, angles])
        away[missing] = 0.0
        good = np.isfinite(points).all((1, 2)) & np.isfinite(noise).all((1, 2))
        good[good] = are_definite(noise[good])
        self.status[~good] = Status.NOT_FINITE
        found = {
            "prior_mean": self.mean, "prior_covariance": self.covariance,
            "normalised_innovation_squared": np.full(len(points), np.nan),
            "log_evidence": np.full(len(points), np.nan),
        }  # fmt: skip
        self.seen.append(found)
        self.mean, self.covariance = self.mean.copy(), self.covariance.copy()
        self.mean[~good], self.covariance[~good] = np.nan, np.nan
        if good.any():
            root = np.linalg.cholesky(self.covariance[good])
            square, evidence, shift, left = updated(slopes[good], noise[good], away[good])
            found["normalised_innovation_squared"][good] = square
            if measurement.gate is not None:
                found["innovation_distance"] = np.sqrt(found["normalised_innovation_squared"])
                found["left_out"] = np.asarray(found["innovation_distance"] > measurement.gate)
                out = found["left_out"][good]
                evidence[out], shift[out] = 0.0, 0.0
                left[out] = np.eye(len(root[0]))
            found["log_evidence"][good] = evidence
            self.mean[good] += np.einsum("kij,kj->ki", root, shift)
            after = root @ left
            self.covariance[good] = after @ np.swapaxes(after, 1, 2)

    def seen_values(self, count: int) -> dict[str, np.ndarray]:
        """What is reported of measurements [filter, measurement, ...]; NaN if not reached."""
        size = self.transform.size
        shapes = {
            "prior_mean": (size,), "prior_covariance": (size, size),
            "normalised_innovation_squared": (), "log_evidence": (),
        }  # fmt: skip
        if any("left_out" in row for row in self.seen):
            shapes |= {"innovation_distance": (), "left_out": ()}
        found = {
            name: np.full((len(self.mean), count, *shape), np.nan) for name, shape in shapes.items()
        }
        for at, row in enumerate(self.seen):
            for name, one in row.items():
                found[name][:, at] = one
        return found
