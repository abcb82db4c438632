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

    @property
    def of_covariances(self) -> np.ndarray:
        """Weights of a covariance, shape [point]."""
        weights = self.of_means
        weights[0] += 1.0 - self.alpha**2 + self.beta
        return weights

    def points(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Points [density, point, variable] of mean [density, variable] and covariance."""
        root = np.sqrt(self._scale) * np.linalg.cholesky(covariance)
        along = np.swapaxes(root, 1, 2)
        centre = mean[:, None]
        return np.concatenate([centre, centre + along, centre - along], axis=1)

    def moments(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of points [density, point, component]."""
        # Relative to the centre: the weights are large and of both signs.
        away = points - points[:, :1]
        shift = np.einsum("i,kia->ka", self.of_means, away)
        return points[:, 0] + shift, self.covariance(away - shift[:, None], away - shift[:, None])

    def covariance(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Covariance [density, a, b] of deviations from the means [density, point, a] and b."""
        return np.einsum("i,kia,kib->kab", self.of_covariances, one, other)
