"""Small linear systems: unrolled LU factorisation and triangular solves.

There is no pivoting: steps are small, so the diagonal dominates.  If a step is wrong nevertheless,
its error estimate rejects it.
"""

from __future__ import annotations

from ergode.core.compiler.language import unroll
from ergode.trajectories.steppers.equations import VARIABLES


def factorised(a):
    """LU factors in one matrix, with the reciprocals of the pivots on the diagonal."""
    for m in unroll(range(VARIABLES)):
        pivot = 1.0 / a[m][m]
        a = tuple(
            tuple(
                (pivot if j == m else a[i][j])
                if i == m
                else (
                    a[i][j]
                    if (i < m or j < m)
                    else (a[i][m] * pivot if j == m else a[i][j] - (a[i][m] * pivot) * a[m][j])
                )
                for j in range(VARIABLES)
            )
            for i in range(VARIABLES)
        )
    return a


def solved(factors, b):
    """Solution for the right-hand side `b`."""
    for i in unroll(range(1, VARIABLES)):
        b = tuple(
            (sum(((-factors[i][m]) * b[m] for m in range(i)), b[i]) if q == i else b[q])
            for q in range(VARIABLES)
        )
    for r in unroll(range(VARIABLES)):
        b = tuple(
            (
                factors[q][q]
                * sum(((-factors[q][m]) * b[m] for m in range(q + 1, VARIABLES)), b[q])
                if q == VARIABLES - 1 - r
                else b[q]
            )
            for q in range(VARIABLES)
        )
    return b
