"""Context variables that have another value within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_Value = TypeVar("_Value")


@contextmanager
def held(variable: ContextVar[_Value], value: _Value) -> Iterator[_Value]:
    """Within this block `variable` is `value`."""
    before = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(before)
