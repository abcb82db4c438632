"""The equations: the user's function, and the delayed values it receives.

A kernel is compiled for one field, one precision and one access to the history (options below).
"""

from __future__ import annotations

from ergode.core.compiler.language import fma, option, real

VARIABLES = option(1)
PARAMETERS = option(8)  # numbers that the functions receive: at least one for each parameter
PLACES = option(())  # for each delay, index of its variable among the stored variables
SLOPED = option(())  # for each delay, whether the derivative is delayed; empty if none is
COEFFICIENTS = option(4)  # coefficients of the interpolating polynomial: 4 (cubic) or 6 (quintic)
LOOKS_UP = option(False)  # whether delays depend on the state: every stage looks up its history
MASS = option(())  # rows of the mass matrix; empty for the identity
EPSILON = option(2.0**-52)  # machine epsilon of the working precision

rhs = option()  # rhs(t, y, yd, p), or without delays rhs(t, y, p): the user's function
looked_up = option()  # looked_up(t, y, history, p): delayed values of state-dependent delays

INFINITY = float("inf")


def parameters_in(lane, rows):
    """Parameters of one lane."""
    return tuple(rows[i, lane] for i in range(PARAMETERS))


def parameters_of(trajectory, run):
    """Parameters of a trajectory; zeros follow."""
    rows = run.parameters
    return tuple(rows[i, trajectory] if i < rows.shape[0] else real(0.0) for i in range(PARAMETERS))


def massed(u):
    """The mass matrix times a vector."""
    if len(MASS) > 0:
        return tuple(
            sum((MASS[i][j] * u[j] for j in range(VARIABLES) if MASS[i][j] != 0.0), real(0.0))
            for i in range(VARIABLES)
        )
    else:  # MASS is an option: only one branch is compiled
        return u


def slope(t, y, yd, p):
    """Derivative of every variable; with a mass matrix its product with the derivatives."""
    f = rhs(t, y, yd, p) if len(PLACES) > 0 else rhs(t, y, p)
    return tuple(real(f[i]) for i in range(VARIABLES))


def delayed(t, y, history, p):
    """Delayed values at a time and state of the present step.

    For each delay, `history` holds the time at which its present polynomial begins, the reciprocal
    of the polynomial's duration, and its coefficients on [0, 1] (see `segments`).
    """
    if LOOKS_UP:
        return looked_up(t, y, history, p)
    if len(SLOPED) > 0:
        return tuple(
            history[d][1] * derivative((t - history[d][0]) * history[d][1], history[d][2])
            if SLOPED[d]
            else polynomial((t - history[d][0]) * history[d][1], history[d][2])
            for d in range(len(PLACES))
        )
    return tuple(
        polynomial((t - history[d][0]) * history[d][1], history[d][2]) for d in range(len(PLACES))
    )


def delayed_slopes(t, history):
    """Derivatives of the delayed values."""
    return tuple(
        history[d][1] * derivative((t - history[d][0]) * history[d][1], history[d][2])
        for d in range(len(PLACES))
    )


def polynomial(x, c):
    """c[0] + c[1] x + ... by Horner's rule."""
    value = fma(x, c[3], c[2])
    if COEFFICIENTS == 6:
        value = fma(x, fma(x, fma(x, c[5], c[4]), c[3]), c[2])
    return fma(x, fma(x, value, c[1]), c[0])


def derivative(x, c):
    """Derivative of `polynomial`."""
    value = fma(x, 3.0 * c[3], 2.0 * c[2])
    if COEFFICIENTS == 6:
        value = fma(x, fma(x, fma(x, 5.0 * c[5], 4.0 * c[4]), 3.0 * c[3]), 2.0 * c[2])
    return fma(x, value, c[1])


def is_finite(x):
    """Whether a value is a finite number."""
    return abs(x) < INFINITY
