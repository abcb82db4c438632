"""The words a device function may use beyond plain Python, `math` and NumPy scalars.

A device function is an undecorated module-level function on scalars.  It is compiled from its
source for a target (CPU or CUDA) and a working precision; the names below are where the targets
differ, so here they are only promises.  `core.cpu` and `core.cuda` each keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Intrinsic:
    """A name that every target defines for itself."""

    name: str

    def __call__(self, *_: Any) -> Any:
        raise TypeError(
            f"'{self.name}' has a meaning only inside a compiled kernel; "
            "run the function through ergode.core.kernels"
        )

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Intrinsic(f"{self.name}.{attribute}")


@dataclass(frozen=True)
class ByPrecision:
    """One name, one function for each working precision."""

    float32: Callable[..., Any]
    float64: Callable[..., Any]

    def __call__(self, *_: Any) -> Any:
        raise TypeError(
            f"'{self.float64.__name__}' is chosen by the precision of a kernel; "
            "run it through ergode.core.kernels"
        )


@dataclass(frozen=True)
class ByTarget:
    """One name, one function for each target: where a method differs and what it is part of not."""

    cpu: Callable[..., Any]
    cuda: Callable[..., Any]

    def __call__(self, *_: Any) -> Any:
        raise TypeError(
            f"'{self.cpu.__name__}' is chosen by the target of a kernel; "
            "run it through ergode.core.kernels"
        )


@dataclass(frozen=True)
class UserFunction:
    """A user's function: plain arithmetic, in which every number is `real`."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def noinline_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a long device function as one that the CPU calls, not writes out wherever it is used.

    It too makes no array and returns none (see `no_refcount`).
    """
    function.noinline_cpu = True  # type: ignore[attr-defined]
    return function


def noinline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a long device function of numbers alone as one that CUDA, too, calls.

    Arrays are no arguments for it: each would be passed in a dozen parts, through memory.
    """
    function.noinline = True  # type: ignore[attr-defined]
    return noinline_cpu(function)


def no_refcount(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a device function that makes no array and returns none.

    On the CPU it and all it calls are compiled without counting references to arrays, which a
    loop with many arrays and branches would otherwise spend most of its time on.
    """
    function.no_refcount = True  # type: ignore[attr-defined]
    return function


def unroll(values: Iterable[int]) -> Iterable[int]:
    """In ``for i in unroll(range(N))``, with N a constant: write the loop out."""
    return values


def no_unroll(values: Iterable[int]) -> Iterable[int]:
    """In ``for i in no_unroll(range(...))``: on CUDA, run the loop as it stands, its step positive.

    Instead of a range it may be the call of a function of one line that returns one.

    Otherwise its turns are counted before it begins - by a division of 64-bit integers where the
    step is not known, hundreds of cycles - and several of them written out, which in a long kernel
    of short loops makes so much code that fetching it takes longer than running it.
    """
    return values


real = Intrinsic("real")
"""The working floating-point type; `real(x)` converts."""
bits = Intrinsic("bits")
"""The unsigned integer type as wide as `real`."""
fma = Intrinsic("fma")
"""`fma(a, b, c)` is a * b + c with one rounding, the same on every target."""
to_bits = Intrinsic("to_bits")
"""The bit pattern of a float as an unsigned integer of the same width."""
from_bits = Intrinsic("from_bits")
"""The float with the given bit pattern."""
atomic_add = Intrinsic("atomic_add")
"""`atomic_add(array, at, amount)` adds to an element that others change too; what it was."""
atomic_max = Intrinsic("atomic_max")
"""`atomic_max(array, at, value)` makes an element at least as large; what it was."""
atomic_swap_if = Intrinsic("atomic_swap_if")
"""`atomic_swap_if(array, at, expected, value)` sets an element that is as expected; what it was."""
atomic_load = Intrinsic("atomic_load")
"""`atomic_load(array, at)` is an element as it is now; only on the CPU."""
yield_thread = Intrinsic("yield_thread")
"""`yield_thread()` lets another thread that waits for this core run; only on the CPU."""
release_add = Intrinsic("release_add")
"""`release_add(array, at, amount)`: adds; who acquires it sees all before it; only on CUDA."""
acquire = Intrinsic("acquire")
"""`acquire(array, at)` is an element as it is now, and what was released; only on CUDA."""
barrier_of_cluster = Intrinsic("barrier_of_cluster")
"""`barrier_of_cluster()` waits for all threads of a cluster of blocks; only on CUDA."""
cuda: Any = Intrinsic("cuda")
"""CUDA's own vocabulary (threads, shared memory, atomics); only in CUDA kernels."""
