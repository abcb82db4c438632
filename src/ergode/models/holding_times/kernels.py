"""Holding times inside a kernel: density, survival, hazard, quantiles and keyed draws.

A holding time reaches a kernel as ``(kind, a, b)`` and, for an empirical one, a stretch
``start:stop`` of two flat tables (`HoldingTime.code` makes them):

=============== ============== =============== =======================================
kind            a              b               table
=============== ============== =============== =======================================
`EXPONENTIAL`   rate [1/time]
`LOG_NORMAL`    mu             sigma           (of the logarithm of the time)
`WEIBULL`       shape          scale [time]
`GAMMA`         shape          scale [time]
`DETERMINISTIC` value [time]
`EMPIRICAL`                                    times, cumulative probabilities
=============== ============== =============== =======================================

Every function takes these seven first.  A kernel that needs only some kinds is compiled with
``bindings=flags(kinds)``, which leaves out the others.  On a CPU they are linked into the kernel.

Draws invert the survival function: a uniform draw has its finest resolution near zero, which then
gives the long times.  A gamma draw uses rejection instead (`core.math.random.gamma`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ergode.core.compiler.language import fma, linked, option, real
from ergode.core.math.elementary import INFINITY, exp, expm1, log, log1p, normal_quantile
from ergode.core.math.random import draw_words, gamma, normal, uniform
from ergode.core.math.special import (
    gamma_hazard,
    gamma_p,
    gamma_q,
    gamma_survival_quantile,
    normal_hazard,
    normal_survival,
)

EXPONENTIAL = 0
LOG_NORMAL = 1
WEIBULL = 2
GAMMA = 3
DETERMINISTIC = 4
EMPIRICAL = 5

KINDS = range(6)

# False in kernels without the kind, whose branches are then dropped before they are compiled.
HAS_LOG_NORMAL = option(True, of_linked=True)
HAS_WEIBULL = option(True, of_linked=True)
HAS_GAMMA = option(True, of_linked=True)
HAS_DETERMINISTIC = option(True, of_linked=True)
HAS_EMPIRICAL = option(True, of_linked=True)


def flags(kinds: Iterable[int]) -> dict[Any, bool]:
    """Bindings that leave out of a kernel all kinds but these and `EXPONENTIAL`.

    Examples
    --------
    >>> kept = flags([GAMMA])
    >>> kept[HAS_GAMMA], kept[HAS_WEIBULL]
    (True, False)
    """
    kinds = set(kinds)
    return {
        HAS_LOG_NORMAL: LOG_NORMAL in kinds,
        HAS_WEIBULL: WEIBULL in kinds,
        HAS_GAMMA: GAMMA in kinds,
        HAS_DETERMINISTIC: DETERMINISTIC in kinds,
        HAS_EMPIRICAL: EMPIRICAL in kinds,
    }


# --- keyed draws ----------------------------------------------------------------------------


@linked
def draw(kind, a, b, table_times, table_cdf, start, stop, seed, replicate, entity, purpose, index):
    """One holding time, a pure function of (seed, replicate, entity, purpose, index)."""
    if HAS_DETERMINISTIC and kind == DETERMINISTIC:
        return a
    if HAS_GAMMA and kind == GAMMA:
        return b * gamma(seed, replicate, entity, purpose, index, a)
    w0, w1, _, _ = draw_words(seed, replicate, entity, purpose, index)
    if HAS_LOG_NORMAL and kind == LOG_NORMAL:
        # A normal draw resolves both tails equally.
        return exp(fma(b, normal(w0, w1), a))
    u = uniform(w0, w1)
    if HAS_EMPIRICAL and kind == EMPIRICAL:
        return _table_quantile(table_times, table_cdf, start, stop, 1.0 - u)
    if HAS_WEIBULL and kind == WEIBULL:
        return _weibull_from_log_survival(log(u), a, b)
    return -log(u) / a


# --- quantiles ------------------------------------------------------------------------------


@linked
def survival_quantile(kind, a, b, table_times, table_cdf, start, stop, s):
    """Time that is exceeded with probability s: the inverse of `survival`."""
    if HAS_DETERMINISTIC and kind == DETERMINISTIC:
        return a
    if HAS_GAMMA and kind == GAMMA:
        return b * gamma_survival_quantile(s, a)
    if HAS_LOG_NORMAL and kind == LOG_NORMAL:
        return exp(fma(-b, normal_quantile(s), a))
    if HAS_EMPIRICAL and kind == EMPIRICAL:
        return _table_quantile(table_times, table_cdf, start, stop, 1.0 - s)
    if HAS_WEIBULL and kind == WEIBULL:
        return _weibull_from_log_survival(log(s), a, b)
    return -log(s) / a


def _weibull_from_log_survival(log_survival, shape, scale):
    return scale * exp(log(-log_survival) / shape)


# --- density, survival, hazard --------------------------------------------------------------


@linked
def survival(kind, a, b, table_times, table_cdf, start, stop, t):
    """Probability that the holding time exceeds t."""
    if t < 0.0:
        return real(1.0)
    if HAS_DETERMINISTIC and kind == DETERMINISTIC:
        return real(1.0) if t < a else real(0.0)
    if HAS_GAMMA and kind == GAMMA:
        return gamma_q(t / b, a)
    if HAS_LOG_NORMAL and kind == LOG_NORMAL:
        return normal_survival((log(t) - a) / b)
    if HAS_EMPIRICAL and kind == EMPIRICAL:
        return 1.0 - _table_cdf(table_times, table_cdf, start, stop, t)
    if HAS_WEIBULL and kind == WEIBULL:
        return exp(-_weibull_power(t / b, a))
    return exp(-a * t)


@linked
def hazard(kind, a, b, table_times, table_cdf, start, stop, t):
    """Rate of ending at time t, given that it has not ended before: pdf / survival [1 / time].

    Accurate where both underflow; infinite past the end of a bounded distribution.
    """
    if t < 0.0:
        return real(0.0)
    if HAS_DETERMINISTIC and kind == DETERMINISTIC:
        return real(0.0) if t < a else real(INFINITY)
    if HAS_GAMMA and kind == GAMMA:
        return gamma_hazard(t / b, a) / b
    if HAS_LOG_NORMAL and kind == LOG_NORMAL:
        if t == 0.0 or t == INFINITY:
            return real(0.0)
        return normal_hazard((log(t) - a) / b) / (b * t)
    if HAS_EMPIRICAL and kind == EMPIRICAL:
        left = 1.0 - _table_cdf(table_times, table_cdf, start, stop, t)
        if left <= 0.0:
            return real(INFINITY)
        return _table_slope(table_times, table_cdf, start, stop, t) / left
    if HAS_WEIBULL and kind == WEIBULL:
        return _weibull_hazard(t, a, b)
    return a


@linked
def ending_probability(kind, a, b, table_times, table_cdf, start, stop, t, step):
    """Probability of ending within (t, t + step], given that it has not ended by t >= 0.

    This is 1 - survival(t + step) / survival(t), for a step of any length. It is accurate for short
    steps, and where both survivals underflow.
    """
    if HAS_DETERMINISTIC and kind == DETERMINISTIC:
        return real(1.0) if t + step >= a else real(0.0)
    if HAS_GAMMA and kind == GAMMA:
        return _gamma_ending(t, step, a, b)
    if HAS_LOG_NORMAL and kind == LOG_NORMAL:
        return _log_normal_ending(t, step, a, b)
    if HAS_EMPIRICAL and kind == EMPIRICAL:
        before = _table_cdf(table_times, table_cdf, start, stop, t)
        if before >= 1.0:
            return real(1.0)
        after = _table_cdf(table_times, table_cdf, start, stop, t + step)
        return (after - before) / (1.0 - before)
    if HAS_WEIBULL and kind == WEIBULL:
        # y^shape ((1 + step / t)^shape - 1) is the increase of the cumulative hazard.
        grown = _weibull_power(step / b, a)
        if t > 0.0:
            grown = _weibull_power(t / b, a) * expm1(a * log1p(step / t))
        return -expm1(-grown)
    return -expm1(-a * step)


def _gamma_ending(t, step, shape, scale):
    x = t / scale
    y = (t + step) / scale
    if x <= shape + 1.0:
        return (gamma_p(y, shape) - gamma_p(x, shape)) / gamma_q(x, shape)
    # Survival is density / hazard; the densities' ratio has a closed form, the hazards' is stable.
    ratio = log(gamma_hazard(x, shape) / gamma_hazard(y, shape))
    return -expm1(ratio + fma(shape - 1.0, log1p(step / t), -step / scale))


def _log_normal_ending(t, step, mu, sigma):
    if t == 0.0:
        return normal_survival((mu - log(step)) / sigma)
    moved = log1p(step / t) / sigma
    z = (log(t) - mu) / sigma
    y = z + moved
    if z > 0.0:
        return -expm1(fma(-0.5 * moved, z + y, log(normal_hazard(z) / normal_hazard(y))))
    if y < 0.0:
        return (normal_survival(-y) - normal_survival(-z)) / normal_survival(z)
    return 1.0 - normal_survival(y) / normal_survival(z)


def _weibull_power(y, shape):
    """y^shape for y >= 0."""
    return exp(shape * log(y))


def _weibull_hazard(t, shape, scale):
    # At t = 0 a shape of one would multiply zero by the logarithm's infinity.
    return shape / scale * (_weibull_power(t / scale, shape - 1.0) if shape != 1.0 else 1.0)


# --- tables ---------------------------------------------------------------------------------


def _table_after(table, start, stop, value):
    """First row of the sorted stretch start:stop whose entry is above `value`; or `stop`."""
    low = start
    high = stop
    while low < high:
        middle = (low + high) // 2
        if table[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


def _table_cdf(table_times, table_cdf, start, stop, t):
    row = _table_after(table_times, start, stop, t)
    if row == start:
        return real(0.0)
    if row == stop:
        return real(1.0)
    before = table_times[row - 1]
    share = (t - before) / (table_times[row] - before)
    return fma(share, table_cdf[row] - table_cdf[row - 1], table_cdf[row - 1])


def _table_slope(table_times, table_cdf, start, stop, t):
    row = _table_after(table_times, start, stop, t)
    if not start < row < stop:
        return real(0.0)
    return (table_cdf[row] - table_cdf[row - 1]) / (table_times[row] - table_times[row - 1])


def _table_quantile(table_times, table_cdf, start, stop, p):
    # First row whose probability reaches p: the left end of a gap, the time of an atom.
    low = start
    high = stop - 1
    while low < high:
        middle = (low + high) // 2
        if table_cdf[middle] < p:
            low = middle + 1
        else:
            high = middle
    if low == start:
        return table_times[start]
    below = table_cdf[low - 1]
    share = (p - below) / (table_cdf[low] - below)
    return fma(share, table_times[low] - table_times[low - 1], table_times[low - 1])
