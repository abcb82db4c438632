"""Amounts at times within a step of `leap`, drawn given the step's numbers of firings.

Firings of a half are uniform over it, so the number before a time is binomial (for normal numbers,
a Brownian bridge).  Therefore the path does not depend on the reported times.

In a step with Runge-Kutta stages, a reaction's firings follow its integrated propensity, by the
dense output of the stages: first those of the first half, then those of the second.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import fma, noinline_cpu, real
from ergode.core.math.random import LEAP_BRIDGE, binomial, draw_words, normal


@noinline_cpu
def _expected(j, time, w, state):
    """Expected firings of a reaction from the begin of a Runge-Kutta step to a time within it."""
    passed = time - state.clock[w, 3]
    share = passed / state.clock[w, 4]
    slope = fma(share, state.twist[w, j], state.bend[w, j])
    return passed * fma(share, slope, state.a[w, j])


@noinline_cpu
def _passed(j, time, first, w, state):
    """The part of a half's firings, which follow those of the first half, that is before a time."""
    half, rest = state.clock[w, 1] - state.clock[w, 3], state.clock[w, 2] - state.clock[w, 1]
    before = state.a[w, j] * half
    total = fma(state.b[w, j], rest, before)
    whole = _expected(j, state.clock[w, 2], w, state)
    part = (time - state.clock[w, 3]) / (half + rest)
    if whole > 0.0:
        part = _expected(j, time, w, state) / whole
    part = part * total / before if first else fma(part, total, -before) / (total - before)
    return min(max(part, real(0.0)), real(1.0)) if part == part else real(0.0)


@noinline_cpu
def _move(k, upto, first, rates, numbers, w, plan, replicate, net, work, state):
    """Apply the firings of a half of the step between the time reported so far and `upto`."""
    begins_at = state.clock[w, 0]
    ends_at = state.clock[w, 1] if first else state.clock[w, 2]
    bent = state.clock[w, 4] > 0.0
    length = ends_at - begins_at
    share = real(0.0)
    if not bent:
        share = min((upto - begins_at) / length, real(1.0))
        if not share > 0.0:
            return
    gaussian = state.gaussian[0] != 0
    for j in range(state.a.shape[1]):
        number = numbers[w, j]
        if state.critical[w, j] == 1 or (number == 0.0 and not gaussian):
            continue
        mean = rates[w, j] * length
        if bent:
            done = _passed(j, begins_at, first, w, state)
            left = 1.0 - done
            share = (_passed(j, upto, first, w, state) - done) / left if left > 0.0 else real(0.0)
            mean = rates[w, j] * left
            mean *= ends_at - state.clock[w, 3] if first else state.clock[w, 2] - state.clock[w, 1]
            if not share > 0.0:
                continue
        part = number
        if share < 1.0:
            entity = np.uint64(j) | (np.uint64(k >> 24) << np.uint64(32))
            index = np.uint32(k & 0xFFFFFF)
            if gaussian:
                w0, w1, w2, w3 = draw_words(plan.seed, replicate, entity, LEAP_BRIDGE, index)
                variance = mean * share * (1.0 - share)
                part = fma(math.sqrt(variance), normal(w0, w1), number * share)
            else:
                part = real(
                    binomial(
                        plan.seed, replicate, entity, LEAP_BRIDGE, index, np.int64(number), share
                    )
                )
        numbers[w, j] = number - part
        for entry in range(net.change_starts[j], net.change_starts[j + 1]):
            work.x[w, net.changed[entry]] += part * net.changes[entry]


@noinline_cpu
def between(k, time, w, plan, replicate, net, work, state):
    """Put the state at time `k` of the grid, within the last step, into the worker's row."""
    middle, ends_at = state.clock[w, 1], state.clock[w, 2]
    bent = state.clock[w, 4] > 0.0
    if bent or state.clock[w, 0] < middle:
        upto = time if bent else min(time, middle)
        _move(k, upto, True, state.a, state.first, w, plan, replicate, net, work, state)
        if not bent:
            state.clock[w, 0] = upto
    if bent or (time > middle and state.clock[w, 0] < ends_at):
        _move(k, time, False, state.b, state.second, w, plan, replicate, net, work, state)
        state.clock[w, 0] = time
