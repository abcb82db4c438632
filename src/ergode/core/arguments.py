"""Arguments that every engine takes, checked at the door."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.errors import ModelError, PlanError


def time_grid(times: ArrayLike) -> np.ndarray:
    """The times of a result as an ascending float64 array.

    Parameters
    ----------
    times : array_like, shape [time_count]
        At least one finite time, each later than the one before.

    Raises
    ------
    ModelError
        They are not; the message names the first that is not.
    """
    if np.ndim(times) == 0 and isinstance(times, int | float | np.number | np.ndarray):
        raise ModelError(f"times is {times}, a number; times is a grid: did you mean [0, {times}]?")
    try:
        # A generator or a mapping's keys become an array only by way of a list.
        scalar: Any = times
        plain = list(scalar) if np.ndim(times) == 0 and hasattr(times, "__iter__") else times
        found = np.asarray(plain)
        grid = np.atleast_1d(found.astype(np.float64))
    except (TypeError, ValueError):
        raise ModelError(f"times is {times!r}; expected a list of numbers that ascend") from None
    if found.dtype.kind in "mM":
        raise ModelError("times are dates; expected numbers in the model's unit of time")
    if grid.ndim != 1 or grid.size == 0:
        raise ModelError(f"times has shape {grid.shape}; expected a non-empty list of times")
    bad = np.flatnonzero(~np.isfinite(grid))
    if bad.size:
        raise ModelError(f"times[{bad[0]}] is {grid[bad[0]]}; expected finite times")
    falls = np.flatnonzero(np.diff(grid) <= 0)
    if falls.size:
        i = int(falls[0])
        raise ModelError(
            f"times must ascend, but times[{i + 1}] = {grid[i + 1]:g} follows times[{i}] = "
            f"{grid[i]:g}"
        )
    return grid


def integer(name: str, value: Any, least: int, most: int) -> int:
    """An integer argument within its bounds.

    Raises
    ------
    PlanError
        It is not an integer, or outside; the message names it.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise PlanError(f"{name} is {value!r}; expected an integer")
    if not least <= value <= most:
        raise PlanError(f"{name} is {value}; expected {least} to {most}")
    return int(value)


def choice(name: str, value: Any, known: Collection[str]) -> None:
    """Refuse an unknown value.

    Raises
    ------
    PlanError
        It is not; the message lists those that are.
    """
    if value not in tuple(known):
        *most, last = map(repr, known)
        listed = f"{', '.join(most)} or {last}" if most else last
        raise PlanError(f"{name} {value!r} is unknown; expected {listed}")


def check_range(values: Mapping[str, np.ndarray], precision: str) -> None:
    """Refuse numbers that a precision does not hold: they would become infinite.

    Raises
    ------
    PlanError
        The message names the first.
    """
    most = float(np.finfo(precision).max)
    for name, rows in values.items():
        beyond = np.flatnonzero(np.abs(rows) > most)
        if beyond.size:
            raise PlanError(
                f"{name} is {np.ravel(rows)[beyond[0]]:g}; {precision} holds numbers up to "
                f"{most:.2g}; use precision='float64'"
            )


def check_switch(owner: str, name: str, value: Any) -> None:
    """Refuse what is not True or False: text, for one, would count as True.

    Raises
    ------
    ModelError
        It is not; the message names it.
    """
    if not isinstance(value, bool | np.bool_):
        raise ModelError(f"{owner}: {name} is {value!r}; expected True or False")


def check_text(owner: str, name: str, value: Any) -> None:
    """Refuse a name that is not text.

    Raises
    ------
    ModelError
        It is not; the message names it.
    """
    if not isinstance(value, str):
        raise ModelError(f"{owner}: {name} is {value!r}; expected text")
