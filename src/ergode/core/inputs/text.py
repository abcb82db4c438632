"""Entries as text for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.inputs.entries import array_of


def shown(entry: Any, most: int = 60) -> str:
    """An entry as text, cut to a length."""
    text = _shown(entry)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _shown(entry: Any) -> str:
    if not isinstance(entry, dict):
        return repr(entry)
    if "mapping" in entry:
        return "{" + ", ".join(f"{_shown(k)}: {_shown(v)}" for k, v in entry["mapping"]) + "}"
    for kind, (left, right) in {"list": ("[", "]"), "tuple": ("(", ")")}.items():
        if kind in entry:
            return left + ", ".join(map(_shown, entry[kind])) + right
    if "date" in entry:
        return str(entry["date"])
    if "range" in entry:
        return str(range(*entry["range"]))
    if "function" in entry:
        return str(entry["function"])
    if "object" in entry:
        name = str(entry.get("made", entry["object"])).partition(":")[2]
        if entry.get("inputs"):
            name += f" of {entry['inputs']['call'].replace(':', '.')}"
        if "with" in entry:
            return f"{name}({', '.join(f'{k}={_shown(v)}' for k, v in entry['with'].items())})"
        return f"{name} with digest {str(entry['digest'])[:12]}"
    if entry.get("array") is not None:
        values = array_of(entry)
        return np.array2string(values, separator=", ", threshold=20, edgeitems=3).replace("\n", "")
    return f"array of shape {tuple(entry['shape'])} with digest {str(entry['digest'])[:12]}"
