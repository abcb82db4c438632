"""A holding time given as a table or as samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.holding_times import kernels
from ergode.models.holding_times.base import HoldingTime, HoldingTimeCode


class Empirical(HoldingTime):
    """Holding time with a tabulated, piecewise-linear cumulative distribution.

    Parameters
    ----------
    times : array_like, shape [row_count]
        Times, not negative and not decreasing [time]. A repeated time is an atom: the cumulative
        probability jumps there.
    cdf : array_like, shape [row_count]
        Cumulative probability at each time: from 0, not decreasing, to 1.

    Raises
    ------
    ModelError
        Arrays differ in length or are too short; a value is not finite, out of order or out of
        range (the message gives its index); or all times are zero.

    Notes
    -----
    Atoms have no density: `pdf` and `hazard` are those of the continuous part.

    Examples
    --------
    >>> import ergode
    >>> incubation = ergode.Empirical([1, 3, 7], [0, 0.5, 1])
    >>> incubation.mean
    3.5
    >>> float(incubation.quantile(0.75))
    5.0
    """

    times: np.ndarray
    cdf: np.ndarray

    def __init__(self, times: ArrayLike, cdf: ArrayLike) -> None:
        t, p = _column("times", times), _column("cdf", cdf)
        if t.size != p.size:
            raise ModelError(
                f"Empirical: times has {counted(t.size, 'value')} and cdf {p.size}; expected "
                "equal lengths"
            )
        if t.size < 2:
            raise ModelError(
                f"Empirical: the table has {counted(t.size, 'row')}; expected at least 2"
            )
        if t[0] < 0:
            raise ModelError(f"Empirical: times[0] is {t[0]:g}; a holding time is not negative")
        for name, column in (("times", t), ("cdf", p)):
            falls = np.flatnonzero(np.diff(column) < 0)
            if falls.size:
                k = int(falls[0])
                raise ModelError(
                    f"Empirical: {name}[{k + 1}] is {column[k + 1]:g}, below {name}[{k}] = "
                    f"{column[k]:g}; expected values that do not decrease"
                )
        if p[0] != 0 or p[-1] != 1:
            raise ModelError(
                f"Empirical: cdf runs from {p[0]:g} to {p[-1]:g}; expected 0 to 1 (for a jump at "
                "the first time, give that time twice)"
            )
        if t[-1] == 0:
            raise ModelError("Empirical: all times are zero; expected some above zero")
        for column in (t, p):
            column.flags.writeable = False
        self.__dict__.update(times=t, cdf=p)

    @classmethod
    def from_samples(cls, samples: ArrayLike) -> Empirical:
        """The distribution with the quantiles of a sample, as ``np.quantile`` interpolates them.

        Parameters
        ----------
        samples : array_like
            Observed times, not negative [time]; equal times become an atom.

        Raises
        ------
        ModelError
            No samples, or one that is negative or not finite.

        Examples
        --------
        >>> import ergode
        >>> float(ergode.Empirical.from_samples([5, 1, 3]).median)
        3.0
        """
        values = _column("samples", np.ravel(np.asarray(samples)))
        if values.size == 0:
            raise ModelError("Empirical.from_samples was given no samples; expected at least one")
        if (values < 0).any():
            k = int(np.argmax(values < 0))
            raise ModelError(
                f"Empirical: samples[{k}] is {values[k]:g}; a holding time is not negative"
            )
        if values.size == 1:
            values = np.repeat(values, 2)
        values = np.sort(values)
        # Rows with equal times: the first and the last define the jump.
        ends = np.ones(values.size, bool)
        ends[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
        return cls(values[ends], np.linspace(0.0, 1.0, values.size)[ends])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an Empirical is frozen; '{name}' cannot be set")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Empirical):
            return NotImplemented
        return np.array_equal(self.times, other.times) and np.array_equal(self.cdf, other.cdf)

    def __hash__(self) -> int:
        return hash((self.times.tobytes(), self.cdf.tobytes()))

    def __repr__(self) -> str:
        return (
            f"Empirical({self.times.size} rows, times {self.times[0]:.6g} to {self.times[-1]:.6g}, "
            f"mean {self.mean:.6g})"
        )

    @property
    def mean(self) -> float:
        middle = 0.5 * (self.times[1:] + self.times[:-1])
        return float(np.diff(self.cdf) @ middle)

    @property
    def variance(self) -> float:
        # The time is uniform within a row: variance within rows, plus variance of their midpoints.
        middle = 0.5 * (self.times[1:] + self.times[:-1])
        width = np.diff(self.times)
        return float(np.diff(self.cdf) @ ((middle - self.mean) ** 2 + width**2 / 12.0))

    def code(self) -> HoldingTimeCode:
        return HoldingTimeCode(kernels.EMPIRICAL, 0.0, 0.0, self.times, self.cdf)

    def to_dict(self) -> dict[str, Any]:
        return {"distribution": "empirical", "times": self.times.tolist(), "cdf": self.cdf.tolist()}

    def _cdf(self, t: np.ndarray) -> Any:
        row = np.searchsorted(self.times, t, side="right")
        low, high = np.clip(row - 1, 0, None), np.clip(row, None, self.times.size - 1)
        width = self.times[high] - self.times[low]
        share = np.where(width > 0, (t - self.times[low]) / np.where(width > 0, width, 1.0), 0.0)
        value = self.cdf[low] + share * (self.cdf[high] - self.cdf[low])
        return np.where(row == 0, 0.0, np.where(row == self.times.size, 1.0, value))

    def _pdf(self, t: np.ndarray) -> Any:
        row = np.searchsorted(self.times, t, side="right")
        inside = (row > 0) & (row < self.times.size)
        row = np.where(inside, row, np.argmax(np.diff(self.times) > 0) + 1)
        slope = (self.cdf[row] - self.cdf[row - 1]) / (self.times[row] - self.times[row - 1])
        return np.where(inside, slope, 0.0)

    def _survival(self, t: np.ndarray) -> Any:
        return 1.0 - self._cdf(t)

    def _hazard(self, t: np.ndarray) -> Any:
        survival = self._survival(t)
        return np.where(survival > 0, self._pdf(t) / survival, np.inf)

    def _quantile(self, p: np.ndarray) -> Any:
        row = np.maximum(np.searchsorted(self.cdf, p, side="left"), 1)
        rise = self.cdf[row] - self.cdf[row - 1]
        share = np.where(rise > 0, (p - self.cdf[row - 1]) / np.where(rise > 0, rise, 1.0), 0.0)
        return self.times[row - 1] + share * (self.times[row] - self.times[row - 1])


def _column(name: str, values: ArrayLike) -> np.ndarray:
    """A new one-dimensional array of finite floats."""
    try:
        array = np.array(values, float)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"Empirical: {name} is not an array of numbers") from None
    if array.ndim != 1:
        raise ModelError(
            f"Empirical: {name} has shape {array.shape}; expected a one-dimensional array"
        )
    bad = ~np.isfinite(array)
    if bad.any():
        k = int(np.argmax(bad))
        raise ModelError(f"Empirical: {name}[{k}] is {array[k]}; expected a finite number")
    return array
