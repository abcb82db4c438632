"""Run the work of a call in chunks that fit a device, with progress, and stop it on Ctrl-C."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import numpy as np

from ergode.core import log
from ergode.core.calls import progress, resident
from ergode.core.context import running
from ergode.core.devices import Device, resolve
from ergode.core.devices.buffers import release
from ergode.core.errors import InterruptionWarning, PlanError
from ergode.core.interruption import deferred, listening
from ergode.core.kernels import Kernel
from ergode.core.notebook import bytes_text
from ergode.core.status import Status
from ergode.core.words import counted, singular


def count_that_fits(device: Device, bytes_each: int, what: str, remedy: str) -> int:
    """Return the number of items that fit in the memory of a device.

    Parameters
    ----------
    device : Device
    bytes_each : int
        Memory per item [bytes].
    what : str
        Name of one item in the message: ``"one replicate of 10 nodes"``.
    remedy : str
        What a user can do: ``"use fewer times"``.

    Raises a PlanError if not even one fits.
    """
    room = room_on(device)
    if bytes_each > room and release():  # kept networks are dropped; a later call copies them anew
        room = room_on(device)
    if bytes_each > room:
        raise PlanError(
            f"{what} needs {bytes_each / 1e9:.2f} GB, but {device.name} has {room / 1e9:.2f} GB "
            f"free; {remedy}"
        )
    log.tell(
        "memory", f"{what} needs {bytes_text(bytes_each)} of {bytes_text(room)} on {device.name}"
    )
    return room // max(bytes_each, 1)


def room_on(device: Device) -> int:
    """Memory for one purpose: where results stay, half is for them, and half for computing."""
    stays = resident.device() is not None and device.is_cuda
    return device.available_bytes() // (2 if stays else 1)


def check_room(needed: int, what: str, remedy: str) -> None:
    """Raise an error before allocating more than the free memory for results.

    They are in the memory of this machine, or on the device if they stay there.

    Parameters
    ----------
    needed : int
        Memory to be allocated [bytes].
    what, remedy : str
        See `count_that_fits`; they name the options that determine the size.

    Raises a PlanError if the memory does not suffice.
    """
    if needed <= _ALWAYS_FITS:
        return
    if log.is_elsewhere():
        log.tell("host memory", f"{what} needs {bytes_text(needed)}")
    else:
        count_that_fits(resident.device() or resolve("cpu"), needed, what, remedy)


_ALWAYS_FITS = 1 << 20  # bytes; querying the free memory is slower than allocating these


def run_chunks(
    label: str,  # label of the progress bar
    total: int,  # number of items
    size: int,  # largest chunk
    # ``work(start, stop, report)`` processes a chunk; ``report(amount)`` adds to the progress.  It
    # returns False if it was interrupted.
    work: Callable[[int, int, Callable[[int], None]], bool | None],
    *,
    unit: str,  # name of the items, in the plural: ``"replicates"``
    show: bool = False,  # show progress on standard error
    # if given, chunks take about a second: the first has `least` items, the others a multiple
    least: int = 0,
    # ``cut(start, stop)`` returns the last index up to `stop` at which a chunk may end
    cut: Callable[[int, int], int] | None = None,
) -> None:
    """Do work chunk by chunk; an interruption (Ctrl-C) ends it."""
    with deferred(), progress.track(label, total, unit=unit, show=show) as report:
        try:
            for start, stop in chunks(total, size, least, cut, unit):
                if work(start, stop, report) is False:
                    return
        except KeyboardInterrupt:
            return


def chunks(
    total: int,
    size: int,
    least: int = 0,
    cut: Callable[[int, int], int] | None = None,
    unit: str = "replicates",
) -> Iterator[tuple[int, int]]:
    """Yield the chunks of `run_chunks`; Ctrl-C is raised before each."""
    size = max(size, 1)
    log.tell("chunks", f"{counted(total, singular(unit))}, at most {min(size, total):,} at once")
    log.computes()
    count, start = min(least or size, size), 0
    while start < total:
        with listening():
            pass
        stop = min(start + count, total)
        if total - stop < least:  # no small last chunk, for which a kernel may have another form
            stop = min(start + size, total)
        if cut is not None and stop < total:
            stop = cut(start, stop)
        began = monotonic()
        yield start, stop
        if least:
            count = _next_count(stop - start, monotonic() - began, least, size)
        start = stop


_CHUNK_SECONDS = 1.0
_THREADS_A_MULTIPROCESSOR = 2048


def least_chunk(device: Device) -> int:
    """Size of the first chunk when each item has its own thread: `least` of `run_chunks`.

    On CUDA the first chunk fills the device.  A CPU splits chunks into small pieces by itself, so
    only memory limits its chunks.
    """
    return _THREADS_A_MULTIPROCESSOR * device.core_count if device.is_cuda else 0


def _next_count(count: int, seconds: float, least: int, size: int) -> int:
    """Size of the next chunk, after a chunk of `count` items took `seconds`."""
    wanted = int(count * min(_CHUNK_SECONDS / max(seconds, 1e-9), 16.0))
    return min(max(1, wanted // least) * least, size)


def run_from_first(
    device: Device, kernel: Kernel, count: int, *arguments: Any, is_brief: bool = False
) -> int:
    """Run a kernel over a range on a CPU; return how many indices from the first on are done.

    After an interruption (Ctrl-C) this is less than `count`.  Results of the indices that are done
    no longer change; those of the others may (see `Abandoned`).
    """
    ended: list[tuple[int, int]] = []
    try:
        device.run(
            kernel, count, *arguments, finished=lambda *span: ended.append(span), piece=1,
            is_brief=is_brief,
        )  # fmt: skip
    except KeyboardInterrupt:
        done = 0
        for start, stop in sorted(ended):
            if start > done:
                break
            done = stop
        return done
    return count


class Interruptible:
    """The part of a call that Ctrl-C ends early, with the results computed so far.

    Inside it, Ctrl-C is raised only while kernels run or compile (see `core.interruption`).

    Parameters
    ----------
    unit : str
        Name of the items, in the plural: ``"replicates"``.
    outcome : str
        End of the warning: what happens to the completed items.

    Warns
    -----
    InterruptionWarning
        The run was interrupted after some items were completed.
    """

    def __init__(self, unit: str, outcome: str = "are returned") -> None:
        self._unit, self._outcome = unit, outcome
        self._deferred = deferred()
        self._done, self._total = 0, 0

    def __enter__(self) -> Interruptible:
        self._interruption = self._deferred.__enter__()
        self._is_within = self._interruption.depth > 0  # an outer call raises it later
        return self

    @property
    def was_heard(self) -> bool:
        """Whether Ctrl-C has been raised."""
        return self._interruption.was_heard

    def ends_with(self, status: np.ndarray) -> None:
        """Record how each item ended. From now on only a second Ctrl-C is raised.

        Raises a KeyboardInterrupt if the run was interrupted before any item was completed.
        """
        self._total = status.size
        self._done = int((status != Status.NOT_RUN).sum())
        if self._done == 0 < self._total:
            raise KeyboardInterrupt
        self._interruption.is_late = True

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        came = self._interruption.came and not self._is_within
        self._interruption.is_late = False
        self._deferred.__exit__(None, None, None)
        if kind is None and (came or self._done < self._total):
            warn(
                f"interrupted: {self._done} of {self._total} {self._unit} {self._outcome}",
                InterruptionWarning,
            )


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning located at the caller's line outside this package."""
    kept = running().warnings
    if kept is not None:
        return kept.append((message, category))
    level, frame = 1, sys._getframe()
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ergode"
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
