"""Reliability of a posterior that lies in the tail of its prior.

A threshold cuts the tail of a density.  After a measurement in that tail, the cut part would belong
to the posterior; it is missing from mean, covariance and evidence.  The missing probability is the
sum of two estimates:

- The visible part: the probability in cells that were below the threshold before the
  measurement, and the probability beyond the edge of the grid, extrapolated from the decay of the
  density towards the edge (`moments.beyond_cell`).
- The part that was cut earlier, if transport has smeared the edge since.  A Gaussian that lost the
  probability m has its edge at the quantile of 1 - m.  A measurement moves the mean by z deviations
  and reduces the deviation along this direction by the factor r.  Then the probability beyond the
  edge is that of a normal variable above (quantile - z) / r.

Transport also smears the tail more than the middle.  A step multiplies a tail that falls by the
factor exp(g) from cell to cell by exp(g c + d(g)), where c is the exact displacement and d is the
error of the scheme.  So each step displaces the tail by the derivative of d, in cells
(`Pull.displaced`).  This affects the posterior in all directions: an oblique density is thin across
the direction of the measurement, where a displacement of one cell is large.  d is of fourth order
for split transport, of third order for corner transport; terms that leave mean and covariance of a
Gaussian unchanged (Hermite polynomials) do not count.  The factors were measured on linear systems.
Each step adds to the error, most where the density was thin: a density that has grown since is
smeared more than its present width shows (`Journey`).

These estimates decide whether a posterior is reliable.  They do not correct it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.density.grid.lattice import Lattice
from ergode.density.moments import Summary

CUT_MOST = 0.005
"""Missing probability that shifts the posterior's mean by about 0.01 deviations."""

SHIFT_MOST = 0.1
"""Largest shift of a reliable posterior, in its deviations."""


class Pull(NamedTuple):
    """Effect of a measurement on a density, along the direction in which it moved the mean.

    Attributes
    ----------
    distance : float
        Shift of the mean, in deviations of the density before.
    ratio : float
        Deviation after the measurement, divided by the deviation before.
    slope : ndarray, shape [dimension]
        Change of the distance from the mean, in deviations, per cell along each axis.
    inverse : ndarray, shape [dimension, dimension]
        Inverse of the covariance before, in cells.
    effect : ndarray, shape [dimension, dimension]
        Quadratic form of a displacement of the density before, in cells: the square of the
        posterior's shift, in its deviations.
    """

    distance: float
    ratio: float
    slope: np.ndarray
    inverse: np.ndarray
    effect: np.ndarray

    def displaced(self, cells: np.ndarray) -> float:
        """Shift of the posterior, in its deviations, by a displacement of the tail [cells]."""
        return float(np.sqrt(max(cells @ self.effect @ cells, 0.0)))

    @property
    def thinnest(self) -> float:
        """Shift of the posterior if the tail is displaced by one cell in the worst direction."""
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
    """Fraction of a posterior beyond the edge where its prior was cut.

    Parameters
    ----------
    cut : float
        Probability cut from the prior.
    pull : Pull
    """
    if cut <= 0 or pull.distance == 0:
        return 0.0
    from scipy.special import ndtr, ndtri  # importing them takes 0.1 s

    edge = float(-ndtri(min(cut, 0.5)))
    return float(ndtr((pull.distance - edge) / pull.ratio))


class Journey:
    """Number of steps of a density, and its covariance before and after each interval of steps.

    Parameters
    ----------
    lattice : Lattice
    """

    def __init__(self, lattice: Lattice) -> None:
        self._turn = lattice.axes / lattice.width
        self._taken = 0
        self._last: np.ndarray | None = None
        self._steps: list[float] = []  # reduced where a measurement sharpened the density
        self._ends: list[tuple[np.ndarray, np.ndarray]] = []

    def move(self, steps: int, covariance: np.ndarray) -> None:
        """Record the present density, after this number of steps in total."""
        if steps > self._taken and self._last is not None:
            self._steps.append(float(steps - self._taken))
            self._ends.append((self._last, covariance))
        self._taken, self._last = steps, covariance

    def correct(self, ratio: float, covariance: np.ndarray) -> None:
        """Record a measurement and the posterior.

        The deviation shrinks by `ratio` along one direction; on average over n dimensions, by the
        n-th root of it.  The fourth-order error of earlier steps shrinks by the fourth power of
        that.
        """
        self._last = covariance
        kept = min(ratio, 1.0) ** (4.0 / len(covariance))
        self._steps = [kept * one for one in self._steps]
        while self._steps and self._steps[0] < _FORGOTTEN:
            del self._steps[0], self._ends[0]

    def widen(self, before: np.ndarray, after: np.ndarray) -> None:
        """Record a maneuver, which spreads the density and not the errors of earlier steps."""
        sizes = np.linalg.slogdet(np.stack([before, after]) @ self._turn @ self._turn.T)[1]
        self.correct(float(np.exp(0.5 * (sizes[0] - sizes[1]))), after)

    @property
    def has_begun(self) -> bool:
        """Whether any step was recorded."""
        return self._taken > 0

    def grown(self, order: int) -> float:
        """Sum over steps; each counts with the density's growth since, to the power `order`.

        The growth is assumed to be isotropic.
        """
        if not self._steps:
            return 0.0
        size = np.linalg.slogdet(self._seen())[1]  # [interval, end]
        by = np.exp(order / (2.0 * self._turn.shape[1]) * (size[-1, 0] - size))
        return float(np.dot(self._steps, by[:-1].mean(axis=1)))

    def smeared(self, slope: np.ndarray) -> float:
        """Sum over all steps of the fourth power of the slope at the time of the step.

        `slope` [dimension] is the present slope of the distance from the mean, per cell.  Past
        slopes are unknown.  The result is the geometric mean of two estimates: that of a density
        that has grown isotropically, and the steepest slope of all directions.
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
        """Covariances in cells at both ends of each interval; last the present one, twice."""
        assert self._last is not None
        seen = self._turn.T @ np.array([*self._ends, (self._last, self._last)]) @ self._turn
        # No density is thinner than a cell.
        return np.asarray(seen + np.eye(self._turn.shape[1]) / 12.0)


_FORGOTTEN = 1e-3  # steps


def shift_of_split(pull: Pull, journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because split transport smeared the tail.

    A step that moves mass by the fraction c of a cell adds to a density p the fourth derivative of
    p times c (1 - c) (2 - c) (1 + c) / 24, in cells; this factor is at most 0.023.  The result is
    the larger of two effects: along the direction of the measurement, where `smeared` uses more of
    the past, and in all directions.
    """
    z, slope = pull.distance, pull.slope
    if z * z <= 3.0:  # not in the tail
        return 0.0
    along = (z**3 - 3 * z) * journey.smeared(slope) * pull.ratio
    tail = z * slope
    cells = journey.grown(4) * (tail**3 - 3 * tail * np.diag(pull.inverse))
    return float(0.08 * max(along, pull.displaced(cells)))


def shift_of_corner_transport(pull: Pull, journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because corner transport smeared the tail.

    The first term is from the field's change within a step and from the box of the prior.  The
    second is from each step: its third-order error has components across the axes, so that it may
    have any direction.
    """
    if not journey.has_begun:
        return 0.0
    z, slope = pull.distance, (pull.slope**2).sum()
    cells = _CORNER * journey.grown(3) * max(z * z - 1.0, 0.0) * slope
    return float(2.0 * z * slope * pull.ratio + cells * pull.thinnest)


_CORNER = 0.06
