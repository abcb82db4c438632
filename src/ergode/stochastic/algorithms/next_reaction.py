"""The next-reaction method: every reaction has its own clock, and the earliest fires.

The clock of a reaction is a unit-rate Poisson process in the reaction's internal time, which is the
integral of its propensity.  A change of the propensity changes only the speed of internal time.
So one random number per firing suffices.  Two networks that differ in a parameter and share clocks
stay close together, as finite differences over common reaction paths require.

M. A. Gibson, J. Bruck, "Efficient exact stochastic simulation of chemical systems with many
species and many channels", J. Phys. Chem. A 104 (2000); D. F. Anderson, "A modified next reaction
method for simulating chemical systems with time dependent propensities and delays", J. Chem. Phys.
127 (2007); M. Rathinam, P. W. Sheppard, M. Khammash, "Efficient computation of parameter
sensitivities of discrete stochastic chemical reaction networks", J. Chem. Phys. 132 (2010).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, real
from ergode.core.math.random import CHANNEL, draw_words, exponential
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.realization import propensity
from ergode.stochastic.tables import Tables


class MethodState(NamedTuple):
    """State of the method; one row per worker."""

    a: Any  # [worker, reaction] propensity
    since: Any  # [worker, reaction] time of the latest update
    passed: Any  # [worker, reaction] internal time at `since`
    goal: Any  # [worker, reaction] internal time of its next firing
    times: Any  # [worker, reaction] time of its next firing
    fired: Any  # [worker, reaction] number of firings
    heap: Any  # [worker, reaction] reactions, by time
    place: Any  # [worker, reaction] index of each reaction in the heap
    wrong: Any  # [worker, 2] whether a propensity is negative, not finite


def _draw(j, count, replicate, plan):
    """Internal time between two consecutive firings of a reaction."""
    w0, w1, w2, w3 = draw_words(plan.seed, replicate, j, CHANNEL, count)
    return exponential(w0, w1)


def _sink(j, w, state):
    """Sift a reaction down to its position in the heap."""
    time = state.times[w, j]
    hole = state.place[w, j]
    size = state.heap.shape[1]
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        other = state.heap[w, child]
        if child + 1 < size:
            right = state.heap[w, child + 1]
            if state.times[w, right] < state.times[w, other]:
                child += 1
                other = right
        if state.times[w, other] >= time:
            break
        state.heap[w, hole] = other
        state.place[w, other] = hole
        hole = child
    state.heap[w, hole] = j
    state.place[w, j] = hole


def _settle(j, w, state):
    """Sift a reaction up or down to its position in the heap."""
    time = state.times[w, j]
    hole = state.place[w, j]
    while hole > 0:
        parent = (hole - 1) // 2
        other = state.heap[w, parent]
        if state.times[w, other] <= time:
            break
        state.heap[w, hole] = other
        state.place[w, other] = hole
        hole = parent
    state.heap[w, hole] = j
    state.place[w, j] = hole
    _sink(j, w, state)


def _follow(j, w, t, point, net, work, state):
    """Advance internal time to now, and continue with the present propensity."""
    before = state.a[w, j]
    a = propensity(j, w, t, point, net, work)
    if a < 0.0:
        state.wrong[w, 0] = 1
    if not abs(a) < outcomes.INFINITY:
        state.wrong[w, 1] = 1
    if before > 0.0:
        state.passed[w, j] += before * (t - state.since[w, j])
    state.since[w, j] = t
    state.a[w, j] = a
    rest = max(state.goal[w, j] - state.passed[w, j], real(0.0))
    state.times[w, j] = t + rest / a if a > 0.0 else real(outcomes.INFINITY)


@noinline_cpu
def prepare(w, t, point, plan, replicate, net, work, state):
    """Start the clocks, or continue after an event with unchanged clocks."""
    count = state.a.shape[1]
    state.wrong[w, 0] = 0
    state.wrong[w, 1] = 0
    begins = work.begun[w, 0] == 0
    work.begun[w, 0] = 1
    for j in range(count):
        if begins:
            state.a[w, j] = 0.0
            state.since[w, j] = t
            state.passed[w, j] = 0.0
            state.fired[w, j] = 0
            state.goal[w, j] = _draw(j, 0, replicate, plan)
            state.heap[w, j] = j
            state.place[w, j] = j
        _follow(j, w, t, point, net, work, state)
    # Build the heap: sift down all parents, from the last to the first.
    if begins:
        for j in range(count):
            state.place[w, j] = j
    for k in range(count // 2 - 1, -1, -1):
        _sink(state.heap[w, k], w, state)


def update(j, w, t, point, plan, replicate, net, work, state):
    """Draw the fired reaction's next goal; update the times of reactions that depend on it."""
    state.fired[w, j] += 1
    state.passed[w, j] = state.goal[w, j]
    state.since[w, j] = t
    state.goal[w, j] += _draw(j, state.fired[w, j], replicate, plan)
    _follow(j, w, t, point, net, work, state)
    _settle(j, w, state)
    for entry in range(net.change_starts[j], net.change_starts[j + 1]):
        variable = net.changed[entry]
        for k in range(net.affected_starts[variable], net.affected_starts[variable + 1]):
            r = net.affected[k]
            _follow(r, w, t, point, net, work, state)
            _settle(r, w, state)
    return True


def advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    """The reaction at the top of the heap, and its time."""
    if state.wrong[w, 0] > 0:
        return t, outcomes.FAILED_NEGATIVE, draw
    if state.wrong[w, 1] > 0:
        return t, outcomes.FAILED_NOT_FINITE, draw
    if state.heap.shape[1] == 0:
        return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
    j = state.heap[w, 0]
    fires_at = state.times[w, j]
    if fires_at >= limit:
        return fires_at, outcomes.NO_REACTION, draw
    return fires_at, j, draw


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    count = tables.reaction_count
    numbers = {name: (count, np.float64) for name in ("a", "since", "passed", "goal", "times")}
    integers = {name: (count, np.int32) for name in ("fired", "heap", "place")}
    return {**numbers, **integers, "wrong": (2, np.int32)}


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share: none."""
    return {}


ALGORITHM = Algorithm(
    state=MethodState, arrays=arrays, constants=constants, prepare=prepare, update=update,
    advance=advance,
)  # fmt: skip
