"""Options of an adaptive run (`Control`), and its results (`Outcome`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ergode.core.calls import resident
from ergode.core.calls.launch import check_room
from ergode.core.calls.resident import beside
from ergode.core.compiler.source import Precision
from ergode.core.devices import resolve
from ergode.core.status import Status
from ergode.trajectories.adaptive.arguments import Out
from ergode.trajectories.events import Event


@dataclass(frozen=True)
class Control:
    """Step size control, events, observables and limits of a run."""

    rtol: float  # relative tolerance of a step
    atol: float | np.ndarray  # [unknown_count]: absolute tolerance of a step
    step: float | None  # fixed step size [time]; None for adaptive steps
    max_step: float  # largest step [time]
    # Largest number of steps, rejected ones included; a trajectory that needs more is stopped.
    max_steps: int
    observe_from: float  # events and observables before this time are ignored
    events: Sequence[Event]
    observables: Sequence[Any]
    recorded: int  # number of hits of an event that are stored; older hits are overwritten
    step_log: int = 0  # number of accepted steps whose ends are stored, from the first step on
    powers: int = 0  # degree of the stored polynomials of the steps; 0 stores none

    def log_rows(self, variables: int) -> int:
        """Numbers that are kept of a step: time, state, and its size and polynomial."""
        return 1 + variables + (1 + self.powers * variables if self.powers else 0)

    @property
    def is_watched(self) -> bool:
        """Whether there are events or observables."""
        return bool(self.events or self.observables)

    @property
    def has_own_steps(self) -> bool:
        """Whether a trajectory may have other steps than the rest, or its steps are stored."""
        return self.is_watched or self.step_log > 0

    @property
    def acts(self) -> bool:
        """Whether any event changes a state or ends a run."""
        return any(event.effect is not None or event.terminal for event in self.events)


@dataclass
class Outcome:
    """Results of trajectories."""

    states: Any  # [time_count, variable_count, trajectory_count]: on the device where results stay
    hit_counts: np.ndarray  # int64 [event_count, trajectory_count]
    # [event_count, recorded, 1 + variable_count, trajectory_count]: time and state; hit number n is
    # stored at index n modulo `recorded`.
    hits: np.ndarray
    observed: np.ndarray  # [observable_count, trajectory_count]
    status: np.ndarray  # uint8 [trajectory_count]
    # int64 [trajectory_count]: accepted and rejected steps.
    taken: np.ndarray
    rejected: np.ndarray
    # [trajectory_count]: largest interpolation error of the history, in units of the tolerance.
    interpolation_errors: np.ndarray
    # [step_count, row_count, trajectory_count]: time and state at the end of every accepted step;
    # with polynomials also its size and the coefficients, power by power.
    step_log: np.ndarray

    def detach(self) -> None:
        """Copy all arrays, `status` first, since an abandoned kernel may still write to them."""
        names = ("status", *(one.name for one in fields(self) if one.name != "status"))
        for name in names:
            setattr(self, name, getattr(self, name).copy())

    def rounded(self, precision: Precision) -> Outcome:
        """The same results with real numbers in this precision."""
        real = {
            name: getattr(self, name).astype(precision, copy=False)
            for name in ("states", "hits", "observed", "step_log")
        }
        return replace(self, **real)

    def leave_out(self, which: np.ndarray) -> None:
        """Reset the results of trajectories `which` to those of trajectories that did not run.

        `which` is an array of bool, shape [trajectory_count].
        """
        if which.any():
            counts = self.hit_counts, self.taken, self.rejected, self.interpolation_errors
            for array in counts:
                array[..., which] = 0
            for array in (self.hits, self.observed, self.step_log):
                array[..., which] = np.nan
            self.states[..., beside(self.states, np.flatnonzero(which))] = np.nan
            self.status[which] = Status.NOT_RUN

    @classmethod
    def empty(
        cls, times: int, variables: int, control: Control, count: int, precision: Precision
    ) -> Outcome:
        """Outcome of trajectories before they run."""
        events, kept = len(control.events), control.recorded if control.events else 0
        full = resolve("cpu").full
        return cls(
            resident.full((times, variables, count), np.nan, precision),
            np.zeros((events, count), np.int64),
            np.full((events, kept, 1 + variables, count), np.nan, precision),
            np.full((len(control.observables), count), np.nan, precision),
            np.full(count, Status.NOT_RUN, np.uint8),
            full((count,), 0, np.int64),
            full((count,), 0, np.int64),
            full((count,), 0, precision),
            np.full((control.step_log, control.log_rows(variables), count), np.nan, precision),
        )

    @staticmethod
    def check_room(
        times: int, variables: int, control: Control, count: int, precision: Precision
    ) -> None:
        """Check that the arrays of `empty`, and the result made from them, fit in memory.

        Raises a PlanError if memory does not suffice; the message names the option that needs most
        of it.
        """
        events = len(control.events)
        numbers = {
            f"an array of states at {times:,} times,": (times * variables, "use fewer times"),
            f"a record of {control.recorded:,} hits of every event,": (
                2 * events * control.recorded * (1 + variables), "use a smaller record"
            ),
            f"a log of {control.step_log:,} steps,": (
                2 * control.step_log * control.log_rows(variables),
                "use every_step=False and dense_output=False, or fewer steps",
            ),
        }  # fmt: skip
        what, (_, remedy) = max(numbers.items(), key=lambda one: one[1][0])
        each = sum(number for number, _ in numbers.values()) + len(control.observables)
        check_room(
            count * (np.dtype(precision).itemsize * each + 8 * events + 33),
            f"{what} for {count:,} trajectories,", f"{remedy} or fewer trajectories",
        )  # fmt: skip

    def arrays(self) -> Out:
        """The arrays as a kernel argument."""
        return Out(
            self.states, self.hit_counts, self.hits, self.observed, self.status, self.taken,
            self.rejected, self.interpolation_errors, self.step_log,
        )  # fmt: skip

    @property
    def bytes_each(self) -> int:
        """Bytes of one trajectory."""
        return sum(array.nbytes for array in self.arrays()) // max(1, self.status.size)

    def put(self, where: np.ndarray, other: Outcome) -> None:
        """Replace the results of the trajectories of these numbers by `other`."""
        longest = max(len(self.step_log), len(other.step_log))
        self.step_log, log = with_room(self.step_log, longest), with_room(other.step_log, longest)
        for mine, theirs in zip(self.arrays(), replace(other, step_log=log).arrays(), strict=True):
            mine[..., beside(mine, where)] = beside(mine, theirs)


def with_room(log: np.ndarray, length: int) -> np.ndarray:
    """A log with as many steps, the last of them missing."""
    missing = length - len(log)
    if missing == 0:
        return log
    return np.pad(log, ((0, missing), (0, 0), (0, 0)), constant_values=np.nan)


def chronological(counts: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """Hits in chronological order, missing ones last; `hits` is a ring buffer."""
    kept = hits.shape[1]
    if kept == 0:
        return hits
    begin = np.where(counts > kept, counts % kept, 0)  # [event, trajectory]
    order = (np.arange(kept)[None, :, None] + begin[:, None, :]) % kept
    return np.take_along_axis(hits, order[:, :, None, :], axis=1)


def control_of(options: Mapping[str, Any]) -> Control:
    """A `Control` with default values, overridden by `options`."""
    usual: dict[str, Any] = {
        "rtol": 1e-6, "atol": 1e-9, "step": None, "max_step": np.inf, "max_steps": 1_000_000,
        "observe_from": -np.inf, "events": (), "observables": (), "recorded": 0, "step_log": 0,
        "powers": 0,
    }  # fmt: skip
    return Control(**{**usual, **options})
