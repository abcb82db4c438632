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
(`shift_of_split`, `shift_of_corner_transport`; the factors were measured on linear systems).  Each
step adds to the error of split transport, most where the density was thin: a density that has grown
since was smeared more than its present width tells (`Journey`).

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


class Journey:
    """Steps that a density has taken, and its covariance before and after them.

    Parameters
    ----------
    lattice : Lattice
    """

    def __init__(self, lattice: Lattice) -> None:
        self._turn = lattice.axes / lattice.width
        self._taken = 0
        self._last: np.ndarray | None = None
        self._steps: list[float] = []  # fewer count where a measurement has sharpened the density
        self._ends: list[tuple[np.ndarray, np.ndarray]] = []

    def move(self, steps: int, covariance: np.ndarray) -> None:
        """Note the density as it is by now, after this many steps in all."""
        if steps > self._taken and self._last is not None:
            self._steps.append(float(steps - self._taken))
            self._ends.append((self._last, covariance))
        self._taken, self._last = steps, covariance

    def correct(self, ratio: float, covariance: np.ndarray) -> None:
        """Note a measurement, and what it left.

        A deviation is shorter by `ratio` along one direction: by its root in n dimensions, on
        average.  The error of fourth order of the steps before falls by the fourth power of that.
        """
        self._last = covariance
        kept = min(ratio, 1.0) ** (4.0 / len(covariance))
        self._steps = [kept * one for one in self._steps]
        while self._steps and self._steps[0] < _FORGOTTEN:
            del self._steps[0], self._ends[0]

    @property
    def has_begun(self) -> bool:
        """Whether there was a step."""
        return self._taken > 0

    def smeared(self, slope: np.ndarray) -> float:
        """Sum over all steps of the fourth power of the slope that the density then had.

        `slope` [dimension] is that of the distance from the mean, from cell to cell, by now.  What
        it was is not known but for two guesses, of which this takes the geometric mean: that of a
        density that has grown in all directions alike, and the steepest of all directions.
        """
        if not self._steps:
            return 0.0
        assert self._last is not None
        seen = self._turn.T @ np.array([*self._ends, (self._last, self._last)]) @ self._turn
        seen += np.eye(slope.size) / 12.0  # none is thinner than a cell
        size = np.linalg.slogdet(seen)[1]  # [interval, end]
        alike = (slope**4).sum() * np.exp(2.0 / slope.size * (size[-1, 0] - size))
        steepest = np.square(np.diagonal(np.linalg.inv(seen), axis1=-2, axis2=-1)).sum(axis=-1)
        found = np.sqrt(alike * steepest)[:-1].mean(axis=1)
        return float(np.dot(self._steps, found))


_FORGOTTEN = 1e-3  # steps


def shift_of_split(pull: Pull, journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because split transport smeared the tail.

    A step that moves mass by the part c of a cell adds to a density p the fourth derivative of p
    times c (1 - c) (2 - c) (1 + c) / 24, in cells, which is 0.023 at most.
    """
    z = pull.distance
    if z * z <= 3.0:
        return 0.0
    return float(0.08 * (z**3 - 3 * z) * journey.smeared(pull.slope) * pull.ratio)


def shift_of_corner_transport(pull: Pull, journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because corner transport smeared the tail."""
    if not journey.has_begun:
        return 0.0
    z, slope = pull.distance, np.abs(pull.slope)
    return float(2.0 * z * (slope**2).sum() * pull.ratio)
