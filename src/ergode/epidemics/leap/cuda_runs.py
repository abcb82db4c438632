"""Run tau-leaping on a CUDA device: all replicates of a chunk in one persistent grid."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import checkpoint
from ergode.core.calls.resident import fetch
from ergode.core.devices.buffers import Scratch
from ergode.core.errors import PlanError
from ergode.core.group import KIND, SOME
from ergode.epidemics.leap import options, plan
from ergode.epidemics.leap.cuda import leap_cuda
from ergode.epidemics.leap.gather import HUB, SEGMENT, Hubs
from ergode.epidemics.leap.grid import (
    BARRIER_STRIDE,
    CLOCK_SIZE,
    OVER,
    STAGE,
    START,
    TILE,
    Signals,
    Store,
)
from ergode.epidemics.leap.layout import Layout
from ergode.epidemics.leap.step import AUTO, GATHER, WORK_SIZE, LeapTables
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.epidemics.shared.options import COMPUTED

_NODES_MOST = 2**31
_STATIC_BYTES = 21 * 1024  # of shared memory, for any network
_REGISTERS = 64


Follow = Callable[[Callable[[int], None], dict[str, Any]], None]
"""``follow(launch, arrays)`` runs replicates; ``launch(budget)`` takes up to `budget` steps."""


def _at_once(launch: Callable[[int], None], arrays: dict[str, Any]) -> None:
    launch(0)


def _told(signals: Signals) -> dict[str, Any]:
    """The signals that outlast a launch."""
    return {"largest": signals.largest, "changes": signals.changes, "clock": signals.clock}


class CudaRuns:
    """Runner of `LeapEnsemble` on a CUDA device.

    Parameters
    ----------
    layout : Layout
        Sizes, options and tables on the device.
    host : LeapTables
        The same tables on the host.
    at_first : ndarray of int64, shape [column_count]
        Counts before any node has moved.
    switches : bool
        Whether steps are long enough for gathering to be faster in some of them.
    """

    def __init__(
        self, layout: Layout, host: LeapTables, at_first: np.ndarray, *, switches: bool
    ) -> None:
        self._layout = layout
        device = layout.device
        # A way of summing that is never faster is not compiled: short steps change few nodes, and
        # switching needs a single force of infection per node.
        switches = switches and layout.channel_count == 1
        self._gathers = layout.mode == GATHER or (layout.mode == AUTO and switches)
        self._pushes = layout.mode != GATHER
        # All nodes of a computed network have as many arcs, so that threads share them evenly.
        degrees = np.diff(host.incoming.offsets)
        cut = self._gathers and bool(degrees.size) and int(degrees.max()) > HUB
        tiles = -(-layout.node_count // TILE)
        self._padded = tiles * TILE
        self._source_count = host.rules.mask.size
        self._planes = self._source_count * tiles * 4
        room = device.shared_bytes_most - _STATIC_BYTES
        local = self._gathers and 4 * self._planes <= room
        self._shared_bytes = 4 * self._planes if local else 0
        # A block with much shared memory is alone on its multiprocessor.
        self._threads = 1024 if 2 * self._shared_bytes > room else 256
        self._resumes = checkpoint.is_asked()
        self._bindings = layout.bindings | {
            KIND: SOME,
            options.RESUMES: self._resumes,
            options.GATHERS: self._gathers,
            options.PUSHES: self._pushes,
            options.LOCAL_BITS: local,
            options.CUTS_HUBS: cut,
            options.SKIPS: layout.bindings[options.THRESHOLDS] and not self._gathers,
            options.GATHERED: 4 * self._threads,
            # Computing an arc takes longer than reading it, and more registers.
            **({options.ARCS_AT_ONCE: 1} if layout.bindings.get(COMPUTED, False) else {}),
            **plan.structure_of(host.rules, layout.layer_count),
        }
        self.kernel = kernels.cuda_kernel(
            leap_cuda,
            precision=layout.precision,
            bindings=self._bindings,
            registers=_REGISTERS,
        )
        self._hubs = self._cut_hubs(host.incoming.offsets, degrees if cut else degrees[:0])
        self._at_first = device.put(at_first)
        self._scratch = Scratch(device)
        self._blocks: int | None = None

    @property
    def bytes_per_replicate(self) -> int:
        """Memory per replicate, without the network [bytes]."""
        layout = self._layout
        nodes = 10 + self._source_count + (12 * layout.channel_count if self._pushes else 0)
        return nodes * layout.node_count + 4 * layout.time_count * layout.column_count

    def wanted(self) -> int:
        """Replicates that a grid runs concurrently."""
        wanted = _NODES_MOST // self._layout.node_count
        if wanted < 1:
            raise PlanError(
                f"{self._layout.node_count:,} nodes exceed the 2^31 a CUDA grid indexes"
            )
        return wanted

    def prepare(self) -> None:
        """Do nothing: `run` compiles the kernel to find the size of its grid."""

    def run(self, first_replicate: int, count: int, seeding: Any) -> tuple[Any, np.ndarray]:
        """Counts and work of `count` replicates, or of those completed before Ctrl-C."""
        if not self._resumes:
            return self._run(first_replicate, count, seeding, _at_once)
        counts: list[np.ndarray] = []
        work = np.zeros(WORK_SIZE, np.int64)
        with suppress(KeyboardInterrupt):
            for replicate in range(first_replicate, first_replicate + count):
                moved, done = self._run(replicate, 1, seeding, self._in_launches)
                counts.append(moved)
                work += done
        shape = (0, self._layout.time_count, self._layout.column_count)
        return np.concatenate([np.zeros(shape, np.int32), *counts]), work

    def _run(
        self, first_replicate: int, count: int, seeding: Any, follow: Follow
    ) -> tuple[Any, np.ndarray]:
        layout, device, threads = self._layout, self._layout.device, self._threads
        array = self._scratch.array
        moves = array("moves", (count, layout.time_count, layout.column_count), np.int32, True)
        work = array("work", WORK_SIZE, np.int64, True)
        hub_count = max(1, count * self._hubs.node.size)
        hubs = self._hubs._replace(pressure=array("hubs", hub_count, np.int32, True))
        tables = layout.tables._replace(seeding=seeding)
        store, signals = self._store(count), self._signals(count)

        def arguments(block_count: int) -> tuple[Any, ...]:
            return (
                tables, hubs, layout.seed, first_replicate, block_count, store, signals, moves, work
            )  # fmt: skip

        if self._blocks is None:
            self._blocks = device.resident_blocks(
                self.kernel, threads, *arguments(1), shared_bytes=self._shared_bytes
            )
        # Not more blocks per replicate than there are tiles for their warps.
        useful = -(-self._padded // (TILE * (threads // 32)))
        block_count = max(1, min(self._blocks // count, useful))
        blocks = block_count * min(count, self._blocks // block_count)

        def launch(budget: int) -> None:
            *first, _, moves, work = arguments(block_count)
            limited = signals._replace(budget=np.int64(budget))
            device.fill_zero(signals.barrier_words)
            device.launch(
                self.kernel, blocks, threads, *first, limited, moves, work,
                shared_bytes=self._shared_bytes,
            )  # fmt: skip

        used = {
            "since": self._bindings[options.AGED], "bits": self._gathers,
            "pressure": self._pushes, "left": self._bindings[options.THRESHOLDS],
            "due": self._bindings[options.SKIPS], "touched": self._bindings[options.SKIPS],
            "delta": self._pushes,
        }  # fmt: skip
        held = {name: array for name, array in store._asdict().items() if used.get(name, True)}
        follow(launch, {**held, **_told(signals), "moves": moves, "work": work})
        device.run(RUNNING_SUMS, count * layout.column_count, moves, self._at_first)
        return fetch(device, moves), device.get(work)

    def _in_launches(self, launch: Callable[[int], None], arrays: dict[str, Any]) -> None:
        """Run a replicate; `arrays` are its state."""
        device, last = self._layout.device, self._layout.tables.schedule.grid_tick
        end = max(1, int(device.get(last)[-1]))
        with checkpoint.single_run("tau-leaping", device) as single:
            single.restore(device, arrays)
            while True:
                (clock,) = device.get(arrays["clock"])
                if clock[STAGE] == OVER:
                    return
                launch(single.steps())
                (clock,) = device.get(arrays["clock"])
                share = 1.0 if clock[STAGE] == OVER else min(clock[START] / end, 0.999)
                single.boundary(partial(checkpoint.state_of, device, arrays), share)

    def _store(self, count: int) -> Store:
        """Allocate the nodes of `count` replicates."""
        array, padded = self._scratch.array, count * self._padded
        pushed = self._layout.channel_count * padded if self._pushes else 1
        held = padded if self._bindings[options.THRESHOLDS] else 1
        skipped = padded if self._bindings[options.SKIPS] else TILE
        return Store(
            array("state", padded // 4, np.uint32),
            array("since", padded if self._bindings[options.AGED] else 1, np.int32),
            array("bits", 2 * count * self._planes if self._gathers else 1, np.uint32),
            array("pressure", pushed, np.int32),
            array("left", held, np.int32),
            array("due", skipped // TILE, np.int32),
            array("touched", 2 * skipped // TILE, np.int32),
            array("delta", 2 * pushed, np.int32),
        )

    def _signals(self, count: int) -> Signals:
        """Allocate the communication arrays of the blocks of `count` replicates."""
        array = self._scratch.array
        word = np.dtype(f"uint{self._layout.precision[-2:]}")
        return Signals(
            array("barrier_words", count * BARRIER_STRIDE, np.int32, True),
            array("largest", 3 * count, word, True),
            array("changes", 3 * count, np.int32, True),
            array("clock", (count, CLOCK_SIZE), np.int64, True),
            np.int64(0),
        )

    def _cut_hubs(self, offsets: np.ndarray, degrees: np.ndarray) -> Hubs:
        """Rows of many arcs in segments of about equal length."""
        hubs = np.flatnonzero(degrees > HUB)
        parts = -(-degrees[hubs] // SEGMENT)
        hub = np.repeat(np.arange(hubs.size), parts)
        number = np.arange(hub.size) - np.repeat(np.cumsum(parts) - parts, parts)
        begin = offsets[hubs][hub].astype(np.int64)
        length = degrees[hubs][hub].astype(np.int64)
        put = self._layout.device.put
        return Hubs(
            put(hubs.astype(np.int32)), put(hub.astype(np.int32)),
            put(begin + length * number // np.maximum(parts[hub], 1)),
            put(begin + length * (number + 1) // np.maximum(parts[hub], 1)),
            None,
        )  # fmt: skip

    def resources(self) -> dict[str, int]:
        """Registers, local and shared bytes of the kernel; call after `run`."""
        return self._layout.device.resources(self.kernel)
