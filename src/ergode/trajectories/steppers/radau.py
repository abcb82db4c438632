"""The implicit Runge-Kutta method Radau IIA of three stages and order 5, for stiff equations.

A polynomial u of degree 3 begins at y, and obeys the equations at three points t + c_s h of a step,
the last of which is its end.  With z_s = u(t + c_s h) - y, the inverse of the method's matrix A and
the mass matrix B (or the unit matrix),

    B sum_r (A^-1)_sr z_r = h f(t + c_s h, y + z_s).

In the eigenvectors of A^-1 these are a real linear system and a complex one, each of the size of y.
Newton's method solves them with the Jacobian at the beginning of the step, to a hundredth of the
tolerance; where no tolerance chooses the steps, as far as it converges.  A step that does not
converge has a large error, and is repeated with a smaller size.

With the real eigenvalue g, (B g / h - J) err = f(t, y) + B e . z / h is the difference from a
formula of order 3.  It is put into f once more, which damps what is stiff.

E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), chapters IV.5
and IV.8 (eqs. 8.4 to 8.20).
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import fma, real, unroll
from ergode.trajectories.steppers.equations import EPSILON, MASS, VARIABLES, delayed, massed, slope
from ergode.trajectories.steppers.inside_step import missed_inside
from ergode.trajectories.steppers.jacobian import jacobian
from ergode.trajectories.steppers.linear import factorised, solved
from ergode.trajectories.steppers.stepper import ADAPTS, absolute

C = ((4.0 - 6.0**0.5) / 10.0, (4.0 + 6.0**0.5) / 10.0, 1.0)
PROBES = (0.4, 0.85)  # u' - f is zero at the stages, and almost largest here

_ITERATIONS = 20
_ENOUGH = 0.01  # of the tolerance
_REFUSED = 100.0  # times the tolerance: the error of a step without a solution


def _rows(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


_nodes = np.array(C)
_powers = _nodes[:, None] ** np.arange(3)
_matrix = (_powers * _nodes[:, None] / np.arange(1, 4)) @ np.linalg.inv(_powers)
_inverse = np.linalg.inv(_matrix)
_values, _vectors = np.linalg.eig(_inverse)
_alone, _paired = int(np.argmin(np.abs(_values.imag))), int(np.argmax(_values.imag))
# Weights of the stages in u: coefficients of x, x^2 and x^3.
DENSE = _rows(np.linalg.inv(_powers * _nodes[:, None]).T)
RATE = float(_values[_alone].real)
PAIR = float(_values[_paired].real), float(_values[_paired].imag)
_modes = np.stack(
    [_vectors[:, _alone].real, _vectors[:, _paired].real, -_vectors[:, _paired].imag], axis=1
)
TO_STAGES, FROM_STAGES = _rows(_modes), _rows(np.linalg.inv(_modes))
# Of the formula of order 3, whose weight of the slope at the beginning is 1 / RATE.
_others = np.linalg.solve(_powers.T, [1.0 - 1.0 / RATE, 1.0 / 2.0, 1.0 / 3.0])
ERROR = tuple((RATE * (_others - _matrix[2]) @ _inverse).tolist())


def step(t, h, y, f, history, p, rtol, atol):
    """One step; returns state and slope at its end, stages, and error estimates (see `stepper`)."""
    matrix = jacobian(t, y, f, history, p)
    per = 1.0 / h
    rate, turn = PAIR[0] * per, PAIR[1] * per
    alone = factorised(_shifted(matrix, RATE * per))
    paired = factorised(_shifted(matrix, complex(rate, turn)))
    scale = tuple(1.0 / fma(rtol, abs(y[i]), absolute(atol, i)) for i in range(VARIABLES))
    w = tuple(tuple(real(0.0) for i in range(VARIABLES)) for q in range(3))
    z = w
    before = real(0.0)
    is_solved = False
    number = 0
    while number < _ITERATIONS:
        g = tuple(_slope_at(C[s], t, h, y, z[s], history, p) for s in range(3))
        m = tuple(massed(w[q]) for q in range(3))
        r = tuple(
            tuple(sum(FROM_STAGES[q][s] * g[s][i] for s in range(3)) for i in range(VARIABLES))
            for q in range(3)
        )
        first = solved(alone, tuple(fma(-RATE * per, m[0][i], r[0][i]) for i in range(VARIABLES)))
        both = solved(
            paired,
            tuple(
                complex(
                    r[1][i] - (rate * m[1][i] - turn * m[2][i]),
                    r[2][i] - (turn * m[1][i] + rate * m[2][i]),
                )
                for i in range(VARIABLES)
            ),
        )
        w = (
            tuple(w[0][i] + first[i] for i in range(VARIABLES)),
            tuple(w[1][i] + both[i].real for i in range(VARIABLES)),
            tuple(w[2][i] + both[i].imag for i in range(VARIABLES)),
        )
        moved = z
        z = tuple(
            tuple(sum(TO_STAGES[s][q] * w[q][i] for q in range(3)) for i in range(VARIABLES))
            for s in range(3)
        )
        change = real(0.0)
        for i in unroll(range(VARIABLES)):
            for s in unroll(range(3)):
                change = max(change, abs(z[s][i] - moved[s][i]) * scale[i])
        number += 1
        is_last = change <= 8.0 * EPSILON / rtol
        # Each change is about `ratio` times the one before it: what is left is their sum.
        ratio = change / before if number > 1 else real(0.5)
        left = change * ratio / (1.0 - ratio) if ratio < 1.0 else change
        is_solved = is_last | (left <= _ENOUGH)
        if ADAPTS:
            is_last = is_solved
        if is_last or not ratio < 1.0:
            number = _ITERATIONS
        before = change
    y1 = tuple(y[i] + z[2][i] for i in range(VARIABLES))
    drift = massed(tuple(sum(ERROR[s] * z[s][i] for s in range(3)) for i in range(VARIABLES)))
    rough = solved(alone, tuple(fma(per, drift[i], f[i]) for i in range(VARIABLES)))
    again = slope(t, tuple(y[i] + rough[i] for i in range(VARIABLES)), delayed(t, y, history, p), p)
    error = solved(alone, tuple(fma(per, drift[i], again[i]) for i in range(VARIABLES)))
    if not is_solved:
        error = tuple(real(_REFUSED) / scale[i] for i in range(VARIABLES))
        if not ADAPTS:  # no smaller step is tried
            y1 = tuple(real(np.nan) for i in range(VARIABLES))
    f1 = slope(t + h, y1, delayed(t + h, y1, history, p), p)
    return y1, f1, z, error, missed_inside(t, h, y, z, history, p, alone, real(1.0))


def _shifted(matrix, rate):
    """The mass matrix times a rate, minus the Jacobian."""
    return tuple(
        tuple(
            rate * MASS[i][j] - matrix[i][j]
            if len(MASS) > 0
            else (rate - matrix[i][j] if i == j else 0.0 * rate - matrix[i][j])
            for j in range(VARIABLES)
        )
        for i in range(VARIABLES)
    )


def _slope_at(c, t, h, y, z, history, p):
    time = fma(real(c), h, t)
    state = tuple(y[i] + z[i] for i in range(VARIABLES))
    return slope(time, state, delayed(time, state, history, p), p)
