"""Random polynomial fields, and a plain particle filter in NumPy that knows no grid.

A path is integrated by Heun's method, noise is added after each step (of additive noise this is of
weak order two in the drift and one in all); particles are weighted by the likelihood and drawn anew
after a measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

import ergode

# Parameters: of the polynomials, then of what is measured.


def line(t, y, p):
    x = y[0]
    return (p[0] + p[1] * x + p[2] * x * x - p[3] * x * x * x + p[4] * t,)


def plane(t, y, p):
    x, v = y[0], y[1]
    return (
        p[0] + p[1] * x + p[2] * v + p[3] * x * v - p[4] * x * x * x,
        p[5] + p[6] * x + p[7] * v + p[8] * x * x - p[9] * v * v * v,
    )


def seen_of_line(y, t, p):
    return (y[0] + p[5] * y[0] * y[0],)


def seen_of_plane(y, t, p):
    return (p[10] * y[0] + p[11] * y[1] + p[12] * y[0] * y[1],)


# The same fields with more parameters: of noise, values, and the width of a likelihood.


def shaken_line(t, y, p):
    return (p[6] * (1.0 + p[7] * y[0] * y[0] / (1.0 + y[0] * y[0])),)


def shaken_plane(t, y, p):
    grown = 1.0 + p[15] * y[0] * y[0] / (1.0 + y[0] * y[0])
    across = 0.5 * math.sqrt(p[13] * p[14]) * grown
    return p[13] * grown, across, across, p[14] * grown


def likelihoods(seen, first):
    """Of two values: a threshold was passed, or the fourth power of a distance."""

    def passed(y, t, p):
        return (-math.log1p(math.exp((p[first] - seen(y, t, p)[0]) / p[first + 2])),)

    def fourth(y, t, p):
        return (-0.25 * ((seen(y, t, p)[0] - p[first + 1]) / p[first + 2]) ** 4,)

    return passed, fourth


FIELDS = {
    1: ergode.VectorField(line, ["x"], [f"p{k}" for k in range(6)]),
    2: ergode.VectorField(plane, ["x", "v"], [f"p{k}" for k in range(13)]),
}
SEEN = {1: seen_of_line, 2: seen_of_plane}
WIDER = {
    1: ergode.VectorField(line, ["x"], [f"p{k}" for k in range(11)]),
    2: ergode.VectorField(plane, ["x", "v"], [f"p{k}" for k in range(19)]),
}
SHAKEN = {1: shaken_line, 2: shaken_plane}
LIKELIHOODS = {1: likelihoods(seen_of_line, 8), 2: likelihoods(seen_of_plane, 16)}


@dataclass
class Case:
    """A polynomial field with a Gaussian prior, diagonal noise and measurements."""

    parameters: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    noise: np.ndarray
    times: np.ndarray
    seen_at: np.ndarray
    value: np.ndarray
    variance: float
    bend: float | None = None  # of noise that depends on the state
    freedom: float | None = None  # of noise of measurements, if it is Student's
    has_own: bool = False  # whether measurements have likelihoods of their own

    @property
    def size(self) -> int:
        return len(self.mean)

    def arguments(self):
        """Of either engine: what goes by place, and what goes by name."""
        if self.bend is not None or self.has_own:
            return self._wider_arguments()
        field = FIELDS[self.size]
        named = {
            "times": self.times,
            "parameters": dict(zip(field.parameters, self.parameters.tolist(), strict=True)),
            "measurements": [
                ergode.Measurement(
                    float(t),
                    SEEN[self.size],
                    float(v),
                    self.variance,
                    degrees_of_freedom=self.freedom,
                )
                for t, v in zip(self.seen_at, self.value, strict=True)
            ],
        }
        if self.noise.any():
            named["process_noise"] = self.noise
        return (field, ergode.Gaussian(self.mean, self.covariance)), named

    @property
    def every(self) -> np.ndarray:
        """All parameters of the wider field."""
        values = np.resize(self.value, 2)
        more = [*self.noise, self.bend or 0.0, *values, math.sqrt(self.variance)]
        return np.concatenate([self.parameters, more])

    def _wider_arguments(self):
        field = WIDER[self.size]
        named = {
            "times": self.times,
            "parameters": dict(zip(field.parameters, self.every.tolist(), strict=True)),
            "process_noise": self.noise if self.bend is None else SHAKEN[self.size],
            "measurements": [
                ergode.Measurement(float(t), likelihood=LIKELIHOODS[self.size][k]) if self.has_own
                else ergode.Measurement(
                    float(t), SEEN[self.size], float(v), self.variance,
                    degrees_of_freedom=self.freedom,
                )
                for k, (t, v) in enumerate(zip(self.seen_at, self.value, strict=True))
            ],
        }  # fmt: skip
        return (field, ergode.Gaussian(self.mean, self.covariance)), named

    def log_likelihood(self, points: np.ndarray, time: float, number: int) -> np.ndarray:
        """Of points [particle, variable] and a measurement, in NumPy."""
        seen = SEEN[self.size](points.T, time, self.parameters)[0]
        away = (seen - self.value[number]) / math.sqrt(self.variance)
        if self.has_own:
            return -np.logaddexp(0.0, -away) if number == 0 else -0.25 * away**4
        if self.freedom is not None:
            return stats.t.logpdf(away, self.freedom) - 0.5 * math.log(self.variance)
        return -0.5 * (away**2 + math.log(2 * math.pi * self.variance))

    def kick(self, points: np.ndarray, normal: np.ndarray, dt: float) -> np.ndarray:
        """What noise adds to points in a step."""
        kick = np.sqrt(self.noise * dt) * normal
        if self.bend is None:
            return kick
        if self.size == 2:
            across = 0.5 * normal[:, 0] + math.sqrt(0.75) * normal[:, 1]
            kick = np.sqrt(self.noise * dt) * np.stack([normal[:, 0], across], -1)
        square = points[:, :1] ** 2
        return kick * np.sqrt(1.0 + self.bend * square / (1.0 + square))


def random_case(rng: np.random.Generator, size: int, noisy: bool) -> Case:
    """A field whose densities stay in reach: cubic terms hold them together."""
    parameters = rng.normal(0, 0.5, 6 if size == 1 else 13)
    held = [3] if size == 1 else [4, 9]
    parameters[held] = rng.uniform(0.05, 0.4, len(held))
    if size == 1:
        parameters[5] *= 0.3
    deviation = rng.uniform(0.3, 0.7, size)
    tilt = rng.uniform(-0.5, 0.5) if size == 2 else 0.0
    shape = np.eye(size) + tilt * (1 - np.eye(size))
    mean = rng.normal(0, 1.0, size)
    noise = deviation**2 * rng.uniform(0.2, 1.0, size) if noisy else np.zeros(size)
    start = rng.uniform(-1, 1)
    times = start + np.concatenate([[0.0], np.cumsum(rng.uniform(0.15, 0.4, 3))])
    seen_at = np.sort(rng.choice(times[1:], rng.integers(1, 3), replace=False))
    case = Case(
        parameters, mean, shape * np.outer(deviation, deviation), noise, times, seen_at,
        np.zeros(seen_at.size), float(rng.uniform(0.1, 0.5)),
    )  # fmt: skip
    # What one path of the model would have shown, in the noise of the measurements.
    truth = rng.multivariate_normal(mean, case.covariance)[None]
    now = start
    for k, time in enumerate(seen_at):
        truth = moved(case, rng, truth, now, time)
        now = time
        seen = SEEN[size](truth.T, time, parameters)[0][0]
        case.value[k] = seen + rng.normal() * np.sqrt(case.variance)
    return case


def moved(case: Case, rng, points, start, stop, step=0.01):
    """Points [particle, variable] at a later time."""
    field = (line, plane)[case.size - 1]
    count = max(1, int(np.ceil((stop - start) / step)))
    dt = (stop - start) / count
    for k in range(count):
        t = start + k * dt
        first = np.stack(field(t, points.T, case.parameters), -1)
        kick = 0.0
        if case.noise.any():
            kick = case.kick(points, rng.standard_normal(points.shape), dt)
        ahead = points + dt * first + kick
        second = np.stack(field(t + dt, ahead.T, case.parameters), -1)
        points = points + 0.5 * dt * (first + second) + kick
    return points


def filtered(case: Case, seed: int, count: int = 100_000):
    """Means [time, variable], covariances, log evidences, and effective counts [time]."""
    rng = np.random.default_rng(seed)
    points = rng.multivariate_normal(case.mean, case.covariance, count)
    weights = np.full(count, 1 / count)
    found = {"mean": [], "covariance": [], "log_evidence": [], "effective": []}
    now, least = case.times[0], float(count)
    for time in case.times:
        if time > now:
            points, now = moved(case, rng, points, now, time), time
        for number in np.flatnonzero(case.seen_at == time):
            log = case.log_likelihood(points, time, number)
            likelihood = np.exp(log - log.max())
            total = weights @ likelihood
            found["log_evidence"].append(log.max() + np.log(total))
            weights = weights * likelihood / total
            least = min(least, 1 / (weights**2).sum())
        mean = weights @ points
        away = points - mean
        found["mean"].append(mean)
        found["covariance"].append((away * weights[:, None]).T @ away)
        found["effective"].append(least)
        if 1 / (weights**2).sum() < count / 2:
            points = points[rng.choice(count, count, p=weights)]
            weights = np.full(count, 1 / count)
    return {name: np.array(value) for name, value in found.items()}
