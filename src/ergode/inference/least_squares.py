"""Least squares from many starts at once, of a function without derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core.errors import ErgodeWarning
from ergode.core.math.searches import latest, search_together

# Half of the distance of central differences, as a share of that between the bounds. Residuals have
# an error of about 1e-8, and third derivatives of order one.
_STEP = 1e-4
_TOGETHER = 64  # searches

Answer = tuple[np.ndarray, np.ndarray]


def least_squares_together(
    residuals: Callable[[np.ndarray], np.ndarray],  # [point, residual] of places [point, quantity]
    places: np.ndarray,  # [start, quantity]: where the searches begin
    low: np.ndarray,
    high: np.ndarray,
    max_evaluations: int,
) -> list[Any]:
    """What SciPy's `least_squares` returns for each start; None where residuals are not finite."""
    from scipy.optimize import least_squares

    width = high - low
    count = places.shape[1]
    steps = _STEP * np.concatenate([np.zeros((1, count)), np.eye(count), -np.eye(count)])

    def evaluate(points: np.ndarray) -> list[Answer]:
        # At a bound the difference is one-sided.
        there = np.clip(points[:, None] + steps, 0.0, 1.0)
        with warnings.catch_warnings():
            # Of points on the way; no step is taken to one that fails.
            warnings.simplefilter("ignore", ErgodeWarning)
            found = residuals(low + there.reshape(-1, count) * width)
        found = found.reshape(*there.shape[:2], -1)
        forward, back = found[:, 1 : 1 + count], found[:, 1 + count :]
        apart = np.diagonal(there[:, 1 : 1 + count] - there[:, 1 + count :], axis1=1, axis2=2)
        with np.errstate(invalid="ignore"):
            slopes = (forward - back) / apart[..., None]
        slopes = np.where(np.isfinite(slopes), slopes, 0.0)
        return [(one[0], slope.T) for one, slope in zip(found, slopes, strict=True)]

    def search(place: np.ndarray, ask: Callable[[np.ndarray], Answer]) -> Any:
        asked = latest(ask)
        if not np.isfinite(asked(place)[0]).all():
            return None
        found = least_squares(
            lambda q: asked(q)[0], place, lambda q: asked(q)[1], (0.0, 1.0), "trf",
            x_scale="jac", max_nfev=max_evaluations, ftol=1e-10, xtol=1e-8, gtol=1e-8,
        )  # fmt: skip
        found.x = low + found.x * width
        return found

    unit = (places - low) / width
    return search_together(search, unit, evaluate, _TOGETHER)
