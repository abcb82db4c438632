"""One step of tau-leaping, for ``"renewal-leap"`` and ``"markov-leap"``.

Each step, from t to t + dt, freezes the force of infection on every node, computes the transition
probability of every node, and updates all nodes synchronously.  Let P be the force of infection on
a node: the sum of rates along arcs from its infectious neighbours (`pressure` in the code).  Let g
be the probability that the node progresses (leaves its compartment without infection) within the
step.  The node moves with probability

    1 - exp(-P dt) (1 - g).

Given a move, it is an infection with probability P dt / (P dt - log(1 - g)).  There are three ways
to compute g.  Let a be the age of the node in its compartment, h the hazard and S the survival
function of the holding time:

``"left-end"``     1 - exp(-h(a) dt): the hazard is frozen as well.
``"conditional"``  1 - S(a + dt) / S(a): exact for any dt.
``"sampled"``      the holding time is drawn when the node enters its compartment.  The node leaves
                   in the step in which the holding time ends.  The distribution equals that of
                   ``"conditional"``, and steps need no draws.  If forces of infection are
                   counts of neighbours, a susceptible node gets an exponential threshold.  The
                   node is infected when the sum of P dt over its steps reaches the threshold.

The remaining error is first order in dt: a step sees neither the infections within it nor the
moment of a move (cf. Gillespie 2001, J. Chem. Phys. 115, 1716, for leaps of reactions; Boguna,
Lafuerza, Toral, Serrano 2014, Phys. Rev. E 90, 042108, for renewal clocks).

Forces of infection are integers, counts of a unit (`Rules.unit`), so the order of a sum does not
matter.  Each node sums over its neighbours ("gather"), or each node whose infectivity changed adds
to its neighbours ("push").  Both give the same sum.  Every draw is keyed by (seed, replicate,
node, step).  So a result depends neither on the way of summing nor on the device.

Time is counted in ticks.  If all steps are equal, a tick is a step, an age is a number of
steps, and g comes from a table.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByPrecision, fma, real
from ergode.core.math.elementary import expm1, log1p
from ergode.core.math.random import LEAP_CAUSE, LEAP_EVENT, draw_words, exponential, uniform
from ergode.epidemics.leap.options import (
    ADAPTIVE,
    AGED,
    COUNTED,
    LAYERS,
    LEFT_END,
    SAMPLED,
    TABULATED,
)
from ergode.epidemics.shared.arcs import of_arc
from ergode.epidemics.shared.clock import ROUNDING_32
from ergode.epidemics.shared.options import HAS_AGES, HAS_STRATA, WEIGHTED
from ergode.epidemics.shared.progression import holding_time_of_stay, remaining_time, row_of
from ergode.models.holding_times import kernels
from ergode.models.holding_times.kernels import DETERMINISTIC

NOBODY = 31  # compartment of the padding after the last node
COMPARTMENTS_MOST = NOBODY
TICKS_MOST = 2**30
_SOON = -1e-3  # ticks of tolerance, so that rounding does not add a step

# Entries of the work of a replicate.
STEPS, PULLS, CHANGES, INFECTIOUS = range(4)
WORK_SIZE = 4
# How the force of infection is updated.
GATHER, PUSH, AUTO = range(3)


class Rules(NamedTuple):
    """Transmission and progression rules as integers and rates."""

    # A source: the compartments that transmit one infection at one rate [source_count].
    mask: Any  # bit c: compartment c is one of them, int64
    infection: Any  # int64
    rate: Any  # units of force of infection along an arc of weight one, real
    susceptible: Any  # compartments before and after each infection, int64 [infection_count]
    infected: Any
    ending_rate: Any  # one over the (shortest) mean holding time, real [compartment_count]
    unit: Any  # rate of one unit of force of infection [1 / time], real
    stratum: Any  # of each node, int32 [node_count], or [1]
    stratum_count: int
    compartment_count: int
    # Bit c says of compartment c, as int64:
    susceptible_mask: int  # that an infection leads out of it
    leaving_mask: int  # that it has a progression
    keeping_mask: int  # that a node in it may become susceptible again


class TransitionProbabilities(NamedTuple):
    """Tables of transition probabilities for equal steps."""

    leaving: Any  # real [row of stages x age]
    infected: Any  # real [pressure]


class Schedule(NamedTuple):
    """Lengths of steps."""

    tick: Any  # [time], real
    per_tick: Any  # one over it
    grid_tick: Any  # of each time of the grid, int64 [time_count]
    step_ticks: int  # of the longest step
    tolerance: Any  # largest hazard times step, if steps are adaptive; real
    last_age: int  # last column of the table of probabilities


class LeapTables(NamedTuple):
    """Read-only tables of a run."""

    incoming: Any  # `shared.arcs.Arcs` into every node
    outgoing: Any  # `shared.arcs.Arcs` out of every node
    rules: Any  # `Rules`
    stages: Any  # see `shared.progression.Stages`
    probabilities: Any  # `TransitionProbabilities`
    schedule: Any  # `Schedule`
    factors: Any  # see `leap.factors.Factors`
    seeding: Any  # see `seeding.Seeding`


# ---- shared by both targets


def contribution(rate, weights, arc):
    """Force of infection along an arc, in units."""
    if WEIGHTED:
        return np.int32(fma(rate, of_arc(weights, arc), real(0.5)))
    return np.int32(rate)


def layer_of(arcs, arc):
    """The layer of an arc, where forces of infection are kept by layer."""
    if LAYERS > 1:
        return np.int64(of_arc(arcs.layer, arc))
    return np.int64(0)


def column(rules, compartment, node):
    """The column of counts for a node in a compartment."""
    if HAS_STRATA:
        return np.int64(compartment) * rules.stratum_count + np.int64(rules.stratum[node])
    return np.int64(compartment)


def leaving_probability(stages, probabilities, schedule, compartment, node, age, ticks):
    """Probability g of a node to leave a compartment within a step, at an age in ticks."""
    row = row_of(stages, compartment, node)
    if TABULATED:
        first = np.int64(row) * np.int64(schedule.last_age + 1)
        column = min(np.int64(age), np.int64(schedule.last_age)) if AGED else 0
        return probabilities.leaving[np.uint64(first + column)]
    if ticks == 0:
        return real(0.0)
    # A compiler might fuse a plain product with the sum that follows.
    at = fma(real(age), schedule.tick, real(0.0))
    length = fma(real(ticks), schedule.tick, real(0.0))
    if LEFT_END:
        return -expm1(-(hazard(stages, row, at) * length))
    return ending_probability(stages, row, at, length)


def leaving_row(age, stages, row, tick, table):
    """One entry of the table of probabilities to leave [row of stages, age in ticks]."""
    at = real(age) * tick
    if LEFT_END:
        table[row, age] = -expm1(-(hazard(stages, row, at) * tick))
    else:
        # A little longer, so that a deterministic end at the last moment belongs to the step.
        table[row, age] = ending_probability(stages, row, at, tick * 1.000000001)


def hazard(stages, row, age):
    """Hazard of the progression in a row of `stages` at an age [1 / time]."""
    return kernels.hazard(
        stages.kind[row], stages.a[row], stages.b[row], stages.table_time, stages.table_cdf,
        stages.table_start[row], stages.table_start[row + 1], age,
    )  # fmt: skip


def ending_probability(stages, row, age, length):
    """Probability of the progression in a row of `stages` within `length`, given an age."""
    if stages.kind[row] == DETERMINISTIC:  # a sum of steps rounds
        length = fma(age + length, real(ROUNDING_32), length)
    return kernels.ending_probability(
        stages.kind[row], stages.a[row], stages.b[row], stages.table_time, stages.table_cdf,
        stages.table_start[row], stages.table_start[row + 1], age, length,
    )  # fmt: skip


def ending_rate(stages, rules, schedule, compartment, node, age):
    """Hazard of a node to leave a compartment, for the choice of the next step [1 / time]."""
    if SAMPLED:
        return rules.ending_rate[compartment]
    row = row_of(stages, compartment, node)
    rate = hazard(stages, row, fma(real(age), schedule.tick, real(0.0)))
    # A deterministic end must not make the step zero.
    return rate if rate < real(math.inf) else rules.ending_rate[compartment]


def infection_probability(pressure, exposure, probabilities):
    """Probability to be infected within a step; `exposure` is unit x length of the step."""
    if COUNTED:
        return probabilities.infected[np.uint32(pressure)]
    return -expm1(-(real(pressure) * exposure))


def either(infected, leaving):
    """Probability of at least one of two independent events."""
    return fma(-infected, leaving, infected + leaving)


def block_32(node):
    """Block of random numbers of a node and of the nodes 32, 64 and 96 places from it."""
    return ((node >> 7) << 5) | (node & 31)


def block_64(node):
    """`block_32` for float64: two nodes share a block."""
    return ((node >> 6) << 5) | (node & 31)


def from_block_32(w0, w1, w2, w3, which):
    """Uniform draw of a node from the words of its block; `which` is the node over 32."""
    low = w1 if which & 1 else w0
    high = w3 if which & 1 else w2
    word = high if which & 2 else low
    return uniform(word, word)


def from_block_64(w0, w1, w2, w3, which):
    """As `from_block_32`, for float64."""
    return uniform(w2 if which & 1 else w0, w3 if which & 1 else w1)


# A warp has 128 nodes: the four nodes of a lane share a block.
block_of = ByPrecision(float32=block_32, float64=block_64)
from_block = ByPrecision(float32=from_block_32, float64=from_block_64)


def event_uniform(seed, replicate, node, step):
    """Draw that decides whether a node moves in a step."""
    w0, w1, w2, w3 = draw_words(seed, replicate, block_of(node), LEAP_EVENT, step)
    return from_block(w0, w1, w2, w3, node >> 5)


def is_infection(pressure, exposure, leaving, seed, replicate, node, step):
    """Whether a node that moves was infected."""
    if pressure == 0 or leaving >= 1.0:
        return False
    if leaving == 0.0:
        return True
    w0, w1, _, _ = draw_words(seed, replicate, node, LEAP_CAUSE, step)
    by_itself = -log1p(-leaving)
    share = real(pressure) * exposure / fma(real(pressure), exposure, by_itself)
    return uniform(w0, w1) <= share


def chosen_share(pressure, seed, replicate, node, step):
    """A unit of the force of infection on an infected node, drawn uniformly."""
    _, _, _, word = draw_words(seed, replicate, node, LEAP_CAUSE, step)
    return np.int64((np.uint64(word) * np.uint64(pressure)) >> np.uint64(32))


def chosen_part(seed, replicate, node, step):
    """A part of the force of infection on an infected node, uniform on (0, 1]."""
    _, _, word, other = draw_words(seed, replicate, node, LEAP_CAUSE, step)
    return uniform(word, other)


def _ticks_of(schedule, duration):
    """Ticks until a stay ends, rounded up with a tolerance (`shared.clock`)."""
    duration = fma(duration, -real(ROUNDING_32), duration)
    ticks = real(math.ceil(fma(duration, schedule.per_tick, real(_SOON))))
    return min(max(ticks, real(1.0)), real(TICKS_MOST))


def arrival_tick(stages, schedule, compartment, now, seed, replicate, node, index):
    """Stored tick of a node that enters a compartment: of entry, or of leaving if sampled."""
    if SAMPLED and stages.kind[compartment] >= 0:
        duration = holding_time_of_stay(stages, compartment, index, seed, replicate, node)
        ticks = _ticks_of(schedule, duration)
        return np.int32(min(now + np.int64(ticks), np.int64(2 * TICKS_MOST - 1)))
    return np.int32(now)


def seed_tick(stages, schedule, compartment, age, seed, replicate, node):
    """Stored tick of a seed that has been in its compartment for `age`."""
    if SAMPLED:
        if HAS_AGES:
            if stages.kind[compartment] < 0:
                return np.int32(0)
            left = remaining_time(stages, compartment, 0, age, seed, replicate, node)
            return np.int32(_ticks_of(schedule, left))
        return arrival_tick(stages, schedule, compartment, np.int64(0), seed, replicate, node, 0)
    return np.int32(-np.int64(fma(age, schedule.per_tick, real(0.5))))


def threshold(rules, schedule, seed, replicate, node, index):
    """Sum of forces of infection over the steps at which a node is infected, in units."""
    w0, w1, _, _ = draw_words(seed, replicate, node, LEAP_EVENT, index)
    units = real(math.ceil(exponential(w0, w1) / (rules.unit * schedule.tick)))
    return np.int32(min(max(units, real(1.0)), real(TICKS_MOST)))


def next_ticks(schedule, start, until, largest):
    """Length of the step from `start`, no further than `until`."""
    if TABULATED:
        return np.int64(1)
    ticks = np.int64(schedule.step_ticks)
    if ADAPTIVE and largest > 0.0:
        allowed = schedule.tolerance / (largest * schedule.tick)
        ticks = min(ticks, np.int64(max(min(allowed, real(TICKS_MOST)), real(1.0))))
    return min(ticks, until - start)
