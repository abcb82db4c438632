"""Thermochemistry of species: energy, entropy, partition function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ergode.core.errors import ModelError


@dataclass(frozen=True)
class NasaPolynomials:
    """Heat capacity, enthalpy and entropy of a molecule: seven coefficients on two ranges.

    Parameters
    ----------
    low, high : tuple of seven floats
        c_p / R = a0 + a1 T + ... + a4 T^4, and the constants of enthalpy and entropy.
    middle : float
        Temperature at which the ranges meet [K].
    composition : mapping of str to float
        Atoms of each element.

    References
    ----------
    B. J. McBride, S. Gordon, M. A. Reno, NASA TM-4513 (1993).
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    middle: float
    composition: Mapping[str, float]

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            values = tuple(map(float, getattr(self, name)))
            if len(values) != 7 or not np.isfinite(values).all():
                raise ModelError(f"{name} of NASA polynomials is {values}; expected seven numbers")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "composition", dict(self.composition))

    def __hash__(self) -> int:
        return hash((self.low, self.high, self.middle))


@dataclass(frozen=True)
class Nucleus:
    """Thermochemistry of a nucleus: mass excess, spin and partition function.

    Parameters
    ----------
    mass_excess : float
        Atomic mass excess [MeV].
    spin : float
        Spin of the ground state.
    temperatures : tuple of float
        Temperatures of `partition` [K], ascending.
    partition : tuple of float
        Partition function relative to the ground state; the default is one.
    """

    mass_excess: float
    spin: float = 0.0
    temperatures: tuple[float, ...] = ()
    partition: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.temperatures) != len(self.partition):
            raise ModelError(
                f"{len(self.temperatures)} temperatures and {len(self.partition)} values of a "
                "partition function; expected equal lengths"
            )
        if self.partition and min(self.partition) <= 0:
            raise ModelError(f"a partition function is {min(self.partition)}; expected more than 0")


Thermochemistry = NasaPolynomials | Nucleus
