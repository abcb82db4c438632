"""Rounding to whole numbers of type `real`, on every target.

Compiled, `math.floor` and its siblings return 64-bit integers, which overflow: `int(x) ** 3` would
be wrong from 2^21 on.  Numbers from 2^52 on are already whole.  NaN and infinity are unchanged.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import real

ALL_WHOLE = 4503599627370496.0
"""Two to the 52: every number from here on is whole."""
LARGEST = 4611686018427387904.0
"""Two to the 62."""


def floor(a):
    """The largest whole number that is not above `a`."""
    return real(math.floor(a)) if math.fabs(a) < ALL_WHOLE else a


def ceil(a):
    """The smallest whole number that is not below `a`."""
    return real(math.ceil(a)) if math.fabs(a) < ALL_WHOLE else a


def truncate(a):
    """`a` without its fraction, as Python's `int`."""
    return real(int(a)) if math.fabs(a) < ALL_WHOLE else a


def nearest(a):
    """The nearest whole number, ties to even, as Python's `round`."""
    return real(round(a)) if math.fabs(a) < ALL_WHOLE else a


def index(a):
    """A whole number as an integer; an index out of any range if it is too large."""
    return int(a) if math.fabs(a) < LARGEST else -4611686018427387904


def element(table, i):
    """An element of a tuple of numbers; NaN beyond its ends, where Python raises an error."""
    inside = i >= -len(table) and i < len(table)
    value = real(table[i if inside else 0])
    return value if inside else real(math.nan)


def element_of_row(table, i, j):
    """An element of a tuple of tuples; NaN beyond the ends of either."""
    inside = i >= -len(table) and i < len(table)
    value = element(table[i if inside else 0], j)
    return value if inside else real(math.nan)
