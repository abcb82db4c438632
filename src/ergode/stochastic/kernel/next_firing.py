"""The next firing by the direct method, for every layout of propensities.

The total propensity gives the waiting time, a search among propensities the reaction.

D. T. Gillespie, "A general method for numerically simulating the stochastic time evolution of
coupled chemical reactions", J. Comput. Phys. 22 (1976).
"""

from __future__ import annotations

from ergode.core.compiler.language import ByTarget, noinline_cpu, option, real
from ergode.core.math.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.indexing import at

# ---- the functions of a method

total_of = option()
"""``total_of(w, state)`` is the total propensity; negative if any propensity is."""

choose = option()
"""``choose(target, w, point, state)`` is the reaction whose interval of the cumulative sum contains
`target`; -1 if rounding leaves none.
"""


# ---- draws: a CPU makes several at once, with vector instructions

AHEAD = 32


@noinline_cpu
def _draw_ahead(seed, replicate, draw, w, work):
    for k in range(AHEAD):
        w0, w1, w2, w3 = draw_words(seed, replicate, draw >> 32, FIRING, draw + k)
        work.waits[w, at(k)] = exponential(w0, w1)
        work.choices[w, at(k)] = uniform(w2, w3)


def _from_many(seed, replicate, draw, w, work):
    k = draw & (AHEAD - 1)
    if k == 0:
        _draw_ahead(seed, replicate, draw, w, work)
    return work.waits[w, at(k)], work.choices[w, at(k)]


def _one(seed, replicate, draw, w, work):
    w0, w1, w2, w3 = draw_words(seed, replicate, draw >> 32, FIRING, draw)
    return exponential(w0, w1), uniform(w2, w3)


wait_and_choice = ByTarget(cpu=_from_many, cuda=_one)
"""Waiting time and choice of draw number `draw`; draws are requested in order, from 0."""


# ---- the direct method


def advance(w, t, limit, point, draw, plan, replicate, net, work, state):
    """The next firing: its time, its reaction, and the number of the next draw."""
    while True:
        total = total_of(w, state)
        if total == 0.0:
            return real(outcomes.INFINITY), outcomes.NO_REACTION, draw
        if not (total > 0.0 and total < outcomes.INFINITY):
            return t, outcomes.FAILED_NEGATIVE if total < 0.0 else outcomes.FAILED_NOT_FINITE, draw
        wait, choice = wait_and_choice(plan.seed, replicate, draw, w, work)
        draw += 1
        fires_at = t + wait / total
        if fires_at >= limit:
            return fires_at, outcomes.NO_REACTION, draw
        j = choose(choice * total, w, point, state)
        if j >= 0:
            return fires_at, j, draw


def find(target, values, w, first, last):
    """Index of the value whose interval of the cumulative sum contains `target`, and the remainder.

    If rounding puts `target` beyond the sum, the last positive value; -1 if none is positive.
    """
    found = -1
    for k in range(first, last):
        a = values[w, at(k)]
        if a > 0.0:
            found = k
            if target < a:
                break
        target -= a
    return found, target
