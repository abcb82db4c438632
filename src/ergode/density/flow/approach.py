"""Probabilities of coming near, from points whose nearest places along their paths are known.

A sphere may be far smaller than the cells of a lattice, so a cell is not its point. Gaussian
windows of deviation s around the points, in spacings of the lattice, add up to one: from s = 3/4 on
within 3e-5. The density times a window is a Gaussian, of which differences between neighbours give
all: gradient g and curvature A of the log-weights at a point make its precision S = 1/s^2 + A, its
mean S^-1 g and its mass. Nearest places are expanded to second order over the window, so that each
of them has the law of a Gaussian, with the covariance D S^-1 D^T of the slopes D, and the
probability of a sphere is a sum of integrals over Gaussians. For a Gaussian density and paths that
are linear over a cell it is exact. Places that are nearest within the span are across the velocity,
and have one dimension less. The difference from windows of twice the variance, and the
square of that from places that are linear over a window, tell the error.

J. L. Foster, H. S. Estes, "A parametric analysis of orbital debris collision probability and
maneuver rate for space vehicles", NASA JSC-25898 (1992), for a single Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergode.core import kernels, launch
from ergode.core.devices import Device
from ergode.core.errors import AccuracyWarning
from ergode.density.flow.nearest import COMPONENTS, touch
from ergode.density.flow.points import Start
from ergode.models.estimation.approach import ClosestApproach

_WINDOW = 0.75  # spacings
_BOTH = 1e-3  # of what is near a sphere
_CUT = (
    "the span of the closest approach begins or ends while states are near, so probabilities may "
    "be several times too small; let it begin earlier and end later, or use an ensemble "
    "(ergode.particles)"
)
_NO_NUMBER = "the distance of the closest approach is no number along some paths; they are left out"
_FAINT = 15.0  # logarithm of the largest contribution relative to one that is left out
_AT_ONCE = 20_000  # points
_NODES = 16  # of integrals over a Gaussian
_FEW_NODES = 5  # where it is narrow


def law_of(
    nearest: np.ndarray, log_weights: np.ndarray, start: Start, asked: ClosestApproach, cut: float,
    device: Device,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Probabilities of coming as near as radii [radius], and their errors.

    `nearest` [1 + component, point] are times and nearest places, `log_weights` [point]; `cut` is
    the mass that the lattice leaves out. An error that is not known is NaN, and the reason is told.
    """
    radii, places = asked.radii, nearest[1:].T
    edge = 1e-9 * (asked.end - asked.begin)
    kinds = (nearest[0] >= asked.end - edge).astype(np.int64) - (nearest[0] <= asked.begin + edge)
    is_known = np.isfinite(places).all(axis=1)
    if not is_known[log_weights > -np.inf].all():
        launch.warn(_NO_NUMBER, AccuracyWarning)
        if not is_known.any():
            return np.full(len(radii), np.nan), np.full(len(radii), np.nan)
        cut = math.nan
    log = np.where(is_known, log_weights, -np.inf)
    log = log - np.logaddexp.reduce(log)
    if not len(start.index):
        share, deviation = _of_samples(places, np.exp(log), radii)
        return share, deviation + 0.0 * cut
    neighbours = np.where(log[start.neighbours] > -np.inf, start.neighbours, -1)
    is_flat = (kinds == 0) & (len(nearest) > 2)
    points = _Points(
        places, log, neighbours, np.asarray(start.is_edge, bool), is_flat, start.spacing
    )
    if len(nearest) > 2 and _is_cut(points, kinds, radii):
        launch.warn(_CUT, AccuracyWarning)
        cut = math.nan
    with np.errstate(invalid="ignore", divide="ignore"):  # neighbours, and shares, that are not
        share, at_edge = _by_windows(points, radii, _WINDOW, True, device)
        wide, _ = _by_windows(points, radii, _WINDOW * math.sqrt(2.0), True, device)
        straight, _ = _by_windows(points, radii, _WINDOW, False, device)
        # Of the next order: as large again, relative to what curvature does.
        curved = np.where(share > 0.0, (share - straight) ** 2 / share, 0.0)
        beyond = np.where(share > 0.0, np.minimum(1.0, at_edge / share), 1.0)
    return np.minimum(share, 1.0), np.abs(share - wide) + curved + beyond * cut


class _Points(NamedTuple):
    """Points of a lattice."""

    places: np.ndarray  # [point, component]: the nearest ones
    log: np.ndarray  # [point]: logarithm of the weight
    neighbours: np.ndarray  # [axis, 2, point], with weight, or -1
    is_edge: np.ndarray  # [point]
    is_flat: np.ndarray  # [point]: whether the place is across the velocity
    spacing: float


def _of_samples(
    places: np.ndarray, weight: np.ndarray, radii: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The share of the points, and its deviation; where there is none, as if one more had been."""
    size = places[:, 0] if places.shape[1] == 1 else np.linalg.norm(places, axis=1)
    share = (weight[:, None] * (size[:, None] <= radii)).sum(axis=0)
    count = 1.0 / (weight @ weight)
    likely = np.clip(share, 1.0 / (count + 1.0), count / (count + 1.0))
    return share, np.sqrt(likely * (1.0 - likely) / count)


def _by_windows(
    points: _Points, radii: np.ndarray, window: float, is_curved: bool, device: Device
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and what points at the edge of the lattice add to them."""
    from scipy.special import ndtr  # importing it takes 0.1 s

    places, log = points.places, points.log
    size, reach = _sizes(points)
    share, at_edge = np.zeros(len(radii)), np.zeros(len(radii))
    # A cell's mean may be shifted by a spacing, along each axis.
    chosen = _that_count(log, size - radii.max(), (0.3 + window) ** 2 * reach)
    flat = points.is_flat[chosen]
    spans = [
        (part[first : first + _AT_ONCE], is_flat)
        for part, is_flat in ((chosen[flat], True), (chosen[~flat], False))
        for first in range(0, len(part), _AT_ONCE)
    ]
    for some, is_flat in spans:
        gain, mean, covariance = _windowed(points, some, window, is_curved, is_flat)
        mass, edge = np.exp(log[some]) * gain, points.is_edge[some]
        if places.shape[1] == 1:
            deviation = np.sqrt(np.maximum(covariance[:, :, 0], 0.0)) + 1e-300
            part = ndtr((radii - mean) / deviation)
        else:
            part = _in_balls(device, mean, covariance, radii, mass)
        share += mass @ part
        at_edge += mass[edge] @ part[edge]
    return share, at_edge


def _sizes(points: _Points) -> tuple[np.ndarray, np.ndarray]:
    """Distances of places, and the squares of how far they are from those beside them."""
    places = points.places
    reach = np.zeros(len(places))
    for two in points.neighbours:
        beside = np.where(two >= 0, two, np.arange(len(places)))
        reach += (np.abs(places[beside] - places).max(axis=0) ** 2).sum(axis=1)
    return places[:, 0] if places.shape[1] == 1 else np.linalg.norm(places, axis=1), reach


def _is_cut(points: _Points, kinds: np.ndarray, radii: np.ndarray) -> bool:
    """Whether some states are nearest within the span, and some at an end, near a sphere.

    What a sphere sweeps until an end is then a part of a cell, which its point does not tell.
    `kinds` [point] are -1 at the beginning, 0 within, and 1 at the end.
    """
    size, reach = _sizes(points)
    away = np.maximum(size - radii.max(), 0.0)
    likely = points.log - 0.5 * away**2 / np.maximum(reach, 1e-300)
    weight = np.exp(likely - likely.max())
    parts = np.bincount(kinds + 1, weight)
    return bool((parts > _BOTH * weight.sum()).sum() > 1)


def _that_count(log: np.ndarray, away: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Which Gaussians, of these masses and distances from a sphere, add something to it."""
    with np.errstate(divide="ignore"):
        likely = log - 0.5 * np.maximum(away, 0.0) ** 2 / np.maximum(variance, 1e-300)
    return np.flatnonzero(likely > likely.max(initial=-np.inf) - _FAINT)


def _windowed(
    points: _Points, some: np.ndarray, window: float, is_curved: bool, is_flat: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors on masses, means and covariances of nearest places, in windows around some points.

    Unless it `is_curved`, places are linear over a window. If it `is_flat`, they have one component
    less.
    """
    places, log, neighbours = points.places, points.log, points.neighbours
    axes = len(neighbours)
    both = np.concatenate([log[:, None], places], axis=1)
    here = both[some]
    sides = [_sides(both, two, some, here) for two in neighbours]
    flat = _flattened([0.5 * (above - below)[:, 1:] for above, below, _ in sides], is_flat)
    here = flat(here)
    slope = np.zeros((len(some), axes, here.shape[1]))
    bend = np.zeros((len(some), axes, axes, here.shape[1]))
    for d in range(axes):
        above, below, alone = flat(sides[d][0]), flat(sides[d][1]), sides[d][2]
        slope[:, d] = 0.5 * (above - below)
        bend[:, d, d] = above + below - 2.0 * here
        bend[alone, d, d, 0] = -(points.spacing**2)
        for e in range(d):
            total, known = np.zeros_like(here), np.ones(len(some), bool)
            for side, sign in ((0, 1.0), (1, -1.0)):
                middle = neighbours[d][side, some]
                for other, way in ((0, 1.0), (1, -1.0)):
                    corner = np.where(middle >= 0, neighbours[e][other, middle], -1)
                    known &= corner >= 0
                    total += sign * way * flat(both[corner])
            bend[:, d, e] = bend[:, e, d] = np.where(known[:, None], 0.25 * total, 0.0)
    bend[..., 1:] *= is_curved
    gradient, curvature = slope[:, :, 0], -bend[:, :, :, 0]
    precision = np.eye(axes) + window**2 * curvature
    spread, volume = _inverse(precision)
    spread *= window**2
    shift = np.einsum("kij,kj->ki", spread, gradient)
    gain = np.exp(0.5 * np.einsum("ki,ki->k", shift, gradient)) / np.sqrt(volume)
    bends = np.moveaxis(bend[..., 1:], 3, 1)  # [point, component, axis, axis]
    first = np.moveaxis(slope[..., 1:], 2, 1)
    slopes = first + (bends @ shift[:, None, :, None])[..., 0]
    mean = here[:, 1:] + (0.5 * (first + slopes) @ shift[..., None])[..., 0]
    twice = bends @ spread[:, None]
    mean += 0.5 * np.trace(twice, axis1=2, axis2=3)
    covariance = slopes @ spread @ np.swapaxes(slopes, 1, 2)
    covariance += 0.5 * np.einsum("kadf,kbfd->kab", twice, twice, optimize=True)
    return gain, mean, covariance


def _inverse(precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses and determinants of matrices, with eigenvalues of a half at least."""
    try:
        np.linalg.cholesky(precision - 0.5 * np.eye(precision.shape[1]))
    except np.linalg.LinAlgError:  # the density is thinner than between points, or not known
        values, turn = np.linalg.eigh(precision)
        values = np.maximum(values, 0.5)
        return (turn / values[:, None]) @ np.swapaxes(turn, 1, 2), values.prod(axis=1)
    return np.linalg.inv(precision), np.linalg.det(precision)


def _flattened(slopes: list[np.ndarray], is_flat: bool) -> Callable[[np.ndarray], np.ndarray]:
    """A map of values beside each point, without the narrowest direction of places.

    A place that is nearest between the ends of a span is across the velocity. Along it, places
    differ only as their planes turn. The map leaves it out, and keeps the lengths of places.
    """
    if not is_flat:
        return lambda values: values
    turn = np.linalg.eigh(sum(one[:, :, None] * one[:, None] for one in slopes))[1]

    def flat(values: np.ndarray) -> np.ndarray:
        across = np.einsum("kc,kcd->kd", values[:, 1:], turn[:, :, 1:])
        whole, left = (np.linalg.norm(one, axis=1) for one in (values[:, 1:], across))
        longer = np.where(left > 0.0, whole / left, 1.0)
        return np.concatenate([values[:, :1], across * longer[:, None]], axis=1)

    return flat


def _sides(
    both: np.ndarray, two: np.ndarray, some: np.ndarray, here: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values above and below some points along an axis, and which of them have no neighbour."""
    (above, has_up), (below, has_down) = (_beside(both, two, some, here, one) for one in (0, 1))
    alone = ~has_up & ~has_down
    return np.where(alone[:, None], here, above), np.where(alone[:, None], here, below), alone


def _beside(
    both: np.ndarray, two: np.ndarray, some: np.ndarray, here: np.ndarray, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Values beside some points, by a parabola where nothing is there, and where a point is."""
    there, other = two[side, some], two[1 - side, some]
    second = np.where(other >= 0, two[1 - side, other], -1)
    by_line = 2.0 * here - both[other]
    found = np.where(
        (second >= 0)[:, None], 3.0 * (here - both[other]) + both[second], by_line
    )  # fmt: skip
    return np.where((there >= 0)[:, None], both[there], found), there >= 0


def _in_balls(
    device: Device, mean: np.ndarray, covariance: np.ndarray, radii: np.ndarray, mass: np.ndarray
) -> np.ndarray:
    """Probabilities that Gaussians [point, component] are within radii of the origin."""
    found = np.zeros((len(mean), len(radii)))
    away = np.linalg.norm(mean, axis=1) - radii.max()
    near = _that_count(np.log(mass), away, np.trace(covariance, axis1=1, axis2=2))
    variances, turn = np.linalg.eigh(covariance[near])
    middle = np.einsum("kab,ka->kb", turn, mean[near])
    deviation = np.sqrt(np.maximum(variances, 0.0)) + 1e-9 * radii.min()
    few, of_few = np.polynomial.hermite_e.hermegauss(_FEW_NODES)
    out = device.empty((len(near), len(radii)), np.float64)
    kernel = kernels.for_each(touch, bindings={COMPONENTS: mean.shape[1]})
    numbers = *np.polynomial.legendre.leggauss(_NODES), few, of_few / of_few.sum()
    device.run(
        kernel, out.size, *device.put_together([radii, *numbers, middle, deviation]), out
    )  # fmt: skip
    found[near] = device.get(out)
    return found
