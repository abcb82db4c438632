"""The words a device function may use beyond plain Python, `math` and NumPy scalars.

A device function is an undecorated module-level function on scalars.  It is compiled from its
source for a target (CPU or CUDA) and a working precision; the names below are where the targets
differ, so here they are only promises.  `core.cpu` and `core.cuda` each keep them.
"""

from __future__ import annotations

import sys
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
    """One name, one function for each target: the step in which the targets differ."""

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


class Option:
    """Something that a kernel is made for: a size, a switch, a table or a function of the model.

    A module declares it once (``WEIGHTED = option(True)``), and whoever uses it imports it from
    there.  Device functions use it by its name; a kernel binds it by the object itself.

    Attributes
    ----------
    default : object
        What it is where nothing is bound to it.
    """

    def __init__(self, default: Any, module: str) -> None:
        self.default = default
        self._module = module

    @property
    def name(self) -> str:
        """What its module calls it."""
        home = vars(sys.modules[self._module])
        return next(f"{self._module}.{name}" for name, value in home.items() if value is self)

    def __repr__(self) -> str:
        return f"<option {self.name}>"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has a value only inside a compiled kernel")

    def __call__(self, *_: Any) -> Any:
        bool(self)


def option(default: Any = None) -> Any:
    """Declare something that kernels are made for, at the top of a module (see `Option`)."""
    return Option(default, sys._getframe(1).f_globals["__name__"])


def noinline_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a long device function as one that the CPU calls, not writes out wherever it is used.

    It too makes no array and returns none (see `no_refcount`).
    """
    function.noinline_cpu = True  # type: ignore[attr-defined]
    return function


def noinline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a long device function that CUDA calls instead of inlining it.

    Its arguments must be numbers: an array would be passed in a dozen parts, through memory.
    """
    function.noinline = True  # type: ignore[attr-defined]
    return noinline_cpu(function)


def no_refcount(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a device function that makes no array and returns none.

    On the CPU, the function and everything it calls are compiled without reference counts of
    arrays.  A loop with many arrays and branches would otherwise spend most of its time on them.
    """
    function.no_refcount = True  # type: ignore[attr-defined]
    return function


def unroll(values: Iterable[int]) -> Iterable[int]:
    """In ``for i in unroll(range(N))``, with N a constant: write the loop out."""
    return values


def no_unroll(values: Iterable[int]) -> Iterable[int]:
    """In ``for i in no_unroll(range(...))``: on CUDA, compile the loop as it is written.

    The step must be positive.  Instead of a range it may be a call of a function of one line that
    returns a range.

    The compiler would otherwise compute the trip count before the loop, which is a division of
    64-bit integers (hundreds of cycles) where the step is not known, and unroll the loop.  In a
    long kernel of short loops the unrolled code takes longer to fetch than to run.
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
window = Intrinsic("window")
"""`window(array, begin, shape)` is part of a one-dimensional array, in another shape.

It shares the memory of the array, which lives as long as the kernel runs.
"""
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
