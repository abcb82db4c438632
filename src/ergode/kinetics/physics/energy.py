"""Energy balance of self-heating zones: internal energy gained versus energy released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergode.models.constants import GAS_CONSTANT
from ergode.models.reactions.thermochemistry import Molecule

# The error is relative to the energy released, or to this share of the thermal energy if larger.
_LEAST_RELEASED = 1e-3
_TOGETHER = 1 << 20
"""Energies that are in memory at a time."""


def relative_error(gained: np.ndarray, released: np.ndarray, thermal: np.ndarray) -> np.ndarray:
    """Largest difference of energy gained and released, over the largest energy released."""
    off = np.nanmax(np.abs(gained - released), axis=1)
    most = np.nanmax(np.abs(released), axis=1)
    return np.asarray(off / np.maximum(most, _LEAST_RELEASED * thermal))


def nuclear_energy_error(thermal: np.ndarray, released: np.ndarray) -> np.ndarray:
    """Of nuclei, shape [zone_count].

    Parameters
    ----------
    thermal, released : ndarray, shape [zone_count, time_count]
        Internal energy without rest masses, or the enthalpy at constant pressure, and energy
        released [erg/g].
    """
    return relative_error(thermal - thermal[:, :1], released, thermal[:, 0])


def molecular_energy_error(
    polynomials: np.ndarray, amounts: np.ndarray, temperature: np.ndarray, at_pressure: bool
) -> np.ndarray:
    """Of molecules at constant volume or, by enthalpy, at constant pressure, shape [zone_count].

    Parameters
    ----------
    polynomials : ndarray
        Of `polynomials_of`.
    amounts : ndarray, shape [zone_count, time_count, species_count]
        Amounts of a constant mass: concentrations at constant volume [mol/cm3], else [mol].
    temperature : ndarray, shape [zone_count, time_count]
    """
    zones, times, count = amounts.shape
    released, gained = np.zeros((zones, times)), np.zeros((zones, times))
    work = 0.0 if at_pressure else GAS_CONSTANT
    step = max(1, _TOGETHER // max(times * count, 1))
    for first in range(0, zones, step):
        part = slice(first, first + step)
        some, hot = amounts[part], temperature[part]
        energies = enthalpies(polynomials, hot) - work * hot[:, :, None]
        cold = energies[:, :1]
        released[part] = ((some[:, :1] - some) * cold).sum(axis=2)
        gained[part] = (some * (energies - cold)).sum(axis=2)
    thermal = GAS_CONSTANT * temperature[:, 0] * amounts[:, 0].sum(axis=1)
    return relative_error(gained, released, thermal)


def polynomials_of(known: Sequence[Any]) -> np.ndarray:
    """Polynomials of molecules, shape [10 range_count, count]; zeros of what is no molecule.

    Of every range its end, which is infinite at last, and nine coefficients.
    """
    most = max((len(one.ranges) for one in known if isinstance(one, Molecule)), default=1)
    found = np.zeros((10 * most, len(known)))
    for i, one in enumerate(known):
        if isinstance(one, Molecule):
            rows = [number for end, row in one.ranges for number in (end, *row)]
            found[: len(rows), i] = rows
    return found


def enthalpies(polynomials: np.ndarray, temperature: np.ndarray) -> np.ndarray:
    """Molar enthalpies of molecules with those of formation [erg/mol], shape [..., count].

    `polynomials` are of `polynomials_of`, `temperature` has the shape [...].
    """
    t = np.asarray(temperature, np.float64)[..., None]
    powers = [-1.0 / t**2, np.log(t) / t, *(t**k / (k + 1) for k in range(5)), 1.0 / t]
    found, above = np.zeros(np.broadcast_shapes(t.shape, polynomials[0].shape)), True
    for first in range(0, len(polynomials), 10):
        # No product of matrices, whose bits depend on the number of temperatures.
        rows = polynomials[first + 1 : first + 9]
        own = sum(power * row for power, row in zip(powers, rows, strict=True))
        found = np.where(above, own, found)
        above = above & (t > polynomials[first])  # not NaN, of failed zones
    return np.asarray(GAS_CONSTANT * t * found)
