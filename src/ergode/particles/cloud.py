"""A weighted ensemble of particles, propagated in time, moved by maneuvers, and measured."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergode import trajectories
from ergode.core import kernels
from ergode.core.compiler.language import option
from ergode.core.devices import Device
from ergode.core.errors import InterruptionWarning, PlanError
from ergode.models.estimation import likelihood
from ergode.models.estimation.covariances import root_of
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior
from ergode.particles.draw import draw, resampled, smoothed
from ergode.particles.noise import Pushed

VARIABLES = option()
"""Number of variables."""

PARAMETERS = option()
"""Number of parameters."""

_BYTES_AT_ONCE = 1 << 28


def at_particle(index, points, t, parameters, value, precision, out):  # type: ignore[no-untyped-def]
    """Logarithm of the likelihood of one particle, up to a constant.

    Model: `points` [particle, variable], `parameters` [parameter], `value` [component],
    `precision` [component, component]. Out: `out` [particle].
    """
    y = tuple(points[index, j] for j in range(VARIABLES))
    p = tuple(parameters[j] for j in range(PARAMETERS))
    out[index] = likelihood.log_likelihood(y, t, p, value, precision)


def moments(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [variable] and covariance [variable, variable]."""
    # Relative to a particle: the sum of many numbers far from zero would be rounded.
    shift = weights @ (points - points[0])
    away = points - points[0] - shift
    return points[0] + shift, (away * weights[:, None]).T @ away


@dataclass
class Cloud:
    """Particles, their weights, and the options of their integration."""

    pushed: Pushed
    parameters: dict[str, float]
    points: np.ndarray  # [particle, variable]
    log_weights: np.ndarray  # [particle]
    device: Device
    seed: int
    step: float | None  # step of methods with a fixed step [time]
    # Resample when the effective sample size falls below this fraction of the particles.
    resample_below: float
    regularise: bool  # whether resampling draws from a smooth density instead of copying particles
    options: dict[str, Any]
    log_evidence: list[float] = field(default_factory=list)
    before: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    # Effective sample size at each measurement, before resampling.
    effective: list[float] = field(default_factory=list)
    resampled_count: int = 0
    # [particle]: particles whose integration failed; their weight is zero.
    lost: np.ndarray | None = None
    _flights: int = 0
    _origin: np.ndarray | None = None  # original of each copy, until noise separates them
    _reported: int = 0  # measurements up to the previous row

    @classmethod
    def of(cls, prior: Prior, count: int, seed: int, **rest: Any) -> Cloud:
        """Particles drawn from a prior."""
        rng = np.random.Generator(np.random.Philox([seed, 0]))
        points, log_weights = draw(prior, count, rng)
        return cls(points=points, log_weights=log_weights, seed=seed, **rest)

    @property
    def weights(self) -> np.ndarray:
        """Normalised weight of each particle."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(weights / weights.sum())

    @property
    def effective_count(self) -> float:
        """Effective sample size (Kish): 1 / sum of squared normalised weights.

        Copies of one particle count as one, until noise separates them.
        """
        weights = self.weights
        if self._origin is not None:
            weights = np.bincount(self._origin, weights)
        return float(1.0 / (weights**2).sum())

    def least_effective_count(self) -> float:
        """Smallest effective sample size since the last call, before any resampling."""
        since, self._reported = self.effective[self._reported :], len(self.effective)
        return min([self.effective_count, *since])

    def visit(
        self, times: np.ndarray, measurements: Sequence[Measurement],
        maneuvers: Sequence[Maneuver] = (), at: int = 0,
        paused: Callable[[int, float], None] = lambda at, share: None,
    ) -> Iterator[float]:  # fmt: skip
        """Propagate to each time in turn; at their times, apply maneuvers and measurements.

        ``paused(at, share)`` is called between two integrations, and a later visit goes on from
        `at`.
        """
        events = np.union1d(times, [m.time for m in measurements] + [m.time for m in maneuvers])
        since = events[at - 1] if at else -math.inf
        pending = [one for one in measurements if one.time > since]
        jumps = [one for one in enumerate(maneuvers, 1) if one[1].time > since]
        while at < events.size:
            # One integration covers all times up to the next of these, if memory suffices.
            seen = min(
                pending[0].time if pending else math.inf, jumps[0][1].time if jumps else math.inf
            )
            room = max(1, _BYTES_AT_ONCE // (8 * self.points.size))
            stop = min(int(np.searchsorted(events, seen)) + 1, events.size, at + room)
            states = self._fly(events[max(at - 1, 0) : stop])
            for number, time in enumerate(events[at:stop]):
                self.points = states[:, number + (at > 0)]
                while jumps and jumps[0][1].time == time:
                    self._jump(*jumps.pop(0))
                while pending and pending[0].time == time:
                    self._weigh(pending.pop(0))
                if time in times:
                    yield float(time)
            at = stop
            paused(at, at / events.size)

    def state(self) -> dict[str, Any]:
        """What `restore` takes."""
        size = self.points.shape[1]
        none = np.empty(0)
        return {
            "points": self.points,
            "log_weights": self.log_weights if self.log_weights.any() else none,
            "log_evidence": np.array(self.log_evidence), "effective": np.array(self.effective),
            "prior_mean": np.array([mean for mean, _ in self.before]).reshape(-1, size),
            "prior_covariance": np.array([one for _, one in self.before]).reshape(-1, size, size),
            "lost": none if self.lost is None else self.lost,
            "origin": none if self._origin is None else self._origin,
            "counts": np.array([self.resampled_count, self._flights, self._reported]),
        }  # fmt: skip

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        self.points, self.log_weights = state["points"], state["log_weights"]
        if not self.log_weights.size:
            self.log_weights = np.zeros(len(self.points))
        self.log_evidence, self.effective = (
            state[name].tolist() for name in ("log_evidence", "effective")
        )
        self.before = list(zip(state["prior_mean"], state["prior_covariance"], strict=True))
        self.lost, self._origin = (
            state[name] if state[name].size else None for name in ("lost", "origin")
        )
        self.resampled_count, self._flights, self._reported = state["counts"].tolist()

    def _fly(self, times: np.ndarray) -> np.ndarray:
        """States [particle, time, variable]; the first are the current states."""
        if times.size == 1:
            return self.points[:, None]
        field = self.pushed.field
        self._flights += 1
        if self.pushed.is_noisy:
            self._origin = None
        seed = np.random.SeedSequence([self.seed, self._flights]).generate_state(1, np.uint64)[0]
        start = self.points @ self.pushed.axes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptionWarning)
            result = trajectories.integrate(
                field, times=times, parameters=self.parameters,
                initial=dict(zip(field.variables, start.T, strict=True)),
                method=self.pushed.method, step=self.step, device=self.device,
                seed=int(seed), **self.options,
            )  # fmt: skip
        if result.attrs["interrupted"]:  # a subset of the particles does not represent the density
            raise KeyboardInterrupt
        states = result["state"].values.astype(np.float64) @ self.pushed.axes.T
        lost = ~np.isfinite(states).all(axis=(1, 2))
        if lost.all():
            raise PlanError(f"no particle arrives at time {times[-1]:g}")
        if lost.any():
            self.log_weights = np.where(lost, -np.inf, self.log_weights)
            states[lost] = states[~lost][0]
            self.lost = lost if self.lost is None else self.lost | lost
        return np.asarray(states)

    def _jump(self, number: int, maneuver: Maneuver) -> None:
        """Apply the maneuver of this number, counted from one."""
        (change,) = maneuver.changes(np.zeros(1, np.int64))
        self.points = self.points + change
        if maneuver.covariance is not None:
            # A third word separates these keys from those of flights.
            key = np.random.SeedSequence([self.seed, 0, number])
            rng = np.random.Generator(np.random.Philox(key))
            root = root_of(maneuver.covariance)
            self.points = self.points + rng.standard_normal(self.points.shape) @ root.T
            self._origin = None

    def _weigh(self, measurement: Measurement) -> None:
        before = self.weights
        self.before.append(moments(self.points, before))
        ((value,), (precision,), (constant,)) = likelihood.numbers_of(measurement, np.zeros(1, int))
        bindings = likelihood.bindings_of(measurement) | {
            VARIABLES: self.points.shape[1],
            PARAMETERS: len(self.parameters),
        }
        names = self.pushed.field.parameters
        device, out = self.device, self.device.empty(len(self.points), np.float64)
        with kernels.readable_errors():
            device.run(
                kernels.for_each(at_particle, bindings=bindings), len(self.points),
                device.put(self.points), measurement.time,
                device.put(np.array([self.parameters[name] for name in names], np.float64)),
                device.put(value), device.put(precision), out,
            )  # fmt: skip
        log = device.get(out) + constant
        log = np.where(np.isnan(log), -np.inf, log)
        top = float(log[before > 0].max())
        if not math.isfinite(top):
            raise PlanError(
                f"the measurement at time {measurement.time:g} is impossible: its likelihood is "
                "zero for every particle"
            )
        self.log_evidence.append(top + math.log(float(before @ np.exp(log - top))))
        self.log_weights = self.log_weights + log
        count = len(self.points)
        self.effective.append(self.effective_count)
        if self.effective[-1] < self.resample_below * count:
            rng = np.random.Generator(np.random.Philox([self.seed, len(self.before)]))
            drawn = resampled(self.weights, count, rng)
            if self.regularise:
                self.points = smoothed(self.points[drawn], *moments(self.points, self.weights), rng)
                self._origin = None
            else:
                self.points = self.points[drawn]
                self._origin = drawn if self._origin is None else self._origin[drawn]
            self.log_weights = np.zeros(count)
            self.resampled_count += 1
