"""Arrays of a CUDA device, as numba-cuda has them, with less of its own work for each.

Freed memory is kept for later arrays (see `core.devices.blocks`). What arrays of one shape and type
have in common is found once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, count
from typing import Any, ClassVar, NamedTuple
from weakref import proxy

import numpy as np
from numba import cuda
from numba.cuda.core import config
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.devicearray import DeviceNDArray

from ergode.core import stopwatch
from ergode.core.devices import machine, slices
from ergode.core.devices.blocks import Blocks, block_size, blocks_of

_ALIGNED = 256

_FORMS_OF_ARRAYS: dict[Any, int] = {}
"""Numbers of the forms of arrays: a number has its hash at hand."""
_NUMBERS = count()  # no two threads get one number

_PLACE = 4
"""Which of the machine's arguments for an array is its address."""


def free_memory(index: int) -> int:
    """Bytes that could be allocated now, on a device that becomes the current one."""
    select(index)
    return int(current().get_memory_info().free) + _blocks(index).size


def _blocks(index: int) -> Blocks:
    """Kept blocks of a device, which is the current one."""
    return blocks_of(index, lambda: current().get_memory_info().total)


_CONTEXTS: dict[int, Any] = {}
"""Contexts by the driver's handle."""


def current() -> Any:
    """The current context of this thread; numba asks several calls of the driver for it."""
    handle = int(driver.binding.cuCtxGetCurrent()[1])
    context = _CONTEXTS.get(handle)
    if context is None or context.device.primary_context is not context:  # new, or it was reset
        context = cuda.current_context()
        _CONTEXTS[int(context.handle)] = context
    return context


def select(index: int) -> None:
    """Make a device the current one of this thread."""
    if current().device.id != index:
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
    return _of_layout(lengths, dtype, _memory(int(size)))


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
    context = current()
    if config.CUDA_PER_THREAD_DEFAULT_STREAM:  # kernels of two threads are in no order
        return context.memalloc(size)
    blocks, whole = _blocks(context.device.id), block_size(size)
    block = blocks.take(whole, context.memalloc)
    memory = _Memory(proxy(context), block.device_pointer, size)
    memory.in_use[id(memory)] = partial(blocks.give_back, whole, block)
    return memory


def keep_no_block_of(array: Any) -> None:
    """Free the block of an array with the array: users may read it in streams of their own."""
    memory = array.gpu_data.owner
    give_back = _Memory.in_use.pop(id(memory), None) if isinstance(memory, _Memory) else None
    if give_back is not None:
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
        form, parts = known_of(made)
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
    current().synchronize()
    stopwatch.kernels_ended()


def _wait() -> None:
    """Wait for kernels before a blocking copy, so that the copy does not count as kernel time."""
    if stopwatch.kernels_under_way():
        synchronize()


def known_of(array: Any) -> tuple[int, tuple[int, ...]]:
    """Form of an array, and the machine's arguments for it, which it keeps: it does not change."""
    flags = array.flags
    layout = flags["C_CONTIGUOUS"], flags["F_CONTIGUOUS"], 0 in array.strides
    form = _FORMS_OF_ARRAYS.setdefault((array.dtype, array.ndim, layout), next(_NUMBERS))
    # As numba does it, but without first making a view of the array.
    place = array.device_ctypes_pointer.value or 0
    parts = 0, 0, array.size, array.dtype.itemsize, place, *array.shape, *array.strides
    array.known_to_ergode = form, parts
    return form, parts
