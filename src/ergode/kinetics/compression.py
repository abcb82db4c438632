"""The volume or the pressure of zones, given over time, and how fast it changes.

Kernels read the density over that at the first time, rho = V_0 / V, or the pressure p. The work on
a zone has the same form for both:

    dU/dt = -p dV/dt = n R T d(ln rho)/dt        (internal energy, given volume)
    dH/dt =  V dp/dt = n R T d(ln p)/dt          (enthalpy, given pressure)

The energy of nuclei, per gram, changes by p / rho times these slopes. It depends on the density,
which is then a history of zones, or follows from the pressure.

The logarithmic slope has a table of its own, linear between knots: that of a table of rho would
jump at every knot. Where the slope jumps, there are two knots side by side.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.errors import ModelError
from ergode.kinetics.compositions import by_zone, check_signs
from ergode.kinetics.over_time import Trajectory, linear_at, tabulated

_RELATIVE = 8e-3  # error of a table over rtol: steps may then cross knots
_FINEST = 1e-10  # error of a table that is not below the rounding of differences
_NEAR = 1e-5  # of the run: increment of differences in time
_JUMP = 1e-13  # of the run: a shorter segment is a jump
_SPACING = 0.2  # change between two knots, over the root of rtol
_SAMPLED = 257


class GivenOverTime(NamedTuple):
    """Tables of a volume or a pressure."""

    times: np.ndarray  # [knot_count]
    values: np.ndarray  # [zone_count, knot_count]: V_0 / V, or the pressure
    slopes: np.ndarray  # [zone_count, knot_count]: of the logarithm of `values`


def given_over_time(name: str, value: Any, grid: np.ndarray, rtol: float) -> GivenOverTime:
    """Tables of ``"volume"`` or ``"pressure"``.

    Parameters
    ----------
    name : str
    value : Trajectory or function
        A function returns one number, or one for each zone.
    grid : ndarray
        Times of the result.
    rtol : float

    Raises
    ------
    ModelError
        The value is constant, not positive, or jumps.
    """
    if isinstance(value, Trajectory):
        times, values, slopes = _of_points(name, value, grid, rtol)
    elif callable(value):
        times, values, slopes = _of_function(name, value, grid, rtol)
    else:
        raise ModelError(
            f"{name} is {value!r}, and heating is 'given-{name}'; expected a Trajectory or a "
            f"function of time, or heating='constant-{name}'"
        )
    if name == "volume":
        values = values / values[:, :1]
    return GivenOverTime(times, values, slopes)


def mass_over_time(
    ends: np.ndarray, mass: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of the mass in a tank, which is linear between two times [zone, 2]."""
    return _of_points("mass", Trajectory(ends, mass), ends, rtol)


def _of_points(
    name: str, value: Trajectory, grid: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of a value that is linear between points, or of one over it."""
    first, last = grid[0], grid[-1]
    inside = value.times[(value.times > first) & (value.times < last)]
    ends = np.concatenate([[first], inside, [last]])
    rows = np.atleast_2d(value.values)
    check_signs(name, rows)
    values = linear_at(ends, value.times, rows)
    length = np.diff(ends)
    rates = np.diff(values, axis=1) / length
    short = length <= _JUMP * (last - first)
    if short.any():
        raise ModelError(
            f"{name} has two times side by side at {ends[:-1][short][0]:g}; a {name} cannot jump"
        )
    change = np.abs(np.diff(np.log(values), axis=1)).max(axis=0)
    pieces = np.maximum(1, np.ceil(change / (_SPACING * math.sqrt(rtol)))).astype(np.int64)
    segment = np.repeat(np.arange(length.size), pieces + 1)
    start = np.cumsum(pieces + 1) - (pieces + 1)
    share = (np.arange(segment.size) - start[segment]) / pieces[segment]
    times = ends[segment] + share * length[segment]
    begins = share == 0.0
    times[share == 1.0] = ends[1:]
    times[begins] = np.nextafter(ends[:-1], np.inf)
    times[0] = first
    known = values[:, segment] + rates[:, segment] * (share * length[segment])
    slopes = rates[:, segment] / known
    return (times, 1.0 / known, -slopes) if name == "volume" else (times, known, slopes)


def _of_function(
    name: str, function: Any, grid: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of a function of time, or of one over it; slopes are differences."""
    first, last = float(grid[0]), float(grid[-1])
    near = _NEAR * (last - first)

    def at(time: float) -> np.ndarray:
        found = by_zone(f"{name} as a function of time", function(time))
        check_signs(f"{name} at the time {time:g}", found)
        return 1.0 / found if name == "volume" else found

    def slope(time: float) -> np.ndarray:
        before, after = max(time - near, first), min(time + near, last)
        return np.asarray(np.log(at(after) / at(before)) / (after - before))

    steepest = max(float(np.abs(slope(t)).max()) for t in np.linspace(first, last, _SAMPLED))
    shift = steepest + 1.0 / (last - first)
    times, rows = tabulated(
        name, lambda t: np.concatenate([at(t), slope(t) + shift]), grid,
        max(_RELATIVE * rtol, _FINEST),
    )  # fmt: skip
    count = len(rows) // 2
    return times, rows[:count], rows[count:] - shift
