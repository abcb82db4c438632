"""Replicates of one epidemic on one device: reach every node, then count or list.

The model and the network are put on a device once.  A replicate does not depend on the chunk that
it is run in.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls.resident import beside
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_kept, put_table
from ergode.core.group import COOPERATIVE, KIND
from ergode.epidemics.first_passage.computed_cuda import search_computed_cuda
from ergode.epidemics.first_passage.counts import Grid, count_on_grid_cpu, count_on_grid_cuda
from ergode.epidemics.first_passage.cuda import search_cuda
from ergode.epidemics.first_passage.kernel import Search, search_cpu
from ergode.epidemics.first_passage.line_list import cases_of
from ergode.epidemics.first_passage.on_device import listed_at_once, on_device
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import Initial, Seeder
from ergode.epidemics.shared import progression
from ergode.epidemics.shared.arcs import arcs_of
from ergode.epidemics.shared.ensemble import Ensemble, replicates_that_fit
from ergode.epidemics.shared.options import COMPUTED, COUNTING_ENTRIES, HAS_STRATA, WEIGHTED, WIDE
from ergode.epidemics.shared.resolution import check_range, check_stages
from ergode.epidemics.shared.sweep import PointGroup, bindings_of, rows_from
from ergode.epidemics.shared.tables import arc_weights
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.networks.computed import ComputedNetwork

# Half the registers that the kernels would use: twice the threads hide the latency of reads.
_REGISTERS = 64
NODES_OF_32_BITS = 2**31


class FirstPassageEnsemble(Ensemble):
    """First-passage replicates of a model on a network.

    Parameters
    ----------
    model, scenario, initial, times, seed, device, precision
        As for `event_driven.runner.EventEnsemble`; only contacts and strata are used.
    width : float, optional
        Span of times expanded in one pass; affects only the speed.
    group : PointGroup, optional
        Points to run in one launch; `model` and `initial` are those of the first point. Replicates
        are numbered over all points.
    rows : float, optional
        Replicates of all points that the call runs; for a few, kernels that serve every model are
        used where the model's own are not compiled.
    """

    work_names = ("expansions", "passes")

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
        group: PointGroup | None = None,
    ) -> None:
        super().__init__(model, scenario, times, seed, device, precision, group)
        contacts, stratum = scenario.contacts, scenario.stratum
        self.count_type = np.dtype(np.int32 if self.node_count < NODES_OF_32_BITS else np.int64)
        self.word_type = np.dtype(f"uint{precision[-2:]}")
        self.stages = progression.stages_of_group(model, group, precision, contacts)
        self.seeds = Seeder(model, contacts, initial, self.seed, device, precision, group)
        weights_of_arcs = arc_weights(model, contacts)
        arcs = arcs_of(contacts, weights_of_arcs, precision)
        self.weights = arcs.weights
        check_stages(model, self.stages, precision, group)
        if self.weights.size:
            check_range("the largest weight", self.weights.max(), precision)
        # Options of the search; the counts have strata in addition.
        self._bindings = {
            **bindings_of(group), **self.seeds.bindings, **progression.class_bindings(model),
            WEIGHTED: weights_of_arcs is not None,
        }  # fmt: skip
        if self.count_type != np.int32:
            self._bindings[WIDE] = True
        self._computed = isinstance(contacts, ComputedNetwork)
        if isinstance(contacts, ComputedNetwork):
            self._bindings |= {COMPUTED: True, **contacts.bindings}
        on_cuda = search_computed_cuda if self._computed else search_cuda
        pairs = (search_cpu, on_cuda), (count_on_grid_cpu, count_on_grid_cuda)

        self._bindings |= progression.bindings_of(model)
        entries = {COUNTING_ENTRIES: True} if self.has_entries else {}
        search, count = kernels.kernels(
            *pairs, precision=precision, registers=_REGISTERS,
            bindings=self._bindings
            | {KIND: COOPERATIVE, HAS_STRATA: stratum is not None}
            | entries,
        )  # fmt: skip
        self.bindings = dict(search.bindings)
        self._on = on_device(device, search, count, contacts, self.count_type)
        if width is None:
            some = [model] if group is None else group.models[:: -(-len(group.models) // 9)]
            width = median(_width(one, weights_of_arcs) for one in some)
            width *= self._on.width_factor
        self.width = np.dtype(precision).type(width)
        self._on_host = Search(
            arcs.offsets, arcs.targets, self.weights, self.stages, self.seeds.host,
            self.seeds.most, self.seed, rows_from(0, group), self.horizon,
        )  # fmt: skip
        self.search = put_table(device, self._on_host)._replace(seeding=self.seeds.of(0, 0))
        groups = np.zeros(1, np.int32) if stratum is None else stratum
        at_first = np.zeros(self.column_count, self.count_type)
        at_first = at_first.reshape(-1, self.stratum_count)
        at_first[self.base] = self.stratum_sizes
        self._stratum_on_host = groups
        self.grid = Grid(
            put_kept(device, self.times), self.per_step, self.base,
            put_kept(device, at_first.ravel()), put_kept(device, groups),
        )  # fmt: skip

    @property
    def bytes_per_replicate(self) -> int:
        """Memory per replicate, without the network [bytes]."""
        word = self.word_type.itemsize
        listed = 0
        if self._computed and self.device.is_cuda:
            listed = 8 * listed_at_once(self.node_count)
        counts = self.count_type.itemsize * self.times.size * self.column_count
        return word * self.node_count + listed + counts

    def chunk_size(self, replicates: int) -> int:
        """Replicates to run together: as many as keep the device busy and fit its memory."""
        fits = replicates_that_fit(self.device, self.node_count, self.bytes_per_replicate)
        wanted = self._on.replicates_at_once(self.bytes_per_replicate)
        return max(1, min(replicates, wanted, fits))

    @property
    def column_count(self) -> int:
        """Columns of counts: compartments, and entries into them."""
        return self.compartment_count * self.stratum_count * (2 if self.has_entries else 1)

    def prepare(self) -> None:
        """Compile the kernels, or load them from the cache, without running anything."""
        shape = (self.times.size, self.column_count)
        self._on.prepare((self.search, self.width), (self.search, self.grid), shape)

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Reach every node of `count` replicates.

        Returns
        -------
        words : array on the device, shape [count, node_count]
            See `first_passage.kernel`; overwritten by the next call.
        work : ndarray, shape [2]
            Node expansions and passes, summed over the replicates; on the host.
        """
        self.search = self.search._replace(
            seeding=self.seeds.of(first_replicate, count),
            rows=self.rows_from(first_replicate),
        )
        return self._on.search(count, (self.search, self.width))

    def count(self, found: Any, first_replicate: int) -> np.ndarray:
        """Nodes in each compartment (and stratum) at each time.

        Shape [count, time_count, compartment_count] or [..., compartment_count, stratum_count];
        int32, or int64 for 2^31 nodes or more.
        """
        shape = (found.shape[0], self.times.size, self.column_count)
        search = self.search._replace(rows=self.rows_from(first_replicate))
        counts = self._on.count(found, (search, self.grid), shape)
        if self.has_entries:
            self._entries = self._columns(
                counts, self.compartment_count, 2 * self.compartment_count
            )
        return self._columns(counts, 0, self.compartment_count)

    def entries(self, found: Any, first_replicate: int) -> Any:
        """Entries into each compartment (and stratum), which `count` has counted just before."""
        return self._entries

    def case_count(self, found: Any, counts: np.ndarray, first_replicate: int) -> np.ndarray:
        """Cases up to each time, seeds among them, from what `count` returned."""
        left = counts[:, :, self.base]
        everybody = counts[:, :1].sum(axis=2)
        spared = self.seeds.never_cases(
            first_replicate, len(counts), self._stratum_on_host, self.stratum_count
        )
        if self.stratum_count == 1:
            spared = spared[:, 0]
        return (everybody - left - beside(counts, spared)[:, None]).astype(self.count_type)

    def cases(self, found: Any, first_replicate: int) -> dict[str, np.ndarray]:
        """The line list of some replicates as flat arrays, ordered by replicate and node."""
        words = self.device.get(found)
        search = self._on_host._replace(
            seeding=self.seeds.on_host(first_replicate, len(words)),
            rows=self.rows_from(first_replicate, self._on.host),
        )
        return cases_of(self._on.host, search, first_replicate, words, self._bindings)


def _width(model: CompartmentModel, weights: np.ndarray | None) -> float:
    """Span of time to expand in one pass.

    It should give every thread work, but be so short that few nodes of a pass infect each other.
    It affects only the speed.  The factors were measured on random networks of mean degree 8.
    """
    infection = model.infections[0]
    after = {p.compartment: p for p in model.progressions}
    rate, here, latent = 0.0, infection.infected, 0.0
    while True:
        rate = infection.transmission_rate.get(here, 0.0)
        if rate > 0.0 or here not in after:
            break
        latent += after[here].shortest_mean
        here = max(after[here].branches, key=after[here].branches.__getitem__)
    infectious = after[here].shortest_mean if here in after else np.inf
    if weights is not None and weights.size:
        rate *= float(weights.mean())
    transmission = min(infectious, 1.0 / rate if rate > 0.0 else np.inf)
    width = 0.8 * latent + 0.4 * transmission
    if not (np.isfinite(width) and width > 0.0):
        width = 1.0  # no transmission, or instantaneous transmission
    return float(width)
