"""Launch the first-passage kernels on a CPU or a CUDA device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.buffers import Scratch
from ergode.core.compiler.source import Target
from ergode.core.devices import Device, resolve
from ergode.core.errors import PlanError
from ergode.core.kernels import Kernel
from ergode.core.launch import run_from_first
from ergode.epidemics.first_passage.cuda import SEGMENT, THREADS
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.models.networks.contact_network import ContactNetwork

_INDEXABLE_WORDS = 2**31  # a CUDA kernel indexes words with 32 bits
# Words a warp scans at a time, a power of two: short tiles share out uneven work.
_TILE_LEAST, _TILE_MOST = 128, 256
_CHUNK_BYTES = 2**25
_BRIEF = 2**18  # nodes and arcs, searched within some hundredths of a second


class OnCPU:
    """Each thread runs one replicate at a time.

    Parameters
    ----------
    device : Device
    search, count : Kernel
        The two kernels.
    contacts : ContactNetwork
    """

    width_factor = 1.0  # of the span of times expanded in one pass

    def __init__(
        self, device: Device, search: Kernel, count: Kernel, contacts: ContactNetwork
    ) -> None:
        self._device, self._search, self._count = device, search, count
        self._node_count = contacts.node_count
        self._is_brief = contacts.arc_count + contacts.node_count < _BRIEF
        self._scratch = Scratch(device)
        self.host = device

    def replicates_at_once(self, bytes_each: int) -> int:
        """Replicates of a chunk of about a second, so that Ctrl-C loses little."""
        return max(self._device.core_count, _CHUNK_BYTES // bytes_each)

    def prepare(self, search: tuple[Any, ...], count: tuple[Any, ...], counts: tuple[int, ...]) \
            -> None:  # fmt: skip
        """Compile both kernels for arguments of these types, and counts of this shape."""
        words = self._scratch.array("words", (0, self._node_count), _word_of(search))
        self._device.prepare(self._search, *search, words, np.empty((0, 2), np.int64))
        self._device.prepare(self._count, words, *count, np.empty((0, *counts), np.int32))

    def search(self, replicates: int, arguments: tuple[Any, ...]) -> tuple[Any, np.ndarray]:
        """Words [replicate, node] and the work done [2]."""
        shape = (replicates, self._node_count)
        words = self._scratch.array("words", shape, _word_of(arguments))
        work = self._scratch.array("work", (replicates, 2), np.int64)
        brief = self._is_brief and replicates == 1
        done = run_from_first(
            self._device, self._search, replicates, *arguments, words, work, is_brief=brief
        )
        return words[:done], work[:done].sum(axis=0)

    def count(self, words: Any, arguments: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
        """Counts of a shape [replicate, time, column]."""
        counts = np.empty(shape, np.int32)
        brief = self._is_brief and shape[0] == 1
        self._device.run(self._count, shape[0], words, *arguments, counts, is_brief=brief)
        return counts


class OnCUDA:
    """All replicates of a chunk in one persistent grid; parameters as for `OnCPU`."""

    width_factor = 1.5

    def __init__(
        self, device: Device, search: Kernel, count: Kernel, contacts: ContactNetwork
    ) -> None:
        self._device, self._search, self._count = device, search, count
        self._node_count = contacts.node_count
        self._segments = 0
        if contacts.largest_degree > SEGMENT:
            degrees = contacts.degrees()
            self._segments = int((-(-degrees[degrees > SEGMENT] // SEGMENT)).sum())
        self._scratch = Scratch(device)
        self._blocks = 0
        self.host = resolve("cpu")

    def replicates_at_once(self, bytes_each: int) -> int:
        """Replicates whose words a grid can index."""
        if self._node_count >= _INDEXABLE_WORDS:
            raise PlanError(f"{self._node_count:,} nodes exceed the 2^31 a CUDA grid indexes")
        return _INDEXABLE_WORDS // self._node_count

    def prepare(self, search: tuple[Any, ...], count: tuple[Any, ...], counts: tuple[int, ...]) \
            -> None:  # fmt: skip
        """Do nothing: a launch compiles the kernel to find the size of its grid."""

    def search(self, replicates: int, arguments: tuple[Any, ...]) -> tuple[Any, np.ndarray]:
        """Words [replicate, node] on the device, and the work done [2]."""
        array, word = self._scratch.array, _word_of(arguments)
        words = array("words", (replicates, self._node_count), word)
        scratch = (
            words.reshape(words.size),
            array("segments", (max(1, replicates * self._segments), 2), np.uint32),
            array("earliest", 3, word),
            array("segment_count", 3, np.int32),
            array("work", 2, np.int64),
        )
        if not self._blocks:
            self._blocks = self._device.resident_blocks(
                self._search, THREADS, *arguments, _TILE_LEAST, *scratch
            )
        warps = self._blocks * THREADS // 32
        tile = _TILE_LEAST if words.size <= warps * _TILE_LEAST else _TILE_MOST
        blocks = min(self._blocks, -(-words.size * 32 // (tile * THREADS)))
        self._device.launch(self._search, blocks, THREADS, *arguments, tile, *scratch)
        return words, self._device.get(scratch[-1])

    def count(self, words: Any, arguments: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
        """Counts of a shape [replicate, time, column]."""
        moves = self._scratch.array("moves", shape, np.int32, zero=True)
        across = max(1, min(-(-self._node_count // 1024), 8 * self._device.core_count // shape[0]))
        blocks = across, min(shape[0], 65535)
        self._device.launch(self._count, blocks, 256, words, *arguments, moves)
        at_first = arguments[-1].at_first
        self._device.run(RUNNING_SUMS, shape[0] * shape[2], moves, at_first)
        return self._device.get(moves)


ON_DEVICE: dict[Target, type[OnCPU] | type[OnCUDA]] = {"cpu": OnCPU, "cuda": OnCUDA}


def _word_of(arguments: tuple[Any, ...]) -> np.dtype[Any]:
    """Type of words: as wide as times."""
    return np.dtype(f"uint{8 * arguments[0].horizon.itemsize}")
