"""Rate coefficients that depend on conditions: temperature, density, pressure."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ergode.core.errors import ModelError

Efficiencies = tuple[tuple[str, float], ...]


class RateCoefficient(ABC):  # noqa: B024 (what a coefficient computes is its own kind's to say)
    """A deterministic mass-action rate constant that is a function of conditions.

    What a `Reaction` accepts for `rate_constant` beside numbers and formulas.  Subclasses are
    frozen dataclasses of numbers, whose ``repr`` says all there is to know of them.
    """


@dataclass(frozen=True)
class Reaclib(RateCoefficient):
    """A sum of exponentials of seven parameters, as JINA REACLIB has them.

    k = prefactor * sum of exp(a0 + a1 / T9 + a2 / T9^(1/3) + a3 T9^(1/3) + a4 T9 + a5 T9^(5/3)
    + a6 ln T9), in mol, cm and s.

    Parameters
    ----------
    sets : sequence of seven floats each
        Resonant and non-resonant parts.
    prefactor : float
        One over the factorial of the number of every kind of reactant: 0.5 for two alike.

    References
    ----------
    R. H. Cyburt et al., Astrophys. J. Suppl. 189, 240 (2010), eq. (1).

    Examples
    --------
    >>> from ergode.models.rate_coefficients import Reaclib
    >>> Reaclib([(-6.78, 0, 0, 0, 0, 0, 0)]).prefactor
    1.0
    """

    sets: tuple[tuple[float, ...], ...]
    prefactor: float = 1.0

    def __post_init__(self) -> None:
        sets = tuple(tuple(float(a) for a in one) for one in self.sets)
        if not sets or any(len(one) != 7 or not all(map(math.isfinite, one)) for one in sets):
            raise ModelError(f"sets of a Reaclib coefficient is {self.sets!r}; expected seven each")
        object.__setattr__(self, "sets", sets)


@dataclass(frozen=True)
class Arrhenius(RateCoefficient):
    """k = factor (T / 1 K)^exponent exp(-activation_temperature / T).

    Parameters
    ----------
    factor : float
        Pre-exponential factor [(cm3/mol)^(order - 1) / s]; negative ones occur in sums.
    exponent : float
    activation_temperature : float
        Activation energy over the gas constant [K].

    Examples
    --------
    >>> from ergode.models.rate_coefficients import Arrhenius
    >>> Arrhenius(3.52e16, -0.7, 8590.0).exponent
    -0.7
    """

    factor: float
    exponent: float = 0.0
    activation_temperature: float = 0.0

    def __post_init__(self) -> None:
        for name in ("factor", "exponent", "activation_temperature"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise ModelError(f"{name} of an Arrhenius coefficient is {value}")


@dataclass(frozen=True)
class ThreeBody(RateCoefficient):
    """A coefficient times the concentration of collision partners.

    Parameters
    ----------
    rate : Arrhenius
    efficiencies : mapping of str to float
        How each species counts as a partner.
    default : float
        How those count that are not named.
    """

    rate: Arrhenius
    efficiencies: Efficiencies = ()
    default: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "efficiencies", _pairs(self.efficiencies))


@dataclass(frozen=True)
class Falloff(RateCoefficient):
    """Between a low-pressure and a high-pressure limit: Lindemann's, or Troe's, falloff.

    k = high P / (1 + P) F with P = low [partners] / high.

    Parameters
    ----------
    low, high : Arrhenius
        Limits; the low one has a concentration more.
    efficiencies, default
        As for `ThreeBody`.
    troe : tuple of float, optional
        Troe's a, T***, T* and, if there is one, T** [K]; without it F is one (Lindemann).

    References
    ----------
    R. G. Gilbert, K. Luther, J. Troe, Ber. Bunsenges. Phys. Chem. 87, 169 (1983).
    """

    low: Arrhenius
    high: Arrhenius
    efficiencies: Efficiencies = ()
    default: float = 1.0
    troe: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "efficiencies", _pairs(self.efficiencies))
        if self.troe is not None and len(self.troe) not in (3, 4):
            raise ModelError(f"troe is {self.troe!r}; expected three or four numbers")


@dataclass(frozen=True)
class DetailedBalance(RateCoefficient):
    """What the reverse of a reaction must have for equilibrium to be thermodynamics' own.

    Every species of the reaction needs its `thermochemistry`.

    Parameters
    ----------
    forward : RateCoefficient
        Of the same reaction the other way round.
    """

    forward: RateCoefficient


def _pairs(given: Any) -> Efficiencies:
    items = given.items() if isinstance(given, Mapping) else given
    return tuple((str(name), float(value)) for name, value in items)
