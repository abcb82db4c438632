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

from ergode.core.elementary import exp, log
from ergode.core.machine import fma, real
from ergode.trajectories.equations import VARIABLES, delayed, slope

# Bound for each method.
ERROR_ORDER = 5  # the estimated error falls as step to this power
CORRECTED = False

_SAFETY = -0.10536051565782628  # log 0.9
_LEAST, _MOST = 0.2, 5.0
_INFINITY = math.inf


def error_size(error, correction, y, y1, rtol, atol):
    """Logarithm of the error's size: not above zero if the step can be kept, NaN if it is NaN."""
    scale = tuple(1.0 / fma(rtol, max(abs(y[i]), abs(y1[i])), atol) for i in range(VARIABLES))
    fine = sum((error[i] * scale[i]) * (error[i] * scale[i]) for i in range(VARIABLES))
    total = fine
    if CORRECTED:
        coarse = sum(
            (correction[i] * scale[i]) * (correction[i] * scale[i]) for i in range(VARIABLES)
        )
        total = fine * fine / max(fma(real(0.01), coarse, fine), real(1e-30))
    # Written so that NaN stays NaN.
    total = total if total > 1e-20 else (real(1e-20) if total <= 1e-20 else total)
    return 0.5 * log(total / real(VARIABLES))


def growth(size, previous, kept, stumbled):
    """Factor of the next step.

    `size` and `previous` are logarithms; a step that follows a rejected one does not grow.
    """
    power = (
        fma(size, -0.7 / ERROR_ORDER, previous * (0.4 / ERROR_ORDER))
        if kept
        else size * (-1.0 / ERROR_ORDER)
    )
    factor = exp(power + _SAFETY)
    factor = factor if factor > _LEAST else real(_LEAST)  # NaN is the least, too
    most = real(1.0) if stumbled else real(_MOST)
    return min(factor, most)


def first_step(t, span, y, f, past, p, rtol, atol):
    """A step to begin with."""
    scale = tuple(1.0 / fma(rtol, abs(y[i]), atol) for i in range(VARIABLES))
    d0 = math.sqrt(sum((y[i] * scale[i]) * (y[i] * scale[i]) for i in range(VARIABLES)))
    d1 = math.sqrt(sum((f[i] * scale[i]) * (f[i] * scale[i]) for i in range(VARIABLES)))
    h = 1e-6 * span if (d0 < 1e-5 or d1 < 1e-5) else 0.01 * d0 / d1
    h = min(h, span)
    moved = tuple(fma(h, f[i], y[i]) for i in range(VARIABLES))
    ahead = slope(t + h, moved, delayed(t + h, moved, past, p), p)
    d2 = (
        math.sqrt(
            sum(
                ((ahead[i] - f[i]) * scale[i]) * ((ahead[i] - f[i]) * scale[i])
                for i in range(VARIABLES)
            )
        )
        / h
    )
    steepest = max(d1, d2)
    tried = exp(log(0.01 / steepest) / ERROR_ORDER) if steepest > 1e-15 else span
    h = min(100.0 * h, tried)
    return min(h, span) if h > 0.0 else 1e-6 * span
