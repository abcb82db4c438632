"""The inputs of parts as those of one call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ergode.core.inputs.comparing import comparable, digest_of_entry, parts_of
from ergode.core.inputs.entries import entry_of
from ergode.core.inputs.rebuilding import AbsentError, call_of, value_of
from ergode.core.inputs.record import text_of_call


def joined(texts: Sequence[str | None], dim: str) -> str | None:
    """The inputs of parts along a dim as those of one call."""
    if texts[0] is None or len(texts) == 1:
        return texts[0]
    every = [json.loads(str(text))["arguments"] for text in texts]
    call = json.loads(texts[0])["call"]
    entries = {
        name: _numbers_of(found) if (name, dim) == ("replicates", "replicate")
        else _whole(found, name)
        for name in every[0] for found in [[one[name] for one in every]]
    }  # fmt: skip
    return text_of_call(call, {name: json.dumps(entry) for name, entry in entries.items()})


def _numbers_of(entries: Sequence[Any]) -> Any:
    """Replicates of parts that follow each other."""
    each = [range(*one["range"]) if isinstance(one, dict) else range(one or 1) for one in entries]
    start, stop = each[0].start, each[0].start + sum(map(len, each))
    return {"range": [start, stop, 1]} if start else stop


def _whole(entries: Sequence[Any], name: str = "") -> Any:
    """An entry of parts, whose rows lie end to end."""
    first = entries[0]
    if all(comparable(one) == comparable(first) for one in entries):
        return first
    kind, _ = parts_of(first)
    each = [parts_of(one)[1] for one in entries]
    if kind == "list" and name == "prior":
        return {"list": [part for one in entries for part in one["list"]]}
    if kind:
        parts = {name: _whole([one[name] for one in each]) for name in each[0]}
        if kind in ("list", "tuple"):
            return {kind: list(parts.values())}
        if "mapping" in first:
            pairs = zip(first["mapping"], parts.values(), strict=True)
            return first | {"mapping": [[key, part] for (key, _), part in pairs]}
        return first | {"with": parts}
    if isinstance(first, dict) and "sizes" in first:
        return first | {"digest": digest_of_entry(list(entries)), "inputs": None}
    try:
        values = [np.atleast_1d(value_of(one)) for one in entries]
    except AbsentError:
        shape = [sum(one["shape"][0] for one in entries), *first["shape"][1:]]
        return {
            "array": None, "type": first["type"], "shape": shape,
            "digest": digest_of_entry(list(entries)),
        }  # fmt: skip
    return entry_of(np.concatenate(values))


def rows_of(text: str) -> Mapping[str, str]:
    """Arguments of a call that may have a value for each member, and the dims of these."""
    found: Mapping[str, str] = call_of(json.loads(text)["call"]).__dict__["rows"]
    return found
