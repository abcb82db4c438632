"""Correlations of the Wiener processes of a stochastic equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.errors import ModelError

Rows = tuple[tuple[float, ...], ...]
_ROUNDING = 1e-10


def correlation_of(value: Any, size: int) -> Rows | None:
    """Correlations of `size` processes as rows; None if the processes are independent.

    Raises a ModelError if it is no correlation matrix.
    """
    try:
        matrix = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"correlation is {value!r}; expected a matrix of numbers") from None
    if matrix.shape != (size, size):
        raise ModelError(f"correlation has shape {matrix.shape}; expected ({size}, {size})")
    if not (np.abs(matrix) <= 1.0 + _ROUNDING).all():
        raise ModelError("correlation has elements outside of -1 to 1, or not finite")
    if np.abs(matrix - matrix.T).max() > _ROUNDING:
        raise ModelError("correlation is not symmetric")
    if np.abs(np.diag(matrix) - 1.0).max() > _ROUNDING:
        raise ModelError(f"correlation has the diagonal {np.diag(matrix)}; expected ones")
    if np.linalg.eigvalsh(matrix)[0] < -_ROUNDING * size:
        raise ModelError("correlation is not positive semi-definite")
    if (matrix == np.eye(size)).all():
        return None
    return tuple(map(tuple, matrix.tolist()))


def mixture_of(correlation: Rows) -> Rows:
    """Lower triangular weights of independent processes: ``weights @ weights.T = correlation``."""
    matrix = np.array(correlation)
    weights = np.zeros_like(matrix)
    for j in range(len(matrix)):
        rest = matrix[j:, j] - weights[j:, :j] @ weights[j, :j]
        if rest[0] > _ROUNDING:  # otherwise the process is a mixture of those before
            weights[j:, j] = rest / np.sqrt(rest[0])
    return tuple(map(tuple, weights.tolist()))
