"""Special functions that hazards need, as device functions in plain arithmetic.

Built on `core.math.elementary`, so that CPU and GPU agree bitwise.  The far tail matters here: a
hazard is a ratio of two numbers that both underflow, so the ratio is computed directly (by `erfcx`,
and by the continued fraction in `gamma_hazard`).

Relative errors against mpmath, asserted in the tests:

==================================== =========== ===========
function                             float32     float64
==================================== =========== ===========
`erfcx`, `normal_hazard`             1e-6        2e-15
`normal_survival`                    1e-6        2e-15
`log_gamma` (absolute below 1)       5e-6        1e-14
`gamma_density`, `gamma_p`           1e-4        5e-13
`gamma_q`, `gamma_hazard`            1e-4        5e-13
`gamma_survival_quantile`            1e-4        5e-13
==================================== =========== ===========

for shapes of 0.05 to 1000.  `gamma_q` below a shape of one and an argument of one is 1 - P, so
its error there is relative to one.

References
----------
Schonfelder, "Chebyshev expansions for the error and related functions", Math. Comp. 32 (1978),
for the variable (x - c) / (x + c).  DLMF 5.11.1, 8.7.1 and 8.9.2 for the gamma functions.
"""

from __future__ import annotations

import math
from typing import Any

from ergode.core.compiler.language import ByPrecision, fma, polynomial, real
from ergode.core.math.elementary import (
    ARTANH,
    INFINITY,
    NOT_A_NUMBER,
    exp,
    log,
    log1p,
    normal_quantile,
)

_TERMS_MOST = 100_000
_STEPS_MOST = 60


EPSILON: Any = ByPrecision(float32=2.0**-23, float64=2.0**-52)


# --- error function -------------------------------------------------------------------------
#
# (1 + 2 x) erfcx(x) is smooth and of order one over all x >= 0: a polynomial in
# y = (x - c) / (x + c), which maps that range to [-1, 1).  Truncated Chebyshev expansion,
# converted to powers: within 1.3e-8 (float32, c = 2) and 3.4e-17 (float64, c = 4).


_CENTRE = ByPrecision(float32=2.0, float64=4.0)
_ERFCX: Any = ByPrecision(
    float32=(
        6.336946e-05, 0.00016080358, -0.00035792045, -0.0013957069, 0.0012174106, 0.0086891595,
        -0.008018963, -0.05421196, 0.16404946, -0.16603109, -0.09276376, 1.2769784
    ),
    float64=(
        9.311744978232572e-10, 1.5738283774192037e-09, -1.234686604382353e-08,
        -1.6371779763566967e-08, 1.0633855618594884e-07, 7.115337800585303e-08,
        -8.210939042560568e-07, 2.9801353803031333e-07, 5.706604414895734e-06,
        -1.1225101875659178e-05, -2.4397746422436416e-05, 0.00015062309720018628,
        -0.00019925714661091188, -0.000757773707063825, 0.005031970067657489, -0.016197733981455194,
        0.03716751552655567, -0.06633036582031154, 0.0937328349990944, -0.10103906603586531,
        0.06809705425466908, 0.015379652102610473, -0.1396211168405623, 1.2329951186255526
    ),
)  # fmt: skip


def _erfcx_tail(x):
    y = (x - _CENTRE) / (x + _CENTRE)
    return 0.5 * polynomial(y, _ERFCX) / (0.5 + x)


def exp_of_square(factor, x):
    """exp(factor x^2), factor a power of two; the rounding error of x^2 is corrected."""
    square = x * x
    lost = fma(x, x, -square)
    result = exp(factor * square)
    corrected = fma(result, factor * lost, result)
    return corrected if (result < INFINITY and square < INFINITY) else result


def erfcx(x):
    """exp(x^2) erfc(x): about 1 / (x sqrt(pi)) for large x, where erfc itself is zero."""
    tail = _erfcx_tail(math.fabs(x))
    tail = 0.0 if math.fabs(x) == INFINITY else tail
    return tail if x >= 0.0 else 2.0 * exp_of_square(1.0, x) - tail


def _over_root_two(z):
    # A plain product could be fused into an fma with a later sum, on one target only.
    return fma(z, 0.7071067811865476, 0.0)


def normal_survival(z):
    """Probability that a standard normal exceeds z."""
    # Not by erfc (z / sqrt(2)): it rounds that, and the far tail amplifies this error by z^2.
    scaled = 0.5 * _erfcx_tail(_over_root_two(math.fabs(z)))
    scaled = 0.0 if math.fabs(z) == INFINITY else scaled
    power = exp_of_square(-0.5, z)
    return scaled * power if z >= 0.0 else fma(-scaled, power, 1.0)


def normal_hazard(z):
    """Density over survival of a standard normal: about z in the far upper tail."""
    if z < 0.0:
        return 0.3989422804014327 * exp_of_square(-0.5, z) / normal_survival(z)
    return 0.7978845608028654 / _erfcx_tail(_over_root_two(z)) if z < INFINITY else z


# --- gamma function -------------------------------------------------------------------------


def x_minus_log1p(x):
    """Difference x - log(1 + x), without cancellation about zero."""
    s = x / (2.0 + x)
    z = s * s
    # log(1 + x) = 2 s + s r(z) as in `elementary.log`, and x - 2 s = s x.
    r = polynomial(z, ARTANH)
    close = s * fma(-z, r, x)
    return close if (x > -0.29 and x < 0.41) else x - log1p(x)


_STIRLING = (
    0.00641025641025641, -0.0019175269175269176, 0.0008417508417508417, -0.0005952380952380953,
    0.0007936507936507937, -0.002777777777777778, 0.08333333333333333
)  # fmt: skip


def _stirling_rest(x):
    """Remainder of Stirling's (x - 1/2) log x - x + log(2 pi) / 2 for x >= 10 (DLMF 5.11.1)."""
    y = 1.0 / (x * x)
    return polynomial(y, _STIRLING) / x


def log_gamma(x):
    """Logarithm of the gamma function, x > 0."""
    product = real(1.0)
    while x < 10.0:
        product *= x
        x += 1.0
    return fma(x - 0.5, log(x) - 1.0, 0.4189385332046727 + _stirling_rest(x)) - log(product)


def _deviance(x, shape):
    """Value of d - log(1 + d), where d = x / shape - 1: zero at the mean, positive elsewhere."""
    d = (x - shape) / shape
    return x_minus_log1p(d) if math.fabs(d) < 0.29 else d - log(x / shape)


def _gamma_power(x, shape):
    """x^shape exp(-x) / Gamma(shape): the density times x."""
    if shape >= 10.0:
        exponent = fma(-shape, _deviance(x, shape), -_stirling_rest(shape))
        return math.sqrt(shape) * 0.3989422804014327 * exp(exponent)
    # Two exponentials: exp(-x) is exact in x, where one exponent would round its larger part.
    return exp(-x) * exp(fma(shape, log(x), -log_gamma(shape)))


def gamma_density(x, shape):
    """Density at x of the gamma distribution of scale one."""
    if x > 0.0:
        return _gamma_power(x, shape) / x if x < INFINITY else real(0.0)
    if x < 0.0 or shape > 1.0:
        return real(0.0)
    return real(1.0) if shape == 1.0 else real(INFINITY)


def _gamma_series(x, shape):
    """P(shape, x) over x^shape exp(-x) / Gamma(shape), for x below shape + 1 (DLMF 8.7.1)."""
    term = 1.0 / shape
    total = term
    denominator = shape
    for _ in range(_TERMS_MOST):
        denominator += 1.0
        ratio = x / denominator
        total = fma(term, ratio, total)
        term *= ratio
        if term < 0.25 * EPSILON * total:
            break
    return total


def _gamma_fraction(x, shape):
    """Q(shape, x) over x^shape exp(-x) / Gamma(shape), for x above shape + 1 (DLMF 8.9.2).

    Evaluated forward by Lentz's method; all its denominators are positive there.
    """
    b = x + 1.0 - shape
    c = real(INFINITY)
    d = 1.0 / b
    h = d
    n = real(0.0)
    for _ in range(_TERMS_MOST):
        n += 1.0
        numerator = n * (shape - n)
        b += 2.0
        d = 1.0 / fma(numerator, d, b)
        c = b + numerator / c
        change = c * d
        h *= change
        if math.fabs(change - 1.0) < EPSILON:
            break
    return h


def _by_series(x, shape):
    return x < shape + 1.0 if shape >= 1.0 else x < 1.0


def gamma_p(x, shape):
    """Probability that a gamma variable of scale one is at most x: P(shape, x)."""
    if x <= 0.0:
        return real(0.0)
    if x == INFINITY:
        return real(1.0)
    if _by_series(x, shape):
        return _gamma_power(x, shape) * _gamma_series(x, shape)
    return fma(-_gamma_power(x, shape), _gamma_fraction(x, shape), 1.0)


def gamma_q(x, shape):
    """Probability that a gamma variable of scale one exceeds x: Q(shape, x)."""
    if x <= 0.0:
        return real(1.0)
    if x == INFINITY:
        return real(0.0)
    if _by_series(x, shape):
        return fma(-_gamma_power(x, shape), _gamma_series(x, shape), 1.0)
    return _gamma_power(x, shape) * _gamma_fraction(x, shape)


def gamma_hazard(x, shape):
    """Density over survival of the gamma distribution of scale one; tends to one."""
    if x <= 0.0:
        return gamma_density(x, shape)
    if x == INFINITY:
        return real(1.0)
    if _by_series(x, shape):
        power = _gamma_power(x, shape)
        return power / (x * fma(-power, _gamma_series(x, shape), 1.0))
    return 1.0 / (x * _gamma_fraction(x, shape))


def _gamma_inverse(p, q, shape):
    """The x with P(shape, x) = p and Q(shape, x) = q, p + q = 1, from the smaller of p and q.

    Newton's method for log P (or log Q) in log x: both are concave, so after the first step it
    approaches from one side; the first steps are bounded, since the slope may be next to zero.
    """
    lower = p < q
    wanted = log(p if lower else q)
    z = normal_quantile(p) if lower else -normal_quantile(q)
    # Start from Wilson and Hilferty's cube, or where that is negative from the leading power.
    root = 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * math.sqrt(shape))
    log_p = wanted if lower else log1p(-q)
    log_x = (log_p + log_gamma(shape + 1.0)) / shape
    if root > 0.3:
        log_x = fma(3.0, log(root), log(shape))
    x = exp(log_x)
    for _ in range(_STEPS_MOST):
        if x <= 0.0 or x == INFINITY:
            break
        power = _gamma_power(x, shape)
        if lower:
            if _by_series(x, shape):
                series = _gamma_series(x, shape)
                # The product may underflow; the sum of logarithms does not.
                found = _log_gamma_power(x, shape) + log(series)
                slope = 1.0 / series
            else:
                below = fma(-power, _gamma_fraction(x, shape), 1.0)
                found = log(below)
                slope = power / below
        elif _by_series(x, shape):
            above = fma(-power, _gamma_series(x, shape), 1.0)
            found = log(above)
            slope = -power / above
        else:
            fraction = _gamma_fraction(x, shape)
            found = _log_gamma_power(x, shape) + log(fraction)
            slope = -1.0 / fraction
        step = (wanted - found) / slope
        step = min(max(step, -1.5), 1.5)
        x *= exp(step)
        if math.fabs(step) < 2.0 * EPSILON:
            break
    return x


def _log_gamma_power(x, shape):
    """Logarithm of x^shape exp(-x) / Gamma(shape)."""
    if shape >= 10.0:
        exponent = fma(-shape, _deviance(x, shape), -_stirling_rest(shape))
        return fma(0.5, log(shape), exponent - 0.9189385332046727)
    return fma(shape, log(x), -x) - log_gamma(shape)


def gamma_survival_quantile(q, shape):
    """Value above which a gamma variable of scale one is with probability q."""
    if q > 0.0 and q < 1.0:
        return _gamma_inverse(1.0 - q, q, shape)
    return real(INFINITY) if q == 0.0 else (real(0.0) if q == 1.0 else real(NOT_A_NUMBER))
