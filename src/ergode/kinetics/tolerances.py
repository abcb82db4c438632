"""Tolerances of a step: given by the user, or the defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, did_you_mean, is_finite_number
from ergode.core.errors import PlanError
from ergode.kinetics.compositions import canonical, species_index
from ergode.kinetics.conditions import Zones
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.tables import STIRRED
from ergode.models.reactions.network import ReactionNetwork

# Default absolute tolerances; they shrink with rtol below `_USUAL_RTOL`: of mass fractions; of
# concentrations and of molecules, relative to the largest amount; of temperatures [K].
_NUCLEAR, _RELATIVE, _MOLECULAR, _TEMPERATURE = 1e-8, 1e-12, 1e-18, 1e-3
_ANY = 1e30
_USUAL_RTOL = 1e-4


def number(value: Any) -> float:
    """A number of Python or NumPy, or in an array without dimensions; NaN for anything else."""
    return float(value) if is_finite_number(value) else float("nan")


def positive(name: str, value: Any) -> float:
    """A positive, finite number.

    Raises
    ------
    PlanError
        It is not.
    """
    found = number(value)
    if not 0.0 < found < np.inf:
        raise PlanError(f"{name} is {value!r}; expected a positive number")
    return found


def relative_tolerance(rtol: Any) -> float:
    """A valid rtol.

    Raises
    ------
    PlanError
        It is not from 1e-13 to 1.
    """
    found = positive("rtol", rtol)
    if not 1e-13 <= found < 1:
        raise PlanError(f"rtol is {rtol!r}; expected at least 1e-13 and less than 1")
    return found


def asked_tolerances(
    network: ReactionNetwork, mechanism: Mechanism, zones: Zones, atol: Any, rtol: float
) -> np.ndarray:
    """Absolute tolerances of all species, of mass fractions or concentrations.

    Raises
    ------
    PlanError
        One is not a positive number, or names no species.
    """
    count = mechanism.structure.species_count
    if atol is None:
        return np.full(count, usual_tolerance(mechanism, zones, rtol))
    if isinstance(atol, Mapping):
        found = np.full(count, usual_tolerance(mechanism, zones, rtol))
        names = species_index(network)
        for key, value in atol.items():
            i = names.get(str(key), names.get(canonical(str(key)), -1))
            if i < 0:
                raise PlanError(
                    f"atol has the species '{key}', which the network does not have"
                    f"{did_you_mean(key, names)}"
                )
            found[i] = positive(f"atol '{key}'", value)
        return found
    if is_finite_number(atol):
        return np.full(count, positive("atol", atol))
    values = as_numbers(atol)
    if values is None or values.ndim == 0:
        raise PlanError(f"atol is {atol!r}; expected positive numbers")
    found = values
    if found.shape != (count,):
        raise PlanError(
            f"atol has shape {found.shape}; expected a number, or one for each of {count} species"
        )
    bad = np.flatnonzero(~((found > 0.0) & (found < np.inf)))
    if bad.size:
        name = mechanism.names[bad[0]]
        raise PlanError(f"atol '{name}' is {found[bad[0]]:g}; expected a positive number")
    return found


def usual_tolerance(mechanism: Mechanism, zones: Zones, rtol: float) -> float:
    """The absolute tolerance of amounts if none is given; it shrinks with `rtol`."""
    tighter = min(1.0, rtol / _USUAL_RTOL)
    if mechanism.nuclear:
        return tighter * _NUCLEAR
    # Inert species, such as nitrogen in air, do not set the scale of reacting ones.
    count = mechanism.structure.species_count
    changes = np.diff(mechanism.structure.net_flows.start) > 0
    some = zones.amounts[:, :count]
    if zones.flow == STIRRED:
        some = np.maximum(some, zones.history.inflow[:, :count])
    some = some[:, changes if changes.any() else slice(None)]
    largest = some.max(axis=1)
    largest = largest[np.isfinite(largest) & (largest > 0.0)]
    # Traces of radicals determine the ignition delay, so they are resolved from tiny amounts.
    relative = _MOLECULAR if mechanism.molecular else _RELATIVE
    scale = float(largest.min()) if largest.size else 1.0
    # A power of ten, so that similar cells share the tables of a launch.
    return tighter * relative * 10.0 ** math.floor(math.log10(scale))


def absolute_tolerances(
    mechanism: Mechanism, zones: Zones, atol: float | tuple[float, ...] | None, rtol: float
) -> np.ndarray:
    """Absolute tolerance of every variable: specific amounts, and the temperature."""
    count = mechanism.structure.species_count
    absolute = np.empty(zones.amounts.shape[1])
    absolute[:count] = usual_tolerance(mechanism, zones, rtol) if atol is None else atol
    absolute[:count] /= mechanism.mass
    absolute[count:] = _TEMPERATURE * min(1.0, rtol / _USUAL_RTOL)
    absolute[count + 1 :] = _ANY  # the age of plug flow is an integral over the solution
    return absolute
