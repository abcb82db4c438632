"""What this machine has: cores, memory, and perhaps a CUDA driver."""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress
from functools import lru_cache

import psutil

from ergode.core.devices.container import memory_limit


@lru_cache(maxsize=1)
def memory_bytes() -> int:
    """Memory that this process may ever have."""
    return int(min(psutil.virtual_memory().total, memory_limit()[0]))


@lru_cache(maxsize=1)
def free_memory(moment: int) -> int:
    """Free memory now, cached for a `moment` because the query is slow."""
    return int(min(psutil.virtual_memory().available, memory_limit()[1]))


@lru_cache(maxsize=1)
def has_cuda_driver() -> bool:
    """Whether the CUDA driver is where numba-cuda looks for it."""
    for name in ("libcuda.so.1", "libcuda.so", "nvcuda.dll"):
        for folder in ("", "/usr/lib/", "/usr/lib64/"):
            with suppress(OSError):
                ctypes.CDLL(folder + name)
                return True
    return False


def usable_cores() -> int:
    """Cores on which this process may run."""
    affinity = getattr(os, "sched_getaffinity", None)  # only on Linux
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


@lru_cache(maxsize=1)
def processor_name() -> str:
    """Name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
