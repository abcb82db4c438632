"""Replicates of one epidemic in time steps, on one device."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ergode.core import kernels
from ergode.core.buffers import Scratch
from ergode.core.compiler.bundle import Precision
from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.epidemics.leap import cpu, plan
from ergode.epidemics.leap.cpu import NodeState
from ergode.epidemics.leap.cuda import BARRIER_STRIDE, TILE, Signals, Store, leap_cuda
from ergode.epidemics.leap.factors import Factors, factors_of
from ergode.epidemics.leap.gather import HUB, SEGMENT, Hubs
from ergode.epidemics.leap.step import (
    AUTO,
    CHANGES,
    COMPARTMENTS_MOST,
    GATHER,
    INFECTIOUS,
    PUSH,
    TICKS_MOST,
    WORK_SIZE,
    Arcs,
    Rules,
    Schedule,
    TransitionProbabilities,
)
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import Initial, Seeder
from ergode.epidemics.shared import progression, transmission
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.epidemics.shared.ensemble import CountingEnsemble, replicates_that_fit
from ergode.epidemics.shared.resolution import check_stages
from ergode.epidemics.shared.tables import arc_weights
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.networks.contact_network import ContactNetwork

Transition = Literal["conditional", "left-end", "sampled"]
Pressure = Literal["auto", "gather", "push"]

_MODES = {"gather": GATHER, "push": PUSH, "auto": AUTO}
# A replicate with fewer nodes is not worth sharing among threads: a step would be too short.
_SHARED_FROM = 200_000
_CHUNK_BYTES = 2**25
_CUDA_NODES_MOST = 2**31
_STATIC_BYTES = 21 * 1024  # of shared memory, whatever the network
_USUAL_SHARED_BYTES = 24 * 1024  # beyond these and the static ones a kernel must ask for more
_REGISTERS = 64
_GATHER_STEP = 0.1  # of the shortest time scale


def check_options(
    step: float | None, tolerance: float | None, transition: str, pressure: str
) -> None:
    """Check the options of methods that take time steps.

    Raises
    ------
    PlanError
        An option is not possible.
    """
    for name, value in (("step", step), ("tolerance", tolerance)):
        if value is not None and not (
            isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0
        ):
            raise PlanError(f"{name} is {value!r}; expected a number above zero")
    for name, choice, known in (
        ("transition", transition, plan.TRANSITIONS), ("pressure", pressure, tuple(_MODES)),
    ):  # fmt: skip
        if choice not in known:
            raise PlanError(f"{name} {choice!r} is unknown; expected one of " + ", ".join(known))


class LeapEnsemble(CountingEnsemble):
    """Replicates that go through time in steps.

    Parameters
    ----------
    model, scenario, initial
        As for `simulate`, already checked.
    times : ndarray, shape [time_count]
        Ascending grid.
    seed, device, precision
        As for `simulate`.
    step : float, optional
        Longest step [time].
    tolerance : float, optional
        Choose steps such that the largest hazard times the step is no more than this.
    transition : {"conditional", "left-end", "sampled"}
        How the probability to leave a compartment is computed; see `leap.step`.
    pressure : {"auto", "gather", "push"}
        How nodes learn of their neighbours; affects speed alone.
    """

    work_names = ("steps", "gathering_steps", "infectivity_changes", "infectious_steps")

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
        step: float | None = None,
        tolerance: float | None = None,
        transition: Transition = "conditional",
        pressure: Pressure = "auto",
    ) -> None:
        check_options(step, tolerance, transition, pressure)
        super().__init__(model, scenario, times, seed, device, precision)
        contacts = scenario.contacts
        if len(model.compartments) > COMPARTMENTS_MOST:
            raise PlanError(
                f"the model has {len(model.compartments)} compartments; methods that leap take up "
                f"to {COMPARTMENTS_MOST}"
            )
        if model.infections[0].susceptible in model.infectious:
            raise PlanError(
                f"everyone starts in '{model.infections[0].susceptible}', which infects others; "
                "methods that leap begin with nobody infectious but those of initial"
            )
        if transition == "left-end":
            plan.check_left_end(model)
        self.infection_count = len(model.infections)
        self.precision = precision
        self.mode = _MODES[pressure]
        self.transition = transition
        self.time_scale = plan.time_scale(model)
        self.step = plan.STEP * self.time_scale if step is None else step
        self.tolerance = tolerance
        self.stages = progression.stages_of(model, precision)
        check_stages(model, self.stages, precision)
        self.seeds = Seeder(model, contacts, initial, self.seed, device, precision)
        schedule, equal = plan.schedule_of(times, self.step, tolerance, precision)
        oldest = max(self.seeds.host.named_age.max(), self.seeds.host.drawn_age.max())
        oldest_ticks = int(np.rint(oldest * schedule.per_tick))
        if oldest_ticks >= TICKS_MOST:
            raise PlanError(
                f"seeds are {oldest:g} old, more than 2^30 ticks of {schedule.tick:g}; use longer "
                "steps"
            )
        ages = plan.table_length(model, transition, schedule, oldest_ticks) if equal else 0
        weights = arc_weights(model, contacts)
        self.rules, self.rounding = plan.rules_of(
            model, weights, contacts.targets, contacts.node_count, precision, scenario.stratum,
            self.stratum_count,
        )  # fmt: skip
        factors, modulation = factors_of(
            scenario, model, float(times[0]), float(self.horizon), schedule, precision
        )
        self.layer_count = modulation["LAYERS"]
        self.channel_count = self.infection_count * self.layer_count
        if self.layer_count > 1:
            self.mode = PUSH  # which keeps the pressures of layers apart
        self.schedule = schedule._replace(last_age=max(ages - 1, 0))
        self.equal = ages > 0
        degrees = np.bincount(contacts.targets, minlength=1)
        self.bindings = {
            "HAS_AGES": self.seeds.has_ages and transition == "sampled"
        } | plan.bindings_of(
            model, weights is not None, self.equal, transition, tolerance is not None,
            counted=self.rounding == 0.0 and weights is None, rules=self.rules,
            modulated=modulation["MODULATED"],
        ) | modulation  # fmt: skip
        self.bindings["HAS_STRATA"] = scenario.stratum is not None
        probabilities = plan.transition_probabilities(
            model, self.stages, self.rules, self.rounding, transition, schedule, ages,
            int(degrees.max(initial=0)),
        )  # fmt: skip
        if self.bindings["THRESHOLDS"] and self.mode == AUTO:
            self.mode = PUSH  # nodes that nothing happens to need no look
        self.outgoing, self.incoming = self._arcs(contacts, weights)
        self._outgoing = Arcs(*map(device.put, self.outgoing))
        shared = self.incoming is self.outgoing
        self._incoming = self._outgoing if shared else Arcs(*map(device.put, self.incoming))
        self._stages = progression.put(self.stages, device)
        self._seeding = self.seeds.of(0, 0)
        self._probabilities = TransitionProbabilities(*map(device.put, probabilities))
        self._rules = Rules(*(_put(device, field) for field in self.rules))
        self._schedule = Schedule(*(_put(device, field) for field in self.schedule))
        self._factors = Factors(
            device.put(factors.change),
            device.put(factors.factor),
            transmission.put(factors.vaccines, device),
        )
        at_first = np.zeros((self.compartment_count + 1, self.stratum_count), np.int64)
        at_first[self.base] = (
            contacts.node_count
            if scenario.stratum is None
            else np.bincount(scenario.stratum, minlength=self.stratum_count)
        )
        self._at_first = device.put(at_first.ravel())
        self._scratch = Scratch(device)
        self._blocks: int | None = None
        if device.is_cuda:
            self._prepare_cuda()
            return
        self._leap, self._begin, self._decide, self._settle, self._between = kernels.cpu_kernels(
            cpu.leap_cpu, cpu.begin_cpu, cpu.decide_cpu, cpu.settle_cpu,
            cpu.between_cpu,
            precision=precision, bindings=self.bindings,
        )  # fmt: skip

    def _arcs(self, contacts: ContactNetwork, weights: np.ndarray | None) -> tuple[Arcs, Arcs]:
        """Rows out of and into every node: the same where contacts are mutual and alike."""
        plain = np.zeros(1) if weights is None else weights
        layer = np.zeros(1, np.uint8)
        if self.layer_count > 1 and contacts.layer is not None:
            layer = contacts.layer
        outgoing = Arcs(
            contacts.offsets, contacts.targets, plain.astype(self.precision, copy=False), layer
        )
        mutual = not contacts.directed and (weights is None or weights is contacts.weights)
        if mutual or self.mode == PUSH:
            return outgoing, outgoing
        back = ContactNetwork(
            contacts.node_count, contacts.offsets, contacts.targets, weights, directed=True,
            layers=contacts.layers, layer=contacts.layer,
        ).reversed()  # fmt: skip
        into = np.zeros(1) if back.weights is None else back.weights
        return outgoing, Arcs(
            back.offsets, back.targets, into.astype(self.precision, copy=False), layer[:1]
        )

    @property
    def bytes_per_replicate(self) -> int:
        """Memory that a replicate needs beside the network [bytes]."""
        nodes = 27 + 4 * self.channel_count
        if self.device.is_cuda:
            nodes = 10 + self.rules.mask.size + (12 * self.channel_count if self._pushes else 0)
        return nodes * self.node_count + 4 * self.times.size * self.column_count

    def chunk_size(self, replicates: int) -> int:
        """Replicates to run together: as many as keep the device busy and fit its memory."""
        fits = replicates_that_fit(self.device, self.node_count, self.bytes_per_replicate)
        if self.device.is_cuda:
            wanted = _CUDA_NODES_MOST // self.node_count
            if wanted < 1:
                raise PlanError(f"{self.node_count:,} nodes exceed the 2^31 a CUDA grid indexes")
        else:
            wanted = max(self.device.core_count, _CHUNK_BYTES // self.bytes_per_replicate)
        return max(1, min(replicates, wanted, fits))

    def prepare(self) -> None:
        """Compile the kernels, or load them from the cache, without running anything."""
        if not self.device.is_cuda:
            counts, work = self._out(0)
            self._leap.compiled("cpu")(0, 0, *self._arguments(0), counts, work)

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates.

        Returns
        -------
        counts : tuple of ndarray of int32, shape [count, time_count, column_count]
        work : ndarray, shape [WORK_SIZE]
            Summed over the replicates.
        """
        self._seeding = self.seeds.of(first_replicate, count)
        if self.device.is_cuda:
            return self._run_cuda(first_replicate, count)
        counts, work = self._out(count)
        few = count < self.device.core_count and self.node_count >= _SHARED_FROM
        if few:
            for row in range(count):
                self._run_shared(first_replicate + row, counts[row], work[row])
        else:
            self.device.run(self._leap, count, *self._arguments(first_replicate), counts, work)
        return (counts,), work.sum(axis=0)

    def counters(self, work: np.ndarray) -> dict[str, Any]:
        """What the attributes of a result say of the steps taken and their error."""
        infectious = int(work[INFECTIOUS])
        changed = int(work[CHANGES]) / (2 * infectious) if infectious else 0.0
        return super().counters(work) | {
            "transition": self.transition,
            "step": self.step,
            "tolerance": "none" if self.tolerance is None else self.tolerance,
            "leap_error": changed,
            "pressure_rounding": self.rounding,
        }

    def _out(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        counts = np.zeros((count, self.times.size, self.column_count), np.int32)
        return counts, np.zeros((count, WORK_SIZE), np.int64)

    def _arguments(self, first_replicate: int) -> tuple[Any, ...]:
        return (
            self._incoming, self._outgoing, self._rules, self._stages, self._probabilities,
            self._schedule, self._factors, self._seeding, self.seed, first_replicate, self.mode,
        )  # fmt: skip

    def _prepare_cuda(self) -> None:
        """Choose the form of the kernel."""
        from ergode.core import cuda

        # What is never worth it is not compiled: short steps change few nodes, and to switch takes
        # one pressure a node.
        switches = self.channel_count == 1 and self.step > _GATHER_STEP * self.time_scale
        self._gathers = self.mode == GATHER or (self.mode == AUTO and switches)
        self._pushes = self.mode != GATHER
        degrees = np.diff(self.incoming.offsets)
        cut = self._gathers and bool(degrees.size) and int(degrees.max()) > HUB
        tiles = -(-self.node_count // TILE)
        self._padded = tiles * TILE
        self._planes = self.rules.mask.size * tiles * 4
        room = cuda.shared_bytes_most(int(self.device.name.partition(":")[2])) - _STATIC_BYTES
        local = self._gathers and 4 * self._planes <= room
        self._shared_bytes = 4 * self._planes if local else 0
        # A block with much in shared memory is alone on its multiprocessor.
        self._threads = 1024 if 2 * self._shared_bytes > room else 256
        self.bindings |= {
            "GATHERS": self._gathers,
            "PUSHES": self._pushes,
            "LOCAL_BITS": local,
            "CUTS_HUBS": cut,
            "SKIPS": self.bindings["THRESHOLDS"] and not self._gathers,
            "GATHERED": 4 * self._threads,
            **plan.structure_of(self.rules, self.layer_count),
        }
        self._leap = kernels.cuda_kernel(
            leap_cuda,
            precision=self.precision,
            bindings=self.bindings,
            registers=_REGISTERS,
        )
        self._hubs = self._cut_hubs(degrees) if cut else self._cut_hubs(degrees[:0])

    def _cut_hubs(self, degrees: np.ndarray) -> Hubs:
        """Rows of many arcs in segments of about equal length."""
        hubs = np.flatnonzero(degrees > HUB)
        parts = -(-degrees[hubs] // SEGMENT)
        hub = np.repeat(np.arange(hubs.size), parts)
        number = np.arange(hub.size) - np.repeat(np.cumsum(parts) - parts, parts)
        begin = self.incoming.offsets[hubs][hub].astype(np.int64)
        length = degrees[hubs][hub].astype(np.int64)
        put = self.device.put
        return Hubs(
            put(hubs.astype(np.int32)), put(hub.astype(np.int32)),
            put(begin + length * number // np.maximum(parts[hub], 1)),
            put(begin + length * (number + 1) // np.maximum(parts[hub], 1)),
            None,
        )  # fmt: skip

    def _run_cuda(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        from ergode.core import cuda

        array = self._scratch.array
        moves = array("moves", (count, self.times.size, self.column_count), np.int32, True)
        work = array("work", WORK_SIZE, np.int64, True)
        pushed = self.channel_count * count * self._padded if self._pushes else 1
        held = count * self._padded if self.bindings["THRESHOLDS"] else 1
        skipped = count * self._padded if self.bindings["SKIPS"] else TILE
        store = Store(
            array("state", count * self._padded // 4, np.uint32),
            array("since", count * self._padded if self.bindings["AGED"] else 1, np.int32),
            array("bits", 2 * count * self._planes if self._gathers else 1, np.uint32),
            array("pressure", pushed, np.int32),
            array("left", held, np.int32),
            array("due", skipped // TILE, np.int32),
            array("touched", 2 * skipped // TILE, np.int32),
            array("delta", 2 * pushed, np.int32),
        )
        word = np.dtype(f"uint{self.precision[-2:]}")
        signals = Signals(
            array("barrier_words", count * BARRIER_STRIDE, np.int32, True),
            array("largest", 3 * count, word, True),
            array("changes", 3 * count, np.int32, True),
        )
        hub_count = max(1, count * self._hubs.node.size)
        hubs = self._hubs._replace(pressure=array("hubs", hub_count, np.int32, True))
        kernel, threads, shared = self._leap.compiled("cuda"), self._threads, self._shared_bytes

        def arguments(block_count: int) -> tuple[Any, ...]:
            return (
                self._incoming, self._outgoing, hubs, self._rules, self._stages,
                self._probabilities, self._schedule, self._factors, self._seeding, self.seed,
                first_replicate, block_count, store, signals, moves, work,
            )  # fmt: skip

        if self._blocks is None:
            if shared > _USUAL_SHARED_BYTES:
                cuda.allow_shared_bytes(kernel, arguments(1), shared)
            self._blocks = cuda.cooperative_block_count(kernel, threads, arguments(1), shared)
        # No more blocks to a replicate than have a tile for every warp.
        useful = -(-self._padded // (TILE * (threads // 32)))
        block_count = max(1, min(self._blocks // count, useful))
        blocks = block_count * min(count, self._blocks // block_count)
        cuda.launch(kernel, blocks, threads, arguments(block_count), shared)
        self.device.run(RUNNING_SUMS, count * self.column_count, moves, self._at_first)
        return (self.device.get(moves),), self.device.get(work)

    def resources(self) -> dict[str, int]:
        """Registers, local and shared bytes of the CUDA kernel; call after `run`."""
        from ergode.core import cuda

        return cuda.resources(self._leap.compiled("cuda"))

    def _run_shared(self, replicate: int, counts: np.ndarray, work: np.ndarray) -> None:
        """One replicate on all threads, step by step."""
        node_count, threads, run = self.node_count, self.device.core_count, self.device.run
        columns, real = self.column_count, self.precision
        nodes = NodeState(
            np.linspace(0, node_count, threads + 1).astype(np.int64),
            np.empty(node_count, np.uint8), np.empty(node_count, np.int32),
            np.empty((self.channel_count, node_count), np.int32), np.empty(self.layer_count, real),
            np.empty(node_count, np.int32),
            np.empty((threads, columns), np.int64), np.empty(threads, real),
            np.empty(threads, np.int64), np.empty(node_count, np.int64),
            np.empty(node_count, np.uint8), np.empty(node_count, np.uint8),
            np.empty(node_count, np.int32), np.empty(node_count, np.int32),
        )  # fmt: skip
        clock, going = np.zeros(cpu.CLOCK_SIZE, np.int64), np.zeros(1, np.int64)
        run(
            self._begin, 1, nodes, clock, work, self._outgoing, self._rules, self._stages,
            self._schedule, self._seeding, self.mode, self.seed, replicate,
        )  # fmt: skip
        between = (
            nodes, clock, self._rules, self._schedule, self._factors, self.mode, counts, work
        )  # fmt: skip
        while True:
            run(self._between, 1, *between, 1, going)
            if not going[0]:
                break
            run(
                self._decide, threads, nodes, clock, self._incoming, self._rules, self._stages,
                self._probabilities, self._schedule, self._factors.vaccines, self.seed, replicate,
                grain=1,
            )  # fmt: skip
            run(self._between, 1, *between, 0, going)
            run(self._settle, threads, nodes, clock, self._outgoing, self._rules, grain=1)


def _put(device: Device, field: Any) -> Any:
    return device.put(field) if isinstance(field, np.ndarray) else field
