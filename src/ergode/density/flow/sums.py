"""Weights of points by likelihoods, and sums over points.

The points of a density are divided into groups, whose number follows from the number of points.
Each group is added by itself, and the host adds the groups: sums do not depend on threads.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.density.flow.gaussians import WIDE
from ergode.density.grid.lattice import DIMENSION, PARAMETERS
from ergode.models.estimation import likelihood


def groups_of(count: int) -> int:
    """Number of groups of `count` points: a power of two, up to 1024."""
    return int(min(1024, 1 << max(0, int(count // 64).bit_length() - 1)))


def weigh(index, count, t, parameters, values, precisions, points, log_weights):
    """Add the log-likelihood of a measurement to the log-weight of one point: a kernel body.

    Model: `parameters` [density, parameter], `values` [density, component], `precisions` [density,
    component, component], `points` [dimension, density, count]. In and out: `log_weights`
    [density, count].
    """
    which = index // count
    place = index - which * count
    if log_weights[which, place] > -math.inf:
        y = tuple(np.float64(points[d, which, place]) for d in range(DIMENSION))
        p = tuple(parameters[which, j] for j in range(PARAMETERS))
        found = likelihood.log_likelihood(y, t, p, values[which], precisions[which])
        total = log_weights[which, place] + found
        log_weights[which, place] = total if total > -math.inf else -math.inf  # NaN is impossible


def largest(index, count, groups, log_weights, out):
    """Largest log-weight in one group of points of one density. Out: `out` [density, groups]."""
    which = index // groups
    group = index - which * groups
    best = np.float64(-math.inf)
    for i in range(group, count, groups):
        best = max(best, log_weights[which, i])
    out[which, group] = best


def add_up(index, count, groups, rows, columns, tops, shifts, signs, points, log_weights, out):
    """One sum over one group of points of one density: a kernel body.

    The term of a point is its weight times the distances from `shifts` [density, dimension] along
    `rows` and `columns` [sum]; minus one stands for no distance, and minus two for the weight once
    more. A Gaussian cell adds its own covariance.
    Weights are relative to `tops` [density]. Out: `out` [density, sum, 2, groups]: of all
    points, and with the `signs` [count] of points.
    """
    sum_count = rows.size
    which = index // (sum_count * groups)
    left = index - which * (sum_count * groups)
    number = left // groups
    group = left - number * groups
    d, e = rows[number], columns[number]
    top = tops[which]
    total = np.float64(0.0)
    signed = np.float64(0.0)
    for i in range(group, count, groups):
        weight = math.exp(log_weights[which, i] - top)
        term = weight
        if d >= 0:
            term *= np.float64(points[d, which, i]) - shifts[which, d]
        elif d == -2:
            term *= weight
        if e >= 0:
            term *= np.float64(points[e, which, i]) - shifts[which, e]
        if WIDE and d >= 0 and e >= 0:
            for k in range(1, DIMENSION + 1):
                own = np.float64(points[k * DIMENSION + d, which, i])
                term += weight * own * np.float64(points[k * DIMENSION + e, which, i])
        total += term
        signed += term * np.float64(signs[i])
    out[which, number, 0, group] = total
    out[which, number, 1, group] = signed
