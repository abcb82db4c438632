"""Tolerances of trajectories that are small beside the deviations of a density, in any units."""

from __future__ import annotations

import numpy as np

from ergode.core.arguments import number

_FINE = 1e-3  # errors, in units of a deviation
_LEAST = 1e-12


def rtol_of(asked: float | None, mean: np.ndarray, covariance: np.ndarray, usual: float) -> float:
    """The relative tolerance; the default is the usual one, or less if a density is narrow.

    `mean` has the shape [..., variable], `covariance` [..., variable, variable]. Raises a PlanError
    if `asked` is not a positive number.
    """
    if asked is not None:
        return number("rtol", asked, above=0)
    away, deviation = np.abs(mean), _deviation(covariance)
    both = (away > 0) & (deviation > 0)
    narrow = float((deviation[both] / away[both]).min(initial=np.inf))
    return float(np.clip(_FINE * narrow, _LEAST, usual))


def atol_of(rtol: float, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Absolute tolerance of each variable."""
    away, deviation = np.abs(mean), _deviation(covariance)
    scale = np.where(deviation > 0, deviation, np.where(away > 0, away, 1.0))
    return np.asarray(np.maximum(_FINE * rtol * scale, np.finfo(np.float64).tiny))


def _deviation(covariance: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)))
