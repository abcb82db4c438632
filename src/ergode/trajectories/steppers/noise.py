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

Strong orders: `euler-maruyama` 1/2, `milstein` (derivative-free) 1, and `sra1` 3/2 (additive noise:
g depends on time only).

P. E. Kloeden, E. Platen, "Numerical Solution of Stochastic Differential Equations" (1992), eqs.
10.2.4 and 11.1.7; W. Ruemelin, SIAM J. Numer. Anal. 19, 604 (1982); A. Roessler, SIAM J.
Numer. Anal. 48, 922 (2010), table 6.1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import UserFunction, fma, option, real
from ergode.core.math.random import WIENER, draw_words, normal
from ergode.models.fields.correlation import mixture_of
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers.equations import PLACES, VARIABLES, slope

SCHEME = option(0)  # 0 no noise, 1 Euler-Maruyama, 2 Milstein, 3 SRA1
STRATONOVICH = option(False)  # whether the integrals are those of Stratonovich, not of Ito
SUMMED = option(False)  # whether a step sums several increments
SHARED = option(False)  # whether several trajectories have one path
MIXTURE = option(())  # weights of independent processes in each; empty if all are independent
diffusion = option()  # diffusion(t, y, yd, p), or without delays (t, y, p): the user's function

_ROOT_3 = 0.57735026918962576


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
        w0, w1, w2, w3 = draw_words(
            source[0], path, variable, WIENER, np.uint32(step * noise_substeps + j)
        )
        part = root * normal(w0, w1)
        inner = 0.5 * short * fma(root * _ROOT_3, normal(w2, w3), part)
        integral = integral + fma(short, w, inner)
        w = w + part
    return w, integral


def with_noise(t, h, y, yd, end, f, p, source, trajectory, step, cut=0):
    """State at the end of a step; `end` is the state without noise, `f` the slope at the beginning.

    `cut` counts how often events have truncated the step; each remainder has new increments.
    """
    g = spread(t, y, yd, p)
    w = tuple(increment(h, source, trajectory, cut * VARIABLES + i, step) for i in range(VARIABLES))
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


def bindings_of(field: VectorField, paths: Paths) -> dict[Any, Any]:
    """Bindings of a kernel for a field with a diffusion."""
    assert field.diffusion is not None
    size, parameters = len(field.variables), len(field.parameters)
    bindings = {
        diffusion: UserFunction(field.diffusion, (size,), parameters), **paths.bindings,
    }  # fmt: skip
    if field.correlation is not None:
        bindings[MIXTURE] = mixture_of(field.correlation)
    if field.interpretation == "stratonovich":
        bindings[STRATONOVICH] = True
    return bindings
