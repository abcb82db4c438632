"""Messages about arguments of public functions, classes and methods that Python explains badly.

Where a keyword is misspelt, the message suggests the one that was meant. Where an argument is
missing, or given by position instead of by name, the message says what it is. Where a result that
stays on a device is given instead of a Dataset, it says how to get one. A call is only looked at
after it has failed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError
from ergode.core.words import counted

# What is given by mistake, by the name of its type.
_NO_DATASETS = {
    "DeviceResult": "a DeviceResult; give it .to_dataset() of it", "NoneType": "None"
}  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


def suggesting(call: Callable[P, R], public_name: str = "") -> Callable[P, R]:
    """A function with such messages."""

    @wraps(call)
    def public(*given: P.args, **named: P.kwargs) -> R:
        try:
            return call(*given, **named)
        except TypeError:
            parameters = inspect.signature(call).parameters.values()
            if any(one.kind is one.VAR_KEYWORD for one in parameters):
                raise
            known = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY]
            unknown = [name for name in named if name not in known]
            if not unknown and _fits(call, given, named):
                raise
            name, first = public_name or call.__qualname__, 0
            if known[:1] == ["cls"]:
                first = 1
            if call.__name__ == "__init__":
                name, first = type(given[0]).__name__, 1
            elif known[:1] == ["self"]:
                first = 1
            if not unknown:
                _refuse(name, call, given, named, first)
            known = known[first:]
            close = did_you_mean(unknown[0], known, 0.6) or f"; expected {', '.join(known)}"
            message = f"{name}() has no argument '{unknown[0]}'{close}"
        except (AttributeError, KeyError):
            kind = type(given[0]).__name__ if given else ""
            wanted = str(next(iter(inspect.signature(call).parameters.values()), ""))
            if kind not in _NO_DATASETS or "Dataset" not in wanted:
                raise
            name = public_name or call.__qualname__
            message = f"{name}() takes a Dataset, not {_NO_DATASETS[kind]}"
        raise TypeError(message)

    public.__dict__["suggests"] = True
    return public


def _fits(call: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether the arguments are those of the call, so that it failed later."""
    try:
        inspect.signature(call).bind(*given, **named)
    except TypeError:
        return False
    return True


def _refuse(
    name: str, call: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any], first: int
) -> None:
    """Raise a ModelError of what is missing; a TypeError of what is by position, or twice."""
    parameters = list(inspect.signature(call).parameters.values())
    places = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    if len(given) > len(places):
        by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        rest = f"; expected by name: {', '.join(by_name)}" if by_name else ""
        some = counted(len(places) - first, "positional argument")
        count = some if len(places) > first else "no positional arguments"
        raise TypeError(f"{name}() takes {count}, not {len(given) - first}{rest}")
    filled = {*places[: len(given)], *named}
    missing = [
        one.name for one in parameters
        if one.default is one.empty and one.kind is not one.VAR_POSITIONAL
        and one.name not in filled
    ]  # fmt: skip
    if missing:
        said = inspect.getdoc(call) or ""
        needed = ", ".join(f"'{one}'{_described(said, one)}" for one in missing)
        raise ModelError(f"{name}() needs {needed}")
    twice = next(one for one in places[: len(given)] if one in named)
    raise TypeError(f"{name}() has '{twice}' by position and by name; expected one of them")


def _described(docstring: str, name: str) -> str:
    """What a docstring in NumPy style says that an argument is."""
    for line in docstring.splitlines():
        names, colon, kind = line.partition(" : ")
        if colon and name in names.split(", "):
            return f" ({kind})"
    return ""


def suggest(value: Any, name: str) -> Any:
    """A public function or class of this name, with such messages; anything else as it is.

    A function also takes its place in its module, and can be pickled.
    """
    if isinstance(value, type):
        _suggest_in(value)
    elif isinstance(value, FunctionType) and not hasattr(value, "suggests"):
        value = suggesting(value, name)
        setattr(sys.modules[value.__module__], value.__name__, value)
    return value


def suggest_all(package: dict[str, Any], names: Iterable[str]) -> None:
    """Give the public functions and classes of a package such messages."""
    for name in names:
        package[name] = suggest(package[name], name)


def _suggest_in(owner: type) -> None:
    """Replace the constructor and the public methods of a class, its own and inherited ones."""
    for one in owner.__mro__:
        if not one.__module__.startswith("ergode."):
            continue
        for name, method in list(vars(one).items()):
            plain = method.__func__ if isinstance(method, classmethod | staticmethod) else method
            is_public = name == "__init__" or not name.startswith("_")
            if is_public and isinstance(plain, FunctionType) and not hasattr(plain, "suggests"):
                found: Any = suggesting(plain)
                setattr(one, name, found if plain is method else type(method)(found))
