"""Gillespie's direct method for memoryless epidemics: method ``"gillespie"``, on the CPU.

Every node has a total rate: of its progression, and of infection along the arcs into it.  The time
to the next jump is exponential, with the sum of all rates.  A node is
chosen in proportion to its rate.  Rates are kept in a binary tree of sums, in float64, so that a
jump costs O(log n) for each neighbour.  Forces of infection are whole numbers of a unit, in
float64: their sums are exact, and zero without infectious neighbours, whatever the unit of time.

The method shares only the tables of the model with the other methods, and serves to check them.

References
----------
D. T. Gillespie, J. Comput. Phys. 22, 403 (1976): the direct method.  C. K. Wong and M. C. Easton,
SIAM J. Comput. 9, 111 (1980): weighted sampling by a tree of sums.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.calls import launch
from ergode.core.compiler.language import no_refcount
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.core.math.random import JUMP, draw_words, exponential, uniform
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import (
    Initial,
    Seeder,
    initial_compartment,
    seed_node,
    seeding_of_row,
)
from ergode.epidemics.shared import progression, transmission
from ergode.epidemics.shared.arcs import (
    arc_bindings,
    arcs_of,
    end_arc,
    first_arc,
    is_loop,
    node_count_of,
    of_arc,
    target_of,
)
from ergode.epidemics.shared.births import births_of, births_of_row, check_births, child_of
from ergode.epidemics.shared.counts import grid_index
from ergode.epidemics.shared.ensemble import Ensemble
from ergode.epidemics.shared.options import COUNTING_ENTRIES, HAS_BIRTHS, HAS_STRATA, WEIGHTED
from ergode.epidemics.shared.progression import row_of
from ergode.epidemics.shared.resolution import check_stages
from ergode.epidemics.shared.sweep import SWEPT, PointGroup, bindings_of, replicate_of
from ergode.epidemics.shared.tables import arc_weights, largest_sum, or_nothing
from ergode.models.epidemic.compartments import CompartmentModel


class JumpTables(NamedTuple):
    """Read-only tables of a run."""

    arcs: Any  # out of every node, see `shared.arcs`
    stages: Any  # see `shared.progression`
    seeding: Any
    infections: Any  # see `shared.transmission`
    base: int  # compartment of nodes that are not seeds
    stratum: Any  # of each node, int32 [node_count]
    stratum_count: int
    times: Any
    per_step: Any  # grid points per unit of time
    largest_sum: float  # of the weights of arcs into a node
    births: Any  # see `shared.births`


def gillespie_cpu(start, stop, tables, seed, rows, counts, work):
    """Run replicates `start` to `stop`, on one thread.

    `tables` has the tables of all points (see `shared.sweep`).  Out: `counts` [row, time,
    (compartment, cases) x stratum], `work` [row, 2] (jumps, infections).
    """
    node_count = node_count_of(tables.arcs)
    leaf = 1
    while leaf < node_count:
        leaf *= 2
    tree = np.empty(2 * leaf, np.float64)
    pressure = np.empty((tables.infections.susceptible.size, node_count), np.float64)
    compartment = np.empty(node_count, np.int64)
    for row in range(start, stop):
        _run_one(
            _tables_of_row(tables, rows, row), seed, replicate_of(rows, row), row, counts, work,
            tree, pressure, compartment,
        )  # fmt: skip


def _tables_of_row(tables, rows, row):
    """The tables of the point of a row."""
    if SWEPT:
        return JumpTables(
            tables.arcs, progression.stages_of_row(tables.stages, rows, row),
            seeding_of_row(tables.seeding, rows, row),
            transmission.infections_of_row(tables.infections, rows, row), tables.base,
            tables.stratum, tables.stratum_count, tables.times, tables.per_step,
            tables.largest_sum, births_of_row(tables.births, rows, row),
        )  # fmt: skip
    return tables


@no_refcount
def _run_one(tables, seed, replicate, row, counts, work, tree, pressure, compartment):
    """One replicate, from its seeds to the last time."""
    # Tables are unpacked once: numba copies the whole tuple at every use.
    arcs = tables.arcs
    stages, seeding, base = tables.stages, tables.seeding, tables.base
    susceptible, infected, rate = (
        tables.infections.susceptible, tables.infections.infected, tables.infections.rate
    )  # fmt: skip
    stratum, stratum_count = tables.stratum, tables.stratum_count
    times, per_step, births = tables.times, tables.per_step, tables.births
    node_count = compartment.size
    unit = _unit(rate, tables.largest_sum)
    _begin(
        row, base, stages, stratum, stratum_count, susceptible, counts, tree, pressure, compartment,
        births,
    )  # fmt: skip
    cases = np.int64(stages.order.size)
    infections = np.int64(0)
    born = np.int64(0)
    for index in range(seeding.named_count + seeding.drawn_count):
        node = np.int64(seed_node(seeding, index, node_count, seed, replicate))
        into = np.int64(initial_compartment(seeding, node, node_count, seed, replicate))
        _move(
            node, into, arcs, stages, susceptible, rate, unit, tree, pressure, compartment, births
        )  # fmt: skip
        counts[row, 0, _column(base, node, stratum, stratum_count)] -= 1
        counts[row, 0, _column(into, node, stratum, stratum_count)] += 1
        if COUNTING_ENTRIES:
            counts[row, 0, _column(cases + 1 + into, node, stratum, stratum_count)] += 1
        if seeding.is_case[into] != 0:
            counts[row, 0, _column(cases, node, stratum, stratum_count)] += 1
            infections += 1
    horizon = times[times.size - 1]
    time = np.float64(0.0)  # float64 in every precision: many short jumps add up
    jumps = np.int64(0)
    while tree[1] > 0.0:
        w0, w1, w2, w3 = draw_words(seed, replicate, jumps >> 32, JUMP, np.uint32(jumps))
        time += np.float64(exponential(w0, w1)) / tree[1]
        if time > horizon:
            break
        i, v = _chosen_leaf(tree, np.float64(uniform(w2, w3)) * tree[1])
        node = i - (tree.size >> 1)
        if tree[i] <= 0.0:  # rounding led to an empty leaf: draw again
            jumps += 1
            continue
        old = compartment[node]
        into = _chosen_infection(node, old, v, susceptible, infected, pressure, unit)
        is_case = into >= 0
        if HAS_BIRTHS and _is_birth(node, old, v, stages, susceptible, pressure, unit, births):
            child = child_of(births, seeding, born, node_count, seed, replicate)
            if child < 0:
                jumps += 1
                continue
            born += 1
            node, old = np.int64(child), np.int64(births.unborn)
            into = _chosen_branch(stages, row_of(stages, old, node), seed, replicate, jumps)
        if into < 0:
            if stages.kind[old] < 0:
                jumps += 1
                continue
            into = _chosen_branch(stages, row_of(stages, old, node), seed, replicate, jumps)
        at = grid_index(times, per_step, time)
        if at < times.size:
            counts[row, at, _column(old, node, stratum, stratum_count)] -= 1
            counts[row, at, _column(into, node, stratum, stratum_count)] += 1
            if COUNTING_ENTRIES:
                counts[row, at, _column(cases + 1 + into, node, stratum, stratum_count)] += 1
            if is_case:
                counts[row, at, _column(cases, node, stratum, stratum_count)] += 1
        infections += np.int64(is_case)
        _move(
            node, into, arcs, stages, susceptible, rate, unit, tree, pressure, compartment, births
        )  # fmt: skip
        jumps += 1
    _sum_up(row, counts)
    work[row, 0] = jumps
    work[row, 1] = infections


def _begin(
    row, base, stages, stratum, stratum_count, susceptible, counts, tree, pressure, compartment,
    births,
):  # fmt: skip
    """Put all nodes into the base compartment, with zero forces of infection."""
    for at in range(counts.shape[1]):
        for column in range(counts.shape[2]):
            counts[row, at, column] = 0
    for i in range(tree.size):
        tree[i] = 0.0
    for node in range(compartment.size):
        compartment[node] = base
        counts[row, 0, _column(base, node, stratum, stratum_count)] += 1
        for k in range(susceptible.size):
            pressure[k, node] = 0.0
    for node in range(compartment.size):
        if stages.kind[base] >= 0:
            _set_rate(tree, node, np.float64(stages.a[row_of(stages, base, node)]))
        if HAS_BIRTHS:
            _set_rate(tree, node, _rate_of(node, base, stages, susceptible, pressure, 0.0, births))


def _chosen_infection(node, old, v, susceptible, infected, pressure, unit):
    """Compartment after an infection, or -1: `v` is uniform on the sum of the node's rates."""
    into = np.int64(-1)
    for k in range(susceptible.size):
        if susceptible[k] == old and into < 0:
            force = pressure[k, node] * unit
            if v <= force:
                into = np.int64(infected[k])
            v -= force
    return into


def _is_birth(node, kind, v, stages, susceptible, pressure, unit, births):
    """Whether a node has a child: `v` is uniform on the sum of its rates."""
    force = np.float64(0.0)
    for k in range(susceptible.size):
        if susceptible[k] == kind:
            force += pressure[k, node] * unit
    return v > force and v <= force + _birth_rate(kind, stages, births)


def _birth_rate(kind, stages, births):
    """Rate at which a person in a compartment has children."""
    return np.float64(stages.a[births.unborn]) * np.float64(births.share[kind])


def _sum_up(row, counts):
    """Turn the moves of a replicate into counts, in place."""
    for column in range(counts.shape[2]):
        total = 0
        for at in range(counts.shape[1]):
            total += counts[row, at, column]
            counts[row, at, column] = total


def _chosen_leaf(tree, v):
    """Draw a leaf in proportion to its rate; also return the rest of `v` within that leaf."""
    i = np.int64(1)
    while i < tree.size >> 1:
        i *= 2
        if v > tree[i]:
            v -= tree[i]
            i += 1
    return i, v


def _chosen_branch(stages, table_row, seed, replicate, jumps):
    """Next compartment of a node that progresses, from its row of the tables."""
    w0, w1, w2, w3 = draw_words(seed, replicate, (jumps >> 32) | 1 << 40, JUMP, np.uint32(jumps))
    u = uniform(w0, w1)
    branch = np.int64(stages.branch_start[table_row])
    last = np.int64(stages.branch_start[table_row + 1]) - 1
    while branch < last and u > stages.branch_cdf[branch]:
        branch += 1
    return np.int64(stages.branch_to[branch])


def _column(compartment, node, stratum, stratum_count):
    return compartment * stratum_count + stratum[node] if HAS_STRATA else compartment


def _unit(rate, largest_sum):
    """The unit of forces of infection: their sums are below 2^53 units, and exact."""
    fastest = np.float64(0.0)
    for k in range(rate.shape[0]):
        for source in range(rate.shape[1]):
            fastest = max(fastest, np.float64(rate[k, source]))
    return max(fastest * np.float64(largest_sum) / 2.0**52, 1e-300)


def _move(
    node, into, arcs, stages, susceptible, rate, unit, tree, pressure, compartment, births
):  # fmt: skip
    """Move a node, and update the rates of its neighbours."""
    old = compartment[node]
    compartment[node] = into
    _set_rate(tree, node, _rate_of(node, into, stages, susceptible, pressure, unit, births))
    for arc in range(first_arc(arcs, node), end_arc(arcs, node)):
        other = np.int64(target_of(arcs, node, arc))
        if is_loop(node, other):
            continue
        changed = False
        for k in range(susceptible.size):
            if rate[k, into] != rate[k, old]:
                weight = np.float64(1.0)
                if WEIGHTED:
                    weight = np.float64(of_arc(arcs.weights, arc))
                pressure[k, other] += _in_units(rate[k, into], weight, unit) - _in_units(
                    rate[k, old], weight, unit
                )
                changed = changed or susceptible[k] == compartment[other]
        if changed:
            _set_rate(
                tree, other,
                _rate_of(other, compartment[other], stages, susceptible, pressure, unit, births),
            )  # fmt: skip


def _in_units(rate, weight, unit):
    """The rate of a contact, in whole units."""
    return math.floor(np.float64(rate) * weight / unit + 0.5)


def _rate_of(node, kind, stages, susceptible, pressure, unit, births):
    """Total rate of a node [1 / time]."""
    total = np.float64(0.0)
    if stages.kind[kind] >= 0:
        total = np.float64(stages.a[row_of(stages, kind, node)])
    if HAS_BIRTHS:
        total += _birth_rate(kind, stages, births)
    for k in range(susceptible.size):
        if susceptible[k] == kind:
            total += pressure[k, node] * unit
    return total


def _set_rate(tree, node, rate):
    """Set the rate of a node and the sums above it."""
    i = (tree.size >> 1) + node
    tree[i] = rate
    i >>= 1
    while i > 0:
        tree[i] = tree[2 * i] + tree[2 * i + 1]
        i >>= 1


class JumpEnsemble(Ensemble):
    """Replicates of a memoryless model on a static network, jump by jump."""

    work_names = ("jumps", "infections")

    def __init__(
        self,
        model: CompartmentModel,
        scenario: Scenario,
        initial: Initial,
        *,
        times: np.ndarray,
        seed: int,
        device: Device,
        precision: Precision = "float64",
        group: PointGroup | None = None,
    ) -> None:
        super().__init__(model, scenario, times, seed, device, precision, group)
        contacts = scenario.contacts
        stages = progression.stages_of_group(model, group, precision, contacts)
        check_stages(model, stages, precision, group)
        check_births(model, stages, initial, float(self.horizon))
        infections = transmission.infections_of(model, precision, group)
        weights = arc_weights(model, contacts)
        self._seeds = Seeder(model, contacts, initial, self.seed, device, precision, group)
        self._kernel = kernels.cpu_kernel(
            gillespie_cpu,
            precision=precision,
            bindings={
                **bindings_of(group),
                **self._seeds.bindings,
                progression.HAS_CLASSES: bool(model.divisions),
                WEIGHTED: weights is not None,
                HAS_STRATA: scenario.stratum is not None,
                COUNTING_ENTRIES: self.has_entries,
                **({HAS_BIRTHS: True} if model.unborn else {}),
                **arc_bindings(contacts),
            },
        )
        tables = JumpTables(
            arcs_of(contacts, weights, precision), stages, self._seeds.of(0, 0), infections,
            self.base, or_nothing(scenario.stratum, np.int32),
            self.stratum_count, self.times, self.per_step, largest_sum(contacts, weights),
            births_of(model, initial, contacts.node_count, precision, group),
        )  # fmt: skip
        self._tables = put_table(device, tables)
        self._infection_count = len(model.infections)

    @property
    def bytes_per_thread(self) -> int:
        """Memory for the nodes of the replicate that a thread runs [bytes]."""
        leaves = 1 << (self.node_count - 1).bit_length()
        return 16 * leaves + 8 * (self._infection_count + 1) * self.node_count

    def prepare(self) -> None:
        """Compile the kernel, or load it from the cache, without running anything."""
        self.chunk_size(1)  # refuses what does not fit, before a thread allocates it
        self.device.prepare(
            self._kernel, self._tables, self.seed, self.rows_from(0), *self._outputs(0)
        )

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates; see `Ensemble`."""
        counts, work = self._outputs(count)
        tables = self._tables._replace(seeding=self._seeds.of(first_replicate, count))
        done = launch.run_from_first(
            self.device, self._kernel, count, tables, self.seed, self.rows_from(first_replicate),
            counts, work,
        )  # fmt: skip
        return (counts[:done],), work[:done].sum(axis=0)

    def _outputs(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.empty((count, self.times.size, self.column_count), np.int32),
            np.zeros((count, 2), np.int64),
        )
