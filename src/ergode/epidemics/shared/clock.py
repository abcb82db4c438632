"""Equality of times: one rule for all methods, devices and precisions.

Sums of floats round: 1.1 + 2.2 is a little more than 3.3.  Two times that differ by less than
`ROUNDING` are therefore treated as equal.  An event at a grid time counts in the row of this time,
also in the last row.  So the grid that kernels read is a little later than the user's grid
(`Moments.latest`), and line lists agree with the rows (`on_grid`).

Contact times have a continuous distribution, except those of instantaneous meetings.  The end of a
stay, a detection or a quarantine may coincide with a meeting, an importation or the start of
contact tracing.  It is then set to exactly that time (`at_moment`), so that the order of
simultaneous events is well defined.  A test that may end an isolation is likewise set to the end
of the node's stay, before which it is made; and an isolation that begins at the moment of the test
goes on.  Calendars and other measures begin and end at their times; they are evaluated a little
`later`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByPrecision, fma, real
from ergode.core.compiler.source import Precision
from ergode.core.math.search import first_from
from ergode.epidemics.shared.options import HAS_MOMENTS

# Relative difference below which two times are equal: enough for float64 sums of thousands of
# terms. It is relative to the user's times, before the initial time is subtracted.
ROUNDING = 1e-12
# Likewise in float32, relative to times since the beginning: enough for sums of sixteen terms.
ROUNDING_32 = 2.0**-20
_ROUNDING = ByPrecision(float32=ROUNDING_32, float64=ROUNDING)


class Moments(NamedTuple):
    """Times, and the interval in which others equal each; real [moment_count]."""

    time: Any
    earliest: Any
    latest: Any


def moments_of(times: np.ndarray, begin: float, precision: Precision) -> Moments:
    """Ascending times since `begin` with their tolerance, at most half the distance to the next.

    The time `begin` itself has no tolerance.
    """
    times = np.asarray(times, float)
    near = ROUNDING * np.maximum(np.abs(times), np.abs(times + begin))
    if precision == "float32":
        near += ROUNDING_32 * np.abs(times)
    near[times <= 0.0] = 0.0
    middle = 0.5 * (times[1:] + times[:-1])
    earliest = np.maximum(times - near, np.append(-np.inf, middle))
    latest = np.minimum(times + near, np.append(middle, np.inf))
    with np.errstate(over="ignore"):  # `check_range` reports what is too large
        return Moments(*(each.astype(precision) for each in (times, earliest, latest)))


def on_grid(values: np.ndarray, grid: np.ndarray, precision: Precision) -> np.ndarray:
    """Convert times since `grid[0]` to the clock of `grid`, at most the row that counts them."""
    begin = float(grid[0])
    rows = np.searchsorted(moments_of(grid - begin, begin, precision).latest, values)
    return np.minimum(values + begin, np.append(grid, np.inf)[rows])


# ---- device functions


def at_moment(moments, time):
    """The moment that equals `time` within the tolerance, else `time`."""
    if HAS_MOMENTS:
        low = first_from(moments.latest, np.int64(0), np.int64(moments.latest.size), time)
        if low < moments.latest.size and moments.earliest[low] <= time:
            return moments.time[low]
    return real(time)


def later(time):
    """A slightly later time, after everything that begins or ends at this time."""
    return fma(time, _ROUNDING, time)


def earlier(time):
    """A slightly earlier time, before everything that begins or ends at this time."""
    return fma(time, -_ROUNDING, time)


def precedes(first, second):
    """Whether a time is before another one, and does not equal it."""
    return later(first) < second


def snapped(time, other):
    """Another time if both are equal, else this time as it is."""
    if precedes(time, other) or precedes(other, time):
        return real(time)
    return real(other)
