"""Realizations by an algorithm on the tables of a network, one thread per realization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ergode.core import group, kernels
from ergode.core.buffers import put_kept
from ergode.core.compiler.source import Target
from ergode.core.launch import count_that_fits
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.kernel import interruptions, next_firing, realization
from ergode.stochastic.kernel.interruptions import Waiting
from ergode.stochastic.kernel.realization import Work
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.ranges import run_ranges
from ergode.stochastic.runners.runner import Report, Runner, new_queue
from ergode.stochastic.tables import Interruptions, Net, Tables, constant

_THREADS = 64
PENDING = 32
"""Most pending events of a realization, or two of each event."""
_DELAYED = 4096
# Threads for each multiprocessor: enough to hide the latency of memory.
_THREADS_A_MULTIPROCESSOR = 512
# Up to this number of realizations per multiprocessor, each realization has a warp.
_WARPS_A_MULTIPROCESSOR = 64
# Initial states are prepared once per point if reactions times points are at most this.
_PREPARED_MOST = 10**7
# With this limit, half of a multiprocessor's warps are resident.
_REGISTERS = 64
# Share of a GPU's memory for the rows of workers; the rest is for results.
_MEMORY_SHARE = 0.8


@lru_cache(maxsize=64)
def kernel_of(
    algorithm: Algorithm, general: bool, prepared: bool, led: bool = False,
    delays: frozenset[int] = frozenset(),
) -> kernels.Kernel:  # fmt: skip
    """The kernel of an algorithm (see `realization.GENERAL` and `realization.PREPARED`).

    `delays` are kinds of holding times that are drawn. If `led`, a warp of a GPU has one
    realization, and its first lane simulates it.
    """
    bindings: dict[Any, Any] = algorithm.bindings()
    bindings |= {
        realization.LEAPS: algorithm.leaps,
        realization.FLOWS: algorithm.flows,
        realization.GENERAL: general,
        realization.PREPARED: prepared,
        group.KIND: group.PART if led else group.ALONE,
        **interruptions.drawing(delays),
    }
    if prepared:
        bindings[realization.copy_prepared] = algorithm.copy_prepared
    body = realization.realize_led_cuda if led else realization.realize_cuda
    return kernels.kernel(realization.realize_cpu, body, bindings=bindings, registers=_REGISTERS)


def waiting_rows(tables: Tables, delayed: int = _DELAYED) -> dict[str, tuple[int, type]]:
    """Length and type of each row in `Waiting`; `delayed` is the number of delayed products."""
    pending = max(PENDING, 2 * tables.event_count) if tables.event_count > 0 else 0
    delayed = delayed if tables.has_delays else 0
    return {
        "armed": (tables.event_count, np.int8),
        "due": (pending, np.float64),
        "due_after": (pending, np.int8),
        "pending": (pending, np.int32),
        "values": (pending * tables.most_values, np.float64),
        "keys": (3, np.uint64),
        "delayed_times": (delayed, np.float64),
        "delayed_reactions": (delayed, np.int32),
        "delayed_count": (1, np.int32),
    }


class TableRunner(Runner):
    """Realizations by an algorithm on the tables of a network.

    The base of `ThreadRunner` and `CUDAThreadRunner`. `control` are the constants of an algorithm
    that leaps (see `algorithms.leap.control`).
    """

    _draws_ahead = 0

    def __init__(
        self,
        tables: Tables,
        *,
        algorithm: Algorithm,
        control: Mapping[str, np.ndarray] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(tables, leaps=algorithm.leaps, flows=algorithm.flows, **options)
        self.algorithm = algorithm
        self.control = dict(control or {})

    def kernel_for(self, wanted: Wanted, led: bool = False) -> tuple[kernels.Kernel, bool]:
        """The kernel for this network, and whether its realizations copy a prepared state."""
        logged = wanted.log_first or wanted.log_counts is not None
        general = logged or not self.tables.is_plain or self.algorithm.flows
        prepared = not general and self.prepares()
        delays = self.tables.delay_kinds
        return kernel_of(self.algorithm, general, prepared, led, delays), prepared

    def prepares(self) -> bool:
        """Whether realizations copy initial state that is prepared once per point."""
        points = len(self.tables.net.initial)
        return (
            self.algorithm.prepared is not None
            and points * self.tables.reaction_count <= _PREPARED_MOST
        )

    def network(self) -> tuple[Net, Interruptions]:
        """The network's arrays on the device."""
        put, tables = partial(put_kept, self.device), self.tables
        return Net(*map(put, tables.net)), Interruptions(*map(put, tables.interruptions))

    def constants(self, make: Callable[..., dict[str, Any]], *options: Any) -> dict[str, Any]:
        """Arrays that a function computes from the tables for all workers, on the device."""
        return {
            name: value if np.isscalar(value) else put_kept(self.device, constant(value))
            for name, value in self.tables.once(make, *options).items()
        }

    def _rows(self) -> dict[str, tuple[int, type]]:
        ahead = self._draws_ahead
        return {
            "x": (self.tables.variable_count + 1, np.float64),
            "stack": (self.tables.depth, np.float64),
            "begun": (1, np.int8),
            "waits": (ahead, np.float64),
            "choices": (ahead, np.float64),
        }

    def worker_bytes(self) -> int:
        """Memory of one worker [bytes]."""
        own = self.algorithm.arrays(self.tables)
        rows = [*self._rows().values(), *waiting_rows(self.tables).values(), *own.values()]
        return sum(length * np.dtype(kind).itemsize for length, kind in rows)

    def workspace(
        self, workers: int, prepared: bool
    ) -> tuple[Net, Interruptions, Work, Waiting, Any]:
        """The network, and rows of all workers."""

        def rows(length: int, kind: type) -> Any:
            return self.device.empty((workers, length), kind)

        own = {name: rows(*row) for name, row in self.algorithm.arrays(self.tables).items()}
        own |= self.constants(self.algorithm.constants)
        if prepared and self.algorithm.prepared:
            own |= self.constants(self.algorithm.prepared)
        own |= {name: self.device.put(array) for name, array in self.control.items()}
        return (
            *self.network(),
            Work(**{name: rows(*row) for name, row in self._rows().items()}),
            Waiting(**{name: rows(*row) for name, row in waiting_rows(self.tables).items()}),
            self.algorithm.state(**own),
        )


class ThreadRunner(TableRunner):
    """Realizations on a CPU: each thread takes ranges."""

    _draws_ahead = next_firing.AHEAD

    def run(self, first: int, count: int, wanted: Wanted, report: Report) -> dict[str, np.ndarray]:
        plan = self._plan._replace(first=np.int64(first))
        workers, grain = self._ranges(count)
        kernel, prepared = self.kernel_for(wanted)
        rows = self.workspace(workers, prepared)
        out = self.results(count, workers, self.points(first, count), wanted)
        arguments = (*rows, plan, out)
        out = run_ranges(self.device, kernel, count, grain, arguments, wanted, report)
        return self.fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        kernel, prepared = self.kernel_for(wanted)
        rows = self.workspace(2, prepared)
        self.device.prepare(kernel, 1, *rows, self._plan, self.results(0, 1, 1, wanted))

    def _ranges(self, count: int) -> tuple[int, int]:
        """Number of ranges of a chunk, each with its own worker, and realizations of a range."""
        ranges = 8 * self.device.core_count if self.device.core_count > 1 else 8
        grain = max(1, -(-count // ranges))
        return -(-count // grain), grain


class CUDAThreadRunner(TableRunner):
    """Realizations on CUDA: each thread, or warp, takes the next one from a queue."""

    def run(self, first: int, count: int, wanted: Wanted, report: Report) -> dict[str, np.ndarray]:
        plan = self._plan._replace(first=np.int64(first))
        workers = self._workers(count)
        led = self._led(workers)
        kernel, prepared = self.kernel_for(wanted, led)
        rows = self.workspace(workers, prepared)
        out = self.results(count, 1, self.points(first, count), wanted)
        blocks = -(-workers * (32 if led else 1) // _THREADS)
        queue = new_queue(self.device)
        self.device.launch(kernel, blocks, _THREADS, queue, np.int64(count), *rows, plan, out)
        found = self.fetch(out, wanted)
        report(count)
        return found

    def prepare(self, count: int, wanted: Wanted) -> None:
        kernel, prepared = self.kernel_for(wanted, self._led(self._workers(count)))
        rows = self.workspace(2, prepared)
        out = self.results(0, 1, 1, wanted)
        queue = new_queue(self.device)
        self.device.prepare(kernel, queue, np.int64(0), *rows, self._plan, out)

    def _workers(self, count: int) -> int:
        """Number of concurrent realizations."""
        most = _THREADS_A_MULTIPROCESSOR * self.device.core_count
        bytes_each = int(self.worker_bytes() / _MEMORY_SHARE)
        room = count_that_fits(
            self.device, bytes_each, "one realization", "use device='cpu', or another method"
        )
        return max(1, min(count, most, room))

    def _led(self, workers: int) -> bool:
        """Whether each of `workers` realizations has a warp."""
        return workers <= _WARPS_A_MULTIPROCESSOR * self.device.core_count


THREAD_RUNNERS: dict[Target, Callable[..., Any]] = {
    "cpu": ThreadRunner, "cuda": CUDAThreadRunner,
}  # fmt: skip
"""Runner class by the target of a device."""
