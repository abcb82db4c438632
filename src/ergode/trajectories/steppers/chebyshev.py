"""A Runge-Kutta-Chebyshev method of order 2: as many stages as stability needs.

    Y_j - y = mu_j (Y_j-1 - y) + nu_j (Y_j-2 - y) + h (mu~_j F_j-1 + gamma~_j F_0)

With s stages a step is stable while ``h`` times the spectral radius is below 0.65 (s^2 - 1), for
eigenvalues near the negative real axis, as those of diffusion are.  An explicit method of one stage
is stable up to 2: s stages reach s / 3 times as far as s steps of Euler's method.

B. P. Sommeijer, L. F. Shampine, J. G. Verwer, J. Comput. Appl. Math. 88, 315 (1998), eqs. 2.1-2.8
(stages) and 2.10 (estimate), and section 3 (stability and spectral radius); J. G. Verwer,
B. P. Sommeijer, J. Comput. Appl. Math. 182, 1 (2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.trajectories.steppers import explicit, stepper

_DAMPING = 2.0 / 13.0
_MOST_STAGES = 500
# Numbers of stages that there are: every one, and from here on with gaps of six per cent.
_EVERY, _APART = 24, 1.06

BINDINGS: dict[Any, Any] = {
    # A step keeps its slope where it begins, its mean slope, and its slope where it ends.
    explicit.B: (0.0, 1.0),
    explicit.C: (0.0, 1.0),
    explicit.ERROR: (0.4, -0.8, 0.4),
    stepper.ERROR_ORDER: 3.0,
    stepper.DENSE: ((1.0, -2.0, 1.0), (0.0, 3.0, -2.0), (0.0, -1.0, 1.0)),
}


def stages_of(count: int) -> np.ndarray:
    """Coefficients of a step with `count` stages: mu, nu, mu~, gamma~ and time, [stage, 5]."""
    w0 = 1.0 + _DAMPING / count**2
    t, first, second = np.zeros((3, count + 1))  # Chebyshev's polynomials and their derivatives
    t[:2], first[1] = (1.0, w0), 1.0
    for j in range(2, count + 1):
        t[j] = 2 * w0 * t[j - 1] - t[j - 2]
        first[j] = 2 * w0 * first[j - 1] - first[j - 2] + 2 * t[j - 1]
        second[j] = 2 * w0 * second[j - 1] - second[j - 2] + 4 * first[j - 1]
    w1 = first[-1] / second[-1]
    b = np.empty(count + 1)
    b[2:] = second[2:] / first[2:] ** 2
    b[:2] = b[2]
    a = 1.0 - b * t
    found = np.zeros((count, 5))
    found[0] = 1.0, 0.0, b[1] * w1, 0.0, w1 * second[2] / first[2] / (4 * w0)
    for j in range(2, count + 1):
        more = 2 * b[j] * w1 / b[j - 1]
        found[j - 1] = (
            2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], more, -a[j - 1] * more,
            w1 * second[j] / first[j],
        )  # fmt: skip
    found[-1, 4] = 1.0
    return found


def stage_counts(rtol: float, epsilon: float) -> np.ndarray:
    """Possible numbers of stages: as many as keep the rounding error of a step below `rtol`."""
    most = min(max(int(np.sqrt(rtol / (10 * epsilon))), 2), _MOST_STAGES)
    counts = [2]
    while counts[-1] < most:
        last = counts[-1]
        counts.append(min(last + 1 if last < _EVERY else int(last * _APART), most))
    return np.array(counts)


def stage_table(rtol: float, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients [stage, 5], where every number of stages begins, and its limit of stability."""
    counts = stage_counts(rtol, epsilon)
    begins = np.concatenate([[0], np.cumsum(counts)])
    return np.concatenate([stages_of(int(one)) for one in counts]), begins, (counts**2 - 1) / 1.54
