"""The work of a call: in chunks that fit a device, with progress, and stopped by Ctrl-C."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from ergode.core import progress
from ergode.core.buffers import release
from ergode.core.devices import Device, spans
from ergode.core.errors import InterruptionWarning, PlanError


def count_that_fits(device: Device, bytes_each: int, what: str, remedy: str) -> int:
    """How many of something fit on a device at once.

    Parameters
    ----------
    device : Device
    bytes_each : int
        Memory that one needs [bytes].
    what : str
        Name of one of them in the message: ``"one replicate of 10 nodes"``.
    remedy : str
        What a user can do: ``"use fewer times"``.

    Raises
    ------
    PlanError
        Not even one fits.
    """
    room = device.available_bytes()
    if bytes_each > room and release():  # networks of earlier calls can be sent again
        room = device.available_bytes()
    if bytes_each > room:
        raise PlanError(
            f"{what} needs {bytes_each / 1e9:.2f} GB, but {device.name} has {room / 1e9:.2f} GB "
            f"free; {remedy}"
        )
    return room // max(bytes_each, 1)


def run_chunks(
    label: str,
    total: int,
    size: int,
    work: Callable[[int, int, Callable[[int], None]], int | None],
    *,
    unit: str,
    show: bool = False,
    outcome: str = "are returned",
) -> int:
    """Do work chunk by chunk.

    Parameters
    ----------
    label : str
        What progress is called.
    total : int
        How much there is to do.
    size : int
        Most of it at a time.
    work : function
        ``work(start, stop, report)`` does a chunk; ``report(amount)`` adds to the
        progress.  It returns how much of the chunk was done, if an interruption ended it, or None.
    unit : str
        What is counted, in the plural: ``"replicates"``.
    show : bool
        Show progress on standard error.
    outcome : str
        End of the warning of an interruption: what happens to the part that was done.

    Returns
    -------
    int
        How much was done: less than `total` after an interruption (Ctrl-C).

    Warns
    -----
    InterruptionWarning
        The run was interrupted, and some of it was done.

    Raises
    ------
    KeyboardInterrupt
        The run was interrupted before any of it was done.
    """
    done = 0
    with progress.track(label, total, unit=unit, show=show) as report:
        try:
            for start, stop in spans(total, max(size, 1)):
                found = work(start, stop, report)
                done += stop - start if found is None else found
                if found is not None and found < stop - start:
                    break
        except KeyboardInterrupt:
            if done == 0:
                raise
    if done < total:
        if done == 0:
            raise KeyboardInterrupt
        warn(f"interrupted: {done} of {total} {unit} {outcome}", InterruptionWarning)
    return done


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that called it."""
    level, frame = 1, sys._getframe()
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ergode"
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
