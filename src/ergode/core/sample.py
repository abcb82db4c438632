"""A call for its first members alone. Their time tells about the time of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ergode.core.context import held


@dataclass
class Sample:
    """How many members a call computes, of how many."""

    size: int  # members that are computed, from the first on
    total: int = 0  # members of the call


_sample: ContextVar[Sample | None] = ContextVar("ergode_sample", default=None)


@contextmanager
def first(size: int) -> Iterator[Sample]:
    """Within this block a call computes its first members only."""
    with held(_sample, Sample(size)) as sample:
        assert sample is not None
        yield sample


def take() -> Sample | None:
    """The sample that is asked for; calls within this one are computed whole."""
    sample = _sample.get()
    _sample.set(None)
    return sample
