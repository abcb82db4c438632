"""Points of a lattice: laid in the prior, chosen, and marked. These are the kernels."""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import atomic_max, atomic_swap_if
from ergode.density.grid.lattice import DIMENSION


def put_point(index, count, means, edges, places, log_share, points, log_weights):
    """Lay one point of the lattice of one density: a kernel body.

    Model: `means` [density, dimension], `edges` of a cell [density, dimension, axis], `places`
    [axis, count], `log_share` [count]. Out: `points` [dimension, density, count], `log_weights`
    [density, count].
    """
    which = index // count
    place = index - which * count
    for d in range(DIMENSION):
        at = means[which, d]
        for k in range(DIMENSION):
            at += edges[which, d, k] * places[k, place]
        points[d, which, place] = at
    log_weights[which, place] = log_share[place]


def by_prior(index, means, precisions, constants, log_volume, constant, points, out):
    """Log-weight of one point by a sum of Gaussians, and its volume: a kernel body.

    Model: `means` [term, dimension], `precisions` [term, dimension, dimension], `constants`
    [term]; `log_volume` [count], or [1] for all. Out: `out` [1, count].
    """
    own = log_volume[index] if log_volume.size > 1 else log_volume[0]
    found = _log_sum(index, 0, constants.size, means, precisions, constants, points)
    out[0, index] = found + own + constant


def _log_sum(index, first, last, means, precisions, constants, points):
    """Logarithm of the sum of some Gaussians at a point."""
    size = means.shape[1]
    best = np.float64(-math.inf)
    total = np.float64(0.0)
    for k in range(first, last):
        square = np.float64(0.0)
        for d in range(size):
            along = np.float64(0.0)
            for e in range(size):
                along += precisions[k, d, e] * (points[e, 0, index] - means[k, e])
            square += along * (points[d, 0, index] - means[k, d])
        log = constants[k] - np.float64(0.5) * square
        if log > best:
            total = total * math.exp(best - log) + np.float64(1.0)
            best = log
        else:
            total += math.exp(log - best)
    return best + math.log(total)


def widen(index, which, mean, variance, periods, points, smeared, out):
    """Log-weight of one cell, with what it adds to the moments if it is far away: a kernel body.

    Model: `mean`, `variance` and `periods` [dimension], zero if there is none; `points`
    [state, density, point] and `smeared` [density, point]. Out: `out` [1, point].
    """
    far = np.float64(0.0)
    for d in range(mean.size):
        away = np.float64(points[d, which, index]) - mean[d]
        if periods[d] > 0.0:
            away -= periods[d] * math.floor(away / periods[d] + np.float64(0.5))
        far = max(far, away * away / variance[d])
    far = far if far < math.inf else np.float64(0.0)
    out[0, index] = smeared[which, index] + math.log1p(min(far, np.float64(FARTHEST)))


FARTHEST = 1e4
"""Largest squared distance from a mean that counts, in deviations."""


def choose(index, count, numbers, source, out):
    """Copy one of the chosen columns of one row: a kernel body.

    Model: `numbers` [count] of columns, `source` [row, ...]. Out: `out` [row, count].
    """
    row = index // count
    place = index - row * count
    out[row, place] = source[row, numbers[place]]


# ---- flags and numbers


GROUP = 64
"""Flags that one thread counts."""


def count_flags(index, count, flags, out):
    """Number of flags [count] that are set, of one group: a kernel body. Out: `out` [group]."""
    total = 0
    for i in range(index * GROUP, min((index + 1) * GROUP, count)):
        total += 1 if flags[i] != 0 else 0
    out[index] = total


def number_flags(index, count, begin, flags, out):
    """Numbers of the flags that are set, -1 for others, of one group: a kernel body.

    Model: `begin` [group], the first number of each group. Out: `out` [count].
    """
    number = begin[index]
    for i in range(index * GROUP, min((index + 1) * GROUP, count)):
        is_set = flags[i] != 0
        out[i] = number if is_set else -1
        number += 1 if is_set else 0


def place_flags(index, count, begin, flags, out):
    """Put places of the flags that are set, of one group, where their numbers say: a kernel body.

    Model: `begin` [group], the first number of each group. Out: `out`.
    """
    number = begin[index]
    for i in range(index * GROUP, min((index + 1) * GROUP, count)):
        if flags[i] != 0:
            out[number] = i
            number += 1


BINS = 256
"""Number of bins of weights; the last one has the faintest."""

BINS_IN_UNIT = 8.0


def bin_weights(index, count, parts, top, other_top, one, other, out):
    """Weights of one part of the points, by the logarithms of one of two weights: a kernel body.

    The tops are at least their largest logarithms. Out: `out` [1 or 2, BINS, parts], which comes
    with zeros.
    """
    whose = index // parts
    part = index - whose * parts
    for i in range(part * count // parts, (part + 1) * count // parts):
        below = top - one[0, i] if whose == 0 else other_top - other[0, i]
        if below < math.inf:
            which = np.int64(max(min(below * BINS_IN_UNIT, np.float64(BINS - 1)), 0.0))
            out[whose, which, part] += math.exp(-below)


def mark(index, log_weights, counts, outer, faint, unseen, central, chosen):
    """Whether one cell has much of the weight, and whether it has any: a kernel body.

    Model: `log_weights` and `counts` [1, count], and their least values. Out: `central` and
    `chosen` [count].
    """
    central[index] = 1 if log_weights[0, index] >= outer else 0
    has_weight = log_weights[0, index] >= faint or counts[0, index] >= unseen
    chosen[index] = 1 if has_weight else 0


def mark_heavy(index, log_weights, least, out):
    """Whether one point has at least some weight: a kernel body. Out: `out` [count]."""
    out[index] = 1 if log_weights[0, index] >= least else 0


def mark_beside(index, count, beside, central, chosen, missing):
    """Whether one cell is beside a central one, and which cells it lacks there: a kernel body.

    Model: `beside` [axis, 2, count]. In and out: `chosen` [count]. Out: `missing` [axis, 2, count].
    """
    for d in range(beside.shape[0]):
        for side in range(2):
            there = beside[d, side, index]
            if there >= 0 and central[there] != 0:
                chosen[index] = 1
            missing[(d * 2 + side) * count + index] = 1 if there < 0 and central[index] != 0 else 0


def changes(index, count, parts, top, log_weights, beside, central, out):
    """Weighted squared changes of log-weights along each axis, of one part: a kernel body.

    Out: `out` [2 * axis, parts], squares and then weights, which comes with zeros.
    """
    for i in range(index * count // parts, (index + 1) * count // parts):
        if central[i] != 0:
            weight = math.exp(log_weights[0, i] - top)
            for d in range(beside.shape[0]):
                up = beside[d, 0, i]
                down = beside[d, 1, i]
                if up >= 0 and down >= 0:
                    change = log_weights[0, up] - log_weights[0, down]
                    if math.isfinite(change):
                        out[d, index] += weight * change * change
                        out[beside.shape[0] + d, index] += weight


# ---- a table of cells by their places


EMPTY = np.int64(0)
_ODD = np.int64(-7046029254386353131)  # an odd number without a pattern


def step_of(axis):
    """By how much the key of a cell grows from one to the next along an axis; they are all odd."""
    key = np.int64(axis + 1) * _ODD
    key = (key ^ (key >> np.int64(29))) * np.int64(-4658895280553007687)
    key = (key ^ (key >> np.int64(32))) * np.int64(-7723592293110705685)
    return key | np.int64(1)


def key_of(cells, which):
    """Key of a cell [1 + axis, cell]: that of another, or EMPTY, is equal by a chance of 1e-19."""
    key = _ODD
    for d in range(cells.shape[0]):
        key += step_of(d) * np.int64(cells[d, which])
    return key


def slot_of(keys, key):
    """Where a key is in a table, or may be put."""
    last = np.int64(keys.size - 1)
    slot = ((key * _ODD) >> np.int64(24)) & last
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + np.int64(1)) & last
    return slot


def insert(keys, key):
    """Put a key into a table, unless it is there; returns where it is."""
    last = np.int64(keys.size - 1)
    slot = ((key * _ODD) >> np.int64(24)) & last
    found = atomic_swap_if(keys, slot, EMPTY, key)
    while found != EMPTY and found != key:
        slot = (slot + np.int64(1)) & last
        found = atomic_swap_if(keys, slot, EMPTY, key)
    return slot


def take_cell(index, chosen, cells, out, keys, values):
    """Take one `chosen` cell over, and put it into the table: a kernel body.

    Model: `cells` [1 + axis, count]. Out: `out` [1 + axis, chosen], and the table.
    """
    for d in range(cells.shape[0]):
        out[d, index] = cells[d, chosen[index]]
    values[insert(keys, key_of(cells, chosen[index]))] = -index - 1


def claim(index, lacking, cells, keys, values):
    """Put one lacking cell into the table; the last that lacks it makes it: a kernel body.

    Model: numbers of sides that are `lacking`, as in `mark_beside`.
    """
    atomic_max(values, insert(keys, _key_beside(lacking[index], cells)), np.int64(index + 1))


def _key_beside(side, cells):
    count = cells.shape[1]
    which = side // count
    axis = which // 2
    step = step_of(axis + 1)
    return key_of(cells, side - which * count) + (step if which - 2 * axis == 0 else -step)


def is_claimed(index, lacking, cells, keys, values, out):
    """Whether who lacks a cell here makes it: a kernel body. Out: `out` [lacking]."""
    there = values[slot_of(keys, _key_beside(lacking[index], cells))]
    out[index] = 1 if there == index + 1 else 0


def make_cell(index, first, lacking, numbers, cells, out, keys, values):
    """Make one lacking cell that has a number, from `first` on: a kernel body."""
    if numbers[index] >= 0:
        count = cells.shape[1]
        which = lacking[index] // count
        axis = which // 2
        number = first + numbers[index]
        for d in range(cells.shape[0]):
            out[d, number] = cells[d, lacking[index] - which * count]
        out[axis + 1, number] += 1 if which - 2 * axis == 0 else -1
        values[slot_of(keys, _key_beside(lacking[index], cells))] = -number - 1


# ---- parts of cells


def divide(index, each, along, origins, edges, cells, keys, values, parts, beside, points, signs,
           is_edge):  # fmt: skip
    """One of the `each` parts of a cell: a kernel body.

    Model: numbers of parts `along` each axis; of each component, the part with the index zero in
    `origins` [component, axis], and `edges` of parts [component, axis, axis]; `cells` [1 + axis,
    cell], and the table of them. Out: of all parts their index `parts` [1 + axis, part], neighbours
    `beside` [axis, 2, part], `points` [axis, 1, part], `signs` and `is_edge` [part].
    """
    size = along.size
    cell = index // each
    corner = index - cell * each
    component = cells[0, cell]
    parts[0, index] = component
    stride = each
    left = corner
    total = 0
    for d in range(size):
        stride = stride // along[d]
        place = left // stride
        left -= place * stride
        own = cells[d + 1, cell] * along[d] + place
        parts[d + 1, index] = own
        total += own
    signs[index] = 1 - 2 * (total & 1)
    for d in range(size):
        at = origins[component, d]
        for e in range(size):
            at += edges[component, d, e] * np.float64(parts[e + 1, index])
        points[d, 0, index] = at
    key = key_of(cells, cell)
    stride = each
    left = corner
    lacks = 0
    for d in range(size):
        stride = stride // along[d]
        place = left // stride
        left -= place * stride
        for side in range(2):
            step = 1 - 2 * side
            last = along[d] - 1 if side == 0 else 0
            there = np.int64(index) + step * stride
            if place == last:
                slot = slot_of(keys, key + np.int64(step) * step_of(d + 1))
                if keys[slot] == EMPTY:
                    there = np.int64(-1)
                    lacks = 1
                else:
                    across = corner - step * (along[d] - 1) * stride
                    there = (-values[slot] - 1) * each + across
            beside[d, side, index] = there
    is_edge[index] = lacks


def by_components(index, means, precisions, constants, volumes, cells, points, out):
    """Log-weight of one cell by the Gaussian of its component alone: a kernel body.

    Arguments are those of `by_prior`, with `volumes` [component] and `cells` [1 + axis, count].
    """
    k = np.int64(cells[0, index])
    out[0, index] = volumes[k] + _log_sum(index, k, k + 1, means, precisions, constants, points)


def renumber(index, numbers, chosen, beside, out, is_edge):
    """Neighbours of one chosen cell among those that are: a kernel body.

    Model: `numbers` of all cells, or -1, and those that are `chosen`. Out: `out` [axis, 2, chosen],
    and whether some are missing.
    """
    lacks = 0
    for d in range(beside.shape[0]):
        for side in range(2):
            there = beside[d, side, chosen[index]]
            number = numbers[there] if there >= 0 else -1
            out[d, side, index] = number
            lacks = 1 if number < 0 else lacks
    is_edge[index] = lacks


def parity(index, cells, out):
    """Sign of one cell by its place along each axis: a kernel body. Out: `out` [axis, count]."""
    for d in range(out.shape[0]):
        out[d, index] = 1 - 2 * (cells[d + 1, index] & 1)
