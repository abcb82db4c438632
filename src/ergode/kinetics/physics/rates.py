"""Coefficients of all reactions at a temperature and density, from flat tables of their laws.

Every law is a sum of the seven-parameter exponentials of REACLIB,

    k = exp(a_0 + a_1 / T9 + a_2 / T9^(1/3) + a_3 T9^(1/3) + a_4 T9 + a_5 T9^(5/3) + a_6 ln T9),

which includes constants and Arrhenius laws (a_0, a_1, a_6). Third bodies (`third_bodies`),
screening and weak rates (`screening`) and detailed balance follow: k_reverse = k_forward / K_c with
ln K_c = sum of nu_i ln q_i, where q_i is the partition function per volume of a species [mol/cm3],
from NASA polynomials or from a nucleus' mass and spin.

In mass action on specific amounts Y [mol/g] a reaction of n reactants has the coefficient
k rho^(n - 1). A collision partner has the concentration rho Y [mol/cm3].

R. H. Cyburt et al.: The JINA REACLIB database. Astrophys. J. Suppl. 189, 240 (2010), eq. (1).
T. Rauscher, F.-K. Thielemann: At. Data Nucl. Data Tables 75, 1 (2000), section 2 (reverse rates).
"""

from __future__ import annotations

from ergode.core.group import share
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.kernel_options import MOLECULES, POWERS, SWEPT
from ergode.models.constants import GAS_CONSTANT, STANDARD_ATMOSPHERE

# --- device functions -----------------------------------------------------------------------------


def base_coefficients(rates, factors, temperature, density, slots, group):
    """Fill `slots` with sums of exponentials, times the power of density of mass action.

    In a sweep of parameters, `factors` are the prefactors of the exponentials.
    """
    t9 = temperature * 1e-9
    logarithm = log(t9)
    third = exp(logarithm / 3.0)
    inverse, cube, fifth = 1.0 / t9, 1.0 / third, t9 * third * third
    a = rates.parameters
    for slot in share(group, 0, slots.size):
        total = 0.0
        for count in range(rates.slot_start[slot], rates.slot_start[slot + 1]):
            s = count & NONNEGATIVE
            x = a[0, s] + a[1, s] * inverse + a[2, s] * cube + a[3, s] * third
            x = x + a[4, s] * t9 + a[5, s] * fifth + a[6, s] * logarithm
            factor = factors[s] if SWEPT else rates.prefactor[s]
            total += factor * exp(x)
        # Slots beyond the reactions have limits of falloff, without a power of density.
        if slot < rates.order.size:
            total *= density_power(rates, slot, density)
        slots[slot] = total


def density_power(rates, r, density):
    """The density to the power of the order of reaction r, less one."""
    if POWERS:
        return exp((rates.order[r] - 1.0) * log(density))
    power = 1.0
    for _ in range(1, rates.order[r]):
        power *= density
    return power


def add_sunlight(rates, sunlight, slots, group):
    """Multiply coefficients by powers of the sunlight."""
    for count in share(group, 0, rates.sunlit.size):
        power = rates.sunlit_power[count]
        factor = sunlight
        if power != 1.0:
            factor = exp(power * log(sunlight)) if sunlight > 0.0 else 0.0
        slots[rates.sunlit[count]] *= factor


def range_at(a, i, temperature):
    """Row of the first coefficient of molecule i at a temperature; the last range is unlimited."""
    row = 0
    while temperature > a[row, i]:
        row += 10
    return row + 1


def reduced_enthalpy(a, o, i, t, inverse, logarithm):
    """Enthalpy of molecule i over R T, from the nine coefficients from row o on."""
    return (
        a[o + 2, i]
        + t
        * (
            a[o + 3, i] / 2.0
            + t * (a[o + 4, i] / 3.0 + t * (a[o + 5, i] / 4.0 + t * a[o + 6, i] / 5.0))
        )
        + (a[o + 7, i] + a[o + 1, i] * logarithm - a[o, i] * inverse) * inverse
    )


def log_volumes(thermo, temperature, found, group):
    """Logarithm of the partition function per volume of every species [ln(mol/cm3)]."""
    logarithm = log(temperature)
    if MOLECULES:
        a = thermo.polynomials
        unit = log(STANDARD_ATMOSPHERE / (GAS_CONSTANT * temperature))  # that of NASA polynomials
        t, inverse = temperature, 1.0 / temperature
        for i in share(group, 0, found.size):
            o = range_at(a, i, t)
            enthalpy = reduced_enthalpy(a, o, i, t, inverse, logarithm)
            entropy = (
                a[o + 2, i] * logarithm
                + t
                * (
                    a[o + 3, i]
                    + t * (a[o + 4, i] / 2.0 + t * (a[o + 5, i] / 3.0 + t * a[o + 6, i] / 4.0))
                )
                + a[o + 8, i]
                - (a[o + 1, i] + 0.5 * a[o, i] * inverse) * inverse
            )
            found[i] = entropy - enthalpy + unit
    else:
        grid = thermo.grid
        below = 0
        while below < grid.size - 2 and grid[below + 1] < temperature:
            below += 1
        part = (temperature - grid[below]) / (grid[below + 1] - grid[below])
        part = min(max(part, 0.0), 1.0)
        for i in share(group, 0, found.size):
            excited = (1.0 - part) * thermo.partition[below, i]
            excited += part * thermo.partition[below + 1, i]
            found[i] = thermo.translation[i] + 1.5 * logarithm + excited
            found[i] -= thermo.mass_excess[i] / (GAS_CONSTANT * temperature)


def detailed_balance(rates, density, volumes, slots, group):
    """Compute the coefficients of reverse reactions by detailed balance."""
    for q in share(group, 0, rates.reverse.size):
        exponent, change = 0.0, 0.0
        for count in range(rates.reverse_start[q], rates.reverse_start[q + 1]):
            k = count & NONNEGATIVE
            exponent -= rates.reverse_change[k] * volumes[rates.reverse_species[k]]
            change += rates.reverse_change[k]
        r, forward = rates.reverse[q], rates.forward[q]
        # With specific amounts, the powers of density of both directions differ.
        slots[r] = slots[forward] * exp(exponent + change * log(density))


def energy_of(thermo, t, inverse, logarithm, i):
    """Internal energy of a molecule [erg/mol] at a temperature, its inverse and its logarithm."""
    a = thermo.polynomials
    enthalpy = reduced_enthalpy(a, range_at(a, i, t), i, t, inverse, logarithm)
    return (enthalpy - 1.0) * GAS_CONSTANT * t


def jump_of(thermo, start, temperature, i):
    """By how much the energy of a molecule jumps where ranges meet between two temperatures.

    [erg/mol]; on the way from `start`.
    """
    a = thermo.polynomials
    o, last, sign = range_at(a, i, start), range_at(a, i, temperature), GAS_CONSTANT
    if o > last:
        o, last, sign = last, o, -GAS_CONSTANT
    total = 0.0
    while o < last:
        t = a[o - 1, i]
        inverse, logarithm = 1.0 / t, log(t)
        above = reduced_enthalpy(a, o + 10, i, t, inverse, logarithm)
        total += (above - reduced_enthalpy(a, o, i, t, inverse, logarithm)) * t
        o += 10
    return sign * total


def heat_capacity(thermo, temperature, i):
    """Heat capacity of a molecule at constant volume [erg/(mol K)]."""
    a = thermo.polynomials
    t, inverse = temperature, 1.0 / temperature
    o = range_at(a, i, t)
    capacity = a[o + 3, i] + t * (a[o + 4, i] + t * (a[o + 5, i] + t * a[o + 6, i]))
    capacity = (a[o, i] * inverse + a[o + 1, i]) * inverse + a[o + 2, i] + t * capacity
    return (capacity - 1.0) * GAS_CONSTANT
