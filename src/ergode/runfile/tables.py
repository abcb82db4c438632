"""Tables of a TOML file: typed look-ups, with errors that name the table and the key."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ErgodeError, ModelError, ReadError
from ergode.models.expressions import Expression
from ergode.models.sweep import Grid, grid
from ergode.readers.bounded import short

_MISSING: Any = object()
_NUMBERS = (int, (int, float))
_LARGEST = 1.7976931348623157e308
_MOST_TIMES = 100_000_000
_WHOLE = 1 << 53  # above this, float64 does not represent every integer


class Table:
    """One table of a run file.

    `named` are the parameters that were read by name, in this table and in tables within it.
    """

    def __init__(
        self,
        values: Mapping[str, Any],  # keys and values from the file
        name: str,  # the table's place in the file, such as ``simulate``; empty for the top
        file: Path,  # the run file; other files are relative to it
        # Values by name: a name, or a formula of names, may stand where a number is expected. None
        # if names are not allowed.
        parameters: Mapping[str, float] | None = None,
    ) -> None:
        self.values = dict(values)
        self.name = name
        self.file = file
        self.parameters = parameters
        self.named: set[str] = set()

    @property
    def place(self) -> str:
        """Name of this table in messages."""
        return f"[{self.name}]" if self.name else "the file"

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def error(self, message: str) -> ReadError:
        """An error about this table."""
        return ReadError(f"{self.file.name}: {message}")

    def only(self, known: Iterable[str]) -> None:
        """Raise for a key that is not one of `known`."""
        known = list(known)
        for key in self.values:
            if key not in known:
                raise self.error(f"{self.place} has no key '{key}'{_hint(key, known)}")

    def options(self, readers: Readers) -> dict[str, Any]:
        """Read all keys, each with its reader; ``times`` is required."""
        self.only(readers)
        return {key: readers[key](self, key) for key in dict.fromkeys(("times", *self.values))}

    def choice(self, key: str, choices: Iterable[str], default: str = _MISSING) -> str:
        """The text of a key, which must be one of `choices`."""
        value = self.text(key, default)
        choices = list(choices)
        if value not in choices:
            raise self.error(f"{self.place} {key} is {value!r}{_hint(value, choices)}")
        return value

    def text(self, key: str, default: str = _MISSING) -> str:
        """The text of a key."""
        return str(self._typed(key, default, str, "text"))

    def number(self, key: str, default: float = _MISSING) -> float:
        """The finite number of a key."""
        value = self._typed(key, default, (int, float), "a number")
        if not abs(value) < math.inf or abs(value) > _LARGEST:
            raise self.error(f"{self.place} {key} is {short(value)}; expected a finite number")
        return float(value)

    def integer(self, key: str, default: int = _MISSING) -> int:
        """The integer of a key."""
        value = int(self._typed(key, default, int, "an integer"))
        if abs(value) >= 1 << 64:
            raise self.error(
                f"{self.place} {key} is {short(value)}; expected an integer of at most 64 bits"
            )
        return value

    def replicates(self, key: str) -> int | range:
        """The number of replicates, or their numbers: a table of start and stop."""
        if not isinstance(self.values.get(key), dict):
            return self.integer(key)
        part = self.table(key)
        part.only(["start", "stop"])
        return range(part.integer("start", 0), part.integer("stop"))

    def boolean(self, key: str, default: bool = _MISSING) -> bool:
        """The boolean of a key."""
        return bool(self._typed(key, default, bool, "true or false"))

    def items(self, key: str) -> list[Any]:
        """The list of a key."""
        return list(self._typed(key, _MISSING, list, "a list"))

    def numbers(self, key: str) -> list[float]:
        """The list of numbers of a key."""
        numbers = [self._number(key, one) for one in self.items(key)]
        if not all(
            isinstance(n, int | float) and not isinstance(n, bool) and not abs(n) > _LARGEST
            for n in numbers
        ):
            raise self.error(f"{self.place} {key} is {short(numbers)}; expected a list of numbers")
        return [float(number) for number in numbers]

    def times(self, key: str) -> np.ndarray:
        """The ascending grid of a key: a list, or a table with start, stop and step or count."""
        if isinstance(self.values.get(key), list):
            return np.array(self.numbers(key))
        found = self.values.get(key)
        if found is not None and not isinstance(found, dict):
            raise self.error(
                f"{self.place} {key} is {short(found)}; expected a list of numbers, or a table of "
                "start, stop, and step or count"
            )
        grid = self.table(key)
        grid.only(["start", "stop", "step", "count"])
        start, stop = grid.number("start", 0.0), grid.number("stop")
        if ("step" in grid) == ("count" in grid):
            raise grid.error(f"{grid.place} needs either 'step' or 'count'")
        if stop <= start:
            raise grid.error(f"{grid.place} stop is {stop:g}, not after start, {start:g}")
        if "count" in grid:
            count = grid.integer("count")
            if not 2 <= count <= _MOST_TIMES:
                raise grid.error(f"{grid.place} count is {count}; expected 2 to {_MOST_TIMES}")
            return np.linspace(start, stop, count)
        step = grid.number("step")
        if not 0 < step <= stop - start:
            raise grid.error(f"{grid.place} step is {step:g}; expected 0 to {stop - start:g}")
        steps = (stop - start) / step * (1 + 1e-12)
        if not steps < _MOST_TIMES:
            raise grid.error(f"{grid.place} step is {step:g}: more than {_MOST_TIMES} steps")
        return start + step * np.arange(int(steps) + 1)

    def moment(self, key: str) -> float | date:
        """The number of a key, or its date."""
        value = self.values.get(key)
        return value if isinstance(value, date) else self.number(key)

    def moments(self, key: str) -> list[Any]:
        """The list of numbers of a key, or of dates."""
        given = self.items(key)
        return given if given and _are_dates(given) else list(self.numbers(key))

    def times_or_dates(self, key: str) -> Any:
        """The grid of a key, as in `times`, with dates and steps of days or with numbers."""
        given = self.values.get(key)
        if isinstance(given, list) and given and _are_dates(given):
            return given
        if not isinstance(given, dict) or not _are_dates([given.get("start"), given.get("stop")]):
            return self.times(key)
        first, last = np.array([given["start"], given["stop"]], "datetime64[us]")
        days = {**given, "start": 0.0, "stop": float((last - first) / np.timedelta64(1, "D"))}
        elapsed = Table({key: days}, self.name, self.file, self.parameters).times(key)
        return first + np.rint(elapsed * 86400e6).astype("timedelta64[us]")

    def one_or_more(self, key: str) -> float | list[float]:
        """The number of a key, or its list of numbers."""
        if key not in self:
            raise self.error(f"{self.place} needs the key '{key}' (a number, or a list)")
        return self.numbers(key) if isinstance(self.values[key], list) else self.number(key)

    def swept(self, key: str) -> Grid:
        """The table of a key as values of a sweep."""
        return self.table(key).sweep()

    def sweep(self) -> Grid:
        """All keys as values of a sweep: numbers; lists and ranges (as in `times`) are crossed.

        A range from integer to integer has only integers.
        """
        found: dict[str, Any] = {}
        for key, value in self.values.items():
            if value == []:
                raise self.error(f"{self.place} {key} is []; expected a number, or a list of them")
            if isinstance(value, list | dict):
                values = self.times(key)
                given = value if isinstance(value, list) else value.values()
                whole = all(isinstance(one, int) for one in given)
                if whole and (values == np.rint(values)).all() and abs(values).max() < _WHOLE:
                    values = values.astype(np.int64)
                found[key] = values
            else:
                self.number(key)
                found[key] = value
        return grid(**found)

    def at(self, parameters: Mapping[str, float]) -> Table:
        """The same table at a point of a sweep."""
        return Table(self.values, self.name, self.file, parameters)

    def table(self, key: str, default: Mapping[str, Any] = _MISSING) -> Table:
        """The table of a key."""
        values = self._typed(key, default, dict, "a table")
        return self._within(values, f"{self.name}.{key}".lstrip("."))

    def _within(self, values: Mapping[str, Any], name: str) -> Table:
        inner = Table(values, name, self.file, self.parameters)
        inner.named = self.named
        return inner

    def tables(self, key: str) -> Iterator[Table]:
        """The tables in a key's list of tables."""
        for number, values in enumerate(self.items(key), 1):
            name = f"{self.name}.{key} {number}".lstrip(".")
            if not isinstance(values, dict):
                raise self.error(f"[{name}] is {short(values)}; expected a table")
            yield self._within(values, name)

    def numbered(self, key: str) -> Table:
        """The list of a key as a table, whose keys are the numbers of the items."""
        items = {str(number): item for number, item in enumerate(self.items(key), 1)}
        return self._within(items, f"{self.name}.{key}".lstrip("."))

    def path(self, key: str) -> Path:
        """The path of a key, relative to the run file."""
        return self.file.parent / Path(self.text(key)).expanduser()

    def value(self, key: str) -> Any:
        """The value of a key, of the parameter that it names, or of its formula of parameters."""
        return self._number(key, self.values.get(key))

    def _number(self, key: str, value: Any) -> Any:
        """A value; if it is text, that of the parameter or the formula."""
        if not isinstance(value, str) or not self.parameters:
            return value
        if value in self.parameters:
            self.named.add(value)
            return self.parameters[value]
        try:
            formula = Expression(value)
        except ModelError:
            return value
        unknown = sorted(formula.names - set(self.parameters))
        if unknown == [value]:
            return value
        if unknown:
            raise self.error(
                f"{self.place} {key} is the formula {value!r}, but '{unknown[0]}' is not in "
                f"[parameters]{_hint(unknown[0], self.parameters)}"
            )
        try:
            found = float(formula.evaluate(self.parameters))
        except ModelError as error:
            raise self.error(f"{self.place} {key}: {error}") from None
        self.named |= formula.names
        whole = all(isinstance(self.parameters[name], int) for name in formula.names)
        return int(found) if whole and found.is_integer() else found

    def _typed(self, key: str, default: Any, kind: Any, expected: str) -> Any:
        if key not in self.values:
            if default is _MISSING:
                raise self.error(f"{self.place} needs the key '{key}' ({expected})")
            return default
        value = self.value(key) if kind in _NUMBERS else self.values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            if kind in _NUMBERS and isinstance(value, str) and self.parameters is not None:
                expected += ", or the name of one in [parameters], or a formula of them" + _hint(
                    value, self.parameters
                )
            raise self.error(f"{self.place} {key} is {short(value)}; expected {expected}")
        return value

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Add the file and this table to error messages."""
        try:
            yield
        except ErgodeError as error:
            if str(error).startswith(f"{self.file.name}: "):
                raise
            raise type(error)(f"{self.file.name}: {self.place}: {error}") from None

    def call(
        self,
        function: Callable[..., Any],
        *given: Any,
        also: Iterable[str] = (),
        special: Mapping[str, Callable[[Table, str], Any]] | None = None,
    ) -> Any:
        """Call a function with the keys of this table as its arguments, after the given ones.

        The function's annotations give the types of the keys; `special` has readers of keys whose
        annotation is not a plain type. The table may have the keys `also`.
        """
        parameters = list(inspect.signature(function).parameters.values())[len(given) :]
        self.only([parameter.name for parameter in parameters] + list(also))
        arguments = {}
        for parameter in parameters:
            if parameter.name in self or parameter.default is inspect.Parameter.empty:
                read = reader_of(str(parameter.annotation), special or {})
                arguments[parameter.name] = read(self, parameter.name)
        with self.explaining():
            return function(*given, **arguments)


def reader_of(
    annotation: str, special: Mapping[str, Callable[[Table, str], Any]]
) -> Callable[[Table, str], Any]:
    """The function that reads a key, chosen by the annotation of its argument."""
    for word, read in special.items():
        if word in annotation:
            return read
    for word, read in _READERS.items():
        if word in annotation:
            return read
    raise TypeError(f"no key can be read for an argument of type {annotation}")


def readers_of(
    function: Callable[..., Any], given: int, own: Readers, without: Iterable[str] = ()
) -> Readers:
    """The readers of the options of a call: those in `own`, and others by name or annotation.

    A run file has no key for the first `given` arguments and for those in `without`.
    """
    known = {"times": Table.times, "replicates": Table.replicates, "store": Table.path, **own}
    left_out = {*without, "progress", "executor", "keep_on_device"}
    parameters = list(inspect.signature(function).parameters.values())[given:]
    return {
        one.name: known.get(one.name) or reader_of(str(one.annotation), {})
        for one in parameters
        if one.name not in left_out
    }


# The first of these words that occurs in an annotation decides.
_READERS: dict[str, Callable[[Table, str], Any]] = {
    "Sequence": Table.items,
    "ArrayLike": Table.items,
    "bool": Table.boolean,
    "float": Table.number,
    "int": Table.integer,
    "str": Table.text,
    **dict.fromkeys(
        ("Literal", "Name", "Heating", "Precision", "Pressure", "Rounding", "Transition"),
        Table.text,
    ),
}


def of_parameters(
    read: Callable[[Table], Any], table: Table, parameters: Mapping[str, Any]
) -> tuple[Any, Any, set[str]]:
    """Read a table that may name parameters, at every point of a sweep.

    Returns the object with every parameter at its value of largest magnitude (a rate that is zero
    there is zero at every point); the same object if it names no parameters, else a function of
    those it names; and their names.
    """
    at = table.at({name: max(np.ravel(v).tolist(), key=abs) for name, v in parameters.items()})
    largest = read(at)
    if not at.named:
        return largest, largest, at.named

    def at_point(**values: float) -> Any:
        return read(table.at(values))

    names = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in parameters]
    mine = [one for one in names if one.name in at.named]
    at_point.__signature__ = inspect.Signature(mine)  # type: ignore[attr-defined]
    return largest, at_point, at.named


def _hint(word: str, known: Iterable[str]) -> str:
    known = list(known)
    if not known:
        return "; there are none"
    guess = did_you_mean(word, known)
    return f"{guess} Known: {', '.join(known)}" if guess else f"; known: {', '.join(known)}"


Readers = Mapping[str, Callable[[Table, str], Any]]
"""The reader of each key of a table."""


def _are_dates(values: Iterable[Any]) -> bool:
    return all(isinstance(one, date) for one in values)
