"""Whether a posterior in the tail of its prior can be trusted.

A threshold cuts the tail of a density.  After a measurement in that tail, the cut part would belong
to the posterior; it is missing from mean, covariance and evidence.  The missing probability is the
sum of two estimates:

- What the grid shows: the probability in cells that were below the threshold before the
  measurement, and the probability beyond the edge of the grid, extrapolated from how the density
  falls towards the edge (`summary.beyond_cell`).
- What was cut earlier, where transport has smeared the edge since.  A Gaussian that lost the
  probability m has its edge at the quantile of 1 - m.  A measurement moves the mean by z deviations
  and leaves r of a deviation along this direction.  The probability beyond the edge then is that of
  a normal variable above (quantile - z) / r.

Transport also smears the tail more than the middle.  Let the leading error of a scheme be a
derivative of order m of the density.  The relative error of a Gaussian, z deviations from its mean,
then is a Hermite polynomial of z times the m-th power of the width.  Its slope shifts the posterior
(`shift_of_split`, `shift_of_corner_transport`; the factors were measured on linear systems).

These estimates say whether a posterior can be trusted.  They do not correct it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.density.grid.lattice import Lattice
from ergode.density.moments import Summary

CUT_MOST = 0.005
"""Missing probability of a posterior that moves its mean by about a hundredth of a deviation."""

SHIFT_MOST = 0.1
"""Shift of a posterior, in its deviations, up to which it is to be trusted."""


class Pull(NamedTuple):
    """What a measurement did to a density, along the direction in which it moved the mean.

    Attributes
    ----------
    distance : float
        By which it moved, in deviations of the density before.
    ratio : float
        Deviation that it left, in that of the density before.
    slope : ndarray, shape [dimension]
        Change of the distance from the mean, in deviations, from a cell to the next of each axis.
    """

    distance: float
    ratio: float
    slope: np.ndarray


def pull_of(before: Summary, after: Summary, lattice: Lattice) -> Pull:
    """What a measurement did, from the density before and after it."""
    way = after.mean - before.mean
    across = np.linalg.pinv(before.covariance, hermitian=True) @ way
    distance = float(np.sqrt(max(way @ across, 0.0)))
    if not distance > 0:
        return Pull(0.0, 1.0, np.zeros(way.size))
    across = across / distance
    ratio = float(np.sqrt(max(across @ after.covariance @ across, 1e-12)))
    return Pull(distance, ratio, (lattice.axes.T @ across) * lattice.width)


def pulled_over(cut: float, pull: Pull) -> float:
    """Part of a posterior that lies beyond an edge which cut some of its prior.

    Parameters
    ----------
    cut : float
        Probability of the prior that had been cut.
    pull : Pull
    """
    if cut <= 0 or pull.distance == 0:
        return 0.0
    from scipy.special import ndtr, ndtri  # they take a tenth of a second to import

    edge = float(-ndtri(min(cut, 0.5)))
    return float(ndtr((pull.distance - edge) / pull.ratio))


def shift_of_split(pull: Pull) -> float:
    """Shift of a posterior's mean, in its deviations, because split transport smeared the tail."""
    z, slope = pull.distance, np.abs(pull.slope)
    return float(0.8 * max(z**3 - 3 * z, 0.0) * (slope**3).sum() * pull.ratio)


def shift_of_corner_transport(pull: Pull) -> float:
    """Shift of a posterior's mean, in its deviations, because corner transport smeared the tail."""
    z, slope = pull.distance, np.abs(pull.slope)
    return float(2.0 * z * (slope**2).sum() * pull.ratio)
