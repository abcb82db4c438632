"""Thermochemistry of species: energy, entropy, partition function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.constants import GAS_CONSTANT, STANDARD_ATMOSPHERE

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


@dataclass(frozen=True)
class SurfacePolynomials(NasaPolynomials):
    """Thermochemistry of a species that sits on a surface, as a site does.

    Its amount in a zone is a coverage, and its concentration that per volume of the gas
    [mol/cm3]. It takes no part in the pressure, and is no collision partner.

    Parameters
    ----------
    full_coverage : float
        Concentration at which the species covers the whole surface [mol/cm3]: the density of sites
        [mol/cm2], times the area of the surface over the volume of the gas [1/cm], over the number
        of sites that a molecule takes.

    Notes
    -----
    The other parameters are those of `NasaPolynomials`, for a standard state of full coverage.

    References
    ----------
    R. J. Kee, M. E. Coltrin, P. Glarborg, "Chemically Reacting Flow" (2003), section 11.3.

    Examples
    --------
    >>> import ergode
    >>> row = (2.5, 0.0, 0.0, 0.0, 0.0, -1000.0, 1.0)
    >>> site = ergode.SurfacePolynomials(row, row, 1000.0, {"Pt": 1}, full_coverage=2.7e-9 * 10)
    >>> ergode.Species("PT_S", thermochemistry=site).name
    'PT_S'
    """

    full_coverage: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.full_coverage < math.inf:
            raise ModelError(
                f"full_coverage of a species on a surface is {self.full_coverage!r}; expected a "
                "positive number [mol/cm3]"
            )

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.full_coverage))

    @property
    def ranges(self) -> Ranges:
        """As of a gas with the same partition function per volume and the same internal energy."""
        shift = 1.0 + math.log(self.full_coverage * GAS_CONSTANT / STANDARD_ATMOSPHERE)
        return tuple(
            (end, (*row[:2], row[2] + 1.0, *row[3:8], row[8] + shift))
            for end, row in super().ranges
        )


# g/mol; IUPAC 2021, abridged.
_ATOMIC_WEIGHTS = {
    "H": 1.008, "D": 2.014, "He": 4.002602, "Li": 6.94, "B": 10.81, "C": 12.011, "N": 14.007,
    "O": 15.999, "F": 18.998403, "Ne": 20.1797, "Na": 22.989769, "Mg": 24.305, "Al": 26.981538,
    "Si": 28.085, "P": 30.973762, "S": 32.06, "Cl": 35.45, "Ar": 39.95, "K": 39.0983, "Fe": 55.845,
    "Br": 79.904, "Kr": 83.798, "I": 126.90447, "Xe": 131.293, "E": 5.485799e-4,
}  # fmt: skip


def mass_of_atoms(composition: Mapping[str, float]) -> float:
    """Molar mass [g/mol] of these atoms."""
    total = 0.0
    for element, count in composition.items():
        if element not in _ATOMIC_WEIGHTS:
            raise ModelError(f"the element '{element}' is not in the table of atomic weights")
        total += count * _ATOMIC_WEIGHTS[element]
    return total


Molecule = NasaPolynomials | Nasa9Polynomials
Thermochemistry = Molecule | Nucleus
