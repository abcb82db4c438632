"""A group of threads integrates one trajectory: explicit Runge-Kutta on arrays of unknowns.

Every thread owns some unknowns.  In a stage it computes their state, waits at a barrier, and
computes their slopes, which may depend on any unknown.  Stage states alternate between two rows, so
that one barrier per stage suffices.  All threads compute identical times, steps and errors.

A group is one thread or all threads of a CPU; or one thread, one block or the whole grid of a GPU.
On a CPU, squares are summed within blocks of unknowns, then over the blocks in a fixed order, so
that no result depends on the number of threads.

The tableaus are those of `core.math.tableaus`; slopes are stored without the factor h.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import (
    ByTarget,
    fma,
    no_refcount,
    noinline_cpu,
    option,
    real,
    unroll,
)
from ergode.core.group import barrier, share, totals_of
from ergode.core.status import Status
from ergode.trajectories.adaptive import control
from ergode.trajectories.adaptive.step import LOGS_INSIDE, LOGS_STEPS, retried
from ergode.trajectories.arrays.equations import (
    BLOCK,
    LATE,
    blocks_in,
    evaluate,
    parameters_of,
    unknowns,
)
from ergode.trajectories.arrays.past import (
    begin_past,
    breaking_point,
    largest_step,
    read_from,
    recall,
    remember,
    steps_between,
)
from ergode.trajectories.arrays.step_log import log_end, log_inside
from ergode.trajectories.fixed.kernel import locate
from ergode.trajectories.steppers.equations import EPSILON, INFINITY, is_finite
from ergode.trajectories.steppers.explicit import CORRECTION, ERROR, EXTRA_A, EXTRA_C, A, B, C
from ergode.trajectories.steppers.inside_step import NOT_A_NUMBER, dense_weights
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import ADAPTS, DENSE, PROBES, SEARCHED, absolute

DONE = np.uint8(Status.DONE)
NOT_FINITE = np.uint8(Status.NOT_FINITE)
TOO_MANY_STEPS = np.uint8(Status.TOO_MANY_STEPS)
STEP_TOO_SMALL = np.uint8(Status.STEP_TOO_SMALL)
NO_ROOM = np.uint8(Status.NO_ROOM)  # for the history of delays: the ring has too few slots

TOGETHER = 64.0  # times are equal if they differ by at most this many float spacings

END = 2  # row of the state at the end of a step; rows 0 and 1 are for stages


class Kept(NamedTuple):
    """What lies between two launches, beside the rest of the workspace."""

    budget: Any  # int64: attempted steps of a launch
    whole: Any  # int64 [STAGE ... WHOLES]
    reals: Any  # real [REALS]


RESUMES = option(False)  # whether a launch takes some of the steps, and leaves the state

# Entries of `Kept.whole`.
STAGE, STEP, CURSOR, TAKEN, REJECTED, KNOT, AGE, NUMBER, COUNT, WAS_REJECTED, WHOLES = range(11)
NEW, UNDER_WAY, OVER = range(3)  # values of STAGE
# Entries of `Kept.reals`.
TIME, GOAL, PROPOSED, PREVIOUS, RADIUS, BASE, LONGEST, REALS = range(8)


# ---- options, and sums


ROWS = option()  # rows of slopes: stages, the end of the step, extra stages; without a matrix
IN_SHARED = option(0)  # what a block has in shared memory: 1 the states of stages, 2 everything
STABILISED = option(False)  # whether stages follow from the spectral radius (see `stabilised`)
spectral_radius = option()  # spectral_radius(group, t, begins, p, run, w)
chebyshev_stages = option()  # chebyshev_stages(group, t, h, t1, radius, p, run, w)
IMPLICIT = option(False)  # whether stages solve linear systems (see `rosenbrock`)
MATRIX_FREE = option(False)  # and without a matrix (see `conjugate_residuals`)
# implicit_stages(group, t, h, t1, looked, p, run, w) -> error that linear systems leave
# [tolerances], infinite where they have no solution; and, of a step that is `looked` into, the sum
# of the squares of the error of the dense output [tolerances^2]
implicit_stages = option()
MATRICES = option(1)  # matrices of an implicit method
MULTISTEP = option(False)  # whether a step depends on those before, and tells the size of the next
OWN = option(1)  # numbers of every thread (see `multistep`)
ORDER = option()  # place of the order, which is 0 where the solution begins anew
begin_anew = option()  # begin_anew(group, h, run, w): begin with a step h
next_step = option()  # next_step(group, kept, jumps, run, w) -> h

step_with_noise = option()  # step_with_noise(me, group, step, t, h, t1, p, run, w)
WATCHED = option(False)  # whether there are events or observables (see `inside_step`)
FUNCTIONS = option(1)  # number of watched functions
begin_watching = option()  # begin_watching(me, group, p, run, out, w)
look = option()  # look(me, group, t, h, t1, cursor, p, run, out, w) -> t2, cursor, outcome
look_again = option()  # look_again(group, t, p, run, w): where delayed values may jump
end_watching = option()  # end_watching(me, group, taken, outcome, out, w) -> outcome

LINEAR = 0.05  # of the tolerance, that the linear systems may cost
DIRECTION = 3  # row of slopes that keeps the direction in which the slopes change most
RECENT = 25  # steps that a spectral radius is good for


def _sums_cpu(group, term, h, rtol, atol, w):
    """Two sums of squares over all unknowns; `term` selects the squares (see `_squares`)."""
    n = w.k.shape[1]
    blocks = blocks_in(n)
    for block in share(group, 0, blocks):
        first, second = real(0.0), real(0.0)
        for i in range(BLOCK * block, min(n, BLOCK * (block + 1))):
            part = _squares(term, i, h, rtol, atol, w)
            first += part[0]
            second += part[1]
        group.parts[0, block] = first
        group.parts[1, block] = second
    barrier(group)
    first, second = real(0.0), real(0.0)
    for block in range(blocks):
        first += group.parts[0, block]
        second += group.parts[1, block]
    barrier(group)
    return first, second


def _sums_cuda(group, term, h, rtol, atol, w):
    """Two sums of squares over all unknowns; every thread receives them."""
    first, second = real(0.0), real(0.0)
    for i in unknowns(group, w.k.shape[1]):
        part = _squares(term, i, h, rtol, atol, w)
        first += part[0]
        second += part[1]
    return totals_of(group, first, second)


sums = ByTarget(cpu=_sums_cpu, cuda=_sums_cuda)

# What is summed: of the state and the slope, of the change of the slope, of both error estimates;
# of the state and a direction, as they are.
_BEGIN, _CHANGE, _ERRORS, LENGTHS = 0, 1, 2, 3


def _squares(term, i, h, rtol, atol, w):
    """The two squares of a term for unknown `i`, in units of the tolerance."""
    if term == _ERRORS:
        scale = h / fma(rtol, max(abs(w.y[i]), abs(w.stage[END, i])), absolute(atol, i))
        first = sum(ERROR[j] * w.k[j, i] for j in range(len(ERROR)) if ERROR[j] != 0.0)
        second = sum(
            CORRECTION[j] * w.k[j, i] for j in range(len(CORRECTION)) if CORRECTION[j] != 0.0
        )
    elif STABILISED and term == LENGTHS:
        scale, first, second = real(1.0), w.y[i], w.k[DIRECTION, i]
    else:
        scale = 1.0 / fma(rtol, abs(w.y[i]), absolute(atol, i))
        first = w.y[i] if term == _BEGIN else w.k[1, i] - w.k[0, i]
        second = w.k[0, i]
    first *= scale
    second *= scale
    return first * first, second * second


# ---- a trajectory


@no_refcount
def follow(me, group, run, out, w):
    """Integrate one trajectory; all threads of its group call this together."""
    n = w.k.shape[1]
    p = parameters_of(run.parameters, me)
    if RESUMES:
        if w.kept.whole[STAGE] == OVER:
            return
        if w.kept.whole[STAGE] == NEW:
            _begin(me, group, p, run, out, w)
    else:
        _begin(me, group, p, run, out, w)
    if ADAPTS or WATCHED or LOGS_STEPS or LATE > 0:
        outcome, taken, rejected = _chosen_steps(me, group, p, run, out, w)
    else:
        outcome, taken, rejected = _equal_steps(me, group, p, run, out, w)
    if RESUMES:
        barrier(group)  # one thread has written the stage
        if w.kept.whole[STAGE] == UNDER_WAY:
            return
    if WATCHED:
        outcome = end_watching(me, group, taken, outcome, out, w)
    if group.rank == 0:
        out.taken[me] = taken
        out.rejected[me] = rejected
        if outcome != DONE:
            out.status[me] = outcome
    barrier(group)
    for i in unknowns(group, n):
        if not is_finite(w.y[i]):
            out.status[me] = NOT_FINITE
    barrier(group)


def _begin(me, group, p, run, out, w):
    """Put a trajectory at its first time."""
    for i in unknowns(group, w.k.shape[1]):
        w.y[i] = run.initial[i, me]
    if group.rank == 0:
        out.status[me] = DONE
    if LATE > 0:
        begin_past(me, w.past)
        recall(group, run.origin, run.origin, p, run, w.y, w.past)
    barrier(group)
    evaluate(group, run.origin, w.y, p, run, w.k[0])
    if WATCHED:
        begin_watching(me, group, p, run, out, w)


def _equal_steps(me, group, p, run, out, w):
    h, last = run.sizes[me], run.counts[me]
    cursor = np.int64(0)
    wanted, fraction = locate(run.times[0], h, last)
    radius = real(0.0)
    begin, until = np.int64(0), np.int64(last)
    if RESUMES:
        if w.kept.whole[STAGE] == UNDER_WAY:
            begin, cursor = w.kept.whole[STEP], w.kept.whole[CURSOR]
            radius = w.kept.reals[RADIUS]
            wanted = last
            if cursor < run.times.size:
                wanted, fraction = locate(run.times[cursor], h, last)
        until = min(until, begin + w.kept.budget)
        barrier(group)  # all have read
    for step in range(begin, until):
        t = fma(real(step), h, run.origin)
        if STABILISED and step % RECENT == 0:
            radius = spectral_radius(group, t, step == 0, p, run, w)
        t1 = fma(real(step + 1), h, run.origin)
        if SCHEME > 0:
            step_with_noise(me, group, step, t, h, t1, p, run, w)
        else:
            _take_stages(group, t, h, t1, radius, False, p, run, w)
        while wanted == step:
            save(me, group, cursor, fraction, h, out, w)
            cursor += 1
            wanted = last
            if cursor < run.times.size:
                wanted, fraction = locate(run.times[cursor], h, last)
        _commit(group, w)
        if len(C) == 1:  # the next step has no stage before its end
            barrier(group)
    if RESUMES and group.rank == 0:
        w.kept.whole[STAGE] = UNDER_WAY if until < last else OVER
        w.kept.whole[STEP] = until
        w.kept.whole[CURSOR] = cursor
        w.kept.reals[TIME] = fma(real(until), h, run.origin)
        w.kept.reals[RADIUS] = radius
    return DONE, last, 0


def _chosen_steps(me, group, p, run, out, w):
    n = w.k.shape[1]
    t, last = run.origin, run.last
    knot = np.int64(0)
    goal = last
    h, previous, last_step_rejected = real(0.0), real(control.SMALLEST), False
    cursor = np.int64(1)
    taken, rejected = np.int64(0), np.int64(0)
    outcome = DONE
    radius, age = real(0.0), np.int64(RECENT)
    longest, linear = real(INFINITY), real(0.0)  # step that linear systems allow; their error
    soonest, looked, missed = real(INFINITY), False, real(0.0)
    base, number, count = t, np.int64(0), run.counts[me]  # of steps of one size
    largest = largest_step(run.largest if ADAPTS else run.sizes[me], p) if LATE > 0 else run.largest
    limit_of_launch = np.int64(0)
    if RESUMES:
        whole, reals = w.kept.whole, w.kept.reals
        if whole[STAGE] == UNDER_WAY:
            t, goal, h, previous = reals[TIME], reals[GOAL], reals[PROPOSED], reals[PREVIOUS]
            radius, base, longest = reals[RADIUS], reals[BASE], reals[LONGEST]
            cursor, taken, rejected = whole[CURSOR], whole[TAKEN], whole[REJECTED]
            knot, age, number, count = whole[KNOT], whole[AGE], whole[NUMBER], whole[COUNT]
            last_step_rejected = whole[WAS_REJECTED] != 0
            for q in range(OWN if MULTISTEP else 0):
                w.own[q] = reals[REALS + q]
        limit_of_launch = taken + rejected + w.kept.budget
        barrier(group)  # all have read
    if taken + rejected == 0:
        if MULTISTEP:
            w.own[ORDER] = 0.0
        for i in unknowns(group, n):
            out.states[0, i, me] = w.y[i]
        log_end(me, group, n, 0, t, w.y, out.step_log)
    while t < last and outcome == DONE:
        if RESUMES and taken + rejected >= limit_of_launch:
            break
        if ADAPTS or LATE > 0:
            near, before = TOGETHER * EPSILON * abs(t), knot
            while _knot(knot, me, run) <= t + near:
                knot += 1
            goal = min(_knot(knot, me, run), last)
            if LATE > 0 and knot > before and taken > 0:  # the slope may jump
                recall(group, t, 0.5 * (t + goal), p, run, w.y, w.past)
                barrier(group)
                evaluate(group, t, w.y, p, run, w.k[0])
                if WATCHED:
                    look_again(group, t, p, run, w)
            if MULTISTEP:
                if knot > before:
                    w.own[ORDER] = 0.0
                if w.own[ORDER] == 0.0:
                    if taken > 0:
                        barrier(group)
                        evaluate(group, t, w.y, p, run, w.k[0])
                    h = min(_first_step(group, t, goal - t, p, run, w), largest)
                    begin_anew(group, h, run, w)
            elif ADAPTS and taken + rejected == 0:
                h = min(_first_step(group, t, goal - t, p, run, w), largest)
            if not ADAPTS and (knot > before or taken == 0):
                base, number, count = t, np.int64(0), steps_between(t, goal, largest)
        if STABILISED:
            if age >= RECENT:
                radius = spectral_radius(group, t, taken + rejected == 0, p, run, w)
                age = 0
            age += 1
        if ADAPTS:
            if STABILISED:
                limit = run.limits[run.limits.size - 1]
                h = limit / radius if h * radius > limit else h
            soonest = run.times[cursor] if cursor < run.times.size else real(INFINITY)
            until = goal
            if len(PROBES) > 0 and not SEARCHED and last_step_rejected and soonest > t:
                until = min(goal, soonest)
            left = until - t
            # A remainder too small to advance the time is merged into this step.
            is_whole = h * (1.0 + 64.0 * EPSILON) < left
            t1 = t + h if is_whole else until
            looked = SEARCHED or t1 > soonest
            size = t1 - t  # the time that passes: far from zero, times are coarse
        elif LATE > 0:
            size = (goal - base) / real(count)
            t1 = fma(real(number + 1), size, base) if number + 1 < count else goal
        else:
            h = run.sizes[me]
            t1, size = next_equal_step(t, h, base, number, count, run)
        if SCHEME > 0:
            step_with_noise(me, group, number, t, size, t1, p, run, w)
        else:
            linear, missed = _take_stages(group, t, size, t1, radius, looked, p, run, w)
        kept, log_error = True, real(-1.0)
        if MULTISTEP:
            kept, log_error = linear <= 1.0, control.size_of_sums(linear, linear, real(1.0))
        elif ADAPTS:
            fine, coarse = sums(group, _ERRORS, size, run.rtol, run.atol, w)
            if IMPLICIT:
                fine = _with_linear(fine, linear, real(n))
                longest = longest if linear < INFINITY else 0.5 * size
            log_error = control.size_of_sums(fine, coarse, 1.0 / real(n))
            if len(PROBES) > 0:
                log_error = max(log_error, control.size_of_sums(missed, missed, 1.0 / real(n)))
            kept = log_error <= 0.0
        t2 = t1
        if kept:
            completed = False
            if LATE > 0:
                if len(EXTRA_C) > 0:
                    complete(group, t, size, p, run, w)
                    completed = True
                remember(group, taken, t, size, run, w.y, w.k, w.past)
            if LOGS_INSIDE:
                if len(EXTRA_C) > 0 and not completed:
                    complete(group, t, size, p, run, w)
                    completed = True
                log_inside(
                    me, group, taken + 1, size, w.y, w.stage[END], w.k, out.step_log
                )  # fmt: skip
            if WATCHED:
                t2, cursor, outcome = look(me, group, t, size, t1, cursor, p, run, out, w)
            else:
                while cursor < run.times.size and run.times[cursor] <= t1:
                    at_end = run.times[cursor] == t1
                    if len(EXTRA_C) > 0 and not completed and not at_end:
                        complete(group, t, size, p, run, w)
                        completed = True
                    x = real(1.0) if at_end else (run.times[cursor] - t) / size
                    save(me, group, cursor, x, size, out, w)
                    cursor += 1
            if LATE > 0 and not read_from(t2, p, run, w.past) and t2 < last and outcome == DONE:
                outcome = NO_ROOM
            _commit(group, w)
            taken += 1
            log_end(me, group, n, taken, t2, w.stage[END], out.step_log)
        else:
            rejected += 1
            age = RECENT if age > 1 else age
        if MULTISTEP:
            h = min(next_step(group, kept, t2 < t1, run, w), largest)
        elif ADAPTS:
            way, most = t2 - t, largest
            if IMPLICIT:
                most = min(largest, longest)
            h = control.next_size(
                h, size, log_error, previous, kept, last_step_rejected, way, t2 < t1, most
            )
            h = min(retried(h, t, t1, soonest, kept), most)
            if IMPLICIT:
                longest = 1.2 * longest if kept else longest
            previous = max(log_error, real(control.SMALLEST)) if kept else previous
            last_step_rejected = not kept
        else:
            if LATE > 0:
                number += 1
            else:
                base, number, count = after_equal_step(t1, t2, h, base, number, count, run)
            if len(C) == 1:  # the next step has no stage before its end
                barrier(group)
        t = t2 if kept else t
        if t < last and outcome == DONE:
            if ADAPTS and (h <= 4.0 * EPSILON * abs(t) or not h > 0.0):
                outcome = NOT_FINITE if control.is_no_number(log_error) else STEP_TOO_SMALL
            elif taken + rejected >= run.most:
                outcome = TOO_MANY_STEPS
    if RESUMES:
        is_over = not t < last or outcome != DONE
        if group.rank == 0:
            whole, reals = w.kept.whole, w.kept.reals
            reals[TIME], reals[GOAL], reals[PROPOSED], reals[PREVIOUS] = t, goal, h, previous
            reals[RADIUS], reals[BASE], reals[LONGEST] = radius, base, longest
            whole[CURSOR], whole[TAKEN], whole[REJECTED] = cursor, taken, rejected
            whole[KNOT], whole[AGE], whole[NUMBER], whole[COUNT] = knot, age, number, count
            for q in range(OWN if MULTISTEP else 0):
                reals[REALS + q] = w.own[q]
            whole[WAS_REJECTED] = 1 if last_step_rejected else 0
            whole[STAGE] = OVER if is_over else UNDER_WAY
        if not is_over:
            return outcome, taken, rejected
    while cursor < run.times.size:
        for i in unknowns(group, n):
            out.states[cursor, i, me] = real(NOT_A_NUMBER)
        cursor += 1
    return outcome, taken, rejected


def _knot(knot, me, run):
    """Time number `knot` that no step of a trajectory crosses; infinity after the last."""
    if LATE > 0:
        return breaking_point(knot, me, run)
    return run.knots[knot] if knot < run.knots.size else real(INFINITY)


def next_equal_step(t, h, base, number, count, run):
    """End and size of step `number` of `count` steps of one size from `base` on."""
    if number + 1 < count:
        return fma(real(number + 1), h, base), h
    return run.last, h if base == run.origin else run.last - t


def after_equal_step(t1, t2, h, base, number, count, run):
    """Base, number and count of steps of one size after a step that an event may have ended."""
    if t2 < t1:
        left = (run.last - t2) / h
        whole = np.int64(left)
        whole = whole + 1 if left - real(whole) > 1e-6 else whole
        return t2, np.int64(0), max(whole, np.int64(1))
    return base, number + 1, count


def _first_step(group, t, span, p, run, w):
    """A step to begin with (see `adaptive.control.first_step`)."""
    state, slope = sums(group, _BEGIN, span, run.rtol, run.atol, w)
    per = 1.0 / real(w.k.shape[1])
    d1 = math.sqrt(slope * per)
    h = control.probing_step(math.sqrt(state * per), d1, span)
    for i in unknowns(group, w.k.shape[1]):
        w.stage[0, i] = fma(h, w.k[0, i], w.y[i])
    if LATE > 0:
        recall(group, t + h, fma(real(0.5), h, t), p, run, w.stage[0], w.past)
    barrier(group)
    evaluate(group, t + h, w.stage[0], p, run, w.k[1])
    change = sums(group, _CHANGE, h, run.rtol, run.atol, w)[0]
    return control.step_from_probe(h, d1, math.sqrt(change * per), span)


def _take_stages(group, t, h, t1, radius, looked, p, run, w):
    """All stages of a step, its end, and the slope there; errors as of `implicit_stages`."""
    linear, missed = real(0.0), real(0.0)
    if STABILISED:
        chebyshev_stages(group, t, h, t1, radius, p, run, w)
    elif IMPLICIT:
        linear, missed = implicit_stages(group, t, h, t1, looked, p, run, w)
    else:
        _tableau_stages(group, t, h, t1, p, run, w)
    return linear, missed


def _with_linear(total, linear, n):
    """The sum of squares of an error of `n` unknowns that linear systems add to."""
    if not linear > 0.0:
        return total
    error = math.sqrt(total / n)
    # An error of the linear systems within its limit does not make a step shorter.
    error = error + linear if linear > 2.0 * LINEAR else error / (1.0 - linear)
    return n * error * error


def _tableau_stages(group, t, h, t1, p, run, w):
    n = w.k.shape[1]
    for s in range(1, len(C) + 1):
        time = t1
        row = END
        for q in unroll(range(1, len(C))):
            if s == q:
                time = fma(real(C[q]), h, t)
                row = q & 1
                for i in unknowns(group, n):
                    moved = sum(A[q][j] * w.k[j, i] for j in range(q) if A[q][j] != 0.0)
                    w.stage[q & 1, i] = fma(h, moved, w.y[i])
        if s == len(C):
            for i in unknowns(group, n):
                moved = sum(B[j] * w.k[j, i] for j in range(len(C)) if B[j] != 0.0)
                w.stage[END, i] = fma(h, moved, w.y[i])
        if LATE > 0:
            recall(group, time, fma(real(0.5), h, t), p, run, w.stage[row], w.past)
        barrier(group)
        evaluate(group, time, w.stage[row], p, run, w.k[s])


def complete(group, t, h, p, run, w):
    """Compute the extra stages of the dense output."""
    for s in range(len(EXTRA_C)):
        time = t
        for q in unroll(range(len(EXTRA_C))):
            if s == q:
                time = fma(real(EXTRA_C[q]), h, t)
                for i in unknowns(group, w.k.shape[1]):
                    moved = sum(
                        EXTRA_A[q][j] * w.k[j, i]
                        for j in range(len(EXTRA_A[q]))
                        if EXTRA_A[q][j] != 0.0
                    )
                    w.stage[q & 1, i] = fma(h, moved, w.y[i])
        if LATE > 0:
            recall(group, time, fma(real(0.5), h, t), p, run, w.stage[s & 1], w.past)
        barrier(group)
        evaluate(group, time, w.stage[s & 1], p, run, w.k[len(C) + 1 + s])
    barrier(group)


def within(x, weights, h, i, w):
    """Unknown `i` at the fraction `x` of a step; `weights` are those of the dense output there."""
    value = w.y[i]
    if x == 1.0:
        value = w.stage[END, i]
    elif x > 0.0:
        if SCHEME > 0:  # a straight line
            value = (1.0 - x) * value + x * w.stage[END, i]
        else:
            moved = sum(weights[j] * w.k[j, i] for j in range(len(DENSE)))
            value = fma(h, moved, value)
    return value


@noinline_cpu
def save(me, group, cursor, x, h, out, w):
    """Save the state at the fraction `x` of a step; exact at its ends, even if it is infinite."""
    weights = dense_weights(x)
    for i in unknowns(group, w.k.shape[1]):
        value = within(x, weights, h, i, w)
        out.states[cursor, i, me] = value
        if not ADAPTS and not is_finite(value):
            out.status[me] = NOT_FINITE


def _commit(group, w):
    """Advance to the end of the step."""
    for i in unknowns(group, w.k.shape[1]):
        w.y[i] = w.stage[END, i]
        w.k[0, i] = w.k[len(C), i]
