"""Random polynomial fields, and a plain particle filter in NumPy that knows no grid.

A path is integrated by Heun's method, noise is added after each step (of additive noise this is of
weak order two in the drift and one in all); particles are weighted by the likelihood and drawn anew
after a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


FIELDS = {
    1: ergode.VectorField(line, ["x"], [f"p{k}" for k in range(6)]),
    2: ergode.VectorField(plane, ["x", "v"], [f"p{k}" for k in range(13)]),
}
SEEN = {1: seen_of_line, 2: seen_of_plane}


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

    @property
    def size(self) -> int:
        return len(self.mean)

    def arguments(self):
        """Of either engine: what goes by place, and what goes by name."""
        field = FIELDS[self.size]
        named = {
            "times": self.times,
            "parameters": dict(zip(field.parameters, self.parameters.tolist(), strict=True)),
            "measurements": [
                ergode.Measurement(float(t), SEEN[self.size], float(v), self.variance)
                for t, v in zip(self.seen_at, self.value, strict=True)
            ],
        }
        if self.noise.any():
            named["process_noise"] = self.noise
        return (field, ergode.Gaussian(self.mean, self.covariance)), named


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
    root = np.sqrt(case.noise * dt)
    for k in range(count):
        t = start + k * dt
        first = np.stack(field(t, points.T, case.parameters), -1)
        kick = root * rng.standard_normal(points.shape) if root.any() else 0.0
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
        for value in case.value[case.seen_at == time]:
            seen = SEEN[case.size](points.T, time, case.parameters)[0]
            log = -0.5 * ((value - seen) ** 2 / case.variance + np.log(2 * np.pi * case.variance))
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
