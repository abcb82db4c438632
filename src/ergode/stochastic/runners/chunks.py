"""Realizations chunk by chunk: what a runner does, what is kept, and what Ctrl-C leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ergode.core import devices, progress
from ergode.core.errors import InterruptionWarning
from ergode.core.status import Status

_ROOM_SHARE = 0.4


@dataclass(frozen=True)
class Wanted:
    """What is kept of a chunk.

    Attributes
    ----------
    amounts : bool
        Amounts of every realization at every time.
    statistics : bool
        Sums over realizations.
    states : bool
        The last state of each realization.
    log_counts : ndarray of int64, optional
        Firings of each realization, if a log of them is kept.
    log_first : bool
        A log is wanted; this run finds how long it is.
    """

    amounts: bool = False
    statistics: bool = False
    states: bool = False
    log_counts: np.ndarray | None = None
    log_first: bool = False


class ChunkRunner(Protocol):
    """Simulates realizations of one network by one method on one device."""

    def prepare(self, count: int, wanted: Wanted) -> None:
        """Compile what `run` needs."""

    def row_bytes(self, wanted: Wanted) -> int:
        """Memory of the results of one realization."""

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        """Simulate realizations `first` to ``first + count``; return what is wanted of them."""


class Collector(Protocol):
    """Takes in chunks of realizations."""

    wanted: Wanted

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        """Take in the realizations from `first` on."""


def run_chunks(
    runner: ChunkRunner,
    collect: Collector,
    total: int,
    replicates: int,
    device: devices.Device,
    show: bool,
) -> dict[str, np.ndarray]:
    """Run all realizations; their status, firings, reported times and steps.

    Ctrl-C ends the run with a warning. Realizations that were not simulated have the status
    ``NOT_RUN``.

    Raises
    ------
    KeyboardInterrupt
        No realization was simulated before Ctrl-C.
    """
    status = np.full(total, Status.NOT_RUN, np.uint8)
    firings = np.zeros(total, np.int64)
    rows = np.zeros(total, np.int64)
    leaps = []
    room = min(device.available_bytes(), devices.resolve("cpu").available_bytes())
    spans = chunks(total, replicates, runner.row_bytes(collect.wanted), int(_ROOM_SHARE * room))
    with progress.track("stochastic", total, unit="realizations", show=show) as report:
        for start, stop in spans:
            try:
                found = _run_chunk(runner, start, stop - start, collect.wanted, report)
            except KeyboardInterrupt:
                if start == 0:
                    raise
                _warn_of_interruption(status)
                break
            status[start:stop] = found["status"]
            firings[start:stop] = found["firings"]
            rows[start:stop] = found["rows"]
            leaps.append(found["leaps"])
            collect.add(found, start)
            if (found["status"] == Status.NOT_RUN).any():
                _warn_of_interruption(status)
                break
    return {
        "status": status, "firing_count": firings, "rows": rows, "leaps": np.concatenate(leaps),
    }  # fmt: skip


def _run_chunk(
    runner: ChunkRunner, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
) -> dict[str, np.ndarray]:
    """One chunk; a log of firings takes a second run, when its length is known."""
    found = runner.run(first, count, wanted, report)
    if wanted.log_first:
        logged = Wanted(log_counts=found["firings"])
        found = runner.run(first, count, logged, lambda _: None)
    return found


def _warn_of_interruption(status: np.ndarray) -> None:
    done = int((status != Status.NOT_RUN).sum())
    if done == 0:
        raise KeyboardInterrupt
    warnings.warn(
        f"interrupted: {done} of {status.size} realizations were simulated",
        InterruptionWarning,
        stacklevel=4,
    )


def chunks(total: int, replicates: int, row_bytes: int, room: int) -> list[tuple[int, int]]:
    """Ranges of realizations whose results fit; whole points where that is possible."""
    most = max(1, room // max(row_bytes, 1))
    if most >= replicates:
        most -= most % replicates
    return list(devices.spans(total, min(most, total)))
