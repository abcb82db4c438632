"""Run tau-leaping on the CPU: one replicate per thread, or one large replicate on all threads."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import checkpoint
from ergode.core.calls.launch import run_from_first
from ergode.epidemics.leap import cpu, options
from ergode.epidemics.leap.cpu import NodeState
from ergode.epidemics.leap.layout import Layout
from ergode.epidemics.leap.step import WORK_SIZE

# A replicate with fewer nodes is not worth sharing among threads: a step would be too short.
_SHARED_FROM = 200_000
_CHUNK_BYTES = 2**25
_BRIEF = 2**24  # node visits, which take some tenths of a second


class CpuRuns:
    """Runner of `LeapEnsemble` on the CPU."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.kernel, self._begin, self._decide, self._settle, self._between = kernels.cpu_kernels(
            cpu.leap_cpu, cpu.begin_cpu, cpu.decide_cpu, cpu.settle_cpu, cpu.between_cpu,
            precision=layout.precision, bindings=layout.bindings,
        )  # fmt: skip

    @property
    def bytes_per_replicate(self) -> int:
        """Memory per replicate, without the network [bytes]."""
        layout = self._layout
        nodes = (27 + 4 * layout.channel_count) * layout.node_count
        return nodes + 4 * layout.time_count * layout.column_count

    def wanted(self) -> int:
        """Replicates that keep the CPU busy."""
        return max(self._layout.device.core_count, _CHUNK_BYTES // self.bytes_per_replicate)

    def prepare(self) -> None:
        """Compile the kernel of whole replicates, or load it from the cache."""
        if checkpoint.is_asked():
            return  # replicates run step by step
        self._layout.device.prepare(
            self.kernel, *self._arguments(0, self._layout.tables.seeding, 0)
        )

    def run(self, first_replicate: int, count: int, seeding: Any) -> tuple[np.ndarray, np.ndarray]:
        """Counts and work of `count` replicates, or of those completed before Ctrl-C."""
        layout, device = self._layout, self._layout.device
        arguments = self._arguments(first_replicate, seeding, count)
        counts, work = arguments[-2:]
        is_shared = count < device.core_count and layout.node_count >= _SHARED_FROM
        if is_shared or checkpoint.is_asked():
            done = 0
            with suppress(KeyboardInterrupt):
                while done < count:
                    self._run_shared(first_replicate + done, arguments[0], counts[done], work[done])
                    done += 1
        else:
            steps = int(layout.tables.schedule.grid_tick[-1])
            brief = count * steps * layout.node_count < _BRIEF
            done = run_from_first(device, self.kernel, count, *arguments, is_brief=brief)
        return counts[:done], work[:done].sum(axis=0)

    def _arguments(self, first_replicate: int, seeding: Any, count: int) -> tuple[Any, ...]:
        layout = self._layout
        return (
            layout.tables._replace(seeding=seeding), layout.seed, first_replicate, layout.mode,
            np.zeros((count, layout.time_count, layout.column_count), np.int32),
            np.zeros((count, WORK_SIZE), np.int64),
        )  # fmt: skip

    def _run_shared(
        self, replicate: int, tables: Any, counts: np.ndarray, work: np.ndarray
    ) -> None:
        """One replicate on all threads, step by step."""
        layout = self._layout
        threads, run = layout.device.core_count, layout.device.run
        nodes = self._new_nodes(threads)
        clock, going = np.zeros(cpu.CLOCK_SIZE, np.int64), np.zeros(1, np.int64)
        between = (
            nodes, clock, tables.rules, tables.schedule, tables.factors, layout.mode, counts, work
        )  # fmt: skip
        last = max(1, int(tables.schedule.grid_tick[-1]))

        def state() -> dict[str, Any]:
            return _state_of(layout.bindings, nodes, clock, counts, work)

        with checkpoint.single_run("tau-leaping", layout.device) as single:
            if single.state is None:
                run(self._begin, 1, nodes, clock, work, tables, layout.mode, layout.seed, replicate)
            else:
                _restore(single.state, nodes, clock, counts, work)
            while clock[cpu.GRID] < layout.time_count:
                run(self._between, 1, *between, 1, going, is_brief=True)
                if not going[0]:
                    break
                run(
                    self._decide, threads, nodes, clock, tables.incoming, tables.rules,
                    tables.stages, tables.probabilities, tables.schedule, tables.factors.vaccines,
                    layout.seed, replicate, grain=1, is_brief=single.is_kept,
                )  # fmt: skip
                run(self._between, 1, *between, 0, going, is_brief=True)
                run(
                    self._settle, threads, nodes, clock, tables.outgoing, tables.rules, grain=1,
                    is_brief=single.is_kept,
                )  # fmt: skip
                single.boundary(state, clock[cpu.START] / last)
            single.boundary(state, 1.0)

    def _new_nodes(self, threads: int) -> NodeState:
        """A replicate in a segment for each thread."""
        count, real = self._layout.node_count, self._layout.precision
        return NodeState(
            np.linspace(0, count, threads + 1).astype(np.int64),
            np.empty(count, np.uint8), np.empty(count, np.int32),
            np.empty((self._layout.channel_count, count), np.int32),
            np.empty(self._layout.layer_count, real), np.empty(count, np.int32),
            np.empty((threads, self._layout.column_count), np.int64), np.empty(threads, real),
            np.empty(threads, np.int64), np.empty(count, np.int64),
            np.empty(count, np.uint8), np.empty(count, np.uint8),
            np.empty(count, np.int32), np.empty(count, np.int32),
        )  # fmt: skip


_KEPT = ("compartment", "since", "pressure", "left")


def _state_of(
    bindings: dict[Any, Any], nodes: NodeState, clock: np.ndarray, counts: np.ndarray,
    work: np.ndarray,
) -> dict[str, Any]:  # fmt: skip
    """What a replicate is between two steps, for any number of threads."""
    found = {name: getattr(nodes, name) for name in _KEPT} | {
        "population": nodes.population.sum(axis=0), "largest": nodes.largest.max(),
        "clock": clock, "counts": counts, "work": work,
    }  # fmt: skip
    used = {"left": bindings[options.THRESHOLDS], "largest": bindings[options.ADAPTIVE]}
    return {name: value for name, value in found.items() if used.get(name, True)}


def _restore(
    state: dict[str, np.ndarray], nodes: NodeState, clock: np.ndarray, counts: np.ndarray,
    work: np.ndarray,
) -> None:  # fmt: skip
    for name in state.keys() & _KEPT:
        getattr(nodes, name)[...] = state[name]
    nodes.population[...] = 0
    nodes.population[0], nodes.largest[...] = state["population"], state.get("largest", 0.0)
    clock[...], counts[...], work[...] = state["clock"], state["counts"], state["work"]
