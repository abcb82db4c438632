"""The equations as every method sees them: the user's function, and the history it reads.

A kernel is made for one field, precision and way to read the history: the options below.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.core.math.operations import run

VARIABLES = option(1)
PARAMETERS = option(0)
PLACES = option(())  # for each delay, the place of its variable among those that history keeps
COEFFICIENTS = option(4)  # of the polynomial through the history
LOOKS_UP = option(False)  # whether delays depend on the state: every stage looks up its history
EPSILON = option(2.0**-52)  # of the working precision
PROGRAM = option(False)  # whether the equations are a program, which the kernel is given

rhs = option()  # rhs(t, y, yd, p), or without delays rhs(t, y, p): the user's function
looked_up = option()  # looked_up(t, y, history, p): delayed values where delays depend on the state

INFINITY = float("inf")


class Equations(NamedTuple):
    """The program of the equations on a thread (see `compiler.tracer.Program`)."""

    steps: Any  # uint32 [step, 4]
    registers: Any  # real [register]: the thread's own
    outputs: Any  # uint32 [variable]
    parameters: Any  # real [parameter, column]


class Given(NamedTuple):
    """What stands for the parameters where the equations are a program."""

    equations: Any
    column: Any  # of the parameters


def equations_of(program, parameters):
    """The equations as a thread runs them; nothing where they are compiled."""
    if PROGRAM:
        registers = np.empty(program[1].size, real)
        for i in range(registers.size):
            registers[i] = program[1][i]
        return Equations(program[0], registers, program[2], parameters)
    else:  # what is not chosen is not compiled
        return ()


def parameters_in(lane, rows, column, equations):
    """The parameters of one lane, as `slope` takes them."""
    if PROGRAM:
        return Given(equations, column)
    else:
        return tuple(rows[i, lane] for i in range(PARAMETERS))


def slope(t, y, yd, p):
    """Derivative of every variable."""
    if PROGRAM:
        return _run(t, y, yd, p)
    else:
        f = rhs(t, y, yd, p) if len(PLACES) > 0 else rhs(t, y, p)
        return tuple(real(f[i]) for i in range(VARIABLES))


def _run(t, y, yd, p):
    registers, parameters = p.equations.registers, p.equations.parameters
    registers[0] = t
    for i in unroll(range(VARIABLES)):
        registers[1 + i] = y[i]
    for d in unroll(range(len(PLACES))):
        registers[1 + VARIABLES + d] = yd[d]
    for i in range(parameters.shape[0]):
        registers[1 + VARIABLES + len(PLACES) + i] = parameters[i, p.column]
    run(p.equations.steps, registers)
    return tuple(registers[p.equations.outputs[i]] for i in range(VARIABLES))


def delayed(t, y, history, p):
    """Delayed values at a time and state of the present step.

    `history` has, for each delay, the time when the polynomial that it reads begins to be read, one
    over how long, and the coefficients in the fraction of that (see `cells`).
    """
    if LOOKS_UP:
        return looked_up(t, y, history, p)
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
