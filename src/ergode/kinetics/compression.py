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

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.errors import ModelError
from ergode.kinetics.compositions import by_zone, check_signs
from ergode.kinetics.over_time import Trajectory, linear_at, tabulated

_RELATIVE = 8e-3  # error of a table over rtol: steps may then cross knots
_FINEST = 1e-10  # error of a table that is not below the rounding of differences
_NEAR = 1e-5  # of the time since the first: increment of differences
_DECADES = 12  # of times after the first at which a function is looked at
_OFF = 10.0  # the most that slopes may be off from values, over rtol
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
            f"function of time{', a Piston' if name == 'volume' else ''}, or "
            f"heating='constant-{name}'"
        )
    grown = np.cumsum(0.5 * (slopes[:, 1:] + slopes[:, :-1]) * np.diff(times), axis=1)
    off = float(np.abs(grown - np.log(values[:, 1:] / values[:, :1])).max(initial=0.0))
    if off > _OFF * rtol + 1e-8:
        raise ModelError(
            f"{name} changes too quickly for the length of the run: its table is off by a "
            f"relative {off:.1g}; expected a shorter run, or a Trajectory"
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
    most = _SPACING * math.sqrt(rtol)
    parts = [
        _knots(begin, end, values[:, k], values[:, k + 1], rates[:, k], most)
        for k, (begin, end) in enumerate(itertools.pairwise(ends))
    ]
    segment = np.repeat(np.arange(length.size), [len(one) for one in parts])
    times = np.concatenate(parts)
    known = values[:, segment] + rates[:, segment] * (times - ends[segment])
    slopes = rates[:, segment] / known
    begins = np.flatnonzero(np.diff(segment, prepend=-1))[1:]
    times[begins] = np.nextafter(times[begins], np.inf)
    return (times, 1.0 / known, -slopes) if name == "volume" else (times, known, slopes)


def _knots(
    begin: float, end: float, first: np.ndarray, last: np.ndarray, rates: np.ndarray, most: float
) -> np.ndarray:
    """Times between which values [zone] that are linear in time change by no more than `most`.

    The change is that of the logarithm. The zones that grow, and those that shrink, are changing
    most in one zone at all times.
    """
    found = [np.array([begin, end])]
    for growing in (rates > 0.0, rates < 0.0):
        if growing.any():
            relative = np.where(growing, np.abs(rates) / first, 0.0)
            zone = int(np.argmax(relative))
            change = math.log(last[zone] / first[zone])
            share = np.linspace(0.0, 1.0, max(1, math.ceil(abs(change) / most)) + 1)[1:-1]
            found.append(begin + first[zone] * np.expm1(share * change) / rates[zone])
    return np.unique(np.clip(np.concatenate(found), begin, end))


def _of_function(
    name: str, function: Any, grid: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of a function of time, or of one over it; slopes are differences."""
    first, last = float(grid[0]), float(grid[-1])
    span, tolerance = last - first, max(_RELATIVE * rtol, _FINEST)

    def at(time: float) -> np.ndarray:
        found = by_zone(f"{name} as a function of time", function(time))
        check_signs(f"{name} at the time {time:g}", found)
        return 1.0 / found if name == "volume" else found

    early = np.geomspace(10.0**-_DECADES, 1.0, _SAMPLED)
    samples = first + span * np.unique(np.concatenate([early, np.linspace(0.0, 1.0, _SAMPLED)]))
    logarithms = np.array([np.log(at(time)) for time in samples])
    change = max(1.0, float(np.abs(np.diff(logarithms, axis=0)).sum(axis=0).max()))
    # Rounding of a difference over this is less than what a table may be off.
    shortest = span * min(_NEAR, 4.0 * np.finfo(float).eps / (tolerance * change))

    def slope(time: float) -> np.ndarray:
        near = shortest + _NEAR * (time - first)
        before, after = max(time - near, first), min(time + near, last)
        return np.asarray(np.log(at(after) / at(before)) / (after - before))

    count = logarithms.shape[1]
    times, rows = tabulated(
        name, lambda t: np.concatenate([at(t), slope(t)]), grid, tolerance,
        np.repeat([0.0, change / span], count),
    )  # fmt: skip
    return times, rows[:count], rows[count:]
