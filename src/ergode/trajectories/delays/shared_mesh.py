"""One mesh for all trajectories: `SHARED` in `segments`."""

from __future__ import annotations

from ergode.core.compiler.language import fma, real, unroll
from ergode.trajectories.delays.history_ring import JUMPS, breaks_at, slot_before, slot_of
from ergode.trajectories.delays.interpolants import point, through
from ergode.trajectories.delays.segments import near_to
from ergode.trajectories.steppers.equations import COEFFICIENTS, PLACES


def end_of_cell(n, origin, width, last):
    """Time at which cell `n` ends, or the run if it ends earlier."""
    end = fma(real(n + 1), width, origin)
    return end if end < last - near_to(last, origin, width) else last


def stencil(d, n, now, period, lags, breaks):
    """Stencil of delay `d` in cell `n`: slots of both ends and of the third point, its position.

    The third point is the one before the delayed cell, or the one after it if the delayed cell
    begins at a breaking point.
    """
    cell = n - lags[d]
    broken = breaks_at(cell, breaks)
    other = (
        slot_before(cell + 2, n, now, period, lags) if broken else slot_of(cell - 1, n, now, period)
    )
    return (
        slot_of(cell, n, now, period),
        slot_before(cell + 1, n, now, period, lags),
        other,
        real(2.0) if broken else real(-1.0),
    )


def read(d, place, ring, me):
    """Polynomial of delay `d` from its stencil."""
    third = (real(0.0), real(0.0))
    if COEFFICIENTS == 6:
        third = point(ring, place[2], PLACES[d], me)
    return through(
        point(ring, place[0], PLACES[d], me), point(ring, place[1], PLACES[d], me), third, place[3]
    )


def turns(n, lags):
    """Whether the slope jumps at the beginning of cell `n`."""
    found = n == 0
    if JUMPS:
        for d in unroll(range(len(PLACES))):
            found = found or n == lags[d]
    return found


def smooth_before(n, breaks):
    """Whether no breaking point lies within the stencil of the error estimate of cell `n`."""
    return n >= 2 and not (breaks_at(n, breaks) or breaks_at(n - 1, breaks))
