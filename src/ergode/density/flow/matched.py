"""Gaussian cells weighed by any likelihood: each keeps the moments of its product with it.

A cell is N(m, S S^T), with states m + S z. Gauss and Hermite's points of a normal distribution
N(b, A A^T) of z, at first that of the cell, tell the mass, mean and covariance of the product. The
next distribution has these moments, or those of a power of the product where few points count, so
that it comes to a likelihood that is thinner than the cell, or far from it. The result is exact for
a likelihood that is Gaussian in the state.

Q. Liu, D. A. Pierce, "A note on Gauss-Hermite quadrature", Biometrika 81 (1994).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

Likelihood = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of the numbers of some cells, and states [cell, node, variable]: log-likelihoods [cell, node]."""

_NODES = {1: 15, 2: 9, 3: 5, 4: 4}  # along each axis, by the number of variables; 3 for more
_AT_ONCE = 1 << 19  # states
_FEWEST = 0.5  # effective number of points, of those of a normal distribution
_HALVINGS = 40
_ROUNDS = 60
_LEAST = 0.1  # of the variance of the last distribution
_MOVED = 0.02  # change of moments, in deviations, below which the points stay


def matched(
    log_likelihood: Likelihood, mean: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log evidences [cell], means of z [cell, variable], and roots of its covariances.

    Of cells with `mean` [cell, variable] and `root` [cell, variable, column]. Where the likelihood
    is zero at all points, the log evidence is minus infinity.
    """
    count, size = mean.shape
    evidence, shift = np.empty(count), np.empty((count, size))
    left = np.empty((count, size, size))
    each = max(1, _AT_ONCE // len(_nodes(size)[0]))
    for first in range(0, count, each):
        some = np.arange(first, min(first + each, count))
        evidence[some], shift[some], left[some] = _of_some(log_likelihood, some, mean, root)
    return evidence, shift, left


def _of_some(
    log_likelihood: Likelihood, some: np.ndarray, mean: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = mean.shape[1]
    nodes, weights = _nodes(size)
    half_squares = 0.5 * np.square(nodes).sum(axis=1)
    fewest = _FEWEST / float(weights @ weights)
    evidence, shift = np.full(len(some), -np.inf), np.zeros((len(some), size))
    covariance = np.broadcast_to(np.eye(size), (len(some), size, size)).copy()
    middle, wide = shift.copy(), covariance.copy()  # b and A
    going = np.arange(len(some))
    for _ in range(_ROUNDS):
        b, a = middle[going], wide[going]
        z = b[:, None] + nodes @ np.swapaxes(a, 1, 2)
        own = some[going]
        log = log_likelihood(own, mean[own, None] + z @ np.swapaxes(root[own], 1, 2))
        log = log - 0.5 * np.square(z).sum(axis=2) + half_squares
        log += np.linalg.slogdet(a)[1][:, None]
        top = log.max(axis=1)
        there = np.isfinite(top)
        if not there.all():
            going, b, a, log, top = (x[there] for x in (going, b, a, log, top))
        log -= top[:, None]
        total, own, spread = _moments(log, nodes, weights)
        evidence[going] = top + np.log(total)
        shift[going] = b + (a @ own[..., None])[..., 0]
        covariance[going] = a @ spread @ np.swapaxes(a, 1, 2)
        moved = np.maximum(np.abs(own).max(axis=1), np.abs(spread - np.eye(size)).max(axis=(1, 2)))
        # Where few points count, the next distribution has the moments of a power of the product.
        # It is wider the way that it goes, which may be long.
        few = np.arange(len(going))
        is_far = np.zeros(len(going), bool)
        for _ in range(_HALVINGS):
            share = np.exp(log[few]) * weights
            few = few[share.sum(axis=1) ** 2 < fewest * np.square(share).sum(axis=1)]
            if not few.size:
                break
            is_far[few] = True
            log[few] *= 0.5
            _, own[few], spread[few] = _moments(log[few], nodes, weights)
        spread[is_far] += own[is_far, :, None] * own[is_far, None]
        values, vectors = np.linalg.eigh(spread)
        middle[going] = b + (a @ own[..., None])[..., 0]
        wide[going] = a @ (vectors * np.sqrt(np.maximum(values, _LEAST))[:, None])
        going = going[moved > _MOVED]
        if not going.size:
            break
    least = 1e-12 * np.eye(size)
    return evidence, shift, np.linalg.cholesky(covariance + least)


@lru_cache(maxsize=8)
def _nodes(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the normal distribution [node, variable], and their weights [node]."""
    x, w = np.polynomial.hermite_e.hermegauss(_NODES.get(size, 3))
    grid, shares = (
        np.stack(np.meshgrid(*[each] * size, indexing="ij"), -1).reshape(-1, size)
        for each in (x, w / w.sum())
    )
    return grid, np.prod(shares, axis=1)


def _moments(
    log: np.ndarray, nodes: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass, mean and covariance of points with `weights` and factors, by their logarithms."""
    share = np.exp(log) * weights
    total = share.sum(axis=1)
    share /= total[:, None]
    mean = share @ nodes
    pairs = (nodes[:, :, None] * nodes[:, None]).reshape(len(nodes), -1)
    second = (share @ pairs).reshape(len(log), *2 * nodes.shape[1:])
    return total, mean, second - mean[:, :, None] * mean[:, None]
