"""Random numbers as pure functions: Philox4x32-10 and the draws built on it.

Every draw depends only on (seed, replicate, entity, purpose, index), not on the thread, chunk,
device or order in which it is made.  A draw takes one block of four 32-bit words; rejection
samplers take the blocks of consecutive indices.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11 (2011).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import ByPrecision, fma, real, unroll
from ergode.core.math.elementary import INFINITY, NOT_A_NUMBER, exp, log, normal_quantile

# Purposes of draws. Never change a number: it would change every published result.
# (Typed, because numba would compile a draw anew for every literal.)
SEEDING = np.uint32(1)
HOLDING_TIME = np.uint32(2)
BRANCHING = np.uint32(3)
TRANSMISSION = np.uint32(4)
GENERATOR = np.uint32(5)
SAMPLE = np.uint32(6)
SEED_CHOICE = np.uint32(7)
FIRING = np.uint32(16)
CHANNEL = np.uint32(17)
ACCEPTANCE = np.uint32(18)
CONTACT = np.uint32(20)
CONTACT_MARK = np.uint32(21)
INTERVENTION = np.uint32(22)
TRACING = np.uint32(23)
IMPORTATION = np.uint32(24)
JUMP = np.uint32(25)
LEAP = np.uint32(26)
LEAP_BRIDGE = np.uint32(27)
EVENT_DRAW = np.uint32(28)
EVENT_ROUNDING = np.uint32(29)
LEAP_EVENT = np.uint32(30)
LEAP_CAUSE = np.uint32(31)
TESTING = np.uint32(32)
DOSES = np.uint32(33)
EVENT_ORDER = np.uint32(34)
DELAY = np.uint32(35)
COMPLIANCE = np.uint32(36)
EXIT = np.uint32(37)
SYNCHRONOUS = np.uint32(38)
RELEASE = np.uint32(39)
WIENER = np.uint32(40)
PARTICLE = np.uint32(41)
PASSAGE = np.uint32(45)
BIRTH = np.uint32(46)
WIENER_TREE = np.uint32(47)
PARTITION = np.uint32(48)
PLACE = np.uint32(49)
JUMP_TIME = np.uint32(50)
IMAGE = np.uint32(51)

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint32(0x9E3779B9)
_WEYL_1 = np.uint32(0xBB67AE85)


def _round(c0, c1, c2, c3, k0, k1, number):
    """One round; the key advances by a Weyl step per round."""
    product_0 = _MULTIPLIER_0 * np.uint64(c0)
    product_1 = _MULTIPLIER_1 * np.uint64(c2)
    key_0 = np.uint32(k0 + np.uint32(number) * _WEYL_0)
    key_1 = np.uint32(k1 + np.uint32(number) * _WEYL_1)
    return (
        np.uint32(np.uint32(product_1 >> np.uint64(32)) ^ c1 ^ key_0),
        np.uint32(product_1),
        np.uint32(np.uint32(product_0 >> np.uint64(32)) ^ c3 ^ key_1),
        np.uint32(product_0),
    )


def philox(c0, c1, c2, c3, k0, k1):
    """Ten rounds of Philox4x32 on a counter of four words and a key of two."""
    # Unrolled: a loop around a draw vectorises only if the draw contains no loop.
    for number in unroll(range(9)):
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1, number)
    return _round(c0, c1, c2, c3, k0, k1, 9)


def draw_words(seed, replicate, entity, purpose, index):
    """Four words for one draw.

    `seed` is 64 bits wide, `replicate` and `index` 32, `entity` 56 and `purpose` 8.
    """
    entity = np.uint64(entity)
    return philox(
        np.uint32(entity),
        np.uint32(replicate),
        np.uint32(index),
        np.uint32((np.uint64(purpose) << np.uint64(24)) | (entity >> np.uint64(32))),
        np.uint32(seed),
        np.uint32(np.uint64(seed) >> np.uint64(32)),
    )


def uniform_24(w0, w1):
    """Float32 in (0, 1] from the first word.

    Near zero, all 32 bits of the word are used, so that logarithms keep resolution; elsewhere 24.
    """
    return fma(np.float32(w0), np.float32(2.0**-32), np.float32(2.0**-33))


def uniform_53(w0, w1):
    """Float64 in (0, 1) with 53 random bits: never 0, never 1."""
    high = np.uint64(w0) << np.uint64(21)
    low = np.uint64(w1) >> np.uint64(11)
    return np.float64(max(high | low, np.uint64(1))) * np.float64(2.0**-53)


uniform = ByPrecision(float32=uniform_24, float64=uniform_53)


def exponential(w0, w1):
    """Exponential draw of mean one."""
    return -log(uniform(w0, w1))


def normal(w0, w1):
    """Standard normal draw, by inversion."""
    # One bit gives the sign, so both tails have the resolution of the lower one.
    half = uniform(w0, w1) * 0.5
    z = normal_quantile(half)
    return z if (w1 & np.uint32(1)) == np.uint32(0) else -z


def attempt(index, number):
    """Block index of an attempt of a rejection sampler; its draws have indices below 2^24."""
    return np.uint32(np.uint32(index) | np.uint32(np.uint32(number) << np.uint32(24)))


def integer_below(count, seed, replicate, entity, purpose, index):
    """Exactly uniform integer in [0, count), 1 <= count < 2^32.

    Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019): scale a word to
    the interval and reject the few words that would cause bias.
    """
    count = np.uint32(count)
    excess = np.uint32(np.uint32(0) - count) % count
    number = 0
    while True:
        words = draw_words(seed, replicate, entity, purpose, attempt(index, number))
        for word in words:
            product = np.uint64(word) * np.uint64(count)
            if np.uint32(product) >= excess:
                return np.int64(product >> np.uint64(32))
        number += 1


def gamma(seed, replicate, entity, purpose, index, shape):
    """Gamma draw of the given shape and scale one.

    Marsaglia, Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000); a shape
    below one is the draw for shape + 1 times a uniform to the power 1 / shape.  NaN unless
    0 <= shape < infinity.
    """
    if not (shape >= 0.0 and shape < INFINITY):
        return real(NOT_A_NUMBER)
    boosted = shape if shape >= 1.0 else shape + 1.0
    d = boosted - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    number = 0
    cube = real(0.0)
    while True:
        w0, w1, w2, w3 = draw_words(seed, replicate, entity, purpose, attempt(index, number))
        x = normal(w0, w1)
        v = fma(c, x, real(1.0))
        number += 1
        if v > 0.0:
            cube = v * v * v
            # 1 - v^3 with one rounding, so that every target accepts the same draws
            if log(uniform(w2, w3)) < fma(0.5 * x, x, d * (fma(-(v * v), v, 1.0) + log(cube))):
                break
    if shape < 1.0:
        w0, w1, w2, w3 = draw_words(seed, replicate, entity, purpose, attempt(index, 255))
        return d * cube * exp(log(uniform(w0, w1)) / shape)
    return d * cube


# The Poisson and binomial draws compare log-probabilities, for which float32 is too coarse: they
# use float64 in every working precision. The constants are those of the papers.
_ONE = np.float64(1.0)
_HALF = np.float64(0.5)
_PTRS = (
    np.float64(0.931), np.float64(2.53), np.float64(-0.059), np.float64(0.02483),
    np.float64(1.1239), np.float64(1.1328), np.float64(3.4),
    np.float64(0.9277), np.float64(3.6224), np.float64(2.0), np.float64(0.43),
)  # fmt: skip
_BTRS = (
    np.float64(1.15), np.float64(2.53), np.float64(-0.0873), np.float64(0.0248), np.float64(0.01),
    np.float64(0.92), np.float64(4.2), np.float64(2.83), np.float64(5.1),
)  # fmt: skip
_SQUEEZE = np.float64(0.07)
_INVERSION_BELOW = np.float64(10.0)
_INVERSION_STEPS_MOST = np.float64(200.0)  # no uniform draw gets there, except by rounding
_COUNTED_BELOW = np.float64(2.0**52)
_HALF_LOG_TWO_PI = np.float64(0.9189385332046727)
_STIRLING = (
    np.float64(1 / 12), np.float64(-1 / 360), np.float64(1 / 1260), np.float64(-1 / 1680),
    np.float64(1 / 1188),
)  # fmt: skip


def _stirling_rest(x):
    """Remainder of Stirling's formula (x - 1/2) log x - x + log(2 pi) / 2 (DLMF 5.11.1)."""
    if x < _INVERSION_BELOW:
        return math.lgamma(x) - ((x - _HALF) * math.log(x) - x + _HALF_LOG_TWO_PI)
    y = _ONE / (x * x)
    rest = _STIRLING[3] + _STIRLING[4] * y
    rest = _STIRLING[2] + rest * y
    rest = _STIRLING[1] + rest * y
    return (_STIRLING[0] + rest * y) / x


def _log_weight(k, mean):
    """Logarithm of mean^(k + 1) exp(-mean) / k!, plus log(2 pi) / 2.

    Computed from deviances: the terms of the plain formula grow with k and cancel.
    """
    x = k + _ONE
    d = (mean - x) / x
    return _HALF * math.log(x) - x * (d - math.log1p(d)) - _stirling_rest(x)


def poisson(seed, replicate, entity, purpose, index, mean):
    """Poisson draw (int64) of the given mean, 0 <= mean < 2^52; -1 for any other mean.

    Sequential inversion below a mean of 10, else Hormann, "The transformed rejection method for
    generating Poisson random variables", Insurance: Math. Econ. 12 (1993), algorithm PTRS.
    """
    mean = np.float64(mean)
    if not (mean >= 0.0 and mean < _COUNTED_BELOW):
        return np.int64(-1)
    if mean < _INVERSION_BELOW:
        w0, w1, w2, w3 = draw_words(seed, replicate, entity, purpose, attempt(index, 0))
        remaining = uniform_53(w0, w1)
        count = np.int64(0)
        probability = math.exp(-mean)
        while remaining > probability and count < _INVERSION_STEPS_MOST:
            remaining -= probability
            count += 1
            probability *= mean / np.float64(count)
        return count
    b = _PTRS[0] + _PTRS[1] * math.sqrt(mean)
    a = _PTRS[2] + _PTRS[3] * b
    inverse_alpha = _PTRS[4] + _PTRS[5] / (b - _PTRS[6])
    accept_all = _PTRS[7] - _PTRS[8] / (b - _PTRS[9])
    number = 0
    while True:
        w0, w1, w2, w3 = draw_words(seed, replicate, entity, purpose, attempt(index, number))
        number += 1
        u = uniform_53(w0, w1) - _HALF
        v = uniform_53(w2, w3)
        us = _HALF - math.fabs(u)
        k = math.floor((a / us + a / us + b) * u + mean + _PTRS[10])
        if us >= _SQUEEZE and v <= accept_all:
            return np.int64(k)
        if k >= 0 and math.log(v * inverse_alpha * mean / (a / (us * us) + b)) <= (
            _log_weight(k, mean) - _HALF_LOG_TWO_PI
        ):
            return np.int64(k)


def binomial(seed, replicate, entity, purpose, index, trials, probability):
    """Binomial draw (int64), 0 <= trials < 2^52, 0 <= probability <= 1; -1 for any others.

    Sequential inversion below a mean of 10, else Hormann, "The generation of binomial random
    variates", J. Stat. Comput. Simul. 46 (1993), algorithm BTRS.
    """
    n = np.float64(trials)
    if not (n >= 0.0 and n < _COUNTED_BELOW and probability >= 0.0 and probability <= 1.0):
        return np.int64(-1)
    flipped = np.float64(probability) > _HALF
    p = _ONE - np.float64(probability) if flipped else np.float64(probability)
    odds = p / (_ONE - p)
    if n * p < _INVERSION_BELOW:
        w0, w1, w2, w3 = draw_words(seed, replicate, entity, purpose, attempt(index, 0))
        remaining = uniform_53(w0, w1)
        k = np.float64(0.0)
        mass = math.exp(n * math.log1p(-p))
        most = min(n, _INVERSION_STEPS_MOST)
        while remaining > mass and k < most:
            remaining -= mass
            mass *= odds * (n - k) / (k + _ONE)
            k += _ONE
    else:
        deviation = math.sqrt(n * p * (_ONE - p))
        b = _BTRS[0] + _BTRS[1] * deviation
        a = _BTRS[2] + _BTRS[3] * b + _BTRS[4] * p
        accept_all = _BTRS[5] - _BTRS[6] / b
        alpha = (_BTRS[7] + _BTRS[8] / b) * deviation
        successes, failures = (n + _ONE + _ONE) * p, (n + _ONE + _ONE) * (_ONE - p)
        mode = math.floor((n + _ONE) * p)
        at_mode = _log_weight(mode, successes) + _log_weight(n - mode, failures)
        number = 0
        while True:
            w0, w1, w2, w3 = draw_words(seed, replicate, entity, purpose, attempt(index, number))
            number += 1
            u = uniform_53(w0, w1) - _HALF
            v = uniform_53(w2, w3)
            us = _HALF - math.fabs(u)
            k = math.floor((a / us + a / us + b) * u + n * p + _HALF)
            if k < 0 or k > n:
                continue
            if us >= _SQUEEZE and v <= accept_all:
                break
            if math.log(v * alpha / (a / (us * us) + b)) <= (
                _log_weight(k, successes) + _log_weight(n - k, failures) - at_mode
            ):
                break
    return np.int64(n - k) if flipped else np.int64(k)


# Rounds of the shuffle below: after r of them an element is within 2^-r of uniform.
_SHUFFLE_ROUNDS = 40
_KEYS, _COINS, _FURTHER_KEYS = np.uint32(0), np.uint32(1), np.uint32(2)
_WORDS = np.uint64(1) << np.uint64(32)


def _swap(x, count, step, seed, replicate, purpose):
    """One round of the shuffle; it is its own inverse."""
    # A block holds the keys of four rounds.
    w0, w1, w2, w3 = draw_words(seed, replicate, step >> 2, purpose, _KEYS)
    which = step & 3
    word = w0 if which == 0 else (w1 if which == 1 else (w2 if which == 2 else w3))
    key = (np.uint64(word) * count) >> np.uint64(32)
    if count > _WORDS:
        # A word does not reach all keys: a second block has further bits.
        w0, w1, w2, w3 = draw_words(seed, replicate, step >> 2, purpose, _FURTHER_KEYS)
        more = w0 if which == 0 else (w1 if which == 1 else (w2 if which == 2 else w3))
        key = ((np.uint64(word) << np.uint64(32)) | np.uint64(more)) % count
    partner = key - x if key >= x else key + count - x
    high = partner if partner > x else x
    w0, w1, w2, w3 = draw_words(
        seed, replicate, high | (np.uint64(step) << np.uint64(40)), purpose, _COINS
    )
    return partner if (w0 & np.uint32(1)) != np.uint32(0) else x


def shuffled(rank, count, seed, replicate, purpose):
    """The element of rank `rank` in a random order of ``range(count)``, 1 <= count <= 2^36.

    Ranks 0 .. k - 1 are k distinct integers, each found without memory and without the others.
    Hoang, Morris, Rogaway, "An enciphering scheme based on a card shuffle", CRYPTO (2012): every
    round pairs x with key - x (mod count), and one random bit of the pair says whether they swap.
    """
    x = np.uint64(rank)
    for step in range(_SHUFFLE_ROUNDS):
        x = _swap(x, np.uint64(count), step, seed, replicate, purpose)
    return np.int64(x)


def shuffle_rank(element, count, seed, replicate, purpose):
    """The rank of an element: the inverse of `shuffled`."""
    x = np.uint64(element)
    for step in range(_SHUFFLE_ROUNDS - 1, -1, -1):
        x = _swap(x, np.uint64(count), step, seed, replicate, purpose)
    return np.int64(x)
