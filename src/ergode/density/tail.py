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
smeared more than its present width shows (`Journey`).  Measurements add up: a likelihood multiplies
the smeared density and the exact one alike, so that the error of a step is still that of the
density as it was then, at the place where all measurements since have moved the mean.  Two
measurements of two deviations each reach the tail that one of four reaches.

A steep tail becomes steeper, so that the smeared posterior lies nearer than it should, and is
thinner.  The shift is what the exact density would show (`_hidden`).

These estimates decide whether a posterior is reliable.  They do not correct it.  The shift is
what could be: the errors of all steps are added with one sign, and past slopes are taken as steep.
Of 257 posteriors of random linear systems that were told for their shift alone, the error of the
mean was less than a fifth of it in half, less than 0.6 of it in nine of ten, and 1.4 times it at
worst.  The referee allows twice the shift, besides the error of the grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ergode.density.grid.lattice import Lattice
from ergode.density.moments import Summary

CUT_MOST = 0.005
"""Missing probability that shifts the posterior's mean by about 0.01 deviations."""

SHIFT_MOST = 0.1
"""Largest shift of a reliable posterior, in its deviations."""

EVIDENCE_MOST = 0.25
"""Largest error of a reliable log evidence, because transport smeared the tail."""


class Pull(NamedTuple):
    """Effect of measurements on a density, along the direction in which they moved the mean.

    Each array may have a first axis [interval]: one effect for each interval of a `Journey`, that
    of the measurements since.
    """

    distance: np.ndarray  # shift of the mean, in deviations of the density before
    ratio: np.ndarray  # deviation after the measurements, divided by the deviation before
    # [dimension]: change of the distance from the mean, in deviations, per cell along each axis.
    slope: np.ndarray
    # [dimension, dimension]: covariance of the slope of the logarithm of the density before, in
    # cells: over that density, less over the posterior.
    narrowed: np.ndarray
    # [dimension, dimension]: shift of the posterior, in its deviations, per displacement of the
    # density before, in cells.
    effect: np.ndarray

    def displaced(self, cells: np.ndarray) -> float:
        """Shift of the posterior, in its deviations, by displacements of the tail [cells]."""
        found = (self.effect @ cells[..., None]).reshape(-1, cells.shape[-1])
        return float(np.linalg.norm(found.sum(axis=0)))

    @property
    def thinnest(self) -> np.ndarray:
        """Shift of the posterior if the tail is displaced by one cell in the worst direction."""
        return np.asarray(np.linalg.norm(self.effect, 2, axis=(-2, -1)))


def pull_of(before: Summary, after: Summary, lattice: Lattice) -> Pull:
    """Effect of one measurement, from the density before and after it."""
    away, through, root = _whitened(before, after, lattice.axes / lattice.width)
    return _pull(away, through, root)


def _whitened(
    before: Summary, after: Summary, turn: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shift of the mean and root of the covariance, in deviations before; the root in cells."""
    roots = [_root(turn.T @ one.covariance @ turn) for one in (before, after)]
    inverse = np.linalg.pinv(roots[0], hermitian=True)
    return inverse @ turn.T @ (after.mean - before.mean), inverse @ roots[1], roots[1]


def _pull(away: np.ndarray, through: np.ndarray, root: np.ndarray) -> Pull:
    """The pull of a shift `away` of the mean.

    `through` takes deviations of the posterior to deviations of the density before, and `root`
    takes them to cells.
    """
    distance = np.linalg.norm(away, axis=-1)
    along = away / np.where(distance > 0, distance, 1.0)[..., None]
    ratio = np.linalg.norm(np.einsum("...ij,...i->...j", through, along), axis=-1)
    from_cells = through @ np.linalg.pinv(root, hermitian=True)
    across = np.swapaxes(from_cells, -1, -2)
    back = np.swapaxes(through, -1, -2)
    left = np.eye(away.shape[-1]) - through @ back
    return Pull(
        distance, np.where(distance > 0, np.maximum(ratio, 1e-6), 1.0),
        np.einsum("...ij,...j->...i", across, along), across @ left @ from_cells, back @ from_cells,
    )  # fmt: skip


@cache
def _no_pull(dimension: int) -> Pull:
    """The pull on no interval."""
    return _pull(
        np.empty((0, dimension)), np.empty((0, dimension, dimension)), np.eye(dimension)
    )  # fmt: skip


def _root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric root of a covariance."""
    sizes, axes = np.linalg.eigh(covariance)
    return np.asarray((axes * np.sqrt(np.maximum(sizes, 0.0))) @ axes.T)


def pulled_over(cut: float, pull: Pull) -> float:
    """Fraction of a posterior beyond the edge where a probability was cut from its prior."""
    if cut <= 0 or pull.distance == 0:
        return 0.0
    from scipy.special import ndtr, ndtri  # importing them takes 0.1 s

    edge = float(-ndtri(min(cut, 0.5)))
    return float(ndtr((pull.distance - edge) / pull.ratio))


class Journey:
    """Steps of a density in intervals, how it has grown, and what was measured since each.

    `pull` is the effect of all measurements since each interval, as of the latest `correct`.
    """

    def __init__(self, lattice: Lattice) -> None:
        size = lattice.dimension
        self._turn = lattice.axes / lattice.width
        self._taken = 0
        self._last: np.ndarray | None = None  # covariance, in cells
        self._steps = np.empty(0)
        self._growth = np.empty((0, 2))  # logarithms of volumes, since both ends of an interval
        self._steepest = np.empty((0, 2))  # slopes to the fourth power at both ends
        # Present deviations, whitened by the symmetric root of the covariance, as those of the
        # density without the measurements since.  A flow turns them little.
        self._away, self._through = np.empty((0, size)), np.empty((0, size, size))
        self.pull = _no_pull(size)

    def state(self) -> dict[str, Any]:
        """What `restore` takes."""
        last = np.empty(0) if self._last is None else self._last
        own = {name: getattr(self, name) for name in _KEPT}
        return own | {"_taken": self._taken, "_last": last}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        for name in _KEPT:
            setattr(self, name, state[name])
        self._taken = int(state["_taken"])
        self._last = state["_last"] if state["_last"].size else None

    def move(self, steps: int, covariance: np.ndarray) -> None:
        """Record the present density, after this number of steps in total."""
        now, last = self._in_cells(covariance), self._last
        if steps > self._taken and last is not None:
            ends = np.stack([last, now])
            begin, end = np.linalg.slogdet(ends)[1]
            steep = np.square(np.diagonal(np.linalg.inv(ends), axis1=-2, axis2=-1)).sum(axis=-1)
            one = np.eye(len(now))
            self._steps = np.append(self._steps, steps - self._taken)
            self._growth = np.vstack([self._growth + (end - begin), [end - begin, 0.0]])
            self._steepest = np.vstack([self._steepest, steep])
            self._away = np.vstack([self._away, np.zeros((1, len(now)))])
            self._through = np.concatenate([self._through, one[None]])
        self._taken, self._last = steps, now

    def correct(self, before: Summary, after: Summary) -> None:
        """Record a measurement, from the density before and after it."""
        away, through, root = _whitened(before, after, self._turn)
        self._away = self._away + self._through @ away
        self._through = self._through @ through
        self._last = self._in_cells(after.covariance)
        # The fourth-order error of a step shrinks by the fourth power of the deviation.
        shrunk = np.abs(np.linalg.det(self._through)) ** (4.0 / len(away))
        kept = self._steps * shrunk > _FORGOTTEN
        self._steps, self._growth = self._steps[kept], self._growth[kept]
        self._steepest = self._steepest[kept]
        self._away, self._through = self._away[kept], self._through[kept]
        self.pull = _pull(self._away, self._through, root)

    def widen(self, covariance: np.ndarray) -> None:
        """Record a maneuver, which spreads the density and not the errors of earlier steps."""
        self._last = self._in_cells(covariance)

    def grown(self, order: int) -> np.ndarray:
        """Steps of each interval, times the density's growth since, to the power `order`.

        The growth is assumed to be isotropic.
        """
        size = self._away.shape[1]
        return np.asarray(self._steps * np.exp(order / (2.0 * size) * self._growth).mean(axis=1))

    def smeared(self, slope: np.ndarray) -> np.ndarray:
        """Steps of each interval, times the fourth power of the slope at the time of the step.

        `slope` [interval, dimension] is the present slope of the distance from the mean, per cell.
        Past slopes are unknown.  The result is the geometric mean of two estimates: that of a
        density that has grown isotropically, and the steepest slope of all directions.
        """
        alike = (slope**4).sum(axis=1)[:, None] * np.exp(2.0 / slope.shape[1] * self._growth)
        return np.asarray(self._steps * np.sqrt(alike * self._steepest).mean(axis=1))

    def _in_cells(self, covariance: np.ndarray) -> np.ndarray:
        # No density is thinner than a cell.
        return np.asarray(self._turn.T @ covariance @ self._turn + np.eye(len(covariance)) / 12.0)


_KEPT = ("_steps", "_growth", "_steepest", "_away", "_through")
_FORGOTTEN = 1e-3  # steps


def shift_of_split(journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because split transport smeared the tail.

    A step that moves mass by the fraction c of a cell adds to a density p the fourth derivative of
    p times c (1 - c) (2 - c) (1 + c) / 24, in cells; this factor is at most 0.023.  The shift is
    the mean over the posterior of what all steps add to the slope of its logarithm.  The result is
    the larger of two effects: along the direction of the measurements, where `smeared` uses more of
    the past, and in all directions; times what the smeared tail hides (`_hidden`).
    """
    pull = journey.pull
    narrow = 1.0 - np.minimum(pull.ratio, 1.0) ** 2
    z = np.where(pull.distance**2 > 3.0 * narrow, pull.distance, 0.0)  # zero: not in the tail
    smeared = 0.08 * journey.smeared(pull.slope)
    along = (z**3 - 3 * z * narrow) * smeared * pull.ratio
    if not along.sum() > 0.0:
        return 0.0
    tail = z[:, None] * pull.slope
    bend = np.diagonal(pull.narrowed, axis1=1, axis2=2)
    cells = 0.08 * journey.grown(4)[:, None] * (tail**3 - 3 * tail * bend)
    ratio = np.average(pull.ratio, weights=along)
    linear = 3.0 * (smeared * narrow)[z > 0.0].sum()
    hidden = _hidden(float((smeared * z**2).sum()), float(linear), float(ratio))
    return hidden * float(max(along.sum(), pull.displaced(cells)))


def _hidden(cubic: float, linear: float, ratio: float) -> float:
    """How much larger a shift is than it seems in the smeared density.

    Steps displace a point z of the tail toward the middle by ``z (cubic s**2 - linear)``, where s
    is the scale below: they leave the slope of the density's logarithm as it is, and so make the
    tail steeper.  The smeared density has at z the slope that the exact one has at s z.  If the
    displacement were larger than a fold of these points allows, s is that of the fold.  A steeper
    tail also makes the posterior narrower, by what measurements did not do: `ratio` is its
    deviation, relative to the density's.
    """
    fold = np.sqrt((1.0 + linear) / (3.0 * cubic))
    turn = np.arccos(-min(1.0, 0.5 / (cubic * fold**3)))
    scale = max(1.0, 2.0 * fold * np.cos((turn - 2.0 * np.pi) / 3.0))
    slack = 1.0 - 3.0 * cubic * scale**2 + linear
    steeper = 1.0 / slack - 1.0 if slack > 1e-6 else np.inf
    moved = (cubic * scale**3 - linear * scale) / (cubic - linear)
    return float(moved / max(1.0 - ratio**2 * max(steeper, 0.0), min(ratio, 1.0) ** 2))


def evidence_shift(journey: Journey, shift: float, order: int) -> float:
    """What a log evidence could be off by where the mean is off by `shift`, in its deviations.

    The error of the logarithm of a density is a power `order` of the distance from the mean, and
    the shift is its slope times the square of the posterior's deviation.
    """
    pull = journey.pull
    return shift * float((pull.distance / pull.ratio).max(initial=0.0)) / order


def shift_of_corner_transport(journey: Journey) -> float:
    """Shift of a posterior's mean, in its deviations, because corner transport smeared the tail.

    The first term is from the field's change within a step and from the box of the prior.  The
    second is from each step: its third-order error has components across the axes, so that it may
    have any direction.
    """
    pull = journey.pull
    z, slope = pull.distance, (pull.slope**2).sum(axis=1)
    cells = _CORNER * journey.grown(3) * np.maximum(z * z - 1.0, 0.0) * slope
    once = 2.0 * z * slope * pull.ratio
    return float(once.max(initial=0.0) + (cells * pull.thinnest).sum())


_CORNER = 0.06
