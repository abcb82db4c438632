"""Covariances of variables whose units may differ by any factor.

Checks and roots are those of the matrix of correlations. The eigenvalues of the covariance itself
are no help: beside a variance of 1e14 m^2, rounding hides a variance of 1e-18 (m/s^2)^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers
from ergode.core.errors import ModelError

_ROUNDING = 1e-10
_TINY = 1e-150  # replaces a deviation of zero as a divisor
_NOTHING = 1e-14  # of an eigenvalue below, rounding leaves no more than one digit


def covariance_of(
    value: Any, size: int, what: str = "covariance", *, may_be_singular: bool = False
) -> np.ndarray:
    """A symmetric positive definite matrix, from a matrix or from variances.

    If it `may_be_singular`, positive semi-definite.

    Raises a ModelError if it is not.
    """
    if (matrix := as_numbers(value)) is None:
        raise ModelError(f"{what} is {value!r}; expected real numbers")
    if matrix.ndim == 0:
        matrix = matrix[None]
    if matrix.ndim == 1:
        matrix = np.diag(matrix)
    if matrix.shape != (size, size):
        raise ModelError(
            f"{what} has shape {np.shape(value)}; expected {size} variances, or a matrix of shape "
            f"({size}, {size})"
        )
    if not np.isfinite(matrix).all():
        raise ModelError(f"{what} has values that are not finite numbers")
    deviations = np.sqrt(np.abs(np.diag(matrix)))
    if (np.abs(matrix - matrix.T) > _ROUNDING * np.outer(deviations, deviations)).any():
        raise ModelError(f"{what} is not symmetric")
    least = float(_least_eigenvalue(matrix))
    if least < -_ROUNDING if may_be_singular else least <= 0:
        kind = "semi-definite" if may_be_singular else "definite"
        raise ModelError(
            f"{what} is not positive {kind}: its smallest eigenvalue is {least:.3g}, in units of "
            "the variances"
        )
    return matrix


def are_definite(covariances: np.ndarray) -> np.ndarray:
    """Whether each covariance [..., variable, variable] is positive definite beyond rounding."""
    return np.asarray(_least_eigenvalue(covariances) > _NOTHING)


def root_of(covariance: np.ndarray) -> np.ndarray:
    """A matrix r with ``r @ r.T = covariance``, which may be singular."""
    deviations, correlations = _correlations(covariance)
    values, axes = np.linalg.eigh(correlations)
    return np.asarray(deviations[:, None] * axes * np.sqrt(np.maximum(values, 0.0)))


def _correlations(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Deviations, and correlations: a variance is 1, 0 or, if it is negative, -1."""
    deviations = np.sqrt(np.abs(np.diagonal(covariance, axis1=-2, axis2=-1)))
    scales = np.where(deviations > 0.0, deviations, _TINY)
    found = covariance / scales[..., None, :] / scales[..., :, None]
    # Above one, no correlation is valid; huge ones would overflow.
    return deviations, np.clip(found, -2.0, 2.0)


def _least_eigenvalue(covariance: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.eigvalsh(_correlations(covariance)[1])[..., 0])
