"""Step size control.

The error norm is the root mean square over the variables, each in units of ``atol + rtol abs(y)``.
A step is accepted if its error norm is at most one.  A proportional-integral controller chooses the
next step: where stability limits the step, its step sizes do not oscillate.

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed. (1993),
chapter II.4 (eqs. 4.10-4.14); K. Gustafsson, ACM TOMS 17, 533 (1991); for a method with two error
estimates, Hairer, Norsett, Wanner, chapter II.10 (eq. 10.17).
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import ByPrecision, fma, real
from ergode.core.math.elementary import exp, log, rough_log2
from ergode.trajectories.steppers.equations import VARIABLES, delayed, slope
from ergode.trajectories.steppers.explicit import CORRECTION
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.stepper import ERROR_ORDER, absolute

SMALLEST = -26.6  # error norm 1e-4; the controller treats smaller errors as equal to this
_NO_NUMBER = ByPrecision(float32=128.0, float64=1024.0)  # logarithm of infinity and of NaN
_SAFETY = -0.152003  # log2(0.9)
_LEAST, _MOST = -2.321928, 2.321928  # log2 of the least and largest step ratio, 0.2 and 5


def error_size(error, correction, y, y1, rtol, atol):
    """Binary logarithm of the mean square error; the step is accepted if it is at most zero.

    Its absolute error is below 0.09, and its sign is exact.  For infinity and NaN it is large
    (see `is_no_number`).
    """
    scale = tuple(
        1.0 / fma(rtol, max(abs(y[i]), abs(y1[i])), absolute(atol, i)) for i in range(VARIABLES)
    )
    fine = sum((error[i] * scale[i]) * (error[i] * scale[i]) for i in range(VARIABLES))
    coarse = sum(
        (correction[i] * scale[i]) * (correction[i] * scale[i])
        for i in range(VARIABLES if len(CORRECTION) > 0 else 0)
    )
    return size_of_sums(fine, coarse, real(1.0 / VARIABLES))


def is_no_number(log_error):
    """Whether an error was infinite or not a number, from its logarithm."""
    return log_error >= _NO_NUMBER


def size_of_sums(fine, coarse, share):
    """`error_size` from the sums of squares of both estimates; `share` is 1 / variable count."""
    total = fine
    if len(CORRECTION) > 0:
        total = fine * fine / max(fma(real(0.01), coarse, fine), real(1e-30))
    return rough_log2(total * share)


def growth(size, previous, kept, last_step_rejected):
    """Ratio of the next step to this one, to about one percent.

    `size` and `previous` are logarithms from `error_size`.  The step after a rejected step does not
    grow.  Steps of a noisy path halve and double.
    """
    power = (
        fma(size, -0.35 / ERROR_ORDER, previous * (0.2 / ERROR_ORDER))
        if kept and SCHEME == 0
        else size * (-0.5 / ERROR_ORDER)
    )
    most = real(0.0) if last_step_rejected else real(_MOST)
    power = min(max(power + _SAFETY, real(_LEAST)), most)
    # 2^power as the fourth power of a cubic: a short dependency chain; the next step waits for it.
    x = 0.17328679513998632 * power
    root = fma(x, fma(x, fma(x, real(1.0 / 6.0), real(0.5)), real(1.0)), real(1.0))
    square = root * root
    return square * square


def next_size(h, size, log_error, previous, kept, last_step_rejected, way, short, largest):
    """Size of the next step, after a step of `size` where `h` was proposed.

    A step truncated at its goal (`size` < `h`) does not reduce the proposal if it is accepted.  If
    an event ended the step (`short`), the next step is at most `way`, the time from the beginning
    of the step to the event: the next event may be equally close.  An event may be close to the
    beginning of a step by chance, so a short `way` alone does not end a trajectory.
    """
    following = growth(log_error, previous, kept, last_step_rejected) * size
    # By more than rounding, for that is no goal.
    following = max(following, h) if kept & (size < real(0.99) * h) else following
    following = max(min(following, way), real(1e-4) * h) if short else following
    return min(following, largest)


def first_step(t, span, y, f, history, p, rtol, atol):
    """Initial step size (Hairer, Norsett, Wanner, chapter II.4, "starting step size")."""
    scale = tuple(1.0 / fma(rtol, abs(y[i]), absolute(atol, i)) for i in range(VARIABLES))
    per = real(1.0 / VARIABLES)
    d0 = math.sqrt(sum((y[i] * scale[i]) * (y[i] * scale[i]) for i in range(VARIABLES)) * per)
    d1 = math.sqrt(sum((f[i] * scale[i]) * (f[i] * scale[i]) for i in range(VARIABLES)) * per)
    h = probing_step(d0, d1, span)
    moved = tuple(fma(h, f[i], y[i]) for i in range(VARIABLES))
    ahead = slope(t + h, moved, delayed(t + h, moved, history, p), p)
    change = math.sqrt(
        sum(
            ((ahead[i] - f[i]) * scale[i]) * ((ahead[i] - f[i]) * scale[i])
            for i in range(VARIABLES)
        )
        * per
    )
    return step_from_probe(h, d1, change, span)


def probing_step(d0, d1, span):
    """Trial step that measures how fast the slope changes; `d0`, `d1`: norms of state, slope."""
    h = 1e-6 * span if (d0 < 1e-5 or d1 < 1e-5) else 0.01 * d0 / d1
    return min(h, span)


def step_from_probe(h, d1, change, span):
    """Initial step size, from the norm `d1` of the slope and its `change` after a step `h`."""
    steepest = max(d1, change / h)
    tried = exp(log(0.01 / steepest) / ERROR_ORDER) if steepest > 1e-15 else span
    h = min(100.0 * h, tried)
    return min(h, span) if h > 0.0 else 1e-6 * span
