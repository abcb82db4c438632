"""Orthonormalization of tangent vectors along a trajectory, for ordinary and delay equations.

The state of a delay equation is a segment of its history.  A tangent vector therefore consists of
its present variables and its values at the points of the ring (see `history_ring`).  Every
`renewal[1]` steps, modified Gram-Schmidt orthonormalizes these vectors and accumulates the
logarithms of their norms.  Slopes in the ring are scaled with the values.  They do not enter the
scalar product, since they follow from the values.

Tangent vectors are additional variables of an extended field; each vector has as many variables as
the field (see `lyapunov`).  They are initialised in step `renewal[0]` as waves of different
lengths; from this step on, all points that are read lie in the ring.

G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Meccanica 15, 9 and 21 (1980);
J. D. Farmer, Physica D 4, 366 (1982) for delay equations.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import option, real
from ergode.core.math.elementary import cos, log
from ergode.trajectories.delays.history_ring import DELAYED
from ergode.trajectories.steppers.equations import VARIABLES

TANGENTS = option(0)  # number of tangent vectors
PARALLEL = 1e200  # growth of a vector that had become parallel to others, up to rounding


def renews(step, renewal):
    """Whether tangent vectors are orthonormalized before this step."""
    return step >= renewal[0] and (step - renewal[0]) % renewal[1] == 0


def renew(step, renewal, h, step_count, period, state, ring, me, exponents, column):
    """Orthonormalize the tangent vectors of one trajectory.

    `renewal` is (first step, number of steps between two renewals, time relative to the origin from
    which growth is accumulated).  The rows of `exponents` are the sums of the logarithms of the
    norms, then the accumulated time.  `me` is the index of the trajectory in `state` and `ring`,
    `column` its index in `exponents`, or -1 if its growth is not accumulated.
    """
    if step == renewal[0]:
        _sow(period, state, ring, me)
    counts = (
        column >= 0
        and step > renewal[0]
        and step <= step_count
        and real(step - renewal[1]) * h >= renewal[2]
    )
    for j in range(1, TANGENTS + 1):
        before = _product(j, j, period, state, ring, me)
        for i in range(1, j):
            _take_away(_product(i, j, period, state, ring, me), i, j, period, state, ring, me)
        square = _product(j, j, period, state, ring, me)
        size = math.sqrt(square)
        _scale(1.0 / size, j, period, state, ring, me)
        if counts:
            exponents[j - 1, column] += log(size) if square > 1e-18 * before else PARALLEL
    if counts:
        exponents[TANGENTS, column] += real(renewal[1]) * h


def _own(count):
    """Number of variables (or stored variables) per tangent vector; `count` is the total."""
    return count // (TANGENTS + 1)


def _sow(period, state, ring, me):
    """Initialise linearly independent tangent vectors."""
    for j in range(1, TANGENTS + 1):
        for i in range(_own(VARIABLES)):
            state[j * _own(VARIABLES) + i, me] = cos(real(j * (i + 1)))
        for v in range(_own(len(DELAYED))):
            place = j * _own(len(DELAYED)) + v
            wave = real(j + v * TANGENTS) / real(period)
            for slot in range(period):
                ring[slot, place, 0, me] = cos(wave * real(slot))
                ring[slot, place, 1, me] = 0.0


def _product(i, j, period, state, ring, me):
    total = real(0.0)
    for m in range(_own(VARIABLES)):
        total += state[i * _own(VARIABLES) + m, me] * state[j * _own(VARIABLES) + m, me]
    if len(DELAYED) > 0:
        for slot in range(period):
            for v in range(_own(len(DELAYED))):
                total += (
                    ring[slot, i * _own(len(DELAYED)) + v, 0, me]
                    * ring[slot, j * _own(len(DELAYED)) + v, 0, me]
                )
    return total


def _take_away(part, i, j, period, state, ring, me):
    for m in range(_own(VARIABLES)):
        state[j * _own(VARIABLES) + m, me] -= part * state[i * _own(VARIABLES) + m, me]
    if len(DELAYED) > 0:
        for slot in range(period):
            for v in range(_own(len(DELAYED))):
                mine, other = j * _own(len(DELAYED)) + v, i * _own(len(DELAYED)) + v
                ring[slot, mine, 0, me] -= part * ring[slot, other, 0, me]
                ring[slot, mine, 1, me] -= part * ring[slot, other, 1, me]


def _scale(factor, j, period, state, ring, me):
    for m in range(_own(VARIABLES)):
        state[j * _own(VARIABLES) + m, me] *= factor
    if len(DELAYED) > 0:
        for slot in range(period):
            for v in range(_own(len(DELAYED))):
                place = j * _own(len(DELAYED)) + v
                ring[slot, place, 0, me] *= factor
                ring[slot, place, 1, me] *= factor
