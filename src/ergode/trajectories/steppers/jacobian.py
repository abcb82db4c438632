"""Jacobian and time derivative inside a kernel: symbolic (see `derivatives`), or differences."""

from __future__ import annotations

import math

from ergode.core.compiler.language import option, real, unroll
from ergode.trajectories.steppers.equations import (
    EPSILON,
    VARIABLES,
    delayed,
    delayed_slopes,
    slope,
)

EXACT = option(False)  # whether the field has symbolic derivatives
# exact_jacobian(t, y, yd, p): derivatives of every slope by every variable, in row-major order.
exact_jacobian = option()
# exact_time_slope(t, y, yd, sd, p): time derivative of every slope; `sd`: delayed slopes.
exact_time_slope = option()

_SMALLEST = 1e-5


def jacobian(t, y, f, history, p):
    """Derivatives of every slope by every variable: a tuple of rows."""
    yd = delayed(t, y, history, p)
    if EXACT:
        flat = exact_jacobian(t, y, yd, p)
        return tuple(
            tuple(real(flat[i * VARIABLES + j]) for j in range(VARIABLES)) for i in range(VARIABLES)
        )
    columns = ()
    for j in unroll(range(VARIABLES)):
        moved = y[j] + math.sqrt(EPSILON * max(real(_SMALLEST), abs(y[j])))
        distance = moved - y[j]
        other = slope(t, tuple(moved if q == j else y[q] for q in range(VARIABLES)), yd, p)
        columns = columns + (  # noqa: RUF005
            tuple((other[i] - f[i]) / distance for i in range(VARIABLES)),
        )
    return tuple(tuple(columns[j][i] for j in range(VARIABLES)) for i in range(VARIABLES))


def time_slope(t, h, y, f, history, p):
    """Time derivative of every slope, including the change of the delayed values."""
    if EXACT:
        s = exact_time_slope(t, y, delayed(t, y, history, p), delayed_slopes(t, history), p)
        return tuple(real(s[i]) for i in range(VARIABLES))
    later = t + math.sqrt(EPSILON) * max(abs(h), EPSILON * abs(t) * 1e6)
    other = slope(later, y, delayed(later, y, history, p), p)
    return tuple((other[i] - f[i]) / (later - t) for i in range(VARIABLES))
