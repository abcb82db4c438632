"""Realizations by an algorithm on the tables of a network, one thread per realization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from ergode.core import group, kernels
from ergode.core.calls.launch import count_that_fits
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_kept
from ergode.stochastic.algorithms.algorithm import Algorithm, Rows
from ergode.stochastic.kernel import interruptions, next_firing, realization, results
from ergode.stochastic.kernel.interruptions import Waiting
from ergode.stochastic.kernel.realization import Work
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import Made, Runner, new_queue
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


Shapes = Mapping[str, tuple[Any, type]]
"""Length or shape, and type, of each row of a worker."""


@lru_cache(maxsize=64)
def kernel_of(
    algorithm: Algorithm, general: bool, prepared: bool, led: bool = False,
    delays: frozenset[int] = frozenset(),
) -> kernels.Kernel:  # fmt: skip
    """The kernel of an algorithm (see `realization.GENERAL` and `realization.PREPARED`).

    If not `general`, nothing interrupts realizations either.

    `delays` are kinds of holding times that are drawn. If `led`, a warp of a GPU has one
    realization, and its first lane simulates it.
    """
    bindings: dict[Any, Any] = algorithm.bindings()
    bindings |= {
        realization.LEAPS: algorithm.leaps,
        realization.FLOWS: algorithm.flows,
        realization.INTERRUPTED: general,
        results.REAL: algorithm.leaps or algorithm.flows,
        realization.PREPARED: prepared,
        group.KIND: group.PART if led else group.ALONE,
        **interruptions.drawing(delays),
    }
    if algorithm.has_laws:
        bindings[realization.GENERAL] = general
    if prepared:
        bindings[realization.copy_prepared] = algorithm.copy_prepared
    body = realization.realize_led_cuda if led else realization.realize_cuda
    return kernels.kernel(realization.realize_cpu, body, bindings=bindings, registers=_REGISTERS)


def work_rows(tables: Tables, device: Device, begun: int = 1) -> Rows:
    """Length and type of each row in `Work`."""
    ahead = 0 if device.is_cuda else next_firing.AHEAD
    return {
        "x": (tables.variable_count + 1, np.float64),
        "stack": (tables.depth, np.float64),
        "begun": (begun, np.int8),
        "waits": (ahead, np.float64),
        "choices": (ahead, np.float64),
    }


def waiting_rows(tables: Tables, delayed: int = _DELAYED) -> Rows:
    """Length and type of each row in `Waiting`; `delayed` is the number of delayed products."""
    pending = max(PENDING, 2 * tables.event_count) if tables.event_count > 0 else 0
    delayed = delayed if tables.has_delays else 0
    return {
        "armed": (tables.event_count, np.int8),
        "due": (pending, np.float64),
        "due_after": (pending, np.int8),
        "pending": (pending, np.int32),
        "values": (pending * tables.most_values, np.float64),
        "keys": (4, np.uint64),
        "delayed_times": (delayed, np.float64),
        "delayed_reactions": (delayed, np.int32),
        "delayed_count": (1, np.int32),
    }


class WorkerRunner(Runner):
    """Realizations by workers, one thread or warp for each, which keep rows of arrays."""

    said = "one realization", "use device='cpu', or another method"
    """What is too large, if a worker does not fit into memory; and what to do."""

    @cached_property
    def rows(self) -> dict[str, Shapes]:
        """The rows of `Work`, `Waiting` and the state."""
        raise NotImplementedError

    def network(self) -> tuple[Net, Interruptions]:
        """The network's arrays on the device."""
        put, tables = partial(put_kept, self.device), self.tables
        return Net(*map(put, tables.net)), Interruptions(*map(put, tables.interruptions))

    def workspace(
        self, workers: int, state: Callable[..., Any], shared: Mapping[str, Any]
    ) -> tuple[Net, Interruptions, Work, Waiting, Any]:
        """The network, and rows of all workers; what they share is in `shared`."""
        work, waiting, own = (
            {
                name: self.device.empty((workers, *np.atleast_1d(shape).tolist()), kind)
                for name, (shape, kind) in self.rows[part].items()
            }
            for part in ("work", "waiting", "state")
        )
        return *self.network(), Work(**work), Waiting(**waiting), state(**own, **shared)

    @cached_property
    def worker_bytes(self) -> int:
        """Memory of one worker [bytes]."""
        rows = [row for part in self.rows.values() for row in part.values()]
        return sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in rows)

    @cached_property
    def room(self) -> int:
        """Number of workers whose rows fit into memory."""
        bytes_each = int(self.worker_bytes / _MEMORY_SHARE)
        return max(1, count_that_fits(self.device, bytes_each, *self.said))

    def ranges(self, count: int) -> tuple[int, int]:
        grain = max(1, -(-count // (8 * self.device.core_count)))
        return -(-count // grain), grain

    def launch(self, count: int, wanted: Wanted, *ends: Any) -> None:
        workers = self._workers(count)
        kernel, arrays = self.made(count, workers, wanted)
        blocks = -(-workers * (32 if self.is_led(count) else 1) // _THREADS)
        queue = new_queue(self.device)
        self.device.launch(kernel, blocks, _THREADS, queue, np.int64(count), *arrays, *ends)

    def is_led(self, count: int) -> bool:
        """Whether each realization has a warp."""
        return False

    def _workers(self, count: int) -> int:
        """Number of concurrent realizations on CUDA."""
        return min(count, _THREADS_A_MULTIPROCESSOR * self.device.core_count, self.room)


class ThreadRunner(WorkerRunner):
    """Realizations by an algorithm on the tables of a network.

    `control` are the constants of an algorithm that leaps (see `algorithms.leap.control`).
    """

    def __init__(
        self,
        tables: Tables,
        *,
        algorithm: Algorithm,
        control: Mapping[str, np.ndarray] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(tables, tells=algorithm.tell is not None, flows=algorithm.flows, **options)
        self.algorithm = algorithm
        self.control = dict(control or {})

    def made(self, count: int, workers: int, wanted: Wanted) -> Made:
        logged = wanted.log_first or wanted.log_counts is not None
        general = logged or not self.tables.is_plain or self.algorithm.flows
        prepared = self.algorithm.prepared if not general and self.prepares() else None
        kernel = kernel_of(
            self.algorithm, general, prepared is not None, self.is_led(count),
            self.tables.delay_kinds,
        )  # fmt: skip
        shared = self.constants(self.algorithm.constants)
        if prepared:
            shared |= self.constants(prepared)
        shared |= {name: self.device.put(array) for name, array in self.control.items()}
        return kernel, self.workspace(workers, self.algorithm.state, shared)

    @cached_property
    def rows(self) -> dict[str, Shapes]:
        tables = self.tables
        return {
            "work": work_rows(tables, self.device), "waiting": waiting_rows(tables),
            "state": self.algorithm.arrays(tables),
        }  # fmt: skip

    def prepares(self) -> bool:
        """Whether realizations copy initial state that is prepared once per point."""
        points = len(self.tables.net.initial)
        return (
            self.algorithm.prepared is not None
            and points * self.tables.reaction_count <= _PREPARED_MOST
        )

    def constants(self, make: Callable[..., dict[str, Any]], *options: Any) -> dict[str, Any]:
        """Arrays that a function computes from the tables for all workers, on the device."""
        return {
            name: value if np.isscalar(value) else put_kept(self.device, constant(value))
            for name, value in self.tables.once(make, *options).items()
        }

    def is_led(self, count: int) -> bool:
        few = _WARPS_A_MULTIPROCESSOR * self.device.core_count
        return self.device.is_cuda and self._workers(count) <= few
