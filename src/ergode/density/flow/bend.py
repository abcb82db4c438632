"""How much Gaussian cells bend: whether a sum of them stands well for a density with noise.

A few densities are followed twice by a coarse sum: with slopes and curvatures of the field over
each cell, and with the slope at its centre alone. Where noise makes cells so wide that the field
bends within them, the moments of both differ. The difference is of the second order in the size of
the cells, and the error of the sum is of a higher one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.density.flow.carrier import Carrier, Moments
from ergode.density.flow.points import CUT, wide_start_of
from ergode.density.flow.solve import Row, actions, scales_of
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement

BEND_MOST = 0.05
"""Largest difference of moments of a reliable sum, in deviations."""

_CELLS = 1_500
_FINE = 3e-4  # error of a step, in deviations
_DENSITIES = 4  # of a bank
_ROWS = 16  # of the times of the results


class Bend(NamedTuple):
    """The largest difference of moments, and when it is first more than BEND_MOST."""

    size: float  # in deviations
    time: float  # infinite if never


def bend_of(asked: Estimation, options: dict[str, Any]) -> Bend:
    """The bend of the cells of some densities; `options` are keyword arguments of `Carrier`."""
    found = [
        _bend_of(int(which), asked, options)
        for which in np.unique(np.linspace(0, asked.layout.count - 1, _DENSITIES).astype(int))
    ]
    return Bend(max(one.size for one in found), min(one.time for one in found))


def _bend_of(which: int, asked: Estimation, options: dict[str, Any]) -> Bend:
    runs = [_moments(which, asked, options | {"is_linear": one}) for one in (False, True)]
    worst, first = 0.0, np.inf
    for (time, one), (_, other) in zip(*runs, strict=True):
        deviation = np.sqrt(np.diagonal(one.covariance[0]))
        apart = np.abs(one.mean[0] - other.mean[0]) / deviation
        wide = np.abs(np.sqrt(np.diagonal(other.covariance[0])) / deviation - 1.0)
        evidence = np.abs(one.log_mass - other.log_mass)
        size = float(np.max(np.concatenate([apart, wide, evidence])))
        size = size if np.isfinite(size) else np.inf
        worst = max(worst, size)
        first = min(first, time if size > BEND_MOST else np.inf)
    return Bend(worst, first)


def _moments(which: int, asked: Estimation, options: dict[str, Any]) -> list[tuple[float, Moments]]:
    """Moments at some times of the results, and at measurements."""
    start = wide_start_of(asked.priors[which], None, CUT, _CELLS)
    one = np.array([which])
    carrier = Carrier(
        asked.field, [start], asked.values[one], scales_of([asked.priors[which]]),
        fine=_FINE, **options,
    )  # fmt: skip
    rows = set(np.linspace(0, asked.times.size - 1, _ROWS).astype(int).tolist())
    found, last, places = [], float(asked.times[0]), asked.layout.beside[one]
    for time, action in actions(asked):
        if action is None:
            carrier.follow(last, time)
            last = time
            continue
        if isinstance(action, Maneuver):
            carrier.jump(action, places)
            continue
        if isinstance(action, Measurement):
            carrier.weigh(action, places)
        elif isinstance(action, Row) and action.row not in rows:
            continue
        found.append((time, carrier.moments()))
    return found
