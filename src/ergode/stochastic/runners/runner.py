"""What all runners share: the plan of a chunk, its results on the device, and its launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.status import Status
from ergode.stochastic.kernel.realization import Out, Plan
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.tables import Tables

_SUMS = ("sums", "squares_low", "squares_high", "counts")


class Runner:
    """Realizations of one network on one device.

    Parameters
    ----------
    tables : Tables
    grid : ndarray, shape [time_count]
        Times to report.
    begin : float
        Time at which realizations begin.
    seed, replicates, firings_most : int
        As for `simulate`; `replicates` of every point.
    device : Device
    leaps : bool
        Whether the method leaps over firings.
    whole : bool
        Whether amounts are whole numbers.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        grid: np.ndarray,
        begin: float,
        seed: int,
        replicates: int,
        firings_most: int,
        device: Device,
        leaps: bool = False,
        whole: bool = True,
    ) -> None:
        self.tables = tables
        self.grid = grid
        self.device = device
        self.replicates = replicates
        self.leaps = leaps
        self.whole = whole
        self._plan = Plan(
            np.uint64(seed), np.int64(replicates), np.int64(0), np.float64(begin),
            np.int64(firings_most), np.bool_(tables.moving_breaks),
            np.int64(tables.species_count),
        )  # fmt: skip

    def points(self, first: int, count: int) -> int:
        """Points of the sweep that a chunk touches."""
        return -(-(first + count) // self.replicates) - first // self.replicates

    def queue(self) -> Any:
        """Number of the next realization, on the device."""
        return self.device.put(np.zeros(1, np.int64))

    def results(self, count: int, slots: int, points: int, wanted: Wanted) -> Out:
        """Arrays for what is wanted of `count` realizations."""
        species, times = self.tables.species_count, self.grid.size
        shape = (slots, points, times if wanted.statistics else 0, species)
        log_starts = np.zeros(1, np.int64)
        if wanted.log_counts is not None:
            log_starts = np.concatenate([[0], np.cumsum(wanted.log_counts)]).astype(np.int64)
        zeros = self.device.zeros
        # Tau-leaping and the Langevin equation share a kernel; amounts of the latter are not whole.
        kind = np.float64 if self.leaps else np.int64
        return Out(
            grid=self.device.put(self.grid),
            amounts=zeros((count if wanted.amounts else 0, times, species), kind),
            sums=zeros(shape, np.int64),
            squares_low=zeros(shape, np.int64),
            squares_high=zeros(shape, np.int64),
            counts=zeros(shape[:3], np.int64),
            status=self._unset(count),
            firings=zeros((count,), np.int64),
            rows=zeros((count,), np.int64),
            ended=zeros((count,), np.float64),
            states=zeros((count if wanted.states else 0, species), np.float64),
            leaps=zeros((count if self.leaps else 0, 4), np.float64),
            log_starts=self.device.put(log_starts),
            log_times=zeros((int(log_starts[-1]),), np.float64),
            log_reactions=zeros((int(log_starts[-1]),), np.int32),
        )

    def _unset(self, count: int) -> Any:
        if self.device.is_cuda:
            return self.device.zeros((count,), np.uint8)
        return np.full(count, Status.NOT_RUN, np.uint8)

    def row_bytes(self, wanted: Wanted) -> int:
        """Memory of the results of one realization."""
        return 24 + 8 * self.grid.size * self.tables.species_count * wanted.amounts

    def fetch(self, out: Out, wanted: Wanted) -> dict[str, np.ndarray]:
        """What is wanted, on the host; sums over all slots."""
        names = ["status", "firings", "rows", "ended", "leaps"]
        names += ["amounts"] if wanted.amounts else []
        names += ["states"] if wanted.states else []
        names += _SUMS if wanted.statistics else ()
        names += ["log_times", "log_reactions"] if wanted.log_counts is not None else []
        found = {name: self.device.get(getattr(out, name)) for name in names}
        if wanted.amounts and self.whole:
            found["amounts"] = found["amounts"].astype(np.int64, copy=False)
        for name in _SUMS:
            if name in found:
                found[name] = found[name].sum(axis=0)
        return found

    def run_ranges(
        self,
        kernel: kernels.Kernel,
        count: int,
        grain: int,
        arguments: tuple[Any, ...],
        wanted: Wanted,
        report: Callable[[int], None],
    ) -> Out:
        """Run a CPU kernel over ranges of `grain` realizations; the last argument is an `Out`.

        Ctrl-C ends the run; the results say which realizations were simulated.
        """
        out: Out = arguments[-1]
        ended = np.zeros(-(-count // grain), bool)

        def finished(start: int, stop: int) -> None:
            ended[start // grain] = True
            report(stop - start)

        try:
            self.device.run(kernel, count, grain, *arguments, grain=grain, finished=finished)
        except KeyboardInterrupt as error:
            return settled(out, ended, grain, wanted, isinstance(error, Abandoned))
        return out

    def specialize(self, kernel: kernels.Kernel, arguments: tuple[Any, ...]) -> None:
        """Compile a CUDA kernel for arguments of these types."""
        from ergode.core import cuda

        cuda.specialize(kernel.compiled("cuda"), arguments)

    def launch(
        self,
        kernel: kernels.Kernel,
        blocks: int,
        threads: int,
        arguments: tuple[Any, ...],
        shared: int = 0,
    ) -> None:
        """Run a CUDA kernel to its end; `shared` is in bytes of a block."""
        from ergode.core import cuda

        cuda.launch(kernel.compiled("cuda"), blocks, threads, arguments, shared)
        cuda.synchronize()

    def resident_blocks(
        self, kernel: kernels.Kernel, threads: int, arguments: tuple[Any, ...], shared: int
    ) -> int:
        """Blocks of a CUDA kernel that are resident at once."""
        from ergode.core import cuda

        compiled = kernel.compiled("cuda")
        return cuda.cooperative_block_count(compiled, threads, arguments, shared)


def settled(out: Out, ended: np.ndarray, grain: int, wanted: Wanted, abandoned: bool) -> Out:
    """What an interrupted run has, out of reach of threads that may still be computing.

    Sums of a range that did not end hold parts of realizations. With statistics, only the ranges
    that `ended` count, and the realizations of the others are not run.
    """
    if abandoned:
        status = np.array(out.status)  # first: what follows is then written
        names = (name for name in out._fields if name != "status")
        out = out._replace(status=status, **{name: np.array(getattr(out, name)) for name in names})
    if wanted.statistics:
        for name in _SUMS:
            getattr(out, name)[~ended] = 0
        out.status[~np.repeat(ended, grain)[: out.status.size]] = Status.NOT_RUN
    for array in (out.firings, out.rows):
        array[out.status == Status.NOT_RUN] = 0
    return out
