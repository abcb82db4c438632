"""Replicates of one epidemic, event by event, on the CPU: method ``"sellke"``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import launch
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.epidemics.event_driven import kernel
from ergode.epidemics.event_driven.state import Cases
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import Initial, Seeder
from ergode.epidemics.shared.arcs import arcs_of
from ergode.epidemics.shared.counts import Happened
from ergode.epidemics.shared.ensemble import Ensemble, with_room
from ergode.epidemics.shared.options import (
    HAS_IMPORTATIONS,
    HAS_SCREENING,
    HAS_TRACING,
    LISTING,
)
from ergode.epidemics.shared.sweep import PointGroup
from ergode.epidemics.shared.tables import tables_of
from ergode.models.epidemic.compartments import CompartmentModel

_BUCKETS_LEAST, _BUCKETS_MOST = 256, 65536


class EventEnsemble(Ensemble):
    """Replicates of a model on a network, static or temporal, under a scenario.

    Parameters
    ----------
    model, initial
        As for `simulate`, already checked.
    scenario : Scenario
        Contacts, interventions, importations and strata.
    times, seed, device, precision
        As for `simulate`; the device is a CPU.
    listing : bool
        Whether to keep line lists.
    bucket_count : int, optional
        Buckets of the queue; affects only the speed.
    group, rows : optional
        As for `first_passage.runner.FirstPassageEnsemble`.
    """

    work_names = ("events", "infections")

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
        bucket_count: int | None = None,
        group: PointGroup | None = None,
    ) -> None:
        super().__init__(model, scenario, times, seed, device, precision, group)
        begin = float(times[0])
        tables = tables_of(model, scenario, initial, begin, float(self.horizon), precision, group)
        self._seeds = Seeder(model, scenario.contacts, initial, self.seed, device, precision, group)
        self.bindings = tables.bindings | self._seeds.bindings | {LISTING: listing}
        self.bindings.pop(HAS_IMPORTATIONS)  # not an option here: no plan, no event
        self._kernel = kernels.cpu_kernel(
            kernel.sellke_cpu, precision=precision, bindings=self.bindings
        )
        contacts = arcs_of(scenario.contacts, tables.weights, precision)
        self._contacts = put_table(device, contacts)
        self._tables = self.tables_on_device(tables, self._seeds.of(0, 0))
        self._latest: Any = None
        self._listing = listing
        self._plan_size = tables.interventions.kind.size
        self._room = 2 * self.node_count if listing else 1
        self._happened_room = self.first_room_of_changes if listing else 1
        self.bucket_count = bucket_count or min(max(self.node_count, _BUCKETS_LEAST), _BUCKETS_MOST)

    @property
    def bytes_per_replicate(self) -> int:
        """Memory that a replicate of a chunk needs [bytes]."""
        listed = (32 + 8 * self.compartment_count) * self._room if self._listing else 0
        return super().bytes_per_replicate + listed + 16 * self._happened_room

    @property
    def bytes_per_thread(self) -> int:
        """Memory for the nodes of the replicate that a thread runs, at least [bytes].

        Each event in the queue takes about 40 bytes more.
        """
        real = self.times.itemsize
        traced = 5 * self._plan_size if self.bindings.get(HAS_TRACING, False) else 0
        tested = 0
        if self.tallies and self.bindings.get(HAS_SCREENING, False):
            tested = (4 + real) * self._plan_size
        listed = 8 if self._listing else 0
        return (10 + (4 + traced) * real + tested + listed) * self.node_count

    def prepare(self) -> None:
        """Compile the kernel, or load it from the cache, without running anything."""
        self.chunk_size(1)  # refuses what does not fit, before a thread allocates it
        counts, work, cases = self._outputs(0, 1, 1)
        self.device.prepare(self._kernel, *self._arguments(self._tables, 0, counts, work, cases))

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates.

        Returns
        -------
        found : tuple of counts [count, time, columns] and line lists
            See `event_driven.kernel`.
        work : ndarray, shape [2]
            Events and infections, summed over the replicates.
        """
        tables = self._tables._replace(seeding=self._seeds.of(first_replicate, count))
        while True:
            counts, work, cases = self._outputs(count, self._room, self._happened_room)
            arguments = self._arguments(tables, first_replicate, counts, work, cases)
            done = launch.run_from_first(self.device, self._kernel, count, *arguments)
            complete = np.ones(count, bool)
            if self._listing:
                changes = cases.happened.count
                complete = (cases.count <= self._room) & (changes <= self._happened_room)
            if done < count:
                done = int(complete[:done].cumprod().sum())
            elif not complete.all():
                # Run the replicates again, with room for all cases and changes.
                self._room = with_room(self._room, cases.count)
                self._happened_room = with_room(self._happened_room, cases.happened.count)
                continue
            happened = Happened(*(each[:done] for each in cases.happened))
            cases = Cases._make([*(each[:done] for each in cases[:-1]), happened])
            return (counts[:done], cases), work[:done].sum(axis=0)

    def _arguments(
        self, tables: Any, first: int, counts: np.ndarray, work: np.ndarray, cases: Cases
    ) -> tuple[Any, ...]:
        """Arguments of the kernel for replicates from `first` on."""
        from ergode.core.compiler.references import AtAddress

        self._latest = AtAddress(tables, self._latest)
        return (
            AtAddress(self._contacts), self._latest, self.seed, self.rows_from(first),
            self._seeds.most, self.bucket_count, counts, work, AtAddress(cases),
        )  # fmt: skip

    def cases(self, found: Any, first_replicate: int) -> dict[str, np.ndarray]:
        """The line list of some replicates as flat arrays, ordered by replicate, node and time."""
        listed: Cases = found[1]
        kept = np.arange(listed.node.shape[1]) < listed.count[:, None]
        row = np.nonzero(kept)[0]
        node, time = listed.node[kept], listed.time[kept]
        order = np.lexsort((time, node, row))
        return {
            "replicate": first_replicate + row[order],
            "node": node[order],
            "infector": listed.infector[kept][order],
            "infected_at": time[order],
            "born_at": listed.born[kept][order],
            "entered": listed.entered[kept][order],
        }

    def changes(self, found: Any) -> Happened:
        """Changes of tallies, on the host."""
        return found[1].happened

    def _outputs(
        self, count: int, room: int, happened_room: int
    ) -> tuple[np.ndarray, np.ndarray, Cases]:
        cases = Cases(
            np.zeros(count, np.int64), np.empty((count, room), np.int64),
            np.empty((count, room), np.int64), np.empty((count, room), np.float64),
            np.empty((count, room), np.float64),
            np.empty((count, room, self.compartment_count), np.float64),
            Happened(
                np.zeros(count, np.int64), np.empty((count, happened_room), np.int64),
                np.empty((count, happened_room), self.times.dtype),
            ),
        )  # fmt: skip
        counts = np.empty((count, self.times.size, self.column_count), np.int32)
        return counts, np.zeros((count, 2), np.int64), cases
