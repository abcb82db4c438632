"""Times as users give them: numbers, or calendar dates that become days since the origin."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import date
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ergode.core.errors import ModelError

T = TypeVar("T")

Moment: TypeAlias = Any
"""A time, or a date until a simulation makes days of it."""

_TEXT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
_KIND = "datetime64[us]"
_DAY = np.timedelta64(86_400_000_000, "us")
# Dates that fit the nanoseconds of pandas.
_FIRST, _LAST = np.datetime64("1678-01-01", "us"), np.datetime64("2262-01-01", "us")


def dates_of(name: str, values: Any) -> np.ndarray | None:
    """Dates as an array of datetime64[us] of the shape of `values`; None if these are not dates.

    Dates are text such as ``"2026-03-01"`` or ``"2026-03-01 12:00"``, or those of `datetime`, NumPy
    or pandas.

    Raises a ModelError if a date does not exist, is missing, or has a time zone.
    """
    listed = isinstance(values, Iterable) and not isinstance(values, str)
    plain: Any = list(values) if listed and not hasattr(values, "__array__") else values
    try:
        array = np.asarray(plain)
    except ValueError:  # rows of unequal length
        return None
    flat = array.ravel().tolist() if array.dtype.kind in "UO" else []
    if array.dtype.kind != "M" and not (flat and all(map(_is_date, flat))):
        return None
    for one in flat:
        if getattr(one, "tzinfo", None) is not None:
            raise ModelError(f"{name}: {one} has a time zone; expected a date without one")
    try:
        found = array.astype(_KIND)
    except (ValueError, OverflowError):
        raise ModelError(f"{name} is {values!r}; there is no such date") from None
    if np.isnat(found).any():
        raise ModelError(f"{name}: a date is missing (NaT)")
    return found


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _TEXT.fullmatch(value) is not None
    return isinstance(value, date | np.datetime64)


def number_of(
    owner: str, name: str, value: Any, least: float = 0.0, most: float = math.inf
) -> float:
    """`value` as a float in [least, most]."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{owner}: {name} is {value!r}; expected a number") from None
    if not least <= number <= most:
        limits = f"between {least:g} and {most:g}" if math.isfinite(most) else f"{least:g} or more"
        raise ModelError(f"{owner}: {name} is {value!r}; expected a number, {limits}")
    return number


def moment_of(owner: str, name: str, value: Any) -> Moment:
    """A finite or infinite time, or a date."""
    dates = dates_of(f"{owner}: {name}", value)
    if dates is not None and dates.ndim == 0:
        return dates[()]
    if isinstance(value, str):
        raise ModelError(
            f"{owner}: {name} is {value!r}; expected a number, or a date such as '2026-03-01'"
        )
    return number_of(owner, name, value, -math.inf)


def moments_of(owner: str, name: str, values: Any) -> np.ndarray:
    """A list of times or of dates."""
    dates = dates_of(f"{owner}: {name}", values)
    return np.atleast_1d(np.asarray(values, float) if dates is None else dates)


def as_tuple(moments: np.ndarray) -> tuple[Any, ...]:
    """Times as a tuple of floats, dates as a tuple of dates."""
    return tuple(moments) if moments.dtype.kind == "M" else tuple(moments.tolist())


def origin_of(origin: Any, times: Any) -> Any:
    """The date of time zero: `origin`, or the earliest of `times` if these are dates.

    Raises a ModelError if `origin` is not a date.
    """
    if origin is None:
        dates = dates_of("times", times)
        return None if dates is None or not dates.size else dates.min()
    found = dates_of("origin", origin)
    if found is None or found.ndim:
        raise ModelError(f"origin is {origin!r}; expected a date such as '2026-03-01'")
    return found[()]


def days_since(
    origin: np.datetime64 | None, name: str, values: Any, *, may_precede: bool = False
) -> Any:
    """Dates as days since the origin; numbers as they are.

    Raises a ModelError if there is no origin, or a date lies before it.
    """
    dates = dates_of(name, values)
    if dates is None:
        return values
    if origin is None:
        raise ModelError(f"{name} is a date; give the date of time zero, origin='2026-03-01'")
    early = np.ravel(dates[dates < origin])
    if early.size and not may_precede:
        raise ModelError(f"{name} is {text_of(early[0])}, before the origin {text_of(origin)}")
    return (dates - origin) / _DAY


def dates_since(origin: np.datetime64, days: np.ndarray) -> np.ndarray:
    """Dates of times in days since the origin; missing times have none."""
    exact = np.asarray(days, float)
    known = np.isfinite(exact)
    steps = np.rint(np.where(known, exact, 0.0) * _DAY.astype(float)).astype("timedelta64[us]")
    found = np.where(known, origin + steps, np.datetime64("NaT", "us"))
    inside = found[known]
    fits = not inside.size or (inside.min() > _FIRST and inside.max() < _LAST)
    return found.astype("datetime64[ns]") if fits else found


def on_clock(
    one: T, origin: np.datetime64 | None, *, may_precede: bool = False, owner: str | None = None
) -> T:
    """A copy of a measure, whose dates are days since the origin."""
    owner = owner or type(one).__name__
    changed: dict[str, Any] = {}
    for field in fields(one):  # type: ignore[arg-type]
        value = getattr(one, field.name)
        if getattr(value, "has_dates", False):  # a calendar
            changed[field.name] = on_clock(value, origin, owner=f"{owner}: {field.name}")
        elif isinstance(value, np.datetime64 | tuple):
            name = f"{owner}: {field.name}"
            days = days_since(origin, name, value, may_precede=may_precede)
            if days is not value:
                changed[field.name] = float(days) if np.ndim(days) == 0 else tuple(days)
    return replace(one, **changed) if changed else one  # type: ignore[type-var]


def text_of(moment: Moment) -> str:
    """A time or a date as text; a date with the time of day unless that is midnight."""
    if not isinstance(moment, np.datetime64):
        return f"{moment:g}"
    text = str(moment.astype(_KIND)).removesuffix(".000000")
    return text.removesuffix("T00:00:00")
