"""Realizations of a reaction-diffusion model on a device."""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.buffers import put_kept
from ergode.core.group import ALONE, KIND
from ergode.core.launch import count_that_fits
from ergode.core.resident import fetch
from ergode.core.words import counted
from ergode.stochastic.kernel import next_firing
from ergode.stochastic.kernel.interruptions import Waiting, drawing
from ergode.stochastic.kernel.realization import Out, Work
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.ranges import run_ranges
from ergode.stochastic.runners.runner import Report, Runner, new_queue
from ergode.stochastic.runners.threads import PENDING, waiting_rows
from ergode.stochastic.space import kernel
from ergode.stochastic.space.interruptions import Kept
from ergode.stochastic.space.kernel import Space, State
from ergode.stochastic.space.tables import SpaceTables
from ergode.stochastic.tables import Interruptions, Net

_THREADS = 64
# Threads for each multiprocessor: enough to hide the latency of memory.
_THREADS_A_MULTIPROCESSOR = 512
_MEMORY_SHARE = 0.8
# A larger worker is made once for each core: there are no spare ones that balance unequal work.
_SMALL_WORKER = 1 << 20
# Delayed products of a realization: some, and some in every voxel. The same of pending events.
_DELAYED, _DELAYED_IN_VOXEL = 1 << 14, 8
_PENDING_IN_VOXEL = 2

Rows = dict[str, tuple[tuple[int, ...], type]]


@lru_cache(maxsize=8)
def kernel_of(interrupted: bool, delays: frozenset[int]) -> kernels.Kernel:
    """The kernel: one for all networks and grids, by kinds of `delays` that are drawn.

    See `kernel.INTERRUPTED`.
    """
    bindings = {kernel.INTERRUPTED: interrupted, **drawing(delays)}
    return kernels.kernel(
        kernel.realize_cpu, kernel.realize_cuda, bindings={**bindings, KIND: ALONE}
    )


class SpaceRunner(Runner):
    """Realizations of one model on one device."""

    def __init__(self, model: SpaceTables, **options: Any) -> None:
        super().__init__(model.network, **options)
        self.model = model
        self._width = model.model.voxel_count * self.tables.species_count
        self._ahead = 0 if self.device.is_cuda else next_firing.AHEAD

    def run(self, first: int, count: int, wanted: Wanted, report: Report) -> dict[str, np.ndarray]:
        plan = self._plan._replace(first=np.int64(first))
        made = kernel_of(self.tables.is_interrupted, self.tables.delay_kinds)
        if self.device.is_cuda:
            workers = self._workers(count)
            out = self.results(count, 1, 1, wanted)
            queue, rows = new_queue(self.device), self._workspace(workers)
            blocks = -(-workers // _THREADS)
            self.device.launch(made, blocks, _THREADS, queue, np.int64(count), *rows, plan, out)
            report(count)
            return self.fetch(out, wanted)
        workers, grain = self._ranges(count)
        out = self.results(count, 1, 1, wanted)
        arguments = (*self._workspace(workers), plan, out)
        out = run_ranges(self.device, made, count, grain, arguments, wanted, report)
        return self.fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        arguments = (*self._workspace(1), self._plan, self.results(0, 1, 1, wanted))
        made = kernel_of(self.tables.is_interrupted, self.tables.delay_kinds)
        if self.device.is_cuda:
            self.device.prepare(made, new_queue(self.device), np.int64(0), *arguments)
        else:
            self.device.prepare(made, 1, *arguments)

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

    @cached_property
    def _rows(self) -> dict[str, Rows]:
        """Shape and type of the rows of a worker: of `Work`, `Waiting`, `State` and `Kept`."""
        tables, voxels = self.tables, self.model.model.voxel_count
        events = tables.interruptions
        delayed = bool((events.event_delays >= 0).any())
        timed = voxels if delayed or tables.has_delays or events.breaks.size else 0
        entries = 0
        if delayed:
            count = int((events.event_delays >= 0).sum())
            entries = voxels * min(PENDING, _PENDING_IN_VOXEL * count) + PENDING
        moving = tables.variable_count - tables.species_count - len(tables.naming.draws)
        waiting: Rows = {
            name: ((length,), kind)
            for name, (length, kind) in waiting_rows(
                tables, _DELAYED + _DELAYED_IN_VOXEL * voxels
            ).items()
        }
        # Their numbers are of a reaction and of a voxel.
        waiting["delayed_reactions"] = (waiting["delayed_reactions"][0], np.int64)
        return {
            "work": {
                "x": ((tables.variable_count + 1,), np.float64),
                "stack": ((tables.depth,), np.float64),
                "begun": ((0,), np.int8),
                "waits": ((self._ahead,), np.float64),
                "choices": ((self._ahead,), np.float64),
            },
            "waiting": waiting,
            "state": {
                "amounts": ((voxels, tables.species_count), np.int32),
                "tree": ((self.model.nodes,), np.float64),
            },
            "kept": {
                "reals": ((voxels, moving), np.float64),
                "armed": ((voxels, tables.event_count), np.int8),
                "wakes": ((self.model.nodes if timed else 0,), np.float64),
                "dues": ((timed,), np.float64),
                "sides": ((timed,), np.int8),
                "heads": ((voxels if delayed else 0,), np.int32),
                "links": ((entries,), np.int32),
                "places": ((entries,), np.int32),
                "pending": ((entries,), np.int32),
                "due": ((entries,), np.float64),
                "due_after": ((entries,), np.int8),
                "values": ((entries, tables.most_values), np.float64),
                "free": ((1,), np.int32),
            },
        }

    @property
    def _worker_bytes(self) -> int:
        return sum(
            prod(shape) * np.dtype(kind).itemsize
            for rows in self._rows.values()
            for shape, kind in rows.values()
        )

    def _workspace(
        self, workers: int
    ) -> tuple[Space, Net, Interruptions, Work, Waiting, State, Kept]:
        """The model, and rows of all workers."""
        put, tables, space = partial(put_kept, self.device), self.tables, self.model.space
        rows = {
            name: {
                part: self.device.empty((workers, *shape), kind)
                for part, (shape, kind) in parts.items()
            }
            for name, parts in self._rows.items()
        }
        return (
            Space(*(put(one) if isinstance(one, np.ndarray) else one for one in space)),
            Net(*map(put, tables.net)),
            Interruptions(*map(put, tables.interruptions)),
            Work(**rows["work"]), Waiting(**rows["waiting"]), State(**rows["state"]),
            Kept(**rows["kept"]),
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
