"""Holding times, calendars and doses as plain numbers; no code of the library."""

from __future__ import annotations

from typing import Any

import numpy as np
from epidemics_world import fixed_stay, tidy


def sample(rng: np.random.Generator, law: tuple[Any, ...], count: int) -> np.ndarray:
    """Holding times."""
    kind, mean = law
    if kind == "exponential":
        return rng.exponential(mean, count)
    if kind == "gamma":  # with a standard deviation of half the mean
        return rng.gamma(4.0, mean / 4.0, count)
    if kind == "lognormal":  # of which the logarithm has a standard deviation of a half
        return mean * rng.lognormal(-0.125, 0.5, count)
    if kind == "weibull":  # of shape two, and a scale
        return mean * rng.weibull(2.0, count)
    if kind == "never":
        return np.full(count, np.inf)
    return np.full(count, tidy(mean) if kind == "fixed" else fixed_stay(mean))


def calendar_at(changes: list[float], factors: list[float], *period_and_time: Any) -> np.ndarray:
    """A factor that is constant from one change to the next, and may repeat."""
    *period, time = period_and_time
    time = np.mod(tidy(np.mod(time, period[0])), period[0]) if period else tidy(time)
    return np.asarray(factors)[
        np.maximum(np.searchsorted(tidy(changes), time, side="right") - 1, 0)
    ]


def dose_count(one: dict[str, Any]) -> int:
    return len(one["efficacy"]) if isinstance(one["efficacy"], list) else 1


def of_dose(given: Any, dose: int) -> float:
    """A number of a dose, where there is one for each or for all."""
    return float(given[dose] if isinstance(given, list) else given)
