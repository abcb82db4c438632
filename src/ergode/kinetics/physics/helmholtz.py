"""Matter of fully ionised nuclei, electrons with positrons, and radiation, from one free energy.

The specific Helmholtz free energy F(T, rho) is the sum of an ideal gas of nuclei, of electrons and
positrons (`electron_table`), of radiation and of Coulomb corrections. Then

    P = rho^2 dF/drho,    s = -dF/dT,    u = F + T s,

and every other quantity is a second derivative.

Nuclei enter by their mean charge and mean mass number. The corrections are those of a one-component
plasma of ions in a uniform background, with the coupling Gamma = Z^2 e^2 / (a k T) and the radius
a = (3 / (4 pi n))^(1/3) of a sphere for each ion. Both formulas for them, weak coupling and strong
coupling, meet at Gamma = 1: energies and pressures within 1e-5 of k T an ion, entropies within
0.008 k an ion.

F. X. Timmes, D. Arnett: ApJS 125, 277 (1999);
D. G. Yakovlev, D. A. Shalybkov: Sov. Sci. Rev. E 7, 311 (1989).
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import noinline_cpu
from ergode.core.math.elementary import exp, log
from ergode.kinetics.physics.electron_table import DENSITIES, electron_gas
from ergode.models.constants import (
    AVOGADRO,
    BOLTZMANN,
    DALTON,
    ELEMENTARY_CHARGE,
    GAS_CONSTANT,
    PLANCK,
    RADIATION,
)

_COUPLING = ELEMENTARY_CHARGE**2 * (4.0 * math.pi * AVOGADRO / 3.0) ** (1.0 / 3.0) / BOLTZMANN
_VOLUME = (PLANCK**2 / (2.0 * math.pi * DALTON * BOLTZMANN)) ** 1.5 * AVOGADRO
"""Cube of the thermal wavelength of a mass of 1 Da at 1 K [cm3/mol]."""

_LEAST = DENSITIES[0]

# --- device functions -----------------------------------------------------------------------------


def coulomb(gamma):
    """Free energy and energy over k T an ion, and the derivative of the energy by ln Gamma."""
    if not gamma > 1e-30:
        return 0.0, 0.0, 0.0
    logarithm = log(gamma)
    if gamma < 1.0:
        half, power = gamma * math.sqrt(gamma), exp(1.9885 * logarithm)
        free = -0.57735 * half + 0.29561 / 1.9885 * power
        return free, -0.866025 * half + 0.29561 * power, -1.2990375 * half + 0.587820485 * power
    quarter = math.sqrt(math.sqrt(gamma))
    free = -0.898004 * gamma + 3.87144 * quarter - 0.882812 / quarter - 0.86097 * logarithm - 2.5269
    energy = -0.898004 * gamma + 0.96786 * quarter + 0.220703 / quarter - 0.86097
    slope = -0.898004 * gamma + 0.241965 * quarter - 0.05517575 / quarter
    return free, energy, slope


def coupling(temperature, density, nuclei, electrons):
    """Gamma of ions of the mean charge."""
    if not nuclei > 0.0:
        return 0.0
    charge = electrons / nuclei
    return _COUPLING * charge * charge * exp(log(density * nuclei) / 3.0) / temperature


@noinline_cpu
def helmholtz(table, temperature, density, nuclei, electrons, interacts):
    """Thermodynamic functions of matter; `interacts` is 1 with Coulomb corrections, or 0.

    Returns
    -------
    tuple
        Pressure [dyn/cm2], energy [erg/g] and entropy [erg/(g K)]; the derivatives of the energy by
        temperature, density, and the amounts of nuclei and of electrons, and those of the pressure
        in the same order.
    """
    t, n, e = temperature, nuclei, max(electrons, 0.0)
    heat = GAS_CONSTANT * t
    free, coupled, slope = coulomb(interacts * coupling(t, density, n, e))
    by_charge = 2.0 * n / e * slope if e > 0.0 else 0.0
    e = max(e, _LEAST / density)  # where the table begins
    by_x, by_y, by_xy, own_entropy, own_capacity, push, stiffness, addition = electron_gas(
        table, t, density * e
    )
    cube = RADIATION * t * t * t
    light = cube * t
    pressure = density * heat * (n + e * by_x + n * coupled / 3.0) + light / 3.0
    energy = heat * (1.5 * n - e * by_y + n * coupled) + light / density
    entropy = GAS_CONSTANT * (n * (coupled - free) + e * own_entropy) + 4.0 / 3.0 * cube / density
    if n > 0.0:
        # Of the mass 1 / n, without spins.
        volume = density * n * _VOLUME * (n / t) ** 1.5
        entropy += GAS_CONSTANT * n * (2.5 - log(volume))
    capacity = GAS_CONSTANT * (1.5 * n + e * own_capacity + n * (coupled - slope))
    by_density = (-heat * e * by_xy + heat * n * slope / 3.0 - light / density) / density
    by_nuclei = heat * (1.5 + coupled - 5.0 / 3.0 * slope)
    by_electrons = heat * (addition + by_charge)
    pressure_hot = (
        density * GAS_CONSTANT * (n + e * push + n * (coupled - slope) / 3.0) + 4.0 / 3.0 * cube
    )
    pressure_dense = heat * (n + e * stiffness + n * (coupled + slope / 3.0) / 3.0)
    pressure_nuclei = density * heat * (1.0 + coupled / 3.0 - 5.0 / 9.0 * slope)
    pressure_electrons = density * heat * (stiffness + by_charge / 3.0)
    return (
        pressure, energy, entropy, capacity + 4.0 * cube / density, by_density, by_nuclei,
        by_electrons, pressure_hot, pressure_dense, pressure_nuclei, pressure_electrons,
    )  # fmt: skip
