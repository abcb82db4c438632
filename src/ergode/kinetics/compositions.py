"""Compositions of zones: amounts by the names of species, and their molar masses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, did_you_mean
from ergode.core.errors import ModelError
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.thermochemistry import Molecule, SurfacePolynomials, mass_of_atoms

_ALIASES = {
    "n": "n1", "neutron": "n1", "p": "h1", "proton": "h1", "d": "h2", "deuteron": "h2", "t": "h3",
    "triton": "h3", "a": "he4", "alpha": "he4",
}  # fmt: skip
_MASS_FIRST = re.compile(r"(\d+)-?([A-Za-z]+)")
_MASS_LAST = re.compile(r"([A-Za-z]+)-?(\d+)")


def by_zone(name: str, given: Any, more: str = "") -> np.ndarray:
    """One number, or one for each zone; `more` tells what else may be given.

    Raises a ModelError if it is neither.
    """
    if (rows := as_numbers(given)) is None:
        expected = (
            f"a number, one for each zone{more}" if more else "a number, or one for each zone"
        )
        raise ModelError(f"{name} is {given!r}; expected {expected}")
    rows = np.atleast_1d(rows)
    if rows.ndim != 1 or not rows.size:
        raise ModelError(f"{name} has shape {rows.shape}; expected one value for each zone")
    return rows


def check_signs(name: str, rows: np.ndarray, *, may_vanish: bool = False) -> None:
    """Check that numbers [zone, ...] are finite and positive, or not negative."""
    bad = ~(np.isfinite(rows) & ((rows >= 0) if may_vanish else (rows > 0)))
    if bad.any():
        expected = "finite number, 0 or more" if may_vanish else "positive, finite number"
        raise ModelError(
            f"{name} is {rows[bad][0]:g} in zone {np.argwhere(bad)[0][0]}; expected a {expected}"
        )


def composition_of(
    network: ReactionNetwork, given: Any, what: str = "initial"
) -> dict[int, np.ndarray]:
    """Amounts by the index of a species, each one number or one for each zone.

    Raises a ModelError if a species is unknown or named twice, or an amount is no number of 0 or
    more.
    """
    if not isinstance(given, Mapping):
        raise ModelError(f"{what} is {given!r}; expected amounts by name of the species")
    names = species_index(network)
    found: dict[int, np.ndarray] = {}
    for key, value in given.items():
        i = names.get(str(key), names.get(canonical(str(key)), -1))
        if i < 0:
            hint = did_you_mean(key, [one.name for one in network.species])
            raise ModelError(
                f"{what} has the species '{key}', which the network does not have{hint}"
            )
        name = network.species[i].name
        if i in found:
            raise ModelError(f"{what} has the species '{name}' twice")
        row = by_zone(f"{what} '{key}'", value)
        check_signs(f"{what} '{key}'", row, may_vanish=True)
        found[i] = row
    return found


def canonical(name: str) -> str:
    """One spelling of a nucleus: symbol in small letters, then mass number."""
    small = name.strip().lower()
    if small in _ALIASES:
        return _ALIASES[small]
    match = _MASS_FIRST.fullmatch(small)
    if match:
        return match[2] + match[1]
    match = _MASS_LAST.fullmatch(small)
    return match[1] + match[2] if match else small


@lru_cache(maxsize=32)
def species_index(network: ReactionNetwork) -> dict[str, int]:
    """Index of every species by its name and, of nuclei, by their usual spelling."""
    index = {
        canonical(one.name): i
        for i, one in enumerate(network.species)
        if one.mass_number is not None
    }
    return index | network.index


def molar_masses(network: ReactionNetwork) -> np.ndarray:
    """Molar mass of every molecule of the gas [g/mol], from its atoms; 0 on surfaces."""
    return np.array([molar_mass(one.thermochemistry) for one in network.species])


def molar_mass(known: Any) -> float:
    """Molar mass of a molecule of the gas [g/mol], from its atoms; 0 on a surface."""
    if not isinstance(known, Molecule):
        raise ModelError("a molar mass needs a composition")
    return 0.0 if isinstance(known, SurfacePolynomials) else mass_of_atoms(known.composition)


@lru_cache(maxsize=32)
def on_surface(network: ReactionNetwork) -> np.ndarray:
    """Which species are on a surface, bool [species_count]."""
    return np.array([isinstance(one.thermochemistry, SurfacePolynomials)
                     for one in network.species], bool)  # fmt: skip


def check_no_surface(network: ReactionNetwork, what: str) -> None:
    """Refuse a network with species on a surface."""
    there = on_surface(network)
    if there.any():
        name = network.species[int(np.argmax(there))].name
        raise ModelError(
            f"{what}, and the species '{name}' is on a surface; expected integrate and "
            "closed zones of constant volume: heating=None or 'constant-volume'"
        )
