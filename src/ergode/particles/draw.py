"""Sample a prior; importance weights are used if it cannot be sampled directly."""

from __future__ import annotations

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.estimation.covariances import root_of
from ergode.models.estimation.priors import Density, Gaussian, Mixture, Prior, Samples

# The proposal for a density with only mean and covariance known is a Student distribution.
_FREEDOM = 5


def draw(prior: Prior, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points [count, variable_count], and the logarithms of their weights [count]."""
    if isinstance(prior, Gaussian):
        return _gaussian(prior, count, rng), np.zeros(count)
    if isinstance(prior, Mixture):
        which = rng.choice(len(prior.components), count, p=prior.weights)
        points = np.empty((count, prior.mean.size))
        for k, component in enumerate(prior.components):
            here = which == k
            points[here] = _gaussian(component, int(here.sum()), rng)
        return points, np.zeros(count)
    if isinstance(prior, Samples):
        return prior.points[resampled(prior.weights, count, rng)], np.zeros(count)
    if isinstance(prior, Density):
        return _weighted(prior, count, rng)
    raise ModelError(f"there is no way to draw from a {type(prior).__name__}")


def resampled(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Systematic resampling: index i occurs count x weights[i] times, rounded up or down."""
    steps = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), steps), weights.size - 1)


def smoothed(
    points: np.ndarray, mean: np.ndarray, covariance: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Points moved by a Gaussian kernel and drawn to the mean, so that the covariance stays.

    The bandwidth is best for a Gaussian density (C. Musso, N. Oudjane, F. Le Gland, "Improving
    regularised particle filters", in "Sequential Monte Carlo Methods in Practice" (2001)); M. West,
    "Mixture models, Monte Carlo, Bayesian updating and dynamic models" (1993), for the shrinkage.
    """
    count, size = points.shape
    width = (4.0 / (count * (size + 2.0))) ** (1.0 / (size + 4.0))
    jitter = rng.standard_normal((count, size)) @ root_of(covariance).T
    return np.asarray(mean + np.sqrt(1.0 - width**2) * (points - mean) + width * jitter)


def _gaussian(prior: Gaussian, count: int, rng: np.random.Generator) -> np.ndarray:
    root = np.linalg.cholesky(prior.covariance)
    return np.asarray(prior.mean + rng.standard_normal((count, prior.mean.size)) @ root.T)


def _weighted(
    prior: Density, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    root = np.linalg.cholesky(prior.covariance)
    normal = rng.standard_normal((count, prior.mean.size))
    wide = normal / np.sqrt(rng.chisquare(_FREEDOM, (count, 1)) / _FREEDOM)
    points = prior.mean + wide @ root.T
    square = (wide**2).sum(axis=1)
    drawn = -0.5 * (_FREEDOM + prior.mean.size) * np.log1p(square / _FREEDOM)
    return points, prior.log_density(points) - drawn
