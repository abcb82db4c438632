"""Checks of arguments that several engines take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.columns import is_column, is_finite
from ergode.core.devices.foreign import on_host
from ergode.core.errors import ErgodeError, ModelError, PlanError
from ergode.core.synonyms import ours_for


def time_grid(times: ArrayLike, *, may_descend: bool = False, name: str = "times") -> np.ndarray:
    """The times of a result as an ascending float64 array, or a descending one where it may.

    Parameters
    ----------
    times : array_like, shape [time_count]
        At least one finite time, each later than the one before.
    name : str
        Name of the argument, for messages.

    Raises a ModelError if a time is not finite or does not ascend; the message names the first one.
    """
    single = isinstance(times, int | float | np.number | np.ndarray) and np.ndim(times) == 0
    if single:
        raise ModelError(
            f"{name} is {times!s}, a number; expected a grid: did you mean [0, {times!s}]?"
        )
    # NumPy converts generators and mapping keys only through a list.
    scalar: Any = times
    is_listed = hasattr(times, "__iter__") and not hasattr(times, "__array__")
    plain = list(scalar) if is_listed else times
    numbers = as_numbers(plain)
    if numbers is None:
        if _kind(plain) in "mM":
            raise ModelError(f"{name} are dates; expected numbers in the model's unit of time")
        raise ModelError(f"{name} is {times!r}; expected a list of numbers that ascend")
    grid = np.atleast_1d(numbers)
    if grid.ndim != 1 or grid.size == 0:
        raise ModelError(f"{name} has shape {grid.shape}; expected a list that is not empty")
    bad = np.flatnonzero(~np.isfinite(grid))
    if bad.size:
        raise ModelError(f"{name}[{bad[0]}] is {grid[bad[0]]}; expected finite ones")
    down = may_descend and grid[0] > grid[-1]
    wrong = np.flatnonzero(grid[1:] >= grid[:-1] if down else grid[1:] <= grid[:-1])
    if wrong.size:
        i = int(wrong[0])
        raise ModelError(
            f"{name} must {'descend' if down else 'ascend'}, but {name}[{i + 1}] = {grid[i + 1]:g} "
            f"follows {name}[{i}] = {grid[i]:g}"
        )
    with np.errstate(over="ignore"):
        span = grid[-1] - grid[0]
    if not np.isfinite(span):
        raise ModelError(
            f"{name} are from {grid[0]:g} to {grid[-1]:g}, and float64 does not hold the difference"
        )
    return grid


def count_of(times: Any) -> int:
    """Number of times, before they are checked; 1 if `times` has no length."""
    try:
        return int(times.size) if hasattr(times, "size") else len(times)
    except (TypeError, ValueError, OverflowError):
        return 1


def within_rounding(values: Any, begin: float, end: float) -> np.ndarray:
    """Times, where those outside of a run by no more than a few roundings are its ends."""
    found = np.asarray(values, np.float64)
    tiny = 4 * np.finfo(np.float64).eps * max(abs(begin), abs(end))
    return np.where(
        (found < begin - tiny) | (found > end + tiny), found, np.clip(found, begin, end)
    )


def check_apart(times: np.ndarray, precision: str) -> None:
    """Refuse consecutive times that are equal in this precision.

    Raises a PlanError if two times are equal; the message names the first pair.
    """
    same = np.flatnonzero(np.diff(times.astype(precision)) <= 0)
    if same.size:
        i = int(same[0])
        raise PlanError(
            f"times[{i}] = {float(times[i])!r} and times[{i + 1}] = {float(times[i + 1])!r} are "
            f"the same number in {precision}; use precision='float64', or count time from a later "
            "origin"
        )


def _kind(values: Any) -> str:
    """NumPy's kind letter for the type of the values; that of objects if they are ragged."""
    try:
        return np.asarray(values).dtype.kind
    except ValueError:
        return "O"


def integer(name: str, value: Any, least: int, most: int) -> int:
    """An integer argument within its bounds.

    Raises a PlanError if it is not an integer, or outside; the message names it.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise PlanError(f"{name} is {value!r}; expected an integer")
    if not least <= value <= most:
        raise PlanError(f"{name} is {value}; expected {least} to {most}")
    return int(value)


def replicate_numbers(value: Any, most: int) -> range:
    """The numbers of the replicates to simulate, from a count or a range of them.

    Raises a PlanError if it is neither, or empty, or a number is below 0 or not below `most`.
    """
    if not isinstance(value, range):
        return range(integer("replicates", value, 1, most))
    if value.step != 1 or not value or value.start < 0 or value.stop > most:
        raise PlanError(
            f"replicates is {value}; expected a count, or a range of successive numbers from 0 to "
            f"{most - 1}, such as range(50, 100)"
        )
    return value


def as_numbers(value: Any) -> np.ndarray | None:
    """Real numbers as float64 in their shape; None if `value` is anything else.

    Arrays of a CUDA device are copied to the host.
    NumPy by itself would accept None as NaN, and text and dates as numbers.
    """
    try:
        found = on_host(value)
        if found.dtype.kind == "O" and all(isinstance(one, Number) for one in found.flat):
            found = found.astype(np.float64)
        return found.astype(np.float64) if found.dtype.kind in "biuf" else None
    except (TypeError, ValueError, OverflowError):
        return None


def is_finite_number(value: Any) -> bool:
    """Whether a value is a single finite number and not a bool."""
    if type(value) is float or is_column(value):  # a sweep makes many models
        return is_finite(value)
    found = None if isinstance(value, bool | np.bool_ | str) else as_numbers(value)
    return found is not None and found.ndim == 0 and bool(np.isfinite(found))


def number(name: str, value: Any, *, least: float = -np.inf, above: float = -np.inf) -> float:
    """A finite number, not below `least`, and above `above`.

    Raises
    ------
    PlanError
        It is not one; the message names it.
    """
    if not is_finite_number(value) or not (least <= value and above < value):
        kind = "positive" if above == 0 else "finite" if least < 0 else "non-negative"
        raise PlanError(f"{name} is {value!r}; expected a {kind} number")
    return float(value)


def sequence(name: str, value: Any, expected: str) -> list[Any]:
    """The members of a sequence.

    Raises a ModelError if it is not one; the message names it.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ModelError(f"{name} is {value!r}; expected a sequence of {expected}")
    return list(value)


def by_name(name: str, value: Any, expected: str) -> dict[str, Any]:
    """A mapping of names, or None, as a dict.

    Raises a ModelError if it is neither; the message names it.
    """
    if value is not None and not isinstance(value, Mapping):
        shape = getattr(value, "shape", ())
        shown = f"an array of shape {shape}" if shape else repr(value)
        raise ModelError(f"{name} is {shown}; expected a mapping of names to {expected}")
    return dict(value or {})


def choice(
    name: str, value: Any, known: Collection[str | None], *, error: type[ErgodeError] = PlanError
) -> None:
    """Refuse an unknown value.

    Raises
    ------
    PlanError
        The value is unknown, or another `error`; the message lists the known ones, and suggests
        one that is near, or that is called so elsewhere.
    """
    if not isinstance(value, str | None) or value not in tuple(known):
        *most, last = map(repr, known)
        listed = f"{', '.join(most)} or {last}" if most else last
        raise error(f"{name} {value!r} is unknown; expected {listed}{nearest(value, known)}")


def check_unit(name: str, value: Any) -> None:
    """Refuse a unit that is neither None nor a short text without line breaks, by a ModelError."""
    if value is None or (isinstance(value, str) and value.strip() and value.isprintable()):
        return
    raise ModelError(f"{name} is {value!r}; expected a text such as 'days'")


def nearest(value: Any, known: Iterable[str | None]) -> str:
    """As `did_you_mean`, for one of a few values; empty if `value` is no text."""
    texts = [one for one in known if one is not None]
    return did_you_mean(value, texts, 0.6) if isinstance(value, str) else ""


def did_you_mean(name: Any, known: Iterable[Any], least: float = 0.5) -> str:
    """The end of a message about an unknown name: ``"; did you mean 'alpha'?"``.

    Small and capital letters count as alike; names of other packages count too (`core.synonyms`).
    Empty if no known name is near: if fewer than the part `least` of the letters are alike.
    """
    few = islice(known, _NAMES_MOST)  # a network may have a million names
    small = {str(one).lower(): str(one) for one in few}
    meant = ours_for(name, small.values())
    close = [] if meant else get_close_matches(str(name).lower(), small, 1, least)
    return f"; did you mean '{meant or small[close[0]]}'?" if meant or close else ""


_NAMES_MOST = 10_000


def names_in(kind: str, wanted: str | Iterable[str] | None, known: Iterable[Any]) -> list[str]:
    """The names of a dataset that are wanted: one, several, or None for all.

    Raises a PlanError if one is given twice, or the dataset has no such name; the message lists
    those of this kind that it has.
    """
    own = [str(name) for name in known]
    chosen = own if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in own:
            raise PlanError(
                f"the dataset has no {kind} '{name}'; it has {', '.join(own)}"
                f"{did_you_mean(name, own)}"
            )
    check_once(f"the list of names of {kind}", chosen, PlanError)
    return chosen


def check_distinct(kind: str, names: Sequence[str]) -> None:
    """Refuse one name for two things.

    Raises a ModelError if two have one name; the message tells it.
    """
    if (name := _repeated(names)) is not None:
        raise ModelError(f"two {kind} are called '{name}'; give them names")


def check_once(what: str, names: Sequence[str], error: type[ErgodeError] = ModelError) -> None:
    """Refuse a list that names one thing twice; sums over the list would count it twice.

    Raises `error`; the message begins with `what`, the list.
    """
    if (name := _repeated(names)) is not None:
        raise error(f"{what} has '{name}' twice; expected it once")


def _repeated(names: Sequence[str]) -> str | None:
    """The first name that is there more than once."""
    if len(set(names)) == len(names):
        return None
    return next(name for name in names if names.count(name) > 1)


def check_range(values: Mapping[str, np.ndarray], precision: str) -> None:
    """Refuse numbers that overflow to infinity or underflow to zero in this precision.

    Raises a PlanError if a number is out of range; the message names the first one.
    """
    most = float(np.finfo(precision).max)
    for name, given in values.items():
        rows = _without_repeats(given)
        beyond = np.flatnonzero(np.abs(rows) > most)
        if beyond.size:
            raise PlanError(
                f"{name} is {np.ravel(rows)[beyond[0]]:g}; {precision} holds numbers up to "
                f"{most:.2g}; use precision='float64'"
            )
        vanishing = np.flatnonzero((rows.astype(precision, copy=False) == 0) & (rows != 0))
        if vanishing.size:
            raise PlanError(
                f"{name} is {np.ravel(rows)[vanishing[0]]:g}, for {precision} the same as 0; use "
                "precision='float64'"
            )


def _without_repeats(rows: np.ndarray) -> np.ndarray:
    """The array with length 1 along axes that repeat one value, as broadcasting makes them."""
    rows = np.asarray(rows)
    return rows[tuple(slice(1) if step == 0 else slice(None) for step in rows.strides)]


def check_switch(owner: str, name: str, value: Any) -> None:
    """Refuse anything but True and False: non-empty text, for example, would count as True.

    Raises a ModelError if it is neither; the message names it.
    """
    if not isinstance(value, bool | np.bool_):
        raise ModelError(f"{owner}: {name} is {value!r}; expected True or False")


def refuse_idle(**options: tuple[bool, str]) -> None:
    """Refuse options that change nothing: whether one is given and does not, and why."""
    for name, (is_idle, why) in options.items():
        if is_idle:
            raise PlanError(f"{name} has no effect: {why}; leave it out")


def check_text(owner: str, name: str, value: Any) -> None:
    """Refuse a name that is not text.

    Raises a ModelError if it is not; the message names it.
    """
    if not isinstance(value, str):
        raise ModelError(f"{owner}: {name} is {value!r}; expected text")
