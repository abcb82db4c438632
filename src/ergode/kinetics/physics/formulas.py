"""Coefficients that are formulas: programs of a stack machine, and their derivatives.

A program runs once for each sum of species that it reads. Beside every value it carries the
derivative with respect to the concentration of that sum (forward differentiation).

A. Griewank, A. Walther: Evaluating Derivatives, 2nd ed. (2008), chapter 3.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import noinline, noinline_cpu
from ergode.core.group import share
from ergode.core.math.operations import of_one, of_two
from ergode.kinetics.condition_history import history_at
from ergode.kinetics.kernel_options import FORMULAS
from ergode.kinetics.physics.rates import density_power
from ergode.kinetics.tables import DENSITY, FIRST_OF_PARAMETERS, SUNLIGHT, TEMPERATURE, TIME

INFINITY = float("inf")
# The numbers of `Operation`.
_CONSTANT, _VARIABLE, _SUM, _TIME, _CHOOSE, _FIRST_OF_TWO = 0, 1, 2, 3, 4, 40
_NOTHING = -1
_TEN = 2.302585092994046


# --- device functions -----------------------------------------------------------------------------


def memory_count(rates):
    """Numbers that the formulas of a zone need (see `Rates.memory_count`)."""
    if not FORMULAS:
        return 0
    formulas = rates.formulas
    return formulas.input_count + 2 * formulas.reaction.size * formulas.depth


def put_inputs(rates, history, sunlight, below, last, since, memory, group):
    """Put what formulas read besides amounts, temperature and density into `memory`."""
    formulas, times = rates.formulas, history.times
    driven, width = formulas.driven_count, times.size + 1
    if group.rank == 0:
        memory[TIME] = times[below] + since
        memory[SUNLIGHT] = sunlight
    for j in share(group, 0, driven):
        own = history.drives[j * width : (j + 1) * width]
        memory[FIRST_OF_PARAMETERS + j] = history_at(times, own, below, last, since)
    behind = FIRST_OF_PARAMETERS + driven
    for j in share(group, 0, formulas.input_count - behind):
        memory[behind + j] = history.parameters[j]


def formula_coefficients(rates, temperature, density, partners, memory, slots, slopes, group):
    """Compute the coefficients that are formulas, and their derivatives.

    `memory` has the inputs of formulas, and behind them a stack for each. The derivatives are with
    respect to the concentrations of sums, and behind all other `slopes`.
    """
    formulas = rates.formulas
    behind = slopes.size - formulas.sum.size
    for f in share(group, 0, formulas.reaction.size):
        r = formulas.reaction[f]
        power = density_power(rates, r, density)
        begin, end = formulas.sum_start[f], formulas.sum_start[f + 1]
        if begin == end:
            value, slope = _evaluate(formulas, f, temperature, density, partners, memory, _NOTHING)
            slots[r] = value * power
        for count in range(begin, end):
            value, slope = _evaluate(
                formulas, f, temperature, density, partners, memory, int(formulas.sum[count])
            )
            slots[r] = value * power
            slopes[behind + count] = slope * power


@noinline_cpu
def _evaluate(formulas, f, temperature, density, partners, memory, seed):
    """Value of formula f, and its derivative with respect to the sum `seed`."""
    base = formulas.input_count + 2 * f * formulas.depth
    other = base + formulas.depth
    top = -1
    for i in range(formulas.start[f], formulas.start[f + 1]):
        operation, argument = formulas.operation[i], formulas.argument[i]
        slope = 0.0
        if operation < _CHOOSE:
            top += 1
            if operation == _CONSTANT:
                value = formulas.constant[argument]
            elif operation == _SUM:
                value = partners[formulas.first_sum + argument]
                slope = 1.0 if argument == seed else 0.0
            elif operation == _TIME:
                value = memory[TIME]
            elif argument == TEMPERATURE:
                value = temperature
            elif argument == DENSITY:
                value = density
            else:
                value = memory[argument]
        elif operation >= _FIRST_OF_TWO:
            top -= 1
            a, b = memory[base + top], memory[base + top + 1]
            value = of_two(operation, a, b)
            slope = _slope_of_two(
                operation, a, b, memory[other + top], memory[other + top + 1], value
            )
        elif operation == _CHOOSE:
            top -= 2
            chosen = top + 1 if memory[base + top] != 0.0 else top + 2
            value, slope = memory[base + chosen], memory[other + chosen]
        else:
            a, da = memory[base + top], memory[other + top]
            value = of_one(operation, a)
            slope = _slope_of_one(operation, a, value) * da if da != 0.0 else 0.0
        memory[base + top] = value
        # Where a formula has no derivative, such as a root at zero, the step does without.
        memory[other + top] = slope if abs(slope) < INFINITY else 0.0
    return memory[base], memory[other]


@noinline
def _slope_of_one(operation, a, value):
    """Derivative of an operation on one number, whose value is given."""
    if operation == 10:
        return -1.0
    if operation == 12:
        return 1.0 if a >= 0.0 else -1.0
    if operation == 13:
        return value
    if operation == 14:
        return 1.0 / a
    if operation == 15:
        return 1.0 / (a * _TEN)
    if operation == 16:
        return 0.5 / value
    if operation == 19:
        return math.cos(a)
    if operation == 20:
        return -math.sin(a)
    if operation == 21:
        return 1.0 + value * value
    if operation == 22:
        return 1.0 / math.sqrt(1.0 - a * a)
    if operation == 23:
        return -1.0 / math.sqrt(1.0 - a * a)
    if operation == 24:
        return 1.0 / (1.0 + a * a)
    if operation == 25:
        return math.cosh(a)
    if operation == 26:
        return math.sinh(a)
    if operation == 27:
        return 1.0 - value * value
    return 0.0


@noinline
def _slope_of_two(operation, a, b, da, db, value):
    """Derivative of an operation on two numbers with these derivatives."""
    if da == 0.0 and db == 0.0:
        return 0.0
    if operation == 40:
        return da + db
    if operation == 41:
        return da - db
    if operation == 42:
        return a * db + b * da
    if operation == 43:
        return (da - value * db) / b
    if operation == 44:
        slope = 0.0
        if da != 0.0:
            slope = b * math.pow(a, b - 1.0) * da
        if db != 0.0 and value != 0.0:
            slope += value * math.log(a) * db
        return slope
    if operation == 53:
        return da if a <= b else db
    if operation == 54:
        return da if a >= b else db
    return 0.0
