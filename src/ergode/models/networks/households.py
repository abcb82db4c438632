"""Households with ages: sizes and an age pyramid as tables ask, and families within.

Ages and sizes are quotas, not draws: person `i` of N has the age at the quantile (i + 1/2) / N of
the pyramid, and household `j` the size at the quantile frac((j + 1/2) g), g the golden ratio, whose
fractions fill [0, 1) evenly. What is random is who lives with whom, keyed by (seed, household or
person).

1. A household has one or two householders; the others are offspring. The youngest people are
   offspring and the oldest are householders. One household of two or more in ten has one
   householder; there are more of these if children need their places. (With the default tables
   nobody younger than 26 has a household of their own.)
2. Offspring are dealt to households in the order of an age drawn for each household, with a
   deviation of 3 years for each person: siblings are some years apart.
3. A householder with offspring is to be 29 years older than the eldest (a normal draw of standard
   deviation 5 years; at least 16 years), and a partner as old as the first with a deviation of 3
   years. Each takes that age where the pyramid has it, else the next higher one that is left.
4. The ages that are left go to people who live alone and to couples, who differ by a few years.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergode.core import devices, kernels
from ergode.core.errors import ModelError
from ergode.core.math.random import GENERATOR, draw_words, normal, uniform_53

# Tells the draws of households apart from those of `random_pairs` (0, 1) and `random_degrees`.
_FAMILIES = 7

_GOLDEN = 0.6180339887498949
_ONE_PARENT = 0.1
_PARENT_GAP, _PARENT_SPREAD, _PARENT_GAP_LEAST = 29.0, 5.0, 16
_NEAR_AGE = 3.0
ADULT = 18


class Households(NamedTuple):
    """People numbered household by household.

    `age` has shape [node_count] in years, `starts` shape [household_count + 1].
    """

    age: np.ndarray
    starts: np.ndarray


def make(count: int, ages: np.ndarray, sizes: np.ndarray, seed: np.uint64) -> Households:
    """Households of `count` people.

    Parameters
    ----------
    count : int
        Number of people.
    ages : ndarray of float, shape [age]
        Weight of each year of age.
    sizes : ndarray of float, shape [largest size + 1]
        Weight of each size of a household; that of 0 is 0. The last household is as large as the
        people who are left.
    seed : uint64
        Keys the draws.

    Raises
    ------
    ModelError
        Children (younger than 18) are more than the places beside one adult in each household.
    """
    starts = np.concatenate([[0], np.cumsum(sized(count, sizes))]).astype(np.int64)
    cumulative = np.cumsum(ages) / ages.sum()
    by_age = np.diff(np.floor(count * cumulative + 0.5).astype(np.int64), prepend=0)
    draws = np.empty((starts.size - 1, 5))
    deviation = np.empty(count)
    run = devices.resolve("cpu").run
    run(_DRAW_HOUSEHOLD, starts.size - 1, seed, draws)
    run(_DRAW_PERSON, count, seed, deviation)
    householders = _householders(starts, int(by_age[:ADULT].sum()), draws[:, 0])
    return Households(_with_ages(starts, householders, by_age, draws, deviation), starts)


def sized(total: int, weights: np.ndarray) -> np.ndarray:
    """Sizes of groups of `total` people; the weight of size s is ``weights[s]``."""
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]  # exactly 1 at the end
    mean = float(weights @ np.arange(weights.size) / weights.sum())
    return _cut(total, mean, lambda u: np.searchsorted(cumulative, u, side="right"))


def geometric(total: int, mean: float) -> np.ndarray:
    """Sizes of groups of `total` people, of a geometric law from 1 on with the given mean."""
    with np.errstate(divide="ignore"):
        scale = np.log1p(-1 / mean) if mean > 1 else -np.inf
    return _cut(total, mean, lambda u: 1 + np.floor(np.log1p(-u) / scale))


def _cut(total: int, mean: float, quantile: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Sizes at evenly spread quantiles, of which the last ends at `total`."""
    room = int(total / mean * 1.01) + 10
    while True:
        u = np.mod((np.arange(room) + 0.5) * _GOLDEN, 1.0)
        ends = np.minimum(np.cumsum(np.minimum(quantile(u), total).astype(np.int64)), total)
        if total == 0 or ends[-1] == total:
            sizes = np.diff(ends, prepend=0)
            return sizes[sizes > 0]
        room *= 2


def _householders(starts: np.ndarray, children: int, draw: np.ndarray) -> np.ndarray:
    """One or two householders of each household, such that all children find a place."""
    size = np.diff(starts)
    places = int(size.sum()) - size.size
    if children > places:
        raise ModelError(
            f"ages make {children:,} children below {ADULT}, but household_sizes leave "
            f"{places:,} places beside one adult in each household; use larger households"
        )
    two = (size > 1) & (draw >= _ONE_PARENT)
    missing = children - (places - int(two.sum()))
    if missing > 0:
        candidates = np.flatnonzero(two)
        two[candidates[np.argsort(draw[candidates], kind="stable")[:missing]]] = False
    return 1 + two


def _with_ages(
    starts: np.ndarray,
    householders: np.ndarray,
    by_age: np.ndarray,
    draws: np.ndarray,
    deviation: np.ndarray,
) -> np.ndarray:
    size, first = np.diff(starts), starts[:-1]
    count = deviation.size
    household = np.repeat(np.arange(size.size, dtype=np.int32), size)
    age = np.full(count, -1, np.int32)
    offspring = np.arange(count) - np.repeat(first + householders, size) >= 0
    young = np.flatnonzero(offspring)
    ages = np.repeat(np.arange(by_age.size, dtype=np.int32), by_age)
    oldest = float(ages[young.size - 1]) if young.size else 0.0
    wanted = draws[household[young], 1] * oldest + _NEAR_AGE * deviation[young]
    age[young[_order(wanted)]] = ages[: young.size]

    grown = ages[young.size :]
    eldest = np.maximum.reduceat(age, first)
    family = eldest >= 0
    couple = householders == 2
    gap = np.maximum(np.rint(_PARENT_GAP + _PARENT_SPREAD * draws[:, 2]), _PARENT_GAP_LEAST)
    near = np.rint(_NEAR_AGE * draws[:, 3])
    both = family & couple
    parents = np.concatenate([first[family], first[both] + 1])
    least = (eldest + _PARENT_GAP_LEAST)[both]
    second = np.maximum((eldest + gap + near)[both], least)
    wanted = np.concatenate([(eldest + gap)[family], second])
    left = np.bincount(grown, minlength=by_age.size)
    wanted = np.clip(wanted, 0, by_age.size - 1).astype(np.int64)
    taken = _taken(np.bincount(wanted, minlength=by_age.size), left)
    years = np.arange(by_age.size)
    age[parents[_order(wanted)]] = np.repeat(years, taken)

    both = ~family & couple
    others = np.concatenate([first[~family], first[both] + 1])
    rest = np.repeat(years, left - taken)
    if rest.size:
        span = float(rest[-1] - rest[0])
        near_too = draws[both, 4] * span + near[both]
        age[others[_order(np.concatenate([draws[~family, 4] * span, near_too]))]] = rest
    return age


def _taken(wanted: np.ndarray, left: np.ndarray) -> np.ndarray:
    """How many take each age: what is wanted, or the next higher age left, or the next lower."""
    taken = np.zeros_like(left)
    waiting = 0
    for age in range(left.size):
        waiting += int(wanted[age])
        taken[age] = min(waiting, int(left[age]))
        waiting -= int(taken[age])
    for age in range(left.size - 1, -1, -1):
        more = min(waiting, int(left[age] - taken[age]))
        taken[age] += more
        waiting -= more
    return taken


def _order(years: np.ndarray) -> np.ndarray:
    """Stable order of ages, to a sixteenth of a year: 16 bits are sorted by radix."""
    return np.argsort(np.clip((years + 32) * 16, 0, 65535).astype(np.uint16), kind="stable")


def _draw_household(household, seed, draws):
    w0, w1, w2, w3 = draw_words(seed, _FAMILIES, household, GENERATOR, 0)
    draws[household, 0] = uniform_53(w0, w1)
    draws[household, 1] = uniform_53(w2, w3)
    w0, w1, w2, w3 = draw_words(seed, _FAMILIES, household, GENERATOR, 1)
    draws[household, 2] = normal(w0, w1)
    draws[household, 3] = normal(w2, w3)
    w0, w1, _, _ = draw_words(seed, _FAMILIES, household, GENERATOR, 2)
    draws[household, 4] = uniform_53(w0, w1)


def _draw_person(person, seed, deviation):
    w0, w1, _, _ = draw_words(seed, _FAMILIES, person, GENERATOR, 3)
    deviation[person] = normal(w0, w1)


_DRAW_HOUSEHOLD = kernels.for_each(_draw_household)
_DRAW_PERSON = kernels.for_each(_draw_person)
