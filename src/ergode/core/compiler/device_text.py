"""PTX of kernels, which needs no device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numba import cuda

from ergode.core.compiler import kernel_cache


@contextmanager
def _absent_device(capability: tuple[int, int]) -> Iterator[None]:
    """Let device functions compile for `capability` without a device."""
    from numba.cuda import dispatcher

    class Absent:
        compute_capability = capability

    original = dispatcher.get_current_device
    dispatcher.get_current_device = Absent
    try:
        yield
    finally:
        dispatcher.get_current_device = original


def ptx(
    compiled: Any,
    arguments: Sequence[Any],
    capability: tuple[int, int] = (9, 0),
    optimized: bool = True,
) -> str:
    """PTX of a kernel for arguments like these, which may be on the host.

    Needs no GPU.  Any failure to type or lower the kernel is raised here.  Unoptimised PTX takes
    half the time, but says nothing about register use.  The text is kept with the kernel's files.
    """
    function = compiled.py_func
    signature = tuple(compiled.typeof_pyval(argument) for argument in arguments)
    asked = (function.__qualname__, signature, capability, optimized)

    def make() -> str:
        with _absent_device(capability):
            if hasattr(compiled, "links"):
                return str(compiled.ptx(signature, capability, optimized))
            text, _ = cuda.compile_ptx(function, signature, cc=capability, opt=optimized)
        return str(text)

    ending = f"{hashlib.sha256(repr(asked).encode()).hexdigest()[:24]}.ptx"
    return kernel_cache.text_of(function.__module__, ending, make)
