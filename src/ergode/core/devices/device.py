"""What a computation runs on: every core of the CPU, or a CUDA device.

An engine puts arrays on its device, runs kernels over ranges of indices, and gets arrays back. On
the CPU, put and get do not copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from time import monotonic
from typing import Any, NoReturn

import numpy as np

from ergode.core.compiler.source import Target
from ergode.core.devices import machine, slices
from ergode.core.interruption import apart, listening
from ergode.core.kernels import Kernel
from ergode.core.notebook import bytes_text, card

_THREADS_PER_BLOCK = 256


@dataclass(frozen=True)
class Device(ABC):
    """A place to run kernels.

    Attributes
    ----------
    name : str
        Name of the device in options and provenance: ``"cpu"``, ``"cuda:0"``.
    model : str
        Name of the hardware.
    core_count : int
        CPU cores, or multiprocessors.
    memory_bytes : int
        Total memory [bytes].
    reason : str
        Why this device was picked.
    """

    name: str
    model: str
    core_count: int
    memory_bytes: int
    reason: str

    @property
    @abstractmethod
    def target(self) -> Target:
        """Target that kernels are compiled for on this device."""

    @property
    def is_cuda(self) -> bool:
        """Whether kernels run as CUDA grids."""
        return self.target == "cuda"

    def _repr_html_(self) -> str:
        return card(
            f"Device {self.name}",
            {
                "hardware": self.model,
                "multiprocessors" if self.is_cuda else "cores": self.core_count,
                "memory": bytes_text(self.memory_bytes),
                "picked because": self.reason,
            },
        )

    @abstractmethod
    def available_bytes(self) -> int:
        """Memory that a run may use now [bytes]."""

    @abstractmethod
    def put(self, array: np.ndarray) -> Any:
        """The array on this device, contiguous."""

    @abstractmethod
    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An uninitialised array on this device."""

    @abstractmethod
    def fill_zero(self, array: Any) -> None:
        """Set every byte of an array on this device to zero."""

    @abstractmethod
    def fill_missing(self, array: Any) -> None:
        """Set every number of a floating-point array on this device to NaN."""

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An array of zeros on this device."""
        array = self.empty(shape, dtype)
        self.fill_zero(array)
        return array

    def put_together(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        """These arrays on this device, each contiguous."""
        return [self.put(array) for array in arrays]

    @abstractmethod
    def zeros_together(self, layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        """Arrays of zeros on this device, of these shapes and types, that kernels may write to."""

    @abstractmethod
    def get(self, array: Any, into: np.ndarray | None = None) -> np.ndarray:
        """The array in host memory: in `into`, contiguous and of its shape and type, if given."""

    @abstractmethod
    def view(self, array: Any) -> Any:
        """Wrap another library's device array as a numba array; the memory is shared."""

    @abstractmethod
    def like(self, sample: Any, array: Any) -> Any:
        """Wrap a numba array as an array of `sample`'s library; the memory is shared."""

    @property
    def has_library(self) -> bool:
        """Whether `to_library` and `full` work: on a CUDA device they need CuPy."""
        return not self.is_cuda or find_spec("cupy") is not None

    @abstractmethod
    def libraries(self) -> AbstractContextManager[object]:
        """Within this block `to_library` and `full`, and what uses their arrays, work here.

        Raises
        ------
        PlanError
            This is a CUDA device, and CuPy is not installed.
        """

    @abstractmethod
    def to_library(self, array: Any, *, copy: bool = False) -> Any:
        """An array of the host or this device as one of NumPy (CPU) or CuPy, on this device.

        It is a copy if `copy`, and if the array is elsewhere.
        """

    @abstractmethod
    def full(self, shape: tuple[int, ...], value: float, dtype: Any) -> Any:
        """An array of NumPy (CPU) or CuPy on this device, filled with a value."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything launched here has ended."""

    @abstractmethod
    def copy(self, source: Any, target: Any) -> None:
        """Copy an array from the host or this device into an equally shaped one on this device."""

    @abstractmethod
    def sort_together(self, by: Any, *others: Any) -> None:
        """Sort arrays of equal length on this device by `by`, in place."""

    @abstractmethod
    def run(
        self,
        kernel: Kernel,
        count: int,
        *arguments: Any,
        grain: int | None = None,
        first: int = 0,
        finished: Callable[[int, int], None] | None = None,
        is_brief: bool = False,
        piece: int = 0,
    ) -> None:
        """Run a kernel over ``range(first, first + count)``.

        Parameters
        ----------
        kernel : Kernel
            From `kernels.for_each`, or on the CPU any kernel.
        count : int
            Number of indices.
        *arguments
            Scalars, and arrays that are on this device.
        grain : int, optional
            Indices a CPU thread takes at a time.
        first : int
            The first index.
        finished : function, optional
            Called as ``finished(start, stop)`` when a range is done.
        is_brief : bool
            Single-threaded CPU work of at most a second runs in the caller's thread.
        piece : int
            If given, long ranges of a CPU thread are cut into pieces of a multiple of `piece`
            indices: an interruption waits only for the current pieces.
        """

    @abstractmethod
    def prepare(self, kernel: Kernel, *arguments: Any) -> None:
        """Compile a kernel for arguments of these types; on the CPU a range precedes them."""

    # ---- grids, only on CUDA devices

    def launch(
        self,
        kernel: Kernel,
        blocks: int | tuple[int, int],
        threads: int,
        *arguments: Any,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a grid asynchronously.

        Parameters
        ----------
        kernel : Kernel
            With a body for CUDA.
        blocks, threads : int
            Blocks of the grid, and threads of a block.
        *arguments
            Scalars, and arrays that are on this device.
        shared_bytes : int
            Dynamic shared memory of a block.
        """
        self._without_grids()

    def resident_blocks(
        self, kernel: Kernel, threads: int, *arguments: Any, shared_bytes: int = 0
    ) -> int:
        """Largest grid whose blocks are all resident at once, so that barriers cannot deadlock."""
        self._without_grids()

    def capture(self, kernel: Kernel, *arguments: Any) -> Any:
        """A launch whose arguments are converted once (see `cuda.Prepared`)."""
        self._without_grids()

    def resources(self, kernel: Kernel) -> dict[str, int]:
        """Registers, and bytes of local and shared memory, of a kernel that has run."""
        self._without_grids()

    @property
    def shared_bytes_most(self) -> int:
        """Largest dynamic shared memory of a block [bytes]."""
        self._without_grids()

    @property
    def cluster_most(self) -> int:
        """Largest cluster size [blocks]; one on devices without clusters."""
        self._without_grids()

    def _without_grids(self) -> NoReturn:
        raise TypeError(f"{self.name} runs ranges of indices; grids are for CUDA devices")


class CPU(Device):
    """All cores of this machine, or the requested number of threads."""

    @property
    def target(self) -> Target:
        return "cpu"

    def available_bytes(self) -> int:
        # A run that takes more would make this machine swap.
        return int(0.8 * machine.free_memory(int(20 * monotonic())))

    def put(self, array: np.ndarray) -> np.ndarray:
        # Always read-only: numba compiles another form for writable arrays.
        view = np.ascontiguousarray(array).view()
        view.flags.writeable = False
        return view

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def fill_zero(self, array: Any) -> None:
        array.fill(0)

    def fill_missing(self, array: Any) -> None:
        array.fill(np.nan)

    def zeros_together(self, layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        return [np.zeros(shape, dtype) for shape, dtype in layouts]

    def get(self, array: Any, into: np.ndarray | None = None) -> np.ndarray:
        if into is None:
            return np.asarray(array)
        into[...] = array
        return into

    def view(self, array: Any) -> Any:
        return np.asarray(array)

    def like(self, sample: Any, array: Any) -> Any:
        return array

    def libraries(self) -> AbstractContextManager[object]:
        return nullcontext()

    def to_library(self, array: Any, *, copy: bool = False) -> Any:
        return np.array(array) if copy else np.asarray(array)

    def full(self, shape: tuple[int, ...], value: float, dtype: Any) -> Any:
        return slices.full(shape, value, dtype, self.core_count)

    def synchronize(self) -> None:
        """Nothing: `run` returns when all is done."""

    def copy(self, source: Any, target: Any) -> None:
        if source is not target:
            target[...] = source

    def sort_together(self, by: Any, *others: Any) -> None:
        order = np.argsort(by)
        for array in (by, *others):
            array[...] = array[order]

    def run(
        self,
        kernel: Kernel,
        count: int,
        *arguments: Any,
        grain: int | None = None,
        first: int = 0,
        finished: Callable[[int, int], None] | None = None,
        is_brief: bool = False,
        piece: int = 0,
    ) -> None:
        from ergode.core.devices import cpu

        # Eight ranges per thread balance unequal work; a single thread needs only one.
        pieces = 8 * self.core_count if self.core_count > 1 or finished else 1
        grain = grain or max(1, -(-count // pieces))
        ranges = [(first + start, first + stop) for start, stop in spans(count, grain)]
        cpu.run(
            kernel.compiled("cpu"), ranges, arguments, self.core_count, finished,
            is_brief=is_brief, piece=piece,
        )  # fmt: skip

    def prepare(self, kernel: Kernel, *arguments: Any) -> None:
        compiled = kernel.compiled("cpu")
        if compiled.overloads:
            compiled(0, 0, *arguments)
        else:
            apart(lambda: compiled(0, 0, *arguments))

    def run_together(
        self, kernel: Kernel, threads: int, *arguments: Any, is_brief: bool = False
    ) -> None:
        """Call ``body(rank, threads, *arguments)`` on threads that may wait for each other.

        Single-threaded work that `is_brief` (at most a second) runs in the caller's thread.
        """
        from ergode.core.devices import cpu

        cpu.run_together(kernel.compiled("cpu"), threads, arguments, is_brief=is_brief)

    def run_apart(self, kernel: Kernel, count: int, *arguments: Any) -> None:
        """Call ``body(0, 1, index, *arguments)`` for every index, each on one thread."""
        from ergode.core.devices import cpu

        compiled = kernel.compiled("cpu")

        def alone(index: int, _: int) -> None:
            compiled(0, 1, index, *arguments)

        cpu.run(alone, spans(count, 1), (), self.core_count)


@dataclass(frozen=True)
class CUDA(Device):
    """One CUDA device."""

    index: int = 0

    @property
    def _here(self) -> Any:
        """The module `core.devices.cuda`, with this device selected for this thread."""
        cuda = _door()
        cuda.select(self.index)
        return cuda

    @property
    def target(self) -> Target:
        return "cuda"

    def available_bytes(self) -> int:
        return int(0.9 * _door().free_memory(self.index))

    def put(self, array: np.ndarray) -> Any:
        return self._here.put(array)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        return self._here.empty(shape, dtype)

    def fill_zero(self, array: Any) -> None:
        if array.size:
            _door().fill_zero(array)

    def fill_missing(self, array: Any) -> None:
        if array.size:
            _door().fill_missing(array)

    def put_together(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        return self._here.put_together(arrays)

    def zeros_together(self, layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        return self._here.zeros_together(layouts)

    def get(self, array: Any, into: np.ndarray | None = None) -> np.ndarray:
        if into is None:
            return _door().get(array)
        _door().copy_from(array, into)
        return into

    def view(self, array: Any) -> Any:
        return _door().view(array)

    def like(self, sample: Any, array: Any) -> Any:
        return _libraries().like(sample, array)

    def libraries(self) -> AbstractContextManager[object]:
        return _libraries().working_on(self.index)

    def to_library(self, array: Any, *, copy: bool = False) -> Any:
        with self.libraries():
            return _libraries().to_library(array, copy)

    def full(self, shape: tuple[int, ...], value: float, dtype: Any) -> Any:
        with self.libraries():
            return _libraries().library().full(shape, value, dtype)

    def synchronize(self) -> None:
        self._here.synchronize()

    def copy(self, source: Any, target: Any) -> None:
        _door().copy_to(target, source)

    def sort_together(self, by: Any, *others: Any) -> None:
        _libraries().sort_together(by, *others)

    def run(
        self,
        kernel: Kernel,
        count: int,
        *arguments: Any,
        first: int = 0,
        finished: Callable[[int, int], None] | None = None,
        **_: Any,  # what divides the work among threads of a CPU
    ) -> None:
        if count < 1:
            return
        cuda = self._here
        # A grid a few times the resident size hides latency; the kernel's loop does the rest.
        blocks = min(-(-count // _THREADS_PER_BLOCK), 32 * self.core_count)
        last = first + count
        with listening():  # it may have to be compiled
            whole = (first, last, *arguments)
            cuda.launch(kernel.compiled("cuda"), blocks, _THREADS_PER_BLOCK, whole)
        if finished:
            cuda.synchronize()
            finished(first, last)

    def prepare(self, kernel: Kernel, *arguments: Any) -> None:
        with listening():
            self._here.specialize(kernel.compiled("cuda"), arguments)

    def launch(
        self,
        kernel: Kernel,
        blocks: int | tuple[int, int],
        threads: int,
        *arguments: Any,
        shared_bytes: int = 0,
    ) -> None:
        with listening():  # it may have to be compiled
            self._here.launch(kernel.compiled("cuda"), blocks, threads, arguments, shared_bytes)

    def resident_blocks(
        self, kernel: Kernel, threads: int, *arguments: Any, shared_bytes: int = 0
    ) -> int:
        cuda = self._here
        return cuda.cooperative_block_count(
            kernel.compiled("cuda"), threads, arguments, shared_bytes
        )

    def capture(self, kernel: Kernel, *arguments: Any) -> Any:
        return self._here.Prepared(kernel.compiled("cuda"), arguments)

    def resources(self, kernel: Kernel) -> dict[str, int]:
        return _door().resources(kernel.compiled("cuda"))

    @property
    def shared_bytes_most(self) -> int:
        return _door().shared_bytes_most(self.index)

    @property
    def cluster_most(self) -> int:
        return _door().cluster_most(self.index)


@cache
def _door() -> Any:
    """The module `core.devices.cuda`, imported on first use."""
    from ergode.core.devices import cuda

    return cuda


def _libraries() -> Any:
    """The module `core.devices.libraries`, imported on first use."""
    from ergode.core.devices import libraries

    return libraries


def spans(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of at most `size` that cover ``range(count)``."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
