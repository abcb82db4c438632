"""Particles: drawn from a prior, followed along the field, moved by maneuvers, and measured."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ergode import trajectories
from ergode.core.calls.resident import beside
from ergode.core.devices import Device
from ergode.core.devices.foreign import on_host
from ergode.core.errors import InterruptionWarning, PlanError
from ergode.core.inputs import unrecorded
from ergode.density.flow.weighted import Moments, Weighted
from ergode.models.estimation.gate import gated
from ergode.models.estimation.likelihood import Undefined, impossible
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior
from ergode.particles.draw import bandwidth, draw, resampled, scattered, taken
from ergode.particles.noise import Pushed

_BYTES_AT_ONCE = 1 << 28
_ONE = np.zeros(1, np.int64)  # the only density


class Cloud(Weighted):
    """Particles, their weights, and the options of their integration.

    Arrays of particles and of weights are replaced, never written to: a reference to an array keeps
    the values that it had.
    """

    def __init__(
        self, prior: Prior, count: int, seed: int, *, pushed: Pushed, parameters: dict[str, float],
        device: Device,
        step: float | None,  # step of methods with a fixed step [time]
        resample_below: float,  # least effective sample size, as a fraction, without resampling
        regularise: bool,  # whether resampling draws from a smooth density
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.pushed, self.parameters, self.device, self.seed = pushed, parameters, device, seed
        self.step, self.resample_below, self.regularise = step, resample_below, regularise
        self.options = options
        self.count, self.point_count = 1, count
        self.points, log_weights = draw(prior, count, seed, device)
        self.size = self.points.shape[0]
        values = [parameters[name] for name in pushed.field.parameters]
        self._parameters = np.array([values], np.float64)
        self._exact, none = device.put_together([self._parameters, np.zeros(count)])
        self._marks = device.zeros((2, 1), np.int64)
        self.undefined_at: list[tuple[float, Undefined]] = []  # times of measurements
        self._signs = self._edge = none  # halves are not compared
        self.log_evidence: list[float] = []
        self.before: list[tuple[np.ndarray, np.ndarray]] = []
        # Effective sample size at each measurement, before resampling.
        self.effective: list[float] = []
        self.gates: list[tuple[float, float]] = []  # distance, and whether a value was left out
        self.resampled_count = 0
        # [particle]: particles whose integration failed; their weight is zero.
        self.lost: np.ndarray | None = None
        self._flights = self._kicks = 0
        # Original of each copy, until noise separates them.
        self._origin: np.ndarray | None = None
        self._reported = 0  # measurements up to the previous row
        self._known: Moments | None = None
        self._set_log_weights(log_weights)

    def states(self, points: Any = None) -> np.ndarray:
        """The present particles, or earlier ones, [particle, variable] on the host."""
        points = self.points if points is None else points
        return np.asarray(self.device.get(points))[:, 0].T

    def weights(self, log_weights: Any = None) -> np.ndarray:
        """Normalised weight of each present particle, or of earlier ones, on the host."""
        log = self._host(self.log_weights if log_weights is None else log_weights)
        weights = np.exp(log - log.max())
        return np.asarray(weights / weights.sum())

    @property
    def effective_count(self) -> float:
        """Effective sample size (Kish): 1 / sum of squared normalised weights.

        Copies of one particle count as one, until noise separates them.
        """
        if self._origin is None:
            return float(self.moments().effective[0])
        weights = np.bincount(self._origin, self.weights())
        return float(1.0 / (weights**2).sum())

    def moments(self) -> Moments:
        """Moments of the particles (see `Weighted`)."""
        if self._known is None:
            self._known = super().moments()
        return self._known

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
        jumps = [one for one in maneuvers if one.time > since]
        while at < events.size:
            # One integration covers all times up to the next of these, if memory suffices.
            seen = min(
                pending[0].time if pending else math.inf, jumps[0].time if jumps else math.inf
            )
            room = max(1, _BYTES_AT_ONCE // (8 * self.size * self.point_count))
            stop = min(int(np.searchsorted(events, seen)) + 1, events.size, at + room)
            states = self._fly(events[max(at - 1, 0) : stop])
            for number, time in enumerate(events[at:stop]):
                if states is not None:
                    self._land(states, number + (at > 0))
                while jumps and jumps[0].time == time:
                    self._jump(jumps.pop(0))
                while pending and pending[0].time == time:
                    self._measure(pending.pop(0))
                if time in times:
                    yield float(time)
            at = stop
            paused(at, at / events.size)

    def state(self) -> dict[str, Any]:
        """What `restore` takes."""
        size = self.size
        none = np.empty(0)
        log_weights = self._host(self.log_weights)
        return {
            "points": self.device.get(self.points),
            "log_weights": log_weights if log_weights.any() else none,
            "log_evidence": np.array(self.log_evidence), "effective": np.array(self.effective),
            "gates": np.array(self.gates).reshape(-1, 2),
            "prior_mean": np.array([mean for mean, _ in self.before]).reshape(-1, size),
            "prior_covariance": np.array([one for _, one in self.before]).reshape(-1, size, size),
            "lost": none if self.lost is None else self.lost,
            "origin": none if self._origin is None else self._origin,
            "counts": np.array(
                [self.resampled_count, self._flights, self._kicks, self._reported]
            ),
        }  # fmt: skip

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        self._land(state["points"][None])
        log_weights = state["log_weights"]
        self._set_log_weights(log_weights if log_weights.size else np.zeros(self.point_count))
        self.log_evidence, self.effective = (
            state[name].tolist() for name in ("log_evidence", "effective")
        )
        self.gates = [tuple(row) for row in state["gates"].tolist()]
        self.before = list(zip(state["prior_mean"], state["prior_covariance"], strict=True))
        self.lost, self._origin = (
            state[name] if state[name].size else None for name in ("lost", "origin")
        )
        self.resampled_count, self._flights, self._kicks, self._reported = state["counts"].tolist()

    # ---- implementation

    def _host(self, log_weights: Any) -> np.ndarray:
        return np.asarray(self.device.get(log_weights))[0]

    def _set_log_weights(self, log_weights: np.ndarray) -> None:
        self.log_weights = self.device.empty((1, self.point_count), np.float64)
        self.device.copy(np.ascontiguousarray(log_weights[None]), self.log_weights)
        self._known = None

    def _land(self, states: Any, number: int = 0) -> None:
        """Take states [number, variable, particle] of the host, or of a library of the device."""
        self.points = self.device.empty((self.size, 1, self.point_count), np.float64)
        with self._library():
            rows = states[number].reshape(self.points.shape).astype(np.float64, copy=False)
            on_device = not isinstance(rows, np.ndarray)
            self.device.copy(self.device.view(rows) if on_device else rows, self.points)
        self._known = None

    def _fly(self, times: np.ndarray) -> Any:
        """States [time, variable, particle] from the current ones on; None if there is one time."""
        if times.size == 1:
            return None
        pushed = self.pushed
        self._flights += 1
        if pushed.is_noisy:
            self._origin = None
        seed = np.random.SeedSequence([self.seed, self._flights]).generate_state(1, np.uint64)[0]
        start = np.asarray(self.device.get(self.points))[:, 0]
        if pushed.is_turned:
            start = pushed.axes.T @ start
        with warnings.catch_warnings(), unrecorded():
            warnings.simplefilter("ignore", InterruptionWarning)
            result: Any = trajectories.integrate(
                pushed.field, times=times, parameters=self.parameters,
                initial=dict(zip(pushed.field.variables, start, strict=True)),
                method=pushed.method, step=self.step, device=self.device, seed=int(seed),
                keep_on_device=self.device.has_library, **self.options,
            )  # fmt: skip
        if result.attrs["interrupted"]:  # a subset of the particles does not represent the density
            raise KeyboardInterrupt
        with self._library():
            states = result.transpose("time", "variable", ...)["state"]
            states = getattr(states, "values", states)
            if pushed.is_turned:
                states = beside(states, pushed.axes) @ states
            lost = on_host(~np.isfinite(states).all(axis=(0, 1)))
            if lost.all():
                raise PlanError(f"no particle arrives at time {times[-1]:g}")
            if lost.any():
                good = int(np.argmin(lost))
                states = np.where(beside(states, lost), states[..., good : good + 1], states)
                self._set_log_weights(np.where(lost, -np.inf, self._host(self.log_weights)))
                self.lost = lost if self.lost is None else self.lost | lost
        return states

    def _jump(self, maneuver: Maneuver) -> None:
        """Apply a maneuver."""
        change, covariance = maneuver.changes(_ONE), maneuver.covariance
        if covariance is None:
            covariance = np.zeros((self.size, self.size))
        else:
            self._origin = None
        self._scatter(change, covariance, 1.0)

    def _scatter(self, shift: np.ndarray, covariance: np.ndarray, keep: float) -> None:
        """Multiply all states, shift them [1, variable], and add Gaussian draws."""
        points = self.points
        self.points = self.device.empty(points.shape, np.float64)
        self.device.copy(points, self.points)
        self._kicks += 1
        scattered(
            self.device, self.points, self.seed, self._kicks, shifts=shift,
            covariances=[covariance], keep=keep,
        )  # fmt: skip
        self._known = None

    def _measure(self, measurement: Measurement) -> None:
        """Weigh by a measurement, and resample if few particles count."""
        before = self.moments()
        self.before.append((before.mean[0], before.covariance[0]))
        log_weights = self.log_weights
        self.log_weights = self.device.empty(log_weights.shape, np.float64)
        self.device.copy(log_weights, self.log_weights)
        distance, left_out = gated(self, measurement, _ONE)
        self.gates.append((float(distance[0]), float(left_out[0])))
        constant = float(self.weigh(*measurement.without(left_out, _ONE))[0])
        undefined = self.undefined().get(0)
        self._known = None
        gained = float(self.moments().log_mass[0] - before.log_mass[0])
        if not math.isfinite(gained):
            raise PlanError(impossible(measurement.time, undefined, self.pushed.field.variables))
        if undefined is not None:
            self.undefined_at.append((measurement.time, undefined))
        self.log_evidence.append(constant + gained)
        self.effective.append(self.effective_count)
        if self.effective[-1] < self.resample_below * self.point_count:
            self._resample()

    def _resample(self) -> None:
        after, weights = self.moments(), self.weights()
        rng = np.random.Generator(np.random.Philox([self.seed, len(self.before)]))
        chosen = resampled(weights, self.point_count, rng)
        self.points = taken(self.device, self.points, chosen)
        self._set_log_weights(np.zeros(self.point_count))
        self.resampled_count += 1
        if self.regularise:
            # Drawn to the mean, so that the covariance stays: M. West, "Mixture models, Monte
            # Carlo, Bayesian updating and dynamic models" (1993).
            width = bandwidth(self.point_count, self.size)
            keep = math.sqrt(1.0 - width**2)
            self._scatter((1.0 - keep) * after.mean, width**2 * after.covariance[0], keep)
            self._origin = None
        else:
            self._origin = chosen if self._origin is None else self._origin[chosen]

    def _library(self) -> AbstractContextManager[object]:
        return self.device.libraries() if self.device.has_library else nullcontext()
