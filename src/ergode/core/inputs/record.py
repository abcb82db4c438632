"""The record of a call that returns a result, and of one that makes a model."""

from __future__ import annotations

import inspect
import marshal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache, wraps
from threading import Thread
from types import NoneType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from ergode.core.context import held
from ergode.core.inputs.entries import MADE_BY, TooLargeError, Writer, know

P = ParamSpec("P")
R = TypeVar("R")

ATTRIBUTE = "inputs"
WITHOUT_EFFECT = (
    "executor", "store", "chunk", "checkpoint", "keep_on_device", "device", "progress",
)  # fmt: skip
"""Arguments that do not change a result. They are not recorded."""
_is_idle: ContextVar[bool] = ContextVar("ergode_unrecorded", default=False)
_AT_ONCE = 1 << 16  # bytes of arrays whose digest is not computed beside the call
_KEPT = 64


def unrecorded() -> AbstractContextManager[object]:
    """Within this block calls do not record their inputs: their results are parts of another."""
    return held(_is_idle, True)


class Record:
    """The arguments of a call that begins; `on` gives them to its result."""

    def __init__(self, call: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]):
        self._call = call
        self._is_idle = _is_idle.get()
        if self._is_idle:
            return
        self._given = {**dict(zip(usual_of(call), given, strict=False)), **named}
        self._texts: dict[str, str] | None = None
        self._writer = Writer()
        self._thread: Thread | None = None
        if sum([_bytes_of(value) for value in self._given.values()]) > _AT_ONCE:
            self._texts = self._described()
            # Hashing releases the interpreter's lock.
            self._thread = Thread(target=self._writer.finish, daemon=True)
            self._thread.start()

    def _described(self) -> dict[str, str]:
        texts = dict(usual_of(self._call))
        for name, value in self._given.items():
            if name not in WITHOUT_EFFECT:  # with those that the call takes as **options
                texts[name] = _text_of_model(value) or self._writer.whole_entry(value)
        return texts

    def on(self, result: R) -> R:
        """The result, with the attribute."""
        if self._is_idle:
            return result
        key = _key_of(self._given) if self._thread is None else None
        text = _TEXTS.get((self._call, key)) if key else None
        if text is None:
            if self._thread is None:
                texts = self._described()
                self._writer.finish()
            else:
                texts = cast(dict[str, str], self._texts)
                self._thread.join()
            text = self._writer.filled(text_of_call(_name_of(self._call), texts))
            if key:
                if len(_TEXTS) >= _KEPT:
                    _TEXTS.clear()
                _TEXTS[self._call, key] = text
        result.attrs[ATTRIBUTE] = text  # type: ignore[attr-defined]
        units = (getattr(one, "time_unit", None) for one in self._given.values())
        if unit := next(filter(None, units), None):
            result.attrs["time_unit"] = unit  # type: ignore[attr-defined]
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
    except (TooLargeError, ValueError, TypeError):
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
        know(digest, value)
        unit = getattr(value, "time_unit", None)  # no part of the digest
        return ((kind.__module__, kind.__qualname__), digest, unit)
    raise TooLargeError


def text_of_call(call: str, entries: Mapping[str, str]) -> str:
    import ergode

    arguments = ", ".join([f'"{name}": {entry}' for name, entry in entries.items()])
    return f'{{"call": "{call}", "version": "{ergode.__version__}", "arguments": {{{arguments}}}}}'


def _name_of(call: Callable[..., Any]) -> str:
    return f"{call.__module__}:{call.__name__}"


@cache
def usual_of(call: Callable[..., Any]) -> dict[str, str]:
    """Arguments of a call that determine its result, with the texts of their defaults."""
    return {
        one.name: Writer().whole_entry(None if one.default is one.empty else one.default)
        for one in inspect.signature(call).parameters.values()
        if one.name not in WITHOUT_EFFECT and one.kind is not one.VAR_KEYWORD
    }  # fmt: skip


def _bytes_of(value: Any) -> int:
    kind = type(value)
    if kind is np.ndarray:
        return int(value.nbytes)
    if kind is dict or kind.__name__ == "Grid":
        return sum([one.nbytes for one in value.values() if type(one) is np.ndarray])
    return 0


_MODELS: dict[tuple[type, str, str | None], str] = {}
"""Texts of models, by digest and unit of time."""
_SCALARS = frozenset((NoneType, bool, int, float, str))
_PLAIN = (*_SCALARS, dict, list, tuple, range, np.ndarray)


def _text_of_model(value: Any) -> str:
    """The text of an object with a digest; nothing for others."""
    kind = type(value)
    digest = None if kind in _PLAIN else getattr(value, "digest", None)
    if not isinstance(digest, str):
        return ""
    key = kind, digest, getattr(value, "time_unit", None)
    text = _MODELS.get(key)
    if text is None:
        if len(_MODELS) >= _KEPT:
            _MODELS.clear()
        writer = Writer()
        text = writer.whole_entry(value)
        writer.finish()
        text = _MODELS[key] = writer.filled(text)
    know(digest, value)
    return text


def recording(public: Callable[P, R], rows: Mapping[str, str]) -> Callable[P, R]:
    """Mark a call that records its inputs; `rows` has the dims of values of members."""
    public.__dict__.update(records=True, rows=rows)
    return public


def recorded(rows: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a call that is not divided record its inputs; `rows` as for `recording`."""

    def decorate(call: Callable[P, R]) -> Callable[P, R]:
        @wraps(call)
        def public(*given: P.args, **named: P.kwargs) -> R:
            return Record(call, given, named).on(call(*given, **named))

        return recording(public, rows)

    return decorate


def remembered(maker: Callable[P, R]) -> Callable[P, R]:
    """Let an object remember the call that made it, so that a file can make it again."""
    names = list(inspect.signature(maker).parameters)

    @wraps(maker)
    def public(*given: P.args, **named: P.kwargs) -> R:
        found = maker(*given, **named)
        arguments = {**dict(zip(names, given, strict=False)), **named}
        arguments.pop("cls", None)
        object.__setattr__(found, MADE_BY, (f"{maker.__module__}:{maker.__qualname__}", arguments))
        return found

    public.__dict__["remembers"] = True
    return public
