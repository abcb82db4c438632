"""Explicit Runge-Kutta steps with error estimate and dense output.

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed. (1993),
chapters II.1, II.5, II.6.
"""

from __future__ import annotations

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.steppers.equations import VARIABLES, delayed, slope

# Butcher tableau of the method (see `core.math.tableaus`).
A, B, C = option(((),)), option((1.0,)), option((0.0,))
ERROR, CORRECTION = option(()), option(())
EXTRA_A, EXTRA_C = option(()), option(())


def step(t, h, y, f, history, p, rtol, atol):
    """One step; returns state and slope at its end, stages, and error estimates (see `stepper`)."""
    k = (tuple(h * f[i] for i in range(VARIABLES)),)
    for s in unroll(range(1, len(C))):
        k = k + (  # noqa: RUF005
            _increment(
                fma(real(C[s]), h, t),
                h,
                tuple(
                    sum((A[s][j] * k[j][i] for j in range(s) if A[s][j] != 0.0), y[i])
                    for i in range(VARIABLES)
                ),
                history,
                p,
            ),
        )
    y1 = tuple(
        sum((B[j] * k[j][i] for j in range(len(C)) if B[j] != 0.0), y[i]) for i in range(VARIABLES)
    )
    f1 = slope(t + h, y1, delayed(t + h, y1, history, p), p)
    k = k + (tuple(h * f1[i] for i in range(VARIABLES)),)  # noqa: RUF005
    error = tuple(
        sum(ERROR[j] * k[j][i] for j in range(len(ERROR)) if ERROR[j] != 0.0)
        for i in range(VARIABLES)
    )
    correction = tuple(
        sum(CORRECTION[j] * k[j][i] for j in range(len(CORRECTION)) if CORRECTION[j] != 0.0)
        for i in range(VARIABLES if len(CORRECTION) > 0 else 0)
    )
    return y1, f1, k, error, correction


def completed(t, h, y, k, history, p):
    """All stages of the dense output."""
    for s in unroll(range(len(EXTRA_C))):
        k = k + (  # noqa: RUF005
            _increment(
                fma(real(EXTRA_C[s]), h, t),
                h,
                tuple(
                    sum(
                        (
                            EXTRA_A[s][j] * k[j][i]
                            for j in range(len(EXTRA_A[s]))
                            if EXTRA_A[s][j] != 0.0
                        ),
                        y[i],
                    )
                    for i in range(VARIABLES)
                ),
                history,
                p,
            ),
        )
    return k


def _increment(t, h, y, history, p):
    f = slope(t, y, delayed(t, y, history, p), p)
    return tuple(h * f[i] for i in range(VARIABLES))
