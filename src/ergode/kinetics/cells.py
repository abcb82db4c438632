"""Cells of a hydrodynamics code as zones, and what `burn` returns of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.kinetics.compositions import check_no_surface, molar_masses
from ergode.kinetics.conditions import Zones
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.energy import enthalpies
from ergode.kinetics.tables import FIXED, PRESSURE, ConditionHistory
from ergode.kinetics.tolerances import Tolerances, scale_of
from ergode.models.constants import GAS_CONSTANT
from ergode.models.reactions.network import ReactionNetwork

_STANDARD_TEMPERATURE = np.array(298.15)


class Burned(NamedTuple):
    """The result of a step of burning, in arrays of the library that the input came from.

    Attributes
    ----------
    mass_fraction : array of float64, shape [..., species_count]
        A cell that failed keeps its input.
    energy : array of float64, shape [...]
        Energy released by reactions [erg/g], including that of neutrinos: rest energy of nuclei, or
        enthalpy of formation of molecules at 298.15 K. Zero in cells that failed.
    status : array of uint8, shape [...]
        How each cell ended (see `ergode.Status`). ``NOT_FINITE``: the cell heats itself beyond the
        table of ``"helmholtz"``. ``INVALID_INPUT``: a value is NaN or infinite, a temperature or
        density is not positive, a mass fraction is below -1e-6, the sum of the mass fractions
        differs from one by more than 0.01, or a tolerance on a device is out of its range. Such a
        cell does not affect others. ``SKIPPED``: the
        cell is below `minimum_temperature` or `minimum_density`.
    neutrino_energy : array of float64, shape [...]
        Energy carried off by thermal neutrinos [erg/g]; zero without `neutrino_losses`. The heat of
        a cell is `energy` minus `neutrino_energy`. `neutrino_energy` is the mean of the losses
        before and after the step, times the duration. This is accurate to second order, and
        inaccurate if a cell ignites within the step.
    """

    mass_fraction: Any
    energy: Any
    status: Any
    neutrino_energy: Any


def check_shapes(network: ReactionNetwork, given: dict[str, Any]) -> tuple[int, ...]:
    """Shape of the grid of cells."""
    cells, count = tuple(given["temperature"].shape), len(network.species)
    wanted = {"density": cells, "mass_fraction": (*cells, count), "rtol": cells}
    if "atol" in given:
        wanted["atol"] = (*cells, 1 if given["atol"].shape[-1] == 1 else count)
    for name, shape in wanted.items():
        if name in given and tuple(given[name].shape) != shape:
            raise ModelError(
                f"{name} has shape {tuple(given[name].shape)}; expected {shape}, for temperature "
                f"has {cells} and the network {counted(len(network.species), 'species')}"
            )
    if not all(cells):
        raise ModelError("temperature has no cells")
    return cells


def scales_of(network: ReactionNetwork, mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """Mass [g/mol] and energy available to burning [erg/mol] of each species."""
    if mechanism.nuclear:
        return mechanism.mass, mechanism.thermo.mass_excess
    check_no_surface(network, "burn is for gases")
    formed = enthalpies(mechanism.thermo.polynomials, _STANDARD_TEMPERATURE)
    return molar_masses(network), formed


def zones_of_cells(
    mechanism: Mechanism, hot: np.ndarray, dense: np.ndarray, specific: np.ndarray, heating: int
) -> Zones:
    """Cells as zones; `specific` is in mol/g."""
    amounts = specific * dense[:, None] if mechanism.molecular else specific
    if heating != FIXED:
        amounts = np.concatenate([amounts, hot[:, None]], axis=1)
    given_density = np.ones((hot.size, 1)) if mechanism.molecular else dense[:, None].copy()
    if mechanism.molecular and heating == PRESSURE:
        given_density = (GAS_CONSTANT * hot * (specific * dense[:, None]).sum(axis=1))[:, None]
    history = ConditionHistory(np.zeros(1), hot[:, None].copy(), given_density)
    return Zones(hot.size, history, np.ascontiguousarray(amounts), heating, True)


def tolerance_rows(mechanism: Mechanism, zones: Zones, asked: Tolerances) -> np.ndarray:
    """Rows of tolerances of these cells; the usual ones follow the amounts where none is given."""
    scale = scale_of(mechanism, zones) if np.isnan(asked.absolute).all() else 1.0
    return asked.rows(mechanism, scale, zones.amounts.shape[1])
