"""Launch the first-passage kernels on a CPU or a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from ergode.core.calls import checkpoint
from ergode.core.calls.launch import run_from_first
from ergode.core.calls.resident import fetch
from ergode.core.compiler.source import Target
from ergode.core.devices import Device, resolve
from ergode.core.devices.buffers import Scratch
from ergode.core.errors import PlanError
from ergode.core.kernels import Kernel
from ergode.epidemics.first_passage.cuda import SEGMENT, THREADS
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork

_INDEXABLE_WORDS = 2**31  # a CUDA kernel indexes the words of a stored network with 32 bits
# Words a warp scans at a time, a power of two: short tiles share out uneven work.
_TILE_LEAST, _TILE_MOST = 128, 256
# Room for nodes that a pass lowers to a time within it (8 bytes each).
_LISTED_LEAST, _WORDS_A_LISTED = 2**16, 64
_CHUNK_BYTES = 2**25
_ALL = np.int64(-1)  # the passes of a launch that makes all of them
_KIND = "first passage"
_BRIEF = 2**18  # nodes and arcs, searched within some hundredths of a second


class OnCPU:
    """Each thread runs one replicate at a time."""

    width_factor = 1.0  # of the span of times expanded in one pass

    def __init__(
        self,
        device: Device,
        # The two kernels.
        search: Kernel,
        count: Kernel,
        contacts: ContactNetwork | ComputedNetwork,
        count_type: np.dtype[Any],  # type of counts of nodes
    ) -> None:
        self._device, self._search, self._count = device, search, count
        self._count_type = count_type
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
        pending = np.empty(0, search[0].horizon.dtype)
        self._device.prepare(
            self._search, *search, _ALL, words, np.empty((0, 2), np.int64), pending
        )  # fmt: skip
        self._device.prepare(self._count, words, *count, np.empty((0, *counts), self._count_type))

    def search(self, replicates: int, arguments: tuple[Any, ...]) -> tuple[Any, np.ndarray]:
        """Words [replicate, node] and the work done [2]."""
        shape = (replicates, self._node_count)
        words = self._scratch.array("words", shape, _word_of(arguments))
        work = self._scratch.array("work", (replicates, 2), np.int64)
        pending = self._scratch.array("pending", replicates, arguments[0].horizon.dtype)
        if checkpoint.is_asked():
            for first in range(0, replicates, self._device.core_count):
                rows = range(first, min(first + self._device.core_count, replicates))
                self._in_launches(rows, arguments, words, work, pending)
            return words, work.sum(axis=0)
        brief = self._is_brief and replicates == 1
        done = run_from_first(
            self._device, self._search, replicates, *arguments, _ALL, words, work, pending,
            is_brief=brief,
        )  # fmt: skip
        return words[:done], work[:done].sum(axis=0)

    def _in_launches(
        self, rows: range, arguments: tuple[Any, ...], words: np.ndarray, work: np.ndarray,
        pending: np.ndarray,
    ) -> None:  # fmt: skip
        """Search replicates, each on a thread; between some passes their states can be kept."""
        horizon = float(arguments[0].horizon) or 1.0
        with ExitStack() as stack:
            open_ones: list[tuple[int, checkpoint.SingleRun, Callable[[], checkpoint.State]]] = []
            for row in rows:
                single = stack.enter_context(checkpoint.single_run(_KIND, self._device))
                state = {"words": words[row], "work": work[row]}
                work[row] = 0
                single.restore(self._device, state)
                open_ones.append((row, single, partial(dict, state)))
            while open_ones:
                budget = np.int64(open_ones[0][1].steps(1))
                self._device.run(
                    self._search, len(rows), *arguments, budget, words, work, pending, grain=1,
                    first=rows.start,
                )  # fmt: skip
                was_heard = False
                for row, single, its_state in open_ones:
                    done = min(float(pending[row]) / horizon, 0.999)
                    share = done if np.isfinite(pending[row]) else 1.0
                    try:
                        single.boundary(its_state, share, was_heard)
                    except KeyboardInterrupt:  # the others are written as well
                        was_heard = True
                if was_heard:
                    raise KeyboardInterrupt
                open_ones = [one for one in open_ones if np.isfinite(pending[one[0]])]

    def count(self, words: Any, arguments: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
        """Counts of a shape [replicate, time, column]."""
        counts = np.empty(shape, self._count_type)
        brief = self._is_brief and shape[0] == 1
        self._device.run(self._count, shape[0], words, *arguments, counts, is_brief=brief)
        return counts


class OnCUDA:
    """All replicates of a chunk in one persistent grid; parameters as for `OnCPU`."""

    width_factor = 1.5
    tiles = _TILE_LEAST, _TILE_MOST

    def __init__(
        self,
        device: Device,
        search: Kernel,
        count: Kernel,
        contacts: ContactNetwork | ComputedNetwork,
        count_type: np.dtype[Any],
    ) -> None:
        self._device, self._search, self._count = device, search, count
        self._node_count, self._count_type = contacts.node_count, count_type
        self._segments = 0
        if isinstance(contacts, ContactNetwork) and contacts.largest_degree > SEGMENT:
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

    def _queue(self, replicates: int) -> tuple[Any, Any]:
        """Scratch for segments of hubs, and for the numbers of them in three passes."""
        array = self._scratch.array
        return (
            array("segments", (max(1, replicates * self._segments), 2), np.uint32),
            array("segment_count", 3, np.int32),
        )

    def search(self, replicates: int, arguments: tuple[Any, ...]) -> tuple[Any, np.ndarray]:
        """Words [replicate, node] on the device, and the work done [2]."""
        array, word = self._scratch.array, _word_of(arguments)
        words = array("words", (replicates, self._node_count), word)
        queue, queued = self._queue(replicates)
        scratch = (
            words.reshape(words.size), queue, array("earliest", 3, word), queued,
            array("work", 2, np.int64),
        )  # fmt: skip
        if not self._blocks:
            self._blocks = self._device.resident_blocks(
                self._search, THREADS, *arguments, self.tiles[0], *scratch
            )
        warps = self._blocks * THREADS // 32
        tile = self.tiles[words.size > warps * self.tiles[0]]
        blocks = min(self._blocks, -(-words.size * 32 // (tile * THREADS)))
        self._device.launch(self._search, blocks, THREADS, *arguments, tile, *scratch)
        return words, self._device.get(scratch[-1])

    def count(self, words: Any, arguments: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
        """Counts of a shape [replicate, time, column]; on the device if results stay there."""
        moves = self._scratch.array("moves", shape, self._count_type, zero=True)
        across = max(1, min(-(-self._node_count // 1024), 8 * self._device.core_count // shape[0]))
        blocks = across, min(shape[0], 65535)
        self._device.launch(self._count, blocks, 256, words, *arguments, moves)
        at_first = arguments[-1].at_first
        self._device.run(RUNNING_SUMS, shape[0] * shape[2], moves, at_first)
        return fetch(self._device, moves)


class OnCUDAComputed(OnCUDA):
    """`OnCUDA` for a computed network."""

    width_factor = 0.4  # shorter than for stored networks: a window is one scan, and lists
    tiles = 256, 512

    def replicates_at_once(self, bytes_each: int) -> int:
        """Replicates that keep a grid busy."""
        return max(1, _INDEXABLE_WORDS // self._node_count)

    def _queue(self, replicates: int) -> tuple[Any, Any]:
        """Scratch for nodes that are lowered within a pass, and for their numbers in three."""
        array = self._scratch.array
        return (
            array("again", listed_at_once(replicates * self._node_count), np.uint64),
            array("again_count", 3, np.int32),
        )


def listed_at_once(words: int) -> int:
    """Nodes that have room in the list of those lowered within a pass."""
    return max(_LISTED_LEAST, words // _WORDS_A_LISTED)


def on_device(
    device: Device,
    search: Kernel,
    count: Kernel,
    contacts: ContactNetwork | ComputedNetwork,
    count_type: np.dtype[Any],
) -> OnCPU | OnCUDA:
    """What launches the kernels on a device."""
    kinds: dict[Target, type[OnCPU] | type[OnCUDA]] = {"cpu": OnCPU, "cuda": OnCUDA}
    if isinstance(contacts, ComputedNetwork):
        kinds["cuda"] = OnCUDAComputed
    return kinds[device.target](device, search, count, contacts, count_type)


def _word_of(arguments: tuple[Any, ...]) -> np.dtype[Any]:
    """Type of words: as wide as times."""
    return np.dtype(f"uint{8 * arguments[0].horizon.itemsize}")
