"""Replicates of one epidemic, window by window, on either device.

Method ``"sellke"`` on CUDA, ``"sellke-capped"`` on both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.core.source import Precision
from ergode.epidemics import sellke_windows
from ergode.epidemics.counting import CountingEnsemble
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import Initial
from ergode.epidemics.sellke_windows import ROOM, THREADS, Arcs, Paths, Rules
from ergode.epidemics.tables import Tables, or_nothing, tables_of
from ergode.models.compartments import CompartmentModel
from ergode.models.contacts import ContactNetwork

# Rounds of a window by method "sellke-capped".
CAPPED_SWEEPS = 2
_REGISTERS = 64
# Places that one grid works on at once: enough to fill a device.
_PLACES = 2**22
_BYTES_PER_PLACE = 16 + 5 * ROOM + 4 + 16
_INDEXABLE = 2**31


class WindowEnsemble(CountingEnsemble):
    """Replicates of a model on a network under a scenario without triggers.

    Parameters
    ----------
    model, scenario, initial, times, seed, device, precision
        As for `event_ensemble.EventEnsemble`.
    width : float, optional
        Span of a window [time]; without `sweeps`, affects speed alone.
    sweeps : int
        Rounds after which a window is taken as settled; 0 until it is.
    """

    work_names = ("paths", "windows")

    def __init__(
        self,
        model: CompartmentModel,
        scenario: Scenario,
        initial: Initial,
        *,
        times: np.ndarray,
        seed: int,
        device: Device,
        precision: Precision = "float32",
        width: float | None = None,
        sweeps: int = 0,
    ) -> None:
        super().__init__(model, scenario, times, seed, device, precision)
        real = np.dtype(precision).type
        tables = tables_of(
            model, scenario, initial, float(times[0]), float(self.horizon), precision
        )
        self.bindings = tables.bindings
        make = kernels.cuda_kernel if device.is_cuda else kernels.cpu_kernel
        options = {"registers": _REGISTERS} if device.is_cuda else {}
        body = sellke_windows.windows_cuda if device.is_cuda else sellke_windows.windows_cpu
        self._kernel = make(body, precision=precision, bindings=self.bindings, **options)
        put = device.put
        self.width = real(width if width is not None else _width(model, scenario.contacts, tables))
        self.sweeps = sweeps
        self.arcs = Arcs(*map(put, _arcs_of(model, scenario.contacts, tables, precision)))
        self.rules = Rules(
            *tables.on(device),
            stratum=put(or_nothing(tables.stratum, np.int32)),
            stratum_count=self.stratum_count,
            base=self.base,
            times=put(self.times),
            per_step=self.per_step,
            end=real(np.nextafter(self.horizon, real(np.inf))),
        )
        self._buffers: tuple[Any, ...] = ()
        self._precision = precision
        self._blocks = 0

    @property
    def bytes_per_replicate(self) -> int:
        """Memory that a replicate needs beside the network [bytes]."""
        counts = super().bytes_per_replicate
        return counts + (_BYTES_PER_PLACE * self.node_count if self.device.is_cuda else 0)

    def chunk_size(self, replicates: int) -> int:
        """Replicates to run together: as many as keep the device busy and fit its memory."""
        most = super().chunk_size(replicates)
        if not self.device.is_cuda:
            return most
        if self.node_count >= _INDEXABLE:
            raise PlanError(f"{self.node_count:,} nodes exceed the 2^31 a CUDA grid indexes")
        fits = self.device.available_bytes() // self.bytes_per_replicate
        return max(1, min(replicates, fits, _PLACES // self.node_count))

    def prepare(self) -> None:
        """Compile the kernel, or load it from the cache, without running anything."""
        if not self.device.is_cuda:  # a launch needs its grid, and so its kernel, anyway
            self.spread(0, 0)

    def spread(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates; see `CountingEnsemble`."""
        if self.device.is_cuda:
            return self._spread_cuda(first_replicate, count)
        counts = np.empty((count, self.times.size, self.column_count), np.int32)
        work = np.zeros((count, 2), np.int64)
        arguments = (
            self.arcs, self.rules, self.seed, first_replicate, self.width, self.sweeps, counts, work
        )  # fmt: skip
        if count:
            self.device.run(self._kernel, count, *arguments)
        else:
            self._kernel.compiled("cpu")(0, 0, *arguments)
        return (counts,), work.sum(axis=0)

    def cuda_arguments(self, first_replicate: int, count: int, empty: Any) -> tuple[Any, ...]:
        """What the CUDA kernel takes, with arrays made by ``empty(shape, dtype)``."""
        places = count * self.node_count
        real = self._precision
        word = np.dtype(f"uint{8 * np.dtype(real).itemsize}")
        paths = Paths(
            empty((places, 4), word), empty((ROOM, places), real), empty((ROOM, places), np.uint8),
            empty(places, np.int32),
        )  # fmt: skip
        return (
            self.arcs, self.rules, self.seed, first_replicate, self.width, self.sweeps, paths,
            empty((2, places), np.int64), empty(3, np.int32),
            empty(3, word),
            empty((count, self.times.size, self.column_count), np.int32), empty(2, np.int64),
        )  # fmt: skip

    def _spread_cuda(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        from ergode.core import cuda
        from ergode.epidemics import tally

        if not self._buffers or self._buffers[10].shape[0] != count:
            self._buffers = self.cuda_arguments(first_replicate, count, self.device.empty)
        arguments = (*self._buffers[:3], first_replicate, *self._buffers[4:])
        moves, work = arguments[10:]
        cuda.fill_zero(moves)
        kernel = self._kernel.compiled("cuda")
        if not self._blocks:
            self._blocks = cuda.cooperative_block_count(kernel, THREADS, arguments)
            at_first = np.zeros(self.column_count, np.int32)
            first = self.base * self.stratum_count
            at_first[first : first + self.stratum_count] = np.bincount(
                self._stratum_of_nodes, minlength=self.stratum_count
            )
            self._at_first = self.device.put(at_first)
        blocks = min(self._blocks, -(-count * self.node_count // THREADS))
        cuda.launch(kernel, blocks, THREADS, arguments)
        self.device.run(tally.RUNNING_SUMS, count * self.column_count, moves, self._at_first)
        return (self.device.get(moves),), self.device.get(work)

    @property
    def _stratum_of_nodes(self) -> np.ndarray:
        if not self.bindings["HAS_STRATA"]:
            return np.zeros(self.node_count, np.int32)
        return self.device.get(self.rules.stratum)


def _arcs_of(
    model: CompartmentModel, contacts: ContactNetwork, tables: Tables, precision: Precision
) -> Arcs:
    """Incoming and outgoing arcs on the host."""
    nothing = np.zeros(1, np.int64)
    weight, layer = or_nothing(tables.weights, precision), or_nothing(tables.layer, np.uint8)
    mirrored = not contacts.directed and not (model.infectivity or model.susceptibility)
    if mirrored and not tables.bindings["TEMPORAL"]:
        return Arcs(
            contacts.offsets, contacts.targets, weight, layer, nothing, contacts.offsets,
            contacts.targets,
        )  # fmt: skip
    number = contacts._transposition()
    first = np.zeros(contacts.node_count + 1, contacts.offsets.dtype)
    np.cumsum(np.bincount(contacts.targets, minlength=contacts.node_count), out=first[1:])
    return Arcs(
        first,
        contacts._sources()[number],
        weight if tables.weights is None else weight[number],
        layer if tables.layer is None else layer[number],
        number,
        contacts.offsets,
        contacts.targets,
    )


def _width(model: CompartmentModel, contacts: ContactNetwork, tables: Tables) -> float:
    """Span of a window: short against the time from an infection to the next.

    Only speed depends on it; the factor was measured on random networks of mean degree 8.
    """
    stays = [p.holding_time.mean for p in model.progressions if p.holding_time.mean > 0]
    weight = 1.0 if tables.weights is None or not tables.weights.size else tables.weights.mean()
    pressure = float(tables.infections.peak) * float(weight) * max(contacts.mean_degree, 1.0)
    spans = [*stays, 1.0 / pressure if pressure > 0 else np.inf]
    width = _WIDTH * min(spans)
    return width if 0 < width < np.inf else 1.0


_WIDTH = 0.7
