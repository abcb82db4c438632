"""The nearest place along a path, and spheres around it: device functions.

Within a step the state is the polynomial of degree four of Dormand and Prince's pair. The distance
is sampled along it, and its least value between two samples is found by Newton's method, bounded by
bisection, with derivatives that are differences.

The probability of a sphere, for a Gaussian place, is an integral over the narrower principal axes
of error functions along the widest.

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I" (1993), II.6.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import option, real
from ergode.density.flow.gaussians import STATE
from ergode.density.grid.lattice import DIMENSION, parameters_of

WATCHED = option(False)
"""Whether the nearest place along the path is noted."""
COMPONENTS = option(1)
"""Number of components of the distance; one is a value of its own, not a length."""
distance = option()
"""``distance(y, t, p)``, the place relative to an object, or any value."""

_SAMPLES = 8
_ROUNDS = 12
_APART = np.float64(1e-3)  # of a step, between places whose difference is a derivative
_BESIDE = np.float64(0.1)  # of a step, between places that tell the velocity
_CLOSE = np.float64(1e-10)  # of a step


def bend_of(h, a, c, e, f, g, last):
    """What the polynomial of a step has beside the values and slopes at its ends."""
    return tuple(
        h * (
            (-12715105075.0 / 11282082432.0) * a[d] + (87487479700.0 / 32700410799.0) * c[d]
            - (10690763975.0 / 1880347072.0) * e[d] + (701980252875.0 / 199316789632.0) * f[d]
            - (1453857185.0 / 822651844.0) * g[d] + (69997945.0 / 29380423.0) * last[d]
        )
        for d in range(STATE)
    )  # fmt: skip


def _at(share, t, h, y, after, a, last, bend, frame):
    """Size, time, and components of the distance at a share of the step."""
    s = real(share)
    left = real(1.0) - s
    place = tuple(
        y[d] + s * (
            (after[d] - y[d]) + left * (
                (h * a[d] - (after[d] - y[d])) + s * (
                    (real(2.0) * (after[d] - y[d]) - h * (a[d] + last[d])) + left * bend[d]
                )
            )
        )
        for d in range(DIMENSION)
    )  # fmt: skip
    p = parameters_of(frame)
    time = t + share * np.float64(h)
    found = distance(place, real(time), p)
    size = np.float64(found[0])
    if COMPONENTS > 1:
        size = np.float64(0.0)
        for k in range(COMPONENTS):
            size += np.float64(found[k]) * np.float64(found[k])
    return (size, time) + tuple(np.float64(found[k]) for k in range(COMPONENTS))  # noqa: RUF005


def _velocity(share, t, h, y, after, a, last, bend, frame):
    """Velocity of the distance at a share of the step, by a parabola."""
    middle = min(max(share, _BESIDE), np.float64(1.0) - _BESIDE)
    below = _at(middle - _BESIDE, t, h, y, after, a, last, bend, frame)
    here = _at(middle, t, h, y, after, a, last, bend, frame)
    above = _at(middle + _BESIDE, t, h, y, after, a, last, bend, frame)
    away = (share - middle) / _BESIDE
    return tuple(
        (
            np.float64(0.5) * (above[k + 2] - below[k + 2])
            + away * ((above[k + 2] - here[k + 2]) - (here[k + 2] - below[k + 2]))
        ) / (_BESIDE * np.float64(h))
        for k in range(COMPONENTS)
    )  # fmt: skip


def nearer(best, t, h, y, after, a, last, bend, frame):
    """The nearest place of a step, if it is nearer than the `best` one: see `known`.

    One whose size is not a number stays the best.
    """
    here = _at(np.float64(0.0), t, h, y, after, a, last, bend, frame)
    at = 0
    for k in range(1, _SAMPLES + 1):
        found = _at(np.float64(k) / _SAMPLES, t, h, y, after, a, last, bend, frame)
        if found[0] < here[0] or found[0] != found[0]:
            here = found
            at = k
    if here[0] != here[0]:
        return here + tuple(here[0] for _ in range(COMPONENTS))
    low = np.float64(max(at - 1, 0)) / _SAMPLES
    high = np.float64(min(at + 1, _SAMPLES)) / _SAMPLES
    around = max(
        _at(low, t, h, y, after, a, last, bend, frame)[0],
        _at(high, t, h, y, after, a, last, bend, frame)[0],
    )
    # Between samples it is hardly deeper than it rises to the next of them.
    if here[0] - (around - here[0]) < best[0]:
        share = np.float64(at) / _SAMPLES
        for _ in range(_ROUNDS):
            below = _at(share - _APART, t, h, y, after, a, last, bend, frame)[0]
            found = _at(share, t, h, y, after, a, last, bend, frame)
            above = _at(share + _APART, t, h, y, after, a, last, bend, frame)[0]
            if found[0] < here[0]:
                here = found
            rise = above - below
            curve = (above - found[0]) - (found[0] - below)
            if rise > 0.0:
                high = share
            else:
                low = share
            following = np.float64(0.5) * (low + high)
            if curve > 0.0:
                newton = share - np.float64(0.5) * _APART * rise / curve
                if newton >= low and newton <= high:
                    following = newton
            moved = abs(following - share)
            share = following
            if moved < _CLOSE:
                break
        found = _at(share, t, h, y, after, a, last, bend, frame)
        if found[0] < here[0]:
            here = found
    if here[0] < best[0]:
        share = (here[1] - t) / np.float64(h)
        return here + _velocity(share, t, h, y, after, a, last, bend, frame)
    return best


def known(nearest, which, place):
    """The nearest place of a point so far: size, time, place, velocity."""
    return tuple(np.float64(nearest[k, which, place]) for k in range(2 * COMPONENTS + 2))


def _line(mean, wide, radius):
    """Probability that a Gaussian number is between minus `radius` and `radius`."""
    scale = np.float64(_ROOT_HALF) / wide
    return np.float64(0.5) * (
        math.erf((radius - mean) * scale) - math.erf((-radius - mean) * scale)
    )


def _disc(point, first, radius, mean, deviation, nodes, shares):
    """Probability of a disc, by the axes `first` and the next of a Gaussian."""
    middle = mean[point, first]
    wide = deviation[point, first]
    low = max(-radius, min(radius, middle - _REACH * wide))
    high = max(-radius, min(radius, middle + _REACH * wide))
    total = np.float64(0.0)
    for k in range(nodes.size):
        at = np.float64(0.5) * ((low + high) + (high - low) * nodes[k])
        away = (at - middle) / wide
        left = math.sqrt(max(np.float64(0.0), radius * radius - at * at))
        part = _line(mean[point, first + 1], deviation[point, first + 1], left)
        total += shares[k] * math.exp(np.float64(-0.5) * away * away) * part
    return total * np.float64(0.5) * (high - low) / (wide * np.float64(_ROOT_TWO_PI))


def touch(index, radii, nodes, shares, few, of_few, mean, deviation, out):
    """Probability that a Gaussian place is within one of the `radii` of zero: a kernel body.

    Model: `mean` and `deviation` [point, component] along the principal axes, the narrowest first;
    nodes and weights of Gauss and Legendre, and `few` of Gauss and Hermite. Out: `out` [point,
    radius].
    """
    point = index // radii.size
    number = index - point * radii.size
    radius = radii[number]
    total = np.float64(0.0)
    if COMPONENTS == 1:
        total = _line(mean[point, 0], deviation[point, 0], radius)
    elif COMPONENTS == 2:
        total = _disc(point, 0, radius, mean, deviation, nodes, shares)
    else:
        middle = mean[point, 0]
        wide = deviation[point, 0]
        if abs(middle) + np.float64(3.0) * wide < radius:
            for k in range(few.size):
                at = middle + wide * few[k]
                left = math.sqrt(radius * radius - at * at)
                total += of_few[k] * _disc(point, 1, left, mean, deviation, nodes, shares)
        else:
            low = max(-radius, min(radius, middle - _REACH * wide))
            high = max(-radius, min(radius, middle + _REACH * wide))
            for k in range(nodes.size):
                at = np.float64(0.5) * ((low + high) + (high - low) * nodes[k])
                away = (at - middle) / wide
                left = math.sqrt(max(np.float64(0.0), radius * radius - at * at))
                part = _disc(point, 1, left, mean, deviation, nodes, shares)
                total += shares[k] * math.exp(np.float64(-0.5) * away * away) * part
            total *= np.float64(0.5) * (high - low) / (wide * np.float64(_ROOT_TWO_PI))
    out[point, number] = total


def _on_the_way(radius, square, line, point, shift):
    """Probability that a path, which is `square` away at its nearest, passes as near as `radius`.

    `line` [point, 3 + axis] has the ends of the way from its mean, its deviation, and slopes;
    `shift` is what the place adds to its mean.
    """
    half = math.sqrt(max(np.float64(0.0), radius * radius - square))
    scale = np.float64(_ROOT_HALF) / line[point, 2]
    return np.float64(0.5) * (
        math.erf((line[point, 1] + half - shift) * scale)
        - math.erf((line[point, 0] - half - shift) * scale)
    )


def pass_by(index, radii, nodes, shares, mean, deviation, line, out):
    """Probability that a path with a Gaussian nearest place, on a way with ends, passes a sphere.

    A kernel body. Model: `mean` and `deviation` [point, axis] of the place along its principal
    axes, and `line` [point, 3 + axis], see `_on_the_way`; nodes and weights of Gauss and Legendre.
    Out: `out` [point, radius].
    """
    point = index // radii.size
    number = index - point * radii.size
    radius = radii[number]
    total = np.float64(0.0)
    first = COMPONENTS - 1
    wide = deviation[point, first]
    low = max(-radius, min(radius, mean[point, first] - _REACH * wide))
    high = max(-radius, min(radius, mean[point, first] + _REACH * wide))
    for k in range(nodes.size):
        at = np.float64(0.5) * ((low + high) + (high - low) * nodes[k])
        away = at - mean[point, first]
        shift = line[point, 3 + first] * away
        density = shares[k] * math.exp(np.float64(-0.5) * (away / wide) ** 2)
        part = np.float64(0.0)
        if COMPONENTS == 1:
            part = _on_the_way(radius, at * at, line, point, shift)
        else:
            narrow = deviation[point, 0]
            left = math.sqrt(max(np.float64(0.0), radius * radius - at * at))
            below = max(-left, min(left, mean[point, 0] - _REACH * narrow))
            above = max(-left, min(left, mean[point, 0] + _REACH * narrow))
            for j in range(nodes.size):
                across = np.float64(0.5) * ((below + above) + (above - below) * nodes[j])
                off = across - mean[point, 0]
                part += (
                    shares[j] * math.exp(np.float64(-0.5) * (off / narrow) ** 2)
                    * _on_the_way(
                        radius, at * at + across * across, line, point,
                        shift + line[point, 3] * off,
                    )
                )  # fmt: skip
            part *= np.float64(0.5) * (above - below) / (narrow * np.float64(_ROOT_TWO_PI))
        total += density * part
    out[point, number] = total * np.float64(0.5) * (high - low) / (wide * np.float64(_ROOT_TWO_PI))


_REACH = np.float64(5.5)  # deviations over which a Gaussian is integrated
_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
