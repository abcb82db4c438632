"""Replicates of one epidemic, window by window, on either device.

Method ``"sellke"`` on CUDA; on the CPU it is what events are checked against.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.bundle import Precision
from ergode.core.devices import Device, resolve
from ergode.core.errors import PlanError
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import Initial, Seeder
from ergode.epidemics.shared import transmission
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.epidemics.shared.ensemble import CountingEnsemble
from ergode.epidemics.shared.importation import ImportedCases, importations_of, imported_cases_of
from ergode.epidemics.shared.tables import Tables, or_nothing, tables_of
from ergode.epidemics.windows.kernel import HUB, THREADS, Records, windows_cpu, windows_cuda
from ergode.epidemics.windows.state import COMPARTMENTS_MOST, INFECTED, ROOM, Arcs, Paths, Rules
from ergode.epidemics.windows.tracing import TracingState
from ergode.epidemics.windows.triggers import BINS, TriggerState
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.networks.contact_network import ContactNetwork

_REGISTERS = 64
# Places that one grid works on at once: enough to fill a device.
_PLACES = 2**22
_INDEXABLE = 2**31
_DETECTIONS = 4  # of a node, with consequences to come, that there is room for at first


class WindowEnsemble(CountingEnsemble):
    """Replicates of a model on a network under a scenario.

    Parameters
    ----------
    model, scenario, initial, times, seed, device, precision, listing
        As for `event_driven.runner.EventEnsemble`.
    width : float, optional
        Span of a window [time]; affects speed alone.
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
        listing: bool = False,
        width: float | None = None,
    ) -> None:
        super().__init__(model, scenario, times, seed, device, precision)
        if self.compartment_count > COMPARTMENTS_MOST:
            raise PlanError(
                f"the model has {self.compartment_count} compartments; windows of time take up to "
                f"{COMPARTMENTS_MOST}"
            )
        real = np.dtype(precision).type
        begin = float(times[0])
        tables = tables_of(model, scenario, initial, begin, float(self.horizon), precision)
        arcs = _arcs_of(model, scenario.contacts, tables, precision)
        most = int(np.diff(arcs.first).max(initial=0))
        self.bindings = tables.bindings | {
            "LISTING": listing,
            "ON_CUDA": device.is_cuda,
            "HUBS": device.is_cuda and most > HUB,
        }
        make = kernels.cuda_kernel if device.is_cuda else kernels.cpu_kernel
        options = {"registers": _REGISTERS} if device.is_cuda else {}
        body = windows_cuda if device.is_cuda else windows_cpu
        self._kernel = make(body, precision=precision, bindings=self.bindings, **options)
        put = device.put
        self.width = real(width if width is not None else _width(model, scenario.contacts, tables))
        self.arcs = Arcs(*map(put, arcs))
        self._seeds = Seeder(model, scenario.contacts, initial, self.seed, device, precision)
        self._imports = importations_of(scenario, model, begin, precision)
        self.rules = Rules(
            *tables.on(device),
            seeding=self._seeds.of(0, 0),
            importations=transmission.put(self._imports, device),
            stratum=put(or_nothing(tables.stratum, np.int32)),
            stratum_count=self.stratum_count,
            base=self.base,
            times=put(self.times),
            per_step=self.per_step,
            end=real(np.nextafter(self.horizon, real(np.inf))),
        )
        self._precision = precision
        self._listing = listing
        self._tracing = self.bindings["HAS_TRACING"]
        self._plan_size = tables.interventions.kind.size
        self._record_room = 2 * self.node_count if listing else 1
        self._detection_room = _DETECTIONS
        self._buffers: tuple[Any, ...] = ()
        self._blocks = 0

    @property
    def bytes_per_replicate(self) -> int:
        """Memory that a replicate needs beside the network [bytes]."""
        position = 16 + (9 if self._listing else 5) * ROOM + 4 + 16 if self.device.is_cuda else 0
        if self._tracing and self.device.is_cuda:
            position += 4 * self._plan_size + 8 * self._detection_room + 4
        listed = 13 * self._record_room if self._listing else 0
        return super().bytes_per_replicate + position * self.node_count + listed

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
            self.run(0, 0)

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates.

        Returns
        -------
        found : tuple of counts [count, time, columns] and records of moves
        work : ndarray, shape [2]
            Paths and windows, summed over the replicates.
        """
        run = self._run_cuda if self.device.is_cuda else self._run_cpu
        imported_cases = imported_cases_of(
            self._imports, self.node_count, self.rules.end, self.seed, first_replicate, count,
            self.device if not self.device.is_cuda else resolve("cpu"), self._precision,
        )  # fmt: skip
        imported_cases = ImportedCases(*map(self.device.put, imported_cases))
        self.rules = self.rules._replace(seeding=self._seeds.of(first_replicate, count))
        while True:
            counts, work, records, detections = run(first_replicate, count, imported_cases)
            listed = int(self.device.get(records.count).max(initial=0)) if self._listing else 0
            if listed <= self._record_room and detections <= self._detection_room:
                return (counts, records), work
            # The same replicates again, with room for everything.
            self._record_room = max(self._record_room, listed + listed // 4)
            if detections > self._detection_room:
                self._detection_room = 2 * detections
            self._buffers = ()

    def cases(self, found: Any, first_replicate: int) -> dict[str, np.ndarray]:
        """The line list of some replicates as flat arrays, ordered by replicate, node and time."""
        records = Records(*map(self.device.get, found[1]))
        kept = np.arange(records.node.shape[1]) < records.count[:, None]
        row, node = np.nonzero(kept)[0], records.node[kept]
        order = np.lexsort((node, row))  # stable: moves of a node stay in the order of time
        row, node = row[order], node[order].astype(np.int64)
        time, to = records.time[kept][order].astype(np.float64), records.to[kept][order]
        is_case = to >= INFECTED
        case = np.cumsum(is_case) - 1
        # A move before a node's first case is no part of any.
        number = case.clip(0)
        part = case >= 0
        if part.any():
            part &= (row[is_case][number] == row) & (node[is_case][number] == node)
        entered = np.full((int(is_case.sum()), self.compartment_count), np.nan)
        entered[case[part], to[part] & (INFECTED - 1)] = time[part]
        return {
            "replicate": first_replicate + row[is_case],
            "node": node[is_case],
            "infector": records.infector[kept][order][is_case].astype(np.int64),
            "infected_at": time[is_case],
            "entered": entered,
        }

    def _records(self, count: int, empty: Any) -> Records:
        shape = (count, self._record_room)
        return Records(
            empty(count, np.int64), empty(shape, np.int32), empty(shape, self._precision),
            empty(shape, np.uint8), empty(shape, np.int32),
        )  # fmt: skip

    def _run_cpu(
        self, first_replicate: int, count: int, imported_cases: ImportedCases
    ) -> tuple[Any, np.ndarray, Records, int]:
        counts = np.empty((count, self.times.size, self.column_count), np.int32)
        work = np.zeros((count, 2), np.int64)
        needed = np.zeros(count, np.int32)
        records = self._records(count, np.empty)
        arguments = (
            self.arcs, self.rules, imported_cases, self.seed, first_replicate, self.width,
            self._detection_room, records, needed, counts, work,
        )  # fmt: skip
        if count:
            self.device.run(self._kernel, count, *arguments)
        else:
            self._kernel.compiled("cpu")(0, 0, *arguments)
        return counts, work.sum(axis=0), records, int(needed.max(initial=0))

    def cuda_arguments(
        self, first_replicate: int, count: int, imported_cases: ImportedCases, empty: Any
    ) -> tuple[Any, ...]:
        """What the CUDA kernel takes, with arrays made by ``empty(shape, dtype)``."""
        position_count, real, plan = count * self.node_count, self._precision, self._plan_size
        word = np.dtype(f"uint{8 * np.dtype(real).itemsize}")
        watched = position_count if self._tracing else 1
        room = self._detection_room
        paths = Paths(
            empty((position_count, 4), word), empty((ROOM, position_count), real),
            empty((ROOM, position_count), np.uint8),
            empty((ROOM, position_count) if self._listing else (1, 1), np.int32),
            empty(position_count, np.int32),
        )  # fmt: skip
        triggers = TriggerState(
            empty((2, count), real), empty((2, count), word), empty((count, plan), real),
            empty((count, self.compartment_count + 1), np.int32), empty((count, plan), word),
            empty((count, plan), np.int32), empty((count, plan), np.int32),
            empty((count, plan, BINS if self.bindings["HAS_TRIGGERS"] else 1), np.int32),
        )  # fmt: skip
        tracing = TracingState(
            empty((plan, watched), word), empty((room, watched), real),
            empty((room, watched), np.int32), empty(watched, np.int32), empty(1, np.int32),
        )  # fmt: skip
        return (
            self.arcs, self.rules, imported_cases, self.seed, first_replicate, self.width,
            paths, triggers, tracing, empty((2, position_count), np.int64), empty((3, 3), np.int32),
            self._records(count, empty),
            empty((count, self.times.size, self.column_count), np.int32), empty(2, np.int64),
        )  # fmt: skip

    def _run_cuda(
        self, first_replicate: int, count: int, imported_cases: ImportedCases
    ) -> tuple[Any, np.ndarray, Records, int]:
        from ergode.core import cuda

        if not self._buffers or self._buffers[-2].shape[0] != count:
            self._buffers = ()  # first free those of another size
            self._buffers = self.cuda_arguments(
                first_replicate, count, imported_cases, self.device.empty
            )
        arguments = (
            self.arcs, self.rules, imported_cases, self.seed, first_replicate, *self._buffers[5:],
        )  # fmt: skip
        _, _, tracing, _, _, records, moves, work = arguments[-8:]  # what the kernel writes
        cuda.fill_zero(moves)
        cuda.fill_zero(records.count)
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
        self.device.run(RUNNING_SUMS, count * self.column_count, moves, self._at_first)
        detections = int(self.device.get(tracing.room)[0]) if self._tracing else 0
        return self.device.get(moves), self.device.get(work), records, detections

    def resources(self) -> dict[str, int]:
        """Registers, local and shared bytes of the CUDA kernel; call after `run`."""
        from ergode.core import cuda

        return cuda.resources(self._kernel.compiled("cuda"))

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
            contacts.targets, layer,
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
        layer,
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
