"""Exact answers for densities of the newer kinds: priors of samples, angles, many variables.

A linear system takes each sample, or each Gaussian of a mixture, to a Gaussian: the answer is a sum
of them. Angles are judged by plain particles in NumPy that go round as often as they like.
"""

from __future__ import annotations

import math

import density_linear
import numpy as np

import ergode


def sum_of_gaussians(weights, means, covariances):
    """Mean and covariance; `covariances` [term, n, n], or [1, n, n] of all."""
    mean = weights @ means
    apart = means - mean
    own = np.einsum("k,kij->ij", np.broadcast_to(weights, len(means)), covariances) if (
        len(covariances) > 1
    ) else covariances[0]  # fmt: skip
    return mean, own + (apart * weights[:, None]).T @ apart


def filtered(bank, weights, means, covariances):
    """Moments at times and log evidences of a linear system with a sum of Gaussians as a prior."""
    events = np.union1d(np.union1d(bank.times, bank.seen_at), [time for time, _, _ in bank.jumps])
    row, now = bank.row[0], bank.times[0]
    moments, evidences = [], []
    for time in events:
        if time > now:
            step = density_linear.transition(bank.drift[0], bank.shift[0], bank.noise, time - now)
            means = means @ step[0].T + step[1]
            covariances = step[0] @ covariances @ step[0].T + step[2]
            now = time
        for at, change, added in bank.jumps:
            if at == time:
                means, covariances = means + change, covariances + added
        for k in np.flatnonzero(bank.seen_at == time):
            spread = covariances @ row @ row + bank.variance[k, 0]
            away = bank.value[k, 0] - means @ row
            log = np.log(weights) - 0.5 * (away**2 / spread + np.log(2 * np.pi * spread))
            top = log.max()
            weights = np.exp(log - top)
            evidences.append(top + math.log(weights.sum()))
            weights = weights / weights.sum()
            gain = covariances @ row / spread[:, None]
            means = means + gain * away[:, None]
            covariances = covariances - gain[:, :, None] * gain[:, None] * spread[:, None, None]
        if time in bank.times:
            moments.append(sum_of_gaussians(weights, means, covariances))
    return moments, evidences


def random_samples(rng, mean, covariance, count=4_000):
    """Weighted samples of two heaps that have about these moments."""
    root = np.linalg.cholesky(covariance)
    side = rng.choice([-1.0, 1.0], count, p=[0.3, 0.7])[:, None]
    z = 0.5 * rng.normal(size=(count, len(mean))) + 0.8 * side * np.eye(len(mean))[0]
    weights = rng.exponential(size=count)
    return mean + z @ root.T, weights / weights.sum()


# ---- many variables


def seven(t, y, p):
    return tuple(sum(p[7 * i + k] * y[k] for k in range(7)) for i in range(7))


def first(y, t, p):
    return (y[0],)


SEVEN = ergode.VectorField(seven, [f"y{k}" for k in range(7)], [f"p{k}" for k in range(49)])


def random_seven(rng):
    """A linear system of seven variables with noise, a mixture as a prior, and measurements."""
    drift = rng.normal(0, 0.4, (1, 7, 7)) - 0.2 * np.eye(7)
    seen_at = np.array([0.5, 1.0, 1.5])[: rng.integers(1, 4)]
    bank = density_linear.Bank(
        drift, np.zeros((1, 7)), np.eye(7)[:1], np.diag(rng.uniform(0.05, 0.2, 7)),
        rng.normal(0, 3, (1, 7)), np.diag(rng.uniform(0.5, 2.0, 7))[None], np.array([0.0, 1.5]),
        seen_at, np.zeros((seen_at.size, 1)), 10.0 ** -rng.uniform(0, 3, (seen_at.size, 1)),
    )  # fmt: skip
    for k in range(seen_at.size):
        ahead = density_linear.kalman(bank, 0)
        spread = ahead.ahead_covariance[k, 0, 0] + bank.variance[k, 0]
        bank.value[k, 0] = ahead.ahead_mean[k, 0] + rng.normal() * math.sqrt(spread)
    return bank


# ---- angles


def pendulum(t, y, p):
    return y[1], -p[0] * math.sin(p[2] * y[0]) - p[1] * y[1]


def on_circle(y, t, p):
    return math.cos(p[2] * y[0]), math.sin(p[2] * y[0])


PENDULUM = ergode.VectorField(pendulum, ["angle", "speed"], ["pull", "drag", "turns"])


class Swing:
    """A pendulum with noise, whose direction is measured once."""

    def __init__(self, rng, noisy):
        self.turns = 10.0 ** rng.uniform(-2, 2)  # radians in the unit of the angle
        self.pull, self.drag = rng.uniform(0.2, 2.0), rng.uniform(0.0, 0.5)
        self.mean = np.array([rng.uniform(-3, 3), rng.normal(0, 1.5)])
        self.deviation = rng.uniform(0.1, 0.5, 2)
        self.noise = rng.uniform(0.005, 0.05, 2) if noisy else np.zeros(2)
        self.times = np.array([0.0, 0.6, rng.uniform(0.8, 2.0)])
        self.variance = rng.uniform(0.02, 0.3)
        self.value = rng.normal(size=2)  # until it is drawn

    @property
    def parameters(self):
        return {"pull": self.pull / self.turns, "drag": self.drag, "turns": self.turns}

    def arguments(self):
        unit = 1.0 / self.turns
        seen = ergode.Measurement(0.6, on_circle, self.value, [self.variance] * 2)
        named = {
            "times": self.times, "parameters": self.parameters, "measurements": [seen],
            "periodic": {"angle": 2 * math.pi * unit},
        }  # fmt: skip
        if self.noise.any():
            named["process_noise"] = self.noise * unit**2
        return (PENDULUM, ergode.Gaussian(self.mean * unit, (self.deviation * unit) ** 2)), named

    def _moved(self, rng, y, duration, step=0.01):
        steps = math.ceil(duration / step)
        h = duration / steps

        def field(y):
            return np.stack([y[1], -self.pull * np.sin(y[0]) - self.drag * y[1]])

        for _ in range(steps):
            k1 = field(y)
            k2 = field(y + 0.5 * h * k1)
            k3 = field(y + 0.5 * h * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(y + h * k3))
            if self.noise.any():
                y = y + np.sqrt(self.noise * h)[:, None] * rng.normal(size=y.shape)
        return y

    def filtered(self, rng, count=100_000):
        """Resultant, mean and deviations [time, 2] in radians, and the effective number."""
        y = self.mean[:, None] + self.deviation[:, None] * rng.normal(size=(2, count))
        weight, found, now = np.full(count, 1.0 / count), [], 0.0
        for time in self.times:
            if time > now:
                y, now = self._moved(rng, y, time - now), time
            if time == 0.6:
                circle = np.stack([np.cos(y[0]), np.sin(y[0])])
                self.value = circle[:, 0] + math.sqrt(self.variance) * rng.normal(size=2)
                square = np.square(circle - self.value[:, None]).sum(axis=0)
                weight = np.exp(-0.5 * (square - square.min()) / self.variance)
                weight /= weight.sum()
            turn = weight @ np.exp(1j * y[0])
            away = np.angle(np.exp(1j * (y[0] - np.angle(turn))))
            both = np.stack([away, y[1]])
            mean = both @ weight
            wide = np.sqrt(np.square(both - mean[:, None]) @ weight)
            mean[0] += np.angle(turn)
            found.append((abs(turn), mean, wide))
        return found, 1.0 / (weight @ weight)
