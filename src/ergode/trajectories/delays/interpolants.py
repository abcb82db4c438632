"""Interpolants of the history within a cell: Hermite polynomials through two or three points."""

from __future__ import annotations

from ergode.core.compiler.language import fma
from ergode.trajectories.steppers.equations import COEFFICIENTS


def point(ring, slot, place, me):
    """Value and slope (times the width) of one trajectory at a slot."""
    return ring[slot, place, 0, me], ring[slot, place, 1, me]


def cubic(near, far):
    """Coefficients of the cubic Hermite interpolant on [0, 1]; `near`, `far`: value and slope."""
    rise = far[0] - near[0]
    return (near[0], near[1], 3.0 * rise - 2.0 * near[1] - far[1], near[1] + far[1] - 2.0 * rise)


def quintic(near, far, third, x):
    """Coefficients of the quintic Hermite interpolant on [0, 1] with a `third` point at `x`."""
    c = cubic(near, far)
    # The quintic is the cubic + z^2 (1 - z)^2 (a + b (z - x)), z in [0, 1].
    bump = x * x * (x - 1.0) * (x - 1.0)
    per = 1.0 / bump
    a = (third[0] - fma(x, fma(x, fma(x, c[3], c[2]), c[1]), c[0])) * per
    steep = 2.0 * x * (x - 1.0) * (2.0 * x - 1.0)
    b = (third[1] - fma(x, fma(x, 3.0 * c[3], 2.0 * c[2]), c[1]) - steep * a) * per
    a = a - b * x
    return (c[0], c[1], c[2] + a, c[3] + b - 2.0 * a, a - 2.0 * b, b)


def through(near, far, third, x):
    """Interpolant of the history: cubic or quintic, as the order of the method requires."""
    if COEFFICIENTS == 4:
        return cubic(near, far)
    return quintic(near, far, third, x)
