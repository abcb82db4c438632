"""Base class of runners: the plan of a chunk, its run, and its results on the device.

On a CPU each thread takes ranges of realizations. On CUDA each thread, or group of threads, takes
the next realization from a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls.resident import fetch
from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.status import Status
from ergode.stochastic.kernel.realization import Plan
from ergode.stochastic.kernel.results import Out
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.tables import Tables

SUMS = ("sums", "squares_low", "squares_high", "counts")

Report = Callable[[int], None]
Made = tuple[kernels.Kernel, tuple[Any, ...]]


class Runner:
    """Realizations of one network on one device."""

    def __init__(
        self,
        tables: Tables,
        *,
        grid: np.ndarray,  # [time_count]: times of the results
        begin: float,  # time at which realizations begin
        seed: int,
        replicates: range,  # numbers of the replicates of every point
        # Distance between these numbers as keys of successive points; 0 if points share them.
        apart: int = 0,
        max_firings: int,
        device: Device,
        tells: bool = False,  # whether the method has statistics of its steps
        flows: bool = False,  # whether variables change between firings
        whole: bool = True,  # whether amounts are whole numbers
    ) -> None:
        self.tables = tables
        self.grid = grid
        self.device = device
        self.replicates = len(replicates)
        self.tells = tells
        # Tau-leaping shares a kernel with the Langevin equation, whose amounts are not whole.
        self.real = tells or flows or tables.reported_count > tables.species_count
        self.are_real = tables.is_real | (not whole)
        self.whole = not self.are_real.any()
        self._plan = Plan(
            np.uint64(seed), np.int64(len(replicates)), np.int64(replicates.start),
            np.int64(apart), np.int64(0), np.float64(begin), np.int64(max_firings),
            np.bool_(tables.moving_breaks), np.int64(tables.species_count),
            np.bool_(tables.reaction_count > 0),
        )  # fmt: skip

    # ---- what a kind of runner says

    def made(self, count: int, workers: int, wanted: Wanted) -> Made:
        """The kernel for a chunk of `count` realizations, and its arrays for so many workers."""
        raise NotImplementedError

    def launch(self, count: int, wanted: Wanted, *ends: Any) -> None:
        """Run the kernel for a chunk on CUDA; `ends` are its last arguments."""
        raise NotImplementedError

    def ranges(self, count: int) -> tuple[int, int]:
        """Number of ranges of a chunk, each with its own worker, and realizations of a range."""
        raise NotImplementedError

    def piece(self, count: int) -> int:
        """Least realizations of a piece of a range that takes long."""
        return 1

    # ---- a run

    def prepare(self, count: int, wanted: Wanted) -> None:
        """Compile what `run` needs."""
        kernel, arrays = self.made(count, 1, wanted)
        first = (new_queue(self.device), np.int64(0)) if self.device.is_cuda else (1,)
        out = self.results(0, 1, 1, wanted)
        with kernels.readable_errors():
            self.device.prepare(kernel, *first, *arrays, self._plan, out)

    def run(self, first: int, count: int, wanted: Wanted, report: Report) -> dict[str, np.ndarray]:
        """Simulate realizations `first` to ``first + count``; return the requested output."""
        plan, points = self._plan._replace(first=np.int64(first)), self.points(first, count)
        with kernels.readable_errors():
            if not self.device.is_cuda:
                return self.fetch(self._run_ranges(count, points, wanted, report, plan), wanted)
            out = self.results(count, 1, points, wanted)
            self.launch(count, wanted, plan, out)
        found = self.fetch(out, wanted)
        report(count)
        return found

    def _run_ranges(
        self, count: int, points: int, wanted: Wanted, report: Report, plan: Plan
    ) -> Out:
        """Run a kernel over ranges. Ctrl-C ends it; the status says what was simulated."""
        workers, grain = self.ranges(count)
        kernel, arrays = self.made(count, workers, wanted)
        out = self.results(count, workers, points, wanted)
        self.device.prepare(kernel, grain, *arrays, plan, out)
        try:
            self.device.run(
                kernel, count, grain, *arrays, plan, out, grain=grain,
                piece=min(self.piece(count), grain),
                finished=lambda start, stop: report(stop - start),
            )  # fmt: skip
        except Abandoned as error:  # threads still write to these arrays
            status = np.array(out.status)  # first: all that follows is then complete
            names = (name for name in out._fields if name != "status")
            out = out._replace(
                status=status, **{name: np.array(getattr(out, name)) for name in names}
            )
            leave_out(out, [start // grain for start, _ in error.spans], grain, wanted)
        except KeyboardInterrupt:
            pass
        return out

    # ---- results

    def points(self, first: int, count: int) -> int:
        """Number of points of the sweep in a chunk."""
        return -(-(first + count) // self.replicates) - first // self.replicates

    def results(self, count: int, slots: int, points: int, wanted: Wanted) -> Out:
        """Arrays for the results of `count` realizations."""
        species, times = self.tables.species_count, self.grid.size
        shape = (slots, points, times if wanted.statistics else 0, species)
        log_starts = np.zeros(1, np.int64)
        if wanted.log_counts is not None:
            log_starts = np.concatenate([[0], np.cumsum(wanted.log_counts)]).astype(np.int64)
        zeros = self.device.zeros
        status = self.device.empty((count,), np.uint8)
        self.device.copy(np.full(count, Status.NOT_RUN, np.uint8), status)
        reported = self.tables.reported_count
        kind = np.float64 if self.real else np.int64
        return Out(
            grid=self.device.put(self.grid),
            amounts=zeros((count if wanted.amounts else 0, times, reported), kind),
            sums=zeros(shape, np.int64),
            squares_low=zeros(shape, np.int64),
            squares_high=zeros(shape, np.int64),
            counts=zeros(shape[:3], np.int64),
            status=status,
            firings=zeros((count,), np.int64),
            rows=zeros((count,), np.int64),
            ended=zeros((count,), np.float64),
            states=zeros((count if wanted.states else 0, species), np.float64),
            leaps=zeros((count if self.tells else 0, 6), np.float64),
            log_starts=self.device.put(log_starts),
            log_times=zeros((int(log_starts[-1]),), np.float64),
            log_reactions=zeros((int(log_starts[-1]),), np.int32),
            real=self.device.put(self.are_real.astype(np.int8)),
        )

    def row_bytes(self, wanted: Wanted) -> int:
        """Memory of the results of one realization [bytes]."""
        return 24 + 8 * self.grid.size * self.tables.reported_count * wanted.amounts

    def fetch(self, out: Out, wanted: Wanted) -> dict[str, Any]:
        """The requested results on the host, summed over all slots.

        Amounts are on the device if results stay there.
        """
        names = ["status", "firings", "rows", "ended", "leaps"]
        names += ["states"] if wanted.states else []
        names += SUMS if wanted.statistics else ()
        names += ["log_times", "log_reactions"] if wanted.log_counts is not None else []
        found = {name: self.device.get(getattr(out, name)) for name in names}
        species_count = self.tables.species_count
        if wanted.amounts:
            found["amounts"] = fetch(self.device, out.amounts)
        if wanted.amounts and self.whole and self.tables.reported_count == species_count:
            found["amounts"] = found["amounts"].astype(np.int64, copy=False)
        for name in SUMS:
            if name in found:
                found[name] = found[name].sum(axis=0)
        return found


def new_queue(device: Device) -> Any:
    """A queue on a CUDA device: the index of the next realization."""
    return device.put(np.zeros(1, np.int64))


def leave_out(out: Out, slots: Sequence[int], grain: int, wanted: Wanted) -> None:
    """Omit from results the realizations that did not finish.

    Those in `slots` include unfinished ones. For statistics, all realizations of these slots are
    omitted, because sums contain parts of realizations.
    """
    if wanted.statistics:
        for slot in slots:
            for name in SUMS:
                getattr(out, name)[slot] = 0
            out.status[slot * grain : (slot + 1) * grain] = Status.NOT_RUN
    missing = out.status == Status.NOT_RUN
    for array in (out.amounts, out.firings, out.rows, out.leaps):
        if len(array):
            array[missing] = 0
    out.ended[missing] = np.inf
