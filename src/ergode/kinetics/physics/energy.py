"""Energy balance of self-heating zones: internal energy gained versus energy released."""

from __future__ import annotations

import numpy as np

from ergode.models.constants import GAS_CONSTANT
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.thermochemistry import Molecule

# The error is relative to the energy released, or to this share of the thermal energy if larger.
_LEAST_RELEASED = 1e-3


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
    network: ReactionNetwork, amounts: np.ndarray, temperature: np.ndarray, at_pressure: bool
) -> np.ndarray:
    """Of molecules at constant volume or, by enthalpy, at constant pressure, shape [zone_count].

    Parameters
    ----------
    amounts : ndarray, shape [zone_count, time_count, species_count]
        Amounts of a constant mass: concentrations at constant volume [mol/cm3], else [mol].
    temperature : ndarray, shape [zone_count, time_count]
    """
    zones, times, count = amounts.shape
    released, gained = np.zeros((zones, times)), np.zeros((zones, times))
    work = 0.0 if at_pressure else GAS_CONSTANT
    start = temperature[:, :1]
    for i in range(count):
        known = network.species[i].thermochemistry
        assert isinstance(known, Molecule)
        cold = enthalpy(known, start) - work * start
        released -= (amounts[:, :, i] - amounts[:, :1, i]) * cold
        warm = enthalpy(known, temperature) - work * temperature
        gained += amounts[:, :, i] * (warm - cold)
    thermal = GAS_CONSTANT * start[:, 0] * amounts[:, 0].sum(axis=1)
    return relative_error(gained, released, thermal)


def enthalpy(known: Molecule, temperature: np.ndarray) -> np.ndarray:
    """Molar enthalpy of a molecule, including its enthalpy of formation [erg/mol]."""
    t = np.asarray(temperature, np.float64)
    ends, rows = zip(*known.ranges, strict=True)
    a = np.array(rows)[np.searchsorted(ends[:-1], t)]  # the last one for NaN, of failed zones
    powers = sum(a[..., 2 + k] * t**k / (k + 1) for k in range(5))
    rest = (a[..., 7] + a[..., 1] * np.log(t) - a[..., 0] / t) / t
    return np.asarray(GAS_CONSTANT * t * (powers + rest))
