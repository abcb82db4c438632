"""Profile likelihoods: the least cost at each value of one quantity, where all others are fitted.

With residuals in standard deviations the cost, half the sum of their squares, is the negative
logarithm of the likelihood. A value is in the interval of a level if its cost is above the least
one by no more than half the quantile of chi square with one degree of freedom. The square root of
the rise is nearly linear in the value, so the ends are found by interpolation, and refined there.
A quantity whose profile does not rise is not identifiable; one that rises on one side only is not
identifiable in practice.

A. Raue et al., Bioinformatics 25, 1923 (2009); D. J. Venzon, S. H. Moolgavkar, J. R. Stat. Soc. C
37, 87 (1988).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ergode.core.arguments import did_you_mean, number, sequence
from ergode.core.calls import launch
from ergode.core.errors import FailureWarning, ModelError, PlanError

_SIDE = 5  # values on each side at first, and of each extension
_REACH = 1.5  # how far they go, in half widths of the interval by the standard error
_EXTENSIONS = 4  # each three times as far
_REFINEMENTS = 2
_LOWER = 1e-3  # a cost that is lower by more than this belongs to a better fit


def checked_profiles(
    wanted: Sequence[str], names: Sequence[str], level: float, loss: str
) -> list[str]:
    """The names of the profiles that are asked for."""
    found = list(sequence("profile", wanted, "names in estimate"))
    for name in found:
        if name not in names:
            raise ModelError(
                f"profile has {name!r}; estimated are {', '.join(names)}"
                f"{did_you_mean(str(name), names)}"
            )
    if number("level", level, above=0) >= 1:
        raise PlanError(f"level is {level!r}; expected a number between 0 and 1, such as 0.95")
    if found and loss != "linear":
        raise PlanError(f"profiles are those of normal residuals: loss is {loss!r}; give 'linear'")
    return found


def profiles_of(
    wanted: Sequence[str], names: Sequence[str], best: np.ndarray, least_cost: float, rise: float,
    covariance: np.ndarray, bounds: tuple[np.ndarray, np.ndarray], units: np.ndarray,
    fitted: Callable[[int, np.ndarray], np.ndarray],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Intervals, and the values and costs of the profiles, with NaN where one has fewer."""
    profiles, intervals = [], []
    for name in wanted:
        at = list(names).index(name)
        column, variance = covariance[:, at], covariance[at, at]
        if np.isfinite(variance) and variance > 0:
            direction = np.nan_to_num(column / variance**0.5)
        else:  # the data do not determine it
            direction = np.where(np.arange(len(names)) == at, units, 0.0)
        one = Profile(
            at, best, least_cost, rise, direction, (bounds[0][at], bounds[1][at]),
            partial(fitted, at),
        )  # fmt: skip
        intervals.append(one.compute())
        profiles.append(one)
        if one.costs.min() < least_cost - max(_LOWER, _LOWER * rise):
            lower = one.values[one.costs.argmin()]
            launch.warn(
                f"the profile of {name} has a lower cost at {lower:.6g} than the estimate: the "
                "search ended in a local minimum; begin there, or give starts=20",
                FailureWarning,
            )
    most = max(one.values.size for one in profiles)
    rows = np.full((2, len(profiles), most), np.nan)
    for k, one in enumerate(profiles):
        rows[:, k, : one.values.size] = one.values, one.costs
    return {
        "interval": np.array(intervals), "profile_value": rows[0], "profile_cost": rows[1],
    }  # fmt: skip


class Profile:
    """Values of one quantity, ascending, and the least cost at each."""

    def __init__(
        self, at: int, best: np.ndarray, least_cost: float, rise: float,
        direction: np.ndarray, bounds: tuple[float, float],
        fitted: Callable[[np.ndarray], np.ndarray],
    ) -> None:  # fmt: skip
        """`direction` is the change of all quantities by a standard error of this one.

        `fitted` returns the cost of each place [value, quantity], with all others fitted from it.
        """
        self._at, self._best, self._direction = at, best, direction
        self._low, self._high = bounds
        self._least, self._rise, self._fitted = least_cost, rise, fitted
        self.values, self.costs = best[at : at + 1].copy(), np.array([least_cost])

    def _add(self, values: np.ndarray) -> None:
        values = np.setdiff1d(np.clip(values, self._low, self._high), self.values)
        if not values.size:
            return
        steps = (values - self._best[self._at]) / self._direction[self._at]
        places = self._best + steps[:, None] * self._direction
        places[:, self._at] = values
        found = np.concatenate([self.costs, self._fitted(places)])
        every = np.concatenate([self.values, values])
        order = np.argsort(every)
        self.values, self.costs = every[order], found[order]

    def _crossing(self, way: int) -> float:
        """Where the cost passes the rise on one side; infinite if it does not."""
        middle = int(np.searchsorted(self.values, self._best[self._at]))
        values, costs = self.values[middle::way], self.costs[middle::way]
        roots = np.sqrt(np.maximum(costs - self._least, 0.0))
        goal = self._rise**0.5
        beyond = np.flatnonzero(roots > goal)
        if not beyond.size:
            return way * np.inf
        k = int(beyond[0])
        a, b = roots[k - 1], roots[k]
        if not np.isfinite(b):  # no trajectories are possible there
            return float(values[k - 1] + values[k]) / 2
        return float(values[k - 1] + (values[k] - values[k - 1]) * (goal - a) / (b - a))

    def _ends(self) -> np.ndarray:
        return np.array([self._crossing(way) for way in (-1, 1)])

    def compute(self) -> np.ndarray:
        """Compute the profile; the interval, whose ends are bounds or infinite if it has none."""
        value, half = self._best[self._at], abs(self._direction[self._at]) * (2 * self._rise) ** 0.5
        shares = np.arange(1, _SIDE + 1) / _SIDE * _REACH * half
        self._add(value + np.concatenate([-shares, shares]))
        for _ in range(_EXTENSIONS):
            ends, shares = self._ends(), 3 * shares
            outer, limits = (self.values[0], self.values[-1]), (self._low, self._high)
            missing = [
                value + way * shares
                for way, end, last, limit in zip((-1, 1), ends, outer, limits, strict=True)
                if np.isinf(end) and last != limit
            ]
            if not missing:
                break
            self._add(np.concatenate(missing))
        for _ in range(_REFINEMENTS):
            ends = self._ends()
            self._add(ends[np.isfinite(ends)])
        low, high = self._ends()
        if np.isinf(low) and self.values[0] == self._low:
            low = self._low
        if np.isinf(high) and self.values[-1] == self._high:
            high = self._high
        return np.array([low, high])
