"""Compile-time options of kernels: kind of network, conditions and method."""

from __future__ import annotations

from ergode.core.compiler.language import option
from ergode.kinetics.tables import CLOSED, FIXED, NO_WALL, STILL

THIRD_BODIES = option(False)
"""Whether some coefficients depend on collision partners, pressure or enthalpy of reaction."""
MIXTURES = option(False)
"""Whether some coefficients follow the mixture rule of Burke and Song."""
PLASMA = option(False)
"""Whether coefficients depend on electrons: screening, weak rates."""
REVERSIBLE = option(False)
"""Whether reactions follow from detailed balance."""
MOLECULES = option(True)
"""Whether species are molecules with NASA polynomials; otherwise nuclei."""
POWERS = option(False)
"""Whether some reaction has orders that are not three whole numbers at most."""
SUNLIT = option(False)
"""Whether coefficients depend on the sunlight."""
COMPOSED = option(False)
"""Whether some coefficients have tables of temperature, or intermediate nuclei."""
FORMULAS = option(False)
"""Whether some coefficients are formulas."""
DYNAMIC = option(False)
"""Whether coefficients change while a zone is integrated."""
TIMED = option(False)
"""Whether temperature or density are given over time."""
SWEPT = option(False)
"""Whether each zone has its own prefactors of the coefficients."""
OWN_TOLERANCES = option(False)
"""Whether each zone has its own tolerances."""
HEATING = option(FIXED)
"""Whether the temperature is a variable: `FIXED`, `VOLUME` or `PRESSURE`."""
FED = option(False)
"""Whether the inflow of a stirred tank changes in time."""
FLOW = option(CLOSED)
"""What flows in and out: `CLOSED`, `STIRRED` or `PLUG`."""
SELF_HEATING = option(False)
"""Whether the temperature follows from the energy, which no reaction changes."""
COMPRESSED = option(False)
"""Whether the volume or the pressure of zones that heat themselves changes by itself."""
MOVING = option(STILL)
"""Whether the volume follows from the pressure: `STILL`, `MOBILE` or `INERT`."""
WALLED = option(NO_WALL)
"""Whether heat passes through a wall: `NO_WALL`, `STEADY` or `CHANGING`."""
EXCHANGES = option(False)
"""Whether work or heat from outside changes the energy of molecules, for `bdf`."""
NEUTRINOS = option(False)
"""Whether neutrinos cool nuclei that heat themselves."""
