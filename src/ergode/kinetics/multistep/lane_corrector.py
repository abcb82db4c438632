"""Newton's method of `corrector` for eight zones in vector lanes.

Each lane decides as a zone alone does, and has its bits. Rates, factors and solutions are computed
for all lanes, and kept where a lane needs them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import lane_of, noinline_cpu, where
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.kernel_options import EXCHANGES, FLOW, SELF_HEATING
from ergode.kinetics.multistep import corrector
from ergode.kinetics.multistep.activities import Zone, energy_of_zone
from ergode.kinetics.multistep.factors import renew_factors, solve_trial
from ergode.kinetics.multistep.lanes import WIDTH, row_of
from ergode.kinetics.tables import CLOSED

# --- device functions -----------------------------------------------------------------------------


class Numbers(NamedTuple):
    """Numbers of each lane in a vector, [1] each."""

    h: np.ndarray  # length of the step
    gamma: np.ndarray
    factored: np.ndarray  # gamma of the factors
    share: np.ndarray  # of a correction that is used
    capacity: np.ndarray  # heat capacity at the Jacobian
    renews: np.ndarray  # whether the Jacobian is renewed
    moves: np.ndarray  # whether the history moves forward
    ends: np.ndarray  # whether a step has ended, or a zone begins
    size: np.ndarray  # a norm
    constant: np.ndarray  # its factor
    given: np.ndarray  # as in `Setting`, as are all that follow
    sunlight: np.ndarray
    start: np.ndarray
    energy: np.ndarray
    squeeze: np.ndarray
    passage: np.ndarray
    around: np.ndarray
    renewal: np.ndarray
    inflow: np.ndarray  # [inflow_count]
    factors: np.ndarray  # [set_count]: prefactors in a sweep


class Iteration(NamedTuple):
    """Newton's method of each lane, [WIDTH] each."""

    state: np.ndarray  # how it ended
    goes_on: np.ndarray
    anew: np.ndarray  # whether it needs a new Jacobian
    fresh: np.ndarray  # whether it has one
    slopes_age: np.ndarray  # as in `Kept`
    factors_age: np.ndarray
    allowed: np.ndarray  # error at which it ends
    rate: np.ndarray  # estimate of the rate of convergence
    last: np.ndarray  # size of the last correction


def numbers_of(size, factor_count):
    """Workspace; `size` is that of what flows in."""
    return Numbers(
        row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1),
        row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1), row_of(1),
        row_of(1), row_of(1), row_of(size), row_of(factor_count),
    )  # fmt: skip


def iteration_of():
    """Workspace."""
    return Iteration(
        np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.bool_), np.zeros(WIDTH, np.bool_),
        np.zeros(WIDTH, np.bool_), np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.int64),
        np.zeros(WIDTH), np.ones(WIDTH), np.zeros(WIDTH),
    )  # fmt: skip


def put(row, lane, value):
    """Put the number of a lane."""
    own = lane_of(row, lane)
    own[0] = value


def zone_at(zone, lane):
    """The workspace of one lane."""
    return Zone(
        lane_of(zone.exponential, lane), lane_of(zone.slots, lane), lane_of(zone.slopes, lane),
        lane_of(zone.partners, lane), lane_of(zone.falloff, lane), lane_of(zone.packed, lane),
        lane_of(zone.between, lane), lane_of(zone.hot, lane), lane_of(zone.matter, lane),
        lane_of(zone.activity, lane), lane_of(zone.rate, lane), lane_of(zone.derivative, lane),
        zone.partial, lane_of(zone.memory, lane), zone.work, zone.group,
    )  # fmt: skip


def vectors_at(vectors, lane):
    """The vectors of one lane."""
    return corrector.Vectors(
        lane_of(vectors.history, lane), lane_of(vectors.y, lane), lane_of(vectors.change, lane),
        lane_of(vectors.correction, lane), lane_of(vectors.before, lane),
        lane_of(vectors.trial, lane), lane_of(vectors.weight, lane), lane_of(vectors.slopes, lane),
        lane_of(vectors.row, lane), lane_of(vectors.column, lane), lane_of(vectors.border, lane),
        lane_of(vectors.matrix, lane),
        lane_of(vectors.inverse, lane),
        lane_of(vectors.scratch, lane), lane_of(vectors.gain, lane), lane_of(vectors.past, lane),
        lane_of(vectors.gram, lane), vectors.group,
    )  # fmt: skip


def begin_iterations(numbers, iteration, lane):
    """Forget what a lane has kept."""
    iteration.state[lane], iteration.anew[lane] = corrector.CONVERGED, True
    iteration.slopes_age[lane], iteration.factors_age[lane] = (
        corrector.NOTHING_KEPT,
        corrector.NOTHING_KEPT,
    )
    iteration.rate[lane] = 1.0
    put(numbers.factored, lane, 1.0)
    put(numbers.capacity, lane, 1.0)


@noinline_cpu
def predict_some(history, order, moves):
    """Move the history forward by a step in some lanes."""
    for k in range(order):
        for back in range(order - k):
            j = (order - 1 - back) & NONNEGATIVE
            for i in range(history.shape[1]):
                history[j, i] = where(moves, history[j, i] + history[j + 1, i], history[j, i])


def correct_some(chemistry, zone, vectors, numbers, iteration, setting):
    """Solve for a step of the lanes that go on, whose predictions are in the history."""
    y, history, correction, b = vectors.y, vectors.history, vectors.correction, vectors.trial
    species = zone.matter.shape[1]
    numbers.gamma[0] = numbers.h[0] / vectors.gain[1]
    gamma = numbers.gamma[0]
    for i in range(y.size):
        y[i] = history[0, i]
        correction[i] = 0.0
    energy, target = setting.energy, setting.energy
    for turn in range(corrector.ITERATIONS):
        corrector.put_rates(chemistry, zone, vectors, setting)
        if SELF_HEATING:
            energy, _ = energy_of_zone(zone, y)
            if EXCHANGES:
                target = history[0, y.size]
                target += corrector.gain_of_energy(zone, vectors, setting, gamma)
        if turn == 0:
            if asks_for_slopes(numbers, iteration):
                numbers.capacity[0] = corrector.renew_slopes(
                    chemistry, zone, vectors, setting, numbers.renews[0], numbers.capacity[0]
                )
            if asks_for_factors(numbers, iteration):
                # Lanes that did not ask get the factors that they have.
                numbers.size[0] = renew_factors(
                    chemistry, vectors, numbers.factored[0], setting.renewal
                )
                for lane in range(WIDTH):
                    if lane_of(numbers.size, lane)[0] != 0.0:
                        iteration.goes_on[lane] = False
            numbers.share[0] = 2.0 / (1.0 + gamma / numbers.factored[0])
        for lane in range(WIDTH):
            if not iteration.goes_on[lane]:
                put(numbers.share, lane, 0.0)
        factored, share = numbers.factored[0], numbers.share[0]
        for i in range(species):
            b[i] = gamma * vectors.change[i] - history[1, i] / vectors.gain[1] - correction[i]
            b[i] /= factored
        if SELF_HEATING:
            b[species] = (target - energy) / (numbers.capacity[0] * factored)
        solve_trial(chemistry, vectors)
        for i in range(y.size):
            b[i] = where(share, b[i] * share, share)
            correction[i] += b[i]
            y[i] = history[0, i] + correction[i]
        numbers.size[0] = corrector.norm(b, vectors.weight, vectors.group)
        if not judge(vectors, numbers, iteration, turn, species):
            break
    if EXCHANGES:
        correction[y.size] = corrector.settled_gain(chemistry, zone, vectors, setting, gamma)
        numbers.energy[0] = history[0, y.size] + correction[y.size]
    if FLOW != CLOSED:
        corrector.correct_kept(chemistry, vectors, setting, 1.0, gamma)


@noinline_cpu
def asks_for_slopes(numbers, iteration):
    """Put which lanes need a new Jacobian; whether some do."""
    some = False
    for lane in range(WIDTH):
        fresh = iteration.goes_on[lane] and (
            iteration.anew[lane] or iteration.slopes_age[lane] >= corrector.AGE
        )
        iteration.fresh[lane] = fresh
        put(numbers.renews, lane, 1.0 if fresh else 0.0)
        if fresh:
            iteration.slopes_age[lane] = 0
            some = True
    return some


@noinline_cpu
def asks_for_factors(numbers, iteration):
    """Put the gamma of the factors of each lane; whether some are new."""
    some = False
    for lane in range(WIDTH):
        gamma, factored = lane_of(numbers.gamma, lane), lane_of(numbers.factored, lane)
        if iteration.goes_on[lane] and (
            iteration.fresh[lane] or iteration.factors_age[lane] >= corrector.AGE
            or abs(gamma[0] / factored[0] - 1.0) > corrector.CHANGED
        ):  # fmt: skip
            factored[0] = gamma[0]
            iteration.rate[lane] = 1.0
            iteration.factors_age[lane] = 0
            some = True
    return some


@noinline_cpu
def judge(vectors, numbers, iteration, turn, species):
    """Decide for each lane whether its iteration has ended; whether some lane goes on."""
    some = False
    for lane in range(WIDTH):
        if iteration.goes_on[lane]:
            size, last = lane_of(numbers.size, lane)[0], iteration.last[lane]
            if turn > 0:
                iteration.rate[lane] = max(0.3 * iteration.rate[lane], size / last)
            iteration.last[lane] = size
            if size * min(iteration.rate[lane], 1.0) <= iteration.allowed[lane]:
                iteration.state[lane] = corrector.CONVERGED
                iteration.goes_on[lane] = False
            elif not size < math.inf:
                iteration.state[lane] = corrector.BROKEN
                iteration.goes_on[lane] = False
            elif (SELF_HEATING and not lane_of(vectors.y, lane)[species] > 0.0) or (
                turn > 0 and size > 2.0 * last
            ):
                iteration.goes_on[lane] = False
            some = some or iteration.goes_on[lane]
    return some


def let_go_on(iteration, lane, goes_on):
    """Let the iteration of a lane go on, or wait."""
    iteration.goes_on[lane] = goes_on
    iteration.state[lane] = corrector.DIVERGED if goes_on else iteration.state[lane]
