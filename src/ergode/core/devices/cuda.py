"""CUDA backend: the only module that uses numba-cuda, with `device_*` of `compiler`.

numba-cuda is imported on first use.  Other files use this module's functions and, inside kernels,
the name `cuda`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import c_double, c_int64
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary, proxy

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
from ergode.core.devices import machine, slices
from ergode.core.devices.blocks import Blocks, block_size, blocks_of
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
_ALIGNED = 256
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


def free_memory(index: int) -> int:
    """Bytes that could be allocated now, on a device that becomes the current one."""
    select(index)
    return int(_context().get_memory_info().free) + _blocks(index).size


def _blocks(index: int) -> Blocks:
    """Kept blocks of a device, which is the current one."""
    return blocks_of(index, lambda: _context().get_memory_info().total)


_CONTEXTS: dict[int, Any] = {}
"""Contexts by the driver's handle."""


def _context() -> Any:
    """The current context of this thread; numba asks several calls of the driver for it."""
    handle = int(driver.binding.cuCtxGetCurrent()[1])
    context = _CONTEXTS.get(handle)
    if context is None or context.device.primary_context is not context:  # new, or it was reset
        context = cuda.current_context()
        _CONTEXTS[int(context.handle)] = context
    return context


def select(index: int) -> None:
    """Make a device the current one of this thread."""
    if _context().device.id != index:
        cuda.select_device(index)


def put(array: np.ndarray) -> Any:
    """Copy of a host array on the current device."""
    content = np.ascontiguousarray(array)
    there = empty(content.shape, content.dtype)
    copy_to(there, content)
    return there


def empty(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """Uninitialised array on the current device."""
    lengths = shape if isinstance(shape, tuple) else (shape,)
    known = _LAYOUTS.get((lengths, dtype))
    size = _bytes_of(lengths, np.dtype(dtype)) if known is None else known.size
    return _of_layout(lengths, dtype, _memory(size))


def zeros_together(layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """Arrays of zeros of these shapes and types, in one allocation on the current device.

    An allocation takes longer than filling a few megabytes.
    """
    starts = _starts(layouts)
    memory = empty(starts[-1], np.uint8)
    if memory.size:
        fill_zero(memory)
    return _carved(memory, layouts, starts)


def put_together(arrays: Sequence[np.ndarray]) -> list[Any]:
    """Copies of host arrays on the current device, sent in one piece."""
    layouts = [(array.shape, array.dtype) for array in arrays]
    starts = _starts(layouts)
    content = bytearray(starts[-1])
    for array, begin in zip(arrays, starts, strict=False):
        content[begin : begin + array.nbytes] = array.tobytes()
    return _carved(put(np.frombuffer(content, np.uint8)), layouts, starts)


def _starts(layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[int]:
    """Aligned offsets of arrays in one allocation, and its size."""
    sizes = [_bytes_of(shape, np.dtype(dtype)) for shape, dtype in layouts]
    return list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))


def _bytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


class _Memory(driver.MemoryPointer):  # type: ignore[misc]
    """Memory in a block that returns to the kept ones, or a part of an `owner`'s memory.

    numba's own finalizers take as long as a launch.
    """

    # By `id`, what gives a block back. It holds the block: otherwise, where both are in a cycle,
    # the block would end before the memory.
    in_use: ClassVar[dict[int, Callable[[], None]]] = {}

    def __del__(self) -> None:
        give_back = self.in_use.pop(id(self), None)
        if give_back is not None:
            give_back()


def _memory(size: int) -> Any:
    """Memory of `size` bytes on the current device, which returns to the kept blocks."""
    if size == 0:
        return None
    context = _context()
    if config.CUDA_PER_THREAD_DEFAULT_STREAM:  # kernels of two threads are in no order
        return context.memalloc(size)
    blocks, whole = _blocks(context.device.id), block_size(size)
    block = blocks.take(whole, context.memalloc)
    memory = _Memory(proxy(context), block.device_pointer, size)
    memory.in_use[id(memory)] = partial(blocks.give_back, whole, block)
    return memory


def keep_no_block_of(array: Any) -> None:
    """Free the block of an array with the array: users may read it in streams of their own."""
    if isinstance(array.gpu_data, _Memory):
        memory = array.gpu_data.owner
        if (give_back := memory.in_use.pop(id(memory), None)) is not None:
            memory.block = give_back  # holds it


class _Layout(NamedTuple):
    """What arrays of a shape and type have in common."""

    attributes: dict[str, Any]
    form: int
    before: tuple[int, ...]  # of the machine's arguments, those before the address
    after: tuple[int, ...]  # and those after it
    size: int  # bytes


_LAYOUTS: dict[Any, _Layout] = {}
"""Layouts by shape and type: numba takes longer for one than for a launch."""
_LAYOUTS_MOST = 4096


def _of_layout(shape: tuple[int, ...], dtype: Any, memory: Any) -> Any:
    """Contiguous array in this memory."""
    layout = _LAYOUTS.get((shape, dtype)) if memory is not None else None
    if layout is not None:
        made = DeviceNDArray.__new__(DeviceNDArray)
        parts = (*layout.before, int(memory.device_pointer), *layout.after)
        vars(made).update(
            layout.attributes, gpu_data=memory, known_to_ergode=(layout.form, parts)
        )  # fmt: skip
        return made
    strides = [np.dtype(dtype).itemsize]
    for length in shape[:0:-1]:
        strides.insert(0, strides[0] * length)
    made = DeviceNDArray(shape, tuple(strides[: len(shape)]), dtype, gpu_data=memory)
    if memory is not None and len(_LAYOUTS) < _LAYOUTS_MOST:
        attributes = {k: v for k, v in vars(made).items() if k != "gpu_data"}
        form, parts = _known(made)
        _LAYOUTS[shape, dtype] = _Layout(
            attributes, form, parts[:_PLACE], parts[_PLACE + 1 :], made.nbytes
        )  # fmt: skip
    return made


def _carved(memory: Any, layouts: Sequence[tuple[tuple[int, ...], Any]], starts: list[int]) -> Any:
    """Views of arrays in one allocation."""
    whole = memory.gpu_data
    if not isinstance(whole, _Memory):
        return [
            _of_layout(shape, dtype, whole.view(begin, end))
            for (shape, dtype), begin, end in zip(layouts, starts, starts[1:], strict=False)
        ]
    place, pointer = int(whole.device_pointer), driver.binding.CUdeviceptr
    return [
        _of_layout(shape, dtype, _Memory(whole.context, pointer(place + begin), end - begin, whole))
        for (shape, dtype), begin, end in zip(layouts, starts, starts[1:], strict=False)
    ]


def fill_zero(array: Any) -> None:
    """Set every byte of a device array to zero, without a kernel."""
    driver.device_memset(array, 0, array.nbytes)


def fill_missing(array: Any) -> None:
    """Set every number of a floating-point device array to NaN: all bits are 1."""
    driver.device_memset(array, 0xFF, array.nbytes)


def copy_to(target: Any, array: Any) -> None:
    """Copy an array, of the host or the device, into a device array of its shape and type."""
    if isinstance(array, DeviceNDArray):
        driver.device_to_device(target, array, array.nbytes)
    elif array.size:
        driver.host_to_device(target, np.ascontiguousarray(array), array.nbytes)


def copy_from(array: Any, target: np.ndarray) -> None:
    """Copy a device array into a contiguous host array of its shape and type."""
    _wait()
    if array.size:
        driver.device_to_host(target, array, array.nbytes)


def get(array: Any) -> np.ndarray:
    """Copy of a device array in host memory; waits for what computes it."""
    if not array.is_c_contiguous():
        _wait()
        return array.copy_to_host()
    target = slices.full(array.shape, 0, array.dtype, machine.usable_cores())
    copy_from(array, target)
    return target


def view(array: Any) -> Any:
    """Wrap another library's device array as a numba array on the same memory."""
    return cuda.as_cuda_array(array)


def synchronize() -> None:
    """Wait until everything launched has ended."""
    _context().synchronize()
    stopwatch.kernels_ended()


def _wait() -> None:
    """Wait for kernels before a blocking copy, so that the copy does not count as kernel time."""
    if stopwatch.kernels_under_way():
        synchronize()


_FORMS: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
"""Machine code by kernel and form of the arguments: numba's own lookup is 100 times slower."""

_FORMS_OF_ARRAYS: dict[Any, int] = {}
"""Numbers of the forms of arrays: a number has its hash at hand."""

_PLACE = 4
"""Which of the machine's arguments for an array is its address."""


def _take_apart(values: Sequence[Any], form: list[Any], parts: list[Any]) -> bool:
    """Append what determines the numba types of values, and the machine's arguments for them.

    Returns whether the arguments are complete: numba knows how to take other values apart.
    """
    complete = True
    for value in values:
        kind = type(value)
        if kind is DeviceNDArray:
            own, more = vars(value).get("known_to_ergode") or _known(value)
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


def _known(array: Any) -> tuple[int, tuple[int, ...]]:
    """Form of an array, and the machine's arguments for it, which it keeps: it does not change."""
    flags = array.flags
    layout = flags["C_CONTIGUOUS"], flags["F_CONTIGUOUS"], 0 in array.strides
    form = _FORMS_OF_ARRAYS.setdefault((array.dtype, array.ndim, layout), len(_FORMS_OF_ARRAYS))
    # As numba does it, but without first making a view of the array.
    place = array.device_ctypes_pointer.value or 0
    parts = 0, 0, array.size, array.dtype.itemsize, place, *array.shape, *array.strides
    array.known_to_ergode = form, parts
    return form, parts


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
