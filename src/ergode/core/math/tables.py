"""Rows of numbers and tables, as user functions read them: a dot product, and tables of cubics.

An element by a computed index is NaN beyond the ends of its array.

The tables of a field's inputs are numbers in memory that all trajectories read (`input_value`):

    for each input, the place of its list
    a list: how many tables, and the place of each
    a table: HEAD numbers (pieces, period or 0, first time, scale of the times, way of the time),
        then for each piece the time at which it begins, and its coefficients c0 to c3
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import ByPrecision, fma, number_at, real
from ergode.core.math.whole import floor

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


HEAD, ROW = 5, 5
_ROUNDING = ByPrecision(2.0**-23, 2.0**-52)


def input_value(number, choice, high, low, t):
    """Value at `t` of the table `choice` of an input; at a step that before it.

    `high` and `low` are the two parts of the address of all tables.
    """
    address, row, x = _piece(number, choice, high, low, t)
    c0, c1 = number_at(x, address, row + 1), number_at(x, address, row + 2)
    c2, c3 = number_at(x, address, row + 3), number_at(x, address, row + 4)
    return fma(fma(fma(c3, x, c2), x, c1), x, c0)


def input_slope(number, choice, high, low, t):
    """Derivative by `t` of `input_value`."""
    address, row, x = _piece(number, choice, high, low, t)
    c1, c2 = number_at(x, address, row + 2), number_at(x, address, row + 3)
    c3 = number_at(x, address, row + 4)
    way = number_at(x, address, _table(number, choice, address) + 4)
    return way * fma(fma(3.0 * c3, x, 2.0 * c2), x, c1)


def input_curvature(number, choice, high, low, t):
    """Second derivative by `t` of `input_value`."""
    address, row, x = _piece(number, choice, high, low, t)
    return fma(6.0 * number_at(x, address, row + 4), x, 2.0 * number_at(x, address, row + 3))


def next_knot(number, choice, high, low, t):
    """First time after `t` at which a piece of an input begins, more than roundings later."""
    address = _address(high, low)
    table = _table(number, choice, address)
    period, begin = number_at(t, address, table + 1), number_at(t, address, table + 2)
    after = t + 2.0 * _near(address, table, t)
    turn = real(0.0)
    if period > 0.0:
        turn = period * floor((after - begin) / period)
    least, most = np.int64(-1), np.int64(number_at(t, address, table))
    count = most
    while most - least > 1:
        middle = (least + most) >> 1
        if number_at(t, address, table + HEAD + ROW * middle) > after - turn:
            most = middle
        else:
            least = middle
    if most < count:
        return number_at(t, address, table + HEAD + ROW * most) + turn
    return begin + period + turn if period > 0.0 else real(math.inf)


def past_knot(number, choice, high, low, t):
    """The time `t`, moved by so many roundings that a knot there is before it."""
    address = _address(high, low)
    return t + 3.0 * _near(address, _table(number, choice, address), t)


def _piece(number, choice, high, low, t):
    """The address of the tables, the place of the piece at `t`, and the time since it began."""
    address = _address(high, low)
    table = _table(number, choice, address)
    t = real(t) * number_at(real(t), address, table + 4)
    period, begin = number_at(t, address, table + 1), number_at(t, address, table + 2)
    at = t - _near(address, table, t)
    if period > 0.0:
        turn = period * floor((at - begin) / period)
        at, t = at - turn, t - turn
    least, most = np.int64(0), np.int64(number_at(t, address, table))
    while most - least > 1:
        middle = (least + most) >> 1
        if number_at(t, address, table + HEAD + ROW * middle) > at:
            most = middle
        else:
            least = middle
    row = table + HEAD + ROW * least
    return address, row, t - number_at(t, address, row)


def _address(high, low):
    return ((np.int64(high) << 24) + np.int64(low)) << 3


def _table(number, choice, address):
    """The place of a table."""
    place = np.int64(number_at(choice, address, np.int64(number)))
    return np.int64(number_at(choice, address, place + 1 + np.int64(choice)))


def _near(address, table, t):
    """Times are equal if they differ by less: a few roundings."""
    return 8.0 * _ROUNDING * (abs(t) + number_at(t, address, table + 3))


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
