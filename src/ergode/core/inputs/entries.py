"""Entries: values as JSON. Small ones are in it, large ones by digest, objects by their calls."""

from __future__ import annotations

import inspect
import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from hashlib import sha256
from secrets import token_hex
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ergode.core.digests import digest_of, text_of_function
from ergode.core.inputs.datasets import digest_of_result, is_result, text_of_result

_LISTED = 32  # numbers of an array that are written as such
SMALL = 1 << 14  # bytes of an array that is recorded by value
_MOST = 10_000  # parts of an object that is recorded by value
MADE_BY = "_made_by"

KNOWN: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Functions, models and large arrays that are alive in this process, by digest."""
_RECENT: deque[FunctionType] = deque(maxlen=64)


def know(digest: str, value: Any) -> str:
    """Remember a value by its digest as long as it is alive; returns the digest."""
    with suppress(TypeError):  # it cannot be referred to weakly
        KNOWN[digest] = value
    return digest


class TooLargeError(Exception):
    """An object has too many parts to be recorded by value."""


class Writer:
    """Writes entries of values; digests of large arrays are left for `finish`."""

    def __init__(self) -> None:
        self._later: list[np.ndarray] = []
        self._digests: list[str] = []
        self._left = _MOST

    def finish(self) -> None:
        """Compute the digests that are left."""
        for array in self._later:
            digest = sha256(np.ascontiguousarray(array).data.cast("B")).hexdigest()[:32]
            self._digests.append(know(digest, array))

    def filled(self, text: str) -> str:
        """A text with the digests that were left."""
        for number, digest in enumerate(self._digests):
            text = text.replace(f"<digest {number}>", digest)
        return text

    def whole_entry(self, value: Any) -> str:
        """The entry of an argument. It never fails: what cannot be written is equal to nothing."""
        self._left, name = _MOST, type(value).__qualname__
        try:
            return self.entry(value)
        except TooLargeError:
            return f'{{"object": "{name}", "digest": "{digest_of(value)}"}}'
        except Exception:  # equal to nothing; the call says what is wrong with it
            return f'{{"object": "{name}", "digest": "unknown {token_hex(12)}"}}'

    def entry(self, value: Any, exact: bool = False) -> str:
        """The entry of a value; `exact` within objects, where a tuple is no array."""
        self._left -= 1
        if self._left < 0:
            raise TooLargeError
        kind = type(value)
        if kind is str:
            return _quoted(value)
        if kind is int:
            return repr(value)
        if kind is np.ndarray:
            return self._array(value)
        if kind is float or value is None or kind is bool:
            return _JSON.get(text := repr(value), text)
        if is_result(value):
            return text_of_result(value, know(digest_of_result(value), value))
        if isinstance(value, Mapping):
            return self._mapping(value, exact)
        if kind is range:
            return f'{{"range": [{value.start}, {value.stop}, {value.step}]}}'
        if isinstance(value, list | tuple) or kind.__name__ == "ReactionTable":
            return self._sequence(value, exact)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return self.entry(value.item())
        if isinstance(value, np.ndarray):
            return self._array(np.asarray(value))
        if isinstance(value, date):
            return f'{{"date": "{value.isoformat()}"}}'
        if isinstance(value, str | int | float) and not isinstance(value, Enum):
            return json.dumps(value)
        if kind.__module__.partition(".")[0] == "pandas" and getattr(value, "ndim", 0) == 1:
            numbers = value.to_numpy()  # a column of a table
            if numbers.dtype.kind in "biuf":
                return self._array(numbers)
        return self._object(value)

    def _mapping(self, value: Mapping[Any, Any], exact: bool) -> str:
        if self._left < len(value):
            raise TooLargeError
        pairs = [f"[{self.entry(k, exact)}, {self.entry(v, exact)}]" for k, v in value.items()]
        kind = ', "kind": "Grid"' if type(value).__name__ == "Grid" else ""
        return f'{{"mapping": [{", ".join(pairs)}]{kind}}}'

    def _sequence(self, value: Sequence[Any], exact: bool) -> str:
        kinds = {type(one) for one in value} if len(value) <= _LISTED else set()
        if not exact and kinds and kinds <= _NUMBERS:
            kind, values = ("<f8" if float in kinds else "<i8"), repr(list(value))
            if "n" not in values and len(values) < 20 * len(value) + 20:  # finite, and 64 bits
                return f'{{"array": {values}, "type": "{kind}", "shape": [{len(value)}]}}'
        if not exact and len(value) and _is_number(value[0]):
            array = np.asarray(value)
            if array.dtype.kind in "biuf":
                return self._array(array)
        if self._left < len(value):
            raise TooLargeError
        kind = "tuple" if isinstance(value, tuple) else "list"
        return f'{{"{kind}": [{", ".join([self.entry(one, exact) for one in value])}]}}'

    def _array(self, array: np.ndarray) -> str:
        kind, shape = array.dtype.kind, list(array.shape)
        if not shape and kind in "biuf":
            return self.entry(array.item())
        if kind in "OSU":  # names, or what NumPy does not know
            if array.size > self._left:
                return f'{{"array": null, "shape": {shape}, "digest": "{digest_of(array)}"}}'
            return self._sequence(array.tolist(), True)
        if array.size <= _LISTED and kind in "iuf":
            values = repr(array.ravel().tolist())
            values = values if "n" not in values else json.dumps(array.ravel().tolist())
        elif array.nbytes <= SMALL:
            values = f'"{b64encode(np.ascontiguousarray(array).data.cast("B")).decode()}"'
        else:
            values = f'null, "digest": "<digest {len(self._later)}>"'
            self._later.append(array)
        return f'{{"array": {values}, "type": "{array.dtype.str}", "shape": {shape}}}'

    def _object(self, value: Any) -> str:
        if isinstance(value, FunctionType):
            _RECENT.append(value)
            digest = know(digest_of(value), value)
            return f'{{"function": {_quoted(text_of_function(value))}, "digest": "{digest}"}}'
        kind = type(value)
        found = f'"object": "{kind.__module__}:{kind.__qualname__}"'
        own = getattr(value, "digest", None)
        if not isinstance(own, str):
            own = None
        left = self._left
        try:
            recipe = self._recipe(value)
        except TooLargeError:
            self._left, recipe = left, ""
        if own is None and not recipe:
            own = digest_of(value)
        if own is not None:
            found += f', "digest": "{know(own, value)}"'
        return f"{{{found}{recipe}}}"

    def _recipe(self, value: Any) -> str:
        """How the object is made again."""
        made = getattr(value, MADE_BY, None)
        if made is not None:
            maker, arguments = made
            parts = [f'"{name}": {self.entry(v, True)}' for name, v in arguments.items()]
            return f', "made": "{maker}", "with": {{{", ".join(parts)}}}'
        kind: Callable[..., Any] = type(value)
        names = None if isinstance(value, Enum) else _arguments_of(kind)
        if names is None or not all(hasattr(value, name) for name in names):
            return ""
        given = ((name, getattr(value, name), usual) for name, usual in names.items())
        parts = [
            f'"{name}": {self.entry(part, True)}'
            for name, part, usual in given
            if part is not usual
        ]
        return f', "with": {{{", ".join(parts)}}}'


_JSON = {
    "None": "null", "True": "true", "False": "false", "nan": "NaN", "inf": "Infinity",
    "-inf": "-Infinity",
}  # fmt: skip
_quoted = json.encoder.encode_basestring_ascii


def entry_of(value: Any) -> Any:
    """The entry of a value, read."""
    writer = Writer()
    text = writer.whole_entry(value)
    writer.finish()
    return json.loads(writer.filled(text))


_NUMBERS = {int, float}


def _is_number(value: Any) -> bool:
    """Whether it may be the first of numbers, or of rows of them."""
    if isinstance(value, list | tuple):
        return bool(value) and _is_number(value[0])
    return isinstance(value, bool | int | float | np.number | np.bool_ | np.ndarray)


HOMES = tuple(
    f"ergode.{one}." for one in
    ("models", "trajectories", "kinetics", "density", "stochastic", "epidemics", "particles",
     "inference")
)  # fmt: skip


@cache
def _arguments_of(kind: Callable[..., Any]) -> dict[str, Any] | None:
    """Arguments of a class of models that are also attributes, and their defaults."""
    if not kind.__module__.startswith(HOMES) or kind.__qualname__ != kind.__name__:
        return None
    given = inspect.signature(kind).parameters.values()
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in given):
        return None
    known = {one.name: one.default for one in given}
    if is_dataclass(kind):
        own = [one.name for one in fields(kind) if one.init]
        if set(own) <= set(known):
            return {name: known[name] for name in own}
    return known


def dtype_of(entry: Mapping[str, Any]) -> np.dtype:
    """Type of the elements of an array's entry."""
    return np.dtype(str(entry["type"]))


def array_of(entry: Mapping[str, Any]) -> np.ndarray:
    """The array of an entry that has it by value."""
    values, kind = entry["array"], dtype_of(entry)
    if isinstance(values, str):
        return np.frombuffer(b64decode(values), kind).reshape(entry["shape"]).copy()
    return np.asarray(values, kind).reshape(entry["shape"])
