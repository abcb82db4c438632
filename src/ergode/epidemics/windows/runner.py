"""Replicates of one epidemic, window by window, on either device.

Method ``"sellke"`` on CUDA; on the CPU it serves to validate the event-driven kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls.resident import fetch
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device, resolve
from ergode.core.devices.buffers import put_table
from ergode.core.errors import PlanError
from ergode.core.group import COOPERATIVE, KIND
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import Initial, Seeder
from ergode.epidemics.shared.arcs import arcs_into, arcs_of
from ergode.epidemics.shared.counts import RUNNING_SUMS, Happened
from ergode.epidemics.shared.ensemble import Ensemble, replicates_that_fit, with_room
from ergode.epidemics.shared.importation import ImportedCases, imported_cases_of
from ergode.epidemics.shared.options import (
    HAS_BIRTHS,
    HAS_COUNTERS,
    HAS_FINDS,
    HAS_LINES,
    HAS_LIVES,
    HAS_RELEASE,
    HAS_SCREENING,
    HAS_TRACING,
    LISTING,
    TEMPORAL,
    TESTS_TRACED,
)
from ergode.epidemics.shared.sweep import PointGroup, Rows
from ergode.epidemics.shared.tables import EpidemicTables, Tables, has_node_factors, tables_of
from ergode.epidemics.shared.transmission import (
    CONTACT_TIME,
    FINDS,
    OWN_DELAY,
    OWN_TIME,
    RETEST_AFTER,
    RETEST_EVERY,
)
from ergode.epidemics.windows.buffers import new_buffers
from ergode.epidemics.windows.kernel import HUB, THREADS, windows_cpu, windows_cuda
from ergode.epidemics.windows.moves import Records, Results
from ergode.epidemics.windows.path import HUBS
from ergode.epidemics.windows.state import COMPARTMENTS_MOST, INFECTED, ROOM, Contacts, Epidemic
from ergode.models.epidemic.attributes import Network
from ergode.models.epidemic.compartments import CompartmentModel

_REGISTERS = 128
# Positions that one grid works on at once: enough to fill a device.
_POSITIONS = 2**22
_INDEXABLE = 2**31
_DETECTIONS = 4  # initial room for pending detections of a node


class WindowEnsemble(Ensemble):
    """Replicates of a model on a network under a scenario.

    Parameters
    ----------
    model, scenario, initial, times, seed, device, precision, listing
        As for `event_driven.runner.EventEnsemble`.
    width : float, optional
        Span of a window [time]; affects only the speed.
    group, rows : optional
        As for `first_passage.runner.FirstPassageEnsemble`.
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
        group: PointGroup | None = None,
    ) -> None:
        super().__init__(model, scenario, times, seed, device, precision, group)
        if self.compartment_count > COMPARTMENTS_MOST:
            raise PlanError(
                f"the model has {self.compartment_count} compartments; windows of time take up to "
                f"{COMPARTMENTS_MOST}"
            )
        real = np.dtype(precision).type
        begin = float(times[0])
        tables = tables_of(model, scenario, initial, begin, float(self.horizon), precision, group)
        contacts = _contacts_of(model, scenario.contacts, tables, precision)
        most = scenario.contacts.largest_in_degree
        self._seeds = Seeder(model, scenario.contacts, initial, self.seed, device, precision, group)
        self.bindings = tables.bindings | self._seeds.bindings
        self.bindings |= {KIND: COOPERATIVE, LISTING: listing, HUBS: most > HUB and device.is_cuda}
        self._kernel = kernels.kernel(
            windows_cpu, windows_cuda, precision=precision, bindings=self.bindings,
            registers=_REGISTERS,
        )  # fmt: skip
        models = [model] if group is None else group.models
        span = width if width is not None else _width(models, scenario.contacts, tables)
        releases = self.bindings.get(HAS_RELEASE, False)
        if self.tallies or releases:  # `windows.tracing.tally_holds`
            columns = [OWN_TIME, CONTACT_TIME, RETEST_AFTER, RETEST_EVERY]
            lasting = tables.interventions.traced[:, columns]
            span = min(span, 0.9 * float(min(lasting[lasting > 0.0], default=np.inf)))
        finds = tables.interventions.traced[:, FINDS] != 0.0
        delays = tables.interventions.traced[finds, OWN_DELAY]
        span = min(span, 0.9 * float(min(delays, default=np.inf)))  # `windows.tracing.release`
        self.width = real(span)
        self.contacts = put_table(device, contacts)
        self._importations = tables.importations
        self.tables = self.tables_on_device(tables, self._seeds.of(0, 0))
        self._precision = precision
        self._listing = listing
        self._plan_size = tables.interventions.kind.size
        self._line_count = tables.interventions.lines.measure.size
        self._record_room = 2 * self.node_count if listing else 1
        self._happened_room = self.first_room_of_changes if listing else 1
        self._detection_room = _DETECTIONS
        at_first = np.zeros((self.column_count // self.stratum_count, self.stratum_count), np.int32)
        at_first[self.base] = self.stratum_sizes
        self._at_first: Any = at_first.ravel()
        self._buffers: tuple[Any, ...] = ()
        self._made_for: tuple[int, ...] = ()
        self._blocks = 0
        self._host = resolve("cpu") if device.is_cuda else device  # where importations are listed

    @property
    def bytes_per_replicate(self) -> int:
        """Memory per replicate, without the network [bytes]."""
        each = 16 + (9 if self._listing else 5) * ROOM + 8 + 16
        if self.bindings[HAS_TRACING]:
            each += 4 * self._plan_size + 8 * self._detection_room + 4
            if self.bindings.get(HAS_RELEASE, False):
                each += (12 if self.tallies else 20) * self._plan_size
            if self.bindings.get(HAS_FINDS, False):
                each += 8 * self._plan_size
            if self.bindings.get(TESTS_TRACED, False):
                each += 4 * self._plan_size
            if self.tallies:
                each += (16 if self.bindings[HAS_SCREENING] else 8) * self._plan_size
        if self.bindings.get(HAS_LINES, False):
            each += 12 * self._line_count
        if self.bindings.get(HAS_COUNTERS, False):
            each += 8 * self._detection_room + 4
        if self.bindings.get(HAS_BIRTHS, False):
            each += 8
        if self.bindings.get(HAS_LIVES, False):
            each += 16
        listed = 13 * self._record_room if self._listing else 0
        listed += 16 * self._happened_room
        return super().bytes_per_replicate + each * self.node_count + listed

    def chunk_size(self, replicates: int) -> int:
        """Replicates to run together: as many as keep the device busy and fit its memory."""
        if self.node_count >= _INDEXABLE:
            raise PlanError(f"{self.node_count:,} nodes exceed the 2^31 a CUDA grid indexes")
        fits = replicates_that_fit(self.device, self.node_count, self.bytes_per_replicate)
        return max(1, min(replicates, fits, _POSITIONS // self.node_count))

    def prepare(self) -> None:
        """Do nothing: a launch compiles the kernel to find the size of its grid."""

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates.

        Returns
        -------
        found : tuple of counts [count, time, columns], records of moves and changes of tallies
        work : ndarray, shape [2]
            Paths and windows, summed over the replicates.
        """
        rows = self.rows_from(first_replicate)
        imported_cases = imported_cases_of(
            self._importations, self.node_count, self.tables.end, self.seed,
            self.rows_from(first_replicate, self._host), self._group, count, self._host,
            self._precision,
        )  # fmt: skip
        imported_cases = put_table(self.device, imported_cases)
        tables = self.tables._replace(seeding=self._seeds.of(first_replicate, count))
        while True:
            counts, work, results, detections = self._run(tables, imported_cases, rows, count)
            records, happened = results.records, results.happened
            rooms = self._record_room, self._happened_room
            if self._listing:
                listed, changed = map(self.device.get, (records.count, happened.count))
                rooms = with_room(rooms[0], listed), with_room(rooms[1], changed)
            enough = rooms == (self._record_room, self._happened_room)
            if enough and detections <= self._detection_room:
                return (counts, records, happened), work
            # Run the replicates again with enough room.
            self._record_room, self._happened_room = rooms
            if detections > self._detection_room:
                self._detection_room = 2 * detections

    def _run(
        self, tables: EpidemicTables, imported_cases: ImportedCases, rows: Rows, count: int
    ) -> tuple[Any, np.ndarray, Results, int]:
        """Counts, work [2], results, and the room needed for detections of a node.

        Counts are on the device if results stay there.
        """
        device = self.device
        made_for = count, self._record_room, self._detection_room, self._happened_room
        if self._made_for != made_for or not device.is_cuda:  # results of a CPU are these arrays
            self._buffers = ()  # first free those of another size
            self._buffers = new_buffers(
                self.node_count, count, tables, self.bindings, self._precision,
                (self.times.size, self.column_count), *made_for[1:], device.empty,
            )  # fmt: skip
            self._made_for = made_for
        paths, triggers, tracing, lines, recent, queue, waiting, results, work = self._buffers
        epidemic = Epidemic(
            self.contacts, tables, imported_cases, paths, triggers, tracing, lines, recent,
            self.seed,
        )  # fmt: skip
        device.fill_zero(results.moves)
        device.fill_zero(results.records.count)
        device.fill_zero(results.happened.count)
        arguments = (
            epidemic, rows, self._seeds.most, self.width, queue, waiting, results, work
        )  # fmt: skip
        if device.is_cuda:
            if not self._blocks:
                self._blocks = device.resident_blocks(self._kernel, THREADS, *arguments)
                self._at_first = device.put(self._at_first)
            blocks = min(self._blocks, -(-count * self.node_count // THREADS))
            device.launch(self._kernel, blocks, THREADS, *arguments)
        else:
            device.run(self._kernel, 1, *arguments)
        device.run(RUNNING_SUMS, count * self.column_count, results.moves, self._at_first)
        detections = 0
        if self.bindings[HAS_TRACING] or self.bindings.get(HAS_COUNTERS, False):
            detections = int(device.get(tracing.room)[0])
        return fetch(device, results.moves), device.get(work), results, detections

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
        # Moves before a node's first case belong to no case.
        number = case.clip(0)
        part = case >= 0
        if part.any():
            part &= (row[is_case][number] == row) & (node[is_case][number] == node)
        born = self._births(row, node, time, to & (INFECTED - 1))
        entered = np.full((int(is_case.sum()), self.compartment_count), np.nan)
        entered[case[part], to[part] & (INFECTED - 1)] = time[part]
        return {
            "replicate": first_replicate + row[is_case],
            "node": node[is_case],
            "infector": records.infector[kept][order][is_case].astype(np.int64),
            "infected_at": time[is_case],
            "born_at": born[is_case],
            "entered": entered,
        }

    def _births(
        self, row: np.ndarray, node: np.ndarray, time: np.ndarray, to: np.ndarray
    ) -> np.ndarray:
        """For each move, in the order of row, node and time: the last birth of its node, or NaN."""
        outside = self.device.get(self.tables.births.outside) != 0
        first = np.diff(row, prepend=-1) | np.diff(node, prepend=-1)
        before = np.where(first != 0, self.base, np.roll(to, 1))
        is_birth = outside[before] & ~outside[to]
        last = np.maximum.accumulate(np.where(is_birth | (first != 0), np.arange(row.size), 0))
        return np.where(is_birth[last], time[last], np.nan)

    def changes(self, found: Any) -> Happened:
        """Changes of tallies, on the host."""
        return Happened(*map(self.device.get, found[2]))


def _contacts_of(
    model: CompartmentModel, contacts: Network, tables: Tables, precision: Precision
) -> Contacts:
    """Incoming and outgoing arcs on the host."""
    outgoing = arcs_of(contacts, tables.weights, precision)
    incoming, number = arcs_into(
        contacts, outgoing, alike=not has_node_factors(model),
        numbered=tables.bindings[TEMPORAL] or contacts.multigraph,
    )  # fmt: skip
    return Contacts(incoming, outgoing, number)


def _width(models: Sequence[CompartmentModel], contacts: Network, tables: Tables) -> float:
    """Span of a window: shorter than a generation interval, so that few paths change in a round.

    It affects only the speed; the factor was measured on random networks of mean degree 8.
    """
    stays = [
        one.mean
        for model in models
        for p in model.progressions
        for one in p.holding_times
        if one.mean > 0
    ]
    weight = 1.0 if tables.weights is None or not tables.weights.size else tables.weights.mean()
    pressure = float(tables.infections.peak.max()) * float(weight) * max(contacts.mean_degree, 1.0)
    spans = [*stays, 1.0 / pressure if pressure > 0 else np.inf]
    width = _WIDTH * (min(spans) + min(map(_latency, models)))
    return width if 0 < width < np.inf else 1.0


def _latency(model: CompartmentModel) -> float:
    """Shortest mean time from an infection until the infected node is infectious."""
    left = dict.fromkeys(model.infectious, 0.0)
    for _ in model.compartments:
        for p in model.progressions:
            stay = 0.0 if p.exits else min(one.mean for one in p.holding_times)
            after = min((left[name] for name in p.branches if name in left), default=np.inf)
            left[p.compartment] = min(left.get(p.compartment, np.inf), stay + after)
    found = min((left.get(one.infected, np.inf) for one in model.infections), default=0.0)
    return found if found < np.inf else 0.0


_WIDTH = 1.0
