"""Realizations of one network by one method on one device, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device, spans
from ergode.core.errors import Abandoned, PlanError
from ergode.core.status import Status
from ergode.stochastic.kernel import next_firing, realization
from ergode.stochastic.kernel.interruptions import Waiting
from ergode.stochastic.kernel.realization import Out, Plan, Work
from ergode.stochastic.tables import Interruptions, Net, Tables

_THREADS = 64
_PENDING = 32
_DELAYED = 4096
# What a method is: the next firing by itself, or what `kernel.next_firing` needs to find it.
_WORDS = ("prepare", "update", "advance", "between", "arrive", "total_of", "choose")
# Threads that a multiprocessor is given: enough to hide the latency of memory.
_THREADS_A_MULTIPROCESSOR = 512
# Up to so many realizations each has a warp to itself.
_WARPS_A_MULTIPROCESSOR = 64
# Beginnings are made beforehand for points of a sweep with so many reactions altogether.
_PREPARED_MOST = 10**7
# So that half of all warps that a multiprocessor can hold are there.
_REGISTERS = 64


@dataclass(frozen=True)
class Wanted:
    """What is kept of a chunk.

    Attributes
    ----------
    amounts : bool
        Amounts of every realization at every time.
    statistics : bool
        Sums over realizations.
    log_counts : ndarray of int64, optional
        Firings of each realization to keep a log of.
    states : bool
        The last state of each.
    log_first : bool
        Such a log is wanted, once it is known how long it is.
    """

    amounts: bool = False
    statistics: bool = False
    states: bool = False
    log_counts: np.ndarray | None = None
    log_first: bool = False


@lru_cache(maxsize=64)
def kernel_of(
    method: ModuleType, on_cuda: bool, general: bool, prepared: bool, led: bool
) -> kernels.Kernel:
    """The kernel of a method (see `realization.GENERAL` and `realization.PREPARED`).

    Where it is `led`, a warp of a GPU has a realization, which one of its threads simulates.
    """
    bindings: dict[str, Any] = {"advance": next_firing.advance}
    bindings |= {name: getattr(method, name) for name in _WORDS if hasattr(method, name)}
    bindings |= {
        "LEAPS": getattr(method, "LEAPS", False), "GENERAL": general, "PREPARED": prepared,
    }  # fmt: skip
    if prepared:
        bindings["copy_prepared"] = method.copy_prepared
    if on_cuda:
        bindings["accumulate"] = realization.atomic_accumulate
        bindings["accumulate_count"] = realization.atomic_accumulate_count
        body = realization.realize_led_cuda if led else realization.realize_cuda
        return kernels.cuda_kernel(body, bindings=bindings, registers=_REGISTERS)
    return kernels.cpu_kernel(realization.realize_cpu, bindings=bindings)


class ThreadRunner:
    """Realizations of a network.

    Parameters
    ----------
    tables : Tables
    method : module
        With ``MethodState``, ``prepare``, ``update``, ``arrays`` and ``constants``; with
        ``advance``, or ``total_of`` and ``choose`` for that of `kernel.next_firing`.
    grid : ndarray, shape [time_count]
        Times to report.
    begin : float
        Time at which realizations begin.
    seed, replicates, firings_most : int
        As for `simulate`; `replicates` of every point.
    device : Device
    control : mapping of str to ndarray, optional
        Constants of a method that leaps (see `leap.control`).
    """

    def __init__(
        self,
        tables: Tables,
        *,
        method: Any,
        grid: np.ndarray,
        begin: float,
        seed: int,
        replicates: int,
        firings_most: int,
        device: Device,
        control: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.tables = tables
        self.method = method
        self.control = dict(control or {})
        self.gaussian = bool(self.control.get("gaussian", np.zeros(1))[0])
        # Both ways to leap share a kernel, and one of them has amounts that are not whole.
        self._kind = np.float64 if getattr(method, "LEAPS", False) else np.int64
        self.grid = grid
        self.device = device
        self.replicates = replicates
        self._plan = Plan(
            np.uint64(seed), np.int64(replicates), np.int64(0), np.float64(begin),
            np.int64(firings_most), np.bool_(tables.moving_breaks),
            np.int64(tables.species_count),
        )  # fmt: skip
        self._net: tuple[Net, Interruptions] | None = None

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        """Simulate realizations `first` to ``first + count`` and return what is wanted of them."""
        plan = self._plan._replace(first=np.int64(first))
        workers, grain = self.workers(count)
        led = self._led(workers)
        kernel, prepared = self._kernel(wanted, led)
        points = -(-(first + count) // self.replicates) - first // self.replicates
        rows = self.workspace(workers, prepared)
        out = self.results(count, 1 if self.device.is_cuda else workers, points, wanted)
        if self.device.is_cuda:
            from ergode.core import cuda

            arguments = (self._queue(), np.int64(count), *rows, plan, out)
            blocks = -(-workers * (32 if led else 1) // _THREADS)
            cuda.launch(kernel.compiled("cuda"), blocks, _THREADS, arguments)
            cuda.synchronize()
            report(count)
        else:

            def finished(start: int, stop: int) -> None:
                report(stop - start)

            try:
                self.device.run(
                    kernel, count, grain, *rows, plan, out, grain=grain, finished=finished
                )
            except KeyboardInterrupt as error:  # what is done is returned, and says so
                out = settled(out, error, wanted)
        return self._fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        """Compile what `run` needs, if it is not yet."""
        led = self._led(self.workers(count)[0])
        kernel, prepared = self._kernel(wanted, led)
        rows = self.workspace(2, prepared)
        out = self.results(0, 1, 1, wanted)
        if self.device.is_cuda:
            from ergode.core import cuda

            arguments = (self._queue(), np.int64(0), *rows, self._plan, out)
            cuda.specialize(kernel.compiled("cuda"), arguments)
        else:
            kernel.compiled("cpu")(0, 0, 1, *rows, self._plan, out)

    def _kernel(self, wanted: Wanted, led: bool) -> tuple[kernels.Kernel, bool]:
        """The kernel for this network, and whether its realizations begin from what was made."""
        logged = wanted.log_first or wanted.log_counts is not None
        general = logged or not self.tables.is_plain
        prepared = not general and self.prepares()
        return kernel_of(self.method, self.device.is_cuda, general, prepared, led), prepared

    def _led(self, workers: int) -> bool:
        """Whether each of so many realizations at once has a warp of a GPU."""
        return self.device.is_cuda and workers <= _WARPS_A_MULTIPROCESSOR * self.device.core_count

    def _queue(self) -> Any:
        """Number of the next realization, on the device."""
        return self.device.put(np.zeros(1, np.int64))

    def prepares(self) -> bool:
        """Whether a realization begins from what was made once for all of a point."""
        points = len(self.tables.net.initial)
        return (
            hasattr(self.method, "copy_prepared")
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
        own = self.method.arrays(self.tables)
        rows = [*self._rows().values(), *self._waiting_rows().values(), *own.values()]
        return sum(length * np.dtype(kind).itemsize for length, kind in rows)

    def workspace(
        self, workers: int, prepared: bool
    ) -> tuple[Net, Interruptions, Work, Waiting, Any]:
        """The network, and rows of all workers."""

        def rows(length: int, kind: type) -> Any:
            return self.device.empty((workers, length), kind)

        own = {name: rows(*row) for name, row in self.method.arrays(self.tables).items()}
        constants = self.method.constants(self.tables)
        if prepared:
            constants |= self.method.prepared(self.tables)
        constants |= self.control
        own |= {name: self.device.put(array) for name, array in constants.items()}
        return (
            *self.network(),
            Work(**{name: rows(*row) for name, row in self._rows().items()}),
            Waiting(**{name: rows(*row) for name, row in self._waiting_rows().items()}),
            self.method.MethodState(**own),
        )

    def results(self, count: int, slots: int, points: int, wanted: Wanted) -> Out:
        """Arrays for what is wanted of `count` realizations."""
        species, times = self.tables.species_count, self.grid.size
        shape = (slots, points, times if wanted.statistics else 0, species)
        log_starts = np.zeros(1, np.int64)
        if wanted.log_counts is not None:
            log_starts = np.concatenate([[0], np.cumsum(wanted.log_counts)]).astype(np.int64)
        zeros = self.device.zeros
        return Out(
            grid=self.device.put(self.grid),
            amounts=zeros((count if wanted.amounts else 0, times, species), self._kind),
            sums=zeros(shape, np.int64),
            squares_low=zeros(shape, np.int64),
            squares_high=zeros(shape, np.int64),
            counts=zeros(shape[:3], np.int64),
            status=self._unset(count),
            firings=zeros((count,), np.int64),
            rows=zeros((count,), np.int64),
            ended=zeros((count,), np.float64),
            states=zeros((count if wanted.states else 0, species), np.float64),
            leaps=zeros((count if getattr(self.method, "LEAPS", False) else 0, 4), np.float64),
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

    def _fetch(self, out: Out, wanted: Wanted) -> dict[str, np.ndarray]:
        names = ["status", "firings", "rows", "ended", "leaps"]
        names += ["amounts"] if wanted.amounts else []
        names += ["states"] if wanted.states else []
        names += ["sums", "squares_low", "squares_high", "counts"] if wanted.statistics else []
        names += ["log_times", "log_reactions"] if wanted.log_counts is not None else []
        found = {name: self.device.get(getattr(out, name)) for name in names}
        if wanted.amounts and not self.gaussian:
            found["amounts"] = found["amounts"].astype(np.int64, copy=False)
        for name in ("sums", "squares_low", "squares_high", "counts"):
            if name in found:
                found[name] = found[name].sum(axis=0)
        return found


def settled(out: Out, error: KeyboardInterrupt, wanted: Wanted) -> Out:
    """What an interrupted run has, out of reach of what may still be computing."""
    if not isinstance(error, Abandoned):
        return out
    if wanted.statistics:  # sums hold parts of realizations that did not end
        raise error
    copies = {"status": np.array(out.status)}
    names = (name for name in out._fields if name != "status")
    return out._replace(**copies, **{name: np.array(getattr(out, name)) for name in names})


def chunks(total: int, replicates: int, row_bytes: int, room: int) -> list[tuple[int, int]]:
    """Ranges of realizations whose results fit; whole points where that is possible."""
    most = max(1, room // max(row_bytes, 1))
    if most >= replicates:
        most -= most % replicates
    return list(spans(total, min(most, total)))
