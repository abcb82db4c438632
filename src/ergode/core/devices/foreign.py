"""Arrays of other libraries on a CUDA device: CuPy, PyTorch, JAX, Numba.

They have the CUDA array interface, which names the memory and the stream that fills it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.devices.choice import resolve
from ergode.core.devices.device import Device
from ergode.core.errors import ModelError


def is_on_cuda(array: Any) -> bool:
    """Whether it is an array on a CUDA device.

    Raises a ModelError if it is, and does not show where: a tensor of PyTorch with gradients.
    """
    try:
        return hasattr(array, "__cuda_array_interface__")
    except (RuntimeError, TypeError) as error:
        said = str(error).partition("\n")[0]
        raise ModelError(f"an array on a CUDA device cannot be read: {said}") from None


def holding(array: Any) -> Device:
    """The CUDA device that an array is on.

    Raises a PlanError if CUDA cannot be used here.
    """
    resolve("cuda")
    from ergode.core.devices import libraries

    return resolve(f"cuda:{libraries.index_of(array)}")


def fetched(array: Any) -> np.ndarray:
    """A copy in host memory of an array on a CUDA device; it waits for the stream that fills it.

    Raises a PlanError if CUDA cannot be used here.
    """
    resolve("cuda")
    from ergode.core.devices import libraries

    found: np.ndarray = libraries.fetched(array)
    return found


def on_host(array: Any) -> np.ndarray:
    """The array in host memory: a copy of one on a CUDA device (see `fetched`).

    Masked numbers become NaN.
    """
    if np.ma.is_masked(array) and np.asarray(array).dtype.kind in "biuf":
        array = np.ma.filled(array.astype(np.float64), np.nan)
    return np.asarray(fetched(array) if is_on_cuda(array) else array)
