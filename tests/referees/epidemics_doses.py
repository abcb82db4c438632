"""Doses of a programme, one after another: a plain queue, written from what a user is told.

It shares no code with the library.  Dose n is given when the integral of the rate reaches n.  It
goes to whom has been due the longest for a later dose; else to the next for a first dose; else to
nobody.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_NEAR = 1e-9  # times and integrals that differ by less are equal


def moments_of_doses(rate: Any, start: float, end: float) -> list[float]:
    """When doses are given, since the start; `rate` is a number or (changes, factors, period)."""
    changes, factors, *rest = rate if isinstance(rate, tuple) else ([0.0], [rate])
    period = rest[0] if rest else None
    cycles = range(int(start // period) - 1, int(end // period) + 2) if period else [0]
    levels = list(zip(changes, factors, strict=True))
    every = [(c + k * (period or 0.0), f) for k in cycles for c, f in levels]
    points = sorted({start, end, *(c for c, _ in every if start < c < end)})
    moments, given = [], 0.0
    for begin, stop in zip(points[:-1], points[1:], strict=True):
        here = 0.5 * (begin + stop)
        before = [f for c, f in every if c <= here]
        level = before[-1] if before else (factors[-1] if period else factors[0])
        while level > 0 and given + level * (stop - begin) >= len(moments) + 1 - _NEAR:
            moments.append(begin - start + (len(moments) + 1 - given) / level)
        given += level * (stop - begin)
    return moments


def queue(moments: list[float], intervals: list[float], people: int) -> np.ndarray:
    """When each in a line gets each dose, shape [people, doses]."""
    times = np.full((people, len(intervals) + 1), np.inf)
    following = [0] * (len(intervals) + 1)
    for moment in moments:
        dose, longest = (0 if following[0] < people else None), np.inf
        for d in range(1, len(following)):
            who = following[d]
            if who < following[d - 1]:
                due = times[who, d - 1] + intervals[d - 1]
                if due <= moment + _NEAR and due < longest + _NEAR:
                    dose, longest = d, due
        if dose is not None:
            times[following[dose], dose] = moment
            following[dose] += 1
    return times


def given_doses(world: Any, one: dict[str, Any], count: int, rng: np.random.Generator) -> Any:
    """When each node gets each dose since the start, in each replicate: [count, node, dose]."""
    doses = len(one["efficacy"]) if isinstance(one["efficacy"], list) else 1
    gap = one.get("interval", [])
    intervals = list(gap) if isinstance(gap, list) else [gap] * (doses - 1)
    start = one.get("start", float(world.times[0]))
    moments = moments_of_doses(one["dose_rate"], start, float(world.times[-1]))
    urgent = np.zeros(world.nodes)
    if isinstance(one.get("priority"), dict):
        urgent = np.array([one["priority"]["risk"][risk] for risk in world.risk])
    elif "priority" in one:
        urgent = np.asarray(world.age)
    eligible = np.arange(world.nodes) if "among" not in one else np.flatnonzero(world.group != 0)
    found = np.full((count, world.nodes, doses), np.inf)
    sizes = [(urgent[eligible] == level).sum() for level in sorted(set(urgent[eligible]))[::-1]]
    takers, sofar = [], 0
    for k, size in enumerate(sizes):
        total = round(one["fraction"] * sum(sizes[: k + 1]))
        takers.append((size, total - sofar))
        sofar = total
    times = queue(moments, intervals, sofar)
    for row in range(count):
        line = eligible[np.lexsort((rng.random(eligible.size), -urgent[eligible]))]
        at, rank = 0, 0
        for size, some in takers:
            found[row, line[at : at + some]] = times[rank : rank + some]
            at, rank = at + size, rank + some
    return found
