"""Realizations in chunks that fit in memory, and the collection of their output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ergode.core import devices, log
from ergode.core.calls import launch
from ergode.core.calls.launch import count_that_fits
from ergode.core.devices import Device
from ergode.core.results.statistics import GROUP
from ergode.core.status import Status

_ROOM_SHARE = 0.4
# Results of this size are summed up within some tenths of a second.
_CHUNK_BYTES = 2**25


@dataclass(frozen=True)
class Wanted:
    """Results to keep of a chunk."""

    amounts: bool = False  # amounts of every realization at every time
    statistics: bool = False  # sums over realizations
    states: bool = False  # the last state of each realization
    # int64: firings of each realization, if a log of them is kept.
    log_counts: np.ndarray | None = None
    log_first: bool = False  # a log is wanted, and this run counts the firings of each realization


class ChunkRunner(Protocol):
    """Simulates realizations of one network by one method on one device."""

    def prepare(self, count: int, wanted: Wanted) -> None:
        """Compile what `run` needs."""

    def row_bytes(self, wanted: Wanted) -> int:
        """Memory of the results of one realization."""

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        """Simulate realizations `first` to ``first + count``; return the requested output."""


class Collector(Protocol):
    """Collects the results of chunks."""

    wanted: Wanted
    takes_long: bool

    def widens(self, status: np.ndarray) -> bool:
        """Whether realizations of these statuses are needed again, with what is `wanted` now."""

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        """Add the results of the realizations from number `first` on."""


def simulate_chunks(
    runner: ChunkRunner, collect: Collector, total: int, replicates: int, device: Device, show: bool
) -> dict[str, np.ndarray]:
    """Simulate all realizations; their status, firings, reported times and steps.

    Ctrl-C ends the run with a warning. Realizations that were not simulated have the status
    ``NOT_RUN``.

    Raises a KeyboardInterrupt if no realization was simulated before Ctrl-C.
    """
    firings = np.zeros(total, np.int64)
    rows = np.zeros(total, np.int64)
    # It is written: the last, as memory that does not suffice is then told at once.
    status = np.full(total, Status.NOT_RUN, np.uint8)
    leaps = []

    def most() -> int:
        row_bytes = runner.row_bytes(collect.wanted)
        found = chunk_size(row_bytes, device)
        return min(found, max(1, _CHUNK_BYTES // row_bytes)) if collect.takes_long else found

    def simulate_chunk(start: int, stop: int, report: Callable[[int], None]) -> bool:
        complete = True
        while start < stop:
            end = min(stop, start + most())
            found = _run_chunk(runner, start, end - start, collect.wanted, report)
            if collect.widens(found["status"]):
                continue
            status[start:end] = found["status"]
            firings[start:end] = found["firings"]
            rows[start:end] = found["rows"]
            leaps.append(found["leaps"])
            collect.add(found, start)
            complete = complete and not (found["status"] == Status.NOT_RUN).any()
            start = end
            if not complete:
                break
        return complete

    size = most()
    launch.run_chunks(
        "stochastic", total, size, simulate_chunk, unit="realizations", show=show,
        least=_least(collect.wanted, device),
        cut=lambda start, stop: _cut(start, stop, replicates),
    )  # fmt: skip
    if (status == Status.NOT_RUN).all():
        raise KeyboardInterrupt
    return {
        "status": status, "firing_count": firings, "rows": rows, "leaps": np.concatenate(leaps),
    }  # fmt: skip


def _run_chunk(
    runner: ChunkRunner, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
) -> dict[str, np.ndarray]:
    """Simulate one chunk. A log of firings takes a second run, once its length is known."""
    found = runner.run(first, count, wanted, report)
    if not wanted.log_first:
        return found
    if (found["status"] == Status.NOT_RUN).any():
        raise KeyboardInterrupt
    firings = found["firings"]
    total = int(firings.sum())
    launch.check_room(
        40 * total, f"the list of {total:,} firings", "use fewer replicates or less time"
    )
    found = runner.run(first, count, Wanted(log_counts=firings), lambda _: None)
    missing = found["status"] == Status.NOT_RUN
    if missing.any():
        logged = np.repeat(~missing, firings)
        found |= {name: found[name][logged] for name in ("log_times", "log_reactions")}
    return found


def chunk_size(row_bytes: int, device: Device) -> int:
    """Realizations of a chunk, whose results fit.

    Raises a PlanError if the results of one realization do not fit.
    """
    places = {device} if log.is_elsewhere() else {device, devices.resolve("cpu")}
    room = min(
        count_that_fits(where, row_bytes, "one realization", "use fewer times") for where in places
    )
    return max(1, int(_ROOM_SHARE * room))


def _least(wanted: Wanted, device: Device) -> int:
    """See `launch.least_chunk`; chunks of an event log need two runs, so they are small."""
    if wanted.log_first and not device.is_cuda:
        return 8 * device.core_count
    return launch.least_chunk(device)


def _cut(start: int, stop: int, replicates: int) -> int:
    """The last place up to `stop` where a chunk may end: between points, or groups of moments."""
    beyond = stop % replicates
    for place in (stop - beyond, stop - beyond % GROUP):
        if place > start:
            return place
    return stop
