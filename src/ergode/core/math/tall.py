"""Products of tall, narrow arrays, in pieces for which a library starts no threads.

To wake threads takes longer than such a product, above all where other work is on the cores.
"""

from __future__ import annotations

import numpy as np

_PIECE = 8192  # rows


def turned(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The product of `x` [point, axis] and a small matrix."""
    out = np.empty((len(x), matrix.shape[1]))
    for first in range(0, len(x), _PIECE):
        np.matmul(x[first : first + _PIECE], matrix, out=out[first : first + _PIECE])
    return out


def spread(weight: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of `x` [point, axis], differences from it, and covariance; weights add up to one."""
    mean = np.einsum("p,pk->k", weight, x)
    away = x - mean
    covariance = np.zeros((mean.size, mean.size))
    for first in range(0, len(x), _PIECE):
        some = away[first : first + _PIECE]
        covariance += (some * weight[first : first + _PIECE, None]).T @ some
    return mean, away, covariance


def quadratic(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """For each point of `x` [point, axis] its product with a matrix and with itself."""
    out = np.empty(len(x))
    for first in range(0, len(x), _PIECE):
        some = x[first : first + _PIECE]
        np.einsum("pk,pk->p", some @ matrix, some, out=out[first : first + _PIECE])
    return out


def squares(x: np.ndarray) -> float:
    """Sum of the squares of `x` [point]."""
    return float(np.einsum("p,p->", x, x))
