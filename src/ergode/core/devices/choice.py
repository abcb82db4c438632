"""The devices of this machine, and the one that a name stands for."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from ergode.core.devices import machine
from ergode.core.devices.device import CPU, CUDA, Device
from ergode.core.errors import PlanError


def _door() -> Any:
    """The module `core.devices.cuda`, imported on first use."""
    from ergode.core.devices import cuda

    return cuda


def resolve(device: str | Device = "auto") -> Device:
    """The device that a name stands for.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:1", "cpu:1", ...} or Device
        ``"auto"`` is the first usable CUDA device, else the CPU. ``"cpu:2"`` is two CPU threads;
        ``"cuda:1"`` is the second CUDA device.

    Raises
    ------
    PlanError
        The name is unknown, or the device is not present.

    Examples
    --------
    >>> import ergode
    >>> ergode.Device("cpu:1").core_count
    1
    """
    if isinstance(device, Device):
        return device
    kind, number = check_name(device)
    if kind == "cpu":
        return _cpu("asked for", int(number) if number else None)
    problem = _cuda_problem()
    if kind == "auto":
        return _cuda(0, "a CUDA device is present") if not problem else _cpu(problem)
    if problem:
        raise PlanError(f"device {device!r} was asked for, but {problem}")
    return _cuda(int(number or 0), "asked for")


def check_name(device: Any) -> tuple[str, str]:
    """Kind and number in the name of a device, which may be one of another machine.

    Raises a PlanError if it is not such a name.
    """
    kind, _, number = (device.name if isinstance(device, Device) else str(device)).partition(":")
    malformed = bool(number) and (kind == "auto" or not number.isdecimal())
    if kind not in (known := ("auto", "cpu", "cuda")) or malformed:
        from ergode.core.arguments import nearest  # it imports this room

        raise PlanError(
            f"device {device!r} is unknown; expected 'auto', 'cpu', 'cpu:THREADS', 'cuda' or "
            f"'cuda:INDEX'{'' if kind in known else nearest(kind, known)}"
        )
    return kind, number


def several(device: Any) -> list[Device]:
    """The devices of a list of names, or of ``"cuda:all"``.

    Raises
    ------
    PlanError
        There are none, or one is not present.
    """
    if device == "cuda:all":
        resolve("cuda")
        return [one for one in present() if one.is_cuda]
    if not device:
        raise PlanError("device is an empty list; expected one or more devices")
    return [resolve(one) for one in device]


def present() -> list[Device]:
    """All usable devices of this machine."""
    found: list[Device] = [_cpu("always present")]
    if not _cuda_problem():
        found += [_cuda(index, "present") for index in range(_door().device_count())]
    return found


def _cpu(reason: str, threads: int | None = None) -> CPU:
    if threads is None:
        wanted = os.environ.get("ERGODE_THREADS")
        if wanted and not wanted.isdecimal():
            raise PlanError(f"ERGODE_THREADS is {wanted!r}; expected a number of threads")
        threads = int(wanted) if wanted else machine.usable_cores()
    if threads < 1:
        raise PlanError(f"device 'cpu:{threads}' needs at least one thread")
    return CPU("cpu", machine.processor_name(), threads, machine.memory_bytes(), reason)


def _cuda(index: int, reason: str) -> CUDA:
    model, memory, multiprocessors = _door().describe(index)
    return CUDA(f"cuda:{index}", model, multiprocessors, memory, reason, index)


def _cuda_problem() -> str:
    """Why CUDA cannot be used here; empty where it can."""
    if find_spec("numba_cuda") is None:
        return "numba-cuda is not installed (pip install 'ergode[cuda]')"
    # Importing numba-cuda takes a third of a second; a missing driver is found without it.
    if machine.has_cuda_driver() and _door().device_count():
        return ""
    return "no CUDA device or driver was found"
