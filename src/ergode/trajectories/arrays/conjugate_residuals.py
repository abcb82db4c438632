"""Steps of a Rosenbrock method without a matrix, of a group of threads.

The linear systems of the stages are those of `krylov`, on a host; a group of threads solves them
in the same way.  The products of a new image with all kept images are summed together, between two
barriers.  A direction reads every kept image twice and every kept direction once, and takes 9
barriers of a grid; 13 where it is made orthogonal again.

A residual r of a stage is an error of its u, of at most ``h gamma r`` where J damps.  It changes
the end of the step, and the estimate of the error, by factors W(z) that follow from the tableau for
a linear equation, z = h lambda.  These are rational functions without poles where the real part of
z is negative, so that they are largest on the imaginary axis.

Rows of the slopes are those of `rosenbrock` up to the scratch row; then products; residual,
solution, direction and image, in tolerances; the tolerances; and the kept directions and images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda, fma, real
from ergode.core.compiler.source import Precision
from ergode.core.group import (
    BLOCK,
    GRID,
    KIND,
    barrier,
    totals_of,
    totals_of_block,
    totals_of_parts,
)
from ergode.trajectories.arrays.equations import evaluate, unknowns
from ergode.trajectories.arrays.group import END, LINEAR
from ergode.trajectories.arrays.rosenbrock import (
    LEAST_SCALE,
    STAGES,
    bindings_of,
    defect_inside,
    end_of_step,
    right_hand_side,
    set_tolerances,
    slopes_by_time,
    square_of_error,
)
from ergode.trajectories.arrays.rosenbrock import table_of as couplings_of
from ergode.trajectories.steppers import rosenbrock
from ergode.trajectories.steppers.equations import EPSILON, INFINITY
from ergode.trajectories.steppers.inside_step import NOT_A_NUMBER
from ergode.trajectories.steppers.rosenbrock import GAMMA
from ergode.trajectories.steppers.stepper import PROBES

__all__ = ["bindings_of", "rows_of", "table_of", "take_stages"]

_BYTES = 2**29  # memory for directions
_LEAST_KEPT, _USUAL_KEPT = 10, 40  # directions; few unknowns may have more
_LIGHT = 2**20  # numbers in directions that cost next to nothing
TURNS = 300  # directions of a stage, at most
ROUGH = 0.1  # of the tolerance, to which the error of the dense output is known
MOVED = 0.3  # tolerances that a difference is wide, at least
EXHAUSTED = 1e-6  # part of an image that is new, below which it is rounding of a difference
CARRIED = 1e-5  # of a right-hand side, that may be left of it
NOTHING = 1e-4  # of what is allowed, below which nothing counts
STALLED = 0.999  # of the residual, from which a direction was of no use
_SHARE = 3  # and two for each stage: the column of a stage's share in the tableau

# Rows of the slopes, from `STAGES` on.
_SCRATCH, _PRODUCTS, _RESIDUAL, _SOLUTION, _DIRECTION, _IMAGE, _SCALE, _KEPT = range(3, 11)
_OPEN, _SOLVED, _FAILED = range(3)


def kept_of(n: int) -> int:
    """Number of directions that are kept of `n` unknowns."""
    usual = min(_USUAL_KEPT, max(_LEAST_KEPT, _BYTES // (16 * n)))
    return min(n, TURNS, max(usual, _LIGHT // n))


def take_stages(group, t, h, t1, looked, p, run, w):
    """All stages of a step, its end and the slope there (see `group.implicit_stages`)."""
    table = run.stages
    slopes_by_time(group, t, h, p, run, w)
    size = set_tolerances(group, w.k[STAGES + _SCALE], run, w)
    move = max(math.sqrt(EPSILON) * size, real(MOVED))  # width of differences
    filled, following, error = np.int64(0), np.int64(0), real(0.0)
    for s in range(STAGES):
        if error < INFINITY:
            weight = h * real(GAMMA) * table[s, _SHARE + 2 * STAGES]
            right_hand_side(group, s, t, h, p, run, w)
            allowed = LINEAR / (real(STAGES) * weight)
            left, filled, following = _solve(
                group, s, t, h, move, allowed, filled, following, p, run, w
            )
            error += weight * left
    if error < INFINITY:
        end_of_step(group, h, t1, p, run, w)
        missed = real(0.0)
        row = STAGES + 2  # of the time derivative, which has served
        for q in range(len(PROBES) if looked else 0):
            defect_inside(group, q, row, t, h, p, run, w)
            allowed = real(ROUGH) / (h * real(GAMMA))
            left, filled, following = _solve(
                group, row - 1, t, h, move, allowed, filled, following, p, run, w
            )
            total = real(0.0)
            for i in unknowns(group, w.y.size):
                total += square_of_error(h * w.k[row, i], i, run, w)
            total = totals_of(group, total, total)[0] if left < INFINITY else left
            missed = missed if total <= missed else total
        return error, missed
    for i in unknowns(group, w.y.size):
        w.stage[END, i] = real(NOT_A_NUMBER)
    return real(INFINITY), real(INFINITY)


def _solve(group, s, t, h, move, allowed, filled, following, p, run, w):
    """Solve for the right-hand side of stage `s`, which its row holds, divided by h.

    Returns the size of the residual, infinite if no solution was found, the number of kept
    directions, and the place of the next one.
    """
    n, per = w.y.size, 1.0 / real(w.y.size)
    kept = (w.k.shape[0] - (STAGES + _KEPT)) // 2
    r, x, d, q = STAGES + _RESIDUAL, STAGES + _SOLUTION, STAGES + _DIRECTION, STAGES + _IMAGE
    scale, directions, images = STAGES + _SCALE, STAGES + _KEPT, STAGES + _KEPT + kept
    diagonal = 1.0 / (h * real(GAMMA))
    total = real(0.0)
    for i in unknowns(group, n):
        part = w.k[1 + s, i] / w.k[scale, i]
        w.k[r, i] = part
        w.k[x, i] = real(0.0)
        total += part * part
    left = math.sqrt(totals_of(group, total, total)[0] * per)
    # A step so short that all its motion is within the tolerance has to move nevertheless.
    allowed = min(allowed, max(real(CARRIED) * left, real(NOTHING) * allowed))
    if filled > 0:
        _products(group, images, filled, r, w)
        total = real(0.0)
        for i in unknowns(group, n):
            rest, found = w.k[r, i], real(0.0)
            for j in range(filled):
                part = w.k[STAGES + _PRODUCTS, j]
                rest = fma(-part, w.k[images + j, i], rest)
                found = fma(part, w.k[directions + j, i], found)
            w.k[r, i] = rest
            w.k[x, i] = found
            total += rest * rest
        left = math.sqrt(totals_of(group, total, total)[0] * per)
    outcome, turns, stalled = _OPEN, 0, False
    while outcome == _OPEN:
        # Every step has a product at least: derivatives that are no numbers nearby end it.
        if not (left > allowed or (left > 0.0 and filled == 0)):
            outcome = _SOLVED if left < INFINITY else _FAILED
        elif turns == TURNS or not left < INFINITY:
            outcome = _FAILED
        else:
            # After a residual that led nowhere the last image leads on, as in Orthodir.
            onward = stalled and filled > 0
            row = images + (following - 1 + kept) % kept if onward else np.int64(r)
            for i in unknowns(group, n):
                w.k[d, i] = w.k[row, i]
            width = math.sqrt(per) if onward else left
            width = move / max(width, real(LEAST_SCALE))
            whole, along = _product(group, t, diagonal, width, p, run, w)
            new, again = whole, filled > 0
            for _ in range(2):  # again where the rest is small, for rounding
                if again:
                    before = new
                    _products(group, images, filled, q, w)
                    total, along = real(0.0), real(0.0)
                    for i in unknowns(group, n):
                        image, direction = w.k[q, i], w.k[d, i]
                        for j in range(filled):
                            part = w.k[STAGES + _PRODUCTS, j]
                            image = fma(-part, w.k[images + j, i], image)
                            direction = fma(-part, w.k[directions + j, i], direction)
                        w.k[q, i] = image
                        w.k[d, i] = direction
                        total += image * image
                        along += image * w.k[r, i]
                    total, along = totals_of(group, total, along)
                    new = math.sqrt(total * per)
                    again = not new > 0.5 * before
            size = new * math.sqrt(real(n))
            if not size < INFINITY:
                outcome = _FAILED
            elif not size > EXHAUSTED * whole:
                if stalled or filled == 0:
                    outcome = _SOLVED
                stalled = True
                turns += 1
            else:
                along = along / size
                total = real(0.0)
                for i in unknowns(group, n):
                    image, direction = w.k[q, i] / size, w.k[d, i] / size
                    w.k[images + following, i] = image
                    w.k[directions + following, i] = direction
                    rest = fma(-along, image, w.k[r, i])
                    w.k[x, i] = fma(along, direction, w.k[x, i])
                    w.k[r, i] = rest
                    total += rest * rest
                before = left
                left = math.sqrt(totals_of(group, total, total)[0] * per)
                filled = max(filled, following + 1)
                following = (following + 1) % kept
                stalled = left > STALLED * before
                turns += 1
    for i in unknowns(group, n):
        w.k[1 + s, i] = w.k[x, i] * w.k[scale, i] / h
    return (left if outcome == _SOLVED else real(INFINITY)), filled, following


def _product(group, t, diagonal, step, p, run, w):
    """Set the image of the direction by a difference of width `step`.

    Its size, and its product with the residual.
    """
    n, r, d, q = w.y.size, STAGES + _RESIDUAL, STAGES + _DIRECTION, STAGES + _IMAGE
    scale, scratch = STAGES + _SCALE, STAGES + _SCRATCH
    size, along = real(INFINITY), real(0.0)
    for tried in range(2):  # the other way, if derivatives are no numbers there
        if not size < INFINITY:
            width = step if tried == 0 else -step
            for i in unknowns(group, n):
                w.stage[0, i] = fma(width * w.k[scale, i], w.k[d, i], w.y[i])
            barrier(group)
            evaluate(group, t, w.stage[0], p, run, w.k[scratch])
            total, along = real(0.0), real(0.0)
            for i in unknowns(group, n):
                change = (w.k[scratch, i] - w.k[0, i]) / (width * w.k[scale, i])
                image = fma(diagonal, w.k[d, i], -change)
                w.k[q, i] = image
                total += image * image
                along += image * w.k[r, i]
            total, along = totals_of(group, total, along)
            size = math.sqrt(total / real(n))
    return size, along


def _products(group, first, count, row, w):
    """Set the row of products to those of `count` rows from `first` on with a row."""
    last = count - 1
    for a in range(0, count, 4):  # four wait for memory together
        b, c, d = min(a + 1, last), min(a + 2, last), min(a + 3, last)
        one, two, three, four = real(0.0), real(0.0), real(0.0), real(0.0)
        for i in unknowns(group, w.y.size):
            value = w.k[row, i]
            one += w.k[first + a, i] * value
            two += w.k[first + b, i] * value
            three += w.k[first + c, i] * value
            four += w.k[first + d, i] * value
        _deposit(group, a, b, one, two, w)
        _deposit(group, c, d, three, four, w)
    _collect(group, count, w)


def _deposit_cpu(group, j, other, one, two, w):
    w.k[STAGES + _PRODUCTS, j] = one
    w.k[STAGES + _PRODUCTS, other] = two


def _deposit_cuda(group, j, other, one, two, w):
    """Add up a block's parts of products `j` and `other`; of a whole group, they are products."""
    if KIND == BLOCK or KIND == GRID:
        one, two = totals_of_block(group, one, two)
    if KIND == GRID:
        if cuda.threadIdx.x == 0:
            group.parts[j, cuda.blockIdx.x] = one
            group.parts[other, cuda.blockIdx.x] = two
    elif group.rank == 0:
        w.k[STAGES + _PRODUCTS, j] = one
        w.k[STAGES + _PRODUCTS, other] = two


def _collect_cpu(group, count, w):
    pass


def _collect_cuda(group, count, w):
    barrier(group)
    if KIND == GRID:
        for j in range(2 * cuda.blockIdx.x, count, 2 * cuda.gridDim.x):
            other = min(j + 1, count - 1)
            one, two = totals_of_parts(group, j, other)
            if cuda.threadIdx.x == 0:
                w.k[STAGES + _PRODUCTS, j] = one
                w.k[STAGES + _PRODUCTS, other] = two
        barrier(group)


_deposit = ByTarget(cpu=_deposit_cpu, cuda=_deposit_cuda)
_collect = ByTarget(cpu=_collect_cpu, cuda=_collect_cuda)


# ---- what a host gives to the kernel


def rows_of(method: Mapping[Any, Any]) -> int:
    """Rows of slopes before the kept directions."""
    return len(method[rosenbrock.ALPHA]) + _KEPT


def table_of(method: Mapping[Any, Any], precision: Precision) -> np.ndarray:
    """The tableau (see `rosenbrock.table_of`), and the share of every stage."""
    return np.column_stack([couplings_of(method, precision), shares_of_stages(method)])


def shares_of_stages(method: Mapping[Any, Any]) -> np.ndarray:
    """W of every stage: what an error of its u changes the end or the estimate by, at most."""
    a, c = method[rosenbrock.A], method[rosenbrock.C]
    ends = np.array([method[rosenbrock.M], method[rosenbrock.ERROR]])
    gamma, count = method[rosenbrock.GAMMA], len(c)
    z = 1j * np.tan(np.linspace(0.0, np.pi / 2, 200, endpoint=False))
    carried = np.tile(np.eye(count, dtype=complex), (z.size, 1, 1))  # of u_i, by an error of u_j
    for i in range(count):
        for k in range(i):
            couples = gamma * (z * a[i][k] + c[i][k]) / (1 - gamma * z)
            carried[:, i, : k + 1] += couples[:, None] * carried[:, k, : k + 1]
    return np.asarray(abs(ends @ carried).max(axis=(0, 1)))


def allowed_residuals(method: Mapping[Any, Any], h: float, shares: np.ndarray) -> np.ndarray:
    """For each stage of a step of size `h`, the residual at which it is solved [tolerances]."""
    return LINEAR / (len(shares) * h * method[rosenbrock.GAMMA] * shares)
