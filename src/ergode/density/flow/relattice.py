"""A new lattice of the prior where measurements have left few of its points.

All measurements so far are functions of the first state, and the density of the prior is known
everywhere: so the new lattice lies in the first states, in the frame of the posterior there, and
its points are carried through all measurements again. If hardly any point has weight, the
likelihood is first taken to a power below one (tempering), and the lattice follows it.
"""

from __future__ import annotations

import numpy as np

from ergode.density.flow.points import Start, in_frame
from ergode.models.estimation.covariances import root_of

FEW = 0.3
"""Effective number of points below which a lattice is replaced, relative to the ideal one."""

EDGE = 1e-3
"""Fraction of the weight at the edge of a lattice above which it is replaced."""

ROUNDS = 20
"""Largest number of lattices in a row."""

_ENOUGH = 0.1  # effective number of points of a tempered density, relative to the ideal one


def next_start(start: Start, log_weights: np.ndarray, cut: float) -> Start | None:
    """A lattice that follows the posterior; None if no point has weight.

    `log_weights` [point] are those after all measurements so far.
    """
    known = np.isfinite(log_weights)
    if known.sum() < 2:
        return None
    base, gain = start.log_weights[known], (log_weights - start.log_weights)[known]
    points = start.points[known]
    power = _power(base, gain, _ENOUGH * start.ideal)
    weight = np.exp(base + power * gain - (base + power * gain).max())
    weight /= weight.sum()
    mean = weight @ points
    away = points - mean
    covariance = (away * weight[:, None]).T @ away
    if not (np.diag(covariance) > 0).all():
        return None
    root = root_of(covariance)
    if not np.isfinite(np.linalg.slogdet(root)[1]):
        return None
    return in_frame(start.prior, mean, root, start.spacing, cut, start.log_scale)


def _power(base: np.ndarray, gain: np.ndarray, wanted: float) -> float:
    """The largest power up to one that leaves an effective number of points."""

    def effective(power: float) -> float:
        log = base + power * gain
        weight = np.exp(log - log.max())
        return float(weight.sum() ** 2 / (weight @ weight))

    if effective(1.0) >= wanted:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high) if low > 0 else high / 16
        if effective(middle) >= wanted:
            low = middle
        else:
            high = middle
        if low > 0 and high < 1.1 * low:
            break
    return low
