"""The base class of holding times: moments, density, quantiles, samples, and kernel data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import choice
from ergode.core.columns import as_float, is_finite
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.devices import Device, resolve
from ergode.core.errors import ModelError
from ergode.core.kernels import Kernel, for_each
from ergode.core.math.random import SAMPLE
from ergode.models.holding_times import kernels
from ergode.models.networks.checks import seed_word, whole


class HoldingTimeCode(NamedTuple):
    """A holding time as plain data for kernels; see `models.holding_times.kernels`."""

    kind: int  # a constant of `models.holding_times.kernels`
    a: float  # its first parameter; zero if it has none
    b: float = 0.0  # its second one
    times: np.ndarray | None = None  # [row_count]: the table of an empirical holding time
    cdf: np.ndarray | None = None


class HoldingTime(ABC):
    """A distribution of non-negative times.

    Times, means and densities are in the model's own unit of time.
    """

    @property
    @abstractmethod
    def mean(self) -> float:
        """Mean [time]."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance [time^2]."""

    @property
    def median(self) -> float:
        """Median [time]."""
        return float(self.quantile(0.5))

    @abstractmethod
    def code(self) -> HoldingTimeCode:
        """The plain data that an engine needs."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Name and canonical parameters as plain values; equal for equal distributions."""

    def pdf(self, t: ArrayLike) -> Any:
        """Probability density at times `t` [1 / time]; zero at negative times."""
        return _evaluate(self._pdf, t, 0.0)

    def survival(self, t: ArrayLike) -> Any:
        """Probability that the holding time exceeds `t`."""
        return _evaluate(self._survival, t, 1.0)

    def hazard(self, t: ArrayLike) -> Any:
        """Rate of ending at `t`, given that it has not ended before [1 / time].

        Accurate in the far tail, where density and survival are both zero in floating point.
        """
        return _evaluate(self._hazard, t, 0.0)

    def quantile(self, p: ArrayLike) -> Any:
        """Quantile: the time that is not exceeded with probability `p` [time].

        Raises
        ------
        ModelError
            A probability is not between 0 and 1.
        """
        array = np.asarray(p, float)
        bad = ~((array >= 0) & (array <= 1))
        if bad.any():
            first = array[bad].ravel()[0]
            raise ModelError(
                f"p is {first} at position {int(np.argmax(bad.ravel()))}; expected a probability, "
                "0 to 1"
            )
        with np.errstate(all="ignore"):
            return np.asarray(self._quantile(array), float)[()]

    def sample(
        self,
        size: int,
        *,
        seed: int = 0,
        device: str | Device = "cpu",
        precision: Precision = "float64",
    ) -> np.ndarray:
        """Independent draws, equal on every device.

        Parameters
        ----------
        size : int
            Number of draws. The first draws do not depend on it.
        seed : int
            From 0 to 2**64 - 1.
        device : str or Device
            Where to draw.
        precision : {"float64", "float32"}
            Precision of the draws.

        Returns
        -------
        ndarray of float, shape [size]
            Times.

        Raises
        ------
        ModelError
            `size` or `seed` is not a whole number in this range.
        PlanError
            The device is not present, or the precision is unknown.

        Examples
        --------
        >>> import ergode
        >>> times = ergode.Weibull(shape=2, scale=3).sample(100_000, seed=7)
        >>> bool(abs(times.mean() - 2.6587) < 0.02)
        True
        """
        size = whole(size, "size", 0)
        key = seed_word(seed)
        choice("precision", precision, PRECISIONS)
        where = resolve(device)
        kind, a, b, times, cdf = self.code()
        row = np.zeros(1)
        times, cdf = (row, row) if times is None or cdf is None else (times, cdf)
        out = where.empty(size, precision)
        real = np.dtype(precision).type
        where.run(
            _sampler(kind, precision),
            size,
            key,
            np.int64(kind),
            real(a),
            real(b),
            where.put(times.astype(precision)),
            where.put(cdf.astype(precision)),
            np.int64(times.size),
            out,
        )
        return where.get(out)

    @abstractmethod
    def _pdf(self, t: np.ndarray) -> Any: ...

    @abstractmethod
    def _survival(self, t: np.ndarray) -> Any: ...

    @abstractmethod
    def _hazard(self, t: np.ndarray) -> Any: ...

    @abstractmethod
    def _quantile(self, p: np.ndarray) -> Any: ...


def _sample_one(index, seed, kind, a, b, times, cdf, row_count, out):
    out[index] = kernels.draw(kind, a, b, times, cdf, 0, row_count, seed, 0, index, SAMPLE, 0)


@cache
def _sampler(kind: int, precision: Precision) -> Kernel:
    return for_each(_sample_one, precision=precision, bindings=kernels.flags([kind]))


def _evaluate(function: Callable[[np.ndarray], Any], t: ArrayLike, before: float) -> Any:
    """`function` at times from zero on, `before` at negative times, NaN at NaN."""
    array = np.asarray(t, float)
    with np.errstate(all="ignore"):
        values = np.where(array < 0, before, function(np.maximum(array, 0.0)))
        return np.where(np.isnan(array), np.nan, values)[()]


def finite_number(owner: str, name: str, value: Any, *, signed: bool = False) -> float:
    """`value` as a float: finite, and positive unless `signed`."""
    try:
        number: float = as_float(value)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{owner}: {name} is {value!r}; expected a number") from None
    if not is_finite(number) or not (signed or number > 0):
        limit = "finite number" if signed else "finite number above zero"
        raise ModelError(f"{owner}: {name} is {number!r}; expected a {limit}")
    return number


def chosen_parameters(
    owner: str, given: dict[str, Any], *allowed: tuple[str, ...]
) -> tuple[str, ...]:
    """The allowed combination of keywords that was given."""
    present = [name for name, value in given.items() if value is not None]
    for names in allowed:
        if len(present) == len(names) and all(name in names for name in present):
            return names
    found = ", ".join(name for name in given if name in present) or "no parameters"
    choices = [f"{owner}({', '.join(name + '=' for name in names)})" for names in allowed]
    raise ModelError(f"{owner} was given {found}; expected {' or '.join(choices)}")


def check_derived(owner: str, **values: float) -> None:
    """Refuse derived parameters that are not finite and positive: extreme inputs may overflow."""
    for name, value in values.items():
        if not (is_finite(value) and value > 0):
            raise ModelError(
                f"{owner}: the derived {name} is {value!r}; the given parameters are too far apart "
                "for floating point"
            )
