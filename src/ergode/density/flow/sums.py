"""Weights of points by likelihoods, and sums over points.

The points of a density are divided into groups of neighbours, whose number follows from the number
of points. Each group is added by itself, and the host adds the groups: sums do not depend on the
threads.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import atomic_add, atomic_max, option, unroll
from ergode.density.flow.gaussians import WIDE
from ergode.density.grid.lattice import DIMENSION, PARAMETERS
from ergode.models.estimation import likelihood

PERIODS = option(())
"""Period of each variable, zero if it has none; empty if none has one."""

TOGETHER = 8
"""Number of sums for which the weight of a point is worked out once."""

NONE, WEIGHT, EDGE = -1, -2, -3
"""Factors of a term that are no distance: one, the weight once more, whether it is at the edge."""


def groups_of(count: int) -> int:
    """Number of groups of `count` points: a power of two, up to 8192."""
    return int(min(8192, 1 << max(0, int(count // 16).bit_length() - 1)))


def weigh(index, count, t, parameters, values, precisions, points, log_weights, marks):
    """Add the log-likelihood of a measurement to the log-weight of one point: a kernel body.

    Model: `parameters` [density, parameter], `values` [density, component], `precisions` [density,
    component, component], `points` [dimension, density, count]. In and out: `log_weights`
    [density, count]; `marks` [2, density], the number of points whose likelihood is not a number,
    which is impossible, and the last of them, plus one.
    """
    which = index // count
    place = index - which * count
    if log_weights[which, place] > -math.inf:
        y = tuple(np.float64(points[d, which, place]) for d in range(DIMENSION))
        p = tuple(parameters[which, j] for j in range(PARAMETERS))
        found = likelihood.log_likelihood(y, t, p, values[which], precisions[which])
        if not found < math.inf:
            atomic_add(marks[0], which, np.int64(1))
            atomic_max(marks[1], which, np.int64(place + 1))
            found = np.float64(-math.inf)
        log_weights[which, place] += found


_AT_ONCE = 16  # numbers that a thread asks for before it uses the first


def largest(index, count, groups, log_weights, out):
    """Largest log-weight in one group of points of one density: a kernel body.

    Out: `out` [density, 2, groups], the weight and the number of its point.
    """
    which = index // groups
    group = index - which * groups
    best = np.float64(-math.inf)
    place = group * count // groups
    last = (group + 1) * count // groups
    for first in range(group * count // groups, last, _AT_ONCE):
        some = tuple(log_weights[which, min(first + k, last - 1)] for k in range(_AT_ONCE))
        for k in unroll(range(_AT_ONCE)):
            if some[k] > best:
                best = some[k]
                place = first + k
    out[which, 0, group] = best
    out[which, 1, group] = place


def summit(which, groups, found, points, out):
    """The largest log-weight of one density, and its point: a kernel body.

    Model: `found` by `largest`. Out: `out` [density, 1 + dimension]. The weight is zero if none is
    finite, so that others can be relative to it. The distance of the point from the mean is at most
    the square root of the number of points, in deviations: sums relative to it lose few digits.
    """
    best = found[which, 0, 0]
    group = 0
    for first in range(0, groups, _AT_ONCE):
        some = tuple(found[which, 0, min(first + k, groups - 1)] for k in range(_AT_ONCE))
        for k in unroll(range(_AT_ONCE)):
            if some[k] > best:
                best = some[k]
                group = first + k
    out[which, 0] = best if math.isfinite(best) else np.float64(0.0)
    for d in unroll(range(DIMENSION)):
        out[which, 1 + d] = points[d, which, np.int64(found[which, 1, group])]


def gather(index, groups, fewer, found, out):
    """Add up neighbouring groups of one sum of one density: a kernel body.

    Model: `found` [sum, groups]. Out: `out` [sum, fewer].
    """
    row = index // fewer
    part = index - row * fewer
    each = groups // fewer
    total = np.float64(0.0)
    last = (part + 1) * each
    for first in range(part * each, last, _AT_ONCE):
        some = tuple(found[row, min(first + k, last - 1)] for k in range(_AT_ONCE))
        for k in unroll(range(_AT_ONCE)):
            total += some[k] if first + k < last else np.float64(0.0)
    out[row, part] = total


def gained(index, count, before, log_weights, out):
    """What a measurement added to one log-weight of one density: a kernel body."""
    which = index // count
    place = index - which * count
    gain = log_weights[which, place] - before[which, place]
    out[which, place] = gain if gain > -math.inf else -math.inf


def smear(index, count, summits, beside, before, log_weights, smeared, widest):
    """Add the logarithm of a smeared likelihood at one point of one density: a kernel body.

    A cell is not its point. `before` and `log_weights` [density, count] are those before and after
    a measurement. Their difference gives the distance from what was measured, in deviations. The
    distances of the neighbours tell how it varies over the cell. Model: `summits` have the
    largest differences; `beside` [dimension, 2, count], places of neighbours, or -1. In and out:
    `smeared`, sums of logarithms, and `widest` [density, count], the largest squared spread.
    """
    which = index // count
    place = index - which * count
    own = log_weights[which, place] - before[which, place]
    if not own > -math.inf:
        smeared[which, place] = -math.inf
        return
    top = summits[which, 0]
    away = math.sqrt(max(np.float64(0.0), np.float64(2.0) * (top - own)))
    spread = np.float64(0.0)
    for d in range(DIMENSION):
        step = np.float64(0.0)
        for side in range(2):
            there = beside[d, side, place]
            if there >= 0:
                other = log_weights[which, there] - before[which, there]
                if other > -math.inf:
                    far = math.sqrt(max(np.float64(0.0), np.float64(2.0) * (top - other)))
                    step = max(step, abs(far - away))
        spread += HALF_CELL * step * step
    wide = np.float64(1.0) + spread
    smeared[which, place] += top - np.float64(0.5) * (away * away / wide + math.log(wide))
    widest[which, place] = max(widest[which, place], spread)


HALF_CELL = np.float64(0.25)  # square of half a cell


def thin(index, count, groups, summits, smeared, widest, out):
    """Smeared weight of one group of points, and of cells with a thin likelihood: a kernel body.

    `summits` have the largest logarithms. Out: `out` [density, 2, groups].
    """
    which = index // groups
    group = index - which * groups
    total = np.float64(0.0)
    among = np.float64(0.0)
    for i in range(group * count // groups, (group + 1) * count // groups):
        weight = math.exp(smeared[which, i] - summits[which, 0])
        total += weight
        if widest[which, i] > THINNEST:
            among += weight
    out[which, 0, group] = total
    out[which, 1, group] = among


THINNEST = np.float64(2.25)
"""Largest squared spread of a distance over half a cell, in deviations of what was measured."""


def part(index, count, summits, others, log_weights, smeared, widest, near, seen):
    """Smeared weight of a cell with a thin likelihood, and weight of its point: a kernel body.

    `summits` and `others` have the largest of both. Out: `near` and `seen` [density, count].
    """
    which = index // count
    place = index - which * count
    near[which, place] = 0.0
    seen[which, place] = 0.0
    if widest[which, place] > THINNEST:
        top = max(summits[which, 0], others[which, 0])
        near[which, place] = math.exp(smeared[which, place] - top)
        seen[which, place] = math.exp(log_weights[which, place] - top)


def around(index, count, d, beside, near, seen, all_near, all_seen):
    """Add the points beside a point along an axis `d` to it, of both arrays: a kernel body."""
    which = index // count
    place = index - which * count
    one = near[which, place]
    other = seen[which, place]
    for side in range(2):
        there = beside[d, side, place]
        if there >= 0:
            one += near[which, there]
            other += seen[which, there]
    all_near[which, place] = one
    all_seen[which, place] = other


def mend(index, count, log_weights, smeared, widest, near, seen, out):
    """Log-weight of a point, or of its cell if its likelihood is thin: a kernel body.

    Model: `near` and `seen` [density, count], smeared weights of cells around it, and weights of
    their points. Out: `out` [density, count].
    """
    which = index // count
    place = index - which * count
    found = log_weights[which, place]
    if widest[which, place] > THINNEST:
        if seen[which, place] * MET > near[which, place]:
            ratio = near[which, place] / seen[which, place]
            found = found + math.log(ratio) if ratio > 0.0 else np.float64(-math.inf)
        else:
            found = smeared[which, place]
    out[which, place] = found


MET = np.float64(10.0)  # smeared weight of a few cells, relative to that of their points


def turn(index, count, groups, summits, points, log_weights, out):
    """Sums of sines and cosines over one group of points of one density: a kernel body.

    Out: `out` [density, dimension, 2, groups], of periodic variables.
    """
    which = index // groups
    group = index - which * groups
    for d in unroll(range(DIMENSION)):
        across = np.float64(0.0)
        along = np.float64(0.0)
        if PERIODS[d] > 0.0:
            for i in range(group * count // groups, (group + 1) * count // groups):
                weight = math.exp(log_weights[which, i] - summits[which, 0])
                if WIDE:  # a wrapped Gaussian
                    turns = np.float64(2.0 * math.pi / PERIODS[d])
                    weight *= math.exp(
                        np.float64(-0.5) * turns * turns * _own(d, d, which, i, points)
                    )
                angle = np.float64(points[d, which, i]) * np.float64(2.0 * math.pi / PERIODS[d])
                across += weight * math.sin(angle)
                along += weight * math.cos(angle)
        out[which, d, 0, group] = across
        out[which, d, 1, group] = along


def fold(index, count, groups, beside, summits, points, log_weights, out):
    """Weighted squares of how states bend between neighbours, over one group: a kernel body.

    `beside` [dimension, 2, count]. Out: `out` [density, 1 + dimension, groups]: weights, and
    squared second differences of each variable.
    """
    which = index // groups
    group = index - which * groups
    total = np.float64(0.0)
    squares = tuple(np.float64(0.0) for d in range(DIMENSION))
    for i in range(group * count // groups, (group + 1) * count // groups):
        weight = math.exp(log_weights[which, i] - summits[which, 0])
        for e in range(DIMENSION):
            up = beside[e, 0, i]
            down = beside[e, 1, i]
            if up >= 0 and down >= 0:
                total += weight
                bends = tuple(
                    np.float64(points[d, which, up]) + np.float64(points[d, which, down])
                    - np.float64(2.0) * np.float64(points[d, which, i])
                    for d in range(DIMENSION)
                )  # fmt: skip
                squares = tuple(squares[d] + weight * bends[d] * bends[d] for d in range(DIMENSION))
    out[which, 0, group] = total
    for d in unroll(range(DIMENSION)):
        out[which, 1 + d, group] = squares[d]


def _own(d, e, which, i, points):
    """What a Gaussian cell adds to the product of two distances: its own covariance."""
    total = np.float64(0.0)
    if d >= 0 and e >= 0:
        for k in range(1, DIMENSION + 1):
            one = np.float64(points[k * DIMENSION + d, which, i])
            total += one * np.float64(points[k * DIMENSION + e, which, i])
    return total


def _distance(d, weight, rim, which, i, summits, points):
    """What one factor of a term is; see `add_up`."""
    if d >= 0:
        away = np.float64(points[d, which, i]) - summits[which, 1 + d]
        if len(PERIODS) > 0:
            period = np.float64(0.0)
            for e in unroll(range(DIMENSION)):
                if e == d:
                    period = np.float64(PERIODS[e])
            if period > 0.0:
                away -= period * math.floor(away / period + np.float64(0.5))
        return away
    if d == EDGE:
        return rim
    return weight if d == WEIGHT else np.float64(1.0)


def _wrapped(d, away, square):
    """A Gaussian distance along a periodic variable, by the short way around: three means.

    Of itself, of its square, and of its derivative by the long way. `away` and `square` are mean
    and variance of the long way; by sums over periods if it is narrow, or else by Fourier series.
    """
    period = np.float64(0.0)
    for e in unroll(range(DIMENSION)):
        if e == d:
            period = np.float64(PERIODS[e])
    wide = math.sqrt(square)
    mean = away
    second = away * away + square
    slope = np.float64(1.0)
    half = np.float64(0.5) * period
    if period > 0.0 and abs(away) + np.float64(8.0) * wide > half:
        mean = np.float64(0.0)
        if wide < _NARROW * period:
            second = np.float64(0.0)
            for k in range(-3, 4):
                middle = away - k * period
                low = (-half - middle) / wide
                high = (half - middle) / wide
                share = np.float64(0.5) * (math.erf(high * _ROOT_HALF) - math.erf(low * _ROOT_HALF))
                first = _PER_ROOT_TWO_PI * math.exp(np.float64(-0.5) * low * low)
                last = _PER_ROOT_TWO_PI * math.exp(np.float64(-0.5) * high * high)
                mean += middle * share - wide * (last - first)
                second += (middle * middle + square) * share - wide * (
                    (middle + half) * last - (middle - half) * first
                )
                slope -= period / wide * last
        else:
            slope = np.float64(0.0)
            second = period * period / np.float64(12.0)
            sign = np.float64(1.0)
            for n in range(1, 8):
                turns = np.float64(2.0 * math.pi) * n / period
                left = sign * math.exp(np.float64(-0.5) * turns * turns * square)
                scale = period / (np.float64(math.pi) * n)
                mean += left * scale * math.sin(turns * away)
                second -= left * scale * scale * math.cos(turns * away)
                slope += np.float64(2.0) * left * math.cos(turns * away)
                sign = -sign
    return mean, second, slope


_NARROW = np.float64(0.25)  # of a period: deviation from which a Fourier series takes seven terms
_ROOT_HALF = np.float64(math.sqrt(0.5))
_PER_ROOT_TWO_PI = np.float64(1.0 / math.sqrt(2.0 * math.pi))


def _product(d, e, weight, rim, which, i, summits, points):
    """Mean of the product of two factors for a Gaussian cell, where variables are periodic."""
    if e < 0 and d < 0:
        return _distance(d, weight, rim, which, i, summits, points) * _distance(
            e, weight, rim, which, i, summits, points
        )
    away = _distance(d, weight, rim, which, i, summits, points)
    one, square, slope = _wrapped(d, away, _own(d, d, which, i, points))
    if e == d:
        return square
    if e < 0:
        return one * _distance(e, weight, rim, which, i, summits, points)
    away = _distance(e, weight, rim, which, i, summits, points)
    other, square, steep = _wrapped(e, away, _own(e, e, which, i, points))
    return one * other + slope * steep * _own(d, e, which, i, points)


def add_up(
    index, count, groups, rows, columns, summits, signs, edge, points, log_weights, out
):  # fmt: skip
    """`TOGETHER` sums over one group of points of one density: a kernel body.

    The term of a point is its weight times two factors, by `rows` and `columns` [sum]: distances
    from the point of the largest weight along a variable, or NONE, WEIGHT or EDGE. A Gaussian cell
    adds its own covariance. Weights are relative to the largest. Model: `summits` [density, 1 +
    dimension], see `summit`; `edge` [count], whether a point is at the edge. Out: `out` [density,
    sum, 2, groups]: of all points, and with the `signs` [count] of points. The number of sums is a
    multiple of `TOGETHER`.
    """
    parts = rows.size // TOGETHER
    which = index // (parts * groups)
    left = index - which * (parts * groups)
    first = left // groups * TOGETHER
    group = left % groups
    top = summits[which, 0]
    totals = tuple(np.float64(0.0) for k in range(TOGETHER))
    signed = tuple(np.float64(0.0) for k in range(TOGETHER))
    for i in range(group * count // groups, (group + 1) * count // groups):
        weight = math.exp(log_weights[which, i] - top)
        sign = np.float64(signs[i])
        rim = np.float64(edge[i])
        terms = tuple(
            weight
            * _distance(rows[first + k], weight, rim, which, i, summits, points)
            * _distance(columns[first + k], weight, rim, which, i, summits, points)
            for k in range(TOGETHER)
        )
        if WIDE and len(PERIODS) > 0:
            terms = tuple(
                weight
                * _product(
                    rows[first + k], columns[first + k], weight, rim, which, i, summits, points
                )
                for k in range(TOGETHER)
            )
        elif WIDE:
            terms = tuple(
                terms[k] + weight * _own(rows[first + k], columns[first + k], which, i, points)
                for k in range(TOGETHER)
            )
        totals = tuple(totals[k] + terms[k] for k in range(TOGETHER))
        signed = tuple(signed[k] + terms[k] * sign for k in range(TOGETHER))
    for k in unroll(range(TOGETHER)):
        out[which, first + k, 0, group] = totals[k]
        out[which, first + k, 1, group] = signed[k]


STEP = -math.log(1.25)
"""Logarithm of the ratio of a power of the likelihood to the one before."""


def temper(index, count, groups, first_power, base, log_weights, out):
    """Weights of one group of points by one power of the likelihood: a kernel body.

    `base` and `log_weights` [1, count] are those before and after all measurements. Out: `out`
    [3, power, groups]: the largest logarithm, and sums of weights and squares relative to it.
    """
    which = index // groups
    group = index - which * groups
    power = math.exp(np.float64(STEP) * np.float64(first_power + which))
    top = np.float64(-math.inf)
    for i in range(group * count // groups, (group + 1) * count // groups):
        if log_weights[0, i] > -math.inf:
            top = max(top, base[0, i] + power * (log_weights[0, i] - base[0, i]))
    total = np.float64(0.0)
    squares = np.float64(0.0)
    for i in range(group * count // groups, (group + 1) * count // groups):
        if log_weights[0, i] > -math.inf:
            weight = math.exp(base[0, i] + power * (log_weights[0, i] - base[0, i]) - top)
            total += weight
            squares += weight * weight
    out[0, which, group] = top
    out[1, which, group] = total
    out[2, which, group] = squares


def take_power(index, power, base, log_weights, out):
    """Log-weight of one point by a power of the likelihood: a kernel body."""
    log = log_weights[0, index]
    out[0, index] = (
        base[0, index] + power * (log - base[0, index]) if log > -math.inf else -math.inf
    )


SHELLS = 80
"""Number of shells, half a deviation thick; the last one has what is beyond."""


def shell(index, count, groups, limit, tops, mean, inverses, points, one, other, third, out):
    """One of three weights of one group of points, in each shell around a mean: a kernel body.

    Model: logarithms `one`, `other` and `third` [1, count]; of each their `tops` [3], and
    `inverses` [3, dimension, dimension] of the root of a covariance. Out: `out` [3, SHELLS + 1,
    groups], whose last row is the weight beyond a squared distance `limit`; it comes with zeros.
    """
    size = mean.size
    which = index // groups
    group = index - which * groups
    for i in range(group * count // groups, (group + 1) * count // groups):
        log = one[0, i]
        if which > 0:
            log = other[0, i] if which == 1 else third[0, i]
        weight = math.exp(log - tops[which])
        square = np.float64(0.0)
        for d in range(size):
            along = np.float64(0.0)
            for e in range(size):
                along += inverses[which, d, e] * (points[e, 0, i] - mean[e])
            square += along * along
        if square > limit:
            out[which, SHELLS, group] += weight
        place = np.int64(min(math.sqrt(square) * 2.0, np.float64(SHELLS - 1)))
        out[which, place, group] += weight
