"""Steps of stochastic equations: what noise adds to a step.

    dy_i = f_i(t, y) dt + g_i(t, y) dW_i

with a Wiener process of its own for every variable; where g_i depends on
another variable or a delayed value, `euler-maruyama` alone keeps its order.
Increments are functions of (seed, trajectory, variable, number of the step), and an increment of a
long step is the sum of those of the short steps in it: a path can be followed with larger steps.

`euler-maruyama` is of strong order 1/2, `milstein` (without derivatives) 1, and `sra1`, for g that
depends on time alone, 3/2.

P. E. Kloeden, E. Platen, "Numerical Solution of Stochastic Differential Equations" (1992), eqs.
10.2.4 and 11.1.7; A. Roessler, SIAM J. Numer. Anal. 48, 922 (2010), table 6.1.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, option, real
from ergode.core.math.random import WIENER, draw_words, normal
from ergode.trajectories.steppers.equations import PLACES, VARIABLES, slope

SCHEME = option(0)  # 0 no noise, 1 Euler-Maruyama, 2 Milstein, 3 SRA1
SUMMED = option(False)  # whether a step is made of several increments
diffusion = option()  # diffusion(t, y, yd, p), or without delays (t, y, p): the user's function

_ROOT_3 = 0.57735026918962576


def spread(t, y, yd, p):
    """Noise of every variable."""
    g = diffusion(t, y, yd, p) if len(PLACES) > 0 else diffusion(t, y, p)
    return tuple(real(g[i]) for i in range(VARIABLES))


def increment(h, source, trajectory, variable, step):
    """Increment of a Wiener process over a step, and the integral of it less its beginning.

    `source` is the seed, and how many increments a step is made of.
    """
    noise_substeps = source[1] if SUMMED else 1
    short = h / real(noise_substeps)
    root = math.sqrt(short)
    w = real(0.0)
    integral = real(0.0)
    for j in range(noise_substeps):
        w0, w1, w2, w3 = draw_words(
            source[0], trajectory, variable, WIENER, np.uint32(step * noise_substeps + j)
        )
        part = root * normal(w0, w1)
        inner = 0.5 * short * fma(root * _ROOT_3, normal(w2, w3), part)
        integral = integral + fma(short, w, inner)
        w = w + part
    return w, integral


def with_noise(t, h, y, yd, end, f, p, source, trajectory, step, cut=0):
    """The end of a step, `end` without noise; `f` are the slopes where it begins.

    What is left of a step that an event has `cut` short, so many times, has increments of its own.
    """
    g = spread(t, y, yd, p)
    w = tuple(increment(h, source, trajectory, cut * VARIABLES + i, step) for i in range(VARIABLES))
    if SCHEME == 1:
        return tuple(fma(g[i], w[i][0], end[i]) for i in range(VARIABLES))
    root = math.sqrt(h)
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
