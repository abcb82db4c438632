"""Sample a prior; importance weights are used if it cannot be sampled directly."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.errors import ModelError
from ergode.core.math import random
from ergode.density.flow.weighted import brief
from ergode.density.grid.lattice import DIMENSION
from ergode.models.estimation.covariances import root_of
from ergode.models.estimation.priors import Density, Gaussian, Mixture, Prior, Samples

# The proposal for a density with only mean and covariance known is a Student distribution.
_FREEDOM = 5


def scatter(index, seed, number, shares, shifts, roots, keep, points):
    """Shrink the state of a particle, shift it, and add a Gaussian draw: a kernel body.

    Model: `shares` [component], cumulated probabilities of the components; their `shifts`
    [component, variable], and `roots` [component, variable, variable] of their covariances; `keep`,
    a factor of the state. In and out: `points` [variable, 1, particle].
    """
    w0, w1, w2, w3 = random.draw_words(seed, number, index, random.PARTICLE, 0)
    place = random.uniform_53(w0, w1)
    which = 0
    while which < shares.size - 1 and place >= shares[which]:
        which += 1
    for d in range(DIMENSION):
        points[d, 0, index] = keep * points[d, 0, index] + shifts[which, d]
    for e in range(DIMENSION):
        w0, w1, w2, w3 = random.draw_words(seed, number, index, random.PARTICLE, 1 + e)
        z = random.normal(w0, w1)
        for d in range(DIMENSION):
            points[d, 0, index] += roots[which, d, e] * z


def take(index, chosen, source, target):
    """Copy the `chosen` [particle] one of `source` to `target` [variable, 1, particle]."""
    for d in range(DIMENSION):
        target[d, 0, index] = source[d, 0, chosen[index]]


def scattered(
    device: Device, points: Any, seed: int, number: int, *, shifts: Any, covariances: Any,
    keep: float, shares: Any = (1.0,),
) -> None:  # fmt: skip
    """Run `scatter` on all points; `number` counts the calls with this seed."""
    roots = np.stack([root_of(np.asarray(one, np.float64)) for one in covariances])
    kernel = kernels.for_each(scatter, bindings={DIMENSION: points.shape[0]})
    arrays = device.put_together([np.cumsum(shares), np.array(shifts, np.float64), roots])
    device.run(
        kernel, points.shape[2], np.uint64(seed), np.uint32(number), *arrays, np.float64(keep),
        points, **brief(points.shape[2]),
    )  # fmt: skip


def taken(device: Device, points: Any, chosen: np.ndarray) -> Any:
    """The chosen points [particle], by number."""
    target = device.empty(points.shape, np.float64)
    kernel = kernels.for_each(take, bindings={DIMENSION: points.shape[0]})
    count = points.shape[2]
    device.run(kernel, count, *device.put_together([chosen]), points, target, **brief(count))
    return target


def draw(prior: Prior, count: int, seed: int, device: Device) -> tuple[Any, np.ndarray]:
    """Points [variable, 1, count] on the device, and logarithms of their weights [count]."""
    if isinstance(prior, Gaussian | Mixture):
        components, shares = (
            ([prior], (1.0,)) if isinstance(prior, Gaussian) else (prior.components, prior.weights)
        )
        points = device.zeros((prior.mean.size, 1, count), np.float64)
        scattered(
            device, points, seed, 0, shifts=[one.mean for one in components],
            covariances=[one.covariance for one in components], keep=0.0, shares=shares,
        )  # fmt: skip
        return points, np.zeros(count)
    rng = np.random.Generator(np.random.Philox([seed, 0]))
    if isinstance(prior, Samples):
        drawn, log_weights = prior.points[resampled(prior.weights, count, rng)], np.zeros(count)
    elif isinstance(prior, Density):
        drawn, log_weights = _weighted(prior, count, rng)
    else:
        raise ModelError(f"there is no way to draw from a {type(prior).__name__}")
    points = device.empty((drawn.shape[1], 1, count), np.float64)
    device.copy(np.ascontiguousarray(drawn.T[:, None], np.float64), points)
    return points, log_weights


def resampled(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Systematic resampling: index i occurs count x weights[i] times, rounded up or down."""
    steps = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), steps), weights.size - 1)


def bandwidth(count: int, size: int) -> float:
    """Width of the Gaussian kernel that smooths resampled points, in deviations.

    The bandwidth is best for a Gaussian density (C. Musso, N. Oudjane, F. Le Gland, "Improving
    regularised particle filters", in "Sequential Monte Carlo Methods in Practice" (2001)).
    """
    return float((4.0 / (count * (size + 2.0))) ** (1.0 / (size + 4.0)))


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
