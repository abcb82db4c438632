"""Cells that are Gaussians: how noise and the field move them, and what they expect to be measured.

The state of a cell is its mean m and a root S of its covariance, P = S S^T, column after column.
Between measurements

    dm/dt = f(m) + sum_k (f(m + c S_k) + f(m - c S_k) - 2 f(m)) / (2 c^2),
    dS_k/dt = (f(m + c S_k) - f(m - c S_k)) / (2 c) + Q W_k / 2,    W = S^-T,

so that P' = J P + P J^T + Q with the slopes J of the field over the cell. With c^2 = 3 means are
those of a Gaussian to the fourth order in its size, along each column. For a linear field all is
exact.

Noise that depends on the state (Ito) counts with its mean over the cell ::

    Q(m) + sum_k (Q(m + c S_k) + Q(m - c S_k) - 2 Q(m)) / (2 c^2)

so that mean and covariance are exact for a linear field and noise of the second order. A cell then
is not quite a Gaussian: its skewness is left out.

A killing rate k has slopes g and curvatures H along the columns of S. It takes from the logarithm
of the mass, moves the mean away from where it is high, and narrows the cell there:

    d(log w)/dt = -k(m) - tr H / 2,    dm/dt = -S g,    dS/dt = -S H / 2,

which is exact for a rate of the second order.

D. L. Alspach, H. W. Sorenson, "Nonlinear Bayesian estimation using Gaussian sum approximations",
IEEE Trans. Autom. Control 17 (1972); S. Sarkka, "On unscented Kalman filtering for state estimation
of continuous-time nonlinear systems", IEEE Trans. Autom. Control 52 (2007).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import option, real, unroll
from ergode.density.grid.lattice import (
    DIMENSION,
    KILLED,
    LOCAL_NOISE,
    PARAMETERS,
    field_at,
    frame_of,
    killing,
    noise_covariance,
    parameters_of,
)
from ergode.models.estimation.likelihood import COMPONENTS, H

WIDE = option(False)
"""Whether cells are Gaussians; otherwise they are points."""
STATE = option(1)
"""Numbers of a cell: DIMENSION, or DIMENSION * (1 + DIMENSION) if it is a Gaussian.

One more if it is killed: the integral of the rate.
"""


def _dual(s):
    """Columns of the transposed inverse of a matrix, from its columns, by orthogonalisation."""
    q = ()
    r = ()
    for k in unroll(range(DIMENSION)):
        v = s[k]
        row = ()
        for j in unroll(range(DIMENSION)):
            if j < k:
                c = sum(q[j][d] * v[d] for d in range(DIMENSION))
                v = tuple(v[d] - c * q[j][d] for d in range(DIMENSION))
                row = row + (c,)  # noqa: RUF005
            else:
                row = row + (real(0.0),)  # noqa: RUF005
        size = math.sqrt(sum(v[d] * v[d] for d in range(DIMENSION)))
        q = q + (tuple(v[d] / size for d in range(DIMENSION)),)  # noqa: RUF005
        r = r + (tuple(size if j == k else row[j] for j in range(DIMENSION)),)  # noqa: RUF005
    w = ()
    for k in unroll(range(DIMENSION)):
        u = q[DIMENSION - 1 - k]
        for j in unroll(range(DIMENSION)):
            if j < k:
                c = r[DIMENSION - 1 - j][DIMENSION - 1 - k]
                u = tuple(u[d] - c * w[j][d] for d in range(DIMENSION))
        size = r[DIMENSION - 1 - k][DIMENSION - 1 - k]
        w = w + (tuple(u[d] / size for d in range(DIMENSION)),)  # noqa: RUF005
    return tuple(w[DIMENSION - 1 - k] for k in range(DIMENSION))


def sizes(y):
    """Deviations of a cell along the variables."""
    return tuple(
        math.sqrt(
            sum(
                y[DIMENSION + k * DIMENSION + d] * y[DIMENSION + k * DIMENSION + d]
                for k in range(DIMENSION)
            )
        )
        for d in range(DIMENSION)
    )


def motion(t, y, frame, noise, manner):
    """Derivative of the state of a cell by time.

    Model: `noise` [dimension, dimension], Q if it is constant; `manner` [3]: the distance c of the
    points at which the field is taken, in deviations; whether the mean feels curvature, 1 or 0; and
    a tolerance.
    """
    m = tuple(y[d] for d in range(DIMENSION))
    centre = field_at(t, m, frame)
    wide = sizes(y)
    columns = tuple(
        tuple(y[DIMENSION + k * DIMENSION + d] / wide[d] for d in range(DIMENSION))
        for k in range(DIMENSION)
    )
    w = _dual(columns)
    c = real(manner[0])
    q = ()
    if LOCAL_NOISE:
        q = _mean_noise(t, y, frame, manner)
    bent = tuple(real(0.0) for d in range(DIMENSION))
    moved = ()
    for k in unroll(range(DIMENSION)):
        away = tuple(c * y[DIMENSION + k * DIMENSION + d] for d in range(DIMENSION))
        above = field_at(t, tuple(m[d] + away[d] for d in range(DIMENSION)), frame)
        below = field_at(t, tuple(m[d] - away[d] for d in range(DIMENSION)), frame)
        bent = tuple(
            bent[d] + (real(above[d]) - real(centre[d])) + (real(below[d]) - real(centre[d]))
            for d in range(DIMENSION)
        )
        moved = moved + tuple(
            (real(above[d]) - real(below[d])) / (2.0 * c)
            + 0.5 * sum(_element(noise, q, d, j) * (w[k][j] / wide[j]) for j in range(DIMENSION))
            for d in range(DIMENSION)
        )
    factor = real(manner[1]) / (2.0 * c * c)
    mean = tuple(real(centre[d]) + factor * bent[d] for d in range(DIMENSION))
    if KILLED:
        return _thinned(t, y, mean, moved, frame, manner)
    return mean + moved


def _element(noise, q, i, j):
    """An element of Q, of `noise`, or of its rows `q` where it depends on the state."""
    if LOCAL_NOISE:
        return q[i * DIMENSION + j]
    return noise[i, j]


def _mean_noise(t, y, frame, manner):
    """Mean of the covariance of noise over a cell, row by row."""
    c = real(manner[0])
    factor = real(manner[1]) / (2.0 * c * c)
    centre = noise_covariance(t, tuple(y[d] for d in range(DIMENSION)), frame)
    bent = tuple(real(0.0) for j in range(DIMENSION * DIMENSION))
    for k in unroll(range(DIMENSION)):
        away = tuple(c * y[DIMENSION + k * DIMENSION + d] for d in range(DIMENSION))
        above = noise_covariance(t, tuple(y[d] + away[d] for d in range(DIMENSION)), frame)
        below = noise_covariance(t, tuple(y[d] - away[d] for d in range(DIMENSION)), frame)
        change = tuple(
            (above[j] - centre[j]) + (below[j] - centre[j]) for j in range(DIMENSION * DIMENSION)
        )
        # Beyond an edge of where noise is defined, its slope is all that is known.
        bent = tuple(
            bent[j] + (change[j] if math.isfinite(change[j]) else real(0.0))
            for j in range(DIMENSION * DIMENSION)
        )
    mean = tuple(centre[j] + factor * bent[j] for j in range(DIMENSION * DIMENSION))
    return tuple(
        max(mean[j], real(0.0)) if j % (DIMENSION + 1) == 0 else mean[j]
        for j in range(DIMENSION * DIMENSION)
    )


def kick(index, time, root, random, frames, points):
    """Move one point, not a cell, by noise that depends on the state: a kernel body.

    `root` is that of the duration, and `random` [dimension, point] are normal variables. The root
    of the covariance is Cholesky's, without the columns of directions that have no noise.
    """
    frame = frame_of(frames, 0)
    y = tuple(points[d, 0, index] for d in range(DIMENSION))
    q = noise_covariance(time, y, frame)
    rows = ()
    for i in unroll(range(DIMENSION)):
        row = ()
        for j in unroll(range(i)):
            left = q[i * DIMENSION + j] - sum(row[k] * rows[j][k] for k in range(j))
            row = row + (left / rows[j][j] if rows[j][j] > 0.0 else real(0.0),)  # noqa: RUF005
        left = q[i * DIMENSION + i] - sum(row[k] * row[k] for k in range(i))
        # Where noise is not defined, a point has none.
        rows = rows + (row + (math.sqrt(left) if left > 0.0 else real(0.0),),)  # noqa: RUF005
    for i in unroll(range(DIMENSION)):
        points[i, 0, index] += root * sum(rows[i][j] * random[j, index] for j in range(i + 1))


def _rate(y, t, frame):
    return real(killing(y, t, parameters_of(frame))[0])


def _at(y, a, b):
    """The state of a cell's mean, and as far along its columns as `a` and `b` say."""
    return tuple(
        y[d] + sum((a[k] + b[k]) * y[DIMENSION + k * DIMENSION + d] for k in range(DIMENSION))
        for d in range(DIMENSION)
    )  # fmt: skip


def _thinned(t, y, mean, moved, frame, manner):
    """Derivative of the state of a cell, with what a killing rate does to it."""
    c = real(manner[0])
    none = tuple(real(0.0) for k in range(DIMENSION))
    centre = _rate(_at(y, none, none), t, frame)
    above = ()
    slopes = ()
    curves = ()
    for k in unroll(range(DIMENSION)):
        up = tuple(c if j == k else real(0.0) for j in range(DIMENSION))
        one = _rate(_at(y, up, none), t, frame)
        other = _rate(_at(y, tuple(-up[j] for j in range(DIMENSION)), none), t, frame)
        above = above + (one,)  # noqa: RUF005
        slopes = slopes + ((one - other) / (2.0 * c),)  # noqa: RUF005
        curves = curves + (real(manner[1]) * ((one - centre) + (other - centre)) / (c * c),)  # noqa: RUF005
    rate = centre + 0.5 * sum(curves[k] for k in range(DIMENSION))
    rate = rate if centre >= 0.0 else real(math.nan)  # the cell is dropped
    mean = tuple(
        mean[d] - sum(slopes[k] * y[DIMENSION + k * DIMENSION + d] for k in range(DIMENSION))
        for d in range(DIMENSION)
    )
    narrowed = ()
    for k in unroll(range(DIMENSION)):
        column = tuple(moved[k * DIMENSION + d] for d in range(DIMENSION))
        for j in unroll(range(DIMENSION)):
            bend = curves[k]
            if j != k:
                first = tuple(c if i == min(j, k) else real(0.0) for i in range(DIMENSION))
                second = tuple(c if i == max(j, k) else real(0.0) for i in range(DIMENSION))
                both = _rate(_at(y, first, second), t, frame)
                bend = real(manner[1]) * ((both - above[j]) - (above[k] - centre)) / (c * c)
            column = tuple(
                column[d] - 0.5 * bend * y[DIMENSION + j * DIMENSION + d] for d in range(DIMENSION)
            )
        narrowed = narrowed + column
    return mean + narrowed + (rate,)


def expected(index, count, t, reach, parameters, points, out):
    """What a measurement would give without noise at one point of one cell: a kernel body.

    The points of a cell are its mean, and `reach` deviations above and below it along each column
    of its root. Model: `parameters` [density, parameter], `points` [state, density, count]. Out:
    `out` [density, count, 2 * dimension + 1, component].
    """
    each = 2 * DIMENSION + 1
    cell = index // each
    number = index - cell * each
    which = cell // count
    place = cell - which * count
    column = (number - 1) // 2
    side = np.float64(0.0)
    if number > 0:
        side = reach if number % 2 == 1 else -reach
    else:
        column = 0
    y = tuple(
        np.float64(points[d, which, place])
        + side * np.float64(points[DIMENSION + column * DIMENSION + d, which, place])
        for d in range(DIMENSION)
    )
    p = tuple(parameters[which, j] for j in range(PARAMETERS))
    found = H(y, t, p)
    for a in unroll(range(COMPONENTS)):
        out[which, place, number, a] = np.float64(found[a])
