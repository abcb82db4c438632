"""What observables ask of a step: of the cubic through both its ends with its slopes there."""

from __future__ import annotations

import math

from ergode.core.machine import real


def highest(h, y0, f0, y1, f1):
    """Largest value of a step."""
    # At the fraction x the slope is a + 2 b x + 3 c x^2: its zero with falling slope is the top.
    a = h * f0
    rise = y1 - y0
    b = 3.0 * rise - 2.0 * a - h * f1
    c = a + h * f1 - 2.0 * rise
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
    """Fraction of a step with a positive value; one crossing at most is looked for."""
    # From the straight line's crossing, two steps of Newton on the cubic.
    x = y0 / (y0 - y1) if y0 != y1 else real(0.5)
    a = h * f0
    rise = y1 - y0
    b = 3.0 * rise - 2.0 * a - h * f1
    c = a + h * f1 - 2.0 * rise
    for _ in range(2):
        slope = a + x * (2.0 * b + x * (3.0 * c))
        moved = x - (y0 + x * (a + x * (b + x * c))) / slope
        x = moved if (moved >= 0.0) & (moved <= 1.0) else x
    part = x if y0 > 0.0 else 1.0 - x
    part = part if (y0 > 0.0) != (y1 > 0.0) else (real(1.0) if y0 > 0.0 else real(0.0))
    return part
