"""How a device runs the kernels of densities: on CPU threads, or on CUDA blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from ergode.core.calls import checkpoint
from ergode.core.compiler.source import Target
from ergode.core.devices import CPU, Device
from ergode.core.kernels import Kernel
from ergode.density.specialize import THREADS, ThreadGroup

PRUNE_EVERY = 20
"""Number of steps between prunings."""

FOREVER = 1 << 62
"""A number of steps that no run reaches."""

_BUDGET_CPU = 20_000_000  # cell-steps per call: how often Ctrl-C is checked
_BUDGET_CUDA = 1 << 30  # cell-steps per call of a run with checkpoints
_CELLS_A_THREAD = 5000  # least number per CPU thread: with fewer, barriers dominate
_RESORT_ABOVE_CPU = 1 << 15
_RESORT_ABOVE_CUDA = 1 << 19
_CELLS_LEAST_FEW = 1 << 16  # least capacity per density on CUDA, if few run side by side
_CELLS_OF_CLUSTER = 1 << 16  # a larger density uses the whole grid of the GPU
_FEW = 8  # up to this number of densities, each has a cluster of blocks; above, one block


class Runner(ABC):
    """Kernels of `count` densities that run side by side on a device."""

    cells_least: ClassVar[int]
    """Least number of cells that are allocated for a density."""

    blocks = 1
    """Blocks per cluster."""

    def __init__(self, device: Device, count: int) -> None:
        self.device, self.count = device, count
        self._captured: dict[Any, Any] = {}

    @abstractmethod
    def words(self, host: np.ndarray) -> Any:
        """The device array through which kernels read and write the words of `host`."""

    @abstractmethod
    def thread_group(self, cell_count: int) -> ThreadGroup:
        """The thread group that works on a density with this number of cells."""

    @abstractmethod
    def steps(self, cell_count: int) -> tuple[int, int, int]:
        """Cell-steps per call, steps between prunings, and cells above which a grid is sorted."""

    @abstractmethod
    def start(
        self, kernel: Kernel, arguments: tuple[Any, ...], barrier_words: Any, used: np.ndarray,
        kept_as: Any = None,
    ) -> None:  # fmt: skip
        """Run a kernel for all densities.

        `arguments` are those after the rank of the thread, the number of threads and the first
        density. `barrier_words` [density, word]; `used` [density] is the number of cells of each
        density, the sentinel included. `kept_as` is the key under which launches with these
        arguments are kept, until `forget`.
        """

    def forget(self) -> None:
        """Drop all kept launches: arrays have moved."""
        self._captured.clear()

    @abstractmethod
    def copy_of(self, array: Any) -> Any:
        """A copy of an array: on the device if there is memory, else on the host."""

    def room_for(self, count: int) -> int:
        """Number of cells to allocate for a density that needs `count`."""
        return max(self.cells_least, 2 * count)


class CPURunner(Runner):
    """CPU threads: several for a single density, one each for densities side by side."""

    cells_least = 1 << 12

    def words(self, host: np.ndarray) -> Any:
        return host

    def thread_group(self, cell_count: int) -> ThreadGroup:
        return "threads"

    def steps(self, cell_count: int) -> tuple[int, int, int]:
        # Short calls: after each one the grid may have grown enough for more threads.
        budget = min(_BUDGET_CPU, 500 * max(cell_count, _CELLS_A_THREAD))
        return budget, PRUNE_EVERY, _RESORT_ABOVE_CPU

    def start(
        self, kernel: Kernel, arguments: tuple[Any, ...], barrier_words: Any, used: np.ndarray,
        kept_as: Any = None,
    ) -> None:  # fmt: skip
        assert isinstance(self.device, CPU)
        self.device.fill_zero(barrier_words)
        if self.count == 1:
            busy = max(1, int(used.max() - 1) // _CELLS_A_THREAD)
            threads = min(self.device.core_count, busy)
            # The budget makes calls of a small density short.
            self.device.run_together(kernel, threads, 0, *arguments, is_brief=busy == 1)
        else:
            self.device.run_apart(kernel, self.count, *arguments)

    def copy_of(self, array: Any) -> Any:
        return np.array(array)


class CUDARunner(Runner):
    """The whole GPU or a cluster of blocks for each density; one block each if there are many."""

    cells_least = 1 << 14

    def __init__(self, device: Device, count: int) -> None:
        super().__init__(device, count)
        self.blocks = device.cluster_most if count <= _FEW else 1

    def words(self, host: np.ndarray) -> Any:
        (array,) = self.device.zeros_together([(host.shape, host.dtype)])
        return array

    def thread_group(self, cell_count: int) -> ThreadGroup:
        if self.count > _FEW:
            return "cluster"
        is_small = self.blocks > 1 and cell_count <= _CELLS_OF_CLUSTER
        return "cluster" if is_small else "grid"

    def steps(self, cell_count: int) -> tuple[int, int, int]:
        is_cluster = self.thread_group(cell_count) == "cluster"
        above = _CELLS_OF_CLUSTER if is_cluster else _RESORT_ABOVE_CUDA
        budget = _BUDGET_CUDA if checkpoint.is_asked() else FOREVER
        return budget, PRUNE_EVERY, FOREVER if self.count > _FEW else above

    def start(
        self, kernel: Kernel, arguments: tuple[Any, ...], barrier_words: Any, used: np.ndarray,
        kept_as: Any = None,
    ) -> None:  # fmt: skip
        thread_group = self.thread_group(int(used.max()) - 1)
        threads = THREADS[thread_group]
        for which in range(self.count) if thread_group == "grid" else (0,):
            key = (kept_as, thread_group, which)
            launch = None if kept_as is None else self._captured.get(key)
            if launch is None:
                launch = self.device.capture(kernel, 0, 0, which, *arguments)
            if kept_as is not None:
                self._captured[key] = launch
            if thread_group == "cluster":
                launch.launch(self.blocks * self.count, threads, self.blocks)
            else:
                self.device.fill_zero(barrier_words)
                wanted = -(-2 * int(used[which]) // threads)
                launch.launch(min(launch.cooperative_blocks(threads), wanted), threads)

    def copy_of(self, array: Any) -> Any:
        if array.nbytes > self.device.available_bytes() // 2:
            return self.device.get(array)
        there = self.device.empty(array.shape, array.dtype)
        self.device.copy(array, there)
        return there

    def room_for(self, count: int) -> int:
        if self.count <= _FEW:
            return max(_CELLS_LEAST_FEW, 3 * count)
        return super().room_for(count)


RUNNERS: dict[Target, type[Runner]] = {"cpu": CPURunner, "cuda": CUDARunner}
"""Runner class by the target of a device."""
