"""Gaussian cells given all measurements: the smoother of Rauch, Tung and Striebel for each cell.

Between two times a cell with the covariance P = S S^T goes to the mean m' and the covariance P'.
Without noise its root goes to S0 = F S, with the slopes F of the way. Given later measurements, the
cell at the later time has the mean b and the covariance B, and at the earlier time ::

    G = S S0^T P'^-1,    m + G (b - m'),    (S - G S0) (S - G S0)^T + G (P' - S0 S0^T + B) G^T

The weights are the last ones, so that the sum is exact for linear systems. A maneuver has F = 1.

H. E. Rauch, F. Tung, C. T. Striebel, "Maximum likelihood estimates of linear dynamic systems",
AIAA J. 3 (1965).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class GaussianCells(NamedTuple):
    """Cells of several densities."""

    mean: np.ndarray  # [density, cell, variable]
    root: np.ndarray  # [density, cell, variable, column]: of the covariance


class Passage(NamedTuple):
    """The way of cells from one time to another."""

    before: GaussianCells
    moved: np.ndarray  # [density, cell, variable, column]: S0
    after: GaussianCells

    def back(self, later: GaussianCells) -> GaussianCells:
        """The cells at the earlier time, from those at the later one, given all measurements."""
        good = np.isfinite(self.after.root).all(axis=(2, 3)) & np.isfinite(later.root).all((2, 3))
        moved, ahead = self.moved[good], _square(self.after.root[good])
        scale = np.sqrt(np.diagonal(ahead, axis1=1, axis2=2))
        unit = ahead / (scale[:, :, None] * scale[:, None])
        solved = np.linalg.solve(unit, moved / scale[:, :, None]) / scale[:, :, None]
        own = self.before.root[good]
        gain = own @ np.swapaxes(solved, 1, 2)
        wide = ahead - _square(moved) + _square(later.root[good])
        covariance = _square(own - gain @ moved) + gain @ wide @ np.swapaxes(gain, 1, 2)
        mean, root = self.before.mean.copy(), self.before.root.copy()
        mean[good] += np.einsum("ide,ie->id", gain, (later.mean - self.after.mean)[good])
        root[good] = _root_of(covariance)
        return GaussianCells(mean, root)


def _square(root: np.ndarray) -> np.ndarray:
    return root @ np.swapaxes(root, 1, 2)


def _root_of(covariance: np.ndarray) -> np.ndarray:
    """Roots of covariances [cell, variable, variable], which rounding may make indefinite."""
    scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / (scale[:, :, None] * scale[:, None]))
    return np.asarray(scale[:, :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[:, None])
