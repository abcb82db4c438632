"""Replicates of one epidemic on one device: reach every node, then count or list.

An `Ensemble` puts the model and the network on a device once and runs ranges of replicates on
request; nothing in a replicate depends on which range it is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.errors import ModelError, PlanError
from ergode.core.source import Precision
from ergode.epidemics import first_passage, progression, seeding, tally
from ergode.epidemics.seeding import Initial
from ergode.models.compartments import CompartmentModel
from ergode.models.contacts import ContactNetwork

_INDEXABLE_WORDS = 2**31  # a CUDA kernel indexes words with 32 bits
# Words a warp scans at a time, a power of two: short tiles share out uneven work.
_TILE_LEAST, _TILE_MOST = 128, 256
_CHUNK_BYTES = 2**28
# Half of what the kernels would take: twice the threads to hide the latency of scattered reads.
_REGISTERS = 64


class Ensemble:
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
    """

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
    ) -> None:
        real = np.dtype(precision).type
        self.device = device
        self.node_count = contacts.node_count
        self.compartment_count = len(model.compartments)
        self.susceptible = model.index[model.infections[0].susceptible]
        self.word_type = np.dtype(f"uint{precision[-2:]}")
        self.times = np.asarray(times - times[0]).astype(precision)
        self.horizon = real(self.times[-1])
        self._per_step = real((self.times.size - 1) / self.horizon if self.horizon > 0 else 0.0)
        self.seed = np.uint64(seed)
        self.stages = progression.stages_of(model, precision)
        self.seeding = seeding.seeding_of(model, initial, contacts.node_count)
        arc_weights = _arc_weights(model, contacts)
        weights = np.zeros(1) if arc_weights is None else arc_weights
        self.weights = weights.astype(precision, copy=False)
        self.width = real(width if width is not None else _width(model, arc_weights, device))
        self.offsets, self.targets = contacts.offsets, contacts.targets
        self.bindings = {**progression.bindings_of(model), "WEIGHTED": arc_weights is not None}
        if device.is_cuda:
            self._spread, self._tally = kernels.cuda_kernels(
                first_passage.spread_cuda,
                tally.tally_cuda,
                precision=precision,
                bindings=self.bindings,
                registers=_REGISTERS,
            )
        else:
            self._spread, self._tally = kernels.cpu_kernels(
                first_passage.spread_cpu,
                tally.tally_cpu,
                precision=precision,
                bindings=self.bindings,
            )
        self._network = tuple(map(device.put, (self.offsets, self.targets, self.weights)))
        self._stages = progression.put(self.stages, device)
        self._seeding = seeding.put(self.seeding, device)
        self._times = device.put(self.times)
        degrees = contacts.degrees()
        hubs = degrees[degrees > first_passage.SEGMENT]
        self._segments = int((-(-hubs // first_passage.SEGMENT)).sum())
        self._buffers: dict[str, Any] = {}

    @property
    def bytes_per_replicate(self) -> int:
        """Memory that a replicate needs beside the network [bytes]."""
        word = self.word_type.itemsize
        return word * self.node_count + 4 * self.times.size * self.compartment_count

    def chunk_size(self, replicates: int) -> int:
        """Replicates to run together: as many as keep the device busy and fit its memory."""
        room = self.device.available_bytes()
        fits = room // self.bytes_per_replicate
        if fits < 1:
            raise PlanError(
                f"one replicate of {self.node_count:,} nodes needs "
                f"{self.bytes_per_replicate / 1e9:.2f} GB beside the network, but "
                f"{self.device.name} has {room / 1e9:.2f} GB free; use fewer nodes or times, or "
                "a device with more memory"
            )
        if self.device.is_cuda:
            if self.node_count >= _INDEXABLE_WORDS:
                raise PlanError(f"{self.node_count:,} nodes exceed the 2^31 a CUDA grid indexes")
            wanted = _INDEXABLE_WORDS // self.node_count
        else:
            # Chunks that take seconds: long enough to share out, short enough to interrupt.
            wanted = max(self.device.core_count, _CHUNK_BYTES // self.bytes_per_replicate)
        return max(1, min(replicates, wanted, fits))

    def spread(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Reach every node of `count` replicates.

        Returns
        -------
        words : array on the device, shape [count, node_count]
            See `first_passage`; overwritten by the next call.
        work : ndarray, shape [2]
            Node expansions and passes, summed over the replicates.
        """
        words = self._buffer("words", (count, self.node_count), self.word_type)
        arguments = (
            *self._network, self._stages, self._seeding, self.seed, first_replicate,
            self.width, self.horizon,
        )  # fmt: skip
        if self.device.is_cuda:
            return words, self._spread_cuda(arguments, words)
        work = self._buffer("work", (count, 2), np.int64)
        self.device.run(self._spread, count, *arguments, words, work)
        return words, work.sum(axis=0)

    def _spread_cuda(self, arguments: tuple[Any, ...], words: Any) -> np.ndarray:
        from ergode.core import cuda

        earliest = self._buffer("earliest", 3, self.word_type)
        segment_count = self._buffer("segment_count", 3, np.int32)
        capacity = max(1, words.shape[0] * self._segments)
        segments = self._buffer("segments", (capacity, 2), np.uint32)
        work = self._buffer("work", 2, np.int64)
        scratch = (words.reshape(words.size), segments, earliest, segment_count, work)
        kernel = self._spread.compiled("cuda")
        threads = first_passage.THREADS
        if "blocks" not in self._buffers:
            self._buffers["blocks"] = cuda.cooperative_block_count(
                kernel, threads, (*arguments, _TILE_LEAST, *scratch)
            )
        warps = self._buffers["blocks"] * threads // 32
        tile = _TILE_LEAST if words.size <= warps * _TILE_LEAST else _TILE_MOST
        blocks = min(self._buffers["blocks"], -(-words.size * 32 // (tile * threads)))
        cuda.launch(kernel, blocks, threads, (*arguments, tile, *scratch))
        return work

    def resources(self) -> dict[str, int]:
        """Registers, local and shared bytes of the CUDA search; call after `spread`."""
        from ergode.core import cuda

        return cuda.resources(self._spread.compiled("cuda"))

    def count(self, words: Any, first_replicate: int) -> np.ndarray:
        """Nodes in each compartment at each time: int32 [count, time_count, compartment_count]."""
        count = words.shape[0]
        shape = (count, self.times.size, self.compartment_count)
        arguments = (
            words, self._stages, self._seeding, self.seed, first_replicate, self._times,
            self._per_step, self.susceptible,
        )  # fmt: skip
        if not self.device.is_cuda:
            counts = np.empty(shape, np.int32)
            self.device.run(self._tally, count, *arguments, counts)
            return counts
        from ergode.core import cuda

        moves = self._buffer("moves", shape, np.int32)
        cuda.fill_zero(moves)
        across = max(1, min(-(-self.node_count // 1024), 8 * self.device.core_count // count))
        cuda.launch(
            self._tally.compiled("cuda"), (across, min(count, 65535)), 256, (*arguments, moves)
        )
        self.device.run(
            tally.RUNNING_SUMS, count * self.compartment_count, moves, self.node_count,
            self.susceptible,
        )  # fmt: skip
        return self.device.get(moves)

    def _buffer(self, name: str, shape: Any, dtype: Any) -> Any:
        """An array kept from call to call, as large as the last call's."""
        held = self._buffers.get(name)
        if held is None or held.shape != (shape if isinstance(shape, tuple) else (shape,)):
            self._buffers[name] = held = self.device.empty(shape, dtype)
        return held


def _arc_weights(model: CompartmentModel, contacts: ContactNetwork) -> np.ndarray | None:
    """What multiplies the transmission rate along each arc; None if nothing does."""
    weights = contacts.weights
    for name, ends in ((model.infectivity, "source"), (model.susceptibility, "target")):
        if name is None:
            continue
        if name not in contacts.attributes:
            known = ", ".join(contacts.attributes) or "none"
            raise ModelError(f"the network has no node attribute '{name}'; it has {known}")
        factor = np.asarray(contacts.attributes[name], np.float32)
        bad = np.flatnonzero(~(np.isfinite(factor) & (factor >= 0)))
        if bad.size:
            raise ModelError(
                f"node attribute '{name}' is {factor[bad[0]]} at node {bad[0]}; expected finite "
                "numbers, zero or more"
            )
        per_arc = (
            np.repeat(factor, contacts.degrees()) if ends == "source" else factor[contacts.targets]
        )
        weights = per_arc if weights is None else weights * per_arc
    return weights


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
