"""Gaussians updated by measurements that are linear in them."""

from __future__ import annotations

import numpy as np


def updated(
    slopes: np.ndarray, noise: np.ndarray, away: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The update of u, standard normal, by measurements ``away = slopes^T u + noise``.

    `slopes` are [filter, variable, component]. Returns the squares of the normalised innovations,
    the log evidences, the means of u and roots of its covariances. Singular values s of whitened
    slopes leave the variances 1 / (1 + s^2). No large variance is subtracted from another, so that
    a prior may be wider than the noise by any factor.
    """
    white = np.linalg.cholesky(noise)
    turn, sizes, along = np.linalg.svd(np.linalg.solve(white, np.swapaxes(slopes, 1, 2)))
    seen = np.linalg.solve(white @ turn, away[..., None])[..., 0]
    count, size, both = away.shape[1], slopes.shape[1], sizes.shape[1]
    gains = np.zeros((len(away), max(count, size)))
    gains[:, :both] = sizes
    square = (seen**2 / (1.0 + gains[:, :count] ** 2)).sum(axis=1)
    diagonal = np.einsum("kaa->ka", white)
    volume = 2.0 * np.log(diagonal).sum(axis=1) + np.log1p(sizes**2).sum(axis=1)
    shift = sizes / (1.0 + sizes**2) * seen[:, :both]
    return (
        square, -0.5 * (square + volume + count * np.log(2.0 * np.pi)),
        np.einsum("kij,ki->kj", along[:, :both], shift),
        np.swapaxes(along, 1, 2) / np.sqrt(1.0 + gains[:, None, :size] ** 2),
    )  # fmt: skip


def short_way(angle: np.ndarray) -> np.ndarray:
    """An angle between -pi and pi [rad]."""
    return angle - 2 * np.pi * np.floor(angle / (2 * np.pi) + 0.5)
