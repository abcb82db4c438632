"""The equations as every method sees them: the user's function, and the past it reads.

Here a kernel is specialised to a model; what is bound in place of these names is in `bindings`.
"""

from __future__ import annotations

from ergode.core.compiler.language import fma, real

VARIABLES = 1
PARAMETERS = 0
PLACES = ()  # for each delay, the place of its variable among those that history keeps
COEFFICIENTS = 4  # of the polynomial through the past
LOOKS_UP = False  # whether delays depend on the state, so that every stage looks up its past

EPSILON = 2.0**-52  # of the working precision
INFINITY = float("inf")


def rhs(t, y, yd, p):
    """The user's function: bound for each kernel."""
    return y


def looked_up(t, y, past, p):
    """Delayed values where delays depend on the state: bound for each kernel."""
    return ()


def slope(t, y, yd, p):
    """Derivative of every variable."""
    f = rhs(t, y, yd, p) if len(PLACES) > 0 else rhs(t, y, p)
    return tuple(real(f[i]) for i in range(VARIABLES))


def delayed(t, y, past, p):
    """Delayed values at a time and state of the present step.

    `past` has, for each delay, the time when the polynomial that it reads begins to be read, one
    over how long, and the coefficients in the fraction of that (see `cells`).
    """
    if LOOKS_UP:
        return looked_up(t, y, past, p)
    return tuple(polynomial((t - past[d][0]) * past[d][1], past[d][2]) for d in range(len(PLACES)))


def delayed_slopes(t, past):
    """Derivatives of the delayed values."""
    return tuple(
        past[d][1] * derivative((t - past[d][0]) * past[d][1], past[d][2])
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
