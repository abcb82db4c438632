"""When mixtures ignite by a criterion other than the fastest rise of the temperature.

Zones are integrated again, with times that become denser towards the fastest rise of the
temperature, and then several times with times between the neighbours of the one that was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

_ZONES = 16  # integrated at once, for they share all times
_PER_OCTAVE, _OCTAVES = 4, 20  # of the distance from the fastest rise
_FINER, _REPEATS = 16, 3


def located(
    criterion: str | float,
    run: Callable[[np.ndarray, np.ndarray], xarray.Dataset],
    zones: np.ndarray,
    steepest: np.ndarray,
    duration: float,
) -> np.ndarray:
    """Times of ignition of some zones; NaN where a rise is not reached.

    Parameters
    ----------
    criterion : str or float
        ``"pressure"``, a species, or a rise of the temperature [K].
    run : function
        Integrates these zones to these times; the first time is 0.
    zones : ndarray of int
    steepest : ndarray, like `zones`
        When the temperature rises fastest.
    duration : float
        The last time.
    """
    found = np.empty(zones.size)
    order = np.argsort(steepest)
    for start in range(0, zones.size, _ZONES):
        part = order[start : start + _ZONES]
        apart = 2.0 ** (-np.arange(_PER_OCTAVE * _OCTAVES) / _PER_OCTAVE)
        grids = np.concatenate([1.0 - apart, [1.0], 1.0 + apart, 2.0 / apart])
        rows = np.sort(np.minimum(np.outer(steepest[part], grids), duration), axis=1)
        for _ in range(_REPEATS + 1):
            times = np.unique(np.concatenate([[0.0, duration], rows.ravel()]))
            result = run(zones[part], times)
            places = np.searchsorted(times, rows)
            every = np.arange(part.size)
            signal = _signal(criterion, result)[every[:, None], places]
            best, reached = _place(criterion, signal, rows)
            low = rows[every, np.maximum(best - 1, 0)]
            high = rows[every, np.minimum(best + 1, rows.shape[1] - 1)]
            middle = rows[every, best]
            rows = np.linspace(low, high, 2 * _FINER + 1, axis=1)
            rows = np.sort(np.concatenate([rows, np.zeros((part.size, 1))], axis=1), axis=1)
        found[part] = np.where(reached, middle, np.nan)
    return found


def _signal(criterion: str | float, result: xarray.Dataset) -> np.ndarray:
    """What the criterion looks at, shape [zone, time]."""
    if criterion == "pressure":
        return np.asarray(result["pressure"])
    if isinstance(criterion, str):
        return np.asarray(result["concentration"].sel(species=criterion))
    hot = np.asarray(result["temperature"])
    return hot - hot[:, :1]


def _place(
    criterion: str | float, signal: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Index of the time nearest to ignition in each row, and whether there is one."""
    if criterion == "pressure":
        length = np.diff(times, axis=1)
        slope = np.diff(signal, axis=1) / np.where(length > 0, length, np.inf)
        best = slope.argmax(axis=1)
        # The steeper neighbour tells which end of the interval is nearer.
        padded = np.pad(slope, ((0, 0), (1, 1)), constant_values=-np.inf)
        every = np.arange(best.size)
        return best + (padded[every, best + 2] > padded[every, best]), np.ones(best.size, bool)
    if isinstance(criterion, str):
        return signal.argmax(axis=1), np.ones(len(signal), bool)
    above = np.asarray(signal >= criterion)
    return above.argmax(axis=1), np.asarray(above.any(axis=1))
