"""The history of a trajectory of arrays with delays: a ring of steps with their dense output.

Every accepted step stores its polynomial, the dense output of the method.  A delayed value is read
from the step that contains its time, or from the history before the first time.  No step is longer
than the shortest delay, so that all these steps are complete.

    ring[slot][power][unknown]    begun[slot], sizes[slot]

Step n is in slot n modulo the number of slots.  Only arrays with a delay are stored.  The delayed
values of a stage follow its state in the same row: ``row[begins[ARRAYS + 1 + d]]`` is the first one
of delay d.  Every thread stores and reads the unknowns that it owns.  Times and counts are written
by all threads of a group: they write equal values, and each reads its own.

The first time and that time plus sums of delays are breaking points, where a derivative jumps.
Steps end there (`Delays.knots`), so that no polynomial crosses one.  Whether a delay reads before
or after the first time is decided once for a step, by its middle.

The order of the dense output is at least that of the method less one; the method then keeps its
order: A. Bellen, M. Zennaro, "Numerical Methods for Delay Differential Equations" (2003), chapters
4 and 6.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, fma, noinline_cpu, option, real, unroll
from ergode.trajectories.arrays.equations import ARRAYS, LATE, extent
from ergode.trajectories.steppers.equations import EPSILON, INFINITY
from ergode.trajectories.steppers.stepper import DENSE

TAUS = option(())  # index of each delay's parameter
OF = option(())  # array of each delay
KEPT = option(())  # arrays that the ring stores
HAS_HISTORY = option(False)
history_of = option()  # history_of(v, row, j, t, c, shapes): history of an unknown of array v

# Integers of a trajectory: number of stored steps, the trajectory, and for each delay the step that
# contains its time.
COUNT, ME, READ = 0, 1, 2


class Delays(NamedTuple):
    """Inputs of a run with delays."""

    knots: Any  # real [knot, trajectory or 1]: breaking points, ascending; infinity after the last
    places: Any  # int64 [array]: first column of a stored array in the ring, or -1
    slots: Any  # int64: slots of the ring
    columns: Any  # int64: columns of the ring
    values: Any  # int64: delayed values of a stage


class Past(NamedTuple):
    """The history of the trajectory of a group."""

    ring: Any  # real [slot, power, column]: coefficients; the first one is the state
    begun: Any  # real [slot]: time at which the step begins
    sizes: Any  # real [slot]: size of the step [time]
    counts: Any  # int64 [COUNT ...]


def _owned_cpu(group, n, begin, end):
    first, last = extent(group, n)
    return range(max(first, begin), min(last, end))


def _owned_cuda(group, n, begin, end):
    return range(begin + (group.rank - begin) % group.size, end, group.size)


owned = ByTarget(cpu=_owned_cpu, cuda=_owned_cuda)
"""``owned(group, n, begin, end)`` are the unknowns of a thread in a range (see `unknowns`)."""


def begin_past(me, past):
    """A trajectory begins."""
    past.counts[COUNT] = 0
    past.counts[ME] = me
    for d in range(LATE):
        past.counts[READ + d] = 0


@noinline_cpu
def recall(group, t, middle, p, run, row, past):
    """Set the delayed values of time `t` in the row of a stage, in a step around `middle`."""
    n, count = run.begins[ARRAYS], past.counts[COUNT]
    slots = run.delays.slots
    for d in unroll(range(LATE)):
        tau = p[TAUS[d]]
        begin, end = run.begins[OF[d]], run.begins[OF[d] + 1]
        to = run.begins[ARRAYS + 1 + d] - begin
        s = t - tau
        if count == 0 or middle - tau < run.origin:
            _recall_history(group, OF[d], min(s, run.origin), to, run, row, past)
        else:
            step = past.counts[READ + d]
            while step + 1 < count and past.begun[(step + 1) % slots] < s:
                step += 1
            slot = step % slots
            x = (s - past.begun[slot]) / past.sizes[slot]
            shift = run.delays.places[OF[d]] - begin
            for i in owned(group, n, begin, end):
                value = past.ring[slot, len(DENSE[0]), i + shift]
                for m in unroll(range(len(DENSE[0]))):
                    value = fma(x, value, past.ring[slot, len(DENSE[0]) - 1 - m, i + shift])
                row[to + i] = value


def _recall_history(group, v, s, to, run, row, past):
    begin, end, width = run.begins[v], run.begins[v + 1], run.widths[v]
    for i in owned(group, run.begins[ARRAYS], begin, end):
        if HAS_HISTORY:
            at = (i - begin) // width
            j = i - begin - at * width
            row[to + i] = history_of(v, at, j, s, run.constants, run.shapes)
        else:
            row[to + i] = run.initial[i, past.counts[ME]]


@noinline_cpu
def remember(group, number, t, h, run, y, k, past):
    """Store step `number`, which begins at `t`."""
    n, slots = run.begins[ARRAYS], run.delays.slots
    slot = number % slots
    past.begun[slot] = t
    past.sizes[slot] = h
    for v in unroll(range(len(KEPT))):
        begin, end = run.begins[KEPT[v]], run.begins[KEPT[v] + 1]
        shift = run.delays.places[KEPT[v]] - begin
        for i in owned(group, n, begin, end):
            past.ring[slot, 0, i + shift] = y[i]
            for m in unroll(range(len(DENSE[0]))):
                past.ring[slot, m + 1, i + shift] = h * sum(
                    DENSE[j][m] * k[j, i]
                    for j in range(len(DENSE))
                    if len(DENSE[j]) > m and DENSE[j][m] != 0.0
                )
    past.counts[COUNT] = number + 1


def read_from(t, p, run, past):
    """Delayed values are read at `t` and later; returns whether there is room for the next step.

    Events and observables still read within the last step: this comes after them.
    """
    count, slots = past.counts[COUNT], run.delays.slots
    least = count
    for d in unroll(range(LATE)):
        tau = p[TAUS[d]]
        step = past.counts[READ + d]
        while step + 1 < count and past.begun[(step + 1) % slots] <= t - tau:
            step += 1
        past.counts[READ + d] = step
        if run.origin + tau < run.last:
            least = min(least, step)
    return count - least < slots


def largest_step(limit, p):
    """The largest step up to `limit`: none is longer than the shortest delay."""
    for d in unroll(range(LATE)):
        limit = min(limit, p[TAUS[d]])
    return limit


def breaking_point(knot, me, run):
    """Breaking point number `knot` of a trajectory; infinity after the last."""
    knots = run.delays.knots
    if knot < knots.shape[0]:
        return knots[knot, me if knots.shape[1] > 1 else 0]
    return real(INFINITY)


def steps_between(t, goal, limit):
    """Number of steps of one size, at most `limit`, from `t` to `goal`."""
    ratio = (goal - t) / limit
    whole = np.int64(ratio)
    near = max(real(1e-6), 8.0 * EPSILON * ratio)
    return max(whole + 1 if ratio - real(whole) > near else whole, np.int64(1))
