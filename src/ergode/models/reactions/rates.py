"""Rate coefficients that depend on conditions: temperature, density, pressure."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.errors import ModelError

Efficiencies = tuple[tuple[str, float], ...]


class RateCoefficient(ABC):  # noqa: B024 (what a coefficient computes is its own kind's to say)
    """A deterministic mass-action rate constant that is a function of conditions.

    A `Reaction` accepts it as `rate_constant`, like numbers and formulas.  Subclasses are frozen
    dataclasses of numbers; their ``repr`` is complete.
    """


@dataclass(frozen=True)
class Reaclib(RateCoefficient):
    """A sum of seven-parameter exponentials, the form of JINA REACLIB.

    k = prefactor * sum of exp(a0 + a1 / T9 + a2 / T9^(1/3) + a3 T9^(1/3) + a4 T9 + a5 T9^(5/3)
    + a6 ln T9), in mol, cm and s.

    Parameters
    ----------
    sets : sequence of seven floats each
        Resonant and non-resonant parts.
    prefactor : float
        Product of 1 / n! over the reactant species: 0.5 for two equal reactants.
    electrons : bool
        Whether the reaction captures an electron: k is then multiplied by the density of electrons,
        rho times Y_e [mol/cm3].

    References
    ----------
    R. H. Cyburt et al., Astrophys. J. Suppl. 189, 240 (2010), eq. (1).

    Examples
    --------
    >>> from ergode.models.reactions.rates import Reaclib
    >>> Reaclib([(-6.78, 0, 0, 0, 0, 0, 0)]).prefactor
    1.0
    """

    sets: tuple[tuple[float, ...], ...]
    prefactor: float = 1.0
    electrons: bool = False

    def __post_init__(self) -> None:
        sets = tuple(tuple(float(a) for a in one) for one in self.sets)
        if not sets or any(len(one) != 7 or not all(map(math.isfinite, one)) for one in sets):
            raise ModelError(
                f"sets of a Reaclib coefficient is {self.sets!r}; expected seven numbers in each"
            )
        object.__setattr__(self, "sets", sets)


@dataclass(frozen=True)
class TemperatureFit(RateCoefficient):
    """Any function of the temperature, by a fit: see `of`.

    k = sum of factor * exp(a0 + a1 / T9 + ... + a6 ln T9), with signs and the seven functions of
    `Reaclib`.

    Parameters
    ----------
    sets : sequence of seven floats each
    factors : sequence of float
        One for each set; may be negative.
    temperature_range : tuple of two floats
        Temperatures of the fit [K]; results beyond come with a warning.

    Examples
    --------
    >>> import math
    >>> import ergode
    >>> law = ergode.TemperatureFit.of(lambda t: 1e-12 / (1 + math.exp(-900 / t)), (200, 330))
    >>> law.temperature_range
    (200.0, 330.0)
    """

    sets: tuple[tuple[float, ...], ...]
    factors: tuple[float, ...]
    temperature_range: tuple[float, float]

    @classmethod
    def of(
        cls,
        function: Callable[[float], float],
        temperature_range: tuple[float, float],
        *,
        tolerance: float = 1e-6,
    ) -> TemperatureFit:
        """Fit a function of the temperature.

        Parameters
        ----------
        function : callable
            Of the temperature [K]; returns a positive number.
        temperature_range : tuple of two floats
            Lowest and highest temperature [K].
        tolerance : float
            Largest relative error of the fit.

        Raises
        ------
        ModelError
            The function is not positive and finite, or not smooth enough for the range.
        """
        low, high = (float(x) for x in temperature_range)
        if not 0.0 < low < high < math.inf:
            raise ModelError(
                f"temperature_range is {temperature_range}; expected two ascending temperatures"
            )
        middle, half = 0.5 * (high + low), 0.5 * (high - low)
        hot = middle + half * np.cos(np.linspace(0.0, np.pi, _FITTED))
        values = np.array([float(function(float(t))) for t in hot])
        bad = ~(np.isfinite(values) & (values > 0.0))
        if bad.any():
            raise ModelError(
                f"the function is {values[bad][0]:g} at {hot[bad][0]:.6g} K; expected a positive, "
                "finite number"
            )
        # The seven functions, then powers of T. The fit is at every other node; the others tell its
        # error. Without small singular values terms hardly cancel each other.
        t9, powers = hot * 1e-9, np.arange(-_POWERS, _POWERS + 1)
        third = np.cbrt(t9)
        basis = [np.ones_like(t9), 1 / t9, 1 / third, third, t9, t9 * third**2, np.log(t9)]
        columns = np.stack(basis, axis=1)
        most = np.abs(columns).max(axis=0)
        base = np.linalg.lstsq((columns / most)[::2], np.log(values[::2]), rcond=_SMALL)[0] / most
        ratio = values / np.exp(columns @ base)
        root = 1e-9 * math.sqrt(low * high)
        terms = (t9 / root)[:, None] ** powers
        size = terms.max(axis=0)
        more = np.linalg.lstsq((terms / size)[::2], ratio[::2] - 1.0, rcond=_SMALLEST)[0] / size
        error = float(np.abs((1.0 + terms @ more) / ratio - 1.0).max())
        if not error < tolerance:
            raise ModelError(
                f"the function is not smooth enough from {low:g} to {high:g} K: its fit is off by "
                f"{error:.1e}; expected {tolerance:g}; give a narrower range"
            )
        first = base.tolist()
        sets = [
            (first[0] - k * math.log(root), *first[1:6], first[6] + k)
            for k in [0, *powers.tolist()]
        ]
        return cls(tuple(sets), (1.0, *more.tolist()), (low, high))


_FITTED, _POWERS = 161, 8  # nodes; largest power of T
_SMALL, _SMALLEST = 1e-7, 1e-10  # singular values


@dataclass(frozen=True)
class Arrhenius(RateCoefficient):
    """k = factor (T / 1 K)^exponent exp(-activation_temperature / T).

    Parameters
    ----------
    factor : float
        Pre-exponential factor [(cm3/mol)^(order - 1) / s]; negative in some sums.
    exponent : float
    activation_temperature : float
        Activation energy over the gas constant [K].

    Examples
    --------
    >>> from ergode.models.reactions.rates import Arrhenius
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
                raise ModelError(
                    f"{name} of an Arrhenius coefficient is {value}; expected a finite number"
                )


@dataclass(frozen=True)
class BlowersMasel(RateCoefficient):
    """Arrhenius' law whose activation energy depends on the enthalpy of reaction.

    With H the enthalpy of reaction over the gas constant [K],
    k = factor (T / 1 K)^exponent exp(-E / T) with E = 0 for H <= -4 E0, E = H for H >= 4 E0, and
    between them, with v = 2 w (w + E0) / (w - E0),
    E = (w + H / 2) (v - 2 w + H)^2 / (v^2 - 4 w^2 + H^2). All species need NASA polynomials.

    Parameters
    ----------
    factor, exponent : float
        As for `Arrhenius`.
    intrinsic_temperature : float
        E0, the activation energy at H = 0 over the gas constant [K].
    bond_temperature : float
        w, the mean energy of the bonds that break and form, over the gas constant [K].

    References
    ----------
    P. Blowers, R. I. Masel, AIChE J. 46, 2041 (2000).

    Examples
    --------
    >>> from ergode.models.reactions.rates import BlowersMasel
    >>> BlowersMasel(3.9e4, 2.7, 3150.0, 5e4).intrinsic_temperature
    3150.0
    """

    factor: float
    exponent: float
    intrinsic_temperature: float
    bond_temperature: float

    def __post_init__(self) -> None:
        for name in ("factor", "exponent", "intrinsic_temperature", "bond_temperature"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise ModelError(
                    f"{name} of a Blowers-Masel coefficient is {value}; expected a finite number"
                )
        if not 0.0 <= self.intrinsic_temperature < self.bond_temperature:
            raise ModelError(
                f"intrinsic_temperature of a Blowers-Masel coefficient is "
                f"{self.intrinsic_temperature:g}; expected 0 or more, and less than the "
                f"bond_temperature {self.bond_temperature:g}"
            )


@dataclass(frozen=True)
class ThreeBody(RateCoefficient):
    """A coefficient times the concentration of collision partners.

    Parameters
    ----------
    rate : Arrhenius or TemperatureFit
    efficiencies : mapping of str to float
        Efficiency of each species as a collision partner.
    default : float
        Efficiency of all other species.
    """

    rate: Arrhenius | TemperatureFit
    efficiencies: Efficiencies = ()
    default: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "efficiencies", _pairs(self.efficiencies))


@dataclass(frozen=True)
class Falloff(RateCoefficient):
    """Falloff between a low-pressure and a high-pressure limit (Lindemann, Troe or SRI).

    k = high P / (1 + P) F with P = low [partners] / high. A chemically activated reaction, whose
    excited intermediate collisions would hold back, has k = low / (1 + P) F.

    Parameters
    ----------
    low, high : Arrhenius
        Limits; the low one is of one order more.
    efficiencies, default
        As for `ThreeBody`.
    troe : tuple of float, optional
        Troe's a, T***, T* and, if there is one, T** [K].
    sri : tuple of float, optional
        a, b [K], c [K], d and e of SRI's F = d (a exp(-b / T) + exp(-T / c))^x T^e, with
        x = 1 / (1 + log10(P)^2). Without `troe` and `sri`, F is one (Lindemann).
    activated : bool
        Whether the reaction is chemically activated.

    References
    ----------
    R. G. Gilbert, K. Luther, J. Troe, Ber. Bunsenges. Phys. Chem. 87, 169 (1983);
    P. H. Stewart, C. W. Larson, D. M. Golden, Combust. Flame 75, 25 (1989).
    """

    low: Arrhenius
    high: Arrhenius
    efficiencies: Efficiencies = ()
    default: float = 1.0
    troe: tuple[float, ...] | None = None
    sri: tuple[float, ...] | None = None
    activated: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "efficiencies", _pairs(self.efficiencies))
        if self.troe is not None and len(self.troe) not in (3, 4):
            raise ModelError(f"troe is {self.troe!r}; expected three or four numbers")
        if self.sri is not None and (len(self.sri) != 5 or self.troe is not None):
            raise ModelError(f"sri is {self.sri!r}; expected five numbers, and no troe")


@dataclass(frozen=True)
class PressureLog(RateCoefficient):
    """Coefficients at several pressures, with ln k linear in ln p between them ("PLOG").

    Parameters
    ----------
    points : sequence of (float, Arrhenius)
        Pressure [dyn/cm2] and coefficient, in any order; coefficients of one pressure are added.
        Below the first and above the last pressure the coefficient is constant.

    Examples
    --------
    >>> from ergode.models.reactions.rates import Arrhenius, PressureLog
    >>> PressureLog([(1e6, Arrhenius(2.0)), (1e5, Arrhenius(1.0))]).points[0][0]
    100000.0
    """

    points: tuple[tuple[float, Arrhenius], ...]

    def __post_init__(self) -> None:
        points = tuple(sorted(((float(p), k) for p, k in self.points), key=lambda one: one[0]))
        if not points or not all(0 < p < math.inf for p, _ in points):
            raise ModelError("points of a PressureLog need one or more positive pressures")
        object.__setattr__(self, "points", points)


@dataclass(frozen=True)
class Chebyshev(RateCoefficient):
    """log10 k as a sum of Chebyshev polynomials of 1 / T and log p.

    Parameters
    ----------
    temperatures, pressures : tuple of two floats
        Range of the fit [K], [dyn/cm2]; the polynomials extrapolate beyond it.
    coefficients : sequence of sequence of float
        a[t][p] of the polynomials of degree t in reciprocal temperature and p in log pressure, in
        log10 of mol, cm and s.

    References
    ----------
    P. K. Venkatesh, A. M. Dean, M. H. Cohen, R. W. Carr, J. Chem. Phys. 107, 8904 (1997).
    """

    temperatures: tuple[float, float]
    pressures: tuple[float, float]
    coefficients: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        rows = tuple(tuple(float(a) for a in row) for row in self.coefficients)
        if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
            raise ModelError("coefficients of a Chebyshev rate must be rows of one length")
        for name in ("temperatures", "pressures"):
            low, high = map(float, getattr(self, name))
            if not 0 < low < high < math.inf:
                raise ModelError(
                    f"{name} of a Chebyshev rate is {low:g} to {high:g}; expected two finite "
                    "numbers above 0 that ascend"
                )
            object.__setattr__(self, name, (low, high))
        object.__setattr__(self, "coefficients", rows)


@dataclass(frozen=True)
class LinearBurke(RateCoefficient):
    """Falloff in a mixture of collision partners: the linear rule of Burke and Song.

    With concentrations c_i and efficiencies e_i, M = sum of e_i c_i and
    k = sum of (e_i c_i / M) k_i. k_i is the coefficient in pure partner i at the concentration
    M / e_i. An efficiency is relative to the reference partner, and may depend on temperature.

    Parameters
    ----------
    rate : Falloff, PressureLog or Chebyshev
        Coefficient in the reference partner, and in all partners without a coefficient in `rates`,
        for which k_i is taken at M. A `Falloff` here has no efficiencies.
    efficiencies : mapping of str to Arrhenius or float
        Efficiencies of partners; that of all others is 1.
    rates : mapping of str to Falloff, PressureLog or Chebyshev
        Coefficients in pure partners, which have an efficiency.

    References
    ----------
    M. P. Burke, R. Song, Proc. Combust. Inst. 36, 245 (2017);
    P. J. Singal, J. Lee, L. Lei, R. L. Speth, M. P. Burke, Proc. Combust. Inst. 40, 105779 (2024),
    eq. (8).

    Examples
    --------
    >>> import ergode
    >>> argon = ergode.Falloff(ergode.Arrhenius(2e18), ergode.Arrhenius(1e13))
    >>> law = ergode.LinearBurke(argon, {"H2O": ergode.Arrhenius(20.0, -0.3)})
    >>> law.efficiencies[0][1].exponent
    -0.3
    """

    rate: Falloff | PressureLog | Chebyshev
    efficiencies: tuple[tuple[str, Arrhenius], ...] = ()
    rates: tuple[tuple[str, Falloff | PressureLog | Chebyshev], ...] = ()

    def __post_init__(self) -> None:
        found = {}
        for name, value in dict(self.efficiencies).items():
            one = value if isinstance(value, Arrhenius) else Arrhenius(float(value))
            if one.factor < 0.0:
                raise ModelError(
                    f"efficiency of '{name}' in a LinearBurke has the factor {one.factor:g}; "
                    "expected 0 or more"
                )
            found[str(name)] = one
        for name, rate in (("the reference partner", self.rate), *dict(self.rates).items()):
            if not isinstance(rate, Falloff | PressureLog | Chebyshev):
                raise ModelError(
                    f"rate of {name} in a LinearBurke is {type(rate).__name__}; expected a "
                    "Falloff, a PressureLog or a Chebyshev"
                )
            if isinstance(rate, Falloff) and (rate.efficiencies or rate.default != 1.0):
                raise ModelError(
                    f"rate of {name} in a LinearBurke has efficiencies; they belong to the "
                    "LinearBurke"
                )
        for name in dict(self.rates):
            if name not in found or not found[name].factor:
                raise ModelError(
                    f"rate of '{name}' in a LinearBurke needs an efficiency above 0 of '{name}'"
                )
        object.__setattr__(self, "efficiencies", tuple(found.items()))
        object.__setattr__(self, "rates", tuple(dict(self.rates).items()))


@dataclass(frozen=True)
class PowerLaw(RateCoefficient):
    """A rate constant with orders of reaction that are not the stoichiometric coefficients.

    The rate of the reaction is k times the product of c_i^n_i: n_i is the order in species i, and
    c_i its concentration. The rate is zero where a species with an order other than 0 is missing.
    With order 0 it goes on when the species is used up: the solution ends there, and the status is
    ``STEP_TOO_SMALL``.

    Parameters
    ----------
    rate : RateCoefficient or float
        k. Not `DetailedBalance`: the reverse of a reaction with such orders is not known.
    orders : mapping of str to float
        Orders in reactants, or in other species; they may be fractions or negative. Reactants that
        are not named keep their stoichiometric coefficients.

    Examples
    --------
    >>> import ergode
    >>> law = ergode.PowerLaw(2.0, {"O2": -0.5})
    >>> burns = ergode.Reaction("CO + 0.5 O2 -> CO2", rate_constant=law)
    >>> network = ergode.ReactionNetwork({"CO": 3, "O2": 4, "CO2": 0}, [burns])
    >>> ergode.kinetics.reaction_rates(network)["rate"].item()
    3.0
    """

    rate: RateCoefficient | float
    orders: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", _pairs(self.orders))
        for name, order in self.orders:
            if not math.isfinite(order):
                raise ModelError(
                    f"order of '{name}' in a PowerLaw is {order}; expected a finite number"
                )
        object.__setattr__(self, "rate", _inner(self.rate, "PowerLaw", PowerLaw))


@dataclass(frozen=True)
class Photolysis(RateCoefficient):
    """A coefficient times a power of the sunlight: k = rate * sunlight^exponent.

    The sunlight is given with the other conditions, as a number or over time; at full light it is
    usually 1, and at night 0.

    Parameters
    ----------
    rate : RateCoefficient or float
        Coefficient where the sunlight is 1. Not `DetailedBalance`.
    exponent : float
        Larger than 0.

    Examples
    --------
    >>> import ergode
    >>> splits = ergode.Reaction("NO2 -> NO + O", rate_constant=ergode.Photolysis(0.01))
    >>> network = ergode.ReactionNetwork({"NO2": 2.0, "NO": 0, "O": 0}, [splits])
    >>> ergode.kinetics.reaction_rates(network, sunlight=0.5)["rate"].item()
    0.01
    """

    rate: RateCoefficient | float
    exponent: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.exponent) and self.exponent > 0.0):
            raise ModelError(f"exponent of a Photolysis is {self.exponent}; expected more than 0")
        object.__setattr__(self, "rate", _inner(self.rate, "Photolysis", PowerLaw, Photolysis))


@dataclass(frozen=True)
class WeakTable(RateCoefficient):
    """A weak rate on a table of electron density and temperature, interpolated in logarithms.

    Parameters
    ----------
    electron_density : sequence of float
        log10 of density times electron fraction [mol/cm3], ascending.
    temperature : sequence of float
        log10 of the temperature [K], ascending.
    rate : sequence of sequence of float
        log10 of the rate [1/s] at each electron density and temperature. Beyond the table the rate
        at the nearest edge is used.
    """

    electron_density: tuple[float, ...]
    temperature: tuple[float, ...]
    rate: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        for name in ("electron_density", "temperature"):
            axis = tuple(map(float, getattr(self, name)))
            if len(axis) < 2 or not all(a < b for a, b in zip(axis[:-1], axis[1:], strict=True)):
                raise ModelError(f"{name} of a weak table needs two or more values that ascend")
            object.__setattr__(self, name, axis)
        rows = tuple(tuple(map(float, row)) for row in self.rate)
        shape = len(self.electron_density), len(self.temperature)
        if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
            raise ModelError(f"rate of a weak table must have the shape {shape} of its axes")
        if not all(math.isfinite(value) for row in rows for value in row):
            raise ModelError("rate of a weak table has a value that is not finite")
        object.__setattr__(self, "rate", rows)


@dataclass(frozen=True)
class DetailedBalance(RateCoefficient):
    """Coefficient of a reverse reaction by detailed balance, for thermodynamic equilibrium.

    Every species of the reaction needs its `thermochemistry`.

    Parameters
    ----------
    forward : RateCoefficient
        Coefficient of the forward reaction.
    """

    forward: RateCoefficient


def _inner(rate: Any, what: str, *others: type) -> RateCoefficient | float:
    """The coefficient within another one."""
    if isinstance(rate, (DetailedBalance, *others)):
        raise ModelError(
            f"rate of a {what} is a {type(rate).__name__}; expected another coefficient"
        )
    if isinstance(rate, RateCoefficient):
        return rate
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < math.inf:
        raise ModelError(f"rate of a {what} is {rate!r}; expected a number of 0 or more")
    return float(rate)


def _pairs(given: Any) -> Efficiencies:
    items = given.items() if isinstance(given, Mapping) else given
    return tuple((str(name), float(value)) for name, value in items)
