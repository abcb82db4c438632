r"""Diffusion by process noise: mass spreads between neighbours, by super-time-stepping.

White noise of variance Q per unit of time spreads the density of a variable.  A cell of width w
loses the fraction s = Q / (2 w^2) of its mass to each side per unit of time, and its mass obeys ::

    p_i' = (L p)_i = sum over dimensions of  s_{i+1} p_{i+1} - 2 s_i p_i + s_{i-1} p_{i-1}

A covariance Q of two variables, with c = Q / (2 w w'), moves mass between the corners of a cell
along both dimensions ::

    (L p)_i += sum over corners j of  +- (c_j p_j - c_i p_i) / 2

with the sign plus where both steps have one sign. No wave grows, however large the correlation; but
masses beside a density that is two cells wide may be negative.

For Q that depends on the state this is Ito's equation. It conserves mass, and the variance grows by
exactly Q per unit of time. No mass goes to a missing neighbour, but walls may absorb (see
`grid.walls`). What they absorb is the change of the sum.

An Euler step is stable up to 2 S dt = 1, with S the sum of s over dimensions.  A super-step of the
Runge-Kutta-Legendre scheme of second order takes n stages, each an application of L, and is stable
up to (n^2 + n - 2) / 4 times that: n stages replace about n^2 / 4 Euler steps.  With b_j =
(j^2 + j - 2) / (2 j (j + 1)), at least 1/3, and w = 4 / (n^2 + n - 2), ::

    y_1 = y_0 + b_1 w dt L y_0
    y_j = m_j y_{j-1} + v_j y_{j-2} + (1 - m_j - v_j) y_0 + m_j w dt (L y_{j-1} - a_j L y_0)

with m_j = (2j - 1) b_j / (j b_{j-1}), v_j = -(j - 1) b_j / (j b_{j-2}), a_j = 1 - b_{j-1}. The grid
grows between stages. An odd number of stages damps the shortest waves. Small negative masses that
remain are set to zero, and counted.

Noise acts half a step before transport and half a step after it (Strang); the half after one step
and the half before the next are merged.

C. D. Meyer, D. S. Balsara, T. D. Aslam, "A stabilized Runge-Kutta-Legendre method for explicit
super-time-stepping of parabolic and mixed equations", J. Comput. Phys. 257 (2014), eqs. 16-18.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import no_unroll, noinline_cpu, real, unroll
from ergode.core.group import accumulate, barrier, share
from ergode.density.grid.cells import ABSORBED, CLIPPED, REACHED, units
from ergode.density.grid.cut import density
from ergode.density.grid.growth import expand
from ergode.density.grid.lattice import (
    ABSORBING,
    CROSSED,
    CUT,
    DIMENSION,
    NOISY,
    SPREAD_KEPT,
    number_of_pair,
)

# Lengths of steps, 2 S dt. Below the first, the error of an Euler step is less than that of the
# cells. The second is for a density that may be two cells wide. The last takes 15 stages.
_EULER = np.float64(0.25)
_AT_FIRST = np.float64(1.0)
LONGEST = np.float64(59.0)


def spread_most(cells, frame):
    """S: largest sum over dimensions of the fraction that spreads each way per unit of time."""
    total = np.float64(0.0)
    if SPREAD_KEPT:
        total = np.float64(cells.fastest[1])
    else:
        for d in unroll(range(DIMENSION)):
            total += np.float64(frame.spread[d])
    return total


def longest(age, spread):
    """Largest accurate step at time `age` after the density was loaded.

    Noise has widened the density since; a step may add a fraction of that variance.
    """
    return min(LONGEST, max(_AT_FIRST, 0.5 * spread * age)) / (2.0 * spread)


def stages_of(length):
    """Number of stages of a step of 2 S dt = `length`: odd, and one for Euler's."""
    if length <= _EULER:
        return 1
    # The margin is for rounding.
    least = np.int64(math.ceil(0.5 * (math.sqrt(9.0 + 16.0 * 1.0001 * length) - 1.0)))
    return max(3, least + 1 - (least & 1))


def weight(j):
    """b of a stage."""
    return (j * j + j - 2) / (2.0 * j * (j + 1)) if j > 1 else 1.0 / 3.0


def share_of_first(stages):
    """b_1 w: the fraction of a step that the first stage takes."""
    return 4.0 / (3.0 * (stages * stages + stages - 2)) if stages > 1 else 1.0


def coefficients(j, stages):
    """m_j, v_j, 1 - m_j - v_j, m_j w and m_j w a_j."""
    w = 4.0 / (stages * stages + stages - 2)
    m = (2.0 * j - 1.0) / j * weight(j) / weight(j - 1)
    v = -(j - 1.0) / j * weight(j) / weight(j - 2)
    return real(m), real(v), real(1.0 - m - v), real(m * w), real(m * w * (1.0 - weight(j - 1)))


def change(i, cells, p, frame):
    """L p of a cell."""
    total = real(0.0)
    for d in unroll(range(DIMENSION)):
        if NOISY[d]:
            above = cells.above[d, i]
            below = cells.below[d, i]
            if CUT:
                here = cells.spread[d, i] * density(i, p, cells)
                over = cells.spread[d, above] * density(above, p, cells) - here
                under = cells.spread[d, below] * density(below, p, cells) - here
                total += cells.walls[d, i] * over if above != 0 else real(0.0)
                total += cells.walls[d, below] * under if below != 0 else real(0.0)
            elif SPREAD_KEPT:
                spread = cells.spread
                here = spread[d, i] * p[i]
                total += spread[d, above] * p[above] - here if above != 0 else real(0.0)
                total += spread[d, below] * p[below] - here if below != 0 else real(0.0)
            else:
                here = p[i]
                over = p[above] if above != 0 else here
                under = p[below] if below != 0 else here
                total += frame.spread[d] * ((over - here) + (under - here))
    if CROSSED:
        total += real(0.5) * _crossed(i, cells, p)
    if ABSORBING:
        total -= cells.walls[2 * DIMENSION, i] * p[i]
    return total


def _crossed(i, cells, p):
    """Twice what comes from the corners of a cell."""
    total = real(0.0)
    for d in unroll(range(DIMENSION)):
        for e in unroll(range(d + 1, DIMENSION)):
            if NOISY[d] and NOISY[e]:
                row = cells.spread[number_of_pair(d, e)]
                here = row[i] * p[i]
                for corner in range(4):
                    up = corner & 1 == 0
                    other = _corner(i, d, up, e, corner >> 1 == 0, cells)
                    if other != 0:
                        came = row[other] * p[other] - here
                        total += came if up == (corner >> 1 == 0) else -came
    return total


def _corner(i, d, up, e, on, cells):
    """Number of a diagonal neighbour, one step along each of two dimensions; 0 if there is none.

    A cell and its corner are corners of each other, whichever of the cells between is there.
    """
    there = cells.above[d, i] if up else cells.below[d, i]
    if there != 0:
        there = cells.above[e, there] if on else cells.below[e, there]
    if there == 0:
        there = cells.above[e, i] if on else cells.below[e, i]
        if there != 0:
            there = cells.above[d, there] if up else cells.below[d, there]
    return there


def stage(i, step, factors, cells, start, first, before, latest, frame):
    """A later stage at a cell, from the stages before it and their `coefficients`."""
    m, v, rest, by, back = factors
    return (
        m * latest[i]
        + v * before[i]
        + rest * start[i]
        + step * (by * change(i, cells, latest, frame) - back * first[i])
    )


@noinline_cpu
def diffuse(group, used, duration, floor, t, cells, masses, p, q, frame):
    """Let noise act on `p` for `duration`; returns the number of cells, and a value of STATE.

    If the grid has no room, `p` is unchanged.
    """
    counters = cells.counters
    half, flux = masses.half, masses.flux[0]
    first = used  # cells made later are dropped if there is no room for all
    used, state = expand(group, used, floor, False, t, cells, masses.key, p, q, frame)
    if state != REACHED:
        return used, state
    stages = stages_of(2.0 * duration * spread_most(cells, frame))
    step = real(duration)
    part = real(duration * share_of_first(stages))
    for i in no_unroll(share(group, 1, used)):
        flux[i] = change(i, cells, p, frame)
        half[i] = p[i] + part * flux[i]
    barrier(group)
    latest, before = half, p
    for j in range(2, stages + 1):
        fresh = used
        target = q if j & 1 == 0 else half
        used, state = expand(
            group, used, floor, False, t, cells, masses.key, latest, target,
            frame,
        )  # fmt: skip
        if state != REACHED:
            return first, state
        if used > fresh:
            for i in no_unroll(share(group, fresh, used)):
                p[i] = real(0.0)
                flux[i] = real(0.0)
            barrier(group)
        factors = coefficients(j, stages)
        for i in no_unroll(share(group, 1, used)):
            target[i] = stage(i, step, factors, cells, p, flux, before, latest, frame)
        barrier(group)
        before, latest = latest, target
    clipped = np.int64(0)
    absorbed = np.int64(0)
    for i in no_unroll(share(group, 1, used)):
        mass = latest[i]
        if ABSORBING:
            absorbed += units(p[i]) - units(mass)
        if mass < 0.0:
            clipped -= units(mass)
            mass = real(0.0)
        p[i] = mass
    accumulate(group, counters, CLIPPED, clipped)
    if ABSORBING:
        accumulate(group, counters, ABSORBED, absorbed)
    barrier(group)
    return used, state
