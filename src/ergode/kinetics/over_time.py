"""Conditions that change in time: points, functions, and their tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers
from ergode.core.errors import ModelError

OR_OVER_TIME = ", a Trajectory or a function of time"
"""What an argument may be besides numbers, for messages."""


@dataclass(frozen=True)
class Trajectory:
    """A condition or a parameter that changes in time, linear between points.

    Parameters
    ----------
    times : array_like, shape [point_count]
        Ascending [time].
    values : array_like, shape [point_count] or [zone_count, point_count]
        Such as temperatures [K] or densities [g/cm3]; constant before the first and after the last
        time. For a jump give two times side by side: t and ``numpy.nextafter(t, numpy.inf)``.

    Examples
    --------
    >>> import ergode
    >>> ergode.kinetics.Trajectory([0, 1], [2e9, 1e9]).values.shape
    (2,)
    """

    times: np.ndarray
    values: np.ndarray

    def __init__(self, times: ArrayLike, values: ArrayLike) -> None:
        grid, rows = as_numbers(times), as_numbers(values)
        if grid is None or rows is None:
            what = "times" if grid is None else "values"
            raise ModelError(f"{what} of a Trajectory are not real numbers")
        ascends = grid.ndim == 1 and grid.size > 1 and (np.diff(grid) > 0).all()
        if not ascends or not np.isfinite(grid).all():
            twice = grid.ndim == 1 and bool((np.diff(grid) == 0.0).any())
            jump = "; a jump has two times side by side: t and numpy.nextafter(t, numpy.inf)"
            raise ModelError(
                "times of a Trajectory must be two or more finite, ascending numbers"
                f"{jump if twice else ''}"
            )
        if rows.shape[-1:] != grid.shape or rows.ndim > 2:
            raise ModelError(
                f"values of a Trajectory have shape {rows.shape}; expected [{grid.size}] or "
                f"[zone_count, {grid.size}], one for every time"
            )
        object.__setattr__(self, "times", grid)
        object.__setattr__(self, "values", rows)


def daylight(time: float, *, sunrise: float = 4.5, sunset: float = 19.5) -> float:
    """The sunlight at a time of day, 1 at noon and 0 at night, as in KPP's mechanisms (`SUN`).

    Parameters
    ----------
    time : float
        Since midnight of the first day [s].
    sunrise, sunset : float
        Hours of the day.

    References
    ----------
    R. Sander, A. Sandu et al., "KPP user manual", `Update_SUN`.

    Examples
    --------
    >>> import ergode
    >>> [round(ergode.kinetics.daylight(3600.0 * hour), 3) for hour in (0, 6, 12, 20)]
    [0.0, 0.287, 1.0, 0.0]
    """
    if not 0 <= sunrise < sunset <= 24:
        raise ModelError(f"sunrise is {sunrise} and sunset {sunset}; expected hours from 0 to 24")
    from_noon = (2.0 * (time / 3600.0 % 24.0) - sunrise - sunset) / (sunset - sunrise)
    return 0.5 * (1.0 + math.cos(math.pi * from_noon**2)) if abs(from_noon) < 1.0 else 0.0


_UNIFORM, _DECADES, _DEEPEST, _MOST_KNOTS = 4096, 15, 40, 2_000_000


def tabulated(
    name: str, function: Callable[[Any], Any], grid: np.ndarray, tolerance: float,
    least: ArrayLike = 0.0, together: bool = False,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Tabulate a function of time for linear interpolation.

    The function is sampled on the grid, on 4,096 equal intervals and on a geometric grid of 15
    decades after the first time. Each interval is halved until linear interpolation is accurate
    within the relative `tolerance`; it is relative to the `least` of a row, where values are below
    that. An interval below 1e-13 of the run is taken as a jump. A function that takes times
    `together` gets an array, and returns rows.

    Returns
    -------
    tuple of ndarray
        Times, and values of shape [zone_count, knot_count].
    """
    first, last = float(grid[0]), float(grid[-1])
    span, smallest = last - first, np.reshape(least, (-1, 1))

    def at(times: np.ndarray) -> np.ndarray:
        if together:
            return np.asarray(function(times), np.float64)
        try:
            rows = [np.atleast_1d(np.asarray(function(float(t)), np.float64)) for t in times]
            found = np.stack(rows, axis=-1)
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"{name} as a function of time: {error}") from None
        if found.ndim != 2:
            raise ModelError(f"{name} as a function of time returns an array of {found.ndim} dims")
        return found

    even = first + span * np.linspace(0.0, 1.0, _UNIFORM + 1)
    early = first + span * np.geomspace(10.0**-_DECADES, 1.0, 16 * _DECADES)
    times = np.unique(np.concatenate([grid, even, early]))
    times = times[(times >= first) & (times <= last)]
    values = at(times)
    open_ = np.ones(max(times.size - 1, 0), bool)
    for _ in range(_DEEPEST):
        left = np.flatnonzero(open_)
        middle = 0.5 * (times[left] + times[left + 1])
        inside = (middle > times[left]) & (middle < times[left + 1])
        left, middle = left[inside], middle[inside]
        if not left.size:
            break
        between = at(middle)
        straight = 0.5 * (values[:, left] + values[:, left + 1])
        # An interval as short as this is a jump.
        short = times[left + 1] - times[left] <= 1e-13 * span
        size = np.maximum(np.abs(between), smallest)
        rough = (np.abs(between - straight) > tolerance * size).any(axis=0) & ~short
        left, middle, between = left[rough], middle[rough], between[:, rough]
        if times.size + left.size > _MOST_KNOTS:
            raise ModelError(
                f"{name} as a function of time needs more than {_MOST_KNOTS:,} knots; is "
                "it noise?  A larger rtol needs fewer, and a Trajectory is taken as it is"
            )
        open_ = np.zeros(times.size - 1, bool)
        open_[left] = True
        # Both halves of an interval are tested in the next pass.
        halves = np.insert(open_, left + 1, True)
        times = np.insert(times, left + 1, middle)
        values = np.insert(values, left + 1, between, axis=1)
        open_ = halves
    return times, values


def linear_at(times: np.ndarray, knots: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`numpy.interp` of every row, shape [row, time], without one call for each row."""
    below = np.clip(np.searchsorted(knots, times, side="right") - 1, 0, knots.size - 1)
    above = np.minimum(below + 1, knots.size - 1)
    length = np.where(above > below, knots[above] - knots[below], 1.0)
    since = np.maximum(times - knots[below], 0.0)
    found = rows.take(below, axis=1)  # ten times as fast as an index
    inside = (above > below) & (since > 0.0)
    if inside.any():
        slopes = (rows[:, above[inside]] - found[:, inside]) / length[inside]
        found[:, inside] += slopes * since[inside]
    return found


def changes(value: Any) -> bool:
    """Whether a value changes in time."""
    return isinstance(value, Trajectory) or callable(value)


def cut(value: Any, start: int, stop: int) -> Any:
    """The values of some of the zones."""
    if isinstance(value, Trajectory):
        several = value.values.ndim > 1 and len(value.values) > 1
        return Trajectory(value.times, value.values[start:stop]) if several else value
    return value if callable(value) or np.size(value) < 2 else np.asarray(value)[start:stop]
