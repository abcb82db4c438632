"""Messages about arguments of public functions, classes and methods that Python explains badly.

Where a keyword is misspelt, the message suggests the one that was meant. Where a result that stays
on a device is given instead of a Dataset, it says how to get one. A call is only looked at after it
has failed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from ergode.core.arguments import did_you_mean

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
            if not unknown:
                raise
            name = public_name or call.__qualname__
            if known[:1] == ["cls"]:
                known = known[1:]
            if call.__name__ == "__init__":
                name, known = type(given[0]).__name__, known[1:]
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
