"""Rows of numbers and tables, as user functions read them: a dot product, and a table of cubics."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import fma, real


def interpolated(table, t):
    """Value at `t` of a table of cubics, shape [point, 5]: each knot and its coefficients.

    Beyond the knots, the first or last cubic is extrapolated.
    """
    low, high = np.int64(0), np.int64(table.shape[0] - 1)
    while high - low > 1:
        middle = (low + high) >> 1
        if t < table[middle, 0]:
            high = middle
        else:
            low = middle
    x = t - table[low, 0]
    return fma(fma(fma(table[low, 4], x, table[low, 3]), x, table[low, 2]), x, table[low, 1])


def dot(a, b):
    """Dot product of two rows of equal length, in four independent partial sums."""
    count = a.shape[0]
    s0, s1, s2, s3 = real(0.0), real(0.0), real(0.0), real(0.0)
    k = 0
    while k + 3 < count:
        s0 = fma(real(a[k]), real(b[k]), s0)
        s1 = fma(real(a[k + 1]), real(b[k + 1]), s1)
        s2 = fma(real(a[k + 2]), real(b[k + 2]), s2)
        s3 = fma(real(a[k + 3]), real(b[k + 3]), s3)
        k += 4
    while k < count:
        s0 = fma(real(a[k]), real(b[k]), s0)
        k += 1
    return (s0 + s1) + (s2 + s3)
