"""Values of a run file that the command line replaces: ``--set simulate.replicates=50``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

from ergode.core.errors import ReadError
from ergode.readers.bounded import short


def replace_values(values: dict[str, Any], settings: Iterable[str]) -> None:
    """Replace values of a run file, in place.

    Each setting is ``key.path=value``. The value is written as in TOML; a text needs no quotes. In
    a list, the path has a number, counted from 1 as in messages, or the ``name`` of a table.

    Raises a ReadError if a setting has another form, or its path leads through a value that is not
    a table.
    """
    for setting in settings:
        path, is_given, text = setting.partition("=")
        keys = _keys(path) if is_given else []
        if not keys:
            raise ReadError(f"--set {short(setting)}: expected key.path=value")
        _put(values, keys, _value(text, path.strip()), path.strip())


def _keys(path: str) -> list[str]:
    """The keys of a path, which may be quoted as in TOML."""
    try:
        found = tomllib.loads(f"{path}=0") if path.isprintable() else {}
    except (ValueError, RecursionError):
        return []
    keys: list[str] = []
    table: Any = found
    while isinstance(table, dict) and len(table) == 1:
        ((key, table),) = table.items()
        keys.append(key)
    return keys if table == 0 else []


def _value(text: str, path: str) -> Any:
    text = text.strip()
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
        return value
    except (ValueError, RecursionError) as error:
        if not text or text[0] in "[{\"'":
            raise ReadError(f"--set {path}: {short(text)} is not TOML: {error}") from None
        return text  # a shell takes the quotes away


def _put(values: dict[str, Any], keys: list[str], value: Any, path: str) -> None:
    place: Any = values
    for number, key in enumerate(keys):
        where = ".".join(keys[:number])
        is_last = number == len(keys) - 1
        if isinstance(place, list):
            index: Any = _position(place, key)
            if index is None:
                raise ReadError(
                    f"--set {path}: {where} is a list; expected a number from 1 to {len(place)}, "
                    f"or the name of one, not '{key}'"
                )
        elif isinstance(place, dict):
            index = key
            if not is_last:
                place.setdefault(key, {})
        else:
            raise ReadError(f"--set {path}: {where} is {short(place)}; expected a table")
        if is_last:
            place[index] = value
        else:
            place = place[index]


def _position(items: list[Any], key: str) -> int | None:
    """Index of the table with this number or name in a list; None if no single one has it."""
    if key.isdecimal() and 1 <= int(key) <= len(items):
        return int(key) - 1
    named = [at for at, one in enumerate(items) if isinstance(one, dict) and one.get("name") == key]
    return named[0] if len(named) == 1 else None
