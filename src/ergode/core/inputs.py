"""What a result was computed from: the arguments of its call, in one attribute.

The attribute ``inputs`` is a text (JSON): the call, the version, and an entry for each argument. An
entry has numbers, names and small arrays by value, large arrays by digest, and an object of this
library as the call that makes it. So it is kept by files, selections and other processes. Nothing
in it is executed when it is read: an entry names classes of models alone, and a function is only
shown.

In the process that made the call, functions, models and arrays that are still in use are found by
their digests.
"""

from __future__ import annotations

import inspect
import json
import marshal
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache, wraps
from hashlib import sha256
from importlib import import_module
from operator import attrgetter
from secrets import token_hex
from threading import Thread
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np

from ergode.core.digests import digest_of, text_of_function
from ergode.core.errors import PlanError, ReadError

if TYPE_CHECKING:
    import xarray

P = ParamSpec("P")
R = TypeVar("R")

ATTRIBUTE = "inputs"
WITHOUT_EFFECT = (
    "executor", "store", "chunk", "checkpoint", "keep_on_device", "device", "progress", "compile",
)  # fmt: skip
"""Arguments that do not change a result. They are not recorded."""

_LISTED = 32  # numbers of an array that are written as such
_SMALL = 1 << 14  # bytes of an array that is recorded by value
_AT_ONCE = 1 << 16  # bytes of arrays whose digest is not computed beside the call
_MOST = 10_000  # parts of an object that is recorded by value
_MADE_BY = "_made_by"
_KEPT = 64


# ---- entries


_KNOWN: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Functions, models and large arrays that are alive in this process, by digest."""
_RECENT: deque[FunctionType] = deque(maxlen=64)


def _know(digest: str, value: Any) -> str:
    with suppress(TypeError):  # it cannot be referred to weakly
        _KNOWN[digest] = value
    return digest


class _TooLargeError(Exception):
    """An object has too many parts to be recorded by value."""


class _Writer:
    """Writes entries of values; digests of large arrays are left for `finish`."""

    def __init__(self) -> None:
        self._later: list[np.ndarray] = []
        self._digests: list[str] = []
        self._left = _MOST

    def finish(self) -> None:
        """Compute the digests that are left."""
        for array in self._later:
            digest = sha256(np.ascontiguousarray(array).data.cast("B")).hexdigest()[:32]
            self._digests.append(_know(digest, array))

    def filled(self, text: str) -> str:
        """A text with the digests that were left."""
        for number, digest in enumerate(self._digests):
            text = text.replace(f"<digest {number}>", digest)
        return text

    def whole_entry(self, value: Any) -> str:
        """The entry of an argument, whatever it is."""
        self._left, name = _MOST, type(value).__qualname__
        try:
            return self.entry(value)
        except _TooLargeError:
            return f'{{"object": "{name}", "digest": "{digest_of(value)}"}}'
        except Exception:  # equal to nothing; the call says what is wrong with it
            return f'{{"object": "{name}", "digest": "unknown {token_hex(12)}"}}'

    def entry(self, value: Any, exact: bool = False) -> str:
        """The entry of a value; `exact` within objects, where a tuple is no array."""
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        kind = type(value)
        if kind is str:
            return _quoted(value)
        if kind is int:
            return repr(value)
        if kind is np.ndarray:
            return self._array(value)
        if kind is float or value is None or kind is bool:
            return _JSON.get(text := repr(value), text)
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
        return self._object(value)

    def _mapping(self, value: Mapping[Any, Any], exact: bool) -> str:
        if self._left < len(value):
            raise _TooLargeError
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
            raise _TooLargeError
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
        elif array.nbytes <= _SMALL:
            values = f'"{b64encode(np.ascontiguousarray(array).data.cast("B")).decode()}"'
        else:
            values = f'null, "digest": "<digest {len(self._later)}>"'
            self._later.append(array)
        return f'{{"array": {values}, "type": "{array.dtype.str}", "shape": {shape}}}'

    def _object(self, value: Any) -> str:
        if isinstance(value, FunctionType):
            _RECENT.append(value)
            digest = _know(digest_of(value), value)
            return f'{{"function": {_quoted(text_of_function(value))}, "digest": "{digest}"}}'
        kind = type(value)
        found = f'"object": "{kind.__module__}:{kind.__qualname__}"'
        own = getattr(value, "digest", None)
        if not isinstance(own, str):
            own = None
        left = self._left
        try:
            recipe = self._recipe(value)
        except _TooLargeError:
            self._left, recipe = left, ""
        if own is None and not recipe:
            own = digest_of(value)
        if own is not None:
            found += f', "digest": "{_know(own, value)}"'
        return f"{{{found}{recipe}}}"

    def _recipe(self, value: Any) -> str:
        """How the object is made again."""
        made = getattr(value, _MADE_BY, None)
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


def _entry_of(value: Any) -> Any:
    """The entry of a value, read."""
    writer = _Writer()
    text = writer.whole_entry(value)
    writer.finish()
    return json.loads(writer.filled(text))


_NUMBERS = {int, float}


def _is_number(value: Any) -> bool:
    """Whether it may be the first of numbers, or of rows of them."""
    if isinstance(value, list | tuple):
        return bool(value) and _is_number(value[0])
    return isinstance(value, bool | int | float | np.number | np.bool_ | np.ndarray)


_HOMES = tuple(
    f"ergode.{one}." for one in
    ("models", "trajectories", "kinetics", "density", "stochastic", "epidemics", "particles")
)  # fmt: skip


@cache
def _arguments_of(kind: Callable[..., Any]) -> dict[str, Any] | None:
    """Arguments of a class of models that are also attributes, and their defaults."""
    if not kind.__module__.startswith(_HOMES) or kind.__qualname__ != kind.__name__:
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


# ---- what is equal


def _key(entry: Any) -> Any:
    """What of an entry has to be equal: numbers by their values, and objects by their digests."""
    if isinstance(entry, bool | int | float):
        return _text_of_number(entry)
    if isinstance(entry, list):
        return [_key(one) for one in entry]
    if not isinstance(entry, dict):
        return entry
    if "range" in entry and len(range(*entry["range"])) <= _SMALL // 8:
        entry = _entry_of(np.arange(*entry["range"]))
    if "digest" in entry:
        shown = ("object", "digest", "shape", "type")
        return {name: entry[name] for name in shown if name in entry}
    if entry.get("array") is not None and _dtype_of(entry).kind in "biuf":
        return ["array", list(entry["shape"]), _key(_array_of(entry).ravel().tolist())]
    return {name: _key(one) for name, one in entry.items()}


def _text_of_number(value: float) -> str:
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)
    return repr(float(value))


def digest_of_entry(entry: Any) -> str:
    """Digest of what has to be equal."""
    return sha256(json.dumps(_key(entry)).encode()).hexdigest()[:32]


def digests(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Digest of every argument; of a mapping, one for each of its values."""
    entries = {name: _entry_of(value) for name, value in arguments.items()}
    return {
        name: digest_of_entry(leaf) for key, entry in entries.items()
        for name, leaf in _leaves(key, entry)
    }  # fmt: skip


def _leaves(name: str, entry: Any) -> Iterator[tuple[str, Any]]:
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
    if _key(one) == _key(other):
        return None
    if all(is_row(name, path, x, grid) for is_row, x in zip(rows, (one, other), strict=True)):
        return None
    (kind, parts), (other_kind, others) = _parts(one), _parts(other)
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
    return _text(call, {name: json.dumps(entry) for name, entry in entries.items()})


def _numbers_of(entries: Sequence[Any]) -> Any:
    """Replicates of parts that follow each other."""
    each = [range(*one["range"]) if isinstance(one, dict) else range(one or 1) for one in entries]
    start, stop = each[0].start, each[0].start + sum(map(len, each))
    return {"range": [start, stop, 1]} if start else stop


def _whole(entries: Sequence[Any], name: str = "") -> Any:
    """An entry of parts, whose rows lie end to end."""
    first = entries[0]
    if all(_key(one) == _key(first) for one in entries):
        return first
    kind, _ = _parts(first)
    each = [_parts(one)[1] for one in entries]
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
    try:
        values = [np.atleast_1d(_value_of(one)) for one in entries]
    except _AbsentError:
        shape = [sum(one["shape"][0] for one in entries), *first["shape"][1:]]
        return {
            "array": None, "type": first["type"], "shape": shape,
            "digest": digest_of_entry(list(entries)),
        }  # fmt: skip
    return _entry_of(np.concatenate(values))


def rows_of(text: str) -> Mapping[str, str]:
    """Arguments of a call that may have a value for each member, and the dims of these."""
    found: Mapping[str, str] = _call_of(json.loads(text)["call"]).__dict__["rows"]
    return found


def _call_of(name: str) -> Callable[..., Any]:
    """The call of a name; it is one that records its inputs."""
    module, _, function = name.partition(":")
    found = None
    if f"{module}.".startswith(_HOMES) and function.isidentifier():
        found = getattr(import_module(module), function, None)
    if not getattr(found, "records", False):
        raise ReadError(f"'{name}' is not a call of ergode")
    return found  # type: ignore[return-value]


def _parts(entry: Any) -> tuple[str, dict[Any, Any]]:
    """What has parts, and its parts by name."""
    if not isinstance(entry, dict):
        return "", {}
    if "mapping" in entry:
        parts = {key if isinstance(key, str) else str(_key(key)): v for key, v in entry["mapping"]}
        return entry.get("kind", "mapping"), parts
    for kind in ("list", "tuple"):
        if kind in entry:
            return kind, dict(enumerate(entry[kind]))
    if "with" in entry and "digest" not in entry:
        return entry["object"], entry["with"]
    return "", {}


# ---- the record of a call


class Record:
    """The arguments of a call that begins; `on` gives them to its result."""

    def __init__(self, call: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]):
        self._call = call
        self._given = {**dict(zip(usual_of(call), given, strict=False)), **named}
        self._texts: dict[str, str] | None = None
        self._writer = _Writer()
        self._thread: Thread | None = None
        if sum([_bytes_of(value) for value in self._given.values()]) > _AT_ONCE:
            self._texts = self._described()
            # Hashing releases the interpreter's lock.
            self._thread = Thread(target=self._writer.finish, daemon=True)
            self._thread.start()

    def _described(self) -> dict[str, str]:
        texts = dict(usual_of(self._call))
        for name, value in self._given.items():
            if name in texts:
                texts[name] = _text_of_model(value) or self._writer.whole_entry(value)
        return texts

    def on(self, result: R) -> R:
        """The result, with the attribute."""
        key = _key_of(self._given) if self._thread is None else None
        text = _TEXTS.get((self._call, key)) if key else None
        if text is None:
            if self._thread is None:
                texts = self._described()
                self._writer.finish()
            else:
                texts = cast(dict[str, str], self._texts)
                self._thread.join()
            text = self._writer.filled(_text(_name_of(self._call), texts))
            if key:
                if len(_TEXTS) >= _KEPT:
                    _TEXTS.clear()
                _TEXTS[self._call, key] = text
        result.attrs[ATTRIBUTE] = text  # type: ignore[attr-defined]
        return result


_TEXTS: dict[tuple[Callable[..., Any], bytes | None], str] = {}
"""Texts of small calls. Most are made many times, and writing a text takes a few percent of one."""
_MOST_OF_KEY = 4_096  # bytes


def _key_of(given: Mapping[str, Any]) -> bytes | None:
    """Arguments as bytes, if they are small, plain or models; different ones differ."""
    try:
        key = marshal.dumps(
            [[name, _token(v)] for name, v in given.items() if name not in WITHOUT_EFFECT], 2
        )
    except (_TooLargeError, ValueError, TypeError):
        return None
    return key if len(key) <= _MOST_OF_KEY else None


def _token(value: Any) -> Any:
    """What stands for an argument; tuples within a tuple or list are not the user's."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        if _SCALARS.issuperset(map(type, value.values())):
            return value
        return [[(name, _token(one)) for name, one in value.items()]]
    if kind is np.ndarray and value.nbytes <= _MOST_OF_KEY and value.dtype.kind in "biuf":
        return ((value.dtype.str,), value.shape, value.tobytes())
    if kind is list or kind is tuple:
        if len(value) <= _MOST_OF_KEY and _SCALARS.issuperset(map(type, value)):
            return value
    elif kind is range:
        return (("range",), value.start, value.stop, value.step)
    elif kind.__name__ == "Grid":
        return (("Grid",), _token(dict(value)))
    elif kind is not np.ndarray and isinstance(digest := getattr(value, "digest", None), str):
        _know(digest, value)
        return ((kind.__module__, kind.__qualname__), digest)
    raise _TooLargeError


def _text(call: str, entries: Mapping[str, str]) -> str:
    import ergode

    arguments = ", ".join([f'"{name}": {entry}' for name, entry in entries.items()])
    return f'{{"call": "{call}", "version": "{ergode.__version__}", "arguments": {{{arguments}}}}}'


def _name_of(call: Callable[..., Any]) -> str:
    return f"{call.__module__}:{call.__name__}"


@cache
def usual_of(call: Callable[..., Any]) -> dict[str, str]:
    """Arguments of a call that determine its result, with the texts of their defaults."""
    return {
        one.name: _Writer().whole_entry(None if one.default is one.empty else one.default)
        for one in inspect.signature(call).parameters.values() if one.name not in WITHOUT_EFFECT
    }  # fmt: skip


def _bytes_of(value: Any) -> int:
    kind = type(value)
    if kind is np.ndarray:
        return int(value.nbytes)
    if kind is dict or kind.__name__ == "Grid":
        return sum([one.nbytes for one in value.values() if type(one) is np.ndarray])
    return 0


_MODELS: dict[tuple[type, str], str] = {}
"""Texts of models, by digest."""
_SCALARS = frozenset((NoneType, bool, int, float, str))
_PLAIN = (*_SCALARS, dict, list, tuple, range, np.ndarray)


def _text_of_model(value: Any) -> str:
    """The text of an object with a digest; nothing for others."""
    kind = type(value)
    digest = None if kind in _PLAIN else getattr(value, "digest", None)
    if not isinstance(digest, str):
        return ""
    text = _MODELS.get((kind, digest))
    if text is None:
        if len(_MODELS) >= _KEPT:
            _MODELS.clear()
        writer = _Writer()
        text = writer.whole_entry(value)
        writer.finish()
        text = _MODELS[kind, digest] = writer.filled(text)
    _know(digest, value)
    return text


def recorded(call: Callable[P, R]) -> Callable[P, R]:
    """Record the inputs of a call that returns a Dataset."""

    @wraps(call)
    def public(*given: P.args, **named: P.kwargs) -> R:
        record = Record(call, given, named)
        return record.on(call(*given, **named))

    return recording(public, {})


def recording(public: Callable[P, R], rows: Mapping[str, str]) -> Callable[P, R]:
    """Mark a call that records its inputs; `rows` has the dims of values of members."""
    public.__dict__.update(records=True, rows=rows)
    return public


def remembered(maker: Callable[P, R]) -> Callable[P, R]:
    """Let an object remember the call that made it, so that a file can make it again."""
    names = list(inspect.signature(maker).parameters)

    @wraps(maker)
    def public(*given: P.args, **named: P.kwargs) -> R:
        found = maker(*given, **named)
        arguments = {**dict(zip(names, given, strict=False)), **named}
        arguments.pop("cls", None)
        object.__setattr__(found, _MADE_BY, (f"{maker.__module__}:{maker.__qualname__}", arguments))
        return found

    public.__dict__["remembers"] = True
    return public


# ---- reading


class _AbsentError(Exception):
    """A value is not in the text."""


def _dtype_of(entry: Mapping[str, Any]) -> np.dtype:
    return np.dtype(str(entry["type"]))


def _array_of(entry: Mapping[str, Any]) -> np.ndarray:
    values, kind = entry["array"], _dtype_of(entry)
    if isinstance(values, str):
        return np.frombuffer(b64decode(values), kind).reshape(entry["shape"]).copy()
    return np.asarray(values, kind).reshape(entry["shape"])


def _value_of(entry: Any) -> Any:
    """The value of an entry.

    Raises an _AbsentError if the entry does not contain it.
    """
    if isinstance(entry, dict):
        return _made(entry)
    return entry


def _made(entry: dict[str, Any]) -> Any:
    if "mapping" in entry:
        found = {_value_of(key): _value_of(value) for key, value in entry["mapping"]}
        return import_module("ergode").grid(**found) if entry.get("kind") == "Grid" else found
    if "list" in entry:
        return [_value_of(one) for one in entry["list"]]
    if "tuple" in entry:
        return tuple(_value_of(one) for one in entry["tuple"])
    if "range" in entry:
        return range(*entry["range"])
    if "date" in entry:
        from datetime import datetime

        text = entry["date"]
        return (date if len(text) == 10 else datetime).fromisoformat(text)
    if entry.get("array") is not None:
        return _array_of(entry)
    if entry.get("digest") in _KNOWN:
        return _KNOWN[entry["digest"]]
    if "with" not in entry:
        raise _AbsentError(shown(entry))
    arguments = {name: _value_of(one) for name, one in entry["with"].items()}
    return _maker(entry)(**arguments)


def _maker(entry: Mapping[str, Any]) -> Callable[..., Any]:
    """The class or function that makes an object: one of models, and nothing else."""
    home, _, name = str(entry.get("made", entry["object"])).partition(":")
    if f"{home}.".startswith(_HOMES) and all(one.isidentifier() for one in name.split(".")):
        found: Any = attrgetter(name)(import_module(home))
        is_class = isinstance(found, type) and found.__module__ == home
        if is_class or getattr(found, "remembers", False):
            return found
    raise _AbsentError(name)


class Inputs(Mapping[str, Any]):
    """The arguments of the call that made a result, by name; see `ergode.inputs`.

    Reading one that a file does not contain raises a PlanError.

    Attributes
    ----------
    call : str
        Name of the call, such as ``"ergode.stochastic.simulate"``.
    version : str
        Version of ergode that made it.
    digest : str
        Equal for equal calls. Devices, executors and files do not count.
    """

    def __init__(self, text: str, given: Mapping[str, Any]) -> None:
        try:
            found = json.loads(text)
            call: str = found["call"]
            self._entries: dict[str, Any] = found["arguments"]
            self.version: str = found["version"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ReadError(f"the attribute '{ATTRIBUTE}' is damaged: {text!r:.80}") from None
        self._call = _call_of(call)
        module, _, name = call.partition(":")
        self.call = ".".join([*module.split(".")[:2], name])
        self.digest = digest_of_entry([call, self.version, self._entries])
        self._given = dict(given)
        for name, value in given.items():
            if name not in self._entries:
                known = ", ".join(self._entries)
                raise PlanError(f"{self.call} has no argument '{name}'; it has {known}")
            if not self._agrees(name, value):
                raise PlanError(
                    f"{name} is not that of the result, which was computed with "
                    f"{shown(self._entries[name])}; to change it, pass it to again()"
                )

    def _agrees(self, name: str, value: Any) -> bool:
        return digests({name: value}) == {
            key: digest_of_entry(leaf) for key, leaf in _leaves(name, self._entries[name])
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> Any:
        entry = self._entries[name]
        if name in self._given:
            return self._given[name]
        try:
            found = _value_of(entry)
        except _AbsentError as error:
            raise PlanError(
                f"{name} cannot be made again from the result alone: of {error} it has the digest; "
                f"pass it, as in ergode.inputs(dataset, {name}=...)"
            ) from None
        if not self._agrees(name, found):
            raise PlanError(
                f"{name} as made from the result has another digest; pass it, as in "
                f"ergode.inputs(dataset, {name}=...)"
            )
        return found

    def again(self, **changes: Any) -> xarray.Dataset:
        """Make the call again.

        Parameters
        ----------
        **changes
            Arguments that differ, and arguments that do not change a result, such as `device`.

        Returns
        -------
        xarray.Dataset
            The result of this version of ergode.

        Raises
        ------
        PlanError
            An argument cannot be made again from the result alone.
        """
        arguments = {name: self[name] for name in self if name not in changes}
        return self._call(**arguments | changes)

    def __repr__(self) -> str:
        lines = [f"<inputs of {self.call}, ergode {self.version}, digest {self.digest[:12]}>"]
        usual = usual_of(inspect.unwrap(self._call))
        others = []
        for name, entry in self._entries.items():
            if name in usual and _key(json.loads(usual[name])) == _key(entry):
                others.append(f"{name}={shown(entry)}")
            else:
                lines.append(f"    {name}: {shown(entry, 1_000)}")
        return "\n".join([*lines, f"    defaults: {', '.join(others)}"])


def inputs(dataset: xarray.Dataset, **given: Any) -> Inputs:
    """What a result was computed from: the arguments of its call.

    Every result has them in its attribute ``inputs``, and so has a file of it. ``again()`` makes
    the call again. From a file, numbers, arrays of up to 16 kB, and models of numbers, names and
    equations are made again; so are random networks of contacts, and fields of `ergode.fields`. Of
    larger arrays and of functions there is the digest. They are found in the process that made the
    call, as long as they are in use; elsewhere pass them.

    Parameters
    ----------
    dataset : xarray.Dataset or DeviceResult
        A result.
    **given
        Arguments that the file does not contain. Their digests are compared with those of the
        result.

    Returns
    -------
    Inputs
        A mapping of names to arguments. It prints as a table.

    Raises
    ------
    PlanError
        The dataset has no inputs, or a given argument is not that of the result.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    >>> result = ergode.stochastic.simulate(network, times=[0, 1], seed=3, device="cpu")
    >>> inputs = ergode.inputs(result)
    >>> inputs["seed"], inputs.call
    (3, 'ergode.stochastic.simulate')
    >>> bool((inputs.again()["amount"] == result["amount"]).all())
    True
    """
    text = getattr(dataset, "attrs", {}).get(ATTRIBUTE)
    if not isinstance(text, str):
        raise PlanError(
            f"the dataset has no attribute '{ATTRIBUTE}'; expected the result of a call of ergode"
        )
    return Inputs(text, given)


# ---- text for people


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
        if "with" in entry:
            return f"{name}({', '.join(f'{k}={_shown(v)}' for k, v in entry['with'].items())})"
        return f"{name} with digest {str(entry['digest'])[:12]}"
    if entry.get("array") is not None:
        values = _array_of(entry)
        return np.array2string(values, separator=", ", threshold=20, edgeitems=3).replace("\n", "")
    return f"array of shape {tuple(entry['shape'])} with digest {str(entry['digest'])[:12]}"
