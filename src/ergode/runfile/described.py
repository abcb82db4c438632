"""What a key of a run file may hold besides numbers and text: readers that a schema can look into.

A key that has the arguments of a class is a `Described`. The keys that must be there are the
arguments without a default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ergode.runfile.tables import Readers, Table


@dataclass(frozen=True, eq=False)
class Described:
    """The arguments of a class, each with its reader."""

    make: Callable[..., Any]
    readers: Readers

    @property
    def needed(self) -> list[str]:
        """The keys that must be there."""
        arguments = inspect.signature(self.make).parameters
        return [name for name in self.readers if arguments[name].default is inspect.Parameter.empty]

    def __call__(self, table: Table, key: str) -> Any:
        return self.read(table.table(key))

    def read(self, part: Table, *also: str) -> Any:
        """What a table describes, which may have the keys `also`."""
        part.only([*self.readers, *also])
        given = {
            name: read(part, name) for name, read in self.readers.items()
            if name in part or name in self.needed
        }  # fmt: skip
        with part.explaining():
            return self.make(**given)


@dataclass(frozen=True, eq=False)
class Each:
    """A table of any keys, all with one reader."""

    reader: Callable[[Table, str], Any]

    def __call__(self, table: Table, key: str) -> dict[str, Any]:
        part = table.table(key)
        return {name: self.reader(part, name) for name in part.values}


@dataclass(frozen=True, eq=False)
class Either:
    """A table with one reader, anything else with another; or a table that has a key, and others.

    Without `mark`, `first` reads tables.
    """

    first: Callable[[Table, str], Any]
    second: Callable[[Table, str], Any]
    mark: str = ""

    def __call__(self, table: Table, key: str) -> Any:
        found = table.values.get(key)
        is_first = isinstance(found, Mapping) and self.mark in ("", *found)
        return (self.first if is_first else self.second)(table, key)
