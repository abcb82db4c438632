"""Gaussians updated by measurements that are linear in them."""

from __future__ import annotations

import math

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
    white, seen, sizes, along = _whitened(slopes, noise, away)
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


def _whitened(
    slopes: np.ndarray, noise: np.ndarray, away: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Root of the noise, whitened values, and sizes and directions of whitened slopes."""
    white = np.linalg.cholesky(noise)
    turn, sizes, along = np.linalg.svd(np.linalg.solve(white, np.swapaxes(slopes, 1, 2)))
    return white, np.linalg.solve(white @ turn, away[..., None])[..., 0], sizes, along


def updated_by_student(
    slopes: np.ndarray, noise: np.ndarray, away: np.ndarray, freedom: float, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `updated`, for noise of Student's distribution: evidences, means of u, and roots.

    Such noise is Gaussian of the covariance ``noise / r``, with r of a gamma distribution. Given r
    the update is exact; integrals over log r are sums with even steps, which converge faster than
    any power of the step. `missing` [filter] is the number of components that were not measured.
    """
    white, seen, sizes, along = _whitened(slopes, noise, away)
    (count, components), size = away.shape, slopes.shape[1]
    gains = np.zeros((count, max(components, size)))
    gains[:, : sizes.shape[1]] = sizes**2
    log_r, share = _mixed(freedom, components, seen, gains[:, :components])
    evidence, shift = np.empty(count), np.zeros((count, size))
    covariance = np.zeros((count, size, size))
    diagonal = np.arange(size)
    each = max(1, _AT_ONCE // log_r.size)
    for some in (slice(first, first + each) for first in range(0, count, each)):
        log = share + 0.5 * (components - missing[some, None]) * log_r
        means = np.zeros((size, len(log), log_r.size))
        for a in range(max(components, size)):
            # r / (1 + r s^2), without an overflow.
            gain = gains[some, a, None]
            grown = np.logaddexp(0.0, log_r + np.log(np.maximum(gain, 1e-300)))
            if a < components:
                kept = np.exp(log_r - grown)
                log = log - 0.5 * (seen[some, a, None] ** 2 * kept + grown)
                if a < size:
                    means[a] = np.sqrt(gain) * seen[some, a, None] * kept
        top = log.max(axis=1, keepdims=True)
        weight = np.exp(log - top)
        total = weight.sum(axis=1, keepdims=True)
        weight /= total
        evidence[some] = (top + np.log(total))[:, 0]
        middle = np.einsum("ir,air->ia", weight, means)
        means -= middle.T[:, :, None]
        own = np.einsum("ir,air,bir->iab", weight, means, means, optimize=True)
        for a in range(size):
            grown = np.logaddexp(0.0, log_r + np.log(np.maximum(gains[some, a, None], 1e-300)))
            own[:, a, a] += np.einsum("ir,ir->i", weight, np.exp(-grown))
        shift[some], covariance[some] = middle, own
    evidence -= np.log(np.einsum("kaa->ka", white)).sum(axis=1)
    evidence -= 0.5 * components * np.log(2.0 * np.pi)
    scale = np.sqrt(covariance[:, diagonal, diagonal])
    root = np.linalg.cholesky(covariance / (scale[:, :, None] * scale[:, None]))
    turned = np.swapaxes(along, 1, 2)
    return evidence, (turned @ shift[..., None])[..., 0], turned @ (scale[:, :, None] * root)


_AT_ONCE = 1 << 20  # numbers of an array


def _mixed(
    freedom: float, components: int, seen: np.ndarray, gains: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of r with even steps, and of the share of each, of a gamma distribution.

    They reach to where values as far as `seen` make r likely.
    """
    half = 0.5 * freedom
    far = float((seen**2 / (1.0 + gains)).sum(axis=1).max(initial=0.0))
    reach = math.sqrt(32.0 / half)
    least, most = -math.log1p(far / freedom) - reach - 16.0 / half, math.log1p(reach + 16.0 / half)
    step = min(0.5, 1.0 / math.sqrt(half + 0.5 * components))
    log_r = np.linspace(least, most, int(min(math.ceil((most - least) / step), _STEPS_MOST)) + 1)
    share = half * (log_r - np.expm1(log_r))
    share -= share.max()
    return log_r, share - np.log(np.exp(share).sum())


_STEPS_MOST = 20_000


def short_way(angle: np.ndarray) -> np.ndarray:
    """An angle between -pi and pi [rad]."""
    return angle - 2 * np.pi * np.floor(angle / (2 * np.pi) + 0.5)
