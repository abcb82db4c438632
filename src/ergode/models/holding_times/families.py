"""Holding times: how long a node stays in a compartment.

Each distribution accepts the parametrisations used in papers, and stores one canonical pair.  Mean,
density, survival, hazard and quantiles take NumPy arrays.  `sample` draws with the kernels of the
engines, and `code` is the plain data that an engine needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ergode.core.columns import each, exp, expm1, lgamma, log, log1p, sqrt
from ergode.core.errors import ModelError
from ergode.models.holding_times import kernels
from ergode.models.holding_times.base import (
    HoldingTime,
    HoldingTimeCode,
    check_derived,
    chosen_parameters,
    finite_number,
)
from ergode.models.holding_times.empirical import Empirical
from ergode.models.networks.checks import whole

__all__ = [
    "Deterministic",
    "Empirical",
    "Erlang",
    "Exponential",
    "Gamma",
    "HoldingTime",
    "HoldingTimeCode",
    "LogNormal",
    "Weibull",
]


@cache
def _names(family: type[Family]) -> tuple[str, ...]:
    """Names of the parameters of a family; a sweep asks for them for every model."""
    return tuple(one.name for one in fields(family))


@dataclass(frozen=True, init=False, repr=False)
class Family(HoldingTime):
    """Distributions with one or two parameters: the fields, in the order of kernels."""

    _name: ClassVar[str]
    _kind: ClassVar[int]

    def _set(self, **values: float) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _names(type(self))}

    def __repr__(self) -> str:
        values = (f"{name}={value:.12g}" for name, value in self._values().items())
        return f"{type(self).__name__}({', '.join(values)})"

    def code(self) -> HoldingTimeCode:
        return HoldingTimeCode(self._kind, *[getattr(self, name) for name in _names(type(self))])

    def to_dict(self) -> dict[str, Any]:
        return {"distribution": self._name, **self._values()}


@dataclass(frozen=True, init=False, repr=False)
class Exponential(Family):
    """Memoryless holding time.

    Parameters
    ----------
    rate : float
        Rate of ending [1 / time]; or
    mean : float
        Mean [time].

    Raises
    ------
    ModelError
        Not exactly one of the two, or not a finite number above zero.

    Examples
    --------
    >>> import ergode
    >>> ergode.Exponential(mean=4)
    Exponential(rate=0.25)
    """

    _name, _kind = "exponential", kernels.EXPONENTIAL

    rate: float

    def __init__(self, *, rate: float | None = None, mean: float | None = None) -> None:
        if chosen_parameters("Exponential", {"rate": rate, "mean": mean}, ("rate",), ("mean",)) == (
            "rate",
        ):
            value = finite_number("Exponential", "rate", rate)
        else:
            value = 1.0 / finite_number("Exponential", "mean", mean)
        check_derived("Exponential", rate=value)
        self._set(rate=value)

    @property
    def mean(self) -> float:
        return 1.0 / self.rate

    @property
    def variance(self) -> float:
        return 1.0 / self.rate**2

    def _pdf(self, t: np.ndarray) -> Any:
        return self.rate * np.exp(-self.rate * t)

    def _survival(self, t: np.ndarray) -> Any:
        return np.exp(-self.rate * t)

    def _hazard(self, t: np.ndarray) -> Any:
        return np.full_like(t, self.rate)

    def _quantile(self, p: np.ndarray) -> Any:
        return -np.log1p(-p) / self.rate


@dataclass(frozen=True, init=False, repr=False)
class LogNormal(Family):
    """Holding time whose logarithm is normal.

    Parameters
    ----------
    mean, median : float
        Mean and median [time], the mean above the median; or
    mean, sd : float
        Mean and standard deviation [time]; or
    mu, sigma : float
        Mean and standard deviation of the logarithm of the time.

    Raises
    ------
    ModelError
        Another combination of parameters; one that is not finite, or (except `mu`) not above zero;
        or a median that is not below the mean.

    Notes
    -----
    The hazard is sqrt(2 / pi) / (sigma t erfcx(z / sqrt(2))) with z = (log t - mu) / sigma,
    which does not underflow.

    Examples
    --------
    >>> import ergode
    >>> latent = ergode.LogNormal(mean=5, median=4)
    >>> latent
    LogNormal(mu=1.38629436112, sigma=0.668047230837)
    >>> float(latent.survival(4.0))
    0.5
    """

    _name, _kind = "log-normal", kernels.LOG_NORMAL

    mu: float
    sigma: float

    def __init__(
        self,
        *,
        mean: float | None = None,
        median: float | None = None,
        sd: float | None = None,
        mu: float | None = None,
        sigma: float | None = None,
    ) -> None:
        owner = "LogNormal"
        chosen = chosen_parameters(
            owner,
            {"mean": mean, "median": median, "sd": sd, "mu": mu, "sigma": sigma},
            ("mean", "median"),
            ("mean", "sd"),
            ("mu", "sigma"),
        )
        if chosen == ("mu", "sigma"):
            location = finite_number(owner, "mu", mu, signed=True)
            spread = finite_number(owner, "sigma", sigma)
        else:
            average = finite_number(owner, "mean", mean)
            if chosen == ("mean", "median"):
                middle = finite_number(owner, "median", median)
                if middle >= average:
                    raise ModelError(
                        f"LogNormal: median {middle:g} is not below mean {average:g}, as for every "
                        "log-normal distribution; exchange them, or use Deterministic"
                    )
                location = log(middle)
                spread = sqrt(2.0 * log1p((average - middle) / middle))
            else:
                deviation = finite_number(owner, "sd", sd)
                spread = sqrt(log1p((deviation / average) ** 2))
                location = log(average) - 0.5 * spread**2
            check_derived(owner, sigma=spread)
        self._set(mu=location, sigma=spread)

    @property
    def mean(self) -> float:
        return _exp(self.mu + 0.5 * self.sigma**2)

    @property
    def variance(self) -> float:
        growth = expm1(self.sigma**2) if self.sigma**2 < 700 else math.inf
        return growth * _exp(2.0 * self.mu + self.sigma**2)

    @property
    def median(self) -> float:
        return _exp(self.mu)

    def _z(self, t: np.ndarray) -> Any:
        return (np.log(t) - self.mu) / self.sigma

    def _pdf(self, t: np.ndarray) -> Any:
        x = np.log(t)
        z = (x - self.mu) / self.sigma
        density = np.exp(-0.5 * z**2 - x) / (self.sigma * math.sqrt(2 * math.pi))
        return np.where((t == 0) | np.isinf(t), 0.0, density)

    def _survival(self, t: np.ndarray) -> Any:
        from scipy.special import ndtr

        return ndtr(-self._z(t))

    def _hazard(self, t: np.ndarray) -> Any:
        from scipy.special import erfcx

        hazard = math.sqrt(2 / math.pi) / (self.sigma * t * erfcx(self._z(t) / math.sqrt(2)))
        return np.where((t == 0) | np.isinf(t), 0.0, hazard)

    def _quantile(self, p: np.ndarray) -> Any:
        from scipy.special import ndtri

        return np.exp(self.mu + self.sigma * ndtri(p))


@each
def _exp(x: float) -> float:
    return math.exp(x) if x < 709.7 else math.inf


@dataclass(frozen=True, init=False, repr=False)
class Weibull(Family):
    """Holding time with survival exp(-(t / scale)^shape).

    Parameters
    ----------
    shape, scale : float
        Shape, and scale [time]; or
    mean, sd : float
        Mean and standard deviation [time]; sd / mean from 0.001 to 1000.

    Raises
    ------
    ModelError
        Another combination of parameters, one that is not a finite number above zero, or a ratio
        sd / mean out of that range.

    Examples
    --------
    >>> import ergode
    >>> ergode.Weibull(mean=2, sd=2)
    Weibull(shape=1, scale=2)
    """

    _name, _kind = "weibull", kernels.WEIBULL

    shape: float
    scale: float

    def __init__(
        self,
        *,
        shape: float | None = None,
        scale: float | None = None,
        mean: float | None = None,
        sd: float | None = None,
    ) -> None:
        owner = "Weibull"
        given = {"shape": shape, "scale": scale, "mean": mean, "sd": sd}
        if chosen_parameters(owner, given, ("shape", "scale"), ("mean", "sd")) == (
            "shape",
            "scale",
        ):
            form, size = finite_number(owner, "shape", shape), finite_number(owner, "scale", scale)
        else:
            average, deviation = finite_number(owner, "mean", mean), finite_number(owner, "sd", sd)
            ratio = deviation / average
            if not 1e-3 <= ratio <= 1e3:
                raise ModelError(
                    f"Weibull: sd / mean is {ratio:g}; expected 0.001 to 1000 (below that, use "
                    "Deterministic)"
                )
            form = 1.0 / _inverse_weibull_shape(log1p(ratio**2))
            size = average / exp(lgamma(1.0 + 1.0 / form))
            check_derived(owner, shape=form, scale=size)
        self._set(shape=form, scale=size)

    @property
    def mean(self) -> float:
        return self.scale * _exp(lgamma(1.0 + 1.0 / self.shape))

    @property
    def variance(self) -> float:
        growth = _log_second_moment(1.0 / self.shape)
        return self.mean**2 * (expm1(growth) if growth < 700 else math.inf)

    def _pdf(self, t: np.ndarray) -> Any:
        density = self._hazard(t) * self._survival(t)
        return np.where(np.isinf(t), 0.0, density)

    def _survival(self, t: np.ndarray) -> Any:
        return np.exp(-((t / self.scale) ** self.shape))

    def _hazard(self, t: np.ndarray) -> Any:
        return self.shape / self.scale * (t / self.scale) ** (self.shape - 1.0)

    def _quantile(self, p: np.ndarray) -> Any:
        return self.scale * (-np.log1p(-p)) ** (1.0 / self.shape)


def _log_second_moment(x: float) -> float:
    """log(mean of T^2 / (mean of T)^2) = log Gamma(1 + 2x) - 2 log Gamma(1 + x), x = 1 / shape."""
    if x > 0.05:
        return lgamma(1.0 + 2.0 * x) - 2.0 * lgamma(1.0 + x)
    # The difference cancels for small x; its power series (DLMF 5.7.3) does not. The series is
    # the sum over k of (-x)^k zeta(k) (2^k - 2) / k.
    zeta = (1.6449340668482264, 1.2020569031595942, 1.0823232337111382, 1.0369277551433699,
            1.0173430619844491, 1.0083492773819228, 1.0040773561979443, 1.0020083928260822,
            1.0009945751278181, 1.0004941886041195, 1.0002460865533080)  # fmt: skip
    return math.fsum((-x) ** k * z * (2**k - 2) / k for k, z in enumerate(zeta, 2))


def _inverse_weibull_shape(wanted: float) -> float:
    """The x with `_log_second_moment(x) = wanted`, by bisection of its logarithm."""
    low, high = log(1e-4), log(1e3)
    for _ in range(100):
        middle = 0.5 * (low + high)
        if _log_second_moment(exp(middle)) < wanted:
            low = middle
        else:
            high = middle
    return exp(0.5 * (low + high))


@dataclass(frozen=True, init=False, repr=False)
class Gamma(Family):
    """Gamma-distributed holding time.

    Parameters
    ----------
    shape, scale : float
        Shape, and scale [time]; or
    shape, rate : float
        Shape, and rate [1 / time]; or
    mean, sd : float
        Mean and standard deviation [time].

    Raises
    ------
    ModelError
        Another combination of parameters, or one that is not a finite number above zero.

    Examples
    --------
    >>> import ergode
    >>> ergode.Gamma(mean=6, sd=3)
    Gamma(shape=4, scale=1.5)
    """

    _name, _kind = "gamma", kernels.GAMMA

    shape: float
    scale: float

    def __init__(
        self,
        *,
        shape: float | None = None,
        scale: float | None = None,
        rate: float | None = None,
        mean: float | None = None,
        sd: float | None = None,
    ) -> None:
        owner = "Gamma"
        chosen = chosen_parameters(
            owner,
            {"shape": shape, "scale": scale, "rate": rate, "mean": mean, "sd": sd},
            ("shape", "scale"),
            ("shape", "rate"),
            ("mean", "sd"),
        )
        if chosen == ("mean", "sd"):
            average, deviation = finite_number(owner, "mean", mean), finite_number(owner, "sd", sd)
            form, size = (average / deviation) ** 2, deviation * (deviation / average)
        else:
            form = finite_number(owner, "shape", shape)
            if chosen == ("shape", "scale"):
                size = finite_number(owner, "scale", scale)
            else:
                size = 1.0 / finite_number(owner, "rate", rate)
        check_derived(owner, shape=form, scale=size)
        self._set(shape=form, scale=size)

    @property
    def mean(self) -> float:
        return self.shape * self.scale

    @property
    def variance(self) -> float:
        return self.shape * self.scale**2

    def _pdf(self, t: np.ndarray) -> Any:
        from scipy.special import gammaln, xlogy

        x = t / self.scale
        density = np.exp(xlogy(self.shape - 1.0, x) - x - gammaln(self.shape)) / self.scale
        return np.where(np.isinf(x), 0.0, density)

    def _survival(self, t: np.ndarray) -> Any:
        from scipy.special import gammaincc

        return gammaincc(self.shape, t / self.scale)

    def _hazard(self, t: np.ndarray) -> Any:
        survival = self._survival(t)
        direct = self._pdf(t) / survival
        return np.where(survival > 1e-100, direct, self._tail_hazard(t / self.scale) / self.scale)

    def _tail_hazard(self, x: np.ndarray) -> Any:
        """Hazard of scale one, far above the mean, by a continued fraction (DLMF 8.9.2)."""
        fraction = x + (2 * 200 + 1 - self.shape)
        for n in range(200, 0, -1):
            fraction = x + (2 * n - 1 - self.shape) - n * (n - self.shape) / fraction
        return np.where(np.isinf(x), 1.0, fraction / x)

    def _quantile(self, p: np.ndarray) -> Any:
        from scipy.special import gammaincinv

        return gammaincinv(self.shape, p) * self.scale


@dataclass(frozen=True, init=False, repr=False)
class Erlang(Gamma):
    """Sum of `stages` exponential stages: a gamma distribution with integer shape.

    Parameters
    ----------
    stages : int
        Number of stages, one or more; with
    mean : float
        Mean of the sum [time]; or
    rate : float
        Rate of each stage [1 / time].

    Raises
    ------
    ModelError
        Another combination of parameters, stages that are not a whole number of at least one, or
        a mean or rate that is not a finite number above zero.

    Examples
    --------
    >>> import ergode
    >>> ergode.Erlang(stages=3, mean=6)
    Erlang(stages=3, rate=0.5)
    """

    def __init__(
        self, *, stages: int | None = None, mean: float | None = None, rate: float | None = None
    ) -> None:
        owner = "Erlang"
        chosen = chosen_parameters(
            owner,
            {"stages": stages, "mean": mean, "rate": rate},
            ("stages", "mean"),
            ("stages", "rate"),
        )
        count = whole(stages, "Erlang: stages", 1)
        if chosen == ("stages", "mean"):
            size = finite_number(owner, "mean", mean) / count
        else:
            size = 1.0 / finite_number(owner, "rate", rate)
        check_derived(owner, shape=float(count), scale=size)
        self._set(shape=float(count), scale=size)

    @property
    def stages(self) -> int:
        """Number of stages."""
        return int(self.shape)

    @property
    def rate(self) -> float:
        """Rate of each stage [1 / time]."""
        return 1.0 / self.scale

    def __repr__(self) -> str:
        return f"Erlang(stages={self.stages}, rate={self.rate:.12g})"


@dataclass(frozen=True, init=False, repr=False)
class Deterministic(Family):
    """A fixed holding time.

    Its density is infinite at that time, and its hazard from that time on.

    Parameters
    ----------
    value : float
        The time [time].

    Raises
    ------
    ModelError
        The value is not a finite number above zero.

    Examples
    --------
    >>> import ergode
    >>> ergode.Deterministic(3).survival([2.9, 3.0])
    array([1., 0.])
    """

    _name, _kind = "deterministic", kernels.DETERMINISTIC

    value: float

    def __init__(self, value: float) -> None:
        self._set(value=finite_number("Deterministic", "value", value))

    def __repr__(self) -> str:
        return f"Deterministic({self.value:.12g})"

    @property
    def mean(self) -> float:
        return self.value

    @property
    def variance(self) -> float:
        return 0.0

    def _pdf(self, t: np.ndarray) -> Any:
        return np.where(t == self.value, np.inf, 0.0)

    def _survival(self, t: np.ndarray) -> Any:
        return np.where(t < self.value, 1.0, 0.0)

    def _hazard(self, t: np.ndarray) -> Any:
        return np.where(t < self.value, 0.0, np.inf)

    def _quantile(self, p: np.ndarray) -> Any:
        return np.full_like(p, self.value)
