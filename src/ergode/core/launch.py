"""The work of a call: in chunks that fit a device, with progress, and stopped by Ctrl-C."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import numpy as np

from ergode.core import progress
from ergode.core.buffers import release
from ergode.core.devices import Device, resolve
from ergode.core.errors import InterruptionWarning, PlanError
from ergode.core.interruption import deferred, listening
from ergode.core.kernels import Kernel
from ergode.core.status import Status


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


def check_room(needed: int, what: str, remedy: str) -> None:
    """Refuse what has no room in this machine's memory, before any of it is allocated.

    Parameters
    ----------
    needed : int
        Memory that it needs [bytes].
    what, remedy : str
        As of `count_that_fits`; they name the options that the size comes from.

    Raises
    ------
    PlanError
        There is no room.
    """
    if needed > _ALWAYS_FITS:
        count_that_fits(resolve("cpu"), needed, what, remedy)


_ALWAYS_FITS = 1 << 20  # bytes; to ask for the free memory takes longer than to allocate these


def run_chunks(
    label: str,
    total: int,
    size: int,
    work: Callable[[int, int, Callable[[int], None]], bool | None],
    *,
    unit: str,
    show: bool = False,
    least: int = 0,
    cut: Callable[[int, int], int] | None = None,
) -> None:
    """Do work chunk by chunk; an interruption (Ctrl-C) ends it.

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
        progress.  It returns False if an interruption ended it.
    unit : str
        What is counted, in the plural: ``"replicates"``.
    show : bool
        Show progress on standard error.
    least : int
        If given, chunks take about a second: the first one has so many, the others a multiple.
    cut : function, optional
        ``cut(start, stop)`` is the last place up to `stop` where a chunk may end.
    """
    with deferred(), progress.track(label, total, unit=unit, show=show) as report:
        try:
            for start, stop in chunks(total, size, least, cut):
                if work(start, stop, report) is False:
                    return
        except KeyboardInterrupt:
            return


def chunks(
    total: int, size: int, least: int = 0, cut: Callable[[int, int], int] | None = None
) -> Iterator[tuple[int, int]]:
    """Chunks of work as `run_chunks` does it; Ctrl-C is heard before each."""
    size = max(size, 1)
    count, start = min(least or size, size), 0
    while start < total:
        with listening():
            pass
        stop = min(start + count, total)
        if total - stop < least:  # no small rest, for which a kernel may have another form
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
    """What the first chunk has of work of which each part has a thread: `least` of `run_chunks`.

    On CUDA it fills the device.  A CPU does small pieces of a chunk, and needs no more chunks than
    its memory does.
    """
    return _THREADS_A_MULTIPROCESSOR * device.core_count if device.is_cuda else 0


def _next_count(count: int, seconds: float, least: int, size: int) -> int:
    """How much the next chunk has, after one of `count` took so long."""
    wanted = int(count * min(_CHUNK_SECONDS / max(seconds, 1e-9), 16.0))
    return min(max(1, wanted // least) * least, size)


def run_from_first(
    device: Device, kernel: Kernel, count: int, *arguments: Any, is_brief: bool = False
) -> int:
    """Run a kernel over a range on a CPU; how much of it is done, from the first index on.

    It is less than `count` after an interruption (Ctrl-C).  What is done then no longer changes;
    the rest may, as of an `Abandoned` run.
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
    """The part of a call that Ctrl-C ends early, and that returns what was done by then.

    Within, Ctrl-C is heard where kernels run and compile (see `core.interruption`).

    Parameters
    ----------
    unit : str
        What is counted, in the plural: ``"replicates"``.
    outcome : str
        End of the warning: what happens to the part that was done.

    Warns
    -----
    InterruptionWarning
        The run was interrupted, and some of it was done.
    """

    def __init__(self, unit: str, outcome: str = "are returned") -> None:
        self._unit, self._outcome = unit, outcome
        self._deferred = deferred()
        self._done, self._total = 0, 0

    def __enter__(self) -> Interruptible:
        self._interruption = self._deferred.__enter__()
        self._is_within = self._interruption.depth > 0  # a call that hears of it later
        return self

    @property
    def was_heard(self) -> bool:
        """Whether Ctrl-C has been raised."""
        return self._interruption.was_heard

    def ends_with(self, status: np.ndarray) -> None:
        """Say how each one ended. From now on only a second Ctrl-C is heard.

        Raises
        ------
        KeyboardInterrupt
            The run was interrupted before any of it was done.
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
    """Warn at the line outside this package that called it."""
    level, frame = 1, sys._getframe()
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ergode"
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
