"""Kvaerno's singly diagonally implicit Runge-Kutta method for stiff equations.

A stage is z = h f(t + c h, y + sum_j a_j z_j + gamma z).  Newton's method solves it with the
Jacobian at the beginning of the step.  A stage that does not converge increases the error estimate,
so that the step is rejected and repeated with a smaller size.

A. Kvaerno, BIT Numer. Math. 44, 489 (2004), table of the 7-stage pair of order 5 and 4;
E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), chapter IV.8.
"""

from __future__ import annotations

from ergode.core.compiler.language import fma, real, unroll
from ergode.core.math.tableaus import hermite_dense
from ergode.trajectories.steppers.equations import EPSILON, VARIABLES, delayed, slope
from ergode.trajectories.steppers.inside_step import missed_inside
from ergode.trajectories.steppers.jacobian import jacobian
from ergode.trajectories.steppers.linear import factorised, solved

GAMMA = 0.26
C = (0.0, 0.52, 1.230333209967908, 0.8957659843500759, 0.43639360985864756, 1.0, 1.0)
A = (
    (),
    (0.26,),
    (0.13, 0.84033320996790809),
    (0.22371961478320505, 0.47675532319799699, -0.06470895363112615),
    (0.16648564323248321, 0.10450018841591720, 0.03631482272098715, -0.13090704451073998),
    (0.13855640231268224, 0.0, -0.04245337201752043, 0.02446657898003141, 0.61943039072480676),
    (
        0.13659751177640291, 0.0, -0.05496908796538376, -0.04118626728321046, 0.62993304899016403,
        0.06962479448202728,
    ),
)  # fmt: skip
# Last stage (order 5) minus the stage before it (order 4).
ERROR = (
    *(a - b for a, b in zip(A[6], (*A[5], 0.26), strict=True)), 0.26,
)  # fmt: skip
DENSE = hermite_dense((*A[6], 0.26))[:7]
DENSE = (*DENSE[:6], tuple(a + b for a, b in zip(DENSE[6], (0.0, -1.0, 1.0), strict=True)))
PROBES = (0.4, 0.75)  # in a variable that follows t^5 or t^3, errors are almost largest here

_ITERATIONS = 10


def step(t, h, y, f, history, p):
    """One step; returns state and slope at its end, stages, and error estimates (see `stepper`)."""
    matrix = jacobian(t, y, f, history, p)
    factors = factorised(
        tuple(
            tuple(
                (1.0 - h * GAMMA * matrix[i][j] if i == j else -h * GAMMA * matrix[i][j])
                for j in range(VARIABLES)
            )
            for i in range(VARIABLES)
        )
    )
    k = (tuple(h * f[i] for i in range(VARIABLES)),)
    doubt = real(0.0)
    for s in unroll(range(1, 7)):
        base = tuple(
            sum((A[s][j] * k[j][i] for j in range(s) if A[s][j] != 0.0), y[i])
            for i in range(VARIABLES)
        )
        z, change = _stage(fma(real(C[s]), h, t), h, base, k[s - 1], factors, history, p)
        doubt = max(doubt, change)
        k = k + (z,)  # noqa: RUF005
    y1 = tuple(
        sum(
            (A[6][j] * k[j][i] for j in range(6) if A[6][j] != 0.0), fma(real(GAMMA), k[6][i], y[i])
        )
        for i in range(VARIABLES)
    )
    raw = tuple(
        sum(ERROR[j] * k[j][i] for j in range(7) if ERROR[j] != 0.0) for i in range(VARIABLES)
    )
    # Solving with the matrix damps stiff components, which would dominate the raw estimate although
    # both formulas damp them.
    error = solved(factors, raw)
    error = tuple(error[i] + doubt * (abs(y1[i]) + abs(y[i])) for i in range(VARIABLES))
    missed = missed_inside(t, h, y, k, history, p, factors, h * real(GAMMA))
    return y1, tuple(k[6][i] / h for i in range(VARIABLES)), k, error, missed


def _stage(t, h, base, guess, factors, history, p):
    """One stage by Newton's method, and its last relative change (0 if converged)."""
    yd = delayed(t, base, history, p)
    z = guess
    change = real(1.0)
    # Newton's method has converged if the last change is far below any tolerance.
    enough = 1e-11 if EPSILON < 1e-10 else 1e-5
    for _ in range(_ITERATIONS):
        g = slope(t, tuple(fma(real(GAMMA), z[i], base[i]) for i in range(VARIABLES)), yd, p)
        d = solved(factors, tuple(fma(h, g[i], -z[i]) for i in range(VARIABLES)))
        z = tuple(z[i] + d[i] for i in range(VARIABLES))
        change = real(0.0)
        for i in unroll(range(VARIABLES)):
            change = max(change, abs(d[i]) / (abs(base[i]) + abs(z[i]) + real(1e-30)))
        if not change > enough:
            break
    return z, (change if change > enough else real(0.0))
