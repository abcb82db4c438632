"""The scaled unscented transform: few weighted points with a given mean and covariance.

S. J. Julier, J. K. Uhlmann, "Unscented filtering and nonlinear estimation", Proc. IEEE 92 (2004);
E. A. Wan, R. van der Merwe, "The unscented Kalman filter for nonlinear estimation", AS-SPCC (2000).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SigmaPoints:
    """Points and weights for states of `size` variables."""

    size: int
    # Distance of the points from the mean, in units of ``sqrt(size + kappa)`` deviations.
    alpha: float
    beta: float  # weight of the central point in covariances; 2 is best for Gaussians
    kappa: float

    @property
    def count(self) -> int:
        """Number of points."""
        return 2 * self.size + 1

    @property
    def _scale(self) -> float:
        return self.alpha**2 * (self.size + self.kappa)

    @property
    def of_means(self) -> np.ndarray:
        """Weights of a mean, shape [point]."""
        weights = np.full(self.count, 0.5 / self._scale)
        weights[0] = 1.0 - self.size / self._scale
        return weights

    def points(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Points [density, point, variable] of mean [density, variable] and covariance."""
        root = np.sqrt(self._scale) * np.linalg.cholesky(covariance)
        along = np.swapaxes(root, 1, 2)
        centre = mean[:, None]
        return np.concatenate([centre, centre + along, centre - along], axis=1)

    def moments(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of points [density, point, component]."""
        mean, slopes, curved = self.linearised(points)
        return mean, np.einsum("kja,kjb->kab", slopes, slopes) + curved

    def linearised(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images [density, point, component] as a linear function, and what it leaves.

        Returns the mean; the slopes [density, variable, component] along the columns of the root of
        the covariance of `points`; and the covariance of the part that is not linear. These are
        the sums of the transform, from differences, because the weights are large and of both
        signs.
        """
        above, below = points[:, 1 : 1 + self.size], points[:, 1 + self.size :]
        slopes = (above - below) / (2.0 * np.sqrt(self._scale))
        bent = 0.5 * (above + below) - points[:, :1]
        shift = bent.sum(axis=1) / self._scale
        rest = bent - shift[:, None]
        central = self.of_means[0] + 1.0 - self.alpha**2 + self.beta
        curved = (
            np.einsum("kja,kjb->kab", rest, rest) / self._scale
            + central * shift[:, :, None] * shift[:, None, :]
        )
        return points[:, 0] + shift, slopes, curved
