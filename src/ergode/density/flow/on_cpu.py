"""What a CPU does for lattices and sums, by NumPy.

To compile the kernels of other devices takes longer than most of this work. A function has the name
of its kernel in `sums` or `points_kernels`, and its arguments but for those that divide the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core.devices import Device, cpu, spans
from ergode.core.math.tall import turned
from ergode.density.flow.points_kernels import BINS, BINS_IN_UNIT, FARTHEST
from ergode.density.flow.sums import HALF_CELL, MET, SHELLS, STEP, THINNEST

PIECE = 8192  # points that are added together: they stay in the cache


def divide_work(
    device: Device, function: Callable[..., None], count: int, terms: int, *arguments: Any
) -> None:
    """Call ``function(start, stop, *arguments)`` for ranges of `count` indices of some terms."""
    few = terms <= _FEW_TERMS or device.core_count == 1
    each = count if few else -(-count // (4 * device.core_count))
    ranges = spans(count, each)
    cpu.run(function, ranges, arguments, device.core_count, is_brief=few)


_FEW_TERMS = 20_000  # starting a thread takes longer than adding these


@lru_cache
def pairs_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of what is computed of a covariance."""
    return np.tril_indices(size)


# ---- sums over groups of points; indices count groups of all densities


def _groups(start: int, stop: int, groups: int, count: int) -> Any:
    for index in range(start, stop):
        which, group = divmod(index, groups)
        yield which, group, slice(group * count // groups, (group + 1) * count // groups)


def add_up(
    start: int, stop: int, summits: Any, signs: Any, edge: Any, points: Any, log: Any, out: Any
) -> None:
    """Of the sums that `Weighted` asks for, in their order."""
    groups, size = out.shape[-1], summits.shape[1] - 1
    rows, columns = pairs_of(size)
    for which, group, some in _groups(start, stop, groups, log.shape[1]):
        factors = np.empty((3 + size, some.stop - some.start))
        factors[0] = 1.0
        factors[1 : 1 + size] = points[:size, which, some]
        factors[1 : 1 + size] -= summits[which, 1:, None]
        np.exp(log[which, some] - summits[which, 0], out=factors[-2])
        factors[-1] = edge[some]
        terms = factors[: 1 + size] * factors[-2]
        for k, each in enumerate((terms, terms * signs[some])):
            both = each @ factors.T
            out[which, : 1 + size, k, group] = both[0, : 1 + size]
            out[which, 1 + size : -2, k, group] = both[1 + rows, 1 + columns]
            out[which, -2:, k, group] = both[0, -2:]


def thin(start: int, stop: int, summits: Any, smeared: Any, widest: Any, out: Any) -> None:
    for which, group, some in _groups(start, stop, out.shape[-1], smeared.shape[1]):
        weight = np.exp(smeared[which, some] - summits[which, 0])
        out[which, :, group] = weight.sum(), weight[widest[which, some] > THINNEST].sum()


def fold(start: int, stop: int, beside: Any, summits: Any, points: Any, log: Any, out: Any) -> None:
    size = len(beside)
    for which, group, some in _groups(start, stop, out.shape[-1], log.shape[1]):
        weight = np.exp(log[which, some] - summits[which, 0])
        found = np.zeros(1 + size)
        for up, down in beside[:, :, some]:
            known = np.flatnonzero((up >= 0) & (down >= 0))
            up, down, own = up.take(known), down.take(known), weight.take(known)
            found[0] += own.sum()
            for d in range(size):
                state = np.asarray(points[d, which], np.float64)
                bend = state.take(up) + state.take(down) - 2.0 * state[some].take(known)
                found[1 + d] += np.einsum("p,p,p->", own, bend, bend)
        out[which, :, group] = found


# ---- weights; indices count densities


def summit(start: int, stop: int, of: Any, points: Any, out: Any) -> None:
    own = np.arange(start, stop)
    place = of[start:stop].argmax(axis=1)
    best = of[own, place]
    out[start:stop, 0] = np.where(np.isfinite(best), best, 0.0)
    out[start:stop, 1:] = points[: out.shape[1] - 1, own, place].T


def gained(start: int, stop: int, before: Any, log: Any, out: Any) -> None:
    with np.errstate(invalid="ignore"):
        gain = np.subtract(log[start:stop], before[start:stop])
    out[start:stop] = np.where(gain > -np.inf, gain, -np.inf)


def smear(
    start: int, stop: int, summits: Any, beside: Any, before: Any, log: Any, smeared: Any,
    widest: Any,
) -> None:  # fmt: skip
    for which in range(start, stop):
        top = summits[which, 0]
        with np.errstate(invalid="ignore"):
            below = top - (log[which] - before[which])
        # The last one is beside those at the edge.
        away = np.full(below.size + 1, np.nan)
        known = below < np.inf
        np.sqrt(2.0 * np.maximum(below, 0.0), out=away[:-1], where=known)
        spread = np.zeros(below.size)
        for both in beside:
            step = np.fmax(*(np.abs(away.take(there) - away[:-1]) for there in both))
            np.fmax(step, 0.0, out=step)  # no neighbour, no step
            spread += HALF_CELL * step * step
        wide = 1.0 + spread
        more = top - 0.5 * (away[:-1] ** 2 / wide + np.log(wide))
        smeared[which] = np.where(known, smeared[which] + more, -np.inf)
        np.maximum(widest[which], spread, out=widest[which], where=known)


def mend(
    start: int, stop: int, summits: Any, others: Any, beside: Any, log: Any, smeared: Any,
    widest: Any, out: Any,
) -> None:  # fmt: skip
    """As `sums.part`, `sums.around` along each axis, and `sums.mend`."""
    for which in range(start, stop):
        is_thin = widest[which] > THINNEST
        top = max(summits[which, 0], others[which, 0])
        both = np.zeros((2, is_thin.size + 1))  # the last one is beside those at the edge
        np.exp(smeared[which] - top, out=both[0, :-1], where=is_thin)
        np.exp(log[which] - top, out=both[1, :-1], where=is_thin)
        for up, down in beside:
            both[:, :-1] += both.take(up, axis=1) + both.take(down, axis=1)
        near, seen = both[:, :-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            met = np.where(seen * MET > near, log[which] + np.log(near / seen), smeared[which])
        out[which] = np.where(is_thin, met, log[which])


# ---- points of one density


def widen(
    which: int, mean: Any, variance: Any, periods: Any, points: Any, smeared: Any, out: Any
) -> None:
    far = np.zeros(points.shape[-1])
    for d in range(len(mean)):
        away = points[d, which] - mean[d]
        if periods[d] > 0.0:
            away -= periods[d] * np.floor(away / periods[d] + 0.5)
        np.fmax(far, away * away / variance[d], out=far)
    far[~np.isfinite(far)] = 0.0
    out[0] = smeared[which] + np.log1p(np.minimum(far, FARTHEST))


def bin_weights(top: float, other_top: float, one: Any, other: Any, out: Any) -> None:
    for (highest, log), found in zip(((top, one), (other_top, other)), out, strict=False):
        below = highest - log[0]
        below = below[below < np.inf]
        which = np.clip(below * BINS_IN_UNIT, 0, BINS - 1).astype(np.int64)
        found[:, 0] = np.bincount(which, np.exp(-below), BINS)


def mark(
    log: Any, counts: Any, outer: float, faint: float, unseen: float, central: Any, chosen: Any
) -> None:
    central[...] = log[0] >= outer
    chosen[...] = (log[0] >= faint) | (counts[0] >= unseen)


def mark_heavy(log: Any, least: float, out: Any) -> None:
    out[...] = log[0] >= least


def changes(top: float, log: Any, beside: Any, central: Any, out: Any) -> None:
    some = np.flatnonzero(central)
    weight = np.exp(log[0].take(some) - top)
    for d, (up, down) in enumerate(beside.take(some, axis=-1)):
        with np.errstate(invalid="ignore"):
            change = log[0].take(up) - log[0].take(down)
        known = (up >= 0) & (down >= 0) & np.isfinite(change)
        own, change = weight[known], change[known]
        out[[d, len(beside) + d], 0] = np.einsum("p,p,p->", own, change, change), own.sum()


def temper(first: int, base: Any, log: Any, out: Any) -> None:
    known = log[0] > -np.inf
    start = base[0, known]
    gain = log[0, known] - start
    for k in range(out.shape[1]):
        tempered = start + np.exp(STEP * (first + k)) * gain
        top = tempered.max(initial=-np.inf)
        weight = np.exp(tempered - top)
        out[:, k, 0] = top, weight.sum(), np.einsum("p,p->", weight, weight)


def take_power(power: float, base: Any, log: Any, out: Any) -> None:
    with np.errstate(invalid="ignore"):
        tempered = base + power * (log - base)
    out[...] = np.where(log > -np.inf, tempered, -np.inf)


def shell(
    limit: float, tops: Any, mean: Any, inverses: Any, points: Any, *logs_and_out: Any
) -> None:
    *logs, out = logs_and_out
    last = None
    for k, (log, top, inverse) in enumerate(zip(logs, tops, inverses, strict=True)):
        weight = np.exp(log[0] - top)
        if last is None or not np.array_equal(inverse, last):
            away = turned(points[:, 0].T - mean, inverse.T)
            square = np.einsum("pd,pd->p", away, away)
            which = np.minimum(2.0 * np.sqrt(square), SHELLS - 1).astype(np.int64)
            last = inverse
        out[k, SHELLS, 0] = weight[square > limit].sum()
        out[k, :SHELLS, 0] = np.bincount(which, weight, SHELLS)


def put_point(
    means: Any, edges: Any, places: Any, log_share: Any, points: Any, log_weights: Any
) -> None:
    for which, (mean, own) in enumerate(zip(means, edges, strict=True)):
        points[:, which] = mean[:, None] + turned(places.T, own.T).T
    log_weights[...] = log_share


def parity(cells: Any, out: Any) -> None:
    out[...] = 1 - 2 * (cells[1:] & 1)


def renumber(numbers: Any, chosen: Any, beside: Any, out: Any, is_edge: Any) -> None:
    there = beside.take(chosen, axis=-1)
    out[...] = np.where(there >= 0, numbers.take(there), -1)
    is_edge[...] = (out < 0).any(axis=(0, 1))


# ---- cells


def with_neighbours(index: Any, beside: Any, central: Any, chosen: Any) -> np.ndarray:
    """Index [1 + axis, cell] of `chosen` cells, and of all that are beside `central` ones."""
    some, has, missing = np.flatnonzero(central), chosen != 0, []
    for d, both in enumerate(beside.take(some, axis=-1)):
        for step, there in zip((1, -1), both, strict=True):
            has[there[there >= 0]] = True
            beyond = index.take(some[there < 0], axis=1)
            beyond[1 + d] += step
            missing.append(beyond)
    more = np.concatenate(missing, axis=1)
    if more.size:
        more = more.take(np.unique(coded(more.T)[0], return_index=True)[1], axis=1)
    return np.concatenate([index[:, has], more], axis=1)


def divided(
    index: Any, along: np.ndarray, origins: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Parts of cells, as `points_kernels.divide`: index, neighbours, points, signs, edge."""
    size, each = len(along), int(np.prod(along))
    corners = np.indices(tuple(along)).reshape(size, each)
    parts = np.empty((*index.shape, each), np.int32)
    parts[0] = index[0, :, None]
    parts[1:] = index[1:, :, None] * along[:, None, None] + corners[:, None]
    parts = parts.reshape(1 + size, -1)
    points = np.empty((size, 1, parts.shape[1]))
    for k, (origin, own) in enumerate(zip(origins, edges, strict=True)):
        those = parts[0] == k if len(origins) > 1 else slice(None)
        points[:, 0, those] = origin[:, None] + turned(parts[1:, those].T, own.T).T
    beside = _of_parts(neighbours_of(index.T), along, corners)
    signs = np.where(parts[1:].sum(axis=0) & 1, -1, 1).astype(np.int8)
    is_edge = np.any(beside < 0, axis=(0, 1)) * np.int8(1)
    return parts, beside, points, signs, np.asarray(is_edge)


def _of_parts(beside: np.ndarray, along: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Neighbours [axis, 2, part] of the parts of cells, from those `beside` each cell."""
    count, each = beside.shape[-1], corners.shape[1]
    found = np.empty((*beside.shape, each), np.int32)
    own = np.arange(count, dtype=np.int32) * each
    for d in range(len(along)):
        stride = int(np.prod(along[d + 1 :]))
        for side, (step, last) in enumerate(((1, along[d] - 1), (-1, 0))):
            cell = np.where(beside[d, side] < 0, -1, beside[d, side] * each)
            for number, place in enumerate(corners[d]):
                if place != last:
                    found[d, side, :, number] = own + (number + step * stride)
                else:
                    across = number - step * (along[d] - 1) * stride
                    found[d, side, :, number] = np.where(cell < 0, -1, cell + across)
    return found.reshape(*beside.shape[:2], -1)


def coded(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row, in order, and how far it goes by a step along each column."""
    low = index.min(axis=0)
    span = index.max(axis=0) - low + 3
    strides = np.append(np.cumprod(span[:0:-1])[::-1], 1)
    return index @ strides - (low - 1) @ strides, strides


def neighbours_of(index: np.ndarray) -> np.ndarray:
    """Next points along each axis [axis, 2, point], or -1, by an `index` [point, 1 + axis]."""
    code, strides = coded(index)
    numbers = np.arange(len(code), dtype=np.int32)
    found = np.empty((len(strides) - 1, 2, len(code)), np.int32)
    if (room := int(code.max() + strides.max() + 1)) <= _ROOM * len(code):
        table = np.full(room, -1, np.int32)
        table[code] = numbers
        for d, stride in enumerate(strides[1:]):
            found[d] = table[code + stride], table[code - stride]
        return found
    order = np.argsort(code, kind="stable").astype(np.int32)  # quick where nearly in order
    ordered = code[order]
    found.fill(-1)
    for d, stride in enumerate(strides[1:]):
        place = np.minimum(np.searchsorted(ordered, ordered + stride), len(code) - 1)
        has = np.flatnonzero(ordered[place] == ordered + stride)
        one, other = order[has], order[place[has]]
        found[d, 0, one], found[d, 1, other] = other, one
    return found


_ROOM = 32  # places of a table for each point: it is quicker than sorting
