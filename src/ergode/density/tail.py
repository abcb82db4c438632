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

Transport also smears the tail more than the middle.  A step multiplies a tail that falls by the
factor exp(g) from cell to cell by exp(g c + d(g)), where c is how far it should have moved and d is
the error of the scheme.  The tail so is displaced by the derivative of d, in cells, for each step
(`Pull.displaced`).  The posterior feels this in all directions: a density that lies obliquely is
thin across the direction of the measurement, and there a cell is much.  For split transport d is of
fourth order, for corner transport of third; what leaves mean and covariance of a Gaussian unchanged
(Hermite polynomials) does not count.  The factors were measured on linear systems.  Each step adds
to the error, most where the density was thin: a density that has grown since was smeared more than
its present width tells (`Journey`).

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
    """Effect of a measurement on a density, along the direction in which it moved the mean.

    Attributes
    ----------
    distance : float
        By which it moved, in deviations of the density before.
    ratio : float
        Deviation that it left, in that of the density before.
    slope : ndarray, shape [dimension]
        Change of the distance from the mean, in deviations, from a cell to the next of each axis.
    inverse : ndarray, shape [dimension, dimension]
        Inverse of the covariance before, in cells.
    effect : ndarray, shape [dimension, dimension]
        Quadratic form of a displacement before, in cells: the square of the posterior's shift, in
        its deviations.
    """

    distance: float
    ratio: float
    slope: np.ndarray
    inverse: np.ndarray
    effect: np.ndarray

    def displaced(self, cells: np.ndarray) -> float:
        """Shift of the posterior, in its deviations, of a tail displaced by `cells` [dimension]."""
        return float(np.sqrt(max(cells @ self.effect @ cells, 0.0)))

    @property
    def thinnest(self) -> float:
        """Shift of the posterior of a tail displaced by one cell in the worst direction."""
        return float(np.sqrt(max(np.linalg.eigvalsh(self.effect)[-1], 0.0)))


def pull_of(before: Summary, after: Summary, lattice: Lattice) -> Pull:
    """Effect of a measurement, from the density before and after it."""
    way = after.mean - before.mean
    turn = lattice.axes * lattice.width
    inverse = np.linalg.pinv(before.covariance, hermitian=True)
    effect = turn.T @ inverse @ after.covariance @ inverse @ turn
    in_cells = turn.T @ inverse @ turn
    across = inverse @ way
    distance = float(np.sqrt(max(way @ across, 0.0)))
    if not distance > 0:
        return Pull(0.0, 1.0, np.zeros(way.size), in_cells, effect)
    across = across / distance
    ratio = float(np.sqrt(max(across @ after.covariance @ across, 1e-12)))
    return Pull(distance, ratio, turn.T @ across, in_cells, effect)


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
        """Record a measurement and the posterior.

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

    def grown(self, order: int) -> float:
        """Steps, each with the power `order` of what the density has grown by since.

        It is taken to have grown in all directions alike.
        """
        if not self._steps:
            return 0.0
        size = np.linalg.slogdet(self._seen())[1]  # [interval, end]
        by = np.exp(order / (2.0 * self._turn.shape[1]) * (size[-1, 0] - size))
        return float(np.dot(self._steps, by[:-1].mean(axis=1)))

    def smeared(self, slope: np.ndarray) -> float:
        """Sum over all steps of the fourth power of the slope that the density then had.

        `slope` [dimension] is that of the distance from the mean, from cell to cell, by now.  What
        it was is not known but for two guesses, of which this takes the geometric mean: that of a
        density that has grown in all directions alike, and the steepest of all directions.
        """
        if not self._steps:
            return 0.0
        seen = self._seen()
        size = np.linalg.slogdet(seen)[1]  # [interval, end]
        alike = (slope**4).sum() * np.exp(2.0 / slope.size * (size[-1, 0] - size))
        steepest = np.square(np.diagonal(np.linalg.inv(seen), axis1=-2, axis2=-1)).sum(axis=-1)
        found = np.sqrt(alike * steepest)[:-1].mean(axis=1)
        return float(np.dot(self._steps, found))

    def _seen(self) -> np.ndarray:
        """Covariances in cells, at both ends of each interval, and last the present one, twice."""
        assert self._last is not None
        seen = self._turn.T @ np.array([*self._ends, (self._last, self._last)]) @ self._turn
        return np.asarray(seen + np.eye(self._turn.shape[1]) / 12.0)  # none is thinner than a cell


_FORGOTTEN = 1e-3  # steps


def shift_of_split(pull: Pull, journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because split transport smeared the tail.

    A step that moves mass by the part c of a cell adds to a density p the fourth derivative of p
    times c (1 - c) (2 - c) (1 + c) / 24, in cells, which is 0.023 at most.  This is the larger of
    what it does along the direction of the measurement, where `smeared` knows more of the past, and
    of what it does in all directions.
    """
    z, slope = pull.distance, pull.slope
    if z * z <= 3.0:  # hardly in the tail
        return 0.0
    along = (z**3 - 3 * z) * journey.smeared(slope) * pull.ratio
    tail = z * slope
    cells = journey.grown(4) * (tail**3 - 3 * tail * np.diag(pull.inverse))
    return float(0.08 * max(along, pull.displaced(cells)))


def shift_of_corner_transport(pull: Pull, journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because corner transport smeared the tail.

    The first term is of the field's change within a step, and of the box that is the prior.  The
    second is of each step: its error is of third order and has parts across the axes, so that it
    may have any direction.
    """
    if not journey.has_begun:
        return 0.0
    z, slope = pull.distance, (pull.slope**2).sum()
    cells = _CORNER * journey.grown(3) * max(z * z - 1.0, 0.0) * slope
    return float(2.0 * z * slope * pull.ratio + cells * pull.thinnest)


_CORNER = 0.06
