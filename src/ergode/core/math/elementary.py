"""Logarithm, exponential, power, normal quantile and turns, in plain arithmetic.

Why our own: identical operations in identical order give bitwise equal results on CPU and GPU, so
a draw does not depend on the device.  Without branches and library calls they vectorise over the
lanes of a CPU loop.  Every multiply-add is written `fma`, so that no compiler has a choice.  The
coefficients are weighted minimax fits (Lawson iteration at 60 digits), rounded to the working
precision.  The bounds below were measured against mpmath and are asserted in the tests.

==================== ================================================ ========== ==========
function             reduction                                        float32    float64
==================== ================================================ ========== ==========
`log`                x = 2^k m, sqrt(1/2) <= m < sqrt(2)              1 ulp      1 ulp
`rough_log2`         linear between powers of two                     0.09       0.09
`log1p`              log(1 + x), corrected for the rounding of 1 + x  2 ulp      2 ulp
`exp`                x = k ln 2 + r, abs(r) <= ln(2) / 2              1 ulp      1 ulp
`expm1`              as `exp`                                         2 ulp      2 ulp
`normal_quantile`    see the section below                            4e-7       1e-14
`sin`, `cos`         half turns                                       7 ulp      2 ulp
`tan`                sin(x) / cos(x)                                  2 ulp      2 ulp
`tanh`               t / (t + 2), t = expm1(2 x)                      3 ulp      3 ulp
`power`              exp(z), z = y log x with its rounding error      3 ulp and one more for
                                                                      every 8 of abs(z)
==================== ================================================ ========== ==========

Zero, infinity, NaN, negative and subnormal arguments are handled by selection at the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ergode.core.compiler.language import (
    ByPrecision,
    bits,
    fma,
    from_bits,
    polynomial,
    real,
    to_bits,
)

INFINITY = math.inf
NOT_A_NUMBER = math.nan


# --- logarithm ------------------------------------------------------------------------------
#
# With f = m - 1, log(1 + f) = f + tail, and k ln2_high + f is summed with its rounding error
# kept: what is left to round is the last addition and the small tail.  ln2_high has few enough
# bits that k ln2_high is exact.


_LOG = (
    -0.07634625, 0.12761138, -0.13159893, 0.14201772, -0.16623387, 0.2000123, -0.2500082, 0.3333333
)  # fmt: skip
ARTANH = (
    0.14795583666237358, 0.15314087963447057, 0.18183562855488467, 0.2222219860076031,
    0.2857142874214322, 0.399999999994155, 0.6666666666666734
)  # fmt: skip


def _log_parts_float32(x):
    """The logarithm as two numbers: the rounded value, and its rounding error."""
    # Subnormals have no implicit leading bit: scale them into the normal range first.
    tiny = x < 1.1754943508222875e-38
    word = to_bits(x * 8388608.0 if tiny else x)
    k = np.int32(np.int32(word - np.uint32(0x3F3504F3)) >> np.int32(23))
    f = from_bits(np.uint32(word - np.uint32(np.uint32(k) << np.uint32(23)))) - 1.0
    e = real(k) - (23.0 if tiny else 0.0)
    # log(1 + f) = f - f^2 / 2 + f^3 p(f), p within 5.9e-9 of the logarithm
    p = polynomial(f, _LOG)
    square = f * f
    tail = fma(square * f, p, fma(square, -0.5, e * 1.4286068e-06))
    high = e * 0.693145751953125
    total = high + f
    return total, ((high - total) + f) + tail


def _log_parts_float64(x):
    """The logarithm as two numbers: the rounded value, and its rounding error."""
    tiny = x < 2.2250738585072014e-308
    word = to_bits(x * 18014398509481984.0 if tiny else x)
    k = np.int64(np.int64(word - np.uint64(0x3FE6A09E667F3BCD)) >> np.int64(52))
    f = from_bits(np.uint64(word - np.uint64(np.uint64(k) << np.uint64(52)))) - 1.0
    # k becomes a float by way of the low bits of 1.5 * 2^52: AVX2 has no such conversion.
    e = from_bits(np.uint64(np.uint64(k) + np.uint64(0x4338000000000000))) - 6755399441055744.0
    e = e - (54.0 if tiny else 0.0)
    # log(1 + f) = 2 artanh(s) = 2 s + s r(s^2), r within 1.3e-18 of the logarithm; and
    # 2 s = f - f^2 / 2 + s f^2 / 2, whose first terms carry next to no rounding error.
    s = f / (2.0 + f)
    z = s * s
    r = polynomial(z, ARTANH)
    half_square = 0.5 * f * f
    tail = fma(s, fma(z, r, half_square), e * 2.8235290563031577e-13)
    tail = fma(-0.5 * f, f, tail)
    high = e * 0.693147180559663
    total = high + f
    return total, ((high - total) + f) + tail


_log_parts = ByPrecision(float32=_log_parts_float32, float64=_log_parts_float64)


def log(x):
    """Natural logarithm."""
    total, rest = _log_parts(x)
    result = x if x == INFINITY else total + rest
    result = -INFINITY if x == 0.0 else result
    return result if x >= 0.0 else NOT_A_NUMBER


def _rough_log2_float32(x):
    word = np.uint32(np.uint32(to_bits(abs(x)) >> np.uint32(9)) + np.uint32(0x4B000000))
    return fma(from_bits(word) - 8388608.0, 6.103515625e-05, -127.0)


def _rough_log2_float64(x):
    word = np.uint64(to_bits(abs(x)) >> np.uint64(12)) + np.uint64(0x4330000000000000)
    return fma(from_bits(np.uint64(word)) - 4503599627370496.0, 9.094947017729282e-13, -1023.0)


# The binary logarithm of x > 0 within 0.09, exact at powers of two; large for infinity and NaN.
# It reads exponent and mantissa as one number; step-size control needs no more accuracy.
rough_log2 = ByPrecision(float32=_rough_log2_float32, float64=_rough_log2_float64)


def log1p(x):
    """log(1 + x), accurate also for small x."""
    rounded = 1.0 + x
    lost = x - (rounded - 1.0)
    result = log(rounded) + lost / rounded
    return result if (rounded > 0.0 and rounded < INFINITY) else log(rounded)


# --- exponential ----------------------------------------------------------------------------
#
# k is the nearest integer to x / ln 2, read from the low bits of x / ln 2 + 1.5 * 2^(digits - 1).
# The power of two is applied in two halves, so that results that overflow or are subnormal
# come out of the last multiplication correctly rounded.


_PER_LN2 = ByPrecision(float32=1.442695, float64=1.4426950408889634)
_LN2: Any = ByPrecision(
    float32=(0.693145751953125, 1.4286068e-06), float64=(0.693147180559663, 2.8235290563031577e-13)
)
_SHIFT = ByPrecision(float32=12582912.0, float64=6755399441055744.0)
_SHIFT_BITS = ByPrecision(float32=np.uint32(0x4B400000), float64=np.uint64(0x4338000000000000))
_INTEGER: Any = ByPrecision(float32=np.int32, float64=np.int64)
_BIAS = ByPrecision(float32=np.int32(127), float64=np.int64(1023))
_DIGITS = ByPrecision(float32=np.uint32(23), float64=np.uint64(52))
# Where results are zero and infinite, and where exp(x) - 1 is -1.
_LEAST, _MOST = (
    ByPrecision(float32=-104.0, float64=-746.0),
    ByPrecision(float32=89.0, float64=710.0),
)
_MINUS_ONE = ByPrecision(float32=-18.0, float64=-38.0)
# exp(r) = 1 + r + r^2 p(r), within 3.1e-9 and 3.7e-18
_EXP: Any = ByPrecision(
    float32=(0.001381763, 0.008368682, 0.04166834, 0.16666521, 0.49999994),
    float64=(
        2.4998465794493918e-08, 2.76302281000293e-07, 2.7557591330704747e-06,
        2.4801493165397054e-05, 0.00019841269501137942, 0.0013888888943555317, 0.00833333333349694,
        0.04166666666653048, 0.16666666666666408, 0.5000000000000011
    ),
)  # fmt: skip


def _exp_parts(x):
    """exp(x) = 2^k (1 + t), for x within or near the range of exponents."""
    shifted = fma(x, _PER_LN2, _SHIFT)
    n = shifted - _SHIFT
    r = fma(n, -_LN2[1], fma(n, -_LN2[0], x))
    k = _INTEGER(to_bits(shifted) - _SHIFT_BITS)
    return fma(r * r, polynomial(r, _EXP), r), k


def _two_to_the(k):
    return from_bits(bits(bits(k + _BIAS) << _DIGITS))


def exp(x):
    """Exponential."""
    t, k = _exp_parts(x)
    half = _INTEGER(k >> _INTEGER(1))
    result = (1.0 + t) * _two_to_the(half) * _two_to_the(_INTEGER(k - half))
    result = 0.0 if x < _LEAST else result
    return INFINITY if x > _MOST else result


def expm1(x):
    """exp(x) - 1, accurate also for small x."""
    t, k = _exp_parts(x)
    # One power below, doubled at the end: 2^128 is not a float, though exp(88.7) is.
    scale = _two_to_the(_INTEGER(k - _INTEGER(1)))
    result = 2.0 * fma(scale, t, scale - 0.5)
    result = -1.0 if x < _MINUS_ONE else result
    result = INFINITY if x > _MOST else result
    return x if math.fabs(x) < 1e-20 else result  # halving must not lose a subnormal's digits


# --- normal quantile ------------------------------------------------------------------------
#
# z(p) is odd about p = 1/2, so only q = min(p, 1 - p) is looked at; 1 - p is exact there.
#
#   centre   z = (q - 1/2) C(w),  w = -log(4 q (1 - q))   q above 0.005 (float32), 0.02 (float64)
#   tail     z = -T(r),           r = sqrt(-log q)
#   far      z = -F(r)            q below 2^-57 (float64), where no uniform draw reaches
#
# C is a polynomial in float32 and a ratio of polynomials in float64, T and F are ratios.  z is
# smooth in each of these variables and keeps its relative accuracy at both ends, since q - 1/2
# is exact near the middle and log q sees all of q's digits in the tail.  All nonzero terms of
# the ratios are positive: nothing cancels.  One logarithm and one division serve whichever
# formula applies.  Both reach the smallest subnormal q.


# Single precision: C, and numerator and denominator of T.
_SINGLE = (
    (4.630369e-07, -1.885455e-05, 0.0002105532, -0.0004963841, -0.006482312, 0.032612372,
     0.6562427, 2.506628),
    (0.09246705, 0.97136664, 2.9771185, 2.5679762),
    (1.7138217e-06, 0.06530401, 0.53922117, 1.0),
)  # fmt: skip
# Double precision: numerators and denominators of C, T and F.
_DOUBLE = (
    (6.790776305704831e-06, 0.0002014879835067865, 0.0030326787031619523, 0.029370608054846013,
     0.19591907850979243, 0.9089156871378257, 2.5066282746310007),
    (2.326387808831084e-07, 1.3277997137343667e-05, 0.0003567222944564394, 0.0028968903435641234,
     0.0387375464303207, 0.10080550912026705, 1.0),
    (0.0013336894735550817, 0.04105297737169695, 0.43645014381031527, 2.1937366165041374,
     5.850719418588595, 8.549654226155285, 6.520770032277482, 2.0388183550204637),
    (1.2471982730125783e-09, 0.00094293310531727, 0.027182880717903094, 0.25763903215413425,
     1.0941436998293015, 2.309573217059861, 2.39616860932079, 1.0),
    (2.2996798357352005e-06, 0.00024026616092526397, 0.008640982825624885, 0.14475777450373162,
     1.2338212913741735, 5.18762889369125, 8.529748154530456),
    (5.322631266466661e-14, 1.6261003590034946e-06, 0.0001596851632139351, 0.005112452145374123,
     0.07063415739054701, 0.4377975177126176, 1.0),
)  # fmt: skip


def _normal_quantile_float32(p):
    q = p if p < 0.5 else 1.0 - p
    central = q > 0.005
    w = -log(4.0 * q * (1.0 - q) if central else q)
    r = math.sqrt(w) - 2.296875
    above, below = polynomial(r, _SINGLE[1]), polynomial(r, _SINGLE[2])
    z = (q - 0.5) * polynomial(w, _SINGLE[0]) if central else -(above / below)
    return _normal_quantile_edges(p, q, z)


def _normal_quantile_float64(p):
    q = p if p < 0.5 else 1.0 - p
    central = q > 0.02
    w = -log(4.0 * q * (1.0 - q) if central else q)
    root = math.sqrt(w)
    c, d = polynomial(w, _DOUBLE[0]), polynomial(w, _DOUBLE[1])
    r = root - 1.96875
    t, u = polynomial(r, _DOUBLE[2]), polynomial(r, _DOUBLE[3])
    r = root - 6.28125
    f, g = polynomial(r, _DOUBLE[4]), polynomial(r, _DOUBLE[5])
    far = r > 0.0
    above = (q - 0.5) * c if central else (-f if far else -t)
    below = d if central else (g if far else u)
    return _normal_quantile_edges(p, q, above / below)


def _normal_quantile_edges(p, q, z):
    z = -INFINITY if q == 0.0 else z
    z = z if p < 0.5 else -z
    return z if (p >= 0.0 and p <= 1.0) else NOT_A_NUMBER


normal_quantile = ByPrecision(float32=_normal_quantile_float32, float64=_normal_quantile_float64)


# --- turns ----------------------------------------------------------------------------------
#
# A quarter turn either way: sin(2 pi y) = y (2 pi + y^2 p(y^2)), with 2 pi in two parts.


_TURN = ByPrecision(float32=6.2831855, float64=6.283185307179586)
_QUARTER: Any = ByPrecision(
    float32=(39.769924, -76.5834, 81.60263, -41.341686, -1.7484555e-07),
    float64=(
        0.10088354579657915, -0.717730850766072, 3.8199278505396026, -15.09464166723503,
        42.058693925339355, -76.7058597528278, 81.60524927607369, -41.341702240399755,
        2.4492935982947064e-16
    ),
)  # fmt: skip


def _sin_quarter(y):
    v = y * y
    return fma(y, _TURN, y * polynomial(v, _QUARTER))


# --- radians --------------------------------------------------------------------------------
#
# r = x - n pi, with pi in two parts and fma: the error of r is of the order of its own last bit,
# but for n times what the two parts leave of pi.  sin(x) is sin(r) or, for odd n, its negative;
# cosine takes the half-integer n.  NaN where abs(x) is 2^22 (float32), 2^51 or more: beyond,
# numbers are a sizeable part of a turn apart.

_PI: Any = ByPrecision(
    float32=(3.1415927, -8.742278e-08), float64=(3.141592653589793, 1.2246467991473532e-16)
)
_PER_PI = ByPrecision(float32=0.31830987, float64=0.3183098861837907)
_PER_TURN = ByPrecision(float32=0.15915494, float64=0.15915494309189535)
_LARGEST = ByPrecision(float32=4194304.0, float64=2251799813685248.0)


def _sin_of_remainder(x, n, whole):
    r = fma(n, -_PI[1], fma(n, -_PI[0], x))
    half = 0.5 * whole
    odd = math.fabs(half - ((half + _SHIFT) - _SHIFT))
    found = (1.0 - 4.0 * odd) * _sin_quarter(_PER_TURN * r)
    return found if math.fabs(x) < _LARGEST else NOT_A_NUMBER


def sin(x):
    """Sine."""
    n = fma(x, _PER_PI, _SHIFT) - _SHIFT
    return _sin_of_remainder(x, n, n)


def cos(x):
    """Cosine."""
    n = fma(x, _PER_PI, 0.5)
    n = (n + _SHIFT) - _SHIFT
    return _sin_of_remainder(x, n - 0.5, n)


def tan(x):
    """Tangent."""
    return sin(x) / cos(x)


# --- hyperbolic tangent and powers ------------------------------------------------------------


def tanh(x):
    """Hyperbolic tangent."""
    size = abs(x)
    t = expm1(2.0 * (20.0 if size > 20.0 else size))
    return math.copysign(t / (t + 2.0), x)


def power(x, y):
    """x to the power y; a negative x requires a whole y."""
    x, y = real(x), real(y)
    base = abs(x)
    total, rest = _log_parts(base)
    high = total + rest
    high = -INFINITY if base == 0.0 else high
    high = INFINITY if base == INFINITY else high
    z = y * high
    lost = fma(y, high, -z) + y * ((total - high) + rest)  # what z rounds off
    lost = lost if abs(z) < 1000.0 else real(0.0)
    result = exp(z)
    result = fma(result, lost, result) if result < INFINITY else result
    whole = math.floor(y) == y
    odd = whole & (math.floor(0.5 * y) != 0.5 * y)
    result = -result if (x < 0.0) & odd else result
    result = result if (x >= 0.0) | (whole & (x < 0.0)) else NOT_A_NUMBER
    return real(1.0) if (y == 0.0) | (x == 1.0) else result


# --- neighbours -----------------------------------------------------------------------------


def next_up(x):
    """The next larger number, for x >= 0."""
    return from_bits(bits(to_bits(real(x)) + bits(1)))


def next_down(x):
    """The next smaller number, for x > 0."""
    return from_bits(bits(to_bits(real(x)) - bits(1)))
