"""Replicates of one epidemic on one device: reach every node, then count or list.

It puts the model and the network on a device once and runs ranges of replicates on
request; nothing in a replicate depends on which range it is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.buffers import Scratch
from ergode.core.compiler.bundle import Precision
from ergode.core.devices import Device, resolve
from ergode.core.errors import PlanError
from ergode.epidemics.first_passage.counts import count_on_grid_cpu, count_on_grid_cuda
from ergode.epidemics.first_passage.kernel import SEGMENT, THREADS, search_cpu, search_cuda
from ergode.epidemics.first_passage.line_list import cases_of
from ergode.epidemics.seeding import Initial, Seeder
from ergode.epidemics.shared import progression
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.epidemics.shared.ensemble import replicates_that_fit
from ergode.epidemics.shared.resolution import check_range, check_stages
from ergode.epidemics.shared.tables import arc_weights
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.networks.contact_network import ContactNetwork

_INDEXABLE_WORDS = 2**31  # a CUDA kernel indexes words with 32 bits
# Words a warp scans at a time, a power of two: short tiles share out uneven work.
_TILE_LEAST, _TILE_MOST = 128, 256
_CHUNK_BYTES = 2**25
# Half of what the kernels would take: twice the threads to hide the latency of scattered reads.
_REGISTERS = 64


class FirstPassageEnsemble:
    """First-passage replicates of a model on a network.

    Parameters
    ----------
    model, contacts, initial
        As for `simulate`, already checked.
    times : ndarray, shape [time_count]
        Ascending grid; replicates start at ``times[0]`` and end at ``times[-1]``.
    seed : int
        Key of every draw.
    device : Device
        Where to run.
    precision : {"float32", "float64"}
        Type of times and draws.
    width : float, optional
        Span of times expanded in one pass; affects speed alone.
    stratum, stratum_count : ndarray of int32 [node_count] and int, optional
        Stratum of each node, to count by.
    """

    work_names = ("expansions", "passes")

    def __init__(
        self,
        model: CompartmentModel,
        contacts: ContactNetwork,
        initial: Initial,
        *,
        times: np.ndarray,
        seed: int,
        device: Device,
        precision: Precision = "float32",
        width: float | None = None,
        stratum: np.ndarray | None = None,
        stratum_count: int = 1,
    ) -> None:
        real = np.dtype(precision).type
        self.device = device
        self.node_count = contacts.node_count
        self.compartment_count = len(model.compartments)
        self.susceptible = model.index[model.infections[0].susceptible]
        self.word_type = np.dtype(f"uint{precision[-2:]}")
        self.times = np.asarray(times - times[0]).astype(precision)
        self.horizon = real(self.times[-1])
        check_range("the time from the first of times to the last", self.horizon, precision)
        self._per_step = real((self.times.size - 1) / self.horizon if self.horizon > 0 else 0.0)
        self.seed = np.uint64(seed)
        self.stages = progression.stages_of(model, precision)
        self.seeds = Seeder(model, contacts, initial, self.seed, device, precision)
        weights_of_arcs = arc_weights(model, contacts)
        weights = np.zeros(1) if weights_of_arcs is None else weights_of_arcs
        self.weights = weights.astype(precision, copy=False)
        check_stages(model, self.stages, precision)
        if self.weights.size:
            check_range("the largest weight", self.weights.max(), precision)
        self.width = real(width if width is not None else _width(model, weights_of_arcs, device))
        self.offsets, self.targets = contacts.offsets, contacts.targets
        self.stratum_count = stratum_count
        self.bindings = {
            **progression.bindings_of(model),
            "WEIGHTED": weights_of_arcs is not None,
            "HAS_STRATA": stratum is not None,
        }
        if device.is_cuda:
            self._search, self._count_on_grid = kernels.cuda_kernels(
                search_cuda,
                count_on_grid_cuda,
                precision=precision,
                bindings=self.bindings,
                registers=_REGISTERS,
            )
        else:
            self._search, self._count_on_grid = kernels.cpu_kernels(
                search_cpu,
                count_on_grid_cpu,
                precision=precision,
                bindings=self.bindings,
            )
        self._network = tuple(map(device.put, (self.offsets, self.targets, self.weights)))
        self._stages = progression.put(self.stages, device)
        self._seeding = self.seeds.of(0, 0)
        self._times = device.put(self.times)
        groups = np.zeros(1, np.int32) if stratum is None else stratum
        self._stratum_on_host, self._stratum = groups, device.put(groups)
        at_first = np.zeros((self.compartment_count, stratum_count), np.int32)
        at_first[self.susceptible] = (
            contacts.node_count if stratum is None else np.bincount(groups, minlength=stratum_count)
        )
        self._at_first = device.put(at_first.ravel())
        degrees = contacts.degrees()
        hubs = degrees[degrees > SEGMENT]
        self._segments = int((-(-hubs // SEGMENT)).sum())
        self._scratch = Scratch(device)
        self._blocks: int | None = None

    @property
    def bytes_per_replicate(self) -> int:
        """Memory that a replicate needs beside the network [bytes]."""
        word = self.word_type.itemsize
        columns = self.compartment_count * self.stratum_count
        return word * self.node_count + 4 * self.times.size * columns

    def chunk_size(self, replicates: int) -> int:
        """Replicates to run together: as many as keep the device busy and fit its memory."""
        fits = replicates_that_fit(self.device, self.node_count, self.bytes_per_replicate)
        if self.device.is_cuda:
            if self.node_count >= _INDEXABLE_WORDS:
                raise PlanError(f"{self.node_count:,} nodes exceed the 2^31 a CUDA grid indexes")
            wanted = _INDEXABLE_WORDS // self.node_count
        else:
            # Chunks that take about a second: worth sharing out, and little lost by a Ctrl-C.
            wanted = max(self.device.core_count, _CHUNK_BYTES // self.bytes_per_replicate)
        return max(1, min(replicates, wanted, fits))

    def prepare(self) -> None:
        """Compile the kernels, or load them from the cache, without running anything."""
        if self.device.is_cuda:
            return  # a launch needs its grid, and so its kernel, anyway
        arguments = (
            *self._network, self._stages, self._seeding, self.seed, 0, self.width, self.horizon,
        )  # fmt: skip
        words = np.empty((0, self.node_count), self.word_type)
        columns = self.compartment_count * self.stratum_count
        counts = np.empty((0, self.times.size, columns), np.int32)
        self._search.compiled("cpu")(0, 0, *arguments, words, np.empty((0, 2), np.int64))
        self._count_on_grid.compiled("cpu")(0, 0, *self._count_arguments(words, 0), counts)

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Reach every node of `count` replicates.

        Returns
        -------
        words : array on the device, shape [count, node_count]
            See `first_passage`; overwritten by the next call.
        work : ndarray, shape [2]
            Node expansions and passes, summed over the replicates; on the host.
        """
        words = self._scratch.array("words", (count, self.node_count), self.word_type)
        self._seeding = self.seeds.of(first_replicate, count)
        arguments = (
            *self._network, self._stages, self._seeding, self.seed, first_replicate,
            self.width, self.horizon,
        )  # fmt: skip
        if self.device.is_cuda:
            return words, self._run_cuda(arguments, words)
        work = self._scratch.array("work", (count, 2), np.int64)
        self.device.run(self._search, count, *arguments, words, work)
        return words, work.sum(axis=0)

    def _run_cuda(self, arguments: tuple[Any, ...], words: Any) -> np.ndarray:
        from ergode.core import cuda

        array = self._scratch.array
        earliest = array("earliest", 3, self.word_type)
        segment_count = array("segment_count", 3, np.int32)
        capacity = max(1, words.shape[0] * self._segments)
        segments = array("segments", (capacity, 2), np.uint32)
        work = array("work", 2, np.int64)
        scratch = (words.reshape(words.size), segments, earliest, segment_count, work)
        kernel = self._search.compiled("cuda")
        if self._blocks is None:
            self._blocks = cuda.cooperative_block_count(
                kernel, THREADS, (*arguments, _TILE_LEAST, *scratch)
            )
        warps = self._blocks * THREADS // 32
        tile = _TILE_LEAST if words.size <= warps * _TILE_LEAST else _TILE_MOST
        blocks = min(self._blocks, -(-words.size * 32 // (tile * THREADS)))
        cuda.launch(kernel, blocks, THREADS, (*arguments, tile, *scratch))
        return self.device.get(work)

    def resources(self) -> dict[str, int]:
        """Registers, local and shared bytes of the CUDA search; call after `run`."""
        from ergode.core import cuda

        return cuda.resources(self._search.compiled("cuda"))

    def count(self, found: Any, first_replicate: int) -> np.ndarray:
        """Nodes in each compartment (and stratum) at each time.

        int32 [count, time_count, compartment_count] or [..., compartment_count, stratum_count].
        """
        count = found.shape[0]
        columns = self.compartment_count * self.stratum_count
        shape = (count, self.times.size, columns)
        arguments = self._count_arguments(found, first_replicate)
        if not self.device.is_cuda:
            counts = np.empty(shape, np.int32)
            self.device.run(self._count_on_grid, count, *arguments, counts)
        else:
            from ergode.core import cuda

            moves = self._scratch.array("moves", shape, np.int32, zero=True)
            across = max(1, min(-(-self.node_count // 1024), 8 * self.device.core_count // count))
            cuda.launch(
                self._count_on_grid.compiled("cuda"),
                (across, min(count, 65535)),
                256,
                (*arguments, moves),
            )
            self.device.run(RUNNING_SUMS, count * columns, moves, self._at_first)
            counts = self.device.get(moves)
        if self.stratum_count == 1:
            return counts
        return counts.reshape(*shape[:2], self.compartment_count, self.stratum_count)

    def counters(self, work: np.ndarray) -> dict[str, Any]:
        """What the attributes of a result say of the work done."""
        return {name: int(number) for name, number in zip(self.work_names, work, strict=True)}

    def case_count(self, found: Any, counts: np.ndarray, first_replicate: int) -> np.ndarray:
        """Cases up to each time, seeds among them, from what `count` returned."""
        left = counts[:, :, self.susceptible]
        everybody = counts[:, :1].sum(axis=2)
        spared = self.seeds.never_cases(
            first_replicate, len(counts), self._stratum_on_host, self.stratum_count
        )
        if self.stratum_count == 1:
            spared = spared[:, 0]
        return (everybody - left - spared[:, None]).astype(np.int32)

    def cases(self, found: Any, first_replicate: int) -> dict[str, np.ndarray]:
        """The line list of some replicates as flat arrays, ordered by replicate and node."""
        host = self.device if not self.device.is_cuda else resolve("cpu")
        words = self.device.get(found)
        return cases_of(
            host, (self.offsets, self.targets, self.weights), self.stages,
            self.seeds.on_host(first_replicate, len(words)), self.seed, first_replicate,
            self.horizon, words, self.bindings,
        )  # fmt: skip

    def _count_arguments(self, words: Any, first_replicate: int) -> tuple[Any, ...]:
        return (
            words, self._stages, self._seeding, self.seed, first_replicate, self._times,
            self._per_step, self.susceptible, self._at_first, self._stratum,
        )  # fmt: skip


def _width(model: CompartmentModel, weights: np.ndarray | None, device: Device) -> float:
    """Span of time to expand in one pass.

    Long enough that a pass has work for all, too short for many nodes to infect one another within
    it.  Neither bound is sharp, and only speed depends on it; the factors were measured on random
    networks of mean degree 8.
    """
    infection = model.infections[0]
    after = {p.compartment: p for p in model.progressions}
    rate, here, latent = 0.0, infection.infected, 0.0
    while True:
        rate = infection.transmission_rate.get(here, 0.0)
        if rate > 0.0 or here not in after:
            break
        latent += after[here].holding_time.mean
        here = max(after[here].to, key=lambda name: after[here].to[name])
    infectious = after[here].holding_time.mean if here in after else np.inf
    if weights is not None and weights.size:
        rate *= float(weights.mean())
    transmission = min(infectious, 1.0 / rate if rate > 0.0 else np.inf)
    width = 0.8 * latent + 0.4 * transmission
    if not (np.isfinite(width) and width > 0.0):
        width = 1.0  # nothing would ever be transmitted, or all at once
    return float(width) * (1.5 if device.is_cuda else 1.0)
