"""Thermochemistry of species: energy, entropy, partition function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ergode.core.errors import ModelError
from ergode.core.words import counted

Ranges = tuple[tuple[float, tuple[float, ...]], ...]


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
    temperature_range : tuple of two floats
        Temperatures at which the polynomials hold [K]; results beyond come with a warning.

    References
    ----------
    B. J. McBride, S. Gordon, M. A. Reno, NASA TM-4513 (1993).
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    middle: float
    composition: Mapping[str, float]
    temperature_range: tuple[float, float] = (0.0, math.inf)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            values = tuple(map(float, getattr(self, name)))
            if len(values) != 7 or not np.isfinite(values).all():
                raise ModelError(f"{name} of NASA polynomials is {values}; expected seven numbers")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "composition", dict(self.composition))
        _check_range(self.temperature_range)

    def __hash__(self) -> int:
        return hash((self.low, self.high, self.middle))

    @property
    def ranges(self) -> Ranges:
        """Highest temperature of each range [K], and nine coefficients as of `Nasa9Polynomials`."""
        return (self.middle, (0.0, 0.0, *self.low)), (math.inf, (0.0, 0.0, *self.high))


@dataclass(frozen=True)
class Nasa9Polynomials:
    """Heat capacity, enthalpy and entropy of a molecule: nine coefficients on each range.

    Parameters
    ----------
    coefficients : sequence of nine floats each
        Of each range, from cold to hot: c_p / R = a0 / T^2 + a1 / T + a2 + a3 T + ... + a6 T^4, and
        the constants a7 of enthalpy and a8 of entropy. The pressure of the entropy is 1 atm.
    meeting_temperatures : sequence of float
        Temperatures at which a range ends and the next begins [K], ascending; a range has its
        upper end. The first and the last range extrapolate.
    composition : mapping of str to float
        Atoms of each element.
    temperature_range : tuple of two floats
        Temperatures at which the polynomials hold [K]; results beyond come with a warning.

    Raises
    ------
    ModelError
        The numbers of coefficients and temperatures do not fit, or a value is not finite.

    References
    ----------
    B. J. McBride, M. J. Zehe, S. Gordon, NASA/TP-2002-211556 (2002), eqs. (1)-(3).

    Examples
    --------
    >>> import ergode
    >>> argon = (0.0, 0.0, 2.5, 0.0, 0.0, 0.0, 0.0, -745.375, 4.37967491)
    >>> gas = ergode.Nasa9Polynomials([argon, argon], [1000.0], {"Ar": 1})
    >>> ergode.Species("AR", thermochemistry=gas).name
    'AR'
    """

    coefficients: tuple[tuple[float, ...], ...]
    meeting_temperatures: tuple[float, ...]
    composition: Mapping[str, float]
    temperature_range: tuple[float, float] = (0.0, math.inf)

    def __post_init__(self) -> None:
        rows = tuple(tuple(map(float, row)) for row in self.coefficients)
        ends = tuple(map(float, self.meeting_temperatures))
        for row in rows:
            if len(row) != 9 or not np.isfinite(row).all():
                raise ModelError(f"a range of NASA polynomials is {row}; expected nine numbers")
        if not rows or len(ends) != len(rows) - 1:
            raise ModelError(
                f"NASA polynomials have {len(rows)} ranges and {len(ends)} meeting_temperatures; "
                "expected one range more than temperatures"
            )
        if not np.isfinite(ends).all() or not all(a < b for a, b in pairwise((0.0, *ends))):
            raise ModelError(
                f"meeting_temperatures of NASA polynomials is {ends}; expected an ascending "
                "sequence above zero"
            )
        object.__setattr__(self, "coefficients", rows)
        object.__setattr__(self, "meeting_temperatures", ends)
        object.__setattr__(self, "composition", dict(self.composition))
        _check_range(self.temperature_range)

    def __hash__(self) -> int:
        return hash((self.coefficients, self.meeting_temperatures))

    @property
    def ranges(self) -> Ranges:
        """Highest temperature of each range [K], and its coefficients."""
        ends = (*self.meeting_temperatures, math.inf)
        return tuple(zip(ends, self.coefficients, strict=True))


def _check_range(given: tuple[float, float]) -> None:
    if len(given) != 2 or not given[0] < given[1]:
        raise ModelError(
            f"temperature_range of NASA polynomials is {given}; expected two ascending temperatures"
        )


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
                f"{counted(len(self.temperatures), 'temperature')} and "
                f"{counted(len(self.partition), 'value')} of a "
                "partition function; expected equal lengths"
            )
        if self.partition and min(self.partition) <= 0:
            raise ModelError(f"a partition function is {min(self.partition)}; expected more than 0")


Molecule = NasaPolynomials | Nasa9Polynomials
Thermochemistry = Molecule | Nucleus
