"""Realizations of a reaction-diffusion model on a device."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.buffers import put_kept
from ergode.core.launch import count_that_fits
from ergode.core.resident import fetch
from ergode.core.words import counted
from ergode.stochastic.kernel import next_firing
from ergode.stochastic.kernel.realization import Out, Work
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.ranges import run_ranges
from ergode.stochastic.runners.runner import Report, Runner, new_queue
from ergode.stochastic.space import kernel
from ergode.stochastic.space.kernel import Space, State
from ergode.stochastic.space.tables import SpaceTables
from ergode.stochastic.tables import Net

_THREADS = 64
# Threads for each multiprocessor: enough to hide the latency of memory.
_THREADS_A_MULTIPROCESSOR = 512
_MEMORY_SHARE = 0.8
# A larger worker is made once for each core: there are no spare ones that balance unequal work.
_SMALL_WORKER = 1 << 20


@lru_cache(maxsize=1)
def kernel_of() -> kernels.Kernel:
    """The kernel: one for all networks and grids."""
    return kernels.kernel(kernel.realize_cpu, kernel.realize_cuda)


class SpaceRunner(Runner):
    """Realizations of one model on one device."""

    def __init__(self, model: SpaceTables, **options: Any) -> None:
        super().__init__(model.network, **options)
        self.model = model
        self._width = model.model.voxel_count * self.tables.species_count
        self._ahead = 0 if self.device.is_cuda else next_firing.AHEAD

    def run(self, first: int, count: int, wanted: Wanted, report: Report) -> dict[str, np.ndarray]:
        plan = self._plan._replace(first=np.int64(first))
        if self.device.is_cuda:
            workers = self._workers(count)
            out = self.results(count, 1, 1, wanted)
            queue, rows = new_queue(self.device), self._workspace(workers)
            blocks = -(-workers // _THREADS)
            self.device.launch(
                kernel_of(), blocks, _THREADS, queue, np.int64(count), *rows, plan, out
            )
            report(count)
            return self.fetch(out, wanted)
        workers, grain = self._ranges(count)
        out = self.results(count, 1, 1, wanted)
        arguments = (*self._workspace(workers), plan, out)
        out = run_ranges(self.device, kernel_of(), count, grain, arguments, wanted, report)
        return self.fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        arguments = (*self._workspace(1), self._plan, self.results(0, 1, 1, wanted))
        if self.device.is_cuda:
            self.device.prepare(kernel_of(), new_queue(self.device), np.int64(0), *arguments)
        else:
            self.device.prepare(kernel_of(), 1, *arguments)

    def results(self, count: int, slots: int, points: int, wanted: Wanted) -> Out:
        """Arrays for the results of `count` realizations; amounts [row, time, species voxel]."""
        out = super().results(count, slots, points, Wanted())
        amounts = self.device.empty((count, self.grid.size, self._width), np.int32)
        return out._replace(amounts=amounts)

    def row_bytes(self, wanted: Wanted) -> int:
        """Memory of the results of one realization [bytes]."""
        return 24 + 4 * self.grid.size * self._width

    def fetch(self, out: Out, wanted: Wanted) -> dict[str, Any]:
        """Results on the host; amounts [row, time, species, voxel] may stay on the device."""
        found = super().fetch(out, Wanted())
        amounts = fetch(self.device, out.amounts)
        shape = (*amounts.shape[:2], self.tables.species_count, self.model.model.voxel_count)
        return found | {"amounts": amounts.reshape(shape)}

    @property
    def _worker_bytes(self) -> int:
        rows = 2 * self.tables.variable_count + self.tables.depth + 2 * self._ahead
        return 4 * self._width + 8 * self.model.nodes + 8 * rows

    def _workspace(self, workers: int) -> tuple[Space, Net, Work, State]:
        """The model, and rows of all workers."""
        put, tables, space = partial(put_kept, self.device), self.tables, self.model.space
        voxels, species = self.model.model.voxel_count, tables.species_count

        def rows(*shape: int, kind: type = np.float64) -> Any:
            return self.device.empty((workers, *shape), kind)

        return (
            Space(*(put(one) if isinstance(one, np.ndarray) else one for one in space)),
            Net(*map(put, tables.net)),
            Work(
                x=rows(tables.variable_count + 1), stack=rows(tables.depth),
                begun=rows(0, kind=np.int8), waits=rows(self._ahead), choices=rows(self._ahead),
            ),
            State(rows(voxels, species, kind=np.int32), rows(self.model.nodes)),
        )  # fmt: skip

    def _ranges(self, count: int) -> tuple[int, int]:
        """Number of ranges of a chunk, each with its own worker, and realizations of a range."""
        ranges = 8 * self.device.core_count
        if self._worker_bytes > _SMALL_WORKER:
            ranges = self.device.core_count
        grain = max(1, -(-count // min(ranges, self._room())))
        return -(-count // grain), grain

    def _workers(self, count: int) -> int:
        """Number of concurrent realizations on a GPU."""
        return min(count, _THREADS_A_MULTIPROCESSOR * self.device.core_count, self._room())

    def _room(self) -> int:
        bytes_each = int(self._worker_bytes / _MEMORY_SHARE)
        voxels = f"one realization of {counted(self.model.model.voxel_count, 'voxel')}"
        return max(1, count_that_fits(self.device, bytes_each, voxels, "use fewer voxels"))
