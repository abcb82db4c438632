"""When two times are one: the rule of every method, on every device, in every precision.

Sums of floats round: 1.1 + 2.2 is a little more than 3.3.  Two times that differ by less than
`ROUNDING` are therefore one.  What happens at a time of the grid, by this rule, counts at that row,
the last row included.  So the grid that kernels read is a little later than the one of the user
(`Moments.latest`), and line lists say what the rows say (`on_grid`).

Contacts have times that are drawn from a continuous law, but for instantaneous meetings.  The end
of a stay, a detection or a quarantine may be at a meeting's very moment, or at that of an
importation or of the beginning of contact tracing.  Then it has the time of that moment
(`at_moment`), and the order of events within a moment is what it says.  Calendars and other
measures begin and end at their times; they are looked up a little `later`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByPrecision, fma, real
from ergode.core.compiler.source import Precision
from ergode.epidemics.shared.options import HAS_MOMENTS

# Relative difference below which two times are equal: of a sum of thousands of terms in float64.
# It is of the times that a user writes, from which that of the beginning is subtracted.
ROUNDING = 1e-12
# Likewise in float32, of times since the beginning: of a sum of sixteen terms.
ROUNDING_32 = 2.0**-20


class Moments(NamedTuple):
    """Times, and between which two others are the same; real [moment_count]."""

    time: Any
    earliest: Any
    latest: Any


def moments_of(times: np.ndarray, begin: float, precision: Precision) -> Moments:
    """Ascending times since `begin`, and what is the same: no further than half way to the next.

    The beginning itself is exact.
    """
    times = np.asarray(times, float)
    near = ROUNDING * np.maximum(np.abs(times), np.abs(times + begin))
    if precision == "float32":
        near += ROUNDING_32 * np.abs(times)
    near[times <= 0.0] = 0.0
    middle = 0.5 * (times[1:] + times[:-1])
    earliest = np.maximum(times - near, np.append(-np.inf, middle))
    latest = np.minimum(times + near, np.append(middle, np.inf))
    with np.errstate(over="ignore"):  # `check_range` says what is too large
        return Moments(*(each.astype(precision) for each in (times, earliest, latest)))


def on_grid(values: np.ndarray, grid: np.ndarray, precision: Precision) -> np.ndarray:
    """Times since the first of `grid` as those of it, none later than the row where it counts."""
    begin = float(grid[0])
    rows = np.searchsorted(moments_of(grid - begin, begin, precision).latest, values)
    return np.minimum(values + begin, np.append(grid, np.inf)[rows])


# ---- what kernels ask


def at_moment(moments, time):
    """A time, or the moment that is the same time."""
    if HAS_MOMENTS:
        low, high = np.int64(0), np.int64(moments.latest.size)
        while low < high:
            middle = (low + high) >> 1
            if moments.latest[middle] < time:
                low = middle + 1
            else:
                high = middle
        if low < moments.latest.size and moments.earliest[low] <= time:
            return moments.time[low]
    return real(time)


def _later_32(time):
    return fma(time, real(ROUNDING_32), time)


def _later_64(time):
    return fma(time, real(ROUNDING), time)


later = ByPrecision(float32=_later_32, float64=_later_64)
"""A time, late enough for what begins or ends then to have done so."""
