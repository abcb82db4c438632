"""Base class of the runners of all methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ergode.core.calls.launch import count_that_fits
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.core.devices.foreign import on_host
from ergode.epidemics.scenario import ENTRIES, Scenario
from ergode.epidemics.seeding import Seeding
from ergode.epidemics.shared.clock import moments_of
from ergode.epidemics.shared.counts import Happened
from ergode.epidemics.shared.resolution import check_range
from ergode.epidemics.shared.sweep import PointGroup, Rows, rows_from
from ergode.epidemics.shared.tables import EpidemicTables, Tables, or_nothing
from ergode.epidemics.shared.tallies import shown, spells_of
from ergode.models.epidemic.compartments import CompartmentModel

_CHUNK_BYTES = 2**23
# Nodes of all replicates that a CUDA device works on at once.
_NODES_ON_CUDA = 2**22


class Ensemble(ABC):
    """Replicates of one epidemic on one device, as `simulate` runs them.

    A replicate does not depend on the chunk that it is run in.  Most methods count during the run:
    int32 [replicate, time, column].  Columns are compartments, cumulative cases, and then entries
    and tallies if they are requested, each by stratum.
    """

    work_names: tuple[str, ...]  # names of the work counters that `run` returns

    def __init__(
        self,
        model: CompartmentModel,
        scenario: Scenario,
        times: np.ndarray,
        seed: int,
        device: Device,
        precision: Precision,
        group: PointGroup | None = None,
    ) -> None:
        real = np.dtype(precision).type
        self.device = device
        self.node_count = scenario.contacts.node_count
        self.compartment_count = len(model.compartments)
        self.stratum_count = len(scenario.strata)
        self.times = moments_of(times - times[0], float(times[0]), precision).latest
        self.horizon = self.times[-1]
        check_range("the time from the first of times to the last", self.horizon, precision)
        self.per_step = real((self.times.size - 1) / self.horizon if self.horizon > 0 else 0.0)
        self.seed = np.uint64(seed)
        self.base = model.index[model.infections[0].susceptible]
        self.stratum_sizes = np.full(1, self.node_count)
        if scenario.stratum is not None:
            self.stratum_sizes = np.bincount(scenario.stratum, minlength=self.stratum_count)
        self._group = group
        self._interventions = scenario.interventions
        self._unborn = -1 if model.unborn is None else model.index[model.unborn]
        self.has_entries = ENTRIES in scenario.include
        self.tallies = scenario.tallies

    def rows_from(self, first: int, device: Device | None = None) -> Rows:
        """The rows of a launch on a device, this one if not given, from row `first` on."""
        return put_table(device or self.device, rows_from(first, self._group))

    def tables_on_device(self, tables: Tables, seeding: Seeding) -> EpidemicTables:
        """Tables that kernels read besides arcs; `seeding` is already on the device."""
        real = self.times.dtype.type
        whole = EpidemicTables(
            tables.meetings, tables.stages, tables.infections, tables.calendars,
            tables.interventions, seeding, tables.importations,
            or_nothing(tables.stratum, np.int32), self.stratum_count, self.base, self.times,
            self.per_step, real(np.nextafter(self.horizon, real(np.inf))), tables.moments,
            tables.births,
        )  # fmt: skip
        return put_table(self.device, whole)

    @property
    def column_count(self) -> int:
        """Columns of counts."""
        entries = self.compartment_count if self.has_entries else 0
        return (self.compartment_count + 1 + entries + len(self.tallies)) * self.stratum_count

    @property
    def bytes_per_replicate(self) -> int:
        """Memory that a replicate of a chunk needs [bytes]."""
        return 4 * self.times.size * self.column_count

    @property
    def bytes_per_thread(self) -> int:
        """Memory for the nodes of the replicate that a thread runs, at least [bytes]."""
        return 0

    def chunk_size(self, replicates: int) -> int:
        """Replicates per chunk: enough for all threads, few enough to respond to Ctrl-C."""
        least = self.bytes_per_replicate + self.bytes_per_thread
        replicates_that_fit(self.device, self.node_count, least)
        work = self.bytes_per_replicate + 16 * self.node_count
        return min(replicates, max(8 * self.device.core_count, _CHUNK_BYTES // work))

    @property
    def least_chunk(self) -> int:
        """Replicates of the first chunk, and a factor of the others, which take about a second."""
        if self.device.is_cuda:
            return max(1, _NODES_ON_CUDA // self.node_count)
        return 8 * self.device.core_count

    @abstractmethod
    def prepare(self) -> None:
        """Compile the kernels, or load them from the cache, without running anything."""

    @abstractmethod
    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates; return input for `count` and `cases`, and the work on the host.

        After Ctrl-C there may be fewer: the finished ones, from the first on.
        """

    def count(self, found: Any, first_replicate: int) -> np.ndarray:
        """Nodes in each compartment (and stratum) at each time."""
        return self._columns(found[0], 0, self.compartment_count)

    def counters(self, work: np.ndarray) -> dict[str, Any]:
        """Attributes of a result about the work done."""
        return {name: int(number) for name, number in zip(self.work_names, work, strict=True)}

    def case_count(self, found: Any, counts: np.ndarray, first_replicate: int) -> np.ndarray:
        """Cases up to each time (by stratum), seeds among them."""
        at = self.compartment_count
        each = self._columns(found[0], at, at + 1)
        return each[:, :, 0]

    def entries(self, found: Any, first_replicate: int) -> Any:
        """Entries into each compartment (by stratum) up to each time, seeds among them."""
        at = self.compartment_count + 1
        return self._columns(found[0], at, at + self.compartment_count)

    def measures(self, found: Any, first_replicate: int) -> Any:
        """What measures have done up to each time (by stratum), in the order of `tallies`."""
        counts = found[0]
        count = self.column_count // self.stratum_count
        at = count - len(self.tallies)
        each = counts.reshape(*counts.shape[:2], count, self.stratum_count)[:, :, at:]
        each = shown(each, self.tallies, self._interventions)
        return each if self.stratum_count > 1 else each[..., 0]

    def valid_times(self, found: Any, every: np.ndarray) -> np.ndarray:
        """How many times of the grid are valid in each of some replicates; `every` has all of them.

        When no node is unborn any more, later births are lost.
        """
        if self._unborn < 0:
            return every
        counts = found[0]
        left = on_host(self._columns(counts, self._unborn, self._unborn + 1))
        left = left.reshape(*counts.shape[:2], -1).sum(axis=2)
        return np.where(left[:, -1] > 0, every, (left > 0).sum(axis=1))

    def _columns(self, counts: Any, first: int, stop: int) -> Any:
        """Some columns of counts, by stratum if there are several."""
        count = self.column_count // self.stratum_count
        each = counts.reshape(*counts.shape[:2], count, self.stratum_count)[:, :, first:stop]
        return each if self.stratum_count > 1 else each[..., 0]

    def cases(self, found: Any, first_replicate: int) -> dict[str, np.ndarray]:
        """The line list of some replicates as flat arrays, ordered by replicate, node and time."""
        raise NotImplementedError

    @property
    def first_room_of_changes(self) -> int:
        """Changes of tallies in a replicate for which there is room at first."""
        return 4 * self.node_count if self.tallies else 1

    def changes(self, found: Any) -> Happened:
        """Changes of tallies in some replicates, on the host."""
        raise NotImplementedError

    def happened(self, found: Any, first_replicate: int) -> dict[str, np.ndarray]:
        """What measures did to each node, as flat arrays (`shared.tallies.spells_of`)."""
        first = self.column_count // self.stratum_count - len(self.tallies)
        found = spells_of(self.changes(found), first, self.tallies, self._interventions)
        return found | {"event_replicate": first_replicate + found["event_replicate"]}


def with_room(room: int, counts: np.ndarray) -> int:
    """Room for each of some counts, and for a quarter more if it is not enough now."""
    most = int(counts.max(initial=0))
    return room if most <= room else most + most // 4


def replicates_that_fit(device: Device, node_count: int, bytes_each: int) -> int:
    """Number of replicates that fit on a device together.

    Raises a PlanError if not even one fits.
    """
    return count_that_fits(
        device, bytes_each, f"one replicate of {node_count:,} nodes beside its network",
        "use fewer nodes or times, or a device with more memory",
    )  # fmt: skip
