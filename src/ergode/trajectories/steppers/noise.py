"""Steps of stochastic differential equations.

    dy_i = f_i(t, y) dt + g_i(t, y) dW_i

in the sense of Ito, or of Stratonovich: there `euler-maruyama` is the method of Euler and Heun, and
`milstein` lacks the term of the quadratic variation.
Every variable has a Wiener process; processes may be correlated.  If g_i depends on another
variable or a delayed value, only `euler-maruyama` keeps its order.  Correlations change no order:
each equation sees one process.  Increments of independent processes are functions of (seed, path,
variable, number of the step); a trajectory has a path of its own, or shares one with others.  The
increment of a long step is the sum of the increments of the short steps within it, so one path can
be integrated with different step sizes.

With adaptive steps the path is a tree of Brownian bridges in every cell, keyed by (seed, path,
variable, cell, node): it is equal for all tolerances.  Steps are dyadic parts of cells.  With the
increment W and H = (integral of W(t) - W(0)) / h - W / 2, the increments of both halves of an
interval h are (W + d) / 2 and (W - d) / 2, and their H are (s + e) / 2 and (s - e) / 2, with normal
draws of variances h / 4 and h / 12:  d = 3 H + N(h / 4),  s = 2 H - d / 2,  e = N(h / 12).  The
expected difference from Euler's method, which is as large as the global error, controls the steps.
It depends on the state at the beginning of a step alone: steps that the path within them chooses
bias the result.

Strong orders: `euler-maruyama` 1/2, `milstein` (derivative-free) 1, and `sra1` 3/2 (additive noise:
g depends on time only).  `implicit-euler-maruyama` solves y1 = y + h f(t + h, y1) + g W by one step
of Newton's method: no stiff drift limits its steps.  `platen2` has weak order 2 for any noise.

Where g_i depends on other variables, `milstein` needs the Levy areas of its processes,
a_jk = (integral of W_j dW_k - W_k dW_j) / 2.  Of n parts of a step it knows the increments w and
the H: the area of a part is H_j w_k - w_j H_k on average, and varies about this by the square of
its length over 12, so that the area of a step is known to h / sqrt(12 n).

P. E. Kloeden, E. Platen, "Numerical Solution of Stochastic Differential Equations" (1992), eqs.
10.2.4, 11.1.7 and 15.1.3; W. Ruemelin, SIAM J. Numer. Anal. 19, 604 (1982); A. Roessler, SIAM J.
Numer. Anal. 48, 922 (2010), table 6.1; J. Foster, T. Lyons, H. Oberhauser, SIAM J. Numer. Anal. 58,
1393 (2020), for areas.  J. G. Gaines, T. J. Lyons, SIAM J. Appl. Math. 57, 1455
(1997), for trees; N. Hofmann, T. Mueller-Gronbach, K. Ritter, J. Complexity 17, 117 (2001), for
steps that depend on the state.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import UserFunction, fma, option, real
from ergode.core.math.random import WIENER, WIENER_TREE, draw_words, normal
from ergode.models.fields.correlation import mixture_of
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers.derivatives import mixed_noise
from ergode.trajectories.steppers.equations import EPSILON, PLACES, VARIABLES, slope
from ergode.trajectories.steppers.jacobian import jacobian
from ergode.trajectories.steppers.linear import factorised, solved

SCHEME = option(0)  # 0 no noise, 1 Euler-Maruyama, 2 Milstein, 3 SRA1, 4 Platen's of weak order 2
MILSTEIN, PLATEN = 2, 4
AREAS = option(False)  # whether Milstein's method needs Levy areas
STRATONOVICH = option(False)  # whether the integrals are those of Stratonovich, not of Ito
SUMMED = option(False)  # whether a step sums several increments
SHARED = option(False)  # whether several trajectories have one path
MIXTURE = option(())  # weights of independent processes in each; empty if all are independent
SHARES = option(())  # the same where processes are mixed: the unit matrix if all are independent
diffusion = option()  # diffusion(t, y, yd, p), or without delays (t, y, p): the user's function

_ROOT_3 = 0.57735026918962576
_ROOT_12 = 0.28867513459481288
_ROOT_8 = 0.35355339059327376


def spread(t, y, yd, p):
    """Diffusion coefficient of every variable."""
    g = diffusion(t, y, yd, p) if len(PLACES) > 0 else diffusion(t, y, p)
    return tuple(real(g[i]) for i in range(VARIABLES))


def increment(h, source, trajectory, variable, step):
    """Increment of a Wiener process over a step, and the integral of W(t) - W(0) over the step.

    `source` is (seed, increments per step, trajectories per path).
    """
    path = trajectory // source[2] if SHARED else trajectory
    noise_substeps = source[1] if SUMMED else 1
    short = h / real(noise_substeps)
    root = math.sqrt(short)
    w = real(0.0)
    integral = real(0.0)
    for j in range(noise_substeps):
        part, inner = _part(short, root, source[0], path, variable, step * noise_substeps + j)
        integral = integral + fma(short, w, inner)
        w = w + part
    return w, integral


def _part(short, root, seed, path, variable, number):
    """`increment` over one of its parts, of the length `short` and the square `root` of it."""
    w0, w1, w2, w3 = draw_words(seed, path, variable, WIENER, np.uint32(number))
    part = root * normal(w0, w1)
    return part, 0.5 * short * fma(root * _ROOT_3, normal(w2, w3), part)


def place_in_cell(t, h, goal, soonest, width):
    """Level and number of the dyadic part of a cell that a step from `t` takes, and its end.

    The cell ends at `goal`.  The step has at most the size `h`, and does not pass `soonest`, the
    next time to save, unless it is of the smallest size.
    """
    levels = 20 if EPSILON < 1e-10 else 12
    whole = np.int64(1) << np.int64(levels)
    unit = width / real(whole)
    at = whole - np.int64(math.floor((goal - t) / unit + 0.5))
    level, parts = np.int64(0), whole
    until = soonest - t if soonest > t + 0.5 * unit else 2.0 * width
    most = min(h * (1.0 + 64.0 * EPSILON), until + 0.5 * unit)
    while parts > 1 and (at % parts != 0 or real(parts) * unit > most):
        parts = parts >> np.int64(1)
        level += 1
    return level, at // parts, goal - real(whole - at - parts) * unit


def increment_in_cell(width, source, trajectory, variable, cell, level, number):
    """`increment` over one of the 2^`level` equal parts of a cell: the one with this `number`."""
    path = trajectory // source[2] if SHARED else trajectory
    entity = cell * VARIABLES + variable
    w0, w1, w2, w3 = draw_words(source[0], path, entity, WIENER_TREE, np.uint32(0))
    h, root = width, math.sqrt(width)
    w = root * normal(w0, w1)
    inner = real(_ROOT_12) * root * normal(w2, w3)
    node = np.int64(1)
    for j in range(level):
        w0, w1, w2, w3 = draw_words(source[0], path, entity, WIENER_TREE, np.uint32(node))
        root = math.sqrt(h)
        d = 3.0 * inner + 0.5 * root * normal(w0, w1)
        s = 2.0 * inner - 0.5 * d
        e = real(_ROOT_12) * root * normal(w2, w3)
        side = (number >> (level - 1 - j)) & np.int64(1)
        way = real(1.0) if side == 0 else real(-1.0)
        w, inner = 0.5 * (w + way * d), 0.5 * (s + way * e)
        h = 0.5 * h
        node = 2 * node + side
    return w, h * (inner + 0.5 * w)


def increments(h, source, trajectory, step, cut=0):
    """`increment` of every variable.

    `cut` counts how often events have truncated the step; each remainder has new increments.
    With AREAS, an increment also has the Levy areas with the processes before it.
    """
    if AREAS:
        return _with_areas(h, source, trajectory, step, cut)
    return tuple(
        increment(h, source, trajectory, cut * VARIABLES + i, step) for i in range(VARIABLES)
    )


def _with_areas(h, source, trajectory, step, cut):
    path = trajectory // source[2] if SHARED else trajectory
    noise_substeps = source[1] if SUMMED else 1
    short = h / real(noise_substeps)
    root = math.sqrt(short)
    w = tuple(real(0.0) for i in range(VARIABLES))
    integrals = w
    areas = tuple(tuple(real(0.0) for k in range(i)) for i in range(VARIABLES))
    for j in range(noise_substeps):
        number = step * noise_substeps + j
        parts = tuple(
            _part(short, root, source[0], path, cut * VARIABLES + i, number)
            for i in range(VARIABLES)
        )
        # From a corner of the path: half of it before the part, and the part's own.
        arm = tuple(
            0.5 * w[i] + (parts[i][1] / short - 0.5 * parts[i][0]) for i in range(VARIABLES)
        )
        areas = tuple(
            tuple(areas[i][k] + (arm[k] * parts[i][0] - arm[i] * parts[k][0]) for k in range(i))
            for i in range(VARIABLES)
        )
        integrals = tuple(integrals[i] + fma(short, w[i], parts[i][1]) for i in range(VARIABLES))
        w = tuple(w[i] + parts[i][0] for i in range(VARIABLES))
    return tuple((w[i], integrals[i], areas[i]) for i in range(VARIABLES))


def increments_in_cell(width, source, trajectory, cell, level, number):
    """`increment_in_cell` of every variable."""
    return tuple(
        increment_in_cell(width, source, trajectory, i, cell, level, number)
        for i in range(VARIABLES)
    )


def with_noise(t, h, y, yd, end, f, p, w):
    """State at the end of a step; `end` is the state without noise, `f` the slope at the beginning.

    `w` are the `increments` of independent processes.
    """
    g = spread(t, y, yd, p)
    if SCHEME == 4:
        return _of_weak_order_2(t, h, y, yd, end, f, g, p, w)
    if AREAS:
        return _by_areas(t, h, y, yd, end, g, p, w)
    if len(MIXTURE) > 0:
        w = tuple(
            (
                sum(
                    (MIXTURE[i][j] * w[j][0] for j in range(i + 1) if MIXTURE[i][j] != 0.0),
                    real(0.0),
                ),
                sum(
                    (MIXTURE[i][j] * w[j][1] for j in range(i + 1) if MIXTURE[i][j] != 0.0),
                    real(0.0),
                ),
            )
            for i in range(VARIABLES)
        )
    if SCHEME == 1 and STRATONOVICH:
        ahead = tuple(fma(g[i], w[i][0], end[i]) for i in range(VARIABLES))
        g1 = spread(t + h, ahead, yd, p)
        g = tuple(0.5 * (g[i] + g1[i]) for i in range(VARIABLES))
    if SCHEME == 1:
        return tuple(fma(g[i], w[i][0], end[i]) for i in range(VARIABLES))
    root = math.sqrt(h)
    if SCHEME == 2 and STRATONOVICH:
        # A one-sided difference has an error whose mean is not zero, and which adds up.
        above = spread(t, tuple(fma(root, g[i], y[i]) for i in range(VARIABLES)), yd, p)
        below = spread(t, tuple(fma(-root, g[i], y[i]) for i in range(VARIABLES)), yd, p)
        return tuple(
            fma(g[i], w[i][0], end[i]) + (above[i] - below[i]) * w[i][0] * w[i][0] / (4.0 * root)
            for i in range(VARIABLES)
        )
    if SCHEME == 2:
        moved = spread(
            t, tuple(fma(root, g[i], fma(h, f[i], y[i])) for i in range(VARIABLES)), yd, p
        )
        return tuple(
            fma(g[i], w[i][0], end[i]) + (moved[i] - g[i]) * (w[i][0] * w[i][0] - h) / (2.0 * root)
            for i in range(VARIABLES)
        )
    later = spread(t + h, y, yd, p)
    inner = slope(
        t + 0.75 * h,
        tuple(fma(0.75 * h, f[i], y[i]) + 1.5 * g[i] * (w[i][1] / h) for i in range(VARIABLES)),
        yd,
        p,
    )
    return tuple(
        y[i]
        + h * (f[i] + 2.0 * inner[i]) / 3.0
        + later[i] * w[i][0]
        + (g[i] - later[i]) * (w[i][1] / h)
        for i in range(VARIABLES)
    )


def _columns(g):
    """Coefficients of each independent process in the variables."""
    return tuple(
        tuple(SHARES[i][j] * g[i] if SHARES[i][j] != 0.0 else 0.0 * g[i] for i in range(VARIABLES))
        for j in range(VARIABLES)
    )


def _moved(y, size, column):
    return tuple(fma(size, column[i], y[i]) for i in range(VARIABLES))


def _mixed(values):
    """Processes of the variables, made of independent ones."""
    return tuple(
        sum((SHARES[i][j] * values[j] for j in range(VARIABLES) if SHARES[i][j] != 0.0), real(0.0))
        for i in range(VARIABLES)
    )


def _by_areas(t, h, y, yd, end, g, p, w):
    """`with_noise` by Milstein's method, where the noise of a variable depends on others.

    With the derivative D_j along the column of process j, it adds the sum over j and k of
    D_j g_i share_ik I_jk, and I_jk = (W_j W_k - h if j = k) / 2 + a_jk.
    """
    root = math.sqrt(h)
    less = real(0.0) if STRATONOVICH else h
    products = tuple(
        tuple(
            0.5 * (w[j][0] * w[k][0] - (less if j == k else 0.0))
            + (w[k][2][j] if j < k else (-w[j][2][k] if k < j else 0.0))
            for k in range(VARIABLES)
        )
        for j in range(VARIABLES)
    )
    columns = _columns(g)
    above = tuple(spread(t, _moved(y, root, columns[j]), yd, p) for j in range(VARIABLES))
    below = tuple(spread(t, _moved(y, -root, columns[j]), yd, p) for j in range(VARIABLES))
    by_process = tuple(_mixed(products[j]) for j in range(VARIABLES))
    mixed = _mixed(tuple(w[j][0] for j in range(VARIABLES)))
    return tuple(
        fma(g[i], mixed[i], end[i])
        + sum(((above[j][i] - below[j][i]) * by_process[j][i] for j in range(VARIABLES)), real(0.0))
        / (2.0 * root)
        for i in range(VARIABLES)
    )


def _of_weak_order_2(t, h, y, yd, end, f, g, p, w):
    """`with_noise` by the explicit method of weak order 2 of Kloeden and Platen, eq. 15.1.3.

    The signs of V_rj are products of those of the deviations of paths from a line, one for each
    process: they are uncorrelated, which is all that this order needs.
    """
    root = math.sqrt(h)
    dw = tuple(w[j][0] for j in range(VARIABLES))
    sign = tuple(real(1.0) if w[j][1] >= 0.5 * h * dw[j] else real(-1.0) for j in range(VARIABLES))
    # W_r W_j + V_rj for r < j, and W_r W_j - h for r = j, by the root of h
    products = tuple(
        tuple(
            (dw[r] * dw[j] + (-h if r == j else (h if r < j else -h) * sign[r] * sign[j])) / root
            for j in range(VARIABLES)
        )
        for r in range(VARIABLES)
    )
    mixed = _mixed(dw)
    whole = tuple(fma(g[i], mixed[i], end[i]) for i in range(VARIABLES))
    f1 = slope(t + h, whole, yd, p)
    # Along its own column a process sees the drift too, along those of others it does not.
    columns = _columns(g)
    above = tuple(spread(t + h, _moved(end, root, columns[j]), yd, p) for j in range(VARIABLES))
    below = tuple(spread(t + h, _moved(end, -root, columns[j]), yd, p) for j in range(VARIABLES))
    before = tuple(spread(t, _moved(y, root, columns[j]), yd, p) for j in range(VARIABLES))
    behind = tuple(spread(t, _moved(y, -root, columns[j]), yd, p) for j in range(VARIABLES))
    added = tuple(
        _mixed(
            tuple(
                (above[j][i] + below[j][i] + 2.0 * g[i]) * dw[j]
                + (above[j][i] - below[j][i]) * products[j][j]
                + sum(
                    (
                        (before[r][i] + behind[r][i] - 2.0 * g[i]) * dw[j]
                        + (before[r][i] - behind[r][i]) * products[r][j]
                        for r in range(VARIABLES)
                        if r != j
                    ),
                    real(0.0),
                )
                for j in range(VARIABLES)
            )
        )[i]
        for i in range(VARIABLES)
    )
    return tuple(fma(0.5 * h, f1[i] - f[i], end[i]) + 0.25 * added[i] for i in range(VARIABLES))


def with_implicit_drift(t, h, y, y1, f, history, p):
    """The end `y1` of a step by Euler's method, with an implicit drift: one step of Newton's.

    `f` is the slope at the end `t` and the state `y` at the beginning.
    """
    matrix = jacobian(t, y, f, history, p)
    factors = factorised(
        tuple(
            tuple((1.0 if i == j else 0.0) - h * matrix[i][j] for j in range(VARIABLES))
            for i in range(VARIABLES)
        )
    )
    moved = solved(factors, tuple(y1[i] - y[i] for i in range(VARIABLES)))
    return tuple(y[i] + moved[i] for i in range(VARIABLES))


def expected_error(t, h, y, yd, end, f, p):
    """Root mean square of the difference from a step by Euler's method, and the size of the state.

    Both are known before the path within the step is, so that the path does not choose the steps.
    """
    g = spread(t, y, yd, p)
    root = math.sqrt(h)
    above = tuple(fma(root, g[i], y[i]) for i in range(VARIABLES))
    below = tuple(fma(-root, g[i], y[i]) for i in range(VARIABLES))
    if SCHEME == 2:
        high, low = spread(t, above, yd, p), spread(t, below, yd, p)
        noise = tuple(real(_ROOT_8) * root * abs(high[i] - low[i]) for i in range(VARIABLES))
    else:
        later = spread(t + h, y, yd, p)
        noise = tuple(real(_ROOT_3) * root * abs(later[i] - g[i]) for i in range(VARIABLES))
    rise = slope(t + h, tuple(above[i] + (end[i] - y[i]) for i in range(VARIABLES)), yd, p)
    fall = slope(t + h, tuple(below[i] + (end[i] - y[i]) for i in range(VARIABLES)), yd, p)
    error = tuple(
        noise[i] + 0.5 * h * max(abs(rise[i] - f[i]), abs(fall[i] - f[i])) for i in range(VARIABLES)
    )
    return error, tuple(max(abs(above[i]), abs(below[i])) for i in range(VARIABLES))


class Paths(NamedTuple):
    """The noise of all trajectories of a run."""

    seed: int = 0
    substeps: int = 1  # increments per step
    first: int = 0  # number of the first trajectory
    sharers: int = 1  # successive trajectories that have one path

    @property
    def source(self) -> tuple[np.uint64, np.int64, np.int64]:
        """Argument of kernels, see `increment`."""
        return np.uint64(self.seed), np.int64(self.substeps), np.int64(self.sharers)

    @property
    def bindings(self) -> dict[Any, Any]:
        """Bindings of a kernel with noise."""
        return {SUMMED: self.substeps > 1, SHARED: self.sharers > 1}


OWN_PATHS = Paths()


def bindings_of(field: VectorField, scheme: int, paths: Paths) -> dict[Any, Any]:
    """Bindings of a kernel for a field with a diffusion."""
    assert field.diffusion is not None
    size, parameters = len(field.variables), len(field.parameters)
    bindings = {
        diffusion: UserFunction(field.diffusion, (size,), parameters), **paths.bindings,
    }  # fmt: skip
    if field.correlation is not None:
        bindings[MIXTURE] = mixture_of(field.correlation)
    needs_areas = scheme == MILSTEIN and mixed_noise(field) is not None
    if needs_areas:
        bindings[AREAS] = True
    if needs_areas or scheme == PLATEN:
        bindings[SHARES] = bindings.get(MIXTURE) or tuple(map(tuple, np.eye(size).tolist()))
    if field.interpretation == "stratonovich":
        bindings[STRATONOVICH] = True
    return bindings
