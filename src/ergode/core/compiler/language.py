"""The names a device function may use beyond plain Python, `math` and NumPy scalars.

A device function is an undecorated module-level function on scalars.  It is compiled from its
source for a target (CPU or CUDA) and a working precision.  The names below differ between the
targets, so they are only declared here; `core.devices.cpu` and `core.devices.cuda` define them.
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
    error: type[Exception] = TypeError  # what a call in Python raises

    def __call__(self, *_: Any) -> Any:
        raise self.error(
            f"'{self.name}' has a meaning only inside a compiled kernel; "
            "run the function through ergode.core.kernels"
        )

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Intrinsic(f"{self.name}.{attribute}")


@dataclass(frozen=True)
class ByPrecision:
    """One name, one function or constant for each working precision."""

    float32: Any
    float64: Any

    def __call__(self, *_: Any) -> Any:
        raise TypeError(
            f"'{self.float64.__name__}' is chosen by the precision of a kernel; "
            "run it through ergode.core.kernels"
        )


@dataclass(frozen=True)
class ByTarget:
    """One name, one function for each target."""

    cpu: Callable[..., Any]
    cuda: Callable[..., Any]
    indices: bool = False  # whether it is a range of numbers that are not negative

    def __call__(self, *_: Any) -> Any:
        raise TypeError(
            f"'{self.cpu.__name__}' is chosen by the target of a kernel; "
            "run it through ergode.core.kernels"
        )


@dataclass(frozen=True)
class UserFunction:
    """A user's function: plain arithmetic, in which every number is `real`.

    Attributes
    ----------
    function : function
    shape : tuple of int, optional
        Shape of the numbers that it returns: () for one, (3,) for a tuple of three.  A function
        with a shape is linked into its kernel (see `linking`); others are written into it.
    parameters : int, optional
        Length of its last argument.  A kernel may pass a longer tuple (see `room_for`).
    """

    function: Callable[..., Any]
    shape: tuple[int, ...] | None = None
    parameters: int | None = None

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def room_for(parameters: int) -> int:
    """How many parameters a kernel passes to its functions: one kernel serves many models."""
    return 8 * max(1, -(-parameters // 8))


class Option:
    """A compile-time option of a kernel: a size, a switch, a table or a function of the model.

    A module declares it once (``WEIGHTED = option(True)``), and other modules import it from
    there.  Device functions use it by name; a kernel binds a value to the object itself.

    Attributes
    ----------
    default : object
        Value if nothing is bound to it.
    of_linked : bool
        Whether only functions that are `linked` use it, so that kernels do not depend on it.
    """

    def __init__(self, default: Any, module: str, of_linked: bool) -> None:
        self.default = default
        self.of_linked = of_linked
        self._module = module

    @property
    def name(self) -> str:
        """Name of the option in its module."""
        home = vars(sys.modules[self._module])
        return next(f"{self._module}.{name}" for name, value in home.items() if value is self)

    def __repr__(self) -> str:
        return f"<option {self.name}>"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has a value only inside a compiled kernel")

    def __call__(self, *_: Any) -> Any:
        bool(self)


def option(default: Any = None, *, of_linked: bool = False) -> Any:
    """Declare a compile-time option at the top of a module (see `Option`)."""
    return Option(default, sys._getframe(1).f_globals["__name__"], of_linked)


def linked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a device function that returns a number, and that is linked into kernels.

    The options that it uses are those of a model: another model then needs no other kernel.
    """
    function.linked = True  # type: ignore[attr-defined]
    return no_refcount(function)


def calls_model(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a long kernel for the CPU that calls the functions of a model instead of inlining them.

    All of it is then machine code before a model is known: for those that call them seldom.
    """
    kernel.calls_model = True  # type: ignore[attr-defined]
    return kernel


def noinline_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a long device function that the CPU calls instead of inlining it.

    It must not make or return arrays (see `no_refcount`).
    """
    function.noinline_cpu = True  # type: ignore[attr-defined]
    return function


def noinline_cuda(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a device function that CUDA calls instead of inlining it.

    Its arguments should be numbers and records by reference: an array is passed in a dozen parts.
    """
    function.noinline = True  # type: ignore[attr-defined]
    return function


def noinline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a long device function that no target inlines (see `noinline_cuda`)."""
    return noinline_cpu(noinline_cuda(function))


def no_refcount(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a device function that neither makes nor returns arrays.

    On the CPU, the function and everything it calls are compiled without reference counts of
    arrays.  A loop with many arrays and branches would otherwise spend most of its time on them.
    """
    function.no_refcount = True  # type: ignore[attr-defined]
    return function


def unroll(values: Iterable[int]) -> Iterable[int]:
    """Unroll the loop ``for i in unroll(range(N))``, where N is a constant."""
    return values


def polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """A polynomial by Horner's rule: a chain of `fma`, with the highest power first.

    In a device function `x` is a name, and the coefficients are a constant.
    """
    total = coefficients[0]
    for one in coefficients[1:]:
        total = total * x + one
    return total


def no_unroll(values: Iterable[int]) -> Iterable[int]:
    """Keep the loop ``for i in no_unroll(range(...))`` rolled on CUDA.

    The step must be positive.  Instead of a range, the argument may be a call of a function that
    only returns a range.

    Otherwise the compiler computes the trip count before the loop and unrolls the loop.  If the
    step is unknown, this takes a 64-bit integer division (hundreds of cycles).  In a long kernel of
    short loops, fetching unrolled code takes longer than running it.
    """
    return values


real = Intrinsic("real")
"""The working floating-point type; `real(x)` converts."""
bits = Intrinsic("bits")
"""The unsigned integer type as wide as `real`."""
fma = Intrinsic("fma")
"""`fma(a, b, c)` is a * b + c with one rounding, on every target; of complex numbers with more."""
to_bits = Intrinsic("to_bits")
"""The bit pattern of a float as an unsigned integer of the same width."""
from_bits = Intrinsic("from_bits")
"""The float with the given bit pattern."""
window = Intrinsic("window")
"""`window(array, begin, shape)` is a reshaped view of a part of a one-dimensional array.

It shares the memory of the array, which must outlive the kernel.
"""
number_at = Intrinsic("number_at", ArithmeticError)
"""`number_at(kind, address, i)` is number `i` of those that begin at an address.

They have the type of the number `kind`. The address is an integer [bytes].
"""
as_lanes = Intrinsic("as_lanes")
"""`as_lanes(array, shape)` is an array of vectors of eight numbers; only on the CPU.

Arithmetic on its elements is that on eight numbers (see `lanes`). It shares the memory of the
one-dimensional array, which has numbers for one vector more.
"""
flat_numbers = Intrinsic("flat_numbers")
"""`flat_numbers(array)` is a one-dimensional array of vectors as numbers.

An array of numbers is as it is.
"""
lane_of = Intrinsic("lane_of")
"""`lane_of(array, lane)` is one number of each vector of an array.

An array of numbers is as it is.
"""
where = Intrinsic("where")
"""`where(condition, one, other)` is `one` if the number is not 0; of vectors too.

All three are of the same type.
"""
by_reference = Intrinsic("by_reference")
"""`by_reference(record)` is a record that is passed by its address.

Functions that get it have one argument for it, and read its fields as usual. The arrays of the
record must exist as long: see `hold`. On the CPU see `references`. On CUDA all threads of a block
make the same record, and a barrier follows: see `device_references`.
"""
hold = Intrinsic("hold")
"""`hold(record)` keeps arrays that a kernel has made until here; only on the CPU."""
atomic_add = Intrinsic("atomic_add")
"""`atomic_add(array, at, amount)` adds to an element; it returns the previous value."""
atomic_max = Intrinsic("atomic_max")
"""`atomic_max(array, at, value)` raises an element to `value`; it returns the previous value."""
atomic_swap_if = Intrinsic("atomic_swap_if")
"""`atomic_swap_if(array, at, expected, value)` is compare-and-swap; it returns the old value."""
atomic_load = Intrinsic("atomic_load")
"""`atomic_load(array, at)` is the current value of an element; only on the CPU."""
yield_thread = Intrinsic("yield_thread")
"""`yield_thread()` yields the core to another waiting thread; only on the CPU."""
release_add = Intrinsic("release_add")
"""`release_add(array, at, amount)` is an atomic add with release order; only on CUDA."""
acquire = Intrinsic("acquire")
"""`acquire(array, at)` loads an element with acquire order; only on CUDA."""
barrier_of_cluster = Intrinsic("barrier_of_cluster")
"""`barrier_of_cluster()` waits for all threads of a cluster of blocks; only on CUDA."""
now = Intrinsic("now")
"""`now(integer)` is the integer; what follows from it is not computed earlier; only on CUDA."""
cuda: Any = Intrinsic("cuda")
"""CUDA's own vocabulary (threads, shared memory, atomics); only in CUDA kernels."""
