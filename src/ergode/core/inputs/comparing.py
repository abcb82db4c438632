"""What of two entries has to be equal, and the first that is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from ergode.core.inputs.entries import SMALL, array_of, dtype_of, entry_of
from ergode.core.inputs.text import shown


def comparable(entry: Any) -> Any:
    """What of an entry has to be equal: numbers by their values, and objects by their digests."""
    if isinstance(entry, bool | int | float):
        return _text_of_number(entry)
    if isinstance(entry, list):
        return [comparable(one) for one in entry]
    if not isinstance(entry, dict):
        return entry
    if "range" in entry and len(range(*entry["range"])) <= SMALL // 8:
        entry = entry_of(np.arange(*entry["range"]))
    if "digest" in entry:
        shown = ("object", "digest", "shape", "type")
        return {name: entry[name] for name in shown if name in entry}
    if entry.get("array") is not None and dtype_of(entry).kind in "biuf":
        return ["array", list(entry["shape"]), comparable(array_of(entry).ravel().tolist())]
    return {name: comparable(one) for name, one in entry.items()}


def _text_of_number(value: float) -> str:
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)
    return repr(float(value))


def digest_of_entry(entry: Any) -> str:
    """Digest of what has to be equal."""
    return sha256(json.dumps(comparable(entry)).encode()).hexdigest()[:32]


def digests(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Digest of every argument; of a mapping, one for each of its values."""
    entries = {name: entry_of(value) for name, value in arguments.items()}
    return {
        name: digest_of_entry(leaf) for key, entry in entries.items()
        for name, leaf in leaves(key, entry)
    }  # fmt: skip


def leaves(name: str, entry: Any) -> Iterator[tuple[str, Any]]:
    """The entry of an argument by name; of a mapping, the entries of its values."""
    if not isinstance(entry, dict) or "mapping" not in entry:
        yield name, entry
        return
    # The order of the names is that of the dims of a sweep.
    yield name, [entry.get("kind"), [key for key, _ in entry["mapping"]]]
    for key, value in entry["mapping"]:
        yield f"{name} {key!r}", value


class Difference(NamedTuple):
    """An argument that differs between two results."""

    name: str
    one: str
    other: str


IsRow = Callable[[str, tuple[Any, ...], Any, bool], bool]
"""``is_row(argument, path, entry, in_grid)``: whether an entry is that of the members of a part."""


def difference(
    one: str, other: str, but: Sequence[str], rows: tuple[IsRow, IsRow]
) -> Difference | None:
    """The first argument that differs between two texts; None if there is none.

    Arguments in `but` are not compared. Rows of members may differ.
    """
    first, second = json.loads(one), json.loads(other)
    if first["call"] != second["call"]:
        return Difference("call", first["call"], second["call"])
    for name, entry in first["arguments"].items():
        if name not in but:
            found = _difference(name, (), entry, second["arguments"].get(name), rows, False)
            if found is not None:
                path, left, right = found
                label = " ".join([name, *(repr(part) for part in path)])
                return Difference(label, shown(left), shown(right))
    return None


def _difference(
    name: str, path: tuple[Any, ...], one: Any, other: Any, rows: tuple[IsRow, IsRow], grid: bool
) -> tuple[tuple[Any, ...], Any, Any] | None:
    if comparable(one) == comparable(other):
        return None
    if all(is_row(name, path, x, grid) for is_row, x in zip(rows, (one, other), strict=True)):
        return None
    (kind, parts), (other_kind, others) = parts_of(one), parts_of(other)
    if not kind or kind != other_kind or list(parts) != list(others):
        return path, one, other
    grid = grid or kind == "Grid"
    for key, left in parts.items():
        found = _difference(name, (*path, key), left, others[key], rows, grid)
        if found is not None:
            return found
    return None


def length_of(entry: Any, depth: int) -> int | None:
    """Number of rows, each with as many dims as `depth`; None if it has no rows, as one number."""
    if isinstance(entry, dict) and "list" in entry:
        return len(entry["list"]) if depth == 0 else None
    if isinstance(entry, dict) and "range" in entry:
        return len(range(*entry["range"])) if depth == 0 else None
    if isinstance(entry, dict) and "array" in entry:
        shape = entry["shape"]
        return int(shape[0]) if len(shape) == depth + 1 else None
    return None


def parts_of(entry: Any) -> tuple[str, dict[Any, Any]]:
    """What has parts, and its parts by name."""
    if not isinstance(entry, dict):
        return "", {}
    if "mapping" in entry:
        parts = {
            key if isinstance(key, str) else str(comparable(key)): v for key, v in entry["mapping"]
        }
        return entry.get("kind", "mapping"), parts
    for kind in ("list", "tuple"):
        if kind in entry:
            return kind, dict(enumerate(entry[kind]))
    if "with" in entry and "digest" not in entry:
        return entry["object"], entry["with"]
    return "", {}
