"""Where a computation runs: every core of the CPU, or a CUDA device.

An engine asks `resolve` once, then speaks to the device: put arrays on it, run kernels over
ranges of indices, get arrays back.  On the CPU putting and getting cost nothing.
"""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import psutil

from ergode.core.errors import PlanError
from ergode.core.kernels import Kernel
from ergode.core.notebook import bytes_text, card

_THREADS_PER_BLOCK = 256


@dataclass(frozen=True)
class Device(ABC):
    """A place to run kernels.

    Attributes
    ----------
    name : str
        What the device is called in options and provenance: ``"cpu"``, ``"cuda:0"``.
    model : str
        The hardware's own name.
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
    def is_cuda(self) -> bool:
        """Whether kernels run as CUDA grids."""

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
        """Memory that a plan may use now [bytes]."""

    @abstractmethod
    def put(self, array: np.ndarray) -> Any:
        """The array on this device, contiguous."""

    @abstractmethod
    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An uninitialised array on this device."""

    @abstractmethod
    def fill_zero(self, array: Any) -> None:
        """Set every byte of an array on this device to zero."""

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An array of zeros on this device."""
        array = self.empty(shape, dtype)
        self.fill_zero(array)
        return array

    @abstractmethod
    def put_together(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        """These arrays on this device, each contiguous."""

    @abstractmethod
    def zeros_together(self, layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        """Arrays of zeros on this device, of these shapes and types, that kernels may write to."""

    @abstractmethod
    def get(self, array: Any) -> np.ndarray:
        """The array in host memory."""

    @abstractmethod
    def run(
        self,
        kernel: Kernel,
        count: int,
        *arguments: Any,
        grain: int | None = None,
        finished: Callable[[int, int], None] | None = None,
    ) -> None:
        """Run a kernel over ``range(count)``.

        Parameters
        ----------
        kernel : Kernel
            From `kernels.for_each`, or on the CPU also from `kernels.cpu_kernel`.
        count : int
            Number of indices.
        *arguments
            Scalars, and arrays that are on this device.
        grain : int, optional
            Indices a CPU thread takes at a time.
        finished : function, optional
            Called as ``finished(start, stop)`` when a range is done.
        """


class CPU(Device):
    """All cores of this machine, or as many threads as asked."""

    @property
    def is_cuda(self) -> bool:
        return False

    def available_bytes(self) -> int:
        # A plan that takes more than this would push other programs, or itself, into swap.
        return int(0.8 * psutil.virtual_memory().available)

    def put(self, array: np.ndarray) -> np.ndarray:
        # Always read-only: numba compiles anew for an array that differs in that.
        view = np.ascontiguousarray(array).view()
        view.flags.writeable = False
        return view

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def fill_zero(self, array: Any) -> None:
        array.fill(0)

    def put_together(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        return [self.put(array) for array in arrays]

    def zeros_together(self, layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        return [np.zeros(shape, dtype) for shape, dtype in layouts]

    def get(self, array: Any) -> np.ndarray:
        return np.asarray(array)

    def run(
        self,
        kernel: Kernel,
        count: int,
        *arguments: Any,
        grain: int | None = None,
        finished: Callable[[int, int], None] | None = None,
    ) -> None:
        from ergode.core import cpu

        # Eight ranges a thread even out unequal work; one thread needs no more than one.
        pieces = 8 * self.core_count if self.core_count > 1 or finished else 1
        grain = grain or max(1, -(-count // pieces))
        cpu.run(kernel.compiled("cpu"), spans(count, grain), arguments, self.core_count, finished)


@dataclass(frozen=True)
class CUDA(Device):
    """One CUDA device."""

    index: int = 0

    @property
    def is_cuda(self) -> bool:
        return True

    def available_bytes(self) -> int:
        from ergode.core import cuda

        return int(0.9 * cuda.free_memory(self.index))

    def put(self, array: np.ndarray) -> Any:
        from ergode.core import cuda

        cuda.select(self.index)
        return cuda.put(array)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        from ergode.core import cuda

        cuda.select(self.index)
        return cuda.empty(shape, dtype)

    def fill_zero(self, array: Any) -> None:
        from ergode.core import cuda

        if array.size:
            cuda.fill_zero(array)

    def put_together(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        from ergode.core import cuda

        cuda.select(self.index)
        return cuda.put_together(arrays)

    def zeros_together(self, layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        from ergode.core import cuda

        cuda.select(self.index)
        return cuda.zeros_together(layouts)

    def get(self, array: Any) -> np.ndarray:
        from ergode.core import cuda

        return cuda.get(array)

    def run(
        self,
        kernel: Kernel,
        count: int,
        *arguments: Any,
        grain: int | None = None,
        finished: Callable[[int, int], None] | None = None,
    ) -> None:
        from ergode.core import cuda

        if count < 1:
            return
        cuda.select(self.index)
        # A grid a few times the resident one hides latency; the kernel's loop takes the rest.
        blocks = min(-(-count // _THREADS_PER_BLOCK), 32 * self.core_count)
        cuda.launch(kernel.compiled("cuda"), blocks, _THREADS_PER_BLOCK, (0, count, *arguments))
        if finished:
            cuda.synchronize()
            finished(0, count)


def spans(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of at most `size` that cover ``range(count)``."""
    for start in range(0, count, size):
        yield start, min(start + size, count)


def resolve(device: str | Device = "auto") -> Device:
    """The device that a user's word stands for.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:1", "cpu:1", ...} or Device
        ``"auto"`` is the first CUDA device where one is usable, else the CPU. ``"cpu:2"`` is two
        threads; ``"cuda:1"`` is the second CUDA device.

    Raises
    ------
    PlanError
        The word is unknown, or the device is not there.

    Examples
    --------
    >>> import ergode
    >>> ergode.Device("cpu:1").core_count
    1
    """
    if isinstance(device, Device):
        return device
    kind, _, number = str(device).partition(":")
    malformed = bool(number) and (kind == "auto" or not number.isdecimal())
    if kind not in ("auto", "cpu", "cuda") or malformed:
        raise PlanError(
            f"device {device!r} is unknown; expected 'auto', 'cpu', 'cpu:THREADS', 'cuda' or "
            "'cuda:INDEX'"
        )
    if kind == "cpu":
        return _cpu("asked for", int(number) if number else None)
    problem = _cuda_problem()
    if kind == "auto":
        return _cuda(0, "a CUDA device is present") if not problem else _cpu(problem)
    if problem:
        raise PlanError(f"device {device!r} was asked for, but {problem}")
    return _cuda(int(number or 0), "asked for")


def present() -> list[Device]:
    """Every device a kernel could run on here."""
    found: list[Device] = [_cpu("always present")]
    if not _cuda_problem():
        from ergode.core import cuda

        found += [_cuda(index, "present") for index in range(cuda.device_count())]
    return found


def _cpu(reason: str, threads: int | None = None) -> CPU:
    if threads is None:
        wanted = os.environ.get("ERGODE_THREADS")
        if wanted and not wanted.isdecimal():
            raise PlanError(f"ERGODE_THREADS is {wanted!r}; expected a number of threads")
        threads = int(wanted) if wanted else _usable_cores()
    if threads < 1:
        raise PlanError(f"device 'cpu:{threads}' needs at least one thread")
    return CPU("cpu", _processor_name(), threads, _memory_bytes(), reason)


@lru_cache(maxsize=1)
def _memory_bytes() -> int:
    return int(psutil.virtual_memory().total)


def _cuda(index: int, reason: str) -> CUDA:
    from ergode.core import cuda

    model, memory, multiprocessors = cuda.describe(index)
    return CUDA(f"cuda:{index}", model, multiprocessors, memory, reason, index)


def _cuda_problem() -> str:
    """Why CUDA cannot be used here; empty where it can."""
    if find_spec("numba_cuda") is None:
        return "numba-cuda is not installed (pip install 'ergode[cuda]')"
    from ergode.core import cuda

    return "" if cuda.device_count() else "no CUDA device or driver was found"


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone can say
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


@lru_cache(maxsize=1)
def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
