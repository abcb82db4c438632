"""Factors that follow a calendar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.errors import ModelError
from ergode.models.epidemic.dates import as_tuple, moments_of, number_of


@dataclass(frozen=True)
class Calendar:
    """A piecewise constant factor, optionally periodic.

    Parameters
    ----------
    changes : array_like
        Times of changes, ascending [time, on the axis of ``times``], or dates.
    factors : array_like
        Value from each change on, zero or more. Before the first change the first value holds, or
        with a `period` the last value.
    period : float, optional
        Period of the factor: changes lie between 0 and `period`, and time is taken modulo it.

    Examples
    --------
    Weekdays and weekends, in days, if time 0 is the start of a Monday:

    >>> import ergode
    >>> ergode.Calendar([0, 5], [1.0, 0.2], period=7).at([2.5, 6.0, 7.0]).tolist()
    [1.0, 0.2, 1.0]
    """

    changes: Sequence[Any]
    factors: Sequence[float]
    period: float | None = None

    def __post_init__(self) -> None:
        changes = moments_of("Calendar", "changes", self.changes)
        factors = np.atleast_1d(np.asarray(self.factors, float))
        if changes.ndim != 1 or changes.shape != factors.shape or not changes.size:
            raise ModelError(
                f"Calendar: {changes.size} changes and {factors.size} factors; expected a "
                "factor for each change"
            )
        if not np.isfinite(changes).all() or (changes[1:] <= changes[:-1]).any():
            raise ModelError(
                f"Calendar: changes is {self.changes!r:.60}; expected finite times that ascend"
            )
        if not (np.isfinite(factors) & (factors >= 0)).all():
            raise ModelError(
                f"Calendar: factors is {self.factors!r:.60}; expected finite numbers, zero or more"
            )
        if self.period is not None:
            period = number_of("Calendar", "period", self.period)
            if not (math.isfinite(period) and period > 0):
                raise ModelError(f"Calendar: period is {period!r}; expected a time above zero")
            if changes.dtype.kind == "M":
                raise ModelError("Calendar: changes are dates; expected no period")
            if changes[0] < 0 or changes[-1] >= period:
                raise ModelError(
                    f"Calendar: changes is {self.changes!r:.60}; expected times of 0 or more, and "
                    f"less than the period, {period:g}"
                )
            if changes[0] > 0:  # the value at the end of the previous period
                changes, factors = np.append(0.0, changes), np.append(factors[-1], factors)
            object.__setattr__(self, "period", period)
        object.__setattr__(self, "changes", as_tuple(changes))
        object.__setattr__(self, "factors", tuple(factors.tolist()))

    @property
    def has_dates(self) -> bool:
        """Whether its changes are dates."""
        return isinstance(self.changes[0], np.datetime64)

    def at(self, times: ArrayLike) -> np.ndarray:
        """The factor at some times; at dates, where its changes are dates."""
        moments = moments_of("Calendar", "times", times).reshape(np.shape(times))
        if (moments.dtype.kind == "M") != self.has_dates:
            raise ModelError("Calendar: changes and times must both be dates, or both numbers")
        if self.period is not None:
            moments = np.mod(moments, self.period)
        found = np.searchsorted(self.changes, moments, side="right") - 1
        return np.asarray(self.factors)[np.maximum(found, 0)]


def calendar_of(given: Any) -> Any:
    """A series of pandas or xarray, whose index is times or dates, as a Calendar; others as is."""
    given = given.to_series() if hasattr(given, "to_series") and hasattr(given, "dims") else given
    if hasattr(given, "index") and hasattr(given, "to_numpy"):
        return Calendar(given.index.to_numpy(), given.to_numpy())
    return given
