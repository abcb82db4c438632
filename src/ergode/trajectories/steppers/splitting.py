"""Symplectic steps of separable Hamiltonian systems: drifts and kicks in turn.

    dq/dt = v(p),    dp/dt = f(t, q)

A drift moves the positions q at constant momenta p, a kick moves the momenta at constant positions;
both are exact.  A step is a composition of them, so it conserves the symplectic form, and the
energy error stays bounded.

E. Hairer, Ch. Lubich, G. Wanner, "Geometric Numerical Integration", 2nd ed. (2006), chapters II.5
and VI.3.
"""

from __future__ import annotations

from typing import Any

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.steppers.equations import VARIABLES, slope

KICKS = option(())  # durations of the kicks, in steps
DRIFTS = option(())  # durations of the drifts before, between and after the kicks, in steps
POSITIONS = option(())  # for each variable, whether it is a position


def average_slope(t, h, y, p):
    """Change of the state in one step, per unit of time."""
    u = tuple(real(0.0) for i in range(VARIABLES))
    passed = real(0.0)
    for s in unroll(range(len(DRIFTS))):
        v = slope(t, tuple(fma(h, u[i], y[i]) for i in range(VARIABLES)), (), p)
        u = tuple(
            fma(real(DRIFTS[s]), v[i], u[i]) if POSITIONS[i] else u[i] for i in range(VARIABLES)
        )
        if s < len(KICKS):
            passed = passed + real(DRIFTS[s])
            f = slope(fma(passed, h, t), tuple(fma(h, u[i], y[i]) for i in range(VARIABLES)), (), p)
            u = tuple(
                u[i] if POSITIONS[i] else fma(real(KICKS[s]), f[i], u[i]) for i in range(VARIABLES)
            )
    return u


def step(t, h, y, f, history, p, rtol, atol):
    """One step; returns state and slope at its end, and stages (see `stepper`)."""
    u = average_slope(t, h, y, p)
    y1 = tuple(fma(h, u[i], y[i]) for i in range(VARIABLES))
    f1 = slope(t + h, y1, (), p)
    k = (
        tuple(h * f[i] for i in range(VARIABLES)),
        tuple(h * u[i] for i in range(VARIABLES)),
        tuple(h * f1[i] for i in range(VARIABLES)),
    )
    return y1, f1, k, tuple(real(0.0) for i in range(VARIABLES)), ()


def bindings_of(
    drifts: tuple[float, ...], kicks: tuple[float, ...], positions: tuple[bool, ...] | str
) -> dict[Any, Any]:
    """Bindings of a kernel: a composition (see `tableaus`), and which variables are positions."""
    return {DRIFTS: drifts, KICKS: kicks, POSITIONS: positions}
