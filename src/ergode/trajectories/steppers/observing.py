"""Accumulators of observables, and functions of a step that observables use.

Within a step the solution is the cubic Hermite interpolant of its ends.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import option, real

SEEN = option(0)  # number of accumulators
OBSERVED = option(0)  # number of results
begin_observing = option()  # begin_observing(t, y, p): initial accumulators
keep_observing = option()  # keep_observing(s, t, y, f, t1, y1, f1, p): accumulators after a step
observed = option()  # observed(s, t, y, p): results


def _coefficients(h, y0, f0, y1, f1):
    """Those of x, x^2 and x^3 in the cubic of a step of size `h`."""
    a = h * f0
    rise = y1 - y0
    return a, 3.0 * rise - 2.0 * a - h * f1, a + h * f1 - 2.0 * rise


def cubic_at(x, h, y0, f0, y1, f1):
    """Value and slope at the fraction `x` of a step."""
    a, b, c = _coefficients(h, y0, f0, y1, f1)
    return y0 + x * (a + x * (b + x * c)), (a + x * (2.0 * b + 3.0 * x * c)) / h


def highest(h, y0, f0, y1, f1):
    """Largest value within a step."""
    # The slope is a + 2 b x + 3 c x^2; the maximum is its zero with a negative second derivative.
    a, b, c = _coefficients(h, y0, f0, y1, f1)
    root = math.sqrt(max(b * b - 3.0 * a * c, real(0.0)))
    x = a / (root - b) if root > b else real(0.0)
    top = y0 + x * (a + x * (b + x * c))
    inside = (x > 0.0) & (x < 1.0)
    ends = max(y0, y1)
    return max(ends, top) if inside else ends


def area(h, y0, f0, y1, f1):
    """Integral over a step."""
    return h * (0.5 * (y0 + y1) + h * (f0 - f1) / 12.0)


def part_above(h, y0, f0, y1, f1):
    """Fraction of a step in which the value is positive."""
    a, b, c = _coefficients(h, y0, f0, y1, f1)
    # Between its extrema the cubic is monotone and crosses zero at most once.
    q = -(b + math.copysign(math.sqrt(max(b * b - 3.0 * a * c, real(0.0))), b))
    one, other = q / (3.0 * c), a / q
    one = one if (one > 0.0) & (one < 1.0) else real(0.0)
    other = other if (other > 0.0) & (other < 1.0) else real(0.0)
    first, second = min(one, other), max(one, other)
    return (
        _monotone_above(real(0.0), first, y0, a, b, c)
        + _monotone_above(first, second, y0, a, b, c)
        + _monotone_above(second, real(1.0), y0, a, b, c)
    )


def _monotone_above(left, right, y0, a, b, c):
    """Length of the part of [left, right] with y0 + a x + b x^2 + c x^3 > 0, a monotone cubic."""
    begins = y0 + left * (a + left * (b + left * c)) > 0.0
    ends = y0 + right * (a + right * (b + right * c)) > 0.0
    low, high = left, right
    x = 0.5 * (low + high)
    # Newton's method, safeguarded by a bracket of the zero.
    for _ in range(12):
        value = y0 + x * (a + x * (b + x * c))
        before = (value > 0.0) == begins
        low = x if before else low
        high = high if before else x
        newton = x - value / (a + x * (2.0 * b + x * (3.0 * c)))
        x = newton if (newton >= low) & (newton <= high) else 0.5 * (low + high)
    crossing = x - left if begins else right - x
    whole = right - left if begins else real(0.0)
    return crossing if begins != ends else whole
