"""What a call knows of the ensemble that it computes a part of.

A call that is divided (`core.divide`) runs its engine once up to the door: all arguments are
checked, and nothing is computed. Then it runs the engine for each part. What an engine decides from
all members, such as a tolerance from the largest amount, is decided at the door and holds in every
part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ergode.core import log
from ergode.core.context import held

T = TypeVar("T")


MEMBERS = "members"
"""Decision of the number of replicates, on which the form of a kernel may depend."""


UNDIVIDED = "undivided"
"""Decision that rows are not divided: the reason."""


class AtTheDoor(BaseException):
    """The arguments are checked; a rehearsal ends here."""


@dataclass
class _Call:
    is_rehearsal: bool
    by_rows: bool = False
    first: int = 0
    decisions: dict[str, Any] = field(default_factory=dict)
    warnings: list[tuple[str, type[Warning]]] = field(default_factory=list)


_call: ContextVar[_Call | None] = ContextVar("ergode_call", default=None)


@contextmanager
def rehearsal(by_rows: bool) -> Iterator[dict[str, Any]]:
    """Within this block engines stop at the door; yields the decisions that they made by then."""
    call = _Call(is_rehearsal=True, by_rows=by_rows)
    with held(_call, call), suppress(AtTheDoor):
        yield call.decisions


@contextmanager
def part(decisions: Mapping[str, Any], first: int) -> Iterator[list[tuple[str, type[Warning]]]]:
    """Within this block an engine computes a part from the row `first` on; yields its warnings."""
    call = _Call(is_rehearsal=False, first=first, decisions=dict(decisions))
    with held(_call, call), log.hushed():
        yield call.warnings


def outside() -> AbstractContextManager[object]:
    """Within this block a call is a whole, even where a function of the user makes it in a part."""
    nothing: _Call | None = None
    return held(_call, nothing)


def door() -> None:
    """End a rehearsal: from here on an engine computes."""
    if is_rehearsal():
        raise AtTheDoor
    log.checked()


def is_rehearsal() -> bool:
    """Whether the arguments of a call are only checked."""
    call = _call.get()
    return call is not None and call.is_rehearsal


def decided(name: str, value: T) -> T:
    """A value computed from all members: in a part, the one of the whole."""
    call = _call.get()
    if call is None:
        return value
    found: T = call.decisions.setdefault(name, value)
    return found


def decided_once(name: str, make: Callable[[], T]) -> T:
    """The same for a value that takes time to compute: a part does not compute it again."""
    call = _call.get()
    if call is not None and name in call.decisions:
        known: T = call.decisions[name]
        return known
    return decided(name, make())


def first_row() -> int:
    """Number of the first row of this call in the whole."""
    call = _call.get()
    return 0 if call is None else call.first


def refuse_rows(reason: str) -> None:
    """Refuse to divide the rows of a call, such as its trajectories.

    In the rehearsal of such a call the first reason is the decision UNDIVIDED.
    """
    call = _call.get()
    if call is not None and call.is_rehearsal and call.by_rows:
        call.decisions.setdefault(UNDIVIDED, reason)


def keep_warning(message: str, category: type[Warning]) -> bool:
    """Keep a warning for the caller of the whole; whether there is one."""
    call = _call.get()
    if call is not None:
        call.warnings.append((message, category))
    return call is not None
