"""How much Gaussian cells bend: whether a sum of them stands well for a density with noise.

A few densities are followed twice by a coarse sum: with slopes and curvatures of the field over
each cell, and with the slope at its centre alone. Where noise makes cells so wide that the field
bends within them, the moments of both differ. The difference is of the second order in the size of
the cells, and the error of the sum is of a higher one: in many cases it is far less. So if they
differ, a sum as fine as that of a run is compared with points that noise moves at random, which
tell its error but for chance. With noise by a function, or a likelihood that is not Gaussian, it
always is: cells are then not quite Gaussians.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ergode.density.flow.carrier import Carrier
from ergode.density.flow.drawn import Drawn
from ergode.density.flow.points import CUT, WIDE_BY_DEFAULT, wide_start_of
from ergode.density.flow.reliable import BEND_MOST
from ergode.density.flow.solve import Row, actions, scales_of
from ergode.density.flow.weighted import Moments
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.gate import gated
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Density, Gaussian, Mixture, Samples

_CELLS = 1_500
_FINE = 3e-4  # error of a step, in deviations
_DENSITIES = 4  # of a bank
_ROWS = 16  # of the times of the results

_FEWEST = 2_000  # drawn points that count
_OF_SKEWNESS = 1 / 3  # an error of the skewness, as one of a deviation

History = list[tuple[float, Moments, np.ndarray]]  # times, moments, and skewness of variables


class Bend(NamedTuple):
    """The largest difference of moments, and when it is first more than BEND_MOST."""

    size: float  # in deviations
    time: float  # infinite if never
    is_compared: bool  # with points that noise moves at random
    plain: float  # difference of means, deviations and log evidences alone, in deviations
    skewness: float  # difference of the skewness, which counts for noise by a function

    @property
    def sizes(self) -> str:
        """What is how far off."""
        by = "of drawn points" if self.is_compared else "of cells that do not bend"
        text = f"means, deviations and log evidences are within {self.plain:.2g} {by}"
        if self.skewness > 0.0:
            text += f", and the skewness of variables within {self.skewness:.2g}"
        return text

    @property
    def told(self) -> str:
        """What the size is."""
        if self.is_compared:
            return f"moments of Gaussian cells are {self.size:.2g} deviations off drawn points"
        return f"Gaussian cells bend by {self.size:.2g} deviations"


def bend_of(asked: Estimation, options: dict[str, Any]) -> Bend:
    """The bend of the cells of some densities; `options` are keyword arguments of `Carrier`."""
    found = [
        _bend_of(int(which), asked, options)
        for which in np.unique(np.linspace(0, asked.layout.count - 1, _DENSITIES).astype(int))
    ]
    size = max(one.size for one in found)
    return Bend(
        size, min(one.time for one in found), any(one.is_compared for one in found),
        max(one.plain for one in found), max(one.skewness for one in found),
    )  # fmt: skip


def _bend_of(which: int, asked: Estimation, options: dict[str, Any]) -> Bend:
    prior, values = asked.priors[which], asked.values[np.array([which])]
    scales = scales_of([prior])

    def followed(cells: int, is_linear: bool) -> History:
        start = wide_start_of(prior, None, CUT, cells)
        carrier = Carrier(
            asked.field, [start], values, scales, fine=_FINE, is_linear=is_linear, **options
        )
        return _moments(carrier, which, asked)

    noise = options["noise"]
    is_local = noise is not None and noise.function is not None
    # What noise by a function, or another likelihood, makes of a Gaussian cell, both are blind to.
    is_sure = not is_local and all(one.is_gaussian for one in asked.measurements)
    if is_sure:
        found = _difference(followed(_CELLS, False), followed(_CELLS, True))
        if found.size <= BEND_MOST:
            return found
    more = {name: options[name] for name in ("killing", "periods") if name in options}
    of_points = prior
    if isinstance(prior, Density):
        of_points = wide_start_of(prior, None, CUT).prior  # samples
    assert isinstance(of_points, Gaussian | Mixture | Samples)
    drawn = Drawn(
        asked.field, of_points, values, scales, noise, float(np.ptp(asked.times)), **more
    )  # fmt: skip
    whole = followed(WIDE_BY_DEFAULT, False)
    found = _difference(whole, _moments(drawn, which, asked, 0 if is_sure else _FEWEST), is_local)
    return found._replace(is_compared=True)


def _difference(sums: History, others: History, is_local: bool = False) -> Bend:
    """How far moments are apart; for noise by a function, third ones too."""
    worst, first = np.zeros(2), np.inf
    for (time, one, skew), (_, other, other_skew) in zip(sums, others, strict=False):
        deviation = np.sqrt(np.diagonal(one.covariance[0]))
        apart = np.abs(one.mean[0] - other.mean[0]) / deviation
        wide = np.abs(np.sqrt(np.diagonal(other.covariance[0])) / deviation - 1.0)
        evidence = np.abs(one.log_mass - other.log_mass)
        third = np.abs(skew - other_skew) if is_local else np.zeros(1)
        both = np.array([np.max(np.concatenate([apart, wide, evidence])), np.max(third)])
        worst = np.maximum(worst, np.where(np.isfinite(both), both, np.inf))
        size = max(worst[0], _OF_SKEWNESS * worst[1])
        first = min(first, time if size > BEND_MOST else np.inf)
    plain, skewness = worst.tolist()
    return Bend(max(plain, _OF_SKEWNESS * skewness), first, False, plain, skewness)


def _moments(carrier: Carrier, which: int, asked: Estimation, fewest: int = 0) -> History:
    """Moments at some times of the results, and at measurements.

    Drawn points of which less than the `fewest` count after a measurement tell nothing later on.
    """
    one = np.array([which])
    rows = set(np.linspace(0, asked.times.size - 1, _ROWS).astype(int).tolist())
    found, last, places = [], float(asked.times[0]), asked.layout.beside[one]
    constant = np.zeros(1)
    for time, action in actions(asked):
        if action is None:
            carrier.follow(last, time)
            last = time
            continue
        if isinstance(action, Maneuver):
            carrier.jump(action, places)
            continue
        if isinstance(action, Measurement):
            _, left_out = gated(carrier, action, places)
            constant = constant + carrier.weigh(*action.without(left_out, places))
            if isinstance(carrier, Drawn) and carrier.fewest < fewest:
                break
        elif isinstance(action, Row) and action.row not in rows:
            continue
        moments = carrier.moments()
        whole = replace(moments, log_mass=moments.log_mass + constant)
        found.append((time, whole, _skewness(carrier, moments)))
    return found


def _skewness(carrier: Carrier, moments: Moments) -> np.ndarray:
    """Third moments [variable] of a density about its mean, in deviations."""
    states, log = carrier.host(0)
    with np.errstate(invalid="ignore"):  # nothing may be left
        weight = np.exp(log - log.max())
    weight, states = weight / weight.sum(), np.where(weight[:, None] > 0, states, 0.0)
    n, variance = carrier.size, moments.covariance[0].diagonal()
    away = carrier.short_way(states[:, :n] - moments.mean[0])
    own = np.square(states[:, n:].reshape(len(states), -1, n)).sum(axis=1)
    return np.asarray(weight @ (away**3 + 3.0 * away * own)) / variance**1.5
