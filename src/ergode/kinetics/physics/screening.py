"""Effects of electrons on reactions between nuclei: screening, and tabulated weak rates.

Electrons and other nuclei shield the charges of two reacting nuclei. This multiplies their rate by
exp(H). ``"weak"`` is Debye-Hueckel shielding by all charges, with nondegenerate electrons,

    H = Z1 Z2 e^2 / (k T r_D),  r_D^2 = k T / (4 pi e^2 N_A rho sum of (Z_i^2 + Z_i) Y_i),

``"chugunov"`` is a fit to quantum calculations with a rigid background of electrons, from weak to
strong coupling: with Gamma_e = e^2 (4 pi n_e / 3)^(1/3) / (k T) and Gamma_12 of the pair,

    H = (C_12 + Gamma_12^2) / (1 + Gamma_12^2) (f(Gamma_1 / t) + f(Gamma_2 / t) - f(Gamma_c / t)),

where f is the free energy of an ion in a one-component plasma. For three nuclei, the factor of the
first two is multiplied by that of their product with the third. A reverse reaction by detailed
balance follows its screened forward reaction, so screening does not move the equilibrium.

Rates of electron captures and beta decays depend on temperature and on the electron density
rho Y_e. They are interpolated bilinearly in logarithms, and constant beyond the edge of the table.
Captures without a table, as REACLIB has them, are proportional to rho Y_e.

E. E. Salpeter: Aust. J. Phys. 7, 373 (1954);
A. I. Chugunov, H. E. DeWitt: Phys. Rev. C 80, 014611 (2009), eqs. (6)-(12), (23)-(25), (A3), (A4);
K. Langanke, G. Martinez-Pinedo: At. Data Nucl. Data Tables 79, 1 (2001) (tables).
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.models.constants import AVOGADRO, BOLTZMANN, DALTON, ELEMENTARY_CHARGE, REDUCED_PLANCK

NONE, WEAK, CHUGUNOV = 0, 1, 2
SCREENING = {None: NONE, "weak": WEAK, "chugunov": CHUGUNOV}


# --- device functions -----------------------------------------------------------------------------

_PI = math.pi
_LENGTH = ELEMENTARY_CHARGE * ELEMENTARY_CHARGE / BOLTZMANN  # cm K
# tau = _BARRIER (Z1^2 Z2^2 A_reduced / T)^(1/3)
_BARRIER = (13.5 * (math.pi * ELEMENTARY_CHARGE**2 / REDUCED_PLANCK) ** 2 * DALTON / BOLTZMANN) ** (
    1 / 3
)
LEAST = 1e-100
"""Of the sums of charges and of squared charges [mol/g]; pure neutrons have none."""


def charges(charge, amount, group):
    """Sums of charges and of squared charges over all nuclei; contains a barrier."""
    electrons, squares = 0.0, 0.0
    for i in no_unroll(share(group, 0, charge.size)):
        electrons += charge[i] * amount[i]
        squares += charge[i] * charge[i] * amount[i]
    return total_of(group, electrons, 0), total_of(group, squares, 1)


def plasma_coefficients(plasma, temperature, density, electrons, squares, slots, group):
    """Put tabulated coefficients into the slots, and multiply the others by screening."""
    electrons = max(electrons, LEAST)
    squares = max(squares, LEAST)
    for w in share(group, 0, plasma.weak_reaction.size):
        slots[plasma.weak_reaction[w]] = exp(
            _on_table(plasma, w, log(density * electrons), log(temperature))
        )
    if plasma.capture.size > 0:
        for w in share(group, 0, plasma.capture.size):
            slots[plasma.capture[w]] *= density * electrons
        barrier(group)  # captures by two nuclei are also screened
    if plasma.method == WEAK:
        strength = AVOGADRO * density * (squares + electrons)
        strength = (4.0 * _PI * strength * (_LENGTH / temperature) ** 3) ** 0.5
    else:
        third = exp(log(4.0 * _PI / 3.0 * AVOGADRO * density * electrons) / 3.0)
        strength = _LENGTH / temperature * third
    spread = (squares / electrons) ** 0.5
    for g in share(group, 0, plasma.group_start.size - 1):
        exponent = _encounter(plasma, g, 0, temperature, strength, spread)
        if plasma.pair[4, g] > 0.0:
            exponent += _encounter(plasma, g, 4, temperature, strength, spread)
        factor = exp(exponent)
        for count in range(plasma.group_start[g], plasma.group_start[g + 1]):
            slots[plasma.group_reaction[count & NONNEGATIVE]] *= factor


def _encounter(plasma, g, row, temperature, strength, spread):
    """H of two nuclei."""
    z1, a1 = plasma.pair[row, g], plasma.pair[row + 1, g]
    z2, a2 = plasma.pair[row + 2, g], plasma.pair[row + 3, g]
    if plasma.method == WEAK:
        return z1 * z2 * strength
    return max(_strong(z1, a1, z2, a2, temperature, strength, spread), 0.0)


def _strong(z1, a1, z2, a2, temperature, gamma, spread):
    """H of two nuclei in a plasma of coupling `gamma`, after Chugunov and DeWitt."""
    product, both = z1 * z2, z1 + z2
    third1, third2, third = exp(log(z1) / 3.0), exp(log(z2) / 3.0), exp(log(both) / 3.0)
    coupling = gamma * product * 2.0 / (third1 + third2)
    barrier = _BARRIER * exp(log(product * product * a1 * a2 / (a1 + a2) / temperature) / 3.0)
    zeta = 3.0 * coupling / barrier
    asymmetry = 4.0 * product / (both * both)
    ln = log(asymmetry)
    c1 = 0.013 * asymmetry * asymmetry
    c2 = 0.406 * exp(0.14 * ln)
    c3 = 0.062 * exp(0.19 * ln) + 1.8 / coupling
    t = exp(log(1.0 + zeta * (c1 + zeta * (c2 + zeta * c3))) / 3.0)
    fit = _free_energy(gamma * third1 * third1 * z1 / t)
    fit += _free_energy(gamma * third2 * third2 * z2 / t)
    fit -= _free_energy(gamma * third * third * both / t)
    weak = 3.0 * product * spread
    weak /= both * both * both**0.5 - z1 * z1 * z1**0.5 - z2 * z2 * z2**0.5
    square = coupling * coupling
    return (weak + square) / (1.0 + square) * fit


def _free_energy(gamma):
    """Excess free energy of an ion in a one-component plasma, over k T."""
    root = gamma**0.5
    x = gamma / 0.62954
    total = -0.907 * ((gamma * (0.62954 + gamma)) ** 0.5 - 0.62954 * log(x**0.5 + (1.0 + x) ** 0.5))
    total += 2.0 * _A3 * (root - math.atan(root))
    total += 0.00456 * (gamma - 211.6 * math.log1p(gamma / 211.6))
    return total - 0.5e-4 * math.log1p(gamma * gamma / 0.00462)


_A3 = -(3.0**0.5) / 2.0 + 0.907 / 0.62954**0.5


def _on_table(plasma, w, x, y):
    """Value of a table at logarithms of electron density and temperature."""
    rows, columns = int(plasma.weak_shape[0, w]), int(plasma.weak_shape[1, w])
    start = int(plasma.weak_start[w])
    i, u = _between(plasma.weak_number, start, rows, x)
    j, v = _between(plasma.weak_number, start + rows, columns, y)
    place = (start + rows + columns + i * columns + j) & NONNEGATIVE
    table = plasma.weak_number
    low = (1.0 - v) * table[place] + v * table[place + 1]
    high = (1.0 - v) * table[place + columns] + v * table[place + columns + 1]
    return (1.0 - u) * low + u * high


def _between(numbers, start, count, x):
    """Interval of an ascending axis, and the position of x in it, from 0 to 1."""
    below = 0
    while below < count - 2 and numbers[start + below + 1] < x:
        below += 1
    lower, upper = numbers[start + below], numbers[start + below + 1]
    return below, min(max((x - lower) / (upper - lower), 0.0), 1.0)
