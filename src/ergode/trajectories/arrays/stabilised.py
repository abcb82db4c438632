"""Steps of the Runge-Kutta-Chebyshev method (see `steppers.chebyshev`) of a group of threads.

How many stages a step has follows from the spectral radius of the Jacobian.  That is found by the
nonlinear power method: the change of the slopes along a direction is the next direction.  The first
direction is a hash of the unknown's number, for a smooth one would hide the fastest modes.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, real
from ergode.core.group import barrier
from ergode.trajectories.arrays.equations import evaluate, unknowns
from ergode.trajectories.arrays.group import DIRECTION, END, LENGTHS, sums
from ergode.trajectories.steppers.equations import EPSILON

_ITERATIONS = 50
_SAFETY = 1.2  # of the spectral radius, which the power method approaches from below
_CLOSE = 0.01


def take_stages(group, t, h, t1, radius, p, run, w):
    """All stages of a step, its end, its mean slope and the slope at its end."""
    n, table = w.y.size, run.stages
    choice = 0
    while choice < run.limits.size - 1 and run.limits[choice] < abs(h) * radius:
        choice += 1
    first, count = run.stage_begins[choice], run.stage_begins[choice + 1] - run.stage_begins[choice]
    for i in unknowns(group, n):
        w.stage[0, i] = w.y[i]
        w.stage[1, i] = fma(h * table[first, 2], w.k[0, i], w.y[i])
    barrier(group)
    evaluate(group, fma(table[first, 4], h, t), w.stage[1], p, run, w.k[1])
    for j in range(2, count + 1):
        at = first + j - 1
        mu, nu, new, old = table[at, 0], table[at, 1], table[at, 2], table[at, 3]
        now, last, before = j & 1, (j - 1) & 1, j & 1
        if j == count:
            now = END
        for i in unknowns(group, n):
            y = w.y[i]
            far = fma(mu, w.stage[last, i] - y, nu * (w.stage[before, i] - y))
            slope = fma(new, w.k[1, i], old * w.k[0, i])
            w.stage[now, i] = y + fma(h, slope, far)
        barrier(group)
        if j < count:
            evaluate(group, fma(table[at, 4], h, t), w.stage[now], p, run, w.k[1])
    for i in unknowns(group, n):
        w.k[1, i] = (w.stage[END, i] - w.y[i]) / h
    evaluate(group, t1, w.stage[END], p, run, w.k[2])


def spectral_radius(group, t, begins, p, run, w):
    """An upper estimate of the spectral radius of the Jacobian, where a step begins.

    The direction of the last estimate is where this one begins, unless the trajectory begins.
    """
    n = w.y.size
    size, length = sums(group, LENGTHS, t, run.rtol, run.atol, w)
    if begins or not (length > 0.0 and length < math.inf):
        for i in unknowns(group, n):
            w.k[DIRECTION, i] = _hashed(i)
        length = sums(group, LENGTHS, t, run.rtol, run.atol, w)[1]
    away = math.sqrt(EPSILON * size) if size > 0.0 else math.sqrt(EPSILON)
    found = real(0.0)
    is_open, turns = True, 0
    while is_open:
        move = away / math.sqrt(length)
        for i in unknowns(group, n):
            w.stage[0, i] = fma(move, w.k[DIRECTION, i], w.y[i])
        barrier(group)
        evaluate(group, t, w.stage[0], p, run, w.k[1])
        for i in unknowns(group, n):
            w.k[DIRECTION, i] = w.k[1, i] - w.k[0, i]
        length = sums(group, LENGTHS, t, run.rtol, run.atol, w)[1]
        new = math.sqrt(length) / away
        turns += 1
        is_open = abs(new - found) > _CLOSE * new and turns < _ITERATIONS and new < math.inf
        found = new
    # Where slopes are no numbers, the estimate of the error decides.
    return _SAFETY * found if found < math.inf else real(0.0)


def _hashed(i):
    """A number between -1 and 1 that differs from unknown to unknown."""
    x = np.uint32(np.uint32(i) * np.uint32(2654435761))
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(15))) * np.uint32(2246822519))
    x = np.uint32(x ^ (x >> np.uint32(13)))
    return real(np.int32(x >> np.uint32(8))) * 1.1920928955078125e-07 - 1.0
