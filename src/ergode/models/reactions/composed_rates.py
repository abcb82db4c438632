"""Coefficients composed of others: on tables of temperature, and through an intermediate nucleus.

A sequence A + a -> X + p, X + p -> B can stand for one reaction A + a -> B if X, in which little
gathers, is left out: X reacts on as often as it is made, and the share that becomes B is the
coefficient of this branch over the sum of those of all branches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.reactions.rates import RateCoefficient, Reaclib


@dataclass(frozen=True)
class TemperatureTable:
    """A function of temperature on a table: a cubic between every two temperatures.

    Parameters
    ----------
    temperature : sequence of float
        Two or more [K], ascending.
    logarithm : sequence of float
        Natural logarithm of the factor at each temperature.
    slope : sequence of float, optional
        Of the logarithm at each temperature: by ln T, or by T [1/K] if not `logarithmic`. The
        default keeps the function monotone between temperatures (Fritsch and Butland).
    logarithmic : bool
        Whether cubics are in ln T. Beyond the table the logarithm is then linear in ln T.
        Otherwise they are in T, and the factor is constant beyond the table.

    References
    ----------
    F. N. Fritsch, J. Butland, SIAM J. Sci. Stat. Comput. 5, 300 (1984).

    Examples
    --------
    >>> import ergode
    >>> ergode.TemperatureTable([1e8, 1e9, 1e10], [-9.0, -2.0, 1.0]).slope[0].__round__(4)
    3.0401
    """

    temperature: tuple[float, ...]
    logarithm: tuple[float, ...]
    slope: tuple[float, ...] = ()
    logarithmic: bool = True

    def __post_init__(self) -> None:
        hot, values = (np.array(one, np.float64) for one in (self.temperature, self.logarithm))
        if hot.ndim != 1 or hot.size < 2 or not (hot[0] > 0.0 and (np.diff(hot) > 0.0).all()):
            raise ModelError("temperature of a TemperatureTable needs two or more that ascend")
        x = np.log(hot) if self.logarithmic else hot
        slopes = np.array(self.slope, np.float64) if len(self.slope) else _monotone(x, values)
        if values.shape != hot.shape or slopes.shape != hot.shape:
            raise ModelError(
                f"a TemperatureTable has {hot.size} temperatures, {values.size} logarithms and "
                f"{slopes.size} slopes; expected as many of each"
            )
        if not (np.isfinite(hot).all() and np.isfinite(values).all() and np.isfinite(slopes).all()):
            raise ModelError("a TemperatureTable has a number that is not finite")
        for name, array in (("temperature", hot), ("logarithm", values), ("slope", slopes)):
            object.__setattr__(self, name, tuple(array.tolist()))


def _monotone(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Slopes with which cubics are monotone: those of the secants, by harmonic means."""
    if values.shape != x.shape:
        return np.zeros(0)
    width = np.diff(x)
    secant = np.diff(values) / width
    slopes = np.concatenate([secant[:1], np.zeros(x.size - 2), secant[-1:]])
    before, after = secant[:-1], secant[1:]
    same = before * after > 0.0
    first, second = 2.0 * width[1:] + width[:-1], width[1:] + 2.0 * width[:-1]
    slopes[1:-1][same] = (first + second)[same] / (
        first[same] / before[same] + second[same] / after[same]
    )
    return slopes


@dataclass(frozen=True)
class Tabulated(RateCoefficient):
    """A coefficient times factors on tables of temperature.

    Parameters
    ----------
    tables : TemperatureTable, or sequence of TemperatureTable
        Natural logarithms of the factors are added. Fits beside them need no table.
    rate : Reaclib or float
        What the factors multiply.

    Examples
    --------
    >>> import ergode
    >>> table = ergode.TemperatureTable([1e8, 1e9, 1e10], [-9.0, -2.0, 1.0])
    >>> ergode.Tabulated(table).rate
    1.0
    """

    tables: tuple[TemperatureTable, ...]
    rate: Reaclib | float = 1.0

    def __post_init__(self) -> None:
        given = self.tables
        tables = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not tables or not all(isinstance(one, TemperatureTable) for one in tables):
            raise ModelError(f"tables of a Tabulated is {given!r}; expected a TemperatureTable")
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "rate", _factor("rate of a Tabulated", self.rate, (Reaclib,)))


@dataclass(frozen=True)
class Branching(RateCoefficient):
    """A coefficient that includes a sequence through a nucleus that is left out.

    k = direct + first branches[0] / (branches[0] + branches[1] + ...): `first` makes the
    intermediate nucleus, and its branches begin with the same reactants.

    Parameters
    ----------
    first : Reaclib, Tabulated or float
        Of the first reaction of the sequence.
    branches : sequence of two or more of Reaclib, Tabulated or float
        Of what the intermediate nucleus does; the first ends the sequence.
    direct : Reaclib, Tabulated or float
        Of the reaction without the intermediate nucleus.

    Examples
    --------
    >>> import ergode
    >>> law = ergode.Branching(6.0, [1.0, 2.0], direct=5.0)
    >>> network = ergode.ReactionNetwork({"A": 1.0}, [ergode.Reaction("A -> 0", rate_constant=law)])
    >>> ergode.kinetics.reaction_rates(network)["coefficient"].item()
    7.0
    """

    first: Reaclib | Tabulated | float
    branches: tuple[Reaclib | Tabulated | float, ...]
    direct: Reaclib | Tabulated | float = 0.0

    def __post_init__(self) -> None:
        given = self.branches
        branches = tuple(given) if isinstance(given, list | tuple) else (given,)
        if len(branches) < 2:
            raise ModelError(
                f"branches of a Branching has {len(branches)}; expected two or more, the first of "
                "which ends the sequence"
            )
        kinds = Reaclib, Tabulated
        object.__setattr__(
            self, "branches", tuple(_factor("a branch of a Branching", k, kinds) for k in branches)
        )
        for name in ("first", "direct"):
            value = _factor(f"{name} of a Branching", getattr(self, name), kinds)
            object.__setattr__(self, name, value)


def _factor(what: str, rate: object, kinds: tuple[type, ...]) -> object:
    """A part of a coefficient: of one of these kinds, or a number."""
    inner = rate.rate if isinstance(rate, Tabulated) else rate
    if kinds != (Reaclib,) and isinstance(inner, Reaclib) and inner.electrons:
        raise ModelError(f"{what} captures an electron; expected a coefficient that does not")
    if isinstance(rate, kinds):
        return rate
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < math.inf:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ModelError(f"{what} is {rate!r}; expected a {names}, or a number of 0 or more")
    return float(rate)
