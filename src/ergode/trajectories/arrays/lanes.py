"""One CPU thread integrates several trajectories of a field of arrays, one per lane.

The innermost loops are over lanes, so that the compiler vectorises them whatever unknowns the
equations read.  Sums of slopes are one flat loop over all unknowns of all lanes: before a loop the
compiled code checks that its arrays do not overlap, which costs as much as a short loop.  Every
lane has its own time and step.  A lane that has ended idles until all lanes
have ended.  Results are bitwise equal to those of `group`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, no_refcount, noinline_cpu, real, unroll
from ergode.core.group import ONE
from ergode.trajectories.adaptive import control
from ergode.trajectories.arrays.arguments import Workspace
from ergode.trajectories.arrays.equations import BLOCK, evaluate_lanes, parameters_of
from ergode.trajectories.arrays.group import (
    DONE,
    END,
    FUNCTIONS,
    NOT_FINITE,
    ROWS,
    STEP_TOO_SMALL,
    TOGETHER,
    TOO_MANY_STEPS,
    WATCHED,
    after_equal_step,
    begin_watching,
    end_watching,
    next_equal_step,
    step_with_noise,
)
from ergode.trajectories.arrays.inside_step import function_at, inside_of, node, settle
from ergode.trajectories.fixed.kernel import locate
from ergode.trajectories.steppers.equations import EPSILON, is_finite
from ergode.trajectories.steppers.explicit import CORRECTION, ERROR, EXTRA_A, EXTRA_C, A, B, C
from ergode.trajectories.steppers.inside_step import INTERVALS, dense_weights
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.observing import SEEN
from ergode.trajectories.steppers.stepper import ADAPTS, DENSE, absolute


class Lanes(NamedTuple):
    """Workspace of a thread: as `arguments.Workspace`, and the state of every lane; [..., lane]."""

    y: Any  # real [unknown, lane]: state at the beginning of the step
    stage: Any  # real [3, unknown, lane]: states of stages, and at the end of the step
    k: Any  # real [stage, unknown, lane]: slopes, and amplitudes of the noise
    flat_y: Any  # real [unknown x lane]: the memory of `y`, and so on
    flat_stage: Any  # real [3, unknown x lane]
    flat_k: Any  # real [stage, unknown x lane]
    flat_size: Any  # real [unknown x lane]: size of the lane's step, for every unknown
    p: Any  # real [parameter, lane]
    t: Any  # real: time at the beginning of the step
    t1: Any  # real: time at the end of the step
    at: Any  # real: time of a stage
    size: Any  # real: size of the step
    h: Any  # real: proposed step
    previous: Any  # real: logarithm of the error of the last accepted step
    sums: Any  # real [2, lane]: sums of squares
    part: Any  # real [2, lane]: sums of squares over one block of unknowns
    is_kept: Any  # int64: whether the step is accepted
    is_rejected: Any  # int64: whether the last step was rejected
    is_working: Any  # int64: whether the lane has not ended
    cursor: Any  # int64: index of the next time to save
    knot: Any  # int64: index of the next time that no step crosses
    taken: Any  # int64: accepted steps
    rejected: Any  # int64: rejected steps
    t2: Any  # real: time where the step ends, or an event has ended it
    base: Any  # real: time of the first of the steps of one size
    number: Any  # int64: number of the step since then
    count: Any  # int64: number of steps from there to the last time
    outcome: Any  # uint8: of the step; DONE if the trajectory goes on
    g: Any  # real [function, 3, node, lane]: see `arguments.Workspace`
    s: Any  # real [accumulator, lane]


def lanes_cpu(start, stop, run, out, width):
    """Integrate trajectories `start` to `stop`, `width` at a time."""
    n, count = run.initial.shape[0], width
    y, stage, k = (
        np.empty(n * count, real),
        np.empty((3, n * count), real),
        np.empty((ROWS, n * count), real),
    )
    lanes = Lanes(
        y.reshape((n, count)), stage.reshape((3, n, count)), k.reshape((ROWS, n, count)), y, stage,
        k, np.empty(n * count, real), np.empty((run.parameters.shape[0], count), real),
        np.empty(count, real), np.empty(count, real), np.empty(count, real), np.empty(count, real),
        np.empty(count, real), np.empty(count, real), np.empty((2, count), real),
        np.empty((2, count), real),
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64),
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64),
        np.empty(count, np.int64), np.empty(count, real), np.empty(count, real),
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8),
        np.empty((FUNCTIONS, 3, INTERVALS + 1, count), real), np.empty((SEEN + 1, count), real),
    )  # fmt: skip
    for first in range(start, stop, width):
        _follow(first, stop, run, out, lanes)


@no_refcount
def _follow(first, stop, run, out, lanes):
    n, width = lanes.y.shape
    for lane in range(width):
        # Surplus lanes repeat the last trajectory.
        me = min(first + lane, stop - 1)
        for i in range(n):
            lanes.y[i, lane] = run.initial[i, me]
            lanes.stage[0, i, lane] = run.initial[i, me]
        for q in range(lanes.p.shape[0]):
            lanes.p[q, lane] = run.parameters[q, me]
        lanes.t[lane] = run.origin
        lanes.at[lane] = run.origin
        lanes.is_working[lane] = 1 if first + lane < stop else 0
        lanes.taken[lane] = 0
        lanes.rejected[lane] = 0
        lanes.knot[lane] = 0
        if first + lane < stop:
            out.status[me] = DONE
    evaluate_lanes(lanes.at, lanes.stage[0], lanes.p, run, lanes.k[0])
    if WATCHED:
        for lane in range(width):
            if lanes.is_working[lane] > 0:
                p = parameters_of(lanes.p, lane)
                begin_watching(first + lane, ONE, p, run, out, _alone(lane, lanes))
    if ADAPTS or WATCHED:
        _chosen_steps(first, run, out, lanes)
    else:
        _equal_steps(first, run, out, lanes)
    for lane in range(width):
        me = first + lane
        if me < stop:
            if WATCHED:
                out.status[me] = end_watching(
                    me, ONE, lanes.taken[lane], out.status[me], out, _alone(lane, lanes)
                )
            out.taken[me] = lanes.taken[lane]
            out.rejected[me] = lanes.rejected[lane]
            for i in range(n):
                if not is_finite(lanes.y[i, lane]):
                    out.status[me] = NOT_FINITE


def _alone(lane, lanes):
    """The workspace of one lane, for a group of one thread."""
    return Workspace(
        lanes.y[:, lane], lanes.stage[:, :, lane], lanes.k[:, :, lane], (), (),
        lanes.g[:, :, :, lane], lanes.s[:, lane], (), (), (),
    )  # fmt: skip


def _equal_steps(first, run, out, lanes):
    n, width = lanes.y.shape
    # Without delays, step size and step count are equal for all trajectories.
    h, last = run.sizes[first], run.counts[first]
    cursor = 0
    wanted, fraction = locate(run.times[0], h, last)
    for step in range(last):
        for lane in range(width):
            lanes.t[lane] = fma(real(step), h, run.origin)
            lanes.t1[lane] = fma(real(step + 1), h, run.origin)
            lanes.size[lane] = h
        if SCHEME > 0:
            step_with_noise(first, step, h, run, lanes)
        else:
            _take_stages(run, lanes)
        while wanted == step:
            for lane in range(width):
                if lanes.is_working[lane] > 0:
                    _save(first + lane, lane, cursor, fraction, out, lanes)
            cursor += 1
            wanted = last
            if cursor < run.times.size:
                wanted, fraction = locate(run.times[cursor], h, last)
        for lane in range(width):
            lanes.is_kept[lane] = 1
        _commit(lanes)
    for lane in range(width):
        lanes.taken[lane] = last


def _chosen_steps(first, run, out, lanes):
    n, width = lanes.y.shape
    last = run.last
    working = 0
    for lane in range(width):
        lanes.previous[lane] = real(control.SMALLEST)
        lanes.is_rejected[lane] = 0
        lanes.cursor[lane] = 1
        lanes.base[lane] = run.origin
        lanes.number[lane] = 0
        lanes.count[lane] = run.counts[first]
        if lanes.is_working[lane] > 0:
            working += 1
            for i in range(n):
                out.states[0, i, first + lane] = lanes.y[i, lane]
    if ADAPTS:
        _first_steps(run, lanes)
    if not run.origin < last:
        working = 0
    step = np.int64(0)
    while working > 0:
        for lane in range(width):
            _choose(lane, run.sizes[first], run, lanes)
        if SCHEME > 0:  # no event changes a state: all lanes are at the same step
            step_with_noise(first, step, run.sizes[first], run, lanes)
            step += 1
        else:
            _take_stages(run, lanes)
        if ADAPTS:
            _sum_errors(run, lanes)
        completed = False
        for lane in range(width):
            kept = lanes.is_working[lane] > 0
            if ADAPTS:
                fine, coarse = lanes.sums[0, lane], lanes.sums[1, lane]
                lanes.sums[0, lane] = control.size_of_sums(fine, coarse, 1.0 / real(n))
                kept = lanes.sums[0, lane] <= 0.0 and kept
            lanes.is_kept[lane] = 1 if kept else 0
            lanes.t2[lane] = lanes.t1[lane]
            lanes.outcome[lane] = DONE
            if kept and not WATCHED:
                completed = _save_passed(first + lane, lane, completed, run, out, lanes)
        if WATCHED:
            _look(first, run, out, lanes)
        for lane in range(width):
            if lanes.is_working[lane] > 0:
                working -= _judge(first + lane, lane, run, out, lanes)
        _commit(lanes)


def _look(first, run, out, lanes):
    """Save states, find events and observe within the accepted steps of all lanes."""
    n, width = lanes.y.shape
    if len(EXTRA_C) > 0:
        _complete(run, lanes)
    for j in range(1, INTERVALS):
        x = node(j)
        weights = dense_weights(x)
        for i in range(n):
            for lane in range(width):
                lanes.stage[j & 1, i, lane] = _within(x, weights, i, lane, lanes)
        for lane in range(width):
            if lanes.is_kept[lane] > 0:
                inside = _inside(lane, run, lanes)
                for q in range(FUNCTIONS):
                    lanes.g[q, 0, j, lane] = function_at(
                        q, inside.t + x * inside.h, inside.stage[j & 1], inside
                    )
    for lane in range(width):
        if lanes.is_kept[lane] > 0:
            lanes.t2[lane], lanes.cursor[lane], lanes.outcome[lane] = settle(
                first + lane, _inside(lane, run, lanes), lanes.t1[lane], lanes.cursor[lane], run,
                out, _alone(lane, lanes),
            )  # fmt: skip


def _inside(lane, run, lanes):
    p = parameters_of(lanes.p, lane)
    own = _alone(lane, lanes)
    return inside_of(ONE, lanes.t[lane], lanes.size[lane], p, run, own)


def _goal(lane, run, lanes):
    """Goal of the steps of a lane: the next knot, or the last time."""
    knot = lanes.knot[lane]
    near = TOGETHER * EPSILON * abs(lanes.t[lane])
    while knot < run.knots.size and run.knots[knot] <= lanes.t[lane] + near:
        knot += 1
    lanes.knot[lane] = knot
    return min(run.knots[knot], run.last) if knot < run.knots.size else run.last


def _choose(lane, equal, run, lanes):
    """Set size and end of the next step of a lane; `equal` is the size of steps of one size."""
    t, h = lanes.t[lane], lanes.h[lane]
    if ADAPTS:
        goal = _goal(lane, run, lanes)
        left = goal - t
        is_whole = h * (1.0 + 64.0 * EPSILON) < left
        t1 = t + h if is_whole else goal
        lanes.size[lane] = t1 - t  # the time that passes: far from zero, times are coarse
        lanes.t1[lane] = t1
    else:
        lanes.t1[lane], lanes.size[lane] = next_equal_step(
            t, equal, lanes.base[lane], lanes.number[lane], lanes.count[lane], run
        )


def _judge(me, lane, run, out, lanes):
    """Accept or reject the step of a lane; returns 1 if the lane has ended, else 0."""
    log_error, kept = lanes.sums[0, lane], lanes.is_kept[lane] > 0
    t1, t2 = lanes.t1[lane], lanes.t2[lane]
    way = t2 - lanes.t[lane]
    if kept:
        lanes.t[lane] = t2
        lanes.taken[lane] += 1
    else:
        lanes.rejected[lane] += 1
    t = lanes.t[lane]
    if ADAPTS:
        previous, size = lanes.previous[lane], lanes.size[lane]
        lanes.h[lane] = control.next_size(
            lanes.h[lane], size, log_error, previous, kept, lanes.is_rejected[lane] > 0, way,
            t2 < t1, run.largest,
        )  # fmt: skip
        lanes.previous[lane] = max(log_error, real(control.SMALLEST)) if kept else previous
        lanes.is_rejected[lane] = 0 if kept else 1
    else:
        lanes.base[lane], lanes.number[lane], lanes.count[lane] = after_equal_step(
            t1, t2, run.sizes[me], lanes.base[lane], lanes.number[lane], lanes.count[lane], run
        )
    h = lanes.h[lane]
    ended = not t < run.last or lanes.outcome[lane] != DONE
    if lanes.outcome[lane] != DONE:
        out.status[me] = lanes.outcome[lane]
    elif not ended:
        if ADAPTS and (h <= 4.0 * EPSILON * abs(t) or not h > 0.0):
            out.status[me] = NOT_FINITE if control.is_no_number(log_error) else STEP_TOO_SMALL
            ended = True
        elif lanes.taken[lane] + lanes.rejected[lane] >= run.most:
            out.status[me] = TOO_MANY_STEPS
            ended = True
    if ended:
        lanes.is_working[lane] = 0
        return 1
    return 0


def _first_steps(run, lanes):
    """Initial step of every lane (see `adaptive.control.first_step`)."""
    n, width = lanes.y.shape
    for lane in range(width):
        lanes.sums[0, lane] = 0.0
        lanes.sums[1, lane] = 0.0
    for begin in range(0, n, BLOCK):
        for lane in range(width):
            state, slope = real(0.0), real(0.0)
            for i in range(begin, min(n, begin + BLOCK)):
                scale = 1.0 / fma(run.rtol, abs(lanes.y[i, lane]), absolute(run.atol, i))
                one, other = lanes.y[i, lane] * scale, lanes.k[0, i, lane] * scale
                state += one * one
                slope += other * other
            lanes.sums[0, lane] += state
            lanes.sums[1, lane] += slope
    for lane in range(width):
        span = _goal(lane, run, lanes) - lanes.t[lane]
        per = 1.0 / real(n)
        d1 = math.sqrt(lanes.sums[1, lane] * per)
        lanes.h[lane] = control.probing_step(math.sqrt(lanes.sums[0, lane] * per), d1, span)
        lanes.sums[1, lane] = d1
        lanes.sums[0, lane] = 0.0
        lanes.at[lane] = lanes.t[lane] + lanes.h[lane]
        for i in range(n):
            lanes.stage[0, i, lane] = fma(lanes.h[lane], lanes.k[0, i, lane], lanes.y[i, lane])
    evaluate_lanes(lanes.at, lanes.stage[0], lanes.p, run, lanes.k[1])
    for begin in range(0, n, BLOCK):
        for lane in range(width):
            change = real(0.0)
            for i in range(begin, min(n, begin + BLOCK)):
                scale = 1.0 / fma(run.rtol, abs(lanes.y[i, lane]), absolute(run.atol, i))
                one = (lanes.k[1, i, lane] - lanes.k[0, i, lane]) * scale
                change += one * one
            lanes.sums[0, lane] += change
    for lane in range(width):
        span = _goal(lane, run, lanes) - lanes.t[lane]
        change = math.sqrt(lanes.sums[0, lane] * (1.0 / real(n)))
        h = control.step_from_probe(lanes.h[lane], lanes.sums[1, lane], change, span)
        lanes.h[lane] = min(h, run.largest)


@noinline_cpu
def _sum_errors(run, lanes):
    """Sums of the squares of both error estimates, in units of the tolerance."""
    n, width = lanes.y.shape
    y, stage, k, size = lanes.flat_y, lanes.flat_stage, lanes.flat_k, lanes.flat_size
    for i in range(n):
        atol = absolute(run.atol, i)
        for e in range(i * width, (i + 1) * width):
            stage[0, e] = size[e] / fma(run.rtol, max(abs(y[e]), abs(stage[END, e])), atol)
    for e in range(n * width):
        scale = stage[0, e]
        fine = scale * sum(ERROR[j] * k[j, e] for j in range(len(ERROR)) if ERROR[j] != 0.0)
        stage[0, e] = fine * fine
        if len(CORRECTION) > 0:
            coarse = scale * sum(
                CORRECTION[j] * k[j, e] for j in range(len(CORRECTION)) if CORRECTION[j] != 0.0
            )
            stage[1, e] = coarse * coarse
    _sum_blocks(0, lanes)
    if len(CORRECTION) > 0:
        _sum_blocks(1, lanes)


def _sum_blocks(which, lanes):
    """Sum a stage over the unknowns of each lane, block by block."""
    n, width = lanes.y.shape
    for lane in range(width):
        lanes.sums[which, lane] = 0.0
    for begin in range(0, n, BLOCK):
        for lane in range(width):
            lanes.part[which, lane] = 0.0
        for i in range(begin, min(n, begin + BLOCK)):
            for lane in range(width):
                lanes.part[which, lane] += lanes.stage[which, i, lane]
        for lane in range(width):
            lanes.sums[which, lane] += lanes.part[which, lane]


@noinline_cpu
def _take_stages(run, lanes):
    """Compute all stages of a step of every lane, the state at its end, and the slope there."""
    n, width = lanes.y.shape
    y, stage, k, size = lanes.flat_y, lanes.flat_stage, lanes.flat_k, lanes.flat_size
    for i in range(n):
        for lane in range(width):
            size[i * width + lane] = lanes.size[lane]
    for s in range(1, len(C) + 1):
        row = END
        for q in unroll(range(1, len(C))):
            if s == q:
                row = q & 1
                for lane in range(width):
                    lanes.at[lane] = fma(real(C[q]), lanes.size[lane], lanes.t[lane])
                for e in range(n * width):
                    moved = sum(A[q][j] * k[j, e] for j in range(q) if A[q][j] != 0.0)
                    stage[q & 1, e] = fma(size[e], moved, y[e])
        if s == len(C):
            for lane in range(width):
                lanes.at[lane] = lanes.t1[lane]
            for e in range(n * width):
                moved = sum(B[j] * k[j, e] for j in range(len(C)) if B[j] != 0.0)
                stage[END, e] = fma(size[e], moved, y[e])
        evaluate_lanes(lanes.at, lanes.stage[row], lanes.p, run, lanes.k[s])


def _save_passed(me, lane, completed, run, out, lanes):
    """Save the times within a step of a lane; returns whether the extra stages are computed."""
    times, t1 = run.times, lanes.t1[lane]
    cursor = lanes.cursor[lane]
    while cursor < times.size and times[cursor] <= t1:
        at_end = times[cursor] == t1
        if len(EXTRA_C) > 0 and not completed and not at_end:
            _complete(run, lanes)
            completed = True
        x = real(1.0) if at_end else (times[cursor] - lanes.t[lane]) / lanes.size[lane]
        _save(me, lane, cursor, x, out, lanes)
        cursor += 1
    lanes.cursor[lane] = cursor
    return completed


@noinline_cpu
def _complete(run, lanes):
    """Compute the extra stages of the dense output in every lane."""
    n, width = lanes.y.shape
    y, stage, k, size = lanes.flat_y, lanes.flat_stage, lanes.flat_k, lanes.flat_size
    for s in range(len(EXTRA_C)):
        for q in unroll(range(len(EXTRA_C))):
            if s == q:
                for lane in range(width):
                    lanes.at[lane] = fma(real(EXTRA_C[q]), lanes.size[lane], lanes.t[lane])
                for e in range(n * width):
                    moved = sum(
                        EXTRA_A[q][j] * k[j, e]
                        for j in range(len(EXTRA_A[q]))
                        if EXTRA_A[q][j] != 0.0
                    )
                    stage[q & 1, e] = fma(size[e], moved, y[e])
        evaluate_lanes(lanes.at, lanes.stage[s & 1], lanes.p, run, lanes.k[len(C) + 1 + s])


def _within(x, weights, i, lane, lanes):
    value = lanes.y[i, lane]
    if x == 1.0:
        value = lanes.stage[END, i, lane]
    elif x > 0.0:
        if SCHEME > 0:  # a straight line
            value = (1.0 - x) * value + x * lanes.stage[END, i, lane]
        else:
            moved = sum(weights[j] * lanes.k[j, i, lane] for j in range(len(DENSE)))
            value = fma(lanes.size[lane], moved, value)
    return value


@noinline_cpu
def _save(me, lane, cursor, x, out, lanes):
    """Save the state of a lane at the fraction `x` of a step."""
    weights = dense_weights(x)
    for i in range(lanes.y.shape[0]):
        value = _within(x, weights, i, lane, lanes)
        out.states[cursor, i, me] = value
        if not ADAPTS and not is_finite(value):
            out.status[me] = NOT_FINITE


@noinline_cpu
def _commit(lanes):
    """Advance the lanes whose steps are accepted."""
    n, width = lanes.y.shape
    for i in range(n):
        for lane in range(width):
            if lanes.is_kept[lane] > 0:
                lanes.y[i, lane] = lanes.stage[END, i, lane]
                lanes.k[0, i, lane] = lanes.k[len(C), i, lane]
