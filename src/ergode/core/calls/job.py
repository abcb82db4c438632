"""A call that is checked and has not begun.

The entry of an engine *prepares* a `Job`: it checks the arguments, makes tables and chooses the
method. `Job.run` computes the result. A call that is divided (`core.calls.divide`) is prepared as a
whole, which checks it, and then once for each part. What an engine decides from all members, such
as a tolerance from the largest amount, is decided by the whole and holds in every part: an entry
is given a `Whole`, and asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ergode.core import log

if TYPE_CHECKING:
    import xarray

T = TypeVar("T")


@dataclass
class Whole:
    """The whole call, as an entry knows it: what the entry prepares may be a part of it."""

    replicates: int | None = None  # of the whole, if parts are along the replicates
    first_row: int = 0  # number of the first row of the part in the whole
    decisions: dict[str, Any] = field(default_factory=dict)

    def decided(self, name: str, value: T) -> T:
        """A value computed from all members: in a part, the one of the whole."""
        found: T = self.decisions.setdefault(name, value)
        return found

    def decided_once(self, name: str, make: Callable[[], T]) -> T:
        """The same for a value that takes time to compute: a part does not compute it again."""
        known: T = self.decisions[name] if name in self.decisions else self.decided(name, make())
        return known


@dataclass(frozen=True)
class Job:
    """A call whose arguments are checked."""

    compute: Callable[[], xarray.Dataset]
    facts: Mapping[str, str] = field(default_factory=dict)  # what is told of it, by name
    undivided: str = ""  # why its rows, such as trajectories, are not divided
    unresumed: str = ""  # why it has no checkpoints, and what to do

    def run(self) -> xarray.Dataset:
        """Tell the facts, and compute the result."""
        log.tell_all(self.facts)
        log.checked()
        return self.compute()
