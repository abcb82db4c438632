"""Realizations of a reaction-diffusion model on a device."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls.resident import fetch
from ergode.core.devices.buffers import put_kept
from ergode.core.group import ALONE, KIND
from ergode.core.words import counted
from ergode.stochastic.kernel import realization
from ergode.stochastic.kernel.interruptions import drawing
from ergode.stochastic.kernel.results import Out
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import Made
from ergode.stochastic.runners.threads import PENDING, Shapes, WorkerRunner, waiting_rows, work_rows
from ergode.stochastic.space import kernel
from ergode.stochastic.space.kernel import State
from ergode.stochastic.space.tables import SpaceTables

# A larger worker is made once for each core: there are no spare ones that balance unequal work.
_SMALL_WORKER = 1 << 20
# Delayed products of a realization: some, and some in every voxel. The same of pending events.
_DELAYED, _DELAYED_IN_VOXEL = 1 << 14, 8
_PENDING_IN_VOXEL = 2


@lru_cache(maxsize=8)
def kernel_of(interrupted: bool, delays: frozenset[int]) -> kernels.Kernel:
    """The kernel: one for all networks and grids, by kinds of `delays` that are drawn.

    See `realization.INTERRUPTED`.
    """
    bindings = {
        **kernel.BINDINGS, **drawing(delays), realization.INTERRUPTED: interrupted, KIND: ALONE,
    }  # fmt: skip
    return kernels.kernel(realization.realize_cpu, realization.realize_cuda, bindings=bindings)


class SpaceRunner(WorkerRunner):
    """Realizations of one model on one device."""

    def __init__(self, model: SpaceTables, **options: Any) -> None:
        super().__init__(model.network, **options)
        self.model = model
        voxels = counted(model.model.voxel_count, "voxel")
        self.said = f"one realization of {voxels}", "use fewer voxels"
        self._width = model.model.voxel_count * self.tables.species_count
        self._plan = self._plan._replace(acts=np.bool_(True))

    def made(self, count: int, workers: int, wanted: Wanted) -> Made:
        shared = {
            name: put_kept(self.device, value) if isinstance(value, np.ndarray) else value
            for name, value in self.model.space.items()
        }
        kernel = kernel_of(self.tables.is_interrupted, self.tables.delay_kinds)
        return kernel, self.workspace(workers, State, shared)

    def ranges(self, count: int) -> tuple[int, int]:
        ranges = self.device.core_count
        if self.worker_bytes <= _SMALL_WORKER:
            ranges *= 8
        grain = max(1, -(-count // min(ranges, self.room)))
        return -(-count // grain), grain

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
    def rows(self) -> dict[str, Shapes]:
        tables, voxels = self.tables, self.model.model.voxel_count
        events = tables.interruptions
        delayed = bool((events.event_delays >= 0).any())
        timed = voxels if delayed or tables.has_delays or events.breaks.size else 0
        entries = 0
        if delayed:
            count = int((events.event_delays >= 0).sum())
            entries = voxels * min(PENDING, _PENDING_IN_VOXEL * count) + PENDING
        moving = tables.variable_count - tables.species_count - len(tables.naming.draws)
        waiting: dict[str, Any] = dict(waiting_rows(tables, _DELAYED + _DELAYED_IN_VOXEL * voxels))
        # Their numbers are of a reaction and of a voxel.
        waiting["delayed_reactions"] = (waiting["delayed_reactions"][0], np.int64)
        return {
            "work": work_rows(tables, self.device, 0),
            "waiting": waiting,
            "state": {
                "amounts": ((voxels, tables.species_count), np.int32),
                "tree": (self.model.nodes, np.float64),
                "rest": (1, np.float64),
                "reals": ((voxels, moving), np.float64),
                "armed": ((voxels, tables.event_count), np.int8),
                "wakes": (self.model.nodes if timed else 0, np.float64),
                "dues": (timed, np.float64),
                "sides": (timed, np.int8),
                "heads": (voxels if delayed else 0, np.int32),
                "links": (entries, np.int32),
                "places": (entries, np.int32),
                "pending": (entries, np.int32),
                "due": (entries, np.float64),
                "due_after": (entries, np.int8),
                "values": ((entries, tables.most_values), np.float64),
                "free": (1, np.int32),
            },
        }
