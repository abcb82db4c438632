"""Realizations by an algorithm on the tables of a network, a thread for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.errors import PlanError
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.kernel import next_firing, realization
from ergode.stochastic.kernel.interruptions import Waiting
from ergode.stochastic.kernel.realization import Work
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import Runner
from ergode.stochastic.tables import Interruptions, Net, Tables

_THREADS = 64
_PENDING = 32
_DELAYED = 4096
# Threads that a multiprocessor is given: enough to hide the latency of memory.
_THREADS_A_MULTIPROCESSOR = 512
# Up to this many realizations for each multiprocessor, each realization has a warp.
_WARPS_A_MULTIPROCESSOR = 64
# Initial states are prepared beforehand up to this many reactions over all points of a sweep.
_PREPARED_MOST = 10**7
# So that half of all warps that a multiprocessor can hold are there.
_REGISTERS = 64


@lru_cache(maxsize=64)
def kernel_of(
    algorithm: Algorithm, on_cuda: bool, general: bool, prepared: bool, led: bool
) -> kernels.Kernel:
    """The kernel of an algorithm (see `realization.GENERAL` and `realization.PREPARED`).

    Where it is `led`, a warp of a GPU has a realization, which one of its threads simulates.
    """
    bindings: dict[str, Any] = algorithm.bindings()
    bindings |= {"LEAPS": algorithm.leaps, "GENERAL": general, "PREPARED": prepared}
    if prepared:
        bindings["copy_prepared"] = algorithm.copy_prepared
    if on_cuda:
        bindings["accumulate"] = realization.atomic_accumulate
        bindings["accumulate_count"] = realization.atomic_accumulate_count
        body = realization.realize_led_cuda if led else realization.realize_cuda
        return kernels.cuda_kernel(body, bindings=bindings, registers=_REGISTERS)
    return kernels.cpu_kernel(realization.realize_cpu, bindings=bindings)


class ThreadRunner(Runner):
    """Realizations by an algorithm on the tables of a network, a thread for each.

    Parameters
    ----------
    tables : Tables
    algorithm : Algorithm
    control : mapping of str to ndarray, optional
        Constants of an algorithm that leaps (see `algorithms.leap.control`).
    **options
        As for `Runner`.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        algorithm: Algorithm,
        control: Mapping[str, np.ndarray] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(tables, leaps=algorithm.leaps, **options)
        self.algorithm = algorithm
        self.control = dict(control or {})
        self._net: tuple[Net, Interruptions] | None = None

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        """Simulate realizations `first` to ``first + count`` and return what is wanted of them."""
        plan = self._plan._replace(first=np.int64(first))
        workers, grain = self.workers(count)
        led = self._led(workers)
        kernel, prepared = self._kernel(wanted, led)
        rows = self.workspace(workers, prepared)
        points = self.points(first, count)
        if self.device.is_cuda:
            out = self.results(count, 1, points, wanted)
            blocks = -(-workers * (32 if led else 1) // _THREADS)
            arguments = (self.queue(), np.int64(count), *rows, plan, out)
            self.launch(kernel, blocks, _THREADS, arguments)
            report(count)
        else:
            out = self.results(count, workers, points, wanted)
            out = self.run_ranges(kernel, count, grain, (*rows, plan, out), wanted, report)
        return self.fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        """Compile what `run` needs, if it is not yet."""
        led = self._led(self.workers(count)[0])
        kernel, prepared = self._kernel(wanted, led)
        rows = self.workspace(2, prepared)
        out = self.results(0, 1, 1, wanted)
        if self.device.is_cuda:
            self.specialize(kernel, (self.queue(), np.int64(0), *rows, self._plan, out))
        else:
            kernel.compiled("cpu")(0, 0, 1, *rows, self._plan, out)

    def _kernel(self, wanted: Wanted, led: bool) -> tuple[kernels.Kernel, bool]:
        """The kernel for this network, and whether its realizations begin from what was made."""
        logged = wanted.log_first or wanted.log_counts is not None
        general = logged or not self.tables.is_plain
        prepared = not general and self.prepares()
        return kernel_of(self.algorithm, self.device.is_cuda, general, prepared, led), prepared

    def _led(self, workers: int) -> bool:
        """Whether each of `workers` realizations has a warp of a GPU."""
        return self.device.is_cuda and workers <= _WARPS_A_MULTIPROCESSOR * self.device.core_count

    def prepares(self) -> bool:
        """Whether a realization begins from what was made once for all of a point."""
        points = len(self.tables.net.initial)
        return (
            self.algorithm.prepared is not None
            and points * self.tables.reaction_count <= _PREPARED_MOST
        )

    def network(self) -> tuple[Net, Interruptions]:
        """The network's arrays on the device."""
        if self._net is None:
            # A kernel reads no array without elements, but one has a type.
            put, tables = self.device.put, self.tables
            self._net = (
                Net(*(put(array) for array in tables.net)),
                Interruptions(*(put(array) for array in tables.interruptions)),
            )
        return self._net

    def workers(self, count: int) -> tuple[int, int]:
        """How many workers, and realizations of each at least."""
        if self.device.is_cuda:
            most = _THREADS_A_MULTIPROCESSOR * self.device.core_count
            room = int(0.8 * self.device.available_bytes()) // self.worker_bytes()
            if room < 1:
                raise PlanError(
                    f"one realization needs {self.worker_bytes() / 1e9:.2f} GB on "
                    f"{self.device.name}; that is not there"
                )
            return max(1, min(count, most, room)), 1
        ranges = 8 * self.device.core_count if self.device.core_count > 1 else 8
        grain = max(1, -(-count // ranges))
        return -(-count // grain), grain

    def _rows(self) -> dict[str, tuple[int, type]]:
        ahead = 0 if self.device.is_cuda else next_firing.AHEAD
        return {
            "x": (self.tables.variable_count + 1, np.float64),
            "stack": (self.tables.depth, np.float64),
            "begun": (1, np.int8),
            "waits": (ahead, np.float64),
            "choices": (ahead, np.float64),
        }

    def _waiting_rows(self) -> dict[str, tuple[int, type]]:
        tables = self.tables
        pending = _PENDING if tables.event_count > 0 else 0
        delayed = _DELAYED if tables.has_delays else 0
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

    def worker_bytes(self) -> int:
        """Memory of one worker."""
        own = self.algorithm.arrays(self.tables)
        rows = [*self._rows().values(), *self._waiting_rows().values(), *own.values()]
        return sum(length * np.dtype(kind).itemsize for length, kind in rows)

    def workspace(
        self, workers: int, prepared: bool
    ) -> tuple[Net, Interruptions, Work, Waiting, Any]:
        """The network, and rows of all workers."""

        def rows(length: int, kind: type) -> Any:
            return self.device.empty((workers, length), kind)

        own = {name: rows(*row) for name, row in self.algorithm.arrays(self.tables).items()}
        constants = self.algorithm.constants(self.tables)
        if prepared and self.algorithm.prepared:
            constants |= self.algorithm.prepared(self.tables)
        constants |= self.control
        own |= {name: self.device.put(array) for name, array in constants.items()}
        return (
            *self.network(),
            Work(**{name: rows(*row) for name, row in self._rows().items()}),
            Waiting(**{name: rows(*row) for name, row in self._waiting_rows().items()}),
            self.algorithm.state(**own),
        )
