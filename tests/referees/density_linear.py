"""Random linear systems with Gaussian priors, noise and measurements, and Kalman's answer to them.

The reference is plain NumPy and SciPy, written from the equations of the model: a transition is the
exponential of a matrix, noise over an interval is Van Loan's block exponential.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import expm

import ergode

# Parameters of each: the matrix row by row, the shift, then the row vector that is measured.


def one(t, y, p):
    return (p[0] * y[0] + p[1],)


def two(t, y, p):
    return p[0] * y[0] + p[1] * y[1] + p[4], p[2] * y[0] + p[3] * y[1] + p[5]


def three(t, y, p):
    return (
        p[0] * y[0] + p[1] * y[1] + p[2] * y[2] + p[9],
        p[3] * y[0] + p[4] * y[1] + p[5] * y[2] + p[10],
        p[6] * y[0] + p[7] * y[1] + p[8] * y[2] + p[11],
    )


def four(t, y, p):
    return (
        p[0] * y[0] + p[1] * y[1] + p[2] * y[2] + p[3] * y[3] + p[16],
        p[4] * y[0] + p[5] * y[1] + p[6] * y[2] + p[7] * y[3] + p[17],
        p[8] * y[0] + p[9] * y[1] + p[10] * y[2] + p[11] * y[3] + p[18],
        p[12] * y[0] + p[13] * y[1] + p[14] * y[2] + p[15] * y[3] + p[19],
    )


def seen_of_one(y, t, p):
    return (p[2] * y[0],)


def seen_of_two(y, t, p):
    return (p[6] * y[0] + p[7] * y[1],)


def seen_of_three(y, t, p):
    return (p[12] * y[0] + p[13] * y[1] + p[14] * y[2],)


def seen_of_four(y, t, p):
    return (p[20] * y[0] + p[21] * y[1] + p[22] * y[2] + p[23] * y[3],)


def names_of(size: int) -> list[str]:
    """Names of the parameters."""
    matrix = [f"a{i}{j}" for i in range(size) for j in range(size)]
    return [*matrix, *(f"b{i}" for i in range(size)), *(f"h{i}" for i in range(size))]


FIELDS = {
    size: ergode.VectorField(function, [f"y{i}" for i in range(size)], names_of(size))
    for size, function in enumerate((one, two, three, four), 1)
}
SEEN = dict(enumerate((seen_of_one, seen_of_two, seen_of_three, seen_of_four), 1))


@dataclass
class Bank:
    """Several linear systems side by side.

    Attributes
    ----------
    drift [system, n, n], shift [system, n], row [system, n]
        The equations, and what is measured.
    noise [n, n]
        Of all systems.
    mean [system, n], covariance [system, n, n]
        Priors.
    times [time], seen_at [measurement]
        When results are reported, and when there are measurements.
    value [measurement, system], variance [measurement, system]
        Of the measurements.
    jumps
        Maneuvers of all systems: time, change [n] and covariance [n, n].
    """

    drift: np.ndarray
    shift: np.ndarray
    row: np.ndarray
    noise: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    times: np.ndarray
    seen_at: np.ndarray
    value: np.ndarray
    variance: np.ndarray
    jumps: list[tuple[float, np.ndarray, np.ndarray]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.drift)

    @property
    def size(self) -> int:
        return self.drift.shape[1]

    def parameters(self) -> dict[str, np.ndarray]:
        """Values by name, [system]."""
        flat = self.drift.reshape(self.count, -1)
        return dict(
            zip(names_of(self.size), np.hstack([flat, self.shift, self.row]).T, strict=True)
        )

    def measurements(self) -> list[ergode.Measurement]:
        """For the engine."""
        return [
            ergode.Measurement(
                float(time), SEEN[self.size], value[:, None], variance[:, None, None]
            )
            for time, value, variance in zip(self.seen_at, self.value, self.variance, strict=True)
        ]

    def maneuvers(self) -> list[ergode.Maneuver]:
        """For the engine."""
        return [ergode.Maneuver(*jump) for jump in self.jumps]

    def prior(self) -> ergode.Gaussian:
        return ergode.Gaussian(self.mean, self.covariance)


def transition(drift, shift, noise, step):
    """What a step does to mean and covariance: matrix, shift and added covariance."""
    n = len(drift)
    block = expm(np.block([[-drift, noise], [np.zeros((n, n)), drift.T]]) * step)
    move = block[n:, n:].T
    affine = expm(np.block([[drift, shift[:, None]], [np.zeros((1, n + 1))]]) * step)
    return move, affine[:n, n], move @ block[:n, n:]


@dataclass
class Exact:
    """Kalman's answer for one system: at times, and before and at measurements."""

    mean: np.ndarray
    covariance: np.ndarray
    ahead_mean: np.ndarray
    ahead_covariance: np.ndarray
    log_evidence: np.ndarray
    surprise: np.ndarray
    """Deviations between a measured value and what was expected, of both together."""
    pull: np.ndarray
    """Deviations of the density before, that a measurement moves the mean along its row."""


def kalman(bank: Bank, which: int) -> Exact:
    """The exact answer for one of the systems, by Kalman's filter."""
    events = np.union1d(np.union1d(bank.times, bank.seen_at), [time for time, _, _ in bank.jumps])
    mean, covariance = bank.mean[which], bank.covariance[which]
    row = bank.row[which]
    found = {name: [] for name in Exact.__dataclass_fields__}
    now = bank.times[0]
    for time in events:
        if time > now:
            move, shift, added = transition(
                bank.drift[which], bank.shift[which], bank.noise, time - now
            )
            mean, covariance = move @ mean + shift, move @ covariance @ move.T + added
            now = time
        for at, change, added in bank.jumps:
            if at == time:
                mean, covariance = mean + change, covariance + added
        for k in np.flatnonzero(bank.seen_at == time):
            found["ahead_mean"].append(mean)
            found["ahead_covariance"].append(covariance)
            along = row @ covariance @ row
            spread = along + bank.variance[k, which]
            away = bank.value[k, which] - row @ mean
            found["log_evidence"].append(-0.5 * (away**2 / spread + np.log(2 * np.pi * spread)))
            found["surprise"].append(away / np.sqrt(spread))
            found["pull"].append(away * np.sqrt(along) / spread)
            gain = covariance @ row / spread
            mean = mean + gain * away
            covariance = covariance - np.outer(gain, gain) * spread
        if time in bank.times:
            found["mean"].append(mean)
            found["covariance"].append(covariance)
    return Exact(**{name: np.array(value) for name, value in found.items()})


def random_bank(
    rng: np.random.Generator, size: int, count: int, noise: str, tail: bool, jump_count: int = 0
) -> Bank:
    """Systems that neither stretch nor squeeze a density very far.

    `noise` is "none", "diagonal" or "matrix"; with `tail` half of the measurements lie three to
    seven deviations away.
    """
    drift = rng.normal(0, 0.5, (count, size, size)) - 0.2 * np.eye(size)
    deviation = rng.uniform(0.5, 2.0, size)
    mix = np.eye(size) + 0.3 * rng.normal(0, 1, (count, size, size)) / np.sqrt(size)
    covariance = mix @ np.swapaxes(mix, 1, 2)
    scale = deviation / np.sqrt(np.einsum("kii->ki", covariance))
    covariance = covariance * scale[:, :, None] * scale[:, None, :]
    # In units of the deviations, so that no direction is squeezed much more than others.
    drift = drift * deviation[:, None] / deviation
    row = rng.normal(0, 1, (count, size)) / deviation
    added = np.zeros((size, size))
    if noise == "diagonal":
        added = np.diag(deviation**2 * rng.uniform(0.1, 0.6, size))
    elif noise == "matrix":
        root = deviation[:, None] * rng.normal(0, 0.4, (size, size))
        added = root @ root.T + 0.05 * np.diag(deviation**2)
    start = rng.uniform(-1, 1)
    times = start + np.concatenate([[0.0], np.cumsum(rng.uniform(0.15, 0.5, 3))])
    seen_at = np.sort(rng.choice(times, rng.integers(1, 3)))  # two may have one time
    bank = Bank(
        drift, rng.normal(0, 1, (count, size)) * deviation, row, added,
        deviation * rng.normal(0, 4, (count, size)), covariance, times, seen_at,
        np.zeros((seen_at.size, count)), np.zeros((seen_at.size, count)),
    )  # fmt: skip
    for _ in range(jump_count):  # of any rank, at a time of the run or between two of them
        root = deviation[:, None] * rng.normal(0, 0.5, (size, rng.integers(1, size + 1)))
        at = rng.choice(times) if rng.random() < 0.5 else rng.uniform(times[0], times[-1])
        bank.jumps.append((float(at), deviation * rng.normal(0, 3, size), root @ root.T))
    # Values are drawn one measurement after the other, each from what is expected by then.
    for k in range(seen_at.size):
        for which in range(count):
            bank.variance[k, which] = 1.0
            ahead = kalman(bank, which)
            along = row[which] @ ahead.ahead_covariance[k] @ row[which]
            variance = along * rng.uniform(0.15, 2.0)
            is_far = tail and rng.random() < 0.5
            away = rng.choice([-1, 1]) * rng.uniform(3, 7) if is_far else rng.normal()
            bank.variance[k, which] = variance
            bank.value[k, which] = row[which] @ ahead.ahead_mean[k] + away * np.sqrt(
                along + variance
            )
    return bank


def deviation_in_cells(covariance, width, axes):
    """Least deviation of a Gaussian in any direction, in widths of cells."""
    scaled = axes.T @ covariance @ axes / np.outer(width, width)
    return float(np.sqrt(np.linalg.eigvalsh(scaled)[0]))


def apart(mean, covariance, exact_mean, exact_covariance):
    """Errors of a mean, in deviations, and of a covariance, relative, in the worst direction."""
    if not np.isfinite(covariance).all():
        return np.inf, np.inf
    scales, axes = np.linalg.eigh(exact_covariance)
    root = axes / np.sqrt(scales) @ axes.T
    away = np.linalg.norm(root @ (mean - exact_mean))
    return away, np.abs(np.linalg.eigvalsh(root @ covariance @ root) - 1).max()
