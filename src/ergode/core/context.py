"""What holds while a call runs: context variables that have another value within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ergode.core.calls.checkpoint import Keeper
    from ergode.core.devices import Device

_Value = TypeVar("_Value")


@contextmanager
def held(variable: ContextVar[_Value], value: _Value) -> Iterator[_Value]:
    """Within this block `variable` is `value`."""
    before = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(before)


@dataclass(frozen=True)
class Running:
    """What holds for the call of an engine, and not for calls that it or the user makes in it."""

    stays: Device | None = None  # device on which large results stay (`core.calls.resident`)
    keeper: Keeper | None = None  # of checkpoints (`core.calls.checkpoint`)
    # Warnings of a part, which the whole issues, each once. Facts of a part are not told.
    warnings: list[tuple[str, type[Warning]]] | None = None


_running: ContextVar[Running] = ContextVar("ergode_running", default=Running())  # noqa: B039 (frozen)


def running() -> Running:
    """What holds now."""
    return _running.get()


def run_with(now: Running) -> AbstractContextManager[Running]:
    """Within this block `now` holds."""
    return held(_running, now)
