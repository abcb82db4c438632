"""Rows of numbers and tables, as user functions read them: a dot product, and a table of cubics.

An element by a computed index is NaN beyond the ends of its array.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, real

NOT_A_NUMBER = math.nan


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


def is_inside(i, length):
    """Whether a dim has the index, which counts from the end if it is negative."""
    return i >= -length and i < length


def element(values, i):
    """An element of an array; NaN beyond its ends."""
    if is_inside(i, values.shape[0]):
        return real(values[np.int64(i)])
    return real(NOT_A_NUMBER)


def element_2(values, i, j):
    """An element of an array; NaN beyond its ends."""
    if is_inside(i, values.shape[0]) and is_inside(j, values.shape[1]):
        return real(values[np.int64(i), np.int64(j)])
    return real(NOT_A_NUMBER)


def element_3(values, i, j, k):
    """An element of an array; NaN beyond its ends."""
    inside = is_inside(i, values.shape[0]) and is_inside(j, values.shape[1])
    if inside and is_inside(k, values.shape[2]):
        return real(values[np.int64(i), np.int64(j), np.int64(k)])
    return real(NOT_A_NUMBER)


def place(values, i):
    """The index of an element to write.

    Beyond the ends it is the last one, and the first element becomes NaN.
    """
    if is_inside(i, values.shape[0]):
        return np.int64(i)
    values[0] = real(NOT_A_NUMBER)
    return np.int64(values.shape[0] - 1)


def place_2(values, i, j):
    """As `place`."""
    if is_inside(i, values.shape[0]) and is_inside(j, values.shape[1]):
        return np.int64(i), np.int64(j)
    values[0, 0] = real(NOT_A_NUMBER)
    return np.int64(values.shape[0] - 1), np.int64(values.shape[1] - 1)


def place_3(values, i, j, k):
    """As `place`."""
    inside = is_inside(i, values.shape[0]) and is_inside(j, values.shape[1])
    if inside and is_inside(k, values.shape[2]):
        return np.int64(i), np.int64(j), np.int64(k)
    values[0, 0, 0] = real(NOT_A_NUMBER)
    return (
        np.int64(values.shape[0] - 1),
        np.int64(values.shape[1] - 1),
        np.int64(values.shape[2] - 1),
    )
