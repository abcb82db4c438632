"""Launch the window kernel on a CPU or a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core.compiler.source import Precision, Target
from ergode.core.devices import Device, resolve
from ergode.core.errors import PlanError
from ergode.core.kernels import Kernel
from ergode.core.resident import fetch
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.epidemics.shared.importation import ImportedCases
from ergode.epidemics.shared.lines import LineState
from ergode.epidemics.shared.options import (
    HAS_COUNTERS,
    HAS_LINES,
    HAS_TRACING,
    HAS_TRIGGERS,
    LISTING,
)
from ergode.epidemics.shared.sweep import Rows
from ergode.epidemics.shared.tables import EpidemicTables
from ergode.epidemics.windows.kernel import THREADS
from ergode.epidemics.windows.moves import Records, Results
from ergode.epidemics.windows.state import ROOM, Arcs, Epidemic, Paths, Recent
from ergode.epidemics.windows.tracing import TracingState
from ergode.epidemics.windows.triggers import BINS, TriggerState

# Positions that one grid works on at once: enough to fill a device.
_POSITIONS = 2**22
_INDEXABLE = 2**31


class _Windows:
    """Base of the launchers of the kernel.

    Parameters
    ----------
    device : Device
    kernel : Kernel
    arcs : Arcs
        On the device.
    bindings : dict
        Of the kernel.
    precision : {"float32", "float64"}
    at_first : ndarray of int32, shape [column_count]
        Counts before any move.
    time_count : int
    seed_count : int
        Largest number of seeds of a replicate.
    """

    def __init__(
        self,
        device: Device,
        kernel: Kernel,
        arcs: Arcs,
        bindings: dict[Any, Any],
        precision: Precision,
        at_first: np.ndarray,
        time_count: int,
        seed_count: int,
    ) -> None:
        self._device, self._kernel, self._arcs = device, kernel, arcs
        self._bindings, self._precision, self._at_first = bindings, precision, at_first
        self._shape = time_count, at_first.size
        self._seed_count = seed_count
        self._buffers: tuple[Any, ...] = ()
        self._made_for: tuple[int, ...] = ()
        self._blocks = 0


class OnCPU(_Windows):
    """Each thread runs one replicate at a time."""

    @property
    def host(self) -> Device:
        """Where importations are listed."""
        return self._device

    def bytes_per_node(self, plan_size: int, line_count: int, detections: int) -> int:
        """Memory that a node of a replicate needs for as long as its chunk [bytes]."""
        return 0

    def chunk_size(self, most: int, replicates: int, node_count: int, bytes_each: int) -> int:
        """Replicates per chunk; `most` is the limit of all methods."""
        return most

    def prepare(self, run: Callable[[], Any]) -> None:
        """Compile the kernel by an empty run."""
        run()

    def run(
        self, tables: EpidemicTables, imported_cases: ImportedCases, seed: np.uint64,
        rows: Rows, count: int, width: Any, record_room: int, detection_room: int,
    ) -> tuple[np.ndarray, np.ndarray, Records, int]:  # fmt: skip
        """Counts, work [2], records, and the room needed for detections of a node."""
        counts = np.empty((count, *self._shape), np.int32)
        work = np.zeros((count, 2), np.int64)
        needed = np.zeros(count, np.int32)
        records = new_records(count, record_room, self._precision, np.empty)
        arguments = (
            self._arcs, tables, imported_cases, seed, rows, width, detection_room,
            Results(records, counts), needed, work,
        )  # fmt: skip
        if count:
            self._device.run(self._kernel, count, *arguments)
        else:
            self._device.prepare(self._kernel, *arguments)
        return counts, work.sum(axis=0), records, int(needed.max(initial=0))


class OnCUDA(_Windows):
    """All replicates of a chunk in one persistent grid."""

    @property
    def host(self) -> Device:
        """Where importations are listed."""
        return resolve("cpu")

    def bytes_per_node(self, plan_size: int, line_count: int, detections: int) -> int:
        """Memory that a node of a replicate needs for as long as its chunk [bytes]."""
        size = 16 + (9 if self._bindings[LISTING] else 5) * ROOM + 4 + 16
        if self._bindings[HAS_TRACING]:
            size += 4 * plan_size + 8 * detections + 4
        if self._bindings.get(HAS_LINES, False):
            size += 12 * line_count
        if self._bindings.get(HAS_COUNTERS, False):
            size += 8 * detections + 4
        return size

    def chunk_size(self, most: int, replicates: int, node_count: int, bytes_each: int) -> int:
        """Replicates to run together: as many as keep the device busy and fit its memory."""
        if node_count >= _INDEXABLE:
            raise PlanError(f"{node_count:,} nodes exceed the 2^31 a CUDA grid indexes")
        fits = self._device.available_bytes() // bytes_each
        return max(1, min(replicates, fits, _POSITIONS // node_count))

    def prepare(self, run: Callable[[], Any]) -> None:
        """Do nothing: a launch compiles the kernel to find the size of its grid."""

    def run(
        self, tables: EpidemicTables, imported_cases: ImportedCases, seed: np.uint64,
        rows: Rows, count: int, width: Any, record_room: int, detection_room: int,
    ) -> tuple[Any, np.ndarray, Records, int]:  # fmt: skip
        """Counts, work [2], records, and the room needed for detections of a node.

        Counts are on the device if results stay there.
        """
        node_count = self._arcs.first.size - 1
        made_for = count, record_room, detection_room
        if self._made_for != made_for:
            self._buffers = ()  # first free those of another size
            self._buffers = cuda_buffers(
                node_count, count, tables, self._bindings, self._precision, self._shape,
                record_room, detection_room, self._device.empty,
            )  # fmt: skip
            self._made_for = made_for
        paths, triggers, tracing, lines, recent, queue, waiting, results, work = self._buffers
        epidemic = Epidemic(
            self._arcs, tables, imported_cases, paths, triggers, tracing, lines, recent, seed
        )
        self._device.fill_zero(results.moves)
        self._device.fill_zero(results.records.count)
        arguments = (
            epidemic, rows, self._seed_count, width, queue, waiting, results, work
        )  # fmt: skip
        if not self._blocks:
            self._blocks = self._device.resident_blocks(self._kernel, THREADS, *arguments)
            self._at_first = self._device.put(self._at_first)
        blocks = min(self._blocks, -(-count * node_count // THREADS))
        self._device.launch(self._kernel, blocks, THREADS, *arguments)
        columns = count * self._shape[1]
        self._device.run(RUNNING_SUMS, columns, results.moves, self._at_first)
        detections = 0
        if self._bindings[HAS_TRACING] or self._bindings.get(HAS_COUNTERS, False):
            detections = int(self._device.get(tracing.room)[0])
        counts = fetch(self._device, results.moves)
        return counts, self._device.get(work), results.records, detections


ON_DEVICE: dict[Target, type[OnCPU] | type[OnCUDA]] = {"cpu": OnCPU, "cuda": OnCUDA}


def new_records(count: int, room: int, precision: Precision, empty: Any) -> Records:
    """Records of `count` replicates, made by ``empty(shape, dtype)``."""
    return Records(
        empty(count, np.int64), empty((count, room), np.int32), empty((count, room), precision),
        empty((count, room), np.uint8), empty((count, room), np.int32),
    )  # fmt: skip


def cuda_buffers(
    node_count: int, count: int, tables: EpidemicTables, bindings: dict[Any, Any],
    precision: Precision, shape: tuple[int, int], record_room: int, detection_room: int, empty: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Results and scratch memory of the CUDA kernel, made by ``empty(shape, dtype)``."""
    position_count, plan = count * node_count, tables.interventions.kind.size
    word = np.dtype(f"uint{8 * np.dtype(precision).itemsize}")
    watched = position_count if bindings[HAS_TRACING] else 1
    has_lines = bindings.get(HAS_LINES, False)
    line_count = tables.interventions.lines.measure.size
    queued = position_count if has_lines else 1
    searches = plan + (line_count if has_lines else 0)
    paths = Paths(
        empty((position_count, 4), word), empty((ROOM, position_count), precision),
        empty((ROOM, position_count), np.uint8),
        empty((ROOM, position_count) if bindings[LISTING] else (1, 1), np.int32),
        empty(position_count, np.int32),
    )  # fmt: skip
    triggers = TriggerState(
        empty((2, count), precision), empty((2, count), word), empty((count, 3 * plan), precision),
        empty((count, tables.interventions.triggers.counts.shape[1]), np.int32),
        empty((count, searches), word),
        empty((count, searches), np.int32), empty((count, searches), np.int32),
        empty((count, searches), np.int32),
        empty((count, searches, BINS if bindings[HAS_TRIGGERS] else 1), np.int32),
    )  # fmt: skip
    tracing = TracingState(
        empty((plan, watched), word), empty((detection_room, watched), precision),
        empty((detection_room, watched), np.int32), empty(watched, np.int32), empty(1, np.int32),
    )  # fmt: skip
    lines = LineState(
        empty((line_count, queued), precision), empty((line_count, queued), np.int32),
        empty((count, line_count), np.int32), empty((line_count, queued), np.int32),
        empty((count, line_count), np.int32), empty((count, line_count), np.int32),
        empty((count, line_count), np.int32),
    )  # fmt: skip
    entered = position_count if bindings.get(HAS_COUNTERS, False) else 1
    recent = Recent(
        empty((detection_room, entered), precision), empty((detection_room, entered), np.int32),
        empty(entered, np.int32),
    )  # fmt: skip
    results = Results(
        new_records(count, record_room, precision, empty), empty((count, *shape), np.int32)
    )
    return (
        paths, triggers, tracing, lines, recent, empty((2, position_count), np.int64),
        empty((3, 3), np.int32), results, empty(2, np.int64),
    )  # fmt: skip
