"""Arrays of CuPy, PyTorch and others on a CUDA device, and of `cuda`, in the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from ergode.core.devices import cuda
from ergode.core.errors import PlanError


def index_of(array: Any) -> int:
    """Index of the device that another library's array is on."""
    device = getattr(array, "device", None)
    index = getattr(device, "id", getattr(device, "index", 0))  # CuPy's, PyTorch's
    return index if isinstance(index, int) else 0


def library() -> Any:
    """CuPy.

    Raises
    ------
    PlanError
        It is not installed.
    """
    try:
        return import_module("cupy")
    except ImportError:
        raise PlanError(
            "keep_on_device on a CUDA device needs CuPy (pip install 'ergode[cuda]')"
        ) from None


@contextmanager
def working_on(index: int) -> Iterator[None]:
    """Within this block CuPy works on a device, in the stream of the kernels."""
    cuda.select(index)
    cupy = library()
    with cupy.cuda.Device(index), cupy.cuda.Stream.null:
        yield
    cuda.select(index)


def to_library(array: Any, copy: bool) -> Any:
    """An array, of the host or the current device, as an array of CuPy; shared if on the device."""
    if array.size == 0:
        return library().empty(array.shape, array.dtype)
    found = library().asarray(array)
    if isinstance(array, np.ndarray):
        cuda.synchronize()  # memory that is not pinned may still be on its way
        return found
    return found.copy() if copy else found


def fetched(array: Any) -> np.ndarray:
    """A copy in host memory of another library's array on any device."""
    try:
        cupy = import_module("cupy")
    except ImportError:
        return cuda.get(cuda.view(array))
    with cupy.cuda.Device(index_of(array)):
        found: np.ndarray = cupy.asnumpy(cupy.asarray(array))
    return found


def like(sample: Any, array: Any) -> Any:
    """Wrap a numba array as an array of `sample`'s library on the same memory."""
    cuda.keep_no_block_of(array)
    library = type(sample).__module__.partition(".")[0]
    if library == "cupy":
        import cupy

        return cupy.asarray(array)
    if library == "torch":
        return import_module("torch").as_tensor(array, device=sample.device)
    return array


def sort_together(by: Any, *others: Any) -> None:
    """Sort device arrays of one length by the first of them, in place."""
    import cupy

    first = cupy.asarray(by)
    order = cupy.argsort(first)
    for array in (by, *others):
        view = cupy.asarray(array)
        view[...] = view[order]
