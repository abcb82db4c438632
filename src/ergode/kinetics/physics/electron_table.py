"""The free energy of electrons and positrons from a table, with derivatives that fit each other.

With the amount x = ln(rho Ye) and the temperature y = ln T, the free energy of a mole of electrons
is R T phi(x, y), and

    phi = cold(x) / theta + pairs(n0(y) / n(x)) + remainder(x, y).

The first term is Chandrasekhar's cold gas, the second that of pairs in a classical gas of the
equilibrium density n0 = K_2(1 / theta) theta: both are formulas, and have what varies fastest. The
remainder is a quintic spline on a uniform grid in x and y. Energy, pressure, entropy and their
derivatives are derivatives of this one function, so the Maxwell relations hold to rounding. A
spline has one number at each node; biquintic Hermite interpolation of the same order has nine.

The table is computed once for a machine, from the integrals of `fermi_gas`, in a few seconds, and
kept with the compiled kernels.

F. X. Timmes, F. D. Swesty: ApJS 126, 501 (2000); C. de Boor: A Practical Guide to Splines (1978).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ergode.core.compiler import kernel_cache
from ergode.core.math.elementary import exp, log
from ergode.models.constants import AVOGADRO, COMPTON, ELECTRON_REST, GAS_CONSTANT

NO_TABLE = np.zeros((1, 1))
"""In place of the table where no kernel reads it."""

DENSITIES = 1e-10, 1e11
"""Amounts of electrons of the table [mol/cm3]; smaller ones are taken as the least."""
TEMPERATURES = 1e4, 1e11
"""Temperatures of the table [K]."""

_BASE = "ergode_electrons_2"  # a new number where the numbers of the table change
_STEP_X, _STEP_Y = math.log(10.0) / 25.0, math.log(10.0) / 40.0
_MARGIN = 6  # nodes beyond the ends
_FIRST_X = math.log(DENSITIES[0])
_FIRST_Y = math.log(TEMPERATURES[0]) - _MARGIN * _STEP_Y
_COUNT_X = round((math.log(DENSITIES[1]) - _FIRST_X) / _STEP_X) + 1 + _MARGIN
_COUNT_Y = round(math.log(TEMPERATURES[1] / TEMPERATURES[0]) / _STEP_Y) + 1 + 2 * _MARGIN

REST = ELECTRON_REST * AVOGADRO
"""Rest energy of electrons [erg/mol]."""
_UNIT = 1.0 / (3.0 * math.pi**2 * COMPTON**3 * AVOGADRO)  # of density, at momentum m c [mol/cm3]


@lru_cache(maxsize=1)
def electron_table() -> np.ndarray:
    """Coefficients of the splines, shape [x count + 7, y count + 4]; read-only.

    The last three rows have those of the logarithm of the scaled classical density, and of both
    numbers of `pair_response`.
    """
    table = kernel_cache.array_of(_BASE, (_COUNT_X + 7, _COUNT_Y + 4), _computed)
    table.setflags(write=False)
    return table


def _computed() -> np.ndarray:
    from ergode.kinetics.physics import fermi_gas

    x = _FIRST_X + _STEP_X * np.arange(_COUNT_X)
    y = _FIRST_Y + _STEP_Y * np.arange(_COUNT_Y)
    theta, density = np.exp(y) * GAS_CONSTANT / REST, np.exp(x) / _UNIT
    scaled = fermi_gas.log_scaled_density(theta)
    phi = fermi_gas.thermal_free_energy(theta, density[:, None]) / theta
    ratio = 2.0 * np.exp(scaled - 1.0 / theta) / density[:, None]
    root = np.sqrt(1.0 + ratio**2)
    more = ratio**2 / (1.0 + root)
    rest = phi - (np.log1p(0.5 * more) - more)
    own = scaled + math.log(_UNIT), *fermi_gas.pair_response(theta)
    rows = np.concatenate([_spline(_spline(rest).T).T, *(_spline(one)[None] for one in own)])
    return np.ascontiguousarray(rows)


def _spline(values: np.ndarray) -> np.ndarray:
    """Coefficients of a quintic spline through values on a uniform grid, along the first axis.

    At both ends the fifth derivative is continuous at the two knots beside the end.
    """
    from scipy.linalg import solve_banded

    count = len(values)
    matrix = np.zeros((13, count + 4))  # of 6 diagonals on each side
    sixth = np.array([1.0, -6.0, 15.0, -20.0, 15.0, -6.0, 1.0])
    for row, first in ((0, 0), (1, 1), (count + 2, count - 4), (count + 3, count - 3)):
        for k, weight in enumerate(sixth):
            matrix[6 + row - first - k, first + k] = weight
    for k, weight in enumerate((1.0, 26.0, 66.0, 26.0, 1.0)):
        # Row i + 2 has the node i and begins with the coefficient i.
        matrix[6 + 2 - k, k : k + count] = weight / 120.0
    right = np.zeros((count + 4, *values.shape[1:]))
    right[2:-2] = values
    return np.asarray(solve_banded((6, 6), matrix, right))


# --- device functions -----------------------------------------------------------------------------

NOT_A_NUMBER = float("nan")
_ROWS, _COLUMNS = _COUNT_X - 1, _COUNT_Y - 1
_SCALED_ROW, _RESPONSE_ROW = _COUNT_X + 4, _COUNT_X + 5
_LEAST = _FIRST_X
_RATIO = REST / GAS_CONSTANT
_LOG_TWO = math.log(2.0)
_SOME_PAIRS, _MANY_PAIRS = 20.0, 1e5  # over the excess of electrons


def weights(t):
    """Values of the six splines of an interval at the fraction t of it."""
    u = 1.0 - t
    s, v = t * t, u * u
    return (
        v * v * u / 120.0,
        (26.0 + t * (-50.0 + t * (20.0 + t * (20.0 + t * (-20.0 + 5.0 * t))))) / 120.0,
        (66.0 + s * (-60.0 + s * (30.0 - 10.0 * t))) / 120.0,
        (66.0 + v * (-60.0 + v * (30.0 - 10.0 * u))) / 120.0,
        (1.0 + t * (5.0 + t * (10.0 + t * (10.0 + t * (5.0 - 5.0 * t))))) / 120.0,
        s * s * t / 120.0,
    )


def first_weights(t):
    """Derivatives of `weights`."""
    u = 1.0 - t
    s, v = t * t, u * u
    return (
        -v * v / 24.0,
        (-10.0 + t * (8.0 + t * (12.0 + t * (-16.0 + 5.0 * t)))) / 24.0,
        t * (-24.0 + s * (24.0 - 10.0 * t)) / 24.0,
        -u * (-24.0 + v * (24.0 - 10.0 * u)) / 24.0,
        (1.0 + t * (4.0 + t * (6.0 + t * (4.0 - 5.0 * t)))) / 24.0,
        s * s / 24.0,
    )


def second_weights(t):
    """Second derivatives of `weights`."""
    u = 1.0 - t
    s, v = t * t, u * u
    return (
        v * u / 6.0,
        (2.0 + t * (6.0 + t * (-12.0 + 5.0 * t))) / 6.0,
        (-6.0 + s * (18.0 - 10.0 * t)) / 6.0,
        (-6.0 + v * (18.0 - 10.0 * u)) / 6.0,
        (1.0 + t * (3.0 + t * (3.0 - 5.0 * t))) / 6.0,
        s * t / 6.0,
    )


def row_sum(table, i, j, w):
    """Sum over six coefficients of a row."""
    return (
        (w[0] * table[i, j] + w[1] * table[i, j + 1])
        + (w[2] * table[i, j + 2] + w[3] * table[i, j + 3])
        + (w[4] * table[i, j + 4] + w[5] * table[i, j + 5])
    )


def row_sums(table, i, j, w):
    """Sums over six coefficients of six rows."""
    return (
        row_sum(table, i, j, w), row_sum(table, i + 1, j, w), row_sum(table, i + 2, j, w),
        row_sum(table, i + 3, j, w), row_sum(table, i + 4, j, w), row_sum(table, i + 5, j, w),
    )  # fmt: skip


def dot_six(a, b):
    """Sum of six products."""
    return (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3]) + (a[4] * b[4] + a[5] * b[5])


def cold_gas(x):
    """Mean kinetic energy of a cold gas over the rest energy, and two derivatives by x."""
    p = exp((x - math.log(_UNIT)) / 3.0)
    square = p * p
    root = math.sqrt(1.0 + square)
    fermi = square / (1.0 + root)
    if p < 0.2:
        s = square
        mean = s * (
            3.0 / 10.0 - s * (3.0 / 56.0 - s * (1.0 / 48.0 - s * (15.0 / 1408.0 - s * (
                21.0 / 3328.0 - s * (21.0 / 5120.0 - s * (99.0 / 34816.0 - s * (
                    1287.0 / 622592.0 - s * (715.0 / 458752.0)))))))))  # fmt: skip
    else:
        mean = p * (1.0 + 2.0 * square) * root - log(p + root)
        mean = 0.375 * mean / (square * p) - 1.0
    slope = fermi - mean
    return mean, slope, square / (3.0 * root) - slope


def electron_gas(table, temperature, per_volume):
    """Derivatives of phi at an amount of electrons in excess of positrons [mol/cm3].

    Returns
    -------
    tuple
        By x, by y, by x and y; entropy and heat capacity [R], and the derivative of the pressure by
        the temperature [R n], in which the cold gas cancels; the derivative of the pressure by n
        [R T], and of the energy by the amount of electrons [R T]. NaN beyond the table.
    """
    x = log(max(per_volume, 1e-300))
    x = max(x, _LEAST)
    across, along = (x - _FIRST_X) / _STEP_X, (log(temperature) - _FIRST_Y) / _STEP_Y
    if not (per_volume >= 0.0 and across <= _ROWS and along >= 0.0 and along <= _COLUMNS):
        bad = NOT_A_NUMBER
        return bad, bad, bad, bad, bad, bad, bad, bad
    i = min(np.int64(across), np.int64(_ROWS - 1))
    j = min(np.int64(along), np.int64(_COLUMNS - 1))
    t = along - j
    wide, wide_first = weights(t), first_weights(t)
    wide_second = second_weights(t)
    level = row_sums(table, i, j, wide)
    rise = row_sums(table, i, j, wide_first)
    bend = row_sums(table, i, j, wide_second)
    scaled_first = row_sum(table, _SCALED_ROW, j, wide_first) / _STEP_Y
    scaled_second = row_sum(table, _SCALED_ROW, j, wide_second) / (_STEP_Y * _STEP_Y)
    scaled = row_sum(table, _SCALED_ROW, j, wide)
    t = across - i
    deep, deep_first = weights(t), first_weights(t)
    value, by_y = dot_six(deep, level), dot_six(deep, rise) / _STEP_Y
    by_yy = dot_six(deep, bend) / (_STEP_Y * _STEP_Y)
    by_x = dot_six(deep_first, level) / _STEP_X
    by_xy = dot_six(deep_first, rise) / (_STEP_X * _STEP_Y)
    by_xx = dot_six(second_weights(t), level) / (_STEP_X * _STEP_X)

    inverse = _RATIO / temperature
    # Pairs: q = 2 n0 / n, phi = ln((1 + r) / 2) + 1 - r with r = sqrt(1 + q^2).
    q = exp(_LOG_TWO + scaled - inverse - x)
    r = math.sqrt(1.0 + q * q)
    m = q * (q / (1.0 + r))
    d = q * (q / r)
    rate, rate_second = inverse + scaled_first, scaled_second - inverse
    pairs = log(1.0 + 0.5 * m) if m > 1e-4 else 0.5 * m * (1.0 - 0.25 * m * (1.0 - m / 3.0))
    value += pairs - m
    by_x += m
    by_y -= m * rate
    by_xx -= d
    by_xy += d * rate
    by_yy -= d * rate * rate + m * rate_second

    mean, mean_x, mean_xx = cold_gas(x)
    stiffness = by_x + by_xx + (mean_x + mean_xx) * inverse
    addition = (mean + mean_x) * inverse - by_y - by_xy
    # These would be differences of numbers as large as q.
    if q > _SOME_PAIRS:
        bent = row_sum(table, _RESPONSE_ROW + 1, j, wide)
        stiffness = q * exp(row_sum(table, _RESPONSE_ROW, j, wide))
        stiffness = 1.0 / math.sqrt(stiffness * stiffness + bent)
    if q > _MANY_PAIRS:
        addition = -inverse  # another electron replaces a positron
    return (
        by_x + mean_x * inverse,
        by_y - mean * inverse,
        by_xy - mean_x * inverse,
        -value - by_y,
        -by_y - by_yy,
        by_x + by_xy,
        stiffness,
        addition,
    )
