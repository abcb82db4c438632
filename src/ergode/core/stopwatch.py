"""Time of a call: for compiling, for running kernels, and in total.

The backends `core.devices.cpu` and `cuda` tell when a compiler or a kernel begins and ends.  A
`Stopwatch` reads the times since it was made.  Nothing here synchronizes with a device: on CUDA, a
kernel counts from its launch until the host waits for it.

Who waits at a terminal or in a notebook is told that kernels are being compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer, local
from time import perf_counter
from typing import Any

_PATIENCE = 2.0
"""Seconds of compiling, without longer breaks, after which the user is told."""
_SILENCE = 60.0
"""Seconds after which the user is told again."""


class _Compiling:
    """Seconds in which any thread compiled; the threads share the compiler's lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._under_way = 0
        self._since = 0.0
        self._total = 0.0
        self._ended = self._told = -_SILENCE
        self._lately = 0.0  # without longer breaks
        self._timer: Timer | None = None
        self.quiet = 0  # calls under way that asked for silence

    def begin(self) -> None:
        with self._lock:
            if self._under_way == 0:
                self._since = perf_counter()
                if self._since - self._ended > _PATIENCE:
                    self._lately = 0.0
                if self.quiet == 0 and _somebody_waits():
                    self._timer = Timer(max(_PATIENCE - self._lately, 0.0), self._tell)
                    self._timer.daemon = True
                    self._timer.start()
            self._under_way += 1

    def end(self) -> None:
        with self._lock:
            self._under_way -= 1
            if self._under_way == 0:
                self._ended = perf_counter()
                self._total += self._ended - self._since
                self._lately += self._ended - self._since
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None

    def _tell(self) -> None:
        with self._lock:
            now = perf_counter()
            if self._timer is None or now - self._told < _SILENCE:
                return
            self._told = now
        print(
            "ergode: compiling for the first call of this kind; later calls are faster",
            file=sys.stderr, flush=True,
        )  # fmt: skip

    def hush(self, more: int) -> None:
        with self._lock:
            self.quiet += more

    def seconds(self) -> float:
        with self._lock:
            now = perf_counter() - self._since if self._under_way else 0.0
            return self._total + now


def _somebody_waits() -> bool:
    """Whether what is written to standard error is seen at once."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


@contextmanager
def quiet(wanted: bool) -> Iterator[None]:
    """Within this block the user is not told that kernels are compiled, if this is wanted."""
    _compiling.hush(wanted)
    try:
        yield
    finally:
        _compiling.hush(-wanted)


class _Running(local):
    """Seconds in which kernels of this thread ran, without compile time."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._compiled_before = 0.0
        self._total = 0.0

    @property
    def is_under_way(self) -> bool:
        return self._since is not None

    def begin(self) -> None:
        if self._since is None:
            self._compiled_before = _compiling.seconds()
            self._since = perf_counter()

    def end(self) -> None:
        if self._since is not None:
            compiling = _compiling.seconds() - self._compiled_before
            self._total += max(perf_counter() - self._since - compiling, 0.0)
            self._since = None

    def seconds(self) -> float:
        self.end()
        return self._total


_compiling = _Compiling()
_running = _Running()


def kernel_begins() -> None:
    """Record that the calling thread is about to launch a kernel."""
    _running.begin()


def kernels_ended() -> None:
    """Record that the calling thread has waited for all its kernels."""
    _running.end()


def kernels_under_way() -> bool:
    """Whether the calling thread has launched kernels since it last waited for them."""
    return _running.is_under_way


@contextmanager
def running() -> Iterator[None]:
    """Count the time of this block as kernel time."""
    on_device = _running.is_under_way  # launched, and not waited for yet
    _running.begin()
    try:
        yield
    finally:
        if not on_device:
            _running.end()


@contextmanager
def compiling() -> Iterator[None]:
    """Count the time of this block as compile time."""
    _compiling.begin()
    try:
        yield
    finally:
        _compiling.end()


def count_compiling(events: Any, kind: str) -> None:
    """Count events of this kind, in any thread, as compile time: those of the compiler's lock.

    `events` is ``numba.core.event``, or its counterpart in another compiler.
    """

    class Count(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            _compiling.begin()

        def on_end(self, event: Any) -> None:
            _compiling.end()

    events.register(kind, Count())


class Stopwatch:
    """Times since this object was made, in the thread that made it [s]."""

    def __init__(self) -> None:
        self._ran = _running.seconds()
        self._compiled = _compiling.seconds()
        self._begun = perf_counter()

    def seconds(self) -> dict[str, float]:
        """The three times in the attributes of a result.

        ``wall_seconds`` is the whole call.  ``compile_seconds`` is compiling kernels or loading
        them from disk.  ``run_seconds`` is running kernels: on CUDA, from launch to completion,
        with the copies in between.
        """
        return {
            "wall_seconds": perf_counter() - self._begun,
            "compile_seconds": _compiling.seconds() - self._compiled,
            "run_seconds": _running.seconds() - self._ran,
        }
