"""Values that are made again from their entries, without executing anything of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from importlib import import_module
from operator import attrgetter
from typing import Any

from ergode.core.errors import ReadError
from ergode.core.inputs.entries import HOMES, KNOWN, array_of
from ergode.core.inputs.text import shown


class AbsentError(Exception):
    """A value is not in the text."""


def value_of(entry: Any) -> Any:
    """The value of an entry.

    Raises an AbsentError if the entry does not contain it.
    """
    if isinstance(entry, dict):
        return _made(entry)
    return entry


def _made(entry: dict[str, Any]) -> Any:
    if "mapping" in entry:
        found = {value_of(key): value_of(value) for key, value in entry["mapping"]}
        return import_module("ergode").grid(**found) if entry.get("kind") == "Grid" else found
    if "list" in entry:
        return [value_of(one) for one in entry["list"]]
    if "tuple" in entry:
        return tuple(value_of(one) for one in entry["tuple"])
    if "range" in entry:
        return range(*entry["range"])
    if "date" in entry:
        from datetime import datetime

        text = entry["date"]
        return (date if len(text) == 10 else datetime).fromisoformat(text)
    if entry.get("array") is not None:
        return array_of(entry)
    known = KNOWN.get(entry.get("digest", ""))
    # A unit of time is no part of the digest of a model.
    unit = entry.get("with", {}).get("time_unit")
    if known is not None and getattr(known, "time_unit", unit) == unit:
        return known
    if "with" not in entry:
        raise AbsentError(shown(entry))
    arguments = {name: value_of(one) for name, one in entry["with"].items()}
    return _maker(entry)(**arguments)


def _maker(entry: Mapping[str, Any]) -> Callable[..., Any]:
    """The class or function that makes an object: one of models, and nothing else."""
    home, _, name = str(entry.get("made", entry["object"])).partition(":")
    if f"{home}.".startswith(HOMES) and all(one.isidentifier() for one in name.split(".")):
        found: Any = attrgetter(name)(import_module(home))
        is_class = isinstance(found, type) and found.__module__ == home
        if is_class or getattr(found, "remembers", False):
            return found
    raise AbsentError(name)


def call_of(name: str) -> Callable[..., Any]:
    """The call of a name; it is one that records its inputs."""
    module, _, function = name.partition(":")
    found = None
    known = f"{module}.".startswith((*HOMES, "ergode.core.results.comparison."))
    if known and function.isidentifier():
        found = getattr(import_module(module), function, None)
    if not getattr(found, "records", False):
        raise ReadError(f"'{name}' is not a call of ergode")
    return found  # type: ignore[return-value]
