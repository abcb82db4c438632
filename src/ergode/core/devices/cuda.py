"""CUDA backend, with `cuda_arrays` and `device_*` of `compiler` the only user of numba-cuda.

numba-cuda is imported on first use.  Other files use this module's functions and, inside kernels,
the name `cuda`.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_double, c_int64
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from cuda.core import LaunchConfig
from cuda.core import launch as start
from llvmlite import ir
from numba import cuda, types
from numba.cuda import cgutils
from numba.cuda.core import config, event
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.extending import intrinsic
from numba.cuda.np import arrayobj

from ergode.core import stopwatch
from ergode.core.compiler import intrinsics
from ergode.core.compiler.device_text import ptx as ptx
from ergode.core.compiler.gc_pause import pause_while_compiling
from ergode.core.devices.cuda_arrays import copy_from as copy_from
from ergode.core.devices.cuda_arrays import copy_to as copy_to
from ergode.core.devices.cuda_arrays import empty as empty
from ergode.core.devices.cuda_arrays import fill_missing as fill_missing
from ergode.core.devices.cuda_arrays import fill_zero as fill_zero
from ergode.core.devices.cuda_arrays import free_memory as free_memory
from ergode.core.devices.cuda_arrays import get as get
from ergode.core.devices.cuda_arrays import keep_no_block_of as keep_no_block_of
from ergode.core.devices.cuda_arrays import known_of
from ergode.core.devices.cuda_arrays import put as put
from ergode.core.devices.cuda_arrays import put_together as put_together
from ergode.core.devices.cuda_arrays import select as select
from ergode.core.devices.cuda_arrays import synchronize as synchronize
from ergode.core.devices.cuda_arrays import view as view
from ergode.core.devices.cuda_arrays import zeros_together as zeros_together
from ergode.core.errors import PlanError

try:
    from ergode.core.compiler.device_linking import external as external
    from ergode.core.compiler.device_linking import linked as linked
except ImportError:  # another numba-cuda: functions of a model are written into its kernels
    external = linked = None  # type: ignore[assignment]
try:
    from ergode.core.compiler.device_references import by_reference
except ImportError:  # another numba-cuda: records are passed in parts

    @intrinsic
    def by_reference(context, record):  # type: ignore[no-untyped-def]
        """The record as it is."""
        return record(record), lambda _, __, ___, arguments: arguments[0]


# Suppress numba's occupancy warning: a small problem cannot fill a device.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
pause_while_compiling(event, "numba-cuda:compiler_lock")
stopwatch.count_compiling(event, "numba-cuda:compiler_lock")

_USUAL_SHARED_BYTES = 48 * 1024
_USUAL_CLUSTER = 8  # cluster size [blocks] that every device with clusters supports

fma, to_bits, from_bits = intrinsics.define(intrinsic, types)
window = intrinsics.define_window(intrinsic, types, arrayobj, cgutils)
number_at = intrinsics.define_number_at(intrinsic, types)


@intrinsic  # type: ignore[untyped-decorator]
def opaque_int(context: Any, x: Any) -> Any:
    """The same integer, hidden from LLVM, so that it cannot compute the trip count of a loop."""
    if not isinstance(x, types.Integer) or x.bitwidth != 64:
        return None

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        return builder.asm(ir.FunctionType(kind, [kind]), "", "=l,0", arguments, False)

    return x(x), generate


@intrinsic  # type: ignore[untyped-decorator]
def now(context: Any, x: Any) -> Any:
    """The same integer, at this point of the program: what follows from it is computed after it."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        call = ir.InlineAsm(ir.FunctionType(kind, [kind]), "", "=l,0", side_effect=True)
        return builder.call(call, arguments)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def noinline_function(context: Any) -> Any:
    """Keep the function that calls this from being inlined."""

    def generate(context: Any, builder: Any, *_: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic  # type: ignore[untyped-decorator]
def flat_numbers(context: Any, array: Any) -> Any:
    """An array of numbers as it is: vectors are only for the CPU."""
    return array(array), lambda _, __, ___, arguments: arguments[0]


@intrinsic  # type: ignore[untyped-decorator]
def lane_of(context: Any, array: Any, lane: Any) -> Any:
    """An array of numbers as it is: vectors are only for the CPU."""
    return array(array, lane), lambda _, __, ___, arguments: arguments[0]


device_function = cuda.jit(device=True)
noinline_cpu_function = cuda.jit(device=True)


@device_function
def atomic_add(array, at, amount):  # type: ignore[no-untyped-def]
    """Atomically add to an element; return its previous value."""
    return cuda.atomic.add(array, at, amount)


@device_function
def where(condition, one, other):  # type: ignore[no-untyped-def]
    """`one` where the condition is not zero, else `other`."""
    return one if condition != 0.0 else other


@device_function
def atomic_max(array, at, value):  # type: ignore[no-untyped-def]
    """Atomic maximum of an element and `value`; return the previous value."""
    return cuda.atomic.max(array, at, value)


@device_function
def atomic_swap_if(array, at, expected, value):  # type: ignore[no-untyped-def]
    """Compare-and-swap: set an element if it equals `expected`; return its previous value."""
    return cuda.atomic.cas(array, at, expected, value)


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Address of an element of a one-dimensional array, as a number."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = cgutils.get_item_pointer(
        context, builder, signature.args[0], array, [arguments[1]], wraparound=False
    )
    return builder.ptrtoint(place, ir.IntType(64))


def _assemble(builder: Any, result: Any, text: str, constraints: str, arguments: Any = ()) -> Any:
    """Insert a volatile line of PTX; earlier memory writes are completed before it."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    code = ir.InlineAsm(kind, text, f"{constraints}~{{memory}}", side_effect=True)
    return builder.call(code, arguments)


@intrinsic
def release_add(context, array, at, amount):  # type: ignore[no-untyped-def]
    """Atomic add with release order to an int64 element; see `acquire`."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        text = "red.release.gpu.global.add.u64 [$0], $1;"
        _assemble(builder, ir.VoidType(), text, "l,l,", [place, arguments[2]])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def acquire(context, array, at):  # type: ignore[no-untyped-def]
    """Load an int64 element with acquire order: writes before its `release_add` are visible."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        text = "ld.acquire.gpu.global.s64 $0, [$1];"
        return _assemble(builder, ir.IntType(64), text, "=l,l,", [place])

    return types.int64(array, types.intp), generate


@intrinsic
def barrier_of_cluster(context):  # type: ignore[no-untyped-def]
    """Wait for all threads of a cluster of blocks; their writes are then visible."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        for text in ("barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"):
            _assemble(builder, ir.VoidType(), text, "")
        return context.get_dummy_value()

    return types.void(), generate


def kernel(function: Any = None, *, registers: int | None = None) -> Any:
    """Decorator of a generated module's entry function."""
    if function is None:
        return cuda.jit(cache=True, max_registers=registers)
    return cuda.jit(cache=True)(function)


@lru_cache(maxsize=1)
def device_count() -> int:
    """Number of usable CUDA devices; zero without a driver."""
    try:
        return len(cuda.gpus) if cuda.is_available() else 0
    except Exception:  # a broken driver raises errors of its own
        return 0


def describe(index: int) -> tuple[str, int, int]:
    """Name, memory in bytes and number of multiprocessors of a device."""
    if index >= device_count():
        raise PlanError(
            f"device 'cuda:{index}' does not exist: the number of CUDA devices is {device_count()}"
        )
    with cuda.gpus[index]:
        device = cuda.get_current_device()
        name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
        memory = cuda.current_context().get_memory_info().total
        return name, int(memory), int(device.MULTIPROCESSOR_COUNT)


_FORMS: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
"""Machine code by kernel and form of the arguments: numba's own lookup is 100 times slower."""


def _take_apart(values: Sequence[Any], form: list[Any], parts: list[Any]) -> bool:
    """Append what determines the numba types of values, and the machine's arguments for them.

    Returns whether the arguments are complete: numba knows how to take other values apart.
    """
    complete = True
    for value in values:
        kind = type(value)
        if kind is DeviceNDArray:
            own, more = vars(value).get("known_to_ergode") or known_of(value)
            form.append(own)
            parts += more
        elif kind is int and -(2**63) <= value < 2**63:
            form.append(int)
            parts.append(c_int64(value))
        elif kind is float:  # numba has the same types for both
            form.append(float)
            parts.append(c_double(value))
        elif isinstance(value, tuple):
            form += kind, len(value)
            complete &= _take_apart(value, form, parts)
        else:
            plain = kind in (int, bool) or isinstance(value, np.generic)
            form += (kind, None) if plain else (kind, value)
            complete = False
    return complete


def specialize(compiled: Any, arguments: Sequence[Any]) -> Any:
    """The machine code of a kernel for the types of `arguments`, compiled on first use."""
    form: list[Any] = []
    _take_apart(arguments, form, [])
    return _code_of(compiled, arguments, tuple(form))


def _code_of(compiled: Any, arguments: Sequence[Any], form: tuple[Any, ...]) -> Any:
    forms = _FORMS.get(compiled)
    if forms is None:
        forms = _FORMS.setdefault(compiled, {})
    code = forms.get(form)
    if code is None:
        signature = tuple(compiled.typeof_pyval(argument) for argument in arguments)
        if signature not in compiled.overloads:
            compiled.compile(signature)
        code = forms[form] = compiled.overloads[signature]
    return code


class _Loaded:
    """The function of a kernel in a context, and what the driver said of it."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.index: int = function.device.id
        self.resident: dict[tuple[int, int], int] = {}  # blocks by threads and shared bytes
        self.stream = driver._to_core_stream(0)


_LOADED: WeakKeyDictionary[Any, dict[Any, _Loaded]] = WeakKeyDictionary()


def _load(code: Any) -> _Loaded:
    """Machine code of a kernel in the current context, loaded on first use."""
    handle = int(driver.binding.cuCtxGetCurrent()[1])
    contexts = _LOADED.get(code)
    if contexts is None:
        contexts = _LOADED.setdefault(code, {})
    if handle not in contexts:
        code.bind()
        contexts[handle] = _Loaded(code._codelibrary.get_cufunc())
    return contexts[handle]


def _resident_blocks(code: Any, threads: int, shared_bytes: int) -> int:
    """Largest grid whose blocks of `threads` are all resident at once."""
    known, form = _load(code).resident, (threads, shared_bytes)
    if form not in known:
        known[form] = int(code.max_cooperative_grid_blocks(*form))
    return known[form]


def launch(
    compiled: Any, blocks: Any, threads: int, arguments: Sequence[Any], shared_bytes: int = 0
) -> None:
    """Launch a kernel asynchronously, as a cooperative grid if it uses grid barriers."""
    prepared = Prepared(compiled, arguments)
    if shared_bytes:
        _allow_shared(compiled, arguments, shared_bytes)
    prepared.launch(blocks, threads, shared_bytes=shared_bytes)


class Prepared:
    """A kernel with arguments converted once; the conversion takes most of the time of a launch.

    Arrays among the arguments must stay at their address while this object is used.
    """

    def __init__(self, compiled: Any, arguments: Sequence[Any]) -> None:
        form: list[Any] = []
        self._parts: list[Any] = []
        is_complete = _take_apart(arguments, form, self._parts)
        self._kernel = _code_of(compiled, arguments, tuple(form))
        self._loaded = _load(self._kernel)
        if not is_complete:
            self._parts.clear()
            for kind, value in zip(self._kernel.argument_types, arguments, strict=True):
                self._convert(kind, value)
        self._arguments = arguments  # keeps them alive

    def cooperative_blocks(self, threads: int) -> int:
        """Largest grid whose blocks are all resident at once, as barriers require."""
        return _resident_blocks(self._kernel, threads, 0)

    def _convert(self, kind: Any, value: Any) -> None:
        """Append the machine's arguments for a value of a numba type."""
        if isinstance(value, tuple):
            for one, part in zip(kind, value, strict=True):
                self._convert(one, part)
        elif not _take_apart((value,), [], self._parts):
            self._kernel._prepare_args(kind, value, 0, [], self._parts)

    def launch(self, blocks: Any, threads: int, cluster: int = 1, shared_bytes: int = 0) -> None:
        """Launch it asynchronously, in clusters of `cluster` blocks that can synchronize."""
        stopwatch.kernel_begins()
        function = self._loaded.function
        if cluster > _USUAL_CLUSTER:
            attribute = driver.binding.CUfunction_attribute
            driver.driver.cuKernelSetAttribute(
                attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, function.handle,
                self._loaded.index,
            )  # fmt: skip
        config = _config(blocks, threads, cluster, shared_bytes, self._kernel.cooperative)
        start(self._loaded.stream, config, function.kernel, *self._parts)


@lru_cache(maxsize=512)
def _config(
    blocks: Any, threads: int, cluster: int, shared_bytes: int, cooperative: bool
) -> LaunchConfig:
    return LaunchConfig(
        grid=blocks if cluster == 1 else blocks // cluster,
        cluster=cluster if cluster > 1 else None, block=threads, shmem_size=shared_bytes,
        is_cooperative=cooperative,
    )  # fmt: skip


def shared_bytes_most(index: int) -> int:
    """Largest dynamic shared memory of a block [bytes]."""
    with cuda.gpus[index]:
        return int(cuda.get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)


@lru_cache(maxsize=8)
def cluster_most(index: int) -> int:
    """Largest cluster size [blocks]; one on devices without clusters."""
    with cuda.gpus[index]:
        generation = cuda.get_current_device().compute_capability[0]
    # Only data-centre devices support larger clusters.
    return {9: 16, 10: 16}.get(generation, _USUAL_CLUSTER if generation > 10 else 1)


def cooperative_block_count(
    compiled: Any, threads: int, arguments: Sequence[Any], shared_bytes: int = 0
) -> int:
    """Largest grid whose blocks of `threads` are all resident at once, as grid barriers require."""
    _allow_shared(compiled, arguments, shared_bytes)
    return _resident_blocks(specialize(compiled, arguments), threads, shared_bytes)


def _allow_shared(compiled: Any, arguments: Sequence[Any], shared_bytes: int) -> None:
    """Allow more than the default 48 KB of static and dynamic shared memory per block."""
    if shared_bytes == 0:
        return
    function = _load(specialize(compiled, arguments)).function
    needed = shared_bytes + function.attrs.shared
    if needed <= _USUAL_SHARED_BYTES:
        return
    most = function.device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    if needed > most:
        raise PlanError(
            f"a block needs {needed / 1e3:.0f} kB of shared memory, but the device has "
            f"{most / 1e3:.0f} kB for one"
        )
    attribute = driver.binding.CUfunction_attribute
    driver.driver.cuKernelSetAttribute(
        attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        shared_bytes,
        function.handle,
        function.device.id,
    )


def resources(compiled: Any) -> dict[str, int]:
    """Registers, and bytes of local and shared memory, of a kernel's first compiled form."""
    code = next(iter(compiled.overloads.values()))
    return {
        "registers": int(code.regs_per_thread),
        "local_bytes": int(code.local_mem_per_thread),
        "shared_bytes": int(code.shared_mem_per_block),
    }
