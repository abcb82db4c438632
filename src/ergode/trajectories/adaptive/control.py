"""Steps of the size that a tolerance allows.

The size of an error is its root mean square over the variables, each in units of ``atol + rtol
abs(y)``; a step is kept if that is at most one.  The next step is that of a proportional-integral
controller, so that it does not swing where stability limits it.

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed. (1993),
chapter II.4 (eqs. 4.10-4.14); K. Gustafsson, ACM TOMS 17, 533 (1991); for a method with two
estimates, Hairer, Norsett, Wanner, chapter II.10 (eq. 10.17).
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import fma, real
from ergode.core.math.elementary import exp, log, rough_log2
from ergode.trajectories.steppers.equations import VARIABLES, delayed, slope
from ergode.trajectories.steppers.explicit import CORRECTION
from ergode.trajectories.steppers.stepper import ERROR_ORDER

SMALLEST = -26.6  # an error of 1e-4, below which all are alike
_SAFETY = -0.152003  # 0.9, and factors of 0.2 and 5, as powers of two
_LEAST, _MOST = -2.321928, 2.321928


def error_size(error, correction, y, y1, rtol, atol):
    """Binary logarithm of the mean square error, not above zero if the step can be kept.

    It is good to 0.09, and exact in its sign; of infinity and of NaN it is large.
    """
    scale = tuple(1.0 / fma(rtol, max(abs(y[i]), abs(y1[i])), atol) for i in range(VARIABLES))
    fine = sum((error[i] * scale[i]) * (error[i] * scale[i]) for i in range(VARIABLES))
    coarse = sum(
        (correction[i] * scale[i]) * (correction[i] * scale[i])
        for i in range(VARIABLES if len(CORRECTION) > 0 else 0)
    )
    return size_of_sums(fine, coarse, real(1.0 / VARIABLES))


def size_of_sums(fine, coarse, share):
    """`error_size` of the sums of squares of both estimates; `share` is one over their number."""
    total = fine
    if len(CORRECTION) > 0:
        total = fine * fine / max(fma(real(0.01), coarse, fine), real(1e-30))
    return rough_log2(total * share)


def growth(size, previous, kept, last_step_rejected):
    """Factor of the next step, good to a percent.

    `size` and `previous` are logarithms; a step that follows a rejected one does not grow.
    """
    power = (
        fma(size, -0.35 / ERROR_ORDER, previous * (0.2 / ERROR_ORDER))
        if kept
        else size * (-0.5 / ERROR_ORDER)
    )
    most = real(0.0) if last_step_rejected else real(_MOST)
    power = min(max(power + _SAFETY, real(_LEAST)), most)
    # 2^power as the fourth power of a cubic: a chain of a few operations, where a step waits.
    x = 0.17328679513998632 * power
    root = fma(x, fma(x, fma(x, real(1.0 / 6.0), real(0.5)), real(1.0)), real(1.0))
    square = root * root
    return square * square


def next_size(h, size, log_error, previous, kept, last_step_rejected, way, short, largest):
    """Size of the step after one of `size`, of the `h` that was wanted.

    A step cut short by the goal says nothing against a longer one.  After an event that acts
    (`short`) the next is no longer than the `way` to it: another may be as near.
    """
    following = growth(log_error, previous, kept, last_step_rejected) * size
    following = max(following, h) if kept & (size < h) else following
    following = min(following, way) if short else following
    return min(following, largest)


def first_step(t, span, y, f, history, p, rtol, atol):
    """A step to begin with."""
    scale = tuple(1.0 / fma(rtol, abs(y[i]), atol) for i in range(VARIABLES))
    d0 = math.sqrt(sum((y[i] * scale[i]) * (y[i] * scale[i]) for i in range(VARIABLES)))
    d1 = math.sqrt(sum((f[i] * scale[i]) * (f[i] * scale[i]) for i in range(VARIABLES)))
    h = probing_step(d0, d1, span)
    moved = tuple(fma(h, f[i], y[i]) for i in range(VARIABLES))
    ahead = slope(t + h, moved, delayed(t + h, moved, history, p), p)
    change = math.sqrt(
        sum(
            ((ahead[i] - f[i]) * scale[i]) * ((ahead[i] - f[i]) * scale[i])
            for i in range(VARIABLES)
        )
    )
    return step_from_probe(h, d1, change, span)


def probing_step(d0, d1, span):
    """A step that shows how fast the slope changes, by the sizes of state and slope."""
    h = 1e-6 * span if (d0 < 1e-5 or d1 < 1e-5) else 0.01 * d0 / d1
    return min(h, span)


def step_from_probe(h, d1, change, span):
    """A step to begin with, by how much the slope `d1` has changed after `h`."""
    steepest = max(d1, change / h)
    tried = exp(log(0.01 / steepest) / ERROR_ORDER) if steepest > 1e-15 else span
    h = min(100.0 * h, tried)
    return min(h, span) if h > 0.0 else 1e-6 * span
