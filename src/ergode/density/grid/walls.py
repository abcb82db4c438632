r"""Absorbing walls: the rates at which a cell loses mass where the region ends.

A wall crosses the line from the centre of a cell to that of a neighbour outside, at the distance
theta (0 to 1, in cells) where the line between the values of `limited_by` is zero.

*Noise.* The density is zero on the wall. With s = Q / (2 w^2) the flux into it is ::

    s p / theta

as in the symmetric scheme of Gibou et al., which is second-order although theta is not. A cell with
a small theta would need many stages. Its mass is divided by a capacity c >= 1 in all its
fluxes, such that no rate exceeds those of other cells. The density of such a cell is of the order
of theta, so that c p is of second order too.

*Drift* with the velocity v on the wall, in cells a unit of time, carries mass out at the rate ::

    v / (1/2 + theta)

because the last cell ends at the wall: its mass then takes the right time on average. The face into
this cell is of first order (see `transport`). With both, constant v and s between the centre and
the wall give the flux s B(x) p / theta with x = v theta / s and B(x) = x / (1 - exp(-x)) (the
scheme of Scharfetter and Gummel). The part s p / theta belongs to noise and the rest to drift; if
the drift is away from the wall, all belongs to noise.

The density falls towards the wall within a layer of s / v cells. Where drift is so fast that the
layer is within a cell, the density at its centre is not of the order of theta, and a capacity would
hold back what drift carries: faint noise would close the wall. So theta of the noise is at least
(v / (10 s))^2, up to 1/2, which vanishes with the square of the width.

Drift and noise take turns. To noise, drift by steps is a wall that jumps to and fro by v dt, and
the average of its effect is that of a wall nearer by about v^2 dt^(3/2) / (2 s)^(1/2) cells. Steps
are so short that this is a hundredth of a cell, but at least an eighth of a cell of drift.

F. Gibou, R. P. Fedkiw, L.-T. Cheng, M. Kang, "A second-order-accurate symmetric discretization of
the Poisson equation on irregular domains", J. Comput. Phys. 176 (2002); D. L. Scharfetter,
H. K. Gummel, "Large-signal analysis of a silicon Read diode oscillator", IEEE Trans. Electron
Devices 16 (1969).
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import real, unroll
from ergode.density.grid.lattice import DIMENSION, NOISY, drift, is_allowed, limited_value, shifted

_THETA_LEAST = 1e-6
_LAYER = 0.1  # of v / s
_MOVED_MOST = 0.01  # cells that steps move a wall
_HURRY_MOST = 8.0  # steps in which drift crosses a cell


def _hurry(v, s):
    """Largest rate of steps at a wall with noise and drift: see the docstring of the module."""
    if s <= 0.0:
        return abs(v)
    v = abs(v)
    return min((v * v / math.sqrt(2.0 * s) / _MOVED_MOST) ** (2.0 / 3.0), _HURRY_MOST * v)


def _distance(here, there):
    """Theta, from the values of `limited_by` at the centre of a cell and of its neighbour."""
    theta = here / (here - there)
    return max(theta, real(_THETA_LEAST)) if theta <= 1.0 else real(0.5)  # false for NaN


def _speed(t, z, d, side, theta, frame):
    """Velocity towards the wall [cells a unit of time]; at the centre, if infinite on the wall."""
    sign = real(1 - 2 * side)
    v = sign * drift(t, shifted(z, d, sign * theta, frame), frame)[d] / frame.width[d]
    if not math.isfinite(v):
        v = sign * drift(t, z, frame)[d] / frame.width[d]
    return v


def rates_at_wall(v, s, theta):
    """Rates by drift and by noise, from velocity, spread and the distance of the wall."""
    if s <= 0.0:
        return max(v, real(0.0)) / (0.5 + theta), real(0.0)
    if v < 0.0:
        x = v * theta / s
        part = x / -math.expm1(-x) if x < -1e-3 else 1.0 + 0.5 * x
        return real(0.0), part * s / theta
    layer = max(theta, min((_LAYER * v / s) ** 2, real(0.5)))
    x = v * layer / s
    weight = -1.0 / math.expm1(-x) - 1.0 / x if x > 1e-2 else 0.5 + x / 12.0
    return v * weight / (1.0 + (theta - 0.5) * (2.0 * weight - 1.0)), s / layer


def find_walls(i, t, z, cells, frame):
    """Compute the rates at which a cell loses mass at walls.

    Out: row ``2 d + side`` of `walls` has the rate by drift at the wall above (side 0) or below
    (side 1), -1 at a wall without such a rate, and 0 where there is no wall; the last row has the
    rate by noise at all walls. `spread` is divided by the capacity of the cell. Returns a
    bound of the rate of steps.
    """
    here = limited_value(z, frame)
    stays = real(0.0)
    sink = real(0.0)
    total = real(0.0)
    fastest = real(0.0)
    for d in unroll(range(DIMENSION)):
        s = real(cells.spread[d, i]) if NOISY[d] else real(0.0)
        total += s
        for side in unroll(range(2)):
            row = 2 * d + side
            beside = shifted(z, d, real(1 - 2 * side), frame)
            cells.walls[row, i] = real(0.0)
            if is_allowed(beside, frame):
                stays += s
            else:
                theta = _distance(here, limited_value(beside, frame))
                v = _speed(t, z, d, side, theta, frame)
                out, by_noise = rates_at_wall(v, s, theta)
                fastest = max(fastest, real(max(_hurry(v, s), out)))
                cells.walls[row, i] = out if out > 0.0 else real(-1.0)
                sink += by_noise
    if sink > 0.0:
        capacity = max(real(1.0), (2.0 * stays + sink) / (4.0 * total))
        sink /= capacity
        for d in unroll(range(DIMENSION)):
            if NOISY[d]:
                cells.spread[d, i] /= capacity
            for side in unroll(range(2)):
                if cells.walls[2 * d + side, i] > 0.0:
                    cells.walls[2 * d + side, i] /= capacity
    cells.walls[2 * DIMENSION, i] = sink
    return fastest


def at_cut(d, i, k, upward, here, there, cells):
    """Masses below and above a face, equal if the wall behind it carries mass out.

    The face is then of first order: the cell that ends at the wall is no whole cell.
    """
    if upward:
        if k != 0 and cells.walls[2 * d, k] > 0.0:
            there = here
    elif k != 0 and cells.walls[2 * d + 1, i] > 0.0:
        here = there
    return here, there


def escaping(d, i, step, mass, cells, p):
    """Mass that drift carries through the walls of a cell along one dimension."""
    rate = max(cells.walls[2 * d, i], real(0.0)) + max(cells.walls[2 * d + 1, i], real(0.0))
    return min(step * rate * p[i], max(mass, real(0.0)))
