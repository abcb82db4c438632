"""Records of algorithms: the functions and arrays from which runners build kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.stochastic.kernel import next_firing, realization
from ergode.stochastic.tables import Tables
from ergode.stochastic.thread_group import kernel as thread_group

DeviceFunction = Callable[..., Any]
Rows = dict[str, tuple[int, type]]
Options = tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, eq=False)
class ThreadGroupAlgorithm:
    """An algorithm in which a thread group of a GPU shares one realization."""

    state: Any  # state of the algorithm, and constants that all thread groups share
    # Bound to the options of `thread_group.kernel` with these names. Without `refresh` the
    # algorithm does not support events.
    value: DeviceFunction
    count: DeviceFunction
    prepare: DeviceFunction
    choose: DeviceFunction
    follow: DeviceFunction
    # float64 of shared memory that a group needs, and further bindings.
    options: Callable[[Tables, int, int], tuple[int, Options]]
    # Length and type of each row that a thread group has in global memory.
    rows: Callable[[Tables, int, Options], Rows]
    # The arrays and numbers that all thread groups share.
    constants: Callable[[Tables, int, Options], dict[str, Any]]
    refresh: DeviceFunction | None = None
    # Whether a block is faster than a warp if a firing changes many propensities.
    pays_by_block: bool = False

    def bindings(self, interrupted: bool) -> dict[Any, DeviceFunction]:
        """Options of the kernels of thread groups, for networks with interruptions or without."""
        return _given(
            {
                thread_group.thread_group_value: self.value,
                thread_group.thread_group_count: self.count,
                thread_group.thread_group_prepare: self.prepare,
                thread_group.thread_group_choose: self.choose,
                thread_group.thread_group_follow: self.follow,
                thread_group.thread_group_refresh: self.refresh if interrupted else None,
            }
        )


@dataclass(frozen=True, eq=False)
class Algorithm:
    """An algorithm that finds the next firing; one thread simulates one realization."""

    state: Any  # state of the algorithm: the `arrays` of every worker and the `constants`
    arrays: Callable[[Tables], Rows]  # length and type of each row of a worker
    constants: Callable[[Tables], dict[str, np.ndarray]]  # the arrays that all workers share
    # As in `kernel.realization`: compute the state, and update it after a firing.
    prepare: DeviceFunction
    update: DeviceFunction
    # As in `kernel.next_firing`: the total propensity, and the search for a reaction.
    total_of: DeviceFunction | None = None
    choose: DeviceFunction | None = None
    # As in `kernel.realization`: find the next firing. The default is the direct method, which
    # needs `total_of` and `choose`.
    advance: DeviceFunction = next_firing.advance
    # As in `kernel.realization`, for an algorithm whose steps change the state.
    between: DeviceFunction | None = None
    arrive: DeviceFunction | None = None
    # As in `kernel.realization`, for an algorithm with statistics of its steps.
    tell: DeviceFunction | None = None
    # Initial state of every point after `prepare`, as further constants.
    prepared: Callable[[Tables], dict[str, np.ndarray]] | None = None
    # As in `kernel.realization`: begin a realization with that state.
    copy_prepared: DeviceFunction | None = None
    # Whether it evaluates `kernel.realization.propensity`.
    has_laws: bool = True
    leaps: bool = False  # whether a step has many firings
    switches: Options = ()  # further options of the kernel, and their values
    thread_group: ThreadGroupAlgorithm | None = None  # the same algorithm for a thread group

    def __post_init__(self) -> None:
        """Check that no part of the algorithm is missing.

        Raises a TypeError if a part is missing; the message names it.
        """
        if self.advance is next_firing.advance and not (self.total_of and self.choose):
            raise TypeError("an algorithm needs advance, or total_of and choose")
        for one, other in (("between", "arrive"), ("prepared", "copy_prepared")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise TypeError(f"an algorithm with {one} or {other} needs both")

    @property
    def flows(self) -> bool:
        """Whether variables change between firings."""
        return self.arrive is not None and not self.leaps

    def bindings(self) -> dict[Any, DeviceFunction]:
        """Options of the kernels of single threads."""
        return dict(self.switches) | _given(
            {
                realization.prepare: self.prepare,
                realization.update: self.update,
                realization.advance: self.advance,
                realization.between: self.between,
                realization.arrive: self.arrive,
                realization.tell: self.tell,
                next_firing.total_of: self.total_of,
                next_firing.choose: self.choose,
            }
        )


def _given(functions: dict[Any, DeviceFunction | None]) -> dict[Any, DeviceFunction]:
    return {option: function for option, function in functions.items() if function is not None}
