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
`sin_two_pi`         quarter turns                                    3 ulp      2 ulp
`cos_two_pi`         quarter turns, as a sine                         3 ulp      2 ulp
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

import numpy as np

from ergode.core.compiler.language import ByPrecision, bits, fma, from_bits, real, to_bits

INFINITY = math.inf
NOT_A_NUMBER = math.nan


# --- logarithm ------------------------------------------------------------------------------
#
# With f = m - 1, log(1 + f) = f + tail, and k ln2_high + f is summed with its rounding error
# kept: what is left to round is the last addition and the small tail.  ln2_high has few enough
# bits that k ln2_high is exact.


def _log_parts_float32(x):
    """The logarithm as two numbers: the rounded value, and its rounding error."""
    # Subnormals have no implicit leading bit: scale them into the normal range first.
    tiny = x < 1.1754943508222875e-38
    word = to_bits(x * 8388608.0 if tiny else x)
    k = np.int32(np.int32(word - np.uint32(0x3F3504F3)) >> np.int32(23))
    f = from_bits(np.uint32(word - np.uint32(np.uint32(k) << np.uint32(23)))) - 1.0
    e = real(k) - (23.0 if tiny else 0.0)
    # log(1 + f) = f - f^2 / 2 + f^3 p(f), p within 5.9e-9 of the logarithm
    p = fma(f, -0.07634625, 0.12761138)
    p = fma(f, p, -0.13159893)
    p = fma(f, p, 0.14201772)
    p = fma(f, p, -0.16623387)
    p = fma(f, p, 0.2000123)
    p = fma(f, p, -0.2500082)
    p = fma(f, p, 0.3333333)
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
    r = fma(z, 0.14795583666237358, 0.15314087963447057)
    r = fma(z, r, 0.18183562855488467)
    r = fma(z, r, 0.2222219860076031)
    r = fma(z, r, 0.2857142874214322)
    r = fma(z, r, 0.399999999994155)
    r = fma(z, r, 0.6666666666666734)
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


def _exp_parts_float32(x):
    """exp(x) = 2^k (1 + t), for x within or near the range of exponents."""
    shifted = fma(x, 1.442695, 12582912.0)
    n = shifted - 12582912.0
    r = fma(n, -1.4286068e-06, fma(n, -0.693145751953125, x))
    # exp(r) = 1 + r + r^2 p(r), within 3.1e-9
    p = fma(r, 0.001381763, 0.008368682)
    p = fma(r, p, 0.04166834)
    p = fma(r, p, 0.16666521)
    p = fma(r, p, 0.49999994)
    k = np.int32(to_bits(shifted) - np.uint32(0x4B400000))
    return fma(r * r, p, r), k


def _two_to_the_float32(k):
    return from_bits(np.uint32(np.uint32(k + np.int32(127)) << np.uint32(23)))


def _exp_float32(x):
    t, k = _exp_parts_float32(x)
    half = np.int32(k >> np.int32(1))
    result = (1.0 + t) * _two_to_the_float32(half) * _two_to_the_float32(np.int32(k - half))
    result = 0.0 if x < -104.0 else result
    return INFINITY if x > 89.0 else result


def _expm1_float32(x):
    t, k = _exp_parts_float32(x)
    # One power below, doubled at the end: 2^128 is not a float, though exp(88.7) is.
    scale = _two_to_the_float32(np.int32(k - np.int32(1)))
    result = 2.0 * fma(scale, t, scale - 0.5)
    result = -1.0 if x < -18.0 else result
    result = INFINITY if x > 89.0 else result
    return x if math.fabs(x) < 1e-20 else result  # halving must not lose a subnormal's digits


def _exp_parts_float64(x):
    """exp(x) = 2^k (1 + t), for x within or near the range of exponents."""
    shifted = fma(x, 1.4426950408889634, 6755399441055744.0)
    n = shifted - 6755399441055744.0
    r = fma(n, -2.8235290563031577e-13, fma(n, -0.693147180559663, x))
    # exp(r) = 1 + r + r^2 p(r), within 3.7e-18
    p = fma(r, 2.4998465794493918e-08, 2.76302281000293e-07)
    p = fma(r, p, 2.7557591330704747e-06)
    p = fma(r, p, 2.4801493165397054e-05)
    p = fma(r, p, 0.00019841269501137942)
    p = fma(r, p, 0.0013888888943555317)
    p = fma(r, p, 0.00833333333349694)
    p = fma(r, p, 0.04166666666653048)
    p = fma(r, p, 0.16666666666666408)
    p = fma(r, p, 0.5000000000000011)
    k = np.int64(to_bits(shifted) - np.uint64(0x4338000000000000))
    return fma(r * r, p, r), k


def _two_to_the_float64(k):
    return from_bits(np.uint64(np.uint64(k + np.int64(1023)) << np.uint64(52)))


def _exp_float64(x):
    t, k = _exp_parts_float64(x)
    half = np.int64(k >> np.int64(1))
    result = (1.0 + t) * _two_to_the_float64(half) * _two_to_the_float64(np.int64(k - half))
    result = 0.0 if x < -746.0 else result
    return INFINITY if x > 710.0 else result


def _expm1_float64(x):
    t, k = _exp_parts_float64(x)
    scale = _two_to_the_float64(np.int64(k - np.int64(1)))
    result = 2.0 * fma(scale, t, scale - 0.5)
    result = -1.0 if x < -38.0 else result
    result = INFINITY if x > 710.0 else result
    return x if math.fabs(x) < 1e-20 else result


exp = ByPrecision(float32=_exp_float32, float64=_exp_float64)
expm1 = ByPrecision(float32=_expm1_float32, float64=_expm1_float64)


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


def _normal_quantile_float32(p):
    q = p if p < 0.5 else 1.0 - p
    central = q > 0.005
    w = -log(4.0 * q * (1.0 - q) if central else q)
    c = fma(w, 4.630369e-07, -1.885455e-05)
    c = fma(w, c, 0.0002105532)
    c = fma(w, c, -0.0004963841)
    c = fma(w, c, -0.006482312)
    c = fma(w, c, 0.032612372)
    c = fma(w, c, 0.6562427)
    c = fma(w, c, 2.506628)
    r = math.sqrt(w) - 2.296875
    above = fma(r, 0.09246705, 0.97136664)
    above = fma(r, above, 2.9771185)
    above = fma(r, above, 2.5679762)
    below = fma(r, 1.7138217e-06, 0.06530401)
    below = fma(r, below, 0.53922117)
    below = fma(r, below, 1.0)
    z = (q - 0.5) * c if central else -(above / below)
    return _normal_quantile_edges(p, q, z)


def _normal_quantile_float64(p):
    q = p if p < 0.5 else 1.0 - p
    central = q > 0.02
    w = -log(4.0 * q * (1.0 - q) if central else q)
    root = math.sqrt(w)
    c = fma(w, 6.790776305704831e-06, 0.0002014879835067865)
    c = fma(w, c, 0.0030326787031619523)
    c = fma(w, c, 0.029370608054846013)
    c = fma(w, c, 0.19591907850979243)
    c = fma(w, c, 0.9089156871378257)
    c = fma(w, c, 2.5066282746310007)
    d = fma(w, 2.326387808831084e-07, 1.3277997137343667e-05)
    d = fma(w, d, 0.0003567222944564394)
    d = fma(w, d, 0.0028968903435641234)
    d = fma(w, d, 0.0387375464303207)
    d = fma(w, d, 0.10080550912026705)
    d = fma(w, d, 1.0)
    r = root - 1.96875
    t = fma(r, 0.0013336894735550817, 0.04105297737169695)
    t = fma(r, t, 0.43645014381031527)
    t = fma(r, t, 2.1937366165041374)
    t = fma(r, t, 5.850719418588595)
    t = fma(r, t, 8.549654226155285)
    t = fma(r, t, 6.520770032277482)
    t = fma(r, t, 2.0388183550204637)
    u = fma(r, 1.2471982730125783e-09, 0.00094293310531727)
    u = fma(r, u, 0.027182880717903094)
    u = fma(r, u, 0.25763903215413425)
    u = fma(r, u, 1.0941436998293015)
    u = fma(r, u, 2.309573217059861)
    u = fma(r, u, 2.39616860932079)
    u = fma(r, u, 1.0)
    r = root - 6.28125
    f = fma(r, 2.2996798357352005e-06, 0.00024026616092526397)
    f = fma(r, f, 0.008640982825624885)
    f = fma(r, f, 0.14475777450373162)
    f = fma(r, f, 1.2338212913741735)
    f = fma(r, f, 5.18762889369125)
    f = fma(r, f, 8.529748154530456)
    g = fma(r, 5.322631266466661e-14, 1.6261003590034946e-06)
    g = fma(r, g, 0.0001596851632139351)
    g = fma(r, g, 0.005112452145374123)
    g = fma(r, g, 0.07063415739054701)
    g = fma(r, g, 0.4377975177126176)
    g = fma(r, g, 1.0)
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
# u - round(u) is exact, and so is folding it into a quarter turn either way; there
# sin(2 pi y) = y (2 pi + y^2 p(y^2)), with 2 pi in two parts.  abs(u) < 2^22 (float32), 2^51.


def _sin_quarter_float32(y):
    v = y * y
    p = fma(v, 39.769924, -76.5834)
    p = fma(v, p, 81.60263)
    p = fma(v, p, -41.341686)
    return fma(y, 6.2831855, y * fma(v, p, -1.7484555e-07))


def _sin_two_pi_float32(u):
    x = u - ((u + 12582912.0) - 12582912.0)
    y = 0.5 - x if x > 0.25 else x
    y = -0.5 - x if x < -0.25 else y
    return _sin_quarter_float32(y)


def _cos_two_pi_float32(u):
    return _sin_quarter_float32(0.25 - math.fabs(u - ((u + 12582912.0) - 12582912.0)))


def _sin_quarter_float64(y):
    v = y * y
    p = fma(v, 0.10088354579657915, -0.717730850766072)
    p = fma(v, p, 3.8199278505396026)
    p = fma(v, p, -15.09464166723503)
    p = fma(v, p, 42.058693925339355)
    p = fma(v, p, -76.7058597528278)
    p = fma(v, p, 81.60524927607369)
    p = fma(v, p, -41.341702240399755)
    return fma(y, 6.283185307179586, y * fma(v, p, 2.4492935982947064e-16))


def _sin_two_pi_float64(u):
    x = u - ((u + 6755399441055744.0) - 6755399441055744.0)
    y = 0.5 - x if x > 0.25 else x
    y = -0.5 - x if x < -0.25 else y
    return _sin_quarter_float64(y)


def _cos_two_pi_float64(u):
    return _sin_quarter_float64(
        0.25 - math.fabs(u - ((u + 6755399441055744.0) - 6755399441055744.0))
    )


sin_two_pi = ByPrecision(float32=_sin_two_pi_float32, float64=_sin_two_pi_float64)
cos_two_pi = ByPrecision(float32=_cos_two_pi_float32, float64=_cos_two_pi_float64)


# --- radians --------------------------------------------------------------------------------
#
# r = x - n pi, with pi in two parts and fma: the error of r is of the order of its own last bit,
# but for n times what the two parts leave of pi.  sin(x) is sin(r) or, for odd n, its negative;
# cosine takes the half-integer n.  NaN where abs(x) is 2^22 (float32), 2^51 or more: beyond,
# numbers are a sizeable part of a turn apart.


def _sin_of_remainder_float32(x, n, whole):
    r = fma(n, 8.742278e-08, fma(n, -3.1415927, x))
    half = 0.5 * whole
    odd = math.fabs(half - ((half + 12582912.0) - 12582912.0))
    found = (1.0 - 4.0 * odd) * _sin_quarter_float32(0.15915494 * r)
    return found if math.fabs(x) < 4194304.0 else NOT_A_NUMBER


def _sin_float32(x):
    n = fma(x, 0.31830987, 12582912.0) - 12582912.0
    return _sin_of_remainder_float32(x, n, n)


def _cos_float32(x):
    n = fma(x, 0.31830987, 0.5)
    n = (n + 12582912.0) - 12582912.0
    return _sin_of_remainder_float32(x, n - 0.5, n)


def _sin_of_remainder_float64(x, n, whole):
    r = fma(n, -1.2246467991473532e-16, fma(n, -3.141592653589793, x))
    half = 0.5 * whole
    odd = math.fabs(half - ((half + 6755399441055744.0) - 6755399441055744.0))
    found = (1.0 - 4.0 * odd) * _sin_quarter_float64(0.15915494309189535 * r)
    return found if math.fabs(x) < 2251799813685248.0 else NOT_A_NUMBER


def _sin_float64(x):
    n = fma(x, 0.3183098861837907, 6755399441055744.0) - 6755399441055744.0
    return _sin_of_remainder_float64(x, n, n)


def _cos_float64(x):
    n = fma(x, 0.3183098861837907, 0.5)
    n = (n + 6755399441055744.0) - 6755399441055744.0
    return _sin_of_remainder_float64(x, n - 0.5, n)


sin = ByPrecision(float32=_sin_float32, float64=_sin_float64)
cos = ByPrecision(float32=_cos_float32, float64=_cos_float64)


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
