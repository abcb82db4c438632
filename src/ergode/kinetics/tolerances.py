"""Tolerances of a step: given by the user, or the defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ergode.core import arguments
from ergode.core.arguments import as_numbers, did_you_mean, is_finite_number
from ergode.core.errors import PlanError
from ergode.kinetics.compositions import canonical, species_index
from ergode.kinetics.conditions import Zones
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.tables import STILL, STIRRED
from ergode.models.reactions.network import ReactionNetwork

# Default absolute tolerances; they shrink with rtol below `USUAL_RTOL`: of mass fractions; of
# concentrations and of molecules, relative to the largest amount; of temperatures [K].
_NUCLEAR, _RELATIVE, _MOLECULAR, TEMPERATURE = 1e-8, 1e-12, 1e-18, 1e-3
_ANY = 1e30
_MOTION = 1e-2  # absolute tolerance of a volume and a speed (see `pistons`), over rtol
SMALLEST = 1e-13
"""The smallest relative tolerance."""
BY_ZONE = 0.0
"""In place of a tolerance of all zones, where zones have their own."""
USUAL_RTOL = 1e-4


def number(value: Any) -> float:
    """A number of Python or NumPy, or in an array without dimensions; NaN for anything else."""
    return float(value) if is_finite_number(value) else float("nan")


class Tolerances(NamedTuple):
    """Checked tolerances: of all zones, or one row for each."""

    relative: np.ndarray  # [1]
    # [1, species_count]: of mass fractions or concentrations; NaN where none is given.
    absolute: np.ndarray

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by name."""
        return {"rtol": self.relative.size, "atol": len(self.absolute)}

    @property
    def by_zone(self) -> bool:
        """Whether zones have tolerances of their own."""
        return max(self.sizes.values()) > 1

    def part(self, which: Any) -> Tolerances:
        """The tolerances of some of the zones."""
        return Tolerances(*(each[which] if len(each) > 1 else each for each in self))

    def filled(self, mechanism: Mechanism, scale: float) -> np.ndarray:
        """Absolute tolerances, with the usual ones where none is given; `scale` of `scale_of`."""
        usual = usual_of(mechanism, self.relative, scale)[:, None]
        return np.where(np.isnan(self.absolute), usual, self.absolute)

    def rows(
        self, mechanism: Mechanism, scale: float, variable_count: int, *, moves: bool = False
    ) -> np.ndarray:
        """Absolute tolerance of every variable, then the relative one, of each zone.

        `moves` tells whether volume and speed of a piston are variables.
        """
        absolute = self.filled(mechanism, scale)
        count = absolute.shape[1]
        found = np.empty((len(absolute), variable_count + 1))
        found[:, :count] = absolute / mechanism.mass
        found[:, count:-1] = TEMPERATURE * np.minimum(1.0, self.relative / USUAL_RTOL)[:, None]
        # The age of plug flow is an integral over the solution; moving zones have volume and speed.
        found[:, count + 1 : -1] = _MOTION * self.relative[:, None] if moves else _ANY
        found[:, -1] = self.relative
        return found


def tolerances_of(
    network: ReactionNetwork, rtol: Any, atol: Any, cells: tuple[int, ...] | None = None
) -> Tolerances:
    """Check the tolerances of a call.

    Parameters
    ----------
    network : ReactionNetwork
    rtol, atol
        As the user gave them.
    cells : tuple of int, optional
        Shape of the grid of zones; by default they have one axis.

    Raises a PlanError if one is not a number in its range, has the wrong shape, or names no
    species.
    """
    names = species_index(network)
    count = len(network.species)
    relative = _rows("rtol", rtol, cells)
    bad = np.flatnonzero(~((relative >= SMALLEST) & (relative < 1)))
    if bad.size:
        shown = f"{relative[bad[0]]:g} in zone {bad[0]}" if relative.size > 1 else repr(rtol)
        raise PlanError(f"rtol is {shown}; expected at least 1e-13 and less than 1")
    if atol is None:
        return Tolerances(relative, np.full((1, count), np.nan))
    if isinstance(atol, Mapping):
        given = {}
        for key, value in atol.items():
            i = names.get(str(key), names.get(canonical(str(key)), -1))
            if i < 0:
                raise PlanError(
                    f"atol has the species '{key}', which the network does not have"
                    f"{did_you_mean(key, names)}"
                )
            given[i] = _rows(f"atol '{key}'", value, cells)
        size = max((row.size for row in given.values()), default=1)
        absolute = np.full((size, count), np.nan)
        for i, row in given.items():
            if row.size not in (1, size):
                raise PlanError(
                    f"atol '{network.species[i].name}' has {row.size} values, and another species "
                    f"has {size}; expected one for all zones, or one for each"
                )
            absolute[:, i] = row
    elif is_finite_number(atol):
        absolute = np.full((1, count), float(atol))
    else:
        absolute = _table(atol, count, cells)
    asked = np.full(absolute.shape, not isinstance(atol, Mapping)) | ~np.isnan(absolute)
    wrong = np.argwhere(asked & ~((absolute > 0.0) & (absolute < np.inf)))
    if wrong.size:
        zone, i = wrong[0]
        where = f" in zone {zone}" if len(absolute) > 1 else ""
        whose = "atol" if is_finite_number(atol) else f"atol '{network.species[i].name}'"
        raise PlanError(f"{whose} is {absolute[zone, i]}{where}; expected a positive number")
    return Tolerances(relative, absolute)


def _rows(name: str, value: Any, cells: tuple[int, ...] | None) -> np.ndarray:
    """One number, or one for each zone.

    Raises a PlanError if it is neither, or not finite and positive.
    """
    if is_finite_number(value):
        return np.array([arguments.number(name, value, above=0.0)])
    values = None if isinstance(value, bool | np.bool_) else as_numbers(value)
    if values is None or values.ndim == 0 or not values.size:
        raise PlanError(f"{name} is {value!r}; expected a positive number, or one for each zone")
    if values.shape != cells and (cells is not None or values.ndim > 1):
        raise PlanError(
            f"{name} has shape {values.shape}; expected a number, or one for each zone"
            f"{'' if cells is None else f', shape {cells}'}"
        )
    bad = np.flatnonzero(~((values.ravel() > 0.0) & (values.ravel() < np.inf)))
    if bad.size:
        raise PlanError(
            f"{name} is {values.ravel()[bad[0]]:g} in zone {bad[0]}; expected a positive number"
        )
    return values.ravel()


def _table(atol: Any, count: int, cells: tuple[int, ...] | None) -> np.ndarray:
    """Numbers for each species, or for each zone and species.

    Raises a PlanError if the shape is neither.
    """
    values = as_numbers(atol)
    if values is None or values.ndim == 0:
        raise PlanError(f"atol is {atol!r}; expected positive numbers")
    if values.shape == (count,):
        return values[None]
    zones = values.shape[:1] if cells is None else cells
    if values.ndim < 2 or values.shape not in ((*zones, 1), (*zones, count)):
        raise PlanError(
            f"atol has shape {values.shape}; expected a number, one for each of {count} species, "
            f"or shape [zone_count, 1] or [zone_count, {count}]"
        )
    rows = values.reshape(-1, values.shape[-1])
    return np.ascontiguousarray(np.broadcast_to(rows, (len(rows), count)))


def usual_of(mechanism: Mechanism, rtol: Any, scale: float) -> Any:
    """The absolute tolerance of amounts if none is given; that of molecules is always the same.

    Traces of radicals determine the ignition delay, so they are resolved from tiny amounts. Below
    those is nothing but rounding.
    """
    if mechanism.molecular:
        return np.ones_like(rtol, float) * (_MOLECULAR * scale)
    kind = _NUCLEAR if mechanism.nuclear else _RELATIVE
    return np.minimum(1.0, rtol / USUAL_RTOL) * kind * scale


def scale_of(mechanism: Mechanism, zones: Zones) -> float:
    """The amount to which usual tolerances are relative; 1 for mass fractions."""
    if mechanism.nuclear:
        return 1.0
    # Inert species, such as nitrogen in air, do not set the scale of reacting ones.
    count = mechanism.structure.species_count
    changes = np.diff(mechanism.structure.net_flows.start) > 0
    some = zones.amounts[:, :count]
    if zones.flow == STIRRED:
        some = np.maximum(some, zones.history.inflow[:, :count])
    some = some[:, changes if changes.any() else slice(None)]
    largest = some.max(axis=1)
    largest = largest[np.isfinite(largest) & (largest > 0.0)]
    smallest = float(largest.min()) if largest.size else 1.0
    # A power of ten, so that similar cells share the tables of a launch.
    return 10.0 ** math.floor(math.log10(smallest))


def absolute_tolerances(
    mechanism: Mechanism, zones: Zones, atol: float | tuple[float, ...] | None, rtol: float
) -> np.ndarray:
    """Absolute tolerance of every variable: specific amounts, and the temperature."""
    count = mechanism.structure.species_count
    scale = scale_of(mechanism, zones) if atol is None else 1.0
    given = np.broadcast_to(np.nan if atol is None else np.asarray(atol), (1, count))
    found = Tolerances(np.array([rtol]), given).rows(
        mechanism, scale, zones.amounts.shape[1], moves=zones.moving != STILL
    )
    return np.asarray(found[0, :-1])


def with_tolerances(zones: Zones, rows: np.ndarray) -> Zones:
    """Zones with tolerances of their own, which all points of a sweep share."""
    every = rows if len(rows) == zones.count else np.tile(rows, (zones.count // len(rows), 1))
    return replace(zones, history=zones.history._replace(tolerances=every))
