"""Points of a lattice: laid in the prior, chosen, and marked. These are the kernels."""

from __future__ import annotations

import math

import numpy as np

from ergode.density.grid.lattice import DIMENSION


def put_point(index, count, means, edges, places, log_share, points, log_weights):
    """Lay one point of the lattice of one density: a kernel body.

    Model: `means` [density, dimension], `edges` of a cell [density, dimension, axis], `places`
    [axis, count], `log_share` [count]. Out: `points` [dimension, density, count], `log_weights`
    [density, count].
    """
    which = index // count
    place = index - which * count
    for d in range(DIMENSION):
        at = means[which, d]
        for k in range(DIMENSION):
            at += edges[which, d, k] * places[k, place]
        points[d, which, place] = at
    log_weights[which, place] = log_share[place]


def by_prior(index, means, precisions, constants, log_volume, constant, points, out):
    """Log-weight of one point by a sum of Gaussians, and its volume: a kernel body.

    Model: `means` [term, dimension], `precisions` [term, dimension, dimension], `constants`
    [term]. Out: `out` [1, point].
    """
    size = means.shape[1]
    best = np.float64(-math.inf)
    total = np.float64(0.0)
    for k in range(constants.size):
        square = np.float64(0.0)
        for d in range(size):
            along = np.float64(0.0)
            for e in range(size):
                along += precisions[k, d, e] * (points[e, 0, index] - means[k, e])
            square += along * (points[d, 0, index] - means[k, d])
        log = constants[k] - np.float64(0.5) * square
        if log > best:
            total = total * math.exp(best - log) + np.float64(1.0)
            best = log
        else:
            total += math.exp(log - best)
    out[0, index] = best + math.log(total) + log_volume[index] + constant


def widen(index, which, mean, variance, periods, points, smeared, out):
    """Log-weight of one cell, with what it adds to the moments if it is far away: a kernel body.

    Model: `mean`, `variance` and `periods` [dimension], zero if there is none; `points`
    [state, density, point] and `smeared` [density, point]. Out: `out` [1, point].
    """
    far = np.float64(0.0)
    for d in range(mean.size):
        away = np.float64(points[d, which, index]) - mean[d]
        if periods[d] > 0.0:
            away -= periods[d] * math.floor(away / periods[d] + np.float64(0.5))
        far = max(far, away * away / variance[d])
    far = far if far < math.inf else np.float64(0.0)
    out[0, index] = smeared[which, index] + math.log1p(min(far, np.float64(FARTHEST)))


FARTHEST = 1e4
"""Largest squared distance from a mean that counts, in deviations."""


def choose(index, count, numbers, source, out):
    """Copy one of the chosen columns of one row: a kernel body.

    Model: `numbers` [count] of columns, `source` [row, ...]. Out: `out` [row, count].
    """
    row = index // count
    place = index - row * count
    out[row, place] = source[row, numbers[place]]
