"""Temperature and density given over time, and the largest step that they allow.

Both are linear between knots. A step allows only a small relative change of either, so no step
misses a pulse, even if reactions are slow when the pulse begins. A step may cross a knot only if
the jump of the slope is below the tolerance, as on a finely sampled smooth curve; otherwise the
step ends at the knot.

Time is stored as a knot and the time since that knot. Precision then depends neither on the origin
of time nor on the length of the run.
"""

from __future__ import annotations

from ergode.kinetics.kernel_options import (
    COMPRESSED,
    FED,
    FLOW,
    FORMULAS,
    MOVING,
    OWN_TOLERANCES,
    SUNLIT,
    TIMED,
    WALLED,
)
from ergode.kinetics.tables import CHANGING, CLOSED, ConditionHistory

# --- device functions -----------------------------------------------------------------------------

NEARLY = 1.0000001
"""A step that would end within this factor of a knot ends at the knot."""


def history_of(history, zone):
    """The conditions of one zone."""
    # Where zones have none of their own, the only row is for all.
    own = min(zone, history.factors.shape[0] - 1)
    # On CUDA a function cannot return a part of an array, except in a tuple.
    return ConditionHistory(
        history.times, history.temperature[zone], history.density[zone], history.factors[own],
        history.inflow[zone] if FLOW != CLOSED else (), history.sunlight[zone] if SUNLIT else (),
        history.tolerances[min(zone, history.tolerances.shape[0] - 1)] if OWN_TOLERANCES else (),
        history.parameters[zone] if FORMULAS else (), history.drives[zone] if FORMULAS else (),
        history.compression[zone] if COMPRESSED and not MOVING else (),
        history.wall[min(zone, history.wall.shape[0] - 1)] if WALLED else (),
        history.motion[zone] if MOVING else (), history.feed[zone] if FED else (),
    )  # fmt: skip


def history_at(times, values, below, last, since):
    """A value `since` after the knot `below`; the segment is at most `last`."""
    if not TIMED:
        return values[0]
    k = below
    width = times[k + 1] - times[k]
    while k < last and since > width:
        since -= width
        k += 1
        width = times[k + 1] - times[k]
    share = min(max(since / width, 0.0), 1.0)
    return (1.0 - share) * values[k] + share * values[k + 1]


def settled(times, below, since):
    """Express a time by the last knot before it and the time since."""
    while below + 2 < times.size and since >= times[below + 1] - times[below]:
        since -= times[below + 1] - times[below]
        below += 1
    return below, since


def until_changed(begin, stop, at_first, most):
    """Fraction of a linear segment after which a value differs from `at_first` by `most`."""
    if abs(stop - at_first) <= most:
        return 2.0
    target = at_first + most if stop > at_first else at_first - most
    return min(max((target - begin) / (stop - begin), 0.0), 1.0)


def bend(times, values, k, h, more):
    """Change of a value by the jump of its slope at the end of segment k, over it plus `more`."""
    width, following = times[k + 1] - times[k], times[k + 2] - times[k + 1]
    jump = (values[k + 2] - values[k + 1]) / following - (values[k + 1] - values[k]) / width
    return abs(jump) * min(h, max(width, following)) / (values[k + 1] + more)


def fed_at(history, column, below, last, since):
    """A column of `feed` at a time."""
    width = history.times.size + 1
    values = history.feed[column * width : (column + 1) * width]
    return history_at(history.times, values, below, last, since)


def wall_at(history, below, last, since):
    """Coefficient times area of the wall, and its temperature, at a time."""
    if WALLED == CHANGING:
        times, width = history.times, history.times.size + 1
        passage, around = history.wall[:width], history.wall[width : 2 * width]
        return (
            history_at(times, passage, below, last, since),
            history_at(times, around, below, last, since),
        )  # fmt: skip
    if WALLED:
        return history.wall[0], history.wall[1]
    return 0.0, 0.0


def until_driven(times, drives, below, since, k, left, change):
    """Fraction of segment k after which one of `drives` has changed by the fraction `change`.

    Changes are relative to the value at the time `since` after the knot `below`, plus the largest
    value. The segment is the one k, from `left` on.
    """
    width, share = times.size + 1, 2.0
    for j in range(drives.size // width):
        values = drives[j * width : (j + 1) * width]
        at_first = history_at(times, values, below, below, since)
        begin = history_at(times, values, k, k, left)
        most = change * (abs(at_first) + values[times.size])
        share = min(share, until_changed(begin, values[k + 1], at_first, most))
    return share


def drives_bend(times, drives, k, h):
    """The largest `bend` of `drives` at the end of segment k, over their magnitude."""
    width, found = times.size + 1, 0.0
    for j in range(drives.size // width):
        values = drives[j * width : (j + 1) * width]
        most = values[times.size]
        if most > 0.0:
            # Values may be negative: twice the largest magnitude keeps the divisor positive.
            found = max(found, 2.0 * bend(times, values, k, h, 2.0 * most))
    return found


def horizon(history, below, since, h, change, tolerance):
    """Largest step, at most h, from the time `since` after the knot `below`.

    Temperature and density change by at most the fraction `change`, and jumps of their slopes are
    below `tolerance`. The sunlight may be zero, so its changes are relative to itself plus its
    largest value.

    Returns
    -------
    tuple
        The step; the last segment that it touches; whether it ends at the end of that segment.
    """
    times, temperatures, densities = history.times, history.temperature, history.density
    hot = history_at(times, temperatures, below, below, since)
    dense = history_at(times, densities, below, below, since)
    k, passed, left = below, 0.0, since
    begin_hot, begin_dense = hot, dense
    most, light, begin_light = 0.0, 0.0, 0.0
    if SUNLIT:
        most = history.sunlight[times.size]
        light = history_at(times, history.sunlight, below, below, since)
        begin_light = light
    while True:
        width = times[k + 1] - times[k] - left
        share = min(
            until_changed(begin_hot, temperatures[k + 1], hot, change * hot),
            until_changed(begin_dense, densities[k + 1], dense, change * dense),
        )
        end = passed + width
        if SUNLIT:
            allowed = change * (light + most)
            share = min(share, until_changed(begin_light, history.sunlight[k + 1], light, allowed))
        if FORMULAS:
            share = min(share, until_driven(times, history.drives, below, since, k, left, change))
        if COMPRESSED and not MOVING:
            share = min(
                share, until_driven(times, history.compression, below, since, k, left, change)
            )
        if WALLED == CHANGING:
            share = min(share, until_driven(times, history.wall, below, since, k, left, change))
        if FED:
            share = min(share, until_driven(times, history.feed, below, since, k, left, change))
        if share <= 1.0:
            h = min(h, passed + share * width)
        final = k + 2 >= times.size
        if h * NEARLY < end and (final or 2.0 * h < end):
            return h, k, False
        smooth = False
        if not final:
            smooth = bend(times, temperatures, k, h, 0.0) <= tolerance
            smooth = smooth and bend(times, densities, k, h, 0.0) <= tolerance
            if SUNLIT and most > 0.0:
                smooth = smooth and bend(times, history.sunlight, k, h, most) <= tolerance
            if FORMULAS:
                smooth = smooth and drives_bend(times, history.drives, k, h) <= tolerance
            if COMPRESSED and not MOVING:
                smooth = smooth and drives_bend(times, history.compression, k, h) <= tolerance
            if WALLED == CHANGING:
                smooth = smooth and drives_bend(times, history.wall, k, h) <= tolerance
            if FED:
                smooth = smooth and drives_bend(times, history.feed, k, h) <= tolerance
        if h * NEARLY < end:
            # Two equal steps to the knot avoid a tiny last step.
            return h if smooth else min(h, 0.5 * end), k, False
        if not smooth:
            return end, k, True
        k += 1
        passed, left = end, 0.0
        begin_hot, begin_dense = temperatures[k], densities[k]
        if SUNLIT:
            begin_light = history.sunlight[k]
